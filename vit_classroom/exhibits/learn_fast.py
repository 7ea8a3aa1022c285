"""What lesson 16 measures and draws beside its text: the price of a call, sheets of filters, the trials, the race."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.evidence.gains import Gain
from vit_classroom.plots import image_grid
from vit_course.augment import augment
from vit_course.data import Dataset, normalize
from vit_course.embeddings import pool
from vit_course.optim import SCHEDULES, Muon, make_optimizers, set_rates
from vit_course.recipes import FLIP_CROP, MODELS, build_model
from vit_course.training.console import progress_bar
from vit_course.training.device import get_device
from vit_course.training.engine import Engine, choose_engine
from vit_course.training.processor import one_thread
from vit_course.training.signals import Stopped, stop_on_signal
from vit_course.vit import VisionTransformer

SHAPE = MODELS["minutes"][1]
"""What the model of the race has otherwise than its name says."""
NOISE, LEFT = 64.0, 2_000
BATCH, WARMUP, STEPS = 128, 60, 1000


def core_seconds(call: Callable[[], Any], tries: int) -> float:
    """Return the processor time of the cheapest of some calls on one thread: other work can only add to it."""
    spent = []
    with one_thread():
        for _ in range(tries):
            begin = time.process_time()
            call()
            spent.append(time.process_time() - begin)
    return min(spent)


def filter_sheet(filters: Tensor, columns: int = 8) -> Tensor:
    """Lay filters (K, C, P, P) out in rows, (C, height, width) in 0..1.

    Grey is 0, the largest number of each filter has full colour, and a dark line parts them: a filter may be white.
    """
    scaled = filters / filters.abs().amax(dim=(1, 2, 3), keepdim=True) / 2 + 0.5
    parted = F.pad(scaled[: len(scaled) // columns * columns], (1, 1, 1, 1), value=0.0)
    return image_grid(parted, columns)


# -- the trials

TRICKS = {
    "adamw": "AdamW in place of Muon",
    "batch-64": "batches of 64, not 128",
    "batch-64-slower": "batches of 64, two thirds of the rate",
    "batch-256": "batches of 256, not 128",
    "batch-256-faster": "batches of 256, 1.5 times the rate",
    "by-picture": "other tokens for each image",
    "cls": "CLS token in place of the average",
    "cutmix": "CutMix",
    "decay-0": "no weight decay",
    "decay-0.2": "weight decay 0.2, not 0.05",
    "depth-4": "4 blocks, not 6",
    "depth-9": "9 blocks, not 6",
    "ema": "averaged weights",
    "float32": "float32 arithmetic",
    "heads-2": "2 heads, not 4",
    "linear": "linear schedule",
    "lr-0.002": "two thirds of the rate",
    "lr-0.0045": "1.5 times the rate",
    "lr-0.006": "twice the rate",
    "mimetic": "attention starts as in trained models",
    "mixup": "MixUp",
    "mlp-2": "MLP ratio 2, not 4",
    "no-smoothing": "no label smoothing",
    "qk-norm": "QK-norm",
    "qkv-3": "Muon on q, k, v one by one",
    "rand-augment": "RandAugment",
    "registers": "4 registers and CLS",
    "rest-0.001": "a third of the rate for AdamW's part",
    "rest-0.006": "twice the rate for AdamW's part",
    "silent": "every branch starts at zero",
    "sincos": "sine and cosine positions",
    "size-24": "smaller images first, not fewer tokens",
    "together": "three at once",
    "together-faster": "three at once, 1.5 times the rate",
    "together-longer": "three at once, half of the tokens longer",
    "tokens-3-8": "three eighths of the tokens first",
    "tokens-all": "all tokens, all the time",
    "tokens-half-longer": "half of the tokens for longer",
    "tokens-half-shorter": "half of the tokens for less long",
    "tokens-quarter": "a quarter of the tokens first",
    "whitened": "whitening filters",
    "width-96": "width 96, not 128",
    "width-160": "width 160, not 128",
}
"""What an arm of the trials changes, in words; of AdamW's rates the best one stands for all."""


def all_tricks(brought: Mapping[str, Gain]) -> list[Gain]:
    """Return what every arm brought, the best first, and of AdamW's rates the best alone."""
    adamw = [one for arm, one in brought.items() if arm.startswith("adamw")]
    return [one for one in brought.values() if one not in adamw[1:]]


def label(one: Gain) -> str:
    """Say what an arm changes, and whether it has more seeds than one."""
    name = TRICKS["adamw" if one.arm.startswith("adamw") else one.arm]
    return name + (f" ({len(one.scores)} seeds)" if len(one.scores) > 1 else "")


# -- the race


def race_data(dataset: Dataset) -> Dataset:
    """Return the images of the race: real ones as they are, drawings few and in strong noise.

    Clean drawings are learned to nearly the last one in three minutes, so a board of such runs would rank luck.
    """
    if "Shapes-10" not in dataset.provenance:
        return dataset
    few = dataset.subset(min(LEFT, len(dataset.train_labels)))
    noise = torch.Generator().manual_seed(0)

    def in_noise(images: Tensor) -> Tensor:
        noisy = images.float() + NOISE * torch.randn(images.shape, generator=noise)
        return noisy.round().clamp(0, 255).to(torch.uint8)

    images = {"train_images": in_noise(few.train_images), "test_images": in_noise(few.test_images)}
    return replace(few, **images, provenance=f"{few.provenance}, in strong noise")


@dataclass(frozen=True)
class Parts:
    """The student's functions, which the race runs."""

    newton_schulz: Callable
    drop_tokens: Callable
    whitening_filters: Callable


def race(
    seconds: float, data: Dataset, parts: Parts, settings: Mapping[str, Any]
) -> tuple[VisionTransformer, float]:
    """Train for so many seconds of the clock.

    Args:
        seconds: of the clock.
        data: images and labels.
        parts: functions that the run uses.
        settings: "optimizer" and "lr"; "keep", the share of the tokens at first, and "keep_until", the share of the
            time for which that holds; "schedule", the name of one in `SCHEDULES`; "whitened", whether E starts with
            whitening filters.

    Returns:
        The model and the processor seconds of the run, all threads together.

    Raises:
        Stopped: if somebody stops the race, which then has no result.
    """
    torch.manual_seed(0)
    device, stats, begin = get_device(), data.channel_stats(), time.process_time()
    model = build_model("Nano/8" if "Shapes-10" in data.provenance else "Nano/4", data, **SHAPE).to(device)
    side = model.patch_embed.proj.weight.shape[-1]
    if settings["whitened"]:
        start_with(model, parts.whitening_filters(normalize(data.train_images[:4000], *stats), side))
    optimizers = make_optimizers(model, settings["optimizer"], settings["lr"])
    for optimizer in optimizers:
        if isinstance(optimizer, Muon):
            optimizer.orthogonalize = parts.newton_schulz
    engine = quickest_engine(model, data)
    for share in clock(seconds):
        set_rates(optimizers, SCHEDULES[settings["schedule"]](int(STEPS * share), STEPS, WARMUP, 1.0))
        rows = torch.randint(len(data.train_labels), (BATCH,))
        images, labels = (part[rows].to(device) for part in (data.train_images, data.train_labels))
        images, targets = augment(images, labels, stats, len(data.classes), FLIP_CROP)
        with engine.computing(device):
            tokens = model.embed(images)
            if share < settings["keep_until"]:
                tokens = parts.drop_tokens(tokens, max(1, round(settings["keep"] * tokens.shape[1])))
            loss = F.cross_entropy(scores_of(model, tokens), targets, label_smoothing=0.1)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return model, time.process_time() - begin


def scores_of(model: VisionTransformer, tokens: Tensor) -> Tensor:
    """Let the blocks and the head read tokens (B, T, D), and return scores (B, K)."""
    return model.head(pool(model.norm(model.blocks(tokens)), "avg", 0))


@torch.no_grad()
def start_with(model: VisionTransformer, filters: Tensor) -> None:
    """Set the patch projection to filters and their negatives, as many as it has room for."""
    weight = model.patch_embed.proj.weight  # (D, C, P, P)
    both = torch.cat([filters, -filters])[: len(weight)].to(weight)
    weight[: len(both)] = both


def quickest_engine(model: nn.Module, data: Dataset) -> Engine:
    """Choose how steps are computed, in float32 or with bfloat16 products, by a step of each."""
    device = get_device()
    batch = normalize(data.train_images[:64].to(device), *data.channel_stats())

    def pass_in(engine: Engine) -> float:
        with engine.computing(torch.device("cpu")):
            return core_seconds(lambda: model(batch).logsumexp(dim=1).sum().backward(), tries=2)

    engine = choose_engine("auto", device, STEPS, pass_in)
    model.zero_grad()
    return engine


def clock(seconds: float) -> Iterator[float]:
    """Yield the share of the time that has passed, until it is over, or somebody stops the race."""
    begin = time.perf_counter()
    look = "{l_bar}{bar}| {n_fmt} of {total_fmt} s"
    with stop_on_signal() as stopped, progress_bar(total=seconds, bar_format=look) as bar:
        while (passed := time.perf_counter() - begin) < seconds:
            bar.update(int(passed) - bar.n)
            yield passed / seconds
            if stopped():
                raise Stopped(f"after {passed:.0f} of {seconds} s: such a race has no result.")
