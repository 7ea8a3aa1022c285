"""Nobody is stuck: whoever typed a syntax error, or nothing, can run the rest of a notebook."""

import ast
import builtins
import os

import nbformat
import pytest
from nbclient import NotebookClient

from authoring.notebooks.course import read_course
from authoring.notebooks.notebooks import make_notebook
from authoring.notebooks.outputs import code_cells
from vit_classroom import stand_in
from vit_classroom.checks.source import bound
from vit_classroom.names import free_names
from vit_classroom.tasks import exercise_names
from vit_course.training.paths import ROOT

COURSE = read_course(ROOT)
BROKEN = {"a syntax error": "def oops(:\n    pass\n", "nothing": "", "an error above the check": "1 / 0\n"}
BOOK = """
from vit_classroom.stand_in import stand_in
stand_in("01_patches")
# ---
from vit_classroom import check
# ---
{broken}
# ---
%%time
print(count_patches(8, 4), "from", count_patches.__module__)
# ---
print(count_patches(8, 2))
# ---
def count_patches(img_size, patch_size):
    return 7
# ---
print(count_patches(8, 4), "is mine")
# ---
pool = sum(count_patches(8, 4) for _ in range(2))
try:
    merge_heads
except NameError as error:
    print(error)
"""


def run_book(book, folder, **environment):
    """Run a notebook as a student does, and return it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VIT_COURSE_WIDGETS": "0", **environment}
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(folder)}}).execute(env=environment)
    return book


def printed(cell):
    """What a cell printed."""
    return "".join(out.text for out in cell.outputs if out.get("name") == "stdout")


@pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.slug)
def test_what_cells_take_from_an_exercise_alone_is_its_name(lesson):
    known, made = set(dir(builtins)) | {"check"}, {}
    for cell in code_cells(make_notebook(COURSE, lesson, "notebooks")):
        own = {name for node in ast.parse(cell.source).body for name in bound(node, ast.unparse(node))}
        asked = exercise_names(cell.metadata.get("exercise", ""))
        assert free_names(cell.source) - own - known <= set().union(*made.values()), cell.source
        if "exercise" in cell.metadata:
            made[cell.source] = set(asked)
        else:
            known |= own


def test_a_name_that_a_cell_makes_itself_is_left_to_it():
    class Shell:
        transform_cell = staticmethod(lambda text: text)

    read = stand_in.names_read(Shell, "%%time\npool = 3\nprint(pool, patchify(1), [x for x in data])")
    assert {"patchify", "data"} <= read and "pool" not in read
    assert stand_in.names_read(
        Shell, "def patchify(x):\n    return patchify(x)\npatchify = check(patchify)"
    ) == {"check"}
    assert stand_in.names_read(Shell, "def oops(:") == set()


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_cells_below_use_the_finished_version_and_say_so_until_there_is_another(broken, tmp_path):
    parts = BOOK.format(broken=broken).split("# ---\n")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(part.strip("\n")) for part in parts])
    book.cells[2].metadata["tags"] = ["raises-exception"]
    cells = run_book(book, tmp_path, VIT_COURSE_ANSWERS=str(tmp_path / "answers")).cells
    first, second, _, mine, last = map(printed, cells[3:])
    assert "count_patches: the course's finished version, until a cell of yours" in first
    assert "4 from vit_course.patches" in first
    assert second == "16\n" and mine == "7 is mine\n"
    assert last == "name 'merge_heads' is not defined\n"  # an exercise of another lesson


@pytest.mark.slow
def test_a_lesson_without_one_right_cell_runs_to_its_end(tmp_path):
    lesson = next(lesson for lesson in COURSE.lessons if lesson.number == "01")
    book = make_notebook(COURSE, lesson, "notebooks")
    asked = [cell for cell in book.cells if "exercise" in cell.metadata]
    for cell in asked:
        cell.source = BROKEN["a syntax error"] + cell.source
        cell.metadata["tags"] = ["raises-exception"]
    run_book(book, ROOT / "notebooks", VIT_COURSE_ANSWERS=str(tmp_path))
    names = {name for cell in asked for name in exercise_names(cell.metadata["exercise"])}
    said = "".join(map(printed, code_cells(book)))
    assert len(names) == 4 and all(f"{name}: the course's finished version" in said for name in names)
