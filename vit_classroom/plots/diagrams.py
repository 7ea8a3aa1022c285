"""Diagrams: how the parts of the model hang together, as boxes and arrows, and what flows through them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from vit_classroom.plots.pictures import sample_photo, to_picture
from vit_classroom.plots.style import PALETTE, course_style, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "0.35"
"""The grey of arrows and lines."""


class Diagram:
    """A drawing of boxes and arrows without ticks. Places are (x, y) in units of its own, y upwards.

    Args:
        title: title of the figure.
        size: (width, height) in inches.
        x: the smallest and the largest x.
        y: the smallest and the largest y.
        fontsize: size of the text in boxes, in points.
        lw: width of lines and arrows, in points.
    """

    def __init__(
        self,
        title: str,
        size: tuple[float, float],
        x: tuple[float, float],
        y: tuple[float, float],
        fontsize: int = 9,
        lw: float = 1.2,
    ):
        self.figure, self.axis = subplots(figsize=size)
        self.fontsize, self.lw = fontsize, lw
        self.axis.set(xlim=x, ylim=y)
        self.axis.set_axis_off()
        self.figure.suptitle(title)

    def box(
        self, x: float, y: float, width: float, height: float, text: str, colour: str, **look: Any
    ) -> None:
        """Draw a box with its lower left corner in (x, y) and a text in its middle; `look` as in `Rectangle`."""
        from matplotlib.patches import Rectangle

        look = {"alpha": 0.3, "edgecolor": colour, "lw": 1.5} | look
        self.axis.add_patch(Rectangle((x, y), width, height, facecolor=colour, **look))
        self.text(x + width / 2, y + height / 2, text, fontsize=self.fontsize)

    def arrow(self, x: float, y: float, to_x: float, to_y: float, **look: Any) -> None:
        """Draw an arrow from (x, y) to (to_x, to_y)."""
        look = {"arrowstyle": "-|>", "color": INK, "lw": self.lw} | look
        self.axis.annotate("", (to_x, to_y), (x, y), arrowprops=look)

    def line(self, xs: Sequence[float], ys: Sequence[float], **look: Any) -> None:
        """Draw a line through points."""
        self.axis.plot(xs, ys, **{"color": INK, "lw": self.lw, "ls": "-"} | look)

    def text(self, x: float, y: float, text: object, **look: Any) -> None:
        """Write a text, centred on (x, y)."""
        self.axis.text(x, y, text, **{"ha": "center", "va": "center"} | look)

    def caption(self, x: float, y: float, text: str, fontsize: int = 8) -> None:
        """Write an explanation below (x, y)."""
        self.text(x, y, text, va="top", fontsize=fontsize, color="0.25")


@course_style()
def vit_overview() -> "Figure":
    """Draw the whole Vision Transformer as one picture: image, patches, tokens, encoder, class scores."""
    title = "The Vision Transformer: an image read as a sentence of patches"
    diagram = Diagram(title, (11, 5), (0, 23.6), (-0.8, 9.2))
    draw_patches_and_tokens(diagram)
    draw_encoder_and_head(diagram)
    return diagram.figure


def draw_patches_and_tokens(diagram: Diagram) -> None:
    """Draw the left half of the overview: a photo, its nine patches, and ten tokens."""
    photo = to_picture(sample_photo((48, 48)))
    diagram.axis.imshow(photo, extent=(0.2, 3.8, 2.9, 6.5), aspect="auto", zorder=2)
    for cut in (1, 2):
        diagram.line([0.2, 3.8], [2.9 + 1.2 * cut] * 2, color="white", lw=2, zorder=3)
        diagram.line([0.2 + 1.2 * cut] * 2, [2.9, 6.5], color="white", lw=2, zorder=3)
    diagram.caption(2, 2.6, "image (C, H, W)\ncut into patches\nlesson 01")
    for i in range(9):
        y, x = i // 3 * 16, i % 3 * 16
        top = 8.3 - 0.78 * i
        patch, extent = photo[y : y + 16, x : x + 16], (5, 5.68, top - 0.68, top)
        diagram.axis.imshow(patch, extent=extent, aspect="auto", zorder=2)
        diagram.box(8.0, top - 0.66, 1.3, 0.62, f"{i + 1}", PALETTE[5])
    diagram.box(8.0, 8.42, 1.3, 0.62, "CLS", PALETTE[1])
    diagram.arrow(3.95, 4.7, 4.9, 4.7)
    diagram.arrow(5.9, 4.7, 7.9, 4.7)
    diagram.text(6.9, 4.9, "× E", va="baseline", fontsize=10)
    diagram.caption(6.9, 4.4, "linear\nprojection")
    diagram.caption(7.2, 0.95, "N patches become tokens (01),\nCLS in front (02),\nplus position (03)")


def draw_encoder_and_head(diagram: Diagram) -> None:
    """Draw the right half of the overview: three blocks, and the scores that the head reads from CLS."""
    diagram.text(10.1, 4.5, "+ position", rotation=90, fontsize=9)
    diagram.arrow(9.4, 3.4, 11.2, 3.4)
    for layer in range(3):
        x = 11.35 + 2.15 * layer
        diagram.box(x, 1.6, 1.85, 2.6, "attention\n\nlesson\n04", PALETTE[0])
        diagram.box(x, 5.0, 1.85, 2.6, "MLP\n\nlesson\n05", PALETTE[2])
        diagram.arrow(x + 0.92, 4.25, x + 0.92, 4.95)
        if layer < 2:
            diagram.line([x + 1.85, x + 2.0, x + 2.0], [6.3, 6.3, 2.9])
            diagram.arrow(x + 2.0, 2.9, x + 2.17, 2.9)
    diagram.caption(14.4, 1.2, "encoder: L blocks,\nevery token looks at every token")
    diagram.arrow(17.5, 6.3, 18.2, 6.3)
    diagram.box(18.3, 5.9, 1.3, 0.8, "CLS", PALETTE[1])
    diagram.caption(18.95, 7.9, "after a\nlast norm")
    diagram.arrow(19.65, 6.3, 20.1, 6.3)
    for i, (name, share) in enumerate([("cat", 0.1), ("person", 0.75), ("ship", 0.15)]):
        diagram.axis.barh(7.0 - 0.7 * i, 1.5 * share, left=21.9, height=0.45, color=PALETTE[4])
        diagram.text(21.8, 7.0 - 0.7 * i, name, ha="right", fontsize=8)
    diagram.caption(21.3, 5.0, "head: one score\nfor each class\nlesson 06")


@course_style()
def token_sequence(image: Tensor, patch_size: int, title: str, read: str = "token") -> "Figure":
    """Draw the tokens that enter the encoder and those that leave it, and which of them the head reads.

    Args:
        image: (C, H, W), cut into its N patches.
        patch_size: side of a patch in pixels.
        title: title of the figure.
        read: "token": a CLS token stands in front and the head reads it; "avg": no CLS token, and the head
            reads the mean of all.
    """
    count = (image.shape[-2] // patch_size) * (image.shape[-1] // patch_size) + int(read == "token")
    diagram = Diagram(title, (9.5, 3.7), (-2.1, count + 0.1), (-0.7, 6.2), fontsize=8, lw=1)
    look = {"alpha": 0.4, "edgecolor": "0.3", "lw": 1}
    draw_token_row(diagram, image, patch_size, count, look)
    diagram.box(0, 1.5, count, 0.9, "encoder: every token looks at every token", "0.7", **look)
    read_tokens, name = (1, "head") if read == "token" else (count, "mean, then head")
    middle = read_tokens / 2
    for token in range(read_tokens):
        diagram.arrow(token + 0.5, 3.8, middle + (token + 0.5 - middle) * 0.15, 4.78)
    left = max(middle - 1.6, 0)
    diagram.box(left, 4.8, 3.2, 0.9, name, PALETTE[4], **look)
    diagram.arrow(left + 3.2, 5.25, left + 4.2, 5.25)
    diagram.text(left + 4.3, 5.25, "one score for each class", ha="left", fontsize=9)
    for y, text in ((0.42, "tokens in"), (3.4, "tokens out"), (-0.3, "index")):
        diagram.text(-0.15, y, text, ha="right", fontsize=9)
    return diagram.figure


def draw_token_row(diagram: Diagram, image: Tensor, patch_size: int, count: int, look: dict) -> None:
    """Draw `count` tokens below the encoder, pictures (C, H, W) of patches or CLS in front, and those above it."""
    height, width = image.shape[-2] // patch_size, image.shape[-1] // patch_size
    picture, prefix = to_picture(image), count - height * width
    for token in range(count):
        number = token - prefix
        name, colour = ("CLS", PALETTE[1]) if number < 0 else ("", PALETTE[5])
        diagram.box(token + 0.08, 3, 0.84, 0.8, name, colour, **look)
        if number < 0:
            diagram.box(token + 0.08, 0, 0.84, 0.84, name, colour, **look)
        else:
            y, x = number // width * patch_size, number % width * patch_size
            patch = picture[y : y + patch_size, x : x + patch_size]
            extent = (token + 0.08, token + 0.92, 0, 0.84)
            diagram.axis.imshow(patch, extent=extent, cmap="gray", vmin=0, vmax=1, aspect="auto")
        diagram.text(token + 0.5, -0.12, token, va="top", fontsize=8)
        diagram.arrow(token + 0.5, 0.88, token + 0.5, 1.46)
        diagram.arrow(token + 0.5, 2.44, token + 0.5, 2.98)


@course_style()
def attention_diagram() -> "Figure":
    """Draw attention as matrices: queries times keys, the softmax of each row, the weighted sum of the values."""
    title = "How does one query, the coloured row, become one row of the output?"
    diagram = Diagram(title, (10, 3.1), (-0.4, 24.2), (-1.5, 5.4))
    place = iter((0.0, 3.4, 8.1, 14.0, 19.0, 22.2))
    for name, shape, rows, columns, row in (
        ("queries q", "(T, d)", 4, 3, True),
        ("keys, transposed: k\u1d40", "(d, T)", 3, 4, False),
        ("scores q k\u1d40", "(T, T)", 4, 4, True),
        ("weights A", "(T, T)\neach row sums to 1", 4, 4, True),
        ("values v", "(T, e)", 4, 2, False),
        ("output A v", "(T, e)", 4, 2, True),
    ):
        draw_matrix(diagram, next(place), (rows, columns), 0 if row else None, name, shape)
    for x, sign in ((2.95, "\u00d7"), (7.4, "="), (18.3, "\u00d7"), (21.5, "=")):
        diagram.text(x, 2.4, sign, fontsize=15)
    diagram.arrow(11.6, 2.4, 13.7, 2.4)
    diagram.text(12.6, 3.1, "divide by \u221ad,\nsoftmax of\neach row", fontsize=9, va="bottom")
    return diagram.figure


def draw_matrix(
    diagram: Diagram, x: float, shape: tuple[int, int], marked: int | None, name: str, caption: str
) -> None:
    """Draw a matrix of empty cells around the height 2.4, one row of it coloured, its name above, a caption below."""
    rows, columns = shape
    bottom = 2.4 - 0.4 * rows
    for i in range(rows):
        colour, alpha = (PALETTE[1], 0.6) if i == marked else (PALETTE[5], 0.25)
        draw_cells(diagram, x, bottom + 0.8 * (rows - 1 - i), [colour] * columns, 0.8, alpha)
    middle = x + 0.4 * columns
    diagram.text(middle, 4.4, name, va="bottom", fontsize=10)
    diagram.caption(middle, bottom - 0.25, caption, 9)


def draw_cells(
    diagram: Diagram, x: float, y: float, colours: Sequence[str], side: float, alpha: float = 0.5
) -> None:
    """Draw numbers as a row of cells, from the lower left corner (x, y)."""
    for number, colour in enumerate(colours):
        diagram.box(x + side * number, y, side, side, "", colour, alpha=alpha, edgecolor="white", lw=1)


@course_style()
def heads_diagram() -> "Figure":
    """Draw what becomes of one token in a layer of three heads: q, k and v are cut, the token is not."""
    title = "Where does a layer with three heads cut, and where does it join?"
    diagram = Diagram(title, (10, 4.2), (-0.6, 24.4), (-0.9, 9.0))
    heads = PALETTE[:3]
    slices, grey = [colour for colour in heads for _ in range(2)], ["0.5"] * 6
    draw_cells(diagram, 0, 4, grey, 0.5)
    diagram.caption(1.5, 3.7, "one token,\nD = 6 numbers", 9)
    diagram.arrow(3.2, 4.25, 5.6, 4.25)
    diagram.caption(4.4, 5.7, "$W_q$, $W_k$, $W_v$\nread all of it", 9)
    for name, y in (("q", 6.9), ("k", 4.0), ("v", 1.1)):
        draw_cells(diagram, 6.4, y, slices, 0.5)
        diagram.text(6.0, y + 0.25, name, fontsize=12)
    diagram.caption(7.9, 0.7, "cut into h = 3 slices\nof d = 2 numbers", 9)
    for head, (colour, y) in enumerate(zip(heads, (6.6, 3.7, 0.8), strict=True)):
        for part in (7.15, 4.25, 1.35):
            diagram.line([9.5, 11.3], [part, y + 0.55], color=colour, lw=1)
        diagram.box(11.4, y, 3.4, 1.1, f"head {head}", colour)
        diagram.arrow(14.9, y + 0.55, 16.4, 4.25, color=colour)
    diagram.caption(13.1, 0.5, "each reads all tokens,\nby its own T x T table", 9)
    draw_cells(diagram, 16.5, 4, slices, 0.5)
    diagram.caption(18, 3.7, "side by side:\nh \u00b7 d = D = 6", 9)
    diagram.arrow(19.7, 4.25, 21, 4.25)
    diagram.text(20.35, 4.6, "$W_O$", va="bottom", fontsize=11)
    draw_cells(diagram, 21.2, 4, grey, 0.5)
    diagram.caption(22.7, 3.7, "each number mixes\nwhat all heads found", 9)
    return diagram.figure


@course_style()
def block_diagram() -> "Figure":
    """Draw one encoder block (pre-norm): the residual stream and the two branches that read it and add to it."""
    title = "One block: two branches read the stream, and each adds its result to it"
    diagram = Diagram(title, (7.4, 2.9), (-0.9, 19.2), (-1.1, 4.6), lw=1.3)
    diagram.arrow(0.6, 0, 18.2, 0, color=PALETTE[4], lw=6)
    stream = "residual stream: read by every branch, never replaced"
    diagram.text(9.4, -0.35, stream, va="top", fontsize=9)
    diagram.text(0.5, 0, r"$z_{\ell-1}$", ha="right", fontsize=13)
    diagram.text(9.4, 0.3, r"$z'_\ell$", va="bottom", fontsize=13)
    diagram.text(18.3, 0, r"$z_\ell$", ha="left", fontsize=13)
    draw_branch(diagram, 1.4, "attention\nlesson 04", "branch: equation 2", PALETTE[0])
    draw_branch(diagram, 10.4, "MLP\nlesson 05", "branch: equation 3", PALETTE[2])
    return diagram.figure


def draw_branch(diagram: Diagram, x: float, name: str, equation: str, colour: str) -> None:
    """Draw a branch that leaves the stream at x: layer norm, then the named part, then the sum."""
    diagram.line([x, x, x + 0.8], [0, 2.5, 2.5])
    diagram.box(x + 0.8, 1.7, 1.9, 1.6, "layer\nnorm", PALETTE[5])
    diagram.box(x + 3.4, 1.7, 2.6, 1.6, name, colour)
    diagram.line([x + 2.7, x + 3.4], [2.5, 2.5])
    diagram.line([x + 6, x + 6.8], [2.5, 2.5])
    diagram.arrow(x + 6.8, 2.5, x + 6.8, 0.42)
    diagram.axis.plot(x + 6.8, 0, "o", color="white", markeredgecolor=INK, markersize=15)
    diagram.text(x + 6.8, -0.02, "+", fontsize=14)
    diagram.text(x + 3.4, 3.6, equation, va="bottom", fontsize=9)


@course_style()
def token_trace(image: Tensor, stages: list[tuple[str, Tensor]], title: str) -> "Figure":
    """Draw an image (C, H, W), then what the model makes of it: one table (T, D) of numbers per named stage.

    Every table has its own scale, with 0 in its middle: brighter is larger. Its height says how many tokens are left.
    """
    columns = len(stages) + 1
    figure, axes = subplots(1, columns, figsize=(min(1.45 * columns, 10), 3.1), squeeze=False)
    axes[0, 0].imshow(to_picture(image), cmap="gray", vmin=0, vmax=1)
    axes[0, 0].set_title(f"image\n{tuple(image.shape)}", fontsize="small")
    tallest = max(len(table) for _, table in stages)
    for axis, (name, table) in zip(axes[0, 1:], stages, strict=True):
        rows, width = table.shape
        values = table.detach().float().cpu().numpy()
        reach = abs(values).max() or 1.0
        extent = (0, width, rows, 0)
        axis.imshow(values, aspect="auto", interpolation="nearest", vmin=-reach, vmax=reach, extent=extent)
        axis.set(xlim=(0, width), ylim=(tallest, 0), title=f"{name}\n({rows}, {width})")
        axis.title.set_fontsize("small")
    for axis in axes[0]:
        axis.set_axis_off()
    figure.suptitle(title)
    return figure
