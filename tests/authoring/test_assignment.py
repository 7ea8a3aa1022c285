"""Assignments for nbgrader: what their notebooks say, and how answers are judged by their text."""

import re
from functools import cache

import nbformat
import pytest

from authoring.notebooks.course import LessonError, read_course
from authoring.notebooks.notebooks import make_notebook
from authoring.teaching import assignment
from authoring.teaching.assignment import BEGIN, END, source_notebook, without_solutions, write_course
from vit_classroom.grading.alone import ENDED, judge, judge_all
from vit_classroom.tasks import exercise_names, read_lessons
from vit_course.training.paths import ROOT


@cache
def course():
    """The lessons as their authors wrote them."""
    return read_course(ROOT)


LESSONS = [lesson for lesson in course().lessons if any(cell.references for cell in lesson.cells)]


def graded(book):
    """The test cells of a notebook."""
    return [cell for cell in book.cells if cell.metadata.get("nbgrader", {}).get("grade")]


# --- the notebooks, on every push


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_an_assignment_is_a_notebook_with_a_test_for_each_exercise_worth_its_difficulty(lesson):
    book = source_notebook(course(), lesson)
    nbformat.validate(book)
    exercises = [cell for cell in book.cells if "exercise" in cell.metadata]
    assert [cell.metadata.nbgrader.points for cell in graded(book)] == [
        cell.metadata.difficulty for cell in exercises
    ]
    (tasks,) = (one.tasks for one in read_lessons() if one.slug == lesson.slug)
    assert [cell.metadata.nbgrader.grade_id for cell in graded(book)] == [
        f"test-{'-'.join(task.names)}" for task in tasks
    ]
    ids = [cell.metadata.nbgrader.grade_id for cell in book.cells if "nbgrader" in cell.metadata]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[\w-]+", one) for one in ids)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_without_its_solutions_an_assignment_has_the_cells_of_the_students_notebook(lesson):
    book, students = source_notebook(course(), lesson), make_notebook(course(), lesson, "notebooks")
    kept = {cell.id: "\n".join(without_solutions(cell.source.split("\n"))) for cell in book.cells}
    tests = {f"{cell.id}-test" for cell in students.cells if "exercise" in cell.metadata}
    assert kept.keys() == {cell.id for cell in students.cells} | tests
    assert all(kept[cell.id] == cell.source for cell in students.cells)


def test_most_answers_of_the_source_are_solutions_and_nearly_all_of_the_rest_is_code_to_be_fixed():
    cells = [
        (lesson.number, cell)
        for lesson in LESSONS
        for cell in source_notebook(course(), lesson).cells
        if "exercise" in cell.metadata
    ]
    plain = [number for number, cell in cells if "nbgrader" not in cell.metadata]
    assert all(
        BEGIN in cell.source and END in cell.source for _, cell in cells if "nbgrader" in cell.metadata
    )
    assert sum(number != "14" for number in plain) <= 2 and len(cells) > 60


def test_a_course_directory_leads_to_no_solution_and_holds_its_images(tmp_path):
    write_course(course(), course().select(["1", "02"]), tmp_path)
    for path in sorted(tmp_path.glob("source/*/*.ipynb")):
        book = nbformat.read(path, as_version=4)
        text = "\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown")
        assert "solved notebook" not in text and "../" not in text and ".ipynb" not in text
        images = re.findall(r"!\[[^\]]*\]\(([^):]+)\)", text)
        assert images and all((path.parent / image).is_file() for image in images)
    assert sorted(path.name for path in tmp_path.glob("source/*")) == ["01_patches", "02_cls_token"]


def test_written_again_a_course_keeps_the_settings_of_the_teacher(tmp_path):
    write_course(course(), course().select(["01"]), tmp_path)
    (tmp_path / "nbgrader_config.py").write_text("mine", encoding="utf-8")
    write_course(course(), course().select(["01"]), tmp_path)
    assert (tmp_path / "nbgrader_config.py").read_text(encoding="utf-8") == "mine"


def test_a_lesson_without_exercises_or_without_a_number_is_no_assignment(tmp_path, capsys):
    empty = next((lesson for lesson in course().lessons if lesson not in LESSONS), None)
    if empty:
        with pytest.raises(LessonError, match="has no exercise"):
            write_course(course(), [empty], tmp_path)
    assert assignment.main(["99", "--to", str(tmp_path)]) == 1
    assert "no lesson 99" in capsys.readouterr().err


# --- answers judged by their text


def solved_cells(number):
    """The code cells of a solved lesson, by the names of their exercises."""
    lesson = course().select([number])[0]
    cells = make_notebook(course(), lesson, "solutions").cells
    return {
        "-".join(exercise_names(cell.metadata["exercise"])): cell.source
        for cell in cells
        if "exercise" in cell.metadata
    }


HOSTILE = """
import sys, types
import vit_classroom.checks.diagnosis, vit_classroom.checks, torch
vit_classroom.checks.diagnosis.diagnose = vit_classroom.checks.diagnose = lambda *a, **k: types.SimpleNamespace(
    kind="right", message="", mistake="", exercise=None)
torch.equal = torch.allclose = lambda *a, **k: True
def pool(tokens, mode="token", num_prefix_tokens=1):
    return tokens
"""
IN_A_CALL = """
def pool(tokens, mode="token", num_prefix_tokens=1):
    import vit_classroom.checks.task as task
    task.compare = lambda *a, **k: None
    print('["pool", ""]', flush=True)
    {rest}
"""
BY_HAND = """
def pool(tokens, mode="token", num_prefix_tokens=1):
    import os, __main__
    os.write(1, f'\\n{__main__.job["token"]}["pool", ""]\\n'.encode())
    return tokens
"""
PATCHED = """
def pool(tokens, mode="token", num_prefix_tokens=1):
    import torch
    import vit_classroom.checks.compare as compare
    torch.equal = torch.allclose = lambda *a, **k: True
    torch.testing.assert_close = lambda *a, **k: None
    torch.isclose = lambda a, b, **k: torch.ones_like(a, dtype=torch.bool)
    for name in [name for name in vars(compare) if "demand" in name or "compare" in name or "same" in name]:
        setattr(compare, name, lambda *a, **k: None)
    if mode not in ("token", "avg") or (mode == "token" and num_prefix_tokens < 1):
        raise ValueError("no")
    return tokens[:, 0] * 0
"""
FINISHED = (
    "from vit_course.embeddings import pool as theirs\n\ndef pool(*a, **k):\n    return theirs(*a, **k)\n"
)


def test_answers_are_judged_by_their_text_whatever_they_do_to_the_checks():
    right = solved_cells("02")["pool"]
    right_but = right.replace(
        "    if mode not in", "    import math\n    math.sqrt = abs\n    if mode not in", 1
    )
    assert right_but != right
    cases = {
        "right": [right],
        "patched before": [HOSTILE],
        "patched in a call": [IN_A_CALL.format(rest="return tokens")],
        "patched comparisons": [PATCHED],
        "right, and patches": [right_but],
        "finished": [FINISHED],
        "imported": ["from vit_course.embeddings import pool"],
        "syntax": ["def pool(:\n"],
        "missing": ["x = 1"],
    }
    said = {case: judge("pool", cells) for case, cells in cases.items()}
    assert said.pop("right") == ""
    assert all(said.values()), said
    assert "replaces `math.sqrt`" in said["right, and patches"]
    assert "finished version" in said["finished"]


def test_a_process_believes_no_verdict_that_an_answer_prints():
    (said,) = judge_all([("pool", [BY_HAND])]).values()
    assert "__main__" in said


def test_a_process_that_an_answer_ends_has_accepted_only_what_came_before():
    cells = solved_cells("02")
    ends = cells["ClsToken"].replace("super().__init__()", "import os; os._exit(0)")
    said = judge_all(
        [("prepend_cls_token", [cells["prepend_cls_token"]]), ("ClsToken", [ends]), ("pool", [cells["pool"]])]
    )
    assert said == {"prepend_cls_token": "", "ClsToken": ENDED, "pool": ENDED}


@pytest.mark.weekly  # a process for each lesson
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_every_finished_answer_of_a_lesson_is_right_by_itself(lesson):
    cells = solved_cells(lesson.number)
    answers = [(name, list(cells.values())) for names in cells for name in names.split("-")]
    assert set(judge_all(answers).values()) == {""}
