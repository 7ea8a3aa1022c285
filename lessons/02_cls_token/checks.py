"""Checks of lesson 02: the CLS token and pooling."""

import torch
from torch import Tensor

from vit_course import embeddings
from vit_course.classroom.checks.compare import compare, demand_error
from vit_course.classroom.checks.outcome import Mistake, outcome
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import explain_error


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


def reads_cls(mistaken):
    """Complete a mistake of the average: a right reading of the CLS token."""
    return lambda tokens, mode="token", prefix=1: mistaken(tokens, prefix) if mode == "avg" else tokens[:, 0]


@exercise(embeddings.prepend_cls_token)
def check_prepend_cls_token(answer):
    small = (torch.arange(1.0, 7).reshape(1, 2, 3), torch.tensor([[[10.0, 20.0, 30.0]]]))
    cases = [
        small,
        (torch.rand(3, 4, 5), torch.rand(1, 1, 5) + 2),
        (torch.rand(2, 1, 4), torch.rand(1, 1, 4) - 3),
        (torch.rand(4, 4, 4).double(), torch.rand(1, 1, 4).double() + 2),
    ]

    def joined(front, back, dim=1):
        return torch.cat([front, back], dim=dim)

    def many(cls: Tensor, tokens: Tensor) -> Tensor:
        return cls.expand(len(tokens), -1, -1)

    compare(
        answer,
        embeddings.prepend_cls_token,
        cases,
        [
            (
                lambda tokens, cls: joined(tokens, many(cls, tokens)),
                "the CLS token stands last: it belongs in front, at index 0, where the head will read it. Who "
                "reads index 0 now reads a patch",
            ),
            (
                lambda tokens, cls: joined(many(torch.zeros_like(cls), tokens), tokens),
                "index 0 holds zeros, not the numbers of `cls_token`: a new tensor of zeros is never learned. Use "
                "the vector you are given",
            ),
            (
                lambda tokens, cls: joined(cls.expand(1, tokens.shape[1], -1), tokens, dim=0),
                "you added one *image* made of CLS tokens to the batch: (B + 1, N, D). Every image gets a CLS token "
                "of its own, so the axis of the tokens grows: axis 1",
            ),
            (
                lambda tokens, cls: joined(cls.expand_as(tokens), tokens, dim=2),
                "you made every token wider: the CLS token is one more *token*, not more channels. Join along axis 1",
            ),
            (
                lambda tokens, cls: tokens + cls,
                "you added the numbers of the CLS token to every patch token: it should stand beside them, as a "
                "token of its own (`torch.cat`, not `+`)",
            ),
            (
                lambda tokens, cls: joined(many(cls, tokens), tokens[:, 1:]),
                "the CLS token took the place of patch 0: no patch may be lost, the result has N + 1 tokens",
            ),
            (
                lambda tokens, cls: joined(tokens.mean(1, keepdim=True), tokens),
                "index 0 holds the mean of the patches: the CLS token is a vector of its own, the same for every "
                "image",
            ),
        ],
        run=call_twice,
    )
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
    for width in (1, 6):
        bad = torch.rand(2, 3, 4), torch.rand(1, 1, width)
        demand_error(answer, bad, f"tokens of width 4 do not fit a CLS token of width {width}", ValueError)


def call_twice(function, tokens: Tensor, cls_token: Tensor) -> Tensor:
    """Run a `prepend_cls_token`. A missing `expand` and a random front are known mistakes, and say so."""
    try:
        first, second = function(tokens, cls_token), function(tokens, cls_token)
    except RuntimeError as error:
        if len(tokens) > 1 and "Sizes of tensors must match" in str(error):
            text = str(error).rstrip(".")
            if "in dimension 1" not in text:
                raise Mistake(
                    f"`torch.cat` stopped: {text}. Axis 1 counts the tokens: join along it"
                ) from error
            raise Mistake(
                f"`torch.cat` stopped for a batch of {len(tokens)}: {text}. What you join must have the same size in "
                "every axis but the one you join along: `cls_token` is (1, 1, D), the batch needs (B, 1, D)"
            ) from error
        raise
    if isinstance(first, Tensor) and isinstance(second, Tensor) and first.shape == second.shape:
        if not torch.equal(first, second):
            raise Mistake(
                "two calls with the same input give different results, so something random stands in front: the "
                "CLS token is the one vector you are given, the same for every image and every call"
            )
    return first


@exercise(embeddings.pool)
def check_pool(answer):
    small = torch.tensor([[[9.0, 8.0], [1.0, 2.0], [3.0, 6.0]]])
    wide, double = torch.rand(3, 6, 4) + torch.arange(6.0)[:, None], torch.randn(2, 5, 3).double()
    compare(
        answer,
        embeddings.pool,
        [(small,), (small, "token", 1), (wide, "token", 1), (wide, "token", 2), (double, "token")],
        [
            (
                lambda tokens, *_: tokens[:, :1],
                "you kept an axis: `tokens[:, :1]` is a list of one token, (B, 1, D). One vector per image is (B, D): "
                "index with a number, not with a slice",
            ),
            (
                lambda tokens, *_: tokens[:, -1],
                'mode "token" reads the last token, which is a patch: the CLS token stands at index 0',
            ),
            (
                lambda tokens, mode="token", prefix=1: tokens[:, prefix],
                'mode "token" reads the first *patch*: the CLS token stands at index 0',
            ),
            (
                lambda tokens, *_: tokens[:, 1],
                'mode "token" reads index 1, the first patch: counting starts at 0',
            ),
            (
                lambda tokens, mode="token", prefix=1: tokens[:, prefix - 1],
                "you read the last of the prefix tokens: the CLS token is at index 0, however many prefix tokens "
                "there are",
            ),
            (
                lambda tokens, mode="token", prefix=1: tokens[:, :prefix].sum(1),
                "with more than one prefix token you add them up: read the token at index 0 alone",
            ),
            (
                lambda tokens, mode="token", prefix=1: tokens[:, :prefix].mean(1),
                "with more than one prefix token you average them: read the token at index 0 alone",
            ),
            (
                lambda tokens, *_: tokens[0],
                "`tokens[0]` is the first *image* of the batch with all its tokens: axis 0 counts images",
            ),
            (
                lambda tokens, mode="token", prefix=1: tokens[:, prefix:].mean(1),
                'mode "token" gives the average of the patches: read the CLS token instead',
            ),
        ],
    )
    compare(
        answer,
        embeddings.pool,
        [(small, "avg", 1), (small, "avg"), *((wide, "avg", n) for n in (1, 0, 2)), (double, "avg", 3)],
        [
            (
                reads_cls(lambda tokens, prefix: tokens.mean(1)),
                "your average includes the CLS token: leave out the first `num_prefix_tokens` tokens, they are no "
                "patches",
            ),
            (
                reads_cls(lambda tokens, prefix: tokens[:, 1:].mean(1)),
                "you always leave out one token: a model without a CLS token (num_prefix_tokens = 0) loses its first "
                "patch that way. Leave out `num_prefix_tokens` of them",
            ),
            (
                reads_cls(lambda tokens, prefix: tokens[:, max(prefix, 1) :].mean(1)),
                "without a CLS token (num_prefix_tokens = 0) you still leave out the first token, and it is a patch",
            ),
            (
                reads_cls(lambda tokens, prefix: tokens[:, prefix:].amax(1)),
                'you take the largest value of each channel: mode "avg" is the mean',
            ),
            (
                reads_cls(lambda tokens, prefix: tokens[:, prefix:].sum(1)),
                "this is the sum of the patch tokens: divide by how many they are",
            ),
            (
                reads_cls(lambda tokens, prefix: tokens[:, prefix:].sum(1) / tokens.shape[1]),
                "you divide by the number of all tokens: there are T - num_prefix_tokens patches",
            ),
            (
                reads_cls(lambda tokens, prefix: tokens[:, prefix:].mean(2)),
                "this averages over the D numbers inside each token, one number per patch, (B, N): the average is over "
                "the tokens, axis 1, and keeps D",
            ),
            (
                reads_cls(lambda tokens, prefix: tokens[:, prefix:].mean(0)),
                "this averages over the images of the batch: every image gets a vector of its own, so the average is "
                "over axis 1",
            ),
            (
                reads_cls(lambda tokens, prefix: tokens[:, prefix:].mean(1, keepdim=True)),
                "you kept an axis: the result is (B, D), without `keepdim`",
            ),
            (
                reads_cls(lambda tokens, prefix: tokens[:, 0]),
                'mode "avg" still reads the CLS token: `mode` decides which of the two it is',
            ),
            (
                reads_cls(lambda tokens, prefix: tokens[:, :prefix].mean(1)),
                "this averages the prefix tokens: the patches are those *behind* them",
            ),
        ],
    )
    for mode, share in (("token", torch.tensor([1.0, 0, 0])), ("avg", torch.tensor([0, 0.5, 0.5]))):
        tokens = torch.rand(2, 3, 4, requires_grad=True)
        go_back(answer, tokens, mode, 1)
        if tokens.grad is None or not torch.allclose(tokens.grad, share[:, None].expand(3, 4), atol=1e-6):
            raise Mistake(
                f'the numbers are right, but with mode "{mode}" no gradient goes back to the tokens: no layer below '
                "could learn. Leave out `detach`, `.data` and `torch.no_grad`"
            )
    for mode in ("max", "cls", "mean", "average"):
        demand_error(answer, (wide, mode, 1), f"mode {mode!r} is neither 'token' nor 'avg'", ValueError)
    why = "with num_prefix_tokens = 0 there is no CLS token to read, index 0 is a patch"
    demand_error(answer, (wide, "token", 0), why, ValueError)
