"""Data sets as uint8 tensors in memory: CIFAR-10, a folder of pictures, or generated Shapes-10.

`load_dataset` finds one and never downloads; `python -m vit_course data` downloads CIFAR-10. `train` and every lesson
from 00 on use this file. It knows no model.
"""

import hashlib
import os
import pickle
import tarfile
import tempfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torchvision.datasets import CIFAR10
from tqdm.auto import tqdm

from vit_course.data.cifar10 import ARCHIVE_SIZE, download_cifar10, resolve_root, verify_archive
from vit_course.data.shapes import SHAPES, draw_shapes

__all__ = [
    "Dataset",
    "download_cifar10",
    "load_dataset",
    "load_folder",
    "load_official",
    "normalize",
    "shapes10",
]

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
JPEG_COPY = "cifar10-jpeg"  # a folder of this name with the ten classes holds CIFAR-10, re-encoded with loss
PICTURES = (".jpg", ".jpeg", ".png")
GREY = ("1", "L", "LA")  # Pillow's modes without colour
DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")  # more than 8 bits: Pillow would clip them to white
DECODED_AT_ONCE = 256  # pictures a thread takes in one go


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
        counts = _counts(len(train_part[1]), len(test_part[1]))
        return Dataset(
            *train_part, *test_part, self.classes, f"{self.provenance}; subset of {counts}, seed {seed}"
        )


def _counts(train: int, test: int) -> str:
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
    mean = torch.as_tensor(mean, dtype=torch.float32, device=images.device)
    std = torch.as_tensor(std, dtype=torch.float32, device=images.device)
    channels = images.shape[-3]
    if mean.numel() != channels or std.numel() != channels:
        raise ValueError(
            f"images have {channels} channels, but mean has {mean.numel()} and std {std.numel()} values"
        )
    values = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return (values - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)


def shapes10(
    train: int = 8000, test: int = 2000, seed: int = 0, image_size: int | tuple[int, int] = 32
) -> Dataset:
    """Generate Shapes-10: ten classes of coloured, textured, slightly turned shapes at random places.

    Takes about two seconds at the default sizes. Training and test pictures come from two separate streams of random
    numbers, and every class has as many pictures as any other (within one).

    Args:
        train: number of training pictures.
        test: number of test pictures.
        seed: which pictures; the same seed gives the same bytes on every machine.
        image_size: side in pixels, or (height, width); at least 8.
    """
    train_part = draw_shapes(train, 2 * seed, image_size)
    test_part = draw_shapes(test, 2 * seed + 1, image_size)
    provenance = f"Shapes-10 (generated, seed {seed}), {_counts(train, test)}"
    return Dataset(*train_part, *test_part, tuple(SHAPES), provenance)


def load_official(folder: str | Path, *, size: int = ARCHIVE_SIZE, spec: type[CIFAR10] = CIFAR10) -> Dataset:
    """Read CIFAR-10 from the official archive in `folder`, or else from its unpacked `cifar-10-batches-py`.

    A pickle can run any program, so the archive (size in bytes and md5) and each file in it (md5) are verified first.

    Args:
        folder: where the archive or the unpacked folder lies.
        size: expected bytes of the archive.
        spec: torchvision's class, which holds the names and md5 sums.

    Raises:
        ValueError: if anything is not the official data, byte for byte.
    """
    md5s = dict([*spec.train_list, *spec.test_list, (spec.meta["filename"], spec.meta["md5"])])
    files = _read_official(Path(folder), md5s, size, spec)
    for name, md5 in md5s.items():
        found = hashlib.md5(files[name], usedforsecurity=False).hexdigest() if name in files else "missing"
        if found != md5:
            raise ValueError(
                f"{name} of {Path(folder, spec.base_folder)} is not the official file (md5 {found}, expected {md5}): "
                f"delete that folder and get CIFAR-10 again: python -m vit_course data"
            )
    contents = {name: pickle.loads(files[name], encoding="latin1") for name in md5s}
    halves = []
    for names in (spec.train_list, spec.test_list):
        pixels = np.concatenate([contents[name]["data"] for name, _ in names]).reshape(-1, 3, 32, 32)
        labels = [label for name, _ in names for label in contents[name]["labels"]]
        halves += [torch.from_numpy(pixels), torch.tensor(labels)]
    classes = tuple(contents[spec.meta["filename"]][spec.meta["key"]])
    counts = _counts(len(halves[1]), len(halves[3]))
    return Dataset(*halves, classes, f"CIFAR-10 (official archive), {counts}")


def _read_official(folder: Path, names: dict[str, str], size: int, spec: type[CIFAR10]) -> dict[str, bytes]:
    archive, unpacked = folder / spec.filename, folder / spec.base_folder
    if not archive.exists():
        return {name: (unpacked / name).read_bytes() for name in names if (unpacked / name).exists()}
    try:
        verify_archive(archive, size, spec.tgz_md5)
    except ValueError as error:
        raise ValueError(f"{error}: get it again with python -m vit_course data") from error
    with tarfile.open(
        archive
    ) as tar:  # one pass in the archive's own order: going back would unpack it again
        members = (member for member in tar if Path(member.name).name in names)
        return {Path(member.name).name: tar.extractfile(member).read() for member in members}


def _folders(path: Path) -> list[Path]:
    return sorted(p for p in path.glob("*") if p.is_dir() and not p.name.startswith("."))


def _list_pictures(folder: Path, classes: list[str]) -> tuple[list[Path], Tensor]:
    """List the pictures of train/ or test/, class by class and sorted, with their labels."""
    paths, labels = [], []
    for label, name in enumerate(classes):
        names = sorted(n for n in os.listdir(folder / name) if n.lower().endswith(PICTURES) and n[0] != ".")
        if not names:
            raise ValueError(f"{folder / name} holds no pictures ({', '.join(PICTURES)})")
        paths += [folder / name / n for n in names]
        labels += [label] * len(names)
    return paths, torch.tensor(labels)


def _read_picture(path: Path, image_size: tuple[int, int] | None) -> tuple[np.ndarray, bool]:
    """Decode one picture to uint8 (H, W, 3), upright as the camera was held; also tell whether it is grey."""
    try:
        with Image.open(path) as picture:
            if picture.mode in DEEP:
                raise ValueError(f"more than 8 bits a channel (mode {picture.mode}); save it with 8")
            grey = picture.mode in GREY
            picture = ImageOps.exif_transpose(picture).convert("RGB")
            if image_size:
                picture = ImageOps.fit(picture, image_size[::-1])
            return np.asarray(picture), grey
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"cannot read the picture {path}: {error}") from error


def _decode(paths: list[Path], image_size: tuple[int, int] | None) -> Tensor:
    """Decode pictures of one size in parallel threads: uint8 (N, 3, H, W), or (N, 1, H, W) if all are grey."""
    first, _ = _read_picture(paths[0], image_size)
    images = np.empty((len(paths), 3, *first.shape[:2]), dtype=np.uint8)

    def decode(start: int) -> bool:
        all_grey = True
        for i, path in enumerate(paths[start : start + DECODED_AT_ONCE], start):
            pixels, grey = _read_picture(path, image_size)
            if pixels.shape != first.shape:
                (h1, w1, _), (h2, w2, _) = first.shape, pixels.shape
                raise ValueError(
                    f"pictures differ in size (height x width): {paths[0]} has {h1}x{w1}, {path} has {h2}x{w2}. "
                    f"load_dataset(..., image_size={min(h1, w1)}) brings all to one size"
                )
            images[i] = pixels.transpose(2, 0, 1)
            all_grey &= grey
        return all_grey

    starts = range(0, len(paths), DECODED_AT_ONCE)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = tqdm(pool.map(decode, starts), "Decoding pictures", len(starts), delay=2, leave=False)
        all_grey = all(list(done))
    return torch.from_numpy(images[:, :1].copy() if all_grey else images)


def _cached(folder: Path, paths: list[Path], image_size: tuple[int, int] | None) -> Tensor:
    """Decode pictures, or read what an earlier call decoded, from one file in the folder's `.cache/`.

    The key is a hash over every picture's name, size and time of change: that notices new, removed and edited
    pictures in a second, where a hash over their bytes would read as much as decoding does.
    """
    files = (
        f"{p.relative_to(folder).as_posix()} {s.st_size} {s.st_mtime_ns}" for p in paths for s in [p.stat()]
    )
    key = hashlib.sha256("\n".join([f"v1 {image_size}", *files]).encode(errors="surrogateescape")).hexdigest()
    size = "x".join(map(str, image_size)) if image_size else "unchanged"
    path = folder / ".cache" / f"pictures-{size}.safetensors"
    try:
        with safe_open(path, "pt") as file:
            images = file.get_tensor("images")
            if file.metadata() == {"key": key, "crc32": str(zlib.crc32(images.numpy()))}:
                return images
    except (OSError, SafetensorError):
        pass  # no cache yet, or a damaged one: it is made again
    images = _decode(paths, image_size)
    _write_cache(path, images, {"key": key, "crc32": str(zlib.crc32(images.numpy()))})
    return images


def _write_cache(path: Path, images: Tensor, metadata: dict[str, str]) -> None:
    """Write the cache under another name, then rename it: no one sees half a file. A full or read-only disk is fine."""
    try:
        path.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            save_file({"images": images}, Path(scratch, path.name), metadata)
            Path(scratch, path.name).chmod(0o644)  # a class may share one folder
            os.replace(Path(scratch, path.name), path)
    except (OSError, SafetensorError):
        pass


def load_folder(folder: str | Path, image_size: int | tuple[int, int] | None = None) -> Dataset:
    """Read pictures (jpg, png) from train/<class>/ and test/<class>/; labels count the class names in sorted order.

    Args:
        folder: the folder that holds train/ and test/.
        image_size: side in pixels, or (height, width): pictures are cut to that shape around the centre, then resized.
            Without it all pictures must have one size.

    Returns:
        RGB data, or grey-scale (one channel) if every picture is grey.

    Raises:
        FileNotFoundError: if train/ or test/ is missing.
        ValueError: if their classes differ, a class is empty, a picture cannot be read, or sizes differ.
    """
    folder, size = Path(folder), (image_size, image_size) if isinstance(image_size, int) else image_size
    classes, test_classes = ([p.name for p in _folders(folder / half)] for half in ("train", "test"))
    if not classes or not test_classes:
        missing = folder / ("test" if classes else "train")
        raise FileNotFoundError(f"{missing}/<class>/ is missing: put pictures of every class there")
    for name in sorted(set(classes) ^ set(test_classes)):
        here, there = ("train", "test") if name in classes else ("test", "train")
        raise ValueError(f"class {name!r} is in {folder / here} but not in {folder / there}")
    train_paths, train_labels = _list_pictures(folder / "train", classes)
    test_paths, test_labels = _list_pictures(folder / "test", classes)
    images = _cached(folder, train_paths + test_paths, size)
    train_images, test_images = images.tensor_split([len(train_paths)])
    is_cifar = folder.resolve().name == JPEG_COPY and tuple(classes) == CIFAR10_CLASSES
    source = "CIFAR-10 (JPEG copy)" if is_cifar else f"folder {folder.resolve().name}"
    resized = f", resized to {size[0]}x{size[1]}" if size else ""
    provenance = f"{source}, {_counts(len(train_paths), len(test_paths))}{resized}"
    return Dataset(train_images, train_labels, test_images, test_labels, tuple(classes), provenance)


@cache
def _say_once(message: str) -> None:
    print(message)


def _find(folder: Path, image_size: int | tuple[int, int] | None) -> Dataset | None:
    """Read the official archive in `folder`, else pictures in it or in one of its folders, else return None."""
    if (folder / CIFAR10.filename).exists() or (folder / CIFAR10.base_folder).exists():
        if image_size not in (None, 32, (32, 32)):
            raise ValueError(
                f"CIFAR-10's pictures are 32x32; image_size={image_size} is for folders and Shapes-10"
            )
        return load_official(folder)
    for candidate in (folder, folder / JPEG_COPY, *_folders(folder)):
        if _folders(candidate / "train"):
            return load_folder(candidate, image_size)
    return None


def load_dataset(
    name: str | Path = "auto", root: str | Path = "data", *, image_size: int | tuple[int, int] | None = None
) -> Dataset:
    """Load a data set into memory. Nothing is ever downloaded.

    Args:
        name: "cifar10", "shapes10", the path of a folder (one with the official archive, or with train/<class>/* and
            test/<class>/*), or "auto": what the environment variable VIT_COURSE_DATA names (any of these), else
            CIFAR-10's official archive in `root`, else a folder of pictures in `root`, else Shapes-10.
        root: the data folder; one that is not in the working directory is looked for in the repository.
        image_size: side in pixels, or (height, width), to which a folder's pictures are resized or at which Shapes-10
            is drawn.

    Raises:
        FileNotFoundError: if `name` is none of these, or what it names is not there.
        ValueError: if the data are damaged or do not fit together; the message names the file.
    """
    wanted = ""
    if name == "auto" and os.environ.get("VIT_COURSE_DATA"):
        name, wanted = os.environ["VIT_COURSE_DATA"], " (named by VIT_COURSE_DATA)"
    if name == "shapes10":
        return shapes10(image_size=image_size or 32)
    folder = resolve_root(root if name in ("auto", "cifar10") else name)
    if folder.name in (CIFAR10.filename, CIFAR10.base_folder):
        folder = folder.parent
    dataset = _find(folder, image_size)
    if dataset and (name != "cifar10" or dataset.provenance.startswith("CIFAR-10")):
        return dataset
    how = "python -m vit_course data (170 MB)"
    if name == "auto":
        _say_once(f"No pictures in {root}: this is Shapes-10, generated. To get CIFAR-10: {how}")
        return shapes10(image_size=image_size or 32)
    if name == "cifar10":
        raise FileNotFoundError(f"no CIFAR-10 in {root}; to get it: {how}")
    layout = "train/<class>/*.jpg and test/<class>/*.jpg"
    raise FileNotFoundError(
        f"no data in {name}{wanted}: use auto, cifar10, shapes10 or a folder with {layout}"
    )
