"""Answers to the exercises of lesson NN, written as students write them."""

import numpy as np


def of_the_first_alone(values):
    return values[0] ** 2


def with_numpy(values):
    return float(np.mean(np.square(values)))


def in_a_loop(values):
    total = 0.0
    for value in values:
        total += value**2
    return total / len(values)


WRONG = {"mean_square_of_SLUG": [("the cases before are right", of_the_first_alone)]}
RIGHT = {"mean_square_of_SLUG": [with_numpy, in_a_loop]}
