"""Checks of lesson 03: position."""

import inspect
from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vit_classroom.checks.compare import compare_gradients, demand_error
from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.outcome import Mistake, build, outcome
from vit_classroom.checks.task import demand, exercise, refuses, results
from vit_classroom.checks.words import describe, difference, explain_error
from vit_classroom.exhibits.encoder_input import EncoderInput
from vit_course.embeddings import learned_positions, resample_pos_embed
from vit_course.interpret import equivariance_gap

known = Mistakes(__file__, equivariance_gap, learned_positions, EncoderInput, resample_pos_embed)

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


@demand(known("equivariance_gap learning"))
def takes_encoders_that_learn(answer):
    weight = torch.ones(1, requires_grad=True)
    learning = Function("running sum times a learned weight", lambda x: weight * x.cumsum(1))
    result = outcome(lambda f, *case: f(*case), answer, (learning, torch.randn(2, 5, 3), FIVE))
    if isinstance(result, Exception):
        raise Mistake(
            f"right, but with an encoder whose weights learn your code stopped with {explain_error(result)}\n"
            "A result with a gradient has no `.numpy()`: take the number out with `.item()`"
        )


@demand(known("equivariance_gap small"))
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
        known("equivariance_gap results"),
        plain=True,
    ),
    takes_encoders_that_learn,
    keeps_small_gaps,
)

# -- learned_positions


@demand(known("learned_positions table"))
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

# -- EncoderInput


@demand(known("EncoderInput parameters"))
def keeps_two_parameters(answer):
    module = build(answer, num_patches=5, dim=4)
    for name, shape in (("cls_token", (1, 1, 4)), ("pos_embed", (1, 6, 4))):
        table = getattr(module, name, None)
        if table is None:
            outcome(lambda f, x: f(x), module, (torch.rand(2, 5, 4),))  # a stub stops here
            raise Mistake(f"`self.{name}` is missing: make it in `__init__`, once")
        if not isinstance(table, nn.Parameter):
            what = "a plain tensor" if isinstance(table, Tensor) else type(table).__name__
            raise Mistake(f"`self.{name}` is {what}: the optimiser only gets an `nn.Parameter` (lesson 02)")
        words = {
            (1, 5, 4): ". CLS needs a position too, so the table has N + 1 rows",
            (1, 1, 4): ". With one row all tokens would get the same vector",
        }
        if table.shape != shape:
            made = tuple(table.shape)
            raise Mistake(
                f"`self.{name}` should be {shape} for N = 5 and D = 4, yours is {made}{words.get(made, '')}"
            )
    if module.cls_token.any():
        raise Mistake("`self.cls_token` should start at zero, as the docstring says: use `torch.zeros`")
    if len(module.pos_embed[0].detach().unique(dim=0)) < 6:
        raise Mistake("`self.pos_embed` starts with equal rows: make it with `learned_positions`")


@demand(known("EncoderInput refuses"))
def refuses_other_grids(answer):
    demand_error(
        build(answer, num_patches=5, dim=4),
        (torch.ones(2, 4, 4),),
        "four patches instead of five are refused",
    )


exercise(
    EncoderInput,
    keeps_two_parameters,
    results(
        lambda: [
            ({"num_patches": 2, "dim": 3}, torch.rand(1, 2, 3) + 1),
            ({"num_patches": 5, "dim": 4}, torch.randn(3, 5, 4)),
            ({"num_patches": 3, "dim": 4}, torch.randn(4, 3, 4)),
        ],
        known("EncoderInput results"),
    ),
    refuses_other_grids,
)

# -- resample_pos_embed


def stretched(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    """Stretch step by step, equal grids too, so that an edit can change one of the steps."""
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    rows, columns = old_grid
    image = rearrange(grid, "1 (h w) d -> 1 d h w", h=rows, w=columns)
    image = F.interpolate(image, size=tuple(new_grid), mode=mode, antialias=antialias)
    grid = rearrange(image, "1 d h w -> 1 (h w) d")
    return torch.cat([prefix, grid], dim=1)


known.right["stretched"] = stretched


def table(rows: int, columns: int, prefix: int, dim: int) -> Tensor:
    return torch.randn(1, prefix + rows * columns, dim)


@demand(known("resample_pos_embed prefix"))
def keeps_the_prefix_apart(answer):
    for case in [(table(4, 6, 0, 3), (4, 6), (3, 5), 0), (table(3, 3, 2, 4), (3, 3), (5, 4), 2)]:
        if difference(outcome(lambda f, *c: f(*c), answer, case), resample_pos_embed(*case)):
            raise Mistake(
                f"right with one prefix token, not with {case[-1]}: `num_prefix_tokens` is the number of vectors in "
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


@demand(known("resample_pos_embed/stretched signature"))
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


REFUSED = {**known("resample_pos_embed/stretched refuses"), **known("resample_pos_embed refuses")}

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
        known("resample_pos_embed/stretched results"),
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
        known("resample_pos_embed/stretched options"),
        run=with_options,
    ),
    refuses(
        (torch.zeros(1, 13, 4), (3, 5), (6, 6), 1),
        "13 positions are not 1 + 3x5. einops alone finds a number of columns that fits: compare with rows·columns "
        "first",
        *REFUSED["columns"],
    ),
    refuses(
        (torch.zeros(1, 9, 4), (3, 4), (6, 6), 1),
        "9 positions are not 1 + 3x4: with 4 columns they make two rows, and the old grid has three",
        *REFUSED["rows"],
    ),
    refuses(
        (torch.zeros(1, 16, 4), (3, 4), (6, 6), 1),
        "16 positions are not 1 + 3x4 (new_grid (6, 6)): three vectors too many, the old grid is another one",
        *REFUSED["crops"],
    ),
    refuses(
        (torch.zeros(1, 16, 4), (3, 4), (3, 4), 1),
        "16 positions are not 1 + 3x4 (new_grid (3, 4)): three vectors too many, the old grid is another one",
        *REFUSED["trusts"],
    ),
)
