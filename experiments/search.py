"""One search for every family of lesson 08: the list of its trials, and the rule that reads what was chosen.

Family by family the same list, coordinate by coordinate: optimiser with three rates each, two more widths, the other
schedule, half of the positions in the first part of the run. Every coordinate starts from the best trial so far. A
trial costs eight minutes of one core, has one seed, and is scored on 5,000 held-out training pictures. The families
begin with the same recipe. Only the ViT's patches of 4x4 pixels, its six blocks and its average come from older trials.

A budget is a number of steps: so many as one core does in the minutes, by the times in `data/runs/step_times.json`,
which `experiments/benchmarks/step_times.py` took of all families in turn. On any other processor it is as many steps.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from vit_classroom.evidence.experiment import ALL_PICTURES, Experiment
from vit_classroom.evidence.records import load_records
from vit_course.recipes import AVERAGED, FLIP_CROP, RECIPES
from vit_course.train import TrainConfig
from vit_course.training.paths import RUNS

STEP_TIMES = RUNS / "step_times.json"
HELD_OUT = 5_000
BATCH = 128
WIDTHS = (32, 64, 96, 128, 192)
"""Widths of the ViT. The ResNet of the same size has half as many channels in its first stage: both families have
about 78,000, 300,000, 680,000, 1.2 and 2.7 million parameters. The hybrid is the ViT on a ResNet of an eighth."""
FIRST_WIDTH = 64
RATES = {"sgd": (0.03, 0.1, 0.3), "adamw": (1e-3, 3e-3, 9e-3), "muon": (1e-3, 3e-3, 9e-3)}
DECAY = {"sgd": 5e-4, "adamw": 0.05, "muon": 0.05}
FAMILIES = {
    "vit": (
        "Nano/4",
        lambda width: {"embed_dim": width, "depth": 6, "num_heads": width // 32, **AVERAGED},
    ),
    "resnet": ("resnet-small", lambda width: {"width": width // 2}),
    "hybrid": (
        "R-Nano/4",
        lambda width: {
            "width": width // 8,
            **{"embed_dim": width, "depth": 6, "num_heads": width // 32, **AVERAGED},
        },
    ),
}
"""Name for `build_model`, and its options by width."""
EARLY = 0.7
HALF = {
    "vit": {"keep_tokens": 0.5},
    "resnet": {"keep_tokens": 0.5, "keep_by": "size"},
    "hybrid": {"keep_tokens": 0.5},
}
"""Half of the positions in a family's own way: the ViT leaves out tokens, the ResNet reads smaller pictures."""
FLOOR = replace(RECIPES["adamw"], epochs=10, augment=RECIPES["plain"].augment, quiet=True)
"""The linear classifier's recipe: pictures as stored, since mirrored and shifted ones only blur its templates."""
BUDGETS = {"2": -1, "8": 0, "24": 1}
"""Core-minutes, and how many widths further the middle one of its three trials lies than the width of the search
(2 and 24: than the width of 8)."""


@dataclass(frozen=True)
class Setting:
    """What the search chooses.

    Attributes:
        optimizer: "sgd", "adamw" or "muon".
        lr: peak learning rate.
        width: one of `WIDTHS`.
        schedule: "cosine" or "linear".
        half: whether the first part of the run computes half of the positions.
    """

    optimizer: str
    lr: float
    width: int = FIRST_WIDTH
    schedule: str = "cosine"
    half: bool = False


def base_config() -> TrainConfig:
    """Return what all trials of all families share."""
    return TrainConfig(batch_size=BATCH, augment=FLIP_CROP, label_smoothing=0.1, grad_clip=1.0, quiet=True)


@cache
def step_times() -> dict[str, Any]:
    """Read the milliseconds of a step: by family, width, and part of it."""
    return json.loads(STEP_TIMES.read_text(encoding="utf-8"))["milliseconds"]


def milliseconds(family: str, setting: Setting) -> float:
    """Return what a mean step of a run costs one core, on the processor of the table."""
    parts = step_times()[family][str(setting.width)]
    early = EARLY if setting.half else 0.0
    return early * parts["half"] + (1 - early) * parts["all"] + parts[setting.optimizer]


def budget_steps(family: str, setting: Setting, minutes: float) -> int:
    """Return how many steps a budget pays for."""
    return round(60_000 * minutes / milliseconds(family, setting))


def experiment(
    group: str,
    name: str,
    family: str,
    setting: Setting,
    minutes: float,
    fraction: float = 1.0,
    held_out: int = 0,
    options: dict[str, Any] | None = None,
    seed: int = 0,
    validation: int = 0,
    **more,
) -> Experiment:
    """Describe a run of a family with a setting, as long as a budget pays for.

    Args:
        group: of the experiment, as `name`.
        name: of the experiment.
        family: one of `FAMILIES`.
        setting: what was chosen.
        minutes: budget in core-minutes.
        fraction: share of the pictures; the number of steps does not depend on it.
        held_out: as in `Experiment`.
        options: of the model, beside those of the family.
        seed: of the run.
        validation: as in `TrainConfig`.
        more: further fields of the experiment.
    """
    model, shape = FAMILIES[family]
    pictures = round((ALL_PICTURES - held_out) * fraction) - validation
    config = recipe(family, setting, minutes, pictures)
    config = replace(config, seed=seed, validation=validation)
    more |= {
        "fraction": fraction,
        "held_out": held_out,
        "options": {**shape(setting.width), **(options or {})},
    }
    return Experiment(group, name, "cpu", model, config, **more)


def recipe(family: str, setting: Setting, minutes: float, pictures: int) -> TrainConfig:
    """Return the recipe of a setting over so many pictures, with as many steps as a budget pays for."""
    epochs = budget_steps(family, setting, minutes) / (pictures // BATCH)
    early = {**HALF[family], "keep_until": EARLY} if setting.half else {}
    return replace(
        base_config(),
        epochs=round(epochs, 4),
        warmup_epochs=round(0.05 * epochs, 4),
        optimizer=setting.optimizer,
        lr=setting.lr,
        weight_decay=DECAY[setting.optimizer],
        schedule=setting.schedule,
        **early,
    )


def scores(group: str) -> dict[str, float]:
    """Read the held-out accuracies of the trials of a group that are recorded, by name."""
    found = load_records(group, "cpu")
    return {one["step"]: one["held_out_accuracy"] for one in found if "held_out_accuracy" in one}


def list_of_trials(family: str) -> tuple[dict[str, Setting], Setting | None]:
    """List the trials of a family as far as the recorded ones decide, and say what is chosen once all are there."""
    known = scores(f"search-{family}")
    trials = {
        f"{optimizer}-{lr:g}": Setting(optimizer, lr) for optimizer, rates in RATES.items() for lr in rates
    }
    first = WIDTHS.index(FIRST_WIDTH)
    for changes in (
        {width_name(family, width): {"width": width} for width in (WIDTHS[first - 1], 2 * FIRST_WIDTH)},
        {"linear": {"schedule": "linear"}},
        {"half": {"half": True}},
    ):
        if not trials.keys() <= known.keys():
            return trials, None
        best = trials[max(trials, key=known.__getitem__)]
        trials |= {name: replace(best, **changed) for name, changed in changes.items()}
    if not trials.keys() <= known.keys():
        return trials, None
    return trials, trials[max(trials, key=known.__getitem__)]


def search_trials(family: str) -> Iterator[Experiment]:
    """Lesson 08: the trials of a family, `list_of_trials`."""
    for name, setting in list_of_trials(family)[0].items():
        yield experiment(f"search-{family}", name, family, setting, 8, held_out=HELD_OUT)


def width_name(family: str, width: int) -> str:
    """Name a trial by the family's own width: for a ResNet the channels of its first stage."""
    return f"width-{width // 2 if family == 'resnet' else width}"


def three_widths(middle: int) -> tuple[int, ...]:
    """Return three neighbouring widths around the one at this place, or those at the end that it is near."""
    first = min(max(middle - 1, 0), len(WIDTHS) - 3)
    return WIDTHS[first : first + 3]


def width_trials(family: str, budget: str) -> dict[str, Setting]:
    """List the trials that choose the width at a budget, and with it the epochs; none before that is decided."""
    around = list_of_trials(family)[1] if budget == "8" else chosen(family)
    if around is None:
        return {}
    middle = WIDTHS.index(around.width) + BUDGETS[budget]
    widths = three_widths(middle)
    return {f"{family}-{width_name(family, width)}": replace(around, width=width) for width in widths}


def chosen(family: str, budget: str = "8") -> Setting | None:
    """Return the setting of a family at a budget, by the three trials of its width; None before these are recorded."""
    trials, known = width_trials(family, budget), scores(f"comparison-{budget}")
    if not trials or not trials.keys() <= known.keys():
        return None
    return trials[max(trials, key=known.__getitem__)]


def compared(budget: str) -> Iterator[Experiment]:
    """Lesson 08: at one budget three trials of the width for each family, then three seeds.

    At eight minutes also learning curves, and the linear classifier as a floor, as long as it likes.
    """
    group = f"comparison-{budget}"
    for family in ("vit", "resnet"):
        for name, setting in width_trials(family, budget).items():
            yield experiment(group, name, family, setting, int(budget), held_out=HELD_OUT)
        if setting := chosen(family, budget):
            for seed in range(3):
                yield experiment(group, family, family, setting, int(budget), seed=seed, probes=True)
            if budget == "8":
                yield experiment(group, f"{family}-curve", family, setting, 8, validation=HELD_OUT)
    for seed in range(3 if budget == "8" else 0):
        yield Experiment(group, "linear", "cpu", "linear", replace(FLOOR, seed=seed), probes=True)
