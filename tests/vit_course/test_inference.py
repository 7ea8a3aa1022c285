"""What one does with features: by hand on small numbers, and photos as phones save them."""

import pytest
import torch
from PIL import Image
from torch import nn

from vit_classroom.exhibits.two_towers import TextTower, contrast, fit_towers
from vit_classroom.sample_photos import (
    KINDS,
    LIGHTS,
    draw_photo,
    draw_photos,
    in_coloured_light,
    write_photos,
)
from vit_course.data import load_dataset
from vit_course.extensions.backbone import Backbone
from vit_course.inference import (
    Reader,
    fit_linear,
    share_interval,
    zero_shot,
)
from vit_course.vit import VisionTransformer


def test_a_linear_fit_has_no_slope_left():
    generator = torch.Generator().manual_seed(0)
    features, labels = torch.randn(60, 5, generator=generator), torch.arange(60) % 3
    layer = fit_linear(features, labels, decay=0.1).requires_grad_(True)
    loss = nn.functional.cross_entropy(layer(features), labels) + 0.1 * layer.weight.square().sum()
    slopes = torch.autograd.grad(loss, list(layer.parameters()))
    assert max(slope.abs().max() for slope in slopes) < 1e-3


def test_a_reader_gives_what_the_head_reads_and_the_mean_of_the_patches():
    torch.manual_seed(0)
    model = VisionTransformer(16, 4, embed_dim=24, depth=2, num_heads=3).eval()
    images = torch.randint(0, 256, (3, 3, 16, 16), dtype=torch.uint8)
    reader = Reader(Backbone(model, (0.5,) * 3, (0.5,) * 3))
    features = reader(images)
    assert not reader.training  # whoever gives it its mode back leaves the backbone as it was
    with torch.no_grad():
        tokens = model.encode(model.patch_embed(images / 127.5 - 1))
    torch.testing.assert_close(features, torch.cat([tokens[:, 0], tokens[:, 1:].mean(dim=1)], dim=1))


def test_two_towers_name_a_combination_that_they_have_never_seen():
    torch.manual_seed(0)
    shape, light = torch.arange(90) % 3, torch.arange(90) // 3 % 3
    features = torch.cat([torch.eye(3)[shape], torch.eye(3)[light]], dim=1) + 0.05 * torch.randn(90, 6)
    colours, shapes = ("red", "green", "blue"), ("star", "ring", "heart")
    texts = [f"{colours[j]} {shapes[i]}" for i, j in zip(shape, light, strict=True)]
    kinds = 3 * shape + light
    seen = (kinds != 0).nonzero()[:, 0]  # never a red star
    pictures, words = fit_towers(features[seen], [texts[i] for i in seen], kinds[seen], steps=150, dim=16)
    classes = words([f"{colour} {shape}" for shape in shapes for colour in colours])
    found = zero_shot(pictures(features[kinds == 0]), classes[:, None]).argmax(dim=1)
    assert (found == 0).double().mean() > 0.8


def test_the_contrast_is_smallest_where_each_picture_has_its_own_text():
    own = torch.eye(3)
    assert contrast(own, own, 0.1) < 0.01 < contrast(own, own.roll(1, 0), 0.1)


def test_a_text_tower_names_the_words_that_it_does_not_know():
    with pytest.raises(ValueError, match="these words were not learned: blue, unicorn"):
        TextTower(["a", "red", "star"])(["a red star", "a blue unicorn"])


@pytest.mark.parametrize(("right", "low", "high"), [(9, 0.596, 0.982), (0, 0.0, 0.278), (10, 0.722, 1.0)])
def test_the_interval_of_a_share_is_wilsons(right, low, high):
    assert share_interval(right, 10) == pytest.approx((low, high), abs=1e-3)


# -- photos of one's own


def test_thirty_photos_are_read_whatever_a_phone_made_of_them_and_each_is_what_it_is_said_to_be(tmp_path):
    odd = write_photos(tmp_path)
    photos = load_dataset(tmp_path, image_size=32)
    assert photos.classes == KINDS and photos.train_images.shape == (20, 3, 32, 32)
    assert photos.test_images.shape == (10, 3, 32, 32)
    assert {what for what in odd.values()} == {
        "turned by a note in the file", "grey", "CMYK, for print", "7.7 million pixels", "with transparency",
        "a panorama, three times as wide as high",
    }  # fmt: skip
    found = {name: Image.open(tmp_path / name) for name in odd}
    modes = {name: picture.mode for name, picture in found.items()}
    assert modes["train/leaf/01.jpg"] == "L" and modes["train/leaf/04.jpg"] == "CMYK"
    assert modes["train/leaf/07.png"] == "RGBA"
    assert found["train/mug/05.jpg"].size == (3200, 2400) and found["train/mug/08.jpg"].size == (1200, 400)
    assert found["train/key/00.jpg"].getexif()[0x0112] == 6


def test_the_same_seed_draws_the_same_photos_and_says_where_things_are():
    images, labels, masks = draw_photos(3, (32, 32), seed=4, masks=(8, 8))
    again, _ = draw_photos(3, (32, 32), seed=4)
    assert torch.equal(images, again) and labels.tolist() == [0, 1, 2]
    assert masks.shape == (3, 8, 8) and all(0.05 < mask.double().mean() < 0.6 for mask in masks)
    for image, mask in zip(images.double().mean(dim=1), masks, strict=True):
        patches = nn.functional.avg_pool2d(image[None], 4)[0]
        assert patches[mask].mean() > patches[~mask].mean() + 20  # things are lighter than the ground


def test_coloured_light_takes_from_the_other_channels_and_is_counted():
    torch.manual_seed(0)
    white = torch.full((40, 3, 2, 2), 200, dtype=torch.uint8)
    lit, kinds = in_coloured_light(white, torch.arange(40) % 10)
    assert torch.equal(kinds // 4, torch.arange(40) % 10)
    for picture, light in zip(lit, kinds % 4, strict=True):
        want = torch.tensor(list(LIGHTS.values())[light]) * 200
        assert torch.equal(picture[:, 0, 0], want.byte())


def test_an_unknown_kind_of_thing_is_refused():
    with pytest.raises(ValueError, match="'cup' is none of key, leaf, mug"):
        draw_photo("cup", None, (64, 64))
