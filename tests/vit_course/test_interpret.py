"""What the functions that look inside a model measure, each against a value computed another way."""

import pytest
import torch

from vit_course.interpret import (
    attention_rollout,
    equivariance_gap,
    filter_components,
    hide_patches,
    mean_attention_distance,
    position_similarity,
)
from vit_course.vit import VisionTransformer


def random_attention(batch, heads, tokens, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(batch, heads, tokens, tokens, generator=generator).softmax(dim=-1)


@pytest.mark.parametrize(
    ("side", "patch", "expected"), [(32, 4, 16.55), (224, 16, 116.5)], ids=["32 pixels", "224 pixels"]
)
def test_uniform_attention_has_the_known_mean_distance(side, patch, expected):
    grid = side // patch
    uniform = torch.full((2, 3, grid**2, grid**2), 1 / grid**2)
    distances = mean_attention_distance(uniform, (grid, grid), patch, num_prefix_tokens=0)
    assert distances.shape == (3,)
    assert distances.tolist() == pytest.approx([expected] * 3, rel=1e-3)


def test_what_goes_to_the_cls_token_is_dropped_and_not_made_up_for():
    uniform = torch.full((1, 1, 65, 65), 1 / 65)
    without = torch.full((1, 1, 64, 64), 1 / 64)
    expected = mean_attention_distance(without, (8, 8), 4, num_prefix_tokens=0) * 64 / 65
    torch.testing.assert_close(mean_attention_distance(uniform, (8, 8), 4), expected)


def test_mean_distance_equals_the_sum_written_as_loops():
    attention = random_attention(2, 2, 2 + 6)
    total = [0.0, 0.0]
    for b in range(2):
        for h in range(2):
            for query in range(6):
                for key in range(6):
                    dy, dx = (query // 3 - key // 3) * 4, (query % 3 - key % 3) * 5
                    total[h] += attention[b, h, 2 + query, 2 + key].item() * (dy**2 + dx**2) ** 0.5 / 12
    assert mean_attention_distance(attention, (2, 3), (4, 5), 2).tolist() == pytest.approx(total, rel=1e-5)


def test_attention_to_oneself_has_distance_zero():
    identity = torch.eye(17).expand(1, 1, 17, 17)
    assert mean_attention_distance(identity, (4, 4), 8).item() == 0


def test_rollout_of_one_layer_is_half_attention_half_identity():
    attention = random_attention(2, 3, 5)
    expected = 0.5 * attention.mean(1) + 0.5 * torch.eye(5)
    torch.testing.assert_close(attention_rollout([attention]), expected)


def test_rollout_follows_every_path_from_the_last_layer_to_the_first():
    layers = [random_attention(2, 3, 4, seed) for seed in range(3)]
    half = [0.5 * layer.mean(1) + 0.5 * torch.eye(4) for layer in layers]
    expected = torch.einsum("bij,bjk,bkl->bil", half[2], half[1], half[0])
    torch.testing.assert_close(attention_rollout(layers), expected)


def test_rollout_rows_sum_to_one_for_every_image_of_the_batch():
    rollout = attention_rollout([random_attention(4, 2, 6, seed) for seed in range(5)])
    torch.testing.assert_close(rollout.sum(-1), torch.ones(4, 6))
    assert not torch.allclose(rollout[0], rollout[1])


def test_position_similarity_is_one_with_itself_and_symmetric():
    similarity = position_similarity(torch.randn(1, 1 + 12, 16), (3, 4))
    assert similarity.shape == (3, 4, 3, 4)
    assert similarity[1, 2, 1, 2].item() == pytest.approx(1)
    torch.testing.assert_close(similarity[0, 1, 2, 3], similarity[2, 3, 0, 1])


def test_filters_made_of_two_patterns_have_two_components():
    patterns = torch.randn(2, 3, 4, 4)
    filters = torch.einsum("dk,kcxy->dcxy", torch.randn(50, 2), patterns)
    components, shares = filter_components(filters, 5)
    assert components.shape == (5, 3, 4, 4)
    assert shares[:2].sum().item() == pytest.approx(1, abs=1e-5)
    gram = components[:2].flatten(1) @ components[:2].flatten(1).T
    torch.testing.assert_close(gram, torch.eye(2), atol=1e-5, rtol=0)
    rest = patterns.flatten(1) - patterns.flatten(1) @ components[:2].flatten(1).T @ components[:2].flatten(1)
    assert rest.abs().max().item() < 1e-4


def test_components_agree_with_the_eigenvectors_of_the_covariance():
    filters = torch.randn(40, 1, 3, 3)
    components, shares = filter_components(filters, 3)
    values, vectors = torch.linalg.eigh(torch.cov(filters.flatten(1).T))
    torch.testing.assert_close(shares, values.flip(0)[:3] / values.sum())
    agreement = (components.flatten(1) * vectors.flip(1)[:, :3].T).sum(1).abs()
    torch.testing.assert_close(agreement, torch.ones(3))


def test_attention_beside_the_fused_kernel_is_the_explicit_one():
    torch.manual_seed(0)
    model = VisionTransformer(img_size=16, embed_dim=24, depth=2, num_heads=3).eval()
    x = model.embed(torch.randn(2, 3, 16, 16))
    _, attentions = model.blocks(x, return_attention=True)
    for block, weights in zip(model.blocks, attentions, strict=True):
        q, k, _ = block.attn.qkv(block.norm1(x)).reshape(2, 17, 3, 3, 8).permute(2, 0, 3, 1, 4)
        torch.testing.assert_close(weights, (q @ k.transpose(-2, -1) / 8**0.5).softmax(-1))
        x = block(x)


def test_gap_of_an_encoder_that_numbers_its_tokens_is_seen():
    tokens = torch.randn(1, 4, 2)
    numbering = torch.arange(4.0)[None, :, None]
    assert equivariance_gap(lambda x: x + numbering, tokens, torch.tensor([1, 0, 2, 3])) == pytest.approx(1)
    assert equivariance_gap(lambda x: 2 * x, tokens, torch.tensor([1, 0, 2, 3])) == 0


def test_hidden_are_the_patches_with_the_highest_scores_of_each_picture_and_no_others():
    images, scores = torch.rand(2, 3, 8, 12) + 1, torch.rand(2, 6)
    hidden = hide_patches(images, scores, 2, 4)
    for picture in range(2):
        highest = sorted(range(6), key=lambda patch: -scores[picture, patch])[:2]
        for patch in range(6):
            row, column = divmod(patch, 3)
            here = (picture, slice(None), slice(4 * row, 4 * row + 4), slice(4 * column, 4 * column + 4))
            assert hidden[here].eq(0).all() if patch in highest else torch.equal(hidden[here], images[here])


def test_hiding_no_patch_changes_nothing_and_hiding_all_leaves_one_value():
    images, scores = torch.rand(2, 1, 6, 4), torch.rand(2, 4)
    assert torch.equal(hide_patches(images, scores, 0, (3, 2)), images)
    assert hide_patches(images, scores, 4, (3, 2), value=0.5).eq(0.5).all()


def test_hiding_patches_leaves_the_given_pictures_alone():
    images = torch.rand(1, 3, 4, 4)
    before = images.clone()
    hide_patches(images, torch.rand(1, 1), 1, 4)
    assert torch.equal(images, before)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: attention_rollout([]), "attentions is empty"),
        (lambda: attention_rollout([torch.zeros(1, 1, 3, 3)], 3), "3 prefix tokens of 3"),
        (lambda: mean_attention_distance(torch.zeros(1, 1, 17, 17), (4, 5), 4), "17 tokens are not 1 prefix"),
        (
            lambda: hide_patches(torch.zeros(2, 3, 8, 8), torch.zeros(2, 5), 1, 4),
            r"2 pictures of 2x2 patches",
        ),
        (
            lambda: hide_patches(torch.zeros(2, 3, 8, 8), torch.zeros(2, 4), 5, 4),
            "count 5 is not between 0 and 4",
        ),
    ],
)
def test_wrong_input_raises_a_value_error_that_names_the_numbers(call, words):
    with pytest.raises(ValueError, match=words):
        call()
