"""Answers to the exercises of lesson 08, written as students write them."""

import torch
import torch.nn.functional as F
from torch import nn

from vit_course.data import normalize
from vit_course.experiments.probes import shift
from vit_course.train import evaluate


def stem(model, width=None, in_chans=3, **options):
    given = {"kernel_size": 3, "stride": 1, "padding": 1, "bias": False} | options
    model.conv1 = nn.Conv2d(in_chans, width or model.conv1.out_channels, **given)
    model.maxpool = nn.Identity()
    return model


def stem_strided(model, in_chans=3):
    return stem(model, in_chans=in_chans, stride=2)


def stem_no_padding(model, in_chans=3):
    return stem(model, in_chans=in_chans, padding=0)


def stem_with_bias(model, in_chans=3):
    return stem(model, in_chans=in_chans, bias=True)


def stem_width_64(model, in_chans=3):
    return stem(model, width=64, in_chans=in_chans)


def stem_only_colour(model, in_chans=3):
    return stem(model)


def stem_keeps_pooling(model, in_chans=3):
    pooling = model.maxpool
    stem(model, in_chans=in_chans)
    model.maxpool = pooling
    return model


def stem_smaller_pooling(model, in_chans=3):
    stem(model, in_chans=in_chans)
    model.maxpool = nn.MaxPool2d(kernel_size=3, stride=1, padding=1)
    return model


def stem_pooling_none(model, in_chans=3):
    stem(model, in_chans=in_chans)
    model.maxpool = None
    return model


def stem_local_variable(model, in_chans=3):
    conv1 = nn.Conv2d(in_chans, model.conv1.out_channels, 3, 1, 1, bias=False)
    model.maxpool = nn.Identity()
    return model if conv1 else None


def stem_returns_nothing(model, in_chans=3):
    stem(model, in_chans=in_chans)


def stem_returns_convolution(model, in_chans=3):
    return stem(model, in_chans=in_chans).conv1


def stem_five(model, in_chans=3):
    return stem(model, in_chans=in_chans, kernel_size=5, padding=2)


def stem_reflected(model, in_chans=3):
    return stem(model, in_chans=in_chans, padding_mode="reflect")


def stem_frozen(model, in_chans=3):
    stem(model, in_chans=in_chans).conv1.requires_grad_(False)
    return model


def stem_without_default(model, in_chans):
    return stem(model, in_chans=in_chans)


def stem_grey_default(model, in_chans=1):
    return stem(model, in_chans=in_chans)


def stem_new_head(model, in_chans=3):
    stem(model, in_chans=in_chans).fc = nn.Linear(512, 10)
    return model


def stem_no_norm(model, in_chans=3):
    stem(model, in_chans=in_chans).bn1 = nn.Identity()
    return model


def stem_gelu(model, in_chans=3):
    stem(model, in_chans=in_chans).relu = nn.GELU()
    return model


def stem_freezes_the_rest(model, in_chans=3):
    return stem(model.requires_grad_(False), in_chans=in_chans)


def stem_evaluation(model, in_chans=3):
    return stem(model, in_chans=in_chans).eval()


def stem_zeros(model, in_chans=3):
    nn.init.zeros_(stem(model, in_chans=in_chans).conv1.weight)
    return model


def stem_deletes_pooling(model, in_chans=3):
    del stem(model, in_chans=in_chans).maxpool
    return model


def stem_middle_of_the_kernel(model, in_chans=3):
    weight = model.conv1.weight[:, :1, 2:5, 2:5].repeat(1, in_chans, 1, 1).detach()
    stem(model, in_chans=in_chans).conv1.weight = nn.Parameter(weight)
    return model


def stem_same(model, in_chans=3):
    model.conv1 = nn.Conv2d(in_chans, model.bn1.num_features, 3, padding="same", bias=False)
    model.maxpool = nn.Sequential()
    return model


def stem_pool_of_one(model, in_chans=3):
    out = model.conv1.weight.shape[0]
    model.conv1 = nn.Conv2d(in_chans, out, (3, 3), (1, 1), (1, 1), bias=False)
    setattr(model, "maxpool", nn.MaxPool2d(1))  # noqa: B010
    return model


def shift_roll(images, pixels):
    return torch.roll(images, pixels, dims=3)


def shift_left(images, pixels):
    moved = torch.zeros_like(images)
    moved[..., : images.shape[-1] - pixels] = images[..., pixels:]
    return moved


def shift_down(images, pixels):
    moved = torch.zeros_like(images)
    moved[:, :, pixels:] = images[:, :, : images.shape[2] - pixels]
    return moved


def shift_minus_zero(images, pixels):
    moved = torch.zeros_like(images)
    moved[..., pixels:] = images[..., :-pixels]
    return moved


def shift_wider(images, pixels):
    return F.pad(images, (pixels, 0))


def shift_not_cleared(images, pixels):
    moved = images.clone()
    moved[..., pixels:] = images[..., : images.shape[-1] - pixels]
    return moved


def shift_float(images, pixels):
    moved = torch.zeros(images.shape)
    moved[..., pixels:] = images[..., : images.shape[-1] - pixels]
    return moved


def shift_in_place(images, pixels):
    images[..., pixels:] = images[..., : images.shape[-1] - pixels].clone()
    images[..., :pixels] = 0
    return images


def shift_narrower(images, pixels):
    return images[..., : images.shape[-1] - pixels]


def shift_hands_back(images, pixels):
    return images if pixels == 0 else F.pad(images, (pixels, 0))[..., : images.shape[-1]]


def shift_edge(images, pixels):
    return torch.stack([images[..., max(0, x - pixels)] for x in range(images.shape[-1])], dim=-1)


def shift_by_height(images, pixels):
    moved = torch.zeros_like(images)
    moved[:, :, :, pixels:] = images[:, :, :, : images.shape[2] - pixels]
    return moved


def shift_darkest(images, pixels):
    moved = torch.full_like(images, images.min().item())
    moved[..., pixels:] = images[..., : images.shape[-1] - pixels]
    return moved


def shift_one_more(images, pixels):
    return shift_padded(images, min(pixels + 1, images.shape[-1]))


def shift_in_float32(images, pixels):
    moved = shift_padded(images.float(), pixels)
    return moved.to(torch.uint8) if images.dtype == torch.uint8 else moved


def shift_by_view(images, pixels):
    return shift_padded(images.view(-1, 1, *images.shape[-2:]), pixels).view(images.shape)


def shift_padded(images, pixels):
    return F.pad(images, (pixels, 0))[..., : images.shape[-1]]


def shift_negative_padding(images, pixels):
    return F.pad(images, (pixels, -pixels)) if pixels else images.clone()


def shift_rolled(images, pixels):
    moved = images.roll(pixels, -1)
    moved[..., :pixels] = 0
    return moved


def shift_joined(images, pixels):
    black = images.new_zeros((*images.shape[:-1], pixels))
    return torch.cat([black, images], dim=-1).narrow(-1, 0, images.shape[-1])


def under_shift_list(model, images, labels, stats, shifts=(0, 1)):
    return [evaluate(model, shift(images, s), labels, stats)[0] for s in shifts]


def under_shift_pairs(model, images, labels, stats, shifts=(0, 1)):
    return {s: evaluate(model, shift(images, s), labels, stats) for s in shifts}


def under_shift_loss(model, images, labels, stats, shifts=(0, 1)):
    return {s: evaluate(model, shift(images, s), labels, stats)[1] for s in shifts}


def under_shift_adds_up(model, images, labels, stats, shifts=(0, 1)):
    found = {}
    for s in shifts:
        images = shift(images, s)
        found[s], _ = evaluate(model, images, labels, stats)
    return found


def under_shift_forgets(model, images, labels, stats, shifts=(0, 1)):
    found = {}
    for s in shifts:
        shift(images, s)
        found[s], _ = evaluate(model, images, labels, stats)
    return found


def under_shift_percent(model, images, labels, stats, shifts=(0, 1)):
    return {s: 100 * evaluate(model, shift(images, s), labels, stats)[0] for s in shifts}


def under_shift_training(model, images, labels, stats, shifts=(0, 1)):
    return {
        s: (model(normalize(shift(images, s), *stats)).argmax(1) == labels).float().mean().item()
        for s in shifts
    }


def under_shift_normalised_first(model, images, labels, stats, shifts=(0, 1)):
    model.eval()
    x = normalize(images, *stats)
    return {s: (model(shift(x, s)).argmax(1) == labels).float().mean().item() for s in shifts}


def under_shift_first_only(model, images, labels, stats, shifts=(0, 1)):
    for s in shifts:
        return {s: evaluate(model, shift(images, s), labels, stats)[0]}


def under_shift_changes_pictures(model, images, labels, stats, shifts=(0, 1)):
    found = {}
    for s in shifts:
        found[s] = evaluate(model, shift(images, s), labels, stats)[0]
        images[..., :s] = 0
    return found


def under_shift_list_of_pairs(model, images, labels, stats, shifts=(0, 1)):
    return [(s, evaluate(model, shift(images, s), labels, stats)[0]) for s in shifts]


def under_shift_text(model, images, labels, stats, shifts=(0, 1)):
    return {str(s): evaluate(model, shift(images, s), labels, stats)[0] for s in shifts}


def under_shift_own_answers(model, images, labels, stats, shifts=(0, 1)):
    model.eval()
    said = model(normalize(images, *stats)).argmax(1)
    return {
        s: (model(normalize(shift(images, s), *stats)).argmax(1) == said).float().mean().item()
        for s in shifts
    }


def under_shift_normalised_twice(model, images, labels, stats, shifts=(0, 1)):
    return {s: evaluate(model, normalize(shift(images, s), *stats), labels, stats)[0] for s in shifts}


def under_shift_left(model, images, labels, stats, shifts=(0, 1)):
    return {s: evaluate(model, shift_left(images, s), labels, stats)[0] for s in shifts}


def under_shift_errors(model, images, labels, stats, shifts=(0, 1)):
    return {s: 1 - evaluate(model, shift(images, s), labels, stats)[0] for s in shifts}


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


def gain_reversed(table, first, second, task):
    a, b = table[second][task], table[first][task]
    gain = a - b if a is not None and b is not None else None
    return gain, table[first][DAYS] / table[second][DAYS]


def gain_cost_reversed(table, first, second, task):
    a, b = table[first][task], table[second][task]
    gain = a - b if a is not None and b is not None else None
    return gain, table[second][DAYS] / table[first][DAYS]


def gain_no_missing(table, first, second, task):
    return table[first][task] - table[second][task], table[first][DAYS] / table[second][DAYS]


def gain_missing_is_zero(table, first, second, task):
    a, b = table[first][task] or 0, table[second][task] or 0
    return a - b, table[first][DAYS] / table[second][DAYS]


def gain_only_none(table, first, second, task):
    a, b = table[first][task], table[second][task]
    if a is None or b is None:
        return None
    return a - b, table[first][DAYS] / table[second][DAYS]


def gain_cost_difference(table, first, second, task):
    a, b = table[first][task], table[second][task]
    gain = a - b if a is not None and b is not None else None
    return gain, table[first][DAYS] - table[second][DAYS]


def gain_relative(table, first, second, task):
    a, b = table[first][task], table[second][task]
    gain = 100 * (a / b - 1) if a is not None and b is not None else None
    return gain, table[first][DAYS] / table[second][DAYS]


def gain_wrong_order(table, first, second, task):
    a, b = table[first][task], table[second][task]
    gain = a - b if a is not None and b is not None else None
    return table[first][DAYS] / table[second][DAYS], gain


def gain_rounded(table, first, second, task):
    a, b = table[first][task], table[second][task]
    gain = a - b if a is not None and b is not None else None
    return gain, round(table[first][DAYS] / table[second][DAYS])


def gain_truth_value(table, first, second, task):
    a, b = table[first][task], table[second][task]
    gain = a - b if None not in (a, b) else None
    return gain or None, table[first][DAYS] / table[second][DAYS]


def gain_if_true(table, first, second, task):
    a, b = table[first][task], table[second][task]
    return a - b if a and b else None, table[first][DAYS] / table[second][DAYS]


def gain_fills_the_table(table, first, second, task):
    for name in (first, second):
        if table[name][task] is None:
            table[name][task] = 0
    return table[first][task] - table[second][task], table[first][DAYS] / table[second][DAYS]


def gain_one_missing(table, first, second, task):
    a, b = table[first][task], table[second][task]
    gain = None if (a is None) != (b is None) else a - b
    return gain, table[first][DAYS] / table[second][DAYS]


def gain_no_sign(table, first, second, task):
    gain, cost = gain_by_none_test(table, first, second, task)
    return None if gain is None else abs(gain), cost


def gain_share(table, first, second, task):
    gain, cost = gain_by_none_test(table, first, second, task)
    return None if gain is None else gain / 100, cost


def gain_by_none_test(table, first, second, task):
    pair = [table[name][task] for name in (first, second)]
    gain = None if None in pair else pair[0] - pair[1]
    return gain, table[first][DAYS] / table[second][DAYS]


def gain_by_error(table, first, second, task):
    try:
        gain = table[first][task] - table[second][task]
    except TypeError:
        gain = None
    return [gain, table[first].get(DAYS) / table[second].get(DAYS)]


WRONG = {
    "unfair_points": [
        ("Point f is unfair too", lambda: {"b", "d", "g", "h"}),
        ("Point c is fair", lambda: {"b", "c", "d", "f", "g", "h"}),
        ("Point e is fair", lambda: {"b", "d", "e", "f", "g", "h"}),
        ("4 of 9 points are judged right. Point b", set),
        ("Point a is fair", lambda: set("abcdefghi")),
        ("there is no point 'z'", lambda: {"b", "z"}),
        ("there is no point 'b,d,f,g,h'", lambda: {"b,d,f,g,h"}),
        ("return the letters as a set", lambda: [1, 3, 5]),
    ],
    "cifar_stem": [
        ("stride 2", stem_strided),
        ("needs padding 1", stem_no_padding),
        ("has a bias", stem_with_bias),
        ("ask `model.conv1.out_channels`", stem_width_64),
        ("use `in_chans`", stem_only_colour),
        ("`model.maxpool` still turns", stem_keeps_pooling),
        ("keeps the size but changes values", stem_smaller_pooling),
        ("must stay a module", stem_pooling_none),
        ("still has its 7x7 kernel", stem_local_variable),
        ("returned nothing", stem_returns_nothing),
        ("return the model that you were given", stem_returns_convolution),
        ("should be 3x3, yours is 5x5", stem_five),
        ("padding 1 with zeros", stem_reflected),
        ("no gradient reaches", stem_frozen),
        ("left to its default, 3: your code stopped with TypeError", stem_without_default),
        ("left to its default, 3: your convolution reads 1 channels", stem_grey_default),
        ("you added fc", stem_new_head),
        ("you replaced bn1", stem_no_norm),
        ("you replaced relu", stem_gelu),
        ("you froze layers", stem_freezes_the_rest),
        ("evaluation mode", stem_evaluation),
        ("all filters of your convolution are equal", stem_zeros),
        ("must stay a module", stem_deletes_pooling),
    ],
    "shift": [
        ("that is `roll`", shift_roll),
        ("moves to the left", shift_left),
        ("moves down", shift_down),
        ("a shift of 0 pixels should change nothing", shift_minus_zero),
        ("the picture has grown", shift_wider),
        ("become narrower", shift_narrower),
        ("old pixels are left standing", shift_not_cleared),
        ("should stay torch.uint8", shift_float),
        ("changes its input in place", shift_in_place),
        ("hand back the input itself", shift_hands_back),
        ("the first column is repeated", shift_edge),
        ("with the height H", shift_by_height),
        ("the darkest value", shift_darkest),
        ("one pixel too far", shift_one_more),
        ("should stay torch.float64", shift_in_float32),
        ("your code stopped with RuntimeError: view size", shift_by_view),
    ],
    "accuracy_under_shift": [
        ("return a dict", under_shift_list),
        ("take the accuracy alone", under_shift_pairs),
        ("you return the loss", under_shift_loss),
        ("your shifts add up", under_shift_adds_up),
        ("untouched pictures: score the shifted ones", under_shift_forgets),
        ("you return percent", under_shift_percent),
        ("in training mode", under_shift_training),
        ("shift after normalising", under_shift_normalised_first),
        ("for shifts = (0, 1, 3) these should be the keys", under_shift_first_only),
        ("return a dict", under_shift_list_of_pairs),
        ("as numbers, 2 and not '2'", under_shift_text),
        ("compare with `labels`", under_shift_own_answers),
        ("normalised twice", under_shift_normalised_twice),
        ("move to the left", under_shift_left),
        ("the share of *wrong* answers", under_shift_errors),
        ("changes the pictures in place", under_shift_changes_pictures),
    ],
    "gain_and_cost": [
        ("the sign of the gain", gain_reversed),
        ("the cost is turned round", gain_cost_reversed),
        ("your code stopped with TypeError", gain_no_missing),
        ("a missing accuracy is not 0", gain_missing_is_zero),
        ("return (None, cost)", gain_only_none),
        ("the cost should be a quotient", gain_cost_difference),
        ("percentage points, a difference", gain_relative),
        ("in the wrong order", gain_wrong_order),
        ("value 2 of 2", gain_rounded),
        ("a gain of 0, not None", gain_truth_value),
        ("an accuracy of 0 is poor, but not missing", gain_if_true),
        ("changes the table", gain_fills_the_table),
        ("your code stopped with TypeError", gain_one_missing),
        ("the gain has a sign", gain_no_sign),
        ("do not divide", gain_share),
    ],
}
RIGHT = {
    "unfair_points": [lambda: {"b", "d", "f", "g", "h"}, lambda: ["H", "G", "F", "D", "B"], lambda: "bdfgh"],
    "cifar_stem": [stem_same, stem_pool_of_one, stem_middle_of_the_kernel],
    "shift": [shift_padded, shift_negative_padding, shift_rolled, shift_joined],
    "accuracy_under_shift": [under_shift_loop, under_shift_by_hand, under_shift_tensors, under_shift_sorted],
    "gain_and_cost": [gain_by_none_test, gain_by_error],
}
