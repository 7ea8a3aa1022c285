"""What a kernel does for the builder beside the cells of a lesson: it examines claims, and begins with other seeds.

The kernel runs this file alone, by its path, so that it imports nothing of `authoring/` and leaves no name behind.
"""

import ast
import reprlib
import types

LONGEST = 160


def examine(expression: str, sentence: str, names: dict) -> str:
    """Return "" if an expression is true; else a message with the sentence, the parts that fail and their values."""
    parts = ast.parse(expression.strip(), mode="eval").body
    parts = parts.values if isinstance(parts, ast.BoolOp) and isinstance(parts.op, ast.And) else [parts]
    lines = []
    for part in parts:
        try:
            if value_of(part, names):
                continue
            lines.append(f"  false: {ast.unparse(part)}")
        except Exception as error:
            lines.append(f"  cannot be evaluated: {ast.unparse(part)}: {type(error).__name__}: {error}")
        lines += values(part, names)
    return "\n".join([f'"{sentence}"', f"  claims: {expression}", *lines]) if lines else ""


def show(expression: str, sentence: str, names: dict) -> None:
    """Print what is wrong with a claim: nothing, if it is true."""
    print(examine(expression, sentence, names), end="")


def demand(expression: str, sentence: str, names: dict) -> None:
    """Insist on a claim.

    Raises:
        AssertionError: if it is false, with what `examine` says.
    """
    if wrong := examine(expression, sentence, names):
        raise AssertionError(wrong)


def value_of(node: ast.expr, names: dict) -> object:
    """Evaluate an expression."""
    return eval(compile(ast.Expression(node), "claim", "eval"), names)


def values(part: ast.expr, names: dict) -> list[str]:
    """Return a line `source = value` for every name and sub-expression of an expression that has a value."""
    found, short = {}, reprlib.Repr()
    short.maxother = short.maxstring = LONGEST
    for node in ast.walk(part):
        inside_a_loop = used(node) & stored(part) - stored(node)
        silent = inside_a_loop or not used(node) or isinstance(node, ast.GeneratorExp) or node is part
        is_read = isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        if is_read and not silent:
            try:
                value = value_of(node, names)
            except Exception:  # what cannot be evaluated has been named before
                continue
            if not callable(value) and not isinstance(value, types.ModuleType):
                found[ast.unparse(node)] = short.repr(value)
    return [f"    {source} = {value}" for source, value in found.items()]


def used(node: ast.AST) -> set[str]:
    """Return the names in an expression."""
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


def stored(node: ast.AST) -> set[str]:
    """Return the names that the loops in an expression set."""
    return {
        item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
    }


def shift_default_seed(offset: int) -> None:
    """Let every `TrainConfig` that names no seed have this one; recipes are made of it when they are imported."""
    from vit_course.train import TrainConfig

    init = TrainConfig.__init__
    given = init.__code__.co_varnames[: init.__code__.co_argcount][-len(init.__defaults__) :]
    defaults = zip(given, init.__defaults__, strict=True)
    init.__defaults__ = tuple(value + offset if name == "seed" else value for name, value in defaults)
