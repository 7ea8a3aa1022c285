"""Self-attention with many heads (paper, appendix A, equations 5 to 8).

`encoder` uses `MultiHeadAttention`; lesson 04 builds it.
"""

import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attend: softmax(q kᵀ / sqrt(d)) v, written out (Vaswani et al., 2017, equation 1).

    Args:
        q: (..., T, d) queries. Any leading axes, for example (B, h, T, d).
        k: (..., S, d) keys, as many as there are values.
        v: (..., S, e) values.

    Returns:
        output: (..., T, e), same dtype and device, for each query the weighted sum of the values.
        weights: (..., T, S), for each query its weights over the keys: each row sums to 1.
    """
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Give each head its own slice of queries, keys or values.

    Args:
        x: (B, T, D).
        num_heads: number of heads h. Head 0 gets the first d = D/h numbers of every row, head 1 the next.

    Returns:
        (B, h, T, d), same dtype and device.

    Raises:
        ValueError: if D is not a multiple of h.
    """
    check_heads(x.shape[-1], num_heads)  # given
    return rearrange(x, "b t (h d) -> b h t d", h=num_heads)


def merge_heads(x: Tensor) -> Tensor:
    """Put the heads side by side again: the exact inverse of `split_heads`.

    Args:
        x: (B, h, T, d).

    Returns:
        (B, T, D) with D = h·d, same dtype and device.
    """
    return rearrange(x, "b h t d -> b t (h d)")


class MultiHeadAttention(nn.Module):
    """Multi-head self-attention: h heads attend side by side, W_O mixes what they found (paper, eq. 5-8).

    `self.qkv` is one `nn.Linear` from D to 3D that makes queries, keys and values at once, in this order;
    `self.proj` is the `nn.Linear` from D to D that is W_O.

    Args:
        dim: width D of a token.
        num_heads: number of heads h; each works with d = D/h numbers.
        qkv_bias: whether the qkv projection has a bias.
        attn_drop: dropout on the attention weights, 0 in the paper.
        proj_drop: dropout on the output.

    Raises:
        ValueError: if D is not a multiple of h.
    """

    def __init__(
        self, dim: int, num_heads: int, qkv_bias: bool = True, attn_drop: float = 0.0, proj_drop: float = 0.0
    ):
        super().__init__()
        check_heads(dim, num_heads)
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.attn_drop = attn_drop
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x: Tensor, return_attention: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Let every token gather from all tokens.

        Args:
            x: (B, T, D).
            return_attention: also return the weights.

        Returns:
            (B, T, D), and with `return_attention` also the weights (B, h, T, T), before dropout.
        """
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        dropout = self.attn_drop if self.training else 0.0  # given
        if return_attention:  # torch's fused kernel never writes the weights down
            heads, weights = scaled_dot_product_attention(q, k, v)
            if dropout > 0:
                heads = F.dropout(weights, dropout) @ v
        else:
            heads = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout)
        out = self.proj_drop(self.proj(merge_heads(heads)))
        return (out, weights) if return_attention else out


def attention_flops(num_tokens: int, dim: int) -> int:
    """Count the floating-point operations of one multi-head attention on one image.

    A product of an (a, b) with a (b, c) matrix costs 2·a·b·c: one multiplication and one addition each.
    Counted are the four projections (q, k, v and W_O), the scores q kᵀ and the weighted sum of the values;
    softmax, scale and biases are left out. The number of heads changes nothing.

    Args:
        num_tokens: length T of the sequence.
        dim: width D of a token.

    Returns:
        The number of operations, an int.
    """
    projections = 4 * 2 * num_tokens * dim * dim
    scores_and_sum = 2 * 2 * num_tokens * num_tokens * dim
    return projections + scores_and_sum


def check_heads(dim: int, num_heads: int) -> None:
    """Raise a `ValueError` that names both numbers when the heads do not divide the width."""
    if num_heads < 1 or dim % num_heads:
        fits = [h for h in range(1, dim + 1) if dim % h == 0 and h <= 16]
        raise ValueError(
            f"dim {dim} is not divisible by num_heads {num_heads}; "
            f"{', '.join(map(str, fits))} heads would fit"
        )
