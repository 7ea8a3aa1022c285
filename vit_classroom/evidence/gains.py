"""What each arm of a search brought against its base, at equal cost: lessons 08 and 16 show it as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import Any

from vit_classroom.evidence.statistics import difference, from_to, signed, undecided
from vit_course.recipes import MODELS

HELD_OUT = 5_000
MODEL, SHAPE = MODELS["minutes"]


@dataclass(frozen=True)
class Gain:
    """What one arm brought against the base, at equal cost.

    Attributes:
        arm: its name.
        scores: accuracies on held-out pictures in percent, one for each seed.
        epochs: how many the cost of the base pays for.
        points: mean of the arm minus mean of the base.
        low: the least that it may be, `high` the most: by the course's rule where both have several seeds; with one
            seed two standard errors of what so many held-out pictures say, which leaves the luck of seeds out.
    """

    arm: str
    scores: tuple[float, ...]
    epochs: float
    points: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """What may be said of it: "better", "worse", or "undecided"."""
        return "undecided" if undecided(self.low, self.high) else "better" if self.points > 0 else "worse"

    def row(self, name: str) -> list:
        """Return a row of a table: name, seeds, accuracy, gain, its ends, verdict, epochs."""
        score, gain = f"{fmean(self.scores):.1f}", signed(self.points)
        return [
            name, len(self.scores), score, gain, from_to(self.low, self.high), self.verdict,
            f"{self.epochs:.1f}",
        ]  # fmt: skip


COLUMNS = [
    "change", "seeds", "held-out accuracy in %", "gain in points", "from ... to", "verdict", "epochs at equal cost",
]  # fmt: skip


def gains(records: Sequence[Mapping[str, Any]], base: str = "base") -> dict[str, Gain]:
    """Compare every recorded arm with the base; the best gain first, the base left out; none where it is missing."""
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        runs.setdefault(record["step"], []).append(record)
    scores = {arm: [100 * run["held_out_accuracy"] for run in found] for arm, found in runs.items()}
    made = []
    for arm, found in runs.items() if base in runs else ():
        points, low, high = difference(scores[arm], scores[base])
        if low == -inf:
            error = (
                sum(fmean(scores[one]) * (100 - fmean(scores[one])) / HELD_OUT for one in (arm, base)) ** 0.5
            )
            low, high = points - 2 * error, points + 2 * error
        made.append(Gain(arm, tuple(scores[arm]), found[0]["config"]["epochs"], points, low, high))
    return {one.arm: one for one in sorted(made, key=lambda one: -one.points) if one.arm != base}
