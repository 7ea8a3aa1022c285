"""First values that know pictures: three ways to begin a ViT that lesson 16's trials tried beside the drawn one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vit_course.data import Dataset, normalize
from vit_course.extensions.speedups import whitening_filters
from vit_course.recipes import build_model
from vit_course.vit import VisionTransformer


@torch.no_grad()
def start_whitened(model: VisionTransformer, images: Tensor, eps: float = 1e-2) -> None:
    """Set the patch projection to whitening filters and their negatives, as many as it has room for.

    Args:
        model: its E is changed in place; filters that there is no pattern for stay as they were drawn.
        images: (B, C, H, W) float, normalised; some thousand are enough.
        eps: of `whitening_filters`.
    """
    weight = model.patch_embed.proj.weight
    filters = whitening_filters(images, weight.shape[-1], eps)
    filters = torch.cat([filters, -filters])[: len(weight)]
    weight[: len(filters)] = filters


@torch.no_grad()
def start_mimetic(model: VisionTransformer, qk: float = 0.7, vo: float = 0.4) -> None:
    """Let attention begin as it looks in trained models (Trockman and Kolter, 2023, with their constants).

    In every head Wqᵀ Wk becomes about qk·(noise + I): tokens look at tokens that are like them. W_O Wv becomes about
    vo·(noise - I).
    """
    for block in model.blocks:
        dim, heads = block.attn.proj.in_features, block.attn.num_heads
        wq, wk, wv = block.attn.qkv.weight.chunk(3)
        for q, k in zip(wq.chunk(heads), wk.chunk(heads), strict=True):
            left, values, right = torch.linalg.svd(qk * (torch.randn(dim, dim) / dim**0.5 + torch.eye(dim)))
            root = values[: len(q)].sqrt()[:, None]
            q.copy_(root * left.T[: len(q)])
            k.copy_(root * right[: len(k)])
        left, values, right = torch.linalg.svd(vo * (torch.randn(dim, dim) / dim**0.5 - torch.eye(dim)))
        wv.copy_(values.sqrt()[:, None] * right)
        block.attn.proj.weight.copy_(left * values.sqrt())


@torch.no_grad()
def start_silent(model: VisionTransformer) -> None:
    """Set the last layer of every branch to zero, so that all blocks begin as the identity."""
    for block in model.blocks:
        block.attn.proj.weight.zero_()
        block.mlp.fc2.weight.zero_()


def set_first_values(model: VisionTransformer, names: list[str], images: Tensor) -> None:
    """Change the first values of a ViT as the names say: "whitened", "mimetic", "silent".

    Args:
        model: changed in place.
        names: in this order.
        images: (B, C, H, W) float, normalised training pictures.

    Raises:
        ValueError: if a name is unknown.
    """
    starts = {"whitened": lambda: start_whitened(model, images), "mimetic": lambda: start_mimetic(model)}
    starts["silent"] = lambda: start_silent(model)
    for name in names:
        if name not in starts:
            raise ValueError(f"first values {name!r} are unknown: use {', '.join(starts)}")
        starts[name]()


def build_started(name: str, dataset: Dataset, first_values: Sequence[str] = (), **options: Any) -> nn.Module:
    """Build a model as `build_model` does, a ViT with the first values of these names.

    Raises:
        ValueError: if a name is unknown, or the model is no ViT.
    """
    model = build_model(name, dataset, **options)
    if first_values and not isinstance(model, VisionTransformer):
        raise ValueError(f"{name} has no first_values: that is an option of a ViT")
    if first_values:
        some = dataset.train_images[:: max(1, len(dataset.train_images) // 4_000)]
        set_first_values(model, first_values, normalize(some, *dataset.channel_stats()))
    return model
