"""How long is an epoch of the course's engine, eager and compiled, and how near is that to what the GPU could do?

python experiments/benchmarks/epoch_speed.py --device cuda
python experiments/benchmarks/epoch_speed.py --device cpu --pictures 256 --batch-size 32 --modes eager --models cifar
"""

import argparse
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import torch
from floors import step_floors
from torch import nn

from vit_course.data import Dataset
from vit_course.recipes import RECIPES
from vit_course.resnet import cifar_resnet18
from vit_course.train import train
from vit_course.training.device import get_device
from vit_course.vit import VisionTransformer

VITS = {
    "cifar": (12, 192, 768, 3),
    "wide-7": (7, 384, 384, 12),
    "wide-6": (6, 384, 1536, 6),
    "wide-9": (9, 384, 1536, 6),
}
"""Depth, width, width of the MLP and heads; 32x32 pictures, patches of 4, 10 classes."""
MODES = ("eager", "compiled")


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    if name == "resnet18":
        return cifar_resnet18()
    depth, dim, hidden, heads = VITS[name]
    return VisionTransformer(32, 4, embed_dim=dim, depth=depth, num_heads=heads, mlp_ratio=hidden / dim)


def random_pictures(count: int) -> Dataset:
    """Pictures of noise: the engine is as fast on them as on others."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8)
    labels = torch.randint(10, (count,), generator=generator)
    classes = tuple(str(k) for k in range(10))
    return Dataset(images, labels, images[:100], labels[:100], classes, f"{count:,} pictures of noise")


def epoch_seconds(name: str, dataset: Dataset, mode: str, options: argparse.Namespace) -> list[float]:
    """Train for some epochs and return the seconds of each; the first holds the compilation."""
    config = replace(
        RECIPES[options.recipe],
        epochs=options.epochs + 1,
        batch_size=options.batch_size,
        augment_ahead=options.ahead,
        device=str(options.device),
        quiet=True,
        compile=mode == "compiled",
    )
    marks = [0.0]
    train(build(name), dataset, config, on_epoch=lambda history: marks.append(history.seconds))
    return [later - earlier for earlier, later in pairwise(marks)]


def floors_of_epoch(name: str, options: argparse.Namespace) -> tuple[float, float]:
    """Compute matrix floor and roofline of an epoch, in seconds; nan for what is no ViT, and off the GPU."""
    if name not in VITS or options.device.type != "cuda":
        return float("nan"), float("nan")
    matrix, roofline = step_floors(*VITS[name][:3], 65, options.tflops, options.terabytes)
    pictures = options.pictures // options.batch_size * options.batch_size
    return matrix * pictures, roofline * pictures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=torch.device, default=get_device())
    parser.add_argument("--models", nargs="+", choices=[*VITS, "resnet18"], default=[*VITS, "resnet18"])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--recipe", choices=RECIPES, default="mixed")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--ahead", type=int, default=8, help="batches that are augmented at once")
    parser.add_argument("--pictures", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=4, help="measured epochs; one more comes first")
    parser.add_argument("--tflops", type=float, default=790.0, help="of the matrix units, bfloat16, dense")
    parser.add_argument("--terabytes", type=float, default=4.8, help="of memory traffic a second")
    parser.add_argument("--cores", type=int, default=torch.get_num_threads(), help="threads of torch")
    parser.add_argument("--out", type=Path, help="also write the numbers as JSON lines")
    options = parser.parse_args()

    torch.set_num_threads(options.cores)
    print(f"{options.device}, {options.cores} threads, torch {torch.__version__}")
    print(f"recipe {options.recipe}, {options.pictures:,} pictures an epoch, batches of {options.batch_size}")
    print(f"floors for {options.tflops:g} TFLOP/s and {options.terabytes:g} TB/s; seconds of an epoch\n")
    print(f"{'':10} {'':9} {'first':>7} {'median':>7} {'images/s':>9} {'matrix':>7} {'roofline':>8} {'x':>6}")
    dataset = random_pictures(options.pictures)
    for name in options.models:
        matrix, roofline = floors_of_epoch(name, options)
        for mode in options.modes:
            first, *others = epoch_seconds(name, dataset, mode, options)
            median = sorted(others)[len(others) // 2]
            images = options.pictures // options.batch_size * options.batch_size / median
            print(
                f"{name:10} {mode:9} {first:7.2f} {median:7.3f} {images:9,.0f} {matrix:7.3f} {roofline:8.3f} "
                f"{median / roofline:6.1f}",
                flush=True,
            )
            if options.out:
                line = {"model": name, "mode": mode, "first": first, "epochs": others}
                if options.device.type == "cuda" and name in VITS:
                    line |= {"matrix": matrix, "roofline": roofline}
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
