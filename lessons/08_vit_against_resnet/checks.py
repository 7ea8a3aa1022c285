"""Checks of lesson 08: ViT against ResNet."""

import copy
from collections import OrderedDict
from collections.abc import Callable
from math import sqrt
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.outcome import changed as changed_in_place
from vit_classroom.checks.task import Demand, demand, exercise, results
from vit_classroom.evidence.probes import (
    COST,
    PAPER_TABLE,
    SHIFTS,
    accuracy_under_shift,
    gain_and_cost,
    shift,
    unfair_points,
)
from vit_course.data import normalize
from vit_course.resnet import cifar_stem
from vit_course.train import evaluate

# -- unfair_points

UNFAIR = {
    "b": "part of the ViT's lead may come from its stronger augmentation, and nobody knows how much",
    "d": "nine times the training time for one side, and no table shows it",
    "f": "the test pictures chose the epoch, so they do not test any more: the best of many noisy numbers is too high",
    "g": "the best of five draws is higher than one draw, even for two equal models",
    "h": "one side has seen more than a million more pictures: the title gives the architecture credit for the data",
}
FAIR = {
    "a": "the same pictures for both, and choices are made on held-out pictures: this is how it should be",
    "c": "models need different optimisers and learning rates; what must be equal is the effort of the search, and "
    "here it is six trials each",
    "e": "no two architectures agree in everything; who shows parameters and FLOPs lets the reader judge",
    "i": "same machine, same batch, nothing else running: a clean measurement",
}


@demand(
    {
        "return the letters as a set": [lambda: [1, 3, 5], lambda: sorted(UNFAIR), lambda: "bdfgh"],
        "there is no point 'z'; the points are 'a' to 'i'": lambda: {"b", "z"},
        "there is no point 'b,d,f,g,h'": lambda: {"b,d,f,g,h"},
        "4 of 9 points are judged right": set,
        **{words: lambda letter=letter: set(UNFAIR) - {letter} for letter, words in UNFAIR.items()},
        **{words: lambda letter=letter: {*UNFAIR, letter} for letter, words in FAIR.items()},
    }
)
def accuses_the_unfair_alone(answer):
    got = outcome(lambda f: f(), answer, ())
    if isinstance(got, Exception):
        raise stopped(got)
    if not isinstance(got, set | frozenset) or not all(isinstance(letter, str) for letter in got):
        raise Mistake(f'return the letters as a set, for example {{"a", "z"}}; you returned {got!r:.200}')
    letters = {letter.strip().lower() for letter in got}
    if unknown := letters - UNFAIR.keys() - FAIR.keys():
        raise Mistake(f"there is no point {', '.join(map(repr, sorted(unknown)))}; the points are 'a' to 'i'")
    accused, missed = sorted(letters & FAIR.keys()), sorted(UNFAIR.keys() - letters)
    right = f"{9 - len(accused) - len(missed)} of 9 points are judged right"
    if accused:
        raise Mistake(f"{right}. Point {accused[0]} is fair: {FAIR[accused[0]]}")
    if missed:
        raise Mistake(f"{right}. Point {missed[0]} is unfair too: {UNFAIR[missed[0]]}")


exercise(unfair_points, accuses_the_unfair_alone)

# -- cifar_stem


def stem(also: Callable = lambda model: model, **options) -> Callable:
    """Return a `cifar_stem` with these options of its convolution; at the end it returns `also(model)`."""

    def answer(model, in_chans=3):
        given = {"in_channels": in_chans, "out_channels": model.conv1.out_channels, "kernel_size": 3}
        model.conv1 = nn.Conv2d(**given | {"padding": 1, "bias": False} | options)
        model.maxpool = nn.Identity()
        return also(model)

    return answer


def with_parts(**parts: nn.Module | None) -> Callable:
    """Return a `cifar_stem` that puts more parts into the model."""

    def put(model):
        for name, part in parts.items():
            setattr(model, name, part)
        return model

    return stem(put)


def forgets_the_pooling(model, in_chans=3):
    pooling = model.maxpool
    stem()(model, in_chans).maxpool = pooling
    return model


def forgets_to_assign(model, in_chans=3):
    conv1 = nn.Conv2d(in_chans, model.conv1.out_channels, 3, 1, 1, bias=False)
    model.maxpool = nn.Identity()
    return model if conv1 else None


def deletes_the_pooling(model):
    del model.maxpool
    return model


def sets_weights_to_zero(model):
    nn.init.zeros_(model.conv1.weight)
    return model


def freezes_the_convolution(model):
    model.conv1.requires_grad_(False)
    return model


def keeps_every_size(model):
    for part in model.modules():
        part.stride = (1, 1)
    return model


def cuts_the_old_kernel(model, in_chans=3):
    kernel = model.conv1.weight.detach()[:, :in_chans, 2:5, 2:5].clone()
    stem(in_channels=kernel.shape[1])(model).conv1.weight.data = kernel
    return model


class SmallNet(nn.Module):
    """A torchvision ResNet in small: its stem, and after it parts that must not change."""

    def __init__(self, width: int):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(width), nn.ReLU()
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = nn.Sequential(OrderedDict(conv1=nn.Conv2d(width, width, 3, padding=1)))
        self.layer2 = nn.Conv2d(width, width, 1, stride=2)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        self.seen = self.layer1(self.maxpool(self.relu(self.bn1(self.conv1(images)))))
        return self.fc(self.avgpool(self.layer2(self.seen)).flatten(1))


@demand(
    {
        "your function returned nothing": stem(lambda model: None),
        "return the model that you were given": stem(lambda model: model.conv1),
        "`model.conv1` should be one convolution": with_parts(
            conv1=nn.Sequential(nn.Conv2d(3, 6, 3, padding=1))
        ),
        "`model.conv1` has a 7x7 kernel": forgets_to_assign,
        "ask `model.conv1.out_channels` before you replace it": stem(out_channels=64),
        "`nn.Conv2d` takes the input channels first": lambda model, in_chans=3: stem(
            in_channels=model.conv1.out_channels, out_channels=in_chans
        )(model),
        "your convolution has groups=3": stem(groups=3),
        "your convolution reads 3 channels: use `in_chans`": [stem(in_channels=3), cuts_the_old_kernel],
        "the kernel should be 3x3, yours is 5x5": stem(kernel_size=5, padding=2),
        "your convolution has dilation 2": [stem(dilation=2), stem(dilation=2, padding=2)],
        "your convolution has a bias": stem(bias=True),
        "filters of your convolution are equal": [
            stem(sets_weights_to_zero),
            stem(lambda model: nn.init.dirac_(model.conv1.weight) is not None and model),
        ],
        "your convolution has stride 2": stem(stride=2),
        "a 3x3 kernel of stride 1 needs padding 1": stem(padding=0),
        "same size, other values: stride 1, padding 1 with zeros": stem(padding_mode="reflect"),
        "it must stay a module: one that does nothing": [with_parts(maxpool=None), stem(deletes_the_pooling)],
        "`model.maxpool` still turns 32x32 into 16x16": forgets_the_pooling,
        "`model.maxpool` keeps the size but changes values": with_parts(
            maxpool=nn.MaxPool2d(kernel_size=3, stride=1, padding=1)
        ),
        "you added drop to the model": with_parts(drop=nn.Dropout(0.1)),
        "you replaced fc as well": with_parts(fc=nn.Linear(6, 10)),
        "you changed more than the stem": [
            stem(
                lambda model: model.apply(
                    lambda part: isinstance(part, nn.Conv2d) and part.reset_parameters()
                )
            ),
            stem(keeps_every_size),
        ],
        "you froze layers after the stem": lambda model, in_chans=3: stem()(
            model.requires_grad_(False), in_chans
        ),
        "you put the model into evaluation or training mode": [
            stem(lambda model: model.eval()),
            stem(lambda model: model.train()),
        ],
        "no gradient reaches your new convolution": stem(freezes_the_convolution),
    }
)
def changes_the_stem_alone(answer):
    for width, given, size in ((6, [3], (32, 32)), (64, [4], (32, 32)), (5, [1], (12, 20)), (6, [], (8, 12))):
        model, channels = SmallNet(width).train(bool(given)), given[0] if given else 3
        before, layers = copy.deepcopy(model.state_dict()), dict(model.named_children())
        texts = {name: str(layer) for name, layer in layers.items()}
        result = outcome(lambda f, *case: f(*case), answer, (model, *given))
        asked = f"in_chans={channels}" if given else "in_chans left to its default, 3"
        where = f"for a ResNet whose conv1 has {width} output channels, and {asked}: "
        if isinstance(result, Exception):
            raise stopped(result, where)
        if result is None:
            raise Mistake("your function returned nothing; the lesson goes on with the model: `return model`")
        if result is not model:
            raise Mistake("return the model that you were given, changed in place, not something else")
        has_the_convolution(getattr(model, "conv1", None), width, channels, where)
        hands_its_input_on(getattr(model, "maxpool", None), torch.randn(2, width, *size))
        keeps_the_rest(model, layers, before, texts)
        if model.training != bool(given):
            raise Mistake("you put the model into evaluation or training mode: leave its mode alone")
        logits = model(torch.randn(2, channels, *size))
        if model.seen.shape[2:] != size:
            raise Mistake(f"{where}pictures of {size} leave the stem as {tuple(model.seen.shape[2:])}")
        logits.sum().backward()
        if any(parameter.grad is None for parameter in model.conv1.parameters()):
            raise Mistake("no gradient reaches your new convolution: it must stay trainable")


def has_the_convolution(conv: nn.Module, width: int, channels: int, where: str) -> None:
    """Demand the new first convolution: 3x3, of these channels, without a bias, drawn at random."""
    weight, groups = getattr(conv, "weight", None), getattr(conv, "groups", 1)
    if weight is None:
        raise Mistake("`model.conv1` should be one convolution, nn.Conv2d")
    if tuple(weight.shape[2:]) == (7, 7):
        raise Mistake("`model.conv1` has a 7x7 kernel: assign a new nn.Conv2d to it, with kernel_size=3")
    if weight.shape[0] != width and tuple(weight.shape[:2]) == (channels, width):
        raise Mistake("`nn.Conv2d` takes the input channels first, then the output's; yours are swapped")
    if weight.shape[0] != width:
        raise Mistake(
            f"{where}your convolution has {weight.shape[0]} output channels, but the next layer expects {width}: "
            "ask `model.conv1.out_channels` before you replace it"
        )
    if groups != 1:
        raise Mistake(
            f"your convolution has groups={groups}: a filter then sees only some of the colours; leave `groups` out"
        )
    if weight.shape[1] != channels:
        raise Mistake(f"{where}your convolution reads {weight.shape[1]} channels: use `in_chans`")
    if tuple(weight.shape[2:]) != (3, 3):
        raise Mistake(f"the kernel should be 3x3, yours is {weight.shape[2]}x{weight.shape[3]}")
    if (dilation := tuple(getattr(conv, "dilation", (1, 1)))) != (1, 1):
        raise Mistake(
            f"your convolution has dilation {dilation[0]}: it skips pixels between those that it reads; leave it out"
        )
    if getattr(conv, "bias", None) is not None:
        raise Mistake("your convolution has a bias: the batch norm after it subtracts every constant again")
    if len(weight.unique(dim=0)) < width:
        raise Mistake(
            "filters of your convolution are equal, so they would also learn the same: draw them at random, as "
            "nn.Conv2d does by itself"
        )
    has_the_stride(conv, torch.randn(2, channels, 12, 20))


def has_the_stride(conv: nn.Module, images: Tensor) -> None:
    """Demand stride 1 and one pixel of zeros all round."""
    want, got = F.conv2d(images, conv.weight, padding=1), conv(images)
    if got.shape[2:] == (6, 10):
        raise Mistake("your convolution has stride 2: it still halves the picture before the first block")
    if got.shape != want.shape:
        sides = f"{got.shape[2]}x{got.shape[3]}"
        raise Mistake(f"12x20 pixels become {sides}: a 3x3 kernel of stride 1 needs padding 1")
    if not torch.allclose(got, want, atol=1e-5):
        raise Mistake("same size, other values: stride 1, padding 1 with zeros, nothing else")


def hands_its_input_on(pooling: nn.Module | None, features: Tensor) -> None:
    """Demand a module in the place of the pooling that does nothing."""
    pooled = pooling(features.clone()) if callable(pooling) else None
    if pooled is None:
        raise Mistake("`model.maxpool` is called in forward, so it must stay a module: one that does nothing")
    if pooled.shape != features.shape:
        before, after = (f"{x.shape[2]}x{x.shape[3]}" for x in (features, pooled))
        raise Mistake(
            f"`model.maxpool` still turns {before} into {after}: put a module in its place that hands its input on"
        )
    if not torch.equal(pooled, features):
        raise Mistake("`model.maxpool` keeps the size but changes values: it should hand its input on")


def keeps_the_rest(
    model: nn.Module, layers: dict[str, nn.Module], before: dict[str, Tensor], texts: dict
) -> None:
    """Demand that all layers but the two of the task are the old ones, trainable, and in the mode they were in."""
    now = dict(model.named_children())
    if added := now.keys() - layers.keys():
        raise Mistake(f"you added {', '.join(sorted(added))} to the model: change only `conv1` and `maxpool`")
    others = layers.keys() - {"conv1", "maxpool"}
    if other := sorted(name for name in others if now.get(name) is not layers[name]):
        raise Mistake(f"you replaced {', '.join(other)} as well: change `conv1` and `maxpool` alone")
    weights = {name: value for name, value in model.state_dict().items() if not name.startswith("conv1")}
    same = all(str(layers[name]) == texts[name] for name in others)
    if not same or any(not torch.equal(before[name], value) for name, value in weights.items()):
        raise Mistake(
            "you changed more than the stem: the blocks after it should stay as they are (a pass forward, too, changes "
            "what batch norms keep)"
        )
    if not all(parameter.requires_grad for name in others for parameter in layers[name].parameters()):
        raise Mistake("you froze layers after the stem: all of them are trained later")


exercise(cifar_stem, changes_the_stem_alone)

# -- accuracy_under_shift


def position_reader() -> nn.Module:
    """Return a model that reacts to every pixel and to the mode it is in, left in training mode."""
    torch.default_generator.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(48), nn.Linear(48, 4)).train()


def measure(function: Callable, shifts: tuple | list) -> list | None:
    """Call a function with a model and pictures; return the accuracies in the order of the shifts."""
    torch.default_generator.manual_seed(4)
    images = (100 + 155 * torch.rand(620, 2, 3, 8)).to(torch.uint8)
    stats = (torch.tensor([0.6, 0.7]), torch.tensor([0.2, 0.3]))
    with torch.no_grad():
        labels = position_reader().eval()(normalize(images, *stats)).argmax(1)
    labels[::5] = (labels[::5] + 1) % 4  # what the model says is not always right
    given = images, labels, stats
    mine = copy.deepcopy(given)
    model = position_reader()
    found = function(model, *mine, shifts)
    if not model[2].weight.requires_grad or model[2].weight.dtype != torch.float32:
        raise Mistake("afterwards the model is another: it cannot learn any more, or has another precision")
    if changed_in_place(given, mine):
        raise Mistake(
            "your code changes the pictures, labels or stats in place: the next shift starts from them"
        )
    if found is None:
        return None
    if not isinstance(found, dict):
        raise Mistake(f"return a dict, shift -> accuracy; you returned {type(found).__name__}")
    if set(found) != set(shifts):
        text = ", as numbers, 2 and not '2'" if any(isinstance(key, str) for key in found) else ""
        raise Mistake(f"for shifts = {shifts} these should be the keys{text}; yours are {list(found)!r:.100}")
    return [found[pixels] for pixels in shifts]


def each_shift(score: Callable) -> Callable:
    """Return an `accuracy_under_shift` that gets one accuracy of (model, images, labels, stats, pixels)."""
    return lambda model, images, labels, stats, shifts=(0, 1, 2, 3, 4, 6, 8): {
        pixels: score(model, images, labels, stats, pixels) for pixels in shifts
    }


def evaluated(change: Callable = shift, pick: Callable = lambda pair: pair[0]) -> Callable:
    """Return an answer that shows `change(images, pixels)` to `evaluate` and picks from what that returns."""
    return each_shift(
        lambda model, images, labels, stats, s: pick(evaluate(model, change(images, s), labels, stats))
    )


def by_hand(prepare: Callable, training=False) -> Callable:
    """Return an answer that does without `evaluate`: `prepare(images, stats, pixels)` gives the model's input."""

    @torch.no_grad()
    def score(model, images, labels, stats, pixels):
        model.train(training)
        return (model(prepare(images, stats, pixels)).argmax(1) == labels).double().mean().item()

    return each_shift(score)


def shifted_and_normalised(images, stats, pixels):
    return normalize(shift(images, pixels), *stats)


def own_stats(pictures):
    share = pictures.float() / 255
    return share.mean((0, 2, 3)), share.std((0, 2, 3))


def adds_up(model, images, labels, stats, shifts=SHIFTS):
    found = {}
    for pixels in shifts:
        images = shift(images, pixels)
        found[pixels] = evaluate(model, images, labels, stats)[0]
    return found


def blackens_the_pictures(model, images, labels, stats, shifts=SHIFTS):
    found = {}
    for pixels in shifts:
        found[pixels] = evaluate(model, shift(images, pixels), labels, stats)[0]
        images[..., :pixels] = 0
    return found


def scales_the_stats(model, images, labels, stats, shifts=SHIFTS):
    found = evaluated()(model, images, labels, stats, shifts)
    stats[0].mul_(255)
    return found


def stops_after_the_first(model, images, labels, stats, shifts=SHIFTS):
    for pixels in shifts:
        return {pixels: evaluate(model, shift(images, pixels), labels, stats)[0]}


def compares_with_its_answers(model, images, labels, stats, shifts=SHIFTS):
    with torch.no_grad():
        said = model.eval()(normalize(images, *stats)).argmax(1)
    return evaluated()(model, images, said, stats, shifts)


def difference_to_untouched(model, images, labels, stats, shifts=SHIFTS):
    found = evaluated()(model, images, labels, stats, (0, *shifts))
    return {pixels: found[pixels] - found[0] for pixels in shifts}


def as_list(model, images, labels, stats, shifts=SHIFTS):
    return list(evaluated()(model, images, labels, stats, shifts).values())


def by_text(model, images, labels, stats, shifts=SHIFTS):
    return {str(s): value for s, value in evaluated()(model, images, labels, stats, shifts).items()}


def for_shifts(function: Callable) -> Callable:
    """Return a function of the shifts alone: model and pictures are the same in every case."""

    def accuracy(shifts):
        return measure(function, shifts)

    return accuracy


def measures(cases: Callable, known: dict[str, Callable]) -> Demand:
    """Demand the accuracies of the finished version for these shifts."""
    several = {words: wrong if isinstance(wrong, list) else [wrong] for words, wrong in known.items()}
    measured = results(cases, {words: [for_shifts(f) for f in wrong] for words, wrong in several.items()})
    return Demand(lambda answer, reference: measured.verify(for_shifts(answer), for_shifts(reference)), known)


exercise(
    accuracy_under_shift,
    measures(
        lambda: [((0,),), ((2,),), ((0, 1, 3),), ([4, 1, 2],), ((6, 5),)],
        {
            "the accuracy is that of the untouched pictures: score the shifted ones": evaluated(
                lambda images, _: images
            ),
            "your shifts add up: each one should start from the untouched pictures": adds_up,
            "you return the loss: `evaluate` gives (accuracy, loss), take the first": evaluated(
                pick=lambda pair: pair[1]
            ),
            "you return percent: a share in 0..1 was asked for": evaluated(pick=lambda pair: 100 * pair[0]),
            "the pictures are normalised twice: `evaluate` does it, so give it the shifted uint8 pictures": each_shift(
                lambda model, images, labels, stats, s: evaluate(
                    model, shifted_and_normalised(images, stats, s), labels, stats
                )[0]
            ),
            "you take mean and deviation anew from the pictures that are scored: the model learned with `stats`": [
                each_shift(
                    lambda model, images, labels, stats, s: evaluate(
                        model, shift(images, s), labels, own_stats(shift(images, s))
                    )[0]
                ),
                lambda model, images, labels, stats, *shifts: evaluated()(
                    model, images, labels, own_stats(images), *shifts
                ),
            ],
            "you compare with what the model says about the untouched pictures: compare with `labels`": (
                compares_with_its_answers
            ),
            "the pictures move to the left: `shift` moves them to the right": evaluated(
                lambda images, pixels: shift(images.flip(-1), pixels).flip(-1)
            ),
            "take the accuracy alone: `evaluate` gives the pair (accuracy, loss)": evaluated(
                pick=lambda pair: pair
            ),
            "you shift after normalising: then 0 is the mean colour, not black. Shift the uint8 pictures": by_hand(
                lambda images, stats, pixels: shift(normalize(images, *stats), pixels)
            ),
            "the model is in training mode while it is scored: `model.eval()` first": by_hand(
                shifted_and_normalised, training=True
            ),
            "the pictures reach the model without normalisation; `evaluate` does it": by_hand(
                lambda images, stats, pixels: shift(images, pixels).float() / 255
            ),
            "you return the loss of accuracy against shift 0: return the accuracy itself": [
                difference_to_untouched,
                lambda *case: {s: -value for s, value in difference_to_untouched(*case).items()},
            ],
            "afterwards the model is another": lambda model, *given: (
                evaluated()(model, *given),
                model.requires_grad_(False),
            )[0],
            "your code changes the pictures, labels or stats in place": [
                blackens_the_pictures,
                scales_the_stats,
            ],
            "all pictures count, and each counts equally": [
                each_shift(
                    lambda model, x, y, stats, s: evaluate(model, shift(x[:100], s), y[:100], stats)[0]
                ),
                each_shift(
                    lambda model, images, labels, stats, s: fmean(
                        evaluate(model, shift(x, s), y, stats)[0]
                        for x, y in zip(images.split(500), labels.split(500), strict=True)
                    )
                ),
            ],
            "for shifts = (0, 1, 3) these should be the keys; yours are [0]": stops_after_the_first,
            "these should be the keys, as numbers, 2 and not '2'": by_text,
            "return a dict, shift -> accuracy; you returned list": as_list,
            "what leaves on the right comes back on the left: that is `roll`; use `shift`, in which black comes in": (
                evaluated(lambda images, pixels: images.roll(pixels, dims=-1))
            ),
            "you round: return the accuracy as it is": evaluated(pick=lambda pair: round(pair[0], 1)),
        },
    ),
)

# -- gain_and_cost


class PaperTable(dict):
    """`PAPER_TABLE`, which a message names instead of printing it."""

    def __repr__(self) -> str:
        return "PAPER_TABLE"


def duel(a: tuple | None, b: tuple | None, first: str = "A", second: str = "B") -> tuple:
    """Return a small table of two models, and which of them to compare."""
    return {"A": {"cats": a, COST: 100}, "B": {COST: 400, "cats": b}}, first, second, "cats"


def look_ups() -> list[tuple]:
    """Return tables with two models and a task: small ones, then the paper's."""
    vit, bit, noisy = "ViT-L/16, JFT", "BiT-L (ResNet152x4), JFT", "Noisy Student (EfficientNet-L2)"
    paper = PaperTable(PAPER_TABLE)
    return [
        duel((90.0, 0.3), (80.0, 0.4)),
        duel((90.0, 0.3), (80.0, 0.4), "B", "A"),
        duel(None, (7.0, 0.1)),
        duel(None, (7.0, 0.1), "B", "A"),
        duel((0.0, 0.0), (5.0, 0.6)),
        duel((50.0, None), (40.0, 0.2)),
        duel(None, None),
        duel((90.0, 0.3), None, "A", "A"),
        duel((5.0, 0.6), (0.0, 0.0)),
        (paper, vit, bit, "VTAB"),
        (paper, vit, noisy, "CIFAR-10"),
        (paper, vit, noisy, "ImageNet"),
        (paper, vit, vit, "Flowers"),
    ]


def look_up(function: Callable, table: dict, *names: str) -> object:
    """Call a function with a copy of the table, which must not change."""
    mine = copy.deepcopy(table)
    found = function(mine, *names)
    if mine != table:
        raise Mistake("your code changes the table: whoever called it still needs the old values")
    return found


def minus(a, b):
    return a - b


def three_runs(s, t):
    return sqrt((s**2 + t**2) / 3)


def comparison(
    gain: Callable = minus, error: Callable = three_runs, cost: Callable = lambda m, t: m / t
) -> Callable:
    """Return a `gain_and_cost` that computes from two accuracies, two deviations, two costs like this."""

    def answer(table, first, second, task):
        a, b = (table[name][task] or (None, None) for name in (first, second))
        means, deviations = zip(a, b, strict=True)
        return (
            None if None in means else gain(*means),
            None if None in deviations else error(*deviations),
            cost(table[first][COST], table[second][COST]),
        )

    return answer


def changed(change: Callable) -> Callable:
    """Return an answer that changes the right (gain, error, cost) at the end."""
    return lambda *case: change(*gain_and_cost(*case))


def with_missing(value: tuple) -> Callable:
    """Return an answer that takes this (mean, deviation) where a value is missing."""

    def answer(table, first, second, task):
        filled = {name: {**table[name], task: table[name][task] or value} for name in (first, second)}
        return gain_and_cost(filled, first, second, task)

    return answer


def unknown_is_zero(table, first, second, task):
    (a, s), (b, t) = (table[name][task] or (None, None) for name in (first, second))
    gain, _, cost = gain_and_cost(table, first, second, task)
    return gain, None if gain is None else three_runs(s or 0, t or 0), cost


def missing_is_zero(table, first, second, task):
    (a, s), (b, t) = (table[name][task] or (0.0, 0.0) for name in (first, second))
    return a - b, three_runs(s or 0, t or 0), table[first][COST] / table[second][COST]


def tests_truth(table, first, second, task):
    (a, s), (b, t) = (table[name][task] or (None, None) for name in (first, second))
    cost = table[first][COST] / table[second][COST]
    return a - b if a and b else None, three_runs(s, t) if s and t else None, cost


def fills_the_table(table, first, second, task):
    for name in (first, second):
        table[name][task] = table[name][task] or (0.0, 0.0)
    return gain_and_cost(table, first, second, task)


exercise(
    gain_and_cost,
    results(
        look_ups,
        {
            "this is half a 95 % interval, about two errors: the standard error itself is asked for": [
                comparison(error=lambda s, t: 1.96 * three_runs(s, t)),
                comparison(error=lambda s, t: 2 * three_runs(s, t)),
            ],
            "a model compared with itself has an error too: its mean is as uncertain as before": lambda *case: (
                (0.0, 0.0, 1.0) if case[1] == case[2] else gain_and_cost(*case)
            ),
            "the cost should be a quotient: 'how many times as much', not 'how much more'": comparison(
                cost=minus
            ),
            "the gain should be in percentage points, a difference; you give percent of the second accuracy": (
                comparison(lambda a, b: 100 * (a - b) / b)
            ),
            "the gain has a sign: below 0 where the first model is worse, so no `abs`": comparison(
                lambda a, b: abs(a - b)
            ),
            "the accuracies are in percent already, so the gain in points is their difference: do not divide": (
                comparison(lambda a, b: (a - b) / 100)
            ),
            "deviations do not add up: their *squares* do, sqrt((s² + t²) / 3)": [
                comparison(error=lambda s, t: (s + t) / sqrt(3)),
                comparison(error=lambda s, t: s + t),
            ],
            "this is how far two single runs differ; the means of three runs differ less: divide the sum of the "
            "squares by 3": [
                comparison(error=lambda s, t: sqrt(s**2 + t**2)),
                comparison(error=lambda s, t: sqrt(s**2 + t**2 / 3)),
            ],
            "each of the two means comes from three runs: divide the sum of the squares by 3, not by 6 or 2": [
                comparison(error=lambda s, t: sqrt((s**2 + t**2) / 6)),
                comparison(error=lambda s, t: sqrt((s**2 + t**2) / 2)),
            ],
            "you use one of the two deviations: both means scatter, and their squares add up": [
                comparison(error=lambda s, t: s / sqrt(3)),
                comparison(error=lambda s, t: t / sqrt(3)),
            ],
            "the 3 belongs under the root, beside the squares: sqrt((s² + t²) / 3)": comparison(
                error=lambda s, t: sqrt(s**2 + t**2) / 3
            ),
            "`**` comes before `/`, so the root is that of 3 alone: brackets round the quotient": comparison(
                error=lambda s, t: (s**2 + t**2) / 3**0.5
            ),
            "a missing accuracy is not 0: where one is None, gain and error are None": [
                with_missing((0.0, 0.0)),
                missing_is_zero,
            ],
            "a missing accuracy is not a gain of 0: where one is None, the gain is None": changed(
                lambda gain, error, cost: (gain or 0.0, error, cost)
            ),
            "a deviation that the table does not give is not 0: then the error is None": unknown_is_zero,
            "0 is not missing, neither as an accuracy nor as a deviation: test with `is None`": tests_truth,
            "two models that are equally good have a gain of 0, not None: test with `is None`": changed(
                lambda gain, error, cost: (gain or None, error, cost)
            ),
            "where the deviation is missing, the error is None, but the gain is known all the same": changed(
                lambda gain, error, cost: (None if error is None else gain, error, cost)
            ),
            "where an accuracy is missing, gain and error are None, but the cost is known all the same": [
                changed(lambda gain, error, cost: (gain, error, None if gain is None else cost)),
                changed(lambda gain, error, cost: None if gain is None else (gain, error, cost)),
            ],
            "the error is missing: return (gain, error, cost)": changed(
                lambda gain, error, cost: (gain, cost)
            ),
            "your code changes the table": fills_the_table,
        },
        run=look_up,
    ),
)
