"""Data sets: subsets, normalisation, folders of pictures and their cache, the official archive, what `auto` finds."""

import ast
import hashlib
import io
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torchvision.datasets import CIFAR10

from vit_course import data
from vit_course.data import (
    Dataset,
    load,
    load_dataset,
    load_folder,
    load_official,
    load_picture,
    normalize,
    shapes10,
)
from vit_course.data.locate import ARCHIVE, CIFAR10_CLASSES, DRAWN, UNPACKED, locate
from vit_course.training.paths import ROOT


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    """Each test starts as on a fresh machine: no VIT_COURSE_DATA, no notice given yet."""
    monkeypatch.delenv("VIT_COURSE_DATA", raising=False)
    data.dataset.say_once.cache_clear()


def dataset_of(train_images, train_labels, num_classes=2):
    """A Dataset whose test half is its first two training pictures."""
    labels = torch.as_tensor(train_labels)
    names = tuple("abcdefghij"[:num_classes])
    return Dataset(train_images, labels, train_images[:2], labels[:2], names, "toy")


def save(path, pixels, mode="RGB", **options):
    """Save an array, or a plain picture of one grey level and size (height, width), as a picture file."""
    level, (height, width) = pixels if isinstance(pixels, tuple) else (None, (0, 0))
    array = np.full((height, width, 3), level, np.uint8) if level is not None else pixels
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).convert(mode).save(path, **options)


@pytest.fixture
def pets(tmp_path):
    """A folder `pets` of own pictures: classes cat and dog, 3 training and 1 test picture each, 6 high and 8 wide."""
    folder = tmp_path / "pets"
    for label, name in enumerate(["cat", "dog"]):
        for i in range(3):
            save(folder / "train" / name / f"{i}.png", (50 * label + i, (6, 8)))
        save(folder / "test" / name / "0.png", (50 * label + 9, (6, 8)))
    return folder


# --- Dataset


def test_channel_stats_are_the_mean_and_deviation_of_all_training_pixels_in_0_to_1_units():
    dataset = shapes10(train=50, test=10, image_size=(16, 24))
    pixels = dataset.train_images.double() / 255
    mean, std = dataset.channel_stats()
    torch.testing.assert_close(mean, pixels.mean((0, 2, 3)).float())
    torch.testing.assert_close(std, pixels.std((0, 2, 3), correction=0).float())
    assert mean.shape == std.shape == (3,) and mean.dtype == std.dtype == torch.float32


PLAIN = {
    "train_images": torch.zeros(4, 3, 5, 5, dtype=torch.uint8),
    "train_labels": torch.tensor([0, 1, 2, 1]),
    "test_images": torch.zeros(2, 3, 5, 5, dtype=torch.uint8),
    "test_labels": torch.tensor([2, 0]),
    "classes": ("a", "b", "c"),
    "provenance": "plain",
}
BAD = {
    "whole numbers": ("images", lambda x: x.long(), r"torch.int64 of shape .* torch.uint8 .* from 0 to 255"),
    "floats": ("images", lambda x: x / 255, r"torch.float32 of shape .* torch.uint8 .* from 0 to 255"),
    "signed bytes": ("images", lambda x: x.to(torch.int8), "torch.int8 of shape"),
    "no channels": ("images", lambda x: x[:, 0], r"shape \(., 5, 5\): .* of shape \(N, C, H, W\)"),
    "an array": ("images", lambda x: x.numpy(), "is a ndarray: it should be a tensor"),
    "too many images": ("images", lambda x: torch.cat([x, x]), r"there are . \w+_images, but . \w+_labels"),
    "too many labels": ("labels", lambda y: torch.cat([y, y]), r"there are . \w+_images, but . \w+_labels"),
    "labels from 1": ("labels", lambda y: y + 1, "go from 1 to 3: the numbers of 3 classes go from 0 to 2"),
    "-100": ("labels", lambda y: y.clone().index_fill(0, torch.tensor([0]), -100), "go from -100 to"),
    "a list": ("labels", lambda y: y.tolist(), "is a list: it should be a tensor"),
    "other whole numbers": ("labels", lambda y: y.int(), "torch.int32 of shape .* torch.int64"),
    "float labels": ("labels", lambda y: y.float(), "torch.float32 of shape .* torch.int64"),
    "one-hot": ("labels", lambda y: torch.eye(3).long()[y], r"\(., 3\): .* \(N,\), one class number"),
    "another size": (
        "images",
        lambda x: x[..., :4],
        r"train_images are \(3, 5, .\) each, but test_images are \(3, 5",
    ),
}


@pytest.mark.parametrize("half", ["train", "test"])
@pytest.mark.parametrize("name", BAD)
def test_a_data_set_that_does_not_fit_together_is_refused_in_one_sentence_that_names_the_half(half, name):
    part, spoil, words = BAD[name]
    field = f"{half}_{part}"
    with pytest.raises(ValueError, match=words) as refused:
        Dataset(**PLAIN | {field: spoil(PLAIN[field])})
    assert field in str(refused.value) and "\n" not in str(refused.value)


def test_a_data_set_may_lack_test_images():
    empty = {"test_images": PLAIN["test_images"][:0], "test_labels": PLAIN["test_labels"][:0]}
    assert len(Dataset(**PLAIN | empty).test_labels) == 0


def test_the_deviation_of_a_channel_that_never_changes_counts_as_1():
    images = torch.zeros(4, 3, 5, 5, dtype=torch.uint8)
    images[:, 0] = 51
    images[:2, 2] = 255
    mean, std = dataset_of(images, [0, 1, 0, 1]).channel_stats()
    assert mean.tolist() == pytest.approx([0.2, 0, 0.5]) and std.tolist() == pytest.approx([1, 1, 0.5])
    normalised = normalize(images, mean, std)
    assert normalised[:, :2].abs().max() < 1e-6 and normalised[:, 2].abs().unique() == 1


def test_channel_stats_of_grey_pictures_have_one_value():
    grey = torch.tensor([51, 51, 153, 153], dtype=torch.uint8).view(4, 1, 1, 1).expand(4, 1, 5, 5)
    mean, std = dataset_of(grey, [0, 1, 0, 1]).channel_stats()
    assert mean.tolist() == pytest.approx([0.4]) and std.tolist() == pytest.approx([0.2])


def test_subset_is_balanced_within_one_and_says_so_in_its_provenance():
    part = shapes10(train=200, test=50).subset(train=40, test=20, seed=7)
    assert part.train_labels.bincount().tolist() == [4] * 10
    assert part.test_labels.bincount().tolist() == [2] * 10
    assert part.provenance == (
        "Shapes-10 (generated, seed 0), 200 train / 50 test pictures; "
        "subset of 40 train / 20 test pictures, seed 7"
    )
    counts = shapes10(train=200, test=10).subset(train=37).train_labels.bincount()
    assert counts.sum() == 37 and counts.max() - counts.min() == 1


def test_subset_keeps_pictures_with_their_labels():
    labels = torch.arange(60) % 3
    images = (labels * 80).to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 2, 2)
    part = dataset_of(images, labels, num_classes=3).subset(train=12)
    assert torch.equal(part.train_images[:, 0, 0, 0].long(), part.train_labels * 80)


def test_subset_is_the_same_for_the_same_seed_and_other_for_another():
    dataset = shapes10(train=200, test=10)
    first = dataset.subset(train=50, seed=1).train_images
    torch.rand(3)
    assert torch.equal(first, dataset.subset(train=50, seed=1).train_images)
    assert not torch.equal(first, dataset.subset(train=50, seed=2).train_images)


def test_smaller_subset_lies_inside_a_larger_one_of_the_same_seed():
    dataset = shapes10(train=200, test=100)
    small, large = dataset.subset(15, 10), dataset.subset(120, 55)
    for half in ("train_images", "test_images"):
        inside = {bytes(picture.numpy()) for picture in getattr(large, half)}
        assert all(bytes(picture.numpy()) in inside for picture in getattr(small, half))


def test_subset_below_0_or_of_a_class_without_images_is_refused_with_the_numbers():
    images = torch.zeros(5, 1, 2, 2, dtype=torch.uint8)
    with pytest.raises(ValueError, match="4 images cannot be shared out among the classes: 'b' has none"):
        dataset_of(images, [0, 0, 0, 0, 0]).subset(train=4)
    with pytest.raises(ValueError, match="a subset of -10 images cannot be taken"):
        shapes10(train=20, test=10).subset(train=-10)


def test_dataset_prints_as_one_line_and_not_as_its_pixels():
    assert repr(shapes10(train=10, test=10, image_size=(16, 24))) == (
        "Dataset(Shapes-10 (generated, seed 0), 10 train / 10 test pictures; 10 classes, pictures of 3x16x24)"
    )


# --- normalize


@pytest.mark.parametrize(("mean", "std"), [((0.5,), (1, 1, 1)), ((0.5,) * 3, (1,)), ((0.5,) * 4, (1,) * 4)])
def test_normalize_with_another_number_of_channels_names_the_numbers(mean, std):
    with pytest.raises(ValueError, match=f"3 channels, but mean has {len(mean)} and std {len(std)} values"):
        data.normalize(torch.zeros(2, 3, 4, 4), mean, std)


# --- folders of pictures


def test_folder_gives_pictures_labels_sorted_classes_and_provenance(pets):
    dataset = load_folder(pets)
    assert dataset.classes == ("cat", "dog")
    assert dataset.train_images.dtype == torch.uint8 and dataset.train_images.shape == (6, 3, 6, 8)
    assert dataset.train_labels.tolist() == [0, 0, 0, 1, 1, 1] and dataset.test_labels.tolist() == [0, 1]
    assert dataset.train_images[:, 0, 0, 0].tolist() == [0, 1, 2, 50, 51, 52]
    assert dataset.test_images[:, 2, 5, 7].tolist() == [9, 59]
    assert dataset.provenance == "folder pets, 6 train / 2 test pictures"


def test_pixels_keep_their_place_and_channel(pets):
    pixels = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
    save(pets / "train/cat/0.png", pixels)
    assert torch.equal(load_folder(pets).train_images[0], torch.from_numpy(pixels).permute(2, 0, 1))


def test_one_picture_is_cut_around_its_centre_and_resized(tmp_path):
    pixels = np.zeros((6, 10, 3), dtype=np.uint8)
    pixels[:, 2:8] = 200
    save(tmp_path / "wide.png", pixels)
    assert (load_picture(tmp_path / "wide.png", 6) == 200).all()
    assert load_picture(tmp_path / "wide.png", (2, 3)).shape == (3, 2, 3)
    (tmp_path / "no.jpg").write_text("no picture")
    with pytest.raises(ValueError, match="cannot read the picture"):
        load_picture(tmp_path / "no.jpg", 3)


def test_one_class_alone_is_refused_by_its_name(pets):
    for half in ("train", "test"):
        shutil.rmtree(pets / half / "dog")
    with pytest.raises(ValueError, match="one class alone, 'cat': there is nothing to tell apart"):
        load_folder(pets)


def test_what_is_not_read_is_counted_and_named_once(pets, capsys):
    assert load_folder(pets) and capsys.readouterr().out == ""
    for name in "train/cat/a.svg train/dog/b.svg test/cat/c.HEIC test/dog/d.txt test/dog/nameless".split():
        (pets / name).touch()
    (pets / "train/lost.jpg").touch()
    (pets / "train" / "cat" / "kittens").mkdir()
    load_folder(pets)
    assert capsys.readouterr().out == (
        f"Not read in {pets.name}: 1 .heic files, 2 .svg files, 1 .txt files, 1 folders inside a class, "
        "1 nameless files, 1 pictures outside a class. "
        "Pictures are .jpg, .jpeg, .jfif, .png, .webp, .bmp, .gif, .tif, .tiff files in their class's folder itself.\n"
    )


@pytest.fixture
def photo(tmp_path):
    """A photo of 1600x1200 pixels, as a phone stores it: lying on its side."""
    pixels = np.linspace(0, 255, 1200 * 1600 * 3).reshape(1200, 1600, 3).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "photo.jpg", exif=exif, quality=90)
    return tmp_path / "photo.jpg"


def test_a_photo_is_decoded_near_the_size_that_is_used_and_looks_the_same(photo, monkeypatch):
    decoded = []
    transpose = ImageOps.exif_transpose
    monkeypatch.setattr(ImageOps, "exif_transpose", lambda one: (decoded.append(one.size), transpose(one))[1])
    small = data.folders._read_picture(photo, (64, 48)).pixels
    assert small.shape == (64, 48, 3)
    assert max(decoded[0]) <= 4 * 64 and min(decoded[0]) >= 2 * 64
    with Image.open(photo) as picture:
        whole = np.asarray(ImageOps.fit(transpose(picture), (48, 64)))
    assert np.abs(small.astype(int) - whole).mean() < 2


def test_pictures_too_large_for_memory_are_refused_with_a_size_that_is_not(pets, monkeypatch):
    monkeypatch.setattr(data.dataset, "LARGEST", 8 * 6 * 8 * 3 - 1)
    with pytest.raises(ValueError, match=r"8 pictures of 6x8 need 0.0 GB .*image_size=64"):
        load_folder(pets)
    monkeypatch.setattr(data.dataset, "LARGEST", 8 * 6 * 8 * 3)
    assert len(load_folder(pets).train_images) == 6


def test_jpg_jpeg_and_capital_letters_count_and_other_files_do_not(pets):
    save(pets / "train/cat/a.JPG", (1, (6, 8)))
    save(pets / "train/cat/b.jpeg", (1, (6, 8)))
    for other in ("notes.txt", ".DS_Store", "._0.png"):
        (pets / "train/cat" / other).write_text("not a picture")
    (pets / "train/.thumbnails").mkdir()
    assert load_folder(pets).train_labels.tolist() == [0] * 5 + [1] * 3


@pytest.mark.parametrize(("in_colour", "channels"), [(0, 1), (1, 3)])
def test_grey_pictures_give_one_channel_and_three_beside_one_in_colour(pets, in_colour, channels):
    for path in sorted(pets.rglob("*.png"))[in_colour:]:
        with Image.open(path) as picture:
            grey = picture.convert("L")
        grey.save(path)
    images = load_folder(pets).train_images
    assert images.shape == (6, channels, 6, 8)
    assert images[:, 0, 0, 0].tolist() == [0, 1, 2, 50, 51, 52]


def test_pictures_with_transparency_or_a_palette_become_colour(pets):
    save(pets / "train/cat/0.png", (77, (6, 8)), mode="RGBA")
    save(pets / "train/cat/1.png", (51, (6, 8)), mode="P")
    assert load_folder(pets).train_images[:2, :, 0, 0].tolist() == [[77] * 3, [51] * 3]


def test_photo_is_turned_the_way_the_camera_was_held(pets):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera's right side was up: turn by 90 degrees
    save(pets / "train/cat/0.png", (5, (8, 6)), exif=exif)
    assert load_folder(pets).train_images.shape == (6, 3, 6, 8)


def test_image_size_cuts_to_shape_and_resizes_and_says_so(pets):
    pixels = np.zeros((10, 40, 3), np.uint8)
    pixels[:, 12:28] = 200  # a cut to 5x5 keeps the middle square, columns 15 to 24
    save(pets / "train/cat/0.png", pixels)
    dataset = load_folder(pets, image_size=5)
    assert dataset.train_images.shape == (6, 3, 5, 5) and dataset.train_images[0].min() == 200
    assert dataset.provenance == "folder pets, 6 train / 2 test pictures, resized to 5x5"
    assert load_dataset(pets, image_size=[3, 9]).test_images.shape == (2, 3, 3, 9)


def grey_with_16_bits(path):
    Image.fromarray(np.full((6, 8), 40000, np.uint16)).save(path)


def colour_with_16_bits(path):
    """Write a colour PNG with 16 bits a channel, which Pillow reads but cannot write."""

    def chunk(kind, content):
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    row = b"\0" + struct.pack(">3H", 4000, 40000, 1) * 8
    head = struct.pack(">IIBBBBB", 8, 6, 16, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(row * 6)), chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def of_size(*size):
    return lambda path: save(path, (0, size))


UNREADABLE = r"cannot read the picture .*train.dog.1\.png"
FAULTS = {
    "sizes": ("train/dog/1.png", of_size(7, 9), r"cat.0\.png has 6x8, .*dog.1\.png has 7x9.*image_size=6"),
    "another size to test": ("test/dog/0.png", of_size(8, 6), r"test.dog.0\.png has 8x6"),
    "empty": ("train/dog/1.png", lambda path: path.write_bytes(b""), UNREADABLE),
    "text": ("train/dog/1.png", lambda path: path.write_bytes(b"not a picture"), UNREADABLE),
    "cut": ("train/dog/1.png", lambda path: path.write_bytes(path.read_bytes()[:-30]), UNREADABLE),
    "link to nothing": (
        "train/cat/a.jpg",
        lambda path: path.symlink_to(path.with_name("gone.jpg")),
        r"cannot read the picture .*a\.jpg: it is a link to nothing",
    ),
    "grey with 16 bits": ("train/cat/0.png", grey_with_16_bits, r"cat.0\.png: more than 8 bits"),
    "colour with 16 bits": ("train/cat/0.png", colour_with_16_bits, r"cat.0\.png: more than 8 bits"),
    "class to train": ("train/bird/0.png", of_size(6, 8), "class 'bird' is in .*train but not in .*test"),
    "class to test": ("test/bird/0.png", of_size(6, 8), "class 'bird' is in .*test but not in .*train"),
}


@pytest.mark.parametrize(("place", "spoil", "message"), FAULTS.values(), ids=FAULTS)
def test_a_picture_that_does_not_fit_is_refused_and_named(pets, place, spoil, message):
    spoil(pets / place)
    with pytest.raises(ValueError, match=message):
        load_folder(pets)


@pytest.mark.parametrize("half", ["train", "test"])
def test_missing_half_is_named(pets, half):
    (pets / half).rename(pets / "elsewhere")
    with pytest.raises(FileNotFoundError, match=rf"{half}/<class>/ is missing"):
        load_folder(pets)


def test_empty_class_is_named(pets):
    (pets / "train/ant").mkdir()
    (pets / "test/ant").mkdir()
    with pytest.raises(ValueError, match=r"train.ant holds no pictures"):
        load_folder(pets)


@pytest.mark.real_data
def test_real_pictures_are_all_there_in_cifar_label_order():
    dataset = load_dataset(os.environ["VIT_COURSE_REAL_DATA"])
    assert dataset.train_images.shape == (50_000, 3, 32, 32)
    assert dataset.test_images.shape == (10_000, 3, 32, 32)
    assert dataset.train_labels.bincount().tolist() == [5000] * 10
    assert dataset.test_labels.bincount().tolist() == [1000] * 10
    assert dataset.classes == CIFAR10_CLASSES
    assert dataset.provenance == "CIFAR-10 (JPEG copy), 50,000 train / 10,000 test pictures"
    mean, std = dataset.channel_stats()
    torch.testing.assert_close(mean, torch.tensor([0.4914, 0.4822, 0.4465]), atol=0.002, rtol=0)
    torch.testing.assert_close(std, torch.tensor([0.2470, 0.2435, 0.2616]), atol=0.004, rtol=0)


def write_jpeg_copy(root):
    for half in ("train", "test"):
        for name in CIFAR10_CLASSES:
            save(root / "cifar10-jpeg" / half / name / "0.png", (1, (4, 4)))


# --- the cache of decoded folders


def same_pictures(one, two):
    """Tell whether two data sets hold the same pictures."""
    return torch.equal(one.train_images, two.train_images) and torch.equal(one.test_images, two.test_images)


def forbid_decoding(monkeypatch):
    monkeypatch.setattr(data.folders, "_decode", lambda *args: pytest.fail("decoded again"))


def test_cache_moves_with_its_folder_and_its_pictures_may_be_changed_in_memory(pets, monkeypatch):
    first = load_folder(pets)
    forbid_decoding(monkeypatch)
    pets = pets.rename(pets.with_name("animals"))
    assert same_pictures(load_folder(pets), first)
    load_folder(pets).train_images.fill_(255)
    assert load_folder(pets).train_images.max() == 52


CHANGES = {
    "edit": (lambda path: save(path, (200, (6, 8))), [50, 51, 200]),
    "add": (lambda path: save(path.with_name("3.png"), (53, (6, 8))), [50, 51, 52, 53]),
    "remove": (Path.unlink, [50, 51]),
    "rename": (lambda path: path.rename(path.with_name("-first.png")), [52, 50, 51]),
}


@pytest.mark.parametrize(("change", "dogs"), CHANGES.values(), ids=CHANGES)
def test_changed_pictures_are_decoded_again(pets, change, dogs):
    load_folder(pets)
    change(pets / "train/dog/2.png")
    assert load_folder(pets).train_images[3:, 0, 0, 0].tolist() == dogs


def test_each_image_size_has_its_own_cache(pets):
    assert load_folder(pets).train_images.shape[2:] == (6, 8)
    assert load_folder(pets, image_size=4).train_images.shape[2:] == (4, 4)
    assert load_folder(pets).train_images.shape[2:] == (6, 8)
    assert len(list((pets / ".cache").iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped pixel", "text"])
def test_damaged_cache_is_noticed_and_made_again(pets, damage, monkeypatch):
    first = load_folder(pets)
    (cache,) = (pets / ".cache").iterdir()
    content = cache.read_bytes()
    broken = {
        "cut": content[:-10],
        "empty": b"",
        "flipped pixel": content[:-10] + bytes([content[-10] ^ 255]) + content[-9:],
        "text": b"hello" * 100,
    }[damage]
    cache.unlink()  # a new file, as a broken disk leaves it: the old one may still be mapped into memory
    cache.write_bytes(broken)
    assert same_pictures(load_folder(pets), first)
    forbid_decoding(monkeypatch)
    assert same_pictures(load_folder(pets), first)


def test_cache_that_cannot_be_written_is_no_error(pets):
    (pets / ".cache").write_text("a file where the folder should be")
    assert len(load_folder(pets).train_images) == 6


def test_failed_write_leaves_nothing_behind_that_looks_like_a_cache(pets, monkeypatch):
    def full_disk(tensors, path, metadata):
        Path(path).write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(data.folders, "save_file", full_disk)
    assert len(load_folder(pets).train_images) == 6
    assert list((pets / ".cache").iterdir()) == []


# --- the official archive


class Canary:
    """Unpickled, it makes a folder: the sign that someone ran a stranger's program."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def fake_cifar(root, unpacked=False, pictures=4):
    """Write an archive in the official layout, with few pictures; return what `load_official` is to expect of it.

    Picture i of batch b is filled with 10 b + i in red, 100 in green and 200 in blue; its label is i.
    """
    files = {}
    for batch, name in enumerate([*data.cifar10.TRAIN_FILES, data.cifar10.TEST_FILE]):
        red = [[10 * batch + i] * 1024 + [100] * 1024 + [200] * 1024 for i in range(pictures)]
        content = {"data": np.array(red, np.uint8), "labels": list(range(pictures))}
        content["filenames"] = ["x"] * pictures
        files[name] = pickle.dumps(content, protocol=2)
    files["batches.meta"] = pickle.dumps({"label_names": list(CIFAR10_CLASSES)}, protocol=2)

    expected = {"file_md5": {name: hashlib.md5(content).hexdigest() for name, content in files.items()}}
    if unpacked:
        (root / UNPACKED).mkdir()
        for name, content in files.items():
            (root / UNPACKED / name).write_bytes(content)
        return expected
    write_archive(root, files)
    archive = (root / ARCHIVE).read_bytes()
    return expected | {"size": len(archive), "md5": hashlib.md5(archive).hexdigest()}


def write_archive(root, files):
    """Write the files as cifar-10-python.tar.gz, in an order of its own, as the official one."""
    with tarfile.open(root / ARCHIVE, "w:gz") as tar:
        for name in sorted([*files, "readme.html"], reverse=True):
            info = tarfile.TarInfo(f"{UNPACKED}/{name}")
            info.size = len(files.get(name, b""))
            tar.addfile(info, io.BytesIO(files.get(name, b"")))


@pytest.mark.parametrize("unpacked", [False, True])
def test_official_archive_is_read_in_order_whether_packed_or_unpacked_and_needs_no_space(tmp_path, unpacked):
    dataset = load_official(tmp_path, **fake_cifar(tmp_path, unpacked))
    assert dataset.train_images.shape == (20, 3, 32, 32) and dataset.train_images.dtype == torch.uint8
    assert dataset.train_images[:, 0, 0, 0].tolist() == [10 * b + i for b in range(5) for i in range(4)]
    assert dataset.test_images[:, 0, 31, 31].tolist() == [50, 51, 52, 53]
    assert dataset.train_images[0, :, 5, 5].tolist() == [0, 100, 200]
    assert dataset.train_labels.tolist() == [0, 1, 2, 3] * 5 and dataset.train_labels.dtype == torch.int64
    assert dataset.classes == CIFAR10_CLASSES
    assert dataset.provenance == "CIFAR-10 (official archive), 20 train / 4 test pictures"
    assert [path.name for path in tmp_path.iterdir()] == [UNPACKED if unpacked else ARCHIVE]


def test_names_and_sums_of_the_official_files_are_those_of_torchvisions_table():
    batches = dict([*CIFAR10.train_list, *CIFAR10.test_list])
    assert data.cifar10.FILE_MD5 == batches | {CIFAR10.meta["filename"]: CIFAR10.meta["md5"]}
    assert [*data.cifar10.TRAIN_FILES, data.cifar10.TEST_FILE] == list(batches)
    assert (ARCHIVE, UNPACKED) == (CIFAR10.filename, CIFAR10.base_folder)
    assert (data.cifar10.ARCHIVE_MD5, data.cifar10.NAMES_FILE) == (CIFAR10.tgz_md5, CIFAR10.meta["filename"])


def test_canary_would_sing(tmp_path):
    pickle.loads(pickle.dumps(Canary(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("right_size", [False, True])
def test_tampered_archive_is_never_unpickled(tmp_path, right_size):
    poison = pickle.dumps(Canary(tmp_path / "ran"))
    write_archive(tmp_path, dict.fromkeys(data.cifar10.FILE_MD5, poison))
    size = (tmp_path / ARCHIVE).stat().st_size if right_size else data.cifar10.ARCHIVE_SIZE
    with pytest.raises(ValueError, match="has md5" if right_size else r"the real one has 170,498,071"):
        load_official(tmp_path, size=size)
    with pytest.raises(ValueError, match="get it again with python -m vit_course data"):
        load_dataset("auto", root=tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["data_batch_3", "test_batch", "batches.meta"])
def test_tampered_unpacked_folder_is_never_unpickled_and_the_file_is_named(tmp_path, name):
    expected = fake_cifar(tmp_path, unpacked=True)
    (tmp_path / UNPACKED / name).write_bytes(pickle.dumps(Canary(tmp_path / "ran")))
    with pytest.raises(ValueError, match=rf"{name} of .* is not the official file"):
        load_official(tmp_path, **expected)
    assert not (tmp_path / "ran").exists()


def test_unpacked_folder_with_a_missing_file_names_it(tmp_path):
    expected = fake_cifar(tmp_path, unpacked=True)
    (tmp_path / UNPACKED / "data_batch_2").unlink()
    with pytest.raises(ValueError, match=r"data_batch_2 of .*md5 missing"):
        load_official(tmp_path, **expected)


# --- what load_dataset finds


def test_auto_takes_the_official_archive_before_pictures(tmp_path, pets, monkeypatch):
    expected = fake_cifar(tmp_path)
    monkeypatch.setattr(data.load, "load_official", lambda folder: load_official(folder, **expected))
    assert load_dataset(root=tmp_path).provenance.startswith("CIFAR-10 (official archive)")
    assert load_dataset(tmp_path / ARCHIVE).provenance.startswith("CIFAR-10 (official archive)")


def test_auto_finds_pictures_in_a_folder_of_the_data_folder(pets):
    (pets.parent / "a_folder_of_something_else" / "train").mkdir(parents=True)
    assert load_dataset(root=pets.parent).provenance.startswith("folder pets")


def test_shapes10_comes_without_notice_where_it_was_asked_for_and_else_says_once_how_to_get_cifar10(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(
        data.load.DRAW, "shapes10", lambda image_size: shapes10(20, 10, image_size=image_size)
    )
    assert load_dataset("shapes10", image_size=(16, 24)).train_images.shape == (20, 3, 16, 24)
    monkeypatch.setenv("VIT_COURSE_DATA", "shapes10")
    assert load_dataset(root=tmp_path).provenance.startswith("Shapes-10")
    assert capsys.readouterr().out == ""
    monkeypatch.delenv("VIT_COURSE_DATA")
    for _ in range(2):
        assert load_dataset(root=tmp_path).provenance.startswith("Shapes-10")
    printed = capsys.readouterr().out
    assert printed.count("Shapes-10") == 1 and printed.count("\n") == 1
    assert "python -m vit_course data" in printed


def test_environment_variable_names_the_folder_and_an_explicit_name_is_stronger(pets, tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_DATA", str(pets))
    assert load_dataset(root=tmp_path / "nothing").provenance.startswith("folder pets")
    monkeypatch.setenv("VIT_COURSE_DATA", str(tmp_path / "typo"))
    with pytest.raises(FileNotFoundError, match=r"no data in .*typo \(named by VIT_COURSE_DATA\)"):
        load_dataset()
    monkeypatch.setenv("VIT_COURSE_DATA", "shapes10")
    assert load_dataset(pets).provenance.startswith("folder pets")


def test_cifar10_is_found_among_other_pictures_or_says_how_to_get_it(pets):
    with pytest.raises(FileNotFoundError, match=r"no CIFAR-10 .* python -m vit_course data"):
        load_dataset("cifar10", root=pets.parent)
    write_jpeg_copy(pets.parent)
    pets.rename(pets.with_name("a_folder_before_it"))
    expected = "CIFAR-10 (JPEG copy), 10 train / 10 test pictures"
    assert load_dataset("cifar10", root=pets.parent).provenance == expected
    assert load_dataset(pets.parent / "cifar10-jpeg").provenance == expected


def test_image_size_other_than_32_is_refused_for_the_official_archive(tmp_path):
    fake_cifar(tmp_path)
    with pytest.raises(ValueError, match="32x32; image_size=64"):
        load_dataset(root=tmp_path, image_size=64)


def test_relative_root_is_found_from_the_notebooks_folder(tmp_path, pets, monkeypatch):
    (tmp_path / "data").mkdir()
    pets.rename(tmp_path / "data" / "pets")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setattr(data.locate, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path / "notebooks")
    assert load_dataset().provenance.startswith("folder pets")
    assert load_dataset("data/pets").provenance.startswith("folder pets")


def test_root_in_the_working_directory_comes_before_the_repository(tmp_path, monkeypatch):
    (tmp_path / "here" / "data").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(data.locate, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path / "here")
    assert data.locate.resolve_root("data").resolve() == tmp_path / "here" / "data"


def test_a_subset_of_all_pictures_is_the_data_set_itself():
    dataset = shapes10(train=30, test=20)
    assert dataset.subset(30, 20) is dataset and dataset.subset(None) is dataset
    assert dataset.subset(None, 10) is not dataset
    assert torch.equal(dataset.subset(10).test_images, dataset.test_images)


# --- what importing costs


def loaded_after(code):
    """Run code in a fresh process; return which of torch and torchvision it has imported."""
    show = "import sys; print(*{'torch', 'torchvision'} & sys.modules.keys())"
    command = [sys.executable, "-c", f"{code}\n{show}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_finding_and_fetching_data_imports_no_torch():
    code = "import vit_course.data.locate as l; l.locate(); from vit_course.data import download_cifar10"
    assert loaded_after(code) == set()


def test_every_public_name_arrives_and_no_other():
    for name in data.__all__:
        assert getattr(data, name).__name__ == name
    assert set(data.__all__) <= set(dir(data))
    with pytest.raises(AttributeError, match="'vit_course.data' has no attribute 'load_dataste'"):
        data.load_dataste  # noqa: B018


def test_loading_data_and_what_lessons_00_to_06_import_of_the_course_imports_no_torchvision():
    code = ["from vit_course.data import load, load_dataset, shapes10"]
    code += ["load.DRAW['shapes10'] = lambda **_: shapes10(20, 10)", "load_dataset('shapes10')"]
    for lesson in sorted((ROOT / "lessons").glob("0[0-6]_*/lesson.py")):
        nodes = ast.walk(ast.parse(lesson.read_text(encoding="utf-8")))
        code += [ast.unparse(node) for node in nodes if getattr(node, "module", "").startswith("vit_course")]
    assert len(code) > 9
    assert loaded_after("\n".join(code)) == {"torch"}


# --- faults found from outside


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_named_like_a_picture_is_refused_and_not_waited_for(pets):
    os.mkfifo(pets / "train/cat/a.jpg")
    with pytest.raises(ValueError, match=r"cannot read the picture .*a\.jpg: it is no file"):
        load_folder(pets)


def test_a_size_that_fits_no_memory_is_refused_before_a_picture_is_made_as_large(pets, monkeypatch):
    monkeypatch.setattr(data.folders, "_read_picture", lambda *_: pytest.fail("a picture is read"))
    with pytest.raises(ValueError, match=r"8 pictures of 1000000x1000000 need 24000\.0 GB of memory"):
        load_folder(pets, 1_000_000)
    with pytest.raises(ValueError, match="10,000 pictures of 100000x100000 need|8,000 pictures of"):
        load_dataset("shapes10", image_size=100_000)


@pytest.mark.parametrize(
    "size", [0, -1, (8, 0), (32,), "32", 32.0, True, (32, 32.0), (1, 2, 3), [], (True, 8)]
)
def test_what_is_no_size_is_refused_by_name(pets, size):
    for name in ("shapes10", pets):
        with pytest.raises(
            ValueError, match="image_size is .*: its sides should be whole numbers at least 1"
        ):
            load_dataset(name, image_size=size)


@pytest.mark.parametrize("place", ["/proc", "/proc/self/fd", "/dev/null", "file", "file/below", "x" * 300])
def test_a_place_that_can_hold_no_archive_is_refused_at_once_and_by_name(place, tmp_path):
    (tmp_path / "file").touch()
    if place.startswith("/") and not Path(place).exists():
        pytest.skip(f"this system has no {place}")
    command = [sys.executable, "-m", "vit_course", "data", "--root", str(tmp_path / place)]
    environment = {**os.environ, "VIT_COURSE_CIFAR10_URL": "file:///nowhere"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr == ""
    assert str(tmp_path / place) in done.stdout and done.stdout.count("\n") == 1, done.stdout


def test_every_data_set_that_is_drawn_is_found_by_its_name_and_has_a_function():
    assert DRAWN == tuple(load.DRAW)
    assert [locate(name).kind for name in DRAWN] == list(DRAWN)


def test_statistics_that_are_given_stay_with_every_part_of_a_data_set():
    stats = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.4, 0.5, 0.6])
    given = replace(shapes10(train=40, test=20), stats=stats)
    for part in (given, given.subset(20), given.remainder(20), given.hold_out(20)):
        assert part.channel_stats() is stats
