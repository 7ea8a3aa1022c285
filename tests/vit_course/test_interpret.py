"""What the functions that look inside a model measure, each against a value computed another way."""

import pytest
import torch

from vit_course.interpret import (
    attention_rollout,
    hide_patches,
    mean_attention_distance,
    position_similarity,
)
from vit_course.vit import VisionTransformer


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
