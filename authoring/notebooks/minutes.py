"""What a lesson asks of its reader: minutes of its sections and of its core.

Minutes are an estimate: words, visible lines of code and figures at a fixed pace, the seconds that the cells of the
stored solution took at profile cpu, and exercises at one and a half times what they state, for the second try.
"""

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from authoring.notebooks.course import LEFT_OUT, Course, Lesson, LessonCell
from authoring.notebooks.outputs import SETUP_TAG

WORDS_A_MINUTE, LINES_A_MINUTE, MINUTES_A_FIGURE, TRIES = 120, 12, 0.5, 1.5
PICTURE = re.compile(r"!\[|<img |<svg")
AT_HOME = ("Further reading",)
"""Sections that take no time in class."""
FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)


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


def minutes_of(course: Course, lesson: Lesson, section: Section) -> float:
    """Estimate the minutes of a section: to read, look, wait, and solve, as the lesson and its stored solution say."""
    if section.title in AT_HOME:
        return 0.0
    stored, minutes = stored_cells(course, lesson), 0.0
    for cell in section.cells:
        if LEFT_OUT["notebooks"] in cell.metadata.get("tags", []):
            continue
        if cell.kind == "markdown":
            text = read_text(cell)
            minutes += len(text.split()) / WORDS_A_MINUTE + len(PICTURE.findall(text)) * MINUTES_A_FIGURE
            continue
        ran = stored.get(cell.line, {"metadata": {}, "outputs": []})
        minutes += ran["metadata"].get("seconds", 0.0) / 60
        if cell.references:
            minutes += cell.metadata["minutes"] * TRIES
        else:
            lines = 0 if "fold" in cell.metadata else sum(map(bool, map(str.strip, cell.source.splitlines())))
            minutes += lines / LINES_A_MINUTE + sum(map(is_figure, ran["outputs"])) * MINUTES_A_FIGURE
    return minutes


def stored_cells(course: Course, lesson: Lesson) -> dict[int, dict]:
    """Return the code cells of the stored solution by their lines in the lesson; none, if it has other cells."""
    path = course.root / "solutions" / f"{lesson.slug}.ipynb"
    cells = read_cells(path, path.stat().st_mtime_ns) if path.is_file() else []
    own = [
        cell
        for cell in lesson.cells
        if cell.kind == "code" and LEFT_OUT["solutions"] not in cell.metadata.get("tags", [])
    ]
    return {cell.line: ran for cell, ran in zip(own, cells, strict=True)} if len(own) == len(cells) else {}


@lru_cache(maxsize=64)
def read_cells(path: Path, changed: int) -> list[dict]:
    """Read the code cells of a notebook that a lesson has written; a file that has not changed is read once."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError):  # not a notebook of ours
        return []
    return [c for c in cells if c["cell_type"] == "code" and SETUP_TAG not in c["metadata"].get("tags", [])]


def is_figure(output: dict) -> bool:
    """Tell whether an output is a picture, or holds one."""
    data = output.get("data", {})
    html = "".join(data.get("text/html", ""))
    return any(kind.startswith("image/") for kind in data) or bool(PICTURE.search(html))


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


def core_minutes(course: Course, lesson: Lesson) -> int:
    """Return the minutes of all that is not for the curious: what a lesson says that it takes."""
    return round(sum(minutes_of(course, lesson, part) for part in sections(lesson) if not part.curious))


def all_minutes(course: Course, lesson: Lesson) -> int:
    """Return the minutes of a lesson with all its sections."""
    return round(sum(minutes_of(course, lesson, section) for section in sections(lesson)))
