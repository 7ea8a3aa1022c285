"""Answers to the exercises of lesson 01, written as students write them."""

import math
import sys

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_course.patches import PatchEmbed, as_pair, check_images, grid_size


def one_side(img_size, patch_size):
    return as_pair(img_size)[0] // as_pair(patch_size)[0]


def not_squared(img_size, patch_size):
    height, width = as_pair(img_size)
    return height * width // as_pair(patch_size)[0]


def square_only(img_size, patch_size):
    return (as_pair(img_size)[0] // as_pair(patch_size)[0]) ** 2


def fraction(img_size, patch_size):
    height, width = as_pair(img_size)
    p1, p2 = as_pair(patch_size)
    if height % p1 or width % p2:
        raise ValueError("does not fit")
    return height * width / (p1 * p2)


def accepts_anything(img_size, patch_size):
    height, width = as_pair(img_size)
    p1, p2 = as_pair(patch_size)
    return (height // p1) * (width // p2)


def counts_cls(img_size, patch_size):
    rows, columns = grid_size(img_size, patch_size)
    return rows * columns + 1


def count_sum(img_size, patch_size):
    rows, columns = grid_size(img_size, patch_size)
    return rows + columns


def count_asserts(img_size, patch_size):
    height, width = as_pair(img_size)
    p1, p2 = as_pair(patch_size)
    assert height % p1 == 0 and width % p2 == 0, "does not fit"
    return (height // p1) * (width // p2)


def count_returns_error(img_size, patch_size):
    try:
        return math.prod(grid_size(img_size, patch_size))
    except ValueError as error:
        return error


def count_area_only(img_size, patch_size):
    area, patch = math.prod(as_pair(img_size)), math.prod(as_pair(patch_size))
    if area % patch:
        raise ValueError("does not fit")
    return area // patch


def count_by_numpy(img_size, patch_size):
    return np.prod(grid_size(img_size, patch_size))


def count_by_area(img_size, patch_size):
    height, width = (img_size, img_size) if isinstance(img_size, int) else img_size
    p1, p2 = (patch_size, patch_size) if isinstance(patch_size, int) else patch_size
    if height % p1 or width % p2:
        raise ValueError(f"{height}x{width} cannot be cut into {p1}x{p2}")
    return height * width // (p1 * p2)


def count_by_range(img_size, patch_size):
    rows, columns = grid_size(img_size, patch_size)
    return sum(1 for _ in range(rows) for _ in range(columns))


def patchify_reshape(images, patch_size):
    p1, p2 = as_pair(patch_size)
    b, c, h, w = images.shape
    return images.reshape(b, (h // p1) * (w // p2), p1 * p2 * c)


def patchify_permuted_reshape(images, patch_size):
    p1, p2 = as_pair(patch_size)
    b, c, h, w = images.shape
    return images.permute(0, 2, 3, 1).reshape(b, (h // p1) * (w // p2), p1 * p2 * c)


def patchify_exits(images, patch_size):
    sys.exit("does not fit")


def patchify_crops(images, patch_size):
    p1, p2 = as_pair(patch_size)
    rows, columns = images.shape[2] // p1, images.shape[3] // p2
    images = images[:, :, : rows * p1, : columns * p2]
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p1, p2=p2)


def patchify_one_image(images, patch_size):
    images = images[None] if images.ndim == 3 else images
    grid_size(tuple(images.shape[-2:]), patch_size)
    return patchify_views(images, patch_size)


def patchify_column_major(images, patch_size):
    p1, p2 = as_pair(patch_size)
    return rearrange(images, "b c (h p1) (w p2) -> b (w h) (p1 p2 c)", p1=p1, p2=p2)


def patchify_channels_first(images, patch_size):
    p1, p2 = as_pair(patch_size)
    return F.unfold(images.float(), (p1, p2), stride=(p1, p2)).transpose(1, 2).to(images.dtype)


def patchify_transposed_inside(images, patch_size):
    p1, p2 = as_pair(patch_size)
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p2 p1 c)", p1=p1, p2=p2)


def patchify_strided(images, patch_size):
    p1, p2 = as_pair(patch_size)
    return rearrange(images, "b c (p1 h) (p2 w) -> b (h w) (p1 p2 c)", p1=p1, p2=p2)


def patchify_half_strided(images, patch_size):
    p1, p2 = as_pair(patch_size)
    return rearrange(images, "b c (h p1) (p2 w) -> b (h w) (p1 p2 c)", p1=p1, p2=p2)


def patchify_unfold_only(images, patch_size):
    return F.unfold(images, as_pair(patch_size), stride=as_pair(patch_size))


def patchify_unfold_reshape(images, patch_size):
    p1, p2 = as_pair(patch_size)
    windows = images.unfold(2, p1, p1).unfold(3, p2, p2)
    return windows.reshape(len(images), -1, p1 * p2 * images.shape[1])


def patchify_of_memory(images, patch_size):
    (p1, p2), (b, c, h, w) = as_pair(patch_size), images.shape
    rows, columns = grid_size((h, w), patch_size)
    strides = (c * h * w, p1 * w, p2, w, 1, h * w)
    return images.as_strided((b, rows, columns, p1, p2, c), strides).flatten(3).flatten(1, 2)


def patchify_to_float(images, patch_size):
    p1, p2 = as_pair(patch_size)
    return rearrange(images.float(), "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p1, p2=p2)


def patchify_identity(images, patch_size):
    return images


def patchify_square_only(images, patch_size):
    p1, p2 = as_pair(patch_size)
    side = images.shape[-1] // p2
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p1, p2=p2, h=side)


def patchify_loops(images, patch_size):
    p1, p2 = as_pair(patch_size)
    grid_size(tuple(images.shape[-2:]), patch_size)
    rows = []
    for y in range(0, images.shape[2], p1):
        for x in range(0, images.shape[3], p2):
            rows.append(images[:, :, y : y + p1, x : x + p2].permute(0, 2, 3, 1).flatten(1))
    return torch.stack(rows, dim=1)


def patchify_views(images, patch_size):
    p1, p2 = as_pair(patch_size)
    b, c, h, w = images.shape
    grid = images.reshape(b, c, h // p1, p1, w // p2, p2)
    return grid.permute(0, 2, 4, 3, 5, 1).reshape(b, -1, p1 * p2 * c)


def patchify_unfold_method(images, patch_size):
    check_images(images)
    p1, p2 = as_pair(patch_size)
    grid_size(tuple(images.shape[-2:]), patch_size)
    windows = images.unfold(2, p1, p1).unfold(3, p2, p2)
    return windows.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)


def unpatchify_reshape(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    return patches.reshape(len(patches), -1, grid_size[0] * p1, grid_size[1] * p2)


def unpatchify_channels_first(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    return rearrange(patches, "b (h w) (c p1 p2) -> b c (h p1) (w p2)", h=grid_size[0], p1=p1, p2=p2)


def unpatchify_columns(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    return rearrange(patches, "b (w h) (p1 p2 c) -> b c (h p1) (w p2)", h=grid_size[0], p1=p1, p2=p2)


def unpatchify_channels_last(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    return rearrange(patches, "b (h w) (p1 p2 c) -> b (h p1) (w p2) c", h=grid_size[0], p1=p1, p2=p2)


def unpatchify_mirrored(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    return rearrange(patches, "b (h w) (p2 p1 c) -> b c (h p1) (w p2)", h=grid_size[0], p1=p1, p2=p2)


def unpatchify_permuted_reshape(patches, patch_size, grid_size):
    (p1, p2), (rows, columns) = as_pair(patch_size), grid_size
    x = patches.reshape(len(patches), rows * p1, columns * p2, patches.shape[2] // (p1 * p2))
    return x.permute(0, 3, 1, 2)


def unpatchify_crops(patches, patch_size, grid_size):
    number = grid_size[0] * grid_size[1]
    return unpatchify_permute(patches[:, :number], patch_size, grid_size)


def unpatchify_crops_length(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    length = patches.shape[-1] // (p1 * p2) * p1 * p2
    return unpatchify_permute(patches[..., :length], patch_size, grid_size)


def unpatchify_permute(patches, patch_size, grid_size):
    (p1, p2), (rows, columns) = as_pair(patch_size), grid_size
    x = patches.reshape(patches.shape[0], rows, columns, p1, p2, -1)
    return x.permute(0, 5, 1, 3, 2, 4).reshape(patches.shape[0], -1, rows * p1, columns * p2)


def unpatchify_fill(patches, patch_size, grid_size):
    (p1, p2), (rows, columns) = as_pair(patch_size), grid_size
    if patches.shape[1] != rows * columns or patches.shape[2] % (p1 * p2):
        raise ValueError("other patches")
    channels = patches.shape[-1] // (p1 * p2)
    images = patches.new_zeros(len(patches), channels, rows * p1, columns * p2)
    for index in range(rows * columns):
        y, x = index // columns * p1, index % columns * p2
        patch = patches[:, index].reshape(-1, p1, p2, channels)
        images[:, :, y : y + p1, x : x + p2] = patch.permute(0, 3, 1, 2)
    return images


class EmbedReshape(PatchEmbed):
    def forward(self, images):
        x = self.proj(images)
        return x.reshape(x.shape[0], self.num_patches, -1)


class EmbedColumns(PatchEmbed):
    def forward(self, images):
        return self.proj(images).transpose(2, 3).flatten(2).transpose(1, 2)


class EmbedNoTranspose(PatchEmbed):
    def forward(self, images):
        return self.proj(images).flatten(2)


class EmbedGrid(PatchEmbed):
    def forward(self, images):
        return self.proj(images).permute(0, 2, 3, 1)


class EmbedOverlap(PatchEmbed):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__(img_size, patch_size, in_chans, embed_dim)
        self.proj = nn.Conv2d(in_chans, embed_dim, patch_size, padding=0)


class EmbedDetached(PatchEmbed):
    def forward(self, images):
        return super().forward(images).detach().requires_grad_()


class EmbedAcceptsAnything(PatchEmbed):
    def forward(self, images):
        x = images if images.ndim == 4 else images[None]
        x = x.expand(-1, 3, -1, -1) if x.shape[1] == 1 < self.proj.in_channels else x
        return self.proj(x).flatten(2).transpose(1, 2)


class EmbedWithoutGrid(PatchEmbed):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__(img_size, patch_size, in_chans, embed_dim)
        del self.grid_size


class EmbedGridTurned(PatchEmbed):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__(img_size, patch_size, in_chans, embed_dim)
        self.grid_size = self.grid_size[::-1]


class EmbedHeightOnly(PatchEmbed):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__(img_size, patch_size, in_chans, embed_dim)
        side = self.patch_size[0]
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=side, stride=side)


class EmbedOtherDefaults(PatchEmbed):
    def __init__(self, img_size=224, patch_size=16, in_chans=3, embed_dim=768):
        super().__init__(img_size, patch_size, in_chans, embed_dim)


class EmbedChecksSizeOnly(PatchEmbed):
    def forward(self, images):
        check_images(images, img_size=self.img_size)
        return self.proj(images).flatten(2).transpose(1, 2)


class EmbedOtherOrder(PatchEmbed):
    def __init__(self, img_size=32, patch_size=4, embed_dim=192, in_chans=3):
        super().__init__(img_size, patch_size, in_chans, embed_dim)


class EmbedNamesOnly(PatchEmbed):
    def __init__(self, *, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__(img_size, patch_size, in_chans, embed_dim)


class EmbedDropout(PatchEmbed):
    def forward(self, images):
        return F.dropout(super().forward(images), 0.5, self.training)


class EmbedHalfDetached(PatchEmbed):
    def forward(self, images):
        x = super().forward(images)
        return 0.5 * x + 0.5 * x.detach()


class EmbedOtherName(nn.Module):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__()
        self.projection = nn.Conv2d(in_chans, embed_dim, patch_size, patch_size)

    def forward(self, images):
        return self.projection(images).flatten(2).transpose(1, 2)


class EmbedPlain(nn.Module):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__()
        self.img_size, self.patch_size = as_pair(img_size), as_pair(patch_size)
        self.grid_size = grid_size(img_size, patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.proj = nn.Conv2d(in_chans, embed_dim, patch_size, stride=patch_size)

    def forward(self, images):
        check_images(images, self.proj.in_channels, self.img_size)
        return self.proj(images).flatten(2).transpose(1, 2)


class EmbedLinear(nn.Module):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__()
        self.img_size, self.patch_size, self.in_chans = as_pair(img_size), as_pair(patch_size), in_chans
        self.grid_size = grid_size(img_size, patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.proj = nn.Linear(self.patch_size[0] * self.patch_size[1] * in_chans, embed_dim)

    def forward(self, images):
        check_images(images, self.in_chans, self.img_size)
        return self.proj(patchify_views(images, self.patch_size))


class EmbedLinearChannelsFirst(EmbedLinear):
    def forward(self, images):
        check_images(images, self.in_chans, self.img_size)
        return self.proj(F.unfold(images, self.patch_size, stride=self.patch_size).transpose(1, 2))


WRONG = {
    "count_patches": [
        ("one side only", one_side),
        ("you add rows and columns", count_sum),
        ("you divide by P only", not_squared),
        ("right for squares alone", square_only),
        ("a count is a whole number", fraction),
        ("without a rest", accepts_anything),
        ("stopped with AssertionError", count_asserts),
        ("img_size (32, 30) cannot be cut", count_area_only),
        ("the CLS token is no patch", counts_cls),
        ("your code returns a ValueError: `raise` it", count_returns_error),
    ],
    "patchify": [
        ("cuts rows, not patches", patchify_reshape),
        ("it cuts rows of pixels", patchify_permuted_reshape),
        ("which ends the whole program", patchify_exits),
        ("leave a rest of images (1, 1, 5, 4)", patchify_crops),
        ("lack the axis of the batch", patchify_one_image),
        ("down the columns", patchify_column_major),
        ("channels come first", patchify_channels_first),
        ("rows and columns are swapped", patchify_transposed_inside),
        ("pixels from all over the image", patchify_strided),
        ("you split W as (P, columns)", patchify_half_strided),
        ("what `F.unfold` returns", patchify_unfold_only),
        ("mixes patches and channels", patchify_unfold_reshape),
        ("on images of shape (2, 3, 4, 6), patch_size = 2 (smaller", patchify_of_memory),
        ("should stay torch.uint8", patchify_to_float),
        ("the shape should be (1, 4, 4)", patchify_identity),
        ("your code stopped with EinopsError", patchify_square_only),
    ],
    "unpatchify": [
        ("the picture is scrambled", unpatchify_reshape),
        ("as a row of pixels, not as a square", unpatchify_permuted_reshape),
        ("5 patches do not fill", unpatchify_crops),
        ("no squares of 2x2", unpatchify_crops_length),
        ("`patchify` wrote (row, column, channel)", unpatchify_channels_first),
        ("column by column", unpatchify_columns),
        ("the channels are last", unpatchify_channels_last),
        ("mirrored along its diagonal", unpatchify_mirrored),
    ],
    "PatchEmbed": [
        ("mixed the D numbers of different patches", EmbedReshape),
        ("down the columns", EmbedColumns),
        ("your result is (B, D, N)", EmbedNoTranspose),
        ("still a grid", EmbedGrid),
        ("its windows overlap", EmbedOverlap),
        ("kernel_size and stride are both the patch size", EmbedHeightOnly),
        ("the default of `img_size` should stay 32", EmbedOtherDefaults),
        ("The docstring promises a ValueError", EmbedChecksSizeOnly),
        ("the order is that of `patchify`", EmbedLinearChannelsFirst),
        ("no gradient reaches the weights proj.weight", EmbedDetached),
        ("the gradient of the weights proj.weight is not", EmbedHalfDetached),
        ("in training mode the result is another", EmbedDropout),
        ("`self.grid_size` should be (2, 3)", EmbedWithoutGrid),
        ("`self.grid_size` should be (2, 3)", EmbedGridTurned),
        ("in this order", EmbedOtherOrder),
        ("in this order", EmbedNamesOnly),
        ("give the class itself", PatchEmbed()),
        ("it accepts images of shape", EmbedAcceptsAnything),
        ("no weights named proj.weight", EmbedOtherName),
    ],
}
RIGHT = {
    "count_patches": [count_by_area, count_by_range, count_by_numpy],
    "patchify": [patchify_loops, patchify_views, patchify_unfold_method],
    "unpatchify": [unpatchify_permute, unpatchify_fill],
    "PatchEmbed": [EmbedPlain, EmbedLinear],
}
