"""What a token carries besides its patch: the CLS token and the position, x_class and E_pos of equation 1.

`vit` uses it; lessons 02 and 03 build it.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn


def prepend_cls_token(tokens: Tensor, cls_token: Tensor) -> Tensor:
    """Put the CLS token in front of every sequence of the batch (paper, equation 1: x_class).

    Args:
        tokens: (B, N, D), the patch tokens.
        cls_token: (1, 1, D), one learned vector, the same for every image.

    Returns:
        (B, N + 1, D), same dtype and device: the CLS token at index 0, then the patch tokens in their order. Gradients
        reach `cls_token`.

    Raises:
        ValueError: if the widths differ.
    """
    if tokens.shape[-1] != cls_token.shape[-1]:  # given
        raise ValueError(f"tokens have width {tokens.shape[-1]}, the CLS token has {cls_token.shape[-1]}")
    return torch.cat([cls_token.expand(tokens.shape[0], -1, -1), tokens], dim=1)


def pool(tokens: Tensor, mode: str = "token", num_prefix_tokens: int = 1) -> Tensor:
    """Make one vector of a sequence: read the CLS token, or average the patch tokens (paper, D.3).

    Args:
        tokens: (B, T, D), first `num_prefix_tokens` tokens that are not patches, then the patch tokens.
        mode: "token" reads the token at index 0; "avg" averages the patch tokens alone.
        num_prefix_tokens: how many tokens in front are not patches: 0 without a CLS token, 1 with it, more if
            there are other extra tokens.

    Returns:
        (B, D), same dtype and device.

    Raises:
        ValueError: if the mode is another one, or "token" is asked for and no such token is there.
    """
    if mode not in ("token", "avg"):  # given
        raise ValueError(f"mode {mode!r} is unknown: use 'token' or 'avg'")
    if mode == "token" and num_prefix_tokens < 1:  # given
        raise ValueError("mode 'token' needs a CLS token, but num_prefix_tokens is 0; use mode 'avg'")
    if mode == "avg":
        return tokens[:, num_prefix_tokens:].mean(dim=1)
    return tokens[:, 0]


def learned_positions(num_tokens: int, dim: int, std: float = 0.02) -> nn.Parameter:
    """Make the table of positions that a model learns (paper, equation 1: E_pos).

    Args:
        num_tokens: T, the number of tokens, the CLS token included.
        dim: width D of a token.
        std: standard deviation of the normal numbers that the table starts with.

    Returns:
        A parameter (1, T, D), one vector for each of the T positions, drawn anew in every call.
    """
    return nn.Parameter(torch.randn(1, num_tokens, dim) * std)


def add_position(tokens: Tensor, pos_embed: Tensor) -> Tensor:
    """Tell every token where it is: add one vector per position (paper, equation 1: + E_pos).

    Args:
        tokens: (B, T, D), the CLS token included.
        pos_embed: (1, T, D), one vector for each of the T positions, the same for every image.

    Returns:
        (B, T, D), same dtype and device.

    Raises:
        ValueError: if the number of tokens or the widths differ.
    """
    if tokens.shape[1:] != pos_embed.shape[1:]:  # given
        raise ValueError(
            f"tokens (T, D) are {tuple(tokens.shape[1:])}, positions are {tuple(pos_embed.shape[1:])}: "
            "one position vector per token is needed, the CLS token included"
        )
    return tokens + pos_embed


def sincos_2d(grid_size: tuple[int, int], dim: int, temperature: float = 10000.0) -> Tensor:
    """Compute fixed positions from sines and cosines of the row and of the column.

    Split the D numbers of a position into four quarters: sin(row·w), cos(row·w), sin(column·w),
    cos(column·w), with the frequencies w_k = temperature^(-k / (D/4)), k = 0 ... D/4 - 1. Rows and columns
    count from 0. (Vaswani et al., 2017, carried over to two axes.)

    Args:
        grid_size: (rows, columns) of the grid of patches.
        dim: width D, a multiple of 4.
        temperature: wavelengths run from 2·pi patches up towards 2·pi·temperature.

    Returns:
        (N, D) float32 with N = rows·columns, positions in reading order.

    Raises:
        ValueError: if D is not a multiple of 4.
    """
    if dim % 4:  # given
        raise ValueError(f"dim {dim} is not divisible by 4: two axes need a sine and a cosine each")
    rows, columns = grid_size
    frequencies = temperature ** (-torch.arange(dim // 4) / (dim // 4))
    y = torch.arange(rows)[:, None] * frequencies
    x = torch.arange(columns)[:, None] * frequencies
    y = torch.cat([y.sin(), y.cos()], dim=1).repeat_interleave(columns, dim=0)
    x = torch.cat([x.sin(), x.cos()], dim=1).repeat(rows, 1)
    return torch.cat([y, x], dim=1)


def resample_pos_embed(
    pos_embed: Tensor,
    old_grid: tuple[int, int],
    new_grid: tuple[int, int],
    num_prefix_tokens: int = 1,
    mode: str = "bicubic",
    antialias: bool = True,
) -> Tensor:
    """Stretch learned positions to another grid of patches (paper, section 3.2).

    The vectors of the patches are laid out as a picture of D channels and interpolated in two dimensions;
    the vectors of the prefix tokens (CLS) have no place in the picture and are kept as they are. Bicubic,
    corners not aligned, antialiased when shrinking: timm's convention. Other libraries differ (JAX code of
    the paper: bilinear, corners aligned; MAE and DeiT: bicubic without antialiasing).

    Args:
        pos_embed: (1, prefix + N, D) with N = old rows·columns.
        old_grid: (rows, columns) of the grid the positions were learned on.
        new_grid: (rows, columns) of the grid wanted.
        num_prefix_tokens: how many vectors in front belong to no patch.
        mode: "bicubic" or "bilinear".
        antialias: smooth before shrinking.

    Returns:
        (1, prefix + N', D) with N' = new rows·columns, same dtype and device.

    Raises:
        ValueError: if the number of vectors does not fit the old grid.
    """
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]  # given
    rows, columns = old_grid  # given
    if grid.shape[1] != rows * columns:  # given
        raise ValueError(
            f"{pos_embed.shape[1]} positions are not {num_prefix_tokens} prefix + a grid of {rows}x{columns} "
            f"= {num_prefix_tokens + rows * columns}"
        )
    if tuple(old_grid) == tuple(new_grid):
        return pos_embed
    grid = rearrange(grid, "1 (h w) d -> 1 d h w", h=rows)
    grid = F.interpolate(grid, size=tuple(new_grid), mode=mode, antialias=antialias, align_corners=False)
    return torch.cat([prefix, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)
