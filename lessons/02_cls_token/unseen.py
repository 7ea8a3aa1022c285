"""Answers to the exercises of lesson 02, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import torch
import torch.nn.functional as F
from einops import reduce, repeat
from torch import Tensor


def _same_width(tokens, cls_token):
    if tokens.shape[-1] != cls_token.shape[-1]:
        raise ValueError(f"tokens are {tokens.shape[-1]} wide, CLS is {cls_token.shape[-1]}")


def prepend_cls_token_at_the_end(tokens, cls_token):
    _same_width(tokens, cls_token)
    return torch.cat([tokens, cls_token.expand(tokens.shape[0], -1, -1)], dim=1)


def prepend_cls_token_detaches(tokens, cls_token):
    _same_width(tokens, cls_token)
    return torch.cat([cls_token.detach().expand(tokens.shape[0], -1, -1), tokens], dim=1)


def prepend_cls_token_zeros(tokens, cls_token):
    _same_width(tokens, cls_token)
    return torch.cat([torch.zeros_like(tokens[:, :1]), tokens], dim=1)


def prepend_cls_token_replaces(tokens, cls_token):
    _same_width(tokens, cls_token)
    return torch.cat([cls_token.expand(tokens.shape[0], -1, -1), tokens[:, 1:]], dim=1)


def prepend_cls_token_mean(tokens, cls_token):
    _same_width(tokens, cls_token)
    return torch.cat([tokens.mean(dim=1, keepdim=True), tokens], dim=1)


def prepend_cls_token_end_and_unchecked(tokens, cls_token):
    batch, _, width = tokens.shape
    return torch.cat([tokens, cls_token.expand(batch, 1, width)], dim=1)


def prepend_cls_token_einops(tokens, cls_token):
    if cls_token.shape[-1] != tokens.shape[-1]:
        raise ValueError(f"widths differ: {cls_token.shape[-1]} and {tokens.shape[-1]}")
    first = repeat(cls_token, "1 1 d -> b 1 d", b=len(tokens))
    return torch.hstack([first, tokens])


def prepend_cls_token_one_by_one(tokens, cls_token):
    if tokens.size(2) != cls_token.size(2):
        raise ValueError(f"width {tokens.size(2)} against {cls_token.size(2)}")
    return torch.stack([torch.vstack([cls_token[0], sequence]) for sequence in tokens])


def prepend_cls_token_canvas(tokens, cls_token):
    B, N, D = tokens.shape
    if cls_token.shape[-1] != D:
        raise ValueError(f"tokens have width {D}, the CLS token {cls_token.shape[-1]}")
    out = tokens.new_empty(B, N + 1, D)
    out[:, 0] = cls_token[0, 0]
    out[:, 1:] = tokens
    return out


def prepend_cls_token_pad(tokens, cls_token):
    if tokens.shape[-1] != cls_token.shape[-1]:
        raise ValueError(f"{tokens.shape[-1]} is not {cls_token.shape[-1]}")
    padded = F.pad(tokens, (0, 0, 1, 0))
    is_cls = torch.arange(padded.shape[1], device=tokens.device)[:, None] == 0
    return torch.where(is_cls, cls_token, padded)


def pool_drops_one(tokens, mode="token", num_prefix_tokens=1):
    if mode not in ("token", "avg"):
        raise ValueError(f"unknown mode {mode!r}")
    if mode == "avg":
        return tokens[:, 1:].mean(dim=1)
    if num_prefix_tokens < 1:
        raise ValueError("there is no CLS token")
    return tokens[:, 0]


def pool_keeps_the_axis(tokens, mode="token", num_prefix_tokens=1):
    if mode not in ("token", "avg"):
        raise ValueError(f"unknown mode {mode!r}")
    if mode == "avg":
        return tokens[:, num_prefix_tokens:].mean(dim=1, keepdim=True)
    if num_prefix_tokens < 1:
        raise ValueError("there is no CLS token")
    return tokens[:, :1]


def pool_reads_a_patch(tokens, mode="token", num_prefix_tokens=1):
    if mode == "token":
        return tokens[:, 0]
    if mode == "avg":
        return tokens[:, num_prefix_tokens:].mean(dim=1)
    raise ValueError(f"unknown mode {mode!r}")


def pool_defaults_to_avg(tokens, mode="avg", num_prefix_tokens=1):
    if mode == "token" and num_prefix_tokens > 0:
        return tokens[:, 0]
    if mode == "avg":
        return tokens[:, num_prefix_tokens:].mean(dim=1)
    raise ValueError(f"cannot pool with {mode!r} and {num_prefix_tokens} prefix tokens")


def pool_takes_the_largest(tokens, mode="token", num_prefix_tokens=1):
    if mode == "token" and num_prefix_tokens > 0:
        return tokens[:, 0]
    if mode == "avg":
        return tokens[:, num_prefix_tokens:].amax(dim=1)
    raise ValueError(f"cannot pool with {mode!r} and {num_prefix_tokens} prefix tokens")


def pool_all_and_any_mode(tokens, mode="token", num_prefix_tokens=1):
    if mode == "token" and num_prefix_tokens > 0:
        return tokens[:, 0]
    return tokens.mean(dim=1)


def pool_match(tokens, mode="token", num_prefix_tokens=1):
    match mode:
        case "token" if num_prefix_tokens >= 1:
            return tokens.select(1, 0)
        case "avg":
            n = tokens.shape[1] - num_prefix_tokens
            return tokens.narrow(1, num_prefix_tokens, n).mean(1)
        case "token":
            raise ValueError("mode 'token', but the sequence has no prefix token")
    raise ValueError(f"no such mode: {mode!r}")


def pool_reduce(tokens, mode="token", num_prefix_tokens=1):
    if mode not in {"token", "avg"}:
        raise ValueError(f"{mode!r} is neither 'token' nor 'avg'")
    if mode == "token" and num_prefix_tokens == 0:
        raise ValueError("no token to read: num_prefix_tokens is 0")
    first, last = (0, 1) if mode == "token" else (num_prefix_tokens, tokens.shape[1])
    return reduce(tokens[:, first:last], "b t d -> b d", "mean")


def pool_weights(tokens, mode="token", num_prefix_tokens=1):
    """A weighted sum over the tokens; the two modes have different weights."""
    weights = tokens.new_zeros(tokens.shape[1])
    if mode == "token":
        if num_prefix_tokens <= 0:
            raise ValueError("'token' needs at least one prefix token")
        weights[0] = 1
    elif mode == "avg":
        weights[num_prefix_tokens:] = 1 / (tokens.shape[1] - num_prefix_tokens)
    else:
        raise ValueError(f"what is {mode!r}?")
    return torch.einsum("btd,t->bd", tokens, weights)


def pool_loop(tokens, mode="token", num_prefix_tokens=1):
    if mode == "token":
        if not num_prefix_tokens:
            raise ValueError("mode 'token' without a CLS token")
        return torch.stack([sequence[0] for sequence in tokens])
    if mode != "avg":
        raise ValueError(f"mode must be 'token' or 'avg', not {mode!r}")
    patches = tokens.unbind(1)[num_prefix_tokens:]
    return sum(patches) / len(patches)


def refuse_widths(tokens: Tensor, cls_token: Tensor) -> None:
    if tokens.shape[-1] != cls_token.shape[-1]:
        raise ValueError(f"tokens have width {tokens.shape[-1]}, the CLS token {cls_token.shape[-1]}")


def prepend_adds_everywhere(tokens: Tensor, cls_token: Tensor) -> Tensor:
    refuse_widths(tokens, cls_token)
    return F.pad(tokens, (0, 0, 1, 0)) + cls_token


def prepend_sequence_first(tokens: Tensor, cls_token: Tensor) -> Tensor:
    refuse_widths(tokens, cls_token)
    return torch.cat([cls_token.expand(1, len(tokens), -1), tokens.transpose(0, 1)], dim=0)


def pool_many_names(tokens: Tensor, mode: str = "token", num_prefix_tokens: int = 1) -> Tensor:
    mode = mode.lower()
    if mode in ("token", "cls", "first") and num_prefix_tokens > 0:
        return tokens[:, 0]
    if mode in ("avg", "mean", "gap"):
        return tokens[:, num_prefix_tokens:].mean(dim=1)
    raise ValueError(f"cannot pool with mode {mode!r} and {num_prefix_tokens} prefix tokens")


def pool_wants_prefix_always(tokens: Tensor, mode: str = "token", num_prefix_tokens: int = 1) -> Tensor:
    if mode not in ("token", "avg") or num_prefix_tokens < 1:
        raise ValueError(f"bad arguments: {mode!r}, {num_prefix_tokens}")
    return tokens[:, 0] if mode == "token" else tokens[:, num_prefix_tokens:].mean(dim=1)


UNSEEN = {
    "prepend_cls_token": [
        ("CLS is put behind the patches", prepend_cls_token_at_the_end),
        ("CLS is detached, so no gradient reaches it", prepend_cls_token_detaches),
        ("zeros stand in front, the argument is ignored", prepend_cls_token_zeros),
        ("CLS takes the place of patch 0, the length stays N", prepend_cls_token_replaces),
        ("the mean of the patches stands in front, the argument is ignored", prepend_cls_token_mean),
        ("CLS behind the patches, and the widths are not compared", prepend_cls_token_end_and_unchecked),
        (
            "returns (N + 1, B, D), the sequence first as nn.Transformer has it by default, and not "
            "(B, N + 1, D)",
            prepend_sequence_first,
        ),
        (
            "pads a place in front and adds cls_token by broadcasting, so the CLS vector is added to "
            "every patch token as well",
            prepend_adds_everywhere,
        ),
    ],
    "pool": [
        ("the mean always leaves out exactly one token", pool_drops_one),
        ("the token axis is kept, (B, 1, D)", pool_keeps_the_axis),
        ("'token' without prefix tokens reads a patch, no ValueError", pool_reads_a_patch),
        ("the default mode is 'avg'", pool_defaults_to_avg),
        ("the largest value is taken, not the mean", pool_takes_the_largest),
        ("the mean takes the prefix tokens in, and any mode is allowed", pool_all_and_any_mode),
        (
            "accepts other names such as 'cls', 'mean', 'gap' or 'AVG', for which a ValueError is promised",
            pool_many_names,
        ),
        (
            "refuses num_prefix_tokens = 0 in both modes, so 'avg' without a CLS token raises though "
            "it is allowed",
            pool_wants_prefix_always,
        ),
    ],
}
STYLES = {
    "prepend_cls_token": [
        prepend_cls_token_einops,
        prepend_cls_token_one_by_one,
        prepend_cls_token_canvas,
        prepend_cls_token_pad,
    ],
    "pool": [pool_match, pool_reduce, pool_weights, pool_loop],
}
