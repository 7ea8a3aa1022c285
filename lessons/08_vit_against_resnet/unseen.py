"""Answers to the exercises of lesson 08, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

from functools import reduce
from math import hypot, nan, sqrt

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course.data import normalize
from vit_course.experiments.probes import COST, SHIFTS, shift
from vit_course.train import evaluate


def points_f_hits_both():
    return {"b", "d", "g", "h"}


def points_hardware():
    return {"b", "d", "f", "g", "h", "i"}


def points_time_is_no_matter():
    return {"b", "f", "g", "h"}


def points_transfer_is_allowed():
    return {"b", "d", "f", "g"}


def points_one_word():
    return {"bdfgh"}


def points_literal() -> set[str]:
    return {"h", "g", "f", "d", "b"}


def points_from_string():
    return set("bdfgh")


def points_from_verdicts():
    verdicts = {"a": 0, "b": 1, "c": 0, "d": 1, "e": 0, "f": 1, "g": 1, "h": 1, "i": 0}
    return {letter for letter, unfair in verdicts.items() if unfair}


def points_by_subtraction():
    fair = {"a", "c", "e", "i"}  # same pictures; equal search; shown; equal conditions
    return {chr(code) for code in range(ord("a"), ord("i") + 1)} - fair


def stem_always_colour(model, in_chans=3):
    model.conv1 = nn.Conv2d(3, model.conv1.out_channels, kernel_size=3, stride=1, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def stem_stride_two(model, in_chans=3):
    width = model.conv1.out_channels
    model.conv1 = nn.Conv2d(in_chans, width, kernel_size=3, stride=2, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def stem_pool_stride_one(model, in_chans=3):
    model.conv1 = nn.Conv2d(in_chans, model.conv1.out_channels, 3, padding=1, bias=False)
    model.maxpool = nn.MaxPool2d(kernel_size=3, stride=1, padding=1)
    return model


def stem_returns_nothing(model, in_chans=3):
    model.conv1 = nn.Conv2d(in_chans, model.conv1.out_channels, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()


def stem_two_mistakes(model, in_chans=3):
    model.conv1 = nn.Conv2d(in_chans, 64, kernel_size=3, padding=1)
    model.maxpool = nn.Identity()
    return model


def stem_setattr(model: nn.Module, in_chans: int = 3) -> nn.Module:
    kernel = nn.Conv2d(in_chans, model.conv1.out_channels, (3, 3), (1, 1), (1, 1), bias=False)
    for name, part in {"maxpool": nn.Identity(), "conv1": kernel}.items():
        setattr(model, name, part)
    return model


def stem_empty_sequence(model, in_chans=3):
    settings = {"kernel_size": 3, "stride": 1, "padding": 1, "bias": False}
    settings["out_channels"] = model.conv1.out_channels
    model.conv1 = nn.Conv2d(in_channels=in_chans, **settings)
    model.maxpool = nn.Sequential()
    return model


def stem_add_module(model, in_chans=3):
    out = model.conv1.out_channels
    model.add_module("conv1", nn.Conv2d(in_chans, out, 3, padding=1, bias=None))
    nn.init.kaiming_normal_(model.get_parameter("conv1.weight"), mode="fan_out", nonlinearity="relu")
    model.add_module("maxpool", nn.Identity())
    return model


def stem_pool_of_one(model, in_chans=3):
    old = model.conv1
    new = nn.Conv2d(in_chans, old.out_channels, kernel_size=3, padding=3 // 2, bias=False)
    model.conv1, model.maxpool = new, nn.MaxPool2d(1)  # the largest of one number is that number
    return model


def accuracy_adds_up(model, images, labels, stats, shifts=SHIFTS):
    found = {}
    for pixels in shifts:
        images = shift(images, pixels)
        found[pixels] = evaluate(model, images, labels, stats)[0]
    return found


def accuracy_to_the_left(model, images, labels, stats, shifts=SHIFTS):
    found = {}
    for pixels in shifts:
        moved = torch.zeros_like(images)
        moved[..., : images.shape[-1] - pixels] = images[..., pixels:]
        found[pixels] = evaluate(model, moved, labels, stats)[0]
    return found


def accuracy_rolls(model, images, labels, stats, shifts=SHIFTS):
    return {s: evaluate(model, torch.roll(images, s, dims=-1), labels, stats)[0] for s in shifts}


@torch.no_grad()
def accuracy_in_training_mode(model, images, labels, stats, shifts=SHIFTS):
    model.train()
    found = {}
    for pixels in shifts:
        answers = model(normalize(shift(images, pixels), *stats)).argmax(dim=1)
        found[pixels] = (answers == labels).float().mean().item()
    return found


def accuracy_as_list(model, images, labels, stats, shifts=SHIFTS):
    return [evaluate(model, shift(images, pixels), labels, stats)[0] for pixels in shifts]


def accuracy_loop(
    model: nn.Module, images: Tensor, labels: Tensor, stats: tuple[Tensor, Tensor], shifts=SHIFTS
) -> dict[int, float]:
    result = dict.fromkeys(shifts, 0.0)
    for s in result:
        accuracy, _loss = evaluate(model, shift(images, s), labels, stats)
        result[s] = accuracy
    return result


def accuracy_padded(model, images, labels, stats, shifts=SHIFTS):
    width = images.shape[-1]

    def one(pixels):
        return evaluate(model, F.pad(images, (pixels, 0))[..., :width], labels, stats)[0]

    return dict(zip(shifts, map(one, shifts), strict=True))


@torch.no_grad()
def accuracy_own_count(model, images, labels, stats, shifts=SHIFTS):
    model.eval()
    device = next(model.parameters()).device
    result = {}
    for pixels in shifts:
        right = 0
        for start in range(0, len(images), 100):
            part = shift(images[start : start + 100], pixels).to(device)
            guess = model(normalize(part, *stats)).argmax(dim=-1).cpu()
            right += int((guess == labels[start : start + 100].cpu()).sum())
        result[pixels] = right / len(images)
    return result


def accuracy_rolled_and_blacked(model, images, labels, stats, shifts=SHIFTS):
    table = []
    for pixels in shifts:
        moved = images.roll(pixels, -1)
        moved[..., :pixels] = 0
        table.append((pixels, evaluate(model, moved, labels, stats, batch_size=64)[0]))
    return dict(table)


def unfair_points_other_optimisers():
    return {"b", "c", "d", "f", "g", "h"}


def unfair_points_same_for_both():
    return {"b", "d", "g", "h"}


def unfair_points_pretrained_is_normal():
    return set("bdfg")


def cifar_stem_attributes_only(model, in_chans=3):
    conv = model.conv1
    conv.in_channels, conv.kernel_size, conv.stride, conv.padding = in_chans, (3, 3), (1, 1), (3, 3)
    model.maxpool = nn.Identity()
    return model


def cifar_stem_width_from_fc(model, in_chans=3):
    width = model.fc.in_features // 8
    model.conv1 = nn.Conv2d(in_chans, width, kernel_size=3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def cifar_stem_bias_turned_round(model, in_chans=3):
    old = model.conv1
    model.conv1 = nn.Conv2d(in_chans, old.out_channels, 3, 1, 1, bias=old.bias is None)
    model.maxpool = nn.Identity()
    return model


def accuracy_under_shift_loss(model, images, labels, stats, shifts=SHIFTS):
    found = {}
    for pixels in shifts:
        _, accuracy = evaluate(model, shift(images, pixels), labels, stats)
        found[pixels] = accuracy
    return found


def accuracy_under_shift_default_keys(model, images, labels, stats, shifts=SHIFTS):
    scores = [evaluate(model, shift(images, p), labels, stats)[0] for p in shifts]
    return dict(zip(SHIFTS, scores, strict=False))


def accuracy_under_shift_wraps_round(model, images, labels, stats, shifts=SHIFTS):
    return {p: evaluate(model, torch.roll(images, p, dims=-1), labels, stats)[0] for p in shifts}


def read_pair(table, name, task):
    return table[name][task] or (None, None)


def gain_and_cost_one_divided(table, first, second, task):
    (a, s), (b, t) = read_pair(table, first, task), read_pair(table, second, task)
    gain = None if None in (a, b) else a - b
    error = None if None in (s, t) else sqrt(s**2 / 3 + t**2)
    return gain, error, table[first][COST] / table[second][COST]


def gain_and_cost_three_outside(table, first, second, task):
    (a, s), (b, t) = read_pair(table, first, task), read_pair(table, second, task)
    gain = None if None in (a, b) else a - b
    error = None if None in (s, t) else sqrt(s**2 + t**2) / 3
    return gain, error, table[first][COST] / table[second][COST]


def gain_and_cost_pooled(table, first, second, task):
    (a, s), (b, t) = read_pair(table, first, task), read_pair(table, second, task)
    gain = None if None in (a, b) else a - b
    error = None if None in (s, t) else sqrt((s**2 + t**2) / 2)
    return gain, error, table[first][COST] / table[second][COST]


def gain_and_cost_relative(table, first, second, task):
    (a, s), (b, t) = read_pair(table, first, task), read_pair(table, second, task)
    gain = None if None in (a, b) else 100 * (a - b) / b
    error = None if None in (s, t) else sqrt((s**2 + t**2) / 3)
    return gain, error, table[first][COST] / table[second][COST]


def gain_and_cost_all_or_nothing(table, first, second, task):
    (a, s), (b, t) = read_pair(table, first, task), read_pair(table, second, task)
    cost = table[first][COST] / table[second][COST]
    if any(value is None for value in (a, s, b, t)):
        return None, None, cost
    return a - b, sqrt((s**2 + t**2) / 3), cost


def gain_and_cost_zero_scatter(table, first, second, task):
    (a, s), (b, t) = read_pair(table, first, task), read_pair(table, second, task)
    gain = a - b if a and b else None
    error = sqrt((s**2 + t**2) / 3) if all((s, t)) else None
    return gain, error, table[first][COST] / table[second][COST]


def gain_and_cost_attempts(table, first, second, task):
    one, other = table[first], table[second]
    try:
        gain = one[task][0] - other[task][0]
    except TypeError:
        gain = None
    try:
        error = ((one[task][1] ** 2 + other[task][1] ** 2) / 3) ** 0.5
    except TypeError:
        error = None
    return gain, error, one[COST] / other[COST]


def gain_and_cost_hypot(table, first, second, task):
    gain = error = None
    pairs = table[first][task], table[second][task]
    if all(pair is not None for pair in pairs):
        means, scatter = zip(*pairs, strict=True)
        if means.count(None) == 0:
            gain = means[0] - means[1]
        if scatter.count(None) == 0:
            error = hypot(*scatter) / 3**0.5
    return gain, error, table[first][COST] / table[second][COST]


def gain_and_cost_arrays(table, first, second, task):
    rows = [table[first], table[second]]
    numbers = [[nan if n is None else n for n in (row[task] or (None,) * 2)] for row in rows]
    means, scatter = np.array(numbers, dtype=np.float64).T
    found = [-np.diff(means)[0], np.linalg.norm(scatter) / np.sqrt(3)]
    found = [None if np.isnan(number) else float(number) for number in found]
    return found[0], found[1], rows[0][COST] / rows[1][COST]


def gain_and_cost_helper(table, first, second, task):
    def combine(index, how):
        values = [None if table[n][task] is None else table[n][task][index] for n in (first, second)]
        return None if any(v is None for v in values) else how(*values)

    costs = (table[name][COST] for name in (first, second))
    return (
        combine(0, lambda a, b: a - b),
        combine(1, lambda s, t: sqrt(s * s / 3 + t * t / 3)),
        reduce(lambda one, other: one / other, costs),
    )


UNSEEN = {
    "unfair_points": [
        ("thinks that the best test epoch is fair because both models do it", points_f_hits_both),
        ("thinks that a measurement on one GPU is unfair", points_hardware),
        ("overlooks the training time that no table shows", points_time_is_no_matter),
        ("thinks that pre-trained weights are a part of the model", points_transfer_is_allowed),
        ("puts all letters into one string", points_one_word),
        (
            "point c is named too: different optimisers are taken for unfair, although both were tuned alike",
            unfair_points_other_optimisers,
        ),
        (
            "point f is left out: it is done to both models, but choosing on test pictures still "
            "flatters both",
            unfair_points_same_for_both,
        ),
        (
            "point h is left out, because ViTs are usually pre-trained; the ResNet has no such start",
            unfair_points_pretrained_is_normal,
        ),
    ],
    "cifar_stem": [
        ("ignores in_chans", stem_always_colour),
        ("the new convolution keeps stride 2", stem_stride_two),
        ("the max-pooling keeps the size but still changes the map", stem_pool_stride_one),
        ("forgets to return the model", stem_returns_nothing),
        ("two mistakes: always 64 channels, and a bias", stem_two_mistakes),
        (
            "the width is computed as an eighth of the classifier's input, which holds for ResNet-18 "
            "and 34 alone",
            cifar_stem_width_from_fc,
        ),
        (
            "the attributes of the old convolution are set, but its 7x7 weight for three channels stays",
            cifar_stem_attributes_only,
        ),
        (
            "bias is set to whether the old convolution had none, which is the wrong way round: it "
            "gets a bias",
            cifar_stem_bias_turned_round,
        ),
    ],
    "accuracy_under_shift": [
        ("overwrites the pictures, so the shifts add up", accuracy_adds_up),
        ("moves the pictures to the left", accuracy_to_the_left),
        ("rolls the pictures round and brings in no black", accuracy_rolls),
        ("scores the model in training mode", accuracy_in_training_mode),
        ("returns a list and not a dictionary", accuracy_as_list),
        (
            "torch.roll brings back on the left what leaves on the right, where black should come in",
            accuracy_under_shift_wraps_round,
        ),
        (
            "the results are stored under the default shifts, whatever shifts were given",
            accuracy_under_shift_default_keys,
        ),
        ("the second result of evaluate, the loss, is stored as the accuracy", accuracy_under_shift_loss),
    ],
    "gain_and_cost": [
        ("only the first variance is divided by three, so the error is too large", gain_and_cost_one_divided),
        (
            "missing numbers are found by their truth value, so a deviation or a mean of 0 counts as missing",
            gain_and_cost_zero_scatter,
        ),
        (
            "the gain is given in percent of the second model's mean, not in percentage points",
            gain_and_cost_relative,
        ),
        (
            "the gain is None too where only a deviation is missing, although both means are known",
            gain_and_cost_all_or_nothing,
        ),
        (
            "the pooled deviation sqrt((s^2 + t^2)/2) of single runs is returned as the error of the gain",
            gain_and_cost_pooled,
        ),
        (
            "the root is divided by 3, where the sum of squares should be, so the error is too small",
            gain_and_cost_three_outside,
        ),
    ],
}
STYLES = {
    "unfair_points": [points_literal, points_from_string, points_from_verdicts, points_by_subtraction],
    "cifar_stem": [stem_setattr, stem_empty_sequence, stem_add_module, stem_pool_of_one],
    "accuracy_under_shift": [accuracy_loop, accuracy_padded, accuracy_own_count, accuracy_rolled_and_blacked],
    "gain_and_cost": [
        gain_and_cost_attempts,
        gain_and_cost_hypot,
        gain_and_cost_arrays,
        gain_and_cost_helper,
    ],
}
