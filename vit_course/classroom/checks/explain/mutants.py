"""The finished version with one slip in it: if that gives what an answer gives on every case, the slip is its cause."""

import ast
import inspect
import textwrap
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from vit_course.classroom.checks.explain.edits import Edit
from vit_course.classroom.checks.explain.slips import edits
from vit_course.classroom.checks.explain.trial import SLIPPED_FILE, Trial
from vit_course.classroom.checks.explain.values import as_tensor
from vit_course.classroom.checks.words import difference


@dataclass
class Part:
    """A function or class of the finished version that can be compiled anew, with an edit."""

    value: Any
    tree: ast.Module
    edits: list[Edit]
    codes: dict[int, CodeType | None] = field(default_factory=dict)

    def made(self, number: int | None, names: dict[str, Any]) -> Any:
        """Return it with an edit, or as it is, among other names; None if that is no code."""
        if number not in self.codes:
            self.codes[number] = self.compiled(self.edits[number].changes if number is not None else ())
        return self.run(self.codes[number], names)

    def run(self, code: CodeType | None, names: dict[str, Any]) -> Any:
        """Return what a code defines, among other names; None if there is none, or it stops."""
        scope = {**scope_of(self.value), **names}
        try:
            exec(code, scope)
        except Exception:  # a base class or a default may be gone
            return None
        return scope[self.value.__name__]

    def compiled(self, changes: tuple) -> CodeType | None:
        """Compile the tree with nodes in the place of others, which are then put back."""
        for slot, new in changes:
            slot.put(placed(new() if callable(new) else new, slot.node))
        try:
            return compile(self.tree, SLIPPED_FILE, "exec")
        except (SyntaxError, ValueError, TypeError):
            return None
        finally:
            for slot, _ in reversed(changes):
                slot.put(slot.node)


def placed(new: ast.AST, old: ast.AST) -> ast.AST:
    """Give new nodes the lines of the old one, as `compile` wants it."""
    for node in ast.walk(new):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, old)
            node.lineno, node.end_lineno = getattr(old, "lineno", 1), getattr(old, "end_lineno", 1)
            node.col_offset, node.end_col_offset = 0, 0
    return new


def scope_of(value: Any) -> dict[str, Any]:
    """Return the names around a function or class: those of its module, and what a function takes from around it."""
    function = value if isinstance(value, FunctionType) else None
    if function is None:
        return dict(vars(inspect.getmodule(value)))
    names = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**function.__globals__, **{name: cell.cell_contents for name, cell in names}}


@lru_cache(maxsize=64)
def part_of(value: Any, plain: bool = False) -> Part | None:
    """Read the source of a function or class, `plain` without its edits; None if it does not stand by itself."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError, SyntaxError):
        return None
    if len(tree.body) != 1 or getattr(tree.body[0], "name", None) != getattr(value, "__name__", ""):
        return None
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:] or [ast.copy_location(ast.Pass(), node)]
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.returns = None
    if FUSED in scope_of(value) and not plain:
        tree = ast.fix_missing_locations(Unfused().visit(tree))
    return Part(value, tree, [] if plain else edits(tree.body[0]))


FUSED = "scaled_dot_product_attention"


class Unfused(ast.NodeTransformer):
    """Write torch's fused attention as the function of the course, so that a slip there is a slip in both."""

    def visit_Call(self, node: ast.Call) -> ast.AST:  # noqa: N802
        """Replace the call; the function of the course gives two values."""
        if ast.unparse(node.func) != f"F.{FUSED}":
            return self.generic_visit(node)
        return ast.Subscript(
            ast.Call(ast.Name(FUSED, ast.Load()), node.args, []), ast.Constant(0), ast.Load()
        )


def own_functions(value: Any) -> dict[str, Any]:
    """Return the functions of the course that a function or class calls by name, without those that only check."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError, SyntaxError):
        return {}
    scope, names = scope_of(value), dict.fromkeys(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
    return {
        name: scope[name]
        for name in names
        if isinstance(scope.get(name), FunctionType)
        and scope[name] is not value
        and not name.startswith(("check_", "as_pair", "grid_size"))
        and in_course(scope[name])
    }


def in_course(value: Any) -> bool:
    """Tell whether a function or class is one of the course itself, and none of a check or a test."""
    return value.__module__.split(".")[0] == "vit_course"


class Mutants:
    """The finished version of an exercise, ready to be made with any of the edits of its source.

    Where a check compares a function that calls the finished version, the slips are those of the finished version.
    """

    def __init__(self, reference: Any):
        self.wrapper, self.inside = None, ""
        inner = own_functions(reference)
        if not in_course(reference) and len(inner) == 1:
            (self.inside, finished), self.wrapper = *inner.items(), part_of(reference, plain=True)
            reference, inner = finished, own_functions(finished)
        self.main = part_of(reference)
        parts = {name: part_of(function) for name, function in inner.items()} if self.main else {}
        self.others = {name: part for name, part in parts.items() if part}
        ranked = [(e.rank + in_init(e), "", n) for n, e in enumerate(self.main.edits if self.main else ())]
        for name, part in self.others.items():
            ranked += [(e.rank + (e.rank > 1), name, n) for n, e in enumerate(part.edits)]
        self.order = sorted(ranked, key=lambda entry: entry[0])

    def edit(self, name: str, number: int) -> Edit:
        """Return an edit: of the finished version itself, or of a function that it calls."""
        return (self.others[name] if name else self.main).edits[number]

    def made(
        self, name: str = "", number: int | None = None, code: CodeType | None = None, **names: Any
    ) -> Any:
        """Return the finished version with an edit, or of a code, or as it is; None if that is no code."""
        if name:
            other = self.others[name].made(number, {})
            made = other and self.main.made(None, {name: other})
        else:
            made = self.main.run(code, names) if code else self.main.made(number, names)
        return self.wrapper.made(None, {self.inside: made}) if self.wrapper and made else made


@lru_cache(maxsize=32)
def mutants_of(reference: Any) -> Mutants:
    """Return the mutants of a finished version, made once; what a check wraps anew each time is forgotten."""
    return Mutants(reference)


def slip(trial: Trial) -> str:
    """Name the slip with which the finished version gives what the answer gives, on every case."""
    family = mutants_of(trial.reference)
    if (
        not family.main
        or not same_without(trial, family)
        or telling(trial) < (2 if len(trial.wrong) > 1 else 3)
    ):
        return ""
    best, found = 99, ""
    for rank, name, number in family.order:
        if rank > best or trial.tired:
            break
        edit = family.edit(name, number)
        if agrees(trial, family.made(name, number), (name, number), in_init(edit)):
            words = edit.words() + (f" (in `{name}`)" if name else "")
            best, found = rank, min(found or words, words, key=len)
    return f"your result is what comes out when {found}" if found else ""


def telling(trial: Trial) -> int:
    """Count the different numbers in wrong results, or what comes near that: with few, slips agree by chance."""
    values = [v for i in trial.wrong for v in flat(trial.got[i])]
    numbers = {
        round(x, 6) for v in values if (t := as_tensor(v)) is not None for x in t.flatten()[:99].tolist()
    }
    return len(numbers) + sum(len(repr(v)) // 8 for v in values if as_tensor(v) is None)


def flat(value: Any) -> list[Any]:
    """Return the single values of a result."""
    if isinstance(value, Exception) or value is None:
        return []
    if isinstance(value, dict):
        value = [*value.items()]
    return [v for part in value for v in flat(part)] if isinstance(value, tuple | list) else [value]


def in_init(edit: Edit) -> bool:
    """Tell whether an edit is one of `__init__`, after which a module must be built anew."""
    return any(getattr(node, "name", "") == "__init__" for slot, _ in edit.changes for node in slot.around)


def same_without(trial: Trial, family: Mutants) -> bool:
    """Tell whether the finished version, made anew without an edit, gives what is wanted."""
    i = trial.wrong[0]
    made = family.made()
    return not difference(trial.slipped(made, i, False), trial.want[i])


def agrees(trial: Trial, made: Any, entry: tuple | None, anew: bool) -> bool:
    """Tell whether a finished version with a slip gives on every case what the answer gives."""
    if made is None:
        return False
    for i in trial.order:
        theirs, mine = trial.slipped(made, i, anew), trial.got[i]
        if entry and i == trial.wrong[0]:
            trial.first[entry] = theirs
        if isinstance(theirs, Exception) or isinstance(mine, Exception):
            if type(theirs) is not type(mine):
                return False
        elif difference(mine, theirs):
            return False
    return not all(isinstance(trial.got[i], Exception) for i in trial.wrong)
