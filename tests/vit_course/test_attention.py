"""Attention against torch's own two implementations."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vit_course.attention import (
    MultiHeadAttention,
    attention_flops,
    merge_heads,
    scaled_dot_product_attention,
    split_heads,
)


@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (2, 3, 2)])
def test_attention_equals_torchs_for_any_leading_axes(leading):
    q, k, v = torch.randn(*leading, 5, 8), torch.randn(*leading, 7, 8), torch.randn(*leading, 7, 4)
    output, weights = scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(output, F.scaled_dot_product_attention(q, k, v))
    torch.testing.assert_close(weights.sum(-1), torch.ones(*leading, 5))


def test_merging_undoes_splitting_and_heads_are_slices_of_the_width():
    x = torch.randn(2, 5, 12)
    heads = split_heads(x, 3)
    assert torch.equal(heads[:, 1], x[:, :, 4:8])
    assert torch.equal(merge_heads(heads), x)


@pytest.mark.parametrize(("dim", "num_heads"), [(8, 1), (12, 3), (32, 8)])
def test_multi_head_attention_equals_torchs_on_copied_weights(dim, num_heads):
    ours, theirs = MultiHeadAttention(dim, num_heads), nn.MultiheadAttention(dim, num_heads, batch_first=True)
    nn.init.normal_(theirs.in_proj_bias)
    theirs.load_state_dict(
        {
            "in_proj_weight": ours.qkv.weight,
            "in_proj_bias": ours.qkv.bias,
            "out_proj.weight": ours.proj.weight,
            "out_proj.bias": ours.proj.bias,
        }
    )
    x = torch.randn(2, 9, dim)
    expected, expected_weights = theirs(x, x, x, average_attn_weights=False)
    output, weights = ours(x, return_attention=True)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(weights, expected_weights, rtol=0, atol=1e-5)


def test_fused_kernel_equals_attention_written_out():
    attention = MultiHeadAttention(24, 3)
    x = torch.randn(2, 10, 24)
    torch.testing.assert_close(attention(x), attention(x, return_attention=True)[0], rtol=0, atol=1e-5)


def test_dropout_is_silent_in_evaluation_and_acts_in_training():
    attention = MultiHeadAttention(24, 3, attn_drop=0.5)
    x = torch.randn(2, 10, 24)
    attention.eval()
    torch.testing.assert_close(attention(x), attention(x))
    attention.train()
    assert not torch.allclose(attention(x), attention(x))


def test_flops_by_formula_equal_the_flops_torch_counts():
    from torch.utils.flop_counter import FlopCounterMode

    attention = MultiHeadAttention(48, 4)
    with FlopCounterMode(display=False) as counter:
        attention(torch.randn(1, 17, 48), return_attention=True)
    assert counter.get_total_flops() == attention_flops(17, 48)


@pytest.mark.parametrize(
    "make", [lambda: MultiHeadAttention(64, 5), lambda: split_heads(torch.zeros(1, 2, 64), 5)]
)
def test_heads_that_do_not_divide_the_width_are_refused_by_numbers(make):
    with pytest.raises(
        ValueError, match=r"dim 64 is not divisible by num_heads 5; 1, 2, 4, 8, 16 heads would fit"
    ):
        make()
