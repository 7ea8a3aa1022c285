"""Tests of `vit_course.extensions.transfer`: heads, resolutions, freezing, rates, and torchvision's weights."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision.models import VisionTransformer as TorchvisionViT

from vit_classroom.evidence.bodies import load_body
from vit_classroom.evidence.selected_classes import select_classes
from vit_course.data import shapes10
from vit_course.embeddings import resample_pos_embed, sincos_2d
from vit_course.extensions.backbone import build_backbone, load_backbone
from vit_course.extensions.positions import with_positions
from vit_course.extensions.transfer import (
    change_resolution,
    freeze,
    replace_head,
    resize_pictures,
)
from vit_course.optim import layer_scale
from vit_course.vit import VisionTransformer


def small_vit(positions: tuple[str, str] | None = None, **options) -> VisionTransformer:
    torch.manual_seed(0)
    sizes = {"img_size": (16, 24), "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 3}
    model = VisionTransformer(**{**sizes, "num_classes": 7, **options})
    if positions:
        with_positions(model, *positions)
    nn.init.normal_(model.head.weight)
    return model.eval()


def test_layer_scales_fall_from_the_head_to_the_embeddings():
    steps = {"head.weight": 0, "pre_logits.fc.weight": 0, "blocks.2.mlp.fc1.weight": 1}
    steps |= {"blocks.0.norm1.weight": 3, "vit.blocks.2.attn.qkv.weight": 1}
    steps |= {"pos_drop.pos_embed.rows": 4, "backbone.conv1.weight": 4}
    for name, count in steps.items():
        assert layer_scale(name, 3, 0.5) == 0.5**count, name


@pytest.mark.parametrize("name", ["layer1.0.conv1.weight", "blocks.3.norm1.weight", "fc.weight"])
def test_a_name_of_no_layer_is_refused(name):
    with pytest.raises(ValueError, match="in no layer of a ViT with 3 blocks"):
        layer_scale(name, 3, 0.75)


def test_every_parameter_of_a_vit_has_a_layer():
    places = [(kind, at) for kind in ("learned", "2d", "sincos") for at in ("stem", "every", "shared")]
    for positions in (None, ("relative", "stem"), *places):
        for name, _ in small_vit(positions, representation_size=8).named_parameters():
            assert 0 < layer_scale(name, 2, 0.5) <= 1


def test_learned_positions_are_interpolated_in_two_dimensions_and_the_cls_vector_is_kept():
    model = small_vit()
    before = model.pos_embed.detach().clone()
    assert change_resolution(model, (32, 20)) is model
    assert model.patch_embed.img_size == (32, 20)
    assert model.patch_embed.grid_size == (8, 5) and model.patch_embed.num_patches == 40
    torch.testing.assert_close(model.pos_embed.detach(), resample_pos_embed(before, (4, 6), (8, 5)))
    assert torch.equal(model.pos_embed[:, 0], before[:, 0])
    assert model(torch.randn(2, 3, 32, 20)).shape == (2, 7)
    assert isinstance(model.pos_embed, nn.Parameter) and model.pos_embed.requires_grad


def test_a_frozen_learned_table_is_still_interpolated_and_stays_frozen():
    model = freeze(small_vit(), ("head",))
    before = model.pos_embed.clone()
    change_resolution(model, 24)
    torch.testing.assert_close(model.pos_embed, resample_pos_embed(before, (4, 6), (6, 6)))
    assert not model.pos_embed.requires_grad


def tables_of(model: VisionTransformer) -> list[nn.Parameter]:
    """List what is added in the stem and in front of each later block."""
    return [model.pos_embed, *(block.pos_embed for block in list(model.blocks)[1:])]


@pytest.mark.parametrize("where", ["every", "shared"])
def test_positions_that_are_added_in_every_layer_are_interpolated_too(where):
    model = small_vit(("learned", where), depth=3)
    before = [table.detach().clone() for table in tables_of(model)]
    change_resolution(model, (32, 20))
    assert model(torch.randn(2, 3, 32, 20)).shape == (2, 7)
    tables = tables_of(model)
    assert len({id(table) for table in tables}) == (3 if where == "every" else 1)
    torch.testing.assert_close(
        [table.detach() for table in tables], [resample_pos_embed(b, (4, 6), (8, 5)) for b in before]
    )


def test_sincos_positions_are_computed_anew():
    model = change_resolution(small_vit(pos_embed="sincos"), 32)
    torch.testing.assert_close(model.pos_embed[0, 1:], sincos_2d((8, 8), 24))
    assert not model.pos_embed.requires_grad
    assert model.state_dict().keys() == small_vit(pos_embed="sincos").state_dict().keys()


def test_a_model_without_positions_changes_its_resolution_too():
    model = change_resolution(small_vit(pos_embed="none", class_token=False, global_pool="avg"), 20)
    assert model(torch.randn(1, 3, 20, 20)).shape == (1, 7)


@pytest.mark.parametrize(
    "positions", [("2d", "stem"), ("2d", "every"), ("2d", "shared"), ("relative", "stem")]
)
def test_positions_without_a_table_are_refused_and_nothing_changes(positions):
    model = small_vit(positions)
    with pytest.raises(ValueError, match="use pos_embed 'learned', 'sincos' or 'none'"):
        change_resolution(model, 32)
    assert model.patch_embed.grid_size == (4, 6)
    assert model(torch.randn(1, 3, 16, 24)).shape == (1, 7)


def test_a_size_that_patches_do_not_fill_is_refused():
    model = small_vit()
    with pytest.raises(ValueError, match="not divisible by patch_size"):
        change_resolution(model, 30)
    assert model.patch_embed.img_size == (16, 24)


def test_the_body_is_loaded_and_the_head_is_not():
    source, target = small_vit(), small_vit(num_classes=3, representation_size=8)
    nn.init.normal_(source.cls_token)
    head = target.head.weight.clone()
    load_body(target, source.state_dict())
    assert torch.equal(target.head.weight, head)
    images = torch.randn(2, 3, 16, 24)
    features = [model.norm(model.blocks(model.embed(images))) for model in (target, source)]
    torch.testing.assert_close(*features)


def test_weights_that_do_not_fit_are_named_and_nothing_is_loaded():
    target = small_vit()
    before = target.cls_token.clone()
    with pytest.raises(ValueError, match=r"pos_embed is \(1, 17, 24\).*\(1, 25, 24\).*change_resolution"):
        load_body(target, small_vit(img_size=16).state_dict())
    with pytest.raises(ValueError, match="blocks.2.norm1.weight is not in the model.* and 8 more"):
        load_body(target, small_vit(depth=3).state_dict())
    with pytest.raises(ValueError, match="cls_token is missing"):
        load_body(target, {})
    assert torch.equal(target.cls_token, before)


def test_selected_classes_are_relabelled_in_the_order_given():
    data = shapes10(train=200, test=100)
    part = select_classes(data, [7, 2])
    assert part.classes == (data.classes[7], data.classes[2])
    assert len(part.train_labels) == 40 and len(part.test_labels) == 20
    assert torch.equal(part.train_images[part.train_labels == 0], data.train_images[data.train_labels == 7])
    assert torch.equal(part.test_images[part.test_labels == 1], data.test_images[data.test_labels == 2])
    assert f"40 train / 20 test pictures of {data.classes[7]}, {data.classes[2]}" in part.provenance


@pytest.mark.parametrize("classes", [[], [10], [-1], [3, 3]])
def test_classes_that_are_not_there_are_refused(classes):
    with pytest.raises(ValueError, match="different indices from 0 to 9"):
        select_classes(shapes10(train=20, test=10), classes)


def test_resized_pictures_stay_uint8_and_say_so():
    data = shapes10(train=20, test=10)
    large = resize_pictures(data, (48, 40))
    assert large.train_images.shape == (20, 3, 48, 40) and large.train_images.dtype == torch.uint8
    assert large.provenance.endswith("resized to 48x40")
    assert torch.equal(large.test_labels, data.test_labels)
    back = resize_pictures(large, 32)
    assert (back.train_images.float() - data.train_images.float()).abs().mean() < 4
    assert resize_pictures(data, 32) is data


def test_a_picture_of_one_colour_keeps_it_and_sharp_edges_do_not_wrap_around():
    data = shapes10(train=10, test=10)
    data.train_images[0] = 77
    data.train_images[1, :, :, :16], data.train_images[1, :, :, 16:] = 0, 255
    large = resize_pictures(data, 48).train_images
    assert large[0].eq(77).all()
    assert large[1, :, :, :16].max() < 30 and large[1, :, :, -16:].min() > 225


def torchvision_vit(**options) -> TorchvisionViT:
    torch.manual_seed(1)
    sizes = {"image_size": 24, "patch_size": 8, "num_layers": 2, "num_heads": 2}
    sizes |= {"hidden_dim": 128, "mlp_dim": 256, "num_classes": 6}
    model = TorchvisionViT(**{**sizes, **options})
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1)
    return model.eval()


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("hidden", [None, 48])
def test_weights_saved_from_torchvision_give_the_same_logits(tmp_path, suffix, hidden):
    theirs = torchvision_vit(representation_size=hidden)
    path = tmp_path / f"vit{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(theirs.state_dict(), path)
    ours = load_backbone(path, num_heads=2).model
    images = torch.randn(3, 3, 24, 24)
    assert torch.allclose(ours(images), theirs(images), atol=1e-5)


def test_the_number_of_heads_is_asked_for_where_torchvision_has_published_no_such_model():
    theirs = torchvision_vit(num_heads=4)
    images = torch.randn(3, 3, 24, 24)
    ours = build_backbone(theirs.state_dict(), num_heads=4).model(images)
    assert torch.allclose(ours, theirs(images), atol=1e-5)
    with pytest.raises(ValueError, match="or give num_heads"):
        build_backbone(theirs.state_dict())


def test_torchvision_weights_take_another_resolution_and_head():
    weights = {name: value for name, value in torchvision_vit().state_dict().items() if "head" not in name}
    model = change_resolution(build_backbone(weights, num_heads=2).model, 48)
    logits = replace_head(model, 10)(torch.randn(2, 3, 48, 48))
    assert logits.shape == (2, 10) and logits.eq(0).all()
