"""The state of one training run, and all that a reader of `train`'s loop need not see to understand it.

Where a run goes on, which batch comes next, when it ends, what is shown, written and kept. What a step draws at random
depends on the seed and the number of the step alone, so a run that was cut off goes on exactly where it stopped.
"""

import copy
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from vit_course.augment import augment
from vit_course.data import Dataset, normalize
from vit_course.optim import SCHEDULES, make_optimizers, set_rates
from vit_course.training import processes
from vit_course.training.checkpoint import explain_foreign, load_checkpoint, save_checkpoint
from vit_course.training.config import RESUMABLE, History, Objective, TrainConfig
from vit_course.training.console import Console
from vit_course.training.device import get_device, seed_random_numbers
from vit_course.training.engine import Engine, choose_engine, has_feature_maps
from vit_course.training.processor import describe_processor, same_kind
from vit_course.training.run_folder import CHECKPOINT, differences, model_settings, own_folder
from vit_course.training.signals import explain_out_of_memory, stop_on_signal

Wrapper = Callable[["Run"], AbstractContextManager]
"""A context around a whole run. It is entered before there are optimisers or `run.forward`, and puts what the steps
need into `around_step`, `after_step`, `forward_by` or `wrapper_states`, which are used later."""


@contextmanager
def start_run(
    model: nn.Module,
    dataset: Dataset,
    config: TrainConfig,
    folder: str | Path | None,
    resume: bool,
    objective: Objective | None,
    wrappers: Sequence[Wrapper] = (),
) -> Iterator["Run"]:
    """Begin a run or go on with it, inside `wrappers`; at its end leave the weights in the model, and say how it ended.

    Inside, random numbers are the run's own, Ctrl-C ends it between two steps (`Console.conclude` then raises), and
    errors of memory are explained.
    """
    run = Run(model, dataset, config, Path(folder) if folder else None, objective)
    own = own_folder(run.folder if run.first_process else None, resume)
    devices = [run.device] if run.device.type == "cuda" else []
    with (
        own,
        torch.random.fork_rng(devices),
        explain_out_of_memory(config.batch_size),
        stop_on_signal() as run.stop,
        ExitStack() as stack,
    ):
        for wrapper in wrappers:
            stack.enter_context(wrapper(run))
        run.begin(resume)
        try:
            yield run
        finally:
            run.console.close()
        if run.scored_model is not model:
            model.load_state_dict(run.scored_model.state_dict())
        model.eval()
        if not math.isnan(run.history.test_accuracy):  # it was scored
            run.require_finite(run.history.test_loss, "on the test images")
        run.console.conclude(run.history, run.step, len(dataset.test_images))


class Run:
    """One run: its data on its device, model, optimisers, history, how far it is, when saved.

    `stats` is mean and deviation of the channels, `held_out` pictures and labels for validation, `scored_model` what
    is scored: the model, or what a wrapper puts in its place. `checkpoint` is the file that the run goes on from, or
    None if it keeps none; the `first_process` of several prints and writes.

    Wrappers add to these: `around_step` makes contexts in which a step computes, `after_step` is called after each,
    `forward_by` changes the function that computes a step, `wrapper_states` is saved and restored with the run, and
    `work` is the share of a usual step's time.
    """

    def __init__(
        self,
        model: nn.Module,
        dataset: Dataset,
        config: TrainConfig,
        folder: Path | None = None,
        objective: Objective | None = None,
    ):
        self.model, self.dataset, self.config, self.folder = model, dataset, config, folder
        self.objective, self.checkpoint = objective, folder and folder / CHECKPOINT
        self.rank, self.world = processes.rank_and_number()
        self.first_process = self.rank == 0
        self.device = processes.own_device(get_device(config.device))
        generator = torch.Generator().manual_seed(config.seed)
        order = torch.randperm(len(dataset.train_images), generator=generator)
        held_out, learned_from = order.tensor_split([config.validation])
        if len(learned_from) < config.batch_size:
            raise ValueError(
                f"{len(learned_from)} training pictures do not fill one batch of {config.batch_size}"
            )
        if config.batch_size % self.world:
            raise ValueError(f"batch_size {config.batch_size} is not divisible by {self.world} processes")
        train_set = dataset.train_images, dataset.train_labels
        self.held_out = tuple(part[held_out] for part in train_set)
        self.images, self.labels = (part[learned_from].to(self.device) for part in train_set)
        self.stats = tuple(part.to(self.device) for part in dataset.channel_stats())
        self.steps_per_epoch = len(learned_from) // config.batch_size
        self.total_steps = max(1, round(config.epochs * self.steps_per_epoch))
        self.warmup_steps = round(config.warmup_epochs * self.steps_per_epoch)
        model.to(self.device)
        self.scored_model, self.wrapper_states, self.work = model, {}, 1.0
        self.around_step, self.after_step, self.forward_by = [], [], []
        self.history = History(asdict(config), dataset.provenance, str(self.device))
        self.step, self.unread_losses, self.pass_seconds, self.saved = 0, [], {}, time.perf_counter()
        self.stop = lambda: False

    # -- the beginning

    def begin(self, resume: bool) -> None:
        """Go on from the checkpoint if there is one and it is wanted, else begin; one engine for the whole run.

        Raises:
            ValueError: if the checkpoint cannot be gone on from.
        """
        self.since = time.perf_counter(), time.process_time()
        state = self.earlier_state(resume)
        here = describe_processor() if self.folder and self.device.type == "cpu" else {}
        if state is not None and not moved(state["history"].get("starts", []), here):
            self.engine = Engine(**state["history"]["engine"])
        else:
            choice = self.config.precision, self.device, self.total_steps, self.time_a_pass
            maps = has_feature_maps(self.model)
            self.engine = processes.broadcast_first(lambda: choose_engine(*choice, maps))
        self.require_logits()
        self.engine.arrange(self.model)
        self.optimizers = self.make_optimizers()
        if state is not None:
            with explain_foreign(self.checkpoint):
                self.restore(state)
        self.history.engine = asdict(self.engine)
        if here:
            start = {"step": self.step, "cpu_seconds": self.history.cpu_seconds, "processor": here}
            self.history.starts.append(start)
        quiet = self.config.quiet or not self.first_process
        folder = self.folder if self.first_process else None
        self.console = Console(self.total_steps, folder, len(self.history.train_loss), quiet)
        if self.console.is_watched and self.step < self.total_steps:
            self.announce()
        forward = self.model
        for change in self.forward_by:
            forward = change(forward)
        self.forward = processes.wrap_ddp(forward, self.device)

    def earlier_state(self, resume: bool) -> dict | None:
        """Read the checkpoint that the run goes on from: None if there is none, or none is wanted.

        Raises:
            ValueError: if it is damaged, or of a run with another model, data set or configuration.
        """
        if not (resume and self.checkpoint and self.checkpoint.exists()):
            return None
        state = load_checkpoint(self.checkpoint)
        with explain_foreign(self.checkpoint):
            self.require_same_run(state)
            Engine(**state["history"]["engine"])
        return state

    def require_same_run(self, state: dict) -> None:
        """Raise a `ValueError` that names what differs between this run and that of a checkpoint."""
        then = {**state["config"], "data set": state["history"]["provenance"]}
        now = {**self.history.config, "data set": self.dataset.provenance}
        if model := differences(state["settings"], model_settings(self.model)):
            raise ValueError(f"{self.checkpoint} holds another model: {model[0]}")
        if changed := differences(then, now, RESUMABLE):
            others = "; ".join(changed)
            raise ValueError(
                f"{self.checkpoint} is of another run: {others}. Use another folder or delete it"
            )

    def restore(self, state: dict) -> None:
        """Take weights, optimisers, what wrappers keep, history and step from a checkpoint."""
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for name, part in self.wrapper_states.items():
            part.load_state_dict(state["wrapper_states"][name])
        self.history = History(**{**state["history"], "interrupted": False, "device": str(self.device)})
        self.step = state["step"]
        steps, epochs = len(self.history.step_lr), len(self.history.train_loss)
        over = self.step / self.steps_per_epoch
        whole = math.ceil(over) if self.step == self.total_steps else math.floor(over)
        if not (steps == len(self.history.step_loss) == self.step and epochs == whole):
            raise ValueError(f"its history has {steps} steps and {epochs} epochs at step {self.step}")

    @torch.no_grad()
    def require_logits(self) -> None:
        """Raise a `ValueError` unless the model, where no objective reads it, gives a number for each class."""
        if self.objective is None:
            given = tuple(self.model.eval()(normalize(self.images[:1], *self.stats)).shape)
            if given != (wanted := (1, len(self.dataset.classes))):
                found = f"the model gives {given} for one image, but there are {wanted[1]} classes"
                raise ValueError(f"{found}: its head should give {wanted}")

    def make_optimizers(self) -> list[torch.optim.Optimizer]:
        """Build the optimisers as the configuration and the engine ask for them."""
        config = self.config
        rates = config.lr, config.weight_decay, config.layer_decay, self.engine.fused_optimizer
        dtype = torch.bfloat16 if self.engine.precision == "bfloat16" else torch.float32
        muon = {"rest_lr": config.rest_lr, "qkv_matrices": config.qkv_matrices, "dtype": dtype}
        return make_optimizers(self.model, config.optimizer, *rates, **muon)

    def time_a_pass(self, engine: Engine) -> float:
        """Return the seconds of forward and backward of the first batch under an engine, on a copy of the model."""
        trial, size = copy.deepcopy(self.model).train(), self.config.batch_size
        engine.arrange(trial)
        start = time.perf_counter()
        batch = self.augmented(torch.arange(size, device=self.device))
        x, y = (part[: size // self.world] for part in batch)
        with engine.computing(self.device):
            loss = self.objective(trial, x, y)[0] if self.objective else trial(x).float().logsumexp(1).mean()
        loss.backward()
        loss.item()  # waits for what a GPU still computes
        self.pass_seconds[engine] = time.perf_counter() - start
        return self.pass_seconds[engine]

    def announce(self) -> None:
        """Say what is about to run, and the minutes that it will take."""
        if self.step:
            seconds = self.history.seconds / self.step
        else:
            seconds = 1.1 * self.work * (self.pass_seconds.get(self.engine) or self.time_a_pass(self.engine))
        size = sum(parameter.numel() for parameter in self.model.parameters())
        what = f"{size:,} parameters, {len(self.images):,} pictures x {self.config.epochs:g} epochs on {self.device}"
        self.console.announce(what, seconds * (self.total_steps - self.step) / 60, self.step)

    # -- its steps

    def epochs(self) -> Iterator[int]:
        """Yield the number of every epoch that is left, from 0, until the last step or Ctrl-C."""
        while self.step < self.total_steps and not self.history.interrupted:
            self.model.train()
            yield self.step // self.steps_per_epoch

    def batches(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the rest of the epoch's batches: augmented images and targets, this process's part of them.

        Every process augments the whole batch alike and takes its part, so that several see what one would see.
        """
        config = self.config
        first = self.step - epoch * self.steps_per_epoch
        last = min(self.steps_per_epoch, first + self.total_steps - self.step)
        generator = torch.Generator().manual_seed(config.seed * 1_000_003 + epoch)
        order = torch.randperm(len(self.images), generator=generator)
        batches = order[: self.steps_per_epoch * config.batch_size].to(self.device).split(config.batch_size)
        for start in range(0, last, config.augment_ahead):
            ahead = batches[start : start + config.augment_ahead]
            if start + len(ahead) <= first:
                continue
            seed_random_numbers(seed_of(config.seed, epoch, start), self.device)
            images, targets = self.augmented(torch.cat(ahead), epoch * self.steps_per_epoch + start)
            pairs = zip(images.split(config.batch_size), targets.split(config.batch_size), strict=True)
            for number, (x, y) in enumerate(pairs, start):
                if first <= number < last:
                    seed_random_numbers(seed_of(config.seed, epoch, number, self.rank), self.device)
                    yield x.chunk(self.world)[self.rank], y.chunk(self.world)[self.rank]
                    if self.history.interrupted:
                        return

    def augmented(self, index: Tensor, step: int = 0) -> tuple[Tensor, Tensor]:
        """Return the pictures of some rows, augmented as in a step of the run, and their targets."""
        classes, config = len(self.dataset.classes), self.config.augment
        if step >= self.config.mix_until * self.total_steps:
            config = replace(config, mixup=0.0, cutmix=0.0)
        return augment(self.images[index], self.labels[index], self.stats, classes, config)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute what is inside as the engine does, and within all that wraps a step."""
        with self.engine.computing(self.device), ExitStack() as stack:
            for around in self.around_step:
                stack.enter_context(around())
            yield

    def set_rates(self) -> None:
        """Set the learning rates of this step."""
        share = SCHEDULES[self.config.schedule](self.step, self.total_steps, self.warmup_steps, 1.0)
        set_rates(self.optimizers, share)
        self.history.step_lr.append(share * self.config.lr)

    def count_step(self, loss: Tensor, hits: Tensor) -> None:
        """Count a step, note what it gave, and tell whether somebody wants the run to end.

        Loss and hits stay on the device until the epoch ends.
        """
        self.step += 1
        for after in self.after_step:
            after()
        self.unread_losses.append(torch.stack([loss.detach().float(), hits.detach().float()]))
        self.console.advance()
        wanted = processes.any_process(self.stop(), self.device)
        self.history.interrupted = wanted and self.step < self.total_steps

    def end_epoch(self) -> bool:
        """Bring losses and hits into the history; tell whether an epoch is over, and not cut short.

        Raises:
            FloatingPointError: if a loss is not a number any more.
        """
        history = self.history
        losses, hits = processes.mean(torch.stack(self.unread_losses, dim=1)).cpu()
        self.unread_losses = []
        for step, loss in enumerate(losses.tolist(), len(history.step_loss)):
            self.require_finite(loss, f"at step {step}")
        history.step_loss += losses.tolist()
        history.step_accuracy += hits.tolist()
        self.read_clocks()
        if self.step % self.steps_per_epoch and self.step < self.total_steps:
            return False
        steps = self.step % self.steps_per_epoch or self.steps_per_epoch  # the last epoch may be a part
        history.train_loss.append(sum(history.step_loss[-steps:]) / steps)
        history.train_accuracy.append(sum(history.step_accuracy[-steps:]) / steps)
        return True

    def require_finite(self, loss: float, when: str) -> None:
        """Raise a `FloatingPointError` if a loss is not a number any more."""
        if not math.isfinite(loss):
            smaller = f"a smaller learning rate than {self.config.lr:g}, or a longer warm-up"
            raise FloatingPointError(f"the loss is not a number any more {when}: try {smaller}")

    def read_clocks(self) -> None:
        """Add the time since the last reading to the history: the clock's, and the processor's."""
        now = time.perf_counter(), time.process_time()
        self.history.seconds += now[0] - self.since[0]
        self.history.cpu_seconds += now[1] - self.since[1]
        self.since = now

    def log_epoch(self) -> None:
        """Show how the epoch went, and write it as a line of the log. Scoring before this costs the run no time."""
        self.since = time.perf_counter(), time.process_time()
        history = self.history
        line = {"epoch": len(history.train_loss), "loss": history.train_loss[-1]}
        line |= {"accuracy": history.train_accuracy[-1], "lr": history.step_lr[-1]}
        line |= {"val_accuracy": history.val_accuracy[-1]} if self.config.validation else {}
        rate = self.step * self.config.batch_size / max(history.seconds, 1e-9)
        self.console.end_epoch({**line, "seconds": round(history.seconds, 3), "images_per_s": round(rate)})

    def save(self) -> None:
        """Write the checkpoint, if the run keeps one; the first of several processes does.

        On a GPU, whose epochs can be shorter than the writing, that is done when the last was half a minute ago.
        """
        waits = self.device.type == "cuda" and time.perf_counter() - self.saved < 30
        waits = waits and self.step < self.total_steps and not self.history.interrupted
        if self.checkpoint and self.first_process and not waits:
            self.saved = time.perf_counter()
            state = {
                "config": self.history.config,
                "history": asdict(self.history),
                "step": self.step,
                "settings": model_settings(self.model),
                "model": self.model.state_dict(),
                "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
                "wrapper_states": {name: part.state_dict() for name, part in self.wrapper_states.items()},
            }
            save_checkpoint(self.checkpoint, state)


def moved(starts: list[dict], here: dict) -> bool:
    """Tell whether a run that was last started somewhere, if that is known, goes on with another kind of processor."""
    return bool(starts and here) and not same_kind(starts[-1]["processor"], here)


def seed_of(*numbers: int) -> int:
    """Mix numbers into one seed, the same on every machine; neighbours give unrelated seeds."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:7], "big")
