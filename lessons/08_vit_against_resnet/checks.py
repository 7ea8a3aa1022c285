"""Checks of lesson 08: ViT against ResNet."""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course import resnet
from vit_course.classroom.checks.compare import compare
from vit_course.classroom.checks.outcome import Mistake, outcome
from vit_course.classroom.checks.parts import counting
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import explain_error
from vit_course.data import normalize
from vit_course.experiments import probes

UNFAIR = {
    "b": "part of the ViT's lead may come from its stronger augmentation, and nobody knows how much",
    "d": "nine times the training time for one side, and no table shows it",
    "f": "the test pictures chose the epoch, so they do not test any more: the best of many noisy numbers is too high",
    "g": "the best of five draws is higher than one draw, also for two equal models",
    "h": "one side has seen more than a million more pictures: the title credits the architecture with the data",
}
FAIR = {
    "a": "the same pictures for both, and choices are made on held-out pictures: this is how it should be",
    "c": "models need different optimisers and learning rates; what must be equal is the effort of the search, and "
    "here it is six trials each",
    "e": "no two architectures agree in everything; who shows parameters, FLOPs and minutes lets the reader judge",
    "i": "same machine, same batch, nothing else running: a clean measurement",
}


@exercise(probes.unfair_points)
def check_unfair_points(answer):
    got = outcome(lambda f: f(), answer, ())
    if isinstance(got, Exception):
        raise Mistake(f"your code stopped with {explain_error(got)}")
    if not isinstance(got, set | frozenset | list | tuple | dict | str) or not all(
        isinstance(letter, str) for letter in got
    ):
        raise Mistake(f'return the letters as a set, for example {{"a", "z"}}; you returned {got!r:.200}')
    letters = {letter.strip().lower() for letter in got}
    if unknown := letters - UNFAIR.keys() - FAIR.keys():
        raise Mistake(f"there is no point {', '.join(map(repr, sorted(unknown)))}; the points are 'a' to 'i'")
    accused = sorted(letters & FAIR.keys())
    missed = sorted(UNFAIR.keys() - letters)
    if not accused and not missed:
        return
    right = 9 - len(accused) - len(missed)
    if accused:
        raise Mistake(f"{right} of 9 points are judged right. Point {accused[0]} is fair: {FAIR[accused[0]]}")
    raise Mistake(
        f"{right} of 9 points are judged right. Point {missed[0]} is unfair too: {UNFAIR[missed[0]]}"
    )


class _SmallNet(nn.Module):
    """The stem of a torchvision ResNet, and something behind it that must not change."""

    def __init__(self, width: int):
        super().__init__()
        self.inplanes = width
        self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(width), nn.ReLU()
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        return self.layer1(self.maxpool(self.relu(self.bn1(self.conv1(images)))))


@exercise(resnet.cifar_stem)
def check_cifar_stem(answer):
    for width, given, size in ((8, [3], (32, 32)), (64, [3], (32, 32)), (5, [1], (12, 20)), (6, [], (8, 12))):
        model, channels = _SmallNet(width), given[0] if given else 3
        before = {name: value.clone() for name, value in model.state_dict().items()}
        layers = dict(model.named_children())
        result = outcome(lambda f, *case: f(*case), answer, (model, *given))
        asked = f"in_chans={channels}" if given else "in_chans left to its default, 3"
        where = f"for a ResNet whose conv1 has {width} output channels, and {asked}: "
        if isinstance(result, Exception):
            raise Mistake(f"{where}your code stopped with {explain_error(result)}")
        if result is None:
            raise Mistake("your function returned nothing; the lesson goes on with the model: `return model`")
        if result is not model:
            raise Mistake("return the model that you were given, changed in place, not something else")
        _check_first_convolution(getattr(model, "conv1", None), width, channels, where)
        features = torch.randn(2, width, *size)
        pooling = getattr(model, "maxpool", None)
        pooled = pooling(features.clone()) if callable(pooling) else None
        if pooled is None:
            raise Mistake(
                "`model.maxpool` is called in forward, so it must stay a module: one that does nothing"
            )
        if pooled.shape != features.shape:
            raise Mistake(
                f"`model.maxpool` still turns {size[0]}x{size[1]} into {pooled.shape[2]}x{pooled.shape[3]}: put a "
                "module in its place that hands its input on"
            )
        if not torch.equal(pooled, features):
            raise Mistake(
                "`model.maxpool` keeps the size but changes values: it should hand its input on as it is"
            )
        out = model(torch.randn(2, channels, *size))
        if out.shape[2:] != size:
            raise Mistake(f"{where}pictures of {size} leave the stem as {tuple(out.shape[2:])}")
        rest = {name: value for name, value in model.state_dict().items() if name.startswith("layer1")}
        if any(not torch.equal(before[name], value) for name, value in rest.items()):
            raise Mistake("you changed more than the stem: the blocks behind it should stay as they are")
        _check_the_rest(model, layers)
        out.sum().backward()
        if any(parameter.grad is None for parameter in model.conv1.parameters()):
            raise Mistake("no gradient reaches your new convolution: it must stay trainable")


def _check_the_rest(model: nn.Module, layers: dict[str, nn.Module]) -> None:
    """All layers but the two of the task must be the old ones, trainable, and in the mode they were in."""
    now = dict(model.named_children())
    if added := now.keys() - layers.keys():
        raise Mistake(
            f"you added {', '.join(sorted(added))} to the model: change `conv1` and `maxpool` alone"
        )
    others = layers.keys() - {"conv1", "maxpool"}
    if other := sorted(name for name in others if now.get(name) is not layers[name]):
        raise Mistake(f"you replaced {', '.join(other)} as well: change `conv1` and `maxpool` alone")
    if not all(parameter.requires_grad for name in others for parameter in layers[name].parameters()):
        raise Mistake("you froze layers behind the stem: all of them are trained later")
    if not model.training:
        raise Mistake("you put the model into evaluation mode: leave its mode alone")


def _check_first_convolution(conv: nn.Module, width: int, channels: int, where: str) -> None:
    """Name what is wrong with the new first convolution."""
    weight = getattr(conv, "weight", None)
    if weight is None:
        raise Mistake("`model.conv1` should be one convolution, nn.Conv2d")
    if tuple(weight.shape[2:]) == (7, 7):
        raise Mistake("`model.conv1` still has its 7x7 kernel: assign a new nn.Conv2d to `model.conv1`")
    if weight.shape[0] != width:
        raise Mistake(
            f"{where}your convolution has {weight.shape[0]} output channels, but the next layer expects {width}: "
            "ask `model.conv1.out_channels` before you replace it"
        )
    if weight.shape[1] != channels:
        raise Mistake(f"{where}your convolution reads {weight.shape[1]} channels: use `in_chans`")
    if tuple(weight.shape[2:]) != (3, 3):
        raise Mistake(f"the kernel should be 3x3, yours is {weight.shape[2]}x{weight.shape[3]}")
    if getattr(conv, "bias", None) is not None:
        raise Mistake("your convolution has a bias: the batch norm behind it subtracts every constant again")
    if bool((weight[0] == weight).all()):
        raise Mistake(
            "all filters of your convolution are equal, so they would also learn the same: draw them at random, as "
            "nn.Conv2d does by itself"
        )
    images = torch.randn(2, channels, 12, 20)
    want, got = F.conv2d(images, weight, padding=1), conv(images)
    if got.shape == want.shape:
        if not torch.allclose(got, want, atol=1e-5):
            raise Mistake("same size, other values: stride 1, padding 1 with zeros, nothing else")
    elif got.shape[2:] == (6, 10):
        raise Mistake("your convolution has stride 2: it still halves the picture before the first block")
    else:
        raise Mistake(
            f"12x20 pixels become {got.shape[2]}x{got.shape[3]}: a 3x3 kernel of stride 1 needs padding 1"
        )


@exercise(probes.shift)
def check_shift(answer):
    cases = [
        (counting(1, 1, 2, 4) + 1, 1),
        (counting(1, 1, 2, 4) + 1, 3),
        (counting(2, 3, 4, 6) + 1, 2),
        (torch.rand(2, 1, 5, 3), 3),
        ((255 * torch.rand(2, 3, 8, 12)).to(torch.uint8), 5),
        (torch.rand(2, 3, 5, 4, dtype=torch.float64), 3),
        (torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last), 1),
    ]

    def roll(images, pixels):
        return images.roll(pixels, dims=-1)

    def left(images, pixels):
        return probes.shift(images.flip(-1), pixels).flip(-1)

    def down(images, pixels):
        return F.pad(images, (0, 0, pixels, 0))[..., : images.shape[2], :]

    def up(images, pixels):
        return F.pad(images, (0, 0, 0, pixels))[..., -images.shape[2] :, :]

    def wider(images, pixels):
        return F.pad(images, (pixels, 0))

    def smeared(images, pixels):
        columns = (torch.arange(images.shape[-1]) - pixels).clamp(min=0)
        return images[..., columns]

    def black_only(images, pixels):
        result = images.clone()
        result[..., :pixels] = 0
        return result

    def cut(images, pixels):
        return images[..., : images.shape[-1] - pixels]

    def kept_left(images, pixels):
        result = images.clone()
        result[..., pixels:] = images[..., : images.shape[-1] - pixels]
        return result

    def height(images, pixels):
        result = torch.zeros_like(images)
        result[..., pixels:] = images[..., : images.shape[2] - pixels]
        return result

    def darkest(images, pixels):
        result = probes.shift(images, pixels)
        result[..., :pixels] = images.min()
        return result

    def one_more(images, pixels):
        return probes.shift(images, min(pixels + 1, images.shape[-1]))

    compare(
        answer,
        probes.shift,
        cases,
        [
            (roll, "what leaves on the right comes back on the left: that is `roll`. Black should come in"),
            (left, "your picture moves to the left"),
            (down, "your picture moves down: the width is the last axis"),
            (up, "your picture moves up: the width is the last axis, and it should move to the right"),
            (wider, "the picture has grown: cut off what leaves on the right, so that W stays"),
            (cut, "the picture has become narrower: fill up with black on the left, so that W stays"),
            (smeared, "the first column is repeated on the left: it should be black there, 0"),
            (kept_left, "old pixels are left standing on the left: it should be black there, 0"),
            (
                height,
                "you count the columns with the height H: the width is the last axis, `images.shape[-1]`",
            ),
            (darkest, "the darkest value of the pictures comes in from the left: it should be black, 0"),
            (one_more, "your picture moves one pixel too far"),
            (black_only, "the left is black, but nothing has moved"),
        ],
    )
    picture = counting(1, 1, 2, 4) + 1
    nothing = outcome(lambda f, *case: f(*case), answer, (picture, 0))
    if not isinstance(nothing, Tensor) or not torch.equal(nothing, picture):
        raise Mistake(
            "a shift of 0 pixels should change nothing. Careful with a slice that ends at `-pixels`: `x[:-0]` is empty"
        )
    answer(picture, 0).add_(1)
    if picture[0, 0, 0, 0] != 1:
        raise Mistake("for 0 pixels you hand back the input itself: return a new tensor, as for other shifts")


def _position_reader() -> nn.Module:
    """A model that reacts to every pixel and to the mode it is in, left in training mode."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(48), nn.Linear(48, 4))
    return model.train()


@exercise(probes.accuracy_under_shift)
def check_accuracy_under_shift(answer):
    torch.manual_seed(4)
    images = (100 + 155 * torch.rand(40, 2, 3, 8)).to(torch.uint8)
    stats = (torch.tensor([0.6, 0.7]), torch.tensor([0.2, 0.3]))
    with torch.no_grad():
        labels = _position_reader().eval()(normalize(images, *stats)).argmax(1)
    labels[::5] = (labels[::5] + 1) % 4  # what the model says is not always right

    def prepared(function):
        def accuracy(shifts):
            given = [images.clone(), labels.clone()]
            result = function(_position_reader(), *given, stats, shifts)
            if not torch.equal(given[0], images) or not torch.equal(given[1], labels):
                raise Mistake(
                    "your code changes the pictures in place: the next shift then starts from shifted ones"
                )
            if result is None:
                return None
            if not isinstance(result, dict):
                raise Mistake(f"return a dict, shift -> accuracy; you returned {type(result).__name__}")
            if set(result) != set(shifts):
                text = ", as numbers, 2 and not '2'" if any(isinstance(key, str) for key in result) else ""
                raise Mistake(
                    f"for shifts = {shifts} these should be the keys{text}; yours are {list(result)!r:.100}"
                )
            return [result[pixels] for pixels in shifts]

        return accuracy

    def scored(model, x, labels):
        with torch.no_grad():
            return (model(x).argmax(1) == labels).double().mean().item()

    shift, evaluate = probes.shift, probes.evaluate

    def loss(model, images, labels, stats, shifts):
        return {s: evaluate(model, shift(images, s), labels, stats)[1] for s in shifts}

    def both(model, images, labels, stats, shifts):
        return {s: evaluate(model, shift(images, s), labels, stats) for s in shifts}

    def percent(model, images, labels, stats, shifts):
        return {s: 100 * evaluate(model, shift(images, s), labels, stats)[0] for s in shifts}

    def normalised_twice(model, images, labels, stats, shifts):
        return {s: evaluate(model, normalize(shift(images, s), *stats), labels, stats)[0] for s in shifts}

    def own_answers(model, images, labels, stats, shifts):
        with torch.no_grad():
            said = model.eval()(normalize(images, *stats)).argmax(1)
        return {s: evaluate(model, shift(images, s), said, stats)[0] for s in shifts}

    def to_the_left(model, images, labels, stats, shifts):
        return {s: evaluate(model, shift(images.flip(-1), s).flip(-1), labels, stats)[0] for s in shifts}

    def error_rate(model, images, labels, stats, shifts):
        return {s: 1 - evaluate(model, shift(images, s), labels, stats)[0] for s in shifts}

    def adds_up(model, images, labels, stats, shifts):
        result = {}
        for s in shifts:
            images = shift(images, s)
            result[s] = evaluate(model, images, labels, stats)[0]
        return result

    def never_shifted(model, images, labels, stats, shifts):
        return {s: evaluate(model, images, labels, stats)[0] for s in shifts}

    def after_normalising(model, images, labels, stats, shifts):
        return {s: scored(model.eval(), shift(normalize(images, *stats), s), labels) for s in shifts}

    def training_mode(model, images, labels, stats, shifts):
        return {s: scored(model.train(), normalize(shift(images, s), *stats), labels) for s in shifts}

    def not_normalised(model, images, labels, stats, shifts):
        return {s: scored(model.eval(), shift(images, s).float() / 255, labels) for s in shifts}

    def agreement(model, images, labels, stats, shifts):
        base = evaluate(model, images, labels, stats)[0]
        return {s: evaluate(model, shift(images, s), labels, stats)[0] - base for s in shifts}

    compare(
        prepared(answer),
        prepared(probes.accuracy_under_shift),
        [((0,),), ((2,),), ((0, 1, 3),), ([4, 1, 2],)],
        [
            (
                prepared(never_shifted),
                "the accuracy is that of the untouched pictures: score the shifted ones",
            ),
            (prepared(adds_up), "your shifts add up: each one should start from the untouched pictures"),
            (prepared(loss), "you return the loss: `evaluate` gives (accuracy, loss), take the first"),
            (prepared(percent), "you return percent: a share in 0..1 was asked for"),
            (
                prepared(error_rate),
                "you return the share of *wrong* answers: the share of right ones was asked for",
            ),
            (
                prepared(normalised_twice),
                "the pictures are normalised twice: `evaluate` does it, so give it the shifted uint8 pictures",
            ),
            (
                prepared(own_answers),
                "you compare with what the model says about the untouched pictures: compare with `labels`",
            ),
            (prepared(to_the_left), "the pictures move to the left: `shift` moves them to the right"),
            (prepared(both), "take the accuracy alone: `evaluate` gives the pair (accuracy, loss)"),
            (
                prepared(after_normalising),
                "you shift after normalising: then 0 is the mean colour, not black. Shift the uint8 pictures",
            ),
            (
                prepared(training_mode),
                "the model is in training mode while it is scored: `model.eval()` first",
            ),
            (
                prepared(not_normalised),
                "the pictures reach the model without normalisation; `evaluate` does it",
            ),
            (
                prepared(agreement),
                "you return the loss of accuracy against shift 0: return the accuracy itself",
            ),
        ],
    )


class _PaperTable(dict):
    """`PAPER_TABLE`, which a message names instead of printing it."""

    def __repr__(self) -> str:
        return "PAPER_TABLE"


@exercise(probes.gain_and_cost)
def check_gain_and_cost(answer):
    cost = probes.COST
    small = {"A": {"cats": 90.0, "dogs": None, cost: 100}, "B": {"cats": 80.0, "dogs": 70.0, cost: 400}}
    poor = {"A": {"owls": 0.0, "bees": None, cost: 100}, "B": {"owls": 5.0, "bees": None, cost: 400}}
    paper = _PaperTable(probes.PAPER_TABLE)
    vit, bit, noisy = "ViT-L/16, JFT", "BiT-L (ResNet152x4), JFT", "Noisy Student (EfficientNet-L2)"
    cases = [
        (small, "A", "B", "cats"),
        (small, "B", "A", "cats"),
        (small, "A", "B", "dogs"),
        (small, "B", "A", "dogs"),
        (paper, vit, bit, "VTAB"),
        (paper, vit, noisy, "CIFAR-10"),
        (paper, vit, vit, "Pets"),
        (poor, "A", "B", "owls"),
        (poor, "A", "B", "bees"),
    ]

    def parts(table, first, second, task):
        return table[first][task], table[second][task], table[first][cost], table[second][cost]

    def known(formula):
        def function(table, first, second, task):
            a, b, mine, theirs = parts(table, first, second, task)
            return formula(a, b, mine, theirs)

        return function

    def gain(a, b):
        return None if a is None or b is None else a - b

    def run(function, table, *names):
        mine = copy.deepcopy(table)
        result = function(mine, *names)
        if mine != table:
            raise Mistake("your code changes the table: whoever called it still needs the old values")
        return result

    compare(
        answer,
        probes.gain_and_cost,
        cases,
        [
            (
                known(lambda a, b, m, t: (gain(b, a), m / t)),
                "the sign of the gain is turned round: first minus second",
            ),
            (
                known(lambda a, b, m, t: (gain(a, b), t / m)),
                "the cost is turned round: first divided by second",
            ),
            (
                known(lambda a, b, m, t: (gain(b, a), t / m)),
                "first and second are swapped, in the gain and in the cost",
            ),
            (
                known(lambda a, b, m, t: (gain(a, b), m - t)),
                "the cost should be a quotient: 'how many times as much', not 'how much more'",
            ),
            (
                known(lambda a, b, m, t: (None if gain(a, b) is None else 100 * (a - b) / b, m / t)),
                "the gain should be in percentage points, a difference; you give percent of the second accuracy",
            ),
            (
                known(lambda a, b, m, t: (None if gain(a, b) is None else a / b, m / t)),
                "the gain should be a difference of accuracies, not a quotient",
            ),
            (
                known(lambda a, b, m, t: ((a or 0) - (b or 0), m / t)),
                "a missing accuracy is not 0: where one is None, the gain is None",
            ),
            (
                known(lambda a, b, m, t: (gain(a, b) or 0.0, m / t)),
                "a missing accuracy is not a gain of 0: where one is None, the gain is None",
            ),
            (
                known(lambda a, b, m, t: (m / t, gain(a, b))),
                "the right numbers in the wrong order: (gain, cost)",
            ),
            (
                known(lambda a, b, m, t: (gain(a, b) or None, m / t)),
                "two models that are equally good have a gain of 0, not None: test with `is None`",
            ),
            (
                known(lambda a, b, m, t: (None, None) if gain(a, b) is None else (a - b, m / t)),
                "where an accuracy is missing, the gain is None, but the cost is known all the same",
            ),
            (
                known(lambda a, b, m, t: None if gain(a, b) is None else (a - b, m / t)),
                "where an accuracy is missing, return (None, cost): the cost is known all the same",
            ),
            (
                known(lambda a, b, m, t: (a - b if a and b else None, m / t)),
                "an accuracy of 0 is poor, but not missing: test with `is None`",
            ),
            (
                known(lambda a, b, m, t: (None if gain(a, b) is None else abs(a - b), m / t)),
                "the gain has a sign: below 0 where the first model is worse, so no `abs`",
            ),
            (
                known(lambda a, b, m, t: (None if gain(a, b) is None else (a - b) / 100, m / t)),
                "the accuracies are in percent already, so the gain in points is their difference: do not divide",
            ),
        ],
        run,
    )
