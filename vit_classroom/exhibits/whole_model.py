"""What lesson 06 shows of the whole model: the shape that leaves each of its parts."""

from typing import TYPE_CHECKING

from vit_classroom.plots.diagrams import Diagram
from vit_classroom.plots.style import PALETTE, course_style
from vit_course.patches import count_patches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE = 32
"""Height and width of an image in pixels."""


@course_style()
def model_with_shapes(
    patch_size: int = 8, in_chans: int = 3, num_classes: int = 10, embed_dim: int = 96, depth: int = 3
) -> "Figure":
    """Draw the Vision Transformer for images of 32x32 pixels, with the shape of what leaves each part below it."""
    patches = count_patches(SIDE, patch_size)
    tokens = f"{patches + 1}, {embed_dim}"
    rows = [
        [
            ("images", f"{in_chans}, {SIDE}, {SIDE}", "0.6"),
            ("patches", f"{patches}, {patch_size**2 * in_chans}", PALETTE[5]),
            ("times E", f"{patches}, {embed_dim}", PALETTE[5]),
            ("CLS in front", tokens, PALETTE[1]),
            ("+ position", tokens, PALETTE[1]),
        ],
        [
            (f"{depth} blocks", tokens, PALETTE[2]),
            ("norm", tokens, PALETTE[2]),
            ("pool", f"{embed_dim}", PALETTE[1]),
            ("head", f"{num_classes}", PALETTE[4]),
        ],
    ]
    title = "Which shape leaves each part?"
    diagram = Diagram(title, (8.4, 3.2), (-0.2, 15.2), (-0.4, 5.6), fontsize=11)
    for row, height in zip(rows, (3.6, 0.9), strict=True):
        for place, (name, shape, colour) in enumerate(row):
            left = 3.1 * place
            diagram.box(left, height, 2.2, 1.1, name, colour)
            diagram.text(left + 1.1, height - 0.45, f"(B, {shape})", fontsize=10)
            if place:
                diagram.arrow(left - 0.85, height + 0.55, left - 0.05, height + 0.55)
    diagram.line([14.65, 14.95, 14.95, -0.15, -0.15], [4.15, 4.15, 2.65, 2.65, 1.45])
    diagram.arrow(-0.15, 1.45, 0.0, 1.45)
    return diagram.figure
