"""What is wrong with an answer that no known mistake explains, read off its results and a few more calls.

An explanation is a claim about all cases at once: that the wanted numbers, changed by one slip, are what the answer
returned; or that more calls show what its results depend on. A claim that one case contradicts is not made.
"""

import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import isclose, log, pi, prod, sqrt
from numbers import Real
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from vit_course.classroom.checks.outcome import Mistake, Unfinished, copy, first_of, is_float, outcome
from vit_course.classroom.checks.words import argument_names, difference

AXES = {
    "B": ("picture", "pictures"),
    "T": ("token", "tokens"),
    "N + 1": ("token", "tokens"),
    "prefix + N": ("token", "tokens"),
    "prefix + N'": ("token", "tokens"),
    "N": ("patch", "patches"),
    "S": ("key", "keys"),
    "h": ("head", "heads"),
    "D": ("number of a token", "numbers of a token"),
    "d": ("number of a head", "numbers of a head"),
    "e": ("number of a value", "numbers of a value"),
    "P·P·C": ("number of a patch", "numbers of a patch"),
    "C": ("channel", "channels"),
    "H": ("row of pixels", "rows of pixels"),
    "rows·H": ("row of pixels", "rows of pixels"),
    "W": ("column of pixels", "columns of pixels"),
    "columns·W": ("column of pixels", "columns of pixels"),
    "K": ("class", "classes"),
    "values": ("value", "values"),
}
"""What one entry along an axis is and several are, by the letters of the docstrings."""

PATIENCE = 0.4
"""Seconds after which no further calls are tried."""

MANY = 40
"""More known mistakes than these are not tried in pairs: that takes long, and several pairs would fit."""

Slip = tuple[str, Callable[[Tensor], Tensor]]
"""Words for a slip, and what it makes of a tensor."""


@dataclass(frozen=True)
class Trial:
    """An answer, its results, the wanted ones, and what is needed for further calls.

    Args:
        run: turns (function or class, *case) into a result.
        answer, reference: the student's function or class, and the finished one.
        cases: the arguments of each call.
        got, want: the results of the answer and of the finished version.
        wrong: indices of the cases in which they differ.
        ready: makes the module of (class, options of a case), with the wanted weights; None if functions are compared.
    """

    run: Callable
    answer: Callable
    reference: Callable
    cases: Sequence[tuple]
    got: Sequence[Any]
    want: Sequence[Any]
    wrong: Sequence[int]
    ready: Callable | None = None
    until: float = field(default_factory=lambda: perf_counter() + PATIENCE)

    def call(self, function: Callable, case: tuple) -> Any:
        """Return the outcome of one call more.

        Raises:
            TimeoutError: if calls have taken so long that a student would wait.
        """
        if perf_counter() > self.until:
            raise TimeoutError
        return outcome(self.run, function, case)


@dataclass(frozen=True)
class Result:
    """One case as numbers: what was returned and wanted, the arguments by name, the letters of the wanted axes."""

    got: Tensor
    want: Tensor
    arguments: dict[str, Any]
    axes: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the numbers agree."""
        return same(self.got, self.want)


def explain(trial: Trial, mistakes: Sequence[tuple[Callable, str]] = ()) -> str:
    """Say what is wrong in a way that holds on every case, or return "". Never raises.

    Args:
        trial: a wrong answer.
        mistakes: known mistakes, none of which explains it alone.
    """
    looks = (
        other_default,
        values_swapped,
        unused_arguments,
        unused_weights,
        partial(in_results, looks=SURE),
        simpler_input,
        partial(two_at_once, mistakes=mistakes),
        one_kind_of_input,
        partial(in_results, looks=VAGUE),
    )
    try:
        if any(wrong_kind(trial.got[i], trial.want[i]) for i in trial.wrong):
            return ""  # that is said elsewhere
    except Exception:
        return ""
    for look in looks:
        try:
            if words := look(trial):
                return words
        except Exception:  # an odd result is no reason to fail: the numbers are shown
            continue
    return ""


# What the results say


def in_results(trial: Trial, looks: Sequence[Callable]) -> str:
    """Explain the whole result or, of several values, the first that can be explained."""
    shapes = axes_of(section(trial.reference, "Returns"))
    arguments = [named_arguments(trial.reference, case) for case in trial.cases]
    if words := explain_numbers(results(trial.got, trial.want, arguments, shapes), looks):
        return words
    lengths = {len(want) if isinstance(want, tuple | list) else 0 for want in trial.want}
    n = lengths.pop() if len(lengths) == 1 else 0
    for k in range(n if n > 1 else 0):
        got = [
            value[k] if isinstance(value, tuple | list) and len(value) == n else None for value in trial.got
        ]
        values = results(got, [want[k] for want in trial.want], arguments, shapes[k : k + 1])
        if words := explain_numbers(values, looks):
            return f"value {k + 1} of {n}: {words}"
    return ""


def values_swapped(trial: Trial) -> str:
    """Notice several values that are right and stand in another order."""
    n = len(trial.want[0]) if isinstance(trial.want[0], tuple | list) else 0
    if not 1 < n < 5 or not all(
        isinstance(v, tuple | list) and len(v) == n for v in (*trial.got, *trial.want)
    ):
        return ""
    if all(as_tensor(want) is not None for want in trial.want):  # several numbers: a result like others
        return ""
    for order in itertools.permutations(range(n)):
        if all(agree(got, [want[k] for k in order]) for got, want in zip(trial.got, trial.want, strict=True)):
            return f"your values stand in another order: you return the values {listed(str(k + 1) for k in order)}"
    return ""


def results(
    got: Sequence, want: Sequence, arguments: Sequence[dict], shapes: Sequence[tuple]
) -> list[Result]:
    """Pair results as numbers; cases without are left out, and all cases if one is no number on one side alone."""
    paired = []
    for mine, right, given in zip(got, want, arguments, strict=True):
        one, other = as_tensor(mine), as_tensor(right)
        if one is not None and other is not None and one.numel() + other.numel() < 200_000:
            axes = next((axes for axes in shapes if len(axes) == other.ndim and "..." not in axes), ())
            ending = next(
                (axes[1:] for axes in shapes if axes[0] == "..." and len(axes) <= other.ndim + 1), ()
            )
            known = given.get("axes", {}).items()
            alike = (a for name, a in known if given[name].shape == other.shape and len(a) == other.ndim)
            axes = axes or (
                ("",) * (other.ndim - len(ending)) + ending if ending else next(alike, ("",) * other.ndim)
            )
            paired.append(Result(one, other, given, ("values",) if isinstance(right, tuple | list) else axes))
        elif not isinstance(mine, Exception) and not (mine is None and right is None):
            return []
    return paired


def explain_numbers(given: list[Result], looks: Sequence[Callable]) -> str:
    """Explain results by the first look that sees something; by few numbers nothing but a shape is explained."""
    wrong = [r for r in given if not r.right]
    if not wrong:
        return ""
    distinct = len(torch.cat([r.want[~r.want.isnan()] for r in wrong]).unique())
    scalar = all(r.want.numel() == r.got.numel() == 1 for r in given)
    if distinct < 3 or (scalar and len(wrong) < 3):
        looks = [look for look in looks if look in (shape, axes_moved)]
    elif scalar:
        looks = [look for look in looks if look in SCALAR]
    else:
        looks = [look for look in looks if look is not term]
    words = next((words for look in looks if (words := look(given))), "")
    return re.sub("^(every|each) number", "your result", words) if scalar else words


def first_fit(given: list[Result], slips: Iterable[Slip], back: bool = False) -> str:
    """Return the words of the first slip that makes of what was wanted what was got, on every case; or back."""
    order = sorted(given, key=lambda r: (r.right, r.want.numel()))
    for words, slip in slips:
        try:
            if all(same(slip(r.got), r.want) if back else same(slip(r.want), r.got) for r in order):
                return words
        except (RuntimeError, IndexError, ValueError):
            continue
    return ""


def undefined(given: list[Result]) -> str:
    """Notice nan and infinity."""
    if all(r.right or (not r.got.isfinite().all() and r.want.isfinite().all()) for r in given):
        return (
            "some of your numbers are nan or infinite: look for a division by 0, an overflow, a negative root"
        )
    return ""


def shape(given: list[Result]) -> str:
    """Explain results of another shape by their numbers."""
    wrong = [r for r in given if not r.right]
    if all(r.got.shape == r.want.shape for r in wrong):
        return ""
    names, most = axis_names(given), max(r.got.ndim for r in wrong)
    return first_fit(given, too_little(names)) or first_fit(given, too_much(names, most), back=True)


def axes_moved(given: list[Result]) -> str:
    """Explain results whose axes stand in another order."""
    return first_fit(given, other_order(axis_names(given)))


def too_little(names: list[tuple[str, str]]) -> Iterator[Slip]:
    """Yield slips that lose entries or axes, or make an axis of length 1."""
    for i, (one, many) in enumerate(names):
        a = i - len(names)
        if many == "values":
            continue
        yield (
            f"where the axis of the {many} has length 1 it is lost: `squeeze` takes away such an axis",
            lambda x, a=a: x.squeeze(a),
        )
        yield (
            f"the axis of the {many} is lost: yours is the result of the first {one} alone",
            lambda x, a=a: x.select(a, 0),
        )
        yield f"yours is the result of the first {one} alone", lambda x, a=a: x.narrow(a, 0, 1)
        for keep in (False, True):
            yield (
                f"you average over the {many}; that axis should stay",
                lambda x, a=a, keep=keep: x.mean(a, keep),
            )
            yield f"you add up the {many}; that axis should stay", lambda x, a=a, keep=keep: x.sum(a, keep)
        if i:
            joined = (
                f"the axes of the {names[i - 1][1]} and of the {many} are joined into one; they should be two"
            )
            yield joined, lambda x, a=a: x.flatten(a - 1, a)
    for i, (one, _) in enumerate(names):
        a = i - len(names)
        yield f"the first {one} is missing", lambda x, a=a: x.narrow(a, 1, x.shape[a] - 1)
        yield f"the last {one} is missing", lambda x, a=a: x.narrow(a, 0, x.shape[a] - 1)
    yield "`squeeze` takes away every axis of length 1, also those that should stay", torch.squeeze
    for i in range(len(names) + 1):
        yield f"there is one axis too many, of length 1 (axis {i})", lambda x, i=i: x.unsqueeze(i)


def too_much(names: list[tuple[str, str]], axes: int) -> Iterator[Slip]:
    """Yield what undoes slips that leave too many entries or axes."""
    for i, (one, _) in enumerate(names):
        a = i - len(names)
        yield f"there is one {one} too many, in front", lambda x, a=a: x.narrow(a, 1, x.shape[a] - 1)
        yield f"there is one {one} too many, at the end", lambda x, a=a: x.narrow(a, 0, x.shape[a] - 1)
    for i in range(axes if axes == len(names) + 1 else 0):
        yield f"axis {i} of your result should be averaged away", lambda x, i=i: x.mean(i)
        yield f"axis {i} of your result should be added up", lambda x, i=i: x.sum(i)
        if i:
            joined = f"axes {i - 1} and {i} of your result should be one, that of the {names[i - 1][1]}"
            yield joined, lambda x, i=i: x.flatten(i - 1, i)
    for i, j in itertools.combinations(range(axes), 2):
        crossed = f"axes {i} and {j} of your result pair everything with everything: wanted is the diagonal"
        yield crossed, lambda x, i=i, j=j: x.diagonal(dim1=i, dim2=j).movedim(-1, i)


def shape_alone(given: list[Result]) -> str:
    """Name the axis that is missing, or the order in which the axes seem to stand, where the numbers tell nothing."""
    wrong, names = [r for r in given if not r.right], axis_names(given)
    n = len(names)
    if n > 5 or names == [AXES["values"]] or any(r.got.shape == r.want.shape for r in wrong):
        return ""
    found = [
        f"the axis of the {names[i][1]} (axis {i}) is missing"
        for i in range(n)
        if all(list(r.got.shape) == [*r.want.shape[:i], *r.want.shape[i + 1 :]] for r in wrong)
    ]
    found += [
        f"by its shape your result has the axes ({in_order(names, p)}); they should be ({in_order(names, range(n))})"
        for p in itertools.permutations(range(n))
        if all(list(r.got.shape) == [r.want.shape[i] for i in p] for r in wrong)
    ]
    return found[0] if len(found) == 1 else ""


# One number away


def factor(given: list[Result]) -> str:
    """Explain results that are right up to a factor: the same everywhere, or one that a size of the case gives."""
    ratios = fitted(given, lambda r: (r.got * r.want).sum() / (r.want * r.want).sum(), torch.mul)
    if not ratios or 0 in ratios:
        return ""
    if all(isclose(ratio, ratios[0], rel_tol=1e-4) for ratio in ratios):
        sign = isclose(ratios[0], -1, rel_tol=1e-4)
        return (
            "every number has the wrong sign"
            if sign
            else f"every number is {times(ratios[0])} what it should be"
        )
    here = next(ratio for ratio, r in zip(ratios, given, strict=True) if not r.right)
    if words := by_sizes(given, ratios):
        return (
            f"every number is {words} times what it should be ({here:.4g} times in the smallest wrong case)"
        )
    return ""


def offset(given: list[Result]) -> str:
    """Explain results that are right up to something added: the same everywhere, or a size of the case."""
    added = fitted(given, lambda r: (r.got - r.want).mean(), torch.add)
    if not added:
        return ""
    here = next(value for value, r in zip(added, given, strict=True) if not r.right)
    direction = "large" if here > 0 else "small"
    if all(isclose(value, added[0], rel_tol=1e-4, abs_tol=1e-6) for value in added):
        return f"every number is too {direction} by {abs(here):.4g}"
    if words := by_sizes(given, [value if here > 0 else -value for value in added]):
        return f"every number is too {direction} by {words} (by {abs(here):.4g} in the smallest wrong case)"
    return ""


def fitted(given: list[Result], fit: Callable, join: Callable) -> list[float]:
    """Fit one number a case, which joined to the wanted ones gives what was got; [] if no such number does."""
    if any(r.got.shape != r.want.shape or not r.want.numel() or not r.want.isfinite().all() for r in given):
        return []
    values = [float(fit(r)) for r in given]
    return values if all(same(r.got, join(r.want, v)) for r, v in zip(given, values, strict=True)) else []


def by_sizes(given: list[Result], values: list[float]) -> str:
    """Name the values, one a case, by the sizes of the cases: D, sqrt(d), 1/(H·W); "" if none or not one fits."""
    sizes = [sizes_of(r) for r in given]
    names = [name for name in sizes[0] if all(s.get(name, 0) > 0 for s in sizes)]
    forms: list[tuple[str, Callable[[float], float]]] = [
        ("{}", lambda n: n),
        ("1/{}", lambda n: 1 / n),
        ("sqrt({})", sqrt),
        ("1/sqrt({})", lambda n: 1 / sqrt(n)),
        ("({0} - 1)/{0}", lambda n: (n - 1) / n),
        ("{0}/({0} - 1)", lambda n: n / (n - 1) if n != 1 else 0.0),
        ("(1 - {})", lambda n: 1 - n),
        ("1/(1 - {})", lambda n: 1 / (1 - n) if n != 1 else 0.0),
    ]
    products = list(itertools.combinations_with_replacement(names, 2))
    candidates = [(form.format(a), [f(s[a]) for s in sizes]) for a in names for form, f in forms]
    candidates += [(f"{a}·{b}", [s[a] * s[b] for s in sizes]) for a, b in products]
    candidates += [(f"1/({a}·{b})", [1 / (s[a] * s[b]) for s in sizes]) for a, b in products]
    candidates += [(f"{a}/{b}", [s[a] / s[b] for s in sizes]) for a, b in itertools.permutations(names, 2)]
    fits = [
        w
        for w, made in candidates
        if all(isclose(v, m, rel_tol=1e-4) for v, m in zip(values, made, strict=True))
    ]
    return " or ".join(fits[:2]) if len(fits) < 3 else ""


def term(given: list[Result]) -> str:
    """Explain counts in which a product of the arguments is missing or too much."""
    sizes, missing = [sizes_of(r) for r in given], [float(r.want - r.got) for r in given]
    names = [name for name in sizes[0] if all(s.get(name, 0) > 0 for s in sizes)]
    if len(given) < 3 or any(r.right for r in given) or len({f"{m:.6g}" for m in missing}) < 3:
        return ""
    for degree in (1, 2, 3):
        for chosen in itertools.combinations_with_replacement(names, degree):
            much = [m / prod(s[name] for name in chosen) for m, s in zip(missing, sizes, strict=True)]
            plain = isclose(4 * much[0], round(4 * much[0]), rel_tol=1e-6)
            if plain and all(isclose(m, much[0], rel_tol=1e-6) for m in much):
                powers = [
                    name + "²³"[n - 2] * (n > 1)
                    for name in dict.fromkeys(chosen)
                    for n in [chosen.count(name)]
                ]
                product = " · ".join([f"{abs(much[0]):.4g}"] * (abs(much[0]) != 1) + powers)
                want, got = (f"{float(x):.6g}" for x in (given[0].want, given[0].got))
                how = "missing" if much[0] > 0 else "too much"
                return f"{product} is {how}: {want} is wanted in the smallest case, yours is {got}"
    return ""


def other_function(given: list[Result]) -> str:
    """Explain results that are a function of the wanted ones, number by number or along an axis."""
    done: list[Slip] = [
        ("each number is 1 minus what it should be", lambda x: 1 - x),
        ("each number is 1 divided by what it should be", lambda x: 1 / x),
        ("each number is the square of what it should be", torch.square),
        ("each number is the root of what it should be", torch.sqrt),
        ("each number is the logarithm of what it should be", torch.log),
        ("each number is `exp` of what it should be", torch.exp),
        ("the signs are lost: each number is the absolute value of what it should be", torch.abs),
        ("numbers below 0 have become 0", torch.relu),
        ("the numbers are cut off to 0...1", lambda x: x.clamp(0, 1)),
        ("the numbers are rounded to whole ones", torch.round),
        ("what stands behind the point is cut off", torch.trunc),
    ]
    left_out: list[Slip] = [
        ("numbers below 0 should become 0", torch.relu),
        ("the absolute value is missing", torch.abs),
        ("the numbers should be cut off to 0...1", lambda x: x.clamp(0, 1)),
        ("the numbers should be rounded to whole ones", torch.round),
    ]
    names = axis_names(given)
    return (
        first_fit(given, done)
        or first_fit(given, left_out, back=True)
        or first_fit(given, along(names, "{} is done once too often, over the {}"))
        or first_fit(given, along(names, "{} is missing, over the {}"), back=True)
        or sums_elsewhere(given, names)
    )


def along(names: list[tuple[str, str]], words: str) -> Iterator[Slip]:
    """Yield what may be done along each axis."""
    for i, (_, many) in enumerate(names):
        a = i - len(names)
        yield words.format("a softmax", many), lambda x, a=a: x.softmax(a)
        yield words.format("a division by the sum", many), lambda x, a=a: x / x.sum(a, True)
        yield words.format("a division by the length", many), lambda x, a=a: x / x.norm(dim=a, keepdim=True)
        yield words.format("the subtraction of the mean", many), lambda x, a=a: x - x.mean(a, True)
        yield words.format("a running sum (`cumsum`)", many), lambda x, a=a: x.cumsum(a)


def sums_elsewhere(given: list[Result], names: list[tuple[str, str]]) -> str:
    """Notice numbers that sum to 1 over one axis alone, and another one than wanted."""
    if any(r.got.shape != r.want.shape for r in given):
        return ""

    def ones(which: str) -> list[int]:
        tensors = [getattr(r, which) for r in given]
        axes = range(-len(names), 0)
        return [a for a in axes if all(same(t.sum(a), torch.ones_like(t.sum(a))) for t in tensors)]

    mine, wanted = ones("got"), ones("want")
    if len(mine) == len(wanted) == 1 and mine != wanted:
        return f"your numbers sum to 1 over the {names[mine[0]][1]}; they should do so over the {names[wanted[0]][1]}"
    return ""


def of_arguments(given: list[Result]) -> str:
    """Recognise an argument in the result: as it is, added or multiplied once too often or not at all."""
    claims: list[tuple[str, Callable[[Tensor, Tensor], Tensor]]] = [
        ("you return `{}` as it is", lambda x, y: y),
        ("your result is the wanted one plus `{}`", lambda x, y: x + y),
        ("your result is the wanted one minus `{}`", lambda x, y: x - y),
        (
            "the sign of `{}` is wrong: your result is the wanted one minus 2 times `{}`",
            lambda x, y: x - 2 * y,
        ),
        (
            "the sign of `{}` is wrong: your result is the wanted one plus 2 times `{}`",
            lambda x, y: x + 2 * y,
        ),
        ("your result is the wanted one multiplied by `{}`", lambda x, y: x * y),
        ("your result is the wanted one divided by `{}`", lambda x, y: x / y),
    ]
    for name in tensors_of(given):
        for words, slip in claims:
            try:
                if all(same(slip(r.want, argument(r, name)), r.got) for r in given):
                    return words.replace("{}", name)
            except RuntimeError:
                continue
    return ""


def made_of_arguments(given: list[Result]) -> str:
    """Recognise the mean, sum, largest, first ... of an argument along an axis, and two arguments joined."""
    wrong = [r for r in given if not r.right]
    if sum(r.got.numel() for r in wrong) < 6:
        return ""
    reductions: list[tuple[str, Callable[[Tensor, int], Tensor]]] = [
        ("the mean", torch.mean),
        ("the sum", torch.sum),
        ("the largest number", torch.amax),
        ("the smallest number", torch.amin),
        ("the first entry", lambda x, a: x.select(a, 0)),
        ("the last entry", lambda x, a: x.select(a, -1)),
    ]
    joins = [("{} + {}", torch.add), ("{} - {}", torch.sub), ("{} * {}", torch.mul), ("{} / {}", torch.div)]
    letters = wrong[0].arguments.get("axes", {})
    for name in tensors_of(given):
        for a in range(min(argument(r, name).ndim for r in wrong)):
            for words, reduce in reductions:
                if all(same(reduce(argument(r, name), a), r.got) for r in wrong):
                    many = AXES.get(next(iter(letters.get(name, ())[a : a + 1]), ""), ("", ""))[1]
                    return f"your result is {words} of `{name}` along axis {a}" + f", the {many}" * bool(many)
    for one, other in itertools.permutations(tensors_of(given), 2):
        for words, join in joins:
            try:
                if all(same(join(argument(r, one), argument(r, other)), r.got) for r in wrong):
                    return f"your result is `{words.format(one, other)}`"
            except RuntimeError:
                continue
    return ""


def off_by_lines(given: list[Result]) -> str:
    """Notice results that are right up to a factor or an offset of each case, or of each line along an axis."""
    wrong = [r for r in given if not r.right]
    if any(r.got.shape != r.want.shape for r in given) or any(len(r.want.unique()) < 4 for r in wrong):
        return ""
    if any(len(r.got.unique()) < 4 for r in wrong):
        return ""
    if fitted(given, lambda r: (r.got * r.want).sum() / (r.want * r.want).sum(), torch.mul):
        return "the numbers are right up to a factor: the same within a result, another for another result"
    if fitted(given, lambda r: (r.got - r.want).mean(), torch.add):
        return "all numbers of one result are off by the same amount, those of another result by another"
    for i, (_, many) in enumerate(names := axis_names(given)):
        a = i - len(names)
        if len(names) < 2 or any(r.want.shape[a] < 4 for r in wrong):
            continue
        shares = [
            (r.got * r.want).sum(a, True) / (r.want * r.want).sum(a, True).clamp(min=1e-30) for r in given
        ]
        if all(same(r.got, r.want * share) for r, share in zip(given, shares, strict=True)):
            return f"the {many} have the right proportions, but each such line is off by a factor of its own"
        if all(same(r.got, r.want + (r.got - r.want).mean(a, True)) for r in given):
            return f"the {many} of one line are all off by the same amount, those of another line by another"
    return ""


# The same numbers elsewhere


def elsewhere(given: list[Result]) -> str:
    """Explain results that hold the right numbers in wrong places."""
    if not all(map(rearranged, given)) or len({r.want.ndim for r in given}) > 1:
        return ""
    names = axis_names(given)
    return (
        first_fit(given, turned(names))
        or reshaped(given, names)
        or slices_moved([r for r in given if not r.right], names)
        or first_fit(given, in_turns(given, names))
    )


def misplaced(given: list[Result]) -> str:
    """Notice that all numbers are the right ones."""
    if all(map(rearranged, given)) and all(len(r.want.unique()) > 3 for r in given if not r.right):
        return "all numbers are the right ones, but they stand in wrong places: they are reordered, not miscalculated"
    return ""


def rearranged(r: Result) -> bool:
    """Tell whether a result has the wanted shape and numbers, wherever they stand."""
    return r.got.shape == r.want.shape and same(r.got.flatten().sort()[0], r.want.flatten().sort()[0])


def other_order(names: list[tuple[str, str]]) -> Iterator[Slip]:
    """Yield the axes in every other order."""
    n = len(names)
    for p in (
        sorted(itertools.permutations(range(n)), key=lambda p: sum(p[i] != i for i in range(n)))
        if n < 6
        else ()
    ):
        moved = [i for i in range(n) if p[i] != i]
        if len(moved) == 2:
            swapped = f"the axes of the {names[moved[0]][1]} and of the {names[moved[1]][1]} are swapped"
            yield swapped, lambda x, p=p: x.permute(p)
        elif moved:
            words = f"the axes stand in another order: yours are ({in_order(names, p)}), "
            yield words + f"they should be ({in_order(names, range(n))})", lambda x, p=p: x.permute(p)


def turned(names: list[tuple[str, str]]) -> Iterator[Slip]:
    """Yield each axis turned round, or moved by one place."""
    n = len(names)
    for i, (_, many) in enumerate(names):
        yield f"the {many} stand in reverse order", lambda x, i=i: x.flip(i)
        yield f"the {many} are moved on by one place, the last one comes first", lambda x, i=i: x.roll(1, i)
        yield (
            f"the {many} are moved back by one place, the first one comes last",
            lambda x, i=i: x.roll(-1, i),
        )
    for i, j in itertools.combinations(range(n), 2):
        both = f"the {names[i][1]} and the {names[j][1]} stand in reverse order"
        yield both, lambda x, i=i, j=j: x.flip((i, j))


def reshaped(given: list[Result], names: list[tuple[str, str]]) -> str:
    """Find a `reshape` where axes should have moved: of an argument, or of the result with its axes reordered."""
    for name in tensors_of(given):
        if all(same(r.got.flatten(), argument(r, name).flatten()) for r in given):
            return f"your numbers are those of `{name}` in the same order: `reshape` and `view` alone move nothing"
    for p in itertools.permutations(range(len(names))) if len(names) < 6 else ():
        if all(same(r.got.flatten(), r.want.permute(p).flatten()) for r in given):
            return (
                f"your numbers stand in the order ({in_order(names, p)}) and have only been given the wanted "
                "shape: `reshape` moves nothing, so bring the axes into their order first"
            )
    return ""


def slices_moved(wrong: list[Result], names: list[tuple[str, str]]) -> str:
    """Find another order along one axis, and say it for the smallest result."""
    for i, (_, many) in enumerate(names):
        orders = [order_along(r, i) for r in wrong]
        if all(orders):
            shown = ", ".join(map(str, orders[0][:12])) + (", ..." if len(orders[0]) > 12 else "")
            rows = [rows_read_down(order) for order in orders]
            hint = f", as if a table of {rows[0]} rows were read down its columns" if all(rows) else ""
            return f"the {many} stand in another order: where 0, 1, 2 ... should stand you have {shown}{hint}"
    return ""


def order_along(r: Result, axis: int) -> list[int]:
    """Return which wanted slice stands at each place; [] if that is no reordering, or not clear."""
    mine, wanted = (x.movedim(axis, 0).flatten(1) for x in (r.got, r.want))
    if mine.shape[1] < 2 or len(mine) > 256:  # of single numbers every rearrangement could be called so
        return []
    equal = torch.cdist(mine, wanted, p=float("inf")) <= 1e-5 + 1e-4 * wanted.abs().max()
    return (
        equal.double().argmax(1).tolist() if (equal.sum(0) == 1).all() and (equal.sum(1) == 1).all() else []
    )


def rows_read_down(order: list[int]) -> int:
    """Return how many rows a table of 0, 1, 2 ... has that gives this order when it is read down; 0 if none does."""
    places = torch.arange(n := len(order))
    rows = (
        k for k in range(2, n // 2 + 1) if n % k == 0 and order == places.reshape(k, -1).T.flatten().tolist()
    )
    return next(rows, 0)


def in_turns(given: list[Result], names: list[tuple[str, str]]) -> Iterator[Slip]:
    """Yield each axis split into groups whose entries come in turns, or side by side where they should take turns."""

    def split(x: Tensor, axis: int, groups: int) -> Tensor:
        if groups == 0 or x.shape[axis] % groups:  # an error raised by torch would take milliseconds
            raise ValueError
        return x.movedim(axis, 0).unflatten(0, (groups, -1)).transpose(0, 1).flatten(0, 1).movedim(0, axis)

    for i, (_, many) in enumerate(names):
        for n in range(2, min(max(r.want.shape[i] for r in given), 17)):
            words = (
                f"the {many} come in turns, one from each of {n} groups; the groups should stand side by side"
            )
            yield words, lambda x, i=i, n=n: split(x, i, n)
            words = (
                f"the {many} stand side by side in {n} groups; they should come in turns, one from each group"
            )
            yield words, lambda x, i=i, n=n: split(x, i, x.shape[i] // n)


# Right only somewhere


def part(given: list[Result]) -> str:
    """Notice that the first or last slice along an axis is the only right or wrong one, in every wrong case."""
    wrong, names = [r for r in given if not r.right], axis_names(given)
    if len(wrong) < 2 or any(r.got.shape != r.want.shape for r in given) or names[:1] == [AXES["values"]]:
        return ""
    for i, (one, _) in enumerate(names):
        a = i - len(names)
        lines = [
            (~torch.isclose(r.got, r.want, 1e-4, 1e-5)).movedim(a, 0).flatten(1).any(1).tolist()
            for r in wrong
        ]
        if any(len(line) < 2 for line in lines) or sum(map(len, lines)) < 6:
            continue
        for word, index in (("first", 0), ("last", -1)):
            alone = [[k == index % len(line) for k in range(len(line))] for line in lines]
            if lines == alone:
                inner = explain_numbers([cut(r, a, index, 1) for r in given], SURE)
                return f"only the {word} {one} is wrong" + (f"; there {inner}" if inner else "")
            if lines == [[not b for b in line] for line in alone] and max(map(len, lines)) > 2:
                inner = explain_numbers([cut(r, a, 1 + index, r.want.shape[a] - 1) for r in given], SURE)
                return f"only the {word} {one} is right" + (f"; else {inner}" if inner else "")
    return ""


def cut(r: Result, axis: int, start: int, length: int) -> Result:
    """Return a result with a part of an axis alone."""
    start %= r.want.shape[axis]
    return replace(r, got=r.got.narrow(axis, start, length), want=r.want.narrow(axis, start, length))


SCALAR = (factor, offset, term, other_function)
"""What may explain single numbers, the simplest first."""
SURE = (
    undefined,
    axes_moved,
    shape,
    factor,
    offset,
    term,
    of_arguments,
    other_function,
    elsewhere,
    made_of_arguments,
)
"""What leaves nothing open; `term` is for single numbers alone."""
VAGUE = (shape_alone, part, off_by_lines, misplaced)
"""What narrows the search alone."""


# What more calls say


def varies(trial: Trial) -> str:
    """Notice an answer whose second result on the same input is another, while that of the finished version is not."""
    try:
        i = trial.wrong[0]
        stopped = isinstance(trial.got[i], Exception) or isinstance(
            again := second(trial, trial.answer, i), Exception
        )
        if stopped or not difference(again, trial.got[i], same_dtype=False):
            return ""
        if difference(second(trial, trial.reference, i), trial.want[i], same_dtype=False):
            return ""
    except Unfinished:
        raise
    except Exception:
        return ""
    return (
        "two calls on the same input give different results: something is drawn at random, or is kept from one call to "
        "the next, where nothing should be"
    )


def second(trial: Trial, function: Callable, i: int) -> Any:
    """Return the result of a second call on a case: of one module, where a class is the answer."""
    if trial.ready is None:
        return trial.call(function, trial.cases[i])
    options, *inputs = trial.cases[i]
    module = trial.ready(function, options).eval()
    return [outcome(lambda f, *x: f(*x), module, tuple(inputs)) for _ in range(2)][1]


def unused_arguments(trial: Trial) -> str:
    """Name the arguments that never change the result, though they change the wanted one."""
    if any(isinstance(trial.got[i], Exception) for i in trial.wrong):
        return ""
    numbers = {float(value) for value in trial.got if isinstance(value, Real)}
    if numbers and len(numbers) < 3:  # a yes or no may stay by chance, whatever changes
        return ""
    order = [*trial.wrong, *(i for i in range(len(trial.cases)) if i not in trial.wrong)]
    tried = order[:2] if trial.ready else order
    names = dict.fromkeys(name for i in tried for name, *_ in places(trial, trial.cases[i]))
    defaults = {
        n: p.default for n, p in (signature(trial.reference) | signature(calling(trial.reference))).items()
    }

    def explains(name: str) -> bool:  # an argument left to its default cannot be what makes a case wrong
        left = [
            next((v for n, v, _ in places(trial, trial.cases[i]) if n == name), defaults[name])
            for i in trial.wrong
        ]
        return not any(not isinstance(v, Tensor) and v == defaults[name] for v in left)

    unused = listed(f"`{name}`" for name in names if explains(name) and unchanged_by(trial, name, tried))
    return f"your result does not change with {unused}, but it should" if unused else ""


def unchanged_by(trial: Trial, name: str, tried: Sequence[int]) -> bool:
    """Tell whether no other value of an argument changes the answer's result, while several change the wanted one."""
    telling = 0
    for i in tried:
        for case in other_values(trial, trial.cases[i], name):
            if isinstance(mine := trial.call(trial.answer, case), Exception):
                return False
            if difference(mine, trial.got[i]):
                return False
            want = trial.call(trial.reference, case)
            if not isinstance(want, Exception) and difference(want, trial.want[i]):
                telling += min(
                    3, getattr(first_of(want), "numel", int)() or 1
                )  # one number may agree by chance
    return telling > 2


def places(trial: Trial, case: tuple) -> list[tuple[str, Any, Callable[[Any], tuple]]]:
    """List the arguments of a case, the options of a module among them: name, value, what puts in another value."""
    options, start = [], 0
    if trial.ready:
        options = [(n, v, lambda new, n=n: ({**case[0], n: new}, *case[1:])) for n, v in case[0].items()]
        start = 1
    names = argument_names(calling(trial.reference), len(case) - start)
    inputs = [
        (names[i - start], case[i], lambda new, i=i: (*case[:i], new, *case[i + 1 :]))
        for i in range(start, len(case))
    ]
    return [place for place in options + inputs if isinstance(place[1], Tensor | Real | str | tuple | list)]


def other_values(trial: Trial, case: tuple, name: str) -> list[tuple]:
    """Return the case with other values of an argument: a tensor shuffled, else values of other cases or near ones."""
    value, change = next(((v, c) for n, v, c in places(trial, case) if n == name), (None, None))
    if change is None:
        return []
    if isinstance(value, Tensor) and value.dtype == torch.bool:
        return [change(~value)]
    if isinstance(value, Tensor):
        draw = torch.Generator().manual_seed(0)
        shuffled = [
            value.flatten()[torch.randperm(value.numel(), generator=draw)].reshape(value.shape)
            for _ in range(4)
        ]
        return [change(v) for v in shuffled] + [change(v * 1.5 + 0.25) for v in shuffled[:1] if is_float(v)]
    found = [v for other in trial.cases for n, v, _ in places(trial, other) if n == name]
    found += [p.default for n, p in signature(trial.reference).items() if n == name]
    if isinstance(value, bool):
        found.append(not value)
    elif isinstance(value, Real) and not trial.ready:
        found += [value * 2] * (abs(value) < 17) + [value + 1]  # twice a large size may fill the memory
    found = [v for v in found if type(v) is type(value) and v != value]
    return [change(v) for i, v in enumerate(found) if v not in found[:i]][: 2 if trial.ready else 5]


def unused_weights(trial: Trial) -> str:
    """Name the weights of a module that do not change its result, though they change the wanted one."""
    shapes = [tuple(getattr(first_of(v), "shape", ())) for v in (*trial.got, *trial.want)]
    if trial.ready is None or shapes[: len(trial.got)] != shapes[len(trial.got) :]:
        return ""
    unused, mine = None, {}
    for options, *inputs in (trial.cases[i] for i in trial.wrong[:3]):
        if perf_counter() > trial.until:
            return ""
        modules = (trial.ready(f, options).eval() for f in (trial.answer, trial.reference))
        mine, finished = (still_weights(module, inputs) for module in modules)
        still = [
            f"`{name}`" for name, same_result in mine.items() if same_result and finished.get(name) is False
        ]
        unused = still if unused is None else [name for name in unused if name in still]
        if not unused:
            return ""
    if not unused or len(unused) == len(mine):
        return ""
    shown = listed(unused[:4] + ["others"] * (len(unused) > 4))
    return f"your result does not depend on the weights {shown}, but it should"


def still_weights(module: nn.Module, inputs: Sequence) -> dict[str, bool]:
    """Tell of every weight by name whether the module's first result stays as it is when the weight changes."""
    found = {}
    with torch.no_grad():
        before = first_of(module(*copy(tuple(inputs)))).double()
        for name, weight in module.named_parameters():
            kept = weight.clone()
            found[name] = True
            for scale in (1, -1):
                weight.copy_(kept + scale * torch.linspace(0.2, 0.5, kept.numel()).reshape(kept.shape))
                found[name] &= same(first_of(module(*copy(tuple(inputs)))).double(), before)
            weight.copy_(kept)
    return found


def simpler_input(trial: Trial) -> str:
    """Notice that one change of the input makes every wrong case right, and could be made in no right case."""
    for words, change in simpler(trial):
        changed = [change(case) for case in trial.cases]
        if [case is not None for case in changed] != [i in trial.wrong for i in range(len(changed))]:
            continue
        wanted = [trial.call(trial.reference, changed[i]) for i in trial.wrong]
        mine = [trial.call(trial.answer, changed[i]) for i in trial.wrong]
        if any(isinstance(want, Exception) for want in wanted):
            continue
        if not any(difference(got, want) for got, want in zip(mine, wanted, strict=True)):
            return words
    return ""


def simpler(trial: Trial) -> Iterator[tuple[str, Callable[[tuple], tuple | None]]]:
    """Yield words for simpler inputs, and what makes one of a case: None if it is one."""

    def tensors(test: Callable, new: Callable) -> Callable[[tuple], tuple | None]:
        def change(case: tuple) -> tuple | None:
            chosen = [isinstance(value, Tensor) and test(value) for value in case]
            made = (new(value) if hit else value for value, hit in zip(case, chosen, strict=True))
            return tuple(made) if any(chosen) else None

        return change

    yield (
        "right for tensors whose numbers lie in memory in order, wrong for others, as `transpose` and `permute` give",
        tensors(lambda x: not x.is_contiguous(), Tensor.contiguous),
    )
    for dtype in (torch.float64, torch.float16, torch.uint8):
        words = f"right for inputs of torch.float32, wrong for {dtype}"
        yield words, tensors(lambda x, dtype=dtype: x.dtype == dtype, Tensor.float)
    yield "right for one picture, wrong for several in a batch", partial(first_picture, trial)
    for name, parameter in signature(trial.reference).items():
        if parameter.default is not parameter.empty:
            words = f"right where `{name}` has its default, {parameter.default!r}, wrong for other values"
            yield words, partial(at_default, trial, name, parameter.default)


def first_picture(trial: Trial, case: tuple) -> tuple | None:
    """Cut a case to its first picture, by the letter B in the docstring; None if it has no more than one."""
    letters, several = argument_axes(trial.reference), False
    for name, value, _ in places(trial, case):
        if isinstance(value, Tensor) and letters.get(name, ("",))[0] == "B" and len(value) > 1:
            case = next(change for n, _, change in places(trial, case) if n == name)(value[:1])
            several = True
    return case if several else None


def at_default(trial: Trial, name: str, default: Any, case: tuple) -> tuple | None:
    """Put the default of an argument into a case; None if it is there."""
    return next((change(default) for n, v, change in places(trial, case) if n == name and v != default), None)


def one_kind_of_input(trial: Trial) -> str:
    """Name the property that all right cases have and no wrong one, if there is exactly one."""
    right = [i not in trial.wrong for i in range(len(trial.cases))]

    def separates(test: Callable) -> bool:
        return any(right) and [test(trial, case) for case in trial.cases] == right

    names = {name for case in trial.cases for name, *_ in places(trial, case)}
    squares = {f"`{name}` is a square": partial(square, only=name) for name in names}
    overall = {"height and width are equal": square}
    others = {
        "heights and widths are even": even,
        "1": lambda trial, case: first_picture(trial, case) is None,
        "2": lambda trial, case: not any(is_float(v) and v.dtype != torch.float32 for v in case),
    }  # the last two are told by `simpler_input`, if they are true; here they only make others doubtful
    chosen = overall if separates(square) else squares
    found = [words for words, test in (chosen | others).items() if separates(test)]
    return (
        f"right where {found[0]}, wrong elsewhere"
        if len(found) == 1 and len(found[0]) > 1 and len(right) > 2
        else ""
    )


def square(trial: Trial, case: tuple, only: str = "") -> bool | None:
    """Tell whether height and width agree in all pictures and pairs of a case, or in one; None if it has none."""
    letters, sides = argument_axes(trial.reference), []
    for name, value, _ in places(trial, case):
        if only not in ("", name):
            continue
        if isinstance(value, Tensor) and letters.get(name, ())[-2:] == ("H", "W"):
            sides.append(tuple(value.shape[-2:]))
        elif isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, int) for v in value):
            sides.append(value)
        elif isinstance(value, int) and name in SIDES:
            sides.append((value, value))
    return all(height == width for height, width in sides) if sides else None


def even(trial: Trial, case: tuple) -> bool | None:
    """Tell whether the pictures of a case have even sides; None if there are none."""
    letters = argument_axes(trial.reference)
    pictures = [v for n, v, _ in places(trial, case) if letters.get(n, ())[-2:] == ("H", "W")]
    return all(side % 2 == 0 for v in pictures for side in v.shape[-2:]) if pictures else None


# Defaults


def default_astray(answer: Callable, reference: Callable) -> tuple[list[str], str]:
    """Return the arguments without their default, or the first with another one, and words for it; else [] and ""."""
    mine = signature(answer)
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in mine.values()):
        return [], ""
    missing, other = {}, ([], "")
    for place, (name, parameter) in enumerate(signature(reference).items()):
        own = mine.get(name) or next(itertools.islice(mine.values(), place, None), None)
        if own is None or parameter.default is parameter.empty:
            continue
        both = [tuple(d) if isinstance(d, list) else d for d in (own.default, parameter.default)]
        if own.default is own.empty:
            missing[f"`{name}`"] = f"{parameter.default!r}"
        elif both[0] != both[1] and None not in both and not other[1]:
            other = (
                [name],
                f"the default of `{name}` should be {parameter.default!r}; yours is {own.default!r:.60}",
            )
    if not missing:
        return other
    have, those = ("have no defaults", "those") if len(missing) > 1 else ("has no default", "that")
    keep = f"keep {those} of the docstring's signature, {listed(missing.values())}"
    return [name.strip("`") for name in missing], f"{listed(missing)} {have}: {keep}"


def demand_defaults(answer: Callable, reference: Callable) -> None:
    """Demand the defaults of the finished version's signature, of an answer that is right otherwise."""
    if words := default_astray(answer, reference)[1]:
        raise Mistake(f"all results are right, but {words}")


def other_default(trial: Trial) -> str:
    """Explain answers that are wrong where an argument is left to its default, and there alone."""
    names, words = default_astray(trial.answer, trial.reference)
    left = [not named_arguments(trial.reference, case).keys() >= set(names) for case in trial.cases]
    return words if names and left == [i in trial.wrong for i in range(len(left))] else ""


# Two known mistakes


def two_at_once(trial: Trial, mistakes: Sequence[tuple[Callable, str]]) -> str:
    """Explain an answer by two known mistakes, or by one and a slip; "" if none fits, or more than one."""
    if trial.ready:  # building modules again costs too much, and their mistakes seldom add up
        return ""
    known = []
    for mistaken, message in mistakes:
        theirs = [trial.call(mistaken, case) for case in trial.cases]
        if not any(isinstance(value, Exception) for value in theirs):
            known.append((message, theirs))
    if len(known) > MANY:
        return ""
    pairs = itertools.combinations(known, 2)
    found = {(a, b) for (a, one), (b, other) in pairs if a != b and together(trial, one, other)}
    found = found or {(words, slip) for words, theirs in known if (slip := slip_after(trial, theirs))}
    if len(found) != 1:
        return ""
    first, then = found.pop()
    return f"two things at once: {first}. And besides: {then}"


def together(trial: Trial, first: list, other: list) -> bool:
    """Tell whether two mistakes give the answer's results together: added, multiplied, or one moved by the other."""
    values = [[as_tensor(v) for v in row] for row in (trial.got, trial.want, first, other)]
    if (
        any(v is None for row in values for v in row)
        or len({tuple(v.shape for v in row) for row in values}) > 1
    ):
        return False
    got, want, a, b = (torch.cat([v.flatten() for v in row]) for row in values)
    if any(same(one, two) for one, two in itertools.combinations((got, want, a, b), 2)):
        return False
    if len((got - want).unique()) < 3:
        return False
    if same(got, a + b - want) or (same(got * want, a * b) and bool((want != 0).all())):
        return True
    return same(got, moved(want, a, b)) or same(got, moved(want, b, a))


def moved(want: Tensor, first: Tensor, other: Tensor) -> Tensor:
    """Move the numbers of `first` as those of `want` move to become `other`; nan if they do not only move."""
    places, order = want.sort(), other.sort()
    if len(want.unique()) < len(want) or not same(places.values, order.values):
        return torch.full_like(want, float("nan"))
    source = torch.empty_like(places.indices)
    source[order.indices] = places.indices
    return first[source]


def slip_after(trial: Trial, theirs: list) -> str:
    """Explain the answer's results by what a known mistake gives, and one slip more."""
    arguments = [named_arguments(trial.reference, case) for case in trial.cases]
    axes = axes_of(section(trial.reference, "Returns"))
    given = results(trial.got, theirs, arguments, axes)
    told = [
        r.want.numel() > 3 and not same(r.want, as_tensor(w)) for r, w in zip(given, trial.want, strict=False)
    ]
    if len(given) < len(trial.cases) or sum(told) < 2:
        return ""
    return explain_numbers(given, (axes_moved, factor, offset, shape, elsewhere))


# Numbers, sizes and names

SIDES = ("img_size", "patch_size", "grid_size")
"""Arguments that are a pair (height, width), or one number for both."""


def as_tensor(value: Any) -> Tensor | None:
    """Read a tensor, a number, or several numbers as float64; None if it is none of these."""
    if isinstance(value, Tensor):
        return None if value.is_complex() else value.detach().double()
    numbers = value if isinstance(value, tuple | list) and value else [value]
    if not all(isinstance(number, Real) for number in numbers):
        return None
    return torch.tensor(
        [float(n) for n in numbers] if numbers is value else float(value), dtype=torch.float64
    )


def agree(got: Any, want: Any) -> bool:
    """Tell whether two results are the same numbers, of whatever type."""
    if isinstance(got, tuple | list) and isinstance(want, tuple | list) and len(got) == len(want):
        return all(agree(g, w) or g is w for g, w in zip(got, want, strict=True))
    mine, right = as_tensor(got), as_tensor(want)
    return mine is not None and right is not None and same(mine, right)


def wrong_kind(got: Any, want: Any) -> bool:
    """Tell whether nothing, or no number where one is wanted, was returned, or right numbers of a wrong type."""
    if isinstance(got, Exception):
        return False
    return got is None or agree(got, want) or (as_tensor(got) is None and as_tensor(want) is not None)


def same(a: Tensor, b: Tensor) -> bool:
    """Tell whether two tensors have one shape and, up to rounding, the same numbers."""
    if a.shape != b.shape:
        return False
    if a.numel() == 1 and float(a).is_integer() and float(b).is_integer():  # counts are exact
        return float(a) == float(b)
    scale = float(b[b.isfinite()].abs().max()) if b.isfinite().any() else 0.0
    return torch.allclose(a, b, rtol=1e-4, atol=2e-5 * min(scale, 1.0), equal_nan=True)


def times(value: float) -> str:
    """Name a factor: twice, half, 1/255 of, sqrt(2) times, 3.5 times."""
    named = {2.0: "twice", 0.5: "half", -2.0: "minus twice", -0.5: "minus half"}
    named |= {sqrt(2): "sqrt(2) times", sqrt(0.5): "1/sqrt(2) times", pi: "pi times", 1 / pi: "1/pi times"}
    named |= {
        log(2): "ln 2 times",
        1 / log(2): "1/ln 2 times",
        log(10): "ln 10 times",
        1 / log(10): "1/ln 10 times",
    }
    if words := next((words for number, words in named.items() if isclose(value, number, rel_tol=1e-4)), ""):
        return words
    fraction = Fraction(value).limit_denominator(256)
    simple = abs(fraction.numerator) == 1 or fraction.denominator < 10 or fraction.denominator > 254
    plain = simple and fraction.denominator > 1 and isclose(value, fraction, rel_tol=1e-5)
    return f"{fraction} of" if plain else f"{value:.4g} times"


def listed(words: Iterable[str]) -> str:
    """Join words: a, b and c."""
    *front, last = list(words) or [""]
    return f"{', '.join(front)} and {last}" if front else last


def axis_names(given: list[Result]) -> list[tuple[str, str]]:
    """Say what one entry along each axis of the wanted results is, and several are; from the end, where they differ."""
    n = min(r.want.ndim for r in given)
    letters = given[0].axes[len(given[0].axes) - n :] or ("",) * n
    names = [
        AXES.get(letter, (f"entry of axis {i}", f"entries of axis {i}")) for i, letter in enumerate(letters)
    ]
    if letters[-2:] in (("T", "T"), ("T", "S")):
        names[-2:] = [("query", "queries"), ("key", "keys")]
    return names


def in_order(names: list[tuple[str, str]], order: Iterable[int]) -> str:
    """List axes in an order."""
    return ", ".join(names[i][1].replace("entries of ", "") for i in order)


def tensors_of(given: list[Result]) -> list[str]:
    """Return the names of the arguments that are tensors of floating-point numbers."""
    return [name for name, value in given[0].arguments.items() if is_float(value)]


def argument(r: Result, name: str) -> Tensor:
    """Return an argument as float64."""
    return r.arguments[name].double()


def sizes_of(r: Result) -> dict[str, float]:
    """Return the sizes of a case by name: arguments that are numbers, and the lengths of axes that have a letter."""
    sizes = {}
    for name, value in r.arguments.items():
        if isinstance(value, Real) and not isinstance(value, bool):
            sizes[name] = float(value)
        pair = (value, value) if name in SIDES and isinstance(value, int) else value
        if name in SIDES and isinstance(pair, tuple):
            sizes |= {f"{name}[{i}]": float(side) for i, side in enumerate(pair)}
    shapes = [(axes, r.arguments[name].shape) for name, axes in r.arguments.get("axes", {}).items()]
    for axes, lengths in (*shapes, (r.axes, r.want.shape)):
        pairs = zip(reversed(axes), reversed(lengths), strict=False)
        sizes |= {letter: float(n) for letter, n in pairs if re.fullmatch("[A-Za-z]", letter)}
    return sizes


def named_arguments(reference: Callable, case: tuple) -> dict[str, Any]:
    """Return the arguments of a case by name, the options of a module too, and at "axes" the letters of the tensors."""
    start = 1 if inspect.isclass(reference) else 0
    inputs = zip(argument_names(calling(reference), len(case) - start), case[start:], strict=False)
    named = (dict(case[0]) if start else {}) | dict(inputs)
    axes = {n: letters for n, letters in argument_axes(reference).items() if isinstance(named.get(n), Tensor)}
    return named | {"axes": axes}


def calling(reference: Callable) -> Callable:
    """Return what is called with the inputs: of a class its forward."""
    return getattr(reference, "forward", reference)


def signature(function: Callable) -> dict[str, inspect.Parameter]:
    """Return the arguments of a function or class by name; none where they are not known."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def section(reference: Callable, title: str) -> str:
    """Return a section of the docstring of a function, or of a class's forward."""
    found = re.search(rf"{title}:\n(.*?)(\n\n|\Z)", inspect.getdoc(calling(reference)) or "", re.DOTALL)
    return found[1] if found else ""


def argument_axes(reference: Callable) -> dict[str, tuple[str, ...]]:
    """Return the letters of the arguments' axes, where a docstring says them: "tokens: (B, N, D), the patches"."""
    lines = re.findall(r"^\s*(\w+): (\([^()]*\))", section(reference, "Args"), re.MULTILINE)
    return {name: axes for name, text in lines for axes in axes_of(text)}


def axes_of(text: str) -> list[tuple[str, ...]]:
    """Return the shapes that stand in a text in brackets: (B, N + 1, D)."""
    axis = re.compile(r"\.\.\.|1|[A-Za-z](·[A-Za-z])*|N \+ 1|prefix \+ N'?|(rows|columns)·[HW]|count")
    shapes = [re.split(r",\s*", inner.rstrip(", ")) for inner in re.findall(r"\(([^()]+)\)", text)]
    return [tuple(shape) for shape in shapes if all(map(axis.fullmatch, shape))]
