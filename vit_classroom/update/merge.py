"""Merge a student's notebook with a newer one, cell by cell: by id, and for exercises by what they ask for."""

import copy
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Cell = dict[str, Any]
NOTE = "newer-text"
"""In the metadata of a cell that shows the newer text of the cell above it."""
CHANGED = """\
**This cell of the lesson has changed in version {version}, and you had written in it.** Yours is above, as it was. \
The new text is below: take from it what you need, then delete this cell.

```{language}
{text}
```"""
GONE = """\
**You had written in the next cell, and the lesson has no such cell now.** Delete both when you do not need them."""


@dataclass
class Merged:
    """A merged notebook, and where both had changed the same cell.

    Attributes:
        book: the notebook as data.
        mine: how many cells the student had written in, or added.
        conflicts: the first line of each cell that both had changed, or that only the student still has.
    """

    book: dict[str, Any]
    mine: int = 0
    conflicts: list[str] = field(default_factory=list)


def read_book(data: bytes) -> dict[str, Any]:
    """Read a notebook whose cells have ids, each a different one.

    Raises:
        ValueError: if it is none.
    """
    book = json.loads(data)
    try:
        ids = [cell["id"] for cell in book["cells"]]
        good = all(isinstance(one, str) for one in ids) and all(
            isinstance(text_of(cell), str) for cell in book["cells"]
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("it is no notebook whose cells have ids") from error
    if not good or len(set(ids)) < len(ids):
        raise ValueError("two of its cells have the same id")
    return book


def text_of(cell: Cell) -> str:
    """Return the text of a cell, without spaces at its ends."""
    return "".join(cell["source"]).strip()


def key_of(cell: Cell) -> str:
    """Return what a cell is found by in another version: what an exercise asks for, else its id."""
    asked = cell.get("metadata", {}).get("exercise")
    return f"exercise {asked}" if asked else cell["id"]


def by_key(book: Mapping[str, Any]) -> dict[str, Cell]:
    """Return the cells of a notebook by what they are found by; of two that ask for the same, the first."""
    found: dict[str, Cell] = {}
    for cell in book["cells"]:
        found.setdefault(key_of(cell), cell)
    return found


def is_edited(mine: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    """Tell whether a student has written anything into a notebook that was given out as `base`."""
    given = {cell["id"]: text_of(cell) for cell in base["cells"]}
    written = [cell for cell in mine["cells"] if text_of(cell) and NOTE not in cell["metadata"]]
    return any(given.get(cell["id"]) != text_of(cell) for cell in written)


def merge(mine: Mapping[str, Any], base: Mapping[str, Any], new: Mapping[str, Any], version: str) -> Merged:
    """Merge a student's notebook with that of a newer version.

    Cells have the order of the newer one. What the student wrote is kept. Where the lesson's cell has changed too, a
    note below it shows the newer text. A student's own cells follow the cell that they followed.

    Args:
        mine: the notebook as it is.
        base: as it was given out.
        new: as the newer version gives it out.
        version: the newer version, for the notes.
    """
    merged = Merged({**copy.deepcopy(dict(new)), "cells": []})
    given, theirs = by_key(base), by_key(mine)
    newer, own = by_key(new), followers(mine, new, given)
    cells = merged.book["cells"]
    gone = given.keys() - newer.keys()
    cells += placed(own.get("", ()), gone, merged)
    for cell in new["cells"]:
        kept = theirs.get(key_of(cell)) if newer[key_of(cell)] is cell else None
        cells += one_cell(kept, given.get(key_of(cell)), cell, merged, version)
        cells += placed(own.get(key_of(cell), ()), gone, merged)
    return merged


def one_cell(mine: Cell | None, base: Cell | None, new: Cell, merged: Merged, version: str) -> list[Cell]:
    """Return what stands for a cell of the newer notebook: itself, or the student's, or both."""
    if mine is None or (base and text_of(mine) == text_of(base) != text_of(new)):
        return [copy.deepcopy(new)]
    kept = {**copy.deepcopy(mine), "id": new["id"], "metadata": {**mine["metadata"], **new["metadata"]}}
    if text_of(mine) == text_of(new):
        return [kept if mine["cell_type"] == new["cell_type"] else copy.deepcopy(new)]
    merged.mine += 1
    if base and text_of(base) == text_of(new):
        return [kept]
    merged.conflicts.append(first_line(mine))
    language = "python" if new["cell_type"] == "code" else "markdown"
    text = CHANGED.format(version=version, language=language, text=text_of(new).replace("```", "'''"))
    return [kept, note(f"{new['id']}-new", text)]


def followers(
    mine: Mapping[str, Any], new: Mapping[str, Any], given: Mapping[str, Cell]
) -> dict[str, list[Cell]]:
    """Return the cells that only the student's notebook has, by the cell of the newer one that they follow."""
    known, used, own = by_key(new).keys(), set(), {}
    before = ""
    for cell in mine["cells"]:
        key = key_of(cell)
        if key in known and key not in used:
            used.add(key)
            before = key
        elif NOTE not in cell["metadata"] and not (key in given and text_of(given[key]) == text_of(cell)):
            own.setdefault(before, []).append(cell)
    return own


def placed(own: Sequence[Cell], gone: Collection[str], merged: Merged) -> list[Cell]:
    """Return cells that the student alone has; before one that the lesson had a note says so."""
    cells = []
    for cell in own:
        merged.mine += 1
        if key_of(cell) in gone:
            merged.conflicts.append(first_line(cell))
            cells.append(note(f"{cell['id']}-gone", GONE))
        cells.append(copy.deepcopy(cell))
    return cells


def note(name: str, text: str) -> Cell:
    """Return a cell of text that the update adds."""
    return {"cell_type": "markdown", "id": name[-64:], "metadata": {NOTE: True}, "source": text}


def first_line(cell: Cell) -> str:
    """Return the line by which a cell is known: of code the first that defines something."""
    lines = text_of(cell).splitlines() or [""]
    return next((line for line in lines if line.startswith(("def ", "class "))), lines[0])[:70]
