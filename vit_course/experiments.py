"""Every experiment of lessons 07 and 08 as data, and the one command that runs and records them.

    python -m vit_course.experiments --list --size cpu
    python -m vit_course.experiments ladder comparison --size cpu

A run that is recorded in `data/runs/` is skipped, so the command can be cut off and called again. Lessons read the
records with `load_records`.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from vit_course.comparison import probe
from vit_course.data import Dataset, load_dataset
from vit_course.profiles import get_device
from vit_course.recipes import RECIPES, build_model, run_record
from vit_course.train import TrainConfig, train

RUNS = Path(__file__).parents[1] / "data" / "runs"
SIZES = ("cpu", "gpu")
LADDER = ("plain", "crop-flip", "adamw", "smoothing", "rand-augment", "mixed")
FRACTIONS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Experiment:
    """One run: what is trained, on how much, how often seen, and what is measured afterwards.

    Attributes:
        group: "ladder", "comparison" or "fractions".
        name: name within the group; with size and seed it names the record.
        size: "cpu" or "gpu".
        model: name for `build_model`.
        config: the recipe in full, seed included.
        pictures: training pictures before `fraction` is taken; None for all.
        fraction: share of them that is used.
        drop_path: drop path of a ViT.
        probes: also measure shifted and shuffled pictures after training.
    """

    group: str
    name: str
    size: str
    model: str
    config: TrainConfig
    pictures: int | None = None
    fraction: float = 1.0
    drop_path: float = 0.0
    probes: bool = False

    @property
    def path(self) -> Path:
        """File of the record."""
        return RUNS / f"{self.size}-{self.group}-{self.name}-seed{self.config.seed}.json"


def all_experiments(size: str) -> list[Experiment]:
    """List the experiments of one size, in the order of their worth.

    The CPU size uses 10,000 pictures and models of a tenth of a GFLOP at most; the GPU size all 50,000.
    """
    small = size == "cpu"
    vit, resnet = ("Nano/8", "resnet-small") if small else ("Ti/4", "resnet18")
    pictures, epochs, batch = (10_000, 10, 64) if small else (None, 60, 512)
    common = {"epochs": epochs, "batch_size": batch, "quiet": True}
    if not small:
        common |= {"augment_ahead": 8, "compile": True}
    recipes = {name: replace(recipe, **common) for name, recipe in RECIPES.items()}
    best = "smoothing" if small else "mixed"

    def seeded(
        count: int, group: str, name: str, model: str, config: TrainConfig, **more
    ) -> list[Experiment]:
        return [
            Experiment(group, name, size, model, replace(config, seed=seed), pictures, **more)
            for seed in range(count)
        ]

    listed = []
    for name, model, recipe in (("vit", vit, best), ("resnet", resnet, "resnet")):
        listed += seeded(3, "comparison", name, model, recipes[recipe], probes=True)
    for step in LADDER:
        listed += seeded(1 if small else 3, "ladder", step, vit, recipes[step])
    listed += seeded(1 if small else 3, "ladder", "drop-path", vit, recipes[LADDER[-1]], drop_path=0.1)
    longer = replace(recipes[LADDER[-1]], epochs=3 * epochs)
    listed += seeded(1 if small else 3, "ladder", "longer", vit, longer, drop_path=0.1)
    total = pictures or 50_000
    for fraction in FRACTIONS:
        count = round(total * fraction)
        fitting = min(batch, count)
        equal_steps = round(epochs * (total // batch) / (count // fitting))
        for name, model, recipe in (("vit", vit, best), ("resnet", resnet, "resnet")):
            config = replace(recipes[recipe], epochs=equal_steps, batch_size=fitting)
            label = f"{name}-{round(100 * fraction)}"
            listed += seeded(1 if small else 3, "fractions", label, model, config, fraction=fraction)
    return listed


def run_experiment(experiment: Experiment, dataset: Dataset) -> dict:
    """Train, measure and return the record; the caller writes it."""
    if experiment.pictures:
        dataset = dataset.subset(experiment.pictures)
    if experiment.fraction < 1:
        dataset = dataset.subset(round(len(dataset.train_images) * experiment.fraction))
    torch.manual_seed(experiment.config.seed)
    options = {"drop_path_rate": experiment.drop_path} if experiment.drop_path else {}
    model = build_model(experiment.model, dataset, **options)
    start = time.perf_counter()
    history = train(model, dataset, experiment.config)
    name = f"{experiment.group}/{experiment.name}"
    record = run_record(name, experiment.model, model, dataset, history)
    record |= {"size": experiment.size, "group": experiment.group, "step": experiment.name}
    record |= {"fraction": experiment.fraction, "drop_path": experiment.drop_path}
    record["wall_seconds"] = round(time.perf_counter() - start, 2)
    if experiment.probes:
        record["probes"] = probe(model, dataset)
    return record


def load_records(group: str, size: str | None = None) -> list[dict]:
    """Read the recorded runs of a group: the GPU's where there are any, else the CPU's, or those of `size`.

    Every record says what produced it: see "machine", "data", "config" and "versions".
    """
    for one in (size,) if size else reversed(SIZES):
        records = [
            json.loads(p.read_text(encoding="utf-8")) for p in sorted(RUNS.glob(f"{one}-{group}-*.json"))
        ]
        if records:
            return records
    return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiments asked for that are not recorded yet, and write their records."""
    parser = argparse.ArgumentParser(
        prog="python -m vit_course.experiments", description=__doc__.split("\n")[0]
    )
    parser.add_argument("groups", nargs="*", help="ladder, comparison, fractions; without, all")
    parser.add_argument("--size", choices=SIZES, default="gpu" if get_device().type == "cuda" else "cpu")
    parser.add_argument("--data", default="auto", help="auto, cifar10, shapes10 or a folder")
    parser.add_argument("--minutes", type=float, help="start no run after so many minutes")
    parser.add_argument("--list", action="store_true", help="list the runs, and which are recorded")
    options = parser.parse_args(arguments)
    chosen = [e for e in all_experiments(options.size) if not options.groups or e.group in options.groups]
    if not chosen:
        parser.error(f"no experiments in {', '.join(options.groups)}")
    if options.list:
        for experiment in chosen:
            print("recorded " if experiment.path.exists() else "to run   ", experiment.path.stem)
        return 0
    dataset, start = load_dataset(options.data), time.perf_counter()
    for experiment in chosen:
        if experiment.path.exists():
            continue
        if options.minutes and time.perf_counter() - start > 60 * options.minutes:
            print("out of time; call again to go on")
            break
        record = run_experiment(experiment, dataset)
        experiment.path.parent.mkdir(parents=True, exist_ok=True)
        part = experiment.path.with_suffix(".part")
        part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        part.replace(experiment.path)
        print(
            f"{experiment.path.stem:44} test {record['test_accuracy']:.2%} in {record['seconds']:.0f} s",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
