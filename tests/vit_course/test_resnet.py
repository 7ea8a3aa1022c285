"""The opponents of the ViT: shapes, sizes, and gradients that reach every parameter."""

import pytest
import torch
from torch import nn

from vit_course.resnet import cifar_resnet18, small_resnet


def parameters(model):
    return sum(p.numel() for p in model.parameters())


def test_cifar_resnet18_has_the_known_number_of_parameters_and_gives_one_logit_per_class():
    big = cifar_resnet18()
    assert parameters(big) == 11_173_962
    assert big.eval()(torch.randn(2, 3, 32, 32)).shape == (2, 10)
    assert parameters(cifar_resnet18(num_classes=100)) == 11_173_962 + 90 * 513


@pytest.mark.parametrize(
    "make", [cifar_resnet18, small_resnet, lambda: small_resnet(blocks=2)], ids=["18", "small", "2 blocks"]
)
def test_gradients_reach_every_parameter(make):
    torch.manual_seed(0)
    model = make()
    model(torch.randn(4, 3, 32, 32)).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@pytest.mark.parametrize(("width", "blocks", "channels", "classes"), [(16, 1, 3, 10), (8, 2, 1, 7)])
def test_small_resnet_has_the_shapes_that_were_asked_for(width, blocks, channels, classes):
    model = small_resnet(classes, channels, width, blocks)
    assert model(torch.randn(2, channels, 32, 32)).shape == (2, classes)
    assert model(torch.randn(2, channels, 24, 40)).shape == (2, classes)
    assert model[-1].in_features == 4 * width


@pytest.mark.parametrize("blocks", [1, 3])
def test_small_resnet_has_six_layers_a_block_and_two_more(blocks):
    model = small_resnet(blocks=blocks)
    main = [m for m in model.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    assert len(main) + 1 == 6 * blocks + 2


def test_resnet_20_of_the_paper_has_about_a_quarter_of_a_million_parameters():
    # 0.27M in table 6 of He et al.; theirs has shortcuts without parameters
    assert parameters(small_resnet(blocks=3)) == pytest.approx(0.27e6, rel=0.02)
