"""What a few more calls tell: random results, arguments and weights without effect, inputs for which it is right."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from vit_classroom.checks.explain.terms import SIDES, argument_axes, calling, listed, signature
from vit_classroom.checks.explain.trial import Trial
from vit_classroom.checks.explain.values import as_tensor, same
from vit_classroom.checks.outcome import Unfinished, copy, first_of, is_float, outcome
from vit_classroom.checks.words import argument_names, difference


def varies(trial: Trial) -> str:
    """Notice an answer whose second result on the same input is another, while that of the finished version is not."""
    try:
        differs = any(another_result(trial, i) for i in reversed(trial.wrong[-4:]))  # one may agree by chance
    except Unfinished:
        raise
    except Exception:
        return ""
    return (
        "two calls on the same input give different results: something is drawn at random, or is kept from one call to "
        "the next, where nothing should be"
        if differs
        else ""
    )


def another_result(trial: Trial, i: int) -> bool:
    """Tell whether a second call on a case has another result, and that of the finished version has not."""
    if not same_kind(trial.got[i], trial.want[i]):
        return False
    again = second(trial, trial.answer, i)
    if isinstance(again, Exception) or not difference(again, trial.got[i], same_dtype=False):
        return False
    return not difference(second(trial, trial.reference, i), trial.want[i], same_dtype=False)


def same_kind(got: Any, want: Any) -> bool:
    """Tell whether tensors or numbers were returned where they are wanted: two modules are never the same."""
    if isinstance(want, tuple | list):
        parts = isinstance(got, tuple | list) and len(got) == len(want)
        return parts and all(same_kind(g, w) for g, w in zip(got, want, strict=True))
    kinds = (Tensor, Real) if isinstance(want, Tensor | Real) else type(want)
    return isinstance(got, kinds)


def second(trial: Trial, function: Callable, i: int) -> Any:
    """Return the result of a second call on a case: of one module, where a class is the answer."""
    if trial.ready is None:
        return trial.call(function, trial.cases[i])
    options, *inputs = trial.cases[i]
    module = trial.ready(function, options).eval()
    return [outcome(lambda f, *x: f(*x), module, tuple(inputs)) for _ in range(2)][1]


def unused_arguments(trial: Trial) -> str:
    """Name the arguments that never change the result, though they change the wanted one."""
    if any(isinstance(trial.got[i], Exception) for i in trial.wrong) or all_undefined(trial):
        return ""
    numbers = {float(value) for value in trial.got if isinstance(value, Real)}
    if numbers and len(numbers) < 3:  # a yes or no may stay by chance, whatever changes
        return ""
    order = [*trial.wrong, *(i for i in range(len(trial.cases)) if i not in trial.wrong)]
    tried = order[:2] if trial.ready else order
    names = dict.fromkeys(name for i in tried for name, *_ in places(trial, trial.cases[i]))
    defaults = {
        n: p.default for n, p in (signature(trial.reference) | signature(calling(trial.reference))).items()
    }

    def explains(name: str) -> bool:  # an argument left to its default cannot be what makes a case wrong
        left = [
            next((v for n, v, _ in places(trial, trial.cases[i]) if n == name), defaults[name])
            for i in trial.wrong
        ]
        return not any(not isinstance(v, Tensor) and v == defaults[name] for v in left)

    unused = listed(f"`{name}`" for name in names if explains(name) and unchanged_by(trial, name, tried))
    return f"your result does not change with {unused}, but it should" if unused else ""


def all_undefined(trial: Trial) -> bool:
    """Tell whether no wrong result has a finite number: such results change with nothing."""
    found = [as_tensor(first_of(trial.got[i])) for i in trial.wrong]
    return all(numbers is not None and not numbers.isfinite().any() for numbers in found)


def unchanged_by(trial: Trial, name: str, tried: Sequence[int]) -> bool:
    """Tell whether no other value of an argument changes the answer's result, while several change the wanted one."""
    telling = 0
    for i in tried:
        for case in other_values(trial, trial.cases[i], name):
            if isinstance(mine := trial.call(trial.answer, case), Exception):
                return False
            if difference(mine, trial.got[i]):
                return False
            want = trial.call(trial.reference, case)
            if not isinstance(want, Exception) and difference(want, trial.want[i]):
                # One number may agree by chance.
                telling += min(3, getattr(first_of(want), "numel", int)() or 1)
    return telling > 2


def places(trial: Trial, case: tuple) -> list[tuple[str, Any, Callable[[Any], tuple]]]:
    """List the arguments of a case, the options of a module among them: name, value, what puts in another value."""
    options, start = [], 0
    if trial.ready:
        options = [(n, v, lambda new, n=n: ({**case[0], n: new}, *case[1:])) for n, v in case[0].items()]
        start = 1
    names = argument_names(calling(trial.reference), len(case) - start)
    inputs = [
        (names[i - start], case[i], lambda new, i=i: (*case[:i], new, *case[i + 1 :]))
        for i in range(start, len(case))
    ]
    return [place for place in options + inputs if isinstance(place[1], Tensor | Real | str | tuple | list)]


def other_values(trial: Trial, case: tuple, name: str) -> list[tuple]:
    """Return the case with other values of an argument: a tensor shuffled, else values of other cases or near ones."""
    value, change = next(((v, c) for n, v, c in places(trial, case) if n == name), (None, None))
    if change is None:
        return []
    if isinstance(value, Tensor) and value.dtype == torch.bool:
        return [change(~value)]
    if isinstance(value, Tensor):
        draw = torch.Generator().manual_seed(0)
        shuffled = [
            value.flatten()[torch.randperm(value.numel(), generator=draw)].reshape(value.shape)
            for _ in range(4)
        ]
        return [change(v) for v in shuffled] + [change(v * 1.5 + 0.25) for v in shuffled[:1] if is_float(v)]
    found = [v for other in trial.cases for n, v, _ in places(trial, other) if n == name]
    found += [p.default for n, p in signature(trial.reference).items() if n == name]
    if isinstance(value, bool):
        found.append(not value)
    elif isinstance(value, Real) and not trial.ready:
        found += [value * 2] * (abs(value) < 17) + [value + 1]  # twice a large size may fill the memory
    found = [v for v in found if type(v) is type(value) and v != value]
    return [change(v) for i, v in enumerate(found) if v not in found[:i]][: 2 if trial.ready else 5]


def options_without_effect(answer: type, reference: type, options: dict, weight: str) -> str:
    """Name the options that change the shape of a weight in the finished module alone; "" if there are none."""

    def shape(module_class: type, **changed: Any) -> Any:
        return outcome(
            lambda made: made(**{**options, **changed}).state_dict()[weight].shape, module_class, ()
        )

    ignored = []
    for name, value in options.items():
        others = {name: 2 * value} if type(value) is int else {}
        want = shape(reference, **others)
        if not others or isinstance(want, Exception) or want == shape(reference):
            continue
        if shape(answer, **others) == shape(answer):
            ignored.append(f"`{name}`")
    return (
        f": {listed(ignored)} should change it, and {'do' if len(ignored) > 1 else 'does'} not"
        if ignored
        else ""
    )


def unused_weights(trial: Trial) -> str:
    """Name the weights of a module that do not change its result, though they change the wanted one."""
    shapes = [tuple(getattr(first_of(v), "shape", ())) for v in (*trial.got, *trial.want)]
    if trial.ready is None or shapes[: len(trial.got)] != shapes[len(trial.got) :]:
        return ""
    unused, mine = None, {}
    for options, *inputs in (trial.cases[i] for i in trial.wrong[:3]):
        if trial.tired:
            return ""
        modules = (trial.ready(f, options).eval() for f in (trial.answer, trial.reference))
        mine, finished = (still_weights(module, inputs) for module in modules)
        still = [
            f"`{name}`" for name, same_result in mine.items() if same_result and finished.get(name) is False
        ]
        unused = still if unused is None else [name for name in unused if name in still]
        if not unused:
            return ""
    if not unused or len(unused) == len(mine):
        return ""
    shown = listed(unused[:4] + ["others"] * (len(unused) > 4))
    return f"your result does not depend on the weights {shown}, but it should"


def still_weights(module: nn.Module, inputs: Sequence) -> dict[str, bool]:
    """Tell of every weight by name whether the module's first result stays as it is when the weight changes."""
    found = {}
    with torch.no_grad():
        before = first_of(module(*copy(tuple(inputs)))).double()
        for name, weight in module.named_parameters():
            kept = weight.clone()
            found[name] = True
            for scale in (1, -1):
                weight.copy_(kept + scale * torch.linspace(0.2, 0.5, kept.numel()).reshape(kept.shape))
                found[name] &= same(first_of(module(*copy(tuple(inputs)))).double(), before)
            weight.copy_(kept)
    return found


def simpler_input(trial: Trial) -> str:
    """Notice that one change of the input makes every wrong case right, and could be made in no right case."""
    for words, change in simpler(trial):
        changed = [change(case) for case in trial.cases]
        if [case is not None for case in changed] != [i in trial.wrong for i in range(len(changed))]:
            continue
        wanted = [trial.call(trial.reference, changed[i]) for i in trial.wrong]
        mine = [trial.call(trial.answer, changed[i]) for i in trial.wrong]
        if any(isinstance(want, Exception) for want in wanted):
            continue
        if not any(difference(got, want) for got, want in zip(mine, wanted, strict=True)):
            return words
    return ""


def simpler(trial: Trial) -> Iterator[tuple[str, Callable[[tuple], tuple | None]]]:
    """Yield words for simpler inputs, and what makes one of a case: None if it is one."""

    def tensors(test: Callable, new: Callable) -> Callable[[tuple], tuple | None]:
        def change(case: tuple) -> tuple | None:
            chosen = [isinstance(value, Tensor) and test(value) for value in case]
            made = (new(value) if hit else value for value, hit in zip(case, chosen, strict=True))
            return tuple(made) if any(chosen) else None

        return change

    yield (
        "right for tensors whose numbers lie in memory in order, wrong for others, as `transpose` and `permute` give",
        tensors(lambda x: not x.is_contiguous(), Tensor.contiguous),
    )
    for dtype in (torch.float64, torch.float16, torch.uint8):
        words = f"right for inputs of torch.float32, wrong for {dtype}"
        yield words, tensors(lambda x, dtype=dtype: x.dtype == dtype, Tensor.float)
    yield "right for one picture, wrong for several in a batch", partial(first_picture, trial)
    for name, parameter in signature(trial.reference).items():
        if parameter.default is not parameter.empty:
            words = f"right where `{name}` has its default, {parameter.default!r}, wrong for other values"
            yield words, partial(at_default, trial, name, parameter.default)


def first_picture(trial: Trial, case: tuple) -> tuple | None:
    """Cut a case to its first picture, by the letter B in the docstring; None if it has no more than one."""
    letters, several = argument_axes(trial.reference), False
    for name, value, _ in places(trial, case):
        if isinstance(value, Tensor) and letters.get(name, ("",))[0] == "B" and len(value) > 1:
            case = next(change for n, _, change in places(trial, case) if n == name)(value[:1])
            several = True
    return case if several else None


def at_default(trial: Trial, name: str, default: Any, case: tuple) -> tuple | None:
    """Put the default of an argument into a case; None if it is there."""
    return next((change(default) for n, v, change in places(trial, case) if n == name and v != default), None)


def one_kind_of_input(trial: Trial) -> str:
    """Name the property that all right cases have and no wrong one, if there is exactly one."""
    right = [i not in trial.wrong for i in range(len(trial.cases))]

    def separates(test: Callable) -> bool:
        return any(right) and [test(trial, case) for case in trial.cases] == right

    given = [{name: value for name, value, _ in places(trial, case)} for case in trial.cases]
    names = {name for case in given for name in case}
    squares = {f"`{name}` is a square": partial(square, only=name) for name in names}
    overall = {"height and width are equal": square}
    others = {
        "heights and widths are even": even,
        "1": lambda trial, case: first_picture(trial, case) is None,
        "2": lambda trial, case: not any(is_float(v) and v.dtype != torch.float32 for v in case),
    }  # the last two are told by `simpler_input`, if they are true; here they only make others doubtful
    others |= {
        f"`{name}` is not empty": lambda trial, case, name=name: len(given_to(trial, case, name)) > 0
        for name in names
        if all(isinstance(values.get(name), list | tuple) for values in given)
    }
    others |= numbers_of_axes(trial)
    chosen = overall if separates(square) else squares
    found = [words for words, test in (chosen | others).items() if separates(test)]
    if len(found) != 1 or len(found[0]) == 1 or len(right) < 3 or split_by_others(trial, right):
        return ""
    return f"right where {found[0]}, wrong elsewhere"


def given_to(trial: Trial, case: tuple, name: str) -> Any:
    """Return what a case gives to an argument."""
    return next(value for found, value, _ in places(trial, case) if found == name)


def numbers_of_axes(trial: Trial) -> dict[str, Callable]:
    """Return tests for the number of axes of the first tensor, where that is not the same in all cases."""
    tensors = [[(n, v) for n, v, _ in places(trial, case) if isinstance(v, Tensor)] for case in trial.cases]
    if not all(tensors) or len({first[0][0] for first in tensors}) > 1:
        return {}
    name, counts = tensors[0][0][0], [first[0][1].ndim for first in tensors]
    right = {n for i, n in enumerate(counts) if i not in trial.wrong}
    wrong = {counts[i] for i in trial.wrong}
    if len(right) == 1:
        words = str(*right)
    elif right and max(right) < min(wrong):
        words = f"at most {max(right)}"
    else:
        return {}
    return {f"`{name}` has {words} axes": lambda trial, case: given_to(trial, case, name).ndim in right}


def split_by_others(trial: Trial, right: list[bool]) -> bool:
    """Tell whether the plain numbers and words given to an argument are others in all right cases than in all wrong."""
    values: dict[str, tuple[set, set]] = {}
    defaults = {n: p.default for n, p in signature(trial.reference).items() if p.default is not p.empty}
    for case, fine in zip(trial.cases, right, strict=True):
        given = {name: value for name, value, _ in places(trial, case)}
        for name, value in (defaults | given).items():
            if isinstance(value, int | float | str) and name not in SIDES:
                values.setdefault(name, (set(), set()))[fine].add(value)
    return any(wrong and fine and not wrong & fine for wrong, fine in values.values())


def square(trial: Trial, case: tuple, only: str = "") -> bool | None:
    """Tell whether height and width agree in all pictures and pairs of a case, or in one; None if it has none."""
    letters, sides = argument_axes(trial.reference), []
    for name, value, _ in places(trial, case):
        if only not in ("", name):
            continue
        if isinstance(value, Tensor) and letters.get(name, ())[-2:] == ("H", "W"):
            sides.append(tuple(value.shape[-2:]))
        elif isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, int) for v in value):
            sides.append(value)
        elif isinstance(value, int) and name in SIDES:
            sides.append((value, value))
    return all(height == width for height, width in sides) if sides else None


def even(trial: Trial, case: tuple) -> bool | None:
    """Tell whether the pictures of a case have even sides; None if there are none."""
    letters = argument_axes(trial.reference)
    pictures = [v for n, v, _ in places(trial, case) if letters.get(n, ())[-2:] == ("H", "W")]
    return all(side % 2 == 0 for v in pictures for side in v.shape[-2:]) if pictures else None
