"""Lesson 15 on trained models: copies that merge tokens or read larger patches, and the largest score of each block."""

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course.attention import MultiHeadAttention, merge_heads, split_heads
from vit_course.encoder import Encoder
from vit_course.extensions.modern import merge_tokens
from vit_course.vit import VisionTransformer


def resize_matrix(old: int, new: int) -> Tensor:
    """Return the matrix (new², old²) that resizes a picture of one channel, bicubic and antialiased."""
    pixels = torch.eye(old * old).reshape(old * old, 1, old, old)
    return F.interpolate(pixels, (new, new), mode="bicubic", antialias=True).flatten(1).T


def resize_patch_kernel(weight: Tensor, patch_size: int) -> Tensor:
    """Fit a patch projection to patches of another size, by the pseudo-inverse (Beyer et al., 2022: FlexiViT).

    A patch x, resized, is B x. The new kernel should give on B x what the old one gives on x: Bᵀ new = old.

    Args:
        weight: (D, C, P, P).
        patch_size: the new side.

    Returns:
        (D, C, new side, new side); exact where patches grow, the best in the mean where they shrink.
    """
    inverse = torch.linalg.pinv(resize_matrix(weight.shape[-1], patch_size).T).to(weight)
    return (weight.flatten(2) @ inverse.T).unflatten(-1, (patch_size, patch_size))


def with_patch_size(
    model: VisionTransformer, patch_size: int, resize: Callable[[Tensor, int], Tensor] = resize_patch_kernel
) -> VisionTransformer:
    """Return a copy that cuts larger or smaller pictures into patches of this side, on the same grid."""
    model = copy.deepcopy(model)
    embed, weight = model.patch_embed, resize(model.patch_embed.proj.weight.data, patch_size)
    embed.proj.weight.data, embed.proj.kernel_size = weight, (patch_size, patch_size)
    embed.proj.stride = embed.patch_size = (patch_size, patch_size)
    embed.img_size = tuple(side * patch_size for side in embed.grid_size)
    return model


class MergingEncoder(Encoder):
    """The blocks of a trained model, each of which merges tokens between attention and MLP. For evaluation alone.

    A token that stands for s patches counts s times as a key: log s is added to its scores.

    Args:
        blocks: the trained blocks.
        r: how many tokens disappear in each block, as long as there are so many.
        num_prefix_tokens: tokens in front that are never merged.
        merge: merges, as `merge_tokens` does.
    """

    def __init__(self, blocks: Encoder, r: int, num_prefix_tokens: int = 1, merge: Callable = merge_tokens):
        nn.ModuleList.__init__(self, blocks)
        self.r, self.num_prefix_tokens, self.merge = r, num_prefix_tokens, merge

    def forward(self, x: Tensor) -> Tensor:
        """Pass tokens (B, T, D) through all blocks; (B, T', D) are left."""
        sizes = x.new_ones(x.shape[:2])
        for block in self:
            attended, k = attend_by_size(block.attn, block.norm1(x), sizes)
            r = min(self.r, (x.shape[1] - self.num_prefix_tokens) // 2)
            x, sizes = self.merge(x + attended, k, sizes, r, self.num_prefix_tokens)
            x = x + block.mlp(block.norm2(x))
        return x


def attend_by_size(attention: MultiHeadAttention, x: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Attend to tokens (B, T, D) that stand for several patches; also return the mean key (B, T, d) of the heads."""
    q, k, v = (split_heads(part, attention.num_heads) for part in attention.qkv(x).chunk(3, dim=-1))
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=sizes.log()[:, None, None])
    return attention.proj(merge_heads(heads)), k.mean(dim=1)


def with_merging(model: VisionTransformer, r: int, merge: Callable = merge_tokens) -> VisionTransformer:
    """Return a copy of a model with a table of positions that merges r tokens a block; it reads the CLS token."""
    model = copy.deepcopy(model).eval()
    model.blocks = MergingEncoder(model.blocks, r, model.num_prefix_tokens, merge)
    return model


@torch.no_grad()
def largest_logits(model: VisionTransformer, images: Tensor) -> list[float]:
    """Return the largest attention score q kᵀ / sqrt(d), by size, of each block on these images."""
    x, found = model.embed(images), []
    for block in model.blocks:
        projected = block.attn.qkv(block.norm1(x)).chunk(3, dim=-1)
        q, k, _ = (split_heads(part, block.attn.num_heads) for part in projected)
        found.append((q @ k.mT * q.shape[-1] ** -0.5).abs().max().item())
        x = block(x)
    return found
