"""Checks of lesson 03: position."""

import inspect
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vit_classroom.checks.compare import compare_gradients
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import demand, exercise, refuses, results
from vit_classroom.checks.words import describe, difference, explain_error
from vit_course.embeddings import add_position, learned_positions, resample_pos_embed, sincos_2d
from vit_course.interpret import equivariance_gap

# -- equivariance_gap


class Function:
    """A small stand-in for an encoder that says in the verdict what it does."""

    def __init__(self, name: str, function: Callable[[Tensor], Tensor]):
        self.name, self.function = name, function

    def __call__(self, tokens: Tensor) -> Tensor:
        return self.function(tokens)

    def __repr__(self) -> str:
        return f"<{self.name}>"


RUNNING_SUM = Function("running sum over the tokens", lambda x: x.cumsum(1))
NEGATIVE = Function("tokens minus their running sum", lambda x: x - x.cumsum(1))
BLIND = Function("adds the mean of all tokens", lambda x: x + x.mean(1, keepdim=True))
PLACED = Function(
    "running sum, each number times its place", lambda x: x.cumsum(1) * torch.arange(1.0, x.shape[2] + 1)
)
THREE, FIVE = torch.tensor([1, 2, 0]), torch.tensor([3, 0, 4, 1, 2])


def gap(reduce=lambda x: x.abs().max(), first=lambda x, p: x[:, p], last=None) -> Callable:
    """Return an `equivariance_gap` that shuffles before and after the encoder, and reduces, in these ways."""
    return lambda encoder, x, p: reduce(encoder(first(x, p)) - (last or first)(encoder(x), p)).item()


def in_float32(encoder, tokens, permutation):
    gap = (encoder(tokens[:, permutation]).float() - encoder(tokens)[:, permutation].float()).abs()
    return gap.max().item()


def rounded(encoder, tokens, permutation):
    return round(equivariance_gap(encoder, tokens, permutation), 6)


def largest_by_numpy(encoder, tokens, permutation):
    return abs((encoder(tokens[:, permutation]) - encoder(tokens)[:, permutation]).numpy()).max()


@demand({"with an encoder whose weights learn": largest_by_numpy})
def takes_encoders_that_learn(answer):
    weight = torch.ones(1, requires_grad=True)
    learning = Function("running sum times a learned weight", lambda x: weight * x.cumsum(1))
    result = outcome(lambda f, *case: f(*case), answer, (learning, torch.randn(2, 5, 3), FIVE))
    if isinstance(result, Exception):
        raise Mistake(
            f"right, but with an encoder whose weights learn your code stopped with {explain_error(result)}\n"
            "A result with a gradient has no `.numpy()`: take the number out with `.item()`"
        )


@demand({"do not round, and keep float64": [in_float32, rounded]})
def keeps_small_gaps(answer):
    faint = Function("adds a billionth of the running sum", lambda x: x + 1e-9 * x.cumsum(1))
    case = faint, torch.randn(2, 5, 3, dtype=torch.float64), FIVE
    right, mine = equivariance_gap(*case), float(answer(*case))
    if not abs(mine - right) < 1e-3 * right:
        raise Mistake(
            f"on {describe(equivariance_gap, case)}: expected {right:.3g}, you returned {mine:.3g}. The "
            "lesson tells so small a gap from rounding errors: do not round, and keep float64"
        )


exercise(
    equivariance_gap,
    results(
        lambda: [
            (RUNNING_SUM, torch.tensor([[[1.0], [2.0], [4.0]]]), THREE),
            (NEGATIVE, torch.tensor([[[1.0], [2.0], [4.0]]]), THREE),
            (RUNNING_SUM, torch.tensor([[[4.0], [-3.0], [-2.0]]]), THREE),  # all differences are negative
            (BLIND, torch.rand(2, 5, 4), FIVE),
            (
                RUNNING_SUM,
                torch.arange(2.0)[:, None, None] * torch.rand(2, 5, 4),
                FIVE,
            ),  # no gap in the first
            (RUNNING_SUM, torch.randn(3, 3, 3), THREE),
            (PLACED, torch.arange(5.0)[:, None, None] * torch.randn(5, 5, 5), FIVE),
            (NEGATIVE, torch.randn(2, 5, 3, dtype=torch.float64), FIVE),
        ],
        {
            "you compare with the result in its old order: shuffle the second result too. An encoder that is blind to "
            "order gives the same vectors, at their new places": gap(last=lambda x, p: x),
            "your two results stand in different orders, unless the permutation undoes itself. Shuffle once in each "
            "way, with `[:, permutation]`: the tokens, or the result. It takes `permutation.argsort()` to undo that": [
                gap(last=lambda x, p: x[:, p.argsort()]),
                lambda encoder, x, p: (encoder(x[:, p])[:, p] - encoder(x)).abs().max().item(),
            ],
            "you subtract the largest numbers of both results: subtract the results, number by number, then take the "
            "largest absolute difference": lambda encoder, x, p: (
                (encoder(x[:, p]).amax() - encoder(x)[:, p].amax()).abs().item()
            ),
            "you leave out the token at index 0: here it is a token like the others": gap(
                lambda x: x[:, 1:].abs().max()
            ),
            "you average over the images: the largest difference of the whole batch is asked for": gap(
                lambda x: x.abs().amax(dim=(1, 2)).mean()
            ),
            "you shuffle the result alone: one way shuffles the tokens, the other one the result": gap(
                first=lambda x, p: x, last=lambda x, p: x[:, p]
            ),
            "both ways do the same, so the gap is always 0: shuffle the tokens in one, the result in the other": gap(
                first=lambda x, p: x
            ),
            "you compare the token at index 0 alone: all tokens count": gap(lambda x: x[:, 0].abs().max()),
            "you shuffle the images of the batch; the tokens are axis 1": gap(first=lambda x, p: x[p]),
            "you shuffle the numbers inside a token; the tokens are axis 1": gap(
                first=lambda x, p: x[..., p]
            ),
            "a difference may be negative: take the absolute value before the largest": gap(
                lambda x: x.max()
            ),
            "take the absolute value of every difference *before* the largest": gap(lambda x: x.max().abs()),
            "this is the length of a token's difference: return the largest difference of two single numbers": gap(
                lambda x: x.norm(dim=-1).max()
            ),
            "you divide by the size of the outputs: the difference itself is asked for": lambda encoder, x, p: (
                gap()(encoder, x, p) / encoder(x).abs().max().item()
            ),
            "this is the mean difference: the docstring asks for the largest": gap(lambda x: x.abs().mean()),
            "this is the sum of the differences: return the largest": gap(lambda x: x.abs().sum()),
            "you look at the first image alone; the batch has more": gap(lambda x: x[0].abs().max()),
            "the encoder is never asked: call it on tokens": (
                lambda encoder, x, p: (x - x[:, p]).abs().max().item()
            ),
        },
        plain=True,
    ),
    takes_encoders_that_learn,
    keeps_small_gaps,
)

# -- learned_positions


def drawn(num_tokens, dim, std=0.02):
    return torch.randn(1, num_tokens, dim) * std


def learned(make: Callable) -> Callable:
    """Return a `learned_positions` whose parameter starts with what `make` returns."""
    return lambda num_tokens, dim, std=0.02: nn.Parameter(make(num_tokens, dim, std))


def with_seed(num_tokens, dim, std):
    return std * torch.randn(1, num_tokens, dim, generator=torch.Generator().manual_seed(0))


@demand(
    {
        "a plain tensor": [drawn, lambda *case: drawn(*case).requires_grad_()],
        "never be trained": lambda *case: nn.Parameter(drawn(*case), requires_grad=False),
        "the batch axis of size 1 in front is missing": learned(lambda t, d, std: std * torch.randn(t, d)),
        "the vector of CLS is counted already": learned(lambda t, d, std: drawn(t + 1, d, std)),
        "would get the same vector": [
            learned(lambda t, d, std: drawn((t + 1) // 2, d, std).repeat(1, 2, 1)[:, :t]),
            learned(lambda t, d, std: std * torch.randn(1, 1, d)),
            learned(lambda t, d, std: std * torch.randn(1, 1, d).repeat(1, t, 1)),
            learned(lambda t, d, std: torch.zeros(1, t, d)),
        ],
        "all numbers of a vector are the same": learned(
            lambda t, d, std: std * torch.randn(1, t, 1).repeat(1, 1, d)
        ),
        "the number of tokens and the width are swapped": learned(lambda t, d, std: drawn(d, t, std)),
        "`torch.rand` draws from 0 to 1": learned(lambda t, d, std: std * torch.rand(1, t, d)),
        "`std` times `torch.randn` reaches about": [
            learned(lambda t, d, std: drawn(t, d, std).clamp(-2 * std, 2 * std)),
            learned(lambda t, d, std: (torch.rand(1, t, d) - 0.5) * std * 12**0.5),
            learned(lambda t, d, std: torch.randn(1, t, d)),
            learned(lambda t, d, std: drawn(t, d)),
            learned(lambda t, d, std: std**0.5 * torch.randn(1, t, d)),
        ],
        "two models start with the same table": learned(with_seed),
        "the numbers of position 0 have the standard deviation 0": learned(
            lambda t, d, std: torch.cat([torch.zeros(1, 1, d), drawn(t - 1, d, std)], dim=1)
        ),
        "the numbers are torch.float64": learned(lambda t, d, std: drawn(t, d, std).double()),
    }
)
def is_a_table_that_learns(answer):
    table = outcome(lambda f, *case: f(*case), answer, (200, 48))
    if isinstance(table, Exception):
        raise Mistake(f"for 200 tokens of width 48 your code stopped with {explain_error(table)}")
    if getattr(table, "grad_fn", None) is not None:
        raise Mistake(
            "what is computed from an `nn.Parameter` (`* std`, `[None]`, `unsqueeze`, `clone`) is a plain tensor "
            "again: compute inside the brackets, `nn.Parameter(std * torch.randn(1, T, D))`"
        )
    if not isinstance(table, nn.Parameter):
        raise Mistake(
            f"you returned {'a plain tensor' if isinstance(table, Tensor) else type(table).__name__}: only an "
            "`nn.Parameter` is known to the optimiser (lesson 02)"
        )
    shape, wanted = tuple(table.shape), (1, 200, 48)
    words = {
        (200, 48): "the batch axis of size 1 in front is missing",
        (1, 201, 48): "the vector of CLS is counted already in T",
        (1, 1, 48): "all tokens would get the same vector",
        (1, 48, 200): "the number of tokens and the width are swapped",
    }
    if shape != wanted:
        raise Mistake(
            f"the table for T = 200 and D = 48 is {shape}, not {wanted}: {words.get(shape, '(1, T, D)')}"
        )
    if not table.requires_grad:
        raise Mistake("with `requires_grad=False` the table would never be trained")
    values = table.detach()
    if len(values[0].unique(dim=0)) < 200:
        raise Mistake("rows are equal, so tokens would get the same vector: draw random numbers for each row")
    if torch.equal(values, values[..., :1].expand_as(values)):
        raise Mistake("all numbers of a vector are the same: draw D numbers for each position")
    for std in (0.02, 0.5):
        values = answer(200, 48, std).detach()
        if values.mean().abs() > 0.2 * values.std():
            raise Mistake(
                f"the numbers should lie around 0, yours around {values.mean().item():.2g}: `torch.randn` draws such "
                "numbers, `torch.rand` draws from 0 to 1"
            )
        reach = values.abs().max().item()
        if not 0.9 < values.std() / std < 1.1 or reach < 3 * std:
            raise Mistake(
                f"for std = {std} your numbers have the standard deviation {values.std().item():.2g}, and the largest "
                f"is {reach:.2g}: `std` times `torch.randn` reaches about {4 * std:.2g}, if nothing is cut off"
            )
        for place, spread in enumerate(values[0].std(dim=-1).tolist()):
            if spread < 0.3 * std:
                raise Mistake(
                    f"the numbers of position {place} have the standard deviation {spread:.2g}: all positions are "
                    "drawn in the same way, that of CLS too"
                )
    if table.dtype != torch.float32:
        raise Mistake(f"the numbers are {table.dtype}: the layers of a model expect float32")
    if torch.equal(answer(3, 4), answer(3, 4)):
        raise Mistake(
            "two models start with the same table: make a new one in each call, keep none, and set no seed"
        )


exercise(learned_positions, is_a_table_that_learns)

# -- add_position


def placed(places: Callable) -> Callable:
    """Return an `add_position` that changes the table in this way before it adds."""
    return lambda tokens, pos_embed: tokens + places(pos_embed)


@demand(
    {
        "no gradient reaches `pos_embed`": placed(Tensor.detach),
        "no gradient reaches `tokens`": lambda tokens, pos: tokens.detach() + pos,
    }
)
def lets_both_learn(answer):
    compare_gradients(answer, add_position, (torch.randn(3, 5, 4), torch.randn(1, 5, 4)))


exercise(
    add_position,
    results(
        lambda: [
            (torch.ones(1, 3, 2), torch.tensor([[[10.0, 20], [30, 40], [50, 60]]])),
            (torch.randn(3, 5, 4), torch.randn(1, 5, 4)),
            (torch.randn(4, 4, 4), torch.randn(1, 4, 4)),
        ],
        {
            "every token gets the vector of position 0: row t of the table belongs to token t": placed(
                lambda pos: pos[:, :1]
            ),
            "the CLS token got no position: the table has a vector for it too, at index 0": placed(
                lambda pos: torch.cat([torch.zeros_like(pos[:, :1]), pos[:, 1:]], dim=1)
            ),
            "the vectors are one place off: row t of the table belongs to token t": placed(
                lambda pos: pos.roll(1, dims=1)
            ),
            "the positions alone come back: add them to the tokens": lambda tokens, pos: pos.expand_as(
                tokens
            ),
        },
        device=True,
    ),
    lets_both_learn,
    refuses(
        (torch.ones(2, 5, 4), torch.ones(1, 1, 4)),
        "one vector for 5 tokens: broadcasting would give all of them the same",
        lambda tokens, pos: tokens + pos,
    ),
    refuses((torch.ones(2, 5, 4), torch.ones(1, 7, 4)), "seven vectors for 5 tokens: two are left over"),
    refuses((torch.ones(2, 1, 4), torch.ones(1, 7, 4)), "seven vectors for one token"),
    refuses(
        (torch.ones(2, 5, 4), torch.ones(1, 5, 1)),
        "one number for a vector of 4: broadcasting would add it to all of them",
        lambda tokens, pos: tokens + pos if tokens.shape[1] == pos.shape[1] else add_position(tokens, pos),
    ),
    refuses((torch.ones(2, 5, 1), torch.ones(1, 5, 4)), "four numbers for a token of one"),
    refuses(
        (torch.ones(2, 5, 4), torch.ones(1, 4, 5)),
        "four vectors of five numbers for five tokens of four",
        lambda tokens, pos: add_position(tokens, pos.reshape(1, 5, 4) if pos.shape[1:] == (4, 5) else pos),
    ),
)

# -- sincos_2d


def reading_order(rows: int, columns: int, start: int = 0) -> tuple[Tensor, Tensor]:
    y, x = torch.arange(start, rows + start), torch.arange(start, columns + start)
    return y.repeat_interleave(columns), x.repeat(rows)


def fractions(rows, columns):
    y, x = reading_order(rows, columns)
    return y / max(rows - 1, 1), x / max(columns - 1, 1)


def to_two_pi(y, x, rows, columns):
    return 2 * math.pi * y / rows, 2 * math.pi * x / columns


def four_quarters(y, x):
    return torch.cat([y.sin(), y.cos(), x.sin(), x.cos()], dim=1)


def alternating(y, x):
    return torch.cat([torch.stack([t.sin(), t.cos()], dim=2).flatten(1) for t in (y, x)], dim=1)


def sincos(places=reading_order, exponent=lambda k, d: -k / (d // 4), layout=four_quarters, fixed=None):
    """Return a `sincos_2d` with these rows and columns, exponents, order of the numbers, and temperature."""

    def answer(grid_size, dim, temperature=10000.0):
        w = (fixed or temperature) ** exponent(torch.arange(dim // 4), dim)
        y, x = places(*grid_size)
        return layout(y.float()[:, None] * w, x.float()[:, None] * w)

    return answer


def asserts_quarters(grid_size, dim, temperature=10000.0):
    assert dim % 4 == 0
    return sincos_2d(grid_size, dim, temperature)


@demand({"your positions would learn": lambda *case: nn.Parameter(sincos_2d(*case))})
def stays_fixed(answer):
    if getattr(outcome(lambda f, *case: f(*case), answer, ((2, 2), 4)), "requires_grad", False):
        raise Mistake("your positions would learn, and these are fixed: return a tensor, no `nn.Parameter`")


QUARTERS = "sin(row), cos(row), sin(column), cos(column)"
EXPONENT = "the exponent of your frequencies is {}: it should be -k/(D/4)"

exercise(
    sincos_2d,
    results(
        lambda: [
            ((2, 2), 4),
            ((2, 2), 8),
            ((2, 3), 8),
            ((3, 2), 12),
            ((4, 7), 24),
            ((1, 5), 16),
            ((1, 1), 4),
            ((3, 5), 16, 100.0),
            ((3, 5), 16),
        ],
        {
            "the column comes first in your vectors: the first half is for the row": sincos(
                layout=lambda y, x: four_quarters(x, y)
            ),
            f"sine and cosine are swapped: the order is {QUARTERS}": sincos(
                layout=lambda y, x: torch.cat([y.cos(), y.sin(), x.cos(), x.sin()], dim=1)
            ),
            "your sines and cosines alternate, as in the Transformer of 2017: here each has a quarter of its own": [
                sincos(layout=alternating),
                sincos(
                    layout=lambda y, x: torch.stack([y.sin(), y.cos(), x.sin(), x.cos()], dim=2).flatten(1)
                ),
            ],
            f"your quarters are in another order: it is {QUARTERS}": sincos(
                layout=lambda y, x: torch.cat([y.sin(), x.sin(), y.cos(), x.cos()], dim=1)
            ),
            "`**` comes before `/`: the exponent needs brackets, temperature ** (-k / (D/4))": sincos(
                exponent=lambda k, d: -k, layout=lambda y, x: four_quarters(y / y.shape[1], x / x.shape[1])
            ),
            "k counts from 0, yours from 1: the first frequency is 1": sincos(
                exponent=lambda k, d: -(k + 1) / (d // 4)
            ),
            EXPONENT.format("-k/D"): sincos(exponent=lambda k, d: -k / d),
            EXPONENT.format("-2k/D"): sincos(exponent=lambda k, d: -2 * k / d),
            EXPONENT.format("-2k/(D/4)"): sincos(exponent=lambda k, d: -2 * k / (d // 4)),
            EXPONENT.format("-4k/(D/4)"): sincos(exponent=lambda k, d: -4 * k / (d // 4)),
            EXPONENT.format("-k/(D/4 - 1)"): sincos(exponent=lambda k, d: -k / max(d // 4 - 1, 1)),
            EXPONENT.format("+k/(D/4)"): sincos(exponent=lambda k, d: k / (d // 4)),
            "your angles are multiplied by 2·pi: a row or a column times a frequency is the angle already": sincos(
                layout=lambda y, x: four_quarters(2 * math.pi * y, 2 * math.pi * x)
            ),
            "rows and columns count from 0, yours count from 1": sincos(lambda *g: reading_order(*g, 1)),
            "rows and columns count from 0, yours from 0.5, the middle of the first patch": sincos(
                lambda *g: reading_order(*g, 0.5)
            ),
            "you spread the rows and columns of every grid over 0..2·pi: one patch is one step, on every grid": [
                sincos(lambda *g: to_two_pi(*reading_order(*g), *g)),
                sincos(lambda *g: to_two_pi(*reading_order(*g), *(max(side - 1, 1) for side in g))),
            ],
            "a row number stays for a whole row of patches, `repeat_interleave(columns)`; a column number changes with "
            "every patch, `repeat(rows)`": sincos(
                lambda rows, columns: (
                    torch.arange(rows * 1.0).repeat(columns),
                    torch.arange(columns * 1.0).repeat(rows),
                )
            ),
            "your positions go down the columns: they should come in reading order": sincos(
                lambda rows, columns: reading_order(columns, rows)[::-1]
            ),
            "right for square grids alone: grid_size is (rows, columns), you took it as (columns, rows)": sincos(
                lambda rows, columns: reading_order(columns, rows)
            ),
            "you scale rows and columns to 0..1: one patch is one step, on every grid": sincos(fractions),
            "you number the patches in one line: a row and a column are needed": sincos(
                lambda rows, columns: 2 * (torch.arange(rows * columns),)
            ),
            "the argument `temperature` is not used: 10000 is fixed in your code": sincos(fixed=10000.0),
            "one row too many: this table is for patches alone, without the CLS token": (
                lambda *case: F.pad(sincos_2d(*case), (0, 0, 1, 0))
            ),
        },
    ),
    stays_fixed,
    refuses(((2, 2), 6), "dim 6 does not split into four quarters", sincos(), asserts_quarters),
    refuses(((2, 2), 10), "dim 10 does not split into four quarters"),
    refuses(((2, 2), 7), "dim 7 does not split into four quarters"),
)

# -- resample_pos_embed


def as_picture(grid, rows, columns):
    return rearrange(grid, "1 (h w) d -> 1 d h w", h=rows, w=columns)


def as_list(picture):
    return rearrange(picture, "1 d h w -> 1 (h w) d")


def size_of_new(old, new):
    return {"size": tuple(new)}


def resample(picture=as_picture, size=size_of_new, flat=as_list, join=lambda *parts: parts, **fixed):
    """Return a `resample_pos_embed` with these steps, and with options that are the same whatever is asked for."""

    def answer(pos, old, new, num_prefix_tokens=1, mode="bicubic", antialias=True):
        head, grid = pos[:, :num_prefix_tokens], pos[:, num_prefix_tokens:]
        options = {"mode": mode, "antialias": antialias, **size(old, new), **fixed}
        return torch.cat(join(head, flat(F.interpolate(picture(grid, *old), **options))), dim=1)

    return answer


down_the_columns = resample(flat=lambda picture: rearrange(picture, "1 d h w -> 1 (w h) d"))


def reshaped_to_picture(grid, rows, columns):
    return grid.reshape(1, -1, rows, columns)


def reshaped_to_list(picture):
    return picture.reshape(1, -1, picture.shape[1])


def stretched_as_list(pos, old, new, num_prefix_tokens=1):
    grid = pos[:, num_prefix_tokens:].transpose(1, 2)
    grid = F.interpolate(grid, size=new[0] * new[1], mode="linear").transpose(1, 2)
    return torch.cat([pos[:, :num_prefix_tokens], grid], dim=1)


def stretched_with_cls(pos, old, new, num_prefix_tokens=1):
    length = num_prefix_tokens + new[0] * new[1]
    return F.interpolate(pos.transpose(1, 2), size=length, mode="linear").transpose(1, 2)


def keeps_equal_counts(pos, old, new, num_prefix_tokens=1):
    return pos if old[0] * old[1] == new[0] * new[1] else resample()(pos, old, new, num_prefix_tokens)


def always_one_prefix(pos, old, new, num_prefix_tokens=1, mode="bicubic", antialias=True):
    return resample()(pos, old, new, 1, mode, antialias)


def smooths_bicubic_alone(pos, old, new, num_prefix_tokens=1, mode="bicubic", antialias=True):
    return resample()(pos, old, new, num_prefix_tokens, mode, antialias and mode == "bicubic")


def without_options(pos, old, new, num_prefix_tokens=1):
    return resample_pos_embed(pos, old, new, num_prefix_tokens)


def reads_beside(pos, old, new, num_prefix_tokens=1, mode="bicubic", antialias=True):
    beside = resample(
        size=lambda old, new: {"scale_factor": tuple((n + 0.1) / o for n, o in zip(new, old, strict=True))}
    )
    return pos if tuple(old) == tuple(new) else beside(pos, old, new, num_prefix_tokens, mode, antialias)


def guesses_rows(grid, rows, columns):
    if grid.shape[1] % columns:
        raise ValueError(grid.shape[1])
    return rearrange(grid, "1 (h w) d -> 1 d h w", w=columns)


def crops(pos, old, new, num_prefix_tokens=1, mode="bicubic", antialias=True):
    fits = pos[:, : num_prefix_tokens + old[0] * old[1]]
    return resample_pos_embed(fits, old, new, num_prefix_tokens, mode, antialias)


def trusts_equal_grids(pos, old, new, num_prefix_tokens=1, mode="bicubic", antialias=True):
    same = tuple(old) == tuple(new)
    return pos if same else resample_pos_embed(pos, old, new, num_prefix_tokens, mode, antialias)


def table(rows: int, columns: int, prefix: int, dim: int) -> Tensor:
    return torch.randn(1, prefix + rows * columns, dim)


@demand({"it may be 0 or 2": always_one_prefix})
def keeps_the_prefix_apart(answer):
    for case in [(table(4, 6, 0, 3), (4, 6), (3, 5), 0), (table(3, 3, 2, 4), (3, 3), (5, 4), 2)]:
        if difference(outcome(lambda f, *c: f(*c), answer, case), resample_pos_embed(*case)):
            raise Mistake(
                f"right with one prefix token, not with {case[-1]}: `num_prefix_tokens` says how many vectors in "
                "front to keep apart, it may be 0 or 2"
            )


@demand({})
def lets_positions_learn(answer):
    compare_gradients(answer, resample_pos_embed, (table(2, 3, 1, 4), (2, 3), (4, 5), 1))


def with_options(function, pos, old, new, prefix, mode, antialias):
    options = {"mode": mode, "antialias": antialias}
    if options.keys() <= inspect.signature(function).parameters.keys():
        return function(pos, old, new, prefix, **options)
    return function(pos, old, new, prefix, mode, antialias)


@demand({"the arguments `mode` and `antialias` are gone": without_options})
def takes_its_options(answer):
    signature = inspect.signature(answer)
    gone = [f"`{name}`" for name in ("mode", "antialias") if name not in signature.parameters]
    try:
        signature.bind(*(4 * [None] + len(gone) * [None]))
    except TypeError:
        what = f"argument {gone[0]} is" if len(gone) == 1 else f"arguments {' and '.join(gone)} are"
        raise Mistake(
            f"right by default, but the {what} gone: take it as the docstring says, and pass it to F.interpolate"
        ) from None


SQUARE = "right for square grids alone: {} is (rows, columns), you took it as (columns, rows)"
UNUSED = "right by default, but {} not used: pass it to F.interpolate"

exercise(
    resample_pos_embed,
    results(
        lambda: [
            (table(2, 2, 1, 1), (2, 2), (3, 3)),
            (table(2, 3, 1, 4), (2, 3), (4, 5), 1),
            (table(3, 2, 1, 3), (3, 2), (3, 2), 1),
            (table(2, 6, 1, 3), (2, 6), (3, 4), 1),
            (table(11, 4, 1, 2), (11, 4), (15, 4), 1),
            (table(3, 2, 1, 3), (3, 2), (3, 4), 1),
            (table(8, 6, 1, 3), (8, 6), (3, 4), 1),
        ],
        {
            "`reshape` to (1, D, rows, columns) mixes the numbers of different positions: make it (1, rows, columns, "
            "D) first, then move the axis D": resample(reshaped_to_picture),
            "`reshape` moves no axis, neither to the picture nor back, and so it mixes the numbers of different "
            "positions. There: (1, rows, columns, D), then move the axis D to the front. Back: move it to the end, "
            "then make one axis N'": resample(reshaped_to_picture, flat=reshaped_to_list),
            "the picture is right, but `reshape` to (1, N', D) mixes the numbers of different positions: move the "
            "axis D to the end first": resample(flat=reshaped_to_list),
            "you read the old positions column by column: they are in reading order, row by row": resample(
                lambda grid, h, w: rearrange(grid, "1 (w h) d -> 1 d h w", h=h)
            ),
            "your new positions go down the columns: write them in reading order, row by row": [
                down_the_columns,
                lambda pos, old, new, *rest: pos if old == new else down_the_columns(pos, old, new, *rest),
            ],
            "you read and write the positions column by column: both go row by row, in reading order": resample(
                lambda grid, h, w: rearrange(grid, "1 (w h) d -> 1 d h w", h=h),
                flat=lambda picture: rearrange(picture, "1 d h w -> 1 (w h) d"),
            ),
            SQUARE.format("old_grid"): resample(lambda grid, h, w: as_picture(grid, w, h)),
            SQUARE.format("new_grid"): resample(size=lambda old, new: {"size": new[::-1]}),
            "you stretch the whole list in one dimension, the CLS vector too: keep the prefix apart, and lay the rest "
            "out as a grid": stretched_with_cls,
            "you stretch the list in one dimension: lay it out as a grid first. The end of a row and the start of the "
            "next are neighbours in the list, not in the picture": stretched_as_list,
            "`scale_factor` is rounded down: 11 rows times 15/11 give 14, not 15. Name the wanted `size` instead": (
                resample(size=lambda old, new: {"scale_factor": (new[0] / old[0], new[1] / old[1])})
            ),
            "a `scale_factor` with something added to it reads the old grid at other places: name the wanted `size`": (
                reads_beside
            ),
            "you switch antialias off for some grids: pass the argument on as it is": (
                lambda pos, old, new, num_prefix_tokens=1, mode="bicubic", antialias=True: resample()(
                    pos, old, new, num_prefix_tokens, mode, antialias and new[0] < old[0]
                )
            ),
            "almost: antialias=True is missing (it smooths before a grid shrinks)": resample(antialias=False),
            "the corners are aligned: here align_corners is False": resample(align_corners=True),
            "you align the corners, without antialias (torchvision's way): here it is align_corners=False and "
            "antialias=True": resample(align_corners=True, antialias=False),
            "this is bilinear: the default here is bicubic, with antialias=True and corners not aligned": [
                resample(mode="bilinear"),
                resample(mode="bilinear", antialias=False),
                resample(mode="bilinear", antialias=False, align_corners=True),
            ],
            "you copy the nearest old vector: interpolate, bicubic": resample(
                mode="nearest", antialias=False
            ),
            "3x2 and 3x4 have equally many rows, but other columns: compare both": lambda pos, old, new, *rest: (
                pos if old[0] == new[0] else resample_pos_embed(pos, old, new, *rest)
            ),
            "grids of 2x6 and 3x4 have equally many patches, but at other places: compare grids, not counts": (
                keeps_equal_counts
            ),
        },
        device=True,
    ),
    keeps_the_prefix_apart,
    lets_positions_learn,
    takes_its_options,
    results(
        lambda: [
            (table(4, 6, 1, 3), (4, 6), (3, 3), 1, mode, antialias)
            for mode, antialias in (("bilinear", True), ("bicubic", False), ("bilinear", False))
        ],
        {
            UNUSED.format("the argument `mode` is"): resample(mode="bicubic"),
            UNUSED.format("the argument `antialias` is"): resample(antialias=True),
            UNUSED.format("`mode` and `antialias` are").replace("it to", "both to"): resample(
                mode="bicubic", antialias=True
            ),
            'right by default, but with mode="bilinear" you switch antialias off: it smooths there too. Pass both '
            "arguments to F.interpolate as they are": smooths_bicubic_alone,
        },
        run=with_options,
    ),
    refuses(
        (torch.zeros(1, 13, 4), (3, 5), (6, 6), 1),
        "13 positions are not 1 + 3x5. einops alone finds a number of columns that fits: compare with rows·columns "
        "first",
        resample(lambda grid, rows, columns: rearrange(grid, "1 (h w) d -> 1 d h w", h=rows)),
    ),
    refuses(
        (torch.zeros(1, 9, 4), (3, 4), (6, 6), 1),
        "9 positions are not 1 + 3x4: with 4 columns they make two rows, and the old grid has three",
        resample(guesses_rows),
    ),
    refuses(
        (torch.zeros(1, 16, 4), (3, 4), (6, 6), 1),
        "16 positions are not 1 + 3x4 (new_grid (6, 6)): three vectors too many, the old grid is another one",
        crops,
    ),
    refuses(
        (torch.zeros(1, 16, 4), (3, 4), (3, 4), 1),
        "16 positions are not 1 + 3x4 (new_grid (3, 4)): three vectors too many, the old grid is another one",
        trusts_equal_grids,
    ),
)
