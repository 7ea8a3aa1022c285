"""Answers to the exercises of lesson 05, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import math

import torch
import torch.nn.functional as F
from einops import reduce
from torch import nn

from vit_course.attention import MultiHeadAttention
from vit_course.encoder import Mlp
from vit_course.encoder import drop_path as drop_branch


def layer_norm_unbiased(x, weight, bias, eps=1e-6):
    mean = x.mean(dim=-1, keepdim=True)
    return (x - mean) / (x.var(dim=-1, keepdim=True) + eps).sqrt() * weight + bias


def layer_norm_over_tokens(x, weight, bias, eps=1e-6):
    axes = tuple(range(x.ndim - 1)) if x.ndim > 1 else (0,)
    mean = x.mean(dim=axes, keepdim=True)
    variance = x.var(dim=axes, unbiased=False, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * weight + bias


def layer_norm_without_weight(x, weight, bias, eps=1e-6):
    mean = x.mean(dim=-1, keepdim=True)
    return (x - mean) / (x.var(dim=-1, unbiased=False, keepdim=True) + eps).sqrt() + bias


def layer_norm_ignores_eps(x, weight, bias, eps=1e-6):
    return F.layer_norm(x, (x.shape[-1],), weight, bias, 1e-6)


def layer_norm_without_eps(x, weight, bias, eps=1e-6):
    mean = x.mean(dim=-1, keepdim=True)
    return (x - mean) / x.var(dim=-1, unbiased=False, keepdim=True).sqrt() * weight + bias


def layer_norm_in_place(x, weight, bias, eps=1e-6):
    with torch.no_grad():
        x -= x.mean(dim=-1, keepdim=True)
    return x / (x.pow(2).mean(dim=-1, keepdim=True) + eps).sqrt() * weight + bias


def layer_norm_torch(x, weight, bias, eps=1e-6):
    return F.layer_norm(x, weight.shape, weight=weight, bias=bias, eps=eps)


def layer_norm_einops(x, weight, bias, eps=1e-6):
    centred = x - reduce(x, "... d -> ... 1", "mean")
    variance = reduce(centred**2, "... d -> ... 1", "mean")
    return torch.addcmul(bias, centred * torch.rsqrt(variance + eps), weight)


def layer_norm_sums(x, weight, bias, eps=1e-6):
    D = x.size(-1)
    mu = x.sum(-1, keepdim=True) / D
    deviation = x - mu
    sigma2 = torch.einsum("...d,...d->...", deviation, deviation).unsqueeze(-1) / D
    return bias + weight * deviation / torch.sqrt(sigma2 + eps)


def layer_norm_token_by_token(x, weight, bias, eps=1e-6):
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        mean = token.mean()
        variance = ((token - mean) ** 2).mean()
        rows.append((token - mean) / (variance + eps).sqrt() * weight + bias)
    return torch.stack(rows).reshape(x.shape)


class MlpNoBend(nn.Module):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return self.drop(self.fc2(self.drop(self.fc1(x))))


class MlpNoDropoutInside(Mlp):
    def forward(self, x):
        return self.drop(self.fc2(self.act(self.fc1(x))))


class MlpNoDropoutAtTheEnd(Mlp):
    def forward(self, x):
        return self.fc2(self.drop(self.act(self.fc1(x))))


class MlpDropsBeforeGelu(Mlp):
    def forward(self, x):
        x = self.act(self.drop(self.fc1(x)))
        return self.drop(self.fc2(x))


class MlpAlwaysDrops(nn.Module):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, dim)
        self.rate = drop

    def forward(self, x):
        x = F.dropout(F.gelu(self.fc1(x)), self.rate)
        return F.dropout(self.fc2(x), self.rate)


class MlpDropsHalf(nn.Module):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden_dim, dim)
        self.drop = nn.Dropout()

    def forward(self, x):
        x = self.drop(self.act(self.fc1(x)))
        return self.drop(self.fc2(x))


class MlpTwoDropouts(nn.Module):
    """Each place has a dropout of its own."""

    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.drop1 = nn.Dropout(drop)
        self.fc2 = nn.Linear(hidden_dim, dim)
        self.drop2 = nn.Dropout(drop)

    def forward(self, x):
        hidden = self.drop1(F.gelu(self.fc1(x)))
        return self.drop2(self.fc2(hidden))


class MlpFunctional(nn.Module):
    """Dropout as a function, which has to be told about training."""

    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden_dim), nn.Linear(hidden_dim, dim)
        self.p = drop

    def forward(self, x):
        for layer, bend in ((self.fc1, F.gelu), (self.fc2, nn.Identity())):
            x = F.dropout(bend(layer(x)), self.p, self.training)
        return x


class MlpErf(nn.Module):
    """GELU from its definition, x times the normal distribution."""

    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1 = nn.Linear(in_features=dim, out_features=hidden_dim)
        self.fc2 = nn.Linear(in_features=hidden_dim, out_features=dim)
        self.dropout = nn.Dropout(p=drop)

    def forward(self, x):
        x = self.fc1(x)
        x = x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        x = self.dropout(x)
        x = self.fc2(x)
        return self.dropout(x)


class MlpEinsum(nn.Module):
    """The two matrix products written out."""

    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.act = nn.GELU(approximate="none")
        self.fc2 = nn.Linear(hidden_dim, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        x = torch.einsum("...d,hd->...h", x, self.fc1.weight) + self.fc1.bias
        x = self.drop(self.act(x))
        return self.drop(torch.einsum("...h,dh->...d", x, self.fc2.weight) + self.fc2.bias)


def drop_path_every_number(x, rate, training):
    return F.dropout(x, rate, training)


def drop_path_divided_by_rate(x, rate, training):
    if not training or rate == 0:
        return x
    keep = torch.rand((x.shape[0],) + (1,) * (x.ndim - 1), device=x.device) >= rate
    return x * keep / rate


def drop_path_keeps_the_rate(x, rate, training):
    if not training or rate == 0:
        return x
    keep = torch.rand((x.shape[0],) + (1,) * (x.ndim - 1), device=x.device) < rate
    return x * keep / (1 - rate)


def drop_path_scales_later(x, rate, training):
    if not training:
        return x * (1 - rate)
    keep = torch.rand((x.shape[0],) + (1,) * (x.ndim - 1), device=x.device) >= rate
    return x * keep


def drop_path_only_in_evaluation(x, rate, training):
    if training or rate == 0:
        return x
    keep = torch.rand((x.shape[0],) + (1,) * (x.ndim - 1), device=x.device) >= rate
    return x * keep / (1 - rate)


def drop_path_tokens_not_divided(x, rate, training):
    if not training or rate == 0:
        return x
    keep = torch.rand(x.shape[:-1] + (1,), device=x.device) >= rate
    return x * keep


def drop_path_timm(x, rate, training):
    if rate == 0.0 or not training:
        return x
    keep_prob = 1 - rate
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    return x * x.new_empty(shape).bernoulli_(keep_prob).div_(keep_prob)


def drop_path_dropout_of_ones(x, rate, training):
    ones = x.new_ones([len(x)] + [1] * (x.dim() - 1))
    return x * F.dropout(ones, p=rate, training=training)


def drop_path_where(x, rate, training):
    if training is False or rate <= 0:
        return x
    gone = torch.rand(x.size(0), device=x.device) < rate
    gone = gone.view(-1, *(1 for _ in x.shape[1:]))
    return torch.where(gone, torch.zeros_like(x), x / (1.0 - rate))


def drop_path_picture_by_picture(x, rate, training):
    if not training:
        return x
    survivors = []
    for branch in x:
        dropped = torch.rand(1).item() < rate
        survivors.append(branch * 0 if dropped else branch / (1 - rate))
    return torch.stack(survivors)


class BlockPostNorm(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)
        self.drop_path_rate = drop_path

    def forward(self, x, return_attention=False):
        y, weights = self.attn(x, return_attention=True)
        x = self.norm1(x + drop_branch(y, self.drop_path_rate, self.training))
        x = self.norm2(x + drop_branch(self.mlp(x), self.drop_path_rate, self.training))
        return (x, weights) if return_attention else x


class BlockAlwaysDropsPaths(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)
        self.drop_path_rate = drop_path

    def forward(self, x, return_attention=False):
        y, weights = self.attn(self.norm1(x), return_attention=True)
        x = x + drop_branch(y, self.drop_path_rate, True)
        x = x + drop_branch(self.mlp(self.norm2(x)), self.drop_path_rate, True)
        return (x, weights) if return_attention else x


class BlockForgetsDropPath(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)
        self.drop_path_rate = drop_path

    def forward(self, x, return_attention=False):
        y, weights = self.attn(self.norm1(x), return_attention=True)
        x = x + y
        x = x + self.mlp(self.norm2(x))
        return (x, weights) if return_attention else x


class BlockFixedRatio(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, 4 * dim, drop)
        self.drop_path_rate = drop_path

    def forward(self, x, return_attention=False):
        y, weights = self.attn(self.norm1(x), return_attention=True)
        x = x + drop_branch(y, self.drop_path_rate, self.training)
        x = x + drop_branch(self.mlp(self.norm2(x)), self.drop_path_rate, self.training)
        return (x, weights) if return_attention else x


class BlockDefaultEps(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)
        self.drop_path_rate = drop_path

    def forward(self, x, return_attention=False):
        y, weights = self.attn(self.norm1(x), return_attention=True)
        x = x + drop_branch(y, self.drop_path_rate, self.training)
        x = x + drop_branch(self.mlp(self.norm2(x)), self.drop_path_rate, self.training)
        return (x, weights) if return_attention else x


class BlockNeverReturnsWeights(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)
        self.drop_path_rate = drop_path

    def forward(self, x, return_attention=False):
        x = x + drop_branch(self.attn(self.norm1(x)), self.drop_path_rate, self.training)
        return x + drop_branch(self.mlp(self.norm2(x)), self.drop_path_rate, self.training)


class BlockLineByLine(nn.Module):
    """Every step in a line of its own."""

    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.drop_path_rate = drop_path
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.mlp = Mlp(dim, hidden_dim=int(mlp_ratio * dim), drop=drop)

    def forward(self, x, return_attention=False):
        shortcut = x
        x = self.norm1(x)
        x, weights = self.attn(x, return_attention=True)
        x = drop_branch(x, self.drop_path_rate, self.training)
        x = shortcut + x
        shortcut = x
        x = self.norm2(x)
        x = self.mlp(x)
        x = drop_branch(x, self.drop_path_rate, self.training)
        x = shortcut + x
        if return_attention:
            return x, weights
        return x


class BlockTwoPaths(nn.Module):
    """The switch is read first: two short paths."""

    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(dim, eps=1e-6) for _ in range(2))
        self.attn = MultiHeadAttention(dim, num_heads, True, attn_drop, drop)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)
        self.drop_path_rate = drop_path

    def keep(self, branch):
        return drop_branch(branch, rate=self.drop_path_rate, training=self.training)

    def think(self, stream):
        return stream + self.keep(self.mlp(self.norm2(stream)))

    def forward(self, x, return_attention=False):
        if return_attention:
            found, weights = self.attn(self.norm1(x), True)
            return self.think(x + self.keep(found)), weights
        return self.think(x + self.keep(self.attn(self.norm1(x))))


class BlockFunctionalNorm(nn.Module):
    """Norms as a function of the layers' parameters; the branches are added by torch.add."""

    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, round(dim * mlp_ratio // 1), drop)
        self.drop_path_rate = drop_path

    def forward(self, x, return_attention=False):
        def normed(layer, tokens):
            return F.layer_norm(tokens, tokens.shape[-1:], layer.weight, layer.bias, layer.eps)

        attended, weights = self.attn(normed(self.norm1, x), return_attention=True)
        x = torch.add(x, drop_branch(attended, self.drop_path_rate, self.training))
        thought = self.mlp(normed(self.norm2, x))
        x = torch.add(x, drop_branch(thought, self.drop_path_rate, self.training))
        return [x, (x, weights)][bool(return_attention)]


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


UNSEEN = {
    "layer_norm": [
        ("the variance divides by D - 1", layer_norm_unbiased),
        ("a batch norm: mean and variance over all tokens of one place", layer_norm_over_tokens),
        ("the weight is ignored", layer_norm_without_weight),
        ("eps is always 1e-6, the argument is ignored", layer_norm_ignores_eps),
        ("eps is not used at all, a constant token gives nan", layer_norm_without_eps),
        ("the mean is subtracted in place, the tokens of the caller change", layer_norm_in_place),
    ],
    "Mlp": [
        ("nothing bends between the two layers", MlpNoBend),
        ("no dropout after the GELU", MlpNoDropoutInside),
        ("no dropout after fc2", MlpNoDropoutAtTheEnd),
        ("the dropout comes before the GELU", MlpDropsBeforeGelu),
        ("F.dropout without the training flag: drops in evaluation too", MlpAlwaysDrops),
        ("the rate is not passed on, dropout is always one half", MlpDropsHalf),
    ],
    "drop_path": [
        ("an ordinary dropout of single numbers", drop_path_every_number),
        ("what stays is divided by the rate", drop_path_divided_by_rate),
        ("keeps with probability rate: the comparison is turned round", drop_path_keeps_the_rate),
        ("the old way: no division in training, a factor outside training", drop_path_scales_later),
        ("the training flag is read the wrong way round", drop_path_only_in_evaluation),
        ("one draw for each token, and no division", drop_path_tokens_not_divided),
    ],
    "Block": [
        ("post-norm: adds first and norms the sum", BlockPostNorm),
        ("drop path is told that it is always training", BlockAlwaysDropsPaths),
        ("drop path is forgotten", BlockForgetsDropPath),
        ("mlp_ratio is ignored, always 4", BlockFixedRatio),
        ("eps of the norms is PyTorch's default 1e-5", BlockDefaultEps),
        ("return_attention is ignored, no weights are returned", BlockNeverReturnsWeights),
    ],
}
STYLES = {
    "layer_norm": [layer_norm_torch, layer_norm_einops, layer_norm_sums, layer_norm_token_by_token],
    "Mlp": [MlpTwoDropouts, MlpFunctional, MlpErf, MlpEinsum],
    "drop_path": [drop_path_timm, drop_path_dropout_of_ones, drop_path_where, drop_path_picture_by_picture],
    "Block": [BlockLineByLine, BlockTwoPaths, BlockFunctionalNorm, BlockOwnDropPath],
}
