"""A wrong answer for a class to take apart: its code, and what the check of its exercise says of it.

`lessons/NN_slug/notes.yaml` names an answer that lies in the lesson's folder, and by some of its words the mistake:
`dissect: {answer: bare_view, of: split_heads, says: "a bare `view`"}`. Both are read from the text of the files.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from authoring.notebooks.course import Course, Lesson, LessonError
from authoring.notebooks.stubs import DEFINITIONS, first_line, parse

FILES = ("answers.py", "checks.py")
"""Where wrong answers lie: first those that are written most like a student's."""


@dataclass(frozen=True)
class WrongAnswer:
    """A wrong answer to an exercise: its code under the exercise's name, the message, its cause in few words or ""."""

    exercise: str
    code: str
    message: str
    cause: str


def wrong_answer(course: Course, lesson: Lesson, named: dict[str, str]) -> WrongAnswer:
    """Find the wrong answer that the notes of a lesson name.

    Raises:
        LessonError: if the lesson has no such exercise, answer or mistake, or the answer needs a helper of the checks.
    """
    folder = course.root / "lessons" / lesson.slug
    where = f"lessons/{lesson.slug}/notes.yaml: dissect:"
    if not isinstance(named, dict) or named.keys() != {"answer", "of", "says"}:
        raise LessonError(f"{where} name `answer`, `of` (an exercise) and `says` (words of the message)")
    if named["of"] not in {reference.name for cell in lesson.cells for reference in cell.references}:
        raise LessonError(f"{where} this lesson has no exercise {named['of']}")
    texts = [(folder / name).read_text(encoding="utf-8") for name in FILES if (folder / name).is_file()]
    found = [text for text in texts if definition(text, named["answer"])]
    if not found:
        raise LessonError(f"{where} no file of the lesson defines {named['answer']}")
    messages = [words for text in texts for words in strings(text)] + known_words(folder)
    said = {words for words in messages if named["says"] in words}
    if len(said) != 1:
        raise LessonError(f"{where} {len(said)} messages say {named['says']!r}, and it should be one")
    code = re.sub(r"^ +_\w+\(.*\)\n", "", source_of(found[0], named["answer"]), flags=re.MULTILINE)
    helpers = {named["of"]} | {getattr(node, "name", "") for node in ast.parse(found[0]).body}
    inside = (node for line in ast.parse(code).body[0].body for node in ast.walk(line))
    if unseen := helpers & {node.id for node in inside if isinstance(node, ast.Name)}:
        raise LessonError(f"{where} {named['answer']} needs {min(unseen)}, which a class does not see")
    return WrongAnswer(
        named["of"],
        re.sub(rf"\b{named['answer']}\b", named["of"], code),
        said.pop().strip(),
        next(filter(None, (cause_of(text, named["answer"]) for text in texts)), ""),
    )


def definition(text: str, name: str) -> ast.stmt | None:
    """Return the definition of a name at the top of a file, or None."""
    return next((n for n in parse(text).body if isinstance(n, DEFINITIONS) and n.name == name), None)


def source_of(text: str, name: str) -> str:
    """Return the lines that define a name."""
    node = definition(text, name)
    return "\n".join(text.splitlines()[first_line(node) - 1 : node.end_lineno])


@cache
def strings(text: str) -> set[str]:
    """Return the strings of a file that may be messages, those inside f-strings too."""
    nodes = (node for node in ast.walk(parse(text)) if isinstance(node, ast.Constant))
    return {node.value for node in nodes if isinstance(node.value, str)}


def known_words(folder: Path) -> list[str]:
    """Return the words of the mistakes that a lesson's table knows; none where it has no table."""
    path = folder / "mistakes.yaml"
    table = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return [words for rows in table.values() for words in rows]


def cause_of(text: str, name: str) -> str:
    """Return the words that stand beside an answer in a table of pairs, (words, answer), or ""."""
    pairs = (
        node.elts for node in ast.walk(parse(text)) if isinstance(node, ast.Tuple) and len(node.elts) == 2
    )
    for words, answer in pairs:
        called = getattr(answer, "attr", getattr(answer, "id", None))  # checks.name, or name
        if called == name and isinstance(words, ast.Constant):
            return words.value
    return ""
