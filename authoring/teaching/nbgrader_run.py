"""How nbgrader runs a hand-in of this course: as always, and then each test says what `alone` finds.

The settings that `make assignment` writes name this class. It needs nbgrader, which nothing else of the course needs.
"""

import contextlib
import os
import tempfile
from typing import Any

from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import Execute
from nbgrader.utils import is_grade

from vit_classroom.grading.alone import judge_all


class ExecuteAndJudge(Execute):
    """Run a notebook, with a folder of answers for itself alone, and put the verdicts into its test cells."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Run a notebook that was handed in; a kernel that it kills costs no answer its points."""
        with tempfile.TemporaryDirectory() as folder:
            os.environ["VIT_COURSE_ANSWERS"] = folder
            with contextlib.suppress(DeadKernelError):
                super().preprocess(nb, resources)
        put_verdicts(nb)
        return nb, resources


def put_verdicts(nb: NotebookNode) -> None:
    """Replace the outputs of the test cells: an error where an answer is not right, and a line where all are."""
    above: list[str] = []
    tests, answers = [], []
    for cell in nb.cells:
        names = names_of(cell)
        if names:
            tests.append((cell, names))
            answers += [(name, list(above)) for name in names]
        elif cell.cell_type == "code":
            above.append(cell.source)
    said = judge_all(answers)
    for cell, names in tests:
        wrong = [f"{name}: {said[name]}" for name in names if said[name]]
        if wrong:
            text = "\n".join(wrong)
            output = new_output("error", ename="NotRight", evalue=text, traceback=[f"not right\n{text}"])
        else:
            output = new_output("stream", name="stdout", text=f"right: {', '.join(names)}\n")
        cell.outputs = [output]


def names_of(cell: NotebookNode) -> list[str]:
    """Return the exercises that a test cell is for, as nbgrader's own id of the cell says; [] for any other cell."""
    if not is_grade(cell):
        return []
    return cell.metadata.nbgrader["grade_id"].removeprefix("test-").split("-")
