"""How weights are changed: the schedule of the learning rate, who decays, who learns slower, and the optimisers.

Lesson 07 builds the schedule, 12 shows the rates by layer, 14 decay groups, 16 `newton_schulz`. `train` uses them.
"""

import math
import re

import torch
from torch import Tensor, nn


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


def linear_schedule(step: int, total_steps: int, warmup_steps: int, peak: float) -> float:
    """Return the learning rate of one step: a linear rise, then a straight line down to zero at the last step.

    Arguments and result are those of `learning_rate`.
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    return peak * (total_steps - 1 - step) / max(1, total_steps - warmup_steps)


SCHEDULES = {"cosine": learning_rate, "linear": linear_schedule}


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
        where = f"no layer of a ViT with {depth} blocks"
        raise ValueError(f"{name!r} is in {where}: layer-wise rates need timm's names")
    return float(decay ** (depth + 1 - layer))


def make_optimizers(
    model: nn.Module,
    optimizer: str = "adamw",
    lr: float = 1e-3,
    weight_decay: float = 0.05,
    layer_decay: float = 1.0,
    fused: bool = False,
    **muon,
) -> list[torch.optim.Optimizer]:
    """Build the optimisers of a run; each group remembers its peak learning rate, "peak_lr".

    Args:
        model: its trainable parameters are shared out among the optimisers.
        optimizer: "adamw", "sgd" (Nesterov, momentum .9), or "muon" for the hidden matrices and AdamW for the rest.
        lr: peak learning rate.
        weight_decay: decay of weight matrices.
        layer_decay: factor between the rates of neighbouring layers (`layer_scale`); 1 for none.
        fused: update all weights in one kernel, where the optimiser can: AdamW.
        muon: further arguments of `muon_and_adamw`.

    Raises:
        ValueError: if the optimiser is unknown, every parameter is frozen, or Muon has nothing to do.
    """
    groups = weight_decay_groups(model, weight_decay)
    if not any(group["params"] for group in groups):
        raise ValueError("there is nothing to train: every parameter of the model is frozen")
    if layer_decay != 1:
        groups = layer_groups(model, groups, lr, layer_decay)
    if optimizer == "adamw":
        optimizers = [torch.optim.AdamW(groups, lr=lr, fused=fused or None)]
    elif optimizer == "sgd":
        optimizers = [torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True)]
    elif optimizer == "muon":
        optimizers = muon_and_adamw(model, groups, lr, fused, **muon)
    else:
        raise ValueError(f"optimizer {optimizer!r} is unknown: use 'adamw', 'sgd' or 'muon'")
    for made in optimizers:
        for group in made.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers


def layer_groups(model: nn.Module, groups: list[dict], lr: float, decay: float) -> list[dict]:
    """Split groups of parameters further, by learning rate: the nearer to the input, the smaller (`layer_scale`)."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    numbers = re.findall(r"blocks\.(\d+)\.", " ".join(names.values()))
    depth = 1 + max(map(int, numbers), default=-1)
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


def newton_schulz(matrices: Tensor, steps: int = 5) -> Tensor:
    """Push the singular values of matrices towards 1, and keep their singular vectors (Jordan et al., 2024).

    First each matrix is divided by the root of the sum of its squares (its Frobenius norm), plus 1e-7 so that zeros
    stay zeros. No singular value is above 1 then. A step turns X into a·X + b·(X Xᵀ) X + c·(X Xᵀ)(X Xᵀ) X with
    a, b, c = 3.4445, -4.7750, 2.0315. It acts on every singular value s alone, as a·s + b·s³ + c·s⁵. After five steps
    those that were not tiny are between 0.68 and 1.21.

    Args:
        matrices: (..., rows, columns), float, one matrix or many of one shape, each for itself.
        steps: number of steps. With 0 steps a matrix is only divided.

    Returns:
        Matrices of the same shape and dtype.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices  # the same result, and X Xᵀ is the small product
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


def muon_and_adamw(
    model: nn.Module,
    groups: list[dict],
    lr: float,
    fused: bool = False,
    rest_lr: float = 0.0,
    qkv_matrices: int = 1,
    dtype: torch.dtype = torch.float32,
) -> list[torch.optim.Optimizer]:
    """Give the hidden matrices to Muon and all other parameters to AdamW.

    Hidden are the matrices of a ViT's blocks, and the kernels of a ResNet's convolutions but for the first, which
    reads the picture: a kernel (out, in, height, width) is a matrix of out rows. AdamW has the rest: the first
    convolution or the patch projection, positions, norms, biases and the head.

    Args:
        model: a ViT, a ResNet, or a hybrid, which has both.
        groups: of `weight_decay_groups`.
        lr: peak learning rate of Muon.
        fused: for AdamW.
        rest_lr: peak learning rate of AdamW; 0 for Muon's.
        qkv_matrices: as how many matrices Muon takes the weight of `attn.qkv`, 1 or 3.
        dtype: in which Muon multiplies matrices.

    Raises:
        ValueError: if there are neither blocks nor convolutions behind the first, or all of them are frozen.
    """
    hidden, kernels = {}, []
    for name, parameter in model.named_parameters():
        if "blocks." in name and name.endswith(".weight") and parameter.ndim == 2:
            hidden[parameter] = qkv_matrices if ".attn.qkv." in name else 1
        elif parameter.ndim == 4 and name.endswith("weight") and "patch_embed." not in name:
            kernels.append(parameter)
    hidden |= dict.fromkeys(kernels[1:], 1)
    if not hidden:
        meant = "it is meant for a VisionTransformer or a ResNet"
        raise ValueError(f"optimizer 'muon' found no hidden matrices: {meant}")
    if not any(p.requires_grad for p in hidden):
        raise ValueError("optimizer 'muon' has no matrix to train: the hidden ones are frozen; use 'adamw'")
    matrices, others = [], []
    for group in groups:
        for parts in sorted(set(hidden.values())):
            chosen = [p for p in group["params"] if hidden.get(p) == parts]
            matrices += [{**group, "params": chosen, "parts": parts}] if chosen else []
        rate = {"lr": group.get("lr", lr) * (rest_lr or lr) / lr}
        others.append({**group, **rate, "params": [p for p in group["params"] if p not in hidden]})
    muon = Muon(matrices, lr=lr, dtype=dtype)
    return [muon, torch.optim.AdamW(others, fused=fused or None)]


class Muon(torch.optim.Optimizer):
    """Momentum whose update is made orthogonal, for weight matrices (Jordan et al., 2024).

    Matrices of the same shape go through `newton_schulz` together, which torch's own Muon does not do. Updates are
    scaled by 0.2·sqrt(longer side), to the size of AdamW's (Liu et al., 2025), so that rates of AdamW fit.

    Args:
        params: matrices, or groups of them; a group's "parts" says into how many equal ones each is cut along its
            rows, for example 3 for q, k and v in one. The kernel of a convolution counts as a matrix of out rows.
        lr: learning rate.
        weight_decay: taken from the weights beside the gradient, as in AdamW.
        momentum: share of the older gradients in the mean; Nesterov's look ahead is on.
        dtype: in which matrices are multiplied.

    Attributes:
        orthogonalize: what is done to a stack of updates, (matrices, rows, columns): `newton_schulz`, perhaps recorded.
    """

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, dtype=torch.bfloat16):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "parts": 1})
        self.dtype, self.orthogonalize = dtype, newton_schulz

    @torch.no_grad()
    def step(self, closure=None) -> None:
        """Change every matrix that has a gradient."""
        for group in self.param_groups:
            waiting: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            for p in params:
                if "momentum_buffer" not in self.state[p]:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p)
            means, grads = [self.state[p]["momentum_buffer"] for p in params], [p.grad for p in params]
            torch._foreach_lerp_(means, grads, 1 - group["momentum"])
            updates = torch._foreach_lerp(grads, means, group["momentum"])
            for p, update in zip(params, updates, strict=True):
                rows = as_matrix(p, p), as_matrix(update, p)
                for part, change in zip(*(matrix.chunk(group["parts"]) for matrix in rows), strict=True):
                    if part.shape[0] > part.shape[1]:
                        part, change = part.mT, change.mT
                    waiting.setdefault(tuple(part.shape), []).append((part, change))
            for shape, pairs in waiting.items():
                parts, changes = zip(*pairs, strict=True)
                changes = self.orthogonalize(torch.stack(changes).to(self.dtype)).float().unbind()
                torch._foreach_mul_(parts, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(parts, changes, alpha=-group["lr"] * 0.2 * max(shape) ** 0.5)


def as_matrix(weight: Tensor, like: Tensor) -> Tensor:
    """Return a kernel (out, in, height, width) as a matrix of out rows, and a matrix as it is.

    The columns follow the memory of `like`, so that the matrix of `like` itself shares that memory.
    """
    if weight.ndim == 2:
        return weight
    if not like.is_contiguous():  # its channels lie last
        weight = weight.permute(0, 2, 3, 1)
    return weight.flatten(1)


def set_rates(optimizers: list[torch.optim.Optimizer], share: float) -> None:
    """Set the learning rate of every group to a share of its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = share * group["peak_lr"]
