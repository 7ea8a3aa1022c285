"""Checks of lesson 02: the CLS token and pooling."""

import re

import torch
from torch import Tensor, nn

from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.outcome import Mistake, build, outcome, stopped_with
from vit_classroom.checks.shared_checks import counting
from vit_classroom.checks.task import demand, exercise, refuses, results
from vit_classroom.checks.words import explain_error
from vit_classroom.exhibits.cls_token import ClsToken
from vit_course.embeddings import pool, prepend_cls_token

known = Mistakes(__file__, prepend_cls_token, ClsToken, pool)


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


@demand(known("prepend_cls_token batch"))
def takes_a_batch(answer):
    case = torch.rand(3, 4, 5), torch.rand(1, 1, 5)
    one, other = (outcome(lambda function, *given: function(*given), answer, case) for _ in range(2))
    if isinstance(one, RuntimeError) and "Sizes of tensors must match" in str(one):
        text = str(one).rstrip(".")
        if "in dimension 1" not in text:
            raise Mistake(f"`torch.cat` stopped: {text}. Axis 1 counts the tokens, so join along it")
        sizes = {int(size) for size in re.findall(r"size (\d+)", text)}
        why = (
            "`cls_token` is (1, 1, D), and the batch needs (B, 1, D)"
            if 1 in sizes
            else "the batch has 3 images, so it needs the CLS token 3 times. The images are axis 0, `tokens.shape[0]`"
        )
        raise Mistake(
            f"`torch.cat` stopped for a batch of 3: {text}. Tensors that you join must have the same size in every "
            f"axis but the one you join along: {why}"
        )
    tensors = isinstance(one, Tensor) and isinstance(other, Tensor)
    if tensors and one.shape == other.shape and not torch.equal(one, other):
        raise Mistake(
            "two calls with the same input give different results, so the vector in front is random: the CLS token is "
            "the one vector you are given, the same for every image and every call"
        )


@demand(known("prepend_cls_token gradients"))
def lets_gradients_through(answer):
    tokens, cls = torch.rand(3, 4, 5, requires_grad=True), torch.rand(1, 1, 5, requires_grad=True)
    weight = torch.rand(3, 5, 5)
    go_back(answer, tokens, cls, weight=weight)
    if cls.grad is None:
        raise Mistake(
            "the numbers are right, but no gradient reaches `cls_token`, so it would never be learned. Something cuts "
            "the graph: `detach`, `.data`, `torch.no_grad` or a copy made with `torch.tensor` or `nn.Parameter`"
        )
    if tokens.grad is None:
        raise Mistake("no gradient reaches the patch tokens, so the patch embedding could not learn")
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
        known("prepend_cls_token results"),
        device=True,
    ),
    lets_gradients_through,
    refuses(
        (torch.ones(2, 3, 4), torch.ones(1, 1, 1)),
        "tokens of width 4 do not fit a CLS token of width 1",
        *known("prepend_cls_token refuses")["refused"],
    ),
    refuses(
        (torch.ones(2, 3, 4), torch.ones(1, 1, 6)), "tokens of width 4 do not fit a CLS token of width 6"
    ),
)

# -- ClsToken


@demand(known("ClsToken parameter"))
def keeps_a_parameter(answer):
    module = build(answer, dim=6)
    cls = getattr(module, "cls_token", None)
    if cls is None:
        outcome(lambda f, x: f(x), module, (torch.rand(3, 4, 6),))
        if isinstance(getattr(module, "cls_token", None), Tensor):
            raise Mistake(
                "a new CLS token is made in every call of `forward`, so each training step starts from zero again: "
                "make `self.cls_token` once, in `__init__`"
            )
        others = [f"`self.{name}`" for name, value in module.named_parameters() if value.shape == (1, 1, 6)]
        raise Mistake(
            "`self.cls_token` is missing: "
            + (f"yours is called {others[0]}, so change the name" if others else "make it in `__init__`")
        )
    if not isinstance(cls, nn.Parameter) and "cls_token" in dict(module.named_buffers()):
        raise Mistake(
            "`self.cls_token` is a buffer: it is saved and moved with the module, but the optimiser never changes it. "
            "Make it an `nn.Parameter`"
        )
    if not isinstance(cls, nn.Parameter):
        raise Mistake(
            "`self.cls_token` is a plain tensor: the optimiser does not get it, the state dict does not contain it, "
            "and `.to(...)` leaves it behind. Put it into `nn.Parameter(...)`"
        )
    if cls.shape != (1, 1, 6):
        raise Mistake(
            f"`self.cls_token` should have the shape (1, 1, 6) for D = 6, yours is {tuple(cls.shape)}: one image, one "
            "token, D numbers"
        )
    if cls.any():
        raise Mistake("`self.cls_token` should start at zero, as the docstring says: use `torch.zeros`")
    if not cls.requires_grad:
        raise Mistake(
            "`self.cls_token` is a parameter, but it is frozen: leave `requires_grad` as it is by default"
        )


@demand(known("ClsToken forward"))
def puts_it_in_front(answer):
    module, tokens = build(answer, dim=6), torch.rand(3, 4, 6)
    with torch.no_grad():
        module.cls_token.copy_(counting(1, 1, 6) + 2)
    result = outcome(lambda f, x: f(x), module, (tokens,))
    if isinstance(result, Exception):
        raise stopped_with("for tokens (3, 4, 6) `forward`", result)
    if not isinstance(result, Tensor):
        nothing = ": is the `return` missing?" if result is None else ""
        raise Mistake(f"`forward` should return a tensor, yours returns {type(result).__name__}{nothing}")
    wanted = prepend_cls_token(tokens, module.cls_token)
    if result.shape == tokens.shape:
        raise Mistake(
            "the numbers of the CLS token are added to the patch tokens: it is a token of its own, so N tokens become "
            "N + 1. `prepend_cls_token` does this"
            if not torch.equal(result, tokens)
            else "the patch tokens come back unchanged: use `prepend_cls_token` in `forward`"
        )
    if result.shape != wanted.shape:
        raise Mistake(f"tokens (3, 4, 6) should become (3, 5, 6), yours are {tuple(result.shape)}")
    if torch.equal(result[:, -1], wanted[:, 0]):
        raise Mistake(
            "the CLS token is at the end of the sequence: the head reads index 0, so put it in front"
        )
    if not torch.equal(result[:, 0], wanted[:, 0]):
        raise Mistake(
            "index 0 does not hold the numbers of `self.cls_token`: use the parameter in `forward`, not a new tensor"
        )
    if not torch.equal(result, wanted):
        raise Mistake("the CLS token is right, but the patch tokens behind it have changed")
    if result.requires_grad:
        result.sum().backward()
    if module.cls_token.grad is None:
        raise Mistake(
            "the numbers are right, but no gradient reaches `self.cls_token`: leave out `detach`, `.data` and "
            "`torch.no_grad`"
        )


exercise(ClsToken, keeps_a_parameter, puts_it_in_front)

# -- pool


def few_tokens() -> Tensor:
    return torch.tensor([[[9.0, 8.0], [1.0, 2.0], [3.0, 6.0]]])


def wide_tokens() -> Tensor:
    return torch.rand(3, 6, 4) + torch.tensor([3.0, 5, 0, 2, 4, 1])[:, None]


@demand(known("pool gradients"))
def lets_gradients_back(answer):
    for mode, share in (("token", torch.tensor([1.0, 0, 0])), ("avg", torch.tensor([0, 0.5, 0.5]))):
        tokens = torch.rand(2, 3, 4, requires_grad=True)
        go_back(answer, tokens, mode, 1)
        if tokens.grad is None or not torch.allclose(tokens.grad, share[:, None].expand(3, 4), atol=1e-6):
            raise Mistake(
                f'the numbers are right, but with mode "{mode}" no gradient goes back to the tokens, so no layer below '
                "could learn. Leave out `detach`, `.data` and `torch.no_grad`"
            )


def refuses_mode(mode: str):
    """Demand an error for an unknown mode."""
    wrong = known("pool modes")[mode] if mode in known.table["pool modes"] else []
    return refuses((torch.ones(3, 6, 4), mode, 1), f"mode {mode!r} is neither 'token' nor 'avg'", *wrong)


exercise(
    pool,
    results(
        lambda: [
            (few_tokens(),),
            (few_tokens(), "token", 1),
            (wide_tokens(), "token", 1),
            (wide_tokens(), "token", 2),
            (torch.randn(2, 5, 3), "token"),
        ],
        known("pool token"),
        device=True,
    ),
    results(
        lambda: [
            (few_tokens(), "avg", 1),
            (few_tokens(), "avg"),
            *((wide_tokens(), "avg", prefix) for prefix in (1, 0, 2)),
            (few_tokens()[..., :1], "avg", 1),
            (torch.randn(2, 260, 3), "avg", 3),
        ],
        known("pool average"),
        device=True,
    ),
    lets_gradients_back,
    *map(refuses_mode, ("max", "cls", "mean", "tok", "Token", "token2", "", "average")),
    refuses(
        (torch.ones(3, 6, 4), "token", 0),
        "with num_prefix_tokens = 0 there is no CLS token to read, index 0 is a patch",
        *known("pool modes")["no CLS token"],
    ),
)
