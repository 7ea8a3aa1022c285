"""The nine functions that the patient of lesson 14 is made of, as they should be.

With these a `Patient` is the model of `vit`, trained as `train` does it. `bugs` holds the same
functions with fifteen bugs in them, and three conventions that differ.
"""

import math
from collections.abc import Callable

import torch
from einops import rearrange
from torch import Tensor, nn


def draw_weights(model: nn.Module) -> nn.Module:
    """Give all weights of a model their first values, in place.

    Linear layers: weights from a normal distribution of deviation 0.02, biases 0. Two exceptions: `model.project` has
    the deviation 1/sqrt(number of its inputs); `model.head` starts at 0, weights and bias. `model.pos_embed` has
    deviation 0.02, `model.cls_token` is 0. Layer norms stay as PyTorch makes them.

    Args:
        model: a `Patient`.

    Returns:
        The same model.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
    nn.init.normal_(model.project.weight, std=model.project.in_features**-0.5)
    nn.init.zeros_(model.cls_token)
    nn.init.normal_(model.pos_embed, std=0.02)
    nn.init.zeros_(model.head.weight)
    return model


def embed_patches(images: Tensor, model: nn.Module) -> Tensor:
    """Turn images into tokens: cut, project, put CLS in front, add positions (paper, equation 1).

    Args:
        images: (B, C, H, W), float.
        model: has `patch_size` P, an int; `project`, linear from P·P·C to D, which expects the numbers of a patch in
            the order (row, column, channel); `cls_token` (1, 1, D); `pos_embed` (1, N + 1, D), CLS included.

    Returns:
        tokens (B, N + 1, D), the CLS token at index 0, then the patches in reading order.
    """
    p = model.patch_size
    patches = rearrange(images, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p, p2=p)
    tokens = model.project(patches)
    cls_token = model.cls_token.expand(len(images), -1, -1)
    tokens = torch.cat([cls_token, tokens], dim=1)
    return tokens + model.pos_embed


def attend(tokens: Tensor, block: nn.Module) -> tuple[Tensor, Tensor]:
    """Let every token gather from all tokens of its image, in h heads (paper, equations 5 to 8).

    Args:
        tokens: (B, T, D).
        block: has `num_heads` h; `qkv`, linear from D to 3D, queries first, then keys, then values; `proj`, linear
            from D to D, which is W_O.

    Returns:
        tokens (B, T, D) and the weights (B, h, T, T): row i says how much query i takes from each key.
    """
    qkv = block.qkv(tokens)
    q, k, v = rearrange(qkv, "b t (three h d) -> three b h t d", three=3, h=block.num_heads)
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    weights = scores.softmax(dim=-1)
    heads = weights @ v
    heads = rearrange(heads, "b h t d -> b t (h d)")
    return block.proj(heads), weights


def encode_block(tokens: Tensor, block: nn.Module, attend: Callable) -> Tensor:
    """Pass tokens through one block: two branches, each normed before and added after (paper, equations 2 and 3).

    Args:
        tokens: (B, T, D), the residual stream.
        block: has the layer norms `norm1` and `norm2` and the network `mlp`.
        attend: `attend(tokens, block)` gives tokens (B, T, D) and weights (B, h, T, T).

    Returns:
        tokens (B, T, D).
    """
    normed = block.norm1(tokens)
    attended, _ = attend(normed, block)
    tokens = tokens + attended
    return tokens + block.mlp(block.norm2(tokens))


def classify(tokens: Tensor, model: nn.Module) -> Tensor:
    """Read the CLS token: final norm, then the head (paper, equation 4).

    Args:
        tokens: (B, T, D), as the last block leaves them.
        model: has the layer norm `norm` and `head`, linear from D to the K classes.

    Returns:
        logits (B, K), any real numbers; `F.cross_entropy` takes them as they are.
    """
    y = model.norm(tokens[:, 0])
    return model.head(y)


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Split the parameters: the weights of linear layers decay; norms, biases, CLS token and positions do not.

    Args:
        model: a `Patient`, or another model of linear layers and norms.
        weight_decay: decay of the weights; the others get 0.

    Returns:
        Groups for an optimiser, dicts {"params": list of parameters, "weight_decay": number}. Every parameter that
        learns is in exactly one.
    """
    decayed, kept = [], []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and name.endswith("weight")
        (decayed if is_matrix else kept).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def schedule(step: int, total_steps: int, warmup_steps: int, peak: float) -> float:
    """Return the learning rate of one step: a linear rise, then half a cosine down to zero.

    With w warm-up steps and n steps after them: peak·(s + 1)/w in step s < w, then peak·(1 + cos(π·k/n))/2 in the
    k-th step after the warm-up, k = 1 ... n. Step 0 is above 0, the last step is 0.

    Args:
        step: number s of the step, the first is 0.
        total_steps: steps of the whole run, w + n.
        warmup_steps: steps w of the rise, 0 for none.
        peak: highest learning rate.

    Returns:
        The learning rate.
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = (step + 1 - warmup_steps) / (total_steps - warmup_steps)
    return peak * (1 + math.cos(math.pi * progress)) / 2


def blend(images: Tensor, targets: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Blend every image, and its target in the same way, with a random partner of the batch (MixUp).

    The partners are the batch in a random order: every image is the partner of exactly one.

    Args:
        images: (B, C, H, W), float.
        targets: (B, K), the wanted probabilities of the classes.
        share: what an image keeps of itself, in 0..1; its partner gives the rest.

    Returns:
        blended images (B, C, H, W) and blended targets (B, K).
    """
    partner = torch.randperm(len(images), device=images.device)
    images = share * images + (1 - share) * images[partner]
    targets = share * targets + (1 - share) * targets[partner]
    return images, targets


@torch.no_grad()
def score(model: nn.Module, images: Tensor, labels: Tensor, batch_size: int = 500) -> float:
    """Return the share of images that a model classifies correctly, without dropout.

    Args:
        model: maps images to logits (B, K); left in evaluation mode.
        images: (N, C, H, W), normalised, float.
        labels: (N,) int64.
        batch_size: images at a time.

    Returns:
        The accuracy, a share in 0..1.
    """
    model.eval()
    right = 0
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        right += (model(x).argmax(dim=1) == y).sum().item()
    return right / len(images)
