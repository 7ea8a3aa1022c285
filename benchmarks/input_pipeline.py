"""How many augmented images a second does the course's pipeline make, next to a DataLoader with torchvision?

python benchmarks/input_pipeline.py --device cpu --batch-size 128 --rounds 5
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import torch
from PIL import Image
from rounds import describe_machine, print_table, rates, use_cores
from torch import Tensor
from torch.utils import data
from torchvision import transforms as v1
from torchvision.transforms import v2

from vit_course.augment import AugmentConfig, augment
from vit_course.data import Dataset, shapes10
from vit_course.machinery.device import get_device
from vit_course.recipes import FLIP_CROP, MIXED

RECIPES = {"light (crop, flip)": FLIP_CROP, "mixed (all steps)": MIXED}


def our_batches(
    stored: tuple[Tensor, Tensor], stats: tuple[Tensor, Tensor], config: AugmentConfig, size: int, ahead: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """One epoch as `vit_course.train` makes it: shuffled, `ahead` batches augmented at once where the pictures are."""
    images, labels = stored
    for index in torch.randperm(len(images), device=images.device).split(size * ahead):
        x, y = augment(images[index], labels[index], stats, 10, config)
        yield from zip(x.split(size), y.split(size), strict=True)


class Pictures(data.Dataset):
    """Pictures in memory, handed out one by one through a transform, as torchvision's CIFAR10 does."""

    def __init__(self, dataset: Dataset, transform: Callable):
        self.arrays = dataset.train_images.permute(0, 2, 3, 1).contiguous().numpy()
        self.labels = dataset.train_labels.tolist()
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.arrays[index])), self.labels[index]


class MixingCollate:
    """Make a batch, then MixUp or CutMix it: one of the two for the whole batch, as torchvision does."""

    def __init__(self, config: AugmentConfig):
        mixes = [v2.MixUp(alpha=config.mixup, num_classes=10), v2.CutMix(alpha=config.cutmix, num_classes=10)]
        self.mix = v2.RandomChoice(mixes)

    def __call__(self, samples: list) -> tuple[Tensor, Tensor]:
        return self.mix(*data.default_collate(samples))


def torchvision_transform(library, config: AugmentConfig, dataset: Dataset) -> Callable:
    """Build the steps of a recipe from `torchvision.transforms` or its newer version v2, on Pillow pictures."""
    mean, std = (values.tolist() for values in dataset.channel_stats())
    steps = [library.RandomCrop(32, config.crop_padding), library.RandomHorizontalFlip(config.flip)]
    if config.rand_augment_ops:
        steps.append(library.RandAugment(config.rand_augment_ops, int(config.rand_augment_magnitude)))
    as_floats = [v1.ToTensor()] if library is v1 else [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    steps += [*as_floats, library.Normalize(mean, std)]
    if config.erasing:
        steps.append(library.RandomErasing(config.erasing))
    return library.Compose(steps)


def data_loader(library, config: AugmentConfig, dataset: Dataset, options: argparse.Namespace):
    return data.DataLoader(
        Pictures(dataset, torchvision_transform(library, config, dataset)),
        batch_size=options.batch_size,
        shuffle=True,
        num_workers=torch.get_num_threads(),
        persistent_workers=True,
        collate_fn=MixingCollate(config) if config.mixup else None,
        pin_memory=options.device.type == "cuda",
    )


def one_epoch(loader: data.DataLoader, device: torch.device) -> int:
    count = 0
    for images, targets in loader:
        images, targets = images.to(device, non_blocking=True), targets.to(device, non_blocking=True)
        count += len(images)
    return count


def our_epochs(batches: Callable[[], Iterator], epochs: int) -> int:
    return sum(len(images) for _ in range(epochs) for images, _ in batches())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=torch.device, default=get_device())
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--ahead", type=int, default=4, help="batches that ours augments at once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=5120, help="pictures in memory; an epoch is one round")
    parser.add_argument("--epochs", type=int, default=4, help="epochs of ours in a round, which are short")
    parser.add_argument(
        "--cores", type=int, help="threads of torch and workers of a DataLoader, default: all cores"
    )
    options = parser.parse_args()
    cores = use_cores(options.cores)

    print(describe_machine(options.device, cores) + f"; DataLoader with {cores} workers")
    dataset = shapes10(train=options.images, test=10)
    stored = dataset.train_images.to(options.device), dataset.train_labels.to(options.device)
    stats = tuple(values.to(options.device) for values in dataset.channel_stats())
    for title, config in RECIPES.items():
        batches = partial(our_batches, stored, stats, config, options.batch_size, options.ahead)
        rivals = {"ours": partial(our_epochs, batches, options.epochs)}
        for name, library in {"v1": v1, "v2": v2}.items():
            loader = data_loader(library, config, dataset, options)
            rivals[f"DataLoader, torchvision {name}"] = partial(one_epoch, loader, options.device)
        print_table(
            f"Input pipeline, {title}, {options.rounds} rounds, batches of {options.batch_size}, "
            f"of which ours makes {options.ahead} at once",
            rates(rivals, options.rounds, options.device),
        )


if __name__ == "__main__":
    main()
