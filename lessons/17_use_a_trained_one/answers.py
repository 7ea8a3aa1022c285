"""Answers to the exercises of lesson 17, written as students write them."""

import copy

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_classroom.checks.edits import edited
from vit_course.inference import fit_linear, nearest_neighbours, patch_labels, probe, segment, zero_shot


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


def labels_in_loops(masks, grid_size):
    rows, columns = grid_size
    height, width = masks.shape[1] // rows, masks.shape[2] // columns
    found = torch.zeros(len(masks), rows * columns, dtype=torch.int64)
    for b, mask in enumerate(masks):
        for i in range(rows * columns):
            y, x = i // columns * height, i % columns * width
            found[b, i] = mask[y : y + height, x : x + width].reshape(-1).bincount().argmax()
    return found


def labels_by_mode(masks, grid_size):
    rows, columns = grid_size
    patches = rearrange(masks, "b (r p) (c q) -> b (r c) (p q)", r=rows, c=columns)
    return patches.mode(dim=-1).values


def labels_by_counts(masks, grid_size):
    patches = rearrange(masks, "b (r p) (c q) -> b (r c) (p q)", r=grid_size[0], c=grid_size[1])
    return F.one_hot(patches).sum(dim=2).argmax(dim=-1)


def segment_by_rearrange(layer, tokens, grid_size, img_size):
    rows, columns = grid_size
    patches = tokens[:, tokens.shape[1] - rows * columns :]
    grid = rearrange(layer(patches), "b (r c) k -> b k r c", r=rows)
    return F.interpolate(grid, size=img_size, mode="bilinear", align_corners=False)


def segment_of_enlarged_tokens(layer, tokens, grid_size, img_size):
    """A linear layer and a weighted mean may change places."""
    rows, columns = grid_size
    grid = tokens[:, -rows * columns :].permute(0, 2, 1).unflatten(2, (rows, columns))
    pixels = F.interpolate(grid, img_size, mode="bilinear").permute(0, 2, 3, 1)
    return layer(pixels).permute(0, 3, 1, 2)


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
            "call the `fit` that is given",
            lambda encoder, x, y, asked, fit=None: probe(encoder, x, y, asked, lambda *_: lambda z: z[:, :3]),
        ),
        ("the encoder takes a batch", lambda encoder, x, *rest: probe(encoder, x[0], *rest)),
        (
            "the layer that `fit` returns is never called",
            lambda e, x, y, z, fit=None: probe(e, x, y, z, lambda *both: (fit(*both), torch.clone)[1]),
        ),
        ("the scores are changed after the layer", lambda *given: probe(*given).softmax(dim=1)),
        (
            "changes its input in place",
            edited(
                probe,
                "(features - mean) / std => features.sub_(mean).div_(std) ;; "
                "(queries - mean) / std => queries.sub_(mean).div_(std)",
            ),
        ),
        (
            "`fit` takes the features first",
            lambda e, x, y, z, fit=None: probe(e, x, y, z, lambda a, b: fit(b, a)),
        ),
        (
            "gets other numbers than the standardised features",
            edited(probe, "clamp(min=1e-6) => clamp(min=1e-6) + 0.1"),
        ),
        ("your code stopped with AttributeError", probe_of_a_backbone),
    ],
    "patch_labels": [
        ("the shape should be", lambda masks, grid: patch_labels(masks, grid).unflatten(1, grid)),
        ("should be", lambda masks, grid: patch_labels(masks, grid).float()),
    ],
    "segment": [
        ("every number is twice what it should be", lambda *given: 2 * segment(*given)),
        ("expected\n  -2.863 -2.297", edited(segment, ".mT =>")),
        ("the shape should be", edited(segment, "img_size, mode => img_size[::-1], mode")),
    ],
    "zero_shot": [
        ("the shape should be (1, 2)", lambda *given: zero_shot(*given).argmax(dim=1)),
        ("the shape should be (1, 2)", lambda *given: zero_shot(*given)[0]),
        ("expected\n  0.8241 0.1759", edited(zero_shot, "softmax(dim=-1) => sigmoid()")),
    ],
}
RIGHT = {
    "nearest_neighbours": [neighbours_in_loops, neighbours_by_one_hot],
    "probe": [probe_in_parts, probe_in_portions, probe_as_one_batch],
    "patch_labels": [labels_in_loops, labels_by_mode, labels_by_counts],
    "segment": [segment_by_rearrange, segment_of_enlarged_tokens],
    "zero_shot": [shot_in_loops, shot_by_einsum],
}
