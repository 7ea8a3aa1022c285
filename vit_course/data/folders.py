"""Folders of pictures, one folder a class: decoded once, by all processor cores, and kept in one file.

`load` uses it for whatever is no official archive.
"""

import hashlib
import os
import shutil
import tempfile
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from vit_course.data.dataset import Dataset, as_size, describe_counts, require_room
from vit_course.data.locate import PICTURES, folders_in, holds_classes, is_jpeg_copy, is_picture, near_miss
from vit_course.training.console import progress_bar
from vit_course.training.locks import locked

GREY = ("1", "L", "LA")  # Pillow's modes without colour
DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")  # more than 8 bits: Pillow would clip them to white
DECODED_AT_ONCE = 256  # pictures a thread takes in one go
LISTED = 20  # pictures that a message names at most
SMALLER = "load_dataset(..., image_size=64) or --image-size 64 decodes them at a size that models can use"
DIFFERENT = "pictures differ in size (height x width): {pair}. load_dataset(..., image_size={side}) or "
DIFFERENT += "--image-size {side} brings all to one size"
NOT_READ = "Not read in {folder}: {listed}. Pictures are {kinds} files in their class's folder itself."
MISSING = "{half}/<class>/ is missing: {nearly}put images of every class there{split}"
ALONE = ", or use {half} alone as the folder, of which a part is then held out"
HELD_OUT = "{folder} has no train/ and test/: {share:,} images of every class are held out for the test."


def passed_over(folder: Path, halves: list[Path]) -> str:
    """Say how many files and folders in the classes of a folder are not read, and why; "" if all are."""
    counts: Counter = Counter()
    for half in halves:
        counts["pictures outside a class"] += sum(p.is_file() and is_picture(p.name) for p in half.iterdir())
        for path in [path for one in folders_in(half) for path in one.iterdir() if path.name[0] != "."]:
            if path.is_dir():
                counts["folders inside a class"] += 1
            elif not is_picture(path.name):
                counts[f"{path.suffix.lower() or 'nameless'} files"] += 1
    listed = ", ".join(f"{count} {what}" for what, count in sorted((+counts).items()))
    return NOT_READ.format(folder=folder.name, listed=listed, kinds=", ".join(PICTURES)) if listed else ""


def _list_pictures(folder: Path, classes: list[str]) -> tuple[list[Path], Tensor]:
    """List the pictures of a half, class by class and sorted, with their labels."""
    names = [sorted(filter(is_picture, os.listdir(folder / name))) for name in classes]
    paths = [folder / classes[label] / name for label, found in enumerate(names) for name in found]
    return paths, torch.tensor([label for label, found in enumerate(names) for _ in found])


class Picture(NamedTuple):
    """One decoded picture: uint8 (H, W, 3), and whether it was grey, and transparent anywhere."""

    pixels: np.ndarray
    grey: bool
    transparent: bool


def _read_picture(path: Path, image_size: tuple[int, int] | None) -> Picture:
    """Decode one picture, upright as the camera was held; what is transparent is laid on white."""
    try:
        if not path.is_file():  # to open a pipe would wait for ever
            raise ValueError("it is no file" if path.exists() else "it is a link to nothing")
        with Image.open(path) as picture:
            tiles = getattr(picture, "tile", ()) if picture.format in ("PNG", "TIFF") else ()
            if picture.mode in DEEP or any(";16" in str(tile[3]) for tile in tiles):
                raise ValueError(f"more than 8 bits a channel (mode {picture.mode}); save it with 8")
            grey = picture.mode in GREY
            if image_size:
                # A jpg can be decoded at a half, a quarter or an eighth, which a phone's 12 million pixels need. Its
                # sides may lie the other way round, and twice the size is left for the filter to work on.
                picture.draft(None, (2 * max(image_size),) * 2)
            picture = ImageOps.exif_transpose(picture)
            transparent = False
            if picture.has_transparency_data:
                picture = picture.convert("RGBA")
                if transparent := picture.getextrema()[3][0] < 255:
                    picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
            picture = picture.convert("RGB")
            if image_size:
                picture = ImageOps.fit(picture, image_size[::-1])
            return Picture(np.asarray(picture), grey, transparent)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"cannot read the picture {path}: {error}") from error


def load_picture(path: str | Path, image_size: int | tuple[int, int]) -> Tensor:
    """Read one picture of any size, upright, cut around its centre and resized: uint8 (3, H, W).

    What is transparent is laid on white.

    Raises:
        ValueError: if it cannot be read, or `image_size` is no size.
    """
    picture = _read_picture(Path(path), as_size(image_size))
    return torch.from_numpy(picture.pixels.transpose(2, 0, 1).copy())


def _decode(paths: list[Path], image_size: tuple[int, int] | None) -> tuple[Tensor, int]:
    """Decode pictures of one size in parallel threads: uint8 (N, 3, H, W), or (N, 1, H, W) if all are grey.

    Also count those that were transparent somewhere.

    Raises:
        ValueError: with all that is wrong.
    """
    if image_size:
        require_room(len(paths), image_size, SMALLER)  # before the first of them is made as large

    def attempt(path: Path) -> Picture | str:
        try:
            return _read_picture(path, image_size)
        except ValueError as error:
            return str(error)

    def attempt_some(start: int) -> list[Picture | str]:
        return [attempt(path) for path in paths[start : start + DECODED_AT_ONCE]]

    whole = ((path, found) for path in paths if not isinstance(found := attempt(path), str))
    first_path, first = next(whole, (None, None))
    if first is None:
        raise ValueError(_all_of([attempt(path) for path in paths]))
    height, width, _ = first.pixels.shape
    require_room(len(paths), (height, width), SMALLER)
    images = np.empty((len(paths), 3, height, width), dtype=np.uint8)
    faults, sizes, looks = [], {}, []
    starts = range(0, len(paths), DECODED_AT_ONCE)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = progress_bar(pool.map(attempt_some, starts), "Decoding pictures", len(starts), delay=2)
        for i, found in enumerate(chain.from_iterable(done)):
            if isinstance(found, str):
                faults.append(found)
            elif found.pixels.shape != first.pixels.shape:
                sizes[paths[i]] = "{}x{}".format(*found.pixels.shape)
            else:
                images[i] = found.pixels.transpose(2, 0, 1)
                looks.append((found.grey, found.transparent))
    if sizes:
        more = f"; {len(sizes):,} files differ from the first" if len(sizes) > 1 else ""
        other, size = next(iter(sizes.items()))
        pair = f"{first_path} has {height}x{width}, {other} has {size}{more}"
        faults.append(DIFFERENT.format(pair=pair, side=min(height, width)))
    if faults:
        raise ValueError(_all_of(faults))
    all_grey = all(grey for grey, _ in looks)
    return torch.from_numpy(images[:, :1].copy() if all_grey else images), sum(clear for _, clear in looks)


def _all_of(faults: list[str]) -> str:
    """Put what is wrong into one message, a line each; the first says how many there are."""
    if len(faults) == 1:
        return faults[0]
    lines = [f"{len(faults):,} things are wrong with the images:", *sorted(faults)[:LISTED]]
    return "\n  ".join(lines + [f"and {len(faults) - LISTED:,} more"] * (len(faults) > LISTED))


def _cached(folder: Path, paths: list[Path], image_size: tuple[int, int] | None) -> tuple[Tensor, int]:
    """Decode pictures, or read what an earlier call decoded, from one file in the folder's `.cache/`.

    Also count those that were transparent somewhere.

    The key is a hash over every picture's name, size and time of change: that notices new, removed and edited
    pictures in a second, where a hash over their bytes would read as much as decoding does.
    """
    stats = {path: path.stat() if path.exists() else path.lstat() for path in paths}
    files = (f"{p.relative_to(folder).as_posix()} {s.st_size} {s.st_mtime_ns}" for p, s in stats.items())
    key = hashlib.sha256("\n".join([f"v3 {image_size}", *files]).encode(errors="surrogateescape")).hexdigest()
    size = "x".join(map(str, image_size)) if image_size else "unchanged"
    path = folder / ".cache" / f"pictures-{size}.safetensors"
    try:
        with safe_open(path, "pt") as file:
            images, known = file.get_tensor("images"), file.metadata()
            if (known["key"], known["crc32"]) == (key, str(zlib.crc32(images.numpy()))):
                return images, int(known["transparent"])
    except (LookupError, OSError, SafetensorError):
        pass  # no cache yet, or a damaged one: it is made again
    images, transparent = _decode(paths, image_size)
    metadata = {"key": key, "crc32": str(zlib.crc32(images.numpy())), "transparent": str(transparent)}
    _write_cache(path, images, metadata)
    return images, transparent


def _write_cache(path: Path, images: Tensor, metadata: dict[str, str]) -> None:
    """Write the cache under another name, then rename it: no one sees half a file. A full or read-only disk is fine."""
    lock = path.parent / ".lock"
    try:
        path.parent.mkdir(exist_ok=True)
        with locked(lock, timeout=60), tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            for killed in set(path.parent.glob("tmp*")) - {Path(scratch)}:
                shutil.rmtree(killed, ignore_errors=True)
            save_file({"images": images}, Path(scratch, path.name), metadata)
            Path(scratch, path.name).chmod(0o644)  # a class may share one folder
            os.replace(Path(scratch, path.name), path)
    except (OSError, SafetensorError):
        pass
    with suppress(OSError):
        lock.unlink()


def load_folder(folder: str | Path, image_size: int | tuple[int, int] | None = None) -> Dataset:
    """Read pictures from train/<class>/ and test/<class>/; labels count the class names in sorted order.

    Args:
        folder: the folder that holds train/ and test/, or the classes themselves: then a fifth of the smallest class,
            and as many of every other, become the test pictures, and a line says so. Files of other kinds, and folders
            inside a class, are not read; a line says how many.
        image_size: side in pixels, or (height, width): pictures are cut to that shape around the centre, then resized.
            Without it all pictures must have one size.

    Returns:
        RGB data, or grey-scale (one channel) if every picture is grey. What is transparent is laid on white; a line
        and the provenance say so.

    Raises:
        FileNotFoundError: if train/ or test/ is missing.
        ValueError: if their classes differ or there is one alone, a class is empty, a picture cannot be read, sizes
            differ, they need too much memory, or `image_size` is no size. All such files are named at once.
    """
    folder, size = Path(folder), None if image_size is None else as_size(image_size)
    halves = [folder / "train", folder / "test"]
    if not any(map(folders_in, halves)) and holds_classes(folder):
        halves = [folder]
    classes = _common_classes(folder, halves)
    if skipped := passed_over(folder, halves):
        print(skipped)
    listed = [_list_pictures(half, classes) for half in halves]
    images, transparent = _cached(folder, [path for paths, _ in listed for path in paths], size)
    labels = [labels for _, labels in listed] + [torch.empty(0, dtype=torch.int64)] * (len(halves) == 1)
    train_images, test_images = images.tensor_split([len(labels[0])])
    source = "CIFAR-10 (JPEG copy)" if is_jpeg_copy(folder) else f"folder {folder.resolve().name}"
    resized = f", resized to {size[0]}x{size[1]}" if size else ""
    resized += f", {transparent:,} with transparent parts laid on white" if transparent else ""
    if transparent:
        print(f"{transparent:,} images in {folder.name} have transparent parts, which are laid on white.")
    provenance = f"{source}, {describe_counts(*map(len, labels))}{resized}"
    dataset = Dataset(train_images, labels[0], test_images, labels[1], tuple(classes), provenance)
    return dataset if len(halves) == 2 else _split(dataset, folder)


def _common_classes(folder: Path, halves: list[Path]) -> list[str]:
    """Return the classes that both halves have; raise what is wrong with them."""
    found = {half: [p.name for p in folders_in(half)] for half in halves}
    if missing := [half for half in halves if not found[half]]:
        nearly = f"{miss}, or " if (miss := near_miss(folder)) else ""
        split = "".join([ALONE.format(half=half) for half in halves if holds_classes(half)][:1])
        raise FileNotFoundError(MISSING.format(half=missing[0], nearly=nearly, split=split))
    faults = []
    for here, there in zip(halves, halves[::-1], strict=True):
        apart = sorted({*found[here]} - {*found[there]})
        faults += [f"class {name!r} is in {here} but not in {there}" for name in apart]
        empty = [name for name in found[here] if not any(map(is_picture, os.listdir(here / name)))]
        faults += [f"{here / name} holds no pictures ({', '.join(PICTURES)})" for name in empty]
    if faults:
        raise ValueError(_all_of(faults))
    classes = found[halves[0]]
    if len(classes) == 1:
        raise ValueError(f"{folder} has one class alone, {classes[0]!r}: there is nothing to tell apart")
    return classes


def _split(dataset: Dataset, folder: Path) -> Dataset:
    """Hold out test pictures where nobody did: a fifth of the smallest class, and as many of every other."""
    smallest = int(dataset.train_labels.bincount().min())
    if smallest < 2:
        raise ValueError(f"a class in {folder} has only one image, so none can be held out for the test")
    share = max(1, smallest // 5)
    print(HELD_OUT.format(folder=folder.name, share=share))
    return dataset.hold_out(share * len(dataset.classes))
