"""The hybrid of the ViT paper: a Transformer whose tokens come from a CNN's feature map (section 3.1 and 4.1).

Lesson 11 builds it; `create_hybrid` makes one by name.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from vit_course.patches import as_pair, check_images, grid_size
from vit_course.resnet import init_convolutions, residual_stages
from vit_course.vit import VIT_SIZES, VisionTransformer


def stage_blocks(stages: int = 4, blocks: int = 1, lengthen: bool = False) -> list[int]:
    """Say how many blocks each stage of a backbone has.

    Args:
        stages: stages of the regular backbone, at least 1.
        blocks: blocks in each of them, at least 1.
        lengthen: remove the last stage and give its blocks to the one before (paper, section 4.1).

    Returns:
        For each stage its number of blocks; the sum is stages·blocks either way.

    Raises:
        ValueError: if there is no stage or block, or no stage to lengthen.
    """
    if stages < 1 or blocks < 1:
        raise ValueError(f"stages {stages} and blocks {blocks} should both be at least 1")
    if lengthen and stages < 2:
        removes = "lengthen removes a stage and gives its blocks to the one before"
        raise ValueError(f"{removes}: stages 1 has none before")
    return [blocks] * (stages - 2) + [2 * blocks] if lengthen else [blocks] * stages


def make_backbone(
    in_chans: int = 3, width: int = 16, stages: int = 4, blocks: int = 1, lengthen: bool = False
) -> nn.Sequential:
    """Build the convolutions of a hybrid: a stem for small pictures, then stages of residual blocks.

    Stage s = 1, 2, ... has width·2^(s-1) channels, and each stage after the first halves the map. Maps
    (B, C, H, W) to a feature map; `feature_map_shape` says of which shape.

    Args:
        in_chans: channels C of the pictures.
        width: channels of the first stage.
        stages: stages of the regular backbone.
        blocks: blocks in each of them.
        lengthen: leave out the last stage and put its blocks into the one before: as many blocks, and a map
            with twice the rows and twice the columns.

    Raises:
        ValueError: if there is no stage or block, or no stage to lengthen.
    """
    layers = residual_stages(in_chans, width, stage_blocks(stages, blocks, lengthen))
    return init_convolutions(nn.Sequential(*layers))


def feature_map_shape(
    img_size: int | tuple[int, int], width: int = 16, stages: int = 4, lengthen: bool = False
) -> tuple[int, int, int]:
    """Work out the shape of the feature map that a backbone makes of a picture, by formula.

    The first stage has `width` channels and keeps the size of the picture. Every stage after it has twice the
    channels and half the rows and columns. With `lengthen` the last stage is not there (its blocks are in the
    one before, and blocks change no shape). The map is the Transformer's picture: rows·columns patch tokens.

    Args:
        img_size: side of a square picture, or (height, width), in pixels.
        width: channels of the first stage.
        stages: stages of the regular backbone.
        lengthen: whether the last stage is left out.

    Returns:
        (channels, rows, columns).

    Raises:
        ValueError: if height or width is not divisible by the product of all halvings, 2^(stages used - 1).
    """
    halvings = stages - 1 - int(lengthen)
    rows, columns = grid_size(img_size, 2**halvings)
    return width * 2**halvings, rows, columns


def receptive_field(layers: Sequence[tuple[int, int]]) -> int:
    """Compute how many pixels wide the part of the picture is that one position of a feature map can see.

    A layer of kernel size k that follows strides s_1, s_2, ... sees k positions which lie s_1·s_2·... pixels
    apart: it adds (k - 1)·s_1·s_2·... pixels to what was seen before. Its own stride counts from the next layer on.
    (Araujo et al., 2019, derive it.)

    Args:
        layers: for each layer (kernel size, stride), the first layer first.

    Returns:
        The side of the receptive field in pixels, the border of the picture left aside; 1 without any layer.
    """
    field, jump = 1, 1
    for kernel, stride in layers:
        field += (kernel - 1) * jump
        jump *= stride
    return field


class HybridViT(nn.Module):
    """A Vision Transformer that reads the feature map of a CNN instead of the picture (paper, section 3.1).

    `self.backbone`, made by `make_backbone`, maps pictures to a feature map. `self.vit` is a
    `VisionTransformer` with patches of 1x1 whose "picture" is that map. `self.img_size` is (height, width) of
    the pictures and `self.in_chans` their channels.

    Args:
        img_size: side of a square picture, or (height, width), in pixels; divisible by `pixels_per_token`.
        in_chans: channels C of the pictures.
        width: channels of the backbone's first stage.
        stages: stages of the regular backbone.
        blocks: blocks in each of them.
        lengthen: leave out the last stage and put its blocks into the one before: four times as many tokens.
        vit_options: the other arguments of `VisionTransformer`, for example `embed_dim` or `pos_embed`.

    Raises:
        ValueError: if the sizes do not fit.
    """

    def __init__(
        self,
        img_size: int | tuple[int, int] = 32,
        in_chans: int = 3,
        width: int = 16,
        stages: int = 4,
        blocks: int = 1,
        lengthen: bool = False,
        **vit_options,
    ):
        super().__init__()
        if "patch_size" in vit_options:
            patches = "its patches are 1x1 positions of the feature map"
            how, given = (
                "`stages` and `lengthen` decide how many pixels a token stands for",
                vit_options["patch_size"],
            )
            raise ValueError(f"patch_size {given} does not fit a hybrid: {patches}; {how}")
        self.img_size, self.in_chans = as_pair(img_size), in_chans
        self.backbone = make_backbone(in_chans, width, stages, blocks, lengthen)
        channels, *grid = feature_map_shape(img_size, width, stages, lengthen)
        self.vit = VisionTransformer(tuple(grid), patch_size=1, in_chans=channels, **vit_options)

    @property
    def num_prefix_tokens(self) -> int:
        """Tokens in front that are no positions of the map: 1 with a CLS token, else 0."""
        return self.vit.num_prefix_tokens

    @property
    def grid_size(self) -> tuple[int, int]:
        """(rows, columns) of the feature map, which is the grid of the patch tokens."""
        return self.vit.patch_embed.grid_size

    @property
    def pixels_per_token(self) -> int:
        """Distance in pixels of neighbouring tokens: the product of the backbone's strides."""
        return self.img_size[0] // self.grid_size[0]

    def forward(self, images: Tensor, return_attention: bool = False) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Classify a batch of images: the backbone, then the Vision Transformer.

        Args:
            images: (B, C, H, W), float.
            return_attention: also return the attention weights of every layer.

        Returns:
            logits (B, K), and with `return_attention` also a list over the L layers of weights (B, h, T, T).

        Raises:
            ValueError: if the images have other axes, channels or sizes than `self.in_chans` and
                `self.img_size`; `check_images` of `patches` does it.
        """
        check_images(images, self.in_chans, self.img_size)
        return self.vit(self.backbone(images), return_attention)


def create_hybrid(name: str = "R-Nano/8", **options) -> HybridViT:
    """Build a hybrid by name, "R-" + size + "/" + pixels per token: "R-Nano/8", "R-Ti/4".

    With 8 pixels per token the backbone has four stages; with 4 the fourth is left out and the third lengthened.

    Args:
        name: the sizes are those of `VIT_SIZES`.
        options: arguments of `HybridViT`, for example `width`, and of `VisionTransformer`; they override those
            of the size.

    Raises:
        ValueError: if the size is unknown, or the pixels per token are neither 8 nor 4.
    """
    size, _, pixels = name.removeprefix("R-").partition("/")
    if not name.startswith("R-") or size not in VIT_SIZES or not pixels.isdigit():
        known = ", ".join(VIT_SIZES)
        raise ValueError(f"{name!r} is not R-size/pixels per token, for example 'R-Nano/8'; sizes: {known}")
    if int(pixels) not in (4, 8):
        known = "8 (four stages) nor 4 (third stage lengthened)"
        raise ValueError(f"{pixels} pixels per token in {name!r} is neither {known}")
    return HybridViT(**{**VIT_SIZES[size], "lengthen": int(pixels) == 4, **options})
