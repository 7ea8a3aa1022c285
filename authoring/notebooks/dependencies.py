"""Which definitions of the package some code reaches: names followed through imports, in files that are not imported.

A definition is a function, a class or an assignment at the top level of a module. What it says is told without where it
lies: no module's name, no import, no comment and no docstring is part of it, so that a definition can move to another
file. `outputs` hashes what the cells of a solution reach.
"""

import ast
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from authoring.notebooks.stubs import DEFINITIONS, bound_names, parse
from vit_classroom.names import free_names

PACKAGES = ("vit_course", "vit_classroom")
"""What lessons import: the definitions that their outputs come from."""
WHOLE = "*"
EFFECTS = ""


@dataclass(frozen=True, order=True)
class Place:
    """A definition of a module; `WHOLE` stands for all of them, `EFFECTS` for what an import of the module does."""

    module: str
    name: str


@dataclass(frozen=True)
class Scope:
    """What stands at the top level of a module.

    Attributes:
        bound: the statements that bind a name, by the name.
        imported: module and name (or "") that a name is imported from.
        effects: statements that bind nothing; those that only `python -m` runs are left out.
    """

    bound: dict[str, list[ast.stmt]]
    imported: dict[str, tuple[str, str]]
    effects: list[ast.stmt]


@dataclass(frozen=True)
class Reached:
    """What some code says, as nested lists in JSON, and the places that it names."""

    says: str
    places: frozenset[Place]


def reach(root: Path, cells: list[ast.Module], silent: Callable[[Place], bool]) -> dict[Place, Reached]:
    """Follow the names of cells, and of all that they lead to.

    Args:
        root: the folder that holds the packages.
        cells: the syntax trees of a notebook, in order.
        silent: tells which places are left out, with what they lead to.

    Returns:
        What every place says that the cells reach; the cells themselves have no module and their numbers as names.
    """
    package = read_package(root)
    imported = {name: target for tree in cells for name, target in imports(tree).items()}
    scope = Scope({}, imported, [])
    found = {Place("", str(number)): package.read("", [tree], scope) for number, tree in enumerate(cells)}
    pending = {place for reached in found.values() for place in reached.places}
    while pending:
        place = pending.pop()
        if place not in found and not silent(place):
            found[place] = package.say(place)
            pending |= {Place(place.module, EFFECTS), *found[place].places}
    return found


def read_package(root: Path) -> "Package":
    """Read the text of every module of the packages; the same texts are looked at once."""
    paths = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))
    names = [".".join(path.relative_to(root).with_suffix("").parts) for path in paths]
    return package_of(tuple(zip(names, (path.read_text(encoding="utf-8") for path in paths), strict=True)))


@lru_cache(maxsize=2)
def package_of(texts: tuple[tuple[str, str], ...]) -> "Package":
    """Return the package that these modules make, by name and text."""
    return Package(dict(texts))


class Package:
    """The modules of the course, to follow names through; what a definition says is worked out once."""

    def __init__(self, texts: dict[str, str]):
        self.modules = {name.removesuffix(".__init__"): text for name, text in texts.items()}
        self.said: dict[Place, Reached] = {}

    def scope(self, module: str) -> Scope:
        """Return what stands at the top level of a module."""
        return read_scope(self.modules[module])

    def say(self, place: Place) -> Reached:
        """Say what a place holds, and what it names."""
        if place not in self.said:
            scope = self.scope(place.module)
            if place.name == WHOLE:
                others = {Place(place.module, name) for name in scope.bound if name != "__all__"}
                others |= {other for target in scope.imported.values() if (other := self.follow(*target))}
                self.said[place] = Reached("[]", frozenset(others))
            else:
                self.said[place] = self.read(place.module, scope.bound.get(place.name, scope.effects), scope)
        return self.said[place]

    def read(self, module: str, statements: list[ast.stmt | ast.Module], scope: Scope) -> Reached:
        """Say what statements of a module say, each name replaced by what it leads to."""
        places: set[Place] = set()
        inner = {name: target for node in statements for name, target in imports(node).items()}
        visible = {name for node in statements for name in names_from_outside(node)} | inner.keys()
        targets = {**scope.imported, **inner}

        def spelled(node: ast.expr) -> str | None:
            """Spell a name, or attributes of one, by what it leads to; None where it leads nowhere."""
            first, *rest = dotted(node)
            if first not in visible or (first not in targets and first not in scope.bound):
                return None
            if first in targets and targets[first][0].partition(".")[0] not in PACKAGES:
                return ".".join([*filter(None, targets[first]), *rest])
            place = self.follow(*targets[first]) if first in targets else Place(module, first)
            while rest and place and place.name == WHOLE and (found := self.find(place.module, rest[0])):
                place, rest = found, rest[1:]
            if place is None:
                return None
            places.add(place)
            return ".".join(["a module" if place.name == WHOLE else place.name, *rest])

        said = json.dumps([fingerprint(node, spelled) for node in statements])
        return Reached(said, frozenset(places))

    def follow(self, module: str, name: str) -> Place | None:
        """Return what an import leads to in the package: a definition, a module, or nothing."""
        if module not in self.modules:
            return None
        return (self.find(module, name) if name else None) or Place(module, WHOLE)

    def find(self, module: str, name: str) -> Place | None:
        """Return what an attribute of a module is: a definition here or where it is imported from, or a module."""
        scope = self.scope(module)
        if name in scope.bound:
            return Place(module, name)
        if scope.imported.get(name, (module, name)) != (module, name):  # a package may import its own modules
            return self.follow(*scope.imported[name])
        if f"{module}.{name}" in self.modules:
            return Place(f"{module}.{name}", WHOLE)
        return self.find_lazily(module, name) if "__getattr__" in scope.bound else None

    def find_lazily(self, module: str, name: str) -> Place | None:
        """Return what a module with `__getattr__` imports when asked for a name: there, or from one it names."""
        bound = self.scope(module).bound
        inner = imports(bound["__getattr__"][0])
        if name in inner:
            return self.follow(*inner[name])
        nodes = [item for body in bound.values() for node in body for item in ast.walk(node)]
        texts = {
            item.value for item in nodes if isinstance(item, ast.Constant) and isinstance(item.value, str)
        }
        homes = [home for text in sorted(texts - {module}) for home in (text, f"{module}.{text}")]
        return next(filter(None, (self.find(home, name) for home in homes if home in self.modules)), None)


def fingerprint(node: object, spelled: Callable[[ast.expr], str | None] = lambda node: None) -> object:
    """Return a syntax tree as nested lists, the same on every Python.

    It holds no line numbers, comments, docstrings and imports, and a name or attribute as `spelled` spells it.
    """
    if isinstance(node, list):
        return [
            fingerprint(item, spelled) for item in node if not isinstance(item, ast.Import | ast.ImportFrom)
        ]
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Name | ast.Attribute) and dotted(node) and (text := spelled(node)):
        return ["Name", text]
    fields = dict(ast.iter_fields(node))
    if isinstance(node, DEFINITIONS) and ast.get_docstring(node) is not None:
        fields["body"] = node.body[1:]
    if isinstance(node, ast.JoinedStr):  # Python 3.12 splits f-strings into more parts, some of them empty
        fields["values"] = [part for part in node.values if getattr(part, "value", None) != ""]
    kept = [(key, value) for key, value in fields.items() if value not in (None, []) and key != "kind"]
    return [type(node).__name__, *([key, fingerprint(value, spelled)] for key, value in kept)]


def dotted(node: ast.expr) -> list[str]:
    """Return the parts of `a.b.c`; none of anything else."""
    if isinstance(node, ast.Name):
        return [node.id]
    before = dotted(node.value) if isinstance(node, ast.Attribute) else []
    return [*before, node.attr] if before else []


@cache
def names_from_outside(node: ast.AST) -> set[str]:
    """Return the names that a statement, or a notebook's cell, takes from around it."""
    return free_names(ast.unparse(node))


@cache
def read_scope(text: str) -> Scope:
    """Read the top level of a module."""
    scope = Scope({}, {}, [])
    for node in parse(text).body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or "__main__" in ast.unparse(getattr(node, "test", ast.Pass())):
            continue
        names = bound_names(node)
        for name in names:
            scope.bound.setdefault(name, []).append(node)
        found = {} if isinstance(node, DEFINITIONS) else imports(node)
        scope.imported.update(found)
        if not names and not found:
            scope.effects.append(node)
    return scope


def imports(tree: ast.AST) -> dict[str, tuple[str, str]]:
    """Return what the import statements anywhere in a tree bind: module and name (or "") by the name here."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = alias.name if alias.asname else alias.name.partition(".")[0]
                found[alias.asname or path] = (path, "")
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return found
