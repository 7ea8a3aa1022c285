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
