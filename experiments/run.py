"""The command that runs and records the experiments of lessons 07 to 16, which `studies` lists.

    python -m experiments --list
    python -m experiments ladder comparison-8/vit --size cpu
    python -m experiments marks/94 --size gpu --release
    python -m experiments broken-runs hidden-photos mini-vit

A run that is recorded in `data/runs/` is skipped, one that differs from a recorded one in nothing but its name is not
trained again (both are with `--again`), and one that was cut off goes on after its last epoch: the command can be
stopped and called again.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import isnan
from pathlib import Path

import torch
from torch import nn

from experiments.first_values import build_started
from experiments.plans import plan
from vit_classroom.evidence import recorded_mini_vit as mini_vit
from vit_classroom.evidence.bodies import load_body
from vit_classroom.evidence.experiment import SIZES, Experiment, core_minutes
from vit_classroom.evidence.probes import accuracy_at_resolutions, probe
from vit_classroom.evidence.records import (
    as_json,
    different_fields,
    read_record,
    record_path,
    write_record,
)
from vit_classroom.evidence.released import RELEASED, queue_folder, release
from vit_classroom.evidence.selected_classes import select_classes
from vit_classroom.exhibits import broken_runs, hidden_photos
from vit_course.data import Dataset, load_dataset
from vit_course.extensions.masked import MaskedPatches, masked_objective
from vit_course.extensions.trained import read_weights, write_weights
from vit_course.extensions.transfer import change_resolution, freeze, resize_pictures
from vit_course.recipes import run_record
from vit_course.train import TrainConfig, evaluate, train
from vit_course.training.device import get_device
from vit_course.training.paths import DATA
from vit_course.training.run_folder import CHECKPOINT
from vit_course.training.version import code_version

KEPT = DATA / "pretrained"
"""Weights of pre-trainings, made once for each size and seed; they are no part of the course."""
ALONE = {"broken-runs", "hidden-photos", "mini-vit"}
"""Recorded by the same command, each into a file of its own; no part of the plan."""
SCORED = 5_000
"""About so many training pictures are scored as they are stored."""


def run_experiment(experiment: Experiment, dataset: Dataset) -> dict:
    """Train from where the run was left, measure and return the record; the caller writes it.

    Raises:
        KeyboardInterrupt: after Ctrl-C; the run's folder then holds what is needed to go on.
    """
    model, used, about = prepare(experiment, dataset)
    folder = queue_folder(experiment.stem)
    if not (folder / CHECKPOINT).exists():  # what an earlier run has left there is not this one's
        shutil.rmtree(folder, ignore_errors=True)
    code = versions_used(folder)
    keep_snapshot(experiment, model, folder, 0)
    history = train(
        model,
        used,
        experiment.config,
        folder,
        resume=True,
        on_epoch=lambda history: keep_snapshot(experiment, model, folder, len(history.train_loss)),
    )
    record = run_record(experiment.label, experiment.model, model, used, history)
    record |= {"size": experiment.size, "group": experiment.group, "step": experiment.name}
    record |= {"fraction": experiment.fraction, "options": experiment.options, "code": code, **about}
    spread = slice(None, None, max(1, len(used.train_images) // SCORED))  # pictures may lie class by class
    stored = used.train_images[spread], used.train_labels[spread]
    record["stored_accuracy"] = evaluate(model, *stored, used.channel_stats())[0]
    if experiment.held_out:
        record["held_out_accuracy"] = record.pop("test_accuracy")
        record["held_out_loss"] = record.pop("test_loss")
    if experiment.probes:
        record["probes"] = probe(model, used)
    if experiment.resolutions:
        record["resolutions"] = accuracy_at_resolutions(model, used, experiment.resolutions)
    if experiment.snapshots:
        write_weights(folder / "trained.safetensors", model.state_dict(), record, half=True)
    return record


def prepare(experiment: Experiment, dataset: Dataset) -> tuple[nn.Module, Dataset, dict]:
    """Build the model as it is before the first step.

    Returns:
        The model, the pictures to train on, at the size that it reads, and what the record says of the start.
    """
    own, used = experiment.pictures_of(dataset)
    torch.manual_seed(experiment.config.seed)
    model, about = build_started(experiment.model, used, **experiment.options), {}
    if experiment.start:
        about["pretraining"] = load_pretrained(model, experiment, dataset, own)
    if experiment.img_size:
        used = resize_pictures(used, experiment.img_size)
        change_resolution(model, experiment.img_size)
    if experiment.new_positions:
        nn.init.normal_(model.pos_embed, std=0.02)
    if experiment.trainable:
        freeze(model, experiment.trainable)
    if experiment.start:
        model.to(get_device())
        about["start_accuracy"] = evaluate(model, used.test_images, used.test_labels, used.channel_stats())[0]
    return model, used, about


def keep_snapshot(experiment: Experiment, model: nn.Module, folder: Path, epoch: int) -> None:
    """Write the weights after an epoch that the experiment wants to keep, in half precision, once."""
    path = folder / f"epoch{epoch}.safetensors"
    if epoch in experiment.snapshots and not path.exists():
        write_weights(path, model.state_dict(), {"epoch": epoch}, half=True)


def versions_used(folder: Path) -> str:
    """Name the code that a run was made with: all versions, if it went on with another one than it began with."""
    path = folder / "code.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    lines = list(dict.fromkeys([*lines, code_version()]))
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ", ".join(lines)


def load_pretrained(model: nn.Module, experiment: Experiment, dataset: Dataset, own: Dataset) -> dict:
    """Load what the experiment starts from into its model, after making it if it is not kept yet.

    `dataset` is all pictures, `own` the experiment's; the head gets weights only if the experiment keeps it.

    Returns:
        What the record says of the pre-training.

    Raises:
        ValueError: if the weights that are kept under its name are of another pre-training.
    """
    path = KEPT / f"{pretraining_stem(experiment)}.safetensors"
    pictures = pretraining_data(experiment, dataset, own)
    if not path.exists():
        write_weights(path, *pretrain(experiment, pictures))
    weights, about = read_weights(path)
    wanted, defaults = as_json(asdict(pretraining_config(experiment))), as_json(asdict(TrainConfig()))
    other = ["data"] * (about["data"] != pictures.provenance)
    if differing := different_fields(about["config"], wanted, defaults) + other:
        raise ValueError(f"{path} is of another pre-training: {', '.join(differing)} differs; delete it")
    if experiment.keep_head:
        model.load_state_dict(weights)
    else:
        load_body(model, weights)
    return about


def pretraining_stem(experiment: Experiment) -> str:
    """Return size, name and seed of the pre-training of an experiment."""
    return f"{experiment.size}/{experiment.start.name}-seed{experiment.config.seed}"


def pretraining_config(experiment: Experiment) -> TrainConfig:
    """Return the recipe of the pre-training of an experiment, with a seed of its own."""
    return replace(experiment.start.config, seed=1000 + experiment.config.seed)


def pretraining_data(experiment: Experiment, dataset: Dataset, own: Dataset) -> Dataset:
    """Return the pictures that a pre-training learns from."""
    if experiment.start.data == "same":
        return own
    rest = dataset.remainder(experiment.pictures, seed=experiment.config.seed)
    return select_classes(rest, range(len(dataset.classes) - 1))


def pretrain(experiment: Experiment, dataset: Dataset) -> tuple[dict[str, torch.Tensor], dict]:
    """Train the model of an experiment on its first task, from where that was left.

    Returns:
        Its weights, and what a record says of them.
    """
    start, config = experiment.start, pretraining_config(experiment)
    torch.manual_seed(config.seed)
    model = build_started(experiment.model, dataset, **experiment.options)
    learner, objective = model, None
    if start.task != "labels":
        learner = MaskedPatches(model, *dataset.channel_stats(), task=start.task)
        objective = masked_objective
    folder = queue_folder(f"pretrained/{pretraining_stem(experiment)}")
    history = train(learner, dataset, config, folder, resume=True, objective=objective)
    about = {"name": start.name, "task": start.task, "data": history.provenance, "epochs": config.epochs}
    about |= {"pictures": len(dataset.train_images), "seconds": round(history.seconds, 1)}
    about |= {"test_accuracy": history.test_accuracy, "test_loss": history.test_loss}
    about |= {"train_loss": history.train_loss, "hits": history.train_accuracy, "config": history.config}
    return {name: value.cpu() for name, value in model.state_dict().items()}, about


def parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[Experiment]]:
    """Read the command line; return its options, and the experiments that it asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description="Run and record the experiments of the lessons."
    )
    parser.add_argument(
        "runs",
        nargs="*",
        help="groups or runs: ladder, comparison-8/vit, broken-runs, hidden-photos, mini-vit",
    )
    parser.add_argument("--size", choices=SIZES, default="gpu" if get_device().type == "cuda" else "cpu")
    parser.add_argument("--data", default="auto", help="auto, cifar10, shapes10 or a folder")
    parser.add_argument("--minutes", type=float, help="start no run after so many minutes")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--again", action="store_true", help="run what is recorded, too; replace its record")
    action.add_argument("--list", action="store_true", help="list the runs, recorded or not, core-minutes")
    action.add_argument("--release", action="store_true", help="put recorded weights into data/checkpoints/")
    options = parser.parse_args(arguments)
    if options.minutes is not None and not options.minutes > 0:
        parser.error(f"argument --minutes: {options.minutes} should be a number above 0")
    asked = set(options.runs)
    named = [
        (one, {one.group, one.label, f"{one.label}-seed{one.config.seed}"}) for one in plan(options.size)
    ]
    if unknown := asked - ALONE - {name for _, names in named for name in names}:
        parser.error(f"no experiments in {', '.join(sorted(unknown))}")
    if alone := ", ".join(sorted(asked & ALONE)):
        if asked - ALONE or options.list or options.again or options.release:
            parser.error(f"{alone}: give no other run, and no --list, --again or --release")
        return options, []
    chosen = [one for one, names in named if not asked or asked & names]
    if options.release:
        chosen = [one for one in chosen if one.stem in RELEASED]
    if not chosen:
        parser.error(f"no weights to release in {', '.join(options.runs)}")
    return options, chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; return 0, 1 after an error, or 130 after Ctrl-C."""
    try:
        return carry_out(*parse(arguments))
    except KeyboardInterrupt:
        print("stopped; call again to go on")
        return 130
    except BrokenPipeError:  # `commands.run_command` ends quietly
        raise
    except (ValueError, ArithmeticError, MemoryError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def carry_out(options: argparse.Namespace, chosen: list[Experiment]) -> int:
    """List, release or run the chosen experiments; return 0."""
    if not chosen:  # runs of lessons, not of the plan
        if "broken-runs" in options.runs and not broken_runs.FILE.exists():
            broken_runs.record_all()
        if "hidden-photos" in options.runs and not hidden_photos.FILE.exists():
            hidden_photos.record(load_dataset(options.data))
        if "mini-vit" in options.runs and not mini_vit.FILE.exists():
            mini_vit.record(load_dataset(options.data))
        return 0
    if options.list:
        for one, minutes in zip(chosen, core_minutes(chosen), strict=True):
            state = "recorded" if record_path(one).exists() else "to run"
            print(f"{state:9} {one.stem:44} {'' if isnan(minutes) else f'{minutes:6.1f}'}".rstrip())
        return 0
    dataset = load_dataset(options.data)
    if options.release:
        for one in chosen:
            print("\n".join(f"wrote {path.name}" for path in release(one, dataset)))
        return 0
    run_all(chosen, dataset, options.minutes, options.again)
    return 0


def recorded_elsewhere(experiment: Experiment) -> dict | None:
    """Return the record of a run that two studies share, if the other one has it: under this name, and saying so."""
    for other in plan(experiment.size):
        same = replace(other, group=experiment.group, name=experiment.name, probes=experiment.probes)
        path = record_path(other)
        if same == experiment and other.probes >= experiment.probes and path.exists():
            named = {"name": experiment.label, "group": experiment.group, "step": experiment.name}
            return {**read_record(path), **named, "same_run_as": other.stem}
    return None


def run_all(
    experiments: Sequence[Experiment], dataset: Dataset, minutes: float | None = None, again: bool = False
) -> None:
    """Run the experiments that are not recorded, or all of them again; start none when so many minutes are over."""
    start = time.perf_counter()
    to_run = [one for one in experiments if again or not record_path(one).exists()]
    if len(to_run) < len(experiments):
        print(f"{len(experiments) - len(to_run)} recorded already: --again runs them again", flush=True)
    for experiment in to_run:
        if minutes and time.perf_counter() - start > 60 * minutes:
            print("out of time; call again to go on")
            return
        record = (not again and recorded_elsewhere(experiment)) or run_experiment(experiment, dataset)
        write_record(record_path(experiment), record)
        (queue_folder(experiment.stem) / CHECKPOINT).unlink(missing_ok=True)
        kind = "held_out" if experiment.held_out else "test"
        score, cost = record[f"{kind}_accuracy"], record["cpu_seconds"] / 60
        print(f"{experiment.stem:44} {kind} {score:.2%} in {cost:.1f} core-minutes", flush=True)
