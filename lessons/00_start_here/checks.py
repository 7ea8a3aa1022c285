"""Checks of lesson 00: tensors, einops and the data."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_classroom.checks.shared_checks import counting
from vit_classroom.checks.task import any_device, every_digit, exercise, refuses, results
from vit_classroom.plots import image_grid
from vit_course.data import normalize

# -- image_grid


def sheet(pattern: str) -> Callable:
    """Return an `image_grid` with this pattern of einops."""
    return lambda images, columns: rearrange(images, pattern, k=columns)


def reshape_alone(images, columns):
    n, c, h, w = images.shape
    return images.reshape(c, n // columns * h, columns * w)


def bordered(images, columns):
    sheet = rearrange(F.pad(images, (2, 0, 2, 0)), "(r k) c h w -> c (r h) (k w)", k=columns)
    return F.pad(sheet, (0, 2, 0, 2))


INTERLEAVED = (
    "the pixels of different images are interleaved: the axis of the grid is the slow one, so it "
    "stands first, {}"
)

exercise(
    image_grid,
    results(
        lambda: [
            (counting(2, 1, 1, 2), 1),
            (counting(4, 1, 2, 2), 2),
            (counting(6, 3, 2, 4), 3),
            (torch.rand(6, 5, 4, 3).permute(0, 3, 1, 2), 2),
            (torch.randint(0, 256, (8, 3, 4, 4), dtype=torch.uint8), 4),
            (torch.rand(3, 2, 4, 5), 3),
            (torch.rand(1, 2, 2, 3), 1),
            (torch.rand(4, 1, 3, 2), 1),
        ],
        {
            "your images run down the columns: the second one belongs to the *right* of the first. In `(r k)` the "
            "right letter is the fast one": sheet("(k r) c h w -> c (r h) (k w)"),
            "`reshape` alone scrambles the pixels: it never moves an axis; `rearrange` does": [
                reshape_alone,
                lambda x, columns: x.transpose(0, 1).reshape(x.shape[1], -1, columns * x.shape[3]),
            ],
            INTERLEAVED.format("`(r h)` and `(k w)`"): sheet("(r k) c h w -> c (h r) (w k)"),
            INTERLEAVED.format("`(r h)` and not `(h r)`"): sheet("(r k) c h w -> c (h r) (k w)"),
            INTERLEAVED.format("`(k w)` and not `(w k)`"): sheet("(r k) c h w -> c (r h) (w k)"),
            "a border stands around your images: they touch, so the sheet is (C, rows·H, columns·W)": bordered,
            "height and width are swapped inside each image": sheet("(r k) c h w -> c (r w) (k h)"),
            "rows and columns of the sheet are swapped: `columns` images stand side by side": sheet(
                "(r k) c h w -> c (k h) (r w)"
            ),
            "you made `columns` *rows*: `columns` says how many images stand side by side, k": (
                lambda images, columns: rearrange(images, "(r k) c h w -> c (r h) (k w)", r=columns)
            ),
            "a single row is a sheet too, (C, H, columns·W): join it as you join the others": lambda images, columns: (
                images if len(images) == columns > 1 else image_grid(images, columns)
            ),
            "a single picture is a sheet too, (C, H, W): its axis B goes as well": lambda images, columns: (
                images if len(images) == 1 else image_grid(images, columns)
            ),
            "`columns` is not used where the pictures would fill a square": lambda images, columns: (
                image_grid(images, root if (root := math.isqrt(len(images))) ** 2 == len(images) else columns)
            ),
        },
    ),
    every_digit(
        [
            lambda images, columns: image_grid(images.float(), columns).to(images.dtype),
            lambda images, columns: image_grid(images, columns).clamp(min=0),
        ],
        (4, 5, 2, 2),
        2,
    ),
)

# -- normalize


def unit(images):
    return images.float() / 255 if images.dtype == torch.uint8 else images


def column(values):
    return torch.as_tensor(values)[:, None, None]


def scaled(formula: Callable) -> Callable:
    """Return a `normalize` with this formula of pixels in 0..1 and of mean and std, both (C, 1, 1)."""
    return lambda images, mean, std: formula(unit(images), column(mean), column(std)).float()


def forgets_255(images, mean, std):
    return ((images.float() - column(mean)) / column(std)).float()


def always_255(images, mean, std):
    return ((images.float() / 255 - column(mean)) / column(std)).float()


def mean_times_255(images, mean, std):
    factor = 255 if images.dtype == torch.uint8 else 1
    return ((images.float() - factor * column(mean)) / column(std)).float()


def decides_by_values(images, mean, std):
    x = images.float()
    return (((x / 255 if x.max() > 1 else x) - column(mean)) / column(std)).float()


def divides_last(images, mean, std):
    normed = forgets_255(images, mean, std)
    return normed / 255 if images.dtype == torch.uint8 else normed


def divides_all_but_float32(images, mean, std):
    if images.dtype == torch.float32:
        return forgets_255(images, mean, std)
    return always_255(images, mean, std).float()


def accepts_all(images, mean, std):
    return ((unit(images) - column(mean)) / column(std)).float()


def asserts(images, mean, std):
    assert len(mean) == len(std) == images.shape[-3]
    return accepts_all(images, mean, std)


def looks_at_mean_alone(images, mean, std):
    if len(mean) != images.shape[-3]:
        raise ValueError("channels")
    return accepts_all(images, mean, std)


MEAN, STD = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.25, 0.2, 0.1])


def refuses_numbers(means: int, stds: int, *known: Callable):
    """Demand an error where mean or std has not one number a channel."""
    return refuses(
        (torch.ones(2, 3, 4, 4), [0.5] * means, [0.5] * stds),
        f"images have 3 channels, but mean has {means} and std {stds} values: broadcasting would hide a forgotten "
        "channel",
        *known,
    )


exercise(
    normalize,
    results(
        lambda: [
            (torch.tensor([[[[0.0, 0.5], [1.0, 0.25]]]]), [0.5], [0.25]),
            (torch.rand(2, 3, 4, 5), MEAN, STD),
            (torch.rand(3, 4, 4), MEAN, STD),
            (torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8), MEAN, STD),
            (torch.randint(0, 2, (2, 2, 3, 3, 3), dtype=torch.uint8), MEAN, STD),
            (torch.rand(2, 3, 4, 4, dtype=torch.float64), MEAN, STD),
            (torch.tensor([[[[0.0, 0.5], [1.0, 0.25]]]], dtype=torch.float16), [0.5], [0.25]),
            (torch.rand(2, 3, 4, 4, dtype=torch.float64), MEAN.double(), STD.double()),
        ],
        {
            "whole numbers (uint8) run from 0 to 255, but mean and std are in units of 0..1: divide such images by 255 "
            "first": forgets_255,
            "you divide by 255 always; float images are in 0..1 already, only uint8 ones are not": always_255,
            "you look at the values to decide whether to divide by 255, and a dark uint8 picture may have no value "
            "above 1: look at `images.dtype`": decides_by_values,
            "you divide uint8 images by 255 at the end: mean and std are in units of 0..1, so that comes first": (
                divides_last
            ),
            "for uint8 images you multiply the mean by 255, but not std, so your result is 255 times too large: bring "
            "the images to 0..1 instead": mean_times_255,
            "255 is the largest number that uint8 holds, not 256: divide by 255": lambda images, mean, std: (
                normalize(images.float() / 256 if images.dtype == torch.uint8 else images, mean, std)
            ),
            "mean and std have changed places: `mean` comes first": lambda images, std, mean: normalize(
                images, mean, std
            ),
            "you add the mean; it should be subtracted": scaled(lambda x, mean, std: (x + mean) / std),
            "the order: subtract the mean first, then divide the difference by std": scaled(
                lambda x, mean, std: x / std - mean
            ),
            "brackets are missing: the difference as a whole is divided by std": scaled(
                lambda x, mean, std: x - mean / std
            ),
            "you divide by the square of std": scaled(lambda x, mean, std: (x - mean) / std**2),
            "you take the root of std, which is a deviation already": scaled(
                lambda x, m, std: (x - m) / std.sqrt()
            ),
            "you multiply by std; it should divide": scaled(lambda x, mean, std: (x - mean) * std),
            "use the mean and std that are given: those of the training set, the same for every batch": [
                scaled(lambda x, mean, std: (x - x.mean()) / x.std()),
                scaled(lambda x, mean, std: (x - x.mean((-2, -1), True)) / x.std((-2, -1), keepdim=True)),
            ],
            "mean and std belong to the channels, axis -3; as they are, they meet the *last* axis, the width. Give "
            "them the shape (C, 1, 1)": (
                lambda images, mean, std: (unit(images) - torch.as_tensor(mean)) / torch.as_tensor(std)
            ),
            "float64 images are in 0..1 too, like all float images, and you divide them by 255: only uint8 ones run to "
            "255": divides_all_but_float32,
        },
    ),
    refuses_numbers(1, 1, accepts_all, asserts),
    refuses_numbers(1, 3),
    refuses_numbers(3, 1, looks_at_mean_alone),
    refuses_numbers(4, 4),
    refuses((torch.ones(2, 1, 4, 4), [0.5] * 3, [0.5] * 3), "images have 1 channel, mean and std 3 values"),
    any_device(
        (torch.ones(1, 3, 2, 2), MEAN, STD),
        "your mean, your std or a new tensor lies on the CPU, wherever the images are: `torch.as_tensor(mean, "
        "device=images.device)`",
        lambda images, mean, std: (normalize(images, mean, std), accepts_all(images, mean, std))[1],
        lambda images, mean, std: torch.zeros(images.shape).copy_(normalize(images, mean, std)),
    ),
)
