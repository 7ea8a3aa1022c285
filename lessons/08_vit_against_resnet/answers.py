"""Answers to the exercises of lesson 08, written as students write them."""

import numpy as np
import torch
from torch import nn

from vit_course.data import normalize
from vit_course.experiments.probes import shift
from vit_course.train import evaluate


def stem_without_default(model, in_chans):
    return stem_same(model, in_chans)


def stem_grey_default(model, in_chans=1):
    return stem_same(model, in_chans)


def stem_same(model, in_chans=3):
    model.conv1 = nn.Conv2d(in_chans, model.bn1.num_features, 3, padding="same", bias=False)
    model.maxpool = nn.Sequential()
    return model


def stem_pool_of_one(model, in_chans=3):
    out = model.conv1.weight.shape[0]
    model.conv1 = nn.Conv2d(in_chans, out, (3, 3), (1, 1), (1, 1), bias=False)
    setattr(model, "maxpool", nn.MaxPool2d(1))  # noqa: B010
    return model


def stem_middle_of_the_kernel(model, in_chans=3):
    weight = model.conv1.weight[:, :1, 2:5, 2:5].repeat(1, in_chans, 1, 1).detach()
    stem_pool_of_one(model, in_chans).conv1.weight = nn.Parameter(weight)
    return model


def under_shift_sorted(model, images, labels, stats, shifts=(0, 1, 2, 3, 4, 6, 8)):
    return {s: evaluate(model, shift(images, s), labels, stats)[0] for s in sorted(shifts)}


def under_shift_loop(model, images, labels, stats, shifts=(0, 1, 2, 3, 4, 6, 8)):
    found = {}
    for pixels in shifts:
        accuracy, _ = evaluate(model, shift(images, pixels), labels, stats)
        found[pixels] = accuracy
    return found


@torch.no_grad()
def under_shift_by_hand(model, images, labels, stats, shifts=(0, 1, 2, 3, 4, 6, 8)):
    model.eval()
    found = {}
    for pixels in shifts:
        hits = [
            int(model(normalize(shift(image[None], pixels), *stats)).argmax() == label)
            for image, label in zip(images, labels, strict=True)
        ]
        found[pixels] = sum(hits) / len(hits)
    return found


def under_shift_tensors(model, images, labels, stats, shifts=(0, 1, 2, 3, 4, 6, 8)):
    model.eval()
    right = [model(normalize(shift(images, s), *stats)).argmax(dim=-1) == labels for s in shifts]
    return dict(zip(shifts, (r.float().mean() for r in right), strict=True))


DAYS = "TPUv3-core-days"


def gain_no_missing(table, first, second, task):
    (a, s), (b, t) = table[first][task], table[second][task]
    return a - b, ((s**2 + t**2) / 3) ** 0.5, table[first][DAYS] / table[second][DAYS]


def gain_rounded(table, first, second, task):
    gain, error, cost = gain_by_error(table, first, second, task)
    return gain, error, round(cost)


def gain_by_none_test(table, first, second, task):
    mine, theirs, gain, error = table[first][task], table[second][task], None, None
    if mine is not None and theirs is not None:
        gain = mine[0] - theirs[0]
        if mine[1] is not None and theirs[1] is not None:
            error = float(np.hypot(mine[1], theirs[1]) / np.sqrt(3))
    return gain, error, table[first][DAYS] / table[second][DAYS]


def gain_by_error(table, first, second, task):
    gain = error = None
    try:
        gain = table[first][task][0] - table[second][task][0]
        parts = [table[name][task][1] ** 2 / 3 for name in (first, second)]
        error = sum(parts) ** 0.5
    except TypeError:
        pass
    return [gain, error, table[first].get(DAYS) / table[second].get(DAYS)]


WRONG = {
    "cifar_stem": [
        ("`in_chans` has no default: it should be 3", stem_without_default),
        ("the default of `in_chans` should be 3; yours is 1", stem_grey_default),
    ],
    "gain_and_cost": [
        ("your code stopped with TypeError", gain_no_missing),
        ("value 3 of 3", gain_rounded),
    ],
}
RIGHT = {
    "unfair_points": [
        lambda: {"b", "d", "f", "g", "h"},
        lambda: {"H", "G", "F", "D", "B"},
        lambda: set("bdfgh"),
    ],
    "cifar_stem": [stem_same, stem_pool_of_one, stem_middle_of_the_kernel],
    "accuracy_under_shift": [under_shift_loop, under_shift_by_hand, under_shift_tensors, under_shift_sorted],
    "gain_and_cost": [gain_by_none_test, gain_by_error],
}
