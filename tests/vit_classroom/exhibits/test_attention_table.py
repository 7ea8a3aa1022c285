"""The editable attention table: what it writes is what the numbers say, and it follows every number that is changed."""

import ipywidgets
import pytest
import torch

from vit_classroom.exhibits import attention_table
from vit_classroom.exhibits.attention_table import (
    all_queries,
    as_html,
    edit_attention,
    one_query,
    table_panel,
)
from vit_course.attention import scaled_dot_product_attention

NAMES = ["ear", "grass & sky"]
QUERIES, KEYS = torch.tensor([[2.0, 2, 0, 0], [0, 0, 4, 0]]), torch.tensor([[1.0, 1, 0, 0], [0, 1, 1, 0]])
VALUES = torch.tensor([[10.0, 0], [0, 20]])
ALL = QUERIES, KEYS, VALUES, NAMES


def test_the_steps_of_a_query_are_those_of_the_lesson():
    head, ear, grass, sums = one_query(QUERIES[0], KEYS, VALUES, NAMES, 4)
    assert head[2] == "2. divided by 2"
    assert ear[1:3] == ["2·1 + 2·1 + 0·0 + 0·0 = 4", "2"]
    assert grass[1:4] == ["2·0 + 2·1 + 0·1 + 0·0 = 2", "1", "2.72 / 10.1 = 0.27"]
    assert sums[3:] == ["1.00", "(7.3, 5.4)"]


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_steps_that_were_not_asked_for_stay_hidden(step):
    whole = one_query(QUERIES[0], KEYS, VALUES, NAMES, 4)
    for row, full in zip(one_query(QUERIES[0], KEYS, VALUES, NAMES, step)[1:], whole[1:], strict=True):
        assert row == full[: 1 + step] + [""] * (4 - step)


def test_the_weights_of_all_queries_are_those_of_attention():
    received, weights = scaled_dot_product_attention(QUERIES, KEYS, VALUES)
    rows = all_queries(*ALL)[1:]
    assert [[float(cell) for cell in row[1:3]] for row in rows] == [
        [round(x, 2) for x in w] for w in weights.tolist()
    ]
    assert rows[1][3] == "({:.1f}, {:.1f})".format(*received[1].tolist())


def test_html_marks_the_query_and_draws_bars_as_long_as_the_weights():
    html = as_html(all_queries(*ALL), range(1, 3), 2)
    assert html.count("solid #D55E00") == 1
    assert html.index("solid #D55E00") < html.index("<td", html.index("grass &amp; sky</td>"))
    assert ".35) 73%, transparent 73%" in html
    assert html.count("linear-gradient") == 4
    assert as_html(one_query(QUERIES[0], KEYS, VALUES, NAMES, 4), range(3, 4)).count("linear-gradient") == 2


def controls_of(panel):
    """The fields of q and of k as rows of fields, the two choices, the way back, and the tables."""
    grid, query, step, back, tables = panel.children
    fields = [[f for f in line.children if hasattr(f, "min")] for line in grid.children[1:]]
    return [row[:4] for row in fields], [row[4:] for row in fields], query, step, back, tables


def test_the_tables_follow_every_number_and_every_choice(shown):
    edit_attention(*ALL)
    q, k, query, step, back, tables = controls_of(shown[0])
    first = tables.value
    assert "0.73" in first
    assert "4. weight" in first
    assert "2.72 / 10.1" not in first
    step.value = 3
    assert "2.72 / 10.1 = 0.27" in tables.value
    q[0][0].value, k[1][1].value = 4, -2
    assert "4·0 + 2·-2 + 0·1 + 0·0 = -4" in tables.value
    query.value = 1
    assert "q = (0, 0, 4, 0)" in tables.value
    back.click()
    query.value, step.value = 0, 1
    assert tables.value == first


def test_no_number_can_make_the_table_overflow():
    _, k, _, step, _, tables = controls_of(table_panel(100 * QUERIES, 100 * KEYS, VALUES, NAMES))
    k[0][0].value, step.value = 1000, 4
    assert k[0][0].value == attention_table.LARGEST
    assert not any(word in tables.value for word in ("nan", "inf"))


def test_widgets_switched_off_leave_the_tables(shown, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_WIDGETS", "0")
    edit_attention(*ALL)
    assert not isinstance(shown[0], ipywidgets.Widget)
    assert all("2.72 / 10.1 = 0.27" in shown[0][kind] for kind in ("text/plain", "text/html"))


def test_outside_a_notebook_the_tables_are_aligned_text(capsys):
    edit_attention(*ALL)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].index("1. score") == lines[1].index("2·1") == lines[2].index("2·0")
    assert any("who listens to whom" in line for line in lines)
