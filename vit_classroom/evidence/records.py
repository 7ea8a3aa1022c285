"""Records of runs: where they lie, how they are written, read, and described. Lessons 07 to 16 read them here.

A record is one JSON file, `data/runs/<size>/<group>/<name>-seed<k>.json`.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import Any

from vit_classroom.evidence.experiment import SIZES, Experiment
from vit_course.training.paths import RUNS


def record_path(experiment: Experiment) -> Path:
    """Return the file of a record."""
    return RUNS / f"{experiment.stem}.json"


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def read_record(path: Path) -> dict[str, Any]:
    """Read one record.

    Raises:
        ValueError: if it is damaged.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged: delete it, and get it anew or run its experiment again"
        ) from error
    if not isinstance(record, dict):
        raise ValueError(f"{path} holds no record: delete it, and get it anew or run its experiment again")
    return record


def load_records(group: str, size: str | None = None, runs: Path | None = None) -> list[dict[str, Any]]:
    """Read the recorded runs of a group: the GPU's where there are any, else the CPU's, or those of `size`.

    Every record says what produced it: see "machine", "data", "config", "versions" and "code". `runs` is another
    folder than `data/runs`.

    Raises:
        ValueError: if one is damaged; the message names it.
    """
    for one in (size,) if size else SIZES[::-1]:
        if paths := sorted((runs or RUNS).glob(f"{one}/{group}/*.json")):
            return [read_record(path) for path in paths]
    return []


def load_beside(records: Sequence[dict[str, Any]], group: str) -> list[dict[str, Any]]:
    """Read the runs of another group, of the same size, that may stand beside these; none where there are none."""
    return load_records(group, records[0]["size"]) if records else []


def caption(records: Sequence[dict[str, Any]], width: int = 90) -> str:
    """Say which machines and which code made records, and from which data, as far as they share it.

    Lines have at most `width` characters. Which pictures a seed drew is left out; without records it says so.
    """
    if not records:
        return "No runs are recorded here yet: `python -m experiments` makes them."
    machines = dict.fromkeys(f"{record['machine']}, {record['threads']} thread(s)" for record in records)
    parts = zip(*(record["data"].split("; ") for record in records), strict=False)
    common = [same[0] for same in map(shared, parts) if len(same) == 1]
    code = dict.fromkeys(part for record in records for part in record.get("code", "").split(", ") if part)
    made_by = [f"code {', '.join(code)}"] if code else []
    return fill(f"recorded on {' / '.join(machines)}; {'; '.join(common + made_by)}", width)


def shared(parts: Sequence[str]) -> list[str]:
    """Return the different ones among descriptions of data; the seed of a subset alone makes no difference."""
    if len(set(parts)) > 1:
        parts = [re.sub(r", seed \d+$", "", part) for part in parts]
    return list(dict.fromkeys(parts))


def linear_classifier(records: Sequence[dict[str, Any]], among: Sequence[dict[str, Any]]) -> list[float]:
    """Find what a linear classifier reaches on the same number of training images: every model should be above it.

    Args:
        records: runs that a lesson shows.
        among: records of the groups that have linear classifiers, the best first.

    Returns:
        Test accuracies in percent of the first group with linear classifiers of as many pictures, one for each seed;
        nothing where there are none, or where the records do not share their number of pictures.
    """
    counts = {training_pictures(record) for record in records}
    linear = [one for one in among if one["model"] == "linear" and counts == {training_pictures(one)}]
    return [100 * one["test_accuracy"] for one in linear if one["group"] == linear[0]["group"]]


def training_pictures(record: dict[str, Any]) -> str:
    """Return the number of training pictures of a record, as its description of the data writes it."""
    return re.findall(r"([\d,]+) train", record["data"])[-1]


def differences(record: dict[str, Any], experiment: Experiment) -> list[str]:
    """Name what differs between a record and the experiment that it should be of; nothing if it is of that one.

    A field of the recipe that the record lacks had its default.
    """
    told = {name: getattr(experiment, name) for name in ("model", "options", "fraction", "size", "group")}
    told |= {"step": experiment.name}
    found = [name for name, value in as_json(told).items() if record.get(name) != value]
    recipe, recorded = as_json(asdict(experiment.config)), record["config"]
    found += different_fields(recorded, recipe, as_json(asdict(type(experiment.config)())))
    start, about = experiment.start, record.get("pretraining") or {}
    if not start or not about:
        return found + ["pretraining"] * (bool(start) != bool(about))
    wanted = {"name": start.name, "task": start.task, "epochs": start.config.epochs}
    return found + [f"pretraining {name}" for name, value in wanted.items() if about.get(name) != value]


def different_fields(recorded: dict, recipe: dict, defaults: dict) -> list[str]:
    """Name the fields in which a recorded recipe is not this one; of nested recipes with their own fields."""
    found = [*recorded.keys() - recipe.keys()]
    for name, value in recipe.items():
        was = recorded.get(name, defaults[name])
        if isinstance(value, dict) and isinstance(was, dict):
            found += different_fields(was, value, defaults[name])
        elif was != value:
            found.append(name)
    return sorted(found)


def as_json(value: Any) -> Any:
    """Return what is left of a value in a JSON file: tuples become lists."""
    return json.loads(json.dumps(value))
