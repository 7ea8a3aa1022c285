"""Named recipes and models; `extensions.train_command` is the command line that trains by them.

A recipe is a `TrainConfig`, printed in full into the record of every run. Each of the first six adds a step to the one
before (lesson 07), some of them of several parts.
"""

import copy
import platform
from dataclasses import asdict, replace
from math import ceil
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vit_course.augment import AugmentConfig
from vit_course.data import Dataset
from vit_course.extensions.hybrid import HybridViT, create_hybrid
from vit_course.extensions.modern import modernize
from vit_course.extensions.positions import with_positions
from vit_course.extensions.speedups import fewer_tokens
from vit_course.resnet import cifar_resnet18, small_resnet
from vit_course.train import linear_classifier
from vit_course.training.config import History, TrainConfig
from vit_course.training.processor import describe_processor
from vit_course.vit import VisionTransformer, create_vit, vit_flops

FLIP_CROP = AugmentConfig(crop_padding=4, flip=0.5)
RAND_AUGMENT = replace(FLIP_CROP, rand_augment_ops=2, rand_augment_magnitude=9, erasing=0.25)
WHOLE, MIXED = replace(RAND_AUGMENT, erasing=0.0), replace(RAND_AUGMENT, mixup=0.8, cutmix=1.0)

PLAIN = TrainConfig(optimizer="sgd", lr=0.05, weight_decay=5e-4, warmup_epochs=0.0, grad_clip=0.0)
ADAMW = TrainConfig(optimizer="adamw", lr=1e-3, weight_decay=0.05, warmup_epochs=1.0, grad_clip=1.0)
ON_GPU = {"batch_size": 512, "lr": 4e-3, "qkv_matrices": 3, "compile": True, "augment_ahead": 8}
FAST = replace(ADAMW, label_smoothing=0.1, optimizer="muon", lr=3e-3, schedule="linear", keep_tokens=0.5)

RECIPES = {
    "plain": PLAIN,
    "crop-flip": replace(PLAIN, augment=FLIP_CROP),
    "adamw": replace(ADAMW, augment=FLIP_CROP),
    "smoothing": replace(ADAMW, augment=FLIP_CROP, label_smoothing=0.1),
    "rand-augment": replace(ADAMW, augment=RAND_AUGMENT, label_smoothing=0.1),
    "mixed": replace(ADAMW, augment=MIXED, label_smoothing=0.1),
    "muon": replace(ADAMW, augment=MIXED, label_smoothing=0.1, optimizer="muon", lr=2e-3),
    "minutes": replace(FAST, epochs=5, augment=FLIP_CROP, warmup_epochs=0.25, keep_until=0.7),
    "quick": replace(FAST, epochs=2, batch_size=64, augment=FLIP_CROP, warmup_epochs=0.25, keep_until=0.7),
    "hours": replace(FAST, epochs=52, augment=WHOLE, qkv_matrices=3, keep_until=0.85),
    "gpu": replace(FAST, epochs=242.0, augment=MIXED, warmup_epochs=5, keep_until=0.5, **ON_GPU),
    "resnet": replace(PLAIN, augment=FLIP_CROP, lr=0.1, warmup_epochs=1.0, label_smoothing=0.1),
    "tune": replace(ADAMW, epochs=20, batch_size=16, lr=3e-4, augment=FLIP_CROP),
}
"""The first six are rungs of lesson 07 for a ViT; "minutes" is for a ViT that a class trains live (lesson 16),
"quick" for a smaller one that needs fewer of them, "hours" for one that learns over night, "gpu" for minutes of a GPU;
"resnet" is the ResNets' own recipe, and "tune" that of trained models that learn another task from few pictures."""
OF_STEPS = ("step_loss", "step_accuracy", "step_lr")
"""What a record leaves out of a history, because it is long."""
AVERAGED = {"global_pool": "avg", "class_token": False}
"""Options of a ViT whose head reads the average of the tokens."""
MODELS = {
    "minutes": ("Nano/4", {"embed_dim": 128, "depth": 6, "num_heads": 4, **AVERAGED}),
    "quick": ("Nano/4", {"embed_dim": 96, "depth": 4, "num_heads": 3, **AVERAGED}),
    "hours": ("Nano/4", {"embed_dim": 160, "depth": 6, "num_heads": 5}),
    "gpu": ("Micro/4", {"depth": 8, "num_heads": 6, "mlp_ratio": 2}),
}
"""Model and options that belong to a recipe; the others are for any model."""


def sizes(dataset: Dataset) -> tuple[int, int]:
    """Return the numbers of classes and channels, which a ResNet is built for."""
    return len(dataset.classes), dataset.train_images.shape[1]


OTHERS = {
    "resnet18": lambda dataset: cifar_resnet18(*sizes(dataset)),
    "resnet-small": lambda dataset, **width: small_resnet(*sizes(dataset), **width),
    "linear": linear_classifier,
}
"""The models that are no ViT, each built for the pictures and classes of a data set."""


def build_model(
    name: str,
    dataset: Dataset,
    pos_embed: str = "learned",
    pos_embed_at: str = "stem",
    modern: dict[str, Any] | None = None,
    **options,
) -> nn.Module:
    """Build a model by name for the pictures of a data set.

    Args:
        name: "resnet18", "resnet-small", "linear", a ViT as size/patch, for example "Micro/4", as papers do with
            "ViT-" before it or without, or a hybrid as "R-" + size/pixels per token, for example "R-Nano/8".
        dataset: gives the size and channels of the pictures and the number of classes.
        pos_embed: positions of a ViT or a hybrid, "none" or one of those of `with_positions`.
        pos_embed_at: where they are added: "stem", "every" or "shared".
        modern: parts of later years, arguments of `modernize`, for example {"rope": True}; for a ViT alone.
        options: arguments of `VisionTransformer`, for example `drop_path_rate`; for a ViT or a hybrid alone. For
            "resnet-small" the `width` of `small_resnet`.

    Raises:
        ValueError: if the name is unknown, the positions are, or a ResNet has no such option (a ViT: TypeError).
    """
    name = name.removeprefix("ViT-")
    if name in OTHERS:
        width = {"width": options.pop("width")} if name == "resnet-small" and "width" in options else {}
        given = [*options, *["pos_embed"] * ((pos_embed, pos_embed_at) != ("learned", "stem"))]
        given += ["modern"] * bool(modern)
        if given:
            raise ValueError(f"{name} has no {given[0]}: that is an option of a ViT or a hybrid")
        return OTHERS[name](dataset, **width)
    if modern and name.startswith("R-"):
        raise ValueError(f"{name} has no modern: that is an option of a ViT")
    create = create_hybrid if name.startswith("R-") else create_vit
    _, channels, *size = dataset.train_images.shape
    options |= {"img_size": tuple(size), "in_chans": channels, "num_classes": len(dataset.classes)}
    own = pos_embed_at == "stem" and pos_embed in ("learned", "sincos", "none")
    model = create(name, pos_embed=pos_embed if own else "none", **options)
    if modern:
        modernize(model, **modern)
    if not own:
        with_positions(getattr(model, "vit", model), pos_embed, pos_embed_at)
    return model


def forward_flops(model: nn.Module, dataset: Dataset) -> int:
    """Count the floating-point operations of one picture through a model: matrix products and convolutions.

    A ViT counts as it was built: what `extensions` puts in from outside, such as relative positions, is left out.
    """
    if isinstance(model, VisionTransformer):
        return vit_flops(model)
    if isinstance(model, HybridViT):
        return forward_flops(model.backbone, dataset) + vit_flops(model.vit)
    return counted_flops(model, dataset, training=False)


def counted_flops(model: nn.Module, dataset: Dataset, training: bool) -> int:
    """Count the operations of one picture through a model, as it computes in training or in evaluation."""
    image = torch.zeros(1, *dataset.train_images.shape[1:], device=next(model.parameters()).device)
    was_training = model.training
    if training:
        model = copy.deepcopy(model)  # the counted pass would move the means of batch norms
    # The fused kernel of attention counts as nothing on a CPU in older versions of torch.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        model.train(training)(image)
    model.train(was_training)
    return counter.get_total_flops()


def training_flops(model: nn.Module, dataset: Dataset, config: dict[str, Any], steps: int) -> int:
    """Count the operations of a training of so many steps by a recipe, given as in a record.

    A step is three forward passes of its batch: one forward, two backward. Tokens that it leaves out cost nothing in
    the blocks. Where parts are frozen, some of the backward pass is saved, and the number is an upper bound.
    """
    every = fewer = forward_flops(model, dataset)
    early, share = ceil(config["keep_until"] * steps), config["keep_tokens"]
    if share < 1:
        with fewer_tokens(model, share, config.get("keep_by", "batch")):
            fewer = counted_flops(model, dataset, training=True)
    return 3 * (early * fewer + (steps - early) * every) * config["batch_size"]


def run_record(name: str, model_name: str, model: nn.Module, dataset: Dataset, history: History) -> dict:
    """Collect all that is needed to read and to repeat a run; the content of a file in `data/runs/`."""
    device = torch.device(history.device)
    machine = f"{device.type} ({platform.machine()})"
    return {
        "name": name,
        "model": model_name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "forward_flops": forward_flops(model, dataset),
        "training_flops": training_flops(model, dataset, history.config, len(history.step_lr)),
        "data": history.provenance,
        "machine": torch.cuda.get_device_name(device) if device.type == "cuda" else machine,
        "threads": torch.get_num_threads(),
        "processor": describe_processor(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        **{key: value for key, value in asdict(history).items() if key not in OF_STEPS},
    }
