"""A `VisionTransformer` with the parts that public weights need, built from a plan: plain values that a file can keep.

`backbone` plans a model from the weights of another library, and `trained` builds a tuned one again from its file.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course.attention import merge_heads, split_heads
from vit_course.embeddings import pool
from vit_course.encoder import Mlp
from vit_course.extensions.modern import AttentionPool, PreparedProjection, modernize
from vit_course.vit import VisionTransformer


class QuickGELU(nn.Module):
    """OpenAI's approximation of GELU: x · sigmoid(1.702 x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Map numbers to numbers."""
        return x * torch.sigmoid(1.702 * x)


ACTIVATIONS = {"gelu": nn.GELU, "gelu_pytorch_tanh": lambda: nn.GELU("tanh"), "quick_gelu": QuickGELU}


class CentredProjection(PreparedProjection):
    """The projection to queries, keys and values with DINOv3's rotation: places run from -1 to 1 on every grid."""

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (B, T, D) to queries, keys and values (B, T, 3D)."""
        q, k, v = (split_heads(part, self.num_heads) for part in self.part(x).chunk(3, dim=-1))
        angles = self.angles(q.shape[-1]).to(x.device)
        sin, cos = angles.sin().to(x), angles.cos().to(x)

        def turned(part: Tensor) -> Tensor:
            first, second = part.chunk(2, dim=-1)
            return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)

        return torch.cat([merge_heads(part) for part in (turned(q), turned(k), v)], dim=-1)

    def angles(self, dim: int) -> Tensor:
        """Return the angle (T, d/2) of each pair: half of them by the row, half by the column, 0 for prefix tokens."""
        rows, columns = ((2 * torch.arange(n) + 1) / n - 1 for n in self.grid_size)
        frequencies = 2 * math.pi * 100.0 ** (-torch.arange(dim // 4) / (dim // 4))
        y = (rows[:, None] * frequencies).repeat_interleave(len(columns), dim=0)
        x = (columns[:, None] * frequencies).repeat(len(rows), 1)
        return F.pad(torch.cat([y, x], dim=1), (0, 0, self.num_prefix_tokens, 0))


class PoolHead(nn.Module):
    """SigLIP's reader: attention pooling over all tokens, then an MLP beside a residual.

    Args:
        dim: width D of a token.
        num_heads: number of heads.
        hidden_dim: width of the MLP in between.
        num_prefix_tokens: tokens in front that are not read.
    """

    def __init__(self, dim: int, num_heads: int, hidden_dim: int, num_prefix_tokens: int = 0):
        super().__init__()
        self.pool = AttentionPool(dim, num_heads, num_prefix_tokens)
        self.norm, self.mlp = nn.LayerNorm(dim), Mlp(dim, hidden_dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Make one vector (B, D) of tokens (B, T, D)."""
        x = self.pool(tokens)
        return x + self.mlp(self.norm(x))


class MeanNorm(nn.LayerNorm):
    """A final norm that comes after the average over the patches (timm's `fc_norm`): tokens pass it unchanged."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise vectors (B, D); return tokens (B, T, D) as they are."""
        return super().forward(x) if x.ndim == 2 else x


class PublicViT(VisionTransformer):
    """A Vision Transformer that may have another reader of its tokens than CLS or their average."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.reader: nn.Module | None = None

    def read(self, tokens: Tensor) -> Tensor:
        """Make y (B, D), which the head reads, of the tokens (B, T, D) after the final norm."""
        if self.reader is not None:
            return self.reader(tokens)
        y = pool(tokens, self.global_pool, self.num_prefix_tokens)
        return self.norm(y) if isinstance(self.norm, MeanNorm) else y

    def forward(self, images: Tensor, return_attention: bool = False) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Classify images (B, C, H, W) as `VisionTransformer` does."""
        found = self.blocks(self.embed(images), return_attention=return_attention)
        z, attentions = found if return_attention else (found, [])
        logits = self.head(self.pre_logits(self.read(self.norm(z))))
        return (logits, attentions) if return_attention else logits


def build_planned(plan: dict[str, Any], num_classes: int) -> PublicViT:
    """Build a model, with new weights, from what `backbone` planned.

    Args:
        plan: "vit", arguments of `VisionTransformer`; "modern", arguments of `modernize`; "act" and "eps"; whether
            there is "norm_pre", a norm before the blocks, "mean_norm", a final norm after the average, "rotated",
            DINOv3's rotations; and "reader", the width of SigLIP's MLP, or 0.
        num_classes: of the head.
    """
    sizes = {name: tuple(plan["vit"][name]) for name in ("img_size", "patch_size")}  # a file holds lists
    model = PublicViT(**plan["vit"] | sizes, num_classes=num_classes)
    modernize(model, **plan["modern"])
    dim, heads = plan["vit"]["embed_dim"], plan["vit"]["num_heads"]
    if plan["mean_norm"]:
        model.norm = MeanNorm(dim)
    if plan["reader"]:
        model.reader = PoolHead(dim, heads, plan["reader"], model.num_prefix_tokens)
    if plan["norm_pre"]:  # between positions and blocks, where dropout of the positions stands
        model.pos_drop = nn.LayerNorm(dim)
    for part in model.modules():
        if isinstance(part, Mlp):
            part.act = ACTIVATIONS[plan["act"]]()
        elif isinstance(part, nn.LayerNorm):
            part.eps = plan["eps"]
    if plan["rotated"]:
        for block in model.blocks:
            sizes = heads, False, model.patch_embed.grid_size, model.num_prefix_tokens
            block.attn.qkv = CentredProjection(block.attn.qkv, *sizes)
    return model
