"""Errors of an answer in the words of the exercise: what the usual messages of Python and torch come from."""

import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vit_course.classroom.checks.explain.terms import named_arguments, signature, sizes_in
from vit_course.classroom.checks.explain.trial import Trial
from vit_course.classroom.checks.outcome import Mistake
from vit_course.classroom.checks.words import explain_error, is_ours, refuses

CAUSES = [
    (
        r"view size is not compatible",
        "`view` needs numbers that lie in memory in their order, and after `transpose` or `permute` they do not: use "
        "`reshape`",
    ),
    (r"name '(\w+)' is not defined", "nothing is called `{0}`: a slip of the pen, or a line that is missing"),
    (r"cannot access local variable '(\w+)'", "`{0}` is read before it has a value"),
    (r"'(\w+)' object has no attribute '(\w+)'", "a `{0}` has no `{1}`"),
    (r"missing \d+ required \w+ arguments?: (.+)", "a call leaves out {0}"),
    (r"unexpected keyword argument '(\w+)'", "what is called there has no argument `{0}`"),
    (r"(\w+)\(\) takes (.+) positional arguments? but (\d+)", "`{0}` takes {1} arguments, and {2} are given"),
    (r"unsupported operand type\(s\) for (\S+): '(\w+)' and '(\w+)'", "`{0}` cannot work on the types {1} and {2}"),
    (r"'(\w+)' object is not callable", "a {0} is called as if it were a function"),
    (r"'(\w+)' object is not subscriptable", "a {0} has no entries to choose with `[...]`"),
    (r"(?:too many|not enough) values to unpack \(expected (.+)\)", "what is unpacked does not hold {0} values"),
    (r"[Dd]imension out of range .*got (-?\d+)", "there is no axis {0}"),
    (r"too many indices for tensor of dimension (\d+)", "a tensor with {0} axes is given more indices than that"),
    (r"expected (?:scalar )?(?:type|dtype) (\w+) but (?:found|got) (\w+)", "numbers of {0} meet numbers of {1}"),
    (r"must have the same dtype, but got (\w+) and (\w+)", "numbers of {0} meet numbers of {1}"),
    (r"does not require grad", "what is computed there is cut off from learning"),
    (r"modified by an inplace operation|is an in-place", "a tensor is changed in place that is still needed"),
    (r"(?:integer )?division (?:or modulo )?by zero", "there is a division by 0"),
    (r"maximum recursion depth", "your function calls itself and never comes to an end"),
]  # fmt: skip
LENGTHS = [
    (
        r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)",
        "an axis of length {0} meets one of length {1}, and they should be equal",
    ),
    (r"mat1 and mat2 shapes cannot be multiplied \((.+)\)", "the matrices {0} do not fit: inner lengths must agree"),
    (
        r"Expected size for first two dimensions of batch2 tensor to be: \[(.+)\] but got: \[(.+)\]",
        "a matrix product needs [{0}] there, and gets [{1}]",
    ),
    (r"shape '\[(.+)\]' is invalid for input of size (\d+)", "{1} numbers do not fill the shape ({0})"),
    (r"Sizes of tensors must match except in dimension (\d+).*Expected size (\d+) but got size (\d+)",
     "joined along axis {0}, all other axes must be equal: {1} meets {2}"),
    (r"index (-?\d+) is out of bounds for (?:dimension|axis) (\d+) with size (\d+)",
     "index {0} is asked of axis {1}, which has {2} entries"),
]  # fmt: skip


def cause_of_error(trial: Trial) -> str:
    """Say what the error comes from with which the smallest wrong case stopped; "" if the reason is not known."""
    error = trial.got[trial.wrong[0]]
    if not isinstance(error, Exception):
        return ""
    given = named_arguments(trial.reference, trial.cases[trial.wrong[0]])
    for name, value in given.items() if isinstance(error, KeyError) and error.args else ():
        if isinstance(value, dict) and name != "axes" and error.args[0] in value:
            key = repr(error.args[0])
            return f"`{name}` has the key {key}, and your line asks something else for it: look it up in `{name}`"
    return cause(error, by_length(trial.reference, trial.cases[trial.wrong[0]]))


def refused_by_the_course(trial: Trial) -> str:
    """Name the function of the course that refuses what a student's line hands to it; "" if none does."""
    error = trial.got[trial.wrong[0]]
    frames = traceback.extract_tb(error.__traceback__) if isinstance(error, ValueError) else []
    if not frames or not (frames[-1].line or "").startswith("raise "):
        return ""
    last, file = frames[-1], Path(frames[-1].filename)
    if not is_ours(file) or file.name == "checks.py":
        return ""
    return (
        f"this input is allowed, but `{last.name}` refuses what your code hands to it: is it the right thing?"
    )


def cause(error: Exception, letters: Mapping[str, str] = MappingProxyType({})) -> str:
    """Say what an error comes from, lengths with their letters; "" if the reason is not known."""
    text = " ".join(str(error)[:2000].split())  # some patterns take minutes on a message of a whole tensor
    for pattern, words in CAUSES:
        if found := re.search(pattern, text):
            return words.format(*found.groups())
    for pattern, words in LENGTHS:
        if found := re.search(pattern, text):
            groups = [re.sub(r"\d+", lambda n: letters.get(n[0], n[0]), group) for group in found.groups()]
            return words.format(*groups)
    return ""


def stopped(error: Exception, where: str = "", hint: str = "") -> Mistake:
    """Word an error with which an answer stopped where a result is wanted, with its cause if that is known."""
    allowed = (
        "your code refuses this, but it is allowed: a result is wanted, and no error"
        if refuses(error)
        else ""
    )
    reason = hint or allowed or cause(error)
    words = f"{where}your code stopped with {explain_error(error)}"
    return Mistake(words + f"\n{reason}" * bool(reason), named=bool(reason))


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
    """Name the lengths of a case's axes: "6 (N)"; lengths that two axes have are left as they are."""
    named: dict[int, list[str]] = {}
    for letter, length in sizes_in(named_arguments(reference, case)).items():
        named.setdefault(int(length), []).append(letter)
    return {str(length): f"{length} ({letters[0]})" for length, letters in named.items() if len(letters) == 1}
