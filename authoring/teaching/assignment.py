"""An nbgrader course of some lessons, `make assignment LESSONS="01 02"`: source notebooks and settings.

Each lesson is one assignment. An exercise becomes an answer cell, whose solution nbgrader removes from the student's
version, and a locked cell with a hidden test. The test is worth as many points as the exercise has dots of difficulty.
nbgrader does the rest: docs/assignment.md says how.
"""

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from authoring.notebooks.build import file_text
from authoring.notebooks.course import ROOT, Course, Lesson, LessonError, read_course
from authoring.notebooks.notebooks import make_notebook
from vit_classroom.tasks import exercise_names

FOLDER = Path("nbgrader-course")
BEGIN, END, STUB = "### BEGIN SOLUTION", "### END SOLUTION", "raise NotImplementedError"
TEST = """\
# {points} point{s} for {names}: the check has to call the answer right when nothing else of the notebook has run.
### BEGIN HIDDEN TESTS
from vit_classroom.grading import require_right

{calls}
### END HIDDEN TESTS"""
CONFIG = '''\
"""Settings of nbgrader for this course: `nbgrader --help-all` lists all there are."""

import os
import sys

sys.path.insert(0, {root!r})  # the folder of the course
c = get_config()
c.CourseDirectory.course_id = "{course}"
c.ClearSolutions.code_stub = {{"python": "{stub}"}}
c.OverwriteCells.add_missing_cells = True  # a test that a student deleted
c.Execute.timeout = 600  # seconds for a cell
c.LateSubmissionPlugin.penalty_method = "none"  # "zero": what comes after the due date gets no points
c.Autograde.autograde_preprocessors = [
    "authoring.teaching.nbgrader_run.ExecuteAndJudge",
    *(f"nbgrader.preprocessors.{{name}}" for name in ("IgnorePattern", "LimitOutput", "SaveAutoGrades")),
    *(f"nbgrader.preprocessors.{{name}}" for name in ("AssignLatePenalties", "CheckCellMetadata")),
]
os.environ.setdefault("VIT_COURSE_PROFILE", "smoke")  # trainings take seconds
os.environ.setdefault("VIT_COURSE_DATA", "shapes10")
os.environ.setdefault("VIT_COURSE_CHECK_SECONDS", "30")  # for the check of one answer, also on a busy machine
'''
IMAGE = re.compile(r"!\[([^\]]*)\]\((\.\./[^)#]+)\)")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)[^)]+\)")
SOLUTION = re.compile(r"<details><summary>Solution</summary>.*?</details>\n*", re.DOTALL)
SOLVED = re.compile(r" · \[the solved notebook\]\([^)]*\)")


def write_course(course: Course, lessons: Sequence[Lesson], folder: Path) -> list[Path]:
    """Write the assignments of lessons into an nbgrader course directory; what else is in it stays.

    Raises:
        LessonError: if a lesson has no exercise.
    """
    written = []
    for lesson in lessons:
        if not any(cell.references for cell in lesson.cells):
            raise LessonError(f"lesson {lesson.number} has no exercise, so it is no assignment")
        place = folder / "source" / lesson.slug
        place.mkdir(parents=True, exist_ok=True)
        book = source_notebook(course, lesson)
        for cell in (cell for cell in book.cells if cell.cell_type == "markdown"):
            for _, path in IMAGE.findall(cell.source):
                shutil.copy(course.root / "notebooks" / path, place)
            cell.source = without_links(cell.source)
        written.append(place / f"{lesson.slug}.ipynb")
        written[-1].write_text(file_text(book), encoding="utf-8", newline="\n")
    config = folder / "nbgrader_config.py"
    if not config.exists():
        config.write_text(
            CONFIG.format(root=str(course.root), course="build-a-vit", stub=STUB),
            encoding="utf-8",
            newline="\n",
        )
        written.append(config)
    return written


def without_links(text: str) -> str:
    """Return a text for a notebook that lies alone: no way to solutions, images beside it, other links as words."""
    text = SOLVED.sub("", SOLUTION.sub("", text)).rstrip()
    text = IMAGE.sub(lambda found: f"![{found[1]}]({Path(found[2]).name})", text)
    return LINK.sub(r"\1", text)


def source_notebook(course: Course, lesson: Lesson) -> NotebookNode:
    """Return the source notebook of an assignment: the student's edition, with solutions, tests and metadata."""
    book = make_notebook(course, lesson, "notebooks")
    solved = {cell.id: cell.source for cell in make_notebook(course, lesson, "solutions").cells}
    cells = []
    for cell in book.cells:
        cells.append(cell)
        if "exercise" not in cell.metadata:
            continue
        names = exercise_names(cell.metadata["exercise"])
        source = with_solution(cell.source, solved[cell.id])
        if source is not None:  # else it is code to be fixed, which a student gets as it is
            cell.source = source
            cell.metadata["nbgrader"] = nbgrader_metadata(f"answer-{'-'.join(names)}", solution=True)
        cells.append(test_cell(cell, names))
    book.cells = cells
    return book


def test_cell(cell: NotebookNode, names: Sequence[str]) -> NotebookNode:
    """Return the locked cell below an exercise, with the hidden test and the points."""
    points = cell.metadata["difficulty"]
    calls = "\n".join(f'require_right({name}, "{name}")' for name in names)
    source = TEST.format(points=points, s="s" * (points > 1), names=" and ".join(names), calls=calls)
    metadata = {"nbgrader": nbgrader_metadata(f"test-{'-'.join(names)}", points=points)}
    return new_code_cell(source, id=f"{cell.id}-test", metadata=metadata)


def nbgrader_metadata(grade_id: str, solution: bool = False, points: int = 0) -> dict:
    """Return the metadata of a cell as nbgrader's documentation names them ("JSON Metadata Format")."""
    flags = {"grade": not solution, "solution": solution, "locked": not solution, "task": False}
    return {"schema_version": 3, "grade_id": grade_id, **flags} | ({} if solution else {"points": points})


def with_solution(stub: str, finished: str) -> str | None:
    """Return the finished cell with marks around what nbgrader takes out; None if that leaves another stub."""
    before, after = stub.split("\n"), finished.split("\n")
    lines: list[str] = []
    for kind, _, _, start, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        block = after[start:end]
        if kind != "equal":
            indent = re.match(r" *", next(filter(str.strip, block), ""))[0]
            block = [f"{indent}{BEGIN}", *block, f"{indent}{END}"]
        lines += block
    return "\n".join(lines) if without_solutions(lines) == before else None


def without_solutions(lines: Sequence[str]) -> list[str]:
    """Return what nbgrader leaves of a cell."""
    left, inside = [], False
    for line in lines:
        if line.strip() == BEGIN:
            left.append(line.replace(BEGIN, STUB))
            inside = True
        elif line.strip() == END:
            inside = False
        elif not inside:
            left.append(line)
    return left


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description="Write an nbgrader course of some lessons.")
    parser.add_argument("numbers", nargs="+", metavar="NN", help="lessons by number")
    parser.add_argument(
        "--to", type=Path, default=FOLDER, metavar="FOLDER", help="where; %(default)s if not said"
    )
    options = parser.parse_args(arguments)
    try:
        course = read_course(ROOT)
        for path in write_course(course, course.select(options.numbers), options.to):
            print(f"wrote {path}")
    except (LessonError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
