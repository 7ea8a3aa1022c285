"""How weights are changed: the schedule of the learning rate, who decays, who learns slower, and the optimisers.

Lesson 07 builds schedule and decay groups, lesson 12 shows the rates by layer; `train` uses all of it.
"""

import math
import re

import torch
from torch import nn


def learning_rate(step: int, total_steps: int, warmup_steps: int, peak: float) -> float:
    """Return the learning rate of one step: a linear rise, then half a cosine down to zero.

    With w warm-up steps and n steps after them: peak·(s + 1)/w in step s < w, then peak·(1 + cos(π·k/n))/2 in the
    k-th step after the warm-up, k = 1 ... n.

    Args:
        step: number s of the step, the first is 0.
        total_steps: steps of the whole run, w + n.
        warmup_steps: steps w of the rise, 0 for none; the last of them runs at the peak.
        peak: highest learning rate.

    Returns:
        The learning rate: above 0 at step 0, 0 at the last step.
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = (step + 1 - warmup_steps) / max(1, total_steps - warmup_steps)
    return peak * (1 + math.cos(math.pi * progress)) / 2


def weight_decay_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Split the trainable parameters: weight matrices decay; norms, biases, CLS token and positions do not.

    Counting axes is not enough: the CLS token and the positions have three.

    Args:
        model: any model; the kernel of a convolution is a weight matrix too.
        weight_decay: decay of the matrices; the other parameters get 0.

    Returns:
        Groups for an optimiser: a list of dicts {"params": list of parameters, "weight_decay": number}. Every
        trainable parameter is in exactly one of them, once; frozen ones are in none.
    """
    decayed, kept = [], []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        is_matrix = parameter.ndim >= 2 and name.endswith("weight")
        (decayed if is_matrix else kept).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def layer_scale(name: str, depth: int, decay: float) -> float:
    """Say by which number a parameter's learning rate is multiplied: the lower its layer, the smaller.

    The layers of a ViT with L blocks count from 0 to L + 1. Layer 0 are the embeddings: `cls_token`,
    `pos_embed`, `pos_drop` (2-D positions), `patch_embed`, and the `backbone` of a hybrid. Block i, `blocks.i`,
    is layer i + 1. Layer L + 1 are `norm`, `pre_logits` and `head`. The number is decay^(L + 1 - layer).
    (Clark et al., 2020; BEiT and MAE use it.)

    Args:
        name: name of a parameter as `model.named_parameters()` gives it, for example
            "blocks.2.attn.qkv.weight". In a hybrid the names of the ViT begin with "vit.", which does not
            count.
        depth: number of blocks L.
        decay: above 0 and at most 1; 1 gives every layer the same rate.

    Returns:
        The multiplier, a float: 1 for the head.

    Raises:
        ValueError: if the name is of no part of a ViT, or of a block that is not there.
    """
    part, *rest = name.removeprefix("vit.").split(".")
    if part in ("cls_token", "pos_embed", "pos_drop", "patch_embed", "backbone"):
        layer = 0
    elif part == "blocks" and rest and rest[0].isdigit() and int(rest[0]) < depth:
        layer = int(rest[0]) + 1
    elif part in ("norm", "pre_logits", "head"):
        layer = depth + 1
    else:
        raise ValueError(
            f"{name!r} is in no layer of a ViT with {depth} blocks: layer-wise rates need timm's names"
        )
    return float(decay ** (depth + 1 - layer))


def make_optimizers(
    model: nn.Module,
    optimizer: str = "adamw",
    lr: float = 1e-3,
    weight_decay: float = 0.05,
    layer_decay: float = 1.0,
    fused: bool = False,
) -> list[torch.optim.Optimizer]:
    """Build the optimisers of a run; each group remembers its peak learning rate, "peak_lr".

    Args:
        model: its trainable parameters are shared out among the optimisers.
        optimizer: "adamw", "sgd" (Nesterov, momentum .9), or "muon" for the hidden matrices and AdamW for the rest.
        lr: peak learning rate.
        weight_decay: decay of weight matrices.
        layer_decay: factor between the rates of neighbouring layers (`layer_scale`); 1 for none.
        fused: update all weights in one kernel, where the optimiser can: AdamW.

    Raises:
        ValueError: if the optimiser is unknown, or this torch does not have it.
    """
    groups = weight_decay_groups(model, weight_decay)
    if layer_decay != 1:
        groups = layer_groups(model, groups, lr, layer_decay)
    if optimizer == "adamw":
        optimizers = [torch.optim.AdamW(groups, lr=lr, fused=fused or None)]
    elif optimizer == "sgd":
        optimizers = [torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True)]
    elif optimizer == "muon":
        optimizers = muon_and_adamw(model, groups, lr, weight_decay)
    else:
        raise ValueError(f"optimizer {optimizer!r} is unknown: use 'adamw', 'sgd' or 'muon'")
    for made in optimizers:
        for group in made.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers


def layer_groups(model: nn.Module, groups: list[dict], lr: float, decay: float) -> list[dict]:
    """Split groups of parameters further, by learning rate: the nearer to the input, the smaller (`layer_scale`)."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    depth = 1 + max(
        (int(number) for number in re.findall(r"blocks\.(\d+)\.", " ".join(names.values()))), default=-1
    )
    if not depth:
        raise ValueError(f"layer_decay {decay:g} is for a ViT: this model has no blocks, so it should be 1")
    split = []
    for group in groups:
        scales: dict[float, list] = {}
        for parameter in group["params"]:
            scale = layer_scale(names[parameter], depth, decay)
            scales.setdefault(scale, []).append(parameter)
        split += [{**group, "params": params, "lr": scale * lr} for scale, params in scales.items()]
    return split


def muon_and_adamw(
    model: nn.Module, groups: list[dict], lr: float, weight_decay: float
) -> list[torch.optim.Optimizer]:
    """Give the hidden matrices, those of the blocks, to Muon and all other parameters to AdamW."""
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(
            f"optimizer 'muon' needs torch 2.9 or newer, this is {torch.__version__}; use 'adamw'"
        )
    names = ((name, p) for name, p in model.named_parameters() if "blocks." in name)
    hidden = {id(p) for name, p in names if name.endswith(".weight") and p.ndim == 2}
    if not hidden:
        raise ValueError("optimizer 'muon' found no matrices in blocks; it is meant for a VisionTransformer")
    matrices = [{**group, "params": [p for p in group["params"] if id(p) in hidden]} for group in groups]
    matrices = [group for group in matrices if group["params"]]
    others = [{**group, "params": [p for p in group["params"] if id(p) not in hidden]} for group in groups]
    muon = torch.optim.Muon(matrices, lr=lr, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(others, lr=lr)]


def set_rates(optimizers: list[torch.optim.Optimizer], share: float) -> None:
    """Set the learning rate of every group to a share of its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = share * group["peak_lr"]
