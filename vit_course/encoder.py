"""The Transformer encoder: blocks of attention and MLP with residuals (paper, equations 2 and 3).

`vit` uses `Encoder`; lesson 05 builds the parts of its blocks.
"""

import torch
from torch import Tensor, nn

from vit_course.attention import MultiHeadAttention


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-6) -> Tensor:
    """Normalise each token by itself, then scale and shift (Ba et al., 2016).

    The mean and the variance are those of the D numbers of one token; the variance divides by D. `eps` is
    added to the variance, inside the root.

    Args:
        x: (..., D).
        weight: (D,) scale.
        bias: (D,) shift.
        eps: keeps the division finite for a constant token.

    Returns:
        (..., D), same dtype and device.
    """
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, unbiased=False, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * weight + bias


def drop_path(x: Tensor, rate: float, training: bool) -> Tensor:
    """Drop a whole residual branch for some images of the batch (stochastic depth, Huang et al., 2016).

    In training each image's branch becomes 0 with probability `rate`, and the branches that stay are
    divided by 1 - rate, so that the expected value is unchanged. Outside training nothing happens.

    Args:
        x: (B, ...), the output of a branch, before it is added to the residual stream.
        rate: probability 0 <= rate < 1 of dropping an image's branch.
        training: whether the model is in training mode.

    Returns:
        Same shape as `x`.
    """
    if not training or rate == 0.0:  # given
        return x
    keep = torch.rand(x.shape[0], *[1] * (x.ndim - 1), device=x.device) >= rate
    return x * keep / (1 - rate)


class Mlp(nn.Module):
    """The MLP of a block: expand, apply GELU, project back; every token on its own (paper, section 3.1).

    `self.fc1` is an `nn.Linear` from `dim` to `hidden_dim`, then the exact GELU, then `self.fc2`, an
    `nn.Linear` back to `dim`. Dropout comes after the GELU and after `self.fc2` (paper, B.1).

    Args:
        dim: width D of a token.
        hidden_dim: width in between, 4·D in the paper.
        drop: dropout rate.
    """

    def __init__(self, dim: int, hidden_dim: int, drop: float = 0.0):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.act = nn.GELU()
        self.drop = nn.Dropout(drop)
        self.fc2 = nn.Linear(hidden_dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (..., D) to (..., D)."""
        x = self.drop(self.act(self.fc1(x)))
        return self.drop(self.fc2(x))


class Block(nn.Module):
    """One encoder block: attention and MLP, each normed before and added after (pre-norm, paper eq. 2, 3).

    `self.norm1` and `self.norm2` are two `nn.LayerNorm(dim, eps=1e-6)`, `self.attn` is a
    `MultiHeadAttention`, `self.mlp` an `Mlp`, `self.drop_path_rate` the rate for `drop_path`.

    Args:
        dim: width D of a token.
        num_heads: number of heads.
        mlp_ratio: hidden width of the MLP as a multiple of D.
        drop: dropout in the MLP and after W_O.
        attn_drop: dropout on the attention weights.
        drop_path: probability of dropping a branch in training.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        mlp_ratio: float = 4.0,
        drop: float = 0.0,
        attn_drop: float = 0.0,
        drop_path: float = 0.0,
    ):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = MultiHeadAttention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)
        self.drop_path_rate = drop_path

    def forward(self, x: Tensor, return_attention: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Pass tokens (B, T, D) through the block: equation 2, then equation 3.

        Each branch reads the normed stream and is added to the stream itself. In training `drop_path`, which is for the
        curious, may leave branches out.

        Args:
            x: (B, T, D).
            return_attention: also return the weights of `self.attn`, which has the same switch.

        Returns:
            (B, T, D), and with `return_attention` also the weights (B, h, T, T).
        """
        attended = self.attn(self.norm1(x), return_attention)
        if return_attention:
            attended, weights = attended
        x = x + drop_path(attended, self.drop_path_rate, self.training)
        x = x + drop_path(self.mlp(self.norm2(x)), self.drop_path_rate, self.training)
        return (x, weights) if return_attention else x


class Encoder(nn.ModuleList):
    """A stack of L blocks. Drop path grows linearly from 0 in the first block to its rate in the last.

    Args:
        depth: number of blocks L.
        dim: width D of a token.
        num_heads: number of heads.
        drop_path: probability of dropping a branch of the last block in training.
        block_options: the other arguments of `Block`.
    """

    def __init__(self, depth: int, dim: int, num_heads: int, drop_path: float = 0.0, **block_options):
        rates = [drop_path * layer / max(1, depth - 1) for layer in range(depth)]
        super().__init__(Block(dim, num_heads, drop_path=rate, **block_options) for rate in rates)

    def forward(self, x: Tensor, return_attention: bool = False) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Pass tokens (B, T, D) through all blocks.

        Returns:
            (B, T, D), and with `return_attention` also a list over the layers of weights (B, h, T, T).
        """
        attentions = []
        for block in self:
            if return_attention:
                x, weights = block(x, return_attention=True)
                attentions.append(weights)
            else:
                x = block(x)
        return (x, attentions) if return_attention else x
