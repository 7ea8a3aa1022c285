"""The attention explorer of lesson 09: choose picture, layer and head, click a patch, and see where it looks.

`explorer_figure` draws one state, a pure function of its arguments; `explore` puts controls around it in a notebook.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course.classroom import plots
from vit_course.classroom.notebook import in_notebook, somebody_looks
from vit_course.data import normalize
from vit_course.interpret import attention_rollout

if TYPE_CHECKING:
    from ipywidgets import Button, Dropdown
    from matplotlib.figure import Figure

LINES = (("picture", "token"), ("layer",), ("head",))
"""Which control stands in which line of the panel."""


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
    asked = token_name(token, columns, num_prefix_tokens)
    seen = {"mean": f"layer {layer}, mean of the heads", "rollout": f"rollout through layers 1 to {layer}"}
    parts = [f"{share:.1%} to {token_name(i, columns, num_prefix_tokens)}" for i, share in enumerate(weights)]
    shares = [f"{weights[num_prefix_tokens:].sum():.1%} to the patches", *parts[:num_prefix_tokens]]
    query = divmod(token - num_prefix_tokens, columns) if token >= num_prefix_tokens else None
    return plots.picture_and_weights(
        images[picture],
        weights[num_prefix_tokens:].reshape(rows, columns),
        f"{seen.get(head, f'layer {layer}, head {head}')}\n{asked} gives {', '.join(shares)}",
        name or f"picture {picture}",
        query,
    )


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

    def draw(picture: int, token: int, layer: int, head: int | str) -> None:
        figure = explorer_figure(
            images,
            attentions,
            picture,
            token,
            layer,
            head,
            grid_size=(rows, columns),
            num_prefix_tokens=prefix,
            name=names[picture],
        )
        asked = token_name(token, columns, prefix)
        plots.show(
            figure,
            f"{names[picture]}, and a heat map of where {asked} looks: layer {layer}, head {head}.",
        )

    controls = explorer_controls(names, (rows, columns), prefix, attentions)
    if not in_notebook() or not somebody_looks():
        draw(**{name: value for name, (_, value, _) in controls.items()})
    else:
        show_controls(draw, controls, patch_colours(images, (rows, columns)), columns)


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


def patch_colours(images: Tensor, grid_size: tuple[int, int]) -> list[list[str]]:
    """Name the mean colour of every patch, for each of the pictures (B, C, H, W), in reading order, as #rrggbb."""
    scaled = images.float() if images.dtype == torch.uint8 else 255 * images.float()
    means = F.adaptive_avg_pool2d(scaled.cpu(), grid_size).clamp(0, 255).round().byte().flatten(2)
    colours = means.expand(-1, 3, -1) if means.shape[1] == 1 else means[:, :3]
    return [["#" + bytes(colour).hex() for colour in picture.mT.tolist()] for picture in colours]


def show_controls(
    draw: Callable,
    controls: dict[str, tuple[str, int | str, list]],
    colours: Sequence[Sequence[str]],
    columns: int,
) -> None:
    """Put controls above the drawing, and beside it the patches, as buttons in their mean colours: a click asks."""
    import ipywidgets as widgets
    from IPython.display import display

    kinds = {"picture": widgets.Dropdown, "token": widgets.Dropdown, "head": widgets.ToggleButtons}
    made = {
        name: kinds.get(name, widgets.SelectionSlider)(options=options, value=value, description=label)
        for name, (label, value, options) in controls.items()
    }
    made["head"].style.button_width = "auto"
    buttons = token_buttons(made["picture"], made["token"], colours)
    prefix, patches = buttons[: -len(colours[0])], buttons[-len(colours[0]) :]
    grid = widgets.GridBox(patches, layout=widgets.Layout(grid_template_columns=f"repeat({columns}, 24px)"))
    clicks = widgets.VBox([widgets.Label("click a query:"), widgets.HBox(prefix), grid])
    panel = widgets.VBox([widgets.HBox([made[name] for name in line]) for line in LINES])
    display(panel, widgets.HBox([clicks, widgets.interactive_output(draw, made)]))


def token_buttons(picture: "Dropdown", query: "Dropdown", colours: Sequence[Sequence[str]]) -> "list[Button]":
    """Make a button for every token, prefix first: a click makes it the query, and the query wears a frame.

    Args:
        picture: the control whose value is the number of the picture.
        query: the control whose value is a token.
        colours: for each picture the colours #rrggbb of its N patches.
    """
    from ipywidgets import Button, Layout

    buttons = [Button(tooltip=name) for name, _ in query.options]
    first_patch = len(buttons) - len(colours[0])
    frames = {
        (side, chosen): Layout(width=side, height="24px", padding="0", margin="0", border=border)
        for side in ("24px", "40px")
        for chosen, border in ((False, "1px solid white"), (True, "3px solid orange"))
    }

    def paint(_: dict | None = None) -> None:
        for button, colour in zip(buttons[first_patch:], colours[picture.value], strict=True):
            button.style.button_color = colour

    def mark(_: dict | None = None) -> None:
        for token, button in enumerate(buttons):
            button.layout = frames["24px" if token >= first_patch else "40px", token == query.value]

    for token, button in enumerate(buttons):
        button.on_click(lambda _, token=token: setattr(query, "value", token))
        if token < first_patch:
            button.description = "+" if token else "CLS"
    for control, follow in ((picture, paint), (query, mark)):
        control.observe(follow, names="value")
        follow()
    return buttons
