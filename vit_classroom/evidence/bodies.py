"""The start of a transfer, and its control: trained weights in all but the head, or weights that never learned."""

import copy

from torch import Tensor, nn

from vit_course.vit import init_head, init_weights

HEAD_PARTS = ("pre_logits", "head")
"""What belongs to a task and not to the body: these parts are made anew for every task."""


def load_body(model: nn.Module, state_dict: dict[str, Tensor]) -> nn.Module:
    """Load trained weights into a model, all but the head, in place: the start of a transfer.

    `head` and `pre_logits` of the model stay as they are, and those of the weights are not read. All the rest must fit,
    name by name and shape by shape.

    Args:
        model: takes the weights.
        state_dict: tensors by name, as `model.state_dict()` or `load_weights` gives them.

    Returns:
        The same model.

    Raises:
        ValueError: if weights of the body are missing, left over or of another shape; then nothing is changed.
    """
    own = {name: value for name, value in model.state_dict().items() if not in_head(name)}
    given = {name: value for name, value in state_dict.items() if not in_head(name)}
    faults = [f"{name} is missing" for name in own if name not in given]
    faults += [f"{name} is not in the model" for name in given if name not in own]
    for name, value in given.items():
        if name in own and own[name].shape != value.shape:
            faults.append(f"{name} is {tuple(value.shape)}, the model's is {tuple(own[name].shape)}")
    if faults:
        more = f" and {len(faults) - 4} more" if len(faults) > 4 else ""
        sizes = (
            "; for pictures of another size see change_resolution" if "pos_embed is" in str(faults) else ""
        )
        raise ValueError(f"the weights do not fit: {'; '.join(faults[:4])}{more}{sizes}")
    model.load_state_dict(given, strict=False)
    return model


def in_head(name: str) -> bool:
    """Tell whether a weight belongs to the head of a ViT, or of the ViT in a hybrid."""
    return name.removeprefix("vit.").split(".")[0] in HEAD_PARTS


def untrained(model: nn.Module) -> nn.Module:
    """Return a copy of a model with new weights, as before any training: the control of every transfer.

    Matrices are drawn as `VisionTransformer` draws them, tokens and positions with deviation .02. Factors become 1,
    biases 0, and the head 0. What does not learn, such as a fixed table of positions, stays.
    """
    model = copy.deepcopy(model)
    for name, value in model.named_parameters():
        if value.requires_grad and value.ndim > 1:
            nn.init.trunc_normal_(value, std=0.02)
        elif value.requires_grad:
            nn.init.constant_(value, float(name.endswith(("weight", "gamma", "scale"))))
    model.apply(init_weights)
    if isinstance(model.head, nn.Linear):
        init_head(model.head)
    return model
