"""What the checks of several lessons try."""

from collections.abc import Sequence

import torch
from torch import Tensor

from vit_classroom.checks.outcome import Mistake, build, outcome
from vit_classroom.checks.words import explain_error


def counting(*shape: int) -> Tensor:
    """Return a float tensor of all different small numbers: 0, 1, 2 ... in order."""
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


def check_keyword(answer: type, options: dict, x: Tensor) -> None:
    """The second argument of `forward` is passed by name in the encoder and in the lessons."""
    fresh, used = (build(answer, **options).eval() for _ in range(2))
    result = outcome(lambda f: f(x, return_attention=True), used, ())
    if isinstance(result, TypeError) and "keyword argument 'return_attention'" in str(result):
        raise Mistake(
            "the second argument of forward is called `return_attention`: other parts pass it by name, "
            f"and then your code stops with {explain_error(result)}"
        )
    one, other = (isinstance(outcome(lambda f: f(x), module, ()), tuple) for module in (fresh, used))
    if other and not one:
        raise Mistake("after one call with return_attention=True all calls return the pair: keep it nowhere")


def shared_draw(dropped: Tensor, kept: Tensor, names: Sequence[str]) -> str:
    """Name the axis with most pairs of slices that never disagree, dropped here, kept there; "" if there are none."""
    shares = {}
    for axis, name in enumerate(names):
        one, other = (part.movedim(axis, 0).flatten(1).double() for part in (dropped, kept))
        disagree = one @ other.T
        agree = disagree + disagree.T == 0
        shares[name] = (agree.double().mean().item() * len(agree) - 1) / (len(agree) - 1)
    return max(shares, key=shares.get) if max(shares.values()) > 1e-9 else ""
