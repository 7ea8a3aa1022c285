"""Answers to the exercises of lesson 00, written as students write them."""

import torch
from torch import Tensor
from torchvision.utils import make_grid


def grid_to_float(images, columns):
    return make_grid(images.float(), nrow=columns, padding=0)[: images.shape[1]]


def grid_by_cat(images, columns):
    rows = [torch.cat(list(images[i : i + columns]), dim=-1) for i in range(0, len(images), columns)]
    return torch.cat(rows, dim=-2)


def grid_by_permute(images, columns):
    n, c, h, w = images.shape
    grid = images.reshape(n // columns, columns, c, h, w).permute(2, 0, 3, 1, 4)
    return grid.reshape(c, n // columns * h, columns * w)


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


def _column(numbers, images):
    return torch.as_tensor(numbers, dtype=torch.float32, device=images.device).view(-1, 1, 1)


def _same_number(images, mean, std):
    channels = images.shape[-3]
    if len(mean) != channels or len(std) != channels:
        raise ValueError(f"{channels} channels, but {len(mean)} means and {len(std)} deviations")


def normalize_meets_the_width(images, mean, std):
    _same_number(images, mean, std)
    values = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return (values - torch.as_tensor(mean)) / torch.as_tensor(std)


def normalize_integer_division(images, mean, std):
    _same_number(images, mean, std)
    values = (images // 255).float() if images.dtype == torch.uint8 else images.float()
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


def image_grid_sides_swapped(images: Tensor, columns: int) -> Tensor:
    b, c, h, w = images.shape
    rows = b // columns
    return images.reshape(rows, columns, c, h, w).permute(2, 0, 3, 1, 4).reshape(c, rows * w, columns * h)


DISSECTED = ("mean and std keep the shape (C,) and so meet the width", normalize_meets_the_width)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "image_grid": [
        ("the numbers should stay torch.uint8", grid_to_float),
        ("wherever your result is wrong it is 0: nothing is written there", image_grid_misses_last),
        ("the rows of pixels stand in another order: where 0, 1, 2 ", image_grid_bottom_up),
        ("right where height and width are equal, wrong elsewhere", image_grid_sides_swapped),
    ],
    "normalize": [
        ("right for inputs of torch.float32, wrong for torch.uint8", normalize_integer_division),
        ("where the result should have 3 axes: there is one axis too many, of", normalize_batches_only),
    ],
}
RIGHT = {
    "image_grid": [grid_by_cat, grid_by_permute],
    "normalize": [
        normalize_channels_last,
        normalize_channel_by_channel,
    ],
}
