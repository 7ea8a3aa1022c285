"""Answers to the exercises of lesson 11, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch


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


def receptive_field_recursion_forwards(layers):
    field = 1
    for kernel, stride in layers:
        field = (field - 1) * stride + kernel
    return field


def receptive_field_strides_added(layers):
    field, jump = 1, 1
    for kernel, stride in layers:
        field += (kernel - 1) * jump
        jump += stride - 1
    return field


def receptive_field_total_stride(layers):
    jump = math.prod(stride for _, stride in layers)
    return 1 + sum((kernel - 1) * jump for kernel, _ in layers)


def frontier(curve):
    points = []
    for amount, accuracy in sorted(curve.items()):
        if not points or accuracy > points[-1][1]:
            points.append((amount, accuracy))
    return points


def read_line(points, target):
    amounts, accuracies = zip(*points, strict=True)
    return float(np.exp(np.interp(target, accuracies, np.log(amounts))))


def data_needed_running_best(curve, target):
    amounts = np.array(sorted(curve), dtype=float)
    best = np.maximum.accumulate([curve[amount] for amount in sorted(curve)])
    if best[-1] < target:
        return None
    return float(np.exp(np.interp(target, best, np.log(amounts))))


def data_needed_better_than_last(curve, target):
    points = sorted(curve.items())
    kept = points[:1] + [b for a, b in pairwise(points) if b[1] > a[1]]
    if max(accuracy for _, accuracy in kept) < target:
        return None
    for (x, y), (u, v) in pairwise(kept):
        if y < target <= v:
            return float(x * (u / x) ** ((target - y) / (v - y)))
    return float(kept[0][0])


def data_needed_next_measured(curve, target):
    reached = [amount for amount, accuracy in curve.items() if accuracy >= target]
    return float(min(reached)) if reached else None


def data_needed_below_the_first(curve, target):
    points = frontier(curve)
    if points[-1][1] < target:
        return None
    if len(points) == 1:
        return float(points[0][0])
    i = min(max(1, bisect_left([accuracy for _, accuracy in points], target)), len(points) - 1)
    (x, y), (u, v) = points[i - 1], points[i]
    return float(x * (u / x) ** ((target - y) / (v - y)))


def data_needed_power_law(curve, target):
    points = frontier(curve)
    if points[-1][1] < target:
        return None
    amounts, accuracies = zip(*points, strict=True)
    return float(np.exp(np.interp(np.log(target), np.log(accuracies), np.log(amounts))))


def data_needed_ties_kept(curve, target):
    points = []
    for amount, accuracy in sorted(curve.items()):
        if not points or accuracy >= points[-1][1]:
            points.append((amount, accuracy))
    return None if points[-1][1] < target else read_line(points, target)


def data_needed_by_definition(curve, target):
    def dominated(amount):
        return any(other < amount and curve[other] >= curve[amount] for other in curve)

    left = sorted(amount for amount in curve if not dominated(amount))
    if not left or max(curve.values()) < target:
        return None
    if curve[left[0]] >= target:
        return float(left[0])
    for low, high in pairwise(left):
        if curve[high] >= target:
            share = (target - curve[low]) / (curve[high] - curve[low])
            return math.exp((1 - share) * math.log(low) + share * math.log(high))
    return None


def data_needed_geometric(curve, target):
    best, last = -math.inf, None
    for amount in sorted(curve):
        accuracy = curve[amount]
        if accuracy <= best:
            continue
        if accuracy >= target:
            if last is None:
                return float(amount)
            return float(last * (amount / last) ** ((target - best) / (accuracy - best)))
        best, last = accuracy, amount
    return None


def data_needed_numpy(curve, target):
    if not curve:
        return None
    amounts, scores = np.array(sorted(curve.items()), dtype=float).T
    before = np.concatenate([[-np.inf], np.maximum.accumulate(scores)[:-1]])
    amounts, scores = amounts[scores > before], scores[scores > before]
    i = int(np.searchsorted(scores, target, side="left"))
    if i == len(scores):
        return None
    if i == 0:
        return float(amounts[0])
    weight = (target - scores[i - 1]) / (scores[i] - scores[i - 1])
    return float(10 ** (np.log10(amounts[i - 1]) + weight * np.log10(amounts[i] / amounts[i - 1])))


def data_needed_torch(curve, target):
    if not curve:
        return None
    table = torch.tensor(sorted(curve.items()), dtype=torch.float64)
    best = table[:, 1].cummax(0).values
    keep = torch.cat([torch.ones(1, dtype=torch.bool), best[1:] > best[:-1]])
    amounts, scores = table[keep].unbind(1)
    if target > scores[-1]:
        return None
    place = int((scores < target).sum())
    if place == 0:
        return amounts[0].item()
    ends = amounts[place - 1 : place + 1].log2()
    share = (target - scores[place - 1]) / (scores[place] - scores[place - 1])
    return torch.lerp(ends[0], ends[1], share).exp2().item()


UNSEEN = {
    "receptive_field": [
        ("the stride of a layer counts for the layer itself", field_own_stride_first),
        ("multiplies the kernels", field_kernels_multiplied),
        ("adds the strides where they are to be multiplied", field_strides_added),
        ("uses the formula for the way back from the first layer on", field_backwards_formula),
        ("two mistakes: starts with 0, and the own stride counts", field_two_mistakes),
        (
            "strides are added up, where the distance of positions is their product",
            receptive_field_strides_added,
        ),
        (
            "every layer is scaled with the product of all strides, also its own and later ones",
            receptive_field_total_stride,
        ),
        (
            "the recursion that has to run from the last layer to the first is run from the first to "
            "the last",
            receptive_field_recursion_forwards,
        ),
    ],
    "data_needed": [
        (
            "a dominated point gets the best accuracy so far and stays in, so the next segment starts "
            "at its amount",
            data_needed_running_best,
        ),
        ("the accuracies are interpolated in their logarithm too, as for a power law", data_needed_power_law),
        (
            "the smallest measured amount that reaches the target is returned, nothing is interpolated",
            data_needed_next_measured,
        ),
        (
            "a point is kept if it beats the measured point just before it, not the best of all before",
            data_needed_better_than_last,
        ),
        (
            "points with an accuracy equal to the best so far are kept, though less data does as well",
            data_needed_ties_kept,
        ),
        (
            "below the first accuracy the first line is continued to amounts that nobody measured",
            data_needed_below_the_first,
        ),
    ],
}
STYLES = {
    "receptive_field": [field_backwards, field_numpy, field_accumulate, field_first_and_last_pixel],
    "data_needed": [data_needed_by_definition, data_needed_geometric, data_needed_numpy, data_needed_torch],
}
