"""How a verdict is worded: differences, inputs and errors in words for a student."""

import inspect
import linecache
import os
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vit_classroom.paths import LESSONS
from vit_course.training.paths import PACKAGE

CLASSROOM = PACKAGE.with_name("vit_classroom")

STANDARD = Path(os.__file__).parent
"""Python's own library; installed packages may lie in it too."""


def difference(got: Any, want: Any, same_dtype: bool = True) -> str:
    """Say in words how a result differs from the wanted one; an empty string if it does not."""
    if isinstance(got, Exception):
        return error_text(got)
    want = want.item() if isinstance(want, np.generic) else want
    if got is None and want is not None:
        return "your function returned nothing; is the `return` missing?"
    if isinstance(want, int | float) and isinstance(got, tuple | list) and len(got) != 1:
        return f"one value was expected, {want!r}; you returned {len(got)} values, {got!r:.300}"
    if isinstance(want, Tensor):
        return tensor_difference(got, want, same_dtype)
    if isinstance(want, tuple | list):
        if not isinstance(got, tuple | list) or len(got) != len(want):
            counted = f"{len(want)} values were" if len(want) != 1 else "one value was"
            return f"{counted} expected, {in_short(want)}; you returned {in_short(got)}"
        parts = [
            missing(w) if g is None and w is not None else difference(g, w, same_dtype)
            for g, w in zip(got, want, strict=True)
        ]
        wrong = next((i for i, part in enumerate(parts) if part), None)
        if wrong is None:
            return ""
        inner = isinstance(want[wrong], tuple | list) and parts[wrong].startswith("value ")
        return f"value {wrong + 1} of {len(want)}{', there ' if inner else ': '}{parts[wrong]}"
    if isinstance(got, np.generic) or (isinstance(got, Tensor) and got.ndim == 0):
        got = got.item()
    if isinstance(want, int) and not isinstance(want, bool) and isinstance(got, float) and got == want:
        return f"you returned the fraction {got}, but a count is a whole number, {want}: divide with // or use int"
    if isinstance(want, float) and isinstance(got, int | float):
        same = got == want or (got != got and want != want)  # two NaN are one result
        close = same or abs(got - want) <= 1e-5 + 1e-4 * abs(want) < float("inf")
        return "" if close else "expected {}, you returned {}".format(*apart(want, got))
    if isinstance(got, Tensor) and isinstance(want, int | float):
        return f"a number was expected, you returned a tensor of shape {tuple(got.shape)}"
    kinds = [isinstance(value, bool) for value in (got, want)]
    alike = isinstance(got, type(want)) and kinds[0] == kinds[1]
    return "" if alike and got == want else f"expected {want!r}, you returned {got!r:.300}"


def in_short(value: Any) -> str:
    """Write a value for a student: of tensors the shapes alone."""
    if isinstance(value, tuple | list) and any(isinstance(part, Tensor) for part in value):
        return f"({', '.join(map(in_short, value))})"
    return f"a tensor {shape_and_type(value)}" if isinstance(value, Tensor) else f"{value!r:.300}"


def missing(want: Any) -> str:
    """Say that a value is None, and which one is wanted if it is no tensor."""
    return "it is None" if isinstance(want, Tensor) else f"it is None, expected {want!r:.60}"


def tensor_difference(got: Any, want: Tensor, same_dtype: bool) -> str:
    """Say how a tensor differs: kind, shape, type of its numbers, then the first value that is off."""
    if not isinstance(got, Tensor):
        return f"a tensor was expected, you returned {type(got).__name__}"
    if got.shape != want.shape:
        return f"the shape should be {tuple(want.shape)}, yours is {tuple(got.shape)}"
    if same_dtype and got.dtype != want.dtype:
        return f"the numbers should be {want.dtype}, yours are {got.dtype}"
    mine, right = got.detach().double(), want.detach().double()
    close = torch.isclose(mine, right, rtol=1e-4, atol=1e-5, equal_nan=True)
    if bool(close.all()):
        return ""
    if want.numel() <= 16:
        differ = zip(right[~close].tolist(), mine[~close].tolist(), strict=True)
        digits = max(digits_apart(*pair, digits=4) for pair in differ)
        return f"expected\n{numbers(right, digits)}\nyou returned\n{numbers(mine, digits)}"
    index = tuple((~close).nonzero()[0].tolist())
    place = ", ".join(map(str, index))
    share = 1 - close.double().mean().item()
    first, yours = apart(right[index].item(), mine[index].item())
    return (
        f"the shape is right, {share:.0%} of the values differ; the first is [{place}]: "
        f"expected {first}, you returned {yours}"
    )


def digits_apart(one: float, other: float, digits: int = 5) -> int:
    """Return how many digits, at least so many, show that two numbers are not the same."""
    return next((n for n in range(digits, 17) if f"{one:.{n}g}" != f"{other:.{n}g}"), digits)


def apart(one: float, other: float, digits: int = 5) -> tuple[str, str]:
    """Write two numbers with as many digits as it takes to show that they are not the same."""
    digits = digits_apart(one, other, digits)
    return f"{one:.{digits}g}", f"{other:.{digits}g}"


def numbers(tensor: Tensor, digits: int = 4) -> str:
    """Print a small tensor as rows of rounded numbers."""
    rows = torch.atleast_1d(tensor)
    return "\n".join(
        "  " + " ".join(f"{x:.{digits}g}" for x in row) for row in rows.reshape(-1, rows.shape[-1] or 1)
    )


def describe(reference: Callable, case: tuple) -> str:
    """Name the arguments of a case as the docstring does: tensors by shape, other values as they are."""
    if inspect.isclass(reference):
        return f"{reference.__name__}({named_options(case[0])}) and {describe(reference.forward, case[1:])}"
    names = argument_names(getattr(reference, "forward", reference), len(case))
    shown = (
        shape_and_type(v) if isinstance(v, Tensor) else f"= {v!r:.200}{' ...' * (len(repr(v)) > 200)}"
        for v in case
    )
    return ", ".join(f"{name} {value}" for name, value in zip(names, shown, strict=False))


def shape_and_type(value: Tensor) -> str:
    """Name the shape of a tensor, and its type where that is an unusual one."""
    usual = value.dtype in (torch.float32, torch.int64, torch.bool)
    return f"of shape {tuple(value.shape)}" + (
        "" if usual else f" in {str(value.dtype).removeprefix('torch.')}"
    )


def named_options(options: dict[str, Any]) -> str:
    """Write the options with which a module is built: dim=4, num_heads=2."""
    return ", ".join(f"{name}={value!r}" for name, value in options.items())


def argument_names(function: Callable, number: int) -> list[str]:
    """Return the names of a function's arguments, at least so many."""
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    return names + [f"argument {i + 1}" for i in range(len(names), number)]


def explain_error(error: BaseException) -> str:
    """Name an error and the line of the student's code where it arose."""
    return error_text(error) + students_line(error)


def error_text(error: BaseException, lines: int = 8, characters: int = 600) -> str:
    """Name an error and give its reason: of a long one the beginning and the end."""
    try:
        rows = [row.strip() for row in str(error).splitlines() if row.strip()]
    except Exception:  # its `__str__` is a student's too
        rows = []
    if len(rows) > lines:
        rows = [*rows[: lines // 2], "...", *rows[-(lines // 2) :]]
    text = "\n  ".join(rows) or "no message"
    if len(text) > characters:
        text = f"{text[: 2 * characters // 3]} ... {text[-characters // 3 :]}"
    return f"{type(error).__name__}: {text}"


def students_line(error: BaseException) -> str:
    """Return "in your line: ..." for the last line of a student that an error went through, or an empty string."""
    stack = traceback.extract_tb(error.__traceback__)
    frames = [one for one in stack if one.line and is_students(Path(one.filename))]
    line = linecache.getline(frames[-1].filename, frames[-1].lineno or 0).strip() if frames else ""
    return f"\nin your line: {line}" if line else ""


def refuses(error: Any) -> bool:
    """Tell whether a student's own line raised an error on purpose."""
    meant = isinstance(error, ValueError | AssertionError)
    return meant and re.search(r"\nin your line: (.*: )?(raise|assert)\b", students_line(error)) is not None


def is_students(file: Path) -> bool:
    """Tell whether a file holds a student's code: a cell, a script, an answer that was kept."""
    installed = {"site-packages", "dist-packages"} & set(file.parts) or STANDARD in file.parents
    return not installed and not is_ours(file) and not file.name.startswith("<frozen")


def is_ours(file: Path) -> bool:
    """Tell whether a file holds code of the course, and none of a student: the package, and the checks of a lesson."""
    return not {PACKAGE, CLASSROOM}.isdisjoint(file.parents) or (
        LESSONS in file.parents and file.name == "checks.py"
    )
