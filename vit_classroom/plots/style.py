"""The look of the course's figures. It holds while a figure is drawn; matplotlib's own settings stay what they are.

matplotlib is imported with the first figure: a lesson that draws nothing does not pay for it.
"""

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
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


def spell_out(figure: "Figure") -> None:
    """Draw every letter of a figure, in any script: by a font of this system that has it, else in Latin letters."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.text import Text

    def foreign(texts: "list[Text]") -> frozenset[str]:
        written = unicodedata.normalize("NFC", "".join(text.get_text() for text in texts))
        return frozenset(written) - {"\n"} - letters_of(findfont(FontProperties()))

    axes = [axis for one in figure.axes for axis in (one.xaxis, one.yaxis)]
    marked = [
        axis for axis in axes if foreign(axis.get_ticklabels())
    ]  # a formatter writes these anew when it draws
    texts = [text for text in figure.findobj(Text) if foreign([text])]
    letters = foreign([*texts, *(label for axis in marked for label in axis.get_ticklabels())])
    font = font_with(letters)
    spelled = frozenset() if font else letters
    family = ["sans-serif", font] if font else None
    for axis in marked:
        labels = [in_latin(label.get_text(), spelled) for label in axis.get_ticklabels()]
        axis.set_ticks(axis.get_ticklocs(), labels, fontfamily=family)
    for text in texts:
        text.set(text=in_latin(text.get_text(), spelled), fontfamily=family)


def in_latin(text: str, letters: frozenset[str]) -> str:
    """Replace letters by what their names in Unicode call them: a syllable of Hangul or kana by its sound."""
    composed = unicodedata.normalize("NFC", text)  # names of files on a Mac come in parts of letters
    sounds = {letter: unicodedata.name(letter, "?").split()[-1].split("-")[-1].lower() for letter in letters}
    return "".join(sounds.get(letter, letter) for letter in composed)


@cache
def letters_of(path: str) -> frozenset[str]:
    """Return the letters of a font; none, if its file cannot be read."""
    from matplotlib.font_manager import get_font

    try:
        return frozenset(map(chr, get_font(path).get_charmap()))
    except (OSError, RuntimeError):
        return frozenset()


@cache
def font_with(letters: frozenset[str]) -> str:
    """Return the name of a font of this system that has some letters; "" if none does."""
    from matplotlib.font_manager import fontManager

    # Last Resort has a box for every letter, and matplotlib cannot draw the pictures of an emoji font.
    drawn = (one for one in fontManager.ttflist if not any(word in one.name for word in ("Resort", "Emoji")))
    return next((one.name for one in drawn if letters <= letters_of(one.fname)), "")
