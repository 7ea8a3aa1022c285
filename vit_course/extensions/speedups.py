"""Training a ViT in less time: fewer tokens at first, and first values that know pictures, put in from outside.

`train` leaves out tokens, `recipes.build_model` sets the first values; lesson 16 builds the parts.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vit_course.embeddings import resample_pos_embed
from vit_course.patches import patchify
from vit_course.vit import VisionTransformer


def drop_tokens(tokens: Tensor, keep: int, num_prefix_tokens: int = 0) -> Tensor:
    """Keep some of the patch tokens, drawn at random, and all prefix tokens (PatchDropout, Liu et al., 2022).

    Every call draws anew, all places are equally likely, and all images of the batch keep the same places.
    Positions have been added before, so a token still says where it comes from.

    Args:
        tokens: (B, prefix + N, D), float.
        keep: how many of the N patch tokens stay, from 1 to N.
        num_prefix_tokens: how many tokens in front are no patches and always stay, 1 with a CLS token, 0 without.

    Returns:
        (B, prefix + keep, D): the prefix tokens, then the kept patch tokens in their old order.
    """
    patches = tokens.shape[1] - num_prefix_tokens
    kept = torch.randperm(patches, device=tokens.device)[:keep].sort().values
    return torch.cat([tokens[:, :num_prefix_tokens], tokens[:, num_prefix_tokens + kept]], dim=1)


def drop_by_picture(tokens: Tensor, keep: int, num_prefix_tokens: int = 0) -> Tensor:
    """Do as `drop_tokens` does, with other places for every picture, which costs a little more."""
    patches = tokens[:, num_prefix_tokens:]
    kept = torch.rand(patches.shape[:2], device=tokens.device).argsort(1)[:, :keep].sort(1).values
    chosen = patches.gather(1, kept[:, :, None].expand(-1, -1, tokens.shape[-1]))
    return torch.cat([tokens[:, :num_prefix_tokens], chosen], dim=1)


@contextmanager
def fewer_tokens(model: nn.Module, share: float, by: str = "batch") -> Iterator[None]:
    """Let a ViT in training mode compute a share of its patch tokens, inside; `share` 1 changes nothing.

    `by` says how: "batch" is `drop_tokens`, "picture" `drop_by_picture`, "size" `smaller_pictures`. In a hybrid the
    first two leave out tokens of its ViT; a ResNet has no tokens, and "size" lets it read smaller pictures.

    Raises:
        ValueError: if the model has nothing that can be left out in this way.
    """
    if share == 1:
        yield
        return
    if by == "size" and has_feature_maps(model) and not hasattr(model, "vit"):
        with model.register_forward_pre_hook(lambda module, given: smaller(given[0], share)):
            yield
        return
    model = getattr(model, "vit", model) if by != "size" else model
    if not isinstance(model, VisionTransformer):
        raise ValueError(f"keep_tokens {share:g} is for a VisionTransformer: for this model it should be 1")
    if by == "size":
        with smaller_pictures(model, share):
            yield
        return
    keep = max(1, round(share * model.patch_embed.num_patches))
    drop = drop_by_picture if by == "picture" else drop_tokens

    def leave_out(module: nn.Module, given: tuple, tokens: Tensor) -> Tensor:
        return drop(tokens, keep, model.num_prefix_tokens) if model.training else tokens

    handle = model.pos_drop.register_forward_hook(leave_out)
    try:
        yield
    finally:
        handle.remove()


def has_feature_maps(model: nn.Module) -> bool:
    """Tell whether a model is a ResNet or a hybrid, by its batch norms."""
    return any(isinstance(part, nn.BatchNorm2d) for part in model.modules())


def smaller(images: Tensor, share: float) -> Tensor:
    """Resize pictures (B, C, H, W) to about this share of their pixels, with sides that are multiples of 4."""
    size = [max(4, 4 * round(side * share**0.5 / 4)) for side in images.shape[-2:]]
    return F.interpolate(images, size, mode="bilinear", antialias=True)


@contextmanager
def smaller_pictures(model: VisionTransformer, share: float) -> Iterator[None]:
    """Let a ViT read its pictures (B, C, H, W) made smaller, inside, in evaluation too (progressive resizing).

    Sides shrink by about the root of `share`, to multiples of a patch's, so about this share of the patches is left.
    Positions are interpolated; what the smaller ones learn reaches the table, which stays the same parameter.
    """
    embed, table = model.patch_embed, model.pos_embed
    grid = tuple(max(1, round(n * share**0.5)) for n in embed.grid_size)
    full, size = embed.img_size, tuple(n * side for n, side in zip(grid, embed.patch_size, strict=True))
    handle = embed.register_forward_pre_hook(
        lambda module, given: F.interpolate(given[0], size, mode="bilinear", antialias=True)
    )
    try:
        embed.img_size = size
        if table is not None:
            resized = resample_pos_embed(table, embed.grid_size, grid, model.num_prefix_tokens)
            model._parameters["pos_embed"] = resized  # an attribute of that name would have to be a parameter
        yield
    finally:
        handle.remove()
        embed.img_size, model._parameters["pos_embed"] = full, table


def whitening_filters(images: Tensor, patch_size: int, eps: float = 1e-2) -> Tensor:
    """Find filters whose answers to the patches of these images are uncorrelated and of variance 1.

    They are the principal components of the patches, that is, the eigenvectors of their covariance (as `torch.cov`
    computes it), which has P·P·C rows and columns. Each is divided by sqrt(its eigenvalue + eps). An eigenvalue is the
    variance of the patches along its eigenvector, so common, smooth patterns get weaker, and rare, fine ones stronger.

    Args:
        images: (B, C, H, W) float, normalised. H and W are multiples of P.
        patch_size: side P in pixels.
        eps: is added to every eigenvalue, and keeps filters of patterns that hardly occur finite.

    Returns:
        (P·P·C, C, P, P), the filter with the largest eigenvalue first. A filter may have either sign.
    """
    patches = patchify(images, patch_size).flatten(0, 1)
    variance, components = torch.linalg.eigh(torch.cov(patches.T))  # smallest first, components are columns
    filters = (components / (variance + eps).sqrt()).T.flip(0)
    return rearrange(filters, "k (p q c) -> k c p q", p=patch_size, q=patch_size).contiguous()


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
