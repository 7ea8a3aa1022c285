"""Answers to the exercises of lesson 02, written as students write them."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def widths_fit(tokens, cls_token):
    if tokens.shape[-1] != cls_token.shape[-1]:
        raise ValueError(f"width {tokens.shape[-1]} is not width {cls_token.shape[-1]}")


def cls_by_numpy(tokens, cls_token):
    widths_fit(tokens, cls_token)
    front = cls_token.numpy().repeat(len(tokens), axis=0)
    return torch.from_numpy(np.concatenate([front, tokens.numpy()], axis=1))


def cls_overwrites(tokens, cls_token):
    tokens[:, 0] = cls_token[0, 0]
    return tokens


def cls_doubled(tokens, cls_token):
    return torch.cat([2 * cls_token.expand(len(tokens), -1, -1), tokens], dim=1)


def cls_filled(tokens, cls_token):
    widths_fit(tokens, cls_token)
    result = tokens.new_empty(tokens.shape[0], tokens.shape[1] + 1, tokens.shape[2])
    result[:, :1] = cls_token
    result[:, 1:] = tokens
    return result


def cls_padded(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return F.pad(tokens, (0, 0, 1, 0)) + F.pad(cls_token, (0, 0, 0, tokens.shape[1]))


def guard(mode, num_prefix_tokens):
    if mode not in ("token", "avg"):
        raise ValueError(f"no mode {mode}")
    if mode == "token" and num_prefix_tokens == 0:
        raise ValueError("no CLS token")


def pool_squeezes(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, num_prefix_tokens)
    return tokens[:, :1].squeeze() if mode == "token" else tokens[:, num_prefix_tokens:].mean(1)


def pool_weights(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, num_prefix_tokens)
    weight = torch.zeros(tokens.shape[1], dtype=tokens.dtype)
    if mode == "token":
        weight[0] = 1
    else:
        weight[num_prefix_tokens:] = 1 / (tokens.shape[1] - num_prefix_tokens)
    return torch.einsum("btd,t->bd", tokens, weight)


def pool_adaptive(tokens, mode="token", num_prefix_tokens=1):
    match_mode = {"token": lambda: tokens[:, 0], "avg": lambda: average(tokens, num_prefix_tokens)}
    guard(mode, num_prefix_tokens)
    return match_mode[mode]()


def average(tokens, num_prefix_tokens):
    return F.adaptive_avg_pool1d(tokens[:, num_prefix_tokens:].transpose(1, 2), 1).squeeze(-1)


def _same_width(tokens, cls_token):
    if tokens.shape[-1] != cls_token.shape[-1]:
        raise ValueError(f"tokens are {tokens.shape[-1]} wide, CLS is {cls_token.shape[-1]}")


def prepend_cls_token_zeros(tokens, cls_token):
    _same_width(tokens, cls_token)
    return torch.cat([torch.zeros_like(tokens[:, :1]), tokens], dim=1)


def pool_defaults_to_avg(tokens, mode="avg", num_prefix_tokens=1):
    if mode == "token" and num_prefix_tokens > 0:
        return tokens[:, 0]
    if mode == "avg":
        return tokens[:, num_prefix_tokens:].mean(dim=1)
    raise ValueError(f"cannot pool with {mode!r} and {num_prefix_tokens} prefix tokens")


def refuse_widths(tokens: Tensor, cls_token: Tensor) -> None:
    if tokens.shape[-1] != cls_token.shape[-1]:
        raise ValueError(f"tokens have width {tokens.shape[-1]}, the CLS token {cls_token.shape[-1]}")


def prepend_adds_everywhere(tokens: Tensor, cls_token: Tensor) -> Tensor:
    refuse_widths(tokens, cls_token)
    return F.pad(tokens, (0, 0, 1, 0)) + cls_token


def pool_wants_prefix_always(tokens: Tensor, mode: str = "token", num_prefix_tokens: int = 1) -> Tensor:
    if mode not in ("token", "avg") or num_prefix_tokens < 1:
        raise ValueError(f"bad arguments: {mode!r}, {num_prefix_tokens}")
    return tokens[:, 0] if mode == "token" else tokens[:, num_prefix_tokens:].mean(dim=1)


DISSECTED = ("zeros stand in front, the argument is ignored", prepend_cls_token_zeros)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "prepend_cls_token": [
        ("with tensors that learn", cls_by_numpy),
        ("changes its input in place", cls_overwrites),
        ("expected\n  10 20 30", cls_doubled),
        ("only the first token is right; else your result is the wanted one", prepend_adds_everywhere),
    ],
    "pool": [
        ("the shape should be (1, 2), yours is (2,)", pool_squeezes),
        ("the default of `mode` should be 'token'; yours is 'avg'", pool_defaults_to_avg),
        ("your code refuses `num_prefix_tokens` = 0, but that is allowed: a", pool_wants_prefix_always),
    ],
}
RIGHT = {
    "prepend_cls_token": [cls_filled, cls_padded],
    "pool": [pool_weights, pool_adaptive],
}
