"""Answers to the exercises of lesson 11, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import itertools
from collections.abc import Sequence

import numpy as np


def field_own_stride_first(layers):
    field, jump = 1, 1
    for kernel, stride in layers:
        jump *= stride
        field += (kernel - 1) * jump
    return field


def field_kernels_multiplied(layers):
    field = 1
    for kernel, _ in layers:
        field *= kernel
    return field


def field_from_zero(layers):
    field, jump = 0, 1
    for kernel, stride in layers:
        field += (kernel - 1) * jump
        jump *= stride
    return field


def field_strides_added(layers):
    field, jump = 1, 1
    for kernel, stride in layers:
        field += (kernel - 1) * jump
        jump += stride - 1
    return field


def field_backwards_formula(layers):
    field = 1
    for kernel, stride in layers:
        field = (field - 1) * stride + kernel
    return field


def field_two_mistakes(layers):
    field, jump = 0, 1
    for kernel, stride in layers:
        jump *= stride
        field += (kernel - 1) * jump
    return field


def field_backwards(layers: Sequence[tuple[int, int]]) -> int:
    # How many positions of the input of a layer are needed for so many of its output.
    needed = 1
    for size, step in list(layers)[::-1]:
        needed = (needed - 1) * step + size
    return needed


def field_numpy(layers):
    table = np.array(list(layers), dtype=np.int64).reshape(-1, 2)
    apart = np.cumprod(np.concatenate([[1], table[:-1, 1]]))[: len(table)]
    return int(1 + np.dot(table[:, 0] - 1, apart))


def field_accumulate(layers):
    jumps = itertools.accumulate((stride for _, stride in layers), lambda a, b: a * b, initial=1)
    return 1 + sum((kernel - 1) * jump for (kernel, _), jump in zip(layers, jumps, strict=False))


def field_first_and_last_pixel(layers):
    first = last = 0
    for kernel, stride in reversed(list(layers)):
        first, last = first * stride, last * stride + kernel - 1
    return last - first + 1


UNSEEN = {
    "receptive_field": [
        ("the stride of a layer counts for the layer itself", field_own_stride_first),
        ("multiplies the kernels", field_kernels_multiplied),
        ("starts with 0 and not with 1", field_from_zero),
        ("adds the strides where they are to be multiplied", field_strides_added),
        ("uses the formula for the way back from the first layer on", field_backwards_formula),
        ("two mistakes: starts with 0, and the own stride counts", field_two_mistakes),
    ],
}
STYLES = {
    "receptive_field": [field_backwards, field_numpy, field_accumulate, field_first_and_last_pixel],
}
