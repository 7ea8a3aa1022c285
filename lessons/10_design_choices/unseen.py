"""Answers to the exercises of lesson 10, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import math
from collections import ChainMap
from collections.abc import Mapping
from math import inf, sqrt
from statistics import fmean, mean, stdev, variance
from typing import Any

import numpy as np
import torch

from vit_course.experiments.statistics import t_quantile


def plan_same_values_pass(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if len(change) != 1:
            raise ValueError(f"{name} changes {len(change)} settings")
        ((setting, value),) = change.items()
        if setting not in base:
            raise ValueError(f"{setting} is not in the base")
        plan[name] = {**base, setting: value}
    return plan


def plan_several_settings_pass(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if not change:
            raise ValueError(f"{name} changes nothing")
        for setting, value in change.items():
            if setting not in base or base[setting] == value:
                raise ValueError(f"{setting} does not change")
        plan[name] = {**base, **change}
    return plan


def plan_empty_changes_pass(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if len(change) > 1:
            raise ValueError(f"{name} changes {len(change)} settings")
        for setting, value in change.items():
            if setting not in base or base[setting] == value:
                raise ValueError(f"{setting} does not change")
        plan[name] = {**base, **change}
    return plan


def plan_key_error(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if len(change) != 1:
            raise ValueError(f"{name} changes {len(change)} settings")
        ((setting, value),) = change.items()
        if base[setting] == value:
            raise ValueError(f"{name} changes nothing")
        plan[name] = {**base, setting: value}
    return plan


def plan_compares_identity(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if len(change) != 1:
            raise ValueError(f"{name} changes {len(change)} settings")
        ((setting, value),) = change.items()
        if setting not in base or base[setting] is value:
            raise ValueError(f"{name} changes nothing that is there")
        plan[name] = {**base, setting: value}
    return plan


def plan_empties_the_changes(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if len(change) != 1:
            raise ValueError(f"{name} changes {len(change)} settings")
        setting, value = change.popitem()
        if setting not in base or base[setting] == value:
            raise ValueError(f"{name} changes nothing that is there")
        plan[name] = {**base, setting: value}
    return plan


def plan_by_update(base: Mapping[str, Any], changes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict]:
    for name in changes:
        keys = list(changes[name])
        if len(keys) != 1:
            raise ValueError(f"experiment {name!r} should change one setting, it changes {len(keys)}")
        if keys[0] not in base:
            raise ValueError(f"experiment {name!r}: there is no setting {keys[0]!r}")
        if changes[name][keys[0]] == base[keys[0]]:
            raise ValueError(f"experiment {name!r}: {keys[0]!r} has this value already")
    result = {"base": {}, **{name: {} for name in changes}}
    for name, settings in result.items():
        settings.update(base)
        settings.update(changes.get(name, {}))
    return result


def plan_counts_differences(base, changes):
    result = {"base": {**base}}
    for name, change in changes.items():
        settings = {**base, **change}
        different = [key for key in base if settings[key] != base[key]]
        if len(change) != 1 or len(settings) != len(base) or len(different) != 1:
            raise ValueError(f"{name!r} should give one setting of the base a new value")
        result[name] = settings
    return result


def plan_by_chain(base, changes):
    def experiment(change):
        setting, value = next(iter(change.items()), (None, None))
        if not (len(change) == 1 and setting in base and not base[setting] == value):
            raise ValueError(f"{dict(change)} is not one new value of one setting")
        return dict(ChainMap({setting: value}, dict(base)))

    return dict([("base", dict(base)), *((name, experiment(change)) for name, change in changes.items())])


def plan_with_match(base, changes):
    plan = [("base", {setting: base[setting] for setting in base})]
    for name, change in changes.items():
        match list(change.items()):
            case [(setting, value)] if setting in base:
                if value == base[setting]:
                    raise ValueError(f"{name}: {setting} stays {value}")
                plan.append((name, {key: value if key == setting else base[key] for key in base}))
            case [(setting, _)]:
                raise ValueError(f"{name}: {setting} is unknown")
            case pairs:
                raise ValueError(f"{name}: {len(pairs)} settings at once")
    return dict(plan)


def ends(gap, error, degrees, confidence=0.95):
    if error == 0:
        return gap, gap, gap
    reach = t_quantile(confidence, degrees) * error
    return gap, gap - reach, gap + reach


def welch_degrees(q, p, n, m):
    return (q + p) ** 2 / (q**2 / (n - 1) + p**2 / (m - 1)) if q + p else 1


def difference_student(a, b):
    if not a or not b:
        raise ValueError("no seeds")
    gap, n, m = fmean(a) - fmean(b), len(a), len(b)
    if min(n, m) == 1:
        return gap, -inf, inf
    pooled = ((n - 1) * variance(a) + (m - 1) * variance(b)) / (n + m - 2)
    return ends(gap, sqrt(pooled * (1 / n + 1 / m)), n + m - 2)


def difference_whole_degrees(a, b):
    if not a or not b:
        raise ValueError("no seeds")
    gap, n, m = fmean(a) - fmean(b), len(a), len(b)
    if min(n, m) == 1:
        return gap, -inf, inf
    q, p = variance(a) / n, variance(b) / m
    return ends(gap, sqrt(q + p), int(welch_degrees(q, p, n, m)))


def difference_one_sided(a, b):
    if not a or not b:
        raise ValueError("no seeds")
    gap, n, m = fmean(a) - fmean(b), len(a), len(b)
    if min(n, m) == 1:
        return gap, -inf, inf
    q, p = variance(a) / n, variance(b) / m
    return ends(gap, sqrt(q + p), welch_degrees(q, p, n, m), confidence=0.975)


def difference_one_seed_is_certain(a, b):
    if not a or not b:
        raise ValueError("no seeds")
    q, p = (variance(x) / len(x) if len(x) > 1 else 0.0 for x in (a, b))
    n, m = max(2, len(a)), max(2, len(b))
    return ends(fmean(a) - fmean(b), sqrt(q + p), welch_degrees(q, p, n, m))


def difference_no_seeds_is_nan(a, b):
    gap, n, m = float(np.mean(a) - np.mean(b)), len(a), len(b)
    if n <= 1 or m <= 1:
        return gap, -inf, inf
    if len(set(a)) == len(set(b)) == 1:
        return gap, gap, gap
    q, p = np.var(a, ddof=1) / n, np.var(b, ddof=1) / m
    return ends(gap, sqrt(q + p), welch_degrees(q, p, n, m))


def difference_smaller_group(a, b):
    if not a or not b:
        raise ValueError("no seeds")
    gap, n, m = fmean(a) - fmean(b), len(a), len(b)
    if min(n, m) == 1:
        return gap, -inf, inf
    return ends(gap, sqrt(variance(a) / n + variance(b) / m), min(n, m) - 1)


def difference_by_hand(a, b):
    stats = []
    for values in (a, b):
        n, total = 0, 0.0
        for value in values:
            n, total = n + 1, total + value
        if n == 0:
            raise ValueError("a setting without seeds")
        middle = total / n
        same = all(value == values[0] for value in values)
        squares = 0.0 if same else sum((value - middle) ** 2 for value in values)
        stats.append((n, middle, squares / (n - 1) / n if n > 1 else None))
    (n, x, q), (m, y, p) = stats
    gap = x - y
    if q is None or p is None:
        return gap, -math.inf, math.inf
    if q + p == 0:
        return gap, gap, gap
    degrees = (q + p) * (q + p) / (q * q / (n - 1) + p * p / (m - 1))
    e = math.sqrt(q + p)
    return gap, gap - e * t_quantile(0.95, degrees), gap + e * t_quantile(0.95, degrees)


def difference_numpy(a, b):
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.size * b.size == 0:
        raise ValueError(f"{a.size} and {b.size} seeds")
    gap = float(a.mean() - b.mean())
    if 1 in (a.size, b.size):
        return gap, -np.inf, np.inf
    if np.ptp(a) == np.ptp(b) == 0:
        return gap, gap, gap
    q = np.array([a.var(ddof=1) / a.size, b.var(ddof=1) / b.size])
    degrees = q.sum() ** 2 / (q**2 / np.array([a.size - 1, b.size - 1])).sum()
    low, high = gap + np.array([-1, 1]) * t_quantile(0.95, degrees) * np.sqrt(q.sum())
    return gap, float(low), float(high)


def difference_by_share(a, b):
    if len(a) < 1 or len(b) < 1:
        raise ValueError("both settings need a seed")
    gap = mean(a) - mean(b)
    if len(a) < 2 or len(b) < 2:
        return gap, float("-inf"), float("inf")
    errors = stdev(a) / len(a) ** 0.5, stdev(b) / len(b) ** 0.5
    error = math.hypot(*errors)
    if not error:
        return (gap,) * 3
    c = (errors[0] / error) ** 2
    degrees = 1 / (c**2 / (len(a) - 1) + (1 - c) ** 2 / (len(b) - 1))
    reach = error * t_quantile(0.95, degrees)
    return gap, gap - reach, gap + reach


def difference_torch(a, b):
    x, y = (torch.tensor(list(values), dtype=torch.float64) for values in (a, b))
    if not (x.numel() and y.numel()):
        raise ValueError("empty")
    gap = (x.mean() - y.mean()).item()
    if x.numel() < 2 or y.numel() < 2:
        return gap, -inf, inf
    if bool((x == x[0]).all()) and bool((y == y[0]).all()):
        return gap, gap, gap
    q, p = x.var() / len(x), y.var() / len(y)
    degrees = ((q + p) ** 2 / (q**2 / (len(x) - 1) + p**2 / (len(y) - 1))).item()
    reach = t_quantile(0.95, degrees) * (q + p).sqrt().item()
    return gap, gap - reach, gap + reach


def one_change(name, change, base):
    if len(change) != 1:
        raise ValueError(f"{name}: one setting")
    ((setting, value),) = change.items()
    if setting not in base:
        raise ValueError(f"{name}: no setting {setting}")
    if base[setting] == value:
        raise ValueError(f"{name}: nothing new")
    return setting, value


def one_at_a_time_base_itself(base, changes):
    plan = {"base": base}
    for name, change in changes.items():
        setting, value = one_change(name, change, base)
        plan[name] = {**base, setting: value}
    return plan


def one_at_a_time_identity(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if len(change) != 1:
            raise ValueError(name)
        ((setting, value),) = change.items()
        if setting not in base or base[setting] is value:
            raise ValueError(name)
        plan[name] = {**base, setting: value}
    return plan


UNSEEN = {
    "one_at_a_time": [
        ("a value that the base has already raises no error", plan_same_values_pass),
        ("an experiment with several settings raises no error", plan_several_settings_pass),
        ("an experiment without a setting raises no error", plan_empty_changes_pass),
        ("an unknown setting raises a KeyError and not a ValueError", plan_key_error),
        ("compares the values with 'is', so equal values pass", plan_compares_identity),
        ("takes the settings out of the caller's changes", plan_empties_the_changes),
        (
            "the new value is compared with `is`, so an equal value that is another object passes",
            one_at_a_time_identity,
        ),
        (
            "the plan holds the caller's own base and not a copy, so a change of the plan changes it",
            one_at_a_time_base_itself,
        ),
    ],
    "difference": [
        (
            "Student's pooled variance with n_a + n_b - 2 degrees, which supposes that both scatter alike",
            difference_student,
        ),
        ("Welch's degrees are cut to a whole number, so t is too large", difference_whole_degrees),
        ("np.mean of no seeds gives nan, and the ValueError is missing", difference_no_seeds_is_nan),
        (
            "t_quantile is asked for 0.975 as a one-sided table would be, but it is two-sided: the "
            "interval is 97.5 %",
            difference_one_sided,
        ),
        (
            "the degrees are those of the smaller group, min(n_a, n_b) - 1, and not Welch's",
            difference_smaller_group,
        ),
        (
            "a setting with one seed is given the variance 0, so the ends are finite",
            difference_one_seed_is_certain,
        ),
    ],
}
STYLES = {
    "one_at_a_time": [plan_by_update, plan_counts_differences, plan_by_chain, plan_with_match],
    "difference": [difference_by_hand, difference_numpy, difference_by_share, difference_torch],
}
