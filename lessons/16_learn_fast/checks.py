"""Checks of lesson 16: learn fast."""

from collections.abc import Callable

import torch
from torch import Tensor

from vit_classroom.checks.compare import NEW_TENSOR, demand_device
from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.outcome import Mistake, outcome, stopped_with
from vit_classroom.checks.task import demand, exercise, results
from vit_classroom.checks.words import difference
from vit_course.extensions.speedups import drop_by_picture, drop_tokens, whitening_filters
from vit_course.optim import newton_schulz
from vit_course.patches import unpatchify

A, B, C = 3.4445, -4.7750, 2.0315


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double).to(dtype)


def plain_rounds(matrices, steps=5):
    """Compute `newton_schulz` without turning tall matrices, so that an edit can change one of the steps."""
    x = matrices / (torch.linalg.matrix_norm(matrices, keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = A * x + (B * gram + C * gram @ gram) @ x
    return x


known = Mistakes(__file__, plain_rounds, drop_tokens, whitening_filters)

# -- newton_schulz


@demand(known("newton_schulz/plain_rounds zeros"))
def leaves_zeros(answer):
    got = outcome(lambda f, x: f(x), answer, (torch.zeros(2, 3),))
    if isinstance(got, Tensor) and not bool((got == 0).all()):
        raise Mistake(
            "a matrix of zeros should stay zeros, so add 1e-7 to the norm. Otherwise 0 is divided by 0"
        )
    among = torch.stack([drawn(2, 3), torch.zeros(2, 3)])
    if wrong := difference(outcome(lambda f, x: f(x), answer, (among,)), newton_schulz(among)):
        raise Mistake(
            "one matrix of the stack is zeros. It alone stays zeros, so add 1e-7 to each norm, and use no `if` for "
            f"the whole stack. {wrong}"
        )


@demand(known("newton_schulz/plain_rounds bfloat16"))
def keeps_bfloat16(answer):
    """Muon multiplies in bfloat16 on a GPU."""
    got = outcome(lambda f, x: f(x), answer, (drawn(2, 3, dtype=torch.bfloat16),))
    if isinstance(got, Tensor) and got.dtype != torch.bfloat16:
        raise Mistake(
            f"your result is {got.dtype} for matrices in torch.bfloat16. Keep the type that comes in"
        )


exercise(
    newton_schulz,
    results(
        lambda: [
            (2 * drawn(2, 2), 0),
            (2 * drawn(2, 2), 1),
            (3 * drawn(2, 3, seed=1), 1),
            (3 * drawn(5, 3, seed=2), 2),
            (drawn(4, 6, seed=3),),
            (torch.stack([drawn(3, 4, seed=4), 5 * drawn(3, 4, seed=5)]), 3),
            (drawn(2, 2, 4, 3, seed=6, dtype=torch.double), 4),
            (0.01 * drawn(2, 3, seed=7), 3),
            (1e-3 * drawn(2, 3, seed=9), 3),
            (drawn(3, 4, seed=8), 7),
        ],
        known("newton_schulz/plain_rounds results"),
    ),
    leaves_zeros,
    keeps_bfloat16,
)

# -- drop_tokens


def whole(first: Tensor) -> Tensor:
    """Make tokens of their first numbers (B, T, 1): the next ones rise with these, and the last one falls."""
    return torch.cat([first + torch.arange(6) / 8, -first], dim=2)


def kept_by(answer: Callable, keep: int, prefix: int = 0, patches: int = 16, batch: int = 6) -> Tensor:
    """Call an answer on tokens that tell their place; return the places that it kept, (B, prefix + keep)."""
    places = torch.arange(prefix + patches, dtype=torch.float32)
    tokens = whole(places[None, :, None] + 100 * torch.arange(batch)[:, None, None])
    got = outcome(lambda f, *case: f(*case), answer, (tokens, keep, prefix))
    if isinstance(got, Exception):
        raise stopped_with(f"with {patches} patches, keep {keep} and {prefix} prefix tokens it", got)
    if not isinstance(got, Tensor):
        raise Mistake(f"a tensor (B, prefix + keep, D) was expected, you return {type(got).__name__}")
    shape = (batch, prefix + keep, 7)
    if got.shape == tokens.shape != shape:
        raise Mistake(
            f"all {patches} tokens are still there. What is left out must be gone, or nothing is saved. "
            f"{tuple(tokens.shape)} should become {shape}"
        )
    if keep < patches and got.shape == (batch, prefix + patches - keep, 7):
        raise Mistake("you keep N - keep patches, and `keep` says how many stay")
    if got.shape != shape:
        raise Mistake(
            f"{patches} patches, {prefix} prefix tokens, keep {keep}: the shape should be {shape}, yours is "
            f"{tuple(got.shape)}"
        )
    found = got[..., 0] - 100 * torch.arange(batch)[:, None]
    if not torch.equal(got, whole(got[..., :1])) or not bool(torch.isin(found, places).all()):
        raise Mistake(
            "these are no tokens of the input. Pick whole ones, and sort their places, not their numbers"
        )
    return found.long()


def forgets_the_shift(tokens: Tensor, keep: int, num_prefix_tokens: int = 0) -> Tensor:
    kept = torch.randperm(tokens.shape[1] - num_prefix_tokens)[:keep].sort().values
    return torch.cat([tokens[:, :num_prefix_tokens], tokens[:, kept]], dim=1)


@demand(known("drop_tokens draws", ("every image keeps other places", drop_by_picture)))
def draws_places(answer):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        calls = [kept_by(answer, 4) for _ in range(200)]
        with torch.no_grad():
            first = kept_by(answer, 4)
    if any(len(set(row)) < 4 for places in calls for row in places.tolist()):
        raise Mistake("a place is kept twice. Draw without putting back, as `torch.randperm` does")
    if any(bool((places != places[:1]).any()) for places in calls):
        raise Mistake("every image keeps other places. One draw serves the whole batch")
    if all(torch.equal(places, first) for places in calls):
        raise Mistake("the places are not drawn, because two calls keep the same ones")
    if any(bool((places.diff(dim=1) < 0).any()) for places in calls):
        raise Mistake("the kept tokens are not in their old order. Sort the places")
    if all(bool((places.diff(dim=1) == 1).all()) for places in calls):
        raise Mistake("you keep neighbours, a piece of the sequence. Draw each place by itself")
    if (
        choices := len({tuple(places[0].tolist()) for places in calls})
    ) < 160:  # of 1820; about 189 are usual
        raise Mistake(f"{choices} different choices in 200 calls. Draw each place by itself, from all places")


@demand(known("drop_tokens chances"))
def treats_places_alike(answer):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        counts = torch.stack([kept_by(answer, 4)[0] for _ in range(300)]).flatten().bincount(minlength=16)
    rare, often = int(counts.argmin()), int(counts.argmax())  # of about 75, with a deviation of 7.5
    if counts[rare] < 35:
        raise Mistake(f"place {rare} of 0 ... 15 is hardly ever kept. All should have the same chance")
    if counts[often] > 115:
        raise Mistake(f"place {often} of 0 ... 15 is kept too often. Every patch should have the same chance")


@demand(
    known(
        "drop_tokens prefix",
        ("prefix tokens come twice. Places of patches begin after the prefix", forgets_the_shift),
    )
)
def keeps_prefix(answer):
    try:
        calls = [kept_by(answer, 5, prefix) for prefix in (1, 2) for _ in range(20)]
    except Mistake as mistake:
        if "yours is (6, 5, 7)" in str(mistake):
            words = "tokens are missing. Those of the prefix all stay, and `keep` counts only patches"
            raise Mistake(words) from mistake
        raise
    for number, places in enumerate(calls):
        prefix = list(range(1 if number < 20 else 2))
        row = places[0].tolist()
        if row[-len(prefix) :] == prefix:
            raise Mistake("prefix tokens come first, then the patches that were kept")
        if len(set(row)) < len(row):
            raise Mistake("prefix tokens come twice. Places of patches begin after the prefix")
        if row[: len(prefix)] != prefix:
            raise Mistake("a prefix token took part in the draw, and is sometimes missing. It always stays")


@demand(known("drop_tokens many or one"))
def can_keep_many_or_one(answer):
    for keep, words in ((16, "N all tokens stay"), (1, "1 one patch stays"), (12, "12 most patches stay")):
        try:
            kept_by(answer, keep, 1)
        except Mistake as mistake:
            raise Mistake(f"with keep = {words}: {mistake}") from mistake


@demand(known("drop_tokens gradients"))
def lets_gradients_through(answer):
    tokens = drawn(2, 9, 4).requires_grad_()
    got = outcome(lambda f, *case: f(*case), answer, (tokens, 3, 1))
    reached = (
        torch.autograd.grad(got.sum(), tokens)[0] if getattr(got, "requires_grad", False) else tokens * 0
    )
    if reached.sum() != got.numel():
        raise Mistake("no gradient reaches the tokens that stay, so the model could not learn from them")
    half = outcome(lambda f, *case: f(*case), answer, (tokens.detach().half(), 3, 1))
    if isinstance(half, Tensor) and half.dtype != torch.half:
        raise Mistake("tokens of float16 come back in another type. They stay as they are")
    demand_device(answer, drop_tokens, (tokens.detach(),), lambda f, x: f(x, 3, 1), NEW_TENSOR)


exercise(
    drop_tokens, draws_places, treats_places_alike, keeps_prefix, can_keep_many_or_one, lets_gradients_through
)

# -- whitening_filters


def pictures(
    count: int, channels: int, patch: int, grid: tuple[int, int], seed: int, dtype=torch.float32
) -> Tensor:
    """Make pictures whose patches have components well apart, so that every way of computing finds the same ones."""
    length = patch * patch * channels
    turn, _ = torch.linalg.qr(drawn(length, length, seed=seed, dtype=torch.double))
    noise = drawn(count * grid[0] * grid[1], length, seed=seed + 1, dtype=torch.double)
    strength = 2 * 0.8 ** torch.arange(length, dtype=torch.double)
    patches = (noise * strength) @ turn + drawn(length, seed=seed + 2, dtype=torch.double)
    return unpatchify(patches.reshape(count, -1, length), patch, grid).to(dtype)


def one_sign(function: Callable, *case) -> object:
    """Find filters without their signs, which are free: the largest number of each becomes positive."""
    found = function(*case)
    if not isinstance(found, Tensor) or found.ndim < 2 or not found.is_floating_point():
        return found
    flat = found.reshape(len(found), -1)
    sign = flat.gather(1, flat.abs().argmax(dim=1, keepdim=True)).sign()
    return (flat * sign).reshape(found.shape)


exercise(
    whitening_filters,
    results(
        lambda: [
            (pictures(20, 1, 2, (2, 2), 0), 2),
            (pictures(20, 2, 2, (2, 3), 3), 2, 0.5),
            (pictures(20, 3, 2, (4, 3), 6, torch.double), 2),
            (pictures(30, 1, 3, (3, 4), 9, torch.double), 3, 0.1),
        ],
        known("whitening_filters results"),
        run=one_sign,
        float64=False,
    ),
)
