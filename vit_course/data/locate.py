"""Where data are: the one place that decides it, for `load_dataset` and for the doctor.

It looks at names alone and needs no package, so that the doctor can ask where torch is broken.
"""

import os
from pathlib import Path
from typing import NamedTuple

from vit_course.training.paths import ROOT

ARCHIVE, UNPACKED = "cifar-10-python.tar.gz", "cifar-10-batches-py"
JPEG_COPY = "cifar10-jpeg"  # a folder of this name with the ten classes holds CIFAR-10, re-encoded with loss
PICTURES = (".jpg", ".jpeg", ".png")
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


class Place(NamedTuple):
    """Where data are.

    Args:
        kind: "shapes10", "archive" or "unpacked" (official CIFAR-10), "pictures" (train/<class>/*), or "" for none.
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
    folder = resolve_root(root if name in ("auto", "cifar10", "shapes10") else name)
    if name == "shapes10":
        return Place("shapes10", folder, name)
    if folder.name in (ARCHIVE, UNPACKED):
        folder = folder.parent
    for kind, file in (("archive", ARCHIVE), ("unpacked", UNPACKED)):
        if (folder / file).exists():
            return Place(kind, folder, name)
    for candidate in (folder, folder / JPEG_COPY, *folders_in(folder)):
        if folders_in(candidate / "train") and (name != "cifar10" or is_jpeg_copy(candidate)):
            return Place("pictures", candidate, name)
    return Place("", folder, name)
