"""Edits of a syntax tree: where they are made, and how they are worded.

The words complete the sentence "your result is what the finished version gives when ...". An edit of lower rank is the
likelier one.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

LONG = 60
"""More characters of the finished version are not shown."""


@dataclass(frozen=True)
class Slot:
    """A place in a tree: the field of a node, or or one entry, what is there, and the nodes around, nearest last."""

    parent: Any
    field: str
    index: int | None
    node: Any
    around: tuple

    def put(self, new: Any) -> None:
        """Put a node here."""
        if self.index is None:
            setattr(self.parent, self.field, new)
        else:
            getattr(self.parent, self.field)[self.index] = new


@dataclass(frozen=True)
class Edit:
    """Nodes, or what makes them, in the place of others; the words are made of the tree as it was, where needed.

    Edits of one group are also made all at once.
    """

    rank: int
    changes: tuple[tuple[Slot, Any], ...]
    words: Callable[[], str]
    group: str = ""


def slots(node: ast.AST, around: tuple = ()) -> Iterator[Slot]:
    """Yield every place that holds a node; annotations, decorators, errors and formatted texts are left out."""
    around = (*around, node)
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "ctx", "bases"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(child, ast.AST) and not isinstance(
                child, ast.Raise | ast.JoinedStr | ast.arguments
            ):
                yield Slot(node, field, index, child, around)
                if number(child) is None:
                    yield from slots(child, around)


def number(node: ast.AST) -> int | float | None:
    """Read a number as it is written, -1 too; None for anything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = number(node.operand)
        return None if value is None else -value
    value = node.value if isinstance(node, ast.Constant) else None
    return value if type(value) in (int, float) else None


# Words


def quoted(node: ast.AST, long: int = LONG) -> str:
    """Show a piece of code; of a long one the name of what is called, or the beginning of a statement."""
    if isinstance(node, ast.keyword):
        return f"`{node.arg}={ast.unparse(node.value)}`"
    text = ast.unparse(node).partition("\n")[0]
    if len(text) <= long:
        return f"`{text}`"
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        return f"`{called if len(called) < long else '....' + getattr(node.func, 'attr', 'call')}(...)`"
    if isinstance(node, ast.Assign | ast.AugAssign):
        return f"`{ast.unparse(getattr(node, 'targets', [getattr(node, 'target', None)])[0])} = ...`"
    return f"`{text[: long - 4]} ...`"


def within(slot: Slot, old: str = "") -> str:
    """Say in which expression a slot lies: the widest short one in which no other part looks the same, or a line."""
    old = old or ast.unparse(slot.node)
    wide = [n for n in slot.around if isinstance(n, ast.Call | ast.BinOp | ast.Subscript | ast.Compare)]
    short = [text for text in map(ast.unparse, wide) if len(text) <= LONG and text != old]
    alone = [text for text in short if text.count(old) == 1] or short[-1:]
    line = next((n for n in reversed(slot.around) if isinstance(n, ast.Assign)), None)
    if alone:
        return f" in `{alone[0]}`"
    return f" where `{ast.unparse(line.targets[0])}` is made" if line else ""


def instead(slot: Slot, new: ast.AST | Callable, rank: int) -> Edit:
    """Put an expression in the place of another."""
    name = f"{slot.parent.arg}=" if isinstance(slot.parent, ast.keyword) and slot.parent.arg else ""

    def words() -> str:
        old, now = (f"`{name}{quoted(node)[1:]}" for node in (slot.node, new() if callable(new) else new))
        return f"{old} is {now}{within(slot, old[1:-1])}"

    return Edit(rank, ((slot, new),), words)


def left_out(slot: Slot, rest: ast.AST, what: Callable[[], str], rank: int = 0) -> Edit:
    """Put what remains of an expression in its place."""

    def words() -> str:
        whole = ast.unparse(slot.node)
        around = f" of `{whole}`" if len(whole) <= LONG else within(slot).replace(" in ", " of ", 1)
        return f"{what()} is left out" + ("" if around == f" of {what()}" else around)

    return Edit(rank, ((slot, rest),), words)


def pair(one: ast.AST, other: ast.AST) -> str:
    """Name two pieces of code."""
    return f"{quoted(one, 30)} and {quoted(other, 30)}"
