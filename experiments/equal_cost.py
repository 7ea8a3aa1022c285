"""The studies of models at equal processor time, with recipes that `trials` searched: marks, ladder, fractions.

`plans` lists them with all others. Lessons 07 and 11 and `docs/speedrun.md` show them, and that page also shows the
trials for its marks.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from experiments import trials
from vit_classroom.evidence.experiment import ALL_PICTURES, Experiment, pictures_shown, showing
from vit_course.recipes import AVERAGED, MODELS, RECIPES
from vit_course.train import TrainConfig

MARKS = {"60": 1.5, "75": 6.5, "80": 17.0, "85": 28.0}
"""Epochs for the marks of `docs/speedrun.md`, which are test accuracies in percent. 90 has its own recipe."""
LONGER = (
    {"augment": RECIPES["hours"].augment, "keep_until": RECIPES["hours"].keep_until},
    {"pos_embed": "sincos"},
)
"""Changes in "minutes" for runs of more than 20 epochs. No trial chose them, and `long_trials` start from them."""
GPU_MARKS = {"90": 70.0, "94": RECIPES["gpu"].epochs}
"""The same for a GPU, where no setting was searched: a first try of 90 in a minute, and a run of four minutes."""


def marks(scale) -> Iterator[Experiment]:
    """`docs/speedrun.md`: how much a plain ViT learns at which cost. The weights of the longest run are kept."""
    if scale.size == "gpu":
        model, options = MODELS["gpu"]
        for mark, epochs in GPU_MARKS.items():
            config = replace(RECIPES["gpu"], quiet=True, epochs=epochs)
            more = {"probes": True, "snapshots": (0, round(epochs) // 2)} if mark == max(GPU_MARKS) else {}
            yield from scale.seeded(3, "marks", mark, model, config, options=options, **more)
        return
    for mark, epochs in MARKS.items():
        recipe, changed, more = ("minutes", *LONGER) if epochs > 20 else ("quick", {}, {})
        config, (model, options) = RECIPES[recipe], MODELS[recipe]
        config = replace(config, epochs=epochs, quiet=True, **changed)
        yield from scale.seeded(3, "marks", mark, model, config, options=options | more)
    (model, options), config = MODELS["hours"], replace(RECIPES["hours"], quiet=True)
    kept = {"options": options, "probes": True, "snapshots": (0, round(config.epochs) // 2)}
    yield from scale.seeded(2, "marks", "90", model, config, **kept)


def mark_tries(scale) -> Iterator[Experiment]:
    """`docs/speedrun.md`: the next tries at 85 and 88, within the operations of their limits, on held-out images.

    The best public recipes mix only a share of the images, and stop mixing early. Earlier tries did neither.
    """
    base = replace(RECIPES["minutes"], quiet=True, augment=RECIPES["hours"].augment, keep_until=0.85)
    gentle = replace(base.augment, mixup=0.8, cutmix=1.0, mix_share=0.25)
    half = replace(gentle, mix_share=0.5)
    small = {"embed_dim": 96, "num_heads": 3, "depth": 6}
    for name, epochs, augment, shape in (
        ("85", 78, base.augment, small),
        ("85-mixed", 78, gentle, small),
        ("85-eight-blocks", 59, gentle, small | {"depth": 8}),
        ("88", 274, half, {"embed_dim": 128, "num_heads": 4, "depth": 8, "drop_path_rate": 0.1}),
        ("88-wider", 125, half, {"embed_dim": 192, "num_heads": 6, "depth": 8, "drop_path_rate": 0.1}),
    ):
        options = {**AVERAGED, "mlp_ratio": 2, "pos_embed": "sincos", **shape}
        config = replace(base, epochs=epochs, augment=augment, mix_until=0.6)
        yield Experiment(
            "mark-tries", name, scale.size, "Nano/4", config, options=options, held_out=trials.HELD_OUT
        )


def quick_trials(scale) -> Iterator[Experiment]:
    """`docs/speedrun.md`: learning rate and batch size of a smaller model for the first marks, on held-out images.

    The trials differ in cost. An epoch has the same number of steps as an epoch of all images.
    """
    (model, options), base = MODELS["quick"], replace(RECIPES["quick"], quiet=True)
    for name, epochs, changed in (
        ("depth-4", 2, {"batch_size": 128}),
        ("depth-4-faster", 2, {"batch_size": 128, "lr": 4.5e-3}),
        ("batch-64", 2, {}),
        ("batch-64-faster", 2, {"lr": 4.5e-3}),
        ("short", 1.25, {}),
        ("middle", 6, {}),
        ("long", 15.5, {}),
    ):
        epochs = round(epochs * ALL_PICTURES / (ALL_PICTURES - trials.HELD_OUT), 3)
        config, more = replace(base, epochs=epochs, **changed), {"options": options}
        yield Experiment("trials-quick", name, scale.size, model, config, held_out=trials.HELD_OUT, **more)


def long_trials(scale) -> Iterator[Experiment]:
    """`docs/speedrun.md`: changes in the run for the mark of 85, at equal cost, on held-out images."""
    (model, options), (changed, more) = MODELS["minutes"], LONGER
    base = replace(RECIPES["minutes"], quiet=True, **changed)
    for name, augment, part, steps in (
        ("base", {}, {}, trials.MUON),
        ("cutmix", {"cutmix": 1.0}, {}, trials.MUON),
        ("cutmix-0.2", {"cutmix": 0.2}, {}, trials.MUON),  # most boxes are tiny, or nearly the image
        ("mixup-0.2", {"mixup": 0.2}, {}, trials.MUON),
        ("erasing-drop-path", {"erasing": 0.25}, {"drop_path_rate": 0.1}, trials.MUON),
        ("width-96", {}, {"embed_dim": 96, "num_heads": 3}, trials.WIDTH_96),
    ):
        epochs = round(MARKS["85"] * trials.mean_step(base, trials.MUON) / trials.mean_step(base, steps), 3)
        config = replace(base, epochs=epochs, augment=replace(base.augment, **augment))
        with_part = {"options": options | more | part, "held_out": trials.HELD_OUT}
        yield Experiment("trials-long", name, scale.size, model, config, **with_part)


def ladder(scale) -> Iterator[Experiment]:
    """Lesson 07: each rung adds to the one before, with all images, in the processor time of the recipe "minutes"."""
    (model, options), last = MODELS["minutes"], RECIPES["minutes"]
    sgd, adamw = {"batch_size": last.batch_size}, {"warmup_epochs": last.warmup_epochs}
    for rung, recipe, changed, steps in (
        ("plain", "plain", sgd, (trials.SGD, trials.SGD)),
        ("crop-flip", "crop-flip", sgd, (trials.SGD, trials.SGD)),
        ("adamw", "adamw", sgd | adamw, trials.ADAMW),
        ("smoothing", "smoothing", sgd | adamw, trials.ADAMW),
        ("muon", "minutes", {"schedule": "cosine", "keep_tokens": 1.0, "keep_until": 0.0}, trials.MUON),
        ("minutes", "minutes", {}, trials.MUON),
    ):
        config = replace(RECIPES[recipe], **changed, quiet=True)
        epochs = round(last.epochs * trials.mean_step(last, trials.MUON) / trials.mean_step(config, steps), 3)
        yield from scale.seeded(3, "ladder", rung, model, replace(config, epochs=epochs), options=options)


def searched(scale) -> Iterator[tuple[str, tuple[str, dict[str, Any]], TrainConfig]]:
    """Yield name, model with its options, and recipe of the ViT and of the ResNet, as `trials` found them.

    The ResNet has as many epochs as fit into the processor time of the ViT.
    """
    if scale.size != "cpu":  # nothing is searched there
        return
    vit = replace(RECIPES["minutes"], quiet=True)
    yield "vit", MODELS["minutes"], vit
    resnet = replace(trials.RESNET_BASE, **trials.RESNET_CHOSEN)
    cost = pictures_shown(vit, ALL_PICTURES) / vit.batch_size * trials.mean_step(vit, trials.MINUTES)
    epochs = cost / trials.RESNET_STEP / (ALL_PICTURES // resnet.batch_size)
    yield "resnet", (trials.RESNET, {}), replace(resnet, epochs=round(epochs, 1))


def fractions(scale) -> Iterator[Experiment]:
    """Lesson 11: the models of `searched` with 1 % and 10 % of the images, and with all.

    Each keeps its number of steps, also in the warm-up. Both use label smoothing and weight decay.
    """
    for share in (0.01, 0.1, 1.0):
        for name, (model, options), recipe in searched(scale):
            count = round(ALL_PICTURES * share)
            config = showing(recipe, pictures_shown(recipe, ALL_PICTURES), count) if share < 1 else recipe
            warmup = recipe.warmup_epochs * (ALL_PICTURES // recipe.batch_size)
            config = replace(config, warmup_epochs=warmup / (count // config.batch_size))
            label = f"{name}-{round(100 * share)}"
            yield from scale.seeded(3, "fractions", label, model, config, fraction=share, options=options)
