"""Augmentation: RandAugment, erasing, MixUp and CutMix against torchvision or a loop, and what is random about it."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torchvision.transforms import functional as TF

from vit_course.augment import (
    AugmentConfig,
    augment,
    cutmix,
    mix,
    mixup,
    random_boxes,
    random_crop_flip,
    random_erasing,
)
from vit_course.data import normalize, shapes10
from vit_course.recipes import MIXED
from vit_course.training.rand_augment import OPERATIONS, affine, rand_augment

MAGNITUDES = (0, 4, 9, 15, 22, 30)
STATS = torch.tensor([0.5, 0.4, 0.6]), torch.tensor([0.2, 0.3, 0.25])


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def noise(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def pictures():
    """Eight pictures with many, few and single values in a channel."""
    images = shapes10(train=20, test=10).train_images[:8].clone()
    images[0] = noise(3, 32, 32)
    images[1] = 77
    images[2, 0] = 5
    images[3] = images[3] // 64 * 40 + 30
    return images


def numbered(count, height=6, width=5):
    """Float pictures in which every pixel has its own value, the same in no two pictures."""
    return torch.arange(count * 3 * height * width).float().reshape(count, 3, height, width)


def one_hot(count, classes=10):
    return F.one_hot(torch.arange(count) % classes, classes).float()


def every_operation(images, strength):
    """The fourteen operations, each done to all pictures: (14, B, C, H, W)."""
    done = [
        operation(images.repeat(hands, 1, 1, 1), torch.full((hands * len(images),), strength))
        for operation, hands in OPERATIONS
    ]
    return torch.cat(done).unflatten(0, (14, len(images)))


def largest_difference(a, b):
    return int((a.int() - b.int()).abs().max())


# -- RandAugment's operations

NAMES = ["identity", "shear x", "shear y", "translate x", "translate y", "rotate", "brightness", "colour"]
NAMES += ["contrast", "sharpness", "posterize", "solarize", "autocontrast", "equalize"]

COLOUR_OPERATIONS = {
    "identity": lambda image, s: image,
    "brightness": lambda image, s: TF.adjust_brightness(image, 1 + 0.9 * s),
    "colour": lambda image, s: TF.adjust_saturation(image, 1 + 0.9 * s),
    "contrast": lambda image, s: TF.adjust_contrast(image, 1 + 0.9 * s),
    "sharpness": lambda image, s: TF.adjust_sharpness(image, 1 + 0.9 * s),
    "posterize": lambda image, s: TF.posterize(image, 8 - round(4 * abs(s))),
    "solarize": lambda image, s: TF.solarize(image, 255 * (30 - round(30 * abs(s))) / 30),
    "autocontrast": lambda image, s: TF.autocontrast(image),
    "equalize": lambda image, s: TF.equalize(image),
}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", COLOUR_OPERATIONS)
def test_a_colour_operation_is_within_one_grey_level_of_torchvisions_on_pillow_pictures(name, sign):
    images = pictures()
    for magnitude in MAGNITUDES:
        strength = sign * magnitude / 30
        operation = COLOUR_OPERATIONS[name]
        expected = [TF.pil_to_tensor(operation(TF.to_pil_image(image), strength)) for image in images]
        got = every_operation(images, strength)[NAMES.index(name)]
        assert largest_difference(got, torch.stack(expected)) <= 1, magnitude


@pytest.mark.parametrize("name", ["translate x", "translate y", "rotate"])
def test_a_move_is_torchvisions_with_the_opposite_sign(name):
    images = noise(6, 3, 32, 32)
    for magnitude in MAGNITUDES:
        for strength in (magnitude / 30, -magnitude / 30):
            pixels = int(150 / 331 * 32 * -strength)
            expected = {
                "translate x": lambda: TF.affine(images, 0.0, [pixels, 0], 1.0, [0.0, 0.0]),  # noqa: B023
                "translate y": lambda: TF.affine(images, 0.0, [0, pixels], 1.0, [0.0, 0.0]),  # noqa: B023
                "rotate": lambda: TF.rotate(images, -30 * strength),  # noqa: B023
            }[name]()
            # where a place lies halfway between two pixels, rounding decides
            assert (every_operation(images, strength)[NAMES.index(name)] != expected).float().mean() < 1e-3


@pytest.mark.parametrize("name", ["shear x", "shear y"])
@pytest.mark.parametrize("strength", [0.3, -0.3, 1.0])
def test_shear_moves_every_row_or_column_in_proportion_to_its_distance_from_the_centre(name, strength):
    image = noise(1, 3, 32, 24)
    lines = image if name == "shear x" else image.transpose(2, 3)
    expected = torch.zeros_like(lines)
    middle = (lines.shape[2] - 1) / 2
    for line in range(lines.shape[2]):
        centre = (lines.shape[3] - 1) / 2
        for place in range(lines.shape[3]):
            source = round(place - centre + 0.3 * strength * (line - middle) + centre)
            if 0 <= source < lines.shape[3]:
                expected[:, :, line, place] = lines[:, :, line, source]
    expected = expected if name == "shear x" else expected.transpose(2, 3)
    assert torch.equal(every_operation(image, strength)[NAMES.index(name)], expected)


def test_operations_work_on_grey_pictures_that_are_not_square():
    images = noise(28, 1, 20, 12)
    assert every_operation(images, 0.3).shape == (14, 28, 1, 20, 12)


def test_every_picture_gets_the_strength_that_belongs_to_it():
    images, strengths = noise(8, 3, 16, 16), torch.tensor([0.3, -0.3, 1.0, 0.1] * 2)
    for operation, hands in OPERATIONS:
        together = operation(images.repeat(hands, 1, 1, 1), strengths.repeat(hands))
        alone = [
            operation(image.expand(hands, -1, -1, -1), strength.expand(hands))
            for image, strength in zip(images, strengths, strict=True)
        ]
        assert largest_difference(together.unflatten(0, (hands, 8)), torch.stack(alone, dim=1)) <= 1


def test_affine_that_reads_every_pixel_from_its_own_place_is_the_identity():
    images, one, none = noise(3, 2, 7, 5), torch.ones(3), torch.zeros(3)
    assert torch.equal(affine(images, (one, none, none), (none, one, none)), images)


# -- RandAugment's dealing


def operations_dealt(batch):
    """Which of the fourteen operations each picture of a batch gets, found by trying them; -1 where it is none."""
    # Autocontrast would leave the full range as it is, and equalize a picture of few pixels.
    images = noise(batch, 3, 24, 24) // 4 * 3 + 30
    candidates = torch.cat([every_operation(images, 0.3), every_operation(images, -0.3)])
    result = rand_augment(images, num_ops=1, magnitude=9.0)
    matches = (candidates == result).flatten(2).all(dim=2)
    found = matches.int().argmax(dim=0) % 14
    return torch.where(matches.any(dim=0), found, -1)


@pytest.mark.parametrize("batch", [1, 5, 13, 15, 33, 14 * 6])
def test_rand_augment_gives_each_picture_one_operation_keeps_their_order_and_deals_all_equally(batch):
    found = operations_dealt(batch)
    assert (found >= 0).all()
    assert found.bincount(minlength=14).max() <= math.ceil(batch / 14)  # of 84 pictures six get each


def test_rand_augment_can_give_every_operation_to_a_picture_that_is_alone():
    assert {int(operations_dealt(1)) for _ in range(250)} == set(range(14))


def test_rand_augment_applies_operations_in_a_row():
    images = noise(140, 3, 16, 16)
    alone = [rand_augment(images, n).ne(images).flatten(1).any(1).float().mean() for n in (1, 4)]
    assert alone[0] < 0.95 < alone[1]


def test_rand_augment_without_operations_returns_the_pictures():
    images = noise(5, 3, 8, 8)
    assert torch.equal(rand_augment(images, 0), images)


# -- MixUp and CutMix

BOXES = torch.tensor([[1, 2, 4, 5], [-3, -2, 2, 1], [4, 3, 99, 99], [2, 2, 2, 4], [-9, -9, 99, 99]])


def test_cutmix_equals_a_loop_and_counts_what_is_really_pasted():
    images, targets, permutation = numbered(5), one_hot(5), torch.tensor([1, 2, 3, 4, 0])
    pasted, labels = cutmix(images, targets, BOXES, permutation)
    assert torch.equal(cutmix(images.bfloat16(), targets, BOXES, permutation)[0], pasted.bfloat16())
    for i, (top, left, bottom, right) in enumerate(BOXES.tolist()):
        expected, count = images[i].clone(), 0
        for y in range(6):
            for x in range(5):
                if top <= y < bottom and left <= x < right:
                    expected[:, y, x] = images[permutation[i], :, y, x]
                    count += 1
        share = 1 - count / 30
        assert torch.equal(pasted[i], expected)
        torch.testing.assert_close(labels[i], share * targets[i] + (1 - share) * targets[permutation[i]])


@pytest.mark.parametrize(("mixed", "how"), [(mixup, torch.ones(2)), (cutmix, BOXES[:2])])
def test_whole_numbers_are_not_mixed(mixed, how):
    with pytest.raises(ValueError, match="uint8.*floating"):
        mixed(noise(2, 3, 4, 4), one_hot(2), how, torch.tensor([1, 0]))


@pytest.mark.parametrize("alphas", [(0.8, 0.0), (0.0, 1.0), (0.8, 1.0)])
def test_targets_follow_the_same_partner_as_the_pixels(alphas):
    values = torch.arange(40.0)  # each picture is of one value, its number
    images = values[:, None, None, None].expand(-1, 3, 8, 8).contiguous()
    mixed, labels = mix(images, torch.eye(40), AugmentConfig(mixup=alphas[0], cutmix=alphas[1]))
    torch.testing.assert_close(mixed.mean(dim=(1, 2, 3)), labels @ values)


@pytest.mark.parametrize(("alphas", "expected"), [((0.8, 0.0), 1.0), ((0.0, 1.0), 0.0), ((0.8, 1.0), 0.5)])
def test_half_of_the_pictures_get_each_where_both_are_on(alphas, expected):
    count = 600
    images = torch.rand(count, 1, 8, 8)
    mixed, _ = mix(images, torch.eye(count), AugmentConfig(mixup=alphas[0], cutmix=alphas[1]))
    # A blended picture has no pixel that is in any picture of the batch; after CutMix all pixels are.
    blended = ~torch.isin(mixed, images).flatten(1).all(dim=1)
    assert blended.float().mean() == pytest.approx(expected, abs=0.1)


def test_only_a_share_of_the_pictures_is_mixed_and_the_others_stay_bit_by_bit():
    images, targets = torch.rand(1000, 1, 8, 8), torch.eye(1000)
    mixed, labels = mix(images, targets, AugmentConfig(mixup=0.8, cutmix=1.0, mix_share=0.3))
    same = (mixed == images).flatten(1).all(dim=1)
    assert 0.65 < same.float().mean() < 0.8  # a pasted box may be empty
    assert torch.equal(labels[same], targets[same])
    none, _ = mix(images, targets, AugmentConfig(cutmix=1.0, mix_share=0.0))
    assert torch.equal(none, images)


def test_a_share_of_one_draws_no_random_number_more():
    images, states = torch.rand(20, 1, 8, 8), []
    for config in (AugmentConfig(mixup=0.8), AugmentConfig(mixup=0.8, mix_share=1.0)):
        torch.manual_seed(0)
        states.append((mix(images, torch.eye(20), config)[0], torch.rand(3)))
    assert all(map(torch.equal, *states))


def test_mixup_shares_have_the_mean_and_spread_of_the_beta_distribution():
    count, alpha = 4000, 0.8
    _, labels = mix(torch.zeros(count, 1, 2, 2), torch.eye(count), AugmentConfig(mixup=alpha))
    kept = labels.diagonal()
    assert kept.mean() == pytest.approx(0.5, abs=0.03)
    assert kept.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), abs=0.01)


# -- erasing


def erased_area(images):
    return (images == 0).all(dim=1).float().mean(dim=(1, 2))


def test_random_erasing_hits_the_share_asked_for():
    hit = erased_area(random_erasing(torch.ones(4000, 3, 16, 16), 0.25)) > 0
    assert 0.22 < hit.float().mean() < 0.28


def test_random_erasing_takes_at_most_a_third_of_the_area():
    area = erased_area(random_erasing(torch.ones(4000, 3, 32, 32), 1.0))
    assert 0 < area.min() and area.max() < 0.36  # whole pixels are a little more than 0.33


def test_random_erasing_erases_one_rectangle_through_all_channels_and_leaves_the_other_pixels():
    images = torch.rand(200, 3, 16, 16) + 1
    gone = (erased := random_erasing(images, 1.0)) == 0
    assert (gone | (erased == images)).all()
    rows, columns = gone[:, 0].any(dim=2), gone[:, 0].any(dim=1)
    assert torch.equal(gone, (rows[:, None, :, None] & columns[:, None, None, :]).expand_as(gone))


def test_random_boxes_are_of_the_area_and_within_the_aspect_asked_for():
    area = torch.full((2000,), 0.2)
    top, left, bottom, right = random_boxes(area, (400, 400), (0.3, 3.3)).unbind(1)
    height, width = (bottom - top).float(), (right - left).float()
    assert (height * width / 400**2 - 0.2).abs().max() < 0.01
    assert (height / width).min() > 0.29 and (height / width).max() < 3.4


# -- the whole

FULL = replace(MIXED, crop_padding=2)
STEPS = {
    "random_crop_flip": lambda images: random_crop_flip(images, 2),
    "rand_augment": lambda images: rand_augment(images),
    "random_erasing": lambda images: random_erasing(images.float(), 1.0),
    "mix": lambda images: mix(images.float(), one_hot(len(images)), MIXED)[0],
    "augment": lambda images: augment(images, torch.arange(len(images)) % 10, STATS, 10, FULL)[0],
}


def test_mixing_leaves_targets_unchanged():
    targets = one_hot(6)
    before = targets.clone()
    mix(torch.randn(6, 3, 8, 8), targets, MIXED)
    assert torch.equal(targets, before)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_gives_the_same_for_the_same_seed_alone_and_leaves_its_input_unchanged(step):
    images = pictures().float() if step in ("random_erasing", "mix") else pictures()
    before, results = images.clone(), []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        results.append(STEPS[step](images))
    assert torch.equal(images, before)
    assert torch.equal(*results[:2]) and not torch.equal(*results[1:])


def test_labels_stay_with_their_pictures_through_rand_augment():
    labels = torch.arange(10).repeat(14)
    images = (labels.to(torch.uint8) * 3 + 40)[:, None, None, None].expand(-1, 3, 16, 16).contiguous()
    config = AugmentConfig(flip=0.5, rand_augment_ops=1, rand_augment_magnitude=0.0)
    x, targets = augment(images, labels, (torch.zeros(3), torch.ones(3)), 10, config)
    # At magnitude 0 no operation changes the middle of a picture of one value.
    middle = (x[:, 0, 8, 8] * 255).round()
    assert torch.equal(middle, targets.argmax(1) * 3.0 + 40)


@pytest.mark.parametrize("config", [AugmentConfig(), FULL, AugmentConfig(cutmix=1), AugmentConfig(mixup=0.2)])
def test_targets_sum_to_one(config):
    _, targets = augment(noise(20, 3, 8, 8), torch.arange(20) % 10, STATS, 10, config)
    torch.testing.assert_close(targets.sum(1), torch.ones(20))


def test_an_empty_config_only_normalises():
    images, labels = noise(6, 3, 8, 8), torch.arange(6)
    x, targets = augment(images, labels, STATS, 10, AugmentConfig())
    assert torch.equal(x, normalize(images, *STATS))
    assert torch.equal(targets, F.one_hot(labels, 10).float())


@pytest.mark.parametrize("batch", [1, 2, 13, 30])
def test_the_full_recipe_works_for_any_batch_size(batch):
    x, targets = augment(noise(batch, 3, 12, 20), torch.zeros(batch, dtype=torch.long), STATS, 10, FULL)
    assert x.shape == (batch, 3, 12, 20) and x.dtype == torch.float32 and targets.shape == (batch, 10)


def test_no_step_up_to_erasing_asks_the_device_for_a_value():
    """On the meta device there are no values: whoever asks for one fails."""
    images = torch.empty(20, 3, 32, 32, dtype=torch.uint8, device="meta")
    images = random_erasing(normalize(rand_augment(random_crop_flip(images)), *STATS))
    assert images.shape == (20, 3, 32, 32)
