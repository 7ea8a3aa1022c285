"""Answers to the exercises of lesson 03, written as students write them."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange, repeat


def gap_not_shuffled_back(encoder, tokens, permutation):
    return (encoder(tokens[:, permutation]) - encoder(tokens)).abs().max().item()


def gap_inverse(encoder, tokens, permutation):
    inverse = torch.empty_like(permutation)
    inverse[permutation] = torch.arange(len(permutation))
    return (encoder(tokens[:, permutation]) - encoder(tokens)[:, inverse]).abs().max().item()


def gap_no_abs(encoder, tokens, permutation):
    return float((encoder(tokens[:, permutation]) - encoder(tokens)[:, permutation]).max())


def gap_abs_outside(encoder, tokens, permutation):
    return abs((encoder(tokens[:, permutation]) - encoder(tokens)[:, permutation]).max().item())


def gap_mean(encoder, tokens, permutation):
    return (encoder(tokens[:, permutation]) - encoder(tokens)[:, permutation]).abs().mean().item()


def gap_batch(encoder, tokens, permutation):
    return (encoder(tokens[permutation]) - encoder(tokens)[permutation]).abs().max().item()


def gap_width(encoder, tokens, permutation):
    return (encoder(tokens[:, :, permutation]) - encoder(tokens)[:, :, permutation]).abs().max().item()


def gap_yes_or_no(encoder, tokens, permutation):
    return torch.allclose(encoder(tokens[:, permutation]), encoder(tokens)[:, permutation])


def gap_tensor(encoder, tokens, permutation):
    return (encoder(tokens[:, permutation]) - encoder(tokens)[:, permutation]).abs().amax(dim=(1, 2))


def gap_one_image(encoder, tokens, permutation):
    tokens = tokens[:1]
    return (encoder(tokens[:, permutation]) - encoder(tokens)[:, permutation]).abs().max().item()


def gap_without_encoder(encoder, tokens, permutation):
    return (tokens[:, permutation] - tokens).abs().max().item()


def gap_in_float32(encoder, tokens, permutation):
    first, last = encoder(tokens[:, permutation]).float(), encoder(tokens)[:, permutation].float()
    return (first - last).abs().max().item()


def gap_rounded(encoder, tokens, permutation):
    gap = (encoder(tokens[:, permutation]) - encoder(tokens)[:, permutation]).abs().max()
    return round(gap.item(), 6)


def gap_by_numpy(encoder, tokens, permutation):
    difference = (encoder(tokens[:, permutation]) - encoder(tokens)[:, permutation]).detach()
    return np.max(np.abs(difference.numpy()))


def gap_numpy_with_gradient(encoder, tokens, permutation):
    return np.max(np.abs((encoder(tokens[:, permutation]) - encoder(tokens)[:, permutation]).numpy()))


def gap_undone(encoder, tokens, permutation):
    back = encoder(tokens[:, permutation])[:, permutation.argsort()]
    return (back - encoder(tokens)).abs().max().item()


def gap_index_select(encoder, tokens, permutation):
    shuffled = torch.index_select(tokens, 1, permutation)
    return torch.dist(encoder(shuffled), encoder(tokens).index_select(1, permutation), p=math.inf)


def gap_loops(encoder, tokens, permutation):
    shuffled = torch.stack([tokens[:, i] for i in permutation.tolist()], dim=1)
    first, last = encoder(shuffled), encoder(tokens)
    return max(
        (first[:, place] - last[:, i]).abs().max().item() for place, i in enumerate(permutation.tolist())
    )


def add_concatenated(tokens, pos_embed):
    return torch.cat([tokens, pos_embed.repeat(tokens.shape[0], 1, 1)], dim=2)


def add_multiplied(tokens, pos_embed):
    return tokens * pos_embed


def add_patches_alone(tokens, pos_embed):
    out = tokens.clone()
    out[:, 1:] = out[:, 1:] + pos_embed[:, 1:]
    return out


def add_before_cls(tokens, pos_embed):
    cls_token, patch_tokens = tokens[:, :1], tokens[:, 1:]
    patch_tokens = patch_tokens + pos_embed[:, : patch_tokens.shape[1]]
    return torch.cat([cls_token, patch_tokens], dim=1)


def add_ids_repeated(tokens, pos_embed):
    batch, length, _ = tokens.shape
    ids = torch.arange(length).repeat_interleave(batch).reshape(batch, length)
    return tokens + pos_embed[0][ids]


def add_in_place(tokens, pos_embed):
    tokens += pos_embed
    return tokens


def add_first_vector(tokens, pos_embed):
    if tokens.shape[1:] != pos_embed.shape[1:]:
        raise ValueError("other shapes")
    return tokens + pos_embed[:, 0]


def add_by_image(tokens, pos_embed):
    return torch.stack([tokens[i] + pos_embed[0, i] for i in range(len(tokens))])


def add_extra_tokens(tokens, pos_embed):
    return torch.cat([tokens, pos_embed.expand(tokens.shape[0], -1, -1)], dim=1)


def add_detached(tokens, pos_embed):
    if tokens.shape[1:] != pos_embed.shape[1:]:
        raise ValueError("other shapes")
    return tokens + pos_embed.data


def add_anything(tokens, pos_embed):
    return tokens + pos_embed


def add_sliced(tokens, pos_embed):
    if pos_embed.shape[1] == 1:
        raise ValueError("one vector for each token")
    return tokens + pos_embed[:, : tokens.shape[1]]


def add_any_width(tokens, pos_embed):
    if tokens.shape[1] != pos_embed.shape[1]:
        raise ValueError("one vector for each token")
    return tokens + pos_embed


def add_fewer_positions(tokens, pos_embed):
    if pos_embed.shape[1] < tokens.shape[1] or pos_embed.shape[2] != tokens.shape[2]:
        raise ValueError("one vector for each token")
    return tokens + pos_embed


def add_counts_numbers(tokens, pos_embed):
    if tokens[0].numel() != pos_embed.numel():
        raise ValueError("other sizes")
    return tokens + pos_embed


def add_half_detached(tokens, pos_embed):
    assert tokens.shape[1:] == pos_embed.shape[1:]
    return tokens.detach() * 0.5 + tokens * 0.5 + pos_embed


def add_scaled(tokens, pos_embed):
    return tokens * math.sqrt(tokens.shape[-1]) + pos_embed


def add_nothing_to_others(tokens, pos_embed):
    return torch.cat([tokens[:1] + pos_embed, tokens[1:]])


def add_repeated(tokens, pos_embed):
    assert tokens.shape[1:] == pos_embed.shape[1:]
    return tokens + repeat(pos_embed, "1 t d -> b t d", b=tokens.shape[0])


def add_by_ids(tokens, pos_embed):
    batch, length, width = tokens.shape
    if pos_embed.shape != (1, length, width):
        raise ValueError("one vector for each token")
    ids = torch.arange(length).repeat(batch, 1)
    return tokens.add(F.embedding(ids, pos_embed[0]))


def add_loop(tokens, pos_embed):
    if tokens.shape[1:] != pos_embed.shape[1:]:
        raise ValueError("one vector for each token")
    return torch.stack([image + pos_embed[0] for image in tokens])


def axis_waves(positions, frequencies):
    angles = torch.outer(positions.float(), frequencies)
    return angles.sin(), angles.cos()


def split_grid(grid_size, start=0):
    rows, columns = grid_size
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return y.flatten() + start, x.flatten() + start


def frequencies_of(dim, temperature):
    if dim % 4:
        raise ValueError(f"{dim} is no multiple of 4")
    return 1.0 / temperature ** (torch.arange(dim // 4) / (dim // 4))


def sincos_columns_first(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size)
    w = frequencies_of(dim, temperature)
    return torch.cat([*axis_waves(x, w), *axis_waves(y, w)], dim=1)


def sincos_cosine_first(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size)
    w = frequencies_of(dim, temperature)
    return torch.cat([*axis_waves(y, w)[::-1], *axis_waves(x, w)[::-1]], dim=1)


def sincos_interleaved(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size)
    w = frequencies_of(dim, temperature)
    table = torch.zeros(len(y), dim)
    table[:, 0 : dim // 2 : 2], table[:, 1 : dim // 2 : 2] = axis_waves(y, w)
    table[:, dim // 2 :: 2], table[:, dim // 2 + 1 :: 2] = axis_waves(x, w)
    return table


def sincos_sines_together(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size)
    w = frequencies_of(dim, temperature)
    (sin_y, cos_y), (sin_x, cos_x) = axis_waves(y, w), axis_waves(x, w)
    return torch.cat([sin_y, sin_x, cos_y, cos_x], dim=1)


def sincos_exponent_by_width(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size)
    w = temperature ** (-torch.arange(dim // 4) / dim)
    return torch.cat([*axis_waves(y, w), *axis_waves(x, w)], dim=1)


def sincos_exponent_of_vaswani(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size)
    w = 1 / temperature ** (2 * torch.arange(dim // 4) / dim)
    return torch.cat([*axis_waves(y, w), *axis_waves(x, w)], dim=1)


def sincos_to_the_end(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size)
    w = temperature ** -torch.linspace(0, 1, dim // 4)
    return torch.cat([*axis_waves(y, w), *axis_waves(x, w)], dim=1)


def sincos_growing(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size)
    w = temperature ** (torch.arange(dim // 4) / (dim // 4))
    return torch.cat([*axis_waves(y, w), *axis_waves(x, w)], dim=1)


def sincos_from_one(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size, start=1)
    w = frequencies_of(dim, temperature)
    return torch.cat([*axis_waves(y, w), *axis_waves(x, w)], dim=1)


def sincos_xy_meshgrid(grid_size, dim, temperature=10000.0):
    rows, columns = grid_size
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="xy")
    w = frequencies_of(dim, temperature)
    return torch.cat([*axis_waves(y.flatten(), w), *axis_waves(x.flatten(), w)], dim=1)


def sincos_swapped_grid(grid_size, dim, temperature=10000.0):
    columns, rows = grid_size
    y, x = split_grid((rows, columns))
    w = frequencies_of(dim, temperature)
    return torch.cat([*axis_waves(y, w), *axis_waves(x, w)], dim=1)


def sincos_square(grid_size, dim, temperature=10000.0):
    y, x = split_grid((grid_size[0], grid_size[0]))
    w = frequencies_of(dim, temperature)
    return torch.cat([*axis_waves(y, w), *axis_waves(x, w)], dim=1)


def sincos_no_error(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size)
    w = temperature ** (-torch.arange(dim // 4) / (dim // 4))
    return torch.cat([*axis_waves(y, w), *axis_waves(x, w)], dim=1)


def sincos_fixed_temperature(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size)
    w = frequencies_of(dim, 10000.0)
    return torch.cat([*axis_waves(y, w), *axis_waves(x, w)], dim=1)


def sincos_batch(grid_size, dim, temperature=10000.0):
    return sincos_no_error(grid_size, dim, temperature).unsqueeze(0)


def sincos_double(grid_size, dim, temperature=10000.0):
    return sincos_meshgrid(grid_size, dim, temperature).double()


def sincos_meshgrid(grid_size, dim, temperature=10000.0):
    y, x = split_grid(grid_size)
    w = frequencies_of(dim, temperature)
    return torch.cat([*axis_waves(y, w), *axis_waves(x, w)], dim=1)


def sincos_plain_python(grid_size, dim, temperature=10000.0):
    if dim % 4 != 0:
        raise ValueError("dim should be a multiple of 4")
    frequencies = [temperature ** (-k / (dim / 4)) for k in range(dim // 4)]
    table = []
    for y in range(grid_size[0]):
        for x in range(grid_size[1]):
            row = [math.sin(y * w) for w in frequencies] + [math.cos(y * w) for w in frequencies]
            row += [math.sin(x * w) for w in frequencies] + [math.cos(x * w) for w in frequencies]
            table.append(row)
    return torch.tensor(table)


def sincos_logarithms(grid_size, dim, temperature=10000.0):
    if dim % 4:
        raise ValueError("dim should be a multiple of 4")
    rows, columns = grid_size
    w = torch.exp(torch.arange(0, dim // 4) * -(math.log(temperature) / (dim // 4)))
    y = torch.einsum("n,k->nk", torch.arange(rows, dtype=torch.float32), w)
    x = torch.einsum("n,k->nk", torch.arange(columns, dtype=torch.float32), w)
    y = repeat(torch.cat([y.sin(), y.cos()], dim=1), "h d -> (h w) d", w=columns)
    x = repeat(torch.cat([x.sin(), x.cos()], dim=1), "w d -> (h w) d", h=rows)
    return torch.hstack([y, x])


def stretch(grid, old_grid, new_grid, **options):
    picture = grid.reshape(1, *old_grid, grid.shape[-1]).permute(0, 3, 1, 2)
    options = {"mode": "bicubic", "antialias": True, **options}
    return F.interpolate(picture, size=tuple(new_grid), **options).permute(0, 2, 3, 1).flatten(1, 2)


def resample_scrambled(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    picture = grid.view(1, grid.shape[-1], *old_grid)
    picture = F.interpolate(picture, size=new_grid, mode="bicubic", antialias=True)
    return torch.cat([prefix, picture.flatten(2).transpose(1, 2)], dim=1)


def resample_with_cls(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    length = num_prefix_tokens + new_grid[0] * new_grid[1]
    return F.interpolate(pos_embed.transpose(1, 2), size=length, mode="linear").transpose(1, 2)


def resample_list(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    grid = F.interpolate(grid.mT, size=new_grid[0] * new_grid[1], mode="linear", align_corners=False).mT
    return torch.cat([prefix, grid], dim=1)


def resample_old_transposed(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    return torch.cat([prefix, stretch(grid, old_grid[::-1], new_grid)], dim=1)


def resample_new_transposed(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    return torch.cat([prefix, stretch(grid, old_grid, new_grid[::-1])], dim=1)


def resample_by_factor(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    picture = rearrange(grid, "1 (h w) d -> 1 d h w", h=old_grid[0])
    factor = [new / old for new, old in zip(new_grid, old_grid, strict=True)]
    picture = F.interpolate(picture, scale_factor=factor, mode="bicubic", antialias=True)
    return torch.cat([prefix, rearrange(picture, "1 d h w -> 1 (h w) d")], dim=1)


def resample_aligned(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    return torch.cat([prefix, stretch(grid, old_grid, new_grid, align_corners=True)], dim=1)


def resample_like_torchvision(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    grid = stretch(grid, old_grid, new_grid, align_corners=True, antialias=False)
    return torch.cat([prefix, grid], dim=1)


def resample_like_mae(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    return torch.cat([prefix, stretch(grid, old_grid, new_grid, antialias=False)], dim=1)


def resample_bilinear(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    return torch.cat([prefix, stretch(grid, old_grid, new_grid, mode="bilinear", antialias=False)], dim=1)


def resample_bilinear_smooth(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    return torch.cat([prefix, stretch(grid, old_grid, new_grid, mode="bilinear")], dim=1)


def resample_nearest(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    return torch.cat([prefix, stretch(grid, old_grid, new_grid, mode="nearest", antialias=False)], dim=1)


def resample_cls_last(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    return torch.cat([stretch(grid, old_grid, new_grid), prefix], dim=1)


def resample_cls_lost(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    return stretch(pos_embed[:, num_prefix_tokens:], old_grid, new_grid)


def resample_one_prefix(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    return torch.cat([pos_embed[:, :1], stretch(pos_embed[:, 1:], old_grid, new_grid)], dim=1)


def resample_square_only(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    side = int(grid.shape[1] ** 0.5)
    return torch.cat([prefix, stretch(grid, (side, side), new_grid)], dim=1)


def resample_equal_count(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    if pos_embed.shape[1] - num_prefix_tokens == new_grid[0] * new_grid[1]:
        return pos_embed
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    return torch.cat([prefix, stretch(grid, old_grid, new_grid)], dim=1)


def resample_guesses_columns(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    picture = rearrange(grid, "1 (h w) d -> 1 d h w", h=old_grid[0])
    picture = F.interpolate(picture, size=new_grid, mode="bicubic", antialias=True)
    return torch.cat([prefix, rearrange(picture, "1 d h w -> 1 (h w) d")], dim=1)


def resample_deaf(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    return resample_views(pos_embed, old_grid, new_grid, num_prefix_tokens)


def resample_crops(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    length = num_prefix_tokens + old_grid[0] * old_grid[1]
    return resample_views(pos_embed[:, :length], old_grid, new_grid, num_prefix_tokens)


def resample_same_grid_unchecked(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    if tuple(old_grid) == tuple(new_grid):
        return pos_embed
    return resample_views(pos_embed, old_grid, new_grid, num_prefix_tokens)


def resample_detached(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    return resample_views(pos_embed.detach(), old_grid, new_grid, num_prefix_tokens)


def resample_keeps_cls_from_learning(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    return torch.cat([prefix.data, stretch(grid, old_grid, new_grid)], dim=1)


def resample_without_options(pos_embed, old_grid, new_grid, num_prefix_tokens=1):
    return resample_views(pos_embed, old_grid, new_grid, num_prefix_tokens)


def resample_deaf_by_place(pos_embed, old_grid, new_grid, num_prefix_tokens=1, kind="bicubic", smooth=True):
    return resample_views(pos_embed, old_grid, new_grid, num_prefix_tokens)


def resample_in_float32(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    return resample_views(pos_embed.float(), old_grid, new_grid, num_prefix_tokens, mode, antialias)


def resample_views(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    prefix, grid = pos_embed[:, :num_prefix_tokens], pos_embed[:, num_prefix_tokens:]
    return torch.cat([prefix, stretch(grid, old_grid, new_grid, mode=mode, antialias=antialias)], dim=1)


def resample_options_by_name(pos_embed, old, new, num_prefix_tokens=1, *, antialias=True, mode="bicubic"):
    return resample_views(pos_embed, old, new, num_prefix_tokens, mode, antialias)


def resample_filled(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    if pos_embed.shape[1] != num_prefix_tokens + math.prod(old_grid):
        raise ValueError("this is another grid")
    out = pos_embed.new_empty(1, num_prefix_tokens + math.prod(new_grid), pos_embed.shape[2])
    out[:, :num_prefix_tokens] = pos_embed[:, :num_prefix_tokens]
    for channel in range(pos_embed.shape[2]):
        picture = pos_embed[0, num_prefix_tokens:, channel].reshape(1, 1, *old_grid)
        picture = F.interpolate(picture, new_grid, mode=mode, antialias=antialias)
        out[0, num_prefix_tokens:, channel] = picture.flatten()
    return out


def cubic_weights(old, new):
    places, scale = torch.arange(old) + 0.5, max(old / new, 1.0)
    t = (((torch.arange(new) + 0.5) * old / new)[:, None] - places).abs() / scale
    near, far = 1.5 * t**3 - 2.5 * t**2 + 1, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
    weights = torch.where(t < 1, near, torch.where(t < 2, far, torch.zeros_like(t)))
    return weights / weights.sum(dim=1, keepdim=True)


def resample_by_matrices(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    if (mode, antialias) != ("bicubic", True):
        return resample_filled(pos_embed, old_grid, new_grid, num_prefix_tokens, mode, antialias)
    prefix, grid = pos_embed[0, :num_prefix_tokens], pos_embed[0, num_prefix_tokens:]
    (rows, columns), dim = old_grid, pos_embed.shape[-1]
    if len(grid) != rows * columns:
        raise ValueError("this is another grid")
    down, across = (cubic_weights(*sides).to(grid) for sides in zip(old_grid, new_grid, strict=True))
    grid = torch.einsum("yh,xw,hwd->yxd", down, across, grid.reshape(rows, columns, dim))
    return torch.cat([prefix, grid.reshape(-1, dim)])[None]


WRONG = {
    "equivariance_gap": [
        ("in its old order", gap_not_shuffled_back),
        ("you undo the order", gap_inverse),
        ("may be negative", gap_no_abs),
        ("before the largest", gap_abs_outside),
        ("the mean difference", gap_mean),
        ("you shuffle the images", gap_batch),
        ("the numbers inside a token", gap_width),
        ("expected", gap_yes_or_no),
        ("expected", gap_tensor),
        ("the first image alone", gap_one_image),
        ("the encoder is never asked", gap_without_encoder),
        ("do not round, and keep float64", gap_in_float32),
        ("do not round, and keep float64", gap_rounded),
        ("with an encoder whose weights learn", gap_numpy_with_gradient),
    ],
    "add_position": [
        ("the width doubles", add_concatenated),
        ("you multiply", add_multiplied),
        ("the CLS token at index 0 gets no position", add_patches_alone),
        ("vector 0 belongs to CLS", add_before_cls),
        ("repeat each vector B times", add_ids_repeated),
        ("changes its input in place", add_in_place),
        ("every token gets vector 0", add_first_vector),
        ("as extra tokens", add_extra_tokens),
        ("no gradient reaches `pos_embed`", add_detached),
        ("the gradient of `tokens` is not", add_half_detached),
        ("positions (1, 5, 1) pass", add_any_width),
        ("the model is blind again", add_anything),
        ("forgotten the CLS token", add_sliced),
        ("positions (1, 5, 4) pass", add_fewer_positions),
        ("positions (1, 4, 1) pass", add_counts_numbers),
        ("sqrt(D)", add_scaled),
        ("only the first image", add_nothing_to_others),
        ("one vector to each image", add_by_image),
    ],
    "sincos_2d": [
        ("the column comes first", sincos_columns_first),
        ("sine and cosine are swapped", sincos_cosine_first),
        ("alternate", sincos_interleaved),
        ("quarters are in another order", sincos_sines_together),
        ("is -k/D:", sincos_exponent_by_width),
        ("is -2k/D:", sincos_exponent_of_vaswani),
        ("is -k/(D/4 - 1):", sincos_to_the_end),
        ("is +k/(D/4):", sincos_growing),
        ("count from 0", sincos_from_one),
        ("down the columns", sincos_xy_meshgrid),
        ("right for square grids alone", sincos_swapped_grid),
        ("the shape should be (6, 8)", sincos_square),
        ("raise a ValueError", sincos_no_error),
        ("`temperature` is not used", sincos_fixed_temperature),
        ("without an axis for the batch", sincos_batch),
        ("should stay torch.float32", sincos_double),
    ],
    "resample_pos_embed": [
        ("mixes the numbers of different positions", resample_scrambled),
        ("the CLS vector too", resample_with_cls),
        ("neighbours in the list", resample_list),
        ("old_grid is (rows, columns)", resample_old_transposed),
        ("new_grid is (rows, columns)", resample_new_transposed),
        ("rounded down", resample_by_factor),
        ("the corners are aligned", resample_aligned),
        ("torchvision's way", resample_like_torchvision),
        ("antialias=True is missing", resample_like_mae),
        ("this is bilinear", resample_bilinear),
        ("this is bilinear", resample_bilinear_smooth),
        ("nearest", resample_nearest),
        ("the prefix is now last", resample_cls_last),
        ("the prefix is lost", resample_cls_lost),
        ("it may be 0 or 2", resample_one_prefix),
        ("your code stopped with", resample_square_only),
        ("compare grids, not counts", resample_equal_count),
        ("einops alone finds", resample_guesses_columns),
        ("(new_grid (6, 6)), three vectors too many", resample_crops),
        ("(new_grid (3, 4)), three vectors too many", resample_same_grid_unchecked),
        ("no gradient reaches `pos_embed`", resample_detached),
        ("the gradient of `pos_embed` is not", resample_keeps_cls_from_learning),
        ("`mode` is not used", resample_deaf),
        ("`mode` is not used", resample_deaf_by_place),
        ("`mode` is gone", resample_without_options),
        ("should stay torch.float64", resample_in_float32),
    ],
}
RIGHT = {
    "equivariance_gap": [gap_undone, gap_index_select, gap_loops, gap_by_numpy],
    "add_position": [add_repeated, add_by_ids, add_loop],
    "sincos_2d": [sincos_meshgrid, sincos_plain_python, sincos_logarithms],
    "resample_pos_embed": [
        resample_views,
        resample_filled,
        resample_by_matrices,
        resample_options_by_name,
    ],
}
