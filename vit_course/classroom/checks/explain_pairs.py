"""Two known mistakes at once, or one and a slip."""

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from vit_course.classroom.checks.explain_numbers import factor, offset
from vit_course.classroom.checks.explain_places import axes_moved, elsewhere, shape
from vit_course.classroom.checks.explain_results import explain_numbers
from vit_course.classroom.checks.explain_terms import axes_of, named_arguments, section
from vit_course.classroom.checks.explain_trial import Trial
from vit_course.classroom.checks.explain_values import as_tensor, results, same

MANY = 40
"""More known mistakes than these are not tried in pairs: that takes long, and several pairs would fit."""


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
