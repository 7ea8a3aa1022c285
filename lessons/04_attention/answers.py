"""Answers to the exercises of lesson 04, written as students write them."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vit_course.attention import MultiHeadAttention, check_heads, merge_heads, split_heads
from vit_course.attention import scaled_dot_product_attention as attend
from vit_course.classroom.checks import lesson_part

checks = lesson_part("04_attention", "checks")
Steps, steps, drop_by = checks.Steps, checks.steps, checks.drop_by


def sdpa_halves(q, k, v):
    weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) / 2
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


def sdpa_transposed_from_front(q, k, v):
    scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return weights @ v, weights


def sdpa_detached(q, k, v):
    return attend(q.detach(), k.detach(), v)


def sdpa_detached_weights(q, k, v):
    output, weights = attend(q, k, v)
    return output, weights.detach()


def sdpa_no_softmax(q, k, v):
    weights = q @ k.mT / math.sqrt(q.shape[-1])
    return weights @ v, weights


def sdpa_by_hand(q, k, v):
    scores = (q / q.shape[-1] ** 0.5) @ k.mT
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return weights.matmul(v), weights


def sdpa_fused(query, key, value):
    identity = torch.eye(key.shape[-2], dtype=key.dtype).expand(*key.shape[:-2], -1, -1)
    weights = F.scaled_dot_product_attention(query, key, identity)
    return F.scaled_dot_product_attention(query, key, value), weights


def split_transposed(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    return rearrange(x, "b t (h d) -> b h d t", h=num_heads)


def split_detached(x, num_heads):
    return split_reshape(x.detach(), num_heads)


def split_reshape(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    return x.reshape(x.shape[0], x.shape[1], num_heads, x.shape[2] // num_heads).transpose(1, 2)


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


class FusedWhenPossible(MultiHeadAttention):
    def forward(self, x, return_attention=False):
        q, k, v = rearrange(self.qkv(x), "b t (n h d) -> n b h t d", n=3, h=self.num_heads)
        rate = self.attn_drop if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, dropout_p=rate)
        weights = attend(q, k, v)[1] if return_attention else None
        out = self.proj_drop(self.proj(rearrange(heads, "b h t d -> b t (h d)")))
        return (out, weights) if return_attention else out


def on_input(change):
    """Return a layer that changes its input first."""

    def forward(self, x, return_attention=False):
        return Steps.forward(self, change(x), return_attention)

    return steps(forward=forward)


def detached_keys(self, qkv):
    q, k, v = Steps.cut(self, qkv)
    return q, k.detach(), v


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


def split_heads_mixes_pictures(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    b, t, d = x.shape
    slices = rearrange(x, "b t (h d) -> h b t d", h=num_heads)
    return slices.reshape(b, num_heads, t, d // num_heads)


def split_heads_unfold(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    d = x.shape[-1] // num_heads
    return x.unfold(2, d, d).swapaxes(1, 2)


def merge_heads_along_tokens(x):
    return torch.cat(x.unbind(1), dim=1)


def merge_heads_mixes_pictures(x):
    b, h, t, d = x.shape
    return x.permute(2, 0, 1, 3).reshape(b, t, h * d)


def merge_heads_first_head(x):
    return x[:, 0]


def merge_heads_interleaved_and_squeezed(x):
    return rearrange(x, "b h t d -> b t (d h)").squeeze(0)


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


def split_for_bmm(x: Tensor, num_heads: int) -> Tensor:
    check_heads(x.shape[-1], num_heads)
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).flatten(0, 1)


def split_keys_turned(x: Tensor, num_heads: int) -> Tensor:
    check_heads(x.shape[-1], num_heads)
    return x.unflatten(-1, (num_heads, -1)).permute(0, 2, 3, 1)


DISSECTED = (
    "the softmax runs over axis 1, right only for two axes",
    attention_softmax_of_axis_one,
)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "scaled_dot_product_attention": [
        ("value 1 of 2: every number is half what it should be", sdpa_halves),
        ("view size is not compatible", sdpa_views),
        ("(the cases before are right)", sdpa_up_to_four_axes),
        ("your code stopped with IndexError", sdpa_transposed_from_front),
        ("no gradient reaches `q`", sdpa_detached),
        ("on the second result, the weights", sdpa_detached_weights),
        ("you returned", sdpa_no_softmax),
        ("value 2 of 2: each query sees the keys up to its own place alone, as", attention_causal),
        ("two calls on the same input give different results: something is", attention_drops_weights),
        ("value 2 of 2: a division by the sum is missing, over the keys", attention_one_softmax_for_all),
        (
            "value 2 of 2: your numbers sum to 1 over the queries; they should do",
            attention_over_queries_unscaled,
        ),
    ],
    "split_heads": [
        ("you swapped the axes of the tokens and of the numbers of a head", split_transposed),
        ("no gradient reaches `x`", split_detached),
        ("your numbers stand in the order (heads, pictures, tokens, numbers of", split_heads_mixes_pictures),
        ("the axes of the pictures and of the heads are joined into one; they", split_for_bmm),
        ("you swapped the axes of the tokens and of the numbers of a head", split_keys_turned),
    ],
    "merge_heads": [
        ("view size is not compatible", merge_view),
        ("the shape should be (2, 5, 6)", merge_batch_of_one),
        ("no gradient reaches `x`", merge_detached),
        ("with inputs or weights that learn your code stopped", merge_numpy),
        ("your result has the shape (B, T·h, d), and (B, T, D) is wanted", merge_heads_along_tokens),
        ("your numbers stand in the order (tokens, pictures, numbers of a", merge_heads_mixes_pictures),
        ("your result is the first entry of `x` along axis 1, the heads", merge_heads_first_head),
        ("the shape should be (1, 2, 4)", merge_heads_interleaved_and_squeezed),
    ],
    "MultiHeadAttention": [
        ("right in evaluation, but in training", drop_by(lambda self: 1 - self.attn_drop)),
        ("right in evaluation, but in training", drop_by(lambda self: 0.5)),
        ("view size is not compatible", on_input(lambda x: x.view(-1, x.shape[-1]).view(x.shape))),
        ("no gradient reaches", on_input(lambda x: x.detach())),
        ("no gradient reaches", steps(cut=lambda self, qkv: Steps.cut(self, qkv.detach()))),
        ("but the gradient of", steps(cut=detached_keys)),
        ("but the gradient of", steps(drop=lambda self, weights: weights.detach())),
        ("no weights named qkv.weight", OtherNames),
    ],
}
RIGHT = {
    "scaled_dot_product_attention": [
        sdpa_by_hand,
        sdpa_fused,
    ],
    "split_heads": [split_reshape, split_heads_unfold],
    "merge_heads": [merge_cat, merge_transpose],
    "MultiHeadAttention": [FusedWhenPossible, AttentionTimm],
}
