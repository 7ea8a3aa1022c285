"""Answers to the exercises of lesson 00, written as students write them."""

import numpy as np
import torch
from einops import rearrange
from torchvision.transforms.functional import normalize as torchvision_normalize
from torchvision.utils import make_grid


def shape_as_before(images, channels, height, width):
    return (images, channels, height * width // 8)


def shape_four_axes(images, channels, height, width):
    return (height // 4, width // 2, images, channels)


def shape_all_pixels(images, channels, height, width):
    return (height * width, images, channels)


def shape_averaged_part(images, channels, height, width):
    return (8, images, channels)


def shape_swapped(images, channels, height, width):
    return ((height // 2) * (width // 4), images, channels)


def shape_sum(images, channels, height, width):
    return (height // 4 + width // 2, images, channels)


def shape_pixels_second(images, channels, height, width):
    return (images, height // 4 * (width // 2), channels)


def shape_channels_second(images, channels, height, width):
    return (height // 4 * (width // 2), channels, images)


def shape_pair_inside(images, channels, height, width):
    return ((height // 4, width // 2), images, channels)


def shape_whole_width(images, channels, height, width):
    return (height * width // 4, images, channels)


def shape_whole_height(images, channels, height, width):
    return (height * width // 2, images, channels)


def shape_fraction(images, channels, height, width):
    return (height * width / 8, images, channels)


def shape_by_trying(images, channels, height, width):
    x = torch.zeros(images, channels, height // 4, 4, width // 2, 2).mean(dim=(3, 5))
    return rearrange(x, "b c h w -> (h w) b c").shape


def shape_by_numpy(images, channels, height, width):
    return (np.prod([height // 4, width // 2]), images, channels)


def shape_as_list(images, channels, height, width):
    return [height * width // 8, images, channels]


def grid_columns_first(images, columns):
    return rearrange(images, "(k r) c h w -> c (r h) (k w)", k=columns)


def grid_reshape(images, columns):
    n, c, h, w = images.shape
    return images.reshape(c, n // columns * h, columns * w)


def grid_interleaved(images, columns):
    return rearrange(images, "(r k) c h w -> c (h r) (w k)", k=columns)


def grid_channels_last(images, columns):
    return rearrange(images, "(r k) c h w -> (r h) (k w) c", k=columns)


def grid_transposed(images, columns):
    return rearrange(images, "(r k) c h w -> c (k h) (r w)", k=columns)


def grid_columns_as_rows(images, columns):
    return rearrange(images, "(r k) c h w -> c (r h) (k w)", r=columns)


def grid_rows_interleaved(images, columns):
    n, c, h, w = images.shape
    grid = images.reshape(n // columns, columns, c, h, w).permute(2, 3, 0, 1, 4)
    return grid.reshape(c, n // columns * h, columns * w)


def grid_columns_interleaved(images, columns):
    return rearrange(images, "(r k) c h w -> c (r h) (w k)", k=columns)


def grid_one_row(images, columns):
    return torch.cat(list(images), dim=-1)


def grid_to_float(images, columns):
    return make_grid(images.float(), nrow=columns, padding=0)[: images.shape[1]]


def grid_by_cat(images, columns):
    rows = [torch.cat(list(images[i : i + columns]), dim=-1) for i in range(0, len(images), columns)]
    return torch.cat(rows, dim=-2)


def grid_by_permute(images, columns):
    n, c, h, w = images.shape
    grid = images.reshape(n // columns, columns, c, h, w).permute(2, 0, 3, 1, 4)
    return grid.reshape(c, n // columns * h, columns * w)


def guarded(function):
    """Refuse a wrong number of values, then go on."""

    def answer(images, mean, std):
        if len(mean) != images.shape[-3] or len(std) != images.shape[-3]:
            raise ValueError(f"{images.shape[-3]} channels, {len(mean)} means")
        x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
        return function(x, *(torch.as_tensor(v, dtype=torch.float32)[:, None, None] for v in (mean, std)))

    return answer


def normalize_forgets_255(images, mean, std):
    return (images - torch.as_tensor(mean)[:, None, None]) / torch.as_tensor(std)[:, None, None]


def normalize_always_255(images, mean, std):
    return (images / 255 - torch.as_tensor(mean)[:, None, None]) / torch.as_tensor(std)[:, None, None]


def normalize_last_axis(images, mean, std):
    x = images.float() / 255 if images.dtype == torch.uint8 else images
    return (x - torch.as_tensor(mean)) / torch.as_tensor(std)


def normalize_accepts_anything(images, mean, std):
    x = images.float() / 255 if images.dtype == torch.uint8 else images
    return ((x - torch.as_tensor(mean)[:, None, None]) / torch.as_tensor(std)[:, None, None]).float()


def normalize_accepts_any_std(images, mean, std):
    if len(mean) != images.shape[-3]:
        raise ValueError("channels")
    return normalize_accepts_anything(images, mean, std)


def normalize_asserts(images, mean, std):
    assert len(mean) == len(std) == images.shape[-3]
    return normalize_accepts_anything(images, mean, std)


def normalize_by_largest_value(images, mean, std):
    x = images.float()
    x = x / 255 if x.max() > 1 else x
    return normalize_accepts_anything(x, mean, std)


def normalize_double_mean(images, mean, std):
    x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return (x - torch.as_tensor(mean).view(-1, 1, 1)) / torch.as_tensor(std).view(-1, 1, 1)


def normalize_keeps_double(images, mean, std):
    if len(mean) != images.shape[-3] or len(std) != images.shape[-3]:
        raise ValueError("channels")
    x = images / 255 if images.dtype == torch.uint8 else images
    return (x - torch.as_tensor(mean)[:, None, None]) / torch.as_tensor(std)[:, None, None]


def normalize_in_place(images, mean, std):
    x = images.float() / 255 if images.dtype == torch.uint8 else images
    x -= torch.as_tensor(mean)[:, None, None]
    x /= torch.as_tensor(std)[:, None, None]
    return x


def normalize_by_torchvision(images, mean, std):
    if len(mean) != images.shape[-3] or len(std) != images.shape[-3]:
        raise ValueError("channels")
    x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return torchvision_normalize(x.clone(), list(map(float, mean)), list(map(float, std)))


def normalize_by_numpy(images, mean, std):
    x = images.numpy() / (255 if images.dtype == torch.uint8 else 1)
    mean, std = (np.asarray(v, dtype=np.float64) for v in (mean, std))
    if mean.size != x.shape[-3] or std.size != x.shape[-3]:
        raise ValueError("channels")
    return torch.from_numpy((x - mean[:, None, None]) / std[:, None, None]).float()


WRONG = {
    "read_shape": [
        ("the *right* side of the arrow", shape_as_before),
        ("the result has three axes", shape_four_axes),
        ("they are averaged away, so", shape_all_pixels),
        ("what stays is", shape_averaged_part),
        ("h2 = 4 belongs to the height", shape_swapped),
        ("h *times* w", shape_sum),
        ("the *right* side of the arrow", shape_pixels_second),
        ("the *right* side of the arrow", shape_channels_second),
        ("the result has three axes", shape_pair_inside),
        ("w = width / w2", shape_whole_width),
        ("h = height / h2", shape_whole_height),
        ("a count is a whole number", shape_fraction),
    ],
    "image_grid": [
        ("run down the columns", grid_columns_first),
        ("scrambles the pixels", grid_reshape),
        ("interleaved", grid_interleaved),
        ("the channels are last", grid_channels_last),
        ("rows and columns of the sheet are swapped", grid_transposed),
        ("you made `columns` *rows*", grid_columns_as_rows),
        ("not `(h r)`", grid_rows_interleaved),
        ("not `(w k)`", grid_columns_interleaved),
        ("the shape should be", grid_one_row),
        ("the numbers should stay torch.uint8", grid_to_float),
    ],
    "normalize": [
        ("run from 0 to 255", normalize_forgets_255),
        ("you divide by 255 always", normalize_always_255),
        ("the *last* axis", normalize_last_axis),
        ("goes unnoticed", normalize_accepts_anything),
        ("mean 3 and std 1 values", normalize_accepts_any_std),
        ("stopped with AssertionError", normalize_asserts),
        ("float64 images stay float64", normalize_keeps_double),
        ("a dark uint8 picture", normalize_by_largest_value),
        ("with a mean and std of float64", normalize_double_mean),
        ("in place", normalize_in_place),
        ("you add the mean", guarded(lambda x, mean, std: (x + mean) / std)),
        (
            "those of the training set",
            guarded(lambda x, mean, std: (x - x.mean((-2, -1), True)) / x.std((-2, -1), keepdim=True)),
        ),
        ("subtract the mean first", guarded(lambda x, mean, std: x / std - mean)),
        ("you multiply by std", guarded(lambda x, mean, std: (x - mean) * std)),
        ("the square of std", guarded(lambda x, mean, std: (x - mean) / std**2)),
        ("divide by std", guarded(lambda x, mean, std: x - mean)),
        ("the mean was not subtracted", guarded(lambda x, mean, std: x / std)),
        ("the same for every batch", guarded(lambda x, mean, std: (x - x.mean()) / x.std())),
    ],
}
RIGHT = {
    "read_shape": [shape_by_trying, shape_as_list, shape_by_numpy],
    "image_grid": [grid_by_cat, grid_by_permute],
    "normalize": [
        normalize_by_torchvision,
        normalize_by_numpy,
        guarded(lambda x, mean, std: x * (1 / std) - mean / std),
    ],
}
