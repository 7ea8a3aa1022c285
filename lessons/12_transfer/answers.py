"""Answers to the exercises of lesson 12, written as students write them."""

import re

import torch
from torch import nn

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


def freeze_part_anywhere(model, trainable=("head",)):
    named = dict(model.named_parameters())
    for part in trainable:
        if not any(part in name for name in named):
            raise ValueError(f"no parameter belongs to {part}")
    for name, p in named.items():
        if not any(part in name for part in trainable):
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


def belongs(name, part):
    return name == part or name.startswith(part + ".")


def check_parts(model, trainable):
    for part in trainable:
        if not any(belongs(name, part) for name, _ in model.named_parameters()):
            raise ValueError(part)


def freeze_empty_is_default(model, trainable=("head",)):
    trainable = tuple(trainable) or ("head",)
    check_parts(model, trainable)
    for name, parameter in model.named_parameters():
        if not any(belongs(name, part) for part in trainable):
            parameter.requires_grad = False
    return model


DISSECTED = (
    "looks for the part anywhere in the name",
    freeze_part_anywhere,
)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "replace_head": [("AttributeError: 'NoneType' object has no attribute 'shape'", head_width_of_positions)],
    "freeze": [
        ("the default of `trainable` should be ('head',)", freeze_default_empty),
        ("with ('pos_drop.pos_embed', 'cls_token'): your code stopped with", freeze_part_is_no_parameter),
        ("with trainable=(): head.bias still learns: it belongs to no named part", freeze_empty_is_default),
    ],
}
RIGHT = {
    "replace_head": [
        head_step_by_step,
        head_with_init_head,
        head_of_new_tensors,
        head_load_zeros,
        head_new_parameters,
    ],
    "freeze": [
        freeze_by_names,
        freeze_all_then_thaw,
        freeze_by_pieces,
        freeze_by_pattern,
        freeze_by_identity,
    ],
}
