"""Answers to the exercises of lesson 12, written as students write them."""

import torch
from torch import nn

from vit_classroom.checks.edits import edited
from vit_course.extensions.transfer import replace_head
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


def refuse_unknown(model, trainable, whole=True):
    names = [name for name, _ in model.named_parameters()]
    for part in trainable:
        if not any((whole and name == part) or name.startswith(part + ".") for name in names):
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
    refuse_unknown(model, trainable, whole=False)
    return freeze_by_names(model, trainable)


DISSECTED = ("looks for the part anywhere in the name", freeze_part_anywhere)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""


def head_with_its_own_seed(model, num_classes):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return replace_head(model, num_classes)


WRONG = {
    "replace_head": [
        (
            "sets the seed of all random numbers",
            lambda model, num_classes: (torch.manual_seed(0), replace_head(model, num_classes))[1],
        ),
        (
            "AttributeError: 'NoneType' object has no attribute 'shape'",
            edited(replace_head, "model.norm.normalized_shape[0] => model.pos_embed.shape[-1]"),
        ),
    ],
    "freeze": [
        (
            "the default of `trainable` should be ('head',)",
            lambda model, trainable=(): freeze_by_names(model, trainable),
        ),
        ("with ('pos_drop.pos_embed', 'cls_token'): your code stopped with", freeze_part_is_no_parameter),
        (
            "with trainable=(): head.bias still learns: it belongs to no named part",
            lambda model, trainable=("head",): freeze_by_names(model, tuple(trainable) or ("head",)),
        ),
    ],
}
RIGHT = {
    "replace_head": [head_step_by_step, head_with_init_head, head_with_its_own_seed],
    "freeze": [freeze_by_names, freeze_all_then_thaw],
}
