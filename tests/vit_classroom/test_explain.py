"""The explainer of answers that no known mistake explains, on made-up exercises."""

import itertools
import math
import statistics
import time

import pytest
import torch
from einops import rearrange
from torch import nn

from vit_classroom.checks import words as words_of
from vit_classroom.checks.compare import compare, compare_modules
from vit_classroom.checks.error_patterns import cause
from vit_classroom.checks.explain.defaults import default_astray, demand_defaults
from vit_classroom.checks.outcome import Mistake, build, outcome
from vit_course.attention import check_heads


def explanation(answer, reference, cases, mistakes=(), compared=compare):
    """Return what is said before the smallest differing input."""
    with pytest.raises(Mistake) as caught:
        compared(answer, reference, cases, mistakes)
    before, found, _ = f"\n{caught.value}".partition("\non ")
    return before.strip() if found else str(caught.value)


def tokens(x):
    """Keep tokens, in a way of their own.

    Args:
        x: (B, T, D).

    Returns:
        (B, T, D).
    """
    return x.sin() + 0.1 * x


def heads(x, num_heads):
    """Split.

    Args:
        x: (B, T, D).
        num_heads: number of heads h.

    Returns:
        (B, h, T, d).
    """
    return x.unflatten(2, (num_heads, -1)).transpose(1, 2).contiguous()


def attention(x):
    """Weigh.

    Args:
        x: (B, T, D).

    Returns:
        (B, T, T).
    """
    return (x @ x.transpose(1, 2)[:, :, torch.arange(x.shape[1]).roll(1)]).softmax(-1)


def pooled(x, scale=2.0, mode="mean"):
    """Pool.

    Args:
        x: (B, T, D).
        scale: factor.
        mode: "mean" or "max".

    Returns:
        (B, D).
    """
    return scale * (x.mean(1) if mode == "mean" else x.amax(1))


def biased(x, weight, bias):
    """Scale and shift.

    Args:
        x: (B, T, D).
        weight: (D,).
        bias: (D,).

    Returns:
        (B, T, D).
    """
    return x * weight + bias


def drawn(*shapes):
    torch.manual_seed(0)
    return [(torch.randn(shape),) for shape in shapes]


TOKENS = drawn((1, 3, 4), (2, 5, 6), (3, 4, 8))
HEADS = [(x, n) for (x,), n in zip(drawn((1, 2, 4), (2, 5, 6), (2, 3, 12)), (2, 3, 4), strict=True)]
POOLED = [(x, *more) for (x,), more in zip(TOKENS, [(), (3.0,), (0.5, "max")], strict=True)]
BIASED = [(x, torch.rand(x.shape[2]) + 1, torch.randn(x.shape[2])) for (x,) in TOKENS]


def then(change):
    return lambda x: change(tokens(x))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        # another shape, by its axes
        (
            lambda y: y[0],
            ("the axis of the pictures is lost: yours is the result of the first picture alone"),
        ),
        (lambda y: y[:1].clone() if len(y) > 1 else y, "yours is the result of the first picture alone"),
        (lambda y: y.sum(0, True) if len(y) > 1 else y, "you add up the pictures; that axis should stay"),
        (
            lambda y: y.squeeze(),
            "where the axis of the pictures has length 1 it is lost: `squeeze` takes away such an axis",
        ),
        (lambda y: y[:, 1:], "the first token is missing"),
        (lambda y: y[:, :, :-1], "the last number of a token is missing"),
        (lambda y: torch.cat([y, y[:, :1]], 1), "there is one token too many, at the end"),
        (lambda y: y[:, ::2], "your result has too few tokens, 2 and not 3"),
        (lambda y: torch.stack([y - 1, y + 1]), "axis 0 of your result should be averaged away"),
        # numbers that one operation makes right
        (lambda y: 2 * y, "every number is twice what it should be"),
        (lambda y: y / 255, "every number is 1/255 of what it should be"),
        (lambda y: y * 255 / 256, "every number is 255/256 of what it should be"),
        (lambda y: 3.7 * y, "every number is 3.7 times what it should be"),
        (lambda y: -y, "every number has the wrong sign"),
        (lambda y: y + 1, "every number is too large by 1"),
        (lambda y: 1 - y, "each number is 1 minus what it should be"),
        (lambda y: 1 / y, "each number is 1 divided by what it should be"),
        (lambda y: y**2, "each number is the square of what it should be"),
        (lambda y: y.exp(), "each number is `exp` of what it should be"),
        (lambda y: y.abs(), "the signs are lost: each number is the absolute value of what it should be"),
        (lambda y: y.relu(), "numbers below 0 have become 0"),
        (
            lambda y: y.round(decimals=2),
            "the numbers are rounded to 2 digits after the point: return them as they are",
        ),
        (lambda y: y.ceil(), "the numbers are rounded up to whole ones: return them as they are"),
        (lambda y: y.softmax(-1), "a softmax is done once too often, over the numbers of a token"),
        (
            lambda y: y - y.mean(1, True),
            "the subtraction of the mean is done once too often, over the tokens",
        ),
        (
            lambda y: y * y.shape[2] ** 0.5,
            "every number is sqrt(D) times what it should be (2 times in the smallest wrong case)",
        ),
        (
            lambda y: y / y.shape[1],
            "every number is 1/T times what it should be (0.3333 times in the smallest wrong case)",
        ),
        (
            lambda y: y * (1 + y.mean() ** 2),
            "here every number is 1.029 times the wanted one; in other cases the factor is another",
        ),
        (
            lambda y: torch.cat([y[:, :1] * 0, y[:, 1:]], 1),
            "only the first token is wrong; there every number is 0 in all cases",
        ),
        # right numbers in wrong places
        (lambda y: y.flip(1), "the tokens stand in reverse order"),
        (lambda y: y.flip(1, 2), "the tokens and the numbers of a token stand in reverse order"),
        (lambda y: y.roll(1, 1), "the tokens are moved on by one place, the last one comes first"),
        (
            lambda y: y.transpose(1, 2).reshape(y.shape),
            "your numbers stand in the order (pictures, numbers of a token, tokens) and have only been given the "
            "wanted shape: `reshape` moves nothing, so bring the axes into their order first",
        ),
        (
            lambda y: y.flatten()[
                torch.randperm(y.numel(), generator=torch.Generator().manual_seed(1))
            ].reshape(y.shape),
            (
                "all numbers are the right ones, but they stand in wrong places: they "
                "are reordered, not miscalculated"
            ),
        ),
    ],
)
def test_another_shape_other_numbers_and_numbers_in_wrong_places_are_explained(change, words):
    assert explanation(then(change), tokens, TOKENS) == words


@pytest.mark.parametrize(
    ("change", "shapes", "words"),
    [
        (  # 7 is D + 1 by accident
            lambda y: y if y.shape[1] > 2 else torch.cat([y.cos()] * 4, 1)[:, 1:],
            ((3, 2, 6), (4, 2, 6), (3, 5, 6)),
            "your result has too many tokens, 7 and not 2",
        ),
        (  # where it is wrong 2·B is T
            lambda y: torch.cat([y, y.cos()]) if y.shape[2] > 4 else y,
            ((2, 6, 4), (2, 4, 5), (3, 6, 7)),
            "your result has too many pictures, 4 and not 2",
        ),
        (
            lambda y: torch.cat([y, y.cos()]) if y.shape[2] > 4 else y,
            ((2, 6, 4), (2, 4, 5), (3, 8, 6)),
            "your result has the shape (2·B, T, D), and (B, T, D) is wanted",
        ),
        (
            lambda y: y.squeeze().cos().cumsum(0) if 1 in y.shape else y,
            ((1, 2, 4), (4, 3, 1), (2, 5, 6)),
            "your result has too few axes, but only where an axis of the input has length 1: `squeeze` takes away "
            "every such axis, wherever it stands",
        ),
    ],
)
def test_a_shape_that_only_sizes_tell_is_named_where_one_reading_fits(change, shapes, words):
    assert explanation(then(change), tokens, drawn(*shapes)) == words


@pytest.mark.parametrize(("down", "first"), [(False, "smallest"), (True, "largest")])
def test_sorted_numbers_are_noticed(down, first):
    words = f"your numbers are the right ones, but sorted along the numbers of a token, the {first} first"
    assert explanation(then(lambda y: y.sort(2, descending=down)[0]), tokens, TOKENS) == words


def test_a_bare_reshape_of_an_argument_is_recognised():
    words = explanation(lambda x, n: x.reshape(len(x), n, x.shape[1], -1), heads, HEADS)
    assert words == "your numbers are those of `x` in the same order: `reshape` and `view` alone move nothing"


def test_axes_in_another_order_are_listed():
    words = explanation(lambda x, n: heads(x, n).permute(0, 2, 3, 1), heads, HEADS)
    assert words == (
        "the axes stand in another order: yours are (pictures, tokens, numbers of a head, heads), they should be "
        "(pictures, heads, tokens, numbers of a head)"
    )


def scored(x):
    """Return the scores before the softmax of `attention`."""
    return x @ x.transpose(1, 2)[:, :, torch.arange(x.shape[1]).roll(1)]


@pytest.mark.parametrize(
    ("weigh", "words"),
    [
        (
            lambda x: scored(x).index_fill(2, torch.tensor([0]), -math.inf).softmax(-1),
            "some of your weights are 0, and the others are right but for their sum: nothing is to be left out",
        ),
        (lambda x: (scored(x) ** 3 + x[:, :1].mean(2, True)).softmax(-1).cos().softmax(-1), ""),
    ],
)
def test_weights_are_explained_by_their_scores(weigh, words):
    assert explanation(weigh, attention, drawn((1, 3, 4), (2, 4, 6), (3, 5, 9))) == words


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda a, b: (a or 0.0, b), "where something is missing, None is wanted, and you return a number"),
        (
            lambda a, b: (math.nan if a is None else a, b),
            "None is wanted, and you return nan, which is a number",
        ),
    ],
)
def test_a_number_in_the_place_of_none_is_noticed(answer, words):
    cases = [(1.5, 2.0), (None, 2.5), (None, 3.0)]
    assert words in explanation(answer, lambda a, b: (a, b), cases)


def test_a_number_in_the_place_of_none_is_not_all_where_another_number_is_wrong():
    answer = lambda a, b: (a or 0.0, -b)  # noqa: E731
    assert "None" not in explanation(answer, lambda a, b: (a, b), [(1.5, 2.0), (None, 2.5), (None, 3.0)])


def test_entries_in_another_order_are_noticed():
    cases = [({"b": 1, "a": 2, "d": 3, "c": 4, "e": 5},), ({"x": 1},)]
    words = explanation(lambda given: sorted(given.items()), lambda given: list(given.items()), cases)
    assert words == "the entries are right, but they stand in another order"


def test_a_known_mistake_is_recognised_in_another_kind_of_number():
    known = [(lambda a, b: a - b, "a quotient was asked for")]
    words = explanation(lambda a, b: float(a - b), lambda a, b: a / b, [(6, 4), (9, 5)], known)
    assert words == "a quotient was asked for"


def test_arguments_in_the_result_are_recognised():
    words = "the sign of `bias` is wrong: your result is the wanted one minus 2 times `bias`"
    assert explanation(lambda x, w, b: x * w - b, biased, BIASED) == words


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            lambda x, scale=2.0, mode="mean": pooled(x, 2.0, mode),
            "your result does not change with `scale`, but it should",
        ),
        (
            lambda x, scale=2.0, mode="mean": scale * x.sin().cumsum(1)[:, -1] + len(mode) * x.cos().amin(1),
            "",
        ),
    ],
)
def test_unused_arguments_are_named(answer, words):
    assert explanation(answer, pooled, POOLED) == words


def test_the_largest_number_along_an_axis_is_recognised():
    cases = [(x,) for x, *_ in POOLED]
    words = explanation(lambda x: x.amax(1), lambda x: x.mean(1), cases)
    assert words == "your result is the largest number of `x` along axis 1"


def test_answers_that_rely_on_memory_are_told_so():
    cases = [*TOKENS, (torch.randn(2, 6, 5).transpose(1, 2),)]
    words = explanation(lambda x: tokens(x.as_strided(x.shape, (x[0].numel(), x.shape[2], 1))), tokens, cases)
    assert words.startswith("right for tensors whose numbers lie in memory in order, wrong for others")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            lambda n, dim: 6 * n * dim**2 + 4 * n**2 * dim,
            ("2 · n · dim² is missing: 192 is wanted in the smallest case, yours is 156"),
        ),
        (
            lambda n, dim: 8 * n * dim**2 + 5 * n**2 * dim,
            ("n² · dim is too much: 192 is wanted in the smallest case, yours is 204"),
        ),
        (
            lambda n, dim: 8 * dim**2 + 4 * n * dim,
            ("your result is 1/n times what it should be (0.5 times in the smallest wrong case)"),
        ),
        (lambda n, dim: 8 * n * dim**2 + 4 * n**2 * dim + 1, "your result is too large by 1"),
        (lambda n, dim: 8 * n * dim**2 + 4 * n**2 * dim + (n * 37) % 11 + 1, ""),
        (lambda n, dim: int(math.exp(1 + n % 3)) + dim, ""),
        (lambda n, dim: {"no": "number"}, ""),
        (lambda n, dim: [1, "two"], ""),
    ],
)
def test_counts_are_explained_by_a_term_or_a_factor_and_left_alone_without_a_pattern(answer, words):
    cases = [(2, 3), (65, 192), (197, 768), (7, 5)]
    assert explanation(answer, lambda n, dim: 8 * n * dim**2 + 4 * n**2 * dim, cases) == words


class Layer(nn.Module):
    def __init__(self, dim, wide=False):
        super().__init__()
        self.first, self.second = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.second(self.first(x).tanh())


class WithoutSecond(Layer):
    def forward(self, x):
        return self.first(x).tanh().chunk(2, -1)[0]


class Random(Layer):
    def forward(self, x):
        return torch.dropout(super().forward(x), 0.5, True)


class Noisy(Layer):
    def forward(self, x):
        return super().forward(x).cos() * x.exp()


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (
            WithoutSecond,
            "your result does not depend on the weights `second.weight` and `second.bias`, but it should",
        ),
        (Noisy, ""),
    ],
)
def test_weights_without_effect_are_named(module, words):
    cases = [({"dim": 4}, torch.randn(1, 3, 4)), ({"dim": 6}, torch.randn(2, 5, 6))]
    assert explanation(module, Layer, cases, compared=compare_modules) == words


class Wide(nn.Module):
    """Two layers, with a width between them.

    Args:
        dim: width D.
        hidden_dim: width between the layers.
    """

    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden_dim), nn.Linear(hidden_dim, dim)

    def forward(self, x):
        return self.fc2(self.fc1(x).relu())


class FourTimes(Wide):
    def __init__(self, dim, hidden_dim):
        super().__init__(dim, 4 * dim)


class Turned(Wide):
    def __init__(self, dim, hidden_dim):
        super().__init__(hidden_dim, dim)


class NoBias(Wide):
    def __init__(self, dim, hidden_dim):
        super().__init__(dim, hidden_dim)
        self.fc1 = nn.Linear(dim, hidden_dim, bias=False)


class Renamed(Wide):
    def __init__(self, dim, hidden_dim):
        super().__init__(dim, hidden_dim)
        self.first = self._modules.pop("fc1")


class InAList(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.layers = [nn.Linear(dim, hidden_dim), nn.Linear(hidden_dim, dim)]

    def forward(self, x):
        return self.layers[1](self.layers[0](x).relu())


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (FourTimes, "`hidden_dim` should change it, and does not (built with dim=2, hidden_dim=3)"),
        (Turned, "fc1.weight should be (3, 2), yours is (2, 3) (in and out are exchanged"),
        (NoBias, "your module has no weights named fc1.bias: leave out `bias=False`"),
        (Renamed, "no weights named fc1.weight, fc1.bias (it lacks 2, and has first.weight, first.bias)"),
        (InAList, "your layers lie in a plain list or dict, `self.layers`, where PyTorch finds no weights"),
    ],
)
def test_weights_that_do_not_fit_are_explained(module, words):
    with pytest.raises(Mistake) as caught:
        compare_modules(module, Wide, [({"dim": 2, "hidden_dim": 3}, torch.randn(1, 2))])
    assert words in str(caught.value)


def test_a_module_that_draws_in_evaluation_is_told_so():
    with pytest.raises(Mistake, match="^two calls"):
        compare_modules(Random, Layer, [({"dim": 4}, torch.randn(1, 3, 4))])


def test_a_draw_that_agrees_by_chance_in_one_case_is_noticed_in_another():
    drawn_anew = itertools.count()
    cases = drawn((1, 3, 4), (2, 5, 6), (3, 4, 8))
    answer = lambda x: 0.5 if len(x) == 3 else next(drawn_anew) / 7  # noqa: E731
    assert explanation(answer, lambda x: x.sum().item(), cases).startswith("two calls on the same input")


def noise(x):
    sample = torch.randn(x.shape, generator=torch.Generator().manual_seed(x.numel()))
    return sample * x.abs().mean() + x * x.mean()


@pytest.mark.parametrize(
    "change",
    [
        noise,
        lambda y: y + noise(y),
        lambda y: y.tanh() * 1.5 + y.sin(),
        lambda y: y @ torch.ones(y.shape[2], y.shape[2]).tril() + y.cos(),
        lambda y: 2 * y if len(y) == 1 else y.cos(),  # twice in one case alone
        lambda y: y.flip(1) if len(y) == 1 else y.sin().cumsum(2).cos(),  # turned round in one case alone
        lambda y: y.exp() if y.shape[1] == 5 else y.sin().roll(2, 1) - y,
        lambda y: noise(y).transpose(1, 2)[:, :2],
        lambda y: torch.where(noise(y) > 0, y, y.cos()),
        lambda y: y.double(),  # a wrong type is not explained twice
        lambda y: nn.Identity(),  # modules that are returned are not called random
    ],
)
def test_nothing_is_said_where_nothing_holds_everywhere(change):
    assert explanation(then(change), tokens, TOKENS) == ""


def test_a_yes_or_no_is_not_said_to_ignore_its_arguments():
    answer = lambda x: float(x.sum() > 1000)  # noqa: E731
    assert explanation(answer, lambda x: x.abs().max().item(), TOKENS) == ""


def test_two_numbers_are_too_few_to_explain():
    cases = [(torch.tensor([[[1.0, 2.0]]]),)]
    assert explanation(lambda x: tokens(x) * 2, tokens, cases) == ""


@pytest.mark.parametrize(
    "value", [object(), {}, [], [[1, 2], [3]], torch.zeros(0), torch.full((2,), math.nan), "text"]
)
def test_odd_results_never_stop_the_explainer(value):
    explanation(lambda x: value, tokens, TOKENS)


def test_all_looks_together_have_so_much_time(monkeypatch):
    answer = lambda x: 2 * tokens(x)  # noqa: E731
    monkeypatch.setattr(
        "vit_classroom.checks.explain.in_results", lambda trial, looks: "" if trial.tired else "twice"
    )
    assert explanation(answer, tokens, TOKENS) == "twice"
    for limit in ("WHOLE", "LEAST"):
        monkeypatch.setattr(f"vit_classroom.checks.explain.{limit}", 0.0)
    assert explanation(answer, tokens, TOKENS) == ""


def test_a_slow_answer_is_not_called_again_and_again():
    calls = []

    def slow(x, scale=2.0, mode="mean"):
        calls.append(time.sleep(0.3))
        return x[:, 0].cos()

    assert explanation(slow, pooled, POOLED) == ""
    assert len(calls) < 8


def stopped(answer, reference, cases):
    """Return what an error is said to come from, or an empty string."""
    with pytest.raises(Mistake) as caught:
        compare(answer, reference, cases)
    first = str(caught.value).partition("\n")[0]
    shown_alone = first.startswith("on ")
    assert not (shown_alone and caught.value.named)  # a translated error is told, too, and is no cause
    return "" if shown_alone else first


def refuses(*_):
    raise RuntimeError("for no reason that is known")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x: x.nothing, "a `Tensor` has no `nothing`"),
        (
            lambda x: x + torch.zeros(1, 9, 1),
            "an axis of length 3 (T) meets one of length 9, and they should be equal",
        ),
        (
            lambda x: x.transpose(1, 2).view(-1, len(x)),
            "`view` needs numbers in memory in order; after `transpose`, `permute`, `chunk` they are not: `reshape` "
            "copies",
        ),
        (
            lambda x: nothing_of_this_name,  # noqa: F821
            "nothing is called `nothing_of_this_name`: a slip of the pen, or a line that is missing",
        ),
        (lambda x: x @ x, "a matrix product needs [1, 4 (D)] there, and gets [1, 3 (T)]"),
        (refuses, ""),
    ],
)
def test_errors_are_explained_in_the_letters_of_the_exercise(answer, words):
    assert stopped(answer, tokens, TOKENS) == words


class Forgetful(nn.Module):
    width = 3

    def forward(self, x):
        return x * width  # noqa: F821


class Overwritten(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = 0.5

    def forward(self, x):
        return self.drop(x)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x: x.expand(2, 2, 2), "the length 4 does not fit where 2 is wanted (axis 2): an axis"),
        (lambda x: x.expand(2), "`expand` wants a length for each of the 3 axes, and gets 1"),
        (
            lambda x: x.gather(1, torch.zeros(9, 1, 1).long()),
            "an index of shape (9, 1, 1) looks along axis 1",
        ),
        (lambda x: rearrange("b t d -> b d t", x), "einops gets a `str`, where the tensor comes first"),
        (lambda x: rearrange(x, "b t (h d) -> b h t d"), "the pattern splits an axis into parts of unknown"),
        (
            lambda x: rearrange(x, "b t -> t b"),
            "the pattern has 2 axes on its left side, and the tensor has 3",
        ),
        (lambda x: rearrange(x, "b t (h d) -> b h t d", h=3), "splits an axis of length 4 into parts of 3"),
        (lambda x: [row for row in 3], "a `int` is gone through as if it were a list"),
        (lambda x: torch.cat([x, 3]), "part 1 of what is joined is a `int` and no tensor"),
        (lambda x: nn.functional.gelu(nn), "`input` should be a Tensor there, and is a module"),
        (lambda x: x.mean(keepdim=True), "`mean` cannot take (keepdim=bool, )"),
        (lambda x: x.shape < 3, "`<` cannot compare `torch.Size` and `int`"),
        (lambda x: torch.nothing(x), "`torch` has no `nothing`"),
        (lambda x: x.shape**0.5, "`** or pow()` cannot work on `torch.Size` and `float`"),
        (lambda x: torch.zeros(-1), "a length comes out negative"),
        (lambda x: x if x > 0 else -x, "ask a whole tensor for one yes or no"),
        (lambda x: x.reshape(-1, -1), "two lengths are -1"),
        (lambda x: x.shape[7], "a list or shape has fewer entries than the index asks for"),
        (lambda x: x.flatten()[torch.ones(2) / 2], "an index should be whole numbers"),
        (lambda x: torch.cat([x, x[0]]), "what is joined has 3 and 2 axes"),
        (lambda x: torch.rand(3).sort() + 1, "of `sort`, `topk`, `max` along an axis take `.values`"),
        (lambda x: list(x.tolist), "brackets are missing: a method is called"),
        (lambda x: x.numpy()[0] if x[0] not in [x[..., 1:]] else x, "`in` compares tensors number by number"),
        (lambda x: torch.stack([x, x[0]]), "`stack` wants parts of one shape, and yours differ"),
        (lambda x: x.expand(2, 3, 4) + x[:, :-0], "something is empty there: with p = 0, `[:-p]` is `[:0]`"),
        (lambda x: [a for a, b, c in [x.shape[:2]]], "what is unpacked does not hold 3 values"),
        (lambda x: x.item(), "one number is asked of a tensor that holds several, or none"),
        (lambda x: math.log(-1), "`math` is asked for the root or logarithm of a number that has none"),
        (lambda x: list(zip([1], [], strict=True)), "what is gone through side by side is not equally long"),
        (lambda x: nn.functional.layer_norm(x, x.shape, torch.ones(4)), "the weight has the shape (4)"),
        (lambda x: nn.Parameter(1, 1, 4), "`nn.Parameter` takes a tensor and no sizes"),
        (lambda x: x + (x, x), "a pair is added there to a tensor"),
        (lambda x: np.array(x), "`np` is not imported: write `import numpy as np`"),  # noqa: F821
        (lambda x: F.relu(x), "`F` is not imported: write `import torch.nn.functional as F`"),  # noqa: F821
        (lambda x: random.random(), "`random` is not imported: write `import random`"),  # noqa: F821
        (Forgetful(), "`width` alone is no variable here: what `__init__` keeps is `self.width`"),
        (Overwritten(), "`self.drop` is the number 0.5 and no layer, so it cannot be called"),
    ],
)
def test_messages_of_python_torch_and_einops_are_put_into_words(answer, words):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        answer(torch.ones(1, 3, 4))
    assert words in cause(caught.value)


def test_a_length_that_patches_with_cls_have_too_gets_no_letter():
    def joined(patches, x):
        """Join.

        Args:
            patches: (B, N, D).
            x: (K,).
        """
        return patches + x.sum()

    def answer(patches, x):
        return patches[:, 0, :2] + x

    case = [(torch.ones(1, 4, 7), torch.ones(5)), (torch.ones(1, 5, 7), torch.ones(4))]
    assert (
        stopped(answer, joined, case) == "an axis of length 2 meets one of length 5, and they should be equal"
    )
    assert "4 (K)" in stopped(answer, joined, case[::-1])


def test_the_number_of_an_axis_is_no_length_of_the_exercise():
    with pytest.raises(RuntimeError) as caught:
        torch.cat([torch.ones(1, 1, 1), torch.ones(1, 9, 3)], dim=1)
    letters = {"1": "1 (D)"}
    assert cause(caught.value, letters) == "joined along axis 1, all other axes must be equal: 1 (D) meets 3"


def test_a_module_that_cannot_be_built_is_told_its_line_and_cause():
    class Layer(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.layer = nn.Linear(dim)

    with pytest.raises(Mistake) as caught:
        build(Layer, dim=3)
    assert not caught.value.named  # the error in other words
    line = "in your line: self.layer = nn.Linear(dim)"
    cause = "a call leaves out 'out_features', or its `def` asks for more than it should"
    assert str(caught.value).splitlines()[1:] == [line, cause]


def test_a_line_of_pythons_own_library_is_no_line_of_a_student():
    error = outcome(lambda f, x: f(x), lambda x: statistics.variance(x), ([1.0],))
    assert "lambda x: statistics.variance(x)" in words_of.students_line(error)
    assert not words_of.refuses(error)


def test_a_known_mistake_that_returns_where_the_answer_stops_is_no_match():
    def stops(x):
        return x[:, 0] * 2 if len(x) == 1 else x.nothing

    known = [(lambda x: 2 * x[:, 0], "a known one")]
    words = explanation(stops, lambda x: x[:, 0], TOKENS, known)
    assert words.splitlines()[0] == "every number is twice what it should be"


def test_a_known_mistake_is_recognised_beside_a_second_fault():
    """Of the answer: an error, or another type, in a case for which the known mistake has numbers."""
    known = [(lambda x: 2 * x[:, 0], "a known one")]
    cases = drawn((1, 3, 4), (2, 3, 4), (3, 2, 4), (4, 5, 2))

    def stops(x):
        return x[:, 0] * 2 if len(x) < 4 else x.nothing

    def typed(x):
        return x[:, 0] * 2 if len(x) < 4 else x[:, 0].double() * 2

    for answer in (stops, typed):
        assert explanation(answer, lambda x: x[:, 0], cases, known) == "a known one"
        other = [(lambda x: 2 * x[:, 0] + (len(x) == 2), "another one")]
        assert "another one" not in explanation(answer, lambda x: x[:, 0], cases, other)


def test_inputs_for_which_an_answer_stops_are_named_and_a_change_of_its_text_may_tell_more():
    cases = drawn((4, 3), (5, 2), (2, 5, 6), (2, 2, 4, 3), (3, 2, 4, 5))
    with pytest.raises(Mistake) as caught:
        compare(lambda x: x.sin().transpose(2, 3).mT if x.ndim == 4 else x.nothing, lambda x: x.sin(), cases)
    assert str(caught.value).startswith("right where `x` has 4 axes, wrong elsewhere\n")
    assert not caught.value.named


def test_none_that_has_a_meaning_is_no_missing_return():
    cases = [(1.0,), (-1.0,)]
    with pytest.raises(Mistake, match="you return None, which has a meaning here; expected 1.0"):
        compare(lambda x: None, lambda x: x if x > 0 else None, cases)


def test_numbers_with_the_other_sign_are_no_missing_absolute_value():
    def turned(x):
        return tokens(x).abs() * (1 if len(x) == 1 else -1)

    words = explanation(turned, lambda x: tokens(x).abs(), TOKENS)
    assert words == "where they are wrong, your numbers have the other sign"


def test_a_key_that_is_asked_of_another_table_is_found():
    def cost(table, name):
        return table[name] * 2.0

    words = explanation(lambda table, name: {"C": 1}[name], cost, [({"A": 1, "B": 2}, "A"), ({"B": 3}, "B")])
    assert words == "'A' is a key of `table`, and your line wants what stands there, `table['A']`"


def test_a_function_of_the_course_that_refuses_what_it_is_handed_is_named():
    answer = lambda x: check_heads(x.shape[1], 2) or tokens(x)  # noqa: E731
    assert stopped(answer, tokens, TOKENS) == (
        "`check_heads` refuses what your code hands to it: look at what came before"
    )


def test_what_is_right_for_one_picture_alone_is_noticed():
    answer = lambda x: tokens(x) if len(x) < 2 else (tokens(x) + x.mean(0)).tanh()  # noqa: E731
    assert explanation(answer, tokens, TOKENS) == "right for one picture, wrong for several in a batch"


def test_a_result_that_never_changes_is_noticed():
    cases = [*TOKENS, *drawn((1, 2, 3))]
    assert explanation(lambda x: 0.0, lambda x: x.sum().item(), cases) == "your result is 0 in all cases"


@pytest.mark.parametrize(
    ("fits", "words"),
    [
        (lambda x: x.ndim == 4, "`x` has 4 axes"),
        (lambda x: x.ndim < 3, "`x` has at most 2 axes"),
        (lambda x: x.ndim in (2, 4), ""),
    ],
)
def test_answers_for_one_number_of_axes_are_told_so(fits, words):
    cases = drawn((4, 3), (5, 2), (6,), (2, 5, 6), (2, 2, 4, 3), (3, 2, 4, 5))
    found = explanation(lambda x: x.sin() if fits(x) else x.cos().cumsum(-1), lambda x: x.sin(), cases)
    assert found == (words and f"right where {words}, wrong elsewhere")


def test_answers_that_no_empty_list_fits_are_told_so():
    cases = [([3, 1],), ([2],), ([5, 5, 4],), ([],)]
    assert explanation(
        lambda rows: max(rows) - rows[0], lambda rows: max(rows, default=0) - sum(rows[:1]), cases
    ) == ("right where `rows` is not empty, wrong elsewhere")


def test_another_argument_that_splits_right_from_wrong_keeps_squares_unsaid():
    def weighed(x, size, skip=1):
        return x.sin() * skip

    cases = [(torch.randn(2, n), (n, n)) for n in (3, 4)] + [(torch.randn(2, 3), (2, 3), 0)]
    assert "square" not in explanation(lambda x, size, skip=1: x.sin() + 0.3 * (skip == 0), weighed, cases)


def test_a_tensor_where_a_number_is_promised_is_refused():
    with pytest.raises(Mistake, match="yours is still a tensor"):
        compare(lambda x: x.max(), lambda x: x.max().item(), TOKENS, plain=True)


def test_numbers_that_differ_are_written_so_that_they_differ():
    with pytest.raises(Mistake) as caught:
        compare(lambda x: x + 2e-4, lambda x: x, [(torch.tensor([1.0, 2.0]),)])
    assert "1 2" in str(caught.value)
    assert "1.0002 2.0002" in str(caught.value)


def test_defaults_are_demanded_of_functions_and_of_forward():
    class Layer:
        def __init__(self, dim=4): ...
        def forward(self, x, weights=False): ...

    class Other(Layer):
        def forward(self, x, weights=True): ...

    demand_defaults(pooled, pooled)
    demand_defaults(Layer, Layer)
    with pytest.raises(Mistake, match="the default of `weights` should be False; yours is True"):
        demand_defaults(Other, Layer)
    with pytest.raises(Mistake, match="`scale` and `mode` have no defaults: they should be 2.0 and 'mean'"):
        demand_defaults(lambda x, scale, mode: x, pooled)


def test_arguments_with_defaults_keep_names_and_defaults():
    assert default_astray(lambda images, scale=2.0, mode="mean": images, pooled) == ""
    assert "`scale`" in default_astray(lambda x, factor=2.0, mode="mean": x, pooled)
    assert "`scale`" in default_astray(lambda x, mode="mean": x, pooled)
    assert default_astray(lambda *arguments: arguments, pooled) == ""
    assert default_astray(lambda x, scale=2, mode="max": x, pooled) == (
        "the default of `mode` should be 'mean'; yours is 'max'"
    )
