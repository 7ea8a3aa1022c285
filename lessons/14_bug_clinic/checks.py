"""Checks of lesson 14: the bug clinic. They name what is left to see of a bug, its symptom, never the line.

First come the `measurements` that concern the function, on a patient in which all else is healthy. An answer without
symptoms is then compared with the finished version, for what no measurement asks. `chart` keeps every answer, mended or
not, as it was last checked.
"""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vit_classroom.checks.compare import NEW_TENSOR, compare_gradients, demand_device
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome, spread_weights
from vit_classroom.checks.registry import EXERCISES
from vit_classroom.checks.scorers import (
    MISCOUNTS,
    marks_the_outermost_alone,
    measured,
    measures_without_training,
    names_one_class,
    scores_and_labels,
)
from vit_classroom.checks.task import Demand, Known, demand, exercise, results
from vit_classroom.checks.words import apart, difference
from vit_classroom.exhibits.clinic import bugs, healthy
from vit_classroom.exhibits.clinic.chart import note
from vit_classroom.exhibits.clinic.measurements import Finding, examine
from vit_classroom.exhibits.clinic.patient import Patient

NAMED = "Not a bug that was planted: "
TOLD = (NAMED, "your code changes its input", "some batches meet")
"""How messages begin that are told beside a symptom: it is not their cause alone."""


def patient(answer: Callable | None = None, name: str = "attend", **options) -> Patient:
    """Build a small patient in which one function is the answer and all others are healthy."""
    torch.default_generator.manual_seed(0)
    admitted = Patient(**{"patch_size": 4, "dim": 24, "depth": 1, "drop": 0.0, **options})
    admitted.parts = replace(admitted.parts, **{name: answer or getattr(healthy, name)})
    return admitted


def scrambled(model: nn.Module) -> nn.Module:
    """Draw all weights at random, none 0 or 1, but leave layer norms as PyTorch makes them."""
    spread_weights(model)
    for layer in model.modules():
        if isinstance(layer, nn.LayerNorm):
            layer.reset_parameters()
    return model


def run(answer: Callable, *case: object) -> object:
    """Call an answer; an error becomes a verdict."""
    value = outcome(lambda function, *arguments: function(*arguments), answer, case)
    if isinstance(value, Exception):
        raise stopped(value)
    if value is None:
        raise Mistake("your function returned nothing; is the `return` missing?")
    return value


# -- what all functions of the clinic have in common


def symptoms(answer: Callable, name: str) -> list[Finding] | None:
    """Examine patients of two shapes, healthy but for the answer; None for an answer that stops."""
    for options in ({"img_size": (8, 12)}, {"img_size": 16, "num_heads": 2, "dim": 32, "num_classes": 7}):
        examined = patient(answer, name, **options)
        if name == "draw_weights":
            outcome(lambda function, model: function(model), answer, (scrambled(examined),))
        sick = [finding for finding in examine(examined, name) if not finding.ok]
        if any("stopped with" in finding.measured for finding in sick):
            return None
        if sick:
            return sick
    return []


def clinic(name: str, *rest: Demand, first: Demand | None = None) -> None:
    """Register a function of the clinic.

    Args:
        name: of the function.
        rest: demands on an answer without symptoms; what they know by name is told beside a symptom too.
        first: a demand on answers whose symptoms would mislead.
    """
    reference = getattr(healthy, name)

    def verify(answer: Callable, reference: Callable) -> None:
        note(name, answer, len(bugs.BUGS))
        if first:
            first.verify(answer, reference)
        left = symptoms(answer, name)
        note(name, answer, len(bugs.BUGS) if left is None else len(left))
        if left:
            count = "one symptom is" if len(left) == 1 else f"{len(left)} symptoms are"
            found = [f"- {finding}" for finding in left]
            raise Mistake("\n".join([f"{count} left:", *found, *known_by_name(rest, answer, reference)]))

    own = [bug for bug in bugs.BUGS if bug.function == name]
    known = {"symptom is left:\n- ": [bugs.planted(name, [bug]) for bug in own]}
    if len(own) > 1:
        known[" symptoms are left:\n- "] = getattr(bugs, name)
    exercise(reference, Demand(verify, known | dict(first.known if first else {})), *rest)


def known_by_name(rest: tuple[Demand, ...], answer: Callable, reference: Callable) -> list[str]:
    """Return what else the check can say of a sick answer: mistakes that were not planted are known by name."""
    for wanted in rest:
        try:
            wanted.verify(answer, reference)
        except Mistake as mistake:
            return [str(mistake)] if str(mistake).startswith(TOLD) else []
        except Exception:  # an answer may be anything, and its symptoms are known already
            return []
    return []


def draws_nothing(cases: Callable) -> Demand:
    """Demand the same result of two calls: the symptoms of an answer with dropout would mislead."""

    def verify(answer: Callable, reference: Callable) -> None:
        case = cases()[1]
        first, second = (outcome(lambda f, *arguments: f(*arguments), answer, case) for _ in range(2))
        if not isinstance(first, Exception) and difference(second, first):
            raise Mistake(
                f"{NAMED}two calls on the same tokens or pictures give different results. Something is drawn at "
                "random, dropout perhaps: this function draws nothing, neither in training nor in evaluation"
            )

    return Demand(verify, {})


class _Learning(nn.Module):
    """A function of a patient as a module, so that the gradients of all its weights can be compared."""

    def __init__(self, function: Callable, weights: nn.Module, *rest: object):
        super().__init__()
        self.function, self.weights, self.rest = function, weights, rest

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weights, *self.rest)


def learns_alike(cases: Callable) -> Demand:
    """Demand the gradients of the finished version, for the input and for all weights."""

    def verify(answer: Callable, reference: Callable) -> None:
        x, *rest = cases()[1]
        compare_gradients(_Learning(answer, *rest), _Learning(reference, *rest), (x,), "in training")
        demand_device(answer, reference, cases()[1], lambda f, *case: f(*case), NAMED + NEW_TENSOR)

    return Demand(verify, {})


def compared(name: str, cases: Callable, known: Known, *rest: Demand) -> None:
    """Register a function of the clinic whose results and gradients are compared with those of the healthy one.

    Args:
        name: of the function.
        cases: returns its arguments, the smallest first.
        known: mistakes that students make, and that no bug of the clinic has.
        rest: further demands.
    """
    named = results(cases, {NAMED + words: wrong for words, wrong in known.items()})
    clinic(name, named, *rest, learns_alike(cases), first=draws_nothing(cases))


# -- draw_weights


def draw_with(change: Callable) -> Callable:
    """Return a `draw_weights` that draws as the finished version does, then changes something."""

    def answer(model):
        healthy.draw_weights(model)
        with torch.no_grad():
            change(model)
        return model

    return answer


def draws_no_blocks(model):
    before = copy.deepcopy(model.blocks.state_dict())
    healthy.draw_weights(model).blocks.load_state_dict(before)
    return model


def starts_all_blocks_alike(model):
    healthy.draw_weights(model)
    for block in model.blocks[1:]:
        block.load_state_dict(model.blocks[0].state_dict())
    return model


def starts_projections_alike(model):
    for block in healthy.draw_weights(model).blocks[1:]:
        block.proj.load_state_dict(model.blocks[0].proj.state_dict())
    return model


def draws_with_a_seed(model):
    torch.default_generator.manual_seed(0)
    return healthy.draw_weights(model)


def replaces_positions(model):
    model.pos_embed = nn.Parameter(0.02 * torch.randn_like(model.pos_embed))
    return healthy.draw_weights(model)


@demand(
    {
        "return the model that you were given": lambda model: healthy.draw_weights(copy.deepcopy(model)),
        "a parameter is a new one": replaces_positions,
    }
)
def gives_the_model_back(answer):
    model = patient()
    given = list(model.parameters())
    if run(answer, model) is not model:
        raise Mistake("return the model that you were given, with its weights drawn anew in place")
    if any(a is not b for a, b in zip(given, model.parameters(), strict=True)):
        raise Mistake("a parameter is a new one: draw its numbers anew in place, as `nn.init.normal_` does")


def wanted_draw(model: nn.Module, name: str, value: Tensor) -> tuple[float, float]:
    """Return mean and deviation that the docstring asks for."""
    linear = {id(layer.weight): layer for layer in model.modules() if isinstance(layer, nn.Linear)}
    layer = linear.get(id(value))
    deviation = 0.0 if layer in (None, model.head) else 0.02
    deviation = model.project.in_features**-0.5 if layer is model.project else deviation
    deviation = 0.02 if name == "pos_embed" else deviation
    return float("norm" in name and name.endswith("weight")), deviation


@demand(
    {
        "head.bias has mean 0.5": draw_with(lambda m: m.head.bias.fill_(0.5)),
        "cls_token has mean": draw_with(lambda m: m.cls_token.normal_(std=0.02)),
        "project.weight has mean": [
            draw_with(lambda m: m.project.weight.normal_(std=0.02)),
            draw_with(lambda m: nn.init.xavier_normal_(m.project.weight)),
            draw_with(lambda m: m.project.weight.normal_(std=m.project.out_features**-0.5)),
        ],
        "norm.weight has mean 0 and": draw_with(lambda m: m.norm.weight.zero_()),
        "blocks.0.qkv.weight is left as it was": draws_no_blocks,
        "blocks.0.mlp.fc1.weight": draw_with(lambda m: [b.mlp.fc1.reset_parameters() for b in m.blocks]),
        "pos_embed has rows or columns of nearly equal numbers": [
            draw_with(lambda m: m.pos_embed[:, 0].zero_()),
            draw_with(
                lambda m: m.pos_embed.copy_(0.02 * (-1) ** torch.arange(m.pos_embed.shape[1])[:, None])
            ),
            draw_with(lambda m: m.pos_embed.copy_(0.02 * (-1) ** torch.arange(m.pos_embed.shape[2]))),
        ],
        "does not learn any more": draw_with(lambda m: m.pos_embed.requires_grad_(False)),
        "draw from the whole normal distribution": draw_with(
            lambda m: nn.init.trunc_normal_(
                m.project.weight, std=(s := m.project.in_features**-0.5), a=-2 * s, b=2 * s
            )
        ),
    }
)
def draws_as_the_docstring_says(answer):
    model = scrambled(patient(dim=96, depth=2, img_size=32, in_chans=2))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    run(answer, model)
    for name, value in model.named_parameters():
        wanted_mean, wanted = wanted_draw(model, name, value)
        mean, deviation = value.mean().item(), value.std(unbiased=False).item()
        wrong = abs(mean - wanted_mean) > 1e-6 + 0.25 * wanted, abs(deviation - wanted) > 0.15 * wanted
        if any(wrong):
            mean, deviation = (
                f"{x:.3{'g' if w and x < 1e-3 else 'f'}}"
                for x, w in zip((mean, deviation), wrong, strict=True)
            )
            found = f"has mean {mean} and deviation {deviation} after your function"
            if torch.equal(value, before[name]):
                found = "is left as it was by your function"
            raise Mistake(
                f"{name} {found}; the docstring asks for mean {wanted_mean:g} and deviation {wanted:.3g}"
            )
        if wanted and min(value.flatten(0, -2).std(axis).min() for axis in (0, 1)) < 0.5 * wanted:
            raise Mistake(f"{name} has rows or columns of nearly equal numbers: draw each number by itself")
        if wanted and value.numel() > 1000 and value.abs().max() < 2.5 * value.std():
            raise Mistake(
                f"{name} has no number beyond {value.abs().max() / value.std():.2g} deviations: draw from the whole "
                "normal distribution, `normal_`"
            )
        if not value.requires_grad:
            raise Mistake(f"{name} does not learn any more: requires_grad is False")


@demand(
    {
        "all blocks start with the same weights": [starts_all_blocks_alike, starts_projections_alike],
        "two calls draw the same numbers": draws_with_a_seed,
    }
)
def draws_each_number_by_itself(answer):
    model = scrambled(patient(dim=24, depth=3))
    run(answer, model)
    first, *others = (block.qkv.weight.detach().clone() for block in model.blocks)
    parts = ("qkv", "proj", "mlp.fc1", "mlp.fc2")
    pairs = [[block.get_submodule(part).weight for block in model.blocks[:2]] for part in parts]
    if any(torch.equal(*pair) for pair in pairs) or any(torch.equal(first, other) for other in others):
        raise Mistake(
            "all blocks start with the same weights, so they are one block several times: draw for each block anew"
        )
    run(answer, model)
    if torch.equal(first, model.blocks[0].qkv.weight):
        raise Mistake(
            "two calls draw the same numbers: leave the seed to the caller. With a seed inside, three runs with "
            "three seeds would begin alike, and everything that is drawn afterwards would repeat too"
        )


clinic("draw_weights", draws_as_the_docstring_says, draws_each_number_by_itself, first=gives_the_model_back)

# -- embed_patches


def embed(pattern: str = "(h w) (p1 p2 c)", positions: Callable | None = None) -> Callable:
    """Return an `embed_patches` with another order or other positions."""

    def answer(images, model):
        p = model.patch_size
        patches = rearrange(images, f"b c (h p1) (w p2) -> b {pattern}", p1=p, p2=p)
        tokens = model.project(patches)
        first = model.cls_token.expand(len(images), -1, -1)
        if positions:
            return positions(first, tokens, model.pos_embed)
        return torch.cat([first, tokens], dim=1) + model.pos_embed

    return answer


def joined(add: Callable) -> Callable:
    return lambda first, tokens, pos: torch.cat([first, tokens], dim=1) + add(pos)


def channels_before_the_grid(images, model):
    p = model.patch_size
    windows = rearrange(images, "b c (h p1) (w p2) -> b c h w p1 p2", p1=p, p2=p)
    tokens = model.project(windows.reshape(len(images), -1, p * p * images.shape[1]))
    return torch.cat([model.cls_token.expand(len(images), -1, -1), tokens], dim=1) + model.pos_embed


EARLY = "the CLS token has no position: add the positions after it has joined the patches"


def embed_cases():
    cases = []
    for size, patch, channels, batch in (
        ((4, 8), 4, 1, 1),
        ((8, 12), 4, 3, 2),
        (16, 4, 3, 3),
        ((6, 4), 2, 3, 2),
    ):
        model = scrambled(patient(img_size=size, patch_size=patch, in_chans=channels))
        cases.append((torch.randn(batch, *model.image_shape), model))
    return cases


compared(
    "embed_patches",
    embed_cases,
    {
        "inside a patch the channels come first; `project` expects (row, column, channel)": embed(
            "(h w) (c p1 p2)"
        ),
        "the patches come column by column; reading order is row by row": embed("(w h) (p1 p2 c)"),
        "rows and columns are swapped inside the patches": embed("(h w) (p2 p1 c)"),
        "no token has a position: `model.pos_embed` is not added": embed(positions=joined(torch.zeros_like)),
        "the patch tokens are multiplied by sqrt(D): they go in as `project` makes them": embed(
            positions=lambda first, x, pos: torch.cat([first, x * pos.shape[-1] ** 0.5], dim=1) + pos
        ),
        "the axis of the channels stands before the grid when you reshape, so patches are mixed: move it to the end": (
            channels_before_the_grid
        ),
        "all tokens have the same position": embed(positions=joined(lambda pos: pos[:, :1])),
        EARLY: embed(positions=lambda first, x, pos: torch.cat([first, x + pos[:, 1:]], dim=1)),
        EARLY + "; and every patch has the position of its neighbour": embed(
            positions=lambda first, x, pos: torch.cat([first, x + pos[:, :-1]], dim=1)
        ),
    },
)

# -- attend


def attention(
    split: str = "(three h d)", merge: str = "(h d)", order: tuple = (0, 1, 2), finish: Callable | None = None
) -> Callable:
    """Return an `attend` with another split or merge of the heads, parts in another order, or another result."""

    def answer(tokens, block):
        qkv = rearrange(block.qkv(tokens), f"b t {split} -> three b h t d", three=3, h=block.num_heads)
        q, k, v = (qkv[i] for i in order)
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        weights = scores.softmax(dim=-1)
        heads = rearrange(weights @ v, f"b h t d -> b t {merge}")
        return finish(block.proj, heads, scores, weights) if finish else (block.proj(heads), weights)

    return answer


def looks_back(tokens, block):
    qkv = rearrange(block.qkv(tokens), "b t (three h d) -> three b h t d", three=3, h=block.num_heads)
    scores = qkv[0] @ qkv[1].mT * qkv.shape[-1] ** -0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
    return block.proj(rearrange(weights @ qkv[2], "b h t d -> b t (h d)")), weights


def attend_cases():
    cases = []
    for tokens, batch, options in (
        (3, 1, {"dim": 4, "num_heads": 2}),
        (5, 2, {"dim": 12, "num_heads": 3}),
        (7, 4, {"dim": 24, "num_heads": 3}),
    ):
        block = scrambled(patient(img_size=8, **options).blocks[0])
        cases.append((torch.randn(batch, tokens, options["dim"]), block))
    return [*cases, (30 * cases[-1][0], block)]


compared(
    "attend",
    attend_cases,
    {
        "W_O is missing: nothing passes through `block.proj`": attention(
            finish=lambda proj, heads, scores, weights: (heads, weights)
        ),
        "the heads are interleaved: first the d numbers of head 0, then those of head 1": attention(
            merge="(d h)"
        ),
        "the heads are merged in the order (B, h, d, T), so tokens are mixed: first T and h change places, then h and "
        "d become one axis": attention(
            finish=lambda proj, heads, scores, weights: (proj(heads.mT.reshape(heads.shape)), weights)
        ),
        "q, k and v are read in turn: all D numbers of q come first, then those of k, then those of v": (
            attention("(h d three)")
        ),
        "a head takes every h-th number; it should take d neighbours": attention("(three d h)", "(d h)"),
        "q, k and v are read head by head: first come all heads of q, then those of k, then those of v": attention(
            "(h three d)"
        ),
        "queries and keys are swapped": attention(order=(1, 0, 2)),
        "queries and values are swapped": attention(order=(2, 1, 0)),
        "a token sees itself and those before it alone, as in a language model: it should see all of them": looks_back,
        "the second value should be the weights, after the softmax": attention(
            finish=lambda proj, heads, scores, weights: (proj(heads), scores)
        ),
        "you returned the tokens alone; the weights are wanted too": (
            lambda tokens, block: healthy.attend(tokens, block)[0]
        ),
    },
)

# -- encode_block


class _Attention:
    """The healthy `attend`, with a name that a message can show."""

    def __call__(self, tokens: Tensor, block: nn.Module) -> tuple[Tensor, Tensor]:
        return healthy.attend(tokens, block)

    def __repr__(self) -> str:
        return "a healthy one"


def attention_branch(x, block, attend):
    return x + attend(block.norm1(x))


def mlp_branch(x, block):
    return x + block.mlp(block.norm2(x))


def branches(first: Callable = attention_branch, second: Callable = mlp_branch) -> Callable:
    """Return an `encode_block` that passes tokens through these two branches."""

    def answer(tokens, block, attend):
        return second(first(tokens, block, lambda x: attend(x, block)[0]), block)

    return answer


def block_cases():
    cases = []
    for tokens, batch, options in (
        (2, 1, {"dim": 4, "num_heads": 2}),
        (5, 3, {"dim": 12}),
        (7, 2, {"dim": 24}),
    ):
        block = spread_weights(patient(img_size=8, **options).blocks[0])
        cases.append((torch.randn(batch, tokens, options["dim"]), block, _Attention()))
    return cases


@demand(
    {
        f"{NAMED}use the `attend` that is handed in": (
            lambda tokens, block, attend: healthy.encode_block(tokens, block, healthy.attend)
        )
    }
)
def uses_the_given_attend(answer):
    tokens, block, _ = block_cases()[1]
    mine, wanted = (
        run(function, tokens, block, lambda tokens, block: (2 * tokens, None))
        for function in (answer, healthy.encode_block)
    )
    if difference(mine, wanted):
        raise Mistake(f"{NAMED}use the `attend` that is handed in: another one is ignored by your code")


compared(
    "encode_block",
    block_cases,
    {
        "the two norms are swapped": branches(
            lambda x, b, a: x + a(b.norm2(x)), lambda x, b: x + b.mlp(b.norm1(x))
        ),
        "this is post-norm: the norms come after the sums. Here they belong in front of the branches": (
            branches(lambda x, b, a: b.norm1(x + a(x)), lambda x, b: b.norm2(x + b.mlp(x)))
        ),
        "attention reads the stream *and* its norm: LN(z) alone goes in, and z waits outside": branches(
            lambda x, b, a: x + a(b.norm1(x) + x)
        ),
        "attention reads the stream without a norm": branches(lambda x, b, a: x + a(x)),
        "the MLP reads the stream without a norm": branches(second=lambda x, b: x + b.mlp(x)),
        "the MLP replaces the stream; it should add to it": branches(second=lambda x, b: b.mlp(b.norm2(x))),
        "the stream is normed before the MLP adds to it": branches(
            second=lambda x, b: b.norm2(x) + b.mlp(b.norm2(x))
        ),
        "both branches read the same stream; the MLP should read what attention has added to": (
            lambda x, b, a: x + a(b.norm1(x), b)[0] + b.mlp(b.norm2(x))
        ),
        "each sum is halved: a branch adds to the stream, and nothing is divided": branches(
            lambda x, b, a: attention_branch(x, b, a) / 2, lambda x, b: mlp_branch(x, b) / 2
        ),
        "the MLP comes before attention: attention is the first branch, the MLP the second": branches(
            lambda x, b, a: attention_branch(mlp_branch(x, b), b, a), lambda x, b: x
        ),
        "attention is missing": branches(lambda x, b, a: x),
        "the MLP is missing": branches(second=lambda x, b: x),
    },
    uses_the_given_attend,
)

# -- classify


def reading(read: Callable, after: Callable = lambda logits: logits) -> Callable:
    """Return a `classify` that reads other tokens, or does something to the logits."""
    return lambda tokens, model: after(model.head(model.norm(read(tokens))))


def classify_cases():
    cases = []
    for tokens, batch, options in (
        (3, 2, {"dim": 4, "num_heads": 2, "num_classes": 2}),
        (5, 3, {"dim": 12, "num_classes": 7}),
        (2, 1, {"dim": 24, "num_classes": 10}),
    ):
        model = spread_weights(patient(img_size=8, **options))
        cases.append((torch.randn(batch, tokens, options["dim"]), model))
    small = spread_weights(patient(img_size=8, dim=12))
    return [*cases, (1e-3 * torch.randn(2, 4, 12), small)]


compared(
    "classify",
    classify_cases,
    {
        "you read the last token, a patch; CLS is token 0": reading(lambda x: x[:, -1]),
        "you read token 1, the first patch; CLS is token 0": reading(lambda x: x[:, 1]),
        "you average all tokens; the CLS token alone is read": reading(lambda x: x.mean(dim=1)),
        "you average the patches; the CLS token is read": reading(lambda x: x[:, 1:].mean(dim=1)),
        "you return log-probabilities: right for F.nll_loss, but the scores themselves are asked for": (
            reading(lambda x: x[:, 0], lambda logits: logits.log_softmax(dim=-1))
        ),
        "mean and variance are those of all tokens of a picture together: norm the CLS token by itself, over its D "
        "numbers": lambda x, model: model.head(
            F.layer_norm(x, x.shape[1:], eps=1e-6)[:, 0] * model.norm.weight + model.norm.bias
        ),
        "you squeeze the scores into 0..1; cross-entropy takes any numbers": reading(
            lambda x: x[:, 0], torch.sigmoid
        ),
        "you read all tokens of the first picture: `tokens[:, 0]`": reading(lambda x: x[0]),
        "you return the number of the best class; the scores of all K classes are wanted": reading(
            lambda x: x[:, 0], lambda logits: logits.argmax(dim=-1)
        ),
        "the norm has an `eps` of its own, which counts for small tokens: call `model.norm`": lambda x, model: (
            model.head(F.layer_norm(x[:, 0], x.shape[-1:], model.norm.weight, model.norm.bias))
        ),
        "the token is added to its norm, as in a branch: here the norm alone goes on": lambda x, model: (
            model.head(x[:, 0] + model.norm(x[:, 0]))
        ),
        "between norm and head stands a tanh: there is no hidden layer here": lambda x, model: model.head(
            model.norm(x[:, 0]).tanh()
        ),
    },
)

# -- decay_groups


def groups_by(rule: Callable) -> Callable:
    """Return a `decay_groups` in which what fits a rule for name and parameter decays."""

    def answer(model, weight_decay):
        named = list(model.named_parameters())
        return [
            {"params": [p for n, p in named if rule(n, p)], "weight_decay": weight_decay},
            {"params": [p for n, p in named if not rule(n, p)], "weight_decay": 0.0},
        ]

    return answer


def is_matrix(name, parameter):
    return parameter.ndim == 2


def groups_of(change: Callable) -> Callable:
    """Return a `decay_groups` whose groups are changed at the end."""

    def answer(model, weight_decay):
        return change(groups_by(is_matrix)(model, weight_decay), model)

    return answer


def with_params(make: Callable) -> Callable:
    return lambda groups, model: [{**group, "params": make(group["params"])} for group in groups]


def freezes_the_rest(groups, model):
    for parameter in groups[1]["params"]:
        parameter.requires_grad_(False)
    return groups


def models_to_split():
    yield "the patient", patient(img_size=(8, 12))
    yield "a deeper patient", patient(img_size=8, depth=3)
    yield "two layers and a norm", nn.Sequential(nn.Linear(4, 4, False), nn.LayerNorm(4), nn.Linear(4, 2))
    yield "a layer with one output", nn.Sequential(nn.Linear(4, 1), nn.Linear(1, 4))


def sort(answer: Callable, model: nn.Module, decay: float) -> list[tuple[Tensor, float]]:
    """Return all parameters in an answer's groups, each with its decay."""
    groups = run(answer, model, decay)
    if not isinstance(groups, list | tuple) or not all(
        isinstance(group, dict)
        and {"params", "weight_decay"} == set(group)
        and not isinstance(group["params"], set | frozenset | Iterator)
        for group in groups
    ):
        raise Mistake(
            "return a list of dicts, each with two keys and no other: 'params', a list of parameters, and "
            "'weight_decay', a number"
        )
    return [(p, float(group["weight_decay"])) for group in groups for p in list(group["params"])]


@demand(
    {
        "a list of dicts": [
            groups_of(lambda groups, model: [group["params"] for group in groups]),
            groups_of(with_params(set)),
        ],
        "your groups hold names": lambda model, decay: [
            {"params": [name for name, _ in model.named_parameters()], "weight_decay": decay}
        ],
        "your groups hold copies": [
            groups_of(with_params(lambda params: [p.detach().clone() for p in params])),
            groups_of(with_params(lambda params: copy.deepcopy(params))),
        ],
        "in no group": groups_of(lambda groups, model: groups[:1]),
        "is listed 2 times": [
            groups_of(lambda groups, model: [groups[0], {**groups[1], "params": list(model.parameters())}]),
            lambda model, decay: [
                {
                    "params": [p for part in model.modules() for p in part.parameters() if wanted(p)],
                    "weight_decay": decay * wanted(torch.zeros(1, 1)),
                }
                for wanted in (lambda p: p.ndim == 2, lambda p: p.ndim != 2)
            ],
        ],
    }
)
def puts_each_parameter_in_one_group(answer):
    for described, model in models_to_split():
        given = [p for p, _ in sort(answer, model, 0.05)]
        if any(isinstance(p, str) for p in given):
            raise Mistake("your groups hold names: the optimiser wants the parameters themselves")
        places = {name: sum(p is q for q in given) for name, p in model.named_parameters()}
        if len(given) > sum(places.values()):
            raise Mistake(
                "your groups hold copies, or tensors that are no parameters of the model: the optimiser would train "
                "those, and the model would never learn"
            )
        for name, count in places.items():
            if not count:
                raise Mistake(
                    f"{name} of {described} is in no group: every parameter belongs in exactly one; one in none is "
                    "never trained"
                )
            if count > 1:
                raise Mistake(
                    f"{name} of {described} is listed {count} times: every parameter belongs in exactly one group, "
                    "and there once"
                )


@demand(
    {
        "head.bias": groups_by(lambda n, p: "norm" not in n and n not in ("cls_token", "pos_embed")),
        "not 0.3: use": lambda model, decay: groups_by(is_matrix)(model, 0.05),
        "norm1.weight": groups_by(lambda n, p: n.endswith("weight")),
        "a layer with one output: 0.weight gets the decay 0": groups_by(
            lambda n, p: is_matrix(n, p) and len(p) > 1
        ),
        "5 of 6 matrices do not": groups_by(lambda n, p: n == "head.weight"),
        "your code changes the model itself": groups_of(freezes_the_rest),
    }
)
def decays_matrices_alone(answer):
    for described, model in models_to_split():
        for decay in (0.05, 0.3, 0.001):
            before = {name: (p.detach().clone(), p.requires_grad) for name, p in model.named_parameters()}
            got = {id(p): value for p, value in sort(answer, model, decay)}
            for name, p in model.named_parameters():
                wanted = decay if p.ndim == 2 and name.endswith("weight") else 0.0
                if abs(got[id(p)] - wanted) > 1e-6:
                    end = ": use the argument `weight_decay`" if wanted and got[id(p)] else ""
                    raise Mistake(f"{described}: {name} gets the decay {got[id(p)]:g}, not {wanted:g}{end}")
                if p.requires_grad != before[name][1] or not torch.equal(p, before[name][0]):
                    raise Mistake(f"your code changes the model itself ({name}): sort its parameters alone")


clinic("decay_groups", decays_matrices_alone, first=puts_each_parameter_in_one_group)

# -- schedule


def half_cosine(progress):
    return (1 + math.cos(math.pi * progress)) / 2


def rate(fall: Callable) -> Callable:
    """Return a `schedule` with another fall."""
    return lambda s, n, w, peak: peak * ((s + 1) / w if s < w else fall(s, n, w))


def said_in_lesson_07(answer: Callable) -> Mistake | None:
    """Return what the check of lesson 07 finds in a schedule, None if it is right."""
    try:
        EXERCISES["learning_rate"].verify(answer)
    except Mistake as mistake:
        return mistake
    return None


@demand(
    {
        "last step is not at 0": rate(fall=lambda s, n, w: half_cosine((s - w) / (n - w))),
        "count from there": rate(fall=lambda s, n, w: half_cosine((s + 1) / n)),
        "in a straight line": rate(fall=lambda s, n, w: (n - s - 1) / (n - w)),
        "n is the number of steps *after*": rate(fall=lambda s, n, w: half_cosine((s + 1 - w) / n)),
    }
)
def is_the_schedule_of_lesson_07(answer):
    if not (mistake := said_in_lesson_07(answer)):
        return
    planted = [bugs.planted("schedule", [bug]) for bug in bugs.BUGS if bug.function == "schedule"]
    known = {words for words, _ in EXERCISES["learning_rate"].mistakes()}
    known -= {str(said_in_lesson_07(bug)) for bug in planted}
    raise Mistake(NAMED * (str(mistake) in known) + str(mistake), mistake.named)


clinic("schedule", is_the_schedule_of_lesson_07)

# -- blend


def blend_with(
    own: Callable = lambda share: share,
    other: Callable = lambda share: 1 - share,
    partner: Callable = torch.randperm,
    pictures: Callable = lambda images: images,
    targets: Callable | None = None,
) -> Callable:
    """Return a `blend` with other shares, other partners, changed partner pictures, or other targets."""

    def answer(images, labels, share):
        rows = partner(len(images))
        mixed = own(share) * images + other(share) * pictures(images[rows])
        soft = targets or (lambda y, partners, share: own(share) * y + other(share) * partners)
        return mixed, soft(labels, labels[rows], share)

    return answer


def blends_in_place(images, targets, share):
    rows = torch.randperm(len(images))
    targets.mul_(share).add_((1 - share) * targets[rows])
    return share * images + (1 - share) * images[rows], targets


def blends_one_after_the_other(images, targets, share):
    images, targets = images.clone(), targets.clone()
    for i, partner in enumerate(torch.randperm(len(images)).tolist()):
        for batch in (images, targets):
            batch[i] = share * batch[i] + (1 - share) * batch[partner]
    return images, targets


def larger_of_both(images, targets, share):
    rows = torch.randperm(len(images))
    mixed = share * images + (1 - share) * images[rows]
    return mixed, torch.maximum(share * targets, (1 - share) * targets[rows])


def cuts_a_corner(images, targets, share):
    rows, mixed = torch.randperm(len(images)), images.clone()
    down, across = (round(side * (1 - share) ** 0.5) for side in images.shape[2:])
    mixed[:, :, :down, :across] = images[rows, :, :down, :across]
    return mixed, share * targets + (1 - share) * targets[rows]


def blended(
    answer: Callable, share: float, size: tuple[int, int], targets: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Blend pictures that show their class: return them, what is to be seen in them, and what the targets say."""
    targets = torch.eye(24) if targets is None else targets
    images = targets[:, :, None, None].expand(-1, -1, *size) * 4 - 1
    result = run(answer, images, targets, share)
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Mistake("return two things: blended images and blended targets")
    pairs = zip(result, (images, targets), strict=True)
    if not all(isinstance(part, Tensor) and part.shape == old.shape for part, old in pairs):
        raise Mistake("blended images and targets should be tensors of the shapes they had")
    return result[0], (result[0].mean(dim=(2, 3)) + 1) / 4, result[1]


def near(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-5)


def demand_whole(targets: Tensor) -> None:
    """Demand targets that sum to 1, and show the one that is furthest from it."""
    sums = targets.sum(dim=1).tolist()
    if not near(torch.tensor(sums), torch.ones(len(sums))):
        astray, _ = apart(max(sums, key=lambda total: abs(total - 1)), 1.0, 3)
        raise Mistake(
            f"some targets sum to {astray}, not to 1: a picture gives `share` of its target, the partner 1 - share of "
            "its own as it was given, even where both have the same class"
        )


@demand(
    {
        "return two things": lambda images, targets, share: blend_with()(images, targets, share)[0],
        "some targets sum to 1.75": blend_with(other=lambda share: 1.0),
        "some targets sum to 0.75": larger_of_both,
        f"{NAMED}the target names the picture alone": blend_with(targets=lambda y, partners, share: y),
        f"{NAMED}with share = 0.75 a picture keeps 0.25": blend_with(
            lambda s: 1 - s,
            lambda s: s,
            targets=lambda y, partners, share: share * y + (1 - share) * partners,
        ),
        f"{NAMED}the shares of the target are swapped": blend_with(
            targets=lambda y, partners, share: (1 - share) * y + share * partners
        ),
        "with share = 0.75 a picture keeps 0.25": blend_with(lambda s: 1 - s, lambda s: s),
        "with share = 0.25 a picture keeps 0.75": blend_with(
            lambda s: max(s, 1 - s), lambda s: min(s, 1 - s)
        ),
        "some pictures are partner of several": blend_with(partner=lambda n: torch.randint(n, (n,))),
        "changes its input in place": blends_in_place,
        "a target holds more than two classes": blends_one_after_the_other,
        "smoothed or blended before": lambda images, targets, share: blend_with()(
            images, torch.eye(targets.shape[1])[targets.argmax(1)], share
        ),
        "this is CutMix": cuts_a_corner,
    }
)
def targets_say_what_is_seen(answer):
    one_class = torch.eye(2)[[0] * 24]
    demand_whole(blended(answer, 0.75, (2, 2), one_class)[2])
    for share, size in ((0.75, (2, 2)), (0.6, (3, 5)), (0.25, (3, 2)), (1.0, (2, 3)), (0.0, (2, 2))):
        images, seen, said = blended(answer, share, size)
        targets = torch.eye(len(images))
        if not near(images.amin((2, 3)), images.amax((2, 3))):
            raise Mistake(
                "a picture of one colour is not of one colour any more. If you paste a piece of the partner, this is "
                "CutMix: blend whole pictures"
            )
        demand_whole(said)
        if not near(seen, said):
            if near(said, targets):
                raise Mistake(f"{NAMED}the target names the picture alone, and not its partner")
            mixed = said.diagonal() < 1  # a picture may be its own partner
            swapped = torch.where(mixed[:, None], (said > 0).to(said) - said, said)
            if near(seen, swapped) and near(said.diagonal()[mixed], torch.tensor(share)):
                kept = f"{1 - share:.2g}"
                raise Mistake(f"{NAMED}with share = {share} a picture keeps {kept}: it should keep `share`")
            if near(seen, swapped):
                raise Mistake(
                    f"{NAMED}the shares of the target are swapped: they should be those of the picture"
                )
            raise Mistake("pictures and targets do not agree")
        partner = (said - share * targets).argmax(dim=1)
        if not near(said, share * targets + (1 - share) * targets[partner]):
            if near(said.diagonal().min(), torch.tensor(share)):
                raise Mistake(
                    "a target holds more than two classes: a loop that writes into the batch it still reads from "
                    "meets partners that are blended already"
                )
            kept, _ = apart(said.diagonal().min().item(), share, 2)
            raise Mistake(f"with share = {share} a picture keeps {kept}: it should keep `share`")
        if share < 1 and len(set(partner.tolist())) < len(partner):
            raise Mistake("some pictures are partner of several, others of none: draw a permutation")
    _, seen, said = blended(answer, 0.6, (2, 2), 0.9 * torch.eye(24) + 0.1 / 24)
    if not near(seen, said):
        raise Mistake(
            "right for targets of 0 and 1; others, smoothed or blended before, should be blended as they are given"
        )


@demand(
    {
        "blend every pixel with the same pixel": blend_with(pictures=lambda images: images.flip(-1)),
        "numbers do not fill the shape (2, -1)": blend_with(
            partner=lambda n: torch.randperm(n).view(2, -1).flatten()
        ),
        "every picture is its own partner": blend_with(partner=torch.arange),
        "the partner is always the same number of places away": blend_with(
            partner=lambda n: torch.arange(n).roll(int(torch.randint(1, n, ())))
        ),
        "two calls give the same partners": blend_with(partner=lambda n: torch.arange(n).flip(0)),
    }
)
def draws_partners(answer):
    targets = torch.eye(25)  # an odd number: partners are no pairs
    images, drawn = torch.randn(25, 3, 4, 5), []
    for _ in range(2):
        seen, said = run(answer, images, targets, 0.75)
        drawn.append((said - 0.75 * targets).argmax(dim=1))
        if not near(seen, 0.75 * images + 0.25 * images[drawn[-1]]):
            raise Mistake(
                "a blended picture is not the sum of its two: blend every pixel with the same pixel"
            )
    if torch.equal(drawn[0], torch.arange(25)):
        raise Mistake("nothing is blended: every picture is its own partner")
    if all(len(((rows - torch.arange(25)) % 25).unique()) == 1 for rows in drawn):
        raise Mistake("the partner is always the same number of places away: draw a permutation")
    if torch.equal(*drawn):
        raise Mistake("two calls give the same partners: draw them at random each time")


clinic("blend", targets_say_what_is_seen, draws_partners)

# -- score


@demand({"the layers inside the model are still in training mode": marks_the_outermost_alone})
def reaches_the_layers_inside(answer):
    model, images, labels, batch_size = scores_and_labels()[0]
    outcome(lambda f: f(model, images, labels, batch_size), answer, ())
    if not model.training and model.inner.training:
        raise Mistake(
            "the layers inside the model are still in training mode, and dropout goes on there: `model.eval()` tells "
            "them all, `model.training = False` the model alone"
        )


SEEN = "your model is measured in training mode"  # a symptom, which comes first
clinic(
    "score",
    replace(
        measures_without_training,
        known={words: wrong for words, wrong in measures_without_training.known.items() if words != SEEN},
    ),
    results(scores_and_labels, MISCOUNTS, run=measured, plain=True),
    names_one_class,
    first=reaches_the_layers_inside,
)
