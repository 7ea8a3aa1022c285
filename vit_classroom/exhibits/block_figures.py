"""Figures of lesson 05: which numbers share a mean, and the gradient's way back with and without a plus."""

from typing import TYPE_CHECKING

import torch

from vit_classroom.plots.diagrams import INK, Diagram
from vit_classroom.plots.style import PALETTE, course_style, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRADIENT = PALETTE[1]
LAYERS = ("layer 1", "layer 2", "...", "layer 12")


@course_style()
def norm_groups(images: int = 3, tokens: int = 4, features: int = 8) -> "Figure":
    """Colour the numbers that share one mean and one variance, in layer norm and in batch norm."""
    from matplotlib.colors import ListedColormap

    by_token = torch.zeros(images * tokens, features)
    by_feature = by_token.clone()
    by_token[tokens + 1] = by_feature[:, 2] = 1
    figure, axes = subplots(1, 2, figsize=(7.4, 3.7), sharey=True)
    titles = ("layer norm: one token", "batch norm: one feature")
    for axis, group, title in zip(axes, (by_token, by_feature), titles, strict=True):
        axis.imshow(group, cmap=ListedColormap(["#d9dde2", PALETTE[0]]), aspect="auto")
        axis.set(title=title, xlabel="feature, 0 to D-1", xticks=range(features))
        axis.hlines([t - 0.5 for t in range(1, images * tokens)], -0.5, features - 0.5, color="white", lw=1)
        axis.vlines([f - 0.5 for f in range(1, features)], -0.5, images * tokens - 0.5, color="white", lw=1)
        axis.hlines([tokens * i - 0.5 for i in range(1, images)], -0.5, features - 0.5, color="black", lw=2)
    axes[0].set_yticks(
        [tokens * i + (tokens - 1) / 2 for i in range(images)], [f"image {i}" for i in range(images)]
    )
    axes[0].set_ylabel(f"{tokens} tokens for each image")
    figure.suptitle("Which numbers share one mean and one variance?")
    return figure


@course_style()
def gradient_paths() -> "Figure":
    """Draw the gradient's way from the loss to the first layer: through every layer, and along the plus signs."""
    diagram = Diagram(
        "How does the gradient get back to the first layer?", (9.4, 5.2), (-0.6, 23.2), (-1.9, 11.2)
    )
    diagram.text(0, 10.6, "without residuals", ha="left", fontsize=11)
    draw_chain(diagram, 8.0)
    diagram.text(0, 5.4, "with residuals", ha="left", fontsize=11)
    draw_stream(diagram, 0.6)
    return diagram.figure


def draw_chain(diagram: Diagram, y: float) -> None:
    """Draw layers one after the other; the gradient has to pass through each of them."""
    for place, name in enumerate(LAYERS):
        x = 2.0 + 4.6 * place
        diagram.arrow(x - 1.6, y + 1.4, x, y + 1.4)
        diagram.box(x, y - 0.2, 3.0, 2.2, name, PALETTE[5])
        diagram.arrow(x, y + 0.3, x - 1.6, y + 0.3, color=GRADIENT, lw=max(0.8, 0.8 + 1.1 * place))
    diagram.arrow(18.8, y + 1.4, 20.1, y + 1.4)
    diagram.arrow(20.1, y + 0.3, 18.8, y + 0.3, color=GRADIENT, lw=5)
    draw_loss(diagram, y)
    note = (
        "every layer multiplies the gradient by its own ∂F/∂z: its size or its direction is lost on the way"
    )
    diagram.text(10.0, y - 0.9, note, color=GRADIENT, fontsize=9)


def draw_stream(diagram: Diagram, y: float) -> None:
    """Draw layers as branches of a stream; the gradient passes along the stream unchanged, and through the branches."""
    diagram.line([0.2, 19.6], [y, y], color=PALETTE[4], lw=5, alpha=0.6)
    for place, name in enumerate(LAYERS):
        x = 1.0 + 4.6 * place
        diagram.line([x, x, x + 0.5], [y, y + 3.0, y + 3.0])
        diagram.box(x + 0.5, y + 1.9, 2.6, 2.2, name, PALETTE[5])
        diagram.line([x + 3.1, x + 3.7], [y + 3.0, y + 3.0])
        diagram.arrow(x + 3.7, y + 3.0, x + 3.7, y + 0.4)
        diagram.axis.plot(x + 3.7, y, "o", color="white", markeredgecolor=INK, markersize=14, zorder=3)
        diagram.text(x + 3.7, y - 0.02, "+", fontsize=13, zorder=4)
        diagram.line([x + 3.35, x + 3.35, x + 3.1], [y + 0.5, y + 2.4, y + 2.4], color=GRADIENT, ls=":")
        diagram.arrow(x + 0.5, y + 2.4, x + 0.25, y + 0.3, color=GRADIENT, linestyle=":")
    diagram.arrow(19.8, y - 0.75, 0.2, y - 0.75, color=GRADIENT, lw=4)
    note = "solid: at every plus the gradient passes times I, unchanged.   dotted: through the layers, times ∂F/∂z"
    diagram.text(10.0, y - 1.7, note, color=GRADIENT, fontsize=9)
    draw_loss(diagram, y - 1.1)


def draw_loss(diagram: Diagram, y: float) -> None:
    """Draw the loss at the right end."""
    diagram.box(20.2, y - 0.2, 2.6, 2.2, "loss", PALETTE[3])
