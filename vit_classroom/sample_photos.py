"""Thirty images in place of your own photos: objects drawn on parts of a real photo, saved as phones save them.

The ground is cut from matplotlib's sample photo, a portrait of Grace Hopper by James S. Davis (U.S. Navy, 1984), which
is in the public domain. The objects are drawn, and a model that saw photos of ten other kinds has to classify them.
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter
from torch import Tensor

from vit_classroom.plots import sample_photo, to_picture

KINDS = ("key", "leaf", "mug")
LEARN, TEST = 20, 10
LIGHTS = {"red": (1, 0.4, 0.4), "green": (0.4, 1, 0.4), "blue": (0.4, 0.4, 1), "white": (1, 1, 1)}
OVER = 3  # things are drawn so many times larger and shrunk, which smooths their edges


def write_photos(folder: str | Path, seed: int = 0) -> dict[str, str]:
    """Write thirty photos into train/<kind>/ and test/<kind>/, twenty to learn from and ten to test.

    Some are as they come from phones and scanners: turned by a note in the file, grey, for print (CMYK), huge, with a
    transparent ground, as a panorama.

    Args:
        folder: is made, if it is not there.
        seed: which photos.

    Returns:
        What is odd about a photo, by its path in the folder.
    """
    folder, random, odd = Path(folder), np.random.default_rng(seed), {}
    for i in range(LEARN + TEST):
        kind = KINDS[i % len(KINDS)]
        size = (1200, 400) if i == 8 else (3200, 2400) if i == 5 else tuple(random.integers(240, 500, 2))
        photo, _ = draw_photo(kind, random, size)
        name = f"{'train' if i < LEARN else 'test'}/{kind}/{i:02d}"
        path, (photo, what, options) = folder / name, as_saved(photo, i)
        path = path.with_suffix(".png" if photo.mode == "RGBA" else ".jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        photo.save(path, **options)
        if what:
            odd[path.relative_to(folder).as_posix()] = what
    return odd


def draw_photos(
    count: int, size: tuple[int, int], seed: int = 1, masks: tuple[int, int] | None = None
) -> tuple[Tensor, ...]:
    """Draw more photos of these kinds, and keep them in memory.

    Args:
        count: how many; the kinds take turns.
        size: (height, width) in pixels.
        seed: which ones.
        masks: (rows, columns) of a grid of patches, to be told which patches the thing covers at least by half.

    Returns:
        Pictures, uint8 (N, 3, H, W), labels (N,) in the order of `KINDS`; with `masks` also (N, rows, columns), bool.
    """
    random, pictures, covered = np.random.default_rng(seed), [], []
    for i in range(count):
        photo, mask = draw_photo(KINDS[i % len(KINDS)], random, (4 * size[1], 4 * size[0]))
        pictures.append(np.asarray(photo.resize(size[::-1], Image.Resampling.BOX)))
        if masks:
            covered.append(np.asarray(mask.resize(masks[::-1], Image.Resampling.BOX)) > 127)
    images = torch.from_numpy(np.stack(pictures)).movedim(-1, 1).contiguous()
    found = images, torch.arange(count) % len(KINDS)
    return (*found, torch.from_numpy(np.stack(covered))) if masks else found


def in_coloured_light(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Put each of the images, uint8 (N, 3, H, W), into one of `LIGHTS` at random.

    Returns:
        The images, uint8, and the number of the combination of each (N,), 4 times the label plus the light's number.
    """
    light = torch.randint(len(LIGHTS), (len(labels),))
    colours = torch.tensor(list(LIGHTS.values()))[light][:, :, None, None]
    return (images * colours).byte(), len(LIGHTS) * labels + light


def as_saved(photo: Image.Image, number: int) -> tuple[Image.Image, str, dict]:
    """Return a photo as a device would save it, what is odd about it, and the options of `save`."""
    if number in (0, 21):  # the phone was held upright: pixels lie on their side, and a note says so
        exif = Image.Exif()
        exif[0x0112] = 6
        return photo.transpose(Image.Transpose.ROTATE_90), "turned by a note in the file", {"exif": exif}
    if number in (1, 25):
        return photo.convert("L"), "grey", {}
    if number in (4, 23):
        return photo.convert("CMYK"), "CMYK, for print", {"quality": 95}
    if number == 7:
        return photo.convert("RGBA"), "with transparency", {}
    return photo, {5: "7.7 million pixels", 8: "a panorama, three times as wide as high"}.get(number, ""), {}


def draw_photo(
    kind: str, random: np.random.Generator, size: tuple[int, int]
) -> tuple[Image.Image, Image.Image]:
    """Draw a thing on a part of the portrait.

    Args:
        kind: one of `KINDS`.
        random: draws place, size, colours and turn.
        size: (width, height) in pixels.

    Returns:
        The photo, RGB, and where the thing is, mode "L" with 255 inside.

    Raises:
        ValueError: if the kind is another one.
    """
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is none of {', '.join(KINDS)}")
    width, height = map(int, size)
    side = int(random.uniform(0.55, 0.85) * min(width, height))
    canvas = Image.new("L", (OVER * min(side, 400),) * 2)
    DRAWN[kind](ImageDraw.Draw(canvas), canvas.width)
    if random.random() < 0.5:
        canvas = canvas.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    shape = canvas.rotate(random.uniform(-20, 20), Image.Resampling.BICUBIC).resize(
        (side, side), Image.Resampling.LANCZOS
    )
    mask = Image.new("L", (width, height))
    free = min(width, height) - side  # it stays in the square that reading a folder cuts from the middle
    place = ((length - side) / 2 + random.uniform(-0.5, 0.5) * free for length in (width, height))
    mask.paste(shape, tuple(map(int, place)))
    colour = tuple(int(c) for c in random.integers(150, 256, 3))
    return Image.composite(
        Image.new("RGB", (width, height), colour), draw_ground(random, width, height), mask
    ), mask


def draw_ground(random: np.random.Generator, width: int, height: int) -> Image.Image:
    """Cut a piece without the face from a margin of the portrait, enlarge, blur and darken it."""
    portrait = Image.fromarray((255 * to_picture(sample_photo())).round().astype(np.uint8))
    side = portrait.width // 5
    x = random.choice(
        [
            random.integers(0, side // 2),
            random.integers(portrait.width - side * 5 // 4, portrait.width - side),
        ]
    )
    y = random.integers(0, portrait.height - side)
    ground = portrait.crop((int(x), int(y), int(x) + side, int(y) + side)).resize((width, height))
    return ImageEnhance.Brightness(
        ground.filter(ImageFilter.GaussianBlur(0.01 * min(width, height)))
    ).enhance(0.5)


def key(draw: ImageDraw.ImageDraw, s: float) -> None:
    """Draw a key into a square of side s: a ring, a shaft, two teeth."""
    draw.ellipse((0.08 * s, 0.33 * s, 0.42 * s, 0.67 * s), outline=255, width=int(0.09 * s))
    draw.rectangle((0.38 * s, 0.45 * s, 0.93 * s, 0.55 * s), fill=255)
    for x in (0.7, 0.84):
        draw.rectangle((x * s, 0.5 * s, (x + 0.08) * s, 0.7 * s), fill=255)


def leaf(draw: ImageDraw.ImageDraw, s: float) -> None:
    """Draw a leaf: two arcs that meet in points, a cut along the vein, a stalk."""
    t = np.linspace(0, np.pi, 40)
    up = [((0.12 + 0.7 * i / 39) * s, (0.5 - 0.27 * np.sin(a)) * s) for i, a in enumerate(t)]
    down = [(x, s - y) for x, y in reversed(up)]
    draw.polygon(up + down, fill=255)
    draw.line((0.3 * s, 0.5 * s, 0.8 * s, 0.5 * s), fill=0, width=int(0.02 * s))
    draw.line((0.8 * s, 0.5 * s, 0.95 * s, 0.5 * s), fill=255, width=int(0.04 * s))


def mug(draw: ImageDraw.ImageDraw, s: float) -> None:
    """Draw a mug: a body with round corners, and a handle."""
    draw.ellipse((0.5 * s, 0.3 * s, 0.92 * s, 0.7 * s), outline=255, width=int(0.08 * s))
    draw.rounded_rectangle((0.15 * s, 0.18 * s, 0.68 * s, 0.84 * s), radius=0.08 * s, fill=255)


DRAWN = {"key": key, "leaf": leaf, "mug": mug}
