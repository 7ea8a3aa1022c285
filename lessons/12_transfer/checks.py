"""Checks of lesson 12: a new head, and frozen parts."""

import copy
from collections.abc import Callable

import torch
from torch import nn

from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import demand, exercise, refuses
from vit_classroom.checks.words import explain_error
from vit_course.extensions.positions import with_positions
from vit_course.extensions.transfer import freeze, replace_head
from vit_course.vit import VisionTransformer, init_head

SIZES = {"img_size": (8, 12), "patch_size": 4, "embed_dim": 8, "depth": 2, "num_heads": 2, "num_classes": 5}


def trained(positions: tuple[str, str] | None = None, **options) -> VisionTransformer:
    """Return a small model, perhaps with positions of lesson 10, in which no weight has the value it starts with."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = VisionTransformer(**{**SIZES, **options})
        if positions:
            with_positions(model, *positions)
        for parameter in model.parameters():
            if parameter.requires_grad:
                nn.init.normal_(parameter, mean=0.2, std=0.5)
    return model


class Before:
    """What a model was before an answer changed it."""

    def __init__(self, model: nn.Module):
        self.values = {n: v.clone() for n, v in model.state_dict().items() if not v.is_meta}
        self.parameters = dict(model.named_parameters())
        self.settings = {n: (p.requires_grad, p.dtype, p.device) for n, p in self.parameters.items()}
        self.modes = {n: part.training for n, part in model.named_modules()}
        self.texts = {n: str(part) for n, part in model.named_modules() if not list(part.children())}

    def demand_same(
        self, model: nn.Module, why: str, but: tuple[str, ...] = (), learning: bool = True
    ) -> None:
        """Demand that nothing has changed but what begins with a name of `but` and, perhaps, what learns."""
        after, parameters = model.state_dict(), dict(model.named_parameters())
        for name in self.values.keys() | self.parameters.keys():
            if not name.startswith(but) and name not in after:
                raise Mistake(f"{name} is gone: {why}")
        for name, value in self.values.items():
            if not name.startswith(but) and not torch.equal(after[name].to(value), value):
                raise Mistake(f"{name} has changed: {why}")
        if extra := [name for name in parameters if name not in self.parameters and not name.startswith(but)]:
            raise Mistake(f"{extra[0]} is new in the model, and would be saved and counted with it: {why}")
        for name, (learns, dtype, device) in self.settings.items():
            if not name.startswith(but):
                self.demand_setting(name, parameters[name], learns if learning else None, dtype, device, why)
        others = [(name, part) for name, part in model.named_modules() if not name.startswith(but)]
        for name, part in others:
            mode, what = self.modes.get(name, part.training), name or "the model"
            if part.training != mode:
                modes = ("train", "eval") if mode else ("eval", "train")
                raise Mistake(f"{what} was in {modes[0]} mode, and is in {modes[1]} mode now: {why}")
            if self.texts.get(name, str(part)) != str(part):
                raise Mistake(f"{what} was {self.texts[name]}, and is {part} now: {why}")

    def demand_setting(self, name, parameter, learns, dtype, device, why) -> None:
        """Demand the same parameter, with numbers of one type on one device; `learns` is None where that may change."""
        if (parameter.dtype, parameter.device) != (dtype, device):
            raise Mistake(
                f"{name} was {dtype} on {device}, and is {parameter.dtype} on {parameter.device} now: {why}"
            )
        if learns is not None and parameter.requires_grad != learns:
            now = "is frozen" if learns else "can learn"
            raise Mistake(f"{name} {now} now, and was not before: {why}")
        if parameter is not self.parameters[name]:
            raise Mistake(
                f"{name} is a new parameter with the old numbers: an optimizer, or another layer, may hold the old "
                "one. Change the one that is there"
            )


def changed(answer, model: nn.Module, *arguments, where: str = "") -> nn.Module:
    """Run an answer that should change a model in place and return it."""
    where = where or f"with {', '.join(map(repr, arguments))}: "
    result = outcome(lambda f, *case: f(*case), answer, (model, *arguments))
    if isinstance(result, Exception):
        absent = [name for name in ("cls_token", "pos_embed") if getattr(model, name) is None]
        none = f"in this model `{' and '.join(absent)}` is None: read nothing from it here"
        raise stopped(result, where, none if absent and "'NoneType'" in str(result) else "")
    if result is None:
        raise Mistake("your function returned nothing; the lesson goes on with the model: `return model`")
    if result is not model:
        raise Mistake(
            "return the model that you were given, changed in place, not a part of it, a copy or something else"
        )
    return model


def then(finished: Callable, *changes: Callable) -> Callable:
    """Return an answer that is right, and then does more to the model."""

    def answer(model, *arguments, **options):
        finished(model, *arguments, **options)
        for change in changes:
            change(model)
        return model

    return answer


# -- replace_head

HEAD = ("head", "pre_logits")
BODY = "nothing but the head may change, the body keeps what it has learned"


def linear(model, outputs, inputs=0, start=init_head, **options) -> nn.Linear:
    """Return a head for a model, of zeros if `start` makes it so."""
    width = inputs or model.norm.weight.numel()
    return start(nn.Linear(width, outputs, **options).to(model.head.weight))


def head_of(make: Callable, allowed: Callable = lambda count: count >= 1) -> Callable:
    """Return a `replace_head` with the head that `make` returns for (model, K)."""

    def answer(model, num_classes):
        if not allowed(num_classes):
            raise ValueError(num_classes)
        model.head, model.pre_logits = make(model, num_classes), nn.Identity()
        return model

    return answer


def zero_weight(layer):
    nn.init.zeros_(layer.weight)
    return layer


def keeps_tanh(model, num_classes):
    model.head = linear(model, num_classes, inputs=model.head.in_features)
    return model


def keeps_the_old_head(model, num_classes):
    model.old_head = model.head
    return replace_head(model, num_classes)


def keeps_the_layer(model, num_classes):
    head, new = model.head, replace_head(model, num_classes).head
    head.weight, head.bias, model.head = new.weight, new.bias, head
    return model


def inherits_the_freezing(model, num_classes):
    learns = model.head.weight.requires_grad
    replace_head(model, num_classes).head.requires_grad_(learns)
    return model


@demand(
    {
        "should be one linear layer": then(
            replace_head, lambda model: setattr(model, "head", nn.Sequential(model.head))
        ),
        "scores for 3 classes": head_of(lambda model, count: init_head(model.head)),
        "is no layer any more": then(replace_head, lambda model: setattr(model, "pre_logits", None)),
        "the hidden tanh layer of pre-training is still there": keeps_tanh,
        "dropout stands in the place of the hidden layer": then(
            replace_head, lambda model: setattr(model, "pre_logits", nn.Dropout(0.1))
        ),
        "without the tanh layer it gets the width D = 8": head_of(
            lambda model, count: linear(model, count, inputs=model.head.in_features)
        ),
        "the old layer with new numbers": keeps_the_layer,
        "has no bias": head_of(lambda model, count: linear(model, count, start=zero_weight, bias=False)),
        "the weight of the new head is not zero": [
            head_of(lambda model, count: linear(model, count, start=lambda layer: layer)),
            lambda model, count: model if count == model.head.out_features else replace_head(model, count),
        ],
        "some classes start ahead": head_of(lambda model, count: linear(model, count, start=zero_weight)),
        "the new head cannot learn": [
            then(replace_head, lambda model: model.head.requires_grad_(False)),
            inherits_the_freezing,
            torch.inference_mode()(replace_head),
        ],
        "returned nothing": lambda model, count: None,
        "return the model that you were given": [
            lambda model, count: replace_head(model, count).head,
            lambda model, count: replace_head(copy.deepcopy(model), count),
        ],
        "norm.weight has changed: " + BODY: then(
            replace_head, lambda model: nn.init.ones_(model.norm.weight)
        ),
        "cls_token is frozen now": then(
            replace_head, lambda m: m.requires_grad_(False), lambda m: m.head.requires_grad_(True)
        ),
        "can learn now, and was not before": then(replace_head, lambda model: model.requires_grad_(True)),
        "in eval mode now": [
            then(replace_head, lambda model: model.eval()),
            then(replace_head, lambda model: model.blocks.eval()),
        ],
        "norm was LayerNorm": then(replace_head, lambda model: setattr(model.norm, "eps", 1e-5)),
        "in train mode now": then(replace_head, lambda model: model.train()),
        "old_head.weight is new in the model": keeps_the_old_head,
        "with 1: your code stopped with ValueError": head_of(linear, lambda count: count > 1),
    }
)
def replaces_the_head_alone(answer):
    for options, num_classes in [
        ({}, 3),
        ({"embed_dim": 12, "num_heads": 3}, 7),
        ({}, 4),
        ({"representation_size": 6}, 4),
        ({"global_pool": "avg", "class_token": False}, 2),
        ({"global_pool": "avg", "class_token": False, "pos_embed": "none"}, 2),
        ({"pos_embed": "none"}, 3),
        ({"pos_embed": "sincos"}, 3),
        ({}, 1),
        ({}, 5),
    ]:
        model = trained(**options).train(num_classes % 2 == 1)
        model.head.requires_grad_(num_classes != 5)
        model.blocks[0].norm1.requires_grad_(num_classes % 2 == 0)
        model.blocks[1].train(num_classes % 2 == 0)
        before = Before(model)
        demand_head(changed(answer, model, num_classes), options.get("embed_dim", 8), num_classes)
        before.demand_same(model, BODY, but=HEAD)


def demand_head(model: VisionTransformer, dim: int, num_classes: int) -> None:
    """Name what is wrong with a new head."""
    head = model.head
    if not isinstance(head, nn.Linear):
        raise Mistake(f"`model.head` should be one linear layer, nn.Linear, yours is {type(head).__name__}")
    if head.weight.shape[0] != num_classes and head.weight.shape == (dim, num_classes):
        raise Mistake("`nn.Linear` takes the inputs first, then the outputs; yours are swapped")
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
    model.pre_logits.train()
    if any(isinstance(part, nn.Dropout) for part in model.pre_logits.modules()):
        raise Mistake("dropout stands in the place of the hidden layer: put `nn.Identity()` there")
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
    if (head.out_features, head.in_features) != head.weight.shape:
        raise Mistake(
            f"`model.head` says that it leads from {head.in_features} to {head.out_features} numbers, but its weight "
            f"leads from {dim} to {num_classes}: is it the old layer with new numbers? Assign a new `nn.Linear`"
        )
    if head.bias is None:
        raise Mistake("your head has no bias: the docstring asks for weight and bias, both zero")
    if bool(head.weight.ne(0).any()):
        raise Mistake(
            "the weight of the new head is not zero: whether random or of an old task, it sends a gradient into the "
            "body that has nothing to do with the new one"
        )
    if bool(head.bias.ne(0).any()):
        raise Mistake("the bias of the new head is not zero: some classes start ahead of others")
    if any(not p.requires_grad or p.is_inference() or 0 in p.stride() for p in (head.weight, head.bias)):
        raise Mistake(
            "the new head cannot learn: its parameters need requires_grad and numbers of their own, so do not freeze, "
            "detach or expand them, and make them outside `torch.inference_mode()`"
        )


@demand(
    {
        "where the old one stood": head_of(
            lambda model, num_classes: init_head(nn.Linear(model.norm.weight.numel(), num_classes))
        ),
        "the bias of your new head is torch.float32": then(
            replace_head,
            lambda model: setattr(model.head, "bias", nn.Parameter(torch.zeros(len(model.head.weight)))),
        ),
        "cls_token was torch.float64": then(replace_head, lambda model: model.float()),
    }
)
def stands_where_the_old_head_stood(answer):
    for change, what in (({"dtype": torch.float64}, "float64"), ({"device": "meta"}, "on another device")):
        model = trained().to(**change)
        old, before = model.norm.weight, Before(model)
        before.demand_same(changed(answer, model, 3), BODY, but=HEAD)
        for name, new in model.head.named_parameters():
            if old.dtype != new.dtype or old.device != new.device:
                raise Mistake(
                    f"the model is {what}, the {name} of your new head is {new.dtype} on {new.device}: it must stand "
                    "where the old one stood, for example with `.to(model.head.weight)`"
                )


exercise(
    replace_head,
    replaces_the_head_alone,
    stands_where_the_old_head_stood,
    refuses((trained(), 0), "0 classes make no head", head_of(linear, lambda count: True)),
    refuses((trained(), -1), "-1 classes make no head", head_of(linear, lambda count: count != 0)),
)

# -- freeze


def in_part(name: str, parts) -> bool:
    return any(f"{name}.".startswith(f"{part}.") for part in parts)


def known_parts(model, parts, there: Callable = lambda name, part: in_part(name, [part])) -> None:
    for part in parts:
        if not any(there(name, part) for name, _ in model.named_parameters()):
            raise ValueError(f"no part {part}")


def freeze_where(stays: Callable, asked: Callable = known_parts, default: tuple = ("head",)) -> Callable:
    """Return a `freeze` that leaves a parameter alone if stays(name, parts), after asked(model, parts)."""

    def answer(model, trainable=default):
        asked(model, trainable)
        for name, parameter in model.named_parameters():
            if not stays(name, tuple(trainable)):
                parameter.requires_grad = False
        return model

    return answer


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


def known_parts_alone(model, trainable=("head",)):
    known_parts(model, trainable)


def freeze_children(model, trainable=("head",)):
    known_parts(model, trainable)
    for name, module in model.named_modules():
        for own, parameter in module.named_parameters(prefix=name, recurse=False):
            if name and not in_part(own, trainable):
                parameter.requires_grad = False
    return model


def freeze_by_new_parameters(model, trainable=("head",)):
    known_parts(model, trainable)
    for name, parameter in list(model.named_parameters()):
        if not in_part(name, trainable):
            owner, _, own = name.rpartition(".")
            setattr(model.get_submodule(owner), own, nn.Parameter(parameter.detach().clone(), False))
    return model


def empties_the_list(model, trainable=("head",)):
    freeze(model, trainable)
    if isinstance(trainable, list):
        trainable.clear()
    return model


def zeroes_the_frozen(model):
    for parameter in model.parameters():
        if not parameter.requires_grad:
            nn.init.zeros_(parameter)


def asks_for_blocks(model, trainable=("head",)):
    assert model.patch_embed is not None and model.blocks is not None
    return freeze(model, trainable)


@demand(
    {
        "look at the *beginning* of the name": freeze_where(lambda n, parts: any(p in n for p in parts)),
        "'blocks.1' is not 'blocks.11'": freeze_where(lambda n, parts: n.startswith(parts)),
        "'blocks.1' names one block, not all": freeze_where(
            lambda n, parts: n.split(".")[0] in [p.split(".")[0] for p in parts]
        ),
        "everything is frozen. A parameter of the head": freeze_where(lambda n, parts: n in parts),
        "*one* of the parts holds it": freeze_where(lambda n, parts: all(in_part(n, [p]) for p in parts)),
        "the wrong way round": freeze_where(lambda n, parts: not in_part(n, parts)),
        "was fixed before, and your code lets it learn": freeze_and_thaw,
        "the attribute is called `requires_grad`, with an s": then(
            known_parts_alone, lambda model: [setattr(p, "require_grad", False) for p in model.parameters()]
        ),
        "on a module `requires_grad` is an attribute like any other": freeze_modules,
        "parameters of the model itself, in none of its modules": freeze_children,
        "a bias is a parameter too": freeze_where(lambda n, parts: in_part(n, parts) or n.endswith("bias")),
        "belongs to a named part, and should learn": [
            freeze_where(lambda n, parts: n.startswith("head")),
            freeze_where(
                lambda n, parts: n in parts or {n.split(".")[0], ".".join(n.split(".")[:2])} & set(parts)
            ),
            freeze_where(lambda n, parts: sum(in_part(n, [part]) for part in parts) == 1),
        ],
        "an empty tuple names no part": (
            lambda model, trainable=("head",): freeze(model, trainable) if trainable else model
        ),
        "returned nothing": lambda model, trainable=("head",): freeze(model, trainable) and None,
        "return the model that you were given": lambda model, trainable=("head",): (
            freeze(model, trainable) and [p for p in model.parameters() if p.requires_grad]
        ),
        "freezing changes no weight": then(freeze, zeroes_the_frozen),
        "is a new parameter with the old numbers": freeze_by_new_parameters,
        "in eval mode now": [
            then(freeze, lambda model: model.eval()),
            then(freeze, lambda model: model.patch_embed.eval()),
        ],
        "your code changes its input in place (argument 2)": empties_the_list,
    }
)
def freezes_all_other_parts(answer):
    for options, parts in [
        ({}, ("head",)),
        ({}, ("head", "norm")),
        ({"depth": 12}, ("blocks.1", "head")),
        ({}, ()),
        ({"positions": ("2d", "stem")}, ("pos_drop.pos_embed", "cls_token")),
        ({"pos_embed": "sincos"}, ("pos_embed", "head")),
        ({}, ["patch_embed.proj.bias", "blocks"]),
        ({}, ("blocks.1.attn.qkv", "head")),
        ({}, ("blocks.1.attn", "head")),
        ({}, ("blocks", "blocks.1")),
    ]:
        model = trained(**options).train(bool(parts))
        model.norm.bias.requires_grad_(False)
        before, learned = Before(model), learning(model)
        changed(answer, model, parts)
        demand_frozen(model, parts, learned, f"with trainable={parts!r}")
        before.demand_same(model, "freezing changes no weight, only whether it learns", learning=False)


@demand(
    {
        "`model` can be any module": asks_for_blocks,
        "look at the *beginning* of the name": freeze_where(
            lambda n, parts: any(f".{p}." in f".{n}." for p in parts)
        ),
    }
)
def takes_any_module(answer):
    layers = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3)), nn.Linear(3, 2))
    result = outcome(lambda f, m: f(m, ("1",)), answer, (layers,))
    where = "on `nn.Sequential` of two layers in `nn.Sequential` and another one, with trainable=('1',)"
    if isinstance(result, Exception):
        raise Mistake(
            f"{where}, your code stopped with {explain_error(result)}\n`model` can be any module: ask "
            "`model.named_parameters()` for the names"
        )
    demand_frozen(layers, ("1",), {name for name, _ in layers.named_parameters()}, where)


def refuses_too_late(model, trainable=("head",)):
    freeze_where(in_part, lambda *_: None)(model, trainable)
    known_parts(model, trainable)
    return model


@demand({"freezes parts before it raises the error": refuses_too_late})
def changes_nothing_where_it_refuses(answer):
    model = trained()
    learned = learning(model)
    result = outcome(lambda f, *case: f(*case), answer, (model, ("head", "heads")))
    if isinstance(result, ValueError) and len(learning(model)) < len(learned):
        raise Mistake("your code freezes parts before it raises the error: look at all of `trainable` first")


def learning(model: nn.Module) -> set[str]:
    """Name the parameters that learn."""
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def demand_frozen(model: nn.Module, parts, learned: set[str], where: str) -> None:
    """Compare which parameters learn with which should, and name the usual mistakes."""
    got, want = learning(model), {name for name in learned if in_part(name, parts)}
    if got == want:
        return
    if got - learned:
        raise Mistake(
            f"{where}: {min(got - learned)} was fixed before, and your code lets it learn: "
            "leave the named parts as they are"
        )
    if got == learned and not parts:
        raise Mistake(
            f"{where}: nothing is frozen: an empty tuple names no part that may learn, so freeze all"
        )
    if got == learned:
        why = (
            "is a line `p.requires_grad = False` reached, with one `=`? Look at conditions, and for an early `return`. "
            "(`p.data`, `p.detach()` and `state_dict()` are other tensors than the parameters)"
        )
        own = {name for parameter in model.parameters() for name in vars(parameter)}
        if own & {"require_grad", "trainable"}:
            why = "the attribute is called `requires_grad`, with an s"
        elif "requires_grad_" in own:
            why = "`requires_grad_` is a method: call it, `requires_grad_(False)`, or leave out the last `_`"
        elif any("requires_grad" in vars(part) for part in model.modules()):
            why = "on a module `requires_grad` is an attribute like any other: set that of its *parameters*"
        elif not model.training:
            why = "`model.eval()` freezes nothing: set `requires_grad` of the parameters to False"
        raise Mistake(f"{where}: nothing is frozen: {why}")
    if got == learned - want:
        raise Mistake(f"{where}: the wrong way round: the named parts go on learning, all others stop")
    if not got and len(parts) > 1:
        raise Mistake(
            f"{where}: everything is frozen. A parameter goes on learning if *one* of the parts holds it, not all"
        )
    if not got and want:
        raise Mistake(
            f"{where}: everything is frozen. A parameter of the head is named 'head.weight', not 'head': compare the "
            "beginning of its name, and look for a line that freezes the whole model: `named_modules` begins with it"
        )
    if extra := sorted(got - want):
        raise Mistake(f"{where}: {extra[0]} still learns: {why_free(set(extra), learned - want, parts)}")
    raise Mistake(f"{where}: {min(want - got)} is frozen: it belongs to a named part, and should learn")


def why_free(extra: set[str], others: set[str], parts) -> str:
    """Say why parameters still learn; `others` are all that should be frozen."""
    if "blocks.1" in parts and all(name.startswith("blocks.1") for name in extra):
        return "the dot counts: 'blocks.1' is not 'blocks.11'"
    if "blocks.1" in parts and all(name.startswith("blocks.") for name in extra):
        return "'blocks.1' names one block, not all: compare the whole part, not its first piece"
    if all(any(part in name for part in parts) for name in extra):
        return "look at the *beginning* of the name, not anywhere in it"
    if extra == {name for name in others if "." not in name}:
        return (
            "`cls_token` and `pos_embed` are parameters of the model itself, in none of its modules; use "
            "`model.named_parameters()`"
        )
    if extra == {name for name in others if name.endswith("bias")}:
        return "a bias is a parameter too"
    return "it belongs to no named part"


exercise(
    freeze,
    freezes_all_other_parts,
    takes_any_module,
    changes_nothing_where_it_refuses,
    refuses(
        (trained(), ("head", "heads")),
        "the model has no part 'heads'",
        freeze_where(in_part, lambda *_: None),
    ),
    refuses((trained(), ("heads", "head")), "the model has no part 'heads', the first of two"),
    refuses((trained(), ("head", "blocks.99")), "the model has no part 'blocks.99'"),
    refuses((trained(), ("head", "pre_logits")), "the model's part 'pre_logits' has no parameters"),
    refuses(
        (trained(), ("head", "block")),
        "the model has no part 'block': its blocks are named 'blocks.0', and the dot counts",
        freeze_where(in_part, lambda model, parts: known_parts(model, parts, str.startswith)),
    ),
)
