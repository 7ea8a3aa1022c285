"""Checks of lesson 10: design choices, measured."""

from collections.abc import Callable
from math import inf, sqrt

from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import demand, exercise, refuses, results
from vit_classroom.checks.words import explain_error
from vit_classroom.evidence.statistics import at_equal_time, difference

known = Mistakes(__file__, difference, at_equal_time)

# -- difference

NO_SPREAD = "one seed shows no spread, so every difference is possible: return (difference, -inf, inf)"
NO_SCATTER = (
    "where no seed of a and none of b scatters, the error is 0 and both ends are the difference itself"
)


def demanded(answer: Callable, a: list, b: list, words: str) -> None:
    """Demand what `difference` says of these seeds."""
    wanted, got = difference(a, b), outcome(lambda f, *case: f(*case), answer, (a, b))
    if isinstance(got, Exception):
        raise Mistake(f"{words}. On a = {a}, b = {b} your code stopped with {explain_error(got)}")
    if not isinstance(got, tuple | list) or tuple(got) != wanted:
        raise Mistake(f"{words}. On a = {a}, b = {b} you returned {got!r:.200}")


@demand(known("difference one"))
def knows_no_spread_of_one_seed(answer):
    for a, b in (([95.0], [60.0, 61.0]), ([60.0, 61.0], [95.0]), ([1.0], [2.0]), ([2.0], [2.0])):
        demanded(answer, a, b, NO_SPREAD)


@demand(known("difference alike"))
def knows_seeds_that_are_all_alike(answer):
    demanded(answer, [2.0, 2.0], [1.0, 1.0, 1.0], NO_SCATTER)
    demanded(answer, [3.0, 3.0], [3.0, 3.0], NO_SCATTER)


@demand(known("difference several"))
def knows_the_spread_of_several_seeds(answer):
    found = outcome(lambda f, *case: f(*case), answer, ([1.0, 3.0], [7.0, 7.5]))
    if isinstance(found, tuple | list) and tuple(found[1:]) == (-inf, inf):
        raise Mistake(
            "the ends are -inf and inf where a or b has *one* seed; yours are so for two seeds each, too"
        )


accepts = known("difference refuses")

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
        known("difference results"),
    ),
    knows_no_spread_of_one_seed,
    knows_seeds_that_are_all_alike,
    refuses(([], [80.0, 81.0]), "a is empty", *accepts["a is empty"]),
    refuses(([80.0, 81.0], []), "b is empty", *accepts["b is empty"]),
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


ONE_PRICE = (
    "every setting gets the epochs of the first one: measure the price of each, or it is no equal time"
)


def one_price_for_all(run, settings, seconds, seeds):
    first = next(iter(settings.values()))
    _, price = run(first, 1, seeds[0])
    epochs = max(1, int(seconds / price))
    return {name: [run(setting, epochs, seed)[0] for seed in seeds] for name, setting in settings.items()}


@demand(known("at_equal_time runs"))
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
        known("at_equal_time results", (ONE_PRICE, one_price_for_all)),
    ),
    trains_no_more_than_needed,
)
