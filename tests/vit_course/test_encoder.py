"""Layer norm, MLP, block, stack."""

import pytest
import torch
import torch.nn.functional as F
from torchvision.models.vision_transformer import EncoderBlock

from vit_course.beyond.weights import convert_torchvision
from vit_course.encoder import Block, Encoder, Mlp, drop_path, layer_norm


def test_layer_norm_equals_torchs():
    x, weight, bias = 3 * torch.randn(2, 5, 16) + 1, torch.randn(16), torch.randn(16)
    torch.testing.assert_close(layer_norm(x, weight, bias), F.layer_norm(x, (16,), weight, bias, eps=1e-6))


def test_block_equals_torchvisions_on_copied_weights():
    theirs = EncoderBlock(num_heads=3, hidden_dim=24, mlp_dim=96, dropout=0.0, attention_dropout=0.0)
    ours = Block(24, 3)
    weights = convert_torchvision({f".{name}": value for name, value in theirs.state_dict().items()})
    ours.load_state_dict({name.lstrip("."): value for name, value in weights.items()})
    x = torch.randn(2, 7, 24)
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-5)


def test_drop_path_drops_whole_pictures_and_keeps_the_mean():
    torch.manual_seed(0)
    dropped = drop_path(torch.ones(20000, 2, 3), 0.3, training=True)
    per_picture = dropped.flatten(1)
    assert bool((per_picture == per_picture[:, :1]).all())
    assert sorted(per_picture.unique().tolist()) == pytest.approx([0.0, 1 / 0.7])
    assert per_picture.mean().item() == pytest.approx(1.0, abs=0.02)


def test_drop_path_does_nothing_outside_training():
    x = torch.randn(3, 4)
    assert drop_path(x, 0.9, training=False) is x


def test_drop_path_rate_grows_from_zero_to_the_last_block():
    rates = [block.drop_path_rate for block in Encoder(4, 24, 3, drop_path=0.3)]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_encoder_returns_the_attention_of_every_layer_beside_the_same_result():
    encoder = Encoder(3, 24, 2).eval()
    x = torch.randn(2, 5, 24)
    result, attentions = encoder(x, return_attention=True)
    torch.testing.assert_close(result, encoder(x), rtol=0, atol=1e-5)  # the fused kernel rounds otherwise
    assert [tuple(a.shape) for a in attentions] == [(2, 2, 5, 5)] * 3
    torch.testing.assert_close(attentions[0], encoder[0].attn(encoder[0].norm1(x), True)[1])


def test_block_returns_the_weights_that_made_its_result():
    block, x = Block(24, 3).eval(), torch.randn(2, 7, 24)
    result, weights = block(x, return_attention=True)
    torch.testing.assert_close(result, block(x), rtol=0, atol=1e-5)
    torch.testing.assert_close(weights, block.attn(block.norm1(x), return_attention=True)[1])


@pytest.mark.parametrize("training", [False, True])
def test_attention_runs_once_in_every_block_also_when_its_weights_are_wanted(training):
    encoder, calls = Encoder(3, 24, 2, drop_path=0.2, attn_drop=0.1).train(training), []
    for block in encoder:
        block.attn.register_forward_hook(lambda *_: calls.append(1))
    encoder(torch.randn(2, 5, 24), return_attention=True)
    assert len(calls) == 3


def test_dropout_of_the_mlp_follows_both_layers():
    torch.manual_seed(0)
    mlp = Mlp(8, 4000, drop=0.5).train()
    assert 0.3 < (mlp(torch.randn(1, 500, 8)) == 0).float().mean().item() < 0.7
    hidden = mlp.drop(mlp.act(mlp.fc1(torch.randn(1, 8))))
    assert 0.4 < (hidden == 0).float().mean().item() < 0.6


def test_gradients_reach_every_parameter_of_a_deep_stack():
    encoder = Encoder(24, 24, 3)
    encoder(torch.randn(2, 5, 24)).square().sum().backward()
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in encoder.parameters())
