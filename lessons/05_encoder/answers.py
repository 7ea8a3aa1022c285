"""Answers to the exercises of lesson 05, written as students write them."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.ops import stochastic_depth

from vit_classroom.checks import lesson_part
from vit_classroom.checks.edits import edited
from vit_course.encoder import Block, Mlp, drop_path, layer_norm

Plain = lesson_part("05_encoder", "checks").Plain


def norm_views(x, weight, bias, eps=1e-6):
    return layer_norm(x.view(-1, x.shape[-1]), weight, bias, eps).view(x.shape)


def norm_in_place(x, weight, bias, eps=1e-6):
    x -= x.mean(-1, keepdim=True)
    return layer_norm(x, weight, bias, eps)


def norm_loop(x, weight, bias, eps=1e-6):
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        centred = token - token.mean()
        rows.append(centred / ((centred @ centred) / len(token) + eps) ** 0.5)
    return torch.stack(rows).reshape(x.shape) * weight + bias


def drop_timm(x, drop_prob, training):
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep_prob)
    return x * mask.div_(keep_prob)


def drop_path_dropout_of_ones(x, rate, training):
    ones = x.new_ones([len(x)] + [1] * (x.dim() - 1))
    return x * F.dropout(ones, p=rate, training=training)


class MlpFixedWidth(Mlp):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__(dim, 4 * dim, drop)


class MlpOtherNames(Mlp):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__(dim, hidden_dim, drop)
        self.fc1, self.act = nn.Sequential(self.fc1, self.act), nn.Identity()


class MlpSequential(nn.Sequential):
    def __init__(self, dim, hidden_dim, drop=0.0):
        layers = nn.Linear(dim, hidden_dim), nn.GELU(), nn.Dropout(drop), nn.Linear(hidden_dim, dim)
        super().__init__(*layers, nn.Dropout(drop))


class MlpErf(nn.Module):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1, self.drop1 = nn.Linear(dim, hidden_dim), nn.Dropout(drop)
        self.fc2, self.drop2 = nn.Linear(hidden_dim, dim), nn.Dropout(drop)

    def forward(self, x):
        x = self.fc1(x)
        x = 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
        return self.drop2(self.fc2(self.drop1(x)))


class MlpOfFunctions(nn.Module):
    """Dropout as a function, which has to be told about training."""

    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden_dim), nn.Linear(hidden_dim, dim)
        self.p = drop

    def forward(self, x):
        for layer, bend in ((self.fc1, F.gelu), (self.fc2, nn.Identity())):
            x = F.dropout(bend(layer(x)), self.p, self.training)
        return x


class BlockTorchvision(Block):
    def forward(self, tokens, return_attention=False):
        branch = self.attn(self.norm1(tokens), return_attention=return_attention)
        branch, weights = branch if return_attention else (branch, None)
        tokens = tokens + stochastic_depth(branch, self.drop_path_rate, "row", self.training)
        branch = self.mlp(self.norm2(tokens))
        tokens = tokens + stochastic_depth(branch, self.drop_path_rate, "row", self.training)
        return (tokens, weights) if return_attention else tokens


class BlockOwnDropPath(Block):
    """Drop path as the dropout of a column of ones."""

    def forward(self, x, return_attention=False):
        ones = x.new_ones(x.shape[0], 1, 1)
        m1, m2 = (F.dropout(ones, self.drop_path_rate, self.training) for _ in range(2))
        out = self.attn(self.norm1(x), return_attention)
        attended, *weights = out if return_attention else (out,)
        x = x + m1 * attended
        x = x + m2 * self.mlp(self.norm2(x))
        return (x, *weights) if return_attention else x


class BlockOnNormedTokens(Block):
    def forward(self, x):
        x = self.norm1(x)
        x = x + self.attn(x)
        x = self.norm2(x)
        return x + self.mlp(x)


DISSECTED = ("the tokens are normed before the sum, so the stream itself is rewritten", BlockOnNormedTokens)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "layer_norm": [
        ("view size is not compatible", norm_views),
        ("on x of shape (6,)", lambda x, *rest: torch.stack([layer_norm(row, *rest) for row in x])),
        ("the gradient of `x` is not", edited(layer_norm, "variance + eps => variance.detach() + eps")),
        (
            "no gradient reaches `weight`",
            edited(layer_norm, "* weight + bias => * nn.Parameter(weight) + nn.Parameter(bias)"),
        ),
        ("no gradient reaches `weight`", edited(layer_norm, "* weight + bias => * weight.data + bias.data")),
        ("changes its input in place", norm_in_place),
        ("you returned", edited(layer_norm, "dim=-1 => dim=tuple(range(x.ndim - 1)) or 0")),
        (
            "your code changes its input in place (argument 1): whoever called it",
            torch.no_grad()(norm_in_place),
        ),
    ],
    "drop_path": [
        (
            "the shape should be (200, 2)",
            edited(drop_path, "x.shape[0], *[1] * (x.ndim - 1) => x.shape[0], 1, 1"),
        ),
        ("the numbers should be torch.float32", edited(drop_path, "x * keep => x * keep.double()")),
        (
            "a dropped branch should be 0",
            edited(drop_path, "x * keep => x * torch.where(keep, 1.0, torch.nan)"),
        ),
    ],
    "Mlp": [
        (
            "one dropout of rate `drop` in the middle",
            edited(
                Mlp,
                "self.drop(self.fc2(x)) => (h := self.fc2(x)) "
                "* self.drop(torch.ones_like(h[:1, :1] if x.ndim > 2 else h))",
            ),
        ),
        ("no gradient reaches", edited(Mlp, "self.fc1(x) => self.fc1(x.detach())")),
        (
            "your new tensor lies on the CPU",
            edited(Mlp, "return self.drop => return torch.ones(1, 1) * self.drop"),
        ),
        ("no weights named fc1.weight", MlpOtherNames),
        ("fc1.weight should be (3, 2)", MlpFixedWidth),
        ("your module has no weights named fc1.weight, fc1.bias, fc2.weight,", MlpSequential),
    ],
    "Block": [
        ("changes its input in place", edited(Plain, "x = x + branch => x.add_(branch)")),
        ("no gradient reaches", edited(Plain, "branch, weights => x = x.detach()\n        branch, weights")),
        (
            "no weights named norm1.weight",
            edited(
                Block,
                "norm1 = nn.LayerNorm(dim, eps=1e-6) => norm1 = nn.Sequential(nn.LayerNorm(dim, eps=1e-6))",
            ),
        ),
        (
            "`self.mlp.fc1.out_features` is 6, and it should be 9",
            edited(Block, "int(dim * mlp_ratio) => int(mlp_ratio) * dim"),
        ),
    ],
}
RIGHT = {
    "layer_norm": [lambda x, w, b, eps=1e-6: F.layer_norm(x, w.shape, w, b, eps), norm_loop],
    "drop_path": [drop_timm, drop_path_dropout_of_ones],
    "Mlp": [MlpErf, MlpOfFunctions],
    "Block": [Plain, BlockTorchvision, BlockOwnDropPath],
}
