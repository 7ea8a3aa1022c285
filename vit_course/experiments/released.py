"""Small trained models that come with the course: weights in half precision, and what made them.

They are runs of `studies`; `python -m vit_course experiments marks/94 --size gpu --release` puts the weights of a
recorded one into `data/checkpoints/`. `load_trained("cifar-vit")` gives a model and its record; lessons 09, 15 and 17
use them.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from vit_course.beyond.hybrid import create_hybrid
from vit_course.data import Dataset
from vit_course.experiments.experiment import SIZES, Experiment
from vit_course.experiments.records import read_record, record_path
from vit_course.machinery.device import get_device
from vit_course.machinery.paths import CHECKPOINTS, DATA
from vit_course.train import evaluate
from vit_course.vit import create_vit

QUEUE = DATA / "queue"
"""Checkpoints of runs that are not at their end, and the weights of those that keep some; not in git."""
RELEASED = {"cpu/marks/90-seed0": "cifar-vit", "gpu/marks/94-seed0": "cifar-vit"}
RELEASED |= {f"{size}/shapes/vit-seed0": "shapes-vit" for size in SIZES}
"""Which runs' weights come with the course, and the names that `load_trained` takes."""


def trained_names() -> list[str]:
    """Return the names of the trained models that are here."""
    return sorted(path.stem for path in CHECKPOINTS.glob("*.safetensors"))


def load_trained(name: str = "cifar-vit") -> tuple[nn.Module, dict[str, Any]]:
    """Build a trained model of the course and load its weights.

    Args:
        name: one of `trained_names()`; "cifar-vit-epoch0" is "cifar-vit" before its first step.

    Returns:
        model: in evaluation mode, on the CPU, float32.
        info: "model" (name for `build_model`), "options", "img_size", "classes" (names), "mean" and "std" (3 numbers
            each, for `normalize`), "num_heads", and what every record of a run has: "data", "test_accuracy" (a share in
            0..1), "parameters", "config", "machine"...

    Raises:
        FileNotFoundError: if there is no such model; the message says which there are.
        ValueError: if the file is damaged or no model of this course.
    """
    path = CHECKPOINTS / f"{name}.safetensors"
    if not path.exists():
        raise FileNotFoundError(
            f"no trained model {name!r} is here; there are: {', '.join(trained_names()) or 'none'}"
        )
    weights, info = read_weights(path)
    return build_trained(weights, info), info


def build_trained(weights: dict[str, Tensor], info: dict[str, Any]) -> nn.Module:
    """Build the model that `info` describes, with these weights, in evaluation mode."""
    create = create_hybrid if info["model"].startswith("R-") else create_vit
    channels, classes = len(info["mean"]), len(info["classes"])
    size = tuple(info["img_size"])
    model = create(info["model"], img_size=size, in_chans=channels, num_classes=classes, **info["options"])
    model.load_state_dict(weights)
    return model.eval()


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


def write_weights(path: Path, weights: dict[str, Tensor], about: dict[str, Any], half: bool = False) -> None:
    """Write weights, perhaps in half precision, and what is to be known of them into one file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in weights.items()}
    if half:
        tensors = {n: v.half() if v.is_floating_point() else v for n, v in tensors.items()}
    save_file(tensors, part, metadata={"about": json.dumps(about), "sha256": sum_of(tensors)})
    os.replace(part, path)


def sum_of(weights: dict[str, Tensor]) -> str:
    """Return the sum over names and values by which a flipped byte is noticed: SHA-256, in hexadecimal."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode() + weights[name].contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_weights` wrote: weights in float32, and what is to be known of them.

    Raises:
        ValueError: if the file is damaged or holds something else.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            about = json.loads(metadata["about"])
            # Copies, because a file that stays mapped into memory cannot be replaced on Windows.
            weights = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        if metadata.get("sha256") not in (None, sum_of(weights)):  # the first files had no sum
            raise ValueError("its sum is another one")
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged or no weights of this course: delete it, and get it anew"
        ) from error
    return {n: v.float() if v.dtype == torch.float16 else v for n, v in weights.items()}, about
