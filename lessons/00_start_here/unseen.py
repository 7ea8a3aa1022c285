"""Answers to the exercises of lesson 00, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import numpy as np
import torch
from einops import rearrange
from torch import Tensor


def image_grid_reshape_only(images, columns):
    b, c, h, w = images.shape
    return images.reshape(c, b // columns * h, columns * w)


def image_grid_misses_last(images, columns):
    b, c, h, w = images.shape
    sheet = images.new_zeros(c, b // columns * h, columns * w)
    for i in range(b - 1):
        y, x = i // columns * h, i % columns * w
        sheet[:, y : y + h, x : x + w] = images[i]
    return sheet


def image_grid_bottom_up(images, columns):
    rows = [torch.cat(list(part), dim=2) for part in images.split(columns)]
    return torch.cat(rows[::-1], dim=1)


def image_grid_channels_last(images, columns):
    return rearrange(images, "(r k) c h w -> (r h) (k w) c", k=columns)


def image_grid_columns_and_scaled(images, columns):
    return rearrange(images.float() / 255, "(k r) c h w -> c (r h) (k w)", k=columns)


def image_grid_cat_rows(images: Tensor, columns: int) -> Tensor:
    strips = [torch.cat(tuple(strip), dim=-1) for strip in images.split(columns)]
    return torch.cat(strips, dim=-2)


def image_grid_permute(images, columns):
    b, c, h, w = images.shape
    rows = b // columns
    return images.view(rows, columns, c, h, w).permute(2, 0, 3, 1, 4).reshape(c, rows * h, columns * w)


def image_grid_paste(images, columns):
    n, channels, height, width = images.shape
    sheet = torch.empty(
        (channels, n // columns * height, columns * width), dtype=images.dtype, device=images.device
    )
    for i in range(n):
        top, left = divmod(i, columns)
        sheet[:, top * height : (top + 1) * height, left * width : (left + 1) * width] = images[i]
    return sheet


def image_grid_index(images, columns):
    b, _, h, w = images.shape
    y = torch.arange(b // columns * h, device=images.device)[:, None]
    x = torch.arange(columns * w, device=images.device)[None]
    return images[y // h * columns + x // w, :, y % h, x % w].movedim(-1, 0)


def _column(numbers, images):
    return torch.as_tensor(numbers, dtype=torch.float32, device=images.device).view(-1, 1, 1)


def _same_number(images, mean, std):
    channels = images.shape[-3]
    if len(mean) != channels or len(std) != channels:
        raise ValueError(f"{channels} channels, but {len(mean)} means and {len(std)} deviations")


def normalize_always_divides(images, mean, std):
    _same_number(images, mean, std)
    return (images.float() / 255 - _column(mean, images)) / _column(std, images)


def normalize_meets_the_width(images, mean, std):
    _same_number(images, mean, std)
    values = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return (values - torch.as_tensor(mean)) / torch.as_tensor(std)


def normalize_checks_mean_only(images, mean, std):
    if len(mean) != images.shape[-3]:
        raise ValueError(f"{len(mean)} means for {images.shape[-3]} channels")
    values = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return (values - _column(mean, images)) / _column(std, images)


def normalize_integer_division(images, mean, std):
    _same_number(images, mean, std)
    values = (images // 255).float() if images.dtype == torch.uint8 else images.float()
    return (values - _column(mean, images)) / _column(std, images)


def normalize_guesses_the_range(images, mean, std):
    _same_number(images, mean, std)
    values = images.float()
    if values.max() > 1:
        values = values / 255
    return (values - _column(mean, images)) / _column(std, images)


def normalize_batches_only(images, mean, std):
    _same_number(images, mean, std)
    mean = torch.as_tensor(mean, dtype=torch.float32).view(1, -1, 1, 1)
    std = torch.as_tensor(std, dtype=torch.float32).view(1, -1, 1, 1)
    values = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return (values - mean) / std


def normalize_channel_by_channel(images, mean, std):
    channels = images.shape[-3]
    if len(mean) != channels or len(std) != channels:
        raise ValueError(f"got {len(mean)} means and {len(std)} deviations for {channels} channels")
    scale = 255.0 if images.dtype == torch.uint8 else 1.0
    planes = []
    for c in range(channels):
        plane = images[..., c, :, :].to(torch.float32) / scale
        planes.append((plane - float(mean[c])) / float(std[c]))
    return torch.stack(planes, dim=-3)


def normalize_channels_last(images: Tensor, mean, std) -> Tensor:
    m = torch.as_tensor(mean).to(images.device, torch.float32)
    s = torch.as_tensor(std).to(images.device, torch.float32)
    for numbers in (m, s):
        if numbers.numel() != images.shape[-3]:
            raise ValueError(f"{numbers.numel()} values for {images.shape[-3]} channels")
    x = images.movedim(-3, -1)
    x = x.div(255) if images.dtype is torch.uint8 else x.to(torch.float32)
    return x.sub(m).div(s).movedim(-1, -3).contiguous()


def normalize_affine(images, mean, std):
    """Multiply by 1 / std and add -mean / std, with 1 / 255 put into the factor."""
    mean, std = (torch.as_tensor(v, dtype=torch.float64).flatten() for v in (mean, std))
    if mean.shape != std.shape or len(mean) != images.shape[-3]:
        raise ValueError(f"images {tuple(images.shape)}, mean {len(mean)}, std {len(std)}")
    factor, offset = 1 / std, -mean / std
    if images.dtype == torch.uint8:
        factor = factor / 255
    factor, offset = (rearrange(v, "c -> c 1 1").to(images.device) for v in (factor, offset))
    return (images.double() * factor + offset).float()


def normalize_numpy(images, mean, std):
    pixels = images.cpu().numpy()
    m, s = np.asarray(mean, dtype=np.float32), np.asarray(std, dtype=np.float32)
    if m.size != pixels.shape[-3] or s.size != pixels.shape[-3]:
        raise ValueError(f"{pixels.shape[-3]} channels, {m.size} means, {s.size} deviations")
    values = pixels.astype(np.float32)
    if pixels.dtype == np.uint8:
        values = values / np.float32(255)
    values = (values - m[:, None, None]) / s[:, None, None]
    return torch.from_numpy(values).to(images.device)


def image_grid_canvas(images: Tensor, columns: int) -> Tensor:
    batch, channels, height, width = images.shape
    canvas = torch.zeros(channels, batch // columns * height, columns * width)
    for i in range(batch):
        r, k = divmod(i, columns)
        canvas[:, r * height : (r + 1) * height, k * width : (k + 1) * width] = images[i]
    return canvas


def image_grid_sides_swapped(images: Tensor, columns: int) -> Tensor:
    b, c, h, w = images.shape
    rows = b // columns
    return images.reshape(rows, columns, c, h, w).permute(2, 0, 3, 1, 4).reshape(c, rows * w, columns * h)


def image_grid_woven_columns(images: Tensor, columns: int) -> Tensor:
    return rearrange(images, "(r k) c h w -> c (r h) (w k)", k=columns)


def normalize_keeps_double(images, mean, std):
    mean, std = (torch.as_tensor(s, dtype=torch.float32, device=images.device) for s in (mean, std))
    if mean.numel() != images.shape[-3] or std.numel() != images.shape[-3]:
        raise ValueError(f"{images.shape[-3]} channels, {mean.numel()} means, {std.numel()} deviations")
    values = images if images.is_floating_point() else images / 255
    return (values - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)


def normalize_folds_255(images, mean, std):
    mean, std = (torch.as_tensor(s, dtype=torch.float32, device=images.device) for s in (mean, std))
    if mean.numel() != images.shape[-3] or std.numel() != images.shape[-3]:
        raise ValueError(f"{images.shape[-3]} channels, {mean.numel()} means, {std.numel()} deviations")
    return (images.float() - 255 * mean.view(-1, 1, 1)) / (255 * std.view(-1, 1, 1))


UNSEEN = {
    "image_grid": [
        ("a bare reshape, no axis is moved", image_grid_reshape_only),
        ("the loop ends one picture too early, the last place stays black", image_grid_misses_last),
        ("the rows are stacked from the bottom upwards", image_grid_bottom_up),
        ("the channels come last, as matplotlib wants them", image_grid_channels_last),
        ("column by column, and turned into floats divided by 255", image_grid_columns_and_scaled),
        (
            "moves the axes rightly but reshapes to rows·W and columns·H, so pictures that are not "
            "square are scrambled",
            image_grid_sides_swapped,
        ),
        (
            "fills a canvas of torch.zeros without a dtype, so uint8 pictures come back as float32",
            image_grid_canvas,
        ),
        (
            "writes (w k) in place of (k w) for the width, so the pixel columns of neighbouring "
            "pictures are woven into each other",
            image_grid_woven_columns,
        ),
    ],
    "normalize": [
        ("float pictures, in 0..1 already, are divided by 255 too", normalize_always_divides),
        ("mean and std keep the shape (C,) and so meet the width", normalize_meets_the_width),
        ("only the number of means is checked, not that of std", normalize_checks_mean_only),
        ("divides uint8 by 255 as whole numbers", normalize_integer_division),
        (
            "asks for the largest value and not the dtype: very dark uint8 is not scaled",
            normalize_guesses_the_range,
        ),
        ("mean has four axes, so a single picture (C, H, W) gets a batch axis", normalize_batches_only),
        (
            "multiplies mean and std by 255 for every dtype, so float images in 0..1 are treated as "
            "if they were in 0..255",
            normalize_folds_255,
        ),
        (
            "converts whole numbers only and leaves float64 images as they are, so the result is "
            "float64 and not float32",
            normalize_keeps_double,
        ),
    ],
}
STYLES = {
    "image_grid": [image_grid_cat_rows, image_grid_permute, image_grid_paste, image_grid_index],
    "normalize": [normalize_channel_by_channel, normalize_channels_last, normalize_affine, normalize_numpy],
}
