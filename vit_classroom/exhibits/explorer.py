"""The attention explorer of lesson 09: choose picture, layer and head, click in the picture, and see where it looks.

`explorer_figure` draws one state, a pure function of its arguments. In a notebook `explore` shows the picture itself:
its patches are buttons, and the map is laid over it.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from vit_classroom import plots
from vit_classroom.notebook import in_notebook
from vit_course.data import normalize
from vit_course.interpret import attention_rollout
from vit_course.training.kernel import somebody_looks

if TYPE_CHECKING:
    from ipywidgets import Button, Dropdown, GridBox, Image
    from matplotlib.figure import Figure

SIDE = 288
"""Longest side of the picture, in pixels: on a screen 1024 pixels wide there is room for the controls beside it."""
CONTROLS = 270
"""Width of the controls, in pixels."""


def query_weights(
    attentions: Sequence[Tensor],
    picture: int,
    token: int,
    layer: int,
    head: int | str,
    num_prefix_tokens: int = 1,
) -> Tensor:
    """Look up where one token looks.

    Args:
        attentions: a list over the L layers of weights (B, h, T, T).
        picture: which of the B pictures.
        token: the query, 0 to T - 1; the prefix (CLS) comes first.
        layer: 1 to L, as in the paper.
        head: 0 to h - 1, or "mean" over the heads, or "rollout": through the layers 1 to `layer`.
        num_prefix_tokens: how many tokens in front are no patches.

    Returns:
        (T,) weights over the keys, which sum to 1.

    Raises:
        ValueError: if there is no such picture, token, layer or head.
    """
    batch, heads, tokens, _ = attentions[0].shape if attentions else (0, 0, 0, 0)
    for name, value, values in (
        ("picture", picture, range(batch)),
        ("token", token, range(tokens)),
        ("layer", layer, range(1, len(attentions) + 1)),
        ("head", head, [*range(heads), "mean", "rollout"]),
    ):
        if value not in values:
            raise ValueError(f"there is no {name} {value!r}: choose one of {', '.join(map(str, values))}")
    if head == "rollout":
        below = [attention[picture : picture + 1] for attention in attentions[:layer]]
        return attention_rollout(below, num_prefix_tokens)[0, token]
    weights = attentions[layer - 1][picture, :, token]
    return weights.mean(dim=0) if head == "mean" else weights[head]


def explorer_figure(
    images: Tensor,
    attentions: Sequence[Tensor],
    picture: int,
    token: int,
    layer: int,
    head: int | str,
    *,
    grid_size: tuple[int, int] | None = None,
    num_prefix_tokens: int = 1,
    name: str = "",
) -> "Figure":
    """Draw one state of the explorer: a picture with the query in a frame, and beside it where the query looks.

    The title names the shares of the attention that go to the patches and to the prefix; together they are 1.

    Args:
        images: (B, C, H, W), uint8 or float in 0..1, to be looked at.
        attentions: a list over the L layers of weights (B, h, T, T).
        picture: which of the B pictures.
        token: the query, 0 to T - 1; the prefix (CLS) comes first.
        layer: 1 to L, as in the paper.
        head: 0 to h - 1, or "mean" over the heads, or "rollout": through the layers 1 to `layer`.
        grid_size: (rows, columns) of the grid of patches; by default that of square patches.
        num_prefix_tokens: how many tokens in front are no patches.
        name: title of the picture.

    Raises:
        ValueError: if there is no such picture, token, layer or head, or if the grid does not fit the tokens.
    """
    weights = query_weights(attentions, picture, token, layer, head, num_prefix_tokens).detach().float().cpu()
    rows, columns = grid_size or square_grid(images, len(weights) - num_prefix_tokens)
    if rows * columns != len(weights) - num_prefix_tokens:
        raise ValueError(
            f"{len(weights)} tokens are not {num_prefix_tokens} prefix + a grid of {rows}x{columns}: give grid_size"
        )
    query = divmod(token - num_prefix_tokens, columns) if token >= num_prefix_tokens else None
    return plots.picture_and_weights(
        images[picture],
        weights[num_prefix_tokens:].reshape(rows, columns),
        "\n".join(in_words(weights, token, layer, head, columns, num_prefix_tokens)),
        name or f"picture {picture}",
        query,
    )


def in_words(
    weights: Tensor, token: int, layer: int, head: int | str, columns: int, num_prefix_tokens: int
) -> tuple[str, str]:
    """Say which weights (T,) these are, and what shares of them go to the patches and to each prefix token."""
    seen = {"mean": f"layer {layer}, mean of the heads", "rollout": f"rollout through layers 1 to {layer}"}
    shares = [f"{100 * weights[num_prefix_tokens:].sum():.1f} % to the patches"]
    for prefix in range(num_prefix_tokens):
        shares.append(f"{100 * weights[prefix]:.1f} % to {token_name(prefix, columns, num_prefix_tokens)}")
    asked = token_name(token, columns, num_prefix_tokens)
    return seen.get(head, f"layer {layer}, head {head}"), f"{asked} gives {', '.join(shares)}"


def square_grid(images: Tensor, num_patches: int) -> tuple[int, int]:
    """Find the grid (rows, columns) that so many square patches form on pictures (B, C, H, W)."""
    height, width = images.shape[-2:]
    columns = max(1, round(math.sqrt(num_patches * width / height)))
    return num_patches // columns, columns


def token_name(token: int, columns: int, num_prefix_tokens: int) -> str:
    """Name a token for a reader: CLS, further prefix tokens by number, patches by row and column."""
    if token >= num_prefix_tokens:
        return "patch (row {}, column {})".format(*divmod(token - num_prefix_tokens, columns))
    return "CLS" if token == 0 else f"prefix token {token}"


@torch.no_grad()
def model_attentions(
    model: nn.Module,
    images: Tensor,
    mean: Sequence[float] | Tensor | None = None,
    std: Sequence[float] | Tensor | None = None,
) -> list[Tensor]:
    """Run pictures through a model in evaluation mode, and return its attention weights.

    Args:
        model: a `VisionTransformer` or `HybridViT`; its mode is left as it was.
        images: (B, C, H, W), what the model reads; or, with `mean` and `std`, uint8 or float in 0..1.
        mean: means of the channels, for `normalize`.
        std: deviations of the channels.

    Returns:
        A list over the L layers of weights (B, h, T, T), on the CPU.
    """
    device, modes = next(model.parameters()).device, [(part, part.training) for part in model.modules()]
    inputs = images if mean is None or std is None else normalize(images, mean, std)
    try:
        _, attentions = model.eval()(inputs.to(device), return_attention=True)
    finally:
        for part, mode in modes:
            part.training = mode
    return [attention.cpu() for attention in attentions]


def explore(
    model: nn.Module,
    images: Tensor,
    titles: Sequence[str] | None = None,
    mean: Sequence[float] | Tensor | None = None,
    std: Sequence[float] | Tensor | None = None,
) -> None:
    """Explore what a model looks at: choose picture, layer and head, and click the query, CLS or a patch.

    Outside a notebook, or with VIT_COURSE_WIDGETS=0, it draws one state: the first picture, the last layer, the
    mean of the heads, asked by CLS or, in a model without prefix tokens, by the middle patch.

    Args:
        model: a `VisionTransformer` or `HybridViT`, with any number of prefix tokens.
        images: (B, C, H, W), uint8 or float in 0..1; a few are enough.
        titles: one for each picture.
        mean: means of the channels that the model was trained with; without them images go in as they are.
        std: deviations of the channels.

    Raises:
        ValueError: if there are not as many titles as pictures.
    """
    names = [str(title) for title in titles or (f"picture {i}" for i in range(len(images)))]
    if len(names) != len(images):
        raise ValueError(f"{len(names)} titles for {len(images)} pictures: give one for each")
    attentions = model_attentions(model, images, mean, std)
    prefix, (rows, columns) = model.num_prefix_tokens, getattr(model, "vit", model).patch_embed.grid_size

    state = Explored(images, attentions, names, (rows, columns), prefix)
    controls = explorer_controls(names, (rows, columns), prefix, attentions)
    if in_notebook() and somebody_looks():
        show_explorer(state, controls)
        return
    chosen = {name: value for name, (_, value, _) in controls.items()}
    figure = explorer_figure(
        images,
        attentions,
        **chosen,
        grid_size=(rows, columns),
        num_prefix_tokens=prefix,
        name=names[chosen["picture"]],
    )
    asked = token_name(chosen["token"], columns, prefix)
    what = f"layer {chosen['layer']}, head {chosen['head']}"
    plots.show(figure, f"{names[chosen['picture']]}, and a heat map of where {asked} looks: {what}.")


@dataclass(frozen=True)
class Explored:
    """What is explored: pictures (B, C, H, W) with their names, and the attention (B, h, T, T) of every layer."""

    images: Tensor
    attentions: Sequence[Tensor]
    names: Sequence[str]
    grid_size: tuple[int, int]
    num_prefix_tokens: int

    @property
    def patch_side(self) -> int:
        """Side of a patch on the screen, in pixels."""
        return SIDE // max(self.grid_size)

    def picture_of(
        self, picture: int, token: int, layer: int, head: int | str, overlay: bool
    ) -> tuple[bytes, str]:
        """Return one state: the picture as a PNG, with the map over it if asked for, and the state in words (HTML)."""
        weights = query_weights(self.attentions, picture, token, layer, head, self.num_prefix_tokens)
        patches = weights[self.num_prefix_tokens :].reshape(self.grid_size)
        seen, shares = in_words(weights, token, layer, head, self.grid_size[1], self.num_prefix_tokens)
        most = f"brightest patch: {100 * patches.max():.1f} %"
        words = "<br>".join(map(escape, (self.names[picture], seen, shares, most)))
        drawn = laid_over(self.images[picture], patches, self.patch_side, overlay)
        return drawn, f'<div style="line-height: 1.4">{words}</div>'


def laid_over(image: Tensor, weights: Tensor, patch_side: int, overlay: bool = True) -> bytes:
    """Draw a picture (C, H, W) in grey under the colours of the weights (rows, columns) of its patches, as a PNG.

    Args:
        image: uint8, or float in 0..1.
        weights: not negative; the largest gets the brightest colour.
        patch_side: side of a patch in the drawing, in pixels.
        overlay: without it the picture alone is drawn, in its own colours.
    """
    from matplotlib import colormaps
    from matplotlib.image import imsave

    rows, columns = weights.shape
    photo = plots.to_picture(image)
    down, across = (
        np.arange(count * patch_side) * size // (count * patch_side)
        for count, size in zip((rows, columns), photo.shape[:2], strict=True)
    )
    photo = np.atleast_3d(photo)[down][:, across]
    if overlay:
        shares = (weights / weights.max().clamp(min=1e-12)).detach().float().cpu().numpy()
        colours = colormaps["cividis"](shares.repeat(patch_side, 0).repeat(patch_side, 1))[..., :3]
        photo = 0.4 * photo.mean(axis=-1, keepdims=True) + 0.6 * colours
    drawn = io.BytesIO()
    imsave(drawn, np.broadcast_to(photo, (*photo.shape[:2], 3)).clip(0, 1).astype(np.float64), format="png")
    return drawn.getvalue()


def explorer_controls(
    names: Sequence[str], grid_size: tuple[int, int], num_prefix_tokens: int, attentions: Sequence[Tensor]
) -> dict[str, tuple[str, int | str, list]]:
    """List what can be chosen: for each argument of the drawing its label, its first value, (text, value) pairs."""
    rows, columns = grid_size
    depth, heads = len(attentions), attentions[0].shape[1]
    tokens = [
        (token_name(i, columns, num_prefix_tokens), i) for i in range(num_prefix_tokens + rows * columns)
    ]
    head_names = [("mean", "mean"), ("rollout", "rollout"), *((str(i), i) for i in range(heads))]
    return {
        "picture": ("picture", 0, [(name, i) for i, name in enumerate(names)]),
        "token": ("query", 0 if num_prefix_tokens else rows // 2 * columns + columns // 2, tokens),
        "layer": ("layer", depth, [(str(i), i) for i in range(1, depth + 1)]),
        "head": ("head", "mean", head_names),
    }


def show_explorer(state: Explored, controls: dict[str, tuple[str, int | str, list]]) -> None:
    """Show the picture, whose patches can be clicked, and the controls beside it, or below where there is no room."""
    import ipywidgets as widgets
    from IPython.display import display

    kinds = {"layer": widgets.SelectionSlider, "head": widgets.ToggleButtons}
    fitting = {"layout": widgets.Layout(width=f"{CONTROLS}px"), "style": {"description_width": "52px"}}
    made = {
        name: kinds.get(name, widgets.Dropdown)(options=options, value=value, description=label, **fitting)
        for name, (label, value, options) in controls.items()
    }
    made["head"].style.button_width = "auto"
    made["overlay"] = widgets.Checkbox(
        True, description="lay the map over the picture", indent=False, layout=fitting["layout"]
    )
    buttons = token_buttons(made["token"], state.num_prefix_tokens, state.patch_side)
    prefix, patches = buttons[: state.num_prefix_tokens], buttons[state.num_prefix_tokens :]
    image, words = widgets.Image(format="png"), widgets.HTML(layout=fitting["layout"])

    def draw(_: dict | None = None) -> None:
        image.value, words.value = state.picture_of(**{name: control.value for name, control in made.items()})

    for control in made.values():
        control.observe(draw, names="value")
    draw()
    picture = widgets.VBox([widgets.HBox(prefix), clickable(image, patches, state)])
    panel = widgets.VBox([*made.values(), words])
    display(widgets.HBox([picture, panel], layout=widgets.Layout(flex_flow="row wrap")))


def clickable(image: "Image", patches: "list[Button]", state: Explored) -> "GridBox":
    """Lay the patches, as buttons that one sees through, over the picture: both lie in the one cell of a grid."""
    from ipywidgets import GridBox, Layout

    rows, columns = state.grid_size
    side = state.patch_side
    size = {"width": f"{columns * side}px", "height": f"{rows * side}px"}
    image.layout = Layout(grid_area="1 / 1 / 2 / 2", margin="0", max_width="none", **size)
    over = GridBox(
        patches,
        layout=Layout(
            grid_area="1 / 1 / 2 / 2",
            grid_template_columns=f"repeat({columns}, {side}px)",
            grid_template_rows=f"repeat({rows}, {side}px)",
            grid_gap="0",
            overflow="hidden",
            **size,
        ),
    )
    return GridBox(
        [image, over], layout=Layout(flex="0 0 auto", min_width=size["width"], overflow="hidden", **size)
    )


def token_buttons(query: "Dropdown", num_prefix_tokens: int, patch_side: int) -> "list[Button]":
    """Make a button for every token, prefix first: a click makes it the query, and the query wears a frame.

    Args:
        query: the control whose value is a token.
        num_prefix_tokens: how many tokens in front are no patches; their buttons have a name.
        patch_side: side of the button of a patch, in pixels.
    """
    from ipywidgets import Button, Layout

    sizes = {
        True: {"width": "52px", "height": "24px"},
        False: dict.fromkeys(("width", "height"), f"{patch_side}px"),
    }
    frames = {
        (is_prefix, chosen): Layout(padding="0", margin="0", min_width="0", border=border, **size)
        for is_prefix, size in sizes.items()
        for chosen, border in ((False, "0px solid"), (True, "3px solid orange"))
    }
    buttons = []
    for name, token in query.options:
        is_prefix = token < num_prefix_tokens
        text = {"description": "+" if token else "CLS"} if is_prefix else {}
        buttons.append(Button(tooltip=f"ask {name}", **text))
        if not is_prefix:
            buttons[-1].style.button_color = "transparent"
        buttons[-1].on_click(lambda _, token=token: setattr(query, "value", token))

    def mark(_: dict | None = None) -> None:
        for token, button in enumerate(buttons):
            button.layout = frames[token < num_prefix_tokens, token == query.value]

    query.observe(mark, names="value")
    mark()
    return buttons
