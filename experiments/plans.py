"""The experiments of lessons 07 to 16 in two regimes, each chosen by what a study has to show.

*All pictures* (50,000, twenty epochs): what a model can learn, and the comparison with a ResNet. *Few pictures, many
epochs* (5,000, eighty epochs): memorising, and what helps against it. In between, 20,000 pictures and fourteen
epochs for the many rows of lesson 10. Every seed draws other pictures where not all are used. A conclusion rests on
three seeds; where there are two, a lesson shows dots. `run` runs and records them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from experiments.after_search import in_order
from experiments.equal_cost import fractions, ladder, long_trials, mark_tries, marks, quick_trials
from experiments.trials import HELD_OUT, resnet_trials, trials
from vit_classroom.evidence.experiment import ALL_PICTURES, Experiment, Pretraining, pictures_shown, showing
from vit_course.recipes import MIXED, MODELS, RECIPES
from vit_course.train import TrainConfig

FEW_RUNGS = ("plain", "crop-flip", "adamw", "smoothing", "rand-augment", "mixed")
FEW_PICTURES = 5_000
SOME_PICTURES = 20_000


@dataclass(frozen=True)
class Scale:
    """What the studies of a size have in common.

    Attributes:
        size: "cpu" or "gpu".
        vit: the ViT of most studies.
        fine: the ViT on a grid of 8x8 patches.
        resnet: the ResNet that the ViT is compared with.
        hybrid: the ViT on the feature map of a ResNet, with its arguments.
        everything: the regime of all pictures.
        few: the regime of few pictures.
        recipe: the ViT's recipe for all pictures.
        resnet_recipe: the ResNet's, with as many operations as the ViT's.
    """

    size: str
    vit: str
    fine: str
    resnet: str
    hybrid: tuple[str, dict[str, Any]]
    everything: dict[str, Any]
    few: dict[str, Any]
    recipe: TrainConfig
    resnet_recipe: TrainConfig

    def seeded(self, count: int, group: str, name: str, model: str, config: TrainConfig, **more) -> list:
        """Return one experiment for each of `count` seeds."""
        return [
            Experiment(group, name, self.size, model, replace(config, seed=seed), **more)
            for seed in range(count)
        ]

    @property
    def linear_recipe(self) -> TrainConfig:
        """The linear classifier's: pictures as stored, since mirrored and shifted ones only blur its templates."""
        changes = {**self.everything, "epochs": self.everything["epochs"] // 2, "compile": False}
        return replace(RECIPES["adamw"], **changes, augment=RECIPES["plain"].augment)


CPU_ALL = {"epochs": 20, "batch_size": 128, "quiet": True}
CPU = Scale(
    "cpu",
    "Nano/8",
    "Nano/4",
    "resnet-small",
    ("R-Nano/8", {"width": 8}),
    everything=CPU_ALL,
    few={"epochs": 80, "batch_size": 64, "quiet": True},
    recipe=replace(RECIPES["adamw"], **CPU_ALL, lr=2e-3),
    # Twice the operations of the ViT and half its speed on a CPU: half the epochs are as much work and as much time.
    resnet_recipe=replace(RECIPES["resnet"], **{**CPU_ALL, "epochs": 10}, lr=0.2),
)
GPU_COMMON = {"quiet": True, "augment_ahead": 8, "compile": True}
GPU_ALL = {"epochs": 60, "batch_size": 512, **GPU_COMMON}
GPU = Scale(
    "gpu",
    "Ti/4",
    "Ti/4",
    "resnet18",
    ("R-Ti/8", {}),
    everything=GPU_ALL,
    few={"epochs": 200, "batch_size": 128, **GPU_COMMON},
    recipe=replace(RECIPES["mixed"], **GPU_ALL),
    # One epoch of Ti/4 costs 0.730 GFLOP a picture, one of ResNet-18 1.11: two thirds of the epochs are as much.
    resnet_recipe=replace(RECIPES["resnet"], **{**GPU_ALL, "epochs": 40}),
)


def plan(size: str) -> list[Experiment]:
    """List the experiments of one size, in the order of their worth."""
    scale, first, searches = {
        "cpu": (
            CPU,
            (marks, ladder),
            (trials, resnet_trials, quick_trials, long_trials, in_order, mark_tries),
        ),
        "gpu": (GPU, (search, headline, marks), ()),
    }[size]
    studies = (
        *(*first, few, engine, comparison_first, fractions_first),
        *(positions, pooling, patches, regularisers),
        *(hybrid, masked, shapes),
        *(qk_norm, attention_pool, rope),
        *(*searches, fractions),
    )
    return [run for study in studies for run in study(scale)]


def search(scale: Scale) -> Iterator[Experiment]:
    """Which recipe for a GPU's `marks`, and which rate for its ResNet: trials scored on 5,000 held-out pictures."""
    (model, options), base = MODELS["gpu"], replace(RECIPES["gpu"], epochs=100, quiet=True)
    for name, changed, part in (
        ("vit", {}, {}),
        ("vit-0.002", {"lr": 2e-3}, {}),
        ("vit-0.008", {"lr": 8e-3}, {}),
        ("vit-no-mixing", {"augment": RECIPES["rand-augment"].augment}, {}),
        ("vit-all-tokens", {"keep_tokens": 1.0, "epochs": 75}, {}),  # as many operations, as in "vit-256"
        ("vit-average", {}, {"global_pool": "avg", "class_token": False}),
        ("vit-256", {"epochs": 57}, {"embed_dim": 256, "num_heads": 8}),
    ):
        config, more = replace(base, **changed), {"options": options | part, "held_out": HELD_OUT}
        yield from scale.seeded(1, "search", name, model, config, **more)
    base = replace(RECIPES["resnet"], **{**scale.everything, "epochs": 20})
    for factor in (0.5, 1, 2, 4):
        config, name = replace(base, lr=base.lr * factor), f"resnet-{base.lr * factor:g}"
        yield from scale.seeded(1, "search", name, scale.resnet, config, held_out=HELD_OUT)


def headline(scale: Scale) -> Iterator[Experiment]:
    """README: a GPU's ResNet for as many operations as the longest of its `marks`."""
    config = replace(scale.resnet_recipe, epochs=60)
    yield from scale.seeded(3, "headline", "resnet-flops", scale.resnet, config, probes=True)


def few(scale: Scale) -> Iterator[Experiment]:
    """Lessons 07, 10 and 12: memorising, and what helps against it; each rung adds to the one before."""
    pictures = {"pictures": FEW_PICTURES}
    for rung in FEW_RUNGS:
        yield from scale.seeded(3, "few", rung, scale.vit, replace(RECIPES[rung], **scale.few), **pictures)
    linear = replace(scale.linear_recipe, epochs=scale.few["epochs"] // 4)
    yield from scale.seeded(3, "few", "linear", "linear", linear, **pictures)


def engine(scale: Scale) -> Iterator[Experiment]:
    """Lesson 07: a rung of `few` once more in float32, whatever is faster."""
    config = replace(RECIPES["adamw"], **scale.few, precision="float32")
    yield from scale.seeded(3, "engine", "float32", scale.vit, config, pictures=FEW_PICTURES)


def comparison_first(scale: Scale) -> Iterator[Experiment]:
    """Lesson 08: ViT and ResNet on all pictures, with equally many operations; nobody searched their recipes."""
    for name, model, recipe in (
        ("vit", scale.vit, scale.recipe),
        ("resnet", scale.resnet, scale.resnet_recipe),
    ):
        yield from scale.seeded(3, "comparison-first", name, model, recipe, probes=True)


def fractions_first(scale: Scale) -> Iterator[Experiment]:
    """Lessons 08, 11 and 13: the linear classifier and the ViT of `comparison_first` with few and many pictures.

    Each model keeps its own number of steps over all fractions: the ViT half of those that it takes in
    `comparison_first`, the linear classifier a quarter of its epochs. The warm-up is one epoch, however short that is.
    """
    for share in (0.01, 0.1, 1.0):
        for name, model, recipe in (
            ("vit", scale.vit, scale.recipe),
            ("linear", "linear", scale.linear_recipe),
        ):
            config = replace(recipe, epochs=recipe.epochs // 2)
            config = showing(config, pictures_shown(config, ALL_PICTURES), round(ALL_PICTURES * share))
            label = f"{name}-{round(100 * share)}"
            yield from scale.seeded(3, "fractions-first", label, model, config, fraction=share)


def some(scale: Scale) -> tuple[TrainConfig, dict[str, Any]]:
    """Return recipe and pictures of lesson 10's tables: a shorter run on fewer pictures on a CPU, for many rows."""
    if scale.size == "gpu":
        return scale.recipe, {}
    return replace(scale.recipe, epochs=14), {"pictures": SOME_PICTURES}


def positions(scale: Scale) -> Iterator[Experiment]:
    """Lesson 10: which positions, on a grid of 8x8 (paper, Table 8); the base is "learned" of `rope`."""
    config, pictures = some(scale)
    for name in ("none", "2d", "sincos", "relative"):
        options = {"pos_embed": name}
        yield from scale.seeded(3, "positions", name, scale.fine, config, options=options, **pictures)


def pooling(scale: Scale) -> Iterator[Experiment]:
    """Lesson 10: CLS token against average over learning rates (paper, D.3), with held-out pictures to choose by.

    "linear" is the line for all studies of lesson 10 on as many pictures.
    """
    config, pictures = swept(scale)
    linear = replace(scale.linear_recipe, epochs=config.epochs // 2)
    yield from scale.seeded(3, "pooling", "linear", "linear", linear, **pictures)
    for factor in (0.5, 1, 2):
        run = replace(config, lr=config.lr * factor)
        for pool in ("token", "avg"):
            options = {"global_pool": pool}
            yield from scale.seeded(
                3, "pooling", f"{pool}-{run.lr:g}", scale.vit, run, options=options, **pictures
            )


def patches(scale: Scale) -> Iterator[Experiment]:
    """Lesson 10: the side of a patch; side 4 is "learned" of `rope`."""
    config, pictures = some(scale)
    size = scale.fine.partition("/")[0]
    for side in (16, 8) if scale.size == "cpu" else (8, 2):
        yield from scale.seeded(3, "patches", f"patch-{side}", f"{size}/{side}", config, **pictures)


def regularisers(scale: Scale) -> Iterator[Experiment]:
    """Lesson 10, few pictures: each changes one thing of the base, which is the rung "adamw" of `few`."""
    base = replace(RECIPES["adamw"], **scale.few)
    for name, changed, options in (
        ("dropout", {}, {"drop_rate": 0.1}),
        ("drop-path", {}, {"drop_path_rate": 0.1}),
        ("no-weight-decay", {"weight_decay": 0.0}, {}),
        ("mixup", {"augment": replace(base.augment, mixup=MIXED.mixup)}, {}),
    ):
        more = {"options": options, "pictures": FEW_PICTURES}
        yield from scale.seeded(3, "regularisers", name, scale.vit, replace(base, **changed), **more)


def hybrid(scale: Scale) -> Iterator[Experiment]:
    """Lesson 11: the ViT of `fractions_first` on the feature map of a small ResNet, in as many steps."""
    model, options = scale.hybrid
    config = half(scale)
    for share in (0.01, 0.1, 1.0):
        run = showing(config, pictures_shown(config, ALL_PICTURES), round(ALL_PICTURES * share))
        label = f"hybrid-{round(100 * share)}"
        yield from scale.seeded(3, "hybrid", label, model, run, fraction=share, options=options)


def half(scale: Scale) -> TrainConfig:
    """Return the ViT's recipe of `fractions_first`, for all pictures: half the epochs of `comparison_first`."""
    return replace(scale.recipe, epochs=scale.recipe.epochs // 2)


def tuned(scale: Scale, shown: int, count: int) -> TrainConfig:
    """Return the recipe of a fine-tuning that shows so many pictures out of `count`: gentle, without MixUp."""
    return showing(replace(RECIPES["adamw"], **scale.everything), shown, count)


def masked(scale: Scale) -> Iterator[Experiment]:
    """Lesson 13: masked patch prediction on all pictures without labels, then tuning with 1 and 10 percent of these.

    "nothing" learns from the same labels alone, for as many steps as both parts together.
    """
    long = replace(scale.recipe, epochs=7 * scale.recipe.epochs // 10, label_smoothing=0.0)
    start = Pretraining("masked-colours", "same", "colours", long)
    shown = 2 * ALL_PICTURES
    for percent in (1, 10):
        count = ALL_PICTURES * percent // 100
        total = pictures_shown(long, ALL_PICTURES) + shown
        for kind, config, more in (
            ("colours", tuned(scale, shown, count), {"start": start}),
            ("nothing", showing(scale.recipe, total, count), {}),
        ):
            more |= {"fraction": percent / 100}
            yield from scale.seeded(3, "masked", f"{kind}-{percent}", scale.vit, config, **more)


def shapes(scale: Scale) -> Iterator[Experiment]:
    """Lessons 09, 15 and 17: the small model of Shapes-10 that comes with the course."""
    regime, pictures, options = {"epochs": 8, "batch_size": 64, "quiet": True}, 8_000, {"depth": 6}
    if scale.size == "gpu":
        regime, pictures, options = {**scale.everything, "epochs": 20}, 50_000, {}
    more = {"pictures": pictures, "options": options, "shapes": True, "snapshots": (0,)}
    yield from scale.seeded(1, "shapes", "vit", scale.fine, replace(RECIPES["smoothing"], **regime), **more)


def swept(scale: Scale) -> tuple[TrainConfig, dict[str, Any]]:
    """Return recipe and pictures of `pooling`: a tenth of the pictures is held out to choose the rate by."""
    config, pictures = some(scale)
    return replace(config, validation=(pictures.get("pictures") or ALL_PICTURES) // 10), pictures


def qk_norm(scale: Scale) -> Iterator[Experiment]:
    """Lesson 15: does QK-norm allow higher rates? The usual model at its own rate is "token" of `pooling`."""
    config, pictures = swept(scale)
    for factor in (1, 4, 16):
        run = replace(config, lr=config.lr * factor)
        for name, modern in (("usual", None), ("normed", {"qk_norm": True})):
            if factor > 1 or modern:
                more = {"options": {"modern": modern} if modern else {}, **pictures}
                yield from scale.seeded(3, "qk-norm", f"{name}-{run.lr:g}", scale.vit, run, **more)


def attention_pool(scale: Scale) -> Iterator[Experiment]:
    """Lesson 15: attention pooling over the rates of `pooling`, whose CLS and GAP it is compared with."""
    config, pictures = swept(scale)
    options = {"modern": {"attention_pool": True}}
    for factor in (0.5, 1, 2):
        run = replace(config, lr=config.lr * factor)
        name = f"attention-{run.lr:g}"
        yield from scale.seeded(3, "attention-pool", name, scale.vit, run, options=options, **pictures)


def rope(scale: Scale) -> Iterator[Experiment]:
    """Lesson 15: rotations and learned positions, trained at 32 pixels on a grid of 8x8, scored at other sizes too.

    "learned" is also the base of `positions` and `patches`.
    """
    config, pictures = some(scale)
    for name, options in (("learned", {}), ("rope", {"pos_embed": "none", "modern": {"rope": True}})):
        more = {"options": options, "resolutions": (24, 32, 40, 48), **pictures}
        yield from scale.seeded(3, "rope", name, scale.fine, config, **more)
