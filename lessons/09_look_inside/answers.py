"""Answers to the exercises of lesson 09, written as students write them."""

import numpy as np
import torch
from einops import einsum, rearrange, repeat

from vit_course.patches import as_pair, grid_size, patchify, unpatchify


def pca_not_centred(filters, count=28):
    _, s, vh = torch.linalg.svd(filters.flatten(1), full_matrices=False)
    return vh[:count].reshape(-1, *filters.shape[1:]), (s**2 / (s**2).sum())[:count]


def pca_centred_per_filter(filters, count=28):
    flat = filters.flatten(1)
    flat = flat - flat.mean(1, keepdim=True)
    _, s, vh = torch.linalg.svd(flat, full_matrices=False)
    return vh[:count].reshape(-1, *filters.shape[1:]), (s**2 / (s**2).sum())[:count]


def pca_standardised(filters, count=28):
    flat = filters.flatten(1)
    flat = (flat - flat.mean(0)) / flat.std(0)
    _, s, vh = torch.linalg.svd(flat, full_matrices=False)
    return vh[:count].reshape(-1, *filters.shape[1:]), (s**2 / (s**2).sum())[:count]


def pca_not_squared(filters, count=28):
    flat = filters.flatten(1) - filters.flatten(1).mean(0)
    _, s, vh = torch.linalg.svd(flat, full_matrices=False)
    return vh[:count].reshape(-1, *filters.shape[1:]), (s / s.sum())[:count]


def pca_shares_of_the_chosen(filters, count=28):
    flat = filters.flatten(1) - filters.flatten(1).mean(0)
    _, s, vh = torch.linalg.svd(flat, full_matrices=False)
    variance = s[:count] ** 2
    return vh[:count].reshape(-1, *filters.shape[1:]), variance / variance.sum()


def pca_variances(filters, count=28):
    flat = filters.flatten(1) - filters.flatten(1).mean(0)
    _, s, vh = torch.linalg.svd(flat, full_matrices=False)
    return vh[:count].reshape(-1, *filters.shape[1:]), s[:count] ** 2


def pca_weakest_first(filters, count=28):
    flat = filters.flatten(1)
    values, vectors = torch.linalg.eigh(torch.cov(flat.T))
    return vectors.T[:count].reshape(-1, *filters.shape[1:]), (values / values.sum())[:count]


def pca_columns(filters, count=28):
    flat = filters.flatten(1) - filters.flatten(1).mean(0)
    _, s, v = torch.linalg.svd(flat, full_matrices=False)
    return v.T[:count].reshape(-1, *filters.shape[1:]), (s**2 / (s**2).sum())[:count]


def pca_stretched(filters, count=28):
    flat = filters.flatten(1) - filters.flatten(1).mean(0)
    _, s, vh = torch.linalg.svd(flat, full_matrices=False)
    return (torch.diag(s) @ vh)[:count].reshape(-1, *filters.shape[1:]), (s**2 / (s**2).sum())[:count]


def pca_flat(filters, count=28):
    flat = filters.flatten(1) - filters.flatten(1).mean(0)
    _, s, vh = torch.linalg.svd(flat, full_matrices=False)
    return vh[:count], (s**2 / (s**2).sum())[:count]


def pca_all(filters, count=28):
    flat = filters.flatten(1) - filters.flatten(1).mean(0)
    _, s, vh = torch.linalg.svd(flat, full_matrices=False)
    return vh.reshape(-1, *filters.shape[1:]), s**2 / (s**2).sum()


def pca_components_alone(filters, count=28):
    flat = filters.flatten(1) - filters.flatten(1).mean(0)
    return torch.linalg.svd(flat, full_matrices=False)[2][:count].reshape(-1, *filters.shape[1:])


def pca_percent(filters, count=28):
    components, shares = pca_by_covariance(filters, count)
    return components, 100 * shares


def pca_left(filters, count=28):
    flat = filters.flatten(1) - filters.flatten(1).mean(0)
    u, s, vh = torch.linalg.svd(flat, full_matrices=False)
    return u[:count].reshape(-1, *filters.shape[1:]), (s**2 / (s**2).sum())[:count]


def pca_eigen_rows(filters, count=28):
    values, vectors = torch.linalg.eigh(torch.cov(filters.flatten(1).T))
    order = values.argsort(descending=True)[:count]
    return vectors[order].reshape(-1, *filters.shape[1:]), (values / values.sum())[order]


def pca_eigen_not_turned(filters, count=28):
    values, vectors = torch.linalg.eigh(torch.cov(filters.flatten(1).T))
    order = values.argsort(descending=True)[:count]
    return vectors[:, order].reshape(count, *filters.shape[1:]), (values / values.sum())[order]


def pca_first_columns_of_vh(filters, count=28):
    flat = filters.flatten(1) - filters.flatten(1).mean(0)
    _, s, vh = torch.linalg.svd(flat, full_matrices=False)
    return vh[:, :count].reshape(count, *filters.shape[1:]), (s**2 / (s**2).sum())[:count]


def pca_strongest_last(filters, count=28):
    values, vectors = torch.linalg.eigh(torch.cov(filters.flatten(1).T))
    return vectors[:, -count:].T.reshape(-1, *filters.shape[1:]), (values / values.sum())[-count:]


def pca_pixels_first(filters, count=28):
    components, shares = pca_by_covariance(rearrange(filters, "d c p q -> d p q c"), count)
    return components.reshape(-1, *filters.shape[1:]), shares


def pca_explained_variance(filters, count=28):
    flat = filters.flatten(1) - filters.flatten(1).mean(0)
    _, s, vh = torch.linalg.svd(flat, full_matrices=False)
    return vh[:count].reshape(-1, *filters.shape[1:]), (s**2 / (len(filters) - 1))[:count]


def pca_largest_is_one(filters, count=28):
    components, shares = pca_by_covariance(filters, count)
    return components / components.abs().amax(dim=(1, 2, 3), keepdim=True), shares


def pca_never_default(filters, count):
    return pca_by_covariance(filters, count)


def pca_always_28(filters, count=28):
    return pca_by_covariance(filters, 28)


def pca_by_covariance(filters, count=28):
    flat = filters.flatten(1)
    values, vectors = torch.linalg.eigh(torch.cov(flat.T))
    values, vectors = values.flip(0), vectors.flip(1)
    return vectors[:, :count].T.reshape(-1, *filters.shape[1:]), (values / values.sum())[:count]


def pca_numpy(filters, count=28):
    flat = rearrange(filters, "d c p q -> d (c p q)").numpy()
    flat = flat - flat.mean(axis=0, keepdims=True)
    _, s, vh = np.linalg.svd(flat)
    shares = s**2 / (s**2).sum()
    components = -torch.from_numpy(vh[:count].copy())
    return components.view(count, *filters.shape[1:]), torch.from_numpy(shares[:count])


def pca_lowrank(filters, count=28):
    flat = filters.flatten(1)
    _, s, v = torch.pca_lowrank(flat, q=min(flat.shape), niter=8)
    return v.T[:count].reshape(-1, *filters.shape[1:]), (s**2 / (s**2).sum())[:count]


def check_layers(attentions, num_prefix_tokens):
    if len(attentions) == 0 or num_prefix_tokens < 0 or num_prefix_tokens >= attentions[0].shape[-1]:
        raise ValueError("no layers, or no patches")


def rollout_with(heads, mix, multiply):
    def rollout(attentions, num_prefix_tokens=1):
        check_layers(attentions, num_prefix_tokens)
        result = torch.eye(attentions[0].shape[-1], dtype=attentions[0].dtype)
        for attention in attentions:
            layer = mix(heads(attention), torch.eye(attention.shape[-1], dtype=attention.dtype))
            result = multiply(layer, result)
        return result

    return rollout


def mean_heads(attention):
    return attention.mean(1)


def halves(layer, identity):
    layer = 0.5 * layer + 0.5 * identity
    return layer / layer.sum(-1, keepdim=True)


def after(layer, result):
    return layer @ result


def rollout_no_keepdim(attentions, num_prefix_tokens=1):
    result = torch.eye(attentions[0].shape[-1])
    for attention in attentions:
        layer = attention.mean(1) + torch.eye(attention.shape[-1])
        layer = layer / layer.sum(-1)
        result = layer @ result
    return result


def rollout_starts_with_last(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    layers = [halves(a.mean(1), torch.eye(a.shape[-1], dtype=a.dtype)) for a in attentions]
    result = layers[-1]
    for layer in layers[-2::-1]:
        result = layer @ result
    return result


def rollout_first_image(attentions, num_prefix_tokens=1):
    return rollout_joined(attentions, num_prefix_tokens)[0]


def rollout_row_of_cls(attentions, num_prefix_tokens=1):
    return rollout_joined(attentions, num_prefix_tokens)[:, 0, num_prefix_tokens:]


def rollout_patches(attentions, num_prefix_tokens=1):
    return rollout_joined(attentions, num_prefix_tokens)[:, num_prefix_tokens:, num_prefix_tokens:]


def rollout_forgets_first(attentions, num_prefix_tokens=1):
    return rollout_joined(attentions[1:], num_prefix_tokens)


def rollout_last_layer(attentions, num_prefix_tokens=1):
    return rollout_joined(attentions[-1:], num_prefix_tokens)


def rollout_in_place(attentions, num_prefix_tokens=1):
    for attention in attentions:
        attention *= 0.5
    return rollout_joined(attentions, num_prefix_tokens)


def rollout_no_errors(attentions, num_prefix_tokens=1):
    result = None
    for attention in attentions:
        layer = halves(attention.mean(1), torch.eye(attention.shape[-1], dtype=attention.dtype))
        result = layer if result is None else layer @ result
    return result


def rollout_any_prefix(attentions, num_prefix_tokens=1):
    if not attentions:
        raise ValueError("no layers")
    return rollout_no_errors(attentions)


def rollout_not_renormalised(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    result = torch.eye(attentions[0].shape[-1], dtype=attentions[0].dtype)
    for attention in attentions:
        result = (
            0.5 * attention.mean(1) + 0.5 * torch.eye(attention.shape[-1], dtype=attention.dtype)
        ) @ result
    return result


def rollout_joined(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    layers = torch.stack(tuple(attentions)).mean(dim=2)  # (L, B, T, T)
    layers = (layers + torch.eye(layers.shape[-1], dtype=layers.dtype)) / 2
    layers = layers / layers.sum(dim=-1, keepdim=True)
    result = layers[0]
    for layer in layers[1:]:
        result = torch.bmm(layer, result)
    return result


def rollout_from_the_last(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    result = None
    for attention in reversed(attentions):
        layer = attention.mean(1)
        layer = 0.5 * layer
        layer.diagonal(dim1=-2, dim2=-1).add_(0.5)
        layer = layer / layer.sum(-1)[..., None]
        result = layer if result is None else einsum(result, layer, "b i j, b j k -> b i k")
    return result


def rollout_without_halves(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    return rollout_with(mean_heads, lambda a, eye: (a + eye) / (a + eye).sum(-1, keepdim=True), after)(
        attentions
    )


def rollout_pops(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    result = None
    while attentions:
        attention = attentions.pop(0)
        layer = halves(attention.mean(1), torch.eye(attention.shape[-1], dtype=attention.dtype))
        result = layer if result is None else layer @ result
    return result


def rollout_reverses(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    attentions.reverse()
    result = torch.eye(attentions[0].shape[-1], dtype=attentions[0].dtype)
    for attention in attentions:
        result = result @ halves(attention.mean(1), torch.eye(attention.shape[-1], dtype=attention.dtype))
    return result


def rollout_fills_the_list(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    for i, attention in enumerate(attentions):
        attentions[i] = halves(attention.mean(1), torch.eye(attention.shape[-1], dtype=attention.dtype))
    result = attentions[0]
    for layer in attentions[1:]:
        result = layer @ result
    return result


def rollout_without_default(attentions, num_prefix_tokens):
    return rollout_joined(attentions, num_prefix_tokens)


def rollout_default_0(attentions, num_prefix_tokens=0):
    return rollout_joined(attentions, num_prefix_tokens)


def rollout_zeros(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    result = torch.zeros_like(attentions[0][:, 0])
    for attention in attentions:
        result = halves(attention.mean(1), torch.eye(attention.shape[-1], dtype=attention.dtype)) @ result
    return result


def rollout_raw_first(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    result = attentions[0].mean(1)
    for attention in attentions[1:]:
        result = halves(attention.mean(1), torch.eye(attention.shape[-1], dtype=attention.dtype)) @ result
    return result


def rollout_of_each_head(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    result = torch.eye(attentions[0].shape[-1], dtype=attentions[0].dtype)
    for attention in attentions:
        result = halves(attention, torch.eye(attention.shape[-1], dtype=attention.dtype)) @ result
    return result.mean(1)


def rollout_loops(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    results = []
    for picture in range(len(attentions[0])):
        result = torch.eye(attentions[0].shape[-1], dtype=attentions[0].dtype)
        for attention in attentions:
            layer = sum(attention[picture]) / attention.shape[1]
            result = halves(layer, torch.eye(layer.shape[-1], dtype=layer.dtype)) @ result
        results.append(result)
    return torch.stack(results)


def centres_of(grid, patch):
    height, width = as_pair(patch)
    return torch.tensor([[r * height, c * width] for r in range(grid[0]) for c in range(grid[1])]).double()


def check_tokens(attention, grid, prefix):
    if attention.shape[-1] != prefix + grid[0] * grid[1]:
        raise ValueError("tokens do not fit")


def distance_with(
    weights=lambda a, p: a[..., p:, p:], measure=None, reduce=lambda x: x.sum(-1).mean(-1).mean(0)
):
    def mean_distance(attention, grid_size, patch_size, num_prefix_tokens=1):
        check_tokens(attention, grid_size, num_prefix_tokens)
        places = centres_of(grid_size, patch_size)
        step = places[:, None] - places[None]
        table = (measure or (lambda d: d.square().sum(-1).sqrt()))(step).to(attention.dtype)
        return reduce(weights(attention, num_prefix_tokens) * table)

    return mean_distance


def distance_renormalised(attention, grid_size, patch_size, num_prefix_tokens=1):
    part = attention[..., num_prefix_tokens:, num_prefix_tokens:]
    part = part / part.sum(-1, keepdim=True)
    places = centres_of(grid_size, patch_size).to(attention.dtype)
    return (part * torch.cdist(places, places)).sum(-1).mean((0, 2))


def distance_in_patches(attention, grid_size, patch_size, num_prefix_tokens=1):
    return distance_with()(attention, grid_size, 1, num_prefix_tokens)


def distance_pair_swapped(attention, grid_size, patch_size, num_prefix_tokens=1):
    return distance_with()(attention, grid_size, as_pair(patch_size)[::-1], num_prefix_tokens)


def distance_square_patches(attention, grid_size, patch_size, num_prefix_tokens=1):
    side = patch_size if isinstance(patch_size, int) else patch_size[0]
    return distance_with()(attention, grid_size, side, num_prefix_tokens)


def distance_int_patches(attention, grid_size, patch_size, num_prefix_tokens=1):
    check_tokens(attention, grid_size, num_prefix_tokens)
    rows, columns = grid_size
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    places = torch.stack([y.flatten(), x.flatten()], 1).to(attention.dtype) * float(patch_size)
    part = attention[..., num_prefix_tokens:, num_prefix_tokens:]
    return (part * torch.cdist(places, places)).sum(-1).mean((0, 2))


def distance_grid_swapped(attention, grid_size, patch_size, num_prefix_tokens=1):
    return distance_with()(attention, grid_size[::-1], patch_size, num_prefix_tokens)


def distance_one_prefix(attention, grid_size, patch_size, num_prefix_tokens=1):
    places = centres_of(grid_size, patch_size).to(attention.dtype)
    return (attention[..., 1:, 1:] * torch.cdist(places, places)).sum(-1).mean((0, 2))


def distance_prefix_queries(attention, grid_size, patch_size, num_prefix_tokens=1):
    check_tokens(attention, grid_size, num_prefix_tokens)
    places = centres_of(grid_size, patch_size).to(attention.dtype)
    table = torch.zeros(attention.shape[-2:], dtype=attention.dtype)
    table[num_prefix_tokens:, num_prefix_tokens:] = torch.cdist(places, places)
    return (attention * table).sum(-1).mean((0, 2))


def distance_no_error(attention, grid_size, patch_size, num_prefix_tokens=1):
    rows, columns = grid_size
    part = attention[..., -rows * columns :, -rows * columns :]
    places = centres_of(grid_size, patch_size).to(attention.dtype)[: part.shape[-1]]
    return (part * torch.cdist(places, places)).sum(-1).mean((0, 2))


def distance_column_by_column(attention, grid_size, patch_size, num_prefix_tokens=1):
    check_tokens(attention, grid_size, num_prefix_tokens)
    height, width = as_pair(patch_size)
    y, x = torch.meshgrid(
        torch.arange(grid_size[0]) * height, torch.arange(grid_size[1]) * width, indexing="xy"
    )
    places = torch.stack([y.flatten(), x.flatten()], 1).to(attention.dtype)
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
    return distance_with()(attention, grid_size, patch_size, num_prefix_tokens)


def distance_default_0(attention, grid_size, patch_size, num_prefix_tokens=0):
    return distance_with()(attention, grid_size, patch_size, num_prefix_tokens)


def distance_loops(attention, grid_size, patch_size, num_prefix_tokens=1):
    check_tokens(attention, grid_size, num_prefix_tokens)
    places = centres_of(grid_size, patch_size).tolist()
    total = torch.zeros(attention.shape[1], dtype=attention.dtype)
    for i, (y, x) in enumerate(places):
        for j, (v, u) in enumerate(places):
            weight = attention[:, :, num_prefix_tokens + i, num_prefix_tokens + j].mean(0)
            total += weight * ((y - v) ** 2 + (x - u) ** 2) ** 0.5
    return total / len(places)


def distance_einsum(attention, grid_size, patch_size, num_prefix_tokens=1):
    rows, columns = grid_size
    if num_prefix_tokens + rows * columns != attention.size(-1):
        raise ValueError("does not fit")
    height, width = as_pair(patch_size)
    y = repeat(torch.arange(rows) * height + height / 2, "r -> (r c)", c=columns)
    x = repeat(torch.arange(columns) * width + width / 2, "c -> (r c)", r=rows)
    table = torch.hypot(y[:, None] - y, x[:, None] - x).to(attention)
    part = attention[:, :, num_prefix_tokens:, num_prefix_tokens:]
    return einsum(part, table, "b h i j, i j -> h") / (attention.shape[0] * rows * columns)


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


def hide_by_rank(images, scores, count, patch_size, value=0.0):
    grid = check_scores(images, scores, count, patch_size)
    rank = scores.argsort(1, descending=True).argsort(1)
    patches = torch.where(rank[..., None] < count, value, patchify(images, patch_size)).to(images.dtype)
    return unpatchify(patches, patch_size, grid)


def hide_lowest(images, scores, count, patch_size, value=0.0):
    return hide_by_loops(images, -scores, count, patch_size, value)


def hide_keeps_highest(images, scores, count, patch_size, value=0.0):
    return hide_by_loops(images, -scores, scores.shape[1] - count, patch_size, value)


def hide_same_for_all(images, scores, count, patch_size, value=0.0):
    highest = scores[0].argsort(descending=True)[:count]
    patches = patchify(images, patch_size).clone()
    patches[:, highest] = value
    return unpatchify(patches, patch_size, grid_size(tuple(images.shape[-2:]), patch_size))


def hide_from_the_end(images, scores, count, patch_size, value=0.0):
    grid = check_scores(images, scores, count, patch_size)
    patches = patchify(images, patch_size).clone()
    highest = scores.argsort(dim=1)[:, -count:]
    patches[torch.arange(len(images))[:, None], highest] = value
    return unpatchify(patches, patch_size, grid)


def hide_in_place(images, scores, count, patch_size, value=0.0):
    grid = check_scores(images, scores, count, patch_size)
    highest = scores.argsort(dim=1, descending=True)[:, :count]
    patches = patchify(images, patch_size)
    patches[torch.arange(len(images))[:, None], highest] = value
    return unpatchify(patches, patch_size, grid)


def hide_with_zero(images, scores, count, patch_size, value=0.0):
    return hide_by_loops(images, scores, count, patch_size)


def hide_all_patches_of_all(images, scores, count, patch_size, value=0.0):
    """Index both axes with the same highest: the patches chosen for one picture are hidden in all."""
    patches = patchify(images, patch_size).clone()
    patches[:, scores.argsort(dim=1, descending=True)[:, :count]] = value
    return unpatchify(patches, patch_size, grid_size(tuple(images.shape[-2:]), patch_size))


def hide_column_by_column(images, scores, count, patch_size, value=0.0):
    rows, columns = check_scores(images, scores, count, patch_size)
    return hide_by_loops(images, rearrange(scores, "b (c r) -> b (r c)", r=rows), count, patch_size, value)


def hide_first_channel(images, scores, count, patch_size, value=0.0):
    _, columns = check_scores(images, scores, count, patch_size)
    height, width = as_pair(patch_size)
    result = images.clone()
    for b, highest in enumerate(scores.argsort(dim=1, descending=True)[:, :count].tolist()):
        for n in highest:
            y, x = n // columns * height, n % columns * width
            result[b, 0, y : y + height, x : x + width] = value
    return result


def hide_returns_patches(images, scores, count, patch_size, value=0.0):
    return patchify(hide_by_loops(images, scores, count, patch_size, value), patch_size)


def hide_no_errors(images, scores, count, patch_size, value=0.0):
    highest = scores.argsort(dim=1, descending=True)[:, :count].tolist()
    columns = images.shape[-1] // as_pair(patch_size)[1]
    height, width = as_pair(patch_size)
    result = images.clone()
    for b, chosen in enumerate(highest):
        for n in chosen:
            y, x = n // columns * height, n % columns * width
            result[b, :, y : y + height, x : x + width] = value
    return result


def hide_by_threshold(images, scores, count, patch_size, value=0.0):
    grid = check_scores(images, scores, count, patch_size)
    patches = patchify(images, patch_size).clone()
    if count:
        patches[scores >= scores.sort(dim=1, descending=True).values[:, count - 1 : count]] = value
    return unpatchify(patches, patch_size, grid)


def hide_highest_of_all(images, scores, count, patch_size, value=0.0):
    grid = check_scores(images, scores, count, patch_size)
    patches = patchify(images, patch_size).clone()
    highest = scores.flatten().topk(count * len(images)).indices
    patches[highest // scores.shape[1], highest % scores.shape[1]] = value
    return unpatchify(patches, patch_size, grid)


def hide_by_size(images, scores, count, patch_size, value=0.0):
    return hide_by_loops(images, scores.abs(), count, patch_size, value)


def hide_order_as_rank(images, scores, count, patch_size, value=0.0):
    grid = check_scores(images, scores, count, patch_size)
    patches = patchify(images, patch_size).clone()
    patches[scores.argsort(dim=1, descending=True) < count] = value
    return unpatchify(patches, patch_size, grid)


def hide_in_pairs(images, scores, count, patch_size, value=0.0):
    grid = check_scores(images, scores, count, patch_size)
    patches = patchify(images, patch_size).clone()
    patches[torch.arange(len(images)), scores.argsort(dim=1, descending=True)[:, :count]] = value
    return unpatchify(patches, patch_size, grid)


def hide_in_first_picture(images, scores, count, patch_size, value=0.0):
    hidden = hide_by_loops(images, scores, count, patch_size, value)
    hidden[1:] = images[1:]
    return hidden


def hide_by_mean_scores(images, scores, count, patch_size, value=0.0):
    check_scores(images, scores, count, patch_size)
    return hide_by_loops(images, scores.mean(0, keepdim=True).expand_as(scores), count, patch_size, value)


def hide_without_default(images, scores, count, patch_size, value):
    return hide_by_loops(images, scores, count, patch_size, value)


def hide_by_scatter(images, scores, count, patch_size, value=0.0):
    grid = check_scores(images, scores, count, patch_size)
    patches = patchify(images, patch_size)
    highest = repeat(scores.topk(count, dim=1).indices, "b n -> b n d", d=patches.shape[-1])
    return unpatchify(patches.scatter(1, highest, value), patch_size, grid)


def hide_nothing_hands_back(images, scores, count, patch_size, value=0.0):
    check_scores(images, scores, count, patch_size)
    return images if count == 0 else hide_by_loops(images, scores, count, patch_size, value)


WRONG = {
    "filter_components": [
        ("the mean filter is not subtracted", pca_not_centred),
        ("from each filter the mean of its own numbers", pca_centred_per_filter),
        ("you divide by the deviation", pca_standardised),
        ("the variance is their *square*", pca_not_squared),
        ("so they sum to 1 for every count", pca_shares_of_the_chosen),
        ("your shares are variances", pca_variances),
        ("`eigh` sorts upwards", pca_weakest_first),
        ("returns V already transposed", pca_columns),
        ("stretched by the singular values", pca_stretched),
        ("components are still flat", pca_flat),
        ("the components alone", pca_components_alone),
        ("your shares are percent", pca_percent),
        ("the shape should be (1, 1, 1, 2), yours is (2, 1, 1, 2)", pca_all),
        ("the shape should be (1, 1, 1, 2), yours is (2, 1, 1, 2)", pca_always_28),
        ("the first result of the decomposition, U", pca_left),
        ("cut in the wrong direction", pca_eigen_rows),
        ("cut in the wrong direction", pca_eigen_not_turned),
        ("cut in the wrong direction", pca_first_columns_of_vh),
        ("your strongest component comes last", pca_strongest_last),
        ("you flatten in one order and go back in another", pca_pixels_first),
        ("your shares are variances", pca_explained_variance),
        ("the largest number of your components is 1", pca_largest_is_one),
        ("without `count` your function should return 28", pca_never_default),
    ],
    "attention_rollout": [
        (
            "multiplied in the wrong order",
            rollout_with(mean_heads, halves, lambda layer, result: result @ layer),
        ),
        ("multiplied in the wrong order", rollout_starts_with_last),
        ("the residual connection is missing", rollout_with(mean_heads, lambda a, eye: a, after)),
        ("the rows sum to 2 in each layer", rollout_with(mean_heads, lambda a, eye: a + eye, after)),
        ("you follow head 0 alone", rollout_with(lambda a: a[:, 0], halves, after)),
        ("the largest weight over the heads", rollout_with(lambda a: a.max(1).values, halves, after)),
        ("counts too little", rollout_with(lambda a: a.sum(1), halves, after)),
        ("need a matrix product", rollout_with(mean_heads, halves, torch.mul)),
        ("keep their axis: `sum(dim=-1, keepdim=True)`", rollout_no_keepdim),
        ("the first picture alone", rollout_first_image),
        ("row of CLS over the patches", rollout_row_of_cls),
        ("you cut off the prefix", rollout_patches),
        ("the first layer is left out", rollout_forgets_first),
        ("you use the last layer alone", rollout_last_layer),
        ("average over the pictures, axis 0", rollout_with(lambda a: a.mean(0), halves, after)),
        ("changes its input in place", rollout_in_place),
        ("a list without a layer", rollout_no_errors),
        ("3 prefix tokens of 3 make no sense", rollout_any_prefix),
        ("Where it does not, as after dropout", rollout_not_renormalised),
        ("changes the list of layers", rollout_pops),
        ("changes the list of layers", rollout_reverses),
        ("changes the list of layers", rollout_fills_the_list),
        ("keep the default of the signature", rollout_without_default),
        ("so a single token leaves no patches", rollout_default_0),
        ("a product that begins with zeros stays 0", rollout_zeros),
        ("layer 1 is taken as it is", rollout_raw_first),
        ("average the heads of each layer first", rollout_of_each_head),
        ("you follow the last head alone", rollout_with(lambda a: a[:, -1], halves, after)),
        ("average over axis 1", rollout_with(lambda a: a.mean(2), halves, after)),
    ],
    "mean_attention_distance": [
        ("the authors do not", distance_renormalised),
        ("your distances are in patches", distance_in_patches),
        ("height and width of the patch are swapped", distance_pair_swapped),
        ("you use the height of a patch for both", distance_square_patches),
        ("your code stopped with TypeError", distance_int_patches),
        ("rows and columns of the grid are swapped", distance_grid_swapped),
        ("your distances are squared", distance_with(measure=lambda d: d.square().sum(-1))),
        ("the steps down and across; the straight", distance_with(measure=lambda d: d.abs().sum(-1))),
        ("you take the larger of the steps", distance_with(measure=lambda d: d.abs().amax(-1))),
        ("drop one token whatever the prefix", distance_one_prefix),
        ("the prefix is among the queries", distance_prefix_queries),
        ("so *sum* over them", distance_with(reduce=lambda x: x.mean((0, 2, 3)))),
        ("you sum over the queries", distance_with(reduce=lambda x: x.sum((2, 3)).mean(0))),
        ("average over the heads too", distance_with(reduce=lambda x: x.sum(-1).mean())),
        ("average over the pictures too", distance_with(reduce=lambda x: x.sum(-1).mean(-1))),
        ("you use the first picture alone", distance_with(reduce=lambda x: x.sum(-1).mean(-1)[0])),
        ("7 tokens are not 0 prefix + 2x3 patches = 6", distance_no_error),
        ("`torch.meshgrid` needs indexing='ij'", distance_column_by_column),
        ("a grid of 3x2 your code stopped with RuntimeError", distance_square_grid),
        ("The slice `[:-0]` is empty", distance_with(weights=lambda a, p: a[..., :-p, :-p])),
        ("the steps down alone", distance_with(measure=lambda d: d[..., 0].abs())),
        ("the steps across alone", distance_with(measure=lambda d: d[..., 1].abs())),
        ("you return one number", distance_with(reduce=lambda x: x.mean())),
        ("over the queries and the pictures", distance_with(reduce=lambda x: x.sum((0, 2, 3)))),
        ("keep the default of the signature", distance_without_default),
        ("keep the default of the signature", distance_default_0),
    ],
    "hide_patches": [
        ("the patches with the *lowest* scores", hide_lowest),
        ("you keep the highest patches", hide_keeps_highest),
        ("every picture loses the patches of the first one", hide_same_for_all),
        ("a slice that starts at -0 is the whole axis", hide_from_the_end),
        ("changes its input in place", hide_in_place),
        ("painted with 0 whatever `value` says", hide_with_zero),
        ("hidden in all", hide_all_patches_of_all),
        ("counted column by column", hide_column_by_column),
        ("the first channel alone", hide_first_channel),
        ("you return patches", hide_returns_patches),
        ("5 scores for 6 patches do not fit", hide_no_errors),
        ("you hand back the input itself", hide_nothing_hands_back),
        ("not by a threshold", hide_by_threshold),
        ("the highest scores of the whole batch", hide_highest_of_all),
        ("the size of the scores without their sign", hide_by_size),
        ("it is not the rank of each patch", hide_order_as_rank),
        ("pictures and patches are taken in pairs", hide_in_pairs),
        ("you paint in the first picture alone", hide_in_first_picture),
        ("you average the scores over the pictures", hide_by_mean_scores),
        ("keep the default of the signature", hide_without_default),
    ],
}
RIGHT = {
    "filter_components": [pca_by_covariance, pca_numpy, pca_lowrank],
    "attention_rollout": [rollout_joined, rollout_from_the_last, rollout_without_halves, rollout_loops],
    "mean_attention_distance": [distance_loops, distance_einsum, distance_with()],
    "hide_patches": [hide_by_mask, hide_by_loops, hide_by_rank, hide_by_scatter],
}
