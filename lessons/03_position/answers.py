"""Answers to the exercises of lesson 03, written as students write them."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.checks import lesson_part
from vit_classroom.checks.edits import edited
from vit_classroom.exhibits.encoder_input import EncoderInput
from vit_course.embeddings import add_position, learned_positions, prepend_cls_token, resample_pos_embed
from vit_course.interpret import equivariance_gap

stretched = lesson_part("03_position", "checks").stretched
OTHER_GRID = "if grid.shape[1] != rows * columns: raise ValueError(old_grid)"
TABLE = "torch.randn(1, num_tokens, dim) * std"


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


class EncoderInputByParts(nn.Module):
    """Adds the positions of the patches and that of CLS before it joins them."""

    def __init__(self, num_patches, dim):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + num_patches, dim).normal_(std=0.02))

    def forward(self, tokens):
        if tokens.shape[1] != self.pos_embed.shape[1] - 1:
            raise ValueError(f"{tokens.shape[1]} patches do not fit")
        first = (self.cls_token + self.pos_embed[:, :1]).expand(len(tokens), -1, -1)
        return torch.cat([first, tokens + self.pos_embed[:, 1:]], dim=1)


class EncoderInputByLoop(EncoderInput):
    """Adds image by image, by the function of the course."""

    def forward(self, tokens):
        tokens = prepend_cls_token(tokens, self.cls_token)
        return torch.cat([add_position(image[None], self.pos_embed) for image in tokens])


def resample_bilinear(pos, old_grid, new_grid, num_prefix_tokens=1, mode="bilinear", antialias=True):
    return resample_pos_embed(pos, old_grid, new_grid, num_prefix_tokens, mode, antialias)


def resample_views(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    if grid.shape[1] != math.prod(old_grid):
        raise ValueError("this is another grid")
    image = grid.reshape(1, *old_grid, grid.shape[-1]).permute(0, 3, 1, 2)
    image = F.interpolate(image, size=tuple(new_grid), mode=mode, antialias=antialias)
    return torch.cat([prefix, image.permute(0, 2, 3, 1).flatten(1, 2)], dim=1)


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
        ("yours is still a tensor", edited(equivariance_gap, ".item() =>")),
        ("expected", edited(equivariance_gap, ".abs().max().item() => .abs().amax(dim=(1, 2))")),
        ("you returned", edited(equivariance_gap, ".abs().max() => .square().max()")),
    ],
    "learned_positions": [
        (
            "is (1, 1, 200, 48), not (1, 200, 48)",
            edited(learned_positions, "randn(1, num_tokens => randn(1, 1, num_tokens"),
        ),
        ("you returned list", lambda t, d, std=0.02: [nn.Parameter(std * torch.randn(d)) for _ in range(t)]),
        (
            "the default of `std` should be 0.02",
            edited(learned_positions, "std: float = 0.02 => std: float = 1.0"),
        ),
    ],
    "EncoderInput": [
        (
            "two calls on the same input give different results",
            edited(
                EncoderInput,
                "return tokens + self.pos_embed => return tokens + torch.randn_like(self.pos_embed)",
            ),
        ),
        (
            "no gradient reaches",
            edited(EncoderInput, "return tokens + self => return tokens.detach() + self"),
        ),
        ("gradient", edited(EncoderInput, "+ self.pos_embed\n => + self.pos_embed.detach()\n")),
        ("expected", edited(EncoderInput, "+ self.pos_embed\n => + self.pos_embed.roll(1, dims=1)\n")),
    ],
    "resample_pos_embed": [
        (
            "your code stopped with",
            edited(
                stretched, "h=rows, w=columns => h=int(grid.shape[1] ** 0.5), w=int(grid.shape[1] ** 0.5)"
            ),
        ),
        ("no gradient reaches `pos_embed`", lambda pos, *rest: resample_pos_embed(pos.detach(), *rest)),
        ("the gradient of `pos_embed` is not", edited(stretched, "[prefix, grid] => [prefix.data, grid]")),
        ("the default of `mode` should be 'bicubic'; yours is 'bilinear'", resample_bilinear),
    ],
}
RIGHT = {
    "equivariance_gap": [gap_undone, gap_index_select],
    "learned_positions": [
        lambda t, d, std=0.02: nn.init.normal_(nn.Parameter(torch.empty(1, t, d)), std=std),
        edited(learned_positions, f"{TABLE} => torch.normal(0.0, std, size=(1, num_tokens, dim))"),
    ],
    "EncoderInput": [EncoderInputByParts, EncoderInputByLoop],
    "resample_pos_embed": [
        resample_views,
        resample_by_matrices,
        edited(stretched, f"rows, columns = old_grid => rows, columns = old_grid\n    {OTHER_GRID}"),
    ],
}
