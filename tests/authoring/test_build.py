"""The builder, tried on tiny courses in temporary folders."""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from authoring.notebooks import build as builder
from authoring.notebooks.course import LEFT_OUT, LessonError, read_course
from authoring.notebooks.dependencies import fingerprint
from authoring.notebooks.notebooks import FOLD, FOLDED, make_notebook
from authoring.notebooks.outputs import (
    ABSOLUTE_PATH,
    FACTS,
    WIDGET_TEXT,
    WIDGET_VIEW,
    NotebookFailed,
    clean_outputs,
    code_cells,
    source_hash,
    stored_figures,
)
from authoring.site.model_map import PARTS, draw_map
from authoring.site.results import results_text
from vit_classroom.plots.basics import picture

MATHS = '''\
"""Numbers."""

import math
from collections.abc import Sequence

LIMIT = 10


def check_positive(value: float) -> None:
    """Refuse what is not positive."""
    if value <= 0:
        raise ValueError(value)


def root(value: float) -> float:
    """Return the square root.

    Args:
        value: positive.
    """
    # math has it
    check_positive(value)
    return math.sqrt(value)


def roots(values: Sequence[float], limit: int = LIMIT) -> list[float]:
    """Return the root of each value."""
    return [root(value) for value in values[:limit]]
'''

SHAPES = '''\
"""Shapes."""

from functools import lru_cache

from vit_course import maths
from vit_course.maths import root


class Shape:
    """What has an area."""


class Square(Shape):
    """A square, known by its area."""

    sides = 4

    def __init__(self, area: float):
        self.area = area  # in square metres

    @property
    def side(self) -> float:
        """Return the length of a side."""
        return root(self.area)

    @lru_cache
    def around(self) -> float:
        # all sides are equal
        total = self.sides * self.side
        return total + maths.LIMIT - maths.LIMIT
'''

PROFILES = '''\
"""The size of a run."""

import os
from types import SimpleNamespace


def get_profile():
    """Return the profile."""
    return SimpleNamespace(name=os.environ["VIT_COURSE_PROFILE"])
'''

DATA = '''\
"""Data."""

import os
from types import SimpleNamespace


def load_dataset(name):
    """Say where the data come from."""
    return SimpleNamespace(provenance=os.environ["VIT_COURSE_DATA"])
'''

FRONT_MATTER = """\
# ---
# title: "Roots: what grows into a square"
# promise: "You draw roots."
# part: "I. Numbers"
# goals:
#   - "Draw a root."
# ---

"""

EXERCISE = """\
# %% exercise="vit_course.maths:root" difficulty=2 minutes=10 hint="look in `math`" hint2="it is called `sqrt`"
from vit_course.maths import root

root = check(root)
"""

LESSON = f"""\
{FRONT_MATTER}# %% [markdown]
# ## 1. What is a root?
# It is `x` with x² = value. Ümläute and × survive.

# %%
from vit_classroom.checks import check

{EXERCISE}
# %%
print(root(4))
"""


def of_square(exercise: str) -> str:
    """The cell of an exercise, asked of the class `Square`."""
    cell = exercise.replace("maths:root", "shapes:Square").replace(
        "maths import root", "shapes import Square"
    )
    return cell.replace("root = check(root)", "Square = check(Square)")


class TinyCourse:
    """A course of one lesson or a few in a folder, to change and to build."""

    def __init__(self, folder: Path):
        self.root = folder
        self.write("pyproject.toml", '[project.urls]\nRepository = "https://github.com/some/course"\n')
        self.write("vit_course/__init__.py", '"""The package."""\n')
        self.write("vit_classroom/checks.py", "def check(answer):\n    print('right')\n    return answer\n")
        self.write("vit_course/maths.py", MATHS)
        self.write("vit_course/shapes.py", SHAPES)
        self.write("vit_classroom/__init__.py", "")
        self.write("vit_classroom/profiles.py", PROFILES)
        self.write("vit_course/training/__init__.py", "")
        self.write("vit_course/training/device.py", 'def get_device():\n    return "cpu"\n')
        self.write("vit_course/data.py", DATA)
        self.write("lessons/01_roots/lesson.py", LESSON)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())

    def replace(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    def lesson(self, *cells: str) -> None:
        self.write("lessons/01_roots/lesson.py", FRONT_MATTER + "\n\n".join(cells))

    def build(self) -> list[str]:
        return builder.build(self.root)

    def check(self) -> list[str]:
        return builder.check(self.root)

    def read(self, folder: str, slug: str = "01_roots"):
        return nbformat.read(self.root / folder / f"{slug}.ipynb", as_version=4)

    def built(self, folder: str, slug: str = "01_roots"):
        self.build()
        return self.read(folder, slug)

    def store_outputs(self) -> None:
        """Build, and give the solution outputs, as if it had been run."""
        self.build()
        course = read_course(self.root)
        book = make_notebook(course, course.lessons[0], "solutions")
        for number, cell in enumerate(code_cells(book), 1):
            cell.execution_count = number
            cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"output {number}\n")]
        book.metadata[FACTS].update(executed=True, source_hash=source_hash(self.root, book))
        self.write("solutions/01_roots.ipynb", builder.file_text(book))


@pytest.fixture
def course(tmp_path):
    return TinyCourse(tmp_path)


def refused(course, place: str, words: str) -> None:
    """Expect that the build is refused, with the place of the mistake and these words."""
    with pytest.raises(LessonError) as error:
        course.build()
    assert str(error.value).startswith(f"{place}: ") and words in str(error.value)


def exercise_cells(book) -> list[str]:
    return [cell.source for cell in book.cells if "exercise" in cell.metadata]


# -- exercises


def test_a_students_stub_keeps_signature_and_docstring_and_raises(course):
    (source,) = exercise_cells(course.built("notebooks"))
    assert source == (
        "import math\nfrom vit_course.maths import check_positive\n\n\n"
        + MATHS[MATHS.index("def root(") : MATHS.index("    # math has it")]
        + "    raise NotImplementedError\n\n\nroot = check(root)"
    )


def test_a_class_exercise_makes_a_stub_of_every_method_and_keeps_decorators_and_attributes(course):
    course.lesson(of_square(EXERCISE))
    (source,) = exercise_cells(course.built("notebooks"))
    assert source.startswith(
        "from functools import lru_cache\nfrom vit_course import maths\nfrom vit_course.maths import root\n"
        "from vit_course.shapes import Shape\n\n\nclass Square(Shape):\n"
    )
    assert "    sides = 4\n" in source
    assert "    @lru_cache\n    def around(self) -> float:\n        raise NotImplementedError\n" in source
    assert source.count("raise NotImplementedError") == 3
    assert "sides are equal" not in source


def test_every_exercise_cell_runs_by_itself(course):
    for exercise in (EXERCISE, EXERCISE.replace("root", "roots"), of_square(EXERCISE)):
        course.lesson(exercise)
        (source,) = exercise_cells(course.built("solutions"))
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(course.root))
            for name in [name for name in sys.modules if name.split(".")[0] == "vit_course"]:
                patch.delitem(sys.modules, name)
            exec(source, {"check": lambda answer: answer, "__name__": "cell"})
            for name in [name for name in sys.modules if name.split(".")[0] == "vit_course"]:
                del sys.modules[name]


@pytest.mark.parametrize(
    ("head", "root"),
    [
        ("LIMITS = dict(low=0)\n\n\ndef root(value: float)", "math.sqrt(dict(x=value)['x'])"),
        ("def root(value: float, roots: int = 0)", "math.sqrt(value)"),
    ],
    ids=["the right of an assignment", "a parameter named like a function"],
)
def test_what_only_looks_like_a_name_of_the_module_is_not_imported_from_it(course, head, root):
    course.replace("vit_course/maths.py", "def root(value: float)", head)
    course.replace("vit_course/maths.py", "math.sqrt(value)", root)
    (source,) = exercise_cells(course.built("notebooks"))
    assert "import check_positive\n" in source


# -- quiz, recall, curious, fold, boxes

QUIZ = """\
# %% [markdown] quiz
# Which {0} is right?
#
# - [x] this {0} :: It is.
# - [ ] that {0} :: It is not."""


@pytest.mark.parametrize(
    ("recall", "words"),
    [
        ('{"02.1": "Again?"}', "'02.1' names no question of an older lesson"),
        ('{1.2: "Again?"}', "1.2 names no question"),
        ('{"01.3": "Again?"}', "lesson 01 has 2 questions, no 01.3"),
        ('["01.1"]', "'recall' in the front matter is a mapping"),
    ],
)
def test_a_question_to_recall_must_exist_and_be_older(course, recall, words):
    course.lesson(QUIZ.format("one"), QUIZ.format("other"))
    later = FRONT_MATTER.replace("# goals:", f"# recall: {recall}\n# goals:") + "# %%\n1"
    course.write("lessons/02_cubes/lesson.py", later)
    refused(course, "lessons/02_cubes/lesson.py:1", words)


def test_a_folded_cell_hides_its_source_and_a_flag_may_stand_before_or_after_other_options(course):
    course.lesson('# %% fold tags=["a"]\nx = 1', '# %% tags=["a"] fold\nx = 2', "# %%\nx = 3")
    folded, too, plain = course.built("notebooks").cells[2:5]
    assert folded.metadata == too.metadata == FOLD | {"tags": ["a"]}
    assert len(FOLDED) <= 68  # beside the sidebar of 1024 pixels a longer line makes the page scroll
    assert plain.metadata == {}


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (QUIZ.format("one").replace("[x]", "[ ]"), "exactly one right option"),
        ("# %% [markdown] quizz\n# Text", "unknown options of a cell: quizz"),
        ("# %% fodl\nx = 1", "unknown options of a cell: fodl"),
        ("# %% curious\nx = 1", "'curious' is an option of markdown cells"),
        ("# %% [markdown] fold\n# Text", "'fold' is an option of code cells"),
        ("# %% [markdown] curious\n# Text", "begins with its only heading"),
        ("# %% [markdown] claim=3\n# Text.", "a claim is an expression"),
        ('# %% [markdown] claim="a > b\n# Text.', "options of this cell cannot be read"),
        ('# %% claim="a > b"\n1', "'claim' is an option of markdown cells"),
        ("# %% [markdown] always\n# Text.", "'always' stands at a claim"),
    ],
)
def test_a_wrong_option_or_claim_of_a_cell_is_reported_with_file_and_line(course, cell, words):
    course.lesson(cell)
    refused(course, "lessons/01_roots/lesson.py:9", words)


# -- the map of the model


def with_map(course, name, parts):
    """Write a lesson that owns parts of the model."""
    text = FRONT_MATTER.replace("# goals:", f"# map: {parts}\n# goals:") + "# %%\n1"
    course.write(f"lessons/{name}/lesson.py", text)


def test_a_map_is_stale_once_its_lesson_or_an_earlier_one_owns_other_parts(course):
    with_map(course, "01_roots", "[embed, patches]")
    with_map(course, "02_cubes", "[cls]")
    course.build()
    assert course.build() == [] and not any("maps" in message for message in course.check())
    with_map(course, "01_roots", "[patches]")
    stale = [message for message in course.check() if message.startswith("docs/maps")]
    assert stale == [
        f"docs/maps/{slug}.png is stale: run `python -m authoring.notebooks.build {slug[:2]}`"
        for slug in ("01_roots", "02_cubes")
    ]


def test_parts_in_colour_and_ticks_are_drawn():
    plain, ticked, coloured = (
        drawn.axes[0]
        for drawn in (draw_map([], []), draw_map([], ["mlp", "block"]), draw_map(["mlp", "block"], []))
    )
    texts = [[text.get_text() for text in axis.texts] for axis in (plain, ticked, coloured)]
    assert [sum("✓" in text for text in drawn) for drawn in texts] == [0, 2, 0]
    assert set(PARTS.values()) <= set(texts[0])
    faces = [{patch.get_facecolor() for patch in axis.patches} for axis in (plain, coloured)]
    assert len(faces[1] - faces[0]) == 2


# -- exercises that begin with code to be mended

SICK = '''\
"""Roots with a bug."""

import cmath as maths
from collections.abc import Sequence


def root(value: float) -> float:
    """As a colleague left it."""
    # maths has it
    return maths.sqrt(-value)


def roots(values: Sequence[float], limit: int = 3) -> list[float]:
    return [value for value in values[:limit]]


class Square:
    """No function."""
'''
MENDING = EXERCISE.replace("difficulty=2", 'starter="vit_course.sick:root" difficulty=2')


@pytest.mark.parametrize(
    ("exercise", "starter", "words"),
    [
        (MENDING, "vit_course.sick:cube", "defines no cube"),
        (MENDING, "vit_course.ill:root", "there is no module vit_course.ill"),
        (MENDING, "vit_course.sick:root, vit_course.sick:roots", "2 starters do not fit 1 exercises"),
        (MENDING, "vit_course.sick:Square", "Square is no function"),
        (MENDING, "root", "is no reference"),
        (of_square(MENDING), "vit_course.sick:root", "only a function can have a starter"),
    ],
)
def test_a_starter_that_does_not_fit_is_reported_with_file_and_line(course, exercise, starter, words):
    course.write("vit_course/sick.py", SICK)
    course.lesson(exercise.replace("vit_course.sick:root", starter))
    refused(course, "lessons/01_roots/lesson.py:9", words)


# -- lines and cells for one edition


def test_a_cell_can_belong_to_one_edition_alone(course):
    course.lesson(
        '# %% tags=["solution-only"]\nx = 1', '# %% tags=["student-only", "nbval-ignore-output"]\nx = 2'
    )
    student, solved = course.built("notebooks").cells[2:-1], course.read("solutions").cells[2:-1]
    assert [cell.source for cell in student] == ["x = 2"]
    assert [cell.source for cell in solved] == ["x = 1"]
    assert student[0].metadata == {"tags": ["nbval-ignore-output"]} and solved[0].metadata == {}


# -- cells that the builder writes


def test_the_first_cell_has_title_promise_minutes_colab_goals_and_the_way(course):
    course.write("lessons/02_cubes/lesson.py", LESSON.replace("Roots: what grows into a square", "Cubes"))
    text = course.built("notebooks").cells[0].source
    assert text.startswith("# 01 · Roots: what grows into a square\n\nYou draw roots.\n")
    assert "colab.research.google.com/github/some/course/blob/main/notebooks/01_roots.ipynb" in text
    assert "\n15 minutes · " in text and "- Draw a root." in text
    roadmap = "**Roadmap.** *I. Numbers:* **01 Roots (you are here)** · [02 Cubes](02_cubes.ipynb)"
    assert text.endswith(roadmap)
    assert course.read("notebooks").cells[-1].source == "**Next:** [02 · Cubes](02_cubes.ipynb)"
    assert course.read("notebooks", "02_cubes").cells[-1].source == "This is the last lesson so far."


@pytest.fixture
def colab(monkeypatch):
    """Pretend that a cell runs on Colab, and collect the commands and the folder that it asks for."""
    asked = []
    monkeypatch.setitem(sys.modules, "google.colab", object())
    monkeypatch.setattr("subprocess.run", lambda command, check: asked.append(command))
    monkeypatch.setattr("os.chdir", asked.append)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return asked


def test_on_colab_the_setup_cell_prints_links_that_lead_somewhere_there(course, colab, capsys):
    for number in ("02", "03", "04"):
        course.write(f"lessons/{number}_later/lesson.py", LESSON)
    exec(course.built("notebooks", "02_later").cells[1].source, {})
    links = re.findall(r"https://\S+", capsys.readouterr().out)
    colab, github = "https://colab.research.google.com/github/some/course", "https://github.com/some/course"
    books = ("solutions/02_later", "notebooks/01_roots", "notebooks/03_later")
    assert links == [
        *(f"{colab}/blob/main/{book}.ipynb" for book in books),
        f"{github}/blob/main/docs/glossary.md",
        f"{github}/blob/main/docs/shape_card.md",
    ]


def test_the_setup_cell_names_the_command_where_the_course_is_missing(course, capsys, monkeypatch):
    course.build()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec(course.read("notebooks").cells[1].source, {})
    assert "make lab" in capsys.readouterr().out


def test_the_setup_cell_installs_the_course_on_colab(course, colab):
    exec(course.built("notebooks").cells[1].source, {})
    clone, install, folder = colab
    assert clone[:2] == ["git", "clone"]
    assert clone[-2:] == ["https://github.com/some/course", "/content/course"]
    assert install[1:4] == ["-m", "pip", "install"] and install[-1] == "/content/course[classroom]"
    assert folder == "/content/course/notebooks" and sys.path[0] == "/content/course"


def test_an_install_on_colab_that_fails_leaves_nothing_and_is_tried_again(course, colab, monkeypatch):
    course.build()
    removed = []
    monkeypatch.setattr("shutil.rmtree", lambda folder, ignore_errors: removed.append(folder))

    def fail(command, check):
        raise subprocess.CalledProcessError(128, command)

    monkeypatch.setattr("subprocess.run", fail)
    with pytest.raises(SystemExit, match="Run this cell again"):
        exec(course.read("notebooks").cells[1].source, {})
    assert removed == ["/content/course"]


def test_answers_on_colab_go_to_the_drive_where_it_is_mounted(course, colab, monkeypatch, capsys):
    course.build()
    mounted = {"/content/course"}
    monkeypatch.setattr("os.path.isdir", mounted.__contains__)
    monkeypatch.setenv("VIT_COURSE_ANSWERS", "elsewhere")
    exec(course.read("notebooks").cells[1].source, {})
    assert "mount your Drive" in capsys.readouterr().out
    mounted.add("/content/drive/MyDrive")
    exec(course.read("notebooks").cells[1].source, {})
    assert os.environ["VIT_COURSE_ANSWERS"] == "/content/drive/MyDrive/vit-course-answers"


def test_the_readme_gets_the_lesson_table_and_without_a_place_for_it_is_an_error(course):
    course.write("README.md", "before\n<!-- lessons:begin -->\nold\n<!-- lessons:end -->\nafter\n")
    assert "README.md" in course.build()
    text = (course.root / "README.md").read_text(encoding="utf-8")
    assert "\n| I. Numbers | what you do | minutes |\n" in text
    row = "| 01 [Roots: what grows into a square](notebooks/01_roots.ipynb) | You draw roots. | 15<br>"
    assert f"{row}[solved](solutions/01_roots.ipynb) [![Open in Colab](" in text
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    course.replace("lessons/01_roots/lesson.py", "minutes=10", "minutes=12")
    assert any(message.startswith("README.md is stale") for message in course.check())
    course.write("README.md", "no markers\n")
    with pytest.raises(LessonError, match=r"README\.md"):
        course.build()


# -- files


def test_files_are_utf8_with_lf_even_where_a_lesson_has_crlf(course):
    course.write("lessons/01_roots/lesson.py", LESSON.replace("\n", "\r\n"))
    course.build()
    for folder in ("notebooks", "solutions"):
        data = (course.root / folder / "01_roots.ipynb").read_bytes()
        assert b"\r" not in data and "Ümläute and ×".encode() in data and data.endswith(b"}\n")


def test_an_edit_leaves_the_ids_of_other_cells_alone(course):
    before = course.built("notebooks").cells
    course.replace("lessons/01_roots/lesson.py", "print(root(4))", "print(root(9))\n\n# %%\nprint('new')")
    course.replace("vit_course/maths.py", "# math has it", "# another way")
    after = course.built("notebooks").cells
    assert [cell.id for cell in after[:-3]] == [cell.id for cell in before[:-2]]
    assert after[-3].id != before[-2].id and after[-1].id == before[-1].id


def test_a_cell_has_the_same_id_in_both_editions_and_ids_are_unique(course):
    course.lesson("# %%\nx = 1", "# %%\nx = 1", EXERCISE)
    ids = [[cell.id for cell in course.built(folder).cells] for folder in ("notebooks", "solutions")]
    assert ids[0] == ids[1] and len(set(ids[0])) == len(ids[0])


# -- checking


@pytest.mark.parametrize("folder", ["notebooks", "solutions"])
def test_check_names_the_file_the_difference_and_the_command_when_one_character_changes(course, folder):
    course.build()
    course.replace(f"{folder}/01_roots.ipynb", "What is a root", "What is a rood")
    (message,) = [message for message in course.check() if "outputs" not in message]
    assert message.startswith(
        f"{folder}/01_roots.ipynb is stale: run `python -m authoring.notebooks.build 01`\n"
    )
    assert "What is a rood" in message and "What is a root" in message


def test_check_notices_a_change_of_the_function_that_is_the_solution(course):
    course.build()
    course.replace("vit_course/maths.py", "return math.sqrt(value)", "return 0 + math.sqrt(value)")
    assert any(message.startswith("solutions/01_roots.ipynb is stale") for message in course.check())
    assert not any(message.startswith("notebooks/") for message in course.check())


def test_check_reports_missing_notebooks_and_those_whose_lesson_is_gone_and_writes_nothing(course):
    course.check()
    assert not (course.root / "notebooks").exists()
    course.build()
    (course.root / "notebooks" / "01_roots.ipynb").rename(course.root / "notebooks" / "07_old.ipynb")
    messages = course.check()
    assert "notebooks/01_roots.ipynb is missing: run `python -m authoring.notebooks.build 01`" in messages
    assert "notebooks/07_old.ipynb has no lesson: delete it" in messages


def test_a_broken_solution_is_stale_and_a_build_writes_it_anew(course):
    for broken in ("no json", "{}", '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'):
        course.write("solutions/01_roots.ipynb", broken)
        assert any(message.startswith("solutions/01_roots.ipynb is stale") for message in course.check())
        assert "solutions/01_roots.ipynb" in course.build()


# -- outputs


def test_outputs_survive_a_build_and_then_nothing_is_stale(course):
    course.build()
    (message,) = course.check()
    assert message.endswith("run `python -m authoring.notebooks.build --execute 01`")
    course.store_outputs()
    stored = course.read("solutions")
    assert course.build() == [] and course.check() == []
    assert course.read("solutions") == stored


def test_a_changed_cell_loses_its_outputs_and_the_others_keep_theirs(course):
    course.store_outputs()
    course.replace("lessons/01_roots/lesson.py", "print(root(4))", "print(root(9))")
    outputs = {cell.source: cell.outputs for cell in code_cells(course.built("solutions"))}
    assert outputs.pop("print(root(9))") == []
    assert all(outputs.values())
    (message,) = course.check()
    assert message.endswith("outputs are stale: run `python -m authoring.notebooks.build --execute 01`")


@pytest.mark.parametrize(
    ("old", "new"), [("print(root(4))", "print(root(4))  # two"), ("What is a root?", "What is it?")]
)
def test_comments_and_prose_of_a_lesson_make_no_output_stale(course, old, new):
    course.store_outputs()
    course.replace("lessons/01_roots/lesson.py", old, new)
    course.build()
    assert course.check() == []


@pytest.mark.parametrize(
    ("module", "reader", "record"),
    [
        ("experiments", "load_records", "runs/{}.json"),
        ("trained", "load_trained", "checkpoints/{}.safetensors"),
    ],
)
def test_a_new_record_makes_only_lessons_stale_that_show_records(course, module, reader, record):
    course.write(f"vit_course/{module}.py", f"def {reader}(name):\n    return []\n")
    course.store_outputs()
    course.write(f"data/{record.format('first')}", "{}")
    assert course.check() == []
    course.lesson(f"# %%\nfrom vit_course.{module} import {reader}\nprint({reader}('one'))")
    course.store_outputs()
    assert course.check() == []
    course.write(f"data/{record.format('second')}", "{}")
    (message,) = course.check()
    assert "outputs are stale" in message


def test_a_fingerprint_is_the_same_on_every_python():
    source = (
        "def f(x: int | None = None, *rest, key='k', **options) -> list[int]:\n"
        '    """Document."""\n    total = [a for a in (x, *rest) if a is not None]\n'
        "    print(f\"{'':<{len(rest) + 8}}to {x!r:>4}, {{}} and {total}\")\n"
        "    return lambda: {**options, key: total[1:]}\n"
    )
    found = hashlib.sha256(json.dumps(fingerprint(ast.parse(source))).encode()).hexdigest()
    assert found == "fa1c4b6dcabd294266989a9b8651e13644031361261e507566ee61307041a810"


# -- running


def test_progress_on_stderr_is_dropped_and_a_control_becomes_a_line_of_text():
    stream = nbformat.v4.new_output("stream", name="stderr", text="50%")
    display = {WIDGET_VIEW: {"model_id": "1"}}
    control = nbformat.v4.new_output("display_data", data={**display, "text/plain": "interactive(...)"})
    (kept,) = clean_outputs([stream, control])
    assert kept.data == {"text/plain": WIDGET_TEXT}


@pytest.mark.parametrize(
    ("text", "is_path"),
    [
        ("saved in /" + "home/ada/model.pt", True),
        ("C:" + chr(92) + "Users is mine", True),
        ("https://example.org/" + "home/ada", False),
        ("data/runs/one.json, 3/4, H/P and W/P", False),
    ],
)
def test_a_path_of_one_machine_is_told_from_other_slashes(text, is_path):
    assert bool(ABSOLUTE_PATH.search(text)) is is_path


@pytest.mark.slow
def test_execute_runs_the_stale_solution_strictly_and_stores_outputs_and_where_they_come_from(course):
    course.replace(
        "lessons/01_roots/lesson.py",
        "print(root(4))",
        "import os, sys, time\nimport vit_course.data\n\ntime.sleep(.3)\n"
        "print(root(4), os.environ['VIT_COURSE_STRICT'])\n"
        "print('progress', file=sys.stderr)",
    )
    course.build()
    assert list(builder.execute(course.root)) == ["solutions/01_roots.ipynb"]
    assert course.check() == []
    book = course.read("solutions")
    assert [output.text for output in book.cells[-2].outputs] == ["2.0 1\n"]
    assert all(cell.execution_count for cell in code_cells(book))
    assert all(0 <= cell.metadata["seconds"] < 30 for cell in code_cells(book))
    assert 0.3 <= code_cells(book)[-1].metadata["seconds"]
    facts = book.metadata[FACTS]
    assert (facts.dataset, facts.device, facts.executed) == ("shapes10", "cpu", True)
    assert list(builder.execute(course.root)) == []


def test_the_seconds_of_a_run_and_its_figures_count_into_the_minutes_that_a_lesson_says(course):
    course.store_outputs()
    book = course.read("solutions")
    cell = code_cells(book)[-1]
    cell.metadata["seconds"] = 300.0
    cell.outputs = 4 * [nbformat.v4.new_output("display_data", {"text/html": "<img alt='a' src='b'>"})]
    course.write("solutions/01_roots.ipynb", builder.file_text(book))
    assert set(course.build()) == {"notebooks/01_roots.ipynb", "solutions/01_roots.ipynb"}
    assert all("\n22 minutes · " in course.read(folder).cells[0].source for folder in LEFT_OUT)
    course.replace("lessons/01_roots/lesson.py", "print(root(4))", "print(root(4))\n\n# %%\n1")
    course.build()
    assert course.build() == [] and len(course.check()) == 1
    assert "\n22 minutes · " in course.read("notebooks").cells[0].source


def test_a_figure_is_stored_as_a_png_of_the_same_bytes_and_everything_else_as_it_is():
    from matplotlib.figure import Figure

    shown = picture(Figure((1, 1)), 'a "small" figure')
    table = {"text/html": "<table></table>", "text/plain": "table"}
    outputs = [nbformat.v4.new_output("display_data", data) for data in (shown, table)]
    figure, same = stored_figures(outputs)
    assert figure.data["text/plain"] == 'a "small" figure'
    assert figure.data["image/png"] in shown["text/html"] and same == outputs[1]
    assert figure.metadata == {"image/png": {"alt": 'a "small" figure', "needs_background": "light"}}
    assert stored_figures([figure]) == [figure]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "message"),
    [("1 / 0", "ZeroDivisionError"), ("print('/' 'home/someone')", "a path of this machine")],
)
def test_execute_stores_nothing_of_a_solution_that_fails_or_shows_a_path(course, code, message):
    course.lesson(f"# %%\n{code}")
    before = course.built("solutions")
    with pytest.raises(NotebookFailed, match=message):
        list(builder.execute(course.root))
    assert course.read("solutions") == before


# -- errors name the file and the line


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('# title: "Roots: what grows into a square"\n', "", 1, "'title'"),
        ('# part: "I. Numbers"', "# part: 1", 1, "'part'"),
        ('# part: "I. Numbers"', '# part: "I. Numbers"\n# authors: 3', 1, "authors"),
        ('# part: "I. Numbers"', '#  part: "I. Numbers"', 4, "front matter"),
        ("# goals", "# map: [patches, decoder]\n# goals", 1, "map: the model has no decoder; its parts are"),
        ("# ---\n", "", 1, "front matter"),
        ("# %% [markdown]", '# %% [markdown] claim="a >"', 10, "invalid syntax"),
        ("difficulty=2 ", "", 16, "difficulty"),
        ("difficulty=2", "difficulty=4", 16, "difficulty"),
        ("minutes=10 ", "", 16, "minutes"),
        ('hint="look in `math`" ', "", 16, 'hint="..."'),
        (' hint2="it is called `sqrt`"', "", 16, 'hint2="..."'),
        (' hint2="it is called `sqrt`"', " hint2='sqrt", 16, "options of this cell"),
        ("maths:root", "maths.root", 16, "no reference"),
        ("maths:root", "physics:root", 16, "vit_course.physics"),
        ("maths:root", "maths:cube", 16, "cube"),
        ("maths:root", "maths:root.forward", 16, "forward"),
        ("root = check(root)", "root(4)", 16, "root = check(root)"),
        ("from vit_course.maths import root\n", "", 16, "from vit_course.maths import root"),
        ("print(root(4))", "print(root(4)", 22, "never closed"),
    ],
)
def test_a_mistake_in_a_lesson_is_reported_with_file_and_line(course, old, new, line, words):
    course.replace("lessons/01_roots/lesson.py", old, new)
    refused(course, f"lessons/01_roots/lesson.py:{line}", words)


# -- the command line


def test_the_command_line_writes_checks_and_takes_numbers(course, capsys):
    course.write("lessons/02_cubes/lesson.py", LESSON)
    assert builder.main(["2"], course.root) == 0
    assert capsys.readouterr().out == "wrote notebooks/02_cubes.ipynb\nwrote solutions/02_cubes.ipynb\n"
    assert builder.main(["--check"], course.root) == 1
    assert "notebooks/01_roots.ipynb is missing" in capsys.readouterr().out
    assert builder.main(["7"], course.root) == 1
    assert "there is no lesson 07" in capsys.readouterr().err
    course.store_outputs()
    assert builder.main(["--check", "01"], course.root) == 0


def test_a_course_without_lessons_is_no_error(course):
    (course.root / "lessons" / "01_roots" / "lesson.py").unlink()
    assert course.build() == [] and course.check() == []


# -- the results in the README


def record_of(step, accuracy, flops=3e12, **more):
    """A record as `data/runs` has it."""
    record = {"model": "Nano/8", "parameters": 1000, "forward_flops": 2e6, "training_flops": flops}
    record |= {
        "seconds": 90,
        "data": "some pictures",
        "machine": "cpu",
        "threads": 1,
        "size": "cpu",
        "group": "marks",
    }
    record |= {"versions": {"torch": "2.9"}, "options": {"depth": 6}, "step": step, "test_accuracy": accuracy}
    config = {"epochs": 2, "optimizer": "muon", "validation": 1000}
    return json.dumps({**record, "config": config, **more})


def test_results_are_means_over_the_recorded_seeds_and_conclusions_follow_from_them(course):
    assert "recorded yet" in results_text(course.root)
    for seed, accuracy in enumerate((0.5, 0.6, 0.7)):
        course.write(
            f"data/runs/cpu/comparison-8/vit-seed{seed}.json",
            record_of("vit", accuracy, group="comparison-8"),
        )
        course.write(
            f"data/runs/cpu/comparison-8/resnet-seed{seed}.json",
            record_of("resnet", accuracy + 0.01, group="comparison-8"),
        )
    gpu = record_of("94", 0.8, 6e12, size="gpu", cpu_seconds=300)
    course.write("data/runs/gpu/marks/94-seed0.json", gpu)
    lessons = "<!-- lessons:begin -->\n<!-- lessons:end -->\n"
    course.write("README.md", lessons + "<!-- results:begin -->\nold\n<!-- results:end -->\n")
    marks = (f"<!-- {name}:begin -->\n<!-- {name}:end -->\n" for name in ("results-long", "conclusions"))
    course.write("docs/results.md", "".join(marks))
    course.build()
    readme = (course.root / "README.md").read_text(encoding="utf-8")
    assert "| ViT, CPU core | 60.0 % | 8.0 |" in readme and "| ViT, GPU (one run) | 80.0 % | 1.5 |" in readme
    assert "the runs do not show a difference between ResNet and ViT" in readme and "old" not in readme
    assert "With 2 times the computation, a larger ViT reaches 80.0 % on a GPU." in readme
    page = (course.root / "docs" / "results.md").read_text(encoding="utf-8")
    assert (
        "| ViT, 8 minutes | 60.0 ± 10.0 | 3 | 8.0 | 3.0 |" in page
        and "| ViT, GPU | 80.0 | 1 | GPU: 1.5" in page
    )
    assert "| ViT, 8 minutes | `Nano/8`, `depth 6` | 1,000 | 2 | Muon |" in page
    assert "ViT, 8 minutes: 1,000 of the training images were held out." in page
    assert "| ResNet, 8 minutes / ViT, 8 minutes | The runs do not show a difference." in page
    for seed, accuracy in enumerate((0.9, 0.91, 0.92)):
        course.write(
            f"data/runs/cpu/comparison-8/resnet-seed{seed}.json",
            record_of("resnet", accuracy, group="comparison-8"),
        )
    assert "the ResNet is 31 points better than the ViT" in results_text(course.root)
