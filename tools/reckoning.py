"""What a lesson asks of its reader: minutes of its sections and of its core, and lines of code that only plot."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from course import Lesson, LessonCell
from excerpts import parse

WORDS_A_MINUTE = 120
AT_HOME = ("Further reading",)
"""Sections that take no time in class."""
FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
PLOTTING = {"plots", "plt", "matplotlib", "fig", "figure", "ax", "axis", "axes"}
PICTURES = re.compile(r"plots\.(sample_photo|image_grid|to_picture)\b")
"""Functions of `plots` that give pictures to work on, and draw nothing."""
PLOTS = re.compile(r"\bplots\.\w+")
CHANGES = {"append", "extend", "insert", "update", "add"}


# -- minutes


@dataclass(frozen=True)
class Section:
    """One section of a lesson, and its cells."""

    title: str
    cells: tuple[LessonCell, ...]

    @property
    def number(self) -> int | None:
        """The number that the title begins with."""
        match = re.match(r"(\d+)\. ", self.title)
        return int(match[1]) if match else None

    @property
    def curious(self) -> bool:
        """Whether nothing later needs it."""
        return "curious" in self.cells[0].metadata

    @property
    def exercises(self) -> tuple[LessonCell, ...]:
        """The exercise cells of the section."""
        return tuple(cell for cell in self.cells if cell.references)

    @property
    def estimate(self) -> float:
        """Minutes to read and solve the section, before scaling."""
        if self.title in AT_HOME:
            return 0.0
        words = sum(len(read_text(cell).split()) for cell in self.cells if cell.kind == "markdown")
        return words / WORDS_A_MINUTE + sum(cell.metadata["minutes"] for cell in self.exercises)


def read_text(cell: LessonCell) -> str:
    """Return what everybody reads of a Markdown cell: nothing that is folded, no reasons of a quiz."""
    if cell.question:
        return " ".join([cell.question.text, *(option.text for option in cell.question.options)])
    return FOLDED.sub("", cell.source)


def sections(lesson: Lesson) -> list[Section]:
    """Cut a lesson at its headings of the second level, also where one cell holds several."""
    found: list[tuple[str, list[LessonCell]]] = []
    for cell in lesson.cells:
        prose = cell.kind == "markdown"
        for part in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE) if prose else [cell.source]:
            title = re.match(r"## (.+)", part) if prose else None
            if title or not found:
                found.append((title[1].strip() if title else "Before the first section", []))
            found[-1][1].append(replace(cell, source=part))
    return [Section(title, tuple(cells)) for title, cells in found if any(c.source.strip() for c in cells)]


def core_minutes(lesson: Lesson) -> int:
    """Return the minutes of all that is not for the curious."""
    return round(sum(section.estimate for section in sections(lesson) if not section.curious))


# -- lines that plot


@dataclass
class Statement:
    """One statement, or the head of one that holds others: its lines, and the names that it reads and sets."""

    lines: int
    reads: set[str]
    sets: set[str]
    plots: bool
    inside: tuple["Statement", ...] = ()


def plotting_share(lesson: Lesson) -> float:
    """Return the share of the visible code lines of a lesson that plot, or only make what a plot shows."""
    visible = [cell for cell in lesson.cells if cell.kind == "code" and "fold" not in cell.metadata]
    found = [item for cell in visible for node in parse(cell.source).body for item in statements(node)]
    changed = True
    while changed:
        changed = False
        for item in found:
            if not item.plots and serves_plots(item, found):
                item.plots = changed = True
    lines = sum(item.lines for item in found)
    return sum(item.lines for item in found if item.plots) / lines if lines else 0.0


def statements(node: ast.stmt) -> Iterator[Statement]:
    """Yield a statement and all that stand inside it, each with its own lines alone."""
    bodies = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    bodies += [handler.body for handler in getattr(node, "handlers", [])]
    inner = tuple(item for body in bodies for child in body for item in statements(child))
    own = [
        child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt | ast.ExceptHandler)
    ]
    head = [node] if not inner else own
    last = node.end_lineno if not inner else node.body[0].lineno - 1
    names = [child for part in head for child in ast.walk(part) if isinstance(child, ast.Name)]
    imported = getattr(node, "names", []) if isinstance(node, ast.Import | ast.ImportFrom) else []
    sets = {name.id for name in names if isinstance(name.ctx, ast.Store)} | changed_names(node)
    sets |= {(alias.asname or alias.name).partition(".")[0] for alias in imported}
    drawing = {name.id for name in names} & PLOTTING
    if drawing == {"plots"} and all(PICTURES.match(use) for use in PLOTS.findall(ast.unparse(node))):
        drawing = set()
    plots = bool(drawing) and not inner
    yield Statement(max(last - node.lineno + 1, 1), {n.id for n in names} - sets, sets, plots, inner)
    yield from inner


def changed_names(node: ast.stmt) -> set[str]:
    """Return the names whose values a statement changes in place: `rows.append(x)`, `image[0] = 1`."""
    targets = [target for target in getattr(node, "targets", []) if isinstance(target, ast.Subscript)]
    bases = [target.value for target in targets]
    call = getattr(node, "value", None)
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in CHANGES:
        bases.append(call.func.value)
    return {base.id for base in bases if isinstance(base, ast.Name)}


def serves_plots(item: Statement, found: list[Statement]) -> bool:
    """Tell whether all that stands inside a statement plots, or all that it sets is read by plots alone."""
    if item.inside:
        return all(inner.plots for inner in item.inside)
    readers = [other for other in found if other is not item and other.reads & item.sets]
    return bool(readers) and all(other.plots for other in readers)
