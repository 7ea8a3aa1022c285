"""Slips in a piece of code: the small edits of its syntax tree that somebody might make, by kind of node."""

import ast
import itertools
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

from vit_course.classroom.checks.explain_edits import (
    LONG,
    Edit,
    Slot,
    instead,
    left_out,
    number,
    quoted,
    slots,
    within,
)

AXIS_NAMES = ("dim", "axis", "dims", "dim0", "dim1", "start_dim", "end_dim")
REDUCTIONS = "mean sum var std amax amin max min softmax any all".split()
AXIS_METHODS = """mean sum amax amin prod std var softmax argmax argmin argsort sort flip roll cat stack select narrow
    transpose permute movedim unsqueeze squeeze flatten unflatten cumsum chunk split unbind any all repeat_interleave
    gather scatter size norm normalize log_softmax tensor_split index_select""".split()
FAMILIES = [
    group.split()
    for group in """mean sum amax amin median prod var std|max min mean sum|argmax argmin|any all|sort argsort|triu tril
        |softmax log_softmax sigmoid|sin cos|zeros ones|zeros_ ones_|zeros_like ones_like|floor ceil round trunc
        |exp log log2 log10|sqrt square abs|rand randn|gelu relu silu tanh sigmoid|GELU ReLU SiLU Tanh Sigmoid|stack cat
        |maximum minimum|repeat repeat_interleave|int round ceil|startswith endswith|bilinear bicubic nearest|ij xy
        |none mean sum|constant reflect replicate circular|weight bias|cross_entropy nll_loss""".split("|")
]
"""Names that are easily taken for each other."""
OPERATORS = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add, ast.Mult),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div, ast.Mod, ast.Mult),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult, ast.Div),
    ast.MatMult: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.Lt: (ast.LtE, ast.Gt, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt, ast.LtE),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPTIONS = {
    "GELU": {"approximate": "tanh"},
    "gelu": {"approximate": "tanh"},
    "var": {"unbiased": True},
    "std": {"unbiased": False},
    "LayerNorm": {"eps": 1e-5},
    "Linear": {"bias": False},
    "Conv2d": {"bias": False},
    "interpolate": {"align_corners": True, "antialias": False},
    "meshgrid": {"indexing": "xy"},
    "argsort": {"descending": True},
    "sort": {"descending": True},
    "topk": {"largest": False},
    "sorted": {"reverse": True},
    "cross_entropy": {"reduction": "sum", "label_smoothing": 0.1},
}
"""Options that are set, or forgotten, by mistake."""
MODULES = ("torch", "F", "nn", "math", "np", "einops")
COMMUTATIVE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr)


def edits(tree: ast.AST) -> list[Edit]:
    """Return the edits of a function or class, the likelier first."""
    kept = [slot for slot in slots(tree) if not isinstance(slot.node, ast.Raise)]
    found = (
        edit for slot in kept for kind, slips in SLIPS if isinstance(slot.node, kind) for edit in slips(slot)
    )
    found = [*found, *renamed(kept, tree)]
    return sorted([*found, *everywhere(found)], key=lambda edit: edit.rank)


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


def written(value: Any) -> ast.AST:
    """Write a constant."""
    return ast.parse(repr(value), mode="eval").body


def other_constants(slot: Slot) -> Iterator[Edit]:
    """Yield the other truth value, other known words, and other orders within a pattern of einops."""
    value = getattr(slot.node, "value", None)
    if isinstance(value, bool):
        yield instead(slot, ast.Constant(not value), 1)
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


def relatives(name: str) -> list[str]:
    """Return the names that are easily taken for this one."""
    return [other for family in FAMILIES if name in family for other in family if other != name]


def other_calls(slot: Slot) -> Iterator[Edit]:
    """Yield calls that are left out, of a relative, twice, with fewer arguments, or with two of them swapped."""
    call, func = slot.node, slot.node.func
    name = getattr(func, "attr", getattr(func, "id", ""))
    insides = [arg for arg in call.args if not isinstance(arg, ast.Starred)]
    method = isinstance(func, ast.Attribute) and not (
        isinstance(func.value, ast.Name) and func.value.id in (*MODULES, "self")
    )
    if method:
        shown = ast.Call(ast.Name("", ast.Load()), call.args, call.keywords)
        yield left_out(slot, func.value, lambda: f"`.{name}{quoted(shown)[1:]}")
        twice = ast.Call(ast.Attribute(call, name, ast.Load()), call.args, call.keywords)
    else:
        for inside in insides:
            yield left_out(slot, inside, lambda: f"the step {quoted(call, 30)}")
        twice = ast.Call(func, [call, *call.args[1:]], call.keywords) if insides else None
    if twice and name not in ("range", "len", "tuple", "list", "arange"):
        yield Edit(3, ((slot, twice),), lambda: f"the step {quoted(call)} is done twice")
    for other in relatives(name):
        field = {"attr": other} if isinstance(func, ast.Attribute) else {"id": other}
        new = type(func)(**{**dict(ast.iter_fields(func)), **field})
        yield Edit(
            1,
            ((Slot(call, "func", None, func, slot.around), new),),
            lambda other=other: (
                f"`{name}` is `{other}`"
                + (f" in {quoted(call)}" if len(ast.unparse(call)) <= LONG else within(slot))
            ),
        )
    if name in REDUCTIONS and method:
        new = ast.Call(func, [], [])
        yield Edit(
            1, ((slot, new),), lambda: f"{quoted(call)} is {quoted(new)}, over all numbers", "over all"
        )
        for axis in range(-3, 3):
            keywords = [k for k in call.keywords if k.arg not in (*AXIS_NAMES, "keepdim")]
            kept = [ast.keyword("dim", written(axis)), ast.keyword("keepdim", ast.Constant(True))]
            new = ast.Call(func, [], keywords + kept)
            yield Edit(
                3, ((slot, new),), lambda axis=axis: f"{quoted(call)} runs over axis {axis}, which it keeps"
            )
    for option, value in OPTIONS.get(name, {}).items():
        keywords = [k for k in call.keywords if k.arg != option] + [ast.keyword(option, written(value))]
        new = ast.Call(func, call.args, keywords)
        words = f"`{name}` has `{option}={value!r}`"
        yield Edit(1, ((slot, new),), lambda words=words: words)
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
    if name == "rearrange" and call.args:
        like = ast.Attribute(call, "shape", ast.Load())
        new = ast.Call(ast.Attribute(call.args[0], "reshape", ast.Load()), [like], [])
        words = "the axes are not moved, and `reshape` alone makes the shape"
        yield Edit(1, ((slot, new),), lambda: words + within(slot))


def swapped(entries: list, i: int, j: int) -> list:
    """Return a list with two entries swapped."""
    other = list(entries)
    other[i], other[j] = other[j], other[i]
    return other


def pair(one: ast.AST, other: ast.AST) -> str:
    """Name two pieces of code."""
    return f"{quoted(one, 30)} and {quoted(other, 30)}"


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
        yield Edit(1, ((slot, after.node), (after, node)), words)


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
            for other in sorted(names - {node.id, "self"}) if node.id in names else ():
                yield instead(slot, ast.Name(other, ast.Load()), 2)
            for value in constants(around, node.id):
                yield instead(slot, written(value), 2)
        elif is_part(node) and isinstance(node.ctx, ast.Load):
            for other in sorted(owned[node.value.id] - {node.attr}):
                yield instead(slot, ast.Attribute(node.value, other, ast.Load()), 1)


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
    (ast.Call, other_calls),
    (ast.Call, steps_swapped),
    (ast.BinOp, other_sums),
    (ast.Compare | ast.BoolOp | ast.IfExp | ast.UnaryOp, other_tests),
    (ast.Subscript | ast.Slice | ast.Tuple | ast.List, other_parts),
    (ast.stmt, other_statements),
    (ast.If, other_conditions),
    (ast.For | ast.comprehension, other_loops),
    (ast.expr, one_more),
]
