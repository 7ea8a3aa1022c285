"""Look at what a model does: functions that read a trained (or untrained) model."""

from collections.abc import Callable

from torch import Tensor


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
