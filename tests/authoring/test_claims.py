"""Sentences that a run must bear out: tried on tiny courses, true ones, false ones, and such as were turned round."""

import ast
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import nbformat
import pytest
from test_build import TinyCourse

from authoring.notebooks import build as builder
from authoring.notebooks.claim_kernel import examine
from authoring.notebooks.claims import claims_of, questions, shift_seeds
from authoring.notebooks.count_claims import main, unclaimed
from authoring.notebooks.course import read_course
from authoring.notebooks.outputs import FalseClaims

ROOT = Path(__file__).resolve().parents[2]
CODE = "# %%\nfrom vit_course.maths import root\nfirst, second = root(4), root(9)"
PROSE = "# %% [markdown] {}\n# The second is <em>larger</em> than the first."
LESSON = "lessons/01_roots/lesson.py"
CONFIG = "from dataclasses import dataclass\n\n\n@dataclass\nclass TrainConfig:\n    seed: int = 0\n"


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_PROFILE", "cpu")
    return TinyCourse(tmp_path)


def write(course, claim, more=""):
    course.lesson(CODE, PROSE.format(f'claim="{claim}"{more}'))
    course.build()


# -- a claim and the build


@pytest.mark.slow
def test_a_claim_that_the_run_bears_out_is_stored_with_the_solution_and_is_no_output(course):
    write(course, "second > first")
    assert list(builder.execute(course.root)) == ["solutions/01_roots.ipynb"]
    assert course.check() == []
    cells = course.read("solutions").cells
    assert [cell.metadata.claim for cell in cells if "claim" in cell.metadata] == ["second > first"]
    assert [cell.execution_count for cell in cells if cell.cell_type == "code"] == [1, 2]
    assert "claim" not in str(course.read("notebooks"))


@pytest.mark.slow
def test_a_false_claim_is_refused_with_sentence_expression_and_values_and_nothing_is_stored(course):
    write(course, "first > 0 and first > second - len('a')")
    before = course.read("solutions")
    with pytest.raises(FalseClaims) as error:
        list(builder.execute(course.root))
    assert str(error.value).splitlines() == [
        "solutions/01_roots.ipynb does not show what it says:",
        '"The second is larger than the first."',
        "  claims: first > 0 and first > second - len('a')",
        "  false: first > second - len('a')",
        "    first = 2.0",
        "    second - len('a') = 2.0",
        "    second = 3.0",
        "    len('a') = 1",
    ]
    assert course.read("solutions") == before


def test_a_claim_turned_into_its_opposite_makes_the_solution_stale(course):
    write(course, "second > first")
    course.store_outputs()
    assert course.check() == []
    course.replace(LESSON, "second > first", "second < first")
    course.build()
    (message,) = course.check()
    assert "outputs are stale" in message


def test_a_claim_that_holds_always_makes_nothing_stale_since_every_push_tries_it(course):
    write(course, "second > first", " always")
    course.store_outputs()
    course.replace(LESSON, "second > first", "second < first")
    course.build()
    assert course.check() == []


@pytest.mark.slow
def test_a_smoke_run_examines_what_holds_always_and_nothing_about_training(course, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_PROFILE", "smoke")
    false = PROSE.format('claim="second < first"')
    course.lesson(CODE, false, PROSE.format('always claim=["second == 3"]'))
    course.build()
    assert list(builder.execute(course.root))
    course.replace(LESSON, '"second == 3"', '"second == 3", "second == 4"')
    with pytest.raises(FalseClaims, match="false: second == 4") as error:
        list(builder.execute(course.root, ["01"]))
    assert len(error.value.wrong) == 1


@pytest.mark.slow
def test_the_tests_of_the_notebooks_try_what_holds_always(course):
    true, false = (PROSE.format(f'always claim="second {sign} first"') for sign in "><")
    course.lesson("# %%\nfirst, second = 2.0, 3.0", true, false, PROSE.format('claim="second < 0"'))
    course.build()
    course.write("conftest.py", (ROOT / "conftest.py").read_text("utf-8"))
    path = os.pathsep.join([str(ROOT), str(course.root)])
    options = (
        "-q -p tests.quick_start -p no:cacheprovider --nbval-lax --nbval-current-env --import-mode=importlib"
    )
    command = Path(sysconfig.get_path("scripts"), "pytest")  # leaves the small course's package aside
    line = [command, *options.split(), "solutions"]
    env = {**os.environ, "PYTHONPATH": path, "VIT_COURSE_FORK": "0"}
    done = subprocess.run(line, cwd=course.root, env=env, capture_output=True, text=True)
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "false: second < first" in done.stdout and "first = 2.0" in done.stdout


# -- what a message says


@pytest.mark.parametrize(
    ("claim", "lines"),
    [
        ("xs[0] < 2", []),
        ("xs[0] > 1", ["  false: xs[0] > 1", "    xs[0] = 1", "    xs = [1, 2]"]),
        ("any(x > 2 for x in xs)", ["  false: any((x > 2 for x in xs))", "    xs = [1, 2]"]),
        ("xs == [1, 3]", ["  false: xs == [1, 3]", "    xs = [1, 2]"]),
        ("y > 1", ["  cannot be evaluated: y > 1: NameError: name 'y' is not defined"]),
        ("not twice(xs)", ["  false: not twice(xs)", "    twice(xs) = [1, 2, 1, 2]", "    xs = [1, 2]"]),
    ],
)
def test_a_message_says_which_part_is_false_and_what_stands_in_it(claim, lines):
    names = {"xs": [1, 2], "x": 7, "twice": lambda xs: xs + xs}
    said = examine(claim, "A sentence.", names).splitlines()
    assert said == ([*['"A sentence."', f"  claims: {claim}"], *lines] if lines else [])


def test_a_message_quotes_all_the_text_before_the_next_heading():
    text = "Long. " * 300 + "It is less.\n\n## 2. Next"
    cell = nbformat.v4.new_markdown_cell(text, metadata={"claim": "1 > 2"})
    (code,) = questions(cell)
    assert "It is less." in code and "Next" not in code


# -- other seeds


@pytest.mark.parametrize(
    ("source", "shifted"),
    [
        ("torch.manual_seed(0)", "torch.manual_seed(5)"),
        ("torch.Generator().manual_seed(7)", "torch.Generator().manual_seed(12)"),
        ("torch.manual_seed(seed)", "torch.manual_seed(seed)"),
        ("run(x=0, seed=1)", "run(x=0, seed=6)"),
        ("def f(x=0, seed=0, *, y=1): pass", "def f(x=0, seed=5, *, y=1): pass"),
        ("def f(x=0, *, y=1, seed=2): pass", "def f(x=0, *, y=1, seed=7): pass"),
        ("{'seed': 0, 'epochs': 1}", "{'seed': 5, 'epochs': 1}"),
        ("[f(seed) for seed in range(3)]", "[f(seed) for seed in range(0 + 5, 3 + 5)]"),
        ("for seed in (0, 1): pass", "for seed in (5, 6): pass"),
        ("seeds = range(1, n)", "seeds = range(1 + 5, n + 5)"),
        ("record['seed'] == 0", "record['seed'] == 0"),
        ("for i in range(3): pass", "for i in range(3): pass"),
    ],
)
def test_every_literal_seed_of_a_lesson_is_shifted_once(source, shifted):
    assert shift_seeds(source, 5) == ast.unparse(ast.parse(shifted))


def test_a_configuration_that_names_no_seed_is_shifted_too_with_those_of_all_recipes():
    code = (
        "import runpy\n"
        "runpy.run_path('authoring/notebooks/claim_kernel.py')['shift_default_seed'](1000)\n"
        "from vit_course.train import TrainConfig\nfrom vit_course.recipes import RECIPES\n"
        "print({TrainConfig().seed, *(recipe.seed for recipe in RECIPES.values())}, TrainConfig(seed=3).seed)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "{1000} 3\n"


@pytest.mark.slow
def test_claims_are_tried_with_several_seeds_and_nothing_is_stored(course, capsys, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_SEED", "1")
    course.write("vit_course/train.py", CONFIG)
    chance = "# %%\nfrom vit_course.train import TrainConfig\n\nnumber = max(TrainConfig().seed, dict(seed=0)['seed'])"
    course.lesson(chance, PROSE.format('claim="number >= 0 and number < 2000"'))
    before = course.built("solutions")
    assert builder.main(["--claims", "01", "--seeds", "2"], course.root) == 1
    said = capsys.readouterr().out
    assert "solutions/01_roots.ipynb, seed 1: all 1 claims hold\n" in said
    assert "solutions/01_roots.ipynb, seed 2: 0 of 1 claims hold\n" in said and "number = 2000" in said
    assert said.endswith("every claim holds in 1 of 2 runs\n")
    assert course.read("solutions") == before


# -- the list


def test_sentences_about_a_result_without_a_claim_are_listed(course):
    text = "# %% [markdown]{}\n# The first is best. So it is. Which is most?\n#\n# ## 2. Then all of them"
    course.lesson(text.format(""), CODE, text.format(""), CODE, text.format(' claim="first < 9"'))
    (lesson,) = read_course(course.root).lessons
    assert [sentence for _, sentence in unclaimed(lesson)] == ["The first is best."]


def test_the_tool_counts_claims_by_lesson(capsys):
    (lesson,) = read_course(ROOT).select(["10"])
    claims = sum(len(claims_of(cell.metadata)) for cell in lesson.cells)
    assert main(["10", "--list"]) == 0
    said = capsys.readouterr().out
    assert claims and f"| 10 | {claims} |" in said and f"| all | {claims} |" in said
    assert said.count("lessons/10_design_choices/lesson.py:") == len(list(unclaimed(lesson)))
