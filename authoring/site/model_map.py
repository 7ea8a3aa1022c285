"""The map of the model at the head of each lesson: where are we, between pixels and logits?

Front matter says which parts a lesson owns, or looks into: `map: [patches, embed]`. They are in colour, parts of
older lessons get a tick. With `no shapes` in the list, the shapes on the arrows are left out.

The picture is a file, because GitHub shows no drawing (SVG) in a notebook; it holds what it was drawn from, so `build`
knows when it is stale, whichever matplotlib drew it.
"""

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from authoring.notebooks.course import Course, Lesson

FOLDER = Path("docs", "maps")
DRAWN_FROM = "Source"
"""The entry of the PNG that holds what it was drawn from."""
PARTS = {
    "patches": "patches",
    "embed": "× E",
    "cls": "CLS in front",
    "position": "+ position",
    "norm": "norm",
    "attention": "attention",
    "residual": "+",
    "mlp": "MLP",
    "block": "L times",
    "pool": "pool",
    "head": "head",
}
"""The parts that a lesson can own, and what the map calls them."""
NO_SHAPES = "no shapes"
"""Stands in the list of a lesson that asks for the shapes."""
TOKENS = [("patches", 2.1), ("embed", 5.5), ("cls", 8.5), ("position", 12.45)]
BLOCK = [
    ("norm", 0.9),
    ("attention", 2.4),
    ("residual", 4.4),
    ("norm", 5.15),
    ("mlp", 6.65),
    ("residual", 8.2),
]
WIDTHS = {"patches": 1.6, "embed": 1.1, "cls": 2.0, "position": 1.75, "attention": 1.65, "residual": 0.45}
WIDTH = 1.2
HIGH, LOW = 4.5, 1.5
"""How high the two rows of the map stand."""


def parts_of(course: Course, lesson: Lesson) -> tuple[list[str], list[str]]:
    """Return the parts that stand in colour in the map of a lesson, and those with a tick.

    Raises:
        LessonError: if the lesson names a part that the model has not.
    """
    if unknown := sorted(set(lesson.map) - PARTS.keys() - {NO_SHAPES}):
        raise lesson.error(1, f"map: the model has no {', '.join(unknown)}; its parts are {', '.join(PARTS)}")
    older = {part for stop in course.lessons if stop.number < lesson.number for part in stop.map or ()}
    here = [part for part in PARTS if part in lesson.map]
    return here, [part for part in PARTS if part in older and part not in here]


def map_text(course: Course, lesson: Lesson) -> str:
    """Return the map of a lesson as Markdown, with a text for those who cannot see it."""
    here, finished = parts_of(course, lesson)
    alt = "Map of the model, from images through patches, tokens and L blocks to logits."
    alt += f" In colour, this lesson: {', '.join(here)}." if here else ""
    alt += f" With a tick, built before: {', '.join(finished)}." if finished else ""
    card = (
        "\n\nEvery shape and size is on the [shape card](../docs/shape_card.md)."
        if shows_shapes(lesson)
        else ""
    )
    return f"![{alt}](../{map_file(lesson).as_posix()}){card}"


def shows_shapes(lesson: Lesson) -> bool:
    """Tell whether the map of a lesson has the shapes on its arrows."""
    return NO_SHAPES not in (lesson.map or ())


def map_file(lesson: Lesson) -> Path:
    """Return where the map of a lesson lies, from the root."""
    return FOLDER / f"{lesson.slug}.png"


def source_of(course: Course, lesson: Lesson) -> str:
    """Return a hash of what the map of a lesson is drawn from: this file, and the parts."""
    facts = [Path(__file__).read_text(encoding="utf-8"), parts_of(course, lesson), shows_shapes(lesson)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def is_current_map(course: Course, lesson: Lesson) -> bool:
    """Tell whether the map of a lesson is there, and drawn from what it should show."""
    from PIL import Image

    path = course.root / map_file(lesson)
    if not path.is_file():
        return False
    with Image.open(path) as picture:
        return picture.info.get(DRAWN_FROM) == source_of(course, lesson)


def write_map(course: Course, lesson: Lesson) -> None:
    """Draw the map of a lesson into its file, in few colours: a file of some ten kilobytes."""
    import matplotlib.pyplot as plt
    from PIL import Image, PngImagePlugin

    figure = draw_map(*parts_of(course, lesson), shows_shapes(lesson))
    figure.savefig(drawn := io.BytesIO(), format="png", dpi=125)
    plt.close(figure)
    picture = Image.open(drawn).convert("RGB").quantize(64)
    notes = PngImagePlugin.PngInfo()
    notes.add_text(DRAWN_FROM, source_of(course, lesson))
    path = course.root / map_file(lesson)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, pnginfo=notes, optimize=True)


def draw_map(here: Sequence[str], finished: Sequence[str], shapes: bool = True) -> Any:
    """Draw the whole model from images to logits, with or without the shape on each arrow, as a matplotlib figure."""
    from vit_classroom.plots.style import course_style, enlarge_type

    with course_style():
        drawn = Map(here, finished, shapes)
        drawn.tokens()
        drawn.block()
        drawn.scores()
    enlarge_type(drawn.diagram.figure)
    return drawn.diagram.figure


class Map:
    """The drawing, and which of its parts are in colour or finished."""

    def __init__(self, here: Sequence[str], finished: Sequence[str], shapes: bool = True):
        from vit_classroom.plots.diagrams import Diagram
        from vit_classroom.plots.style import PALETTE

        self.here, self.finished, self.shapes, self.palette = here, finished, shapes, PALETTE
        self.diagram = Diagram("", (8.4, 2.75), (-0.3, 16.7), (0.2, 5.5), fontsize=10, lw=1.0)
        self.diagram.figure.set_facecolor("#f6f8fa")  # quiet on a white page, and no glare on a black one

    def part(self, name: str, x: float, y: float) -> float:
        """Draw a part with its left side at x, and return where its right side is."""
        width, here = WIDTHS.get(name, WIDTH), name in self.here
        look = (
            {"alpha": 0.85, "edgecolor": self.palette[0]}
            if here
            else {"alpha": 1, "edgecolor": "0.45", "lw": 1}
        )
        high = 0.55 if name == "residual" else 1.0
        colour = self.palette[5] if here else "white"
        self.diagram.box(x, y - high / 2, width, high, PARTS[name], colour, zorder=2, **look)
        if name in self.finished:
            tick = {"fontsize": 10, "color": self.palette[2], "weight": "bold"}
            self.diagram.text(x + width, y + high / 2, "✓", **tick)
        return x + width

    def arrow(self, start: float, stop: float, y: float) -> None:
        """Draw an arrow to the right."""
        self.diagram.arrow(start, y, stop, y)

    def shape(self, x: float, y: float, shape: str, **look: Any) -> None:
        """Write the shape of what flows along an arrow, if the map has shapes."""
        if self.shapes:
            self.diagram.text(x, y, shape, **{"va": "bottom", "fontsize": 8.5, "color": "0.25"} | look)

    def tokens(self) -> None:
        """Draw the upper row: from images to the tokens that enter the first block."""
        self.diagram.text(-0.2, HIGH, "images", ha="left", fontsize=10)
        self.shape(-0.2, HIGH - 0.75, "(B, C, H, W)", ha="left")
        end = 1.05
        for (name, x), shape in zip(TOKENS, ["", "(B, N, P²·C)", "(B, N, D)", "(B, N+1, D)"], strict=True):
            self.arrow(end, x, HIGH)
            self.shape((end + x) / 2, HIGH + 0.15, shape)
            end = self.part(name, x, HIGH)

    def block(self) -> None:
        """Draw the lower left: one encoder block in its frame, with the way around each branch."""
        here = "block" in self.here
        frame = (
            {"alpha": 0.35, "edgecolor": self.palette[0]}
            if here
            else {"alpha": 1, "edgecolor": "0.6", "lw": 1}
        )
        self.diagram.box(
            0.5, LOW - 1.05, 8.35, 2.6, "", self.palette[5] if here else "0.92", zorder=0, **frame
        )
        tick = " ✓" if "block" in self.finished else ""
        self.diagram.text(8.75, LOW - 0.82, f"{PARTS['block']}{tick}", ha="right", fontsize=10)
        end = 0.1
        for name, x in BLOCK:
            self.arrow(end, x, LOW)
            end = self.part(name, x, LOW)
        for start, stop in ((0.7, 4.62), (5.0, 8.42)):
            self.diagram.line([start, start, stop], [LOW, LOW + 1.15, LOW + 1.15])
            self.diagram.arrow(stop, LOW + 1.15, stop, LOW + 0.3)
        turn = (LOW + HIGH) / 2 + 0.3
        self.diagram.line([14.2, 14.7, 14.7, 0.1, 0.1], [HIGH, HIGH, turn, turn, LOW])
        self.shape(7.2, turn + 0.08, "(B, N+1, D)")

    def scores(self) -> None:
        """Draw the lower right: from the tokens that leave the last block to the logits."""
        self.arrow(8.65, 10.7, LOW)
        self.shape(9.78, LOW + 0.15, "(B, N+1, D)")
        end = self.part("norm", 10.7, LOW)
        self.arrow(end, end + 0.4, LOW)
        end = self.part("pool", end + 0.4, LOW)
        self.arrow(end, end + 1.0, LOW)
        self.shape(end + 0.5, LOW + 0.15, "(B, D)")
        end = self.part("head", end + 1.0, LOW)
        self.arrow(end, end + 0.55, LOW)
        self.diagram.text(end + 0.6, LOW, "logits", ha="left", fontsize=10)
        self.shape(end + 0.6, LOW - 0.75, "(B, K)", ha="left")
