"""Answers to the exercises of lesson 03, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import Tensor


def equivariance_gap_signed(encoder, tokens, permutation):
    return (encoder(tokens[:, permutation]) - encoder(tokens)[:, permutation]).max().item()


def equivariance_gap_relative(encoder, tokens, permutation):
    first, last = encoder(tokens[:, permutation]), encoder(tokens)[:, permutation]
    return ((first - last).abs().max() / last.abs().max()).item()


def equivariance_gap_cls_only(encoder, tokens, permutation):
    first, last = encoder(tokens[:, permutation]), encoder(tokens)[:, permutation]
    return (first[:, 0] - last[:, 0]).abs().max().item()


def equivariance_gap_yes_or_no(encoder, tokens, permutation):
    first, last = encoder(tokens[:, permutation]), encoder(tokens)[:, permutation]
    return float(not torch.allclose(first, last))


def equivariance_gap_changes_the_input(encoder, tokens, permutation):
    last = encoder(tokens)[:, permutation]
    with torch.no_grad():
        tokens.copy_(tokens[:, permutation])
    return (encoder(tokens) - last).abs().max().item()


def equivariance_gap_unshuffles(encoder, tokens, permutation):
    """Put the first result back in order, instead of shuffling the second."""
    back = torch.argsort(permutation)
    answer = encoder(tokens[:, permutation])[:, back]
    return torch.max(torch.abs(answer - encoder(tokens))).item()


def equivariance_gap_loop(encoder, tokens, permutation):
    order = permutation.tolist()
    straight = encoder(tokens)
    shuffled = encoder(torch.stack([tokens[:, t] for t in order], dim=1))
    gaps = [(shuffled[:, i] - straight[:, t]).abs().max().item() for i, t in enumerate(order)]
    return max(gaps)


def equivariance_gap_index_select(encoder, tokens, permutation):
    a = encoder(tokens.index_select(1, permutation))
    b = encoder(tokens).index_select(1, permutation)
    return torch.linalg.vector_norm(a - b, ord=math.inf).item()


def equivariance_gap_gather(encoder, tokens, permutation):
    with torch.no_grad():
        out = encoder(tokens)
        index_in = repeat(permutation, "t -> b t d", b=tokens.shape[0], d=tokens.shape[2])
        index_out = repeat(permutation, "t -> b t d", b=out.shape[0], d=out.shape[2])
        difference = encoder(tokens.gather(1, index_in)) - out.gather(1, index_out)
    return difference.abs().amax().item()


def _quarters(rows, columns, w):
    """Return sin and cos of the rows and of the columns, in reading order; rows and columns are 1-D."""
    y = rows.repeat_interleave(len(columns))[:, None] * w
    x = columns.repeat(len(rows))[:, None] * w
    return y.sin(), y.cos(), x.sin(), x.cos()


def _multiple_of_four(dim):
    if dim % 4:
        raise ValueError(f"dim {dim} is not a multiple of 4")


def sincos_2d_from_one(grid_size, dim, temperature=10000.0):
    _multiple_of_four(dim)
    w = temperature ** (-torch.arange(dim // 4) / (dim // 4))
    rows, columns = torch.arange(1, grid_size[0] + 1), torch.arange(1, grid_size[1] + 1)
    return torch.cat(_quarters(rows, columns, w), dim=1)


def sincos_2d_reaches_temperature(grid_size, dim, temperature=10000.0):
    _multiple_of_four(dim)
    w = temperature ** (-torch.arange(dim // 4) / max(dim // 4 - 1, 1))
    return torch.cat(_quarters(torch.arange(grid_size[0]), torch.arange(grid_size[1]), w), dim=1)


def sincos_2d_unchecked(grid_size, dim, temperature=10000.0):
    w = temperature ** (-torch.arange(dim // 4) / (dim // 4))
    return torch.cat(_quarters(torch.arange(grid_size[0]), torch.arange(grid_size[1]), w), dim=1)


def sincos_2d_float64(grid_size, dim, temperature=10000.0):
    _multiple_of_four(dim)
    w = temperature ** -(np.arange(dim // 4) / (dim // 4))
    row, column = np.divmod(np.arange(grid_size[0] * grid_size[1]), grid_size[1])
    y, x = np.outer(row, w), np.outer(column, w)
    return torch.from_numpy(np.concatenate([np.sin(y), np.cos(y), np.sin(x), np.cos(x)], axis=1))


def sincos_2d_grid_shape(grid_size, dim, temperature=10000.0):
    _multiple_of_four(dim)
    w = temperature ** (-torch.arange(dim // 4) / (dim // 4))
    table = torch.cat(_quarters(torch.arange(grid_size[0]), torch.arange(grid_size[1]), w), dim=1)
    return table.reshape(*grid_size, dim)


def sincos_2d_number_by_number(grid_size, dim, temperature=10000.0):
    if dim % 4 != 0:
        raise ValueError(f"{dim} numbers cannot be split into four quarters")
    quarter = dim // 4
    table = []
    for row in range(grid_size[0]):
        for column in range(grid_size[1]):
            angles = [
                (place, temperature ** (-k / quarter)) for place in (row, column) for k in range(quarter)
            ]
            y, x = angles[:quarter], angles[quarter:]
            table.append(
                [math.sin(r * w) for r, w in y]
                + [math.cos(r * w) for r, w in y]
                + [math.sin(c * w) for c, w in x]
                + [math.cos(c * w) for c, w in x]
            )
    return torch.tensor(table, dtype=torch.float32)


def sincos_2d_meshgrid(grid_size, dim, temperature=10000.0):
    q, rest = divmod(dim, 4)
    if rest:
        raise ValueError(f"dim = {dim} leaves {rest} when divided by 4")
    omega = torch.exp(-math.log(temperature) * torch.arange(q, dtype=torch.float64) / q)
    y, x = torch.meshgrid(torch.arange(grid_size[0]), torch.arange(grid_size[1]), indexing="ij")
    parts = [f(torch.outer(p.flatten().double(), omega)) for p in (y, x) for f in (torch.sin, torch.cos)]
    return torch.hstack(parts).float()


def sincos_2d_numpy(grid_size, dim, temperature=10000.0):
    if dim % 4:
        raise ValueError(f"dim must be a multiple of 4, not {dim}")
    rows, columns = np.indices(grid_size).reshape(2, -1, 1)
    w = np.float64(temperature) ** (np.arange(dim // 4) * (-4 / dim))
    table = np.block([np.sin(rows * w), np.cos(rows * w), np.sin(columns * w), np.cos(columns * w)])
    return torch.from_numpy(table.astype(np.float32))


def sincos_2d_einops(grid_size, dim, temperature=10000.0):
    if dim & 3:
        raise ValueError(f"{dim} is not divisible by 4")
    h, w = grid_size
    waves = 1.0 / temperature ** (torch.arange(dim // 4, dtype=torch.float32) * 4 / dim)

    def clock(n):
        angle = torch.einsum("n,k->nk", torch.arange(n).float(), waves)
        return torch.cat((angle.sin(), angle.cos()), dim=-1)

    down = repeat(clock(h), "h d -> (h w) d", w=w)
    across = repeat(clock(w), "w d -> (h w) d", h=h)
    return torch.cat((down, across), dim=-1)


def _fits(pos_embed, old_grid, num_prefix_tokens):
    if pos_embed.shape[1] - num_prefix_tokens != old_grid[0] * old_grid[1]:
        raise ValueError(f"{pos_embed.shape[1]} vectors do not fit a grid of {tuple(old_grid)}")


def _resize(picture, new_grid, mode, antialias):
    return F.interpolate(picture, tuple(new_grid), mode=mode, antialias=antialias, align_corners=False)


def resample_pos_embed_grids_turned(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True
):
    _fits(pos_embed, old_grid, num_prefix_tokens)
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    grid = rearrange(grid, "1 (h w) d -> 1 d h w", w=old_grid[0])
    grid = rearrange(_resize(grid, new_grid[::-1], mode, antialias), "1 d h w -> 1 (h w) d")
    return torch.cat([prefix, grid], dim=1)


def resample_pos_embed_by_factor(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True
):
    _fits(pos_embed, old_grid, num_prefix_tokens)
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    grid = rearrange(grid, "1 (h w) d -> 1 d h w", h=old_grid[0])
    factor = (new_grid[0] / old_grid[0], new_grid[1] / old_grid[1])
    grid = F.interpolate(grid, scale_factor=factor, mode=mode, antialias=antialias, align_corners=False)
    return torch.cat([prefix, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


def resample_pos_embed_same_count(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True
):
    _fits(pos_embed, old_grid, num_prefix_tokens)
    if old_grid[0] * old_grid[1] == new_grid[0] * new_grid[1]:
        return pos_embed
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    grid = rearrange(grid, "1 (h w) d -> 1 d h w", h=old_grid[0])
    grid = rearrange(_resize(grid, new_grid, mode, antialias), "1 d h w -> 1 (h w) d")
    return torch.cat([prefix, grid], dim=1)


def resample_pos_embed_bilinear(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bilinear", antialias=True
):
    _fits(pos_embed, old_grid, num_prefix_tokens)
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    grid = rearrange(grid, "1 (h w) d -> 1 d h w", h=old_grid[0])
    grid = rearrange(_resize(grid, new_grid, mode, antialias), "1 d h w -> 1 (h w) d")
    return torch.cat([prefix, grid], dim=1)


def resample_pos_embed_aligned_not_antialiased(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True
):
    _fits(pos_embed, old_grid, num_prefix_tokens)
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    grid = rearrange(grid, "1 (h w) d -> 1 d h w", h=old_grid[0])
    grid = F.interpolate(grid, tuple(new_grid), mode=mode, align_corners=True)
    return torch.cat([prefix, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


def resample_pos_embed_permute(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True
):
    (h0, w0), (h1, w1) = old_grid, new_grid
    count, dim = pos_embed.shape[1:]
    if count != num_prefix_tokens + h0 * w0:
        raise ValueError(f"{count} vectors, but {num_prefix_tokens} + {h0}x{w0} are expected")
    kept, rest = pos_embed.split([num_prefix_tokens, h0 * w0], dim=1)
    picture = rest.reshape(1, h0, w0, dim).permute(0, 3, 1, 2)
    picture = F.interpolate(picture, size=(h1, w1), mode=mode, align_corners=False, antialias=antialias)
    return torch.cat((kept, picture.permute(0, 2, 3, 1).reshape(1, h1 * w1, dim)), dim=1)


def resample_pos_embed_grey_pictures(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True
):
    """Every one of the D channels is a picture of its own, (D, 1, rows, columns)."""
    patches = pos_embed[0, num_prefix_tokens:]
    if len(patches) != math.prod(old_grid):
        raise ValueError(f"{len(patches)} vectors do not fill {old_grid}")
    pictures = patches.T.unflatten(1, tuple(old_grid)).unsqueeze(1)
    larger = F.interpolate(pictures, tuple(new_grid), None, mode, False, antialias=antialias)
    return torch.cat([pos_embed[0, :num_prefix_tokens], larger.flatten(1).T])[None]


def resample_pos_embed_matrix(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True
):
    """Interpolate one-hot pictures: the result is the matrix (N', N) of the whole operation."""
    n = pos_embed.shape[1] - num_prefix_tokens
    if n != old_grid[0] * old_grid[1]:
        raise ValueError(f"{n} vectors behind the prefix, the grid has {old_grid[0]}x{old_grid[1]}")
    basis = torch.eye(n, dtype=pos_embed.dtype, device=pos_embed.device).view(n, 1, *old_grid)
    basis = F.interpolate(basis, size=tuple(new_grid), mode=mode, antialias=antialias, align_corners=False)
    patches = torch.einsum("nm,bnd->bmd", basis.flatten(1), pos_embed[:, num_prefix_tokens:])
    return torch.cat([pos_embed[:, :num_prefix_tokens], patches], dim=1)


def resample_pos_embed_slice_by_slice(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True
):
    rows, columns = old_grid
    if pos_embed.shape[1] != rows * columns + num_prefix_tokens:
        raise ValueError(f"{tuple(pos_embed.shape)} does not fit {rows}x{columns}")
    channels = []
    for d in range(pos_embed.shape[2]):
        channel = pos_embed[0, num_prefix_tokens:, d].view(1, 1, rows, columns)
        channel = F.interpolate(channel, tuple(new_grid), mode=mode, antialias=antialias)
        channels.append(torch.cat([pos_embed[0, :num_prefix_tokens, d], channel.flatten()]))
    return torch.stack(channels, dim=-1).unsqueeze(0)


def gap_inverse(encoder, tokens: Tensor, permutation: Tensor) -> float:
    one = encoder(tokens[:, permutation])
    two = encoder(tokens)[:, permutation.argsort()]
    return (one - two).abs().max().item()


def gap_signed(encoder, tokens: Tensor, permutation: Tensor) -> float:
    one = encoder(tokens[:, permutation])
    two = encoder(tokens)[:, permutation]
    return abs((one - two).max().item())


def gap_first_image(encoder, tokens: Tensor, permutation: Tensor) -> float:
    one = encoder(tokens[:, permutation])[0]
    two = encoder(tokens)[0][permutation]
    return (one - two).abs().max().item()


def sincos_even_is_enough(grid_size, dim: int, temperature: float = 10000.0) -> Tensor:
    if dim % 2:
        raise ValueError(f"dim {dim} must be even")
    y, x = torch.meshgrid(*(torch.arange(side) for side in grid_size), indexing="ij")
    omega = temperature ** (-torch.arange(dim // 4) / (dim // 4))
    y, x = (axis.flatten()[:, None] * omega for axis in (y, x))
    return torch.cat([y.sin(), y.cos(), x.sin(), x.cos()], dim=1)


def sincos_fixed_temperature(grid_size, dim: int, temperature: float = 10000.0) -> Tensor:
    if dim % 4:
        raise ValueError(f"dim {dim} is no multiple of 4")
    y, x = torch.meshgrid(*(torch.arange(side) for side in grid_size), indexing="ij")
    omega = torch.exp(-math.log(10000.0) * torch.arange(dim // 4) / (dim // 4))
    y, x = (axis.flatten()[:, None] * omega for axis in (y, x))
    return torch.cat([y.sin(), y.cos(), x.sin(), x.cos()], dim=1)


def sincos_numpy_double(grid_size, dim: int, temperature: float = 10000.0) -> Tensor:
    if dim % 4:
        raise ValueError(f"dim {dim} is no multiple of 4")
    y, x = np.indices(grid_size).reshape(2, -1, 1) * temperature ** (-np.arange(dim // 4) / (dim // 4))
    return torch.from_numpy(np.concatenate([np.sin(y), np.cos(y), np.sin(x), np.cos(x)], axis=1))


def check_count(pos_embed: Tensor, old_grid, num_prefix_tokens: int) -> None:
    if pos_embed.shape[1] - num_prefix_tokens != old_grid[0] * old_grid[1]:
        raise ValueError(f"{pos_embed.shape[1]} vectors, {num_prefix_tokens} prefix, grid {old_grid}")


def resample_same_count(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True
) -> Tensor:
    check_count(pos_embed, old_grid, num_prefix_tokens)
    if old_grid[0] * old_grid[1] == new_grid[0] * new_grid[1]:
        return pos_embed
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    grid = rearrange(grid, "1 (h w) d -> 1 d h w", h=old_grid[0])
    grid = F.interpolate(grid, size=tuple(new_grid), mode=mode, antialias=antialias, align_corners=False)
    return torch.cat([prefix, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


def resample_infers_prefix(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True
) -> Tensor:
    count = old_grid[0] * old_grid[1]
    extra = pos_embed.shape[1] - count
    if extra < 0:
        raise ValueError(f"{pos_embed.shape[1]} vectors are too few for {count} patches")
    prefix, grid = pos_embed[:, :extra], pos_embed[:, extra:]
    grid = rearrange(grid, "1 (h w) d -> 1 d h w", h=old_grid[0])
    grid = F.interpolate(grid, size=tuple(new_grid), mode=mode, antialias=antialias, align_corners=False)
    return torch.cat([prefix, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


def resample_always_bicubic(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True
) -> Tensor:
    check_count(pos_embed, old_grid, num_prefix_tokens)
    prefix, grid = pos_embed.tensor_split([num_prefix_tokens], dim=1)
    grid = grid.mT.unflatten(2, tuple(old_grid))
    grid = F.interpolate(grid, tuple(new_grid), mode="bicubic", antialias=antialias)
    return torch.cat([prefix, grid.flatten(2).mT], dim=1)


UNSEEN = {
    "equivariance_gap": [
        ("no absolute value: large negative differences are lost", equivariance_gap_signed),
        ("divides by the largest value: a relative difference", equivariance_gap_relative),
        ("only the token at index 0 is compared", equivariance_gap_cls_only),
        ("answers 0.0 or 1.0 and not the size of the difference", equivariance_gap_yes_or_no),
        ("shuffles the tokens of the caller in place", equivariance_gap_changes_the_input),
        (
            "looks at the first image of the batch alone, so the gaps of the other images are not measured",
            gap_first_image,
        ),
        (
            "takes the absolute value after the maximum and not before, so a large negative "
            "difference is missed",
            gap_signed,
        ),
        (
            "shuffles the result with the inverse permutation, which is the same only for a "
            "permutation that is its own inverse",
            gap_inverse,
        ),
    ],
    "sincos_2d": [
        ("rows and columns count from 1", sincos_2d_from_one),
        ("the exponent is k / (D/4 - 1), it reaches 1 at the end", sincos_2d_reaches_temperature),
        ("no ValueError: a width that is no multiple of 4 gives fewer numbers", sincos_2d_unchecked),
        ("float64, as numpy computes it", sincos_2d_float64),
        ("the result keeps the shape (rows, columns, D)", sincos_2d_grid_shape),
        (
            "computes in NumPy and never converts, so the table is float64 and not float32",
            sincos_numpy_double,
        ),
        (
            "asks only for an even D, so D = 6 raises no ValueError and gives rows that are too short",
            sincos_even_is_enough,
        ),
        ("writes 10000 into the formula and ignores the argument temperature", sincos_fixed_temperature),
    ],
    "resample_pos_embed": [
        ("rows and columns of both grids are exchanged", resample_pos_embed_grids_turned),
        ("a scale factor in place of the size: a row may get lost", resample_pos_embed_by_factor),
        ("nothing is done when both grids have equally many cells", resample_pos_embed_same_count),
        ("the default mode is bilinear", resample_pos_embed_bilinear),
        (
            "the corners are aligned, and antialias is not passed on",
            resample_pos_embed_aligned_not_antialiased,
        ),
        (
            "takes all surplus vectors as prefix and ignores num_prefix_tokens, so a number of "
            "vectors that does not fit raises no ValueError",
            resample_infers_prefix,
        ),
        (
            "returns the positions unchanged when the old and the new grid have equally many patches, "
            "so 4x6 to 6x4 is not resampled",
            resample_same_count,
        ),
        ("ignores the argument mode and always interpolates bicubically", resample_always_bicubic),
    ],
}
STYLES = {
    "equivariance_gap": [
        equivariance_gap_unshuffles,
        equivariance_gap_loop,
        equivariance_gap_index_select,
        equivariance_gap_gather,
    ],
    "sincos_2d": [sincos_2d_number_by_number, sincos_2d_meshgrid, sincos_2d_numpy, sincos_2d_einops],
    "resample_pos_embed": [
        resample_pos_embed_permute,
        resample_pos_embed_grey_pictures,
        resample_pos_embed_matrix,
        resample_pos_embed_slice_by_slice,
    ],
}
