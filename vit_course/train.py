"""Train and evaluate a classifier: AdamW, warm-up and cosine, on a data set that lives on the device.

Lessons 00 and 06 use it; it knows no particular model.
"""

import copy
import math
import time
from dataclasses import asdict, dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from vit_course.data import Dataset, normalize
from vit_course.profiles import get_device, get_profile


@dataclass
class TrainConfig:
    """What a training run depends on, besides model and data.

    Attributes:
        epochs: passes over the training pictures.
        batch_size: pictures per step.
        lr: peak learning rate.
        weight_decay: AdamW's decay, on weight matrices alone.
        warmup_epochs: epochs during which the learning rate rises linearly to its peak.
        label_smoothing: share of the target spread over all classes.
        grad_clip: largest norm of the gradient, 0 for no limit.
        validation: pictures held out from the training set and scored after every epoch.
        seed: fixes the order of the pictures and the held-out ones.
        device: "cpu", "cuda", "mps", or "auto" for the best one here.
        quiet: no progress bar and no printed lines.
    """

    epochs: int = 10
    batch_size: int = 128
    lr: float = 1e-3
    weight_decay: float = 0.05
    warmup_epochs: float = 1.0
    label_smoothing: float = 0.0
    grad_clip: float = 1.0
    validation: int = 0
    seed: int = 0
    device: str = "auto"
    quiet: bool = False


@dataclass
class History:
    """What a run recorded: one number per epoch, and the test accuracy of the last epoch.

    Accuracies are shares in 0..1, losses are nats, times are seconds. `val_accuracy` is empty without
    held-out pictures. `step_loss` and `step_lr` have one number per step.
    """

    config: dict
    provenance: str
    device: str
    train_loss: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    val_accuracy: list[float] = field(default_factory=list)
    step_loss: list[float] = field(default_factory=list)
    step_lr: list[float] = field(default_factory=list)
    test_accuracy: float = float("nan")
    test_loss: float = float("nan")
    seconds: float = 0.0


def train(model: nn.Module, dataset: Dataset, config: TrainConfig | None = None) -> History:
    """Train a classifier and score it once on the test pictures, after the last epoch.

    Args:
        model: maps normalised images (B, C, H, W) to logits (B, K); trained in place and left in
            evaluation mode on the device of the run.
        dataset: pictures and labels.
        config: what the run depends on.

    Returns:
        The history of the run.

    Raises:
        ValueError: if the held-out pictures or the batches leave nothing to train on.
        FloatingPointError: if the loss is not a number any more.
    """
    config = config or TrainConfig()
    device = get_device() if config.device == "auto" else torch.device(config.device)
    generator = torch.Generator().manual_seed(config.seed)
    order = torch.randperm(len(dataset.train_images), generator=generator)
    held_out, kept = order[: config.validation], order[config.validation :]
    if len(kept) < config.batch_size:
        raise ValueError(f"{len(kept)} training pictures do not fill one batch of {config.batch_size}")
    stats = dataset.channel_stats()
    images, labels = dataset.train_images[kept].to(device), dataset.train_labels[kept].to(device)
    model.to(device)
    steps_per_epoch = len(images) // config.batch_size
    total, warmup = config.epochs * steps_per_epoch, round(config.warmup_epochs * steps_per_epoch)
    optimizer = torch.optim.AdamW(weight_decay_groups(model, config.weight_decay), lr=config.lr)
    history = History(asdict(config), dataset.provenance, str(device))
    if not config.quiet:
        announce(model, images, labels, stats, config, total)
    start = time.perf_counter()
    bar = tqdm(total=total, disable=config.quiet, desc="training", unit="step", leave=False)
    for epoch in range(config.epochs):
        model.train()
        losses, correct = [], 0
        batches = torch.randperm(len(images), generator=generator).to(device).split(config.batch_size)
        for index in batches[:steps_per_epoch]:
            lr = learning_rate(len(history.step_lr), total, warmup, config.lr)
            for group in optimizer.param_groups:
                group["lr"] = lr
            logits = model(normalize(images[index], *stats))
            loss = F.cross_entropy(logits, labels[index], label_smoothing=config.label_smoothing)
            optimizer.zero_grad()
            loss.backward()
            if config.grad_clip:
                nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
            optimizer.step()
            losses.append(loss.detach())
            correct += (logits.argmax(1) == labels[index]).sum()
            history.step_lr.append(lr)
            bar.update()
        record_epoch(history, torch.stack(losses), correct / (steps_per_epoch * config.batch_size))
        if config.validation:
            val = evaluate(model, dataset.train_images[held_out], dataset.train_labels[held_out], stats)
            history.val_accuracy.append(val[0])
        bar.set_postfix(epoch=epoch + 1, loss=history.train_loss[-1], accuracy=history.train_accuracy[-1])
    bar.close()
    history.seconds = time.perf_counter() - start
    history.test_accuracy, history.test_loss = evaluate(
        model, dataset.test_images, dataset.test_labels, stats
    )
    if not config.quiet:
        print(
            f"{config.epochs} epochs in {history.seconds:.0f} s: training loss {history.train_loss[-1]:.3f}, "
            f"test accuracy {history.test_accuracy:.1%} on {len(dataset.test_images):,} pictures "
            f"({dataset.provenance})"
        )
    return history


def record_epoch(history: History, losses: Tensor, accuracy: Tensor) -> None:
    """Add the losses of one epoch's steps, a 1-D tensor, and its accuracy to the history."""
    if not bool(losses.isfinite().all()):
        step = len(history.step_loss) + int((~losses.isfinite()).nonzero()[0])
        raise FloatingPointError(
            f"the loss is not a number any more at step {step}: try a smaller learning rate"
        )
    history.step_loss += losses.tolist()
    history.train_loss.append(losses.mean().item())
    history.train_accuracy.append(accuracy.item())


@torch.no_grad()
def evaluate(
    model: nn.Module, images: Tensor, labels: Tensor, stats: tuple[Tensor, Tensor], batch_size: int = 500
) -> tuple[float, float]:
    """Score a model in evaluation mode.

    Args:
        model: maps normalised images to logits; left in evaluation mode.
        images: (N, C, H, W) uint8.
        labels: (N,) int64.
        stats: (mean, std) per channel, as `Dataset.channel_stats` returns them.
        batch_size: pictures at a time.

    Returns:
        (accuracy as a share in 0..1, mean cross-entropy in nats).
    """
    model.eval()
    device = next(model.parameters()).device
    correct, loss = 0, 0.0
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        logits, y = model(normalize(x.to(device), *stats)), y.to(device)
        correct += (logits.argmax(1) == y).sum().item()
        loss += F.cross_entropy(logits, y, reduction="sum").item()
    return correct / len(images), loss / len(images)


def learning_rate(step: int, total_steps: int, warmup_steps: int, peak: float) -> float:
    """Return the learning rate of one step: a linear rise, then half a cosine down to zero.

    Args:
        step: number of the step, the first is 0.
        total_steps: steps of the whole run.
        warmup_steps: steps of the rise; the last of them runs at the peak.
        peak: highest learning rate.

    Returns:
        The learning rate: above 0 at step 0, 0 at the last step.
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = (step + 1 - warmup_steps) / max(1, total_steps - warmup_steps)
    return peak * (1 + math.cos(math.pi * progress)) / 2


def weight_decay_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Split the trainable parameters: weight matrices decay; norms, biases, CLS token and positions do not.

    Counting axes is not enough: the CLS token and the positions have three.
    """
    decayed, kept = [], []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        is_matrix = parameter.ndim >= 2 and name.rsplit(".", 1)[-1] == "weight"
        (decayed if is_matrix else kept).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def linear_classifier(dataset: Dataset) -> nn.Module:
    """Build the simplest opponent: one linear layer from all pixels to the classes, starting at zero."""
    layer = nn.Linear(dataset.train_images[0].numel(), len(dataset.classes))
    nn.init.zeros_(layer.weight)
    return nn.Sequential(nn.Flatten(), layer)


def announce(
    model: nn.Module, images: Tensor, labels: Tensor, stats: tuple, config: TrainConfig, total_steps: int
) -> None:
    """Print what is about to run and the minutes it will take, from two steps of a copy of the model."""
    trial = copy.deepcopy(model).train()
    for _ in range(2):
        start = time.perf_counter()
        x = normalize(images[: config.batch_size], *stats)
        F.cross_entropy(trial(x), labels[: config.batch_size]).backward()
        if x.is_cuda:
            torch.cuda.synchronize()
        seconds = (time.perf_counter() - start) * 1.1
    size = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"Profile {get_profile().name}: {size:,} parameters, {len(images):,} pictures x {config.epochs} epochs "
        f"on {images.device}, about {seconds * total_steps / 60:.1f} minutes"
    )
