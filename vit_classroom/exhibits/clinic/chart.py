"""What a student has fixed so far: her own functions, as they were last checked."""

from collections.abc import Callable
from dataclasses import fields, replace

from vit_classroom.exhibits.clinic.bugs import BUGS, PARTS
from vit_classroom.exhibits.clinic.patient import Parts

FUNCTIONS = [part.name for part in fields(Parts)]
CHART: dict[str, tuple[Callable, int]] = {}
"""For each function that was checked: the answer, and how many symptoms it still had."""


def note(name: str, answer: Callable, symptoms: int) -> None:
    """Write down the last answer for a function, and how many symptoms are left."""
    CHART[name] = (answer, symptoms)


def my_parts(others: Parts = PARTS) -> Parts:
    """Return the student's own functions as they were last checked; those of `others` where none was, or none runs."""
    return replace(others, **{name: answer for name, (answer, left) in CHART.items() if left < len(BUGS)})


def scoreboard() -> tuple[int, int]:
    """Print how many lines of each function are fixed, as of the last checks; return (fixed, all)."""
    fixed, conventions = 0, sum(bug.convention for bug in BUGS)
    for name in FUNCTIONS:
        total = sum(bug.function == name for bug in BUGS)
        done = max(0, total - CHART.get(name, (None, total))[1])
        fixed += done
        print(f"{name:14} {'●' * done}{'○' * (total - done)}")
    print(f"{fixed} of {len(BUGS)} lines fixed: {len(BUGS) - conventions} bugs and {conventions} conventions")
    return fixed, len(BUGS)


def ward_book() -> list[list[str]]:
    """List the bugs: function, name, kind, and both lines. What is still in the student's functions stays closed."""
    rows = []
    for bug in BUGS:
        _, left = CHART.get(bug.function, (None, len(BUGS)))
        kind = "convention" if bug.convention else "bug"
        lines = [bug.name, kind, bug.sick.strip() or "(missing)", bug.healthy.strip()]
        rows.append([bug.function, *(["?", "", "not fixed yet", ""] if left else lines)])
    return rows
