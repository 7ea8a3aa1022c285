"""The experiments of lessons 07 to 13 in two regimes, each chosen by what a study has to show.

*All pictures* (50,000, twenty epochs): what a model can learn, positions, the comparison with a ResNet. *Few pictures,
many epochs* (5,000, eighty epochs): learning by heart, and what helps against it. Every seed draws other pictures
where not all are used. `experiments` runs and records them.
"""

from collections.abc import Iterator
from dataclasses import replace

from vit_course.recipes import RECIPES
from vit_course.studies import LADDER, Experiment
from vit_course.train import TrainConfig

HEADLINE = {"embed_dim": 128, "depth": 6, "num_heads": 4}
"""The model of the headline: 1.2 million parameters with patches of 4."""
SMALLER = {"embed_dim": 48}
"""The second size of `fractions`: Nano at half the width."""
FEW = {"epochs": 80, "batch_size": 64, "quiet": True}
ALL = {"epochs": 20, "batch_size": 128, "quiet": True}


def plan(size: str) -> list[Experiment]:
    """List the experiments of one size, in the order of their worth."""
    if size == "gpu":
        return []
    studies = (search, headline, ladder, engine, comparison, fractions)
    return [run for study in studies for run in study()]


def seeded(count: int, group: str, name: str, model: str, config: TrainConfig, **more) -> list[Experiment]:
    """Return one experiment for each of `count` seeds."""
    return [
        Experiment(group, name, "cpu", model, replace(config, seed=seed), draw=True, folder=True, **more)
        for seed in range(count)
    ]


def search() -> Iterator[Experiment]:
    """README: which optimiser and rate for the headline, six epochs each, scored on 5,000 held-out pictures."""
    base = replace(RECIPES["smoothing"], **{**ALL, "epochs": 6}, validation=5_000)
    for optimizer, rate in (("adamw", 1.5e-3), ("muon", 3e-3), ("adamw", 3e-3)):
        config = replace(base, optimizer=optimizer, lr=rate)
        yield from seeded(1, "search", f"{optimizer}-{rate:g}", "Nano/4", config, options=HEADLINE)


def headline() -> Iterator[Experiment]:
    """README: a plain ViT trained long, with the optimiser and rate that `search` found.

    The search's runs learn the training pictures no better than new ones, so there is room for stronger augmentation.
    """
    config = replace(
        RECIPES["rand-augment"], **{**ALL, "epochs": 90}, optimizer="muon", lr=3e-3, warmup_epochs=2.0
    )
    config = replace(config, validation=1_000)
    yield from seeded(
        1, "headline", "vit", "Nano/4", config, options=HEADLINE, snapshots=(0, 45), probes=True
    )


def ladder() -> Iterator[Experiment]:
    """Lesson 07: each rung adds to the one before, with few pictures; the first and the best rung with all."""
    for rung in LADDER:
        yield from seeded(3, "ladder", rung, "Nano/8", replace(RECIPES[rung], **FEW), pictures=5_000)
    for rung in ("plain", "adamw"):
        yield from seeded(1, "ladder", f"{rung}-all", "Nano/8", replace(RECIPES[rung], **ALL))


def engine() -> Iterator[Experiment]:
    """Lesson 07: a rung of the ladder once more in float32, whatever is faster."""
    config = replace(RECIPES["adamw"], **FEW, precision="float32")
    yield from seeded(3, "engine", "float32", "Nano/8", config, pictures=5_000)


def comparison() -> Iterator[Experiment]:
    """Lesson 08: ViT, ResNet and linear classifier on all pictures.

    The ResNet has twice the operations of the ViT and half its speed on a CPU, so half the epochs are equally many
    operations and equally many minutes.
    """
    yield from seeded(3, "comparison", "vit", "Nano/8", vit_recipe(), probes=True)
    yield from seeded(3, "comparison", "resnet", "resnet-small", resnet_recipe(), probes=True)
    yield from seeded(3, "comparison", "linear", "linear", linear_recipe(), probes=True)


def fractions() -> Iterator[Experiment]:
    """Lesson 08: how much data each model needs, in equally many steps; the ViT in two sizes."""
    for share in (0.01, 0.1, 0.3, 1.0):
        for name, model, recipe, options in (
            ("vit", "Nano/8", vit_recipe(), {}),
            ("small-vit", "Nano/8", vit_recipe(), SMALLER),
            ("resnet", "resnet-small", resnet_recipe(), {}),
            ("linear", "linear", linear_recipe(), {}),
        ):
            if share == 0.3 and name != "vit":
                continue
            config = equal_steps(replace(recipe, epochs=recipe.epochs // 2), share)
            label = f"{name}-{round(100 * share)}"
            yield from seeded(3, "fractions", label, model, config, fraction=share, options=options)


def vit_recipe() -> TrainConfig:
    """Return the ViT's recipe for all pictures."""
    return replace(RECIPES["adamw"], **ALL, lr=2e-3)


def resnet_recipe() -> TrainConfig:
    """Return the ResNet's recipe for all pictures: half the epochs."""
    return replace(RECIPES["resnet"], **{**ALL, "epochs": 10}, lr=0.2)


def linear_recipe() -> TrainConfig:
    """Return the linear classifier's recipe: as stored, since mirrored and shifted pictures only blur its templates."""
    return replace(RECIPES["adamw"], **{**ALL, "epochs": 10}, augment=RECIPES["plain"].augment)


def equal_steps(config: TrainConfig, share: float) -> TrainConfig:
    """Change epochs, and the batch if it must be, so that a share of the pictures is shown for as many steps."""
    count = round(50_000 * share)
    batch = min(config.batch_size, count)
    epochs = round(config.epochs * (50_000 // config.batch_size) / (count // batch))
    return replace(config, epochs=epochs, batch_size=batch)
