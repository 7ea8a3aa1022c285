"""Slips of made-up finished versions: each is named, and none is where one case contradicts it."""

import random

import pytest
import torch
from einops import rearrange
from torch import nn

from vit_course.classroom.checks.compare import compare, compare_modules
from vit_course.classroom.checks.explain.mutants import mutants_of
from vit_course.classroom.checks.outcome import Mistake
from vit_course.patches import patchify


def softened(x, weight, power=2.0, mode="mean"):
    """Weigh tokens by themselves.

    Args:
        x: (B, T, D).
        weight: (D,).
        power: exponent.
        mode: "mean" or "max".

    Returns:
        (B, D).
    """
    centred = x - x.mean(dim=-1, keepdim=True)
    scores = (centred * weight).sum(dim=-1) / x.shape[-1] ** 0.5
    shares = scores.softmax(dim=-1)
    if mode == "max":
        shares = (shares == shares.amax(dim=-1, keepdim=True)).to(x)
    return (shares[..., None] * x.abs() ** power).sum(dim=1)


def counted(rows, columns, patch):
    """Count."""
    inner = (rows - 1) // patch * (columns - 1) // patch
    border = 0
    for side in (rows, columns):
        border += 2 * side
    return 3 * inner + border


def told(answer, reference, cases, compared=compare):
    """Return what is said of a wrong answer, and whether that is said to be a cause."""
    with pytest.raises(Mistake) as caught:
        compared(answer, reference, cases)
    before, found, _ = f"\n{caught.value}".partition("\non ")
    return (before.strip() if found else str(caught.value)), caught.value.named


def drawn(*shapes):
    torch.manual_seed(0)
    return [(torch.randn(shape), torch.rand(shape[-1]) + 0.5) for shape in shapes]


TOKENS = [
    (*case, *more)
    for case, more in zip(drawn((1, 3, 4), (2, 5, 6), (3, 4, 8)), [(), (3.0,), (1.0, "max")], strict=True)
]
WHAT = "your result is what comes out when "


def weighed(scale=lambda x: x.shape[-1] ** 0.5, axis=-1, final=torch.abs, centre=True):
    """Write `softened` in another way, with one thing changed."""

    def answer(x, weight, power=2.0, mode="mean"):
        centred = x - x.mean(-1, keepdim=True) if centre else x
        scores = torch.einsum("btd,d->bt", centred, weight) / scale(x)
        shares = torch.exp(scores) / torch.exp(scores).sum(axis, keepdim=True)
        if mode == "max":
            shares = (shares == shares.max(dim=-1, keepdim=True).values).to(x)
        return torch.einsum("bt,btd->bd", shares, final(x) ** power)

    return answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (weighed(centre=False), "`x.mean(dim=-1, keepdim=True)` is left out of"),
        (weighed(lambda x: x.shape[-1]), "`0.5` is left out of `x.shape[-1] ** 0.5`"),
        (weighed(lambda x: x.shape[-2] ** 0.5), "`-1` is `1` in `x.shape[-1] ** 0.5`"),
        (weighed(axis=0), "`dim=-1` is `dim=0` in `scores.softmax(dim=-1)`"),
        (weighed(final=lambda x: x), "`.abs()` is left out of"),
    ],
)
def test_a_slip_is_named_however_the_answer_is_written(answer, words):
    said, named = told(answer, softened, TOKENS)
    assert said.startswith(WHAT + words) and named


def test_what_the_finished_version_gives_is_not_explained():
    compare(weighed(), softened, TOKENS)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda r, c, p: 3 * (r // p * (c - 1) // p) + 2 * (r + c), "`1` is left out of `rows - 1`"),
        (lambda r, c, p: 3 * ((r - 1) // p * (c - 1) // p), "the line `border += 2 * side` is left out"),
        (lambda r, c, p: 3 * ((r - 1) // p * c // p) + 2 * (r + c), "`1` is left out of `columns - 1`"),
    ],
)
def test_slips_of_counts_are_named(answer, words):
    said, _ = told(answer, counted, [(5, 7, 2), (9, 4, 3), (20, 31, 5), (8, 8, 1)])
    assert words in said


def squares(images, p):
    """Cut.

    Args:
        images: (B, C, H, W).
        p: side.

    Returns:
        (B, N, P·P·C).
    """
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p, p2=p)


PICTURES = [(torch.rand(1, 1, 4, 4), 2), (torch.rand(2, 3, 4, 6), 2), (torch.rand(2, 3, 12, 8), 4)]


def test_a_reshape_where_axes_should_move_is_named():
    def answer(images, p):
        b, c, h, w = images.shape
        cut = images.reshape(b, c, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5)
        return cut.permute(0, 1, 3, 2, 4, 5).reshape(b, -1, p * p * c)

    said, named = told(answer, squares, PICTURES)
    assert "before the last `reshape` your axes stand as (b, h, c, w, p1, p2)" in said and named


class Layer(nn.Module):
    def __init__(self, dim, eps=0.1):
        super().__init__()
        self.norm, self.other = nn.LayerNorm(dim, eps=eps), nn.LayerNorm(dim, eps=eps)
        self.fc, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        x = x + self.fc(self.norm(x))
        return x + self.out(self.other(x)).relu()


class PostNorm(Layer):
    def forward(self, x):
        x = x + self.norm(self.fc(x))
        return x + self.out(self.other(x)).relu()


class OneNorm(Layer):
    def forward(self, x):
        x = x + self.fc(self.norm(x))
        return x + self.out(self.norm(x)).relu()


class OtherEps(Layer):
    def __init__(self, dim, eps=0.1):
        super().__init__(dim)
        self.norm, self.other = nn.LayerNorm(dim), nn.LayerNorm(dim, eps=eps)


class TwoSlips(Layer):
    def forward(self, x):
        x = x + self.fc(x)
        return self.out(self.other(x)).relu()


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (PostNorm, "`self.fc(self.norm(x))` is done before `self.norm(x)`, not after it"),
        (OneNorm, "`self.other` is `self.norm`"),
        (OtherEps, "`LayerNorm` has `eps=1e-05`"),
        (TwoSlips, "the weights `norm.weight`"),
    ],
)
def test_slips_in_modules_are_named(module, words):
    cases = [({"dim": 4}, torch.randn(1, 3, 4)), ({"dim": 6, "eps": 0.5}, torch.randn(2, 5, 6))]
    said, named = told(module, Layer, cases, compare_modules)
    assert words in said and named


def test_nothing_is_said_where_one_case_contradicts_every_slip():
    def answer(x, weight, power=2.0, mode="mean"):
        return weighed(axis=0 if len(x) == 2 else -1, centre=len(x) != 3)(x, weight, power, mode)

    assert WHAT not in told(answer, softened, TOKENS)[0]


@pytest.mark.parametrize("seed", range(12))
def test_a_slip_is_never_named_where_one_number_contradicts_it(seed):
    family, draw = mutants_of(softened), random.Random(seed)
    while True:
        _, name, number = draw.choice(family.order)
        slipped = family.made(name, number)
        try:
            results = [slipped(*case) for case in TOKENS]
            different = [
                not torch.allclose(r, softened(*case)) for r, case in zip(results, TOKENS, strict=True)
            ]
            if any(different) and all(r.isfinite().all() for r in results):
                break
        except Exception:
            continue

    def answer(x, *more):
        result = slipped(x, *more).clone()
        if len(x) == 3:
            result[-1, -1] += 1.7
        return result

    with pytest.raises(Mistake) as caught:
        compare(answer, softened, TOKENS)
    assert WHAT not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (lambda x, weight, power=2.0, mode="mean": None, True),
        (lambda x, weight, power=2.0, mode="mean": "text", True),
        (lambda x, weight, power=2.0, mode="mean": softened(x, weight, power, mode).double(), True),
        (
            lambda x, weight, power=2.0, mode="mean": (x * weight).sin().cumsum(1)[:, -1] + power * len(mode),
            False,
        ),
        (lambda x, *more: softened(x, *more)[..., :1].expand(-1, 7), False),
    ],
)
def test_a_message_knows_whether_it_names_a_cause(answer, named):
    with pytest.raises(Mistake) as caught:
        compare(answer, softened, TOKENS)
    assert caught.value.named == named


def test_a_value_from_before_a_line_is_recognised():
    def answer(x, weight):
        return x + (x * weight).tanh() + x.cos()

    def finished(x, weight):
        x = x + (x * weight).tanh()
        return x + x.cos()

    said, _ = told(answer, finished, drawn((1, 3, 4), (2, 5, 6)))
    assert "is still that of before the line `x = x + (x * weight).tanh()`" in said


def test_slips_of_what_a_check_wraps_are_those_of_the_finished_version():
    def wrapped(function):
        def run(x, p):
            return function(x, p).cumsum(2)

        return run

    def answer(images, p):
        return rearrange(images, "b c (h p1) (w p2) -> b (h w) (c p1 p2)", p1=p, p2=p)

    family = mutants_of(wrapped(patchify))
    assert family.wrapper and family.main.value is patchify
    said, _ = told(wrapped(answer), wrapped(patchify), PICTURES)
    assert "`(p1 p2 c)` is `(c p1 p2)`" in said


def test_two_slips_at_once_are_named():
    def answer(x, weight):
        return x * weight + x.cos() * 2 - x.sum(1, keepdim=True).tanh()

    def finished(x, weight):
        total = x.sum(dim=-1, keepdim=True).tanh()
        return x / weight + 2 * x.cos() - total

    said, named = told(answer, finished, drawn((1, 3, 4), (2, 5, 6), (3, 4, 8)))
    assert (
        said.startswith("two slips at once: ")
        and "`/` is `*`" in said
        and "`dim=-1` is `dim=" in said
        and named
    )


def test_a_line_whose_loss_does_no_harm_is_not_called_a_slip():
    def finished(x, weight):
        if x.shape[1] == x.shape[2]:
            return weight.expand_as(x).mul(x)
        return x * weight + (x.shape[1] - x.shape[2]) * x.cos()

    def answer(x, weight):
        return x / weight + (x.shape[1] - x.shape[2]) * x.cos()

    said, named = told(answer, finished, drawn((2, 3, 3), (2, 5, 6), (3, 4, 8)))
    slip, _, besides = said.partition("\nBesides, ")
    assert slip == "your result is what comes out when `*` is `/` in `x * weight`"
    assert besides.endswith("is left out: that alone does no harm") and named


def test_making_slips_leaves_the_finished_version_as_it_was():
    before = [softened(*case) for case in TOKENS]
    family = mutants_of(softened)
    for _, name, number in family.order:
        family.made(name, number)
    assert all(torch.equal(a, softened(*case)) for a, case in zip(before, TOKENS, strict=True))
    again = family.main.made(None, {})
    assert all(torch.equal(a, again(*case)) for a, case in zip(before, TOKENS, strict=True))


def test_a_slip_with_a_loop_that_never_ends_is_left(monkeypatch):
    monkeypatch.setattr("vit_course.classroom.checks.explain.trial.LINES", 500)

    def halvings(number):
        count = 0
        while number > 1:
            number, count = number // 2, count + 1
        return count

    with pytest.raises(Mistake) as told:  # many slips of this loop run for ever; one is the answer's
        compare(lambda number: halvings(number) + (number > 4), halvings, [(1,), (2,), (9,), (33,), (100,)])
    assert "expected" in str(told.value) or "what comes out when" in str(told.value)


def waves(number, base):
    """Count down."""
    return base ** (-torch.arange(number) / (number + 1))


def test_brackets_that_are_missing_are_named():
    answer = lambda number, base: base ** -torch.arange(number) / (number + 1)  # noqa: E731
    words, named = told(answer, waves, [(3, 10.0), (5, 2.0), (4, 100.0)])
    assert named and "is `base ** (-torch.arange(number)) / (number + 1)`" in words
