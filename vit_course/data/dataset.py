"""What a data set is: pictures and labels in memory, subsets of them, and how pixels are normalised.

`train` and every lesson from 00 on use this file. It knows no model, and not where pictures come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Pictures and labels for training and for testing, all in memory.

    Images are uint8 (N, C, H, W); labels are int64 (N,) and count in the order of `classes`; `provenance` says what
    the data are, and goes with every result; `stats`, mean and deviation of each channel in 0..1 units, are those of
    the training images unless they are given, as those of a trained model.

    Raises:
        ValueError: if images or labels have another type or shape, there are not as many of both, labels are no class
            numbers, or training and test images differ in size; the message names the half and the values.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]
    provenance: str
    stats: tuple[Tensor, Tensor] | None = None

    def __post_init__(self) -> None:
        _require_half("train", self.train_images, self.train_labels, len(self.classes))
        _require_half("test", self.test_images, self.test_labels, len(self.classes))
        train, test = (tuple(images.shape[1:]) for images in (self.train_images, self.test_images))
        if train != test:
            raise ValueError(f"train_images are {train} each, but test_images are {test} each (C, H, W)")

    def __repr__(self) -> str:
        size = "x".join(str(n) for n in self.train_images.shape[1:])
        return f"Dataset({self.provenance}; {len(self.classes)} classes, pictures of {size})"

    def channel_stats(self) -> tuple[Tensor, Tensor]:
        """Mean and deviation of each channel over the training pixels, float32 (C,), in 0..1 units; or `stats`.

        The deviation of a channel that never changes is given as 1, so that `normalize` can divide by it.
        """
        if self.stats is not None:
            return self.stats
        levels = torch.arange(256, dtype=torch.float64) / 255
        # Counting grey levels is exact, and needs no copy of the pictures as floats.
        channels = self.train_images.unbind(1)
        counts = torch.stack([torch.bincount(channel.flatten(), minlength=256) for channel in channels])
        share = counts / counts.sum(1, keepdim=True, dtype=torch.float64)
        mean = (share * levels).sum(1)
        variance = (share * (levels - mean[:, None]) ** 2).sum(1)
        return mean.float(), torch.where(variance == 0, 1, variance.sqrt()).float()

    def remainder(self, train: int, seed: int = 0) -> "Dataset":
        """Take the training pictures that `subset(train, seed=seed)` leaves; the test pictures stay."""
        generator = torch.Generator().manual_seed(seed)
        rows = torch.arange(len(self.train_labels))
        taken, _ = _choose(rows, self.train_labels, train, self.classes, generator)
        kept = torch.ones(len(rows), dtype=torch.bool).index_fill(0, taken, False)
        images, labels = self.train_images[kept], self.train_labels[kept]
        provenance = f"{self.provenance}; the {len(labels):,} train pictures outside a subset of {train:,}, seed {seed}"
        return replace(self, train_images=images, train_labels=labels, provenance=provenance)

    def hold_out(self, count: int) -> "Dataset":
        """Put `count` training pictures in the place of the test pictures, to choose settings by."""
        kept, held_out = self.remainder(count, 0), self.subset(count)
        counts = f"{len(kept.train_labels):,} train / {len(held_out.train_labels):,} held-out train pictures"
        provenance = f"{self.provenance}; {counts}, seed 0"
        held = {"test_images": held_out.train_images, "test_labels": held_out.train_labels}
        return replace(kept, **held, provenance=provenance)

    def subset(self, train: int | None, test: int | None = None, seed: int = 0) -> "Dataset":
        """Take fewer pictures, as many of every class (within one); `None` keeps that half whole.

        The same seed gives the same pictures, and with the same seed a smaller subset lies inside a larger one. A
        request for all of them, or more, gives the data set itself. Where classes differ in size, a smaller request
        ends at the size of the smallest class. A line says when there are fewer than were asked for.

        Raises:
            ValueError: if a count is negative, or a class has no picture to give.
        """
        generator = torch.Generator().manual_seed(seed)
        train_part = _choose(self.train_images, self.train_labels, train, self.classes, generator)
        test_part = _choose(self.test_images, self.test_labels, test, self.classes, generator)
        if (len(train_part[1]), len(test_part[1])) == (len(self.train_labels), len(self.test_labels)):
            return self
        counts = describe_counts(len(train_part[1]), len(test_part[1]))
        provenance = f"{self.provenance}; subset of {counts}, seed {seed}"
        return Dataset(*train_part, *test_part, self.classes, provenance, self.stats)


WANTED = {
    "images": (torch.uint8, 4, "(N, C, H, W), with values from 0 to 255"),
    "labels": (torch.int64, 1, "(N,), one class number for each image"),
}
"""Type, number of axes and shape in words of what a half of a data set holds."""
LARGEST = 4 * 2**30
"""Bytes of memory that the pictures of a data set may take."""


def as_size(image_size: int | Sequence[int]) -> tuple[int, int]:
    """Return a size in pixels as (height, width).

    Raises:
        ValueError: if it is not one whole number at least 1, or two of them.
    """
    sides = (image_size, image_size) if isinstance(image_size, int) else image_size
    pair = isinstance(sides, (tuple, list)) and len(sides) == 2
    if not pair or any(isinstance(side, bool) or not isinstance(side, int) or side < 1 for side in sides):
        wanted = "its sides should be whole numbers at least 1, one or two"
        raise ValueError(f"image_size is {image_size!r}: {wanted}")
    return sides[0], sides[1]


def require_room(count: int, size: tuple[int, int], advice: str) -> None:
    """Refuse more pictures of (height, width), with three channels, than `LARGEST` bytes hold; advice says what to do.

    Raises:
        ValueError: with how much memory they need.
    """
    if (needed := 3 * count * size[0] * size[1]) > LARGEST:
        pictures = f"{count:,} pictures of {size[0]}x{size[1]}"
        raise ValueError(f"{pictures} need {needed / 1e9:.1f} GB of memory: {advice}")


def describe_counts(train: int, test: int) -> str:
    """Say how many pictures there are, as every provenance does: "8,000 train / 2,000 test pictures"."""
    return f"{train:,} train / {test:,} test pictures"


@cache
def say_once(message: str) -> None:
    """Print a line, unless it was printed before."""
    print(message)


def _require_half(half: str, images: Tensor, labels: Tensor, num_classes: int) -> None:
    """Raise a `ValueError` that says what keeps images and labels from being one half of a data set."""
    for name, values in (("images", images), ("labels", labels)):
        if not isinstance(values, Tensor):
            raise ValueError(f"{half}_{name} is a {type(values).__name__}: it should be a tensor")
        dtype, ndim, shape = WANTED[name]
        if (values.dtype, values.ndim) != (dtype, ndim):
            found = f"{values.dtype} of shape {tuple(values.shape)}"
            raise ValueError(f"{half}_{name} are {found}: they should be {dtype} of shape {shape}")
    if len(images) != len(labels):
        raise ValueError(f"there are {len(images):,} {half}_images, but {len(labels):,} {half}_labels")
    if len(labels) and not 0 <= labels.min() <= labels.max() < num_classes:
        wanted = f"the numbers of {num_classes} classes go from 0 to {num_classes - 1}"
        raise ValueError(f"{half}_labels go from {labels.min()} to {labels.max()}: {wanted}")


def _shares(count: int, parts: int) -> list[int]:
    """Share a number out, equally within one."""
    return [count // parts + (part < count % parts) for part in range(parts)]


def _choose(
    images: Tensor, labels: Tensor, count: int | None, classes: tuple[str, ...], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Choose `count` pictures, every class alike; whatever the count, the random order is the same: subsets nest."""
    order = torch.rand(len(labels), generator=generator).argsort(stable=True)
    if count is None:
        return images, labels
    if count < 0:
        raise ValueError(f"a subset of {count:,} images cannot be taken: ask for 0 or more")
    if count >= len(labels):
        if count > len(labels):
            say_once(f"{count:,} images were asked for: all {len(labels):,} are used.")
        return images, labels
    members = [order[labels[order] == label] for label in range(len(classes))]
    smallest, name = min((len(rows), name) for rows, name in zip(members, classes, strict=True))
    if any(share > len(rows) for share, rows in zip(_shares(count, len(classes)), members, strict=True)):
        if not smallest:
            raise ValueError(f"{count:,} images cannot be shared out among the classes: {name!r} has none")
        asked, count = count, len(classes) * smallest
        used = f"{count:,} are used, {smallest:,} of every class"
        say_once(f"{asked:,} images were asked for: {used}, because {name!r} has no more.")
    chosen = [rows[:share] for share, rows in zip(_shares(count, len(classes)), members, strict=True)]
    rows = torch.cat(chosen).sort().values
    return images[rows], labels[rows]


def normalize(images: Tensor, mean: Sequence[float] | Tensor, std: Sequence[float] | Tensor) -> Tensor:
    """Shift and scale every channel: (value - mean) / std, with values in 0..1.

    Args:
        images: (..., C, H, W), uint8 in 0..255 (which this divides by 255) or float that is in 0..1 already.
        mean: C numbers in 0..1 units, one a channel.
        std: C numbers in 0..1 units, one a channel.

    Returns:
        float32, of the shape of `images`, on the same device.

    Raises:
        ValueError: if `mean` or `std` has another number of values than the images have channels.
    """
    mean = torch.as_tensor(mean, dtype=torch.float32, device=images.device)  # given
    std = torch.as_tensor(std, dtype=torch.float32, device=images.device)  # given
    channels = images.shape[-3]  # given
    if mean.numel() != channels or std.numel() != channels:  # given
        raise ValueError(
            f"images have {channels} channels, but mean has {mean.numel()} and std {std.numel()} values"
        )
    values = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return (values - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)
