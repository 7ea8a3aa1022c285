"""Checks of lesson 07: augmentation, the schedule, weight decay, and reading curves."""

import math
import re
from collections.abc import Callable, Iterator
from numbers import Integral

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, Unfinished, outcome
from vit_classroom.checks.task import any_device, demand, every_digit, exercise, refuses, results
from vit_classroom.checks.words import describe, difference, explain_error
from vit_classroom.exhibits.broken_runs import read_curves
from vit_course.augment import mixup, random_crop_flip
from vit_course.extensions.positions import with_positions
from vit_course.optim import learning_rate, weight_decay_groups
from vit_course.vit import VisionTransformer

# -- random_crop_flip: a random function is right if every result is possible and all results are equally frequent

PADDING, MANY = 2, 2000
PLACES = 2 * PADDING + 1


def anywhere(batch, padding):
    return torch.randint(0, 2 * padding + 1, (2, batch))


def some(batch, flip):
    return torch.rand(batch) < flip


def crop(offsets: Callable = anywhere, chosen: Callable = some, pad="constant", axis=-1) -> Callable:
    """Return a `random_crop_flip` with these offsets (2, B), these pictures mirrored (B,), this padding and axis."""

    def answer(images, padding=4, flip=0.5):
        height, width = images.shape[2:]
        padded = F.pad(images.double(), [padding] * 4, mode=pad).to(images.dtype)
        places = offsets(len(images), padding).T.tolist()
        cut = torch.stack(
            [p[:, y : y + height, x : x + width] for p, (y, x) in zip(padded, places, strict=True)]
        )
        return torch.where(chosen(len(images), flip)[:, None, None, None], cut.flip(axis), cut)

    return answer


def each_channel_by_itself(images, padding=4, flip=0.5):
    return crop()(images.flatten(0, 1)[:, None], padding, flip).reshape(images.shape)


def mirrored_ones_first(images, padding=4, flip=0.5):
    cut, mirror = crop()(images, padding, 0.0), some(len(images), flip)
    return torch.cat([cut[mirror].flip(-1), cut[~mirror]])


def nothing_to_do(images, padding=4, flip=0.5):
    return images if padding == flip == 0 else crop()(images, padding, flip)


def mirrors_by_the_row(images, padding=4, flip=0.5):
    chance = torch.rand(len(images))
    offsets = torch.stack([(chance * (2 * padding + 1)).long(), anywhere(len(images), padding)[0]])
    return crop(lambda *_: offsets, lambda *_: chance < flip)(images, padding, flip)


def flips_the_moved_alone(images, padding=4, flip=0.5):
    offsets = anywhere(len(images), padding)
    moved = (offsets != padding).any(0) | (padding == 0)
    return crop(lambda *_: offsets, lambda b, flip: some(b, flip) & moved)(images, padding, flip)


def fixed_seed(images, padding=4, flip=0.5):
    torch.default_generator.manual_seed(0)
    return crop()(images, padding, flip)


def by_view(images, padding=4, flip=0.5):
    return crop()(images.view(-1, *images.shape[2:])[:, None].view(images.shape), padding, flip)


def cropped(answer: Callable, *case) -> Tensor:
    """Return the answer's result, which must have shape and type of the pictures."""
    value = outcome(lambda function, *arguments: function(*arguments), answer, case)
    where = f"on {describe(random_crop_flip, case)}"
    if isinstance(value, Exception):
        raise stopped(value, f"{where}, ")
    if not isinstance(value, Tensor) or value.shape != case[0].shape or value.dtype != case[0].dtype:
        raise Mistake(f"{where}: {difference(value, case[0])}")
    return value


def numbered(channels: int, height: int, width: int) -> Tensor:
    """Return a picture of all different numbers above 0."""
    return torch.arange(1, channels * height * width + 1, dtype=torch.float32).view(channels, height, width)


def matches(cuts: Tensor, padded: Tensor) -> Tensor:
    """Tell which window of a padded picture each result (B, C, H, W) is, plain then mirrored: bool (B, 2 * places)."""
    height, width = cuts.shape[-2:]
    windows = padded.unfold(1, height, 1).unfold(2, width, 1).permute(1, 2, 0, 3, 4)
    candidates = torch.stack([windows, windows.flip(-1)]).flatten(0, 2)
    return (cuts[:, None] == candidates).flatten(2).all(2)


def draw(answer: Callable, flip: float = 0.5, count: int = MANY) -> tuple[Tensor, ...]:
    """Cut a picture many times; return what was drawn for each: mirrored or not, top, left."""
    picture = numbered(1, 4, 5)
    cuts = cropped(answer, picture.expand(count, -1, -1, -1).clone(), PADDING, flip)
    choice = matches(cuts, F.pad(picture, [PADDING] * 4)).int().argmax(1)
    return torch.unravel_index(choice, (2, PLACES, PLACES))


FROM_0 = "the offsets begin at 0: `torch.randint(0, 2·padding + 1, ...)`"


@demand(
    {
        "the pictures of a batch change places: result i must be cut from picture i": (
            lambda images, padding=4, flip=0.5: crop()(images, padding, flip)[torch.randperm(len(images))]
        ),
        "the pixels of a picture change places": [
            lambda images, *rest: crop()(images.transpose(-1, -2), *rest),
            lambda images, *rest: crop()(images.flip(1), *rest),
        ],
        "with flip 0 some pictures are mirrored": crop(chosen=lambda b, _: torch.arange(b) % 2 == 0),
        "with flip 0 every picture is mirrored": crop(chosen=lambda b, flip: torch.rand(b) >= flip),
        "with padding 0 and flip 0 you hand back the input itself": nothing_to_do,
        "you write into the pictures that you are given": (
            lambda images, padding=4, flip=0.5: images.copy_(crop()(images, padding, flip))
        ),
        "you turn the pictures upside down": crop(axis=-2),
        "with padding 0 there is one place": [
            crop(lambda b, p: torch.randint(0, 2 * p, (2, b))),
            crop(lambda b, p: torch.tensor(np.random.randint(0, 2 * p, (2, b)))),
        ],
        FROM_0: crop(lambda b, p: torch.randint(1, 2 * p + 1, (2, b))),
        "with padding 0 and flip 1 every picture must be mirrored": crop(
            chosen=lambda b, _: torch.zeros(b) > 0
        ),
        "the pictures of a batch change places: result i": mirrored_ones_first,
    }
)
def does_what_is_certain(answer):
    small = torch.rand(3, 2, 4, 4)
    stopped_early = outcome(lambda function, *case: function(*case), answer, (small, 0, 0.0))
    if re.search("random_ expects|empty range|high <= 0", str(stopped_early)):
        if "random_" in str(stopped_early) and "from=0 " not in str(stopped_early):
            raise Mistake(f"{FROM_0}. With padding 0, torch says: {stopped_early}")
        raise Mistake(
            "with padding 0 there is one place: `randint(0, n)` stops at n - 1, so n is 2·padding + 1"
        )
    unmoved = cropped(answer, small, 0, 0.0)
    if difference(unmoved, small):
        if not difference(unmoved.flatten().sort().values, small.flatten().sort().values):
            if not difference(unmoved, small.flip(-1)):
                raise Mistake(
                    "with flip 0 every picture is mirrored: flip is the probability of mirroring, so mirror where a "
                    "random number is *below* flip"
                )
            if all(
                bool((got == own).all() | (got == own.flip(-1)).all())
                for got, own in zip(unmoved, small, strict=True)
            ):
                raise Mistake(
                    "with flip 0 some pictures are mirrored: is `flip` used, and compared with `torch.rand`?"
                )
            if all(map(torch.equal, *(x.flatten(1).sort(1).values for x in (unmoved, small)))):
                raise Mistake(
                    "with padding 0 and flip 0 the pixels of a picture change places: rows stay rows, columns stay "
                    "columns, and channels stay in their order"
                )
            raise Mistake(
                "the pictures of a batch change places: result i must be cut from picture i (labels stay where they "
                "are)"
            )
        raise Mistake("with padding 0 and flip 0 the pictures must come back as they are")
    if answer(given := small.clone(), 1, 0.5).data_ptr() == given.data_ptr():
        raise Mistake(
            "you write into the pictures that you are given: whoever called it still needs them. Return a new tensor"
        )
    if answer(given := small.clone(), 0, 0.0).data_ptr() == given.data_ptr():
        raise Mistake("with padding 0 and flip 0 you hand back the input itself: return a new tensor")
    mirrored = cropped(answer, small, 0, 1.0)
    if torch.equal(mirrored, small.flip(2)):
        raise Mistake("you turn the pictures upside down: mirror left and right, along the last axis")
    if not torch.equal(mirrored, small.flip(3)):
        kept = " (`flip` returns a new tensor: keep it)" if torch.equal(mirrored, small) else ""
        raise Mistake(
            f"with padding 0 and flip 1 every picture must be mirrored left and right, and nothing else{kept}"
        )
    batch = numbered(1, 3, 4) + 100 * torch.arange(20)[:, None, None, None]
    cuts = cropped(answer, batch, 1, 0.5)
    origin = torch.stack([matches(cuts, F.pad(picture, [1] * 4)).any(1) for picture in batch])
    if bool((origin & ~torch.eye(20, dtype=torch.bool)).any()):
        raise Mistake("the pictures of a batch change places: result i must be cut from picture i")


@demand(
    {
        "your padding repeats the border pixels": crop(pad="replicate"),
        "your padding mirrors the picture at its border": crop(pad="reflect"),
        "your padding lets pixels that leave on one side come in on the other (`roll`)": crop(pad="circular"),
        "the channels of one picture get different windows": each_channel_by_itself,
    }
)
def cuts_windows(answer):
    picture = numbered(2, 4, 5)
    cuts = cropped(answer, picture.expand(200, -1, -1, -1).clone(), PADDING, 0.5)
    padded = F.pad(picture, [PADDING] * 4)
    found = matches(cuts, padded).any(1)
    if bool(found.all()):
        return
    for mode, name in (
        ("replicate", "repeats the border pixels"),
        ("reflect", "mirrors the picture at its border"),
        ("circular", "lets pixels that leave on one side come in on the other (`roll`)"),
    ):
        if bool(matches(cuts, F.pad(picture[None], [PADDING] * 4, mode=mode)[0]).any(1).all()):
            raise Mistake(f"your padding {name}: here it is zeros, `F.pad(images, [padding] * 4)`")
    apart = [matches(cuts[:, c : c + 1], padded[c : c + 1]).any(1) for c in range(len(picture))]
    if all(bool(part.all()) for part in apart):
        raise Mistake(
            "the channels of one picture get different windows: red and blue no longer lie on top of each other. One "
            "offset and one flip a picture, for all its channels"
        )
    raise Mistake(
        f"{(~found).sum()} of {len(cuts)} results are no window of the padded picture. The smallest case, a picture\n"
        f"{picture[0].int().tolist()}\nbecame\n{cuts[~found][0, 0].tolist()}"
    )


@demand(
    {
        "one window for the whole batch": crop(lambda b, p: anywhere(1, p).expand(2, b)),
        "every window lies at top 0 and left 0": crop(lambda b, p: torch.randint(0, 1, (2, b))),
        "top and left are always equal": crop(lambda b, p: anywhere(b, p)[:1].expand(2, b)),
        "offset never reaches 2·padding": crop(lambda b, p: torch.randint(0, max(1, 2 * p), (2, b))),
        "yours took only: rows [0, 1, 2], columns [0, 1, 2]": crop(
            lambda b, p: torch.randint(0, p + 1, (2, b))
        ),
        "are not equally likely": crop(
            lambda b, p: (torch.randn(2, b) * p / 2 + p).round().clamp(0, 2 * p).int()
        ),
        "rounded fractions make": crop(lambda b, p: (2 * p * torch.rand(2, b)).round().int()),
        "the one 1000 places further on": crop(lambda b, p: anywhere(-(-b // 2), p).repeat(1, 2)[:, :b]),
    }
)
def deals_all_offsets_alike(answer):
    _, top, left = draw(answer)
    both = torch.bincount(top * PLACES + left, minlength=PLACES**2)
    if int((both > 0).sum()) == 1:
        again = draw(answer, count=3)
        if all(bool((offset == 0).all()) for offset in (top, left, *again[1:])):
            raise Mistake(
                f"every window lies at top 0 and left 0: with padding {PADDING} the offsets have {PLACES} places, 0 to "
                f"{PLACES - 1}"
            )
        raise Mistake(
            "one window for the whole batch: every picture needs an offset of its own, else each step of the training "
            "sees one shift only"
        )
    if bool((top == left).all()):
        raise Mistake("top and left are always equal: the window moves on a diagonal; draw two numbers")
    for name, offset in (("top", top), ("left", left)):
        counts = torch.bincount(offset, minlength=PLACES)
        if int(counts[-1]) == 0 and int(counts[:-1].min()) > 0:
            raise Mistake(
                f"the {name} offset never reaches 2·padding: `torch.randint(0, n)` stops at n - 1, so n is "
                "2·padding + 1"
            )
        if int((counts > 0).sum()) < PLACES:
            seen = f"rows {sorted(set(top.tolist()))}, columns {sorted(set(left.tolist()))}"
            raise Mistake(
                f"with padding {PADDING} the {name} offset has 2·padding + 1 = {PLACES} places, 0 to {PLACES - 1}; "
                f"yours took only: {seen}"
            )
    # 2,000 pictures, 80 expected a place, deviation 8.8: six deviations pass one fair answer in some ten million by.
    rows, columns = (torch.bincount(offset, minlength=PLACES) for offset in (top, left))
    for counts, places in ((rows, "rows"), (columns, "columns"), (both, "places")):
        expected = MANY / len(counts)
        if float((counts - expected).abs().max()) > 6 * math.sqrt(expected):
            raise Mistake(
                f"the {len(counts)} {places} are not equally likely: of {MANY} pictures the rarest got {counts.min()}, "
                f"the most frequent {counts.max()}, about {expected:.0f} were expected (rounded fractions make the "
                "first and the last offset too rare, a `clamp` makes them too frequent)"
            )
    for distance in (1, 2, MANY // 2):
        same = (top[distance:] == top[:-distance]) & (left[distance:] == left[:-distance])
        if (alike := same.double().mean().item()) > 0.08:
            raise Mistake(
                f"{alike:.0%} of the pictures share their window with the one {distance} places further on in the "
                "batch: draw for every picture"
            )


@demand(
    {
        "all pictures of a batch are mirrored, or none": crop(chosen=lambda b, flip: some(1, flip).expand(b)),
        "two calls give the same windows": fixed_seed,
        "two calls give picture i the same offset": crop(
            lambda b, p: torch.randint(0, 2 * p + 1, (2, b), generator=torch.Generator().manual_seed(0))
        ),
        "the same places of a batch are mirrored in every call": crop(
            chosen=lambda b, flip: torch.arange(b) < round(flip * b)
        ),
    }
)
def draws_anew_in_every_call(answer):
    mirrored, top, left = draw(answer, count=500)
    if len(mirrored.unique()) == 1:
        raise Mistake("all pictures of a batch are mirrored, or none: draw for each picture by itself")
    again, *offsets = draw(answer, count=500)
    same_place = (top == offsets[0]) & (left == offsets[1])
    same_side = mirrored == again
    if bool((same_place & same_side).all()):
        raise Mistake("two calls give the same windows: draw anew in each call, without a fixed seed")
    if same_place.double().mean().item() > 0.3:
        raise Mistake(
            "two calls give picture i the same offset: draw the offsets anew in each call, without a fixed seed"
        )
    if same_side.double().mean().item() > 0.7:
        raise Mistake(
            "the same places of a batch are mirrored in every call: draw anew for each picture, "
            "`torch.rand(B) < flip`"
        )


@demand(
    {
        "depends on its place": [mirrors_by_the_row, flips_the_moved_alone],
        "are mirrored if, and only if, the one": [
            crop(chosen=lambda b, flip: some((b + 1) // 2, flip).repeat_interleave(2)[:b]),
            crop(chosen=lambda b, flip: some((b + 1) // 2, flip).repeat(2)[:b]),
        ],
        "with flip = 0.2 ": crop(chosen=lambda b, flip: some(b, flip if flip in (0, 1) else 0.5)),
        "in 60 calls with one picture and flip = 0.5 it is never mirrored": crop(
            chosen=lambda b, flip: torch.randperm(b) < int(flip * b)
        ),
    }
)
def mirrors_each_picture_by_itself(answer):
    mirrored, *_ = draw(answer, 0.2, 1000)
    if abs((share := mirrored.double().mean().item()) - 0.2) > 0.07:
        raise Mistake(f"with flip = 0.2 {share:.0%} of {len(mirrored)} pictures are mirrored")
    mirrored, top, left = draw(answer)
    for distance in (1, MANY // 2):
        alike = (mirrored[distance:] == mirrored[:-distance]).double().mean().item()
        if abs(alike - 0.5) > 0.2:
            raise Mistake(
                f"{alike:.0%} of the pictures are mirrored if, and only if, the one {distance} places further on is: "
                "draw for every picture, `torch.rand(B) < flip`"
            )
    for place in range(PLACES**2):  # 80 pictures, deviation .056
        share = mirrored[top * PLACES + left == place].double().mean().item()
        if abs(share - 0.5) > 0.34:
            raise Mistake(
                f"whether a picture is mirrored depends on its place: at top {place // PLACES} and left "
                f"{place % PLACES} {share:.0%} are. Draw a number of its own for that, for every picture"
            )
    picture = torch.rand(1, 1, 4, 4)
    single = [torch.equal(cropped(answer, picture, 0, 0.5), picture) for _ in range(60)]
    if len(set(single)) == 1:
        raise Mistake(
            f"in 60 calls with one picture and flip = 0.5 it is {'never' if single[0] else 'always'} mirrored: do not "
            "choose a fixed number of pictures, draw for each one by itself, `torch.rand(B) < flip`"
        )


@demand({"on copies of a picture made with `expand`": by_view})
def takes_all_pictures(answer):
    for dtype in (torch.uint8, torch.float32):
        picture = numbered(3, 3, 6).to(dtype)
        if not bool(matches(cropped(answer, picture[None], 1, 0.5), F.pad(picture, [1] * 4)).any()):
            raise Mistake(f"a single picture of {dtype} does not come back as a window of itself")
    copies = outcome(lambda f: f(numbered(2, 4, 5).expand(4, -1, -1, -1), 4, 0.5), answer, ())
    if isinstance(copies, Exception):
        raise Mistake(
            "on copies of a picture made with `expand`, as in the next cell, your code stopped with "
            f"{explain_error(copies)}"
        )


exercise(
    random_crop_flip,
    does_what_is_certain,
    cuts_windows,
    deals_all_offsets_alike,
    draws_anew_in_every_call,
    mirrors_each_picture_by_itself,
    takes_all_pictures,
    every_digit(
        lambda images, *rest: random_crop_flip(images.float(), *rest).to(images.dtype), (2, 1, 3, 4), 0, 0.0
    ),
    any_device(
        (torch.ones(3, 1, 4, 4), 1, 0.5),
        "a tensor that your code makes is always on the CPU: give `torch.rand`, `torch.arange` and the like "
        "device=images.device",
        crop(),
    ),
)

# -- learning_rate


def after_warmup(s, n, w):
    return (s + 1 - w) / max(1, n - w)


def half_cosine(share):
    return (1 + math.cos(math.pi * share)) / 2


def schedule(rise=lambda s, w: (s + 1) / w, progress=after_warmup, fall=half_cosine) -> Callable:
    """Return a schedule that rises by (s, w) in the warm-up and falls by a share of the way (s, total, w)."""

    def answer(step, total_steps, warmup_steps, peak):
        if step < warmup_steps:
            return peak * rise(step, warmup_steps)
        return peak * fall(progress(step, total_steps, warmup_steps))

    return answer


def from_zero(s, w):
    return s / w


def one_behind(s, n, w):
    return (s - w) / max(1, n - w)


def both_ends(s, n, w):
    return (s - w) / max(1, n - 1 - w)


def warms_up_once_more(step, total_steps, warmup_steps, peak):
    if step <= warmup_steps and warmup_steps > 0:
        return peak * (step + 1) / warmup_steps
    return learning_rate(step, total_steps, warmup_steps, peak)


@demand(
    {
        "and no small rest": [
            lambda *case: max(learning_rate(*case), 1e-8),
            lambda *case: learning_rate(*case) + 1e-6,
        ]
    }
)
def ends_at_zero(answer):
    if abs(last := float(answer(39, 40, 8, 1.0))) > 1e-9:
        raise Mistake(f"the very last step must have the rate 0, and no small rest: yours has {last:.2g}")


@demand({"do not round, and add nothing": lambda *case: round(learning_rate(*case), 4)})
def fits_a_small_peak(answer):
    for step in range(39):
        mine, want = float(answer(step, 40, 8, 1e-3)), learning_rate(step, 40, 8, 1e-3)
        if abs(mine - want) > 1e-3 * want:
            raise Mistake(
                f"right for a peak of 1, but with peak = 0.001 step {step} of 40, with 8 of warm-up, should have "
                f"{want:.4g} and has {mine:.4g}: do not round, and add nothing"
            )


exercise(
    learning_rate,
    results(
        lambda: [
            *((step, 10, 4, 1.0) for step in (0, 3, 4, 6, 9)),
            *((step, 10, 4, 2.0) for step in (1, 2)),
            (99, 100, 20, 5.0),
            *((step, 100, 20, 3.0) for step in (60, 70)),
            (0, 10, 1, 1.0),
            *((step, 10, 0, 1.0) for step in (0, 5, 9)),
            *((4, 5, 5, 1.0), (5, 6, 5, 1.0), (6, 12, 5, 1.0)),
            *((step, 10, 8, 1.0) for step in (4, 5, 6)),
        ],
        {
            "every step of the warm-up is one behind, so the first has the rate 0, or hardly more, and the last one "
            "is not at the peak: step s has peak·(s + 1)/warmup_steps": [
                schedule(from_zero),
                lambda *case: np.float32(schedule(from_zero)(*case)),
                schedule(from_zero, one_behind),
                schedule(from_zero, both_ends),
            ],
            "the first step has the rate 0, or hardly more, so nothing is learned in it: in the warm-up, step s has "
            "peak·(s + 1)/warmup_steps": schedule(lambda s, w: s / max(1, w - 1)),
            "your warm-up never reaches the peak: step s has peak·(s + 1)/warmup_steps, and you divide by one more": (
                schedule(lambda s, w: (s + 1) / (w + 1))
            ),
            "step number warmup_steps is above the peak: the steps of the warm-up are 0 to warmup_steps - 1, so "
            "`step < warmup_steps`, not `<=`": [
                warms_up_once_more,
                lambda s, n, w, peak: peak * (s + 1) / w if s <= w else learning_rate(s, n, w, peak),
            ],
            "you take the smaller one of rise and cosine: in the warm-up the rise alone counts": (
                lambda s, n, w, peak: peak * min((s + 1) / max(1, w), half_cosine(after_warmup(s, n, w)))
            ),
            "the last step is not at 0: the first step after the warm-up is k = 1 of n, the last one k = n, so "
            "k = step + 1 - warmup_steps": schedule(progress=one_behind),
            "the first step after the warm-up has the peak again: the last step of the warm-up runs at the peak, "
            "and the one after it is a little lower": [
                schedule(progress=both_ends),
                schedule(progress=lambda s, n, w: (s - w) / (n - 1 - w)),
            ],
            "after the warm-up your rate climbs: 1 + cos falls from 2 to 0, 1 - cos climbs": schedule(
                fall=lambda share: (1 - math.cos(math.pi * share)) / 2
            ),
            "after the warm-up your rate falls in a straight line: half a cosine is asked for": schedule(
                fall=lambda share: 1 - share
            ),
            "your cosine falls and rises again: half a cosine, from cos 0 to cos π": schedule(
                fall=lambda share: half_cosine(2 * share)
            ),
            "your rate is negative at the end: (1 + cos)/2 runs from 1 to 0": schedule(
                fall=lambda share: math.cos(math.pi * share)
            ),
            "this is a quarter of a cosine: (1 + cos(π·k/n))/2": schedule(
                fall=lambda share: math.cos(math.pi * share / 2)
            ),
            "π is missing: cos(k/n) hardly falls; half a cosine is cos(π·k/n)": schedule(
                fall=lambda share: (1 + math.cos(share)) / 2
            ),
            "`math.cos` takes radians: half a turn is π, not 180": schedule(
                fall=lambda share: (1 + math.cos(180 * share)) / 2
            ),
            "`//` cuts the fraction off: divide with /": lambda s, n, w, peak: (
                peak * (s + 1) // w if s < w else learning_rate(s, n, w, peak)
            ),
            "1 + cos runs from 2 to 0: divide by 2": schedule(fall=lambda share: 2 * half_cosine(share)),
            "brackets are missing: 1 + cos as a whole is divided by 2": [
                schedule(fall=lambda share: 1 + math.cos(math.pi * share) / 2),
                schedule(fall=lambda share: 1 / 2 * 1 + math.cos(math.pi * share)),
            ],
            "brackets are missing: s + 1 as a whole is divided by warmup_steps": schedule(
                lambda s, w: s + 1 / w
            ),
            "your cosine counts from step 0, so the rate drops at the end of the warm-up: count from there": (
                schedule(progress=lambda s, n, w: (s + 1) / n)
            ),
            "your rate never falls to 0: the cosine ends at 0, in the last step, and no smallest rate is kept": [
                schedule(fall=lambda share: 0.01 + 0.99 * half_cosine(share)),
                schedule(fall=lambda share: 0.1 + 0.9 * half_cosine(share)),
                schedule(fall=lambda share: max(0.01, half_cosine(share))),
            ],
            "without a warm-up there is no rise: step 0 is the first of the cosine": [
                lambda s, n, w, peak: learning_rate(s, n, w, peak) if s or w else peak,
                lambda s, n, w, peak: learning_rate(s, n, max(1, w), peak),
            ],
            "without a warm-up your rate stays at the peak: the cosine comes all the same, from step 0 on": (
                lambda s, n, w, peak: learning_rate(s, n, w, peak) if w else peak
            ),
            "you multiply the rise by the cosine: the warm-up is the straight line alone, and the cosine begins after "
            "it": lambda s, n, w, peak: peak * min(1, (s + 1) / max(1, w)) * half_cosine((s + 1) / n),
            "n is the number of steps *after* the warm-up": schedule(
                progress=lambda s, n, w: (s + 1 - w) / n
            ),
            "n = total_steps - warmup_steps stands below the line as a whole: brackets are missing": [
                schedule(progress=lambda s, n, w: (s + 1 - w) / n - w / math.pi),
                schedule(progress=lambda s, n, w: (s + 1 - w) / n - w),
            ],
            "n is total_steps - warmup_steps, and you take one less, so that your rate is at 0 too early": schedule(
                progress=lambda s, n, w: (s + 1 - w) / max(1, n - w - 1)
            ),
            "there is no rise: in the first warmup_steps the rate grows step by step": [
                schedule(rise=lambda s, w: 1.0),
                lambda s, n, w, peak: peak * half_cosine(after_warmup(s, n, w)),
            ],
            "after the warm-up your rate stays at the peak": schedule(fall=lambda share: 1.0),
            "`peak` is used in one of the two parts alone, the rise or the fall": [
                lambda s, n, w, peak: learning_rate(s, n, w, peak if s < w else 1.0),
                lambda s, n, w, peak: learning_rate(s, n, w, 1.0 if s < w else peak),
            ],
        },
    ),
    ends_at_zero,
    fits_a_small_peak,
)

# -- weight_decay_groups


def small_models() -> Iterator[tuple[str, nn.Module]]:
    """Yield models to split, with their names."""

    def vit(depth):
        return VisionTransformer(patch_size=16, embed_dim=8, depth=depth, num_heads=2)

    yield "a Vision Transformer", vit(2)
    yield "a Vision Transformer with 2-D positions", with_positions(vit(1), "2d")
    frozen = vit(2)
    for parameter in [*frozen.patch_embed.parameters(), *frozen.blocks[0].parameters(), frozen.cls_token]:
        parameter.requires_grad_(False)
    yield "a Vision Transformer with frozen parts", frozen
    yield "a single linear layer in nn.Sequential", nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    yield "a linear layer alone", nn.Linear(4, 2)
    layers = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2)
    yield "a convolution, a batch norm and a linear layer in nn.Sequential", nn.Sequential(*layers)
    others = {"cls_head": nn.Linear(4, 2), "composer": nn.Linear(4, 2), "boxes": nn.BatchNorm3d(2)}
    others |= {"groups": nn.GroupNorm(1, 2), "numbers": nn.BatchNorm1d(2), "token_mixer": nn.Linear(4, 2)}
    others |= {"root": nn.RMSNorm(2), "sound": nn.Conv1d(2, 3, 3), "one": nn.Linear(4, 1)}
    others |= {"norm_free": nn.Linear(4, 2), "bias_net": nn.Linear(4, 2)}
    yield "a Vision Transformer inside a larger model", nn.ModuleDict({"vit": vit(1)} | others)
    shared = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    shared[1].weight = shared[0].weight
    yield "two layers that share their matrix", shared


def is_matrix(name, parameter):
    return parameter.ndim >= 2 and "cls_token" not in name and "pos_embed" not in name


def two_groups(decays: Callable = is_matrix, trainable=True) -> Callable:
    """Return a `weight_decay_groups` that lets those parameters decay of which `decays` says so."""

    def answer(model, weight_decay):
        yes, no = [], []
        for name, parameter in model.named_parameters():
            if parameter.requires_grad or not trainable:
                (yes if decays(name, parameter) else no).append(parameter)
        return [{"params": yes, "weight_decay": weight_decay}, {"params": no, "weight_decay": 0.0}]

    return answer


def changed(change: Callable) -> Callable:
    """Return an answer that changes the right groups at the end: `change` gets groups and model."""
    return lambda model, weight_decay: change(two_groups()(model, weight_decay), model)


def of_names(groups, model):
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [{**group, "params": [names[id(p)] for p in group["params"]]} for group in groups]


def in_both(groups, model):
    return [groups[0], {"params": [p for p in model.parameters() if p.requires_grad], "weight_decay": 0.0}]


def found_in_modules(groups, model):
    parts = [p for module in model.modules() for p in module.parameters(recurse=False)]
    return [{**g, "params": [p for p in parts if any(p is q for q in g["params"])]} for g in groups]


def freezes_the_second(groups, model):
    for parameter in groups[1]["params"]:
        parameter.requires_grad_(False)
    return groups


def copies(groups, model):
    return [{**group, "params": [nn.Parameter(p.clone()) for p in group["params"]]} for group in groups]


FORM = (
    "return a list of dicts, each with the keys 'params', a list of parameters, and 'weight_decay', a number"
)


@demand(
    {
        FORM: changed(lambda groups, model: [group["params"] for group in groups]),
        "of your list has no 'weight_decay'": changed(
            lambda groups, model: [groups[0], {"params": groups[1]["params"]}]
        ),
        "'params' is a set": changed(
            lambda groups, model: [{**group, "params": set(group["params"])} for group in groups]
        ),
        "'params' is a generator": changed(
            lambda groups, model: [{**group, "params": (p for p in group["params"])} for group in groups]
        ),
        "with an 'lr' of its own": changed(lambda groups, model: [{**group, "lr": 1.0} for group in groups]),
        "not their names": changed(of_names),
        "your groups hold tensors that are no parameters of the model": changed(copies),
        "your code changes the model itself": changed(freezes_the_second),
        "the decays are swapped": two_groups(lambda name, p: not is_matrix(name, p)),
        "is frozen (requires_grad is False)": two_groups(trainable=False),
        "is in no group": changed(lambda groups, model: groups[:1]),
        "comes 2 times": [changed(in_both), changed(found_in_modules)],
        "it has 3 axes, but it is no weight matrix": [
            two_groups(lambda name, p: p.ndim >= 2),
            two_groups(lambda name, p: p.ndim >= 2 and name != "cls_token" and "pos_embed" not in name),
        ],
        "decays: it is a bias": two_groups(
            lambda name, p: "token" not in name and "pos" not in name and "norm" not in name
        ),
        "decays: it is the scale of a norm": two_groups(lambda name, p: name.endswith("weight")),
        "Not every norm says so in its name": two_groups(
            lambda name, p: name.endswith("weight") and "norm" not in name
        ),
        "it is a weight matrix": [
            two_groups(lambda name, p: p.ndim >= 2 and "cls" not in name and "pos" not in name),
            two_groups(lambda name, p: is_matrix(name, p) and "norm" not in name and "bias" not in name),
            two_groups(lambda name, p: p.ndim == 2),
            two_groups(lambda name, p: False),
        ],
        "use the argument `weight_decay`": lambda model, weight_decay: two_groups()(model, 0.05),
        "where `weight_decay` is 0 nothing decays": lambda model, weight_decay: two_groups()(
            model, weight_decay or 0.05
        ),
    }
)
def splits_the_models(answer):
    for described, model in small_models():
        for decay in (0.05, 0.3, 0.001, 0.0):
            before = {name: (p.detach().clone(), p.requires_grad) for name, p in model.named_parameters()}
            try:
                groups = answer(model, decay)
            except NotImplementedError as error:
                raise Unfinished from error
            except Exception as error:
                raise stopped(error, f"on {described} ") from error
            for name, p in model.named_parameters():
                if p.requires_grad != before[name][1] or not torch.equal(p, before[name][0]):
                    raise Mistake(
                        f"your code changes the model itself ({name}); it should only sort its parameters"
                    )
            compare_decays(groups, model, decay, described)


def decays_given(groups: object) -> dict[int, list[float]]:
    """Read an answer: for each tensor in it the decays that it gets."""
    if not isinstance(groups, list | tuple) or not groups or not all(isinstance(g, dict) for g in groups):
        kinds = ", ".join(dict.fromkeys(type(g).__name__ for g in groups)) if isinstance(groups, list) else ""
        raise Mistake(f"{FORM}; you returned a {type(groups).__name__}{f' of {kinds}' if kinds else ''}")
    given: dict[int, list[float]] = {}
    for number, group in enumerate(groups):
        if missing := {"params", "weight_decay"} - set(group):
            raise Mistake(
                f"{FORM}; number {number} of your list has no {' and no '.join(map(repr, sorted(missing)))}"
                + (" (the optimiser would then use a decay of its own)" if "params" in group else "")
            )
        if "lr" in group:
            raise Mistake("a group with an 'lr' of its own starts at another rate: leave it to the optimiser")
        params = group["params"]
        if isinstance(params, set | frozenset | dict | Iterator):
            kind = type(params).__name__
            raise Mistake(
                f"'params' is a {kind}: the optimiser wants a list, which keeps its order and stays full"
            )
        for parameter in [params] if isinstance(params, Tensor) else list(params):
            if not isinstance(parameter, Tensor):
                raise Mistake(
                    f"'params' holds {type(parameter).__name__} ({parameter!r:.40}): the optimiser wants the "
                    "parameters themselves, not their names"
                )
            given.setdefault(id(parameter), []).append(float(group["weight_decay"]))
    return given


def compare_decays(groups: object, model: nn.Module, decay: float, described: str) -> None:
    """Compare the decay that every parameter of a model gets with the one it should get."""
    given, named = decays_given(groups), list(model.named_parameters())
    wanted = {id(p): d["weight_decay"] for d in weight_decay_groups(model, decay) for p in d["params"]}
    if set(given) - {id(p) for _, p in named}:
        raise Mistake(
            "your groups hold tensors that are no parameters of the model: copies? They would never be trained"
        )
    if not decay and any(map(any, given.values())):
        raise Mistake("where `weight_decay` is 0 nothing decays: `weight_decay or ...` replaces a 0")
    if decay and given == {key: [decay - value] for key, value in wanted.items()}:
        raise Mistake("the decays are swapped: the weight matrices get 0, and all others decay")
    second = {given[key][0] for key, value in wanted.items() if value == 0 and len(given.get(key, [])) == 1}
    sorted_out = all(given.get(key) == [value or max(second, default=0)] for key, value in wanted.items())
    if sorted_out and len(second) == 1 and second != {0.0} and decay in wanted.values():
        if second == {decay}:
            raise Mistake("every parameter decays: biases, norms, `cls_token` and `pos_embed` should not")
        raise Mistake(f"your groups are right, but the second decays by {max(second):g}: it should by 0")
    for name, p in named:
        got = given.get(id(p), [])
        where = f"{name} of {described}"
        if not p.requires_grad and got:
            raise Mistake(f"{where} is frozen (requires_grad is False): leave frozen parameters out")
        if p.requires_grad and len(got) != 1:
            raise Mistake(
                f"{where} "
                + (f"comes {len(got)} times in your groups" if got else "is in no group")
                + ": every trainable parameter belongs in exactly one, once"
                + ("" if got else "; one in none is never trained")
            )
        if got and abs(got[0] - wanted[id(p)]) > 1e-6:
            raise Mistake(decay_astray(name, p, got[0], wanted[id(p)], where))


def decay_astray(name: str, parameter: Tensor, got: float, want: float, where: str) -> str:
    """Say what is wrong with the decay of one parameter."""
    if want > 0:
        reason = (
            "use the argument `weight_decay`"
            if got > 0
            else "it is a weight matrix (a convolution's kernel is one too)"
        )
        return f"{where} gets the decay {got:g}, it should get {want:g}: {reason}"
    if "cls_token" in name or "pos_embed" in name:
        return (
            f"{where} decays: it has {parameter.ndim} axes, but it is no weight matrix. Counting axes is not enough: "
            "what has `cls_token` or `pos_embed` in its name, whatever stands before or after it, does not decay"
        )
    if name.endswith("bias"):
        return f"{where} decays: it is a bias"
    unnamed = ". Not every norm says so in its name: its scale has one axis, a weight matrix has at least two"
    scale = "the scale of a norm, which decay would pull towards 0"
    return f"{where} decays: it is {scale}{'' if 'norm' in name else unnamed}"


exercise(weight_decay_groups, splits_the_models)

# -- mixup


def itself(value):
    return value


def reversed_batch(permutation):
    return torch.arange(len(permutation) - 1, -1, -1)


def blend(share=itself, target_share=None, partner=itself, target_partner=None) -> Callable:
    """Return a `mixup` with this share of lam and these partners; in the targets the same, or others."""

    def answer(images, targets, lam, permutation):
        if not images.is_floating_point():
            raise ValueError("only floating-point numbers can be blended")
        a, b = share(lam)[:, None, None, None], (target_share or share)(lam)[:, None]
        first, second = partner(permutation), (target_partner or partner)(permutation)
        return a * images + (1 - a) * images[first], b * targets + (1 - b) * targets[second]

    return answer


def along_width(images, targets, lam, permutation):
    return lam * images + (1 - lam) * images[permutation], blend()(images, targets, lam, permutation)[1]


def shares_of_partners(images, targets, lam, permutation):
    a, b = lam[:, None, None, None], lam[:, None]
    return tuple(s * x + ((1 - s) * x)[permutation] for s, x in ((a, images), (b, targets)))


def no_brackets(images, targets, lam, permutation):
    a, b = lam[:, None, None, None], lam[:, None]
    return a * images + 1 - a * images[permutation], b * targets + 1 - b * targets[permutation]


def with_targets(change: Callable) -> Callable:
    """Return a `mixup` whose blended targets are changed at the end."""
    return lambda *case: ((made := blend()(*case))[0], change(made[1]))


def hard_targets(images, targets, lam, permutation):
    return blend()(images, F.one_hot(targets.argmax(1), targets.shape[1]).float(), lam, permutation)


def blends_into_what_it_reads(images, targets, lam, permutation):
    images, targets = images.clone(), targets.clone()
    for i, (share, partner) in enumerate(zip(lam, permutation, strict=True)):
        for batch in (images, targets):
            batch[i] = share * batch[i] + (1 - share) * batch[partner]
    return images, targets


def batch_to_blend(batch: int, *shape: int, permutation: list | None = None) -> tuple[Tensor, ...]:
    partners = torch.randperm(batch) if permutation is None else torch.tensor(permutation)
    return torch.randn(batch, *shape), torch.rand(batch, 4).softmax(1), torch.rand(batch), partners


def blends() -> list[tuple]:
    """Return batches to blend: a readable one, partners in a circle, lam at its ends, other layouts and types."""
    pair = torch.tensor([[[[0.0, 0.0]]], [[[10.0, 20.0]]]])
    ends = batch_to_blend(3, 1, 2, 2, permutation=[2, 0, 1])
    photos = batch_to_blend(3, 2, 3, 4)
    return [
        (pair, torch.eye(2), torch.tensor([0.75, 0.75]), torch.tensor([1, 0])),
        batch_to_blend(5, 1, 2, 3, permutation=[1, 2, 3, 4, 0]),
        batch_to_blend(5, 3, 5, 5, permutation=[1, 2, 3, 4, 0]),
        batch_to_blend(8, 3, 4, 6),
        batch_to_blend(4, 2, 3, 3, permutation=[0, 1, 2, 3]),
        (*ends[:2], torch.tensor([0.0, 1.0, 0.5]), ends[3]),
        batch_to_blend(1, 3, 2, 4),
        (photos[0].to(memory_format=torch.channels_last), *photos[1:]),
    ]


WHOLE = torch.arange(96, dtype=torch.uint8).view(2, 3, 4, 4)


exercise(
    mixup,
    results(
        blends,
        {
            "lam and 1 - lam are swapped: a picture keeps the share lam, its partner gets the rest": blend(
                lambda lam: 1 - lam
            ),
            "the pictures are blended, but the targets are not: a picture that is 30 % ship should get the target "
            "30 %": (blend(target_share=torch.ones_like)),
            "in the targets lam and 1 - lam are swapped: both are blended in the same way": blend(
                target_share=lambda lam: 1 - lam
            ),
            "pictures and targets have different partners: use the same `permutation` for both": blend(
                target_partner=torch.argsort
            ),
            "the partner of picture i is picture permutation[i], so `images[permutation]`; yours are dealt out the "
            "other way round": blend(partner=torch.argsort),
            "you reverse the permutation: the partner of i is permutation[i]": blend(
                partner=lambda permutation: permutation.flip(0)
            ),
            "your partners come from reversing the batch: use `permutation`": blend(partner=reversed_batch),
            "the targets' partners come from reversing the batch: use the same `permutation` for both": blend(
                target_partner=reversed_batch
            ),
            "one share for the whole batch: lam has a number for each picture, the first is not enough": blend(
                lambda lam: lam[:1].expand(len(lam))
            ),
            "you average lam: each picture has a share of its own": blend(
                lambda lam: lam.mean().expand(len(lam))
            ),
            "a partner brings 1 minus its *own* lam: both shares, lam and 1 - lam, are those of the picture": (
                shares_of_partners
            ),
            "lam meets the *width* of the pictures, the last axis; give it the shape (B, 1, 1, 1)": along_width,
            "you take the larger one of lam and 1 - lam: a picture keeps the share lam, even where that is small": (
                blend(lambda lam: torch.maximum(lam, 1 - lam))
            ),
            "every blend is half and half: a picture keeps the share lam, its partner gets 1 - lam": blend(
                lambda lam: torch.full_like(lam, 0.5)
            ),
            "the targets are half and half, whatever lam says: both are blended in the same way": blend(
                target_share=lambda lam: torch.full_like(lam, 0.5)
            ),
            "the targets are made hard before they are blended: smoothed targets must stay smoothed": hard_targets,
            "you write blended pictures into the batch that you still read from, so later pictures get partners that "
            "are blended already: collect the results in a new tensor": blends_into_what_it_reads,
            "brackets are missing: the partner is multiplied by (1 - lam)": no_brackets,
            "the partner gets the share lam too: it gets the rest, 1 - lam": (
                lambda x, y, lam, p: tuple(lam.view(-1, *[1] * (t.ndim - 1)) * (t + t[p]) for t in (x, y))
            ),
            "the targets must stay soft: do not choose the larger one": with_targets(
                lambda soft: F.one_hot(soft.argmax(1), soft.shape[1]).float()
            ),
            "the targets are divided by the largest of them: shares of one picture sum to 1, so divide by nothing": (
                with_targets(lambda soft: soft / soft.amax(dim=1, keepdim=True))
            ),
            "the targets are divided by their largest number, over the whole batch: divide by nothing": with_targets(
                lambda soft: soft / soft.max()
            ),
        },
        device=True,
    ),
    refuses(
        (WHOLE, torch.eye(2), torch.tensor([0.3, 0.6]), torch.tensor([1, 0])),
        "images of torch.uint8 are whole numbers, in which half a grey level would be cut off in silence",
        lambda images, targets, lam, permutation: blend()(images.float(), targets, lam, permutation),
    ),
    refuses(
        (WHOLE.long(), torch.eye(2), torch.tensor([0.3, 0.6]), torch.tensor([1, 0])),
        "images of torch.int64 are whole numbers too",
        lambda images, *rest: mixup(images if images.dtype == torch.uint8 else images.float(), *rest),
    ),
)

# -- read_curves


def named(**changes: int) -> Callable:
    """Return the diagnoses of all six plots, some of them changed."""
    return lambda: read_curves() | changes


WHY_NOT = {
    "look at the comb in the training loss: how often does it jump in one epoch, and how many classes are there?": (
        named(A=2)
    ),
    "a rate that is too high makes a restless line; these lines freeze": named(B=2),
    "it learns well at first; what do both lines do after that, and until the end?": named(B=1),
    "wrong labels would make validation *worse* than guessing; here it is better than training": named(C=7),
    "the validation loss lies *below* the training loss; whose pictures are the harder ones?": named(C=2),
    "blank pictures would give a calm line at ln K; this line is restless and starts with a spike": named(
        D=8
    ),
    "look at the very first step: the loss starts at ln K, as it should; the spike comes later": named(D=4),
    "compare with the dotted line: a model that learned nothing but to say 'all equally likely'": named(D=7),
    "a validation loss that first *falls* well below ln K cannot come from labels in a wrong order": named(
        E=7
    ),
    "training goes on to almost 0; where does the validation loss turn round?": named(E=1),
    "nearly: but a model that memorises is better than guessing on new pictures at first, as in E; this one "
    "never is": named(F=5),
    "training is fine; is there any moment when validation is better than the dotted line?": named(F=1),
}
"""What is said of a plot with the wrong diagnosis; the last words of a plot stand for all other diagnoses."""


@demand(
    {
        "return a dict with one number for each plot": lambda: list(read_curves().values()),
        "the diagnoses are numbered 1 to 8, you gave 'sorted'": named(A="sorted"),
        "you gave '6', a text: leave the quotes out": named(A="6"),
        **WHY_NOT,
    }
)
def names_every_run(answer):
    given, want = outcome(lambda f: f(), answer, ()), read_curves()
    if isinstance(given, Exception):
        raise stopped(given)
    if not isinstance(given, dict) or set(given) != set(want):
        raise Mistake(
            f"return a dict with one number for each plot, {{'A': ..., ..., 'F': ...}}; you returned {given!r:.200}"
        )
    for plot, number in given.items():
        if not isinstance(number, Integral) or isinstance(number, bool) or not 1 <= number <= 8:
            quotes = ", a text: leave the quotes out" if isinstance(number, str) else ""
            raise Mistake(f"plot {plot}: the diagnoses are numbered 1 to 8, you gave {number!r:.50}{quotes}")
    wrong = [plot for plot in sorted(want) if given[plot] != want[plot]]
    if wrong:
        raise Mistake(
            f"{6 - len(wrong)} of 6 are right; plot {wrong[0]} is not: {why_not(wrong[0], given[wrong[0]])}"
        )


def why_not(plot: str, number: int) -> str:
    """Return the words for this diagnosis of a plot, or else those for any other."""
    words = {
        example()[plot]: text for text, example in WHY_NOT.items() if example()[plot] != read_curves()[plot]
    }
    return words.get(number, list(words.values())[-1])


exercise(read_curves, names_every_run)
