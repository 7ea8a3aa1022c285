"""Where weights of a ViT that was trained on ImageNet are on this machine. Lesson 12 uses them, if they are there."""

import os
from pathlib import Path

import torch


def imagenet_weights() -> Path | None:
    """Find weights of torchvision's ViT-B/16, trained on ImageNet, on this machine; nothing is downloaded.

    Returns:
        The file that the environment variable VIT_COURSE_IMAGENET names (.pth or .safetensors), else the file in torch
        hub's cache, else None.

    Raises:
        FileNotFoundError: if the variable names a file that is not there.
    """
    named = os.environ.get("VIT_COURSE_IMAGENET")
    if named and not Path(named).is_file():
        raise FileNotFoundError(f"VIT_COURSE_IMAGENET names {named}, which is not a file")
    from torchvision.models import ViT_B_16_Weights  # a second and 160 MB that only this needs

    cached = Path(torch.hub.get_dir(), "checkpoints", Path(ViT_B_16_Weights.IMAGENET1K_V1.url).name)
    path = Path(named) if named else cached
    return path if path.is_file() else None
