"""How fast is our ViT, in training and inference, next to those of timm and torchvision with the same dimensions?

Every model is measured in every engine that a run may choose, so the peers are there as they come and at their best.

python experiments/benchmarks/model_speed.py --device cpu --size cifar --batch-size 32 --rounds 9
"""

import argparse
import copy
from collections.abc import Callable
from functools import partial
from importlib import import_module
from statistics import median, quantiles

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.benchmark import Timer

from vit_course.training.device import get_device
from vit_course.training.engine import FAST, REFERENCE, Engine
from vit_course.vit import VisionTransformer

SIZES = {
    "cifar": {"depth": 12, "dim": 192, "heads": 3},
    "six-192": {"depth": 6, "dim": 192, "heads": 3},
    "six-96": {"depth": 6, "dim": 96, "heads": 3},
    "shallow": {"depth": 4, "dim": 192, "heads": 3},
}
"""32x32 pictures, patches of 4, an MLP of 4 times the width, 10 classes."""


def ours(depth: int, dim: int, heads: int) -> nn.Module:
    return VisionTransformer(img_size=32, patch_size=4, embed_dim=dim, depth=depth, num_heads=heads)


def timm(depth: int, dim: int, heads: int) -> nn.Module:
    vit = import_module("timm.models.vision_transformer").VisionTransformer
    return vit(img_size=32, patch_size=4, embed_dim=dim, depth=depth, num_heads=heads, num_classes=10)


def torchvision(depth: int, dim: int, heads: int) -> nn.Module:
    vit = import_module("torchvision.models.vision_transformer").VisionTransformer
    return vit(32, 4, num_layers=depth, num_heads=heads, hidden_dim=dim, mlp_dim=4 * dim, num_classes=10)


ENGINES = {"cpu": (REFERENCE, FAST), "cuda": (REFERENCE, Engine("bfloat16", "fused", True))}


def build_models(size: dict[str, int], options: argparse.Namespace) -> dict[str, nn.Module]:
    """Build the models that are installed, and say which are not."""
    models = {}
    for build in (ours, timm, torchvision):
        try:
            torch.manual_seed(0)
            model = build(**size).to(options.device)
        except ImportError as error:
            print(f"left out: {build.__name__} ({error}); pip install {build.__name__}")
            continue
        models[build.__name__] = torch.compile(model) if options.compile else model
        print(f"{build.__name__}: {sum(p.numel() for p in model.parameters()):,} parameters")
    return models


def training_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor, engine: Engine
) -> None:
    with engine.computing(images.device):
        loss = F.cross_entropy(model(images).float(), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


@torch.inference_mode()
def inference(model: nn.Module, images: Tensor, engine: Engine) -> None:
    with engine.computing(images.device):
        model(images)


def measure(title: str, steps: dict[str, Callable[[], None]], options: argparse.Namespace) -> None:
    """Let the rivals take turns, and print images/s and how many times as fast the best of ours is in each round."""
    timers = {
        name: Timer("step()", globals={"step": step}, num_threads=options.cores)
        for name, step in steps.items()
    }
    for timer in timers.values():
        timer.timeit(3)
    times = max(1, round(options.seconds / next(iter(timers.values())).timeit(1).mean))
    rounds = [
        {name: timer.timeit(times).mean for name, timer in timers.items()} for _ in range(options.rounds)
    ]
    rates = {name: options.batch_size / median(round_[name] for round_ in rounds) for name in steps}
    best = max((name for name in steps if name.startswith("ours")), key=rates.get)
    print(f"\n{title}, {times} steps of {options.batch_size} images, {options.rounds} rounds")
    print(f"{'':36}{'images/s':>10}   {best} / this one: median (middle half of the rounds)")
    for name, rate in rates.items():
        low, middle, high = quantiles(
            [round_[name] / round_[best] for round_ in rounds], n=4, method="inclusive"
        )
        print(f"  {name:34}{rate:10,.0f}   {middle:6.2f}  ({low:.2f} to {high:.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=torch.device, default=get_device())
    parser.add_argument("--size", choices=SIZES, default="cifar")
    parser.add_argument("--batch-size", type=int, help="default: 32 on the CPU, else 512")
    parser.add_argument("--rounds", type=int, default=9, help="at least 2")
    parser.add_argument("--seconds", type=float, default=1.0, help="about so long a model runs in a round")
    parser.add_argument("--compile", action="store_true", help="with torch.compile, all models alike")
    parser.add_argument("--cores", type=int, default=torch.get_num_threads(), help="threads of torch")
    options = parser.parse_args()
    options.batch_size = options.batch_size or (32 if options.device.type == "cpu" else 512)

    print(f"{options.device}, {options.cores} threads, torch {torch.__version__}")
    models = build_models(SIZES[options.size], options)
    images = torch.randn(options.batch_size, 3, 32, 32, device=options.device)
    labels = torch.randint(10, (options.batch_size,), device=options.device)
    steps, looks = {}, {}
    for engine in ENGINES.get(options.device.type, (REFERENCE,)):
        for name, model in models.items():
            label, trained = f"{name}, {engine.precision}", copy.deepcopy(model).train()
            fused = engine.fused_optimizer or None
            optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-4, fused=fused)
            steps[label] = partial(training_step, trained, optimizer, images, labels, engine)
            looks[label] = partial(inference, model.eval(), images, engine)
    eager = "compiled" if options.compile else "eager"
    measure(f"Training step ({options.size}, {eager})", steps, options)
    measure(f"Inference ({options.size}, {eager})", looks, options)


if __name__ == "__main__":
    main()
