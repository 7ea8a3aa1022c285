"""The one command that runs and records the experiments of lessons 07 to 13, which `studies` lists.

    python -m vit_course experiments --list --size cpu
    python -m vit_course experiments ladder comparison --size cpu

A run that is recorded in `data/runs/` is skipped, so the command can be cut off and called again. Lessons read the
records with `load_records`.
"""

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill

import torch
from torch import nn

from vit_course import __version__
from vit_course.beyond.masked import MaskedPatches, masked_objective
from vit_course.beyond.transfer import change_resolution, freeze, load_body, resize_pictures, select_classes
from vit_course.data import Dataset, load_dataset, shapes10
from vit_course.experiments.first_studies import SIZES, Experiment, Pretraining, all_experiments
from vit_course.experiments.probes import probe
from vit_course.experiments.released import read_weights, write_weights
from vit_course.experiments.studies import plan
from vit_course.machinery.device import get_device
from vit_course.machinery.paths import DATA, ROOT, RUNS
from vit_course.recipes import build_model, run_record
from vit_course.train import evaluate, train

KEPT = DATA / "pretrained"
"""Weights of pre-trainings, made once for each size; they are no part of the course."""
UNFINISHED = DATA / "queue"
"""Checkpoints of runs that are not at their end, and the weights of those that keep some."""


SCORED = 5_000
"""Training pictures that are scored as they are stored."""


def record_path(experiment: Experiment) -> Path:
    """Return the file of a record."""
    return RUNS / f"{experiment.stem}.json"


def run_experiment(experiment: Experiment, dataset: Dataset) -> dict:
    """Train, measure and return the record; the caller writes it."""
    draw = experiment.config.seed if experiment.draw else 0
    own = dataset.subset(experiment.pictures, seed=draw) if experiment.pictures else dataset
    used = own
    if experiment.fraction < 1:
        used = own.subset(round(len(own.train_images) * experiment.fraction), seed=draw)
    torch.manual_seed(experiment.config.seed)
    model = build_model(experiment.model, used, **experiment.options)
    more = {}
    if experiment.start:
        more["pretraining"] = start_pretrained(model, experiment, dataset, own)
    if experiment.img_size:
        used = resize_pictures(used, experiment.img_size)
        change_resolution(model, experiment.img_size)
    if experiment.new_positions:
        nn.init.normal_(model.pos_embed, std=0.02)
    if experiment.trainable:
        freeze(model, experiment.trainable)
    if experiment.start:
        model.to(get_device())
        more["start_accuracy"] = evaluate(model, used.test_images, used.test_labels, used.channel_stats())[0]
    start = time.perf_counter()
    folder = UNFINISHED / experiment.stem
    keep_snapshot(experiment, model, folder, 0)
    history = train(
        model,
        used,
        experiment.config,
        folder,
        resume=True,
        on_epoch=lambda history: keep_snapshot(experiment, model, folder, len(history.train_loss)),
    )
    if history.interrupted:
        raise KeyboardInterrupt
    name = f"{experiment.group}/{experiment.name}"
    record = run_record(name, experiment.model, model, used, history)
    record |= {"size": experiment.size, "group": experiment.group, "step": experiment.name}
    record |= {"fraction": experiment.fraction, "options": experiment.options, **more}
    record["wall_seconds"] = round(time.perf_counter() - start, 2)
    record["code"] = code_version()
    if experiment.draw:
        stored = used.train_images[:SCORED], used.train_labels[:SCORED]
        record["stored_accuracy"] = evaluate(model, *stored, used.channel_stats())[0]
    if experiment.probes:
        record["probes"] = probe(model, used)
    if experiment.snapshots:
        weights = {name: value.half() for name, value in model.state_dict().items()}
        write_weights(folder / "trained.safetensors", weights, record)
    (folder / "checkpoint.pt").unlink(missing_ok=True)
    return record


def keep_snapshot(experiment: Experiment, model: nn.Module, folder: Path, epoch: int) -> None:
    """Write the weights after an epoch that the experiment wants to keep, in half precision, once."""
    path = folder / f"epoch{epoch}.safetensors"
    if epoch in experiment.snapshots and not path.exists():
        write_weights(path, {n: v.half() for n, v in model.state_dict().items()}, {"epoch": epoch})


def code_version() -> str:
    """Name the code that runs: the commit, and a "+" where files have changed since; else the course's version."""
    git = ["git", "-C", str(ROOT)]
    try:
        commit = subprocess.run(
            [*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run(
            [*git, "status", "--porcelain", "vit_course"], capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return f"version {__version__}"
    return commit.stdout.strip() + ("+" if changed.stdout.strip() else "")


def start_pretrained(model: nn.Module, experiment: Experiment, dataset: Dataset, own: Dataset) -> dict:
    """Load what the experiment starts from into its model, after making it if it is not kept yet.

    Args:
        model: gets the weights; its head only if the experiment keeps it.
        experiment: what is run.
        dataset: all pictures.
        own: the experiment's pictures, all labels.

    Returns:
        What the record says of the pre-training.
    """
    start = experiment.start
    path = KEPT / f"{experiment.size}-{start.name}-seed{experiment.config.seed}.safetensors"
    if not path.exists():
        weights, about = pretrain(experiment, pretraining_data(start, experiment, dataset, own))
        write_weights(path, weights, about)
    weights, about = read_weights(path)
    if experiment.keep_head:
        model.load_state_dict(weights)
    else:
        load_body(model, weights)
    return about


def pretraining_data(start: Pretraining, experiment: Experiment, dataset: Dataset, own: Dataset) -> Dataset:
    """Return the pictures that a pre-training learns from."""
    if start.data == "same":
        return own
    if start.data == "shapes10":
        return shapes10(train=2 * len(own.train_images), test=2000)
    return select_classes(dataset.remainder(experiment.pictures), range(len(dataset.classes) - 1))


def pretrain(experiment: Experiment, dataset: Dataset) -> tuple[dict[str, torch.Tensor], dict]:
    """Train the model of an experiment on its first task; return its weights, and what a record says of them."""
    start, seed = experiment.start, experiment.config.seed
    torch.manual_seed(1000 + seed)
    model = build_model(experiment.model, dataset, **experiment.options)
    config = replace(start.config, seed=1000 + seed)
    if start.task == "labels":
        history = train(model, dataset, config)
    else:
        task = MaskedPatches(model, *dataset.channel_stats(), task=start.task)
        history = train(task, dataset, config, objective=masked_objective)
    about = {"name": start.name, "task": start.task, "data": history.provenance, "epochs": config.epochs}
    about |= {"pictures": len(dataset.train_images), "seconds": round(history.seconds, 1)}
    about |= {"test_accuracy": history.test_accuracy, "test_loss": history.test_loss}
    about |= {"train_loss": history.train_loss, "hits": history.train_accuracy}
    return {name: value.cpu() for name, value in model.state_dict().items()}, about


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


def describe_records(records: Sequence[dict], width: int = 100) -> str:
    """Say which machines made records, and from which data, as far as that is the same; in lines of `width`."""
    machines = dict.fromkeys(f"{record['machine']}, {record['threads']} thread(s)" for record in records)
    parts = zip(*(record["data"].split("; ") for record in records), strict=False)
    common = [same[0] for same in parts if len(set(same)) == 1]
    return fill(f"recorded on {' / '.join(machines)}; {'; '.join(common)}", width)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiments asked for that are not recorded yet, and write their records."""
    parser = argparse.ArgumentParser(
        prog="python -m vit_course experiments", description=__doc__.split("\n")[0]
    )
    parser.add_argument("groups", nargs="*", help="groups of experiments, for example ladder; without, all")
    parser.add_argument("--size", choices=SIZES, default="gpu" if get_device().type == "cuda" else "cpu")
    parser.add_argument("--data", default="auto", help="auto, cifar10, shapes10 or a folder")
    parser.add_argument("--minutes", type=float, help="start no run after so many minutes")
    parser.add_argument("--planned", action="store_true", help="the new plan, whose records lie in folders")
    parser.add_argument("--list", action="store_true", help="list the runs, and which are recorded")
    options = parser.parse_args(arguments)
    listed = plan(options.size) if options.planned else all_experiments(options.size)
    asked = set(options.groups)
    chosen = [e for e in listed if not asked or asked & {e.group, f"{e.group}/{e.name}"}]
    if not chosen:
        parser.error(f"no experiments in {', '.join(options.groups)}")
    if options.list:
        for experiment in chosen:
            print("recorded " if record_path(experiment).exists() else "to run   ", experiment.stem)
        return 0
    dataset, start = load_dataset(options.data), time.perf_counter()
    for experiment in chosen:
        if record_path(experiment).exists():
            continue
        if options.minutes and time.perf_counter() - start > 60 * options.minutes:
            print("out of time; call again to go on")
            break
        record = run_experiment(experiment, dataset)
        path = record_path(experiment)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        part.replace(path)
        print(
            f"{experiment.stem:44} test {record['test_accuracy']:.2%} in {record['seconds']:.0f} s",
            flush=True,
        )
    return 0
