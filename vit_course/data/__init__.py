"""Data sets as uint8 tensors in memory: CIFAR-10, a folder of pictures, or generated Shapes-10."""

from vit_course.data.load import (
    Dataset,
    download_cifar10,
    load_dataset,
    load_folder,
    load_official,
    normalize,
    shapes10,
)

__all__ = [
    "Dataset",
    "download_cifar10",
    "load_dataset",
    "load_folder",
    "load_official",
    "normalize",
    "shapes10",
]
