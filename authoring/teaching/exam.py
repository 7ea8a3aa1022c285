"""Exam questions of some lessons, for print: `python -m authoring.teaching.exam 01 02 [--answers]`.

The questions are in `exam.yaml` beside this file. No archive of a release holds them (`.gitattributes`).
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from authoring.notebooks.course import LessonError
from authoring.site.pages import read_yaml

SOURCE = Path(__file__).with_name("exam.yaml")


def exam_text(numbers: Sequence[str], answers: bool) -> str:
    """Return the questions of lessons as Markdown; without numbers, of all.

    Raises:
        LessonError: if there is none.
    """
    wanted = {number.zfill(2) for number in numbers}
    chosen = [one for one in read_yaml(SOURCE) if not wanted or one["lesson"] in wanted]
    if not chosen:
        raise LessonError(f"no question is about lesson {', '.join(sorted(wanted))}")
    parts = []
    for number, one in enumerate(chosen, 1):
        parts.append(f"**{number}.** ({one['points']} points) {one['ask'].strip()}")
        parts += [f"*Answer, lesson {one['lesson']}.* {one['answer'].strip()}"] * answers
    return "\n\n".join([*parts, f"{sum(one['points'] for one in chosen)} points in all."])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description="Print exam questions.")
    parser.add_argument("numbers", nargs="*", metavar="NN", help="lessons by number; without, all")
    parser.add_argument("--answers", action="store_true", help="with answers, for whoever marks")
    options = parser.parse_args(arguments)
    try:
        print(exam_text(options.numbers, options.answers))
    except LessonError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
