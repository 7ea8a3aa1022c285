"""Answers to the exercises of lesson 03, written as students write them."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor


def gap_yes_or_no(encoder, tokens, permutation):
    return torch.allclose(encoder(tokens[:, permutation]), encoder(tokens)[:, permutation])


def gap_tensor(encoder, tokens, permutation):
    return (encoder(tokens[:, permutation]) - encoder(tokens)[:, permutation]).abs().amax(dim=(1, 2))


def gap_undone(encoder, tokens, permutation):
    back = encoder(tokens[:, permutation])[:, permutation.argsort()]
    return (back - encoder(tokens)).abs().max().item()


def gap_index_select(encoder, tokens, permutation):
    shuffled = torch.index_select(tokens, 1, permutation)
    return float(torch.dist(encoder(shuffled), encoder(tokens).index_select(1, permutation), p=math.inf))


def gap_stays_a_tensor(encoder, tokens, permutation):
    return (encoder(tokens[:, permutation]) - encoder(tokens)[:, permutation]).abs().max()


def axis_waves(positions, frequencies):
    angles = torch.outer(positions.float(), frequencies)
    return angles.sin(), angles.cos()


def split_grid(grid_size, start=0):
    rows, columns = grid_size
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return y.flatten() + start, x.flatten() + start


def frequencies_of(dim, temperature):
    if dim % 4:
        raise ValueError(f"{dim} is no multiple of 4")
    return 1.0 / temperature ** (torch.arange(dim // 4) / (dim // 4))


def sincos_square(grid_size, dim, temperature=10000.0):
    y, x = split_grid((grid_size[0], grid_size[0]))
    w = frequencies_of(dim, temperature)
    return torch.cat([*axis_waves(y, w), *axis_waves(x, w)], dim=1)


def sincos_double(grid_size, dim, temperature=10000.0):
    return sincos_meshgrid(grid_size, dim, temperature).double()


def sincos_meshgrid(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size)
    w = frequencies_of(dim, temperature)
    return torch.cat([*axis_waves(y, w), *axis_waves(x, w)], dim=1)


def sincos_plain_python(grid_size, dim, temperature=10000.0):
    if dim % 4 != 0:
        raise ValueError("dim should be a multiple of 4")
    frequencies = [temperature ** (-k / (dim / 4)) for k in range(dim // 4)]
    table = []
    for y in range(grid_size[0]):
        for x in range(grid_size[1]):
            row = [math.sin(y * w) for w in frequencies] + [math.cos(y * w) for w in frequencies]
            row += [math.sin(x * w) for w in frequencies] + [math.cos(x * w) for w in frequencies]
            table.append(row)
    return torch.tensor(table)


def stretch(grid, old_grid, new_grid, **options):
    picture = grid.reshape(1, *old_grid, grid.shape[-1]).permute(0, 3, 1, 2)
    options = {"mode": "bicubic", "antialias": True, **options}
    return F.interpolate(picture, size=tuple(new_grid), **options).permute(0, 2, 3, 1).flatten(1, 2)


def resample_square_only(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    side = int(grid.shape[1] ** 0.5)
    return torch.cat([prefix, stretch(grid, (side, side), new_grid)], dim=1)


def resample_detached(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    return resample_views(pos_embed.detach(), old_grid, new_grid, num_prefix_tokens)


def resample_keeps_cls_from_learning(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    return torch.cat([prefix.data, stretch(grid, old_grid, new_grid)], dim=1)


def resample_views(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    if grid.shape[1] != math.prod(old_grid):
        raise ValueError("this is another grid")
    return torch.cat([prefix, stretch(grid, old_grid, new_grid, mode=mode, antialias=antialias)], dim=1)


def resample_filled(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    if pos_embed.shape[1] != num_prefix_tokens + math.prod(old_grid):
        raise ValueError("this is another grid")
    out = pos_embed.new_empty(1, num_prefix_tokens + math.prod(new_grid), pos_embed.shape[2])
    out[:, :num_prefix_tokens] = pos_embed[:, :num_prefix_tokens]
    for channel in range(pos_embed.shape[2]):
        picture = pos_embed[0, num_prefix_tokens:, channel].reshape(1, 1, *old_grid)
        picture = F.interpolate(picture, new_grid, mode=mode, antialias=antialias)
        out[0, num_prefix_tokens:, channel] = picture.flatten()
    return out


def cubic_weights(old, new):
    places, scale = torch.arange(old) + 0.5, max(old / new, 1.0)
    t = (((torch.arange(new) + 0.5) * old / new)[:, None] - places).abs() / scale
    near, far = 1.5 * t**3 - 2.5 * t**2 + 1, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
    weights = torch.where(t < 1, near, torch.where(t < 2, far, torch.zeros_like(t)))
    return weights / weights.sum(dim=1, keepdim=True)


def resample_by_matrices(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    if (mode, antialias) != ("bicubic", True):
        return resample_filled(pos_embed, old_grid, new_grid, num_prefix_tokens, mode, antialias)
    prefix, grid = pos_embed[0, :num_prefix_tokens], pos_embed[0, num_prefix_tokens:]
    (rows, columns), dim = old_grid, pos_embed.shape[-1]
    if len(grid) != rows * columns:
        raise ValueError("this is another grid")
    down, across = (cubic_weights(*sides).to(grid) for sides in zip(old_grid, new_grid, strict=True))
    grid = torch.einsum("yh,xw,hwd->yxd", down, across, grid.reshape(rows, columns, dim))
    return torch.cat([prefix, grid.reshape(-1, dim)])[None]


def equivariance_gap_cls_only(encoder, tokens, permutation):
    first, last = encoder(tokens[:, permutation]), encoder(tokens)[:, permutation]
    return (first[:, 0] - last[:, 0]).abs().max().item()


def _fits(pos_embed, old_grid, num_prefix_tokens):
    if pos_embed.shape[1] - num_prefix_tokens != old_grid[0] * old_grid[1]:
        raise ValueError(f"{pos_embed.shape[1]} vectors do not fit a grid of {tuple(old_grid)}")


def _resize(picture, new_grid, mode, antialias):
    return F.interpolate(picture, tuple(new_grid), mode=mode, antialias=antialias, align_corners=False)


def resample_pos_embed_bilinear(
    pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bilinear", antialias=True
):
    _fits(pos_embed, old_grid, num_prefix_tokens)
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    grid = rearrange(grid, "1 (h w) d -> 1 d h w", h=old_grid[0])
    grid = rearrange(_resize(grid, new_grid, mode, antialias), "1 d h w -> 1 (h w) d")
    return torch.cat([prefix, grid], dim=1)


def gap_inverse(encoder, tokens: Tensor, permutation: Tensor) -> float:
    one = encoder(tokens[:, permutation])
    two = encoder(tokens)[:, permutation.argsort()]
    return (one - two).abs().max().item()


def positions_empty(num_tokens, dim, std=0.02):
    table = torch.nn.Parameter(torch.empty(1, num_tokens, dim))
    torch.nn.init.normal_(table, std=std)
    return table


def positions_normal(num_tokens, dim, std=0.02):
    return torch.nn.Parameter(torch.normal(0.0, std, size=(1, num_tokens, dim)))


def positions_of_heads(num_tokens, dim, std=0.02):
    return torch.nn.Parameter(std * torch.randn(1, 1, num_tokens, dim))


def positions_in_a_list(num_tokens, dim, std=0.02):
    return [torch.nn.Parameter(std * torch.randn(dim)) for _ in range(num_tokens)]


def fit(tokens, pos_embed):
    if tokens.shape[1:] != pos_embed.shape[1:]:
        raise ValueError(f"{tuple(tokens.shape)} and {tuple(pos_embed.shape)} do not fit")


def add_by_loop(tokens, pos_embed):
    fit(tokens, pos_embed)
    return torch.stack([image + pos_embed[0] for image in tokens])


def add_expanded(tokens, pos_embed):
    fit(tokens, pos_embed)
    return torch.add(pos_embed.expand(len(tokens), -1, -1), tokens)


def add_to_first_image(tokens, pos_embed):
    fit(tokens, pos_embed)
    return torch.cat([tokens[:1] + pos_embed, tokens[1:]])


DISSECTED = (
    "shuffles the result with the inverse permutation, the same only where a permutation is its own inverse",
    gap_inverse,
)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "equivariance_gap": [
        ("your result is 0 or 1 in all cases", gap_yes_or_no),
        ("yours is still a tensor", gap_stays_a_tensor),
        ("expected", gap_tensor),
        ("you returned", equivariance_gap_cls_only),
    ],
    "learned_positions": [
        ("is (1, 1, 200, 48), not (1, 200, 48)", positions_of_heads),
        ("you returned list", positions_in_a_list),
    ],
    "add_position": [("expected", add_to_first_image)],
    "sincos_2d": [
        ("the shape should be (6, 8)", sincos_square),
        ("should stay torch.float32", sincos_double),
    ],
    "resample_pos_embed": [
        ("your code stopped with", resample_square_only),
        ("no gradient reaches `pos_embed`", resample_detached),
        ("the gradient of `pos_embed` is not", resample_keeps_cls_from_learning),
        ("the default of `mode` should be 'bicubic'; yours is 'bilinear'", resample_pos_embed_bilinear),
    ],
}
RIGHT = {
    "equivariance_gap": [gap_undone, gap_index_select],
    "learned_positions": [positions_empty, positions_normal],
    "add_position": [add_by_loop, add_expanded],
    "sincos_2d": [sincos_meshgrid, sincos_plain_python],
    "resample_pos_embed": [
        resample_views,
        resample_by_matrices,
    ],
}
