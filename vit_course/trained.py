"""Small trained models that come with the course: weights in half precision, and what made them.

`load_trained("cifar-vit")` gives the model and its record. Lessons 09 to 12 look at them; `keep_trained` writes them.
"""

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from vit_course.data import Dataset
from vit_course.hybrid import create_hybrid
from vit_course.train import History
from vit_course.vit import create_vit

CHECKPOINTS = Path(__file__).parents[1] / "data" / "checkpoints"


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
            each, for `normalize`), "data", "test_accuracy" (a share in 0..1), "config", "machine" and "seconds".

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
    name: str,
    model: nn.Module,
    dataset: Dataset,
    history: History,
    model_name: str,
    options: dict,
    **more: Any,
) -> Path:
    """Write a trained model into the course, weights in half precision, with all that `load_trained` tells of it."""
    mean, std = (values.tolist() for values in dataset.channel_stats())
    info = {"model": model_name, "options": options, "img_size": list(dataset.train_images.shape[-2:])}
    info |= {"classes": list(dataset.classes), "mean": mean, "std": std, "data": history.provenance}
    info |= {"test_accuracy": history.test_accuracy, "seconds": history.seconds, "config": history.config}
    path = CHECKPOINTS / f"{name}.safetensors"
    write_weights(path, {n: v.half() for n, v in model.state_dict().items()}, {**info, **more})
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
