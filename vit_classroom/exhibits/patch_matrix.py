"""The figure of lesson 01: a patch is a row of numbers, and this row times the matrix E is a token."""

from typing import TYPE_CHECKING

from torch import Tensor

from vit_classroom.plots import PALETTE, course_style, to_picture
from vit_classroom.plots.diagrams import Diagram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARK = PALETTE[1]
"""The colour of the patch that is followed."""


@course_style()
def patch_times_matrix(image: Tensor, patches: Tensor, matrix: Tensor, followed: int) -> "Figure":
    """Draw an image, the matrix of its patches, the matrix E and their product, and follow one patch through them.

    Args:
        image: (C, H, W), uint8, cut into a square grid of patches.
        patches: (N, P·P·C), its patches as rows.
        matrix: E, (P·P·C, D).
        followed: index of the patch that is marked in all of them.
    """
    count, length = patches.shape
    columns, width = int(count**0.5), matrix.shape[1]
    diagram = Diagram("Where does a token come from?", (10, 3.3), (-0.2, 25.2), (-0.9, 7))
    draw_image(diagram, image, columns, followed)
    diagram.arrow(5.3, 3, 6.4, 3)
    rows, tokens = patches.float() / 255, (patches.float() / 255 - 0.5) @ matrix
    for left, right, table, name, shape in (
        (6.6, 14.6, rows, "the patches, one in each row", (count, length)),
        (16, 18.2, matrix, "E", (length, width)),
        (19.7, 21.9, tokens, "the tokens", (count, width)),
    ):
        tall = 0 if name == "E" else 1.3  # E has more rows than there are patches
        draw_table(diagram, table, (left, right, tall, 6 - tall))
        diagram.text((left + right) / 2, 6.15 - tall, name, va="bottom", fontsize=10)
        diagram.caption((left + right) / 2, tall - 0.2, "({}, {})".format(*shape), 9)
        if name != "E":
            mark_row(diagram, (left, right, tall, 6 - tall), followed, count)
    for x, sign in ((15.3, "×"), (18.95, "=")):
        diagram.text(x, 3, sign, fontsize=15)
    x, y = 21.9, 4.7 - 3.4 * (followed + 0.5) / count
    diagram.arrow(23.3, y, x + 0.1, y, color=MARK)
    diagram.text(23.4, y, f"token {followed}", ha="left", color=MARK, fontsize=10)
    return diagram.figure


def draw_image(diagram: Diagram, image: Tensor, columns: int, followed: int) -> None:
    """Draw the image with the lines between its patches, and a frame around the one that is followed."""
    side, left, low = 5.0, 0.1, 0.5
    diagram.axis.imshow(
        to_picture(image), extent=(left, left + side, low, low + side), aspect="auto", zorder=1
    )
    for cut in range(1, columns):
        at = cut * side / columns
        diagram.line([left, left + side], [low + at] * 2, color="white", lw=1, zorder=2)
        diagram.line([left + at] * 2, [low, low + side], color="white", lw=1, zorder=2)
    row, column = divmod(followed, columns)
    step = side / columns
    frame = (left + column * step, low + side - (row + 1) * step, step, step)
    diagram.box(*frame, "", "none", edgecolor=MARK, alpha=1, lw=3, zorder=3)
    diagram.text(left + side / 2, low + side + 0.15, "the image", va="bottom", fontsize=10)
    diagram.caption(left + side / 2, low - 0.2, f"patch {followed} is marked", 9)


def draw_table(diagram: Diagram, table: Tensor, place: tuple[float, float, float, float]) -> None:
    """Draw a matrix as grey levels, from its smallest number to its largest, at (left, right, bottom, top)."""
    grey = to_picture(((table - table.min()) / (table.max() - table.min()))[None])
    diagram.axis.imshow(grey, extent=place, aspect="auto", cmap="gray", interpolation="nearest", zorder=1)


def mark_row(diagram: Diagram, place: tuple[float, float, float, float], row: int, count: int) -> None:
    """Frame one of `count` rows of a matrix that is drawn at (left, right, bottom, top)."""
    left, right, bottom, top = place
    height = (top - bottom) / count
    frame = (left, top - (row + 1) * height, right - left, height)
    diagram.box(*frame, "", "none", edgecolor=MARK, alpha=1, lw=2, zorder=3)
