"""Images to patches and back: the x_p and E of equation 1 of the ViT paper (Dosovitskiy et al., 2021).

`vit` uses `PatchEmbed`; lesson 01 builds it.
"""

from einops import rearrange
from torch import Tensor, nn


def as_pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """Read a size as (height, width): an int stands for a square."""
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def grid_size(img_size: int | tuple[int, int], patch_size: int | tuple[int, int]) -> tuple[int, int]:
    """Count how many patches fit into an image, downwards and across.

    Args:
        img_size: side of a square image, or (height H, width W), in pixels.
        patch_size: side P of a square patch, or (height, width), in pixels.

    Returns:
        (rows, columns) of the grid of patches.

    Raises:
        ValueError: if the patches do not fill the image exactly.
    """
    (height, width), (p1, p2) = as_pair(img_size), as_pair(patch_size)
    for side, length, patch in (("height", height, p1), ("width", width, p2)):
        if patch < 1 or length < patch:
            raise ValueError(f"patch_size {p1}x{p2} does not fit into img_size {height}x{width} ({side})")
        if length % patch:
            unit = "row" if side == "height" else "column"
            left, nearest = length % patch, max(patch, round(length / patch) * patch)
            raise ValueError(
                f"img_size {height}x{width} is not divisible by patch_size {p1}x{p2}: "
                f"{side} {length} leaves {left} {unit}{'s' * (left > 1)}; {side} {nearest} would fit"
            )
    return height // p1, width // p2


def count_patches(img_size: int | tuple[int, int], patch_size: int | tuple[int, int]) -> int:
    """Count the patches of an image, N = H·W / P² (paper, section 3.1).

    Args:
        img_size: side of a square image, or (height H, width W), in pixels.
        patch_size: side P of a square patch, or (height, width), in pixels.

    Returns:
        N, the number of patches: the length of the sequence that the Transformer reads.

    Raises:
        ValueError: if the patches do not fill the image exactly.
    """
    rows, columns = grid_size(img_size, patch_size)  # given
    return rows * columns


def patchify(images: Tensor, patch_size: int | tuple[int, int]) -> Tensor:
    """Cut images into patches and flatten each patch into one row (paper, section 3.1: x to x_p).

    Patches come in reading order: left to right, then top to bottom. Inside a patch the numbers come in the
    order (row, column, channel): pixel by pixel, the channels of one pixel side by side.

    Args:
        images: (B, C, H, W), any dtype.
        patch_size: side P of a square patch, or (height, width), in pixels. H and W are multiples of it.

    Returns:
        (B, N, P·P·C) with N = H·W / P², same dtype and device.

    Raises:
        ValueError: if `images` does not have four axes, or if the patches do not fill the image exactly.
    """
    check_images(images)  # given
    p1, p2 = as_pair(patch_size)  # given
    grid_size(tuple(images.shape[-2:]), patch_size)  # given
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p1, p2=p2)


def unpatchify(patches: Tensor, patch_size: int | tuple[int, int], grid_size: tuple[int, int]) -> Tensor:
    """Put patches back together: the exact inverse of `patchify`.

    Args:
        patches: (B, N, P·P·C) as `patchify` returns them.
        patch_size: side P of a square patch, or (height, width), in pixels.
        grid_size: (rows, columns) of the grid, rows x columns = N.

    Returns:
        (B, C, H, W) with H = rows·P and W = columns·P, same dtype and device.

    Raises:
        ValueError: if N is not rows x columns, or the length of a patch is not a multiple of P·P.
    """
    (p1, p2), (rows, columns) = as_pair(patch_size), grid_size  # given
    if patches.ndim != 3:  # given
        raise ValueError(
            f"patches should have 3 axes (B, N, P·P·C), got {patches.ndim}: {tuple(patches.shape)}"
        )
    _, num_patches, length = patches.shape  # given
    if num_patches != rows * columns:  # given
        raise ValueError(f"{num_patches} patches do not fill a grid of {rows}x{columns} = {rows * columns}")
    if length % (p1 * p2):  # given
        raise ValueError(f"patch length {length} is not a multiple of {p1}x{p2} = {p1 * p2} pixels")
    return rearrange(patches, "b (h w) (p1 p2 c) -> b c (h p1) (w p2)", h=rows, w=columns, p1=p1, p2=p2)


class PatchEmbed(nn.Module):
    """Turn an image into a sequence of tokens: cut into patches, multiply each by the same matrix E.

    A convolution whose stride equals its kernel does both at once: `self.proj` is that `nn.Conv2d`, with one
    output channel for each of the D numbers of a token. Its output (B, D, rows, columns) is then read row by
    row as a sequence.

    Args:
        img_size: side of a square image, or (height H, width W), in pixels.
        patch_size: side P of a square patch, or (height, width), in pixels.
        in_chans: channels C of the image, 3 for colour and 1 for grey.
        embed_dim: width D of a token.
    """

    def __init__(
        self,
        img_size: int | tuple[int, int] = 32,
        patch_size: int | tuple[int, int] = 4,
        in_chans: int = 3,
        embed_dim: int = 192,
    ):
        super().__init__()
        self.img_size, self.patch_size = as_pair(img_size), as_pair(patch_size)
        self.grid_size = grid_size(img_size, patch_size)
        self.num_patches = count_patches(img_size, patch_size)
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=self.patch_size, stride=self.patch_size)

    def forward(self, images: Tensor) -> Tensor:
        """Embed a batch of images, (B, C, H, W), as tokens (B, N, D).

        Raises:
            ValueError: if the images have other axes, channels or sizes than the module was built for.
        """
        check_images(images, self.proj.in_channels, self.img_size)  # given
        return rearrange(self.proj(images), "b d h w -> b (h w) d")


def check_images(
    images: Tensor, in_chans: int | None = None, img_size: tuple[int, int] | None = None
) -> None:
    """Raise a `ValueError` that names both numbers when a batch (B, C, H, W) is not of the expected shape."""
    if images.ndim != 4:
        raise ValueError(
            f"images should have 4 axes (B, C, H, W), got {images.ndim}: {tuple(images.shape)}"
            + ("; for one image use images[None]" if images.ndim == 3 else "")
        )
    if in_chans is not None and images.shape[1] != in_chans:
        raise ValueError(
            f"images have {images.shape[1]} channels, but in_chans is {in_chans}; "
            f"build the model with in_chans={images.shape[1]}"
        )
    if in_chans is not None and not images.is_floating_point():
        raise ValueError(
            f"images are {images.dtype}, but a model computes with floats: normalize(images, mean, std) makes them"
        )
    if img_size is not None and tuple(images.shape[-2:]) != img_size:
        (h, w), (height, width) = images.shape[-2:], img_size
        raise ValueError(
            f"images are {h}x{w}, but the model was built for {height}x{width}; "
            f"build it with img_size=({h}, {w})"
        )
