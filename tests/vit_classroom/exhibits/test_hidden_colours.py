"""Colours around hidden patches."""

import torch

from vit_classroom.exhibits.hidden_colours import neighbour_colours


def test_neighbour_colours_are_the_mean_of_uncorrupted_neighbours():
    images = torch.zeros(1, 1, 3, 3)
    images[0, 0] = torch.tensor([[40.0, 0, 0], [0, 255, 200], [0, 0, 0]])
    chosen = torch.tensor([[False, True, True, True, True, False, True, True, True]])
    guess = neighbour_colours(images, 1, chosen).reshape(3, 3)
    assert guess[1, 1] == 120  # 40 and 200
    assert guess[2, 0] == 120  # no neighbour is left: the mean of the picture's uncorrupted patches
    assert guess[1, 0] == 40
    assert guess[0, 2] == 200
