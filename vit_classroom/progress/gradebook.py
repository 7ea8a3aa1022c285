"""Points of a class as the gradebooks of Moodle and Canvas import them, one column a lesson.

A gradebook knows a student by an e-mail address or a number. Both are read from the name of the hand-in, where it has
them, or from a list of the class that the platform has exported.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vit_classroom.answer_folder import log_text
from vit_classroom.progress.classes import Student, unread
from vit_classroom.progress.handed_in import PLATFORM, whose
from vit_classroom.tasks import Lesson

EMAIL = re.compile(r"[\w.+'-]+@[\w-]+(?:\.[\w-]+)+")
NUMBER = re.compile(r"(?<![\w.@])\d{4,}(?![\w.@])")
"""A student's number stands alone, or between brackets, spaces and the like, and has four digits or more."""
MOODLE = ("First name", "Last name", "ID number", "Email address")
CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
POSSIBLE = "    Points Possible"
"""Where the second row of Canvas has the most that one can get; the spaces are Canvas's."""
SURNAME = {"Surname": "Last name"}
"""What Moodle calls a column in some versions."""
Row = Mapping[str, str]


def known_by(path: Path) -> dict[str, str]:
    """Read from the name of a hand-in what a gradebook knows its student by, as columns of Moodle and Canvas."""
    name, given = whose(path)[0].replace("_", " "), PLATFORM.fullmatch(path.name)
    found = {}
    if email := EMAIL.search(whose(path)[0]):
        found |= {"Email address": email[0], "SIS Login ID": email[0]}
    if number := NUMBER.search(EMAIL.sub(" ", name)):
        found |= {"ID number": number[0], "SIS User ID": number[0]}
    if given and given["number"]:  # Canvas names a file by the student's number in Canvas
        found["ID"] = given["number"]
    return found


def read_roster(path: Path) -> list[dict[str, str]]:
    """Read a list of the class: Moodle's list of participants, or Canvas's exported gradebook, as CSV.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it has no column that a gradebook knows a student by.
    """
    lines = csv.DictReader(io.StringIO(log_text(path.read_bytes()).replace("\r\n", "\n")))
    rows = [
        {SURNAME.get(key, key): (value or "").strip() for key, value in row.items() if key} for row in lines
    ]
    if not rows or not {"Email address", "ID number", "ID", "SIS Login ID"} & rows[0].keys():
        raise ValueError(f"{path} has no column Email address, ID number, ID or SIS Login ID")
    return [row for row in rows if POSSIBLE.strip() not in row.get("Student", "")]


def names_of(row: Row) -> str:
    """Return the name of a row as it is compared: "Lovelace, Ada" and "Ada Lovelace" are one."""
    name = row.get("Student") or f"{row.get('First name', '')} {row.get('Last name', '')}"
    last, comma, first = name.partition(",")
    return " ".join(f"{first} {last}".split() if comma else name.split()).casefold()


def identified(student: Student, roster: Sequence[Row]) -> dict[str, str]:
    """Return what is known of a student: from the roster by number, e-mail or name, else from the hand-in's name.

    Two of one name are not told apart by it.
    """
    known = known_by(student.path)
    for key in ("ID", "Email address", "SIS Login ID", "ID number", "SIS User ID"):
        same = [
            row for row in roster if known.get(key) and row.get(key, "").casefold() == known[key].casefold()
        ]
        if len(same) == 1:
            return known | same[0]
    name = " ".join(whose(student.path)[0].split()).casefold()
    same = [row for row in roster if names_of(row) == name]
    return known | same[0] if len(same) == 1 else known


def gradebook(
    students: Sequence[Student], lessons: Sequence[Lesson], roster: Sequence[Row], canvas: bool
) -> tuple[str, list[str]]:
    """Return a table for an import, and the names of those whom the gradebook cannot know.

    Args:
        students: of the class.
        lessons: a column each, with the points of its exercises.
        roster: rows of the list of the class, [] for none.
        canvas: whether it is for Canvas; else it is for Moodle.
    """
    columns = CANVAS if canvas else MOODLE
    keys = ("ID", "SIS User ID", "SIS Login ID") if canvas else ("ID number", "Email address")
    rows: list[Iterable[object]] = [[*columns, *(f"Lesson {lesson.number}" for lesson in lessons)]]
    if canvas:
        rows.append([POSSIBLE, *[""] * (len(columns) - 1), *(lesson.points for lesson in lessons)])
    unknown = []
    for student in students:
        known = identified(student, roster)
        if not any(known.get(key) for key in keys):
            unknown.append(student.name)
        first, _, last = student.name.partition(" ")
        named = {"Student": student.name, "First name": first, "Last name": last} | known
        rows.append([*(unread(named.get(one, "")) for one in columns), *map(student.points, lessons)])
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue(), unknown
