"""What the results alone tell: the looks at numbers and places, in their order, on whole results and on parts."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from vit_classroom.checks.explain.numbers import (
    constant,
    factor,
    few_digits,
    made_of_arguments,
    of_arguments,
    off_by_lines,
    offset,
    other_function,
    rounded,
    scores,
    term,
    undefined,
)
from vit_classroom.checks.explain.places import axes_moved, elsewhere, misplaced, shape
from vit_classroom.checks.explain.terms import (
    AXES,
    axes_of,
    axis_names,
    named_arguments,
    section,
    signature,
)
from vit_classroom.checks.explain.trial import Trial
from vit_classroom.checks.explain.values import Result, cut, results


def in_results(trial: Trial, looks: Sequence[Callable]) -> str:
    """Explain the whole result or, of several values, the first that can be explained."""
    if any(isinstance(got, Exception) for got in trial.got):
        looks = [look for look in looks if look is not constant]
    if isinstance(trial.got[trial.wrong[0]], Exception):  # the case that is shown has no shape
        looks = [look for look in looks if look is not shape]
    shapes = axes_of(section(trial.reference, "Returns"))
    arguments = [with_defaults(trial.reference, case) for case in trial.cases]
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


def with_defaults(reference: Callable, case: tuple) -> dict[str, Any]:
    """Return the arguments of a case by name, those that are left to their default too."""
    known = signature(reference).items()
    return {n: p.default for n, p in known if p.default is not p.empty} | named_arguments(reference, case)


def explain_numbers(given: list[Result], looks: Sequence[Callable]) -> str:
    """Explain results by the first look that sees something; by few numbers nothing but a shape is explained."""
    wrong = [r for r in given if not r.right]
    if not wrong:
        return ""
    distinct = len(torch.cat([r.want[~r.want.isnan()] for r in wrong]).unique())
    scalar = all(r.want.numel() == r.got.numel() == 1 for r in given)
    if distinct < 3 or (scalar and len(wrong) < 3):
        looks = [look for look in looks if look in (shape, axes_moved, rounded)]
    elif scalar:
        looks = [look for look in looks if look in SCALAR]
    else:
        looks = [look for look in looks if look is not term]
    words = next((words for look in looks if (words := look(given))), "")
    return re.sub("^(every|each) number", "your result", words) if scalar else words


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


SCALAR = (constant, factor, offset, term, rounded, other_function)
"""What may explain single numbers, the simplest first."""


SURE = (
    undefined,
    few_digits,
    constant,
    axes_moved,
    shape,
    factor,
    offset,
    term,
    of_arguments,
    rounded,
    other_function,
    scores,
    elsewhere,
    made_of_arguments,
)
"""What leaves nothing open; `term` is for single numbers alone."""


VAGUE = (off_by_lines, misplaced)
"""What narrows the search alone."""
