"""Lesson 13: how far the colours around a hidden patch give its colour away."""

import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from torch import Tensor

from vit_course.patches import as_pair


def neighbour_colours(images: Tensor, patch_size: int | tuple[int, int], chosen: Tensor) -> Tensor:
    """Return the mean colour of the uncorrupted neighbours of every corrupted patch.

    Up to eight patches around count. Where all of them are corrupted, the mean of all uncorrupted patches of the
    image stands in.

    Args:
        images: (B, C, H, W) pixels, in any unit.
        patch_size: side P of a square patch, or (height, width), in pixels.
        chosen: (B, N) bool, True for corrupted patches.

    Returns:
        (B, C, rows, columns) float, a colour for each patch; only those of corrupted patches mean anything.
    """
    p1, p2 = as_pair(patch_size)
    means = reduce(images.float(), "b c (h p1) (w p2) -> b c h w", "mean", p1=p1, p2=p2)
    seen = rearrange(~chosen, "b (h w) -> b 1 h w", h=means.shape[2]).float()
    around, count = (F.avg_pool2d(x, 3, 1, 1, divisor_override=1) for x in (means * seen, seen))  # sums
    everywhere = (means * seen).sum((2, 3), keepdim=True) / seen.sum((2, 3), keepdim=True).clamp(min=1)
    return torch.where(count > 0, around / count.clamp(min=1), everywhere)
