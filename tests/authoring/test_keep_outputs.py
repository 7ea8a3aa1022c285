"""Outputs are kept where a run proves them unchanged, and nowhere else."""

import shutil
import subprocess

import pytest
from test_build import TinyCourse

from authoring.notebooks import build as builder
from authoring.notebooks.outputs import code_cells
from vit_course.training.paths import ROOT

MATHS = "vit_course/maths.py"
LESSON = "lessons/01_roots/lesson.py"
SHOW = "# %%\nfrom vit_course.maths import root\nprint(root(4))"


@pytest.fixture
def course(tmp_path):
    """A course of one lesson whose outputs are current in its first commit."""
    course = TinyCourse(tmp_path)
    shutil.copytree(ROOT / "authoring", tmp_path / "authoring")
    course.write("vit_classroom/names.py", (ROOT / "vit_classroom/names.py").read_text("utf-8"))
    course.lesson(SHOW)
    commit(course)
    return course


def commit(course):
    course.store_outputs()
    git = ["git", "-C", str(course.root), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "first"]):
        subprocess.run([*git, *command], check=True)


def restamp(course, capsys) -> tuple[int, str]:
    course.build()
    status = builder.main(["--restamp", "HEAD"], course.root)
    return status, capsys.readouterr().out


def kept(course) -> list[str]:
    return [output.text for cell in code_cells(course.read("solutions")) for output in cell.outputs]


@pytest.mark.slow
def test_a_lesson_that_says_the_same_in_other_words_keeps_its_outputs(course, capsys):
    before = kept(course)
    course.replace(MATHS, "math.sqrt(value)", "value ** (1 / 2)")
    course.replace(LESSON, "print(root(4))", "print(root(value=4))")
    status, said = restamp(course, capsys)
    assert status == 0 and kept(course) == before and course.check() == []
    assert said.splitlines() == [
        "solutions/01_roots.ipynb keeps its outputs: 1 outputs of 2 code cells are equal at profile smoke",
        "1 of 1 stale solutions keep their outputs",
    ]


@pytest.mark.slow
def test_a_lesson_that_shows_something_else_stays_stale_and_the_difference_is_said(course, capsys):
    course.replace(MATHS, "math.sqrt(value)", "math.sqrt(value) + 1")
    status, said = restamp(course, capsys)
    assert status == 1 and len(course.check()) == 1
    assert "code cell 2 (from vit_course.maths import root) differs:" in said
    assert '  was  "text": "2.0\n  is   "text": "3.0\n' in said
    assert said.endswith("0 of 1 stale solutions keep their outputs\n")


@pytest.mark.slow
@pytest.mark.parametrize(("tags", "status"), [("", 1), (' tags=["nbval-ignore-output"]', 0)])
def test_only_a_cell_that_nbval_ignores_may_differ_from_run_to_run(course, capsys, tags, status):
    chance = f"# %%{tags}\nfrom secrets import token_hex\nfrom vit_course.maths import root\ntoken_hex()"
    course.lesson(f"{chance}, root(4)")
    commit(course)
    course.lesson(f"{chance}, root(value=4)")
    found, said = restamp(course, capsys)
    assert found == status
    assert ("1 differ from run to run and say nothing" in said) is (status == 0)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("print(root(4))", "print(profile.pick(smoke=1, cpu=2))", "profiles choose otherwise: profile.pick("),
        ("print(root(4))", "print(root(4))\n\n# %%\n1", "it has 3 code cells and had 2"),
        (
            "print(root(4))",
            'print(root(4))\n\n# %% [markdown] claim="root(4) == 2"\n# Two.',
            "claim something else",
        ),
    ],
)
def test_what_cannot_be_compared_stays_stale(course, capsys, old, new, words):
    course.replace(LESSON, old, new)
    status, said = restamp(course, capsys)
    assert status == 1 and words in said


def test_outputs_that_were_stale_already_are_not_kept(course, capsys):
    course.replace(MATHS, "math.sqrt(value)", "math.sqrt(value) + 1")
    subprocess.run(
        ["git", "-C", course.root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "b"]
    )
    status, said = restamp(course, capsys)
    assert status == 1 and "its outputs were stale in that commit already" in said


def test_a_commit_that_is_not_there_is_said(course, capsys):
    course.replace(MATHS, "math.sqrt(value)", "math.sqrt(value) + 1")
    course.build()
    assert builder.main(["--restamp", "nowhere"], course.root) == 1
    assert "nowhere" in capsys.readouterr().err
