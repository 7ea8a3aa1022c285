"""Answers to the exercises of lesson 02, written as students write them."""

import torch
import torch.nn.functional as F
from torch import nn

from vit_classroom.checks.edits import edited
from vit_classroom.exhibits.cls_token import ClsToken
from vit_course.embeddings import pool, prepend_cls_token

EXPANDED = "cls_token.expand(tokens.shape[0], -1, -1)"


def widths_fit(tokens, cls_token):
    if tokens.shape[-1] != cls_token.shape[-1]:
        raise ValueError(f"width {tokens.shape[-1]} is not width {cls_token.shape[-1]}")


def cls_overwrites(tokens, cls_token):
    tokens[:, 0] = cls_token[0, 0]
    return tokens


def cls_filled(tokens, cls_token):
    widths_fit(tokens, cls_token)
    result = tokens.new_empty(tokens.shape[0], tokens.shape[1] + 1, tokens.shape[2])
    result[:, :1] = cls_token
    result[:, 1:] = tokens
    return result


def cls_padded(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return F.pad(tokens, (0, 0, 1, 0)) + F.pad(cls_token, (0, 0, 0, tokens.shape[1]))


def prepend_cls_token_zeros(tokens, cls_token):
    return torch.cat([torch.zeros_like(tokens[:, :1]), tokens], dim=1)


class ClsByCat(nn.Module):
    """Joins the tokens itself, and fills its parameter later."""

    def __init__(self, dim):
        super().__init__()
        self.cls_token = nn.Parameter(torch.empty(1, 1, dim))
        nn.init.zeros_(self.cls_token)

    def forward(self, tokens):
        front = self.cls_token.repeat(len(tokens), 1, 1)
        return torch.cat([front, tokens], dim=1)


class ClsRegistered(nn.Module):
    """Registers its parameter by name."""

    def __init__(self, dim):
        super().__init__()
        self.register_parameter("cls_token", nn.Parameter(torch.zeros(dim).reshape(1, 1, -1)))

    def forward(self, x):
        widths_fit(x, self.cls_token)
        return cls_padded(x, self.cls_token)


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


def pool_adaptive(tokens, mode="token", num_prefix_tokens=1):
    if mode == "token":
        return pool(tokens, mode, num_prefix_tokens)
    if mode != "avg":
        raise ValueError(mode)
    return F.adaptive_avg_pool1d(tokens[:, num_prefix_tokens:].transpose(1, 2), 1).squeeze(-1)


DISSECTED = ("zeros in front, the argument is ignored", prepend_cls_token_zeros)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "prepend_cls_token": [
        (
            "numpy computes on the CPU",
            edited(prepend_cls_token, f"{EXPANDED} => torch.from_numpy({EXPANDED}.numpy())"),
        ),
        ("changes its input in place", cls_overwrites),
        ("right in float32, but not in float64", edited(prepend_cls_token, "dim=1) => dim=1).float()")),
        ("expected\n  10 20 30", edited(prepend_cls_token, f"{EXPANDED} => 2 * {EXPANDED}")),
        (
            "only the first token is right; else your result is the wanted one",
            lambda tokens, cls_token: F.pad(tokens, (0, 0, 1, 0)) + cls_token,
        ),
    ],
    "ClsToken": [
        (
            "for tokens (3, 4, 6) `forward` stopped with",
            edited(ClsToken, "(tokens, self.cls => (tokens[0], self.cls"),
        ),
        (
            "the patch tokens come back unchanged",
            edited(ClsToken, "prepend_cls_token(tokens, self.cls_token) => tokens"),
        ),
        (
            "tokens (3, 4, 6) should become (3, 5, 6), yours are (3, 6, 6)",
            edited(
                ClsToken,
                "prepend_cls_token(tokens, => prepend_cls_token(prepend_cls_token(tokens, self.cls_token),",
            ),
        ),
        (
            "the CLS token is right, but the patch tokens behind it have changed",
            edited(ClsToken, "prepend_cls_token(tokens, => prepend_cls_token(tokens.flip(1),"),
        ),
        (
            "`forward` should return a tensor, yours returns NoneType",
            edited(ClsToken, "return prepend => prepend"),
        ),
    ],
    "pool": [
        (
            "the shape should be (1, 2), yours is (2,)",
            edited(pool, "tokens[:, 0] => tokens[:, :1].squeeze()"),
        ),
        (
            "the default of `mode` should be 'token'; yours is 'avg'",
            lambda tokens, mode="avg", num_prefix_tokens=1: pool(tokens, mode, num_prefix_tokens),
        ),
        ("your code refuses `num_prefix_tokens` = 0, but that is allowed: a", pool_wants_prefix_always),
    ],
}
RIGHT = {
    "prepend_cls_token": [cls_filled, cls_padded],
    "ClsToken": [ClsByCat, ClsRegistered],
    "pool": [pool_weights, pool_adaptive],
}
