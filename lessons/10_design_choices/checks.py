"""Checks of lesson 10: design choices, measured."""

from collections.abc import Callable
from math import ceil, inf, sqrt
from statistics import fmean, median, pvariance, stdev, variance

from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import demand, exercise, refuses, results
from vit_classroom.checks.words import explain_error
from vit_classroom.evidence.statistics import at_equal_time, difference, t_quantile

# -- difference


def welch(q, p, n, m):
    return (q + p) ** 2 / (q**2 / (n - 1) + p**2 / (m - 1))


def ends(gap, reach):
    return gap, gap - reach, gap + reach


def interval(
    centre=fmean, spread=variance, per=len, error=lambda q, p: sqrt(q + p), degrees=welch, t=None, ends=ends
) -> Callable:
    """Build a comparison like `difference` from its parts, right or wrong."""

    def answer(a, b):
        q, p = (spread(values) / per(values) for values in (a, b))
        factor = t or (lambda degrees: t_quantile(0.95, degrees))
        reach = factor(degrees(q, p, len(a), len(b))) * error(q, p)
        return ends(centre(a) - centre(b), reach)

    return answer


def of_students_test(a, b):
    free = len(a) + len(b) - 2
    common = ((len(a) - 1) * variance(a) + (len(b) - 1) * variance(b)) / free
    error = sqrt(common / len(a) + common / len(b))
    return ends(fmean(a) - fmean(b), t_quantile(0.95, free) * error)


def of_pairs(a, b):
    gaps = [x - y for x, y in zip(a, b, strict=False)]
    return ends(fmean(a) - fmean(b), t_quantile(0.95, len(gaps) - 1) * stdev(gaps) / sqrt(len(gaps)))


def of_extremes(a, b):
    return fmean(a) - fmean(b), min(a) - max(b), max(a) - min(b)


def sorting(a, b):
    a.sort()
    return difference(a, b)


def between_two(a, b):
    gap, low, high = difference(a, b)
    return low, gap, high


def of_deviations(a, b):
    q, p = variance(a) / len(a), variance(b) / len(b)
    error = sqrt(variance(a) + variance(b))
    return ends(fmean(a) - fmean(b), t_quantile(0.95, welch(q, p, len(a), len(b))) * error)


def no_width_where(still: Callable) -> Callable:
    """Return a `difference` without a width where this is so of the seeds."""

    def answer(a, b):
        return (fmean(a) - fmean(b),) * 3 if still(a, b) else difference(a, b)

    return answer


def of_all_seeds(a, b):
    q, p = (variance(values) / (len(a) + len(b)) for values in (a, b))
    return ends(fmean(a) - fmean(b), t_quantile(0.95, welch(q, p, len(a), len(b))) * sqrt(q + p))


def small_sample(t: float) -> str:
    return (
        f"your t is always {t:g}. That is for many seeds; with few of them s itself is badly known, and t grows: ask "
        "`t_quantile(0.95, degrees)`"
    )


COMPARISONS = {
    "you divide the sum of squares by n. Divide by n - 1: the values are closer to their own mean than to the true "
    "one, and n - 1 makes up for it": interval(spread=pvariance),
    "q is s²/n, the *variance* by n; you divide the standard deviation s": interval(spread=stdev),
    "your error is made of the spread of single runs: means scatter less, divide each variance by its n": interval(
        per=lambda values: 1
    ),
    "your error is made of standard deviations: those of means, standard errors, are s/sqrt(n)": of_deviations,
    "q is s²/n; you divide by n - 1 twice. The n - 1 belongs into s² alone": interval(
        per=lambda values: len(values) - 1
    ),
    "you divide by sqrt(n): that is for s. The variance s² is divided by n": interval(
        per=lambda values: sqrt(len(values))
    ),
    "you add the two standard errors: chance rarely pushes both the wrong way, so add their squares and take the "
    "root": interval(error=lambda q, p: sqrt(q) + sqrt(p)),
    "the root of the sum of squares is missing": interval(error=lambda q, p: q + p),
    "you use the larger of the two standard errors: combine both": interval(
        error=lambda q, p: sqrt(max(q, p))
    ),
    "your error is that of a alone: combine both": interval(error=lambda q, p: sqrt(q)),
    "your error is that of b alone: combine both": interval(error=lambda q, p: sqrt(p)),
    "you take the mean of the squares: their *sum* belongs under the root": interval(
        error=lambda q, p: sqrt((q + p) / 2)
    ),
    "your degrees of freedom are n_a + n_b - 2, those of Student's test, which supposes that both settings scatter "
    "alike: take Welch's": interval(degrees=lambda q, p, n, m: n + m - 2),
    "you give a and b one common spread, as Student's test does: each setting keeps its own, and Welch's degrees of "
    "freedom take account of it": of_students_test,
    "your degrees of freedom are those of one setting, the smaller n - 1: too careful, take Welch's": interval(
        degrees=lambda q, p, n, m: min(n, m) - 1
    ),
    "in the degrees of freedom you divide by n where n - 1 is asked for": interval(
        degrees=lambda q, p, n, m: (q + p) ** 2 / (q**2 / n + p**2 / m)
    ),
    "your degrees of freedom are made of the variances s²: with different numbers of seeds they differ from those of "
    "q = s²/n": interval(degrees=lambda q, p, n, m: welch(q * n, p * m, n, m)),
    "in the degrees of freedom each q has to be squared below the line as well": interval(
        degrees=lambda q, p, n, m: (q + p) ** 2 / (q / (n - 1) + p / (m - 1))
    ),
    "in the degrees of freedom the whole sum above the line has to be squared": [
        interval(degrees=lambda q, p, n, m: (q + p) / (q**2 / (n - 1) + p**2 / (m - 1))),
        interval(degrees=lambda q, p, n, m: (q**2 + p**2) / (q**2 / (n - 1) + p**2 / (m - 1))),
    ],
    "brackets are missing in the degrees of freedom: below the line stands q² / (n - 1)": interval(
        degrees=lambda q, p, n, m: (q + p) ** 2 / (q**2 / n - 1 + p**2 / m - 1)
    ),
    "brackets are missing in the degrees of freedom, round the whole sum below the line": interval(
        degrees=lambda q, p, n, m: (q + p) ** 2 / (q**2 / (n - 1)) + p**2 / (m - 1)
    ),
    "your degrees of freedom are made of the standard errors: q is s²/n, the square": interval(
        degrees=lambda q, p, n, m: welch(sqrt(q), sqrt(p), n, m)
    ),
    "in the degrees of freedom you take the number of seeds of a for both": interval(
        degrees=lambda q, p, n, m: welch(q, p, n, n)
    ),
    "Welch's degrees of freedom have n - 1 below the line; yours are those of another formula, with n + 1 and 2 less": (
        interval(degrees=lambda q, p, n, m: (q + p) ** 2 / (q**2 / (n + 1) + p**2 / (m + 1)) - 2)
    ),
    "the degrees of freedom need not be whole: do not round them": [
        interval(degrees=lambda *sizes: round(welch(*sizes))),
        interval(degrees=lambda *sizes: int(welch(*sizes))),
    ],
    small_sample(1.96): interval(t=lambda degrees: 1.96),
    "for many seeds your t is 1.96: with 118 degrees it is still 1.98. Ask `t_quantile` always": interval(
        t=lambda degrees: 1.96 if degrees > 30 else t_quantile(0.95, degrees)
    ),
    small_sample(2): interval(t=lambda degrees: 2.0),
    small_sample(3): interval(t=lambda degrees: 3.0),
    "`t_quantile` takes the probability *inside* the interval, .95: both tails are left out already, so .975 is too "
    "much": interval(t=lambda degrees: t_quantile(0.975, degrees)),
    "`t_quantile` takes the probability *inside* the interval, .95; yours is .9": interval(
        t=lambda degrees: t_quantile(0.9, degrees)
    ),
    "`t_quantile` takes the probability *inside* the interval: .95, not the .05 that is left out": interval(
        t=lambda degrees: t_quantile(0.05, degrees)
    ),
    "the error alone is not the interval: it reaches t errors to both sides": interval(t=lambda degrees: 1.0),
    "your interval is half as wide: it reaches the whole t·e to *each* side": interval(
        ends=lambda gap, reach: ends(gap, reach / 2)
    ),
    "your interval lies around 0: it lies around the difference": interval(
        ends=lambda gap, reach: (gap, -reach, reach)
    ),
    "your ends are those of b minus a": interval(ends=lambda gap, reach: (gap, -gap - reach, -gap + reach)),
    "the ends are swapped: (difference, low, high)": interval(ends=lambda gap, reach: ends(gap, -reach)),
    "the order is (difference, low, high)": between_two,
    "return three values: the difference, the low end, the high end": [
        interval(ends=lambda gap, reach: (gap, reach)),
        interval(ends=lambda gap, reach: (gap - reach, gap + reach)),
        interval(ends=lambda gap, reach: gap),
    ],
    "the difference has lost its sign: mean of a minus mean of b": [
        interval(ends=lambda gap, reach: ends(abs(gap), reach)),
        interval(ends=lambda gap, reach: (abs(gap), gap - reach, gap + reach)),
    ],
    "you compare medians: means were asked for": interval(centre=median),
    "you compare the best seeds: the best of more seeds is higher by chance alone. Compare the means": interval(
        centre=max
    ),
    "you compare sums: with more seeds a sum is larger, whatever the setting does. Compare the means": interval(
        centre=sum
    ),
    "seed 1 of a and seed 1 of b are no pair: each setting has a variance of its own": of_pairs,
    "your ends come from the best and the worst seeds: the more seeds, the wider it gets. Take t errors": of_extremes,
    "equal means have an interval too, as wide as the seeds scatter": [
        no_width_where(lambda a, b: fmean(a) == fmean(b)),
        no_width_where(lambda a, b: a == b),
    ],
    "the ends are the difference itself only where *neither* setting scatters": no_width_where(
        lambda a, b: 0 in (variance(a), variance(b))
    ),
    "a small scatter is a scatter: accuracies may be shares of 1. Compare the error with 0 itself": no_width_where(
        lambda a, b: max(variance(a), variance(b)) < 1e-6
    ),
    "each variance is divided by the number of its *own* seeds, not by that of all": of_all_seeds,
    "your code changes its input in place (argument 1)": sorting,
}

NO_SPREAD = "one seed shows no spread, so every difference is possible: return (difference, -inf, inf)"
NO_SCATTER = (
    "where no seed of a and none of b scatters, the error is 0 and both ends are the difference itself"
)


def other_spread_for_one(a, b):
    if min(len(a), len(b)) > 1 or len(a) + len(b) == 2:
        return difference(a, b)
    longer = max(a, b, key=len)
    reach = t_quantile(0.95, len(longer) - 1) * sqrt(variance(longer) / len(longer))
    return ends(fmean(a) - fmean(b), reach)


def unknown_without_scatter(a, b):
    gap, low, high = difference(a, b)
    return (gap, -inf, inf) if low == high else (gap, low, high)


def demanded(answer: Callable, a: list, b: list, words: str) -> None:
    """Demand what `difference` says of these seeds."""
    wanted, got = difference(a, b), outcome(lambda f, *case: f(*case), answer, (a, b))
    if isinstance(got, Exception):
        raise Mistake(f"{words}. On a = {a}, b = {b} your code stopped with {explain_error(got)}")
    if not isinstance(got, tuple | list) or tuple(got) != wanted:
        raise Mistake(f"{words}. On a = {a}, b = {b} you returned {got!r:.200}")


@demand(
    {
        NO_SPREAD: [
            interval(),
            lambda a, b: (fmean(a) - fmean(b),) * 3 if min(len(a), len(b)) == 1 else difference(a, b),
            lambda a, b: (fmean(a) - fmean(b), None, None) if min(len(a), len(b)) == 1 else difference(a, b),
            other_spread_for_one,
            lambda a, b: (fmean(a) - fmean(b), -inf, inf) if len(a) == 1 else interval()(a, b),
            lambda a, b: (0.0, 0.0, 0.0) if a == b and len(a) == 1 else difference(a, b),
        ]
    }
)
def knows_no_spread_of_one_seed(answer):
    for a, b in (([95.0], [60.0, 61.0]), ([60.0, 61.0], [95.0]), ([1.0], [2.0]), ([2.0], [2.0])):
        demanded(answer, a, b, NO_SPREAD)


@demand({NO_SCATTER: unknown_without_scatter})
def knows_seeds_that_are_all_alike(answer):
    demanded(answer, [2.0, 2.0], [1.0, 1.0, 1.0], NO_SCATTER)
    demanded(answer, [3.0, 3.0], [3.0, 3.0], NO_SCATTER)


def nothing_if_empty(a, b):
    return difference(a, b) if len(a) and len(b) else (0.0, -inf, inf)


SEVERAL = "the ends are -inf and inf where a or b has *one* seed; yours are so for two seeds each, too"


@demand({SEVERAL: lambda a, b: (fmean(a) - fmean(b), -inf, inf)})
def knows_the_spread_of_several_seeds(answer):
    found = outcome(lambda f, *case: f(*case), answer, ([1.0, 3.0], [7.0, 7.5]))
    if isinstance(found, tuple | list) and tuple(found[1:]) == (-inf, inf):
        raise Mistake(SEVERAL)


exercise(
    difference,
    knows_the_spread_of_several_seeds,
    results(
        lambda: [
            ([1.0, 3.0], [7.0, 7.5]),
            ([81.0, 82.0, 84.0], [79.0, 80.0, 81.5]),
            ([3.0, 5.0, 7.0], [1.0, 1.0, 2.0, 4.0]),
            ([71.0, 72.25, 73.0, 72.5, 70.0], [81.0, 82.0, 86.0]),
            ([90.12, 90.23, 90.41, 90.4, 90.0, 90.3, 90.1], [88.9, 90.0]),
            ([80.0, 80.0, 80.0], [79.0, 81.0, 82.0, 80.5]),
            ([1.0, 4.0], [2.5, 2.5, 2.5]),
            ([80.0, 82.0], [80.0, 82.0]),
            ([0.8123, 0.8131, 0.8127], [0.8111, 0.8119, 0.8114]),
            ([80.0 + 0.1 * seed for seed in range(60)], [79.0 + 0.1 * seed for seed in range(60)]),
            ((81.0, 82.0), (79.0, 80.0, 81.5)),
        ],
        COMPARISONS,
    ),
    knows_no_spread_of_one_seed,
    knows_seeds_that_are_all_alike,
    refuses(([], [80.0, 81.0]), "a is empty", nothing_if_empty),
    refuses(([80.0, 81.0], []), "b is empty", lambda a, b: difference(a, b) if len(b) else (0.0, -inf, inf)),
)

# -- at_equal_time

PRICES = {"small": 2.4, "large": 7.0, "huge": 30.0}
SETTINGS = {"P = 8": "small", "P = 4": "large", "deep": "huge"}


def score(setting: str, epochs: int, seed: int) -> float:
    """Return the invented accuracy of a run, which tells what it was given."""
    whole = isinstance(epochs, int)
    return round(40 + whole + 10 * sqrt(epochs) + 0.37 * ((seed * 7 + len(setting) * 3) % 5), 3)


class Run:
    """Stand in for a training: an accuracy in percent, and processor seconds."""

    def __init__(self):
        self.made = []

    def __call__(self, setting: str, epochs: int, seed: int) -> tuple[float, float]:
        self.made.append((setting, epochs, seed))
        if epochs > 100_000:
            raise Mistake(
                "the price of an epoch is what `run` returns, processor seconds: measure it with no clock of your own"
            )
        return score(setting, epochs, seed), epochs * PRICES[setting] * (1 + seed / 10)

    def __repr__(self) -> str:
        return "run"


def equal_time(
    epochs=lambda seconds, price: max(1, int(seconds / price)),
    price=lambda run, setting, seeds: run(setting, 1, seeds[0])[1],
    seeds=list,
    keep=lambda results: [accuracy for accuracy, _ in results],
    key=lambda name, setting: name,
    trial=False,
) -> Callable:
    """Build an answer from its parts: epochs for the budget, price of one, seeds, what is kept."""

    def answer(run, settings, seconds, all_seeds):
        found = {}
        for name, setting in settings.items():
            number = epochs(seconds, price(run, setting, all_seeds))
            results = [run(setting, number, seed) for seed in seeds(all_seeds)]
            if trial:
                results = [run(setting, 1, all_seeds[0]), *results[1:]]
            found[key(name, setting)] = keep(results)
        return found

    return answer


def one_price_for_all(run, settings, seconds, seeds):
    first = next(iter(settings.values()))
    _, price = run(first, 1, seeds[0])
    epochs = max(1, int(seconds / price))
    return {name: [run(setting, epochs, seed)[0] for seed in seeds] for name, setting in settings.items()}


def trial_of_each_seed(run, settings, seconds, seeds):
    found = [equal_time()(run, settings, seconds, (seed,)) for seed in seeds]
    return {name: [one[name][0] for one in found] for name in settings}


@demand(
    {
        "and yours are 18 runs of 114 epochs": equal_time(
            price=lambda run, setting, seeds: [run(setting, 1, seed)[1] for seed in seeds][0]
        )
    }
)
def trains_no_more_than_needed(answer):
    for seconds in (60.0, 1.0):
        mine, wanted = Run(), Run()
        at_equal_time(wanted, SETTINGS, seconds, (0, 1, 2))
        outcome(lambda f, *case, mine=mine: f(mine, *case), answer, (SETTINGS, seconds, (0, 1, 2)))
        if sorted(mine.made) == sorted(wanted.made):
            continue
        needed, yours = (
            f"{len(r.made)} runs of {sum(n for _, n, _ in r.made)} epochs" for r in (wanted, mine)
        )
        raise Mistake(
            f"wanted are {needed} in all, and yours are {yours}: for each setting a trial of one epoch with the first "
            "seed, then one run for each seed"
        )


exercise(
    at_equal_time,
    results(
        lambda: [
            (Run(), {"P = 8": "small"}, 8.0, (0, 1)),
            (Run(), SETTINGS, 60.0, (0, 1, 2)),
            (Run(), {"P = 4": "large", "P = 8": "small"}, 13.0, (3, 5)),
            (Run(), SETTINGS, 20.0, [4, 2, 9]),
            (Run(), {"P = 8": "small"}, 1.0, (6,)),
            (Run(), SETTINGS, 200.0, (1, 0)),
            (Run(), {"P = 8": "small"}, 600.0, (1,)),
        ],
        {
            "every setting gets the epochs of the first one: measure the price of each, or it is no equal time": (
                one_price_for_all
            ),
            "a run may not take longer than the budget: round the epochs down": [
                equal_time(lambda seconds, price: ceil(seconds / price)),
                equal_time(lambda seconds, price: max(1, round(seconds / price))),
                equal_time(lambda seconds, price: int(seconds / price) + 1),
            ],
            "a budget below the price of one epoch still pays for one: at least 1": equal_time(
                lambda seconds, price: int(seconds / price)
            ),
            "epochs are whole, `int`: a run of 1.9 epochs does not exist, and `4.0` is none": [
                equal_time(lambda seconds, price: max(1, seconds / price)),
                equal_time(lambda seconds, price: max(1, seconds // price)),
            ],
            "the trial is not counted: what it cost is not taken from the budget": equal_time(
                lambda seconds, price: max(1, int((seconds - price) / price))
            ),
            "at least 1 is `max(1, ...)`": equal_time(lambda seconds, price: min(1, int(seconds / price))),
            "only the first setting is left: `return` stands inside the loop": lambda run, settings, *rest: (
                equal_time()(run, dict(list(settings.items())[:1]), *rest)
            ),
            "a budget is divided by the price of an epoch, not multiplied": equal_time(
                lambda seconds, price: int(seconds * price)
            ),
            "the trial runs with the first seed, `seeds[0]`": [
                equal_time(price=lambda run, setting, seeds: run(setting, 1, 0)[1]),
                equal_time(price=lambda run, setting, seeds: run(setting, 1, seeds[-1])[1]),
            ],
            "a trial costs seconds, the second number of what `run` returns; you take the accuracy": equal_time(
                price=lambda run, setting, seeds: run(setting, 1, seeds[0])[0]
            ),
            "every run has one epoch, as the trial: the budget pays for more": equal_time(
                lambda seconds, price: 1
            ),
            "every run has the same seed: then nothing shows the spread": equal_time(
                seeds=lambda seeds: [seeds[0]] * len(seeds)
            ),
            "the seeds are counted from 0; use those in `seeds`": equal_time(
                seeds=lambda seeds: range(len(seeds))
            ),
            "only one seed is left: return a list, with one accuracy for each seed": [
                equal_time(seeds=lambda seeds: seeds[:1]),
                equal_time(keep=lambda results: results[-1][0]),
            ],
            "return all accuracies, not their mean: the rule needs the spread": equal_time(
                keep=lambda results: fmean(accuracy for accuracy, _ in results)
            ),
            "`run` returns (accuracy, seconds); only the accuracy is a result": [
                equal_time(keep=list),
                equal_time(keep=lambda results: [seconds for _, seconds in results]),
            ],
            "the trial is no result: its accuracy is that of one epoch": equal_time(trial=True),
            "the budget is for *each* run, not for all seeds together": (
                lambda run, settings, seconds, seeds: equal_time()(run, settings, seconds / len(seeds), seeds)
            ),
            "the key is the name in `settings`": equal_time(key=lambda name, setting: setting),
            "every setting gets the epochs of the dearest one, so the cheaper ones stop before their time is up": (
                lambda run, settings, *rest: equal_time(
                    price=lambda run, _, seeds: max(run(each, 1, seeds[0])[1] for each in settings.values())
                )(run, settings, *rest)
            ),
            "every seed has a trial of its own: one trial for each setting, with the first seed": trial_of_each_seed,
            "return a dict, with the accuracies of each setting at its name": (
                lambda *case: list(equal_time()(*case).values())
            ),
        },
    ),
    trains_no_more_than_needed,
)
