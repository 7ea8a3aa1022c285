"""Answers to the exercises of lesson 12, written as students write them."""

import torch
from torch import nn

from vit_course.beyond.positions import LearnedPosition2d, RelativePosition
from vit_course.beyond.transfer import position_tables, resized_positions
from vit_course.vit import init_head


def refuse_no_class(num_classes):
    if num_classes < 1:
        raise ValueError(f"num_classes {num_classes}")


def head_step_by_step(model, num_classes):
    refuse_no_class(num_classes)
    model.pre_logits = nn.Identity()
    model.head = nn.Linear(model.norm.weight.numel(), num_classes).to(model.head.weight)
    for parameter in model.head.parameters():
        nn.init.zeros_(parameter)
    return model


def head_with_init_head(model, num_classes):
    refuse_no_class(num_classes)
    old = model.head.weight
    width = model.norm.weight.shape[0]
    model.head = init_head(nn.Linear(width, num_classes, device=old.device, dtype=old.dtype))
    model.pre_logits = nn.Sequential()
    return model


def head_of_new_tensors(model, num_classes):
    refuse_no_class(num_classes)
    width = model.cls_token.shape[-1] if model.cls_token is not None else model.patch_embed.proj.out_channels
    head = nn.Linear(width, num_classes)
    head.weight = nn.Parameter(model.head.weight.new_zeros(num_classes, width))
    head.bias = nn.Parameter(model.head.bias.new_zeros(num_classes))
    model.head, model.pre_logits = head, nn.Identity()
    return model


def head_width_of_positions(model, num_classes):
    refuse_no_class(num_classes)
    model.head = init_head(nn.Linear(model.pos_embed.shape[-1], num_classes).to(model.head.weight))
    model.pre_logits = nn.Identity()
    return model


def refuse_unknown(model, trainable):
    names = [name for name, _ in model.named_parameters()]
    for part in trainable:
        if not any(name == part or name.startswith(part + ".") for name in names):
            raise ValueError(f"no part {part}")


def freeze_by_names(model, trainable=("head",)):
    refuse_unknown(model, trainable)
    for name, parameter in model.named_parameters():
        if not any(name == part or name.startswith(part + ".") for part in trainable):
            parameter.requires_grad = False
    return model


def freeze_all_then_thaw(model, trainable=("head",)):
    refuse_unknown(model, trainable)
    free = [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and any(f"{name}.".startswith(f"{part}.") for part in trainable)
    ]
    model.requires_grad_(False)
    for parameter in free:
        parameter.requires_grad_(True)
    return model


def freeze_by_pieces(model, trainable=("head",)):
    parts = [part.split(".") for part in trainable]
    named = {name: name.split(".") for name, _ in model.named_parameters()}
    for part in parts:
        if all(pieces[: len(part)] != part for pieces in named.values()):
            raise ValueError(".".join(part))
    for name, pieces in named.items():
        if all(pieces[: len(part)] != part for part in parts):
            model.get_parameter(name).requires_grad_(False)
    return model


def freeze_default_empty(model, trainable=()):
    return freeze_by_names(model, trainable)


def resolution_with(model, img_size, change):
    old, patch = model.patch_embed.grid_size, model.patch_embed.patch_size
    size = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
    if size[0] % patch[0] or size[1] % patch[1]:
        raise ValueError(f"{size} is not divisible by {patch}")
    if any(isinstance(m, LearnedPosition2d | RelativePosition) for m in model.modules()):
        raise ValueError("no table")
    new = size[0] // patch[0], size[1] // patch[1]
    change(model, old, new)
    model.patch_embed.img_size, model.patch_embed.grid_size = size, new
    model.patch_embed.num_patches = new[0] * new[1]
    return model


def resolution_by_data(model, img_size):
    def change(model, old, new):
        for name, table in model.named_parameters():
            if name.endswith("pos_embed"):
                table.data = resized_positions(table.detach(), old, new, model.num_prefix_tokens)

    return resolution_with(model, img_size, change)


def resolution_under_no_grad(model, img_size):
    def change(model, old, new):
        with torch.no_grad():
            for table in position_tables(model):
                table.set_(resized_positions(table, old, new, model.num_prefix_tokens))

    return resolution_with(model, img_size, change)


def resolution_stem_parameter(model, img_size):
    def change(model, old, new):
        if model.pos_embed is not None:
            table = resized_positions(model.pos_embed.detach(), old, new, model.num_prefix_tokens)
            model.pos_embed = nn.Parameter(table, requires_grad=model.pos_embed.requires_grad)

    return resolution_with(model, img_size, change)


WRONG = {
    "replace_head": [("AttributeError: 'NoneType' object has no attribute 'shape'", head_width_of_positions)],
    "freeze": [("the default of `trainable` should be ('head',)", freeze_default_empty)],
    "change_resolution": [("blocks.1.pos_embed is not brought to the new grid", resolution_stem_parameter)],
}
RIGHT = {
    "replace_head": [head_step_by_step, head_with_init_head, head_of_new_tensors],
    "freeze": [freeze_by_names, freeze_all_then_thaw, freeze_by_pieces],
    "change_resolution": [resolution_by_data, resolution_under_no_grad],
}
