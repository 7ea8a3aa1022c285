"""Checks of lesson 16: learn fast."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from vit_classroom.checks.compare import NEW_TENSOR, demand_device
from vit_classroom.checks.outcome import Mistake, outcome, stopped_with
from vit_classroom.checks.task import demand, exercise, results
from vit_classroom.checks.words import difference
from vit_course.extensions.speedups import drop_by_picture, drop_tokens, whitening_filters
from vit_course.optim import newton_schulz
from vit_course.patches import patchify, unpatchify

A, B, C = 3.4445, -4.7750, 2.0315


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double).to(dtype)


# -- newton_schulz


def frobenius(x: Tensor) -> Tensor:
    return x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)


def power(gram: Tensor, x: Tensor) -> Tensor:
    return A * x + (B * gram + C * gram @ gram) @ x


def schulz(
    step: Callable = power, divided: Callable = frobenius, count: Callable = lambda steps: steps
) -> Callable:
    """Return a `newton_schulz` with one part changed: the step (X Xᵀ, X), what comes first, or the number of steps."""

    def answer(matrices: Tensor, steps: int = 5) -> Tensor:
        x = divided(matrices)
        for _ in range(count(steps)):
            x = step(x @ x.mT, x)
        return x

    return answer


def keeps_the_first_product(matrices: Tensor, steps: int = 5) -> Tensor:
    x = frobenius(matrices)
    gram = x @ x.mT
    for _ in range(steps):
        x = power(gram, x)
    return x


def divides_in_each_step(matrices: Tensor, steps: int = 5) -> Tensor:
    x = frobenius(matrices)
    for _ in range(steps):
        x = frobenius(x)
        x = power(x @ x.mT, x)
    return x


def decomposes(matrices: Tensor, steps: int = 5) -> Tensor:
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    return u @ v


def stays_turned(matrices: Tensor, steps: int = 5) -> Tensor:
    done = newton_schulz(matrices, steps)
    return done.mT if matrices.shape[-2] > matrices.shape[-1] else done


def stacked(matrices: Tensor, steps: int = 5) -> Tensor:
    return newton_schulz(matrices.reshape(-1, matrices.shape[-1]), steps).reshape(matrices.shape)


def without_small_number(matrices: Tensor, steps: int = 5) -> Tensor:
    return newton_schulz(matrices / torch.linalg.matrix_norm(matrices, keepdim=True), steps)


def asks_the_whole_stack(matrices: Tensor, steps: int = 5) -> Tensor:
    norms = torch.linalg.matrix_norm(matrices, keepdim=True)
    return newton_schulz(matrices, steps) if bool((norms > 0).all()) else matrices


@demand(
    {
        "a matrix of zeros should stay zeros: add 1e-7 to the norm": without_small_number,
        "a matrix of zeros stands among others": [
            asks_the_whole_stack,
            lambda matrices, steps=5: without_small_number(matrices, steps) if matrices.any() else matrices,
        ],
    }
)
def leaves_zeros(answer):
    got = outcome(lambda f, x: f(x), answer, (torch.zeros(2, 3),))
    if isinstance(got, Tensor) and not bool((got == 0).all()):
        raise Mistake("a matrix of zeros should stay zeros: add 1e-7 to the norm, or 0 is divided by 0")
    among = torch.stack([drawn(2, 3), torch.zeros(2, 3)])
    if wrong := difference(outcome(lambda f, x: f(x), answer, (among,)), newton_schulz(among)):
        raise Mistake(
            "a matrix of zeros stands among others: it alone stays zeros, so add 1e-7 to each norm, and ask no `if` "
            f"of the whole stack. {wrong}"
        )


@demand(
    {
        "your result is torch.float32 for matrices in torch.bfloat16": lambda m, steps=5: newton_schulz(
            m.float(), steps
        ).to(torch.promote_types(m.dtype, torch.float32))
    }
)
def keeps_bfloat16(answer):
    """Muon multiplies in bfloat16 on a GPU."""
    got = outcome(lambda f, x: f(x), answer, (drawn(2, 3, dtype=torch.bfloat16),))
    if isinstance(got, Tensor) and got.dtype != torch.bfloat16:
        raise Mistake(
            f"your result is {got.dtype} for matrices in torch.bfloat16: keep the type that comes in"
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
        {
            "the matrix is not divided by its norm first: large singular values then grow without end": schulz(
                divided=lambda x: x
            ),
            "you divide by the largest singular value: divide by the Frobenius norm, the root of the sum of the "
            "squares, which needs no decomposition": schulz(
                divided=lambda x: x / torch.linalg.matrix_norm(x, ord=2, keepdim=True)
            ),
            "a matrix with a small norm is divided too, and gradients are small": [
                schulz(
                    divided=lambda x, low=low: x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=low)
                )
                for low in (1.0, 1e-2)
            ],
            "you divide by one norm for all matrices: each one has its own, over the last two axes": schulz(
                divided=lambda x: x / x.norm()
            ),
            "you divide each row by its own length: one number for the whole matrix": [
                schulz(divided=lambda x: F.normalize(x, dim=-1)),
                schulz(divided=lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-7)),
            ],
            "you divide each column by its own length: one number for the whole matrix": schulz(
                divided=lambda x: x / (x.norm(dim=-2, keepdim=True) + 1e-7)
            ),
            "you divide by the sum of the squares: its root is missing": schulz(
                divided=lambda x: x / x.square().sum((-2, -1), keepdim=True)
            ),
            "one step too few": schulz(count=lambda steps: max(0, steps - 1)),
            "one step too many": schulz(count=lambda steps: steps + 1),
            "powers of single numbers, x ** 3: the formula multiplies matrices, `@`": schulz(
                lambda gram, x: A * x + B * x**3 + C * x**5
            ),
            "`gram ** 2` or `gram * gram` squares each number: (X Xᵀ)² is a product of matrices, `gram @ gram`": schulz(
                lambda gram, x: A * x + (B * gram + C * gram**2) @ x
            ),
            "the last factor X is missing in the terms with b and c": schulz(
                lambda gram, x: A * x + B * gram + C * gram @ gram
            ),
            "several matrices come out as if they were one: each is for itself, with its own norm and X Xᵀ": stacked,
            "the term a·X is missing": schulz(lambda gram, x: (B * gram + C * gram @ gram) @ x),
            "c is the factor of (X Xᵀ)², `gram @ gram`": schulz(lambda gram, x: A * x + (B + C) * gram @ x),
            "the bracket is lost: X is a factor of both terms, b and c": schulz(
                lambda gram, x: A * x + B * gram + C * gram @ gram @ x
            ),
            "the factor on the left is X Xᵀ: yours is Xᵀ X": schulz(lambda gram, x: power(x.mT @ x, x)),
            "the term with c is missing": schulz(lambda gram, x: A * x + B * gram @ x),
            "the sign of b is lost: b is negative": schulz(
                lambda gram, x: A * x + (-B * gram + C * gram @ gram) @ x
            ),
            "X Xᵀ has to be made anew in each step: X has changed": keeps_the_first_product,
            "you divide in each step: once, before the first": divides_in_each_step,
            "this is exactly orthogonal, from a decomposition: the task is the quick way, by products": decomposes,
            "another polynomial, 1.5·s - 0.5·s³: take a, b and c from the docstring": schulz(
                lambda gram, x: 1.5 * x - 0.5 * gram @ x
            ),
            "a matrix with more rows than columns comes out turned: turn it back at the end": stays_turned,
        },
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
            f"all {patches} tokens are still there: what is left out must be gone, or nothing is saved; "
            f"{tuple(tokens.shape)} should become {shape}"
        )
    if keep < patches and got.shape == (batch, prefix + patches - keep, 7):
        raise Mistake("you keep N - keep: `keep` says how many stay")
    if got.shape != shape:
        raise Mistake(
            f"{patches} patches, {prefix} prefix tokens, keep {keep}: the shape should be {shape}, yours is "
            f"{tuple(got.shape)}"
        )
    found = got[..., 0] - 100 * torch.arange(batch)[:, None]
    if not torch.equal(got, whole(got[..., :1])) or not bool(torch.isin(found, places).all()):
        raise Mistake(
            "these are no tokens of the input: pick whole ones, and sort their places, not their numbers"
        )
    return found.long()


def picks(choose: Callable) -> Callable:
    """Return a `drop_tokens` that keeps the patches that this chooses, of (N, keep)."""

    def answer(tokens: Tensor, keep: int, num_prefix_tokens: int = 0) -> Tensor:
        kept = choose(tokens.shape[1] - num_prefix_tokens, keep)
        return torch.cat([tokens[:, :num_prefix_tokens], tokens[:, num_prefix_tokens + kept]], dim=1)

    return answer


def window(count: int, keep: int) -> Tensor:
    return torch.arange(keep) + torch.randint(count - keep + 1, (1,))


def drops_prefix(tokens: Tensor, keep: int, num_prefix_tokens: int = 0) -> Tensor:
    return drop_tokens(tokens[:, num_prefix_tokens:], keep)


def prefix_takes_part(tokens: Tensor, keep: int, num_prefix_tokens: int = 0) -> Tensor:
    return drop_tokens(tokens, keep + num_prefix_tokens)


def forgets_the_shift(tokens: Tensor, keep: int, num_prefix_tokens: int = 0) -> Tensor:
    kept = torch.randperm(tokens.shape[1] - num_prefix_tokens)[:keep].sort().values
    return torch.cat([tokens[:, :num_prefix_tokens], tokens[:, kept]], dim=1)


def prefix_last(tokens: Tensor, keep: int, num_prefix_tokens: int = 0) -> Tensor:
    kept = drop_tokens(tokens, keep, num_prefix_tokens)
    return torch.cat([kept[:, num_prefix_tokens:], kept[:, :num_prefix_tokens]], dim=1)


def detaches_patches(tokens: Tensor, keep: int, num_prefix_tokens: int = 0) -> Tensor:
    parts = tokens[:, :num_prefix_tokens], tokens[:, num_prefix_tokens:].detach()
    return drop_tokens(torch.cat(parts, dim=1), keep, num_prefix_tokens)


def covers(tokens: Tensor, keep: int, num_prefix_tokens: int = 0) -> Tensor:
    kept = torch.zeros(tokens.shape[1]).index_fill(0, num_prefix_tokens + torch.arange(keep), 1.0)
    return tokens * kept[:, None]


@demand(
    {
        "all 16 tokens are still there": [
            covers,
            lambda tokens, keep, num_prefix_tokens=0: tokens,
            lambda tokens, *rest: drop_tokens(tokens, *rest) if torch.is_grad_enabled() else tokens,
        ],
        "you keep N - keep: `keep` says how many stay": lambda tokens, keep, num_prefix_tokens=0: drop_tokens(
            tokens, tokens.shape[1] - num_prefix_tokens - keep, num_prefix_tokens
        ),
        "the places are not drawn: two calls keep the same ones": [
            picks(lambda count, keep: torch.arange(keep)),
            picks(lambda count, keep: torch.arange(0, count, count // keep)[:keep]),
            picks(
                lambda count, keep: (
                    torch.randperm(count, generator=torch.Generator().manual_seed(0))[:keep].sort().values
                )
            ),
        ],
        "a place is kept twice: draw without putting back, as `torch.randperm` does": picks(
            lambda count, keep: torch.randint(count, (keep,)).sort().values
        ),
        "the kept tokens are not in their old order: sort the places": picks(
            lambda count, keep: torch.randperm(count)[:keep]
        ),
        "every picture keeps other places": drop_by_picture,
        "sort their places, not their numbers": lambda *given: drop_tokens(*given).sort(dim=-1).values,
        "you keep neighbours, a piece of the sequence: draw each place by itself": picks(window),
        "different choices in 200 calls: draw each place by itself, of all places": [
            picks(
                lambda count, keep: ((torch.arange(keep) + torch.randint(count, ())) % count).sort().values
            ),
            picks(
                lambda count, keep: (
                    torch.arange(0, count, count // keep) + torch.randint(count // keep, (keep,))
                )
            ),
        ],
    }
)
def draws_places(answer):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        calls = [kept_by(answer, 4) for _ in range(200)]
        with torch.no_grad():
            first = kept_by(answer, 4)
    if any(len(set(row)) < 4 for places in calls for row in places.tolist()):
        raise Mistake("a place is kept twice: draw without putting back, as `torch.randperm` does")
    if any(bool((places != places[:1]).any()) for places in calls):
        raise Mistake("every picture keeps other places: one draw for the whole batch is the task")
    if all(torch.equal(places, first) for places in calls):
        raise Mistake("the places are not drawn: two calls keep the same ones")
    if any(bool((places.diff(dim=1) < 0).any()) for places in calls):
        raise Mistake("the kept tokens are not in their old order: sort the places")
    if all(bool((places.diff(dim=1) == 1).all()) for places in calls):
        raise Mistake("you keep neighbours, a piece of the sequence: draw each place by itself")
    if (
        choices := len({tuple(places[0].tolist()) for places in calls})
    ) < 160:  # of 1820; about 189 are usual
        raise Mistake(f"{choices} different choices in 200 calls: draw each place by itself, of all places")


@demand(
    {
        "place 15 of 0 ... 15 is hardly ever kept": picks(
            lambda count, keep: torch.randperm(count - 1)[:keep].sort().values
        ),
        "place 0 of 0 ... 15 is hardly ever kept": picks(
            lambda count, keep: torch.randperm(count - 1)[:keep].sort().values + 1
        ),
    }
)
def treats_places_alike(answer):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        counts = torch.stack([kept_by(answer, 4)[0] for _ in range(300)]).flatten().bincount(minlength=16)
    rare, often = int(counts.argmin()), int(counts.argmax())  # of about 75, with a deviation of 7.5
    if counts[rare] < 35:
        raise Mistake(f"place {rare} of 0 ... 15 is hardly ever kept: all should have the same chance")
    if counts[often] > 115:
        raise Mistake(f"place {often} of 0 ... 15 is kept too often: every patch should have the same chance")


@demand(
    {
        "tokens are missing": drops_prefix,
        "a prefix token took part in the draw": prefix_takes_part,
        "prefix tokens come twice: places of patches begin after the prefix": forgets_the_shift,
        "prefix tokens come first": prefix_last,
    }
)
def keeps_prefix(answer):
    try:
        calls = [kept_by(answer, 5, prefix) for prefix in (1, 2) for _ in range(20)]
    except Mistake as mistake:
        if "yours is (6, 5, 7)" in str(mistake):
            words = "tokens are missing: those of the prefix all stay, and `keep` counts patches alone"
            raise Mistake(words) from mistake
        raise
    for number, places in enumerate(calls):
        prefix = list(range(1 if number < 20 else 2))
        row = places[0].tolist()
        if row[-len(prefix) :] == prefix:
            raise Mistake("prefix tokens come first, then the patches that were kept")
        if len(set(row)) < len(row):
            raise Mistake("prefix tokens come twice: places of patches begin after the prefix")
        if row[: len(prefix)] != prefix:
            raise Mistake("a prefix token took part in the draw, and is missing at times: it always stays")


@demand(
    {
        "with keep = N all tokens stay": lambda t, keep, num_prefix_tokens=0: drop_tokens(
            t, min(keep, t.shape[1] - num_prefix_tokens - 1), num_prefix_tokens
        ),
        "with keep = 1 one patch stays": lambda t, keep, *rest: drop_tokens(t, max(keep, 2), *rest),
        "with keep = 12": lambda t, keep, *rest: t if keep > t.shape[1] / 2 else drop_tokens(t, keep, *rest),
    }
)
def can_keep_many_or_one(answer):
    for keep, words in ((16, "N all tokens stay"), (1, "1 one patch stays"), (12, "12 most patches stay")):
        try:
            kept_by(answer, keep, 1)
        except Mistake as mistake:
            raise Mistake(f"with keep = {words}: {mistake}") from mistake


@demand(
    {
        "no gradient reaches the tokens that stay": [
            lambda t, *rest: drop_tokens(t.detach(), *rest),
            detaches_patches,
        ],
        "come back in another type": lambda t, *rest: drop_tokens(t.float(), *rest),
        "your new tensor lies on the CPU": lambda t, *rest: drop_tokens(
            t * torch.ones(1, 1, dtype=t.dtype), *rest
        ),
    }
)
def lets_gradients_through(answer):
    tokens = drawn(2, 9, 4).requires_grad_()
    got = outcome(lambda f, *case: f(*case), answer, (tokens, 3, 1))
    reached = (
        torch.autograd.grad(got.sum(), tokens)[0] if getattr(got, "requires_grad", False) else tokens * 0
    )
    if reached.sum() != got.numel():
        raise Mistake("no gradient reaches the tokens that stay: the model could not learn from them")
    half = outcome(lambda f, *case: f(*case), answer, (tokens.detach().half(), 3, 1))
    if isinstance(half, Tensor) and half.dtype != torch.half:
        raise Mistake("tokens of float16 come back in another type: they stay as they are")
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


def whitened(
    spread: Callable = lambda x: torch.cov(x.T),
    scale: Callable = lambda v, eps: 1 / (v + eps).sqrt(),
    rows: Callable = lambda vectors, scales: (vectors * scales).T.flip(0),
    shape: str = "k (p q c) -> k c p q",
) -> Callable:
    """Return a `whitening_filters` with one step changed; the defaults give the right one."""

    def answer(images: Tensor, patch_size: int, eps: float = 1e-2) -> Tensor:
        variance, vectors = torch.linalg.eigh(spread(patchify(images, patch_size).flatten(0, 1)))
        filters = rows(vectors, scale(variance, eps))
        return rearrange(filters, shape, p=patch_size, q=patch_size)

    return answer


exercise(
    whitening_filters,
    results(
        lambda: [
            (pictures(20, 1, 2, (2, 2), 0), 2),
            (pictures(20, 2, 2, (2, 3), 3), 2, 0.5),
            (pictures(20, 3, 2, (4, 3), 6, torch.double), 2),
            (pictures(30, 1, 3, (3, 4), 9, torch.double), 3, 0.1),
        ],
        {
            "your filters have length 1, as the eigenvectors: divide these by sqrt(eigenvalue + eps)": whitened(
                scale=lambda v, eps: torch.ones_like(v)
            ),
            "you divide by the variance: its root is missing": whitened(scale=lambda v, eps: 1 / (v + eps)),
            "you multiply by the root: loud patterns become louder; divide": whitened(
                scale=lambda v, eps: (v + eps).sqrt()
            ),
            "`eps` is not used": whitened(scale=lambda v, eps: 1 / v.clamp(min=1e-12).sqrt()),
            "`eps` stands outside the root: it is added to the variance": whitened(
                scale=lambda v, eps: 1 / (v.clamp(min=0).sqrt() + eps)
            ),
            "the smallest eigenvalue comes first, as `eigh` has it: turn the order round": whitened(
                rows=lambda vectors, scales: (vectors * scales).T
            ),
            "`eigh` gives eigenvectors as columns, you take its rows: `.T` before you go on": [
                whitened(rows=lambda vectors, scales: (vectors * scales[:, None]).flip(0)),
                whitened(rows=lambda vectors, scales: (vectors * scales).flip(0)),
            ],
            "you divide pixel by pixel: each column, a component, has its own root": whitened(
                rows=lambda vectors, scales: (vectors * scales[:, None]).T.flip(0)
            ),
            "eigenvalues and eigenvectors stand in different orders": whitened(
                rows=lambda vectors, scales: (vectors * scales.flip(0)).T.flip(0)
            ),
            "`patchify` flattens a patch as (P, P, C), you read it as (C, P, P): the pixels are mixed up": whitened(
                shape="k (c p q) -> k c p q"
            ),
            "the mean patch is not subtracted: covariance is about the differences from it": whitened(
                lambda x: x.T @ x / (len(x) - 1)
            ),
            "you subtract the mean of each patch: subtract the mean *over* the patches": whitened(
                lambda x: torch.cov((x - x.mean(1, keepdim=True)).T)
            ),
            "right but for the divisor: the covariance divides by the number of patches minus 1": whitened(
                lambda x: torch.cov(x.T, correction=0)
            ),
            "`torch.cov` wants one column for each patch: `.T`": whitened(torch.cov),
            "you take the correlation, in which every pixel has variance 1: the covariance": whitened(
                lambda x: torch.corrcoef(x.T)
            ),
            "these filters are turned back to pixels (V … Vᵀ, called ZCA): one filter for each component": whitened(
                rows=lambda vectors, scales: (vectors * scales) @ vectors.T
            ),
        },
        run=one_sign,
        float64=False,
    ),
)
