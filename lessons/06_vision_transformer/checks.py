"""Checks of lesson 06: the Vision Transformer as a whole, the training loop, the evaluation."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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
from vit_course.embeddings import prepend_cls_token
from vit_course.encoder import Encoder

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


def model_of(forward: Callable) -> type:
    """Return a `MiniViT` whose forward pass is this function of (model, images)."""
    return type("MiniViT", (MiniViT,), {"forward": forward})


def model_with(**changed: Callable) -> type:
    """Return a `MiniViT` that changes itself after it is made: a function of the model for each attribute."""

    def init(self, *sizes, **named):
        MiniViT.__init__(self, *sizes, **named)
        for name, value in changed.items():
            made = value(self)
            delattr(self, name)
            setattr(self, name, made)

    return type("MiniViT", (MiniViT,), {"__init__": init})


def tokens(model: nn.Module, images: Tensor) -> Tensor:
    """Equation 1."""
    return prepend_cls_token(model.patch_embed(images), model.cls_token) + model.pos_embed


def encoded(model: nn.Module, images: Tensor) -> Tensor:
    """All tokens after the final norm."""
    return model.norm(model.blocks(tokens(model, images)))


def seeds_itself(self, *sizes, **options):
    torch.default_generator.manual_seed(0)
    MiniViT.__init__(self, *sizes, **options)


def late_cls(model: nn.Module, images: Tensor, places: slice = slice(1, None)) -> Tensor:
    """Add positions to the patches first, then put a CLS token without a position in front."""
    patches = model.patch_embed(images) + model.pos_embed[:, places]
    return model.head(model.norm(model.blocks(prepend_cls_token(patches, model.cls_token)))[:, 0])


def cls_at_the_end(read: int) -> type:
    """Return a model whose CLS token is the last one, and which reads the token at this place."""

    def forward(model, images):
        patches = model.patch_embed(images)
        z = torch.cat([patches, model.cls_token.expand(len(patches), -1, -1)], dim=1) + model.pos_embed
        return model.head(model.norm(model.blocks(z))[:, read])

    return model_of(forward)


def without_positions(model: nn.Module, images: Tensor) -> Tensor:
    z = prepend_cls_token(model.patch_embed(images), model.cls_token)
    return model.head(model.norm(model.blocks(z))[:, 0])


def positions_again(model: nn.Module, images: Tensor) -> Tensor:
    z = prepend_cls_token(model.patch_embed(images), model.cls_token)
    for block in model.blocks:
        z = block(z + model.pos_embed)
    return model.head(model.norm(z)[:, 0])


def makes_images_fit(model: nn.Module, images: Tensor) -> Tensor:
    height, width = model.patch_embed.img_size
    padded = F.pad(images, (0, width, 0, height))[:, :, :height, :width]
    return MiniViT.forward(model, padded.expand(-1, model.patch_embed.proj.in_channels, -1, -1))


def takes_one_picture(model: nn.Module, images: Tensor) -> Tensor:
    return MiniViT.forward(model, images[None] if images.ndim == 3 else images)


def in_evaluation(model: nn.Module, images: Tensor) -> Tensor:
    model.eval()
    return MiniViT.forward(model, images)


def large(name: str) -> Callable:
    """Return what draws a parameter with standard deviation 1."""
    return lambda model: nn.Parameter(torch.randn(getattr(model, name).shape))


@demand(
    {
        "self.cls_token is a plain tensor: only an `nn.Parameter` learns": model_with(
            cls_token=lambda m: torch.zeros(1, 1, m.head.in_features)
        ),
        "self.pos_embed is a plain tensor: only an `nn.Parameter` learns": model_with(
            pos_embed=lambda m: 0.02 * torch.randn(1, m.patch_embed.num_patches + 1, m.head.in_features)
        ),
        "self.blocks is a Python list: its blocks are no part of the model, and no optimiser finds their weights": (
            model_with(blocks=lambda model: list(model.blocks))
        ),
        "all your blocks are one and the same: `[Block(...)] * depth` repeats one block": (
            model_with(blocks=lambda model: nn.Sequential(*[model.blocks[0]] * len(model.blocks)))
        ),
        "depth is 3, but self.blocks holds": [
            model_with(blocks=lambda m: nn.Sequential(m.blocks[0])),
            model_with(
                blocks=lambda m: Encoder(m.blocks[0].attn.num_heads, m.head.in_features, len(m.blocks))
            ),
        ],
        "self.pos_embed has a row for each patch and none for the CLS token: it should have N + 1 rows": model_with(
            pos_embed=lambda m: nn.Parameter(
                0.02 * torch.randn(1, m.patch_embed.num_patches, m.head.in_features)
            )
        ),
    }
)
def has_its_parts(answer):
    module = build(answer, **SMALL)
    for name in ("cls_token", "pos_embed"):
        part = getattr(module, name, None)
        if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
            why = (
                ""
                if part.grad_fn is None
                else ", and `nn.Parameter(...) * std` is none: multiply inside the brackets"
            )
            raise Mistake(
                f"self.{name} is a plain tensor: only an `nn.Parameter` learns, and moves to a GPU{why}"
            )
    blocks = getattr(module, "blocks", None)
    if isinstance(blocks, list | tuple):
        raise Mistake(
            "self.blocks is a Python list: its blocks are no part of the model, and no optimiser finds their weights. "
            "Use an `Encoder`, or `nn.Sequential`"
        )
    if isinstance(blocks, nn.Sequential | nn.ModuleList):
        if len({id(block) for block in blocks}) < len(blocks):
            raise Mistake(
                "all your blocks are one and the same: `[Block(...)] * depth` repeats one block. Make a new one for "
                "each layer"
            )
        if len(blocks) != SMALL["depth"]:
            raise Mistake(f"depth is {SMALL['depth']}, but self.blocks holds {len(blocks)} block(s)")
    positions, patches = getattr(module, "pos_embed", None), math.prod((2, 3))
    if isinstance(positions, Tensor) and positions.ndim > 1 and positions.shape[-2] == patches:
        raise Mistake(
            "self.pos_embed has a row for each patch and none for the CLS token: it should have N + 1 rows"
        )


@demand(
    {
        "self.head.weight does not start at zero": model_with(
            head=lambda m: nn.Linear(m.head.in_features, m.head.out_features)
        ),
        "self.head.bias does not start at zero": model_with(
            head=lambda m: zeroed(nn.Linear(m.head.in_features, m.head.out_features), "weight")
        ),
        "self.head.weight cannot learn: requires_grad is False": model_with(
            head=lambda m: m.head.requires_grad_(False)
        ),
        "self.pos_embed starts with the mean": [
            model_with(pos_embed=large("pos_embed")),
            model_with(pos_embed=lambda m: nn.Parameter(0.02 * torch.rand_like(m.pos_embed))),
            model_with(pos_embed=lambda m: nn.Parameter(torch.zeros_like(m.pos_embed))),
        ],
        "self.cls_token starts with the mean": [
            model_with(cls_token=large("cls_token")),
            model_with(cls_token=lambda m: nn.Parameter(torch.ones_like(m.cls_token))),
        ],
        "self.pos_embed repeats a row, or fills one with one number": [
            model_with(
                pos_embed=lambda m: nn.Parameter(
                    torch.linspace(-0.03, 0.03, 7)[None, :, None].repeat(1, 1, 12)
                )
            ),
            model_with(
                pos_embed=lambda m: nn.Parameter(m.pos_embed[:, :1].repeat(1, m.pos_embed.shape[1], 1))
            ),
            model_with(pos_embed=lambda m: nn.Parameter(m.pos_embed.index_fill(1, torch.tensor(0), 0))),
            model_with(
                pos_embed=lambda m: nn.Parameter(
                    m.pos_embed[:, [0] + [1] * (m.pos_embed.shape[1] - 1)].detach()
                )
            ),
        ],
        "two models start with the same numbers": type("MiniViT", (MiniViT,), {"__init__": seeds_itself}),
        "starts at 0: that is meant for the CLS token, the head and biases": [
            model_with(norm=lambda m: zeroed(nn.LayerNorm(m.head.in_features, eps=1e-6), "weight")),
            model_with(
                blocks=lambda m: m.blocks.apply(
                    lambda part: isinstance(part, nn.Linear) and zeroed(part, "weight")
                )
            ),
        ],
        "far too large: leave the start of linear layers to PyTorch": model_with(
            blocks=lambda m: m.blocks.apply(
                lambda part: isinstance(part, nn.Linear) and nn.init.normal_(part.weight)
            )
        ),
        "the eps of self.norm is 1e-05": model_with(norm=lambda m: nn.LayerNorm(m.head.in_features)),
    }
)
def starts_as_promised(answer):
    module = build(answer, **SMALL)
    for name in ("weight", "bias"):
        value = getattr(getattr(module, "head", None), name, None)
        if isinstance(value, Tensor) and value.any():
            raise Mistake(
                f"self.head.{name} does not start at zero (its largest number is {value.abs().max():.2g}): set both "
                "parameters to 0, for example with nn.init.zeros_, so that the first loss is ln K"
            )
    for name, low, high in (("pos_embed", 0.012, 0.03), ("cls_token", 0, 1e-4)):
        value = getattr(module, name, None)
        if not isinstance(value, Tensor) or value.numel() < 2:
            continue
        mean, std = value.mean().item(), value.std().item()
        if not low <= std <= high or abs(mean) > max(low, 1e-4):
            raise Mistake(
                f"self.{name} starts with the mean {mean:.2g} and a standard deviation of {std:.2g}: the mean is 0, "
                "and the deviation .02 for positions, 0 for the CLS token"
            )
    rows = module.pos_embed.flatten(0, -2)
    if len(rows.unique(dim=0)) < len(rows) or bool((rows.amin(1) == rows.amax(1)).any()):
        raise Mistake(
            "self.pos_embed repeats a row, or fills one with one number: every token gets D numbers of its own, CLS too"
        )
    if torch.equal(module.pos_embed, build(answer, **SMALL).pos_embed):
        raise Mistake("two models start with the same numbers: set no seed in `__init__`")
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            raise Mistake(f"self.{name} cannot learn: requires_grad is False. At zero it only starts")
        allowed = (
            getattr(module, "head", None) is None
            or name.endswith("bias")
            or name.startswith(("head", "cls_token"))
        )
        if parameter.ndim > 1 and parameter.std() > 0.6:
            raise Mistake(
                f"self.{name} starts with numbers of deviation {parameter.std():.2g}, far too large: leave the start "
                "of linear layers to PyTorch"
            )
        if not (allowed or parameter.any()):
            raise Mistake(
                f"self.{name} starts at 0: that is meant for the CLS token, the head and biases alone"
            )
    if (eps := getattr(getattr(module, "norm", None), "eps", 1e-6)) != 1e-6:
        raise Mistake(f"the eps of self.norm is {eps}, it should be 1e-6: nn.LayerNorm(embed_dim, eps=1e-6)")


def zeroed(layer: nn.Linear, name: str) -> nn.Linear:
    nn.init.zeros_(getattr(layer, name))
    return layer


def copy_weights(answer: nn.Module, finished: nn.Module) -> nn.Module:
    """Give a student's model the weights of the finished one; either may cut patches with a linear layer."""
    weights = fitted(finished.state_dict(), answer)
    return same_weights(answer, SimpleNamespace(state_dict=lambda: weights))


@demand({"it accepts images of shape": [model_of(makes_images_fit), model_of(takes_one_picture)]})
def refuses_other_images(answer):
    module = build(answer, **SMALL)
    for bad in (torch.rand(2, 3, 8, 8), torch.rand(2, 1, 8, 12), torch.rand(3, 8, 12)):
        if not isinstance(outcome(lambda f, x: f(x), module, (bad,)), Exception):
            raise Mistake(
                f"built for 3x8x12 it accepts images of shape {tuple(bad.shape)}: `self.patch_embed` refuses them"
            )


exercise(
    MiniViT,
    has_its_parts,
    starts_as_promised,
    results(
        lambda: [(TINY, torch.randn(1, 1, 4, 4)), (SMALL, 2 * torch.randn(2, 3, 8, 12))],
        {
            "the final layer norm is missing: equation 4 is y = LN(z_L^0), and `self.norm` is that LN": model_of(
                lambda m, x: m.head(m.blocks(tokens(m, x))[:, 0])
            ),
            "your head reads token 1, the first patch: the CLS token stands in front, at index 0": model_of(
                lambda m, x: m.head(encoded(m, x)[:, 1])
            ),
            "your head reads the last token, a patch: the CLS token stands in front, at index 0": model_of(
                lambda m, x: m.head(encoded(m, x)[:, -1])
            ),
            "your CLS token stands at the end: it comes first, where its position is and where `pool` reads it": [
                cls_at_the_end(0),
                cls_at_the_end(-1),
            ],
            "the CLS token and the positions are missing: `self.patch_embed` is only the first step of equation 1": (
                model_of(lambda m, x: m.head(m.norm(m.blocks(m.patch_embed(x)))[:, 0]))
            ),
            "your CLS token has no position: put it in front first, then add E_pos to all tokens": [
                model_of(late_cls),
                model_of(lambda m, x: late_cls(m, x, slice(-1))),
            ],
            "the positions E_pos are missing: add `self.pos_embed` once the CLS token is in front": model_of(
                without_positions
            ),
            "the positions are added in front of every block: equation 1 adds them once": model_of(
                positions_again
            ),
            "the positions are added twice": model_of(
                lambda m, x: m.head(m.norm(m.blocks(tokens(m, x) + m.pos_embed))[:, 0])
            ),
            "you return probabilities: logits were asked for. The loss applies the softmax itself": (
                model_of(lambda m, x: MiniViT.forward(m, x).softmax(-1))
            ),
            "you return log-probabilities: logits were asked for, the output of the head as it is": model_of(
                lambda m, x: MiniViT.forward(m, x).log_softmax(-1)
            ),
            "you return the number of the best class: no gradient comes through `argmax`. Logits were asked for": (
                model_of(lambda m, x: MiniViT.forward(m, x).argmax(-1))
            ),
            "the images go through the blocks twice: `self.blocks(z)` runs all L blocks, so call it once": model_of(
                lambda m, x: m.head(m.norm(m.blocks(m.blocks(tokens(m, x))))[:, 0])
            ),
            "only the first block is used: all L blocks follow one another": model_of(
                lambda m, x: m.head(m.norm(m.blocks[0](tokens(m, x)))[:, 0])
            ),
            "the encoder is missing: the CLS token has not met the image yet; call `self.blocks`, and read what comes "
            "out of them": model_of(lambda m, x: m.head(m.norm(tokens(m, x))[:, 0])),
            "your norm comes before the blocks: the LN of equation 4 comes after the last block": model_of(
                lambda m, x: m.head(m.blocks(m.norm(tokens(m, x)))[:, 0])
            ),
            "you classify every token, (B, T, K): `pool` makes one vector per image first": model_of(
                lambda m, x: m.head(encoded(m, x))
            ),
            "you average the patches: this model reads the CLS token, `pool` with the mode 'token'": model_of(
                lambda m, x: m.head(encoded(m, x)[:, 1:].mean(1))
            ),
            "you average all tokens: this model reads the CLS token alone, `pool` with the mode 'token'": model_of(
                lambda m, x: m.head(encoded(m, x).mean(1))
            ),
            "a tanh stands before the head: that is the hidden layer of pre-training, not asked for here": model_of(
                lambda m, x: m.head(encoded(m, x)[:, 0].tanh())
            ),
            "switches the mode of the model": model_of(in_evaluation),
            "something is drawn at random": model_of(lambda m, x: F.dropout(MiniViT.forward(m, x))),
        },
        prepare=copy_weights,
    ),
    refuses_other_images,
)

# -- train_one_epoch

PIXELS = 8


@dataclass
class Call:
    """What was so when a model was called: numbers of the pictures, mode, gradients on or off, weights."""

    rows: list[int]
    training: bool
    grad_enabled: bool
    weight: Tensor


class Watched(nn.Module):
    """A linear classifier that writes down what it is shown, and in which state of things."""

    def __init__(self, pictures: Tensor, num_classes: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_classes, PIXELS))
        self.inner = nn.Dropout(0.0)
        self.pictures, self.calls, self.ways_back = pictures, [], 0
        self.weight.register_hook(self.count_way_back)

    def count_way_back(self, _: Tensor) -> None:
        self.ways_back += 1

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[1:] != self.pictures.shape[1:]:
            raise Mistake(f"a model takes pictures as they are, (B, C, H, W), and gets {tuple(images.shape)}")
        flat = images.flatten(1)
        same = (flat[:, None] == self.pictures.flatten(1)).all(-1)
        rows = [int(row.float().argmax()) if row.any() else -1 for row in same]
        training = self.training and self.inner.training
        self.calls.append(Call(rows, training, torch.is_grad_enabled(), self.weight.detach().clone()))
        return flat @ self.weight.T


@dataclass
class Epoch:
    """What an answer did in one epoch: the model with its calls, the gradient at each step, the result."""

    pictures: Tensor
    labels: Tensor
    model: Watched
    gradients: list[Tensor | None] = field(default_factory=list)
    result: object = None

    @property
    def calls(self) -> list[Call]:
        return self.model.calls


def epoch_of(answer: Callable, number: int = 10, left: float | None = None, size: float = 1.0) -> Epoch:
    """Let an answer train a watched model, which comes in evaluation mode, perhaps with gradients that were left."""
    pictures, labels = size * torch.randn(number, 1, 2, PIXELS // 2), torch.arange(number) % 3
    epoch = Epoch(pictures, labels[torch.randperm(number)], Watched(pictures, 3).eval())
    optimizer = torch.optim.SGD(epoch.model.parameters(), lr=0.5)

    epoch.model.weight.grad = None if left is None else torch.full_like(epoch.model.weight, left)

    def before_step(_, given: tuple, named: dict) -> None:
        if given[1:] or named:
            raise Mistake(
                "`optimizer.step()` gets nothing here: call `loss.backward()` first, and then `step` (PyTorch takes "
                "a function, too, but then nobody sees from outside what is done)"
            )
        gradient = epoch.model.weight.grad
        epoch.gradients.append(None if gradient is None else gradient.clone())

    optimizer.register_step_pre_hook(before_step)
    epoch.result = outcome(
        lambda f, m, x, y: f(m, x, y, optimizer, 4), answer, (epoch.model, pictures, epoch.labels)
    )
    if not isinstance(epoch.result, Exception) and optimizer.param_groups[0]["lr"] != 0.5:
        raise Mistake("after the epoch the learning rate is another one: it belongs to whoever calls you")
    return epoch


def one_step(model, images, labels, optimizer):
    """A step as it should be; returns the loss."""
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def loop(step: Callable = one_step, batches: Callable | None = None, mode: bool = True) -> Callable:
    """Return a `train_one_epoch` with another step, or other batches: pairs of rows of images and rows of labels."""

    def answer(model, images, labels, optimizer, batch_size=64):
        model.train(mode)
        total = 0.0
        for rows, rows_of_labels in (batches or shuffled)(len(images), batch_size):
            total += step(model, images[rows], labels[rows_of_labels], optimizer) * len(rows)
        return total / len(images)

    return answer


def shuffled(number, batch_size):
    return [(rows, rows) for rows in torch.randperm(number).split(batch_size)]


def in_order(number, batch_size):
    return [(rows, rows) for rows in torch.arange(number).split(batch_size)]


def same_order_every_time(number, batch_size):
    rows = torch.randperm(number, generator=torch.Generator().manual_seed(0))
    return [(part, part) for part in rows.split(batch_size)]


def batches_shuffled(number, batch_size):
    parts = in_order(number, batch_size)
    return [parts[i] for i in torch.randperm(len(parts))]


def last_batch_filled(number, batch_size):
    rows = torch.randperm(number)
    rows = torch.cat([rows, rows[: -number % batch_size]])
    return [(part, part) for part in rows.split(batch_size)]


def drawn_with_replacement(number, batch_size):
    return [(rows, rows) for rows in torch.randint(number, (number,)).split(batch_size)]


def one_by_one(number, batch_size):
    return shuffled(number, 1)


def labels_in_order(number, batch_size):
    return list(
        zip(torch.randperm(number).split(batch_size), torch.arange(number).split(batch_size), strict=True)
    )


def labels_shuffled_apart(number, batch_size):
    return list(
        zip(torch.randperm(number).split(batch_size), torch.randperm(number).split(batch_size), strict=True)
    )


def step_of(*order: str, loss_of: Callable = F.cross_entropy) -> Callable:
    """Return a step that does these things in this order: "zero_grad", "backward", "step"."""

    def step(model, images, labels, optimizer):
        loss = loss_of(model(images), labels)
        do = {"zero_grad": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step}
        for name in order:
            do[name]()
        return loss.item()

    return step


def step_with(loss_of: Callable) -> Callable:
    """Return a step with another loss of (logits, labels)."""
    return step_of("zero_grad", "backward", "step", loss_of=loss_of)


def without_gradients(model, images, labels, optimizer):
    with torch.no_grad():
        return one_step(model, images, labels, optimizer)


def measures_again(model, images, labels, optimizer):
    one_step(model, images, labels, optimizer)
    with torch.no_grad():
        return F.cross_entropy(model(images), labels).item()


def calls_twice(model, images, labels, optimizer):
    model(images)
    return one_step(model, images, labels, optimizer)


def own_optimizer(model, images, labels, optimizer):
    return one_step(model, images, labels, torch.optim.SGD(model.parameters(), lr=0.1))


def steps_by_hand_too(model, images, labels, optimizer):
    loss = one_step(model, images, labels, optimizer)
    with torch.no_grad():
        model.weight -= 0.01 * model.weight.grad
    return loss


def clips(model, images, labels, optimizer):
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    return loss.item()


def one_batch_more(number, size):
    order = torch.randperm(number)
    return [2 * (order[i * size : (i + 1) * size],) for i in range(number // size + 1)]


def shows_all_at_once(model, images, labels, optimizer, batch_size=64):
    model.train()
    return one_step(model, images, labels, optimizer)


def steps_once(model, images, labels, optimizer, batch_size=64):
    total = loop(step_of("backward"))(model, images, labels, optimizer, batch_size)
    optimizer.step()
    return total


@demand(
    {
        "your code never calls the model": lambda model, images, labels, optimizer, batch_size=64: 0.0,
        "your model trains in evaluation mode: call `model.train()` before the first batch": [
            loop(mode=False),
            lambda model, images, labels, optimizer, batch_size=64: loop(mode=model.training)(
                model, images, labels, optimizer, batch_size
            ),
        ],
        "gradients are off while your model trains": loop(without_gradients),
        "in some calls of the model gradients are on, and off in others": loop(measures_again),
        "2 of 10 pictures are never shown: the last batch, a smaller one": loop(
            batches=lambda number, batch_size: shuffled(number, batch_size)[: number // batch_size]
        ),
        "9 pictures make batches of 4, 4, 1": loop(
            batches=lambda number, size: [
                (rows, rows) for rows in torch.randperm(number).chunk(-(-number // size))
            ]
        ),
        "8 pictures make batches of 4, 4; yours have 4, 4, 0": loop(batches=one_batch_more),
        "a last batch of one picture counts as well": loop(
            batches=lambda number, size: [pair for pair in shuffled(number, size) if len(pair[0]) > 1]
        ),
        "are never shown: is the first batch left out, or the last one?": [
            loop(batches=lambda number, size: shuffled(number, size)[1:]),
            loop(batches=lambda number, size: shuffled(number, size)[:1]),
        ],
        "your code calls the model twice for each batch": loop(calls_twice),
        "are shown more than once": [loop(batches=drawn_with_replacement), loop(batches=last_batch_filled)],
        "a batch has 4 pictures, `batch_size`; yours have": [loop(batches=one_by_one), shows_all_at_once],
    }
)
def shows_every_picture_once(answer):
    epoch = epoch_of(answer)
    calls, error = epoch.calls, epoch.result if isinstance(epoch.result, Exception) else None
    if not calls and error is None:
        raise Mistake("your code never calls the model: `logits = model(batch)`")
    if not calls:
        raise stopped(error, "before it has called the model, `logits = model(batch)`, ")
    if not any(call.grad_enabled for call in calls):
        raise Mistake("gradients are off while your model trains: `torch.no_grad` belongs to evaluation")
    if not all(call.grad_enabled for call in calls):
        raise Mistake(
            "in some calls of the model gradients are on, and off in others: here a batch goes through it once, with "
            "gradients, and the loss that you return is that of this call, before the step"
        )
    if error is not None:
        cut = (
            "On the way to the loss something cuts the gradient off: `detach`, `.data`, `.item()`, `argmax`?"
        )
        raise stopped(error, hint=cut * ("does not require grad" in str(error)))
    if not all(call.training for call in calls):
        raise Mistake(
            "your model trains in evaluation mode: call `model.train()` before the first batch. Measuring "
            "it has left it in the other mode"
        )
    shown = torch.tensor([row for call in calls for row in call.rows])
    if (shown < 0).any():
        raise Mistake("your model is shown other pictures than those given: they are normalised already")
    counts = torch.bincount(shown, minlength=10)
    sizes = sorted({len(call.rows) for call in calls})
    if (lost := (counts == 0).sum()) == 2 and counts.max() == 1:
        raise Mistake("2 of 10 pictures are never shown: the last batch, a smaller one, is lost")
    if lost and counts.max() == 1 and sizes[-1] == 4:
        raise Mistake(f"{lost} of 10 pictures are never shown: is the first batch left out, or the last one?")
    if len(calls) > 1 and calls[0].rows == calls[1].rows:
        raise Mistake("your code calls the model twice for each batch: once is enough, keep its logits")
    if counts.max() > 1:
        raise Mistake(
            f"{(counts > 1).sum()} of 10 pictures are shown more than once, {lost} never: an epoch shows each once. "
            "Cut one permutation of all rows into batches"
        )
    if lost or sizes != [2, 4]:
        raise Mistake(
            f"a batch has 4 pictures, `batch_size`; yours have {', '.join(map(str, sizes))}, of 10 pictures"
        )
    for number, wanted in ((9, "4, 4, 1"), (8, "4, 4"), (3, "3")):
        if isinstance((epoch := epoch_of(answer, number)).result, Exception):
            raise stopped(epoch.result, f"with {number} pictures ")
        sizes = sorted((len(call.rows) for call in epoch.calls), reverse=True)
        if sum(sizes) < number == 9:
            raise Mistake("with 9 pictures one is never shown: a last batch of one picture counts as well")
        if (yours := str(sizes)[1:-1]) != wanted:
            raise Mistake(f"{number} pictures make batches of {wanted}; yours have {yours}")


@demand(
    {
        "`optimizer.step()` is never called: gradients are computed, and no weight moves": loop(
            step_of("zero_grad", "backward")
        ),
        "the optimiser that you were given never steps; another one moves the weights": loop(own_optimizer),
        "the optimiser steps once in the whole epoch: a step follows each batch": steps_once,
        "no gradient reaches the model": loop(step_of("zero_grad", "step")),
        "the optimiser steps before `loss.backward()`: it finds no gradient, or an old one": [
            loop(step_of("zero_grad", "step", "backward")),
            loop(step_of("step", "zero_grad", "backward")),
        ],
        "`optimizer.zero_grad()` stands between `loss.backward()` and `optimizer.step()`: the gradients are gone": loop(
            step_of("backward", "zero_grad", "step")
        ),
        "the gradients of earlier batches are still there: PyTorch adds new ones to them": loop(
            step_of("backward", "step")
        ),
        "besides `optimizer.step()` something moves the weights, or changes the learning rate": loop(
            steps_by_hand_too
        ),
        "after the epoch the learning rate is another one": lambda model, images, labels, optimizer, batch_size=64: (
            (
                loop()(model, images, labels, optimizer, batch_size),
                torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9).step(),
            )[0]
        ),
    }
)
def steps_along_the_gradient(answer):
    epoch = epoch_of(answer)
    steps, batches = epoch.gradients, len(epoch.calls)
    if not steps:
        raise Mistake(
            "`optimizer.step()` is never called: gradients are computed, and no weight moves"
            if torch.equal(epoch.calls[0].weight, epoch.model.weight)
            else "the optimiser that you were given never steps; another one moves the weights"
        )
    if len(steps) != batches:
        many = "once" if len(steps) == 1 else f"{len(steps)} times"
        raise Mistake(
            f"the optimiser steps {many} in the whole epoch: a step follows each batch, here {batches}"
        )
    if not epoch.model.ways_back and not any(step is not None and step.any() for step in steps):
        raise Mistake(
            "no gradient reaches the model: is `loss.backward()` called, and on a loss that is computed from "
            "`model(...)`, without `detach`, `.item()`, `argmax`, `torch.tensor` or numpy on the way?"
        )
    empty = [step is None or not step.any() for step in steps]
    if all(empty) and (epoch.model.weight.grad is None or not epoch.model.weight.grad.any()):
        raise Mistake(
            "`optimizer.zero_grad()` stands between `loss.backward()` and `optimizer.step()`: the gradients are gone "
            "before they are used"
        )
    if empty[0]:
        raise Mistake("the optimiser steps before `loss.backward()`: it finds no gradient, or an old one")
    if close(steps[1], gradient(epoch, epoch.calls[0]) + gradient(epoch, epoch.calls[1])):
        raise Mistake(
            "the gradients of earlier batches are still there: PyTorch adds new ones to them. Call "
            "`optimizer.zero_grad()` in every step"
        )
    weights = [call.weight for call in epoch.calls] + [epoch.model.weight]
    for before, after, step in zip(weights[:-1], weights[1:], steps, strict=True):
        if not close(after, before - 0.5 * step):
            raise Mistake(
                "besides `optimizer.step()` something moves the weights, or changes the learning rate: leave both to "
                "the optimiser"
            )


def by_class(model, images, labels, optimizer, batch_size=64):
    rows = torch.randperm(len(images))
    rows = rows[labels[rows].argsort(stable=True)]
    return loop(batches=lambda *_: [(part, part) for part in rows.split(batch_size)])(
        model, images, labels, optimizer, batch_size
    )


def clears_too_late(model, images, labels, optimizer):
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
    return 0.0


@demand({"gradients from before the call are still there in the first step": loop(clears_too_late)})
def clears_what_was_there(answer):
    epoch = epoch_of(answer, left=1.0)
    if close(epoch.gradients[0], gradient(epoch, epoch.calls[0]) + 1):
        raise Mistake(
            "gradients from before the call are still there in the first step: clear them before `loss.backward()`, "
            "not after the step"
        )


def loss_of(epoch: Epoch, call: Call, weight: Tensor) -> Tensor:
    """Return the loss of the batch of a call, with these weights."""
    return F.cross_entropy(epoch.pictures[call.rows].flatten(1) @ weight.T, epoch.labels[call.rows])


def gradient(epoch: Epoch, call: Call, loss: Callable = F.cross_entropy) -> Tensor:
    """Return the gradient of a loss of (logits, labels) of a batch, for the weights of that moment."""
    weight = call.weight.clone().requires_grad_()
    logits = epoch.pictures[call.rows].flatten(1) @ weight.T
    return torch.autograd.grad(loss(logits, epoch.labels[call.rows]), weight)[0]


def close(got: Tensor, want: Tensor) -> bool:
    return torch.allclose(got, want, rtol=1e-3, atol=1e-5)


OTHER_LOSSES = {
    "the logits go through a softmax before the loss: `F.cross_entropy` has one of its own": (
        lambda logits, labels: F.cross_entropy(logits.softmax(-1), labels)
    ),
    "the loss of a batch is the sum over its pictures: larger batches then take larger steps. Take the mean": (
        lambda logits, labels: F.cross_entropy(logits, labels, reduction="sum")
    ),
    "the loss of a batch is divided by `batch_size`; the last one has fewer pictures: divide by its own number": (
        lambda logits, labels: F.cross_entropy(logits, labels, reduction="sum") / 4
    ),
    "`F.nll_loss` takes log-probabilities, and you give it logits: `F.cross_entropy` takes logits": F.nll_loss,
    "this is the mean square error of the logits: the loss of a classifier is `F.cross_entropy`": (
        lambda logits, labels: F.mse_loss(logits, F.one_hot(labels, logits.shape[-1]).float())
    ),
}


@demand(
    {words: loop(step_with(loss)) for words, loss in OTHER_LOSSES.items()}
    | {
        "the labels do not belong to the pictures": [
            loop(batches=labels_in_order),
            loop(batches=labels_shuffled_apart),
        ],
        "times that of the mean cross-entropy of the batch": [
            loop(step_with(lambda logits, labels: F.cross_entropy(logits, labels) / 3)),
            loop(clips),
        ],
    }
)
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
                f"the labels do not belong to the pictures: {found}. Choose both with the same rows, images[rows] and "
                "labels[rows]"
            )
        factor = ((got * want).sum() / want.square().sum()).item()
        if close(got, factor * want):
            raise Mistake(
                f"your gradient is {factor:.3g} times that of the mean cross-entropy of the batch: is the loss "
                "multiplied or divided once more, or the gradient clipped?"
            )
        worst = (got - want).abs().argmax()
        right, mine = apart(want.flatten()[worst].item(), got.flatten()[worst].item(), 3)
        raise Mistake(
            "the gradient is not that of the mean cross-entropy of the batch: its loss is `F.cross_entropy(logits, "
            f"labels)`; a wanted number is {right}, yours {mine}"
        )


def labels_behind(epoch: Epoch, call: Call, got: Tensor) -> str:
    """Solve for the labels that give a gradient, and name the first that is wrong; "" if no labels give it."""
    x = epoch.pictures[call.rows].flatten(1)
    chances = (x @ call.weight.T).softmax(-1)
    labels = chances - len(x) * torch.linalg.pinv(x).T @ got.T
    if not close(labels, F.one_hot(labels.argmax(-1), labels.shape[-1]).float()):
        return ""
    pairs = zip(call.rows, epoch.labels[call.rows].tolist(), labels.argmax(-1).tolist(), strict=True)
    row, right, used = next(pair for pair in pairs if pair[1] != pair[2])
    return f"picture {row}, of class {right}, was trained as class {used}"


@demand(
    {
        "the pictures come in the order in which they are given": loop(batches=in_order),
        "you shuffle the batches, not the pictures": loop(batches=batches_shuffled),
        "every epoch has the same order": loop(batches=same_order_every_time),
        "the same pictures always come first": loop(
            batches=lambda number, size: [
                (rows, rows)
                for rows in torch.cat([torch.zeros(1).long(), torch.randperm(number - 1) + 1]).split(size)
            ]
        ),
        "your pictures come class by class": by_class,
        "your order is the given one, begun elsewhere": loop(
            batches=lambda number, size: [
                (rows, rows)
                for rows in torch.arange(number).roll(int(torch.randint(1, number, ()))).split(size)
            ]
        ),
    }
)
def shuffles_anew(answer):
    epochs = [epoch_of(answer) for _ in range(3)]
    orders = [[row for call in epoch.calls for row in call.rows] for epoch in epochs]
    if all(order == sorted(order) for order in orders):
        raise Mistake(
            "the pictures come in the order in which they are given: data sets are often sorted. Shuffle, with "
            "`torch.randperm(len(images))`"
        )
    classes = [[int(epoch.labels[row]) for call in epoch.calls for row in call.rows] for epoch in epochs]
    if all(shown in (sorted(shown), sorted(shown, reverse=True)) for shown in classes):
        raise Mistake(
            "your pictures come class by class, so most batches show one class alone: shuffle them all"
        )
    batches = [{tuple(sorted(call.rows)) for call in epoch_of(answer).calls} for _ in range(3)]
    if all(parts == {(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)} for parts in batches):
        raise Mistake("you shuffle the batches, not the pictures: the same pictures always come together")
    if all(len({(b - a) % 10 for a, b in itertools.pairwise(order)}) == 1 for order in orders):
        raise Mistake("your order is the given one, begun elsewhere: draw one, `torch.randperm(len(images))`")
    epoch = epoch_of(answer)
    answer(epoch.model, epoch.pictures, epoch.labels, torch.optim.SGD(epoch.model.parameters(), lr=0.5), 4)
    first, second = ([row for call in epoch.calls[i : i + 3] for row in call.rows] for i in (0, 3))
    if first == second or orders[0] == orders[1] == orders[2]:
        raise Mistake("every epoch has the same order: draw a new permutation each time, with no fixed seed")
    more = [[row for call in epoch_of(answer).calls for row in call.rows] for _ in range(8)]
    if len({order[0] for order in more}) == 1 or len({frozenset(order[:5]) for order in more}) == 1:
        raise Mistake("the same pictures always come first: draw one order of all, `torch.randperm(...)`")


def with_graph(model, images, labels, optimizer):
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def loss_made_by(add: Callable) -> Callable:
    """Return a `train_one_epoch` that makes its result in another way, of the losses and the sizes of the batches."""

    def answer(model, images, labels, optimizer, batch_size=64):
        model.train()
        parts = [rows for rows, _ in shuffled(len(images), batch_size)]
        losses = [one_step(model, images[rows], labels[rows], optimizer) for rows in parts]
        return add(losses, [len(rows) for rows in parts])

    return answer


def measures_afterwards(model, images, labels, optimizer, batch_size=64):
    loop()(model, images, labels, optimizer, batch_size)
    return F.cross_entropy(images.flatten(1) @ model.weight.T, labels).item()


def total(losses: list, sizes: list) -> float:
    return sum(loss * size for loss, size in zip(losses, sizes, strict=True))


OTHER_MEANS = {
    "your mean counts all batches equally, the small last one too: weigh the loss of a batch by its "
    "pictures, and divide by N": lambda losses, sizes: sum(losses) / len(losses),
    "you add the losses of the batches and do not divide: the mean over the pictures was asked for": (
        lambda losses, sizes: sum(losses)
    ),
    "you divide the losses of the batches by the number of pictures, but each is a mean already: weigh it by the "
    "pictures of its batch first": lambda losses, sizes: sum(losses) / sum(sizes),
    "you return the sum over the pictures: divide it by N": total,
    "you take every batch for a full one: the last has fewer pictures, `len(rows)`": (
        lambda losses, sizes: sizes[0] * sum(losses) / sum(sizes)
    ),
    "you return the loss of the last batch alone": lambda losses, sizes: losses[-1],
    "you keep the loss of the last batch alone: add them up, `+=` and not `=`": (
        lambda losses, sizes: losses[-1] * sizes[-1] / sum(sizes)
    ),
    "you return the loss of the first batch alone": lambda losses, sizes: losses[0],
    "the last batch counts for nothing where all are full: `len(rows)` is its size": lambda losses, sizes: (
        total(losses, [*sizes[:-1], sum(sizes) % sizes[0]]) / sum(sizes)
    ),
}
AFTERWARDS = (
    "you measure the loss after the epoch: wanted is that of each batch before its step, which costs nothing"
)


@demand({words: loss_made_by(add) for words, add in OTHER_MEANS.items()} | {AFTERWARDS: measures_afterwards})
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
        f"the training is right, but not what you return, the mean loss of {number} pictures: {wrong}"
    )


@demand(
    {
        "your loss is a tensor that remembers how it was made": loop(with_graph),
        "your loss is still a tensor": lambda *given: torch.tensor(loop()(*given)),
        "your code leaves the model in evaluation mode": lambda model, images, labels, optimizer, batch_size=64: (
            (loop()(model, images, labels, optimizer, batch_size), model.eval())[0]
        ),
    }
)
def leaves_things_as_promised(answer):
    epoch = epoch_of(answer)
    if isinstance(epoch.result, Tensor) and epoch.result.requires_grad:
        raise Mistake(
            "your loss is a tensor that remembers how it was made: the memory of all batches stays in use. Add up "
            "`loss.item()`, a plain number"
        )
    if isinstance(epoch.result, Tensor):
        raise Mistake("your loss is still a tensor: return a plain number, with `.item()`")
    if not epoch.model.training:
        raise Mistake("your code leaves the model in evaluation mode: the docstring promises training mode")


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
