"""A `reshape` where axes should have moved: found by every order in which the axes of a pattern may have stood."""

import ast
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

from einops import rearrange
from torch import Tensor

from vit_course.classroom.checks.explain.edits import slots
from vit_course.classroom.checks.explain.mutants import agrees, mutants_of, same_without
from vit_course.classroom.checks.explain.trial import Trial
from vit_course.classroom.checks.explain.values import as_tensor, same
from vit_course.classroom.checks.outcome import first_of

NAME = "rearrange_otherwise"


def another_order(trial: Trial) -> str:
    """Name the order in which axes stood before a `reshape`, if the numbers are right and stand elsewhere."""
    family = mutants_of(trial.reference)
    if not family.main or not all(only_moved(trial.got[i], trial.want[i]) for i in trial.wrong):
        return ""
    if not same_without(trial, family):
        return ""
    calls = [
        slot
        for slot in slots(family.main.tree)
        if getattr(getattr(slot.node, "func", None), "id", "") == "rearrange"
    ]
    for slot in calls:
        other = ast.Call(ast.Name(NAME, ast.Load()), slot.node.args, slot.node.keywords)
        code, pattern = family.main.compiled(((slot, other),)), getattr(slot.node.args[1], "value", "")
        for mine, words in orders(pattern):
            if trial.tired:
                return ""
            made = family.made(code=code, **{NAME: reshaped_from(mine)})
            if agrees(trial, made, None, False):
                return words
    return ""


def only_moved(got: Any, want: Any) -> bool:
    """Tell whether two results have one shape and the same numbers in other places."""
    mine, right = as_tensor(first_of(got)), as_tensor(first_of(want))
    if mine is None or right is None or mine.shape != right.shape:
        return False
    return same(mine.flatten().sort()[0], right.flatten().sort()[0])


def orders(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield other orders in which the single axes may have stood before a last `reshape`, and words for each."""
    left, right = pattern.split("->")
    names = re.findall(r"\w+", right)
    if not all(name.isidentifier() for name in names) or not 2 < len(names) < 7:
        return
    groups = re.findall(r"\(([^()]+)\)", left)
    splits = [left] + [left.replace(f"({g})", f"({' '.join(reversed(g.split()))})") for g in groups]
    for split, order in itertools.product(splits, itertools.permutations(names)):
        shown = (
            [
                f"before the last `reshape` your axes stand as ({', '.join(order)}); they should stand as "
                f"({', '.join(names)})"
            ]
            if list(order) != names
            else []
        )
        shown += [f"you split `{split.strip()}` where `{left.strip()}` is right"] if split != left else []
        yield f"{split}-> {' '.join(order)}", " and ".join(shown)


def reshaped_from(mine: str) -> Callable:
    """Return a `rearrange` that brings the axes into this order and makes the wanted shape by `reshape`."""

    def otherwise(x: Tensor, pattern: str, **sizes: int) -> Tensor:
        return rearrange(x, mine, **sizes).reshape(rearrange(x, pattern, **sizes).shape)

    return otherwise
