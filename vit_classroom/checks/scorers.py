"""What is checked of a function that measures the share of right answers: `accuracy` of lesson 06, `score` of 14."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import demand

OFFSETS = torch.tensor([5.0, 0.0, -3.0, 2.0])
"""What an image lacks of each of its four scores: an image that is changed on the way has another class."""


class ReadsScores(nn.Module):
    """A model whose images hold the scores without `OFFSETS`: its logits are known, and others in training mode."""

    def __init__(self):
        super().__init__()
        self.factor, self.inner = nn.Parameter(torch.ones(())), nn.Dropout(0.25)
        self.frozen = nn.Parameter(torch.ones(()), requires_grad=False)
        self.calls: list[tuple[int, bool, bool]] = []

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores (B, K) that images (B, ...) of K numbers hold."""
        if images.ndim != 4:
            raise Mistake(f"a model takes images (B, C, H, W), and gets {tuple(images.shape)}")
        self.calls.append((len(images), self.training or self.inner.training, torch.is_grad_enabled()))
        scores = (images.flatten(1) + OFFSETS) * self.factor
        return -scores if self.training else scores

    def __repr__(self) -> str:
        return "one whose scores are the pixels"


def measured(answer: Callable, _: nn.Module, images: Tensor, labels: Tensor, batch_size: int) -> float:
    """Run an answer with a fresh model, whatever was done to the one of the case."""
    return answer(ReadsScores(), images, labels, batch_size)


def counted(share: Callable, mode: bool | None = False, gradients: bool = False) -> Callable:
    """Return an `accuracy` with another share, of lists: hits of each batch, and its size."""

    def answer(model, images, labels, batch_size=500):
        if mode is not None:
            model.train(mode)
        with torch.set_grad_enabled(gradients):
            parts = list(zip(images.split(batch_size), labels.split(batch_size), strict=True))
            hits = [(model(x).argmax(1) == y).sum().item() for x, y in parts]
        return share(hits, [len(x) for x, _ in parts])

    return answer


def marks_the_outermost_alone(model, images, labels, batch_size=500):
    """Leave the layers inside in training mode."""
    model.train().training = False
    parts = zip(images.split(batch_size), labels.split(batch_size), strict=True)
    with torch.no_grad():
        return sum((model(x).argmax(1) == y).sum().item() for x, y in parts) / len(images)


def late_to_evaluation(model, images, labels, batch_size=500):
    """Score the first batch in the mode that was found."""
    hits = []
    with torch.no_grad():
        for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            hits.append((model(x).argmax(1) == y).sum().item())
            model.eval()
    return sum(hits) / len(images)


def right_share(hits: list, sizes: list) -> float:
    """Return hits per image."""
    return sum(hits) / sum(sizes)


def full_batches(hits: list, sizes: list) -> int:
    """Return how many batches are as large as the first."""
    return sum(size == sizes[0] for size in sizes)


def hits_of(size: int, hits: list, sizes: list) -> int:
    """Return the hits of batches of this size alone."""
    return sum(hit for hit, images in zip(hits, sizes, strict=True) if images == size)


def without_last(hits: list, sizes: list) -> float:
    """Return the share of the full batches."""
    return sum(hits[: full_batches(hits, sizes)]) / sum(sizes[: full_batches(hits, sizes)])


def scored_by(right: Callable) -> Callable:
    """Return an `accuracy` that asks something else of (logits, labels): a bool for each image."""

    def answer(model, images, labels, batch_size=500):
        model.eval()
        parts = zip(images.split(batch_size), labels.split(batch_size), strict=True)
        with torch.no_grad():
            return sum(right(model(x), y).sum().item() for x, y in parts) / len(images)

    return answer


@torch.no_grad()
def class_by_class(model, images, labels, batch_size=500):
    """Average the shares of the classes."""
    said = torch.cat([model.eval()(x).argmax(1) for x in images.split(batch_size)])
    return torch.stack([(said[labels == k] == k).double().mean() for k in labels.unique()]).mean().item()


def of_full_batches(model, images, labels, batch_size=500):
    """Cut off what fills no batch."""
    count = len(images) // batch_size * batch_size
    return counted(right_share)(model, images[:count], labels[:count], batch_size)


def scores_and_labels() -> list[tuple]:
    """Return cases in which all known mistakes give other numbers than the right share."""
    cases = []
    for number, hits, batch_size in ((5, 4, 2), (7, 2, 3), (10, 6, 4), (7, 5, 7), (8, 3, 20), (3, 3, 2)):
        scores = torch.stack([torch.randperm(4) for _ in range(number)]).float() - 1
        places = torch.arange(number)
        # the best class can have a small probability, all scores can be far apart, or below 0
        scores = {20: scores / 10, 7: 200 * scores, 3: scores - 5}.get(batch_size, scores)
        rank = torch.where(3 * places % number < hits, 0, 1 + places % 3)
        labels = scores.argsort(descending=True).gather(1, rank[:, None])[:, 0]
        cases.append((ReadsScores(), (scores - OFFSETS).reshape(number, 1, 2, 2), labels, batch_size))
    return cases


@demand(
    {
        "your code never calls the model": lambda model, images, labels, batch_size=500: 0.0,
        "some batches meet the model in training mode": late_to_evaluation,
        "your model is measured in training mode": [
            counted(right_share, mode=True),
            marks_the_outermost_alone,
        ],
        "gradients are kept while you measure": counted(right_share, gradients=True),
        "all 10 images go through the model at once": lambda model, images, labels, batch_size=500: counted(
            right_share
        )(model, images, labels, len(images)),
        "a batch has 4 images, `batch_size`, and yours have": lambda model, images, labels, batch_size=500: (
            counted(right_share)(model, images, labels, batch_size + 1)
        ),
        "your code leaves the model in training mode": lambda model, images, labels, batch_size=500: (
            counted(right_share)(model, images, labels, batch_size),
            model.train(),
        )[0],
        "afterwards gradients are switched off for everybody": lambda model, images, labels, batch_size=500: (
            torch.set_grad_enabled(False),
            counted(right_share)(model, images, labels, batch_size),
            torch.set_grad_enabled(False),
        )[1],
        "afterwards the model cannot learn": lambda model, images, labels, batch_size=500: counted(
            right_share
        )(model.requires_grad_(False), images, labels, batch_size),
        "your code changes the rate of a dropout": lambda model, images, labels, batch_size=500: (
            setattr(model.inner, "p", 0.0),
            counted(right_share)(model, images, labels, batch_size),
        )[1],
        "a part that was frozen learns again afterwards": lambda model, images, labels, batch_size=500: (
            counted(right_share)(model.requires_grad_(True), images, labels, batch_size)
        ),
        "measured in training mode, where dropout": lambda model, images, labels, batch_size=500: (
            [part.eval() for part in model.children()]
            and counted(right_share, mode=None)(model, images, labels, batch_size)
        ),
    }
)
def measures_without_training(answer):
    """Demand evaluation mode, no gradients, `batch_size` images at a time, and nothing left changed."""
    model, images, labels, batch_size = scores_and_labels()[2]
    result = outcome(lambda f, m, x, y: f(m, x, y, batch_size), answer, (model, images, labels))
    if not model.calls and not isinstance(result, Exception):
        raise Mistake(
            "your code never calls the model that it gets (is it a copy?), as in `scores = model(batch)`"
        )
    if len({training for _, training, _ in model.calls}) > 1:
        raise Mistake(
            "some batches meet the model in training mode, others in evaluation mode. `model.eval()` comes before the "
            "first batch"
        )
    if any(training for _, training, _ in model.calls):
        raise Mistake(
            "your model is measured in training mode, where dropout is active. Call `model.eval()` first, which tells "
            "all layers inside. Training has left it in the other mode"
        )
    if not model.factor.requires_grad:
        raise Mistake(
            "afterwards the model cannot learn, because `requires_grad` is False. Use `torch.no_grad()`"
        )
    if model.frozen.requires_grad:
        raise Mistake("a part that was frozen learns again afterwards. Leave `requires_grad` as it is")
    if model.inner.p != 0.25:
        raise Mistake("your code changes the rate of a dropout, for later training too. `eval()` is enough")
    if any(kept for _, _, kept in model.calls):
        raise Mistake(
            "gradients are kept while you measure. That costs memory and time, and nothing is learned here. Put the "
            "loop into `with torch.no_grad():`"
        )
    if isinstance(result, Exception):
        raise stopped(result)
    if max((size for size, _, _ in model.calls), default=0) == len(images):
        raise Mistake(
            f"all {len(images)} images go through the model at once. With `batch_size` at a time, 10,000 fit into "
            "memory too"
        )
    if sum(sizes := [size for size, _, _ in model.calls]) == 10 and sorted(sizes) != [2, 4, 4]:
        raise Mistake(f"a batch has 4 images, `batch_size`, and yours have {str(sizes)[1:-1]}, of 10 images")
    if model.training:
        raise Mistake(
            "your code leaves the model in training mode, but the docstring promises evaluation mode"
        )


@demand(
    {
        "your result is 1 for a model with the same score for all classes": scored_by(
            lambda z, y: z.gather(1, y[:, None])[:, 0] >= z.amax(1)
        )
    }
)
def names_one_class(answer):
    """Demand that one class is named for an image, where several share the highest score."""
    case = None, -OFFSETS.expand(8, 4).reshape(8, 1, 2, 2), torch.arange(8) % 4, 4
    if outcome(measured, answer, case) == 1:
        raise Mistake(
            "your result is 1 for a model with the same score for all classes, which knows nothing. `argmax` "
            "chooses one class for each image, and this one is compared with the label"
        )


MISCOUNTS = {
    "you change the images before the model sees them, but they are normalised already": [
        lambda model, images, labels, batch_size=500: counted(right_share)(
            model, images / 255, labels, batch_size
        ),
        lambda model, images, labels, batch_size=500: counted(right_share)(
            model, (images - images.mean()) / images.std(), labels, batch_size
        ),
    ],
    "your mean counts all batches equally, the small last one too. Count the hits, and divide by N": counted(
        lambda hits, sizes: sum(h / s for h, s in zip(hits, sizes, strict=True)) / len(sizes)
    ),
    "the last batch is lost. It has fewer images, and they count too": [
        counted(without_last),
        of_full_batches,
    ],
    "the hits of the last batch are lost, but you divide by all images": [
        counted(lambda hits, sizes: sum(hits[: full_batches(hits, sizes)]) / sum(sizes)),
        lambda model, images, labels, batch_size=500: counted(
            lambda hits, sizes: hits_of(batch_size, hits, sizes) / sum(sizes)
        )(model, images, labels, batch_size),
    ],
    "you return the share of the last batch alone": counted(lambda hits, sizes: hits[-1] / sizes[-1]),
    "you keep the hits of the last batch alone. Add them up, with `+=` and not `=`": counted(
        lambda hits, sizes: hits[-1] / sum(sizes)
    ),
    "only the first batch is counted. Is `return` inside the loop?": counted(
        lambda h, sizes: h[0] / sum(sizes)
    ),
    "you return the share of the first batch alone": counted(lambda hits, sizes: hits[0] / sizes[0]),
    "you average the shares of the classes, but each *image* counts equally, whatever its class": class_by_class,
    "you return the number of hits. Divide it by the number of images": counted(
        lambda hits, sizes: float(sum(hits))
    ),
    "you divide by the number of batches. Divide by the number of images": counted(
        lambda hits, sizes: sum(hits) / len(sizes)
    ),
    "you take every batch for a full one, but the last has fewer images": [
        counted(lambda hits, sizes: sum(hits) / (sizes[0] * len(sizes))),
        lambda model, images, labels, batch_size=500: counted(
            lambda hits, sizes: sum(hits) / (batch_size * len(sizes))
        )(model, images, labels, batch_size),
    ],
    "an image counts if its class has the highest score, however small its probability is": scored_by(
        lambda z, y: z.softmax(1).gather(1, y[:, None])[:, 0] > 0.5
    ),
    "your guesses are a column, (B, 1), and each meets every label. Leave out `keepdim=True`": scored_by(
        lambda z, y: z.argmax(1, keepdim=True) == y
    ),
    "your softmax runs over the images of a batch, so scores of different images are compared. An image "
    "is judged by its own K scores": scored_by(lambda z, y: z.softmax(0).argmax(1) == y),
    "the shares of the batches are added, not averaged": counted(
        lambda hits, sizes: sum(h / s for h, s in zip(hits, sizes, strict=True))
    ),
    "no hit is ever counted, so your result is 0, whatever the images are": counted(lambda hits, sizes: 0.0),
    "a share is a fraction, and `//` rounds it down to a whole number": counted(
        lambda hits, sizes: float(sum(hits) // sum(sizes))
    ),
    "`argmax` without an axis finds one place in the whole table of scores. Each image has a best class, "
    "`argmax(dim=1)`": scored_by(lambda z, y: z.argmax() == y),
    "`argmin` finds the class with the lowest score": scored_by(lambda z, y: z.argmin(1) == y),
    "you compare the highest *score* with the label. `argmax` gives its place": scored_by(
        lambda z, y: z.amax(1) == y
    ),
    "an image counts as right if its class is among the best two, but only the best counts": scored_by(
        lambda z, y: (z.topk(2).indices == y[:, None]).any(1)
    ),
}
"""Mistakes in the share itself: what is said, and an answer that makes it."""
