"""Shapes-10: the same everywhere, balanced, and neither too easy nor impossible."""

import hashlib

import pytest
import torch

from vit_course.data import shapes, shapes10
from vit_course.data.shapes import SHAPES, draw_shapes, polygon


def test_pictures_are_uint8_colour_and_labels_are_int64():
    dataset = shapes10(train=30, test=20)
    assert dataset.train_images.shape == (30, 3, 32, 32) and dataset.train_images.dtype == torch.uint8
    assert dataset.test_images.shape == (20, 3, 32, 32) and dataset.test_labels.dtype == torch.int64
    assert dataset.classes == tuple(SHAPES) and len(dataset.classes) == 10
    assert dataset.provenance == "Shapes-10 (generated, seed 0), 30 train / 20 test pictures"


def test_bytes_are_the_same_on_every_machine_and_version():
    """If this fails, Shapes-10 has changed: every number measured on it so far belongs to other pictures."""
    images, labels = draw_shapes(40, seed=0)
    digest = hashlib.sha256(images.numpy().tobytes() + labels.numpy().tobytes()).hexdigest()
    assert digest[:16] == "6b9aaff864a033e1"


def test_same_seed_gives_same_pictures_whatever_was_drawn_before_and_leaves_the_global_random_state_alone():
    before = torch.get_rng_state()
    first, _ = draw_shapes(20, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    assert torch.equal(first, draw_shapes(20, seed=3)[0])
    assert not torch.equal(first, draw_shapes(20, seed=4)[0])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_train_and_test_of_all_seeds_share_no_picture(seed):
    dataset, following = shapes10(50, 50, seed), shapes10(50, 50, seed + 1)
    parts = [dataset.train_images, dataset.test_images, following.train_images, following.test_images]
    pictures = {bytes(picture.numpy()) for part in parts for picture in part}
    assert len(pictures) == 200


@pytest.mark.parametrize(("n", "least", "most"), [(100, 10, 10), (25, 2, 3), (3, 0, 1), (0, 0, 0)])
def test_every_class_has_as_many_pictures_within_one(n, least, most):
    counts = draw_shapes(n, seed=0)[1].bincount(minlength=10)
    assert (counts.min(), counts.max(), counts.sum()) == (least, most, n)


def test_set_in_use_is_handed_out_again_and_drawn_anew_once_somebody_wrote_into_it():
    dataset = shapes10(train=10, test=10)
    assert shapes10(10, 10, image_size=(32, 32)) is dataset
    assert shapes10(10, 10, seed=1) is not dataset
    before = dataset.train_images.clone()
    dataset.train_images[0] = 0
    assert torch.equal(shapes10(train=10, test=10).train_images, before)


def test_set_that_nobody_uses_any_more_takes_no_memory():
    dataset = shapes10(train=10, test=10, seed=9)
    kept = len(shapes._kept)
    del dataset
    assert len(shapes._kept) < kept


def test_drawing_uses_one_thread_and_puts_the_number_back(monkeypatch):
    seen, before = [], torch.get_num_threads()
    monkeypatch.setattr(
        shapes, "_draw", lambda *_: seen.append(torch.get_num_threads()) or torch.zeros(5, 3, 32, 32)
    )
    torch.set_num_threads(2)
    try:
        draw_shapes(5, seed=0)
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("patience", "widgets", "shown"), [(1000, "1", False), (0, "1", True), (0, "0", False)]
)
def test_bar_shows_how_far_a_slow_drawing_is_where_nothing_is_compared(
    patience, widgets, shown, monkeypatch, capsys
):
    monkeypatch.setattr(shapes, "PATIENCE", patience)
    monkeypatch.setenv("VIT_COURSE_WIDGETS", widgets)
    draw_shapes(10, seed=0)
    assert ("drawing Shapes-10" in capsys.readouterr().err) == shown


def test_labels_are_in_random_order():
    labels = draw_shapes(200, seed=0)[1]
    assert 100 < (labels[1:] != labels[:-1]).sum() < 199


def test_drawing_in_chunks_covers_every_picture(monkeypatch):
    monkeypatch.setattr(shapes, "CHUNK", 7)
    images, labels = draw_shapes(20, seed=0)
    assert len(images) == len(labels) == 20
    assert images.float().std(dim=(1, 2, 3)).min() > 5


@pytest.mark.parametrize("image_size", [(16, 48), (40, 24), 64])
def test_other_sizes_and_non_square_pictures_can_be_drawn(image_size):
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    dataset = shapes10(train=10, test=10, image_size=image_size)
    assert dataset.train_images.shape == (10, 3, height, width)


@pytest.mark.parametrize(("n", "image_size"), [(-1, 32), (4, 7), (4, (32, 4))])
def test_impossible_requests_name_the_numbers(n, image_size):
    with pytest.raises(ValueError, match=r"cannot draw -?\d+ pictures of \d+x\d+ pixels"):
        draw_shapes(n, seed=0, image_size=image_size)


def test_polygon_distance_is_signed_and_in_units_of_length():
    x, y = torch.tensor([0.0, 2.0, 2.0, 0.9, 0.0]), torch.tensor([0.0, 0.0, 2.0, 0.0, 1.0])
    square = polygon(x, y, (1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0))
    torch.testing.assert_close(square, torch.tensor([-1.0, 1.0, 2**0.5, -0.1, 0.0]))


def test_the_shape_is_lighter_than_its_background_in_every_channel():
    """The premise of its difficulty: with colours drawn freely no small model learns it in a minute."""
    generator = torch.Generator().manual_seed(0)
    circle = torch.full((50,), list(SHAPES).index("circle"))
    x, y, _ = shapes._place(50, 32, 32, torch.Generator().manual_seed(0))
    images = shapes._draw(circle, 32, 32, generator).float() / 255
    distance = SHAPES["circle"](x, y).unsqueeze(1)
    inside, outside = (
        (images * mask).sum((2, 3)) / mask.sum((2, 3)) for mask in (distance < -0.2, distance > 0.2)
    )
    assert (inside - outside).min() > shapes.CONTRAST / 2


def test_classes_differ_in_shape_after_size_and_place_are_taken_away():
    axis = torch.linspace(-1.1, 1.1, 64)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    masks = torch.stack([(shape(x, y) < 0).flatten() for shape in SHAPES.values()])
    both = (masks[:, None] & masks).sum(-1)
    either = (masks[:, None] | masks).sum(-1)
    overlap = (both / either).fill_diagonal_(0)
    assert overlap.max() < 0.9 and masks.sum(1).min() > 400


def test_a_linear_classifier_on_pixels_is_better_than_chance_and_weak():
    dataset = shapes10(train=2000, test=500)
    x, x_test = (i.flatten(1).float() / 255 - 0.5 for i in (dataset.train_images, dataset.test_images))
    targets = torch.nn.functional.one_hot(dataset.train_labels, 10).float()
    weights = torch.linalg.solve(x @ x.T + 100 * torch.eye(len(x)), targets)
    accuracy = ((x_test @ x.T @ weights).argmax(1) == dataset.test_labels).float().mean()
    assert 0.1 < accuracy < 0.35
