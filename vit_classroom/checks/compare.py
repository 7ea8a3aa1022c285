"""How a check works: run the answer on several inputs, and compare it with the finished version.

A mistake is known by name when a wrong implementation of it is at hand: if the answer gives what that
implementation gives on every input, its message is the verdict. Else the smallest input on which the answers
differ is shown.
"""

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from vit_classroom.checks.explain import explain
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.explain.probes import options_without_effect, varies
from vit_classroom.checks.explain.trial import Trial
from vit_classroom.checks.explain.values import agree
from vit_classroom.checks.guard import OutOfTime, printed
from vit_classroom.checks.outcome import (
    Mistake,
    WrongWeight,
    build,
    copy,
    first_of,
    is_float,
    outcome,
    same_weights,
    spread_weights,
)
from vit_classroom.checks.repair import REPAIRING
from vit_classroom.checks.words import (
    argument_names,
    describe,
    difference,
    explain_error,
    named_options,
    refuses,
    students_line,
)

MEANT = r"tolist|cpu\(|[\"']cpu[\"']|force=True"
"""What brings numbers from a GPU on purpose; the device "meta" has none to bring."""
NEW_TENSOR = "your new tensor lies on the CPU, wherever x is: `x.new_zeros(...)`, or `device=x.device`"
Mistakes = Sequence[tuple[Callable, str]]
"""Wrong implementations that are known by name, each with the words for a student; the likeliest first."""


def compare(
    answer: Callable,
    reference: Callable,
    cases: Sequence[tuple],
    mistakes: Mistakes = (),
    run: Callable | None = None,
    ready: Callable | None = None,
    plain: bool = False,
    float64: bool = True,
    device: bool = False,
) -> None:
    """Compare an answer with the finished version on every case, smallest first.

    Args:
        answer: the student's function or class.
        reference: the finished version.
        cases: tuples of arguments, the smallest and most readable first; several shapes, non-square included.
        mistakes: pairs (wrong implementation, message to the student), the likeliest first.
        run: turns (function or class, *case) into the value to compare; by default calls it.
        ready: where classes are compared, makes the module that `run` calls, of a class and the options of a case.
        plain: whether a number must be one of Python, because the lesson goes on to round it.
        float64: whether the result must be right for tensors of float64 too.
        device: whether it must lie where the tensors of a case lie, as in a model on a GPU.

    Raises:
        Mistake: at the first difference, worded as well as it is understood.
        Unfinished: if the answer is still the stub.
    """
    run = run or (lambda function, *case: function(*case))
    if REPAIRING.get():
        for case in cases:
            if difference(outcome(run, answer, case), run(reference, *copy(case))):
                raise Mistake("this change does not make it right", named=False)
    got, shown = outcomes(answer, reference, cases, run)
    want = [run(reference, *copy(case)) for case in cases]
    wrong = [i for i in range(len(cases)) if difference(got[i], want[i])]
    if not wrong and plain:
        demand_plain_numbers(got, want)
    if not wrong:
        if float64:
            demand_float64(answer, reference, cases, run)
        if device:
            demand_device(answer, reference, cases[0], run, NEW_TENSOR)
        return
    trial = Trial(run, answer, reference, cases, got, want, wrong, ready)
    if words := varies(trial):
        raise Mistake(words)
    for loose in (False, True) if second_fault(got, want, wrong) else (False,):
        for mistaken, message in mistakes:
            if explains(mistaken, run, cases, got, want, loose):
                raise Mistake(message, shown=shown[wrong[0]])
    first = next((i for i in wrong if not agree(got[i], want[i])), wrong[0])
    try:
        reason, named = explain(trial)
    except OutOfTime:
        reason, named = "", False
    where = (
        (f"{reason}\n" if reason else "")
        + f"on {describe(reference, cases[first])}"
        + (" (the cases before are right)" if first and first == wrong[0] else "")
    )
    if isinstance(got[first], Exception):
        raise Mistake(f"{where}, your code stopped with {explain_error(got[first])}", named, shown[first])
    if got[first] is None and any(w is None for w in want):
        raise Mistake(
            f"{where}: you return None, which has a meaning here; expected {want[first]!r:.300}",
            named,
            shown[first],
        )
    raise Mistake(f"{where}: {difference(got[first], want[first])}", named, shown[first])


def outcomes(
    answer: Callable, reference: Callable, cases: Sequence[tuple], run: Callable
) -> tuple[list, list[str]]:
    """Return the outcome of every case, and what was printed; whoever runs out of time is told in which call."""
    got, shown = [], []
    for case in cases:
        try:
            got.append(outcome(run, answer, case))
        except OutOfTime as late:
            late.where = f" on {describe(reference, case)}"
            raise
        shown.append(printed())
    return got, shown


def demand_plain_numbers(got: list, want: list) -> None:
    """Demand numbers of Python where the finished version returns them: a tensor cannot be rounded."""
    if any(
        type(right) in (int, float) and isinstance(mine, Tensor)
        for mine, right in zip(got, want, strict=True)
    ):
        raise Mistake(
            "the number is right, but yours is still a tensor, which `round` and tables do not take: return a plain "
            "number, with `.item()`"
        )


def demand_float64(answer: Callable, reference: Callable, cases: Sequence[tuple], run: Callable) -> None:
    """Demand the right results in float64 too, where the finished version takes it."""
    for case in map(in_float64, cases):
        want = outcome(run, reference, case)
        got = None if isinstance(want, Exception) else outcome(run, answer, case)
        if got is not None and (wrong := difference(got, want)) and not refuses(got):
            raise Mistake(
                "right in float32, but not in float64: give a tensor that you make the type of the one you get, "
                f"`dtype=x.dtype`, and leave out `.float()`: {wrong}"
            )


def demand_device(answer: Callable, reference: Callable, case: tuple, run: Callable, why: str) -> None:
    """Demand that an answer computes where its inputs lie: PyTorch's device "meta" complains as a GPU does."""
    there = tuple(
        deepcopy(part).to("meta") if isinstance(part, Tensor | nn.Module) else part for part in case
    )
    if isinstance(outcome(lambda f: run(f, *there), reference, ()), Exception):
        return
    result = outcome(lambda f: run(f, *there), answer, ())
    text = str(result) if isinstance(result, RuntimeError) else ""
    copies = "copy out of meta" in text and not re.search(MEANT, students_line(result))
    if isinstance(result, TypeError) and "to numpy" in str(result):
        raise Mistake("numpy computes on the CPU alone: stay with tensors, which lie where the input lies")
    parts = result if isinstance(result, tuple | list) else [result]
    elsewhere = any(getattr(part, "is_cpu", False) for part in parts)
    if copies or elsewhere or re.search("(expected|same) device", text):
        raise Mistake(why)


def in_float64(value: Any) -> Any:
    """Return a case, or a part of it, with its floating-point tensors in float64, those in tuples too."""
    if isinstance(value, tuple) and not hasattr(value, "_fields") and not isinstance(value, torch.Size):
        return tuple(in_float64(part) for part in value)
    return value.double() if is_float(value) else value


def second_fault(got: list, want: list, wrong: Sequence[int]) -> bool:
    """Tell whether the smallest wrong case has other numbers, and a later one an error or another type of numbers."""
    if isinstance(got[wrong[0]], Exception) or agree(got[wrong[0]], want[wrong[0]]):
        return False
    pairs = [(first_of(got[i]), first_of(want[i])) for i in range(wrong[0] + 1, len(got))]
    return any(
        isinstance(mine, Exception) or getattr(mine, "dtype", None) != getattr(right, "dtype", None)
        for mine, right in pairs
    )


def explains(
    mistaken: Callable, run: Callable, cases: Sequence, got: list, want: list, loose: bool = False
) -> bool:
    """Tell whether a known mistake gives what the answer gave, on every case, and stops where the answer stopped.

    Args:
        mistaken: the wrong implementation.
        run: turns (function or class, *case) into the value to compare.
        cases: the arguments of each call.
        got: the results of the answer.
        want: those of the finished version.
        loose: look at numbers alone, where the answer has some, in two wrong cases at least: it has a second fault.
    """
    seen = 0
    for case, mine, right in zip(cases, got, want, strict=True):
        try:
            theirs = run(mistaken, *copy(case))
        except Exception as error:
            theirs = error
        stops = [isinstance(result, Exception) for result in (mine, theirs)]
        if all(stops) or (loose and stops[0]):
            continue
        if any(stops):
            return False
        parts = mine if isinstance(mine, tuple | list) else [mine]
        typed = not loose and any(isinstance(part, Tensor) for part in parts)  # else -300.0 is -300
        if difference(mine, theirs) and (typed or not agree(mine, theirs)):
            return False
        seen += not agree(mine, right) if loose else bool(difference(mine, right))
    return seen > int(loose)


def compare_modules(
    answer: type,
    reference: type,
    cases: Sequence[tuple],
    mistakes: Mistakes = (),
    prepare: Callable[[nn.Module, nn.Module], nn.Module] | None = None,
) -> None:
    """Compare a student's module class with the finished one, both with equal weights.

    First the results in evaluation mode. Then, for options with which the finished module draws nothing, the
    results in training mode; at last the gradients of all weights and of all floating-point inputs.

    Args:
        answer: the student's class.
        reference: the finished class.
        cases: tuples (options of the class as a dict, *inputs), the smallest first.
        mistakes: pairs (wrong class, message to the student), the likeliest first.
        prepare: gives the first module the weights of the second; by default `same_weights`.

    Raises:
        Mistake: at the first difference, worded as well as it is understood.
        Unfinished: if the answer is still the stub.
    """

    def ready(module_class: type, options: dict) -> nn.Module:
        torch.default_generator.manual_seed(0)
        finished = spread_weights(reference(**options))
        if module_class is reference:
            return finished
        made = build(module_class, **options)
        try:
            return (prepare or same_weights)(made, finished)
        except WrongWeight as wrong:
            ignored = options_without_effect(module_class, reference, options, wrong.weight)
            raise Mistake(f"{wrong}{ignored} (built with {named_options(options)})") from None

    def run(module_class: type, options: dict, *inputs: Any) -> Any:
        there = next((x.device for x in inputs if isinstance(x, Tensor)), "cpu")
        return ready(module_class, options).eval().to(there)(*inputs)

    compare(answer, reference, cases, mistakes, run, ready=ready, device=True)
    demand_different_starts(build(answer, **cases[0][0]), reference(**cases[0][0]))
    for options, *inputs in cases:
        where = f"on {describe(reference, (options, *inputs))}"
        mine, finished = ready(answer, options).train(), ready(reference, options).train()
        result = finished(*copy(tuple(inputs)))
        in_use = finished.eval()(*copy(tuple(inputs)))
        if difference(result, in_use):  # dropout is on: compare without
            mine, finished, result = mine.eval(), finished.eval(), None
        compare_training(mine, finished, tuple(inputs), where, result)
        compare_gradients(mine.eval(), finished.eval(), tuple(inputs), f"{where}, in evaluation")
        compare_second_call(ready(answer, options), ready(reference, options), tuple(inputs), where)


def demand_different_starts(module: nn.Module, finished: nn.Module) -> None:
    """Demand that no matrix starts with one number everywhere, unless it does so in the finished module."""

    def equal(made: nn.Module) -> list[str]:
        several = [(name, p) for name, p in made.named_parameters() if p.ndim > 1 and p.numel() > 1]
        return [name for name, p in several if p.min() == p.max()]

    allowed = equal(finished)
    if name := next((name for name in equal(module) if name not in allowed), ""):
        raise Mistake(
            f"{name} starts with the same number everywhere, so what it computes is the same everywhere too, and "
            "stays so: each number is drawn by itself, as the layers of PyTorch do"
        )


def compare_training(module: nn.Module, finished: nn.Module, inputs: tuple, where: str, result: Any) -> None:
    """Demand the given result, if any, in training mode, and the gradients of the finished module."""
    mode = module.training
    got = outcome(lambda m, *case: m(*case), module, inputs)
    if isinstance(got, Exception):
        raise stopped(got, f"{where}, in training, ")
    if any(part.training != mode for part in module.modules()):
        raise Mistake(
            "your forward pass switches the mode of the model: `train()` and `eval()` belong to whoever uses it"
        )
    if isinstance(result, tuple) and not isinstance(got, tuple | list):
        raise Mistake(
            f"{where}: right in evaluation, but in training you return one value, and not {len(result)}"
        )
    if result is not None and difference(got, result):
        raise Mistake(
            f"{where}: right in evaluation, but in training mode the result is another, though every rate is 0 and "
            "nothing may be dropped: is anything random left, or a dropout or drop path that does not use the rate it "
            "is given, but a fixed number or 1 - rate?"
        )
    compare_gradients(module, finished, inputs, where)


def compare_second_call(module: nn.Module, finished: nn.Module, inputs: tuple, where: str) -> None:
    """Demand the right result of a second call, with other weights and the batch twice, and of a third, in float64."""
    outcome(lambda m, *case: m(*case), module.eval(), inputs)
    inputs = tuple(torch.cat([x, x]) if isinstance(x, Tensor) else x for x in inputs)
    for words, case in (
        (
            "a second call, with other weights and a larger batch: keep nothing from one call to the next",
            inputs,
        ),
        (
            "float64: give a tensor that you make the type of the one you get, `dtype=x.dtype`, and leave out "
            "`.float()`",
            in_float64(inputs),
        ),
    ):
        for function in (module, finished.eval()):
            for parameter in (function if case is inputs else function.double()).parameters():
                parameter.data.mul_(0.8)  # larger ones could make a softmax so steep that rounding shows
        got, want = (outcome(lambda m, *case: m(*case), function, case) for function in (module, finished))
        if not isinstance(want, Exception) and (wrong := difference(got, want)):
            raise Mistake(f"{where}: right, but not in {words}. {wrong}")


def compare_gradients(answer: Callable, reference: Callable, inputs: tuple, where: str = "") -> None:
    """Compare the gradients, as numbers, of all floating-point inputs and, in modules, of all weights.

    Args:
        answer: the student's function, or a module.
        reference: the finished function, or a module with the same weights.
        inputs: the arguments.
        where: names the inputs to the student; by default their shapes.
    """
    where = where or f"on {describe(reference, inputs)}"
    want = way_back(reference, inputs, reference)
    got = outcome(lambda function, *case: way_back(function, case, reference), answer, inputs)
    if isinstance(got, Exception):
        raise stopped(got, f"{where}: the result is right, but with inputs or weights that learn ")
    scale = max((gradient.abs().max().item() for gradient in want.values()), default=0.0)
    for name, right in want.items():
        mine = got.get(name)
        if mine is None or (mine.eq(0).all() and right.abs().max() > 1e-4 * scale):
            raise Mistake(
                f"{where}: the result is right, but no gradient reaches {name}, so nothing there learns: leave out "
                "`detach`, `.data`, `torch.no_grad`, `requires_grad_(False)`, copies (`torch.tensor`, `nn.Parameter`)"
            )
        if mine.shape != right.shape and mine.numel() == right.numel():  # the same weights in another layout
            mine, right = mine.flatten().sort().values, right.flatten().sort().values
        if mine.isnan().any():
            raise Mistake(
                f"{where}: the result is right, but the gradient of {name} is nan: a root has no slope at 0. If you "
                "square what you took the root of, leave out both"
            )
        tolerance = 1e-3 * right.abs().max() + 1e-5 * scale
        if mine.shape != right.shape or not (mine - right).abs().max() <= tolerance:
            raise Mistake(
                f"{where}: the result is right, but the gradient of {name} is not: a part of the computation is "
                "cut off from learning. Look for `detach`, `.data`, `torch.no_grad` or `.item()`"
            )


def way_back(function: Callable, inputs: tuple, reference: Callable) -> dict[str, Tensor]:
    """Return the gradients of all float inputs and of the weights of a module, by name.

    They are those of the sum of the numbers of the (first) result, each with a weight of its own.
    """
    leaves = [x.detach().requires_grad_() if is_float(x) else x for x in inputs]
    result = first_of(function(*copy(tuple(leaves))))
    names = argument_names(getattr(reference, "forward", reference), len(leaves))
    weights = function.named_parameters() if isinstance(function, nn.Module) else ()
    asked = {f"the weights {name}": x for name, x in weights if x.requires_grad}
    asked |= {f"`{name}`": x for name, x in zip(names, leaves, strict=False) if is_float(x)}
    if not asked or not result.requires_grad:
        return {}
    weight = torch.randn(result.shape, generator=torch.Generator().manual_seed(0)).to(result)
    found = torch.autograd.grad((result * weight).sum(), list(asked.values()), allow_unused=True)
    return {
        name: torch.zeros_like(x) if gradient is None else gradient
        for (name, x), gradient in zip(asked.items(), found, strict=True)
    }


def demand_error(answer: Callable, case: tuple, why: str) -> None:
    """Demand that an answer refuses a case with a ValueError; `why` says what is wrong with the case."""
    result = outcome(lambda function, *arguments: function(*arguments), answer, case)
    if isinstance(result, ValueError):
        return
    failed = isinstance(result, Exception)
    returned = (
        f"returned {result!r}" if isinstance(result, int | float | str | None) else "went on without a word"
    )
    meant = "refuses it, but " if isinstance(result, AssertionError) else ""
    got = f"{meant}stopped with {explain_error(result)}" if failed else returned
    raise Mistake(f"{why}: raise a ValueError that says so (your code {got})")
