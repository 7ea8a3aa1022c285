"""What lesson 00 shows before anything is built: trained models at work, and drawings whose shape is in the middle."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from vit_classroom.drawings import draw_in_the_middle
from vit_course.data import Dataset, normalize
from vit_course.data.shapes import SHAPES
from vit_course.extensions.trained import load_trained


@dataclass(frozen=True)
class Answers:
    """What a trained model says about B images.

    `probabilities` (B, K) has one number for each of the K `classes`; `looks` (B, rows, columns) says how much the
    CLS token of the last layer takes from each patch; `test_accuracy` is the model's share of right answers on new
    images, from its record.
    """

    probabilities: Tensor
    looks: Tensor
    classes: tuple[str, ...]
    test_accuracy: float

    @property
    def best(self) -> Tensor:
        """The number of the most probable class of each image, (B,) int64."""
        return self.probabilities.argmax(dim=1)


trained = lru_cache(load_trained)


@torch.no_grad()
def ask(name: str, images: Tensor) -> Answers:
    """Ask a trained model that comes with the course.

    Args:
        name: "shapes-vit" knows ten shapes, "cifar-vit" the ten classes of CIFAR-10.
        images: uint8 (B, 3, 32, 32).
    """
    model, record = trained(name)
    scores, attentions = model(normalize(images, record["mean"], record["std"]), return_attention=True)
    looks = attentions[-1].mean(dim=1)[:, 0, 1:].unflatten(1, model.patch_embed.grid_size)
    return Answers(scores.softmax(dim=1), looks, tuple(record["classes"]), record["test_accuracy"])


def shapes_in_the_middle(train: int = 2000, test: int = 200) -> Dataset:
    """Draw the ten shapes, 16 pixels high and in the middle of a plain image, lighter than it; colours are random."""
    images, labels = zip(draw_in_the_middle(train, seed=1), draw_in_the_middle(test, seed=2), strict=True)
    counts = f"{train:,} train / {test:,} test images"
    return Dataset(
        images[0], labels[0], images[1], labels[1], tuple(SHAPES), f"shapes in the middle, {counts}"
    )
