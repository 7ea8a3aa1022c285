"""Parts of later years: their definitions by hand, timm's numbers where timm is there, whole in every copy."""

import copy

import pytest
import torch
from torch import nn

from vit_classroom.evidence import changed_models
from vit_course.attention import split_heads
from vit_course.extensions import modern
from vit_course.vit import VisionTransformer, create_vit

SMALL = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 3, "num_heads": 3}
PARTS = dict.fromkeys(("qk_norm", "rope", "gated_mlp", "rms_norm", "attention_pool"), True)
PARTS |= {"layer_scale": 0.1, "registers": 4, "qkv_bias": False}


def drawn(model):
    """Draw all weights anew, so that no head or factor near zero hides a difference."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def images(side=16):
    return torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))


def heads(tokens=7, dim=8):
    return torch.randn(3, 2, 3, tokens, dim, dtype=torch.double, generator=torch.Generator().manual_seed(0))


def test_rope_equals_timms_axial_rotation():
    layers = pytest.importorskip("timm.layers")
    rope = layers.RotaryEmbeddingCat(
        8, temperature=100.0, in_pixels=False, feat_shape=None, rotate_half=True, dtype=torch.double
    )
    q, k, v = heads(tokens=7)
    table = rope.get_embed((2, 3), dtype=torch.double)
    want = [
        torch.cat([x[:, :, :1], layers.apply_rot_embed_cat(x[:, :, 1:], table, half=True)], 2) for x in (q, k)
    ]
    got = modern.rope_2d(q, k, v, (2, 3))
    torch.testing.assert_close(torch.stack(got[:2]), torch.stack(want), atol=1e-6, rtol=1e-5)
    assert got[2] is v


def test_attention_pool_equals_timms_latent_with_the_same_weights():
    layers = pytest.importorskip("timm.layers")
    torch.manual_seed(0)
    theirs = layers.AttentionPoolLatent(24, num_heads=3).double()
    theirs.mlp = None
    ours = modern.AttentionPool(24, 3).double()
    ours.kv, ours.proj = theirs.kv, theirs.proj
    ours.query.data = theirs.q(theirs.latent[0, 0]).reshape(3, 8).detach()
    tokens = torch.randn(2, 6, 24, dtype=torch.double)
    torch.testing.assert_close(ours(tokens), theirs(tokens[:, 1:]))


def test_merging_nothing_changes_no_logit():
    model = drawn(VisionTransformer(**SMALL))
    torch.testing.assert_close(changed_models.with_merging(model, 0)(images()), model(images()))


def test_merging_equal_tokens_changes_no_logit():
    model = drawn(VisionTransformer(**SMALL, pos_embed="none"))
    grey = torch.full((1, 3, 16, 16), 0.5)  # all patch tokens are one vector, so a token of size s is exact
    torch.testing.assert_close(changed_models.with_merging(model, 3)(grey), model(grey), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_changes_the_model_learns_and_is_whole_in_a_copy(part):
    plain = VisionTransformer(**SMALL)
    model = drawn(modern.modernize(copy.deepcopy(plain), **{part: PARTS[part]}))
    names = set(dict(model.named_parameters())) ^ set(dict(plain.named_parameters()))
    assert names or part in ("rope", "registers")
    model(images()).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    twin = modern.modernize(VisionTransformer(**SMALL), **{part: PARTS[part]}).eval()
    twin.load_state_dict(model.state_dict())
    torch.testing.assert_close(twin(images()), model(images()))
    torch.testing.assert_close(copy.deepcopy(model)(images()), model(images()))


def test_a_model_with_all_parts_returns_the_attention_that_it_used():
    model = drawn(modern.modernize(VisionTransformer(**SMALL, pos_embed="none"), **PARTS))
    logits, attentions = model(images(), return_attention=True)
    torch.testing.assert_close(logits, model(images()), atol=1e-4, rtol=1e-4)
    assert [a.shape for a in attentions] == [(2, 3, 21, 21)] * 3


def test_rotation_sees_the_order_of_patches_and_goes_on_at_another_resolution():
    model = drawn(modern.modernize(VisionTransformer(**SMALL, pos_embed="none"), rope=True))
    assert not torch.allclose(model(images()), model(images().flip(-1)), atol=1e-3)
    assert modern.at_resolution(model, (24, 16))(torch.randn(1, 3, 24, 16)).shape == (1, 10)
    assert model.blocks[0].attn.qkv.grid_size == (4, 4)


def test_a_stretched_rotation_turns_two_patches_of_the_fine_grid_as_far_as_one_of_the_coarse():
    q, k, v = torch.randn(3, 1, 2, 16, 8)
    coarse, fine = modern.rope_2d(q, k, v, (4, 4), 0), modern.rope_2d(q, k, v, (4, 4), 0, step=0.5)
    middle, every = torch.tensor([0, 2, 8, 10]), torch.tensor([0, 1, 4, 5])
    undone = modern.rope_2d(*(x[:, :, middle] for x in fine), (2, 2), 0, step=-1.0)
    torch.testing.assert_close(undone[0], q[:, :, middle])
    assert not torch.equal(coarse[0][:, :, every], fine[0][:, :, every])
    model = modern.modernize(VisionTransformer(**SMALL, pos_embed="none"), rope=True)
    other = modern.at_resolution(model, 32, stretch=True).blocks[0].attn.qkv
    assert other.step * other.grid_size[0] == model.blocks[0].attn.qkv.grid_size[0]


def test_positions_with_registers_follow_to_another_resolution():
    model = drawn(modern.modernize(VisionTransformer(**SMALL), registers=2))
    assert modern.at_resolution(model, 32)(images(32)).shape == (2, 10)
    with pytest.raises(ValueError, match="this model has no CLS token"):
        modern.modernize(VisionTransformer(**SMALL, class_token=False, global_pool="avg"), registers=2)


def test_largest_logit_is_that_of_the_attention():
    model = drawn(VisionTransformer(**SMALL))
    x = model.blocks[0].norm1(model.embed(images()))
    q, k, _ = (split_heads(part, 3) for part in model.blocks[0].attn.qkv(x).chunk(3, dim=-1))
    want = (q @ k.mT).abs().max().item() * 8**-0.5
    assert changed_models.largest_logits(model, images())[0] == pytest.approx(want)


def test_small_plus_model_of_dinov3_has_as_many_weights_as_timms():
    timm = pytest.importorskip("timm")
    ours = create_vit("S/16", img_size=224, pos_embed="none", num_classes=1000)
    ours = modern.modernize(ours, rope=True, layer_scale=1e-5, gated_mlp=True, registers=4, qkv_bias=False)
    theirs = timm.create_model("vit_small_plus_patch16_dinov3", num_classes=1000)
    count = [sum(p.numel() for p in model.parameters()) for model in (ours, theirs)]
    assert count[0] == count[1]
