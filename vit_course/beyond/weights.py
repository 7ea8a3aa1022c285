"""Weights from files and from other libraries, by the names of this course.

Names in the state dict are timm's, so timm's ViT weights load with `strict=True`; `convert_torchvision` renames
torchvision's. Lessons 06 and 12 load both.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

TORCHVISION_NAMES = {
    "class_token": "cls_token",
    "conv_proj.": "patch_embed.proj.",
    "encoder.pos_embedding": "pos_embed",
    "encoder.layers.encoder_layer_": "blocks.",
    ".ln_1.": ".norm1.",
    ".ln_2.": ".norm2.",
    ".self_attention.in_proj_": ".attn.qkv.",
    ".self_attention.out_proj.": ".attn.proj.",
    ".mlp.0.": ".mlp.fc1.",
    ".mlp.3.": ".mlp.fc2.",
    "encoder.ln.": "norm.",
    "heads.pre_logits.": "pre_logits.fc.",
    "heads.head.": "head.",
}


def convert_torchvision(state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights of torchvision's `VisionTransformer` to the names of this course.

    Values are the same tensors: torchvision's in_proj holds queries, keys and values in our order.
    """
    converted = {}
    for name, value in state_dict.items():
        for theirs, ours in TORCHVISION_NAMES.items():
            name = name.replace(theirs, ours)
        converted[name.replace(".mlp.linear_1.", ".mlp.fc1.").replace(".mlp.linear_2.", ".mlp.fc2.")] = value
    return converted


def load_weights(path: str | Path) -> dict[str, Tensor]:
    """Read a state dict from a .safetensors or .pth file; nothing but tensors is ever unpickled."""
    path = Path(path)
    if path.suffix == ".safetensors":
        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True)
