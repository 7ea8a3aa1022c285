"""A trained ViT of this course or of another library, with all that has to go with its weights.

`load_backbone` reads a file of torchvision, timm, Hugging Face or Meta (the families of `weights`), strictly and by
names, and builds our `VisionTransformer` with the parts that it needs. What the file cannot say is asked for. Nothing
is downloaded. Lesson 17 uses it.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vit_course.data import normalize
from vit_course.embeddings import pool
from vit_course.extensions.modern import at_resolution
from vit_course.extensions.placement import fill
from vit_course.extensions.public_vit import ACTIVATIONS, PublicViT, build_planned
from vit_course.extensions.settings import read_settings
from vit_course.extensions.trained import Trained, is_ours, load_trained, trained_names
from vit_course.extensions.weights import Family, Weights, load_weights, to_timm, unwrap
from vit_course.patches import as_pair
from vit_course.vit import VisionTransformer

UNBUILT = {
    r"^dist_token$|^head_dist\.|distillation_token": "a distillation token (DeiT's distilled models)",
    r"rel_pos|relative_position|^neck\.": "relative positions (BEiT, SAM)",
    r"^embeds\.": "patches of any number (NaFlex)",
    r"^rope\.|freqs": "rotations that were learned (RoPE-mixed)",
    r"\.(attn|mlp)\.norm\.|sub_norm": "norms inside attention and MLP (EVA-02, BEiT-3)",
    r"\.(q|k)_norm\.": "QK-norm",
    r"\.in_proj\.|\.attns\.|\.lambda_": "parallel blocks or differential attention",
    r"^patch_embed\.(backbone|norm)\.|^downsample|^layers\.": "a stem or stages that are not a plain ViT's",
}
"""Parts that weights may belong to and that are not built here, by patterns of names."""

QUESTIONS = {
    "num_heads": "num_heads (the width of a head is not in the file)",
    "img_size": "img_size (a side or height and width of the pictures it was trained on)",
    "mean": "mean of the normalisation (0.5 three times for the paper's models and SigLIP, ImageNet's for others)",
    "std": "std of the normalisation",
    "act": "act='gelu', 'quick_gelu' (CLIP of OpenAI and MetaCLIP) or 'gelu_pytorch_tanh'",
    "global_pool": "global_pool='token' (CLS) or 'avg'",
}
DINOV3 = {"reg_token", "cls_token"}
SETTINGS = ("num_heads", "act", "mean", "std", "img_size", "global_pool", "eps", "depth")


@dataclass(frozen=True)
class Backbone:
    """A trained model, and what has to go with it.

    Attributes:
        model: a Vision Transformer in evaluation mode.
        mean: of each channel, in 0..1 units, as in its training.
        std: the same of the standard deviation.
        family: which library's weights they are.
        left_out: names in the file that no picture needs (a text tower, a mask token).
        built: how `build_trained` builds such a model: "model" and "options", or "plan" for public weights.
    """

    model: VisionTransformer
    mean: Sequence[float]
    std: Sequence[float]
    family: str = "this course"
    left_out: tuple[str, ...] = ()
    built: dict[str, Any] = field(default_factory=dict)

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
        size, own = tuple(images.shape[-2:]), tuple(self.img_size)
        if images.dtype != torch.uint8:
            raise ValueError(f"pictures are {images.dtype}: give uint8 in 0..255, they are normalised here")
        if size != own:
            sizes = f"pictures are {size[0]}x{size[1]} pixels, these weights read {own[0]}x{own[1]}"
            raise ValueError(f"{sizes}: resize them (`resize_pictures`), or take `at(side)` of the backbone")
        parts = [normalize(part, self.mean, self.std) for part in images.split(batch_size)]
        return torch.cat([self.model.encode(self.model.patch_embed(part)) for part in parts])

    def read(self, tokens: Tensor) -> Tensor:
        """Make one vector of a picture: y of equation 4, (N, D), of tokens (N, T, D)."""
        if isinstance(self.model, PublicViT):
            with torch.no_grad():
                return self.model.read(tokens)
        return pool(tokens, self.model.global_pool, self.model.num_prefix_tokens)

    @torch.no_grad()
    def project(self, tokens: Tensor) -> Tensor:
        """Return what the head makes of them, (N, K): class scores, or CLIP's vectors, to which texts are compared."""
        return self.model.head(self.model.pre_logits(self.read(tokens)))

    def at(self, side: int | tuple[int, int]) -> "Backbone":
        """Return a copy that reads pictures of another size, in more or fewer patches of the same size."""
        return replace(self, model=at_resolution(self.model, side))

    def read_at(self, side: int | Sequence[int] | None) -> "Backbone":
        """Return `at(side)`, or itself if it reads that size already or None is wanted."""
        return self if side is None or as_pair(side) == tuple(self.img_size) else self.at(as_pair(side))

    def built_with_new_head(self) -> dict[str, Any]:
        """Return `built` as it is once the model has a head for another task, at the size that it reads now."""
        if "plan" not in self.built:
            return {**self.built, "options": {**self.built["options"], "representation_size": None}}
        vit = {**self.built["plan"]["vit"], "img_size": self.img_size, "representation_size": None}
        return {"plan": {**self.built["plan"], "vit": vit}}


def load_backbone(path: str | Path, **given: Any) -> Backbone:
    """Build a model around a file of weights, strictly: every weight has its place, and every place its weight.

    What weights do not tell is read from `config.json` and `preprocessor_config.json` beside the file, as Hugging
    Face and timm write them; else it is known of a family that was published in one way alone; else it is asked for.

    Args:
        path: a .safetensors or .pth file, a folder with `model.safetensors`, such as that of a run of this course, or
            one of `trained_names()`.
        given: `num_heads`, `act`, `mean`, `std`, `img_size` (a side or height and width, in pixels), `global_pool`
            ("token" or "avg"), which win over the files; `head=False` leaves out a head; `part` names one of several
            sets of weights in a file. A size other than that of the file's positions changes them (`at_resolution`).

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the weights are of no known family, need parts that are not built here, are missing, left over
            or of another shape, or if something has to be given; the message names the file.
    """
    if is_ours(path):
        return own_backbone(load_trained(path), **given)
    path = Path(path)
    path = path / "model.safetensors" if path.is_dir() else path
    if not path.is_file():
        ours = ", ".join(trained_names())
        raise FileNotFoundError(f"{path} is not a file of weights; of ours there are {ours}")
    content, settings = load_weights(path), read_settings(path.parent, given.get("head", True))
    try:
        return build_backbone(content, settings, **given)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def own_backbone(trained: Trained, img_size: int | Sequence[int] | None = None, **given: Any) -> Backbone:
    """Make a backbone of a trained model of this course, whose file says all that there is to know."""
    if given:
        raise ValueError(f"{', '.join(given)}: the file of a model of this course says that itself")
    if not isinstance(trained.model, VisionTransformer):
        raise ValueError(f"{trained.info['model']} is no Vision Transformer, so it is no backbone")
    built = {name: trained.info[name] for name in ("model", "options", "plan") if name in trained.info}
    found = Backbone(trained.model, trained.info["mean"], trained.info["std"], "this course", (), built)
    return found.read_at(img_size)


def build_backbone(content: Any, config: dict[str, Any] | None = None, **given: Any) -> Backbone:
    """Build a model around weights, as `load_backbone` does.

    Args:
        content: a state dict, or what a program for training has wrapped around one.
        config: what the files beside them say, as `read_settings` returns it.
        given: as for `load_backbone`.

    Raises:
        ValueError: as `load_backbone` does.
    """
    head, wanted = given.pop("head", True), given.get("img_size")
    state_dict, family, beside = unwrap(content, given.pop("part", None))
    if config and "img_size" in config:
        given.pop("img_size", None)  # the file's own size comes first, and is then changed
    settings = (config or {}) | given
    if unknown := settings.keys() - set(SETTINGS):
        known = ", ".join(SETTINGS)
        raise TypeError(f"{', '.join(unknown)} is nothing that can be given: use {known}, head, part")
    refuse_unbuilt(state_dict)
    weights, origins = to_timm(state_dict, family)
    task = re.compile(r"(head|pre_logits|classifier|decoder)\.")
    headless = {name for name in weights if not head and task.match(name)}
    weights = {name: value for name, value in weights.items() if name not in headless}
    plan = plan_model(weights, origins, settings, family)
    mean, std = settings.get("mean") or family.stats[0], settings.get("std") or family.stats[1]
    model = build_planned(plan, len(weights.get("head.weight", [0])))
    fill(model, {re.sub(r"^fc_norm\.", "norm.", name): value for name, value in weights.items()}, origins)
    beside += [name for name in state_dict if re.search(family.unused, name)]
    left_out = *beside, *(origins[name] for name in headless)
    found = Backbone(model.eval(), tuple(mean), tuple(std), family.name, left_out, {"plan": plan})
    return found.read_at(wanted)


def refuse_unbuilt(names: Sequence[str]) -> None:
    """Raise a `ValueError` for weights of parts that are not built here, or that show such parts by their names."""
    for pattern, part in UNBUILT.items():
        if found := [name for name in names if re.search(pattern, name)]:
            raise ValueError(f"{found[0]} needs {part}, which is not built here")
    there = {name for name in names if not name.startswith("blocks.") or name.startswith("blocks.0.")}
    is_dinov3, why = DINOV3 <= there and "pos_embed" not in there, ""
    if "attn_pool.latent" in there and {"norm_pre.weight", "cls_token"} & there:
        why = "attention pooling with CLS or a norm before the blocks is Perception Encoder's"
    elif {"blocks.0.gamma_1", "blocks.0.attn.q_bias"} & there and not is_dinov3:
        why = "gamma_1 and q_bias are names of EVA and BEiT, whose rotations no weight shows"
    elif "fc_norm.weight" in there and not {"blocks.0.attn.qkv.bias", "blocks.0.ls1.gamma"} & there:
        why = "these weights may be of post-norm blocks (timm's rpn models)"
    if why:
        raise ValueError(f"{why}: not built here")


def plan_model(weights: Weights, origins: dict, settings: dict[str, Any], family: Family) -> dict[str, Any]:
    """Say, for `build_planned`, which model the weights are for; every width is read from them.

    Raises:
        ValueError: if something has to be given, or weights and settings do not fit together.
    """
    for name in ("patch_embed.proj.weight", "blocks.0.attn.qkv.weight", "blocks.0.mlp.fc1.weight"):
        if name not in weights:
            raise ValueError(f"{name} is missing ({family.name}): the sizes of the model are read from it")
    if (axes := weights["patch_embed.proj.weight"].ndim) != 4:
        kind = {2: "pictures of any shape (NaFlex)", 5: "videos"}.get(axes, "others")
        raise ValueError(f"{origins['patch_embed.proj.weight']} has {axes} axes: it is for {kind}")
    dim, channels, *patch = weights["patch_embed.proj.weight"].shape
    depth = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blocks."))
    if settings.get("depth", depth) != depth:
        raise ValueError(f"the file holds {depth} blocks, its config says {settings['depth']}")
    require_answers(weights, settings, family, (dim, depth))
    gated, has_cls, has_table = (f in weights for f in ("blocks.0.mlp.gate.weight", "cls_token", "pos_embed"))
    registers = weights["reg_token"].shape[1] if "reg_token" in weights else 0
    tanh, reader = (weights.get(name, ()) for name in ("pre_logits.fc.weight", "attn_pool.mlp.fc1.weight"))
    vit = {
        "img_size": picture_size(weights, patch, settings, has_cls, registers),
        "patch_size": tuple(patch),
        "in_chans": channels,
        "embed_dim": dim,
        "depth": depth,
        "num_heads": settings.get("num_heads") or family.heads[dim, depth],
        "mlp_ratio": (len(weights["blocks.0.mlp.fc1.weight"]) + 0.5) / dim,  # the model rounds the width down
        "pos_embed": "learned" if has_table else "none",
        "class_token": has_cls or registers > 0,
        "global_pool": pooling(weights, settings, has_cls),
        "representation_size": len(tanh) or None,
    }
    modern = {
        "layer_scale": 1.0 if "blocks.0.ls1.gamma" in weights else None,
        "gated_mlp": gated,
        "registers": registers if has_cls else max(0, registers - 1),  # the first takes the place of CLS
        "qkv_bias": "blocks.0.attn.qkv.bias" in weights,
    }
    norms = {"norm_pre": "norm_pre.weight" in weights, "mean_norm": "fc_norm.weight" in weights}
    norms["eps"] = settings.get("eps") or family.eps
    others = {"act": activation(settings, family, gated), "rotated": not has_table, "reader": len(reader)}
    return {"vit": vit, "modern": modern, **norms, **others}


def require_answers(weights: Weights, settings: dict[str, Any], family: Family, size: tuple) -> None:
    """Raise a `ValueError` that lists what the file cannot say and nobody has given."""
    either = {"reg_token", "attn_pool.latent"} <= weights.keys()
    either |= "cls_token" in weights and "fc_norm.weight" not in weights
    known = {
        "num_heads": size in family.heads,
        "img_size": family.heads and "pos_embed" in weights,  # such a family has square pictures
        **{"mean": family.stats, "std": family.stats, "act": family.act},
        "global_pool": "timm" not in family.name or not either,
    }
    if missing := [ask for name, ask in QUESTIONS.items() if not known[name] and settings.get(name) is None]:
        asked = "Put the config.json of the model beside them, or give " + "; ".join(missing)
        raise ValueError(f"{family.name}: the weights do not tell everything. {asked}")


def pooling(weights: Weights, settings: dict[str, Any], has_cls: bool) -> str:
    """Return what the head reads: as the config says, else CLS if there is one."""
    told = settings.get("global_pool") or ("token" if has_cls and "fc_norm.weight" not in weights else "avg")
    if told == "map" and "attn_pool.latent" in weights:
        return "token" if has_cls else "avg"  # not used: the reader reads
    if told not in ("token", "avg") or "attn_pool.latent" in weights and settings.get("global_pool"):
        raise ValueError(f"global_pool {told!r} is not built here for these weights")
    if told == "token" and (not has_cls or "fc_norm.weight" in weights):
        raise ValueError("global_pool is 'token', and these weights read the average of the patches")
    return told


def activation(settings: dict[str, Any], family: Family, gated: bool) -> str:
    """Return the name of the activation of the MLPs; a gate is SiLU, which DINOv2's configs do not say."""
    act = settings.get("act") or family.act
    if gated and act != "silu" and not re.search("DINOv2|timm DINOv3", family.name):
        raise ValueError(f"{family.name}: a gated MLP with {act} is not built here, only with silu")
    act = "gelu" if gated else act
    if act not in ACTIVATIONS:
        known = f"known are {', '.join(ACTIVATIONS)} and gated silu"
        raise ValueError(f"{family.name}: the activation {act} is not built here; {known}")
    return act


def picture_size(
    weights: Weights, patch: Sequence[int], settings: dict[str, Any], has_cls: bool, registers: int
) -> tuple[int, int]:
    """Return height and width of the pictures, as given or else those of a square grid; positions have to fit."""
    if "pos_embed" not in weights:
        return as_pair(settings["img_size"])
    count = weights["pos_embed"].shape[1]
    # Some tables have rows for all prefix tokens, some for CLS alone, and some (`no_embed_class`) for none.
    patches = {count, count - has_cls, count - has_cls - registers}
    if "img_size" not in settings:
        side = next((math.isqrt(n) for n in sorted(patches) if n and math.isqrt(n) ** 2 == n), None)
        if side is None:
            raise ValueError(f"pos_embed has {count} positions, which make no square grid: give img_size")
        return side * patch[0], side * patch[1]
    height, width = as_pair(settings["img_size"])
    rows, columns = height // patch[0], width // patch[1]
    if rows * columns not in patches or height % patch[0] or width % patch[1]:
        grid = f"img_size is {height}x{width}, in patches of {patch[0]}x{patch[1]} that is {rows}x{columns}"
        advice = "give the size of the training, then take `at(side)`"
        raise ValueError(f"{grid}, and pos_embed has {count} positions: {advice}")
    return height, width
