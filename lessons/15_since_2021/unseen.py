"""Answers to the exercises of lesson 15, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import math

import torch
import torch.nn.functional as F


def centred_norm(x, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()


def qk_norm_length_one(q, k, v, q_scale, k_scale, eps=1e-6):
    return F.normalize(q, dim=-1, eps=eps) * q_scale, F.normalize(k, dim=-1, eps=eps) * k_scale, v


def qk_norm_mean_square(q, k, v, q_scale, k_scale, eps=1e-6):
    def rms(x):
        return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()

    return rms(q) * q_scale, rms(k) * k_scale, v


def qk_norm_eps_outside(q, k, v, q_scale, k_scale, eps=1e-6):
    def norm(x):
        return (x - x.mean(-1, keepdim=True)) / (x.std(-1, unbiased=False, keepdim=True) + eps)

    return norm(q) * q_scale, norm(k) * k_scale, v


def qk_norm_one_scale(q, k, v, q_scale, k_scale, eps=1e-6):
    return centred_norm(q, eps) * q_scale, centred_norm(k, eps) * q_scale, v


def qk_norm_before_split(q, k, v, q_scale, k_scale, eps=1e-6):
    def norm(x):
        var, mean = torch.var_mean(x, dim=(1, 3), correction=0, keepdim=True)
        return (x - mean) / (var + eps).sqrt()

    return norm(q) * q_scale, norm(k) * k_scale, v


def qk_norm_own_eps(q, k, v, q_scale, k_scale, eps=1e-6):
    width = (q.shape[-1],)
    return F.layer_norm(q, width, q_scale), F.layer_norm(k, width, k_scale), v


def qk_norm_moments(q, k, v, q_scale, k_scale, eps=1e-6):
    out = []
    for x, scale in ((q, q_scale), (k, k_scale)):
        var, mean = torch.var_mean(x, dim=3, correction=0, keepdim=True)
        out.append((x - mean) * torch.rsqrt(var + eps) * scale.view(1, 1, 1, -1))
    return out[0], out[1], v


def qk_norm_stacked(q, k, v, q_scale, k_scale, eps=1e-6):
    both = torch.stack([q, k])
    scales = torch.stack([q_scale, k_scale])[:, None, None, None]
    query, key = F.layer_norm(both, both.shape[-1:], eps=eps) * scales
    return query, key, v


def qk_norm_by_einsum(q, k, v, q_scale, k_scale, eps=1e-6):
    d = q.shape[-1]

    def norm(x, scale):
        x = x - torch.einsum("bhtd->bht", x)[..., None] / d
        size = torch.einsum("bhtd,bhtd->bht", x, x) / d + eps
        return torch.einsum("bhtd,bht,d->bhtd", x, size**-0.5, scale)

    return norm(q, q_scale), norm(k, k_scale), v


def qk_norm_groups(q, k, v, q_scale, k_scale, eps=1e-6):
    def norm(x, scale):
        rows = x.flatten(0, 2)  # each vector is one picture with one group of d channels
        return F.group_norm(rows, 1, weight=scale, eps=eps).reshape(x.shape)

    return norm(q, q_scale), norm(k, k_scale), v


def check_grid(q, grid_size, prefix):
    if q.shape[-1] % 4 or q.shape[-2] != prefix + grid_size[0] * grid_size[1]:
        raise ValueError("width or tokens do not fit")


def places(grid_size):
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
    r, c = places(grid_size)
    w = speeds(q, temperature)
    return torch.cat([r[:, None] * w, c[:, None] * w], dim=1)


def rope_2d_grid_turned(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    check_grid(q, grid_size, num_prefix_tokens)
    angles = angles_of(q, grid_size[::-1], temperature)
    return turn(q, angles, num_prefix_tokens), turn(k, angles, num_prefix_tokens), v


def rope_2d_from_minus_one(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    check_grid(q, grid_size, num_prefix_tokens)
    r, c = ((2 * p + 1) / n - 1 for p, n in zip(places(grid_size), grid_size, strict=True))
    w = 2 * math.pi * speeds(q, temperature)
    angles = torch.cat([r[:, None] * w, c[:, None] * w], dim=1)
    return turn(q, angles, num_prefix_tokens), turn(k, angles, num_prefix_tokens), v


def rope_2d_from_one(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    check_grid(q, grid_size, num_prefix_tokens)
    angles = angles_of(q, grid_size, temperature) + speeds(q, temperature).repeat(2)
    return turn(q, angles, num_prefix_tokens), turn(k, angles, num_prefix_tokens), v


def rope_2d_one_line(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    check_grid(q, grid_size, num_prefix_tokens)
    half = q.shape[-1] // 2
    w = temperature ** (-torch.arange(half) / half)
    angles = torch.arange(grid_size[0] * grid_size[1])[:, None] * w
    return turn(q, angles, num_prefix_tokens), turn(k, angles, num_prefix_tokens), v


def rope_2d_sum_of_places(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    check_grid(q, grid_size, num_prefix_tokens)
    r, c = places(grid_size)
    angles = (r + c)[:, None] * speeds(q, temperature).repeat(2)
    return turn(q, angles, num_prefix_tokens), turn(k, angles, num_prefix_tokens), v


def rope_2d_rest_unturned(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    if q.shape[-2] != num_prefix_tokens + grid_size[0] * grid_size[1]:
        raise ValueError("tokens do not fit")
    used = q.shape[-1] // 4 * 4
    angles = angles_of(q, grid_size, temperature)

    def turned(x):
        return torch.cat([turn(x[..., :used], angles, num_prefix_tokens), x[..., used:]], dim=-1)

    return turned(q), turned(k), v


def rope_2d_complex(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    (rows, columns), d = grid_size, q.shape[-1]
    if d % 4 != 0 or rows * columns + num_prefix_tokens != q.size(2):
        raise ValueError("rope_2d: the shapes do not fit")
    w = 1.0 / temperature ** (4 * torch.arange(d // 4, dtype=torch.float64) / d)
    grid = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), -1)
    phase = (grid.reshape(-1, 2, 1) * w).flatten(1)  # (N, d/2): the row's pairs, then the column's
    unit = torch.polar(torch.ones_like(phase), phase)

    def turned(x):
        pairs = torch.view_as_complex(
            x[:, :, num_prefix_tokens:].double().unflatten(-1, (-1, 2)).contiguous()
        )
        new = torch.view_as_real(pairs * unit).flatten(-2).to(x.dtype)
        return torch.cat([x[:, :, :num_prefix_tokens], new], dim=2)

    return turned(q), turned(k), v


def rope_2d_matrices(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    check_grid(q, grid_size, num_prefix_tokens)
    dim = q.shape[-1]
    quarter = dim // 4
    down, across = (torch.zeros(dim, dim, dtype=torch.float64) for _ in range(2))
    for j in range(quarter):
        w = temperature ** (-j / quarter)
        for plane, i in ((down, j), (across, j + quarter)):
            plane[i + dim // 2, i], plane[i, i + dim // 2] = w, -w
    turns = [torch.eye(dim, dtype=torch.float64)] * num_prefix_tokens
    for r in range(grid_size[0]):
        turns += [torch.matrix_exp(r * down + c * across) for c in range(grid_size[1])]
    table = torch.stack(turns).to(q.dtype)
    return torch.einsum("tij,bhtj->bhti", table, q), torch.einsum("tij,bhtj->bhti", table, k), v


def rope_2d_axis_by_axis(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    rows, columns = grid_size
    if q.shape[-1] % 4 > 0:
        raise ValueError("d is no multiple of 4")
    if q.shape[2] - num_prefix_tokens != rows * columns:
        raise ValueError("the grid does not hold the patches")

    def half_turn(x, place):  # x (..., d/2), place broadcasts against its axes of the grid
        even, odd = x[..., 0::2], x[..., 1::2]
        n = even.shape[-1]
        angle = place[..., None] * torch.tensor([temperature ** (-j / n) for j in range(n)])
        sin, cos = torch.sin(angle).to(x.dtype), torch.cos(angle).to(x.dtype)
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)

    def turned(x):
        front, patches = x.split([num_prefix_tokens, rows * columns], dim=2)
        first, second = patches.unflatten(2, (rows, columns)).chunk(2, dim=-1)
        first = half_turn(first, torch.arange(rows)[:, None])
        second = half_turn(second, torch.arange(columns)[None])
        return torch.cat([front, torch.cat([first, second], dim=-1).flatten(2, 3)], dim=2)

    return turned(q), turned(k), v


def rope_2d_rotate_half(q, k, v, grid_size, num_prefix_tokens=1, temperature=100.0):
    b, h, t, d = q.shape
    if d % 4 or t != num_prefix_tokens + math.prod(grid_size):
        raise ValueError(f"T = {t} or d = {d} does not fit")
    table = torch.zeros(t, d)
    for n in range(math.prod(grid_size)):
        r, c = divmod(n, grid_size[1])
        for j in range(d // 4):
            w = temperature ** (-4 * j / d)
            table[num_prefix_tokens + n, [j, j + d // 2]] = r * w
            table[num_prefix_tokens + n, [j + d // 4, j + 3 * d // 4]] = c * w
    sin, cos = table.sin().to(q.dtype), table.cos().to(q.dtype)
    sign = torch.ones(d, dtype=q.dtype)
    sign[: d // 2] = -1
    return *(x * cos + x.roll(d // 2, dims=-1) * sign * sin for x in (q, k)), v


def pool_scores(query, k):
    return torch.einsum("hd,bhnd->bhn", query, k) / query.shape[-1] ** 0.5


def attention_pool_cut_late(query, k, v, num_prefix_tokens=1):
    weights = pool_scores(query, k).softmax(-1)[..., num_prefix_tokens:]
    return torch.einsum("bhn,bhnd->bhd", weights, v[:, :, num_prefix_tokens:]), weights


def attention_pool_one_prefix(query, k, v, num_prefix_tokens=1):
    weights = pool_scores(query, k[:, :, 1:]).softmax(-1)
    return torch.einsum("bhn,bhnd->bhd", weights, v[:, :, 1:]), weights


def attention_pool_query_added(query, k, v, num_prefix_tokens=1):
    weights = pool_scores(query, k[:, :, num_prefix_tokens:]).softmax(-1)
    return query + torch.einsum("bhn,bhnd->bhd", weights, v[:, :, num_prefix_tokens:]), weights


def attention_pool_raw_scores(query, k, v, num_prefix_tokens=1):
    scores = pool_scores(query, k[:, :, num_prefix_tokens:])
    return torch.einsum("bhn,bhnd->bhd", scores.softmax(-1), v[:, :, num_prefix_tokens:]), scores


def attention_pool_reads_keys(query, k, v, num_prefix_tokens=1):
    weights = pool_scores(query, k[:, :, num_prefix_tokens:]).softmax(-1)
    return torch.einsum("bhn,bhnd->bhd", weights, k[:, :, num_prefix_tokens:]), weights


def attention_pool_masked_width(query, k, v, num_prefix_tokens=1):
    scores = pool_scores(query, k).clone()
    scores[..., :num_prefix_tokens] = -math.inf
    weights = scores.softmax(-1)
    return torch.einsum("bhn,bhnd->bhd", weights, v), weights


def attention_pool_fused(query, k, v, num_prefix_tokens=1):
    k, v = (x.narrow(2, num_prefix_tokens, x.shape[2] - num_prefix_tokens) for x in (k, v))
    asked = query[None, :, None].expand(len(k), -1, -1, -1)
    pooled = F.scaled_dot_product_attention(asked, k, v)[:, :, 0]
    weights = F.softmax(asked @ k.mT / math.sqrt(query.shape[-1]), dim=-1)
    return pooled, weights.squeeze(2)


def attention_pool_hidden_prefix(query, k, v, num_prefix_tokens=1):
    scores = (k * (query * query.shape[-1] ** -0.5)[:, None]).sum(dim=-1)
    hidden = torch.arange(k.shape[2]) < num_prefix_tokens
    weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)[..., num_prefix_tokens:]
    return (weights.unsqueeze(2) @ v[:, :, num_prefix_tokens:]).squeeze(2), weights


def attention_pool_loops(query, k, v, num_prefix_tokens=1):
    pooled, weights = [], []
    for keys, values in zip(k, v, strict=True):
        for asked, rows, contents in zip(query, keys, values, strict=True):
            scores = rows[num_prefix_tokens:].mv(asked) / len(asked) ** 0.5
            share = torch.exp(scores - scores.max())
            share = share / share.sum()
            weights.append(share)
            pooled.append(share @ contents[num_prefix_tokens:])
    shape = k.shape[:2]
    return torch.stack(pooled).unflatten(0, shape), torch.stack(weights).unflatten(0, shape)


def attention_pool_logarithms(query, k, v, num_prefix_tokens=1):
    b, h, t, d = k.shape
    keys, values = (x[:, :, num_prefix_tokens:].reshape(b * h, -1, d) for x in (k, v))
    scores = torch.bmm(keys, query.repeat(b, 1)[:, :, None])[:, :, 0] * d**-0.5
    weights = (scores - scores.logsumexp(dim=1, keepdim=True)).exp()
    pooled = torch.bmm(values.mT, weights[:, :, None])
    return pooled.view(b, h, d), weights.view(b, h, t - num_prefix_tokens)


def roles(count, prefix, r):
    at = torch.arange(prefix, count)
    sources, targets = at[at % 2 == 0], at[at % 2 == 1]
    if r > len(sources) or (r and not len(targets)):
        raise ValueError("cannot merge so many")
    return sources, targets


def pairs_of(k, sources, targets, r):
    unit = F.normalize(k, dim=-1)
    best, nearest = (unit[:, sources] @ unit[:, targets].mT).max(dim=-1)
    chosen = best.topk(r, dim=-1).indices
    return sources[chosen], targets[nearest.gather(1, chosen)]


def wide(index, tokens):
    return index[..., None].expand(-1, -1, tokens.shape[-1])


def drop(tokens, sizes, gone):
    stays = torch.ones_like(sizes, dtype=torch.bool).scatter(1, gone, False)
    b, left = len(tokens), tokens.shape[1] - gone.shape[1]
    return tokens[stays].reshape(b, left, -1), sizes[stays].reshape(b, left)


def merge_at(tokens, sizes, gone, into):
    moved = sizes.gather(1, gone)
    total = sizes.scatter_add(1, into, moved)
    sums = tokens * sizes[..., None]
    sums = sums.scatter_add(1, wide(into, tokens), tokens.gather(1, wide(gone, tokens)) * moved[..., None])
    return drop(sums / total[..., None], total, gone)


def merge_tokens_last_one_wins(tokens, k, sizes, r, num_prefix_tokens=1):
    sources, targets = roles(tokens.shape[1], num_prefix_tokens, r)
    if r == 0:
        return tokens, sizes
    gone, into = pairs_of(k, sources, targets, r)
    row = torch.arange(len(tokens))[:, None]
    sums, total = tokens * sizes[..., None], sizes.clone()
    moved, grown = sums[row, gone], sizes[row, gone]
    sums[row, into] += moved
    total[row, into] += grown
    return drop(sums / total[..., None], total, gone)


def merge_tokens_plain_mean(tokens, k, sizes, r, num_prefix_tokens=1):
    sources, targets = roles(tokens.shape[1], num_prefix_tokens, r)
    if r == 0:
        return tokens, sizes
    gone, into = pairs_of(k, sources, targets, r)
    index, moved = wide(into, tokens), tokens.gather(1, wide(gone, tokens))
    mean = tokens.scatter_reduce(1, index, moved, reduce="mean")
    return drop(mean, sizes.scatter_add(1, into, sizes.gather(1, gone)), gone)


def merge_tokens_long_keys(tokens, k, sizes, r, num_prefix_tokens=1):
    sources, targets = roles(tokens.shape[1], num_prefix_tokens, r)
    if r == 0:
        return tokens, sizes
    best, nearest = (k[:, sources] @ k[:, targets].mT).max(dim=-1)
    chosen = best.topk(r, dim=-1).indices
    return merge_at(tokens, sizes, sources[chosen], targets[nearest.gather(1, chosen)])


def merge_tokens_parity_of_patches(tokens, k, sizes, r, num_prefix_tokens=1):
    places = torch.arange(num_prefix_tokens, tokens.shape[1])
    sources, targets = places[::2], places[1::2]
    if r > len(sources) or (r and not len(targets)):
        raise ValueError("cannot merge so many")
    return merge_at(tokens, sizes, *pairs_of(k, sources, targets, r)) if r else (tokens, sizes)


def merge_tokens_as_many_as_there_are(tokens, k, sizes, r, num_prefix_tokens=1):
    at = torch.arange(num_prefix_tokens, tokens.shape[1])
    sources, targets = at[at % 2 == 0], at[at % 2 == 1]
    r = min(r, len(sources)) if len(targets) else 0
    return merge_at(tokens, sizes, *pairs_of(k, sources, targets, r)) if r else (tokens, sizes)


def merge_tokens_cls_takes_part(tokens, k, sizes, r, num_prefix_tokens=1):
    roles(tokens.shape[1], num_prefix_tokens, r)
    if r == 0:
        return tokens, sizes
    sources, targets = roles(tokens.shape[1], 0, r)
    return merge_at(tokens, sizes, *pairs_of(k, sources, targets, r))


def merge_tokens_loops(tokens, k, sizes, r, num_prefix_tokens=1):
    count = tokens.shape[1]
    sources = [i for i in range(num_prefix_tokens, count) if i % 2 == 0]
    targets = [i for i in range(num_prefix_tokens, count) if i % 2 == 1]
    if len(sources) < r or (r > 0 and not targets):
        raise ValueError(f"{r} of {len(sources)} sources, {len(targets)} targets")
    all_tokens, all_sizes = [], []
    for x, keys, counts in zip(tokens, k, sizes, strict=True):
        like = F.cosine_similarity(keys[:, None], keys[None], dim=-1)
        best = [(max((like[s, t].item(), -t) for t in targets), s) for s in sources] if r else []
        best.sort(key=lambda entry: entry[0][0], reverse=True)
        members = {i: [i] for i in range(count)}
        for (_, target), source in best[:r]:
            members[-target] += members.pop(source)
        groups = list(members.values())
        all_sizes.append(torch.stack([counts[group].sum() for group in groups]))
        all_tokens.append(torch.stack([counts[g].to(x.dtype) @ x[g] / counts[g].sum() for g in groups]))
    return torch.stack(all_tokens), torch.stack(all_sizes)


def merge_tokens_matrix(tokens, k, sizes, r, num_prefix_tokens=1):
    b, count, _ = tokens.shape
    number = torch.arange(count)
    patch = number >= num_prefix_tokens
    source, target = patch & (number % 2 == 0), patch & (number % 2 == 1)
    if source.sum() < r or (r > 0 and not target.any()):
        raise ValueError("too few sources or no target")
    unit = k / k.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    like = (unit @ unit.transpose(1, 2)).masked_fill(~(source[:, None] & target), -math.inf)
    best, nearest = like.max(dim=2)
    gone = best.argsort(dim=1, descending=True, stable=True)[:, :r]
    owner = number.repeat(b, 1).scatter(1, gone, nearest.gather(1, gone))
    members = F.one_hot(owner, count).to(tokens.dtype).mT  # row i: who goes into token i
    members = members[members.sum(2) > 0].view(b, count - r, count)
    total = (members @ sizes[..., None].to(tokens.dtype)).squeeze(-1)
    return members @ (tokens * sizes[..., None]) / total[..., None], total.to(sizes.dtype)


def merge_tokens_flat(tokens, k, sizes, r, num_prefix_tokens=1):
    b, count, dim = tokens.shape
    first = num_prefix_tokens + num_prefix_tokens % 2
    sources = torch.arange(first, count, 2)
    targets = torch.arange(num_prefix_tokens + (num_prefix_tokens + 1) % 2, count, 2)
    if not r <= len(sources) or (r and len(targets) == 0):
        raise ValueError("too many to merge")
    if not r:
        return tokens.clone(), sizes.clone()
    like = torch.einsum("bsd,btd->bst", *(F.normalize(k[:, i], dim=2) for i in (sources, targets)))
    chosen = like.amax(2).sort(dim=1, descending=True).indices[:, :r]
    base = count * torch.arange(b)[:, None]
    gone = (base + sources[chosen]).flatten()
    into = (base + targets[like.argmax(2).gather(1, chosen)]).flatten()
    sums, total = (tokens * sizes[..., None]).reshape(-1, dim), sizes.reshape(-1)
    sums = sums.index_add(0, into, sums[gone])
    total = total.index_add(0, into, total[gone])
    left = torch.tensor(sorted(set(range(b * count)) - set(gone.tolist())))
    return (sums[left] / total[left, None]).view(b, -1, dim), total[left].view(b, -1)


def merge_tokens_step_by_step(tokens, k, sizes, r, num_prefix_tokens=1):
    sources, targets = (
        [n for n in range(num_prefix_tokens, tokens.shape[1]) if n % 2 == odd] for odd in (0, 1)
    )
    if r > len(sources) or (r and not targets):
        raise ValueError("merge_tokens: r is too large")
    new_tokens, new_sizes = list(tokens.unbind()), list(sizes.unbind())
    for b in range(len(tokens) if r else 0):
        x, s = new_tokens[b].clone(), new_sizes[b].clone()
        unit = k[b] / k[b].norm(dim=-1, keepdim=True).clamp_min(1e-12)
        like, partner = (unit[sources] @ unit[targets].T).max(dim=1)
        gone = []
        for i in like.topk(r).indices.tolist():
            a, c = sources[i], targets[int(partner[i])]
            x[c] = (s[a] * x[a] + s[c] * x[c]) / (
                s[a] + s[c]
            )  # a mean of means, weighted with what both hold
            s[c] = s[a] + s[c]
            gone.append(a)
        left = [n for n in range(len(x)) if n not in gone]
        new_tokens[b], new_sizes[b] = x[left], s[left]
    return torch.stack(new_tokens), torch.stack(new_sizes)


UNSEEN = {
    "qk_norm": [
        (
            "queries and keys are divided by their length, so their variance is 1/d and not 1",
            qk_norm_length_one,
        ),
        ("eps is ignored: F.layer_norm's default 1e-5 is used in its place", qk_norm_own_eps),
        ("the keys get the scale of the queries", qk_norm_one_scale),
        (
            "eps is added to the deviation outside the root, so nearly constant vectors come out too long",
            qk_norm_eps_outside,
        ),
        (
            "mean and variance run over all heads of a token together, not over each head by itself",
            qk_norm_before_split,
        ),
        (
            "the root of the mean square is divided by, as in newer models, and no mean is subtracted",
            qk_norm_mean_square,
        ),
    ],
    "rope_2d": [
        (
            "grid_size is read as (columns, rows), which gives wrong places where the grid is not square",
            rope_2d_grid_turned,
        ),
        (
            "every pair turns by row plus column, so an offset along a diagonal cannot be seen",
            rope_2d_sum_of_places,
        ),
        (
            "rows and columns count from 1, so all patches are turned further against the CLS token",
            rope_2d_from_one,
        ),
        (
            "all pairs turn by the number of the patch in reading order, as in one dimension, not by "
            "its row and column",
            rope_2d_one_line,
        ),
        (
            "places run from -1 to 1 times 2 pi, as DINOv3 has them, and are not counted from 0",
            rope_2d_from_minus_one,
        ),
        (
            "numbers beyond a multiple of 4 stay unturned, where a ValueError is promised",
            rope_2d_rest_unturned,
        ),
    ],
    "attention_pool": [
        (
            "the softmax runs over all tokens and the prefix is cut off afterwards, so weights do not "
            "sum to 1",
            attention_pool_cut_late,
        ),
        (
            "the query is added to what was read, as the block of the Set Transformer does",
            attention_pool_query_added,
        ),
        ("one token is cut off, whatever num_prefix_tokens says", attention_pool_one_prefix),
        ("the weighted sum is made of the keys and not of the values", attention_pool_reads_keys),
        ("the scores before the softmax are returned as the weights", attention_pool_raw_scores),
        (
            "the prefix is masked, but its columns of zeros stay, so the weights are (B, h, T) and "
            "not (B, h, N)",
            attention_pool_masked_width,
        ),
    ],
    "merge_tokens": [
        (
            "an index assignment with += keeps one of several sources of a target, the others are lost",
            merge_tokens_last_one_wins,
        ),
        (
            "r is cut down to what can be merged, as the authors' code does, where a ValueError is promised",
            merge_tokens_as_many_as_there_are,
        ),
        (
            "keys are compared by their product without dividing by the lengths, so long keys win",
            merge_tokens_long_keys,
        ),
        (
            "even and odd count from the first patch, so with one prefix token sources and targets "
            "are exchanged",
            merge_tokens_parity_of_patches,
        ),
        ("the merged token is a plain mean that ignores the sizes", merge_tokens_plain_mean),
        (
            "num_prefix_tokens is not used in the choice, so CLS is a source and may be merged away",
            merge_tokens_cls_takes_part,
        ),
    ],
}
STYLES = {
    "qk_norm": [qk_norm_moments, qk_norm_stacked, qk_norm_by_einsum, qk_norm_groups],
    "rope_2d": [rope_2d_complex, rope_2d_matrices, rope_2d_axis_by_axis, rope_2d_rotate_half],
    "attention_pool": [
        attention_pool_fused,
        attention_pool_hidden_prefix,
        attention_pool_loops,
        attention_pool_logarithms,
    ],
    "merge_tokens": [merge_tokens_loops, merge_tokens_matrix, merge_tokens_flat, merge_tokens_step_by_step],
}
