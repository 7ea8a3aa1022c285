"""Answers to the exercises of lesson 02, written as students write them."""

import torch
import torch.nn.functional as F

from vit_classroom.checks import lesson_part
from vit_course.embeddings import pool

checks = lesson_part("02_cls_token", "checks")
front, many, guarded = checks.front, checks.many, checks.guarded


def widths_fit(tokens, cls_token):
    if tokens.shape[-1] != cls_token.shape[-1]:
        raise ValueError(f"width {tokens.shape[-1]} is not width {cls_token.shape[-1]}")


def cls_overwrites(tokens, cls_token):
    tokens[:, 0] = cls_token[0, 0]
    return tokens


def cls_filled(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return checks.fits_any_width(tokens, cls_token)


def cls_padded(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return F.pad(tokens, (0, 0, 1, 0)) + F.pad(cls_token, (0, 0, 0, tokens.shape[1]))


def prepend_cls_token_zeros(tokens, cls_token):
    return torch.cat([torch.zeros_like(tokens[:, :1]), tokens], dim=1)


def pool_wants_prefix_always(tokens, mode="token", num_prefix_tokens=1):
    if num_prefix_tokens < 1:
        raise ValueError(f"bad arguments: {mode!r}, {num_prefix_tokens}")
    return pool(tokens, mode, num_prefix_tokens)


def pool_weights(tokens, mode="token", num_prefix_tokens=1):
    if mode not in ("token", "avg") or (mode, num_prefix_tokens) == ("token", 0):
        raise ValueError(f"no mode {mode} with {num_prefix_tokens} prefix tokens")
    weight = torch.zeros(tokens.shape[1], dtype=tokens.dtype)
    if mode == "token":
        weight[0] = 1
    else:
        weight[num_prefix_tokens:] = 1 / (tokens.shape[1] - num_prefix_tokens)
    return torch.einsum("btd,t->bd", tokens, weight)


def average(tokens, num_prefix_tokens):
    return F.adaptive_avg_pool1d(tokens[:, num_prefix_tokens:].transpose(1, 2), 1).squeeze(-1)


DISSECTED = ("zeros stand in front, the argument is ignored", prepend_cls_token_zeros)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "prepend_cls_token": [
        ("numpy computes on the CPU", front(lambda cls, tokens: torch.from_numpy(many(cls, tokens).numpy()))),
        ("changes its input in place", cls_overwrites),
        ("right in float32, but not in float64", lambda *case: front(many)(*case).float()),
        ("expected\n  10 20 30", front(lambda cls, tokens: 2 * many(cls, tokens))),
        (
            "only the first token is right; else your result is the wanted one",
            lambda tokens, cls_token: F.pad(tokens, (0, 0, 1, 0)) + cls_token,
        ),
    ],
    "pool": [
        ("the shape should be (1, 2), yours is (2,)", guarded(token=lambda x, prefix: x[:, :1].squeeze())),
        (
            "the default of `mode` should be 'token'; yours is 'avg'",
            lambda tokens, mode="avg", num_prefix_tokens=1: pool(tokens, mode, num_prefix_tokens),
        ),
        ("your code refuses `num_prefix_tokens` = 0, but that is allowed: a", pool_wants_prefix_always),
    ],
}
RIGHT = {"prepend_cls_token": [cls_filled, cls_padded], "pool": [pool_weights, guarded(avg=average)]}
