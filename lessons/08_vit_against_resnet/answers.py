"""Answers to the exercises of lesson 08, written as students write them."""

from math import sqrt

import numpy as np
import torch
from torch import nn

from vit_classroom.checks import lesson_part
from vit_classroom.evidence.probes import COST, SHIFTS, shift
from vit_course.data import normalize
from vit_course.train import evaluate

checks = lesson_part("08_vit_against_resnet", "checks")


def stem_same(model, in_chans=3):
    model.conv1 = nn.Conv2d(in_chans, model.bn1.num_features, 3, padding="same", bias=False)
    model.maxpool = nn.Sequential()
    return model


def stem_pool_of_one(model, in_chans=3):
    out = model.conv1.weight.shape[0]
    model.conv1 = nn.Conv2d(in_chans, out, (3, 3), (1, 1), (1, 1), bias=False)
    setattr(model, "maxpool", nn.MaxPool2d(1))  # noqa: B010
    return model


def under_shift_loop(model, images, labels, stats, shifts=(0, 1, 2, 3, 4, 6, 8)):
    found = {}
    for pixels in shifts:
        found[pixels], _ = evaluate(model, shift(images, pixels), labels, stats)
    return found


def under_shift_tensors(model, images, labels, stats, shifts=(0, 1, 2, 3, 4, 6, 8)):
    model.eval()
    right = [model(normalize(shift(images, s), *stats)).argmax(dim=-1) == labels for s in shifts]
    return dict(zip(shifts, (r.float().mean() for r in right), strict=True))


def gain_no_missing(table, first, second, task):
    (a, s), (b, t) = table[first][task], table[second][task]
    return a - b, ((s**2 + t**2) / 3) ** 0.5, table[first][COST] / table[second][COST]


def gain_by_none_test(table, first, second, task):
    mine, theirs, gain, error = table[first][task], table[second][task], None, None
    if mine is not None and theirs is not None:
        gain = mine[0] - theirs[0]
        if mine[1] is not None and theirs[1] is not None:
            error = float(np.hypot(mine[1], theirs[1]) / np.sqrt(3))
    return gain, error, table[first][COST] / table[second][COST]


def gain_by_error(table, first, second, task):
    gain = error = None
    try:
        gain = table[first][task][0] - table[second][task][0]
        parts = [table[name][task][1] ** 2 / 3 for name in (first, second)]
        error = sum(parts) ** 0.5
    except TypeError:
        pass
    return [gain, error, table[first].get(COST) / table[second].get(COST)]


def points_literal() -> set[str]:
    return {"h", "g", "f", "d", "b"}


def moved_by_slices(images, pixels):
    moved = torch.zeros_like(images)
    moved[..., pixels:] = images[..., :-pixels]
    return moved


DISSECTED = ("overwrites the pictures, so the shifts add up", checks.adds_up)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "cifar_stem": [("`in_chans` has no default: it should be 3", lambda m, in_chans: stem_same(m, in_chans))],
    "gain_and_cost": [
        ("your code stopped with TypeError", gain_no_missing),
        ("value 3 of 3", checks.changed(lambda gain, error, cost: (gain, error, round(cost)))),
        ("value 2 of 3", checks.comparison(error=lambda s, t: sqrt(s**2 / 3 + t**2))),
    ],
    "accuracy_under_shift": [
        (
            "for shifts = (2,) these should be the keys; yours are [0]",
            lambda *given: dict(zip(SHIFTS, under_shift_loop(*given).values(), strict=False)),
        ),
        ("something is empty there: with p = 0, `[:-p]`", checks.evaluated(moved_by_slices)),
    ],
    "unfair_points": [("there is no point 'bdfgh'; the points are 'a' to 'i'", lambda: {"bdfgh"})],
}
RIGHT = {
    "unfair_points": [
        lambda: {"b", "d", "f", "g", "h"},
        lambda: {"H", "G", "F", "D", "B"},
        lambda: set("bdfgh"),
        points_literal,
    ],
    "cifar_stem": [stem_same, stem_pool_of_one],
    "accuracy_under_shift": [under_shift_loop, under_shift_tensors],
    "gain_and_cost": [gain_by_none_test, gain_by_error],
}
