"""What one experiment is: a training run described as data, and what it costs one core.

`studies` lists the experiments, `run` runs them, `records` keeps what came out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vit_course.data import Dataset, shapes10
from vit_course.train import TrainConfig
from vit_course.vit import VIT_SIZES

SIZES = ("cpu", "gpu")
ALL_PICTURES = 50_000
"""Training pictures of CIFAR-10, for which the studies are planned."""
SECONDS = {"resnet-small": 1 / 600, "linear": 1 / 10_000, "backbone": 1 / 950}
"""Seconds in which one core trains on a picture, in the engine that is fastest there: measured on a processor with bf16
units. "backbone" is the ResNet of a hybrid."""
SECONDS_A_TOKEN = {32: 3e-6, 48: 7.6e-6, 64: 6e-6, 96: 13.5e-6, 128: 13.5e-6, 160: 18e-6, 192: 25e-6}
"""The same for one token in one layer of a ViT, by its width."""


@dataclass(frozen=True)
class Pretraining:
    """What a model learns before the experiment proper; the weights are kept and used by all that share them.

    Attributes:
        name: names the weights, with size and seed.
        data: "nine classes" of pictures that the experiment does not use, or "same", its own pictures.
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

    Where not all pictures are used, every seed draws others.

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
        resolutions: sides in pixels at which the trained model is also scored, without more training.
        snapshots: epochs after which the weights are kept, in half precision; 0 is before the first step. Those of the
            last epoch are kept with them.
        shapes: learn Shapes-10 instead of the data set of the command.
        held_out: a trial that chooses settings: so many training pictures are scored in the place of the test pictures.
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
    resolutions: tuple[int, ...] = ()
    snapshots: tuple[int, ...] = ()
    shapes: bool = False
    held_out: int = 0

    @property
    def label(self) -> str:
        """Name among all of a size, whatever the seed: "ladder/plain"."""
        return f"{self.group}/{self.name}"

    @property
    def stem(self) -> str:
        """Path of the record below `data/runs/`, and of what a run keeps below `data/queue/`, without ending."""
        return f"{self.size}/{self.label}-seed{self.config.seed}"

    def pictures_of(self, dataset: Dataset) -> tuple[Dataset, Dataset]:
        """Return the experiment's pictures, and the share of them whose labels it learns."""
        seed = self.config.seed
        if self.shapes:
            dataset = shapes10(train=self.pictures or 8_000, test=2_000)
        if self.held_out:
            dataset = dataset.hold_out(self.held_out)
        own = dataset.subset(self.pictures, seed=seed) if self.pictures else dataset
        if self.fraction == 1:
            return own, own
        return own, own.subset(round(len(own.train_images) * self.fraction), seed=seed)


def core_minutes(experiments: Sequence[Experiment]) -> list[float]:
    """Estimate the minutes of one CPU core for each experiment of the CPU size; nan for the GPU's.

    A pre-training is counted where it is first needed.
    """
    minutes, made = [], set()
    for one in experiments:
        if one.size != "cpu":
            minutes.append(float("nan"))
            continue
        seconds = pictures_shown(one.config, used_pictures(one)) * seconds_a_picture(one, one.img_size or 32)
        start = one.start
        if start and (start.name, one.config.seed) not in made:
            made.add((start.name, one.config.seed))
            seconds += pictures_shown(start.config, pretraining_pictures(one)) * seconds_a_picture(one, 32)
        minutes.append(seconds / 60)
    return minutes


def used_pictures(experiment: Experiment) -> int:
    """Count the pictures that an experiment learns from."""
    return round((experiment.pictures or ALL_PICTURES - experiment.held_out) * experiment.fraction)


def pretraining_pictures(experiment: Experiment) -> int:
    """Count the pictures that the pre-training of an experiment learns from."""
    own = experiment.pictures or ALL_PICTURES
    return {"same": own, "nine classes": (ALL_PICTURES - own) * 9 // 10}[experiment.start.data]


def pictures_shown(config: TrainConfig, count: int) -> int:
    """Count how many pictures a run over `count` of them sees, repeats included: all its full batches."""
    steps = round(config.epochs * ((count - config.validation) // config.batch_size))
    return steps * config.batch_size


def showing(config: TrainConfig, shown: int, count: int) -> TrainConfig:
    """Change epochs, and the batch if it must be, so that `count` pictures are repeated until so many are shown."""
    batch = min(config.batch_size, count)
    return replace(config, epochs=round(shown / (count // batch * batch)), batch_size=batch)


def seconds_a_picture(experiment: Experiment, side: int) -> float:
    """Estimate how long one core trains on a picture of this side in pixels."""
    if experiment.model in SECONDS:
        wider = experiment.options.get("width", 16) / 16
        return SECONDS[experiment.model] * wider**1.6  # a convolution of many channels is the quicker one
    size, patch = experiment.model.removeprefix("R-").split("/")
    shape = {**VIT_SIZES[size], **experiment.options}
    config = experiment.config
    tokens = (side // int(patch)) ** 2 * (1 - config.keep_until * (1 - config.keep_tokens)) + 1
    seconds = SECONDS_A_TOKEN[shape["embed_dim"]] * shape["depth"] * tokens
    return seconds + (SECONDS["backbone"] if experiment.model.startswith("R-") else 0)
