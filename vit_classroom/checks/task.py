"""An exercise as data: the finished version, and what an answer must keep, each with the mistakes that break it.

A lesson's `checks.py` calls `exercise` once for each of its exercises. Every known mistake stands there once, with the
words that a student gets and with an answer that makes it, and a test gives each of these answers to the check.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vit_classroom.checks.compare import (
    compare,
    compare_gradients,
    compare_modules,
    demand_device,
    demand_error,
)
from vit_classroom.checks.outcome import Mistake, build, outcome
from vit_classroom.checks.registry import EXERCISES
from vit_classroom.checks.shared_checks import counting

Known = Mapping[str, Any]
"""Words for a student, and an answer, or a list of answers, to which they are said; the likeliest first."""


@dataclass(frozen=True)
class Demand:
    """What an answer must keep.

    Attributes:
        verify: is called with an answer and the finished version; raises a `Mistake` for an answer that breaks it.
        known: the mistakes that break it, by words of the message.
    """

    verify: Callable[[Any, Any], None]
    known: Known

    def mistakes(self) -> list[tuple[str, Any]]:
        """List the known mistakes: words, and an answer to which they are said."""
        several = [
            (words, wrong if isinstance(wrong, list) else [wrong]) for words, wrong in self.known.items()
        ]
        return [(words, answer) for words, answers in several for answer in answers]


@dataclass(frozen=True)
class Exercise:
    """One exercise: the finished function or class, and what an answer must keep, verified in this order."""

    reference: Any
    demands: Sequence[Demand]

    @property
    def name(self) -> str:
        """The name that the exercise has in the lesson."""
        return self.reference.__name__

    def verify(self, answer: Any) -> None:
        """Judge an answer.

        Raises:
            Mistake: if it is wrong, in words for the student.
            Unfinished: if it is still the stub.
        """
        for demand in self.demands:
            demand.verify(answer, self.reference)

    def mistakes(self) -> list[tuple[str, Any]]:
        """List all mistakes that have words of their own, each with an answer that makes it."""
        return [pair for demand in self.demands for pair in demand.mistakes()]


def exercise(reference: Any, *demands: Demand) -> Exercise:
    """Register an exercise of a lesson."""
    made = Exercise(reference, demands)
    EXERCISES.loaded[made.name] = made
    return made


def results(cases: Callable[[], Sequence[tuple]], known: Known, **options: Any) -> Demand:
    """Demand the results of the finished version.

    Args:
        cases: returns the tuples of arguments, the smallest first; for modules (options as a dict, *inputs).
        known: mistakes by what is said of an answer that gives their results on every case.
        options: more arguments of `compare` or, for classes without `run`, of `compare_modules`.
    """

    def verify(answer: Any, reference: Any) -> None:
        judge = compare_modules if inspect.isclass(reference) and "run" not in options else compare
        judge(answer, reference, cases(), [(wrong, words) for words, wrong in made.mistakes()], **options)

    made = Demand(verify, known)
    return made


def refuses(case: tuple, why: str, *known: Any) -> Demand:
    """Demand that a function refuses a case with the ValueError that its docstring promises.

    Args:
        case: arguments that do not fit.
        why: says what is wrong with them; the beginning of the message.
        known: answers that do not refuse them.
    """
    return Demand(lambda answer, reference: demand_error(answer, case, why), {why: list(known)})


def learns(case: Callable[[], tuple], part: int | None = None, where: str = "") -> Demand:
    """Demand the gradients of the finished version on a case.

    Args:
        case: returns the arguments.
        part: of several results the one whose gradients are meant; None for the only one.
        where: says which result is meant, in words for the student.
    """

    def verify(answer: Any, reference: Any) -> None:
        pair = (answer, reference)
        if part is not None:
            pair = tuple(lambda *inputs, f=f: f(*inputs)[part] for f in pair)
        compare_gradients(*pair, case(), where)

    return Demand(verify, {})


def every_digit(known: Any, shape: tuple, *arguments: Any) -> Demand:
    """Demand that numbers which are moved and not computed with come back exactly, large and long ones too.

    Args:
        known: answers that go through another type.
        shape: of the tensor, the first argument.
        arguments: the others.
    """

    def verify(answer: Any, reference: Any) -> None:
        count = counting(*shape)
        for numbers in (count.double() / -3, 2**40 + count.long()):
            if not torch.equal(answer(numbers, *arguments), reference(numbers, *arguments)):
                raise Mistake(
                    f"right for short numbers, but numbers of {numbers.dtype} are not those that were given: pixels "
                    "are moved, and neither computed with nor cut off; leave out `.float()` and `.clamp`"
                )

    return Demand(verify, {"are not those that were given": known})


def keeps_settings(module_class: type, options: dict[str, Any], *rates: str) -> Demand:
    """Demand that the forward pass of a module (B, T, dim) changes none of its rates and switches.

    Args:
        module_class: the finished module.
        options: of the module, with rates above 0.
        rates: names of some; a known mistake sets one to 0 in evaluation.
    """

    def forgets(rate: str) -> type:
        part, _, name = rate.rpartition(".")

        def forward(self: nn.Module, *inputs: Any, **named: Any) -> Any:
            if not self.training:
                setattr(self.get_submodule(part), name, 0.0)
            return module_class.forward(self, *inputs, **named)

        return type(module_class.__name__, (module_class,), {"forward": forward})

    def settings(module: nn.Module) -> dict[str, float | bool]:
        parts = [(f"{name}.".lstrip("."), vars(part)) for name, part in module.named_modules()]
        return {f"{n}{key}": v for n, own in parts for key, v in own.items() if isinstance(v, float | bool)}

    def verify(answer: Any, reference: Any) -> None:
        module = build(answer, **options).eval()
        before = settings(module)
        outcome(lambda f, x: f(x), module, (torch.randn(2, 5, options["dim"]),))
        if lost := [name for name, value in settings(module).items() if before.get(name, value) != value]:
            raise Mistake(
                f"a call in evaluation changes `self.{lost[0]}`, and so all that comes after it: set it in `__init__`"
            )

    return Demand(verify, {"a call in evaluation changes": list(map(forgets, rates))})


def any_device(case: tuple, why: str, *known: Any) -> Demand:
    """Demand that a function computes where its first argument lies.

    Args:
        case: arguments, of which the first lies there, and others on the CPU.
        why: says which tensor is not there, and what to write.
        known: answers that make a tensor on the CPU, wherever the inputs lie.
    """

    def verify(answer: Any, reference: Any) -> None:
        given = case[1:]
        demand_device(answer, reference, case[:1], lambda function, first: function(first, *given), why)

    return Demand(verify, {why: list(known)})


def demand(known: Known) -> Callable[[Callable[[Any], None]], Demand]:
    """Make a demand of the decorated function, which gets an answer and raises a `Mistake` if it breaks the demand."""
    return lambda verify: Demand(lambda answer, reference: verify(answer), known)
