"""The searches for a ViT and a ResNet that learn in minutes: each arm changes one thing of its base, at equal cost.

Every trial is scored on 5,000 held-out training pictures and never sees a test picture. `studies` lists the arms with
all other experiments; lesson 16 shows what each brings the ViT, lesson 08 what both searches find.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from vit_classroom.evidence.experiment import ALL_PICTURES, Experiment
from vit_classroom.evidence.gains import HELD_OUT, MODEL, SHAPE
from vit_course.recipes import RECIPES
from vit_course.train import TrainConfig

BASE = replace(
    RECIPES["smoothing"],
    epochs=4,
    quiet=True,
    optimizer="muon",
    lr=3e-3,
    warmup_epochs=0.25,
    keep_tokens=0.5,
    keep_until=0.7,
)
MUON = (548.0, 263.0)
"""Milliseconds of a step of the base with all and with half of the tokens, on one core with bfloat16 products. These
and those of the arms were measured in turn, in one process, the best of five each: their ratios make the cost equal."""
QUARTER, THREE_EIGHTHS = (548.0, 165.0), (548.0, 241.0)
WIDTH_96 = (361.0, 183.0)
ADAMW, QKV_3 = (497.0, 218.0), (548.0, 276.0)
SGD = 484.0
"""The same for SGD with all tokens, timed in turn with AdamW."""
CHOSEN_FROM = ("base", "linear", "together", "width-96")
"""Arms with three seeds: the base, the best of the first ones, several of them at once, and the best of all."""


def arms() -> Iterator[tuple[str, dict[str, Any], dict[str, Any], tuple[float, float]]]:
    """Yield name, changes of the recipe, changes of the model, and milliseconds of a step with all and fewer tokens."""
    yield "base", {}, {}, MUON
    for rate in (2e-3, 4.5e-3, 6e-3):
        yield f"lr-{rate:g}", {"lr": rate}, {}, MUON
    yield "whitened", {}, {"first_values": ["whitened"]}, MUON
    yield "linear", {"schedule": "linear"}, {}, MUON
    yield "tokens-all", {"keep_tokens": 1.0, "keep_until": 0.0}, {}, MUON
    yield "tokens-quarter", {"keep_tokens": 0.25}, {}, QUARTER
    yield "tokens-half-longer", {"keep_until": 0.85}, {}, MUON
    yield "tokens-half-shorter", {"keep_until": 0.5}, {}, MUON
    yield "qkv-3", {"qkv_matrices": 3}, {}, QKV_3
    yield "silent", {}, {"first_values": ["silent"]}, MUON
    for rate in (1e-3, 6e-3):
        yield f"rest-{rate:g}", {"rest_lr": rate}, {}, MUON
    yield "batch-64", {"batch_size": 64}, {}, (314, 157)
    yield "batch-64-slower", {"batch_size": 64, "lr": 2e-3}, {}, (314, 157)
    yield "batch-256", {"batch_size": 256}, {}, (1297, 514)
    yield "batch-256-faster", {"batch_size": 256, "lr": 4.5e-3}, {}, (1297, 514)
    yield "decay-0.2", {"weight_decay": 0.2}, {}, MUON
    yield "decay-0", {"weight_decay": 0.0}, {}, MUON
    yield "width-96", {}, {"embed_dim": 96, "num_heads": 3}, WIDTH_96
    yield "width-160", {}, {"embed_dim": 160, "num_heads": 5}, (897, 408)
    yield "depth-4", {}, {"depth": 4}, (402, 205)
    yield "depth-9", {}, {"depth": 9}, (938, 422)
    yield "mlp-2", {}, {"mlp_ratio": 2.0}, (435, 192)
    yield "heads-2", {}, {"num_heads": 2}, (557, 264)
    cls = {"global_pool": "token", "class_token": True}
    yield "cls", {}, cls, (566, 274)
    yield "sincos", {}, {"pos_embed": "sincos"}, MUON
    yield "mimetic", {}, {"first_values": ["mimetic"]}, MUON
    yield "by-picture", {"keep_by": "picture"}, {}, (548, 279)
    yield "no-smoothing", {"label_smoothing": 0.0}, {}, MUON
    yield "ema", {"ema": 0.99}, {}, MUON
    for rate in (5e-4, 1e-3, 2e-3):
        yield f"adamw-{rate:g}", {"optimizer": "adamw", "lr": rate}, {}, ADAMW
    together = {"schedule": "linear", "qkv_matrices": 3}
    for name, changed in (("", {}), ("-longer", {"keep_until": 0.85}), ("-faster", {"lr": 4.5e-3})):
        yield f"together{name}", together | changed, {"first_values": ["whitened"]}, QKV_3
    yield "tokens-3-8", {"keep_tokens": 0.375}, {}, THREE_EIGHTHS
    yield "float32", {"precision": "float32"}, {}, MUON  # as on a processor where bfloat16 is slow
    stronger = {"rand-augment": {"rand_augment_ops": 2}, "mixup": {"mixup": 0.2}, "cutmix": {"cutmix": 1.0}}
    for name, changed in stronger.items():
        yield name, {"augment": replace(BASE.augment, **changed)}, {}, MUON
    # timed in turn with the base on another processor, and brought to these milliseconds by its step there
    yield "size-24", {"keep_tokens": 0.5625, "keep_by": "size"}, {}, (548, 308)
    yield "qk-norm", {}, {"modern": {"qk_norm": True}}, (634, 293)
    yield "registers", {}, {**cls, "modern": {"registers": 4}}, (579, 311)


RESNET = "resnet-small"
RESNET_BASE = replace(RECIPES["resnet"], lr=0.2, warmup_epochs=0.25, quiet=True)
RESNET_CHOSEN: dict[str, Any] = {"lr": 0.4}
"""What the best of the ResNet's trials changes in its recipe."""
RESNET_STEP = 116
PAIRED, MINUTES = (644, 311), (636, 316)
"""Milliseconds of a step of the ResNet, of the ViT's base, and of the ViT of the recipe "minutes", with all and with
half of the tokens: again in turn, in one process, the best of six each, bfloat16 products for all, which are the
quickest. Those of the ResNet's arms below were measured with them."""


def resnet_arms() -> Iterator[tuple[str, dict[str, Any], dict[str, Any], float]]:
    """Yield name, changes of the recipe, changes of the model, and milliseconds of a step, for the ResNet."""
    yield "base", {}, {}, RESNET_STEP
    for rate in (0.05, 0.1, 0.4, 0.8):
        yield f"lr-{rate:g}", {"lr": rate}, {}, RESNET_STEP
    yield "linear", {"schedule": "linear"}, {}, RESNET_STEP
    yield "no-smoothing", {"label_smoothing": 0.0}, {}, RESNET_STEP
    yield "decay-0.001", {"weight_decay": 1e-3}, {}, RESNET_STEP
    yield "batch-64", {"batch_size": 64, "lr": 0.1}, {}, 62
    yield "batch-256", {"batch_size": 256, "lr": 0.4}, {}, 226
    adamw = {"optimizer": "adamw", "lr": 3e-3, "weight_decay": 0.05, "grad_clip": 1.0}
    yield "adamw", adamw, {}, 118
    yield "width-32", {}, {"width": 32}, 309


def mean_step(config: TrainConfig, steps: tuple[float, float]) -> float:
    """Return the mean milliseconds of a run's steps, from those with all tokens and with fewer."""
    return config.keep_until * steps[1] + (1 - config.keep_until) * steps[0]


def equal_epochs(config: TrainConfig, steps: tuple[float, float], base: tuple[float, float] = MUON) -> float:
    """Return for how many epochs an arm can run in the processor time of the base.

    Args:
        config: the arm's recipe.
        steps: milliseconds of its step, with all tokens and with fewer.
        base: those of the base.
    """
    in_epoch = [(ALL_PICTURES - HELD_OUT) // batch for batch in (BASE.batch_size, config.batch_size)]
    cost = BASE.epochs * mean_step(BASE, base) * in_epoch[0]
    return round(cost / (mean_step(config, steps) * in_epoch[1]), 3)


def trials(scale) -> Iterator[Experiment]:
    """Lesson 16: the arms, one seed each; three for those that the choice of a recipe is between."""
    for name, changed, options, steps in arms():
        config = replace(BASE, **changed)
        config = replace(config, epochs=equal_epochs(config, steps))
        more = {"options": {**SHAPE, **options}, "held_out": HELD_OUT}
        yield from scale.seeded(3 if name in CHOSEN_FROM else 1, "trials", name, MODEL, config, **more)


def resnet_trials(scale) -> Iterator[Experiment]:
    """Lesson 08: the ResNet's arms, one seed each, for as much processor time as the ViT's."""
    for name, changed, options, step in resnet_arms():
        config = replace(RESNET_BASE, **changed)
        config = replace(config, epochs=equal_epochs(config, (step, step), PAIRED))
        more = {"options": options, "held_out": HELD_OUT}
        yield Experiment("trials-resnet", name, scale.size, RESNET, config, **more)
