"""The model that a student trained goes with her: it is kept beside her answers, and later lessons can load it.

Lesson 06 trains it with the student's own loop. On real pictures that takes minutes: `train_by_recipe` goes on where it
was stopped. Later lessons take it from `load_my_model`.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

from vit_classroom.answer_folder import answer_folders, is_mine
from vit_classroom.notebook import in_notebook
from vit_classroom.numbers import minutes, percent
from vit_course.attention import MultiHeadAttention
from vit_course.augment import random_crop_flip
from vit_course.data import Dataset, normalize
from vit_course.extensions.speedups import drop_tokens
from vit_course.optim import SCHEDULES, make_optimizers, set_rates
from vit_course.recipes import RECIPES
from vit_course.training.checkpoint import load_checkpoint, save_checkpoint
from vit_course.training.config import TrainConfig
from vit_course.training.console import progress_bar
from vit_course.training.device import get_device
from vit_course.training.run_folder import model_settings
from vit_course.training.signals import Stopped
from vit_course.vit import VIT_SIZES, VisionTransformer, create_vit

FILE = "my_vit.pt"
UNFINISHED = "my_vit_in_training.pt"


def keep_model(model: nn.Module, dataset: Dataset, test_accuracy: float, pictures_seen: int) -> str:
    """Keep a trained model beside the answers, unless the one that is there was trained on more pictures.

    Args:
        model: a `MiniViT`, or a `VisionTransformer` with a CLS token and no other options.
        dataset: what it was trained on.
        test_accuracy: its share of test pictures that were right.
        pictures_seen: how many pictures its training consisted of, epochs times pictures.

    Returns:
        What became of it, in words for the student.
    """
    wanted = in_notebook() or os.environ.get("VIT_COURSE_ANSWERS")
    if not wanted or os.environ.get("VIT_COURSE_STRICT") == "1":
        return "not kept: this is not a student's notebook"
    before = load_my_model()
    if before and before[1]["pictures_seen"] > pictures_seen:
        return "not kept: the model that was kept before was trained on more pictures"
    info = description(model) | {
        "classes": list(dataset.classes),
        "mean": dataset.channel_stats()[0].tolist(),
        "std": dataset.channel_stats()[1].tolist(),
        "data": dataset.provenance,
        "test_accuracy": test_accuracy,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "pictures_seen": pictures_seen,
    }
    weights = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    path = write({"info": info, "weights": fitted(weights, create(info))}, FILE)
    return (
        f"kept as {path.name}, beside your answers" if path else "not kept: no folder for it can be written"
    )


def load_my_model(pictures: tuple[int, int, int] | None = None) -> tuple[VisionTransformer, dict] | None:
    """Load the model that this student trained, as the course's class.

    Args:
        pictures: (C, H, W) of those that it should be made for, in pixels; without, any are right.

    Returns:
        model: a `VisionTransformer` in evaluation mode, on the CPU.
        info: as for `load_trained`: "model" and "options" (for `build_model`), "img_size", "classes", "mean", "std",
            "data", "test_accuracy", "parameters"; and "pictures_seen".
        Or None, if none was kept, or it was made for other pictures.

    Raises:
        ValueError: if the file is damaged.
    """
    state = read(FILE)
    if state is None or pictures and [len(state["info"]["mean"]), *state["info"]["img_size"]] != [*pictures]:
        return None
    model = create(state["info"])
    model.load_state_dict(fitted(state["weights"], model))
    return model.eval(), state["info"]


class RecipeOptimizer:
    """The optimisers of a recipe, to be called by a student's loop as if they were one.

    A step clips the gradient, sets the learning rates for its place in the run, and moves a bar.

    Args:
        model: its parameters are shared out: with Muon, the matrices of the blocks to it, the rest to AdamW.
        config: names optimiser, rates, decay, warm-up and schedule.
        steps_per_epoch: how often an epoch calls `step`.
        schedule: in the place of the recipe's, called as `learning_rate` is; for example a student's.
    """

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        steps_per_epoch: int,
        schedule: Callable[[int, int, int, float], float] | None = None,
    ):
        self.schedule = schedule or SCHEDULES[config.schedule]
        muon = {"rest_lr": config.rest_lr, "qkv_matrices": config.qkv_matrices}
        self.parts = make_optimizers(model, config.optimizer, config.lr, config.weight_decay, **muon)
        self.parameters, self.config = list(model.parameters()), config
        self.done, self.total = 0, round(config.epochs * steps_per_epoch)
        self.warmup = round(config.warmup_epochs * steps_per_epoch)
        self.bar = progress_bar(total=self.total, unit="step")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the step before."""
        for part in self.parts:
            part.zero_grad(set_to_none)

    def step(self) -> None:
        """Move every weight, at the rate of this step."""
        if self.config.grad_clip:
            nn.utils.clip_grad_norm_(self.parameters, self.config.grad_clip)
        set_rates(self.parts, float(self.schedule(self.done, self.total, self.warmup, 1.0)))
        for part in self.parts:
            part.step()
        self.done += 1
        self.bar.update(self.done - self.bar.n)

    def state_dict(self) -> dict[str, Any]:
        """Return what a run needs to go on."""
        return {"done": self.done, "parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a run was stopped."""
        self.done = state["done"]
        for part, old in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(old)


@contextmanager
def fewer_tokens(model: nn.Module, share: float) -> Iterator[None]:
    """Let a ViT with a CLS token compute a share of its patch tokens while it trains, inside; 1 changes nothing."""
    keep = max(1, round(share * (model.pos_embed.shape[1] - 1)))

    def leave_out(block: nn.Module, given: tuple) -> tuple:
        return (drop_tokens(given[0], keep, 1), *given[1:]) if block.training and share < 1 else given

    handle = model.blocks[0].register_forward_pre_hook(leave_out)
    try:
        yield
    finally:
        handle.remove()


def train_by_adamw(
    model: nn.Module,
    train_one_epoch: Callable[..., float],
    accuracy: Callable[..., float],
    dataset: Dataset,
    epochs: int,
    lr: float,
) -> float:
    """Train a model with a student's loop and AdamW at one learning rate; print a line for every epoch.

    The arguments are those of `train_by_recipe`. Nothing is saved.

    Returns:
        The share of test images that are right at the end.
    """
    device, stats = get_device(), dataset.channel_stats()
    images, test_images = (
        normalize(part.to(device), *stats) for part in (dataset.train_images, dataset.test_images)
    )
    labels, test_labels = dataset.train_labels.to(device), dataset.test_labels.to(device)
    optimizer = torch.optim.AdamW(model.to(device).parameters(), lr=lr)
    for epoch in range(1, epochs + 1):
        start = time.perf_counter()
        loss = train_one_epoch(model, images, labels, optimizer)
        score, spent = accuracy(model, test_images, test_labels), minutes(time.perf_counter() - start)
        print(f"epoch {epoch} of {epochs}: loss {loss:.3f}, test {percent(score)}, {spent}")
    return score


def train_by_recipe(
    model: nn.Module,
    train_one_epoch: Callable[..., float],
    accuracy: Callable[..., float],
    dataset: Dataset,
    epochs: int | None = None,
    recipe: str = "quick",
) -> list[dict[str, float]]:
    """Train a model with a student's loop and a recipe of the course, and save it after every epoch.

    Of the recipe come Muon and AdamW with their rates, the batches, the pictures that are shifted and mirrored anew
    before each epoch, and the first epochs with half of the patch tokens. The loss is that of the loop. Stop it
    when you like, with the stop button: the last whole epoch is kept, and the same call goes on from there.

    Args:
        model: maps images to logits, has a CLS token and `blocks`; trained in place. Give a fresh one of the same sizes
            to go on.
        train_one_epoch: called with model, images, labels, optimizer and batch size; returns the mean loss.
        accuracy: called with model, images and labels; returns a share.
        dataset: what it is trained on.
        epochs: passes over the pictures, those before a stop included; by default as many as the recipe says.
        recipe: name of the recipe in `RECIPES`.

    Returns:
        One row for each epoch so far: "epoch", "loss", "test_accuracy", "seconds" and "cpu_seconds".

    Raises:
        ValueError: if the file to go on from is damaged, or is of another model, data set, recipe or number of epochs.
        KeyboardInterrupt: if it was stopped.
    """
    device, stats = get_device(), dataset.channel_stats()
    epochs = int(RECIPES[recipe].epochs) if epochs is None else epochs
    config = replace(RECIPES[recipe], epochs=epochs)
    images, labels = dataset.train_images.to(device), dataset.train_labels.to(device)
    test_images = normalize(dataset.test_images.to(device), *stats)
    test_labels = dataset.test_labels.to(device)
    optimizer = RecipeOptimizer(model.to(device), config, math.ceil(len(images) / config.batch_size))
    about = {"model": model_settings(model), "data": dataset.provenance, "epochs": epochs, "lr": config.lr}
    about["recipe"] = recipe
    log = go_on(model, optimizer, about)
    try:
        for epoch in range(len(log), epochs):
            start, cpu_start = time.perf_counter(), time.process_time()
            torch.manual_seed(epoch)  # a run that was stopped goes on as if it had not been
            moved = normalize(random_crop_flip(images), *stats)
            early = epoch + 1 <= config.keep_until * epochs
            with fewer_tokens(model, config.keep_tokens if early else 1.0):
                loss = train_one_epoch(model, moved, labels, optimizer, config.batch_size)
            score = accuracy(model, test_images, test_labels)
            spent = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu_start}
            log.append({"epoch": epoch + 1, "loss": loss, "test_accuracy": score, **spent})
            print(
                f"epoch {epoch + 1} of {epochs}{', half of the tokens' if early else ''}: loss {loss:.3f}, "
                f"test {percent(score)}, {minutes(spent['seconds'])}"
            )
            state = {
                "about": about,
                "log": log,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
            }
            write(state, UNFINISHED)
            keep_model(model, dataset, score, (epoch + 1) * len(images))
    except KeyboardInterrupt:
        raise Stopped(f"after {len(log)} of {epochs} epochs. The same call goes on from there.") from None
    finally:
        optimizer.bar.close()
    return log


def go_on(model: nn.Module, optimizer: RecipeOptimizer, about: dict[str, Any]) -> list[dict[str, float]]:
    """Give model and optimiser the state of a run that was stopped, and return its log; an empty one without it."""
    state = read(UNFINISHED)
    if state is None:
        return []
    if changed := [key for key, value in about.items() if state["about"].get(key) != value]:
        raise ValueError(
            f"{found(UNFINISHED)} is of another run: {', '.join(changed)} differs; delete it to begin anew"
        )
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["log"]


def fitted(weights: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Give the patch projection the layout of a model: a `PatchEmbed` has a convolution or a linear layer."""
    name = "patch_embed.proj.weight"
    old, new = weights.get(name), model.state_dict().get(name)
    if old is None or new is None or old.ndim == new.ndim:
        return dict(weights)
    if new.ndim == 2:
        return {**weights, name: rearrange(old, "d c p1 p2 -> d (p1 p2 c)")}
    shape = {"p1": new.shape[2], "p2": new.shape[3]}
    return {**weights, name: rearrange(old, "d (p1 p2 c) -> d c p1 p2", **shape)}


def description(model: nn.Module) -> dict[str, Any]:
    """Say how to build a model anew: as `create_vit` is told, a name and what differs from the size of that name."""
    embed, block = model.patch_embed, model.blocks[0]
    options = {"embed_dim": model.pos_embed.shape[-1], "depth": len(model.blocks)}
    options |= {"num_heads": heads_of(block.attn, options["embed_dim"])}
    known = [name for name, size in VIT_SIZES.items() if size == options]
    size, patch = known[0] if known else "Nano", embed.img_size[0] // embed.grid_size[0]
    return {"model": f"{size}/{patch}", "options": {} if known else options, "img_size": list(embed.img_size)}


def heads_of(attention: nn.Module, dim: int) -> int:
    """Return the number of heads: as a module says it, else that with which the course's attention does the same.

    Raises:
        ValueError: if no number of heads does.
    """
    if told := getattr(attention, "num_heads", None):
        return told
    tokens = torch.randn(1, 8, dim)
    copied = {name: value.detach().cpu() for name, value in attention.state_dict().items()}
    want = attention(tokens.to(next(attention.parameters()).device)).detach().cpu()
    for heads in (number for number in range(1, dim + 1) if dim % number == 0):
        finished = MultiHeadAttention(dim, heads)
        finished.load_state_dict(copied)
        if torch.allclose(finished(tokens), want, atol=1e-5):
            return heads
    raise ValueError("this attention is not that of the course with any number of heads")


def create(info: dict[str, Any]) -> VisionTransformer:
    """Build the model that a description is of, with weights drawn anew."""
    return create_vit(
        info["model"],
        img_size=tuple(info["img_size"]),
        in_chans=len(info["mean"]),
        num_classes=len(info["classes"]),
        **info["options"],
    )


def write(state: dict[str, Any], name: str) -> Path | None:
    """Write a file in the first folder for answers that lets us; None if none does."""
    for folder in answer_folders():
        try:
            save_checkpoint(folder / name, state)
            return folder / name
        except OSError:
            continue
    return None


def read(name: str) -> dict[str, Any] | None:
    """Read a file from the folders for answers, the newest of its name; None if there is none."""
    path = found(name)
    return load_checkpoint(path) if path else None


def found(name: str) -> Path | None:
    """Return the newest file of a name in the folders for answers."""
    paths = [path for folder in answer_folders() if (path := folder / name).is_file() and is_mine(path)]
    return max(paths, key=lambda path: path.stat().st_mtime) if paths else None
