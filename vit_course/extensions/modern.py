"""What came into plain Vision Transformers after 2021, put into a finished model from outside.

Stability: `qk_norm`, `LayerScale`. Place: `rope_2d`. Reading out: `attention_pool`, registers.
Speed: `merge_tokens`. `modernize` builds the parts into a `VisionTransformer`; lesson 15 writes four of them.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course.attention import MultiHeadAttention, merge_heads, split_heads
from vit_course.extensions.transfer import change_resolution
from vit_course.vit import VisionTransformer, init_weights


def qk_norm(
    q: Tensor, k: Tensor, v: Tensor, q_scale: Tensor, k_scale: Tensor, eps: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise queries and keys before they meet (Dehghani et al., 2023, ViT-22B).

    Each query and each key by itself becomes a vector of mean 0 and variance 1, as in a layer norm over its d
    numbers. The variance divides by d, and `eps` is added to it inside the root. Then each of the d numbers is
    multiplied by its learned scale. There is no shift. The values stay as they are. Attention follows, and divides by
    sqrt(d).

    Args:
        q: (B, h, T, d) queries.
        k: (B, h, T, d) keys.
        v: (B, h, T, d) values.
        q_scale: (d,) learned scale of the queries, the same for all heads and tokens.
        k_scale: (d,) learned scale of the keys.
        eps: keeps the division finite for a constant vector.

    Returns:
        Queries, keys and values, each (B, h, T, d).
    """
    width = q.shape[-1:]
    return F.layer_norm(q, width, q_scale, eps=eps), F.layer_norm(k, width, k_scale, eps=eps), v


def rope_2d(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    grid_size: tuple[int, int],
    num_prefix_tokens: int = 1,
    temperature: float = 100.0,
    step: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Turn queries and keys by the place of their patch, with 2-D rotary positions (Su et al., 2021; Heo et al., 2024).

    The d numbers of a query are d/2 pairs, each a point in a plane, and each point is turned around the origin. Half
    of the pairs belong to the row, and a patch in row r turns pair number j by the angle r·w_j. The other half belong
    to the column and turn by c·w_j. The frequencies are w_j = temperature^(-j / (d/4)), j = 0 ... d/4 - 1. Rows and
    columns count from 0. Keys are turned in the same way. Values, and all prefix tokens (CLS), stay as they are.

    You may choose which numbers form a pair, if it is the same for queries and keys. The course pairs number i with
    number i + d/2, and the pairs of the row come first.

    Args:
        q: (B, h, T, d) queries, first the prefix tokens, then the patches in reading order.
        k: (B, h, T, d) keys.
        v: (B, h, T, d) values.
        grid_size: (rows, columns) of the grid of patches.
        num_prefix_tokens: how many tokens in front belong to no patch.
        temperature: the slowest pairs need somewhat less than 2·pi·temperature patches for a full turn.
        step: a factor of all frequencies, the distance between neighbours. Below 1 it stretches the grid of the
            training over a finer one.

    Returns:
        Queries, keys and values, each (B, h, T, d).

    Raises:
        ValueError: if d is not a multiple of 4, or T is not the prefix tokens and the patches of the grid.
    """
    dim, (rows, columns) = q.shape[-1], grid_size  # given
    if dim % 4:  # given
        raise ValueError(f"the width of a head, {dim}, is not divisible by 4: two axes need pairs each")
    if q.shape[-2] != num_prefix_tokens + rows * columns:  # given
        raise ValueError(
            f"{q.shape[-2]} tokens are not {num_prefix_tokens} prefix + {rows}x{columns} patches"
        )
    # half precision would blur the angles
    precise = torch.promote_types(q.dtype, torch.float32)  # given
    j = torch.arange(dim // 4, device=q.device, dtype=precise)  # given
    frequencies = step * temperature ** (-j / (dim // 4))  # given
    r = torch.arange(rows, device=q.device).repeat_interleave(columns)
    c = torch.arange(columns, device=q.device).repeat(rows)
    angles = torch.cat([r[:, None] * frequencies, c[:, None] * frequencies], dim=1)  # (N, d/2)
    angles = F.pad(angles, (0, 0, num_prefix_tokens, 0))  # prefix tokens turn by 0
    sin, cos = angles.sin().to(q.dtype), angles.cos().to(q.dtype)

    def turned(x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)

    return turned(q), turned(k), v


def attention_pool(query: Tensor, k: Tensor, v: Tensor, num_prefix_tokens: int = 1) -> tuple[Tensor, Tensor]:
    """Read all patch tokens with one learned query in each head, which is attention pooling (Lee et al., 2019).

    Each head weights the patches by softmax(query kᵀ / sqrt(d)) over the patches alone, and takes the weighted sum of
    their values. Prefix tokens (CLS) are not read. A query of zeros gives the mean over the patches. Scores in the
    hundreds must not overflow.

    Args:
        query: (h, d), learned, the same for every image.
        k: (B, h, T, d) keys of all tokens.
        v: (B, h, T, d) values of all tokens.
        num_prefix_tokens: how many tokens in front belong to no patch.

    Returns:
        pooled: (B, h, d), what each head has read.
        weights: (B, h, N), how much it took from each of the N patches.
    """
    k, v = k[:, :, num_prefix_tokens:], v[:, :, num_prefix_tokens:]
    scores = (k @ query[:, :, None]).squeeze(-1) * query.shape[-1] ** -0.5  # (B, h, N)
    weights = scores.softmax(dim=-1)
    return (weights[..., None] * v).sum(dim=-2), weights


def merge_tokens(
    tokens: Tensor, k: Tensor, sizes: Tensor, r: int, num_prefix_tokens: int = 1
) -> tuple[Tensor, Tensor]:
    """Merge the r most similar pairs of patch tokens, which is token merging (Bolya et al., 2022).

    Patch tokens at even places of the sequence are sources, those at odd places are targets. Each source finds the
    target whose key is most similar, by the cosine. The r sources with the highest similarity are merged into their
    targets, and disappear. Several sources may have the same target. A target becomes the mean of all that went into
    it, each weighted with its size, and sizes add up. All other tokens stay, in their order. Prefix tokens (CLS) are
    neither source nor target.

    Args:
        tokens: (B, T, D).
        k: (B, T, d), one key for each token.
        sizes: (B, T), how many patches each token represents.
        r: how many tokens disappear.
        num_prefix_tokens: how many tokens in front belong to no patch.

    Returns:
        (B, T - r, D) tokens, which gradients pass, and (B, T - r) sizes.

    Raises:
        ValueError: if there are fewer than r sources, or sources without any target.
    """
    batch, count, dim = tokens.shape  # given
    places = torch.arange(num_prefix_tokens, count, device=tokens.device)  # given
    sources, targets = places[places % 2 == 0], places[places % 2 == 1]  # given
    if r > len(sources) or (r and not len(targets)):  # given
        raise ValueError(f"{r} of {count} tokens cannot go: {len(sources)} sources, {len(targets)} targets")
    if r == 0:
        return tokens, sizes
    unit = F.normalize(k, dim=-1)
    likeness, nearest = (unit[:, sources] @ unit[:, targets].mT).max(dim=-1)  # (B, S) each
    chosen = likeness.topk(r, dim=-1).indices  # (B, r)
    gone, into = sources[chosen], targets[nearest.gather(1, chosen)]
    stays = torch.ones_like(sizes, dtype=torch.bool).scatter(1, gone, False)
    weighted, column = tokens * sizes[..., None], (-1, -1, dim)
    moved = weighted.gather(1, gone[..., None].expand(column))
    weighted = weighted.scatter_add(1, into[..., None].expand(column), moved)
    sizes = sizes.scatter_add(1, into, sizes.gather(1, gone))
    merged = weighted / sizes[..., None]
    return merged[stays].reshape(batch, count - r, dim), sizes[stays].reshape(batch, count - r)


class PreparedProjection(nn.Module):
    """The projection to queries, keys and values, with what happens to these before attention: norm, then rotation.

    It stands in the place of `attn.qkv`, so that attention itself does not change.

    Args:
        part: the linear layer from D to 3D.
        num_heads: number of heads h.
        norm: whether queries and keys are normalised.
        grid_size: (rows, columns) of the patches if queries and keys are turned by place, else None.
        num_prefix_tokens: tokens in front that belong to no patch.
    """

    step = 1.0

    def __init__(
        self,
        part: nn.Linear,
        num_heads: int,
        norm: bool = False,
        grid_size: tuple[int, int] | None = None,
        num_prefix_tokens: int = 1,
    ):
        super().__init__()
        self.part, self.num_heads, self.norm = part, num_heads, norm
        self.grid_size, self.num_prefix_tokens = grid_size, num_prefix_tokens
        if norm:
            head_dim = part.in_features // num_heads
            self.q_scale, self.k_scale = (nn.Parameter(torch.ones(head_dim)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (B, T, D) to queries, keys and values (B, T, 3D)."""
        projected = self.part(x)
        heads = [split_heads(part, self.num_heads) for part in projected.chunk(3, dim=-1)]
        if self.norm:
            heads = qk_norm(*heads, self.q_scale, self.k_scale)
        if self.grid_size:
            heads = rope_2d(*heads, self.grid_size, self.num_prefix_tokens, step=self.step)
        return torch.cat([merge_heads(part) for part in heads], dim=-1).to(projected.dtype)


class LayerScale(nn.Module):
    """Multiply each of the D numbers that a branch adds to the stream by a learned one (Touvron et al., 2021).

    Args:
        part: the last linear layer of the branch.
        start: what all factors are before training, small.
    """

    def __init__(self, part: nn.Linear, start: float):
        super().__init__()
        self.part, self.gamma = part, nn.Parameter(torch.full((part.out_features,), start))

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., D) to (..., D)."""
        return self.part(x) * self.gamma


class GatedMlp(nn.Module):
    """The MLP with a gate, SwiGLU: fc2(silu(gate(x)) · fc1(x)), without dropout (Shazeer, 2020).

    Args:
        dim: width D of a token.
        hidden_dim: width in between. There are three matrices: 2/3 of a plain MLP's width cost as many weights.
    """

    def __init__(self, dim: int, hidden_dim: int):
        super().__init__()
        self.gate, self.fc1 = nn.Linear(dim, hidden_dim), nn.Linear(dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (..., D) to (..., D)."""
        return self.fc2(F.silu(self.gate(x)) * self.fc1(x))


class AttentionPool(nn.Module):
    """Read the patch tokens with one learned query in each head, mix the heads with a linear layer.

    Args:
        dim: width D of a token.
        num_heads: number of heads h.
        num_prefix_tokens: tokens in front that are not read.
    """

    def __init__(self, dim: int, num_heads: int, num_prefix_tokens: int = 1):
        super().__init__()
        self.num_heads, self.num_prefix_tokens = num_heads, num_prefix_tokens
        self.query = nn.Parameter(torch.zeros(num_heads, dim // num_heads))
        self.kv, self.proj = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Make one vector (B, D) of tokens (B, T, D)."""
        k, v = (split_heads(part, self.num_heads) for part in self.kv(tokens).chunk(2, dim=-1))
        pooled, _ = attention_pool(self.query, k, v, self.num_prefix_tokens)
        return self.proj(pooled.flatten(1))


class PooledNorm(nn.Module):
    """The final norm, and after it a pooling whose vector takes the place of the CLS token, which the head reads.

    Args:
        part: the final norm.
        pool: makes (B, D) of tokens (B, T, D).
    """

    def __init__(self, part: nn.LayerNorm | nn.RMSNorm, pool: nn.Module):
        super().__init__()
        self.part, self.pool, self.normalized_shape = part, pool, part.normalized_shape

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (B, T, D) to (B, T, D)."""
        x = self.part(x)
        return torch.cat([self.pool(x)[:, None], x[:, 1:]], dim=1)


def modernize(
    model: VisionTransformer,
    qk_norm: bool = False,
    rope: bool = False,
    layer_scale: float | None = None,
    gated_mlp: bool = False,
    rms_norm: bool = False,
    registers: int = 0,
    attention_pool: bool = False,
    qkv_bias: bool = True,
) -> VisionTransformer:
    """Build parts of later years into a Vision Transformer with a CLS token, as it was made.

    Args:
        model: is changed in place.
        qk_norm: normalise queries and keys.
        rope: turn queries and keys by the row and column of their patch; the model's own positions stay.
        layer_scale: what the factors of each branch are before training; None for no factors.
        gated_mlp: a SwiGLU of the same hidden width in the place of each MLP.
        rms_norm: norms that divide by the root of the mean square, and neither subtract nor add.
        registers: how many learned tokens stand after CLS, not read by the head.
        attention_pool: read out with a learned query in each head in place of the CLS token.
        qkv_bias: whether the projection to queries, keys and values keeps its bias.

    Returns:
        The same model.

    Raises:
        ValueError: for registers in a model without CLS token.
    """
    if registers:
        add_registers(model, registers)
    dim = model.norm.normalized_shape[0]
    for block in model.blocks:
        if gated_mlp:
            block.mlp = GatedMlp(dim, block.mlp.fc1.out_features).apply(init_weights)
        if layer_scale is not None:
            block.attn.proj = LayerScale(block.attn.proj, layer_scale)
            block.mlp.fc2 = LayerScale(block.mlp.fc2, layer_scale)
        if rms_norm:
            block.norm1, block.norm2 = (nn.RMSNorm(dim, eps=1e-6) for _ in range(2))
        prepare(block.attn, model, qk_norm, rope, qkv_bias)
    if rms_norm:
        model.norm = nn.RMSNorm(dim, eps=1e-6)
    if attention_pool:
        pool = AttentionPool(dim, model.blocks[0].attn.num_heads, model.num_prefix_tokens)
        # PyTorch's own first values stay: two layers of std .02 would hand the head numbers near 0.
        model.norm, model.global_pool = PooledNorm(model.norm, pool), "token"
    return model.to(model.patch_embed.proj.weight)


def prepare(attn: MultiHeadAttention, vit: VisionTransformer, norm: bool, rope: bool, bias: bool) -> None:
    """Change the projection of one attention as `modernize` says."""
    if not bias:
        attn.qkv.bias = None
    if norm or rope:
        grid = vit.patch_embed.grid_size if rope else None
        attn.qkv = PreparedProjection(attn.qkv, attn.num_heads, norm, grid, vit.num_prefix_tokens)


def add_registers(model: VisionTransformer, count: int) -> None:
    """Put learned tokens after CLS. They have no place: rows of zeros join the table of positions."""
    if model.cls_token is None:
        raise ValueError("registers stand after CLS, and this model has no CLS token")
    dim, prefix = model.norm.normalized_shape[0], model.num_prefix_tokens
    registers = 0.02 * torch.randn(1, count, dim).to(model.cls_token)
    model.cls_token = nn.Parameter(torch.cat([model.cls_token.detach(), registers], dim=1))
    if model.pos_embed is not None:
        parts = model.pos_embed.data.tensor_split([prefix], dim=1)
        model.pos_embed.data = torch.cat([parts[0], torch.zeros_like(registers), parts[1]], dim=1)
    model.num_prefix_tokens += count


def at_resolution(
    model: VisionTransformer, img_size: int | tuple[int, int], stretch: bool = False
) -> VisionTransformer:
    """Return a copy of a trained model that reads another size: tables are interpolated, rotations go on counting.

    With `stretch` rotations count in steps such that a grid has as many rows of angles as that of the training.
    """
    changed = change_resolution(copy.deepcopy(model), img_size)
    for part in changed.modules():
        if isinstance(part, PreparedProjection) and part.grid_size:
            part.step = part.grid_size[0] / changed.patch_embed.grid_size[0] if stretch else 1.0
            part.grid_size = changed.patch_embed.grid_size
    return changed
