"""Patches: cutting, putting together, embedding."""

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange

from vit_course.patches import PatchEmbed, count_patches, grid_size, patchify, unpatchify

SHAPES = [
    ((2, 3, 32, 32), 4),
    ((1, 1, 28, 28), 7),
    ((3, 3, 24, 40), 8),
    ((2, 4, 12, 10), (3, 5)),
    ((1, 2, 6, 6), 1),
]


@pytest.mark.parametrize(("shape", "patch_size"), SHAPES)
def test_unpatchify_is_the_exact_inverse_of_patchify(shape, patch_size):
    images = torch.randn(shape)
    grid = grid_size(shape[-2:], patch_size)
    patches = patchify(images, patch_size)
    assert patches.shape == (
        shape[0],
        count_patches(shape[-2:], patch_size),
        images[0].numel() // (grid[0] * grid[1]),
    )
    assert torch.equal(unpatchify(patches, patch_size, grid), images)


@pytest.mark.parametrize(("shape", "patch_size"), SHAPES)
def test_patchify_equals_unfold_with_channels_moved_last(shape, patch_size):
    images = torch.randn(shape)
    unfolded = F.unfold(images, patch_size, stride=patch_size)
    expected = rearrange(unfolded, "b (c p) n -> b n (p c)", c=shape[1])
    assert torch.equal(patchify(images, patch_size), expected)


def test_patchify_keeps_the_dtype():
    assert patchify(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), 4).dtype == torch.uint8


@pytest.mark.parametrize(("shape", "patch_size"), SHAPES)
def test_convolution_equals_unfold_and_linear(shape, patch_size):
    embed = PatchEmbed(shape[-2:], patch_size, shape[1], 24)
    images = torch.randn(shape)
    weight = rearrange(embed.proj.weight, "d c p1 p2 -> d (p1 p2 c)")
    expected = F.linear(patchify(images, patch_size), weight, embed.proj.bias)
    torch.testing.assert_close(embed(images), expected, rtol=0, atol=1e-5)


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
