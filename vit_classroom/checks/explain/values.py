"""Results as numbers: pairs of what was returned and what was wanted, and when they are the same."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from vit_classroom.checks.outcome import is_float

Slip = tuple[str, Callable[[Tensor], Tensor]]
"""Words for a slip, and what it makes of a tensor."""


@dataclass(frozen=True)
class Result:
    """One case as numbers: what was returned and wanted, the arguments by name, the letters of the wanted axes."""

    got: Tensor
    want: Tensor
    arguments: dict[str, Any]
    axes: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the numbers agree."""
        return same(self.got, self.want)


def results(
    got: Sequence, want: Sequence, arguments: Sequence[dict], shapes: Sequence[tuple]
) -> list[Result]:
    """Pair results as numbers; cases without are left out, and all cases if one is no number on one side alone."""
    paired = []
    for mine, right, given in zip(got, want, arguments, strict=True):
        one, other = as_tensor(mine), as_tensor(right)
        if one is not None and other is not None and one.numel() + other.numel() < 200_000:
            axes = next((axes for axes in shapes if len(axes) == other.ndim and "..." not in axes), ())
            ending = next(
                (axes[1:] for axes in shapes if axes[0] == "..." and len(axes) <= other.ndim + 1), ()
            )
            known = given.get("axes", {}).items()
            alike = (a for name, a in known if given[name].shape == other.shape and len(a) == other.ndim)
            axes = axes or (
                ("",) * (other.ndim - len(ending)) + ending if ending else next(alike, ("",) * other.ndim)
            )
            paired.append(Result(one, other, given, ("values",) if isinstance(right, tuple | list) else axes))
        elif not isinstance(mine, Exception) and not (mine is None and right is None):
            return []
    return paired


def first_fit(given: list[Result], slips: Iterable[Slip], back: bool = False) -> str:
    """Return the words of the first slip that makes of what was wanted what was got, on every case; or back."""
    order = sorted(given, key=lambda r: (r.right, r.want.numel()))
    for words, slip in slips:
        try:
            if all(same(slip(r.got), r.want) if back else same(slip(r.want), r.got) for r in order):
                return words
        except (RuntimeError, IndexError, ValueError):
            continue
    return ""


def as_tensor(value: Any) -> Tensor | None:
    """Read a tensor, a number, or several numbers as float64; None if it is none of these."""
    if isinstance(value, Tensor):
        return None if value.is_complex() else value.detach().double()
    numbers = value if isinstance(value, tuple | list) and value else [value]
    if not all(isinstance(number, Real) for number in numbers):
        return None
    return torch.tensor(
        [float(n) for n in numbers] if numbers is value else float(value), dtype=torch.float64
    )


def agree(got: Any, want: Any) -> bool:
    """Tell whether two results are the same numbers, of whatever type."""
    if isinstance(got, tuple | list) and isinstance(want, tuple | list) and len(got) == len(want):
        return all(agree(g, w) or g is w for g, w in zip(got, want, strict=True))
    mine, right = as_tensor(got), as_tensor(want)
    return mine is not None and right is not None and same(mine, right)


def wrong_kind(got: Any, want: Any) -> bool:
    """Tell whether nothing, or no number where one is wanted, was returned, or right numbers of a wrong type."""
    if isinstance(got, Exception):
        return False
    return got is None or agree(got, want) or (as_tensor(got) is None and as_tensor(want) is not None)


def same(a: Tensor, b: Tensor) -> bool:
    """Tell whether two tensors have one shape and, up to rounding, the same numbers."""
    if a.shape != b.shape:
        return False
    if a.numel() == 1 and float(a).is_integer() and float(b).is_integer():  # counts are exact
        return float(a) == float(b)
    scale = float(b[b.isfinite()].abs().max()) if b.isfinite().any() else 0.0
    return torch.allclose(a, b, rtol=1e-4, atol=2e-5 * min(scale, 1.0), equal_nan=True)


def tensors_of(given: list[Result]) -> list[str]:
    """Return the names of the arguments that are tensors of floating-point numbers."""
    return [name for name, value in given[0].arguments.items() if is_float(value)]


def argument(r: Result, name: str) -> Tensor:
    """Return an argument as float64."""
    return r.arguments[name].double()


def cut(r: Result, axis: int, start: int, length: int) -> Result:
    """Return a result with a part of an axis alone."""
    start %= r.want.shape[axis]
    return replace(r, got=r.got.narrow(axis, start, length), want=r.want.narrow(axis, start, length))
