"""How experiments are planned and read: the rule for "more than luck", plans, tables, the paper's Table 8.

The accuracies of one setting, one number for each seed, are a list of numbers in percent.

The rule of the course: the difference of two means, with its 95 % Welch interval over the seeds (`difference`). Where
the interval holds 0, the seeds have not decided. Every seed draws other random numbers and, where not all pictures are
used, other pictures. All seeds are scored on the same test pictures, so part of the noise is shared by both sides: the
interval says what other seeds would bring, and nothing about other test pictures.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf, sqrt, tan
from statistics import fmean, variance
from typing import Any

import numpy as np

PAPER_TABLE_8 = {
    "none": {"stem": 61.382},
    "1-D": {"stem": 64.206, "every": 63.964, "shared": 64.292},
    "2-D": {"stem": 64.001, "every": 64.046, "shared": 64.022},
    "relative": {"stem": 64.032},
}
"""The ViT paper's Table 8: kind of position, where it enters, ImageNet 5-shot accuracy of ViT-B/16 in percent."""


def difference(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """Compare the seeds of two settings by the course's rule: two means, and the 95 % interval of their difference.

    Let a setting have n seeds with the variance s², made with n - 1. Its mean has the squared standard error q = s²/n.
    The standard error of the difference is e = sqrt(q_a + q_b), and Welch (1947), who does not suppose that both
    settings scatter alike, gives it (q_a + q_b)² / (q_a²/(n_a - 1) + q_b²/(n_b - 1)) degrees of freedom. The interval
    reaches t·e to both sides of the difference, with t = `t_quantile(0.95, degrees)`.

    Args:
        a: results of the first setting, one for each seed, in any unit.
        b: results of the second one; there may be more or fewer of them.

    Returns:
        (difference, low, high): mean of a minus mean of b, and the ends of its interval. One seed shows no spread: if
        a or b has only one, the ends are -inf and inf. Where neither scatters at all, both ends are the difference.

    Raises:
        ValueError: if a or b is empty.
    """
    if min(len(a), len(b)) == 0:  # given
        raise ValueError("there are no values to compare")
    if min(len(a), len(b)) == 1:  # given
        return fmean(a) - fmean(b), -inf, inf
    gap = fmean(a) - fmean(b)
    squares = [variance(values) / len(values) for values in (a, b)]
    error = sqrt(sum(squares))
    if error == 0:
        return gap, gap, gap
    parts = [square**2 / (len(values) - 1) for square, values in zip(squares, (a, b), strict=True)]
    reach = t_quantile(0.95, sum(squares) ** 2 / sum(parts)) * error
    return gap, gap - reach, gap + reach


def undecided(low: float, high: float) -> bool:
    """Tell whether the interval of a difference holds 0: then the seeds have not decided."""
    return low <= 0 <= high


def signed(value: float, digits: int = 1) -> str:
    """Write a difference in points with its sign and, by default, one decimal; what rounds to 0 is never "-0.0"."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def from_to(low: float, high: float) -> str:
    """Write the ends of an interval, with so many digits that none reads as 0 where the seeds have decided."""
    enough = (n for n in range(1, 9) if undecided(low, high) or (round(low, n) and round(high, n)))
    digits = next(enough, 9)
    return f"{signed(low, digits)} to {signed(high, digits)}"


def difference_in_words(first: str, a: Sequence[float], second: str, b: Sequence[float]) -> str:
    """Say what `difference` finds about two settings with these names and these results in percent."""
    gap, low, high = difference(a, b)
    if low == -inf:
        return f"{first} against {second}: {signed(gap)} points, undecided: one seed has no spread"
    found = f"{signed(gap)} points, 95 % interval {from_to(low, high)}"
    return f"{first} against {second}: {found}" + (", undecided" if undecided(low, high) else "")


def t_quantile(confidence: float, degrees: float) -> float:
    """Return the t with which a t-distributed number lies between -t and t with this probability.

    With t = √degrees · tan(angle) the density is proportional to cos(angle)^(degrees - 1), which is summed up over a
    quarter of a turn.

    Args:
        confidence: probability in 0..1, both tails left out.
        degrees: degrees of freedom, from 1 to some thousands; they need not be whole.

    Raises:
        ValueError: if the first is no probability, as where both are swapped.
    """
    if not 0 < confidence < 1:
        raise ValueError(
            f"{confidence:g} is no probability: write t_quantile(confidence, degrees), as (0.95, 4)"
        )
    angle = np.linspace(0, np.pi / 2, 20_001)
    density = np.cos(angle) ** (degrees - 1)
    area = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return sqrt(degrees) * tan(np.interp(confidence, area / area[-1], angle))


def at_equal_time(
    run: Callable[[Any, int, int], tuple[float, float]],
    settings: Mapping[str, Any],
    seconds: float,
    seeds: Sequence[int],
) -> dict[str, list[float]]:
    """Train several settings for the same processor time, each with the same seeds.

    How many epochs a run has is fixed before it begins. So each setting is first tried for one epoch, with the first
    seed, to see what an epoch costs; then it gets as many *whole* epochs as the budget pays for, but at least one. The
    trial is not counted: neither its accuracy nor its time.

    Args:
        run: run(setting, epochs, seed) trains a fresh model, and returns (test accuracy in percent, processor seconds).
        settings: what `run` gets as its first argument, by name.
        seconds: processor seconds that each run may take.
        seeds: one run for each of them.

    Returns:
        For each setting, by its name, the accuracies of its seeds in percent.
    """
    found = {}
    for name, setting in settings.items():
        _, price = run(setting, 1, seeds[0])
        epochs = max(1, int(seconds / price))
        found[name] = [run(setting, epochs, seed)[0] for seed in seeds]
    return found


def by_step(records: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Collect the test accuracies of recorded runs, in percent, by what was trained: the step of the record."""
    found: dict[str, list[float]] = {}
    for record in records:
        found.setdefault(record["step"], []).append(100 * record["test_accuracy"])
    return found


def best_rate(results: Mapping[float, Sequence[float]]) -> tuple[float, bool]:
    """Return the learning rate with the highest mean accuracy, and whether it is an end of the sweep.

    Args:
        results: accuracies on held-out pictures for each rate; of equal means the lowest rate wins.
    """
    best = max(sorted(results), key=lambda rate: fmean(results[rate]))
    return best, best in (min(results), max(results))


def result_table(
    results: Mapping[str, Sequence[float]], base: str, notes: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[list[list], list[str]]:
    """Write results as the rows and columns of a table: each setting against a base, by `difference`.

    Args:
        results: accuracies in percent of each setting, one for each seed.
        base: the setting that the others are compared with; where it is missing, nothing is compared.
        notes: more columns: the heading, and what it holds for each setting.

    Returns:
        (rows, columns); the settings in their order.
    """
    notes, rows = notes or {}, []
    for name, values in results.items():
        compared = ["", "", ""]
        if name != base and base in results:
            gap, low, high = difference(values, results[base])
            ends = "unknown" if low == -inf else from_to(low, high)
            verdict = "undecided" if undecided(low, high) else "better" if gap > 0 else "worse"
            compared = [signed(gap), ends, verdict]
        more = [column.get(name, "") for column in notes.values()]
        rows.append([name, len(values), f"{fmean(values):.1f}", *compared, *more])
    return rows, ["setting", "seeds", "mean in %", f"minus {base}", "95 % interval", "verdict", *notes]


def data_needed(curve: dict[float, float], target: float) -> float | None:
    """Read off a curve how much data a model needs for an accuracy.

    A measured point is *dominated* if another one does as well or better with less. Dominated points are left out. The
    others, the *frontier*, only rise. Between two of them the curve is a straight line over the *logarithm* of the
    amount, as it is drawn in a data-fraction figure. Outside the measured points nothing is known.

    Args:
        curve: for each amount of data (number or percentage of pictures, above 0) the accuracy; in any order.
        target: the accuracy wanted, in the unit of the curve.

    Returns:
        The amount at which the line reaches the target (equality counts), a float; the smallest measured amount if it
        is reached there already (less may do, but nobody measured it); None if it is not reached at all.
    """
    amounts: list[float] = []
    accuracies: list[float] = []
    for amount, accuracy in sorted(curve.items()):
        if not accuracies or accuracy > accuracies[-1]:
            amounts.append(amount)
            accuracies.append(accuracy)
    if not accuracies or accuracies[-1] < target:
        return None
    return float(np.exp(np.interp(target, accuracies, np.log(amounts))))
