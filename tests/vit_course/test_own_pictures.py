"""Folders as people have them: transparent images, other formats, broken files, no split, names nearly right."""

import gzip
import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_classroom import doctor
from vit_course import data
from vit_course.data import load_dataset, load_folder, load_picture
from vit_course.data.locate import ARCHIVE, PICTURES, UNPACKED, near_miss
from vit_course.extensions.train_command import main

HALF = np.zeros((4, 4, 4), np.uint8)
HALF[:2, :, 3] = 255
HALF[2:, :, :3] = 90
"""A black picture whose lower half is transparent, with grey garbage under it: (H, W, RGBA)."""


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    """Each test starts as on a fresh machine: no VIT_COURSE_DATA, no notice given yet."""
    monkeypatch.delenv("VIT_COURSE_DATA", raising=False)
    data.dataset.say_once.cache_clear()


def palette(image):
    """Give an image two colours: number 0 is black, number 1 the garbage."""
    one = Image.fromarray((np.asarray(image)[..., 0] > 0).astype(np.uint8), "P")
    one.putpalette([0, 0, 0, 90, 90, 90])
    return one


def pets(folder, counts=(3, 3), halves=("train", "test"), **options):
    """Write classes cat and dog, with so many images each in every half, each of one grey level; return the folder."""
    for half in halves:
        for label, (name, count) in enumerate(zip(("cat", "dog"), counts, strict=True)):
            (folder / half / name).mkdir(parents=True)
            for i in range(count):
                image = Image.new("RGB", (8, 6), (50 * label + i,) * 3)
                image.save(folder / half / name / f"{i:03}.png", **options)
    return folder


# --- transparent parts


WHOLE = Image.fromarray(HALF)
TRANSPARENT = {
    "RGBA.png": (WHOLE, {}),
    "LA.png": (WHOLE.convert("LA"), {}),
    "P with an index.png": (palette(WHOLE), {"transparency": 1}),
    "P with alpha.png": (palette(WHOLE), {"transparency": bytes([255, 0])}),
    "RGB with a colour.png": (WHOLE.convert("RGB"), {"transparency": (90, 90, 90)}),
    "L with a level.png": (WHOLE.convert("L"), {"transparency": 90}),
    "1 with a level.png": (
        WHOLE.convert("L").point(lambda v: 255 * (v > 0)).convert("1"),
        {"transparency": 255},
    ),
    "RGBA.webp": (WHOLE, {"lossless": True}),
    "P.gif": (palette(WHOLE), {"transparency": 1}),
    "RGBA.tif": (WHOLE, {}),
    "LA.tiff": (WHOLE.convert("LA"), {}),
}


@pytest.mark.parametrize("name", TRANSPARENT)
def test_what_is_transparent_is_laid_on_white_whatever_stands_under_it(name, tmp_path):
    image, options = TRANSPARENT[name]
    image.save(tmp_path / name, **options)
    assert (load_picture(tmp_path / name, 4)[:, :, 0] == torch.tensor([0, 0, 255, 255])).all()


def test_what_is_half_transparent_is_mixed_with_white(tmp_path):
    Image.new("RGBA", (4, 4), (0, 100, 200, 51)).save(tmp_path / "glass.png")
    mixed = [255 * 0.8 + 0.2 * level for level in (0, 100, 200)]
    assert load_picture(tmp_path / "glass.png", 4)[:, 0, 0].tolist() == pytest.approx(mixed, abs=1)


def test_transparent_images_are_counted_in_a_line_and_in_the_provenance_also_when_read_from_the_cache(
    tmp_path, capsys
):
    folder = pets(tmp_path / "pets")
    Image.new("RGBA", (8, 6), (0, 0, 0, 0)).save(folder / "train/dog/000.png")
    Image.new("RGBA", (8, 6), (7, 7, 7, 255)).save(folder / "train/dog/001.png")
    for _ in range(2):
        found = load_folder(folder)
        assert (
            capsys.readouterr().out == "1 images in pets have transparent parts, which are laid on white.\n"
        )
        assert found.provenance.endswith(", 1 with transparent parts laid on white")
        assert found.train_images[3:5, 0, 0, 0].tolist() == [255, 7]


# --- formats, and what is broken


@pytest.mark.parametrize("ending", PICTURES)
def test_every_format_that_counts_is_read(ending, tmp_path):
    folder = pets(tmp_path / "pets")
    kind = {".jfif": "JPEG"}.get(ending)
    Image.new("RGB", (8, 6), (200, 200, 200)).save(folder / f"train/dog/z{ending.upper()}", kind)
    assert load_folder(folder).train_images[-1].float().mean() == pytest.approx(200, abs=2)


def test_all_images_that_cannot_be_used_are_named_at_once(tmp_path):
    folder = pets(tmp_path / "pets")
    (folder / "train/cat/000.png").write_text("not an image")
    (folder / "test/dog/001.png").write_bytes(b"")
    (folder / "train/dog/a.jpg").symlink_to("nowhere")
    (folder / "train/dog/b.jpg").mkdir()
    Image.new("RGB", (9, 9)).save(folder / "test/cat/000.png")
    Image.new("RGB", (5, 5)).save(folder / "test/cat/001.png")
    with pytest.raises(ValueError, match="^5 things are wrong with the images:\n") as refused:
        load_folder(folder)
    for words in (
        *("train/cat/000.png", "test/dog/001.png", "a.jpg: it is a link to nothing", "b.jpg: it is no file"),
        *("test/cat/000.png has 9x9; 2 files differ from the first", "--image-size 6"),
    ):
        assert words in str(refused.value)


def test_all_classes_that_do_not_fit_are_named_at_once(tmp_path):
    folder = pets(tmp_path / "pets")
    (folder / "test/dog").rename(folder / "test/hound")
    for half in ("train", "test"):
        (folder / half / "emu").mkdir()
    with pytest.raises(ValueError, match="^4 things are wrong") as refused:
        load_folder(folder)
    for words in (
        "'dog' is in",
        "'hound' is in",
        "train/emu holds no pictures",
        "test/emu holds no pictures",
    ):
        assert words in str(refused.value)


def test_of_very_many_broken_files_the_first_twenty_are_named(tmp_path):
    folder = pets(tmp_path / "pets", (30, 3))
    for path in (folder / "train/cat").iterdir():
        path.write_text("not an image")
    with pytest.raises(ValueError, match="and 10 more$") as refused:
        load_folder(folder)
    assert str(refused.value).count("cannot read the picture") == 20


@pytest.mark.parametrize("spoil", ["nothing", "broken", "sizes", "one class", "no test"])
def test_the_doctor_says_of_own_images_what_training_says(spoil, tmp_path, monkeypatch, capsys):
    folder = pets(tmp_path / "pets")
    if spoil == "broken":
        (folder / "train/cat/000.png").write_text("not an image")
    elif spoil == "sizes":
        Image.new("RGB", (9, 9)).save(folder / "train/cat/000.png")
    elif spoil == "one class":
        for half in ("train", "test"):
            (folder / half / "dog").rename(tmp_path / half)
    elif spoil == "no test":
        (folder / "test").rename(tmp_path / "test")
    monkeypatch.setenv("VIT_COURSE_DATA", str(folder))
    status = main(["--model=linear", "--recipe=plain", "--epochs=1", "--batch-size=2", "--device=cpu"])
    finding = doctor.check_data()
    assert (finding.status == "fail", bool(status)) == ((spoil != "nothing"),) * 2
    assert spoil == "nothing" or finding.detail in capsys.readouterr().err


# --- classes that nobody split, and classes that differ in size


def test_a_folder_of_classes_alone_is_split_alike_every_time_and_says_so(tmp_path, capsys):
    folder = pets(tmp_path / "pets", (10, 23), halves=(".",))
    found = load_dataset(folder)
    said = "pets has no train/ and test/: 2 images of every class are held out for the test."
    assert said in capsys.readouterr().out
    assert found.train_labels.bincount().tolist() == [8, 21] and found.test_labels.bincount().tolist() == [
        2,
        2,
    ]
    levels = [set(images[:, 0, 0, 0].tolist()) for images in (found.train_images, found.test_images)]
    assert levels[0] | levels[1] == {*range(10), *range(50, 73)} and not levels[0] & levels[1]
    assert torch.equal(load_dataset(folder).test_images, found.test_images)
    assert "29 train / 4 held-out train pictures" in found.provenance


def test_where_a_half_is_missing_the_other_can_be_split(tmp_path):
    folder = pets(tmp_path / "pets", halves=("train",))
    with pytest.raises(
        FileNotFoundError, match=r"test/<class>/ is missing: .* or use .*train alone as the folder"
    ):
        load_folder(folder)
    assert len(load_folder(folder / "train").test_labels) == 2


def test_a_class_of_one_image_cannot_be_split(tmp_path):
    with pytest.raises(ValueError, match="only one image"):
        load_folder(pets(tmp_path / "pets", (1, 3), halves=(".",)))


def test_images_beside_the_classes_make_no_classes_of_train_and_test(tmp_path):
    folder = pets(tmp_path / "pets")
    for half in ("train", "test"):
        Image.new("RGB", (8, 6)).save(folder / half / "lost.png")
    assert load_folder(folder).classes == ("cat", "dog") and len(load_folder(folder).test_labels) == 6


@pytest.mark.parametrize(
    ("size", "multiple", "wanted"),
    [((40, 48), 16, (32, 48)), ((28, 28), 16, (32, 32)), ((28, 28), 4, (28, 28)), ((5, 70), 8, (8, 72))],
)
def test_images_are_brought_to_sides_that_a_patch_divides_where_that_is_asked_and_it_is_said(
    size, multiple, wanted, tmp_path, capsys
):
    for path in pets(tmp_path / "pets").rglob("*.png"):
        Image.new("RGB", size[::-1]).save(path)
    assert load_dataset(tmp_path / "pets").train_images.shape[2:] == size
    found = load_dataset(tmp_path / "pets", multiple_of=multiple)
    assert found.train_images.shape[2:] == found.test_images.shape[2:] == wanted
    said = f"Images of {size[0]}x{size[1]} are resized to {wanted[0]}x{wanted[1]}, sides that {multiple} divides.\n"
    assert capsys.readouterr().out == (said if size != wanted else "")
    assert ("resized to" in found.provenance) == (size != wanted)
    assert load_dataset(tmp_path / "pets", image_size=9, multiple_of=multiple).train_images.shape[2:] == (
        9,
        9,
    )


UNEQUAL = [75, 72, 78]


def unequal():
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor(UNEQUAL))
    images = labels.to(torch.uint8)[:, None, None, None].expand(-1, 1, 2, 2)
    return data.Dataset(images, labels, images, labels, ("a", "b", "c"), "three classes")


@pytest.mark.parametrize(
    ("asked", "given", "said"),
    [
        (225, UNEQUAL, ""),
        (999, UNEQUAL, "999 images were asked for: all 225 are used."),
        (
            224,
            [72] * 3,
            "224 images were asked for: 216 are used, 72 of every class, because 'b' has no more.",
        ),
        (216, [72] * 3, ""),
        (20, [7, 7, 6], ""),
    ],
)
def test_classes_that_differ_in_size_give_all_or_as_many_as_the_smallest_has_and_it_is_said(
    asked, given, said, capsys
):
    part = unequal().subset(asked, asked)
    assert part.train_labels.bincount().tolist() == part.test_labels.bincount().tolist() == given
    assert capsys.readouterr().out.strip() == said
    assert torch.equal(part.train_images[:, 0, 0, 0], part.train_labels)


def test_held_out_images_of_unequal_classes_are_counted_as_they_are():
    part = unequal().hold_out(224)
    assert (len(part.train_labels), len(part.test_labels)) == (9, 216)
    assert "9 train / 216 held-out train pictures" in part.provenance


# --- nearly right


def touched(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")


NEARLY = {
    "cifar-10-python.tar": "unpack it",
    "cifar-10-python (1).tar.gz": f"should be named {ARCHIVE}",
    "cifar-10-python.tar.gz.crdownload": f"should be named {ARCHIVE}",
    "CIFAR-10-python.tgz": f"should be named {ARCHIVE}",
    f"Downloads/{ARCHIVE}": f"should be .*{ARCHIVE}",
    f"cifar-10-python/{UNPACKED}/data_batch_1": f"{UNPACKED} should be .*{UNPACKED}",
    f"{UNPACKED}/{UNPACKED}/data_batch_1": f"{UNPACKED}.{UNPACKED} should be .*{UNPACKED}",
    "cifar10/data_batch_1": f"cifar10 should be .*{UNPACKED}",
    "cifar-10-binary.tar.gz": "another edition",
    "cifar-10-batches-bin/data_batch_1.bin": "another edition",
    "cifar-10-matlab.tar.gz": "another edition",
    "cifar-100-python.tar.gz": "CIFAR-100",
    "Train/cat/1.png": "Train should be named train",
    "pets/training/cat/1.png": "training should be named train",
}


@pytest.mark.parametrize("name", NEARLY)
def test_data_that_were_fetched_nearly_right_are_named_with_what_to_do(name, tmp_path, capsys, monkeypatch):
    touched(tmp_path, name)
    words = pytest.raises(FileNotFoundError, match=NEARLY[name])
    with words:
        load_dataset("cifar10", root=tmp_path)
    with words:
        load_dataset(tmp_path)
    monkeypatch.setitem(data.load.DRAW, "shapes10", lambda image_size: "drawn")
    assert load_dataset(root=tmp_path) == "drawn"
    miss = near_miss(tmp_path)
    assert miss in capsys.readouterr().out and doctor.check_data(str(tmp_path)).fix == miss


def test_a_file_that_is_named_itself_is_looked_at_too(tmp_path):
    touched(tmp_path, "cifar-10-python.tar")
    with pytest.raises(FileNotFoundError, match="unpack it"):
        load_dataset(tmp_path / "cifar-10-python.tar")


def test_what_our_own_download_left_and_a_folder_with_other_things_are_no_near_miss(tmp_path):
    touched(
        tmp_path, f"{ARCHIVE}.part", f"{ARCHIVE}.lock", "notes.txt", "validation/notes.txt", "runs/1.json"
    )
    assert near_miss(tmp_path) == ""


def test_where_test_is_called_otherwise_that_is_named(tmp_path):
    folder = pets(tmp_path / "pets", halves=("train", "val"))
    with pytest.raises(FileNotFoundError, match=r"val should be named test, or put"):
        load_dataset(folder)


# --- killed writes


def die_while_writing(folder):
    """Load a folder in a process that is killed as it writes the cache."""
    data.folders.save_file = lambda tensors, path, metadata: (
        Path(path).write_bytes(b"half of it"),
        os.kill(os.getpid(), signal.SIGKILL),
    )
    load_folder(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_killed_writes_of_the_cache_left_is_cleared_by_the_next(tmp_path):
    folder = pets(tmp_path / "pets")
    for _ in range(2):
        killed = multiprocessing.get_context("spawn").Process(target=die_while_writing, args=(folder,))
        killed.start()
        killed.join()
        assert killed.exitcode == -signal.SIGKILL
    assert len(list((folder / ".cache").glob("tmp*"))) == 1  # the second cleared what the first left
    load_folder(folder)
    assert [path.name for path in (folder / ".cache").iterdir()] == ["pictures-unchanged.safetensors"]
