"""Checks of lesson 00: tensors, einops and the data."""

import torch

from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.shared_checks import counting
from vit_classroom.checks.task import any_device, every_digit, exercise, refuses, results
from vit_classroom.plots import image_grid
from vit_course.data import normalize

known = Mistakes(__file__, image_grid, normalize)
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
        known("image_grid results"),
    ),
    every_digit(known("image_grid digits")["are not those that were given"], (4, 5, 2, 2), 2),
)

# -- normalize

MEAN, STD = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.25, 0.2, 0.1])
accepted, (elsewhere,) = known("normalize refuses"), known("normalize device").items()


def refuses_numbers(means: int, stds: int):
    """Demand an error where mean or std has not one number a channel."""
    why = (
        f"images have 3 channels, but mean has {means} and std {stds} values, and broadcasting would hide a forgotten "
        "channel"
    )
    return refuses((torch.ones(2, 3, 4, 4), [0.5] * means, [0.5] * stds), why, *accepted.get(why, []))


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
        known("normalize results"),
    ),
    refuses_numbers(1, 1),
    refuses_numbers(1, 3),
    refuses_numbers(3, 1),
    refuses_numbers(4, 4),
    refuses((torch.ones(2, 1, 4, 4), [0.5] * 3, [0.5] * 3), "images have 1 channel, mean and std 3 values"),
    any_device((torch.ones(1, 3, 2, 2), MEAN, STD), elsewhere[0], *elsewhere[1]),
)
