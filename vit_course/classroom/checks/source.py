"""Write an answer down as text that stands by itself: its own source, and the imports and helpers it uses."""

import __future__

import ast
import contextlib
import inspect
import linecache
import math
import sys
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vit_course.classroom.checks.registry import EXERCISES, home
from vit_course.machinery.names import free_names

ANNOTATIONS = __future__.annotations.compiler_flag
LOOKED_THROUGH = ("torch", "torch.nn", "torch.nn.functional", "numpy", "math", "einops")
FEW = 64
"""A tensor of at most so many numbers can be written down."""


class CannotKeep(LookupError):
    """Why an answer cannot be kept, in words for the student."""


def standalone_source(answer: Any, exercise: str = "") -> str:
    """Return source that defines an answer by itself: the imports and helpers it uses, then the answer.

    Args:
        answer: a function or class.
        exercise: name of the exercise; an answer that calls the finished version of it is refused.

    Raises:
        CannotKeep: if it uses something that cannot be written down, such as a model made in the notebook.
    """
    notes = Notes(answer, exercise)
    notes.define(answer, answer.__name__)
    future = ["from __future__ import annotations"] * notes.future
    return "\n".join([*future, *dict.fromkeys(notes.imports), *notes.lines]).lstrip()


class Notes:
    """What has been written down of an answer so far: lines of source, and what the names in them stand for."""

    def __init__(self, answer: Any, exercise: str):
        self.answer, self.exercise = answer, exercise
        self.imports: list[str] = []
        self.lines: list[str] = []
        self.names: dict[str, Any] = {answer.__name__: answer}
        self.future = False

    def define(self, value: Any, name: str) -> None:
        """Write the definition of a function or class, and before it what the definition uses."""
        source, scope = own_source(value)
        own_name = value.__name__
        if own_name == "<lambda>":
            own_name, source = name, f"{name} = ({source})\n"
        self.future |= any(f.__code__.co_flags & ANNOTATIONS for f in functions_in(value))
        tree = ast.parse(source)
        if call := call_of_finished(tree, scope, self.exercise):
            raise CannotKeep(
                f"`{call}` is the finished version itself, and with your answer in its place it would be your answer "
                "again, for ever"
            )
        for base in value.__bases__ if inspect.isclass(value) else ():
            if base.__name__ == own_name:  # a subclass that took over the name
                self.bind(own_name, base)
        self.imports += [f"import {module}" for module in sorted(imported_by_dots(tree, scope))]
        for used in sorted(free_names(source) & scope.keys() - {own_name}):
            self.use(used, scope[used])
        self.lines.append(f"\n\n{source}")
        if name != own_name:
            self.lines.append(f"{name} = {own_name}")

    def use(self, name: str, value: Any) -> None:
        """Write lines after which a name stands for a value, once."""
        if name not in self.names:
            self.names[name] = value
            self.bind(name, value)
        elif self.names[name] is not value and literal(value) != literal(self.names[name]):
            raise CannotKeep(f"it uses two different things that are called `{name}`: rename one")

    def bind(self, name: str, value: Any) -> None:
        """Write lines after which a name stands for a value."""
        origin = getattr(value, "__module__", None) or ""
        own_name = getattr(value, "__name__", "")
        if isinstance(value, ModuleType):
            self.imports.append(
                f"import {value.__name__}" + (f" as {name}" if name != value.__name__ else "")
            )
        elif (text := literal(value)) is not None:
            self.imports += ["import torch"] * ("torch." in text)
            self.lines.append(f"{name} = {text}")
        elif origin.startswith("answers."):  # a part of an earlier lesson, put in place by `use_my_answers`
            self.imports.append(f"from {home(own_name)} import {own_name} as {name}")
        elif origin in ("__main__", self.answer.__module__) and functions_in(value) is not None:
            self.define(value, name)
        else:
            self.imports.append(import_line(name, value, self.answer.__module__))


def own_source(value: Any) -> tuple[str, dict[str, Any]]:
    """Return the source of a function or class, of the very one that this is, and the names around it.

    Works for notebook cells too. A cell may define a name twice, a stub first: the code tells which one is meant. A
    class has no code of its own, so it is found around one of its methods.

    Raises:
        CannotKeep: if no source is found that gives this code.
    """
    functions = functions_in(value)
    if functions is None:
        raise CannotKeep(f"only a function or a class has source, and this is a {type(value).__name__}")
    scope = dict(vars(sys.modules.get(value.__module__, math)))
    for function in functions:
        scope |= {**function.__globals__, **closure(function)}
    text, node = definition(value, functions)
    if isinstance(node, ast.Lambda):
        return ast.get_source_segment(text, node), scope
    kept = own_decorators(node, scope)
    if not kept and not inspect.isclass(value) and inspect.unwrap(value) is not value:
        raise CannotKeep(
            "it was wrapped in another function after its definition: use a decorator, @..., instead"
        )
    start = min([node.lineno, *(decorator.lineno for decorator in kept)])
    return textwrap.dedent("\n".join(text.split("\n")[start - 1 : node.end_lineno])) + "\n", scope


def functions_in(value: Any) -> list[FunctionType] | None:
    """Return the function itself, or the methods that a class defines; None for anything else."""
    if not inspect.isclass(value):
        function = inspect.unwrap(value) if callable(value) else value
        return [function] if isinstance(function, FunctionType) else None
    found = []
    for member in vars(value).values():
        member = getattr(member, "fget", None) or getattr(member, "__func__", member)
        member = inspect.unwrap(member) if callable(member) else member
        if isinstance(member, FunctionType) and member.__qualname__.startswith(f"{value.__qualname__}."):
            found.append(member)
    return found


def closure(function: FunctionType) -> dict[str, Any]:
    """Return what a function takes from the functions around it, by name."""
    names = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not bound yet
            if name != "__class__":
                names[name] = cell.cell_contents
    return names


def definition(value: Any, functions: list[FunctionType]) -> tuple[str, Any]:
    """Find the text that a function or class was made from, and its node in the syntax tree."""
    for function in functions:
        for text in texts(function.__code__.co_filename):
            for node in nodes_of(function.__code__, text):
                if not inspect.isclass(value):
                    return text, node
                around = [c for c in classes(text, value.__name__) if c.lineno <= node.lineno <= c.end_lineno]
                if around:
                    return text, around[-1]
    if inspect.isclass(value):  # with no method of its own, such as a dataclass
        for text in texts(getattr(sys.modules.get(value.__module__), "__file__", None) or ""):
            if found := classes(text, value.__name__):
                return text, found[-1]
    raise CannotKeep(
        f"the source of `{value.__name__}` was not found; write it with `def` or `class`, in a cell"
    )


def texts(file: str) -> Iterator[str]:
    """Return where a definition may stand: the file of its code, then the cells of this notebook, newest first.

    Code under a cell magic such as `%%time` does not know its cell.
    """
    if known := linecache.getlines(file):
        yield "".join(known)
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    for cell in reversed(shell.history_manager.input_hist_raw if shell else []):
        while cell.lstrip().startswith("%%"):
            cell = cell.lstrip().partition("\n")[2]
        with contextlib.suppress(SyntaxError):
            yield shell.transform_cell(cell)


def nodes_of(code: CodeType, text: str) -> list[Any]:
    """Return the nodes of a text that the code was compiled from: by line, name and instructions.

    A file is compiled whole, a cell statement by statement: `torch.cat` has other instructions where the compiler has
    seen `import torch`.
    """
    flags = code.co_flags & ANNOTATIONS | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = ast.parse(text)
        pieces = [tree, *(ast.Module([statement], []) for statement in tree.body)]
        compiled = [compile(piece, code.co_filename, "exec", flags, dont_inherit=True) for piece in pieces]
    except (SyntaxError, ValueError):
        return []
    if not any(same_code(code, other) for piece in compiled for other in all_codes(piece)):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if (node.name, first) == (code.co_name, code.co_firstlineno):
                found.append(node)
        elif (
            isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
        ):
            found.append(node)
    return found if len(found) == 1 else []


def all_codes(code: CodeType) -> list[CodeType]:
    """Return a code object and all that are in it."""
    return [code] + [c for part in code.co_consts if isinstance(part, CodeType) for c in all_codes(part)]


def same_code(one: CodeType, other: CodeType) -> bool:
    """Tell whether two code objects come from the same lines of the same text."""
    parts = ("co_name", "co_firstlineno", "co_code", "co_names", "co_varnames")
    return (
        all(getattr(one, part) == getattr(other, part) for part in parts)
        and len(one.co_consts) == len(other.co_consts)
        and all(map(same_constant, one.co_consts, other.co_consts))
    )


def same_constant(one: Any, other: Any) -> bool:
    """Tell whether two constants of code objects are the same."""
    if isinstance(one, CodeType) and isinstance(other, CodeType):
        return same_code(one, other)
    return type(one) is type(other) and (one == other or repr(one) == repr(other))


def classes(text: str, name: str) -> list[ast.ClassDef]:
    """Return the definitions of a class in a text, from the top."""
    try:
        nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef) and n.name == name]
    except (SyntaxError, ValueError):
        return []
    return sorted(nodes, key=lambda node: node.lineno)


def own_decorators(node: Any, scope: dict[str, Any]) -> list[ast.expr]:
    """Return the decorators below `@check`, or all: what is above came after the check."""
    kept = []
    for decorator in reversed(node.decorator_list):
        target = resolved(decorator.func if isinstance(decorator, ast.Call) else decorator, scope)
        if (getattr(target, "__module__", None) or "").startswith("vit_course.classroom"):
            break
        kept.append(decorator)
    return kept


def resolved(node: ast.AST, scope: dict[str, Any]) -> Any:
    """Return what a name, or a dotted name that leads through modules, stands for; None if that is not known."""
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    if isinstance(node, ast.Attribute):
        around = resolved(node.value, scope)
        return vars(around).get(node.attr) if isinstance(around, ModuleType) else None
    return None


def imported_by_dots(tree: ast.AST, scope: dict[str, Any]) -> set[str]:
    """Return the modules that a source reaches through their packages: `import torch` alone may not load them."""
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(resolved(node.value, scope), ModuleType):
            package, module = resolved(node.value, scope), resolved(node, scope)
            if isinstance(module, ModuleType) and module.__name__ == f"{package.__name__}.{node.attr}":
                modules.add(module.__name__)
    return modules


def call_of_finished(tree: ast.AST, scope: dict[str, Any], exercise: str) -> str:
    """Return the words with which a function reaches the finished version of an exercise; "" if it does not.

    What is read while a class or function is defined, such as the class that it extends, does no harm.
    """
    finished = EXERCISES[exercise].reference if exercise in EXERCISES else None
    if finished is None:
        return ""
    scope = dict(scope)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known = alias.asname or alias.name.partition(".")[0]
                scope[known] = sys.modules.get(alias.name if alias.asname else known)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inside = sys.modules.get(f"{node.module}.{alias.name}")
                scope[alias.asname or alias.name] = inside or getattr(
                    sys.modules.get(node.module), alias.name, None
                )
    functions = (
        n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    )
    bodies = (part for f in functions for part in (f.body if isinstance(f.body, list) else [f.body]))
    for node in (node for body in bodies for node in ast.walk(body)):
        if isinstance(node, ast.Name | ast.Attribute) and resolved(node, scope) is finished:
            return ast.unparse(node)
    return ""


def literal(value: Any) -> str | None:
    """Write a constant as source: a number, a text, a few numbers of a tensor, and what is made of them; or None."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) in (bool, int, str, bytes, type(None), type(...), range):
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if type(value) in (tuple, list, set, frozenset, torch.Size):
        parts = [literal(part) for part in value]
        kind = "torch.Size" if type(value) is torch.Size else type(value).__name__
        return None if None in parts else f"{kind}([{', '.join(parts)}])" if parts else f"{kind}()"
    if type(value) is dict:
        rows = [(literal(key), literal(part)) for key, part in value.items()]
        return None if any(None in row for row in rows) else f"{{{', '.join(f'{k}: {v}' for k, v in rows)}}}"
    if isinstance(value, torch.dtype):
        return repr(value)
    if isinstance(value, torch.device):
        return f"torch.{value!r}"
    if (
        type(value) is Tensor
        and value.numel() <= FEW
        and not value.requires_grad
        and value.device.type == "cpu"
    ):
        return f"torch.tensor({literal(value.tolist())}, dtype={value.dtype})"
    return None


def import_line(name: str, value: Any, notebook: str) -> str:
    """Return the import that binds a name to a value, from any module but that of the notebook.

    Raises:
        CannotKeep: if no module has it.
    """
    own_name = getattr(value, "__name__", name)
    own = [getattr(sys.modules.get(module), "__dict__", {}) for module in ("__main__", notebook)]
    for module in (*LOOKED_THROUGH, getattr(value, "__module__", None), *list(sys.modules)):
        known = getattr(sys.modules.get(module), "__dict__", {})
        if any(known is names for names in own):  # a kernel goes by several names
            continue
        for attribute in (own_name, name):
            if known.get(attribute) is value:
                return f"from {module} import {attribute}" + (f" as {name}" if name != attribute else "")
    raise CannotKeep(
        f"it uses `{name}` ({type(value).__name__}), which was made outside of it: make it inside, or hand it over as "
        "an argument"
    )
