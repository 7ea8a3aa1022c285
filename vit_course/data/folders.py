"""Folders of pictures, one folder a class: decoded once, by all processor cores, and kept in one file.

`load` uses it for whatever is no official archive.
"""

import hashlib
import os
import tempfile
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from vit_course.data.dataset import Dataset, as_size, describe_counts, require_room
from vit_course.data.locate import PICTURES, folders_in, is_jpeg_copy
from vit_course.training.console import progress_bar

GREY = ("1", "L", "LA")  # Pillow's modes without colour
DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")  # more than 8 bits: Pillow would clip them to white
DECODED_AT_ONCE = 256  # pictures a thread takes in one go


def passed_over(folder: Path) -> str:
    """Say how many files and folders in the classes of a folder are not read, and why; "" if all are."""
    counts: Counter = Counter()
    for half in ("train", "test"):
        for path in (folder / half).iterdir():
            if path.is_file() and path.name[0] != "." and path.name.lower().endswith(PICTURES):
                counts["pictures outside a class"] += 1
        for one in folders_in(folder / half):
            for path in one.iterdir():
                if path.is_dir() and path.name[0] != ".":
                    counts["folders inside a class"] += 1
                elif path.name[0] != "." and not path.name.lower().endswith(PICTURES):
                    counts[f"{path.suffix.lower() or 'nameless'} files"] += 1
    if not counts:
        return ""
    listed = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    kinds = ", ".join(PICTURES)
    return f"Not read in {folder.name}: {listed}. Pictures are {kinds} files in their class's folder itself."


def _list_pictures(folder: Path, classes: list[str]) -> tuple[list[Path], Tensor]:
    """List the pictures of train/ or test/, class by class and sorted, with their labels."""
    paths, labels = [], []
    for label, name in enumerate(classes):
        names = sorted(n for n in os.listdir(folder / name) if n.lower().endswith(PICTURES) and n[0] != ".")
        if not names:
            raise ValueError(f"{folder / name} holds no pictures ({', '.join(PICTURES)})")
        found = [folder / name / n for n in names]
        for path in found:
            if not path.is_file():  # to open a pipe would wait for ever
                what = "a link to nothing" if not path.exists() else "no file"
                raise ValueError(f"cannot read the picture {path}: it is {what}")
        paths += found
        labels += [label] * len(names)
    return paths, torch.tensor(labels)


def _read_picture(path: Path, image_size: tuple[int, int] | None) -> tuple[np.ndarray, bool]:
    """Decode one picture to uint8 (H, W, 3), upright as the camera was held; also tell whether it is grey."""
    try:
        with Image.open(path) as picture:
            depths = [str(tile[3]) for tile in getattr(picture, "tile", ()) if picture.format == "PNG"]
            if picture.mode in DEEP or any(";16" in depth for depth in depths):
                raise ValueError(f"more than 8 bits a channel (mode {picture.mode}); save it with 8")
            grey = picture.mode in GREY
            if image_size:
                # A jpg can be decoded at a half, a quarter or an eighth, which a phone's 12 million pixels need. Its
                # sides may lie the other way round, and twice the size is left for the filter to work on.
                picture.draft(None, (2 * max(image_size),) * 2)
            picture = ImageOps.exif_transpose(picture).convert("RGB")
            if image_size:
                picture = ImageOps.fit(picture, image_size[::-1])
            return np.asarray(picture), grey
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"cannot read the picture {path}: {error}") from error


def load_picture(path: str | Path, image_size: int | tuple[int, int]) -> Tensor:
    """Read one picture (jpg, png) of any size, upright, cut around its centre and resized: uint8 (3, H, W).

    Raises:
        ValueError: if it cannot be read, or `image_size` is no size.
    """
    pixels, _ = _read_picture(Path(path), as_size(image_size))
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def _decode(paths: list[Path], image_size: tuple[int, int] | None) -> Tensor:
    """Decode pictures of one size in parallel threads: uint8 (N, 3, H, W), or (N, 1, H, W) if all are grey."""
    advice = "load_dataset(..., image_size=64) decodes them at a size that models here can use"
    if image_size:
        require_room(len(paths), image_size, advice)  # before the first of them is made as large
    first, _ = _read_picture(paths[0], image_size)
    require_room(len(paths), first.shape[:2], advice)
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
        done = progress_bar(pool.map(decode, starts), "Decoding pictures", len(starts), delay=2)
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
    key = hashlib.sha256("\n".join([f"v2 {image_size}", *files]).encode(errors="surrogateescape")).hexdigest()
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
        folder: the folder that holds train/ and test/. Files of other kinds, and folders inside a class, are not read;
            a line says how many.
        image_size: side in pixels, or (height, width): pictures are cut to that shape around the centre, then resized.
            Without it all pictures must have one size.

    Returns:
        RGB data, or grey-scale (one channel) if every picture is grey.

    Raises:
        FileNotFoundError: if train/ or test/ is missing.
        ValueError: if their classes differ or there is one alone, a class is empty, a picture cannot be read, sizes
            differ, they need too much memory, or `image_size` is no size.
    """
    folder, size = Path(folder), None if image_size is None else as_size(image_size)
    classes, test_classes = ([p.name for p in folders_in(folder / half)] for half in ("train", "test"))
    if not classes or not test_classes:
        missing = folder / ("test" if classes else "train")
        raise FileNotFoundError(f"{missing}/<class>/ is missing: put pictures of every class there")
    for name in sorted(set(classes) ^ set(test_classes)):
        here, there = ("train", "test") if name in classes else ("test", "train")
        raise ValueError(f"class {name!r} is in {folder / here} but not in {folder / there}")
    if len(classes) == 1:
        raise ValueError(f"{folder} has one class alone, {classes[0]!r}: there is nothing to tell apart")
    if skipped := passed_over(folder):
        print(skipped)
    train_paths, train_labels = _list_pictures(folder / "train", classes)
    test_paths, test_labels = _list_pictures(folder / "test", classes)
    images = _cached(folder, train_paths + test_paths, size)
    train_images, test_images = images.tensor_split([len(train_paths)])
    source = "CIFAR-10 (JPEG copy)" if is_jpeg_copy(folder) else f"folder {folder.resolve().name}"
    resized = f", resized to {size[0]}x{size[1]}" if size else ""
    provenance = f"{source}, {describe_counts(len(train_paths), len(test_paths))}{resized}"
    return Dataset(train_images, train_labels, test_images, test_labels, tuple(classes), provenance)
