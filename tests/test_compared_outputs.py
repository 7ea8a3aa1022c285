"""What is compared of a notebook's outputs: nothing that is said differently goes unnoticed, rounding does."""

import os
import subprocess
import sys
from decimal import Decimal
from types import SimpleNamespace

import nbformat.v4 as v4
import pytest

from tests.compared_outputs import compare_outputs, text_difference
from vit_course.training.paths import ROOT

LOSSES = "epoch  1: loss 2.302\nepoch 10: loss 1.430\n"
SHAPES = "tokens: (64, 16, 64) = (B, T, D)\nequal: True\n"
VECTOR = "tensor([[ 0.1250, -1.5000],\n        [ 3.0000,  0.0001]])\n"
COUNTS = "50,176 tokens, 0.154 MB; 5.3 %\n"
TINY = "gap 2.4e-07, std 1.88\n"


def outputs(*texts):
    """Outputs of a cell: streams of text, and for ("html", ...) a result with both forms."""
    made = []
    for text in texts:
        if isinstance(text, tuple):
            made.append(v4.new_output("display_data", {"text/html": text[0], "text/plain": text[1]}))
        else:
            made.append(v4.new_output("stream", name="stdout", text=text))
    return made


def same(stored, new, tolerance=None):
    """Compare as nbval's cell would; return whether nothing differs, and what is said."""
    metadata = {} if tolerance is None else {"tolerance": tolerance}
    cell = SimpleNamespace(
        cell=SimpleNamespace(metadata=metadata),
        parent=SimpleNamespace(skip_compare={"stderr", "image/png"}),
        sanitize=lambda text: text,
    )
    return compare_outputs(cell, new, stored), "\n".join(cell.comparison_traceback)


TABLE = ("<td>Ti</td><td>0.5</td>", "Ti  0.5")
MUTATIONS = [
    # what was shown; a part of it, and what stands there now; tolerance; what the report says
    (SHAPES, "tokens", "token", None, "line 1 was 'tokens: (64"),
    (SHAPES, "True", "False", None, "line 2 was 'equal: True' and is 'equal: False'"),
    (SHAPES, "16", "17", None, "line 1: 16 was stored, 17 came; they may differ by 0"),
    (SHAPES, "(64, 16, 64)", "(64, 16)", None, "line 1 was"),
    (SHAPES, "16", "16.5", None, "16 was stored, 16.5 came; they may differ by 0.1"),
    (SHAPES, SHAPES, "equal: True\ntokens: (64, 16, 64) = (B, T, D)\n", None, "line 1 was"),
    (SHAPES, "\nequal: True\n", "", None, "line 2 is missing: 'equal: True'"),
    (SHAPES, SHAPES, SHAPES + "done\n", None, "line 3 is new: 'done'"),
    (LOSSES, "1.430", "1.440", None, "line 2: 1.430 was stored, 1.440 came; they may differ by 0.001"),
    (LOSSES, "1.430", "-1.430", None, "line 2: 1.430 was stored, -1.430 came"),
    (LOSSES, "1.430", "5.430", 0.4, "line 2: 1.430 was stored, 5.430 came; they may differ by 0.4"),
    (LOSSES, "10", "11", 0.4, "line 2: 10 was stored, 11 came; they may differ by 0"),
    (LOSSES, "1.430", "nan", 0.4, "line 2 was"),
    (LOSSES, LOSSES, "epoch  1: loss 1.430\nepoch 10: loss 2.302\n", 0.4, "line 1: 2.302 was stored, 1.430"),
    (VECTOR, "0.0001", "0.0002", 0, "line 2: 0.0001 was stored, 0.0002 came; they may differ by 0"),
    (VECTOR, "-1.5000", "-1.5010", None, "they may differ by 0.0001"),
    (VECTOR, "tensor(", "array(", None, "line 1 was"),
    (COUNTS, "50,176", "50,177", None, "50,176 was stored, 50,177 came"),
    (COUNTS, " %", " points", None, "line 1 was"),
    (COUNTS, "5.3", "6.3", None, "5.3 was stored, 6.3 came; they may differ by 0.1"),
    (TINY, "e-07", "e-06", None, "2.4e-07 was stored, 2.4e-06 came"),
    (TINY, "1.88", "1.98", None, "1.88 was stored, 1.98 came; they may differ by 0.01"),
]
ORDERS = [
    (outputs("one\n", TABLE), outputs(TABLE, "one\n"), "it showed ['stdout', 'text/html', 'text/plain'] and shows"),
    (outputs("one\n", TABLE), outputs("one\n"), "and shows ['stdout']"),
    (outputs("one\n"), outputs("one\n", TABLE), "it showed ['stdout'] and shows"),
    (outputs(TABLE), outputs((TABLE[0], "Ti  0.7")), "text/plain, line 1: 0.5 was stored, 0.7 came"),
    (outputs(TABLE), outputs((TABLE[0].replace("Ti", "S"), TABLE[1])), "text/html, line 1 was"),
    ([v4.new_output("error", ename="ValueError", evalue="no")],
     [v4.new_output("error", ename="TypeError", evalue="no")], "ename, line 1 was 'ValueError'"),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "part", "now", "tolerance", "words"), MUTATIONS)
def test_what_is_said_differently_is_noticed_with_both_values_and_the_tolerance(
    stored, part, now, tolerance, words
):
    new = stored.replace(part, now)
    assert stored != new
    passed, said = same(outputs(stored), outputs(new), tolerance)
    assert not passed and words in said, said
    assert same(outputs(stored), outputs(stored), tolerance) == (True, "")


@pytest.mark.parametrize(("stored", "new", "words"), ORDERS)
def test_outputs_that_are_missing_new_or_in_another_order_are_noticed(stored, new, words):
    passed, said = same(stored, new)
    assert not passed and words in said, said


@pytest.mark.parametrize(
    ("stored", "new", "tolerance"),
    [
        (LOSSES, LOSSES.replace("1.430", "1.429"), None),
        (LOSSES, LOSSES.replace("1.430", "1.725"), 0.4),
        (VECTOR, VECTOR.replace("0.0001", "0.0000"), None),
        (VECTOR, VECTOR.replace(" 0.0001", "-0.0001"), "0.001"),
        ("std   9.99 a\n", "std  10.00 a\n", None),
        (TINY, TINY.replace("2.4", "2.5"), None),
        ("in all 100.0 %\n", "in all 98.4 %\n", 12),
    ],
)
def test_numbers_within_their_tolerance_and_the_blanks_before_them_are_no_difference(stored, new, tolerance):
    assert same(outputs(stored), outputs(new), tolerance) == (True, "")


def test_code_that_is_shown_is_compared_exactly():
    code = [v4.new_output("display_data", {"text/markdown": "```python\nrate = 0.1\n```"})]
    other = [v4.new_output("display_data", {"text/markdown": "```python\nrate = 0.2\n```"})]
    assert same(code, other, 5)[0] is False


@pytest.mark.parametrize("text", ["v1.2.3 of 2026-11-23", "1.5.2", "x2, 3e, 0x1f, 1,2,3", "-", ""])
def test_what_only_looks_like_a_number_breaks_nothing(text):
    assert text_difference(text, text, Decimal(0)) == ""


def test_nbval_compares_in_this_way_and_shows_no_bar_on_a_slow_machine(tmp_path):
    slow = "from vit_course.data import shapes\nshapes.PATIENCE = 0\nlen(shapes.draw_shapes(2000, 0)[0])"
    warned = (
        "display({'image/png': 'bmV3'}, raw=True)\nimport sys\nprint('slow', file=sys.stderr)\nprint(0.1239)"
    )
    cells = [(warned, "0.1230\n", 0.01), ("print(0.1239)", "0.1230\n", None), (slow, "2000", None)]
    book = v4.new_notebook()
    for count, (source, text, tolerance) in enumerate(cells, 1):
        shown = v4.new_output("stream", name="stdout", text=text)
        if source is slow:
            shown = v4.new_output("execute_result", {"text/plain": text}, execution_count=count)
        metadata = {} if tolerance is None else {"tolerance": tolerance}
        book.cells.append(v4.new_code_cell(source, outputs=[shown], execution_count=count, metadata=metadata))
    book.metadata["vit_course"] = {"torch": __import__("torch").__version__}
    (tmp_path / "solutions").mkdir()
    path = tmp_path / "solutions" / "01_book.ipynb"
    path.write_text(v4.writes(book), encoding="utf-8")
    options = "-p conftest -p tests.quick_start -p no:cacheprovider --nbval --nbval-current-env --color=no"
    command = [sys.executable, "-m", "pytest", *options.split(), f"--rootdir={tmp_path}", str(path)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "VIT_COURSE_WIDGETS": "0",
        "VIT_COURSE_COMPARE": "1",
        "VIT_COURSE_FORK": "0",
    }
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "Cell 1: Cell outputs differ" in done.stdout
    assert "stdout, line 1: 0.1230 was stored, 0.1239 came; they may differ by 0.0001" in done.stdout
