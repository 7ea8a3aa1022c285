"""A diagram of lesson 13: what goes through a masked autoencoder, from the patches to the prediction."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vit_classroom.plots.diagrams import Diagram
from vit_classroom.plots.pictures import sample_photo, to_picture
from vit_classroom.plots.style import PALETTE, course_style
from vit_course.patches import patchify, unpatchify

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNT = 8
MASK = "M"
VISIBLE = [1, 6]
"""The patches that a masked autoencoder's encoder gets."""


@course_style()
def masking_diagram() -> "Figure":
    """Draw a masked autoencoder, bottom up: few patches are read, all are put back, the hidden ones are predicted."""
    diagram = Diagram("What does each part read?", (7.0, 4.6), (-3.4, 9.4), (-0.3, 8.2), fontsize=10)
    for y, text in (
        (0.4, "patches"),
        (2.1, "the encoder\nreads"),
        (4.8, "the decoder\nreads"),
        (7.3, "to predict"),
    ):
        diagram.text(-0.3, y, text, ha="right", fontsize=10)
    draw_autoencoder(diagram, 0)
    return diagram.figure


def draw_autoencoder(diagram: Diagram, left: float) -> None:
    """Draw the parts: visible tokens go in, come back to their places, and a second model reads them all."""
    places, hidden = range(COUNT), [n for n in range(COUNT) if n not in VISIBLE]
    draw_tokens(diagram, left, 0, places, range(COUNT))
    for stop, number in enumerate(VISIBLE):
        draw_tokens(diagram, left, 1.7, [stop], {stop: number})
        diagram.arrow(left + number + 0.5, 0.9, left + stop + 0.5, 1.65)
        diagram.arrow(left + stop + 0.5, 3.95, left + number + 0.5, 4.35)
    draw_arrows(diagram, left, 2.6, 2.95, range(len(VISIBLE)))
    diagram.box(left, 3.0, len(VISIBLE), 0.9, "encoder", PALETTE[0])
    diagram.text(left + 3.0, 3.3, "every z goes back\nto the place of its patch", ha="left", fontsize=9)
    draw_tokens(diagram, left, 4.4, places, ["z" if n in VISIBLE else MASK for n in places])
    diagram.box(left, 5.6, COUNT, 0.8, "decoder, a small Transformer", PALETTE[4])
    draw_arrows(diagram, left, 5.25, 5.55, places)
    draw_arrows(diagram, left, 6.45, 6.85, hidden)
    draw_tokens(diagram, left, 6.9, hidden, ["?"] * COUNT)


def draw_arrows(diagram: Diagram, left: float, low: float, high: float, places: Sequence[int]) -> None:
    """Draw an arrow upwards at each of these places."""
    for place in places:
        diagram.arrow(left + place + 0.5, low, left + place + 0.5, high)


def draw_tokens(diagram, left: float, y: float, places, contents) -> None:
    """Draw a row of tokens: the picture of a patch where its number is the content, else a box with the text."""
    photo = sample_photo((64, 64))[:, 16:48]  # the two middle rows of 4x4 patches: eyes and mouth
    patches = patchify(photo[None], 16)[0]
    for place in places:
        content, x = contents[place], left + place + 0.08
        if isinstance(content, int):
            picture = to_picture(unpatchify(patches[None, content : content + 1], 16, (1, 1))[0])
            diagram.axis.imshow(picture, extent=(x, x + 0.84, y, y + 0.84), aspect="auto", zorder=2)
        else:
            diagram.box(x, y, 0.84, 0.84, "", "0.6" if content == MASK else PALETTE[5], lw=1)
            diagram.text(x + 0.42, y + 0.42, content, fontsize=9)
