"""Slips with names and lines: a name taken for another, an old value, a line left out, the same slip in two places."""

import ast
import itertools
from collections.abc import Iterator
from typing import Any

from vit_course.classroom.checks.explain.edits import Edit, Slot, instead, number, pair, quoted, within
from vit_course.classroom.checks.explain.families import MODULES, OPERATORS, relatives, written


def everywhere(found: list[Edit]) -> Iterator[Edit]:
    """Yield edits that are made in several places at once, such as another axis in both of two lines."""
    alike, texts = {}, {}
    for edit in found:
        (slot, new), *more = edit.changes
        if edit.rank < 3 and not more and isinstance(slot.node, ast.expr) and isinstance(new, ast.expr):
            if id(slot.node) not in texts:
                texts[id(slot.node)] = ast.unparse(slot.node)
            text = getattr(new, "id", None) or (
                repr(new.value) if isinstance(new, ast.Constant) else ast.unparse(new)
            )
            alike.setdefault(edit.group or (texts[id(slot.node)], text), []).append(edit)
    for same in alike.values():
        slots = {id(edit.changes[0][0].node): edit.changes[0] for edit in same}
        if len(slots) > 1:
            yield Edit(
                2,
                tuple(slots.values()),
                lambda same=same: f"{same[0].words()}, and in the same way elsewhere",
            )


def renamed(places: list[Slot], tree: ast.AST) -> Iterator[Edit]:
    """Yield names, and attributes of `self`, that are taken for another one of the same function or class."""
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    inside = {
        f: {n.id for n in ast.walk(f) if isinstance(n, ast.Name)} & stored | arguments(f) for f in functions
    }
    parts = [node for node in ast.walk(tree) if is_part(node)]
    owned = {part.value.id: {a.attr for a in parts if a.value.id == part.value.id} for part in parts}
    yield from exchanged(places, inside)
    yield from outdated(places)
    for slot in places:
        node = slot.node
        if type(number(node)) is int and not isinstance(slot.parent, ast.keyword):
            around = next((f for f in reversed(slot.around) if f in inside), None)
            for other in sorted(inside.get(around, set()) - {"self"}):
                yield instead(slot, ast.Name(other, ast.Load()), 3)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            around = next((f for f in reversed(slot.around) if f in inside), None)
            names = inside.get(around, set())
            for other in sorted(names - {node.id, "self", receiver(slot.parent)}) if node.id in names else ():
                yield instead(slot, ast.Name(other, ast.Load()), 2)
            for value in constants(around, node.id):
                yield instead(slot, written(value), 2)
        elif is_part(node) and isinstance(node.ctx, ast.Load):
            for other in sorted(owned[node.value.id] - {node.attr}):
                yield instead(slot, ast.Attribute(node.value, other, ast.Load()), 1)


def receiver(node: ast.AST) -> str:
    """Return the name whose method is called, or "": a list that is put into itself cannot be computed with."""
    function = getattr(node, "func", None)
    return getattr(getattr(function, "value", None), "id", "") if isinstance(function, ast.Attribute) else ""


def constants(function: ast.FunctionDef | None, name: str) -> list[Any]:
    """Return values that somebody might write for an argument: its default, and of a number others."""
    if function is None or name not in arguments(function):
        return []
    given = function.args.posonlyargs + function.args.args
    defaults = dict(zip([a.arg for a in reversed(given)], reversed(function.args.defaults), strict=False))
    default = getattr(defaults.get(name), "value", None)
    if isinstance(default, float):
        return [default, float(f"{10 * default:.6g}"), float(f"{default / 10:.6g}"), 0.0, 1.0]
    if isinstance(default, str):
        return [default, *relatives(default)]
    return [default] if isinstance(default, bool) else list(dict.fromkeys((default or 0, 0, 1, 2)))


def outdated(places: list[Slot]) -> Iterator[Edit]:
    """Yield names that are read as they were before a line gave them another value."""
    for line in places:
        if not isinstance(line.node, ast.Assign) or not isinstance(line.node.targets[0], ast.Name):
            continue
        name = line.node.targets[0].id
        copied = ast.Assign([ast.Name("before", ast.Store())], ast.Name(name, ast.Load()))
        block = ast.If(ast.Constant(True), [copied, line.node], [])
        for slot in places:
            if getattr(slot.node, "id", "") == name and slot.node.lineno > line.node.lineno:
                if isinstance(slot.node.ctx, ast.Load):
                    changes = ((line, block), (slot, ast.Name("before", ast.Load())))
                    words = lambda slot=slot, line=line, name=name: (  # noqa: E731
                        f"`{name}`{within(slot)} is still that of before the line {quoted(line.node)}"
                    )
                    yield Edit(1, changes, words)


def exchanged(places: list[Slot], inside: dict[ast.FunctionDef, set[str]]) -> Iterator[Edit]:
    """Yield two names of a function that are taken for each other wherever they are read."""
    for function, names in inside.items():
        reads = {name: [] for name in sorted(names - {"self"})}
        for slot in places:
            if (
                function in slot.around
                and isinstance(slot.node, ast.Name)
                and isinstance(slot.node.ctx, ast.Load)
            ):
                reads.get(slot.node.id, []).append(slot)
        for one, other in itertools.combinations([name for name in reads if reads[name]], 2):
            changes = [(slot, ast.Name(other, ast.Load())) for slot in reads[one]]
            changes += [(slot, ast.Name(one, ast.Load())) for slot in reads[other]]
            words = lambda one=one, other=other: f"`{one}` and `{other}` are taken for each other"  # noqa: E731
            yield Edit(2, tuple(changes), words)


def arguments(function: ast.FunctionDef) -> set[str]:
    """Return the names of a function's arguments."""
    return {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}


def is_part(node: ast.AST) -> bool:
    """Tell whether a node is an attribute of a name that is no module: a part of a network, `self.norm1`."""
    return (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in MODULES
    )


def other_statements(slot: Slot) -> Iterator[Edit]:
    """Yield lines left out or swapped with the next, conditions that always or never hold."""
    node = slot.node
    if slot.index is None or isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Return | ast.Import):
        return
    if not (isinstance(node, ast.If) and all(isinstance(line, ast.Raise) for line in node.body)):
        yield Edit(0, ((slot, ast.Pass()),), lambda: f"the line {quoted(node)} is left out")
    if isinstance(node, ast.AugAssign):
        new = ast.Assign([node.target], node.value)
        yield Edit(1, ((slot, new),), lambda: f"{quoted(node)} is {quoted(new)}")
        for other in OPERATORS.get(type(node.op), ()):
            new = ast.AugAssign(node.target, other(), node.value)
            yield Edit(1, ((slot, new),), lambda new=new: f"{quoted(node)} is {quoted(new)}")
    lines = getattr(slot.parent, slot.field)
    if slot.index + 1 < len(lines) and not isinstance(lines[slot.index + 1], ast.Return):
        after = Slot(slot.parent, slot.field, slot.index + 1, lines[slot.index + 1], slot.around)
        words = lambda: f"the lines {pair(node, after.node)} stand in the other order"  # noqa: E731
        yield Edit(2, ((slot, after.node), (after, node)), words)


def other_conditions(slot: Slot) -> Iterator[Edit]:
    """Yield an `if` that always or never holds, or the other way round."""
    node = slot.node
    test = Slot(node, "test", None, node.test, slot.around)
    for value, word in ((True, "always"), (False, "never")):
        words = lambda word=word: f"the lines under `if {ast.unparse(node.test)}` {word} run"  # noqa: E731
        yield Edit(0, ((test, ast.Constant(value)),), words)
    new = ast.UnaryOp(ast.Not(), node.test)
    yield Edit(
        1, ((test, new),), lambda: f"the lines under `if {ast.unparse(node.test)}` run where that is not so"
    )


def other_loops(slot: Slot) -> Iterator[Edit]:
    """Yield loops that run backwards, or without their first or last round."""
    node = slot.node
    turns = [
        ("runs backwards", "list({})[::-1]"),
        ("leaves out its first round", "list({})[1:]"),
        ("leaves out its last round", "list({})[:-1]"),
        ("stops after its first round", "list({})[:1]"),
        ("has only its last round", "list({})[-1:]"),
    ]
    for words, code in turns:
        new = ast.parse(code.format(ast.unparse(node.iter)), mode="eval").body
        inner = Slot(node, "iter", None, node.iter, slot.around)
        shown = f"the loop over {quoted(node.iter)} {words}"
        yield Edit(1, ((inner, new),), lambda shown=shown: shown)
