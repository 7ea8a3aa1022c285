"""CLS token, pooling, positions."""

import pytest
import torch
import torch.nn.functional as F

from vit_course.embeddings import add_position, pool, prepend_cls_token, resample_pos_embed, sincos_2d


def test_resampling_to_the_same_grid_changes_nothing():
    positions = torch.randn(1, 1 + 12, 8)
    assert torch.equal(resample_pos_embed(positions, (3, 4), (3, 4)), positions)


@pytest.mark.parametrize("prefix", [0, 1, 2])
@pytest.mark.parametrize(
    ("old", "new"), [((4, 4), (6, 6)), ((3, 5), (7, 4)), ((8, 8), (4, 4)), ((7, 7), (14, 10))]
)
def test_resampling_equals_interpolating_each_channel_as_a_picture(old, new, prefix):
    positions = torch.randn(1, prefix + old[0] * old[1], 6)
    resampled = resample_pos_embed(positions, old, new, num_prefix_tokens=prefix)
    assert resampled.shape == (1, prefix + new[0] * new[1], 6)
    assert torch.equal(resampled[:, :prefix], positions[:, :prefix])
    for channel in range(6):
        picture = positions[0, prefix:, channel].reshape(1, 1, *old)
        expected = F.interpolate(picture, size=new, mode="bicubic", antialias=True)
        torch.testing.assert_close(resampled[0, prefix:, channel].reshape(new), expected[0, 0])


def test_a_ramp_stays_a_ramp_in_the_middle_when_resampled():
    ramp = torch.arange(8.0)[:, None].expand(8, 8).reshape(1, 64, 1)
    doubled = resample_pos_embed(ramp, (8, 8), (16, 16), num_prefix_tokens=0).reshape(16, 16)
    expected = (torch.arange(16.0) + 0.5) / 2 - 0.5
    torch.testing.assert_close(doubled[4:12, 8], expected[4:12])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: prepend_cls_token(torch.zeros(1, 2, 4), torch.zeros(1, 1, 5)), "width 4"),
        (lambda: pool(torch.zeros(1, 2, 4), "max"), "'max' is unknown"),
        (lambda: pool(torch.zeros(1, 2, 4), "token", num_prefix_tokens=0), "needs a CLS token"),
        (lambda: add_position(torch.zeros(2, 4, 8), torch.zeros(1, 5, 8)), "(5, 8)"),
        (lambda: sincos_2d((4, 4), 30), "dim 30 is not divisible by 4"),
        (lambda: resample_pos_embed(torch.zeros(1, 65, 4), (7, 7), (9, 9)), "65 positions are not 1 prefix"),
    ],
)
def test_wrong_input_raises_a_value_error_that_names_the_numbers(call, words):
    with pytest.raises(ValueError) as caught:
        call()
    assert words in str(caught.value)
