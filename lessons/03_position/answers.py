"""Answers to the exercises of lesson 03, written as students write them."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.checks import lesson_part
from vit_course.embeddings import resample_pos_embed, sincos_2d
from vit_course.interpret import equivariance_gap

checks = lesson_part("03_position", "checks")
gap, learned, resample = checks.gap, checks.learned, checks.resample


def gap_undone(encoder, tokens, permutation):
    back = encoder(tokens[:, permutation])[:, permutation.argsort()]
    return (back - encoder(tokens)).abs().max().item()


def gap_index_select(encoder, tokens, permutation):
    shuffled = torch.index_select(tokens, 1, permutation)
    return float(torch.dist(encoder(shuffled), encoder(tokens).index_select(1, permutation), p=math.inf))


def gap_inverse(encoder, tokens: Tensor, permutation: Tensor) -> float:
    one = encoder(tokens[:, permutation])
    two = encoder(tokens)[:, permutation.argsort()]
    return (one - two).abs().max().item()


def fit(tokens, pos_embed):
    if tokens.shape[1:] != pos_embed.shape[1:]:
        raise ValueError(f"{tuple(tokens.shape)} and {tuple(pos_embed.shape)} do not fit")


def add_by_loop(tokens, pos_embed):
    fit(tokens, pos_embed)
    return torch.stack([image + pos_embed[0] for image in tokens])


def add_expanded(tokens, pos_embed):
    fit(tokens, pos_embed)
    return torch.add(pos_embed.expand(len(tokens), -1, -1), tokens)


def sincos_meshgrid(grid_size, dim, temperature=10000.0):
    if dim % 4:
        raise ValueError(f"{dim} is no multiple of 4")
    w = 1.0 / temperature ** (torch.arange(dim // 4) / (dim // 4))
    y, x = torch.meshgrid(*map(torch.arange, grid_size), indexing="ij")
    y, x = (torch.outer(axis.flatten().float(), w) for axis in (y, x))
    return torch.cat([y.sin(), y.cos(), x.sin(), x.cos()], dim=1)


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


def picture_of_square(grid, rows, columns):
    side = int(grid.shape[1] ** 0.5)
    return grid.reshape(1, side, side, grid.shape[-1]).permute(0, 3, 1, 2)


def resample_bilinear(pos, old_grid, new_grid, num_prefix_tokens=1, mode="bilinear", antialias=True):
    return resample_pos_embed(pos, old_grid, new_grid, num_prefix_tokens, mode, antialias)


def resample_views(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    if grid.shape[1] != math.prod(old_grid):
        raise ValueError("this is another grid")
    picture = grid.reshape(1, *old_grid, grid.shape[-1]).permute(0, 3, 1, 2)
    picture = F.interpolate(picture, size=tuple(new_grid), mode=mode, antialias=antialias)
    return torch.cat([prefix, picture.permute(0, 2, 3, 1).flatten(1, 2)], dim=1)


def cubic_weights(old, new):
    places, scale = torch.arange(old) + 0.5, max(old / new, 1.0)
    t = (((torch.arange(new) + 0.5) * old / new)[:, None] - places).abs() / scale
    near, far = 1.5 * t**3 - 2.5 * t**2 + 1, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
    weights = torch.where(t < 1, near, torch.where(t < 2, far, torch.zeros_like(t)))
    return weights / weights.sum(dim=1, keepdim=True)


def resample_by_matrices(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    if (mode, antialias) != ("bicubic", True):
        return resample_views(pos_embed, old_grid, new_grid, num_prefix_tokens, mode, antialias)
    prefix, grid = pos_embed[0, :num_prefix_tokens], pos_embed[0, num_prefix_tokens:]
    (rows, columns), dim = old_grid, pos_embed.shape[-1]
    if len(grid) != rows * columns:
        raise ValueError("this is another grid")
    down, across = (cubic_weights(*sides).to(grid) for sides in zip(old_grid, new_grid, strict=True))
    grid = torch.einsum("yh,xw,hwd->yxd", down, across, grid.reshape(rows, columns, dim))
    return torch.cat([prefix, grid.reshape(-1, dim)])[None]


DISSECTED = (
    "shuffles the result with the inverse permutation, the same only where a permutation is its own inverse",
    gap_inverse,
)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "equivariance_gap": [
        (
            "your result is 0 or 1 in all cases",
            lambda encoder, x, p: torch.allclose(encoder(x[:, p]), encoder(x)[:, p]),
        ),
        ("yours is still a tensor", lambda *case: torch.tensor(equivariance_gap(*case))),
        ("expected", lambda encoder, x, p: (encoder(x[:, p]) - encoder(x)[:, p]).abs().amax(dim=(1, 2))),
        ("you returned", gap(lambda x: x.square().max())),
    ],
    "learned_positions": [
        ("is (1, 1, 200, 48), not (1, 200, 48)", learned(lambda t, d, std: std * torch.randn(1, 1, t, d))),
        ("you returned list", lambda t, d, std=0.02: [nn.Parameter(std * torch.randn(d)) for _ in range(t)]),
        (
            "the default of `std` should be 0.02",
            lambda t, d, std=1.0, **_: nn.Parameter(torch.randn(1, t, d)),
        ),
    ],
    "add_position": [("expected", lambda tokens, pos: torch.cat([tokens[:1] + pos, tokens[1:]]))],
    "sincos_2d": [
        ("the shape should be (6, 8)", checks.sincos(lambda rows, columns: checks.reading_order(rows, rows))),
        ("should be torch.float32", lambda *case: sincos_2d(*case).double()),
    ],
    "resample_pos_embed": [
        ("your code stopped with", resample(picture_of_square)),
        ("no gradient reaches `pos_embed`", lambda pos, *rest: resample_pos_embed(pos.detach(), *rest)),
        ("the gradient of `pos_embed` is not", resample(join=lambda head, grid: (head.data, grid))),
        ("the default of `mode` should be 'bicubic'; yours is 'bilinear'", resample_bilinear),
    ],
}
RIGHT = {
    "equivariance_gap": [gap_undone, gap_index_select],
    "learned_positions": [
        lambda t, d, std=0.02: nn.init.normal_(nn.Parameter(torch.empty(1, t, d)), std=std),
        learned(lambda t, d, std: torch.normal(0.0, std, size=(1, t, d))),
    ],
    "add_position": [add_by_loop, add_expanded],
    "sincos_2d": [sincos_meshgrid, sincos_plain_python],
    "resample_pos_embed": [resample_views, resample_by_matrices],
}
