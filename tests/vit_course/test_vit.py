"""The whole model against torchvision's, and its promises."""

import math

import pytest
import torch
import torch.nn.functional as F
import torchvision

from vit_course.beyond.weights import convert_torchvision
from vit_course.interpret import equivariance_gap
from vit_course.vit import VIT_SIZES, VisionTransformer, create_vit, init_head, vit_flops, vit_num_parameters

POSITIONS = ["learned", "sincos", "none"]
SMALL = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 3}


def redrawn(model):
    """Draw all weights anew, so that no head of zeros hides a difference."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


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


def test_in_training_logits_and_attention_come_from_one_pass():
    model = redrawn(VisionTransformer(**SMALL, drop_rate=0.2, drop_path_rate=0.3)).train()
    images, results = torch.randn(8, 3, 16, 16), []
    for return_attention in (False, True):
        torch.manual_seed(3)  # a second attention would draw dropouts of its own
        results.append(model(images, return_attention))
    logits, attentions = results[1]
    torch.testing.assert_close(logits, results[0], rtol=0, atol=1e-5)
    assert not torch.allclose(logits, model.eval()(images), atol=1e-3)
    assert len(attentions) == 2


@pytest.mark.parametrize("cls", [True, False])
def test_encoding_patch_tokens_is_what_the_model_does_before_it_pools(cls):
    model = redrawn(VisionTransformer(**SMALL, class_token=cls, global_pool="avg")).eval()
    images = torch.randn(2, 3, 16, 16)
    tokens = model.encode(model.patch_embed(images))
    assert tokens.shape == (2, 16 + cls, 24)
    torch.testing.assert_close(model.head(tokens[:, int(cls) :].mean(dim=1)), model(images))


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
        ({"pos_embed": "2d"}, "use 'learned', 'sincos' or 'none'"),
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
