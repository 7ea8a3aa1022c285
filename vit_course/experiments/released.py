"""Small trained models that come with the course: weights in half precision, and what made them.

    python -m vit_course weights --size cpu --data data/cifar10-jpeg

trains those that are not here yet. `load_trained("cifar-vit")` gives a model and its record; lessons 09 to 12 look
at them.
"""

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from vit_course.beyond.hybrid import create_hybrid
from vit_course.data import Dataset, load_dataset, shapes10
from vit_course.machinery.device import get_device
from vit_course.machinery.paths import CHECKPOINTS
from vit_course.recipes import RECIPES, build_model, run_record
from vit_course.train import History, TrainConfig, train
from vit_course.vit import create_vit


@dataclass(frozen=True)
class Training:
    """How a trained model of the course is made: on CIFAR-10, or else on Shapes-10.

    Attributes:
        name: name for `load_trained`.
        model: name for `build_model`.
        options: further arguments of the model.
        config: the recipe in full.
        pictures: training pictures; None for all.
    """

    name: str
    model: str
    options: dict[str, Any]
    config: TrainConfig
    pictures: int | None = None


def trainings(size: str) -> list[Training]:
    """List the models that come with the course, as a CPU or a GPU makes them."""
    if size == "gpu":
        common = {"batch_size": 512, "augment_ahead": 8, "compile": True}
        mixed, smoothing = (replace(RECIPES[name], **common) for name in ("mixed", "smoothing"))
        return [
            Training(
                "cifar-vit", "Ti/4", {"drop_path_rate": 0.1}, replace(mixed, epochs=200, warmup_epochs=5)
            ),
            Training("shapes-vit", "Ti/4", {}, replace(smoothing, epochs=20), 50_000),
        ]
    config = replace(RECIPES["smoothing"], batch_size=64)
    deeper = {"depth": 6}
    return [
        Training("shapes-vit", "Nano/4", deeper, replace(config, epochs=8), 8_000),
        Training("cifar-vit", "Nano/4", deeper, replace(config, epochs=5), 30_000),
    ]


def trained_names() -> list[str]:
    """Return the names of the trained models that are here."""
    return sorted(path.stem for path in CHECKPOINTS.glob("*.safetensors"))


def load_trained(name: str = "cifar-vit") -> tuple[nn.Module, dict[str, Any]]:
    """Build a trained model of the course and load its weights.

    Args:
        name: one of `trained_names()`.

    Returns:
        model: in evaluation mode, on the CPU, float32.
        info: "model" (name for `build_model`), "options", "img_size", "classes" (names), "mean" and "std" (3 numbers
            each, for `normalize`), and what every record of a run has: "data", "test_accuracy" (a share in 0..1),
            "parameters", "config", "machine", "seconds"...

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
    create = create_hybrid if info["model"].startswith("R-") else create_vit
    channels, classes = len(info["mean"]), len(info["classes"])
    model = create(
        info["model"],
        img_size=tuple(info["img_size"]),
        in_chans=channels,
        num_classes=classes,
        **info["options"],
    )
    model.load_state_dict(weights)
    return model.eval(), info


def keep_trained(
    name: str, model: nn.Module, dataset: Dataset, history: History, model_name: str, options: dict
) -> Path:
    """Write a trained model into the course, weights in half precision, with all that `load_trained` tells of it."""
    mean, std = (values.tolist() for values in dataset.channel_stats())
    info = {"options": options, "img_size": list(dataset.train_images.shape[-2:]), "mean": mean, "std": std}
    info |= {"classes": list(dataset.classes), **run_record(name, model_name, model, dataset, history)}
    path = CHECKPOINTS / f"{name}.safetensors"
    write_weights(path, {key: value.half() for key, value in model.state_dict().items()}, info)
    return path


def write_weights(path: Path, weights: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write weights and what is to be known of them into one file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in weights.items()}
    save_file(tensors, part, metadata={"about": json.dumps(about)})
    os.replace(part, path)


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_weights` wrote: weights in float32, and what is to be known of them.

    Raises:
        ValueError: if the file is damaged or holds something else.
    """
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["about"])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError) as error:
        raise ValueError(
            f"{path} is damaged or no weights of this course: delete it, and get it anew"
        ) from error
    return {n: v.float() if v.dtype == torch.float16 else v for n, v in weights.items()}, about


def main(arguments: Sequence[str] | None = None) -> int:
    """Train the models of the course that are not here yet."""
    parser = argparse.ArgumentParser(prog="python -m vit_course weights", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="cifar-vit, shapes-vit; without, both")
    parser.add_argument(
        "--size", choices=("cpu", "gpu"), default="gpu" if get_device().type == "cuda" else "cpu"
    )
    parser.add_argument("--data", default="auto", help="where CIFAR-10 is: auto, cifar10 or a folder")
    asked = parser.parse_args(arguments)
    for made in trainings(asked.size):
        if made.name in trained_names() or (asked.names and made.name not in asked.names):
            continue
        shapes = made.name.startswith("shapes")
        dataset = shapes10(train=made.pictures, test=2000) if shapes else load_dataset(asked.data)
        if made.pictures:
            dataset = dataset.subset(made.pictures)
        torch.manual_seed(made.config.seed)
        model = build_model(made.model, dataset, **made.options)
        history = train(model, dataset, made.config)
        path = keep_trained(made.name, model, dataset, history, made.model, made.options)
        print("wrote", path.name)
    return 0
