"""Pictures as they are: side by side, as a contact sheet, cut into patches."""

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from vit_classroom.plots.style import course_style, subplots
from vit_course.training.paths import PHOTOS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = 10
"""The widest figure, in inches: a wider one shrinks on the page, and its type with it."""


def to_picture(image: Tensor) -> np.ndarray:
    """Turn one image (C, H, W), uint8 or float in 0..1, into what imshow wants: (H, W, 3) or (H, W)."""
    image = image.detach().cpu()
    image = image.float() / 255 if image.dtype == torch.uint8 else image.float()
    picture = rearrange(image.clamp(0, 1), "c h w -> h w c").numpy()
    return picture[..., 0] if picture.shape[-1] == 1 else picture


def sample_photo(size: tuple[int, int] | None = None, name: str = "portrait") -> Tensor:
    """Load a photo that comes with the course, (3, H, W) uint8; `data/README.md` has sources and licences.

    Args:
        size: (height, width) to resize to; by default 224x224.
        name: "portrait" is Grace Hopper's, which matplotlib brings, "cat" the face of a cat, one of CIFAR-10's classes.
    """
    from matplotlib import cbook
    from PIL import Image

    source = cbook.get_sample_data("grace_hopper.jpg") if name == "portrait" else PHOTOS / f"{name}.jpg"
    with Image.open(source) as photo:
        side = min(photo.size)
        photo = photo.convert("RGB").crop((0, 0, side, side))
        photo = photo.resize((size or (224, 224))[::-1], Image.Resampling.BICUBIC)
    return rearrange(torch.from_numpy(np.array(photo)), "h w c -> c h w")


def image_grid(images: Tensor, columns: int) -> Tensor:
    """Lay a batch of images out as one large image, like a contact sheet.

    The first `columns` images make the first row, from left to right; the next ones the second row.

    Args:
        images: (B, C, H, W), any dtype; B is a multiple of `columns`.
        columns: images side by side.

    Returns:
        (C, rows·H, columns·W) with rows = B / columns, same dtype.
    """
    return rearrange(images, "(r k) c h w -> c (r h) (k w)", k=columns)


@course_style()
def image_row(images: list[Tensor], titles: list[str], title: str, height: float = 2.2) -> "Figure":
    """Draw images (C, H, W) side by side, each with a title of its own; in rows, if one were wider than a page."""
    width = 1.1 * height
    rows = math.ceil(len(images) / max(1, PAGE // width))
    columns = math.ceil(len(images) / rows)
    size = (width * columns, (height + 0.3) * rows + 0.2)
    figure, axes = subplots(rows, columns, figsize=size, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, image, label in zip(axes.flat[: len(images)], images, titles, strict=True):
        axis.imshow(to_picture(image), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(label, fontsize=9)
    figure.suptitle(title)
    return figure


@course_style()
def patch_grid(image: Tensor, patch_size: int, title: str) -> "Figure":
    """Draw an image (C, H, W) cut into its patches, numbered in reading order."""
    height, width = image.shape[-2:]
    rows, columns = height // patch_size, width // patch_size
    side = min(0.85, (PAGE - 0.4) / columns)
    figure, axes = subplots(rows, columns, figsize=(side * columns + 0.4, side * rows + 0.7), squeeze=False)
    picture = to_picture(image)
    for number, axis in enumerate(axes.flat):
        y, x = number // columns * patch_size, number % columns * patch_size
        axis.imshow(picture[y : y + patch_size, x : x + patch_size], cmap="gray", vmin=0, vmax=1)
        axis.set_axis_off()
        style = {"facecolor": "white", "alpha": 0.75, "pad": 0.6, "edgecolor": "none"}
        axis.text(0.04, 0.95, number, transform=axis.transAxes, va="top", fontsize=9, bbox=style)
    figure.suptitle(title)
    return figure
