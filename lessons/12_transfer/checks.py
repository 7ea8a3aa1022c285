"""Checks of lesson 12: a new head, and frozen parts."""

import torch
from torch import nn

from vit_classroom.checks.edits import Mistakes, edited
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import demand, exercise, refuses
from vit_classroom.checks.words import explain_error
from vit_course.extensions.positions import with_positions
from vit_course.extensions.transfer import freeze, replace_head
from vit_course.vit import VisionTransformer

known = Mistakes(__file__, replace_head, freeze)
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
                raise Mistake(f"{name} is gone. {why}")
        for name, value in self.values.items():
            if not name.startswith(but) and not torch.equal(after[name].to(value), value):
                raise Mistake(f"{name} has changed. {why}")
        if extra := [name for name in parameters if name not in self.parameters and not name.startswith(but)]:
            raise Mistake(f"{extra[0]} is new in the model, and would be saved and counted with it. {why}")
        for name, (learns, dtype, device) in self.settings.items():
            if not name.startswith(but):
                self.demand_setting(name, parameters[name], learns if learning else None, dtype, device, why)
        others = [(name, part) for name, part in model.named_modules() if not name.startswith(but)]
        for name, part in others:
            mode, what = self.modes.get(name, part.training), name or "the model"
            if part.training != mode:
                modes = ("train", "eval") if mode else ("eval", "train")
                raise Mistake(f"{what} was in {modes[0]} mode, and is in {modes[1]} mode now. {why}")
            if self.texts.get(name, str(part)) != str(part):
                raise Mistake(f"{what} was {self.texts[name]}, and is {part} now. {why}")

    def demand_setting(self, name, parameter, learns, dtype, device, why) -> None:
        """Demand the same parameter, with numbers of one type on one device; `learns` is None where that may change."""
        if (parameter.dtype, parameter.device) != (dtype, device):
            raise Mistake(
                f"{name} was {dtype} on {device}, and is {parameter.dtype} on {parameter.device} now. {why}"
            )
        if learns is not None and parameter.requires_grad != learns:
            now = "is frozen" if learns else "can learn"
            raise Mistake(f"{name} {now} now, and was not before. {why}")
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
        none = f"in this model `{' and '.join(absent)}` is None. Read nothing from it here"
        raise stopped(result, where, none if absent and "'NoneType'" in str(result) else "")
    if result is None:
        raise Mistake(
            "your function returned nothing, but the lesson continues with the model. End with `return model`"
        )
    if result is not model:
        raise Mistake(
            "return the model that you were given, changed in place, not a part of it, a copy or something else"
        )
    return model


# -- replace_head

HEAD = ("head", "pre_logits")
BODY = "Nothing but the head may change, the body keeps what it has learned"


@demand(known("replace_head body", ("the new head cannot learn", torch.inference_mode()(replace_head))))
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
        raise Mistake("`nn.Linear` takes the inputs first, then the outputs. Yours are swapped")
    if head.weight.shape[0] != num_classes:
        raise Mistake(
            f"the head gives {head.weight.shape[0]} scores for {num_classes} classes. Assign a new linear layer to "
            "`model.head`, with num_classes outputs"
        )
    if not isinstance(getattr(model, "pre_logits", None), nn.Module):
        raise Mistake(
            "`model.pre_logits` is no layer any more, but `forward` calls it. Put `nn.Identity()` there"
        )
    probe = torch.randn(2, dim)
    model.pre_logits.train()
    if any(isinstance(part, nn.Dropout) for part in model.pre_logits.modules()):
        raise Mistake("dropout is in the place of the hidden layer. Put `nn.Identity()` there")
    if list(model.pre_logits.parameters()) or not torch.equal(model.pre_logits(probe), probe):
        raise Mistake(
            "the hidden tanh layer of pre-training is still there. Put `nn.Identity()` in the place of "
            "`model.pre_logits`"
        )
    if head.weight.shape[1] != dim:
        raise Mistake(
            f"your head reads {head.weight.shape[1]} numbers, but without the tanh layer it gets the width D = {dim}. "
            "`model.norm.normalized_shape[0]` is D"
        )
    if (head.out_features, head.in_features) != head.weight.shape:
        raise Mistake(
            f"`model.head` says that it leads from {head.in_features} to {head.out_features} numbers, but its weight "
            f"leads from {dim} to {num_classes}: is it the old layer with new numbers? Assign a new `nn.Linear`"
        )
    if head.bias is None:
        raise Mistake("your head has no bias. The docstring asks for weight and bias, both zero")
    if bool(head.weight.ne(0).any()):
        raise Mistake(
            "the weight of the new head is not zero. Whether random or of an old task, it sends a gradient into the "
            "body that has nothing to do with the new one"
        )
    if bool(head.bias.ne(0).any()):
        raise Mistake("the bias of the new head is not zero, so some classes start ahead of others")
    if any(not p.requires_grad or p.is_inference() or 0 in p.stride() for p in (head.weight, head.bias)):
        raise Mistake(
            "the new head cannot learn. Its parameters need requires_grad and numbers of their own, so do not freeze, "
            "detach or expand them, and make them outside `torch.inference_mode()`"
        )


@demand(known("replace_head place"))
def stands_where_the_old_head_stood(answer):
    for change, what in (({"dtype": torch.float64}, "float64"), ({"device": "meta"}, "on another device")):
        model = trained().to(**change)
        old, before = model.norm.weight, Before(model)
        before.demand_same(changed(answer, model, 3), BODY, but=HEAD)
        for name, new in model.head.named_parameters():
            if old.dtype != new.dtype or old.device != new.device:
                raise Mistake(
                    f"the model is {what}, the {name} of your new head is {new.dtype} on {new.device}. It must be "
                    "where the old one was, for example with `.to(model.head.weight)`"
                )


exercise(
    replace_head,
    replaces_the_head_alone,
    stands_where_the_old_head_stood,
    refuses((trained(), 0), "0 classes make no head", edited(replace_head, "num_classes < 1 => False")),
    refuses(
        (trained(), -1),
        "-1 classes make no head",
        edited(replace_head, "num_classes < 1 => num_classes == 0"),
    ),
)

# -- freeze


def in_part(name: str, parts) -> bool:
    return any(f"{name}.".startswith(f"{part}.") for part in parts)


@demand(known("freeze parts"))
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
        before.demand_same(model, "Freezing changes no weight, only whether it learns", learning=False)


@demand(known("freeze module"))
def takes_any_module(answer):
    layers = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3)), nn.Linear(3, 2))
    result = outcome(lambda f, m: f(m, ("1",)), answer, (layers,))
    where = "on `nn.Sequential` of two layers in `nn.Sequential` and another one, with trainable=('1',)"
    if isinstance(result, Exception):
        raise Mistake(
            f"{where}, your code stopped with {explain_error(result)}\n`model` can be any module. Ask "
            "`model.named_parameters()` for the names"
        )
    demand_frozen(layers, ("1",), {name for name, _ in layers.named_parameters()}, where)


@demand(known("freeze late"))
def changes_nothing_where_it_refuses(answer):
    model = trained()
    learned = learning(model)
    result = outcome(lambda f, *case: f(*case), answer, (model, ("head", "heads")))
    if isinstance(result, ValueError) and len(learning(model)) < len(learned):
        raise Mistake("your code freezes parts before it raises the error. Look at all of `trainable` first")


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
            f"{where}: {min(got - learned)} was fixed before, and your code lets it learn. "
            "Leave the named parts as they are"
        )
    if got == learned and not parts:
        raise Mistake(
            f"{where}: nothing is frozen, but an empty tuple names no part that may learn. Freeze all"
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
            why = "`requires_grad_` is a method. Call it, `requires_grad_(False)`, or leave out the last `_`"
        elif any("requires_grad" in vars(part) for part in model.modules()):
            why = "on a module `requires_grad` is an attribute like any other. Set that of its *parameters*"
        elif not model.training:
            why = "`model.eval()` freezes nothing. Set `requires_grad` of the parameters to False"
        raise Mistake(f"{where}: nothing is frozen: {why}")
    if got == learned - want:
        raise Mistake(f"{where}: the wrong way round. The named parts continue to learn, and all others stop")
    if not got and len(parts) > 1:
        raise Mistake(
            f"{where}: everything is frozen. A parameter continues to learn if *one* of the parts holds it, not all"
        )
    if not got and want:
        raise Mistake(
            f"{where}: everything is frozen. A parameter of the head is named 'head.weight', not 'head'. Compare the "
            "beginning of its name, and look for a line that freezes the whole model (`named_modules` begins with it)"
        )
    if extra := sorted(got - want):
        raise Mistake(f"{where}: {extra[0]} still learns: {why_free(set(extra), learned - want, parts)}")
    raise Mistake(f"{where}: {min(want - got)} is frozen, but it belongs to a named part, and should learn")


def why_free(extra: set[str], others: set[str], parts) -> str:
    """Say why parameters still learn; `others` are all that should be frozen."""
    if "blocks.1" in parts and all(name.startswith("blocks.1") for name in extra):
        return "the dot counts, so 'blocks.1' is not 'blocks.11'"
    if "blocks.1" in parts and all(name.startswith("blocks.") for name in extra):
        return "'blocks.1' names one block, not all. Compare the whole part, not its first piece"
    if all(any(part in name for part in parts) for name in extra):
        return "look at the *beginning* of the name, not anywhere in it"
    if extra == {name for name in others if "." not in name}:
        return (
            "`cls_token` and `pos_embed` are parameters of the model itself, in none of its modules. Use "
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
        edited(freeze, "refuse_unknown_parts(model, trainable)  # given => pass"),
    ),
    refuses((trained(), ("heads", "head")), "the model has no part 'heads', the first of two"),
    refuses((trained(), ("head", "blocks.99")), "the model has no part 'blocks.99'"),
    refuses((trained(), ("head", "pre_logits")), "the model's part 'pre_logits' has no parameters"),
    refuses(
        (trained(), ("head", "block")),
        "the model has no part 'block': its blocks are named 'blocks.0', and the dot counts",
        edited(
            freeze,
            "refuse_unknown_parts(model, trainable)  # given => names = [n for n, _ in model.named_parameters()]\n"
            "    if not all(any(n.startswith(p) for n in names) for p in trainable):\n        raise ValueError",
        ),
    ),
)
