"""Checks of lesson 10: design choices, measured."""

import copy
from collections.abc import Callable
from math import sqrt
from statistics import mean, median, stdev

from vit_course.classroom.checks.compare import compare, demand_error
from vit_course.classroom.checks.outcome import Mistake, outcome
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import explain_error
from vit_course.experiments import statistics

BASE = {"lr": 0.001, "decay": 0.05, "smoothing": 0.1}
CHANGES = {"no decay": {"decay": 0.0}, "no smoothing": {"smoothing": 0.0}, "faster": {"lr": 0.002}}


def _kept(answer: Callable, *names: str) -> Callable:
    """Run an answer on copies of lists and dicts, and demand that it leaves them as they are."""

    def function(*given):
        copies = copy.deepcopy(given)
        result = answer(*copies)
        for name, before, after in zip(names, given, copies, strict=False):
            if before != after or (isinstance(before, dict) and list(before) != list(after)):
                raise Mistake(
                    f"your code changes `{name}` itself: whoever called it still needs the old one. Work on a copy, "
                    "for example sorted(...)"
                )
        return result

    return function


def _plan(answer, base: dict, changes: dict):
    """Return the answer's plan, and demand that what it was given stays as it is."""
    given = copy.deepcopy((base, changes))
    plan = outcome(lambda f, *case: f(*case), answer, given)
    if isinstance(plan, Exception):
        raise Mistake(
            f"on base = {base!r}, changes = {changes!r}, your code stopped with {explain_error(plan)}"
        )
    if given != (base, changes):
        which = "base" if given[0] != base else "changes"
        raise Mistake(
            f"your code changes `{which}` itself, so the changes pile up: start each experiment from a fresh copy, "
            "dict(base)"
        )
    return plan, given[0]


@exercise(statistics.one_at_a_time)
def check_one_at_a_time(answer):
    cases = [
        ({"lr": 0.001}, {"faster": {"lr": 0.002}}),
        (BASE, CHANGES),
        ({"pool": "token", "depth": 3, "tables": [1]}, {"deep": {"depth": 6}, "avg": {"pool": "avg"}}),
        ({"decay": 0.05, "mixup": 0.0}, {"mixup": {"mixup": 0.8}, "no decay": {"decay": 0.0}}),
        ({"clip": None, "crop": False}, {"clip": {"clip": 1.0}, "crop": {"crop": True}}),
        (BASE, {}),
    ]

    def listed(function):
        def plan(base, changes):
            result = _plan(function, base, changes)[0]
            if isinstance(result, dict):
                return [(name, s if isinstance(s, dict) else repr(s)) for name, s in result.items()]
            return result

        return plan

    def finished(base, changes):
        return statistics.one_at_a_time(base, changes)

    def pile_up(base, changes):
        plan, now = {"base": dict(base)}, dict(base)
        for name, change in changes.items():
            now = {**now, **change}
            plan[name] = now
        return plan

    def changes_alone(base, changes):
        return {"base": dict(base), **{name: dict(change) for name, change in changes.items()}}

    def no_base(base, changes):
        return {name: {**base, **change} for name, change in changes.items()}

    def base_last(base, changes):
        return {**no_base(base, changes), "base": dict(base)}

    def base_wins(base, changes):
        return {"base": dict(base), **{name: {**change, **base} for name, change in changes.items()}}

    def all_at_once(base, changes):
        together = dict(base)
        for change in changes.values():
            together |= change
        return {"base": dict(base), **{name: dict(together) for name in changes}}

    def values_alone(base, changes):
        return list(finished(base, changes).values())

    def by_setting(base, changes):
        named = {setting: {**base, **change} for change in changes.values() for setting in change}
        return {"base": dict(base), **named}

    def none_left_out(base, changes):
        used = {n: c for n, c in changes.items() if all(c.values())}
        return finished(base, used)

    compare(
        listed(answer),
        listed(finished),
        cases,
        [
            (
                listed(pile_up),
                "the changes pile up: each experiment should differ from the *base* in one setting, not from the "
                "experiment before it (that would be a ladder)",
            ),
            (listed(all_at_once), "every experiment has all the changes: give each one its own"),
            (
                listed(changes_alone),
                "each experiment needs all settings: those of the base, with the changed one replaced",
            ),
            (
                listed(no_base),
                "the base itself is missing: without it there is nothing to compare with. Put it first, as 'base'",
            ),
            (listed(base_last), "the base should stand first, then the experiments in their order"),
            (
                listed(base_wins),
                "the base overwrites the change: in {**first, **second} the second one wins, so the change goes second",
            ),
            (listed(values_alone), "return a dict: the name of each experiment and its settings"),
            (listed(by_setting), "the key is the name of the experiment, not that of the setting"),
            (
                listed(none_left_out),
                "a new value of 0, None or False is a value too: test with `in`, not with `if value`",
            ),
        ],
    )
    plan, base = _plan(answer, BASE, CHANGES)
    if not isinstance(plan, dict):
        raise Mistake(
            "return a dict: the name of each experiment and its settings; you returned a "
            f"{type(plan).__name__}"
        )
    if len({id(base), *map(id, plan.values())}) <= len(plan):
        raise Mistake(
            "two experiments share one dict, so changing one later would change the other: make a copy for each, "
            "the base included"
        )
    for change, why in (
        ({"both": {"lr": 0.002, "decay": 0.0}}, "an experiment that changes two settings at once"),
        ({"none": {}}, "an experiment that changes no setting"),
        ({"typo": {"learning_rate": 0.002}}, "a setting that the base does not have, 'learning_rate'"),
        ({"same": {"lr": 0.001}}, "a change to the value that the base has already"),
        (
            {"same": {"steps": [2, 4]}},
            "a change to the value that the base has already (compare with ==, not `is`)",
        ),
    ):
        base = {**BASE, "steps": [2, 4]}
        for given in (change, {"no decay": {"decay": 0.0}, **change, "faster": {"lr": 0.002}}):
            demand_error(answer, (dict(base), given), f"your code accepts {why}", ValueError)


@exercise(statistics.mean_and_spread)
def check_mean_and_spread(answer):
    def known(spread, error=None):
        def function(values):
            s = spread(values)
            return mean(values), s, error(values) if error else s / sqrt(len(values))

        return function

    def population(values):
        return sqrt(mean((x - mean(values)) ** 2 for x in values))

    def absolute(values):
        return mean(abs(x - mean(values)) for x in values)

    cases = [
        ([1.0, 3.0],),
        ([80.0, 81.0, 85.0],),
        ((0.5, 0.5, 0.5, 0.5),),
        ([-3.0, 4.5, 10.25, 0.0, 7.0, 7.5],),
    ]

    def sum_of_squares(values):
        return sum((x - mean(values)) ** 2 for x in values)

    def from_zero(values):
        return sqrt(sum(x * x for x in values) / (len(values) - 1))

    def error(values):
        return stdev(values) / sqrt(len(values))

    kept = _kept(answer, "values")
    compare(
        kept,
        statistics.mean_and_spread,
        cases,
        [
            (
                known(population),
                "your standard deviation divides by n. Divide by n - 1: the values are closer to their own mean than "
                "to the true one, and n - 1 makes up for it",
            ),
            (
                known(lambda v: stdev(v) ** 2, lambda v: stdev(v) / sqrt(len(v))),
                "the second value is the variance: the root is missing",
            ),
            (known(lambda v: stdev(v) ** 2), "you return the variance: the root is missing"),
            (
                known(population, error),
                "the standard error is right, but your standard deviation divides by n: divide by n - 1",
            ),
            (
                known(stdev, lambda v: population(v) / sqrt(len(v))),
                "the standard deviation is right, but the error is made from another one, which divides by n",
            ),
            (
                known(lambda v: sqrt(sum_of_squares(v))),
                "under the root the division by n - 1 is missing: more seeds would give a larger spread",
            ),
            (
                known(lambda v: sqrt(sum_of_squares(v)) / (len(v) - 1)),
                "n - 1 belongs under the root: divide first, then take the root",
            ),
            (known(from_zero), "take the mean off each value before you square it"),
            (
                known(stdev, lambda v: stdev(v) / len(v)),
                "the standard error is s / sqrt(n); yours is s / n: the root is missing",
            ),
            (
                known(stdev, lambda v: stdev(v) / sqrt(len(v) - 1)),
                "the standard error is s / sqrt(n); yours divides by sqrt(n - 1). The n - 1 belongs into s alone",
            ),
            (
                known(stdev, lambda v: stdev(v) / (len(v) - 1)),
                "the standard error is s / sqrt(n); yours is s / (n - 1)",
            ),
            (
                known(stdev, lambda v: stdev(v) ** 2 / len(v)),
                "the standard error is s / sqrt(n); yours is its square, s² / n: the root is missing",
            ),
            (known(stdev, stdev), "the standard error should be smaller than s: s / sqrt(n)"),
            (known(stdev, lambda v: stdev(v) * sqrt(len(v))), "the standard error is s *divided* by sqrt(n)"),
            (
                known(lambda v: max(v) - min(v)),
                "your spread is the distance from the lowest to the highest: it grows with the number of seeds. The "
                "standard deviation was asked for",
            ),
            (
                known(absolute),
                "your spread is the mean absolute deviation: square, sum, divide, then the root",
            ),
            (
                lambda v: (median(v), stdev(v), stdev(v) / sqrt(len(v))),
                "the first value is the median: the mean was asked for",
            ),
            (
                lambda v: (sum(v), stdev(v), stdev(v) / sqrt(len(v))),
                "the first value is the sum: divide it by n",
            ),
            (
                lambda v: (sum(v) / (len(v) - 1), stdev(v), stdev(v) / sqrt(len(v))),
                "your mean divides by n - 1: that is for the spread alone, the mean divides by n",
            ),
            (
                lambda v: (max(v), stdev(v), stdev(v) / sqrt(len(v))),
                "the first value is the best seed: the mean was asked for",
            ),
            (
                lambda v: (mean(v), stdev(v) / sqrt(len(v)), stdev(v)),
                "the right numbers in the wrong order: (mean, standard deviation, standard error)",
            ),
            (
                lambda v: (mean(v), stdev(v)),
                "the standard error is missing: return three values",
            ),
        ],
    )
    single = outcome(lambda f, values: f(values), kept, ([81.5],))
    if isinstance(single, Exception):
        raise Mistake(f"for one value, [81.5], your code stopped with {explain_error(single)}")
    if not isinstance(single, tuple | list) or len(single) != 3 or single[1:] != type(single)([None, None]):
        raise Mistake(
            "one value has a mean, but its spread is unknown, not 0: return (81.5, None, None); you returned "
            f"{single!r:.200}"
        )
    compare(kept, statistics.mean_and_spread, [([81.5],), ([-2],)])
    demand_error(answer, ([],), "there is no mean of an empty list", ValueError)


def _rule(errors, centre=mean, factor=3.0, combine=lambda e, f: sqrt(e * e + f * f), few=2):
    """Build a comparison like `compare_seeds` from its parts, right or wrong."""

    def function(a, b, deviation=None):
        difference = centre(a) - centre(b)
        if deviation is None and min(len(a), len(b)) < few:
            return difference, None, "undecided"
        each = [errors(v) if deviation is None else deviation / sqrt(len(v)) for v in (a, b)]
        error = combine(*each)
        if abs(difference) <= factor * error:
            return difference, error, "undecided"
        return difference, error, "a" if difference > 0 else "b"

    return function


@exercise(statistics.compare_seeds)
def check_compare_seeds(answer):
    cases = [
        ([81.0, 82.0], [71.0, 72.0]),
        ([71.0, 72.0, 73.0], [81.0, 82.0, 83.0]),
        ([80.0, 81.0, 82.0], [80.0, 81.0, 82.0]),
        ([80.0, 81.0, 82.0], [82.1, 83.1, 84.1]),  # 2.6 errors
        ([84.1, 82.0, 83.0], [80.0, 81.9, 81.0, 81.2]),  # 2.8 errors; no seeds overlap
        ([80.0, 80.6, 81.2], [81.0, 81.9, 82.4, 82.1, 82.0, 81.9, 82.3]),  # 3.4 errors; seeds overlap
        ([90.0, 90.2, 90.4, 90.6], [88.9, 90.0]),
        ([82.1, 81.9, 82.0, 82.2, 81.8], [81.4, 81.6, 81.5]),  # 4.9 errors, .5 points
        ([95.0], [60.0, 61.0, 62.0]),
        ([50.0, 51.0], [90.0]),
        ([70.0], [70.0]),
        ([80.0, 81.0, 82.0], [70.0, 71.0, 72.0], 9.0),
        ([80.0, 80.0, 80.0], [79.0, 79.0], 0.2),
        ([80.0, 85.0, 75.0], [82.0], 0.5),
        ([90.0], [60.0, 70.0, 80.0, 70.0], 4.0),
        ([80.0, 80.0], [80.0, 80.0]),
        ([82.0, 83.0], [80.0, 81.0], 0.0),
        ([80.0], [82.0], 0.0),
    ]

    def error(values):
        return stdev(values) / sqrt(len(values))

    def population_error(values):
        return sqrt(mean((x - mean(values)) ** 2 for x in values) / len(values))

    right = _rule(error)

    def result(position, change):
        def function(a, b, deviation=None):
            parts = list(right(a, b, deviation))
            parts[position] = change(*parts)
            return tuple(parts)

        return function

    def highest_mean(a, b, deviation=None):
        difference, error, _ = right(a, b, deviation)
        return difference, error, "a" if difference > 0 else "b"

    def no_overlap(a, b, deviation=None):
        difference, error, _ = right(a, b, deviation)
        return difference, error, "a" if min(a) > max(b) else "b" if min(b) > max(a) else "undecided"

    def single_decides(a, b, deviation=None):
        if deviation is not None or min(len(a), len(b)) > 1:
            return right(a, b, deviation)
        difference = mean(a) - mean(b)
        return difference, None, "a" if difference > 0 else "b" if difference < 0 else "undecided"

    def single_is_zero(a, b, deviation=None):
        return _rule(lambda v: error(v) if len(v) > 1 else 0.0, few=1)(a, b, deviation)

    def deviation_ignored(a, b, deviation=None):
        return right(a, b)

    def deviation_as_error(a, b, deviation=None):
        if deviation is None:
            return right(a, b)
        return right([mean(a)], [mean(b)], deviation)

    def zero_is_none(a, b, deviation=None):
        return right(a, b, deviation or None)

    def deviation_if_single(a, b, deviation=None):
        return right(a, b, deviation if min(len(a), len(b)) < 2 else None)

    def single_always_unknown(a, b, deviation=None):
        return right(a, b, deviation if min(len(a), len(b)) > 1 else None)

    def single_always_undecided(a, b, deviation=None):
        parts = right(a, b, deviation)
        return parts if min(len(a), len(b)) > 1 else (*parts[:2], "undecided")

    def single_without_difference(a, b, deviation=None):
        parts = right(a, b, deviation)
        return parts if parts[1] is not None else (None, None, "undecided")

    def a_alone(a, b, deviation=None):
        difference, error, verdict = right(a, b, deviation)
        return difference, error, "undecided" if verdict == "b" else verdict

    def equal_decided(a, b, deviation=None):
        difference, error, verdict = right(a, b, deviation)
        return difference, error, "b" if error == 0 and difference == 0 else verdict

    def n_of_one(which):
        def function(a, b, deviation=None):
            if deviation is None:
                return right(a, b)
            same = [mean((a, b)[which])] * len((a, b)[which])
            difference = mean(a) - mean(b)
            return difference, *right([x + difference for x in same], same, deviation)[1:]

        return function

    def same_spread(a, b, deviation=None):
        if deviation is None and min(len(a), len(b)) > 1:
            free = len(a) + len(b) - 2
            squares = [(len(v) - 1) * stdev(v) ** 2 for v in (a, b)]
            return right(a, b, sqrt(sum(squares) / free))
        return right(a, b, deviation)

    def deviation_of_difference(a, b, deviation=None):
        if deviation is None:
            return right(a, b)
        difference = mean(a) - mean(b)
        far = abs(difference) > 3 * deviation
        return difference, deviation, ("a" if difference > 0 else "b") if far else "undecided"

    kept = _kept(answer, "a", "b")
    compare(
        kept,
        statistics.compare_seeds,
        cases,
        [
            (
                zero_is_none,
                "a `deviation` of 0.0 is given too: ask `deviation is not None`, since `if deviation` leaves out 0",
            ),
            (
                equal_decided,
                "two equal settings without any scatter are told apart: a difference counts if it is *larger* than "
                "three errors, so take > and not >=",
            ),
            (
                a_alone,
                "your verdict is never 'b': a difference below zero can be large as well, so compare `abs(difference)`",
            ),
            (
                deviation_if_single,
                "your code uses `deviation` for one seed alone: where it is given, it always takes the place of s",
            ),
            (
                single_always_unknown,
                "with `deviation` the error of one seed is known, s / sqrt(1): None is for one seed *without* it",
            ),
            (
                single_always_undecided,
                "with `deviation` one seed can decide: 'undecided' is for one seed *without* it",
            ),
            (
                single_without_difference,
                "the difference of the means is known even where the error is not: return it, not None",
            ),
            (n_of_one(0), "your error of b is made with the number of a's seeds: each setting has its own n"),
            (n_of_one(1), "your error of a is made with the number of b's seeds: each setting has its own n"),
            (
                same_spread,
                "your code gives a and b one common spread: without `deviation` each error comes from its own seeds",
            ),
            (_rule(error, combine=lambda e, f: e), "your error is that of a alone: combine both"),
            (_rule(error, combine=lambda e, f: f), "your error is that of b alone: combine both"),
            (
                _rule(error, combine=lambda e, f: sqrt((e * e + f * f) / 2)),
                "you take the mean of the squares: their *sum* belongs under the root",
            ),
            (
                _rule(error, combine=lambda e, f: sqrt(e + f)),
                "square the two standard errors before you add them: sqrt(e_a² + e_b²)",
            ),
            (
                result(2, lambda d, e, v: None if v == "undecided" else v),
                "where nothing is decided, the verdict is the word 'undecided', not None",
            ),
            (_rule(error, factor=2.0), "your rule asks for two standard errors: this course asks for three"),
            (_rule(error, factor=1.0), "your rule asks for one standard error: this course asks for three"),
            (
                _rule(error, combine=lambda e, f: e + f),
                "you add the two standard errors: chance rarely pushes both the wrong way, so add their squares and "
                "take the root",
            ),
            (_rule(error, combine=lambda e, f: e * e + f * f), "the root of the sum of squares is missing"),
            (_rule(error, combine=max), "you use the larger of the two standard errors: combine both"),
            (
                _rule(stdev),
                "your error is made of standard deviations: the means scatter less, take the standard errors",
            ),
            (
                _rule(population_error),
                "your standard deviation divides by n instead of n - 1: use `mean_and_spread`",
            ),
            (
                _rule(error, centre=max),
                "you compare the best seeds: the best of more seeds is higher by chance alone. Compare the means",
            ),
            (_rule(error, centre=median), "you compare medians: means were asked for"),
            (
                result(0, lambda d, e, v: abs(d)),
                "the difference has lost its sign: mean of a minus mean of b",
            ),
            (
                result(0, lambda d, e, v: -d),
                "the sign of the difference is turned round: mean of a minus mean of b",
            ),
            (
                result(2, lambda d, e, v: {"a": "b", "b": "a"}.get(v, v)),
                "the verdict is turned round: 'a' means that a has the higher accuracies",
            ),
            (
                highest_mean,
                "you always name the higher mean: where the difference is not larger than three standard errors, "
                "the verdict is 'undecided'",
            ),
            (
                no_overlap,
                "your verdict asks whether the seeds overlap: the rule compares the difference with three errors",
            ),
            (single_decides, "one seed decides nothing, however large the difference: 'undecided'"),
            (
                single_is_zero,
                "with one seed the error is unknown, not 0: return None for it, and 'undecided'",
            ),
            (
                deviation_ignored,
                "your code does not use `deviation`: where it is given, it takes the place of s in both errors",
            ),
            (
                deviation_as_error,
                "`deviation` is that of one run: divide it by sqrt(n) for the standard error of each mean",
            ),
            (
                deviation_of_difference,
                "`deviation` is that of one run, not the error of the difference: e_a and e_b are made from it",
            ),
            (
                lambda a, b, deviation=None: right(a, b, deviation)[2],
                "return three values: the difference, its standard error, the verdict",
            ),
        ],
    )
    for case, why in (
        (([], [80.0, 81.0]), "a is empty"),
        (([80.0, 81.0], []), "b is empty"),
        (([], [80.0], 0.5), "a is empty (with a `deviation`)"),
        (([80.0], [], 0.5), "b is empty (with a `deviation`)"),
    ):
        demand_error(answer, case, why, ValueError)


@exercise(statistics.best_learning_rate)
def check_best_learning_rate(answer):
    cases = [
        ({0.001: [70.0], 0.002: [75.0], 0.004: [72.0]},),
        ({0.001: [70.0, 71.0], 0.002: [75.0, 74.0], 0.004: [80.0, 79.0]},),
        ({0.01: [90.0, 88.0], 0.1: [80.0, 82.0]},),
        ({0.004: [72.0, 73.0], 0.001: [70.0, 71.0], 0.002: [75.0, 74.5]},),
        ({0.002: [81.0, 80.5], 0.008: [60.0], 0.001: [79.0, 80.0], 0.016: [85.0, 84.0], 0.004: [83.0]},),
        ({0.001: [80.0, 80.0, 80.0], 0.002: [84.0, 84.0, 84.0], 0.004: [90.0, 70.0, 71.0]},),
        ({0.001: [80.0, 80.0, 80.0, 80.0], 0.002: [84.0, 85.0], 0.004: [70.0, 71.0, 72.0, 73.0]},),
        ({0.003: [80.0, 81.0], 0.03: [81.0, 80.0], 0.001: [20.0, 30.0], 0.3: [10.0, 10.0]},),
        ({0.001: [50.0]},),
        ({0.001: [10.0, 10.0], 0.002: [100.0, 60.0], 0.004: [79.0, 80.5], 0.008: [5.0, 5.0]},),
        ({0.001: [1.0], 0.002: [70.0, 70.0, 100.0], 0.004: [79.0, 79.0, 79.0], 0.008: [70.0, 70.0, 60.0]},),
        ({0.001: [10.0], 0.002: [60.0, 100.0], 0.004: [79.0, 80.5], 0.008: [5.0]},),
        ({0.001: [75.0, 75.0], 0.002: [95.0, 70.0, 95.0, 95.0, 95.0], 0.004: [60.0]},),
        ({0.001: [70.0], 0.002: [80.1, 80.3], 0.004: [80.5, 80.1], 0.008: [70.0]},),
        ({0.3: [10.0], 0.03: [80.0, 81.0, 80.5], 0.003: [81.5, 79.5], 0.0003: [20.0]},),
    ]

    def known(score=mean, edge=lambda best, rates: best in (min(rates), max(rates)), worst=False, tie=min):
        def function(results):
            scores = {rate: score(values) for rate, values in results.items()}
            top = (min if worst else max)(scores.values())
            best = tie(rate for rate, value in scores.items() if value == top)
            return best, edge(best, list(results))

        return function

    def first_of_equals(results):
        best = max(results, key=lambda rate: mean(results[rate]))
        return best, best in (min(results), max(results))

    right = known()
    compare(
        _kept(answer, "results"),
        statistics.best_learning_rate,
        cases,
        [
            (
                first_of_equals,
                "of two equally good rates take the smaller one; yours is the one that stands first in the dict, so go "
                "through sorted(results)",
            ),
            (known(score=min), "you choose by the worst seed: choose by the mean over the seeds"),
            (
                known(score=lambda values: values[-1]),
                "you look at the last seed only: take the mean over all of them",
            ),
            (
                known(score=lambda values: mean(values) - (stdev(values) if len(values) > 1 else 0)),
                "you take the spread off the mean: the mean alone decides here",
            ),
            (
                known(score=lambda values: mean(values[:2])),
                "you use two seeds of each rate: take the mean over all of them",
            ),
            (
                known(score=lambda values: round(mean(values))),
                "you round the means before you compare them: compare the means as they are",
            ),
            (
                known(edge=lambda best, rates: len(rates) > 1 and best in (min(rates), max(rates))),
                "a sweep of one rate has its edge there: the second value is True",
            ),
            (
                known(score=max),
                "you choose by the best seed: one lucky run decides. Choose by the mean over the seeds",
            ),
            (known(score=sum), "you add up the seeds: a rate with more seeds wins. Take their mean"),
            (known(score=median), "you choose by the median: the mean over the seeds was asked for"),
            (
                known(score=lambda values: values[0]),
                "you look at the first seed only: take the mean over all of them",
            ),
            (
                known(edge=lambda best, rates: best in (rates[0], rates[-1])),
                "the rates stand in no order: the edges are the smallest and the largest rate, not the first and the "
                "last",
            ),
            (
                known(edge=lambda best, rates: best == max(rates)),
                "the smallest rate is an edge too: the best may be below it",
            ),
            (
                known(edge=lambda best, rates: best == min(rates)),
                "the largest rate is an edge too: the best may be above it",
            ),
            (
                known(edge=lambda best, rates: min(rates) < best < max(rates)),
                "the second value is turned round: True means that the best rate lies at the edge",
            ),
            (
                known(edge=lambda best, rates: False),
                "your sweep is never too narrow: the second value is True if the best rate is the smallest or the "
                "largest",
            ),
            (
                known(worst=True),
                "you return the rate with the lowest accuracy: these are accuracies, not losses",
            ),
            (known(tie=max), "of two equally good rates take the smaller one"),
            (
                lambda r: (mean(r[right(r)[0]]), right(r)[1]),
                "the first value should be the learning rate, not its accuracy",
            ),
            (lambda r: right(r)[::-1], "the right values in the wrong order: (rate, at_edge)"),
            (lambda r: right(r)[0], "return two values: the rate, and whether it lies at the edge"),
        ],
    )
    demand_error(answer, ({},), "a sweep without results has no best rate", ValueError)
