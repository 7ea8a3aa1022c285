"""A wrong answer, its results and the wanted ones, and what more calls need."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from typing import Any

from torch import nn

from vit_course.classroom.checks.guard import OutOfTime, restart_clock
from vit_course.classroom.checks.outcome import copy, outcome


@dataclass
class Trial:
    """An answer, its results, the wanted ones, and what is needed for further calls.

    Args:
        run: turns (function or class, *case) into a result.
        answer, reference: the student's function or class, and the finished one.
        cases: the arguments of each call.
        got, want: the results of the answer and of the finished version.
        wrong: indices of the cases in which they differ.
        ready: makes the module of (class, options of a case), with the wanted weights; None if functions are compared.
    """

    run: Callable
    answer: Callable
    reference: Callable
    cases: Sequence[tuple]
    got: Sequence[Any]
    want: Sequence[Any]
    wrong: Sequence[int]
    ready: Callable | None = None
    until: tuple[float, float] = (float("inf"), float("inf"))
    finished: dict[int, nn.Module] = field(default_factory=dict)
    first: dict[Any, Any] = field(default_factory=dict)

    def call(self, function: Callable, case: tuple) -> Any:
        """Return the outcome of one call more.

        Raises:
            TimeoutError: if calls have taken so long that a student would wait.
        """
        if perf_counter() > self.until[0]:
            raise TimeoutError
        return outcome(self.run, function, case)

    def start(self, seconds: float) -> None:
        """Give the next look so much time; calls of the answer by the clock, slips by the time of the processor."""
        self.until = perf_counter() + seconds, thread_time() + seconds

    @property
    def tired(self) -> bool:
        """Whether slips have taken so long that a student would wait; a busy machine does not count."""
        return thread_time() > self.until[1]

    @property
    def order(self) -> list[int]:
        """The cases, the wrong ones first."""
        return [*self.wrong, *(i for i in range(len(self.cases)) if i not in self.wrong)]

    def slipped(self, made: Any, i: int, anew: bool) -> Any:
        """Return what a finished version with a slip gives on a case: in the finished module, or in one built anew."""
        restart_clock()
        try:
            if self.ready is None or anew:
                return self.run(made, *copy(self.cases[i]))
            if i not in self.finished:
                self.finished[i] = self.ready(self.reference, self.cases[i][0]).eval()
            self.finished[i].__class__ = made
            return self.finished[i](*copy(tuple(self.cases[i][1:])))
        except Exception as error:
            return error
        except OutOfTime:
            return TimeoutError()
