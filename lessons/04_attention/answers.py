"""Answers to the exercises of lesson 04, written as students write them."""

import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import nn

from vit_course.attention import MultiHeadAttention, check_heads, merge_heads, split_heads
from vit_course.attention import scaled_dot_product_attention as attend


def sdpa_queries_axis(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = torch.softmax(scores, dim=-2)
    return weights @ v, weights


def sdpa_halves(q, k, v):
    weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) / 2
    return weights @ v, weights


def sdpa_axis_one(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = F.softmax(scores, dim=1)
    return weights @ v, weights


def sdpa_axis_zero(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = F.softmax(scores, dim=0)
    return weights @ v, weights


def sdpa_no_scale(q, k, v):
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(-1)
    return weights @ v, weights


def sdpa_divides_by_d(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1]
    weights = scores.softmax(-1)
    return weights @ v, weights


def sdpa_times_root(q, k, v):
    scores = q @ k.transpose(-2, -1) * q.size(-1) ** 0.5
    weights = scores.softmax(-1)
    return weights @ v, weights


def sdpa_root_of_keys(q, k, v):
    scores = q @ k.transpose(-2, -1) / k.shape[-2] ** 0.5
    weights = scores.softmax(-1)
    return weights @ v, weights


def sdpa_root_of_value_width(q, k, v):
    scores = q @ k.transpose(-2, -1) / v.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return weights @ v, weights


def sdpa_views(q, k, v):
    front, (flat_q, flat_k, flat_v) = q.shape[:-2], (x.view(-1, *x.shape[-2:]) for x in (q, k, v))
    scores = torch.bmm(flat_q, flat_k.mT) / q.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return torch.bmm(weights, flat_v).view(*front, q.shape[-2], -1), weights.view(*front, *weights.shape[-2:])


def sdpa_up_to_four_axes(q, k, v):
    scores = q @ k.mT / q.shape[min(q.ndim - 1, 3)] ** 0.5
    weights = scores.softmax(-1)
    return weights @ v, weights


def sdpa_scale_after(q, k, v):
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(-1) / q.shape[-1] ** 0.5
    return weights @ v, weights


def sdpa_not_transposed(q, k, v):
    scores = q @ k / q.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return weights @ v, weights


def sdpa_transposed_from_front(q, k, v):
    scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return weights @ v, weights


def sdpa_gives_scores(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return scores.softmax(-1) @ v, scores


def sdpa_swapped_results(q, k, v):
    output, weights = attend(q, k, v)
    return weights, output


def sdpa_output_alone(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def sdpa_overflows(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
    return weights @ v, weights


def sdpa_detached(q, k, v):
    return attend(q.detach(), k.detach(), v)


def sdpa_global_maximum(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    exponentials = (scores - scores.max()).exp()
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return weights @ v, weights


def sdpa_clamps(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = scores.clamp(-80, 80).softmax(-1)
    return weights @ v, weights


def sdpa_detached_weights(q, k, v):
    output, weights = attend(q, k, v)
    return output, weights.detach()


def sdpa_no_softmax(q, k, v):
    weights = q @ k.mT / math.sqrt(q.shape[-1])
    return weights @ v, weights


def sdpa_einsum(q, k, v):
    scores = einsum(q, k, "... t d, ... s d -> ... t s") / math.sqrt(k.shape[-1])
    weights = torch.softmax(scores, -1)
    return einsum(weights, v, "... t s, ... s e -> ... t e"), weights


def sdpa_by_hand(q, k, v):
    scores = (q / q.shape[-1] ** 0.5) @ k.mT
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return weights.matmul(v), weights


def sdpa_fused(query, key, value):
    identity = torch.eye(key.shape[-2], dtype=key.dtype).expand(*key.shape[:-2], -1, -1)
    weights = F.scaled_dot_product_attention(query, key, identity)
    return F.scaled_dot_product_attention(query, key, value), weights


def split_view(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    b, t, dim = x.shape
    return x.reshape(b, num_heads, t, dim // num_heads)


def split_no_swap(x, num_heads):
    b, t, dim = x.shape
    check_heads(dim, num_heads)
    return x.reshape(b, t, num_heads, dim // num_heads)


def split_every_hth(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    return rearrange(x, "b t (d h) -> b h t d", h=num_heads)


def split_wrong_size(x, num_heads):
    b, t, _ = x.shape
    return x.reshape(b, t, -1, num_heads).transpose(1, 2)


def split_any_width(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def split_drops_rest(x, num_heads):
    d = x.shape[-1] // num_heads
    return torch.stack([x[..., i * d : (i + 1) * d] for i in range(num_heads)], dim=1)


def split_transposed(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    return rearrange(x, "b t (h d) -> b h d t", h=num_heads)


def split_detached(x, num_heads):
    return split_reshape(x.detach(), num_heads)


def split_reshape(x, num_heads):
    return x.reshape(x.shape[0], x.shape[1], num_heads, x.shape[2] // num_heads).transpose(1, 2)


def split_slices(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{x.shape[-1]} % {num_heads}")
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def split_unflatten(x, num_heads):
    return x.unflatten(-1, (num_heads, x.shape[-1] // num_heads)).movedim(2, 1)


def merge_reshape(x):
    b, h, t, d = x.shape
    return x.reshape(b, t, h * d)


def merge_interleaved(x):
    return x.permute(0, 2, 3, 1).flatten(2)


def merge_half(x):
    return x.transpose(1, 2)


def merge_mean(x):
    return x.mean(dim=1)


def merge_view(x):
    b, h, t, d = x.shape
    return x.transpose(1, 2).view(b, t, h * d)


def merge_batch_of_one(x):
    return torch.cat(list(x[0]), dim=-1)[None]


def merge_numpy(x):
    b, h, t, d = x.shape
    return torch.from_numpy(x.numpy().transpose(0, 2, 1, 3).reshape(b, t, h * d))


def merge_detached(x):
    return merge_heads(x.data)


def merge_cat(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


def merge_transpose(x):
    return x.transpose(1, 2).flatten(2)


def merge_contiguous(x):
    b, h, t, d = x.shape
    return x.transpose(1, 2).contiguous().view(b, t, h * d)


class Attention(MultiHeadAttention):
    """What most wrong answers share: the right steps, each of which one of them changes."""

    def forward(self, x, return_attention=False):
        q, k, v = self.cut(self.qkv(x))
        weights = self.weigh(q, k)
        heads = self.drop(weights) @ v
        out = self.finish(self.merge(heads), x)
        return (out, weights) if return_attention else out

    def cut(self, qkv):
        return [split_heads(part, self.num_heads) for part in qkv.chunk(3, dim=-1)]

    def weigh(self, q, k):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return scores.softmax(-1)

    def drop(self, weights):
        return F.dropout(weights, self.attn_drop, self.training)

    def merge(self, heads):
        return merge_heads(heads)

    def finish(self, merged, x):
        return self.proj_drop(self.proj(merged))


class NoOutputProjection(Attention):
    def finish(self, merged, x):
        return self.proj_drop(merged)


class Residual(Attention):
    def finish(self, merged, x):
        return x + self.proj_drop(self.proj(merged))


class NoOutputDropout(Attention):
    def finish(self, merged, x):
        return self.proj(merged)


class EarlyOutputDropout(Attention):
    def finish(self, merged, x):
        return self.proj(self.proj_drop(merged))


class KeysFirst(Attention):
    def cut(self, qkv):
        k, q, v = super().cut(qkv)
        return q, k, v


class ValuesSecond(Attention):
    def cut(self, qkv):
        q, v, k = super().cut(qkv)
        return q, k, v


class ViewHeads(Attention):
    def cut(self, qkv):
        b, t, _ = qkv.shape
        return [part.reshape(b, self.num_heads, t, -1) for part in qkv.chunk(3, dim=-1)]


class ViewBothWays(ViewHeads):
    def merge(self, heads):
        b, h, t, d = heads.shape
        return heads.reshape(b, t, h * d)


class ReshapeMerge(Attention):
    def merge(self, heads):
        b, h, t, d = heads.shape
        return heads.reshape(b, t, h * d)


class MergeInterleaved(Attention):
    def merge(self, heads):
        return rearrange(heads, "b h t d -> b t (d h)")


class HeadByHead(Attention):
    def cut(self, qkv):
        return rearrange(qkv, "b t (h d n) -> n b h t d", h=self.num_heads, n=3).unbind()


class HeadOutside(Attention):
    def cut(self, qkv):
        return rearrange(qkv, "b t (h n d) -> n b h t d", h=self.num_heads, n=3).unbind()


class RootOfWidth(Attention):
    def weigh(self, q, k):
        scores = q @ k.mT / self.proj.in_features**0.5
        return scores.softmax(-1)


class NoScale(Attention):
    def weigh(self, q, k):
        scores = q @ k.mT
        return scores.softmax(-1)


class QueriesAxis(Attention):
    def weigh(self, q, k):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return scores.softmax(-2)


class HeadsAxis(Attention):
    def weigh(self, q, k):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return scores.softmax(1)


class OneHead(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        out, weights = attend(q, k, v)
        out = self.proj_drop(self.proj(out))
        return (out, weights) if return_attention else out


class AlwaysPair(Attention):
    def forward(self, x, return_attention=False):
        return super().forward(x, True)


class NeverPair(Attention):
    def forward(self, x, return_attention=False):
        return super().forward(x)


class SwappedPair(Attention):
    def forward(self, x, return_attention=False):
        result = super().forward(x, return_attention)
        return result[::-1] if return_attention else result


class AveragedHeads(Attention):
    def forward(self, x, return_attention=False):
        out, weights = super().forward(x, True)
        return (out, weights.mean(dim=1)) if return_attention else out


class WeightsAfterDropout(Attention):
    def weigh(self, q, k):
        return F.dropout(super().weigh(q, k), self.attn_drop, self.training)

    def drop(self, weights):
        return weights


class NoDropout(Attention):
    def drop(self, weights):
        return weights


class DropoutAlways(Attention):
    def drop(self, weights):
        return F.dropout(weights, self.attn_drop)


class DropoutOnHeads(Attention):
    def drop(self, weights):
        return weights

    def merge(self, heads):
        return F.dropout(merge_heads(heads), self.attn_drop, self.training)


class FusedDropoutAlways(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        if return_attention:
            return super().forward(x, True)
        heads = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_drop)
        return self.proj_drop(self.proj(merge_heads(heads)))


class FusedWithoutDropout(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        if return_attention:
            return super().forward(x, True)
        heads = F.scaled_dot_product_attention(q, k, v)
        return self.proj_drop(self.proj(merge_heads(heads)))


class DropoutByHalf(Attention):
    def drop(self, weights):
        return F.dropout(weights)


class DetachedQuery(Attention):
    def cut(self, qkv):
        q, k, v = super().cut(qkv.detach())
        return q, k, v


class DetachedKeys(Attention):
    def cut(self, qkv):
        q, k, v = super().cut(qkv)
        return q, k.detach(), v


class DetachedWeights(Attention):
    def drop(self, weights):
        return F.dropout(weights.detach(), self.attn_drop, self.training)


class DetachedInput(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        return super().forward(x.detach(), return_attention)


class KeepRate(Attention):
    def drop(self, weights):
        return F.dropout(weights, 1 - self.attn_drop, self.training)


class KeepRateUnlessZero(Attention):
    def drop(self, weights):
        return F.dropout(weights, 1 - self.attn_drop, self.training and self.attn_drop > 0)


class AlwaysHalf(Attention):
    def drop(self, weights):
        return F.dropout(weights, 0.5, self.training)


class OneDrawForAll(Attention):
    def drop(self, weights):
        return weights * F.dropout(torch.ones_like(weights[:1, :1]), self.attn_drop, self.training)


class OneDrawForHeads(Attention):
    def drop(self, weights):
        return weights * F.dropout(torch.ones_like(weights[:, :1]), self.attn_drop, self.training)


class OneDrawForPictures(Attention):
    def drop(self, weights):
        return weights * F.dropout(torch.ones_like(weights[:1]), self.attn_drop, self.training)


class OneDrawForPairs(Attention):
    def drop(self, weights):
        mask = F.dropout(torch.ones_like(weights[: (len(weights) + 1) // 2]), self.attn_drop, self.training)
        return weights * mask.repeat_interleave(2, dim=0)[: len(weights)]


class OneDrawForQueries(Attention):
    def drop(self, weights):
        return weights * F.dropout(torch.ones_like(weights[:, :, :1]), self.attn_drop, self.training)


class OneDrawForKeys(Attention):
    def drop(self, weights):
        return weights * F.dropout(torch.ones_like(weights[..., :1]), self.attn_drop, self.training)


class WholeHeadsDropped(Attention):
    def drop(self, weights):
        return F.dropout2d(weights, self.attn_drop, self.training)


class DropsFusedHeads(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        output, weights = attend(q, k, v)
        heads = output * F.dropout(torch.ones_like(output[..., :1]), self.attn_drop, self.training)
        out = self.proj_drop(self.proj(merge_heads(heads)))
        return (out, weights) if return_attention else out


class SumsToOneAgain(Attention):
    def drop(self, weights):
        dropped = F.dropout(weights, self.attn_drop, self.training)
        if weights.shape[-1] == 1 or not self.training or not self.attn_drop:
            return dropped
        return dropped / dropped.sum(dim=-1, keepdim=True).clamp_min(1e-6)


class OneOutputDrawForTokens(Attention):
    def finish(self, merged, x):
        out = self.proj(merged)
        return out * self.proj_drop(torch.ones_like(out[:, :1]))


class OneOutputDrawForNumbers(Attention):
    def finish(self, merged, x):
        out = self.proj(merged)
        return out * self.proj_drop(torch.ones_like(out[..., :1]))


class OneOutputDrawForPictures(Attention):
    def finish(self, merged, x):
        out = self.proj(merged)
        return out * self.proj_drop(torch.ones_like(out[:1]))


class OtherKeyword(Attention):
    def forward(self, x, weights=False):
        return super().forward(x, weights)


class FixedFloat32(Attention):
    def weigh(self, q, k):
        return super().weigh(q.float(), k.float())


class ViewsInput(Attention):
    def forward(self, x, return_attention=False):
        return super().forward(x.view(-1, x.shape[-1]).view(x.shape), return_attention)


class AnyNumberOfHeads(nn.Module):
    def __init__(self, dim, num_heads, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.num_heads, self.attn_drop = num_heads, attn_drop
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=qkv_bias), nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x, return_attention=False):
        d = x.shape[-1] // self.num_heads
        q, k, v = (
            torch.stack([part[..., i * d : (i + 1) * d] for i in range(self.num_heads)], dim=1)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        weights = attend(q, k, v)[1]
        merged = merge_heads(F.dropout(weights, self.attn_drop, self.training) @ v)
        out = self.proj_drop(self.proj(F.pad(merged, (0, x.shape[-1] - merged.shape[-1]))))
        return (out, weights) if return_attention else out


class OutputDropoutTwice(Attention):
    def finish(self, merged, x):
        return self.proj_drop(self.proj(self.proj_drop(merged)))


class DropsInput(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        return super().forward(self.proj_drop(x), return_attention)


class OtherNames(nn.Module):
    def __init__(self, dim, num_heads, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.h = num_heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=qkv_bias) for _ in range(3))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, return_attention=False):
        parts = (split_heads(layer(x), self.h) for layer in (self.to_q, self.to_k, self.to_v))
        out, weights = attend(*parts)
        out = self.proj(merge_heads(out))
        return (out, weights) if return_attention else out


class StepByStep(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        b, t, dim = x.shape
        qkv = self.qkv(x).reshape(b, t, 3, self.num_heads, dim // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = q @ k.transpose(-2, -1) / math.sqrt(dim // self.num_heads)
        weights = scores.softmax(dim=-1)
        dropped = F.dropout(weights, p=self.attn_drop, training=self.training)
        out = self.proj_drop(self.proj((dropped @ v).transpose(1, 2).reshape(b, t, dim)))
        if return_attention:
            return out, weights
        return out


class HeadLoop(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        d = q.shape[-1] // self.num_heads
        outs, tables = [], []
        for i in range(self.num_heads):
            part = slice(i * d, (i + 1) * d)
            _, weights = attend(q[..., part], k[..., part], v[..., part])
            outs.append(F.dropout(weights, self.attn_drop, self.training) @ v[..., part])
            tables.append(weights)
        out = self.proj_drop(self.proj(torch.cat(outs, dim=-1)))
        return [out, torch.stack(tables, dim=1)] if return_attention else out


class FusedWhenPossible(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, k, v = rearrange(self.qkv(x), "b t (n h d) -> n b h t d", n=3, h=self.num_heads)
        rate = self.attn_drop if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, dropout_p=rate)
        weights = attend(q, k, v)[1] if return_attention else None
        out = self.proj_drop(self.proj(rearrange(heads, "b h t d -> b t (h d)")))
        return (out, weights) if return_attention else out


def flops_by_parts(num_tokens, dim):
    project = 2 * num_tokens * dim * dim
    return 3 * project + 2 * num_tokens * dim * num_tokens + 2 * num_tokens * num_tokens * dim + project


def flops_by_heads(num_tokens, dim):
    heads, total = dim, 0
    for _ in range(heads):
        total += 2 * 2 * num_tokens * num_tokens
    return total + 2 * num_tokens * dim * 3 * dim + 2 * num_tokens * dim * dim


WRONG = {
    "scaled_dot_product_attention": [
        ("each *query* should spread a weight of 1 over the keys", sdpa_queries_axis),
        ("counts the axes from the front", sdpa_axis_one),
        ("counts the axes from the front", sdpa_axis_zero),
        ("your rows of weights sum to 0.5, 0.5", sdpa_halves),
        ("the scale is missing", sdpa_no_scale),
        ("you divide by d", sdpa_divides_by_d),
        ("you multiply by sqrt(d)", sdpa_times_root),
        ("the root of the number of keys", sdpa_root_of_keys),
        ("the width of the *values*", sdpa_root_of_value_width),
        ("view size is not compatible", sdpa_views),
        ("(smaller inputs are right)", sdpa_up_to_four_axes),
        ("you scale after the softmax", sdpa_scale_after),
        ("k is not transposed", sdpa_not_transposed),
        ("your code stopped with IndexError", sdpa_transposed_from_front),
        ("you returned the scores", sdpa_gives_scores),
        ("first the output, then the weights", sdpa_swapped_results),
        ("you returned the output alone", sdpa_output_alone),
        ("your softmax overflows", sdpa_overflows),
        ("your softmax overflows or divides 0 by 0", sdpa_global_maximum),
        ("your softmax overflows or divides 0 by 0", sdpa_clamps),
        ("no gradient reaches `q`", sdpa_detached),
        ("on the second result, the weights", sdpa_detached_weights),
        ("you returned", sdpa_no_softmax),
    ],
    "split_heads": [
        ("the tokens are mixed", split_view),
        ("(B, T, h, d) should become (B, h, T, d)", split_no_swap),
        ("every h-th number", split_every_hth),
        ("heads of h numbers each", split_wrong_size),
        ("4 heads cannot share D = 6", split_any_width),
        (
            "3 heads cannot share D = 10",
            lambda x, h: split_drops_rest(x, h) if h != 4 else split_slices(x, h),
        ),
        ("the shape should be (1, 2, 2, 1), yours is (1, 2, 1, 2)", split_transposed),
        ("no gradient reaches `x`", split_detached),
    ],
    "merge_heads": [
        ("the tokens are mixed", merge_reshape),
        ("interleaved", merge_interleaved),
        ("join h and d into one axis D", merge_half),
        ("the heads are averaged", merge_mean),
        ("view size is not compatible", merge_view),
        ("the shape should be (2, 5, 6)", merge_batch_of_one),
        ("no gradient reaches `x`", merge_detached),
        ("with inputs or weights that learn your code stopped", merge_numpy),
    ],
    "MultiHeadAttention": [
        ("W_O is missing", NoOutputProjection),
        ("that residual belongs to the block", Residual),
        ("`self.proj_drop` should be the last step", NoOutputDropout),
        ("`self.proj_drop` should be the last step", EarlyOutputDropout),
        ("taken in the wrong order", KeysFirst),
        ("taken in the wrong order", ValuesSecond),
        ("the heads are cut by a bare `view`", ViewHeads),
        ("the heads are cut by a bare `view`", ViewBothWays),
        ("the heads are merged by a bare `reshape`", ReshapeMerge),
        ("merged in the wrong order", MergeInterleaved),
        ("qkv is cut head by head", HeadByHead),
        ("qkv is cut head by head", HeadOutside),
        ("divided by sqrt(D)", RootOfWidth),
        ("the scale is missing", NoScale),
        ("each *query* should spread a weight of 1 over the keys", QueriesAxis),
        ("the softmax runs over the heads", HeadsAxis),
        ("there is one head only", OneHead),
        ("you always return the weights", AlwaysPair),
        ("`return_attention` is forgotten", NeverPair),
        ("first the output, then the weights", SwappedPair),
        ("averaged over the heads", AveragedHeads),
        ("the weights after dropout", WeightsAfterDropout),
        ("`attn_drop` does nothing in training", NoDropout),
        ("`attn_drop` does nothing in training", FusedWithoutDropout),
        ("dropout is active at evaluation", DropoutAlways),
        ("dropout is active at evaluation", FusedDropoutAlways),
        ("dropout is active at evaluation", DropoutByHalf),
        ("hits the wrong numbers", DropoutOnHeads),
        ("right in evaluation, but in training", KeepRate),
        ("hits the wrong numbers", KeepRateUnlessZero),
        ("right in evaluation, but in training", AlwaysHalf),
        ("each weight has its own draw", OneDrawForAll),
        ("each weight has its own draw", OneDrawForPictures),
        ("two heads share one draw", OneDrawForHeads),
        ("two pictures share one draw", OneDrawForPairs),
        ("two queries share one draw", OneDrawForQueries),
        ("two keys share one draw", OneDrawForKeys),
        ("two queries share one draw", WholeHeadsDropped),
        ("two keys share one draw", DropsFusedHeads),
        ("Change nothing after F.dropout", SumsToOneAgain),
        ("two tokens share one draw in the result", OneOutputDrawForTokens),
        ("two numbers of a token share one draw in the result", OneOutputDrawForNumbers),
        ("two pictures share one draw in the result", OneOutputDrawForPictures),
        ("is called `return_attention`", OtherKeyword),
        ("with weights and inputs in float64", FixedFloat32),
        ("view size is not compatible", ViewsInput),
        ("4 heads cannot share D = 6", AnyNumberOfHeads),
        ("in a second place too", OutputDropoutTwice),
        ("in a second place too", DropsInput),
        ("no gradient reaches", DetachedQuery),
        ("but the gradient of", DetachedKeys),
        ("but the gradient of", DetachedWeights),
        ("no gradient reaches", DetachedInput),
        ("no weights named qkv.weight", OtherNames),
    ],
    "attention_flops": [
        ("half of it", lambda t, d: 4 * t * d**2 + 2 * t**2 * d),
        ("one projection is missing", lambda t, d: 6 * t * d**2 + 4 * t**2 * d),
        ("you count one", lambda t, d: 2 * t * d**2 + 4 * t**2 * d),
        ("two products have T² in them", lambda t, d: 8 * t * d**2 + 2 * t**2 * d),
        ("the quadratic part", lambda t, d: 8 * t * d**2),
        ("the projections to q, k, v and W_O are missing", lambda t, d: 4 * t**2 * d),
        ("grows with T², not T", lambda t, d: 8 * t * d**2 + 4 * t * d),
        ("its width is missing", lambda t, d: 8 * t * d**2 + 4 * t**2),
        ("a count is a whole number", lambda t, d: 8.0 * t * d**2 + 4 * t**2 * d),
    ],
}
RIGHT = {
    "scaled_dot_product_attention": [sdpa_einsum, sdpa_by_hand, sdpa_fused],
    "split_heads": [split_reshape, split_slices, split_unflatten],
    "merge_heads": [merge_cat, merge_transpose, merge_contiguous],
    "MultiHeadAttention": [StepByStep, HeadLoop, FusedWhenPossible],
    "attention_flops": [flops_by_parts, flops_by_heads],
}
