"""Answers to the exercises of lesson 05, written as students write them."""

import math
import random

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.ops import stochastic_depth

from vit_course.attention import MultiHeadAttention
from vit_course.encoder import Block, Mlp, drop_path


def norm_unbiased(x, weight, bias, eps=1e-6):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(x.var(-1, keepdim=True) + eps) * weight + bias


def norm_eps_outside(x, weight, bias, eps=1e-6):
    mean = x.mean(-1, keepdim=True)
    std = x.std(-1, keepdim=True, unbiased=False)
    return weight * (x - mean) / (std + eps) + bias


def norm_without_eps(x, weight, bias, eps=1e-6):
    mean = x.mean(-1, keepdim=True)
    return weight * (x - mean) / x.std(-1, keepdim=True, unbiased=False) + bias


def norm_fixed_eps(x, weight, bias, eps=1e-6):
    return F.layer_norm(x, (x.shape[-1],), weight, bias, 1e-6)


def norm_default_eps(x, weight, bias, eps=1e-6):
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def norm_other_default(x, weight, bias, eps=1e-5):
    return F.layer_norm(x, (x.shape[-1],), weight, bias, eps)


def norm_views(x, weight, bias, eps=1e-6):
    return norm_functional(x.view(-1, x.shape[-1]), weight, bias, eps).view(x.shape)


def norm_needs_two_axes(x, weight, bias, eps=1e-6):
    mean = torch.stack([row.mean(-1) for row in x])[..., None]
    variance = torch.stack([row.var(-1, unbiased=False) for row in x])[..., None]
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def norm_over_tokens(x, weight, bias, eps=1e-6):
    mean, variance = x.mean(-2, keepdim=True), x.var(-2, unbiased=False, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def norm_axis_one(x, weight, bias, eps=1e-6):
    mean, variance = x.mean(1, keepdim=True), x.var(1, unbiased=False, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def norm_over_batch(x, weight, bias, eps=1e-6):
    mean, variance = x.mean(0, keepdim=True), x.var(0, unbiased=False, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def norm_over_all(x, weight, bias, eps=1e-6):
    return (x - x.mean()) / torch.sqrt(x.var(unbiased=False) + eps) * weight + bias


def norm_without_weights(x, weight, bias, eps=1e-6):
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def norm_without_bias(x, weight, bias, eps=1e-6):
    return F.layer_norm(x, x.shape[-1:], weight, None, eps)


def norm_divides_by_variance(x, weight, bias, eps=1e-6):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / (x.var(-1, unbiased=False, keepdim=True) + eps) * weight + bias


def norm_not_centred(x, weight, bias, eps=1e-6):
    return x / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + eps) * weight + bias


def norm_without_keepdim(x, weight, bias, eps=1e-6):
    return (x - x.mean(-1)) / torch.sqrt(x.var(-1, unbiased=False) + eps) * weight + bias


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


def norm_squares(inputs, gamma, beta, epsilon=1e-6):
    mean = inputs.sum(-1, keepdim=True) / inputs.shape[-1]
    variance = (inputs**2).mean(-1, keepdim=True) - mean**2
    return gamma * ((inputs - mean) * torch.rsqrt(variance.clamp(min=0) + epsilon)) + beta


def norm_group(x, weight, bias, eps=1e-6):
    one_group = F.group_norm(x.reshape(-1, x.shape[-1]), 1, weight, bias, eps)
    return one_group.reshape(x.shape)


def norm_loop(x, weight, bias, eps=1e-6):
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        centred = token - token.mean()
        rows.append(centred / ((centred @ centred) / len(token) + eps) ** 0.5)
    return torch.stack(rows).reshape(x.shape) * weight + bias


def drop_elements(x, rate, training):
    return F.dropout(x, rate, training)


def drop_tokens(x, rate, training):
    if not training or rate == 0:
        return x
    keep = torch.rand(*x.shape[:2], *[1] * (x.ndim - 2)) >= rate
    return x * keep / (1 - rate)


def drop_batch(x, rate, training):
    return stochastic_depth(x, rate, "batch", training)


def drop_unscaled(x, rate, training):
    if not training:
        return x
    keep = torch.rand(len(x), *[1] * (x.ndim - 1)) >= rate
    return x * keep


def drop_swapped(x, rate, training):
    if not training or rate == 0:
        return x
    keep = torch.rand(len(x), *[1] * (x.ndim - 1)) < rate
    return x * keep / (1 - rate)


def drop_divides_by_rate(x, rate, training):
    if not training or rate == 0:
        return x
    keep = torch.rand(len(x), *[1] * (x.ndim - 1)) >= rate
    return x * keep / rate


def drop_multiplies(x, rate, training):
    if not training or rate == 0:
        return x
    keep = torch.rand(len(x), *[1] * (x.ndim - 1)) >= rate
    return x * keep * (1 - rate)


def drop_in_evaluation(x, rate, training):
    keep = torch.rand(len(x), *[1] * (x.ndim - 1)) >= rate
    return x * keep / (1 - rate)


def drop_scaled_in_evaluation(x, rate, training):
    if not training:
        return x * (1 - rate)
    return x * (torch.rand(len(x), *[1] * (x.ndim - 1)) >= rate)


def drop_nothing(x, rate, training):
    return x


def drop_the_first(x, rate, training):
    if not training:
        return x
    gone = round(rate * len(x))
    return torch.cat([torch.zeros_like(x[:gone]), x[gone:] / (1 - rate)])


def drop_exact_number(x, rate, training):
    if not training:
        return x
    out = x / (1 - rate)
    out[torch.randperm(len(x))[: round(rate * len(x))]] = 0
    return out


def masked(x, keep, rate):
    return x * keep[: len(x)].reshape(-1, *[1] * (x.ndim - 1)) / (1 - rate)


def drop_together(share_draws):
    """Build a drop path with half as many draws as pictures, or fewer; `share_draws` deals them out."""

    def answer(x, rate, training):
        if not training:
            return x
        return masked(x, share_draws(torch.rand((len(x) + 1) // 2, device=x.device) >= rate), rate)

    return answer


drop_pairs = drop_together(lambda keep: keep.repeat_interleave(2))
drop_tens = drop_together(lambda keep: keep.repeat_interleave(10))
drop_halves = drop_together(lambda keep: keep.repeat(2))


def drop_other_of_pair(x, rate, training):
    if not training:
        return x
    draws = torch.rand((len(x) + 1) // 2, device=x.device)
    return masked(x, torch.stack([draws, 1 - draws], dim=1).flatten() >= rate, rate)


def drop_random_pairs(x, rate, training):
    if not training:
        return x
    keep = (torch.rand((len(x) + 1) // 2, device=x.device) >= rate).repeat_interleave(2)[: len(x)]
    return masked(x, keep[torch.randperm(len(x))], rate)


def drop_rounded_number(x, rate, training):
    if not training:
        return x
    gone = int(rate * len(x) + random.random())
    return masked(x, (torch.arange(len(x)) >= gone)[torch.randperm(len(x))], rate)


def drop_other_keyword(x, rate, train):
    return drop_path(x, rate, train)


def drop_seeded(x, rate, training):
    torch.manual_seed(0)
    return drop_path(x, rate, training)


def drop_three_axes(x, rate, training):
    if not training:
        return x
    return x * (torch.rand(len(x), 1, 1) >= rate) / (1 - rate)


def drop_on_cpu(x, rate, training):
    if not training:
        return x
    keep = torch.rand(len(x), *[1] * (x.ndim - 1)) >= rate
    return x * keep / (1 - rate)


def drop_detached(x, rate, training):
    return drop_path(x.detach(), rate, training)


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


def drop_torchvision(x, rate, training):
    return stochastic_depth(x, rate, mode="row", training=training)


def drop_timm(x, drop_prob, training):
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep_prob)
    mask.div_(keep_prob)
    return x * mask


def drop_loop(x, rate, training):
    if not training:
        return x
    return torch.stack([picture / (1 - rate) * (random.random() >= rate) for picture in x])


def drop_index(x, rate, training):
    out = x / (1 - rate) if training else x.clone()
    if training:
        out[torch.rand(len(x), device=x.device) < rate] = 0
    return out


class MlpRelu(Mlp):
    def forward(self, x):
        return self.drop(self.fc2(self.drop(F.relu(self.fc1(x)))))


class MlpTanhGelu(Mlp):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__(dim, hidden_dim, drop)
        self.act = nn.GELU(approximate="tanh")


class MlpLinear(Mlp):
    def forward(self, x):
        return self.drop(self.fc2(self.drop(self.fc1(x))))


class MlpTwoActivations(Mlp):
    def forward(self, x):
        return self.drop(self.act(self.fc2(self.drop(self.act(self.fc1(x))))))


class MlpActivationLast(Mlp):
    def forward(self, x):
        return self.drop(self.act(self.fc2(self.fc1(x))))


class MlpResidual(Mlp):
    def forward(self, x):
        return x + super().forward(x)


class MlpNoDropout(Mlp):
    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class MlpDropoutInside(Mlp):
    def forward(self, x):
        return self.fc2(self.drop(self.act(self.fc1(x))))


class MlpDropoutAtEnd(Mlp):
    def forward(self, x):
        return self.drop(self.fc2(self.act(self.fc1(x))))


class MlpDropsInput(Mlp):
    def forward(self, x):
        return self.drop(self.fc2(self.act(self.fc1(self.drop(x)))))


class MlpDropsInEvaluation(Mlp):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__(dim, hidden_dim)
        self.rate = drop

    def forward(self, x):
        return F.dropout(self.fc2(F.dropout(self.act(self.fc1(x)), self.rate)), self.rate)


class MlpKeepRate(Mlp):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__(dim, hidden_dim, 1 - drop)


class MlpDefaultRate(Mlp):
    def __init__(self, dim, hidden_dim, drop=0.1):
        super().__init__(dim, hidden_dim, drop)


class MlpTokenMask(Mlp):
    def forward(self, x):
        h = self.act(self.fc1(x))
        return self.drop(self.fc2(h * self.drop(torch.ones_like(h[..., :1]))))


class MlpColumnMask(Mlp):
    def forward(self, x):
        out = self.fc2(self.drop(self.act(self.fc1(x))))
        return out * self.drop(torch.ones(out.shape[-1]))


class MlpDropout2d(Mlp):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__(dim, hidden_dim)
        self.drop = nn.Dropout2d(drop)


class MlpPictureMask(Mlp):
    def forward(self, x):
        out = super().forward(x) if x.ndim < 3 else self.act(self.fc1(x))
        if x.ndim < 3:
            return out
        out = self.fc2(out * self.drop(torch.ones_like(out[:1])))
        return self.drop(out)


class MlpTokensShare(Mlp):
    def forward(self, x):
        out = self.fc2(self.drop(self.act(self.fc1(x))))
        return out * self.drop(torch.ones_like(out if x.ndim < 3 else out[:, :1]))


class MlpDetached(Mlp):
    def forward(self, x):
        return super().forward(x.detach())


class MlpOtherOrder(Mlp):
    def __init__(self, hidden_dim, dim, drop=0.0):
        super().__init__(dim, hidden_dim, drop)


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


class MlpFunctional(nn.Module):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, dim)
        self.rate = drop

    def forward(self, x):
        x = F.dropout(F.gelu(self.fc1(x)), self.rate, self.training)
        return F.dropout(self.fc2(x), self.rate, training=self.training)


class MlpErf(nn.Module):
    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1, self.drop1 = nn.Linear(dim, hidden_dim), nn.Dropout(drop)
        self.fc2, self.drop2 = nn.Linear(hidden_dim, dim), nn.Dropout(drop)

    def forward(self, x):
        x = self.fc1(x)
        x = 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
        return self.drop2(self.fc2(self.drop1(x)))


class MlpDropoutBeforeGelu(Mlp):
    def forward(self, x):
        return self.drop(self.fc2(self.act(self.drop(self.fc1(x)))))


class BlockPostNorm(Block):
    def forward(self, x):
        x = self.norm1(x + drop_path(self.attn(x), self.drop_path_rate, self.training))
        return self.norm2(x + drop_path(self.mlp(x), self.drop_path_rate, self.training))


class BlockNormedResidual(Block):
    def forward(self, x):
        x = self.norm1(x)
        x = x + drop_path(self.attn(x), self.drop_path_rate, self.training)
        x = self.norm2(x)
        return x + drop_path(self.mlp(x), self.drop_path_rate, self.training)


class BlockNormedAttention(Block):
    def forward(self, x):
        x = self.norm1(x)
        x = x + self.attn(x)
        return x + self.mlp(self.norm2(x))


class BlockSharedNorm(Block):
    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm1(x))


class BlockWithoutSecondNorm(Block):
    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(x)


class BlockWithoutFirstNorm(Block):
    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(self.norm2(x))


class BlockAttentionWithoutResidual(Block):
    def forward(self, x):
        x = self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class BlockMlpWithoutResidual(Block):
    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return self.mlp(self.norm2(x))


class BlockSwapped(Block):
    def forward(self, x):
        x = x + self.mlp(self.norm2(x))
        return x + self.attn(self.norm1(x))


class BlockParallel(Block):
    def forward(self, x):
        return x + self.attn(self.norm1(x)) + self.mlp(self.norm2(x))


class BlockAddsToInput(Block):
    def forward(self, x):
        y = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(y))


class BlockNormsBranch(Block):
    def forward(self, x):
        x = x + self.norm1(self.attn(x))
        return x + self.norm2(self.mlp(x))


class BlockHalf(Block):
    def forward(self, x):
        return x + drop_path(self.attn(self.norm1(x)), self.drop_path_rate, self.training)


class BlockWithoutDropPath(Block):
    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class BlockDropsAttentionOnly(Block):
    def forward(self, x):
        x = x + drop_path(self.attn(self.norm1(x)), self.drop_path_rate, self.training)
        return x + self.mlp(self.norm2(x))


class BlockDropsStream(Block):
    def forward(self, x):
        x = drop_path(x + self.attn(self.norm1(x)), self.drop_path_rate, self.training)
        return drop_path(x + self.mlp(self.norm2(x)), self.drop_path_rate, self.training)


class BlockDropsInEvaluation(Block):
    def forward(self, x):
        x = x + drop_path(self.attn(self.norm1(x)), self.drop_path_rate, True)
        return x + drop_path(self.mlp(self.norm2(x)), self.drop_path_rate, True)


class BlockOneDraw(Block):
    def forward(self, x):
        end = x + self.attn(self.norm1(x)) / (1 - self.drop_path_rate * self.training)
        end = end + self.mlp(self.norm2(end)) / (1 - self.drop_path_rate * self.training)
        gone = torch.rand(len(x), 1, 1) < self.drop_path_rate * self.training
        return torch.where(gone, x, end)


class BlockKeepRate(Block):
    def forward(self, x):
        x = x + drop_path(self.attn(self.norm1(x)), 1 - self.drop_path_rate, self.training)
        return x + drop_path(self.mlp(self.norm2(x)), 1 - self.drop_path_rate, self.training)


class BlockAlwaysHalf(Block):
    def forward(self, x):
        x = x + drop_path(self.attn(self.norm1(x)), 0.5, self.training)
        return x + drop_path(self.mlp(self.norm2(x)), 0.5, self.training)


class BlockBatchDraw(Block):
    def forward(self, x):
        x = x + stochastic_depth(self.attn(self.norm1(x)), self.drop_path_rate, "batch", self.training)
        return x + stochastic_depth(self.mlp(self.norm2(x)), self.drop_path_rate, "batch", self.training)


class BlockDropsPairs(Block):
    def forward(self, x):
        x = x + drop_pairs(self.attn(self.norm1(x)), self.drop_path_rate, self.training)
        return x + drop_pairs(self.mlp(self.norm2(x)), self.drop_path_rate, self.training)


class BlockUnscaled(Block):
    def forward(self, x):
        factor = 1 - self.drop_path_rate * self.training
        x = x + factor * drop_path(self.attn(self.norm1(x)), self.drop_path_rate, self.training)
        return x + factor * drop_path(self.mlp(self.norm2(x)), self.drop_path_rate, self.training)


class BlockSwappedRates(Block):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__(dim, num_heads, mlp_ratio, drop, attn_drop, drop_path)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=drop, proj_drop=attn_drop)


class BlockHidesRate(Block):
    def __init__(self, dim, num_heads, **options):
        super().__init__(dim, num_heads, **options)
        self.rate = self.drop_path_rate
        del self.drop_path_rate

    def forward(self, x):
        x = x + drop_path(self.attn(self.norm1(x)), self.rate, self.training)
        return x + drop_path(self.mlp(self.norm2(x)), self.rate, self.training)


class BlockDefaultEps(Block):
    def __init__(self, dim, num_heads, **options):
        super().__init__(dim, num_heads, **options)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)


class BlockWithoutDropout(Block):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__(dim, num_heads, mlp_ratio, 0.0, attn_drop, drop_path)


class BlockWithoutAttentionDropout(Block):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__(dim, num_heads, mlp_ratio, drop, 0.0, drop_path)


class BlockInPlace(Block):
    def forward(self, x):
        x += drop_path(self.attn(self.norm1(x)), self.drop_path_rate, self.training)
        return x + drop_path(self.mlp(self.norm2(x)), self.drop_path_rate, self.training)


class BlockDetached(Block):
    def forward(self, x):
        x = x.detach()
        return super().forward(x)


class BlockTwoLines(Block):
    def forward(self, x):
        x = x + drop_path(self.attn(self.norm1(x)), self.drop_path_rate, self.training)
        return x + drop_path(self.mlp(self.norm2(x)), self.drop_path_rate, self.training)


class BlockOtherKeyword(Block):
    def forward(self, x, weights=False):
        return super().forward(x, weights)


class BlockIgnoresAttention(BlockTwoLines):
    def forward(self, x, return_attention=False):
        return super().forward(x)


class BlockAlwaysPair(Block):
    def forward(self, x, return_attention=False):
        return super().forward(x, True)


class BlockSwappedPair(Block):
    def forward(self, x, return_attention=False):
        result = super().forward(x, return_attention)
        return result[::-1] if return_attention else result


class BlockAveragesHeads(Block):
    def forward(self, x, return_attention=False):
        if not return_attention:
            return super().forward(x)
        x, weights = super().forward(x, True)
        return x, weights.mean(dim=1)


class BlockAttendsTwice(BlockTwoLines):
    def forward(self, x, return_attention=False):
        if not return_attention:
            return super().forward(x)
        return super().forward(x), self.attn(self.norm1(x), return_attention=True)[1]


class BlockLateWeights(BlockTwoLines):
    def forward(self, x, return_attention=False):
        x = super().forward(x)
        return (x, self.attn(self.norm1(x), return_attention=True)[1]) if return_attention else x


class BlockTorchvision(Block):
    def forward(self, tokens, return_attention=False):
        branch = self.attn(self.norm1(tokens), return_attention=return_attention)
        branch, weights = branch if return_attention else (branch, None)
        tokens = tokens + stochastic_depth(branch, self.drop_path_rate, "row", self.training)
        tokens = tokens + stochastic_depth(
            self.mlp(self.norm2(tokens)), self.drop_path_rate, "row", self.training
        )
        return (tokens, weights) if return_attention else tokens


class BlockBranches(Block):
    def forward(self, x, return_attention=False):
        kept = []

        def attend(normed):
            if not return_attention:
                return self.attn(normed)
            out, weights = self.attn(normed, True)
            kept.append(weights)
            return out

        for norm, branch in ((self.norm1, attend), (self.norm2, self.mlp)):
            x = drop_path(branch(norm(x)), self.drop_path_rate, self.training) + x
        return (x, *kept) if return_attention else x


class BlockFromNothing(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = MultiHeadAttention(dim, num_heads, True, attn_drop, drop)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)
        self.drop_path_rate = drop_path

    def forward(self, x, return_attention=False):
        residual = x
        x, weights = self.attn(self.norm1(x), return_attention=True)
        x = drop_path(x, self.drop_path_rate, self.training) + residual
        residual = x
        x = drop_path(self.mlp(self.norm2(x)), self.drop_path_rate, self.training) + residual
        if return_attention:
            return x, weights
        return x


WRONG = {
    "layer_norm": [
        ("divides by D, not by D - 1", norm_unbiased),
        ("eps belongs inside the root", norm_eps_outside),
        ("eps is missing", norm_without_eps),
        ("does not use the argument `eps`", norm_fixed_eps),
        ("does not use the argument `eps`", norm_default_eps),
        ("the default of `eps` should be 1e-6", norm_other_default),
        ("view size is not compatible", norm_views),
        ("on x of shape (6,)", norm_needs_two_axes),
        ("you average over the tokens", norm_over_tokens),
        ("you average over axis 1", norm_axis_one),
        ("you average over the batch", norm_over_batch),
        ("one mean over everything", norm_over_all),
        ("`weight` and `bias` are not used", norm_without_weights),
        ("`bias` is not added", norm_without_bias),
        ("you divide by the variance", norm_divides_by_variance),
        ("the mean is not subtracted", norm_not_centred),
        ("`keepdim=True`", norm_without_keepdim),
        ("the gradient of `x` is not", norm_detached),
        ("no gradient reaches `weight`", norm_new_parameters),
        ("no gradient reaches `weight`", norm_data),
        ("changes its input in place", norm_in_place),
    ],
    "drop_path": [
        ("you drop single numbers", drop_elements),
        ("you drop single tokens", drop_tokens),
        ("one decision for the whole batch", drop_batch),
        ("are not scaled", drop_unscaled),
        ("probability of *dropping*", drop_swapped),
        ("by rate; divide by 1 - rate", drop_divides_by_rate),
        ("you multiply the branches that stay", drop_multiplies),
        ("drop path is active in evaluation", drop_in_evaluation),
        ("outside training you scale", drop_scaled_in_evaluation),
        ("nothing is ever dropped", drop_nothing),
        ("two calls drop the same pictures", drop_the_first),
        ("draw for every picture by itself", drop_exact_number),
        ("picture 1 is dropped whenever picture 0 is", drop_pairs),
        ("picture 1 is dropped whenever picture 0 is", drop_tens),
        ("picture 16 is dropped whenever picture 0 is", drop_halves),
        ("picture 1 is kept whenever picture 0 is", drop_other_of_pair),
        ("Do not drop pictures in groups", drop_random_pairs),
        ("Do not drop a fixed number", drop_rounded_number),
        ("the third argument is called `training`", drop_other_keyword),
        ("two calls drop the same pictures", drop_seeded),
        ("the shape should be (200, 2)", drop_three_axes),
        ("device=x.device", drop_on_cpu),
        ("gradients do not come through", drop_detached),
        ("the numbers should stay torch.float32", drop_float64),
        ("a dropped branch should be 0", drop_nan),
    ],
    "Mlp": [
        ("this is ReLU", MlpRelu),
        ("tanh approximation", MlpTanhGelu),
        ("there is no activation", MlpLinear),
        ("an activation follows fc2 too", MlpTwoActivations),
        ("the activation is at the end", MlpActivationLast),
        ("the residual is the block's business", MlpResidual),
        ("in training nothing is dropped", MlpNoDropout),
        ("dropout after fc2 is missing", MlpDropoutInside),
        ("dropout in the middle is missing", MlpDropoutAtEnd),
        ("and nowhere else", MlpDropsInput),
        ("dropout is active in evaluation", MlpDropsInEvaluation),
        ("right in evaluation, but in training", MlpKeepRate),
        ("right in evaluation, but in training", MlpDefaultRate),
        ("all numbers of a token share one draw", MlpTokenMask),
        ("one dropout of rate `drop` in the middle", MlpColumnMask),
        ("all numbers of a token share one draw", MlpDropout2d),
        ("two pictures share one draw", MlpPictureMask),
        ("two tokens share one draw", MlpTokensShare),
        ("no gradient reaches", MlpDetached),
        ("the arguments stand in another order", MlpOtherOrder),
        ("no weights named fc1.weight", MlpOtherNames),
        ("fc1.weight should be (3, 2)", MlpFixedWidth),
    ],
    "Block": [
        ("that is post-norm", BlockPostNorm),
        ("add the branch to the *normed* tokens", BlockNormedResidual),
        ("(in the attention half)", BlockNormedAttention),
        ("norm1 is used twice", BlockSharedNorm),
        ("norm2 is missing in front of it", BlockWithoutSecondNorm),
        ("norm1 is missing in front of it", BlockWithoutFirstNorm),
        ("attention has no residual", BlockAttentionWithoutResidual),
        ("the MLP has no residual", BlockMlpWithoutResidual),
        ("MLP and attention are swapped", BlockSwapped),
        ("from before attention", BlockParallel),
        ("you add to the input of the block", BlockAddsToInput),
        ("you norm what a branch writes", BlockNormsBranch),
        ("equation 3, is missing", BlockHalf),
        ("drop path is not used", BlockWithoutDropPath),
        ("the MLP branch does not go through `drop_path`", BlockDropsAttentionOnly),
        ("not the sum with the stream", BlockDropsStream),
        ("pass it self.training", BlockDropsInEvaluation),
        ("the two branches share one draw", BlockOneDraw),
        ("changes its input in place", BlockInPlace),
        ("no gradient reaches", BlockDetached),
        ("right in evaluation, but in training", BlockKeepRate),
        ("right in evaluation, but in training", BlockAlwaysHalf),
        ("each picture has its own draw", BlockBatchDraw),
        ("lose the attention branch together", BlockDropsPairs),
        ("is not divided by 1 - rate", BlockUnscaled),
        ("`drop` and `attn_drop` are swapped", BlockSwappedRates),
        ("`self.drop_path_rate` should hold the rate", BlockHidesRate),
        ("the eps of norm1 is 1e-05", BlockDefaultEps),
        ("`drop` does not reach self.attn", BlockWithoutDropout),
        ("`attn_drop` does not reach self.attn", BlockWithoutAttentionDropout),
        ("the second argument of forward is called `return_attention`", BlockTwoLines),
        ("the second argument of forward is called `return_attention`", BlockOtherKeyword),
        ("`return_attention` is forgotten", BlockIgnoresAttention),
        ("you always return the weights", BlockAlwaysPair),
        ("first the tokens, then the weights", BlockSwappedPair),
        ("each head's own are wanted", BlockAveragesHeads),
        ("attention runs 2 times", BlockAttendsTwice),
        ("the weights come from the result of the block", BlockLateWeights),
    ],
}
RIGHT = {
    "layer_norm": [norm_functional, norm_squares, norm_group, norm_loop],
    "drop_path": [drop_torchvision, drop_timm, drop_loop, drop_index],
    "Mlp": [MlpFunctional, MlpErf, MlpDropoutBeforeGelu],
    "Block": [BlockTorchvision, BlockBranches, BlockFromNothing],
}
