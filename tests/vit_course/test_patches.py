"""Patches: cutting, putting together, embedding."""

import pytest
import torch

from vit_course.patches import PatchEmbed, count_patches, patchify, unpatchify


def test_patchify_keeps_the_dtype():
    assert patchify(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), 4).dtype == torch.uint8


@pytest.mark.parametrize(
    ("call", "numbers"),
    [
        (
            lambda: count_patches((30, 32), 4),
            ["30x32", "4x4", "height 30 leaves 2 rows", "height 32 would fit"],
        ),
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
    ],
)
def test_wrong_input_raises_a_value_error_that_names_the_numbers(call, numbers):
    with pytest.raises(ValueError) as caught:
        call()
    for number in numbers:
        assert number in str(caught.value)
