"""Beside full tuning: a probe that is kept, patches as segments, an untrained control, forms to ship."""

import pytest
import torch
from torch import nn

from vit_classroom.evidence.bodies import untrained
from vit_classroom.evidence.shipped_forms import measure_forms, shipped_forms
from vit_course.extensions.backbone import Backbone, load_backbone
from vit_course.extensions.trained import load_trained
from vit_course.inference import Reader, fit_probe, fit_standardised, overlap, patch_labels, probe, segment
from vit_course.vit import VisionTransformer


@pytest.fixture
def pictures():
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (30, 3, 16, 16), generator=generator, dtype=torch.uint8), torch.arange(
        30
    ) % 3


@pytest.fixture
def small():
    torch.manual_seed(0)
    model = VisionTransformer(16, 4, embed_dim=24, depth=2, num_heads=3).eval()
    return Backbone(model, (0.5,) * 3, (0.5,) * 3)


def test_a_kept_probe_gives_the_scores_of_the_probe_and_can_be_asked_again(pictures, small):
    images, labels = pictures
    reader = Reader(small)
    classifier = fit_probe(reader, images[:20], labels[:20])
    torch.testing.assert_close(classifier(images[20:]), probe(reader, images[:20], labels[:20], images[20:]))
    torch.testing.assert_close(classifier(images[29:]), classifier(images[20:])[-1:])
    assert not any(parameter.requires_grad for parameter in classifier[1].parameters())


def test_the_label_of_a_patch_is_that_of_most_of_its_pixels():
    masks = torch.zeros(1, 4, 8, dtype=torch.int64)
    masks[0, :, 6:] = 2
    masks[0, :2, :1], masks[0, 2:, :3] = 1, 1
    assert patch_labels(masks, (2, 2)).tolist() == [[0, 0, 1, 0]]


def test_segments_of_a_layer_that_reads_one_number_are_its_patches_at_the_size_of_the_picture():
    tokens = torch.zeros(1, 1 + 4, 2)
    tokens[0, 1:, 0] = torch.tensor([9.0, -9.0, -9.0, 9.0])
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    found = segment(layer, tokens, (2, 2), (8, 8))
    assert found.shape == (1, 2, 8, 8)
    corners = found.argmax(dim=1)[0][[1, 1, 6, 6], [1, 6, 1, 6]]
    assert corners.tolist() == [0, 1, 1, 0]


def test_a_linear_layer_on_patch_tokens_finds_a_bright_square(small):
    torch.manual_seed(0)
    images = torch.randint(0, 60, (24, 3, 16, 16), dtype=torch.uint8)
    masks = torch.zeros(24, 16, 16, dtype=torch.int64)
    for row, (image, mask) in enumerate(zip(images, masks, strict=True)):
        y, x = 4 * (row % 3), 4 * (row // 3 % 3)
        image[:, y : y + 8, x : x + 8] += 150
        mask[y : y + 8, x : x + 8] = 1
    tokens = small.tokens(images)
    layer = fit_standardised(tokens[:16, 1:].flatten(0, 1), patch_labels(masks[:16], (4, 4)).flatten())
    found = segment(layer, tokens[16:], (4, 4), (16, 16)).argmax(dim=1)
    assert overlap(found, masks[16:], 1) > 0.8
    assert overlap(masks, masks, 1) == 1 and overlap(1 - masks, masks, 1) == 0


@pytest.mark.parametrize("name", ["cifar-vit", "shapes-vit"])
def test_an_untrained_copy_has_the_parts_of_the_model_and_none_of_its_weights(name):
    trained = load_backbone(name).model
    control = untrained(trained)
    assert {n: v.shape for n, v in control.state_dict().items()} == {
        n: v.shape for n, v in trained.state_dict().items()
    }
    assert not any(torch.equal(v, trained.state_dict()[n]) for n, v in control.state_dict().items())
    assert control.head.weight.abs().max() == 0 and (control.norm.weight == 1).all()
    assert 0.01 < control.blocks[0].attn.qkv.weight.std() < 0.03 and control.pos_embed.std() < 0.03


def test_the_forms_in_which_a_model_is_shipped_agree_and_are_measured(tmp_path):
    trained = load_trained("shapes-vit")
    images = torch.randint(0, 256, (16, 3, *trained.img_size), dtype=torch.uint8)
    labels = trained.predict(images).argmax(dim=1)
    rows = measure_forms(shipped_forms(trained, tmp_path), images, labels, repeats=1)
    assert [row["form"] for row in rows][:2] == ["float32", "bfloat16"]
    assert rows[0]["accuracy"] == rows[0]["agreement"] == 1
    assert all(row["agreement"] >= 0.75 and row["ms for one"] > 0 and row["a second"] > 0 for row in rows)
    if len(rows) == 4:
        assert rows[2]["agreement"] == 1 and rows[3]["MB"] < 0.6 * rows[2]["MB"]
