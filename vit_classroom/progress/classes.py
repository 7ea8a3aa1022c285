"""The table of a class, students by lessons, and what to talk about: exercises that fewer than half solved."""

import csv
import io
import os
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vit_classroom.progress.handed_in import UNREADABLE, Refused, files_of, students_of
from vit_classroom.progress.verdicts import Found, NoNotebook, Work
from vit_classroom.race import Entry, boards
from vit_classroom.tables import plain, table
from vit_classroom.tasks import Lesson, number_of_checks

WIDTH = 100
NAME = 18
TALKS, MISTAKES = 10, 4
"""So many exercises are shown, and so many mistakes of each."""
LEGEND = """A number counts solved exercises. * a wrong answer  · nothing written yet
? an answer without a result  ~ a cell that was changed after its check"""


@dataclass(frozen=True)
class Student:
    """One student of a class: what was found, by exercise, what there is to say, runs of the race, the hand-in."""

    name: str
    found: dict[str, Found]
    notes: list[str] = field(default_factory=list)
    runs: list[Entry] = field(default_factory=list)
    path: Path = Path()

    @property
    def right(self) -> list[str]:
        """The names of what is right."""
        return [name for name, one in self.found.items() if one.kind == "right"]

    def solved(self, lesson: Lesson) -> int:
        """Count the exercises of a lesson of which everything is right."""
        return lesson.solved(self.right)

    def points(self, lesson: Lesson) -> int:
        """Sum up the points of the exercises of a lesson of which everything is right."""
        return sum(task.points for task in lesson.done(self.right))

    def count(self, names: Iterable[str], *kinds: str) -> int:
        """Count the exercises of which one of these was found."""
        return sum(self.found[name].kind in kinds for name in names if name in self.found)

    def edited(self, names: Iterable[str]) -> int:
        """Count the exercises whose cell was changed after its verdict."""
        return sum(self.found[name].edited for name in names if name in self.found)


@dataclass(frozen=True)
class TalkAbout:
    """An exercise to talk about: of those who work on its lesson, how many have it, and who made which mistake."""

    lesson: str
    exercise: str
    right: int
    wrong: int
    begun: int
    checks: int
    mistakes: list[tuple[str, int]]


def read_class(folder: Path, until: str = "") -> list[Student]:
    """Read what the notebooks and logs of a class say, one student after the other.

    Args:
        folder: with what each student handed in.
        until: later verdicts do not count; a time as `Mark` has it, "" for no end.

    Raises:
        NotADirectoryError: if there is no such folder.
    """
    return [read_student(name, paths, until) for name, paths in students_of(folder)]


def read_student(name: str, paths: Sequence[Path], until: str = "") -> Student:
    """Read what one student handed in."""
    work, notes, files = Work(), [], 0
    for path in paths:
        try:
            for file, data in files_of(path):
                files += 1
                try:
                    if isinstance(data, Exception):
                        raise data
                    work.add_file(file, data)
                except UNREADABLE as why:
                    notes.append(f"{file}: {reason(why)}")
        except UNREADABLE as why:
            notes.append(f"refused: {reason(why)}")
    found = work.found(until)
    if unchecked := [exercise for exercise, one in found.items() if one.kind == "unchecked"]:
        notes.append(f"answers without a verdict, their outputs cleared or never run: {', '.join(unchecked)}")
    if not files and not notes:
        notes.append("no notebook and no log of verdicts is in it")
    return Student(name, found, notes, work.runs, paths[0])


def reason(error: Exception) -> str:
    """Say why something is not read."""
    known = isinstance(error, NoNotebook | Refused)
    return str(error) if known else f"it cannot be read ({type(error).__name__}: {error})"


def talk_about(students: Sequence[Student], lessons: Sequence[Lesson]) -> list[TalkAbout]:
    """List what fewer than half of those who began its lesson solved, or half stumbled over, the worst first."""
    found = []
    for lesson in lessons:
        begun = [student for student in students if student.count(lesson.names, "right", "wrong")]
        for name in lesson.names:
            tried = [student.found[name] for student in begun if name in student.found]
            right, wrong = (sum(one.kind == kind for one in tried) for kind in ("right", "wrong"))
            made = Counter(words for one in tried for words in one.mistakes)
            stumbled = sum(bool(one.mistakes) for one in tried)
            if stumbled and (2 * right < len(begun) or 2 * stumbled >= len(begun)):
                checks = sum(one.checks for one in tried)
                found.append(
                    TalkAbout(lesson.number, name, right, wrong, len(begun), checks, made.most_common())
                )
    return sorted(found, key=lambda one: one.right - one.begun)


# -- as text


def class_text(students: Sequence[Student], lessons: Sequence[Lesson]) -> str:
    """Return the table, what went wrong while it was made, what to talk about, and the boards of the race."""
    parts = [class_table(students, lessons), "\n".join(filter(None, [LEGEND, number_of_checks(lessons)]))]
    notes = [f"{student.name}: {note}" for student in students for note in student.notes]
    lines = ["Some files could not be read:", *(f"  {short(note, WIDTH - 2)}" for note in notes)]
    parts.append("\n".join(lines) if notes else "")
    talks = talk_about(students, lessons)
    texts = [text for one in talks[:TALKS] for text in talk_lines(one)]
    if talks[TALKS:]:
        texts.append("Also, for fewer students: " + ", ".join(one.exercise for one in talks[TALKS:]))
    head = "Discuss these exercises: most students have not solved them, or at least half made a mistake."
    parts.append("\n".join([head, *texts]) if talks else "")
    raced = boards(run for student in students for run in student.runs)
    parts += [f"The race of lesson 16, {board}" for board in raced]
    return "\n\n".join(filter(None, parts))


def class_table(students: Sequence[Student], lessons: Sequence[Lesson]) -> str:
    """Return the table of students and lessons as text, with the points behind where they fit."""
    columns = ["student", *(lesson.number for lesson in lessons), "all", "points"]
    counts = [len(lesson.tasks) for lesson in lessons]
    rows = [["exercises", *map(str, [*counts, sum(counts), sum(lesson.points for lesson in lessons)])]]
    for student, name in zip(students, told_apart([student.name for student in students]), strict=True):
        cells = [cell(student, lesson) for lesson in lessons]
        sums = (sum(map(count, lessons)) for count in (student.solved, student.points))
        rows.append([name, *cells, *map(str, sums)])
    text = str(table(rows, columns))
    fits = max(map(len, text.splitlines())) <= WIDTH
    return text if fits else str(table([row[:-1] for row in rows], columns[:-1]))


def told_apart(names: Sequence[str], width: int = NAME) -> list[str]:
    """Return names that fit and differ: of a long one its ends, or the part that others do not have.

    A letter is never cut from its accents, and counts as one.
    """
    names, shown = [letters(plain(name)) for name in names], []
    half = width // 2
    cuts = [name if len(name) <= width else [*name[:half], "…", *name[1 - half :]] for name in names]
    for name, cut in zip(names, cuts, strict=True):
        if cuts.count(cut) > 1 and len(name) > width:
            same = [other for other, its in zip(names, cuts, strict=True) if its == cut]
            start = max(0, len(os.path.commonprefix(same)) - 7)
            cut = ["…", *name[start : start + width - 2], "…"]
        number, one = 1, "".join(cut)
        while one in shown:
            number += 1
            one = f"{''.join(cut[: width - 1 - len(str(number))])}…{number}"
        shown.append(one)
    return shown


def letters(text: str) -> list[str]:
    """Split a text into letters, each with its accents, vowel signs and the like."""
    found: list[str] = []
    for sign in unicodedata.normalize("NFC", text):
        if found and unicodedata.category(sign).startswith("M"):
            found[-1] += sign
        else:
            found.append(sign)
    return found


def cell(student: Student, lesson: Lesson) -> str:
    """Return what the table shows of a student in a lesson."""
    right = student.solved(lesson)
    wrong, unchecked = (student.count(lesson.names, kind) for kind in ("wrong", "unchecked"))
    signs = "*" * bool(wrong) + "?" * bool(unchecked) + "~" * bool(student.edited(lesson.names))
    begun = right or signs or student.count(lesson.names, "right")
    return f"{right}{signs}" if begun else "·"


def talk_lines(one: TalkAbout) -> list[str]:
    """Return an exercise and its mistakes as lines, each with how many students made it."""
    rest = one.begun - one.right - one.wrong
    counts = (
        f"{one.right} of {one.begun} solved it, {one.wrong} wrong, {rest} not written, {one.checks} checks"
    )
    texts = [f"{one.lesson}  {one.exercise}: {counts}"]
    for words, count in one.mistakes[:MISTAKES]:
        wrapped = textwrap.wrap(plain(words), WIDTH - 8, max_lines=2, placeholder=" ...") or ["..."]
        texts += [f"{count:6}  {wrapped[0]}", *(f"{'':8}{more}" for more in wrapped[1:])]
    others = sum(count for _, count in one.mistakes[MISTAKES:])
    return texts + [f"{others:6}  other mistakes"] * bool(others)


def short(text: str, width: int = WIDTH) -> str:
    """Return a text of somebody else as one line."""
    return textwrap.shorten(plain(text), width, placeholder=" ...")


def class_csv(students: Sequence[Student], lessons: Sequence[Lesson]) -> str:
    """Return a table for a spreadsheet: one row a student, one column an exercise, right answers by lesson before."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = [name for lesson in lessons for name in lesson.names]
    heads = [f"lesson {lesson.number}" for lesson in lessons]
    writer.writerow(["student", *heads, "points", *names, "notes"])
    for student in students:
        counts = [*map(student.solved, lessons), sum(map(student.points, lessons))]
        found = [student.found.get(name, Found("")) for name in names]
        kinds = [one.kind + ", edited since" * one.edited for one in found]
        writer.writerow([unread(student.name), *counts, *kinds, unread("; ".join(student.notes))])
    return file.getvalue()


def unread(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
