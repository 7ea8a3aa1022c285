"""Keep right answers from notebook to notebook, so that lesson 06 builds its model of the student's own parts.

An answer is kept as a small Python file in `answers/` (or $VIT_COURSE_ANSWERS): its source, and the imports it
needs. `use_my_answers` checks each again and puts it in place of the finished version.
"""

import ast
import inspect
import linecache
import os
import symtable
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

from vit_course.classroom.plots import in_notebook
from vit_course.machinery.paths import ROOT

MODEL_MODULES = ("patches", "embeddings", "attention", "encoder", "vit")


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
    from vit_course.classroom.checks.compare import EXERCISES

    return getattr(EXERCISES[name].reference, "__module__", "") if name in EXERCISES else ""


def build_order(path: Path) -> tuple[int, bool, str]:
    """Sort parts before what is made of them: by module, functions before classes."""
    module = home(path.stem).removeprefix("vit_course.")
    place = MODEL_MODULES.index(module) if module in MODEL_MODULES else len(MODEL_MODULES)
    return place, path.stem[:1].isupper(), path.stem


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


def use_my_answers() -> list[str]:
    """Put the kept answers in the place of the finished versions, in the model's modules of this process.

    Each is checked again first; one that is not right any more is left out. Only what the model is made of
    is replaced: a `VisionTransformer` built afterwards consists of the student's own parts.

    Returns:
        The names of the answers now in use, also printed.
    """
    from vit_course.classroom.checks.compare import diagnose

    used = []
    for path in sorted(folder().glob("*.py"), key=build_order):
        if home(path.stem).removeprefix("vit_course.") not in MODEL_MODULES:
            continue
        namespace: dict[str, Any] = {"__name__": f"answers.{path.stem}"}
        linecache.checkcache(str(path))
        try:
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
        except Exception:  # a file edited by hand may hold anything
            continue
        answer = namespace.get(path.stem)
        if answer is not None and diagnose(answer, path.stem).kind == "right":
            put_in_place(path.stem, answer)
            used.append(path.stem)
    finished = "no kept answer was found, so every part is the finished version"
    print(f"Your own parts in this model: {', '.join(used)}." if used else f"Your own parts: {finished}.")
    return used


def put_in_place(name: str, answer: Any) -> None:
    """Bind an answer under its name in every module of the model that knows the name."""
    for module in MODEL_MODULES:
        module = sys.modules.get(f"vit_course.{module}")
        if module is not None and hasattr(module, name):
            setattr(module, name, answer)
