"""Checks of lesson 01: patches."""

import inspect

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_course import patches
from vit_course.classroom.checks.compare import compare, compare_modules, demand_error
from vit_course.classroom.checks.outcome import Mistake, build, outcome, same_weights
from vit_course.classroom.checks.parts import counting
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import explain_error


@exercise(patches.count_patches)
def check_count_patches(answer):
    cases = [(4, 2), (32, 4), (224, 16), ((32, 48), 8), ((20, 36), (5, 4))]
    pair = patches.as_pair

    def one_side(img_size, patch_size):
        return pair(img_size)[0] // pair(patch_size)[0]

    def forgets_square(img_size, patch_size):
        return pair(img_size)[0] * pair(img_size)[1] // pair(patch_size)[0]

    def square_of_height(img_size, patch_size):
        return one_side(img_size, patch_size) ** 2

    def squared_twice(img_size, patch_size):
        return patches.count_patches(img_size, patch_size) ** 2

    def rows_plus_columns(img_size, patch_size):
        return sum(patches.grid_size(img_size, patch_size))

    def with_cls(img_size, patch_size):
        return patches.count_patches(img_size, patch_size) + 1

    compare(
        answer,
        patches.count_patches,
        cases,
        [
            (one_side, "you count the patches along one side only: the grid has rows *and* columns"),
            (forgets_square, "a patch covers P² pixels, P down and P across; you divide by P only"),
            (square_of_height, "right for squares alone: for a 32x48 image rows and columns differ"),
            (rows_plus_columns, "you add rows and columns: a grid has rows *times* columns cells"),
            (squared_twice, "you square twice: (H/P)·(W/P) is N already"),
            (with_cls, "one too many: the CLS token is no patch, it comes in lesson 02"),
        ],
    )
    for img_size, patch_size in [(30, 4), ((32, 30), 4), ((30, 32), 4), ((6, 6), 4)]:
        why = f"img_size {img_size} cannot be cut into patches of {patch_size} without a rest"
        demand_error(answer, (img_size, patch_size), why, ValueError)


@exercise(patches.patchify)
def check_patchify(answer):
    small = (counting(1, 1, 4, 4), 2)
    cases = [
        small,
        (counting(1, 3, 4, 4), 2),
        (counting(2, 3, 4, 6), 2),
        (torch.rand(2, 3, 12, 8), 4),
        (torch.rand(1, 2, 6, 20), (3, 5)),
        ((255 * torch.rand(2, 3, 8, 8)).to(torch.uint8), 8),
        (torch.rand(2, 4, 6, 3).permute(0, 3, 1, 2), 2),  # as a photo is read: the channels last in memory
    ]

    def plain_reshape(images, p):
        p1, p2 = patches.as_pair(p)
        return images.reshape(images.shape[0], -1, p1 * p2 * images.shape[1])

    def permuted_reshape(images, p):
        p1, p2 = patches.as_pair(p)
        return images.permute(0, 2, 3, 1).reshape(images.shape[0], -1, p1 * p2 * images.shape[1])

    def unfold_reshape(images, p):
        return as_einops("b c (h p1) (w p2) -> b c h w p1 p2")(images, p).reshape(
            plain_reshape(images, p).shape
        )

    def as_einops(pattern):
        def function(images, p):
            p1, p2 = patches.as_pair(p)
            return rearrange(images, pattern, p1=p1, p2=p2)

        return function

    compare(
        answer,
        patches.patchify,
        cases,
        [
            (
                plain_reshape,
                "the shape is right but the pixels are scrambled: `reshape` alone cuts rows, not patches. Split H "
                "into (rows, P) and W into (columns, P) first, then bring the two grid axes together",
            ),
            (
                permuted_reshape,
                "the channels stand side by side, but the rest is cut by `reshape` alone, and it cuts rows of pixels, "
                "not squares. Split H into (rows, P) and W into (columns, P) first",
            ),
            (
                as_einops("b c (h p1) (w p2) -> b (w h) (p1 p2 c)"),
                "your patches go down the columns: they should come in reading order, left to right, then down",
            ),
            (
                as_einops("b c (h p1) (w p2) -> b (h w) (c p1 p2)"),
                "the patches are right, but inside a patch your channels come first: the order should be "
                "(row, column, channel), so that the channels of one pixel stand side by side",
            ),
            (
                as_einops("b c (h p1) (w p2) -> b (h w) (p2 p1 c)"),
                "the patches are right, but inside each one rows and columns are swapped",
            ),
            (
                unfold_reshape,
                "the squares are cut, but the channels still stand before the grid, (B, C, rows, columns, P, P), so "
                "`reshape` mixes patches and channels: move the axis C to the end first",
            ),
            *(
                (
                    as_einops(f"b c {split} -> b (h w) (p1 p2 c)"),
                    f"you split {side} as (P, {number}): a patch then collects pixels from all over the image. "
                    f"Neighbouring pixels belong together: {side} = ({number}, P), with P inside",
                )
                for split, side, number in (
                    ("(p1 h) (p2 w)", "H", "rows"),
                    ("(p1 h) (w p2)", "H", "rows"),
                    ("(h p1) (p2 w)", "W", "columns"),
                )
            ),
            (
                as_einops("b c (h p1) (w p2) -> b (c p1 p2) (h w)"),
                "this is what `F.unfold` returns, (B, C·P·P, N): N comes before the contents of a patch, and inside a "
                "patch the order is (row, column, channel)",
            ),
            (
                as_einops("b c (h p1) (w p2) -> b (p1 p2 c) (h w)"),
                "patches and their contents are swapped: N first",
            ),
            (
                as_einops("b c (h p1) (w p2) -> b h w (p1 p2 c)"),
                "one step is left: make one axis N of rows and columns",
            ),
        ],
    )
    for shape in ((1, 1, 5, 4), (1, 1, 4, 5)):
        demand_error(answer, (counting(*shape), 2), f"patches of 2x2 leave a rest of images {shape}")
    why = "images of shape (3, 4, 4) lack the axis of the batch"
    demand_error(answer, (counting(3, 4, 4), 2), why)


@exercise(patches.unpatchify)
def check_unpatchify(answer):
    cases = [
        (counting(1, 4, 4), 2, (2, 2)),
        (counting(1, 4, 12), 2, (2, 2)),
        (counting(2, 6, 12), 2, (2, 3)),
        (torch.rand(2, 8, 48), 4, (4, 2)),
        (torch.rand(1, 6, 30), (3, 5), (2, 3)),
        ((255 * torch.rand(1, 4, 27)).to(torch.uint8), 3, (4, 1)),
    ]

    def as_einops(pattern, swap=False):
        def function(x, p, grid):
            p1, p2 = patches.as_pair(p)
            h, w = grid[::-1] if swap else grid
            return rearrange(x, pattern, p1=p1, p2=p2, h=h, w=w)

        return function

    def plain_reshape(x, p, grid):
        p1, p2 = patches.as_pair(p)
        return x.reshape(x.shape[0], -1, grid[0] * p1, grid[1] * p2)

    def permuted_reshape(x, p, grid):
        p1, p2 = patches.as_pair(p)
        return x.reshape(x.shape[0], grid[0] * p1, grid[1] * p2, -1).permute(0, 3, 1, 2)

    compare(
        answer,
        patches.unpatchify,
        cases,
        [
            (
                plain_reshape,
                "`reshape` alone lays the patches down as rows of pixels: the picture is scrambled",
            ),
            (
                permuted_reshape,
                "the channels are right, but `reshape` alone lays each patch down as a row of pixels, not as a square. "
                "Split N into (rows, columns) and a patch into (P, P, C) first",
            ),
            (
                as_einops("b (h w) (c p1 p2) -> b c (h p1) (w p2)"),
                "you read a patch as (channel, row, column), but `patchify` wrote (row, column, channel)",
            ),
            (
                as_einops("b (w h) (p1 p2 c) -> b c (h p1) (w p2)"),
                "you fill the grid column by column, but `patchify` reads row by row",
            ),
            (
                as_einops("b (h w) (p1 p2 c) -> b c (h p1) (w p2)", swap=True),
                "rows and columns of the grid are swapped: grid_size is (rows, columns)",
            ),
            (
                as_einops("b (h w) (p2 p1 c) -> b c (h p1) (w p2)"),
                "each patch is mirrored along its diagonal: inside a patch rows come before columns",
            ),
            (
                as_einops("b (h w) (p1 p2 c) -> b (h p1) (w p2) c"),
                "the channels are last; PyTorch pictures are (B, C, H, W)",
            ),
            (
                as_einops("b (h w) (p1 p2 c) -> b c (p1 h) (p2 w)"),
                "you join H as (P, rows): pixels of one patch land all over the picture. H = (rows, P)",
            ),
        ],
    )
    for number in (3, 5):
        why = f"{number} patches do not fill a grid of 2x2"
        demand_error(answer, (counting(1, number, 4), 2, (2, 2)), why)
    why = "patches of 6 numbers are no squares of 2x2 pixels"
    demand_error(answer, (counting(1, 4, 6), 2, (2, 2)), why)


class _ReadsColumns(patches.PatchEmbed):
    def forward(self, images):
        return rearrange(self.proj(images), "b d h w -> b (w h) d")


class _BareReshape(patches.PatchEmbed):
    def forward(self, images):
        x = self.proj(images)
        return x.reshape(x.shape[0], -1, x.shape[1])


class _ChannelsSecond(patches.PatchEmbed):
    def forward(self, images):
        return self.proj(images).flatten(2)


class _StillAGrid(patches.PatchEmbed):
    def forward(self, images):
        return rearrange(self.proj(images), "b d h w -> b h w d")


class _ChannelsFirst(patches.PatchEmbed):
    def forward(self, images):
        weight = rearrange(self.proj.weight, "d c p1 p2 -> d (p1 p2 c)")
        p1, p2 = self.patch_size
        flat = rearrange(images, "b c (h p1) (w p2) -> b (h w) (c p1 p2)", p1=p1, p2=p2)
        return F.linear(flat, weight, self.proj.bias)


class _ExtraActivation(patches.PatchEmbed):
    def forward(self, images):
        return F.relu(super().forward(images))


def _copy_patch_weights(answer: nn.Module, reference: patches.PatchEmbed) -> nn.Module:
    """Copy the convolution's weights; a student may also have written patchify and a linear layer."""
    weights = answer.state_dict().get("proj.weight")
    if weights is not None and weights.ndim == 2:
        flat = rearrange(reference.proj.weight.detach(), "d c p1 p2 -> d (p1 p2 c)")
        if weights.shape != flat.shape:
            raise Mistake(f"proj.weight should be {tuple(flat.shape)}, yours is {tuple(weights.shape)}")
        answer.load_state_dict({"proj.weight": flat, "proj.bias": reference.proj.bias.detach()})
        return answer
    proj = getattr(answer, "proj", None)
    kernel, stride = (getattr(proj, name, reference.proj.stride) for name in ("kernel_size", "stride"))
    if (patch := reference.proj.stride) != tuple(stride):
        what = f"your convolution has stride {tuple(stride)}"
        if any(step < side for step, side in zip(stride, kernel, strict=True)):
            raise Mistake(f"{what}: its windows overlap. Patches do not: the stride is P")
        raise Mistake(
            f"{what} where a patch has {patch} pixels: kernel_size and stride are both the patch size"
        )
    return same_weights(answer, reference)


@exercise(patches.PatchEmbed)
def check_patch_embed(answer):
    def options(img_size, patch_size, in_chans, embed_dim):
        return {"img_size": img_size, "patch_size": patch_size, "in_chans": in_chans, "embed_dim": embed_dim}

    cases = [
        (options(4, 2, 1, 5), torch.rand(1, 1, 4, 4)),
        (options(8, 4, 3, 16), torch.rand(2, 3, 8, 8)),
        (options((8, 12), 4, 3, 10), torch.rand(2, 3, 8, 12)),
        (options((6, 10), (3, 5), 2, 7), torch.rand(3, 2, 6, 10)),
    ]
    compare_modules(
        answer,
        patches.PatchEmbed,
        cases,
        [
            (
                _BareReshape,
                "the shape is right, but `reshape` mixed the D numbers of different patches: move the axis D to the "
                "end first (`flatten(2).transpose(1, 2)` or `rearrange`)",
            ),
            (_ReadsColumns, "your tokens go down the columns of the grid: read it row by row"),
            (_ChannelsSecond, "your result is (B, D, N): the sequence axis N comes before the width D"),
            (_StillAGrid, "your result is still a grid: make one axis N of rows and columns"),
            (
                _ChannelsFirst,
                "your linear layer gets the numbers of a patch in the order (channel, row, column), so trained weights "
                "would not fit: the order is that of `patchify`, (row, column, channel)",
            ),
            (_ExtraActivation, "negative values are gone: the projection is linear, nothing follows it"),
        ],
        prepare=_copy_patch_weights,
    )
    module = build(answer, img_size=(8, 12), patch_size=4, in_chans=3, embed_dim=10)
    wanted = {"num_patches": 6, "grid_size": (2, 3), "img_size": (8, 12), "patch_size": (4, 4)}
    for name, value in wanted.items():
        mine = getattr(module, name, "missing")
        if (tuple(mine) if isinstance(mine, list | torch.Size) else mine) != value:
            raise Mistake(
                f"`self.{name}` should be {value} for an 8x12 image and P = 4, yours is {mine}: the model asks for "
                "it later"
            )
    _check_order(answer, module)
    _check_defaults(answer)
    for bad in (torch.rand(2, 3, 8, 8), torch.rand(2, 1, 8, 12), torch.rand(3, 8, 12)):
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


def _check_defaults(answer: type) -> None:
    """Where the arguments have defaults, they are those of the docstring's signature."""
    for name, parameter in inspect.signature(patches.PatchEmbed).parameters.items():
        mine = inspect.signature(answer).parameters.get(name, parameter).default
        if mine not in (parameter.default, inspect.Parameter.empty):
            raise Mistake(f"the default of `{name}` should stay {parameter.default}, yours is {mine}")


def _check_order(answer: type, named: nn.Module) -> None:
    """The arguments go by their places too: the model gives them so."""
    module = outcome(lambda module_class, *options: module_class(*options), answer, ((8, 12), 4, 3, 10))
    shapes = [[tuple(p.shape) for p in m.parameters()] for m in (named, module) if isinstance(m, nn.Module)]
    if isinstance(module, Exception) or shapes[0] != shapes[-1]:
        raise Mistake(
            "the arguments of `__init__` should be img_size, patch_size, in_chans, embed_dim, in this order: the "
            "model gives them without their names"
        )
