"""Answers to the exercises of lesson 10, written as students write them."""

import math
import statistics

import numpy as np
import torch

from vit_course.experiments.statistics import (
    best_learning_rate,
    compare_seeds,
    mean_and_spread,
    one_at_a_time,
)


def refuse(base, changes):
    for name, change in changes.items():
        if len(change) != 1 or any(s not in base or base[s] == v for s, v in change.items()):
            raise ValueError(f"{name} is no change of one thing")


def plan_piles_up(base, changes):
    refuse(base, changes)
    plan, settings = {"base": dict(base)}, dict(base)
    for name, change in changes.items():
        settings.update(change)
        plan[name] = dict(settings)
    return plan


def plan_changes_base(base, changes):
    refuse(base, changes)
    plan = {"base": dict(base)}
    for name, change in changes.items():
        base.update(change)
        plan[name] = dict(base)
    return plan


def plan_changes_changes(base, changes):
    refuse(base, changes)
    plan = {"base": dict(base)}
    for name, change in changes.items():
        change.update({k: v for k, v in base.items() if k not in change})
        plan[name] = change
    return plan


def plan_one_dict(base, changes):
    refuse(base, changes)
    settings, plan = dict(base), {"base": dict(base)}
    for name, change in changes.items():
        settings.update(change)
        plan[name] = settings
    return plan


def plan_changes_alone(base, changes):
    refuse(base, changes)
    return {"base": dict(base)} | {name: dict(change) for name, change in changes.items()}


def plan_without_base(base, changes):
    refuse(base, changes)
    return {name: dict(base) | dict(change) for name, change in changes.items()}


def plan_base_last(base, changes):
    plan = plan_without_base(base, changes)
    plan["base"] = dict(base)
    return plan


def plan_base_wins(base, changes):
    refuse(base, changes)
    return {"base": dict(base)} | {name: dict(change) | dict(base) for name, change in changes.items()}


def plan_list(base, changes):
    return list(one_at_a_time(base, changes).values())


def plan_hands_on_base(base, changes):
    return one_at_a_time(base, changes) | {"base": base}


def plan_two_things(base, changes):
    for name, change in changes.items():
        if not change or any(s not in base or base[s] == v for s, v in change.items()):
            raise ValueError(name)
    return {"base": dict(base)} | {name: {**base, **change} for name, change in changes.items()}


def plan_typing_mistakes(base, changes):
    for name, change in changes.items():
        if len(change) != 1 or any(s in base and base[s] == v for s, v in change.items()):
            raise ValueError(name)
    return {"base": dict(base)} | {name: {**base, **change} for name, change in changes.items()}


def plan_compares_objects(base, changes):
    for name, change in changes.items():
        if len(change) != 1 or any(s not in base or base[s] is v for s, v in change.items()):
            raise ValueError(name)
    return {"base": dict(base)} | {name: {**base, **change} for name, change in changes.items()}


def plan_value_is_used_elsewhere(base, changes):
    for name, change in changes.items():
        if len(change) != 1 or any(s not in base or v in base.values() for s, v in change.items()):
            raise ValueError(name)
    return {"base": dict(base)} | {name: {**base, **change} for name, change in changes.items()}


def plan_no_setting_of_zero(base, changes):
    for name, change in changes.items():
        if len(change) != 1 or any(not base.get(s) or base[s] == v for s, v in change.items()):
            raise ValueError(f"{name}: the base does not have it")
    return {"base": dict(base)} | {name: {**base, **change} for name, change in changes.items()}


def plan_named_by_setting(base, changes):
    refuse(base, changes)
    plan = {"base": dict(base)}
    for change in changes.values():
        for setting, value in change.items():
            plan[setting] = {**base, setting: value}
    return plan


def plan_leaves_out_zeros(base, changes):
    return one_at_a_time(base, {name: c for name, c in changes.items() if all(c.values())})


def plan_list_of_pairs(base, changes):
    return list(one_at_a_time(base, changes).items())


def plan_tests_the_first_alone(base, changes):
    refuse(base, dict(list(changes.items())[:1]))
    return {"base": dict(base)} | {name: {**base, **change} for name, change in changes.items()}


def plan_no_errors(base, changes):
    return {"base": dict(base)} | {name: {**base, **change} for name, change in changes.items()}


def plan_same_value(base, changes):
    for name, change in changes.items():
        if len(change) != 1 or any(s not in base for s in change):
            raise ValueError(name)
    return {"base": dict(base)} | {name: {**base, **change} for name, change in changes.items()}


def plan_assert(base, changes):
    for change in changes.values():
        assert len(change) == 1
        assert all(s in base and base[s] != v for s, v in change.items())
    return {"base": dict(base)} | {name: {**base, **change} for name, change in changes.items()}


def plan_copies(base, changes):
    refuse(base, changes)
    plan = {"base": base.copy()}
    for name in changes:
        settings = base.copy()
        settings.update(changes[name])
        plan[name] = settings
    return plan


def plan_setting_by_setting(base, changes):
    refuse(base, changes)
    everything = {"base": {}} | dict(changes)
    return {
        name: {setting: change.get(setting, value) for setting, value in base.items()}
        for name, change in everything.items()
    }


def spread_population(values):
    s = statistics.pstdev(values)
    return sum(values) / len(values), *((s, s / math.sqrt(len(values))) if len(values) > 1 else (None, None))


def spread_variance(values):
    s = statistics.variance(values) if len(values) > 1 else None
    return statistics.mean(values), s, s and s / math.sqrt(len(values))


def spread_variance_kept(values):
    m, s, e = mean_and_spread(values)
    return m, s and s**2, e


def spread_error_over_n(values):
    m, s, _ = mean_and_spread(values)
    return m, s, None if s is None else s / len(values)


def spread_error_over_n_minus_1(values):
    m, s, _ = mean_and_spread(values)
    return m, s, None if s is None else s / math.sqrt(len(values) - 1)


def spread_error_is_deviation(values):
    m, s, _ = mean_and_spread(values)
    return m, s, s


def spread_error_times(values):
    m, s, _ = mean_and_spread(values)
    return m, s, None if s is None else s * math.sqrt(len(values))


def spread_range(values):
    m, s, _ = mean_and_spread(values)
    width = max(values) - min(values)
    return m, width, width / math.sqrt(len(values))


def spread_median(values):
    return statistics.median(values), *mean_and_spread(values)[1:]


def spread_best(values):
    return max(values), *mean_and_spread(values)[1:]


def spread_order(values):
    m, s, e = mean_and_spread(values)
    return m, e, s


def spread_two_values(values):
    return mean_and_spread(values)[:2]


def spread_one_is_zero(values):
    if len(values) == 1:
        return values[0], 0.0, 0.0
    return mean_and_spread(values)


def spread_one_fails(values):
    s = statistics.stdev(values)
    return statistics.mean(values), s, s / len(values) ** 0.5


def spread_one_is_nan(values):
    s = torch.tensor(values, dtype=torch.float64).std().item()
    return sum(values) / len(values), s, s / len(values) ** 0.5


def spread_empty_is_zero(values):
    return mean_and_spread(values) if len(values) else (0.0, None, None)


def spread_population_alone(values):
    m, s, e = mean_and_spread(values)
    return m, s and statistics.pstdev(values), e


def spread_error_of_population(values):
    m, s, e = mean_and_spread(values)
    return m, s, e and statistics.pstdev(values) / len(values) ** 0.5


def spread_never_divided(values):
    m, s, e = mean_and_spread(values)
    root = math.sqrt(sum((x - m) ** 2 for x in values))
    return m, s and root, e and root / math.sqrt(len(values))


def spread_root_too_early(values):
    m, s, _ = mean_and_spread(values)
    if s is None:
        return m, None, None
    s = math.sqrt(sum((x - m) ** 2 for x in values)) / (len(values) - 1)
    return m, s, s / math.sqrt(len(values))


def spread_mean_not_taken_off(values):
    m, s, _ = mean_and_spread(values)
    if s is None:
        return m, None, None
    s = math.sqrt(sum(x**2 for x in values) / (len(values) - 1))
    return m, s, s / math.sqrt(len(values))


def spread_error_over_freedom(values):
    m, s, _ = mean_and_spread(values)
    return m, s, None if s is None else s / (len(values) - 1)


def spread_error_squared(values):
    m, s, e = mean_and_spread(values)
    return m, s, e and e**2


def spread_sum(values):
    return sum(values), *mean_and_spread(values)[1:]


def spread_mean_over_freedom(values):
    m, s, e = mean_and_spread(values)
    return (m if s is None else sum(values) / (len(values) - 1)), s, e


def spread_sorts_the_seeds(values):
    if isinstance(values, list):
        values.sort()
    return mean_and_spread(values)


def spread_statistics(values):
    if len(values) == 0:
        raise ValueError("no values")
    s = statistics.stdev(values) if len(values) > 1 else None
    return statistics.fmean(values), s, None if s is None else s / len(values) ** 0.5


def spread_numpy(values):
    x = np.array(values, dtype=float)
    if x.size == 0:
        raise ValueError("empty")
    if x.size == 1:
        return [x[0], None, None]
    return [x.mean(), x.std(ddof=1), x.std(ddof=1) / np.sqrt(x.size)]


def spread_torch(values):
    if not len(values):
        raise ValueError("empty")
    x = torch.tensor(values, dtype=torch.float32)
    if len(x) < 2:
        return x.mean(), None, None
    return x.mean(), x.std(), x.std() / len(x) ** 0.5


def decide(difference, error, factor=3.0):
    if error is None or abs(difference) <= factor * error:
        return difference, error, "undecided"
    return difference, error, "a" if difference > 0 else "b"


def errors_of(a, b, deviation):
    if deviation is None:
        return [mean_and_spread(values)[2] for values in (a, b)]
    return [deviation / math.sqrt(len(values)) for values in (a, b)]


def combined(a, b, deviation, how):
    e, f = errors_of(a, b, deviation)
    difference = mean_and_spread(a)[0] - mean_and_spread(b)[0]
    return decide(difference, None if e is None or f is None else how(e, f))


def compare_two_errors(a, b, deviation=None):
    d, e, _ = compare_seeds(a, b, deviation)
    return decide(d, e, 2.0)


def compare_adds_errors(a, b, deviation=None):
    return combined(a, b, deviation, lambda e, f: e + f)


def compare_no_root(a, b, deviation=None):
    return combined(a, b, deviation, lambda e, f: e**2 + f**2)


def compare_larger_error(a, b, deviation=None):
    return combined(a, b, deviation, max)


def compare_deviations(a, b, deviation=None):
    if deviation is not None:
        return compare_seeds(a, b, deviation)
    s, t = mean_and_spread(a)[1], mean_and_spread(b)[1]
    difference = mean_and_spread(a)[0] - mean_and_spread(b)[0]
    return decide(difference, None if s is None or t is None else math.hypot(s, t))


def compare_best_seeds(a, b, deviation=None):
    _, e, _ = compare_seeds(a, b, deviation)
    return decide(max(a) - max(b), e)


def compare_absolute(a, b, deviation=None):
    d, e, winner = compare_seeds(a, b, deviation)
    return abs(d), e, winner


def compare_turned(a, b, deviation=None):
    d, e, winner = compare_seeds(a, b, deviation)
    return -d, e, winner


def compare_verdict_turned(a, b, deviation=None):
    d, e, winner = compare_seeds(a, b, deviation)
    return d, e, {"a": "b", "b": "a", "undecided": "undecided"}[winner]


def compare_always_decides(a, b, deviation=None):
    d, e, _ = compare_seeds(a, b, deviation)
    return d, e, "a" if d > 0 else "b"


def compare_by_overlap(a, b, deviation=None):
    d, e, _ = compare_seeds(a, b, deviation)
    return d, e, "a" if min(a) > max(b) else "b" if min(b) > max(a) else "undecided"


def compare_one_seed_decides(a, b, deviation=None):
    d, e, winner = compare_seeds(a, b, deviation)
    if e is None and d:
        winner = "a" if d > 0 else "b"
    return d, e, winner


def compare_one_seed_is_zero(a, b, deviation=None):
    e, f = errors_of(a, b, deviation)
    return decide(mean_and_spread(a)[0] - mean_and_spread(b)[0], math.hypot(e or 0.0, f or 0.0))


def compare_one_seed_fails(a, b, deviation=None):
    e, f = errors_of(a, b, deviation)
    return decide(mean_and_spread(a)[0] - mean_and_spread(b)[0], math.sqrt(e**2 + f**2))


def compare_word_alone(a, b, deviation=None):
    return compare_seeds(a, b, deviation)[2]


def compare_population(a, b, deviation=None):
    if deviation is not None or min(len(a), len(b)) < 2:
        return compare_seeds(a, b, deviation)
    error = math.hypot(*(np.std(x) / len(x) ** 0.5 for x in (a, b)))
    return decide(statistics.mean(a) - statistics.mean(b), error)


def compare_ignores_deviation(a, b, deviation=None):
    return compare_seeds(a, b)


def compare_deviation_is_error(a, b, deviation=None):
    if deviation is None:
        return compare_seeds(a, b)
    return decide(statistics.mean(a) - statistics.mean(b), math.sqrt(2 * deviation**2))


def compare_deviation_is_difference(a, b, deviation=None):
    _, error, _ = compare_seeds(a, b)
    return decide(statistics.mean(a) - statistics.mean(b), error if deviation is None else deviation)


def compare_zero_deviation_is_none(a, b, deviation=None):
    return compare_seeds(a, b, deviation if deviation else None)


def compare_not_smaller(a, b, deviation=None):
    d, e, _ = compare_seeds(a, b, deviation)
    if e is None or abs(d) < 3 * e:
        return d, e, "undecided"
    return d, e, "a" if d > 0 else "b"


def compare_a_alone_can_win(a, b, deviation=None):
    d, e, _ = compare_seeds(a, b, deviation)
    return d, e, "a" if e is not None and d > 3 * e else "undecided"


def compare_deviation_for_one_seed(a, b, deviation=None):
    if len(a) > 1 and len(b) > 1:
        return compare_seeds(a, b)
    return compare_seeds(a, b, deviation)


def compare_one_seed_never_known(a, b, deviation=None):
    if len(a) == 1 or len(b) == 1:
        return statistics.mean(a) - statistics.mean(b), None, "undecided"
    return compare_seeds(a, b, deviation)


def compare_one_seed_never_decides(a, b, deviation=None):
    d, e, winner = compare_seeds(a, b, deviation)
    return d, e, "undecided" if len(a) == 1 or len(b) == 1 else winner


def compare_gives_up_on_one_seed(a, b, deviation=None):
    if deviation is None and (len(a) == 1 or len(b) == 1):
        return None, None, "undecided"
    return compare_seeds(a, b, deviation)


def compare_with_n_of_a(a, b, deviation=None):
    if deviation is None:
        return compare_seeds(a, b)
    return decide(statistics.mean(a) - statistics.mean(b), math.sqrt(2 * deviation**2 / len(a)))


def compare_with_n_of_b(a, b, deviation=None):
    if deviation is None:
        return compare_seeds(a, b)
    return decide(statistics.mean(a) - statistics.mean(b), math.sqrt(2 * deviation**2 / len(b)))


def compare_student_t(a, b, deviation=None):
    if deviation is not None or min(len(a), len(b)) < 2:
        return compare_seeds(a, b, deviation)
    squares = (len(a) - 1) * statistics.variance(a) + (len(b) - 1) * statistics.variance(b)
    common = squares / (len(a) + len(b) - 2)
    return decide(statistics.mean(a) - statistics.mean(b), math.sqrt(common / len(a) + common / len(b)))


def compare_error_of_a(a, b, deviation=None):
    return combined(a, b, deviation, lambda e, f: e)


def compare_error_of_b(a, b, deviation=None):
    return combined(a, b, deviation, lambda e, f: f)


def compare_mean_of_squares(a, b, deviation=None):
    return combined(a, b, deviation, lambda e, f: math.sqrt((e**2 + f**2) / 2))


def compare_root_of_errors(a, b, deviation=None):
    return combined(a, b, deviation, lambda e, f: math.sqrt(e + f))


def compare_none_if_undecided(a, b, deviation=None):
    d, e, winner = compare_seeds(a, b, deviation)
    return d, e, None if winner == "undecided" else winner


def compare_empty_b(a, b, deviation=None):
    return compare_seeds(a, b, deviation) if len(b) else (0.0, None, "undecided")


def compare_empty_with_deviation(a, b, deviation=None):
    if deviation is not None and not (a and b):
        return 0.0, None, "undecided"
    return compare_seeds(a, b, deviation)


def compare_sorts_the_seeds(a, b, deviation=None):
    a.sort()
    return compare_seeds(a, b, deviation)


def compare_with_statistics(a, b, deviation=None):
    if not a or not b:
        raise ValueError("no seeds")
    difference = statistics.fmean(a) - statistics.fmean(b)
    if deviation is None and (len(a) == 1 or len(b) == 1):
        return difference, None, "undecided"
    variances = [statistics.variance(x) if deviation is None else deviation**2 for x in (a, b)]
    error = (variances[0] / len(a) + variances[1] / len(b)) ** 0.5
    if difference > 3 * error:
        return difference, error, "a"
    return difference, error, "b" if difference < -3 * error else "undecided"


def compare_with_numpy(a, b, deviation=None):
    if len(a) == 0 or len(b) == 0:
        raise ValueError("no seeds")
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    d = x.mean() - y.mean()
    if deviation is None and min(x.size, y.size) == 1:
        return [d, None, "undecided"]
    s, t = (deviation, deviation) if deviation is not None else (x.std(ddof=1), y.std(ddof=1))
    e = np.hypot(s / np.sqrt(x.size), t / np.sqrt(y.size))
    return [d, e, ("undecided", "a", "b")[int(d > 3 * e) + 2 * int(-d > 3 * e)]]


def edges(rate, results):
    return rate == min(results) or rate == max(results)


def rate_best_seed(results):
    best = max(results, key=lambda rate: max(results[rate]))
    return best, edges(best, results)


def rate_sum(results):
    best = max(results, key=lambda rate: sum(results[rate]))
    return best, edges(best, results)


def rate_first_seed(results):
    best = max(results, key=lambda rate: results[rate][0])
    return best, edges(best, results)


def rate_ends_of_dict(results):
    best, rates = best_learning_rate(results)[0], list(results)
    return best, best in (rates[0], rates[-1])


def rate_top_edge(results):
    best = best_learning_rate(results)[0]
    return best, best == max(results)


def rate_bottom_edge(results):
    best = best_learning_rate(results)[0]
    return best, best == min(results)


def rate_wide_enough(results):
    best, at_edge = best_learning_rate(results)
    return best, not at_edge


def rate_never_edge(results):
    return best_learning_rate(results)[0], False


def rate_worst(results):
    best = min(results, key=lambda rate: statistics.mean(results[rate]))
    return best, edges(best, results)


def rate_larger_of_two(results):
    best = max(results, key=lambda rate: (statistics.mean(results[rate]), rate))
    return best, edges(best, results)


def rate_accuracy(results):
    best, at_edge = best_learning_rate(results)
    return statistics.mean(results[best]), at_edge


def rate_order(results):
    best, at_edge = best_learning_rate(results)
    return at_edge, best


def rate_worst_seed(results):
    best = max(results, key=lambda rate: min(results[rate]))
    return best, edges(best, results)


def rate_last_seed(results):
    best = max(results, key=lambda rate: results[rate][-1])
    return best, edges(best, results)


def rate_lower_bound(results):
    best = max(
        results, key=lambda rate: statistics.mean(results[rate]) - (mean_and_spread(results[rate])[1] or 0)
    )
    return best, edges(best, results)


def rate_two_seeds(results):
    best = max(sorted(results), key=lambda rate: statistics.mean(results[rate][:2]))
    return best, edges(best, results)


def rate_rounded(results):
    best = max(sorted(results), key=lambda rate: round(statistics.mean(results[rate])))
    return best, edges(best, results)


def rate_first_in_dict(results):
    best = max(results, key=lambda rate: statistics.mean(results[rate]))
    return best, edges(best, results)


def rate_alone_has_no_edge(results):
    best, at_edge = best_learning_rate(results)
    return best, at_edge and len(results) > 1


def rate_takes_the_best_out(results):
    best, at_edge = best_learning_rate(results)
    results.pop(best)
    return best, at_edge


def rate_alone(results):
    return best_learning_rate(results)[0]


def rate_none_if_empty(results):
    return best_learning_rate(results) if results else (None, True)


def rate_sorted(results):
    if len(results) == 0:
        raise ValueError("empty sweep")
    rates = sorted(results)
    means = [sum(results[rate]) / len(results[rate]) for rate in rates]
    index = means.index(max(means))
    return rates[index], index in (0, len(rates) - 1)


def rate_loop(results):
    best, top = None, None
    for rate in sorted(results):
        mean = statistics.mean(results[rate])
        if top is None or mean > top:
            best, top = rate, mean
    if best is None:
        raise ValueError("no results")
    return [best, not (min(results) < best < max(results))]


WRONG = {
    "one_at_a_time": [
        ("the changes pile up: each experiment should differ from the *base*", plan_piles_up),
        ("your code changes `base` itself", plan_changes_base),
        ("your code changes `changes` itself", plan_changes_changes),
        ("every experiment has all the changes", plan_one_dict),
        ("each experiment needs all settings", plan_changes_alone),
        ("the base itself is missing", plan_without_base),
        ("the base should stand first", plan_base_last),
        ("the base overwrites the change", plan_base_wins),
        ("return a dict: the name", plan_list),
        ("share one dict", plan_hands_on_base),
        ("changes two settings at once", plan_two_things),
        ("a setting that the base does not have", plan_typing_mistakes),
        ("the value that the base has already", plan_same_value),
        ("compare with ==, not `is`", plan_compares_objects),
        ("'mixup': 0.0}, changes = ", plan_value_is_used_elsewhere),
        ("'mixup': 0.0}, changes = ", plan_no_setting_of_zero),
        ("not that of the setting", plan_named_by_setting),
        ("a new value of 0, None or False is a value too", plan_leaves_out_zeros),
        ("you returned a list", plan_list_of_pairs),
        ("changes two settings at once", plan_tests_the_first_alone),
        ("went on without a word", plan_no_errors),
        ("your code stopped with AssertionError", plan_assert),
    ],
    "mean_and_spread": [
        ("divides by n. Divide by n - 1", spread_population),
        ("you return the variance", spread_variance),
        ("the second value is the variance", spread_variance_kept),
        ("yours is s / n", spread_error_over_n),
        ("yours divides by sqrt(n - 1)", spread_error_over_n_minus_1),
        ("should be smaller than s", spread_error_is_deviation),
        ("*divided* by sqrt(n)", spread_error_times),
        ("from the lowest to the highest", spread_range),
        ("the first value is the median", spread_median),
        ("the first value is the best seed", spread_best),
        ("in the wrong order", spread_order),
        ("the standard error is missing", spread_two_values),
        ("its spread is unknown, not 0", spread_one_is_zero),
        ("for one value, [81.5], your code stopped with StatisticsError", spread_one_fails),
        ("you returned (81.5, nan, nan)", spread_one_is_nan),
        ("no mean of an empty list", spread_empty_is_zero),
        ("the standard error is right, but your standard deviation divides by n", spread_population_alone),
        ("the error is made from another one", spread_error_of_population),
        ("the division by n - 1 is missing", spread_never_divided),
        ("n - 1 belongs under the root", spread_root_too_early),
        ("take the mean off each value", spread_mean_not_taken_off),
        ("yours is s / (n - 1)", spread_error_over_freedom),
        ("yours is its square", spread_error_squared),
        ("the first value is the sum", spread_sum),
        ("your mean divides by n - 1", spread_mean_over_freedom),
        ("your code changes `values` itself", spread_sorts_the_seeds),
    ],
    "compare_seeds": [
        ("two standard errors: this course asks for three", compare_two_errors),
        ("you add the two standard errors", compare_adds_errors),
        ("the root of the sum of squares is missing", compare_no_root),
        ("made of standard deviations", compare_deviations),
        ("the larger of the two standard errors", compare_larger_error),
        ("divides by n instead of n - 1", compare_population),
        ("you compare the best seeds", compare_best_seeds),
        ("has lost its sign", compare_absolute),
        ("the sign of the difference is turned round", compare_turned),
        ("the verdict is turned round", compare_verdict_turned),
        ("you always name the higher mean", compare_always_decides),
        ("whether the seeds overlap", compare_by_overlap),
        ("one seed decides nothing", compare_one_seed_decides),
        ("with one seed the error is unknown", compare_one_seed_is_zero),
        ("your code stopped with TypeError", compare_one_seed_fails),
        ("does not use `deviation`", compare_ignores_deviation),
        ("`deviation` is that of one run: divide", compare_deviation_is_error),
        ("not the error of the difference", compare_deviation_is_difference),
        ("return three values", compare_word_alone),
        ("a `deviation` of 0.0 is given too", compare_zero_deviation_is_none),
        ("take > and not >=", compare_not_smaller),
        ("your verdict is never 'b'", compare_a_alone_can_win),
        ("uses `deviation` for one seed alone", compare_deviation_for_one_seed),
        ("None is for one seed *without* it", compare_one_seed_never_known),
        ("'undecided' is for one seed *without* it", compare_one_seed_never_decides),
        ("known even where the error is not", compare_gives_up_on_one_seed),
        ("your error of b is made with the number of a's seeds", compare_with_n_of_a),
        ("your error of a is made with the number of b's seeds", compare_with_n_of_b),
        ("one common spread", compare_student_t),
        ("your error is that of a alone", compare_error_of_a),
        ("your error is that of b alone", compare_error_of_b),
        ("their *sum* belongs under the root", compare_mean_of_squares),
        ("square the two standard errors before", compare_root_of_errors),
        ("the word 'undecided', not None", compare_none_if_undecided),
        ("b is empty", compare_empty_b),
        ("a is empty (with a `deviation`)", compare_empty_with_deviation),
        ("your code changes `a` itself", compare_sorts_the_seeds),
    ],
    "best_learning_rate": [
        ("you choose by the best seed", rate_best_seed),
        ("you add up the seeds", rate_sum),
        ("you look at the first seed only", rate_first_seed),
        ("not the first and the last", rate_ends_of_dict),
        ("the smallest rate is an edge too", rate_top_edge),
        ("the largest rate is an edge too", rate_bottom_edge),
        ("the second value is turned round", rate_wide_enough),
        ("your sweep is never too narrow", rate_never_edge),
        ("the lowest accuracy", rate_worst),
        ("take the smaller one", rate_larger_of_two),
        ("not its accuracy", rate_accuracy),
        ("in the wrong order: (rate, at_edge)", rate_order),
        ("return two values", rate_alone),
        ("a sweep without results", rate_none_if_empty),
        ("you choose by the worst seed", rate_worst_seed),
        ("you look at the last seed only", rate_last_seed),
        ("you take the spread off the mean", rate_lower_bound),
        ("you use two seeds", rate_two_seeds),
        ("you round the means", rate_rounded),
        ("stands first in the dict", rate_first_in_dict),
        ("a sweep of one rate", rate_alone_has_no_edge),
        ("your code changes `results` itself", rate_takes_the_best_out),
    ],
}
RIGHT = {
    "one_at_a_time": [plan_copies, plan_setting_by_setting],
    "mean_and_spread": [spread_statistics, spread_numpy, spread_torch],
    "compare_seeds": [compare_with_statistics, compare_with_numpy],
    "best_learning_rate": [rate_sorted, rate_loop],
}
