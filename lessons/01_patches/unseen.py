"""Answers to the exercises of lesson 01, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import math
from itertools import product

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vit_course.patches import PatchEmbed, as_pair, check_images, grid_size, patchify


def count_patches_checks_area(img_size, patch_size):
    (h, w), (p1, p2) = as_pair(img_size), as_pair(patch_size)
    if (h * w) % (p1 * p2):
        raise ValueError(f"{h}x{w} pixels are not a multiple of {p1}x{p2}")
    return h * w // (p1 * p2)


def count_patches_adds(img_size, patch_size):
    rows, columns = grid_size(img_size, patch_size)
    return rows + columns


def count_patches_squares_only(img_size, patch_size):
    rows, _ = grid_size(img_size, patch_size)
    return rows**2


def count_patches_checks_height(img_size, patch_size):
    (h, w), (p1, p2) = as_pair(img_size), as_pair(patch_size)
    if h % p1:
        raise ValueError(f"height {h} is not a multiple of {p1}")
    return (h // p1) * (w // p2)


def count_patches_grid(img_size, patch_size):
    return grid_size(img_size, patch_size)


def count_patches_prod(img_size, patch_size):
    return math.prod(grid_size(img_size, patch_size))


def count_patches_divmod(img_size, patch_size):
    total = 1
    for side, p in zip(as_pair(img_size), as_pair(patch_size), strict=True):
        if p < 1 or side < p:
            raise ValueError(f"a patch side of {p} does not fit into {side}")
        count, rest = divmod(side, p)
        if rest:
            raise ValueError(f"{side} pixels leave a rest of {rest} with patches of {p}")
        total *= count
    return total


def count_patches_by_walking(img_size, patch_size):
    (h, w), (p1, p2) = as_pair(img_size), as_pair(patch_size)
    if min(p1, p2) < 1:
        raise ValueError(f"no patch has {p1}x{p2} pixels")
    corners = [(y, x) for y in range(0, h, p1) for x in range(0, w, p2)]
    if not corners or corners[-1] != (h - p1, w - p2):
        raise ValueError(f"{p1}x{p2} patches do not fill {h}x{w} pixels")
    return len(corners)


def count_patches_by_area(img_size, patch_size):
    """H times W over P squared, as in the paper."""
    h, w = (img_size, img_size) if isinstance(img_size, int) else img_size
    p1, p2 = (patch_size, patch_size) if isinstance(patch_size, int) else patch_size
    fits = p1 > 0 and p2 > 0 and h >= p1 and w >= p2 and h % p1 == 0 and w % p2 == 0
    if not fits:
        raise ValueError(f"patches of {(p1, p2)} do not fill an image of {(h, w)}")
    return (h * w) // (p1 * p2)


def patchify_transposed_inside(images, patch_size):
    check_images(images)
    p1, p2 = as_pair(patch_size)
    grid_size(tuple(images.shape[-2:]), patch_size)
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p2 p1 c)", p1=p1, p2=p2)


def patchify_takes_one_picture(images, patch_size):
    if images.ndim == 3:
        images = images[None]
    p1, p2 = as_pair(patch_size)
    grid_size(tuple(images.shape[-2:]), patch_size)
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p1, p2=p2)


def patchify_square_patches(images, patch_size):
    check_images(images)
    p = as_pair(patch_size)[0]
    grid_size(tuple(images.shape[-2:]), p)
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p, p2=p)


def patchify_unfold_as_it_comes(images, patch_size):
    check_images(images)
    grid_size(tuple(images.shape[-2:]), patch_size)
    size = as_pair(patch_size)
    return F.unfold(images.float(), size, stride=size).transpose(1, 2)


def patchify_not_flat(images, patch_size):
    check_images(images)
    p1, p2 = as_pair(patch_size)
    grid_size(tuple(images.shape[-2:]), patch_size)
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) p1 p2 c", p1=p1, p2=p2)


def patchify_by_loops(images, patch_size):
    check_images(images)
    p1, p2 = as_pair(patch_size)
    rows, columns = grid_size(tuple(images.shape[-2:]), patch_size)
    cells = []
    for i in range(rows * columns):
        r, c = divmod(i, columns)
        cell = images[:, :, r * p1 : r * p1 + p1, c * p2 : c * p2 + p2]
        cells.append(cell.movedim(1, -1).reshape(len(images), -1))
    return torch.stack(cells, dim=1)


def patchify_by_permute(images, patch_size):
    if images.dim() != 4:
        raise ValueError(f"four axes wanted, not {images.dim()}")
    B, C, H, W = images.shape
    ph, pw = as_pair(patch_size)
    if ph < 1 or pw < 1 or H < ph or W < pw or H % ph or W % pw:
        raise ValueError(f"{H}x{W} pixels cannot be cut into {ph}x{pw}")
    x = images.reshape(B, C, H // ph, ph, W // pw, pw)
    return x.permute(0, 2, 4, 3, 5, 1).reshape(B, (H // ph) * (W // pw), ph * pw * C)


def patchify_by_unfold(images, patch_size):
    check_images(images)
    grid_size(tuple(images.shape[2:]), patch_size)
    size = as_pair(patch_size)
    windows = images.movedim(1, -1).unfold(1, size[0], size[0]).unfold(2, size[1], size[1])
    return windows.permute(0, 1, 2, 4, 5, 3).flatten(3).flatten(1, 2)


def patchify_by_splitting(images, patch_size):
    check_images(images)
    grid_size(tuple(images.shape[2:]), patch_size)
    p1, p2 = as_pair(patch_size)
    patches = []
    for band in images.split(p1, dim=2):
        patches += [rearrange(cell, "b c y x -> b 1 (y x c)") for cell in band.split(p2, dim=3)]
    return torch.cat(patches, dim=1)


def _fits(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    rows, columns = grid_size
    if patches.shape[1] != rows * columns:
        raise ValueError(f"{patches.shape[1]} patches are not {rows}x{columns}")
    if patches.shape[2] % (p1 * p2):
        raise ValueError(f"{patches.shape[2]} numbers are no multiple of {p1}x{p2}")
    return p1, p2, rows, columns


def unpatchify_columns_first(patches, patch_size, grid_size):
    p1, p2, rows, columns = _fits(patches, patch_size, grid_size)
    return rearrange(patches, "b (w h) (p1 p2 c) -> b c (h p1) (w p2)", h=rows, w=columns, p1=p1, p2=p2)


def unpatchify_three_channels(patches, patch_size, grid_size):
    p1, p2, rows, columns = _fits(patches, patch_size, grid_size)
    x = patches.reshape(patches.shape[0], rows, columns, p1, p2, 3)
    return x.permute(0, 5, 1, 3, 2, 4).reshape(patches.shape[0], 3, rows * p1, columns * p2)


def unpatchify_columns_unused(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    if patches.shape[2] % (p1 * p2):
        raise ValueError(f"{patches.shape[2]} numbers are no multiple of {p1}x{p2}")
    return rearrange(patches, "b (h w) (p1 p2 c) -> b c (h p1) (w p2)", h=grid_size[0], p1=p1, p2=p2)


def unpatchify_drops_the_rest(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    rows, columns = grid_size
    if patches.shape[1] != rows * columns:
        raise ValueError(f"{patches.shape[1]} patches are not {rows}x{columns}")
    c = patches.shape[2] // (p1 * p2)
    x = patches[:, :, : p1 * p2 * c].reshape(-1, rows, columns, p1, p2, c)
    return x.permute(0, 5, 1, 3, 2, 4).reshape(-1, c, rows * p1, columns * p2)


def unpatchify_float_canvas(patches, patch_size, grid_size):
    p1, p2, rows, columns = _fits(patches, patch_size, grid_size)
    b, n, length = patches.shape
    images = torch.zeros(b, length // (p1 * p2), rows * p1, columns * p2)
    for i in range(n):
        y, x = i // columns * p1, i % columns * p2
        images[:, :, y : y + p1, x : x + p2] = patches[:, i].reshape(b, p1, p2, -1).permute(0, 3, 1, 2)
    return images


def unpatchify_by_permute(patches, patch_size, grid_size):
    (ph, pw), (gh, gw) = as_pair(patch_size), grid_size
    B, N, L = patches.shape
    if N != gh * gw:
        raise ValueError(f"{N} patches for a grid of {gh}x{gw}")
    if L % (ph * pw) != 0:
        raise ValueError(f"a patch of {L} numbers for {ph}x{pw} pixels")
    x = patches.reshape(B, gh, gw, ph, pw, L // (ph * pw))
    return x.permute(0, 5, 1, 3, 2, 4).reshape(B, -1, gh * ph, gw * pw)


def unpatchify_by_pasting(patches, patch_size, grid_size):
    p1, p2 = as_pair(patch_size)
    rows, columns = grid_size
    b, n, length = patches.shape
    channels, rest = divmod(length, p1 * p2)
    if n != rows * columns or rest:
        raise ValueError(f"{n} patches of {length} numbers: grid {rows}x{columns}, patch {p1}x{p2}")
    canvas = patches.new_empty(b, rows * p1, columns * p2, channels)
    for i in range(n):
        r, c = divmod(i, columns)
        canvas[:, r * p1 : (r + 1) * p1, c * p2 : (c + 1) * p2] = patches[:, i].view(b, p1, p2, channels)
    return canvas.permute(0, 3, 1, 2)


def unpatchify_by_joining(patches, patch_size, grid_size):
    height, width = as_pair(patch_size)
    rows, columns = grid_size
    if patches.shape[1] != rows * columns or patches.shape[2] % (height * width):
        raise ValueError(f"patches {tuple(patches.shape)} do not fit {grid_size} of {patch_size}")
    cells = rearrange(patches, "b n (y x c) -> n b c y x", y=height, x=width).unbind(0)
    bands = [torch.cat(cells[r * columns : (r + 1) * columns], dim=-1) for r in range(rows)]
    return torch.cat(bands, dim=-2)


def unpatchify_by_scattering(patches, patch_size, grid_size):
    """Cut a picture of running numbers, and put every pixel where its number came from."""
    p1, p2 = as_pair(patch_size)
    rows, columns = grid_size
    if patches.shape[1] != rows * columns:
        raise ValueError(f"{patches.shape[1]} patches, {rows}x{columns} places")
    if patches.shape[2] % (p1 * p2):
        raise ValueError(f"{patches.shape[2]} numbers, {p1}x{p2} pixels")
    c = patches.shape[2] // (p1 * p2)
    numbers = torch.arange(c * rows * p1 * columns * p2).view(1, c, rows * p1, columns * p2)
    order = patchify(numbers, (p1, p2)).flatten().to(patches.device)
    pixels = patches.flatten(1)[:, order.argsort()]
    return pixels.view(-1, c, rows * p1, columns * p2)


class PatchEmbedReshapes(PatchEmbed):
    def forward(self, images):
        check_images(images, self.proj.in_channels, self.img_size)
        x = self.proj(images)
        return x.reshape(x.shape[0], self.num_patches, x.shape[1])


class PatchEmbedUnchecked(PatchEmbed):
    def forward(self, images):
        return self.proj(images).flatten(2).transpose(1, 2)


class PatchEmbedChannelsFirst(PatchEmbed):
    def forward(self, images):
        check_images(images, self.proj.in_channels, self.img_size)
        return self.proj(images).flatten(2)


class PatchEmbedColourOnly(nn.Module):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__()
        self.img_size, self.patch_size = as_pair(img_size), as_pair(patch_size)
        self.grid_size = grid_size(img_size, patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.proj = nn.Conv2d(3, embed_dim, kernel_size=self.patch_size, stride=self.patch_size)

    def forward(self, images):
        check_images(images, self.proj.in_channels, self.img_size)
        return self.proj(images).flatten(2).transpose(1, 2)


class PatchEmbedNewEachTime(nn.Module):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__()
        self.img_size, self.patch_size = as_pair(img_size), as_pair(patch_size)
        self.grid_size = grid_size(img_size, patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.in_chans, self.embed_dim = in_chans, embed_dim

    def forward(self, images):
        check_images(images, self.in_chans, self.img_size)
        proj = nn.Conv2d(self.in_chans, self.embed_dim, self.patch_size, stride=self.patch_size)
        return proj(images).flatten(2).transpose(1, 2)


class PatchEmbedKernelTurned(nn.Module):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__()
        self.img_size, self.patch_size = as_pair(img_size), as_pair(patch_size)
        self.grid_size = grid_size(img_size, patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        kernel = self.patch_size[::-1]
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=kernel, stride=kernel)

    def forward(self, images):
        check_images(images, self.proj.in_channels, self.img_size)
        return self.proj(images).flatten(2).transpose(1, 2)


class PatchEmbedFlatten(nn.Module):
    """The way most libraries write it."""

    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__()
        self.img_size = as_pair(img_size)
        self.patch_size = as_pair(patch_size)
        self.grid_size = grid_size(self.img_size, self.patch_size)
        self.num_patches = math.prod(self.grid_size)
        self.proj = nn.Conv2d(in_chans, embed_dim, self.patch_size, self.patch_size)

    def forward(self, images):
        check_images(images, self.proj.in_channels, self.img_size)
        return self.proj(images).flatten(start_dim=2).transpose(1, 2)


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


class PatchEmbedEinsum(PatchEmbed):
    def forward(self, images):
        check_images(images, self.proj.in_channels, self.img_size)
        (gh, gw), (ph, pw) = self.grid_size, self.patch_size
        cells = images.reshape(images.shape[0], images.shape[1], gh, ph, gw, pw)
        tokens = torch.einsum("bcypxq,dcpq->byxd", cells, self.proj.weight)
        return tokens.reshape(images.shape[0], self.num_patches, -1) + self.proj.bias


def count_patches_by_area_by_hand(img_size, patch_size):
    (height, width), (p1, p2) = as_pair(img_size), as_pair(patch_size)
    if (height * width) % (p1 * p2):
        raise ValueError(f"patches of {p1}x{p2} do not fill {height}x{width}")
    return height * width // (p1 * p2)


def count_patches_width_first(img_size, patch_size):
    p_width, p_height = as_pair(patch_size)
    rows, columns = grid_size(img_size, (p_height, p_width))
    return rows * columns


def count_patches_same_padding(img_size, patch_size):
    (height, width), (p1, p2) = as_pair(img_size), as_pair(patch_size)
    return math.ceil(height / p1) * math.ceil(width / p2)


def patchify_crops(images: Tensor, patch_size) -> Tensor:
    if images.ndim != 4:
        raise ValueError(f"images should have 4 axes, got {images.ndim}")
    p1, p2 = as_pair(patch_size)
    windows = images.unfold(2, p1, p1).unfold(3, p2, p2)  # (B, C, rows, columns, p1, p2)
    return windows.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)


def patchify_helps_single(images: Tensor, patch_size) -> Tensor:
    if images.ndim == 3:
        images = images.unsqueeze(0)
    p1, p2 = as_pair(patch_size)
    grid_size(tuple(images.shape[-2:]), patch_size)
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p1, p2=p2)


def patchify_cat(images: Tensor, patch_size) -> Tensor:
    check_images(images)
    p1, p2 = as_pair(patch_size)
    rows, columns = grid_size(tuple(images.shape[-2:]), patch_size)
    found = []
    for y, x in product(range(rows), range(columns)):
        piece = images[:, :, y * p1 : (y + 1) * p1, x * p2 : (x + 1) * p2]
        found.append(piece.permute(0, 2, 3, 1).flatten(1))
    return torch.cat(found).reshape(len(images), rows * columns, -1)


def unpatchify_drops_surplus(patches: Tensor, patch_size, grid_size) -> Tensor:
    (p1, p2), (rows, columns) = as_pair(patch_size), grid_size
    if patches.shape[1] < rows * columns or patches.shape[2] % (p1 * p2):
        raise ValueError(f"{tuple(patches.shape)} does not fit {grid_size} patches of {p1}x{p2}")
    patches = patches[:, : rows * columns]
    return rearrange(patches, "b (h w) (p1 p2 c) -> b c (h p1) (w p2)", h=rows, p1=p1, p2=p2)


def unpatchify_channels_last(patches: Tensor, patch_size, grid_size) -> Tensor:
    (p1, p2), (rows, columns) = as_pair(patch_size), grid_size
    if patches.shape[1] != rows * columns or patches.shape[2] % (p1 * p2):
        raise ValueError(f"{tuple(patches.shape)} does not fit {grid_size} patches of {p1}x{p2}")
    return rearrange(patches, "b (h w) (p1 p2 c) -> b (h p1) (w p2) c", h=rows, p1=p1, p2=p2)


def unpatchify_into_zeros(patches: Tensor, patch_size, grid_size) -> Tensor:
    (p1, p2), (rows, columns) = as_pair(patch_size), grid_size
    batch, count, length = patches.shape
    if count != rows * columns or length % (p1 * p2):
        raise ValueError(f"{tuple(patches.shape)} does not fit {grid_size} patches of {p1}x{p2}")
    image = torch.zeros(batch, length // (p1 * p2), rows * p1, columns * p2)
    for n in range(count):
        y, x = divmod(n, columns)
        piece = patches[:, n].reshape(batch, p1, p2, -1).permute(0, 3, 1, 2)
        image[:, :, y * p1 : (y + 1) * p1, x * p2 : (x + 1) * p2] = piece
    return image


class PatchEmbedByColumns(PatchEmbed):
    def forward(self, images: Tensor) -> Tensor:
        check_images(images, self.proj.in_channels, self.img_size)
        return self.proj(images).permute(0, 3, 2, 1).flatten(1, 2)


class PatchEmbedImageNet(PatchEmbed):
    def __init__(self, img_size=224, patch_size=16, in_chans=3, embed_dim=768):
        super().__init__(img_size, patch_size, in_chans, embed_dim)


UNSEEN = {
    "count_patches": [
        ("only the areas must divide, not the sides", count_patches_checks_area),
        ("rows and columns are added, not multiplied", count_patches_adds),
        ("the number of rows is squared, so only square grids are right", count_patches_squares_only),
        ("only the height is checked", count_patches_checks_height),
        ("the grid (rows, columns) is returned, not the number of its cells", count_patches_grid),
        (
            "rounds up as Keras' padding='same' does, so an image that is not filled exactly raises "
            "no ValueError",
            count_patches_same_padding,
        ),
        (
            "tests and divides only the areas, so a 6x8 image with P = 4 gives 3 and no ValueError "
            "although the rows do not fit",
            count_patches_by_area_by_hand,
        ),
        (
            "reads the pair of the patch as (width, height), so an 8x6 image with patches (4, 3) is "
            "refused, and (3, 4), which do not fill it, are counted",
            count_patches_width_first,
        ),
    ],
    "patchify": [
        ("inside a patch the pixels are read column by column", patchify_transposed_inside),
        ("a single picture (C, H, W) is taken as a batch, no ValueError", patchify_takes_one_picture),
        ("the height of a patch is taken for its width too", patchify_square_patches),
        ("F.unfold as it comes: channels first inside a patch, and float32", patchify_unfold_as_it_comes),
        ("the patches are not flattened", patchify_not_flat),
        (
            "adds a batch axis to a picture with three axes, where the docstring promises a ValueError",
            patchify_helps_single,
        ),
        (
            "cuts with Tensor.unfold, which drops the rows and columns left over, and raises no "
            "ValueError for sizes that do not fit",
            patchify_crops,
        ),
        (
            "joins the patches of the loop with cat along the batch and then reshapes to (B, N, ...), "
            "which is right for one image only and mixes images otherwise",
            patchify_cat,
        ),
    ],
    "unpatchify": [
        ("the patches fill the grid column by column", unpatchify_columns_first),
        ("three channels are assumed", unpatchify_three_channels),
        ("the columns are worked out from N, so a wrong grid is not refused", unpatchify_columns_unused),
        ("numbers that leave a rest are cut off, no ValueError", unpatchify_drops_the_rest),
        ("the pictures are float32, whatever the dtype of the patches", unpatchify_float_canvas),
        (
            "pastes into torch.zeros without a dtype, so uint8 patches come back as a float32 picture",
            unpatchify_into_zeros,
        ),
        (
            "returns (B, H, W, C), channels last as Keras and imshow want it, where (B, C, H, W) is promised",
            unpatchify_channels_last,
        ),
        (
            "raises only when there are too few patches and drops the surplus silently when N is "
            "above rows x columns",
            unpatchify_drops_surplus,
        ),
    ],
    "PatchEmbed": [
        ("a reshape to (B, N, D), the axis D is not moved", PatchEmbedReshapes),
        ("the pictures are not checked", PatchEmbedUnchecked),
        ("the result is (B, D, N), the transpose is forgotten", PatchEmbedChannelsFirst),
        ("in_chans is ignored, always three channels", PatchEmbedColourOnly),
        ("the convolution is made anew, at random, in every forward pass", PatchEmbedNewEachTime),
        ("the kernel is (width, height), only right for square patches", PatchEmbedKernelTurned),
        (
            "copies the defaults 224, 16 and 768 of ImageNet repositories in place of 32, 4 and 192",
            PatchEmbedImageNet,
        ),
        (
            "permutes (B, D, rows, columns) to (B, columns, rows, D) before flattening, so the tokens "
            "come column by column",
            PatchEmbedByColumns,
        ),
    ],
}
STYLES = {
    "count_patches": [
        count_patches_prod,
        count_patches_divmod,
        count_patches_by_walking,
        count_patches_by_area,
    ],
    "patchify": [patchify_by_loops, patchify_by_permute, patchify_by_unfold, patchify_by_splitting],
    "unpatchify": [
        unpatchify_by_permute,
        unpatchify_by_pasting,
        unpatchify_by_joining,
        unpatchify_by_scattering,
    ],
    "PatchEmbed": [PatchEmbedFlatten, PatchEmbedPatchify, PatchEmbedUnfold, PatchEmbedEinsum],
}
