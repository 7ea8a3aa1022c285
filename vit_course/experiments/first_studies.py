"""Every experiment of lessons 07 to 13 as data: what is trained, on which pictures, with which recipe and seed.

`experiments` runs and records them. Each exists in two sizes: for two CPU cores, and for one large GPU.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from vit_course.recipes import MIXED, RAND_AUGMENT, RECIPES
from vit_course.train import TrainConfig

SIZES = ("cpu", "gpu")
LADDER = ("plain", "crop-flip", "adamw", "smoothing", "rand-augment", "mixed")
FRACTIONS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
LABELS = (0.01, 0.1, 1.0)
"""Shares of the labels in lessons 12 and 13."""


@dataclass(frozen=True)
class Pretraining:
    """What a model learns before the experiment proper; the weights are kept and used by all that share them.

    Attributes:
        name: names the weights, with the size.
        data: "nine classes" of pictures that the experiment does not use, "shapes10", or "same", its own pictures.
        task: "labels", or what `MaskedPatches` predicts: "colours" or "pixels".
        config: the recipe in full.
    """

    name: str
    data: str
    task: str
    config: TrainConfig


@dataclass(frozen=True)
class Experiment:
    """One run: what is trained, on how much, how often seen, and what is measured afterwards.

    Attributes:
        group: the study that it belongs to; `load_records` reads a group.
        name: name within the group; with size and seed it names the record.
        size: "cpu" or "gpu".
        model: name for `build_model`.
        config: the recipe in full, seed included.
        pictures: training pictures before `fraction` is taken; None for all.
        fraction: share of them that is used.
        options: further arguments of the model.
        start: pre-training, or None for a start from random weights.
        keep_head: go on with the head of the pre-training; else a new one of zeros takes its place.
        trainable: beginnings of the names that are trained; empty for all.
        img_size: side that the pictures are enlarged to and the model changed to, or None.
        new_positions: throw the positions of the pre-training away.
        probes: also measure shifted and shuffled pictures after training.
        draw: draw the pictures anew for every seed, and score the training pictures as they are stored, too.
        snapshots: epochs after which the weights are kept, in half precision; 0 is before the first step.
        folder: whether the record lies in a folder of its group, or beside all others.
    """

    group: str
    name: str
    size: str
    model: str
    config: TrainConfig
    pictures: int | None = None
    fraction: float = 1.0
    options: dict[str, Any] = field(default_factory=dict)
    start: Pretraining | None = None
    keep_head: bool = False
    trainable: tuple[str, ...] = ()
    img_size: int | None = None
    new_positions: bool = False
    probes: bool = False
    draw: bool = False
    snapshots: tuple[int, ...] = ()
    folder: bool = False

    @property
    def stem(self) -> str:
        """Name of the record's file, without its ending."""
        if self.folder:
            return f"{self.size}/{self.group}/{self.name}-seed{self.config.seed}"
        return f"{self.size}-{self.group}-{self.name}-seed{self.config.seed}"


@dataclass(frozen=True)
class Scale:
    """What a size of the studies has in common: models, pictures, epochs, and the recipes for them."""

    size: str
    vit: str
    resnet: str
    hybrid: str
    pictures: int | None
    epochs: int
    seeds: int
    recipes: dict[str, TrainConfig]
    best: str

    @property
    def total(self) -> int:
        """Training pictures when all are used."""
        return self.pictures or 50_000

    def seeded(
        self, count: int, group: str, name: str, model: str, config: TrainConfig, **more
    ) -> list[Experiment]:
        """Return one experiment for each of `count` seeds."""
        pictures = more.pop("pictures", self.pictures)
        return [
            Experiment(group, name, self.size, model, replace(config, seed=seed), pictures, **more)
            for seed in range(count)
        ]

    def equal_steps(self, config: TrainConfig, fraction: float) -> TrainConfig:
        """Change epochs, and the batch if it must be, so that a fraction of the pictures is shown for as many steps."""
        count = round(self.total * fraction)
        batch = min(config.batch_size, count)
        epochs = round(self.epochs * (self.total // config.batch_size) / (count // batch))
        return replace(config, epochs=epochs, batch_size=batch)


def get_scale(size: str) -> Scale:
    """Return what the studies of a size have in common.

    The CPU size has 10,000 pictures, models of a tenth of a GFLOP at most, batches of 64; its learning rates were
    chosen on 2,000 held-out training pictures, six trials for the ViT and six for the ResNet.
    """
    if size == "gpu":
        common = {"epochs": 60, "batch_size": 512, "quiet": True, "augment_ahead": 8, "compile": True}
        recipes = {name: replace(recipe, **common) for name, recipe in RECIPES.items()}
        return Scale(size, "Ti/4", "resnet18", "R-Ti/8", None, 60, 3, recipes, "mixed")
    recipes = {
        name: replace(recipe, epochs=10, batch_size=64, quiet=True) for name, recipe in RECIPES.items()
    }
    recipes["resnet"] = replace(recipes["resnet"], lr=0.4)
    return Scale(size, "Nano/8", "resnet-small", "R-Nano/8", 10_000, 10, 3, recipes, "smoothing")


def all_experiments(size: str) -> list[Experiment]:
    """List the experiments of one size, in the order of their worth."""
    scale = get_scale(size)
    studies = (
        headline,
        comparison,
        ladder,
        fractions,
        hybrid,
        positions,
        pooling,
        patches,
        shape,
        regularisers,
    )
    return [run for study in (*studies, transfer, resolution, masked) for run in study(scale)]


def headline(scale: Scale) -> Iterator[Experiment]:
    """README: how good a plain ViT gets, and how good in a minute; ResNet-18 with as many operations. GPU alone.

    One epoch of Ti/4 costs 0.730 GFLOP a picture, one of ResNet-18 1.11, so two thirds of the epochs are as much.
    """
    if scale.size == "cpu":
        return
    long = replace(scale.recipes["mixed"], epochs=240, warmup_epochs=10.0, lr=2e-3)
    runs = [
        ("vit", scale.vit, long, {"drop_path_rate": 0.1}),
        ("vit-muon", scale.vit, replace(long, optimizer="muon"), {"drop_path_rate": 0.1}),
        ("vit-minute", scale.vit, replace(scale.recipes["rand-augment"], epochs=60, lr=2e-3), {}),
        ("resnet-flops", scale.resnet, replace(scale.recipes["resnet"], epochs=160), {}),
    ]
    for name, model, config, options in runs:
        yield from scale.seeded(3, "headline", name, model, config, options=options, probes=True)


def comparison(scale: Scale) -> Iterator[Experiment]:
    """Lesson 08: ViT and ResNet, each with its recipe."""
    for name, model, recipe in (("vit", scale.vit, scale.best), ("resnet", scale.resnet, "resnet")):
        yield from scale.seeded(3, "comparison", name, model, scale.recipes[recipe], probes=True)


def ladder(scale: Scale) -> Iterator[Experiment]:
    """Lesson 07: each step adds to the step before; "adamw" alone changes four things at once."""
    for step in LADDER:
        yield from scale.seeded(scale.seeds, "ladder", step, scale.vit, scale.recipes[step])
    last = scale.recipes[LADDER[-1]]
    drop = {"options": {"drop_path_rate": 0.1}}
    yield from scale.seeded(scale.seeds, "ladder", "drop-path", scale.vit, last, **drop)
    longer = replace(last, epochs=3 * scale.epochs)
    yield from scale.seeded(scale.seeds, "ladder", "longer", scale.vit, longer, **drop)


def fractions(scale: Scale) -> Iterator[Experiment]:
    """Lesson 08: ViT and ResNet on 1 to 100 percent of the pictures, equally many steps."""
    for fraction in FRACTIONS:
        for name, model, recipe in (("vit", scale.vit, scale.best), ("resnet", scale.resnet, "resnet")):
            config = scale.equal_steps(scale.recipes[recipe], fraction)
            label = f"{name}-{round(100 * fraction)}"
            yield from scale.seeded(scale.seeds, "fractions", label, model, config, fraction=fraction)


def hybrid(scale: Scale) -> Iterator[Experiment]:
    """Lesson 11: the ViT of `fractions` on the feature map of a small ResNet; "hybrid3" lengthens stage 3 instead."""
    small = scale.size == "cpu"
    options = {"width": 8} if small else {}
    runs = [("hybrid", scale.hybrid, fraction) for fraction in FRACTIONS]
    runs += [("hybrid3", scale.hybrid.replace("/8", "/4"), f) for f in ((1.0,) if small else FRACTIONS)]
    for name, model, fraction in runs:
        config = scale.equal_steps(scale.recipes[scale.best], fraction)
        label, more = f"{name}-{round(100 * fraction)}", {"fraction": fraction, "options": options}
        yield from scale.seeded(scale.seeds, "hybrid", label, model, config, **more)


def short(scale: Scale, recipe: str | None = None) -> TrainConfig:
    """Return the common short budget of lesson 10's tables: half the epochs of the CPU size, a third of the GPU's."""
    return replace(scale.recipes[recipe or scale.best], epochs=5 if scale.size == "cpu" else 20)


def positions(scale: Scale) -> Iterator[Experiment]:
    """Lesson 10: which positions, and where they are added (paper, Table 8)."""
    kinds = [("none", {"pos_embed": "none"}), ("relative", {"pos_embed": "relative"})]
    kinds += [("sincos-stem", {"pos_embed": "sincos"})]
    for kind in ("learned", "2d"):
        for where in ("stem", "every", "shared"):
            kinds.append((f"{kind}-{where}", {"pos_embed": kind, "pos_embed_at": where}))
    for name, options in kinds:
        yield from scale.seeded(2, "positions", name, scale.vit, short(scale), options=options)


def pooling(scale: Scale) -> Iterator[Experiment]:
    """Lesson 10: CLS token against average over learning rates (paper, D.3), with held-out pictures to choose by."""
    config = replace(short(scale), validation=1_000 if scale.size == "cpu" else 5_000)
    for factor in (0.5, 1, 2, 4):
        for pool in ("token", "avg"):
            rate = config.lr * factor
            run, options = replace(config, lr=rate), {"global_pool": pool}
            yield from scale.seeded(2, "pooling", f"{pool}-{rate:g}", scale.vit, run, options=options)


def patches(scale: Scale) -> Iterator[Experiment]:
    """Lesson 10: the side of a patch."""
    size = scale.vit.partition("/")[0]
    for side in (16, 8, 4) if scale.size == "cpu" else (8, 4, 2):
        yield from scale.seeded(2, "patches", f"patch-{side}", f"{size}/{side}", short(scale))


def shape(scale: Scale) -> Iterator[Experiment]:
    """Lesson 10: depth against width, with about equally many parameters in the blocks (12·L·D²)."""
    widths = {1: 162, 3: 96, 6: 69, 12: 48} if scale.size == "cpu" else {1: 672, 3: 384, 6: 264, 12: 192}
    for depth, width in widths.items():
        options = {"depth": depth, "embed_dim": width, "num_heads": 3}
        yield from scale.seeded(2, "shape", f"depth-{depth}", scale.vit, short(scale), options=options)


def regularisers(scale: Scale) -> Iterator[Experiment]:
    """Lesson 10: each changes one thing of the base."""
    base = short(scale, "smoothing")
    changes: dict[str, tuple[dict, dict]] = {
        "base": ({}, {}),
        "dropout": ({}, {"drop_rate": 0.1}),
        "drop-path": ({}, {"drop_path_rate": 0.1}),
        "no-weight-decay": ({"weight_decay": 0.0}, {}),
        "weight-decay-0.3": ({"weight_decay": 0.3}, {}),
        "no-smoothing": ({"label_smoothing": 0.0}, {}),
        "mixup": ({"augment": replace(base.augment, mixup=MIXED.mixup)}, {}),
        "cutmix": ({"augment": replace(base.augment, cutmix=MIXED.cutmix)}, {}),
        "rand-augment": ({"augment": RAND_AUGMENT}, {}),
    }
    for name, (changed, options) in changes.items():
        config = replace(base, **changed)
        yield from scale.seeded(2, "regularisers", name, scale.vit, config, options=options)


def transfer(scale: Scale) -> Iterator[Experiment]:
    """Lesson 12: pre-trained bodies on 1, 10 and 100 percent of the labels; the start from nothing is in `fractions`.

    The nine classes are learned from pictures outside the experiments' own, which the CPU size leaves over; the
    GPU size uses half of all pictures for each.
    """
    small = scale.size == "cpu"
    pictures = scale.pictures or 25_000
    config = scale.recipes[scale.best]
    nine = Pretraining("nine-classes", "nine classes", "labels", replace(config, epochs=5 if small else 60))
    shapes = Pretraining("shapes", "shapes10", "labels", replace(config, epochs=8 if small else 30))
    for fraction in LABELS:
        run = scale.equal_steps(config, fraction * pictures / scale.total)
        for kind, start, changed, more in (
            ("classes", nine, {}, {}),
            ("shapes", shapes, {}, {}),
            ("probe", nine, {}, {"trainable": ("head",)}),
            ("decay", nine, {"layer_decay": 0.75}, {}),
        ):
            label, run_config = f"{kind}-{round(100 * fraction)}", replace(run, **changed)
            more = {"pictures": pictures, "fraction": fraction, "start": start, **more}
            yield from scale.seeded(3 if small else 1, "transfer", label, scale.vit, run_config, **more)


def resolution(scale: Scale) -> Iterator[Experiment]:
    """Lesson 12: a model trained at 32 pixels goes on at 48, or at 32, for a short time."""
    config = scale.recipes[scale.best]
    start = Pretraining("same-pictures", "same", "labels", config)
    run = replace(config, epochs=max(1, scale.epochs // 5), lr=config.lr / 4)
    for name, more in (
        ("interpolated", {"img_size": 48}),
        ("random-positions", {"img_size": 48, "new_positions": True}),
        ("same-size", {}),
    ):
        yield from scale.seeded(
            scale.seeds, "resolution", name, scale.vit, run, start=start, keep_head=True, **more
        )


def masked(scale: Scale) -> Iterator[Experiment]:
    """Lesson 13: masked patch prediction on the pictures without labels, then 1, 10 and 100 percent of the labels."""
    config = scale.recipes[scale.best]
    long = replace(config, epochs=2 * scale.epochs if scale.size == "cpu" else 300, label_smoothing=0.0)
    for task in ("colours", "pixels"):
        start = Pretraining(f"masked-{task}", "same", task, long)
        for fraction in LABELS:
            run = scale.equal_steps(config, fraction)
            label = f"{task}-{round(100 * fraction)}"
            more = {"fraction": fraction, "start": start}
            yield from scale.seeded(scale.seeds, "masked", label, scale.vit, run, **more)
