"""Weights from files and from other libraries, by the names of this course.

Names in the state dict are timm's, so timm's ViT weights load with `strict=True`; `to_timm` renames those of
torchvision and Hugging Face, which `backbone` then builds a model around. Lessons 06, 12 and 17 load such weights.
"""

import argparse
import pickle
import re
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

Weights = dict[str, Tensor]
"""Tensors by their names, as in a state dict."""
Stats = tuple[Sequence[float], Sequence[float]]
"""Mean and standard deviation of each channel, in 0..1 units."""
IMAGENET: Stats = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

NAMES = {
    r"^(vit|dinov2|dinov2_with_registers|vision_model)\.": "",
    r"^(class_token|embeddings\.cls_token|embeddings\.class_embedding)$": "cls_token",
    r"^(embeddings\.)?register_tokens$": "reg_token",
    r"^(encoder\.pos_embedding|embeddings\.position_embeddings|embeddings\.position_embedding\.weight)$": "pos_embed",
    r"^(conv_proj|embeddings\.patch_embeddings?(\.projection)?)\.": "patch_embed.proj.",
    r"^pre_layrnorm\.": "norm_pre.",
    r"^(encoder\.layers?\.(encoder_layer_)?|(model\.)?layer\.)": "blocks.",
    r"\.(ln_|layer_norm)([12])\.": r".norm\2.",
    r"\.layernorm_before\.": ".norm1.",
    r"\.layernorm_after\.": ".norm2.",
    r"\.self_attention\.in_proj_": ".attn.qkv.",
    r"\.(self_attention\.out_proj|self_attn\.out_proj|attention\.o_proj|attention\.output\.dense)\.": ".attn.proj.",
    r"\.(self_attn|attention)\.(attention\.)?([qkv])[a-z_]+\.": r".attn.\3.",
    r"\.attn\.([qv])_bias$": r".attn.\1.bias",
    r"\.(mlp\.(0|linear_1|up_proj|fc1_x)|intermediate\.dense)\.": ".mlp.fc1.",
    r"\.(mlp\.(3|linear_2|down_proj|w3|weights_out)|output\.dense)\.": ".mlp.fc2.",
    r"\.mlp\.(gate_proj|fc1_g)\.": ".mlp.gate.",
    r"\.mlp\.weights_in\.": ".mlp.w12.",
    r"\.(layer_scale([12])\.lambda1|gamma_([12]))$": r".ls\2\3.gamma",
    r"^(encoder\.ln|layernorm|post_layernorm)\.": "norm.",
    r"^heads\.pre_logits\.": "pre_logits.fc.",
    r"^(heads\.head|classifier|visual_projection)\.": "head.",
    r"^head\.probe$": "attn_pool.latent",
    r"^head\.attention\.in_proj_": "attn_pool.qkv.",
    r"^head\.(attention\.out_)?(proj|layernorm|mlp)\.": r"attn_pool.\2.",
    r"^attn_pool\.layernorm\.": "attn_pool.norm.",
}
"""What becomes what in the names of all libraries, pattern by pattern, in this order."""


class Family(NamedTuple):
    """Models whose weights have the same names, and what these weights need and do not hold.

    Attributes:
        name: what it is called.
        marks: patterns of names; a file that holds all of them is of this family.
        eps: of the layer norms.
        act: "gelu", "gelu_pytorch_tanh" or "quick_gelu"; None if the names do not tell.
        unused: pattern of names that no picture needs, such as a text tower.
        heads: of a family that was published in one way alone the number of heads by (width, number of blocks).
        stats: what the pictures of such a family are normalised with.
    """

    name: str
    marks: tuple[str, ...]
    eps: float = 1e-6
    act: str | None = "gelu"
    unused: str = r"(?!)"
    heads: dict[tuple[int, int], int] = {}  # noqa: RUF012
    stats: Stats | None = None


HF, PROJECTION, TIMM = "Hugging Face", r"embeddings\.patch_embeddings\.projection\.", r"^blocks\.0\.attn\."
TEXT = r"^(text_model\.|text_projection\.|logit_(scale|bias)$|vision_model\.embeddings\.position_ids$)"
PAPER = {(768, 12): 12, (1024, 24): 16, (1280, 32): 16}
META = {(384, 12): 6, (768, 12): 12, (1024, 24): 16, (1536, 40): 24}
TORCHVISION, SCALED = (r"^conv_proj\.", r"^encoder\.layers\.encoder_layer_"), r"^blocks\.0\.ls1\.gamma$"
VISION = r"^(vision_model\.)?"
SIGLIP = VISION + r"embeddings\.patch_embedding\.", VISION + r"head\.probe$"
CLIP = VISION + r"embeddings\.class_embedding$", VISION + r"pre_layrnorm\."
DINOV3 = r"^embeddings\.patch_embeddings\.weight$", r"^(model\.)?layer\.0\.attention\.q_proj\."
FAMILIES = (
    Family("torchvision ViT", TORCHVISION, heads=PAPER, stats=IMAGENET),
    Family(f"{HF} SigLIP", SIGLIP, act="gelu_pytorch_tanh", unused=TEXT),
    Family(f"{HF} CLIP", CLIP, 1e-5, "quick_gelu", TEXT),
    Family(f"{HF} DINOv2", (PROJECTION, r"\.layer_scale1\.lambda1$"), unused=r"mask_token$"),
    Family(f"{HF} DINOv3", DINOV3, 1e-5, unused=r"mask_token$"),
    Family(f"{HF} ViT", (PROJECTION, r"\.layernorm_before\."), 1e-12, unused=r"(mask_token|pooler\..*)$"),
    Family("timm SigLIP", (TIMM, r"^attn_pool\.latent$"), act=None),
    Family("timm CLIP", (TIMM, r"^norm_pre\."), 1e-5, act=None),
    Family("timm DINOv3", (r"^reg_token$", r"^cls_token$", r"^blocks\.0\.gamma_1$"), 1e-5),
    Family("Meta DINOv2", (r"^mask_token$", SCALED), unused="^mask_token$", heads=META, stats=IMAGENET),
    Family("timm DINOv2 or DeiT III", (TIMM, SCALED)),
    Family("timm ViT", (TIMM, r"^pos_embed$"), unused=r"^(decoder_.*|mask_token)$"),
)
"""All that `backbone` can build; where a file has the marks of several, it is of the first."""


def family_of(names: Iterable[Any]) -> Family | None:
    """Tell by the names of its weights which family a file is of; None if of none."""
    names = [name for name in names if isinstance(name, str)]
    fits = (f for f in FAMILIES if all(any(re.search(mark, name) for name in names) for mark in f.marks))
    return next(fits, None)


def parts_with_vits(content: dict, depth: int = 3) -> dict[str, dict]:
    """Find the parts of a file that hold a known ViT: entries that are dicts, and weights with a name before a dot."""
    parts = {name: value for name, value in content.items() if isinstance(value, dict)}
    for name in [name for name in content if isinstance(name, str) and "." in name]:
        first, _, rest = name.partition(".")
        parts.setdefault(first, {})[rest] = content[name]
    return {name: p for name, p in parts.items() if depth and (family_of(p) or parts_with_vits(p, depth - 1))}


def unwrap(content: Any, part: str | None = None) -> tuple[Weights, Family, list[str]]:
    """Take the weights of a ViT out of what programs for training put around them, for example {"model": ...}.

    Args:
        content: what a file holds.
        part: which of several sets of weights is meant: a name that the error about them says.

    Returns:
        The weights, their family, and the names of those that lie beside them, such as another model's.

    Raises:
        ValueError: if there are none, or several sets of which none was chosen.
    """
    beside: list[str] = []
    if not isinstance(content, dict):
        content = {type(content).__name__: content}
    while not (family := family_of(content)):
        if not (parts := parts_with_vits(content)):
            found = ", ".join(list(map(str, content))[:3])
            unknown = f"these are not weights of a ViT that is known here: they begin with {found}"
            raise ValueError(f"{unknown}. Known are {', '.join(known.name for known in FAMILIES)}")
        if len(parts) > 1 and part not in parts:
            several = f"it holds several sets of weights: {', '.join(parts)}"
            raise ValueError(f"{several}. Say which: part={next(iter(parts))!r}")
        chosen = part if part in parts else next(iter(parts))
        beside += [name for name in tensors_in(content) if not name.startswith(f"{chosen}.")]
        content = parts[chosen]
    return tensors_in(content), family, beside


def tensors_in(content: dict) -> Weights:
    """Return those entries that are tensors."""
    return {name: value for name, value in content.items() if isinstance(value, Tensor)}


def renamed(name: str) -> str:
    """Return the name that a weight of another library has here."""
    for theirs, ours in NAMES.items():
        name = re.sub(theirs, ours, name)
    return name


def convert_torchvision(state_dict: Weights) -> Weights:
    """Rename the weights of torchvision's `VisionTransformer` to the names of this course.

    Values are the same tensors: torchvision's in_proj holds queries, keys and values in our order.
    """
    return {renamed(name): value for name, value in state_dict.items()}


def to_timm(state_dict: Weights, family: Family) -> tuple[Weights, dict[str, str]]:
    """Give weights of a family timm's names and shapes: queries, keys and values joined, tables with a batch axis.

    Args:
        state_dict: weights by the names of the family; half precision becomes float32.
        family: what `unwrap` found.

    Returns:
        weights: tensors by timm's names; names that no pattern fits stay as they are.
        origins: for each of them its name in the file. Weights that the family does not use are in neither.
    """
    weights, origins = {}, {}
    for name, value in state_dict.items():
        if not re.search(family.unused, name):
            new = renamed(name)
            weights[new] = value.float() if value.is_floating_point() else value
            origins[new] = name
    for name in ("cls_token", "pos_embed"):
        if name in weights:
            weights[name] = weights[name].reshape(1, -1, weights[name].shape[-1])
    for name in [name for name in weights if re.search(r"\.mlp\.(w12|fc1)\.", name)]:
        last = weights.get(re.sub(r"\.mlp\..*", ".mlp.fc2.weight", name))
        both = "w12" in name or last is not None and len(weights[name]) == 2 * last.shape[-1]
        if both:  # gate and fc1 in one
            value, origin = weights.pop(name), origins.pop(name)
            for part, new in zip(value.chunk(2), ("gate", "fc1"), strict=True):
                moved = re.sub("w12|fc1", new, name)
                weights[moved], origins[moved] = part, origin
    join_qkv(weights, origins)
    return weights, origins


def join_qkv(weights: Weights, origins: dict[str, str]) -> None:
    """Put apart queries, keys and values into one matrix, in place; a bias that one of the three lacks is zero."""
    for prefix in sorted({name.partition(".attn.q.")[0] for name in weights if ".attn.q." in name}):
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
UNSAFE = "{path} holds more than weights ({more}), and to open it could run code: it is not opened. Whoever "
UNSAFE += "trusts it saves its state_dict() alone"


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
            raise ValueError(f"{path} is an archive of NumPy (JAX): take a .safetensors or .pth file of it")
        if start[:2] not in (b"PK", b"\x80\x02"):
            raise ValueError(f"{path} is neither a safetensors file nor one of torch.save")
        with torch.serialization.safe_globals([argparse.Namespace]):  # options that many programs put beside
            with path.open("rb") as file:  # by a name torch would think of its format
                return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL (\S+)", str(error))
        raise ValueError(UNSAFE.format(path=path, more=found[1] if found else "objects of Python")) from error
    except (SafetensorError, RuntimeError, EOFError, zipfile.BadZipFile) as error:
        part = f"only the first part of a file ({path.stat().st_size:,} bytes)"
        raise ValueError(f"{path} is damaged, or {part}: fetch it again") from error
