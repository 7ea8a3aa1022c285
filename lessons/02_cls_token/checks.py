"""Checks of lesson 02: the CLS token and pooling."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.shared_checks import counting
from vit_classroom.checks.task import demand, exercise, refuses, results
from vit_classroom.checks.words import explain_error
from vit_course.embeddings import pool, prepend_cls_token


def go_back(answer, *case, weight: Tensor | float = 1.0) -> None:
    """Send gradients back through an answer, as far as it lets them; the tensors of the case keep them."""

    def weighted(function, *arguments):
        result = function(*arguments)
        return (result * weight).sum() if result.requires_grad else None

    total = outcome(weighted, answer, case)
    if isinstance(total, Exception):
        raise Mistake(
            "the numbers are right, but with tensors that learn (requires_grad=True), as in every training, your code "
            f"stopped with {explain_error(total)}"
        )
    if total is not None:
        total.backward()


# -- prepend_cls_token


def many(cls_token: Tensor, tokens: Tensor) -> Tensor:
    """Give every image of the batch a CLS token, (B, 1, D)."""
    return cls_token.expand(len(tokens), -1, -1)


def front(make: Callable) -> Callable:
    """Return a `prepend_cls_token` that puts what `make` returns in front."""
    return lambda tokens, cls_token: torch.cat([make(cls_token, tokens), tokens], dim=1)


def last(tokens, cls_token):
    return torch.cat([tokens, many(cls_token, tokens)], dim=1)


def added(tokens, cls_token):
    return tokens + cls_token


def half_detached(tokens, cls_token):
    return torch.cat([many(cls_token, tokens), 0.5 * tokens + 0.5 * tokens.detach()], dim=1)


def fits_any_width(tokens, cls_token):
    result = tokens.new_empty(tokens.shape[0], tokens.shape[1] + 1, tokens.shape[2])
    result[:, :1] = cls_token
    result[:, 1:] = tokens
    return result


@demand(
    {
        "`torch.cat` stopped for a batch of 3": (
            lambda tokens, cls_token: torch.cat([cls_token, tokens], dim=1)
        ),
        "Axis 1 counts the tokens": lambda tokens, cls_token: torch.cat([many(cls_token, tokens), tokens]),
        "something random stands in front": front(lambda cls, tokens: torch.randn_like(tokens[:, :1])),
    }
)
def takes_a_batch(answer):
    case = torch.rand(3, 4, 5), torch.rand(1, 1, 5)
    one, other = (outcome(lambda function, *given: function(*given), answer, case) for _ in range(2))
    if isinstance(one, RuntimeError) and "Sizes of tensors must match" in str(one):
        text = str(one).rstrip(".")
        if "in dimension 1" not in text:
            raise Mistake(f"`torch.cat` stopped: {text}. Axis 1 counts the tokens: join along it")
        raise Mistake(
            f"`torch.cat` stopped for a batch of 3: {text}. What you join must have the same size in every axis but "
            "the one you join along: `cls_token` is (1, 1, D), the batch needs (B, 1, D)"
        )
    tensors = isinstance(one, Tensor) and isinstance(other, Tensor)
    if tensors and one.shape == other.shape and not torch.equal(one, other):
        raise Mistake(
            "two calls with the same input give different results, so something random stands in front: the CLS token "
            "is the one vector you are given, the same for every image and every call"
        )


@demand(
    {
        "no gradient reaches `cls_token`": [
            front(lambda cls, tokens: many(cls.detach(), tokens)),
            front(lambda cls, tokens: many(nn.Parameter(cls), tokens)),
            torch.no_grad()(front(many)),
        ],
        "no gradient reaches the patch tokens": (
            lambda tokens, cls_token: torch.cat([many(cls_token, tokens), tokens.data], dim=1)
        ),
        "the gradient of the patch tokens is not right": half_detached,
        "the gradient of `cls_token` is not the sum over the images": front(
            lambda cls_token, tokens: torch.cat([cls_token, many(cls_token.detach(), tokens[1:])])
        ),
    }
)
def lets_gradients_through(answer):
    tokens, cls = torch.rand(3, 4, 5, requires_grad=True), torch.rand(1, 1, 5, requires_grad=True)
    weight = torch.rand(3, 5, 5)
    go_back(answer, tokens, cls, weight=weight)
    if cls.grad is None:
        raise Mistake(
            "the numbers are right, but no gradient reaches `cls_token`: it would never be learned. Something cuts "
            "the graph: `detach`, `.data`, `torch.no_grad` or a copy made with `torch.tensor` or `nn.Parameter`"
        )
    if tokens.grad is None:
        raise Mistake("no gradient reaches the patch tokens: the patch embedding could not learn")
    if not torch.allclose(tokens.grad, weight[:, 1:], atol=1e-5):
        raise Mistake(
            "the gradient of the patch tokens is not right: a part of them is cut off, by `detach` or `.data`, so the "
            "patch embedding would learn too slowly"
        )
    if not torch.allclose(cls.grad[0, 0], weight[:, 0].sum(0), atol=1e-5):
        raise Mistake(
            "the gradient of `cls_token` is not the sum over the images of the batch: use the one vector for all "
            "images, with `expand`, `repeat` or broadcasting"
        )


exercise(
    prepend_cls_token,
    takes_a_batch,
    results(
        lambda: [
            (counting(1, 2, 3) + 1, torch.tensor([[[10.0, 20.0, 30.0]]])),
            (torch.rand(3, 4, 5), torch.rand(1, 1, 5) + 2),
            (torch.rand(2, 1, 4), torch.rand(1, 1, 4) - 3),
            (torch.rand(2, 260, 4), torch.rand(1, 1, 4) - 3),
            (torch.rand(4, 4, 4), torch.rand(1, 1, 4) + 2),
        ],
        {
            "the CLS token stands last: it belongs in front, at index 0, where the head will read it. Who reads index "
            "0 now reads a patch": last,
            "`tokens` and `cls_token` have changed places in your `def`: the tokens come first": (
                lambda cls_token, tokens: front(many)(tokens, cls_token)
            ),
            "index 0 holds zeros, not the numbers of `cls_token`: a new tensor of zeros is never learned. Use the "
            "vector you are given": front(lambda cls, tokens: torch.zeros_like(tokens[:, :1])),
            "you added one *image* made of CLS tokens to the batch: (B + 1, N, D). Every image gets a CLS token of its "
            "own, so the axis of the tokens grows: axis 1": (
                lambda tokens, cls_token: torch.cat([cls_token.repeat(1, tokens.shape[1], 1), tokens])
            ),
            "you made every token wider: the CLS token is one more *token*, not more channels. Join along axis 1": (
                lambda tokens, cls_token: torch.cat([cls_token.expand_as(tokens), tokens], dim=-1)
            ),
            "you added the numbers of the CLS token to every patch token: it should stand beside them, as a token of "
            "its own (`torch.cat`, not `+`)": added,
            "the CLS token took the place of patch 0: no patch may be lost, the result has N + 1 tokens": (
                lambda tokens, cls_token: torch.cat([many(cls_token, tokens), tokens[:, 1:]], dim=1)
            ),
        },
        device=True,
    ),
    lets_gradients_through,
    refuses(
        (torch.ones(2, 3, 4), torch.ones(1, 1, 1)),
        "tokens of width 4 do not fit a CLS token of width 1",
        fits_any_width,
        front(many),
    ),
    refuses(
        (torch.ones(2, 3, 4), torch.ones(1, 1, 6)), "tokens of width 4 do not fit a CLS token of width 6"
    ),
)

# -- pool


def pooled(token: Callable | None = None, avg: Callable | None = None) -> Callable:
    """Return a `pool` with a mistake in one of its modes, made of the tokens and the number of prefix tokens."""
    token, avg = token or (lambda x, prefix: x[:, 0]), avg or (lambda x, prefix: x[:, prefix:].mean(1))
    return lambda tokens, mode="token", num_prefix_tokens=1: {"token": token, "avg": avg}[mode](
        tokens, num_prefix_tokens
    )


def guarded(
    token: Callable | None = None, avg: Callable | None = None, modes: dict | None = None
) -> Callable:
    """Return such a `pool` that refuses other modes than these names."""
    names = modes or {"token": "token", "avg": "avg"}

    def answer(tokens, mode="token", num_prefix_tokens=1):
        if mode not in names or (names[mode] == "token" and num_prefix_tokens == 0):
            raise ValueError(f"no mode {mode} with {num_prefix_tokens} prefix tokens")
        return pooled(token, avg)(tokens, names[mode], num_prefix_tokens)

    return answer


def takes_pieces_of_names(tokens, mode="token", num_prefix_tokens=1):
    if mode not in "token, avg":
        raise ValueError(mode)
    return guarded()(tokens, "avg" if mode == "avg" else "token", num_prefix_tokens)


def takes_any_mode(tokens, mode="token", num_prefix_tokens=1):
    if mode == "token" and num_prefix_tokens < 1:
        raise ValueError("no CLS token")
    return tokens[:, 0] if mode == "token" else tokens[:, num_prefix_tokens:].mean(1)


def returns_nothing_for_other_modes(tokens, mode="token", num_prefix_tokens=1):
    if mode == "token":
        return tokens[:, 0]
    if mode == "avg":
        return tokens[:, num_prefix_tokens:].mean(1)


def reads_patch_0(tokens, mode="token", num_prefix_tokens=1):
    if mode not in ("token", "avg"):
        raise ValueError(f"no mode {mode}")
    return tokens[:, 0] if mode == "token" else tokens[:, num_prefix_tokens:].mean(1)


def few_tokens() -> Tensor:
    return torch.tensor([[[9.0, 8.0], [1.0, 2.0], [3.0, 6.0]]])


def wide_tokens() -> Tensor:
    return torch.rand(3, 6, 4) + torch.tensor([3.0, 5, 0, 2, 4, 1])[:, None]


@demand(
    {
        'with mode "token" no gradient goes back': guarded(token=lambda x, prefix: x.detach()[:, 0]),
        'with mode "avg" no gradient goes back': guarded(
            avg=lambda x, prefix: x.detach()[:, prefix:].mean(1)
        ),
    }
)
def lets_gradients_back(answer):
    for mode, share in (("token", torch.tensor([1.0, 0, 0])), ("avg", torch.tensor([0, 0.5, 0.5]))):
        tokens = torch.rand(2, 3, 4, requires_grad=True)
        go_back(answer, tokens, mode, 1)
        if tokens.grad is None or not torch.allclose(tokens.grad, share[:, None].expand(3, 4), atol=1e-6):
            raise Mistake(
                f'the numbers are right, but with mode "{mode}" no gradient goes back to the tokens: no layer below '
                "could learn. Leave out `detach`, `.data` and `torch.no_grad`"
            )


def refuses_mode(mode: str, *known: Callable):
    """Demand an error for a mode that there is not."""
    return refuses((torch.ones(3, 6, 4), mode, 1), f"mode {mode!r} is neither 'token' nor 'avg'", *known)


MODE_TOKEN = results(
    lambda: [
        (few_tokens(),),
        (few_tokens(), "token", 1),
        (wide_tokens(), "token", 1),
        (wide_tokens(), "token", 2),
        (torch.randn(2, 5, 3), "token"),
    ],
    {
        "you kept an axis: `tokens[:, :1]` is a list of one token, (B, 1, D). One vector per image is (B, D): index "
        "with a number, not with a slice": pooled(token=lambda x, prefix: x[:, :1]),
        'mode "token" reads the first *patch*: the CLS token stands at index 0': pooled(
            token=lambda x, prefix: x[:, prefix]
        ),
        'mode "token" reads index 1, the first patch: counting starts at 0': pooled(
            token=lambda x, prefix: x[:, 1]
        ),
        "you read the last of the prefix tokens: the CLS token is at index 0, however many prefix tokens there are": (
            pooled(token=lambda x, prefix: x[:, prefix - 1])
        ),
        "with more than one prefix token you add them up: read the token at index 0 alone": pooled(
            token=lambda x, prefix: x[:, :prefix].sum(1)
        ),
        "with more than one prefix token you average them: read the token at index 0 alone": pooled(
            token=lambda x, prefix: x[:, :prefix].mean(1)
        ),
        'mode "token" gives the average of the patches: read the CLS token instead': pooled(
            token=lambda x, prefix: x[:, prefix:].mean(1)
        ),
    },
    device=True,
)
MODE_AVG = results(
    lambda: [
        (few_tokens(), "avg", 1),
        (few_tokens(), "avg"),
        *((wide_tokens(), "avg", prefix) for prefix in (1, 0, 2)),
        (few_tokens()[..., :1], "avg", 1),
        (torch.randn(2, 260, 3), "avg", 3),
    ],
    {
        "you take the median: the mean of the patches is asked for": pooled(
            avg=lambda x, prefix: x[:, prefix:].median(dim=1).values
        ),
        "your average includes the CLS token: leave out the first `num_prefix_tokens` tokens, they are no patches": (
            pooled(avg=lambda x, prefix: x.mean(1))
        ),
        "you always leave out one token: a model without a CLS token (num_prefix_tokens = 0) loses its first patch "
        "that way. Leave out `num_prefix_tokens` of them": pooled(avg=lambda x, prefix: x[:, 1:].mean(1)),
        "without a CLS token (num_prefix_tokens = 0) you still leave out the first token, and it is a patch": pooled(
            avg=lambda x, prefix: x[:, max(prefix, 1) :].mean(1)
        ),
        "the first patch is lost: it stands at place `num_prefix_tokens`": pooled(
            avg=lambda x, prefix: x[:, prefix + 1 :].mean(1)
        ),
        "you leave out the last tokens: the prefix stands in front": pooled(
            avg=lambda x, prefix: x[:, : x.shape[1] - prefix].mean(1)
        ),
        'you take the largest value of each channel: mode "avg" is the mean': pooled(
            avg=lambda x, prefix: x[:, prefix:].amax(1)
        ),
        "this is the sum of the patch tokens: divide by how many they are": pooled(
            avg=lambda x, prefix: x[:, prefix:].sum(1)
        ),
        "you divide by the number of all tokens: there are T - num_prefix_tokens patches": pooled(
            avg=lambda x, prefix: x[:, prefix:].sum(1) / x.shape[1]
        ),
        "this averages over the D numbers inside each token, one number per patch, (B, N): the average is over the "
        "tokens, axis 1, and keeps D": pooled(avg=lambda x, prefix: x[:, prefix:].mean(2)),
        "this averages over the images of the batch: every image gets a vector of its own, so the average is over axis "
        "1": pooled(avg=lambda x, prefix: x[:, prefix:].mean(0)),
        "this averages the prefix tokens: the patches are those *after* them": pooled(
            avg=lambda x, prefix: x[:, :prefix].mean(1)
        ),
    },
    device=True,
)

exercise(
    pool,
    MODE_TOKEN,
    MODE_AVG,
    lets_gradients_back,
    refuses_mode("max", takes_any_mode, returns_nothing_for_other_modes),
    refuses_mode("cls", guarded(modes={"token": "token", "cls": "token", "avg": "avg"})),
    refuses_mode("mean", guarded(modes={"token": "token", "mean": "avg", "avg": "avg"})),
    refuses_mode("tok", takes_pieces_of_names),
    refuses_mode("Token"),
    refuses_mode("token2"),
    refuses_mode(""),
    refuses_mode("average", guarded(modes={"token": "token", "avg": "avg", "average": "avg"})),
    refuses(
        (torch.ones(3, 6, 4), "token", 0),
        "with num_prefix_tokens = 0 there is no CLS token to read, index 0 is a patch",
        reads_patch_0,
    ),
)
