"""Write the sample images of "See it think": `python -m authoring.site.play_samples`.

They are the first test drawing of every class of Shapes-10, four pictures painted here that stand in for photos (the
images of CIFAR-10 are not ours to publish), and the portrait that comes with matplotlib. Another Pillow may paint other
bytes, so no test compares them: run this after a change, and look at the page.
"""

import base64
import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from torch import Tensor

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from vit_classroom.plots import sample_photo  # noqa: E402
from vit_course.data import shapes10  # noqa: E402

SIDE = 256
"""Side of a painting in pixels, before it is shrunk."""
TO = ROOT / "vit_classroom/exhibits/play/samples.json"


def pixels_of(image: Tensor) -> bytes:
    """Return an image (3, H, W) as bytes of (H, W, 3)."""
    return image.permute(1, 2, 0).contiguous().numpy().tobytes()


def ground(above: tuple, below: tuple, horizon: int, *bands: tuple) -> Image.Image:
    """Paint a sky that fades from one colour to another, and below the horizon bands (height, colour)."""
    fade = np.linspace(0, 1, SIDE)[:, None, None]
    sky = (np.array(above) * (1 - fade) + np.array(below) * fade).repeat(SIDE, 1)
    image = Image.fromarray(sky.astype(np.uint8))
    for height, colour in bands:
        ImageDraw.Draw(image).rectangle((0, horizon, SIDE, horizon + height), fill=colour)
        horizon += height
    return image


def ship() -> Image.Image:
    """Paint a ship on the sea."""
    image = ground((150, 185, 225), (215, 228, 240), 160, (96, (40, 78, 115)))
    draw = ImageDraw.Draw(image)
    draw.polygon([(22, 138), (234, 138), (210, 184), (46, 184)], fill=(60, 30, 35))
    draw.polygon([(22, 138), (234, 138), (230, 146), (25, 146)], fill=(235, 235, 235))
    for box, colour in (
        ((70, 108, 190, 138), (240, 240, 238)),
        ((85, 84, 160, 108), (225, 228, 230)),
        ((110, 56, 130, 84), (190, 50, 40)),
    ):
        draw.rectangle(box, fill=colour)
    for x in range(78, 186, 14):
        draw.rectangle((x, 118, x + 6, 126), fill=(60, 80, 100))
    return image


def airplane() -> Image.Image:
    """Paint an airplane in the sky."""
    image = ground((95, 150, 215), (190, 215, 240), SIDE)
    draw = ImageDraw.Draw(image)
    body = [(20, 138), (48, 120), (200, 112), (238, 124), (244, 132), (200, 144), (50, 148)]
    for corners, colour in (
        (body, (238, 240, 243)),
        ([(200, 144), (50, 148), (20, 138), (244, 132)], (190, 196, 205)),
        ([(20, 132), (8, 82), (30, 82), (62, 124)], (215, 220, 228)),
        ([(110, 136), (60, 204), (88, 204), (160, 136)], (170, 178, 190)),
        ([(120, 118), (96, 78), (112, 78), (158, 116)], (205, 210, 218)),
    ):
        draw.polygon(corners, fill=colour)
    for x in range(70, 205, 12):
        draw.rectangle((x, 122, x + 5, 127), fill=(60, 75, 100))
    return image


def truck() -> Image.Image:
    """Paint a truck on a road."""
    image = ground((180, 200, 220), (225, 228, 228), 170, (26, (110, 130, 90)), (60, (105, 105, 108)))
    draw = ImageDraw.Draw(image)
    draw.rectangle((18, 60, 168, 190), fill=(235, 236, 238))
    draw.rectangle((18, 150, 168, 160), fill=(180, 30, 30))
    draw.polygon([(172, 96), (214, 96), (238, 136), (240, 190), (172, 190)], fill=(190, 35, 35))
    draw.polygon([(182, 106), (208, 106), (226, 136), (182, 136)], fill=(70, 90, 110))
    draw.rectangle((16, 186, 242, 198), fill=(50, 50, 52))
    for x in (50, 92, 206):
        wheel(draw, x, 200, 20)
    return image


def automobile() -> Image.Image:
    """Paint a car on a road."""
    image = ground((170, 195, 215), (215, 220, 222), 130, (40, (95, 120, 80)), (86, (120, 120, 122)))
    draw = ImageDraw.Draw(image)
    body = [(16, 176), (20, 140), (62, 130), (92, 94), (170, 94), (204, 130), (236, 138), (242, 176)]
    draw.polygon(body, fill=(200, 30, 35))
    for pane in (
        [(76, 130), (98, 102), (126, 102), (126, 130)],
        [(134, 130), (134, 102), (166, 102), (190, 130)],
    ):
        draw.polygon(pane, fill=(60, 75, 90))
    draw.rectangle((14, 168, 244, 184), fill=(120, 18, 22))
    draw.ellipse((226, 142, 242, 154), fill=(250, 240, 190))
    for x in (66, 192):
        wheel(draw, x, 183, 25)
    return image


def wheel(draw: ImageDraw.ImageDraw, x: int, y: int, radius: int) -> None:
    """Paint a wheel around a point."""
    for part, grey in ((1, 24), (0.47, 165)):
        reach = part * radius
        draw.ellipse((x - reach, y - reach, x + reach, y + reach), fill=(grey, grey, grey))


def main() -> None:
    """Write all samples, the star first, because the page opens with it."""
    drawn, found = shapes10(), []
    for name in sorted(drawn.classes, key=lambda name: (name != "star", name)):
        first = (drawn.test_labels == drawn.classes.index(name)).nonzero()[0, 0]
        found.append((name, "drawing", pixels_of(drawn.test_images[first])))
    for paint in (ship, airplane, truck, automobile):
        small = paint().filter(ImageFilter.GaussianBlur(1.5)).resize((32, 32), Image.Resampling.BOX)
        found.append((f"painted {paint.__name__}", "photo", small.tobytes()))
    found.append(("portrait", "photo", pixels_of(sample_photo((32, 32)))))
    written = [
        {"name": name, "kind": kind, "pixels": base64.b64encode(data).decode()} for name, kind, data in found
    ]
    TO.write_text(json.dumps(written, indent=0) + "\n", encoding="utf-8")
    print(f"{TO.relative_to(ROOT)}: {len(found)} images, {TO.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
