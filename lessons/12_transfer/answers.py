"""Answers to the exercises of lesson 12, written as students write them."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

from vit_course.beyond.positions import LearnedPosition2d, RelativePosition
from vit_course.beyond.transfer import position_tables, resized_positions
from vit_course.embeddings import resample_pos_embed
from vit_course.vit import init_head


def refuse_no_class(num_classes):
    if num_classes < 1:
        raise ValueError(f"num_classes {num_classes}")


def head_with(model, num_classes, start=nn.init.zeros_, **options):
    refuse_no_class(num_classes)
    model.pre_logits = nn.Identity()
    model.head = nn.Linear(model.norm.weight.numel(), num_classes, **options).to(model.head.weight)
    for parameter in model.head.parameters():
        start(parameter)
    return model


def head_random(model, num_classes):
    refuse_no_class(num_classes)
    model.pre_logits = nn.Identity()
    model.head = nn.Linear(model.norm.weight.numel(), num_classes).to(model.head.weight)
    return model


def head_random_bias(model, num_classes):
    refuse_no_class(num_classes)
    model.pre_logits = nn.Identity()
    model.head = nn.Linear(model.norm.weight.numel(), num_classes).to(model.head.weight)
    nn.init.zeros_(model.head.weight)
    return model


def head_without_bias(model, num_classes):
    return head_with(model, num_classes, bias=False)


def head_only_reset(model, num_classes):
    refuse_no_class(num_classes)
    model.pre_logits = nn.Identity()
    init_head(model.head)
    return model


def head_keeps_tanh(model, num_classes):
    refuse_no_class(num_classes)
    model.head = init_head(nn.Linear(model.head.in_features, num_classes).to(model.head.weight))
    return model


def head_width_of_old_head(model, num_classes):
    refuse_no_class(num_classes)
    model.head = init_head(nn.Linear(model.head.in_features, num_classes).to(model.head.weight))
    model.pre_logits = nn.Identity()
    return model


def head_returns_head(model, num_classes):
    return head_with(model, num_classes).head


def head_returns_nothing(model, num_classes):
    head_with(model, num_classes)


def head_of_a_copy(model, num_classes):
    return head_with(copy.deepcopy(model), num_classes)


def head_frozen(model, num_classes):
    head_with(model, num_classes).head.requires_grad_(False)
    return model


def head_on_the_cpu(model, num_classes):
    refuse_no_class(num_classes)
    model.pre_logits = nn.Identity()
    model.head = init_head(nn.Linear(model.norm.weight.numel(), num_classes))
    return model


def head_resets_norm(model, num_classes):
    head_with(model, num_classes)
    model.norm = nn.LayerNorm(model.norm.normalized_shape, eps=1e-6)
    return model


def head_takes_no_class(model, num_classes):
    dim = model.norm.weight.numel()
    model.pre_logits = nn.Identity()
    model.head = init_head(nn.Linear(dim, num_classes).to(model.head.weight))
    return model


def head_in_a_sequence(model, num_classes):
    head_with(model, num_classes)
    model.head = nn.Sequential(model.head)
    return model


def head_with_init_head(model, num_classes):
    refuse_no_class(num_classes)
    old = model.head.weight
    width = model.norm.weight.shape[0]
    model.head = init_head(nn.Linear(width, num_classes, device=old.device, dtype=old.dtype))
    model.pre_logits = nn.Sequential()
    return model


def head_of_new_tensors(model, num_classes):
    if num_classes < 1:
        raise ValueError("a head needs a class")
    width = model.cls_token.shape[-1] if model.cls_token is not None else model.patch_embed.proj.out_channels
    head = nn.Linear(width, num_classes)
    head.weight = nn.Parameter(model.head.weight.new_zeros(num_classes, width))
    head.bias = nn.Parameter(model.head.bias.new_zeros(num_classes))
    model.head, model.pre_logits = head, nn.Identity()
    return model


def head_of_two_classes_and_more(model, num_classes):
    refuse_no_class(num_classes - 1)
    return head_with(model, num_classes)


def head_refuses_zero_alone(model, num_classes):
    if num_classes == 0:
        raise ValueError("no class")
    return head_with(model, abs(num_classes))


def head_without_pre_logits(model, num_classes):
    head_with(model, num_classes).pre_logits = None
    return model


def head_and_frozen_body(model, num_classes):
    head_with(model, num_classes).requires_grad_(False)
    model.head.requires_grad_(True)
    return model


def head_in_eval_mode(model, num_classes):
    return head_with(model, num_classes).eval()


def head_bias_float32(model, num_classes):
    head_with(model, num_classes).head.bias = nn.Parameter(torch.zeros(num_classes))
    return model


def head_model_float32(model, num_classes):
    return head_with(model, num_classes).float()


def head_width_of_positions(model, num_classes):
    refuse_no_class(num_classes)
    model.head = init_head(nn.Linear(model.pos_embed.shape[-1], num_classes).to(model.head.weight))
    model.pre_logits = nn.Identity()
    return model


def known_parts(model, trainable):
    names = [name for name, _ in model.named_parameters()]
    for part in trainable:
        if not any(name == part or name.startswith(part + ".") for name in names):
            raise ValueError(f"no part {part}")


def freeze_by(belongs):
    def freeze(model, trainable=("head",)):
        known_parts(model, trainable)
        for name, parameter in model.named_parameters():
            if not belongs(name, tuple(trainable)):
                parameter.requires_grad = False
        return model

    return freeze


def in_part(name, parts):
    return any(name == part or name.startswith(part + ".") for part in parts)


def freeze_inverted(model, trainable=("head",)):
    known_parts(model, trainable)
    for name, parameter in model.named_parameters():
        if in_part(name, trainable):
            parameter.requires_grad = False
    return model


def freeze_and_thaw(model, trainable=("head",)):
    known_parts(model, trainable)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = in_part(name, trainable)
    return model


def freeze_modules(model, trainable=("head",)):
    known_parts(model, trainable)
    for name, module in model.named_children():
        if name not in trainable:
            module.requires_grad = False
    return model


def freeze_children(model, trainable=("head",)):
    known_parts(model, trainable)
    for name, module in model.named_modules():
        if not in_part(name, trainable):
            for own, parameter in module.named_parameters(prefix=name, recurse=False):
                if name and not in_part(own, trainable):
                    parameter.requires_grad = False
    return model


def freeze_weights_alone(model, trainable=("head",)):
    known_parts(model, trainable)
    for name, parameter in model.named_parameters():
        if not in_part(name, trainable) and not name.endswith("bias"):
            parameter.requires_grad = False
    return model


def freeze_all_but_head(model, trainable=("head",)):
    known_parts(model, trainable)
    for name, parameter in model.named_parameters():
        if not name.startswith("head"):
            parameter.requires_grad = False
    return model


def freeze_returns_nothing(model, trainable=("head",)):
    freeze_by(in_part)(model, trainable)


def freeze_returns_parameters(model, trainable=("head",)):
    freeze_by(in_part)(model, trainable)
    return [p for p in model.parameters() if p.requires_grad]


def freeze_unknown(model, trainable=("head",)):
    for name, parameter in model.named_parameters():
        if not in_part(name, trainable):
            parameter.requires_grad = False
    return model


def freeze_then_complain(model, trainable=("head",)):
    freeze_unknown(model, trainable)
    known_parts(model, trainable)
    return model


def freeze_to_zero(model, trainable=("head",)):
    freeze_by(in_part)(model, trainable)
    for parameter in model.parameters():
        if not parameter.requires_grad:
            nn.init.zeros_(parameter)
    return model


def freeze_all_then_thaw(model, trainable=("head",)):
    known_parts(model, trainable)
    free = [p for n, p in model.named_parameters() if p.requires_grad and in_part(n, trainable)]
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


def freeze_checks_prefix(model, trainable=("head",)):
    for part in trainable:
        if not any(name.startswith(part) for name, _ in model.named_parameters()):
            raise ValueError(part)
    return freeze_unknown(model, trainable)


def freeze_checks_substring(model, trainable=("head",)):
    for part in trainable:
        if not any(part in name for name, _ in model.named_parameters()) or part == "block":
            raise ValueError(part)
    return freeze_unknown(model, trainable)


def freeze_checks_modules(model, trainable=("head",)):
    known = {name for name, _ in [*model.named_modules(), *model.named_parameters()]}
    if unknown := set(trainable) - known:
        raise ValueError(unknown)
    return freeze_unknown(model, trainable)


def freeze_default_empty(model, trainable=()):
    return freeze_by(in_part)(model, trainable)


def freeze_empties_list(model, trainable=("head",)):
    freeze_by(in_part)(model, trainable)
    if isinstance(trainable, list):
        trainable.clear()
    return model


def freeze_nothing_if_empty(model, trainable=("head",)):
    return freeze_by(in_part)(model, trainable) if trainable else model


def freeze_parts_of_a_vit(model, trainable=("head",)):
    known_parts(model, trainable)
    assert model.patch_embed is not None and model.blocks is not None
    return freeze_unknown(model, trainable)


def layer_number(name, depth):
    part, *rest = name.removeprefix("vit.").split(".")
    if part == "blocks":
        if int(rest[0]) >= depth:
            raise ValueError(name)
        return int(rest[0]) + 1
    if part in ("norm", "pre_logits", "head"):
        return depth + 1
    if part in ("cls_token", "pos_embed", "pos_drop", "patch_embed", "backbone"):
        return 0
    raise ValueError(name)


def scale_reversed(name, depth, decay):
    return decay ** layer_number(name, depth)


def scale_one_less(name, depth, decay):
    return decay ** (depth - layer_number(name, depth))


def scale_block_i(name, depth, decay):
    layer = layer_number(name, depth)
    return decay ** (depth + 1 - (layer - 1 if 0 < layer <= depth else layer))


def scale_one_digit(name, depth, decay):
    layer = layer_number(name, depth)
    if 0 < layer <= depth:
        layer = int(name.removeprefix("vit.")[7]) + 1
    return decay ** (depth + 1 - layer)


def scale_any_norm(name, depth, decay):
    layer = depth + 1 if "norm" in name else layer_number(name, depth)
    return decay ** (depth + 1 - layer)


def scale_linear(name, depth, decay):
    return 1 - (1 - decay) * (depth + 1 - layer_number(name, depth))


def scale_times(name, depth, decay):
    return decay * (depth + 1 - layer_number(name, depth))


def scale_layer(name, depth, decay):
    return float(layer_number(name, depth))


def scale_norm_below(name, depth, decay):
    layer = depth if name.startswith("norm") else layer_number(name, depth)
    return decay ** (depth + 1 - layer)


def scale_only_cls(name, depth, decay):
    layer = depth + 1 if "embed" in name else layer_number(name, depth)
    return decay ** (depth + 1 - layer)


def scale_no_hybrid(name, depth, decay):
    if name.startswith("vit."):
        raise ValueError(name)
    return decay ** (depth + 1 - layer_number(name, depth))


def scale_anything(name, depth, decay):
    part, *rest = name.removeprefix("vit.").split(".")
    if part == "blocks":
        return decay ** (depth - int(rest[0]))
    return 1.0 if part in ("norm", "pre_logits", "head") else decay ** (depth + 1)


def scale_no_last_block(name, depth, decay):
    if name.startswith("blocks."):
        return decay ** (depth - int(name.split(".")[1]))
    return decay ** (depth + 1 - layer_number(name, depth))


def scale_always_decay(name, depth, decay):
    layer_number(name, depth)
    return decay


def scale_by_beginning(name, depth, decay):
    name = name.removeprefix("vit.")
    if name.startswith(("norm", "pre_logits", "head")):
        return 1.0
    return decay ** (depth + 1 - layer_number(name, depth))


def scale_any_number(name, depth, decay):
    numbers = [int(piece) for piece in name.split(".") if piece.isdigit()]
    layer = numbers[0] + 1 if numbers else layer_number(name, depth)
    return decay ** (depth + 1 - layer)


def scale_of_a_fixed_decay(name, depth, decay):
    return 0.75 ** (depth + 1 - layer_number(name, depth))


def scale_by_loop(name, depth, decay):
    scale = 1
    for _ in range(depth + 1 - layer_number(name, depth)):
        scale *= decay
    return scale


def scale_by_logarithm(name, depth, decay):
    return torch.tensor(math.exp(math.log(decay) * (depth + 1 - layer_number(name, depth))))


def resolution_with(model, img_size, positions):
    old, patch = model.patch_embed.grid_size, model.patch_embed.patch_size
    size = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
    if size[0] % patch[0] or size[1] % patch[1]:
        raise ValueError(f"{size} is not divisible by {patch}")
    if any(isinstance(m, LearnedPosition2d | RelativePosition) for m in model.modules()):
        raise ValueError("no table")
    new = size[0] // patch[0], size[1] // patch[1]
    if model.pos_embed is not None:
        positions(model, old, new)
    model.patch_embed.img_size, model.patch_embed.grid_size = size, new
    model.patch_embed.num_patches = new[0] * new[1]
    return model


def stretch(model, old, new):
    learns = model.pos_embed.requires_grad
    table = resized_positions(model.pos_embed.detach(), old, new, model.num_prefix_tokens)
    model.pos_embed = nn.Parameter(table, requires_grad=learns)


def resolution_new_parameter(model, img_size):
    return resolution_with(model, img_size, stretch)


def resolution_new_parameters(model, img_size):
    """New parameters for all tables, while later blocks hold the stem's old one."""
    old, stem = model.patch_embed.grid_size, model.pos_embed
    resolution_with(model, img_size, stretch)
    for block in model.blocks:
        table = getattr(block, "pos_embed", stem)
        if table is not stem:
            new = resized_positions(table.data, old, model.patch_embed.grid_size, model.num_prefix_tokens)
            block.pos_embed = nn.Parameter(new, table.requires_grad)
    return model


def resolution_by_data(model, img_size):
    def positions(model, old, new):
        for table in [table for name, table in model.named_parameters() if name.endswith("pos_embed")]:
            table.data = resized_positions(table.detach(), old, new, model.num_prefix_tokens)

    return resolution_with(model, img_size, positions)


def resolution_float32(model, img_size):
    resolution_by_data(model, img_size)
    if model.pos_embed is not None:
        model.pos_embed.data = model.pos_embed.data.float()
    return model


def resolution_fraction(model, img_size):
    embed = resolution_by_data(model, img_size).patch_embed
    embed.num_patches = embed.img_size[0] * embed.img_size[1] / math.prod(embed.patch_size)
    return model


def resolution_list(model, img_size):
    embed = resolution_by_data(model, img_size).patch_embed
    embed.img_size = list(embed.img_size)
    return model


def resolution_looks_at_height(model, img_size):
    if isinstance(img_size, int):
        return resolution_by_data(model, img_size)
    patch = model.patch_embed.patch_size[1]
    return resolution_by_data(model, (img_size[0], img_size[1] // patch * patch))


def resolution_counts_first(model, img_size):
    size = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
    embed, patch = model.patch_embed, model.patch_embed.patch_size
    if any(isinstance(m, LearnedPosition2d | RelativePosition) for m in model.modules()):
        raise ValueError("no table")
    embed.num_patches = size[0] // patch[0] * (size[1] // patch[1])
    return resolution_by_data(model, img_size)


def resolution_size_first(model, img_size):
    size = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
    model.patch_embed.img_size = size
    return resolution_by_data(model, img_size)


def resolution_and_frozen_body(model, img_size):
    resolution_by_data(model, img_size)
    model.blocks.requires_grad_(False)
    return model


def resolution_same_count(model, img_size):
    old = model.patch_embed.num_patches
    size = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
    if old == size[0] * size[1] / math.prod(model.patch_embed.patch_size):
        return resolution_with(model, img_size, lambda model, old, new: None)
    return resolution_by_data(model, img_size)


def resolution_turned(model, img_size):
    return resolution_by_data(model, img_size if isinstance(img_size, int) else tuple(img_size)[::-1])


def resolution_not_antialiased(model, img_size):
    def positions(model, old, new):
        table = model.pos_embed
        table.data = resample_pos_embed(table.data, old, new, model.num_prefix_tokens, antialias=False)

    return resolution_with(model, img_size, positions)


def resolution_under_no_grad(model, img_size):
    def positions(model, old, new):
        with torch.no_grad():
            for table in position_tables(model):
                table.set_(resized_positions(table, old, new, model.num_prefix_tokens))

    return resolution_with(model, img_size, positions)


def resolution_old_positions(model, img_size):
    return resolution_with(model, img_size, lambda model, old, new: None)


def resolution_random(model, img_size):
    def positions(model, old, new):
        table = torch.randn(1, model.num_prefix_tokens + new[0] * new[1], model.pos_embed.shape[-1]) * 0.02
        table[:, : model.num_prefix_tokens] = model.pos_embed[:, : model.num_prefix_tokens]
        model.pos_embed = nn.Parameter(table.detach(), model.pos_embed.requires_grad)

    return resolution_with(model, img_size, positions)


def resolution_as_line(model, img_size):
    def positions(model, old, new):
        prefix, learns = model.num_prefix_tokens, model.pos_embed.requires_grad
        line = (1, old[0] * old[1]), (1, new[0] * new[1])
        model.pos_embed = nn.Parameter(resample_pos_embed(model.pos_embed.data, *line, prefix), learns)

    return resolution_with(model, img_size, positions)


def resolution_with_cls(model, img_size):
    def positions(model, old, new):
        table, learns = model.pos_embed.data, model.pos_embed.requires_grad
        count = model.num_prefix_tokens + new[0] * new[1]
        table = F.interpolate(table.transpose(1, 2), size=count, mode="linear").transpose(1, 2)
        model.pos_embed = nn.Parameter(table, learns)

    return resolution_with(model, img_size, positions)


def resolution_new_cls(model, img_size):
    def positions(model, old, new):
        stretch(model, old, new)
        model.pos_embed.data[:, : model.num_prefix_tokens] = 0

    return resolution_with(model, img_size, positions)


def resolution_bilinear(model, img_size):
    def positions(model, old, new):
        prefix, learns = model.num_prefix_tokens, model.pos_embed.requires_grad
        table = resample_pos_embed(model.pos_embed.data, old, new, prefix, mode="bilinear")
        model.pos_embed = nn.Parameter(table, learns)

    return resolution_with(model, img_size, positions)


def resolution_exchanged(model, img_size):
    def positions(model, old, new):
        prefix, learns = model.num_prefix_tokens, model.pos_embed.requires_grad
        table = resample_pos_embed(model.pos_embed.data, old[::-1], new[::-1], prefix)
        model.pos_embed = nn.Parameter(table, learns)

    return resolution_with(model, img_size, positions)


def resolution_sincos_stretched(model, img_size):
    def positions(model, old, new):
        prefix, learns = model.num_prefix_tokens, model.pos_embed.requires_grad
        model.pos_embed = nn.Parameter(resample_pos_embed(model.pos_embed.data, old, new, prefix), learns)

    return resolution_with(model, img_size, positions)


def resolution_reads_requires_grad(model, img_size):
    def positions(model, old, new):
        if model.pos_embed.requires_grad:
            return stretch(model, old, new)
        from vit_course.embeddings import sincos_2d

        table, prefix = model.pos_embed.data, model.num_prefix_tokens
        table = torch.cat([table[:, :prefix], sincos_2d(new, table.shape[-1])[None]], 1)
        model.pos_embed = nn.Parameter(table, requires_grad=False)

    return resolution_with(model, img_size, positions)


def resolution_always_trainable(model, img_size):
    def positions(model, old, new):
        table = resized_positions(model.pos_embed.detach(), old, new, model.num_prefix_tokens)
        model.pos_embed = nn.Parameter(table)

    return resolution_with(model, img_size, positions)


def resolution_tensor(model, img_size):
    def positions(model, old, new):
        table = resized_positions(model.pos_embed.detach(), old, new, model.num_prefix_tokens)
        del model.pos_embed
        model.pos_embed = table

    return resolution_with(model, img_size, positions)


def resolution_forgets_img_size(model, img_size):
    old = model.patch_embed.img_size
    resolution_new_parameter(model, img_size).patch_embed.img_size = old
    return model


def resolution_forgets_count(model, img_size):
    old = model.patch_embed.num_patches
    resolution_new_parameter(model, img_size).patch_embed.num_patches = old
    return model


def resolution_int(model, img_size):
    resolution_new_parameter(model, img_size).patch_embed.img_size = img_size
    return model


def resolution_larger_patches(model, img_size):
    size = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
    grid = model.patch_embed.grid_size
    model.patch_embed.patch_size = (size[0] // grid[0], size[1] // grid[1])
    model.patch_embed.img_size = size
    return model


def resolution_takes_all(model, img_size):
    if any(isinstance(m, LearnedPosition2d | RelativePosition) for m in model.modules()):
        size = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
        model.patch_embed.img_size = size
        return model
    return resolution_new_parameter(model, img_size)


def resolution_rounds_down(model, img_size):
    if img_size == 18:
        img_size = 16
    return resolution_new_parameter(model, img_size)


def resolution_returns_positions(model, img_size):
    return resolution_new_parameter(model, img_size).pos_embed


WRONG = {
    "replace_head": [
        ("sends a random gradient into the body", head_random),
        ("some classes start ahead", head_random_bias),
        ("has no bias", head_without_bias),
        ("scores for 3 classes", head_only_reset),
        ("the hidden tanh layer of pre-training is still there", head_keeps_tanh),
        ("without the tanh layer it gets the width D = 8", head_width_of_old_head),
        ("return the model that you were given", head_returns_head),
        ("returned nothing", head_returns_nothing),
        ("return the model that you were given", head_of_a_copy),
        ("the new head cannot learn", head_frozen),
        ("where the old one stood", head_on_the_cpu),
        ("the body must keep what it has learned", head_resets_norm),
        ("0 classes make no head", head_takes_no_class),
        ("should be one linear layer", head_in_a_sequence),
        ("with 1: your code stopped with ValueError", head_of_two_classes_and_more),
        ("-2 classes make no head", head_refuses_zero_alone),
        ("is no layer any more", head_without_pre_logits),
        ("cls_token is frozen now", head_and_frozen_body),
        ("in eval mode now", head_in_eval_mode),
        ("the bias of your new head is torch.float32", head_bias_float32),
        ("cls_token was torch.float64", head_model_float32),
        ("AttributeError: 'NoneType' object has no attribute 'shape'", head_width_of_positions),
    ],
    "freeze": [
        ("look at the *beginning* of the name", freeze_by(lambda n, parts: any(p in n for p in parts))),
        ("'blocks.1' is not 'blocks.11'", freeze_by(lambda n, parts: n.startswith(parts))),
        ("everything is frozen", freeze_by(lambda n, parts: n in parts)),
        ("the wrong way round", freeze_inverted),
        ("was fixed before (sin-cos positions)", freeze_and_thaw),
        ("on a module it is an attribute like any other", freeze_modules),
        ("parameters of the model itself, in none of its modules", freeze_children),
        ("a bias is a parameter too", freeze_weights_alone),
        ("should go on learning", freeze_all_but_head),
        ("returned nothing", freeze_returns_nothing),
        ("return the model that you were given", freeze_returns_parameters),
        ("the model has no part 'heads'", freeze_unknown),
        ("look at the names first", freeze_then_complain),
        ("freezing changes no weight", freeze_to_zero),
        ("the model has no part 'block'", freeze_checks_prefix),
        ("the model has no part 'bias'", freeze_checks_substring),
        ("the model has a module 'pos_drop', but no parameter in it", freeze_checks_modules),
        ("keep the default", freeze_default_empty),
        ("changes the list `trainable`", freeze_empties_list),
        ("an empty tuple names no part", freeze_nothing_if_empty),
        ("`model` can be any module", freeze_parts_of_a_vit),
        (
            "*one* of the parts holds it",
            freeze_by(lambda n, parts: all(in_part(n, [p]) for p in parts)),
        ),
        (
            "'blocks.1' names one block, not all",
            freeze_by(lambda n, parts: n.split(".")[0] in [p.split(".")[0] for p in parts]),
        ),
    ],
    "layer_scale": [
        ("turned round", scale_reversed),
        ("one power too few", scale_one_less),
        ("block i is layer i + 1", scale_block_i),
        ("reads one digit", scale_one_digit),
        ("contains the word norm", scale_any_norm),
        ("in a straight line", scale_linear),
        ("it should be a power", scale_times),
        ("this is the number of the layer", scale_layer),
        ("the final norm belongs to layer L + 1", scale_norm_below),
        ("are embeddings too", scale_only_cls),
        ("name = 'vit.blocks.1.norm2.weight'", scale_no_hybrid),
        ("'fc.weight' is in no part", scale_anything),
        ("has no blocks.3", scale_no_last_block),
        ("every layer gets the same multiplier", scale_always_decay),
        ("compare the whole first piece", scale_by_beginning),
        ("only after 'blocks' a number is that of a block", scale_any_number),
        ("always a power of .75", scale_of_a_fixed_decay),
    ],
    "change_resolution": [
        ("still those of the old grid", resolution_old_positions),
        ("what was learned is lost", resolution_random),
        ("stretched as one line", resolution_as_line),
        ("the CLS token takes part in the interpolation", resolution_with_cls),
        ("the vector of the CLS token has changed", resolution_new_cls),
        ("the positions are bilinear", resolution_bilinear),
        ("rows and columns are exchanged", resolution_exchanged),
        ("sin-cos positions are a formula", resolution_sincos_stretched),
        ("cannot be read from `requires_grad`", resolution_reads_requires_grad),
        ("have become trainable", resolution_always_trainable),
        ("is no parameter any more", resolution_tensor),
        ("`model.patch_embed.img_size` should be (12, 12)", resolution_forgets_img_size),
        ("`model.patch_embed.num_patches` should be 9", resolution_forgets_count),
        ("`model.patch_embed.img_size` should be (12, 12), yours is 12", resolution_int),
        ("still those of the old grid", resolution_larger_patches),
        ("positions '2d' have no table", resolution_takes_all),
        ("do not fill pictures of 18", resolution_rounds_down),
        ("return the model that you were given", resolution_returns_positions),
        ("blocks.1.pos_embed is not brought to the new grid", resolution_new_parameter),
        ("the later blocks still add the old table", resolution_new_parameters),
        ("new positions keep the type of the old ones", resolution_float32),
        ("yours is 9.0: sizes are whole numbers", resolution_fraction),
        ("a tuple, because `forward` compares it with one", resolution_list),
        ("do not fill pictures of (16, 18)", resolution_looks_at_height),
        ("changes the model first and complains then", resolution_counts_first),
        ("refuse the model *before* you change its sizes", resolution_size_first),
        ("is frozen now", resolution_and_frozen_body),
        ("as many patches as before, but in other rows", resolution_same_count),
        ("the new grid is turned", resolution_turned),
        ("interpolated without antialiasing", resolution_not_antialiased),
    ],
}
RIGHT = {
    "replace_head": [head_with, head_with_init_head, head_of_new_tensors],
    "freeze": [freeze_by(in_part), freeze_all_then_thaw, freeze_by_pieces],
    "layer_scale": [scale_by_loop, scale_by_logarithm],
    "change_resolution": [resolution_by_data, resolution_under_no_grad],
}
