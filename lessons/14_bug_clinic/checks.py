"""Checks of lesson 14: the bug clinic. They name what is left to see of a bug, its symptom, never the line.

First come the `measurements` that concern the function, on a patient in which all else is healthy. An answer without
symptoms is then compared with the finished version, for what no measurement asks. `chart` keeps every answer, fixed or
not, as it was last checked.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import torch
from torch import Tensor, nn

from vit_classroom.checks.compare import NEW_TENSOR, compare_gradients, demand_device
from vit_classroom.checks.edits import Known as Table
from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome, spread_weights
from vit_classroom.checks.registry import EXERCISES
from vit_classroom.checks.scorers import (
    MISCOUNTS,
    measured,
    measures_without_training,
    names_one_class,
    scores_and_labels,
)
from vit_classroom.checks.task import Demand, demand, exercise, results
from vit_classroom.checks.words import apart, difference
from vit_classroom.exhibits.clinic import bugs, healthy
from vit_classroom.exhibits.clinic.chart import note
from vit_classroom.exhibits.clinic.measurements import Finding, examine
from vit_classroom.exhibits.clinic.patient import Parts, Patient

NAMED = "Not a bug that was planted: "
TOLD = (NAMED, "your code changes its input", "some batches meet")
"""How messages begin that are told beside a symptom: it is not their cause alone."""


known = Mistakes(__file__, *(getattr(healthy, part.name) for part in fields(Parts)))


def patient(answer: Callable | None = None, name: str = "attend", **options) -> Patient:
    """Build a small patient in which one function is the answer and all others are healthy."""
    torch.default_generator.manual_seed(0)
    admitted = Patient(**{"patch_size": 4, "dim": 24, "depth": 1, "drop": 0.0, **options})
    admitted.parts = replace(admitted.parts, **{name: answer or getattr(healthy, name)})
    return admitted


def scrambled(model: nn.Module) -> nn.Module:
    """Draw all weights at random, none 0 or 1, but leave layer norms as PyTorch makes them."""
    spread_weights(model)
    for layer in model.modules():
        if isinstance(layer, nn.LayerNorm):
            layer.reset_parameters()
    return model


def run(answer: Callable, *case: object) -> object:
    """Call an answer; an error becomes a verdict."""
    value = outcome(lambda function, *arguments: function(*arguments), answer, case)
    if isinstance(value, Exception):
        raise stopped(value)
    if value is None:
        raise Mistake("your function returned nothing. Is the `return` missing?")
    return value


# -- what all functions of the clinic have in common


def symptoms(answer: Callable, name: str) -> list[Finding] | None:
    """Examine patients of two shapes, healthy but for the answer; None for an answer that stops."""
    for options in ({"img_size": (8, 12)}, {"img_size": 16, "num_heads": 2, "dim": 32, "num_classes": 7}):
        examined = patient(answer, name, **options)
        if name == "draw_weights":
            outcome(lambda function, model: function(model), answer, (scrambled(examined),))
        sick = [finding for finding in examine(examined, name) if not finding.ok]
        if any("stopped with" in finding.measured for finding in sick):
            return None
        if sick:
            return sick
    return []


def clinic(name: str, *rest: Demand, first: Demand | None = None) -> None:
    """Register a function of the clinic.

    Args:
        name: of the function.
        rest: demands on an answer without symptoms; what they know by name is told beside a symptom too.
        first: a demand on answers whose symptoms would mislead.
    """
    reference = getattr(healthy, name)

    def verify(answer: Callable, reference: Callable) -> None:
        note(name, answer, len(bugs.BUGS))
        if first:
            first.verify(answer, reference)
        left = symptoms(answer, name)
        note(name, answer, len(bugs.BUGS) if left is None else len(left))
        if left:
            count = "one symptom is" if len(left) == 1 else f"{len(left)} symptoms are"
            found = [f"- {finding}" for finding in left]
            raise Mistake("\n".join([f"{count} left:", *found, *known_by_name(rest, answer, reference)]))

    own = [bug for bug in bugs.BUGS if bug.function == name]
    known = {"symptom is left:\n- ": [bugs.planted(name, [bug]) for bug in own]}
    if len(own) > 1:
        known[" symptoms are left:\n- "] = getattr(bugs, name)
    exercise(reference, Demand(verify, known | dict(first.known if first else {})), *rest)


def known_by_name(rest: tuple[Demand, ...], answer: Callable, reference: Callable) -> list[str]:
    """Return what else the check can say of a sick answer: mistakes that were not planted are known by name."""
    for wanted in rest:
        try:
            wanted.verify(answer, reference)
        except Mistake as mistake:
            return [str(mistake)] if str(mistake).startswith(TOLD) else []
        except Exception:  # an answer may be anything, and its symptoms are known already
            return []
    return []


def draws_nothing(cases: Callable) -> Demand:
    """Demand the same result of two calls: the symptoms of an answer with dropout would mislead."""

    def verify(answer: Callable, reference: Callable) -> None:
        case = cases()[1]
        first, second = (outcome(lambda f, *arguments: f(*arguments), answer, case) for _ in range(2))
        if not isinstance(first, Exception) and difference(second, first):
            raise Mistake(
                f"{NAMED}two calls on the same tokens or images give different results. Something is drawn at "
                "random, perhaps by dropout. This function draws nothing, neither in training nor in evaluation"
            )

    return Demand(verify, {})


class _Learning(nn.Module):
    """A function of a patient as a module, so that the gradients of all its weights can be compared."""

    def __init__(self, function: Callable, weights: nn.Module, *rest: object):
        super().__init__()
        self.function, self.weights, self.rest = function, weights, rest

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weights, *self.rest)


def learns_alike(cases: Callable) -> Demand:
    """Demand the gradients of the finished version, for the input and for all weights."""

    def verify(answer: Callable, reference: Callable) -> None:
        x, *rest = cases()[1]
        compare_gradients(_Learning(answer, *rest), _Learning(reference, *rest), (x,), "in training")
        demand_device(answer, reference, cases()[1], lambda f, *case: f(*case), NAMED + NEW_TENSOR)

    return Demand(verify, {})


def compared(name: str, cases: Callable, known: Table, *rest: Demand) -> None:
    """Register a function of the clinic whose results and gradients are compared with those of the healthy one.

    Args:
        name: of the function.
        cases: returns its arguments, the smallest first.
        known: mistakes that students make, and that no bug of the clinic has.
        rest: further demands.
    """
    table = {NAMED + words: edits for words, edits in known.table.items()}
    named = results(cases, Table(known.right, table))
    clinic(name, named, *rest, learns_alike(cases), first=draws_nothing(cases))


# -- draw_weights


@demand(known("draw_weights gives back"))
def gives_the_model_back(answer):
    model = patient()
    given = list(model.parameters())
    if run(answer, model) is not model:
        raise Mistake("return the model that you were given, with its weights drawn anew in place")
    if any(a is not b for a, b in zip(given, model.parameters(), strict=True)):
        raise Mistake("a parameter is a new one. Draw its numbers anew in place, as `nn.init.normal_` does")


def wanted_draw(model: nn.Module, name: str, value: Tensor) -> tuple[float, float]:
    """Return mean and deviation that the docstring asks for."""
    linear = {id(layer.weight): layer for layer in model.modules() if isinstance(layer, nn.Linear)}
    layer = linear.get(id(value))
    deviation = 0.0 if layer in (None, model.head) else 0.02
    deviation = model.project.in_features**-0.5 if layer is model.project else deviation
    deviation = 0.02 if name == "pos_embed" else deviation
    return float("norm" in name and name.endswith("weight")), deviation


@demand(known("draw_weights docstring"))
def draws_as_the_docstring_says(answer):
    model = scrambled(patient(dim=96, depth=2, img_size=32, in_chans=2))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    run(answer, model)
    for name, value in model.named_parameters():
        wanted_mean, wanted = wanted_draw(model, name, value)
        mean, deviation = value.mean().item(), value.std(unbiased=False).item()
        wrong = abs(mean - wanted_mean) > 1e-6 + 0.25 * wanted, abs(deviation - wanted) > 0.15 * wanted
        if any(wrong):
            mean, deviation = (
                f"{x:.3{'g' if w and x < 1e-3 else 'f'}}"
                for x, w in zip((mean, deviation), wrong, strict=True)
            )
            found = f"has mean {mean} and deviation {deviation} after your function"
            if torch.equal(value, before[name]):
                found = "is left as it was by your function"
            raise Mistake(
                f"{name} {found}, and the docstring asks for mean {wanted_mean:g} and deviation {wanted:.3g}"
            )
        if wanted and min(value.flatten(0, -2).std(axis).min() for axis in (0, 1)) < 0.5 * wanted:
            raise Mistake(f"{name} has rows or columns of nearly equal numbers. Draw each number by itself")
        if wanted and value.numel() > 1000 and value.abs().max() < 2.5 * value.std():
            raise Mistake(
                f"{name} has no number beyond {value.abs().max() / value.std():.2g} deviations. Draw from the whole "
                "normal distribution, `normal_`"
            )
        if not value.requires_grad:
            raise Mistake(f"{name} does not learn any more, because requires_grad is False")


@demand(known("draw_weights each number"))
def draws_each_number_by_itself(answer):
    model = scrambled(patient(dim=24, depth=3))
    run(answer, model)
    first, *others = (block.qkv.weight.detach().clone() for block in model.blocks)
    parts = ("qkv", "proj", "mlp.fc1", "mlp.fc2")
    pairs = [[block.get_submodule(part).weight for block in model.blocks[:2]] for part in parts]
    if any(torch.equal(*pair) for pair in pairs) or any(torch.equal(first, other) for other in others):
        raise Mistake(
            "all blocks start with the same weights, so they are one block several times. Draw for each block anew"
        )
    run(answer, model)
    if torch.equal(first, model.blocks[0].qkv.weight):
        raise Mistake(
            "two calls draw the same numbers. Leave the seed to the caller. With a seed inside, three runs with "
            "three seeds would begin alike, and everything that is drawn afterwards would repeat too"
        )


clinic("draw_weights", draws_as_the_docstring_says, draws_each_number_by_itself, first=gives_the_model_back)

# -- embed_patches


def embed_cases():
    cases = []
    for size, patch, channels, batch in (
        ((4, 8), 4, 1, 1),
        ((8, 12), 4, 3, 2),
        (16, 4, 3, 3),
        ((6, 4), 2, 3, 2),
    ):
        model = scrambled(patient(img_size=size, patch_size=patch, in_chans=channels))
        cases.append((torch.randn(batch, *model.image_shape), model))
    return cases


compared("embed_patches", embed_cases, known("embed_patches results"))

# -- attend


def attend_cases():
    cases = []
    for tokens, batch, options in (
        (3, 1, {"dim": 4, "num_heads": 2}),
        (5, 2, {"dim": 12, "num_heads": 3}),
        (7, 4, {"dim": 24, "num_heads": 3}),
    ):
        block = scrambled(patient(img_size=8, **options).blocks[0])
        cases.append((torch.randn(batch, tokens, options["dim"]), block))
    return [*cases, (30 * cases[-1][0], block)]


compared("attend", attend_cases, known("attend results"))

# -- encode_block


class _Attention:
    """The healthy `attend`, with a name that a message can show."""

    def __call__(self, tokens: Tensor, block: nn.Module) -> tuple[Tensor, Tensor]:
        return healthy.attend(tokens, block)

    def __repr__(self) -> str:
        return "a healthy one"


def block_cases():
    cases = []
    for tokens, batch, options in (
        (2, 1, {"dim": 4, "num_heads": 2}),
        (5, 3, {"dim": 12}),
        (7, 2, {"dim": 24}),
    ):
        block = spread_weights(patient(img_size=8, **options).blocks[0])
        cases.append((torch.randn(batch, tokens, options["dim"]), block, _Attention()))
    return cases


@demand(known("encode_block given attend"))
def uses_the_given_attend(answer):
    tokens, block, _ = block_cases()[1]
    mine, wanted = (
        run(function, tokens, block, lambda tokens, block: (2 * tokens, None))
        for function in (answer, healthy.encode_block)
    )
    if difference(mine, wanted):
        raise Mistake(f"{NAMED}use the `attend` that is handed in. Your code ignores it")


compared("encode_block", block_cases, known("encode_block results"), uses_the_given_attend)

# -- classify


def classify_cases():
    cases = []
    for tokens, batch, options in (
        (3, 2, {"dim": 4, "num_heads": 2, "num_classes": 2}),
        (5, 3, {"dim": 12, "num_classes": 7}),
        (2, 1, {"dim": 24, "num_classes": 10}),
    ):
        model = spread_weights(patient(img_size=8, **options))
        cases.append((torch.randn(batch, tokens, options["dim"]), model))
    small = spread_weights(patient(img_size=8, dim=12))
    return [*cases, (1e-3 * torch.randn(2, 4, 12), small)]


compared("classify", classify_cases, known("classify results"))

# -- decay_groups


def models_to_split():
    yield "the patient", patient(img_size=(8, 12))
    yield "a deeper patient", patient(img_size=8, depth=3)
    yield "two layers and a norm", nn.Sequential(nn.Linear(4, 4, False), nn.LayerNorm(4), nn.Linear(4, 2))
    yield "a layer with one output", nn.Sequential(nn.Linear(4, 1), nn.Linear(1, 4))


def sort(answer: Callable, model: nn.Module, decay: float) -> list[tuple[Tensor, float]]:
    """Return all parameters in an answer's groups, each with its decay."""
    groups = run(answer, model, decay)
    if not isinstance(groups, list | tuple) or not all(
        isinstance(group, dict)
        and {"params", "weight_decay"} == set(group)
        and not isinstance(group["params"], set | frozenset | Iterator)
        for group in groups
    ):
        raise Mistake(
            "return a list of dicts, each with exactly two keys, 'params', a list of parameters, and "
            "'weight_decay', a number"
        )
    return [(p, float(group["weight_decay"])) for group in groups for p in list(group["params"])]


@demand(known("decay_groups one group"))
def puts_each_parameter_in_one_group(answer):
    for described, model in models_to_split():
        given = [p for p, _ in sort(answer, model, 0.05)]
        if any(isinstance(p, str) for p in given):
            raise Mistake("your groups hold names, and the optimiser wants the parameters themselves")
        places = {name: sum(p is q for q in given) for name, p in model.named_parameters()}
        if len(given) > sum(places.values()):
            raise Mistake(
                "your groups hold copies, or tensors that are no parameters of the model. The optimiser would train "
                "those, and the model would never learn"
            )
        for name, count in places.items():
            if not count:
                raise Mistake(
                    f"{name} of {described} is in no group. Every parameter belongs in exactly one, and one in none "
                    "is never trained"
                )
            if count > 1:
                raise Mistake(
                    f"{name} of {described} is listed {count} times. Every parameter belongs in exactly one group, "
                    "and there once"
                )


@demand(known("decay_groups matrices"))
def decays_matrices_alone(answer):
    for described, model in models_to_split():
        for decay in (0.05, 0.3, 0.001):
            before = {name: (p.detach().clone(), p.requires_grad) for name, p in model.named_parameters()}
            got = {id(p): value for p, value in sort(answer, model, decay)}
            for name, p in model.named_parameters():
                wanted = decay if p.ndim == 2 and name.endswith("weight") else 0.0
                if abs(got[id(p)] - wanted) > 1e-6:
                    end = ". Use the argument `weight_decay`" if wanted and got[id(p)] else ""
                    raise Mistake(
                        f"in {described}, {name} gets the decay {got[id(p)]:g}, not {wanted:g}{end}"
                    )
                if p.requires_grad != before[name][1] or not torch.equal(p, before[name][0]):
                    raise Mistake(f"your code changes the model itself ({name}). Sort its parameters alone")


clinic("decay_groups", decays_matrices_alone, first=puts_each_parameter_in_one_group)

# -- schedule


def said_in_lesson_07(answer: Callable) -> Mistake | None:
    """Return what the check of lesson 07 finds in a schedule, None if it is right."""
    try:
        EXERCISES["learning_rate"].verify(answer)
    except Mistake as mistake:
        return mistake
    return None


@demand(known("schedule results"))
def is_the_schedule_of_lesson_07(answer):
    if not (mistake := said_in_lesson_07(answer)):
        return
    planted = [bugs.planted("schedule", [bug]) for bug in bugs.BUGS if bug.function == "schedule"]
    known = {words for words, _ in EXERCISES["learning_rate"].mistakes()}
    known -= {str(said_in_lesson_07(bug)) for bug in planted}
    raise Mistake(NAMED * (str(mistake) in known) + str(mistake), mistake.named)


clinic("schedule", is_the_schedule_of_lesson_07)

# -- blend


def blended(
    answer: Callable, share: float, size: tuple[int, int], targets: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Blend images that show their class: return them, what is to be seen in them, and what the targets say."""
    targets = torch.eye(24) if targets is None else targets
    images = targets[:, :, None, None].expand(-1, -1, *size) * 4 - 1
    result = run(answer, images, targets, share)
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Mistake("return two things, blended images and blended targets")
    pairs = zip(result, (images, targets), strict=True)
    if not all(isinstance(part, Tensor) and part.shape == old.shape for part, old in pairs):
        raise Mistake("blended images and targets should be tensors of the shapes they had")
    return result[0], (result[0].mean(dim=(2, 3)) + 1) / 4, result[1]


def near(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-5)


def demand_whole(targets: Tensor) -> None:
    """Demand targets that sum to 1, and show the one that is furthest from it."""
    sums = targets.sum(dim=1).tolist()
    if not near(torch.tensor(sums), torch.ones(len(sums))):
        astray, _ = apart(max(sums, key=lambda total: abs(total - 1)), 1.0, 3)
        raise Mistake(
            f"some targets sum to {astray}, not to 1. An image gives `share` of its target, the partner 1 - share of "
            "its own as it was given, even where both have the same class"
        )


@demand(known("blend targets"))
def targets_say_what_is_seen(answer):
    one_class = torch.eye(2)[[0] * 24]
    demand_whole(blended(answer, 0.75, (2, 2), one_class)[2])
    for share, size in ((0.75, (2, 2)), (0.6, (3, 5)), (0.25, (3, 2)), (1.0, (2, 3)), (0.0, (2, 2))):
        images, seen, said = blended(answer, share, size)
        targets = torch.eye(len(images))
        if not near(images.amin((2, 3)), images.amax((2, 3))):
            raise Mistake(
                "an image of one colour is not of one colour any more. If you paste a piece of the partner, this is "
                "CutMix, and here whole images are blended"
            )
        demand_whole(said)
        if not near(seen, said):
            if near(said, targets):
                raise Mistake(f"{NAMED}the target names the image alone, and not its partner")
            mixed = said.diagonal() < 1  # an image may be its own partner
            swapped = torch.where(mixed[:, None], (said > 0).to(said) - said, said)
            if near(seen, swapped) and near(said.diagonal()[mixed], torch.tensor(share)):
                kept = f"{1 - share:.2g}"
                raise Mistake(
                    f"{NAMED}with share = {share} an image keeps {kept}, and it should keep `share`"
                )
            if near(seen, swapped):
                raise Mistake(
                    f"{NAMED}the shares of the target are swapped. They should be those of the image"
                )
            raise Mistake("images and targets do not agree")
        partner = (said - share * targets).argmax(dim=1)
        if not near(said, share * targets + (1 - share) * targets[partner]):
            if near(said.diagonal().min(), torch.tensor(share)):
                raise Mistake(
                    "a target holds more than two classes. A loop that writes into the batch it still reads from "
                    "meets partners that are blended already"
                )
            kept, _ = apart(said.diagonal().min().item(), share, 2)
            raise Mistake(f"with share = {share} an image keeps {kept}, and it should keep `share`")
        if share < 1 and len(set(partner.tolist())) < len(partner):
            raise Mistake("some images are partner of several, others of none. Draw a permutation")
    _, seen, said = blended(answer, 0.6, (2, 2), 0.9 * torch.eye(24) + 0.1 / 24)
    if not near(seen, said):
        raise Mistake(
            "right for targets of 0 and 1. Others, smoothed or blended before, should be blended as they are given"
        )


@demand(known("blend partners"))
def draws_partners(answer):
    targets = torch.eye(25)  # an odd number: partners are no pairs
    images, drawn = torch.randn(25, 3, 4, 5), []
    for _ in range(2):
        seen, said = run(answer, images, targets, 0.75)
        drawn.append((said - 0.75 * targets).argmax(dim=1))
        if not near(seen, 0.75 * images + 0.25 * images[drawn[-1]]):
            raise Mistake("a blended image is not the sum of its two. Blend every pixel with the same pixel")
    if torch.equal(drawn[0], torch.arange(25)):
        raise Mistake("nothing is blended, because every image is its own partner")
    if all(len(((rows - torch.arange(25)) % 25).unique()) == 1 for rows in drawn):
        raise Mistake("the partner is always the same number of places away. Draw a permutation")
    if torch.equal(*drawn):
        raise Mistake("two calls give the same partners. Draw them at random each time")


clinic("blend", targets_say_what_is_seen, draws_partners)

# -- score


@demand(known("score layers inside"))
def reaches_the_layers_inside(answer):
    model, images, labels, batch_size = scores_and_labels()[0]
    outcome(lambda f: f(model, images, labels, batch_size), answer, ())
    if not model.training and model.inner.training:
        raise Mistake(
            "the layers inside the model are still in training mode, and dropout goes on there. `model.eval()` tells "
            "them all, and `model.training = False` tells the model alone"
        )


SEEN = "your model is measured in training mode"  # a symptom, which comes first
clinic(
    "score",
    replace(
        measures_without_training,
        known={words: wrong for words, wrong in measures_without_training.known.items() if words != SEEN},
    ),
    results(scores_and_labels, MISCOUNTS, run=measured, plain=True),
    names_one_class,
    first=reaches_the_layers_inside,
)
