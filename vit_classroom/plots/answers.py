"""What a model answers: pictures with its answers and where it looked, and which classes it confuses."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vit_classroom.plots.basics import number_tables
from vit_classroom.plots.pictures import to_picture
from vit_classroom.plots.style import PALETTE, course_style, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIRS = 3
"""Pictures side by side, each with its map."""


@course_style()
def answer_gallery(
    images: Tensor,
    maps: Tensor,
    chances: Tensor,
    classes: Sequence[str],
    title: str,
    truth: Tensor | None = None,
) -> "Figure":
    """Draw pictures, each with the answer of a model above it and, beside it, where the model looked.

    Args:
        images: (B, C, H, W), as they were before they were normalised.
        maps: (B, rows, columns), weights over the patches; each has its own scale.
        chances: (B, K) in 0..1; the largest is the answer.
        classes: names of the K classes.
        title: what is shown.
        truth: (B,) the true classes; a wrong answer gets a cross and the true name. Without it nothing is judged.
    """
    columns = min(PAIRS, len(images))
    rows = math.ceil(len(images) / columns)
    size = 3.2 * columns, 1.9 * rows + 0.3
    figure, axes = subplots(rows, 2 * columns, figsize=size, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    height, width = images.shape[-2:]
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    for number, (image, weights, row) in enumerate(zip(images, maps, chances, strict=True)):
        left, right = axes[number // columns, 2 * (number % columns) :][:2]
        picture, best = to_picture(image), int(row.argmax())
        text, colour = f"{classes[best]}, {100 * row[best].item():.0f} %", "black"
        if truth is not None and best == truth[number]:
            text, colour = f"✓ {text}", PALETTE[0]
        elif truth is not None:
            text, colour = f"✗ {text}: it is {classes[truth[number]]}", PALETTE[1]
        left.set_title(text, color=colour, loc="left", fontsize="small")
        left.imshow(picture, cmap="gray", vmin=0, vmax=1)
        right.imshow(picture if picture.ndim == 2 else picture.mean(axis=-1), cmap="gray", vmin=0, vmax=1)
        shown = (weights / weights.max()).detach().float().cpu().numpy()
        right.imshow(shown, extent=extent, vmin=0, vmax=1, alpha=0.75, interpolation="nearest")
    figure.suptitle(title)
    return figure


def confusion_table(answers: Tensor, truth: Tensor, classes: Sequence[str], title: str) -> "Figure":
    """Draw how many of 100 pictures of each class (rows) got which name (columns).

    Args:
        answers: (N,) int64, the classes that a model answered.
        truth: (N,) int64, the true ones; every class occurs.
        classes: names of the K classes.
        title: what is asked.
    """
    counts = confusion(answers, truth, len(classes)).float()
    shares = (100 * counts / counts.sum(dim=1, keepdim=True)).round()
    names = list(classes)
    return number_tables([shares], ["row: true class, column: answer of the model"], title, names, names)


def confusion(answers: Tensor, truth: Tensor, classes: int) -> Tensor:
    """Count pictures by true class (row) and answer (column): (K, K) int64, of `answers` and `truth` (N,)."""
    return torch.bincount(truth * classes + answers, minlength=classes**2).reshape(classes, classes)
