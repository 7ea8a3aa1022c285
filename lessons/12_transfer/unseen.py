"""Answers to the exercises of lesson 12, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

import copy
import math
import re

import torch
from torch import nn

from vit_course.beyond.positions import LearnedPosition2d, RelativePosition
from vit_course.beyond.transfer import position_tables, resized_positions
from vit_course.embeddings import resample_pos_embed
from vit_course.patches import PatchEmbed, as_pair, count_patches, grid_size
from vit_course.vit import VisionTransformer, init_head


def head_of_a_copy(model, num_classes):
    if num_classes < 1:
        raise ValueError("a head needs a class")
    model = copy.deepcopy(model)
    head = nn.Linear(model.norm.normalized_shape[0], num_classes).to(model.head.weight)
    model.pre_logits = nn.Identity()
    model.head = init_head(head)
    return model


def head_plain_dtype(model, num_classes):
    if num_classes < 1:
        raise ValueError("a head needs a class")
    model.pre_logits = nn.Identity()
    model.head = init_head(nn.Linear(model.norm.normalized_shape[0], num_classes))
    return model


def head_without_bias(model, num_classes):
    if num_classes < 1:
        raise ValueError("a head needs a class")
    head = nn.Linear(model.norm.normalized_shape[0], num_classes, bias=False).to(model.head.weight)
    nn.init.zeros_(head.weight)
    model.pre_logits = nn.Identity()
    model.head = head
    return model


def head_resets_norm(model, num_classes):
    if num_classes < 1:
        raise ValueError("a head needs a class")
    head = nn.Linear(model.norm.normalized_shape[0], num_classes).to(model.head.weight)
    model.norm.reset_parameters()
    model.pre_logits = nn.Identity()
    model.head = init_head(head)
    return model


def head_switches_mode(model, num_classes):
    if num_classes < 1:
        raise ValueError("a head needs a class")
    head = nn.Linear(model.norm.normalized_shape[0], num_classes).to(model.head.weight)
    model.pre_logits = nn.Identity()
    model.head = init_head(head)
    return model.train(not model.training)


def head_by_parameters(model: VisionTransformer, num_classes: int) -> VisionTransformer:
    if not num_classes >= 1:
        raise ValueError(f"{num_classes} classes: at least one is needed")
    (width,) = model.norm.normalized_shape
    like = model.head.weight
    model.head = nn.Linear(width, num_classes, device=like.device, dtype=like.dtype)
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.zero_()
    model.pre_logits = nn.Identity()
    return model


def head_new_parameters(model, num_classes):
    if num_classes <= 0:
        raise ValueError("num_classes should be 1 or more")
    width = model.norm.weight.numel() if model.norm.weight is not None else model.norm.normalized_shape[-1]
    old = model.head
    fresh = nn.Linear(width, num_classes)
    fresh.weight = nn.Parameter(old.weight.new_zeros(num_classes, width))
    fresh.bias = nn.Parameter(old.weight.new_zeros(num_classes))
    model.head, model.pre_logits = fresh, nn.Identity()
    return model


def head_load_zeros(model, num_classes):
    if num_classes < 1:
        raise ValueError(f"no head for {num_classes} classes")
    reference = next(model.head.parameters())
    head = nn.Linear(model.norm.normalized_shape[0], num_classes).to(reference.device, reference.dtype)
    head.load_state_dict({name: torch.zeros_like(value) for name, value in head.state_dict().items()})
    for name, part in (("pre_logits", nn.Identity()), ("head", head)):
        setattr(model, name, part)
    return model


def head_skip_init(model, num_classes):
    if num_classes < 1:
        raise ValueError("num_classes is too small")
    where = {"device": model.head.weight.device, "dtype": model.head.weight.dtype}
    head = nn.utils.skip_init(nn.Linear, math.prod(model.norm.normalized_shape), num_classes, **where)
    nn.init.constant_(head.weight, 0.0)
    nn.init.constant_(head.bias, 0.0)
    model.add_module("head", head)
    model.add_module("pre_logits", nn.Identity())
    return model


def freeze_no_error(model, trainable=("head",)):
    for name, p in model.named_parameters():
        if not any(f"{name}.".startswith(f"{part}.") for part in trainable):
            p.requires_grad_(False)
    return model


def freeze_error_too_late(model, trainable=("head",)):
    found = set()
    for name, p in model.named_parameters():
        parts = [part for part in trainable if f"{name}.".startswith(f"{part}.")]
        found.update(parts)
        if not parts:
            p.requires_grad = False
    if found != set(trainable):
        raise ValueError(f"no parameter belongs to {set(trainable) - found}")
    return model


def freeze_part_anywhere(model, trainable=("head",)):
    named = dict(model.named_parameters())
    for part in trainable:
        if not any(part in name for name in named):
            raise ValueError(f"no parameter belongs to {part}")
    for name, p in named.items():
        if not any(part in name for part in trainable):
            p.requires_grad = False
    return model


def freeze_named_parts(model, trainable=("head",)):
    named = dict(model.named_parameters())
    for part in trainable:
        if not any(f"{name}.".startswith(f"{part}.") for name in named):
            raise ValueError(f"no parameter belongs to {part}")
    for name, p in named.items():
        if any(f"{name}.".startswith(f"{part}.") for part in trainable):
            p.requires_grad = False
    return model


def freeze_part_is_no_parameter(model, trainable=("head",)):
    named = dict(model.named_parameters())
    for part in trainable:
        if not any(name.startswith(f"{part}.") for name in named):
            raise ValueError(f"no parameter belongs to {part}")
    for name, p in named.items():
        if not any(name.startswith(f"{part}.") for part in trainable):
            p.requires_grad = False
    return model


def freeze_two_mistakes(model, trainable=("head",)):
    for part in trainable:
        if not any(part in name for name, _ in model.named_parameters()):
            raise ValueError(f"no parameter belongs to {part}")
    for name, p in model.named_parameters():
        p.requires_grad = any(part in name for part in trainable)
    return model


def freeze_by_prefixes(model: nn.Module, trainable=("head",)) -> nn.Module:
    def parts_of(name):
        pieces = name.split(".")
        return {".".join(pieces[: i + 1]) for i in range(len(pieces))}

    table = {name: parts_of(name) for name, _ in model.named_parameters()}
    known = set().union(*table.values())
    if unknown := [part for part in trainable if part not in known]:
        raise ValueError(f"the model has no parameter in {unknown}")
    for name, parameter in model.named_parameters():
        if table[name].isdisjoint(trainable):
            parameter.requires_grad_(False)
    return model


def freeze_by_pattern(model, trainable=("head",)):
    patterns = [re.compile(rf"{re.escape(part)}(\.|$)") for part in trainable]
    named = list(model.named_parameters())
    for pattern, part in zip(patterns, trainable, strict=True):
        if all(pattern.match(name) is None for name, _ in named):
            raise ValueError(f"{part!r} has no parameter")
    for _, p in filter(lambda pair: not any(r.match(pair[0]) for r in patterns), named):
        p.requires_grad = False
    return model


def freeze_by_identity(model, trainable=("head",)):
    kept = set()
    for part in trainable:
        mine = {id(p) for name, p in model.named_parameters() if name == part or name.startswith(part + ".")}
        if not mine:
            raise ValueError(f"nothing to learn in {part}")
        kept |= mine
    for p in model.parameters():
        if id(p) not in kept:
            p.requires_grad = False
    return model


def freeze_two_lists(model, trainable=("head",)):
    free, fixed, seen = [], [], dict.fromkeys(trainable, 0)
    for name, p in model.named_parameters():
        owners = [
            part for part in trainable if name[: len(part)] == part and name[len(part) :][:1] in ("", ".")
        ]
        for part in owners:
            seen[part] += 1
        (free if owners else fixed).append(p)
    if not all(seen.values()):
        raise ValueError(f"parameters found: {seen}")
    for p in fixed:
        p.requires_grad = False
    return model


def _test_resolution(model, img_size):
    new = grid_size(img_size, model.patch_embed.patch_size)
    if any(isinstance(m, LearnedPosition2d | RelativePosition) for m in model.modules()):
        raise ValueError("these positions cannot be resized")
    return model.patch_embed.grid_size, new


def _update_sizes(model, img_size, new):
    model.patch_embed.img_size = as_pair(img_size)
    model.patch_embed.grid_size = new
    model.patch_embed.num_patches = new[0] * new[1]
    return model


def resolution_new_parameter(model, img_size):
    old, new = _test_resolution(model, img_size)
    if model.pos_embed is not None:
        table = resized_positions(model.pos_embed.data, old, new, model.num_prefix_tokens)
        model.pos_embed = nn.Parameter(table)
    return _update_sizes(model, img_size, new)


def resolution_count_forgotten(model, img_size):
    old, new = _test_resolution(model, img_size)
    for table in position_tables(model):
        table.data = resized_positions(table.data, old, new, model.num_prefix_tokens)
    model.patch_embed.img_size = as_pair(img_size)
    model.patch_embed.grid_size = new
    return model


def resolution_of_a_copy(model, img_size):
    old, new = _test_resolution(model, img_size)
    model = copy.deepcopy(model)
    for table in position_tables(model):
        table.data = resized_positions(table.data, old, new, model.num_prefix_tokens)
    return _update_sizes(model, img_size, new)


def resolution_square_grids(model, img_size):
    _, new = _test_resolution(model, img_size)
    for table in position_tables(model):
        side = math.isqrt(table.shape[1] - model.num_prefix_tokens)
        table.data = resized_positions(table.data, (side, side), new, model.num_prefix_tokens)
    return _update_sizes(model, img_size, new)


def resolution_formula_overlooked(model, img_size):
    old, new = _test_resolution(model, img_size)
    for table in position_tables(model):
        table.data = resample_pos_embed(table.data, old, new, model.num_prefix_tokens)
    return _update_sizes(model, img_size, new)


def resolution_set_data(model: VisionTransformer, img_size: int | tuple[int, int]) -> VisionTransformer:
    embed = model.patch_embed
    wanted = {"img_size": as_pair(img_size), "grid_size": grid_size(img_size, embed.patch_size)}
    wanted["num_patches"] = count_patches(img_size, embed.patch_size)
    for module in model.modules():
        if isinstance(module, LearnedPosition2d) or isinstance(module, RelativePosition):
            raise ValueError(f"{type(module).__name__} has no table to interpolate")
    with torch.no_grad():
        for table in position_tables(model):
            prefix = model.num_prefix_tokens
            table.set_(resized_positions(table.detach(), embed.grid_size, wanted["grid_size"], prefix))
    for name, value in wanted.items():
        setattr(embed, name, value)
    return model


def resolution_tables_first(model, img_size):
    height, width = as_pair(img_size)
    p1, p2 = as_pair(model.patch_embed.patch_size)
    if height < p1 or width < p2 or height % p1 or width % p2:
        raise ValueError(f"patches of {p1}x{p2} do not fill {height}x{width}")
    kinds = {type(module) for module in model.modules()}
    if kinds & {LearnedPosition2d, RelativePosition}:
        raise ValueError("2-D and relative positions have no table")
    old, new = tuple(model.patch_embed.grid_size), (height // p1, width // p2)
    tables = position_tables(model)
    fresh = [resized_positions(table.data, old, new, model.num_prefix_tokens) for table in tables]
    for table, numbers in zip(tables, fresh, strict=True):
        table.data = numbers
    model.patch_embed.__dict__.update(img_size=(height, width), grid_size=new, num_patches=math.prod(new))
    return model


def resolution_by_identity(model, img_size):
    grid = grid_size(img_size, model.patch_embed.patch_size)
    refused = (LearnedPosition2d, RelativePosition)
    if sum(isinstance(module, refused) for module in model.modules()):
        raise ValueError("only tables can be brought to another grid")
    tables = {id(p): p for name, p in model.named_parameters() if name.rpartition(".")[2] == "pos_embed"}
    for p in tables.values():
        p.data = resized_positions(p.data, model.patch_embed.grid_size, grid, model.num_prefix_tokens)
    patch_embed = model.patch_embed
    patch_embed.grid_size, patch_embed.num_patches = grid, grid[0] * grid[1]
    patch_embed.img_size = (grid[0] * patch_embed.patch_size[0], grid[1] * patch_embed.patch_size[1])
    return model


def resolution_from_a_twin(model, img_size):
    # A new patch embedding of the right size knows the three numbers, and raises the error.
    conv = model.patch_embed.proj
    twin = PatchEmbed(img_size, model.patch_embed.patch_size, conv.in_channels, 1)
    if next((m for m in model.modules() if isinstance(m, RelativePosition | LearnedPosition2d)), None):
        raise ValueError("positions without a table cannot change their grid")
    before = model.patch_embed.grid_size
    for table in reversed(position_tables(model)):
        table.data = resized_positions(table.data, before, twin.grid_size, model.num_prefix_tokens)
    for name in ("img_size", "grid_size", "num_patches"):
        setattr(model.patch_embed, name, getattr(twin, name))
    return model


def zero_head(model, num_classes, dim=None):
    head = nn.Linear(dim or model.norm.normalized_shape[0], num_classes).to(model.head.weight)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def need_a_class(num_classes, least=1):
    if num_classes < least:
        raise ValueError(f"{num_classes} classes")


def replace_head_weight_only(model, num_classes):
    need_a_class(num_classes)
    head = nn.Linear(model.norm.normalized_shape[0], num_classes).to(model.head.weight)
    nn.init.zeros_(head.weight)
    model.pre_logits, model.head = nn.Identity(), head
    return model


def replace_head_probe(model, num_classes):
    need_a_class(num_classes)
    model.requires_grad_(False)
    model.pre_logits, model.head = nn.Identity(), zero_head(model, num_classes)
    return model


def replace_head_keeps_hidden(model, num_classes):
    need_a_class(num_classes)
    model.head = zero_head(model, num_classes, model.head.in_features)
    return model


def belongs(name, part):
    return name == part or name.startswith(part + ".")


def check_parts(model, trainable):
    for part in trainable:
        if not any(belongs(name, part) for name, _ in model.named_parameters()):
            raise ValueError(part)


def freeze_children_only(model, trainable=("head",)):
    check_parts(model, trainable)
    for name, child in model.named_children():
        for inner, parameter in child.named_parameters(prefix=name):
            if not any(belongs(inner, part) for part in trainable):
                parameter.requires_grad = False
    return model


def freeze_empty_is_default(model, trainable=("head",)):
    trainable = tuple(trainable) or ("head",)
    check_parts(model, trainable)
    for name, parameter in model.named_parameters():
        if not any(belongs(name, part) for part in trainable):
            parameter.requires_grad = False
    return model


def freeze_flags_modules(model, trainable=("head",)):
    check_parts(model, trainable)
    for name, module in model.named_modules():
        if name and not any(belongs(name, part) or belongs(part, name) for part in trainable):
            module.requires_grad = False
            module.eval()
    return model


def refuse_other_positions(model):
    if any(isinstance(m, LearnedPosition2d | RelativePosition) for m in model.modules()):
        raise ValueError("no table")


def new_sizes(model, img_size, grid):
    embed = model.patch_embed
    embed.img_size, embed.grid_size, embed.num_patches = as_pair(img_size), grid, grid[0] * grid[1]
    return model


def change_resolution_stem_only(model, img_size):
    old, new = model.patch_embed.grid_size, grid_size(img_size, model.patch_embed.patch_size)
    refuse_other_positions(model)
    if model.pos_embed is not None:
        table = model.pos_embed
        table.data = resized_positions(table.data, old, new, model.num_prefix_tokens)
    return new_sizes(model, img_size, new)


def change_resolution_counts_cls(model, img_size):
    old, new = model.patch_embed.grid_size, grid_size(img_size, model.patch_embed.patch_size)
    refuse_other_positions(model)
    new_sizes(model, img_size, new)
    for table in position_tables(model):
        table.data = resized_positions(table.data, old, new, model.num_prefix_tokens)
        model.patch_embed.num_patches = table.shape[1]
    return model


def change_resolution_same_number(model, img_size):
    old, new = model.patch_embed.grid_size, grid_size(img_size, model.patch_embed.patch_size)
    refuse_other_positions(model)
    if new[0] * new[1] == model.patch_embed.num_patches:
        return model
    for table in position_tables(model):
        table.data = resized_positions(table.data, old, new, model.num_prefix_tokens)
    return new_sizes(model, img_size, new)


UNSEEN = {
    "replace_head": [
        ("changes a copy and not the model itself", head_of_a_copy),
        ("the new head is float32 whatever the old one was", head_plain_dtype),
        ("the new head has no bias", head_without_bias),
        ("resets the final norm as well", head_resets_norm),
        ("switches between training and evaluation mode", head_switches_mode),
        ("only the weight is zero, the bias keeps PyTorch's random start", replace_head_weight_only),
        ("the whole body is frozen as well, although only the head should change", replace_head_probe),
        (
            "the hidden tanh layer of pre-training stays, and the new head reads its output",
            replace_head_keeps_hidden,
        ),
    ],
    "freeze": [
        ("looks for the part anywhere in the name", freeze_part_anywhere),
        ("a part without parameters raises no ValueError", freeze_no_error),
        ("raises the ValueError after it has frozen", freeze_error_too_late),
        ("freezes the named parts and not the others", freeze_named_parts),
        ("does not find a part that is itself a parameter", freeze_part_is_no_parameter),
        ("two mistakes: looks anywhere in the name, and lets frozen ones learn", freeze_two_mistakes),
        (
            "requires_grad = False and eval() are set on modules, which freezes no parameter",
            freeze_flags_modules,
        ),
        ("an empty tuple is replaced by the default, so the head goes on learning", freeze_empty_is_default),
        (
            "only the child modules are visited, so the CLS token and the positions of the model "
            "itself stay free",
            freeze_children_only,
        ),
    ],
    "change_resolution": [
        ("makes a new parameter for the positions", resolution_new_parameter),
        ("forgets num_patches", resolution_count_forgotten),
        ("changes a copy and not the model itself", resolution_of_a_copy),
        ("takes the old grid for a square", resolution_square_grids),
        ("interpolates sine and cosine positions too", resolution_formula_overlooked),
        (
            "nothing is done where the number of patches stays, although 2x8 patches may become 4x4",
            change_resolution_same_number,
        ),
        (
            "only the table of the stem is resized, those in front of later blocks keep the old "
            "number of tokens",
            change_resolution_stem_only,
        ),
        (
            "num_patches is read off the table, so the CLS token is counted as a patch",
            change_resolution_counts_cls,
        ),
    ],
}
STYLES = {
    "replace_head": [head_by_parameters, head_new_parameters, head_load_zeros, head_skip_init],
    "freeze": [freeze_by_prefixes, freeze_by_pattern, freeze_by_identity, freeze_two_lists],
    "change_resolution": [
        resolution_set_data,
        resolution_tables_first,
        resolution_by_identity,
        resolution_from_a_twin,
    ],
}
