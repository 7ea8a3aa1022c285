"""A task with fewer classes: lesson 12 and the pre-trainings of the experiments begin with it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from vit_course.data import Dataset


def select_classes(dataset: Dataset, classes: Sequence[int]) -> Dataset:
    """Keep the pictures of some classes, with labels that count from 0 in the order given.

    Args:
        dataset: pictures and labels.
        classes: indices into `dataset.classes`, none twice.

    Raises:
        ValueError: if there is no index, one is not there, or one comes twice.
    """
    classes = [int(label) for label in classes]
    count = len(dataset.classes)
    if not classes or len(set(classes)) < len(classes) or not all(0 <= label < count for label in classes):
        raise ValueError(f"classes {classes} should be different indices from 0 to {count - 1}, at least one")
    new_label = torch.full((count,), -1)
    new_label[classes] = torch.arange(len(classes))

    def kept(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        rows = (new_label[labels] >= 0).nonzero()[:, 0]
        return images[rows], new_label[labels[rows]]

    train, test = (
        kept(dataset.train_images, dataset.train_labels),
        kept(dataset.test_images, dataset.test_labels),
    )
    names = tuple(dataset.classes[label] for label in classes)
    counts = f"{len(train[1]):,} train / {len(test[1]):,} test pictures"
    return Dataset(*train, *test, names, f"{dataset.provenance}; {counts} of {', '.join(names)}")
