"""Keep right answers from notebook to notebook: `my_answers` builds the model of them in lesson 06.

An answer is kept as a small Python file in `answers/` (or $VIT_COURSE_ANSWERS): its source, and the imports it needs.
"""

import ast
import inspect
import linecache
import os
import symtable
import textwrap
import types
from pathlib import Path
from typing import Any

from vit_course.classroom.checks.registry import EXERCISES
from vit_course.classroom.notebook import in_notebook
from vit_course.machinery.paths import ROOT


def folder() -> Path:
    """Return the folder where answers are kept."""
    return Path(os.environ.get("VIT_COURSE_ANSWERS") or ROOT / "answers")


def keep(name: str, answer: Any) -> Path | None:
    """Write a right answer to the folder.

    None if it is the finished version, goes by another name than the exercise, or has no source to keep.
    """
    module = getattr(answer, "__module__", None) or ""
    if (
        getattr(answer, "__name__", None) != name
        or module.startswith("vit_course")
        or not (in_notebook() or os.environ.get("VIT_COURSE_ANSWERS"))
    ):
        return None
    try:
        text = standalone_source(answer)
        folder().mkdir(parents=True, exist_ok=True)
        path = folder() / f"{name}.py"
        path.write_text(text, encoding="utf-8", newline="\n")
    except Exception:  # an answer may be any callable: one that cannot be kept is right all the same
        return None
    return path


def standalone_source(answer: Any, done: set[str] | None = None) -> str:
    """Return source that defines an answer by itself: the imports and helpers it uses, then the answer.

    Raises:
        LookupError: if it uses something that cannot be written down, such as a tensor made in the notebook.
    """
    done = set() if done is None else done
    source, scope = own_source(answer)
    lines = []
    for name in sorted(free_names(symtable.symtable(source, answer.__name__, "exec"))):
        if name not in scope or name == answer.__name__ or name in done:
            continue
        done.add(name)
        value = scope[name]
        origin = getattr(value, "__module__", None)
        if isinstance(value, types.ModuleType):
            lines.append(f"import {value.__name__} as {name}")
        elif isinstance(value, int | float | str | tuple):
            lines.append(f"{name} = {value!r}")
        elif origin in ("__main__", answer.__module__) and hasattr(value, "__name__"):
            lines.append(standalone_source(value, done))
        elif origin == f"answers.{name}":  # a part of an earlier lesson, put in place by `use_my_answers`
            lines.append(f"from {home(name)} import {name}")
        elif origin and hasattr(value, "__name__"):
            lines.append(f"from {origin} import {value.__name__} as {name}")
        else:
            raise LookupError(f"{name} cannot be written down")
    return "\n".join([*lines, source])


def free_names(table: symtable.SymbolTable) -> set[str]:
    """Return the names that a source takes from around it; its local variables are its own."""
    outermost = table.get_type() == "module"
    names = {s.get_name() for s in table.get_symbols() if s.is_referenced() and (outermost or s.is_global())}
    return names.union(*map(free_names, table.get_children()))


def home(name: str) -> str:
    """Return the module of the finished version of an exercise, or an empty string."""
    return getattr(EXERCISES[name].reference, "__module__", "") if name in EXERCISES else ""


def own_source(answer: Any) -> tuple[str, dict]:
    """Return the source of a function or class and the names around it; works for notebook cells too.

    A class in a notebook has no file of its own, so it is found in the cell of one of its methods.
    """
    function = answer
    if inspect.isclass(answer):
        methods = [value for value in vars(answer).values() if inspect.isfunction(value)]
        if not methods:
            raise LookupError(f"{answer.__name__} has no method to find its source by")
        function = methods[0]
    text = "".join(linecache.getlines(function.__code__.co_filename))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == answer.__name__:
            return textwrap.dedent(ast.get_source_segment(text, node)) + "\n", function.__globals__
    raise LookupError(f"no source of {answer.__name__}")
