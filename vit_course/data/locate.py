"""Where data are: the one place that decides it, for `load_dataset` and for the doctor.

It looks at names alone and needs no package, so that the doctor can ask where torch is broken.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from vit_course.training.paths import ROOT

ARCHIVE, UNPACKED, PYTHON = "cifar-10-python.tar.gz", "cifar-10-batches-py", "cifar-10-python"
DRAWN = ("shapes10",)
"""The data sets that are drawn and not read; `load` has the function of each."""
JPEG_COPY = "cifar10-jpeg"  # a folder of this name with the ten classes holds CIFAR-10, re-encoded with loss
PICTURES = (".jpg", ".jpeg", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


class Place(NamedTuple):
    """Where data are.

    Args:
        kind: "shapes10", "archive" or "unpacked" (official CIFAR-10), "pictures" (train/<class>/*, or <class>/* in a
            folder that was named), or "" for none.
        folder: where they lie, or where they were looked for.
        name: what was asked for; in place of "auto" what VIT_COURSE_DATA names.
    """

    kind: str
    folder: Path
    name: str | Path


def resolve_root(root: str | Path) -> Path:
    """Find a data folder: as named, else inside the repository, which is how notebooks/ sees the course's `data`."""
    path = Path(root).expanduser()
    return ROOT / path if not path.exists() and (ROOT / path).exists() else path


def folders_in(path: Path) -> list[Path]:
    """List the folders in a folder, sorted, without hidden ones; none where there is no such folder."""
    found = (p for p in path.glob("*") if p.is_dir() and not p.name.startswith("."))
    return sorted(found, key=lambda p: p.name)  # Windows compares paths without case


def is_jpeg_copy(folder: Path) -> bool:
    """Tell whether a folder of pictures is CIFAR-10."""
    classes = tuple(p.name for p in folders_in(folder / "train"))
    return folder.resolve().name == JPEG_COPY and classes == CIFAR10_CLASSES


def locate(name: str | Path = "auto", root: str | Path = "data") -> Place:
    """Find the data that `load_dataset(name, root)` loads; nothing is read."""
    if name == "auto":
        name = os.environ.get("VIT_COURSE_DATA") or name
    folder = resolve_root(root if name in ("auto", "cifar10", *DRAWN) else name)
    if name in DRAWN:
        return Place(str(name), folder, name)
    if folder.name in (ARCHIVE, UNPACKED):
        folder = folder.parent
    for kind, file in (("archive", ARCHIVE), ("unpacked", UNPACKED)):
        if (folder / file).exists() and not (folder / file / file).exists():
            return Place(kind, folder, name)
    for candidate in (folder, folder / JPEG_COPY, *folders_in(folder)):
        if folders_in(candidate / "train") and (name != "cifar10" or is_jpeg_copy(candidate)):
            return Place("pictures", candidate, name)
    if name not in ("auto", "cifar10") and holds_classes(folder):
        return Place("pictures", folder, name)
    return Place("", folder, name)


def is_picture(name: str) -> bool:
    """Tell by its name whether a file is a picture that counts."""
    return name.lower().endswith(PICTURES) and name[0] != "."


def holds_classes(folder: Path) -> bool:
    """Tell whether a folder holds folders of pictures, at least two: classes that nobody split into train and test."""
    return sum(any(is_picture(p.name) for p in one.iterdir()) for one in folders_in(folder)) > 1


HALVES = {"train": "train", "training": "train", "test": "test", "testing": "test"}
HALVES |= dict.fromkeys(("val", "valid", "validation"), "test")


def near_miss(folder: Path) -> str:
    """Name what is nearly CIFAR-10 or a folder of pictures in a folder, and what to do with it; "" if nothing is."""
    folder = folder.parent if folder.is_file() else folder
    batches = folder / UNPACKED
    for path in sorted(p for pattern in ("*", "*/*", "*/*/*") for p in folder.glob(pattern)):
        name, half = path.name.lower(), HALVES.get(path.name.lower(), path.name)
        is_cifar = "cifar" in name and path.name.removeprefix(ARCHIVE) not in (".part", ".anew", ".lock")
        is_file, official = is_cifar and path.is_file(), path.name in (ARCHIVE, UNPACKED)
        other = is_cifar and re.search("binary|-bin|matlab|-mat", name)
        applies = {
            f"{path} should be named {half}": path.is_dir() and path.name != half and folders_in(path),
            f"{path.parent} should be {batches}": name == "data_batch_1" and path.parent.name != UNPACKED,
            f"{path} is CIFAR-100, which is another data set": is_cifar and "100" in name,
            f"{path} is another edition of CIFAR-10: the course reads {ARCHIVE}": other,
            f"{path} should be {folder / path.name}": official and path.parent != folder,
            f"{path} has lost its outer packing: unpack it, so that {batches} is there": is_file
            and name.endswith(".tar"),
            f"{path} should be named {ARCHIVE}, if its download came to its end": is_file
            and name.startswith(PYTHON),
        }
        if found := [words for words, is_so in applies.items() if is_so]:
            return found[0]
    return ""
