"""The figure of lesson 01 marks one patch, its row and its token, at their places."""

import pytest
import torch
from matplotlib.colors import to_rgba

from vit_classroom.exhibits.patch_matrix import MARK, patch_times_matrix
from vit_course.patches import patchify


@pytest.mark.parametrize("followed", [0, 6, 15])
def test_a_patch_is_marked_in_the_image_in_its_matrix_and_among_the_tokens(followed):
    image = torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8)
    figure = patch_times_matrix(image, patchify(image[None], 8)[0], torch.randn(192, 48), followed)
    marked = [box for box in figure.axes[0].patches if box.get_edgecolor() == to_rgba(MARK)]
    in_image, in_patches, in_tokens = marked
    row, column = divmod(followed, 4)
    assert in_image.get_x() == pytest.approx(0.1 + 1.25 * column)
    assert in_image.get_y() == pytest.approx(5.5 - 1.25 * (row + 1))
    assert in_patches.get_y() == in_tokens.get_y() == pytest.approx(4.7 - 3.4 * (followed + 1) / 16)
    words = [text.get_text() for text in figure.axes[0].texts]
    assert f"token {followed}" in words and "(192, 48)" in words
