"""Checks of lesson 03: position."""

import inspect
from functools import partial

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from vit_course import embeddings, interpret
from vit_course.classroom.checks.compare import compare, compare_gradients, demand_error
from vit_course.classroom.checks.outcome import Mistake, outcome
from vit_course.classroom.checks.parts import counting
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import describe, difference, explain_error


def _call(function, *arguments):
    return function(*arguments)


class _Encoder:
    """A small stand-in for an encoder that says in the verdict what it does."""

    def __init__(self, name: str, function):
        self.name, self.function = name, function

    def __call__(self, tokens: Tensor) -> Tensor:
        return self.function(tokens)

    def __repr__(self) -> str:
        return f"<{self.name}>"


@exercise(interpret.equivariance_gap)
def check_equivariance_gap(answer):
    running_sum = _Encoder("running sum over the tokens", lambda x: x.cumsum(1))
    negative = _Encoder("tokens minus their running sum", lambda x: x - x.cumsum(1))
    blind = _Encoder("adds the mean of all tokens", lambda x: x + x.mean(1, keepdim=True))
    half = _Encoder("running sum in the second sequence alone", lambda x: torch.cat([x[:1], x[1:].cumsum(1)]))
    three, five = torch.tensor([1, 2, 0]), torch.tensor([3, 0, 4, 1, 2])
    cases = [
        (running_sum, torch.tensor([[[1.0], [2.0], [4.0]]]), three),
        (negative, torch.tensor([[[1.0], [2.0], [4.0]]]), three),
        (blind, torch.rand(2, 5, 4), five),
        (half, torch.rand(2, 5, 4), five),
        (running_sum, torch.randn(3, 3, 3), three),
        (half, torch.randn(5, 5, 5), five),
        (negative, torch.randn(2, 5, 3, dtype=torch.float64), five),
    ]

    def gap(reduce=lambda x: x.abs().max(), first=lambda x, p: x[:, p], last=None):
        return lambda encoder, x, p: reduce(encoder(first(x, p)) - (last or first)(encoder(x), p)).item()

    compare(
        answer,
        interpret.equivariance_gap,
        cases,
        [
            (
                gap(last=lambda x, p: x),
                "you compare with the result in its old order: shuffle the second result too. An encoder that is "
                "blind to order gives the same vectors, at their new places",
            ),
            (
                gap(last=lambda x, p: x[:, p.argsort()]),
                "you undo the order where you should apply it: both ways end in the order `[:, permutation]`",
            ),
            (gap(first=lambda x, p: x[p]), "you shuffle the images of the batch; the tokens are axis 1"),
            (
                gap(first=lambda x, p: x[..., p]),
                "you shuffle the numbers inside a token; the tokens are axis 1",
            ),
            (
                gap(lambda x: x.max()),
                "a difference may be negative: take the absolute value before the largest",
            ),
            (
                gap(lambda x: x.max().abs()),
                "take the absolute value of every difference *before* the largest",
            ),
            (
                gap(lambda x: x.abs().mean()),
                "this is the mean difference: the docstring asks for the largest",
            ),
            (gap(lambda x: x.abs().sum()), "this is the sum of the differences: return the largest"),
            (
                gap(lambda x: x.square().max()),
                "these are squares: the docstring asks for absolute differences",
            ),
            (gap(lambda x: x[0].abs().max()), "you look at the first image alone; the batch has more"),
            (
                lambda f, x, p: (x - x[:, p]).abs().max().item(),
                "the encoder is never asked: call it on tokens",
            ),
        ],
    )
    weight = torch.ones(1, requires_grad=True)
    learning = _Encoder("running sum times a learned weight", lambda x: weight * x.cumsum(1))
    result = outcome(_call, answer, (learning, torch.randn(2, 5, 3), five))
    if isinstance(result, Exception):
        raise Mistake(
            f"right, but with an encoder whose weights learn your code stopped with {explain_error(result)}\n"
            "A result with a gradient has no `.numpy()`: take the number out with `.item()`"
        )
    faint = _Encoder("adds a billionth of the running sum", lambda x: x + 1e-9 * x.cumsum(1))
    case = faint, torch.randn(2, 5, 3, dtype=torch.float64), five
    right, mine = interpret.equivariance_gap(*case), float(answer(*case))
    if not abs(mine - right) < 1e-3 * right:
        raise Mistake(
            f"on {describe(interpret.equivariance_gap, case)}, in float64: expected {right:.3g}, you returned "
            f"{mine:.3g}. The lesson tells so small a gap from rounding errors: do not round, and keep float64"
        )


@exercise(embeddings.add_position)
def check_add_position(answer):
    cases = [
        (counting(1, 3, 2), 10 * counting(1, 3, 2) + 10),
        (torch.randn(2, 5, 4), torch.randn(1, 5, 4)),
        (torch.randn(3, 3, 3), torch.randn(1, 3, 3)),
        (torch.randn(4, 7, 6, dtype=torch.float64), torch.randn(1, 7, 6, dtype=torch.float64)),
    ]

    def join(x, p, dim):
        return torch.cat([x, p.expand(len(x), -1, -1)], dim)

    def interleaved(x, p):
        return x + p.repeat_interleave(len(x), dim=1).reshape(x.shape)

    no_cls = "the CLS token at index 0 gets no position. It has a vector of its own, like every token"
    late = no_cls + ": vector 0 belongs to CLS, vector 1 to the first patch. Put CLS in front first, then add"
    compare(
        answer,
        embeddings.add_position,
        cases,
        [
            (
                partial(join, dim=2),
                "the width doubles, because you put the vectors side by side: add them, D stays",
            ),
            (partial(join, dim=1), "you append the positions as extra tokens: add each vector to its token"),
            (lambda x, p: x * p, "you multiply: equation 1 adds E_pos"),
            (lambda x, p: torch.cat([x[:, :1], x[:, 1:] + p[:, :-1]], dim=1), late),
            (lambda x, p: torch.cat([x[:, :1], x[:, 1:] + p[:, 1:]], dim=1), no_cls),
            (
                interleaved,
                "right for one image; with more, you repeat each vector B times in a row. Every image gets the same "
                "table: `+` repeats an axis of size 1 by itself (broadcasting)",
            ),
            (lambda x, p: x + p[:, :1], "every token gets vector 0: each position has its own vector"),
            (
                lambda x, p: x + p[0, : len(x)][:, None],
                "you give one vector to each image; they belong to positions",
            ),
            (lambda x, p: x * x.shape[-1] ** 0.5 + p, "you scale the tokens by sqrt(D): the ViT only adds"),
            (lambda x, p: (x + p) / 2, "this is the mean of the two: equation 1 adds, nothing is halved"),
            (lambda x, p: torch.cat([x[:1] + p, x[1:]]), "only the first image of the batch gets positions"),
        ],
    )
    compare_gradients(answer, embeddings.add_position, (torch.randn(2, 5, 4), torch.randn(1, 5, 4)))
    demand_error(
        answer,
        (torch.randn(2, 4, 4), torch.randn(1, 5, 4)),
        "4 tokens take 5 positions: somebody has forgotten the CLS token, and nobody will notice",
    )
    for number, width in ((1, 4), (5, 1)):
        demand_error(
            answer,
            (torch.randn(2, 5, 4), torch.randn(1, number, width)),
            f"tokens (2, 5, 4) and positions (1, {number}, {width}) pass without an error: `+` repeats the axis of "
            "size 1 (broadcasting), "
            + ("and the model is blind again" if number == 1 else "a sum without meaning"),
        )
    for number, width in ((5, 4), (4, 1)):
        demand_error(
            answer,
            (torch.randn(2, 1, 4), torch.randn(1, number, width)),
            f"tokens (2, 1, 4) and positions (1, {number}, {width}) pass without an error: one token becomes {number} "
            "(broadcasting). Demand equal numbers of tokens and positions, and equal widths",
        )


def _reading_order(rows: int, columns: int, start: int = 0) -> tuple[Tensor, Tensor]:
    y, x = torch.arange(start, rows + start), torch.arange(start, columns + start)
    return y.repeat_interleave(columns), x.repeat(rows)


def _sincos(places=_reading_order, exponent=lambda k, d: -k / (d // 4), layout=None, temperature=None):
    """Build `sincos_2d` with one thing changed: the mistakes."""
    layout = layout or (lambda y, x: [y.sin(), y.cos(), x.sin(), x.cos()])

    def function(grid_size, dim, given=10000.0):
        w = (temperature or given) ** exponent(torch.arange(dim // 4), dim)
        y, x = places(*grid_size)
        return torch.cat(layout(y.float()[:, None] * w, x.float()[:, None] * w), dim=1)

    return function


@exercise(embeddings.sincos_2d)
def check_sincos_2d(answer):
    cases = [
        ((2, 2), 4),
        ((2, 2), 8),
        ((2, 3), 8),
        ((3, 2), 12),
        ((4, 7), 24),
        ((1, 5), 16),
        ((3, 5), 16, 100.0),
    ]

    def alternating(y, x):
        return [torch.stack([t.sin(), t.cos()], dim=2).flatten(1) for t in (y, x)]

    def columns_first(y, x):
        return [x.sin(), x.cos(), y.sin(), y.cos()]

    def down(rows, columns):
        return _reading_order(columns, rows)[::-1]

    def one_line(rows, columns):
        return torch.arange(rows * columns), torch.arange(rows * columns)

    def fractions(rows, columns):
        y, x = _reading_order(rows, columns)
        return y / max(rows - 1, 1), x / max(columns - 1, 1)

    quarters = "sin(row), cos(row), sin(column), cos(column)"
    exponents = {
        "-k/D": lambda k, d: -k / d,
        "-2k/D": lambda k, d: -2 * k / d,
        "-k/(D/4 - 1)": lambda k, d: -k / max(d // 4 - 1, 1),
        "+k/(D/4)": lambda k, d: k / (d // 4),
    }
    compare(
        answer,
        embeddings.sincos_2d,
        cases,
        [
            (
                _sincos(layout=columns_first),
                "the column comes first in your vectors: the first half is for the row",
            ),
            (
                _sincos(layout=lambda y, x: [y.cos(), y.sin(), x.cos(), x.sin()]),
                f"sine and cosine are swapped: the order is {quarters}",
            ),
            (
                _sincos(layout=alternating),
                "your sines and cosines alternate, as in the Transformer of 2017: here each has a quarter of its own",
            ),
            (
                _sincos(layout=lambda y, x: [y.sin(), x.sin(), y.cos(), x.cos()]),
                f"your quarters are in another order: it is {quarters}",
            ),
            *(
                (
                    _sincos(exponent=wrong),
                    f"the exponent of your frequencies is {name}: it should be -k/(D/4)",
                )
                for name, wrong in exponents.items()
            ),
            (_sincos(lambda *g: _reading_order(*g, 1)), "rows and columns count from 0, yours count from 1"),
            (_sincos(down), "your positions go down the columns: they should come in reading order"),
            (
                _sincos(lambda *g: _reading_order(*g[::-1])),
                "right for square grids alone: grid_size is (rows, columns), you took it as (columns, rows)",
            ),
            (_sincos(fractions), "you scale rows and columns to 0..1: one patch is one step, on every grid"),
            (_sincos(one_line), "you number the patches in one line: a row and a column are needed"),
            (
                _sincos(temperature=10000.0),
                "the argument `temperature` is not used: 10000 is fixed in your code",
            ),
            (
                lambda *c: embeddings.sincos_2d(*c)[None],
                "the result should be (N, D), without an axis for the batch",
            ),
            (
                lambda *c: F.pad(embeddings.sincos_2d(*c), (0, 0, 1, 0)),
                "one row too many: this table is for patches alone, without the CLS token",
            ),
        ],
    )
    for dim in (6, 7):
        demand_error(answer, ((2, 2), dim), f"dim {dim} does not split into four quarters")


def _resample(grid_in=None, grid_out=None, size=None, **options):
    """Build `resample_pos_embed` with one thing changed: the mistakes."""
    options = {"mode": "bicubic", "antialias": True, **options}

    def function(pos, old, new, num_prefix_tokens=1):
        head, grid = pos[:, :num_prefix_tokens], pos[:, num_prefix_tokens:]
        grid = grid_in(grid, *old) if grid_in else rearrange(grid, "1 (h w) d -> 1 d h w", h=old[0], w=old[1])
        grid = F.interpolate(grid, **(size(old, new) if size else {"size": tuple(new)}), **options)
        grid = rearrange(grid, "1 d h w -> 1 (h w) d")
        return grid_out(head, grid) if grid_out else torch.cat([head, grid], dim=1)

    return function


def _as_a_list(pos, old, new, num_prefix_tokens=1, keep=True):
    n = num_prefix_tokens if keep else 0
    length = new[0] * new[1] + num_prefix_tokens - n
    rest = F.interpolate(pos[:, n:].transpose(1, 2), size=length, mode="linear").transpose(1, 2)
    return torch.cat([pos[:, :n], rest], dim=1)


def _same_number_is_kept(pos, old, new, num_prefix_tokens=1):
    return pos if old[0] * old[1] == new[0] * new[1] else _resample()(pos, old, new, num_prefix_tokens)


@exercise(embeddings.resample_pos_embed)
def check_resample_pos_embed(answer):
    def table(rows, columns, prefix, dim):
        return torch.randn(1, prefix + rows * columns, dim)

    cases = [
        (table(2, 2, 1, 1), (2, 2), (3, 3)),
        (table(2, 3, 1, 4), (2, 3), (4, 5), 1),
        (table(3, 2, 1, 3), (3, 2), (3, 2), 1),
        (table(2, 6, 1, 3), (2, 6), (3, 4), 1),
        (table(11, 4, 1, 2), (11, 4), (15, 4), 1),
        (table(8, 6, 1, 3), (8, 6), (3, 4), 1),
        (table(2, 3, 1, 4).double(), (2, 3), (4, 5), 1),
    ]
    bilinear = "this is bilinear: the default here is bicubic, with antialias=True and corners not aligned"
    square = "right for square grids alone: {} is (rows, columns), you took it as (columns, rows)"
    compare(
        answer,
        embeddings.resample_pos_embed,
        cases,
        [
            (
                _resample(lambda grid, *old: grid.reshape(1, -1, *old)),
                "`reshape` to (1, D, rows, columns) mixes the numbers of different positions: make it "
                "(1, rows, columns, D) first, then move the axis D",
            ),
            (
                _resample(lambda grid, h, w: rearrange(grid, "1 (w h) d -> 1 d h w", h=h)),
                "you read the old positions column by column: they are in reading order, row by row",
            ),
            (
                _resample(lambda grid, h, w: rearrange(grid, "1 (w h) d -> 1 d w h", h=h)),
                square.format("old_grid"),
            ),
            (_resample(size=lambda old, new: {"size": new[::-1]}), square.format("new_grid")),
            (
                partial(_as_a_list, keep=False),
                "you stretch the whole list in one dimension, the CLS vector too: keep the prefix apart, and lay the "
                "rest out as a grid",
            ),
            (
                _as_a_list,
                "you stretch the list in one dimension: lay it out as a grid first. The end of a row and the start of "
                "the next are neighbours in the list, not in the picture",
            ),
            (
                _resample(size=lambda old, new: {"scale_factor": (new[0] / old[0], new[1] / old[1])}),
                "`scale_factor` is rounded down: 11 rows times 15/11 give 14, not 15. Name the wanted `size` instead",
            ),
            (
                _resample(antialias=False),
                "almost: antialias=True is missing (it smooths before a grid shrinks)",
            ),
            (_resample(align_corners=True), "the corners are aligned: here align_corners is False"),
            (
                _resample(align_corners=True, antialias=False),
                "you align the corners, without antialias (torchvision's way): here it is align_corners=False and "
                "antialias=True",
            ),
            (_resample(mode="bilinear"), bilinear),
            (_resample(mode="bilinear", antialias=False), bilinear),
            (_resample(mode="bilinear", antialias=False, align_corners=True), bilinear),
            (
                _resample(mode="nearest", antialias=False),
                "you copy the nearest old vector: interpolate, bicubic",
            ),
            (
                _resample(grid_out=lambda head, grid: torch.cat([grid, head], dim=1)),
                "the prefix is now last: the CLS vector stays at index 0",
            ),
            (
                _resample(grid_out=lambda head, grid: grid),
                "the prefix is lost: put it in front of the new grid",
            ),
            (
                _same_number_is_kept,
                "grids of 2x6 and 3x4 have equally many patches, but at other places: compare grids, not counts",
            ),
        ],
    )
    for case in [(table(4, 6, 0, 3), (4, 6), (3, 5), 0), (table(3, 3, 2, 4), (3, 3), (5, 4), 2)]:
        if difference(outcome(_call, answer, case), embeddings.resample_pos_embed(*case)):
            raise Mistake(
                f"right with one prefix token, not with {case[-1]}: `num_prefix_tokens` says how many vectors in "
                "front to keep apart, it may be 0 or 2"
            )
    compare_gradients(answer, embeddings.resample_pos_embed, (table(2, 3, 1, 4), (2, 3), (4, 5), 1))
    demand_error(
        answer,
        (table(3, 4, 1, 4), (3, 5), (6, 6), 1),
        "13 positions are taken for 1 + 3x5; einops alone finds a number of columns that fits. Compare with "
        "rows·columns first",
    )
    for new_grid in ((6, 6), (3, 4)):
        demand_error(
            answer,
            (table(3, 5, 1, 4), (3, 4), new_grid, 1),
            f"16 positions are taken for 1 + 3x4 (new_grid {new_grid}), three vectors too many: the old grid is "
            "another one",
        )
    case = table(4, 6, 1, 3), (4, 6), (3, 3), 1
    for option, by_place in (
        ({"mode": "bilinear"}, ("bilinear",)),
        ({"antialias": False}, ("bicubic", False)),
    ):
        (name,) = option
        named = name in inspect.signature(answer).parameters
        result = outcome(
            _call, partial(answer, **option if named else {}), case + (() if named else by_place)
        )
        if isinstance(result, TypeError) and not named:
            raise Mistake(
                f"right by default, but the argument `{name}` is gone: take it as the docstring says, and pass it to "
                "F.interpolate"
            )
        if difference(result, embeddings.resample_pos_embed(*case, **option)):
            raise Mistake(
                f"right by default, but the argument `{name}` is not used: pass it to F.interpolate"
            )
