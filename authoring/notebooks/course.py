"""The lessons as their authors write them: `lessons/NN_slug/lesson.py`, front matter and cells, read and verified."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import jupytext
import yaml
from nbformat import NotebookNode

from authoring.notebooks.claims import claims_of
from authoring.notebooks.dependencies import Package, read_package
from authoring.notebooks.quiz import Question, parse_question
from authoring.notebooks.stubs import Reference, parse, parse_references

ROOT = Path(__file__).resolve().parents[2]
FRONT_MATTER = {"title": str, "promise": str, "part": str, "goals": list}
MAY_BE_GIVEN = {"recall": dict, "map": list}
LEFT_OUT = {"notebooks": "solution-only", "solutions": "student-only"}  # tags of cells, by folder
FLAGS = {"quiz": "markdown", "curious": "markdown", "claim": "markdown", "always": "markdown"}
FLAGS |= {"fold": "code", "tolerance": "code"}
"""Options of a cell that fit one kind of cell alone: most are one word."""
OPTIONS = {"exercise", "starter", "difficulty", "minutes", "hint", "hint2", "tags", *FLAGS}


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
    question: Question | None = None


@dataclass(frozen=True)
class Lesson:
    """One `lessons/NN_slug/lesson.py`: its front matter and its cells."""

    slug: str
    title: str
    promise: str
    part: str
    goals: list[str]
    cells: tuple[LessonCell, ...] = ()
    recall: tuple[tuple[str, str], ...] = ()
    map: tuple[str, ...] | None = None

    @property
    def number(self) -> str:
        """The two digits that the folder's name begins with."""
        return self.slug[:2]

    @property
    def questions(self) -> list[Question]:
        """The questions of its quiz, in order."""
        return [cell.question for cell in self.cells if cell.question]

    def error(self, line: int, message: object) -> LessonError:
        """Return an error that names the lesson's file and the line."""
        return LessonError(f"lessons/{self.slug}/lesson.py:{line}: {message}")


@dataclass(frozen=True)
class Course:
    """The lessons below one root folder, in order, and where the repository is published: "" while it is not."""

    root: Path
    repository: str
    lessons: tuple[Lesson, ...]

    @cached_property
    def package(self) -> Package:
        """The finished code below the root, read once."""
        return read_package(self.root)

    def select(self, numbers: Sequence[str]) -> list[Lesson]:
        """Return the lessons with these numbers ("3" and "03" are the same); without numbers, all."""
        wanted = {number.zfill(2) for number in numbers}
        if unknown := wanted - {lesson.number for lesson in self.lessons}:
            raise LessonError(f"there is no lesson {', '.join(sorted(unknown))}")
        return [lesson for lesson in self.lessons if not wanted or lesson.number in wanted]

    def recalled(self, lesson: Lesson) -> Iterator[tuple[Lesson, int, Question]]:
        """Yield what a lesson asks again, as (older lesson, number of the question, question in its new words).

        The options are those of the older lesson, so the new words must fit them. A lesson whose quiz is not written
        as questions yet has none to ask again.
        """
        older = {stop.number: stop for stop in self.lessons if stop.number < lesson.number}
        for name, words in lesson.recall:
            number, _, position = str(name).partition(".")
            if number not in older or not position.isdigit():
                raise lesson.error(
                    1, f'recall: {name!r} names no question of an older lesson, as "01.2" does'
                )
            questions = older[number].questions
            if questions and not 1 <= int(position) <= len(questions):
                raise lesson.error(1, f"recall: lesson {number} has {len(questions)} questions, no {name}")
            if questions:
                yield older[number], int(position), replace(questions[int(position) - 1], text=words)


def read_course(root: Path) -> Course:
    """Read every lesson, and the address of the repository, which stands in `pyproject.toml` alone."""
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    address = re.search(r'^Repository\s*=\s*"([^"]+)"', project, re.MULTILINE)
    paths = sorted((root / "lessons").glob("[0-9][0-9]_*/lesson.py"))
    repository = address[1].rstrip("/").removesuffix(".git") if address else ""
    course = Course(root, repository, tuple(read_lesson(path) for path in paths))
    for lesson in course.lessons:
        list(course.recalled(lesson))
    return course


def read_lesson(path: Path) -> Lesson:
    """Read one lesson, and verify all that can be verified without the package."""
    text = path.read_text(encoding="utf-8")
    front, start = read_front_matter(path.parent.name, text)
    lesson = Lesson(path.parent.name, **front)
    lines = text.splitlines()
    markers = [n for n, line in enumerate(lines, 1) if n >= start and line.startswith("# %%")]
    body = "\n".join(lines[start - 1 :]).lstrip("\n")
    cells = split_cells(body)
    if len(cells) != len(markers):
        raise lesson.error(start, "there is code before the first `# %%`, or a string with a line `# %%`")
    found = zip(cells, markers, strict=True)
    return replace(lesson, cells=tuple(read_cell(lesson, cell, n, lines[n - 1]) for cell, n in found))


@lru_cache(maxsize=64)
def split_cells(body: str) -> list[NotebookNode]:
    """Split the text of a lesson into cells; one that has not changed is split once."""
    percent = {"extension": ".py", "format_name": "percent", "comment_magics": False}
    return jupytext.reads(body, fmt=percent).cells


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
    if surplus := sorted(front.keys() - FRONT_MATTER.keys() - MAY_BE_GIVEN.keys()):
        raise LessonError(f"lessons/{slug}/lesson.py:1: unknown in the front matter: {', '.join(surplus)}")
    for key, kind in MAY_BE_GIVEN.items():
        if not isinstance(front.get(key, kind()), kind):
            form = {list: "list", dict: "mapping"}[kind]
            raise LessonError(f"lessons/{slug}/lesson.py:1: {key!r} in the front matter is a {form}")
    if "recall" in front:
        front["recall"] = tuple(front["recall"].items())
    if "map" in front:
        front["map"] = tuple(front["map"])
    return front, block[0].count("\n") + 1


def read_cell(lesson: Lesson, cell: NotebookNode, line: int, marker: str) -> LessonCell:
    """Turn a cell as jupytext reads it into ours. An exercise must state all that a student is told about it."""
    metadata = read_options(cell)
    try:
        references = parse_references(metadata["exercise"]) if "exercise" in metadata else []
        references = with_starters(references, metadata.get("starter", ""))
        question = parse_question(cell.source) if "quiz" in metadata else None
        claims_of(metadata)
        if cell.cell_type == "code":
            parse(cell.source)
    except SyntaxError as error:
        raise lesson.error(line + error.lineno, error.msg) from error
    except (LookupError, ValueError) as error:
        raise lesson.error(line, error) from error
    if ("exercise=" in marker and not references) or ("claim=" in marker and "claim" not in metadata):
        raise lesson.error(line, 'the options of this cell cannot be read; write key="value" key=3')
    if references and metadata.get("difficulty") not in (1, 2, 3):
        raise lesson.error(line, "this exercise needs difficulty=1, 2 or 3")
    if references and not (isinstance(metadata.get("minutes"), int) and metadata["minutes"] > 0):
        raise lesson.error(line, "this exercise needs minutes=N")
    for key in ("hint", "hint2") if references else ():
        if not str(metadata.get(key, "")).strip():
            raise lesson.error(line, f'this exercise needs {key}="..."')
    require_known_options(lesson, cell, metadata, line)
    return LessonCell(cell.cell_type, cell.source, metadata, line, tuple(references), question)


def read_options(cell: NotebookNode) -> dict:
    """Return the options of a cell by name; an option that is one word, which jupytext may call a title, is True."""
    options = {key: True if value is None else value for key, value in cell.metadata.items()}
    options.pop("lines_to_next_cell", None)
    return dict.fromkeys(options.pop("title", "").split(), True) | options


def require_known_options(lesson: Lesson, cell: NotebookNode, metadata: dict, line: int) -> None:
    """Insist that every option of a cell exists, and fits the kind of cell that it stands at."""
    if unknown := sorted(metadata.keys() - OPTIONS):
        raise lesson.error(line, f"unknown options of a cell: {', '.join(unknown)}")
    for flag in metadata.keys() & FLAGS.keys():
        if cell.cell_type != FLAGS[flag]:
            raise lesson.error(line, f"{flag!r} is an option of {FLAGS[flag]} cells")
    if "always" in metadata and "claim" not in metadata:
        raise lesson.error(line, "'always' stands at a claim")
    headings = re.findall(r"^## ", cell.source, re.MULTILINE)
    if "curious" in metadata and (len(headings) != 1 or not cell.source.startswith("## ")):
        raise lesson.error(line, "a section for the curious begins with its only heading, `## ...`")


def with_starters(references: list[Reference], text: str) -> list[Reference]:
    """Give the references of an exercise the starters named in its option `starter`, one each and in this order.

    Raises:
        LookupError: if there are more or fewer starters than references.
    """
    starters = parse_references(text) or [None] * len(references)
    if len(starters) != len(references):
        raise LookupError(
            f"{len(starters)} starters do not fit {len(references)} exercises: name one for each"
        )
    return [replace(r, starter=s) for r, s in zip(references, starters, strict=True)]
