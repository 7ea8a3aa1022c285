"""Plain drawings of the ten shapes, for lessons that ask what a model does when a shape moves."""

import torch
from torch import Tensor

from vit_course.data.shapes import SHAPES

SIDE = 32
"""Height and width of the drawings in pixels."""


def draw_in_the_middle(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw the ten shapes in turn, each 16 pixels high in the middle of a plain image; colours are random.

    Returns:
        images: (count, 3, 32, 32), uint8.
        labels: (count,), int64.
    """
    random, labels = torch.Generator().manual_seed(seed), torch.arange(count) % len(SHAPES)
    steps = (
        torch.arange(1 - SIDE, SIDE, 2) / 16
    )  # from -1.94 to 1.94: a shape of radius 1 fills half of the side
    down, across = torch.meshgrid(-steps, steps, indexing="ij")
    covers = torch.stack([(0.5 - 8 * distance(across, down)).clamp(0, 1) for distance in SHAPES.values()])
    ground, lighter = torch.rand(2, count, 3, 1, 1, generator=random)
    lighter = 0.35 + 0.4 * lighter
    noise = 0.1 * torch.rand(count, 3, SIDE, SIDE, generator=random) - 0.05
    drawings = ground * (1 - lighter) + lighter * covers[labels][:, None] + noise
    return (255 * drawings.clamp(0, 1)).round().to(torch.uint8), labels
