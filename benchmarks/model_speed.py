"""How fast is our ViT, in training and inference, next to four well-known ones of the same dimensions?

Every model is measured in every engine that a run may choose, so the peers are there as they come and at their best.

python benchmarks/model_speed.py --device cpu --size cifar --batch-size 32 --rounds 9
"""

import argparse
import copy
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from statistics import median

import torch
import torch.nn.functional as F
from rounds import describe_machine, print_table, rates, use_cores, wait_for
from torch import Tensor, nn

from vit_course.machinery.device import get_device
from vit_course.machinery.engine import FAST, REFERENCE, Engine
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


class Logits(nn.Module):
    """Take the logits out of what a model of transformers returns."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images).logits


def transformers(depth: int, dim: int, heads: int) -> nn.Module:
    library = import_module("transformers")
    config = library.ViTConfig(
        hidden_size=dim,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=4 * dim,
        image_size=32,
        patch_size=4,
        num_labels=10,
        attn_implementation="sdpa",
    )
    return Logits(library.ViTForImageClassification(config))


def vit_pytorch(depth: int, dim: int, heads: int) -> nn.Module:
    vit = import_module("vit_pytorch").ViT
    return vit(
        image_size=32,
        patch_size=4,
        num_classes=10,
        dim=dim,
        depth=depth,
        heads=heads,
        dim_head=dim // heads,
        mlp_dim=4 * dim,
    )


GPU_ENGINES = (REFERENCE, Engine("bfloat16", "fused", True))
SHORT = {
    Engine("float32", "fused", False): "float32",
    Engine("bfloat16", "fused", True): "bfloat16",
    Engine("bfloat16", "written out", True): "bfloat16, attention written out",
}
"""What the tables call the engines."""

MODELS = {
    "ours": ours,
    "timm": timm,
    "torchvision": torchvision,
    "transformers": transformers,
    "vit-pytorch": vit_pytorch,
}


def build_models(size: dict[str, int], options: argparse.Namespace) -> dict[str, nn.Module]:
    """Build the models that are installed, and say which are not."""
    models = {}
    for name, build in MODELS.items():
        try:
            torch.manual_seed(0)
            model = build(**size).to(options.device)
            models[name] = torch.compile(model) if options.compile else model
        except ImportError as error:
            print(f"left out: {name} ({error}); pip install {name}")
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


def repeat(step: Callable[[], None], times: int, images: int) -> int:
    for _ in range(times):
        step()
    return times * images


def measure(title: str, steps: dict[str, Callable[[], None]], options: argparse.Namespace) -> None:
    """Let every rival do as many steps a round as ours in float32 needs to fill `--seconds`, the same for all."""
    slowest = steps[f"ours, {SHORT[REFERENCE]}"]
    for _ in range(3):
        wait_for(options.device)
        start = time.perf_counter()
        slowest()
        wait_for(options.device)
        once = time.perf_counter() - start
    times = max(1, round(options.seconds / once))
    rivals = {name: partial(repeat, step, times, options.batch_size) for name, step in steps.items()}
    result = rates(rivals, options.rounds, options.device)
    best = max((name for name in result if name.startswith("ours")), key=lambda name: median(result[name]))
    title = f"{title}, {times} steps of {options.batch_size} images, {options.rounds} rounds"
    print_table(f"{title}; compared with {best}", result, best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=torch.device, default=get_device())
    parser.add_argument("--size", choices=SIZES, default="cifar")
    parser.add_argument("--batch-size", type=int, help="default: 32 on the CPU, else 512")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0, help="about so long a model runs in a round")
    parser.add_argument("--compile", action="store_true", help="with torch.compile, all models alike")
    parser.add_argument("--cores", type=int, help="threads of torch, default: all cores")
    options = parser.parse_args()
    options.batch_size = options.batch_size or (32 if options.device.type == "cpu" else 512)

    print(describe_machine(options.device, use_cores(options.cores)))
    models = build_models(SIZES[options.size], options)
    print(
        "parameters: "
        + ", ".join(f"{n} {sum(p.numel() for p in m.parameters()):,}" for n, m in models.items())
    )
    images = torch.randn(options.batch_size, 3, 32, 32, device=options.device)
    labels = torch.randint(10, (options.batch_size,), device=options.device)
    eager = "compiled" if options.compile else "eager"
    engines = GPU_ENGINES if options.device.type == "cuda" else (REFERENCE, FAST)
    steps, looks = {}, {}
    for engine in engines:
        for name, model in models.items():
            label, trained = f"{name}, {SHORT[engine]}", copy.deepcopy(model).train()
            fused = engine.fused_optimizer or None
            optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-4, fused=fused)
            steps[label] = partial(training_step, trained, optimizer, images, labels, engine)
            looks[label] = partial(inference, model.eval(), images, engine)
    measure(f"Training step ({options.size}, {eager})", steps, options)
    measure(f"Inference ({options.size}, {eager})", looks, options)


if __name__ == "__main__":
    main()
