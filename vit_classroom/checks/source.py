"""An answer as text that stands by itself: the cell that was run, up to its check, and what it reads from other cells.

Of a cell those statements are taken that the answer needs, by the names that they bind and use. What it takes from
another exercise is imported: lesson 06 puts the student's own in that place.
"""

import ast
import builtins
import symtable
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from vit_classroom import PACKAGES
from vit_classroom.checks.registry import home
from vit_classroom.names import free_names
from vit_classroom.notebook import cells_run

CHECK = "check"
IMPORTS = (ast.Import, ast.ImportFrom)
DEFINITIONS = (*IMPORTS, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class CannotKeep(LookupError):
    """Why an answer cannot be kept, in words for the student."""


class Statement(NamedTuple):
    """A statement at the top of a cell: its text, and the names that it binds and uses."""

    cell: int
    text: str
    node: ast.stmt
    binds: frozenset[str]
    uses: frozenset[str]


def kept_source(answer: Any, name: str) -> str:
    """Return source that defines an answer by itself.

    Args:
        answer: a function or class, made in a notebook or a file.
        name: of its exercise.

    Raises:
        CannotKeep: if it uses something that cannot be written down, such as a model that another cell trained.
    """
    module = getattr(answer, "__module__", None)
    if module == "__main__" and (cells := cells_run()):
        return standing_alone(name, cells)
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if not file:
        raise CannotKeep(f"the source of `{name}` was not found; write it with `def` or `class`, in a cell")
    return standing_alone(name, [Path(file).read_text(encoding="utf-8")])


def standing_alone(name: str, cells: Sequence[str]) -> str:
    """Return source that defines an answer, given the cells that were run, the one with the check last.

    Raises:
        CannotKeep: if no cell defines it, or if it uses something that another cell computes.
    """
    parsed = [statements(text) for text in cells]
    parsed = [*parsed[:-1], up_to_check(parsed[-1], name)]
    known = [one._replace(cell=number) for number, found in enumerate(parsed) for one in found]
    chosen, finished, done, wanted = set(), set(), {CHECK}, {name}
    while wanted := wanted - done:
        used = wanted.pop()
        done.add(used)
        more = makers(used, known)
        if used != name and home(used) and not any(known[n].cell == len(cells) - 1 for n in more):
            finished.add(used)
            continue
        if refused := [n for n in more if known[n].cell < len(cells) - 1 and not is_simple(known[n], known)]:
            raise CannotKeep(
                f"it uses `{used}`, which another cell computes (`{known[refused[0]].text:.60}`): make it inside, or "
                "hand it over as an argument"
            )
        chosen |= set(more)
        wanted |= {word for n in more for word in known[n].uses}
    mine = [known[n] for n in sorted(chosen)]
    definitions = [one for one in mine if name in one.binds]
    if not definitions:
        raise CannotKeep(f"the source of `{name}` was not found: use `def` or `class`, in this cell")
    if extends(definitions[0].node, name):
        finished.add(name)
    future = [one.text for one in known if getattr(one.node, "module", "") == "__future__"]
    imports = [f"from {home(used)} import {used}" for used in sorted(finished)]
    imports += [one.text for one in mine if isinstance(one.node, IMPORTS)]
    rest = [f"\n\n{one.text}" for one in mine if not isinstance(one.node, IMPORTS)]
    return "\n".join(dict.fromkeys([*future, *imports, *rest])) + "\n"


@lru_cache(maxsize=512)
def statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of a cell that bind names, but those that call the check; of an import each name alone."""
    found = []
    try:
        for node in ast.parse(text).body:
            for part, source in parts(node, text):
                found.append(Statement(0, source, part, bound(part, source), frozenset(free_names(source))))
    except (SyntaxError, ValueError):
        return ()
    return tuple(found)


def parts(node: ast.stmt, text: str) -> Iterator[tuple[ast.stmt, str]]:
    """Yield a statement with its text, as it was written; an import of several names as several."""
    if isinstance(node, IMPORTS):
        for alias in node.names:
            one = ast.Import([alias])
            if isinstance(node, ast.ImportFrom):
                one = ast.ImportFrom(node.module, [alias], node.level)
            yield one, ast.unparse(one)
        return
    lines = text.split("\n")
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    behind = lines[node.end_lineno - 1].encode()[node.end_col_offset :].strip()
    if node.col_offset or behind[:1] not in (b"", b"#"):  # another statement stands in the same line
        yield node, ast.get_source_segment(text, node)
    else:
        yield node, "\n".join(lines[first - 1 : node.end_lineno])


def bound(node: ast.stmt, source: str) -> frozenset[str]:
    """Return the names that a statement binds, or whose values it changes."""
    symbols = symtable.symtable(source, "cell", "exec").get_symbols()
    names = {one.get_name() for one in symbols if one.is_assigned() or one.is_imported()}
    for target in (target for part in ast.walk(node) for target in getattr(part, "targets", ())):
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        names |= {target.id} if isinstance(target, ast.Name) and isinstance(node, ast.Assign) else set()
    return frozenset(names)


def up_to_check(found: Sequence[Statement], name: str) -> list[Statement]:
    """Return what stands in a cell before the line that checks this exercise."""
    checks = [n for n, one in enumerate(found) if calls_check(one.node) and name in one.uses]
    return [one for one in found[: checks[0] if checks else None] if not calls_check(one.node)]


def calls_check(node: ast.stmt) -> bool:
    """Tell whether a statement is a call of the check, such as `patchify = check(patchify)`."""
    call = getattr(node, "value", None)
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == CHECK


def makers(name: str, known: Sequence[Statement]) -> list[int]:
    """Return the statements that make a name what it is: those of the last cell that binds it.

    `import a.b` adds to `a`, so such imports count from every cell; a name of nowhere may come from any `import *`.
    """
    cells = [one.cell for one in known if name in one.binds and not calls_check(one.node)]
    if not cells:
        stars = (n for n, one in enumerate(known) if isinstance(one.node, IMPORTS) and "*" in one.text)
        return [] if hasattr(builtins, name) else list(stars)
    return [
        n
        for n, one in enumerate(known)
        if name in one.binds
        and not calls_check(one.node)
        and (one.cell == cells[-1] or isinstance(one.node, ast.Import))
    ]


def is_simple(one: Statement, known: Sequence[Statement]) -> bool:
    """Tell whether a statement of another cell may be run again: a definition, or what Python or a library makes."""
    if isinstance(one.node, DEFINITIONS):
        return True
    if not isinstance(one.node, ast.Assign | ast.AnnAssign):
        return False
    theirs = (other for other in known if isinstance(other.node, IMPORTS))
    imports = [other for other in theirs if not any(package in other.text for package in PACKAGES)]
    library = {word for other in imports for word in other.binds} | set(dir(builtins)) - {"open", "input"}
    calls = [node.func for node in ast.walk(one.node) if isinstance(node, ast.Call)]
    return all(root(call) in library for call in calls)


def root(node: ast.AST) -> str:
    """Return the name with which an expression begins: `torch` of `torch.zeros(3).T`."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def extends(node: ast.stmt, name: str) -> bool:
    """Tell whether a class extends another of its own name."""
    bases = [part for base in getattr(node, "bases", ()) for part in ast.walk(base)]
    return any(isinstance(part, ast.Name) and part.id == name for part in bases)
