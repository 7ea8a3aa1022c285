"""Figures of lesson 15: turned pairs, the pattern that moves with its query, merged patches, and a learned reader."""

from collections.abc import Callable
from math import cos, pi, sin
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.evidence.changed_models import with_merging
from vit_classroom.plots import PALETTE, course_style, to_picture
from vit_classroom.plots.style import subplots
from vit_course.attention import split_heads
from vit_course.vit import VisionTransformer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

QUERY, KEY = PALETTE[0], PALETTE[1]


# -- rotations


@course_style()
def turned_pairs(panels: list[tuple[int, int, float]]) -> "Figure":
    """Draw one pair of numbers of a query and of a key as arrows, turned by their columns.

    Args:
        panels: (column of the query, column of the key, frequency), one circle for each.
    """
    figure, axes = subplots(1, len(panels), figsize=(2.5 * len(panels), 3.1), squeeze=False)
    for axis, (query, key, frequency) in zip(axes[0], panels, strict=True):
        turn = torch.linspace(0, 2 * pi, 100)
        axis.plot(turn.cos(), turn.sin(), color="0.8", lw=1, ls="-")
        first, last = query * frequency, key * frequency
        between = torch.linspace(first, last, 60)
        axis.fill([0, *(0.45 * between.cos()), 0], [0, *(0.45 * between.sin()), 0], color="0.85")
        for name, angle, colour in (("query", first, QUERY), ("key", last, KEY)):
            draw_arrow(axis, name, angle, colour)
        axis.set(xlim=(-1.5, 1.5), ylim=(-1.4, 1.4), aspect="equal", xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
        axis.set_title(f"w = {frequency:g}, columns {query} and {key}", fontsize=9)
        axis.set_xlabel(f"product: {cos(last - first):.2f}", fontsize=9)
    figure.suptitle("The angle between query and key depends on their offset")
    return figure


def draw_arrow(axis: "Axes", name: str, angle: float, colour: str) -> None:
    """Draw an arrow of length 1 from the middle, and its name at the tip."""
    tip = cos(angle), sin(angle)
    look = {"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkA": 0, "shrinkB": 0}
    axis.annotate("", tip, (0, 0), arrowprops=look)
    axis.text(1.22 * tip[0], 1.18 * tip[1], name, color=colour, ha="center", va="center", fontsize=9)


@course_style()
def offset_maps(scores: Tensor, places: list[tuple[int, int]]) -> "Figure":
    """Draw the scores of some queries with the keys of all patches, and a frame around each query's own patch.

    Args:
        scores: (rows, columns, rows, columns), the score of the query at the first two with the key at the last two.
        places: (row, column) of the queries that are drawn.
    """
    figure, axes = subplots(1, len(places), figsize=(2.5 * len(places) + 0.6, 3.2), squeeze=False)
    shares = (scores / scores.amax()).detach().numpy()
    for axis, (row, column) in zip(axes[0], places, strict=True):
        heat = axis.imshow(shares[row, column], vmin=shares.min(), vmax=1, interpolation="nearest")
        frame = (
            [column + x for x in (-0.5, 0.5, 0.5, -0.5, -0.5)],
            [row + y for y in (-0.5, -0.5, 0.5, 0.5, -0.5)],
        )
        axis.plot(*frame, color=KEY, lw=3, ls="-")
        axis.set_xlabel(f"query in row {row}, column {column}", fontsize=9)
        axis.set(xticks=[], yticks=[])
    figure.colorbar(heat, ax=axes[0].tolist(), shrink=0.75, label="share of the largest score")
    figure.suptitle("The pattern of scores moves with the query (framed)")
    return figure


# -- token merging


@torch.no_grad()
def merged_groups(model: VisionTransformer, image: Tensor, r: int, merge: Callable) -> list[Tensor]:
    """Follow which patches are merged.

    Args:
        model: a trained model with a CLS token.
        image: (C, H, W), normalised.
        r: tokens that disappear in each block.
        merge: merges, as `merge_tokens` does.

    Returns:
        Before the first block and after each block, for every patch the number of its group, (rows, columns).
    """
    rows, columns = model.patch_embed.grid_size
    count, prefix = rows * columns, model.num_prefix_tokens
    members = F.pad(torch.eye(count), (0, 0, prefix, 0))[None]  # (1, T, N): which patches a token is made of
    found = [torch.arange(count).reshape(rows, columns)]

    def follow(tokens: Tensor, k: Tensor, sizes: Tensor, r: int, prefix: int) -> tuple[Tensor, Tensor]:
        nonlocal members
        members = merge(members, k, sizes, r, prefix)[0]
        found.append(members[0, prefix:].argmax(dim=0).reshape(rows, columns))
        return merge(tokens, k, sizes, r, prefix)

    with_merging(model, r, follow)(image[None])
    return found


@course_style()
def merged_patches(images: list[Tensor], stages: list[list[Tensor]], names: list[str]) -> "Figure":
    """Draw images, and behind each its patches as they are merged: a group has its mean colour and a white border.

    Args:
        images: each (C, H, W), uint8.
        stages: for each image the groups of its patches at some stages, each (rows, columns).
        names: of the stages.
    """
    figure, axes = subplots(
        len(images), len(names) + 1, figsize=(2 * len(names) + 2, 2 * len(images) + 0.5), squeeze=False
    )
    for line, image, groups in zip(axes, images, stages, strict=True):
        line[0].imshow(to_picture(image), interpolation="nearest")
        for axis, group in zip(line[1:], groups, strict=True):
            axis.imshow(to_picture(mean_colours(image, group)), interpolation="nearest")
            draw_borders(axis, group, image.shape[-2] / len(group), image.shape[-1] / len(group[0]))
    for axis, name in zip(axes[0], ["the image", *names], strict=True):
        axis.set_title(name, fontsize=9)
    for axis in axes.flat:
        axis.set_axis_off()
    figure.suptitle("Which patches become one token?")
    return figure


def mean_colours(image: Tensor, groups: Tensor) -> Tensor:
    """Paint every pixel of an image (C, H, W) with the mean colour of its group, in 0..1."""
    height, width = image.shape[-2] // len(groups), image.shape[-1] // len(groups[0])
    where = groups.repeat_interleave(height, 0).repeat_interleave(width, 1).flatten()
    one_hot = F.one_hot(where).float()  # (H·W, groups)
    colours = (image.flatten(1).float() / 255 @ one_hot) / one_hot.sum(dim=0).clamp(min=1)
    return (colours @ one_hot.T).reshape(image.shape)


def draw_borders(axis: "Axes", groups: Tensor, height: float, width: float) -> None:
    """Draw a white line between neighbouring patches of different groups."""
    rows, columns = groups.shape
    look = {"color": "white", "lw": 1.2, "ls": "-"}
    for row in range(rows):
        for column in range(columns):
            left, top = column * width - 0.5, row * height - 0.5
            if column and groups[row, column] != groups[row, column - 1]:
                axis.plot([left, left], [top, top + height], **look)
            if row and groups[row, column] != groups[row - 1, column]:
                axis.plot([left, left + width], [top, top], **look)


# -- attention pooling


class LearnedReader(nn.Module):
    """One query in each head, with keys, values and a linear classifier, on the tokens of a frozen model.

    Args:
        dim: width D of a token.
        num_heads: number of heads h.
        num_classes: number of scores K.
        pool: reads, as `attention_pool` does.
    """

    def __init__(self, dim: int, num_heads: int, num_classes: int, pool: Callable):
        super().__init__()
        self.num_heads, self.pool = num_heads, pool
        self.query = nn.Parameter(torch.zeros(num_heads, dim // num_heads))
        self.to_kv, self.head = nn.Linear(dim, 2 * dim), nn.Linear(dim, num_classes)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores (B, K), and the weights (B, N) by which the patches were read, the mean of all heads."""
        k, v = (split_heads(part, self.num_heads) for part in self.to_kv(tokens).chunk(2, dim=-1))
        pooled, weights = self.pool(self.query, k, v)
        return self.head(pooled.flatten(1)), weights.mean(dim=1)

    def learn(self, tokens: Tensor, labels: Tensor, steps: int) -> None:
        """Take steps of AdamW on all tokens (B, T, D) at once."""
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
        for _ in range(steps):
            optimizer.zero_grad()
            F.cross_entropy(self(tokens)[0], labels).backward()
            optimizer.step()


def lit_by_weights(images: Tensor, weights: Tensor) -> list[Tensor]:
    """Darken every patch of images (B, C, H, W), uint8, that has a small weight of (B, rows, columns)."""
    light = 0.12 + 0.88 * (weights / weights.amax(dim=(1, 2), keepdim=True)).sqrt()
    light = F.interpolate(light[:, None], images.shape[-2:], mode="nearest")
    return list(images.float() / 255 * light)
