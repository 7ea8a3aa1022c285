"""The command `python -m vit_classroom progress`: your own progress, or the table of a class."""

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from datetime import time as clock
from pathlib import Path

from vit_classroom.progress.classes import Student, class_csv, class_text, read_class
from vit_classroom.progress.gradebook import gradebook, read_roster
from vit_classroom.progress.student import export, own_verdicts, student_text, summary, where
from vit_classroom.tables import plain
from vit_classroom.tasks import Lesson, read_lessons

GRADEBOOKS = {"moodle": "Moodle's gradebook", "canvas": "Canvas's gradebook"}
CLEAR = "\033[2J\033[H"


def seconds(text: str) -> float:
    """Read a time to wait.

    Raises:
        argparse.ArgumentTypeError: if it is not a number above 0 and at most a day.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 10")
    return value


def moment(text: str) -> str:
    """Read a date, whose end is meant, or a date and time, by the clock of this machine; return it as verdicts have it.

    Raises:
        argparse.ArgumentTypeError: if it is neither.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no date, such as 2027-03-01 or 2027-03-01T12:00"
        ) from None
    if len(text) <= len("2027-03-01"):
        read = datetime.combine(read, clock.max)
    return read.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m vit_classroom progress",
        description="Show which exercises are right, for you or for a class. The solutions are public, so this "
        "is progress and not an examination. Code that students hand in is never run.",
    )
    own = parser.add_argument_group("your own answers")
    own.add_argument("--json", action="store_true", help="print data for other programs")
    own.add_argument(
        "--export", type=Path, metavar="ZIP", help="write your answers into a zip for your teacher"
    )
    group = parser.add_argument_group("a class")
    group.add_argument(
        "--class",
        dest="folder",
        type=Path,
        metavar="FOLDER",
        help="read the answers of a class; each zip, folder or notebook in this folder is one student",
    )
    group.add_argument("--csv", type=Path, metavar="FILE", help="write the table for a spreadsheet too")
    group.add_argument("--watch", type=seconds, metavar="SECONDS", help="look again every so many seconds")
    group.add_argument("--lesson", nargs="+", metavar="NN", help="only these lessons")
    group.add_argument(
        "--until",
        type=moment,
        metavar="DATE",
        help="what was right by then: a date, or 2027-03-01T12:00",
    )
    for name, platform in GRADEBOOKS.items():
        group.add_argument(
            f"--{name}", type=Path, metavar="FILE", help=f"write points for {platform} to import"
        )
    group.add_argument(
        "--roster",
        type=Path,
        metavar="FILE",
        help="the list of the class that Moodle or Canvas exports, as CSV",
    )
    options = parser.parse_args(arguments)
    if options.folder and (options.json or options.export):
        parser.error("--json and --export are for your own answers: leave out --class")
    of_a_class = ("csv", "watch", "lesson", "until", *GRADEBOOKS, "roster")
    if not options.folder and any(getattr(options, name) for name in of_a_class):
        parser.error(f"{', '.join(f'--{name}' for name in of_a_class)} are for a class: add --class FOLDER")
    return options


def main(arguments: Sequence[str]) -> int:
    """Show the progress; return the exit status."""
    options, lessons = read_arguments(arguments), read_lessons()
    if not lessons:
        print("The lessons are not here: call this in the folder of the course.", file=sys.stderr)
        return 1
    try:
        if options.folder:
            return show_class(options, chosen(lessons, options.lesson))
        if options.export:
            count = export(options.export)
            print(f"{options.export} contains the results of your checks, with {count} right answers.")
            return 0
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    found = own_verdicts()
    progress = summary(found, lessons)
    print(json.dumps(progress, indent=2) if options.json else student_text(progress))
    if not found and not options.json:
        print(where())
    return 0


def chosen(lessons: Sequence[Lesson], numbers: Sequence[str] | None) -> list[Lesson]:
    """Return the lessons with these numbers ("3" and "03" are the same); without numbers, all.

    Raises:
        ValueError: if one has no exercises, or does not exist.
    """
    wanted = {number.zfill(2) for number in numbers or ()}
    if unknown := sorted(wanted - {lesson.number for lesson in lessons}):
        raise ValueError(f"no lesson with exercises has the number {', '.join(unknown)}")
    return [lesson for lesson in lessons if not wanted or lesson.number in wanted]


def show_class(options: argparse.Namespace, lessons: Sequence[Lesson]) -> int:
    """Show the table of a class, once or again and again.

    Raises:
        OSError: if there is no such folder, or the list of the class cannot be read.
        ValueError: if that list is none.
    """
    shown, status = None, 0
    roster = read_roster(options.roster) if options.roster else []
    try:
        while True:
            students = read_class(options.folder, options.until or "")
            text = class_text(students, lessons) if students else f"Nothing is in {options.folder} yet."
            if students != shown:
                shown, clear = students, CLEAR if options.watch and sys.stdout.isatty() else ""
                print(clear + text, flush=True)
                status = write_table(options.csv, class_csv(students, lessons))
                status |= write_gradebooks(options, students, lessons, roster)
            if not options.watch:
                return status
            time.sleep(options.watch)
    except KeyboardInterrupt:
        return status


def write_gradebooks(
    options: argparse.Namespace,
    students: Sequence[Student],
    lessons: Sequence[Lesson],
    roster: Sequence[dict],
) -> int:
    """Write the tables for the gradebooks that are wanted, and name whom they cannot know; return the exit status."""
    status = 0
    for name, platform in GRADEBOOKS.items():
        if path := getattr(options, name):
            text, unknown = gradebook(students, lessons, roster, canvas=name == "canvas")
            status |= write_table(path, text)
            if unknown:
                names = ", ".join(map(plain, unknown))
                print(f"no e-mail and no number for {platform} (add --roster): {names}", file=sys.stderr)
    return status


def write_table(path: Path | None, text: str) -> int:
    """Write the table for a spreadsheet, if one is wanted; return the exit status."""
    try:
        if path:
            path.write_text(text, encoding="utf-8", newline="\n", errors="replace")
    except OSError as error:
        print(f"{path} cannot be written: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0
