"""Weights from files and from other libraries, by the names of this course.

Names in the state dict are timm's, so timm's ViT weights load with `strict=True`; `to_timm` renames those of
torchvision and Hugging Face, which `backbone` then builds a model around. Lessons 06, 12 and 17 load such weights.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

Stats = tuple[Sequence[float], Sequence[float]]
"""Mean and standard deviation of each channel, in 0..1 units."""
IMAGENET: Stats = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALVES: Stats = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
OPENAI: Stats = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

TORCHVISION_NAMES = {
    r"^class_token$": "cls_token",
    r"^conv_proj\.": "patch_embed.proj.",
    r"^encoder\.pos_embedding$": "pos_embed",
    r"^encoder\.layers\.encoder_layer_": "blocks.",
    r"\.ln_([12])\.": r".norm\1.",
    r"\.self_attention\.in_proj_": ".attn.qkv.",
    r"\.self_attention\.out_proj\.": ".attn.proj.",
    r"\.mlp\.(?:0|linear_1)\.": ".mlp.fc1.",
    r"\.mlp\.(?:3|linear_2)\.": ".mlp.fc2.",
    r"^encoder\.ln\.": "norm.",
    r"^heads\.pre_logits\.": "pre_logits.fc.",
    r"^heads\.head\.": "head.",
}
"""What becomes what, pattern by pattern, in this order; the tables below too."""
HUGGING_FACE_NAMES = {
    r"^(?:vit|dinov2|dinov2_with_registers)\.": "",
    r"^embeddings\.cls_token$": "cls_token",
    r"^embeddings\.register_tokens$": "reg_token",
    r"^embeddings\.position_embeddings$": "pos_embed",
    r"^embeddings\.patch_embeddings\.projection\.": "patch_embed.proj.",
    r"^encoder\.layer\.": "blocks.",
    r"\.layernorm_before\.": ".norm1.",
    r"\.layernorm_after\.": ".norm2.",
    r"\.attention\.attention\.(q|k|v)[a-z]+\.": r".attn.\1.",
    r"\.attention\.output\.dense\.": ".attn.proj.",
    r"\.intermediate\.dense\.": ".mlp.fc1.",
    r"\.output\.dense\.": ".mlp.fc2.",
    r"\.layer_scale([12])\.lambda1$": r".ls\1.gamma",
    r"\.mlp\.weights_in\.": ".mlp.w12.",
    r"\.mlp\.weights_out\.": ".mlp.fc2.",
    r"^layernorm\.": "norm.",
    r"^classifier\.": "head.",
}
DINOV3_NAMES = {
    r"^embeddings\.cls_token$": "cls_token",
    r"^embeddings\.register_tokens$": "reg_token",
    r"^embeddings\.patch_embeddings\.": "patch_embed.proj.",
    r"^(?:model\.)?layer\.": "blocks.",
    r"\.attention\.([qkv])_proj\.": r".attn.\1.",
    r"\.attention\.o_proj\.": ".attn.proj.",
    r"\.layer_scale([12])\.lambda1$": r".ls\1.gamma",
    r"\.mlp\.gate_proj\.": ".mlp.gate.",
    r"\.mlp\.up_proj\.": ".mlp.fc1.",
    r"\.mlp\.down_proj\.": ".mlp.fc2.",
}
CLIP_NAMES = {
    r"^vision_model\.": "",
    r"^embeddings\.class_embedding$": "cls_token",
    r"^embeddings\.patch_embedding\.": "patch_embed.proj.",
    r"^embeddings\.position_embedding\.weight$": "pos_embed",
    r"^pre_layrnorm\.": "norm_pre.",
    r"^encoder\.layers\.": "blocks.",
    r"\.self_attn\.([qkv])_proj\.": r".attn.\1.",
    r"\.self_attn\.out_proj\.": ".attn.proj.",
    r"\.layer_norm([12])\.": r".norm\1.",
    r"^post_layernorm\.": "norm.",
    r"^visual_projection\.": "head.",
    r"^head\.probe$": "attn_pool.latent",
    r"^head\.attention\.in_proj_": "attn_pool.qkv.",
    r"^head\.attention\.out_proj\.": "attn_pool.proj.",
    r"^head\.layernorm\.": "attn_pool.norm.",
    r"^head\.mlp\.": "attn_pool.mlp.",
}
TIMM_NAMES = {
    r"\.gamma_([12])$": r".ls\1.gamma",
    r"\.attn\.([qv])_bias$": r".attn.\1.bias",
    r"\.mlp\.fc1_g\.": ".mlp.gate.",
    r"\.mlp\.fc1_x\.": ".mlp.fc1.",
}


@dataclass(frozen=True)
class Family:
    """Models whose weights have the same names, and what these weights need and do not hold.

    Attributes:
        name: what it is called.
        marks: patterns of names; a file that holds all of them is of this family.
        names: what becomes what.
        eps: of the layer norms.
        act: "gelu", "gelu_pytorch_tanh" or "quick_gelu"; None if the names do not tell.
        stats: what pictures are normalised with; None if the names do not tell.
        unused: pattern of names that no picture needs, such as a text tower.
    """

    name: str
    marks: tuple[str, ...]
    names: dict[str, str]
    eps: float = 1e-6
    act: str | None = "gelu"
    stats: Stats | None = IMAGENET
    unused: str = r"(?!)"


HUGGING_FACE = "Hugging Face"
FAMILIES = (
    Family("torchvision ViT", (r"^conv_proj\.", r"^encoder\.layers\.encoder_layer_"), TORCHVISION_NAMES),
    Family(
        f"{HUGGING_FACE} SigLIP",
        (r"^(vision_model\.)?embeddings\.patch_embedding\.", r"^(vision_model\.)?head\.probe$"),
        CLIP_NAMES,
        act="gelu_pytorch_tanh",
        stats=HALVES,
        unused=r"^(text_model\.|logit_(scale|bias)$|vision_model\.embeddings\.position_ids$)",
    ),
    Family(
        f"{HUGGING_FACE} CLIP",
        (r"^(vision_model\.)?embeddings\.class_embedding$", r"^(vision_model\.)?pre_layrnorm\."),
        CLIP_NAMES,
        eps=1e-5,
        act="quick_gelu",
        stats=OPENAI,
        unused=r"^(text_model\.|text_projection\.|logit_scale$|vision_model\.embeddings\.position_ids$)",
    ),
    Family(
        f"{HUGGING_FACE} DINOv2",
        (r"embeddings\.patch_embeddings\.projection\.", r"\.layer_scale1\.lambda1$"),
        HUGGING_FACE_NAMES,
        unused=r"embeddings\.mask_token$",
    ),
    Family(
        f"{HUGGING_FACE} DINOv3",
        (r"^embeddings\.patch_embeddings\.weight$", r"^(model\.)?layer\.0\.attention\.q_proj\."),
        DINOV3_NAMES,
        eps=1e-5,
        unused=r"embeddings\.mask_token$",
    ),
    Family(
        f"{HUGGING_FACE} ViT",
        (r"embeddings\.patch_embeddings\.projection\.", r"encoder\.layer\.0\.layernorm_before\."),
        HUGGING_FACE_NAMES,
        eps=1e-12,
        stats=None,
        unused=r"(embeddings\.mask_token|pooler\..*)$",
    ),
    Family("timm SigLIP", (r"^blocks\.0\.attn\.", r"^attn_pool\.latent$"), TIMM_NAMES, stats=HALVES),
    Family(
        "timm CLIP", (r"^blocks\.0\.attn\.", r"^norm_pre\."), TIMM_NAMES, eps=1e-5, act=None, stats=OPENAI
    ),
    Family("timm DINOv3", (r"^reg_token$", r"^blocks\.0\.gamma_1$"), TIMM_NAMES, eps=1e-5),
    Family("timm DINOv2 or DeiT III", (r"^blocks\.0\.attn\.", r"^blocks\.0\.ls1\.gamma$"), TIMM_NAMES),
    Family("timm ViT", (r"^blocks\.0\.attn\.", r"^pos_embed$"), TIMM_NAMES, stats=None),
)
"""All that `backbone` can build; where a file has the marks of several, it is of the first."""


def find_family(state_dict: dict[str, Tensor]) -> Family:
    """Tell by the names of its weights which family a file is of.

    Raises:
        ValueError: if it is of none; the message says how its names begin, and which families there are.
    """
    for family in FAMILIES:
        if all(any(re.search(mark, name) for name in state_dict) for mark in family.marks):
            return family
    known = ", ".join(family.name for family in FAMILIES)
    raise ValueError(
        f"these are not weights of a ViT that is known here: they begin with {', '.join(list(state_dict)[:3])}. "
        f"Known are {known}"
    )


def renamed(name: str, names: dict[str, str]) -> str:
    """Return the name of a weight by the patterns of a family."""
    for theirs, ours in names.items():
        name = re.sub(theirs, ours, name)
    return name


def convert_torchvision(state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights of torchvision's `VisionTransformer` to the names of this course.

    Values are the same tensors: torchvision's in_proj holds queries, keys and values in our order.
    """
    return {renamed(name, TORCHVISION_NAMES): value for name, value in state_dict.items()}


def to_timm(state_dict: dict[str, Tensor], family: Family) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Give weights of a family timm's names and shapes: queries, keys and values joined, tables with a batch axis.

    Args:
        state_dict: weights by the names of the family; half precision becomes float32.
        family: what `find_family` found.

    Returns:
        weights: tensors by timm's names; names that no pattern fits stay as they are.
        origins: for each of them its name in the file. Weights that the family does not use are in neither.
    """
    weights, origins = {}, {}
    for name, value in state_dict.items():
        if not re.search(family.unused, name):
            new = renamed(name, family.names)
            weights[new] = value.float() if value.is_floating_point() else value
            origins[new] = name
    for name in ("cls_token", "pos_embed"):
        if name in weights:
            weights[name] = weights[name].reshape(1, -1, weights[name].shape[-1])
    for name in [name for name in weights if re.search(r"\.mlp\.w12\.", name)]:
        value, origin = weights.pop(name), origins.pop(name)
        for part, new in zip(value.chunk(2), ("gate", "fc1"), strict=True):
            weights[name.replace("w12", new)], origins[name.replace("w12", new)] = part, origin
    join_qkv(weights, origins)
    return weights, origins


def join_qkv(weights: dict[str, Tensor], origins: dict[str, str]) -> None:
    """Put apart queries, keys and values into one matrix, in place; a bias that one of the three lacks is zero."""
    for prefix in sorted(
        {name.partition(".attn.")[0] for name in weights if re.search(r"\.attn\.q\.", name)}
    ):
        for kind in ("weight", "bias"):
            names = [f"{prefix}.attn.{part}.{kind}" for part in "qkv"]
            there = [name for name in names if name in weights]
            if there and (kind == "bias" or len(there) == 3):
                zero = torch.zeros_like(weights[there[0]])
                joined = f"{prefix}.attn.qkv.{kind}"
                weights[joined] = torch.cat([weights.pop(name, zero) for name in names])
                origins[joined] = origins[there[0]]


def heads_of(dim: int) -> int:
    """Return how many heads published ViTs of this width have: D / 64, but 16 in the Huge and the SO400M.

    Raises:
        ValueError: if the width is not a multiple of 64, so that the number is unknown.
    """
    if dim % 64:
        raise ValueError(
            f"width {dim} is not a multiple of 64, so the number of heads is unknown: give num_heads"
        )
    return 16 if dim in (1152, 1280) else dim // 64


def load_weights(path: str | Path) -> dict[str, Tensor]:
    """Read a state dict from a .safetensors or .pth file; nothing but tensors is ever unpickled."""
    path = Path(path)
    if path.suffix == ".safetensors":
        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True)
