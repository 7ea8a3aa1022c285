"""What a student's notebooks and logs say of each exercise: read as JSON, and never run."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

from vit_classroom.answer_folder import LONGEST, MIME, Mark, cell_hash, log_text, marks_in, read_mark
from vit_classroom.progress.handed_in import NOTEBOOK
from vit_classroom.race import Entry, entries
from vit_classroom.tasks import Lesson, exercise_names, read_lessons
from vit_course.training.paths import ROOT

PARTS, VALUES = 3 * 10**6, 10**7
"""So many brackets and commas a file may have: what is read takes memory for each."""
MOST = 20_000
"""So many verdicts are read of one student."""


class NoNotebook(ValueError):
    """Why a file could not be read as a notebook."""


@dataclass(frozen=True)
class Found:
    """What was found of one exercise.

    Attributes:
        kind: "right" if it ever was; else the last verdict, "wrong" or "unfinished"; or "unchecked": an answer is
            written, and no verdict stands in its output.
        edited: whether the cell is not the one that got a verdict.
        mistakes: every mistake on the way, the last one last.
        checks: how many verdicts there are.
    """

    kind: str
    edited: bool = False
    mistakes: tuple[str, ...] = ()
    checks: int = 0


@dataclass
class Work:
    """What one student did: verdicts by exercise, hashes of the cells with an answer, and runs of the race."""

    marks: dict[str, set[Mark]] = field(default_factory=lambda: defaultdict(set))
    cells: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    read: int = 0
    runs: list[Entry] = field(default_factory=list)

    def add(self, mark: Mark) -> None:
        """Note a verdict; the same one in a notebook and in a log is one."""
        if mark.exercise in exercises() and self.read < MOST:
            self.read += 1
            self.marks[mark.exercise].add(mark)

    def add_file(self, name: str, data: bytes) -> None:
        """Note all that a notebook or log holds.

        Raises:
            NoNotebook: if it is none, or no computer should read it.
        """
        if data.count(b"{") + data.count(b"[") > PARTS or data.count(b",") > VALUES:
            raise NoNotebook("it has more parts than a notebook of this course")
        if not NOTEBOOK.search(name) and b'"nbformat"' not in data.replace(b"\0", b""):
            text = log_text(data)
            for mark in marks_in(text):
                self.add(mark)
            self.runs += islice(entries(text.splitlines()), MOST)
            return
        try:
            for cell in parsed(data)["cells"]:
                if cell["cell_type"] == "code":
                    self.add_cell(cell)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise NoNotebook(f"it is no notebook ({type(error).__name__})") from error

    def add_cell(self, cell: Mapping[str, Any]) -> None:
        """Note the verdicts in a cell's outputs and, of an exercise's cell, the answer that is written."""
        found = [read_mark(output.get("data", {}).get(MIME)) for output in cell.get("outputs", ())]
        marks = [mark for mark in found if mark]
        source = "".join(cell["source"])
        asked = exercise_names(cell.get("metadata", {}).get("exercise", ""))
        checked = {mark.exercise for mark in marks}
        if cell_hash(source) not in given_out():
            stops = next(filter(None, map(error_in, cell.get("outputs", ()))), "")
            marks += [
                Mark(name, "wrong", stops, cell=cell_hash(source))
                for name in asked
                if stops and name not in checked
            ]
            if "raise NotImplementedError" not in source:
                for name in exercises().keys() & {*asked, *checked}:
                    self.cells[name].add(cell_hash(source))
        for mark in marks:
            self.add(mark)

    def found(self, until: str = "") -> dict[str, Found]:
        """Return what was found, by exercise, in the order of the course.

        Args:
            until: later verdicts do not count; a time as `Mark` has it, "" for no end.
        """
        found = {}
        for name in exercises():
            every = self.marks.get(name, ())
            marks = [mark for mark in every if not until or mark.time <= until]
            if marks or (name in self.cells and not every):
                found[name] = found_of(marks, self.cells.get(name, set()))
        return found


def parsed(data: bytes) -> Any:
    """Read JSON in UTF-8, UTF-16 or UTF-32, or as an old editor of Windows saves it."""
    try:
        return json.loads(data)
    except UnicodeDecodeError:
        return json.loads(data.decode("cp1252", errors="replace"))


def error_in(output: Mapping[str, Any]) -> str:
    """Return the error with which a cell stopped before its check, the same words for all who have it; or ""."""
    if output.get("output_type") != "error":
        return ""
    reason = re.sub(r" \([^()]*line \d+\)$", "", str(output.get("evalue", "")).partition("\n")[0])
    return f"the cell stops before its check: {output.get('ename', 'an error')}: {reason}".rstrip(": ")[
        :LONGEST
    ]


def found_of(marks: Iterable[Mark], cells: set[str]) -> Found:
    """Sum up the verdicts on an exercise, given the hashes of the cells in which an answer is written now."""
    marks = sorted(marks, key=lambda mark: mark.time)
    if not marks:
        return Found("unchecked")
    kind = "right" if any(mark.verdict == "right" for mark in marks) else marks[-1].verdict
    checked = {mark.cell for mark in marks if mark.verdict == kind}
    wrong = {mark.mistake: mark.time for mark in marks if mark.verdict == "wrong"}
    return Found(kind, bool(cells) and not cells & checked, tuple(sorted(wrong, key=wrong.get)), len(marks))


@lru_cache(maxsize=1)
def exercises() -> Mapping[str, Lesson]:
    """Return the lesson of every exercise, in their order."""
    return {name: lesson for lesson in read_lessons() for name in lesson.names}


@lru_cache(maxsize=1)
def given_out() -> set[str]:
    """Return the hashes of the exercises' cells as students get them."""
    books = [json.loads(path.read_bytes()) for path in (ROOT / "notebooks").glob("*.ipynb")]
    cells = [cell for book in books for cell in book["cells"] if "exercise" in cell["metadata"]]
    return {cell_hash("".join(cell["source"])) for cell in cells}
