"""Answers to the exercises of lesson 08, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course.data import normalize
from vit_course.experiments.probes import SHIFTS, shift
from vit_course.train import evaluate


def points_fair_ones():
    return set("abcdefghi") - {"b", "d", "f", "g", "h"}


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


def stem_of_a_copy(model, in_chans=3):
    model = copy.deepcopy(model)
    model.conv1 = nn.Conv2d(in_chans, model.conv1.out_channels, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
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


def accuracy_is_the_loss(model, images, labels, stats, shifts=SHIFTS):
    found = {}
    for pixels in shifts:
        _, accuracy = evaluate(model, shift(images, pixels), labels, stats)
        found[pixels] = accuracy
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


UNSEEN = {
    "unfair_points": [
        ("names the fair points", points_fair_ones),
        ("thinks that the best test epoch is fair because both models do it", points_f_hits_both),
        ("thinks that a measurement on one GPU is unfair", points_hardware),
        ("overlooks the training time that no table shows", points_time_is_no_matter),
        ("thinks that pre-trained weights are a part of the model", points_transfer_is_allowed),
        ("puts all letters into one string", points_one_word),
    ],
    "cifar_stem": [
        ("ignores in_chans", stem_always_colour),
        ("the new convolution keeps stride 2", stem_stride_two),
        ("the max-pooling keeps the size but still changes the map", stem_pool_stride_one),
        ("changes a copy and not the model itself", stem_of_a_copy),
        ("forgets to return the model", stem_returns_nothing),
        ("two mistakes: always 64 channels, and a bias", stem_two_mistakes),
    ],
    "accuracy_under_shift": [
        ("overwrites the pictures, so the shifts add up", accuracy_adds_up),
        ("moves the pictures to the left", accuracy_to_the_left),
        ("rolls the pictures round and brings in no black", accuracy_rolls),
        ("scores the model in training mode", accuracy_in_training_mode),
        ("takes the loss for the accuracy", accuracy_is_the_loss),
        ("returns a list and not a dictionary", accuracy_as_list),
    ],
}
STYLES = {
    "unfair_points": [points_literal, points_from_string, points_from_verdicts, points_by_subtraction],
    "cifar_stem": [stem_setattr, stem_empty_sequence, stem_add_module, stem_pool_of_one],
    "accuracy_under_shift": [accuracy_loop, accuracy_padded, accuracy_own_count, accuracy_rolled_and_blacked],
}
