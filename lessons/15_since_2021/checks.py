"""Checks of lesson 15: since 2021."""

import functools
import inspect
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vit_classroom.checks.compare import compare_gradients
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import demand, exercise, refuses, results
from vit_classroom.checks.words import difference
from vit_course.extensions.modern import attention_pool, merge_tokens, qk_norm, rope_2d


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double).to(dtype)


# -- qk_norm


def norming(norm: Callable, values: Callable = lambda v: v, after: Callable = lambda q: q) -> Callable:
    """Return a `qk_norm` with this norm (x, scale, eps), and what it does to values and to normed queries."""

    def answer(q, k, v, q_scale, k_scale, eps=1e-6):
        return after(norm(q, q_scale, eps)), norm(k, k_scale, eps), values(v)

    return answer


def norm_over(*axes: int) -> Callable:
    """Return a norm that takes mean and variance over these axes."""

    def norm(x, scale, eps):
        variance = x.var(axes, unbiased=False, keepdim=True)
        return (x - x.mean(axes, keepdim=True)) / (variance + eps).sqrt() * scale

    return norm


usual = norm_over(-1)


def norms_values(scale: Callable) -> Callable:
    """Return a `qk_norm` that normalises the values too, with what this makes of the two scales."""

    def answer(q, k, v, q_scale, k_scale, eps=1e-6):
        return *qk_norm(q, k, v, q_scale, k_scale, eps)[:2], usual(v, scale(q_scale, k_scale), eps)

    return answer


def divides_by_n_minus_1(x, scale, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + eps).sqrt() * scale


def adds_eps_to_std(x, scale, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) * scale


def adds_eps_outside(x, scale, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, unbiased=False, keepdim=True) + eps) * scale


def clamps_the_variance(x, scale, eps):
    x = x - x.mean(-1, keepdim=True)
    return x * x.square().mean(-1, keepdim=True).clamp(min=eps).rsqrt() * scale


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


@demand(
    {
        "no gradient reaches": norming(lambda x, scale, eps: usual(x.detach(), scale, eps)),
        "no gradient reaches `k`": lambda q, k, *rest: qk_norm(q, k.detach(), *rest),
        "no gradient reaches `v`": lambda q, k, v, *rest: qk_norm(q, k, v.detach(), *rest),
    }
)
def lets_projections_learn(answer):
    compare_gradients(in_one_tensor(answer), in_one_tensor(qk_norm), (*qkv(1, 2, 3, 4), *scales(4)))


@demand(
    {
        "some numbers are nan for constant vectors": norming(
            lambda x, scale, eps: (
                (x - x.mean(-1, True))
                / (x.square().mean(-1, True) - x.mean(-1, True) ** 2 + eps).sqrt()
                * scale
            )
        )
    }
)
def keeps_constant_vectors_finite(answer):
    x = torch.linspace(0, 10, 1001)[:, None].expand(1, 1, -1, 8)
    got = outcome(lambda f, *case: torch.cat(f(*case)), answer, (x, x, x, *scales(8)))
    if isinstance(got, Tensor) and not got.isfinite().all():
        raise Mistake(
            "some numbers are nan for constant vectors: mean(x²) - mean(x)² can be below 0, `var` cannot"
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
        {
            "you normalise over the tokens: each query by itself, over its d numbers": norming(norm_over(-2)),
            "you normalise over the heads: each query by itself, over its d numbers": norming(norm_over(1)),
            "you normalise over tokens and numbers together: each query by itself, over its d numbers": norming(
                norm_over(-2, -1)
            ),
            "you normalise over all numbers at once: each query by itself, over its d numbers": [
                norming(norm_over(0, 1, 2, 3)),
                norming(lambda x, scale, eps: (x - x.mean()) / x.std() * scale),
            ],
            "you normalise over heads and numbers together: each head by itself, over its d numbers": norming(
                norm_over(1, -1)
            ),
            "the values are normalised too: they are what is handed over, and stay as they are": [
                norms_values(lambda q_scale, k_scale: 1),
                norms_values(lambda q_scale, k_scale: q_scale),
                norms_values(lambda q_scale, k_scale: k_scale),
            ],
            "the values are missing: return queries, keys and values": lambda *given: qk_norm(*given)[:2],
            "you also divide by sqrt(d): attention does that afterwards, after the norm": norming(
                usual, after=lambda q: q * q.shape[-1] ** -0.5
            ),
            "the mean is not subtracted: this is an RMS norm, the task is a layer norm without shift": [
                norming(lambda x, scale, eps: x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * scale),
                norming(lambda x, scale, eps: F.normalize(x, dim=-1) * x.shape[-1] ** 0.5 * scale),
            ],
            "you divide by the variance: its root is missing": norming(
                lambda x, s, eps: (x - x.mean(-1, True)) / (x.var(-1, unbiased=False, keepdim=True) + eps) * s
            ),
            "your vectors have length 1: that is a cosine; with variance 1 they have length sqrt(d)": [
                norming(lambda x, scale, eps: F.normalize(x - x.mean(-1, keepdim=True), dim=-1) * scale),
                norming(lambda x, scale, eps: F.normalize(x, dim=-1) * scale),
            ],
            "the scale is added, as a bias: it is a factor": norming(lambda x, s, eps: usual(x, 1, eps) + s),
            "the scale is used as 1 + scale: it is the factor itself": norming(
                lambda x, scale, eps: usual(x, 1 + scale, eps)
            ),
            "the scale comes before the norm, which takes most of it away again: multiply afterwards": norming(
                lambda x, scale, eps: usual(x * scale, 1, eps)
            ),
            "the two scales are swapped: q_scale belongs to the queries": (
                lambda q, k, v, q_scale, k_scale, eps=1e-6: qk_norm(q, k, v, k_scale, q_scale, eps)
            ),
            "the variance divides by d, yours by d - 1: `unbiased=False`": [
                norming(divides_by_n_minus_1),
                norming(adds_eps_to_std),
            ],
            "eps is added to the variance, inside the root": norming(adds_eps_outside),
            "`eps` is not used: `F.layer_norm` has another one by default": [
                norming(lambda x, scale, eps: usual(x, scale, 1e-5)),
                norming(lambda x, scale, eps: usual(x, scale, 1e-6)),
            ],
            "your eps is a lower bound: it should be added to every variance": norming(clamps_the_variance),
        },
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
        raise Mistake(f"{where}: return three tensors, queries, keys and values; yours: {', '.join(kinds)}")
    if not all(x.isfinite().all() for x in got):
        raise Mistake(
            f"{where}: your results hold nan or infinity: look for a division by 0, or a negative base"
        )
    for name, mine, given in zip("qkv", got, inputs, strict=True):
        if mine.shape != given.shape:
            raise Mistake(f"{where}: {name} should stay {tuple(given.shape)}, yours is {tuple(mine.shape)}")
        if mine.dtype != given.dtype:
            raise Mistake(f"{where}: {name} should stay {given.dtype}, yours is {mine.dtype}")
    return tuple(got)


def rotations(answer: Callable, dim: int, *options, grid=GRID) -> tuple[Tensor, Tensor]:
    """Return what an answer does to queries and keys of each of six patches of a grid, as matrices (N, d, d)."""
    unit = torch.eye(dim)[None, :, None].expand(1, dim, 7, dim).clone()  # head i holds e_i
    q, k, _ = triple(answer, (unit, unit, unit), grid, 1, *options)
    return q[0, :, 1:].movedim(0, -1), k[0, :, 1:].movedim(0, -1)


def same(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-5, rtol=1e-4)


def rotating(places: Callable | None = None, angles: Callable | None = None, apply: Callable | None = None):
    """Return a `rope_2d` with other places, other angles or another way to turn."""

    def answer(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
        quarter = q.shape[-1] // 4
        frequencies = temperature ** (-torch.arange(quarter, dtype=q.dtype) / quarter)
        r, c = (places or reading_order)(*grid_size)
        table = (angles or row_then_column)(r[:, None], c[:, None], frequencies)
        table = F.pad(table, (0, 0, num_prefix_tokens, 0))
        return (apply or turns_both)(q, k, v, table)

    return answer


def reading_order(rows, columns):
    return torch.arange(rows).repeat_interleave(columns), torch.arange(columns).repeat(rows)


def row_then_column(r, c, w):
    return torch.cat([r * w, c * w], dim=1)


def turns_both(q, k, v, table):
    return turn(q, table), turn(k, table), v


def along_the_list(rows, columns):
    return torch.arange(rows * columns), torch.arange(rows * columns)


def swapped_grid(rows, columns):
    return reading_order(columns, rows)


def down_first(rows, columns):
    return reading_order(columns, rows)[::-1]


def turn(x, table):
    first, second = x.chunk(2, dim=-1)
    sin, cos = table.sin(), table.cos()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def cuts_half(x, table):
    straight = x * table.cos().repeat(1, 2)
    return straight + (turn(x, table) - straight).detach()


def mirror(x, table):
    first, second = x.chunk(2, dim=-1)
    sin, cos = table.sin(), table.cos()
    return torch.cat([first * cos + second * sin, first * sin - second * cos], dim=-1)


def mirrors(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    both = rotating(apply=lambda q, k, v, table: (mirror(q, table), mirror(k, table), v))
    patches = (x[:, :, num_prefix_tokens:] for x in both(q, k, v, grid_size, num_prefix_tokens, temperature))
    return tuple(
        torch.cat([x[:, :, :num_prefix_tokens], y], 2) for x, y in zip((q, k, v), patches, strict=True)
    )


def forgets_the_sign(x, table):
    first, second = x.chunk(2, dim=-1)
    sin, cos = table.sin(), table.cos()
    return torch.cat([first * cos + second * sin, first * sin + second * cos], dim=-1)


def mixes_up_the_terms(x, table):
    first, second = x.chunk(2, dim=-1)
    sin, cos = table.sin(), table.cos()
    return torch.cat([first * cos - second * sin, first * cos + second * sin], dim=-1)


def adds_places(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    r, c = reading_order(*grid_size)
    place = F.pad((r + c)[:, None], (0, 0, num_prefix_tokens, 0))
    return q + place, k + place, v


def turns_cls(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    parts = rope_2d(q.flip(2), k.flip(2), v, (1, q.shape[-2]), 0, temperature)
    inner = rope_2d(q, k, v, grid_size, num_prefix_tokens, temperature)
    return *(
        torch.cat([x[:, :, -1:], y[:, :, 1:]], dim=2) for x, y in zip(parts[:2], inner[:2], strict=True)
    ), v


def behind_one_token(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    def places(rows, columns):
        place = torch.arange(q.shape[-2] - num_prefix_tokens) + num_prefix_tokens - 1
        return place // columns, place % columns

    return rotating(places)(q, k, v, grid_size, num_prefix_tokens, temperature)


def angles_behind_patches(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    none_in_front = rotating(
        apply=lambda q, k, v, table: turns_both(q, k, v, F.pad(table, (0, 0, 0, num_prefix_tokens)))
    )
    return none_in_front(q, k, v, grid_size, 0, temperature)


def other_temperature(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    return rope_2d(q, k, v, grid_size, num_prefix_tokens)


def any_number_of_tokens(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    count, (rows, columns) = q.shape[-2] - num_prefix_tokens, grid_size
    rows = max(rows, -(-count // columns))
    full = [F.pad(x, (0, 0, 0, num_prefix_tokens + rows * columns - x.shape[-2])) for x in (q, k, v)]
    return tuple(
        x[:, :, : q.shape[-2]] for x in rope_2d(*full, (rows, columns), num_prefix_tokens, temperature)
    )


@demand(
    {
        "the values are turned too: only queries and keys meet in a score": rotating(
            apply=lambda q, k, v, t: (turn(q, t), turn(k, t), turn(v, t))
        ),
        "with num_prefix_tokens = 1, the token in front is turned": turns_cls,
        "with num_prefix_tokens = 2, one of the 2 tokens in front is turned": angles_behind_patches,
        "with two tokens in front the patches are turned as if there were one": behind_one_token,
    }
)
def leaves_values_and_prefix(answer):
    inputs = tuple(qkv(2, 2, 7, 8))
    q, k, v = triple(answer, inputs, GRID)
    if not same(v, inputs[2]):
        raise Mistake("the values are turned too: only queries and keys meet in a score")
    for prefix in (1, 2, 0):
        inputs = tuple(qkv(1, 2, 6 + prefix, 8))
        for mine, given in zip(triple(answer, inputs, GRID, prefix), inputs, strict=True):
            if prefix == 1 and not any(same(mine[:, :, i], given[:, :, i]) for i in (0, 1)):
                raise Mistake(
                    "with the angle 0 (the patch in row 0 and column 0, and CLS) a point (a, b) stays where it is, "
                    "for cos 0 = 1 and sin 0 = 0; yours moves: look at the signs, and put each number back into the "
                    "place that it came from"
                )
            if not same(mine[:, :, :prefix], given[:, :, :prefix]):
                turned = "the token in front" if prefix == 1 else f"one of the {prefix} tokens in front"
                raise Mistake(
                    f"with num_prefix_tokens = {prefix}, {turned} is turned, but it has no place: leave it as it is, "
                    "and let the angles of the patches begin after all of them"
                )
    inputs = tuple(qkv(1, 2, 8, 8))
    one, two = (triple(answer, tuple(x[:, :, 2 - n :] for x in inputs), GRID, n)[0][:, :, n:] for n in (1, 2))
    if not same(one, two):
        raise Mistake(
            "with two tokens in front the patches are turned as if there were one: the first patch, in row 0 and "
            "column 0, stands at index `num_prefix_tokens`"
        )


@demand(
    {
        "return queries, keys and values, in this order": lambda *case: rope_2d(*case)[::-1],
        "your keys change with the queries": rotating(apply=lambda q, k, v, t: (turn(q, t), turn(q, t), v)),
        "no gradient comes through": [
            lambda *case: tuple(x.detach() for x in rope_2d(*case)),
            rotating(apply=lambda q, k, v, t: (cuts_half(q, t), cuts_half(k, t), v)),
        ],
        "a rotation keeps the length": [
            rotating(apply=lambda q, k, v, t: (forgets_the_sign(q, t), forgets_the_sign(k, t), v)),
            rotating(apply=lambda q, k, v, t: (mixes_up_the_terms(q, t), mixes_up_the_terms(k, t), v)),
            adds_places,
        ],
    }
)
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
        raise Mistake("no gradient comes through: queries and keys are what the model learns to ask with")
    if not same(triple(answer, (-inputs[0], *inputs[1:]), GRID)[1], results[1]):
        raise Mistake("your keys change with the queries: turn `k` by its own numbers, in both terms")
    if same(results[0], inputs[2]) and not same(results[2], inputs[2]):
        raise Mistake("your first result is v: return queries, keys and values, in this order")
    for name, mine, given in zip(("query", "key"), results, inputs, strict=False):
        if not same(mine.norm(dim=-1), given.norm(dim=-1)):
            raise Mistake(
                f"a rotation keeps the length of every {name}, yours changes it: a point (a, b) becomes "
                "(a·cos - b·sin, a·sin + b·cos), with one angle for both numbers of the pair"
            )


@demand(
    {
        "yours becomes (a, -b) or (-a, b): look at the signs": mirrors,
        "the patch in row 0 and column 0 is turned": rotating(
            lambda rows, columns: tuple(place + 1 for place in reading_order(rows, columns))
        ),
        "a step down turns nothing": rotating(angles=lambda r, c, w: torch.cat([0 * r * w, c * w], dim=1)),
        "a step to the right turns nothing": rotating(
            angles=lambda r, c, w: torch.cat([r * w, 0 * c * w], dim=1)
        ),
        "only the queries are turned": rotating(apply=lambda q, k, v, t: (turn(q, t), k, v)),
        "only the keys are turned": rotating(apply=lambda q, k, v, t: (q, turn(k, t), v)),
        "no patch is turned at all": rotating(apply=lambda q, k, v, t: (q, k, v)),
        "patches are numbered along the list": rotating(along_the_list),
        "right on a grid of 2x3, but not on one of 3x2": rotating(
            lambda rows, columns: ((torch.arange(6) >= columns).long(), torch.arange(6) % columns)
        ),
        "do not divide them by its size": rotating(lambda *grid: map(torch.div, reading_order(*grid), grid)),
        "your places fit another grid": [rotating(swapped_grid), rotating(down_first)],
    }
)
def knows_rows_and_columns(answer):
    turned, keys = (x.reshape(*GRID, 8, 8) for x in rotations(answer, 8))
    still = torch.eye(8)
    if not same(turned[0, 0], still) and same(turned[0, 0].abs(), still):
        raise Mistake(
            "the patch in row 0 and column 0 has the angle 0, so a point (a, b) should stay where it is; yours becomes "
            "(a, -b) or (-a, b): look at the signs"
        )
    if not same(turned[0, 0], still):
        raise Mistake("the patch in row 0 and column 0 is turned: rows and columns count from 0")
    one, other = (not same(x[1, 2], still) for x in (turned, keys))
    if one != other:
        raise Mistake(f"only the {'queries' if one else 'keys'} are turned: the offset appears when both are")
    if same(turned, still.expand_as(turned)):
        raise Mistake("no patch is turned at all: are your frequencies, or your angles, 0?")
    if same(turned[1, 0], turned[0, 1].matrix_power(3)) and not same(turned[0, 1], still):
        raise Mistake("patches are numbered along the list: row and column have pairs of their own")
    if same(turned[1, 1], turned[0, 2] @ turned[0, 2]) and not same(turned[0, 1], still):
        raise Mistake(
            "your places fit another grid: grid_size is (rows, columns), and the patches come row by row. In a grid of "
            "2x3, patch 3 stands in row 1 and column 0"
        )
    for what, place in (("down", (1, 0)), ("to the right", (0, 1))):
        if same(turned[place], still):
            raise Mistake(
                f"a step {what} turns nothing: half of the pairs belong to the row, half to the column"
            )
    other = rotations(answer, 8, grid=(3, 2))[0]
    if not (same(other[1], turned[0, 1]) or same(other[1], turned[1, 0])):
        raise Mistake("places are whole numbers, 0, 1, 2, in every grid: do not divide them by its size")
    if not same(other[5], turned[1, 0] @ turned[1, 0] @ turned[0, 1]):
        raise Mistake(
            "right on a grid of 2x3, but not on one of 3x2: the last patch stands in row 2 and column 1"
        )


@demand(
    {
        "depends on more than their offset": rotating(apply=lambda q, k, v, t: (turn(q, t), turn(k, -t), v)),
        "not in every head": lambda q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0: tuple(
            torch.cat([mine[:, :1], given[:, 1:]], dim=1) if q.shape[1] == 2 else mine
            for mine, given in zip(
                rope_2d(q, k, v, grid_size, num_prefix_tokens, temperature), (q, k, v), strict=True
            )
        ),
    }
)
def sees_the_offset_alone(answer):
    turned, keys = (x.reshape(*GRID, 8, 8) for x in rotations(answer, 8))
    score = [turned[a].mT @ keys[b] for a, b in (((0, 0), (0, 1)), ((1, 1), (1, 2)), ((0, 1), (0, 2)))]
    if not all(same(score[0], other) for other in score):
        raise Mistake(
            "the score of two patches depends on more than their offset: turn queries and keys in the same direction, "
            "with the same pairs"
        )
    inputs = tuple(qkv(2, 2, 7, 8))
    q = triple(answer, inputs, GRID)[0][:, :, 1:]
    if not same(q, (turned.reshape(6, 8, 8) @ inputs[0][:, :, 1:, :, None]).squeeze(-1)):
        raise Mistake("a patch turns alike, but not in every head and picture: only its place counts")


@demand(
    {
        "all pairs of an axis turn by the same angle": rotating(
            angles=lambda r, c, w: torch.cat([r + 0 * w, c + 0 * w], dim=1)
        ),
        "the angles of one step": [
            rotating(angles=lambda r, c, w: torch.cat([r * w.sqrt(), c * w.sqrt()], dim=1)),
            rotating(angles=lambda r, c, w: torch.cat([r * w, c * w / 100], dim=1)),
            rotating(angles=lambda r, c, w: 6.2832 * torch.cat([r * w, c * w], dim=1)),
            rotating(angles=lambda r, c, w: torch.cat([r * w ** (len(w) / 4), c * w ** (len(w) / 4)], dim=1)),
        ],
        "`temperature` is not used": other_temperature,
        "`step` is not used": lambda q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0, step=1.0: (
            rope_2d(q, k, v, grid_size, num_prefix_tokens, temperature)
        ),
    }
)
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
                raise Mistake("all pairs of an axis turn by the same angle: pair j has the frequency w_j")
            found, right = (", ".join(f"{x:.3g}" for x in angles.tolist()) for angles in (steps, wanted))
            raise Mistake(
                f"the angles of one step {what} should be {right}, and 0 for the {count} pairs of the other axis, with "
                f"d = {dim}. Yours, in another order and without whole turns: {found}"
            )


exercise(
    rope_2d,
    keeps_lengths,  # before CLS: a wrong formula changes it even at the angle 0
    leaves_values_and_prefix,
    knows_rows_and_columns,
    sees_the_offset_alone,
    turns_by_its_frequencies,
    refuses((*qkv(1, 1, 7, 6), GRID), "d = 6 is not a multiple of 4"),
    refuses((*qkv(1, 1, 8, 8), GRID), "8 tokens are not CLS and 2x3 patches", any_number_of_tokens),
    refuses((*qkv(1, 1, 6, 8), GRID), "6 tokens are not CLS and 2x3 patches"),
)

# -- attention_pool


def reading(
    weigh: Callable = lambda scores: scores.softmax(-1),
    scale: Callable = lambda d: d**-0.5,
    first: Callable = lambda prefix: prefix,
    read: Callable = lambda weights, k, v: (weights[..., None] * v).sum(-2),
) -> Callable:
    """Return an `attention_pool` with some of its steps changed."""

    def answer(query, k, v, num_prefix_tokens=1):
        k, v = k[:, :, first(num_prefix_tokens) :], v[:, :, first(num_prefix_tokens) :]
        weights = weigh(torch.einsum("hd,bhtd->bht", query, k) * scale(query.shape[-1]))
        return read(weights, k, v), weights

    return answer


def hides_cls_with_zero(query, k, v, num_prefix_tokens=1):
    scores = torch.einsum("hd,bhtd->bht", query, k) * query.shape[-1] ** -0.5
    weights = scores.softmax(-1)[:, :, num_prefix_tokens:]
    return torch.einsum("bht,bhtd->bhd", weights, v[:, :, num_prefix_tokens:]), weights


def prefix_scores_zero(query, k, v, num_prefix_tokens=1):
    k = k.clone()
    k[:, :, :num_prefix_tokens] = 0
    return hides_cls_with_zero(query, k, v, num_prefix_tokens)


def hides_with_a_number(query, k, v, num_prefix_tokens=1):
    scores = torch.einsum("hd,bhtd->bht", query, k) * query.shape[-1] ** -0.5
    scores[..., :num_prefix_tokens] = -100.0
    weights = scores.softmax(-1)[..., num_prefix_tokens:]
    return torch.einsum("bht,bhtd->bhd", weights, v[:, :, num_prefix_tokens:]), weights


def prefix_behind(query, k, v, num_prefix_tokens=1):
    stop = k.shape[2] - num_prefix_tokens
    return attention_pool(query, k[:, :, :stop], v[:, :, :stop], 0)


LOW = (
    "here all scores are far below -100: that number hides no prefix then, and `clamp` makes all scores equal"
)


@demand(
    {
        LOW: hides_with_a_number,
        "with scores in the hundreds your softmax overflows or divides 0 by 0": [
            reading(lambda scores: scores.exp() / scores.exp().sum(-1, keepdim=True)),
            reading(
                lambda scores: (
                    (scores - scores.max()).exp() / (scores - scores.max()).exp().sum(-1, keepdim=True)
                )
            ),
        ],
    }
)
def stands_large_scores(answer):
    large = (600 * drawn(2, 4), *qkv(2, 2, 5, 4)[:2])
    low = (torch.full((2, 4), -900.0), *(x.abs() for x in large[1:]))
    found = answer(*low)
    if found[0].isfinite().all() and difference(found, attention_pool(*low)):
        raise Mistake(f"{LOW}. Leave the prefix out before the softmax, and cut nothing off")
    if difference(answer(*large), attention_pool(*large)):
        raise Mistake(
            "with scores in the hundreds your softmax overflows or divides 0 by 0: exp(89) is infinite in float32, "
            "exp(-110) is 0. Leave the prefix out before it, and use `.softmax(dim=-1)`, which subtracts the largest "
            "score of *each row* first"
        )


@demand({"no gradient reaches `query`": lambda query, *rest: attention_pool(query.detach(), *rest)})
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
        {
            "CLS is read too: leave out the `num_prefix_tokens` in front": reading(first=lambda prefix: 0),
            "CLS is left out after the softmax, so the weights of the patches do not sum to 1": hides_cls_with_zero,
            "the prefix has the score 0 in your code, so it still counts in the softmax, with exp(0) = 1: leave it out "
            "before the softmax": prefix_scores_zero,
            "the keys begin after the prefix, your values do not: each weight meets the value of another token": (
                lambda query, k, v, num_prefix_tokens=1: attention_pool(
                    query, k, v.roll(num_prefix_tokens, dims=2), num_prefix_tokens
                )
            ),
            "right for one prefix token alone: use `num_prefix_tokens`": reading(first=lambda prefix: 1),
            "divided by the number of patches once more: the weights sum to 1 already": reading(
                read=lambda weights, k, v: (weights[..., None] * v).mean(-2)
            ),
            "the queries of all heads are added up: each head asks with its own": (
                lambda query, *rest: attention_pool(query.sum(0).expand_as(query), *rest)
            ),
            "the last tokens are left out, and CLS is read: the prefix stands in front": prefix_behind,
            "the keys are scaled to length 1: the scores are products with the keys as they are": (
                lambda query, k, v, *rest: attention_pool(query, F.normalize(k, dim=-1), v, *rest)
            ),
        },
        float64=False,
    ),
    stands_large_scores,
    lets_the_query_learn,
)

# -- merge_tokens


class Merging:
    """Token merging picture by picture, so that a mistake can change one of its steps."""

    def __call__(self, tokens, k, sizes, r, num_prefix_tokens=1):
        if r > len(range(num_prefix_tokens + num_prefix_tokens % 2, tokens.shape[1], 2)):
            raise ValueError("too few sources")
        found = [self.one(*picture, r, num_prefix_tokens) for picture in zip(tokens, k, sizes, strict=True)]
        return tuple(torch.stack(part) for part in zip(*found, strict=True))

    def one(self, tokens, k, sizes, r, prefix):
        places = torch.arange(self.first(prefix), len(tokens))
        sources, targets = self.roles(places)
        best, nearest = self.likeness(k, tokens)[sources][:, targets].max(dim=-1)
        chosen = self.choose(best)[:r]
        gone, into = sources[chosen], targets[self.partners(nearest, chosen)]
        tokens, sizes = self.put(tokens.clone(), sizes.clone(), gone, into)
        stays = self.order([i for i in range(len(tokens)) if i not in gone.tolist()], prefix, len(gone))
        return tokens[stays], sizes[stays]

    def partners(self, nearest, chosen):
        return nearest[chosen]

    def order(self, stays, prefix, r):
        return stays

    def first(self, prefix):
        return prefix

    def roles(self, places):
        return places[places % 2 == 0], places[places % 2 == 1]

    def likeness(self, k, tokens):
        unit = F.normalize(k, dim=-1)
        return unit @ unit.T

    def choose(self, best):
        return best.argsort(descending=True)

    def put(self, tokens, sizes, gone, into):
        total, count = tokens * sizes[:, None], sizes.clone()
        for source, target in zip(gone.tolist(), into.tolist(), strict=True):
            total[target] += total[source]
            count[target] += count[source]
        return total / count[:, None], count


def merging(**changed: Callable) -> Merging:
    """Return a `merge_tokens` with some of its steps changed."""
    changed_class = type("Changed", (Merging,), changed)
    return lambda tokens, k, sizes, r, num_prefix_tokens=1: changed_class()(
        tokens, k, sizes, r, num_prefix_tokens
    )


def chooses_for_all(tokens, k, sizes, r, num_prefix_tokens=1):
    likeness = [Merging().likeness(keys, None) for keys in k]
    sources, targets = Merging().roles(torch.arange(num_prefix_tokens, tokens.shape[1]))
    order = torch.stack([x[sources][:, targets].amax(-1) for x in likeness]).mean(0).argsort(descending=True)
    return merging(choose=lambda self, best: order)(tokens, k, sizes, r, num_prefix_tokens)


def drops(self, tokens, sizes, gone, into):
    return tokens, sizes


def forgets_sizes(self, tokens, sizes, gone, into):
    return Merging.put(self, tokens, sizes, gone, into)[0], sizes


def equal_shares(self, tokens, sizes, gone, into):
    ones = torch.ones_like(sizes)
    count = Merging.put(self, tokens, sizes, gone, into)[1]
    return Merging.put(self, tokens, ones, gone, into)[0], count


def target_weighs_one(self, tokens, sizes, gone, into):
    weights = torch.ones_like(sizes).index_put((gone,), sizes[gone])
    return Merging.put(self, tokens, weights, gone, into)[0], Merging.put(self, tokens, sizes, gone, into)[1]


def source_weighs_one(self, tokens, sizes, gone, into):
    return Merging.put(self, tokens, sizes.index_fill(0, gone, 1.0), gone, into)


def sums(self, tokens, sizes, gone, into):
    for source, target in zip(gone.tolist(), into.tolist(), strict=True):
        tokens[target] += tokens[source]
        sizes[target] += sizes[source]
    return tokens, sizes


def last_one_wins(self, tokens, sizes, gone, into):
    total, count = tokens * sizes[:, None], sizes.clone()
    total[into] = total[into] + total[gone]
    count[into] = count[into] + count[gone]
    return total / count[:, None], count


def sizes_first(self, tokens, sizes, gone, into):
    count = sizes.index_add(0, into, sizes[gone])
    total = tokens * count[:, None]
    return total.index_add(0, into, total[gone]) / count[:, None], count


def first_size_of_target(self, tokens, sizes, gone, into):
    count = Merging.put(self, tokens, sizes, gone, into)[1]
    for source, target in zip(gone.tolist(), into.tolist(), strict=True):
        total = tokens[target] * sizes[target] + tokens[source] * sizes[source]
        tokens[target] = total / (sizes[target] + sizes[source])
    return tokens, count


def keys_of_length_1_over_tokens(self, k, tokens):
    unit = F.normalize(k, dim=0)
    return unit @ unit.T


def refuses_nothing(tokens, k, sizes, r, num_prefix_tokens=1):
    most = len(range(num_prefix_tokens + num_prefix_tokens % 2, tokens.shape[1], 2))
    return merge_tokens(tokens, k, sizes, min(r, most), num_prefix_tokens)


def sources_first(self, stays, prefix, r):
    return sorted(stays, key=lambda place: (place >= prefix) * (1 + place % 2)) if r else stays


def scene(batch: int, count: int, dim: int, r: int, *prefix: int, seed: int = 0) -> tuple:
    """Return tokens, keys that do not look like them, sizes from 1 to 4, and r."""
    sizes = drawn(batch, count, seed=seed + 2).abs().mul(2).floor().clamp(0, 3) + 1
    keys = drawn(batch, count, 3, seed=seed + 1) * (1 + 3 * drawn(batch, count, 1, seed=seed + 3).abs())
    return drawn(batch, count, dim, seed=seed), keys, sizes, r, *prefix


@demand({"no gradient reaches `tokens`": torch.no_grad()(merge_tokens)})
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
        {
            "sources and targets are swapped: the even places are sources, the odd ones targets": merging(
                roles=lambda self, places: Merging.roles(self, places)[::-1]
            ),
            "the sources disappear without a trace: that is pruning. Merging adds them to their targets": merging(
                put=drops
            ),
            "the tokens are right, but their sizes do not grow: a merged token stands for more patches": merging(
                put=forgets_sizes
            ),
            "source and target count alike in your mean: weight each with its size": merging(
                put=equal_shares
            ),
            "a source counts as one patch in your mean and in the new size: it counts with its own size": merging(
                put=source_weighs_one
            ),
            "a target counts as one patch in your mean: weight it with its size too": merging(
                put=target_weighs_one
            ),
            "a target weighs in your mean with the size that it will have: weight each token with its own size, and "
            "add up the sizes afterwards": merging(put=sizes_first),
            "where a target has several sources, your target keeps its first size in each mean: the mean weights all "
            "that went into it, so its size grows with each source": merging(put=first_size_of_target),
            "your keys are brought to length 1 along the tokens, axis 1, as `F.normalize` without `dim` does it: a "
            "cosine needs keys of length 1, dim=-1": merging(likeness=keys_of_length_1_over_tokens),
            "with two or more prefix tokens one of them is a target in your code: prefix tokens are neither source nor "
            "target": merging(
                roles=lambda self, places: (places[places % 2 == 0], torch.arange(1, int(places[-1]) + 1, 2))
            ),
            "you add the tokens: a target becomes the mean, each token weighted with its size": merging(
                put=sums
            ),
            "two sources with the same target: only the last one arrives. Assignment by a list of places overwrites; "
            "use `scatter_add` or `index_add`": merging(put=last_one_wins),
            "CLS is merged: the `num_prefix_tokens` in front are neither source nor target": merging(
                first=lambda self, prefix: 0
            ),
            "right for one prefix token alone: use `num_prefix_tokens`": merging(
                first=lambda self, prefix: 1
            ),
            "your places count from the first patch: they count from the start of the sequence, where CLS has "
            "place 0, so the patch after it is a target": merging(
                roles=lambda self, places: (places[::2], places[1::2])
            ),
            "you compare by the dot product, so long keys win: compare by the cosine": merging(
                likeness=lambda self, k, tokens: k @ k.T
            ),
            "you compare the tokens: compare their keys": merging(
                likeness=lambda self, k, tokens: Merging.likeness(self, tokens, k)
            ),
            "the least similar sources go: take the most similar ones": merging(
                choose=lambda self, best: best.argsort()
            ),
            "the same sources go in all pictures: each picture has its own r most similar ones": chooses_for_all,
            "the first r sources go, whatever they are like: take the most similar ones": merging(
                choose=lambda self, best: torch.arange(len(best))
            ),
            "the tokens are right, but not their order: those that stay keep the order of the sequence": [
                merging(order=sources_first),
                merging(order=lambda self, stays, prefix, r: sources_first(self, stays, prefix, 1)),
                merging(order=lambda self, stays, prefix, r: stays[:prefix] + stays[prefix:][::-1]),
            ],
            "each source that goes joins the target of another one: `nearest` has an entry for every source, take "
            "those of the chosen ones": merging(
                partners=lambda self, nearest, chosen: nearest[: len(chosen)]
            ),
            "you add up tokens times sizes, and do not divide by the new size": merging(
                put=lambda self, *given: ((made := Merging.put(self, *given))[0] * made[1][:, None], made[1])
            ),
            "you divide by the size from before: a merged token has the sum of the sizes": merging(
                put=lambda self, tokens, sizes, *given: (
                    (made := Merging.put(self, tokens, sizes, *given))[0] * (made[1] / sizes)[:, None],
                    made[1],
                )
            ),
            "you compare by the distance: compare by the cosine": merging(
                likeness=lambda self, k, tokens: -torch.cdist(k, k)
            ),
            "sources find the target that is least like them": merging(
                likeness=lambda self, k, tokens: -Merging.likeness(self, k, tokens)
            ),
        },
    ),
    lets_tokens_learn,
    refuses(small(4), "r = 4, but CLS and six patches have three sources", refuses_nothing),
    refuses(
        (torch.ones(1, 3, 2), torch.ones(1, 3, 2), torch.ones(1, 3), 1, 2),
        "after 2 prefix tokens the only patch is a source, at place 2, and no target is left",
        merging(),
    ),
)
