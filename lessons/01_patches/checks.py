"""Checks of lesson 01: patches."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_classroom.checks.outcome import Mistake, build, outcome, same_weights
from vit_classroom.checks.shared_checks import counting
from vit_classroom.checks.task import demand, every_digit, exercise, refuses, results
from vit_classroom.checks.words import explain_error
from vit_course.patches import (
    PatchEmbed,
    as_pair,
    check_images,
    count_patches,
    grid_size,
    patchify,
    unpatchify,
)

# -- count_patches


def one_side(img_size, patch_size):
    return as_pair(img_size)[0] // as_pair(patch_size)[0]


def square_of_rows(img_size, patch_size):
    rows, columns = grid_size(img_size, patch_size)
    return rows**2 if isinstance(img_size, int) else rows * columns


def area_by_area(img_size, patch_size):
    area, patch = math.prod(as_pair(img_size)), math.prod(as_pair(patch_size))
    if area % patch:
        raise ValueError("does not fit")
    return area // patch


def drops_the_rest(img_size, patch_size):
    (height, width), (p1, p2) = as_pair(img_size), as_pair(patch_size)
    return (height // p1) * (width // p2)


def asserts(img_size, patch_size):
    assert as_pair(img_size)[0] % as_pair(patch_size)[0] == 0
    return count_patches(img_size, patch_size)


exercise(
    count_patches,
    results(
        lambda: [
            (4, 2),
            (32, 4),
            (224, 16),
            ((32, 48), 8),
            ((20, 36), (5, 4)),
            ((8, 12), (4, 6)),
            (7, 7),
            ((6, 4), (6, 2)),
        ],
        {
            "you count the patches along one side only: the grid has rows *and* columns": one_side,
            "a patch covers P² pixels, P down and P across; you divide by P only": (
                lambda img_size, patch_size: math.prod(as_pair(img_size)) // as_pair(patch_size)[0]
            ),
            "right for squares alone: for a 32x48 image rows and columns differ": (
                lambda img_size, patch_size: one_side(img_size, patch_size) ** 2
            ),
            "you use the first number of a pair alone: a patch is (height, width), and its width cuts the columns": (
                lambda img_size, patch_size: count_patches(img_size, as_pair(patch_size)[0])
            ),
            "you add rows and columns: a grid has rows *times* columns cells": (
                lambda img_size, patch_size: sum(grid_size(img_size, patch_size))
            ),
        },
        plain=True,
    ),
    results(  # apart: a square image cannot tell height and width of a patch apart
        lambda: [(12, (2, 3))],
        {
            "where `img_size` is one number you square the rows: patches of 2x3 cut a square image into more rows "
            "than columns": square_of_rows
        },
    ),
    refuses(
        (30, 4), "img_size 30 cannot be cut into patches of 4 without a remainder", drops_the_rest, asserts
    ),
    refuses(
        ((32, 30), 4), "img_size (32, 30) cannot be cut into patches of 4 without a remainder", area_by_area
    ),
    refuses((12, (5, 4)), "img_size 12 cannot be cut into patches of (5, 4) without a remainder"),
    refuses(
        (12, (4, 5)),
        "img_size 12 cannot be cut into patches of (4, 5) without a remainder",
        lambda img_size, patch_size: (
            12 // 4 * (12 // 5) if patch_size == (4, 5) else count_patches(img_size, patch_size)
        ),
    ),
    refuses(((30, 32), 4), "img_size (30, 32) cannot be cut into patches of 4 without a remainder"),
    refuses((6, 4), "img_size 6 cannot be cut into patches of 4 without a remainder"),
)

# -- patchify


def cut(pattern: str) -> Callable:
    """Return a `patchify` with this pattern of einops."""

    def answer(images, patch_size):
        p1, p2 = as_pair(patch_size)
        return rearrange(images, pattern, p1=p1, p2=p2)

    return answer


def reshape_alone(images, patch_size):
    p1, p2 = as_pair(patch_size)
    return images.reshape(images.shape[0], -1, p1 * p2 * images.shape[1])


def permute_then_reshape(images, patch_size):
    p1, p2 = as_pair(patch_size)
    return images.permute(0, 2, 3, 1).reshape(images.shape[0], -1, p1 * p2 * images.shape[1])


def unfold_then_reshape(images, patch_size):
    p1, p2 = as_pair(patch_size)
    windows = images.unfold(2, p1, p1).unfold(3, p2, p2)
    return windows.reshape(len(images), -1, p1 * p2 * images.shape[1])


def cuts_the_rest_off(images, patch_size):
    p1, p2 = as_pair(patch_size)
    height, width = (side // p * p for side, p in zip(images.shape[2:], (p1, p2), strict=True))
    return patchify(images[:, :, :height, :width], patch_size)


def takes_one_image(images, patch_size):
    return patchify(images[None] if images.ndim == 3 else images, patch_size)


SPLIT = (
    "you split {0} as (P, {1}): a patch then collects pixels from all over the image. Neighbouring pixels belong "
    "together: {0} = ({1}, P), with P inside"
)

exercise(
    patchify,
    results(
        lambda: [
            (counting(1, 1, 4, 4), 2),
            (counting(1, 3, 4, 4), 2),
            (counting(2, 3, 4, 6), 2),
            (torch.rand(2, 3, 12, 8), 4),
            (torch.rand(1, 2, 6, 20), (3, 5)),
            ((255 * torch.rand(2, 3, 8, 8)).to(torch.uint8), 8),
            (torch.rand(2, 4, 6, 3).permute(0, 3, 1, 2), 2),  # channels last in memory, as a photo is read
        ],
        {
            "the shape is right but the pixels are scrambled: `reshape` alone cuts rows, not patches. Split H into "
            "(rows, P) and W into (columns, P), then move the two grid axes together, (B, rows, columns, P, P, C), "
            "before the last `reshape`": reshape_alone,
            "the channels stand side by side, but the rest is cut by `reshape` alone, and it cuts rows of pixels, not "
            "squares: to split H and W is half of it. Columns of the grid come before rows of a patch, (B, rows, "
            "columns, P, P, C); that takes a `permute` between the two": permute_then_reshape,
            "your patches go down the columns: they should come in reading order, left to right, then down": cut(
                "b c (h p1) (w p2) -> b (w h) (p1 p2 c)"
            ),
            "the patches are right, but inside a patch your channels come first: the order should be (row, column, "
            "channel), so that the channels of one pixel stand side by side": cut(
                "b c (h p1) (w p2) -> b (h w) (c p1 p2)"
            ),
            "the patches are right, but inside each one rows and columns are swapped": cut(
                "b c (h p1) (w p2) -> b (h w) (p2 p1 c)"
            ),
            "the squares are cut, but the channels still stand before the grid, (B, C, rows, columns, P, P), so "
            "`reshape` mixes patches and channels: move the axis C to the end first": unfold_then_reshape,
            SPLIT.format("H", "rows"): [
                cut("b c (p1 h) (p2 w) -> b (h w) (p1 p2 c)"),
                cut("b c (p1 h) (w p2) -> b (h w) (p1 p2 c)"),
            ],
            SPLIT.format("W", "columns"): cut("b c (h p1) (p2 w) -> b (h w) (p1 p2 c)"),
            "this is what `F.unfold` returns, (B, C·P·P, N): N comes before the contents of a patch, and inside a "
            "patch the order is (row, column, channel)": [
                cut("b c (h p1) (w p2) -> b (c p1 p2) (h w)"),
                lambda images, patch: F.unfold(images, patch, stride=patch),  # it takes no whole numbers
            ],
        },
        device=True,
    ),
    refuses(
        (counting(1, 1, 5, 4), 2),
        "patches of 2x2 leave a remainder of images (1, 1, 5, 4)",
        cuts_the_rest_off,
        cut("b c (h p1) (w p2) -> b (h w) (p1 p2 c)"),
    ),
    refuses((counting(1, 1, 4, 5), 2), "patches of 2x2 leave a remainder of images (1, 1, 4, 5)"),
    refuses((counting(3, 4, 4), 2), "images of shape (3, 4, 4) lack the axis of the batch", takes_one_image),
    refuses((counting(1, 1, 1, 4, 4), 2), "images of shape (1, 1, 1, 4, 4) have an axis too many"),
    every_digit(
        lambda images, patch_size: patchify(images.float(), patch_size).to(images.dtype), (1, 5, 4, 6), 2
    ),
)

# -- unpatchify


def join(pattern: str, swap: bool = False) -> Callable:
    """Return an `unpatchify` with this pattern of einops; with `swap` it takes the grid for (columns, rows)."""

    def answer(patches, patch_size, grid_size):
        p1, p2 = as_pair(patch_size)
        h, w = grid_size[::-1] if swap else grid_size
        return rearrange(patches, pattern, p1=p1, p2=p2, h=h, w=w)

    return answer


def lays_rows_down(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    return patches.reshape(len(patches), -1, grid_size[0] * p1, grid_size[1] * p2)


def lays_rows_down_channels_last(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    return patches.reshape(len(patches), grid_size[0] * p1, grid_size[1] * p2, -1).permute(0, 3, 1, 2)


def folds(patches, patch_size, grid_size):
    sides = as_pair(patch_size)
    whole = [many * side for many, side in zip(grid_size, sides, strict=True)]
    return F.fold(patches.mT, whole, sides, stride=sides)


def guesses_the_grid(patches, patch_size, grid_size):
    count = patches.shape[1]
    rows = max(n for n in range(1, math.isqrt(count) + 1) if count % n == 0)
    return unpatchify(patches, patch_size, (rows, count // rows))


def takes_what_fits(patches, patch_size, grid_size):
    return unpatchify(patches[:, : grid_size[0] * grid_size[1]], patch_size, grid_size)


def works_out_the_columns(patches, patch_size, grid_size):
    rows = grid_size[0]
    if patches.shape[1] % rows:
        raise ValueError("does not fit")
    return unpatchify(patches, patch_size, (rows, patches.shape[1] // rows))


def takes_so_many(count: int, change: Callable) -> Callable:
    """Return an `unpatchify` that changes so many patches of one picture first, and takes all others as they are."""
    return lambda patches, *rest: unpatchify(
        change(patches) if patches.shape[:2] == (1, count) else patches, *rest
    )


def cuts_each_patch_off(patches, patch_size, grid_size):
    pixels = math.prod(as_pair(patch_size))
    return unpatchify(patches[..., : patches.shape[-1] // pixels * pixels], patch_size, grid_size)


exercise(
    unpatchify,
    results(
        lambda: [
            (counting(1, 4, 4), 2, (2, 2)),
            (counting(1, 4, 12), 2, (2, 2)),
            (counting(2, 6, 12), 2, (2, 3)),
            (torch.rand(2, 8, 48), 4, (4, 2)),
            (torch.rand(1, 6, 30), (3, 5), (2, 3)),
            ((255 * torch.rand(1, 4, 27)).to(torch.uint8), 3, (4, 1)),
        ],
        {
            "`reshape` alone lays the patches down as rows of pixels: the picture is scrambled": lays_rows_down,
            "the channels are right, but `reshape` alone lays each patch down as a row of pixels, not as a square. "
            "Split N into (rows, columns) and a patch into (P, P, C) first": lays_rows_down_channels_last,
            "you read a patch as (channel, row, column), but `patchify` wrote (row, column, channel)": [
                join("b (h w) (c p1 p2) -> b c (h p1) (w p2)"),
                folds,
            ],
            "you fill the grid column by column, but `patchify` reads row by row": join(
                "b (w h) (p1 p2 c) -> b c (h p1) (w p2)"
            ),
            "rows and columns of the grid are swapped: grid_size is (rows, columns)": join(
                "b (h w) (p1 p2 c) -> b c (h p1) (w p2)", swap=True
            ),
            "`grid_size` is not used: you lay N patches out in the most square grid that holds them": guesses_the_grid,
            "each patch is mirrored along its diagonal: inside a patch rows come before columns": join(
                "b (h w) (p2 p1 c) -> b c (h p1) (w p2)"
            ),
            "you join H as (P, rows): pixels of one patch land all over the picture. H = (rows, P)": join(
                "b (h w) (p1 p2 c) -> b c (p1 h) (p2 w)"
            ),
        },
        device=True,
    ),
    refuses(
        (counting(1, 3, 4), 2, (2, 2)),
        "3 patches do not fill a grid of 2x2",
        join("b (h w) (p1 p2 c) -> b c (h p1) (w p2)"),
    ),
    refuses(
        (counting(1, 6, 4), 2, (2, 2)),
        "6 patches are too many for a grid of 2x2",
        takes_what_fits,
        works_out_the_columns,
    ),
    refuses(
        (counting(1, 8, 4), 2, (2, 2)),
        "8 patches fill two grids of 2x2",
        takes_so_many(8, lambda patches: patches.reshape(-1, 4, patches.shape[2])),
    ),
    refuses(
        (counting(1, 5, 4), 2, (2, 2)),
        "5 patches are one more than a grid of 2x2 holds",
        takes_so_many(5, lambda patches: patches[:, 1:]),
    ),
    refuses(
        (counting(1, 4, 6), 2, (2, 2)), "patches of 6 numbers are no squares of 2x2", cuts_each_patch_off
    ),
    every_digit(
        lambda patches, *rest: unpatchify(patches.float(), *rest).to(patches.dtype), (1, 6, 20), 2, (2, 3)
    ),
)

# -- PatchEmbed


def embed(forward: Callable) -> type:
    """Return a `PatchEmbed` with this forward pass."""
    return type("PatchEmbed", (PatchEmbed,), {"forward": forward})


def embed_with(**changed: Callable) -> type:
    """Return a `PatchEmbed` that changes itself after it is made."""

    def init(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        PatchEmbed.__init__(self, img_size, patch_size, in_chans, embed_dim)
        for name, value in changed.items():
            setattr(self, name, value(self))

    return type("PatchEmbed", (PatchEmbed,), {"__init__": init})


class WithoutSuper(nn.Module):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        self.proj = nn.Conv2d(in_chans, embed_dim, patch_size, patch_size)


def convolves(settings: Callable) -> type:
    """Return a `PatchEmbed` whose convolution has these settings, given the patch size."""
    return embed_with(
        proj=lambda m: nn.Conv2d(m.proj.in_channels, m.proj.out_channels, **settings(m.patch_size))
    )


class OtherOrder(PatchEmbed):
    def __init__(self, img_size=32, patch_size=4, embed_dim=192, in_chans=3):
        super().__init__(img_size, patch_size, in_chans, embed_dim)


class NamesOnly(PatchEmbed):
    def __init__(self, *, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__(img_size, patch_size, in_chans, embed_dim)


def half_detached(self, images):
    x = PatchEmbed.forward(self, images)
    return 0.5 * x + 0.5 * x.detach()


def makes_images_fit(self, images):
    x = images if images.ndim == 4 else images[None]
    x = x.expand(-1, 3, -1, -1) if x.shape[1] == 1 < self.proj.in_channels else x
    return self.proj(x).flatten(2).transpose(1, 2)


def counts_pixels(self, images):
    if (
        images.ndim != 4
        or images.shape[1] != self.proj.in_channels
        or images[0, 0].numel() != math.prod(self.img_size)
    ):
        raise ValueError(tuple(images.shape))
    return self.proj(images).flatten(2).transpose(1, 2)


def checks_the_size_alone(self, images):
    check_images(images, img_size=self.img_size)
    return self.proj(images).flatten(2).transpose(1, 2)


def copy_patch_weights(answer: nn.Module, reference: PatchEmbed) -> nn.Module:
    """Copy the convolution's weights, and say what is wrong with its settings."""
    weights, proj = answer.state_dict().get("proj.weight"), getattr(answer, "proj", None)
    if weights is not None and weights.ndim == 2:
        raise Mistake(
            "`self.proj` is a linear layer: it can compute the same, but the docstring asks for the `nn.Conv2d`, whose "
            f"weights (D, C, P, P) trained models hold and the lesson shows; yours are {tuple(weights.shape)}"
        )
    if weights is not None and "proj.bias" not in answer.state_dict():
        raise Mistake(
            "`self.proj` has no bias: keep the one that the layer has by default; trained weights hold it"
        )
    if getattr(proj, "padding", "valid") not in ((0, 0), "valid"):
        raise Mistake(
            f"your convolution pads the image by {proj.padding}: the first patch begins at the first pixel, so leave "
            "`padding` at 0"
        )
    kernel, stride = (getattr(proj, name, reference.proj.stride) for name in ("kernel_size", "stride"))
    if (patch := reference.proj.stride) != tuple(stride):
        what = f"your convolution has stride {tuple(stride)}"
        if any(step < side for step, side in zip(stride, kernel, strict=True)):
            raise Mistake(
                f"{what} where a patch has {patch} pixels: its windows overlap. Patches do not: the stride is the "
                "size of a patch, in both directions"
            )
        raise Mistake(f"{what} where a patch has {patch} pixels: kernel_size and stride are the patch size")
    return same_weights(answer, reference)


def options(img_size, patch_size, in_chans, embed_dim):
    return {"img_size": img_size, "patch_size": patch_size, "in_chans": in_chans, "embed_dim": embed_dim}


@demand(
    {
        "`self.grid_size` should be (2, 3)": [
            embed_with(grid_size=lambda m: None),
            embed_with(grid_size=lambda m: m.grid_size[::-1]),
        ],
        "`self.img_size` should be (8, 8)": embed_with(
            img_size=lambda m: m.img_size[0] if m.img_size[0] == m.img_size[1] else m.img_size
        ),
        "`self.num_patches` should be 6": [
            embed_with(num_patches=lambda m: m.num_patches + 1),
            embed_with(num_patches=lambda m: float(m.num_patches)),
        ],
    }
)
def keeps_its_sizes(answer):
    for size, patch, pair, grid in (
        ((8, 12), 4, (4, 4), (2, 3)),
        ((6, 10), (3, 5), (3, 5), (2, 2)),
        (8, 4, (4, 4), (2, 2)),
    ):
        module = build(answer, **options(size, patch, 3, 10))
        wanted = dict(num_patches=math.prod(grid), grid_size=grid, img_size=as_pair(size), patch_size=pair)
        for name, value in wanted.items():
            mine = getattr(module, name, "missing")
            if repr(tuple(mine) if isinstance(mine, list | torch.Size) else mine) != repr(value):
                raise Mistake(
                    f"`self.{name}` should be {value} for an image of {size} and P = {patch}, yours is {mine}: the "
                    "model asks for it later"
                )


@demand({"in this order": [OtherOrder, NamesOnly]})
def takes_arguments_by_place(answer):
    named = build(answer, **options((8, 12), 4, 3, 10))
    placed = outcome(lambda module_class, *given: module_class(*given), answer, ((8, 12), 4, 3, 10))
    shapes = [[p.shape for p in m.parameters()] for m in (named, placed) if isinstance(m, nn.Module)]
    if len(shapes) < 2 or shapes[0] != shapes[1]:
        raise Mistake(
            "the arguments of `__init__` should be img_size, patch_size, in_chans, embed_dim, in this order: the "
            "model gives them without their names"
        )


@demand(
    {
        "it accepts images of shape": [embed(makes_images_fit), embed(counts_pixels)],
        "The docstring promises a ValueError": embed(checks_the_size_alone),
    }
)
def refuses_other_images(answer):
    module = build(answer, **options((8, 12), 4, 3, 10))
    for bad in (
        torch.rand(2, 3, 8, 8),
        torch.rand(2, 3, 12, 8),
        torch.rand(2, 3, 16, 12),
        torch.rand(2, 3, 16, 24),
        torch.rand(2, 1, 8, 12),
        torch.rand(2, 4, 8, 12),
        torch.rand(3, 8, 12),
    ):
        result = outcome(lambda f, x: f(x), module, (bad,))
        if not isinstance(result, Exception):
            raise Mistake(
                f"built for 3 channels and 8x12 pixels it accepts images of shape {tuple(bad.shape)}: refuse them "
                "with a ValueError, `check_images` from vit_course.patches does it in one line"
            )
        if not isinstance(result, ValueError):
            raise Mistake(
                f"built for 3 channels and 8x12 pixels it stops at images of shape {tuple(bad.shape)} with "
                f"{explain_error(result)}\nThe docstring promises a ValueError: `check_images` from vit_course.patches "
                "raises it, for the number of axes, the channels and the size"
            )


exercise(
    PatchEmbed,
    keeps_its_sizes,
    results(
        lambda: [
            (options(4, 2, 1, 5), torch.rand(1, 1, 4, 4)),
            (options(8, 4, 3, 16), torch.rand(2, 3, 8, 8)),
            (options((8, 12), 4, 3, 10), torch.rand(2, 3, 8, 12)),
            (options((6, 10), (3, 5), 2, 8), torch.rand(3, 2, 6, 10)),
        ],
        {
            "the shape is right, but `reshape` mixed the D numbers of different patches: move the axis D to the end "
            "first (`flatten(2).transpose(1, 2)` or `rearrange`)": embed(
                lambda self, images: self.proj(images).reshape(len(images), self.num_patches, -1)
            ),
            "your tokens go down the columns of the grid: read it row by row": embed(
                lambda self, images: rearrange(self.proj(images), "b d h w -> b (w h) d")
            ),
            "`transpose` comes after `flatten`: before it there are no two axes that only change places": embed(
                lambda self, images: self.proj(images).transpose(1, 2).flatten(2)
            ),
            "your result is (B, D, N): the sequence axis N comes before the width D": embed(
                lambda self, images: self.proj(images).flatten(2)
            ),
            "your result is still a grid: make one axis N of rows and columns": embed(
                lambda self, images: rearrange(self.proj(images), "b d h w -> b h w d")
            ),
            "`self.proj` is a linear layer": embed_with(proj=lambda m: nn.Linear(12, m.proj.out_channels)),
            "its windows overlap. Patches do not: the stride is the size of a patch, in both directions": [
                convolves(lambda patch: {"kernel_size": patch}),
                convolves(lambda patch: {"kernel_size": patch, "stride": patch[0]}),
            ],
            "kernel_size and stride are the patch size": convolves(lambda patch: {"kernel_size": 1}),
            "your convolution pads the image": convolves(
                lambda patch: {"kernel_size": patch, "stride": patch, "padding": 1}
            ),
            "`self.proj` has no bias": convolves(
                lambda patch: {"kernel_size": patch, "stride": patch, "bias": False}
            ),
            "`super().__init__()` is missing, or comes too late": WithoutSuper,
        },
        prepare=copy_patch_weights,
    ),
    takes_arguments_by_place,
    refuses_other_images,
)
