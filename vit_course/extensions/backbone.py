"""A trained ViT of this course or of another library, with all that has to go with its weights.

`load_backbone` reads a file of torchvision, timm or Hugging Face (the families of `weights`), strictly and by names,
and builds our `VisionTransformer` with the parts of `modern` that it needs. Nothing is downloaded. Lesson 17 uses it.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course.attention import merge_heads, split_heads
from vit_course.data import normalize
from vit_course.embeddings import pool
from vit_course.encoder import Mlp
from vit_course.extensions.modern import AttentionPool, PreparedProjection, at_resolution, modernize
from vit_course.extensions.placement import fill
from vit_course.extensions.weights import Family, find_family, heads_of, load_weights, to_timm
from vit_course.vit import VisionTransformer

UNBUILT = {
    r"^dist_token$|^head_dist\.": "a distillation token (DeiT's distilled models)",
    r"rel_pos|relative_position": "relative positions (BEiT)",
    r"^fc_norm\.": "a norm after the average over the patches",
    r"\.(q|k)_norm\.": "QK-norm",
    r"^patch_embed\.(backbone|norm)\.|^downsample|^layers\.": "a stem or stages that are not a plain ViT's",
}
"""Parts that weights may belong to and that are not built here, by patterns of names."""
ACTIVATIONS = {
    "gelu": nn.GELU,
    "gelu_pytorch_tanh": lambda: nn.GELU("tanh"),
    "quick_gelu": lambda: QuickGELU(),
}


class QuickGELU(nn.Module):
    """OpenAI's approximation of GELU: x · sigmoid(1.702 x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Map numbers to numbers."""
        return x * torch.sigmoid(1.702 * x)


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
    """SigLIP's reader: attention pooling over all patches, then an MLP beside a residual.

    Args:
        dim: width D of a token.
        num_heads: number of heads.
        hidden_dim: width of the MLP in between.
        eps: of its layer norm.
    """

    def __init__(self, dim: int, num_heads: int, hidden_dim: int, eps: float):
        super().__init__()
        self.pool = AttentionPool(dim, num_heads, num_prefix_tokens=0)
        self.norm, self.mlp = nn.LayerNorm(dim, eps=eps), Mlp(dim, hidden_dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Make one vector (B, D) of tokens (B, N, D)."""
        x = self.pool(tokens)
        return x + self.mlp(self.norm(x))


@dataclass(frozen=True)
class Backbone:
    """A trained model, and what has to go with it.

    Attributes:
        model: a Vision Transformer in evaluation mode.
        mean: of each channel, in 0..1 units, as in its training.
        std: the same of the standard deviation.
        family: which library's weights they are.
        left_out: names in the file that no picture needs (a text tower, a mask token).
        reader: makes (B, D) of tokens (B, T, D) in the place of the model's own pooling, as SigLIP's does.
    """

    model: VisionTransformer
    mean: Sequence[float]
    std: Sequence[float]
    family: str = "this course"
    left_out: tuple[str, ...] = ()
    reader: nn.Module | None = None

    @property
    def img_size(self) -> tuple[int, int]:
        """Height and width in pixels of the pictures that it reads."""
        return self.model.patch_embed.img_size

    @property
    def grid_size(self) -> tuple[int, int]:
        """Rows and columns of its patches."""
        return self.model.patch_embed.grid_size

    @torch.no_grad()
    def tokens(self, images: Tensor, batch_size: int = 100) -> Tensor:
        """Return all tokens after the final norm, CLS and registers in front.

        Args:
            images: (N, C, H, W), uint8, of the size that it reads.
            batch_size: how many pictures are read at once.

        Returns:
            (N, T, D), float32.

        Raises:
            ValueError: if the pictures are no uint8, which would be normalised wrongly, or have another size.
        """
        size = tuple(images.shape[-2:])
        if images.dtype != torch.uint8:
            raise ValueError(f"pictures are {images.dtype}: give uint8 in 0..255, they are normalised here")
        if size != tuple(self.img_size):
            raise ValueError(
                f"pictures are {size[0]}x{size[1]} pixels, these weights read {self.img_size[0]}x{self.img_size[1]}: "
                "resize the pictures (`resize_pictures`), or take `at(side)` of the backbone"
            )
        parts = [normalize(part, self.mean, self.std) for part in images.split(batch_size)]
        return torch.cat([self.model.encode(self.model.patch_embed(part)) for part in parts])

    def read(self, tokens: Tensor) -> Tensor:
        """Make one vector of a picture: y of equation 4, (N, D), of tokens (N, T, D)."""
        if self.reader is not None:
            with torch.no_grad():
                return self.reader(tokens)
        return pool(tokens, self.model.global_pool, self.model.num_prefix_tokens)

    @torch.no_grad()
    def project(self, tokens: Tensor) -> Tensor:
        """Return what the head makes of them, (N, K): class scores, or CLIP's vectors, to which texts are compared."""
        return self.model.head(self.model.pre_logits(self.read(tokens)))

    def at(self, side: int | tuple[int, int]) -> "Backbone":
        """Return a copy that reads pictures of another size, in more or fewer patches of the same size."""
        return replace(self, model=at_resolution(self.model, side))


def load_backbone(path: str | Path, **given: Any) -> Backbone:
    """Build a model around a file of weights, strictly: every weight has its place, and every place its weight.

    What weights do not tell (heads, activation, normalisation) is read from `config.json` and
    `preprocessor_config.json` beside the file, if they are there, as Hugging Face and timm write them; else it is
    known of the family; else it has to be given.

    Args:
        path: a .safetensors or .pth file, or a folder with `model.safetensors`.
        given: `num_heads`, `act`, `mean`, `std`, which win, and `img_size` for DINOv3, whose weights hold no positions.
            A table of positions is taken for one of square pictures.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the weights are of no known family, need parts that are not built here, are missing, left over
            or of another shape, or if something has to be given.
    """
    path = Path(path)
    path = path / "model.safetensors" if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file of weights")
    try:
        state_dict = load_weights(path)
    except Exception as error:
        raise ValueError(f"{path} cannot be read as weights: {error}") from error
    return build_backbone(state_dict, **(read_settings(path.parent) | given))


def read_settings(folder: Path) -> dict[str, Any]:
    """Read from the files that lie beside weights what the weights do not tell."""
    found: dict[str, Any] = {}
    configs = [folder / "preprocessor_config.json", folder / "config.json"]
    for config in (json.loads(path.read_text(encoding="utf-8")) for path in configs if path.is_file()):
        config = config.get("vision_config", config) | {"pretrained_cfg": config.get("pretrained_cfg") or {}}
        timm = config.pop("pretrained_cfg")
        known = {
            "mean": config.get("image_mean") or timm.get("mean"),
            "std": config.get("image_std") or timm.get("std"),
            "num_heads": config.get("num_attention_heads"),
            "act": config.get("hidden_act"),
            "eps": config.get("layer_norm_eps"),
            "depth": config.get("num_hidden_layers"),
            "img_size": config.get("image_size") or (timm.get("input_size") or [None])[-1],
        }
        if timm:
            known["act"] = "quick_gelu" if "quickgelu" in config.get("architecture", "") else known["act"]
        found |= {name: value for name, value in known.items() if value is not None}
    return found


def build_backbone(state_dict: dict[str, Tensor], **settings: Any) -> Backbone:
    """Build a model around weights, as `load_backbone` does, with settings in place of the files beside them.

    Raises:
        ValueError: as `load_backbone` does.
    """
    family = find_family(state_dict)
    weights, origins = to_timm(state_dict, family)
    for pattern, part in UNBUILT.items():
        if found := [origins[name] for name in weights if re.search(pattern, name)]:
            raise ValueError(f"{found[0]} needs {part}, which is not built here ({family.name})")
    stats = settings.get("mean"), settings.get("std")
    mean, std = (value or known for value, known in zip(stats, family.stats or (None, None), strict=True))
    if mean is None or std is None:
        raise ValueError(
            f"{family.name}: its weights do not tell how pictures were normalised. Put the config file beside them, or "
            "give mean and std: (0.5, 0.5, 0.5) twice for the paper's models, ImageNet's for DeiT"
        )
    model, reader = skeleton(weights, family, settings)
    fill(model, reader, weights, origins)
    kept = set(origins.values())
    left_out = tuple(name for name in state_dict if name not in kept and re.search(family.unused, name))
    return Backbone(model.eval(), tuple(mean), tuple(std), family.name, left_out, reader and reader.eval())


def skeleton(
    weights: dict[str, Tensor], family: Family, settings: dict[str, Any]
) -> tuple[VisionTransformer, PoolHead | None]:
    """Build the model that the weights are for; every size is read from them."""
    for name in ("patch_embed.proj.weight", "blocks.0.attn.qkv.weight", "blocks.0.mlp.fc1.weight"):
        if name not in weights:
            raise ValueError(f"{name} is missing ({family.name}): the sizes of the model are read from it")
    dim, channels, *patch = weights["patch_embed.proj.weight"].shape
    heads, hidden = settings.get("num_heads") or heads_of(dim), len(weights["blocks.0.mlp.fc1.weight"])
    depth = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blocks."))
    if settings.get("depth", depth) != depth:
        raise ValueError(f"the file holds {depth} blocks, its config says {settings['depth']}")
    tanh = weights.get("pre_logits.fc.weight")
    model = VisionTransformer(
        img_size=picture_size(weights, patch, settings),
        patch_size=tuple(patch),
        in_chans=channels,
        num_classes=len(weights.get("head.weight", [0])),
        embed_dim=dim,
        depth=depth,
        num_heads=heads,
        mlp_ratio=(hidden + 0.5) / dim,  # the model rounds the width down
        pos_embed="learned" if "pos_embed" in weights else "none",
        class_token="cls_token" in weights,
        global_pool="token" if "cls_token" in weights else "avg",
        representation_size=None if tanh is None else len(tanh),
    )
    modernize(
        model,
        layer_scale=1.0 if "blocks.0.ls1.gamma" in weights else None,
        gated_mlp="blocks.0.mlp.gate.weight" in weights,
        registers=weights["reg_token"].shape[1] if "reg_token" in weights else 0,
        qkv_bias="blocks.0.attn.qkv.bias" in weights,
    )
    reader = None
    if "attn_pool.latent" in weights:
        reader = PoolHead(
            dim, heads, len(weights["attn_pool.mlp.fc1.weight"]), settings.get("eps") or family.eps
        )
    finish(model, reader, weights, family, settings)
    return model, reader


def picture_size(
    weights: dict[str, Tensor], patch: Sequence[int], settings: dict[str, Any]
) -> tuple[int, int]:
    """Return height and width of the pictures: from the table of positions, else as given."""
    if "pos_embed" not in weights:
        if "img_size" not in settings:
            raise ValueError("these weights hold no positions, so they read any size: give img_size")
        size = settings["img_size"]
        return (size, size) if isinstance(size, int) else tuple(size)
    count, prefix = weights["pos_embed"].shape[1], int("cls_token" in weights)
    # Some tables have a row for CLS, and some (`no_embed_class`) have none.
    side = next((math.isqrt(n) for n in (count - prefix, count) if math.isqrt(n) ** 2 == n), None)
    if side is None:
        raise ValueError(f"pos_embed has {count} positions, which make no square grid of patches")
    return side * patch[0], side * patch[1]


def finish(
    model: VisionTransformer,
    reader: PoolHead | None,
    weights: dict[str, Tensor],
    family: Family,
    settings: dict[str, Any],
) -> None:
    """Give a model what only other families have: another activation, a norm before the blocks, DINOv3's rotation."""
    dim, act = model.norm.normalized_shape[0], settings.get("act") or family.act
    if "blocks.0.mlp.gate.weight" in weights:  # DINOv2's gate is SiLU whatever its config says
        act = "gelu" if "DINOv2" in family.name or settings.get("act", "silu") == "silu" else f"gated {act}"
    if act is None:
        raise ValueError(
            f"{family.name}: its weights do not tell the activation: give act='gelu' or act='quick_gelu' (OpenAI's and "
            "MetaCLIP's are made with the second)"
        )
    if act not in ACTIVATIONS:
        raise ValueError(
            f"{family.name}: the activation {act} is not built here; known are {', '.join(ACTIVATIONS)} and gated silu"
        )
    for part in (*model.modules(), *(reader.modules() if reader else ())):
        if isinstance(part, Mlp):
            part.act = ACTIVATIONS[act]()
        elif isinstance(part, nn.LayerNorm):
            part.eps = settings.get("eps") or family.eps
    if "norm_pre.weight" in weights:  # between positions and blocks, where dropout of the positions stands
        model.pos_drop = nn.LayerNorm(dim, eps=settings.get("eps") or family.eps)
    if "pos_embed" not in weights:
        for block in model.blocks:
            sizes = block.attn.num_heads, False, model.patch_embed.grid_size, model.num_prefix_tokens
            block.attn.qkv = CentredProjection(block.attn.qkv, *sizes)
