"""Answers to the exercises of lesson 00, written as students write them."""

import numpy as np
import torch
from torchvision.transforms.functional import normalize as torchvision_normalize
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


def refuse_other_channels(images, mean, std):
    if len(mean) != images.shape[-3] or len(std) != images.shape[-3]:
        raise ValueError(f"{images.shape[-3]} channels, {len(mean)} means, {len(std)} deviations")


def normalize_in_place(images, mean, std):
    x = images.float() / 255 if images.dtype == torch.uint8 else images
    x -= torch.as_tensor(mean)[:, None, None]
    x /= torch.as_tensor(std)[:, None, None]
    return x


def normalize_by_torchvision(images, mean, std):
    refuse_other_channels(images, mean, std)
    x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return torchvision_normalize(x.clone(), list(map(float, mean)), list(map(float, std)))


def normalize_by_numpy(images, mean, std):
    refuse_other_channels(images, mean, std)
    x = images.numpy() / (255 if images.dtype == torch.uint8 else 1)
    mean, std = (np.asarray(v, dtype=np.float64) for v in (mean, std))
    return torch.from_numpy((x - mean[:, None, None]) / std[:, None, None]).float()


def normalize_by_two_products(images, mean, std):
    refuse_other_channels(images, mean, std)
    x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    mean, std = (torch.as_tensor(v, dtype=torch.float32).view(-1, 1, 1) for v in (mean, std))
    return x * (1 / std) - mean / std


WRONG = {
    "image_grid": [("the numbers should stay torch.uint8", grid_to_float)],
    "normalize": [("in place", normalize_in_place)],
}
RIGHT = {
    "image_grid": [grid_by_cat, grid_by_permute],
    "normalize": [normalize_by_torchvision, normalize_by_numpy, normalize_by_two_products],
}
