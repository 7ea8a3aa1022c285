"""The hybrid: a backbone of the right shape, a Transformer on its map, and errors that name the numbers."""

import pytest
import torch
from torch import nn
from torchvision.models.resnet import BasicBlock

from vit_course.extensions.hybrid import (
    HybridViT,
    create_hybrid,
    feature_map_shape,
    make_backbone,
    receptive_field,
    stage_blocks,
)
from vit_course.resnet import small_resnet
from vit_course.vit import create_vit, vit_flops

SMALL = {"width": 4, "embed_dim": 12, "depth": 2, "num_heads": 3, "num_classes": 5}


def blocks_of(backbone):
    return [module for module in backbone if isinstance(module, BasicBlock)]


@pytest.mark.parametrize("lengthen", [False, True])
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("size", [(32, 32), (16, 24)])
def test_the_backbone_gives_the_shape_of_the_formula(size, stages, lengthen):
    backbone = make_backbone(width=4, stages=stages, lengthen=lengthen).eval()
    shape = tuple(backbone(torch.randn(2, 3, *size)).shape)
    assert shape == (2, *feature_map_shape(size, 4, stages, lengthen))


def test_the_last_stage_gives_its_blocks_to_the_one_before():
    assert stage_blocks(4, 2) == [2, 2, 2, 2]
    assert stage_blocks(4, 2, lengthen=True) == [2, 2, 4]
    assert stage_blocks(2, 1, lengthen=True) == [2]


def test_three_stages_are_the_small_resnet_without_its_head():
    torch.manual_seed(0)
    backbone, resnet = make_backbone(stages=3).eval(), small_resnet().eval()
    resnet[: len(backbone)].load_state_dict(backbone.state_dict())
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(backbone(images), resnet[:-3](images))


def test_convolutions_are_drawn_as_in_the_resnets():
    torch.manual_seed(0)
    weight = make_backbone()[0].weight
    assert weight.std().item() == pytest.approx((2 / (16 * 9)) ** 0.5, rel=0.1)


@pytest.mark.parametrize(
    ("lengthen", "layers"),
    [
        (False, [(3, 1)] * 3 + [(3, 2), (3, 1)] * 3),
        (True, [(3, 1)] * 3 + [(3, 2), (3, 1)] * 2 + [(3, 1)] * 2),
    ],
)
def test_no_pixel_outside_the_receptive_field_has_a_gradient(lengthen, layers):
    torch.manual_seed(0)
    backbone = make_backbone(lengthen=lengthen).eval()
    images = torch.rand(1, 3, 96, 96, requires_grad=True)
    maps = backbone(images)
    maps[0, :, maps.shape[2] // 2, maps.shape[3] // 2].sum().backward()
    seen = images.grad.abs().sum(dim=(0, 1)) > 0
    # A ReLU may close one pixel at each rim.
    assert receptive_field(layers) - 2 <= seen.any(dim=1).sum().item() <= receptive_field(layers)


@pytest.mark.parametrize(
    ("name", "grid"), [("R-Nano/8", (4, 4)), ("R-Nano/4", (8, 8)), ("R-Micro/8", (4, 4))]
)
def test_a_hybrid_has_the_tokens_that_its_name_promises(name, grid):
    model = create_hybrid(name).eval()
    logits, attentions = model(torch.randn(2, 3, 32, 32), return_attention=True)
    tokens = grid[0] * grid[1] + 1
    assert logits.shape == (2, 10)
    assert model.grid_size == grid
    assert model.pixels_per_token == 32 // grid[0] == int(name.split("/")[1])
    assert len(attentions) == len(model.vit.blocks)
    assert attentions[0].shape == (2, 3, tokens, tokens)


def test_the_forward_pass_is_backbone_then_transformer_and_gradients_reach_every_parameter():
    torch.manual_seed(0)
    model, images = HybridViT(16, **SMALL), torch.randn(4, 3, 16, 16)
    nn.init.normal_(model.vit.head.weight)
    model(images).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []
    model.eval()
    torch.testing.assert_close(model(images), model.vit(model.backbone(images)))


def test_a_hybrid_has_as_much_transformer_as_the_vit_of_its_size():
    hybrid, vit = create_hybrid("R-Ti/4"), create_vit("Ti/4")
    encoder = [sum(p.numel() for p in blocks.parameters()) for blocks in (hybrid.vit.blocks, vit.blocks)]
    assert encoder[0] == encoder[1]
    assert vit_flops(hybrid.vit) - vit_flops(vit) == 2 * 64 * 192 * (64 - 3 * 16)


def test_options_reach_backbone_and_transformer():
    options = {"num_classes": 7, "pos_embed": "sincos", "drop_path_rate": 0.1}
    options |= {"global_pool": "avg", "class_token": False}
    model = create_hybrid("R-Nano/8", img_size=(16, 32), in_chans=1, width=8, blocks=2, **options)
    assert model(torch.randn(2, 1, 16, 32)).shape == (2, 7)
    assert (model.grid_size, model.num_prefix_tokens) == ((2, 4), 0)
    assert len(blocks_of(model.backbone)) == 8
    assert model.vit.blocks[-1].drop_path_rate == 0.1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: create_hybrid("Nano/8"), "'Nano/8' is not R-size/pixels per token"),
        (lambda: create_hybrid("R-Tiny/8"), "sizes: Nano"),
        (lambda: create_hybrid("R-Nano"), "'R-Nano' is not"),
        (lambda: create_hybrid("R-Nano/16"), "16 pixels per token in 'R-Nano/16' is neither 8"),
        (lambda: create_hybrid("R-Nano/8", img_size=30), "30x30 is not divisible by patch_size 8x8"),
        (lambda: HybridViT(32, patch_size=4), "patch_size 4 does not fit a hybrid"),
        (lambda: make_backbone(stages=1, lengthen=True), "stages 1 has none before"),
        (lambda: make_backbone(stages=0), "stages 0 and blocks 1 should both be at least 1"),
        (lambda: make_backbone(blocks=0), "stages 4 and blocks 0"),
        (lambda: HybridViT(16, **SMALL)(torch.zeros(2, 1, 16, 16)), "1 channels, but in_chans is 3"),
        (
            lambda: HybridViT(16, **SMALL)(torch.zeros(2, 3, 15, 16)),
            "15x16, but the model was built for 16x16",
        ),
        (lambda: HybridViT(16, **SMALL)(torch.zeros(3, 16, 16)), "use images[None]"),
    ],
)
def test_wrong_input_is_refused_with_the_numbers(make, words):
    with pytest.raises(ValueError) as error:
        make()
    assert words in str(error.value)
