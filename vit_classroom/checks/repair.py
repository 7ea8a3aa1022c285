"""What a wrong answer that no other look explains would need: one change of its own text with which it is right.

Changes are tried one after the other, the likeliest slips first, until the check accepts one. So what is said has been
tried on everything that the check demands. It names the place, and leaves it to the student what belongs there.
"""

import ast
import contextlib
import copy
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from time import thread_time
from typing import Any

from vit_classroom.checks.registry import EXERCISES

SECONDS = 1.5
"""So long the processor may look for a change."""
SHORT = 60
ALONG_AXES = (
    "chunk",
    "softmax",
    "mean",
    "sum",
    "argmax",
    "argmin",
    "amax",
    "amin",
    "var",
    "std",
    "cumsum",
    "flip",
)
PLUS = "in `{}` the plus stands inside the brackets, and it should stand behind them"
REPAIRING: ContextVar[bool] = ContextVar("repairing", default=False)
"""Whether a check runs to try a change: then it need not find out why one is wrong."""
KEPT = ("torch.", "functools.wraps", "staticmethod", "classmethod", "property")
"""How decorators begin that stay."""
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.FloorDiv)
NUMBERS = (-2, -1, 0, 1, 2, 3)
Change = tuple[str, Callable[[Any], None]]
"""Words, and what makes the change in a copy of the node."""


def repair(answer: Any, verify: Callable[[Any], None], quick: bool = False) -> str:
    """Say which one change of its text makes an answer right; "" if none is found in time. Never raises.

    Args:
        answer: a function or class of a student.
        verify: the check; raises an error for an answer that is not right.
        quick: try alone whether a `return` stands in a loop, which looks like many other mistakes.
    """
    token, end = REPAIRING.set(True), thread_time() + SECONDS
    try:
        for function, tree in functions_of(answer):
            helpers = [
                f"{name}()" for name in function.__globals__ if name in EXERCISES and name != tree.name
            ]
            for words, changed in itertools.chain(
                returns_in_loops(tree), () if quick else changes(tree, helpers)
            ):
                if thread_time() > end:
                    return ""
                with contextlib.suppress(Exception):
                    verify(rebuilt(answer, function, changed))
                    return words
    except Exception:  # a text that is not there, or a part of Python that is not known here
        return ""
    finally:
        REPAIRING.reset(token)
    return ""


def functions_of(answer: Any) -> Iterator[tuple[Any, ast.FunctionDef]]:
    """Yield the functions that a student wrote, of a class its methods, each with its text as a tree."""
    own = list(vars(answer).values()) if inspect.isclass(answer) else [inspect.unwrap(answer)]
    for function in reversed([one for one in own if inspect.isfunction(one)]):  # `forward` before `__init__`
        lines, first = inspect.getsourcelines(function)
        node = ast.parse(textwrap.dedent("".join(lines))).body[0]
        if isinstance(node, ast.FunctionDef):
            # To define it anew must do nothing else: `@check` would check, and any other may remember what it gets.
            node.decorator_list = [one for one in node.decorator_list if ast.unparse(one).startswith(KEPT)]
            yield function, ast.increment_lineno(node, first - 1)


def rebuilt(answer: Any, function: Any, tree: ast.FunctionDef) -> Any:
    """Return an answer with a changed function in it."""
    code, names = function.__code__, dict(function.__globals__)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__":
            names[name] = cell.cell_contents
    module: Any = ast.Module([tree], [])
    if inspect.isclass(answer):
        head: Any = ast.parse(f"class {answer.__name__}:\n    pass").body[0]
        module, head.body = ast.Module([head], []), [tree]
    exec(compile(ast.fix_missing_locations(module), code.co_filename, "exec", dont_inherit=True), names)
    if not inspect.isclass(answer):
        return names[tree.name]
    method = vars(names[answer.__name__])[tree.name]
    if "__class__" in method.__code__.co_freevars:  # `super()` means what it meant in the answer
        method.__closure__[method.__code__.co_freevars.index("__class__")].cell_contents = answer
    return type(answer.__name__, (answer,), {tree.name: method, "__module__": answer.__module__})


def changes(tree: ast.FunctionDef, helpers: Sequence[str]) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield words and a changed copy of a function, the likeliest slips first; `helpers` it may have to call."""
    body = [n for n, node in enumerate(ast.walk(tree)) if in_body(tree, node)]
    nodes = list(ast.walk(tree))
    around = {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}
    names = [*local_names(tree), *helpers]
    for kind in (partial(numbers_for_arguments, unused=unused_arguments(tree)), *KINDS):
        found = [(n, *one) for n in body for one in kind(nodes[n], names)]
        pairs = [pair for pair in itertools.combinations(found, 2) if pair[0][1] == pair[1][1] == PLUS]
        for chosen in (*([one] for one in found), *pairs):
            made = copy.deepcopy(tree)
            copied = list(ast.walk(made))
            for n, _, change in chosen:
                change(copied[n])
            (n, words, _), again = chosen[0], ", and in another line" * (len(chosen) - 1)
            yield words.replace("{}", place(nodes[n], around)) + again, made


def in_body(tree: ast.FunctionDef, node: ast.AST) -> bool:
    """Tell whether a node is code of the function, and no argument or text of its docstring."""
    return isinstance(node, ast.expr) and node.lineno >= tree.body[0].lineno


def place(node: ast.AST, around: dict[int, ast.AST]) -> str:
    """Return the largest piece of code around a node that is short."""
    text = ast.unparse(node)
    while (node := around.get(id(node))) is not None and isinstance(node, ast.expr | ast.keyword | ast.Slice):
        more = ast.unparse(node)
        if len(more) > SHORT or "\n" in more:
            break
        text = more
    return text if len(text) <= SHORT else f"{text[:SHORT]} ..."


def unused_arguments(tree: ast.FunctionDef) -> list[str]:
    """Return the arguments of a function that its body never reads."""
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return [one.arg for one in (*tree.args.args, *tree.args.kwonlyargs) if one.arg not in {*read, "self"}]


def local_names(tree: ast.FunctionDef) -> list[str]:
    """Return the arguments of a function and the names that it binds."""
    found = [one.arg for one in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)]
    found += [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return [name for name in dict.fromkeys(found) if name != "self"]


def returns_in_loops(tree: ast.FunctionDef) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield a function whose `return` stands behind the loop that it stood in."""
    for n, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.For | ast.While) and isinstance(node.body[-1], ast.Return):
            made = copy.deepcopy(tree)
            loop = list(ast.walk(made))[n]
            last = loop.body.pop() if len(loop.body) > 1 else None  # type: ignore[attr-defined]
            holder = next((one for one in ast.walk(made) if loop in getattr(one, "body", ())), None)
            if last and holder:
                holder.body.insert(holder.body.index(loop) + 1, last)
                yield (
                    "`return` stands inside the loop, so its first round is the last: move it to the left",
                    made,
                )


# -- slips, node by node


def numbers_for_arguments(node: ast.AST, names: list[str], unused: list[str]) -> Iterator[Change]:
    """Yield an argument that is never read, in the place of a number."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        for name in unused:
            words = f"the argument `{name}` is not used: in `{{}}` it belongs in the place of {node.value}"
            yield words, lambda n, name=name: morph(n, ast.Name(name, ast.Load()))


def usual_slips(node: ast.AST, names: list[str]) -> Iterator[Change]:
    """Yield what is often written in place of what is meant."""
    if isinstance(node, ast.Attribute) and node.attr == "T":
        yield (
            "`.T` turns round *all* axes, also those of batch and heads: in `{}` the last two alone should swap",
            setting("attr", "mT"),
        )
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "split":
        yield from split_for_chunk(node)
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "transpose" and len(node.args) == 2:
        words = "in `{}` the last two axes should swap: counted from the end they are the same for every number of axes"
        last = [ast.UnaryOp(ast.USub(), ast.Constant(2)), ast.UnaryOp(ast.USub(), ast.Constant(1))]
        yield words, setting("args", last)
    if isinstance(node, ast.Attribute) and node.attr in ("max", "min"):
        words = f"`{node.attr}` along an axis returns a pair, (values, indices): in `{{}}` the indices alone are wanted"
        yield words, setting("attr", f"arg{node.attr}")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
        yield from brackets(node)
    if isinstance(node, ast.Slice):
        yield "`{}` takes the wrong part: it should begin where it ends, or end where it begins", turn_slice
    if isinstance(node, ast.Call) and plus_in(node):
        for side, other in (("left", "right"), ("right", "left")):
            yield PLUS, lambda n, side=side, other=other: plus_outside(n, side, other)
    if isinstance(node, ast.keyword | ast.Constant) and isinstance(getattr(node, "value", None), bool):
        yield "in `{}` it should be the other of True and False", lambda n: setattr(n, "value", not n.value)
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ALONG_AXES:
        if not node.keywords and len(node.args) < 2:
            for axis in (-1, 1):
                yield (
                    "`{}` needs an axis: without one it takes the first, or all of them",
                    partial(add_axis, axis=axis),
                )


def split_for_chunk(node: ast.Call) -> Iterator[Change]:
    """Yield a call of `chunk` in the place of `split`."""
    words = "`split(n)` makes parts of *length* n, and `chunk(n)` makes n parts: `{}` should give a few whole parts"

    def change(call: ast.Call, last: bool) -> None:
        call.func.attr = "chunk"  # type: ignore[attr-defined]
        if last:
            call.args, call.keywords = (
                call.args[:1],
                [ast.keyword("dim", ast.UnaryOp(ast.USub(), ast.Constant(1)))],
            )

    yield words, lambda n: change(n, False)
    yield f"{words}, and along the last axis", lambda n: change(n, True)


def brackets(node: ast.BinOp) -> Iterator[Change]:
    """Yield `(a - b) / c` for `a - b / c`, and the like."""
    words = "brackets are missing in `{}`: `*`, `/` and `@` come before `+` and `-`"
    stronger = (ast.Mult, ast.Div, ast.MatMult, ast.FloorDiv)
    if isinstance(node.right, ast.BinOp) and isinstance(node.right.op, stronger):

        def right(n: ast.BinOp) -> None:
            inner = n.right
            n.left, n.op, n.right = ast.BinOp(n.left, n.op, inner.left), inner.op, inner.right  # type: ignore[attr-defined]

        yield words, right
    if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, stronger):

        def left(n: ast.BinOp) -> None:
            inner = n.left
            n.left, n.op, n.right = inner.left, inner.op, ast.BinOp(inner.right, n.op, n.right)  # type: ignore[attr-defined]

        yield words, left
    if all(isinstance(side, ast.BinOp) and isinstance(side.op, stronger) for side in (node.left, node.right)):

        def both(n: ast.BinOp) -> None:
            first, last = n.left, n.right
            middle = ast.BinOp(first.right, n.op, last.left)  # type: ignore[attr-defined]
            whole = ast.BinOp(middle, last.op, last.right)  # type: ignore[attr-defined]
            n.left, n.op, n.right = first.left, first.op, whole  # type: ignore[attr-defined]

        yield words, both


def other_places(node: ast.AST, names: list[str]) -> Iterator[Change]:
    """Yield other variables, and other orders of arguments, axes and letters."""
    if isinstance(node, ast.Call):
        axes = getattr(node.func, "attr", "") in ("permute", "transpose")
        words = (
            "`{}` brings the axes into the wrong order"
            if axes
            else "the arguments of `{}` stand in the wrong order"
        )
        count = len(node.args)
        for order in itertools.permutations(range(count)) if 1 < count < (6 if axes else 4) else swaps(count):
            yield words, lambda n, order=order: setattr(n, "args", [n.args[i] for i in order])
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and "->" in node.value:
        left, _, right = node.value.partition("->")
        for one in orders(right):
            yield "on the right of `{}` letters stand in the wrong order", setting("value", f"{left}->{one}")
        for one in orders(left):
            yield "on the left of `{}` letters stand in the wrong order", setting("value", f"{one}->{right}")
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        for name in names:
            if name != node.id and not name.endswith("()"):
                words = f"in `{{}}` another variable belongs in the place of `{node.id}`"
                yield words, setting("id", name)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        near = {"norm1": "norm2", "norm2": "norm1", "q_scale": "k_scale", "k_scale": "q_scale"}
        if other := near.get(node.attr):
            yield f"in `{{}}` another part belongs in the place of `self.{node.attr}`", setting("attr", other)


def other_comparisons(node: ast.AST, names: list[str]) -> Iterator[Change]:
    """Yield other comparisons."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for new in (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq):
            if not isinstance(node.ops[0], new):
                yield "the comparison `{}` should be another one", setting("ops", [new()])


def exchanged(node: ast.AST, names: list[str]) -> Iterator[Change]:
    """Yield two variables of an expression that stand each in the other's place."""
    if isinstance(node, ast.BinOp):
        read = sorted({one.id for one in ast.walk(node) if isinstance(one, ast.Name) and one.id in names})
        for a, b in itertools.combinations(read, 2):
            yield f"in `{{}}` `{a}` and `{b}` are exchanged", partial(exchange, names={a: b, b: a})


def exchange(node: ast.AST, names: dict[str, str]) -> None:
    """Give variables other names, wherever an expression has them."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            one.id = names.get(one.id, one.id)


def swaps(count: int) -> Iterator[list[int]]:
    """Yield the orders in which two of some things are swapped."""
    for a, b in itertools.combinations(range(count), 2):
        order = list(range(count))
        swap(order, a, b)
        yield order


def orders(pattern: str) -> Iterator[str]:
    """Yield one side of a pattern of einops with two of its letters, or two of its brackets, swapped."""
    pieces = pattern.replace("(", " ( ").replace(")", " ) ").split()
    letters = [n for n, piece in enumerate(pieces) if piece not in "()"]
    for a, b in itertools.combinations(letters, 2):
        swapped = list(pieces)
        swap(swapped, a, b)
        yield " " + " ".join(swapped)


def other_operators(node: ast.AST, names: list[str]) -> Iterator[Change]:
    """Yield other operators, and the matrix product of a product number by number."""
    if not isinstance(node, ast.BinOp):
        return
    if isinstance(node.op, ast.Mult):
        yield (
            "`{}` multiplies number by number: each query meets each key in the *matrix* product",
            lambda n: (
                setattr(n, "op", ast.MatMult()),
                setattr(n, "right", ast.Attribute(n.right, "mT", ast.Load())),
            ),
        )
    for new in OPERATORS:
        if not isinstance(node.op, new):
            yield (
                "in `{}` another operator belongs in the place of " + f"`{sign(node.op)}`",
                setting("op", new()),
            )


def other_numbers(node: ast.AST, names: list[str]) -> Iterator[Change]:
    """Yield other small numbers, as axes and indices are."""
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    inner = node.operand if negative else node
    if not isinstance(inner, ast.Constant) or type(inner.value) is not int:
        return
    old = -inner.value if negative else inner.value
    for new in NUMBERS if abs(old) < 5 else (old - 1, old + 1):
        if new != old:
            yield f"in `{{}}` another number belongs in the place of {old}", lambda n, new=new: become(n, new)


def not_called(node: ast.AST, names: list[str]) -> Iterator[Change]:
    """Yield a call of another exercise's function on a variable."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        for name in (one.removesuffix("()") for one in names if one.endswith("()")):
            yield (
                f"`{name}` is not called: `{node.id}` should go through it in `{{}}`",
                lambda n, name=name: morph(n, ast.Call(ast.Name(name, ast.Load()), [copy.copy(n)], [])),
            )
        for operator in (ast.Mult, ast.MatMult):
            yield (
                f"`{node.id}` should be multiplied by itself in `{{}}`",
                lambda n, operator=operator: morph(n, ast.BinOp(copy.copy(n), operator(), copy.copy(n))),
            )


def left_out(node: ast.AST, names: list[str]) -> Iterator[Change]:
    """Yield what is left of an expression without its last call, index or side."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        inner = f".{node.func.attr}(...)"
        if not isinstance(node.func.value, ast.Name) or node.func.value.id in names:
            yield f"`{inner}` is too much in `{{}}`", lambda n: morph(n, n.func.value)
    if isinstance(node, ast.Call) and node.args:
        yield f"the call of `{ast.unparse(node.func)}` is too much in `{{}}`", lambda n: morph(n, n.args[0])
    for k, keyword in enumerate(node.keywords if isinstance(node, ast.Call) else ()):
        words = f"`{ast.unparse(keyword)[:SHORT]}` is too much in `{{}}`"
        yield words, lambda n, k=k: setattr(n, "keywords", n.keywords[:k] + n.keywords[k + 1 :])
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield f"the index `[{ast.unparse(node.slice)}]` is too much in `{{}}`", lambda n: morph(n, n.value)
    if isinstance(node, ast.BinOp):
        for side, other in (("right", "left"), ("left", "right")):
            words = f"`{ast.unparse(getattr(node, side))[:SHORT]}` is too much in `{{}}`"
            yield words, lambda n, other=other: morph(n, getattr(n, other))


KINDS = (
    *(usual_slips, exchanged, other_places, left_out, other_operators, other_numbers),
    *(not_called, other_comparisons),
)
"""The likeliest first."""


# -- how a node is changed


def add_axis(node: ast.Call, axis: int) -> None:
    """Give a call an axis."""
    value: ast.expr = ast.Constant(abs(axis))
    node.keywords = [ast.keyword("dim", ast.UnaryOp(ast.USub(), value) if axis < 0 else value)]


def setting(field: str, value: Any) -> Callable[[Any], None]:
    """Return what gives a field of a node a value."""
    return lambda node: setattr(node, field, value)


def swap(items: list, a: int, b: int) -> None:
    """Swap two items of a list."""
    items[a], items[b] = items[b], items[a]


def turn_slice(node: ast.Slice) -> None:
    """Let a slice begin where it ends, without its sign, or end where it begins."""
    end = node.upper.operand if isinstance(node.upper, ast.UnaryOp) else node.upper
    node.lower, node.upper = end, node.lower


def plus_in(node: ast.AST) -> ast.Call | None:
    """Return the innermost call of `f(g(a + b))`, whose first argument is a sum; None if there is none."""
    while isinstance(node, ast.Call) and node.args:
        first = node.args[0]
        if isinstance(first, ast.BinOp) and isinstance(first.op, ast.Add):
            return node
        node = first
    return None


def plus_outside(node: ast.Call, side: str, other: str) -> None:
    """Make `f(g(a)) + b` of `f(g(a + b))`."""
    inner = plus_in(node)
    if inner:
        plus = inner.args[0]
        inner.args[0] = getattr(plus, side)
        morph(node, ast.BinOp(copy.copy(node), ast.Add(), getattr(plus, other)))


def become(node: Any, number: int) -> None:
    """Make a node a number."""
    new: ast.expr = ast.Constant(abs(number))
    morph(node, ast.UnaryOp(ast.USub(), new) if number < 0 else new)


def morph(node: Any, new: ast.AST) -> None:
    """Make a node another one, in its place."""
    fields = dict(vars(new))
    node.__class__ = type(new)
    node.__dict__.clear()
    node.__dict__.update(fields)


def sign(operator: ast.operator) -> str:
    """Return an operator as it is written."""
    return ast.unparse(ast.BinOp(ast.Name("a"), operator, ast.Name("b")))[2:-2]
