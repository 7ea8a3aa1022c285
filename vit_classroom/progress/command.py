"""The command `python -m vit_classroom progress`: your own progress, or the table of a class."""

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from vit_classroom.progress.classes import class_csv, class_text, read_class
from vit_classroom.progress.student import export, own_verdicts, student_text, summary, where
from vit_classroom.tasks import Lesson, read_lessons

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
    options = parser.parse_args(arguments)
    if options.folder and (options.json or options.export):
        parser.error("--json and --export are for your own answers: leave out --class")
    if not options.folder and (options.csv or options.watch):
        parser.error("--csv and --watch are for a class: add --class FOLDER")
    return options


def main(arguments: Sequence[str]) -> int:
    """Show the progress; return the exit status."""
    options, lessons = read_arguments(arguments), read_lessons()
    if not lessons:
        print("The lessons are not here: call this in the folder of the course.", file=sys.stderr)
        return 1
    try:
        if options.folder:
            return show_class(options, lessons)
        if options.export:
            count = export(options.export)
            print(f"{options.export} contains the results of your checks, with {count} right answers.")
            return 0
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    found = own_verdicts()
    progress = summary(found, lessons)
    print(json.dumps(progress, indent=2) if options.json else student_text(progress))
    if not found and not options.json:
        print(where())
    return 0


def show_class(options: argparse.Namespace, lessons: Sequence[Lesson]) -> int:
    """Show the table of a class, once or again and again.

    Raises:
        OSError: if there is no such folder.
    """
    shown, status = None, 0
    try:
        while True:
            students = read_class(options.folder)
            text = class_text(students, lessons) if students else f"Nothing is in {options.folder} yet."
            if students != shown:
                shown, clear = students, CLEAR if options.watch and sys.stdout.isatty() else ""
                print(clear + text, flush=True)
                status = write_table(options.csv, class_csv(students, lessons))
            if not options.watch:
                return status
            time.sleep(options.watch)
    except KeyboardInterrupt:
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
