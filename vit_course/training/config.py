"""What a training run depends on, and what it records: `TrainConfig` and `History`, which `train` takes and returns."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from torch import Tensor, nn

from vit_course.augment import AugmentConfig
from vit_course.training.validate_config import Range, require_ranges

Objective = Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, Tensor]]
"""What a run minimises: of model, images (B, C, H, W) and targets (B, K) the mean loss and the share of hits."""
RESUMABLE = ("device", "quiet", "compile")
"""What may differ between a run and its continuation. The others change what is learned."""
LARGEST_RATE = 100
"""No recipe comes near it: a larger rate is a slip in typing, after which a loss may still be a number."""


@dataclass
class TrainConfig:
    """What a training run depends on, besides model and data.

    Attributes:
        epochs: passes over the training pictures; the last one may be a part, for example 4.5.
        batch_size: pictures per step, over all processes together.
        lr: peak learning rate.
        weight_decay: decay of AdamW, Muon or SGD, on weight matrices alone.
        warmup_epochs: epochs during which the learning rate rises linearly to its peak.
        schedule: how the rate falls to zero after that: along half a "cosine", or along a straight line, "linear".
        label_smoothing: share of the target spread over all classes.
        grad_clip: largest norm of the gradient, 0 for no limit.
        augment: what happens to the pictures.
        mix_until: how long MixUp and CutMix are on, as a share of the run's steps; 1 to its end.
        optimizer: "adamw", "sgd" (Nesterov, momentum .9) or "muon" (hidden matrices and kernels; AdamW for the rest).
        rest_lr: peak learning rate of that AdamW; 0 for Muon's.
        qkv_matrices: what Muon takes `attn.qkv` for: 1 matrix of 3D rows, or 3 of D rows.
        layer_decay: factor by which the learning rate shrinks from each layer of a ViT to the one before it, in
            fine-tuning; 1 for none.
        ema: decay of an averaged copy of the weights, which is then scored and kept; 0 for none.
        keep_tokens: share of the patch tokens that a step of a ViT's first part computes (`speedups`), or, with
            "size", of a ResNet's pixels; 1 for all.
        keep_until: how long that part is, as a share of the run's steps.
        keep_by: all pictures of a "batch" keep the same places, each "picture" its own, or all get a smaller "size".
        validation: pictures held out from the training set and scored after every epoch.
        seed: fixes everything that is drawn at random during the run.
        device: "cpu", "cuda", "mps", or "auto" (`get_device`).
        precision: "float32", "bfloat16", or "auto" for the faster one here, which the history names
            (`training.engine`).
        compile: compile the model with torch.compile, worth its half minute on a GPU in long runs; a ViT's kernels are
            also recorded there, once, and replayed (`training.compiled`).
        augment_ahead: batches that are augmented in one go, which keeps a GPU busy.
        quiet: no printed lines, and a progress bar only where somebody looks at a notebook.

    Raises:
        ValueError: if a value lies outside its range; the message names the field and the range.
    """

    epochs: Annotated[float, Range(0, 1_000_000, low_open=True)] = 10
    batch_size: Annotated[int, Range(1)] = 128
    lr: Annotated[float, Range(0, LARGEST_RATE, low_open=True)] = 1e-3
    weight_decay: Annotated[float, Range(0, LARGEST_RATE)] = 0.05
    warmup_epochs: Annotated[float, Range(0)] = 1.0
    schedule: Literal["cosine", "linear"] = "cosine"
    label_smoothing: Annotated[float, Range(0, 1, high_open=True)] = 0.0
    grad_clip: Annotated[float, Range(0)] = 1.0
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    mix_until: Annotated[float, Range(0, 1)] = 1.0
    optimizer: Literal["adamw", "sgd", "muon"] = "adamw"
    rest_lr: Annotated[float, Range(0, LARGEST_RATE)] = 0.0
    qkv_matrices: Literal[1, 3] = 1
    layer_decay: Annotated[float, Range(0, 1, low_open=True)] = 1.0
    ema: Annotated[float, Range(0, 1, high_open=True)] = 0.0
    keep_tokens: Annotated[float, Range(0, 1, low_open=True)] = 1.0
    keep_until: Annotated[float, Range(0, 1)] = 0.0
    keep_by: Literal["batch", "picture", "size"] = "batch"
    validation: Annotated[int, Range(0)] = 0
    seed: Annotated[int, Range(0, 2**32 - 1)] = 0
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = False
    augment_ahead: Annotated[int, Range(1)] = 1
    quiet: bool = False

    def __post_init__(self) -> None:
        require_ranges(self)


@dataclass
class History:
    """What a run recorded: one number per epoch, and the test accuracy after the last epoch.

    Accuracies are shares in 0..1, losses are nats, times are seconds. `train_loss` and `train_accuracy` are of
    the augmented pictures as they were trained on. `val_accuracy` is empty without held-out pictures.
    `cpu_seconds` is the processor time of the run on all its threads, `seconds` the clock's; neither counts scoring.
    `step_loss`, `step_accuracy` and `step_lr` have one number per step. `engine` says how the steps were computed.
    `starts` has an entry for every time that a run with a folder was begun or gone on with on a CPU: "step" and
    "cpu_seconds" so far, and "processor" (`describe_processor`).
    `interrupted` tells that Ctrl-C ended the run.
    """

    config: dict
    provenance: str
    device: str
    engine: dict = field(default_factory=dict)
    starts: list[dict] = field(default_factory=list)
    train_loss: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    val_accuracy: list[float] = field(default_factory=list)
    step_loss: list[float] = field(default_factory=list)
    step_accuracy: list[float] = field(default_factory=list)
    step_lr: list[float] = field(default_factory=list)
    test_accuracy: float = float("nan")
    test_loss: float = float("nan")
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    interrupted: bool = False
