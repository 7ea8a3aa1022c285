"""Six small training runs, five of them with something wrong; students name it from the curves.

    python -m experiments broken-runs

trains them (two minutes on one CPU core) and writes `data/runs/broken.json`, unless it is there.
"""

import math
import platform

import torch
import torch.nn.functional as F
from torch import Tensor

from vit_classroom.evidence.records import read_record, write_record
from vit_course.augment import mixup
from vit_course.data import normalize, shapes10
from vit_course.training.paths import RUNS
from vit_course.training.version import code_version
from vit_course.vit import VisionTransformer

FILE = RUNS / "broken.json"
EPOCHS, STEPS_PER_EPOCH, BATCH = 10, 75, 64
FEW = 480
SMALL = {"embed_dim": 48, "depth": 2, "num_heads": 2, "global_pool": "avg"}
CLASSES = (3, 5, 6, 7)  # cross, heart, ring, square: enough for curves, and quick to learn
PLOTS = {
    "A": "sorted pictures",
    "B": "schedule too short",
    "C": "harder pictures",
    "D": "rate too high",
    "E": "few pictures",
    "F": "validation labels out of order",
}
"""What is special in the run of each plot; `run` does it."""


def shapes4() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return normalised pictures of 16x16 pixels and labels of four classes of Shapes-10: training, validation."""
    data = shapes10(train=12_000, test=1000, image_size=16)
    halves = []
    for images, labels in ((data.train_images, data.train_labels), (data.test_images, data.test_labels)):
        rows = torch.isin(labels, torch.tensor(CLASSES))
        new = torch.searchsorted(torch.tensor(CLASSES), labels[rows])
        halves.append((normalize(images[rows], *data.channel_stats()), new))
    (images, labels), validation = halves
    return (images[: STEPS_PER_EPOCH * BATCH], labels[: STEPS_PER_EPOCH * BATCH]), validation


def run(special: str) -> dict[str, list[float]]:
    """Train a small ViT; return the training loss of every second step and the validation loss of every epoch."""
    (images, labels), (new_images, new_labels) = shapes4()
    torch.manual_seed(0)
    model = VisionTransformer(16, 4, 3, len(CLASSES), **SMALL)
    peak = 0.3 if special == "rate too high" else 2e-3
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak)
    total = EPOCHS * STEPS_PER_EPOCH
    scheduled = total // 3 if special == "schedule too short" else total
    if special == "validation labels out of order":
        new_labels = new_labels[torch.randperm(len(new_labels))]
    losses, validation = [], []
    for step in range(total):
        number = step % STEPS_PER_EPOCH
        if number == 0:
            order = torch.randperm(len(images))
            if special == "sorted pictures":
                order = labels.argsort(stable=True)
            elif special == "few pictures":
                order = order[order < FEW].repeat(len(order) // FEW)
        rows = order[number * BATCH : (number + 1) * BATCH]
        x, y = images[rows], F.one_hot(labels[rows], len(CLASSES)).float()
        if special == "harder pictures":
            x, y = mixup(x, y, torch.rand(BATCH), torch.randperm(BATCH))
        falling = (1 + math.cos(math.pi * min(1, step / scheduled))) / 2
        optimizer.param_groups[0]["lr"] = peak * min(falling, (step + 1) / 20)
        loss = F.cross_entropy(model.train()(x), y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if number == STEPS_PER_EPOCH - 1:
            with torch.no_grad():
                validation.append(F.cross_entropy(model.eval()(new_images), new_labels).item())
    pairs = [(a + b) / 2 for a, b in zip(losses[::2], losses[1::2], strict=True)]
    losses = {"train": pairs, "validation": validation}
    return {name: [round(loss, 3) for loss in values] for name, values in losses.items()}


def read_curves() -> dict[str, int]:
    """Diagnose the runs A to F. Give every plot the number of one diagnosis. Each fits one plot at most.

    1. Nothing is wrong. The training images are harder than the validation images.
    2. The learning rate is far too high.
    3. The learning rate is zero long before the end, because the schedule was made for fewer steps.
    4. The weights start far too large, so the model is confidently wrong at step 0.
    5. The model memorises its few training images.
    6. The training images come sorted by class.
    7. The validation labels are in another order than the validation images.
    8. The model does not get the images. Every image is replaced by zeros.

    Returns:
        A dict from "A", "B", "C", "D", "E" and "F" to the number of the diagnosis.
    """
    return {"A": 6, "B": 3, "C": 1, "D": 2, "E": 5, "F": 7}


def load() -> dict:
    """Read the recorded runs: data, machine and, for each plot, losses by step and by epoch."""
    return read_record(FILE)


def record_all() -> None:
    """Train all six and write the file."""
    record = {
        "data": "four classes of Shapes-10, 16x16 pixels",
        "machine": f"cpu ({platform.machine()})",
        "torch": torch.__version__,
        "code": code_version(),
        "steps_per_epoch": STEPS_PER_EPOCH,
        "classes": len(CLASSES),
        "runs": {plot: run(special) for plot, special in PLOTS.items()},
    }
    write_record(FILE, record)
