"""Checks of lesson 17: a probe, a segmentation head, neighbours, classes made of words."""

from collections import ChainMap
from collections.abc import Callable

import torch
from torch import Tensor, nn

from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import Demand, demand, exercise, results
from vit_course.inference import fit_linear, nearest_neighbours, patch_labels, probe, segment, zero_shot

known = Mistakes(__file__, nearest_neighbours, probe, patch_labels, segment, zero_shot)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# -- nearest_neighbours


def neighbour_cases() -> list[tuple]:
    small = torch.tensor([[1.0, 0.0], [3.0, 3.0], [0.0, 2.0], [-1.0, 0.5]])
    return [
        (small, torch.tensor([0, 1, 1, 2]), torch.tensor([[1.0, 2.0]]), 3, 0.5),
        (drawn(9, 4), 2 * (torch.arange(9) % 3), drawn(5, 4, seed=1), 4, 0.3),
        (3 * drawn(30, 6, seed=2), torch.arange(30) % 4, drawn(3, 6, seed=3) + 1),
        (drawn(12, 6, seed=4), torch.arange(12) % 4, 2 * drawn(12, 6, seed=4)[3:5], 3),
    ]


exercise(
    nearest_neighbours,
    results(neighbour_cases, known("nearest_neighbours results"), float64=False),
)

# -- probe: an encoder and a fit that watch what is done to them


class Log(list):
    """A list that a copy of its owner goes on to write into."""

    def __deepcopy__(self, memo: dict) -> "Log":
        return self


class Watched(nn.Module):
    """An encoder from (B, 6) to (B, 4) with dropout that notes how it is called.

    Its last number is the same for all pictures of `KNOWN`, and a little more for others. Its square has as many bits
    as a float32 can hold, so by mean(x²) - mean(x)² its deviation is not 0.
    """

    def __init__(self, training: bool):
        super().__init__()
        self.matrix = nn.Parameter(drawn(6, 3, seed=7))
        self.inner = nn.Dropout(0.5)
        self.read, self.seen = Log(), Log()
        self.train(training)

    def forward(self, images: Tensor) -> Tensor:
        if images.ndim != 2:
            raise Mistake(
                "the encoder takes a batch, (B, ...). Make one of a single image with `image[None]`"
            )
        self.read += list(images)
        found = self.inner(images @ self.matrix)
        self.seen += [(self.training or self.inner.training, found.requires_grad)]
        known = (images[:, None] == KNOWN).all(dim=2).any(dim=1, keepdim=True)
        return torch.cat([found, torch.where(known, 1 + 2**-11, 1.0006)], dim=1)


class Layer(nn.Linear):
    """What `fit` returns: it notes the features that it is asked about."""

    def __init__(self):
        super().__init__(4, 3)
        self.load_state_dict({"weight": drawn(3, 4, seed=8), "bias": drawn(3, seed=9)})
        self.requires_grad_(False).asked = []

    def forward(self, features: Tensor) -> Tensor:
        self.asked.append(features)
        return super().forward(features)


KNOWN, ASKED, LABELS = 5 * drawn(8, 6) + 2, 3 * drawn(5, 6, seed=1) - 1, torch.arange(8) % 3


def watch(answer: Callable, training: bool) -> tuple[Watched, list, Layer, Tensor]:
    """Run a `probe`; return the encoder, what `fit` got, the layer that it returned, and the scores."""
    encoder, layer, fitted = Watched(training), Layer(), []

    def fit(features: Tensor, labels: Tensor) -> Layer:
        if features.is_inference():
            raise Mistake("features made in inference mode cannot be learned from. Use `torch.no_grad()`")
        if not torch.is_grad_enabled():
            raise Mistake("`fit` learns, so it needs gradients. End the block `torch.no_grad()` before it")
        fitted.append((features, labels))
        return layer

    scores = outcome(lambda f: f(encoder, KNOWN.clone(), LABELS.clone(), ASKED.clone(), fit), answer, ())
    if isinstance(scores, Exception):
        raise stopped(scores, "with an encoder from (B, 6) to (B, 4), 8 images to learn from, 5 to test, ")
    if not encoder.matrix.requires_grad:
        raise Mistake("afterwards the encoder cannot learn any more. Use the block `torch.no_grad()`")
    given = drawn(8, 4), LABELS, drawn(5, 4)  # an encoder may return what it gets: that belongs to the caller
    outcome(lambda f, *case: f(nn.Identity(), *case, lambda *_: Layer()), answer, given)
    return encoder, fitted, layer, scores


def mean_and_std(features: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    return features.mean(dim=0), features.std(dim=0).clamp(min=1e-6)


def peeks(encoder, images, labels, test_images, fit=fit_linear):
    training = encoder.training
    encoder.eval()
    with torch.no_grad():
        features, queries = encoder(images), encoder(test_images)
    encoder.train(training)
    both = torch.cat([features, queries])
    mean, std = both.mean(dim=0), both.std(dim=0).clamp(min=1e-6)
    return fit((features - mean) / std, labels)((queries - mean) / std)


@demand(known("probe care", ("features made in inference mode", torch.inference_mode()(probe))))
def treats_the_encoder_well(answer):
    for training in (True, False):
        encoder, fitted, *_ = watch(answer, training)
        if any(training for training, _ in encoder.seen):
            raise Mistake(
                "the encoder was in training mode when it computed features, so dropout put noise into them. Call "
                "`encoder.eval()` before both sets, and give the old mode back after both"
            )
        if encoder.training and not training:
            raise Mistake(
                "the encoder came in evaluation mode and is in training mode now. Give the old mode back"
            )
        if training and not (encoder.training and encoder.inner.training):
            raise Mistake(
                "the encoder is left in evaluation mode, and it was in training mode before. Keep `encoder.training`, "
                "and give it to `encoder.train(...)` at the end"
            )
        if any(recorded for _, recorded in encoder.seen):
            raise Mistake(
                "gradients were recorded for the encoder. Compute both sets inside `torch.no_grad()`"
            )
        if not any(torch.equal(image, ASKED[0]) for image in encoder.read):
            raise Mistake("the encoder never got the test images as they are. It reads them unchanged")
        if fitted and len(fitted[-1][0]) != len(fitted[-1][1]):
            counts = f"{len(fitted[-1][0])} features and {len(fitted[-1][1])} labels"
            raise Mistake(f"`fit` gets {counts}. Give it only the images that have labels")
        if len(encoder.read) != len(KNOWN) + len(ASKED):
            raise Mistake(
                f"the encoder read {len(encoder.read)} images, and there are {len(KNOWN)} to learn from and "
                f"{len(ASKED)} to test. Compute each feature once, and leave none out"
            )


def expected(encoder: Watched) -> tuple[Tensor, Tensor]:
    """Return the features of both sets, standardised by the training features."""
    with torch.no_grad():
        encoder.eval()
        features, queries = encoder(KNOWN), encoder(ASKED)
    mean, std = mean_and_std(features, queries)
    return (features - mean) / std, (queries - mean) / std


WRONG_NUMBERS = known(
    "probe numbers",
    (
        "mean and deviation are those of both sets together. Take them from the training features alone",
        peeks,
    ),
)


def close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True)


@demand(ChainMap(known("probe scores"), WRONG_NUMBERS))
def gives_the_right_numbers_to_the_layer(answer):
    encoder, fitted, layer, scores = watch(answer, training=True)
    (features, queries), seen = expected(encoder), layer.asked[-1:]
    right = isinstance(scores, Tensor) and close(scores, layer(queries))
    if not fitted or not (seen or right):
        raise Mistake(
            "the layer that `fit` returns is never called. It scores the test features"
            if fitted
            else "call the `fit` that is given, not `fit_linear` itself. It makes the layer from features and labels"
        )
    got, labels = fitted[-1]
    if got.ndim < labels.ndim:
        raise Mistake("`fit` takes the features first, then the labels")
    if len(got) != len(KNOWN):
        raise Mistake(
            f"`fit` gets {len(got)} features for {len(KNOWN)} images with labels. Give it each once"
        )
    order = torch.cdist(got, features).argmin(dim=1).argsort()  # images may come in another order
    if close(got[order], features):
        got, labels = got[order], labels[order]
    asked = queries if right else seen[0]
    if close(asked, features) and close(got, features):
        raise Mistake("these are scores of the images that were learned from. Score the test images")
    if not (close(got, features) and close(asked, queries)):
        for words, wrong in Demand(close, WRONG_NUMBERS).mistakes():
            _, theirs, other, _ = watch(wrong, training=True)
            if close(got, theirs[-1][0]) and close(asked, other.asked[-1]):
                raise Mistake(words)
        which = "`fit`" if not close(got, features) else "the layer for the test images"
        raise Mistake(
            f"{which} gets other numbers than the standardised features. Subtract the mean of the training features, "
            "divide by their deviation (at least 1e-6), in both sets"
        )
    if not torch.equal(labels, LABELS):
        raise Mistake("`fit` gets other labels than those given. Each feature has the label of its image")
    if not isinstance(scores, Tensor) or scores.shape != (len(ASKED), 3):
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise Mistake(f"return the scores, (5, 3), as the layer gives them; yours is {shape}")
    if not close(scores, layer(queries)):
        raise Mistake("the scores are changed after the layer. Return them as they are")


exercise(probe, treats_the_encoder_well, gives_the_right_numbers_to_the_layer)

# -- a segmentation head, in two steps


def painted(count: int, grid: tuple[int, int], patch: tuple[int, int], classes: int, seed: int) -> Tensor:
    """Paint masks in which every patch has one class that is more frequent than all others."""
    random = torch.Generator().manual_seed(seed)
    size = grid[0] * patch[0], grid[1] * patch[1]
    most = torch.randint(classes, (count, *grid), generator=random)
    most = most.repeat_interleave(patch[0], dim=1).repeat_interleave(patch[1], dim=2)
    others = torch.randint(classes, (count, *size), generator=random)
    rows, columns = (
        torch.arange(side)[:, None] if axis == 0 else torch.arange(side) for axis, side in enumerate(size)
    )
    free = (rows % patch[0] + columns % patch[1]) % 2 == 0  # half of the pixels, or a little more
    free &= ((rows + 1) % patch[0] > 0) | ((columns + 1) % patch[1] > 0)
    return torch.where(free, others, most)


exercise(
    patch_labels,
    results(
        lambda: [
            (torch.tensor([[[0, 1, 2, 2], [1, 1, 0, 2]]]), (1, 2)),
            (painted(2, (2, 3), (3, 3), 3, seed=0), (2, 3)),
            (painted(3, (4, 2), (2, 4), 4, seed=1), (4, 2)),
            (painted(1, (5, 5), (4, 4), 2, seed=2), (5, 5)),
        ],
        known("patch_labels results"),
        float64=False,
    ),
)


def layer_of(dim: int, classes: int, seed: int) -> nn.Linear:
    layer = nn.Linear(dim, classes)
    layer.load_state_dict({"weight": drawn(classes, dim, seed=seed), "bias": drawn(classes, seed=seed + 1)})
    return layer.requires_grad_(False)


exercise(
    segment,
    results(
        lambda: [
            (layer_of(2, 2, 0), drawn(1, 3, 2), (1, 2), (2, 4)),
            (layer_of(3, 4, 2), drawn(2, 6, 3, seed=1), (2, 3), (4, 9)),
            (layer_of(4, 3, 4), drawn(3, 17, 4, seed=2), (4, 3), (8, 6)),
            (layer_of(2, 5, 6), drawn(2, 10, 2, seed=3), (3, 3), (7, 5)),
        ],
        known("segment results"),
        float64=False,
    ),
)

# -- zero_shot

exercise(
    zero_shot,
    results(
        lambda: [
            (drawn(1, 3), drawn(2, 2, 3, seed=1), 0.5),
            (2 * drawn(4, 5), 3 * drawn(3, 2, 5, seed=1) + 1, 0.3),
            (drawn(2, 6), drawn(5, 5, 6, seed=2) * torch.arange(1.0, 6.0)[:, None]),
            (drawn(3, 4), drawn(4, 1, 4, seed=3), 0.1),
        ],
        known("zero_shot results"),
        float64=False,
    ),
)
