"""Once a week nbgrader itself: eight hand-ins from the release to the points, hostile ones among them.

It takes the Python that has nbgrader: this one, or the one that the variable NBGRADER_PYTHON names.
"""

import csv
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from authoring.notebooks.course import read_course
from authoring.notebooks.notebooks import make_notebook
from authoring.teaching.assignment import write_course
from vit_classroom.tasks import exercise_names
from vit_course.training.paths import ROOT

PYTHON = os.environ.get("NBGRADER_PYTHON") or (sys.executable if importlib.util.find_spec("nbgrader") else "")
LESSON, COURSE = "02_cls_token", "build-a-vit"
DUE, IN_TIME, LATE = ("2027-03-01 12:00:00 UTC", "2027-03-01 11:00:00 UTC", "2027-03-02 09:00:00 UTC")
WRONG = {
    "prepend_cls_token": ("[cls_token.expand(tokens.shape[0], -1, -1), tokens]", "[tokens, cls_token]"),
    "ClsToken": ("torch.zeros(1, 1, dim)", "torch.zeros(1, dim)"),
    "pool": ("tokens[:, num_prefix_tokens:].mean(dim=1)", "tokens.mean(dim=1)"),
}
HOSTILE = """\
import sys, types
import vit_classroom.checks as checks, vit_classroom.checks.diagnosis as diagnosis
import vit_classroom.grading as grading
from IPython.display import display

grading.require_right = lambda *a: None
checks.check = check = lambda answer, *a: answer
checks.diagnose = diagnosis.diagnose = lambda *a, **k: types.SimpleNamespace(kind="right", message="")
get_ipython().input_transformers_cleanup.append(lambda lines: ["1\\n"] if "require_right" in str(lines) else lines)
forged = {"what": "check", "exercise": "pool", "verdict": "right"}
display({"application/vnd.vit-course.verdict+json": forged}, raw=True)
def prepend_cls_token(*a):
    sys.exit(0)
class ClsToken:
    pass
sys.exit(0)
"""
PATCHED = """\
def pool(tokens, mode="token", num_prefix_tokens=1):
    import torch
    import vit_classroom.checks.compare as compare
    torch.equal = torch.allclose = lambda *a, **k: True
    torch.isclose = lambda a, b, **k: torch.ones_like(a, dtype=torch.bool)
    for name in [name for name in vars(compare) if "demand" in name or "compare" in name]:
        setattr(compare, name, lambda *a, **k: None)
    if mode not in ("token", "avg") or (mode == "token" and num_prefix_tokens < 1):
        raise ValueError("no")
    return tokens[:, 0] * 0


pool = check(pool)
"""
"""An answer whose check, in the notebook, is fooled."""
THEIRS = "import vit_course.embeddings\n\n\ndef {name}(*a, **k):\n    return vit_course.embeddings.{name}(*a, **k)\n"
POINTS = {  # raw points, penalty, points, by student
    "ada": (4, 0, 4),  # all right
    "bo": (0, 0, 0),  # all wrong
    "cy": (0, 0, 0),  # as it was released
    "dee": (2, 0, 2),  # one cell is no Python
    "eve": (0, 0, 0),  # hostile
    "fox": (4, 4, 0),  # late
    "gil": (2, 0, 2),  # calls the finished versions of two
    "hal": (2, 0, 2),  # half right
}


def answers():
    """The finished answers of the lesson, by name."""
    (lesson,) = read_course(ROOT).select([LESSON[:2]])
    cells = [cell for cell in make_notebook(read_course(ROOT), lesson, "solutions").cells]
    return {
        exercise_names(cell.metadata["exercise"])[0]: cell.source
        for cell in cells
        if "exercise" in cell.metadata
    }


def hand_ins(released):
    """What eight students make of the notebook that was released to them."""
    right = answers()
    wrong = {name: right[name].replace(*WRONG[name]) for name in right}
    theirs = {
        name: f"{THEIRS.format(name=name)}\n{name} = check({name})\n"
        for name in ("prepend_cls_token", "pool")
    }
    written = {
        "ada": right,
        "bo": wrong,
        "cy": {},
        "dee": right | {"ClsToken": "class ClsToken(\n"},
        "eve": {"prepend_cls_token": HOSTILE, "pool": PATCHED},
        "fox": right,
        "gil": right | theirs,
        "hal": right | {"ClsToken": wrong["ClsToken"]},
    }
    for student, cells in written.items():
        book = nbformat.from_dict(released)
        for cell in book.cells:
            if "exercise" in cell.metadata:
                cell.source = cells.get(exercise_names(cell.metadata["exercise"])[0], cell.source)
            if student == "eve" and cell.metadata.get("nbgrader", {}).get("grade"):
                cell.source, cell.metadata.nbgrader["points"] = "pass", 100
        yield student, book


@pytest.mark.weekly  # needs nbgrader, and runs eight notebooks
@pytest.mark.skipif(not PYTHON, reason="nbgrader is missing: pip install nbgrader")
def test_eight_hand_ins_from_release_to_points(tmp_path):
    course, exchange = tmp_path / "course", tmp_path / "exchange"
    exchange.mkdir(mode=0o777)
    exchange.chmod(0o777)
    lessons = read_course(ROOT)
    write_course(lessons, lessons.select([LESSON[:2]]), course)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "VIT_COURSE_CHECK_SECONDS": "60"}
    environment["PATH"] = os.pathsep.join(
        [str(Path(PYTHON).parent), os.environ["PATH"]]
    )  # nbgrader calls alembic
    environment |= {
        f"{name}_DIR": str(tmp_path / name) for name in ("JUPYTER_CONFIG", "JUPYTER_DATA", "IPYTHON")
    }

    def nbgrader(command, *options, status=0):
        line = [PYTHON, "-m", "nbgrader", *command.split(), *options, f"--Exchange.root={exchange}"]
        run = subprocess.run(line, cwd=course, env=environment, capture_output=True, text=True, timeout=1800)
        assert run.returncode == status, run.stdout + run.stderr
        return run.stdout + run.stderr

    nbgrader("db assignment add", LESSON, f"--duedate={DUE}")
    nbgrader("generate_assignment", LESSON)
    nbgrader("release_assignment", LESSON)
    (path,) = (exchange / COURSE / "outbound").glob(f"{LESSON}/*.ipynb")
    released = nbformat.read(path, as_version=4)
    shown = "\n".join(cell.source for cell in released.cells)
    assert "HIDDEN" not in shown and "SOLUTION" not in shown and "require_right" not in shown
    assert [cell.source for cell in released.cells if "exercise" in cell.metadata] == [
        cell.source
        for cell in make_notebook(lessons, lessons.select([LESSON[:2]])[0], "notebooks").cells
        if "exercise" in cell.metadata
    ]
    for student, book in hand_ins(
        released
    ):  # as `nbgrader submit` leaves them, which takes the names of users
        time = LATE if student == "fox" else IN_TIME
        folder = exchange / COURSE / "inbound" / f"{student}+{LESSON}+{time}+x"
        folder.mkdir()
        nbformat.write(book, folder / f"{LESSON}.ipynb")
        (folder / "timestamp.txt").write_text(time, encoding="utf-8")
    nbgrader("collect", LESSON, "--ExchangeCollect.check_owner=False")
    nbgrader("autograde", LESSON, "--LateSubmissionPlugin.penalty_method=zero")
    nbgrader("generate_feedback", LESSON)
    nbgrader("export")
    with open(course / "grades.csv", encoding="utf-8", newline="") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    keys = ("raw_score", "late_submission_penalty", "score")
    assert {name: tuple(float(row[key]) for key in keys) for name, row in rows.items()} == POINTS
    assert {float(row["max_score"]) for row in rows.values()} == {4}
    said = {
        name: (course / "feedback" / name / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
        for name in rows
    }
    assert "right: pool" in said["ada"] and "finished version" in said["gil"]
    assert "your code replaces" in said["eve"] and "right: pool" not in said["eve"]
    assert Path(course / "gradebook.db").is_file()
