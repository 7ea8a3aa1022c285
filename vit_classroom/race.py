"""The race of lesson 16: each run is one line of JSON in the log of verdicts; `boards` ranks those of a class.

Nothing that was handed in is executed, and its texts are escaped where they are shown.
"""

import contextlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from vit_classroom.answer_folder import read_log, write_log
from vit_classroom.notebook import in_notebook
from vit_classroom.numbers import percent
from vit_classroom.tables import Table, plain, table

LONGEST = 90
"""A text of an entry has at most so many characters; a longer one is cut."""
COLUMNS = ["place", "name", "held-out accuracy", "core-seconds", "settings"]


@dataclass(frozen=True)
class Entry:
    """One run: who made it, its share of held-out pictures that were right, what it cost, and how it was made."""

    name: str
    accuracy: float
    core_seconds: float
    settings: str
    data: str


def hand_in(name: str, accuracy: float, core_seconds: float, settings: Mapping[str, Any], data: str) -> str:
    """Add a run to the log, and say what became of it, in words for the student.

    Args:
        name: of the student or the team, as the board shall show it.
        accuracy: share of held-out pictures that were named right, in 0..1.
        core_seconds: processor time of the run, all threads together.
        settings: by name, for example {"lr": 0.003}.
        data: which pictures it were; runs on others have a board of their own.
    """
    if (
        not (in_notebook() or os.environ.get("VIT_COURSE_ANSWERS"))
        or os.environ.get("VIT_COURSE_STRICT") == "1"
    ):
        return "not handed in: this is not a student's notebook"
    if not name.strip():
        return "not handed in: write your name or your team's into NAME"
    told = ", ".join(f"{key} {value}" for key, value in settings.items())
    place = write_log({"what": "race", **asdict(Entry(name, accuracy, core_seconds, told, data))})
    return f"handed in: {place}" if place else "not handed in: no folder for it can be written"


def entries(lines: Iterable[str]) -> Iterator[Entry]:
    """Yield the runs in lines that anybody may have written; what is no run, or cannot be true, is passed over."""
    for line in lines:
        with contextlib.suppress(ValueError, OverflowError, RecursionError):
            data = json.loads(line)
            if not isinstance(data, dict) or data.get("what") != "race":
                continue
            texts = [data.get(key) for key in ("name", "settings", "data")]
            numbers = [data.get(key) for key in ("accuracy", "core_seconds")]
            if not all(isinstance(text, str) for text in texts) or not all(map(is_number, numbers)):
                continue
            if 0 <= numbers[0] <= 1 and numbers[1] > 0:
                name, settings, pictures = (plain(text)[:LONGEST] for text in texts)
                yield Entry(name, *map(float, numbers), settings, pictures)


def is_number(value: object) -> bool:
    """Tell whether a value of JSON is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def boards(runs: Iterable[Entry] | None = None) -> list[Table]:
    """Rank runs, those of this student's log if none are given.

    There is one board for each kind of pictures, and the best run of every name stands on it.
    """
    best: dict[tuple[str, str], Entry] = {}
    for entry in entries(read_log().splitlines()) if runs is None else runs:
        key = entry.data, entry.name
        if key not in best or entry.accuracy > best[key].accuracy:
            best[key] = entry
    made = []
    for pictures in dict.fromkeys(data for data, _ in best):
        ranked = sorted((e for e in best.values() if e.data == pictures), key=lambda e: -e.accuracy)
        rows = [
            [place, e.name, percent(e.accuracy), round(e.core_seconds), e.settings]
            for place, e in enumerate(ranked, 1)
        ]
        made.append(table(rows, COLUMNS, pictures))
    return made
