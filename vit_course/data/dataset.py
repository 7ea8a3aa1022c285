"""What a data set is: pictures and labels in memory, subsets of them, and how pixels are normalised.

`train` and every lesson from 00 on use this file. It knows no model, and not where pictures come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Pictures and labels for training and for testing, all in memory.

    Images are uint8 (N, C, H, W); labels are int64 (N,) and count in the order of `classes`; `provenance` says what
    the data are, and goes with every result.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]
    provenance: str

    def __repr__(self) -> str:
        size = "x".join(str(n) for n in self.train_images.shape[1:])
        return f"Dataset({self.provenance}; {len(self.classes)} classes, pictures of {size})"

    def channel_stats(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each channel over the training pixels, float32 (C,), in 0..1 units."""
        levels = torch.arange(256, dtype=torch.float64) / 255
        # Counting grey levels is exact, and needs no copy of the pictures as floats.
        counts = torch.stack(
            [torch.bincount(c.flatten(), minlength=256) for c in self.train_images.unbind(1)]
        )
        share = counts / counts.sum(1, keepdim=True, dtype=torch.float64)
        mean = (share * levels).sum(1)
        variance = (share * (levels - mean[:, None]) ** 2).sum(1)
        return mean.float(), variance.sqrt().float()

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
        counts = f"{len(kept.train_labels):,} train / {count:,} held-out train pictures"
        provenance = f"{self.provenance}; {counts}, seed 0"
        held = {"test_images": held_out.train_images, "test_labels": held_out.train_labels}
        return replace(kept, **held, provenance=provenance)

    def subset(self, train: int | None, test: int | None = None, seed: int = 0) -> "Dataset":
        """Take fewer pictures, as many of every class (within one); `None` keeps that half whole.

        The same seed gives the same pictures, and with the same seed a smaller subset lies inside a larger one. All of
        them are the data set itself.

        Raises:
            ValueError: if a class has fewer pictures than its share.
        """
        generator = torch.Generator().manual_seed(seed)
        train_part = _choose(self.train_images, self.train_labels, train, self.classes, generator)
        test_part = _choose(self.test_images, self.test_labels, test, self.classes, generator)
        if (len(train_part[1]), len(test_part[1])) == (len(self.train_labels), len(self.test_labels)):
            return self
        counts = describe_counts(len(train_part[1]), len(test_part[1]))
        return Dataset(
            *train_part, *test_part, self.classes, f"{self.provenance}; subset of {counts}, seed {seed}"
        )


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
        raise ValueError(
            f"image_size is {image_size!r}: its sides should be whole numbers at least 1, one or two"
        )
    return sides[0], sides[1]


def require_room(count: int, size: tuple[int, int], advice: str) -> None:
    """Refuse more pictures of (height, width), with three channels, than `LARGEST` bytes hold; advice says what to do.

    Raises:
        ValueError: with how much memory they need.
    """
    needed = 3 * count * size[0] * size[1]
    if needed > LARGEST:
        raise ValueError(
            f"{count:,} pictures of {size[0]}x{size[1]} need {needed / 1e9:.1f} GB of memory: {advice}"
        )


def describe_counts(train: int, test: int) -> str:
    """Say how many pictures there are, as every provenance does: "8,000 train / 2,000 test pictures"."""
    return f"{train:,} train / {test:,} test pictures"


def _choose(
    images: Tensor, labels: Tensor, count: int | None, classes: tuple[str, ...], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Choose `count` pictures, every class alike; whatever the count, the random order is the same: subsets nest."""
    order = torch.rand(len(labels), generator=generator).argsort(stable=True)
    if count is None:
        return images, labels
    chosen = []
    for label, name in enumerate(classes):
        share = count // len(classes) + (label < count % len(classes))
        members = order[labels[order] == label]
        if not 0 <= share <= len(members):
            raise ValueError(
                f"{count:,} pictures need {share:,} of class {name!r}, which has {len(members):,}"
            )
        chosen.append(members[:share])
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
