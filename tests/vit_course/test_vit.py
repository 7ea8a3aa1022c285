"""The whole model against torchvision's, and its promises."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
import torchvision
from safetensors.torch import save_file

from vit_course.interpret import equivariance_gap
from vit_course.vit import (
    VIT_SIZES,
    VisionTransformer,
    convert_torchvision,
    create_vit,
    init_head,
    load_weights,
    vit_flops,
    vit_num_parameters,
)

POSITIONS = ["learned", "2d", "sincos", "relative", "none"]
SMALL = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 3}


def torchvision_vit(image_size=32, patch_size=4, layers=3, heads=3, dim=48, representation_size=None):
    torch.manual_seed(0)
    model = torchvision.models.VisionTransformer(
        image_size,
        patch_size,
        layers,
        heads,
        dim,
        4 * dim,
        num_classes=10,
        representation_size=representation_size,
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    return model.eval()


@pytest.mark.parametrize("representation_size", [None, 40])
def test_logits_equal_torchvisions_on_copied_weights(representation_size):
    theirs = torchvision_vit(representation_size=representation_size)
    ours = VisionTransformer(
        embed_dim=48, depth=3, num_heads=3, representation_size=representation_size
    ).eval()
    ours.load_state_dict(convert_torchvision(theirs.state_dict()), strict=True)
    images = torch.randn(4, 3, 32, 32)
    assert (ours(images) - theirs(images)).abs().max().item() < 1e-5


def test_weights_of_the_vit_b_16_family_fit_by_name_and_shape():
    with torch.device("meta"):
        theirs = torchvision.models.vit_b_16()
        ours = create_vit("B/16", img_size=224, num_classes=1000)
    converted = convert_torchvision(theirs.state_dict())
    assert {n: v.shape for n, v in converted.items()} == {n: v.shape for n, v in ours.state_dict().items()}


def test_state_dict_uses_timms_names():
    names = set(VisionTransformer(**{**SMALL, "depth": 1}).state_dict())
    block = ["norm1", "norm2", "attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"]
    layers = ["patch_embed.proj", "norm", "head", *(f"blocks.0.{name}" for name in block)]
    assert names == {
        "cls_token",
        "pos_embed",
        *(f"{n}.{kind}" for n in layers for kind in ("weight", "bias")),
    }


def test_parameter_count_of_the_small_model_is_the_known_one():
    assert sum(p.numel() for p in VisionTransformer().parameters()) == 5_362_762


@pytest.mark.parametrize("name", VIT_SIZES)
def test_parameter_formula_equals_the_built_model(name):
    with torch.device("meta"):
        model = create_vit(f"{name}/16", img_size=224, num_classes=1000)
    size = {key: VIT_SIZES[name][key] for key in ("embed_dim", "depth")}
    expected = sum(p.numel() for p in model.parameters())
    assert vit_num_parameters(224, 16, 3, 1000, **size) == expected


def test_named_sizes_have_the_papers_parameter_counts():
    counts = {
        n: vit_num_parameters(224, 16, 3, 1000, VIT_SIZES[n]["embed_dim"], VIT_SIZES[n]["depth"])
        for n in "BLH"
    }
    assert counts["B"] / 1e6 == pytest.approx(86, rel=0.02)
    assert counts["L"] / 1e6 == pytest.approx(307, rel=0.02)
    assert counts["H"] / 1e6 == pytest.approx(632, rel=0.02)


def test_flops_of_the_small_model_are_the_known_ones():
    assert vit_flops(VisionTransformer()) / 1e9 == pytest.approx(0.730, abs=0.001)


@pytest.mark.parametrize("num_classes", [2, 10, 100])
def test_first_loss_of_a_zero_head_is_ln_k_exactly(num_classes):
    model = VisionTransformer(**SMALL, num_classes=num_classes)
    loss = F.cross_entropy(model(torch.randn(8, 3, 16, 16)).double(), torch.arange(8) % num_classes)
    assert loss.item() == pytest.approx(math.log(num_classes), abs=1e-12)


@pytest.mark.parametrize("pos_embed", POSITIONS)
@pytest.mark.parametrize(("pool", "cls"), [("token", True), ("avg", True), ("avg", False)])
def test_gradients_reach_every_trainable_parameter(pos_embed, pool, cls):
    model = VisionTransformer(**SMALL, pos_embed=pos_embed, global_pool=pool, class_token=cls)
    torch.nn.init.normal_(model.head.weight)
    model(torch.randn(2, 3, 16, 16)).square().sum().backward()
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad and p.numel()]
    silent = [name for name, p in trained if p.grad is None or not bool(p.grad.any())]
    assert silent == []


def test_encoder_without_positions_is_permutation_equivariant():
    model = VisionTransformer(**SMALL).double().eval()
    tokens, order = torch.randn(2, 17, 24, dtype=torch.double), torch.randperm(17)
    assert equivariance_gap(model.blocks, tokens, order) < 1e-12


@pytest.mark.parametrize("pos_embed", POSITIONS)
def test_shuffled_patches_change_the_logits_only_where_positions_exist(pos_embed):
    torch.manual_seed(0)
    model = VisionTransformer(**SMALL, pos_embed=pos_embed).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.double()
    images = torch.randn(2, 3, 16, 16, dtype=torch.double)
    mirrored = torch.cat([images[..., 4:], images[..., :4]], dim=-1)
    gap = (model(images) - model(mirrored)).abs().max().item()
    assert (gap < 1e-9) == (pos_embed == "none")


def test_attention_beside_the_logits_has_one_tensor_per_layer():
    model = VisionTransformer(**SMALL).eval()
    images = torch.randn(2, 3, 16, 16)
    logits, attentions = model(images, return_attention=True)
    assert torch.equal(logits, model(images))
    assert [tuple(a.shape) for a in attentions] == [(2, 3, 17, 17)] * 2


def test_non_square_grey_images_work():
    model = VisionTransformer(
        img_size=(12, 20), patch_size=(3, 4), in_chans=1, embed_dim=24, depth=1, num_heads=2
    )
    assert model(torch.randn(2, 1, 12, 20)).shape == (2, 10)
    assert model.pos_embed.shape == (1, 21, 24)


def test_zeroed_head_stays_trainable_and_is_the_same_layer():
    head = torch.nn.Linear(4, 3)
    assert init_head(head) is head
    assert not bool(head.weight.any() or head.bias.any())
    assert head.weight.requires_grad


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"patch_size": 5}, "not divisible by patch_size 5x5"),
        ({"num_heads": 5}, "dim 192 is not divisible by num_heads 5"),
        ({"global_pool": "max"}, "'max'"),
        ({"class_token": False}, "class_token=False"),
        ({"pos_embed": "3d"}, "'3d' is unknown"),
    ],
)
def test_bad_options_raise_a_value_error_that_names_them(options, words):
    with pytest.raises(ValueError) as caught:
        VisionTransformer(**options)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["B", "XL/16", "B/x"])
def test_unknown_names_are_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match="sizes: Nano, Micro, Ti"):
        create_vit(name)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_saved_weights_come_back(tmp_path, suffix):
    model = VisionTransformer(**SMALL)
    path = tmp_path / f"weights{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(model.state_dict(), path)
    loaded = load_weights(path)
    assert all(torch.equal(loaded[name], value) for name, value in model.state_dict().items())


def test_a_pickle_that_is_no_tensor_is_never_executed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    torch.save({"weights": Trap()}, tmp_path / "trap.pth")
    with pytest.raises(Exception, match="weights_only|Weights only"):
        load_weights(tmp_path / "trap.pth")
    assert not (tmp_path / "executed").exists()


# -- positions in every layer


@pytest.mark.parametrize("kind", ["learned", "2d", "sincos"])
@pytest.mark.parametrize("where", ["every", "shared"])
def test_positions_of_every_layer_equal_adding_them_by_hand(kind, where):
    torch.manual_seed(0)
    model = VisionTransformer(**{**SMALL, "depth": 3}, pos_embed=kind, pos_embed_at=where).eval()
    images = torch.randn(2, 3, 16, 16)
    tables = [model.pos_embed] * 2 if where == "shared" else list(model.layer_pos)
    tables = [table() if callable(table) else table for table in tables]
    z = model.blocks[0](model.embed(images))
    for block, table in zip(list(model.blocks)[1:], tables, strict=True):
        z = block(z + table)
    assert torch.allclose(model.blocks(model.embed(images)), z, atol=1e-6)


def test_layers_share_one_table_or_have_one_each():
    def count(where):
        model = VisionTransformer(**SMALL, pos_embed_at=where)
        return sum(parameter.numel() for parameter in model.parameters())

    assert count("shared") == count("stem")
    assert count("every") == count("stem") + 17 * 24  # a second layer's table: 16 patches and the CLS token


@pytest.mark.parametrize("where", ["every", "shared"])
def test_a_copied_model_has_positions_of_its_own(where):
    model = VisionTransformer(**SMALL, pos_embed_at=where)
    torch.nn.init.normal_(model.head.weight)
    images = torch.randn(2, 3, 16, 16)
    before, twin = model(images), copy.deepcopy(model)
    assert torch.equal(twin(images), before)
    with torch.no_grad():
        (twin.pos_embed if where == "shared" else twin.layer_pos[0]).normal_()
    assert torch.equal(model(images), before)
    assert not torch.allclose(twin(images), before, atol=1e-3)


@pytest.mark.parametrize("where", ["every", "shared"])
def test_attention_and_logits_agree_with_positions_in_every_layer(where):
    model = VisionTransformer(**SMALL, pos_embed_at=where).eval()
    images = torch.randn(2, 3, 16, 16)
    logits, attentions = model(images, return_attention=True)
    assert torch.allclose(logits, model(images), atol=1e-6) and len(attentions) == 2


@pytest.mark.parametrize("kind", ["none", "relative"])
def test_positions_without_a_table_cannot_be_added_in_every_layer(kind):
    with pytest.raises(ValueError, match="no table to add"):
        VisionTransformer(**SMALL, pos_embed=kind, pos_embed_at="every")
