"""The hybrid of lesson 11, without options: early convolutions, then a Vision Transformer on their feature map.

`vit_course.extensions.hybrid` has the paper's hybrid, whose convolutions are those of a ResNet.
"""

from torch import Tensor, nn

from vit_course.patches import as_pair, check_images, grid_size
from vit_course.vit import VisionTransformer


def early_convolutions(in_chans: int = 3, width: int = 16, stages: int = 4) -> nn.Sequential:
    """Build the convolutions in front of a hybrid. They map images (B, C, H, W) to a feature map.

    A stage has three layers: a 3x3 convolution with padding 1 and without bias, batch norm, ReLU. The first stage has
    `width` channels and stride 1, so it keeps rows and columns. Each later stage has twice the channels of the stage
    before it and stride 2, which halves rows and columns.

    Args:
        in_chans: channels C of the images.
        width: channels of the first stage.
        stages: number of stages, at least 1.

    Returns:
        All layers in one `nn.Sequential`. The feature map has the shape
        (B, width·2^(stages - 1), H / 2^(stages - 1), W / 2^(stages - 1)).
    """
    layers, channels = [], in_chans
    for stage in range(stages):
        out = width * 2**stage
        stride = 1 if stage == 0 else 2
        layers += [nn.Conv2d(channels, out, 3, stride, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        channels = out
    return nn.Sequential(*layers)


class MiniHybrid(nn.Module):
    """A Vision Transformer that reads a feature map in place of the image (paper, section 3.1).

    Its two parts, in the order an image meets them:

    - `self.backbone`, made by `early_convolutions`, maps images to a feature map;
    - `self.vit`, a `VisionTransformer` with patches of 1x1, whose "image" is the feature map.

    `self.img_size` is (height, width) of the images, and `self.in_chans` their channels.

    Args:
        img_size: side of a square image, or (height, width), in pixels.
        in_chans: channels C of the images.
        num_classes: number of classes K.
        width: channels of the backbone's first stage.
        stages: number of its stages. A token stands for 2^(stages - 1) pixels in each direction.
        vit_options: further arguments of `VisionTransformer`, for example `embed_dim`, `depth` and `num_heads`.

    Raises:
        ValueError: by `grid_size`, if the halvings leave a remainder.
    """

    def __init__(
        self,
        img_size: int | tuple[int, int] = 32,
        in_chans: int = 3,
        num_classes: int = 10,
        width: int = 16,
        stages: int = 4,
        **vit_options,
    ):
        super().__init__()  # given
        self.img_size, self.in_chans = as_pair(img_size), in_chans  # given
        self.backbone = early_convolutions(in_chans, width, stages)
        pixels = 2 ** (stages - 1)
        grid = grid_size(img_size, pixels)
        self.vit = VisionTransformer(grid, 1, width * pixels, num_classes, **vit_options)

    def forward(self, images: Tensor, return_attention: bool = False) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Classify a batch of images.

        Args:
            images: (B, C, H, W), float.
            return_attention: is handed on to the Vision Transformer, which then returns its attention weights too.

        Returns:
            Logits (B, K), and with `return_attention` also a list of weights (B, h, T, T), one for each layer.

        Raises:
            ValueError: by `check_images(images, self.in_chans, self.img_size)`, if the images have other axes,
                channels or sizes than the model was built for.
        """
        check_images(images, self.in_chans, self.img_size)
        return self.vit(self.backbone(images), return_attention)
