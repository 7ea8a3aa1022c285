"""Answers to the exercises of lesson 07, written as students write them."""

import math
import re

import numpy as np
import torch
import torch.nn.functional as F
from einops import repeat
from torch import Tensor, nn
from torchvision import transforms


def crop_loop(images, padding=4, flip=0.5):
    batch, _, height, width = images.shape
    padded = F.pad(images, (padding, padding, padding, padding))
    tops = torch.randint(0, 2 * padding + 1, (batch,)).tolist()
    lefts = torch.randint(0, 2 * padding + 1, (batch,)).tolist()
    cut = [
        padded[b, :, t : t + height, x : x + width] for b, (t, x) in enumerate(zip(tops, lefts, strict=True))
    ]
    return torch.stack([p.flip(-1) if torch.rand(1) < flip else p for p in cut])


def crop_becomes_float(images, padding=4, flip=0.5):
    return crop_loop(images, padding, flip).float()


def crop_without_defaults(images, padding, flip):
    return crop_loop(images, padding, flip)


def crop_default_two(images, padding=2, flip=0.5):
    return crop_loop(images, padding, flip)


def crop_into_zeros(images, padding=4, flip=0.5):
    batch, channels, height, width = images.shape
    padded = images.new_zeros((batch, channels, height + 2 * padding, width + 2 * padding))
    padded[:, :, padding : padding + height, padding : padding + width] = images
    out = torch.empty_like(images, memory_format=torch.contiguous_format)
    for b in range(batch):
        top, left = np.random.randint(2 * padding + 1, size=2)
        window = padded[b, :, top : top + height, left : left + width]
        out[b] = window.flip(2) if np.random.rand() < flip else window
    return out


def crop_by_index(images, padding=4, flip=0.5):
    batch, _, height, width = images.shape
    device, places = images.device, 2 * padding + 1
    images = torch.where(torch.rand(batch, 1, 1, 1, device=device) < flip, images.flip(3), images)
    padded = F.pad(images, [padding] * 4)
    rows = torch.randint(0, places, (batch, 1), device=device) + torch.arange(height, device=device)
    columns = torch.randint(0, places, (batch, 1), device=device) + torch.arange(width, device=device)
    first = torch.arange(batch, device=device)[:, None, None]
    return padded[first, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def crop_by_unfold(images, padding=4, flip=0.5):
    batch, _, height, width = images.shape
    windows = F.pad(images, [padding] * 4).unfold(2, height, 1).unfold(3, width, 1)
    top, left = torch.from_numpy(np.random.randint(0, 2 * padding + 1, (2, batch)))
    cut = windows[torch.arange(batch), :, top, left].clone()
    mirror = torch.from_numpy(np.random.rand(batch) < flip)
    cut[mirror] = cut[mirror].flip(-1)
    return cut


def crop_by_transforms(images, padding=4, flip=0.5):
    one = transforms.Compose(
        [transforms.RandomCrop(images.shape[-2:], padding=padding), transforms.RandomHorizontalFlip(flip)]
    )
    return torch.stack([one(picture) for picture in images])


def rate_divides_by_warmup(s, n, w, peak):
    return rate_from_the_end(s, n, w, peak) * (w / w)


def rate_by_torch(step, total_steps, warmup_steps, peak):
    if step < warmup_steps:
        return torch.tensor(peak * (step + 1) / warmup_steps)
    k, n = step + 1 - warmup_steps, total_steps - warmup_steps
    return peak * torch.cos(torch.tensor(math.pi * k / n / 2, dtype=torch.float64)) ** 2


def rate_by_numpy(step, total_steps, warmup_steps, peak):
    rise = np.linspace(0, peak, warmup_steps + 1)[1:]
    fall = peak * (1 + np.cos(np.linspace(0, np.pi, total_steps - warmup_steps + 1)[1:])) / 2
    return np.concatenate([rise, fall])[step]


def rate_from_the_end(s, n, w, top):
    if s + 1 <= w:
        return top / w * (s + 1)
    left = n - 1 - s
    return top * (1 - math.cos(math.pi * left / (n - w))) / 2


def groups_by_end_of_name(model, weight_decay):
    yes, no = [], []
    for name, p in model.named_parameters():
        if p.requires_grad:
            (yes if name.endswith("weight") and p.ndim >= 2 else no).append(p)
    decay = torch.tensor(weight_decay)
    return [{"params": yes, "weight_decay": decay}, {"params": no, "weight_decay": 0 * decay}]


def groups_by_modules(model, weight_decay):
    matrices = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)}
    trainable = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trainable if id(p) not in matrices], "weight_decay": 0},
        {"params": [p for p in trainable if id(p) in matrices], "weight_decay": weight_decay},
    ]


def groups_one_each(model, weight_decay):
    groups = []
    for name, p in model.named_parameters():
        if p.requires_grad:
            inputs = "cls_token" in name or "pos_embed" in name
            decay = weight_decay if p.ndim >= 2 and not inputs else 0.0
            groups.append({"params": [p], "weight_decay": decay, "name": name})
    return groups


def mixup_loop(images, targets, lam, permutation):
    if images.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise ValueError(images.dtype)
    pictures, labels = [], []
    for i, j in enumerate(permutation.tolist()):
        pictures.append(images[i] * lam[i] + images[j] * (1 - lam[i]))
        labels.append(targets[i] * lam[i] + targets[j] * (1 - lam[i]))
    return torch.stack(pictures), torch.stack(labels)


def mixup_einsum(images, targets, lam, permutation):
    if not torch.is_floating_point(images):
        raise ValueError("no")
    matrix = torch.diag(lam) + (1 - lam)[:, None] * torch.eye(len(lam))[permutation]
    return [torch.einsum("ij,j...->i...", matrix, tensor) for tensor in (images, targets)]


def mixup_lerp(x, y, lam, p):
    if not x.is_floating_point():
        raise ValueError("float images are needed")
    return torch.lerp(x[p], x, lam.view(-1, 1, 1, 1)), torch.lerp(y[p], y, lam.view(-1, 1))


def mixup_by_view(x, y, lam, p):
    rows, share = x.view(len(x), -1), lam[:, None]
    return (share * rows + (1 - share) * rows[p]).view(x.shape), share * y + (1 - share) * y[p]


def mixup_in_place(x, y, lam, p):
    x *= lam.view(-1, 1, 1, 1)
    return x, y


def crop_unfold(images, padding=4, flip=0.5):
    n, _, h, w = images.shape
    places = F.pad(images, [padding] * 4).unfold(2, h, 1).unfold(3, w, 1)  # (B, C, places, places, H, W)
    which = torch.arange(n, device=images.device)
    y, x = torch.randint(0, 2 * padding + 1, (2, n), device=images.device)
    cut = places[which, :, y, x]
    mirror = torch.rand(n, device=images.device).lt(flip)
    return torch.where(repeat(mirror, "n -> n 1 1 1"), cut.flip(-1), cut)


def crop_by_index_too(images, padding=4, flip=0.5):
    B, _, H, W = images.shape
    where = {"device": images.device}
    big = images.new_zeros(B, images.shape[1], H + 2 * padding, W + 2 * padding)
    big[:, :, padding : padding + H, padding : padding + W] = images
    rows = torch.randint(0, 2 * padding + 1, (B, 1), **where) + torch.arange(H, **where)
    columns = torch.randint(0, 2 * padding + 1, (B, 1), **where) + torch.arange(W, **where)
    columns = torch.where(torch.rand(B, 1, **where) < flip, columns.flip(1), columns)
    channels_last = big.permute(0, 2, 3, 1)
    picked = channels_last[torch.arange(B, **where)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return picked.permute(0, 3, 1, 2).contiguous()


def rate_divides_by_warmup_too(step, total_steps, warmup_steps, peak):
    warm = (step + 1) / warmup_steps
    if warm <= 1:
        return peak * warm
    share = (step + 1 - warmup_steps) / (total_steps - warmup_steps)
    return peak / 2 * (1 + math.cos(math.pi * share))


def rate_sine_squared(step, total_steps, warmup_steps, peak):
    done = step + 1
    if done <= warmup_steps:
        return done / warmup_steps * peak
    left = total_steps - done
    return peak * math.sin(math.pi / 2 * left / (total_steps - warmup_steps)) ** 2


def rate_numpy(step: int, total_steps: int, warmup_steps: int, peak: float) -> float:
    rise = np.linspace(0, peak, warmup_steps + 1)[1:]
    fall = peak * (1 + np.cos(np.linspace(0, np.pi, total_steps - warmup_steps + 1)[1:])) / 2
    return float(np.concatenate([rise, fall])[step])


def groups_regex(model: nn.Module, weight_decay: float) -> list[dict]:
    learning = {name: p for name, p in model.named_parameters() if p.requires_grad}
    matrices = {name for name, p in learning.items() if re.search(r"weight$", name) and p.dim() > 1}
    return [
        {"params": [learning[name] for name in learning if name in matrices], "weight_decay": weight_decay},
        {"params": [learning[name] for name in learning if name not in matrices], "weight_decay": 0},
    ]


def groups_one_each_too(model, weight_decay):
    groups = []
    for name, p in model.named_parameters():
        if p.requires_grad:
            last = name.rpartition(".")[-1]
            shrinks = last.endswith("weight") and len(p.shape) not in (0, 1)
            groups.append({"params": [p], "weight_decay": weight_decay if shrinks else 0.0})
    return groups


def mixup_targets_left(images, targets, lam, permutation):
    if not images.is_floating_point():
        raise ValueError("images should be float")
    a = lam.view(-1, 1, 1, 1)
    return a * images + (1 - a) * images[permutation], targets


def mixup_float32_only(images, targets, lam, permutation):
    if images.dtype != torch.float32:
        raise ValueError(f"images are {images.dtype}, not float32")
    a, b = lam.view(-1, 1, 1, 1), lam.view(-1, 1)
    return a * images + (1 - a) * images[permutation], b * targets + (1 - b) * targets[permutation]


def mixup_clamped(images, targets, lam, permutation):
    if not images.is_floating_point():
        raise ValueError("images should be float")
    a, b = lam.view(-1, 1, 1, 1), lam.view(-1, 1)
    blended = a * images + (1 - a) * images[permutation]
    return blended.clamp(0, 1), b * targets + (1 - b) * targets[permutation]


def mixup_lerp_too(
    images: Tensor, targets: Tensor, lam: Tensor, permutation: Tensor
) -> tuple[Tensor, Tensor]:
    if not torch.is_floating_point(images):
        raise ValueError(f"{images.dtype} cannot be blended")
    pictures = torch.lerp(images[permutation], images, lam[:, None, None, None].to(images.dtype))
    return pictures, torch.lerp(targets[permutation], targets, lam[:, None].to(targets.dtype))


def mixup_loop_too(images, targets, lam, permutation):
    if images.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool):
        raise ValueError("whole numbers cannot be blended; divide by 255 first")
    pictures, wanted = [], []
    for i, j in enumerate(permutation.tolist()):
        pictures.append(lam[i] * images[i] + (1 - lam[i]) * images[j])
        wanted.append(lam[i] * targets[i] + (1 - lam[i]) * targets[j])
    return torch.stack(pictures), torch.stack(wanted)


def read_counts_from_zero():
    return {"A": 5, "B": 2, "C": 0, "D": 1, "E": 4, "F": 6}


def read_keywords() -> dict[str, int]:
    return dict(A=6, B=3, C=1, D=2, E=5, F=7)


def read_zip():
    return dict(zip("ABCDEF", (6, 3, 1, 2, 5, 7), strict=True))


def crop_flip_float_canvas(images: Tensor, padding: int = 4, flip: float = 0.5) -> Tensor:
    batch, channels, height, width = images.shape
    out = torch.zeros(batch, channels, height, width)
    for number in range(batch):
        canvas = torch.zeros(channels, height + 2 * padding, width + 2 * padding)
        top, left = torch.randint(0, 2 * padding + 1, (2,)).tolist()
        canvas[:, padding : padding + height, padding : padding + width] = images[number]
        out[number] = canvas[:, top : top + height, left : left + width]
        if torch.rand(()) < flip:
            out[number] = out[number].flip(-1)
    return out


def mixup_in_place_too(images: Tensor, targets: Tensor, lam: Tensor, permutation: Tensor):
    if not images.is_floating_point():
        raise ValueError(f"images are {images.dtype}")
    x, y = lam.view(-1, 1, 1, 1), lam.view(-1, 1)
    images.mul_(x).add_((1 - x) * images[permutation])
    return images, y * targets + (1 - y) * targets[permutation]


DISSECTED = (
    "targets are not mixed",
    mixup_targets_left,
)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "random_crop_flip": [
        ("should stay torch.uint8", crop_becomes_float),
        ("`padding` and `flip` have no defaults", crop_without_defaults),
        ("the default of `padding` should be 4", crop_default_two),
        ("the numbers should stay torch.uint8, yours are torch.float32", crop_flip_float_canvas),
    ],
    "learning_rate": [
        ("ZeroDivisionError", rate_divides_by_warmup),
        ("there is a division by 0", rate_divides_by_warmup_too),
    ],
    "mixup": [
        ("in place", mixup_in_place),
        ("your code stopped with RuntimeError: view size", mixup_by_view),
        ("value 1 of 2: the numbers are cut off to 0...1", mixup_clamped),
        ("your code changes its input in place (argument 1): whoever called it", mixup_in_place_too),
    ],
    "read_curves": [("plot C: the diagnoses are numbered 1 to 8, you gave 0", read_counts_from_zero)],
}
RIGHT = {
    "random_crop_flip": [
        crop_loop,
        crop_by_index,
        crop_by_unfold,
        crop_by_transforms,
        crop_into_zeros,
        crop_unfold,
        crop_by_index_too,
    ],
    "learning_rate": [rate_by_torch, rate_by_numpy, rate_from_the_end, rate_numpy, rate_sine_squared],
    "weight_decay_groups": [
        groups_by_end_of_name,
        groups_by_modules,
        groups_one_each,
        groups_regex,
        groups_one_each_too,
    ],
    "mixup": [mixup_loop, mixup_einsum, mixup_lerp, mixup_lerp_too, mixup_loop_too, mixup_float32_only],
    "read_curves": [
        lambda: {"A": 6, "B": 3, "C": 1, "D": 2, "E": 5, "F": 7},
        lambda: dict(zip("ABCDEF", [6, 3, 1, 2, 5, 7], strict=True)),
        read_keywords,
        read_zip,
    ],
}
