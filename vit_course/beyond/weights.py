"""Weights from files and from other libraries, by the names of this course.

Names in the state dict are timm's, so timm's ViT weights load with `strict=True`; `to_timm` renames those of
torchvision and Hugging Face, which `backbone` then builds a model around. Lessons 06, 12 and 17 load such weights.
"""

import argparse
import pickle
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

Stats = tuple[Sequence[float], Sequence[float]]
"""Mean and standard deviation of each channel, in 0..1 units."""
IMAGENET: Stats = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

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
    r"\.mlp\.w3\.": ".mlp.fc2.",
    r"^register_tokens$": "reg_token",
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
        stats: what pictures are normalised with, of a family that has been published with one alone.
        heads: of such a family the number of heads by (width, number of blocks).
        unused: pattern of names that no picture needs, such as a text tower.
    """

    name: str
    marks: tuple[str, ...]
    names: dict[str, str]
    eps: float = 1e-6
    act: str | None = "gelu"
    stats: Stats | None = None
    heads: dict[tuple[int, int], int] = field(default_factory=dict)
    unused: str = r"(?!)"


HUGGING_FACE = "Hugging Face"
FAMILIES = (
    Family(
        "torchvision ViT",
        (r"^conv_proj\.", r"^encoder\.layers\.encoder_layer_"),
        TORCHVISION_NAMES,
        stats=IMAGENET,
        heads={(768, 12): 12, (1024, 24): 16, (1280, 32): 16},
    ),
    Family(
        f"{HUGGING_FACE} SigLIP",
        (r"^(vision_model\.)?embeddings\.patch_embedding\.", r"^(vision_model\.)?head\.probe$"),
        CLIP_NAMES,
        act="gelu_pytorch_tanh",
        unused=r"^(text_model\.|logit_(scale|bias)$|vision_model\.embeddings\.position_ids$)",
    ),
    Family(
        f"{HUGGING_FACE} CLIP",
        (r"^(vision_model\.)?embeddings\.class_embedding$", r"^(vision_model\.)?pre_layrnorm\."),
        CLIP_NAMES,
        eps=1e-5,
        act="quick_gelu",
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
        unused=r"(embeddings\.mask_token|pooler\..*)$",
    ),
    Family("timm SigLIP", (r"^blocks\.0\.attn\.", r"^attn_pool\.latent$"), TIMM_NAMES, act=None),
    Family("timm CLIP", (r"^blocks\.0\.attn\.", r"^norm_pre\."), TIMM_NAMES, eps=1e-5, act=None),
    Family("timm DINOv3", (r"^reg_token$", r"^cls_token$", r"^blocks\.0\.gamma_1$"), TIMM_NAMES, eps=1e-5),
    Family(
        "Meta DINOv2",
        (r"^mask_token$", r"^blocks\.0\.ls1\.gamma$"),
        TIMM_NAMES,
        stats=IMAGENET,
        heads={(384, 12): 6, (768, 12): 12, (1024, 24): 16, (1536, 40): 24},
        unused=r"^mask_token$",
    ),
    Family("timm DINOv2 or DeiT III", (r"^blocks\.0\.attn\.", r"^blocks\.0\.ls1\.gamma$"), TIMM_NAMES),
    Family(
        "timm ViT", (r"^blocks\.0\.attn\.", r"^pos_embed$"), TIMM_NAMES, unused=r"^(decoder_.*|mask_token)$"
    ),
)
"""All that `backbone` can build; where a file has the marks of several, it is of the first."""


def family_of(names: Sequence[str]) -> Family | None:
    """Tell by the names of its weights which family a file is of; None if of none."""
    for family in FAMILIES:
        if all(any(re.search(mark, name) for name in names) for mark in family.marks):
            return family
    return None


def find_family(state_dict: dict[str, Tensor]) -> Family:
    """Tell by the names of its weights which family a file is of.

    Raises:
        ValueError: if it is of none; the message says how its names begin, and which families there are.
    """
    if family := family_of(list(state_dict)):
        return family
    known = ", ".join(family.name for family in FAMILIES)
    raise ValueError(
        f"these are not weights of a ViT that is known here: they begin with {', '.join(list(state_dict)[:3])}. "
        f"Known are {known}"
    )


def parts_with_vits(content: dict, depth: int = 3) -> dict[str, dict]:
    """Find the parts of a file that hold a known ViT: entries that are dicts, and weights with a name before a dot."""
    parts = {name: value for name, value in content.items() if isinstance(value, dict)}
    for name, value in content.items():
        if isinstance(name, str) and isinstance(value, Tensor) and "." in name:
            first, _, rest = name.partition(".")
            parts.setdefault(first, {})[rest] = value
    return {
        name: part
        for name, part in parts.items()
        if depth
        and (family_of([key for key in part if isinstance(key, str)]) or parts_with_vits(part, depth - 1))
    }


def unwrap(content: Any, part: str | None = None) -> tuple[dict[str, Tensor], list[str]]:
    """Take the weights of a ViT out of what programs for training put around them, for example {"model": ...}.

    Args:
        content: what a file holds.
        part: which of several sets of weights is meant: a name that the error about them says.

    Returns:
        The weights, and the names of those that lie beside them, such as another model's.

    Raises:
        ValueError: if there are none, or several sets of which none was chosen.
    """
    beside: list[str] = []
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}, not weights by their names")
    while not family_of([name for name in content if isinstance(name, str)]):
        parts = parts_with_vits(content)
        if len(parts) > 1 and part not in parts:
            raise ValueError(
                f"it holds several sets of weights: {', '.join(parts)}. Say which: part={next(iter(parts))!r}"
            )
        if not parts:
            find_family({str(name): value for name, value in content.items()})
        chosen = part if part in parts else next(iter(parts))
        part = None if part == chosen else part
        beside += [
            name
            for name, value in content.items()
            if isinstance(value, Tensor) and not name.startswith(f"{chosen}.")
        ]
        content = parts[chosen]
    if part:
        raise ValueError(f"it holds no part {part!r}")
    return {name: value for name, value in content.items() if isinstance(value, Tensor)}, beside


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
    for name in [name for name in weights if re.search(r"\.mlp\.(w12|fc1)\.", name)]:
        last = weights.get(re.sub(r"\.mlp\..*", ".mlp.fc2.weight", name))
        if (
            "w12" in name or last is not None and len(weights[name]) == 2 * last.shape[-1]
        ):  # gate and fc1 in one
            value, origin = weights.pop(name), origins.pop(name)
            for part, new in zip(value.chunk(2), ("gate", "fc1"), strict=True):
                moved = re.sub("w12|fc1", new, name)
                weights[moved], origins[moved] = part, origin
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


WRONG_FILES = {
    rb"$": "is empty: fetch it again",
    rb"version https://git-lfs": "is a Git LFS pointer, a note in place of the weights: fetch the file itself",
    rb"\s*<": "is a web page, not weights: the address leads to a page about them, or asks to log in",
    rb"\s*[{\[]": "is JSON, not weights: an index of several files, or what a server had to complain about",
    rb"vit_course checkpoint": "is the checkpoint of a run: a run that has ended leaves model.safetensors beside it",
    rb"\x93NUMPY|GGUF|\x89HDF": "is in a format that is not read here (NumPy, GGUF, HDF5)",
}
"""How files begin that are no weights, and what is said of them."""


def load_weights(path: str | Path) -> Any:
    """Read a state dict, or what was wrapped around one, from a .safetensors or .pth file.

    The content counts, not the ending. Nothing but tensors and plain values is ever unpickled.

    Raises:
        ValueError: if it holds something else; the message says what.
    """
    path = Path(path)
    with path.open("rb") as file:
        start = file.read(200)
    for pattern, what in WRONG_FILES.items():
        if re.match(pattern, start):
            raise ValueError(f"{path} {what}")
    try:
        if start[8:9] == b"{":
            return load_file(path)
        if start[:2] == b"PK" and any(name.endswith(".npy") for name in zipfile.ZipFile(path).namelist()):
            raise ValueError(
                f"{path} is an archive of NumPy (JAX): take a .safetensors or .pth file of the model"
            )
        if start[:2] not in (b"PK", b"\x80\x02"):
            raise ValueError(f"{path} is neither a safetensors file nor one of torch.save")
        with torch.serialization.safe_globals([argparse.Namespace]):  # options that many programs put beside
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL (\S+)", str(error))
        raise ValueError(
            f"{path} holds more than weights ({found[1] if found else 'objects of Python'}), and to open it could run "
            "code: it is not opened. Whoever trusts it saves its state_dict() alone"
        ) from error
    except (SafetensorError, RuntimeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is damaged, or only the first part of a file ({path.stat().st_size:,} bytes): fetch it again"
        ) from error
