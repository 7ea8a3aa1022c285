"""Checks of lesson 14: the bug clinic. They name what is left to see of a bug, its symptom, never the line.

First come the `measurements` that concern the function, on a patient in which all else is healthy. An
answer without symptoms is then compared with the finished version, for what no measurement asks. `chart` keeps every
answer, mended or not, as it was last checked.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from einops import rearrange
from torch import Tensor, nn

from vit_course.classroom.checks.compare import Mistakes, compare, compare_gradients
from vit_course.classroom.checks.outcome import Mistake, outcome, spread_weights
from vit_course.classroom.checks.registry import exercise, lesson_part
from vit_course.classroom.checks.words import explain_error
from vit_course.classroom.clinic import healthy
from vit_course.classroom.clinic.bugs import BUGS
from vit_course.classroom.clinic.chart import note
from vit_course.classroom.clinic.measurements import Finding, examine
from vit_course.classroom.clinic.patient import Patient

lesson_07 = lesson_part("07", "checks")
NAMED = "Not a bug that was planted: "


def patient(answer: Callable | None = None, name: str = "attend", **options) -> Patient:
    """Build a small patient in which one function is the answer and all others are healthy."""
    torch.manual_seed(0)
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


def patient_check(name: str) -> Callable:
    """Register the decorated function as what follows the symptoms in the check of a function of the clinic."""

    def register(rest: Callable) -> Callable:
        def verify(answer: Callable) -> None:
            note(name, answer, len(BUGS))
            left = symptoms(answer, name)
            note(name, answer, len(BUGS) if left is None else len(left))
            if left:
                count = "one symptom is" if len(left) == 1 else f"{len(left)} symptoms are"
                lines = [
                    f"{count} left:",
                    *(f"- {finding}" for finding in left),
                    *known_by_name(rest, answer),
                ]
                raise Mistake("\n".join(lines))
            rest(answer)
            note(name, answer, 0)

        exercise(getattr(healthy, name))(verify)
        return rest

    return register


def known_by_name(rest: Callable, answer: Callable) -> list[str]:
    """Return what else the check can say of a sick answer: mistakes that were not planted are known by name."""
    try:
        rest(answer)
    except Mistake as mistake:
        if str(mistake).startswith((NAMED, "your code changes its input")):
            return [str(mistake)]
    except Exception:  # an answer may be anything, and its symptoms are known already
        return []
    return []


def by_name(mistakes: Mistakes) -> Mistakes:
    """Mark messages of mistakes that students make, and that no bug of the clinic has."""
    return [(mistaken, NAMED + message) for mistaken, message in mistakes]


def run(answer: Callable, *case: object) -> object:
    """Call an answer; an error becomes a verdict."""
    value = outcome(lambda function, *arguments: function(*arguments), answer, case)
    if isinstance(value, Exception):
        raise Mistake(f"your code stopped with {explain_error(value)}")
    if value is None:
        raise Mistake("your function returned nothing; is the `return` missing?")
    return value


class _Learning(nn.Module):
    """A function of a patient as a module, so that the gradients of all its weights can be compared."""

    def __init__(self, function: Callable, weights: nn.Module, *rest: object):
        super().__init__()
        self.function, self.weights, self.rest = function, weights, rest

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weights, *self.rest)


def learns_alike(answer: Callable, reference: Callable, x: Tensor, weights: nn.Module, *rest: object) -> None:
    """Demand the gradients of the finished version, for the input and for all weights."""
    compare_gradients(
        _Learning(answer, weights, *rest), _Learning(reference, weights, *rest), (x,), "in training"
    )


@patient_check("draw_weights")
def check_draw_weights(answer):
    model = scrambled(patient(dim=96, depth=2, img_size=32))
    if run(answer, model) is not model:
        raise Mistake("return the model that you were given, with its weights drawn anew in place")
    linear = {id(layer.weight): layer for layer in model.modules() if isinstance(layer, nn.Linear)}
    for name, value in model.named_parameters():
        layer = linear.get(id(value))
        wanted = 0.0 if layer in (None, model.head) else 0.02
        wanted = model.project.in_features**-0.5 if layer is model.project else wanted
        wanted = 0.02 if name == "pos_embed" else wanted
        wanted_mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        mean, deviation = value.mean().item(), value.std(unbiased=False).item()
        if abs(mean - wanted_mean) > 1e-6 + 0.25 * wanted or abs(deviation - wanted) > 0.15 * wanted:
            raise Mistake(
                f"{name} has mean {mean:.3f} and deviation {deviation:.3f} after your function; the docstring asks "
                f"for mean {wanted_mean:g} and deviation {wanted:.3g}"
            )
        if wanted and min(value.flatten(0, -2).std(axis).mean() for axis in (0, 1)) < 0.5 * wanted:
            raise Mistake(f"{name} repeats its numbers along an axis: draw each number by itself")
        if not value.requires_grad:
            raise Mistake(f"{name} does not learn any more: requires_grad is False")


@patient_check("embed_patches")
def check_embed_patches(answer):
    def variant(pattern="b c (h p1) (w p2) -> b (h w) (p1 p2 c)", positions="all"):
        def function(images: Tensor, model: nn.Module) -> Tensor:
            p = model.patch_size
            tokens = model.project(rearrange(images, pattern, p1=p, p2=p))
            first = model.cls_token.expand(len(images), -1, -1)
            if positions == "patches":
                return torch.cat([first, tokens + model.pos_embed[:, 1:]], dim=1)
            if positions == "shifted":
                return torch.cat([first, tokens + model.pos_embed[:, :-1]], dim=1)
            tokens = torch.cat([first, tokens], dim=1)
            return tokens + {"all": model.pos_embed, "none": 0, "first": model.pos_embed[:, :1]}[positions]

        return function

    cases = []
    for size, channels, batch in (((4, 8), 1, 1), ((8, 12), 3, 2), (16, 3, 3)):
        model = scrambled(patient(img_size=size, in_chans=channels))
        cases.append((torch.randn(batch, *model.image_shape), model))
    early = "the CLS token has no position: add the positions after it has joined the patches"
    compare(
        answer,
        healthy.embed_patches,
        cases,
        by_name(
            [
                (
                    variant("b c (h p1) (w p2) -> b (h w) (c p1 p2)"),
                    "inside a patch the channels come first; `project` expects (row, column, channel)",
                ),
                (
                    variant("b c (h p1) (w p2) -> b (w h) (p1 p2 c)"),
                    "the patches come column by column; reading order is row by row",
                ),
                (
                    variant("b c (h p1) (w p2) -> b (h w) (p2 p1 c)"),
                    "rows and columns are swapped inside the patches",
                ),
                (variant(positions="none"), "no token has a position: `model.pos_embed` is not added"),
                (variant(positions="first"), "all tokens have the same position"),
                (variant(positions="patches"), early),
                (variant(positions="shifted"), early + "; and every patch has the position of its neighbour"),
            ]
        ),
    )
    learns_alike(answer, healthy.embed_patches, *cases[1])


@patient_check("attend")
def check_attend(answer):
    cases = []
    for tokens, batch, options in (
        (3, 1, {"dim": 4, "num_heads": 2}),
        (5, 2, {"dim": 12, "num_heads": 3}),
        (7, 4, {"dim": 24, "num_heads": 3}),
    ):
        block = scrambled(patient(img_size=8, **options).blocks[0])
        cases.append((torch.randn(batch, tokens, options["dim"]), block))

    def variant(
        split="b t (three h d) -> three b h t d", scale=lambda q: q.shape[-1] ** -0.5, order=(0, 1, 2), **do
    ):
        def function(tokens: Tensor, block: nn.Module) -> tuple[Tensor, Tensor]:
            parts = rearrange(block.qkv(tokens), split, three=3, h=block.num_heads)
            q, k, v = (parts[i] for i in order)
            scores = q @ k.transpose(-2, -1) * scale(q)
            weights = scores.softmax(dim=-1)
            heads = rearrange(weights @ v, do.get("merge", "b h t d -> b t (h d)"))
            return heads if do.get("raw") else block.proj(heads), scores if do.get("scores") else weights

        return function

    compare(
        answer,
        healthy.attend,
        cases,
        by_name(
            [
                (variant(raw=True), "W_O is missing: nothing passes through `block.proj`"),
                (
                    variant(merge="b h t d -> b t (d h)"),
                    "the heads are interleaved: first the d numbers of head 0, then those of head 1",
                ),
                (
                    variant("b t (h d three) -> three b h t d"),
                    "q, k and v are read in turn: all D numbers of q come first, then those of k, then those of v",
                ),
                (
                    variant("b t (three d h) -> three b h t d", merge="b h t d -> b t (d h)"),
                    "a head takes every h-th number; it should take d neighbours",
                ),
                (variant(order=(1, 0, 2)), "queries and keys are swapped"),
                (variant(order=(2, 1, 0)), "queries and values are swapped"),
                (variant(scores=True), "the second value should be the weights, after the softmax"),
                (
                    lambda *case: healthy.attend(*case)[0],
                    "you returned the tokens alone; the weights are wanted too",
                ),
                (lambda *case: healthy.attend(*case)[::-1], "first the tokens, then the weights"),
            ]
        ),
    )
    learns_alike(answer, healthy.attend, *cases[1])


class _Attention:
    """The healthy `attend`, with a name that a message can show."""

    def __call__(self, tokens: Tensor, block: nn.Module) -> tuple[Tensor, Tensor]:
        return healthy.attend(tokens, block)

    def __repr__(self) -> str:
        return "a healthy one"


@patient_check("encode_block")
def check_encode_block(answer):
    cases = []
    for tokens, batch, options in (
        (2, 1, {"dim": 4, "num_heads": 2}),
        (5, 3, {"dim": 12}),
        (7, 2, {"dim": 24}),
    ):
        block = spread_weights(patient(img_size=8, **options).blocks[0])
        cases.append((torch.randn(batch, tokens, options["dim"]), block, _Attention()))

    def branches(first: Callable, second: Callable) -> Callable:
        def function(tokens: Tensor, block: nn.Module, attend: Callable) -> Tensor:
            tokens = first(tokens, block, lambda x: attend(x, block)[0])
            return second(tokens, block)

        return function

    def attention(x, block, attend):
        return x + attend(block.norm1(x))

    def mlp(x, block):
        return x + block.mlp(block.norm2(x))

    compare(
        answer,
        healthy.encode_block,
        cases,
        by_name(
            [
                (
                    branches(attention, lambda x, b: x + b.mlp(b.norm1(x))),
                    "`norm1` is used twice and `norm2` never: each branch has its own",
                ),
                (
                    branches(lambda x, b, a: x + a(b.norm2(x)), lambda x, b: x + b.mlp(b.norm1(x))),
                    "the two norms are swapped",
                ),
                (
                    branches(lambda x, b, a: b.norm1(x + a(x)), lambda x, b: b.norm2(x + b.mlp(x))),
                    "this is post-norm: the norms come after the sums. Here they belong in front of the branches",
                ),
                (branches(lambda x, b, a: x + a(x), mlp), "attention reads the stream without a norm"),
                (branches(attention, lambda x, b: x + b.mlp(x)), "the MLP reads the stream without a norm"),
                (
                    branches(attention, lambda x, b: b.mlp(b.norm2(x))),
                    "the MLP replaces the stream; it should add to it",
                ),
                (
                    branches(attention, lambda x, b: b.norm2(x) + b.mlp(b.norm2(x))),
                    "the stream is normed before the MLP adds to it",
                ),
                (
                    lambda x, b, a: x + a(b.norm1(x), b)[0] + b.mlp(b.norm2(x)),
                    "both branches read the same stream; the MLP should read what attention has added to",
                ),
                (branches(lambda x, b, a: x, mlp), "attention is missing"),
                (branches(attention, lambda x, b: x), "the MLP is missing"),
            ]
        ),
    )
    tokens, block, _ = cases[1]
    doubled = [
        function(tokens, block, lambda x, b: (2 * x, None)) for function in (answer, healthy.encode_block)
    ]
    if not torch.allclose(*doubled, atol=1e-4):
        raise Mistake("use the `attend` that is handed in: another one is ignored by your code")
    learns_alike(answer, healthy.encode_block, *cases[1])


@patient_check("classify")
def check_classify(answer):
    cases = []
    for tokens, batch, options in (
        (3, 2, {"dim": 4, "num_heads": 2, "num_classes": 2}),
        (5, 3, {"dim": 12, "num_classes": 7}),
        (2, 1, {"dim": 24, "num_classes": 10}),
    ):
        model = spread_weights(patient(img_size=8, **options))
        cases.append((torch.randn(batch, tokens, options["dim"]), model))

    def reading(read: Callable, after: Callable = lambda logits: logits) -> Callable:
        return lambda tokens, model: after(model.head(model.norm(read(tokens))))

    def cls(tokens: Tensor) -> Tensor:
        return tokens[:, 0]

    compare(
        answer,
        healthy.classify,
        cases,
        by_name(
            [
                (reading(lambda tokens: tokens[:, -1]), "you read the last token, a patch; CLS is token 0"),
                (reading(lambda tokens: tokens[:, 1]), "you read token 1, the first patch; CLS is token 0"),
                (
                    reading(lambda tokens: tokens.mean(dim=1)),
                    "you average all tokens; the CLS token alone is read",
                ),
                (
                    reading(lambda tokens: tokens[:, 1:].mean(dim=1)),
                    "you average the patches; the CLS token is read",
                ),
                (
                    reading(cls, lambda logits: logits.log_softmax(dim=-1)),
                    "you return log-probabilities: right for F.nll_loss, but the scores themselves are asked for",
                ),
                (
                    reading(cls, torch.sigmoid),
                    "you squeeze the scores into 0..1; cross-entropy takes any numbers",
                ),
                (
                    reading(lambda tokens: tokens[0]),
                    "you read all tokens of the first picture: `tokens[:, 0]`",
                ),
                (
                    reading(lambda tokens: tokens),
                    "you return scores for every token; one vector a picture is wanted",
                ),
            ]
        ),
    )
    learns_alike(answer, healthy.classify, *cases[1])


@patient_check("decay_groups")
def check_decay_groups(answer):
    small = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    for described, model in (
        ("the patient", patient(img_size=(8, 12))),
        ("a deeper patient", patient(img_size=8, depth=3)),
        ("two layers and a norm", small),
    ):
        for decay in (0.05, 0.3):
            before = {name: (p.detach().clone(), p.requires_grad) for name, p in model.named_parameters()}
            lesson_07.check_groups(run(answer, model, decay), model, decay, described)
            for name, p in model.named_parameters():
                if p.requires_grad != before[name][1] or not torch.equal(p, before[name][0]):
                    raise Mistake(
                        f"your code changes the model itself ({name}); sort its parameters, no more"
                    )


@patient_check("schedule")
def check_schedule(answer):
    lesson_07.check_learning_rate(answer)


@patient_check("blend")
def check_blend(answer):
    batch = 24
    targets = torch.eye(batch)
    drawn = []
    for share, size in ((0.75, (2, 2)), (0.6, (3, 5)), (0.25, (3, 2)), (1.0, (2, 3)), (0.75, (2, 2))):
        images = targets[:, :, None, None].expand(-1, -1, *size) * 4 - 1
        result = run(answer, images, targets, share)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise Mistake("return two things: blended images and blended targets")
        if not all(
            isinstance(part, Tensor) and part.shape == old.shape
            for part, old in zip(result, (images, targets), strict=True)
        ):
            raise Mistake("blended images and targets should be tensors of the shapes they had")
        seen, said = (result[0].mean(dim=(2, 3)) + 1) / 4, result[1]
        if not torch.allclose(result[0].amin((2, 3)), result[0].amax((2, 3)), atol=1e-5):
            raise Mistake("a picture of one colour is not of one colour any more: blend whole pictures")
        own = said.diagonal()
        if not torch.allclose(said.sum(dim=1), torch.ones(batch), atol=1e-5):
            raise Mistake(f"targets sum to {said.sum(dim=1)[0]:.2f}, not to 1: the partner gives 1 - share")
        if torch.allclose(said, targets) and share < 1 and not torch.allclose(seen, said, atol=1e-5):
            raise Mistake(NAMED + "the target names the picture alone, and not its partner")
        if (
            share < 1
            and torch.allclose(seen.diagonal(), 1 - own, atol=1e-5)
            and not torch.allclose(seen, said)
        ):
            raise Mistake(NAMED + "the shares of the target are swapped: they should be those of the picture")
        if not torch.allclose(seen, said, atol=1e-5):
            raise Mistake("pictures and targets do not agree")
        partner = (said - share * targets).argmax(dim=1)
        expected = share * targets + (1 - share) * targets[partner]
        if not torch.allclose(said, expected, atol=1e-5):
            raise Mistake(f"with share = {share} a picture keeps {own.min():.2f}: it should keep `share`")
        if share < 1 and len(set(partner.tolist())) < batch:
            raise Mistake("some pictures are partner of several, others of none: draw a permutation")
        drawn.append(partner)
    images = torch.randn(batch, 3, 4, 5)
    seen, said = run(answer, images, targets, 0.75)
    partner = (said - 0.75 * targets).argmax(dim=1)
    if not torch.allclose(seen, 0.75 * images + 0.25 * images[partner], atol=1e-5):
        raise Mistake(
            "a blended picture is not the sum of its two pictures: blend every pixel with the same pixel"
        )
    if torch.equal(drawn[0], torch.arange(batch)):
        raise Mistake("nothing is blended: every picture is its own partner")
    if torch.equal(drawn[0], drawn[-1]):
        raise Mistake("two calls give the same partners: draw them at random each time")


@patient_check("score")
def check_score(answer):
    class Fixed(nn.Module):
        """Scores that are the pictures themselves; it remembers the mode and the largest batch it saw."""

        def __init__(self):
            super().__init__()
            self.seen, self.largest = [], 0

        def forward(self, images: Tensor) -> Tensor:
            self.seen.append((self.training, torch.is_grad_enabled()))
            self.largest = max(self.largest, len(images))
            return images.flatten(1)

    images = torch.eye(7).repeat(2, 1)[:, :, None, None]
    labels = torch.arange(7).repeat(2)
    labels[-3:] = 0
    for batch_size in (5, 4, 14, 500):
        model = Fixed().train()
        value = run(answer, model, images, labels, batch_size)
        value = value.item() if isinstance(value, Tensor) and value.ndim == 0 else value
        if not isinstance(value, int | float):
            raise Mistake(f"return one number, a share in 0..1; you returned {value!r:.80}")
        sizes = [len(part) for part in images.split(batch_size)]
        hits = [part.double() for part in (images.flatten(1).argmax(1) == labels).split(batch_size)]
        known = {
            11 / len(sizes): "you divide by the number of batches, but you count pictures",
            11.0: "you return how many are right; divide by the number of pictures",
            100 * 11 / 14: "you return percent; a share in 0..1 was asked for",
            3 / 14: "you return the share of wrong answers",
            sum(part.mean().item() for part in hits) / len(hits): (
                "you average the accuracies of the batches: the last batch is smaller, and counts as much as the others"
            ),
            hits[-1].mean().item(): "you return the accuracy of the last batch alone",
        }
        if abs(value - 11 / 14) > 1e-6:
            near = [text for wrong, text in known.items() if abs(value - wrong) < 1e-6]
            raise Mistake(
                near[0] if near else f"11 of 14 pictures are right, 0.786; you returned {value:.3f}"
            )
        if model.training or any(training for training, _ in model.seen):
            raise Mistake("the model is not in evaluation mode all the time, and is not left in it")
        if any(gradients for _, gradients in model.seen):
            raise Mistake("gradients are recorded while scoring: memory and time for nothing")
        if model.largest > batch_size:
            raise Mistake(
                f"batch_size is {batch_size}, but your code hands over {model.largest} pictures at a time"
            )
        if model.largest < min(batch_size, 14):
            raise Mistake(
                f"batch_size is {batch_size}, but your code hands over {model.largest} of 14 pictures at a time: is "
                "`batch_size` ignored?"
            )
    model = Fixed()
    run(answer, model, images, labels)
    if model.largest < 14:
        raise Mistake("without `batch_size` 500 pictures go at a time: keep the default `batch_size=500`")
