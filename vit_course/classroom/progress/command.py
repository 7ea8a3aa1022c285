"""The command `python -m vit_course progress`: one's own progress, or the table of a class."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from vit_course.classroom.progress.classes import CORES, Student, class_csv, class_text, judge_class
from vit_course.classroom.progress.handed_in import HandedIn, read_class
from vit_course.classroom.progress.judge import Limits
from vit_course.classroom.progress.student import (
    export,
    kept_answers,
    student_text,
    summary,
    verified_answers,
    where,
)
from vit_course.classroom.progress.tasks import Lesson, read_lessons

CLEAR = "\033[2J\033[H"


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m vit_course progress",
        description="Show which exercises are right: your own, or those of a class. Solutions are public: this is "
        "progress, not an examination.",
    )
    own = parser.add_argument_group("your own answers")
    own.add_argument("--verify", action="store_true", help="run every check again")
    own.add_argument("--json", action="store_true", help="print data and no text")
    own.add_argument(
        "--export", type=Path, metavar="ZIP", help="write your answers into a zip for your teacher"
    )
    group = parser.add_argument_group("a class")
    group.add_argument(
        "--class",
        dest="folder",
        type=Path,
        metavar="FOLDER",
        help="check what students handed in: each zip, folder or notebook in this folder is one student",
    )
    group.add_argument("--csv", type=Path, metavar="FILE", help="write the table for a spreadsheet too")
    group.add_argument("--watch", type=float, metavar="SECONDS", help="look again every so many seconds")
    group.add_argument(
        "--jobs", type=int, default=CORES, help="students checked at a time (default: %(default)s)"
    )
    limits = parser.add_argument_group("limits of a checked answer")
    given = Limits()
    limits.add_argument(
        "--seconds", type=float, default=given.seconds, help="for a call (default: %(default)s)"
    )
    limits.add_argument("--memory", type=int, default=given.megabytes, help="in MB (default: %(default)s)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Show the progress; return the exit status."""
    options = read_arguments(arguments)
    limits, lessons = Limits(seconds=options.seconds, megabytes=options.memory), read_lessons()
    if options.folder:
        return show_class(options, limits, lessons)
    if options.export:
        count = export(options.export)
        print(f"{options.export} holds {count} answers." if count else f"No answer is kept yet. {where()}")
        return 0
    found, notes = verified_answers(limits) if options.verify else (kept_answers(), [])
    progress = summary(found, lessons)
    if options.json:
        print(json.dumps(progress | {"notes": notes}, indent=2))
    else:
        print("\n".join([student_text(progress), *notes]))
        if not found:
            print(where())
    return 0


def show_class(options: argparse.Namespace, limits: Limits, lessons: Sequence[Lesson]) -> int:
    """Show the table of a class, once or again and again; what has not changed is not checked anew."""
    known: dict[str, tuple[HandedIn, Student]] = {}
    try:
        while True:
            handed_in = read_class(options.folder)
            new = [one for one in handed_in if known.get(one.student, (None,))[0] != one]
            judged = judge_class(new, limits, options.jobs)
            known |= {one.student: (one, found) for one, found in zip(new, judged, strict=True)}
            students = [known[one.student][1] for one in handed_in]
            if options.csv:
                options.csv.write_text(class_csv(students, lessons), encoding="utf-8", newline="\n")
            text = class_text(students, lessons) if students else f"Nothing is in {options.folder} yet."
            if not options.watch:
                print(text)
                return 0
            if new or not known:
                print((CLEAR if sys.stdout.isatty() else "") + text, flush=True)
            time.sleep(options.watch)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
