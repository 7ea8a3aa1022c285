"""Slips that shapes and places tell: axes lost, joined or swapped, right numbers elsewhere."""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from vit_classroom.checks.explain.terms import AXES, axis_names, axis_of, in_order, sizes_of
from vit_classroom.checks.explain.values import Result, Slip, argument, first_fit, same, tensors_of


def shape(given: list[Result]) -> str:
    """Explain results of another shape by their numbers."""
    wrong = [r for r in given if not r.right]
    if all(r.got.shape == r.want.shape for r in wrong):
        return ""
    axes = {r.want.ndim for r in wrong}
    if len(axes) == 1 and len(wrong) < len(given) and not any(r.right and r.want.ndim in axes for r in given):
        inner = shape(wrong)
        return f"where the result should have {axes.pop()} axes: {inner}" if inner else ""
    names, most = axis_names(given), max(r.got.ndim for r in wrong)
    return first_fit(given, too_little(names)) or first_fit(given, too_much(names, most), back=True)


def axes_moved(given: list[Result]) -> str:
    """Explain results whose axes stand in another order."""
    return first_fit(given, other_order(axis_names(given)))


def too_little(names: list[tuple[str, str]]) -> Iterator[Slip]:
    """Yield slips that lose entries or axes, or make an axis of length 1."""
    for i, (one, many) in enumerate(names):
        a = i - len(names)
        if many == "values":
            continue
        yield (
            f"where {axis_of(names[i])} has length 1 it is lost: `squeeze` takes away such an axis",
            lambda x, a=a: x.squeeze(a),
        )
        yield (
            f"{axis_of(names[i])} is lost: yours is the result of the first {one} alone",
            lambda x, a=a: x.select(a, 0),
        )
        yield f"yours is the result of the first {one} alone", lambda x, a=a: x.narrow(a, 0, 1)
        for keep in (False, True):
            yield (
                f"you average over the {many}; that axis should stay",
                lambda x, a=a, keep=keep: x.mean(a, keep),
            )
            yield f"you add up the {many}; that axis should stay", lambda x, a=a, keep=keep: x.sum(a, keep)
        if i:
            joined = f"{axis_of(names[i - 1], names[i])} are joined into one; they should be two"
            yield joined, lambda x, a=a: x.flatten(a - 1, a)
    for i, (one, _) in enumerate(names):
        a = i - len(names)
        yield f"the first {one} is missing", lambda x, a=a: x.narrow(a, 1, x.shape[a] - 1)
        yield f"the last {one} is missing", lambda x, a=a: x.narrow(a, 0, x.shape[a] - 1)
    yield "`squeeze` takes away every axis of length 1, also those that should stay", torch.squeeze
    for i in range(len(names) + 1):
        yield f"there is one axis too many, of length 1 (axis {i})", lambda x, i=i: x.unsqueeze(i)


def too_much(names: list[tuple[str, str]], axes: int) -> Iterator[Slip]:
    """Yield what undoes slips that leave too many entries or axes."""
    for i, (one, _) in enumerate(names):
        a = i - len(names)
        yield f"there is one {one} too many, in front", lambda x, a=a: x.narrow(a, 1, x.shape[a] - 1)
        yield f"there is one {one} too many, at the end", lambda x, a=a: x.narrow(a, 0, x.shape[a] - 1)
    for i in range(axes if axes == len(names) + 1 else 0):
        yield f"axis {i} of your result should be averaged away", lambda x, i=i: x.mean(i)
        yield f"axis {i} of your result should be added up", lambda x, i=i: x.sum(i)
        if i:
            joined = f"axes {i - 1} and {i} of your result should be one, that of the {names[i - 1][1]}"
            yield joined, lambda x, i=i: x.flatten(i - 1, i)
    for i, j in itertools.combinations(range(axes), 2):
        crossed = f"axes {i} and {j} of your result pair everything with everything: wanted is the diagonal"
        yield crossed, lambda x, i=i, j=j: x.diagonal(dim1=i, dim2=j).movedim(-1, i)


def shape_alone(given: list[Result]) -> str:
    """Name the axis that is missing, or the order in which the axes seem to stand, where the numbers tell nothing."""
    wrong, names = [r for r in given if not r.right], axis_names(given)
    n = len(names)
    if n > 5 or names == [AXES["values"]] or any(r.got.shape == r.want.shape for r in wrong):
        return ""
    found = [
        f"{axis_of(names[i])} is missing"
        for i in range(n)
        if all(list(r.got.shape) == [*r.want.shape[:i], *r.want.shape[i + 1 :]] for r in wrong)
    ]
    found += [
        f"by its shape your result has the axes ({in_order(names, p)}); they should be ({in_order(names, range(n))})"
        for p in itertools.permutations(range(n))
        if all(list(r.got.shape) == [r.want.shape[i] for i in p] for r in wrong)
    ]
    return (
        found[0]
        if len(found) == 1
        else lost_of_length_one(given) or in_letters(given) or number_along(wrong, names)
    )


def lost_of_length_one(given: list[Result]) -> str:
    """Notice that results have too few axes only where an axis of the input has length 1."""

    def alone(r: Result) -> bool:
        return any(isinstance(value, Tensor) and 1 in value.shape for value in r.arguments.values())

    if all(map(alone, given)) or not all(r.right or (alone(r) and r.got.ndim < r.want.ndim) for r in given):
        return ""
    return (
        "your result has too few axes, but only where an axis of the input has length 1: `squeeze` takes away every "
        "such axis, wherever it stands"
    )


def number_along(wrong: list[Result], names: list[tuple[str, str]]) -> str:
    """Say how many entries there are along the one axis that has another length, in the smallest result."""
    if any(r.got.ndim != r.want.ndim for r in wrong):
        return ""
    other = {tuple(i for i, n in enumerate(r.got.shape) if n != r.want.shape[i]) for r in wrong}
    axis = other.pop()[0] if len(other) == 1 and len(min(other)) == 1 else None
    if axis is None or names[axis][0].startswith("slice along"):
        return ""
    more = {r.got.shape[axis] > r.want.shape[axis] for r in wrong}
    few = "many" if all(more) else "few"
    mine, want = wrong[0].got.shape[axis], wrong[0].want.shape[axis]
    return f"your result has too {few} {names[axis][1]}, {mine} and not {want}" if len(more) == 1 else ""


def in_letters(given: list[Result]) -> str:
    """Say a shape by the sizes of the cases, (B, N, 2·D); "" if they do not give it, or if too few cases tell.

    An axis has a name if one reading gives its length in all wrong cases, or several that cannot be told apart.
    """
    wrong, wanted = [r for r in given if not r.right], given[0].axes
    several = len({tuple(r.got.shape) for r in wrong}) > 1 and len({r.got.ndim for r in wrong}) == 1
    if not several or any(r.axes != wanted for r in given) or not all(wanted):
        return ""
    sizes, shown = [sizes_of(r) for r in (*wrong, *given)], []
    letters = [letter for letter in sizes[0] if all(s.get(letter, 0) > 0 for s in sizes)]
    forms = [(a, [s[a] for s in sizes]) for a in letters]
    forms += [(f"{a} {'+-'[n < 0]} 1", [s[a] + n for s in sizes]) for a in letters for n in (1, -1)]
    forms += [(f"2·{a}", [2 * s[a] for s in sizes]) for a in letters]
    forms += [(f"{a}·{b}", [s[a] * s[b] for s in sizes]) for a, b in itertools.combinations(letters, 2)]
    for axis in range(wrong[0].got.ndim):
        lengths = [float(r.got.shape[axis]) for r in wrong]
        number = [(f"{lengths[0]:g}", [lengths[0]] * len(sizes))]
        fits = {word: values for word, values in number + forms if values[: len(wrong)] == lengths}
        kept = len(wanted) == wrong[0].got.ndim and wanted[axis] in fits
        word = wanted[axis] if kept else next(iter(fits), "")
        if not kept and (
            len({tuple(values) for values in fits.values()}) != 1 or word.isdigit() and word != "1"
        ):
            return ""
        shown.append(word)
    return f"your result has the shape ({', '.join(shown)}), and ({', '.join(wanted)}) is wanted"


def elsewhere(given: list[Result]) -> str:
    """Explain results that hold the right numbers in wrong places."""
    if not all(map(rearranged, given)) or len({r.want.ndim for r in given}) > 1:
        return ""
    names = axis_names(given)
    return (
        first_fit(given, turned(names))
        or reshaped(given, names)
        or slices_moved([r for r in given if not r.right], names)
        or first_fit(given, in_turns(given, names))
        or first_fit(given, groups_moved(names))
    )


def misplaced(given: list[Result]) -> str:
    """Notice that all numbers are the right ones."""
    if all(map(rearranged, given)) and all(len(r.want.unique()) > 3 for r in given if not r.right):
        return "all numbers are the right ones, but they stand in wrong places: they are reordered, not miscalculated"
    return ""


def rearranged(r: Result) -> bool:
    """Tell whether a result has the wanted shape and numbers, wherever they stand."""
    return r.got.shape == r.want.shape and same(r.got.flatten().sort()[0], r.want.flatten().sort()[0])


def other_order(names: list[tuple[str, str]]) -> Iterator[Slip]:
    """Yield the axes in every other order."""
    n = len(names)
    for p in (
        sorted(itertools.permutations(range(n)), key=lambda p: sum(p[i] != i for i in range(n)))
        if n < 6
        else ()
    ):
        moved = [i for i in range(n) if p[i] != i]
        if len(moved) == 2:
            swapped = f"you swapped {axis_of(names[moved[0]], names[moved[1]])}"
            yield swapped, lambda x, p=p: x.permute(p)
        elif moved:
            words = f"the axes stand in another order: yours are ({in_order(names, p)}), "
            yield words + f"they should be ({in_order(names, range(n))})", lambda x, p=p: x.permute(p)


def turned(names: list[tuple[str, str]]) -> Iterator[Slip]:
    """Yield each axis turned round, sorted, or moved by one place."""
    n = len(names)
    for i, (_, many) in enumerate(names):
        yield f"the {many} stand in reverse order", lambda x, i=i: x.flip(i)
        for down, first in ((False, "smallest"), (True, "largest")):
            yield (
                f"your numbers are the right ones, but sorted along the {many}, the {first} first",
                lambda x, i=i, down=down: x.sort(i, descending=down)[0],
            )
        yield f"the {many} are moved on by one place, the last one comes first", lambda x, i=i: x.roll(1, i)
        yield (
            f"the {many} are moved back by one place, the first one comes last",
            lambda x, i=i: x.roll(-1, i),
        )
    for i, j in itertools.combinations(range(n), 2):
        both = f"the {names[i][1]} and the {names[j][1]} stand in reverse order"
        yield both, lambda x, i=i, j=j: x.flip((i, j))


def reshaped(given: list[Result], names: list[tuple[str, str]]) -> str:
    """Find a `reshape` where axes should have moved: of an argument, or of the result with its axes reordered."""
    for name in tensors_of(given):
        if all(same(r.got.flatten(), argument(r, name).flatten()) for r in given):
            return f"your numbers are those of `{name}` in the same order: `reshape` and `view` alone move nothing"
    for p in itertools.permutations(range(len(names))) if len(names) < 6 else ():
        if all(same(r.got.flatten(), r.want.permute(p).flatten()) for r in given):
            return (
                f"your numbers stand in the order ({in_order(names, p)}) and have only been given the wanted "
                "shape: `reshape` moves nothing, so bring the axes into their order first"
            )
    return ""


def slices_moved(wrong: list[Result], names: list[tuple[str, str]]) -> str:
    """Find another order along one axis, and say it for the smallest result."""
    for i, (_, many) in enumerate(names):
        orders = [order_along(r, i) for r in wrong]
        if all(orders):
            shown = ", ".join(map(str, orders[0][:12])) + (", ..." if len(orders[0]) > 12 else "")
            rows = [rows_read_down(order) for order in orders]
            hint = f", as if a table of {rows[0]} rows were read down its columns" if all(rows) else ""
            return f"the {many} stand in another order: where 0, 1, 2 ... should stand you have {shown}{hint}"
    return ""


def order_along(r: Result, axis: int) -> list[int]:
    """Return which wanted slice stands at each place; [] if that is no reordering, or not clear."""
    mine, wanted = (x.movedim(axis, 0).flatten(1) for x in (r.got, r.want))
    if mine.shape[1] < 2 or len(mine) > 256:  # of single numbers every rearrangement could be called so
        return []
    equal = torch.cdist(mine, wanted, p=float("inf")) <= 1e-5 + 1e-4 * wanted.abs().max()
    return (
        equal.double().argmax(1).tolist() if (equal.sum(0) == 1).all() and (equal.sum(1) == 1).all() else []
    )


def rows_read_down(order: list[int]) -> int:
    """Return how many rows a table of 0, 1, 2 ... has that gives this order when it is read down; 0 if none does."""
    places = torch.arange(n := len(order))
    rows = (
        k for k in range(2, n // 2 + 1) if n % k == 0 and order == places.reshape(k, -1).T.flatten().tolist()
    )
    return next(rows, 0)


def groups_moved(names: list[tuple[str, str]]) -> Iterator[Slip]:
    """Yield each axis split into a few groups that stand in another order."""
    for (i, (_, many)), n in itertools.product(enumerate(names), (2, 3, 4)):
        for order in itertools.permutations(range(n)):
            if order != tuple(range(n)):
                shown = ", ".join(str(k + 1) for k in order)
                words = (
                    f"the {many} are made of {n} groups of equal length, and yours stand in the order {shown}"
                )
                yield words, lambda x, i=i, n=n, order=order: regrouped(x, i, n, order)


def regrouped(x: Tensor, axis: int, n: int, order: tuple[int, ...]) -> Tensor:
    """Put groups along an axis into another order."""
    if x.shape[axis] % n:
        raise ValueError
    return x.unflatten(axis, (n, -1)).index_select(axis, torch.tensor(order)).flatten(axis, axis + 1)


def in_turns(given: list[Result], names: list[tuple[str, str]]) -> Iterator[Slip]:
    """Yield each axis split into groups whose entries come in turns, or side by side where they should take turns."""

    def split(x: Tensor, axis: int, groups: int) -> Tensor:
        if groups == 0 or x.shape[axis] % groups:  # an error raised by torch would take milliseconds
            raise ValueError
        return x.movedim(axis, 0).unflatten(0, (groups, -1)).transpose(0, 1).flatten(0, 1).movedim(0, axis)

    for i, (_, many) in enumerate(names):
        for n in range(2, min(max(r.want.shape[i] for r in given), 17)):
            words = (
                f"the {many} come in turns, one from each of {n} groups; the groups should stand side by side"
            )
            yield words, lambda x, i=i, n=n: split(x, i, n)
            words = (
                f"the {many} stand side by side in {n} groups; they should come in turns, one from each group"
            )
            yield words, lambda x, i=i, n=n: split(x, i, x.shape[i] // n)
