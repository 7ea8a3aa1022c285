"""Claims: what must be true for a sentence about a result, as an expression beside it.

`outputs` evaluates the claims of a solution when it runs it: `claim_kernel` does so in the kernel.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

OPTION, ALWAYS = "claim", "always"
EVIDENCE = f"__import__('runpy').run_path({str(Path(__file__).with_name('claim_kernel.py'))!r})"
"""What gives a kernel the functions of that file, and leaves nothing behind in the names of the notebook."""
SEED_STEP = 1000
"""How far apart the seeds of two runs lie: no lesson uses so many."""
SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z0-9`*$(\"])")


def claims_of(metadata: dict) -> list[str]:
    """Return the expressions that a cell claims.

    Raises:
        ValueError: if they are no text or list of texts.
        SyntaxError: if one is no expression.
    """
    claims = metadata.get(OPTION, [])
    claims = [claims] if isinstance(claims, str) else claims
    if not (isinstance(claims, list) and all(isinstance(claim, str) for claim in claims)):
        raise ValueError(f'a claim is an expression, {OPTION}="a > b", or a list of some')
    for claim in claims:
        ast.parse(claim.strip(), mode="eval")
    return claims


def of_training(book: NotebookNode) -> list[str]:
    """Return the claims of a solution that only its execution proves: others are tried on every push."""
    cells = [cell for cell in book.cells if not cell.metadata.get(ALWAYS)]
    return [claim for cell in cells for claim in claims_of(cell.metadata)]


def questions(cell: NotebookNode, does: str = "show") -> Iterator[str]:
    """Yield the code by which a kernel examines each claim of a cell: it shows what is wrong, or stops there."""
    sentence = " ".join(re.sub(r"<[^>]+>", " ", cell.source.partition("\n## ")[0]).split())
    for claim in claims_of(cell.metadata):
        yield f"{EVIDENCE}[{does!r}]({claim!r}, {sentence!r}, globals())"


# -- other seeds


def shift_seeds(source: str, offset: int) -> str:
    """Add a number to every literal seed of some code.

    Such are `manual_seed(0)`, `seed=0` in a call or as a default, `{"seed": 0}`, and the numbers that a loop over
    `seed`, or an assignment to `seeds`, takes from `range(3)` or `(0, 1, 2)`.
    """
    tree = ast.parse(source)
    for node in list(ast.walk(tree)):
        for number in literals(node):
            if isinstance(number, ast.Constant) and type(number.value) is int:
                number.value += offset
        found = series(node)
        if isinstance(found, ast.Call) and ast.unparse(found.func) == "range":
            first, last = found.args[:2] if len(found.args) > 1 else (ast.Constant(0), found.args[0])
            found.args[:2] = [ast.BinOp(end, ast.Add(), ast.Constant(offset)) for end in (first, last)]
    return ast.unparse(ast.fix_missing_locations(tree))


def literals(node: ast.AST) -> list[ast.expr | None]:
    """Return what a node gives for a seed."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "manual_seed":
        return node.args[:1]
    if isinstance(node, ast.keyword):
        return [node.value] if node.arg == "seed" else []
    if isinstance(node, ast.arguments):
        places = [*node.posonlyargs, *node.args]
        pairs = [*zip(reversed(places), reversed(node.defaults)), *zip(node.kwonlyargs, node.kw_defaults)]  # noqa: B905
        return [default for place, default in pairs if place.arg == "seed"]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return [value for key, value in pairs if getattr(key, "value", None) == "seed"]
    return getattr(series(node), "elts", [])


def series(node: ast.AST) -> ast.expr | None:
    """Return what a loop over `seed` runs over, or what `seeds` is set to."""
    if isinstance(node, ast.For | ast.comprehension) and ast.unparse(node.target) == "seed":
        return node.iter
    if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["seeds"]:
        return node.value
    return None


def with_seed(book: NotebookNode, seed: int) -> None:
    """Shift the literal seeds of a solution, and those that its configurations have by default; 0 changes nothing."""
    if not seed:
        return
    offset = SEED_STEP * seed
    for cell in book.cells:
        if cell.cell_type == "code" and "exercise" not in cell.metadata:
            cell.source = shift_seeds(cell.source, offset)
    first = next(cell for cell in book.cells if cell.cell_type == "code")
    first.source = f"{EVIDENCE}['shift_default_seed']({offset})\n{first.source}"


# -- the list
