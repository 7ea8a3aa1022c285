"""Answers to the exercises of lesson 10, written as students write them."""

from collections import defaultdict

import numpy as np

from vit_classroom.evidence.statistics import at_equal_time, difference, t_quantile


def difference_by_loops(a, b):
    if not a or not b:
        raise ValueError("no seeds")
    means, squares, freedom = [], [], 0
    for values in (a, b):
        m = sum(values) / len(values)
        means.append(m)
        if len(values) > 1:
            squares.append(sum((x - m) ** 2 for x in values) / (len(values) - 1) / len(values))
            freedom += squares[-1] ** 2 / (len(values) - 1)
    d = means[0] - means[1]
    if len(squares) < 2:
        return d, float("-inf"), float("inf")
    if not freedom:
        return d, d, d
    reach = t_quantile(0.95, (squares[0] + squares[1]) ** 2 / freedom) * sum(squares) ** 0.5
    return d, d - reach, d + reach


def difference_by_numpy(a, b):
    if len(a) == 0 or len(b) == 0:
        raise ValueError("no seeds")
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    d = x.mean() - y.mean()
    if min(x.size, y.size) == 1:
        return [d, -np.inf, np.inf]
    q = np.array([x.var(ddof=1) / x.size, y.var(ddof=1) / y.size])
    if not q.any():
        return [d, d, d]
    degrees = q.sum() ** 2 / (q**2 / (np.array([x.size, y.size]) - 1)).sum()
    reach = t_quantile(0.95, degrees) * np.sqrt(q.sum())
    return [d, d - reach, d + reach]


def difference_by_index(a, b):
    return difference([a[0], a[1], a[2], *a[3:]], b)


def time_without_a_trial(run, settings, seconds, seeds):
    return {name: [run(setting, seconds)[0] for _ in seeds] for name, setting in settings.items()}


def time_of_two_seeds(*given):
    return {name: [values[0], values[1], *values[2:]] for name, values in at_equal_time(*given).items()}


def time_that_empties(run, settings, seconds, seeds):
    found = at_equal_time(run, dict(settings), seconds, seeds)
    settings.clear()
    return found


def time_in_a_default_dict(run, settings, *rest):
    return defaultdict(list, time_by_floor_division(run, settings, *rest))


def time_by_floor_division(run, settings, seconds, seeds):
    results = {}
    for name in settings:
        accuracy, price = run(settings[name], 1, seeds[0])
        epochs = int(seconds // price)
        if epochs == 0:
            epochs = 1
        results[name] = []
        for seed in seeds:
            results[name].append(run(settings[name], epochs, seed)[0])
    return results


def time_in_two_passes(run, settings, seconds, seeds):
    prices = {name: run(setting, 1, seeds[0])[1] for name, setting in settings.items()}
    epochs = {name: max(int(seconds / price), 1) for name, price in prices.items()}
    return {name: [run(setting, epochs[name], s)[0] for s in seeds] for name, setting in settings.items()}


WRONG = {
    "difference": [
        ("you returned '", lambda a, b: "{:+.1f} ({:+.1f} to {:+.1f})".format(*difference(a, b))),
        ("expected -5.25, you returned -15.75", lambda a, b: tuple(3 * end for end in difference(a, b))),
        ("your code stopped with IndexError", difference_by_index),
    ],
    "at_equal_time": [
        ("your code stopped with TypeError", time_without_a_trial),
        ("you returned [(", lambda *given: list(at_equal_time(*given).items())),
        ("your code stopped with IndexError", time_of_two_seeds),
        ("your code changes its input in place (argument 2)", time_that_empties),
    ],
}
RIGHT = {
    "difference": [difference_by_loops, difference_by_numpy],
    "at_equal_time": [time_by_floor_division, time_in_two_passes, time_in_a_default_dict],
}
