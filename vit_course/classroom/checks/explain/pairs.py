"""Two things at once: two known mistakes, one and a slip, or two slips."""

import itertools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from vit_course.classroom.checks.explain.edits import Edit
from vit_course.classroom.checks.explain.mutants import Mutants, agrees, in_init, mutants_of, telling
from vit_course.classroom.checks.explain.numbers import factor, offset
from vit_course.classroom.checks.explain.places import axes_moved, elsewhere, shape
from vit_course.classroom.checks.explain.results import explain_numbers
from vit_course.classroom.checks.explain.terms import axes_of, named_arguments, section
from vit_course.classroom.checks.explain.trial import Trial
from vit_course.classroom.checks.explain.values import as_tensor, results, same
from vit_course.classroom.checks.outcome import first_of
from vit_course.classroom.checks.words import difference

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
    if any(
        r.got.shape != r.want.shape and r.got.shape == as_tensor(w).shape
        for r, w in zip(given, trial.want, strict=True)
    ):
        return ""  # what the known mistake takes away has been put back: neither claim is true of the answer
    return explain_numbers(given, (axes_moved, factor, offset, shape, elsewhere))


def two_slips(trial: Trial) -> str:
    """Name two slips that do together what none does alone."""
    family = mutants_of(trial.reference)
    if not family.main or not trial.first or telling(trial) < 12 or len(trial.wrong) < 2:
        return ""
    for one, other in itertools.chain(adding_up(trial), near_misses(trial, family)):
        if trial.tired:
            break
        first, then = (family.main.edits[number] for number in (one, other))
        code = family.main.compiled((*first.changes, *then.changes)) if apart(first, then) else None
        made = code and family.made(code=code)
        if agrees(trial, made, None, in_init(first) or in_init(then)):
            for harmless, slip in ((first, then), (then, first)):
                if is_harmless(trial, family, harmless):
                    return (
                        f"your result is what comes out when {slip.words()}\nBesides, {harmless.words()}: that alone "
                        "does no harm"
                    )
            return (
                f"two slips at once: your result is what comes out when {first.words()}, and {then.words()}"
            )
    return ""


def is_harmless(trial: Trial, family: Mutants, edit: Edit) -> bool:
    """Tell whether the finished version gives what is wanted on every case with an edit too."""
    made = family.made(code=family.main.compiled(edit.changes))
    results = (trial.slipped(made, i, in_init(edit)) for i in range(len(trial.cases)))
    return made is not None and not any(map(difference, results, trial.want))


def apart(first: Edit, then: Edit) -> bool:
    """Tell whether two edits are made in different places."""
    spots = [
        {(id(slot.parent), slot.field, slot.index) for slot, _ in edit.changes} for edit in (first, then)
    ]
    return not spots[0] & spots[1]


def adding_up(trial: Trial) -> Iterator[tuple[int, int]]:
    """Yield pairs of slips whose changes of the smallest wrong result add up to what the answer has changed."""
    i = trial.wrong[0]
    got, want = (as_tensor(first_of(side[i])) for side in (trial.got, trial.want))
    if got is None or got.shape != want.shape:
        return
    known = {
        k: as_tensor(first_of(v)) for k, v in trial.first.items() if not isinstance(v, Exception) and not k[0]
    }
    known = {k[1]: (v - want).flatten() for k, v in known.items() if v is not None and v.shape == want.shape}
    known = {k: v for k, v in known.items() if v.isfinite().all() and v.abs().max() > 1e-6}
    numbers = list(known)
    if not numbers:
        return
    table, aim = torch.stack(list(known.values())), (got - want).flatten()
    for k, number in enumerate(numbers):
        near = (table[k + 1 :] + table[k] - aim).abs().amax(1) < 1e-4 * (1 + aim.abs().max())
        yield from ((number, numbers[k + 1 + n]) for n in near.nonzero()[:4, 0].tolist())


def near_misses(trial: Trial, family: Mutants) -> Iterator[tuple[int, int]]:
    """Yield the slips that come nearest to the smallest wrong result, each with every other of low rank."""
    i, gaps = trial.wrong[0], []
    got = as_tensor(first_of(trial.got[i]))
    for (name, number), value in trial.first.items():
        theirs = None if name or isinstance(value, Exception) else as_tensor(first_of(value))
        if theirs is not None and got is not None and family.main.edits[number].rank < 3:
            gaps.append((gap(got, theirs), number))
    plain = [n for rank, name, n in family.order if not name and rank < 2]
    for _, number in sorted(gaps)[:6]:
        yield from ((number, other) for other in plain if other != number)


def gap(got: Tensor, theirs: Tensor) -> float:
    """Measure how far two results are from each other; another shape is very far."""
    if got.shape != theirs.shape:
        return 10.0
    wrong = ~torch.isclose(got, theirs, 1e-4, 1e-5)
    return float(wrong.double().mean()) + 1 - 1 / (1 + float((got - theirs).abs().nan_to_num(1e3).mean()))
