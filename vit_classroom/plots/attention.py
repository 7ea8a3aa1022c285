"""Where tokens look: weights over the patches of a picture, beside it, laid over it, or in a grid of all queries."""

from typing import TYPE_CHECKING

import torch
from einops import rearrange
from torch import Tensor

from vit_classroom.plots.pictures import to_picture
from vit_classroom.plots.style import PALETTE, course_style, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def frame_patch(axis: "Axes", patch: tuple[int, int], size: tuple[float, float]) -> None:
    """Put a frame around the patch in (row, column) of a picture; `size` is (height, width) of a patch in pixels."""
    from matplotlib.patches import Rectangle

    down, across = size
    corner = (patch[1] * across - 0.5, patch[0] * down - 0.5)
    axis.add_patch(Rectangle(corner, across, down, fill=False, edgecolor=PALETTE[1], linewidth=2))


@course_style()
def attention_maps(
    image: Tensor, maps: list[Tensor], titles: list[str], title: str, query: tuple[int, int] | None = None
) -> "Figure":
    """Draw an image (C, H, W), then attention maps (rows, columns) laid over it in grey.

    Args:
        image: the picture that was looked at.
        maps: the weights of one query over the grid of patches, one map a head or layer; each has its own scale.
        titles: one for each map.
        title: the finding.
        query: (row, column) of the patch that looks; it gets a frame in every picture.
    """
    columns = len(maps) + 1
    size = min(2.6 * columns, 9.4)
    figure, axes = subplots(1, columns, figsize=(size + 0.9, size / columns + 0.7), squeeze=False)
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
        if query is not None and maps:
            frame_patch(axis, query, (height / maps[0].shape[0], width / maps[0].shape[1]))
    if maps:
        bar = axes[0, -1].inset_axes((1.04, 0, 0.06, 1))  # as high as the map beside it
        figure.colorbar(layer, cax=bar, label="weight / largest weight")
    figure.suptitle(title)
    return figure


@course_style()
def map_grid(grids: list[Tensor], titles: list[str], title: str, unit: str) -> "Figure":
    """Draw one small map for every patch, each map at the place of its patch, several such grids side by side.

    Args:
        grids: each (rows, columns, h, w): for the patch in (row, column) a map of h x w values. Each grid has a
            scale of its own.
        titles: one for each grid.
        title: the finding.
        unit: what a colour means.
    """
    figure, axes = subplots(1, len(grids), figsize=(4.6 * len(grids), 4.4), squeeze=False)
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


@course_style()
def picture_and_weights(
    image: Tensor, weights: Tensor, title: str, name: str, query: tuple[int, int] | None = None
) -> "Figure":
    """Draw an image (C, H, W) and, beside it, weights (rows, columns) over its patches, in percent.

    Args:
        image: the picture that was looked at.
        weights: shares in 0..1 of the attention of one query.
        title: who looks where.
        name: title of the picture.
        query: (row, column) of the patch that looks; it gets a frame in both.
    """
    figure, axes = subplots(1, 2, figsize=(6.8, 3.4))
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
            frame_patch(axis, query, (height / weights.shape[0], width / weights.shape[1]))
    figure.colorbar(heat, ax=axes[1], shrink=0.8, label="share of the attention in percent")
    figure.suptitle(title, fontsize="medium")
    return figure


@course_style()
def overlay_rows(images: Tensor, rows: dict[str, Tensor], title: str) -> "Figure":
    """Draw images (B, C, H, W) in a row, and below it one row of maps for each name, laid over the images in grey.

    Args:
        images: the pictures.
        rows: maps a name to (B, rows, columns), one map for each picture. All maps of a row share one scale, from
            0 to the largest value of the row.
        title: the finding.
    """
    figure, axes = subplots(
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
