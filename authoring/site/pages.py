"""What generated pages of `docs/` are made of: links to lessons, tables, the prose of a lesson, and YAML files."""

import re
from collections.abc import Sequence
from pathlib import Path

import yaml

from authoring.notebooks.course import Lesson, LessonError


def lesson_link(lesson: Lesson) -> str:
    """Return a link from a page of `docs/` to a student's notebook, by its number."""
    return f"[{lesson.number}](../notebooks/{lesson.slug}.ipynb)"


def table(header: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """Write a Markdown table. A bar inside a cell is escaped."""
    lines = [
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in (header, *rows)
    ]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def fill(text: str, name: str, content: str) -> str:
    """Return a page with this between the lines `<!-- name:begin -->` and `<!-- name:end -->`, if it has them."""
    between = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
    return between.sub(lambda match: match[1] + content + match[2], text)


def prose(lesson: Lesson) -> str:
    """Return the text of a lesson without its code."""
    return "\n\n".join(cell.source for cell in lesson.cells if cell.kind == "markdown")


def data_in_words(data: str) -> str:
    """Write the data of a record, "50,000 train / 10,000 test pictures, seed 0", in the words of the pages."""
    data = re.sub(r"(, seed \d+|; subset .*)", "", data)
    return re.sub(
        r"(\S+) train / (\S+) test (pictures|images)", r"\1 training images and \2 test images", data
    )


def named(path: Path) -> str:
    """Return the last parts of a path: "docs/glossary.yaml", "lessons/01_patches/notes.yaml"."""
    return "/".join(path.parts[-3 if path.name == "notes.yaml" else -2 :])


def read_yaml(path: Path) -> list | dict:
    """Read a YAML file that a page is made of.

    Raises:
        LessonError: if it is missing, or if it is broken, with the line.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LessonError(f"{named(path)} is missing") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1
        raise LessonError(f"{named(path)}:{line}: {error.problem}") from error
