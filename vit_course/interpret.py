"""Look at what a model does: attention, positions and filters of a trained (or untrained) model (paper, section 4.5).

Attention weights come from the model itself: `logits, attentions = model(images, return_attention=True)`.
Lesson 09 builds half of it; `vit_classroom.exhibits.play` shows attention in a notebook.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from vit_course.patches import as_pair, grid_size, patchify, unpatchify


def equivariance_gap(encoder: Callable[[Tensor], Tensor], tokens: Tensor, permutation: Tensor) -> float:
    """Measure whether an encoder can see the order of its tokens: the shuffle experiment.

    Compare two ways: shuffle the tokens, then encode; or encode, then shuffle the result in the same way.

    Args:
        encoder: maps tokens (B, T, D) to (B, T, D).
        tokens: (B, T, D), float32, or float64 for a gap that rounding errors would hide.
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

    In each layer the heads are averaged (a mean, not a sum), and the residual connection counts as half:
    0.5·A + 0.5·I, with the (T, T) identity I. Each row is divided by its sum, so that it sums to 1 whatever
    the weights were. Then the layers are multiplied as matrices, the first one rightmost: layer L · ... · layer 1.
    The half identity is that of Abnar and Zuidema (2020). The ViT paper, D.8, names the mean over the heads and the
    product of the layers.

    Args:
        attentions: a list over the L layers of weights (B, h, T, T), float, the first layer first.
        num_prefix_tokens: how many tokens in front are no patches. They take part like all others, and the
            result contains them too.

    Returns:
        (B, T, T), same dtype. Row i says where output token i of an image comes from. Every row sums to 1.

    Raises:
        ValueError: if there is no layer, or if the prefix is negative or leaves no patches.
    """
    if not attentions:  # given
        raise ValueError("attentions is empty: give the weights of at least one layer")
    if not 0 <= num_prefix_tokens < attentions[0].shape[-1]:  # given
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
    """Measure how far, in pixels, the patches of each head look (paper, Figure 7 right, and D.7).

    The authors' definition, in this order: drop the rows and the columns of the prefix tokens, and do *not* make
    the rows sum to 1 again; multiply every weight by the straight (Euclidean) distance between the centres of its
    two patches; sum over the keys; average over the queries and the images.

    Args:
        attention: (B, h, T, T), float32 or float64, the weights of one layer; the prefix comes first, then the
            patches in reading order.
        grid_size: (rows, columns) of the grid of patches.
        patch_size: side P of a square patch, or (height, width), in pixels.
        num_prefix_tokens: how many tokens in front are no patches, 0 or more.

    Returns:
        (h,) distances in pixels, same dtype.

    Raises:
        ValueError: if T is not the prefix and the grid together.
    """
    rows, columns = grid_size  # given
    if attention.shape[-1] != num_prefix_tokens + rows * columns:  # given
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

    Each of the D filters is one observation of C·P·P numbers. The mean filter is subtracted, and nothing is
    divided by a deviation. A component is a direction in which the filters differ: the first one in which they
    differ most, and so on, each at a right angle to all before. Its sign is arbitrary: v and -v are the same
    component. Variance is the sum of the squared coordinates along a direction.

    Args:
        filters: (D, C, P, P), float, the weight of the patch projection; patches need not be square.
        count: how many components, at most C·P·P, and fewer than D.

    Returns:
        components: (count, C, P, P), of length 1 each, the strongest first.
        shares: (count,), for each component its share of *all* the variance of the filters, in 0..1.
    """
    flat = filters.flatten(1)
    centred = flat - flat.mean(dim=0)
    _, strength, directions = torch.linalg.svd(centred, full_matrices=False)
    shares = strength.square() / strength.square().sum()
    return directions[:count].reshape(-1, *filters.shape[1:]), shares[:count]


def hide_patches(
    images: Tensor, scores: Tensor, count: int, patch_size: int | tuple[int, int], value: float = 0.0
) -> Tensor:
    """Paint over the patches with the highest scores, in each image its own.

    Args:
        images: (B, C, H, W), float, normalised or not.
        scores: (B, N), one number for each patch, the patches in reading order.
        count: how many patches of every image are painted over, from 0 (none) to N (all).
        patch_size: side P of a square patch, or (height, width), in pixels.
        value: what every channel of a painted pixel becomes. In normalised images 0 is the mean colour.

    Returns:
        A new tensor of the same shape and dtype; all other patches are unchanged.

    Raises:
        ValueError: if `scores` is not (B, N), one number for each patch of each image, or `count` is not in 0..N.
    """
    rows, columns = grid_size(tuple(images.shape[-2:]), patch_size)  # given
    if scores.shape != (len(images), rows * columns):  # given
        raise ValueError(
            f"scores have shape {tuple(scores.shape)}, but {len(images)} pictures of {rows}x{columns} patches "
            f"need {(len(images), rows * columns)}"
        )
    if not 0 <= count <= rows * columns:  # given
        raise ValueError(f"count {count} is not between 0 and {rows * columns}, the number of patches")
    highest = scores.argsort(dim=1, descending=True)[:, :count]
    patches = patchify(images, patch_size).clone()
    patches[torch.arange(len(images), device=images.device)[:, None], highest] = value
    return unpatchify(patches, patch_size, (rows, columns))
