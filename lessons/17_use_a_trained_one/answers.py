"""Answers to the exercises of lesson 17, written as students write them."""

import copy

import torch
import torch.nn.functional as F

from vit_classroom.checks import lesson_part
from vit_course.inference import fit_linear, nearest_neighbours, patch_similarity, probe, zero_shot

checks = lesson_part("17_use_a_trained_one", "checks")


def neighbours_in_loops(features, labels, queries, k=10, temperature=0.1):
    rows, votes = [], torch.zeros(len(queries), int(labels.max()) + 1)
    for q, query in enumerate(queries):
        cosines = F.cosine_similarity(query[None], features)
        order = cosines.argsort(descending=True)[:k]
        weights = torch.exp(cosines[order] / temperature)
        for row, weight in zip(order, weights / weights.sum(), strict=True):
            votes[q, labels[row]] += weight
        rows.append(order)
    return torch.stack(rows), votes


def neighbours_by_one_hot(features, labels, queries, k=10, temperature=0.1):
    features = features / features.norm(dim=1, keepdim=True)
    queries = queries / queries.norm(dim=1, keepdim=True)
    values, rows = torch.sort(queries @ features.T, dim=1, descending=True)
    values, rows = values[:, :k], rows[:, :k]
    weights = torch.softmax(values / temperature, dim=1)
    classes = F.one_hot(labels, int(labels.max()) + 1).float()
    return rows, (weights[:, :, None] * classes[rows]).sum(dim=1)


def neighbours_without_k(features, labels, queries):
    return nearest_neighbours(features, labels, queries)


def probe_in_parts(encoder, images, labels, test_images, fit=fit_linear):
    was_training = encoder.training
    encoder.eval()
    with torch.no_grad():
        x = torch.cat([encoder(part) for part in images.split(3)])
        y = torch.cat([encoder(part) for part in test_images.split(3)])
    if was_training:
        encoder.train()
    centre, spread = x.mean(0), torch.maximum(x.std(0), torch.tensor(1e-6))
    return fit((x - centre) / spread, labels)((y - centre) / spread)


def probe_in_portions(encoder, images, labels, test_images, fit=fit_linear):
    """On a copy, which leaves the encoder alone, and with a layer that is asked picture by picture."""
    quiet = copy.deepcopy(encoder).eval()
    with torch.no_grad():
        x, y = quiet(images), quiet(test_images)
    centre, spread = x.mean(0), x.std(0).clamp_min(1e-6)
    layer = fit((x - centre) / spread, labels)
    return torch.cat([layer(part) for part in ((y - centre) / spread).split(1)])


def probe_as_one_batch(encoder, images, labels, test_images, fit=fit_linear):
    mode = encoder.training
    encoder.train(False)
    with torch.inference_mode():
        both = encoder(torch.cat([images, test_images]))
    encoder.train(mode)
    known, asked = both.clone().split([len(images), len(test_images)])
    std, mean = torch.std_mean(known, dim=0)
    std = torch.where(std < 1e-6, torch.full_like(std, 1e-6), std)
    layer = fit((known - mean) / std, labels)
    return layer((asked - mean) / std)


def probe_of_a_backbone(encoder, *given):
    return probe(encoder.backbone, *given)


def similarity_step_by_step(tokens, grid_size, row, column):
    rows, columns = grid_size
    grid = tokens[len(tokens) - rows * columns :].reshape(rows, columns, -1)
    grid = grid - grid.mean(dim=(0, 1))
    similarity = F.cosine_similarity(grid, grid[row, column], dim=-1)
    return similarity, similarity.gt(0)


def similarity_as_matrix(tokens, grid_size, row, column):
    patches = tokens[-grid_size[0] * grid_size[1] :]
    centred = patches - patches.mean(0, keepdim=True)
    gram = centred @ centred.T
    length = gram.diagonal().sqrt()
    cosines = (gram / length[:, None] / length[None]).unflatten(1, grid_size)
    chosen = cosines[row * grid_size[1] + column]
    return chosen, chosen > 0


def shot_in_loops(image_features, text_features, temperature=0.05):
    columns = []
    for texts in text_features:
        vector = torch.zeros(texts.shape[-1])
        for text in texts:
            vector = vector + text / text.norm()
        columns.append(F.cosine_similarity(image_features, vector[None]) / temperature)
    return torch.stack(columns, dim=1).softmax(dim=1)


def shot_by_einsum(image_features, text_features, temperature=0.05):
    images = image_features / image_features.norm(dim=-1, keepdim=True)
    texts = text_features / text_features.norm(dim=-1, keepdim=True)
    classes = texts.sum(dim=1)
    classes = classes / classes.norm(dim=-1, keepdim=True)
    scores = torch.exp(torch.einsum("bd,kd->bk", images, classes) / temperature)
    return scores / scores.sum(dim=1, keepdim=True)


WRONG = {
    "nearest_neighbours": [
        (
            "the shape should be (1, 3)",
            lambda x, y, asked, k=10, *rest: nearest_neighbours(x, y, asked, min(k + 1, len(x)), *rest),
        ),
        (
            "the shape should be (1, 3)",
            lambda *given: (nearest_neighbours(*given)[0], F.pad(nearest_neighbours(*given)[1], (0, 7))),
        ),
        ("your code stopped with TypeError", neighbours_without_k),
        (
            "the shape should be (1, 3)",
            lambda *given: (nearest_neighbours(*given)[0], nearest_neighbours(*given)[1].argmax(dim=1)),
        ),
    ],
    "probe": [
        (
            "call the `fit` that is handed in",
            lambda encoder, x, y, asked, fit=None: probe(encoder, x, y, asked, lambda *_: lambda z: z[:, :3]),
        ),
        ("the encoder takes a batch", lambda encoder, x, *rest: probe(encoder, x[0], *rest)),
        (
            "the layer that `fit` returns is never asked",
            lambda e, x, y, z, fit=None: probe(e, x, y, z, lambda *both: (fit(*both), torch.clone)[1]),
        ),
        ("the scores are changed after the layer", lambda *given: probe(*given).softmax(dim=1)),
        (
            "changes its input in place",
            checks.standardised(checks.mean_and_std, lambda x, mean, std: x.sub_(mean).div_(std)),
        ),
        (
            "`fit` takes the features first",
            lambda e, x, y, z, fit=None: probe(e, x, y, z, lambda a, b: fit(b, a)),
        ),
        (
            "gets other numbers than the standardised features",
            checks.standardised(checks.mean_and_std, lambda x, mean, std: (x - mean) / (std + 0.1)),
        ),
        ("your code stopped with AttributeError", probe_of_a_backbone),
    ],
    "patch_similarity": [
        (
            "your result does not change with `grid_size`, but it should",
            lambda tokens, grid, *place: patch_similarity(tokens, 2 * (int(len(tokens) ** 0.5),), *place),
        ),
        ("2 values were expected", lambda *given: patch_similarity(*given)[0]),
        (
            "each number is the square of what it should be",
            lambda *given: (patch_similarity(*given)[0].square(), patch_similarity(*given)[1]),
        ),
    ],
    "zero_shot": [
        ("the shape should be (1, 2)", lambda *given: zero_shot(*given).argmax(dim=1)),
        ("the shape should be (1, 2)", lambda *given: zero_shot(*given)[0]),
        ("expected\n  0.8241 0.1759", checks.shot_by(scores=lambda cosines, t: (cosines / t).sigmoid())),
    ],
}
RIGHT = {
    "nearest_neighbours": [neighbours_in_loops, neighbours_by_one_hot],
    "probe": [probe_in_parts, probe_in_portions, probe_as_one_batch],
    "patch_similarity": [similarity_step_by_step, similarity_as_matrix],
    "zero_shot": [shot_in_loops, shot_by_einsum],
}
