"""How experiments are planned and read: the rule for "more than luck", plans, spreads, tables, the paper's Table 8.

The accuracies of one setting, one number for each seed, are a list of numbers in percent.

The rule of the course: the difference of two means, with its 95 % Welch interval over the seeds (`difference`). Where
the interval holds 0, the seeds have not decided. Every seed draws other random numbers and, where not all pictures are
used, other pictures. All seeds are scored on the same test pictures, so part of the noise is shared by both sides: the
interval says what other seeds would bring, and nothing about other test pictures.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf, sqrt, tan
from typing import Any

import numpy as np

from vit_course.vit import vit_num_parameters

PAPER_TABLE_8 = {
    "none": {"stem": 61.382},
    "1-D": {"stem": 64.206, "every": 63.964, "shared": 64.292},
    "2-D": {"stem": 64.001, "every": 64.046, "shared": 64.022},
    "relative": {"stem": 64.032},
}
"""The ViT paper's Table 8: kind of position, where it enters, ImageNet 5-shot accuracy of ViT-B/16 in percent."""


CONFIDENCE = 0.95


def difference(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """Compare the seeds of two settings by the course's rule.

    Args:
        a: results of the first setting, one for each seed, in any unit.
        b: results of the second one; there may be more or fewer of them.

    Returns:
        (difference, low, high): mean of a minus mean of b, and the ends of its 95 % interval after Welch (1947), which
        does not suppose that both scatter alike. One seed has no spread: with fewer than two, the interval has no ends.

    Raises:
        ValueError: if a or b is empty.
    """
    gap = mean_and_spread(a)[0] - mean_and_spread(b)[0]
    if min(len(a), len(b)) < 2:
        return gap, -inf, inf
    parts = [(mean_and_spread(values)[2] ** 2, len(values) - 1) for values in (a, b)]
    square = sum(part for part, _ in parts)
    if square == 0:
        return gap, gap, gap
    freedom = square**2 / sum(part**2 / degrees for part, degrees in parts)
    reach = t_quantile(CONFIDENCE, freedom) * sqrt(square)
    return gap, gap - reach, gap + reach


def undecided(low: float, high: float) -> bool:
    """Tell whether the interval of a difference holds 0: then the seeds have not decided."""
    return low <= 0 <= high


def difference_in_words(first: str, a: Sequence[float], second: str, b: Sequence[float]) -> str:
    """Say what `difference` finds about two settings with these names and these results in percent."""
    gap, low, high = difference(a, b)
    if low == -inf:
        return f"{first} against {second}: {gap:+.1f} points, undecided: one seed has no spread"
    found = f"{gap:+.1f} points, 95 % interval {low:+.1f} to {high:+.1f}"
    return f"{first} against {second}: {found}" + (", undecided" if undecided(low, high) else "")


def t_quantile(confidence: float, degrees: float) -> float:
    """Return the t with which a t-distributed number lies between -t and t with this probability.

    With t = √degrees · tan(angle) the density is proportional to cos(angle)^(degrees - 1), which is summed up over a
    quarter of a turn.

    Args:
        confidence: probability in 0..1, both tails left out.
        degrees: degrees of freedom, from 1 to some thousands; they need not be whole.
    """
    angle = np.linspace(0, np.pi / 2, 20_001)
    density = np.cos(angle) ** (degrees - 1)
    area = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return sqrt(degrees) * tan(np.interp(confidence, area / area[-1], angle))


def one_at_a_time(base: Mapping[str, Any], changes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict]:
    """Plan experiments of which each differs from a base in one setting.

    Args:
        base: all settings by name, for example {"lr": 0.001, "decay": 0.05}.
        changes: for each experiment, by its name, the setting that it changes and the new value, for example
            {"no decay": {"decay": 0.0}, "faster": {"lr": 0.002}}.

    Returns:
        All settings of every experiment by its name: "base" first, then the experiments in the order of
        `changes`. Each has a dict of its own; `base` and `changes` stay as they are.

    Raises:
        ValueError: if an experiment changes no setting or several, a setting that the base does not have (a
            typing mistake would go unnoticed), or to the value that the base has already.
    """
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if len(change) != 1:
            raise ValueError(f"{name!r} changes {len(change)} settings: one at a time")
        ((setting, value),) = change.items()
        if setting not in base:
            raise ValueError(f"{name!r} changes {setting!r}, but the base has only {', '.join(base)}")
        if base[setting] == value:
            raise ValueError(f"{name!r} changes nothing: {setting} is {value!r} in the base already")
        plan[name] = {**base, setting: value}
    return plan


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Sum up the results of several seeds: mean, standard deviation, standard error of the mean.

    With n values x: mean m = sum(x) / n; standard deviation s = sqrt(sum((x - m)²) / (n - 1)), which says how
    far one run lies from the mean; standard error s / sqrt(n), which says how far the mean itself may be off.

    Args:
        values: one number for each seed, in any unit.

    Returns:
        (m, s, s / sqrt(n)) in the unit of the values. One value has no spread: (m, None, None).

    Raises:
        ValueError: if there are no values.
    """
    count = len(values)
    if count == 0:
        raise ValueError("there are no values to sum up")
    mean = sum(values) / count
    if count == 1:
        return mean, None, None
    deviation = sqrt(sum((x - mean) ** 2 for x in values) / (count - 1))
    return mean, deviation, deviation / sqrt(count)


def compare_seeds(
    a: Sequence[float], b: Sequence[float], deviation: float | None = None
) -> tuple[float, float | None, str]:
    """Decide whether the seeds of two settings tell them apart.

    The standard error of a difference of two means is sqrt(e_a² + e_b²), with the standard errors e_a and e_b of
    `mean_and_spread`. The rule of this course: a difference counts if it is larger than three of them. With three
    seeds each, two equal settings are then told apart by mistake about four times in a hundred.

    Args:
        a: accuracies of the first setting, one for each seed.
        b: accuracies of the second one; there may be more or fewer of them.
        deviation: the standard deviation of one run, where it is known from more runs than these. It takes the
            place of s in both standard errors, s / sqrt(n), for one seed too. None: a and b use their own.

    Returns:
        (difference, error, verdict): mean of a minus mean of b; its standard error, None if it is unknown; and "a"
        if a is better by the rule, "b" if b is, else "undecided", as always where the error is unknown.

    Raises:
        ValueError: if a or b is empty.
    """
    mean_a, _, error_a = mean_and_spread(a)
    mean_b, _, error_b = mean_and_spread(b)
    if deviation is not None:
        error_a, error_b = deviation / sqrt(len(a)), deviation / sqrt(len(b))
    difference = mean_a - mean_b
    if error_a is None or error_b is None:
        return difference, None, "undecided"
    error = sqrt(error_a**2 + error_b**2)
    if abs(difference) <= 3 * error:
        return difference, error, "undecided"
    return difference, error, "a" if difference > 0 else "b"


def best_learning_rate(results: Mapping[float, Sequence[float]]) -> tuple[float, bool]:
    """Choose the learning rate of a sweep, and say whether the sweep was wide enough to choose.

    Args:
        results: for each learning rate the accuracies of its seeds. The rates may stand in any order, and one
            may have more seeds than another.

    Returns:
        (rate, at_edge): the rate with the highest mean over its seeds, the smaller one of two equally good ones; and
        True if it is the smallest or the largest rate of the sweep. Then the best may lie outside, and
        the sweep must go on in that direction.

    Raises:
        ValueError: if there are no results.
    """
    if not results:
        raise ValueError("there are no results to choose from")
    means = {rate: mean_and_spread(values)[0] for rate, values in results.items()}
    best = min(rate for rate, mean in means.items() if mean == max(means.values()))
    return best, best in (min(results), max(results))


def width_for_depth(depth: int, parameters: int, num_heads: int = 3, **options: Any) -> int:
    """Find the width D with which a ViT of this depth has about so many parameters.

    Args:
        depth: number of blocks L.
        parameters: the number wanted.
        num_heads: number of heads h; D is a multiple of it.
        options: the other arguments of `vit_num_parameters`, for example `patch_size`.

    Returns:
        The multiple of h whose parameter count is closest.
    """

    def distance(width: int) -> int:
        return abs(vit_num_parameters(depth=depth, embed_dim=width, **options) - parameters)

    width = num_heads
    while distance(width + num_heads) < distance(width):
        width += num_heads
    return width


def by_step(records: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Collect the test accuracies of recorded runs, in percent, by what was trained: the step of the record."""
    found: dict[str, list[float]] = {}
    for record in records:
        found.setdefault(record["step"], []).append(100 * record["test_accuracy"])
    return found


def pooled_deviation(results: Iterable[Sequence[float]]) -> float | None:
    """Estimate how far one run scatters from the seeds of all settings of a table, which should scatter alike.

    The square root of the mean of their variances, each weighted with its n - 1.

    Args:
        results: for each setting one number for each seed.

    Returns:
        The standard deviation of one run; None if no setting has two seeds.
    """
    spreads = [(len(values) - 1, mean_and_spread(values)[1]) for values in results if len(values) > 1]
    total = sum(weight for weight, _ in spreads)
    return sqrt(sum(weight * deviation**2 for weight, deviation in spreads) / total) if total else None


def with_error(value: float, error: float | None, sign: str = "") -> str:
    """Write a number and its standard error, "?" if that is unknown; the sign "+" shows that of the number."""
    return f"{value:{sign}.1f} ± " + ("?" if error is None else f"{error:.1f}")


def verdict(
    first: str, a: Sequence[float], second: str, b: Sequence[float], deviation: float | None = None
) -> str:
    """Say in words what `compare_seeds` finds about two settings with these names and accuracies."""
    difference, error, winner = compare_seeds(a, b, deviation)
    size = f"{with_error(abs(difference), error)} points"
    if winner == "undecided":
        why = ", one seed decides nothing" if error is None else ""
        return f"{first} against {second}: undecided, {size} apart{why}"
    ahead, behind = (first, second) if winner == "a" else (second, first)
    return f"{ahead} is better than {behind} by {size}"


def result_table(
    results: Mapping[str, Sequence[float]], base: str, notes: Mapping[str, str] | None = None
) -> list[str]:
    """Write results as the lines of a table: seeds, mean and standard error, difference to the base, verdict.

    All settings together say how far one run scatters (`pooled_deviation`); the errors are made from that.

    Args:
        results: accuracies in percent of each setting, one for each seed.
        base: the setting that the others are compared with.
        notes: for each setting what to write at the end of its line; under "" what to write above.

    Returns:
        A line of headings, then one line for each setting, in their order.
    """
    notes, deviation = notes or {}, pooled_deviation(results.values())
    words = {"a": "better", "b": "worse", "undecided": "undecided"}
    lines = [
        f"{'setting':17} seeds  accuracy in %  {'minus ' + base:>19}  {'verdict':9}  {notes.get('', '')}"
    ]
    for name, values in results.items():
        error = None if deviation is None else deviation / sqrt(len(values))
        line = f"{name:17} {len(values):5}  {with_error(mean_and_spread(values)[0], error):>13}"
        if name != base and base in results:
            difference, error, winner = compare_seeds(values, results[base], deviation)
            line += f"  {with_error(difference, error, '+'):>19}  {words[winner]:9}"
        lines.append(f"{line:70}  {notes.get(name, '')}")
    return [line.rstrip() for line in lines]
