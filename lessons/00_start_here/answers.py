"""Answers to the exercises of lesson 00, written as students write them."""

import numpy as np
import torch
from torch import Tensor

from vit_classroom.plots import image_grid
from vit_course.data import normalize


def grid_by_cat(images, columns):
    rows = [torch.cat(list(images[i : i + columns]), dim=-1) for i in range(0, len(images), columns)]
    return torch.cat(rows, dim=-2)


def grid_by_permute(images, columns):
    n, c, h, w = images.shape
    grid = images.reshape(n // columns, columns, c, h, w).permute(2, 0, 3, 1, 4)
    return grid.reshape(c, n // columns * h, columns * w)


def grid_sides_swapped(images, columns):
    (c, h, w), rows = images.shape[1:], len(images) // columns
    return image_grid(images, columns).reshape(c, rows * w, columns * h)


def _same_number(images, mean, std):
    channels = images.shape[-3]
    if len(mean) != channels or len(std) != channels:
        raise ValueError(f"{channels} channels, but {len(mean)} means and {len(std)} deviations")


def normalize_meets_the_width(images, mean, std):
    _same_number(images, mean, std)
    values = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return (values - torch.as_tensor(mean)) / torch.as_tensor(std)


def normalize_channel_by_channel(images, mean, std):
    _same_number(images, mean, std)
    scale = 255.0 if images.dtype == torch.uint8 else 1.0
    planes = []
    for c in range(images.shape[-3]):
        plane = images[..., c, :, :].to(torch.float32) / scale
        planes.append((plane - float(mean[c])) / float(std[c]))
    return torch.stack(planes, dim=-3)


def normalize_on_the_cpu(images, mean, std):
    _same_number(images, mean, std)
    whole, there = images.dtype == torch.uint8, images.device
    values = images.to("cpu").numpy() / (255 if whole else 1)
    mean, std = (np.asarray(part, dtype=np.float32)[:, None, None] for part in (mean, std))
    return torch.from_numpy((values - mean) / std).float().to(there)


def normalize_channels_last(images: Tensor, mean, std) -> Tensor:
    _same_number(images, mean, std)
    m = torch.as_tensor(mean).to(images.device, torch.float32)
    s = torch.as_tensor(std).to(images.device, torch.float32)
    x = images.movedim(-3, -1)
    x = x.div(255) if images.dtype is torch.uint8 else x.to(torch.float32)
    return x.sub(m).div(s).movedim(-1, -3).contiguous()


DISSECTED = ("mean and std keep the shape (C,) and so meet the width", normalize_meets_the_width)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "image_grid": [
        ("the numbers should be torch.uint8", lambda images, columns: image_grid(images.float(), columns)),
        (
            "wherever your result is wrong it is 0: nothing is written there",
            lambda images, columns: image_grid(torch.cat([images[:-1], 0 * images[-1:]]), columns),
        ),
        (
            "the rows of pixels stand in another order: where 0, 1, 2 ",
            lambda images, columns: image_grid(torch.cat(images.split(columns)[::-1]), columns),
        ),
        ("right where height and width are equal, wrong elsewhere", grid_sides_swapped),
    ],
    "normalize": [
        (
            "where the result should have 3 axes: there is one axis too many, of",
            lambda images, *given: normalize(images if images.ndim > 3 else images[None], *given),
        ),
    ],
}
RIGHT = {
    "image_grid": [grid_by_cat, grid_by_permute],
    "normalize": [normalize_channels_last, normalize_channel_by_channel, normalize_on_the_cpu],
}
