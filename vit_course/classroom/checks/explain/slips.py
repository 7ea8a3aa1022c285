"""Slips in a piece of code: the small edits of its syntax tree that somebody might make, by kind of node."""

import ast
import itertools
import re
from collections.abc import Iterator
from math import isfinite

from vit_course.classroom.checks.explain.edits import (
    LONG,
    Edit,
    Slot,
    instead,
    left_out,
    number,
    pair,
    quoted,
    slots,
    within,
)
from vit_course.classroom.checks.explain.families import (
    AXIS_METHODS,
    AXIS_NAMES,
    COMMUTATIVE,
    MODULES,
    OPERATORS,
    OPTIONS,
    REDUCTIONS,
    relatives,
    written,
)
from vit_course.classroom.checks.explain.names import (
    everywhere,
    other_conditions,
    other_loops,
    other_statements,
    renamed,
)


def edits(tree: ast.AST) -> list[Edit]:
    """Return the edits of a function or class, the likelier first."""
    kept = [slot for slot in slots(tree) if not isinstance(slot.node, ast.Raise)]
    found = (
        edit for slot in kept for kind, slips in SLIPS if isinstance(slot.node, kind) for edit in slips(slot)
    )
    found = [*found, *renamed(kept, tree)]
    return sorted([*found, *everywhere(found)], key=lambda edit: edit.rank)


def other_numbers(slot: Slot) -> Iterator[Edit]:
    """Yield other numbers: other axes, neighbours, halves, other signs."""
    value = number(slot.node)
    if value is None:
        return
    if isinstance(value, float):
        near = [2 * value, value / 2, -value, 1 - value, 0.0, 1.0, value**2, abs(value) ** 0.5]
        near += [10 * value, value / 10] + ([1 / value] if value else [])
    else:
        near = [value + 1, value - 1, 0, 1, 2, -value, 2 * value] + ([0.5] if value == 2 else [])
    if on_axis(slot):
        near = list(range(-3, 4))
    if isinstance(slot.parent, ast.BinOp) and isinstance(slot.parent.op, ast.Pow):
        near = [-value, 1, -1, 2, 0.5, -0.5, 3]
    for other in dict.fromkeys(near):
        if other != value and isfinite(other):
            yield instead(slot, written(other), 1)
    if isinstance(slot.parent, ast.keyword) and on_axis(slot):
        for several in ((-2, -1), (0, 1), (0, 2), (1, 2)):
            yield instead(slot, written(several), 2)


def on_axis(slot: Slot) -> bool:
    """Tell whether a number names an axis."""
    parent = slot.around[-1]
    if isinstance(parent, ast.Tuple | ast.List) and len(slot.around) > 1:
        parent = slot.around[-2]
    if isinstance(parent, ast.keyword):
        return parent.arg in AXIS_NAMES
    if isinstance(parent, ast.Call):
        return getattr(parent.func, "attr", getattr(parent.func, "id", "")) in AXIS_METHODS
    return isinstance(parent, ast.Subscript) and getattr(parent.value, "attr", "") == "shape"


def other_constants(slot: Slot) -> Iterator[Edit]:
    """Yield the other truth value, other known words, and other orders within a pattern of einops."""
    value = getattr(slot.node, "value", None)
    if isinstance(value, bool):
        yield instead(slot, ast.Constant(not value), 1)
    elif isinstance(slot.node, ast.Constant) and value is None:
        yield instead(slot, ast.Constant(0), 1)
    elif isinstance(value, str) and "->" in value:
        for old, new, pattern in other_patterns(value):
            words = f"`{old}` is `{new}` in the pattern `{value}`"
            yield Edit(1, ((slot, ast.Constant(pattern)),), lambda words=words: words)
    elif isinstance(value, str):
        for other in relatives(value):
            yield instead(slot, ast.Constant(other), 1)


def other_patterns(pattern: str) -> Iterator[tuple[str, str, str]]:
    """Yield a side or a group of a pattern, another order of it, and the pattern with that."""
    sides = pattern.split("->")
    for i, side in enumerate(sides):
        for group in re.findall(r"\(([^()]+)\)", side):
            for order in itertools.permutations(group.split()):
                if (new := " ".join(order)) != group:
                    other = [*sides]
                    other[i] = side.replace(f"({group})", f"({new})")
                    yield f"({group})", f"({new})", "->".join(other)
        parts = re.findall(r"\([^()]+\)|\S+", side)
        for order in itertools.permutations(parts) if i == 1 and len(parts) < 5 else ():
            if list(order) != parts:
                yield side.strip(), " ".join(order), f"{sides[0]}-> {' '.join(order)}"


def name_of(call: ast.Call) -> str:
    """Return the name of what is called, without what stands before the point."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def is_method(call: ast.Call) -> bool:
    """Tell whether a call may be one of a method, and not of a function of a module or a part of a network."""
    base = getattr(call.func, "value", None)
    return base is not None and not (isinstance(base, ast.Name) and base.id in (*MODULES, "self"))


def fewer_calls(slot: Slot) -> Iterator[Edit]:
    """Yield calls that are left out, or done twice."""
    call, name = slot.node, name_of(slot.node)
    insides = [arg for arg in call.args if not isinstance(arg, ast.Starred)]
    for inside in insides:
        yield left_out(slot, inside, lambda: f"the step {quoted(call, 30)}")
    twice = ast.Call(call.func, [call, *call.args[1:]], call.keywords) if insides else None
    if is_method(call):
        shown = ast.Call(ast.Name("", ast.Load()), call.args, call.keywords)
        yield left_out(slot, call.func.value, lambda: f"`.{name}{quoted(shown)[1:]}")
        twice = ast.Call(ast.Attribute(call, name, ast.Load()), call.args, call.keywords)
    if twice and name not in ("range", "len", "tuple", "list", "arange"):
        yield Edit(3, ((slot, twice),), lambda: f"the step {quoted(call)} is done twice")


def other_functions(slot: Slot) -> Iterator[Edit]:
    """Yield calls of a relative, over other axes, and a bare `reshape`."""
    call, func, name = slot.node, slot.node.func, name_of(slot.node)
    spot = Slot(call, "func", None, func, slot.around)
    for other in relatives(name):
        field = {"attr": other} if isinstance(func, ast.Attribute) else {"id": other}
        new = type(func)(**{**dict(ast.iter_fields(func)), **field})
        where = f" in {quoted(call)}" if len(ast.unparse(call)) <= LONG else ""
        yield Edit(
            1,
            ((spot, new),),
            lambda other=other, where=where: f"`{name}` is `{other}`{where or within(slot)}",
        )
    if name in REDUCTIONS and is_method(call):
        rest = [k for k in call.keywords if k.arg not in (*AXIS_NAMES, "keepdim")]
        new = ast.Call(func, [], rest)
        words = lambda new=new: f"{quoted(call)} is {quoted(new)}, over all numbers"  # noqa: E731
        yield Edit(1, ((slot, new),), words, "over all")
        for axis in range(-3, 3):
            kept = [ast.keyword("dim", written(axis)), ast.keyword("keepdim", ast.Constant(True))]
            words = lambda axis=axis: f"{quoted(call)} runs over axis {axis}, which it keeps"  # noqa: E731
            yield Edit(3, ((slot, ast.Call(func, [], rest + kept)),), words)
    if name == "rearrange" and call.args:
        like = ast.Attribute(call, "shape", ast.Load())
        new = ast.Call(ast.Attribute(call.args[0], "reshape", ast.Load()), [like], [])
        words = "the axes are not moved, and `reshape` alone makes the shape"
        yield Edit(0, ((slot, new),), lambda: words + within(slot))


def other_arguments(slot: Slot) -> Iterator[Edit]:
    """Yield calls with an option more, with an argument less, and with two of them swapped."""
    call, func = slot.node, slot.node.func
    for option, value in OPTIONS.get(name_of(call), {}).items():
        keywords = [k for k in call.keywords if k.arg != option] + [ast.keyword(option, written(value))]
        words = f"`{name_of(call)}` has `{option}={value!r}`"
        yield Edit(1, ((slot, ast.Call(func, call.args, keywords)),), lambda words=words: words)
    for keyword in call.keywords:
        rest = ast.Call(func, call.args, [k for k in call.keywords if k is not keyword])
        yield left_out(slot, rest, lambda keyword=keyword: quoted(keyword), 1)
    if call.args and not isinstance(call.args[-1], ast.Starred):
        rest = ast.Call(func, call.args[:-1], call.keywords)
        yield left_out(slot, rest, lambda: quoted(call.args[-1]), 2)
    for i, j in itertools.combinations(range(len(call.args)), 2):
        new = ast.Call(func, swapped(call.args, i, j), call.keywords)
        both = call.args[i], call.args[j]
        yield Edit(1, ((slot, new),), lambda both=both: f"{pair(*both)} are swapped in {quoted(call)}")


def swapped(entries: list, i: int, j: int) -> list:
    """Return a list with two entries swapped."""
    other = list(entries)
    other[i], other[j] = other[j], other[i]
    return other


def steps_swapped(slot: Slot) -> Iterator[Edit]:
    """Yield f(g(x)) for g(f(x)), of functions and of methods."""
    outer = slot.node
    inner = outer.args[0] if outer.args else getattr(outer.func, "value", None)
    if isinstance(inner, ast.BinOp):
        for left, right in ((True, False), (False, True), (True, True)):
            sides = [
                done(outer, side) if now else side for side, now in ((inner.left, left), (inner.right, right))
            ]
            yield instead(slot, ast.BinOp(sides[0], inner.op, sides[1]), 1)
    if not isinstance(inner, ast.Call):
        return
    if outer.args and inner.args:
        core = ast.Call(outer.func, [inner.args[0], *outer.args[1:]], outer.keywords)
        new = ast.Call(inner.func, [core, *inner.args[1:]], inner.keywords)
    elif not outer.args and isinstance(inner.func, ast.Attribute):
        core = ast.Call(ast.Attribute(inner.func.value, outer.func.attr, ast.Load()), [], outer.keywords)
        new = ast.Call(ast.Attribute(core, inner.func.attr, ast.Load()), inner.args, inner.keywords)
    else:
        return
    yield Edit(
        1, ((slot, new),), lambda: f"{quoted(outer, 30)} is done before {quoted(inner, 30)}, not after it"
    )


def done(call: ast.Call, inside: ast.AST) -> ast.Call:
    """Return a call of something else."""
    if call.args:
        return ast.Call(call.func, [inside, *call.args[1:]], call.keywords)
    return ast.Call(ast.Attribute(inside, call.func.attr, ast.Load()), [], call.keywords)


def other_sums(slot: Slot) -> Iterator[Edit]:
    """Yield other operators, one side alone, and the sides swapped."""
    node, (left, right) = slot.node, (slot.node.left, slot.node.right)
    for other in OPERATORS.get(type(node.op), ()):
        signs = [
            ast.unparse(ast.BinOp(written(1), op, written(1)))[1:-1].strip() for op in (node.op, other())
        ]
        words = lambda signs=signs: f"`{signs[0]}` is `{signs[1]}` in {quoted(node)}"  # noqa: E731
        yield Edit(1, ((slot, ast.BinOp(left, other(), right)),), words)
    yield left_out(slot, left, lambda: quoted(right))
    yield left_out(slot, right, lambda: quoted(left))
    if not isinstance(node.op, COMMUTATIVE):
        new = ast.BinOp(right, node.op, left)
        yield Edit(1, ((slot, new),), lambda: f"the two sides of {quoted(node)} are swapped")
    if isinstance(node.op, ast.MatMult):
        turned = ast.Call(ast.Attribute(right, "transpose", ast.Load()), [written(-2), written(-1)], [])
        yield instead(slot, ast.BinOp(left, node.op, turned), 2)
    if isinstance(right, ast.BinOp):  # brackets that are missing
        yield instead(slot, ast.BinOp(ast.BinOp(left, node.op, right.left), right.op, right.right), 2)
    if isinstance(left, ast.BinOp):
        yield instead(slot, ast.BinOp(left.left, left.op, ast.BinOp(left.right, node.op, right)), 2)
        yield instead(slot, ast.BinOp(ast.BinOp(left.left, node.op, right), left.op, left.right), 2)


def other_tests(slot: Slot) -> Iterator[Edit]:
    """Yield other comparisons, `and` for `or`, a condition left out."""
    node = slot.node
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            for other in OPERATORS.get(type(op), ()):
                yield instead(
                    slot,
                    ast.Compare(node.left, [*node.ops[:i], other(), *node.ops[i + 1 :]], node.comparators),
                    1,
                )
    elif isinstance(node, ast.BoolOp):
        yield instead(
            slot, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values), 1
        )
        for value in node.values:
            rest = [v for v in node.values if v is not value]
            new = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            yield left_out(slot, new, lambda value=value: f"the condition {quoted(value)}")
    elif isinstance(node, ast.IfExp):
        for new in (node.body, node.orelse):
            yield Edit(
                0, ((slot, new),), lambda new=new: f"{quoted(new)} is taken in every case{within(slot)}"
            )
        new = ast.IfExp(node.test, node.orelse, node.body)
        yield Edit(1, ((slot, new),), lambda: f"{pair(node.body, node.orelse)} are swapped{within(slot)}")
    elif number(node) is None:
        sign = "`not`" if isinstance(node.op, ast.Not) else f"`{ast.unparse(node)[0]}`"
        yield left_out(slot, node.operand, lambda: f"the {sign} before {quoted(node.operand)}")


def other_parts(slot: Slot) -> Iterator[Edit]:
    """Yield tensors uncut or cut elsewhere, and lists with entries left out or swapped."""
    node = slot.node
    if isinstance(node, ast.Subscript) and not isinstance(node.value, ast.Attribute):
        yield left_out(slot, node.value, lambda: f"the choice `[{ast.unparse(node.slice)}]`")
    if isinstance(node, ast.Slice):
        lower, upper = node.lower, node.upper
        ends = [ast.Slice(None, None, node.step), ast.Slice(upper, lower, node.step)]
        for end in (lower, upper):
            if end is not None:
                minus = ast.UnaryOp(ast.USub(), end)
                ends += [ast.Slice(minus, None, node.step), ast.Slice(None, minus, node.step)]
                more = [ast.BinOp(end, op(), written(1)) for op in (ast.Add, ast.Sub)]
                ends += [
                    ast.Slice(new if end is lower else lower, new if end is upper else upper) for new in more
                ]
        for new in ends:
            if ast.dump(new) != ast.dump(node):
                yield Edit(
                    1,
                    ((slot, new),),
                    lambda new=new: f"`[{ast.unparse(node)}]` is `[{ast.unparse(new)}]`{within(slot)}",
                )
    if isinstance(node, ast.Tuple) and isinstance(slot.parent, ast.Return | ast.IfExp):
        for entry in node.elts:
            yield Edit(0, ((slot, entry),), lambda entry=entry: f"{quoted(entry)} alone is returned")
    if isinstance(node, ast.Tuple | ast.List) and isinstance(getattr(node, "ctx", None), ast.Load):
        for i, j in itertools.combinations(range(len(node.elts)), 2):
            new = type(node)(swapped(node.elts, i, j), ast.Load())
            yield Edit(
                1,
                ((slot, new),),
                lambda i=i, j=j: f"{pair(node.elts[i], node.elts[j])} are swapped in {quoted(node)}",
            )
        for i, entry in enumerate(node.elts if len(node.elts) > 1 else ()):
            rest = type(node)([*node.elts[:i], *node.elts[i + 1 :]], ast.Load())
            yield left_out(slot, rest, lambda entry=entry: quoted(entry), 1)


def one_more(slot: Slot) -> Iterator[Edit]:
    """Yield what somebody might do besides: one more or less, another sign, half, an absolute value."""
    node = slot.node
    if not isinstance(slot.node, ast.Name | ast.Call | ast.BinOp | ast.Subscript | ast.Attribute):
        return
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or slot.field == "func":
        return
    if (isinstance(node, ast.Name) and node.id in MODULES) or getattr(slot.parent, "attr", "") == "shape":
        return
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(slot.parent, ast.Return | ast.Assign):
        return
    for form in FORMS:
        yield instead(
            slot, lambda form=form: ast.parse(form.format(f"({ast.unparse(node)})"), mode="eval").body, 4
        )


FORMS = (
    "{} + 1", "{} - 1", "-{}", "2 * {}", "{} / 2", "1 - {}", "1 / {}", "{} ** 2", "{} ** 0.5", "abs({})", "{}.exp()",
    "{}.log()", "{}.softmax(-1)", "{}.relu()", "{}.flip(-1)", "{}.flip(0)", "{}.transpose(-2, -1)", "{}.T", "{}[::-1]",
    "{}.round()", "int({})", "{}.mean(-1, keepdim=True)", "{}.mean(0, keepdim=True)", "{}.sum(-1, keepdim=True)",
    "{}[:1]", "{}[:, :1]", "{}.argsort(-1)", "~{}", "{}.roll(1, 1)",
)  # fmt: skip
SLIPS = [
    (ast.Constant | ast.UnaryOp, other_numbers),
    (ast.Constant, other_constants),
    (ast.Call, fewer_calls),
    (ast.Call, other_functions),
    (ast.Call, other_arguments),
    (ast.Call, steps_swapped),
    (ast.BinOp, other_sums),
    (ast.Compare | ast.BoolOp | ast.IfExp | ast.UnaryOp, other_tests),
    (ast.Subscript | ast.Slice | ast.Tuple | ast.List, other_parts),
    (ast.stmt, other_statements),
    (ast.If, other_conditions),
    (ast.For | ast.comprehension, other_loops),
    (ast.expr, one_more),
]
