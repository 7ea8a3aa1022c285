"""Tables of results: HTML in a notebook, aligned text in a terminal, the same rows and numbers in both."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from numbers import Real
from typing import Any

from vit_classroom.numbers import number

NUMERIC = frozenset("0123456789.,+-−± %e")


@dataclass(frozen=True)
class Table:
    """A table as texts, row by row. A notebook shows its HTML, `print` its text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    @property
    def right(self) -> list[bool]:
        """Whether each column stands to the right: all that it holds are numbers."""
        return [all(map(is_numeric, column)) for column in zip(*self.rows, strict=True)]

    def __str__(self) -> str:
        """Return the table as lines of text, with columns wide enough for their longest cell."""
        lines = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(line, widths, self.right, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join(filter(None, [self.caption, *aligned]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        sides = ["right" if right else "left" for right in self.right]
        rows = [row_html("td", row, sides) for row in self.rows]
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        head = row_html("th", self.columns, sides)
        return f"<table>{caption}<thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def table(rows: Sequence[Sequence[Any]], columns: Sequence[str], caption: str = "") -> Table:
    """Make a table. As the last line of a cell it is shown; elsewhere `display` or `print` it.

    Args:
        rows: the cells; ints and floats are written by `number`, everything else by `str`.
        columns: the heading of each column.
        caption: a title of the table.

    Raises:
        ValueError: if there is no row, or one with more or fewer cells than columns.
    """
    texts = tuple(tuple(map(cell_text, row)) for row in rows)
    if not texts or any(len(row) != len(columns) for row in texts):
        counts = sorted({len(row) for row in texts})
        raise ValueError(f"rows of {counts} cells do not fit {len(columns)} columns")
    return Table(tuple(map(str, columns)), texts, caption)


def cell_text(value: Any) -> str:
    """Write a cell: numbers by the one formatter, but not truth values."""
    return number(value) if isinstance(value, Real) and not isinstance(value, bool) else str(value)


def plain(text: str) -> str:
    """Return a text of somebody else without what a terminal takes for a command."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def is_numeric(text: str) -> bool:
    """Tell whether a cell holds numbers and their signs alone; an empty cell or a dash fits any column."""
    return set(text) <= NUMERIC or text in ("–", "—")


def row_html(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    """Return one row of a table."""
    written = (
        f'<{tag} style="text-align: {side}">{escape(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(written)}</tr>"
