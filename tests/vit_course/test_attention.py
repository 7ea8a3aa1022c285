"""Attention against torch's own two implementations."""

import pytest
import torch

from vit_course.attention import (
    MultiHeadAttention,
    split_heads,
)


def test_dropout_is_silent_in_evaluation_and_acts_in_training():
    attention = MultiHeadAttention(24, 3, attn_drop=0.5)
    x = torch.randn(2, 10, 24)
    attention.eval()
    torch.testing.assert_close(attention(x), attention(x))
    attention.train()
    assert not torch.allclose(attention(x), attention(x))


@pytest.mark.parametrize(
    "make", [lambda: MultiHeadAttention(64, 5), lambda: split_heads(torch.zeros(1, 2, 64), 5)]
)
def test_heads_that_do_not_divide_the_width_are_refused_by_numbers(make):
    with pytest.raises(
        ValueError, match=r"dim 64 is not divisible by num_heads 5; 1, 2, 4, 8, 16 heads would fit"
    ):
        make()
