"""Look at what a model does: attention, positions and filters of a trained (or untrained) model (paper, section 4.5).

Attention weights come from the model itself: `logits, attentions = model(images, return_attention=True)`.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from vit_course.patches import as_pair


def equivariance_gap(encoder: Callable[[Tensor], Tensor], tokens: Tensor, permutation: Tensor) -> float:
    """Measure whether an encoder can see the order of its tokens: the shuffle experiment.

    Compare two ways: shuffle the tokens, then encode; or encode, then shuffle the result in the same way.

    Args:
        encoder: maps tokens (B, T, D) to (B, T, D).
        tokens: (B, T, D).
        permutation: (T,) int64, the new order of the tokens.

    Returns:
        The largest absolute difference between the two results. 0, up to rounding, means that the encoder
        cannot see the order.
    """
    shuffled_first = encoder(tokens[:, permutation])
    shuffled_last = encoder(tokens)[:, permutation]
    return (shuffled_first - shuffled_last).abs().max().item()


def attention_rollout(attentions: Sequence[Tensor], num_prefix_tokens: int = 1) -> Tensor:
    """Follow attention through all layers: how much of each input token reaches each output token.

    In each layer the heads are averaged, the residual connection is counted as half, 0.5·A + 0.5·I, and rows
    are made to sum to 1 again; the layers are then multiplied, the first one rightmost (Abnar and Zuidema,
    2020; ViT paper, D.7).

    Args:
        attentions: a list over the L layers of weights (B, h, T, T), the first layer first.
        num_prefix_tokens: how many tokens in front are no patches; they take part like all others.

    Returns:
        (B, T, T): row i says where output token i comes from; every row sums to 1.

    Raises:
        ValueError: if there is no layer, or the prefix leaves no patches.
    """
    if not attentions:
        raise ValueError("attentions is empty: give the weights of at least one layer")
    if not 0 <= num_prefix_tokens < attentions[0].shape[-1]:
        raise ValueError(f"{num_prefix_tokens} prefix tokens of {attentions[0].shape[-1]} leave no patches")
    identity = torch.eye(attentions[0].shape[-1], device=attentions[0].device, dtype=attentions[0].dtype)
    rollout = identity
    for attention in attentions:
        layer = 0.5 * attention.mean(dim=1) + 0.5 * identity
        layer = layer / layer.sum(dim=-1, keepdim=True)
        rollout = layer @ rollout
    return rollout


def mean_attention_distance(
    attention: Tensor,
    grid_size: tuple[int, int],
    patch_size: int | tuple[int, int],
    num_prefix_tokens: int = 1,
) -> Tensor:
    """Measure how far, in pixels, the patches of each head look (paper, Figure 7 right, and D.8).

    The authors' definition: rows and columns of the prefix tokens are dropped, without making rows sum to 1
    again; the distances between patch centres, weighted by attention, are summed over the keys, then averaged
    over the queries and the images.

    Args:
        attention: (B, h, T, T), the weights of one layer.
        grid_size: (rows, columns) of the grid of patches.
        patch_size: side P of a square patch, or (height, width), in pixels.
        num_prefix_tokens: how many tokens in front are no patches.

    Returns:
        (h,) distances in pixels.

    Raises:
        ValueError: if T is not the prefix and the grid together.
    """
    rows, columns = grid_size
    if attention.shape[-1] != num_prefix_tokens + rows * columns:
        raise ValueError(
            f"{attention.shape[-1]} tokens are not {num_prefix_tokens} prefix + a grid of {rows}x{columns} "
            f"= {num_prefix_tokens + rows * columns}"
        )
    height, width = as_pair(patch_size)
    y, x = torch.meshgrid(torch.arange(rows) * height, torch.arange(columns) * width, indexing="ij")
    centres = torch.stack([y.flatten(), x.flatten()], dim=1).to(attention)
    distances = torch.cdist(centres, centres, compute_mode="donot_use_mm_for_euclid_dist")
    patches = attention[..., num_prefix_tokens:, num_prefix_tokens:]
    return (patches * distances).sum(dim=-1).mean(dim=(0, 2))


def position_similarity(pos_embed: Tensor, grid_size: tuple[int, int], num_prefix_tokens: int = 1) -> Tensor:
    """Compare every position with every other by cosine similarity (paper, Figure 7 centre).

    Args:
        pos_embed: (1, prefix + N, D).
        grid_size: (rows, columns) of the grid, rows·columns = N.
        num_prefix_tokens: how many vectors in front belong to no patch.

    Returns:
        (rows, columns, rows, columns) in -1..1: the first two name a position, the last two what it is
        compared with.
    """
    unit = F.normalize(pos_embed[0, num_prefix_tokens:], dim=-1)
    return (unit @ unit.T).reshape(*grid_size, *grid_size)


def filter_components(filters: Tensor, count: int = 28) -> tuple[Tensor, Tensor]:
    """Find the principal components of the patch filters (paper, Figure 7 left).

    Each of the D filters is one observation of P·P·C numbers; the mean filter is subtracted first.

    Args:
        filters: (D, C, P, P), the weight of the patch projection.
        count: how many components, at most P·P·C.

    Returns:
        components: (count, C, P, P), of length 1 each, the strongest first.
        shares: (count,) share of the variance that each explains.
    """
    flat = filters.flatten(1)
    centred = flat - flat.mean(dim=0)
    _, strength, directions = torch.linalg.svd(centred, full_matrices=False)
    shares = strength.square() / strength.square().sum()
    return directions[:count].reshape(-1, *filters.shape[1:]), shares[:count]
