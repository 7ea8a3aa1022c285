"""Errors of an answer in the words of the exercise."""

import traceback
from pathlib import Path
from typing import Any

from vit_classroom.checks.error_patterns import Symptom, cause
from vit_classroom.checks.explain.terms import named_arguments, signature, sizes_in
from vit_classroom.checks.explain.trial import Trial
from vit_classroom.checks.outcome import Mistake, stopped_with
from vit_classroom.checks.words import is_ours, refuses


def cause_of_error(trial: Trial) -> str:
    """Say what the error comes from with which the smallest wrong case stopped; "" if the reason is not known."""
    error = trial.got[trial.wrong[0]]
    if not isinstance(error, Exception):
        return ""
    given = named_arguments(trial.reference, trial.cases[trial.wrong[0]])
    for name, value in given.items() if isinstance(error, KeyError) and error.args else ():
        if isinstance(value, dict) and name != "axes" and error.args[0] in value:
            key = repr(error.args[0])
            return f"{key} is a key of `{name}`, and your line wants what stands there, `{name}[{key}]`"
    return cause(error, by_length(trial.reference, trial.cases[trial.wrong[0]]))


def clear_cause_of_error(trial: Trial) -> str:
    """Say what the error comes from, and nothing where its text could only be said in other words."""
    words = cause_of_error(trial)
    return "" if isinstance(words, Symptom) else words


def refused_by_the_course(trial: Trial) -> str:
    """Name the function of the course that refuses what a student's line hands to it; "" if none does."""
    error = trial.got[trial.wrong[0]]
    frames = traceback.extract_tb(error.__traceback__) if isinstance(error, ValueError) else []
    if not frames or not (frames[-1].line or "").startswith("raise "):
        return ""
    last, file = frames[-1], Path(frames[-1].filename)
    if not is_ours(file) or file.name == "checks.py":
        return ""
    return Symptom(f"`{last.name}` refuses what your code hands to it: look at what came before")


def stopped(error: Exception, where: str = "", hint: str = "") -> Mistake:
    """Word an error with which an answer stopped where a result is wanted, with its cause if that is known."""
    allowed = (
        "your code refuses this, but it is allowed: a result is wanted, and no error"
        if refuses(error)
        else ""
    )
    return stopped_with(f"{where}your code", error, hint or allowed)


def refuses_what_is_allowed(trial: Trial, clear: bool = True) -> str:
    """Notice that the answer itself raises an error, where the finished version has a result.

    Args:
        trial: a wrong answer.
        clear: whether to speak only if exactly one argument tells what is refused.
    """
    errors = [trial.got[i] for i in trial.wrong]
    if not all(isinstance(e, Exception) and refuses(e) for e in errors):
        return ""
    known = signature(trial.reference).items()
    defaults = {name: p.default for name, p in known if p.default is not p.empty}
    given = [defaults | named_arguments(trial.reference, case) for case in trial.cases]
    told = []
    for name, value in given[trial.wrong[0]].items():
        if isinstance(value, int | float | str):
            equal = [i for i, case in enumerate(given) if case.get(name) == value]
            told += [f"`{name}` = {value!r}"] if equal == list(trial.wrong) else []
    if clear and len(told) != 1:
        return ""
    what = told[0] if len(told) == 1 else "what it gets here"
    return f"your code refuses {what}, but that is allowed: a result is wanted, and no error"


def by_length(reference: Any, case: tuple) -> dict[str, str]:
    """Name the lengths of a case's axes: "6 (N)"; a length that another axis may have too is left as it is."""
    named: dict[int, list[str]] = {}
    for letter, length in sizes_in(named_arguments(reference, case)).items():
        named.setdefault(int(length), []).append(letter)
    with_cls = {length + 1 for length, letters in named.items() if {"N", "num_patches"} & {*letters}}
    single = {
        length: letters[0]
        for length, letters in named.items()
        if len(letters) == 1 and length > 1 and length not in with_cls  # of length 1 may be any axis
    }
    return {str(length): f"{length} ({letter})" for length, letter in single.items() if "[" not in letter}
