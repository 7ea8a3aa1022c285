"""Answers to the exercises of lesson 04, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vit_course.attention import (
    MultiHeadAttention,
    check_heads,
    merge_heads,
    scaled_dot_product_attention,
    split_heads,
)


def attention_divided_by_width(q, k, v):
    weights = (q @ k.transpose(-2, -1) / q.shape[-1]).softmax(dim=-1)
    return weights @ v, weights


def attention_causal(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    past = torch.ones_like(scores, dtype=torch.bool).tril()
    weights = scores.masked_fill(~past, -math.inf).softmax(dim=-1)
    return weights @ v, weights


def attention_drops_weights(q, k, v):
    weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(dim=-1)
    weights = F.dropout(weights, 0.1)
    return weights @ v, weights


def attention_softmax_of_axis_one(q, k, v):
    weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(dim=1)
    return weights @ v, weights


def attention_one_softmax_for_all(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    weights = scores.flatten(-2).softmax(dim=-1).reshape(scores.shape)
    return weights @ v, weights


def attention_over_queries_unscaled(q, k, v):
    weights = (q @ k.transpose(-2, -1)).softmax(dim=-2)
    return weights @ v, weights


def attention_einsum(q, k, v):
    scores = torch.einsum("...td,...sd->...ts", q, k) / math.sqrt(q.size(-1))
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...ts,...se->...te", weights, v), weights


def attention_fused(q, k, v):
    weights = torch.softmax((q * q.shape[-1] ** -0.5) @ k.mT, -1)
    return F.scaled_dot_product_attention(q, k, v), weights


def attention_query_by_query(q, k, v):
    d = q.shape[-1]
    outputs, rows = [], []
    for t in range(q.shape[-2]):
        scores = (q[..., t : t + 1, :] * k).sum(-1) / d**0.5
        row = torch.softmax(scores, -1)
        rows.append(row)
        outputs.append((row.unsqueeze(-1) * v).sum(-2))
    return torch.stack(outputs, -2), torch.stack(rows, -2)


def attention_by_hand(q, k, v):
    fourth_root = q.shape[-1] ** 0.25
    scores = torch.matmul(q / fourth_root, (k / fourth_root).swapaxes(-1, -2))
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    total = powers.sum(-1, keepdim=True)
    return torch.matmul(powers, v) / total, powers / total


def split_heads_head_width(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    return rearrange(x, "b t (h d) -> b h t d", d=num_heads)


def split_heads_mixes_pictures(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    b, t, d = x.shape
    slices = rearrange(x, "b t (h d) -> h b t d", h=num_heads)
    return slices.reshape(b, num_heads, t, d // num_heads)


def split_heads_error_of_einops(x, num_heads):
    return rearrange(x, "b t (h d) -> b h t d", h=num_heads)


def split_heads_asserts(x, num_heads):
    b, t, d = x.shape
    assert d % num_heads == 0, "dim must be divisible by num_heads"
    return x.view(b, t, num_heads, d // num_heads).transpose(1, 2)


def split_heads_interleaved_unchecked(x, num_heads):
    d = x.shape[-1] // num_heads
    return torch.stack([x[..., i : num_heads * d : num_heads] for i in range(num_heads)], dim=1)


def split_heads_slices(x, num_heads):
    d, rest = divmod(x.shape[-1], num_heads)
    if rest:
        raise ValueError(f"{num_heads} heads do not divide {x.shape[-1]}")
    return torch.stack([x[..., i * d : (i + 1) * d] for i in range(num_heads)], dim=1)


def split_heads_permute(x, num_heads):
    B, T, D = x.shape
    if D % num_heads != 0:
        raise ValueError(f"D = {D} is not a multiple of h = {num_heads}")
    return x.reshape(B, T, num_heads, -1).permute(0, 2, 1, 3)


def split_heads_unfold(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    d = x.shape[-1] // num_heads
    return x.unfold(2, d, d).swapaxes(1, 2)


def split_heads_unflatten(x, num_heads):
    check_heads(x.size(2), num_heads)
    return x.unflatten(-1, (num_heads, -1)).movedim(-2, 1).contiguous()


def merge_heads_interleaved(x):
    return rearrange(x, "b h t d -> b t (d h)")


def merge_heads_along_tokens(x):
    return torch.cat(x.unbind(1), dim=1)


def merge_heads_mixes_pictures(x):
    b, h, t, d = x.shape
    return x.permute(2, 0, 1, 3).reshape(b, t, h * d)


def merge_heads_first_head(x):
    return x[:, 0]


def merge_heads_interleaved_and_squeezed(x):
    return rearrange(x, "b h t d -> b t (d h)").squeeze(0)


def merge_heads_cat(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


def merge_heads_permute(x):
    return x.permute(0, 2, 1, 3).flatten(start_dim=2)


def merge_heads_canvas(x):
    B, h, T, d = x.shape
    out = x.new_empty(B, T, h * d)
    for i in range(h):
        out[:, :, i * d : i * d + d] = x[:, i]
    return out


def merge_heads_contiguous(x):
    batch, heads, tokens, width = x.size()
    return x.transpose(1, 2).contiguous().view(batch, tokens, heads * width)


class AttentionNeverDropsWeights(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        heads, weights = scaled_dot_product_attention(q, k, v)
        out = self.proj_drop(self.proj(merge_heads(heads)))
        return (out, weights) if return_attention else out


class AttentionNeverReturnsWeights(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        _, weights = scaled_dot_product_attention(q, k, v)
        heads = F.dropout(weights, self.attn_drop, self.training) @ v
        return self.proj_drop(self.proj(merge_heads(heads)))


class AttentionAddsResidual(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        _, weights = scaled_dot_product_attention(q, k, v)
        heads = F.dropout(weights, self.attn_drop, self.training) @ v
        out = x + self.proj_drop(self.proj(merge_heads(heads)))
        return (out, weights) if return_attention else out


class AttentionDropsScores(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        weights = scores.softmax(dim=-1)
        heads = F.dropout(scores, self.attn_drop, self.training).softmax(dim=-1) @ v
        out = self.proj_drop(self.proj(merge_heads(heads)))
        return (out, weights) if return_attention else out


class AttentionValuesInTheMiddle(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, v, k = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        _, weights = scaled_dot_product_attention(q, k, v)
        heads = F.dropout(weights, self.attn_drop, self.training) @ v
        out = self.proj_drop(self.proj(merge_heads(heads)))
        return (out, weights) if return_attention else out


class AttentionTimm(MultiHeadAttention):
    """One reshape for all three, as in timm."""

    def forward(self, x, return_attention=False):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q * (C // self.num_heads) ** -0.5) @ k.transpose(-2, -1)
        attn = attn.softmax(dim=-1)
        y = F.dropout(attn, p=self.attn_drop, training=self.training) @ v
        y = self.proj_drop(self.proj(y.transpose(1, 2).reshape(B, N, C)))
        if return_attention:
            return y, attn
        return y


class AttentionHeadByHead(MultiHeadAttention):
    """Appendix A to the letter: every head on its own, then side by side."""

    def forward(self, x, return_attention=False):
        big_q, big_k, big_v = self.qkv(x).tensor_split(3, dim=2)
        d = x.shape[2] // self.num_heads
        found, tables = [], []
        for i in range(self.num_heads):
            own = slice(i * d, (i + 1) * d)
            q, k, v = big_q[..., own], big_k[..., own], big_v[..., own]
            table = torch.softmax(q @ k.mT / math.sqrt(d), dim=-1)
            tables.append(table)
            found.append(nn.functional.dropout(table, self.attn_drop, self.training) @ v)
        result = self.proj_drop(self.proj(torch.cat(found, dim=-1)))
        return (result, torch.stack(tables, dim=1)) if return_attention else result


class AttentionEinsum(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, k, v = rearrange(self.qkv(x), "b t (three h d) -> three b t h d", three=3, h=self.num_heads)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        weights = F.softmax(scores, dim=-1)
        dropped = F.dropout(weights, self.attn_drop, self.training)
        mixed = torch.einsum("bhqk,bkhd->bqhd", dropped, v).flatten(2)
        out = self.proj_drop(self.proj(mixed))
        return (out, weights) if return_attention else out


class AttentionBatchOfHeads(MultiHeadAttention):
    """Heads join the batch axis, and batched matrix products do the rest."""

    def forward(self, x, return_attention=False):
        h = self.num_heads
        q, k, v = (rearrange(p, "b t (h d) -> (b h) t d", h=h) for p in self.qkv(x).chunk(3, -1))
        scores = torch.bmm(q, k.transpose(1, 2)).mul(q.size(-1) ** -0.5)
        weights = scores.softmax(-1)
        used = F.dropout(weights, self.attn_drop) if self.training else weights
        out = rearrange(torch.bmm(used, v), "(b h) t d -> b t (h d)", h=h)
        out = self.proj_drop(self.proj(out))
        if not return_attention:
            return out
        return out, weights.unflatten(0, (-1, h))


def attend_value_width(q: Tensor, k: Tensor, v: Tensor):
    weights = (q @ k.mT / v.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ v, weights


def attend_plain_exp(q: Tensor, k: Tensor, v: Tensor):
    powers = torch.exp(q @ k.mT / q.shape[-1] ** 0.5)
    weights = powers / powers.sum(dim=-1, keepdim=True)
    return weights @ v, weights


def attend_returns_scores(q: Tensor, k: Tensor, v: Tensor):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ v, scores


def split_for_bmm(x: Tensor, num_heads: int) -> Tensor:
    check_heads(x.shape[-1], num_heads)
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).flatten(0, 1)


def split_keys_turned(x: Tensor, num_heads: int) -> Tensor:
    check_heads(x.shape[-1], num_heads)
    return x.unflatten(-1, (num_heads, -1)).permute(0, 2, 3, 1)


def split_strided(x: Tensor, num_heads: int) -> Tensor:
    check_heads(x.shape[-1], num_heads)
    return torch.stack([x[..., i::num_heads] for i in range(num_heads)], dim=1)


def merge_number_by_number(x: Tensor) -> Tensor:
    return torch.stack(x.unbind(1), dim=-1).flatten(2)


def merge_mean(x: Tensor) -> Tensor:
    return x.mean(dim=1)


def merge_contiguous(x: Tensor) -> Tensor:
    batch, heads, count, width = x.shape
    return x.contiguous().view(batch, count, heads * width)


class AttentionAveragesHeads(MultiHeadAttention):
    def forward(self, x: Tensor, return_attention: bool = False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        _, weights = scaled_dot_product_attention(q, k, v)
        dropped = F.dropout(weights, self.attn_drop, self.training)
        out = self.proj_drop(self.proj(merge_heads(dropped @ v)))
        return (out, weights.mean(dim=1)) if return_attention else out


class AttentionSplitsHeadsFirst(MultiHeadAttention):
    def forward(self, x: Tensor, return_attention: bool = False):
        q, k, v = split_heads(self.qkv(x), self.num_heads).chunk(3, dim=-1)
        _, weights = scaled_dot_product_attention(q, k, v)
        dropped = F.dropout(weights, self.attn_drop, self.training)
        out = self.proj_drop(self.proj(merge_heads(dropped @ v)))
        return (out, weights) if return_attention else out


class AttentionDropsBeforeProjecting(MultiHeadAttention):
    def forward(self, x: Tensor, return_attention: bool = False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        _, weights = scaled_dot_product_attention(q, k, v)
        dropped = F.dropout(weights, self.attn_drop, self.training)
        out = self.proj(self.proj_drop(merge_heads(dropped @ v)))
        return (out, weights) if return_attention else out


UNSEEN = {
    "scaled_dot_product_attention": [
        ("the softmax runs over axis 1, right only for two axes", attention_softmax_of_axis_one),
        ("divides by d and not by its root", attention_divided_by_width),
        ("a causal mask: no query sees a later key", attention_causal),
        ("drops weights at random", attention_drops_weights),
        ("one softmax over all queries and keys together", attention_one_softmax_for_all),
        ("no scale, and the softmax runs over the queries", attention_over_queries_unscaled),
        (
            "computes exp(score) without subtracting the maximum, so large scores overflow and the "
            "rows are nan and do not sum to 1",
            attend_plain_exp,
        ),
        (
            "divides by the root of the width e of the values and not of the width d of the queries, "
            "which differ when e is not d",
            attend_value_width,
        ),
        (
            "returns the scaled scores from before the softmax as the weights, so the rows do not sum to 1",
            attend_returns_scores,
        ),
    ],
    "split_heads": [
        ("num_heads is taken as the width of a head", split_heads_head_width),
        ("heads and pictures are mixed, right only for a batch of one", split_heads_mixes_pictures),
        ("no check: the error is one of einops and no ValueError", split_heads_error_of_einops),
        ("an assert and not a ValueError", split_heads_asserts),
        ("every h-th number, and a rest is cut off without an error", split_heads_interleaved_unchecked),
        (
            "gives head i the numbers i, i + h, i + 2h and so on, where head 0 should get the first d "
            "numbers",
            split_strided,
        ),
        (
            "joins batch and heads to one axis for torch.bmm, so it returns (B·h, T, d) with three axes",
            split_for_bmm,
        ),
        (
            "permutes to (B, h, d, T), turned as keys are for the product, where (B, h, T, d) is promised",
            split_keys_turned,
        ),
    ],
    "merge_heads": [
        ("the numbers of the heads alternate", merge_heads_interleaved),
        ("the heads are joined along the tokens", merge_heads_along_tokens),
        ("tokens and pictures are mixed, right only for a batch of one", merge_heads_mixes_pictures),
        ("only the first head is kept", merge_heads_first_head),
        ("the numbers alternate, and a batch of one loses its axis", merge_heads_interleaved_and_squeezed),
        (
            "calls contiguous and views (B, h, T, d) as (B, T, h·d) without exchanging h and T, so "
            "tokens are mixed",
            merge_contiguous,
        ),
        ("averages the heads as graph attention does in its last layer, so it returns (B, T, d)", merge_mean),
        (
            "stacks the heads on the last axis, so the numbers come as (d h) and the heads are interleaved",
            merge_number_by_number,
        ),
    ],
    "MultiHeadAttention": [
        ("the weights are never dropped", AttentionNeverDropsWeights),
        ("return_attention is ignored, no weights are returned", AttentionNeverReturnsWeights),
        ("the input is added to the output", AttentionAddsResidual),
        ("the dropout hits the scores before the softmax", AttentionDropsScores),
        ("qkv is cut in the order q, v, k", AttentionValuesInTheMiddle),
        (
            "applies proj_drop before proj and not after it, so in training no output number is ever "
            "set to zero",
            AttentionDropsBeforeProjecting,
        ),
        (
            "splits the 3D numbers into heads first and each head into q, k and v, Megatron's layout, "
            "which reads the wrong rows of the qkv layer when there is more than one head",
            AttentionSplitsHeadsFirst,
        ),
        (
            "averages the weights over the heads as nn.MultiheadAttention does, so they are (B, T, T) "
            "and not (B, h, T, T)",
            AttentionAveragesHeads,
        ),
    ],
}
STYLES = {
    "scaled_dot_product_attention": [
        attention_einsum,
        attention_fused,
        attention_query_by_query,
        attention_by_hand,
    ],
    "split_heads": [split_heads_slices, split_heads_permute, split_heads_unfold, split_heads_unflatten],
    "merge_heads": [merge_heads_cat, merge_heads_permute, merge_heads_canvas, merge_heads_contiguous],
    "MultiHeadAttention": [AttentionTimm, AttentionHeadByHead, AttentionEinsum, AttentionBatchOfHeads],
}
