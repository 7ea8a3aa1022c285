"""What is wrong with an answer that no known mistake explains, read off its results and a few more calls.

An explanation is a claim about all cases at once: that the wanted numbers, changed by one slip, are what the answer
returned; or that more calls show what its results depend on. A claim that one case contradicts is not made.
"""

import itertools
from functools import partial
from numbers import Real
from time import thread_time

from torch import Tensor

from vit_classroom.checks.error_patterns import Symptom
from vit_classroom.checks.explain.errors import (
    cause_of_error,
    clear_cause_of_error,
    refused_by_the_course,
    refuses_what_is_allowed,
)
from vit_classroom.checks.explain.numbers import left_as_they_were
from vit_classroom.checks.explain.places import shape_alone
from vit_classroom.checks.explain.probes import (
    one_kind_of_input,
    simpler_input,
    unused_arguments,
    unused_weights,
)
from vit_classroom.checks.explain.results import SURE, VAGUE, in_results, part
from vit_classroom.checks.explain.trial import Trial
from vit_classroom.checks.explain.values import agree, as_tensor, wrong_kind

LEAST, PATIENCE = 0.05, 0.2
"""Seconds of the processor that a look may take, at least and at most."""
WHOLE = 0.8
"""Seconds of the processor after which looks get the least: who waits longer has forgotten what she asked."""


def explain(trial: Trial) -> tuple[str, bool]:
    """Say what is wrong in a way that holds on every case, or return "", and whether that is a cause. Never raises."""
    looks = (
        refuses_what_is_allowed,
        values_swapped,
        entries_reordered,
        number_for_none,
        unused_arguments,
        partial(in_results, looks=SURE),
        unused_weights,
        simpler_input,
        partial(refuses_what_is_allowed, clear=False),
        clear_cause_of_error,
        stops_for_one_kind,
        cause_of_error,
        one_kind_of_input,
        refused_by_the_course,
        axes_not_joined,
        partial(in_results, looks=(shape_alone, part, left_as_they_were)),
        partial(in_results, looks=VAGUE),
    )
    try:
        if any(wrong_kind(trial.got[i], trial.want[i]) for i in trial.wrong):
            return "", True  # that is said elsewhere
    except Exception:
        return "", False
    end = thread_time() + WHOLE
    for look in looks:
        trial.start(max(LEAST, min(PATIENCE, end - thread_time())))
        try:
            if words := look(trial):
                return words, look is not looks[-1] and not isinstance(words, Symptom)
        except Exception:  # an odd result is no reason to fail: the numbers are shown
            continue
    return "", False


def stops_for_one_kind(trial: Trial) -> str:
    """Name the inputs for which an answer is right that stops elsewhere; a change of its text would tell more."""
    stopped = isinstance(trial.got[trial.wrong[0]], Exception)
    return Symptom(one_kind_of_input(trial)) if stopped else ""


def entries_reordered(trial: Trial) -> str:
    """Notice lists of entries, not of numbers, that are right and stand in another order."""
    pairs = [(trial.got[i], trial.want[i]) for i in trial.wrong]
    if not all(isinstance(value, list) and as_tensor(value) is None for pair in pairs for value in pair):
        return ""
    named = [([repr(entry) for entry in got], [repr(entry) for entry in want]) for got, want in pairs]
    if not all(sorted(got) == sorted(want) for got, want in named):
        return ""
    return "the entries are right, but they stand in another order"


def axes_not_joined(trial: Trial) -> str:
    """Notice the right numbers in the right order, whose axes are not joined yet."""
    pairs = [(trial.got[i], trial.want[i]) for i in trial.wrong]
    if not all(isinstance(value, Tensor) for pair in pairs for value in pair):
        return ""
    if not all(got.ndim > want.ndim and got.numel() == want.numel() for got, want in pairs):
        return ""
    if not all(agree(got.reshape(want.shape), want) for got, want in pairs):
        return ""
    got, want = pairs[0]
    return (
        f"your numbers are right and in the right order, but {got.ndim} axes are left where {want.ndim} are wanted: "
        "some of them still have to be joined into one"
    )


def number_for_none(trial: Trial) -> str:
    """Notice answers that are wrong only where None is wanted, and where they have a number."""
    found = []
    for i in trial.wrong:
        got, want = trial.got[i], trial.want[i]
        several = isinstance(want, tuple | list) and isinstance(got, tuple | list) and len(got) == len(want)
        pairs = list(zip(got, want, strict=True)) if several else [(got, want)]
        astray = [g for g, w in pairs if w is None and g is not None]
        if not astray or not all(agree(g, w) for g, w in pairs if w is not None):
            return ""
        found += astray
    if not all(isinstance(value, Real) for value in found):
        return ""
    mine = "nan, which is a number" if all(value != value for value in found) else "a number"
    return (
        f"where something is missing, None is wanted, and you return {mine}: look for None before you compute"
    )


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
            named = ", then ".join(f"result {k + 1}" for k in order)
            return f"your results stand in another order: you return {named}"
    return ""
