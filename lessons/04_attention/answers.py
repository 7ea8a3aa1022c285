"""Answers to the exercises of lesson 04, written as students write them."""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vit_classroom.checks import lesson_part
from vit_classroom.checks.edits import edited
from vit_classroom.exhibits.heads import attend_in_heads
from vit_course.attention import MultiHeadAttention, check_heads, merge_heads, split_heads
from vit_course.attention import scaled_dot_product_attention as attend

Plain = lesson_part("04_attention", "checks").Plain


def weighing(weigh):
    """Return an attention that makes its weights of the scores in this way."""

    def answer(q, k, v):
        weights = weigh(q @ k.mT / q.shape[-1] ** 0.5)
        return weights @ v, weights

    return answer


def viewed(x):
    return x.view(-1, x.shape[-1]).view(x.shape)


def mixed(x):
    return x.transpose(0, 1).reshape(x.shape)


def attention_softmax_of_axis_one(q, k, v):
    weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(dim=1)
    return weights @ v, weights


def sdpa_by_hand(q, k, v):
    scores = (q / q.shape[-1] ** 0.5) @ k.mT
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return weights.matmul(v), weights


def sdpa_fused(query, key, value):
    identity = torch.eye(key.shape[-2]).to(key).expand(*key.shape[:-2], -1, -1)
    weights = F.scaled_dot_product_attention(query, key, identity)
    return F.scaled_dot_product_attention(query, key, value), weights


def split_reshape(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    return x.reshape(x.shape[0], x.shape[1], num_heads, x.shape[2] // num_heads).transpose(1, 2)


def split_heads_unfold(x, num_heads):
    check_heads(x.shape[-1], num_heads)
    d = x.shape[-1] // num_heads
    return x.unfold(2, d, d).swapaxes(1, 2)


def on_input(change):
    """Return a layer that changes its input first."""

    def forward(self, x, return_attention=False):
        return Plain.forward(self, change(x), return_attention)

    return type("MultiHeadAttention", (Plain,), {"forward": forward})


FIRST_MATRIX = "F.linear(merged, vars(self).setdefault('first', self.proj.weight.clone()), self.proj.bias)"


class OtherNames(nn.Module):
    def __init__(self, dim, num_heads, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.h, self.proj = num_heads, nn.Linear(dim, dim)
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=qkv_bias) for _ in range(3))

    def forward(self, x, return_attention=False):
        out, weights = attend(*(split_heads(f(x), self.h) for f in (self.to_q, self.to_k, self.to_v)))
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


class WithoutDropout(MultiHeadAttention):
    """As the lesson asks for it."""

    def forward(self, x, return_attention=False):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        heads, weights = attend_in_heads(q, k, v, self.num_heads)
        out = self.proj(heads)
        return (out, weights) if return_attention else out


def in_heads_by_einops(q, k, v, num_heads):
    q, k, v = (rearrange(part, "b t (h d) -> b h t d", h=num_heads) for part in (q, k, v))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)
    return rearrange(weights @ v, "b h t d -> b t (h d)"), weights


def in_heads_one_by_one(q, k, v, num_heads):
    d = q.shape[-1] // num_heads
    results = [attend(*parts) for parts in zip(*(x.split(d, dim=-1) for x in (q, k, v)), strict=True)]
    return torch.cat([out for out, _ in results], dim=-1), torch.stack([w for _, w in results], dim=1)


class AttentionTimm(MultiHeadAttention):
    """One reshape for all three, as in timm."""

    def forward(self, x, return_attention=False):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = ((q * (C // self.num_heads) ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1)
        y = F.dropout(attn, p=self.attn_drop, training=self.training) @ v
        y = self.proj_drop(self.proj(y.transpose(1, 2).reshape(B, N, C)))
        return (y, attn) if return_attention else y


DISSECTED = ("the softmax runs over axis 1, right only for two axes", attention_softmax_of_axis_one)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "scaled_dot_product_attention": [
        ("value 1 of 2: every number is half what it should be", weighing(lambda s: s.softmax(-1) / 2)),
        ("view size is not compatible", lambda *case: attend(*map(viewed, case))),
        ("(the cases before are right)", edited(attend, "q.shape[-1] => q.shape[min(q.ndim - 1, 3)]")),
        ("your code stopped with IndexError", edited(attend, ".transpose(-2, -1) => .transpose(2, 3)")),
        ("no gradient reaches `q`", lambda q, k, v: attend(q.detach(), k.detach(), v)),
        ("on the second result, the weights", lambda *case: (attend(*case)[0], attend(*case)[1].detach())),
        ("you returned", weighing(lambda s: s)),
        (
            "two calls on the same input give different results: something is",
            weighing(lambda s: F.dropout(s.softmax(-1), 0.1)),
        ),
        (
            "value 2 of 2: a division by exactly the sum is missing, over the keys",
            weighing(lambda s: s.flatten(-2).softmax(-1).reshape(s.shape)),
        ),
        (
            "value 2 of 2: your numbers sum to 1 over the queries; they should do",
            edited(attend, "* q.shape[-1] ** -0.5 => ;; dim=-1 => dim=-2"),
        ),
    ],
    "split_heads": [
        (
            "you swapped the axes of the tokens and of the numbers of a head",
            edited(split_heads, "b h t d => b h d t"),
        ),
        ("no gradient reaches `x`", lambda x, num_heads: split_heads(x.detach(), num_heads)),
        (
            "your numbers stand in the order (heads, pictures, tokens, numbers of",
            lambda x, num_heads: mixed(split_heads(x, num_heads)),
        ),
        (
            "the axes of the pictures and of the heads are joined into one; they",
            lambda x, num_heads: split_heads(x, num_heads).flatten(0, 1),
        ),
    ],
    "merge_heads": [
        ("`view` needs numbers in memory", lambda x: x.transpose(1, 2).view(len(x), x.shape[2], -1)),
        ("your new tensor lies on the CPU", lambda x: torch.zeros(1, dtype=x.dtype) + merge_heads(x)),
        ("the shape should be (2, 5, 6)", lambda x: merge_heads(x[:1])),
        ("no gradient reaches `x`", lambda x: merge_heads(x.data)),
        ("right in float32, but not in float64", lambda x: merge_heads(x).float()),
        (
            "numpy computes on the CPU alone",
            lambda x: merge_heads(torch.from_numpy(x.numpy())),
        ),
        ("your result has the shape (B, T·h, d), and (B, T, D) is wanted", lambda x: x.flatten(1, 2)),
        ("your numbers stand in the order (tokens, pictures, numbers of a", lambda x: mixed(merge_heads(x))),
        ("your result is the first entry of `x` along axis 1, the heads", lambda x: x[:, 0]),
        ("the shape should be (1, 2, 4)", lambda x: rearrange(x, "b h t d -> b t (d h)").squeeze(0)),
    ],
    "attend_in_heads": [
        (
            "no gradient reaches `q`",
            lambda q, k, v, num_heads: attend_in_heads(q.detach(), k, v, num_heads),
        ),
    ],
    "MultiHeadAttention": [
        ("right in evaluation, but in training", edited(Plain, "self.attn_drop, => 1 - self.attn_drop,")),
        ("right in evaluation, but in training", edited(Plain, "self.attn_drop, => 0.5,")),
        ("view size is not compatible", on_input(viewed)),
        ("your code stopped with TypeError: split_heads() got", on_input(lambda x: split_heads(x, heads=2))),
        ("no gradient reaches", on_input(Tensor.detach)),
        ("no gradient reaches", edited(Plain, "self.qkv(x) => self.qkv(x).detach()")),
        ("but the gradient of", edited(Plain, "k.mT => k.detach().mT")),
        (
            "but the gradient of",
            edited(Plain, "F.dropout(weights, self.attn_drop, self.training) => weights.detach()"),
        ),
        ("no weights named qkv.weight", OtherNames),
        (
            "right, but not in a second call, with other weights",
            edited(Plain, f"self.proj(merged) => {FIRST_MATRIX}"),
        ),
    ],
}
RIGHT = {
    "scaled_dot_product_attention": [sdpa_by_hand, sdpa_fused],
    "split_heads": [split_reshape, split_heads_unfold],
    "merge_heads": [lambda x: torch.cat(x.unbind(dim=1), dim=-1), lambda x: x.transpose(1, 2).flatten(2)],
    "attend_in_heads": [in_heads_by_einops, in_heads_one_by_one],
    "MultiHeadAttention": [WithoutDropout, Plain, FusedWhenPossible, AttentionTimm],
}
