"""Checks of lesson 12: a new head, frozen parts, learning rates by layer, and another resolution."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course import optim
from vit_course.beyond import transfer
from vit_course.beyond.positions import with_positions
from vit_course.classroom.checks.compare import compare, demand_error
from vit_course.classroom.checks.outcome import Mistake, outcome
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import explain_error
from vit_course.embeddings import resample_pos_embed
from vit_course.vit import VisionTransformer

SIZES = {"img_size": (8, 12), "patch_size": 4, "embed_dim": 8, "depth": 2, "num_heads": 2, "num_classes": 5}


def trained(positions: tuple[str, str] | None = None, **options) -> VisionTransformer:
    """Return a small model, perhaps with positions of lesson 10, in which no weight has the value it starts with."""
    model = VisionTransformer(**{**SIZES, **options})
    if positions:
        with_positions(model, *positions)
    for parameter in model.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, mean=0.2, std=0.5)
    return model


def values(model: nn.Module) -> dict[str, Tensor]:
    """Copy all weights by name."""
    return {name: value.clone() for name, value in model.state_dict().items()}


def changed_model(answer, model: nn.Module, *arguments) -> nn.Module:
    """Run an answer that should change a model in place and return it."""
    where = f"with {', '.join(repr(argument) for argument in arguments)}: " if arguments else ""
    result = outcome(lambda f, *case: f(*case), answer, (model, *arguments))
    if isinstance(result, Exception):
        raise Mistake(f"{where}your code stopped with {explain_error(result)}")
    if result is None:
        raise Mistake("your function returned nothing; the lesson goes on with the model: `return model`")
    if result is not model:
        raise Mistake(
            "return the model that you were given, changed in place, not a part of it, a copy or something else"
        )
    return model


def same_body(model: nn.Module, before: dict[str, Tensor], kept: tuple[str, ...], why: str) -> None:
    """Demand that no weight has changed but those whose name begins with one of `kept`."""
    after = model.state_dict()
    for name, value in before.items():
        if name.startswith(kept):
            continue
        if name not in after:
            raise Mistake(f"{name} is gone: {why}")
        if not torch.equal(after[name], value):
            raise Mistake(f"{name} has changed: {why}")


def settings(model: nn.Module) -> dict[str, tuple]:
    """Note of every parameter whether it learns, the type of its numbers and its device."""
    return {name: (p.requires_grad, p.dtype, p.device) for name, p in model.named_parameters()}


def same_settings(model: nn.Module, before: dict[str, tuple], why: str, kept: tuple[str, ...] = ()) -> None:
    """Demand that the parameters learn as before, of the same type and device, and that the model is in train mode."""
    for name, (learns, dtype, device) in settings(model).items():
        if name not in before or name.startswith(kept):
            continue
        if before[name][1:] != (dtype, device):
            _, old_dtype, old_device = before[name]
            raise Mistake(f"{name} was {old_dtype} on {old_device}, and is {dtype} on {device} now: {why}")
        if before[name][0] != learns:
            raise Mistake(f"{name} {'can learn' if learns else 'is frozen'} now, and was not before: {why}")
    if not model.training:
        raise Mistake(f"the model was in train mode, and is in eval mode now: {why}")


@exercise(transfer.replace_head)
def check_replace_head(answer):
    cases = [
        ({}, 3),
        ({"embed_dim": 12, "num_heads": 3}, 7),
        ({}, 5),
        ({"representation_size": 6}, 4),
        ({"global_pool": "avg", "class_token": False}, 2),
        ({"pos_embed": "none"}, 3),
        ({}, 1),
    ]
    body = {"why": "nothing but the head may change", "kept": ("head", "pre_logits")}
    for options, num_classes in cases:
        model = trained(**options)
        before, old, dim = values(model), settings(model), options.get("embed_dim", 8)
        changed_model(answer, model, num_classes)
        _check_head(model, dim, num_classes)
        same_body(model, before, ("head", "pre_logits"), "the body must keep what it has learned")
        same_settings(model, old, **body)
    for change, what in (({"dtype": torch.float64}, "float64"), ({"device": "meta"}, "on another device")):
        model = trained().to(**change)
        old, before = model.norm.weight, settings(model)
        changed_model(answer, model, 3)
        same_settings(model, before, **body)
        for name, new in model.head.named_parameters():
            if old.dtype != new.dtype or old.device != new.device:
                raise Mistake(
                    f"the model is {what}, the {name} of your new head is {new.dtype} on {new.device}: it must stand "
                    "where the old one stood, for example with `.to(model.head.weight)`"
                )
    for count in (0, -2):
        demand_error(answer, (trained(), count), f"{count} classes make no head", ValueError)


def _check_head(model: VisionTransformer, dim: int, num_classes: int) -> None:
    """Name what is wrong with a new head."""
    head = model.head
    if not isinstance(head, nn.Linear):
        raise Mistake(f"`model.head` should be one linear layer, nn.Linear, yours is {type(head).__name__}")
    if head.weight.shape[0] != num_classes:
        raise Mistake(
            f"the head gives {head.weight.shape[0]} scores for {num_classes} classes: assign a new linear layer to "
            "`model.head`, with num_classes outputs"
        )
    if not isinstance(getattr(model, "pre_logits", None), nn.Module):
        raise Mistake(
            "`model.pre_logits` is no layer any more, but `forward` calls it: put `nn.Identity()` there"
        )
    probe = torch.randn(2, dim)
    if list(model.pre_logits.parameters()) or not torch.equal(model.pre_logits(probe), probe):
        raise Mistake(
            "the hidden tanh layer of pre-training is still there: put `nn.Identity()` in the place of "
            "`model.pre_logits`"
        )
    if head.weight.shape[1] != dim:
        raise Mistake(
            f"your head reads {head.weight.shape[1]} numbers, but without the tanh layer it gets the width D = {dim}: "
            "`model.norm.normalized_shape[0]`"
        )
    if head.bias is None:
        raise Mistake("your head has no bias: the docstring asks for weight and bias, both zero")
    if bool(head.weight.ne(0).any()):
        raise Mistake(
            "the weight of the new head is not zero: a random head sends a random gradient into the body"
        )
    if bool(head.bias.ne(0).any()):
        raise Mistake("the bias of the new head is not zero: some classes start ahead of others")
    if not head.weight.requires_grad or not head.bias.requires_grad:
        raise Mistake(
            "the new head cannot learn: its parameters need requires_grad, so do not freeze or detach them"
        )


@exercise(transfer.freeze)
def check_freeze(answer):
    cases = [
        ({}, ("head",)),
        ({}, ("head", "norm")),
        ({"depth": 12}, ("blocks.1", "head")),
        ({}, ()),
        ({"positions": ("2d", "stem")}, ("pos_drop.pos_embed", "cls_token")),
        ({"pos_embed": "sincos"}, ("pos_embed", "head")),
        ({}, ["patch_embed.proj.bias", "blocks"]),
    ]
    for options, parts in cases:
        model = trained(**options)
        before, learned = values(model), {n for n, p in model.named_parameters() if p.requires_grad}
        given = list(parts) if isinstance(parts, list) else parts
        changed_model(answer, model, given)
        same_body(model, before, (), "freezing changes no weight, only whether it learns")
        if given != parts:
            raise Mistake("your code changes the list `trainable`, which belongs to whoever called it")
        _check_frozen(model, parts, learned, f"with trainable={parts!r}")
    _check_other_calls(answer)
    _check_unknown_part(answer)


def _check_other_calls(answer) -> None:
    """The default, and a model that is no ViT."""
    model = trained()
    result = outcome(lambda f, m: f(m), answer, (model,))
    if isinstance(result, Exception) or {n for n, p in model.named_parameters() if p.requires_grad} != {
        "head.weight",
        "head.bias",
    }:
        raise Mistake(
            "called as `freeze(model)`, your code does not leave the head alone to learn: keep the default "
            '`trainable=("head",)`'
        )
    layers = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    result = outcome(lambda f, m: f(m, ("1",)), answer, (layers,))
    if isinstance(result, Exception):
        raise Mistake(
            f"on `nn.Sequential` of two linear layers, with trainable=('1',), your code stopped with "
            f"{explain_error(result)}\n`model` can be any module: ask `model.named_parameters()` for the names"
        )
    learned = {name for name, _ in layers.named_parameters()}
    _check_frozen(layers, ("1",), learned, "on `nn.Sequential` of two linear layers, with trainable=('1',)")


def _belongs(name: str, parts) -> bool:
    return any(name == part or name.startswith(part + ".") for part in parts)


def _check_frozen(model: nn.Module, parts, learned: set[str], where: str) -> None:
    """Compare which parameters learn with which should, and name the usual mistakes."""
    got = {name for name, p in model.named_parameters() if p.requires_grad}
    want = {name for name in learned if _belongs(name, parts)}
    if got == want:
        return
    if got - learned:
        raise Mistake(
            f"{where}: {min(got - learned)} was fixed before (sin-cos positions), and your code lets it learn: "
            "leave the named parts as they are"
        )
    if got == learned and not parts:
        raise Mistake(
            f"{where}: nothing is frozen, but an empty tuple names no part that may learn: freeze all"
        )
    if got == learned:
        raise Mistake(
            f"{where}: nothing is frozen. Set `requires_grad` of the *parameters*: on a module it is an attribute like "
            "any other, and `model.eval()` freezes nothing"
        )
    if got == learned - want:
        raise Mistake(f"{where}: the wrong way round: the named parts go on learning, all others stop")
    if not got and len(parts) > 1:
        raise Mistake(
            f"{where}: everything is frozen. A parameter goes on learning if *one* of the parts holds it, not all"
        )
    if not got and want:
        raise Mistake(
            f"{where}: everything is frozen. A parameter of the head is named 'head.weight', not 'head': compare the "
            "beginning of its name"
        )
    if extra := sorted(got - want):
        raise Mistake(f"{where}: {extra[0]} still learns: {_why_free(extra, parts)}")
    raise Mistake(
        f"{where}: {min(want - got)} is frozen, but it belongs to a named part and should go on learning"
    )


def _why_free(extra: list[str], parts) -> str:
    """Guess why parameters are still trainable."""
    if "blocks.1" in parts and all(name.startswith("blocks.1") for name in extra):
        return "the dot counts: 'blocks.1' is not 'blocks.11'"
    if "blocks.1" in parts and all(name.startswith("blocks.") for name in extra):
        return "'blocks.1' names one block, not all: compare the whole part, not its first piece"
    if all(any(part in name for part in parts) for name in extra):
        return "look at the *beginning* of the name, not anywhere in it"
    if all("." not in name for name in extra):
        return (
            "`cls_token` and `pos_embed` are parameters of the model itself, in none of its modules; use "
            "`model.named_parameters()`"
        )
    if all(name.endswith("bias") for name in extra):
        return "a bias is a parameter too"
    return "it belongs to no named part"


def _check_unknown_part(answer) -> None:
    """A misspelt part must be refused, and then nothing may be frozen."""
    for parts, why in (
        (("head", "heads"), "the model has no part 'heads'"),
        (
            ("head", "block"),
            "the model has no part 'block': its blocks are named 'blocks.0', and the dot counts",
        ),
        (("bias",), "the model has no part 'bias': a part is the beginning of a name"),
        (("pos_drop",), "the model has a module 'pos_drop', but no parameter in it"),
    ):
        model = trained()
        demand_error(answer, (model, parts), why, ValueError)
        if not all(p.requires_grad for p in model.parameters()):
            raise Mistake(
                "for an unknown part your code freezes first and complains then: look at the names first"
            )


@exercise(optim.layer_scale)
def check_layer_scale(answer):
    names = [
        "head.weight",
        "cls_token",
        "blocks.0.attn.qkv.weight",
        "blocks.2.norm1.bias",
        "norm.weight",
        "patch_embed.proj.bias",
        "pos_embed",
        "pre_logits.fc.weight",
        "pos_drop.pos_embed.rows",
    ]
    cases = [(name, 3, decay) for decay in (0.5, 0.75, 1.0) for name in names]
    cases += [
        ("blocks.11.mlp.fc1.weight", 12, 0.75),
        ("blocks.10.norm2.weight", 12, 0.75),
        ("cls_token", 12, 0.65),
    ]
    cases += [
        ("vit.blocks.1.norm2.weight", 3, 0.5),
        ("vit.head.bias", 3, 0.5),
        ("backbone.4.bn1.weight", 3, 0.5),
    ]

    def layer_of(name: str, depth: int) -> int:
        part, *rest = name.removeprefix("vit.").split(".")
        if part == "blocks":
            return int(rest[0]) + 1
        return depth + 1 if part in ("norm", "pre_logits", "head") else 0

    def variant(layer=layer_of, scale=lambda layer, depth, decay: decay ** (depth + 1 - layer)):
        return lambda name, depth, decay: float(scale(layer(name, depth), depth, decay))

    def block_is_i(name, depth):
        layer = layer_of(name, depth)
        return layer - 1 if 0 < layer <= depth else layer

    def one_digit(name, depth):
        layer = layer_of(name, depth)
        return int(name.removeprefix("vit.")[7]) + 1 if 0 < layer <= depth else layer

    def any_number(name, depth):
        numbers = [int(piece) for piece in name.split(".") if piece.isdigit()]
        return numbers[0] + 1 if numbers else layer_of(name, depth)

    def any_norm(name, depth):
        return depth + 1 if "norm" in name else layer_of(name, depth)

    def norm_below(name, depth):
        return depth if name.removeprefix("vit.").startswith("norm") else layer_of(name, depth)

    def only_head(name, depth):
        part = name.removeprefix("vit.").split(".")[0]
        return 0 if part in ("norm", "pre_logits") else layer_of(name, depth)

    def only_cls(name, depth):
        layer = layer_of(name, depth)
        return depth + 1 if layer == 0 and "embed" in name else layer

    compare(
        lambda *case: _number(answer(*case)),
        optim.layer_scale,
        cases,
        [
            (
                variant(scale=lambda layer, depth, decay: decay**layer),
                "turned round: the head must get 1 and the embeddings the smallest rate, so the power is L + 1 - layer",
            ),
            (
                variant(scale=lambda layer, depth, decay: decay ** (depth - layer)),
                "one power too few: the head gets more than 1. The layers count up to L + 1",
            ),
            (
                variant(scale=lambda layer, depth, decay: 1 - (1 - decay) * (depth + 1 - layer)),
                "your rate falls in a straight line: every layer *multiplies* by the decay, so it is a power",
            ),
            (
                variant(scale=lambda layer, depth, decay: decay * (depth + 1 - layer)),
                "you multiply by the number of layers: it should be a power, decay ** (L + 1 - layer)",
            ),
            (
                variant(scale=lambda layer, depth, decay: layer),
                "this is the number of the layer; return decay ** (L + 1 - layer)",
            ),
            (
                variant(scale=lambda layer, depth, decay: depth + 1 - layer),
                "this is the power alone; return decay to this power",
            ),
            (
                variant(scale=lambda layer, depth, decay: decay),
                "every layer gets the same multiplier: it should depend on the layer",
            ),
            (variant(block_is_i), "block i is layer i + 1, because layer 0 are the embeddings"),
            (
                variant(one_digit),
                "your code reads one digit of the block's number: 'blocks.11' is block 11. Split the name at the dots",
            ),
            (
                variant(any_number),
                "only after 'blocks' a number is that of a block: that of 'backbone.4' is an embedding",
            ),
            (
                variant(scale=lambda layer, depth, decay: 0.75 ** (depth + 1 - layer)),
                "your factor is always a power of .75: use the argument `decay`",
            ),
            (
                variant(any_norm),
                "'blocks.2.norm1.bias' contains the word norm, but belongs to block 2: read the first part of the name",
            ),
            (variant(norm_below), "the final norm belongs to layer L + 1, together with the head"),
            (variant(only_head), "`norm` and `pre_logits` belong to layer L + 1, together with the head"),
            (
                variant(only_cls),
                "`patch_embed` and `pos_embed` are embeddings too: layer 0, like the CLS token",
            ),
        ],
    )
    demand_error(answer, ("fc.weight", 3, 0.5), "'fc.weight' is in no part of a ViT", ValueError)
    demand_error(
        answer,
        ("heads.head.weight", 3, 0.5),
        "'heads.head.weight', torchvision's name, is in no part of our ViT; compare the whole first piece of the name",
        ValueError,
    )
    demand_error(answer, ("blocks.3.norm1.weight", 3, 0.5), "a ViT with 3 blocks has no blocks.3", ValueError)


def _number(value: object) -> object:
    """Read a whole number or a scalar of torch or numpy as a plain fraction."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@exercise(transfer.change_resolution)
def check_change_resolution(answer):
    cases = [
        ({"img_size": 8}, 12),
        ({}, (16, 8)),
        ({"patch_size": (2, 4)}, (4, 24)),
        ({"class_token": False, "global_pool": "avg"}, 16),
        ({}, (8, 12)),
        ({"pos_embed": "none"}, (12, 8)),
        ({"pos_embed": "sincos"}, (16, 8)),
    ]
    for options, size in cases:
        model, finished = trained(**options), trained(**options)
        finished.load_state_dict(model.state_dict())
        before, old, learning = values(model), model.patch_embed.grid_size, settings(model)
        changed_model(answer, model, size)
        transfer.change_resolution(finished, size)
        where = f"from {old[0]}x{old[1]} patches to pictures of {size}: "
        _check_positions(model, finished, before.get("pos_embed"), old, where)
        _check_patch_embed(model.patch_embed, finished.patch_embed, where)
        same_body(model, before, ("pos_embed",), "only positions depend on the size of the picture")
        same_settings(model, learning, "only positions and sizes may change")
        height, width = finished.patch_embed.img_size
        images = torch.randn(2, 3, height, width)
        got = outcome(lambda m, x: m(x), model, (images,))
        if isinstance(got, Exception):
            raise Mistake(f"{where}afterwards the model stops with {explain_error(got)}")
        if not torch.allclose(got, finished(images), atol=1e-4):
            raise Mistake(f"{where}every part looks right, but the scores of the model are others")
    model = trained().double()
    learning = settings(model)
    changed_model(answer, model, 12)
    same_settings(model, learning, "new positions keep the type of the old ones")
    _check_frozen_positions(answer)
    _check_refused(answer)
    _check_every_table(answer)


def _check_every_table(answer) -> None:
    """Positions that are added before every block, lesson 10."""
    for at in ("every", "shared"):
        model, finished = trained(("learned", at)), trained(("learned", at))
        finished.load_state_dict(model.state_dict())
        result = outcome(lambda f, m: f(m, 16), answer, (model,))
        where = f"in a model with positions at {at!r} (lesson 10), "
        if isinstance(result, Exception):
            raise Mistake(f"{where}your code stopped with {explain_error(result)}")
        transfer.change_resolution(finished, 16)
        tables = dict(model.named_parameters())
        for name, want in finished.named_parameters():
            if tables[name].shape != want.shape or not torch.allclose(tables[name], want, atol=1e-5):
                raise Mistake(
                    f"{where}{name} is not brought to the new grid: several layers have a table of positions, and "
                    "`position_tables(model)` gives all of them"
                )
        added, right = ([block.pos_embed for block in list(m.blocks)[1:]] for m in (model, finished))
        if any(
            mine.shape != want.shape or not torch.allclose(mine, want)
            for mine, want in zip(added, right, strict=True)
        ):
            raise Mistake(
                f"{where}the later blocks still add the old table: they hold the parameter that you replaced by a new "
                "one. Keep the parameter and change its numbers: `table.data = ...`"
            )


def _check_positions(model, finished, before: Tensor | None, old: tuple[int, int], where: str) -> None:
    """Name what is wrong with the new positions."""
    want, got = finished.pos_embed, model.pos_embed
    if want is None:
        if got is not None:
            raise Mistake("a model without positions (`model.pos_embed` is None) must stay without")
        return
    if not isinstance(got, nn.Parameter) or "pos_embed" not in dict(model.named_parameters()):
        raise Mistake(
            "`model.pos_embed` is no parameter any more: it could not be trained or saved. Use nn.Parameter"
        )
    prefix, new = model.num_prefix_tokens, finished.patch_embed.grid_size
    if got.shape != want.shape:
        if torch.equal(got, before):
            raise Mistake(f"{where}the positions are still those of the old grid")
        raise Mistake(f"{where}the positions should be {tuple(want.shape)}, yours are {tuple(got.shape)}")
    if torch.allclose(got, want, atol=1e-5):
        if got.requires_grad != want.requires_grad:
            raise Mistake(
                "fixed sin-cos positions have become trainable: hand `requires_grad` on"
                if got.requires_grad
                else "the positions cannot learn any more: they were trainable before"
            )
        return
    raise Mistake(where + _explain_positions(got, before, old, new, prefix, model))


def _explain_positions(got: Tensor, before: Tensor, old, new, prefix: int, model) -> str:
    """Guess how wrong positions came about."""
    finished = "the positions of the patches are not those that `resized_positions` gives"
    if torch.equal(got, before):
        return (
            "the positions are still those of the old grid: there are as many patches as before, but in other rows and "
            "columns"
        )
    if prefix and not torch.equal(got[:, :prefix], before[:, :prefix]):
        return (
            "the vector of the CLS token has changed: it has no place in the picture, so it is kept as it is"
        )
    if not got.requires_grad and torch.allclose(got, resample_pos_embed(before, old, new, prefix), atol=1e-4):
        return (
            "sin-cos positions are a formula, so the new grid gets them exactly: compute them anew "
            "(`resized_positions` does)"
        )
    known = {
        "the positions are bilinear; the course's own `resample_pos_embed` is bicubic": ("bilinear", True),
        "the positions are interpolated without antialiasing, which `resample_pos_embed` does": (
            "bicubic",
            False,
        ),
    }
    for message, (mode, antialias) in known.items():
        if torch.allclose(got, resample_pos_embed(before, old, new, prefix, mode, antialias), atol=1e-4):
            return message
    with_cls = F.interpolate(before.transpose(1, 2), size=got.shape[1], mode="linear").transpose(1, 2)
    if prefix and torch.allclose(got, with_cls, atol=1e-4):
        return (
            "the CLS token takes part in the interpolation: it has no place in the picture, so keep it apart"
        )
    if old[0] * old[1] == before.shape[1] - prefix:
        line = resample_pos_embed(before, (1, old[0] * old[1]), (1, new[0] * new[1]), prefix)
        if torch.allclose(got, line, atol=1e-4):
            return (
                "the positions are stretched as one line: they form a grid, so interpolate in two dimensions"
            )
        if old[0] != old[1] and torch.allclose(
            got, resample_pos_embed(before, old[::-1], new[::-1], prefix), atol=1e-4
        ):
            return "rows and columns are exchanged: a grid is (rows, columns)"
    if torch.allclose(got, resample_pos_embed(before, old, new[::-1], prefix), atol=1e-4):
        return "the new grid is turned: `img_size` is (height, width), and a grid is (rows, columns)"
    if got[:, prefix:].std() < 0.1 * before[:, prefix:].std() or not torch.isfinite(got).all():
        return "the positions are new numbers: what was learned is lost"
    return finished


def _check_patch_embed(got, want, where: str) -> None:
    """Compare what the patch embedding knows about sizes."""
    for name in ("img_size", "grid_size", "num_patches"):
        mine, right = getattr(got, name), getattr(want, name)
        numbers = mine if isinstance(mine, tuple) else (mine,)
        if mine != right or not all(isinstance(number, int) for number in numbers):
            reason = ""
            if isinstance(mine, list) and tuple(mine) == right:
                reason = ": a tuple, because `forward` compares it with one"
            elif mine == right:
                reason = ": sizes are whole numbers, so divide with //"
            raise Mistake(f"{where}`model.patch_embed.{name}` should be {right}, yours is {mine!r}{reason}")
    if got.patch_size != want.patch_size:
        raise Mistake(
            f"{where}the patch size has changed to {got.patch_size}: it stays, and the grid grows instead"
        )


def _check_frozen_positions(answer) -> None:
    """Learned positions that are frozen are still learned ones."""
    model = trained(img_size=8)
    model.pos_embed.requires_grad_(False)
    want = resample_pos_embed(model.pos_embed.clone(), (2, 2), (3, 3), 1)
    changed_model(answer, model, 12)
    if not torch.allclose(model.pos_embed, want, atol=1e-5):
        raise Mistake(
            "frozen *learned* positions are not interpolated: whether a table is learned or sin-cos cannot be read "
            "from `requires_grad`"
        )
    if model.pos_embed.requires_grad:
        raise Mistake("the positions were frozen before, and now they are trainable: hand `requires_grad` on")


def _check_refused(answer) -> None:
    """What does not fit must be refused before anything has changed."""
    for kind in ("2d", "relative"):
        model = trained((kind, "stem"))
        before = _sizes(model)
        demand_error(answer, (model, 16), f"positions {kind!r} have no table to interpolate", ValueError)
        if _sizes(model) != before:
            raise Mistake(f"positions {kind!r}: refuse the model *before* you change its sizes")
    for size in (18, (16, 18), (18, 16)):
        model = trained()
        before, sizes = model.pos_embed.detach().clone(), _sizes(model)
        demand_error(answer, (model, size), f"patches of 4 do not fill pictures of {size}", ValueError)
        if _sizes(model) != sizes or not torch.equal(before, model.pos_embed):
            raise Mistake(
                "for a size that does not fit, your code changes the model first and complains then"
            )


def _sizes(model: VisionTransformer) -> tuple:
    """Read what the patch embedding knows about sizes."""
    return tuple(getattr(model.patch_embed, name) for name in ("img_size", "grid_size", "num_patches"))
