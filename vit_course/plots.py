"""The figures of the lessons. Each is a function of data that returns a matplotlib Figure; `show` displays it."""

import sys
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from einops import rearrange
from matplotlib.figure import Figure
from torch import Tensor

PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000"]
"""Okabe and Ito's colours, which stay apart for colour-blind readers."""

plt.rcParams.update(
    {
        "axes.prop_cycle": plt.cycler(color=PALETTE, linestyle=["-", "--", ":", "-."] * 2),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": False,
        "axes.titlesize": "medium",
        "figure.constrained_layout.use": True,
        "savefig.dpi": 110,
        "image.cmap": "cividis",
    }
)


def in_notebook() -> bool:
    """Tell whether this is an IPython kernel."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return bool(shell and getattr(shell, "kernel", None))


def show(figure: Figure, alt: str) -> None:
    """Display a figure with a text for readers who cannot see it, and close it; print the text elsewhere."""
    if in_notebook():
        from IPython.display import display

        display(figure, metadata={"image/png": {"alt": alt}})
    else:
        print(f"[figure] {alt}")
    plt.close(figure)


def slider(draw: Callable, **controls: Any) -> None:
    """Let the reader move sliders in a notebook; elsewhere draw once with the first value of each control.

    Args:
        draw: draws for the values of the controls, given by keyword.
        controls: for each argument of `draw` the list of its values.
    """
    if not in_notebook():
        draw(**{name: values[0] for name, values in controls.items()})
        return
    from ipywidgets import SelectionSlider, interact

    interact(draw, **{name: SelectionSlider(options=values) for name, values in controls.items()})


def to_picture(image: Tensor) -> np.ndarray:
    """Turn one image (C, H, W), uint8 or float in 0..1, into what imshow wants: (H, W, 3) or (H, W)."""
    image = image.detach().cpu()
    image = image.float() / 255 if image.dtype == torch.uint8 else image.float()
    picture = rearrange(image.clamp(0, 1), "c h w -> h w c").numpy()
    return picture[..., 0] if picture.shape[-1] == 1 else picture


def sample_photo(size: tuple[int, int] | None = None) -> Tensor:
    """Load the photo that comes with matplotlib (a portrait of Grace Hopper), (3, H, W) uint8.

    Args:
        size: (height, width) to resize to; by default a centre square of 224x224.
    """
    from matplotlib import cbook
    from PIL import Image

    with Image.open(cbook.get_sample_data("grace_hopper.jpg")) as photo:
        photo = photo.convert("RGB").crop((0, 0, 512, 512))
        photo = photo.resize((size or (224, 224))[::-1], Image.Resampling.BICUBIC)
    return rearrange(torch.from_numpy(np.array(photo)), "h w c -> c h w")


def image_row(images: list[Tensor], titles: list[str], title: str, height: float = 2.2) -> Figure:
    """Draw images (C, H, W) side by side, each with a title of its own."""
    figure, axes = plt.subplots(
        1, len(images), figsize=(height * 1.1 * len(images), height + 0.5), squeeze=False
    )
    for axis, image, label in zip(axes[0], images, titles, strict=True):
        axis.imshow(to_picture(image), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(label, fontsize="small")
        axis.set_axis_off()
    figure.suptitle(title)
    return figure


def patch_grid(image: Tensor, patch_size: int, title: str, numbered: bool = True) -> Figure:
    """Draw an image (C, H, W) cut into its patches, numbered in reading order."""
    height, width = image.shape[-2:]
    rows, columns = height // patch_size, width // patch_size
    figure, axes = plt.subplots(
        rows, columns, figsize=(0.62 * columns + 0.4, 0.62 * rows + 0.7), squeeze=False
    )
    picture = to_picture(image)
    for number, axis in enumerate(axes.flat):
        y, x = number // columns * patch_size, number % columns * patch_size
        axis.imshow(picture[y : y + patch_size, x : x + patch_size], cmap="gray", vmin=0, vmax=1)
        axis.set_axis_off()
        if numbered:
            style = {"facecolor": "white", "alpha": 0.75, "pad": 0.6, "edgecolor": "none"}
            axis.text(0.04, 0.95, number, transform=axis.transAxes, va="top", fontsize=6, bbox=style)
    figure.suptitle(title)
    return figure


def curves(
    series: dict[str, tuple[list, list]],
    title: str,
    xlabel: str,
    ylabel: str,
    log: str = "",
    legend: bool = True,
) -> Figure:
    """Draw named lines; `series` maps a name to (x values, y values), `log` names the log axes ("", "x", "xy")."""
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    for name, (x, y) in series.items():
        axis.plot(x, y, label=name, marker="o" if len(x) <= 20 else None, markersize=4)
    axis.set(title=title, xlabel=xlabel, ylabel=ylabel)
    if "x" in log:
        axis.set_xscale("log")
    if "y" in log:
        axis.set_yscale("log")
    if legend and len(series) > 1:
        axis.legend(frameon=False)
    return figure


def heat_maps(
    maps: list[Tensor], titles: list[str], title: str, unit: str, shared_scale: bool = True
) -> Figure:
    """Draw matrices side by side with one colour bar; `unit` says what a colour means."""
    figure, axes = plt.subplots(1, len(maps), figsize=(2.6 * len(maps) + 0.8, 3.0), squeeze=False)
    arrays = [m.detach().float().cpu().numpy() for m in maps]
    limits = (
        {"vmin": min(a.min() for a in arrays), "vmax": max(a.max() for a in arrays)} if shared_scale else {}
    )
    for axis, array, label in zip(axes[0], arrays, titles, strict=True):
        picture = axis.imshow(array, **limits, interpolation="nearest")
        axis.set_title(label, fontsize="small")
        if not shared_scale:
            figure.colorbar(picture, ax=axis, shrink=0.7)
    if shared_scale:
        figure.colorbar(picture, ax=axes[0].tolist(), shrink=0.8, label=unit)
    figure.suptitle(title)
    return figure


def vit_overview() -> Figure:
    """Draw the whole Vision Transformer as one picture: image, patches, tokens, encoder, class scores."""
    figure, axis = plt.subplots(figsize=(11, 4.6))
    axis.set(xlim=(0, 22.5), ylim=(-0.1, 9.2))
    axis.set_axis_off()
    photo = to_picture(sample_photo((48, 48)))

    def box(x: float, y: float, width: float, height: float, text: str, colour: str) -> None:
        axis.add_patch(plt.Rectangle((x, y), width, height, facecolor=colour, alpha=0.3, edgecolor=colour, lw=1.5))
        axis.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9)

    def arrow(x: float, y: float, to_x: float, to_y: float) -> None:
        axis.annotate("", (to_x, to_y), (x, y), arrowprops={"arrowstyle": "-|>", "color": "0.35", "lw": 1.2})

    def caption(x: float, y: float, text: str) -> None:
        axis.text(x, y, text, ha="center", va="top", fontsize=8, color="0.25")

    axis.imshow(photo, extent=(0.2, 3.8, 2.9, 6.5), aspect="auto", zorder=2)
    for line in (1, 2):
        axis.plot([0.2, 3.8], [2.9 + 1.2 * line] * 2, color="white", lw=2, ls="-", zorder=3)
        axis.plot([0.2 + 1.2 * line] * 2, [2.9, 6.5], color="white", lw=2, ls="-", zorder=3)
    caption(2, 2.6, "image (C, H, W)\ncut into patches\nlesson 01")
    for i in range(9):
        y, x = i // 3 * 16, i % 3 * 16
        top = 8.3 - 0.78 * i
        axis.imshow(photo[y : y + 16, x : x + 16], extent=(5, 5.68, top - 0.68, top), aspect="auto", zorder=2)
        box(8.0, top - 0.66, 1.3, 0.62, f"{i + 1}", PALETTE[5])
    box(8.0, 8.42, 1.3, 0.62, "CLS", PALETTE[1])
    arrow(3.95, 4.7, 4.9, 4.7)
    arrow(5.9, 4.7, 7.9, 4.7)
    axis.text(6.9, 4.9, "× E", ha="center", fontsize=10)
    axis.text(10.1, 4.5, "+ position", rotation=90, ha="center", va="center", fontsize=9)
    arrow(9.4, 3.4, 11.2, 3.4)
    caption(6.9, 4.4, "linear\nprojection")
    caption(7.2, 0.95, "N patches become N tokens of width D\nCLS: lesson 02, position: lesson 03")
    for layer in range(3):
        x = 11.4 + 1.9 * layer
        box(x, 1.6, 1.5, 2.6, "attention\n\nlesson 04", PALETTE[0])
        box(x, 5.0, 1.5, 2.6, "MLP\n\nlesson 05", PALETTE[2])
        arrow(x + 0.75, 4.25, x + 0.75, 4.95)
        if layer < 2:
            axis.plot([x + 1.5, x + 1.7, x + 1.7], [6.3, 6.3, 2.9], color="0.35", lw=1.2, ls="-")
            arrow(x + 1.7, 2.9, x + 1.92, 2.9)
    caption(14.0, 1.2, "encoder: L blocks, every token looks at every token")
    arrow(16.75, 6.3, 17.7, 6.3)
    box(17.8, 5.9, 1.3, 0.8, "CLS", PALETTE[1])
    arrow(19.15, 6.3, 19.6, 6.3)
    for i, (name, share) in enumerate([("cat", 0.1), ("person", 0.75), ("ship", 0.15)]):
        axis.barh(7.0 - 0.7 * i, 1.5 * share, left=20.9, height=0.45, color=PALETTE[4])
        axis.text(20.8, 7.0 - 0.7 * i, name, ha="right", va="center", fontsize=8)
    caption(20.5, 5.0, "head: one score\nfor each class\nlesson 06")
    figure.suptitle("The Vision Transformer: an image read as a sentence of patches")
    return figure
