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
"""Settings that may differ between a run and its continuation. All others change what the model learns."""
LARGEST_RATE = 100
"""No recipe comes near it. A larger rate is a typing error, after which the loss may still be a number."""


@dataclass
class TrainConfig:
    """What a training run depends on, besides model and data.

    Attributes:
        epochs: number of passes over the training images. The last one may be a part, for example 4.5.
        batch_size: images in a step, over all processes together.
        lr: peak learning rate.
        weight_decay: decay of AdamW, Muon or SGD, on weight matrices alone.
        warmup_epochs: epochs in which the learning rate rises linearly to its peak.
        schedule: curve on which the learning rate then falls to zero, half a "cosine" or a "linear" line.
        label_smoothing: share of the target that is spread over all classes.
        grad_clip: largest norm of the gradient, or 0 for no limit.
        augment: augmentation of the images.
        mix_until: share of the steps, from the start, in which MixUp and CutMix are on.
        optimizer: "adamw", "sgd" (with Nesterov momentum) or "muon" (with AdamW for all but hidden matrices and
            kernels). The momentum of SGD is 0.9.
        rest_lr: peak learning rate of AdamW beside Muon, or 0 for the learning rate of Muon.
        qkv_matrices: number of matrices that Muon makes of the 3D rows for queries, keys and values, 1 or 3.
        layer_decay: factor from the learning rate of a layer of a ViT to that of the layer before it, in fine-tuning,
            or 1 for none.
        ema: decay of an averaged copy of the weights, which is scored and saved, or 0 for none.
        keep_tokens: share of the patch tokens that a ViT computes in the first part of a run, or 1 for all. It acts
            only if `keep_until` is above 0 (`extensions.step_wrappers`). With "size", it is a share of the pixels, also
            for a ResNet.
        keep_until: share of the steps, from the start, in which a ViT computes fewer tokens.
        keep_by: choice of the tokens, the same places for a "batch", other places for each "picture", or a smaller
            "size" for all images.
        validation: number of training images that are held out and scored after every epoch.
        seed: seed of all random numbers of the run.
        device: "cpu", "cuda", "mps", or "auto" for the best one on this machine.
        precision: "float32", "bfloat16", or "auto" for the faster one on this machine. The history names it
            (`training.engine`).
        compile: compile the model with torch.compile, which takes half a minute and is worth it in long runs on a GPU.
            The kernels of a ViT are also recorded there, once, and replayed (`training.compiled`).
        augment_ahead: number of batches that are augmented together, which keeps a GPU busy.
        quiet: print no lines, and show a progress bar only in a notebook that somebody looks at.

    Raises:
        ValueError: if a value is outside its range. The message names the field and the range.
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
