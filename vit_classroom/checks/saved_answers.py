"""Keep right answers from notebook to notebook: `my_answers` builds the model of them in lesson 06.

An answer is kept as a small Python file in `answers/` (or $VIT_COURSE_ANSWERS): its cell, and what it uses of others.
Where the folder of the course cannot be written, as on a server that many share, it is kept in the home folder.
"""

import contextlib
import linecache
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vit_classroom import PACKAGES
from vit_classroom.answer_folder import answer_folders, kept_files, written
from vit_classroom.checks.diagnosis import diagnose
from vit_classroom.checks.guard import TimeLimit, untouched
from vit_classroom.checks.registry import home
from vit_classroom.checks.source import CHECK, CannotKeep, kept_source
from vit_classroom.checks.words import error_text, explain_error
from vit_classroom.notebook import in_notebook

MODEL_MODULES = tuple(
    f"vit_course.{name}" for name in ("patches", "embeddings", "attention", "encoder", "vit")
)
PLACES = (*MODEL_MODULES, "vit_classroom.exhibits.mini_vit")
"""The modules in which a part of the model is bound under its name: its own, and those that build models of it."""
TOLD: set[Path] = set()
"""The folders that a student has been told of in this process."""


def keep_and_tell(name: str, answer: Any) -> str:
    """Keep a right answer, and return what the student must know of it: nothing, or a line for the verdict."""
    try:
        path = keep(name, answer)
    except CannotKeep as why:
        before = " The one that was kept before stays." if name in kept_files()[0] else ""
        return f"\nNot kept for later lessons: {why}.{before}"
    if path is None or path.parent == answer_folders()[0] or path.parent in TOLD:
        return ""
    TOLD.add(path.parent)
    return f"\nKept in {path.parent}, because the folder of the course cannot be written; lesson 06 looks there too."


def keep(name: str, answer: Any) -> Path | None:
    """Write a right answer to the folder, after checking what would be written.

    Returns:
        The file; None if there is nothing to keep: the finished version, or a program outside a notebook.

    Raises:
        CannotKeep: if it cannot be written down, or what would be written is not right by itself.
    """
    module = getattr(answer, "__module__", None) or ""
    if module.startswith(PACKAGES) or not (in_notebook() or os.environ.get("VIT_COURSE_ANSWERS")):
        return None
    own_name = getattr(answer, "__name__", None)
    if own_name != name:
        called = f"is called {own_name!r}" if own_name else f"is a {type(answer).__name__} without a name"
        raise CannotKeep(f"only a function or class that is called {name} is kept, and this one {called}")
    try:
        text = kept_source(answer, name)
    except CannotKeep:
        raise
    except Exception as error:  # an answer may be any callable
        raise CannotKeep(f"its source could not be read ({error_text(error)})") from error
    before = kept_files()[0].get(name)
    if before and before.read_bytes() == text.encode():
        return before
    file = f"<{name}.py>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # checks read lines in it
    tried(name, text, file)
    try:
        return written(f"{name}.py", text)
    except OSError as error:
        raise CannotKeep(str(error)) from error


def tried(name: str, text: str | bytes, file: str) -> Any:
    """Run the text of a kept answer, check what it defines in the place where it will be used, and return it.

    Raises:
        CannotKeep: if it does not run, or is not right.
    """
    space: dict[str, Any] = {"__name__": f"answers.{name}", CHECK: lambda answer, *_: answer}
    limit = TimeLimit()
    try:
        with untouched(), limit:
            exec(compile(text, file, "exec", dont_inherit=True), space)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and limit.stopped_by_user:
            raise
        raise CannotKeep(f"in a file of its own it stops with {explain_error(error)}") from error
    if name not in space:
        raise CannotKeep(f"there is no {name} in the file")
    with in_place(name, space[name]):  # whoever reaches itself through a part of the model is found out here
        verdict = diagnose(space[name], name)
    if RecursionError.__name__ in verdict.message:
        raise CannotKeep(
            "it calls the finished version itself, and in its place it would call itself for ever"
        )
    if verdict.kind != "right":
        verdict = diagnose(space[name], name)
    if verdict.kind != "right":
        raise CannotKeep(f"in a file of its own it is not right: {verdict.message}")
    return space[name]


def is_of_the_model(name: str) -> bool:
    """Tell whether an exercise is a part of the model of lesson 06."""
    return home(name) in MODEL_MODULES


def put_in_place(name: str, answer: Any) -> None:
    """Bind an answer under its name in every module that builds a model of it."""
    for module in PLACES:
        module = sys.modules.get(module)
        if module is not None and hasattr(module, name):
            setattr(module, name, answer)


@contextlib.contextmanager
def in_place(name: str, answer: Any) -> Iterator[None]:
    """Put a part of the model in its place for as long as the block lasts."""
    modules = [sys.modules.get(module) for module in PLACES if is_of_the_model(name)]
    before = [(module, getattr(module, name)) for module in modules if hasattr(module, name)]
    try:
        if before:
            put_in_place(name, answer)
        yield
    finally:
        for module, value in before:
            setattr(module, name, value)
