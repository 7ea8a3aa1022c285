"""Trained models of this course in files, to be used: weights, what made them, and what they say of a picture.

`python -m vit_course train --out RUN` writes one, and some come with the course. `load_trained` reads both; lessons
09, 15 and 17 use it, and `docs/use.md` shows it.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from vit_course.data import Dataset, load_picture, normalize
from vit_course.extensions.public_vit import build_planned
from vit_course.recipes import build_model
from vit_course.training.paths import CHECKPOINTS

MODEL, CONFIG = "model.safetensors", "config.json"
"""What a run leaves in its folder: the weights, and what is to be known of them, for people and other programs."""


class Trained(NamedTuple):
    """A trained model and its record.

    Attributes:
        model: in evaluation mode, on the CPU, float32; maps normalised pictures to logits.
        info: how to build the model ("model" and "options", or "plan"), "img_size", "classes" (names), "mean" and "std"
            (one number a channel, for `normalize`), and what every record of a run has: "data", "test_accuracy" (a
            share in 0..1), "parameters", "config", "machine"...
    """

    model: nn.Module
    info: dict[str, Any]

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the scores."""
        return tuple(self.info["classes"])

    @property
    def img_size(self) -> tuple[int, int]:
        """Height and width in pixels of the pictures that it reads."""
        return tuple(self.info["img_size"])

    @torch.no_grad()
    def predict(self, pictures: Tensor | str | Path | Sequence[str | Path]) -> Tensor:
        """Say how much of each class the model sees in pictures.

        Args:
            pictures: a file, several, or uint8 (N, C, H, W) in 0..255 of the size that it reads. A file is cut around
                its centre to the shape that the model reads and resized, as `load_dataset` does.

        Returns:
            (N, K) shares, in the order of `classes`; a row sums to 1. They rank the classes. How often a share of .9 is
            right has to be counted on pictures of one's own.

        Raises:
            ValueError: if a file cannot be read, or pictures are not uint8 or of another shape.
        """
        if not isinstance(pictures, Tensor):
            paths = [pictures] if isinstance(pictures, str | Path) else pictures
            pictures = torch.stack([load_picture(path, self.img_size) for path in paths])
            if len(self.info["mean"]) == 1:  # it has learned from grey ones
                pictures = (pictures.float().mean(dim=1, keepdim=True)).round().byte()
        shape = (len(self.info["mean"]), *self.img_size)
        if pictures.dtype != torch.uint8 or tuple(pictures.shape[1:]) != shape:
            found = f"{pictures.dtype} {tuple(pictures.shape)}"
            raise ValueError(f"pictures are {found}: give uint8 in 0..255, N of {shape}")
        stats, device = (self.info["mean"], self.info["std"]), next(self.model.parameters()).device
        logits = [self.model(normalize(part.to(device), *stats)) for part in pictures.split(100)]
        return torch.cat(logits).softmax(dim=1).cpu()


def trained_names() -> list[str]:
    """Return the names of the trained models that are here."""
    return sorted(path.stem for path in CHECKPOINTS.glob("*.safetensors"))


def weights_file(source: str | Path) -> Path:
    """Return the file that a name, a folder of a run or a path stands for."""
    path = Path(source)
    if path.is_dir():
        return path / MODEL
    return path if path.suffix or path.exists() else CHECKPOINTS / f"{source}.safetensors"


def is_ours(source: str | Path) -> bool:
    """Tell whether a name, a folder or a file is a trained model of this course."""
    try:
        with safe_open(weights_file(source), framework="pt") as file:
            return "about" in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def load_trained(source: str | Path = "cifar-vit") -> Trained:
    """Load a trained model of the course.

    Args:
        source: the folder of a run, its `model.safetensors`, or one of `trained_names()`; "cifar-vit-epoch0" is
            "cifar-vit" before its first step. In the folder of a run `config.json` counts, so that names of classes can
            be changed there.

    Returns:
        The model and its record, also to be taken apart: `model, info = load_trained("cifar-vit")`.

    Raises:
        FileNotFoundError: if there is no such model; the message says which there are.
        ValueError: if the file is damaged or no model of this course.
    """
    path = weights_file(source)
    if not path.exists():
        there = f"there are: {', '.join(trained_names()) or 'none'}, and the folders of runs that have ended"
        raise FileNotFoundError(f"no trained model {str(source)!r} is here; {there}")
    weights, info = read_weights(path)
    config = path.with_name(CONFIG)
    told = config.read_text(encoding="utf-8") if path.name == MODEL and config.exists() else json.dumps(info)
    try:
        info = json.loads(told)
        return Trained(build_trained(weights, info), info)
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{config} does not describe the weights beside it: {error}") from error


def build_trained(weights: dict[str, Tensor], info: dict[str, Any]) -> nn.Module:
    """Build the model that `info` describes, with these weights, in evaluation mode."""
    if "plan" in info:
        model = build_planned(info["plan"], len(info["classes"]))
    else:
        picture = torch.zeros(1, len(info["mean"]), *info["img_size"], dtype=torch.uint8)
        one = picture, torch.zeros(1, dtype=torch.int64)
        options = {name: value for name, value in info["options"].items() if name != "first_values"}
        model = build_model(info["model"], Dataset(*one, *one, tuple(info["classes"]), ""), **options)
    model.load_state_dict(weights)
    return model.eval()


def write_trained(folder: Path, model: nn.Module, info: dict[str, Any]) -> None:
    """Write a trained model and its record into the folder of its run, so that `load_trained` can read it."""
    write_weights(folder / MODEL, model.state_dict(), info)
    (folder / CONFIG).write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")


def write_weights(path: Path, weights: dict[str, Tensor], about: dict[str, Any], half: bool = False) -> None:
    """Write weights, perhaps in half precision, and what is to be known of them into one file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in weights.items()}
    if half:
        tensors = {n: v.half() if v.is_floating_point() else v for n, v in tensors.items()}
    save_file(tensors, part, metadata={"about": json.dumps(about), "sha256": sum_of(tensors)})
    part.chmod(0o644)  # whoever may read the folder may use the model
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
        raise ValueError(f"{path} is damaged or no weights of this course: delete it, get it anew") from error
    return {n: v.float() if v.dtype == torch.float16 else v for n, v in weights.items()}, about
