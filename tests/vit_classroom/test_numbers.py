"""Numbers and tables as the lessons show them."""

import random
import re

import numpy as np
import pytest

from vit_classroom import table
from vit_classroom.numbers import minutes, number, percent

DRAW = random.Random(0)
DRAWN = [DRAW.uniform(-10, 10) * 10 ** DRAW.randint(-8, 12) for _ in range(3000)]
EDGES = [0.0, -0.0, -1e-9, 9.995, 9.9949, 99.95, 999.5, 999.95, -0.0004, 0.99951, 1e6 - 0.5, 1e-6]
FLOATS = [*EDGES, *[-value for value in EDGES], *DRAWN]
WRITTEN = re.compile(r"-?(0|[1-9]\d{0,2}(,\d{3})*)(\.\d+)?(e-\d\d+)?")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567, "1,234,567"),
        (-1234, "-1,234"),
        (0.0234, "0.0234"),
        (0.5, "0.500"),
        (9.999, "10.0"),
        (-0.0, "0"),
        (120851.1, "120,851"),
        (1e-9, "1.00e-09"),
        (np.float32(0.25), "0.250"),
        (np.int64(1000), "1,000"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_a_number_is_written_in_full_or_with_three_digits(value, text):
    assert number(value) == text


def test_a_number_can_have_other_digits():
    assert number(0.123456, digits=2) == "0.12"
    assert number(1.5, digits=1) == "2"


def test_every_number_has_a_digit_before_its_point_commas_and_no_minus_zero():
    for value in FLOATS:
        for text in (number(value), number(round(value)), percent(value).removesuffix(" %")):
            assert WRITTEN.fullmatch(text), (value, text)
            assert float(text.replace(",", "")) != 0 or "-" not in text, (value, text)


def test_a_number_read_back_is_right_to_three_digits():
    for value in FLOATS:
        assert float(number(value).replace(",", "")) == pytest.approx(value, rel=0.005)


def test_a_share_is_written_in_percent():
    shown = [percent(share) for share in (0.612, 1, -0.00001, 12.3456)]
    assert shown == ["61.2 %", "100.0 %", "0.0 %", "1,234.6 %"]
    assert percent(0.6149, decimals=0) == "61 %"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (75.0, "1 min 15 s"),
        (59.7, "1 min"),
        (9.96, "10 s"),
        (4.24, "4.2 s"),
        (0.01, "under 0.1 s"),
        (3599, "1 h"),
        (7500, "2 h 5 min"),
        (1e8, "27,777 h 47 min"),
    ],
)
def test_a_time_is_written_in_the_units_that_fit(seconds, text):
    assert minutes(seconds) == text


def test_no_time_is_said_to_be_nothing_and_no_unit_is_full():
    for seconds in [abs(value) for value in FLOATS] + [n / 4 for n in range(16_000)]:
        text = minutes(seconds)
        assert not re.search(r"(?<![\d.,])0(\.0)? |60 (s|min)|^$", text), (seconds, text)


# -- tables

ROWS = [["ViT", 1234567, 0.612], ["linear <b>", 30730, 0.1]]
TABLE = table(ROWS, ["model", "parameters", "share"], "Two models")


def test_a_table_as_text_is_aligned_with_numbers_to_the_right():
    assert str(TABLE).splitlines() == [
        "Two models",
        "model       parameters  share",
        "ViT          1,234,567  0.612",
        "linear <b>      30,730  0.100",
    ]
    assert repr(TABLE) == str(TABLE)


def test_a_table_in_a_notebook_is_html_with_the_same_cells():
    html = TABLE._repr_html_()
    assert html.startswith("<table><caption>Two models</caption><thead><tr><th")
    assert (
        '<td style="text-align: left">linear &lt;b&gt;</td><td style="text-align: right">30,730</td>' in html
    )
    assert '<th style="text-align: right">share</th>' in html


def test_a_column_of_percents_stands_to_the_right_and_one_with_words_to_the_left():
    assert table([[percent(0.5), "12", "3x"], ["", "–", "4"]], "abc").right == [True, True, False]


def test_a_truth_value_is_no_number():
    assert table([[True]], ["yes?"]).rows == (("True",),)


@pytest.mark.parametrize("rows", [[], [[1, 2]], [[1], [1, 2]]])
def test_rows_that_do_not_fit_their_columns_are_refused(rows):
    with pytest.raises(ValueError, match="do not fit 1 columns"):
        table(rows, ["one"])
