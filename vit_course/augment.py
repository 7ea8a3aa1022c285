"""Augmentation of whole batches on the device the images are on: tensors in, tensors out, no loop over pictures.

Every picture of a batch gets its own random choice. Nothing here waits for the device, and all shapes depend on
the batch alone, so `torch.compile` can swallow it. `train` calls `augment`; lesson 07 builds parts of it.
Pictures are picked with `index_select`, which on the CPU is up to ten times faster than square brackets.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from vit_course.data import normalize
from vit_course.training.rand_augment import rand_augment
from vit_course.training.validate_config import Range, require_ranges


@dataclass(frozen=True)
class AugmentConfig:
    """What happens to a training batch, in this order; 0 switches a step off.

    Attributes:
        crop_padding: pixels added on every side before a random crop back to the old size.
        flip: probability of mirroring left and right.
        rand_augment_ops: operations per picture (RandAugment, Cubuk et al., 2019).
        rand_augment_magnitude: their strength on the scale 0..30.
        erasing: probability of erasing a rectangle (Zhong et al., 2017).
        mixup: alpha of MixUp (Zhang et al., 2017).
        cutmix: alpha of CutMix (Yun et al., 2019). With both, half of the pictures get each.
        mix_share: share of the pictures that MixUp and CutMix change; the others stay as they are.

    Raises:
        ValueError: if a value lies outside its range; the message names the field and the range.
    """

    crop_padding: Annotated[int, Range(0)] = 0
    flip: Annotated[float, Range(0, 1)] = 0.0
    rand_augment_ops: Annotated[int, Range(0)] = 0
    rand_augment_magnitude: Annotated[float, Range(0, 30)] = 9.0
    erasing: Annotated[float, Range(0, 1)] = 0.0
    mixup: Annotated[float, Range(0)] = 0.0
    cutmix: Annotated[float, Range(0)] = 0.0
    mix_share: Annotated[float, Range(0, 1)] = 1.0

    def __post_init__(self) -> None:
        require_ranges(self)


def random_crop_flip(images: Tensor, padding: int = 4, flip: float = 0.5) -> Tensor:
    """Shift every image by its own random offset and mirror some of them.

    Each image is padded with zeros by `padding` pixels on all sides. Then a window of the old size is cut at a random
    place, another one for every image. All (2·padding + 1)² places are equally likely. With probability `flip` the
    window is then mirrored left and right.

    Args:
        images: (B, C, H, W), any dtype, on any device.
        padding: pixels of zeros on every side.
        flip: probability of mirroring.

    Returns:
        (B, C, H, W), same dtype and device; a new tensor.
    """
    batch, _, height, width = images.shape  # given
    padded = F.pad(images, [padding] * 4)  # given
    device = images.device
    top, left = torch.randint(0, 2 * padding + 1, (2, batch, 1), device=device)
    rows = top + torch.arange(height, device=device)
    columns = torch.arange(width, device=device).expand(batch, -1)
    mirrored = torch.rand(batch, 1, device=device) < flip
    columns = left + torch.where(mirrored, width - 1 - columns, columns)
    index = rows[:, :, None] * padded.shape[-1] + columns[:, None, :]
    index = index.reshape(batch, 1, -1).expand(-1, images.shape[1], -1)
    return padded.flatten(2).gather(2, index).reshape(images.shape)


def mixup(images: Tensor, targets: Tensor, lam: Tensor, permutation: Tensor) -> tuple[Tensor, Tensor]:
    """Blend every image, and its target in the same way, with a partner (Zhang et al., 2017).

    Args:
        images: (B, C, H, W) float.
        targets: (B, K), the wanted probabilities of the classes, one-hot or smoothed.
        lam: (B,) in 0..1, the share that each image keeps; its partner gets the rest.
        permutation: (B,) int64, the partner of each image.

    Returns:
        blended images (B, C, H, W) and blended targets (B, K).

    Raises:
        ValueError: if the images are whole numbers, which cannot be blended.
    """
    if not images.is_floating_point():  # given
        raise ValueError(f"images are {images.dtype}: blending needs floating-point numbers")
    share, part = lam[:, None, None, None], lam[:, None]
    partners, others = images.index_select(0, permutation), targets.index_select(0, permutation)
    return share * images + (1 - share) * partners, part * targets + (1 - part) * others


def cutmix(images: Tensor, targets: Tensor, boxes: Tensor, permutation: Tensor) -> tuple[Tensor, Tensor]:
    """Paste a rectangle of a partner into every picture; targets follow the area (Yun et al., 2019).

    Args:
        images: (B, C, H, W) float.
        targets: (B, K), the wanted probabilities of the classes.
        boxes: (B, 4) int64: top, left, bottom, right; bottom and right excluded. Parts outside the picture
            are cut off, and the area that counts is what is really pasted.
        permutation: (B,) int64, the partner of each picture.

    Returns:
        pasted images (B, C, H, W) and mixed targets (B, K).

    Raises:
        ValueError: if the images are whole numbers.
    """
    return blend_with_partners(images, targets, 1 - box_mask(boxes, images.shape[-2:]), permutation)


def blend_with_partners(
    images: Tensor, targets: Tensor, share: Tensor, permutation: Tensor
) -> tuple[Tensor, Tensor]:
    """Blend pictures with partners; `share` (B, H, W) says how much of its own pixel each picture keeps."""
    if not images.is_floating_point():
        raise ValueError(f"images are {images.dtype}: blending needs floating-point numbers")
    kept = share.mean(dim=(1, 2))[:, None]
    partners = images.index_select(0, permutation), targets.index_select(0, permutation)
    return partners[0].lerp_(images, share[:, None].to(images)), partners[1].lerp_(targets, kept.to(targets))


def box_mask(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Turn boxes (B, 4) of top, left, bottom, right into masks (B, H, W), float: 1 inside, 0 outside."""
    y, x = (torch.arange(side, device=boxes.device) for side in size)
    top, left, bottom, right = boxes[:, :, None].unbind(1)
    rows, columns = (y >= top) & (y < bottom), (x >= left) & (x < right)
    return rows.float()[:, :, None] * columns.float()[:, None, :]


def random_boxes(area: Tensor, size: tuple[int, int], aspect: tuple[float, float] = (1.0, 1.0)) -> Tensor:
    """Draw a box around a random pixel for each area (B,), a share of the picture; sides ratio within `aspect`.

    A box near the border sticks out of the picture: whoever uses it counts what is inside.
    """
    low, high = map(math.log, aspect)
    ratio = (torch.rand_like(area) * (high - low) + low).exp().sqrt()
    half_height = (area.sqrt() * ratio * size[0] / 2).round()
    half_width = (area.sqrt() / ratio * size[1] / 2).round()
    y = (torch.rand_like(area) * size[0]).floor()
    x = (torch.rand_like(area) * size[1]).floor()
    return torch.stack([y - half_height, x - half_width, y + half_height, x + half_width], dim=1).long()


def random_erasing(images: Tensor, probability: float = 0.25) -> Tensor:
    """Fill a random rectangle of some pictures with the mean colour, which is 0 after normalisation.

    Args:
        images: (B, C, H, W) float, normalised.
        probability: share of the pictures that lose a rectangle. It has about 2 to 33 % of their area, less where
            it sticks out at the border.

    Returns:
        (B, C, H, W), a new tensor.
    """
    batch, device = len(images), images.device
    area = torch.empty(batch, device=device).uniform_(0.02, 0.33)
    area = area * (torch.rand(batch, device=device) < probability)
    boxes = random_boxes(area, images.shape[-2:], aspect=(0.3, 3.3))
    return images * (1 - box_mask(boxes, images.shape[-2:]))[:, None]


def augment(
    images: Tensor, labels: Tensor, stats: tuple[Tensor, Tensor], num_classes: int, config: AugmentConfig
) -> tuple[Tensor, Tensor]:
    """Turn a batch as it lies in memory into what a model is trained on.

    Args:
        images: (B, C, H, W) uint8.
        labels: (B,) int64.
        stats: (mean, std) per channel in units of 0..1.
        num_classes: number of classes K.
        config: which steps, how strong.

    Returns:
        normalised images (B, C, H, W) float32 and targets (B, K), the wanted probabilities.
    """
    if config.crop_padding or config.flip:
        images = random_crop_flip(images, config.crop_padding, config.flip)
    if config.rand_augment_ops:
        images = rand_augment(images, config.rand_augment_ops, config.rand_augment_magnitude)
    images = normalize(images, *stats)
    targets = F.one_hot(labels, num_classes).float()
    if config.erasing:
        images = random_erasing(images, config.erasing)
    if config.mixup or config.cutmix:
        images, targets = mix(images, targets, config)
    return images, targets


def mix(images: Tensor, targets: Tensor, config: AugmentConfig) -> tuple[Tensor, Tensor]:
    """Give every picture a random partner, by MixUp or CutMix; where both are on, half of them by each.

    MixUp is done as a CutMix whose box is the whole picture, and in which the partner does not cover everything.
    """
    batch, device, size = len(images), images.device, images.shape[-2:]
    blended, pasted = (1 - draw_beta(alpha, batch, device) for alpha in (config.mixup, config.cutmix))
    chance = 0.5 if config.mixup and config.cutmix else float(config.mixup > 0)
    use_mixup = torch.rand(batch, device=device) < chance
    # A box of four times the area covers the picture, wherever its middle lies.
    boxes = random_boxes(torch.where(use_mixup, 4.0, pasted), size)
    cover = torch.where(use_mixup, blended, 1.0)
    if config.mix_share < 1:
        cover = cover * (torch.rand(batch, device=device) < config.mix_share)
    share = 1 - cover[:, None, None] * box_mask(boxes, size)
    return blend_with_partners(images, targets, share, torch.randperm(batch, device=device))


def draw_beta(alpha: float, count: int, device: torch.device) -> Tensor:
    """Draw `count` numbers in 0..1 from Beta(alpha, alpha); ones where alpha is 0."""
    if alpha == 0:
        return torch.ones(count, device=device)
    # Older versions of torch cannot draw it on Apple's GPU.
    concentration = torch.full((count, 2), float(alpha), device="cpu" if device.type == "mps" else device)
    return torch.distributions.Dirichlet(concentration, validate_args=False).sample()[:, 0].to(device)
