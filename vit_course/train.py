"""Train and evaluate a classifier on a data set that lives on the device of the run.

`train` is one function, to be read downward: epoch, batch, forward, loss, backward, clip, rates, step, bookkeeping.
Lessons from 00 on use it; it knows no particular model. `training.run` has what it need not say: where a run
goes on, which batch comes next, what is shown and kept; `step_wrappers` has what some configurations add to a step.
"""

from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course.data import Dataset, normalize
from vit_course.extensions.step_wrappers import step_wrappers
from vit_course.training.config import History, Objective, TrainConfig
from vit_course.training.run import start_run


def train(
    model: nn.Module,
    dataset: Dataset,
    config: TrainConfig | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[History], None] | None = None,
    objective: Objective | None = None,
) -> History:
    """Train a classifier and score it once on the test pictures, after the last epoch.

    Args:
        model: maps normalised images (B, C, H, W) to logits (B, K), or to what `objective` reads; trained in place and
            left in evaluation mode on the device of the run, with the averaged weights if `config.ema` is on.
        dataset: pictures and labels.
        config: what the run depends on.
        folder: where `checkpoint.pt` and `log.jsonl`, one line an epoch, are written; None writes nothing.
        resume: go on from the checkpoint in `folder`, if there is one.
        on_epoch: called with the history after every epoch, for example to draw it.
        objective: loss and hits of a batch; by default cross-entropy with `config.label_smoothing`. Scores are then
            the means of both over the held-out or test pictures.

    Returns:
        The history of the run.

    Raises:
        KeyboardInterrupt: after Ctrl-C, and what else asks a process to end; the checkpoint is written before.
        ValueError: if the pictures do not fill a batch, a checkpoint does not fit, or the folder is used by another
            run, or holds one that is not to be resumed.
        FloatingPointError: if the loss is not a number any more.
        MemoryError: if the memory of the device does not suffice.
        OSError: if the folder or the checkpoint cannot be written.
    """
    config = config or TrainConfig()
    with start_run(model, dataset, config, folder, resume, objective, step_wrappers(config)) as run:
        history, smoothing = run.history, config.label_smoothing
        for epoch in run.epochs():
            for images, targets in run.batches(epoch):
                with run.computing():
                    if objective:
                        loss, hits = objective(run.forward, images, targets)
                    else:
                        logits = run.forward(images)
                        loss = F.cross_entropy(logits.float(), targets, label_smoothing=smoothing)
                        hits = (logits.argmax(1) == targets.argmax(1)).float().mean()
                loss.backward()
                if config.grad_clip:
                    nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
                run.set_rates()
                for optimizer in run.optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
                run.count_step(loss, hits)
            if run.end_epoch():  # it was a whole one
                if config.validation:
                    score = evaluate(run.scored_model, *run.held_out, run.stats, objective=objective)
                    history.val_accuracy.append(score[0])
                run.log_epoch()
                if on_epoch and run.first_process:
                    on_epoch(history)
            run.save()
        if not history.interrupted and len(dataset.test_labels):
            test = dataset.test_images, dataset.test_labels
            scores = evaluate(run.scored_model, *test, run.stats, objective=objective)
            history.test_accuracy, history.test_loss = scores
    return history


@torch.no_grad()
def evaluate(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    stats: tuple[Tensor, Tensor],
    batch_size: int = 500,
    objective: Objective | None = None,
) -> tuple[float, float]:
    """Score a model in evaluation mode.

    Args:
        model: maps normalised images to logits; left in evaluation mode.
        images: (N, C, H, W) uint8.
        labels: (N,) int64.
        stats: (mean, std) per channel, as `Dataset.channel_stats` returns them.
        batch_size: pictures at a time.
        objective: scores a batch instead, given model, images and labels (B,).

    Returns:
        (accuracy as a share in 0..1, mean cross-entropy in nats), or the objective's hits and loss.
    """
    model.eval()
    device = next(model.parameters()).device
    correct, loss = 0, 0.0
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        x, y = normalize(x.to(device), *stats), y.to(device)
        if objective:
            mean_loss, hits = objective(model, x, y)
            correct, loss = correct + hits.item() * len(x), loss + mean_loss.item() * len(x)
            continue
        logits = model(x)
        correct += (logits.argmax(1) == y).sum().item()
        loss += F.cross_entropy(logits, y, reduction="sum").item()
    return correct / len(images), loss / len(images)


def linear_classifier(dataset: Dataset) -> nn.Module:
    """Build the simplest opponent: one linear layer from all pixels to the classes, its weights zero at first."""
    layer = nn.Linear(dataset.train_images[0].numel(), len(dataset.classes))
    nn.init.zeros_(layer.weight)
    return nn.Sequential(nn.Flatten(), layer)
