"""Other positions for a finished model: 2-D, relative, in every layer, shared (paper, D.4).

`with_positions` puts them in from outside, as `cifar_stem` of `resnet` changes a ResNet. Lesson 10 compares
them; `recipes` builds models that have them.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course.attention import MultiHeadAttention, merge_heads, split_heads
from vit_course.embeddings import add_position
from vit_course.vit import VisionTransformer, make_pos_embed

KINDS = ("learned", "2d", "sincos", "relative")
PLACES = ("stem", "every", "shared")


def with_positions(model: VisionTransformer, kind: str = "2d", at: str = "stem") -> VisionTransformer:
    """Give a model new positions, in place of those it has (paper, D.4).

    Tables are added to the tokens: at the stem after the CLS token has joined them, where the model's own stood, and
    with "every" and "shared" also in front of each later block. Relative positions belong to the attention of
    every block; the paper lists them under "stem".

    Args:
        model: a Vision Transformer as it was built; changed in place.
        kind: "learned" (1-D), "2d", "sincos" or "relative".
        at: "stem" adds a table once, before the first block; "every" adds to the input of every block a table of its
            own; "shared" adds the same table to all of them. Relative positions know "stem" alone.

    Returns:
        The same model.

    Raises:
        ValueError: if kind or place is unknown or they do not fit each other, or if the model has parts for other
            positions already; then nothing is changed.
    """
    if kind not in KINDS or at not in PLACES:
        known = f"{', '.join(KINDS)} at {', '.join(PLACES)}"
        raise ValueError(f"positions {kind!r} at {at!r} are unknown: use {known}")
    if kind == "relative" and at != "stem":
        raise ValueError(f"positions 'relative' have no table to add, so `at` must be 'stem', not {at!r}")
    if any(isinstance(part, WithPosition | RelativeAttention) for part in model.modules()):
        raise ValueError("the model has parts for other positions already: build a new one")
    if kind == "relative":
        model.pos_embed = None
        num_tokens = model.patch_embed.num_patches + model.num_prefix_tokens
        for block in model.blocks:
            block.attn = RelativeAttention(block.attn, num_tokens)
    else:
        add_tables(model, lambda: make_table(model, kind), at)
    return model.to(model.patch_embed.proj.weight)


def add_tables(model: VisionTransformer, make: Callable[[], nn.Parameter | nn.Module], at: str) -> None:
    """Put a table into the stem, and in front of each later block another one or the same, as `at` says."""
    first = make()
    if isinstance(first, nn.Module):
        model.pos_embed, model.pos_drop = None, WithPosition(model.pos_drop, first)
    else:
        model.pos_embed = first
    for layer in range(1, len(model.blocks)) if at != "stem" else ():
        model.blocks[layer] = WithPosition(model.blocks[layer], first if at == "shared" else make())


def make_table(model: VisionTransformer, kind: str) -> nn.Parameter | nn.Module:
    """Make positions for the tokens of a model: a table (1, prefix + N, D), or a module that returns one."""
    sizes = model.patch_embed.grid_size, model.norm.normalized_shape[0], model.num_prefix_tokens
    return LearnedPosition2d(*sizes) if kind == "2d" else make_pos_embed(kind, *sizes)


class WithPosition(nn.Module):
    """Add positions to the tokens (B, T, D), then do what the wrapped part does: a block, or the stem's dropout.

    Args:
        part: the module that is wrapped.
        pos_embed: a table (1, T, D), or a module that returns one. Several parts may have the same.
    """

    def __init__(self, part: nn.Module, pos_embed: nn.Parameter | nn.Module):
        super().__init__()
        self.part, self.pos_embed = part, pos_embed

    def forward(self, x: Tensor, *arguments, **options) -> Tensor | tuple[Tensor, Tensor]:
        """Return what the part makes of the tokens (B, T, D) and of the other arguments."""
        table = self.pos_embed() if isinstance(self.pos_embed, nn.Module) else self.pos_embed
        return self.part(add_position(x, table), *arguments, **options)


class LearnedPosition2d(nn.Module):
    """Learned 2-D positions: D/2 numbers for the row, D/2 for the column, side by side (paper, D.4).

    Args:
        grid_size: (rows, columns) of the grid of patches.
        dim: width D, even.
        num_prefix_tokens: tokens in front that get a vector of their own.
    """

    def __init__(self, grid_size: tuple[int, int], dim: int, num_prefix_tokens: int = 1):
        super().__init__()
        if dim % 2:
            raise ValueError(f"dim {dim} is not divisible by 2: half describes the row, half the column")
        rows, columns = grid_size
        self.prefix = nn.Parameter(torch.randn(1, num_prefix_tokens, dim) * 0.02)
        self.rows = nn.Parameter(torch.randn(rows, dim // 2) * 0.02)
        self.columns = nn.Parameter(torch.randn(columns, dim // 2) * 0.02)

    def forward(self) -> Tensor:
        """Return the positions as one table (1, prefix + N, D)."""
        rows, columns = len(self.rows), len(self.columns)
        y = self.rows.repeat_interleave(columns, dim=0)
        x = self.columns.repeat(rows, 1)
        return torch.cat([self.prefix, torch.cat([y, x], dim=1)[None]], dim=1)


class RelativePosition(nn.Module):
    """Relative positions in 1-D: a learned vector for every offset between query and key (paper, D.4).

    The content of the query meets the vector of the offset; the result is added to the attention scores.

    Args:
        num_tokens: length T of the sequence.
        head_dim: width d of one head.
    """

    def __init__(self, num_tokens: int, head_dim: int):
        super().__init__()
        self.offsets = nn.Parameter(torch.randn(2 * num_tokens - 1, head_dim) * 0.02)

    def forward(self, q: Tensor) -> Tensor:
        """Turn queries (B, h, T, d) into a bias (B, h, T, T) for the attention scores.

        Raises:
            ValueError: if there are not T queries: where tokens are left out, nobody knows the offsets.
        """
        count = len(self.offsets) // 2 + 1
        if q.shape[-2] != count:
            raise ValueError(f"{q.shape[-2]} tokens, but relative positions of {count}: use keep_tokens 1")
        position = torch.arange(count, device=q.device)
        scores = q @ self.offsets.T * q.shape[-1] ** -0.5
        index = position[:, None] - position + count - 1
        return scores.gather(-1, index.expand(*scores.shape[:-1], -1))


class RelativeAttention(MultiHeadAttention):
    """Multi-head self-attention with relative positions; it takes over the layers of a `MultiHeadAttention`.

    Args:
        attention: gives its layers, under their old names, and its rate of dropout.
        num_tokens: length T of the sequence.
    """

    def __init__(self, attention: MultiHeadAttention, num_tokens: int):
        nn.Module.__init__(self)  # the layers exist already
        self.num_heads, self.attn_drop = attention.num_heads, attention.attn_drop
        self.qkv, self.proj, self.proj_drop = attention.qkv, attention.proj, attention.proj_drop
        self.rel_pos = RelativePosition(num_tokens, self.proj.in_features // self.num_heads)

    def forward(self, x: Tensor, return_attention: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Do as `MultiHeadAttention` does, with a term for every offset in the scores."""
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        bias, dropout = self.rel_pos(q), self.attn_drop if self.training else 0.0
        if return_attention:
            weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + bias).softmax(dim=-1)
            heads = F.dropout(weights, dropout) @ v if dropout > 0 else weights @ v
        else:
            heads = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)
        out = self.proj_drop(self.proj(merge_heads(heads)))
        return (out, weights) if return_attention else out
