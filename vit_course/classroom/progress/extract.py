"""The answers in a whole notebook: what an exercise's cell defines, and the imports and definitions that it uses.

Nothing else of a notebook is run, so nothing trains and nothing is plotted. What an answer uses is found by names, in
the syntax tree. Another exercise that it uses is its finished version, as `check` would have handed it on.
"""

import ast
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from vit_course.classroom.checks.registry import EXERCISES, exercise_names
from vit_course.machinery.names import free_names

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CHECKED = "check"
"""`patchify = check(patchify)` is the last line of an exercise; here `check` hands on whatever it is given."""
HEAD = f"def {CHECKED}(answer, *_):\n    return answer\n\n\n"


class NoNotebook(ValueError):
    """Why a file could not be read as a notebook."""


def answers_in(notebook: bytes) -> dict[str, str]:
    """Return source by name of exercise for all exercise cells of a notebook.

    An exercise cell that is no Python is returned as it is: to run it says what is wrong with it.

    Raises:
        NoNotebook: if this is none.
    """
    try:
        cells = [(asked(cell), source_of(cell)) for cell in json.loads(notebook)["cells"] if is_code(cell)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NoNotebook(f"it is no notebook ({type(error).__name__})") from error
    trees = [parsed(source) for _, source in cells]
    bound = [found for number, tree in enumerate(trees) if tree for found in bindings(number, tree)]
    return {
        name: source if trees[number] is None else standing_alone(name, number, bound)
        for number, (names, source) in enumerate(cells)
        for name in names
    }


def is_code(cell: dict[str, Any]) -> bool:
    """Tell whether a cell of a notebook holds code."""
    return cell["cell_type"] == "code"


def asked(cell: dict[str, Any]) -> list[str]:
    """Return the exercises that a cell is for."""
    option = cell.get("metadata", {}).get("exercise", "")
    return [name for name in exercise_names(option) if name in EXERCISES]


def source_of(cell: dict[str, Any]) -> str:
    """Return the text of a cell without what IPython alone understands."""
    lines = "".join(cell["source"]).split("\n")
    return "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))


def parsed(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell; None if it is no Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class Binding(NamedTuple):
    """A statement at the top of a cell, by its number, and the names that it binds."""

    cell: int
    names: set[str]
    statement: ast.stmt


def bindings(cell: int, tree: ast.Module) -> Iterator[Binding]:
    """Yield the imports, definitions and assignments of a cell; an import of several names is parted."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                one = ast.Import([alias])
                if isinstance(node, ast.ImportFrom):
                    one = ast.ImportFrom(node.module, [alias], node.level)
                yield Binding(cell, {alias.asname or alias.name.partition(".")[0]}, one)
        elif isinstance(node, DEFINITIONS):
            yield Binding(cell, {node.name}, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            yield Binding(cell, {part.id for part in parts if isinstance(part, ast.Name)}, node)


def standing_alone(name: str, cell: int, bound: list[Binding]) -> str:
    """Return source that defines an answer by itself: what its cell binds to the name, and what that uses.

    Args:
        name: of the exercise.
        cell: the number of its cell.
        bound: what all cells of the notebook bind, in their order.
    """
    chosen = {n for n, found in enumerate(bound) if found.cell == cell and name in found.names}
    imports, known, wanted = [], {name, CHECKED}, used_by(chosen, bound)
    while wanted := wanted - known:
        used = wanted.pop()
        known.add(used)
        if used in EXERCISES:
            imports.append(f"from {EXERCISES[used].reference.__module__} import {used}")
            continue
        cells = [found.cell for found in bound if used in found.names]
        nearest = cell if cell in cells else max(cells, default=None)
        more = {n for n, found in enumerate(bound) if found.cell == nearest and used in found.names}
        chosen |= more
        wanted |= used_by(more, bound)
    return HEAD + "\n".join([*sorted(imports), *(ast.unparse(bound[n].statement) for n in sorted(chosen))])


def used_by(chosen: set[int], bound: list[Binding]) -> set[str]:
    """Return the names that some statements take from around them."""
    return {name for n in chosen for name in free_names(ast.unparse(bound[n].statement))}
