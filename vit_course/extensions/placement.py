"""Weights into a model: each gets the place that it has in our model with its parts, or all are refused with a reason.

Weights come with timm's names, as `weights.to_timm` gives them; `backbone` builds the model and calls `fill`.
"""

import re

import torch
import torch.nn.functional as F
from torch import nn

from vit_course.extensions.modern import LayerScale, PreparedProjection
from vit_course.extensions.weights import Weights
from vit_course.vit import VisionTransformer


def fill(model: VisionTransformer, weights: Weights, origins: dict[str, str]) -> None:
    """Put weights into a model, or refuse them all: strictly, with the file's own names in the message."""
    own = place(model, weights, origins)
    if "head.weight" not in own:  # a backbone without a head: its vector is what comes out
        model.head = nn.Identity()
    wanted = model.state_dict()
    for name in ("patch_embed.proj.bias", "head.bias"):  # a bias of zero is none
        if name in wanted and name not in own and name.replace("bias", "weight") in own:
            own[name] = torch.zeros_like(wanted[name])
    faults = [f"{file_name(name, own, origins)} is missing" for name in wanted if name not in own]
    faults += [f"{origins.get(name, name)} has no place in the model" for name in own if name not in wanted]
    for name in [name for name in own if name in wanted and wanted[name].shape != own[name].shape]:
        sizes = f"{tuple(own[name].shape)}, the model's is {tuple(wanted[name].shape)}"
        faults.append(f"{file_name(name, own, origins)} is {sizes}")
    if faults:
        more = f" and {len(faults) - 4} more" if len(faults) > 4 else ""
        raise ValueError(f"the weights do not fit: {'; '.join(faults[:4])}{more}")
    model.load_state_dict(own)


def place(model: VisionTransformer, weights: Weights, origins: dict[str, str]) -> Weights:
    """Return weights under the names that they have in our model with its parts; `origins` gets these names too."""
    own = dict(weights)
    scaled = isinstance(model.blocks[0].attn.proj, LayerScale)
    turned = isinstance(model.blocks[0].attn.qkv, PreparedProjection)
    moves = {r"^norm_pre\.": "pos_drop."}
    moves |= {r"\.ls1\.gamma$": ".attn.proj.gamma", r"\.ls2\.gamma$": ".mlp.fc2.gamma"} if scaled else {}
    moves |= {r"\.(attn\.proj|mlp\.fc2)\.(weight|bias)$": r".\1.part.\2"} if scaled else {}
    moves |= {r"\.attn\.qkv\.(weight|bias)$": r".attn.qkv.part.\1"} if turned else {}
    for pattern, new in moves.items():
        for name in [name for name in own if re.search(pattern, name) and not name.startswith("attn_pool.")]:
            moved = re.sub(pattern, new, name)
            own[moved], origins[moved] = own.pop(name), origins.get(name, name)
    registers, prefix = own.pop("reg_token", None), model.num_prefix_tokens
    if registers is not None:  # the first prefix tokens, if there is no CLS
        own["cls_token"] = torch.cat([*([own["cls_token"]] if "cls_token" in own else []), registers], dim=1)
        origins.setdefault("cls_token", origins["reg_token"])
    if "pos_embed" in own and model.pos_embed is not None:
        table, missing = own["pos_embed"], model.pos_embed.shape[1] - own["pos_embed"].shape[1]
        if 0 < missing <= prefix:  # registers, and in some files CLS, have no row: theirs is zero
            rows = table.new_zeros(1, missing, table.shape[-1])
            start = prefix - missing
            own["pos_embed"] = torch.cat([table[:, :start], rows, table[:, start:]], dim=1)
    if "attn_pool.latent" in own:
        place_reader(own, origins, model.blocks[0].attn.num_heads)
    return own


def place_reader(own: Weights, origins: dict[str, str], num_heads: int) -> None:
    """Turn SigLIP's learned token and its projection, which are the same for all, into a query a head, in place."""
    for kind in ("weight", "bias"):
        if joined := f"attn_pool.qkv.{kind}" if f"attn_pool.qkv.{kind}" in own else "":
            q, kv = own[joined].tensor_split([len(own[joined]) // 3])
            own[f"attn_pool.q.{kind}"], own[f"attn_pool.kv.{kind}"] = q, kv
            origins |= {f"attn_pool.{part}.{kind}": origins[joined] for part in ("q", "kv")}
            del own[joined]
    if {"attn_pool.q.weight", "attn_pool.q.bias"} <= own.keys():
        latent, weight, bias = (own.pop(f"attn_pool.{n}") for n in ("latent", "q.weight", "q.bias"))
        query = F.linear(latent.flatten(0, 1), weight, bias)  # (1, D)
        own["reader.pool.query"] = query.reshape(num_heads, -1)
        origins["reader.pool.query"] = origins["attn_pool.latent"]
    for name in [n for n in own if n.startswith("attn_pool.")]:
        part = name.removeprefix("attn_pool.")
        moved = f"reader.pool.{part}" if part.startswith(("kv.", "proj.")) else f"reader.{part}"
        own[moved], origins[moved] = own.pop(name), origins[name]


def file_name(name: str, own: Weights, origins: dict[str, str]) -> str:
    """Return how a weight is, or would be, called in the file: as its like in another block is."""
    if name in origins and name in own:
        return origins[name]
    block = re.match(r"blocks\.(\d+)\.(.*)", name)
    for other in own if block else ():
        like = re.fullmatch(rf"blocks\.(\d+)\.{re.escape(block[2])}", other)
        if like and other in origins:
            return re.sub(rf"(^|[._]){like[1]}\.", rf"\g<1>{block[1]}.", origins[other], count=1)
    return name
