"""Augmentation of whole batches on the device the images are on: tensors in, tensors out, no loop over pictures.

Every picture of a batch gets its own random choice. Nothing here waits for the device, and all shapes depend on
the batch alone, so `torch.compile` can swallow it. `train` calls `augment`; lesson 07 builds parts of it.
Pictures are picked with `index_select`, which on the CPU is ten times faster than square brackets.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from vit_course.data import normalize
from vit_course.machinery.ranges import Range, require_ranges


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

    def __post_init__(self) -> None:
        require_ranges(self)


def random_crop_flip(images: Tensor, padding: int = 4, flip: float = 0.5) -> Tensor:
    """Shift every picture by its own random offset and mirror some of them.

    Each picture is padded with zeros by `padding` pixels on all sides, and a window of the old size is cut
    at a random place, another one for every picture: all (2·padding + 1)² places are equally likely. With
    probability `flip` the window is then mirrored left and right.

    Args:
        images: (B, C, H, W), any dtype, on any device.
        padding: pixels of zeros on every side.
        flip: probability of mirroring.

    Returns:
        (B, C, H, W), same dtype and device; a new tensor.
    """
    batch, _, height, width = images.shape
    device = images.device
    padded = F.pad(images, [padding] * 4)
    top, left = torch.randint(0, 2 * padding + 1, (2, batch, 1), device=device)
    rows = top + torch.arange(height, device=device)
    columns = torch.arange(width, device=device).expand(batch, -1)
    mirrored = torch.rand(batch, 1, device=device) < flip
    columns = left + torch.where(mirrored, width - 1 - columns, columns)
    index = rows[:, :, None] * padded.shape[-1] + columns[:, None, :]
    index = index.reshape(batch, 1, -1).expand(-1, images.shape[1], -1)
    return padded.flatten(2).gather(2, index).reshape(images.shape)


def mixup(images: Tensor, targets: Tensor, lam: Tensor, permutation: Tensor) -> tuple[Tensor, Tensor]:
    """Blend every picture, and its target in the same way, with a partner (Zhang et al., 2017).

    Args:
        images: (B, C, H, W) float.
        targets: (B, K), the wanted probabilities of the classes, one-hot or smoothed.
        lam: (B,) in 0..1, the share that each picture keeps; its partner gets the rest.
        permutation: (B,) int64, the partner of each picture.

    Returns:
        blended images (B, C, H, W) and blended targets (B, K).

    Raises:
        ValueError: if the images are whole numbers, which cannot be blended.
    """
    return blend_with_partners(
        images, targets, lam[:, None, None].expand(-1, *images.shape[-2:]), permutation
    )


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
    return partners[0].lerp_(images, share[:, None]), partners[1].lerp_(targets, kept)


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
        probability: share of the pictures that lose a rectangle. It has 2 to 33 % of their area, less where it
            sticks out at the border.

    Returns:
        (B, C, H, W), a new tensor.
    """
    batch, device = len(images), images.device
    area = torch.empty(batch, device=device).uniform_(0.02, 0.33)
    area = area * (torch.rand(batch, device=device) < probability)
    boxes = random_boxes(area, images.shape[-2:], aspect=(0.3, 3.3))
    return images * (1 - box_mask(boxes, images.shape[-2:]))[:, None]


def affine(
    images: Tensor,
    a: Tensor | float = 1.0,
    b: Tensor | float = 0.0,
    c: Tensor | float = 0.0,
    d: Tensor | float = 1.0,
    tx: Tensor | float = 0.0,
    ty: Tensor | float = 0.0,
) -> Tensor:
    """Take the pixel at (x, y) from (a·x + b·y + tx, c·x + d·y + ty): the nearest pixel there, black outside.

    Args:
        images: (B, C, H, W), any dtype. x and y count pixels from the centre.
        a: like the other five a number, or (B,) with one for each picture.
        b: how much x follows y.
        c: how much y follows x.
        d: stretch of y.
        tx: shift of x in pixels.
        ty: shift of y in pixels.
    """
    batch, channels, height, width = images.shape
    y = torch.arange(height, device=images.device)[:, None] - (height - 1) / 2
    x = torch.arange(width, device=images.device)[None, :] - (width - 1) / 2

    def source(along_x: Tensor | float, along_y: Tensor | float, shift: Tensor | float, size: int) -> Tensor:
        """Where to read along one axis, counted in a picture with a black border of one pixel."""
        along_x, along_y, shift = (
            torch.as_tensor(v, dtype=torch.float32, device=images.device).expand(batch)[:, None, None]
            for v in (along_x, along_y, shift)
        )
        place = along_x * x + (along_y * y + shift + (size + 1) / 2)
        return place.round_().clamp_(0, size + 1)

    index = (source(c, d, ty, height) * (width + 2)).add_(source(a, b, tx, width)).long()
    bordered = F.pad(images, [1, 1, 1, 1]).flatten(2)
    return bordered.gather(2, index.reshape(batch, 1, -1).expand(-1, channels, -1)).reshape(images.shape)


def to_grey_levels(values: Tensor) -> Tensor:
    """Round floats to whole numbers in 0..255, uint8; changes `values`."""
    # By way of int16, because the CPU turns floats into bytes one at a time.
    return values.round_().clamp_(0, 255).short().to(torch.uint8)


def grey(images: Tensor) -> Tensor:
    """Return the brightness (B, 1, H, W) of float pictures: ITU-R 601 weights for three channels."""
    if images.shape[1] != 3:
        return images.mean(dim=1, keepdim=True)
    red, green, blue = images.split(1, dim=1)
    return (red * 0.299).add_(green, alpha=0.587).add_(blue, alpha=0.114)


def smooth(images: Tensor) -> Tensor:
    """Blur float pictures with Pillow's 3x3 SMOOTH kernel: 5 in the middle, 1 around; the border stays as it is."""
    result = images.clone()
    rows = images[..., :-2] + images[..., 1:-1] + images[..., 2:]
    square = rows[..., :-2, :] + rows[..., 1:-1, :] + rows[..., 2:, :]
    result[..., 1:-1, 1:-1] = square.add_(images[..., 1:-1, 1:-1], alpha=4).div_(13)
    return result


def geometry(images: Tensor, strength: Tensor) -> Tensor:
    """Shear x, shear y, translate x, translate y, rotate: each a fifth of the pictures."""
    height, width = images.shape[-2:]
    own = torch.eye(5, device=images.device).repeat_interleave(len(images) // 5, dim=1)
    shear_x, shear_y, move_x, move_y, turn = own * strength
    angle = turn * (math.pi / 6)
    return affine(
        images,
        a=angle.cos(),
        b=0.3 * shear_x + angle.sin(),
        c=0.3 * shear_y - angle.sin(),
        d=angle.cos(),
        tx=(150 / 331 * width * move_x).trunc(),
        ty=(150 / 331 * height * move_y).trunc(),
    )


def enhance(images: Tensor, strength: Tensor) -> Tensor:
    """Brightness, colour, contrast, sharpness, each for a quarter of the pictures, as Pillow's enhancers do it.

    Each moves from a duller picture (black; grey; its mean; blurred) over the picture itself (1) beyond it (2).
    """
    images = images.float()
    duller = torch.zeros_like(images)
    _, colour, contrast, sharpness = images.chunk(4)
    duller.chunk(4)[1].copy_(grey(colour))
    duller.chunk(4)[2].copy_(grey(contrast).mean(dim=(2, 3), keepdim=True).round())
    duller.chunk(4)[3].copy_(smooth(sharpness))
    return to_grey_levels(duller.lerp_(images, (1 + 0.9 * strength)[:, None, None, None]))


def posterize(images: Tensor, strength: Tensor) -> Tensor:
    """Keep the first bits of every number: all eight at strength 0, four at 1."""
    lost_levels = (2 ** (4 * strength.abs()).round()).short()
    return images & (256 - lost_levels).to(torch.uint8)[:, None, None, None]


def solarize(images: Tensor, strength: Tensor) -> Tensor:
    """Turn all values from a threshold on into their negative: it is 255 at strength 0 and 0 at 1."""
    # The little that is taken away keeps a threshold that is a whole number from being rounded up.
    threshold = (255 * (1 - strength.abs()) - 1e-3).ceil().to(torch.uint8)
    return images ^ ((images >= threshold[:, None, None, None]).to(torch.uint8) * 255)


def autocontrast(images: Tensor) -> Tensor:
    """Stretch every channel of every picture to the full range 0..255; one of a single value stays."""
    low, high = (edge.float()[..., None, None] for edge in (images.amin((2, 3)), images.amax((2, 3))))
    factor = torch.where(high > low, 255 / (high - low), 1.0)
    return to_grey_levels((images - low * (high > low)).mul_(factor))


def equalize(images: Tensor) -> Tensor:
    """Give every channel of every picture a flat histogram, as Pillow's `ImageOps.equalize` does."""
    values = images.flatten(2).long()
    one = torch.ones((), dtype=torch.int32, device=images.device)
    histogram = torch.zeros(*values.shape[:2], 256, dtype=torch.int32, device=images.device)
    histogram.scatter_add_(2, values, one.expand_as(values))
    in_last = histogram.gather(2, values.amax(dim=2, keepdim=True))
    step = (values.shape[2] - in_last) // 255
    below = histogram.cumsum(2, dtype=torch.int32) - histogram
    table = ((below + step // 2) // step.clamp(min=1)).clamp_(max=255)
    table = torch.where(step > 0, table, torch.arange(256, dtype=torch.int32, device=images.device))
    return table.to(torch.uint8).gather(2, values).reshape(images.shape)


def rand_augment(images: Tensor, num_ops: int = 2, magnitude: float = 9.0) -> Tensor:
    """Apply random operations to every picture: RandAugment with torchvision's fourteen (Cubuk et al., 2019).

    Each time the batch is dealt out at random into fourteen equal hands, one for each operation, so every picture gets
    a random operation and no operation is computed for a picture that does not get it. Where fourteen does not divide
    the batch, copies of some pictures fill it up, and are thrown away at the end.

    Args:
        images: (B, C, H, W) uint8.
        num_ops: operations in a row per picture.
        magnitude: strength on the scale 0..30; signs are random.

    Returns:
        (B, C, H, W) uint8, a new tensor.
    """
    batch, device = len(images), images.device
    hand = math.ceil(batch / 14)
    sizes = [hand * hands for _, hands in OPERATIONS]
    order = torch.arange(hand * 14, device=device)
    images = images.index_select(0, order % batch)
    for _ in range(num_ops):
        dealt = torch.randperm(len(order), device=device)
        order, images = order.index_select(0, dealt), images.index_select(0, dealt)
        strength = magnitude / 30 * (2 * torch.randint(2, order.shape, device=device) - 1)
        parts = zip(OPERATIONS, images.split(sizes), strength.split(sizes), strict=True)
        images = torch.cat([operation(part, s) for (operation, _), part, s in parts])
    return images.index_select(0, order.argsort()[:batch])


OPERATIONS = [
    (lambda images, _: images, 1),
    (geometry, 5),
    (enhance, 4),
    (posterize, 1),
    (solarize, 1),
    (lambda images, _: autocontrast(images), 1),
    (lambda images, _: equalize(images), 1),
]
"""Functions of pictures (b, C, H, W) and their signed strengths (b,) in -1..1; how many of the fourteen each does."""


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
    share = 1 - cover[:, None, None] * box_mask(boxes, size)
    return blend_with_partners(images, targets, share, torch.randperm(batch, device=device))


def draw_beta(alpha: float, count: int, device: torch.device) -> Tensor:
    """Draw `count` numbers in 0..1 from Beta(alpha, alpha); ones where alpha is 0."""
    if alpha == 0:
        return torch.ones(count, device=device)
    # Older versions of torch cannot draw it on Apple's GPU.
    concentration = torch.full((count, 2), alpha, device="cpu" if device.type == "mps" else device)
    return torch.distributions.Dirichlet(concentration, validate_args=False).sample()[:, 0].to(device)
