"""Checks of lesson 06: the Vision Transformer as a whole, the training loop, the evaluation."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, build, outcome, same_weights
from vit_classroom.checks.scorers import (
    MISCOUNTS,
    measured,
    measures_without_training,
    names_one_class,
    scores_and_labels,
)
from vit_classroom.checks.task import demand, exercise, results
from vit_classroom.checks.words import apart, difference
from vit_classroom.exhibits.mini_vit import MiniViT, accuracy, train_one_epoch
from vit_classroom.student_model import fitted

known = Mistakes(__file__, MiniViT, train_one_epoch)

# -- MiniViT

TINY = {
    "img_size": 4,
    "patch_size": 2,
    "in_chans": 1,
    "num_classes": 3,
    "embed_dim": 4,
    "depth": 1,
    "num_heads": 1,
}
SMALL = TINY | {"img_size": (8, 12), "patch_size": 4, "in_chans": 3, "num_classes": 5}
SMALL |= {"embed_dim": 12, "depth": 3, "num_heads": 2}


@demand(known("MiniViT parts"))
def has_its_parts(answer):
    module = build(answer, **SMALL)
    for name in ("cls_token", "pos_embed"):
        part = getattr(module, name, None)
        if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
            why = (
                ""
                if part.grad_fn is None
                else ". `nn.Parameter(...) * std` is none, so multiply inside the brackets"
            )
            raise Mistake(
                f"self.{name} is a plain tensor. Only an `nn.Parameter` learns, and moves to a GPU{why}"
            )
    blocks = getattr(module, "blocks", None)
    if isinstance(blocks, list | tuple):
        raise Mistake(
            "self.blocks is a Python list, so its blocks are no part of the model, and no optimiser finds their "
            "weights. Use an `Encoder`, or `nn.Sequential`"
        )
    if isinstance(blocks, nn.Sequential | nn.ModuleList):
        if len({id(block) for block in blocks}) < len(blocks):
            raise Mistake(
                "all your blocks are one and the same, because `[Block(...)] * depth` repeats one block. Make a new "
                "one for each layer"
            )
        if len(blocks) != SMALL["depth"]:
            turned = len(blocks) == SMALL["num_heads"]
            raise Mistake(
                f"depth is {SMALL['depth']}, but self.blocks holds {len(blocks)} block(s)"
                + ", as many as there are heads. The arguments of `Encoder` are depth, dim, num_heads"
                * turned
            )
    positions, patches = getattr(module, "pos_embed", None), math.prod((2, 3))
    if isinstance(positions, Tensor) and positions.ndim > 1 and positions.shape[-2] == patches:
        raise Mistake(
            "self.pos_embed has a row for each patch and none for the CLS token. It should have N + 1 rows"
        )


@demand(known("MiniViT starts"))
def starts_as_promised(answer):
    module = build(answer, **SMALL)
    for name in ("weight", "bias"):
        value = getattr(getattr(module, "head", None), name, None)
        if isinstance(value, Tensor) and value.any():
            raise Mistake(
                f"self.head.{name} does not start at zero (its largest number is {value.abs().max():.2g}). Set both "
                "parameters to 0, for example with nn.init.zeros_, so that the first loss is ln K"
            )
    for name, low, high in (("pos_embed", 0.012, 0.03), ("cls_token", 0, 1e-4)):
        value = getattr(module, name, None)
        if not isinstance(value, Tensor) or value.numel() < 2:
            continue
        mean, std = value.mean().item(), value.std().item()
        if not low <= std <= high or abs(mean) > max(low, 1e-4):
            raise Mistake(
                f"self.{name} starts with the mean {mean:.2g} and a standard deviation of {std:.2g}. The mean should "
                "be 0, and the deviation 0.02 for positions, 0 for the CLS token"
            )
    rows = module.pos_embed.flatten(0, -2)
    if len(rows.unique(dim=0)) < len(rows) or bool((rows.amin(1) == rows.amax(1)).any()):
        raise Mistake(
            "self.pos_embed repeats a row, or fills one with one number. Every token gets D numbers of its own, CLS too"
        )
    if torch.equal(module.pos_embed, build(answer, **SMALL).pos_embed):
        raise Mistake("two models start with the same numbers. Set no seed in `__init__`")
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            raise Mistake(
                f"self.{name} cannot learn, because requires_grad is False. It should only start at zero"
            )
        allowed = (
            getattr(module, "head", None) is None
            or name.endswith("bias")
            or name.startswith(("head", "cls_token"))
        )
        if parameter.ndim > 1 and parameter.std() > 0.6:
            raise Mistake(
                f"self.{name} starts with numbers of deviation {parameter.std():.2g}, far too large. Leave the start "
                "of linear layers to PyTorch"
            )
        if not (allowed or parameter.any()):
            raise Mistake(f"self.{name} starts at 0, and only the CLS token, the head and biases should")
    if (eps := getattr(getattr(module, "norm", None), "eps", 1e-6)) != 1e-6:
        raise Mistake(
            f"the eps of self.norm is {eps}, and it should be 1e-6, so write nn.LayerNorm(embed_dim, eps=1e-6)"
        )


def copy_weights(answer: nn.Module, finished: nn.Module) -> nn.Module:
    """Give a student's model the weights of the finished one; either may cut patches with a linear layer."""
    weights = fitted(finished.state_dict(), answer)
    return same_weights(answer, SimpleNamespace(state_dict=lambda: weights))


@demand(known("MiniViT sizes"))
def refuses_other_images(answer):
    module = build(answer, **SMALL)
    for bad in (torch.rand(2, 3, 8, 8), torch.rand(2, 1, 8, 12), torch.rand(3, 8, 12)):
        if not isinstance(outcome(lambda f, x: f(x), module, (bad,)), Exception):
            raise Mistake(
                f"built for 3x8x12 it accepts images of shape {tuple(bad.shape)}. `self.patch_embed` rejects them"
            )


exercise(
    MiniViT,
    has_its_parts,
    starts_as_promised,
    results(
        lambda: [(TINY, torch.randn(1, 1, 4, 4)), (SMALL, 2 * torch.randn(2, 3, 8, 12))],
        known("MiniViT results"),
        prepare=copy_weights,
    ),
    refuses_other_images,
)

# -- train_one_epoch

PIXELS = 8


@dataclass
class Call:
    """The state when a model was called: numbers of the images, mode, gradients on or off, weights."""

    rows: list[int]
    training: bool
    grad_enabled: bool
    weight: Tensor


class Watched(nn.Module):
    """A linear classifier that writes down what it is shown, and in which state of things."""

    def __init__(self, images: Tensor, num_classes: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_classes, PIXELS))
        self.inner = nn.Dropout(0.0)
        self.images, self.calls, self.ways_back = images, [], 0
        self.weight.register_hook(self.count_way_back)

    def count_way_back(self, _: Tensor) -> None:
        self.ways_back += 1

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[1:] != self.images.shape[1:]:
            raise Mistake(f"a model takes images as they are, (B, C, H, W), and gets {tuple(images.shape)}")
        flat = images.flatten(1)
        same = (flat[:, None] == self.images.flatten(1)).all(-1)
        rows = [int(row.float().argmax()) if row.any() else -1 for row in same]
        training = self.training and self.inner.training
        self.calls.append(Call(rows, training, torch.is_grad_enabled(), self.weight.detach().clone()))
        return flat @ self.weight.T


@dataclass
class Epoch:
    """What an answer did in one epoch: the model with its calls, the gradient at each step, the result."""

    images: Tensor
    labels: Tensor
    model: Watched
    gradients: list[Tensor | None] = field(default_factory=list)
    result: object = None

    @property
    def calls(self) -> list[Call]:
        return self.model.calls


def epoch_of(answer: Callable, number: int = 10, left: float | None = None, size: float = 1.0) -> Epoch:
    """Let an answer train a watched model, which comes in evaluation mode, perhaps with gradients that were left."""
    images, labels = size * torch.randn(number, 1, 2, PIXELS // 2), torch.arange(number) % 3
    epoch = Epoch(images, labels[torch.randperm(number)], Watched(images, 3).eval())
    optimizer = torch.optim.SGD(epoch.model.parameters(), lr=0.5)

    epoch.model.weight.grad = None if left is None else torch.full_like(epoch.model.weight, left)

    def before_step(_, given: tuple, named: dict) -> None:
        if given[1:] or named:
            raise Mistake(
                "`optimizer.step()` gets nothing here. Call `loss.backward()` first, and then `step` (PyTorch takes "
                "a function, too, but then nobody sees from outside what is done)"
            )
        gradient = epoch.model.weight.grad
        epoch.gradients.append(None if gradient is None else gradient.clone())

    optimizer.register_step_pre_hook(before_step)
    epoch.result = outcome(
        lambda f, m, x, y: f(m, x, y, optimizer, 4), answer, (epoch.model, images, epoch.labels)
    )
    if not isinstance(epoch.result, Exception) and optimizer.param_groups[0]["lr"] != 0.5:
        raise Mistake(
            "after the epoch the learning rate is another one. It belongs to the code that calls you"
        )
    return epoch


@demand(known("train_one_epoch images"))
def shows_every_picture_once(answer):
    epoch = epoch_of(answer)
    calls, error = epoch.calls, epoch.result if isinstance(epoch.result, Exception) else None
    if not calls and error is None:
        raise Mistake("your code never calls the model, as in `logits = model(batch)`")
    if not calls:
        raise stopped(error, "before it has called the model, `logits = model(batch)`, ")
    if not any(call.grad_enabled for call in calls):
        raise Mistake("gradients are off while your model trains. `torch.no_grad` belongs to evaluation")
    if not all(call.grad_enabled for call in calls):
        raise Mistake(
            "in some calls of the model gradients are on, and in others they are off. Here a batch goes through it "
            "once, with gradients, and the loss that you return is that of this call, before the step"
        )
    if error is not None:
        cut = "On the way to the loss something cuts the gradient off. Is it `detach`, `.data`, `.item()` or `argmax`?"
        raise stopped(error, hint=cut * ("does not require grad" in str(error)))
    if not all(call.training for call in calls):
        raise Mistake(
            "your model trains in evaluation mode. Call `model.train()` before the first batch, because "
            "measuring it has left it in the other mode"
        )
    shown = torch.tensor([row for call in calls for row in call.rows])
    if (shown < 0).any():
        raise Mistake("your model is shown other images than those given. They are normalised already")
    counts = torch.bincount(shown, minlength=10)
    sizes = sorted({len(call.rows) for call in calls})
    if (lost := (counts == 0).sum()) == 2 and counts.max() == 1:
        raise Mistake("2 of 10 images are never shown. The last batch, a smaller one, is lost")
    if lost and counts.max() == 1 and sizes[-1] == 4:
        raise Mistake(f"{lost} of 10 images are never shown. Is the first batch left out, or the last one?")
    if len(calls) > 1 and calls[0].rows == calls[1].rows:
        raise Mistake("your code calls the model twice for each batch. Once is enough, so keep its logits")
    if counts.max() > 1:
        raise Mistake(
            f"{(counts > 1).sum()} of 10 images are shown more than once, {lost} never. An epoch shows each once. "
            "Cut one permutation of all rows into batches"
        )
    if lost or sizes != [2, 4]:
        raise Mistake(
            f"a batch has 4 images, `batch_size`, and yours have {', '.join(map(str, sizes))}, of 10 images"
        )
    for number, wanted in ((9, "4, 4, 1"), (8, "4, 4"), (3, "3")):
        if isinstance((epoch := epoch_of(answer, number)).result, Exception):
            raise stopped(epoch.result, f"with {number} images ")
        sizes = sorted((len(call.rows) for call in epoch.calls), reverse=True)
        if sum(sizes) < number == 9:
            raise Mistake("with 9 images one is never shown, but a last batch of one image counts as well")
        if (yours := str(sizes)[1:-1]) != wanted:
            raise Mistake(f"{number} images make batches of {wanted}, and yours have {yours}")


@demand(known("train_one_epoch steps"))
def steps_along_the_gradient(answer):
    epoch = epoch_of(answer)
    steps, batches = epoch.gradients, len(epoch.calls)
    if not steps:
        raise Mistake(
            "`optimizer.step()` is never called, so gradients are computed and no weight moves"
            if torch.equal(epoch.calls[0].weight, epoch.model.weight)
            else "the optimiser that you were given never steps, and another one moves the weights"
        )
    if len(steps) != batches:
        many = "once" if len(steps) == 1 else f"{len(steps)} times"
        raise Mistake(
            f"the optimiser steps {many} in the whole epoch. A step follows each batch, here {batches}"
        )
    if not epoch.model.ways_back and not any(step is not None and step.any() for step in steps):
        raise Mistake(
            "no gradient reaches the model. Is `loss.backward()` called, and on a loss that is computed from "
            "`model(...)`, without `detach`, `.item()`, `argmax`, `torch.tensor` or numpy on the way?"
        )
    empty = [step is None or not step.any() for step in steps]
    if all(empty) and (epoch.model.weight.grad is None or not epoch.model.weight.grad.any()):
        raise Mistake(
            "`optimizer.zero_grad()` is between `loss.backward()` and `optimizer.step()`, so the gradients are gone "
            "before they are used"
        )
    if empty[0]:
        raise Mistake("the optimiser steps before `loss.backward()`, so it finds no gradient, or an old one")
    if close(steps[1], gradient(epoch, epoch.calls[0]) + gradient(epoch, epoch.calls[1])):
        raise Mistake(
            "the gradients of earlier batches are still there, because PyTorch adds new ones to them. Call "
            "`optimizer.zero_grad()` in every step"
        )
    weights = [call.weight for call in epoch.calls] + [epoch.model.weight]
    for before, after, step in zip(weights[:-1], weights[1:], steps, strict=True):
        if not close(after, before - 0.5 * step):
            raise Mistake(
                "besides `optimizer.step()` something moves the weights, or changes the learning rate. Leave both to "
                "the optimiser"
            )


@demand(known("train_one_epoch cleared"))
def clears_what_was_there(answer):
    epoch = epoch_of(answer, left=1.0)
    if close(epoch.gradients[0], gradient(epoch, epoch.calls[0]) + 1):
        raise Mistake(
            "gradients from before the call are still there in the first step. Clear them before `loss.backward()`, "
            "not after the step"
        )


def loss_of(epoch: Epoch, call: Call, weight: Tensor) -> Tensor:
    """Return the loss of the batch of a call, with these weights."""
    return F.cross_entropy(epoch.images[call.rows].flatten(1) @ weight.T, epoch.labels[call.rows])


def gradient(epoch: Epoch, call: Call, loss: Callable = F.cross_entropy) -> Tensor:
    """Return the gradient of a loss of (logits, labels) of a batch, for the weights of that moment."""
    weight = call.weight.clone().requires_grad_()
    logits = epoch.images[call.rows].flatten(1) @ weight.T
    return torch.autograd.grad(loss(logits, epoch.labels[call.rows]), weight)[0]


def close(got: Tensor, want: Tensor) -> bool:
    return torch.allclose(got, want, rtol=1e-3, atol=1e-5)


OTHER_LOSSES = {
    "the logits go through a softmax before the loss. `F.cross_entropy` has one of its own": (
        lambda logits, labels: F.cross_entropy(logits.softmax(-1), labels)
    ),
    "the loss of a batch is the sum over its images, so larger batches take larger steps. Take the mean": (
        lambda logits, labels: F.cross_entropy(logits, labels, reduction="sum")
    ),
    "the loss of a batch is divided by `batch_size`, but the last batch has fewer images. Divide by its own number": (
        lambda logits, labels: F.cross_entropy(logits, labels, reduction="sum") / 4
    ),
    "`F.nll_loss` takes log-probabilities, and you give it logits. `F.cross_entropy` takes logits": F.nll_loss,
    "this is the mean square error of the logits. The loss of a classifier is `F.cross_entropy`": (
        lambda logits, labels: F.mse_loss(logits, F.one_hot(labels, logits.shape[-1]).float())
    ),
}


@demand(known("train_one_epoch labels"))
def learns_from_its_labels(answer):
    for size in (1.0, 4.0):
        demand_gradients(epoch_of(answer, size=size))


def demand_gradients(epoch: Epoch) -> None:
    """Demand that each step follows the gradient of the mean cross-entropy of its batch."""
    for got, call in zip(epoch.gradients, epoch.calls, strict=True):
        want = gradient(epoch, call)
        if close(got, want):
            continue
        for words, loss in OTHER_LOSSES.items():
            if close(got, gradient(epoch, call, loss)):
                raise Mistake(words)
        if found := labels_behind(epoch, call, got):
            raise Mistake(
                f"the labels do not belong to the images. {found}. Choose both with the same rows, images[rows] and "
                "labels[rows]"
            )
        factor = ((got * want).sum() / want.square().sum()).item()
        if close(got, factor * want):
            raise Mistake(
                f"your gradient is {factor:.3g} times that of the mean cross-entropy of the batch. Is the loss "
                "multiplied or divided once more, or the gradient clipped?"
            )
        worst = (got - want).abs().argmax()
        right, mine = apart(want.flatten()[worst].item(), got.flatten()[worst].item(), 3)
        raise Mistake(
            "the gradient is not that of the mean cross-entropy of the batch, `F.cross_entropy(logits, labels)`. "
            f"A number in it should be {right}, and yours is {mine}"
        )


def labels_behind(epoch: Epoch, call: Call, got: Tensor) -> str:
    """Solve for the labels that give a gradient, and name the first that is wrong; "" if no labels give it."""
    x = epoch.images[call.rows].flatten(1)
    chances = (x @ call.weight.T).softmax(-1)
    labels = chances - len(x) * torch.linalg.pinv(x).T @ got.T
    if not close(labels, F.one_hot(labels.argmax(-1), labels.shape[-1]).float()):
        return ""
    pairs = zip(call.rows, epoch.labels[call.rows].tolist(), labels.argmax(-1).tolist(), strict=True)
    row, right, used = next(pair for pair in pairs if pair[1] != pair[2])
    return f"Image {row}, of class {right}, was trained as class {used}"


@demand(known("train_one_epoch order"))
def shuffles_anew(answer):
    epochs = [epoch_of(answer) for _ in range(3)]
    orders = [[row for call in epoch.calls for row in call.rows] for epoch in epochs]
    if all(order == sorted(order) for order in orders):
        raise Mistake(
            "the images come in the order in which they are given, and data sets are often sorted. Shuffle, with "
            "`torch.randperm(len(images))`"
        )
    classes = [[int(epoch.labels[row]) for call in epoch.calls for row in call.rows] for epoch in epochs]
    if all(shown in (sorted(shown), sorted(shown, reverse=True)) for shown in classes):
        raise Mistake(
            "your images come class by class, so most batches show one class alone. Shuffle them all"
        )
    batches = [{tuple(sorted(call.rows)) for call in epoch_of(answer).calls} for _ in range(3)]
    if all(parts == {(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)} for parts in batches):
        raise Mistake("you shuffle the batches, not the images, so the same images always come together")
    if all(len({(b - a) % 10 for a, b in itertools.pairwise(order)}) == 1 for order in orders):
        raise Mistake(
            "your order is the given one, begun elsewhere. Draw one with `torch.randperm(len(images))`"
        )
    epoch = epoch_of(answer)
    answer(epoch.model, epoch.images, epoch.labels, torch.optim.SGD(epoch.model.parameters(), lr=0.5), 4)
    first, second = ([row for call in epoch.calls[i : i + 3] for row in call.rows] for i in (0, 3))
    if first == second or orders[0] == orders[1] == orders[2]:
        raise Mistake("every epoch has the same order. Draw a new permutation each time, with no fixed seed")
    more = [[row for call in epoch_of(answer).calls for row in call.rows] for _ in range(8)]
    if len({order[0] for order in more}) == 1 or len({frozenset(order[:5]) for order in more}) == 1:
        raise Mistake("the same images always come first. Draw one order of all, with `torch.randperm(...)`")


def total(losses: list, sizes: list) -> float:
    return sum(loss * size for loss, size in zip(losses, sizes, strict=True))


OTHER_MEANS = {
    "your mean counts all batches equally, the small last one too. Weigh the loss of a batch by its "
    "images, and divide by N": lambda losses, sizes: sum(losses) / len(losses),
    "you add the losses of the batches and do not divide. The mean over the images is wanted": (
        lambda losses, sizes: sum(losses)
    ),
    "you divide the losses of the batches by the number of images, but each is a mean already. Weigh it by the "
    "images of its batch first": lambda losses, sizes: sum(losses) / sum(sizes),
    "you return the sum over the images. Divide it by N": total,
    "you take every batch for a full one, but the last has fewer images, `len(rows)`": (
        lambda losses, sizes: sizes[0] * sum(losses) / sum(sizes)
    ),
    "you return the loss of the last batch alone": lambda losses, sizes: losses[-1],
    "you keep the loss of the last batch alone. Add them up, with `+=` and not `=`": (
        lambda losses, sizes: losses[-1] * sizes[-1] / sum(sizes)
    ),
    "you return the loss of the first batch alone": lambda losses, sizes: losses[0],
    "the last batch counts for nothing where all are full. `len(rows)` is its size": lambda losses, sizes: (
        total(losses, [*sizes[:-1], sum(sizes) % sizes[0]]) / sum(sizes)
    ),
}
AFTERWARDS = (
    "you measure the loss after the epoch. Each batch's loss before its step is wanted, and costs nothing"
)


@demand(known("train_one_epoch loss"))
def returns_the_mean_loss(answer):
    for number in (10, 8):
        epoch = epoch_of(answer, number)
        losses = [loss_of(epoch, call, call.weight).item() for call in epoch.calls]
        sizes = [len(call.rows) for call in epoch.calls]
        if wrong := difference(epoch.result, total(losses, sizes) / sum(sizes)):
            break
    else:
        return
    for words, add in OTHER_MEANS.items():
        if not difference(epoch.result, add(losses, sizes)):
            raise Mistake(words)
    after = [loss_of(epoch, call, epoch.model.weight).item() for call in epoch.calls]
    if not difference(epoch.result, total(after, sizes) / sum(sizes)):
        raise Mistake(AFTERWARDS)
    raise Mistake(
        f"the training is right, but not what you return, the mean loss of {number} images: {wrong}"
    )


@demand(known("train_one_epoch kept"))
def leaves_things_as_promised(answer):
    epoch = epoch_of(answer)
    if isinstance(epoch.result, Tensor) and epoch.result.requires_grad:
        raise Mistake(
            "your loss is a tensor that remembers how it was made, so the memory of all batches stays in use. Add up "
            "`loss.item()`, a plain number"
        )
    if isinstance(epoch.result, Tensor):
        raise Mistake("your loss is still a tensor. Return a plain number, with `.item()`")
    if not epoch.model.training:
        raise Mistake(
            "your code leaves the model in evaluation mode, but the docstring promises training mode"
        )


exercise(
    train_one_epoch,
    shows_every_picture_once,
    steps_along_the_gradient,
    clears_what_was_there,
    learns_from_its_labels,
    shuffles_anew,
    returns_the_mean_loss,
    leaves_things_as_promised,
)

# -- accuracy

exercise(
    accuracy,
    measures_without_training,
    results(scores_and_labels, MISCOUNTS, run=measured, plain=True),
    names_one_class,
)
