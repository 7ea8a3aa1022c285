"""`load_dataset`: the data set that is there, as uint8 tensors in memory. It never downloads.

`locate` finds it; `cifar10`, `folders` and `shapes` read, decode or draw it. `train` and every lesson use this file.
"""

from pathlib import Path

from vit_course.data.cifar10 import load_official
from vit_course.data.dataset import Dataset, as_size, say_once
from vit_course.data.folders import load_folder
from vit_course.data.locate import locate, near_miss
from vit_course.data.shapes import shapes10

DRAW = {"shapes10": shapes10}
"""What draws the data sets of `locate.DRAWN`."""


def load_dataset(
    name: str | Path = "auto",
    root: str | Path = "data",
    *,
    image_size: int | tuple[int, int] | None = None,
    multiple_of: int = 1,
) -> Dataset:
    """Load a data set into memory. Nothing is ever downloaded.

    Args:
        name: "cifar10", "shapes10", the path of a folder (one with the official archive, with train/<class>/* and
            test/<class>/*, or with <class>/*, of which a part is held out as test images), or "auto": what the
            environment variable VIT_COURSE_DATA names (any of these), else
            CIFAR-10's official archive in `root`, else a folder of pictures in `root`, else Shapes-10.
        root: the data folder; one that is not in the working directory is looked for in the repository.
        image_size: side in pixels, or (height, width), to which a folder's pictures are resized or at which Shapes-10
            is drawn.
        multiple_of: without `image_size`, a folder's pictures are resized to the nearest sides that this divides, so
            that patches fill them; a line says so. CIFAR-10 and Shapes-10 have 32, which 1, 2, 4, 8, 16 divide.

    Raises:
        FileNotFoundError: if `name` is none of these, or what it names is not there.
        ValueError: if the data are damaged or do not fit together, with the file's name, or if `image_size` is no size.
    """
    place = locate(name, root)
    if place.kind == "pictures":
        dataset = load_folder(place.folder, image_size)
        size = tuple(dataset.train_images.shape[-2:])
        fitting = tuple(max(1, round(side / multiple_of)) * multiple_of for side in size)
        if image_size is not None or size == fitting:
            return dataset
        wanted, there = ("x".join(map(str, sides)) for sides in (fitting, size))
        say_once(f"Images of {there} are resized to {wanted}, sides that {multiple_of} divides.")
        return load_folder(place.folder, fitting)
    if place.kind in ("archive", "unpacked"):
        if image_size is not None and as_size(image_size) != (32, 32):
            asked = f"image_size={image_size} (--image-size on the command line)"
            raise ValueError(f"CIFAR-10's pictures are 32x32; {asked} is for folders and Shapes-10")
        return load_official(place.folder)
    if place.kind in DRAW:
        return DRAW[place.kind](image_size=32 if image_size is None else image_size)
    how = "python -m vit_course data (170 MB)"
    nearly = f" ({miss})" if (miss := near_miss(place.folder)) else ""
    if place.name == "cifar10":
        raise FileNotFoundError(f"no CIFAR-10 in {root}{nearly}; to get it: {how}")
    if place.name != "auto":
        named = "" if place.name == name else " (named by VIT_COURSE_DATA)"
        known = "auto, cifar10, shapes10 or a folder with train/<class>/*.jpg and test/<class>/*.jpg"
        raise FileNotFoundError(f"no data in {place.name}{named}{nearly}: use {known}")
    say_once(f"No pictures in {root}{nearly}: this is Shapes-10, generated. To get CIFAR-10: {how}")
    return DRAW["shapes10"](image_size=32 if image_size is None else image_size)
