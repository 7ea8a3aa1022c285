"""Layer norm, MLP, block, stack."""

import pytest
import torch

from vit_course.encoder import Encoder, Mlp


def test_drop_path_rate_grows_from_zero_to_the_last_block():
    rates = [block.drop_path_rate for block in Encoder(4, 24, 3, drop_path=0.3)]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_dropout_of_the_mlp_follows_both_layers():
    torch.manual_seed(0)
    mlp = Mlp(8, 4000, drop=0.5).train()
    assert 0.3 < (mlp(torch.randn(1, 500, 8)) == 0).float().mean().item() < 0.7
    hidden = mlp.drop(mlp.act(mlp.fc1(torch.randn(1, 8))))
    assert 0.4 < (hidden == 0).float().mean().item() < 0.6
