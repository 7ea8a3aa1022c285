"""Lesson 06 builds its model of the student's own parts: kept answers take the place of the finished versions.

`parts_in_use` watches a model at work, and tells which parts it calls and who wrote them.
"""

import ast
import linecache
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from vit_classroom import PACKAGES
from vit_classroom.answer_folder import kept_files
from vit_classroom.checks.registry import EXERCISES
from vit_classroom.checks.saved_answers import MODEL_MODULES, is_of_the_model, put_in_place, tried
from vit_classroom.checks.source import CannotKeep

LIBRARIES = ("torch", "einops")
"""What a model calls that is no part of the course; some functions there have names like ours."""


def use_my_answers() -> list[str]:
    """Put the kept answers in the place of the finished versions, in the model's modules of this process.

    Each is checked again first; one that is not right any more is left out, and so are files of other users. Only what
    the model is made of is replaced: a `VisionTransformer` built afterwards consists of the student's own parts.

    Returns:
        The names of the answers now in use, also printed, with the course's own parts and why an answer is left out.
    """
    files, foreign = kept_files()
    left_out = {path.stem: "the file belongs to another user" for path in foreign if path.stem not in files}
    left_out |= {name: unknown(name) for name in files if name not in EXERCISES}
    parts = build_order({name: path for name, path in files.items() if is_of_the_model(name)})
    for name in parts:  # of an earlier call
        put_in_place(name, EXERCISES[name].reference)
    used = []
    for name in parts:
        linecache.checkcache(str(files[name]))
        try:
            put_in_place(name, tried(name, files[name].read_bytes(), str(files[name])))
            used.append(name)
        except (CannotKeep, OSError) as why:
            left_out[name] = str(why)
    found = "right by itself" if left_out else "found"
    finished = f"no kept answer was {found}, so every part is the finished version"
    print(f"Your own parts: {', '.join(used) or finished}.")
    others = [name for name in EXERCISES if is_of_the_model(name) and name not in used]
    if used and others:
        print(f"The course's: {', '.join(others)}.")
    for name, why in left_out.items():
        print(f"Left out: {name}: {textwrap.shorten(why, 300)}")
    return used


def my_answer(name: str) -> Any:
    """Return the kept answer of an exercise, checked once more, or the finished version where none is right.

    Prints which of the two it is, and why.
    """
    files, _ = kept_files()
    why = "no answer was kept"
    if name in files:
        linecache.checkcache(str(files[name]))
        try:
            answer = tried(name, files[name].read_bytes(), str(files[name]))
            print(f"{name}: yours.")
            return answer
        except (CannotKeep, OSError) as error:
            why = textwrap.shorten(str(error), 300)
    print(f"{name}: the finished version ({why}).")
    return EXERCISES[name].reference


def unknown(name: str) -> str:
    """Say that a file has not the name of an exercise."""
    near = EXERCISES.nearest(name)
    return "there is no exercise of this name" + (f"; did you mean {near}.py?" if near else "")


def build_order(files: Mapping[str, Path]) -> list[str]:
    """Sort kept answers so that each comes after those it names: what it imports is then the student's own.

    The order of the lessons alone does not do: a block uses drop path, and is written before it. Where two answers
    name each other, the earlier lesson comes first.
    """
    order: list[str] = []
    begun: set[str] = set()

    def put(name: str) -> None:
        if name not in begun:
            begun.add(name)
            for used in sorted(names_in(files[name]) & files.keys(), key=list(EXERCISES).index):
                put(used)
            order.append(name)

    for name in sorted(files, key=list(EXERCISES).index):
        put(name)
    return order


def names_in(path: Path) -> set[str]:
    """Return the names that a file of Python reads or imports; none if it is no Python, which is told elsewhere."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError, OSError):
        return set()
    fields = (("id", ast.Name), ("attr", ast.Attribute), ("name", ast.alias))
    return {getattr(node, field) for node in nodes for field, kind in fields if isinstance(node, kind)}


def parts_in_use(run: Callable[[], Any], *others: Callable) -> list[list]:
    """Watch a piece of code, and list the parts of the model that it calls, those of the earliest lesson first.

    Args:
        run: called once, with no arguments.
        others: functions and classes that are no parts of the model, and are to be listed too.

    Returns:
        A row for each part that was called: its name, "yours" or "the course's", and the number of calls. Calls of a
        class are those of its `forward`. What counts is the code that runs, wherever it was imported or copied to.
    """
    modules = [import_module(module) for module in MODEL_MODULES]
    parts = [name for name in EXERCISES if any(hasattr(module, name) for module in modules)]
    parts += [other.__name__ for other in others]
    calls: Counter[tuple[str, str]] = Counter()

    def notice(frame: Any, event: str, _: Any) -> None:
        if event == "call" and (name := part_of(frame)) in parts:
            module = frame.f_globals.get("__name__", "")
            if module.partition(".")[0] not in LIBRARIES:
                calls[name, whose(module)] += 1

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        run()
    finally:
        sys.setprofile(before)
    return [[*row, calls[row]] for row in sorted(calls, key=lambda row: parts.index(row[0]))]


def part_of(frame: Any) -> str:
    """Return the name of the function that a frame runs; of a module the class, where it is its `forward`."""
    name = frame.f_code.co_name
    return type(frame.f_locals["self"]).__name__ if name == "forward" and "self" in frame.f_locals else name


def whose(module: str) -> str:
    """Say who wrote the code of a module."""
    return "the course's" if module.partition(".")[0] in PACKAGES else "yours"
