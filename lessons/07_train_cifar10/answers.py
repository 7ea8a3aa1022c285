"""Answers to the exercises of lesson 07, written as students write them."""

import math

import torch
import torch.nn.functional as F
from torchvision import transforms


def crop_loop(images, padding=4, flip=0.5):
    batch, _, height, width = images.shape
    padded = F.pad(images, (padding, padding, padding, padding))
    tops = torch.randint(0, 2 * padding + 1, (batch,)).tolist()
    lefts = torch.randint(0, 2 * padding + 1, (batch,)).tolist()
    places = enumerate(zip(tops, lefts, strict=True))
    cut = [padded[b, :, t : t + height, x : x + width] for b, (t, x) in places]
    return torch.stack([p.flip(-1) if torch.rand(1) < flip else p for p in cut])


def crop_one_window(images, padding=4, flip=0.5):
    batch, _, height, width = images.shape
    padded = F.pad(images, [padding] * 4)
    top, left = torch.randint(0, 2 * padding + 1, (2,)).tolist()
    cut = padded[:, :, top : top + height, left : left + width]
    mirrored = torch.rand(batch, 1, 1, 1) < flip
    return torch.where(mirrored, cut.flip(-1), cut)


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


def rate_from_the_end(s, n, w, top):
    if s + 1 <= w:
        return top / w * (s + 1)
    return top * (1 - math.cos(math.pi * (n - 1 - s) / (n - w))) / 2


def mixup_lerp(x, y, lam, p):
    if not x.is_floating_point():
        raise ValueError("float images are needed")
    return torch.lerp(x[p], x, lam.view(-1, 1, 1, 1)), torch.lerp(y[p], y, lam.view(-1, 1))


def mixup_float32_alone(x, y, lam, p):
    if x.dtype != torch.float32:
        raise ValueError("float images are needed")
    return mixup_lerp(x, y, lam, p)


def mixup_by_view(x, y, lam, p):
    rows, share = x.view(len(x), -1), lam[:, None]
    return (share * rows + (1 - share) * rows[p]).view(x.shape), share * y + (1 - share) * y[p]


def read_keywords() -> dict[str, int]:
    return dict(A=6, B=3, C=1, D=2, E=5, F=7)


DISSECTED = ("top and left are drawn once, not for each image", crop_one_window)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "random_crop_flip": [
        ("should be torch.uint8", lambda images, *rest: crop_loop(images, *rest).float()),
        ("`padding` and `flip` have no defaults", lambda x, padding, flip: crop_loop(x, padding, flip)),
    ],
    "learning_rate": [("ZeroDivisionError", rate_divides_by_warmup)],
    "mixup": [
        ("your code stopped with RuntimeError: view size", mixup_by_view),
        (
            "value 1 of 2: the numbers are cut off to 0...1",
            lambda *given: (mixup_lerp(*given)[0].clamp(0, 1), mixup_lerp(*given)[1]),
        ),
    ],
    "read_curves": [
        (
            "plot C: the diagnoses have the numbers 1 to 8, and you gave 0",
            lambda: dict(A=5, B=2, C=0, D=1, E=4, F=6),
        )
    ],
}
RIGHT = {
    "random_crop_flip": [crop_loop, crop_by_transforms],
    "learning_rate": [rate_by_torch, rate_from_the_end],
    "mixup": [mixup_lerp, mixup_float32_alone],
    "read_curves": [
        lambda: {"A": 6, "B": 3, "C": 1, "D": 2, "E": 5, "F": 7},
        lambda: dict(zip("ABCDEF", [6, 3, 1, 2, 5, 7], strict=True)),
        read_keywords,
    ],
}
