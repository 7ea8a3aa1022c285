"""What does a training step of each family of lesson 08 cost one core? Budgets are divided by these milliseconds.

All widths, with all positions and with half, take turns in one process and one thread, in bfloat16 or float32,
whichever is faster here, with channels last where there are feature maps; processor time, the best of all rounds,
those included that the file already has of this processor.

python -m experiments.benchmarks.step_times --rounds 9
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.search import BATCH, FAMILIES, HALF, STEP_TIMES, WIDTHS, base_config
from vit_course.augment import augment
from vit_course.data import shapes10
from vit_course.extensions.speedups import fewer_tokens
from vit_course.optim import make_optimizers
from vit_course.recipes import build_model
from vit_course.training.engine import FAST, REFERENCE, Engine
from vit_course.training.processor import describe_processor, same_kind

OPTIMIZERS = ("sgd", "adamw", "muon")
RATES = ("bfloat16_gflops", "float32_gflops")


def forward_and_backward(model: nn.Module, batch: Callable[[], tuple], engine: Engine, half: dict) -> None:
    """Augment a batch, and compute the gradients of a model, with a share of its tokens where `half` says so."""
    images, targets = batch()
    with (
        engine.computing(images.device),
        fewer_tokens(model, half.get("keep_tokens", 1.0), half.get("keep_by", "batch")),
    ):
        loss = F.cross_entropy(model(images).float(), targets, label_smoothing=0.1)
    model.zero_grad()
    loss.backward()


def update(model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> None:
    """Clip the gradients that are there, and change the weights."""
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()


def jobs(family: str, width: int, engine: Engine, batch: Callable[[], tuple[Tensor, Tensor]]) -> dict:
    """Return what is timed of one model, by name: the passes, and the updates of each optimiser."""
    dataset = SimpleNamespace(classes=range(10), train_images=torch.zeros(1, 3, 32, 32))
    name, options = FAMILIES[family]
    model = build_model(name, dataset, **options(width)).train()
    engine.arrange(model)
    dtype = torch.bfloat16 if engine.precision == "bfloat16" else torch.float32
    found = {
        "all": partial(forward_and_backward, model, batch, engine, {}),
        "half": partial(forward_and_backward, model, batch, engine, HALF[family]),
    }
    for name in OPTIMIZERS:
        made = make_optimizers(model, name, 1e-6, 0.0, fused=engine.fused_optimizer, dtype=dtype)
        found[name] = partial(update, model, made)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    processor = describe_processor()
    fast = processor["bfloat16_gflops"] > processor["float32_gflops"]
    precision = FAST if fast else REFERENCE
    engine = Engine(precision.precision, precision.attention, precision.fused_optimizer, True)
    pictures = shapes10(train=BATCH, test=10)
    config, stats = base_config().augment, pictures.channel_stats()
    batch = partial(augment, pictures.train_images, pictures.train_labels, stats, 10, config)
    timed = {
        (family, width, name): job
        for family in FAMILIES
        for width in WIDTHS
        for name, job in jobs(family, width, engine, batch).items()
    }
    best, rounds = dict.fromkeys(timed, float("inf")), 0
    before = json.loads(STEP_TIMES.read_text(encoding="utf-8")) if STEP_TIMES.exists() else {}
    if before and same_kind(before["processor"], processor):
        best = {key: before["milliseconds"][key[0]][str(key[1])][key[2]] / 1000 for key in timed}
        rounds = before["rounds"]
        rates = {name: max(processor[name], before["processor"][name]) for name in RATES}
        processor |= rates
    for number in range(options.rounds):
        for key, job in timed.items():
            start = time.process_time()
            job()
            best[key] = min(best[key], time.process_time() - start)
        print(f"round {number + 1} of {options.rounds}", flush=True)
        table: dict[str, dict[str, dict[str, float]]] = {}
        for (family, width, name), seconds in best.items():
            table.setdefault(family, {}).setdefault(str(width), {})[name] = round(1000 * seconds, 2)
        content = {"processor": processor, "torch": torch.__version__, "precision": engine.precision}
        content |= {"batch": BATCH, "rounds": rounds + number + 1, "milliseconds": table}
        STEP_TIMES.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
