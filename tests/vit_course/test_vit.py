"""The whole model against torchvision's, and its promises."""

import math

import pytest
import torch
import torch.nn.functional as F
import torchvision

from vit_course.extensions.weights import convert_torchvision
from vit_course.vit import VIT_SIZES, VisionTransformer, create_vit, vit_num_parameters

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


@pytest.mark.parametrize("name", VIT_SIZES)
def test_parameter_formula_equals_the_built_model(name):
    with torch.device("meta"):
        model = create_vit(f"{name}/16", img_size=224, num_classes=1000)
    size = {key: VIT_SIZES[name][key] for key in ("embed_dim", "depth")}
    expected = sum(p.numel() for p in model.parameters())
    assert vit_num_parameters(224, 16, 3, 1000, **size) == expected


def test_named_sizes_have_the_papers_parameter_counts():
    sizes = [VIT_SIZES[name] for name in "BLH"]
    counts = [vit_num_parameters(224, 16, 3, 1000, size["embed_dim"], size["depth"]) for size in sizes]
    assert counts == pytest.approx([86e6, 307e6, 632e6], rel=0.02)


@pytest.mark.parametrize("num_classes", [2, 10, 100])
def test_first_loss_of_a_zero_head_is_ln_k_exactly(num_classes):
    model = VisionTransformer(**SMALL, num_classes=num_classes)
    loss = F.cross_entropy(model(torch.randn(8, 3, 16, 16)).double(), torch.arange(8) % num_classes)
    assert loss.item() == pytest.approx(math.log(num_classes), abs=1e-12)


@pytest.mark.parametrize("pos_embed", POSITIONS)
def test_shuffled_patches_change_the_logits_only_where_positions_exist(pos_embed):
    torch.manual_seed(0)
    model = redrawn(VisionTransformer(**SMALL, pos_embed=pos_embed)).eval().double()
    images = torch.randn(2, 3, 16, 16, dtype=torch.double)
    mirrored = torch.cat([images[..., 4:], images[..., :4]], dim=-1)
    gap = (model(images) - model(mirrored)).abs().max().item()
    assert (gap < 1e-9) == (pos_embed == "none")


@pytest.mark.parametrize("cls", [True, False])
def test_encoding_patch_tokens_is_what_the_model_does_before_it_pools(cls):
    model = redrawn(VisionTransformer(**SMALL, class_token=cls, global_pool="avg")).eval()
    images = torch.randn(2, 3, 16, 16)
    tokens = model.encode(model.patch_embed(images))
    assert tokens.shape == (2, 16 + cls, 24)
    torch.testing.assert_close(model.head(tokens[:, int(cls) :].mean(dim=1)), model(images))


@pytest.mark.parametrize("name", ["B", "XL/16", "B/x"])
def test_unknown_names_are_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match="sizes: Nano, Micro, Ti"):
        create_vit(name)
