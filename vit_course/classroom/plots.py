"""The figures of the lessons. Each is a function of data that returns a matplotlib Figure; `show` displays it."""

import os
from collections.abc import Callable
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from einops import rearrange
from matplotlib.figure import Figure
from torch import Tensor

from vit_course.classroom.notebook import in_notebook

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

    VIT_COURSE_WIDGETS=0 leaves the sliders out of a notebook that nobody will touch, as in tests.

    Args:
        draw: draws for the values of the controls, given by keyword.
        controls: for each argument of `draw` the list of its values.
    """
    if not in_notebook():
        draw(**{name: values[0] for name, values in controls.items()})
        return
    if os.environ.get("VIT_COURSE_WIDGETS") == "0":
        print("[a control that works when you run the notebook]")
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
    maps: list[Tensor],
    titles: list[str],
    title: str,
    unit: str,
    shared_scale: bool = True,
    xlabel: str = "",
    ylabel: str = "",
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
        axis.set(xlabel=xlabel, ylabel=ylabel if axis is axes[0, 0] else "")
        axis.locator_params(integer=True, nbins=6)
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
        axis.add_patch(
            plt.Rectangle((x, y), width, height, facecolor=colour, alpha=0.3, edgecolor=colour, lw=1.5)
        )
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


def number_tables(
    tables: list[Tensor],
    titles: list[str],
    title: str,
    rows: list[str],
    columns: list[str],
    shared_scale: bool = False,
) -> Figure:
    """Draw small matrices (len(rows), len(columns)) side by side, coloured, each number written in its cell."""
    height, width = 0.5 * len(rows) + 1.5, 0.68 * len(columns) + 0.35
    figure, axes = plt.subplots(1, len(tables), figsize=(width * len(tables) + 1.2, height), squeeze=False)
    arrays = [table.detach().float().cpu().numpy() for table in tables]
    for number, (axis, array, label) in enumerate(zip(axes[0], arrays, titles, strict=True)):
        scale = np.concatenate(arrays) if shared_scale else array
        axis.imshow(array, aspect="auto", vmin=scale.min(), vmax=scale.max())
        digits = 0 if (array == array.round()).all() else 2
        for (i, j), value in np.ndenumerate(array):
            colour = "black" if 2 * value >= scale.min() + scale.max() else "white"
            axis.text(j, i, f"{value:.{digits}f}", ha="center", va="center", color=colour, fontsize="small")
        axis.set_xticks(range(len(columns)), columns, rotation=30, ha="right", fontsize="small")
        axis.set_yticks(range(len(rows)), rows if number == 0 else [""] * len(rows), fontsize="small")
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_title(label, fontsize="small")
    figure.suptitle(title)
    return figure


def curve_panels(
    panels: dict[str, dict[str, tuple[list, list]]], title: str, xlabel: str, log_y: tuple[str, ...] = ()
) -> Figure:
    """Draw named lines in panels side by side over a logarithmic x axis, with one legend.

    Args:
        panels: maps what the y axis of a panel means, with its unit, to its lines: name to (x values, y values).
        title: the finding.
        xlabel: what the x axis means.
        log_y: the panels whose y axis is logarithmic too.
    """
    figure, axes = plt.subplots(1, len(panels), figsize=(3.4 * len(panels), 3.4), squeeze=False)
    for axis, (ylabel, series) in zip(axes[0], panels.items(), strict=True):
        for name, (x, y) in series.items():
            axis.plot(x, y, label=name, marker="o", markersize=4)
        axis.set(xlabel=xlabel, ylabel=ylabel, xscale="log", yscale="log" if ylabel in log_y else "linear")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(title)
    return figure


def attention_maps(
    image: Tensor, maps: list[Tensor], titles: list[str], title: str, query: tuple[int, int] | None = None
) -> Figure:
    """Draw an image (C, H, W), then attention maps (rows, columns) laid over it in grey.

    Args:
        image: the picture that was looked at.
        maps: the weights of one query over the grid of patches, one map a head or layer; each has its own scale.
        titles: one for each map.
        title: the finding.
        query: (row, column) of the patch that looks; it gets a frame in every picture.
    """
    figure, axes = plt.subplots(1, len(maps) + 1, figsize=(2.3 * (len(maps) + 1), 2.9), squeeze=False)
    picture = to_picture(image)
    grey = picture if picture.ndim == 2 else picture.mean(axis=-1)
    height, width = grey.shape
    axes[0, 0].imshow(picture, cmap="gray", vmin=0, vmax=1)
    axes[0, 0].set_title("the picture", fontsize="small")
    for axis, weights, label in zip(axes[0, 1:], maps, titles, strict=True):
        shown = (weights / weights.max()).detach().float().cpu().numpy()
        axis.imshow(grey, cmap="gray", vmin=0, vmax=1)
        extent = (-0.5, width - 0.5, height - 0.5, -0.5)
        layer = axis.imshow(shown, extent=extent, vmin=0, vmax=1, alpha=0.8, interpolation="nearest")
        axis.set_title(label, fontsize="small")
    for axis in axes[0]:
        axis.set_axis_off()
        if query is not None:
            down, across = height / maps[0].shape[0], width / maps[0].shape[1]
            corner = (query[1] * across - 0.5, query[0] * down - 0.5)
            axis.add_patch(plt.Rectangle(corner, across, down, fill=False, edgecolor=PALETTE[1], linewidth=2))
    if maps:
        figure.colorbar(layer, ax=axes[0].tolist(), fraction=0.03, pad=0.01, label="weight / largest weight")
    figure.suptitle(title)
    return figure


def map_grid(grids: list[Tensor], titles: list[str], title: str, unit: str) -> Figure:
    """Draw one small map for every patch, each map at the place of its patch, several such grids side by side.

    Args:
        grids: each (rows, columns, h, w): for the patch in (row, column) a map of h x w values. Each grid has a
            scale of its own.
        titles: one for each grid.
        title: the finding.
        unit: what a colour means.
    """
    figure, axes = plt.subplots(1, len(grids), figsize=(4.6 * len(grids), 4.4), squeeze=False)
    for axis, grid, label in zip(axes[0], grids, titles, strict=True):
        rows, columns, height, width = grid.shape
        gapped = torch.nn.functional.pad(grid.detach().float().cpu(), (0, 1, 0, 1), value=torch.nan)
        canvas = rearrange(gapped, "r c h w -> (r h) (c w)")[:-1, :-1]
        picture = axis.imshow(canvas.numpy(), interpolation="nearest")
        axis.set_xticks([c * (width + 1) + (width - 1) / 2 for c in range(columns)], range(columns))
        axis.set_yticks([r * (height + 1) + (height - 1) / 2 for r in range(rows)], range(rows))
        axis.set(title=label, xlabel="column of the patch", ylabel="row of the patch")
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        figure.colorbar(picture, ax=axis, shrink=0.7, label=unit)
    figure.suptitle(title)
    return figure


def dots(series: dict[str, tuple[list[str], list[float]]], title: str, xlabel: str) -> Figure:
    """Draw values as dots on one line per label; `series` maps a name to (labels, values), one marker each."""
    labels = list(dict.fromkeys(label for names, _ in series.values() for label in names))
    figure, axis = plt.subplots(figsize=(6.4, 0.45 * len(labels) + 1.3))
    for number, (name, (names, values)) in enumerate(series.items()):
        shift = 0.16 * (number - (len(series) - 1) / 2)
        heights = [labels.index(label) + shift for label in names]
        axis.plot(values, heights, "os^Dv"[number % 5], label=name, markersize=6)
    axis.set_yticks(range(len(labels)), labels)
    axis.set(title=title, xlabel=xlabel, ylim=(len(labels) - 0.5, -0.5))
    axis.grid(axis="y", alpha=0.3)
    if len(series) > 1:
        axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def token_sequence(image: Tensor, patch_size: int, title: str, read: str = "token") -> Figure:
    """Draw the tokens that enter the encoder and those that leave it, and which of them the head reads.

    Args:
        image: (C, H, W), cut into its N patches.
        patch_size: side of a patch in pixels.
        title: title of the figure.
        read: "token": a CLS token stands in front and the head reads it; "avg": no CLS token, and the head
            reads the mean of all.
    """
    height, width = image.shape[-2] // patch_size, image.shape[-1] // patch_size
    count, prefix = height * width, int(read == "token")
    middle, picture = (count + prefix) / 2, to_picture(image)
    figure, axis = plt.subplots(figsize=(9.5, 3.7))
    axis.set(xlim=(-2.1, count + prefix + 0.1), ylim=(-0.7, 6.2))
    axis.set_axis_off()

    def box(x: float, y: float, size: tuple[float, float], text: str, colour: str) -> None:
        axis.add_patch(plt.Rectangle((x, y), *size, facecolor=colour, alpha=0.4, edgecolor="0.3"))
        axis.text(x + size[0] / 2, y + size[1] / 2, text, ha="center", va="center", fontsize=8)

    def arrow(x: float, y: float, to_x: float, to_y: float) -> None:
        axis.annotate("", (to_x, to_y), (x, y), arrowprops={"arrowstyle": "-|>", "color": "0.35", "lw": 1})

    for token in range(count + prefix):
        number = token - prefix
        colour = PALETTE[1] if number < 0 else PALETTE[5]
        box(token + 0.08, 3, (0.84, 0.8), "CLS" if number < 0 else "", colour)
        if number < 0:
            box(token + 0.08, 0, (0.84, 0.84), "CLS", colour)
        else:
            y, x = number // width * patch_size, number % width * patch_size
            piece = picture[y : y + patch_size, x : x + patch_size]
            extent = (token + 0.08, token + 0.92, 0, 0.84)
            axis.imshow(piece, extent=extent, cmap="gray", vmin=0, vmax=1, aspect="auto")
        axis.text(token + 0.5, -0.12, token, ha="center", va="top", fontsize=8)
        arrow(token + 0.5, 0.88, token + 0.5, 1.46)
        arrow(token + 0.5, 2.44, token + 0.5, 2.98)
        if read == "avg":
            arrow(token + 0.5, 3.8, middle + (token + 0.5 - middle) * 0.15, 4.78)
    box(0, 1.5, (count + prefix, 0.9), "encoder: every token looks at every token", "0.7")
    where = 0.5 if read == "token" else middle
    if read == "token":
        arrow(where, 3.8, where, 4.78)
    box(max(where - 1.6, 0), 4.8, (3.2, 0.9), "head" if read == "token" else "mean, then head", PALETTE[4])
    arrow(max(where, 1.6) + 1.6, 5.25, max(where, 1.6) + 2.6, 5.25)
    axis.text(max(where, 1.6) + 2.7, 5.25, "one score for each class", va="center", fontsize=9)
    for y, text in ((0.42, "tokens in"), (3.4, "tokens out"), (-0.3, "index")):
        axis.text(-0.15, y, text, ha="right", va="center", fontsize=9)
    figure.suptitle(title)
    return figure


def clusters(
    points: list[Tensor], labels: Tensor, classes: tuple[str, ...], titles: list[str], title: str, axes: str
) -> Figure:
    """Draw sets of points (N, 2) side by side on one scale, one marker and colour for each class.

    Args:
        points: one (N, 2) for each panel.
        labels: (N,) the class of each point, the same in every panel.
        classes: names of the classes.
        titles: one for each panel.
        title: title of the figure.
        axes: what the two axes are; " 1" and " 2" are added.
    """
    size = (4 * len(points) + 1.2, 3.9)
    figure, panels = plt.subplots(1, len(points), figsize=size, squeeze=False, sharex=True, sharey=True)
    for panel, cloud, label in zip(panels[0], points, titles, strict=True):
        for number, name in enumerate(classes):
            x, y = cloud[labels == number].detach().cpu().T
            marker, colour = "o^sDXPv*<>"[number % 10], PALETTE[number % len(PALETTE)]
            panel.scatter(x, y, s=16, marker=marker, color=colour, alpha=0.75, lw=0, label=name)
        panel.set(title=label, xlabel=f"{axes} 1")
    panels[0, 0].set_ylabel(f"{axes} 2")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.suptitle(title)
    return figure


def token_trace(image: Tensor, stages: list[tuple[str, Tensor]], title: str) -> Figure:
    """Draw an image (C, H, W), then what the model makes of it: one table (T, D) of numbers per named stage.

    Every table has its own scale: brighter is larger. The height of a table says how many tokens are left.
    """
    columns = len(stages) + 1
    figure, axes = plt.subplots(1, columns, figsize=(1.45 * columns, 3.1), squeeze=False)
    axes[0, 0].imshow(to_picture(image), cmap="gray", vmin=0, vmax=1)
    axes[0, 0].set_title(f"image\n{tuple(image.shape)}", fontsize="small")
    tallest = max(len(table) for _, table in stages)
    for axis, (name, table) in zip(axes[0, 1:], stages, strict=True):
        rows, width = table.shape
        picture = axis.imshow(table.detach().float().cpu().numpy(), aspect="auto", interpolation="nearest")
        picture.set_extent((0, width, rows, 0))
        axis.set(xlim=(0, width), ylim=(tallest, 0), title=f"{name}\n({rows}, {width})")
        axis.title.set_fontsize("small")
    for axis in axes[0]:
        axis.set_axis_off()
    figure.suptitle(title)
    return figure


def block_diagram() -> Figure:
    """Draw one encoder block (pre-norm): the residual stream and the two branches that read it and add to it."""
    figure, axis = plt.subplots(figsize=(9.5, 2.9))
    axis.set(xlim=(-0.9, 19.2), ylim=(-1.1, 4.6))
    axis.set_axis_off()
    line = {"color": "0.35", "lw": 1.3, "ls": "-"}
    axis.annotate("", (18.2, 0), (0.6, 0), arrowprops={"arrowstyle": "-|>", "color": PALETTE[4], "lw": 6})
    axis.text(
        9.4, -0.35, "residual stream: read by every branch, never replaced", ha="center", va="top", fontsize=9
    )
    for x, name in ((0.5, r"$z_{\ell-1}$"), (9.4, r"$z'_\ell$"), (18.3, r"$z_\ell$")):
        place = (
            {"ha": "center", "va": "bottom"}
            if x == 9.4
            else {"ha": "left" if x > 9 else "right", "va": "center"}
        )
        axis.text(x, 0.3 if x == 9.4 else 0, name, fontsize=13, **place)
    for start, branch, lesson, equation in ((1.4, "attention", "04", 2), (10.4, "MLP", "05", 3)):
        axis.plot([start, start, start + 0.8], [0, 2.5, 2.5], **line)
        for x, width, text, colour in (
            (start + 0.8, 1.9, "layer\nnorm", PALETTE[5]),
            (
                start + 3.4,
                2.6,
                f"{branch}\nlesson {lesson}",
                PALETTE[0] if branch == "attention" else PALETTE[2],
            ),
        ):
            axis.add_patch(
                plt.Rectangle((x, 1.7), width, 1.6, facecolor=colour, alpha=0.3, edgecolor=colour, lw=1.5)
            )
            axis.text(x + width / 2, 2.5, text, ha="center", va="center", fontsize=9)
        axis.plot([start + 2.7, start + 3.4], [2.5, 2.5], **line)
        axis.plot([start + 6, start + 6.8], [2.5, 2.5], **line)
        end = {"arrowstyle": "-|>", "color": "0.35", "lw": 1.3}
        axis.annotate("", (start + 6.8, 0.42), (start + 6.8, 2.5), arrowprops=end)
        axis.plot(start + 6.8, 0, "o", color="white", markeredgecolor="0.35", markersize=15)
        axis.text(start + 6.8, -0.02, "+", ha="center", va="center", fontsize=14)
        axis.text(start + 3.4, 3.6, f"branch: equation {equation}", ha="center", va="bottom", fontsize=9)
    figure.suptitle("One block: two branches read the stream, and each adds its result to it")
    return figure


def value_histograms(series: dict[str, Tensor], title: str, xlabel: str) -> Figure:
    """Draw the distribution of the values of each tensor, side by side."""
    figure, axes = plt.subplots(1, len(series), figsize=(3.4 * len(series), 2.8), squeeze=False)
    for axis, (name, values), colour in zip(axes[0], series.items(), PALETTE, strict=False):
        axis.hist(values.detach().float().flatten().cpu().numpy(), bins=60, density=True, color=colour)
        axis.set(title=name, xlabel=xlabel, ylabel="share per unit")
    figure.suptitle(title)
    return figure


def seed_curves(
    series: dict[str, dict[float, list[float]]], title: str, xlabel: str, ylabel: str, log: bool = False
) -> Figure:
    """Draw a line through the means, and a dot for every seed.

    Args:
        series: maps a name to its values: x to one y for each seed.
        title: the finding.
        xlabel: what the x axis means.
        ylabel: what the y axis means, with its unit.
        log: whether the x axis is logarithmic.
    """
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    for number, (name, values) in enumerate(series.items()):
        x, marker = sorted(values), "os^Dv"[number % 5]
        (line,) = axis.plot(x, [np.mean(values[v]) for v in x], label=name, marker=marker, markersize=4)
        points = [(v, y) for v in x for y in values[v]]
        axis.scatter(*zip(*points, strict=True), s=14, color=line.get_color(), alpha=0.5, marker=marker)
    if log:
        ticks = sorted({v for values in series.values() for v in values})
        axis.set_xscale("log")
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
    axis.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axis.legend(frameon=False)
    return figure


def named_points(points: dict[str, tuple[float, float]], title: str, xlabel: str, ylabel: str) -> Figure:
    """Draw points (x, y) with their names beside them, over a logarithmic x axis."""
    figure, axis = plt.subplots(figsize=(7.2, 3.6))
    for number, (name, (x, y)) in enumerate(points.items()):
        axis.plot(x, y, "os^Dv"[number % 5], markersize=7)
        axis.annotate(name, (x, y), xytext=(7, 5), textcoords="offset points", fontsize="small")
    axis.set(title=title, xlabel=xlabel, ylabel=ylabel, xscale="log")
    axis.margins(x=0.25, y=0.15)
    return figure


def live_curves(title: str = "Training") -> Callable[[Any], None]:
    """Return a function for `on_epoch` of `train` that redraws one plot of accuracies in a notebook; elsewhere nothing.

    Args:
        title: title of the plot.
    """
    handle = None

    def draw(history: Any) -> None:
        nonlocal handle
        if not in_notebook():
            return
        from IPython.display import display

        series = {"training": history.train_accuracy, "held-out": history.val_accuracy}
        lines = {
            name: (list(range(1, len(shares) + 1)), [100 * share for share in shares])
            for name, shares in series.items()
            if shares
        }
        figure = curves(lines, title, f"epoch, of {history.config['epochs']}", "accuracy in %")
        figure.axes[0].set(xlim=(0.5, history.config["epochs"] + 0.5), ylim=(0, 100))
        metadata = {"image/png": {"alt": f"{title}: accuracy after each epoch so far"}}
        if handle is None:
            handle = display(figure, metadata=metadata, display_id=True)
        else:
            handle.update(figure, metadata=metadata)
        plt.close(figure)

    return draw


def caption(records: list[dict], width: int = 90) -> str:
    """Say which machine and which data recorded runs come from, or that there are none yet; lines of `width`."""
    if not records:
        return "No runs are recorded here yet: `python -m vit_course experiments.run` makes them."
    machines, data = (list(dict.fromkeys(r[key] for r in records)) for key in ("machine", "data"))
    return fill(f"recorded on {', '.join(machines)}; {' / '.join(data)}", width)


def picture_and_weights(
    image: Tensor, weights: Tensor, title: str, name: str, query: tuple[int, int] | None = None
) -> Figure:
    """Draw an image (C, H, W) and, beside it, weights (rows, columns) over its patches, in percent.

    Args:
        image: the picture that was looked at.
        weights: shares in 0..1 of the attention of one query.
        title: who looks where.
        name: title of the picture.
        query: (row, column) of the patch that looks; it gets a frame in both.
    """
    figure, axes = plt.subplots(1, 2, figsize=(6.8, 3.4))
    height, width = image.shape[-2:]
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    axes[0].imshow(to_picture(image), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    shares = (100 * weights).detach().float().cpu().numpy()
    heat = axes[1].imshow(shares, extent=extent, vmin=0, interpolation="nearest")
    axes[0].set_title(name, fontsize="small")
    axes[1].set_title("where it looks", fontsize="small")
    for axis in axes:
        axis.set_axis_off()
        if query is not None:
            down, across = height / weights.shape[0], width / weights.shape[1]
            corner = (query[1] * across - 0.5, query[0] * down - 0.5)
            axis.add_patch(plt.Rectangle(corner, across, down, fill=False, edgecolor=PALETTE[1], linewidth=2))
    figure.colorbar(heat, ax=axes[1], shrink=0.8, label="share of the attention in percent")
    figure.suptitle(title, fontsize="medium")
    return figure


def overlay_rows(images: Tensor, rows: dict[str, Tensor], title: str) -> Figure:
    """Draw images (B, C, H, W) in a row, and below it one row of maps for each name, laid over the images in grey.

    Args:
        images: the pictures.
        rows: maps a name to (B, rows, columns), one map for each picture. All maps of a row share one scale, from
            0 to the largest value of the row.
        title: the finding.
    """
    figure, axes = plt.subplots(
        len(rows) + 1,
        len(images),
        figsize=(1.5 * len(images) + 1.6, 1.6 * (len(rows) + 1) + 0.4),
        squeeze=False,
    )
    pictures = [to_picture(image) for image in images]
    height, width = images.shape[-2:]
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    for axis, picture in zip(axes[0], pictures, strict=True):
        axis.imshow(picture, cmap="gray", vmin=0, vmax=1)
    for line, (_, maps) in zip(axes[1:], rows.items(), strict=True):
        shown = (100 * maps).detach().float().cpu().numpy()
        for axis, picture, values in zip(line, pictures, shown, strict=True):
            axis.imshow(picture if picture.ndim == 2 else picture.mean(axis=-1), cmap="gray", vmin=0, vmax=1)
            layer = axis.imshow(
                values, extent=extent, vmin=0, vmax=shown.max(), alpha=0.75, interpolation="nearest"
            )
        figure.colorbar(layer, ax=line.tolist(), fraction=0.02, pad=0.01, label="percent")
    for axis, name in zip(axes[:, 0], ["picture", *rows], strict=True):
        axis.set_ylabel(name, fontsize="small")
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    figure.suptitle(title)
    return figure
