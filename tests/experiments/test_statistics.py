"""Planning and reading experiments: the rule, plans, widths, tables."""

import numpy as np
import pytest

from vit_classroom.evidence.statistics import (
    PAPER_TABLE_8,
    best_rate,
    by_step,
    data_needed,
    difference,
    difference_in_words,
    from_to,
    result_table,
    signed,
    t_quantile,
    undecided,
)

# -- the rule of the course

PRINTED = {
    0.90: {1: 6.314},
    0.95: {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 10: 2.228, 30: 2.042, 120: 1.980, 1000: 1.962},
    0.99: {1: 63.657, 2: 9.925, 4: 4.604, 120: 2.617},
}
"""Two-sided quantiles of Student's t as printed in tables, with three decimals."""


@pytest.mark.parametrize("confidence", PRINTED)
def test_t_quantiles_are_those_of_the_printed_tables(confidence):
    found = {degrees: t_quantile(confidence, degrees) for degrees in PRINTED[confidence]}
    assert found == pytest.approx(PRINTED[confidence], abs=6e-4)


def test_between_whole_degrees_of_freedom_the_t_quantile_falls():
    found = [t_quantile(0.95, degrees) for degrees in (2, 2.01, 2.5, 2.99, 3)]
    assert found == sorted(found, reverse=True) and len(set(found)) == 5


def test_a_t_quantile_of_swapped_arguments_is_refused():
    with pytest.raises(ValueError, match="4 is no probability"):
        t_quantile(4, 0.95)


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [(-1, 2, True), (0, 2, True), (-2, 0, True), (0.1, 2, False), (-2, -0.1, False)],
)
def test_an_interval_that_holds_zero_decides_nothing(low, high, answer):
    assert undecided(low, high) is answer


@pytest.mark.parametrize(("seeds", "scales"), [(3, (1, 1)), (5, (1, 1)), (5, (1, 3))])
def test_equal_settings_are_told_apart_in_at_most_five_of_a_hundred(seeds, scales):
    draws = np.random.default_rng(3).normal(size=(1000, 2, seeds)) * np.array(scales)[None, :, None]
    alarms = sum(not undecided(*difference(list(a), list(b))[1:]) for a, b in draws)
    assert 0.02 < alarms / len(draws) < 0.065


def test_the_difference_in_words_gives_the_interval_and_says_when_nothing_is_decided():
    same, far = [80.0, 81.0, 82.0], [90.0, 91.0, 92.0]
    assert difference_in_words("X", far, "Y", same) == (
        "X against Y: +10.0 points, 95 % interval +7.7 to +12.3"
    )
    assert difference_in_words("X", same, "Y", same) == (
        "X against Y: +0.0 points, 95 % interval -2.3 to +2.3, undecided"
    )
    assert "one seed has no spread" in difference_in_words("X", [80.0], "Y", far)


# -- planning and reading


def test_records_are_collected_by_step_in_percent():
    scores = [("a", 0.5), ("b", 0.25), ("a", 0.75)]
    records = [{"step": step, "test_accuracy": accuracy} for step, accuracy in scores]
    assert by_step(records) == {"a": [50.0, 75.0], "b": [25.0]}


def test_a_result_table_compares_each_setting_with_the_base():
    results = {"base": [80.0, 81.0], "good": [90.0, 91.0], "bad": [70.0, 71.0], "like it": [80.5, 81.0]}
    rows, columns = result_table(results, "base", {"GFLOP": {"good": 1.5}})
    assert columns == ["setting", "seeds", "mean in %", "minus base", "95 % interval", "verdict", "GFLOP"]
    assert rows[0] == ["base", 2, "80.5", "", "", "", ""]
    assert rows[1] == ["good", 2, "90.5", "+10.0", "+7.0 to +13.0", "better", 1.5]
    assert [row[5] for row in rows[2:]] == ["worse", "undecided"]


def test_a_result_table_of_single_seeds_decides_nothing_and_without_its_base_shows_the_settings_alone():
    rows, _ = result_table({"base": [80.0], "other": [90.0]}, "base")
    assert rows[1] == ["other", 1, "90.0", "+10.0", "unknown", "undecided"]
    assert result_table({"other": [90.0, 91.0]}, "base")[0] == [["other", 2, "90.5", "", "", ""]]


def test_a_difference_that_rounds_to_zero_is_not_negative_and_no_end_of_a_decided_interval_reads_as_0():
    assert signed(-0.04) == "+0.0"
    assert signed(-0.06) == "-0.1"
    assert from_to(-4.84, -0.04) == "-4.84 to -0.04"
    assert from_to(0.004, 2.0) == "+0.004 to +2.000"
    assert from_to(-1.06, 0.04) == "-1.1 to +0.0"
    assert from_to(0.0, 0.0) == "+0.0 to +0.0"


def test_the_papers_table_gives_any_position_more_than_two_points_over_none():
    none = PAPER_TABLE_8["none"]["stem"]
    others = [value for kind, row in PAPER_TABLE_8.items() if kind != "none" for value in row.values()]
    assert len(others) == 7
    assert 2.5 < min(others) - none < max(others) - none < 3


def test_the_best_rate_is_that_of_the_highest_mean_and_says_where_the_sweep_is_too_narrow():
    assert best_rate({0.1: [50, 70], 0.2: [61, 61], 0.4: [90, 10]}) == (0.2, False)
    assert best_rate({0.2: [61], 0.1: [62]}) == (0.1, True)
    assert best_rate({0.4: [62], 0.2: [62], 0.1: [60]}) == (0.2, False)


THREE, TWO = {1000: 40.0, 100: 20.0, 10_000: 80.0}, {100: 20.0, 1000: 40.0}
CROSSES = {1: 0.1, 10: 0.5, 100: 0.3, 1000: 0.6}


@pytest.mark.parametrize(
    ("curve", "target", "needed"),
    [
        *((THREE, 30, 10**2.5), (THREE, 40, 1000), (THREE, 50, 10**3.25)),
        *((TWO, 10, 100), (TWO, 41, None), ({}, 10, None)),  # nothing is guessed outside
        (CROSSES, 0.5, 10),  # the first crossing
    ],
)
def test_data_needed_is_read_off_a_line_over_the_logarithm(curve, target, needed):
    assert data_needed(curve, target) == (None if needed is None else pytest.approx(needed))


def test_data_needed_leaves_out_what_costs_more_and_is_not_better():
    rising = {1: 0.1, 10: 0.5, 1000: 0.6}
    for target in (0.05, 0.3, 0.5, 0.55, 0.6):
        assert data_needed(rising | {100: 0.3}, target) == pytest.approx(data_needed(rising, target))
        assert data_needed(rising | {100: 0.5}, target) == pytest.approx(data_needed(rising, target))
