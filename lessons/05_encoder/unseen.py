"""Answers to the exercises of lesson 05, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import math

import torch
import torch.nn.functional as F
from einops import reduce
from torch import Tensor, nn

from vit_course.attention import MultiHeadAttention
from vit_course.encoder import Block, Mlp, drop_path
from vit_course.encoder import drop_path as drop_branch


def layer_norm_unbiased(x, weight, bias, eps=1e-6):
    mean = x.mean(dim=-1, keepdim=True)
    return (x - mean) / (x.var(dim=-1, keepdim=True) + eps).sqrt() * weight + bias


def layer_norm_over_tokens(x, weight, bias, eps=1e-6):
    axes = tuple(range(x.ndim - 1)) if x.ndim > 1 else (0,)
    mean = x.mean(dim=axes, keepdim=True)
    variance = x.var(dim=axes, unbiased=False, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * weight + bias


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


def layer_norm_own_eps(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-6) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def layer_norm_shift_first(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-6) -> Tensor:
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return ((x - mean) / (variance + eps).sqrt() + bias) * weight


def layer_norm_one_plus(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-6) -> Tensor:
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * (1 + weight) + bias


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


class MlpKeras(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.fc1, self.fc2):
            x = self.drop(self.act(layer(x)))
        return x


class MlpDefaultRate(Mlp):
    def __init__(self, dim: int, hidden_dim: int, drop: float = 0.1):
        super().__init__(dim, hidden_dim, drop)


def drop_path_keep_prob(x: Tensor, rate: float, training: bool) -> Tensor:
    if not training or rate == 0:
        return x
    keep = torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device) < rate
    return x * keep / rate


def drop_path_seeded(x: Tensor, rate: float, training: bool) -> Tensor:
    if not training or rate == 0:
        return x
    torch.manual_seed(0)
    keep = torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device) >= rate
    return x * keep / (1 - rate)


def drop_path_mean_of_kept(x: Tensor, rate: float, training: bool) -> Tensor:
    if not training or rate == 0:
        return x
    keep = (torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device) >= rate).to(x.dtype)
    return x * keep / keep.mean().clamp(min=1 / len(x))


class BlockOneNorm(Block):
    def forward(self, x: Tensor, return_attention: bool = False):
        attended, weights = self.attn(self.norm1(x), True)
        x = x + drop_path(attended, self.drop_path_rate, self.training)
        x = x + drop_path(self.mlp(self.norm1(x)), self.drop_path_rate, self.training)
        return (x, weights) if return_attention else x


class BlockParallel(Block):
    def forward(self, x: Tensor, return_attention: bool = False):
        attended, weights = self.attn(self.norm1(x), True)
        x = (
            x
            + drop_path(attended, self.drop_path_rate, self.training)
            + drop_path(self.mlp(self.norm2(x)), self.drop_path_rate, self.training)
        )
        return (x, weights) if return_attention else x


class BlockWholeRatio(Block):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__(dim, num_heads, mlp_ratio, drop, attn_drop, drop_path)
        self.mlp = Mlp(dim, int(mlp_ratio) * dim, drop)


UNSEEN = {
    "layer_norm": [
        ("the variance divides by D - 1", layer_norm_unbiased),
        ("a batch norm: mean and variance over all tokens of one place", layer_norm_over_tokens),
        ("eps is always 1e-6, the argument is ignored", layer_norm_ignores_eps),
        ("eps is not used at all, a constant token gives nan", layer_norm_without_eps),
        ("the mean is subtracted in place, the tokens of the caller change", layer_norm_in_place),
        ("multiplies by 1 + weight as Gemma's norms do, and not by weight", layer_norm_one_plus),
        (
            "adds the bias before it multiplies by the weight, so the shift is scaled too",
            layer_norm_shift_first,
        ),
        (
            "calls F.layer_norm without eps, whose default is 1e-5, so the argument eps is ignored",
            layer_norm_own_eps,
        ),
    ],
    "Mlp": [
        ("nothing bends between the two layers", MlpNoBend),
        ("no dropout after fc2", MlpNoDropoutAtTheEnd),
        ("the dropout comes before the GELU", MlpDropsBeforeGelu),
        ("F.dropout without the training flag: drops in evaluation too", MlpAlwaysDrops),
        ("the rate is not passed on, dropout is always one half", MlpDropsHalf),
        ("has 0.1 as the default of drop, as the JAX code has, where the stub has 0.0", MlpDefaultRate),
        (
            "keeps the layers in one nn.Sequential, so self.fc1 and self.fc2 do not exist and the "
            "weights have other names",
            MlpSequential,
        ),
        (
            "applies the GELU behind both linear layers as the ViT example of Keras does, so fc2's "
            "output is bent too",
            MlpKeras,
        ),
    ],
    "drop_path": [
        ("an ordinary dropout of single numbers", drop_path_every_number),
        ("what stays is divided by the rate", drop_path_divided_by_rate),
        ("the old way: no division in training, a factor outside training", drop_path_scales_later),
        ("the training flag is read the wrong way round", drop_path_only_in_evaluation),
        ("one draw for each token, and no division", drop_path_tokens_not_divided),
        (
            "calls torch.manual_seed(0) before it draws, so always the same pictures are dropped and "
            "everybody's random numbers are reset",
            drop_path_seeded,
        ),
        (
            "divides by the share of the batch that happened to be kept and not by 1 - rate, so the "
            "factor changes from batch to batch and the expected value is wrong",
            drop_path_mean_of_kept,
        ),
        (
            "reads rate as the probability of keeping, as TensorFlow's keep_prob, which is the same "
            "at 0.5 only",
            drop_path_keep_prob,
        ),
    ],
    "Block": [
        ("post-norm: adds first and norms the sum", BlockPostNorm),
        ("drop path is forgotten", BlockForgetsDropPath),
        ("mlp_ratio is ignored, always 4", BlockFixedRatio),
        ("eps of the norms is PyTorch's default 1e-5", BlockDefaultEps),
        ("return_attention is ignored, no weights are returned", BlockNeverReturnsWeights),
        (
            "calls norm1 in front of the MLP too and never norm2, which shows only once the two have "
            "learned different numbers",
            BlockOneNorm,
        ),
        (
            "computes int(mlp_ratio)·dim in place of int(mlp_ratio·dim), so a ratio such as 2.5 gives "
            "a hidden layer that is too narrow",
            BlockWholeRatio,
        ),
        (
            "runs attention and MLP side by side on the block's input as ViT-22B does, so the MLP "
            "does not see what attention added",
            BlockParallel,
        ),
    ],
}
STYLES = {
    "layer_norm": [layer_norm_torch, layer_norm_einops, layer_norm_sums, layer_norm_token_by_token],
    "Mlp": [MlpTwoDropouts, MlpFunctional, MlpErf, MlpEinsum],
    "drop_path": [drop_path_timm, drop_path_dropout_of_ones, drop_path_where, drop_path_picture_by_picture],
    "Block": [BlockLineByLine, BlockTwoPaths, BlockFunctionalNorm, BlockOwnDropPath],
}
