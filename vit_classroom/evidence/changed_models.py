"""Lesson 15 on trained models: copies that merge tokens, and the largest score of each block."""

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course.attention import MultiHeadAttention, merge_heads, split_heads
from vit_course.encoder import Encoder
from vit_course.extensions.modern import merge_tokens
from vit_course.vit import VisionTransformer


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
