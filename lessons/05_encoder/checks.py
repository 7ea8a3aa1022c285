"""Checks of lesson 05: the encoder."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom.checks.compare import compare_gradients
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, build, first_of, outcome
from vit_classroom.checks.shared_checks import check_keyword, shared_draw
from vit_classroom.checks.task import any_device, demand, exercise, keeps_settings, results
from vit_classroom.checks.words import describe, difference
from vit_course.attention import MultiHeadAttention, merge_heads, split_heads
from vit_course.encoder import Block, Mlp, drop_path, layer_norm

# -- layer_norm


def norm_cases() -> list[tuple]:
    """Return tokens with weight and bias: in squares, small, constant, with another eps, alone, transposed."""

    def tokens(*shape: int, size: float = 2.0) -> tuple[Tensor, Tensor, Tensor]:
        return size * torch.randn(*shape) + size, torch.randn(shape[-1]), torch.randn(shape[-1])

    small = tokens(2, 4, size=1e-3)
    return [
        (torch.tensor([[1.0, 3.0, 5.0, 7.0]]), torch.ones(4), torch.zeros(4)),
        tokens(3, 3),
        (*tokens(3, 3), 0.5),
        tokens(2, 3, 5),
        tokens(2, 3, 4),
        small,
        (torch.full((1, 4), 0.25), *small[1:]),
        (*tokens(2, 3, 4), 0.5),
        tokens(2, 3, 4, 6),
        tokens(2, 7),
        tokens(6),
        (torch.randn(2, 5, 3).transpose(1, 2), *tokens(5)[1:]),
    ]


def norm_of(axes=-1, correction=0, keepdim=(True, True), centre=True, divisor=None, affine=None) -> Callable:
    """Return a `layer_norm` with another mean, another divisor of (variance, eps), or another last step."""

    def answer(x, weight, bias, eps=1e-6):
        over = tuple(range(x.ndim)) if axes == "all" else axes
        mean = x.mean(dim=over, keepdim=keepdim[0])
        variance = x.var(dim=over, correction=correction, keepdim=keepdim[1])
        root = divisor(variance, eps) if divisor else (variance + eps).sqrt()
        normed = (x - mean if centre else x) / root
        return affine(normed, weight, bias) if affine else normed * weight + bias

    return answer


def std_plus_eps(variance: Tensor, eps: float) -> Tensor:
    return variance.sqrt() + eps


def of_two_moments(x, weight, bias, eps=1e-6):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / (x.square().mean(-1, keepdim=True) - mean.square() + eps).sqrt() * weight + bias


def of_rms(x, weight, bias, eps=1e-6):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def of_mean_square(x, weight, bias, eps=1e-6):
    return (x - x.mean(-1, keepdim=True)) / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def of_pictures(x, weight, bias, eps=1e-6):
    return norm_of(tuple(range(1, x.ndim)) or -1)(x, weight, bias, eps)


OTHER_TOKENS = "the mean and the variance are those of one token, over its D numbers (the last axis)"
UNBIASED = (
    "the variance here divides by D, not by D - 1: torch's `var` and `std` divide by D - 1 unless you say "
    "`unbiased=False` (or `correction=0`)"
)
OUTSIDE = "eps belongs inside the root, with the variance: sqrt(variance + eps), not sqrt(variance) + eps"
KEEPDIM = (
    "the mean or the variance of a (T, D) table has shape (T,), and broadcasting reads that as a row: keep the axis "
    "with `keepdim=True`"
)


@demand({"the gradient of `x` is nan": norm_of(divisor=lambda v, e: (v.sqrt().square() + e).sqrt())})
def passes_gradients_on(answer):
    for place in (4, 6):
        compare_gradients(answer, layer_norm, norm_cases()[place])


@demand({"right for tokens near 0, but not for (10000, 10001, 10003, 10006)": of_two_moments})
def keeps_digits_far_from_0(answer):
    far = (torch.tensor([[10000.0, 10001, 10003, 10006]]), torch.ones(4), torch.zeros(4))
    if not torch.allclose(answer(*far), layer_norm(*far), atol=0.05):  # a wrong digit is no reason to refuse
        raise Mistake(
            "right for tokens near 0, but not for (10000, 10001, 10003, 10006). Subtract the mean first, then square: "
            "mean(x²) - mean(x)² is the difference of two large numbers, and loses its digits"
        )


exercise(
    layer_norm,
    results(
        norm_cases,
        {
            UNBIASED: norm_of(correction=1),
            "brackets are missing: x - mean as a whole is divided, then scaled, then shifted": (
                lambda x, w, b, eps=1e-6: (
                    x - x.mean(-1, True) / (x.var(-1, False, keepdim=True) + eps).sqrt() * w + b
                )
            ),
            "`** 1 / 2` means `(** 1) / 2`: the root is `** 0.5`": [
                norm_of(divisor=lambda v, e: 2 * (v + e)),
                norm_of(divisor=lambda v, e: (v + e) / 2),
            ],
            "you take the root of the standard deviation: take that of the variance": norm_of(
                divisor=lambda v, e: (v.sqrt() + e).sqrt()
            ),
            "the mean is gone, but the spread is still the old one: divide by the root": norm_of(
                divisor=lambda v, e: 1
            ),
            "`weight` scales and `bias` shifts; yours are swapped": norm_of(affine=lambda x, w, b: x * b + w),
            "scale and shift come before the norm, which takes most of them away again: they come last": (
                lambda x, w, b, eps=1e-6: layer_norm(x * w + b, torch.ones_like(w), torch.zeros_like(b), eps)
            ),
            "scale first, then shift: your bias is scaled as well": norm_of(
                affine=lambda x, w, b: (x + b) * w
            ),
            f"you average over the tokens, not inside a token: {OTHER_TOKENS}": norm_of(-2),
            f"you average over axis 1, which holds tokens as soon as there is a batch: {OTHER_TOKENS}": norm_of(
                1
            ),
            f"you average over the batch, as batch norm does: {OTHER_TOKENS}": norm_of(0),
            f"you take one mean over all tokens of a picture: {OTHER_TOKENS}": [
                norm_of((-2, -1)),
                of_pictures,
            ],
            f"you take one mean over everything, the batch included: {OTHER_TOKENS}": norm_of("all"),
            OUTSIDE: [norm_of(divisor=std_plus_eps), norm_of(correction=1, divisor=std_plus_eps)],
            "eps is missing: a constant token has variance 0, and 0 / 0 is nan": [
                norm_of(divisor=lambda v, e: v.sqrt()),
                norm_of(correction=1, divisor=lambda v, e: v.sqrt()),
            ],
            "the default of `eps` should be 1e-6, as in the paper's code; yours is 1e-5, PyTorch's": norm_of(
                divisor=lambda v, e: (v + (1e-5 if e == 1e-6 else e)).sqrt()
            ),
            "your code does not use the argument `eps`: it stands under the root, beside the variance": [
                norm_of(divisor=lambda v, e: (v + 1e-6).sqrt()),
                norm_of(divisor=lambda v, e: (v + 1e-5).sqrt()),
            ],
            "the sum of the squares is not divided by D: the variance is their *mean* over the D numbers of a token": (
                lambda x, weight, bias, eps=1e-6: norm_of(divisor=lambda v, e: (v * x.shape[-1] + e).sqrt())(
                    x, weight, bias, eps
                )
            ),
            "you multiply by 1 + `weight`, as some models do: here it is `weight` itself": norm_of(
                affine=lambda x, w, b: x * (1 + w) + b
            ),
            "you divide by the variance; divide by its root, the standard deviation": norm_of(
                divisor=lambda v, e: v + e
            ),
            "the mean is not subtracted": [norm_of(centre=False), of_rms],
            "the mean of x - mean is 0: square first, then take the mean": norm_of(
                divisor=lambda v, e: e**0.5
            ),
            "you subtract the mean above the line, but not below: the variance is the mean of (x - mean)², not of x²": (
                of_mean_square
            ),
            "your eps is a lower bound: it should be *added* to every variance": norm_of(
                divisor=lambda v, e: v.clamp(min=e).sqrt()
            ),
            KEEPDIM: [
                norm_of(keepdim=keepdim, correction=correction, divisor=divisor)
                for keepdim in ((False, False), (False, True), (True, False))
                for correction, divisor in ((0, None), (1, None), (0, std_plus_eps), (1, std_plus_eps))
            ],
        },
        device=True,
    ),
    keeps_digits_far_from_0,
    passes_gradients_on,
)

# -- Mlp


def seeded(forward: Callable) -> Callable:
    """Return a forward pass that begins with the same seed each time."""

    def again(self, x, return_attention=False):
        torch.default_generator.manual_seed(0)
        return forward(self, x, return_attention) if return_attention else forward(self, x)

    return again


def mlp_of(forward: Callable) -> type:
    """Return an `Mlp` whose forward pass is this function of (mlp, tokens)."""
    return type("Mlp", (Mlp,), {"forward": forward})


def bent_by(act: Callable) -> type:
    """Return an `Mlp` with another curve."""
    return mlp_of(lambda self, x: self.fc2(act(self.fc1(x))))


def mlp_of_rate(rate: Callable, default: float = 0.0) -> type:
    """Return an `Mlp` that drops with another rate than it is given."""

    def init(self, dim, hidden_dim, drop=default):
        Mlp.__init__(self, dim, hidden_dim, rate(drop))

    return type("Mlp", (Mlp,), {"__init__": init})


class MlpOtherOrder(Mlp):
    def __init__(self, hidden_dim, dim, drop=0.0):
        super().__init__(dim, hidden_dim, drop)


def middle(self: nn.Module, x: Tensor) -> Tensor:
    """Widen and bend."""
    return self.act(self.fc1(x))


def part_shares(part: Callable) -> type:
    """Return an `Mlp` whose second dropout draws for this part of the result alone."""

    def forward(self, x):
        h = self.fc2(self.drop(middle(self, x)))
        return h * self.drop(torch.ones_like(part(h) if x.ndim == 3 else h))

    return mlp_of(forward)


def two_dimensional(self, x):
    h = F.dropout2d(middle(self, x), self.drop.p, self.training)
    return F.dropout2d(self.fc2(h), self.drop.p, self.training)


@demand({"the arguments stand in another order: dim, hidden_dim, drop": MlpOtherOrder})
def takes_sizes_by_place(answer):
    by_place = build(lambda **sizes: answer(*sizes.values()), dim=2, hidden_dim=3, drop=0.0)
    if by_place.fc1.weight.shape != (3, 2):
        raise Mistake("the arguments stand in another order: dim, hidden_dim, drop")


RATE = 0.25
BENT, BENT_LATE = (F.gelu(torch.tensor(value)).item() for value in (1.0, 1 / (1 - RATE)))
UP = 1 / (1 - RATE)
PLACES = {
    "in training nothing is dropped: `drop` is not used, dropout must follow fc1 and fc2": {1 + BENT},
    "dropout after fc2 is missing: it follows both linear layers": {1.0, 1 + BENT * UP},
    "dropout in the middle is missing: it comes twice, after the GELU and after fc2": {0.0, (1 + BENT) * UP},
    "your dropout stands between fc1 and the GELU: then what stays is scaled before it is bent, and the curve changes "
    "it. First bend, then drop": {0.0, UP, (1 + BENT_LATE) * UP},
}
"""Where dropout can be, and which numbers an `Mlp` then gives whose units all get a 1, and whose second bias is 1."""


@demand(
    {
        "dropout is active in evaluation: `nn.Dropout` looks at self.training by itself": mlp_of(
            lambda self, x: F.dropout(self.fc2(F.dropout(middle(self, x), self.drop.p)), self.drop.p)
        ),
        **dict(
            zip(
                PLACES,
                (
                    mlp_of(lambda self, x: self.fc2(middle(self, x))),
                    mlp_of(lambda self, x: self.fc2(self.drop(middle(self, x)))),
                    mlp_of(lambda self, x: self.drop(self.fc2(middle(self, x)))),
                    mlp_of(lambda self, x: self.drop(self.fc2(self.act(self.drop(self.fc1(x)))))),
                ),
                strict=True,
            )
        ),
        "in both places, and nowhere else": mlp_of(
            lambda self, x: self.drop(self.fc2(middle(self, self.drop(x))))
        ),
        "two passes drop the same numbers": mlp_of(seeded(Mlp.forward)),
        "share one draw: dropout draws for every single number, `nn.Dropout` does so": [
            mlp_of(two_dimensional),
            part_shares(lambda h: h[:1]),
            part_shares(lambda h: h[:, :1]),
            part_shares(lambda h: h[..., :1]),
        ],
    }
)
def drops_after_both_layers(answer):
    module, x = build(answer, dim=8, hidden_dim=8, drop=RATE), torch.ones(25, 20, 8)
    with torch.no_grad():
        for layer, weight, bias in (
            (module.fc1, torch.full((8, 8), 1 / 8), 0.0),
            (module.fc2, torch.eye(8), 1.0),
        ):
            layer.weight.copy_(weight)
            layer.bias.fill_(bias)
        quiet, noisy = module.eval()(x), module.train()(x)
        if not torch.equal(noisy, quiet) and torch.equal(noisy, module(x)):
            raise Mistake(
                "two passes drop the same numbers: draw them anew in each, and set no seed in `forward`"
            )
    if difference(quiet, torch.full_like(x, 1 + BENT)):
        raise Mistake(
            "dropout is active in evaluation: `nn.Dropout` looks at self.training by itself, `F.dropout` must be "
            "given training=self.training"
        )
    seen = rounded(noisy.unique().tolist())
    for words, values in PLACES.items():
        if seen == rounded(values):
            raise Mistake(words)
    gone, low = noisy == 0, torch.isclose(noisy, torch.tensor(UP))
    shares = gone.double().mean().item(), (low.sum() / (~gone).sum()).item()
    if seen != rounded((0.0, UP, (1 + BENT * UP) * UP)) or any(abs(share - RATE) > 0.06 for share in shares):
        raise Mistake(
            "in training the values are not those of one dropout of rate `drop` in the middle and one after fc2: "
            "`nn.Dropout(drop)` in both places, and nowhere else"
        )
    for one, other in ((gone, ~gone), (low, ~(gone | low))):
        if name := shared_draw(one, other, ("pictures", "tokens", "numbers of a token")):
            raise Mistake(
                f"two {name} share one draw: dropout draws for every single number, `nn.Dropout` does so"
            )


def rounded(values) -> set[float]:
    return {round(value, 3) for value in values}


exercise(
    Mlp,
    results(
        lambda: [
            ({"dim": 2, "hidden_dim": 3}, torch.tensor([[[1.0, -2.0]]])),
            ({"dim": 4, "hidden_dim": 16}, 3 * torch.randn(2, 3, 4)),
            ({"dim": 6, "hidden_dim": 5}, 3 * torch.randn(7, 6)),
        ],
        {
            "this is ReLU; the paper's MLP bends with GELU": bent_by(F.relu),
            "nearly: this is GELU's tanh approximation. Use the exact one, `nn.GELU()` without arguments, or trained "
            "weights give slightly other results": bent_by(lambda x: F.gelu(x, approximate="tanh")),
            "there is no activation, or its result is not kept: two linear layers in a row are one": bent_by(
                lambda x: x
            ),
            "this is SiLU, x times sigmoid(x); use GELU": bent_by(F.silu),
            "nearly: x times sigmoid(1.702·x) is an approximation. Use the exact GELU, `nn.GELU()`": bent_by(
                lambda x: x * torch.sigmoid(1.702 * x)
            ),
            "an activation follows fc2 too: the branch could then hardly subtract from the stream. Only one, in the "
            "middle": mlp_of(lambda self, x: F.gelu(self.fc2(middle(self, x)))),
            "the activation is at the end; it belongs between fc1 and fc2": mlp_of(
                lambda self, x: F.gelu(self.fc2(self.fc1(x)))
            ),
            "that does not use the rate it is given": [
                mlp_of_rate(lambda drop: 1 - drop),
                mlp_of_rate(lambda drop: 0.1),
            ],
            "the default of `drop` should be 0.0": mlp_of_rate(lambda drop: drop, default=0.1),
        },
    ),
    takes_sizes_by_place,
    keeps_settings(Mlp, {"dim": 8, "hidden_dim": 8, "drop": 0.5}, "drop.p"),
    drops_after_both_layers,
)

# -- drop_path


def run(answer: Callable, *case) -> Tensor:
    """Run an answer on one case and return a tensor of the first argument's shape, or say what came instead."""
    value = outcome(lambda function, *arguments: function(*arguments), answer, case)
    where = f"on {describe(drop_path, case)}"
    if isinstance(value, Exception):
        raise stopped(value, f"{where}, ")
    if not isinstance(value, Tensor) or (value.shape, value.dtype) != (case[0].shape, case[0].dtype):
        more = isinstance(value, Tensor) and value.ndim > case[0].ndim
        hint = (
            ". Something with more axes than x took part: a mask has as many axes as x, B and then a 1 for each of "
            "the others"
        )
        raise Mistake(f"{where}: {difference(value, case[0])}{hint if more else ''}")
    if not value.isfinite().all():
        raise Mistake(f"{where}: some numbers are nan or infinite; a dropped branch should be 0")
    return value


def by_picture(x: Tensor, rate: float) -> Tensor:
    """Draw which pictures keep their branch: as it should be."""
    return torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device) >= rate


def divided(x: Tensor, rate: float) -> Tensor:
    return x / (1 - rate)


def dropping(draw: Callable = by_picture, scaled: Callable = divided, always: bool = False) -> Callable:
    """Return a `drop_path` with another draw of what stays, or another scale, both functions of (x, rate)."""

    def answer(x, rate, training):
        return scaled(x, rate) * draw(x, rate) if training or always else x

    return answer


def in_pairs(x, rate):
    """Draw one number for two pictures, and hand them out in a random order."""
    pairs = torch.rand((len(x) + 1) // 2).repeat_interleave(2)
    return (pairs[torch.randperm(len(pairs))][: len(x)] >= rate).reshape(-1, *[1] * (x.ndim - 1))


def neighbours(x, rate):
    """Draw one number for pictures 0 and 1, one for 2 and 3, and so on."""
    pairs = torch.rand((len(x) + 1) // 2).repeat_interleave(2)
    return (pairs[: len(x)] >= rate).reshape(-1, *[1] * (x.ndim - 1))


def always_the_same(x, rate):
    torch.default_generator.manual_seed(0)
    return by_picture(x, rate)


def never_all(x, rate):
    keep = by_picture(x, rate)
    keep[0] |= not keep.any()
    return keep


def exact_number(x, rate):
    return (torch.randperm(len(x)) >= round(rate * len(x))).reshape(-1, *[1] * (x.ndim - 1))


FEW = (6, 3, 4)


@demand(
    {
        "you divide by 1 - rate outside training too": lambda x, rate, training: drop_path(
            x if training else x / (1 - rate), rate, training
        ),
        "outside training you scale the branch": lambda x, rate, training: (
            x * by_picture(x, rate) if training else x * (1 - rate)
        ),
        "your result is the branch added to itself": lambda x, rate, training: (
            x + drop_path(x, rate, training)
        ),
        "drop path is active in evaluation: with training=False": dropping(always=True),
    }
)
def does_nothing_outside_training(answer):
    few = torch.rand(FEW) + 1
    quiet = run(answer, few, 0.25, False)
    if not difference(quiet, few / 0.75):
        raise Mistake("you divide by 1 - rate outside training too: there nothing happens")
    if not difference(quiet, few * 0.75):
        raise Mistake("outside training you scale the branch: that is for training, here nothing happens")
    if not difference(quiet, few * 2):
        raise Mistake("your result is the branch added to itself: return the branch; whoever calls adds it")
    if difference(quiet, few):
        raise Mistake(
            "drop path is active in evaluation: with training=False the branch must come back unchanged"
        )


@demand(
    {
        "you drop single tokens: one decision for each picture": dropping(
            lambda x, rate: torch.rand(*x.shape[:2], *[1] * (x.ndim - 2)) >= rate
        ),
        "you drop single numbers, as dropout does": dropping(lambda x, rate: torch.rand(x.shape) >= rate),
        "you divide by 1 and subtract the rate": lambda x, rate, training: (
            x * by_picture(x, rate) / 1 - rate if training else x
        ),
        "nothing is ever dropped": lambda x, rate, training: x,
        "every branch becomes 0": dropping(lambda x, rate: 0),
        "one decision for the whole batch": dropping(lambda x, rate: torch.rand(()) >= rate),
        "`rate` is the probability of *dropping*, you keep with it": dropping(
            lambda x, rate: ~by_picture(x, rate)
        ),
        "of the pictures keep their branch, expected": dropping(lambda x, rate: by_picture(x, rate / 2)),
        "the branches that stay are not scaled: divide by 1 - rate": dropping(scaled=lambda x, rate: x),
        "you divide the branches that stay by rate; divide by 1 - rate": dropping(
            scaled=lambda x, rate: x / rate if rate else x
        ),
        "you multiply the branches that stay by 1 - rate": dropping(scaled=lambda x, rate: x * (1 - rate)),
        "a branch that stays should be x times": dropping(scaled=lambda x, rate: 2 * x if rate else x),
    }
)
def drops_whole_branches(answer):
    for rate in (0.25, 0.6, 0.05):
        x = torch.rand(8000, 3, 4) + 1
        result = run(answer, x, rate, True)
        if torch.isclose(result, torch.tensor(-rate)).any():
            raise Mistake("you divide by 1 and subtract the rate: brackets belong around `(1 - rate)`")
        factor = result / x
        demand_whole_pictures(factor != 0)
        demand_share(answer, factor, rate)
        demand_scale(factor[factor != 0], rate)


def demand_whole_pictures(kept: Tensor) -> None:
    """Demand that all tokens of a picture (B, T, D) share its fate."""
    whole = kept.flatten(1)
    if bool((whole.any(1) == whole.all(1)).all()):
        return
    if bool((kept.any(2) == kept.all(2)).all()):
        raise Mistake("you drop single tokens: one decision for each picture, for all of its tokens together")
    if bool((kept == kept[:1]).all()):
        raise Mistake("all pictures drop the same numbers: one random number for each picture, (B, 1, 1)")
    raise Mistake(
        "you drop single numbers, as dropout does: drop path drops the whole branch of a picture, so one random "
        "number for each picture, of shape (B, 1, 1)"
    )


def demand_share(answer: Callable, factor: Tensor, rate: float) -> None:
    """Demand that as many pictures keep their branch as the rate says."""
    share = (factor[:, 0, 0] != 0).double().mean().item()
    if share in (0, 1):
        x = torch.ones(4, 3, 4)
        shares = {(run(answer, x, rate, True) != 0).double().mean().item() for _ in range(40)} | {share}
        if shares == {1.0}:
            raise Mistake(f"in training with rate {rate} nothing is ever dropped")
        if shares == {0.0}:
            raise Mistake(f"in training with rate {rate} every branch becomes 0")
        raise Mistake("one decision for the whole batch: every picture needs a random number of its own")
    if abs(share - rate) < 0.03:  # the deviation of 8,000 draws is at most .0056
        raise Mistake(
            f"with rate {rate} about {share:.0%} of the pictures keep their branch: `rate` is the probability of "
            "*dropping*, you keep with it"
        )
    if abs(share - (1 - rate)) > 0.03:
        raise Mistake(
            f"with rate {rate} {share:.0%} of the pictures keep their branch, expected {1 - rate:.0%}"
        )


def demand_scale(factors: Tensor, rate: float) -> None:
    """Demand that what stays was divided by 1 - rate."""
    scale = factors.mean().item()
    named = {
        1.0: "the branches that stay are not scaled: divide by 1 - rate, else the expected value shrinks",
        1 / rate: "you divide the branches that stay by rate; divide by 1 - rate",
        1 - rate: "you multiply the branches that stay by 1 - rate; divide by it",
    }
    for value, message in named.items():
        if abs(scale - value) < 1e-3:
            raise Mistake(message)
    if difference(factors, torch.full_like(factors, 1 / (1 - rate))):
        raise Mistake(
            f"with rate {rate} a branch that stays should be x times {1 / (1 - rate):.4g} = 1 / (1 - rate); yours is "
            f"x times {scale:.4g} on average"
        )


@demand(
    {
        "two calls drop the same pictures": dropping(always_the_same),
        "in 300 batches of 32 pictures, one picture is never dropped": dropping(
            lambda x, rate: by_picture(x, rate).index_fill(
                0, torch.tensor([0] * (len(x) > 1), dtype=torch.long), True
            )
        ),
        "in a batch of one picture the branch is never dropped": [
            dropping(never_all),
            lambda x, rate, training: drop_path(x, rate, training and len(x) > 1),
        ],
        "is dropped (nearly) whenever": dropping(neighbours),
        "draw for every picture by itself, neither a fixed number of the batch nor groups": [
            dropping(exact_number),
            dropping(in_pairs),
        ],
    }
)
def draws_for_each_picture(answer):
    """Over 300 batches of 32 pictures, no two pictures may go together, and their number must vary as of free draws."""
    run(answer, torch.ones(200, 2), 0.5, True)
    kept = torch.stack([run(answer, torch.ones(32, 1), 0.5, True)[:, 0] for _ in range(300)]).bool().double()
    if (kept == kept[0]).all():
        raise Mistake("two calls drop the same pictures: draw anew in each call, without a fixed seed")
    if kept.all(dim=0).any():
        raise Mistake("in 300 batches of 32 pictures, one picture is never dropped: each goes by chance")
    together = kept.T.corrcoef().fill_diagonal_(0)
    if together.max() > 0.5:
        first, second = divmod(int(together.argmax()), 32)
        raise Mistake(
            f"in 300 batches of 32 pictures, picture {second} is dropped (nearly) whenever picture {first} is: B "
            "random numbers are needed, one for each picture"
        )
    if not 4 < (variance := kept.sum(dim=1).var().item()) < 13:
        raise Mistake(
            f"in 300 batches of 32 pictures, rate 0.5, the number that is dropped has a variance of {variance:.1f}; 32 "
            "free draws give 8: draw for every picture by itself, neither a fixed number of the batch nor groups"
        )
    if len({run(answer, torch.ones(1, 1, 1), 0.5, True).item() for _ in range(100)}) < 2:
        raise Mistake("in a batch of one picture the branch is never dropped: it goes by chance there too")


@demand(
    {
        "a picture is dropped in parts: one draw for each picture, (B, 1, ...)": dropping(
            lambda x, rate: by_picture(x, rate) if x.ndim != 4 else torch.rand(*x.shape[:2], 1, 1) >= rate
        ),
        "gradients do not come through as they should": [
            lambda x, rate, training: drop_path(x.detach(), rate, training),
            lambda x, rate, training: drop_path(x, rate, True) if training else x.detach(),
        ],
        "with rate 0 nothing is dropped and nothing is scaled, in training too": lambda x, rate, training: (
            drop_path(x, rate or 0.5, training)
        ),
    }
)
def works_for_every_branch(answer):
    for shape in [(50, 3), (50, 2, 3, 4)]:
        kept = run(answer, torch.ones(shape), 0.5, True).flatten(1) != 0
        if bool((kept.any(1) != kept.all(1)).any()):
            raise Mistake(
                f"for x of shape {shape} a picture is dropped in parts: one draw for each picture, (B, 1, ...)"
            )
    for training in (True, False):
        branch = torch.ones(200, 2, requires_grad=True)
        result = answer(branch, 0.5, training)
        result.sum().backward() if result.requires_grad else None
        if branch.grad is None or difference(branch.grad, result.detach()):
            raise Mistake(
                "gradients do not come through as they should: the branches that stay must still learn"
            )
    few = torch.rand(FEW) + 1
    if difference(run(answer, few, 0.0, True), few):
        raise Mistake("with rate 0 nothing is dropped and nothing is scaled, in training too")


exercise(
    drop_path,
    does_nothing_outside_training,
    drops_whole_branches,
    draws_for_each_picture,
    works_for_every_branch,
    any_device(
        (torch.ones(3, 2), 0.5, True),
        "your random numbers are always on the CPU: give `torch.rand` the argument `device=x.device`",
        dropping(lambda x, rate: torch.rand(len(x), *[1] * (x.ndim - 1), device="cpu") >= rate),
    ),
)

# -- Block


def attend(block: nn.Module, x: Tensor) -> Tensor:
    """Equation 2."""
    return x + block.attn(block.norm1(x))


def think(block: nn.Module, x: Tensor) -> Tensor:
    """Equation 3."""
    return x + block.mlp(block.norm2(x))


def block_of(first: Callable, second: Callable) -> type:
    """Return a `Block` made of two other halves, each a function of (block, tokens)."""
    return type("Block", (Block,), {"forward": lambda self, x: second(self, first(self, x))})


def from_normed(norm: str, branch: str) -> Callable:
    """Return a half that adds its branch to the normed tokens."""

    def half(block: nn.Module, x: Tensor) -> Tensor:
        normed = getattr(block, norm)(x)
        return normed + getattr(block, branch)(normed)

    return half


def nothing(block: nn.Module, x: Tensor) -> Tensor:
    return x


def block_with(**changed: Callable) -> type:
    """Return a `Block` with other parts: a function of its arguments for each attribute."""

    def init(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, attn_drop=0.0, drop_path=0.0):
        Block.__init__(self, dim, num_heads, mlp_ratio, drop, attn_drop, drop_path)
        for name, value in changed.items():
            setattr(self, name, value(self, dim, num_heads, mlp_ratio, drop, attn_drop))

    return type("Block", (Block,), {"__init__": init})


def pair_of(give: Callable) -> type:
    """Return a `Block` that gives something else than the pair (tokens, weights) where it should give the pair."""

    def forward(self: nn.Module, x: Tensor, return_attention: bool = False):
        result, weights = Block.forward(self, x, return_attention=True)
        return give(self, x, result, weights) if return_attention else result

    return type("Block", (Block,), {"forward": forward})


def dropped(block: nn.Module, stream: Tensor, branch: Tensor) -> Tensor:
    """Add a branch to the stream as it should be."""
    return stream + drop_path(branch, block.drop_path_rate, block.training)


def block_adding(first: Callable = dropped, second: Callable = dropped) -> type:
    """Return a `Block` that adds its branches in another way, each a function of (block, stream, branch)."""

    def forward(self: nn.Module, x: Tensor, return_attention: bool = False):
        branch, weights = self.attn(self.norm1(x), return_attention=True)
        x = first(self, x, branch)
        x = second(self, x, self.mlp(self.norm2(x)))
        return (x, weights) if return_attention else x

    return type("Block", (Block,), {"forward": forward})


def both(add: Callable) -> type:
    return block_adding(add, add)


def drops_the_sum(self: nn.Module, x: Tensor, return_attention: bool = False):
    branches = think(self, attend(self, x)) - x
    result = dropped(self, x, branches)
    return (result, Block.forward(self, x, True)[1]) if return_attention else result


def drops_without_weights(self: nn.Module, x: Tensor, return_attention: bool = False):
    return both(added).forward(self, x, True) if return_attention else Block.forward(self, x)


def added(block, stream, branch):
    return stream + branch


def at_rate(rate: Callable) -> Callable:
    return lambda block, z, branch: z + drop_path(branch, rate(block.drop_path_rate), block.training)


def draws(block, stream, branch):
    block.keep = torch.rand(len(branch), 1, 1, device=branch.device) >= block.drop_path_rate * block.training
    return draws_no_more(block, stream, branch)


def draws_no_more(block, stream, branch):
    return stream + block.keep * branch / (1 - block.drop_path_rate * block.training)


BESIDE = {"dim": 8, "num_heads": 2}
GIVEN = {
    "norm1.eps": 1e-6,
    "norm2.eps": 1e-6,
    "mlp.fc1.out_features": 9,
    "mlp.drop.p": 0.1,
    "attn.proj_drop.p": 0.1,
    "attn.attn_drop": 0.2,
    "drop_path_rate": 0.25,
}
"""What `__init__` makes of dim 6, mlp_ratio 1.5, drop 0.1, attn_drop 0.2 and drop_path 0.25."""


@demand(
    {
        "`__init__` is given, leave it as it is": [
            block_with(norm1=lambda self, dim, *_: nn.LayerNorm(dim)),
            block_with(mlp=lambda self, dim, heads, ratio, drop, attn_drop: Mlp(dim, 4 * dim, drop)),
            block_with(
                attn=lambda self, dim, heads, ratio, drop, attn_drop: MultiHeadAttention(
                    dim, heads, attn_drop=drop, proj_drop=attn_drop
                )
            ),
        ]
    }
)
def keeps_what_is_given(answer):
    rates = {"drop": 0.1, "attn_drop": 0.2, "drop_path": 0.25}
    module = build(answer, dim=6, num_heads=3, mlp_ratio=1.5, **rates)
    for path, wanted in GIVEN.items():
        found = module
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is not None and found != wanted:
            raise Mistake(
                f"`self.{path}` is {found}, and it should be {wanted}: `__init__` is given, leave it as it is"
            )


@demand(
    {
        "drop path is not used: both branches go through `drop_path`": [
            both(added),
            type("Block", (Block,), {"forward": drops_without_weights}),
        ],
        "each branch goes through `drop_path` by itself": [
            both(lambda block, z, branch: drop_path(z + branch, block.drop_path_rate, block.training)),
            both(at_rate(lambda rate: rate and 1 - rate)),
            type("Block", (Block,), {"forward": drops_the_sum}),
        ],
        "two passes drop the same branches": type("Block", (Block,), {"forward": seeded(Block.forward)}),
        "the attention branch does not go through `drop_path`": block_adding(first=added),
        "the MLP branch does not go through `drop_path`": block_adding(second=added),
        "all pictures of a batch share one draw": both(
            lambda block, z, branch: (
                z + branch / (1 - block.drop_path_rate) * (torch.rand(1) >= block.drop_path_rate)
                if block.training
                else z + branch
            )
        ),
        "and not divided by 1 - rate for the others": both(
            lambda block, z, branch: (
                z
                + branch
                * (torch.rand(len(z), 1, 1, device=z.device) >= block.drop_path_rate * block.training)
            )
        ),
        "the two branches share one draw: each branch goes through a `drop_path` of its own": block_adding(
            draws, draws_no_more
        ),
        "the weights that you return go through `drop_path`": pair_of(
            lambda block, x, result, weights: (
                result,
                drop_path(weights, block.drop_path_rate, block.training),
            )
        ),
        "drop path is active in evaluation: pass it self.training": both(
            lambda block, z, branch: z + drop_path(branch, block.drop_path_rate, True)
        ),
    }
)
def drops_its_branches(answer):
    module = build(answer, dim=8, num_heads=2, drop_path=0.25)
    demand_dropped(module, module)
    demand_dropped(module, lambda x: module(x, return_attention=True), "with return_attention=True ")
    weights = module.train()(torch.randn(9, 3, 8), return_attention=True)[1]
    if difference(weights.sum(-1), torch.ones_like(weights.sum(-1))):
        raise Mistake("the weights that you return go through `drop_path`: the branches alone do")


def demand_dropped(module: nn.Module, call: Callable, where: str = "") -> None:
    """Look at 400 pictures in training: each branch of each must be dropped, or kept and scaled."""
    x, count = torch.randn(400, 3, 8), {}
    with torch.no_grad():
        module.train()
        result = first_of(call(x))
        steady = all(torch.equal(result, first_of(call(x))) for _ in range(20))
        for first in (0, 1, 4 / 3):
            middle = x + first * module.attn(module.norm1(x))
            for second in (0, 1, 4 / 3):
                end = middle + second * module.mlp(module.norm2(middle))
                same = torch.isclose(result, end, rtol=1e-4, atol=1e-5).flatten(1).all(1)
                count[first, second] = int(same.sum())
        quiet, whole = module.eval()(x), think(module, attend(module, x))
    if difference(quiet, whole):
        raise Mistake("drop path is active in evaluation: pass it self.training")
    if steady and count[1, 1] == len(x):
        raise Mistake(
            f"{where}drop path is not used: both branches go through `drop_path` before they are added"
        )
    if steady:
        raise Mistake("two passes drop the same branches: set no seed in `forward`")
    if max(count.values()) == len(x):
        raise Mistake("all pictures of a batch share one draw: each has one of its own, as in `drop_path`")
    for place, name in enumerate(("attention", "MLP")):
        kept = {factors[place] for factors, number in count.items() if number}
        if kept >= {0, 1}:
            raise Mistake(
                f"the {name} branch is dropped for some pictures, and not divided by 1 - rate for the others: "
                "`drop_path` does both"
            )
        if 1 in kept:
            raise Mistake(
                f"the {name} branch does not go through `drop_path`, which drops it for some pictures and divides it "
                "by 1 - rate for the others"
            )
    share = sum(number for factors, number in count.items() if 0 in factors) / len(x)
    if sum(count.values()) < len(x) or not 0.15 < share < 0.9:
        raise Mistake(
            "in training with drop path some pictures come out neither with nor without a branch, or too few of them: "
            "each branch goes through `drop_path` by itself, before it is added to the stream, with the arguments "
            "(branch, self.drop_path_rate, self.training)"
        )
    if not all(count[pair] for pair in ((0, 0), (0, 4 / 3), (4 / 3, 0), (4 / 3, 4 / 3))):
        raise Mistake("the two branches share one draw: each branch goes through a `drop_path` of its own")


def attends_by_hand(block, stream, _):
    qkv = block.attn.qkv(block.norm1(stream)).chunk(3, dim=-1)
    heads = F.scaled_dot_product_attention(*(split_heads(part, block.attn.num_heads) for part in qkv))
    return dropped(block, stream, block.attn.proj_drop(block.attn.proj(merge_heads(heads))))


@demand(
    {
        "in training `drop` does not act": [
            block_adding(
                second=lambda b, z, _: dropped(b, z, b.mlp.fc2(b.mlp.drop(middle(b.mlp, b.norm2(z)))))
            ),
            block_adding(
                second=lambda b, z, branch: F.dropout(dropped(b, z, branch), b.mlp.drop.p, b.training)
            ),
        ],
        "in training `attn_drop` does not act": block_adding(attends_by_hand),
    }
)
def drops_inside_its_branches(answer):
    """With a rate of nearly 1 all that may be dropped is, each time (1 itself would be divided by 0 in some masks)."""
    for name in ("drop", "attn_drop"):
        module, x = build(answer, **BESIDE, **{name: 1 - 1e-9}), torch.randn(2, 5, 8)
        with torch.no_grad():
            for wanted in (False, True):
                if difference(first_of(module(x, return_attention=wanted)), think(module, attend(module, x))):
                    raise Mistake(
                        f"in training `{name}` does not act where it should, or elsewhere too: `self.attn` and "
                        "`self.mlp` drop by themselves, so call them as they are, and drop nothing besides"
                    )


def attends_again(block, x, result, weights):
    return result, block.attn(block.norm1(x), return_attention=True)[1]


@demand(
    {
        "the second argument of forward is called `return_attention`": (
            type("Block", (Block,), {"forward": lambda self, x: Block.forward(self, x)})
        )
    }
)
def names_its_switch(answer):
    check_keyword(answer, BESIDE, torch.randn(2, 5, 8))


@demand({"attention runs 2 times: one call": pair_of(attends_again)})
def attends_once(answer):
    module, calls = build(answer, **BESIDE), []
    module.attn.register_forward_hook(lambda *_: calls.append(1))
    module(torch.randn(2, 5, 8), return_attention=True)
    if len(calls) > 1:
        raise Mistake(
            f"attention runs {len(calls)} times: one call, `self.attn(..., return_attention=True)`, gives the branch "
            "and the weights"
        )


NORMED = (
    "the residual must come from the stream itself: you add the branch to the *normed* tokens, so the stream is "
    "rewritten in every block"
)
LOST = "{} has no residual: its output replaces the stream instead of being added to it"
UNNORMED = "{} reads the raw stream: {} is missing in front of it"

exercise(
    Block,
    keeps_what_is_given,
    results(
        lambda: [
            ({"dim": 4, "num_heads": 1}, torch.randn(1, 2, 4)),
            ({"dim": 8, "num_heads": 2}, 2 * torch.randn(2, 5, 8)),
            ({"dim": 6, "num_heads": 3, "mlp_ratio": 1.5}, torch.randn(3, 4, 6) + 1),
        ],
        {
            "you norm after the addition: that is post-norm. Here each branch norms what it reads; the sum stays": (
                block_of(lambda b, x: b.norm1(x + b.attn(x)), lambda b, x: b.norm2(x + b.mlp(x)))
            ),
            NORMED: block_of(from_normed("norm1", "attn"), from_normed("norm2", "mlp")),
            NORMED + " (in the attention half)": block_of(from_normed("norm1", "attn"), think),
            NORMED + " (in the MLP half)": block_of(attend, from_normed("norm2", "mlp")),
            "the plus stands inside: equation 2 is MSA(LN(z)) + z, and you compute MSA(LN(z) + z). No way leads around "
            "the attention": block_of(lambda b, x: b.attn(b.norm1(x) + x), think),
            "norm1 is used twice: each of the two branches has a norm of its own, with weights of its own": block_of(
                attend, lambda b, x: x + b.mlp(b.norm1(x))
            ),
            UNNORMED.format("the MLP", "norm2"): block_of(attend, lambda b, x: x + b.mlp(x)),
            UNNORMED.format("attention", "norm1"): block_of(lambda b, x: x + b.attn(x), think),
            "no norm is used: norm1 before attention, norm2 before the MLP": block_of(
                lambda b, x: x + b.attn(x), lambda b, x: x + b.mlp(x)
            ),
            "both residuals are missing: x + ... in both lines": block_of(
                lambda b, x: b.attn(b.norm1(x)), lambda b, x: b.mlp(b.norm2(x))
            ),
            LOST.format("attention"): block_of(lambda b, x: b.attn(b.norm1(x)), think),
            LOST.format("the MLP"): block_of(attend, lambda b, x: b.mlp(b.norm2(x))),
            "MLP and attention are swapped: equation 2, attention, comes first": block_of(think, attend),
            "the MLP reads the stream from before attention: equation 3 starts from z', the result of equation 2": (
                block_of(nothing, lambda b, x: attend(b, x) + b.mlp(b.norm2(x)))
            ),
            "equation 3 adds to z', the result of equation 2; you add to the input of the block, so attention's own "
            "contribution is lost": block_of(nothing, lambda b, x: x + b.mlp(b.norm2(attend(b, x)))),
            "you norm what a branch writes; norm what it reads": block_of(
                lambda b, x: x + b.norm1(b.attn(x)), lambda b, x: x + b.norm2(b.mlp(x))
            ),
            "norm1 and norm2 are swapped": block_of(
                lambda b, x: x + b.attn(b.norm2(x)), lambda b, x: x + b.mlp(b.norm1(x))
            ),
            "the second half, equation 3, is missing or adds nothing": block_of(attend, nothing),
            "you always return the weights: without return_attention=True the next block expects tokens alone": type(
                "Block",
                (Block,),
                {"forward": lambda self, x, return_attention=False: Block.forward(self, x, True)},
            ),
            "that does not use the rate it is given": [
                both(at_rate(lambda rate: 1 - rate)),
                both(at_rate(lambda rate: 0.5)),
            ],
        },
    ),
    names_its_switch,
    results(
        lambda: [(BESIDE, torch.randn(2, 5, 8), True), (BESIDE, torch.randn(1, 5, 8), True)],
        {
            "`return_attention` is forgotten: with True the pair (tokens, weights) is wanted, and `self.attn` has the "
            "same switch": pair_of(lambda block, x, result, weights: result),
        },
    ),
    keeps_settings(
        Block,
        BESIDE | {"drop": 0.5, "attn_drop": 0.5, "drop_path": 0.5},
        "attn.proj_drop.p",
        "drop_path_rate",
    ),
    drops_its_branches,
    drops_inside_its_branches,
    attends_once,
)
