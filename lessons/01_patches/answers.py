"""Answers to the exercises of lesson 01, written as students write them."""

import math
import sys

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_classroom.checks.edits import edited
from vit_course.patches import (
    PatchEmbed,
    as_pair,
    check_images,
    count_patches,
    grid_size,
    patchify,
    unpatchify,
)


def count_returns_error(img_size, patch_size):
    try:
        return count_patches(img_size, patch_size)
    except ValueError as error:
        return error


def count_by_area(img_size, patch_size):
    height, width = (img_size, img_size) if isinstance(img_size, int) else img_size
    p1, p2 = (patch_size, patch_size) if isinstance(patch_size, int) else patch_size
    if height % p1 or width % p2:
        raise ValueError(f"{height}x{width} cannot be cut into {p1}x{p2}")
    return height * width // (p1 * p2)


def count_by_range(img_size, patch_size):
    rows, columns = grid_size(img_size, patch_size)
    return sum(1 for _ in range(rows) for _ in range(columns))


def patchify_of_memory(images, patch_size):
    return patchify(images.as_strided(images.shape, torch.empty(images.shape).stride()), patch_size)


def patchify_square_only(images, patch_size):
    p1, p2 = as_pair(patch_size)
    side = images.shape[-1] // p2
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p1, p2=p2, h=side)


def patchify_cat(images, patch_size):
    patches = patchify(images, patch_size)
    return torch.cat(patches.unbind(1)).reshape(patches.shape)


def patchify_loops(images, patch_size):
    check_images(images)
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
    if h % p1 or w % p2:
        raise ValueError(f"{h}x{w} leaves a rest")
    grid = images.reshape(b, c, h // p1, p1, w // p2, p2)
    return grid.permute(0, 2, 4, 3, 5, 1).reshape(b, -1, p1 * p2 * c)


def unpatchify_permute(patches, patch_size, grid_size):
    (p1, p2), (rows, columns) = as_pair(patch_size), grid_size
    if patches.shape[1] != rows * columns or patches.shape[2] % (p1 * p2):
        raise ValueError("these patches do not fit")
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


def patchify_transposed_inside(images, patch_size):
    check_images(images)
    p1, p2 = as_pair(patch_size)
    grid_size(tuple(images.shape[-2:]), patch_size)
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p2 p1 c)", p1=p1, p2=p2)


def unpatchify_reshape(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    return patches.reshape(len(patches), -1, grid_size[0] * p1, grid_size[1] * p2)


def unpatchify_guess(patches, patch_size, grid_size):
    """Fill the most square grid that holds all patches."""
    count = patches.shape[1]
    rows = max(n for n in range(1, math.isqrt(count) + 1) if count % n == 0)
    return unpatchify(patches, patch_size, (rows, count // rows))


def unpatchify_three_channels(patches, patch_size, grid_size):
    x = patches.reshape(patches.shape[0], *grid_size, *as_pair(patch_size), 3)
    return rearrange(x, "b h w p1 p2 c -> b c (h p1) (w p2)")


class EmbedOtherName(PatchEmbed):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__(img_size, patch_size, in_chans, embed_dim)
        self.projection = self._modules.pop("proj")

    def forward(self, images):
        return self.projection(images).flatten(2).transpose(1, 2)


class EmbedNewEachTime(nn.Module):
    def __init__(self, *sizes, **options):
        super().__init__()
        self.sizes, self.options, made = sizes, options, PatchEmbed(*sizes, **options)
        self.img_size, self.patch_size = made.img_size, made.patch_size
        self.grid_size, self.num_patches = made.grid_size, made.num_patches

    def forward(self, images):
        return PatchEmbed(*self.sizes, **self.options)(images)


class PatchEmbedPatchify(PatchEmbed):
    """Cut, then multiply by the kernel of the convolution."""

    def forward(self, images):
        check_images(images, self.proj.in_channels, self.img_size)
        matrix = rearrange(self.proj.weight, "d c p1 p2 -> d (p1 p2 c)")
        return F.linear(patchify(images, self.patch_size), matrix, self.proj.bias)


class PatchEmbedUnfold(PatchEmbed):
    def forward(self, images):
        check_images(images, self.proj.in_channels, self.img_size)
        pieces = F.unfold(images, self.patch_size, stride=self.patch_size)
        return pieces.mT @ self.proj.weight.flatten(1).T + self.proj.bias


class Template(PatchEmbed):
    def forward(self, images):
        return self._forward(images)


class PatchEmbedOfTemplate(Template):
    """The base calls a method whose name is nearly `forward`."""

    def _forward(self, images):
        check_images(images, self.proj.in_channels, self.img_size)
        return rearrange(self.proj(images), "b d h w -> b (h w) d")


STRIDE = "stride=self.patch_size)"
DISSECTED = ("inside a patch the pixels are read column by column", patchify_transposed_inside)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "count_patches": [
        ("a count is a whole number", lambda *case: float(count_patches(*case))),
        ("your code returns a ValueError: `raise` it", count_returns_error),
        ("you returned", grid_size),
        (
            "right where `patch_size` is a square, wrong elsewhere",
            lambda img_size, patch_size: count_patches(img_size, as_pair(patch_size)[::-1]),
        ),
    ],
    "patchify": [
        ("which ends the whole program", lambda images, patch_size: sys.exit("does not fit")),
        ("on images of shape (2, 3, 4, 6), patch_size = 2 (the cases", patchify_of_memory),
        ("should be torch.uint8", lambda images, patch_size: patchify(images.float(), patch_size)),
        ("the shape should be (1, 4, 4)", lambda images, patch_size: images),
        ("your code stopped with EinopsError", patchify_square_only),
        ("your numbers stand in the order (patches, pictures, numbers of a", patchify_cat),
    ],
    "PatchEmbed": [
        (
            "proj.weight starts with the same number everywhere",
            edited(PatchEmbed, f"{STRIDE} => {STRIDE}; nn.init.constant_(self.proj.weight, 0.02)"),
        ),
        (
            "no gradient reaches the weights proj.weight",
            edited(PatchEmbed, '(h w) d") => (h w) d").detach().requires_grad_()'),
        ),
        (
            "the gradient of the weights proj.weight is not",
            edited(
                PatchEmbed,
                'd") => d"); x = _; return 0.5 * x + 0.5 * x.detach() ;; return rearr => _ = rearr',
            ),
        ),
        ("right, but not in float64", edited(PatchEmbed, "proj(images) => proj(images.float())")),
        (
            "axes 1 and 2 of your result should be one",
            edited(PatchEmbed, "b (h w) d => b h w d"),
        ),
        ("give the class itself", PatchEmbed()),
        ("no weights named proj.weight", EmbedOtherName),
        (
            "proj.weight should be (5, 1, 2, 2), yours is (5, 3, 2, 2): `in_chans`",
            edited(PatchEmbed, "Conv2d(in_chans => Conv2d(3"),
        ),
        ("your module has no weights named proj.weight, proj.bias (it", EmbedNewEachTime),
    ],
    "unpatchify": [
        ("16 numbers do not fill the shape (1, 2, 2, 2, 2, 3)", unpatchify_three_channels),
        ("your numbers are those of `patches` in the same order", unpatchify_reshape),
        ("your result does not change with `grid_size`, but it should", unpatchify_guess),
    ],
}
RIGHT = {
    "count_patches": [count_by_area, count_by_range],
    "patchify": [patchify_loops, patchify_views],
    "unpatchify": [unpatchify_permute, unpatchify_fill],
    "PatchEmbed": [
        PatchEmbedUnfold,
        PatchEmbedPatchify,
        PatchEmbedOfTemplate,
        edited(PatchEmbed, f"{STRIDE} => {STRIDE[:-1]}, padding='valid')"),
    ],
}
