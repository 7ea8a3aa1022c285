"""Show a figure, and draw numbers: lines, dots, tables, distributions."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from vit_classroom.notebook import in_notebook
from vit_classroom.plots.style import PALETTE, course_style, enlarge_type, spell_out, subplots
from vit_course.training.kernel import somebody_looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CARD = (
    "display: inline-block; max-width: 100%; box-sizing: border-box; isolation: isolate; border-radius: 8px; "
)
CARD += "border: 5px solid rgba(120, 130, 145, 0.16); background-color: #ffffff; "
CARD += "background-color: color-mix(in srgb, #ffffff 84%, var(--jp-layout-color0, #ffffff))"
INK = "display: block; max-width: 100%; mix-blend-mode: multiply"
"""The looks of a figure: paper that takes some of the theme's ground, so that it is white on white and does not glare
in a dark theme, and a picture printed on it. The picture itself stays white, which is what other pages show."""


def show(figure: "Figure", alt: str) -> None:
    """Display a figure with a text for readers who cannot see it, and close it; print the text elsewhere."""
    import matplotlib.pyplot as plt

    if in_notebook():
        from IPython.display import display

        display(picture(figure, alt), raw=True)
    else:
        print(f"[figure] {alt}")
    plt.close(figure)


def picture(figure: "Figure", alt: str) -> dict[str, str]:
    """Return what a notebook shows of a figure: HTML, because neither JupyterLab nor exports give a PNG an alt text."""
    from html import escape

    from IPython.core.pylabtools import print_figure

    spell_out(figure)
    enlarge_type(figure)
    data = print_figure(figure, fmt="png", base64=True)
    html = f'<div style="{CARD}"><img alt="{escape(alt)}" style="{INK}" src="data:image/png;base64,{data}"></div>'
    return {"text/html": html, "text/plain": repr(figure)}


def slider(draw: Callable, **controls: Any) -> None:
    """Let the reader move sliders in a notebook; elsewhere draw once with the first value of each control.

    VIT_COURSE_WIDGETS=0 leaves the sliders out of a notebook that nobody will touch, as in tests.

    Args:
        draw: draws for the values of the controls, given by keyword.
        controls: for each argument of `draw` the list of its values.
    """
    if not in_notebook():
        draw(**{name: values[0] for name, values in controls.items()})
        return
    if not somebody_looks():
        print("[a control that works when you run the notebook]")
        return
    from ipywidgets import SelectionSlider, interact

    sliders = {
        name: SelectionSlider(
            options=values,
            description=name.replace("_", " "),
            continuous_update=False,  # draw where the hand stops, not at every value on the way
            style={"description_width": "initial"},
        )
        for name, values in controls.items()
    }
    interact(lambda **chosen: draw(**chosen), **sliders)  # `draw` itself would get a slider for each default


@course_style()
def curves(
    series: dict[str, tuple[list, list]], title: str, xlabel: str, ylabel: str, log: str = ""
) -> "Figure":
    """Draw named lines; `series` maps a name to (x values, y values), `log` names the log axes ("", "x", "xy")."""
    figure, axis = subplots(figsize=(6.4, 3.6))
    for name, (x, y) in series.items():
        axis.plot(x, y, label=name, marker="o" if len(x) <= 20 else None, markersize=4)
    axis.set(title=title, xlabel=xlabel, ylabel=ylabel)
    if "x" in log:
        axis.set_xscale("log")
        ticks = sorted({float(value) for x, _ in series.values() for value in x})
        if len(ticks) < 10:
            axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.minorticks_off()
    if "y" in log:
        axis.set_yscale("log")
    if len(series) > 1:
        axis.legend(frameon=False)
    return figure


@course_style()
def curve_panels(
    panels: dict[str, dict[str, tuple[list, list]]], title: str, xlabel: str, log_y: tuple[str, ...] = ()
) -> "Figure":
    """Draw named lines in panels side by side over a logarithmic x axis, with one legend.

    Args:
        panels: maps what the y axis of a panel means, with its unit, to its lines: name to (x values, y values).
        title: the finding.
        xlabel: what the x axis means.
        log_y: the panels whose y axis is logarithmic too.
    """
    figure, axes = subplots(1, len(panels), figsize=(min(3.4 * len(panels), 10), 3.4), squeeze=False)
    for axis, (ylabel, series) in zip(axes[0], panels.items(), strict=True):
        for name, (x, y) in series.items():
            axis.plot(x, y, label=name, marker="o", markersize=4)
        axis.set(xlabel=xlabel, ylabel=ylabel, xscale="log", yscale="log" if ylabel in log_y else "linear")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(title)
    return figure


@course_style()
def seed_curves(
    series: dict[str, dict[float, list[float]]],
    title: str,
    xlabel: str,
    ylabel: str,
    log: bool = False,
    floor: tuple[str, float] | None = None,
) -> "Figure":
    """Draw a line through the means, and a dot for every seed.

    Args:
        series: maps a name to its values: x to one y for each seed.
        title: the finding.
        xlabel: what the x axis means.
        ylabel: what the y axis means, with its unit.
        log: whether the x axis is logarithmic.
        floor: name and height of a dashed line for what a simpler model reaches.
    """
    figure, axis = subplots(figsize=(6.4, 3.6))
    for number, (name, values) in enumerate(series.items()):
        x, marker = sorted(values), "os^Dv"[number % 5]
        (line,) = axis.plot(x, [np.mean(values[v]) for v in x], label=name, marker=marker, markersize=4)
        points = [(v, y) for v in x for y in values[v]]
        axis.scatter(*zip(*points, strict=True), s=14, color=line.get_color(), alpha=0.5, marker=marker)
    if log:
        ticks = sorted({v for values in series.values() for v in values})
        axis.set_xscale("log")
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
    if floor:
        axis.axhline(floor[1], label=floor[0], color="0.35", linestyle="--", linewidth=1)
    axis.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axis.legend(frameon=False)
    return figure


@course_style()
def dots(series: dict[str, tuple[list[str], list[float]]], title: str, xlabel: str) -> "Figure":
    """Draw values as dots on one line per label; `series` maps a name to (labels, values), one marker each."""
    labels = list(dict.fromkeys(label for names, _ in series.values() for label in names))
    figure, axis = subplots(figsize=(6.4, 0.45 * len(labels) + 1.3))
    for number, (name, (names, values)) in enumerate(series.items()):
        shift = 0.16 * (number - (len(series) - 1) / 2)
        heights = [labels.index(label) + shift for label in names]
        axis.plot(values, heights, "os^Dv"[number % 5], label=name, markersize=6)
    axis.set_yticks(range(len(labels)), labels)
    axis.set(title=title, xlabel=xlabel, ylim=(len(labels) - 0.5, -0.5))
    axis.grid(axis="y", alpha=0.3)
    if len(series) > 1:
        axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


@course_style()
def intervals(
    rows: dict[str, tuple[float, float, float]], title: str, xlabel: str, note: str = "shows no difference"
) -> "Figure":
    """Draw differences with their intervals, one on a line, in their order; colours say on which side of 0 they are.

    Args:
        rows: the difference, and the low and the high end of its interval, by name.
        title: the question.
        xlabel: what is measured, and its unit.
        note: what the legend says of an interval that contains 0.
    """
    kinds = {"better": (0, "o"), "worse": (1, "v"), note: (7, "s")}
    many = len(rows) > 15
    figure, axis = subplots(figsize=(7.2, (0.19 if many else 0.3) * len(rows) + 1.5))
    for height, (point, low, high) in enumerate(rows.values()):
        kind = "better" if low > 0 else "worse" if high < 0 else note
        colour, marker = PALETTE[kinds[kind][0]], kinds[kind][1]
        filled = "white" if kind == note else colour
        look = {
            "color": colour,
            "markerfacecolor": filled,
            "markersize": 6,
            "lw": 1.5,
            "capsize": 3,
            "ls": "-",
        }
        axis.errorbar(point, height, xerr=[[point - low], [high - point]], fmt=marker, label=kind, **look)
    axis.axvline(0, color="0.35", lw=1, ls="--")
    axis.set_yticks(range(len(rows)), list(rows), fontsize=9 if many else None)
    axis.set(title=title, xlabel=xlabel, ylim=(len(rows) - 0.4, -0.6))
    axis.grid(axis="y", alpha=0.3, ls="-")
    drawn = dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(drawn.values(), drawn.keys(), frameon=False, loc="outside lower center", ncols=3)
    return figure


@course_style()
def named_points(points: dict[str, tuple[float, float]], title: str, xlabel: str, ylabel: str) -> "Figure":
    """Draw points (x, y) with their names beside them, over a logarithmic x axis."""
    figure, axis = subplots(figsize=(7.2, 3.6))
    for number, (name, (x, y)) in enumerate(points.items()):
        axis.plot(x, y, "os^Dv"[number % 5], markersize=7)
        axis.annotate(name, (x, y), xytext=(7, 5), textcoords="offset points", fontsize="small")
    axis.set(title=title, xlabel=xlabel, ylabel=ylabel, xscale="log")
    axis.margins(x=0.25, y=0.15)
    return figure


@course_style()
def heat_maps(
    maps: list[Tensor], titles: list[str], title: str, unit: str, xlabel: str = "", ylabel: str = ""
) -> "Figure":
    """Draw matrices side by side with one colour bar; `unit` says what a colour means."""
    figure, axes = subplots(1, len(maps), figsize=(2.6 * len(maps) + 0.8, 3.0), squeeze=False)
    arrays = [m.detach().float().cpu().numpy() for m in maps]
    limits = {"vmin": min(a.min() for a in arrays), "vmax": max(a.max() for a in arrays)}
    for axis, array, label in zip(axes[0], arrays, titles, strict=True):
        picture = axis.imshow(array, **limits, interpolation="nearest")
        axis.set_title(label, fontsize="small")
        axis.set(xlabel=xlabel, ylabel=ylabel if axis is axes[0, 0] else "")
        axis.locator_params(integer=True, nbins=6)
    figure.colorbar(picture, ax=axes[0].tolist(), shrink=0.8, label=unit)
    figure.suptitle(title)
    return figure


@course_style()
def number_tables(
    tables: list[Tensor],
    titles: list[str],
    title: str,
    rows: list[str],
    columns: list[str],
    shared_scale: bool = False,
) -> "Figure":
    """Draw small matrices (len(rows), len(columns)) side by side, coloured, each number written in its cell."""
    height, width = 0.5 * len(rows) + 1.5, 0.68 * len(columns) + 0.35
    figure, axes = subplots(1, len(tables), figsize=(width * len(tables) + 1.2, height), squeeze=False)
    arrays = [table.detach().float().cpu().numpy() for table in tables]
    for number, (axis, array, label) in enumerate(zip(axes[0], arrays, titles, strict=True)):
        scale = np.concatenate(arrays) if shared_scale else array
        axis.imshow(array, aspect="auto", vmin=scale.min(), vmax=scale.max())
        digits = 0 if (array == array.round()).all() else 2
        for (i, j), value in np.ndenumerate(array):
            colour = "black" if 2 * value >= scale.min() + scale.max() else "white"
            axis.text(j, i, f"{value:.{digits}f}", ha="center", va="center", color=colour, fontsize="small")
        axis.set_xticks(range(len(columns)), columns, rotation=30, ha="right", fontsize="small")
        axis.set_yticks(range(len(rows)), rows if number == 0 else [""] * len(rows), fontsize="small")
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_title(label, fontsize="small")
    figure.suptitle(title)
    return figure


@course_style()
def value_histograms(series: dict[str, Tensor], title: str, xlabel: str) -> "Figure":
    """Draw the distribution of the values of each tensor, side by side."""
    figure, axes = subplots(1, len(series), figsize=(3.4 * len(series), 2.8), squeeze=False)
    for axis, (name, values), colour in zip(axes[0], series.items(), PALETTE, strict=False):
        axis.hist(values.detach().float().flatten().cpu().numpy(), bins=60, density=True, color=colour)
        axis.set(title=name, xlabel=xlabel, ylabel="share per unit")
    figure.suptitle(title)
    return figure


@course_style()
def clusters(
    points: list[Tensor], labels: Tensor, classes: tuple[str, ...], titles: list[str], title: str, axes: str
) -> "Figure":
    """Draw sets of points (N, 2) side by side on one scale, one marker and colour for each class.

    Args:
        points: one (N, 2) for each panel.
        labels: (N,) the class of each point, the same in every panel.
        classes: names of the classes.
        titles: one for each panel.
        title: title of the figure.
        axes: what the two axes are; " 1" and " 2" are added.
    """
    size = (4 * len(points) + 1.2, 3.9)
    figure, panels = subplots(1, len(points), figsize=size, squeeze=False, sharex=True, sharey=True)
    for panel, cloud, label in zip(panels[0], points, titles, strict=True):
        for number, name in enumerate(classes):
            x, y = cloud[labels == number].detach().cpu().T
            marker, colour = "o^sDXPv*<>"[number % 10], PALETTE[number % len(PALETTE)]
            panel.scatter(x, y, s=16, marker=marker, color=colour, alpha=0.75, lw=0, label=name)
        panel.set(title=label, xlabel=f"{axes} 1")
    panels[0, 0].set_ylabel(f"{axes} 2")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.suptitle(title)
    return figure
