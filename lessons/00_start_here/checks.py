"""Checks of lesson 00: tensors, einops and the data."""

import torch
from einops import rearrange
from torch import Tensor

from vit_course import data
from vit_course.classroom import plots
from vit_course.classroom.checks.compare import compare, demand_error
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.reading import read_shape


@exercise(read_shape)
def check_read_shape(answer):
    cases = [(1, 1, 4, 2), (2, 3, 8, 4), (10, 3, 32, 32), (7, 1, 24, 40)]

    def old_order(b, c, h, w):
        return b, c, (h // 4) * (w // 2)

    def pixels_second(b, c, h, w):
        return b, (h // 4) * (w // 2), c

    def channels_second(b, c, h, w):
        return (h // 4) * (w // 2), c, b

    def two_axes(b, c, h, w):
        return h // 4, w // 2, b, c

    def pair_inside(b, c, h, w):
        return (h // 4, w // 2), b, c

    def not_reduced(b, c, h, w):
        return h * w, b, c

    def height_only(b, c, h, w):
        return h // 4 * w, b, c

    def width_only(b, c, h, w):
        return h * (w // 2), b, c

    def only_small(b, c, h, w):
        return 4 * 2, b, c

    def swapped(b, c, h, w):
        return (h // 2) * (w // 4), b, c

    def added(b, c, h, w):
        return h // 4 + w // 2, b, c

    order = "the axes follow the *right* side of the arrow: (h w) comes first there, then b, then c"
    one_axis = "`(h w)` in brackets is *one* axis of h·w numbers, so the result has three axes"
    compare(
        lambda *case: _plain(answer(*case)),
        read_shape,
        cases,
        [
            (old_order, order),
            (pixels_second, order),
            (channels_second, order),
            (two_axes, one_axis),
            (pair_inside, one_axis),
            (
                not_reduced,
                "h2 and w2 are missing on the right side: they are averaged away, so h = height / h2",
            ),
            (
                height_only,
                "w2 is missing on the right side too: the width is averaged in pairs, w = width / w2",
            ),
            (
                width_only,
                "h2 is missing on the right side too: the height is averaged in fours, h = height / h2",
            ),
            (
                only_small,
                "h2 and w2 are what is averaged away; what stays is h = height / h2 and w = width / w2",
            ),
            (swapped, "h2 = 4 belongs to the height, w2 = 2 to the width"),
            (added, "an axis of two letters in brackets has h *times* w entries"),
        ],
    )


def _plain(shape: object) -> object:
    """Read a torch.Size or a list as a tuple."""
    return tuple(shape) if isinstance(shape, list | torch.Size) else shape


@exercise(plots.image_grid)
def check_image_grid(answer):
    def small(*shape: int) -> Tensor:
        return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)

    cases = [
        (small(2, 1, 1, 2), 1),
        (small(4, 1, 2, 2), 2),
        (small(6, 3, 2, 4), 3),
        (torch.rand(6, 3, 5, 4), 2),
        (torch.randint(0, 256, (8, 3, 4, 4), dtype=torch.uint8), 4),
    ]

    def pattern(text: str):
        return lambda images, columns: rearrange(images, text, k=columns)

    def so_many_rows(images, columns):
        return rearrange(images, "(r k) c h w -> c (r h) (k w)", r=columns)

    def plain_reshape(images, columns):
        _, channels, height, width = images.shape
        return images.reshape(channels, -1, columns * width)

    compare(
        answer,
        plots.image_grid,
        cases,
        [
            (
                pattern("(k r) c h w -> c (r h) (k w)"),
                "your images run down the columns: the second one belongs to "
                "the *right* of the first. In `(r k)` the right letter is the fast one",
            ),
            (plain_reshape, "`reshape` alone scrambles the pixels: it never moves an axis; `rearrange` does"),
            *(
                (
                    pattern(f"(r k) c h w -> c {sides}"),
                    f"the pixels of different images are interleaved: the axis of the grid is the slow one, so it "
                    f"stands first, {order}",
                )
                for sides, order in (
                    ("(h r) (w k)", "`(r h)` and `(k w)`"),
                    ("(h r) (k w)", "`(r h)` and not `(h r)`"),
                    ("(r h) (w k)", "`(k w)` and not `(w k)`"),
                )
            ),
            (pattern("(r k) c h w -> (r h) (k w) c"), "the channels are last: pictures here are (C, H, W)"),
            (pattern("(r k) c h w -> c (r w) (k h)"), "height and width are swapped inside each image"),
            (
                pattern("(r k) c h w -> c (k h) (r w)"),
                "rows and columns of the sheet are swapped: `columns` images stand side by side",
            ),
            (so_many_rows, "you made `columns` *rows*: `columns` says how many images stand side by side, k"),
        ],
    )


@exercise(data.normalize)
def check_normalize(answer):
    small = torch.tensor([[[[0.0, 0.5], [1.0, 0.25]]]])
    three = (torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.25, 0.2, 0.1]))
    cases = [
        (small, [0.5], [0.25]),
        (torch.rand(2, 3, 4, 5), *three),
        (torch.rand(3, 4, 4), *three),
        (torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8), *three),
        (torch.randint(0, 2, (2, 2, 3, 3, 3), dtype=torch.uint8), *three),
    ]

    def unit(images):
        return images.float() / 255 if images.dtype == torch.uint8 else images

    def column(values):
        return torch.as_tensor(values).view(-1, 1, 1)

    def forgets_255(images, mean, std):
        return (images.float() - column(mean)) / column(std)

    def always_255(images, mean, std):
        return (images.float() / 255 - column(mean)) / column(std)

    def by_values(images, mean, std):
        x = images.float()
        return ((x / 255 if x.max() > 1 else x) - column(mean)) / column(std)

    def divides_first(images, mean, std):
        return unit(images) / column(std) - column(mean)

    def by_variance(images, mean, std):
        return (unit(images) - column(mean)) / column(std) ** 2

    def multiplies(images, mean, std):
        return (unit(images) - column(mean)) * column(std)

    def mean_only(images, mean, std):
        return unit(images) - column(mean)

    def std_only(images, mean, std):
        return unit(images) / column(std)

    def own_statistics(images, mean, std):
        x = unit(images)
        return (x - x.mean()) / x.std()

    def own_channel_statistics(images, mean, std):
        x = unit(images)
        return (x - x.mean((-2, -1), keepdim=True)) / x.std((-2, -1), keepdim=True)

    def adds_mean(images, mean, std):
        return (unit(images) + column(mean)) / column(std)

    def last_axis(images, mean, std):
        return (unit(images) - torch.as_tensor(mean)) / torch.as_tensor(std)

    compare(
        answer,
        data.normalize,
        cases,
        [
            (
                forgets_255,
                "whole numbers (uint8) run from 0 to 255, but mean and std are in units of 0..1: divide "
                "such images by 255 first",
            ),
            (
                always_255,
                "you divide by 255 always; float images are in 0..1 already, only uint8 ones are not",
            ),
            (
                by_values,
                "you look at the values to decide whether to divide by 255, and a dark uint8 picture may have no value "
                "above 1: look at `images.dtype`",
            ),
            (adds_mean, "you add the mean; it should be subtracted"),
            (divides_first, "the order: subtract the mean first, then divide the difference by std"),
            (by_variance, "you divide by the square of std"),
            (multiplies, "you multiply by std; it should divide"),
            (mean_only, "the mean is gone, but the spread is still the old one: divide by std"),
            (std_only, "the spread is right, but the mean was not subtracted"),
            *(
                (
                    statistics,
                    "use the mean and std that are given: those of the training set, the same for every batch",
                )
                for statistics in (own_statistics, own_channel_statistics)
            ),
            (
                last_axis,
                "mean and std belong to the channels, axis -3; as they are, they meet the *last* axis, the "
                "width. Give them the shape (C, 1, 1)",
            ),
        ],
    )
    double = torch.rand(2, 3, 4, 4, dtype=torch.float64)
    compare(
        answer,
        data.normalize,
        [(double, *three), (double, *(v.double() for v in three))],
        [
            (
                lambda *case: data.normalize(*case).double(),
                "float64 images stay float64: the result should be float32, which the layers of a model expect; "
                "convert with `.float()`",
            ),
            (
                lambda images, mean, std: data.normalize(images, mean, std).to(mean.dtype),
                "with a mean and std of float64 the result is float64: it should be float32, so convert them too, "
                "`torch.as_tensor(mean, dtype=torch.float32)`",
            ),
        ],
    )
    for means, stds in ((1, 1), (1, 3), (3, 1), (4, 4)):
        demand_error(
            answer,
            (torch.rand(2, 3, 4, 4), [0.5] * means, [0.5] * stds),
            f"images have 3 channels, but mean {means} and std {stds} values, and else a forgotten channel goes "
            "unnoticed",
            ValueError,
        )
