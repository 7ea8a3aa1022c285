"""Compare what a notebook shows now with what it showed before, by what it says.

Words, shapes, lines and their order are exactly the same; numbers may differ as far as their cell allows, because
other processors, other libraries and other numbers of threads add in another order. What a cell allows stands in its
metadata, which it gets from the option `tolerance` of its `# %%` line (code, which is shown as Markdown, is the same):

    without       whole numbers are the same, others within one unit of their last printed digit
    tolerance=0   every number is the same: for cells that only rearrange
    tolerance=5   whole numbers are the same, others within 5: for what steps of training have multiplied
"""

import json
import os
import re
from decimal import Decimal
from importlib.metadata import version
from itertools import zip_longest

from authoring.notebooks.outputs import stored_figures

THIS_TORCH = ".".join(version("torch").split(".")[:2])
NUMBER = re.compile(r"[ \t]*(?<![\w.])([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?)[ \t]*")
"""A number and the blanks around it, which follow from its width."""
WHOLE = re.compile(r"[-+]?[\d,]+\.?")


def allowed(stored: str, new: str, tolerance: Decimal | None) -> Decimal:
    """Return how far two printed numbers may lie apart; a tolerance of None is one unit of the last printed digit."""
    if WHOLE.fullmatch(stored) and WHOLE.fullmatch(new):
        return Decimal(0)
    if tolerance is not None:
        return tolerance
    broken = [text.replace(",", "") for text in (stored, new) if not WHOLE.fullmatch(text)]
    return Decimal(1).scaleb(max(Decimal(text).as_tuple().exponent for text in broken))


def text_difference(stored: str, new: str, tolerance: Decimal | None = None) -> str:
    """Say what is first different between two texts beyond the tolerance; "" where nothing is."""
    lines = zip_longest(stored.splitlines(), new.splitlines())
    for count, (was, now) in enumerate(lines, 1):
        if was is None or now is None:
            return f"line {count} is {'missing' if now is None else 'new'}: {now if was is None else was!r}"
        # Every other part is a number.
        olds, news = NUMBER.split(was), NUMBER.split(now)
        words, other = (" ".join("\0".join(parts[::2]).split()) for parts in (olds, news))
        if words != other:
            return f"line {count} was {was!r} and is {now!r}"
        for old, number in zip(olds[1::2], news[1::2], strict=True):
            limit = allowed(old, number, tolerance)
            if abs(Decimal(old.replace(",", "")) - Decimal(number.replace(",", ""))) > limit:
                return f"line {count}: {old} was stored, {number} came; they may differ by {limit}"
    return ""


def shown(outputs: list, skipped: set[str]) -> list[tuple[str, str]]:
    """Return what outputs show, as (kind, text), in order; what nbval skips is left out."""
    parts = []
    for output in outputs:
        if output.output_type == "stream":
            parts.append((output.name, output.text))
        else:
            fields = {**output.get("data", {}), **{k: output[k] for k in ("ename", "evalue") if k in output}}
            parts += sorted((kind, str(text)) for kind, text in fields.items())
    return [(kind, text) for kind, text in parts if kind not in skipped]


def compare_outputs(cell, new: list, stored: list) -> bool:
    """Compare the outputs of one of nbval's cells, in place of its own method; what differs it keeps for the report."""
    new = stored_figures(new)
    stated = cell.cell.metadata.get("tolerance")
    tolerance = None if stated is None else Decimal(str(stated))
    before, now = ([(kind, cell.sanitize(text)) for kind, text in shown(outputs, cell.parent.skip_compare)]
                   for outputs in (stored, new))  # fmt: skip
    kinds, others = [kind for kind, _ in before], [kind for kind, _ in now]
    differences = [f"it showed {kinds} and shows {others}"] if kinds != others else []
    differences += [
        f"{kind}, {difference}"
        for (kind, was), (_, comes) in zip(before, now, strict=False)
        if (difference := text_difference(was, comes, Decimal(0) if kind == "text/markdown" else tolerance))
    ]
    cell.comparison_traceback = differences
    return not differences


# -- of which notebooks


def made_with(path):
    """Return the PyTorch from which the outputs of a notebook come, up to the last number: "2.9"."""
    made = json.loads(path.read_text(encoding="utf-8"))["metadata"].get("vit_course", {}).get("torch", "")
    return ".".join(made.split(".")[:2])


def is_comparable(path):
    """Tell whether the outputs of a notebook are compared where the same PyTorch is installed."""
    return path.parent.name == "solutions" and path.suffix == ".ipynb" and "01" <= path.name[:2] <= "06"


def is_compared(path):
    """Tell whether the outputs of a notebook are compared."""
    wanted = is_comparable(path) and os.environ.get("VIT_COURSE_COMPARE") != "0"
    return wanted and made_with(path) == THIS_TORCH


def skipped_comparisons(paths):
    """Say in a line of which notebooks the outputs are not compared, and why; "" if all are that can be."""
    left_out = sorted(path for path in paths if is_comparable(path) and not is_compared(path))
    if not left_out:
        return ""
    numbers = ", ".join(path.name[:2] for path in left_out)
    if os.environ.get("VIT_COURSE_COMPARE") == "0":
        return f"NOT COMPARED: the outputs of solutions {numbers}, because VIT_COURSE_COMPARE=0"
    made = ", ".join(sorted({made_with(path) or "an unknown one" for path in left_out}))
    return (
        f"NOT COMPARED: the outputs of solutions {numbers}, because PyTorch {made} made them and {THIS_TORCH} is "
        "installed; CONTRIBUTING.md says how to take a new PyTorch"
    )
