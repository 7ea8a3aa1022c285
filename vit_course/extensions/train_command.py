"""The command line of `python -m vit_course train`, from its options to a model that can be used."""

import argparse
import inspect
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from vit_course.data import Dataset, load_dataset
from vit_course.extensions.backbone import Backbone, load_backbone
from vit_course.extensions.trained import weights_file, write_trained
from vit_course.extensions.transfer import add_low_rank, freeze, merge_low_rank, normalised_as, replace_head
from vit_course.recipes import MODELS, RECIPES, build_model, run_record
from vit_course.train import train
from vit_course.training.config import TrainConfig
from vit_course.training.device import get_device
from vit_course.training.run_folder import CHECKPOINT, own_folder
from vit_course.training.validate_config import allowed_values
from vit_course.training.version import code_version

POSITIONS = {"pos_embed": "--pos-embed", "pos_embed_at": "--pos-embed-at"}
MODEL_OPTIONS = {"drop_path_rate": "--drop-path", **POSITIONS, "global_pool": "--pool"}
"""By the name of an argument of a ViT its option on the command line."""
OVERRIDES = {name: a for name, a in allowed_values(TrainConfig).items() if a.kind in (int, float, str)}
MEANINGS = dict(re.findall(r"^ {4}(\w+): ([^.]*)", inspect.getdoc(TrainConfig) or "", re.MULTILINE))
"""By the name of a field of `TrainConfig` the first sentence about it in the docstring."""
ARGUMENTS = "command.json"
"""The file in the folder of a run that keeps its options, from which `--resume` reads them."""
ENOUGH_STEPS = 300
"""Steps that a tuning has at least, unless the command line names the epochs; other runs are warned below them."""
TUNING_RATES = {"all": RECIPES["tune"].lr, "lora": 5e-3, "head": 3e-2}
"""Learning rates of the recipe `tune`: the fewer numbers learn, the larger. `docs/use.md` has the measurement."""
RATES = ", ".join(f"{rate:g} for {way}" for way, rate in TUNING_RATES.items())


def command_line() -> argparse.ArgumentParser:
    """Make the parser. Every number of a recipe has an option, whose help is that of `TrainConfig`."""
    parser = argparse.ArgumentParser("python -m vit_course train", description="Train an image classifier.")
    add = parser.add_argument
    add("--model", help="ViT as size/patch, hybrid as R-size/pixels a token, resnet18, resnet-small, linear")
    add("--from", dest="source", help="trained weights to begin with: a run, cifar-vit, or a public file")
    add("--tune", choices=TUNING_RATES, help=f"what --from trains; by default --lr is {RATES}")
    add("--recipe", choices=RECIPES, help="settings, some with a model (default: mixed, or tune with --from)")
    add("--data", default="auto", help="auto, cifar10, shapes10 or a folder")
    add("--image-size", type=int, help="side of the images in pixels, for a folder or for Shapes-10")
    add("--train", type=int, help="number of training images to use (default: all)")
    add("--test", type=int, help="number of test images to use (default: all)")
    for name, allowed in OVERRIDES.items():
        limits = f" ({allowed})" if allowed.range else ""
        add(f"--{name.replace('_', '-')}", type=allowed.kind, help=MEANINGS.get(name, name) + limits)
    add("--drop-path", type=float, dest="drop_path_rate", help="of a ViT (a number at least 0 and below 1)")
    add("--pos-embed", help="positions of a ViT (learned, 2d, sincos, relative or none)")
    add("--pos-embed-at", help="place where positions are added (stem, every or shared)")
    add("--pool", dest="global_pool", help="input of the head of a ViT (token for CLS, avg for the mean)")
    add("--compile", action="store_true", help="compile the model (GPU)")
    add("--out", type=Path, help="folder for model, checkpoint, log and record")
    add("--resume", action="store_true", help="continue the run in --out with its own options")
    return parser


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; with `--resume` it starts with the options of the run, and new ones replace them."""
    parser = command_line()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    options = parser.parse_args(arguments)
    if options.resume and not options.out:
        parser.error("--resume needs --out, the folder of the run")
    if options.resume and (kept := options.out / ARGUMENTS).exists():
        arguments = [*json.loads(kept.read_text(encoding="utf-8")), *arguments]
        options = parser.parse_args(arguments)
    typed = [option for name, option in MODEL_OPTIONS.items() if getattr(options, name) is not None]
    chosen = ["--model"] * (options.model is not None) + typed
    if options.source and chosen:
        parser.error(f"--from brings its own model: leave {' and '.join(chosen)} out")
    if options.tune and not options.source:
        parser.error("--tune needs --from, the trained weights")
    options.arguments = [argument for argument in arguments if argument != "--resume"]
    options.recipe = options.recipe or ("tune" if options.source else "mixed")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 1 after an error, 130 after Ctrl-C."""
    options = parse(arguments)
    distributed = "LOCAL_RANK" in os.environ
    try:
        if distributed:
            # On a CPU the default could use CUDA.
            dist.init_process_group("gloo" if get_device(options.device or "auto").type == "cpu" else None)
        return train_and_record(options)
    except KeyboardInterrupt as stop:
        again = f"python -m vit_course train --out {shlex.quote(str(options.out))} --resume"
        how = f"Go on with: {again}" if options.out and (options.out / CHECKPOINT).exists() else ""
        print(f"Stopped {str(stop).partition(';')[0]}. {how}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `commands.run_command` ends quietly
        raise
    except (ValueError, ArithmeticError, MemoryError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        if distributed and dist.is_initialized():
            dist.destroy_process_group()


def train_and_record(options: argparse.Namespace) -> int:
    """Train as the command line asks, and write the record and the model into its folder."""
    config = configured(options)
    size = {"img_size": options.image_size} if options.image_size else {}
    source = load_backbone(options.source, **size) if options.source else None
    dataset = pictures(options, source)
    if source and options.recipe == "tune":
        config = tuning_config(options, config, len(dataset.train_images) - config.validation)
    torch.manual_seed(config.seed)
    model, about = tuned(source, dataset, options.tune) if source else new_model(options, dataset)
    first = not dist.is_initialized() or dist.get_rank() == 0
    if options.out and first and not (options.out / CHECKPOINT).exists():
        with own_folder(options.out, resume=False):  # not while another run uses it
            (options.out / ARGUMENTS).write_text(json.dumps(options.arguments) + "\n", encoding="utf-8")
    if options.tune in ("lora", "head") and first and not config.quiet:
        learn = sum(p.numel() for p in model.parameters() if p.requires_grad)
        print(f"{learn:,} of {sum(p.numel() for p in model.parameters()):,} numbers learn.")
    steps = round(config.epochs * (len(dataset.train_images) // config.batch_size))
    if steps < ENOUGH_STEPS and first and not (config.quiet or options.resume or source):
        advice = "Try more --epochs, a smaller --batch-size or trained weights (--from cifar-vit)."
        print(f"This run has {steps} step{'s' * (steps != 1)}: few to learn from. {advice}")
    history = train(model, dataset, config, options.out, options.resume)
    merge_low_rank(model)
    if options.out and first:
        name = options.source or about["model"]
        record = run_record(f"{name} {options.recipe}", name, model, dataset, history)
        record |= {"recipe": options.recipe, "arguments": options.arguments, "code": code_version()}
        mean, std = (values.tolist() for values in dataset.channel_stats())
        record |= {"img_size": list(dataset.train_images.shape[-2:]), "mean": mean, "std": std}
        record |= {"classes": list(dataset.classes), **about}
        (options.out / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        write_trained(options.out, model, record)
        print(f"To use it: python -m vit_course predict {shlex.quote(str(options.out))} PHOTO")
    return 0


def configured(options: argparse.Namespace) -> TrainConfig:
    """Return the recipe with what the command line overrides; it is checked before anything is loaded."""
    given = {name: value for name in OVERRIDES if (value := getattr(options, name)) is not None}
    config = replace(RECIPES[options.recipe], **given)
    config.compile |= options.compile
    if options.warmup_epochs and config.warmup_epochs > config.epochs:
        raise ValueError(f"warmup_epochs is {config.warmup_epochs:g}, more than epochs, {config.epochs:g}")
    for name, count in (("train", options.train), ("test", options.test)):
        if count is not None and count < 1:
            raise ValueError(f"{name} is {count}: it should be a whole number at least 1")
    if options.resume and not (options.out / CHECKPOINT).exists():
        raise ValueError(f"--resume finds no {CHECKPOINT} in {options.out}: leave it out to begin a run")
    if options.out and not options.resume and (options.out / CHECKPOINT).exists():
        raise ValueError(f"{options.out} holds a run: --resume it, use another folder, or delete it")
    if options.source and not weights_file(options.source).exists():
        raise FileNotFoundError(f"no {options.source} here: 'Public weights' in docs/use.md fetches some")
    return config


def tuning_config(options: argparse.Namespace, config: TrainConfig, images: int) -> TrainConfig:
    """Give a tuning its learning rate, enough steps and no batch larger than its images; what was typed stays."""
    batch = options.batch_size or max(1, min(config.batch_size, images))
    epochs = options.epochs or max(config.epochs, -(-ENOUGH_STEPS // max(1, images // batch)))
    rate = options.lr or TUNING_RATES[options.tune or "all"]
    return replace(config, batch_size=batch, epochs=epochs, lr=rate)


def pictures(options: argparse.Namespace, source: Backbone | None) -> Dataset:
    """Load the data set, with the image size and the normalisation of the trained weights, if there are any."""
    size = options.image_size if source is None else tuple(source.img_size)
    dataset = load_dataset(options.data, image_size=size).subset(options.train, options.test)
    return dataset if source is None else normalised_as(dataset, source.mean, source.std)


def new_model(options: argparse.Namespace, dataset: Dataset) -> tuple[nn.Module, dict[str, Any]]:
    """Build a new model; also say how, for its record."""
    own = MODELS.get(options.recipe, ("Micro/4", {}))
    name, extra = (options.model, {}) if options.model else own
    given = {option: value for option in MODEL_OPTIONS if (value := getattr(options, option)) is not None}
    extra = extra | given
    return build_model(name, dataset, **extra), {"model": name, "options": extra}


def tuned(source: Backbone, dataset: Dataset, tune: str | None) -> tuple[nn.Module, dict[str, Any]]:
    """Give trained weights a head of zeros for other classes; also say how to build such a model."""
    model = replace_head(source.model, len(dataset.classes))
    if tune == "head":
        freeze(model)
    elif tune == "lora":
        add_low_rank(model)
    return model, source.built_with_new_head()
