"""The table of a class, students by lessons, and what to talk about: exercises that fewer than half solved."""

import csv
import io
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from vit_course.classroom.progress.handed_in import HandedIn
from vit_course.classroom.progress.judge import Found, Judged, Limits, judge
from vit_course.classroom.progress.tasks import Lesson
from vit_course.classroom.tables import table

WIDTH = 100
NAME = 18
CORES = 2
TRIED = ("wrong", "stopped")
TALKS, MISTAKES = 10, 4
"""So many exercises are shown, and so many mistakes of each."""
LEGEND = (
    "Numbers are right answers; * means that others there are wrong; · means that nothing is written yet."
)


@dataclass(frozen=True)
class Student:
    """One student of a class: what was found, by exercise, and what there is to say."""

    name: str
    found: dict[str, Found]
    notes: list[str] = field(default_factory=list)

    def count(self, names: Iterable[str], *kinds: str) -> int:
        """Count the exercises of which one of these was found."""
        return sum(self.found[name].kind in kinds for name in names if name in self.found)


@dataclass(frozen=True)
class TalkAbout:
    """An exercise that fewer than half of those who work on its lesson solved, and the mistakes they made."""

    lesson: str
    exercise: str
    right: int
    wrong: int
    begun: int
    mistakes: list[tuple[str, int]]


def judge_class(handed_in: Sequence[HandedIn], limits: Limits, jobs: int = CORES) -> list[Student]:
    """Check what a class handed in, several students at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        judged = pool.map(lambda one: Judged() if one.refused else judge(one.files, limits), handed_in)
        return [
            Student(one.student, found.found, [f"refused: {one.refused}"] * bool(one.refused) + found.notes)
            for one, found in zip(handed_in, judged, strict=True)
        ]


def talk_about(students: Sequence[Student], lessons: Sequence[Lesson]) -> list[TalkAbout]:
    """List what fewer than half solved of those who began its lesson, what keeps most of them busy first."""
    found = []
    for lesson in lessons:
        begun = [student for student in students if student.count(lesson.names, "right", *TRIED)]
        for name in lesson.names:
            right = sum(student.count([name], "right") for student in begun)
            wrong = [student.found[name].mistake for student in begun if student.count([name], *TRIED)]
            if wrong and 2 * right < len(begun):
                mistakes = Counter(wrong).most_common()
                found.append(TalkAbout(lesson.number, name, right, len(wrong), len(begun), mistakes))
    return sorted(found, key=lambda one: one.right - one.begun)


# -- as text


def class_text(students: Sequence[Student], lessons: Sequence[Lesson]) -> str:
    """Return the table, what went wrong while it was made, and what to talk about."""
    parts = [class_table(students, lessons), LEGEND]
    notes = [f"{student.name}: {note}" for student in students for note in student.notes]
    lines = ["Not everything could be checked:", *(f"  {short(note, WIDTH - 2)}" for note in notes)]
    parts.append("\n".join(lines) if notes else "")
    talks = talk_about(students, lessons)
    texts = [text for one in talks[:TALKS] for text in talk_lines(one)]
    if talks[TALKS:]:
        texts.append("and, for fewer students: " + ", ".join(one.exercise for one in talks[TALKS:]))
    head = "Talk about these: fewer than half of those who work on the lesson have solved them."
    parts.append("\n".join([head, *texts]) if talks else "")
    return "\n\n".join(filter(None, parts))


def class_table(students: Sequence[Student], lessons: Sequence[Lesson]) -> str:
    """Return the table of students and lessons as text."""
    columns = ["student", *(lesson.number for lesson in lessons), "all"]
    counts = [str(len(lesson.names)) for lesson in lessons]
    rows = [["there are", *counts, str(sum(len(lesson.names) for lesson in lessons))]]
    for student in students:
        cells = [cell(student, lesson) for lesson in lessons]
        rows.append([short(student.name, NAME), *cells, str(student.count(student.found, "right"))])
    return str(table(rows, columns))


def cell(student: Student, lesson: Lesson) -> str:
    """Return what the table shows of a student in a lesson."""
    right, wrong = student.count(lesson.names, "right"), student.count(lesson.names, *TRIED)
    return f"{right}{'*' * bool(wrong)}" if right or wrong else "·"


def talk_lines(one: TalkAbout) -> list[str]:
    """Return an exercise and its mistakes as lines."""
    rest = one.begun - one.right - one.wrong
    counts = f"{one.right} of {one.begun} right, {one.wrong} wrong, {rest} not written"
    texts = [f"{one.lesson}  {one.exercise}: {counts}"]
    for words, count in one.mistakes[:MISTAKES]:
        wrapped = textwrap.wrap(plain(words), WIDTH - 8, max_lines=2, placeholder=" ...")
        texts += [f"{count:6}  {wrapped[0]}", *(f"{'':8}{more}" for more in wrapped[1:])]
    others = sum(count for _, count in one.mistakes[MISTAKES:])
    return texts + [f"{others:6}  other mistakes"] * bool(others)


def plain(text: str) -> str:
    """Return a text of somebody else without what a terminal takes for a command."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def short(text: str, width: int = WIDTH) -> str:
    """Return a text of somebody else as one line."""
    return textwrap.shorten(plain(text), width, placeholder=" ...")


def class_csv(students: Sequence[Student], lessons: Sequence[Lesson]) -> str:
    """Return a table for a spreadsheet: one row a student, one column an exercise, right answers by lesson before."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = [name for lesson in lessons for name in lesson.names]
    writer.writerow(["student", *(f"lesson {lesson.number}" for lesson in lessons), *names, "notes"])
    for student in students:
        counts = [student.count(lesson.names, "right") for lesson in lessons]
        kinds = [student.found[name].kind if name in student.found else "" for name in names]
        writer.writerow([unread(student.name), *counts, *kinds, unread("; ".join(student.notes))])
    return file.getvalue()


def unread(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
