"""What lesson 04 needs beside the model: attention in several heads without weights of its own, and patches described.

`attend_in_heads` is the first of two steps to the whole layer; `describe_patches` makes tokens of a photo by hand;
`tokens_that_change` shows whether a layer mixes tokens.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from vit_course.attention import merge_heads, scaled_dot_product_attention, split_heads
from vit_course.embeddings import sincos_2d
from vit_course.patches import patchify


def attend_in_heads(q: Tensor, k: Tensor, v: Tensor, num_heads: int) -> tuple[Tensor, Tensor]:
    """Let each head attend by its own slice of queries, keys and values, and put the results side by side.

    Args:
        q: (B, T, D) queries.
        k: (B, T, D) keys.
        v: (B, T, D) values.
        num_heads: number of heads h; head 0 gets the first D/h numbers of every row, head 1 the next.

    Returns:
        output: (B, T, D), the results of the heads side by side.
        weights: (B, h, T, T), one attention map for each head.

    Raises:
        ValueError: if D is not a multiple of h.
    """
    q, k, v = (split_heads(part, num_heads) for part in (q, k, v))
    heads, weights = scaled_dot_product_attention(q, k, v)
    return merge_heads(heads), weights


def describe_patches(photo: Tensor, patch_size: int = 8) -> Tensor:
    """Describe every patch of a photo (3, H, W) of bytes by 192 numbers: its colour, its detail and its place, 64 each.

    Every description has length 1, so that the product of two of them is 1 if they agree, and less if not.

    Returns:
        (1, N, 192).
    """
    pixels = rearrange(patchify(photo[None] / 255, patch_size)[0], "n (p c) -> n p c", c=3)
    colour, detail = pixels.mean(dim=1), pixels.std(dim=1).mean(dim=1, keepdim=True)
    grid = photo.shape[-2] // patch_size, photo.shape[-1] // patch_size
    place = F.normalize(sincos_2d(grid, 64), dim=-1)
    return torch.cat([of_length_one(colour), of_length_one(detail), place], dim=-1)[None]


def of_length_one(description: Tensor) -> Tensor:
    """Standardise (N, m) numbers over all patches, append a 1, scale to length 1, and fill up to (N, 64)."""
    standard = (description - description.mean(dim=0)) / description.std(dim=0)
    with_one = F.pad(standard, (0, 1), value=1.0)
    return F.pad(F.normalize(with_one, dim=-1), (0, 64 - with_one.shape[-1]))


def tokens_that_change(layer: Callable[[Tensor], Tensor]) -> list[int]:
    """Change token 3 of five tokens of 8 numbers, and list the tokens whose output changes."""
    before = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0))
    after = before.index_fill(1, torch.tensor([3]), 1.0)
    moved = (layer(after) - layer(before)).abs().amax(dim=-1)[0] > 1e-6
    return moved.nonzero().flatten().tolist()
