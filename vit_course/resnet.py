"""The opponent: residual networks for pictures of 32x32 pixels (He et al., 2016), made of torchvision's parts.

Lesson 08 and the experiments compare them with the ViT.
"""

from collections.abc import Sequence

from torch import nn


def cifar_stem(model: nn.Module, in_chans: int = 3) -> nn.Module:
    """Replace the stem of a torchvision ResNet by one for small pictures, in place.

    The stem made for 224 pixels halves a picture twice before the first block: a 7x7 convolution of stride 2,
    then max-pooling. Of 32x32 pixels that leaves 8x8. Here one 3x3 convolution of stride 1 and padding 1,
    without bias, takes the place of `model.conv1`, and `model.maxpool` does nothing.

    Args:
        model: a ResNet with the attributes `conv1`, with its number of output channels, and `maxpool`.
        in_chans: channels of the pictures.

    Returns:
        The same model.
    """
    width = model.conv1.out_channels
    model.conv1 = nn.Conv2d(in_chans, width, kernel_size=3, stride=1, padding=1, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.maxpool = nn.Identity()
    return model


def cifar_resnet18(num_classes: int = 10, in_chans: int = 3) -> nn.Module:
    """Build torchvision's ResNet-18 with the stem for small pictures: 11.2 million parameters."""
    from torchvision.models import resnet18  # here: who trains a ViT need not wait for torchvision

    return cifar_stem(resnet18(num_classes=num_classes), in_chans)


def residual_stages(in_chans: int, width: int, blocks: Sequence[int]) -> list[nn.Module]:
    """List the layers of a residual network for small pictures, up to its last feature map.

    First the stem: a 3x3 convolution that keeps the size, batch norm, ReLU. Then the stages, of torchvision's
    `BasicBlock`; shortcuts that change the width are 1x1 convolutions. Stages after the first halve the map.

    Args:
        in_chans: channels of the pictures.
        width: channels of the first stage; each following stage has twice as many as the one before.
        blocks: for each stage its number of blocks.
    """
    from torchvision.models.resnet import BasicBlock  # as in `cifar_resnet18`

    stem = nn.Conv2d(in_chans, width, 3, padding=1, bias=False)
    layers, channels = [stem, nn.BatchNorm2d(width), nn.ReLU(inplace=True)], width
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            out = width * 2**stage
            shortcut = None
            if stride != 1 or channels != out:
                shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
            layers.append(BasicBlock(channels, out, stride, shortcut))
            channels = out
    return layers


def init_convolutions(model: nn.Sequential) -> nn.Sequential:
    """Draw the weights of all convolutions as torchvision's ResNets do, in place, and return the model."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def small_resnet(num_classes: int = 10, in_chans: int = 3, width: int = 16, blocks: int = 1) -> nn.Module:
    """Build the ResNet that its paper used on CIFAR-10 (section 4.2): three stages, 6·blocks + 2 layers.

    With torchvision's `BasicBlock`; shortcuts that change the width are 1x1 convolutions. Maps (B, C, H, W) to
    logits (B, K).

    Args:
        num_classes: number of classes K.
        in_chans: channels of the pictures.
        width: channels of the first stage; the next have twice and four times as many.
        blocks: blocks in a stage.
    """
    layers = residual_stages(in_chans, width, [blocks] * 3)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, num_classes)]
    return init_convolutions(nn.Sequential(*layers))
