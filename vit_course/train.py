"""Train and evaluate a classifier on a data set that lives on the device of the run.

Lessons 00, 02, 06 and 07 to 13 use it; it knows no particular model. What a step draws at random depends on the
seed and the number of the step alone, so a run that was cut off goes on exactly where it stopped.
`python -m vit_course train` is the command line (in `recipes`).
"""

import copy
import hashlib
import json
import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm.auto import tqdm

from vit_course.augment import AugmentConfig, augment
from vit_course.beyond.transfer import layer_scale
from vit_course.classroom.profiles import get_profile
from vit_course.data import Dataset, normalize
from vit_course.machinery.checkpoint import load_checkpoint, save_checkpoint
from vit_course.machinery.device import get_device
from vit_course.machinery.engine import REFERENCE, Engine, choose_engine

Objective = Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, Tensor]]
"""What a run minimises: of model, images (B, C, H, W) and targets (B, K) the mean loss and the share of hits."""


@dataclass
class TrainConfig:
    """What a training run depends on, besides model and data.

    Attributes:
        epochs: passes over the training pictures.
        batch_size: pictures per step, over all processes together.
        lr: peak learning rate.
        weight_decay: decay of AdamW, Muon or SGD, on weight matrices alone.
        warmup_epochs: epochs during which the learning rate rises linearly to its peak.
        label_smoothing: share of the target spread over all classes.
        grad_clip: largest norm of the gradient, 0 for no limit.
        augment: what happens to the pictures.
        optimizer: "adamw", "sgd" (Nesterov, momentum .9) or "muon" (hidden matrices; AdamW for the rest).
        layer_decay: factor by which the learning rate shrinks from each layer of a ViT to the one before it, in
            fine-tuning; 1 for none.
        ema: decay of an averaged copy of the weights, which is then scored and kept; 0 for none.
        validation: pictures held out from the training set and scored after every epoch.
        seed: fixes everything that is drawn at random during the run.
        device: "cpu", "cuda", "mps", or "auto" for the best one here.
        precision: "float32", "bfloat16", or "auto" for the faster one here, which the history names
            (`machinery.engine`).
        compile: compile the model with torch.compile; worth its minute on a GPU, in long runs.
        augment_ahead: batches that are augmented in one go, which keeps a GPU busy.
        quiet: no progress bar and no printed lines.
    """

    epochs: int = 10
    batch_size: int = 128
    lr: float = 1e-3
    weight_decay: float = 0.05
    warmup_epochs: float = 1.0
    label_smoothing: float = 0.0
    grad_clip: float = 1.0
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    optimizer: str = "adamw"
    layer_decay: float = 1.0
    ema: float = 0.0
    validation: int = 0
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    compile: bool = False
    augment_ahead: int = 1
    quiet: bool = False


@dataclass
class History:
    """What a run recorded: one number per epoch, and the test accuracy after the last epoch.

    Accuracies are shares in 0..1, losses are nats, times are seconds. `train_loss` and `train_accuracy` are of
    the augmented pictures as they were trained on. `val_accuracy` is empty without held-out pictures.
    `step_loss`, `step_accuracy` and `step_lr` have one number per step. `engine` says how the steps were computed.
    `interrupted` tells that Ctrl-C ended the run.
    """

    config: dict
    provenance: str
    device: str
    engine: dict = field(default_factory=dict)
    train_loss: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    val_accuracy: list[float] = field(default_factory=list)
    step_loss: list[float] = field(default_factory=list)
    step_accuracy: list[float] = field(default_factory=list)
    step_lr: list[float] = field(default_factory=list)
    test_accuracy: float = float("nan")
    test_loss: float = float("nan")
    seconds: float = 0.0
    interrupted: bool = False


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
        The history of the run. Ctrl-C ends a run early: the checkpoint is written and the history returned.

    Raises:
        ValueError: if the pictures do not fill a batch, an option is unknown or a checkpoint does not fit.
        FloatingPointError: if the loss is not a number any more.
        MemoryError: if the memory of the device does not suffice.
        OSError: if the checkpoint cannot be written.
    """
    run = Run(model, dataset, config or TrainConfig(), Path(folder) if folder else None, objective)
    with (
        stop_on_interrupt() as stop,
        explain_out_of_memory(run.config),
        torch.random.fork_rng(run.rng_devices),
    ):
        run.start(resume)
        run.fit(stop, on_epoch)
        return run.finish()


class Run:
    """One training run: the model, its optimisers and how far they are. Used by `train` alone."""

    def __init__(
        self,
        model: nn.Module,
        dataset: Dataset,
        config: TrainConfig,
        folder: Path | None,
        objective: Objective | None = None,
    ):
        self.dataset, self.config, self.folder = dataset, config, folder
        self.objective = objective or partial(classification, label_smoothing=config.label_smoothing)
        self.own_scores = objective is not None
        self.rank, self.world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        self.device = run_device(config, self.rank)
        self.rng_devices = [self.device] if self.device.type == "cuda" else []
        order = torch.randperm(
            len(dataset.train_images), generator=torch.Generator().manual_seed(config.seed)
        )
        self.held_out, kept = order[: config.validation], order[config.validation :]
        if len(kept) < config.batch_size:
            raise ValueError(f"{len(kept)} training pictures do not fill one batch of {config.batch_size}")
        if config.batch_size % self.world:
            raise ValueError(f"batch_size {config.batch_size} is not divisible by {self.world} processes")
        self.images, self.labels = (
            t[kept].to(self.device) for t in (dataset.train_images, dataset.train_labels)
        )
        self.stats = tuple(s.to(self.device) for s in dataset.channel_stats())
        self.steps_per_epoch = len(kept) // config.batch_size
        self.total_steps = config.epochs * self.steps_per_epoch
        self.warmup_steps = round(config.warmup_epochs * self.steps_per_epoch)
        self.model = model.to(self.device)
        self.engine, self.optimizers = REFERENCE, []
        self.average = None
        if config.ema:
            average = get_ema_multi_avg_fn(config.ema)
            self.average = AveragedModel(self.model, multi_avg_fn=average, use_buffers=True)
        self.history = History(asdict(config), dataset.provenance, str(self.device))
        self.fresh_losses: list[Tensor] = []
        self.fresh_hits: list[Tensor] = []

    @property
    def checkpoint(self) -> Path | None:
        """The file that the run goes on from, or None if it keeps none."""
        return self.folder and self.folder / "checkpoint.pt"

    @property
    def speaks(self) -> bool:
        """Whether this process prints and writes: the first of several."""
        return self.rank == 0 and not self.config.quiet

    @property
    def step(self) -> int:
        """Number of steps done."""
        return len(self.history.step_lr)

    def start(self, resume: bool) -> None:
        """Go on from the checkpoint, or begin: either way with one engine for the whole run."""
        state = (
            load_checkpoint(self.checkpoint)
            if resume and self.checkpoint and self.checkpoint.exists()
            else None
        )
        if state is not None:
            self.load(state)
        else:
            self.engine = self.chosen_engine()
            self.optimizers = make_optimizers(self.model, self.config, self.engine.fused_optimizer)
            self.history.engine = asdict(self.engine)

    def chosen_engine(self) -> Engine:
        """Choose the engine, from steps of a copy of the model; the first of several processes does."""
        chosen = [None]
        if self.rank == 0:
            forward_backward = trial_step(self)
            chosen = [choose_engine(self.config.precision, self.device, self.total_steps, forward_backward)]
        if self.world > 1:
            dist.broadcast_object_list(chosen)
        return chosen[0]

    def fit(self, stop: Callable[[], bool], on_epoch: Callable[[History], None] | None) -> None:
        """Train from where the run is to its end, or until `stop` says so between two steps."""
        if self.speaks and self.step < self.total_steps:
            announce(self)
        forward = self.prepared_model()
        bar = tqdm(
            total=self.total_steps, initial=self.step, disable=not self.speaks, unit="step", leave=False
        )
        start = time.perf_counter()
        self.model.train()
        while self.step < self.total_steps and not self.history.interrupted:
            for images, targets in self.batches():
                self.train_step(forward, images, targets)
                bar.update()
                if stop() and self.step < self.total_steps:
                    self.history.interrupted = True
                    break
            self.history.seconds += time.perf_counter() - start
            start = time.perf_counter()
            self.collect()
            if self.step % self.steps_per_epoch == 0:
                self.end_epoch(bar)
                if on_epoch and self.rank == 0:
                    on_epoch(self.history)
            self.save()
        bar.close()

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the rest of the epoch's batches: augmented images and targets, this process's part of them.

        Every process augments the whole batch alike and takes its part, so that several see what one would see.
        """
        config = self.config
        epoch, first = divmod(self.step, self.steps_per_epoch)
        generator = torch.Generator().manual_seed(config.seed * 1_000_003 + epoch)
        order = torch.randperm(len(self.images), generator=generator)[
            : self.steps_per_epoch * config.batch_size
        ]
        batches = order.to(self.device).split(config.batch_size)
        for start in range(0, self.steps_per_epoch, config.augment_ahead):
            ahead = batches[start : start + config.augment_ahead]
            if start + len(ahead) <= first:
                continue
            torch.manual_seed(seed_of(config.seed, epoch, start))
            index = torch.cat(ahead)
            images, targets = augment(
                self.images[index], self.labels[index], self.stats, len(self.dataset.classes), config.augment
            )
            pairs = zip(images.split(config.batch_size), targets.split(config.batch_size), strict=True)
            for number, (x, y) in enumerate(pairs, start):
                if number >= first:
                    torch.manual_seed(seed_of(config.seed, epoch, number, self.rank))
                    yield x.chunk(self.world)[self.rank], y.chunk(self.world)[self.rank]

    def train_step(self, forward: nn.Module, images: Tensor, targets: Tensor) -> None:
        """Take one step of the optimisers."""
        config = self.config
        share = learning_rate(self.step, self.total_steps, self.warmup_steps, 1.0)
        with self.engine.computing(self.device):
            loss, hits = self.objective(forward, images, targets)
        loss.backward()
        if config.grad_clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), config.grad_clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = share * group["peak_lr"]
            optimizer.step()
            optimizer.zero_grad()
        if self.average is not None:
            self.average.update_parameters(self.model)
        self.history.step_lr.append(share * config.lr)
        self.fresh_losses.append(loss.detach())
        self.fresh_hits.append(hits.detach())

    def collect(self) -> None:
        """Bring the losses and hits of the steps since the last call from the device into the history."""
        if not self.fresh_losses:
            return
        both = torch.stack([torch.stack(self.fresh_losses), torch.stack(self.fresh_hits)])
        if self.world > 1:
            dist.all_reduce(both)
            both /= self.world
        losses, hits = both.cpu()
        self.fresh_losses, self.fresh_hits = [], []
        if not bool(losses.isfinite().all()):
            step = len(self.history.step_loss) + int((~losses.isfinite()).nonzero()[0])
            raise FloatingPointError(
                f"the loss is not a number any more at step {step}: try a smaller learning rate than "
                f"{self.config.lr:g}, or a longer warm-up"
            )
        self.history.step_loss += losses.tolist()
        self.history.step_accuracy += hits.tolist()

    def end_epoch(self, bar: tqdm) -> None:
        """Write down the epoch: means over its steps, and the score on the held-out pictures."""
        history, steps = self.history, self.steps_per_epoch
        history.train_loss.append(sum(history.step_loss[-steps:]) / steps)
        history.train_accuracy.append(sum(history.step_accuracy[-steps:]) / steps)
        if self.config.validation:
            images, labels = (
                self.dataset.train_images[self.held_out],
                self.dataset.train_labels[self.held_out],
            )
            history.val_accuracy.append(self.score(images, labels)[0])
        last = {"loss": history.train_loss[-1], "accuracy": history.train_accuracy[-1]}
        bar.set_postfix({name: f"{value:.3f}" for name, value in last.items()})
        if self.folder and self.rank == 0:
            line = {"epoch": len(history.train_loss), **last, "lr": history.step_lr[-1]}
            line |= {"val_accuracy": history.val_accuracy[-1]} if self.config.validation else {}
            line |= {"seconds": round(history.seconds, 3), "images_per_s": round(self.images_per_second())}
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def images_per_second(self) -> float:
        """Training pictures per second since the run began."""
        return self.step * self.config.batch_size / max(self.history.seconds, 1e-9)

    def score(self, images: Tensor, labels: Tensor) -> tuple[float, float]:
        """Score the model, or the average of its weights where there is one; the model stays in training mode."""
        scored = self.model if self.average is None else self.average.module
        own = self.objective if self.own_scores else None
        result = evaluate(scored, images, labels, self.stats, objective=own)
        self.model.train()
        return result

    def finish(self) -> History:
        """Leave the trained weights in the model and score it on the test pictures."""
        if self.average is not None:
            self.model.load_state_dict(self.average.module.state_dict())
        self.model.eval()
        history, dataset = self.history, self.dataset
        own = self.objective if self.own_scores else None
        if history.interrupted:
            if self.speaks:
                where = f"; go on with resume=True, folder={str(self.folder)!r}" if self.folder else ""
                print(f"Stopped after step {self.step} of {self.total_steps}{where}.")
            return history
        scores = evaluate(self.model, dataset.test_images, dataset.test_labels, self.stats, objective=own)
        history.test_accuracy, history.test_loss = scores
        if self.speaks:
            print(
                f"{self.config.epochs} epochs in {history.seconds:.0f} s: training loss "
                f"{history.train_loss[-1]:.3f}, test accuracy {history.test_accuracy:.1%} on "
                f"{len(dataset.test_images):,} pictures ({dataset.provenance})"
            )
        return history

    def prepared_model(self) -> nn.Module:
        """Wrap the model for several processes and for compilation, as configured."""
        model = self.model
        if self.world > 1:
            model = DistributedDataParallel(model, [self.device] if self.device.type == "cuda" else None)
        return torch.compile(model) if self.config.compile else model

    def save(self) -> None:
        """Write the checkpoint, if the run keeps one; the first of several processes does."""
        if self.checkpoint and self.rank == 0:
            state = {
                "config": self.history.config,
                "history": asdict(self.history),
                "model": self.model.state_dict(),
                "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
                "average": None if self.average is None else self.average.state_dict(),
            }
            save_checkpoint(self.checkpoint, state)

    def load(self, state: dict) -> None:
        """Go on from the content of the checkpoint.

        Raises:
            ValueError: if it is of a run with another model, data set or configuration.
        """
        changed = [
            k for k, v in self.history.config.items() if k not in RESUMABLE and state["config"].get(k) != v
        ]
        if changed or state["history"]["provenance"] != self.dataset.provenance:
            raise ValueError(
                f"{self.checkpoint} is of another run: {', '.join(changed) or 'its data set'} differs; "
                "use another folder, or delete it"
            )
        try:
            self.model.load_state_dict(state["model"])
        except RuntimeError as error:
            raise ValueError(f"{self.checkpoint} holds another model: {error}") from error
        self.engine = Engine(**state["history"]["engine"])
        self.optimizers = make_optimizers(self.model, self.config, self.engine.fused_optimizer)
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.history = History(**{**state["history"], "interrupted": False, "device": str(self.device)})


RESUMABLE = ("device", "quiet", "compile")
"""What may differ between a run and its continuation. The others change what is learned."""


def seed_of(*numbers: int) -> int:
    """Mix numbers into one seed, the same on every machine; neighbours give unrelated seeds."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:7], "big")


def run_device(config: TrainConfig, rank: int) -> torch.device:
    """Return the device of a run: as configured, or the best one here; one GPU for each process."""
    device = get_device() if config.device == "auto" else torch.device(config.device)
    if device.type == "cuda" and dist.is_initialized():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)))
    return device


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a question that the loop asks between two steps; the second one acts at once."""
    asked = threading.Event()

    def note(signum: int, frame: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, previous)

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    previous = signal.signal(signal.SIGINT, note)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def explain_out_of_memory(config: TrainConfig) -> Iterator[None]:
    """Turn the many out-of-memory errors of torch into one that says what to do."""
    try:
        yield
    except RuntimeError as error:
        if "out of memory" not in str(error) and "can't allocate memory" not in str(error):
            raise
        raise MemoryError(
            f"out of memory at batch_size {config.batch_size}: try {max(1, config.batch_size // 2)}, or a smaller "
            "model (after an interrupted run in a notebook, restart the kernel first)"
        ) from error


def make_optimizers(
    model: nn.Module, config: TrainConfig, fused: bool = False
) -> list[torch.optim.Optimizer]:
    """Build the optimisers of a run; each group remembers its peak learning rate.

    `fused` updates all weights in one kernel, where the optimiser can: AdamW.

    Raises:
        ValueError: if the optimiser is unknown, or this torch does not have it.
    """
    groups = weight_decay_groups(model, config.weight_decay)
    if config.layer_decay != 1:
        groups = layer_groups(model, groups, config)
    if config.optimizer == "adamw":
        optimizers = [torch.optim.AdamW(groups, lr=config.lr, fused=fused or None)]
    elif config.optimizer == "sgd":
        optimizers = [torch.optim.SGD(groups, lr=config.lr, momentum=0.9, nesterov=True)]
    elif config.optimizer == "muon":
        optimizers = muon_and_adamw(model, groups, config)
    else:
        raise ValueError(f"optimizer {config.optimizer!r} is unknown: use 'adamw', 'sgd' or 'muon'")
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers


def layer_groups(model: nn.Module, groups: list[dict], config: TrainConfig) -> list[dict]:
    """Split groups of parameters further, by learning rate: the nearer to the input, the smaller (`layer_scale`)."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    depth = 1 + max(
        (int(number) for number in re.findall(r"blocks\.(\d+)\.", " ".join(names.values()))), default=-1
    )
    split = []
    for group in groups:
        scales: dict[float, list] = {}
        for parameter in group["params"]:
            scale = layer_scale(names[parameter], depth, config.layer_decay)
            scales.setdefault(scale, []).append(parameter)
        split += [{**group, "params": params, "lr": scale * config.lr} for scale, params in scales.items()]
    return split


def muon_and_adamw(model: nn.Module, groups: list[dict], config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Give the hidden matrices, those of the blocks, to Muon and all other parameters to AdamW."""
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(
            f"optimizer 'muon' needs torch 2.9 or newer, this is {torch.__version__}; use 'adamw'"
        )
    names = ((name, p) for name, p in model.named_parameters() if "blocks." in name)
    hidden = {id(p) for name, p in names if name.endswith(".weight") and p.ndim == 2}
    if not hidden:
        raise ValueError("optimizer 'muon' found no matrices in blocks; it is meant for a VisionTransformer")
    matrices = [{**group, "params": [p for p in group["params"] if id(p) in hidden]} for group in groups]
    matrices = [group for group in matrices if group["params"]]
    others = [{**group, "params": [p for p in group["params"] if id(p) not in hidden]} for group in groups]
    muon = torch.optim.Muon(
        matrices, lr=config.lr, weight_decay=config.weight_decay, adjust_lr_fn="match_rms_adamw"
    )
    return [muon, torch.optim.AdamW(others, lr=config.lr)]


def classification(
    forward: nn.Module, images: Tensor, targets: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy of a batch, in nats, and the share of pictures whose class is right.

    Args:
        forward: maps images to logits (B, K).
        images: (B, C, H, W).
        targets: (B, K), shares of the classes.
        label_smoothing: share of the target spread over all classes.
    """
    logits = forward(images)
    loss = F.cross_entropy(logits.float(), targets, label_smoothing=label_smoothing)
    return loss, (logits.argmax(1) == targets.argmax(1)).float().mean()


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


def learning_rate(step: int, total_steps: int, warmup_steps: int, peak: float) -> float:
    """Return the learning rate of one step: a linear rise, then half a cosine down to zero.

    With w warm-up steps and n steps after them: peak·(s + 1)/w in step s < w, then peak·(1 + cos(π·k/n))/2 in the
    k-th step after the warm-up, k = 1 ... n.

    Args:
        step: number s of the step, the first is 0.
        total_steps: steps of the whole run, w + n.
        warmup_steps: steps w of the rise, 0 for none; the last of them runs at the peak.
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

    Args:
        model: any model; the kernel of a convolution is a weight matrix too.
        weight_decay: decay of the matrices; the other parameters get 0.

    Returns:
        Groups for an optimiser: a list of dicts {"params": list of parameters, "weight_decay": number}. Every
        trainable parameter is in exactly one of them, frozen ones are in none.
    """
    decayed, kept = [], []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        is_matrix = parameter.ndim >= 2 and name.endswith("weight")
        (decayed if is_matrix else kept).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def linear_classifier(dataset: Dataset) -> nn.Module:
    """Build the simplest opponent: one linear layer from all pixels to the classes, starting at zero."""
    layer = nn.Linear(dataset.train_images[0].numel(), len(dataset.classes))
    nn.init.zeros_(layer.weight)
    return nn.Sequential(nn.Flatten(), layer)


def trial_step(run: Run) -> Callable[[], None]:
    """Return what does forward and backward of the first batch, on a copy of the model."""
    config, trial = run.config, copy.deepcopy(run.model).train()
    batch = run.images[: config.batch_size], run.labels[: config.batch_size]
    local = config.batch_size // run.world

    def step() -> None:
        x, y = augment(*batch, run.stats, len(run.dataset.classes), config.augment)
        run.objective(trial, x[:local], y[:local])[0].backward()
        if x.is_cuda:
            torch.cuda.synchronize()

    return step


def announce(run: Run) -> None:
    """Print what is about to run and the minutes it will take, from two steps of a copy of the model."""
    config, step = run.config, trial_step(run)
    for _ in range(2):
        start = time.perf_counter()
        with run.engine.computing(run.device):
            step()
        seconds = (time.perf_counter() - start) * 1.1
    size = sum(parameter.numel() for parameter in run.model.parameters())
    print(
        f"Profile {get_profile().name}: {size:,} parameters, {len(run.images):,} pictures x {config.epochs} epochs "
        f"on {run.device}, about {seconds * (run.total_steps - run.step) / 60:.1f} minutes"
    )
