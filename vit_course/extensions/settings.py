"""What the files beside public weights say: `config.json` and `preprocessor_config.json` of timm and Hugging Face.

They are read wholly or refused: a field that would change the outputs and is not known here is an error.
"""

import json
import re
from pathlib import Path
from typing import Any

KIND = "36x1|gap|map|clip|clip_quickgelu|siglip|siglip_gap|dinov2|dinov3|dinov3_qkvb|tipsv2"
TIMM_NAME = r"(?:vit|deit3?|flexivit)_([a-z]+(?:\d+m2?)?)(_plus)?(_patch\d+)?(_plus)?(_reg\d)?"
TIMM_NAME += rf"(_({KIND}))?(_\d{{3}})?(_miil)?"
"""The names that timm gives to plain ViTs, which are built here. All others are refused by their names."""
NO_PLAIN_VIT = "by its name it is no plain ViT (EVA, BEiT, NaFlex, rotations of another kind, parallel or "
NO_PLAIN_VIT += "post-norm blocks, Perception Encoder...), and its weights alone would not show that"
HEADS = {"tiny": 3, "xsmall": 4, "little": 5, "small": 6, "medium": 8, "mediumd": 8, "betwixt": 10}
HEADS |= {"base": 12, "so150m2": 13, "so150m": 14}
HEADS |= dict.fromkeys(("so400m", "large", "huge", "giant", "giantopt", "gigantic"), 16)
ODD_HEADS = {r"giant.*(dinov2|tipsv2)": 24, "huge_plus": 20}
ODD_HEADS |= {"base_patch16_gap": 16, r"base_patch\d+_plus": 14}
"""Heads by the word for the size in timm's names, and by patterns of the names that differ."""
TANH = r"_patch32_siglip|so400m_patch16_siglip|giantopt|large_patch16_siglip(_gap)?_512"
"""timm's models with SigLIP's own activation; timm computes its other ones with the exact GELU."""
KNOWN = "in_chans num_classes class_token init_values reg_tokens no_embed_class qkv_bias fc_norm depth "
KNOWN += "mlp_ratio dynamic_img_size weight_init drop_rate drop_path_rate patch_size img_size num_heads "
KNOWN += "embed_dim global_pool"
"""Arguments of timm's models that are read here, or that the weights show, or that matter in training alone."""
HUGGING_FACE_KINDS = {
    "vit": "ViTModel ViTForImageClassification",
    "dinov2": "Dinov2Model",
    "dinov2_with_registers": "Dinov2WithRegistersModel",
    "dinov3_vit": "DINOv3ViTModel",
    "clip": "CLIPModel",
    "clip_vision_model": "CLIPVisionModel CLIPVisionModelWithProjection",
    "siglip": "SiglipModel",
    "siglip_vision_model": "SiglipVisionModel",
}
"""The `model_type` of what is built here, each with its classes of which all parts are."""
NAMED = {"num_heads": "num_attention_heads", "act": "hidden_act", "eps": "layer_norm_eps"}
NAMED |= {"depth": "num_hidden_layers", "img_size": "image_size"}
"""Our settings by their names in Hugging Face's configs."""
DEFAULTS = {"num_attention_heads": 12, "num_hidden_layers": 12, "image_size": 224}
"""What the part of a config for pictures may leave out: the defaults of its class."""


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
    found: dict[str, Any] = {}
    for name, read in (("preprocessor_config.json", picture_settings), ("config.json", model_settings)):
        try:
            text = (folder / name).read_text(encoding="utf-8") if (folder / name).is_file() else "{}"
            if not isinstance(config := json.loads(text), dict):
                raise ValueError("no object with named fields")
            found |= read(config, head)
        except ValueError as error:
            kind = "it is not JSON: " if isinstance(error, json.JSONDecodeError) else ""
            raise ValueError(f"{folder / name}: {kind}{error}") from error
    return {name: value for name, value in found.items() if value is not None}


def picture_settings(config: dict[str, Any], head: bool) -> dict[str, Any]:
    """Return mean and deviation as Hugging Face's `preprocessor_config.json` says."""
    if abs(config.get("rescale_factor", 1 / 255) * 255 - 1) > 1e-3 or not config.get("do_rescale", True):
        raise ValueError("pictures are not brought to 0..1 before they are normalised: not read here")
    stats = (config.get(f"image_{name}") for name in ("mean", "std"))
    mean, std = stats if config.get("do_normalize", True) else ((0.0,) * 3, (1.0,) * 3)
    return {"mean": mean, "std": std}


def model_settings(config: dict[str, Any], head: bool) -> dict[str, Any]:
    """Return what a `config.json` of one of the two libraries says."""
    if "architecture" in config:
        return timm_settings(config)
    if "model_type" in config:
        return hugging_face_settings(config, head)
    if config:
        raise ValueError("neither timm's (no architecture) nor Hugging Face's (no model_type)")
    return {}


def timm_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return what timm's `config.json` says."""
    name = config["architecture"]
    told, about = config.get("model_args") or {}, config.get("pretrained_cfg") or {}
    fits = re.fullmatch(TIMM_NAME, name)
    if not fits or fits[1] not in HEADS:
        raise ValueError(f"{name} is not built here: {NO_PLAIN_VIT}")
    if unknown := sorted(told.keys() - set(KNOWN.split())):
        raise ValueError(f"model_args has {', '.join(unknown)}, which is not read here")
    heads = next((n for odd, n in ODD_HEADS.items() if re.search(odd, name)), HEADS[fits[1]])
    act = "gelu_pytorch_tanh" if re.search(TANH, name) else "quick_gelu" if "quickgelu" in name else "gelu"
    size = told.get("img_size") or (about.get("input_size") or [])[1:] or None
    pooling = told.get("global_pool") or config.get("global_pool")
    found = {"mean": about.get("mean"), "std": about.get("std"), "depth": told.get("depth"), "act": act}
    return found | {"num_heads": told.get("num_heads", heads), "img_size": size, "global_pool": pooling}


def hugging_face_settings(config: dict[str, Any], head: bool) -> dict[str, Any]:
    """Return what Hugging Face's `config.json` says."""
    kind = config["model_type"]
    if kind not in HUGGING_FACE_KINDS:
        known = ", ".join(HUGGING_FACE_KINDS)
        raise ValueError(f"a model of the type {kind} is not built here; known are {known}")
    others = set(config.get("architectures") or ()) - set(HUGGING_FACE_KINDS[kind].split())
    if head and others:
        raise ValueError(f"the head of {min(others)} is not built here: head=False loads the rest without it")
    inner = DEFAULTS | config["vision_config"] if "vision_config" in config else config
    if (theta := (inner.get("rope_parameters") or inner).get("rope_theta", 100.0)) != 100.0:
        raise ValueError(f"rope_theta is {theta}: rotations are built with 100 alone")
    return {ours: inner.get(theirs) for ours, theirs in NAMED.items()}
