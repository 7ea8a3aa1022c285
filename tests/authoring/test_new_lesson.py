"""A new lesson is one folder and one module; what is written first is empty of content and complete in form.

Complete means: both its notebooks are built, its solution runs, its checks load and know their mistakes, the index of
exercises finds it, and the made pages that list lessons list it. Made by `make lesson` in a copy of the course, it
passes the tests of the house, the repository and the minutes; all tests run on such a copy once a week.
"""

import os
import shutil
import subprocess
import sys

import nbformat
import pytest

from authoring.notebooks import build, new_lesson
from authoring.notebooks.course import LessonError, read_course
from authoring.notebooks.outputs import code_cells
from vit_course.training.paths import ROOT

HOUSE_TESTS = ("tests/test_house.py", "tests/test_repository.py", "tests/authoring/test_minutes.py")
LAST = read_course(ROOT).lessons[-1].slug
NUMBER = f"{int(LAST[:2]) + 1:02d}"
SLUG = "after_the_last"
NAME = f"mean_square_of_{SLUG}"
USE_IT = f"""
from vit_classroom.checks import EXERCISES, check, diagnose
from vit_classroom.checks.registry import lesson_part
assert EXERCISES.homes["{NAME}"] == "{NUMBER}_{SLUG}"
answers = lesson_part("{NUMBER}", "answers")
for words, answer in answers.WRONG["{NAME}"]:
    verdict = diagnose(answer, "{NAME}")
    assert verdict.kind == "wrong" and words in verdict.message, verdict
for answer in answers.RIGHT["{NAME}"]:
    assert diagnose(answer, "{NAME}").kind == "right", answer
assert check(EXERCISES["{NAME}"].reference) is EXERCISES["{NAME}"].reference
print("all is there")
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the course with a new lesson in it, built; and what building it changed."""
    root = tmp_path_factory.mktemp("course")
    for folder in ("vit_course", "vit_classroom", "lessons", "docs", "notebooks", "solutions"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "data" / "runs", root / "data" / "runs")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, root / name)
    assert new_lesson.main([NUMBER, SLUG], root) == 0
    return root, build.build(root)


def test_a_new_lesson_stands_in_the_roadmap_of_every_notebook_and_in_the_pages_that_list_lessons(copy):
    root, changed = copy
    books = {path.relative_to(root).as_posix() for path in root.glob("[ns]*/*.ipynb")}
    assert books <= set(changed) and f"notebooks/{NUMBER}_{SLUG}.ipynb" in books
    first = (root / "notebooks" / "00_start_here.ipynb").read_text(encoding="utf-8")
    assert f"[{NUMBER}]({NUMBER}_{SLUG}.ipynb)" in first
    pages = {
        "README.md",
        "docs/run_sheets.md",
        "docs/teaching_notes.md",
        "docs/glossary.md",
        "docs/mistakes.md",
        "docs/plans.md",
    }
    pages.add(f"docs/maps/{NUMBER}_{SLUG}.png")
    assert set(changed) - books <= pages
    assert f"{NUMBER}_{SLUG}" in (root / "README.md").read_text(encoding="utf-8")
    assert f"## {NUMBER} · Title" in (root / "docs" / "teaching_notes.md").read_text(encoding="utf-8")


def test_the_checks_of_a_new_lesson_load_its_answers_get_their_words_and_its_solution_runs(copy, tmp_path):
    book = nbformat.read(copy[0] / "solutions" / f"{NUMBER}_{SLUG}.ipynb", as_version=4)
    script = tmp_path / "solution.py"
    script.write_text("\n\n".join([*(cell.source for cell in code_cells(book)), USE_IT]), encoding="utf-8")
    answers = {"VIT_COURSE_ANSWERS": str(tmp_path), "VIT_COURSE_STRICT": "1"}
    env = {**os.environ, "PYTHONPATH": str(copy[0]), **answers}
    run = subprocess.run([sys.executable, script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert "4.67" in run.stdout and run.stdout.endswith("all is there\n"), run.stderr


@pytest.mark.parametrize(
    ("number", "slug", "words"),
    [
        ("14", "more", "lesson 14 is there already: lessons/14_bug_clinic"),
        ("98", "hybrid", "vit_course/extensions/hybrid.py is there already"),
        ("7", "more", "give two digits"),
        ("98", "More", "in lower case"),
        ("98", "since-2021", "such as 18 video"),
    ],
)
def test_a_number_or_a_name_that_cannot_be_used_is_refused(copy, number, slug, words):
    with pytest.raises(LessonError, match=words):
        new_lesson.write_lesson(copy[0], number, slug)


# -- made by `make lesson`, in a copy of all that git keeps


def in_the_copy(root, *command):
    """Run a command in a copy of the course, with this Python; what it prints belongs to the error, if it fails."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(
        command, cwd=root, env={**env, "PYTHONPATH": str(root)}, capture_output=True, text=True
    )
    assert done.returncode == 0, (
        f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    )


@pytest.fixture(scope="module")
def whole_copy(tmp_path_factory):
    """All files that git keeps, in a folder of their own, with a lesson that `make lesson` wrote, built and run."""
    if shutil.which("make") is None or not (ROOT / ".git").exists():
        pytest.skip("needs make, and the course in git")
    root = tmp_path_factory.mktemp("whole")
    listed = ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    for name in filter(None, subprocess.check_output(listed, text=True).split("\0")):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    in_the_copy(root, "git", "init", "--quiet")
    in_the_copy(
        root, "make", "lesson", f"NN={NUMBER}", f"SLUG={SLUG}", "SKIP_INSTALL=1", f"VENV={sys.prefix}"
    )
    in_the_copy(root, sys.executable, "-m", "authoring.notebooks.build", "--execute", NUMBER)
    return root


@pytest.mark.slow
def test_a_lesson_of_make_lesson_passes_the_tests_of_style_house_repository_and_minutes(whole_copy):
    in_the_copy(whole_copy, sys.executable, "-m", "ruff", "check", ".")
    in_the_copy(whole_copy, sys.executable, "-m", "ruff", "format", "--check", ".")
    quiet = "-q", "-n", "0", "-p", "no:nbval", "-p", "no:cacheprovider"
    in_the_copy(whole_copy, sys.executable, "-m", "pytest", *quiet, *HOUSE_TESTS)


@pytest.mark.weekly
def test_make_test_passes_with_a_lesson_of_make_lesson(whole_copy):
    in_the_copy(whole_copy, "make", "lessons", "SKIP_INSTALL=1", f"VENV={sys.prefix}")
    in_the_copy(whole_copy, "make", "test", "SKIP_INSTALL=1", f"VENV={sys.prefix}")
