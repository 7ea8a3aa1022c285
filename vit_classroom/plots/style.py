"""The look of the course's figures. It holds while a figure is drawn; matplotlib's own settings stay what they are.

matplotlib is imported with the first figure: a lesson that draws nothing does not pay for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000"]
"""Okabe and Ito's colours, which stay apart for colour-blind readers."""
LINE_STYLES = ["-", "--", ":", "-."]
"""Lines differ in these too, for a grey printout."""
SETTINGS = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "image.cmap": "cividis",
}

PAGE, SMALLEST = 7.5, 9
"""Inches of a figure that a page shows in full size, and the smallest type in points."""


@contextmanager
def course_style() -> Iterator[None]:
    """Draw what is inside, or in the decorated function, in the look of the course.

    Only the course's settings are put back: a notebook's backend may change others when the first figure appears.
    """
    from matplotlib import rcParams
    from matplotlib.rcsetup import cycler

    lines = cycler(color=PALETTE, linestyle=LINE_STYLES * 2)
    before = {name: rcParams[name] for name in [*SETTINGS, "axes.prop_cycle"]}
    rcParams.update(SETTINGS | {"axes.prop_cycle": lines})
    try:
        yield
    finally:
        rcParams.update(before)


def subplots(*args: Any, **options: Any) -> "tuple[Figure, Any]":
    """Make a figure with axes as `plt.subplots` does, importing matplotlib when it is first needed."""
    import matplotlib.pyplot as plt

    return plt.subplots(*args, **options)


def enlarge_type(figure: "Figure") -> None:
    """Let type grow with the width of a figure: a wide one is made smaller to fit the page, and its type with it."""
    from matplotlib.text import Text

    growth = max(1, figure.get_figwidth() / PAGE)
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if ticks := axis.get_major_ticks():  # those that a drawing makes later are like these
                size = growth * max(SMALLEST, ticks[0].label1.get_fontsize())
                axis.set_tick_params(which="both", labelsize=size)
    marks = {label for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())}
    for text in set(figure.findobj(Text)) - marks:
        text.set_fontsize(growth * max(SMALLEST, text.get_fontsize()))
