"""RandAugment: fourteen random operations on whole batches (Cubuk et al., 2019), as in torchvision.

`augment` calls `rand_augment`. Tensors in, tensors out, on the device the images are on; nothing waits for it. Shears
leave the centre of a picture where it is, where torchvision's leave a corner.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def affine(images: Tensor, x_from: tuple[Tensor, ...], y_from: tuple[Tensor, ...]) -> Tensor:
    """Take the pixel at (x, y) from (a·x + b·y + s, c·x + d·y + t): the nearest pixel there, black outside.

    Args:
        images: (B, C, H, W), any dtype. x and y count pixels from the centre.
        x_from: a, b and the shift s in pixels, (B,) each: one number for each picture.
        y_from: c, d and the shift t, likewise.
    """
    batch, channels, height, width = images.shape
    y = torch.arange(height, device=images.device)[:, None] - (height - 1) / 2
    x = torch.arange(width, device=images.device)[None, :] - (width - 1) / 2

    def source(factors: tuple[Tensor, ...], size: int) -> Tensor:
        """Where to read along one axis, counted in a picture with a black border of one pixel."""
        along_x, along_y, shift = (factor[:, None, None] for factor in factors)
        place = along_x * x + (along_y * y + shift + (size + 1) / 2)
        return place.round_().clamp_(0, size + 1)

    index = (source(y_from, height) * (width + 2)).add_(source(x_from, width)).long()
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
    shift_x, shift_y = (150 / 331 * width * move_x).trunc(), (150 / 331 * height * move_y).trunc()
    x_from = angle.cos(), 0.3 * shear_x + angle.sin(), shift_x
    return affine(images, x_from, (0.3 * shear_y - angle.sin(), angle.cos(), shift_y))


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
