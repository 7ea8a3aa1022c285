"""The first studies: what the records beside the folders of `data/runs/` are of, until new ones take their place.

10,000 pictures, the same for every seed, ten epochs, float32, batches of 64. Nothing runs them any more: a study is
deleted here, with its records, when `studies` has one that shows more.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from vit_course.experiments.experiment import Experiment, Pretraining
from vit_course.recipes import RECIPES
from vit_course.train import TrainConfig

FRACTIONS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
LABELS = (0.01, 0.1, 1.0)
PICTURES = 10_000


def first_recipe(name: str, epochs: int = 10, **changes: Any) -> TrainConfig:
    """Return a recipe as the first studies used it."""
    common = {"epochs": epochs, "batch_size": 64, "quiet": True, "precision": "float32"}
    return replace(RECIPES[name], **common, **changes)


BASE = first_recipe("smoothing")
RESNET = first_recipe("resnet", lr=0.4)


def first_studies() -> dict[str, Experiment]:
    """Describe the run of each record, by the name of its file without the ending."""
    studies = (baseline, fractions, hybrid, resolution, masked)
    return {run.stem.replace("/", "-"): run for study in studies for run in study()}


def seeded(count: int, group: str, name: str, model: str, config: TrainConfig, **more) -> list[Experiment]:
    """Return one experiment for each of `count` seeds."""
    return [
        Experiment(group, name, "cpu", model, replace(config, seed=seed), PICTURES, **more)
        for seed in range(count)
    ]


def equal_steps(config: TrainConfig, fraction: float) -> TrainConfig:
    """Change epochs so that a fraction of the pictures is shown for as many steps."""
    steps = PICTURES // config.batch_size
    return replace(config, epochs=round(10 * steps / (round(PICTURES * fraction) // config.batch_size)))


def fractions() -> Iterator[Experiment]:
    """Lesson 08."""
    for share in FRACTIONS:
        for name, model, config in (("vit", "Nano/8", BASE), ("resnet", "resnet-small", RESNET)):
            label = f"{name}-{round(100 * share)}"
            yield from seeded(3, "fractions", label, model, equal_steps(config, share), fraction=share)


def hybrid() -> Iterator[Experiment]:
    """Lesson 11; "hybrid3" lengthens stage 3."""
    runs = [("hybrid", "R-Nano/8", share) for share in FRACTIONS]
    for name, model, share in (*runs, ("hybrid3", "R-Nano/4", 1.0)):
        more = {"fraction": share, "options": {"width": 8}}
        yield from seeded(
            3, "hybrid", f"{name}-{round(100 * share)}", model, equal_steps(BASE, share), **more
        )


def baseline() -> Iterator[Experiment]:
    """Lessons 11 to 13: the line for the first studies."""
    linear = first_recipe("adamw", epochs=5, augment=RECIPES["plain"].augment)
    yield from seeded(3, "baseline", "linear-100", "linear", linear)


def resolution() -> Iterator[Experiment]:
    """Lesson 12."""
    start = Pretraining("same-pictures", "same", "labels", BASE)
    config = replace(BASE, epochs=2, lr=BASE.lr / 4)
    for name, more in (
        ("interpolated", {"img_size": 48}),
        ("random-positions", {"img_size": 48, "new_positions": True}),
        ("same-size", {}),
    ):
        yield from seeded(3, "resolution", name, "Nano/8", config, start=start, keep_head=True, **more)


def masked() -> Iterator[Experiment]:
    """Lesson 13."""
    for task in ("colours", "pixels"):
        start = Pretraining(f"masked-{task}", "same", task, replace(BASE, epochs=20, label_smoothing=0.0))
        for share in LABELS:
            more = {"fraction": share, "start": start}
            label, config = f"{task}-{round(100 * share)}", equal_steps(BASE, share)
            yield from seeded(3, "masked", label, "Nano/8", config, **more)
