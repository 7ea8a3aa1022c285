"""Shapes-10: ten classes of generated pictures, for machines without CIFAR-10, without a file and without a network.

The same seed gives the same bytes everywhere: floats meet only + - * /, sqrt, abs, min, max and floor, which IEEE
arithmetic rounds alike on every machine (sin, cos, exp and normal noise differ in their last digit).
"""

from collections.abc import Callable
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from vit_course.data.dataset import Dataset, as_size, describe_counts, require_room
from vit_course.training.console import progress_bar
from vit_course.training.processor import one_thread

CHUNK = 500  # pictures drawn at once, so that all their numbers fit into a CPU's cache
PATIENCE = 2  # seconds after which a bar shows how far a drawing is
# Colours, waves and noise in 0..1 units. Easier settings let every model win, harder ones let none learn in a minute.
CONTRAST, EXTRA_CONTRAST = 0.35, 0.4  # a shape is lighter than its background by this, up to that much more
TEXTURE = 0.12  # amplitude of the waves on shape and background
NOISE = 0.05  # per pixel, the mean of two uniform numbers in -NOISE..NOISE: deviation 0.02
MAX_TAN_HALF = 0.15  # tan(angle / 2): shapes turn by up to 0.3 rad either way


def disc(x: Tensor, y: Tensor, radius: float, centre: tuple[float, float] = (0.0, 0.0)) -> Tensor:
    """Signed distance to a disc: below 0 inside, 0 on the edge, above 0 outside; the shape of x and y."""
    return ((x - centre[0]) ** 2 + (y - centre[1]) ** 2).sqrt() - radius


def polygon(x: Tensor, y: Tensor, *corners: tuple[float, float]) -> Tensor:
    """Signed distance to a polygon with these (x, y) corners: to its nearest edge, negative inside."""
    distance = torch.full_like(x, torch.inf)
    inside = torch.zeros_like(x, dtype=torch.bool)
    for (x1, y1), (x2, y2) in zip(corners, corners[1:] + corners[:1], strict=True):
        dx, dy = x2 - x1, y2 - y1
        along = (((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy)).clamp(0, 1)
        distance = torch.minimum(distance, (x - x1 - along * dx) ** 2 + (y - y1 - along * dy) ** 2)
        if dy:  # a ray to the right crosses an odd number of edges where it starts inside
            inside ^= ((y1 > y) != (y2 > y)) & (x < x1 + (y - y1) * (dx / dy))
    return torch.where(inside, -1.0, 1.0) * distance.sqrt()


def _arrow(x: Tensor, y: Tensor) -> Tensor:
    shaft = torch.maximum((x + 0.4).abs() - 0.55, y.abs() - 0.22)
    return torch.minimum(shaft, polygon(x, y, (0.05, 0.75), (0.95, 0.0), (0.05, -0.75)))


def _crescent(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(disc(x, y, 0.95), -disc(x, y, 0.8, (0.5, 0.0)))


def _heart(x: Tensor, y: Tensor) -> Tensor:
    tip = polygon(x, y, (-0.87, 0.13), (0.0, 0.6), (0.87, 0.13), (0.0, -0.95))
    return torch.minimum(tip, torch.minimum(disc(x, y, 0.53, (-0.47, 0.45)), disc(x, y, 0.53, (0.47, 0.45))))


def _star(x: Tensor, y: Tensor) -> Tensor:
    outer = ((0.0, 1.0), (0.951, 0.309), (0.588, -0.809), (-0.588, -0.809), (-0.951, 0.309))
    inner = ((0.247, 0.34), (0.4, -0.13), (0.0, -0.42), (-0.4, -0.13), (-0.247, 0.34))
    return polygon(x, y, *(corner for pair in zip(outer, inner, strict=True) for corner in pair))


def _cross(x: Tensor, y: Tensor) -> Tensor:
    x, y = x.abs(), y.abs()
    return torch.minimum(torch.maximum(x - 0.95, y - 0.3), torch.maximum(x - 0.3, y - 0.95))


# Signed distances around the origin, y upwards, each about as large as the unit disc. The order is that of the labels.
SHAPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "arrow": _arrow,
    "circle": lambda x, y: disc(x, y, 0.85),
    "crescent": _crescent,
    "cross": _cross,
    "diamond": lambda x, y: polygon(x, y, (0.0, 1.0), (0.72, 0.0), (0.0, -1.0), (-0.72, 0.0)),
    "heart": _heart,
    "ring": lambda x, y: disc(x, y, 0.68).abs() - 0.24,
    "square": lambda x, y: torch.maximum(x.abs(), y.abs()) - 0.72,
    "star": _star,
    "triangle": lambda x, y: polygon(x, y, (0.0, 0.95), (0.95, -0.75), (-0.95, -0.75)),
}


def _wave(phase: Tensor) -> Tensor:
    """Stand in for sin(2 pi phase): two parabolas a period, within 0.06 of it and the same on every machine."""
    centred = (phase - phase.floor()) * 2 - 1
    return -4 * centred * (1 - centred.abs())


def _place(n: int, height: int, width: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw size, place and rotation; return the pixels' x and y as each shape sees them, and its size, (n, H, W)."""
    size, place_x, place_y, turn = torch.rand(4, n, 1, 1, generator=generator)
    short = min(height, width)
    columns = (2 * torch.arange(width).view(1, 1, -1) + 1 - width) / short  # -1..1 along the shorter side
    rows = (height - 1 - 2 * torch.arange(height).view(1, -1, 1)) / short
    size = 0.4 + 0.25 * size
    columns = columns - (2 * place_x - 1) * (width / short - size)  # the whole shape lies inside the picture
    rows = rows - (2 * place_y - 1) * (height / short - size)
    tan = MAX_TAN_HALF * (2 * turn - 1)
    cos, sin = (1 - tan * tan) / (1 + tan * tan), 2 * tan / (1 + tan * tan)
    return (cos * columns + sin * rows) / size, (cos * rows - sin * columns) / size, size


def _texture(x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
    """Draw waves of a random direction, length and strength, (n, 1, H, W)."""
    across, down, phase, strength = torch.rand(4, len(x), 1, 1, generator=generator)
    return (TEXTURE * strength * _wave(x * (3 * across - 1.5) + y * (3 * down - 1.5) + phase)).unsqueeze(1)


def _draw(labels: Tensor, height: int, width: int, generator: torch.Generator) -> Tensor:
    """Draw one picture a label: uint8 (n, 3, H, W)."""
    n = len(labels)
    x, y, size = _place(n, height, width, generator)
    distance = torch.empty_like(x)
    for label, shape in enumerate(SHAPES.values()):
        members = labels == label
        distance[members] = shape(x[members], y[members])
    pixel = 2 / min(height, width) / size  # a pixel's side, measured in the shape's own units
    cover = (0.5 - distance / pixel).clamp(0, 1).unsqueeze(1)  # how much of the pixel the shape covers

    level, step = torch.rand(2, n, 3, 1, 1, generator=generator)
    step = CONTRAST + EXTRA_CONTRAST * step  # a shape is lighter than what is behind it, channel by channel
    background = level * (1 - step)
    inside, outside = (colour + _texture(x, y, generator) for colour in (background + step, background))
    # In place: a kernel keeps what was once its largest need.
    images = inside.sub_(outside).mul_(cover).add_(outside)
    noise = torch.rand(2, n, 3, height, width, generator=generator).mul_(2).sub_(1).mul_(NOISE)
    images += noise[0].add_(noise[1]).div_(2)
    return images.clamp_(0, 1).mul_(255).add_(0.5).to(torch.uint8)


def draw_shapes(n: int, seed: int, image_size: int | tuple[int, int] = 32) -> tuple[Tensor, Tensor]:
    """Draw n pictures, of every class as many as of any other (within one), in random order.

    Args:
        n: how many.
        seed: which; the same seed gives the same bytes on every machine.
        image_size: side in pixels, or (height H, width W).

    Returns:
        Images, uint8 (n, 3, H, W), and labels, int64 (n,), that count in the order of `SHAPES`.

    Raises:
        ValueError: if n is negative, a side is shorter than 8 pixels, where shapes cannot be told apart, or all of them
            need too much memory.
    """
    height, width = as_size(image_size)
    if n < 0 or min(height, width) < 8:
        raise ValueError(f"cannot draw {n} pictures of {height}x{width} pixels: use n >= 0 and sides >= 8")
    require_room(n, (height, width), "draw fewer or smaller ones")
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(n, generator=generator).argsort(stable=True)
    labels = (torch.arange(n) % len(SHAPES))[order]
    images = np.empty((n, 3, height, width), np.uint8)  # joining chunks would take twice the memory
    with one_thread():  # each step is so small that threads would wait for one another on a busy machine
        for start in progress_bar(range(0, n, CHUNK), "drawing Shapes-10", delay=PATIENCE):
            part = slice(start, start + CHUNK)
            images[part] = _draw(labels[part], height, width, generator).numpy()
    return torch.from_numpy(images), labels


_kept: WeakValueDictionary[tuple, Dataset] = WeakValueDictionary()
"""The sets in use, by what was asked for: a notebook that asks twice for one set gets the same pictures."""


def _unchanged(dataset: Dataset) -> bool:
    """Tell whether nobody wrote into the pictures or labels of a set."""
    tensors = dataset.train_images, dataset.train_labels, dataset.test_images, dataset.test_labels
    return not any(tensor.is_inference() or tensor._version for tensor in tensors)


def shapes10(
    train: int = 8000, test: int = 2000, seed: int = 0, image_size: int | tuple[int, int] = 32
) -> Dataset:
    """Generate Shapes-10: ten classes of coloured, textured, slightly turned shapes at random places.

    Takes about two seconds at the default sizes. Training and test pictures come from two separate streams of random
    numbers, and every class has as many pictures as any other (within one). A set that is still in use is not drawn
    again: who asks for it gets the same tensors, unless somebody wrote into them.

    Args:
        train: number of training pictures.
        test: number of test pictures.
        seed: which pictures; the same seed gives the same bytes on every machine.
        image_size: side in pixels, or (height, width); at least 8.
    """
    size = as_size(image_size)
    asked = (train, test, seed, size)
    dataset = _kept.get(asked)
    if dataset is None or not _unchanged(dataset):
        train_part, test_part = draw_shapes(train, 2 * seed, size), draw_shapes(test, 2 * seed + 1, size)
        provenance = f"Shapes-10 (generated, seed {seed}), {describe_counts(train, test)}"
        dataset = _kept[asked] = Dataset(*train_part, *test_part, tuple(SHAPES), provenance)
    return dataset
