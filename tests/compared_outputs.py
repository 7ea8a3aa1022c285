"""Compare what a notebook shows now with what it showed before, by what it says.

Words, shapes, lines and their order are exactly the same; numbers may differ as far as their cell allows, because
other processors, other libraries and other numbers of threads add in another order. What a cell allows stands in its
metadata, which it gets from the option `tolerance` of its `# %%` line (code, which is shown as Markdown, is the same):

    without       whole numbers are the same, others within one unit of their last printed digit
    tolerance=0   every number is the same: for cells that only rearrange
    tolerance=5   whole numbers are the same, others within 5: for what steps of training have multiplied
"""

import re
from decimal import Decimal
from itertools import zip_longest

from authoring.notebooks.outputs import stored_figures

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
