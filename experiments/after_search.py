"""What follows from the search of lesson 08: fractions, the hybrid, no positions, transfer, the size of Muon.

Every list is empty until the records say which setting was chosen for the ViT, the ResNet or the hybrid at eight
core-minutes. `search` has the settings and the budgets.
"""

from collections.abc import Iterator
from dataclasses import replace

from experiments.search import (
    FAMILIES,
    RATES,
    Setting,
    chosen,
    compared,
    experiment,
    recipe,
    scores,
    search_trials,
    width_trials,
)
from vit_classroom.evidence.experiment import ALL_PICTURES, Experiment, Pretraining
from vit_course.train import TrainConfig

FEW_PICTURES = 5_000
TUNING = {"optimizer": "adamw", "lr": 1e-3, "schedule": "cosine", "half": False}
"""How lesson 12 tunes: gently, as its section on rates by layer supposes, and with all tokens."""


def hybrid_trials(scale) -> Iterator[Experiment]:
    """Lesson 11: the hybrid's own search, as long as that of the others, and its trials of the width."""
    yield from search_trials("hybrid")
    for name, setting in width_trials("hybrid", "8").items():
        yield experiment("comparison-8", name, "hybrid", setting, 8, held_out=5_000)


def fractions_at_8(scale) -> Iterator[Experiment]:
    """Lessons 08 and 11: 1, 10 and 100 percent of the pictures, in as many steps, for the three families.

    "longer" has twice the budget: does it help the ViT and the ResNet with few pictures, and the ViT with all?
    """
    for family in FAMILIES:
        if not (setting := chosen(family)):
            continue
        for share in (0.01, 0.1, 1.0):
            for seed in range(3):
                name = f"{family}-{round(100 * share)}"
                yield experiment("fractions-8", name, family, setting, 8, share, seed=seed)
        for share in {"vit": (0.1, 1.0), "resnet": (0.1,), "hybrid": ()}[family]:
            name = f"{family}-{round(100 * share)}-longer"
            yield experiment("fractions-8", name, family, setting, 16, share)


def no_positions(scale) -> Iterator[Experiment]:
    """Lesson 08: the ViT without positions, on pictures that are moved: on all pictures for eight minutes, and drawn.

    On Shapes-10 the ViT with positions is there as well, for two minutes each.
    """
    if not (setting := chosen("vit")):
        return
    for seed in range(3):
        more = {"seed": seed, "probes": True}
        yield experiment("no-positions", "none", "vit", setting, 8, options={"pos_embed": "none"}, **more)
        for kind in ("none", "learned"):
            drawn = experiment("no-positions", f"drawn-{kind}", "vit", setting, 2, **more)
            config = replace(recipe("vit", setting, 2, 8_000), seed=seed)
            options = {**drawn.options, "pos_embed": kind}
            yield replace(drawn, config=config, options=options, shapes=True, pictures=8_000)


def muon_size(scale) -> Iterator[Experiment]:
    """Lesson 07: AdamW and Muon, each at its best rate of the search, at one, two and four times eight minutes."""
    setting, known = chosen("vit"), scores("search-vit")
    if not setting:
        return
    for times in (1, 2, 4):
        for optimizer, rates in {name: RATES[name] for name in ("adamw", "muon")}.items():
            best = max(rates, key=lambda lr, name=optimizer: known[f"{name}-{lr:g}"])
            changed = replace(setting, optimizer=optimizer, lr=best)
            yield experiment("muon-size", f"{optimizer}-{times}", "vit", changed, 8 * times)


def transfer_at_8(scale) -> Iterator[Experiment]:
    """Lesson 12: bodies that learned nine classes for six minutes, tuned for two with 1 and 10 percent of the labels.

    The nine classes are learned from pictures outside the experiment's own. The control learns from the same number of
    labels alone for all eight minutes: "vit-1" and "vit-10" of `fractions-8`.
    """
    if not (setting := chosen("vit")):
        return
    left = (ALL_PICTURES - FEW_PICTURES) * 9 // 10
    nine = Pretraining("nine-classes-8", "nine classes", "labels", recipe("vit", setting, 6, left))
    for percent in (1, 10):
        count = ALL_PICTURES * percent // 100
        run = tuning(setting, 2, count)
        for kind, trainable in (("classes", ()), ("probe", ("head",))):
            for seed in range(3):
                more = {"start": nine, "trainable": trainable, "pictures": FEW_PICTURES}
                yield vit_run(
                    "transfer-8", f"{kind}-{percent}", setting, run, seed, count / FEW_PICTURES, **more
                )


def resolution_at_8(scale) -> Iterator[Experiment]:
    """Lesson 12: a ViT of 5,000 pictures at 32 pixels goes on at 48, or at 32, for a fifth of its steps."""
    if not (setting := chosen("vit")):
        return
    start = Pretraining("same-pictures-8", "same", "labels", recipe("vit", setting, 6, FEW_PICTURES))
    short = replace(tuning(setting, 1.2, FEW_PICTURES), lr=2.5e-4)
    for name, run, more in (
        ("interpolated", short, {"start": start, "img_size": 48}),
        ("random-positions", short, {"start": start, "img_size": 48, "new_positions": True}),
        ("same-size", short, {"start": start}),
    ):
        for seed in range(3):
            more |= {"keep_head": True, "pictures": FEW_PICTURES}
            yield vit_run("resolution-8", name, setting, run, seed, **more)


def tuning(setting: Setting, minutes: float, pictures: int) -> TrainConfig:
    """Return the recipe of a fine-tuning of the chosen ViT."""
    return recipe("vit", replace(setting, **TUNING), minutes, pictures)


def vit_run(
    group: str, name: str, setting: Setting, config: TrainConfig, seed: int, fraction: float = 1.0, **more
) -> Experiment:
    """Describe a run of the chosen ViT with a recipe of its own."""
    model, shape = FAMILIES["vit"]
    more |= {"fraction": fraction, "options": shape(setting.width)}
    return Experiment(group, name, "cpu", model, replace(config, seed=seed), **more)


def in_order(scale) -> Iterator[Experiment]:
    """List all experiments of the comparison, and what follows, in the order of their worth."""
    yield from search_trials("vit")
    yield from search_trials("resnet")
    yield from compared("8")
    yield from hybrid_trials(scale)
    yield from fractions_at_8(scale)
    yield from no_positions(scale)
    yield from transfer_at_8(scale)
    yield from resolution_at_8(scale)
    yield from compared("2")
    yield from compared("24")
    yield from muon_size(scale)
