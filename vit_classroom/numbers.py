"""How numbers are written in the lessons: everywhere the same, whatever they come from.

A digit stands before every point, commas part thousands, and nothing rounds to "-0".
"""

import math
from numbers import Integral, Real

SMALLEST = 1e-6
"""Numbers closer to zero than this are written with a power of ten."""


def fixed(value: float, decimals: int) -> str:
    """Write a number with so many decimals. What rounds to zero has no sign."""
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text


def number(value: Real, digits: int = 3) -> str:
    """Write a number: a whole one in full, another with significant digits, never fewer than stand before its point.

    Args:
        value: an int or a float, Python's or numpy's.
        digits: significant digits of a number that is not whole by its type.
    """
    if isinstance(value, Integral) or not math.isfinite(value):
        return f"{value:,}"
    value = float(value)
    if value == 0:
        return "0"
    if abs(value) < SMALLEST:
        return f"{value:.{digits - 1}e}"
    magnitude = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded number: 9.999 becomes 10.0
    return fixed(value, max(digits - 1 - magnitude, 0))


def percent(share: float, decimals: int = 1) -> str:
    """Write a share, .612, in percent: "61.2 %"."""
    return f"{fixed(100 * float(share), decimals)} %"


def minutes(seconds: float) -> str:
    """Write a time, in seconds, with the two units that say most: "1 min 15 s", "2 h 5 min", "4.2 s"."""
    seconds = float(seconds)
    if seconds < 0.05:
        return "under 0.1 s"
    if seconds < 9.95:
        return f"{fixed(seconds, 1)} s"
    if seconds < 3570:
        units, (large, small) = ("min", "s"), divmod(round(seconds), 60)
    else:
        units, (large, small) = ("h", "min"), divmod(round(seconds / 60), 60)
    parts = zip((large, small), units, strict=True)
    return " ".join(f"{fixed(count, 0)} {unit}" for count, unit in parts if count)
