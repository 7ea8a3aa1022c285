"""The files of the model and what looks inside: what they refuse, and what no answer of a lesson tries.

What their functions compute is tested by the answers of the lessons: right ones written in other ways must agree with
them, wrong ones must not (`tests/vit_classroom/test_checks.py`).
"""

import pytest
import torch
from torch import nn

from vit_course.attention import MultiHeadAttention, split_heads
from vit_course.embeddings import add_position, pool, prepend_cls_token, resample_pos_embed, sincos_2d
from vit_course.encoder import Encoder, Mlp
from vit_course.interpret import (
    attention_rollout,
    filter_components,
    hide_patches,
    mean_attention_distance,
    position_similarity,
)
from vit_course.optim import weight_decay_groups
from vit_course.patches import PatchEmbed, count_patches, patchify, unpatchify
from vit_course.vit import VisionTransformer

HEADS = "dim 64 is not divisible by num_heads 5; 1, 2, 4, 8, 16 heads would fit"
PICTURES = torch.zeros(2, 3, 8, 8)


@pytest.mark.parametrize(
    ("call", "numbers"),
    [
        (lambda: count_patches((30, 32), 4), ["30x32", "4x4", "height 30 leaves 2 rows", "height 32 would"]),
        (lambda: count_patches((32, 29), 4), ["width 29 leaves 1 column;", "width 28 would fit"]),
        (lambda: count_patches(4, 8), ["8x8 does not fit into img_size 4x4"]),
        (lambda: count_patches(32, 0), ["patch_size 0x0"]),
        (lambda: PatchEmbed(33, 4), ["33x33", "leaves 1 row"]),
        (lambda: patchify(torch.zeros(3, 32, 32), 4), ["got 3", "(3, 32, 32)", "images[None]"]),
        (lambda: patchify(torch.zeros(1, 3, 32, 30), 4), ["32x30", "width 30 leaves 2 columns"]),
        (lambda: unpatchify(torch.zeros(1, 12, 48), 4, (3, 5)), ["12 patches", "3x5 = 15"]),
        (lambda: unpatchify(torch.zeros(1, 12, 50), 4, (3, 4)), ["50", "4x4 = 16"]),
        (lambda: unpatchify(torch.zeros(12, 48), 4, (3, 4)), ["got 2", "(12, 48)"]),
        (lambda: PatchEmbed(32, 4)(torch.zeros(2, 1, 32, 32)), ["1 channels", "in_chans is 3", "in_chans=1"]),
        (lambda: PatchEmbed(32, 4)(torch.zeros(2, 3, 48, 32)), ["48x32", "32x32", "img_size=(48, 32)"]),
        (lambda: PatchEmbed(32, 4)(torch.zeros(3, 32, 32)), ["got 3", "images[None]"]),
        (lambda: prepend_cls_token(torch.zeros(1, 2, 4), torch.zeros(1, 1, 5)), ["width 4", "has 5"]),
        (lambda: pool(torch.zeros(1, 2, 4), "max"), ["'max' is unknown"]),
        (lambda: pool(torch.zeros(1, 2, 4), "token", num_prefix_tokens=0), ["needs a CLS token"]),
        (lambda: add_position(torch.zeros(2, 4, 8), torch.zeros(1, 5, 8)), ["(4, 8)", "(5, 8)"]),
        (lambda: sincos_2d((4, 4), 30), ["dim 30 is not divisible by 4"]),
        (
            lambda: resample_pos_embed(torch.zeros(1, 65, 4), (7, 7), (9, 9)),
            ["65 positions are not 1 prefix"],
        ),
        (lambda: MultiHeadAttention(64, 5), [HEADS]),
        (lambda: split_heads(torch.zeros(1, 2, 64), 5), [HEADS]),
        (lambda: attention_rollout([]), ["attentions is empty"]),
        (lambda: attention_rollout([torch.zeros(1, 1, 3, 3)], 3), ["3 prefix tokens of 3"]),
        (lambda: mean_attention_distance(torch.zeros(1, 1, 17, 17), (4, 5), 4), ["17 tokens are not 1 pre"]),
        (lambda: hide_patches(PICTURES, torch.zeros(2, 5), 1, 4), ["2 pictures of 2x2 patches"]),
        (lambda: hide_patches(PICTURES, torch.zeros(2, 4), 5, 4), ["count 5 is not between 0 and 4"]),
    ],
)
def test_wrong_input_raises_a_value_error_that_names_the_numbers(call, numbers):
    with pytest.raises(ValueError) as caught:
        call()
    assert [number for number in numbers if number not in str(caught.value)] == []


def test_patchify_keeps_the_dtype():
    assert patchify(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), 4).dtype == torch.uint8


def test_dropout_is_silent_in_evaluation_and_acts_in_training():
    attention = MultiHeadAttention(24, 3, attn_drop=0.5)
    x = torch.randn(2, 10, 24)
    attention.eval()
    torch.testing.assert_close(attention(x), attention(x))
    attention.train()
    assert not torch.allclose(attention(x), attention(x))


def test_drop_path_rate_grows_from_zero_to_the_last_block():
    rates = [block.drop_path_rate for block in Encoder(4, 24, 3, drop_path=0.3)]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_dropout_of_the_mlp_follows_both_layers():
    torch.manual_seed(0)
    mlp = Mlp(8, 4000, drop=0.5).train()
    assert 0.3 < (mlp(torch.randn(1, 500, 8)) == 0).float().mean().item() < 0.7
    hidden = mlp.drop(mlp.act(mlp.fc1(torch.randn(1, 8))))
    assert 0.4 < (hidden == 0).float().mean().item() < 0.6


def test_position_similarity_is_one_with_itself_and_symmetric():
    similarity = position_similarity(torch.randn(1, 1 + 12, 16), (3, 4))
    assert similarity.shape == (3, 4, 3, 4)
    assert similarity[1, 2, 1, 2].item() == pytest.approx(1)
    torch.testing.assert_close(similarity[0, 1, 2, 3], similarity[2, 3, 0, 1])


def test_attention_beside_the_fused_kernel_is_the_explicit_one():
    torch.manual_seed(0)
    model = VisionTransformer(img_size=16, embed_dim=24, depth=2, num_heads=3).eval()
    x = model.embed(torch.randn(2, 3, 16, 16))
    _, attentions = model.blocks(x, return_attention=True)
    for block, weights in zip(model.blocks, attentions, strict=True):
        q, k, _ = block.attn.qkv(block.norm1(x)).reshape(2, 17, 3, 3, 8).permute(2, 0, 3, 1, 4)
        torch.testing.assert_close(weights, (q @ k.transpose(-2, -1) / 8**0.5).softmax(-1))
        x = block(x)


def test_weight_matrices_alone_decay_and_every_trainable_parameter_is_in_one_group():
    model = nn.ModuleDict({"vit": VisionTransformer(16, 8, embed_dim=8, depth=1, num_heads=2)})
    model["stem"], model["norm_free"] = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)
    model["vit"].blocks[0].attn.qkv.weight.requires_grad_(False)
    decayed, kept = weight_decay_groups(model, 0.3)
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.3, 0.0)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = [[names[id(parameter)] for parameter in group["params"]] for group in (decayed, kept)]
    assert sorted(found[0] + found[1]) == sorted(n for n, p in model.named_parameters() if p.requires_grad)
    assert {"stem.weight", "norm_free.weight", "vit.head.weight", "vit.patch_embed.proj.weight"} < {*found[0]}
    assert {"vit.cls_token", "vit.pos_embed", "vit.norm.weight", "stem.bias"} < {*found[1]}
    assert not [name for name in found[0] if "norm1" in name or name.endswith("bias")]


def test_filter_components_are_the_eigenvectors_of_the_covariance_the_strongest_first():
    filters = torch.randn(40, 2, 3, 2, dtype=torch.float64) * torch.arange(1, 13).view(2, 3, 2) + 5
    components, shares = filter_components(filters, 4)
    values, vectors = torch.linalg.eigh(torch.cov(filters.flatten(1).T))
    assert components.shape == (4, 2, 3, 2)
    torch.testing.assert_close(shares, (values / values.sum()).flip(0)[:4])
    flat = components.flatten(1)
    torch.testing.assert_close((flat @ vectors.flip(1)[:, :4]).abs(), torch.eye(4, dtype=torch.float64))
