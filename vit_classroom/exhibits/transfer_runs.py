"""What lesson 12 reads of recorded runs: labels that pre-training saves on real images, and larger images.

Other runs take the place of these by other names of groups and steps here, and nowhere else.
"""

import re
from collections.abc import Sequence
from typing import Any

from vit_classroom.evidence.records import caption, load_beside, load_records
from vit_classroom.evidence.statistics import difference

TRANSFER, CONTROL, LARGER = "transfer-8", "fractions-8", "resolution-8"
"""The groups: trained bodies on a new task, the same task from scratch, and larger images."""
WAYS = {"vit": "from scratch", "classes": "fine-tuning", "probe": "linear probe"}
"""The names in the lesson, by the step of a record without its share of the labels."""
SIZES = {
    "interpolated": "48 pixels, interpolated",
    "random-positions": "48 pixels, random positions",
    "same-size": "32 pixels",
}
Scores = dict[str, list[float]]
"""Test accuracies in percent, one for each seed, by a name."""


def labelled(record: dict[str, Any]) -> int:
    """Read from its description of the data how many labelled images a run had."""
    return int(re.findall(r"([\d,]+) train", record["data"])[-1].replace(",", ""))


def transfer_runs() -> tuple[dict[int, Scores], str]:
    """Return the scores of each way for each number of labels, and a caption; the control costs as much in all."""
    runs = load_records(TRANSFER)
    found: dict[int, Scores] = {}
    for record in [*load_beside(runs, CONTROL), *runs]:
        way = WAYS.get(record["step"].rpartition("-")[0])
        if way:
            score = 100 * record["test_accuracy"]
            found.setdefault(labelled(record), {}).setdefault(way, []).append(score)
    both = {count: found[count] for count in sorted(found) if len(found[count]) == len(WAYS)}
    return both, caption(runs)


def price() -> str:
    """Say what the recorded pre-training cost."""
    for record in load_records(TRANSFER):
        cost = record["pretraining"]
        if record["step"].startswith("classes"):
            return f"{cost['data'].split('; ')[-1]}, {cost['epochs']:.1f} epochs"
    return ""


def larger_runs() -> tuple[Scores, Scores, str]:
    """Return the scores at 48 and 32 pixels before the first step and after fine-tuning, and a caption."""
    runs = [run for run in load_records(LARGER) if run["step"] in SIZES]

    def scores(name: str) -> Scores:
        found = {
            title: [100 * run[name] for run in runs if run["step"] == step] for step, title in SIZES.items()
        }
        return {title: values for title, values in found.items() if values}

    return scores("start_accuracy"), scores("test_accuracy"), caption(runs)


def gain(scores: Scores, name: str, base: str) -> Sequence[float]:
    """Return how many points a name is ahead of another, and the ends of the 95 % interval (lesson 10)."""
    return difference(scores[name], scores[base])
