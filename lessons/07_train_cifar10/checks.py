"""Checks of lesson 07: augmentation, the schedule, and reading curves."""

import math
from numbers import Integral

import torch
import torch.nn.functional as F
from torch import Tensor

from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import any_device, demand, every_digit, exercise, refuses, results
from vit_classroom.checks.words import describe, difference, explain_error
from vit_classroom.exhibits.broken_runs import read_curves
from vit_course.augment import mixup, random_crop_flip
from vit_course.optim import learning_rate

known = Mistakes(__file__, random_crop_flip, learning_rate, mixup, read_curves)

# -- random_crop_flip: a random function is right if every result is possible and all results are equally frequent

PADDING, MANY = 2, 2000
PLACES = 2 * PADDING + 1


def cropped(answer, *case) -> Tensor:
    """Return the answer's result, which must have shape and type of the images."""
    value = outcome(lambda function, *arguments: function(*arguments), answer, case)
    where = f"on {describe(random_crop_flip, case)}"
    if isinstance(value, Exception):
        raise stopped(value, f"{where}, ")
    if not isinstance(value, Tensor) or value.shape != case[0].shape or value.dtype != case[0].dtype:
        raise Mistake(f"{where}: {difference(value, case[0])}")
    return value


def numbered(channels: int, height: int, width: int) -> Tensor:
    """Return an image of all different numbers above 0."""
    return torch.arange(1, channels * height * width + 1, dtype=torch.float32).view(channels, height, width)


def matches(cuts: Tensor, padded: Tensor) -> Tensor:
    """Tell which window of a padded image each result (B, C, H, W) is, plain then mirrored: bool (B, 2 * places)."""
    height, width = cuts.shape[-2:]
    windows = padded.unfold(1, height, 1).unfold(2, width, 1).permute(1, 2, 0, 3, 4)
    candidates = torch.stack([windows, windows.flip(-1)]).flatten(0, 2)
    return (cuts[:, None] == candidates).flatten(2).all(2)


def draw(answer, flip: float = 0.5, count: int = MANY) -> tuple[Tensor, ...]:
    """Cut an image many times; return what was drawn for each: mirrored or not, top, left."""
    image = numbered(1, 4, 5)
    cuts = cropped(answer, image.expand(count, -1, -1, -1).clone(), PADDING, flip)
    choice = matches(cuts, F.pad(image, [PADDING] * 4)).int().argmax(1)
    return torch.unravel_index(choice, (2, PLACES, PLACES))


def compare_unmoved(unmoved: Tensor, small: Tensor) -> None:
    """Demand that images which are neither moved nor mirrored come back as they are."""
    if not difference(unmoved, small):
        return
    if difference(unmoved.flatten().sort().values, small.flatten().sort().values):
        raise Mistake("with padding 0 and flip 0 the images must come back as they are")
    if not difference(unmoved, small.flip(-1)):
        raise Mistake(
            "with flip 0 every image is mirrored. flip is the probability of mirroring, so mirror where a random "
            "number is *below* flip"
        )
    pairs = zip(unmoved, small, strict=True)
    if all(torch.equal(got, own) or torch.equal(got, own.flip(-1)) for got, own in pairs):
        raise Mistake("with flip 0 some images are mirrored. Is `flip` used, and compared with `torch.rand`?")
    if all(map(torch.equal, *(x.flatten(1).sort(1).values for x in (unmoved, small)))):
        raise Mistake(
            "with padding 0 and flip 0 the pixels of an image change places. Rows stay rows, columns stay columns, and "
            "channels stay in their order"
        )
    raise Mistake(
        "the images of a batch change places. Result i must be cut from image i, because the labels stay in their order"
    )


@demand(known("random_crop_flip certain"))
def does_what_is_certain(answer):
    small = torch.rand(3, 2, 4, 4)
    # A missing last place stops the code for padding 0 alone. The draws below find and explain it.
    if not isinstance(outcome(lambda function, *case: function(*case), answer, (small, 0, 0.0)), Exception):
        compare_unmoved(cropped(answer, small, 0, 0.0), small)
        if answer(given := small.clone(), 0, 0.0).data_ptr() == given.data_ptr():
            if answer(given := small.clone(), 1, 0.5).data_ptr() == given.data_ptr():
                raise Mistake("you write into the images that you are given. Return a new tensor")
            raise Mistake("with padding 0 and flip 0 you return the input itself. Return a new tensor")
        mirrored = cropped(answer, small, 0, 1.0)
        if torch.equal(mirrored, small.flip(2)):
            raise Mistake("you turn the images upside down. Mirror left and right, along the last axis")
        if not torch.equal(mirrored, small.flip(3)):
            kept = ". `flip` returns a new tensor, so keep it" if torch.equal(mirrored, small) else ""
            raise Mistake(
                f"with padding 0 and flip 1 every image must be mirrored left and right, and nothing else{kept}"
            )
    batch = numbered(1, 3, 4) + 100 * torch.arange(20)[:, None, None, None]
    cuts = cropped(answer, batch, 1, 0.5)
    origin = torch.stack([matches(cuts, F.pad(image, [1] * 4)).any(1) for image in batch])
    if bool((origin & ~torch.eye(20, dtype=torch.bool)).any()):
        raise Mistake("the images of a batch change places. Result i must be cut from image i")


@demand(known("random_crop_flip windows"))
def cuts_windows(answer):
    image = numbered(2, 4, 5)
    cuts = cropped(answer, image.expand(200, -1, -1, -1).clone(), PADDING, 0.5)
    padded = F.pad(image, [PADDING] * 4)
    found = matches(cuts, padded).any(1)
    if bool(found.all()):
        return
    for mode, name in (
        ("replicate", "repeats the border pixels"),
        ("reflect", "mirrors the image at its border"),
        ("circular", "lets pixels that leave on one side come in on the other (`roll`)"),
    ):
        if bool(matches(cuts, F.pad(image[None], [PADDING] * 4, mode=mode)[0]).any(1).all()):
            raise Mistake(f"your padding {name}. Here it is zeros, `F.pad(images, [padding] * 4)`")
    apart = [matches(cuts[:, c : c + 1], padded[c : c + 1]).any(1) for c in range(len(image))]
    if all(bool(part.all()) for part in apart):
        raise Mistake(
            "the channels of one image get different windows, so red and blue no longer fit together. Draw one offset "
            "and one flip for an image, and use them for all its channels"
        )
    raise Mistake(
        f"{(~found).sum()} of {len(cuts)} results are no window of the padded image. The smallest case, an image\n"
        f"{image[0].int().tolist()}\nbecame\n{cuts[~found][0, 0].tolist()}"
    )


@demand(known("random_crop_flip offsets"))
def draws_all_offsets_equally_often(answer):
    _, top, left = draw(answer)
    both = torch.bincount(top * PLACES + left, minlength=PLACES**2)
    if int((both > 0).sum()) == 1:
        again = draw(answer, count=3)
        if all(bool((offset == 0).all()) for offset in (top, left, *again[1:])):
            raise Mistake(
                f"every window is at top 0 and left 0. With padding {PADDING} the offsets have {PLACES} places, 0 to "
                f"{PLACES - 1}"
            )
        raise Mistake(
            "one window for the whole batch. Every image needs an offset of its own, because else each step of the "
            "training sees one shift only"
        )
    if bool((top == left).all()):
        raise Mistake("top and left are always equal, so the window moves on a diagonal. Draw two numbers")
    for name, offset in (("top", top), ("left", left)):
        demand_every_place(name, torch.bincount(offset, minlength=PLACES), top, left)
    # 2,000 images, 80 expected a place, deviation 8.8: six deviations pass one fair answer in some ten million by.
    rows, columns = (torch.bincount(offset, minlength=PLACES) for offset in (top, left))
    for counts, places in ((rows, "rows"), (columns, "columns"), (both, "places")):
        expected = MANY / len(counts)
        if float((counts - expected).abs().max()) > 6 * math.sqrt(expected):
            raise Mistake(
                f"the {len(counts)} {places} are not equally likely. Of {MANY} images the rarest place got "
                f"{counts.min()}, the most frequent {counts.max()}, and about {expected:.0f} were expected. Rounded "
                "fractions make the first and the last offset too rare, and a `clamp` makes them too frequent"
            )
    for distance in (1, 2, MANY // 2):
        same = (top[distance:] == top[:-distance]) & (left[distance:] == left[:-distance])
        if (alike := same.double().mean().item()) > 0.08:
            raise Mistake(
                f"{alike:.0%} of the images share their window with the one {distance} places further on in the "
                "batch. Draw for every image"
            )


def demand_every_place(name: str, counts: Tensor, top: Tensor, left: Tensor) -> None:
    """Demand that an offset takes each of its places, by the number of times that it took them."""
    if int(counts[-1]) == 0 and int(counts[:-1].min()) > 0:
        raise Mistake(
            f"the {name} offset never reaches 2·padding. `torch.randint(0, n)` stops at n - 1, so n is 2·padding + 1"
        )
    if int(counts[0]) == 0 and int(counts[1:].min()) > 0:
        raise Mistake(f"the {name} offset is never 0. The offsets begin there, `torch.randint(0, ...)`")
    if int((counts > 0).sum()) < PLACES:
        seen = f"rows {sorted(set(top.tolist()))}, columns {sorted(set(left.tolist()))}"
        raise Mistake(
            f"with padding {PADDING} the {name} offset has 2·padding + 1 = {PLACES} places, 0 to {PLACES - 1}, and "
            f"yours took only {seen}"
        )


@demand(known("random_crop_flip calls"))
def draws_anew_in_every_call(answer):
    mirrored, top, left = draw(answer, count=500)
    if len(mirrored.unique()) == 1:
        raise Mistake("all images of a batch are mirrored, or none. Draw for each image by itself")
    again, *offsets = draw(answer, count=500)
    same_place = (top == offsets[0]) & (left == offsets[1])
    same_side = mirrored == again
    if bool((same_place & same_side).all()):
        raise Mistake("two calls give the same windows. Draw anew in each call, without a fixed seed")
    if same_place.double().mean().item() > 0.3:
        raise Mistake(
            "two calls give image i the same offset. Draw the offsets anew in each call, without a fixed seed"
        )
    if same_side.double().mean().item() > 0.7:
        raise Mistake(
            "the same places of a batch are mirrored in every call. Draw anew for each image, "
            "`torch.rand(B) < flip`"
        )


@demand(known("random_crop_flip mirrors"))
def mirrors_each_image_by_itself(answer):
    mirrored, *_ = draw(answer, 0.2, 1000)
    if abs((share := mirrored.double().mean().item()) - 0.2) > 0.07:
        raise Mistake(f"with flip = 0.2 {share:.0%} of {len(mirrored)} images are mirrored")
    mirrored, top, left = draw(answer)
    for distance in (1, MANY // 2):
        alike = (mirrored[distance:] == mirrored[:-distance]).double().mean().item()
        if abs(alike - 0.5) > 0.2:
            raise Mistake(
                f"{alike:.0%} of the images are mirrored if, and only if, the one {distance} places further on is. "
                "Draw for every image, `torch.rand(B) < flip`"
            )
    for place in range(PLACES**2):  # 80 images, deviation .056
        share = mirrored[top * PLACES + left == place].double().mean().item()
        if abs(share - 0.5) > 0.34:
            raise Mistake(
                f"whether an image is mirrored depends on its place. At top {place // PLACES} and left "
                f"{place % PLACES} {share:.0%} are. Draw a number of its own for that, for every image"
            )
    image = torch.rand(1, 1, 4, 4)
    single = [
        bool(matches(cropped(answer, image, 1, 0.5), F.pad(image[0], [1] * 4))[0, :9].any())
        for _ in range(60)
    ]
    if len(set(single)) == 1:
        raise Mistake(
            f"in 60 calls with one image and flip = 0.5 it is {'never' if single[0] else 'always'} mirrored. Do not "
            "choose a fixed number of images, draw for each one by itself, `torch.rand(B) < flip`"
        )


@demand(known("random_crop_flip kinds"))
def takes_all_images(answer):
    for dtype in (torch.uint8, torch.float32):
        image = numbered(3, 3, 6).to(dtype)
        if not bool(matches(cropped(answer, image[None], 1, 0.5), F.pad(image, [1] * 4)).any()):
            raise Mistake(f"a single image of {dtype} does not come back as a window of itself")
    copies = outcome(lambda f: f(numbered(2, 4, 5).expand(4, -1, -1, -1), 4, 0.5), answer, ())
    if isinstance(copies, Exception):
        raise Mistake(
            "on copies of an image made with `expand`, as in the next cell, your code stopped with "
            f"{explain_error(copies)}"
        )


@demand({})
def works_without_padding(answer):
    cropped(answer, torch.rand(3, 2, 4, 4), 0, 0.0)


exercise(
    random_crop_flip,
    does_what_is_certain,
    cuts_windows,
    draws_all_offsets_equally_often,
    draws_anew_in_every_call,
    mirrors_each_image_by_itself,
    takes_all_images,
    works_without_padding,
    every_digit(known("random_crop_flip digits")["are not those that were given"], (2, 1, 3, 4), 0, 0.0),
    any_device(
        (torch.ones(3, 1, 4, 4), 1, 0.5),
        "a tensor that your code makes is always on the CPU. Give `torch.rand`, `torch.arange` and the like "
        "device=images.device",
        *known("random_crop_flip device")["a tensor that your code makes is always on the CPU"],
    ),
)

# -- learning_rate


@demand(known("learning_rate end"))
def ends_at_zero(answer):
    if abs(last := float(answer(39, 40, 8, 1.0))) > 1e-9:
        raise Mistake(f"the very last step must have the rate 0, without a small rest. Yours has {last:.2g}")


@demand(known("learning_rate peak"))
def fits_a_small_peak(answer):
    for step in range(39):
        mine, want = float(answer(step, 40, 8, 1e-3)), learning_rate(step, 40, 8, 1e-3)
        if abs(mine - want) > 1e-3 * want:
            raise Mistake(
                f"right for a peak of 1, but with peak = 0.001 step {step} of 40, with 8 of warm-up, should have "
                f"{want:.4g} and has {mine:.4g}. So do not round, and add nothing"
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
        known("learning_rate results"),
    ),
    ends_at_zero,
    fits_a_small_peak,
)

# -- mixup


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
    results(blends, known("mixup results"), device=True),
    refuses(
        (WHOLE, torch.eye(2), torch.tensor([0.3, 0.6]), torch.tensor([1, 0])),
        "images of torch.uint8 are whole numbers, in which half a grey level would be cut off without a word",
        *known("mixup refuses")["uint8"],
    ),
    refuses(
        (WHOLE.long(), torch.eye(2), torch.tensor([0.3, 0.6]), torch.tensor([1, 0])),
        "images of torch.int64 are whole numbers too",
        *known("mixup refuses")["int64"],
    ),
)

# -- read_curves

WHY_NOT = known("read_curves why")
"""What is said of a plot with the wrong diagnosis; the last words of a plot serve for all other diagnoses."""


@demand({**known("read_curves form"), **WHY_NOT})
def names_every_run(answer):
    given, want = outcome(lambda f: f(), answer, ()), read_curves()
    if isinstance(given, Exception):
        raise stopped(given)
    if not isinstance(given, dict) or set(given) != set(want):
        raise Mistake(
            f"return a dict with one number for each plot, {{'A': ..., ..., 'F': ...}}, and you returned {given!r:.200}"
        )
    for plot, number in given.items():
        if not isinstance(number, Integral) or isinstance(number, bool) or not 1 <= number <= 8:
            quotes = ", a text. Leave the quotes out" if isinstance(number, str) else ""
            raise Mistake(
                f"plot {plot}: the diagnoses have the numbers 1 to 8, and you gave {number!r:.50}{quotes}"
            )
    wrong = [plot for plot in sorted(want) if given[plot] != want[plot]]
    if wrong:
        right = 6 - len(wrong)
        raise Mistake(
            f"{right} of 6 are right, and plot {wrong[0]} is not: {why_not(wrong[0], given[wrong[0]])}"
        )


def why_not(plot: str, number: int) -> str:
    """Return the words for this diagnosis of a plot, or else those for any other."""
    pairs = [(answer()[plot], words) for words, answers in WHY_NOT.items() for answer in answers]
    words = {diagnosis: words for diagnosis, words in pairs if diagnosis != read_curves()[plot]}
    return words.get(number, list(words.values())[-1])


exercise(read_curves, names_every_run)
