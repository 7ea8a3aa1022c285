"""The words of an exercise, read off its docstring: what its axes hold, how large they are, what it is given."""

import inspect
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from math import isclose, log, pi, sqrt
from numbers import Real
from typing import Any

from torch import Tensor

from vit_classroom.checks.explain.values import Result
from vit_classroom.checks.words import argument_names

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


SIDES = ("img_size", "patch_size", "grid_size")
"""Arguments that are a pair (height, width), or one number for both."""


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
        AXES.get(letter, (f"slice along axis {i}", f"slices along axis {i}"))
        for i, letter in enumerate(letters)
    ]
    if letters[-2:] in (("T", "T"), ("T", "S")):
        names[-2:] = [("query", "queries"), ("key", "keys")]
    return names


def in_order(names: list[tuple[str, str]], order: Iterable[int]) -> str:
    """List axes in an order."""
    return ", ".join(names[i][1].replace("slices along ", "") for i in order)


def axis_of(*entries: tuple[str, str]) -> str:
    """Name the axis along which such entries stand, or two: "the axes of the tokens and of the heads", "axis 1"."""
    many = [name[1] for name in entries]
    if any(name.startswith("slices along ") for name in many):
        plain = (name.removeprefix("slices along ") for name in many)
        return " and ".join(name if name.startswith("axis") else f"the axis of the {name}" for name in plain)
    return f"the {'axes' if len(many) > 1 else 'axis'} of the {' and of the '.join(many)}"


def sizes_of(r: Result) -> dict[str, float]:
    """Return the sizes of a case by name: arguments that are numbers, and the lengths of axes that have a letter."""
    return sizes_in(r.arguments, (r.axes, r.want.shape))


def sizes_in(arguments: dict[str, Any], *shapes: tuple) -> dict[str, float]:
    """Return the sizes of arguments, and of more shapes with their letters, by name."""
    sizes = {}
    for name, value in arguments.items():
        if isinstance(value, Real) and not isinstance(value, bool):
            sizes[name] = float(value)
        pair = (value, value) if name in SIDES and isinstance(value, int) else value
        if name in SIDES and isinstance(pair, tuple):
            sizes |= {f"{name}[{i}]": float(side) for i, side in enumerate(pair)}
    given = [(axes, arguments[name].shape) for name, axes in arguments.get("axes", {}).items()]
    for axes, lengths in (*given, *shapes):
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
