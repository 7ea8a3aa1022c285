"""Answers to the exercises of lesson 05, written as students write them."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import stochastic_depth

from vit_course.attention import MultiHeadAttention
from vit_course.encoder import Block, Mlp, drop_path


def norm_views(x, weight, bias, eps=1e-6):
    return norm_functional(x.view(-1, x.shape[-1]), weight, bias, eps).view(x.shape)


def norm_needs_two_axes(x, weight, bias, eps=1e-6):
    mean = torch.stack([row.mean(-1) for row in x])[..., None]
    variance = torch.stack([row.var(-1, unbiased=False) for row in x])[..., None]
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def norm_detached(x, weight, bias, eps=1e-6):
    with torch.no_grad():
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def norm_new_parameters(x, weight, bias, eps=1e-6):
    layer = nn.LayerNorm(x.shape[-1], eps=eps, dtype=x.dtype)
    layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(bias)
    return layer(x)


def norm_data(x, weight, bias, eps=1e-6):
    return F.layer_norm(x, x.shape[-1:], weight.data, bias.data, eps)


def norm_in_place(x, weight, bias, eps=1e-6):
    x -= x.mean(-1, keepdim=True)
    return x / torch.sqrt((x**2).mean(-1, keepdim=True) + eps) * weight + bias


def norm_functional(x, weight, bias, eps=1e-6):
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def norm_loop(x, weight, bias, eps=1e-6):
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        centred = token - token.mean()
        rows.append(centred / ((centred @ centred) / len(token) + eps) ** 0.5)
    return torch.stack(rows).reshape(x.shape) * weight + bias


def drop_three_axes(x, rate, training):
    if not training:
        return x
    return x * (torch.rand(len(x), 1, 1) >= rate) / (1 - rate)


def drop_float64(x, rate, training):
    if not training:
        return x
    keep = torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device, dtype=torch.float64) >= rate
    return x * keep.double() / (1 - rate)


def drop_nan(x, rate, training):
    if not training:
        return x
    gone = torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device) < rate
    return torch.where(gone, torch.nan, x / (1 - rate))


def drop_timm(x, drop_prob, training):
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep_prob)
    mask.div_(keep_prob)
    return x * mask


class MlpColumnMask(Mlp):
    def forward(self, x):
        out = self.fc2(self.drop(self.act(self.fc1(x))))
        return out * self.drop(torch.ones(out.shape[-1]))


class MlpDetached(Mlp):
    def forward(self, x):
        return super().forward(x.detach())


class MlpOtherNames(nn.Module):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, dim))

    def forward(self, x):
        return self.net(x)


class MlpFixedWidth(nn.Module):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class MlpErf(nn.Module):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1, self.drop1 = nn.Linear(dim, hidden_dim), nn.Dropout(drop)
        self.fc2, self.drop2 = nn.Linear(hidden_dim, dim), nn.Dropout(drop)

    def forward(self, x):
        x = self.fc1(x)
        x = 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
        return self.drop2(self.fc2(self.drop1(x)))


class BlockInPlace(Block):
    def forward(self, x):
        x += drop_path(self.attn(self.norm1(x)), self.drop_path_rate, self.training)
        return x + drop_path(self.mlp(self.norm2(x)), self.drop_path_rate, self.training)


class BlockDetached(Block):
    def forward(self, x):
        x = x.detach()
        return super().forward(x)


class BlockOtherNames(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)
        self.drop_path_rate = drop_path

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class BlockTorchvision(Block):
    def forward(self, tokens, return_attention=False):
        branch = self.attn(self.norm1(tokens), return_attention=return_attention)
        branch, weights = branch if return_attention else (branch, None)
        tokens = tokens + stochastic_depth(branch, self.drop_path_rate, "row", self.training)
        tokens = tokens + stochastic_depth(
            self.mlp(self.norm2(tokens)), self.drop_path_rate, "row", self.training
        )
        return (tokens, weights) if return_attention else tokens


def layer_norm_over_tokens(x, weight, bias, eps=1e-6):
    axes = tuple(range(x.ndim - 1)) if x.ndim > 1 else (0,)
    mean = x.mean(dim=axes, keepdim=True)
    variance = x.var(dim=axes, unbiased=False, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * weight + bias


def layer_norm_in_place(x, weight, bias, eps=1e-6):
    with torch.no_grad():
        x -= x.mean(dim=-1, keepdim=True)
    return x / (x.pow(2).mean(dim=-1, keepdim=True) + eps).sqrt() * weight + bias


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


class BlockOnNormedTokens(Block):
    def forward(self, x):
        x = self.norm1(x)
        x = x + self.attn(x)
        x = self.norm2(x)
        return x + self.mlp(x)


def drop_path_dropout_of_ones(x, rate, training):
    ones = x.new_ones([len(x)] + [1] * (x.dim() - 1))
    return x * F.dropout(ones, p=rate, training=training)


class BlockOwnDropPath(nn.Module):
    """Drop path as the dropout of a column of ones."""

    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, int(mlp_ratio * dim), drop)
        self.drop_path_rate = drop_path

    def forward(self, x, return_attention=False):
        ones = x.new_ones(x.shape[0], 1, 1)
        m1, m2 = (F.dropout(ones, self.drop_path_rate, self.training) for _ in range(2))
        out = self.attn(self.norm1(x), return_attention)
        attended, *weights = out if return_attention else (out,)
        x = x + m1 * attended
        x = x + m2 * self.mlp(self.norm2(x))
        return (x, *weights) if return_attention else x


class MlpSequential(nn.Module):
    def __init__(self, dim: int, hidden_dim: int, drop: float = 0.0):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim, hidden_dim),
            nn.GELU(),
            nn.Dropout(drop),
            nn.Linear(hidden_dim, dim),
            nn.Dropout(drop),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class BlockWholeRatio(Block):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__(dim, num_heads, mlp_ratio, drop, attn_drop, drop_path)
        self.mlp = Mlp(dim, int(mlp_ratio) * dim, drop)


DISSECTED = (
    "the tokens are normed before the sum, so the stream itself is rewritten",
    BlockOnNormedTokens,
)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "layer_norm": [
        ("view size is not compatible", norm_views),
        ("on x of shape (6,)", norm_needs_two_axes),
        ("the gradient of `x` is not", norm_detached),
        ("no gradient reaches `weight`", norm_new_parameters),
        ("no gradient reaches `weight`", norm_data),
        ("changes its input in place", norm_in_place),
        ("you returned", layer_norm_over_tokens),
        ("your code changes its input in place (argument 1): whoever called it", layer_norm_in_place),
    ],
    "drop_path": [
        ("the shape should be (200, 2)", drop_three_axes),
        ("the numbers should stay torch.float32", drop_float64),
        ("a dropped branch should be 0", drop_nan),
    ],
    "Mlp": [
        ("one dropout of rate `drop` in the middle", MlpColumnMask),
        ("no gradient reaches", MlpDetached),
        ("no weights named fc1.weight", MlpOtherNames),
        ("fc1.weight should be (3, 2)", MlpFixedWidth),
        ("your module has no weights named fc1.weight, fc1.bias, fc2.weight,", MlpSequential),
    ],
    "Block": [
        ("changes its input in place", BlockInPlace),
        ("no gradient reaches", BlockDetached),
        ("no weights named norm1.weight", BlockOtherNames),
        ("`self.mlp.fc1.out_features` is 6, and it should be 9", BlockWholeRatio),
    ],
}
RIGHT = {
    "layer_norm": [norm_functional, norm_loop],
    "drop_path": [
        drop_timm,
        drop_path_dropout_of_ones,
    ],
    "Mlp": [MlpErf, MlpOfFunctions],
    "Block": [BlockTorchvision, BlockOwnDropPath],
}
