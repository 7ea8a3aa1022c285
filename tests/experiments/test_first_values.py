"""First values that know pictures."""

import pytest
import torch

from experiments.first_values import set_first_values, start_silent, start_whitened
from vit_course.data import normalize, shapes10
from vit_course.vit import VisionTransformer

DATA = shapes10(train=200, test=20)
IMAGES = normalize(DATA.train_images, *DATA.channel_stats())


def small_vit(**options):
    torch.manual_seed(0)
    return VisionTransformer(patch_size=8, **{"embed_dim": 32, "depth": 2, "num_heads": 2, **options})


def test_a_whitened_start_holds_the_filters_then_their_negatives_then_what_was_drawn():
    model = VisionTransformer(patch_size=4, embed_dim=128, depth=1, num_heads=4)
    drawn = model.patch_embed.proj.weight.clone()
    start_whitened(model, IMAGES)
    weight = model.patch_embed.proj.weight
    assert torch.equal(weight[48:96], -weight[:48]) and torch.equal(weight[96:], drawn[96:])
    assert not torch.equal(weight[:48], drawn[:48])


def test_a_silent_start_makes_every_block_the_identity():
    model = small_vit()
    start_silent(model)
    tokens = torch.randn(2, 17, 32)
    assert torch.equal(model.blocks(tokens), tokens)


def test_a_mimetic_start_lets_tokens_look_at_their_likes():
    model = small_vit(embed_dim=64, num_heads=2)
    set_first_values(model, ["mimetic"], IMAGES)
    for block in model.blocks:
        wq, wk, wv = block.attn.qkv.weight.chunk(3)
        for q, k in zip(wq.chunk(2), wk.chunk(2), strict=True):
            assert (q.T @ k).diagonal().mean().item() > 0.2
        assert (block.attn.proj.weight @ wv).diagonal().mean().item() == pytest.approx(-0.4, abs=0.1)
    with pytest.raises(ValueError, match="'best' are unknown: use whitened, mimetic, silent"):
        set_first_values(model, ["best"], IMAGES)
