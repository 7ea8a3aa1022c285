"""Checks of lesson 07: augmentation, the schedule, weight decay, and reading curves."""

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_course import augment, optim
from vit_course.beyond.positions import with_positions
from vit_course.classroom.checks.compare import compare
from vit_course.classroom.checks.outcome import Mistake, Unfinished, outcome
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import describe, difference, explain_error
from vit_course.classroom.reading import read_curves
from vit_course.vit import VisionTransformer

CLUES = {
    "A": "look at the comb in the training loss: how often does it jump in one epoch, and how many classes are there?",
    "B": "it learns well at first; what do both lines do after that, and until the end?",
    "C": "the validation loss lies *below* the training loss; whose pictures are the harder ones?",
    "D": "compare with the dotted line: a model that learned nothing but to say 'all equally likely'",
    "E": "training goes on to almost 0; where does the validation loss turn round?",
    "F": "training is fine; is there any moment when validation is better than the dotted line?",
}
CONFUSED = {
    ("E", 7): "a validation loss that first *falls* well below ln K cannot come from labels in a wrong order",
    (
        "F",
        5,
    ): "nearly: but a model that learns by heart is better than guessing on new pictures at first, as in E; "
    "this one never is",
    ("D", 8): "blank pictures would give a calm line at ln K; this line is restless and starts with a spike",
    ("D", 4): "look at the very first step: the loss starts at ln K, as it should; the spike comes later",
    ("B", 2): "a rate that is too high makes a restless line; these lines freeze",
    ("C", 7): "wrong labels would make validation *worse* than guessing; here it is better than training",
}


@exercise(read_curves)
def check_read_curves(answer):
    given = outcome(lambda f: f(), answer, ())
    if isinstance(given, Exception):
        raise Mistake(f"your code stopped with {explain_error(given)}")
    want = read_curves()
    if not isinstance(given, dict) or set(given) != set(want):
        raise Mistake(
            f"return a dict with one number for each plot, {{'A': ..., ..., 'F': ...}}; you returned {given!r:.200}"
        )
    for plot, number in given.items():
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= 8:
            quotes = ", a text: leave the quotes out" if isinstance(number, str) else ""
            raise Mistake(f"plot {plot}: the diagnoses are numbered 1 to 8, you gave {number!r:.50}{quotes}")
    wrong = [plot for plot in sorted(want) if given[plot] != want[plot]]
    if wrong:
        plot = wrong[0]
        clue = CONFUSED.get((plot, given[plot]), CLUES[plot])
        raise Mistake(f"{6 - len(wrong)} of 6 are right; plot {plot} is not: {clue}")


# -- random_crop_flip: a random function is right if every result is possible and all results are equally frequent

PADDING, MANY = 2, 2000


def windows(padded: Tensor, size: tuple[int, int]) -> Tensor:
    """Return every window of a padded picture (C, H', W'), plain then mirrored: (2, tops, lefts, C, H, W)."""
    cut = padded.unfold(1, size[0], 1).unfold(2, size[1], 1).permute(1, 2, 0, 3, 4)
    return torch.stack([cut, cut.flip(-1)])


def matches(results: Tensor, padded: Tensor) -> Tensor:
    """Tell which window each result (B, C, H, W) is: bool (B, 2 * tops * lefts)."""
    candidates = windows(padded, results.shape[-2:]).flatten(0, 2)
    return (results[:, None] == candidates).flatten(2).all(2)


def numbered(channels: int, height: int, width: int) -> Tensor:
    """Return a picture of all different numbers above 0."""
    return torch.arange(1, channels * height * width + 1, dtype=torch.float32).view(channels, height, width)


@exercise(augment.random_crop_flip)
def check_random_crop_flip(answer):
    def run(*case) -> Tensor:
        value = outcome(lambda function, *arguments: function(*arguments), answer, case)
        where = f"on {describe(augment.random_crop_flip, case)}"
        if isinstance(value, Exception):
            raise Mistake(f"{where}, your code stopped with {explain_error(value)}")
        if not isinstance(value, Tensor) or value.shape != case[0].shape or value.dtype != case[0].dtype:
            raise Mistake(f"{where}: {difference(value, case[0])}")
        return value

    small = torch.rand(3, 1, 4, 4)
    unmoved = run(small, 0, 0.0)
    if difference(unmoved, small):
        if not difference(unmoved.flatten().sort().values, small.flatten().sort().values):
            raise Mistake(
                "the pictures of a batch change places, or are mirrored where flip is 0: result i must be cut from "
                "picture i (labels stay where they are), and flip is the probability of mirroring"
            )
        raise Mistake("with padding 0 and flip 0 the pictures must come back as they are")
    if answer(given := small.clone(), 0, 0.0).data_ptr() == given.data_ptr():
        raise Mistake(
            "with padding 0 and flip 0 you hand back the input itself: return a new tensor, as always"
        )
    if not torch.equal(run(small, 0, 1.0), small.flip(3)):
        if torch.equal(run(small, 0, 1.0), small.flip(2)):
            raise Mistake("you turn the pictures upside down: mirror left and right, along the last axis")
        raise Mistake("with padding 0 and flip 1 every picture must be mirrored left and right")
    picture = numbered(2, 4, 5)
    batch = picture.expand(MANY, -1, -1, -1).clone()
    results = run(batch, PADDING, 0.5)
    possible_windows(results, picture)
    padded = F.pad(picture, [PADDING] * 4)
    choice = matches(results, padded).int().argmax(1)
    mirrored, top, left = (part.view(-1) for part in torch.unravel_index(choice, (2, 5, 5)))
    fair_windows(top, left)
    if len(set(mirrored.tolist())) == 1:
        raise Mistake("all pictures of a batch are mirrored, or none: draw for each picture by itself")
    again = matches(run(batch, PADDING, 0.5), padded).int().argmax(1)
    if torch.equal(again, choice):
        raise Mistake("two calls give the same windows: draw anew in each call, without a fixed seed")
    if ((again % 25) == (choice % 25)).double().mean().item() > 0.3:
        raise Mistake(
            "two calls give picture i the same offset: draw the offsets anew in each call, without a fixed seed"
        )
    if ((again // 25) == mirrored).double().mean().item() > 0.7:
        raise Mistake(
            "the same places of a batch are mirrored in every call: draw anew for each picture, "
            "`torch.rand(B) < flip`"
        )
    for share in (0.5, 0.2):
        found = (
            mirrored if share == 0.5 else matches(run(batch, PADDING, share), padded).int().argmax(1) // 25
        )
        frequency = found.double().mean().item()
        if abs(frequency - share) > 0.07:
            backwards = (
                ": mirror where the random number is *below* `flip`"
                if abs(frequency + share - 1) < 0.07
                else ""
            )
            raise Mistake(f"with flip = {share} {frequency:.0%} of {MANY} pictures are mirrored{backwards}")
    together = [mirrored[left == offset].double().mean().item() for offset in range(5)]
    if min(together) < 0.3 or max(together) > 0.7:
        raise Mistake("whether a picture is mirrored depends on its offset: draw the two independently")
    single = [torch.equal(run(small[:1], 0, 0.5), small[:1]) for _ in range(60)]
    if len(set(single)) == 1:
        raise Mistake(
            f"in 60 calls with one picture and flip = 0.5 it is {'never' if single[0] else 'always'} mirrored: do not "
            "choose a fixed number of pictures, draw for each one by itself, `torch.rand(B) < flip`"
        )
    check_kinds(run)
    check_defaults(answer)
    elsewhere = outcome(lambda f: f(torch.empty(3, 1, 4, 4, device="meta"), 1, 0.5), answer, ())
    if isinstance(elsewhere, RuntimeError) and any(
        w in str(elsewhere) for w in ("expected device", "same device")
    ):
        raise Mistake(
            "your random numbers are always on the CPU: give `torch.rand` and the others device=images.device"
        )


def possible_windows(results: Tensor, picture: Tensor) -> None:
    """Every result must be one window of the padded picture, plain or mirrored; else say what it is."""
    padded = F.pad(picture, [PADDING] * 4)
    if bool(matches(results, padded).any(1).all()):
        return
    for mode, name in (
        ("replicate", "repeats the border pixels"),
        ("reflect", "mirrors the picture at its border"),
        ("circular", "lets pixels that leave on one side come in on the other (`roll`)"),
    ):
        other = F.pad(picture[None], [PADDING] * 4, mode=mode)[0]
        if bool(matches(results, other).any(1).all()):
            raise Mistake(f"your padding {name}: here it is zeros, `F.pad(images, [padding] * 4)`")
    apart = [matches(results[:, c : c + 1], padded[c : c + 1]) for c in range(len(picture))]
    if all(bool(part.any(1).all()) for part in apart):
        raise Mistake(
            "the channels of one picture get different windows: red and blue no longer lie on top of each other. One "
            "offset and one flip a picture, for all its channels"
        )
    upside = torch.cat([matches(results, padded), matches(results.flip(2), padded)], 1)
    if bool(upside.any(1).all()):
        raise Mistake("some pictures are turned upside down: mirror left and right alone, the last axis")
    turned = matches(results, padded).any(1)
    raise Mistake(
        f"{(~turned).sum()} of {MANY} results are no window of the padded picture. The smallest case, a picture\n"
        f"{picture[0].int().tolist()}\nbecame\n{results[~turned][0, 0].tolist()}"
    )


def fair_windows(top: Tensor, left: Tensor) -> None:
    """All (2 * PADDING + 1)² offsets must occur, about equally often, another one for every picture."""
    places = 2 * PADDING + 1
    both = torch.bincount(top * places + left, minlength=places**2)
    seen = f"rows {sorted(set(top.tolist()))}, columns {sorted(set(left.tolist()))}"
    if int((both > 0).sum()) == 1:
        raise Mistake(
            "one window for the whole batch: every picture needs an offset of its own, else each step of the training "
            "sees one shift only"
        )
    if int(both.view(places, places).diag().sum()) == len(top):
        raise Mistake("top and left are always equal: the window moves on a diagonal; draw two numbers")
    for name, offset in (("top", top), ("left", left)):
        counts = torch.bincount(offset, minlength=places)
        if int(counts[-1]) == 0 and int(counts[:-1].min()) > 0:
            raise Mistake(
                f"the {name} offset never reaches 2·padding: `torch.randint(0, n)` stops at n - 1, so n is "
                "2·padding + 1"
            )
        if int((counts > 0).sum()) < places:
            raise Mistake(
                f"with padding {PADDING} the {name} offset has 2·padding + 1 = {places} places, 0 to {places - 1}; "
                f"yours took only: {seen}"
            )
    # 2,000 pictures, 80 expected a place, deviation 8.8: six deviations pass one fair answer in some ten million by.
    expected = len(top) / places**2
    if float((both - expected).abs().max()) > 6 * math.sqrt(expected):
        raise Mistake(
            f"the {places}² places are not equally likely: of {len(top)} pictures the rarest place got {both.min()}, "
            f"the most frequent {both.max()}, about {expected:.0f} were expected"
        )
    for distance in (1, 2, len(top) // 2):
        same = (top[distance:] == top[:-distance]) & (left[distance:] == left[:-distance])
        if (alike := same.double().mean().item()) > 0.08:
            raise Mistake(
                f"{alike:.0%} of the pictures share their window with the one {distance} places further on in the "
                "batch: draw for every picture"
            )


def check_defaults(answer: Callable) -> None:
    """Without further arguments the padding is 4 and half of the pictures are mirrored; an expanded batch is one."""
    picture = numbered(2, 9, 10)
    batch = picture.expand(400, -1, -1, -1)  # many times the same memory, as in the lesson's next cell
    results = outcome(lambda f: f(batch), answer, ())
    if isinstance(results, TypeError) and "argument" in str(results):
        raise Mistake(
            f"`random_crop_flip(images)` must work as well, with padding = 4 and flip = 0.5: keep the defaults of the "
            f"docstring's first line (your code stopped with {explain_error(results)})"
        )
    if isinstance(results, Exception):
        raise Mistake(
            "on 400 copies of a picture made with `expand`, as in the next cell, your code stopped with "
            f"{explain_error(results)}"
        )
    found = matches(results, F.pad(picture, [4] * 4))
    mirrored, top, left = torch.unravel_index(found.int().argmax(1), (2, 9, 9))
    if not bool(found.any(1).all()) or any(set(part.tolist()) != set(range(9)) for part in (top, left)):
        raise Mistake("called without `padding`, the padding should be 4, so that a window has 9 x 9 places")
    if not 0.35 < mirrored.double().mean().item() < 0.65:
        raise Mistake("called without `flip`, half of the pictures should be mirrored: its default is 0.5")


def check_kinds(run: Callable) -> None:
    """Other kinds of input: other numbers, one picture, several pictures that must stay in their places."""
    for dtype in (torch.uint8, torch.int64, torch.float64, torch.float16):
        picture = numbered(3, 3, 6).to(dtype)
        if not bool(matches(run(picture[None], 1, 0.5), F.pad(picture, [1] * 4)).any()):
            raise Mistake(f"a single picture of {dtype} does not come back as a window of itself")
    batch = numbered(1, 3, 4) + 100 * torch.arange(20)[:, None, None, None]
    for picture, result in zip(batch, run(batch, 1, 0.5), strict=True):
        if not bool(matches(result[None], F.pad(picture, [1] * 4)).any()):
            raise Mistake(
                "the pictures of a batch change places: result i must be cut from picture i, labels stay"
            )


@exercise(augment.mixup)
def check_mixup(answer):
    def case(batch: int, *shape: int, classes: int = 4) -> tuple[Tensor, ...]:
        targets = torch.rand(batch, classes).softmax(1)
        return torch.rand(batch, *shape), targets, torch.rand(batch), torch.randperm(batch)

    small = (
        torch.tensor([[[[0.0, 0.0]]], [[[10.0, 20.0]]]]),
        torch.eye(2),
        torch.tensor([0.75, 0.75]),
        torch.tensor([1, 0]),
    )
    cycle = torch.tensor([1, 2, 3, 4, 0])
    cases = [
        small,
        (*case(5, 1, 2, 3)[:3], cycle),
        (*case(5, 3, 5, 5)[:3], cycle),
        case(8, 3, 4, 6),
        (*case(4, 2, 3, 3)[:3], torch.arange(4)),
        (*case(3, 1, 2, 2)[:2], torch.tensor([0.0, 1.0, 0.5]), torch.tensor([2, 0, 1])),
        case(1, 3, 2, 4),
        (case(3, 2, 3, 4)[0].to(memory_format=torch.channels_last), *case(3)[1:]),
        (*(part.double() for part in case(3, 3, 2, 4)[:3]), torch.tensor([1, 2, 0])),
    ]

    def column(lam: Tensor, ndim: int) -> Tensor:
        return lam.view(-1, *[1] * (ndim - 1))

    def variant(share=lambda lam: lam, target_share=None, partner=None, target_partner=None):
        def function(images, targets, lam, permutation):
            mine, theirs = share(lam), (target_share or share)(lam)
            first = (partner or (lambda p: p))(permutation)
            second = (target_partner or partner or (lambda p: p))(permutation)
            a, b = column(mine, images.ndim), column(theirs, 2)
            return a * images + (1 - a) * images[first], b * targets + (1 - b) * targets[second]

        return function

    def along_width(images, targets, lam, permutation):
        return lam * images + (1 - lam) * images[permutation], variant()(images, targets, lam, permutation)[1]

    def no_brackets(images, targets, lam, permutation):
        a, b = column(lam, 4), column(lam, 2)
        return a * images + 1 - a * images[permutation], b * targets + 1 - b * targets[permutation]

    def winner(images, targets, lam, permutation):
        blended, soft = variant()(images, targets, lam, permutation)
        return blended, F.one_hot(soft.argmax(1), targets.shape[1]).float()

    reverse = torch.argsort
    compare(
        lambda *a: _as_tuple(answer(*a)),
        augment.mixup,
        cases,
        [
            (
                variant(share=lambda lam: 1 - lam),
                "lam and 1 - lam are swapped: a picture keeps the share lam, its partner gets the rest",
            ),
            (
                variant(target_share=lambda lam: torch.ones_like(lam)),
                "the pictures are blended, but the targets are not: a picture that is 30 % ship gets the target 30 %",
            ),
            (
                variant(share=torch.ones_like, target_share=lambda lam: lam),
                "the targets are blended, the pictures are not",
            ),
            (
                variant(target_share=lambda lam: 1 - lam),
                "in the targets lam and 1 - lam are swapped: both are blended in the same way",
            ),
            (
                variant(target_partner=reverse),
                "pictures and targets have different partners: use the same `permutation` for both",
            ),
            (
                variant(partner=reverse),
                "the partner of picture i is picture permutation[i], so `images[permutation]`; yours are dealt out the "
                "other way round",
            ),
            (
                variant(partner=lambda p: p.flip(0)),
                "you reverse the permutation: the partner of i is permutation[i]",
            ),
            (
                variant(partner=lambda p: torch.arange(len(p) - 1, -1, -1)),
                "your partners come from reversing the batch: use `permutation`",
            ),
            (
                variant(target_partner=lambda p: torch.arange(len(p) - 1, -1, -1)),
                "the targets' partners come from reversing the batch: use the same `permutation` for both",
            ),
            (
                variant(share=lambda lam: lam[:1].expand(len(lam))),
                "one share for the whole batch: lam has a number for each picture, the first is not enough",
            ),
            (
                variant(share=lambda lam: lam.mean().expand(len(lam))),
                "you average lam: each picture has a share of its own",
            ),
            (
                along_width,
                "lam meets the *width* of the pictures, the last axis; give it the shape (B, 1, 1, 1)",
            ),
            (
                variant(share=lambda lam: torch.maximum(lam, 1 - lam)),
                "you take the larger one of lam and 1 - lam: a picture keeps the share lam, also where that is small",
            ),
            (
                variant(share=lambda lam: torch.full_like(lam, 0.5)),
                "every blend is half and half: a picture keeps the share lam, its partner gets 1 - lam",
            ),
            (no_brackets, "brackets are missing: the partner is multiplied by (1 - lam)"),
            (winner, "the targets must stay soft: do not choose the larger one"),
        ],
    )
    for dtype in (torch.uint8, torch.int64, torch.int16):
        bad = (
            (torch.rand(2, 3, 4, 4) * 255).to(dtype),
            torch.eye(2),
            torch.tensor([0.3, 0.6]),
            torch.tensor([1, 0]),
        )
        result = outcome(lambda f, *a: f(*a), answer, bad)
        if not isinstance(result, ValueError):
            kind = type(result).__name__ if isinstance(result, Exception) else "no error"
            raise Mistake(
                f"images of {dtype} are whole numbers, which cannot be blended: raise a ValueError (yours: {kind}). "
                "Else half a grey level is cut off in silence, or worse"
            )


def _as_tuple(value: object) -> object:
    """Read a list of two results as a pair."""
    return tuple(value) if isinstance(value, list) else value


@exercise(optim.learning_rate)
def check_learning_rate(answer):
    cases = [
        (0, 10, 4, 1.0),
        (3, 10, 4, 1.0),
        (9, 10, 4, 1.0),
        (4, 10, 4, 1.0),
        (6, 10, 4, 1.0),
        (1, 10, 4, 2.0),
        (99, 100, 20, 5.0),
        (60, 100, 20, 3.0),
        (0, 10, 1, 1.0),
        (0, 10, 0, 1.0),
        (5, 10, 0, 1.0),
        (9, 10, 0, 1.0),
        (4, 5, 5, 1.0),
    ]

    def variant(rise=lambda s, w: (s + 1) / w, progress=None, fall=None):
        progress = progress or (lambda s, n, w: (s + 1 - w) / max(1, n - w))
        fall = fall or (lambda x: (1 + math.cos(math.pi * x)) / 2)

        def function(step, total, warmup, peak):
            return peak * (rise(step, warmup) if step < warmup else fall(progress(step, total, warmup)))

        return function

    def minus_one(s, n, w):
        return (s - w) / max(1, n - w)

    def both_ends(s, n, w):
        return (s - w) / max(1, n - 1 - w)

    starts_at_zero = (
        "the first step has the rate 0, so nothing is learned in it: in the warm-up, step s has "
        "peak·(s + 1)/warmup_steps"
    )
    not_zero = (
        "the last step is not at 0: the first step after the warm-up is k = 1 of n, the last one k = n, so "
        "k = step + 1 - warmup_steps"
    )
    compare(
        lambda *case: _number(answer(*case)),
        optim.learning_rate,
        cases,
        [
            (variant(rise=lambda s, w: s / w), starts_at_zero),
            (variant(rise=lambda s, w: s / w, progress=minus_one), starts_at_zero),
            (variant(rise=lambda s, w: s / w, progress=both_ends), starts_at_zero),
            (variant(rise=lambda s, w: s / max(1, w - 1)), starts_at_zero),
            (
                lambda s, n, w, peak: (
                    peak * (s + 1) / w if 0 < w == s else optim.learning_rate(s, n, w, peak)
                ),
                "step number warmup_steps is above the peak: the steps of the warm-up are 0 to warmup_steps - 1, so "
                "`step < warmup_steps`, not `<=`",
            ),
            (variant(progress=minus_one), not_zero),
            (
                variant(progress=both_ends),
                "the first step after the warm-up has the peak again: the last step of the warm-up runs at the peak, "
                "and the one after it is a little lower",
            ),
            (
                variant(fall=lambda x: 1 - x),
                "after the warm-up your rate falls in a straight line: half a cosine is asked for",
            ),
            (
                variant(fall=lambda x: (1 + math.cos(2 * math.pi * x)) / 2),
                "your cosine falls and rises again: half a cosine, from cos 0 to cos π",
            ),
            (
                variant(fall=lambda x: math.cos(math.pi * x)),
                "your rate is negative at the end: (1 + cos)/2 runs from 1 to 0",
            ),
            (
                variant(fall=lambda x: math.cos(math.pi * x / 2)),
                "this is a quarter of a cosine: (1 + cos(π·k/n))/2",
            ),
            (variant(fall=lambda x: 1 + math.cos(math.pi * x)), "1 + cos runs from 2 to 0: divide by 2"),
            (
                variant(progress=lambda s, n, w: (s + 1) / n),
                "your cosine counts from step 0, so the rate drops at the end of the warm-up: count from there",
            ),
            (
                variant(progress=lambda s, n, w: (s + 1 - w) / n),
                "n is the number of steps *after* the warm-up",
            ),
            (
                variant(rise=lambda s, w: 1.0),
                "there is no rise: in the first warmup_steps the rate grows step by step",
            ),
            (variant(fall=lambda x: 1.0), "after the warm-up your rate stays at the peak"),
            (
                lambda *case: optim.learning_rate(*case[:3], 1.0),
                "`peak` is not used: you return shares of 1",
            ),
        ],
    )
    whole = [_number(answer(step, 40, 8, 1.0)) for step in range(40)]
    if max(whole) != whole[7] or whole.count(max(whole)) != 1:
        raise Mistake("the peak must be reached once, in the last step of the warm-up")
    if abs(whole[-1]) > 1e-7:
        raise Mistake(
            f"the very last step must have the rate 0, and no small rest: yours has {whole[-1]:.2g}"
        )
    for step in range(39):
        mine, want = _number(answer(step, 40, 8, 1e-3)), optim.learning_rate(step, 40, 8, 1e-3)
        if abs(mine - want) > 1e-3 * want:
            raise Mistake(
                f"right for a peak of 1, but with peak = 0.001 step {step} of 40, with 8 of warm-up, should have "
                f"{want:.4g} and has {mine:.4g}: do not round, and add nothing"
            )


def _number(value: object) -> object:
    """Read a scalar of torch or numpy as a plain number."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def small_models() -> Iterator[tuple[str, nn.Module]]:
    """Yield models to split, with their names."""
    yield "a Vision Transformer", VisionTransformer(patch_size=16, embed_dim=8, depth=2, num_heads=2)
    yield (
        "one with 2-D positions",
        with_positions(VisionTransformer(patch_size=16, embed_dim=8, depth=1, num_heads=2), "2d"),
    )
    frozen = VisionTransformer(patch_size=16, embed_dim=8, depth=2, num_heads=2)
    for parameter in [*frozen.patch_embed.parameters(), *frozen.blocks[0].parameters(), frozen.cls_token]:
        parameter.requires_grad_(False)
    yield "one with frozen parts", frozen
    yield "a single linear layer in nn.Sequential", nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    layers = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2)
    yield "a convolution, a batch norm and a linear layer in nn.Sequential", nn.Sequential(*layers)


@exercise(optim.weight_decay_groups)
def check_weight_decay_groups(answer):
    for described, model in small_models():
        for decay in (0.05, 0.3):
            before = {name: (p.detach().clone(), p.requires_grad) for name, p in model.named_parameters()}
            try:
                groups = answer(model, decay)
            except NotImplementedError as error:
                raise Unfinished from error
            except Exception as error:
                raise Mistake(f"on {described} your code stopped with {explain_error(error)}") from error
            for name, p in model.named_parameters():
                if p.requires_grad != before[name][1] or not torch.equal(p, before[name][0]):
                    raise Mistake(
                        f"your code changes the model itself ({name}); it should only sort its parameters"
                    )
            check_groups(groups, model, decay, described)


def check_groups(groups: object, model: nn.Module, decay: float, described: str) -> None:
    """Compare the decay that every parameter of a model gets with the one it should get."""
    form = "return a list of dicts, each with the keys 'params', a list of parameters, and 'weight_decay', a number"
    if not isinstance(groups, list | tuple) or not groups or not all(isinstance(g, dict) for g in groups):
        raise Mistake(f"{form}; you returned {type(groups).__name__}: {groups!r:.80}")
    for number, group in enumerate(groups):
        if missing := {"params", "weight_decay"} - set(group):
            raise Mistake(
                f"{form}; number {number} of your list has no {' and no '.join(map(repr, sorted(missing)))}"
                + (" (the optimiser would then use a decay of its own)" if "params" in group else "")
            )
        if isinstance(group["params"], set | frozenset | dict):
            raise Mistake(
                f"'params' is a {type(group['params']).__name__}: the optimiser wants a list, which has an order"
            )
    given: dict[int, list[float]] = {}
    for group in groups:
        params = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        for parameter in params:
            if not isinstance(parameter, Tensor):
                raise Mistake(
                    f"'params' holds {type(parameter).__name__} ({parameter!r:.40}): the optimiser wants the "
                    "parameters themselves, not their names"
                )
            given.setdefault(id(parameter), []).append(float(group["weight_decay"]))
    wanted = {id(p): d["weight_decay"] for d in optim.weight_decay_groups(model, decay) for p in d["params"]}
    named = list(model.named_parameters())
    if len(given) > len(named) or set(given) - {id(p) for _, p in named}:
        raise Mistake(
            "your groups hold tensors that are no parameters of the model: copies? They would never be trained"
        )
    for name, p in named:
        got = given.get(id(p), [])
        where = f"{name} of {described}"
        if not p.requires_grad and got:
            raise Mistake(f"{where} is frozen (requires_grad is False): leave frozen parameters out")
        if p.requires_grad and len(got) != 1:
            raise Mistake(
                f"{where} is in {len(got) or 'no'} groups: every trainable parameter belongs in exactly one"
                + ("" if got else "; one in none is never trained")
            )
        if got and abs(got[0] - wanted[id(p)]) > 1e-6:
            raise Mistake(decay_mistake(name, p, got[0], wanted[id(p)], where))


def decay_mistake(name: str, parameter: Tensor, got: float, want: float, where: str) -> str:
    """Say what is wrong with the decay of one parameter."""
    if want > 0 and got > 0:
        return f"{where} gets the decay {got:g}, it should get {want:g}: use the argument `weight_decay`"
    if want > 0:
        reason = "it is a weight matrix (a convolution's kernel is one too)"
        return f"{where} gets the decay {got:g}, it should get {want:g}: {reason}"
    if "cls_token" in name or "pos_embed" in name:
        return (
            f"{where} decays: it has {parameter.ndim} axes, but it is no weight matrix. Counting axes is not enough; "
            "look at the name too"
        )
    kind = "a bias" if name.endswith("bias") else "the scale of a norm, which decay would pull towards 0"
    if kind != "a bias" and "norm" not in name:
        kind += (
            ". Not every norm says so in its name: its scale has one axis, a weight matrix has at least two"
        )
    return f"{where} decays: it is {kind}"
