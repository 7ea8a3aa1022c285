"""Answers to the exercises of lesson NN, written as students write them."""

from statistics import fmean

import numpy as np


def sums(values):
    return sum(value * value for value in values)


def squares_late(values):
    return fmean(values) ** 2


def forgets_to_square(values):
    return fmean(values)


def takes_the_root(values):
    return fmean(value**2 for value in values) ** 0.5


def with_numpy(values):
    return float(np.mean(np.square(values)))


def in_a_loop(values):
    total = 0.0
    for value in values:
        total += value**2
    return total / len(values)


WRONG = {
    "mean_square_of_SLUG": [
        ("divide by how many there are", sums),
        ("square each number first", squares_late),
        ("are not squared", forgets_to_square),
        ("you take the root", takes_the_root),
    ],
}
RIGHT = {
    "mean_square_of_SLUG": [with_numpy, in_a_loop],
}
