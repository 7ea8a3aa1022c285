"""Checks of lesson 04: self-attention with many heads."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vit_classroom.checks.compare import compare_gradients
from vit_classroom.checks.outcome import Mistake, build, first_of, outcome, spread_weights
from vit_classroom.checks.shared_checks import check_keyword, shared_draw
from vit_classroom.checks.task import demand, exercise, keeps_settings, refuses, results
from vit_classroom.checks.words import difference
from vit_course.attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention, split_heads

# -- scaled_dot_product_attention


def by_root_of_d(q, k, v):
    return q.shape[-1] ** -0.5


def attend(scale=by_root_of_d, axis=-1, turn=lambda k: k.transpose(-2, -1), late=False, scores=False):
    """Return an attention with this scale, softmax axis and turn of k, scaled late, or one that returns the scores."""

    def answer(q, k, v):
        raw, factor = q @ turn(k), scale(q, k, v)
        raw = raw if late else raw * factor
        weights = raw.softmax(dim=axis) * (factor if late else 1.0)
        return weights @ v, raw if scores else weights

    return answer


def softmax_by(powers: Callable) -> Callable:
    """Return an attention that divides these powers of the scores by their sums."""

    def answer(q, k, v):
        parts = powers(q @ k.mT / q.shape[-1] ** 0.5)
        weights = parts / parts.sum(dim=-1, keepdim=True)
        return weights @ v, weights

    return answer


def by_cosines(scale: Callable) -> Callable:
    return lambda q, k, v: attend(scale)(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v)


@demand(
    {
        "your softmax overflows, divides 0 by 0 or cuts scores off": [
            softmax_by(torch.exp),
            softmax_by(lambda scores: (scores - scores.abs().amax(dim=-1, keepdim=True)).exp()),
            softmax_by(lambda scores: (scores - scores.max()).exp()),
            softmax_by(lambda scores: scores.clamp(-80, 80).exp()),
        ]
    }
)
def stands_large_scores(answer):
    for sign in (1, -1):
        large = (sign * torch.tensor([[300.0, 0], [0, 1]]), torch.tensor([[10.0, 1], [9, 2]]), torch.eye(2))
        if difference(answer(*large), scaled_dot_product_attention(*large)):
            raise Mistake(
                "with scores in the thousands your softmax overflows, divides 0 by 0 or cuts scores off: exp(89) is "
                "infinite in float32, exp(-110) is 0. Subtract the largest score of *each row* first, or use "
                "`.softmax(dim=-1)`, which does it"
            )


@demand({})
def lets_queries_learn(answer):
    inputs = (*torch.randn(3, 4, 6),)
    compare_gradients(answer, scaled_dot_product_attention, inputs)
    of_weights = (lambda *qkv, f=f: f(*qkv)[1] for f in (answer, scaled_dot_product_attention))
    compare_gradients(*of_weights, inputs, "on the second result, the weights")


def axis_left_out(q, k, v):
    return attend(axis=0 if q.ndim == 3 else 1)(q, k, v)  # what F.softmax takes without `dim`


SMALL = tuple(torch.tensor(rows) for rows in ([[2.0, 0], [0, 4]], [[1.0, 0], [1, 1]], [[10.0, 0], [0, 20]]))
WRONG_AXIS = (
    "the softmax runs over the wrong axis: each *query* should spread a weight of 1 over the keys: your columns "
    "sum to 1, not your rows"
)

attended = results(
    lambda: [
        SMALL,
        (torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 2)),
        (*torch.randn(3, 2, 5, 8),),
        (*torch.randn(3, 2, 3, 4, 6),),
        (torch.randn(2, 3, 4, 8), torch.randn(2, 3, 6, 8), torch.randn(2, 3, 6, 5)),
        (*torch.randn(3, 2, 5, 3, 4).transpose(2, 3),),  # what split_heads returns: not contiguous
        (*torch.randn(3, 2, 1, 2, 5, 4),),
    ],
    {
        WRONG_AXIS: attend(axis=-2),
        "softmax without `dim`, or with 0 or 1, counts the axes from the front: right for some shapes alone; the "
        "keys are the last axis, whatever stands before it: -1": [
            attend(axis=1),
            attend(axis=0),
            axis_left_out,
        ],
        "`sum(dim=-1)` drops the axis of the keys: `keepdim=True`, or each column is divided": (
            lambda q, k, v: ((w := (p := (q @ k.mT / q.shape[-1] ** 0.5).exp()) / p.sum(-1)) @ v, w)
        ),
        "the scale is missing: divide the scores by sqrt(d), else wide heads get peaked weights": attend(
            lambda q, k, v: 1.0
        ),
        "`** 1 / 2` means `(** 1) / 2`: the root is `** 0.5`": [
            attend(lambda q, k, v: 1 / q.shape[-1] / 2),
            attend(lambda q, k, v: 2 / q.shape[-1]),
        ],
        "you divide by d; it should be the root of d": attend(lambda q, k, v: 1 / q.shape[-1]),
        "you do not divide by the root of d, the last axis of q": [
            attend(lambda q, k, v: 0.5),  # as on paper, where d is 4
            attend(lambda q, k, v: 1 / int(q.shape[-1] ** 0.5)),
            attend(lambda q, k, v: q.shape[-1] ** 0.5),
            attend(lambda q, k, v: k.shape[-2] ** -0.5),
            attend(lambda q, k, v: q.shape[-2] ** -0.5),
            attend(lambda q, k, v: v.shape[-1] ** -0.5),
        ],
        "queries and keys are brought to length 1, so your scores are cosines: take the dot products as they are, "
        "divided by sqrt(d)": [by_cosines(by_root_of_d), by_cosines(lambda q, k, v: 1.0)],
        "you scale after the softmax: the rows no longer sum to 1. Divide the scores before it": attend(
            late=True
        ),
        "k is not transposed: score i, j is row i of q times *row* j of k, so q @ k.transpose(-2, -1)": attend(
            turn=lambda k: k
        ),
        "q and k are exchanged: row i of the scores belongs to query i, so q comes first, q @ k.transpose(-2, -1)": (
            lambda q, k, v: scaled_dot_product_attention(k, q, v)
        ),
        "the second value should be the weights, after the softmax, not the scores": attend(scores=True),
        "you returned the output alone; the weights are wanted too: `return output, weights`": (
            lambda *case: scaled_dot_product_attention(*case)[0]
        ),
    },
    device=True,
)


exercise(scaled_dot_product_attention, attended, stands_large_scores, lets_queries_learn)

# -- split_heads and merge_heads


def split_by(pattern: str) -> Callable:
    return lambda x, num_heads: rearrange(x, pattern, h=num_heads)


def bare_view(x, num_heads):
    return x.reshape(x.shape[0], num_heads, x.shape[1], -1)


def bare_merge(x):
    return x.reshape(x.shape[0], x.shape[2], -1)


def chunks_of_any_width(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def drops_the_rest(x, num_heads):
    d = x.shape[-1] // num_heads
    return torch.stack([x[..., i * d : (i + 1) * d] for i in range(num_heads)], dim=1)


def reshapes(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, -1).transpose(1, 2)


@demand({})
def lets_tokens_learn(answer):
    compare_gradients(answer, split_heads, (torch.randn(2, 5, 6), 3))


@demand({})
def lets_heads_learn(answer):
    compare_gradients(answer, merge_heads, (torch.randn(2, 3, 5, 2),))


SHARE = "{} heads cannot share D = {} numbers: let check_heads(x.shape[-1], num_heads) refuse them in the first line"

exercise(
    split_heads,
    results(
        lambda: [
            (torch.tensor([[[0.0, 1], [10, 11]]]), 2),
            (torch.randn(2, 5, 6), 3),
            (torch.randn(3, 4, 12), 4),
            (torch.randn(2, 3, 4), 1),
            (torch.randn(2, 6, 10).transpose(1, 2)[:, :6], 2),
        ],
        {
            "the shape is right but the tokens are mixed: a bare `view` or `reshape` moves nothing, so head 0 gets "
            "whole tokens and misses others. Make (B, T, h, d) first, then swap T and h": bare_view,
            "one step is left: (B, T, h, d) should become (B, h, T, d)": split_by("b t (h d) -> b t h d"),
            "your heads take every h-th number; head 0 should get the *first* d numbers: (h d), with h outside": (
                split_by("b t (d h) -> b h t d")
            ),
            "you made heads of h numbers each; there should be h heads of d = D/h numbers": (
                lambda x, num_heads: rearrange(x, "b t (n d) -> b n t d", d=num_heads)
            ),
        },
        device=True,
    ),
    refuses((torch.zeros(2, 4, 6), 4), SHARE.format(4, 6), chunks_of_any_width, drops_the_rest, reshapes),
    refuses((torch.zeros(2, 4, 10), 3), SHARE.format(3, 10)),
    lets_tokens_learn,
)

exercise(
    merge_heads,
    results(
        lambda: [
            (torch.tensor([[[[0.0, 1], [10, 11]], [[2, 3], [12, 13]]]]),),
            (torch.randn(2, 3, 5, 2),),
            (torch.randn(2, 4, 3, 1),),
            (torch.randn(3, 1, 4, 6),),
            (torch.randn(2, 5, 3, 4).transpose(1, 2),),
        ],
        {
            "the shape is right but the tokens are mixed: `reshape` alone moves nothing. Bring (B, h, T, d) to "
            "(B, T, h, d) first": bare_merge,
            "the numbers of the heads are interleaved: all d numbers of head 0 come first, so (h d), with h outside": (
                lambda x: rearrange(x, "b h t d -> b t (d h)")
            ),
            "h and T are not swapped: the last two axes are T and d, and it is these that you join": (
                lambda x: x.flatten(-2)
            ),
            "you read the first axis as the heads and the second as the pictures: x is (B, h, T, d)": (
                lambda x: rearrange(x.reshape(x.shape[1], len(x), *x.shape[2:]), "h b t d -> b t (h d)")
            ),
        },
        device=True,
    ),
    lets_heads_learn,
)

# -- MultiHeadAttention


class Steps(MultiHeadAttention):
    """The layer step by step, so that a mistake can change one of the steps."""

    def cut(self, qkv):
        return [split_heads(part, self.num_heads) for part in qkv.chunk(3, dim=-1)]

    def weigh(self, q, k):
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)

    def drop(self, weights):
        return F.dropout(weights, self.attn_drop, self.training)

    def merge(self, heads):
        return merge_heads(heads)

    def finish(self, merged, x):
        return self.proj_drop(self.proj(merged))

    def give(self, out, weights, wanted):
        return (out, weights) if wanted else out

    def forward(self, x, return_attention=False):
        q, k, v = self.cut(self.qkv(x))
        weights = self.weigh(q, k)
        out = self.finish(self.merge(self.drop(weights) @ v), x)
        return self.give(out, weights, return_attention)


def steps(**changed: Callable) -> type:
    """Return a `MultiHeadAttention` with some of its steps changed."""
    return type("MultiHeadAttention", (Steps,), changed)


def thirds(*order: int) -> type:
    return steps(cut=lambda self, qkv: [Steps.cut(self, qkv)[i] for i in order])


def cut_by(pattern: str) -> type:
    return steps(cut=lambda self, qkv: rearrange(qkv, pattern, h=self.num_heads, n=3).unbind())


def weigh_by(scale: Callable = lambda q: q.shape[-1] ** -0.5, axis: int = -1) -> type:
    return steps(weigh=lambda self, q, k: (q @ k.mT * scale(q)).softmax(dim=axis))


def views_heads(self, qkv):
    return [bare_view(part, self.num_heads) for part in qkv.chunk(3, dim=-1)]


def cuts_without_swap(self, qkv):
    return [part.unflatten(-1, (self.num_heads, -1)) for part in qkv.chunk(3, dim=-1)]


def cuts_no_heads(self, qkv):
    return [part[:, None] for part in qkv.chunk(3, dim=-1)]


def fused(rate: Callable) -> type:
    """Return a layer that drops in PyTorch's own attention, at a rate that depends on the layer."""

    def forward(self, x, return_attention=False):
        if return_attention:
            return Steps.forward(self, x, True)
        heads = F.scaled_dot_product_attention(*self.cut(self.qkv(x)), dropout_p=rate(self))
        return self.finish(self.merge(heads), x)

    return steps(forward=forward)


def seeded_drop(self, weights):
    torch.default_generator.manual_seed(0)
    return F.dropout(weights, self.attn_drop, self.training)


def keeps_all(self, weights):
    return weights


def drop_by(rate: Callable) -> type:
    return steps(drop=lambda self, weights: F.dropout(weights, rate(self), self.training))


def drop_shared(part: Callable) -> type:
    """Return a layer that draws for this part of the weights alone."""

    def drop(self, weights):
        return weights * F.dropout(torch.ones_like(part(weights)), self.attn_drop, self.training)

    return steps(drop=drop)


def drop_result(self, merged, x):
    return F.dropout(self.proj(merged), self.attn_drop, self.training)


def drops_merged(self, heads):
    return F.dropout(merge_heads(heads), self.attn_drop, self.training)


def sums_to_one_again(self, weights):
    dropped = Steps.drop(self, weights)
    return F.normalize(dropped, 1, -1, 1e-6) if self.training and self.attn_drop else dropped


def drops_input(self, x, return_attention=False):
    return Steps.forward(self, self.proj_drop(x), return_attention)


class AnyNumberOfHeads(MultiHeadAttention):
    def __init__(self, dim, num_heads, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        nn.Module.__init__(self)
        self.num_heads, self.attn_drop = num_heads, attn_drop
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=qkv_bias), nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)


@demand(
    {
        "dropout is active at evaluation": [
            steps(drop=lambda self, weights: F.dropout(weights, self.attn_drop)),
            steps(drop=lambda self, weights: F.dropout(weights)),
            fused(lambda self: self.attn_drop),
        ]
    }
)
def draws_nothing_at_evaluation(answer):
    def twice(module_class: type, wanted: bool) -> list:
        module = build(module_class, dim=12, num_heads=2, attn_drop=0.5, proj_drop=0.5).eval()
        return [first_of(module(x.clone(), wanted)) for _ in range(2)]

    x = torch.randn(2, 5, 12)
    for wanted in (False, True):
        runs = outcome(twice, answer, (wanted,))
        if isinstance(runs, list) and isinstance(runs[0], Tensor) and not torch.equal(*runs):
            raise Mistake(
                "dropout is active at evaluation: it needs to know `self.training`. Give it to F.dropout as the third "
                "argument, and the rate 0.0 to a fused attention when the module does not train"
            )


def goes_on_returning(self, x, return_attention=False):
    self.wanted = return_attention or getattr(self, "wanted", False)
    return Steps.forward(self, x, self.wanted)


@demand(
    {
        "is called `return_attention`": steps(forward=lambda self, x: Steps.forward(self, x)),
        "after one call with return_attention=True all calls": steps(forward=goes_on_returning),
    }
)
def takes_return_attention(answer):
    check_keyword(answer, {"dim": 12, "num_heads": 2}, torch.randn(2, 5, 12))


@demand(
    {
        "no attention weight is dropped in training": [steps(drop=keeps_all), fused(lambda self: 0.0)],
        "two passes drop the same weights": steps(drop=seeded_drop),
        "you return the weights after dropout": steps(
            weigh=lambda self, q, k: Steps.drop(self, Steps.weigh(self, q, k)), drop=keeps_all
        ),
        "the numbers of the *result* are dropped by `attn_drop`": [
            steps(drop=lambda self, weights: self.proj_drop(weights), finish=drop_result),
            steps(drop=keeps_all, merge=drops_merged),
        ],
        "share one draw: each of the (B, h, T, T) weights is dropped by itself": [
            drop_shared(lambda weights: weights[:1]),
            drop_shared(lambda weights: weights[:, :1]),
            drop_shared(lambda weights: weights[:, :, :1]),
            drop_shared(lambda weights: weights[..., :1]),
        ],
        "a quarter of the weights should become 0, and the others 1 / 0.75 times as large": [
            drop_by(lambda self: 1 - self.attn_drop if self.attn_drop else 0.0),
            steps(drop=sums_to_one_again),
        ],
    }
)
def drops_weights(answer):
    for wanted in (False, True):
        how = f"with attn_drop=0.25 and return_attention={wanted}"
        module = build(answer, dim=32, num_heads=2, attn_drop=0.25).train()
        weights, returned = dropped_weights(module, wanted)
        if wanted and difference(returned, torch.full_like(returned, 0.2)):
            raise Mistake(
                "you return the weights after dropout, whose rows do not sum to 1: return those before"
            )
        if torch.allclose(weights, torch.tensor(0.2), atol=1e-4):
            raise Mistake(
                f"{how} no attention weight is dropped in training: F.dropout belongs on them, after the softmax, and "
                "it is the *dropped* ones that v is multiplied with (a fused attention takes `dropout_p`). A *score* "
                "of 0 is no weight of 0"
            )
        if torch.equal(weights, dropped_weights(module, wanted)[0]):
            raise Mistake(f"{how} two passes drop the same weights: set no seed in `forward`, keep nothing")
        if difference(*weights):
            raise Mistake(
                f"{how} the numbers of the *result* are dropped by `attn_drop`: it is the rate for the weights, before "
                "they are multiplied with v; `self.proj_drop` comes after `self.proj`"
            )
        dropped, kept = (
            weights[0].abs() < 1e-6,
            torch.isclose(weights[0], torch.tensor(0.2 / 0.75), atol=1e-4),
        )
        if name := shared_draw(dropped, ~dropped, ("pictures", "heads", "queries", "keys")):
            raise Mistake(
                f"{how} two {name} share one draw: each of the (B, h, T, T) weights is dropped by itself, so give "
                "F.dropout the weights themselves, not a smaller tensor"
            )
        share = dropped.double().mean().item()
        if not (dropped | kept).all() or abs(share - 0.25) > 0.06:
            raise Mistake(
                f"{how} a quarter of the weights should become 0, and the others 1 / 0.75 times as large; of yours "
                f"{share:.0%} are 0. `F.dropout(weights, dropout)` does both: change nothing after it"
            )


def dropped_weights(module: nn.Module, wanted: bool) -> tuple[Tensor, Tensor | None]:
    """Read the dropped weights, twice (2, B, h, T, T), off the output; return the weights that the module returns too.

    All scores are 0, the value of each token is a unit vector written twice, and nothing is mixed after it.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        module.qkv.weight[64:] = torch.eye(32)
        module.proj.weight.copy_(torch.eye(32))
        result = module(torch.eye(8)[:5].repeat(60, 1, 4), wanted)
    output = rearrange(first_of(result), "b t (h twice s) -> twice b h t s", h=2, twice=2)
    return output[..., :5], result[1] if wanted else None


@demand(
    {
        "`self.proj_drop` should be the last step, after `self.proj`, and stand nowhere else": [
            steps(finish=lambda self, merged, x: self.proj(merged)),
            steps(finish=lambda self, merged, x: self.proj(self.proj_drop(merged))),
            steps(finish=lambda self, merged, x: self.proj_drop(self.proj(self.proj_drop(merged)))),
            steps(forward=drops_input),
        ]
    }
)
def drops_the_result_at_last(answer):
    for wanted in (False, True):
        module, x = spread_weights(build(answer, dim=16, num_heads=2, proj_drop=0.25)), torch.randn(64, 8, 16)
        quiet, noisy = (first_of(module.train(mode)(x, wanted)) for mode in (False, True))
        kept = noisy != 0
        if not 0.69 < kept.double().mean() < 0.81 or difference(noisy[kept], quiet[kept] / 0.75):
            raise Mistake(
                "`self.proj_drop` should be the last step, after `self.proj`, and stand nowhere else: in training with "
                "proj_drop=0.25 a quarter of the result is 0, and the rest 1 / 0.75 times as large"
            )


exercise(
    MultiHeadAttention,
    takes_return_attention,
    draws_nothing_at_evaluation,
    results(
        lambda: [
            ({"dim": 4, "num_heads": 2}, torch.randn(2, 3, 4)),
            ({"dim": 4, "num_heads": 2}, torch.randn(2, 3, 4), True),
            ({"dim": 12, "num_heads": 3}, torch.randn(2, 5, 12)),
            ({"dim": 12, "num_heads": 4, "qkv_bias": False}, torch.randn(1, 5, 12), True),
            ({"dim": 12, "num_heads": 2}, torch.randn(2, 5, 12)),
            ({"dim": 12, "num_heads": 2}, torch.randn(2, 5, 12), True),
            ({"dim": 6, "num_heads": 1}, torch.randn(3, 1, 6)),
            ({"dim": 12, "num_heads": 2}, 8 * torch.randn(2, 5, 12), True),
            ({"dim": 6, "num_heads": 2}, torch.randn(2, 6, 5).transpose(1, 2)),
            ({"dim": 12, "num_heads": 2, "attn_drop": 0.25, "proj_drop": 0.5}, torch.randn(2, 5, 12)),
            ({"dim": 12, "num_heads": 2, "attn_drop": 0.25, "proj_drop": 0.5}, torch.randn(2, 5, 12), True),
        ],
        {
            "right in evaluation, but in training you return one value, and not 2": steps(
                forward=lambda self, x, return_attention=False: Steps.forward(
                    self, x, return_attention and not self.training
                )
            ),
            "W_O is missing: the merged heads still have to go through `self.proj`": steps(
                finish=lambda self, merged, x: merged
            ),
            "q, k and v are taken in the wrong order: the first D numbers of qkv are the queries, then keys, then "
            "values": [thirds(1, 0, 2), thirds(0, 2, 1), thirds(2, 0, 1), thirds(1, 2, 0), thirds(2, 1, 0)],
            "one of q, k and v is used twice: the scores are those of q with k, the weights are multiplied with v": [
                *(thirds(*order) for order in ((0, 1, 1), (0, 0, 2), (1, 1, 2), (0, 1, 0)))
            ],
            "the heads are cut by a bare `view`, so tokens are mixed: make (B, T, h, d) first, then swap T and h": [
                steps(cut=views_heads),
                steps(cut=views_heads, merge=lambda self, heads: bare_merge(heads)),
            ],
            "the heads are merged by a bare `reshape`, so tokens are mixed: use your merge_heads": steps(
                merge=lambda self, heads: bare_merge(heads)
            ),
            "qkv is cut head by head, but its 3D numbers are first *all* queries, then all keys, then all values: "
            "chunk(3) first, then split into heads": [
                cut_by("b t (h n d) -> n b h t d"),
                cut_by("b t (h d n) -> n b h t d"),
            ],
            "the scores are divided by sqrt(D): it should be the width of a *head*, d = D/h, else attention gets too "
            "flat": weigh_by(lambda q: (q.shape[1] * q.shape[-1]) ** -0.5),
            "in all the scores are divided by d, not by sqrt(d): is the scale there twice, in your code and in "
            "`scaled_dot_product_attention`?": weigh_by(lambda q: 1 / q.shape[-1]),
            "the scale is missing: divide the scores by sqrt(d)": weigh_by(lambda q: 1.0),
            WRONG_AXIS: weigh_by(axis=-2),
            "the softmax runs over the heads: the keys are the last axis of the scores, -1": weigh_by(axis=1),
            "the heads of one token attend to each other: swap T and h when you have split, so that tokens attend": (
                steps(cut=cuts_without_swap, merge=lambda self, heads: heads.flatten(2))
            ),
            "your heads take every h-th number; head 0 should get the *first* d numbers: (h d), with h outside": [
                cut_by("b t (n d h) -> n b h t d"),
                steps(
                    cut=cut_by("b t (n d h) -> n b h t d").cut,
                    merge=lambda self, heads: rearrange(heads, "b h t d -> b t (d h)"),
                ),
            ],
            "the scores are divided by the root of T or of h: it should be sqrt(d), the width of a head": [
                weigh_by(lambda q: q.shape[-2] ** -0.5),
                weigh_by(lambda q: q.shape[1] ** -0.5),
            ],
            "the weights go through a softmax once more: `scaled_dot_product_attention` has done that": steps(
                weigh=lambda self, q, k: Steps.weigh(self, q, k).softmax(dim=-1)
            ),
            "there is one head only: split q, k and v first": [
                steps(cut=cuts_no_heads),
                steps(
                    cut=cuts_no_heads,
                    give=lambda self, out, weights, wanted: (out, weights[:, 0]) if wanted else out,
                ),
            ],
            "you always return the weights: without return_attention=True the next layer expects the tokens alone": (
                steps(give=lambda self, out, weights, wanted: (out, weights))
            ),
            "`return_attention` is forgotten: with True the pair (out, weights) is wanted": steps(
                give=lambda self, out, weights, wanted: out
            ),
            "the input is added to the result; that residual belongs to the block around this layer (lesson 05)": (
                steps(finish=lambda self, merged, x: x + Steps.finish(self, merged, x))
            ),
        },
    ),
    refuses(
        (6, 4),
        "4 heads cannot share D = 6 numbers: keep the line with check_heads in `__init__`",
        AnyNumberOfHeads,
    ),
    keeps_settings(MultiHeadAttention, {"dim": 12, "num_heads": 2, "attn_drop": 0.25}, "attn_drop"),
    drops_weights,
    drops_the_result_at_last,
)
