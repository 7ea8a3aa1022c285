"""What the files beside public weights say: `config.json` and `preprocessor_config.json` of timm and Hugging Face.

They are read wholly or refused: a field that would change the outputs and is not known here is an error.
"""

import json
import re
from pathlib import Path
from typing import Any

TIMM_NAME = re.compile(
    r"(?:vit|deit3?|flexivit)_(?P<size>[a-z]+(?:150m2?|400m)?)(?P<plus>_plus)?(?:_patch\d+)?(?:_plus)?(?:_reg\d)?"
    r"(?:_36x1|_gap|_map|_clip|_clip_quickgelu|_siglip|_siglip_gap|_dinov2|_dinov3|_dinov3_qkvb|_tipsv2)?"
    r"(?:_\d{3})?(?:_miil)?"
)
"""The names that timm gives to plain ViTs, which are built here. All others are refused by their names."""
HEADS = {
    "tiny": 3,
    "xsmall": 4,
    "small": 6,
    "little": 5,
    "medium": 8,
    "mediumd": 8,
    "betwixt": 10,
    "base": 12,
}
HEADS |= {"so150m": 14, "so150m2": 13, "so400m": 16, "large": 16, "huge": 16, "giant": 16, "giantopt": 16}
HEADS |= {"gigantic": 16}
ODD_HEADS = {r"giant.*(dinov2|tipsv2)": 24, r"huge_plus": 20, r"base_patch16_gap": 16}
TANH = r"_patch32_siglip|so400m_patch16_siglip|giantopt|large_patch16_siglip(_gap)?_512"
"""timm's models with SigLIP's own activation; timm computes its other ones with the exact GELU."""
HARMLESS = {
    "in_chans",
    "num_classes",
    "class_token",
    "init_values",
    "reg_tokens",
    "no_embed_class",
    "qkv_bias",
}
HARMLESS |= {
    "fc_norm",
    "dynamic_img_size",
    "weight_init",
    "mlp_ratio",
    "drop_rate",
    "drop_path_rate",
    "depth",
}
HARMLESS |= {
    "embed_dim",
    "patch_size",
    "img_size",
    "num_heads",
    "global_pool",
    "strict_img_size",
    "proj_drop_rate",
}
"""Arguments of timm's models that are read here, or that the weights show, or that matter in training alone."""
HUGGING_FACE_KINDS = {
    "vit": ("ViTModel", "ViTForImageClassification"),
    "dinov2": ("Dinov2Model",),
    "dinov2_with_registers": ("Dinov2WithRegistersModel",),
    "dinov3_vit": ("DINOv3ViTModel",),
    "clip": ("CLIPModel",),
    "clip_vision_model": ("CLIPVisionModel", "CLIPVisionModelWithProjection"),
    "siglip": ("SiglipModel",),
    "siglip_vision_model": ("SiglipVisionModel",),
}
"""The `model_type` of what is built here, each with its classes of which all parts are."""


def read_settings(folder: Path, head: bool = True) -> dict[str, Any]:
    """Read from the files that lie beside weights what the weights do not tell.

    Args:
        folder: where they lie.
        head: whether the head is wanted: without it a model may have one that is not built here.

    Returns:
        Some of "mean", "std", "num_heads", "act", "eps", "depth", "img_size" and "global_pool".

    Raises:
        ValueError: if a file is no JSON, or of a model that is not built here; the message names the file.
    """
    found = picture_settings(read_json(folder / "preprocessor_config.json"))
    path = folder / "config.json"
    config = read_json(path)
    try:
        if "architecture" in config:
            found |= timm_settings(config)
        elif "model_type" in config:
            found |= hugging_face_settings(config, head)
        elif config:
            raise ValueError("neither timm's (no architecture) nor Hugging Face's (no model_type)")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return {name: value for name, value in found.items() if value is not None}


def read_json(path: Path) -> dict[str, Any]:
    """Read an object from a JSON file; an empty one if there is no file."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}: a config is an object with named fields")
    return content


def picture_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return mean and deviation as Hugging Face's `preprocessor_config.json` says."""
    if abs(config.get("rescale_factor", 1 / 255) * 255 - 1) > 1e-3 or not config.get("do_rescale", True):
        raise ValueError(
            "preprocessor_config.json: pictures are not brought to 0..1 before they are normalised, which is not read "
            "here: give mean and std for values in 0..1, and take this file away"
        )
    if config.get("do_normalize", True):
        return {"mean": config.get("image_mean"), "std": config.get("image_std")}
    return {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


def timm_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return what timm's `config.json` says."""
    name, told = config["architecture"], config.get("model_args") or {}
    fits = TIMM_NAME.fullmatch(name)
    if not fits or fits["size"] not in HEADS:
        raise ValueError(
            f"{name} is not built here: by its name it is no plain ViT (EVA, BEiT, NaFlex, rotations of another kind, "
            "parallel or post-norm blocks, Perception Encoder...), and its weights alone would not show that"
        )
    if unknown := sorted(told.keys() - HARMLESS):
        raise ValueError(f"model_args has {', '.join(unknown)}, which is not read here")
    cfg = config.get("pretrained_cfg") or {}
    heads = next((n for odd, n in ODD_HEADS.items() if re.search(odd, name)), HEADS[fits["size"]])
    act = "gelu_pytorch_tanh" if re.search(TANH, name) else "quick_gelu" if "quickgelu" in name else "gelu"
    return {
        "mean": cfg.get("mean"),
        "std": cfg.get("std"),
        "num_heads": told.get("num_heads", heads),
        "act": act,
        "depth": told.get("depth"),
        "img_size": told.get("img_size") or (cfg.get("input_size") or [])[1:] or None,
        "global_pool": told.get("global_pool") or config.get("global_pool"),
    }


def hugging_face_settings(config: dict[str, Any], head: bool) -> dict[str, Any]:
    """Return what Hugging Face's `config.json` says."""
    kind = config["model_type"]
    if kind not in HUGGING_FACE_KINDS:
        raise ValueError(
            f"a model of the type {kind} is not built here; known are {', '.join(HUGGING_FACE_KINDS)}"
        )
    for name in config.get("architectures") or ():
        if head and name not in HUGGING_FACE_KINDS[kind]:
            raise ValueError(
                f"the head of {name} is not built here: head=False loads the backbone without it"
            )
    nested = "vision_config" in config
    inner = config.get("vision_config", config)
    theta = (inner.get("rope_parameters") or inner).get("rope_theta", 100.0)
    if kind == "dinov3_vit" and theta != 100.0:
        raise ValueError(f"rope_theta is {theta}: rotations are built with 100 alone")
    # What a part of a config leaves out has the default of its class.
    return {
        "num_heads": inner.get("num_attention_heads", 12 if nested else None),
        "act": inner.get("hidden_act"),
        "eps": inner.get("layer_norm_eps"),
        "depth": inner.get("num_hidden_layers", 12 if nested else None),
        "img_size": inner.get("image_size", 224 if nested else None),
    }
