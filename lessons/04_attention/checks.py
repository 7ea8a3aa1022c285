"""Checks of lesson 04: self-attention with many heads."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from vit_course import attention
from vit_course.classroom.checks.compare import compare, compare_gradients, compare_modules
from vit_course.classroom.checks.outcome import Mistake, build, first_of, outcome, spread_weights
from vit_course.classroom.checks.parts import check_float64, check_keyword, shared_draw
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import difference

WRONG_AXIS = (
    "the softmax runs over the wrong axis: each *query* should spread a weight of 1 over the keys: your columns "
    "sum to 1, not your rows"
)
FROM_THE_FRONT = (
    "softmax(dim=0) or (dim=1) counts the axes from the front, so it is right for some shapes alone; the keys are "
    "the last axis, whatever stands before it: -1"
)


def _attend(scale=lambda q, k, v: q.shape[-1] ** -0.5, axis=-1, scores=None, late=False, turn=None):
    """Build an attention with one or two things changed; the first defaults give the right one."""

    def function(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        raw, factor = q @ (turn(k) if turn else k.transpose(-2, -1)), scale(q, k, v)
        raw = raw if late else raw * factor
        weights = raw.softmax(dim=axis)
        weights = weights * factor if late else weights
        return weights @ v, raw if scores else weights

    return function


ATTEND_MISTAKES = [
    (_attend(axis=-2), WRONG_AXIS),
    *((_attend(axis=axis), FROM_THE_FRONT) for axis in (1, 0)),
    (
        _attend(lambda *_: 1.0),
        "the scale is missing: divide the scores by sqrt(d), else wide heads get peaked weights",
    ),
    (_attend(lambda q, k, v: 1 / q.shape[-1]), "you divide by d; it should be the root of d"),
    (_attend(lambda q, k, v: q.shape[-1] ** 0.5), "you multiply by sqrt(d); the scores are divided by it"),
    (
        _attend(lambda q, k, v: k.shape[-2] ** -0.5),
        "you divide by the root of the number of keys; it should be the width d, the last axis of q",
    ),
    (
        _attend(lambda q, k, v: v.shape[-1] ** -0.5),
        "you divide by the root of the width of the *values*; d is the width of queries and keys, the last axis of q",
    ),
    (
        _attend(late=True),
        "you scale after the softmax: the rows no longer sum to 1. Divide the scores before it",
    ),
    (
        _attend(turn=lambda k: k),
        "k is not transposed: score i, j is row i of q times *row* j of k, so q @ k.transpose(-2, -1)",
    ),
    (
        _attend(scores=True),
        "the second value should be the weights, after the softmax; you returned the scores",
    ),
    (lambda *a: attention.scaled_dot_product_attention(*a)[::-1], "first the output, then the weights"),
    (
        lambda *a: attention.scaled_dot_product_attention(*a)[0],
        "you returned the output alone; the weights are wanted too: `return output, weights`",
    ),
]


@exercise(attention.scaled_dot_product_attention)
def check_scaled_dot_product_attention(answer):
    small = tuple(
        torch.tensor(rows) for rows in ([[2.0, 0], [0, 4]], [[1.0, 0], [1, 1]], [[10.0, 0], [0, 20]])
    )
    cases = [
        small,
        (torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 2)),
        (*torch.randn(3, 2, 5, 8),),
        (*torch.randn(3, 2, 3, 4, 6),),
        (torch.randn(2, 3, 4, 8), torch.randn(2, 3, 6, 8), torch.randn(2, 3, 6, 5)),
        (*torch.randn(3, 4, 6).double(),),
        (*torch.randn(3, 2, 5, 3, 4).transpose(2, 3),),  # what split_heads returns: not contiguous
        (*torch.randn(3, 2, 1, 2, 5, 4),),
    ]
    try:
        compare(answer, attention.scaled_dot_product_attention, cases, ATTEND_MISTAKES)
    except Mistake as mistake:
        named = str(mistake) in (message for _, message in ATTEND_MISTAKES)
        raise mistake if named else Mistake(f"{mistake}{rows_astray(answer, small)}") from None
    large = (torch.tensor([[300.0, 0], [0, 1]]), torch.tensor([[10.0, 0], [9, 1]]), torch.eye(2))
    if difference(answer(*large), attention.scaled_dot_product_attention(*large)):
        raise Mistake(
            "with scores in the thousands your softmax overflows or divides 0 by 0: exp(89) is infinite in float32, "
            "exp(-110) is 0. Subtract the largest score of *each row* first, or use `.softmax(dim=-1)`, which does it"
        )
    inputs = (*torch.randn(3, 4, 6),)
    compare_gradients(answer, attention.scaled_dot_product_attention, inputs)
    of_weights = (_second(function) for function in (answer, attention.scaled_dot_product_attention))
    compare_gradients(*of_weights, inputs, "on the second result, the weights")


def rows_astray(answer: Callable, case: tuple) -> str:
    """Say what the rows of weights sum to where that is not 1, "" where it is or where there are no weights."""
    result = outcome(lambda function, *inputs: function(*inputs), answer, case)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Tensor):
        return ""
    sums = result[1].sum(dim=-1)
    if torch.allclose(sums, torch.ones_like(sums)):
        return ""
    rows = ", ".join(f"{value:.3g}" for value in sums.flatten().tolist())
    return f"\neach *query* should spread a weight of 1 over the keys: your rows of weights sum to {rows}"


def _second(attend: Callable) -> Callable:
    """Return the weights of an attention alone."""
    return lambda q, k, v: attend(q, k, v)[1]


def _as_einops(pattern):
    return lambda x, num_heads: rearrange(x, pattern, h=num_heads)


def _bare_view(x: Tensor, num_heads: int) -> Tensor:
    return x.reshape(x.shape[0], num_heads, x.shape[1], -1)


@exercise(attention.split_heads)
def check_split_heads(answer):
    small = torch.arange(2.0).repeat(2, 1).T.reshape(1, 2, 2) * 10 + torch.arange(2.0)
    cases = [(small, 2), (torch.randn(2, 5, 6), 3), (torch.randn(3, 4, 12), 4), (torch.randn(2, 3, 4), 1)]
    cases.append((torch.randn(2, 6, 10).double().transpose(1, 2)[:, :6], 2))
    mistakes = [
        (
            _bare_view,
            "the shape is right but the tokens are mixed: a bare `view` or `reshape` moves nothing, so head 0 gets "
            "whole tokens and misses others. Make (B, T, h, d) first, then swap T and h",
        ),
        (_as_einops("b t (h d) -> b t h d"), "one step is left: (B, T, h, d) should become (B, h, T, d)"),
        (
            _as_einops("b t (d h) -> b h t d"),
            "your heads take every h-th number; head 0 should get the *first* d numbers: (h d), with h outside",
        ),
        (
            lambda x, num_heads: rearrange(x, "b t (n d) -> b n t d", d=num_heads),
            "you made heads of h numbers each; there should be h heads of d = D/h numbers",
        ),
    ]
    compare(answer, attention.split_heads, cases, mistakes)
    for width, num_heads in [(6, 4), (10, 3)]:
        result = outcome(lambda f, *a: f(*a), answer, (torch.randn(2, 4, width), num_heads))
        if not isinstance(result, Exception):
            raise Mistake(
                f"{num_heads} heads cannot share D = {width} numbers, yet your function returned something: begin "
                "with check_heads(x.shape[-1], num_heads), which raises a ValueError"
            )
    compare_gradients(answer, attention.split_heads, (torch.randn(2, 5, 6), 3))


@exercise(attention.merge_heads)
def check_merge_heads(answer):
    small = torch.tensor([[[[0.0, 1], [10, 11]], [[2, 3], [12, 13]]]])
    cases = [
        (small,),
        (torch.randn(2, 3, 5, 2),),
        (torch.randn(2, 4, 3, 1),),
        (torch.randn(3, 1, 4, 6).double(),),
    ]
    cases.append((torch.randn(2, 5, 3, 4).transpose(1, 2),))
    mistakes = [
        (
            lambda x: x.reshape(x.shape[0], x.shape[2], -1),
            "the shape is right but the tokens are mixed: `reshape` alone moves nothing. Bring (B, h, T, d) to "
            "(B, T, h, d) first",
        ),
        (
            lambda x: rearrange(x, "b h t d -> b t (d h)"),
            "the numbers of the heads are interleaved: all d numbers of head 0 come first, so (h d), with h outside",
        ),
        (lambda x: rearrange(x, "b h t d -> b t h d"), "one step is left: join h and d into one axis D"),
        (lambda x: x.mean(dim=1), "the heads are averaged; they should stand side by side, D = h·d"),
    ]
    compare(answer, attention.merge_heads, cases, mistakes)
    compare_gradients(answer, attention.merge_heads, (torch.randn(2, 3, 5, 2),))


def _pair(out, weights, wanted):
    return (out, weights) if wanted else out


def _pair_without_heads(out, weights, wanted):
    return (out, weights[:, 0]) if wanted else out


def _cut_nothing(qkv, num_heads):
    return [part[:, None] for part in qkv.chunk(3, dim=-1)]


def _variant(
    cut=lambda qkv, h: [attention.split_heads(part, h) for part in qkv.chunk(3, dim=-1)],
    attend=attention.scaled_dot_product_attention,
    merge=attention.merge_heads,
    finish=lambda self, x, merged: self.proj(merged),
    give=_pair,
):
    """Build a multi-head attention with one step changed, without dropout; the defaults give the right one."""

    class Variant(attention.MultiHeadAttention):
        def forward(self, x, return_attention=False):
            q, k, v = cut(self.qkv(x), self.num_heads)
            heads, weights = attend(q, k, v)
            return give(finish(self, x, merge(heads)), weights, return_attention)

    return Variant


def _cut_as(order):
    """Take the thirds of qkv in another order."""
    return lambda qkv, h: [attention.split_heads(qkv.chunk(3, dim=-1)[i], h) for i in order]


def _cut_pattern(pattern):
    return lambda qkv, h: rearrange(qkv, pattern, h=h, n=3).unbind()


def _by_width(q, k, v):
    """Return the scale by sqrt(D): the mistake of taking the token's width for the head's."""
    return (q.shape[1] * q.shape[-1]) ** -0.5


ORDER = "q, k and v are taken in the wrong order: the first D numbers of qkv are the queries, then keys, then values"
MIXED = "the heads are cut by a bare `view`, so tokens are mixed: make (B, T, h, d) first, then swap T and h"
MERGED = "the heads are merged by a bare `reshape`, so tokens are mixed: use your merge_heads"
INTERLEAVED = (
    "qkv is cut head by head, but its 3D numbers are first *all* queries, then all keys, then all values: chunk(3) "
    "first, then split into heads"
)
MODULE_MISTAKES = [
    (
        _variant(finish=lambda self, x, merged: merged),
        "W_O is missing: the merged heads still have to go through `self.proj`",
    ),
    *(
        (_variant(cut=_cut_as(order)), ORDER)
        for order in ((1, 0, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0), (2, 1, 0))
    ),
    (_variant(cut=lambda qkv, h: [_bare_view(part, h) for part in qkv.chunk(3, -1)]), MIXED),
    (
        _variant(
            cut=lambda qkv, h: [_bare_view(part, h) for part in qkv.chunk(3, -1)],
            merge=lambda x: x.reshape(x.shape[0], x.shape[2], -1),
        ),
        MIXED,
    ),
    (_variant(merge=lambda x: x.reshape(x.shape[0], x.shape[2], -1)), MERGED),
    (
        _variant(merge=lambda x: rearrange(x, "b h t d -> b t (d h)")),
        "the heads are merged in the wrong order: all d numbers of head 0 come first, then those of head 1",
    ),
    (_variant(cut=_cut_pattern("b t (h n d) -> n b h t d")), INTERLEAVED),
    (_variant(cut=_cut_pattern("b t (h d n) -> n b h t d")), INTERLEAVED),
    (
        _variant(attend=_attend(_by_width)),
        "the scores are divided by sqrt(D): it should be the width of a *head*, d = D/h, else attention gets too flat",
    ),
    (_variant(attend=_attend(lambda *_: 1.0)), "the scale is missing: divide the scores by sqrt(d)"),
    (_variant(attend=_attend(axis=-2)), WRONG_AXIS),
    (
        _variant(attend=_attend(axis=1)),
        "the softmax runs over the heads: the keys are the last axis of the scores, -1",
    ),
    *(
        (_variant(cut=_cut_nothing, give=give), "there is one head only: split q, k and v first")
        for give in (_pair, _pair_without_heads)
    ),
    (
        _variant(give=lambda out, weights, wanted: (out, weights)),
        "you always return the weights: without return_attention=True the next layer expects the tokens alone",
    ),
    (
        _variant(give=lambda out, weights, wanted: out),
        "`return_attention` is forgotten: with True the pair (out, weights) is wanted",
    ),
    (
        _variant(give=lambda out, weights, wanted: (out, weights.mean(1)) if wanted else out),
        "the weights are averaged over the heads; each head's own are wanted, (B, h, T, T)",
    ),
    (
        _variant(give=lambda out, weights, wanted: (weights, out) if wanted else out),
        "first the output, then the weights",
    ),
    (
        _variant(finish=lambda self, x, merged: x + self.proj(merged)),
        "the input is added to the result; that residual belongs to the block around this layer (lesson 05)",
    ),
]


@exercise(attention.MultiHeadAttention)
def check_multi_head_attention(answer):
    x, wide = torch.randn(2, 3, 4), torch.randn(2, 5, 12)
    _check_repeatable(answer, wide)
    cases = [
        ({"dim": 4, "num_heads": 2}, x),
        ({"dim": 4, "num_heads": 2}, x, True),
        ({"dim": 12, "num_heads": 3}, wide),
        ({"dim": 12, "num_heads": 4, "qkv_bias": False}, wide[:1], True),
        ({"dim": 12, "num_heads": 2}, wide),
        ({"dim": 12, "num_heads": 2}, wide, True),
        ({"dim": 6, "num_heads": 1}, torch.randn(3, 1, 6)),
        ({"dim": 6, "num_heads": 2}, torch.randn(2, 6, 5).transpose(1, 2)),
    ]
    compare_modules(answer, attention.MultiHeadAttention, cases, MODULE_MISTAKES)
    check_keyword(answer, {"dim": 12, "num_heads": 2}, wide)
    check_float64(answer, attention.MultiHeadAttention, {"dim": 12, "num_heads": 2}, wide)
    if not isinstance(outcome(lambda f: f(dim=6, num_heads=4)(torch.randn(2, 3, 6)), answer, ()), Exception):
        raise Mistake("4 heads cannot share D = 6 numbers: keep the line with check_heads in `__init__`")
    for wanted in (False, True):
        _check_attention_dropout(answer, wanted)
        _check_own_draws(answer, wanted)
        _check_output_dropout(answer, wanted)


EVALUATION = (
    "dropout is active at evaluation: it needs to know `self.training`. Give it to F.dropout as the third argument, "
    "and the rate 0.0 to a fused attention when the module does not train"
)


def _check_repeatable(answer: type, x: Tensor) -> None:
    """At evaluation two runs agree, whatever the dropout rates."""

    def twice(module_class: type, wanted: bool) -> list:
        module = build(module_class, dim=12, num_heads=2, attn_drop=0.5, proj_drop=0.5).eval()
        return [first_of(module(x, wanted)) for _ in range(2)]

    for wanted in (False, True):
        results = outcome(twice, answer, (wanted,))
        if isinstance(results, list) and isinstance(results[0], Tensor) and not torch.equal(*results):
            raise Mistake(EVALUATION)


def _check_attention_dropout(answer: type, wanted: bool) -> None:
    """One head and one token have the weight 1, so in training it becomes 0 or 4/3 and no value in between."""
    how = f"with return_attention={wanted} and attn_drop=0.25"
    module, x = spread_weights(build(answer, dim=4, num_heads=1, attn_drop=0.25)), torch.randn(1000, 1, 4)
    value = F.linear(x, module.qkv.weight[8:], module.qkv.bias[8:])
    result = module.train()(x, wanted)
    whole, dropped, scaled = (
        torch.isclose(first_of(result), module.proj(factor * value), atol=1e-4).all(dim=-1)
        for factor in (1, 0, 4 / 3)
    )
    if whole.all():
        raise Mistake(f"{how} `attn_drop` does nothing in training: it should drop attention weights")
    if wanted and not torch.allclose(result[1], torch.ones_like(result[1])):
        raise Mistake(
            "you return the weights after dropout: their rows no longer sum to 1. Return those from before"
        )
    if not (dropped | scaled).all():
        raise Mistake(
            f"{how} dropout hits the wrong numbers: in training F.dropout belongs on the *weights*, after the softmax "
            "and before they are multiplied with v, with the rate self.attn_drop"
        )
    if abs((share := dropped.double().mean().item()) - 0.25) > 0.06:
        raise Mistake(
            f"{how} {share:.0%} of 1000 weights are dropped: the rate is self.attn_drop, each weight has its own draw"
        )


def _check_own_draws(answer: type, wanted: bool) -> None:
    """With zero scores, values that are unit vectors and no mixing, the output is the table of dropped weights."""
    module = build(answer, dim=16, num_heads=2, attn_drop=0.25).train()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        module.qkv.weight[32:] = torch.eye(16)
        module.proj.weight.copy_(torch.eye(16))
        output = first_of(module(torch.eye(8).repeat(60, 1, 2), wanted))
    weights = rearrange(output, "b t (h s) -> b h t s", h=2)
    dropped, kept = weights.abs() < 1e-6, torch.isclose(weights, torch.tensor(1 / 6), atol=1e-4)
    if name := shared_draw(dropped, ~dropped, ("pictures", "heads", "queries", "keys")):
        raise Mistake(
            f"with return_attention={wanted} and attn_drop=0.25 two {name} share one draw: each of the (B, h, T, T) "
            "weights is dropped by itself, so give F.dropout the weights themselves, not a smaller tensor"
        )
    if not (dropped | kept).all():
        raise Mistake(
            f"with return_attention={wanted} and attn_drop=0.25 a weight of 1/8 becomes 0 or 1/8 / 0.75 = 0.167 in "
            f"training; one of yours becomes {weights[~(dropped | kept)][0]:.3g}. Change nothing after F.dropout"
        )


def _check_output_dropout(answer: type, wanted: bool) -> None:
    """A proj_drop of 1/4 sets about 1/4 of the result to 0 in training, and scales the rest by 4/3."""
    module, x = spread_weights(build(answer, dim=16, num_heads=2, proj_drop=0.25)), torch.randn(64, 8, 16)
    quiet, noisy = (first_of(module.train(mode)(x, wanted)) for mode in (False, True))
    kept = noisy != 0
    names = ("pictures", "tokens", "numbers of a token")
    if not kept.all() and (name := shared_draw(~kept, kept, names)):
        raise Mistake(
            f"with proj_drop=0.25 two {name} share one draw in the result: `self.proj_drop` draws for every number, "
            "if you give it the result itself"
        )
    if not 0.69 < kept.double().mean() < 0.81:
        raise Mistake(
            "`self.proj_drop` should be the last step, after `self.proj`, and once: with proj_drop=0.25 a quarter of "
            "the result is 0 in training then"
        )
    if difference(noisy[kept], quiet[kept] / 0.75):
        raise Mistake(
            "`self.proj_drop` is used in a second place too: it belongs behind `self.proj` alone, neither on the input "
            "nor on the merged heads"
        )


@exercise(attention.attention_flops)
def check_attention_flops(answer):
    def count(linear: int, square: int, power: int = 2):
        """Return linear·T·D² + square·T²·D, with another power of T if asked."""
        return lambda t, d: linear * t * d * d + square * t**power * d

    compare(
        answer,
        attention.attention_flops,
        [(2, 3), (65, 192), (197, 768), (1, 1), (785, 384)],
        [
            (
                count(4, 2),
                "half of it: a product of matrices has a·b·c multiplications *and* as many additions",
            ),
            (count(6, 4), "one projection is missing: q, k, v *and* W_O"),
            (count(2, 4), "there are four projections: q, k, v and W_O; you count one"),
            (count(8, 2), "two products have T² in them: the scores q kᵀ *and* the weighted sum A v"),
            (count(8, 0), "the scores q kᵀ and the weighted sum A v are missing, the quadratic part"),
            (count(0, 4), "the projections to q, k, v and W_O are missing"),
            (
                count(8, 4, 1),
                "the table has a row *and* a column for each token: its part grows with T², not T",
            ),
            (
                lambda t, d: 8 * t * d * d + 4 * t * t,
                "each of the T² scores is a sum of products: its width is missing",
            ),
            (lambda t, d: 8 * d * d + 4 * t * t * d, "the projections are made for each of the T tokens"),
        ],
    )
