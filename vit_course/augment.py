"""Augmentation of whole batches on the device the images are on: tensors in, tensors out, no loop over pictures.

Every picture of a batch gets its own random choice. Nothing here waits for the device, and all shapes depend on
the batch alone, so `torch.compile` can swallow it. `train` calls `augment`; lesson 07 builds parts of it.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from vit_course.data import normalize


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
    """

    crop_padding: int = 0
    flip: float = 0.0
    rand_augment_ops: int = 0
    rand_augment_magnitude: float = 9.0
    erasing: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0


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
    return blend_with_partners(images, targets, (~box_mask(boxes, images.shape[-2:])).float(), permutation)


def blend_with_partners(
    images: Tensor, targets: Tensor, share: Tensor, permutation: Tensor
) -> tuple[Tensor, Tensor]:
    """Blend pictures with partners; `share` (B, H, W) says how much of its own pixel each picture keeps."""
    if not images.is_floating_point():
        raise ValueError(f"images are {images.dtype}: blending needs floating-point numbers")
    kept = share.mean(dim=(1, 2))[:, None]
    images = torch.lerp(images[permutation], images, share[:, None])
    return images, torch.lerp(targets[permutation], targets, kept)


def box_mask(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Turn boxes (B, 4) of top, left, bottom, right into masks (B, H, W), true inside."""
    y = torch.arange(size[0], device=boxes.device)[None, :, None]
    x = torch.arange(size[1], device=boxes.device)[None, None, :]
    top, left, bottom, right = boxes[:, :, None, None].unbind(1)
    return (y >= top) & (y < bottom) & (x >= left) & (x < right)


def random_boxes(area: Tensor, size: tuple[int, int], aspect: tuple[float, float] = (1.0, 1.0)) -> Tensor:
    """Draw a box around a random pixel for each area (B,), a share of the picture; sides ratio within `aspect`.

    A box near the border sticks out of the picture: whoever uses it counts what is inside.
    """
    low, high = torch.tensor(aspect).log().tolist()
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
        probability: share of the pictures that lose a rectangle of 2 to 33 % of their area.
    """
    batch, device = len(images), images.device
    area = torch.empty(batch, device=device).uniform_(0.02, 0.33)
    area = area * (torch.rand(batch, device=device) < probability)
    boxes = random_boxes(area, images.shape[-2:], aspect=(0.3, 3.3))
    return images.masked_fill(box_mask(boxes, images.shape[-2:])[:, None], 0.0)


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

    index = (source(c, d, ty, height) * (width + 2) + source(a, b, tx, width)).long()
    bordered = F.pad(images, [1, 1, 1, 1]).flatten(2)
    return bordered.gather(2, index.reshape(batch, 1, -1).expand(-1, channels, -1)).reshape(images.shape)


def blend(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    """Move from `other` (factor 0) over the picture (1) beyond it (2), as Pillow's enhancers do."""
    mixed = other + factor[:, None, None, None] * (images.float() - other)
    return mixed.round().clamp(0, 255).to(torch.uint8)


def grey(images: Tensor) -> Tensor:
    """Return the brightness (B, 1, H, W) of pictures, float: ITU-R 601 weights for three channels."""
    if images.shape[1] != 3:
        return images.float().mean(dim=1, keepdim=True)
    weights = torch.tensor([0.299, 0.587, 0.114], device=images.device)
    return (images.float() * weights[:, None, None]).sum(dim=1, keepdim=True)


def smooth(images: Tensor) -> Tensor:
    """Blur with Pillow's 3x3 SMOOTH kernel; the border stays as it is."""
    kernel = torch.tensor([[1.0, 1, 1], [1, 5, 1], [1, 1, 1]], device=images.device) / 13
    channels, result = images.shape[1], images.float()
    result[..., 1:-1, 1:-1] = F.conv2d(result, kernel.expand(channels, 1, 3, 3), groups=channels)
    return result


def autocontrast(images: Tensor) -> Tensor:
    """Stretch every channel of every picture to the full range 0..255."""
    flat = images.float()
    low, high = flat.amin(dim=(2, 3), keepdim=True), flat.amax(dim=(2, 3), keepdim=True)
    stretched = (flat - low) * (255 / (high - low).clamp(min=1))
    return torch.where(high > low, stretched, flat).round().to(torch.uint8)


def equalize(images: Tensor) -> Tensor:
    """Give every channel of every picture a flat histogram, as Pillow's `ImageOps.equalize` does."""
    flat = images.flatten(2).long()
    histogram = torch.zeros(*flat.shape[:2], 256, dtype=torch.long, device=images.device)
    histogram.scatter_add_(2, flat, torch.ones_like(flat))
    last = 255 - (histogram.flip(2) > 0).int().argmax(dim=2, keepdim=True)
    step = (flat.shape[2] - histogram.gather(2, last)) // 255
    table = (histogram.cumsum(2) - histogram + step // 2) // step.clamp(min=1)
    equalized = table.clamp(0, 255).gather(2, flat)
    return torch.where(step > 0, equalized, flat).to(torch.uint8).reshape(images.shape)


def rand_augment(images: Tensor, num_ops: int = 2, magnitude: float = 9.0) -> Tensor:
    """Apply random operations to every picture: RandAugment with torchvision's fourteen (Cubuk et al., 2019).

    Each time the batch is dealt out at random into fourteen equal hands, one for each operation, so every picture gets
    a random operation and no operation is computed for a picture that does not get it.

    Args:
        images: (B, C, H, W) uint8.
        num_ops: operations in a row per picture.
        magnitude: strength on the scale 0..30; signs are random.

    Returns:
        (B, C, H, W) uint8, a new tensor.
    """
    strength = magnitude / 30
    for _ in range(num_ops):
        order = torch.randperm(len(images), device=images.device)
        dealt = [
            operation(
                hand, strength * torch.where(torch.rand(len(hand), device=hand.device) < 0.5, -1.0, 1.0)
            )
            for operation, hand in zip(OPERATIONS, images[order].tensor_split(len(OPERATIONS)), strict=True)
        ]
        images = torch.empty_like(images).index_copy_(0, order, torch.cat(dealt))
    return images


def _rotate(images: Tensor, strength: Tensor) -> Tensor:
    angle = strength * (torch.pi / 6)
    return affine(images, angle.cos(), angle.sin(), -angle.sin(), angle.cos())


def _posterize(images: Tensor, strength: Tensor) -> Tensor:
    lost = 2 ** (4 * strength.abs()).round().long()
    return images & (256 - lost).to(torch.uint8)[:, None, None, None]


OPERATIONS = [
    lambda images, _: images,
    lambda images, s: affine(images, b=0.3 * s),
    lambda images, s: affine(images, c=0.3 * s),
    lambda images, s: affine(images, tx=(150 / 331 * images.shape[3] * s).trunc()),
    lambda images, s: affine(images, ty=(150 / 331 * images.shape[2] * s).trunc()),
    _rotate,
    lambda images, s: blend(images, torch.zeros_like(images, dtype=torch.float32), 1 + 0.9 * s),
    lambda images, s: blend(images, grey(images), 1 + 0.9 * s),
    lambda images, s: blend(images, grey(images).mean(dim=(2, 3), keepdim=True).round(), 1 + 0.9 * s),
    lambda images, s: blend(images, smooth(images), 1 + 0.9 * s),
    _posterize,
    lambda images, s: torch.where(images >= (255 * (1 - s.abs()))[:, None, None, None], 255 - images, images),
    lambda images, _: autocontrast(images),
    lambda images, _: equalize(images),
]
"""Identity, shear x and y, translate x and y, rotate, brightness, colour, contrast, sharpness, posterize, solarize,
autocontrast, equalize; each takes (b, C, H, W) uint8 and signed strengths (b,) in -1..1, with torchvision's ranges."""


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
    """Give every picture a random partner, by MixUp or CutMix; where both are on, half of them by each."""
    batch, size = len(images), images.shape[-2:]
    keep = {name: draw_beta(getattr(config, name), batch, images.device) for name in ("mixup", "cutmix")}
    blended = keep["mixup"][:, None, None].expand(batch, *size)
    pasted = (~box_mask(random_boxes(1 - keep["cutmix"], size), size)).float()
    chance = 0.5 if config.mixup and config.cutmix else float(config.mixup > 0)
    use_mixup = torch.rand(batch, 1, 1, device=images.device) < chance
    share = torch.where(use_mixup, blended, pasted)
    return blend_with_partners(images, targets, share, torch.randperm(batch, device=images.device))


def draw_beta(alpha: float, count: int, device: torch.device) -> Tensor:
    """Draw `count` numbers in 0..1 from Beta(alpha, alpha); ones where alpha is 0."""
    if alpha == 0:
        return torch.ones(count, device=device)
    concentration = torch.full((count, 2), alpha, device=device)
    return torch.distributions.Dirichlet(concentration, validate_args=False).sample()[:, 0]
