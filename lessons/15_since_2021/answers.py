"""Answers to the exercises of lesson 15, written as students write them."""

import math

import torch
import torch.nn.functional as F

from vit_course.beyond.modern import merge_tokens, rope_2d


def qk_norm_by_formula(q, k, v, q_scale, k_scale, eps=1e-6):
    def norm(x, scale):
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred / (centred.square().mean(dim=-1, keepdim=True) + eps).sqrt() * scale

    return norm(q, q_scale), norm(k, k_scale), v


def qk_norm_in_one(q, k, v, q_scale, k_scale, eps=1e-6):
    both = torch.stack([q, k])
    variance, mean = torch.var_mean(both, dim=-1, correction=0, keepdim=True)
    q, k = (both - mean) * (variance + eps).rsqrt()
    return q * q_scale, k * k_scale, v


def places(q, grid_size, num_prefix_tokens):
    rows, columns = grid_size
    if q.shape[-1] % 4 or q.shape[-2] != num_prefix_tokens + rows * columns:
        raise ValueError("these tokens do not fit the grid")
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return y.flatten().to(q), x.flatten().to(q)


def rope_interleaved(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    y, x = places(q, grid_size, num_prefix_tokens)
    quarter = q.shape[-1] // 4
    w = temperature ** (-torch.arange(quarter).to(q) / quarter)
    angles = torch.cat([y[:, None] * w, x[:, None] * w], dim=1).repeat_interleave(2, dim=1)

    def turned(part):
        head, patches = part[:, :, :num_prefix_tokens], part[:, :, num_prefix_tokens:]
        crossed = torch.stack([-patches[..., 1::2], patches[..., ::2]], dim=-1).flatten(-2)
        return torch.cat([head, patches * angles.cos() + crossed * angles.sin()], dim=2)

    return turned(q), turned(k), v


def rope_of_two(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    return rope_2d(q, k, v, grid_size, num_prefix_tokens, temperature)[:2]


def rope_in_float32(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    return rope_2d(q.float(), k.float(), v.float(), grid_size, num_prefix_tokens, temperature)


def rope_of_square_grids(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    side = int((q.shape[-2] - num_prefix_tokens) ** 0.5)
    return rope_2d(q, k, v, (side, side), num_prefix_tokens, temperature)


def pool_by_fused_attention(query, k, v, num_prefix_tokens=1):
    k, v = k[:, :, num_prefix_tokens:], v[:, :, num_prefix_tokens:]
    q = query[None, :, None].expand(len(k), -1, -1, -1)
    weights = (q @ k.transpose(-2, -1) / query.shape[-1] ** 0.5).softmax(dim=-1)
    return F.scaled_dot_product_attention(q, k, v)[:, :, 0], weights[:, :, 0]


def pool_by_mask(query, k, v, num_prefix_tokens=1):
    scores = torch.einsum("hd,bhtd->bht", query, k) / query.shape[-1] ** 0.5
    scores = scores.masked_fill(torch.arange(k.shape[2]) < num_prefix_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    return torch.einsum("bht,bhtd->bhd", weights, v), weights[:, :, num_prefix_tokens:]


def pool_of_one(query, k, v, num_prefix_tokens=1):
    return pool_by_mask(query, k, v, num_prefix_tokens)[0]


def merge_in_lists(tokens, k, sizes, r, num_prefix_tokens=1):
    count = tokens.shape[1]
    sources = [place for place in range(num_prefix_tokens, count) if place % 2 == 0]
    targets = [place for place in range(num_prefix_tokens, count) if place % 2]
    if r > len(sources) or (r and not targets):
        raise ValueError(f"there are {len(sources)} sources")
    found = []
    for picture, keys, size in zip(tokens, k, sizes, strict=True):
        pairs = [
            max((float(F.cosine_similarity(keys[s], keys[t], 0)), -t, s) for t in targets) for s in sources
        ]
        parts = {place: [place] for place in range(count)}
        for _, target, source in sorted(pairs, reverse=True)[:r]:
            parts[-target] += parts.pop(source)
        means = [size[p] @ picture[p] / size[p].sum() for p in parts.values()]
        found.append((torch.stack(means), torch.stack([size[p].sum() for p in parts.values()])))
    return tuple(torch.stack(part) for part in zip(*found, strict=True))


def merge_by_matrix(tokens, k, sizes, r, num_prefix_tokens=1):
    count = tokens.shape[1]
    place = torch.arange(num_prefix_tokens, count)
    sources, targets = place[place % 2 == 0], place[place % 2 == 1]
    if r > len(sources) or (r and not len(targets)):
        raise ValueError("too few sources or targets")
    likeness = F.cosine_similarity(k[:, sources, None], k[:, None, targets], dim=-1)
    best, nearest = likeness.max(dim=-1)
    gone = best.topk(r, dim=-1).indices
    merge, stays = (
        torch.eye(count).repeat(len(tokens), 1, 1).to(tokens),
        torch.ones(len(tokens), count).bool(),
    )
    for picture, chosen in enumerate(gone):
        for source in chosen.tolist():
            stays[picture, sources[source]] = False
            merge[picture, targets[nearest[picture, source]], sources[source]] = 1
    sums, counts = merge @ (tokens * sizes[..., None]), (merge @ sizes[..., None])[..., 0]
    means = sums / counts[..., None]
    return means[stays].reshape(len(tokens), count - r, -1), counts[stays].reshape(len(tokens), count - r)


def merge_tokens_alone(tokens, k, sizes, r, num_prefix_tokens=1):
    return merge_tokens(tokens, k, sizes, r, num_prefix_tokens)[0]


def merge_one_too_few(tokens, k, sizes, r, num_prefix_tokens=1):
    return merge_tokens(tokens, k, sizes, max(r - 1, 0), num_prefix_tokens)


def merge_no_more_than_targets(tokens, k, sizes, r, num_prefix_tokens=1):
    if r > (tokens.shape[1] - num_prefix_tokens) // 2:
        raise ValueError("too few targets")
    return merge_tokens(tokens, k, sizes, r, num_prefix_tokens)


def centred_norm(x, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()


def qk_norm_one_scale(q, k, v, q_scale, k_scale, eps=1e-6):
    return centred_norm(q, eps) * q_scale, centred_norm(k, eps) * q_scale, v


def qk_norm_own_eps(q, k, v, q_scale, k_scale, eps=1e-6):
    width = (q.shape[-1],)
    return F.layer_norm(q, width, q_scale), F.layer_norm(k, width, k_scale), v


def places_too(grid_size):
    rows, columns = grid_size
    return torch.arange(rows).repeat_interleave(columns), torch.arange(columns).repeat(rows)


def speeds(q, temperature):
    quarter = q.shape[-1] // 4
    return temperature ** (-torch.arange(quarter) / quarter)


def turn(x, angles, prefix):
    angles = F.pad(angles, (0, 0, prefix, 0))
    a, b = x.chunk(2, dim=-1)
    sin, cos = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def angles_of(q, grid_size, temperature):
    r, c = places_too(grid_size)
    w = speeds(q, temperature)
    return torch.cat([r[:, None] * w, c[:, None] * w], dim=1)


def rope_2d_rest_unturned(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    if q.shape[-2] != num_prefix_tokens + grid_size[0] * grid_size[1]:
        raise ValueError("tokens do not fit")
    used = q.shape[-1] // 4 * 4
    angles = angles_of(q, grid_size, temperature)

    def turned(x):
        return torch.cat([turn(x[..., :used], angles, num_prefix_tokens), x[..., used:]], dim=-1)

    return turned(q), turned(k), v


def pool_scores(query, k):
    return torch.einsum("hd,bhnd->bhn", query, k) / query.shape[-1] ** 0.5


def attention_pool_query_added(query, k, v, num_prefix_tokens=1):
    weights = pool_scores(query, k[:, :, num_prefix_tokens:]).softmax(-1)
    return query + torch.einsum("bhn,bhnd->bhd", weights, v[:, :, num_prefix_tokens:]), weights


def attention_pool_raw_scores(query, k, v, num_prefix_tokens=1):
    scores = pool_scores(query, k[:, :, num_prefix_tokens:])
    return torch.einsum("bhn,bhnd->bhd", scores.softmax(-1), v[:, :, num_prefix_tokens:]), scores


def attention_pool_masked_width(query, k, v, num_prefix_tokens=1):
    scores = pool_scores(query, k).clone()
    scores[..., :num_prefix_tokens] = -math.inf
    weights = scores.softmax(-1)
    return torch.einsum("bhn,bhnd->bhd", weights, v), weights


WRONG = {
    "qk_norm": [
        ("value 1 of 3", qk_norm_own_eps),
        ("your result does not change with `k_scale`, but it should", qk_norm_one_scale),
    ],
    "rope_2d": [
        ("return three tensors, queries, keys and values", rope_of_two),
        ("your code stopped with ValueError", rope_of_square_grids),
        ("d = 6 is not a multiple of 4: raise a ValueError that says so (your", rope_2d_rest_unturned),
    ],
    "attention_pool": [
        ("2 values were expected", pool_of_one),
        ("value 1 of 2: your result is the wanted one plus `query`", attention_pool_query_added),
        ("value 2 of 2: a softmax is missing, over the patches", attention_pool_raw_scores),
        ("value 2 of 2: your result has the shape (B, h, T), and (B, h, N) is", attention_pool_masked_width),
    ],
    "merge_tokens": [
        ("2 values were expected", merge_tokens_alone),
        ("the shape should be (1, 6, 2)", merge_one_too_few),
        ("your code refuses what it gets here, but that is allowed", merge_no_more_than_targets),
    ],
}
RIGHT = {
    "qk_norm": [qk_norm_by_formula, qk_norm_in_one],
    "rope_2d": [rope_in_float32, rope_interleaved],
    "attention_pool": [pool_by_fused_attention, pool_by_mask],
    "merge_tokens": [merge_in_lists, merge_by_matrix],
}
