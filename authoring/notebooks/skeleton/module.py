"""Lesson NN: what this module holds, which equations they are, and who uses it."""

from collections.abc import Sequence


def mean_square_of_SLUG(values: Sequence[float]) -> float:
    """Return the mean of the squares of some numbers.

    This docstring is the task of the exercise: it states shapes, units, errors and the source.

    Args:
        values: at least one number.
    """
    return sum(value**2 for value in values) / len(values)
