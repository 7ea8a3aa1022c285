"""Answers to the exercises of lesson 15, written as students write them."""

import torch
import torch.nn.functional as F

from vit_classroom.checks import lesson_part
from vit_classroom.checks.edits import edited
from vit_course.extensions.modern import attention_pool, merge_tokens, qk_norm, rope_2d

checks = lesson_part("15_since_2021", "checks")


def qk_norm_in_one(q, k, v, q_scale, k_scale, eps=1e-6):
    both = torch.stack([q, k])
    variance, mean = torch.var_mean(both, dim=-1, correction=0, keepdim=True)
    q, k = (both - mean) * (variance + eps).rsqrt()
    return q * q_scale, k * k_scale, v


def rope_interleaved(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    if q.shape[-1] % 4 or q.shape[-2] != num_prefix_tokens + grid_size[0] * grid_size[1]:
        raise ValueError("these tokens do not fit the grid")
    quarter = q.shape[-1] // 4
    w = temperature ** (-torch.arange(quarter).to(q) / quarter)
    places = torch.meshgrid(*(torch.arange(count) for count in grid_size), indexing="ij")
    angles = torch.cat([place.reshape(-1, 1) * w for place in places], dim=1).repeat_interleave(2, dim=1)

    def turned(part):
        head, patches = part[:, :, :num_prefix_tokens], part[:, :, num_prefix_tokens:]
        crossed = torch.stack([-patches[..., 1::2], patches[..., ::2]], dim=-1).flatten(-2)
        return torch.cat([head, patches * angles.cos() + crossed * angles.sin()], dim=2)

    return turned(q), turned(k), v


def rope_of_square_grids(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    side = int((q.shape[-2] - num_prefix_tokens) ** 0.5)
    return rope_2d(q, k, v, (side, side), num_prefix_tokens, temperature)


def rope_of_a_part(q, k, v, *rest):
    used = q.shape[-1] // 4 * 4
    turned = rope_2d(q[..., :used], k[..., :used], v[..., :used], *rest)
    return tuple(torch.cat([x, y[..., used:]], dim=-1) for x, y in zip(turned, (q, k, v), strict=True))


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


def pool_masked_width(query, k, v, num_prefix_tokens=1):
    pooled, weights = attention_pool(query, k, v, num_prefix_tokens)
    return pooled, F.pad(weights, (num_prefix_tokens, 0))


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
    merge = torch.eye(count).repeat(len(tokens), 1, 1).to(tokens)
    stays = torch.ones(len(tokens), count).bool()
    for picture, chosen in enumerate(gone):
        for source in chosen.tolist():
            stays[picture, sources[source]] = False
            merge[picture, targets[nearest[picture, source]], sources[source]] = 1
    sums, counts = merge @ (tokens * sizes[..., None]), (merge @ sizes[..., None])[..., 0]
    means = sums / counts[..., None]
    return means[stays].reshape(len(tokens), count - r, -1), counts[stays].reshape(len(tokens), count - r)


def merge_no_more_than_targets(tokens, k, sizes, r, num_prefix_tokens=1):
    if r > (tokens.shape[1] - num_prefix_tokens) // 2:
        raise ValueError("too few targets")
    return merge_tokens(tokens, k, sizes, r, num_prefix_tokens)


WRONG = {
    "qk_norm": [
        (
            "your result does not change with `k_scale`, but it should",
            lambda q, k, v, q_scale, k_scale, *eps: qk_norm(q, k, v, q_scale, q_scale, *eps),
        )
    ],
    "rope_2d": [
        ("return three tensors, queries, keys and values", lambda *given: rope_2d(*given)[:2]),
        ("your code stopped with ValueError", rope_of_square_grids),
        ("d = 6 is not a multiple of 4: raise a ValueError that says so (your", rope_of_a_part),
    ],
    "attention_pool": [
        ("2 values were expected", lambda *given: attention_pool(*given)[0]),
        (
            "value 1 of 2: your result is the wanted one plus `query`",
            lambda query, *rest: (query + attention_pool(query, *rest)[0], attention_pool(query, *rest)[1]),
        ),
        (
            "value 2 of 2: a softmax is missing, over the patches",
            edited(
                attention_pool,
                "weights = scores.softmax(dim=-1) => weights = scores ;; "
                "(weights[..., None] => (weights.softmax(-1)[..., None]",
            ),
        ),
        ("value 2 of 2: your result has the shape (B, h, T), and (B, h, N) is", pool_masked_width),
    ],
    "merge_tokens": [
        ("2 values were expected", lambda *given: merge_tokens(*given)[0]),
        (
            "the shape should be (1, 6, 2)",
            lambda x, k, n, r, *rest: merge_tokens(x, k, n, max(r - 1, 0), *rest),
        ),
        ("your code refuses what it gets here, but that is allowed", merge_no_more_than_targets),
    ],
}
RIGHT = {
    "qk_norm": [checks.by_formula, qk_norm_in_one],
    "rope_2d": [lambda q, k, v, *rest: rope_2d(q.float(), k.float(), v.float(), *rest), rope_interleaved],
    "attention_pool": [pool_by_fused_attention, pool_by_mask],
    "merge_tokens": [merge_in_lists, merge_by_matrix],
}
