"""Training a ViT in less time: fewer tokens at first, put in from outside, and filters that know pictures.

`step_wrappers` leaves out tokens where a recipe says so; lesson 16 builds the parts.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vit_course.embeddings import resample_pos_embed
from vit_course.patches import patchify
from vit_course.training.engine import has_feature_maps
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


def fewer_tokens(model: nn.Module, share: float, by: str = "batch") -> AbstractContextManager:
    """Let a ViT in training mode compute a share of its patch tokens, inside; `share` 1 changes nothing.

    `by` says how: "batch" is `drop_tokens`, "picture" `drop_by_picture`, "size" `smaller_pictures`. In a hybrid the
    first two leave out tokens of its ViT; a ResNet has no tokens, and "size" lets it read smaller pictures.

    Raises:
        ValueError: if the model has nothing that can be left out in this way.
    """
    if share == 1:
        return nullcontext()
    if by == "size" and has_feature_maps(model) and not hasattr(model, "vit"):
        return model.register_forward_pre_hook(lambda module, given: smaller(given[0], share))
    model = getattr(model, "vit", model) if by != "size" else model
    if not isinstance(model, VisionTransformer):
        raise ValueError(f"keep_tokens {share:g} is for a VisionTransformer: for this model it should be 1")
    if by == "size":
        return smaller_pictures(model, share)
    keep = max(1, round(share * model.patch_embed.num_patches))
    drop = drop_by_picture if by == "picture" else drop_tokens

    def leave_out(module: nn.Module, given: tuple, tokens: Tensor) -> Tensor:
        return drop(tokens, keep, model.num_prefix_tokens) if model.training else tokens

    return model.pos_drop.register_forward_hook(leave_out)  # its handle removes it when the context ends


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
    how = {"mode": "bilinear", "antialias": True}
    handle = embed.register_forward_pre_hook(lambda module, given: F.interpolate(given[0], size, **how))
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
