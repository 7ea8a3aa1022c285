"""What a student's own model reaches on real pictures: the small ViT and the loop of lesson 06, finished.

    python -m experiments mini-vit --data DATA

trains it on all pictures (some minutes of one CPU core) and writes `data/runs/mini-vit/recorded.json`, unless it is
there. It may be stopped at any time, and goes on where it was.
"""

import platform
from typing import Any

import torch

from vit_classroom.evidence.records import read_record, write_record
from vit_classroom.exhibits.mini_vit import MiniViT, accuracy, train_one_epoch
from vit_classroom.student_model import description, train_by_recipe
from vit_course.data import Dataset
from vit_course.training.device import get_device
from vit_course.training.paths import RUNS
from vit_course.training.version import code_version

FILE = RUNS / "mini-vit" / "recorded.json"
EPOCHS = 8
RECIPE = "minutes"


def recorded_run() -> dict[str, Any] | None:
    """Return the record of the run, or None if there is none."""
    return read_record(FILE) if FILE.exists() else None


def record(dataset: Dataset, epochs: int = EPOCHS) -> None:
    """Train, and record the run if it came to its end."""
    torch.manual_seed(0)
    model = MiniViT(num_classes=len(dataset.classes))
    log = train_by_recipe(model, train_one_epoch, accuracy, dataset, epochs, RECIPE)
    if len(log) < epochs:
        return
    made = {
        "model": description(model)["model"],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "data": dataset.provenance,
        "machine": f"{get_device()} ({platform.machine()})",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "code": code_version(),
        "log": log,
    }
    write_record(FILE, made)
