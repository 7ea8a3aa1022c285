"""Drawings of convolutions: the hybrid, whose tokens come from a feature map, and the window of one position."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vit_classroom.plots.diagrams import Diagram
from vit_classroom.plots.pictures import sample_photo, to_picture
from vit_classroom.plots.style import PALETTE, course_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALE = "#cfe3f1"
"""The blue of sheets that lie on each other."""
SMALL = {"va": "top", "fontsize": 9, "color": "0.25"}
"""The look of what stands below a part."""


@course_style()
def hybrid_diagram() -> "Figure":
    """Draw the hybrid: the stages of its backbone, the positions of their map as patches, and the ViT after them."""
    diagram = Diagram("Where do the tokens of a hybrid come from?", (10, 3.6), (-0.2, 25.8), (-1.4, 6.2))
    diagram.axis.imshow(to_picture(sample_photo((32, 32))), extent=(0, 3, 1.5, 4.5), aspect="auto", zorder=2)
    diagram.text(1.5, 1.2, "image\n3x\n32x32", **SMALL)
    draw_stages(diagram)
    side, left, bottom = 0.55, 14.4, 1.9
    for row in range(4):
        for column in range(4):
            colour = PALETTE[1] if row + column == 0 else PALETTE[0]
            diagram.box(
                left + column * side, bottom + (3 - row) * side, side, side, "", colour, lw=0.8, alpha=0.5
            )
    diagram.text(15.5, 1.7, "16 patches\nof 1x1, 128\nnumbers each", **SMALL)
    diagram.arrow(16.7, 3, 17.9, 3)
    diagram.text(17.3, 3.15, "× E", va="bottom", fontsize=11)
    draw_vit(diagram)
    return diagram.figure


def draw_stages(diagram: Diagram) -> None:
    """Draw four stages as stacks of sheets: each has fewer positions and more channels than the one before."""
    x = 3.2
    for number, (side, sheets) in enumerate([(2.2, 2), (1.7, 3), (1.3, 4), (1.0, 6)], 1):
        diagram.arrow(x, 3, x + 0.5, 3)
        x += 0.6
        for sheet in reversed(range(sheets)):
            shift = 0.13 * sheet
            corner = x + shift, 3 - side / 2 + shift
            diagram.box(*corner, side, side, "", PALE, lw=0.8, alpha=1, edgecolor=PALETTE[0])
        rows = 64 >> number
        diagram.text(x + side / 2, 1.2, f"stage {number}\n{8 << number}x\n{rows}x{rows}", **SMALL)
        x += side + 0.13 * sheets
    diagram.arrow(x + 0.1, 3, 14.3, 3)
    diagram.line([3.8, 3.8, x, x], [-0.3, -0.55, -0.55, -0.3])
    diagram.text((3.8 + x) / 2, -0.75, "backbone: convolutions", va="top", fontsize=9)


def draw_vit(diagram: Diagram) -> None:
    """Draw the tokens and the Vision Transformer after the feature map."""
    names = [("CLS", PALETTE[4]), ("$f_1 E$", PALETTE[1]), ("$f_2 E$", PALETTE[0])]
    names += [("⋮", "white"), ("$f_{16} E$", PALETTE[0])]
    for number, (name, colour) in enumerate(names):
        diagram.box(18.1, 4.5 - 0.95 * number, 1.7, 0.8, name, colour, lw=0 if colour == "white" else 1.5)
    diagram.arrow(19.9, 3, 21.1, 3)
    diagram.text(20.5, 3.15, "+ pos", va="bottom", fontsize=9)
    diagram.box(21.2, 1.1, 2.2, 3.8, "encoder\n\nlesson 05", PALETTE[2])
    diagram.arrow(23.5, 3, 24.1, 3)
    diagram.box(24.2, 2.5, 1.3, 1.0, "head", PALETTE[3])
    diagram.line([14.4, 14.4, 25.5, 25.5], [-0.3, -0.55, -0.55, -0.3])
    diagram.text(20, -0.75, "a Vision Transformer whose image is the map", va="top", fontsize=9)


@course_style()
def window_diagram(layers: Sequence[tuple[int, int]]) -> "Figure":
    """Draw along one line of pixels what one position sees, layer by layer down to the pixels.

    Args:
        layers: for each layer (kernel size, stride), the first layer first.
    """
    jumps = [1]
    for _, stride in layers:
        jumps.append(jumps[-1] * stride)
    seen = [{0.0}]
    for (kernel, _), jump in zip(reversed(layers), reversed(jumps[:-1]), strict=True):
        seen.append({x + (o - (kernel - 1) / 2) * jump for x in seen[-1] for o in range(kernel)})
    seen.reverse()
    half = max(seen[0]) + 1.5
    title = "How does the window of one position grow?"
    diagram = Diagram(title, (9, 0.75 * len(seen) + 0.9), (-half - 9, half + 3.5), (-0.6, len(seen) - 0.4))
    for level, (jump, marked) in enumerate(zip(jumps, seen, strict=True)):
        draw_positions(diagram, level, jump, marked, half)
        name = (
            f"after layer {level}: {layers[level - 1][0]}, stride {layers[level - 1][1]}"
            if level
            else "pixels"
        )
        diagram.text(-half - 8.8, level, name.replace(": ", ": kernel "), ha="left", fontsize=9)
        diagram.text(half + 0.6, level, f"{len(marked)} seen", ha="left", fontsize=9)
        if level:
            below = (layers[level - 1][0] - 1) / 2 * jumps[level - 1]
            for x in marked:
                for end in (x - below, x + below):
                    diagram.line([x, end], [level - 0.12, level - 0.88], lw=0.8, color=PALETTE[1])
    return diagram.figure


def draw_positions(diagram: Diagram, level: int, jump: int, marked: set[float], half: float) -> None:
    """Draw the positions of one level as dots, `jump` pixels apart, those that are seen in colour."""
    first = min(marked) - jump * int((min(marked) + half) / jump)
    count = int((half - first) / jump) + 1
    places = {first + jump * i for i in range(count)}
    for group, colour in ((places - marked, "0.8"), (marked, PALETTE[1])):
        diagram.axis.scatter(list(group), [level] * len(group), s=36, color=colour, zorder=3)
