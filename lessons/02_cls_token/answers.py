"""Answers to the exercises of lesson 02, written as students write them."""

import numpy as np
import torch
import torch.nn.functional as F
from einops import pack, reduce, repeat
from torch import nn


def widths_fit(tokens, cls_token):
    if tokens.shape[-1] != cls_token.shape[-1]:
        raise ValueError(f"width {tokens.shape[-1]} is not width {cls_token.shape[-1]}")


def cls_last(tokens, cls_token):
    return torch.cat([tokens, cls_token.repeat(tokens.shape[0], 1, 1)], dim=1)


def cls_plain_zeros(tokens, cls_token):
    zeros = torch.zeros(tokens.shape[0], 1, tokens.shape[2], dtype=tokens.dtype)
    return torch.cat([zeros, tokens], dim=1)


def cls_as_an_image(tokens, cls_token):
    return torch.cat([cls_token.repeat(1, tokens.shape[1], 1), tokens])


def cls_as_channels(tokens, cls_token):
    b, n, _ = tokens.shape
    return torch.cat([cls_token.repeat(b, n, 1), tokens], dim=-1)


def cls_added(tokens, cls_token):
    return cls_token + tokens


def cls_replaces_patch(tokens, cls_token):
    result = tokens.clone()
    result[:, 0] = cls_token[0, 0]
    return result


def cls_random(tokens, cls_token):
    front = torch.randn(tokens.shape[0], 1, tokens.shape[2], dtype=tokens.dtype)
    return torch.cat([front, tokens], dim=1)


def cls_not_expanded(tokens, cls_token):
    return torch.cat([cls_token, tokens], dim=1)


def cls_joined_to_batch(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return torch.cat([cls_token.expand(len(tokens), -1, -1), tokens])


def cls_detached(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return torch.cat([cls_token.detach().expand(len(tokens), -1, -1), tokens], dim=1)


def cls_new_parameter(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return torch.cat([nn.Parameter(cls_token).expand(len(tokens), -1, -1), tokens], dim=1)


def cls_no_grad(tokens, cls_token):
    widths_fit(tokens, cls_token)
    with torch.no_grad():
        return torch.cat([cls_token.expand(len(tokens), -1, -1), tokens], dim=1)


def cls_learned_from_one_image(tokens, cls_token):
    widths_fit(tokens, cls_token)
    others = cls_token.detach().expand(len(tokens) - 1, -1, -1)
    return torch.cat([torch.cat([cls_token, others]), tokens], dim=1)


def cls_tokens_detached(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return torch.cat([cls_token.expand(len(tokens), -1, -1), tokens.data], dim=1)


def cls_tokens_half_detached(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return torch.cat([cls_token.expand(len(tokens), -1, -1), 0.5 * tokens + 0.5 * tokens.detach()], dim=1)


def cls_by_numpy(tokens, cls_token):
    widths_fit(tokens, cls_token)
    front = cls_token.numpy().repeat(len(tokens), axis=0)
    return torch.from_numpy(np.concatenate([front, tokens.numpy()], axis=1))


def cls_broadcasts_any_width(tokens, cls_token):
    result = tokens.new_empty(tokens.shape[0], tokens.shape[1] + 1, tokens.shape[2])
    result[:, :1] = cls_token
    result[:, 1:] = tokens
    return result


def cls_other_error(tokens, cls_token):
    return torch.cat([cls_token.expand(len(tokens), -1, -1), tokens], dim=1)


def cls_overwrites(tokens, cls_token):
    tokens[:, 0] = cls_token[0, 0]
    return tokens


def cls_doubled(tokens, cls_token):
    return torch.cat([2 * cls_token.expand(len(tokens), -1, -1), tokens], dim=1)


def cls_mean_of_patches(tokens, cls_token):
    return torch.cat([tokens.mean(dim=1, keepdim=True), tokens], dim=1)


def cls_repeat(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return torch.cat((cls_token.repeat(tokens.shape[0], 1, 1), tokens), 1)


def cls_einops(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return pack([repeat(cls_token, "1 1 d -> b 1 d", b=tokens.shape[0]), tokens], "b * d")[0]


def cls_filled(tokens, cls_token):
    widths_fit(tokens, cls_token)
    result = tokens.new_empty(tokens.shape[0], tokens.shape[1] + 1, tokens.shape[2])
    result[:, :1] = cls_token
    result[:, 1:] = tokens
    return result


def cls_loop(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return torch.stack([torch.vstack([cls_token[0], image]) for image in tokens])


def cls_padded(tokens, cls_token):
    widths_fit(tokens, cls_token)
    return F.pad(tokens, (0, 0, 1, 0)) + F.pad(cls_token, (0, 0, 0, tokens.shape[1]))


def guard(mode, num_prefix_tokens):
    if mode not in ("token", "avg"):
        raise ValueError(f"no mode {mode}")
    if mode == "token" and num_prefix_tokens == 0:
        raise ValueError("no CLS token")


def pool_keeps_axis(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, num_prefix_tokens)
    return tokens[:, :1] if mode == "token" else tokens[:, num_prefix_tokens:].mean(1)


def pool_squeezes(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, num_prefix_tokens)
    return tokens[:, :1].squeeze() if mode == "token" else tokens[:, num_prefix_tokens:].mean(1)


def pool_last(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, num_prefix_tokens)
    return tokens[:, -1] if mode == "token" else tokens[:, num_prefix_tokens:].mean(1)


def pool_first_patch(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, num_prefix_tokens)
    return tokens[:, num_prefix_tokens] if mode == "token" else tokens[:, num_prefix_tokens:].mean(1)


def pool_last_prefix(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, num_prefix_tokens)
    return tokens[:, num_prefix_tokens - 1] if mode == "token" else tokens[:, num_prefix_tokens:].mean(1)


def pool_adds_prefix(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, num_prefix_tokens)
    return tokens[:, :num_prefix_tokens].sum(1) if mode == "token" else tokens[:, num_prefix_tokens:].mean(1)


def pool_by_first_letter(tokens, mode="token", num_prefix_tokens=1):
    guard({"t": "token", "a": "avg"}.get(mode[0]), num_prefix_tokens)
    return tokens[:, 0] if mode[0] == "t" else tokens[:, num_prefix_tokens:].mean(1)


def pool_first_image(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, num_prefix_tokens)
    return tokens[0] if mode == "token" else tokens[:, num_prefix_tokens:].mean(1)


def pool_always_average(tokens, mode="token", num_prefix_tokens=1):
    return tokens[:, num_prefix_tokens:].mean(dim=1)


def pool_always_token(tokens, mode="token", num_prefix_tokens=1):
    return tokens[:, 0]


def average_with(function):
    def pool(tokens, mode="token", num_prefix_tokens=1):
        guard(mode, num_prefix_tokens)
        return tokens[:, 0] if mode == "token" else function(tokens, num_prefix_tokens)

    return pool


def pool_detached(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, num_prefix_tokens)
    return tokens[:, 0] if mode == "token" else tokens.detach()[:, num_prefix_tokens:].mean(1)


def pool_by_numpy(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, num_prefix_tokens)
    x = tokens.numpy()
    return torch.from_numpy(x[:, 0] if mode == "token" else x[:, num_prefix_tokens:].mean(1))


def pool_any_mode(tokens, mode="token", num_prefix_tokens=1):
    if mode == "token" and num_prefix_tokens < 1:
        raise ValueError("no CLS token")
    return tokens[:, 0] if mode == "token" else tokens[:, num_prefix_tokens:].mean(1)


def pool_other_names(tokens, mode="token", num_prefix_tokens=1):
    if mode == "max" or num_prefix_tokens < 1 and mode != "avg":
        raise ValueError("no such mode")
    return tokens[:, 0] if mode in ("token", "cls") else tokens[:, num_prefix_tokens:].mean(1)


def pool_reads_patch_without_cls(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, 1)
    return tokens[:, 0] if mode == "token" else tokens[:, num_prefix_tokens:].mean(1)


def pool_returns_none_for_other_modes(tokens, mode="token", num_prefix_tokens=1):
    if mode == "token":
        assert num_prefix_tokens > 0
        return tokens[:, 0]
    if mode == "avg":
        return tokens[:, num_prefix_tokens:].mean(1)


def pool_plain(tokens, mode="token", num_prefix_tokens=1):
    guard(mode, num_prefix_tokens)
    if mode == "token":
        return tokens.select(1, 0)
    return tokens[:, num_prefix_tokens:].sum(dim=1) / (tokens.shape[1] - num_prefix_tokens)


def pool_einops(x, how="token", prefix=1):
    guard(how, prefix)
    return x[:, 0, :] if how == "token" else reduce(x[:, prefix:], "b n d -> b d", "mean")


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


WRONG = {
    "prepend_cls_token": [
        ("the CLS token stands last", cls_last),
        ("index 0 holds zeros", cls_plain_zeros),
        ("made of CLS tokens to the batch", cls_as_an_image),
        ("you made every token wider", cls_as_channels),
        ("to every patch token", cls_added),
        ("took the place of patch 0", cls_replaces_patch),
        ("something random stands in front", cls_random),
        ("`torch.cat` stopped for a batch of 3", cls_not_expanded),
        ("Axis 1 counts the tokens", cls_joined_to_batch),
        ("no gradient reaches `cls_token`", cls_detached),
        ("no gradient reaches `cls_token`", cls_new_parameter),
        ("no gradient reaches `cls_token`", cls_no_grad),
        ("not the sum over the images", cls_learned_from_one_image),
        ("no gradient reaches the patch tokens", cls_tokens_detached),
        ("the gradient of the patch tokens is not right", cls_tokens_half_detached),
        ("with tensors that learn", cls_by_numpy),
        ("do not fit a CLS token of width 1", cls_broadcasts_any_width),
        ("your code stopped with RuntimeError", cls_other_error),
        ("changes its input in place", cls_overwrites),
        ("expected\n  10 20 30", cls_doubled),
        ("index 0 holds the mean", cls_mean_of_patches),
    ],
    "pool": [
        ("you kept an axis: `tokens[:, :1]`", pool_keeps_axis),
        ("the shape should be (1, 2), yours is (2,)", pool_squeezes),
        ("reads the last token", pool_last),
        ("reads the first *patch*", pool_first_patch),
        ("the last of the prefix tokens", pool_last_prefix),
        ("you add them up", pool_adds_prefix),
        ("mode 'average' is neither", pool_by_first_letter),
        ("the first token, and it is a patch", average_with(lambda x, p: x[:, max(p, 1) :].mean(1))),
        ("the first *image* of the batch", pool_first_image),
        ("gives the average of the patches", pool_always_average),
        ("still reads the CLS token", pool_always_token),
        ("your average includes the CLS token", average_with(lambda x, p: x.mean(1))),
        ("you always leave out one token", average_with(lambda x, p: x[:, 1:].mean(1))),
        ("the largest value of each channel", average_with(lambda x, p: x[:, p:].max(dim=1).values)),
        ("the sum of the patch tokens", average_with(lambda x, p: x[:, p:].sum(1))),
        ("you divide by the number of all tokens", average_with(lambda x, p: x[:, p:].sum(1) / len(x[0]))),
        ("inside each token", average_with(lambda x, p: x[:, p:].mean(-1))),
        ("over the images of the batch", average_with(lambda x, p: x[:, p:].mean(0))),
        ("without `keepdim`", average_with(lambda x, p: x[:, p:].mean(1, keepdim=True))),
        ("averages the prefix tokens", average_with(lambda x, p: x[:, :p].mean(1))),
        ("no gradient goes back to the tokens", pool_detached),
        ("with tensors that learn", pool_by_numpy),
        ("mode 'max' is neither", pool_any_mode),
        ("mode 'cls' is neither", pool_other_names),
        ("there is no CLS token to read", pool_reads_patch_without_cls),
        ("mode 'max' is neither", pool_returns_none_for_other_modes),
    ],
}
RIGHT = {
    "prepend_cls_token": [cls_repeat, cls_einops, cls_filled, cls_loop, cls_padded],
    "pool": [pool_plain, pool_einops, pool_weights, pool_adaptive],
}
