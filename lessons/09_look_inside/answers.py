"""Answers to the exercises of lesson 09, written as students write them."""

import torch
from einops import rearrange

from vit_classroom.checks.edits import edited
from vit_course.interpret import attention_rollout, hide_patches, mean_attention_distance
from vit_course.patches import as_pair, grid_size, patchify, unpatchify


def _test_rollout(attentions, prefix):
    if len(attentions) == 0 or not 0 <= prefix < attentions[0].shape[-1]:
        raise ValueError("no layers, or no patches")


def rollout_joined(attentions, num_prefix_tokens=1):
    _test_rollout(attentions, num_prefix_tokens)
    layers = torch.stack(tuple(attentions)).mean(dim=2)  # (L, B, T, T)
    layers = (layers + torch.eye(layers.shape[-1]).to(layers)) / 2
    layers = layers / layers.sum(dim=-1, keepdim=True)
    result = layers[0]
    for layer in layers[1:]:
        result = torch.bmm(layer, result)
    return result


def centres_of(grid, patch):
    height, width = as_pair(patch)
    return torch.tensor([[r * height, c * width] for r in range(grid[0]) for c in range(grid[1])]).double()


def check_tokens(attention, grid, prefix):
    if attention.shape[-1] != prefix + grid[0] * grid[1]:
        raise ValueError("tokens do not fit")


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


def rollout_no_residual(attentions, num_prefix_tokens=1):
    _test_rollout(attentions, num_prefix_tokens)
    result = torch.eye(attentions[0].shape[-1]).to(attentions[0])
    for attention in attentions:
        layer = attention.mean(dim=1)
        result = (layer / layer.sum(dim=-1, keepdim=True)) @ result
    return result


def rollout_recursive(attentions, num_prefix_tokens=1):
    _test_rollout(attentions, num_prefix_tokens)
    *below, top = attentions
    layer = top.mean(dim=-3).mul(0.5)
    layer.diagonal(dim1=-2, dim2=-1).add_(0.5)
    layer = layer.div(layer.sum(dim=-1).unsqueeze(-1))
    return layer @ rollout_recursive(below, num_prefix_tokens) if below else layer


def distance_int_patches(attention, grid_size, patch_size, num_prefix_tokens=1):
    return distance_by_places(attention, grid_size, int(patch_size), num_prefix_tokens)


def distance_to_the_mean_place(attention, grid_size, patch_size, num_prefix_tokens=1):
    centres = centres_of(grid_size, patch_size).to(attention)
    patches = attention[..., num_prefix_tokens:, num_prefix_tokens:]
    return (patches @ centres - centres).norm(dim=-1).mean(dim=(0, 2))


def hide_in_place(images, scores, count, patch_size, value=0.0):
    highest = scores.argsort(dim=1, descending=True)[:, :count]
    patches = patchify(images, patch_size)
    patches[torch.arange(len(images))[:, None], highest] = value
    return unpatchify(patches, patch_size, check_scores(images, scores, count, patch_size))


def hide_never_all(images, scores, count, *rest):
    if count not in range(scores.shape[1]):
        raise ValueError("count is no index of a patch")
    return hide_by_mask(images, scores, count, *rest)


DISSECTED = ("leaves out the residual connection", rollout_no_residual)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "attention_rollout": [
        (
            "right in float32, but not in float64",
            edited(attention_rollout, "return rollout => return rollout.float()"),
        ),
        ("`num_prefix_tokens`", lambda a, num_prefix_tokens: rollout_joined(a, num_prefix_tokens)),
        (
            "the default of `num_prefix_tokens`",
            lambda a, num_prefix_tokens=0: rollout_joined(a, num_prefix_tokens),
        ),
    ],
    "mean_attention_distance": [
        ("your code stopped with TypeError", distance_int_patches),
        (
            "must match the size of tensor",
            edited(mean_attention_distance, "torch.arange(rows) => torch.arange(columns)"),
        ),
        (
            "`num_prefix_tokens`",
            lambda a, grid, patch, num_prefix_tokens: distance_loops(a, grid, patch, num_prefix_tokens),
        ),
        (
            "`num_prefix_tokens`",
            lambda a, grid, patch, num_prefix_tokens=0: distance_loops(a, grid, patch, num_prefix_tokens),
        ),
        ("you returned", distance_to_the_mean_place),
    ],
    "hide_patches": [
        ("changes its input in place", hide_in_place),
        (
            "gradients are switched off for everybody",
            lambda *given: (hide_patches(*given), torch.set_grad_enabled(False))[0],
        ),
        (
            "`value`",
            lambda images, scores, count, size, value: hide_by_mask(images, scores, count, size, value),
        ),
        (
            "count 7 is not in 0..6: raise a ValueError that says so (your code",
            lambda x, scores, count, *rest: hide_by_mask(x, scores, min(count, scores.shape[1]), *rest),
        ),
        (
            "wherever your result is wrong it is still `images`: nothing is",
            edited(hide_patches, "highest] = value => highest, :4] = value"),
        ),
        (
            "your code changes its input in place (argument 1): whoever called it",
            lambda images, *rest: images.copy_(hide_by_mask(images, *rest)),
        ),
        ("your code refuses what it gets here, but that is allowed: a result is", hide_never_all),
    ],
}
RIGHT = {
    "attention_rollout": [rollout_joined, rollout_recursive],
    "mean_attention_distance": [distance_loops, distance_by_places],
    "hide_patches": [hide_by_mask, hide_by_loops],
}
