"""Answers to the exercises of lesson 09, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import functools
import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import Tensor

from vit_course.patches import as_pair, grid_size, patchify, unpatchify


def components_not_centred(filters, count=28):
    flat = filters.flatten(1)
    _, s, directions = torch.linalg.svd(flat, full_matrices=False)
    shares = s.square() / s.square().sum()
    return directions[:count].reshape(-1, *filters.shape[1:]), shares[:count]


def components_shares_of_shown(filters, count=28):
    flat = filters.flatten(1)
    _, s, directions = torch.linalg.svd(flat - flat.mean(0), full_matrices=False)
    variance = s[:count].square()
    return directions[:count].reshape(-1, *filters.shape[1:]), variance / variance.sum()


def components_cumulated(filters, count=28):
    flat = filters.flatten(1)
    _, s, directions = torch.linalg.svd(flat - flat.mean(dim=0), full_matrices=False)
    shares = (s.square() / s.square().sum()).cumsum(0)
    return directions[:count].reshape(-1, *filters.shape[1:]), shares[:count]


def components_left_flat(filters, count=28):
    flat = filters.flatten(1)
    _, s, directions = torch.linalg.svd(flat - flat.mean(dim=0), full_matrices=False)
    return directions[:count], (s.square() / s.square().sum())[:count]


def components_of_covariance(filters, count=28):
    flat = filters.flatten(1)
    centred = flat - flat.mean(dim=0)
    _, s, directions = torch.linalg.svd(centred.T @ centred / (len(flat) - 1))
    shares = s.square() / s.square().sum()
    return directions[:count].reshape(-1, *filters.shape[1:]), shares[:count]


def components_eigh(filters: Tensor, count: int = 28) -> tuple[Tensor, Tensor]:
    rows = filters.reshape(filters.shape[0], -1).double()
    rows = rows - rows.mean(0, keepdim=True)
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    values, vectors = values.flip(0).clamp(min=0), vectors.flip(1)
    shares = (values / values.sum())[:count]
    return vectors[:, :count].T.reshape(-1, *filters.shape[1:]).to(filters.dtype), shares.to(filters.dtype)


def components_numpy(filters, count=28):
    matrix = filters.detach().cpu().double().numpy().reshape(len(filters), -1)
    _, s, vh = np.linalg.svd(matrix - matrix.mean(axis=0), full_matrices=False)
    shares = s**2 / np.sum(s**2)
    patterns = vh[:count].reshape(-1, *filters.shape[1:])
    return torch.from_numpy(patterns).to(filters), torch.from_numpy(shares[:count]).to(filters)


def components_of_columns(filters, count=28):
    # The filters stand in the columns: then the components are the columns of U.
    columns = rearrange(filters, "d c h w -> (c h w) d")
    u, s, _ = torch.linalg.svd(columns - columns.mean(dim=1, keepdim=True), full_matrices=False)
    _, c, h, w = filters.shape
    patterns = rearrange(u[:, :count], "(c h w) k -> k c h w", c=c, h=h, w=w)
    return patterns, (s.pow(2) / s.pow(2).sum())[:count]


def components_svd_of_covariance(filters, count=28):
    flat = torch.flatten(filters, start_dim=1)
    covariance = torch.cov(flat.T.double(), correction=0)
    u, variance, _ = torch.linalg.svd(covariance)
    shares = variance / torch.trace(covariance)
    patterns = torch.stack([u[:, k].view(filters.shape[1:]) for k in range(count)])
    return patterns.to(filters.dtype), shares[:count].to(filters.dtype)


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


def rollout_averages_pictures(attentions, num_prefix_tokens=1):
    _test_rollout(attentions, num_prefix_tokens)
    B, _, T, _ = attentions[0].shape
    identity = torch.eye(T).to(attentions[0])
    result = identity
    for attention in attentions:
        layer = 0.5 * attention.mean(dim=(0, 1)) + 0.5 * identity
        result = (layer / layer.sum(dim=-1, keepdim=True)) @ result
    return result.expand(B, T, T)


def rollout_element_by_element(attentions, num_prefix_tokens=1):
    _test_rollout(attentions, num_prefix_tokens)
    identity = torch.eye(attentions[0].shape[-1]).to(attentions[0])
    result = torch.ones_like(identity)
    for attention in attentions:
        layer = 0.5 * attention.mean(dim=1) + 0.5 * identity
        result = (layer / layer.sum(dim=-1, keepdim=True)) * result
    return result


def rollout_float32(attentions, num_prefix_tokens=1):
    _test_rollout(attentions, num_prefix_tokens)
    identity = torch.eye(attentions[0].shape[-1])
    result = identity
    for attention in attentions:
        layer = 0.5 * attention.float().mean(dim=1) + 0.5 * identity
        result = (layer / layer.sum(dim=-1, keepdim=True)) @ result
    return result


def rollout_discards_small_weights(attentions, num_prefix_tokens=1):
    _test_rollout(attentions, num_prefix_tokens)
    T = attentions[0].shape[-1]
    identity = torch.eye(T).to(attentions[0])
    result = identity
    for attention in attentions:
        fused = attention.mean(dim=1)
        lowest = fused.flatten(1).topk(int(0.9 * T * T), dim=-1, largest=False).indices
        fused = fused.flatten(1).scatter(1, lowest, 0.0).view(-1, T, T)
        layer = 0.5 * fused + 0.5 * identity
        result = (layer / layer.sum(dim=-1, keepdim=True)) @ result
    return result


def rollout_reduce(attentions, num_prefix_tokens: int = 1) -> Tensor:
    if len(attentions) < 1:
        raise ValueError("give at least one layer")
    T = attentions[-1].size(-1)
    if num_prefix_tokens not in range(T):
        raise ValueError(f"{num_prefix_tokens} of {T} tokens cannot be the prefix")

    def mixed(weights):
        both = weights.mean(1) + torch.eye(T, dtype=weights.dtype, device=weights.device)
        return both / both.sum(-1, keepdim=True)  # the halves cancel

    return functools.reduce(lambda below, layer: torch.bmm(layer, below), map(mixed, attentions))


def rollout_from_the_top(attentions, num_prefix_tokens=1):
    layers = list(attentions)
    if not layers:
        raise ValueError("attentions is empty")
    batch, heads, tokens, _ = layers[0].shape
    if num_prefix_tokens < 0 or num_prefix_tokens > tokens - 1:
        raise ValueError("no patches are left, or the prefix is negative")
    product = None
    for weights in reversed(layers):
        table = torch.einsum("bhij->bij", weights) / (2 * heads)
        table = table + torch.diag(table.new_full((tokens,), 0.5))
        table = torch.nn.functional.normalize(table, p=1, dim=2)
        product = table if product is None else torch.einsum("bij,bjk->bik", product, table)
    return product


def rollout_numpy(attentions, num_prefix_tokens=1):
    if not len(attentions):
        raise ValueError("there is no layer")
    first = attentions[0]
    if not 0 <= num_prefix_tokens < first.shape[2]:
        raise ValueError("the prefix does not fit")
    pictures = []
    for b in range(first.shape[0]):
        result = np.eye(first.shape[2])
        for weights in attentions:
            table = weights[b].detach().double().cpu().numpy().mean(axis=0)
            np.fill_diagonal(table, table.diagonal() + 1)
            result = (table / table.sum(axis=1, keepdims=True)).dot(result)
        pictures.append(torch.from_numpy(result))
    return torch.stack(pictures).to(first)


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


def _table_of_distances(grid_size, patch_size, power=2.0):
    (rows, columns), (height, width) = grid_size, as_pair(patch_size)
    y, x = torch.meshgrid(torch.arange(rows) * height, torch.arange(columns) * width, indexing="ij")
    centres = torch.stack([y.flatten(), x.flatten()], dim=1).double()
    return torch.cdist(centres, centres, p=power, compute_mode="donot_use_mm_for_euclid_dist")


def _test_distance(attention, grid_size, prefix):
    if attention.shape[-1] != prefix + grid_size[0] * grid_size[1]:
        raise ValueError("T is not the prefix and the grid together")


def distance_squared(attention, grid_size, patch_size, num_prefix_tokens=1):
    _test_distance(attention, grid_size, num_prefix_tokens)
    distances = _table_of_distances(grid_size, patch_size).to(attention).square()
    patches = attention[..., num_prefix_tokens:, num_prefix_tokens:]
    return (patches * distances).sum(dim=-1).mean(dim=(0, 2))


def distance_square_patches(attention, grid_size, patch_size, num_prefix_tokens=1):
    _test_distance(attention, grid_size, num_prefix_tokens)
    side = as_pair(patch_size)[0]
    distances = _table_of_distances(grid_size, side).to(attention)
    patches = attention[..., num_prefix_tokens:, num_prefix_tokens:]
    return (patches * distances).sum(dim=-1).mean(dim=(0, 2))


def distance_column_by_column(attention, grid_size, patch_size, num_prefix_tokens=1):
    _test_distance(attention, grid_size, num_prefix_tokens)
    (rows, columns), (height, width) = grid_size, as_pair(patch_size)
    y, x = torch.meshgrid(torch.arange(rows) * height, torch.arange(columns) * width, indexing="xy")
    centres = torch.stack([y.flatten(), x.flatten()], dim=1).to(attention)
    distances = (centres[:, None] - centres).norm(dim=-1)
    patches = attention[..., num_prefix_tokens:, num_prefix_tokens:]
    return (patches * distances).sum(dim=-1).mean(dim=(0, 2))


def distance_mean_over_keys(attention, grid_size, patch_size, num_prefix_tokens=1):
    _test_distance(attention, grid_size, num_prefix_tokens)
    distances = _table_of_distances(grid_size, patch_size).to(attention)
    patches = attention[..., num_prefix_tokens:, num_prefix_tokens:]
    return (patches * distances).mean(dim=(0, 2, 3))


def distance_to_the_mean_place(attention, grid_size, patch_size, num_prefix_tokens=1):
    _test_distance(attention, grid_size, num_prefix_tokens)
    (rows, columns), (height, width) = grid_size, as_pair(patch_size)
    y, x = torch.meshgrid(torch.arange(rows) * height, torch.arange(columns) * width, indexing="ij")
    centres = torch.stack([y.flatten(), x.flatten()], dim=1).to(attention)
    patches = attention[..., num_prefix_tokens:, num_prefix_tokens:]
    return (patches @ centres - centres).norm(dim=-1).mean(dim=(0, 2))


def distance_loops(
    attention: Tensor,
    grid_size: tuple[int, int],
    patch_size: int | tuple[int, int],
    num_prefix_tokens: int = 1,
) -> Tensor:
    rows, columns = grid_size
    if num_prefix_tokens + rows * columns != attention.shape[2]:
        raise ValueError(
            f"a grid of {rows}x{columns} and {num_prefix_tokens} more are not {attention.shape[2]}"
        )
    ph, pw = (patch_size, patch_size) if isinstance(patch_size, int) else patch_size
    mean = attention.mean(dim=0).double()  # over the pictures first: everything after it is linear
    total = torch.zeros(attention.shape[1], dtype=torch.float64, device=attention.device)
    for i in range(rows * columns):
        for j in range(rows * columns):
            dy, dx = i // columns - j // columns, i % columns - j % columns
            weight = mean[:, num_prefix_tokens + i, num_prefix_tokens + j]
            total += weight * math.hypot(ph * dy, pw * dx)
    return (total / (rows * columns)).to(attention.dtype)


def distance_complex(attention, grid_size, patch_size, num_prefix_tokens=1):
    n = grid_size[0] * grid_size[1]
    if attention.shape[-1] - num_prefix_tokens != n:
        raise ValueError("tokens, prefix and grid do not fit each other")
    height, width = as_pair(patch_size)
    number = torch.arange(n, device=attention.device, dtype=torch.float64)
    place = torch.complex(number % grid_size[1] * width, number // grid_size[1] * height)
    apart = (place[:, None] - place[None, :]).abs().to(attention.dtype)
    kept = attention.narrow(2, num_prefix_tokens, n).narrow(3, num_prefix_tokens, n)
    return torch.einsum("bhij,ij->h", kept, apart) / (len(attention) * n)


def distance_numpy(attention, grid_size, patch_size, num_prefix_tokens=1):
    rows, columns = grid_size
    weights = attention.detach().double().cpu().numpy()
    if weights.shape[3] != rows * columns + num_prefix_tokens:
        raise ValueError("wrong number of tokens")
    height, width = as_pair(patch_size)
    y, x = np.divmod(np.arange(rows * columns), columns)
    y, x = (y + 0.5) * height, (x + 0.5) * width
    distances = np.hypot(np.subtract.outer(y, y), np.subtract.outer(x, x))
    weights = weights[:, :, num_prefix_tokens:, num_prefix_tokens:]
    return torch.from_numpy((weights * distances).sum(axis=3).mean(axis=2).mean(axis=0)).to(attention)


def distance_on_the_grid(attention, grid_size, patch_size, num_prefix_tokens=1):
    r, c = grid_size
    if attention.shape[-1] != num_prefix_tokens + r * c:
        raise ValueError(f"T should be {num_prefix_tokens + r * c}")
    h, w = as_pair(patch_size)
    inner = attention[:, :, num_prefix_tokens:, num_prefix_tokens:]
    inner = rearrange(inner, "b head (y x) (v u) -> b head y x v u", y=r, v=r)
    down = h * (torch.arange(r)[:, None] - torch.arange(r)).double()
    right = w * (torch.arange(c)[:, None] - torch.arange(c)).double()
    apart = (down.square()[:, None, :, None] + right.square()[None, :, None, :]).sqrt()
    return (inner * apart.to(inner)).sum(dim=(4, 5)).mean(dim=(0, 2, 3))


def _test_hide(images, scores, count, patch_size):
    rows, columns = grid_size(tuple(images.shape[-2:]), patch_size)
    if tuple(scores.shape) != (len(images), rows * columns):
        raise ValueError("scores do not fit the patches")
    if count < 0 or count > rows * columns:
        raise ValueError("count is not in 0..N")
    return rows, columns


def hide_same_everywhere(images, scores, count, patch_size, value=0.0):
    grid = _test_hide(images, scores, count, patch_size)
    chosen = scores.mean(dim=0).argsort(descending=True)[:count]
    patches = patchify(images, patch_size).clone()
    patches[:, chosen] = value
    return unpatchify(patches, patch_size, grid)


def hide_count_not_tested(images, scores, count, patch_size, value=0.0):
    grid = grid_size(tuple(images.shape[-2:]), patch_size)
    if scores.shape != (len(images), grid[0] * grid[1]):
        raise ValueError("scores do not fit the patches")
    chosen = scores.argsort(dim=1, descending=True)[:, :count]
    patches = patchify(images, patch_size).clone()
    patches[torch.arange(len(images))[:, None], chosen] = value
    return unpatchify(patches, patch_size, grid)


def hide_scores_not_tested(images, scores, count, patch_size, value=0.0):
    grid = grid_size(tuple(images.shape[-2:]), patch_size)
    if not 0 <= count <= grid[0] * grid[1]:
        raise ValueError("count is not in 0..N")
    patches = patchify(images, patch_size).clone()
    for picture, row in zip(patches, scores, strict=False):
        picture[row.argsort(descending=True)[:count]] = value
    return unpatchify(patches, patch_size, grid)


def hide_part_of_the_patch(images, scores, count, patch_size, value=0.0):
    grid = _test_hide(images, scores, count, patch_size)
    chosen = scores.argsort(dim=1, descending=True)[:, :count]
    patches = patchify(images, patch_size).clone()
    channels = images.shape[1]
    one_channel = patches.shape[-1] // channels
    patches[torch.arange(len(images))[:, None], chosen, :one_channel] = value
    return unpatchify(patches, patch_size, grid)


def hide_two_mistakes(images, scores, count, patch_size, value=0.0):
    grid = grid_size(tuple(images.shape[-2:]), patch_size)
    chosen = scores[0].argsort(descending=True)[:count]
    patches = patchify(images, patch_size).clone()
    patches[:, chosen] = value
    return unpatchify(patches, patch_size, grid)


def hide_loop(
    images: Tensor, scores: Tensor, count: int, patch_size: int | tuple[int, int], value: float = 0.0
) -> Tensor:
    rows, columns = grid_size(tuple(images.shape[2:]), patch_size)
    if scores.ndim != 2 or scores.shape[0] != images.shape[0] or scores.shape[1] != rows * columns:
        raise ValueError(f"one score for each of {rows * columns} patches of each picture is needed")
    if count not in range(rows * columns + 1):
        raise ValueError(f"{count} patches cannot be hidden")
    ph, pw = as_pair(patch_size)
    out = images.clone()
    for picture, row in zip(out, scores.tolist(), strict=True):
        for i in sorted(range(len(row)), key=row.__getitem__)[len(row) - count :]:
            top, left = i // columns * ph, i % columns * pw
            picture[:, top : top + ph, left : left + pw].fill_(value)
    return out


def hide_by_mask(images, scores, count, patch_size, value=0.0):
    rows, columns = grid_size(tuple(images.shape[-2:]), patch_size)
    if scores.shape != (images.shape[0], rows * columns):
        raise ValueError("scores should be (B, N)")
    if count < 0 or rows * columns < count:
        raise ValueError("count should be in 0..N")
    ph, pw = as_pair(patch_size)
    hidden = torch.zeros_like(scores, dtype=torch.bool)
    hidden.scatter_(1, scores.topk(count, dim=1).indices, True)
    mask = repeat(hidden, "b (r c) -> b 1 (r ph) (c pw)", r=rows, ph=ph, pw=pw)
    return images.masked_fill(mask, value)


def hide_by_rank(images, scores, count, patch_size, value=0.0):
    rows, columns = grid_size(tuple(images.shape[-2:]), patch_size)
    if list(scores.shape) != [len(images), rows * columns]:
        raise ValueError("one score a patch, one row a picture")
    if not 0 <= count <= scores.shape[1]:
        raise ValueError("too many patches, or fewer than none")
    rank = scores.argsort(dim=1, descending=True).argsort(dim=1)
    hidden = rank.lt(count).reshape(-1, 1, rows, columns).to(images.dtype)
    mask = F.interpolate(hidden, size=images.shape[-2:], mode="nearest")
    return torch.where(mask > 0.5, torch.as_tensor(value, dtype=images.dtype, device=images.device), images)


def hide_by_kron(images, scores, count, patch_size, value=0.0):
    grid = grid_size(tuple(images.shape[-2:]), patch_size)
    if scores.shape != torch.Size([len(images), grid[0] * grid[1]]):
        raise ValueError("scores do not fit the pictures")
    if count > grid[0] * grid[1] or count < 0:
        raise ValueError("count does not fit the grid")
    tile = torch.ones(as_pair(patch_size), dtype=torch.bool, device=images.device)
    pictures = []
    for image, row in zip(images, scores, strict=True):
        flags = torch.zeros(len(row), dtype=torch.bool, device=images.device)
        flags[torch.sort(row, descending=True).indices[:count]] = True
        painted = image.clone()
        painted[:, torch.kron(flags.view(grid), tile)] = value
        pictures.append(painted)
    return torch.stack(pictures)


def check_layers(attentions, num_prefix_tokens):
    if len(attentions) == 0:
        raise ValueError("no layers")
    if num_prefix_tokens < 0 or num_prefix_tokens >= attentions[0].shape[-1]:
        raise ValueError("no patches")


def to_rows_of_one(table):
    return table / table.sum(dim=-1, keepdim=True)


def attention_rollout_strongest_head(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    rollout = identity = torch.eye(attentions[0].shape[-1]).to(attentions[0])
    for attention in attentions:
        rollout = to_rows_of_one(attention.amax(dim=1) + identity) @ rollout
    return rollout


def attention_rollout_head_by_head(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    rollout = identity = torch.eye(attentions[0].shape[-1]).to(attentions[0])
    for attention in attentions:
        rollout = to_rows_of_one(0.5 * attention + 0.5 * identity) @ rollout
    return rollout.mean(dim=1)


def attention_rollout_columns(attentions, num_prefix_tokens=1):
    check_layers(attentions, num_prefix_tokens)
    rollout = identity = torch.eye(attentions[0].shape[-1]).to(attentions[0])
    for attention in attentions:
        layer = 0.5 * attention.mean(dim=1) + 0.5 * identity
        rollout = layer / layer.sum(dim=1, keepdim=True) @ rollout
    return rollout


def centres_of(grid, patch):
    (rows, columns), (height, width) = grid, as_pair(patch)
    return torch.cartesian_prod(torch.arange(rows) * height, torch.arange(columns) * width)


def check_tokens(attention, grid, prefix):
    if attention.shape[-1] != prefix + grid[0] * grid[1]:
        raise ValueError("tokens and grid do not fit")


def mean_attention_distance_width_first(attention, grid_size, patch_size, num_prefix_tokens=1):
    check_tokens(attention, grid_size, num_prefix_tokens)
    width, height = as_pair(patch_size)
    places = centres_of(grid_size, (height, width)).to(attention)
    distances = torch.cdist(places, places)
    rest = attention[:, :, num_prefix_tokens:, num_prefix_tokens:]
    return (rest * distances).sum(-1).mean((0, 2))


def mean_attention_distance_all_queries(attention, grid_size, patch_size, num_prefix_tokens=1):
    check_tokens(attention, grid_size, num_prefix_tokens)
    places = centres_of(grid_size, patch_size).to(attention)
    prefix = num_prefix_tokens
    distances = F.pad(torch.cdist(places, places), (prefix, 0, prefix, 0))
    return (attention * distances).sum(-1).mean((0, 2))


def mean_attention_distance_crops(attention, grid_size, patch_size, num_prefix_tokens=1):
    count = grid_size[0] * grid_size[1]
    if attention.shape[-1] < num_prefix_tokens + count:
        raise ValueError("too few tokens")
    places = centres_of(grid_size, patch_size).to(attention)
    used = slice(num_prefix_tokens, num_prefix_tokens + count)
    return (attention[:, :, used, used] * torch.cdist(places, places)).sum(-1).mean((0, 2))


def check_scores(images, scores, count, patch_size):
    rows, columns = grid_size(tuple(images.shape[-2:]), patch_size)
    if tuple(scores.shape) != (len(images), rows * columns) or not 0 <= count <= rows * columns:
        raise ValueError("scores or count do not fit")
    return rows, columns


def painted(images, hidden, patch_size, grid, value):
    patches = patchify(images, patch_size).clone()
    patches[hidden] = value
    return unpatchify(patches, patch_size, grid)


def hide_patches_in_place(images, scores, count, patch_size, value=0.0):
    rows, columns = check_scores(images, scores, count, patch_size)
    p1, p2 = as_pair(patch_size)
    for image, order in zip(images, scores.argsort(dim=1, descending=True), strict=True):
        for n in order[:count].tolist():
            r, c = divmod(n, columns)
            image[:, r * p1 : (r + 1) * p1, c * p2 : (c + 1) * p2] = value
    return images


def hide_patches_never_all(images, scores, count, patch_size, value=0.0):
    grid = check_scores(images, scores, count, patch_size)
    if count not in range(scores.shape[1]):
        raise ValueError("count is no index of a patch")
    ranks = scores.argsort(dim=1, descending=True).argsort(dim=1)
    return painted(images, ranks < count, patch_size, grid, value)


def hide_patches_column_grid(images, scores, count, patch_size, value=0.0):
    rows, columns = check_scores(images, scores, count, patch_size)
    p1, p2 = as_pair(patch_size)
    hidden = scores.argsort(dim=1, descending=True).argsort(dim=1) < count
    mask = hidden.view(-1, columns, rows).mT.repeat_interleave(p1, 1).repeat_interleave(p2, 2)
    return images.masked_fill(mask[:, None], value)


def filter_components_columns_of_v(filters, count=28):
    flat = filters.flatten(1)
    _, s, v = torch.linalg.svd(flat - flat.mean(dim=0), full_matrices=True)
    return v[:, :count].T.reshape(-1, *filters.shape[1:]), (s**2 / (s**2).sum())[:count]


def filter_components_standardised(filters, count=28):
    flat = filters.flatten(1)
    _, s, v = torch.linalg.svd((flat - flat.mean(dim=0)) / flat.std(dim=0), full_matrices=False)
    return v[:count].reshape(-1, *filters.shape[1:]), (s**2 / (s**2).sum())[:count]


def filter_components_channels_last(filters, count=28):
    flat = filters.flatten(1)
    _, s, v = torch.linalg.svd(flat - flat.mean(dim=0), full_matrices=False)
    channels, height, width = filters.shape[1:]
    components = v[:count].reshape(-1, height, width, channels).permute(0, 3, 1, 2)
    return components, (s**2 / (s**2).sum())[:count]


UNSEEN = {
    "filter_components": [
        ("the mean filter is not subtracted", components_not_centred),
        ("the shares are of the variance of the first components alone", components_shares_of_shown),
        ("returns sums of the shares so far", components_cumulated),
        ("the components stay flat", components_left_flat),
        ("squares the eigenvalues of the covariance, which are variances already", components_of_covariance),
        (
            "torch.linalg.svd's Vh is taken for V, and its columns are returned as components",
            filter_components_columns_of_v,
        ),
        (
            "every pixel is divided by its deviation over the filters, which the docstring excludes",
            filter_components_standardised,
        ),
        (
            "the components are read with channels last and then moved, so pixels and channels are mixed",
            filter_components_channels_last,
        ),
    ],
    "attention_rollout": [
        ("leaves out the residual connection", rollout_no_residual),
        ("averages over the pictures of the batch", rollout_averages_pictures),
        ("multiplies layers element by element", rollout_element_by_element),
        ("the result is always float32", rollout_float32),
        ("throws the smallest nine tenths of the weights away", rollout_discards_small_weights),
        ("each column is divided by its sum, so that rows do not sum to 1", attention_rollout_columns),
        (
            "the heads are fused by their maximum, as a public repository offers, and not by their mean",
            attention_rollout_strongest_head,
        ),
        (
            "every head is rolled out by itself and the heads are averaged at the end, not in each layer",
            attention_rollout_head_by_head,
        ),
    ],
    "mean_attention_distance": [
        ("the distances are squared", distance_squared),
        ("takes the height of a patch for both sides", distance_square_patches),
        ("lays the patches out column by column", distance_column_by_column),
        ("averages over the keys where it should sum", distance_mean_over_keys),
        ("takes the distance to the weighted mean place", distance_to_the_mean_place),
        (
            "more tokens than prefix and grid are cut off silently, without a ValueError",
            mean_attention_distance_crops,
        ),
        (
            "the average runs over the prefix queries too, with distance 0, so it divides by T and not by N",
            mean_attention_distance_all_queries,
        ),
        (
            "the pair patch_size is read as (width, height), which shows only where patches are not square",
            mean_attention_distance_width_first,
        ),
    ],
    "hide_patches": [
        ("hides the same patches in all pictures", hide_same_everywhere),
        ("a count outside 0..N raises no error", hide_count_not_tested),
        ("scores of another shape raise no error", hide_scores_not_tested),
        ("paints the first third of the numbers of a patch", hide_part_of_the_patch),
        ("two mistakes: the order of the first picture for all, and no errors", hide_two_mistakes),
        ("the pictures given are painted over themselves, no new tensor is made", hide_patches_in_place),
        (
            "the mask is laid out column by column, so the wrong patches of the picture are painted",
            hide_patches_column_grid,
        ),
        ("count = N raises a ValueError, although all patches may be hidden", hide_patches_never_all),
    ],
}
STYLES = {
    "filter_components": [
        components_eigh,
        components_numpy,
        components_of_columns,
        components_svd_of_covariance,
    ],
    "attention_rollout": [rollout_reduce, rollout_from_the_top, rollout_numpy, rollout_recursive],
    "mean_attention_distance": [distance_loops, distance_complex, distance_numpy, distance_on_the_grid],
    "hide_patches": [hide_loop, hide_by_mask, hide_by_rank, hide_by_kron],
}
