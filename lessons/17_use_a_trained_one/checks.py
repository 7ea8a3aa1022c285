"""Checks of lesson 17: neighbours, a probe, likeness of patches, classes made of words."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import Demand, demand, exercise, results
from vit_course.inference import fit_linear, nearest_neighbours, patch_similarity, probe, zero_shot


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def unit(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1)


# -- nearest_neighbours


def cosines(queries: Tensor, features: Tensor) -> Tensor:
    return unit(queries) @ unit(features).T


def neighbours_by(
    likeness: Callable = cosines,
    shares: Callable = lambda s, t: (s / t).softmax(dim=-1),
    largest: bool = True,
) -> Callable:
    """Return a `nearest_neighbours` with this likeness (queries, features) and these shares (likeness, temperature)."""

    def answer(features, labels, queries, k=10, temperature=0.1):
        nearest, rows = likeness(queries, features).topk(k, dim=-1, largest=largest)
        votes = features.new_zeros(len(queries), int(labels.max()) + 1)
        return rows, votes.scatter_add(1, labels[rows], shares(nearest, temperature))

    return answer


def weighs_all_pictures(features, labels, queries, k=10, temperature=0.1):
    shares, rows = (cosines(queries, features) / temperature).softmax(dim=-1).topk(k, dim=-1)
    votes = features.new_zeros(len(queries), int(labels.max()) + 1)
    return rows, votes.scatter_add(1, labels[rows], shares)


def keeps_one_vote(features, labels, queries, k=10, temperature=0.1):
    rows, votes = nearest_neighbours(features, labels, queries, k, temperature)
    nearest = cosines(queries, features).gather(1, rows)
    return rows, torch.zeros_like(votes).scatter(1, labels[rows], (nearest / temperature).softmax(dim=-1))


def returns_labels(features, labels, queries, k=10, temperature=0.1):
    rows, votes = nearest_neighbours(features, labels, queries, k, temperature)
    return labels[rows], votes


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
    results(
        neighbour_cases,
        {
            "the lengths of the vectors are still in your products: a cosine divides by both": neighbours_by(
                lambda q, f: q @ f.T
            ),
            "the features are not brought to length 1, so long ones win": neighbours_by(
                lambda q, f: unit(q) @ f.T
            ),
            "the queries are not brought to length 1: their length then acts as another temperature": neighbours_by(
                lambda q, f: q @ unit(f).T
            ),
            "you divide the features by numbers taken over all pictures: each vector by its own length": neighbours_by(
                lambda q, f: F.normalize(q, dim=0) @ F.normalize(f, dim=0).T
            ),
            "a picture of the same direction as the query is left out: it is the most similar one": neighbours_by(
                lambda q, f: (found := cosines(q, f)).masked_fill(found > 0.9999, -2)
            ),
            "these are the nearest in distance: the task asks for the cosine": neighbours_by(
                lambda q, f: -torch.cdist(q, f)
            ),
            "these are the *least* similar pictures: the largest cosines are wanted": neighbours_by(
                largest=False
            ),
            "the temperature divides: you multiply by it": neighbours_by(
                shares=lambda s, t: (s * t).softmax(dim=-1)
            ),
            "the temperature is forgotten: the cosines are divided by it, before the softmax": neighbours_by(
                shares=lambda s, t: s.softmax(dim=-1)
            ),
            "all neighbours have the same vote: a closer one counts more": neighbours_by(
                shares=lambda s, t: torch.full_like(s, 1 / s.shape[1])
            ),
            "the softmax runs over the queries: it runs over the k neighbours of one query": neighbours_by(
                shares=lambda s, t: (s / t).softmax(dim=0)
            ),
            "the cosines themselves are the votes: a softmax makes them shares that sum to 1": neighbours_by(
                shares=lambda s, t: s / t
            ),
            "the softmax runs over all pictures: over the k neighbours alone, so that the votes sum to 1": (
                weighs_all_pictures
            ),
            "of several neighbours with one label only one counts: add their shares (`scatter_add`)": keeps_one_vote,
            "the most similar picture comes first: yours comes last": lambda *given: (
                nearest_neighbours(*given)[0].flip(1),
                nearest_neighbours(*given)[1],
            ),
            "you return the labels of the neighbours: return their rows in `features`": returns_labels,
            "return both: the rows of the neighbours, and the votes": [
                lambda *given: nearest_neighbours(*given)[1],
                lambda *given: nearest_neighbours(*given)[::-1],
            ],
        },
        float64=False,
    ),
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
            raise Mistake("the encoder takes a batch, (B, ...): of a single picture make one, `image[None]`")
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
            raise Mistake("features made in inference mode cannot be learned from: use `torch.no_grad()`")
        if not torch.is_grad_enabled():
            raise Mistake("`fit` learns, so it needs gradients: end the block `torch.no_grad()` before it")
        fitted.append((features, labels))
        return layer

    scores = outcome(lambda f: f(encoder, KNOWN.clone(), LABELS.clone(), ASKED.clone(), fit), answer, ())
    if isinstance(scores, Exception):
        raise stopped(scores, "with an encoder from (B, 6) to (B, 4), 8 pictures to learn from, 5 to test, ")
    if not encoder.matrix.requires_grad:
        raise Mistake("afterwards the encoder cannot learn any more: use the block `torch.no_grad()`")
    given = drawn(8, 4), LABELS, drawn(5, 4)  # an encoder may return what it gets: that belongs to the caller
    outcome(lambda f, *case: f(nn.Identity(), *case, lambda *_: Layer()), answer, given)
    return encoder, fitted, layer, scores


def standardised(
    stats: Callable, apply: Callable = lambda x, mean, std: (x - mean) / std, own: bool = False
) -> Callable:
    """Return a `probe` that takes mean and deviation by `stats` (features, queries), `own`: of each set by itself."""

    def answer(encoder, images, labels, test_images, fit=None):
        training = encoder.training
        encoder.eval()
        with torch.no_grad():
            features, queries = encoder(images), encoder(test_images)
        encoder.train(training)
        mean, std = stats(features, queries)
        others = stats(queries, features) if own else (mean, std)
        return fit(apply(features, mean, std), labels)(apply(queries, *others))

    return answer


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


def afterwards(change: Callable) -> Callable:
    """Return a `probe` that ends in this change of the encoder."""
    return lambda encoder, *given: (probe(encoder, *given), change(encoder))[0]


def marks_the_outermost(encoder, images, labels, test_images, fit=fit_linear):
    training, encoder.training = encoder.training, False
    with torch.no_grad():
        features, queries = encoder(images), encoder(test_images)
    encoder.training = training
    return fit(features - features.mean(dim=0), labels)(queries)


def records_gradients(encoder, images, labels, test_images, fit=None):
    training = encoder.training
    encoder.eval()
    features, queries = encoder(images), encoder(test_images)
    encoder.train(training)
    mean, std = mean_and_std(features, queries)
    return fit((features - mean) / std, labels)((queries - mean) / std).detach()


def scores_known(encoder, images, labels, test_images, fit=None):
    def fit_and_ask(features, labels):
        layer = fit(features, labels)
        return lambda _: layer(features)

    return probe(encoder, images, labels, test_images, fit_and_ask)


@demand(
    {
        "the encoder was in training mode when it computed features": marks_the_outermost,
        "the encoder is left in evaluation mode": [
            afterwards(nn.Module.eval),
            afterwards(lambda encoder: encoder.inner.eval()),
        ],
        "features made in inference mode": torch.inference_mode()(probe),
        "`fit` learns, so it needs gradients": torch.no_grad()(probe),
        "afterwards the encoder cannot learn any more": lambda encoder, *given: probe(
            encoder.requires_grad_(False), *given
        ),
        "afterwards gradients are switched off for everybody": lambda *given: (
            probe(*given),
            torch.set_grad_enabled(False),
        )[0],
        "the encoder came in evaluation mode and is in training mode now": afterwards(nn.Module.train),
        "gradients were recorded": records_gradients,
        "the encoder never got the test pictures": lambda e, x, y, z, fit=None: probe(e, x, y, x, fit),
        "`fit` gets 13 features and 8 labels": lambda e, x, y, z, *fit: probe(
            e, torch.cat([x, z]), y, z, *fit
        ),
        "the encoder read 26 pictures": lambda *given: (probe(*given), probe(*given))[1],
    }
)
def treats_the_encoder_well(answer):
    for training in (True, False):
        encoder, fitted, *_ = watch(answer, training)
        if any(training for training, _ in encoder.seen):
            raise Mistake(
                "the encoder was in training mode when it computed features: dropout made noise of them. Call "
                "`encoder.eval()` before both sets, and give the old mode back after both"
            )
        if encoder.training and not training:
            raise Mistake(
                "the encoder came in evaluation mode and is in training mode now: give the old one back"
            )
        if training and not (encoder.training and encoder.inner.training):
            raise Mistake(
                "the encoder is left in evaluation mode, and it was in training mode before: keep `encoder.training`, "
                "and give it to `encoder.train(...)` at the end"
            )
        if any(recorded for _, recorded in encoder.seen):
            raise Mistake("gradients were recorded for the encoder: put both sets into `torch.no_grad()`")
        if not any(torch.equal(image, ASKED[0]) for image in encoder.read):
            raise Mistake("the encoder never got the test pictures as they are: it reads them, unchanged")
        if fitted and len(fitted[-1][0]) != len(fitted[-1][1]):
            counts = f"{len(fitted[-1][0])} features and {len(fitted[-1][1])} labels"
            raise Mistake(f"`fit` gets {counts}: only the pictures that have labels")
        if len(encoder.read) != len(KNOWN) + len(ASKED):
            raise Mistake(
                f"the encoder read {len(encoder.read)} pictures, and there are {len(KNOWN)} to learn from and "
                f"{len(ASKED)} to test: compute each feature once, and leave none out"
            )


def expected(encoder: Watched) -> tuple[Tensor, Tensor]:
    """Return the features of both sets, standardised by the training features."""
    with torch.no_grad():
        encoder.eval()
        features, queries = encoder(KNOWN), encoder(ASKED)
    mean, std = mean_and_std(features, queries)
    return (features - mean) / std, (queries - mean) / std


WRONG_SIZES = {
    "mean and deviation are those of both sets together: take them from the training features alone": peeks,
    "each set is standardised by itself: both by mean and deviation of the training features alone": (
        standardised(mean_and_std, own=True)
    ),
    "mean and deviation are those of the test features: take them from the training features alone": standardised(
        lambda f, q: mean_and_std(q, f)
    ),
    "the features are not standardised": standardised(mean_and_std, lambda x, mean, std: x),
    "the mean is not subtracted": standardised(mean_and_std, lambda x, mean, std: x / std),
    "the features are not divided by their deviation": standardised(
        mean_and_std, lambda x, mean, std: x - mean
    ),
    "you divide by the variance: by its root, the standard deviation": standardised(
        lambda f, q: (f.mean(dim=0), f.var(dim=0).clamp(min=1e-6))
    ),
    "one mean and one deviation stand for all D numbers: each number has its own": standardised(
        lambda f, q: (f.mean(), f.std())
    ),
    "each picture is standardised by itself: each of the D numbers, over the training pictures": standardised(
        lambda f, q: (0, 1),
        lambda x, mean, std: (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True),
    ),
    "your deviation divides by N: the task takes the one that divides by N - 1": standardised(
        lambda f, q: (f.mean(dim=0), f.std(dim=0, unbiased=False).clamp(min=1e-6))
    ),
    "a number that is the same in all pictures has deviation 0, and yours divides by it: at least 1e-6": standardised(
        lambda f, q: (f.mean(dim=0), f.std(dim=0))
    ),
    "a deviation of 0 counts as 1e-6, and not as 1, or nothing": [
        standardised(lambda f, q: (f.mean(dim=0), f.std(dim=0).masked_fill(f.std(dim=0) < 1e-6, 1.0))),
        standardised(mean_and_std, lambda x, mean, std: ((x - mean) / std).masked_fill(std < 2e-6, 0.0)),
    ],
}


def close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True)


@demand(
    WRONG_SIZES
    | {
        "these are scores of the pictures that were learned from": scores_known,
        "`fit` gets other labels than those given": lambda encoder, images, labels, *rest: probe(
            encoder, images, labels.sort().values, *rest
        ),
        "`fit` gets 16 features": lambda encoder, images, labels, queries, fit=None: probe(
            encoder, images, labels, queries, lambda x, y: fit(torch.cat([x, x]), torch.cat([y, y]))
        ),
        "return the scores, (5, 3)": lambda encoder, *given: probe(encoder, *given).argmax(dim=1),
    }
)
def gives_the_right_numbers_to_the_layer(answer):
    encoder, fitted, layer, scores = watch(answer, training=True)
    (features, queries), seen = expected(encoder), layer.asked[-1:]
    right = isinstance(scores, Tensor) and close(scores, layer(queries))
    if not fitted or not (seen or right):
        raise Mistake(
            "the layer that `fit` returns is never asked: it scores the test features"
            if fitted
            else "call the `fit` that is handed in, not `fit_linear` itself: it makes the layer of features and labels"
        )
    got, labels = fitted[-1]
    if got.ndim < labels.ndim:
        raise Mistake("`fit` takes the features first, then the labels")
    if len(got) != len(KNOWN):
        raise Mistake(f"`fit` gets {len(got)} features for {len(KNOWN)} pictures with labels: each once")
    order = torch.cdist(got, features).argmin(dim=1).argsort()  # pictures may come in another order
    if close(got[order], features):
        got, labels = got[order], labels[order]
    asked = queries if right else seen[0]
    if close(asked, features) and close(got, features):
        raise Mistake("these are scores of the pictures that were learned from: score the test pictures")
    if not (close(got, features) and close(asked, queries)):
        for words, wrong in Demand(close, WRONG_SIZES).mistakes():
            _, theirs, other, _ = watch(wrong, training=True)
            if close(got, theirs[-1][0]) and close(asked, other.asked[-1]):
                raise Mistake(words)
        which = "`fit`" if not close(got, features) else "the layer for the test pictures"
        raise Mistake(
            f"{which} gets other numbers than the standardised features: subtract the mean of the training features, "
            "divide by their deviation (at least 1e-6), in both sets"
        )
    if not torch.equal(labels, LABELS):
        raise Mistake("`fit` gets other labels than those given: each feature has the label of its picture")
    if not isinstance(scores, Tensor) or scores.shape != (len(ASKED), 3):
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise Mistake(f"return the scores, (5, 3), as the layer gives them; yours is {shape}")
    if not close(scores, layer(queries)):
        raise Mistake("the scores are changed after the layer: return them as they are")


exercise(probe, treats_the_encoder_well, gives_the_right_numbers_to_the_layer)

# -- patch_similarity


def patches_by(
    take: Callable = lambda tokens, count: tokens[-count:],
    centre: Callable = lambda patches, tokens: patches - patches.mean(dim=0),
    product: Callable = lambda patches, i: unit(patches) @ unit(patches)[i],
    index: Callable = lambda grid, row, column: row * grid[1] + column,
    mask: Callable = lambda similarity: similarity > 0,
) -> Callable:
    """Return a `patch_similarity` that does one step in another way."""

    def answer(tokens, grid_size, row, column):
        patches = centre(take(tokens, grid_size[0] * grid_size[1]), tokens)
        similarity = product(patches, index(grid_size, row, column)).reshape(grid_size)
        return similarity, mask(similarity)

    return answer


exercise(
    patch_similarity,
    results(
        lambda: [
            (drawn(7, 3) + 2, (2, 3), 1, 0),
            (drawn(12, 5, seed=1) + 1, (3, 4), 0, 2),
            (drawn(17, 4, seed=2) - 1, (3, 4), 2, 3),
            (drawn(36, 3).exp(), (5, 7), 4, 1),
            (torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), (1, 4), 0, 0),
        ],
        {
            "the mean over the patches is not subtracted": patches_by(centre=lambda patches, tokens: patches),
            "CLS is in the mean: take it over the patches alone": patches_by(
                centre=lambda patches, tokens: patches - tokens.mean(dim=0)
            ),
            "you subtract from each token the mean of its own numbers: subtract the mean token": patches_by(
                centre=lambda patches, tokens: patches - patches.mean(dim=-1, keepdim=True)
            ),
            "each token is brought to length 1 before the mean is subtracted: first subtract": patches_by(
                centre=lambda patches, tokens: unit(patches) - unit(patches).mean(dim=0)
            ),
            "the place is counted in all tokens: count in the patches, which are the last ones": (
                lambda tokens, *place: patches_by(
                    product=lambda p, i: unit(p) @ unit(tokens - tokens[-len(p) :].mean(dim=0))[i]
                )(tokens, *place)
            ),
            "the prefix tokens are counted as patches: the patches are the last ones": patches_by(
                take=lambda tokens, count: tokens[:count]
            ),
            "always one token is cut off: there may be none, or registers too": patches_by(
                take=lambda tokens, count: tokens[1 : count + 1]
            ),
            "these are products, not cosines: bring the tokens to length 1": patches_by(
                product=lambda patches, i: patches @ patches[i]
            ),
            "the chosen patch is not brought to length 1": patches_by(
                product=lambda patches, i: unit(patches) @ patches[i]
            ),
            "the chosen patch keeps the mean: compare with it as it is after the subtraction": (
                lambda tokens, *place: patches_by(
                    product=lambda patches, i: unit(patches) @ unit(tokens[-len(patches) :])[i]
                )(tokens, *place)
            ),
            "patch number row · columns + column, not row · column": patches_by(
                index=lambda grid, row, column: row * column
            ),
            "row and column are swapped: patch number row · columns + column": patches_by(
                index=lambda grid, row, column: min(column * grid[1] + row, grid[0] * grid[1] - 1)
            ),
            "a row has as many patches as there are columns: patch number row · columns + column": patches_by(
                index=lambda grid, row, column: row * grid[0] + column
            ),
            "the mask holds where the similarity is above 0": [
                patches_by(mask=lambda similarity: similarity > 0.5),
                patches_by(mask=lambda similarity: similarity > similarity.mean()),
                patches_by(mask=lambda similarity: similarity < 0),
                patches_by(mask=lambda similarity: similarity >= 0),
            ],
        },
        float64=False,
    ),
)

# -- zero_shot


def shot_by(
    images: Callable = unit,
    classes: Callable = lambda texts: unit(unit(texts).mean(dim=1)),
    scores: Callable = lambda cosines, t: (cosines / t).softmax(dim=-1),
) -> Callable:
    """Return a `zero_shot` that does one step in another way."""
    return lambda image_features, text_features, temperature=0.05: scores(
        images(image_features) @ classes(text_features).T, temperature
    )


def best_text(image_features, text_features, temperature=0.05):
    cosines = torch.einsum("bd,kpd->bkp", unit(image_features), unit(text_features))
    return (cosines.amax(dim=-1) / temperature).softmax(dim=-1)


exercise(
    zero_shot,
    results(
        lambda: [
            (drawn(1, 3), drawn(2, 2, 3, seed=1), 0.5),
            (2 * drawn(4, 5), 3 * drawn(3, 2, 5, seed=1) + 1, 0.3),
            (drawn(2, 6), drawn(5, 5, 6, seed=2) * torch.arange(1.0, 6.0)[:, None]),
            (drawn(3, 4), drawn(4, 1, 4, seed=3), 0.1),
        ],
        {
            "the picture features are not brought to length 1": shot_by(images=lambda x: x),
            "the average of the texts is not brought to length 1 again: classes with similar texts would win": shot_by(
                classes=lambda texts: unit(texts).mean(dim=1)
            ),
            "each text is brought to length 1 before they are averaged, else long ones win": shot_by(
                classes=lambda texts: unit(texts.mean(dim=1))
            ),
            "the texts are not brought to length 1": shot_by(classes=lambda texts: texts.mean(dim=1)),
            "`F.normalize` without `dim` takes axis 1, here the texts: each vector by its own length, dim=-1": shot_by(
                classes=lambda texts: unit(F.normalize(texts).mean(dim=1))
            ),
            "the average runs over the classes: over the texts of one class, axis 1": shot_by(
                classes=lambda texts: unit(unit(texts).mean(dim=0))
            ),
            "only the first text of each class is used": shot_by(classes=lambda texts: unit(texts[:, 0])),
            "this takes the best text of each class: average them": best_text,
            "the temperature divides: you multiply by it": shot_by(
                scores=lambda c, t: (c * t).softmax(dim=-1)
            ),
            "your temperature is fixed, 1/100: use `temperature`": shot_by(
                scores=lambda c, t: (100 * c).softmax(dim=-1)
            ),
            "these are scores: a softmax over the classes makes probabilities": [
                shot_by(scores=lambda c, t: c / t),
                shot_by(scores=lambda c, t: c),
            ],
        },
        float64=False,
    ),
)
