"""The notebooks in the repository: what the builder makes, nothing solved too early, no output stale."""

import base64
import importlib
import re

import nbformat
import pytest
from test_minutes import COURSE, ROOT, each_lesson

from authoring.notebooks import build as builder
from authoring.notebooks.course import Lesson
from authoring.notebooks.outputs import ABSOLUTE_PATH, FACTS, WIDGET_TEXT, code_cells, is_setup, output_texts
from authoring.notebooks.stubs import Reference, find_excerpt
from vit_classroom.checks import EXERCISES

COMPARED_STRICTLY = [lesson for lesson in COURSE.lessons if "01" <= lesson.number <= "06"]
EXERCISES_OF_LESSONS = [
    pytest.param(lesson, reference, id=f"{lesson.number}-{reference}")
    for lesson in COURSE.lessons
    for cell in lesson.cells
    for reference in cell.references
]

each_strict_lesson = pytest.mark.parametrize("lesson", COMPARED_STRICTLY, ids=lambda lesson: lesson.slug)
each_exercise = pytest.mark.parametrize(("lesson", "reference"), EXERCISES_OF_LESSONS)


def read(folder: str, lesson: Lesson) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / folder / f"{lesson.slug}.ipynb", as_version=4)


def lines_of(source: str) -> set[str]:
    return {line.strip() for line in source.splitlines() if line.strip()}


def compared(book: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The cells whose outputs strict nbval compares."""
    return [
        cell
        for cell in code_cells(book)
        if not is_setup(cell) and "nbval-ignore-output" not in cell.metadata.get("tags", [])
    ]


# -- both editions


def test_every_generated_file_is_what_the_builder_makes_and_no_output_is_stale():
    messages = builder.check(ROOT)
    assert not messages, "\n".join(["", *messages])


# -- the students' notebooks


@each_lesson
def test_a_students_notebook_has_no_outputs(lesson):
    for cell in code_cells(read("notebooks", lesson)):
        assert cell.outputs == [] and cell.execution_count is None


@each_exercise
def test_a_students_notebook_does_not_hold_the_solution_of_an_exercise(lesson, reference):
    excerpt = find_excerpt(ROOT, reference)
    secret = lines_of(excerpt.finished) - lines_of(excerpt.stub)
    assert secret
    for cell in code_cells(read("notebooks", lesson)):
        shown = lines_of(cell.source) & secret
        asks_for_it = f"{reference.module}:{reference.name}" in cell.metadata.get("exercise", "")
        assert not shown if asks_for_it else len(secret) == 1 or shown != secret


def test_a_stub_holds_what_is_given_and_nobody_sees_the_mark(tmp_path):
    (tmp_path / "given.py").write_text(
        'def half(x):\n    """Halve."""\n    if x % 2:  # given\n        raise ValueError(x)\n'
        "    y = x // 2\n    return y\n"
    )
    excerpt = find_excerpt(tmp_path, Reference("given", "half"))
    refusal = 'def half(x):\n    """Halve."""\n    if x % 2:\n        raise ValueError(x)\n'
    assert excerpt.stub == refusal + "    raise NotImplementedError"
    assert excerpt.finished == refusal + "    y = x // 2\n    return y"


@each_exercise
def test_every_exercise_has_a_check_whose_reference_is_the_code_that_the_solution_shows(lesson, reference):
    finished = getattr(importlib.import_module(reference.module), reference.name)
    assert reference.name in EXERCISES, f"lessons/{lesson.slug}/checks.py has no check of it"
    assert EXERCISES[reference.name].reference is finished


@each_lesson
def test_every_exercise_has_two_different_hints(lesson):
    for cell in filter(lambda cell: cell.references, lesson.cells):
        assert cell.metadata["hint"] != cell.metadata["hint2"]


# -- the solutions


@each_lesson
def test_a_solution_says_what_its_outputs_came_from(lesson):
    facts = read("solutions", lesson).metadata[FACTS]
    assert facts["executed"] is True
    assert re.fullmatch(r"[0-9a-f]{64}", facts["source_hash"])
    assert facts["torch"] and facts["device"] and facts["profile"]
    assert facts["dataset"] is None or "shapes" in facts["dataset"].lower()


@each_lesson
def test_every_code_cell_of_a_solution_was_run_and_shows_no_error_stderr_or_path_of_one_machine(lesson):
    for cell in code_cells(read("solutions", lesson)):
        assert cell.execution_count is not None  # nbval compares nothing where it is null
        assert not [output for output in cell.outputs if output.output_type == "error"]
        assert not [output for output in cell.outputs if output.get("name") == "stderr"]
        assert not [text for text in output_texts(cell) if ABSOLUTE_PATH.search(text)]


@each_lesson
def test_every_figure_of_a_solution_is_a_png_with_its_text_where_exports_and_comparisons_look_for_it(lesson):
    outputs = [output for cell in code_cells(read("solutions", lesson)) for output in cell.outputs]
    figures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert figures
    for output in figures:
        (look,) = output.metadata.values()
        assert look == {"alt": output.data["text/plain"], "needs_background": "light"} and look["alt"]
        assert base64.b64decode(output.data["image/png"], validate=True).startswith(b"\x89PNG")
    texts = [output.get("data", {}).get("text/html", "") for output in outputs]
    assert not any("data:image" in text for text in texts)  # GitHub shows no picture in HTML


@each_strict_lesson
def test_strict_comparison_finds_text_to_compare_and_no_cell_with_a_live_control(lesson):
    cells = compared(read("solutions", lesson))
    with_text = [cell for cell in cells if any(True for _ in output_texts(cell))]
    assert len(with_text) >= 5 and len(with_text) >= len(cells) / 2
    for cell in cells:
        shows_control = WIDGET_TEXT in output_texts(cell)
        assert not shows_control, f'mark this cell tags=["nbval-ignore-output"]:\n{cell.source}'
