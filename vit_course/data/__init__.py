"""Data sets as uint8 tensors in memory: CIFAR-10, a folder of pictures, or generated Shapes-10.

A name is imported when it is first asked for: to find or to fetch data needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for editors, and for whoever reads from the text which files a lesson depends on
    from vit_course.data.cifar10 import download_cifar10, load_official
    from vit_course.data.dataset import Dataset, normalize
    from vit_course.data.folders import load_folder, load_picture
    from vit_course.data.load import load_dataset
    from vit_course.data.shapes import shapes10

__all__ = ["Dataset", "download_cifar10", "load_dataset", "load_folder", "load_official", "load_picture"]
__all__ += ["normalize", "shapes10"]


_FILES = ("cifar10", "dataset", "shapes", "folders", "load")


def __getattr__(name: str) -> object:
    """Import a public name from the first file that has it, the files without torch first."""
    if name in __all__:
        files = (import_module(f"{__name__}.{file}") for file in _FILES)
        return next(getattr(file, name) for file in files if hasattr(file, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
