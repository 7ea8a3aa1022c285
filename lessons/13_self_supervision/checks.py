"""Checks of lesson 13: self-supervision."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from torch import Tensor

from vit_course.beyond import masked
from vit_course.classroom.checks.compare import compare, compare_gradients
from vit_course.classroom.checks.outcome import Mistake, outcome
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import difference, explain_error
from vit_course.patches import as_pair

FATES = [
    ((0.8, 0.02, 0.18), "one in ten of *those that are not masked* became another patch. 10 % of the *corrupted* ones "
     "should, as many as stay as they are: among those that are not masked it is one half"),
    ((0.8, 0.1, 0.1), ""),
    ((1.0, 0.0, 0.0), "every corrupted patch becomes the mask token: only 80 % should, 10 % swap, 10 % stay"),
    ((0.8, 0.2, 0.0), "none of the corrupted patches stays as it is: 10 % should"),
    ((0.9, 0.1, 0.0), "none of the corrupted patches stays as it is: 10 % should"),
    ((0.8, 0.0, 0.2), "no corrupted patch becomes another patch: 10 % should"),
    ((0.9, 0.0, 0.1), "no corrupted patch becomes another patch: 10 % should"),
    ((0.1, 0.8, 0.1), "80 % become another patch and 10 % the mask token: it should be the other way round"),
    ((0.1, 0.1, 0.8), "80 % stay as they are and 10 % become the mask token: it should be the other way round"),
    ((0.88, 0.02, 0.1), "the other patch is often a mask token: you read it from tokens that are corrupted already, "
     "not from the original ones"),
    ((0.8, 0.05, 0.15), "the other patch is sometimes the patch itself: with two patches in a picture that is seen "
     "best"),
]  # fmt: skip
"""Shares of masked, swapped and kept patches among the corrupted ones, and what is wrong with them."""


def _numbered(batch: int, count: int, dim: int) -> Tensor:
    """Tokens that say whose they are: their first two numbers are place and picture, counted from 1."""
    tokens = torch.zeros(batch, count, dim)
    tokens[..., 0] = torch.arange(1, count + 1)
    tokens[..., 1] = torch.arange(1, batch + 1)[:, None]
    return tokens


def _corrupted(answer, tokens: Tensor, mask_token: Tensor, share: float, where: str) -> tuple[Tensor, Tensor]:
    """Run an answer once and demand two tensors of the right shapes and types."""
    result = outcome(lambda f, *case: f(*case), answer, (tokens, mask_token, share))
    if isinstance(result, Exception):
        raise Mistake(f"{where}your code stopped with {explain_error(result)}")
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Mistake("return two tensors, the corrupted tokens and `chosen`")
    if not all(isinstance(part, Tensor) for part in result):
        raise Mistake("return two tensors, the corrupted tokens and `chosen`")
    corrupted, chosen = result
    if chosen.shape == tokens.shape and corrupted.shape == tokens.shape[:2]:
        raise Mistake("the right two tensors in the wrong order: first the corrupted tokens, then `chosen`")
    if corrupted.shape != tokens.shape:
        raise Mistake(
            f"{where}the corrupted tokens should be {tuple(tokens.shape)}, yours are {tuple(corrupted.shape)}"
            + (": nothing is removed, masked patches keep their place" if corrupted.ndim == 3 else "")
        )
    if chosen.shape != tokens.shape[:2]:
        raise Mistake(
            f"{where}`chosen` should be (B, N) = {tuple(tokens.shape[:2])}, yours is {tuple(chosen.shape)}"
        )
    if chosen.dtype != torch.bool:
        raise Mistake(f"`chosen` should hold True and False (torch.bool), yours holds {chosen.dtype}")
    if corrupted.dtype != tokens.dtype:
        raise Mistake(
            f"tokens of {tokens.dtype} come back as {corrupted.dtype}: give the mask token their type, "
            "`.to(tokens.dtype)`"
        )
    return corrupted.detach(), chosen


def _check_choice(chosen: Tensor, wanted: int, share: float, where: str) -> None:
    """Name what is wrong with the number of chosen patches, or with the way they are drawn."""
    batch, count = chosen.shape
    counts = chosen.sum(dim=1)
    if (counts == wanted).all():
        if 0 < wanted < count and (chosen == chosen[0]).all():
            raise Mistake("all pictures of a batch lose the same patches: draw new ones for every picture")
        often = chosen.float().mean(dim=0) * count / wanted if wanted else torch.ones(count)
        if batch >= 200 and (often < 0.5).any():
            raise Mistake(
                f"{where}patch {int(often.argmin())} is rarely or never chosen: all places are equally likely"
            )
        return
    if (counts == counts[0]).all():
        hint = ": round, do not cut off" if counts[0] == int(share * count) else ""
        if counts[0] == math.ceil(share * count):
            hint = ": round to the nearest whole number, do not always round up"
        if counts[0] == count - wanted:
            hint = ": `chosen` marks the patches that are left alone"
        raise Mistake(
            f"{where}you corrupt {int(counts[0])} patches of a picture; {share:g}·{count} rounds to {wanted}{hint}"
        )
    span = f"{int(counts.min())} to {int(counts.max())}"
    if counts.max() <= wanted:
        raise Mistake(
            f"you corrupt {span} patches of a picture, and it should be {wanted} in each: some are drawn twice. Take "
            "the first ones of a random order"
        )
    if (counts.float().mean() - wanted).abs() < 0.1 * count:
        raise Mistake(
            f"the number of corrupted patches differs from picture to picture, {span}: you draw each patch by itself. "
            f"Exactly {wanted} of {count} should be drawn in every picture"
        )
    raise Mistake(f"{where}you corrupt {span} patches of a picture, not {wanted}")


def _check_fates(masked_share: float, swapped_share: float, tolerance: float, where: str) -> None:
    """Compare the shares of the three fates with those that are wanted, and with those of known mistakes."""
    shares = torch.tensor([masked_share, swapped_share, 1 - masked_share - swapped_share])
    if (shares - torch.tensor([0.8, 0.1, 0.1])).abs().max() <= tolerance:
        return
    known, message = min(FATES, key=lambda fate: float((torch.tensor(fate[0]) - shares).abs().max()))
    if message and (torch.tensor(known) - shares).abs().max() <= 0.025:
        raise Mistake(where + message)
    named = " %, ".join(f"{100 * share:.0f}" for share in shares.tolist())
    raise Mistake(
        f"{where}of the corrupted patches {named} % became the mask token, became another patch, stayed: "
        "it should be 80, 10 and 10"
    )


@exercise(masked.corrupt)
def check_corrupt(answer):
    cases = [
        (120, 30, 2, 1.0),
        (3, 6, 3, 0.3),
        (5, 7, 3, 0.3),
        (20, 12, 4, 0.15),
        (300, 20, 3, 0.5),
        (2000, 2, 3, 1.0),
        (4, 6, 3, 0.0),
    ]
    for batch, count, dim, share in cases:
        tokens = _numbered(batch, count, dim)
        mask_token = torch.full((1, 1, dim), -1.0)
        where = f"with {batch} pictures of {count} patches, share {share:g}: "
        corrupted, chosen = _corrupted(answer, tokens, mask_token, share, where)
        is_mask = (corrupted == mask_token).all(dim=-1)
        changed = (corrupted != tokens).any(dim=-1)
        wanted = round(share * count)
        if (changed & ~chosen).any():
            if (chosen == is_mask).all():
                raise Mistake(
                    "`chosen` holds only the patches that became the mask token: those that became another patch and "
                    "those that stayed are corrupted too, and the loss should count them"
                )
            raise Mistake("a patch has changed although `chosen` is False for it")
        if share == 1 and not chosen.all() and (chosen == changed).all():
            raise Mistake(
                "`chosen` leaves out the corrupted patches that stayed as they are: the loss should count them, or the "
                "model learns that a patch which is shown is right"
            )
        _check_choice(chosen, wanted, share, where)
        swapped = changed & ~is_mask
        _check_replacements(corrupted, tokens, swapped, where)
        if wanted * batch >= 3000:
            drawn = chosen.sum().item()
            _check_pattern(is_mask, chosen)
            again = "with all patches corrupted the shares were right; do choice and fate use the same random numbers? "
            hint = where + again if share < 1 else where
            _check_fates(is_mask.sum().item() / drawn, swapped.sum().item() / drawn, 0.025, hint)
            _check_partners(corrupted, tokens, swapped, chosen)
    _check_again(answer)


def _check_replacements(corrupted: Tensor, tokens: Tensor, swapped: Tensor, where: str) -> None:
    """Demand that what stands for a patch, and is no mask token, is another patch of the same picture."""
    place, picture = corrupted[swapped][:, 0], corrupted[swapped][:, 1]
    known = corrupted[swapped].clone()
    known[:, 0], known[:, 1] = place.round(), picture.round()
    valid = (known[:, 0] >= 1) & (known[:, 0] <= tokens.shape[1])
    valid &= (known[:, 1] >= 1) & (known[:, 1] <= tokens.shape[0])
    if (known != corrupted[swapped]).any() or not valid.all() or (known[:, 2:] != 0).any():
        raise Mistake(
            f"{where}a corrupted token is neither the mask token nor the token of a patch: replace whole tokens, "
            "do not add, mix or scale them"
        )
    if (picture != tokens[swapped][:, 1]).any():
        raise Mistake("the other patch comes from another picture of the batch: take one of the same picture")


def _check_pattern(is_mask: Tensor, chosen: Tensor) -> None:
    """Demand that every patch meets a fate of its own."""
    if not chosen.all() or chosen.shape[1] < 10 or is_mask.all():
        return
    if (is_mask == is_mask[0]).all():
        raise Mistake(
            "the fates are drawn once for all pictures: draw a number for every patch of every picture"
        )
    if (is_mask == is_mask[:, :1]).all():
        raise Mistake("all corrupted patches of a picture share one fate: draw a number for every patch")
    counts = is_mask.sum(dim=1)
    if (counts == counts[0]).all() and counts[0] > 0:
        raise Mistake(
            f"every picture has exactly {int(counts[0])} mask tokens among {chosen.shape[1]} corrupted patches: 80 % "
            "is a probability, and each patch meets its fate by itself, so the number differs from picture to picture"
        )


def _check_partners(corrupted: Tensor, tokens: Tensor, swapped: Tensor, chosen: Tensor) -> None:
    """Demand that the other patch is drawn at random, for every patch anew and from all others."""
    count = tokens.shape[1]
    place, picture = swapped.nonzero()[:, 1], swapped.nonzero()[:, 0]
    partner = corrupted[swapped][:, 0].long() - 1
    offsets = (partner - place) % count
    if count > 2 and len(offsets) and len(offsets.unique()) == 1:
        raise Mistake("the other patch is always at the same distance: draw it at random for every patch")
    if count > 2 and len(partner.unique()) < min(count, 10):
        raise Mistake("the other patch comes from a few places only: all other patches are equally likely")
    if count == 2 or len(offsets) < 100:
        return
    if _is_function(picture, offsets):
        raise Mistake(
            "in one picture the other patch is at the same distance for all patches: draw it for every patch by itself"
        )
    if _is_function(place, partner):
        raise Mistake(
            "a patch is replaced by the same other patch in every picture: draw it for every patch of every picture"
        )
    missing = sorted(set(range(1, count)) - set(offsets.tolist()))
    if len(missing) == 1 and len(offsets) > 12 * count:
        raise Mistake(
            f"no patch is ever replaced by the one {missing[0]} places further on (counted modulo {count}): all other "
            "patches are equally likely. `torch.randint(low, high)` never gives high itself"
        )
    if missing and len(offsets) > 12 * count:
        raise Mistake("the other patch comes from a few distances only: all other patches are equally likely")
    among = chosen[picture, partner]
    if not chosen.all() and (among.all() or not among.any()):
        which = "a corrupted one" if among.all() else "one that is not corrupted"
        raise Mistake(f"the other patch is always {which}: all other patches are equally likely")


def _is_function(keys: Tensor, values: Tensor) -> bool:
    """Tell whether equal keys always have equal values."""
    return len(torch.stack([keys, values]).unique(dim=1)[0]) == len(keys.unique())


def _check_again(answer) -> None:
    """Two calls differ, half is the default, other types stay, and gradients reach tokens and mask token."""
    tokens, mask_token = _numbered(8, 20, 4), torch.full((1, 1, 4), -1.0)
    default = outcome(lambda f, *case: f(*case), answer, (tokens, mask_token))
    if isinstance(default, Exception) or (default[1].sum(dim=1) != 10).any():
        raise Mistake("without `share` half of the patches should be corrupted: keep the default `share=0.5`")
    first, second = (_corrupted(answer, tokens, mask_token, 0.5, "")[1] for _ in range(2))
    if torch.equal(first, second):
        raise Mistake("two calls choose the same patches: do not set a seed, the model should see new holes")
    _corrupted(answer, tokens.bfloat16(), mask_token, 0.5, "with tokens of bfloat16: ")
    leaves = tokens.requires_grad_(), mask_token.requires_grad_()
    corrupted = answer(*leaves, 0.5)[0]
    gradients = (
        torch.autograd.grad(corrupted.sum(), leaves, allow_unused=True)
        if corrupted.requires_grad
        else (None,) * 2
    )
    for name, gradient in zip(("tokens", "mask_token"), gradients, strict=True):
        if gradient is None or not gradient.any():
            raise Mistake(
                f"no gradient reaches `{name}`, so it could never learn: leave out `detach`, `.data`, `torch.no_grad`"
            )
    if abs(sum(gradient.sum().item() for gradient in gradients) - tokens.numel()) > 0.5:
        raise Mistake(
            "a part of the corrupted tokens sends no gradient back: are the other patches, or the kept ones, detached?"
        )


def _patch_means(images: Tensor, patch_size) -> Tensor:
    p1, p2 = as_pair(patch_size)
    return reduce(images.float(), "b c (h p1) (w p2) -> b (h w) c", "mean", p1=p1, p2=p2)


def _digits(levels: Tensor, base: int = 8) -> Tensor:
    """Read levels (B, N, C) as the digits of a number, first channel first."""
    channels = levels.shape[-1]
    weights = base ** torch.arange(channels - 1, -1, -1)
    return (levels.long() * weights).sum(dim=-1)


@exercise(masked.colour_classes)
def check_colour_classes(answer):
    generator = torch.Generator().manual_seed(5)

    def random(*shape):
        return torch.randint(0, 256, shape, generator=generator).to(torch.uint8)

    one = torch.tensor([200, 100, 30], dtype=torch.uint8).reshape(1, 3, 1, 1).repeat(1, 1, 2, 2)
    one[0, :, 0, 0] = torch.tensor([240, 60, 10])
    edges = torch.tensor([[255, 223, 31], [0, 254, 223], [33, 159, 191]]).repeat_interleave(2, dim=1)
    edges = torch.stack([edges, edges], dim=1)[None].to(torch.uint8)
    cases = [
        (one, 2),
        (edges, 2),
        (random(1, 3, 4, 6), 2),
        (random(2, 3, 8, 8), 4),
        (random(2, 3, 15, 30).float(), (3, 5)),
        (torch.tensor([31.5, 32.5, 63.75, 63.75]).repeat(1, 3, 2, 1), (2, 2)),
        (random(2, 1, 8, 12), 4),
        (random(1, 4, 4, 6), 2),
    ]

    def levels(images, patch_size, width=32.0):
        return (_patch_means(images, patch_size) / width).long().clamp(0, 7)

    def blue_first(images, patch_size):
        return _digits(levels(images, patch_size).flip(-1))

    def rounded(images, patch_size):
        return _digits((_patch_means(images, patch_size) / 32).round().clamp(0, 7))

    def of_255(images, patch_size):
        return _digits(levels(images, patch_size, 255 / 8))

    def of_255_to_7(images, patch_size):
        return _digits((_patch_means(images, patch_size) / 255 * 7).long())

    def of_255_to_7_rounded(images, patch_size):
        return _digits((_patch_means(images, patch_size) / 255 * 7).round())

    def as_shares(images, patch_size):
        return _digits(levels(images, patch_size, 1 / 8))

    def decimal(images, patch_size):
        return _digits(levels(images, patch_size), 10)

    def binary(images, patch_size):
        return _digits(levels(images, patch_size), 2)

    def base_7(images, patch_size):
        return _digits(levels(images, patch_size), 7)

    def base_256(images, patch_size):
        return _digits(levels(images, patch_size), 256)

    def levels_alone(images, patch_size):
        return levels(images, patch_size)

    def summed(images, patch_size):
        return levels(images, patch_size).sum(dim=-1)

    def levels_first(images, patch_size):
        return _digits(_patch_means((images.float() / 32).floor(), patch_size).floor())

    def grey(images, patch_size):
        means = _patch_means(images, patch_size).mean(dim=-1, keepdim=True)
        return _digits((means / 32).long().expand(-1, -1, images.shape[1]))

    def one_number(images, patch_size):
        return (_patch_means(images, patch_size).mean(dim=-1) / 32).long()

    def first_pixel(images, patch_size):
        p1, p2 = as_pair(patch_size)
        return _digits(rearrange(images[:, :, ::p1, ::p2] // 32, "b c h w -> b (h w) c"))

    def columns_first(images, patch_size):
        grid = images.shape[2] // as_pair(patch_size)[0]
        classes = masked.colour_classes(images, patch_size)
        return rearrange(classes, "b (h w) -> b (w h)", h=grid)

    def as_float(images, patch_size):
        return masked.colour_classes(images, patch_size).float()

    def overflowing(images, patch_size):
        channels = images.shape[1]
        weights = (8 ** torch.arange(channels - 1, -1, -1)).to(torch.uint8)
        numbers = levels(images, patch_size).to(torch.uint8) * weights
        return sum(numbers[..., c] for c in range(channels)).long()

    def as_grid(images, patch_size):
        grid = images.shape[2] // as_pair(patch_size)[0]
        return rearrange(masked.colour_classes(images, patch_size), "b (h w) -> b h w", h=grid)

    def sides_swapped(images, patch_size):
        return masked.colour_classes(images, as_pair(patch_size)[::-1])

    def square(images, patch_size):
        return masked.colour_classes(images, as_pair(patch_size)[0])

    def whole_pixels(images, patch_size):
        return masked.colour_classes(images.floor() if images.is_floating_point() else images, patch_size)

    def scrambled(images, patch_size):
        p1, p2 = as_pair(patch_size)
        batch, channels = images.shape[:2]
        return _digits(
            (images.float().reshape(batch, channels, -1, p1 * p2).mean(-1) / 32).long().transpose(1, 2)
        )

    compare(
        answer,
        masked.colour_classes,
        cases,
        [
            (blue_first, "the order of the channels is turned round: red is the first digit, worth 64"),
            (of_255, "you divide the range 0..255 by 8: a level is 32 grey values wide, 256 / 8"),
            (rounded, "you round to the nearest level: 31 belongs to level 0, so cut off (floor)"),
            (of_255_to_7, "you scale 0..255 to 0..7: then level 7 is one value wide. floor(m / 32) gives equal widths"),
            (of_255_to_7_rounded, "you scale 0..255 to 0..7 and round: floor(m / 32) gives levels of equal widths"),
            (as_shares, "almost everything has level 7: the pixels are in 0..255, and you treat them as 0..1"),
            (decimal, "you read the levels as decimal digits, 100·red + 10·green + blue: the base is 8"),
            (binary, "the weights of the channels are 4, 2 and 1: a digit has 8 values, so 64, 8 and 1"),
            (base_7, "the base is the number of levels, 8, not the highest level, 7"),
            (base_256, "the base is the number of levels, 8, not 256"),
            (levels_alone, "these are the levels of the channels: make one number of them, 64·red + 8·green + blue"),
            (summed, "you add the levels without weights: then many colours share a number"),
            (levels_first, "you take the level of every pixel and average the levels: the mean comes first"),
            (grey, "you average over the channels too, so all is grey: each channel has its own mean"),
            (one_number, "you average over the channels too, so all is grey: each channel has its own mean"),
            (first_pixel, "you read one pixel of each patch: average over all of its pixels"),
            (columns_first, "the patches come column by column: reading order is row by row"),
            (as_float, "the values are right, but a class is a whole number: `.long()`"),
            (overflowing, "64·7 does not fit into uint8, the numbers run over: turn them into int64 first, `.long()`"),
            (as_grid, "the classes are right, but as a grid (B, rows, columns): flatten it to (B, N)"),
            (scrambled, "`reshape` alone cuts rows, not patches: see lesson 01"),
            (sides_swapped, "height and width of the patch are swapped: `patch_size` is (height, width)"),
            (square, "you use the height of the patch for its width too: `patch_size` may be (height, width)"),
            (whole_pixels, "you cut the pixels off to whole numbers before you average: keep float pixels as they are"),
        ],
    )  # fmt: skip
    _check_independence(answer)
    for height, width in ((8, 10), (10, 8)):
        refused = outcome(lambda f, *case: f(*case), answer, (random(1, 3, height, width), 4))
        if not isinstance(refused, ValueError | RuntimeError | AssertionError):
            raise Mistake(
                f"{height}x{width} pixels cannot be cut into patches of 4 without a rest: raise a ValueError that says "
                "so"
            )


def _check_independence(answer) -> None:
    """Demand that the class of a patch does not depend on other patches."""
    images = torch.full((2, 3, 8, 8), 100, dtype=torch.uint8)
    changed = images.clone()
    changed[..., 4:, :], changed[1] = 255, 10
    before, after = answer(images.clone(), 4), answer(changed, 4)
    if difference(after[0, :2], before[0, :2]):
        raise Mistake(
            "the class of a patch changes when *other* patches change: take the pixels as they are, not normalised"
        )


@exercise(masked.class_colours)
def check_class_colours(answer):
    generator = torch.Generator().manual_seed(2)
    cases = [
        (torch.tensor([10]),),
        (torch.tensor([0, 7, 8, 64, 511, 457]),),
        (torch.randint(0, 512, (2, 5), generator=generator),),
        (torch.randint(0, 512, (2, 3, 4), generator=generator),),
        (torch.tensor(300),),
        (torch.tensor([0, 3, 7]), 1),
        (torch.randint(0, 64, (3, 2), generator=generator), 2),
        (torch.tensor([8, 4095, 600]), 4),
    ]

    def levels(classes, channels=3, base=8):
        weights = base ** torch.arange(channels - 1, -1, -1)
        return classes[..., None] // weights % base

    def known(formula, **options):
        def function(classes, num_channels=3):
            return formula(levels(classes, num_channels, **options).float()).to(torch.uint8)

        return function

    def blue_first(classes, num_channels=3):
        return masked.class_colours(classes, num_channels).flip(-1)

    def as_shares(classes, num_channels=3):
        return masked.class_colours(classes, num_channels) / 255

    def as_shares_256(classes, num_channels=3):
        return masked.class_colours(classes, num_channels) / 256

    def whole_numbers(classes, num_channels=3):
        return masked.class_colours(classes, num_channels).long()

    def floats(classes, num_channels=3):
        return masked.class_colours(classes, num_channels).float()

    def levels_alone(classes, num_channels=3):
        return levels(classes, num_channels)

    def channels_first(classes, num_channels=3):
        return masked.class_colours(classes, num_channels).movedim(-1, 0)

    def always_three(classes, num_channels=3):
        return masked.class_colours(classes, 3)

    def no_remainder(classes, num_channels=3):
        weights = 8 ** torch.arange(num_channels - 1, -1, -1)
        return (32 * (classes[..., None] // weights) + 16).clamp(max=255).to(torch.uint8)

    compare(
        answer,
        masked.class_colours,
        cases,
        [
            (blue_first, "red and blue are swapped: the first channel is the digit worth most, 64 for RGB"),
            (channels_first, "the colours are right, but the channels should be the last axis"),
            (known(lambda x: 32 * x), "you give the darkest colour of the class: the middle is 16 grey values lighter"),
            (known(lambda x: 32 * x + 31), "you give the lightest colour of the class, not the middle: 32·level + 16"),
            (known(lambda x: 32 * x + 15), "the middle of 32 values is 32·level + 16 here, not + 15"),
            (known(lambda x: x * 255 / 7), "you stretch the levels to 0..255: the middle of a level is 32·level + 16"),
            (known(lambda x: (x * 255 / 7).round()), "you stretch the levels to 0..255: the middle of a level is "
             "32·level + 16"),
            (known(lambda x: 32 * x + 16, base=10), "you read the class as decimal digits: the base is 8"),
            (known(lambda x: 32 * x + 16, base=7), "the base is the number of levels, 8, not 7"),
            (no_remainder, "the first digit is right; for the next one take the remainder, `% 8`"),
            (known(lambda x: x), "these are the levels 0..7: turn each into a grey value, 32·level + 16"),
            (levels_alone, "these are the levels 0..7: turn each into a grey value, 32·level + 16"),
            (whole_numbers, "the values are right: return them as uint8, as pictures are kept"),
            (floats, "the values are right: return them as uint8, as pictures are kept"),
            (as_shares, "you return shares of 255: return uint8 in 0..255"),
            (as_shares_256, "you return shares of 256: return uint8 in 0..255"),
            (always_three, "use `num_channels`: a class of grey pictures has one digit"),
        ],
    )  # fmt: skip


@exercise(masked.masked_loss)
def check_masked_loss(answer):
    generator = torch.Generator().manual_seed(3)

    def case(batch, count, classes, chosen):
        logits = 3 * torch.randn(batch, count, classes, generator=generator)
        return logits, torch.randint(0, classes, (batch, count), generator=generator), chosen

    uneven = torch.tensor([[True, False, False, False], [True, True, True, False]])
    empty = torch.tensor([[False] * 6, [True, False, True, True, False, False], [True] * 6])
    some = torch.rand(4, 9, generator=generator) < 0.5
    cases = [
        case(1, 3, 3, torch.tensor([[True, False, True]])),
        case(2, 4, 5, uneven),
        case(3, 6, 6, empty),
        case(4, 9, 512, some),
        case(2, 3, 4, torch.ones(2, 3, dtype=torch.bool)),
    ]
    confident = torch.tensor([[[300.0, 0.0, -300.0], [0.0, 1.0, 2.0]]])
    cases.append((confident, torch.tensor([[1, 0]]), torch.ones(1, 2, dtype=torch.bool)))

    def losses(logits, classes):
        return F.cross_entropy(logits.transpose(1, 2), classes, reduction="none")

    def everywhere(logits, classes, chosen):
        return losses(logits, classes).mean()

    def unchosen(logits, classes, chosen):
        return losses(logits, classes)[~chosen].mean()

    def over_all(logits, classes, chosen):
        return (losses(logits, classes) * chosen).mean()

    def summed(logits, classes, chosen):
        return losses(logits, classes)[chosen].sum()

    def by_batch(logits, classes, chosen):
        return losses(logits, classes)[chosen].sum() / len(logits)

    def by_picture(logits, classes, chosen):
        return ((losses(logits, classes) * chosen).sum(1) / chosen.sum(1)).mean()

    def by_picture_safe(logits, classes, chosen):
        return ((losses(logits, classes) * chosen).sum(1) / chosen.sum(1).clamp(min=1)).mean()

    def one_by_one(logits, classes, chosen):
        return losses(logits, classes)[chosen]

    def softmax_first(logits, classes, chosen):
        return F.cross_entropy(logits.softmax(-1)[chosen], classes[chosen])

    def zeroed(logits, classes, chosen):
        return losses(logits * chosen[..., None], classes).mean()

    def without_log(logits, classes, chosen):
        right = logits.softmax(-1)[chosen].gather(1, classes[chosen][:, None])
        return 1 - right.mean()

    def nll_of_logits(logits, classes, chosen):
        return F.nll_loss(logits[chosen], classes[chosen])

    def log_of_softmax(logits, classes, chosen):
        right = logits.softmax(-1)[chosen].gather(1, classes[chosen][:, None])
        return -right.log().mean()

    def accuracy(logits, classes, chosen):
        return (logits.argmax(-1) == classes)[chosen].float().mean()

    def base_2(logits, classes, chosen):
        return losses(logits, classes)[chosen].mean() / torch.tensor(2.0).log()

    def not_transposed(logits, classes, chosen):
        return F.cross_entropy(logits, classes, reduction="none")[chosen].mean()

    def squared(logits, classes, chosen):
        wanted = F.one_hot(classes, logits.shape[-1]).float()
        return (logits - wanted).square()[chosen].mean()

    def run(function, *inputs):
        loss = function(*inputs)
        if isinstance(loss, float):
            raise Mistake("return the loss as a tensor: a plain number (`.item()`, `float`) has no gradient")
        if isinstance(loss, Tensor) and loss.shape == (1,):
            raise Mistake("return a scalar, a tensor of shape (): yours has the shape (1,)")
        return loss.reshape(1) if isinstance(loss, Tensor) and loss.ndim == 0 else loss

    compare(
        answer,
        masked.masked_loss,
        cases,
        [
            (everywhere, "you average over all patches: others can be copied, so only corrupted ones count"),
            (unchosen, "you score the patches that were *not* corrupted: turn `chosen` round"),
            (over_all, "you divide by the number of all patches, B·N: divide by the number of corrupted ones"),
            (zeroed, "you set the logits of the others to 0, and they still count, with ln K each: leave them out"),
            (by_picture, "you average within each picture first: a patch then weighs more where few are corrupted, and "
             "a picture without any gives 0 / 0"),
            (by_picture_safe, "you average within each picture first: every corrupted patch should weigh the same"),
            (by_batch, "you divide by the number of pictures: divide by the number of corrupted patches"),
            (summed, "you add up the losses: average them, or the loss grows with the batch"),
            (one_by_one, "these are the losses of the patches one by one: return their mean, one number"),
            (not_transposed, "`cross_entropy` wants the classes on the second axis, (B, K, N): transpose them, or "
             "select the patches first"),
            (softmax_first, "you apply softmax before cross_entropy, which does it again: hand over the logits"),
            (nll_of_logits, "`nll_loss` wants log-probabilities: `cross_entropy` takes the logits"),
            (without_log, "the loss is minus the *logarithm* of the probability, not 1 minus the probability"),
            (log_of_softmax, "right, but not for confident logits: a tiny probability becomes 0, and its logarithm is "
             "infinite. Take `log_softmax` or `cross_entropy`"),
            (accuracy, "this is the accuracy: it has no gradient. The loss is the cross-entropy"),
            (base_2, "you use the logarithm to the base 2: the natural one was asked for"),
            (squared, "this is the squared error: the loss is the cross-entropy"),
        ],
        run,
    )  # fmt: skip
    for inputs in cases:
        compare_gradients(answer, masked.masked_loss, inputs)
