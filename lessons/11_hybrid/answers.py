"""Answers to the exercises of lesson 11, written as students write them."""

import math

from torch import nn

from vit_classroom.exhibits.mini_hybrid import early_convolutions
from vit_course.patches import as_pair, check_images, grid_size
from vit_course.vit import VisionTransformer


def stages_as_blocks(in_chans=3, width=16, stages=4):
    def stage(come, go, stride):
        return nn.Sequential(
            nn.Conv2d(come, go, kernel_size=3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(go),
            nn.ReLU(inplace=True),
        )

    widths = [in_chans] + [width * 2**s for s in range(stages)]
    return nn.Sequential(*(stage(widths[s], widths[s + 1], 2 if s else 1) for s in range(stages)))


def first_stage_apart(in_chans=3, width=16, stages=4):
    layers = [nn.Conv2d(in_chans, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    for _ in range(stages - 1):
        conv = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False)
        width *= 2
        layers.extend([conv, nn.BatchNorm2d(width), nn.ReLU()])
    return nn.Sequential(*layers)


def halves_in_every_stage(in_chans=3, width=16, stages=4):
    layers = []
    for stage in range(stages):
        out = width * 2**stage
        layers += [
            nn.Conv2d(in_chans, out, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
        ]
        in_chans = out
    return nn.Sequential(*layers)


def stages_without_an_end(in_chans=3, width=16, stages=4):
    return nn.Sequential(*first_stage_apart(in_chans, width, stages), nn.AdaptiveAvgPool2d(4))


class HybridByDivision(nn.Module):
    def __init__(self, img_size=32, in_chans=3, num_classes=10, width=16, stages=4, **vit_options):
        super().__init__()
        self.img_size, self.in_chans = as_pair(img_size), in_chans
        self.backbone = early_convolutions(in_chans, width, stages)
        channels = [m for m in self.backbone if isinstance(m, nn.Conv2d)][-1].out_channels
        self.vit = VisionTransformer(
            img_size=grid_size(img_size, 2**stages // 2),
            patch_size=1,
            in_chans=channels,
            num_classes=num_classes,
            **vit_options,
        )

    def forward(self, images, return_attention=False):
        check_images(images, self.in_chans, self.img_size)
        features = self.backbone(images)
        return self.vit(features, return_attention=return_attention)


class HybridInOnePiece(nn.Module):
    def __init__(self, img_size=32, in_chans=3, num_classes=10, width=16, stages=4, **vit_options):
        super().__init__()
        self.img_size, self.in_chans = as_pair(img_size), in_chans
        rows, columns = grid_size(img_size, 2 ** (stages - 1))
        self.vit = VisionTransformer((rows, columns), 1, width << (stages - 1), num_classes, **vit_options)
        self.backbone = first_stage_apart(in_chans, width, stages)

    def forward(self, images, return_attention=False):
        check_images(images, self.in_chans, self.img_size)
        return self.vit(self.backbone(images), return_attention)


class HybridWithoutViT(HybridByDivision):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.vit = None


def field_of_the_first_two(layers):
    (k1, s1), (k2, _) = layers[:2]
    return k1 + (k2 - 1) * s1


def field_in_one_line(layers):
    return 1 + sum((k - 1) * math.prod(s for _, s in layers[:i]) for i, (k, _) in enumerate(layers))


def field_recursive(layers):
    if not layers:
        return 1
    (kernel, stride), *rest = layers
    return kernel + stride * (field_recursive(rest) - 1)


DISSECTED = ("halves rows and columns in every stage", halves_in_every_stage)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "early_convolutions": [
        ("Yours are Conv2d, BatchNorm2d, ReLU, Conv2d, BatchNorm2d, ReLU, Adapt", stages_without_an_end)
    ],
    "MiniHybrid": [("`self.vit` should be a module", HybridWithoutViT)],
    "receptive_field": [
        ("= [(3, 1), (3, 1)] (the cases before are right)", lambda layers: sum(k for k, _ in layers)),
        ("expected 5, you returned 4", lambda layers: field_in_one_line(layers) - (len(layers) > 1)),
        ("your code stopped with ValueError: not enough values to unpack", field_of_the_first_two),
    ],
}
RIGHT = {
    "early_convolutions": [stages_as_blocks, first_stage_apart],
    "MiniHybrid": [HybridByDivision, HybridInOnePiece],
    "receptive_field": [field_in_one_line, field_recursive],
}
