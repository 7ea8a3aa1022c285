"""What the pages of the appendices are made of: links to lessons, tables, the prose of a lesson, and YAML files."""

from collections.abc import Sequence
from pathlib import Path

import yaml
from build import Lesson, LessonError


def lesson_link(lesson: Lesson) -> str:
    """Return a link from an appendix to a student's notebook, by its number."""
    return f"[{lesson.number}](../../notebooks/{lesson.slug}.ipynb)"


def table(header: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """Write a Markdown table. A bar inside a cell is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in lines)


def prose(lesson: Lesson) -> str:
    """Return the text of a lesson without its code."""
    return "\n\n".join(cell.source for cell in lesson.cells if cell.kind == "markdown")


def read_yaml(path: Path) -> list | dict:
    """Read a YAML file of the appendices.

    Raises:
        LessonError: if it is missing, or if it is broken, with the line.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LessonError(f"lessons/appendices/{path.name} is missing") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1
        raise LessonError(f"lessons/appendices/{path.name}:{line}: {error.problem}") from error
