"""Exercises are excerpts of the package: its finished source, or a stub of it, and the imports that it needs.

All of it is read from the text of the files, never by importing them, so comments and layout survive. A statement whose
first line ends in `# given` stands in the stub too: the lines that refuse what does not fit teach nothing.
`build` writes the excerpts into notebooks.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from vit_classroom.names import free_names

GIVEN = re.compile(r"  # given$", re.MULTILINE)
"""Marks a statement that students are given; the mark itself is shown to nobody."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


@dataclass(frozen=True)
class Reference:
    """A function, a class, or some methods of a class, that an exercise asks for.

    An exercise that is a function may have a `starter`: another function whose body students get in place of a stub.
    """

    module: str
    name: str
    methods: tuple[str, ...] = ()
    starter: "Reference | None" = None

    def __str__(self) -> str:
        """Return the name that students read: `patchify` or `Block.forward`."""
        return ", ".join(f"{self.name}.{method}" for method in self.methods) or self.name


def parse_references(text: str) -> list[Reference]:
    """Read "module:function", "module:Class" or "module:Class.method", or several with commas between.

    Raises:
        LookupError: if the text has another form.
    """
    methods: dict[tuple[str, str], list[str]] = {}
    for part in filter(str.strip, text.split(",")):
        match = re.fullmatch(r"\s*([\w.]+):(\w+)(?:\.(\w+))?\s*", part)
        if not match:
            raise LookupError(f'{part.strip()!r} is no reference; write exercise="module:name"')
        methods.setdefault((match[1], match[2]), []).extend(filter(None, [match[3]]))
    return [Reference(module, name, tuple(names)) for (module, name), names in methods.items()]


@dataclass(frozen=True)
class Excerpt:
    """What a reference points to: finished source, what students get in its place, and names from around each."""

    finished: str
    stub: str
    names: frozenset[str]
    stub_names: frozenset[str]


def find_excerpt(root: Path, reference: Reference) -> Excerpt:
    """Cut what a reference points to out of its module.

    Raises:
        LookupError: if there is no such module, definition or method, or no such starter.
    """
    lines = module_text(root, reference.module).splitlines()
    node = find_definition(module_tree(root, reference.module).body, reference.name, reference.module)
    functions = [find_definition(node.body, name, f"class {node.name}") for name in reference.methods]
    if not functions:
        functions = [item for item in getattr(node, "body", []) if isinstance(item, FUNCTIONS)]
    if isinstance(node, FUNCTIONS):
        functions = [node]
    span = slice(first_line(node) - 1, node.end_lineno)
    finished = GIVEN.sub("", "\n".join(lines[span]))
    for function in functions:
        leave_stub(lines, function)
    stub = "\n".join(line for line in lines[span] if line is not None)
    names = frozenset(free_names(finished) - {node.name})
    if reference.starter is None:
        return Excerpt(finished, stub, names, names)
    if not isinstance(node, FUNCTIONS):
        raise LookupError(f"{reference} is no function: only a function can have a starter")
    body = find_body(root, reference.starter)
    stub = stub.removesuffix("raise NotImplementedError").rstrip(" ") + body
    return Excerpt(finished, stub, names, frozenset(free_names(stub) - {node.name}))


def find_body(root: Path, reference: Reference) -> str:
    """Cut the body of a function out of its module: the lines after its docstring."""
    node = find_definition(module_tree(root, reference.module).body, reference.name, reference.module)
    if not isinstance(node, FUNCTIONS):
        raise LookupError(f"{reference.module}:{reference.name} is no function, so it is no starter")
    start = node.body[0].end_lineno if ast.get_docstring(node) is not None else first_line(node.body[0]) - 1
    return "\n".join(module_text(root, reference.module).splitlines()[start : node.end_lineno])


def leave_stub(lines: list[str | None], function: ast.FunctionDef) -> None:
    """Replace what follows the signature and the docstring of a function by what is given and one `raise`.

    Lines are emptied (None), not removed, so that the line numbers of other functions stay true.
    """
    if function.body[0].lineno == function.lineno:
        raise LookupError(f"{function.name} is written on one line, so no stub can be made of it")
    last = function.body[0].end_lineno
    if ast.get_docstring(function) is None:
        last = first_line(function.body[0]) - 1
        while not lines[last - 1].partition("#")[0].strip():
            last -= 1
    kept = [node for node in function.body if GIVEN.search(lines[node.lineno - 1])]
    given = [GIVEN.sub("", line) for node in kept for line in lines[node.lineno - 1 : node.end_lineno]]
    lines[last : function.end_lineno] = [None] * (function.end_lineno - last)
    indent = " " * function.body[0].col_offset
    lines[last - 1] = "\n".join([lines[last - 1], *given, f"{indent}raise NotImplementedError"])


def import_lines(root: Path, module: str, names: set[str]) -> list[str]:
    """Return lines that bring names of a module into a notebook: first what it imports, then what it defines."""
    lines, own = [], set()
    for node in module_tree(root, module).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            wanted = [alias for alias in node.names if (alias.asname or alias.name.split(".")[0]) in names]
            if wanted and isinstance(node, ast.Import):
                lines.append(ast.unparse(ast.Import(wanted)))
            elif wanted:
                lines.append(ast.unparse(ast.ImportFrom(node.module, wanted, 0)))
        elif isinstance(node, (*DEFINITIONS, ast.Assign, ast.AnnAssign)):
            own |= bound_names(node)
    if own & names:
        lines.append(f"from {module} import {', '.join(sorted(own & names))}")
    return lines


def find_definition(body: list[ast.stmt], name: str, where: str) -> ast.FunctionDef | ast.ClassDef:
    """Return the last definition of a name among statements."""
    for node in reversed(body):
        if isinstance(node, DEFINITIONS) and node.name == name:
            return node
    raise LookupError(f"{where} defines no {name}")


def bound_names(node: ast.stmt) -> set[str]:
    """Return the names that a statement at the top level binds, imports left out."""
    if isinstance(node, DEFINITIONS):
        return {node.name}
    stored = [item for item in ast.walk(node) if isinstance(getattr(item, "ctx", None), ast.Store)]
    names = {item.id for item in stored if isinstance(item, ast.Name)}
    return names | {item.name for item in ast.walk(node) if isinstance(item, DEFINITIONS)}


def first_line(node: ast.stmt) -> int:
    """Return the line that a statement starts on, decorators included."""
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])


def module_text(root: Path, module: str) -> str:
    """Return the text of a module below the root."""
    base = root.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise LookupError(f"there is no module {module}")


def module_tree(root: Path, module: str) -> ast.Module:
    """Return the syntax tree of a module below the root."""
    return parse(module_text(root, module))


@cache
def parse(text: str) -> ast.Module:
    """Parse a text once, however often it is asked for."""
    return ast.parse(text)
