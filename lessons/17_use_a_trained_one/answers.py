"""Answers to the exercises of lesson 17, written as students write them."""

import torch
import torch.nn.functional as F

from vit_course.beyond.use import fit_linear, nearest_neighbours, patch_similarity, probe, zero_shot


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


def neighbours_one_too_many(features, labels, queries, k=10, temperature=0.1):
    return nearest_neighbours(features, labels, queries, min(k + 1, len(features)), temperature)


def neighbours_of_many_classes(features, labels, queries, k=10, temperature=0.1):
    rows, votes = nearest_neighbours(features, labels, queries, k, temperature)
    return rows, F.pad(votes, (0, 10 - votes.shape[1]))


def neighbours_without_k(features, labels, queries):
    return nearest_neighbours(features, labels, queries)


def neighbours_as_winner(features, labels, queries, k=10, temperature=0.1):
    rows, votes = nearest_neighbours(features, labels, queries, k, temperature)
    return rows, votes.argmax(dim=1)


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


def probe_as_one_batch(encoder, images, labels, test_images, fit=fit_linear):
    mode = encoder.training
    encoder.train(False)
    with torch.inference_mode():
        both = encoder(torch.cat([images, test_images]))
    both = both.clone()
    encoder.train(mode)
    known, asked = both.split([len(images), len(test_images)])
    std, mean = torch.std_mean(known, dim=0)
    std = torch.where(std < 1e-6, torch.full_like(std, 1e-6), std)
    layer = fit((known - mean) / std, labels)
    return layer((asked - mean) / std)


def probe_without_layer(encoder, images, labels, test_images, fit=fit_linear):
    with torch.no_grad():
        mode = encoder.training
        encoder.eval()
        features = encoder(test_images)
        encoder(images)
        encoder.train(mode)
    return features[:, :3]


def probe_of_probabilities(encoder, *given):
    return probe(encoder, *given).softmax(dim=1)


def probe_with_small_addend(encoder, images, labels, test_images, fit=fit_linear):
    mode = encoder.training
    encoder.eval()
    with torch.no_grad():
        x, y = encoder(images), encoder(test_images)
    encoder.train(mode)
    return fit((x - x.mean(0)) / (x.std(0) + 0.1), labels)((y - x.mean(0)) / (x.std(0) + 0.1))


def probe_of_a_backbone(encoder, images, labels, test_images, fit=fit_linear):
    return probe(encoder.backbone, images, labels, test_images, fit)


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


def similarity_of_square_grids(tokens, grid_size, row, column):
    side = int(len(tokens) ** 0.5)
    return patch_similarity(tokens, (side, side), row, column)


def similarity_alone(tokens, grid_size, row, column):
    return patch_similarity(tokens, grid_size, row, column)[0]


def similarity_of_squares(tokens, grid_size, row, column):
    similarity, mask = patch_similarity(tokens, grid_size, row, column)
    return similarity.square(), mask


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


def shot_as_class(image_features, text_features, temperature=0.05):
    return zero_shot(image_features, text_features, temperature).argmax(dim=1)


def shot_of_first_picture(image_features, text_features, temperature=0.05):
    return zero_shot(image_features, text_features, temperature)[0]


def shot_with_sigmoid(image_features, text_features, temperature=0.05):
    classes = F.normalize(F.normalize(text_features, dim=-1).mean(dim=1), dim=-1)
    return (F.normalize(image_features, dim=-1) @ classes.T / temperature).sigmoid()


WRONG = {
    "nearest_neighbours": [
        ("the shape should be (1, 3)", neighbours_one_too_many),
        ("the shape should be (1, 3)", neighbours_of_many_classes),
        ("your code stopped with TypeError", neighbours_without_k),
        ("the shape should be (1, 3)", neighbours_as_winner),
    ],
    "probe": [
        ("call both", probe_without_layer),
        ("the scores are changed after the layer", probe_of_probabilities),
        ("gets other numbers than the standardised features", probe_with_small_addend),
        ("your code stopped with AttributeError", probe_of_a_backbone),
    ],
    "patch_similarity": [
        ("", similarity_of_square_grids),
        ("2 values were expected", similarity_alone),
        ("", similarity_of_squares),
    ],
    "zero_shot": [
        ("the shape should be (1, 2)", shot_as_class),
        ("the shape should be (1, 2)", shot_of_first_picture),
        ("", shot_with_sigmoid),
    ],
}
RIGHT = {
    "nearest_neighbours": [neighbours_in_loops, neighbours_by_one_hot],
    "probe": [probe_in_parts, probe_as_one_batch],
    "patch_similarity": [similarity_step_by_step, similarity_as_matrix],
    "zero_shot": [shot_in_loops, shot_by_einsum],
}
