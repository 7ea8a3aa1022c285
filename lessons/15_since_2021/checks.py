"""Checks of lesson 15: since 2021."""

import functools
import inspect
from collections.abc import Callable

import torch
from torch import Tensor

from vit_classroom.checks.compare import compare_gradients
from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import demand, exercise, refuses, results
from vit_classroom.checks.words import difference
from vit_course.extensions.modern import attention_pool, merge_tokens, qk_norm, rope_2d


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double).to(dtype)


def by_formula(q, k, v, q_scale, k_scale, eps=1e-6):
    """Compute `qk_norm` step by step, so that an edit can change one of the steps."""

    def norm(x, scale):
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred / (variance + eps).sqrt() * scale

    return norm(q, q_scale), norm(k, k_scale), v


known = Mistakes(__file__, by_formula, rope_2d, attention_pool, merge_tokens)

# -- qk_norm


def qkv(
    batch: int, num_heads: int, tokens: int, dim: int, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Draw q, k and v as `split_heads` gives them, whose numbers do not lie in memory in their order."""
    drawings = (drawn(batch, tokens, num_heads, dim, seed=seed, dtype=dtype) for seed in range(3))
    return [x.transpose(1, 2) + 0.3 for x in drawings]


def scales(dim: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [1 + 0.3 * drawn(dim, seed=seed, dtype=dtype) for seed in (3, 4)]


def in_one_tensor(function: Callable) -> Callable:
    return functools.wraps(qk_norm)(lambda *given: torch.cat(function(*given)))


@demand(known("qk_norm/by_formula learn"))
def lets_projections_learn(answer):
    compare_gradients(in_one_tensor(answer), in_one_tensor(qk_norm), (*qkv(1, 2, 3, 4), *scales(4)))


@demand(known("qk_norm/by_formula constant"))
def keeps_constant_vectors_finite(answer):
    x = torch.linspace(0, 10, 1001)[:, None].expand(1, 1, -1, 8)
    got = outcome(lambda f, *case: torch.cat(f(*case)), answer, (x, x, x, *scales(8)))
    if isinstance(got, Tensor) and not got.isfinite().all():
        raise Mistake(
            "some numbers are nan for constant vectors, because mean(x²) - mean(x)² can be below 0. `var` cannot"
        )


exercise(
    qk_norm,
    results(
        lambda: [
            (*qkv(1, 1, 2, 4), *scales(4)),
            (*qkv(2, 3, 5, 8), *scales(8)),
            (*(1e-3 * x for x in qkv(1, 2, 3, 4)), *scales(4)),
            (*qkv(1, 2, 3, 6), *scales(6), 0.1),
        ],
        known("qk_norm/by_formula results"),
        float64=False,
    ),
    lets_projections_learn,
    keeps_constant_vectors_finite,
)

# -- rope_2d: by what a rotation must keep, so that every way to form pairs is right

GRID = (2, 3)


def triple(answer: Callable, inputs: tuple, *options) -> tuple[Tensor, Tensor, Tensor]:
    """Run an answer and demand three tensors of the shapes and the type of the inputs."""
    got = outcome(lambda f, *case: f(*case), answer, (*inputs, *options))
    where = f"with q, k, v of shape {tuple(inputs[0].shape)} and a grid of {options[0]}"
    if isinstance(got, Exception):
        raise stopped(got, f"{where}, ")
    kinds = [type(x).__name__ for x in got] if isinstance(got, tuple | list) else [type(got).__name__]
    if len(kinds) != 3 or not all(isinstance(x, Tensor) for x in got):
        raise Mistake(
            f"{where}: return three tensors, queries, keys and values. You return {', '.join(kinds)}"
        )
    if not all(x.isfinite().all() for x in got):
        raise Mistake(
            f"{where}: your results contain nan or infinity. Look for a division by 0, or a negative base"
        )
    for name, mine, given in zip("qkv", got, inputs, strict=True):
        if mine.shape != given.shape:
            raise Mistake(
                f"{where}: {name} should stay {tuple(given.shape)}, and yours is {tuple(mine.shape)}"
            )
        if mine.dtype != given.dtype:
            raise Mistake(f"{where}: {name} should stay {given.dtype}, and yours is {mine.dtype}")
    return tuple(got)


def rotations(answer: Callable, dim: int, *options, grid=GRID) -> tuple[Tensor, Tensor]:
    """Return what an answer does to queries and keys of each of six patches of a grid, as matrices (N, d, d)."""
    unit = torch.eye(dim)[None, :, None].expand(1, dim, 7, dim).clone()  # head i holds e_i
    q, k, _ = triple(answer, (unit, unit, unit), grid, 1, *options)
    return q[0, :, 1:].movedim(0, -1), k[0, :, 1:].movedim(0, -1)


def same(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-5, rtol=1e-4)


@demand(known("rope_2d values and prefix"))
def leaves_values_and_prefix(answer):
    inputs = tuple(qkv(2, 2, 7, 8))
    q, k, v = triple(answer, inputs, GRID)
    if not same(v, inputs[2]):
        raise Mistake("the values are turned too. Only queries and keys meet in a score")
    for prefix in (1, 2, 0):
        inputs = tuple(qkv(1, 2, 6 + prefix, 8))
        for mine, given in zip(triple(answer, inputs, GRID, prefix), inputs, strict=True):
            if prefix == 1 and not any(same(mine[:, :, i], given[:, :, i]) for i in (0, 1)):
                raise Mistake(
                    "with the angle 0 (the patch in row 0 and column 0, and CLS) a point (a, b) stays where it is, "
                    "because cos 0 = 1 and sin 0 = 0. Yours moves. Look at the signs, and put each number back where "
                    "it came from"
                )
            if not same(mine[:, :, :prefix], given[:, :, :prefix]):
                turned = "the token in front" if prefix == 1 else f"one of the {prefix} tokens in front"
                raise Mistake(
                    f"with num_prefix_tokens = {prefix}, {turned} is turned, but it has no place. Leave it as it is, "
                    "and let the angles of the patches begin after all of them"
                )
    inputs = tuple(qkv(1, 2, 8, 8))
    one, two = (triple(answer, tuple(x[:, :, 2 - n :] for x in inputs), GRID, n)[0][:, :, n:] for n in (1, 2))
    if not same(one, two):
        raise Mistake(
            "with two tokens in front the patches are turned as if there were one. The first patch, in row 0 and "
            "column 0, is at index `num_prefix_tokens`"
        )


@demand(known("rope_2d lengths"))
def keeps_lengths(answer):
    inputs = tuple(x.requires_grad_() for x in qkv(1, 2, 7, 8))
    results = triple(answer, inputs, GRID)
    lost = not all(x.requires_grad for x in results)
    for mine, given in zip([] if lost else results[:2], inputs, strict=False):  # the way back turns, too
        weight = drawn(*mine.shape, seed=5)
        back = torch.autograd.grad((mine * weight).sum(), given, retain_graph=True, allow_unused=True)[0]
        lost |= (
            back is not None
            and same(mine.norm(dim=-1), given.norm(dim=-1))
            and not same(back.norm(dim=-1), weight.norm(dim=-1))
        )
    if lost:
        raise Mistake("no gradient comes through, so the projections to queries and keys cannot learn")
    if not same(triple(answer, (-inputs[0], *inputs[1:]), GRID)[1], results[1]):
        raise Mistake("your keys change with the queries. Turn `k` by its own numbers, in both terms")
    if same(results[0], inputs[2]) and not same(results[2], inputs[2]):
        raise Mistake("your first result is v. Please return queries, keys and values, in this order")
    for name, mine, given in zip(("query", "key"), results, inputs, strict=False):
        if not same(mine.norm(dim=-1), given.norm(dim=-1)):
            raise Mistake(
                f"a rotation keeps the length of every {name}, and yours changes it. A point (a, b) becomes "
                "(a·cos - b·sin, a·sin + b·cos), with one angle for both numbers of the pair"
            )


@demand(known("rope_2d rows and columns"))
def knows_rows_and_columns(answer):
    turned, keys = (x.reshape(*GRID, 8, 8) for x in rotations(answer, 8))
    still = torch.eye(8)
    if not same(turned[0, 0], still) and same(turned[0, 0].abs(), still):
        raise Mistake(
            "the patch in row 0 and column 0 has the angle 0, so a point (a, b) should stay where it is, and yours "
            "becomes (a, -b) or (-a, b). Look at the signs"
        )
    if not same(turned[0, 0], still):
        raise Mistake("the patch in row 0 and column 0 is turned. Rows and columns count from 0")
    one, other = (not same(x[1, 2], still) for x in (turned, keys))
    if one != other:
        raise Mistake(
            f"only the {'queries' if one else 'keys'} are turned. The score depends on the offset when both are"
        )
    if same(turned, still.expand_as(turned)):
        raise Mistake("no patch is turned at all. Are your frequencies, or your angles, 0?")
    if same(turned[1, 0], turned[0, 1].matrix_power(3)) and not same(turned[0, 1], still):
        raise Mistake("patches are numbered along the list, but row and column have pairs of their own")
    if same(turned[1, 1], turned[0, 2] @ turned[0, 2]) and not same(turned[0, 1], still):
        raise Mistake(
            "your places fit another grid. grid_size is (rows, columns), and the patches come row by row. In a grid of "
            "2x3, patch 3 is in row 1 and column 0"
        )
    for what, place in (("down", (1, 0)), ("to the right", (0, 1))):
        if same(turned[place], still):
            raise Mistake(
                f"a step {what} turns nothing. Half of the pairs belong to the row, half to the column"
            )
    other = rotations(answer, 8, grid=(3, 2))[0]
    if not (same(other[1], turned[0, 1]) or same(other[1], turned[1, 0])):
        raise Mistake("places are whole numbers, 0, 1, 2, in every grid, so do not divide them by its size")
    if not same(other[5], turned[1, 0] @ turned[1, 0] @ turned[0, 1]):
        raise Mistake(
            "right on a grid of 2x3, but not on one of 3x2, where the last patch is in row 2 and column 1"
        )


@demand(known("rope_2d offset"))
def sees_the_offset_alone(answer):
    turned, keys = (x.reshape(*GRID, 8, 8) for x in rotations(answer, 8))
    score = [turned[a].mT @ keys[b] for a, b in (((0, 0), (0, 1)), ((1, 1), (1, 2)), ((0, 1), (0, 2)))]
    if not all(same(score[0], other) for other in score):
        raise Mistake(
            "the score of two patches depends on more than their offset. Turn queries and keys in the same direction, "
            "with the same pairs"
        )
    inputs = tuple(qkv(2, 2, 7, 8))
    q = triple(answer, inputs, GRID)[0][:, :, 1:]
    if not same(q, (turned.reshape(6, 8, 8) @ inputs[0][:, :, 1:, :, None]).squeeze(-1)):
        raise Mistake("a patch is turned differently, or not in every head and image. Only its place counts")


@demand(known("rope_2d frequencies"))
def turns_by_its_frequencies(answer):
    more = [(16, 100.0, 0.5)] if "step" in inspect.signature(answer).parameters else []
    for dim, *options in ((16,), (24,), (16, 10.0), *more):
        temperature, step = {1: (*options, 1.0), 2: options}.get(len(options), (100.0, 1.0))
        turned, count = rotations(answer, dim, *options)[0].reshape(*GRID, dim, dim), dim // 4
        wanted = step * temperature ** (-torch.arange(count) / count)
        still = torch.ones(dim // 2)
        cosines = torch.cat([wanted.cos().repeat_interleave(2), still]).sort().values
        for what, place in (("down", (1, 0)), ("to the right", (0, 1))):
            mine = turned[place].diagonal().sort().values
            if same(mine, cosines):
                continue
            if options:
                unused = "temperature" if step == 1 else "step"
                raise Mistake(f"right by default, but `{unused}` is not used, or not for all pairs alike")
            steps = mine[::2].clamp(-1, 1).acos()
            if same(steps[:count], steps[:1].expand(count)):
                raise Mistake("all pairs of an axis turn by the same angle, but pair j has the frequency w_j")
            found, right = (", ".join(f"{x:.3g}" for x in angles.tolist()) for angles in (steps, wanted))
            raise Mistake(
                f"the angles of one step {what} should be {right}, and 0 for the {count} pairs of the other axis, with "
                f"d = {dim}. Yours are {found}, in another order and without whole turns"
            )


exercise(
    rope_2d,
    keeps_lengths,  # before CLS: a wrong formula changes it even at the angle 0
    leaves_values_and_prefix,
    knows_rows_and_columns,
    sees_the_offset_alone,
    turns_by_its_frequencies,
    refuses((*qkv(1, 1, 7, 6), GRID), "d = 6 is not a multiple of 4"),
    refuses(
        (*qkv(1, 1, 8, 8), GRID), "8 tokens are not CLS and 2x3 patches", *known("rope_2d refuses")["refused"]
    ),
    refuses((*qkv(1, 1, 6, 8), GRID), "6 tokens are not CLS and 2x3 patches"),
)

# -- attention_pool


def hides_cls_with_zero(query, k, v, num_prefix_tokens=1):
    scores = torch.einsum("hd,bhtd->bht", query, k) * query.shape[-1] ** -0.5
    weights = scores.softmax(-1)[:, :, num_prefix_tokens:]
    return torch.einsum("bht,bhtd->bhd", weights, v[:, :, num_prefix_tokens:]), weights


LOW = (
    "here all scores are far below -100. That number hides no prefix then, and `clamp` makes all scores equal"
)


@demand(known("attention_pool large"))
def stands_large_scores(answer):
    large = (600 * drawn(2, 4), *qkv(2, 2, 5, 4)[:2])
    low = (torch.full((2, 4), -900.0), *(x.abs() for x in large[1:]))
    found = answer(*low)
    if found[0].isfinite().all() and difference(found, attention_pool(*low)):
        raise Mistake(f"{LOW}. Leave the prefix out before the softmax, and cut nothing off")
    if difference(answer(*large), attention_pool(*large)):
        raise Mistake(
            "with scores in the hundreds your softmax overflows or divides 0 by 0, because in float32 exp(89) is "
            "infinite and exp(-110) is 0. Leave the prefix out before the softmax, and use `.softmax(dim=-1)`, which "
            "subtracts the largest score of *each row* first"
        )


@demand(known("attention_pool learn"))
def lets_the_query_learn(answer):
    compare_gradients(answer, attention_pool, (drawn(2, 4), *qkv(2, 2, 5, 4)[:2]))


exercise(
    attention_pool,
    results(
        lambda: [
            (torch.zeros(1, 2), *qkv(1, 1, 3, 2)[:2]),
            (drawn(1, 4), *qkv(1, 1, 4, 4)[:2]),
            (3 * drawn(3, 4), *qkv(2, 3, 6, 4)[:2]),
            (drawn(2, 4), *qkv(3, 2, 6, 4)[:2], 3),
            (drawn(2, 8, dtype=torch.double), *qkv(2, 2, 5, 8, torch.double)[:2], 0),
        ],
        known(
            "attention_pool results",
            (
                "CLS is left out after the softmax, so the weights of the patches do not sum to 1",
                hides_cls_with_zero,
            ),
        ),
        float64=False,
    ),
    stands_large_scores,
    lets_the_query_learn,
)

# -- merge_tokens


def scene(batch: int, count: int, dim: int, r: int, *prefix: int, seed: int = 0) -> tuple:
    """Return tokens, keys that do not look like them, sizes from 1 to 4, and r."""
    sizes = drawn(batch, count, seed=seed + 2).abs().mul(2).floor().clamp(0, 3) + 1
    keys = drawn(batch, count, 3, seed=seed + 1) * (1 + 3 * drawn(batch, count, 1, seed=seed + 3).abs())
    return drawn(batch, count, dim, seed=seed), keys, sizes, r, *prefix


@demand(known("merge_tokens learn"))
def lets_tokens_learn(answer):
    compare_gradients(
        lambda tokens: answer(tokens, *small(2)[1:]),
        lambda tokens: merge_tokens(tokens, *small(2)[1:]),
        small(2)[:1],
    )


def small(r: int) -> tuple:
    """CLS and six patches: 2 and 4 are most like 3, and CLS is like 1."""
    k = torch.tensor([[[9.0, 9], [1, 1], [0, 2], [0, 1], [0.1, 5], [-1, 0], [1, -1]]])
    return torch.arange(14.0).reshape(1, 7, 2), k, torch.tensor([[1.0, 1, 3, 1, 2, 1, 1]]), r


exercise(
    merge_tokens,
    results(
        lambda: [
            small(0),
            small(1),
            small(2),
            scene(2, 9, 4, 3),
            scene(3, 17, 5, 7, seed=10),
            scene(1, 9, 4, 5, 0, seed=20),  # more sources than targets
            scene(2, 11, 4, 3, 3, seed=30),
            scene(2, 12, 4, 3, 2, seed=40),
            (
                drawn(1, 5, 2),
                torch.tensor([[[9.0, 9], [1, 1], [-1, -0.5], [1, 0.8], [-1, -2]]]),
                torch.ones(1, 5),
                1,
            ),
        ],
        known("merge_tokens results"),
    ),
    lets_tokens_learn,
    refuses(
        small(4),
        "r = 4, but CLS and six patches have three sources",
        *known("merge_tokens refuses")["too few sources"],
    ),
    refuses(
        (torch.ones(1, 3, 2), torch.ones(1, 3, 2), torch.ones(1, 3), 1, 2),
        "after 2 prefix tokens the only patch is a source, at place 2, and no target is left",
        *known("merge_tokens refuses")["no target"],
    ),
)
