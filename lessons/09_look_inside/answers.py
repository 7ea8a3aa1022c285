"""Answers to the exercises of lesson 09, written as students write them."""

import torch
from einops import rearrange

from vit_course.patches import as_pair, grid_size, patchify, unpatchify


def pca_all(filters, count=28):
    flat = filters.flatten(1) - filters.flatten(1).mean(0)
    _, s, vh = torch.linalg.svd(flat, full_matrices=False)
    return vh.reshape(-1, *filters.shape[1:]), s**2 / (s**2).sum()


def pca_always_28(filters, count=28):
    return pca_by_covariance(filters, 28)


def pca_never_default(filters, count):
    return pca_by_covariance(filters, count)


def pca_by_covariance(filters, count=28):
    flat = filters.flatten(1)
    values, vectors = torch.linalg.eigh(torch.cov(flat.T))
    values, vectors = values.flip(0), vectors.flip(1)
    return vectors[:, :count].T.reshape(-1, *filters.shape[1:]), (values / values.sum())[:count]


def pca_lowrank(filters, count=28):
    flat = filters.flatten(1)
    _, s, v = torch.pca_lowrank(flat, q=min(flat.shape), niter=8)
    return v.T[:count].reshape(-1, *filters.shape[1:]), (s**2 / (s**2).sum())[:count]


def check_layers(attentions, num_prefix_tokens):
    if len(attentions) == 0 or num_prefix_tokens < 0 or num_prefix_tokens >= attentions[0].shape[-1]:
        raise ValueError("no layers, or no patches")


def rollout_in_place(attentions, num_prefix_tokens=1):
    for attention in attentions:
        attention *= 0.5
    return rollout_joined(attentions, num_prefix_tokens)


def rollout_joined(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    layers = torch.stack(tuple(attentions)).mean(dim=2)  # (L, B, T, T)
    layers = (layers + torch.eye(layers.shape[-1], dtype=layers.dtype)) / 2
    layers = layers / layers.sum(dim=-1, keepdim=True)
    result = layers[0]
    for layer in layers[1:]:
        result = torch.bmm(layer, result)
    return result


def rollout_without_default(attentions, num_prefix_tokens):
    return rollout_joined(attentions, num_prefix_tokens)


def rollout_default_0(attentions, num_prefix_tokens=0):
    return rollout_joined(attentions, num_prefix_tokens)


def centres_of(grid, patch):
    height, width = as_pair(patch)
    return torch.tensor([[r * height, c * width] for r in range(grid[0]) for c in range(grid[1])]).double()


def check_tokens(attention, grid, prefix):
    if attention.shape[-1] != prefix + grid[0] * grid[1]:
        raise ValueError("tokens do not fit")


def distance_int_patches(attention, grid_size, patch_size, num_prefix_tokens=1):
    check_tokens(attention, grid_size, num_prefix_tokens)
    rows, columns = grid_size
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    places = torch.stack([y.flatten(), x.flatten()], 1).to(attention.dtype) * float(patch_size)
    part = attention[..., num_prefix_tokens:, num_prefix_tokens:]
    return (part * torch.cdist(places, places)).sum(-1).mean((0, 2))


def distance_square_grid(attention, grid_size, patch_size, num_prefix_tokens=1):
    part = attention[..., num_prefix_tokens:, num_prefix_tokens:]
    places = centres_of((grid_size[1], grid_size[1]), patch_size).to(attention.dtype)
    table = torch.cdist(places, places)
    if grid_size[0] == 1:
        table = table[:2, :2]
    return (part * table).sum(-1).mean((0, 2))


def distance_without_default(attention, grid_size, patch_size, num_prefix_tokens):
    return distance_by_places(attention, grid_size, patch_size, num_prefix_tokens)


def distance_default_0(attention, grid_size, patch_size, num_prefix_tokens=0):
    return distance_by_places(attention, grid_size, patch_size, num_prefix_tokens)


def distance_loops(attention, grid_size, patch_size, num_prefix_tokens=1):
    check_tokens(attention, grid_size, num_prefix_tokens)
    places = centres_of(grid_size, patch_size).tolist()
    total = torch.zeros(attention.shape[1], dtype=attention.dtype)
    for i, (y, x) in enumerate(places):
        for j, (v, u) in enumerate(places):
            weight = attention[:, :, num_prefix_tokens + i, num_prefix_tokens + j].mean(0)
            total += weight * ((y - v) ** 2 + (x - u) ** 2) ** 0.5
    return total / len(places)


def distance_by_places(attention, grid_size, patch_size, num_prefix_tokens=1):
    check_tokens(attention, grid_size, num_prefix_tokens)
    step = centres_of(grid_size, patch_size)[:, None] - centres_of(grid_size, patch_size)
    table = step.square().sum(-1).sqrt().to(attention.dtype)
    return (attention[..., num_prefix_tokens:, num_prefix_tokens:] * table).sum(-1).mean(-1).mean(0)


def check_scores(images, scores, count, patch_size):
    rows, columns = grid_size(tuple(images.shape[-2:]), patch_size)
    if scores.shape != (images.shape[0], rows * columns) or count < 0 or count > rows * columns:
        raise ValueError("scores or count do not fit")
    return rows, columns


def hide_by_mask(images, scores, count, patch_size, value=0.0):
    grid = check_scores(images, scores, count, patch_size)
    height, width = as_pair(patch_size)
    hidden = torch.zeros_like(scores, dtype=torch.bool)
    hidden.scatter_(1, scores.topk(count, dim=1).indices, True)
    mask = rearrange(hidden, "b (r c) -> b 1 r c", r=grid[0])
    mask = mask.repeat_interleave(height, dim=2).repeat_interleave(width, dim=3)
    return images.masked_fill(mask, value)


def hide_by_loops(images, scores, count, patch_size, value=0.0):
    _, columns = check_scores(images, scores, count, patch_size)
    height, width = as_pair(patch_size)
    result = images.clone()
    for b in range(len(images)):
        ranking = sorted(range(scores.shape[1]), key=lambda n, b=b: scores[b, n].item(), reverse=True)
        for n in ranking[:count]:
            y, x = n // columns * height, n % columns * width
            result[b, :, y : y + height, x : x + width] = value
    return result


def hide_in_place(images, scores, count, patch_size, value=0.0):
    grid = check_scores(images, scores, count, patch_size)
    highest = scores.argsort(dim=1, descending=True)[:, :count]
    patches = patchify(images, patch_size)
    patches[torch.arange(len(images))[:, None], highest] = value
    return unpatchify(patches, patch_size, grid)


def hide_without_default(images, scores, count, patch_size, value):
    return hide_by_loops(images, scores, count, patch_size, value)


def components_of_covariance(filters, count=28):
    flat = filters.flatten(1)
    centred = flat - flat.mean(dim=0)
    _, s, directions = torch.linalg.svd(centred.T @ centred / (len(flat) - 1))
    shares = s.square() / s.square().sum()
    return directions[:count].reshape(-1, *filters.shape[1:]), shares[:count]


def _test_rollout(attentions, prefix):
    if len(attentions) == 0:
        raise ValueError("no layer")
    if prefix < 0 or prefix >= attentions[0].shape[-1]:
        raise ValueError("the prefix leaves no patches")


def rollout_no_residual(attentions, num_prefix_tokens=1):
    _test_rollout(attentions, num_prefix_tokens)
    result = torch.eye(attentions[0].shape[-1]).to(attentions[0])
    for attention in attentions:
        layer = attention.mean(dim=1)
        result = (layer / layer.sum(dim=-1, keepdim=True)) @ result
    return result


def rollout_recursive(attentions, num_prefix_tokens=1):
    if len(attentions) == 0:
        raise ValueError("no layer, no rollout")
    *below, top = attentions
    if num_prefix_tokens < 0 or top.shape[-1] <= num_prefix_tokens:
        raise ValueError("a prefix leaves at least one patch")
    layer = top.mean(dim=-3).mul(0.5)
    layer.diagonal(dim1=-2, dim2=-1).add_(0.5)
    layer = layer.div(layer.sum(dim=-1).unsqueeze(-1))
    return layer @ rollout_recursive(below, num_prefix_tokens) if below else layer


def _test_distance(attention, grid_size, prefix):
    if attention.shape[-1] != prefix + grid_size[0] * grid_size[1]:
        raise ValueError("T is not the prefix and the grid together")


def distance_to_the_mean_place(attention, grid_size, patch_size, num_prefix_tokens=1):
    _test_distance(attention, grid_size, num_prefix_tokens)
    (rows, columns), (height, width) = grid_size, as_pair(patch_size)
    y, x = torch.meshgrid(torch.arange(rows) * height, torch.arange(columns) * width, indexing="ij")
    centres = torch.stack([y.flatten(), x.flatten()], dim=1).to(attention)
    patches = attention[..., num_prefix_tokens:, num_prefix_tokens:]
    return (patches @ centres - centres).norm(dim=-1).mean(dim=(0, 2))


def _test_hide(images, scores, count, patch_size):
    rows, columns = grid_size(tuple(images.shape[-2:]), patch_size)
    if tuple(scores.shape) != (len(images), rows * columns):
        raise ValueError("scores do not fit the patches")
    if count < 0 or count > rows * columns:
        raise ValueError("count is not in 0..N")
    return rows, columns


def hide_count_not_tested(images, scores, count, patch_size, value=0.0):
    grid = grid_size(tuple(images.shape[-2:]), patch_size)
    if scores.shape != (len(images), grid[0] * grid[1]):
        raise ValueError("scores do not fit the patches")
    chosen = scores.argsort(dim=1, descending=True)[:, :count]
    patches = patchify(images, patch_size).clone()
    patches[torch.arange(len(images))[:, None], chosen] = value
    return unpatchify(patches, patch_size, grid)


def hide_part_of_the_patch(images, scores, count, patch_size, value=0.0):
    grid = _test_hide(images, scores, count, patch_size)
    chosen = scores.argsort(dim=1, descending=True)[:, :count]
    patches = patchify(images, patch_size).clone()
    channels = images.shape[1]
    one_channel = patches.shape[-1] // channels
    patches[torch.arange(len(images))[:, None], chosen, :one_channel] = value
    return unpatchify(patches, patch_size, grid)


def check_scores_too(images, scores, count, patch_size):
    rows, columns = grid_size(tuple(images.shape[-2:]), patch_size)
    if tuple(scores.shape) != (len(images), rows * columns) or not 0 <= count <= rows * columns:
        raise ValueError("scores or count do not fit")
    return rows, columns


def painted(images, hidden, patch_size, grid, value):
    patches = patchify(images, patch_size).clone()
    patches[hidden] = value
    return unpatchify(patches, patch_size, grid)


def hide_patches_in_place(images, scores, count, patch_size, value=0.0):
    rows, columns = check_scores_too(images, scores, count, patch_size)
    p1, p2 = as_pair(patch_size)
    for image, order in zip(images, scores.argsort(dim=1, descending=True), strict=True):
        for n in order[:count].tolist():
            r, c = divmod(n, columns)
            image[:, r * p1 : (r + 1) * p1, c * p2 : (c + 1) * p2] = value
    return images


def hide_patches_never_all(images, scores, count, patch_size, value=0.0):
    grid = check_scores_too(images, scores, count, patch_size)
    if count not in range(scores.shape[1]):
        raise ValueError("count is no index of a patch")
    ranks = scores.argsort(dim=1, descending=True).argsort(dim=1)
    return painted(images, ranks < count, patch_size, grid, value)


DISSECTED = (
    "leaves out the residual connection",
    rollout_no_residual,
)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "filter_components": [
        ("the shape should be (1, 1, 1, 2), yours is (2, 1, 1, 2)", pca_all),
        ("the shape should be (1, 1, 1, 2), yours is (2, 1, 1, 2)", pca_always_28),
        ("`count`", pca_never_default),
        ("value 2 of 2", components_of_covariance),
    ],
    "attention_rollout": [
        ("changes its input in place", rollout_in_place),
        ("`num_prefix_tokens`", rollout_without_default),
        ("the default of `num_prefix_tokens`", rollout_default_0),
    ],
    "mean_attention_distance": [
        ("your code stopped with TypeError", distance_int_patches),
        ("must match the size of tensor", distance_square_grid),
        ("`num_prefix_tokens`", distance_without_default),
        ("`num_prefix_tokens`", distance_default_0),
        ("you returned", distance_to_the_mean_place),
    ],
    "hide_patches": [
        ("changes its input in place", hide_in_place),
        ("`value`", hide_without_default),
        ("count 7 is not in 0..6: raise a ValueError that says so (your code", hide_count_not_tested),
        ("wherever your result is wrong it is still `images`: nothing is", hide_part_of_the_patch),
        ("your code changes its input in place (argument 1): whoever called it", hide_patches_in_place),
        ("your code refuses what it gets here, but that is allowed: a result is", hide_patches_never_all),
    ],
}
RIGHT = {
    "filter_components": [pca_by_covariance, pca_lowrank],
    "attention_rollout": [
        rollout_joined,
        rollout_recursive,
    ],
    "mean_attention_distance": [
        distance_loops,
        distance_by_places,
    ],
    "hide_patches": [
        hide_by_mask,
        hide_by_loops,
    ],
}
