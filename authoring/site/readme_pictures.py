"""Make the two pictures of the README from what the repository holds: `python -m authoring.site.readme_pictures`.

`docs/hero.png` is a photograph of the page "See it think" after a star was drawn (this needs Playwright and Chromium);
`docs/overview.png` is the overview of lesson 00. Another browser or matplotlib draws other bytes, so no test compares
them: run this after a change of what they show, and look at them.
"""

import functools
import io
import itertools
import math
import shutil
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from authoring.notebooks.course import read_course  # noqa: E402
from authoring.site.book import write_play_alone  # noqa: E402
from vit_classroom import plots  # noqa: E402
from vit_classroom.plots.style import enlarge_type  # noqa: E402

STAR = [(r * math.sin(a), r * math.cos(a)) for a, r in zip(
    (math.pi * part / 5 for part in range(11)), itertools.cycle((0.62, 0.27)), strict=False
)]  # fmt: skip
"""A star of five tips, in -1..1, y upwards."""


def hero() -> None:
    """Photograph "See it think" in Chromium, after somebody has drawn a star with the mouse: `docs/hero.png`."""
    from playwright.sync_api import sync_playwright

    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        write_play_alone(read_course(ROOT), Path(folder))
        handler = functools.partial(SimpleHTTPRequestHandler, directory=folder)
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1160, "height": 720}, device_scale_factor=1.5)
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        page.wait_for_function("() => document.getElementById('play')?.play?.times.length")
        page.add_style_tag(content="body { margin: 0; padding: 20px 24px; background: #fff; }")
        draw(page, STAR)
        page.get_by_text("It says star").wait_for()
        page.wait_for_timeout(1000)  # the bars have moved
        bottom = page.locator(".drawing, [role=tablist]").last.bounding_box()["y"]
        picture = page.screenshot(clip={"x": 0, "y": 0, "width": 1160, "height": bottom - 12})
        browser.close()
        server.shutdown()
    keep(Image.open(io.BytesIO(picture)), "hero.png")


def draw(page, points: list[tuple[float, float]]) -> None:
    """Draw a line with the mouse on the image of the page."""
    box = page.locator(".picture .over").bounding_box()
    for number, (x, y) in enumerate(points):
        place = box["x"] + box["width"] * (1 + x) / 2, box["y"] + box["height"] * (1 - y) / 2
        page.mouse.move(*place, steps=8 if number else 1)
        if not number:
            page.mouse.down()
    page.mouse.up()


def keep(picture: Image.Image, name: str) -> None:
    """Write a picture to `docs/` in 256 colours, small enough for a page that all read."""
    path = ROOT / "docs" / name
    picture.convert("RGB").quantize(256).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


def overview() -> None:
    """Draw the overview of lesson 00: `docs/overview.png`."""
    figure, drawn = plots.vit_overview(), io.BytesIO()
    enlarge_type(figure)
    figure.savefig(drawn, dpi=100, facecolor=figure.get_facecolor())
    keep(Image.open(drawn), "overview.png")


if __name__ == "__main__":
    hero()
    overview()
