"""Small trained models that come with the course: weights in half precision, and what made them.

They are runs of `studies`; `python -m experiments marks/94 --size gpu --release` puts the weights of a
recorded one into `data/checkpoints/`, from where `extensions.trained.load_trained` takes it.
"""

from pathlib import Path
from typing import Any

from torch import nn

from vit_classroom.evidence.experiment import SIZES, Experiment
from vit_classroom.evidence.records import read_record, record_path
from vit_course.data import Dataset
from vit_course.extensions.trained import build_trained, read_weights, write_weights
from vit_course.train import evaluate
from vit_course.training.device import get_device
from vit_course.training.paths import CHECKPOINTS, DATA
from vit_course.vit import create_vit

QUEUE = DATA / "queue"
"""Checkpoints of runs that are not at their end, and the weights of those that keep some; not in git."""
RELEASED = {"cpu/marks/90-seed0": "cifar-vit", "gpu/marks/94-seed0": "cifar-vit"}
RELEASED |= {f"{size}/shapes/vit-seed0": "shapes-vit" for size in SIZES}
"""Which runs' weights come with the course, and the names that `load_trained` takes."""


def release(experiment: Experiment, dataset: Dataset) -> list[Path]:
    """Put the weights that a recorded experiment kept into the course; return the files.

    Args:
        experiment: one of `RELEASED`. Its snapshots are released beside the end of the run, under the name of
            their epoch, and scored for that.
        dataset: what it was trained on.

    Raises:
        FileNotFoundError: if it is not recorded, or its weights are not here.
    """
    name, used = RELEASED[experiment.stem], experiment.pictures_of(dataset)[1]
    kept, record = queue_folder(experiment.stem), record_path(experiment)
    if not (record.exists() and (kept / "trained.safetensors").exists()):
        raise FileNotFoundError(f"{experiment.stem} is not recorded or its weights are gone: run it (again)")
    mean, std = (values.tolist() for values in used.channel_stats())
    info = read_record(record) | {"img_size": list(used.train_images.shape[-2:]), "mean": mean, "std": std}
    info |= {"classes": list(used.classes)}
    # The browser reads this file without the code that knows the sizes by name.
    info["num_heads"] = create_vit(info["model"], **info["options"]).blocks[0].attn.num_heads
    files = []
    for path in sorted(kept.glob("*.safetensors")):
        (weights, about), end = read_weights(path), path.stem == "trained"
        files.append(CHECKPOINTS / (f"{name}.safetensors" if end else f"{name}-{path.stem}.safetensors"))
        about = info if end else as_after(about["epoch"], build_trained(weights, info), used, info)
        write_weights(files[-1], weights, about, half=True)
    return files


def as_after(epoch: int, model: nn.Module, dataset: Dataset, info: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a run as it would be, had the run ended after an epoch; the model is that of the epoch."""
    pictures = dataset.test_images, dataset.test_labels, dataset.channel_stats()
    accuracy, loss = evaluate(model.to(get_device()), *pictures)
    curves = {key: info[key][:epoch] for key in ("train_loss", "train_accuracy", "val_accuracy")}
    known = (
        "name",
        "model",
        "options",
        "img_size",
        "mean",
        "std",
        "classes",
        "num_heads",
        "parameters",
        "data",
    )
    told = {key: info[key] for key in (*known, "config", "machine", "versions", "code")}
    return told | curves | {"epoch": epoch, "test_accuracy": accuracy, "test_loss": loss}


def queue_folder(stem: str) -> Path:
    """Return where a run keeps its checkpoint and snapshots."""
    return QUEUE / stem
