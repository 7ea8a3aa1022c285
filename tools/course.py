"""The lessons as their authors write them: `lessons/NN_slug/lesson.py`, front matter and cells, read and verified."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jupytext
import yaml
from nbformat import NotebookNode

from excerpts import Reference, parse, parse_references

ROOT = Path(__file__).resolve().parent.parent
FRONT_MATTER = {"title": str, "promise": str, "part": str, "minutes": int, "goals": list}


class LessonError(Exception):
    """What an author has to mend, with the file and the line."""


@dataclass(frozen=True)
class LessonCell:
    """One cell as the author wrote it; `line` is that of its `# %%` marker."""

    kind: str
    source: str
    metadata: dict
    line: int
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class Lesson:
    """One `lessons/NN_slug/lesson.py`: its front matter and its cells."""

    slug: str
    title: str
    promise: str
    part: str
    minutes: int
    goals: list[str]
    cells: tuple[LessonCell, ...] = ()

    @property
    def number(self) -> str:
        """The two digits that the folder's name begins with."""
        return self.slug[:2]

    def error(self, line: int, message: object) -> LessonError:
        """Return an error that names the lesson's file and the line."""
        return LessonError(f"lessons/{self.slug}/lesson.py:{line}: {message}")


@dataclass(frozen=True)
class Course:
    """The lessons below one root folder, in order, and where the repository is published."""

    root: Path
    repository: str
    lessons: tuple[Lesson, ...]

    def select(self, numbers: Sequence[str]) -> list[Lesson]:
        """Return the lessons with these numbers ("3" and "03" are the same); without numbers, all."""
        wanted = {number.zfill(2) for number in numbers}
        if unknown := wanted - {lesson.number for lesson in self.lessons}:
            raise LessonError(f"there is no lesson {', '.join(sorted(unknown))}")
        return [lesson for lesson in self.lessons if not wanted or lesson.number in wanted]


def read_course(root: Path) -> Course:
    """Read every lesson, and the address of the repository."""
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    address = re.search(r'^Repository\s*=\s*"([^"]+)"', project, re.MULTILINE)
    if not address:
        raise LessonError("pyproject.toml: [project.urls] has no Repository")
    paths = sorted((root / "lessons").glob("[0-9][0-9]_*/lesson.py"))
    return Course(root, address[1].rstrip("/"), tuple(read_lesson(path) for path in paths))


def read_lesson(path: Path) -> Lesson:
    """Read one lesson, and verify all that can be verified without the package."""
    text = path.read_text(encoding="utf-8")
    front, start = read_front_matter(path.parent.name, text)
    lesson = Lesson(path.parent.name, **front)
    lines = text.splitlines()
    markers = [n for n, line in enumerate(lines, 1) if n >= start and line.startswith("# %%")]
    body = "\n".join(lines[start - 1 :]).lstrip("\n")
    cells = jupytext.reads(
        body, fmt={"extension": ".py", "format_name": "percent", "comment_magics": False}
    ).cells
    if len(cells) != len(markers):
        raise lesson.error(start, "there is code before the first `# %%`, or a string with a line `# %%`")
    found = zip(cells, markers, strict=True)
    return replace(lesson, cells=tuple(read_cell(lesson, cell, n, lines[n - 1]) for cell, n in found))


def read_front_matter(slug: str, text: str) -> tuple[dict, int]:
    """Return the front matter of a lesson and the number of the first line after it."""
    block = re.match(r"# ---\n(.*?)^# ---\n", text, re.DOTALL | re.MULTILINE)
    if not block:
        raise LessonError(f"lessons/{slug}/lesson.py:1: front matter between two lines `# ---` is missing")
    try:
        front = yaml.safe_load(re.sub(r"^# ?", "", block[1], flags=re.MULTILINE)) or {}
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2
        raise LessonError(f"lessons/{slug}/lesson.py:{line}: front matter: {error.problem}") from error
    for key, kind in FRONT_MATTER.items():
        if not isinstance(front.get(key), kind) or not front[key]:
            raise LessonError(f"lessons/{slug}/lesson.py:1: the front matter needs {key!r} ({kind.__name__})")
    if surplus := sorted(front.keys() - FRONT_MATTER.keys()):
        raise LessonError(f"lessons/{slug}/lesson.py:1: unknown in the front matter: {', '.join(surplus)}")
    return front, block[0].count("\n") + 1


def read_cell(lesson: Lesson, cell: NotebookNode, line: int, marker: str) -> LessonCell:
    """Turn a cell as jupytext reads it into ours. An exercise must state all that a student is told about it."""
    metadata = {key: value for key, value in cell.metadata.items() if key != "lines_to_next_cell"}
    try:
        references = parse_references(metadata["exercise"]) if "exercise" in metadata else []
        references = with_starters(references, metadata.get("starter", ""))
        if cell.cell_type == "code":
            parse(cell.source)
    except LookupError as error:
        raise lesson.error(line, error) from error
    except SyntaxError as error:
        raise lesson.error(line + error.lineno, error.msg) from error
    if "exercise=" in marker and not references:
        raise lesson.error(line, 'the options of this cell cannot be read; write key="value" key=3')
    if references and metadata.get("difficulty") not in (1, 2, 3):
        raise lesson.error(line, "this exercise needs difficulty=1, 2 or 3")
    if references and not (isinstance(metadata.get("minutes"), int) and metadata["minutes"] > 0):
        raise lesson.error(line, "this exercise needs minutes=N")
    for key in ("hint", "hint2") if references else ():
        if not str(metadata.get(key, "")).strip():
            raise lesson.error(line, f'this exercise needs {key}="..."')
    return LessonCell(cell.cell_type, cell.source, metadata, line, tuple(references))


def with_starters(references: list[Reference], text: str) -> list[Reference]:
    """Give the references of an exercise the starters named in its option `starter`, one each and in this order.

    Raises:
        LookupError: if there are more or fewer starters than references.
    """
    starters = parse_references(text)
    if starters and len(starters) != len(references):
        raise LookupError(
            f"{len(starters)} starters do not fit {len(references)} exercises: name one for each"
        )
    return (
        [replace(r, starter=s) for r, s in zip(references, starters, strict=True)] if starters else references
    )
