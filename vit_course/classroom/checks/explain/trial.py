"""A wrong answer, its results and the wanted ones, and what more calls need."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from types import FrameType
from typing import Any

from torch import nn

from vit_course.classroom.checks.guard import OutOfTime, restart_clock
from vit_course.classroom.checks.outcome import copy, outcome

SLIPPED_FILE = "<the finished version with a slip>"
LINES = 20_000
"""So many lines a finished version with a slip may run for one case: a slip can make a loop that never ends."""


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
        if perf_counter() > self.until[0] or self.tired:
            raise TimeoutError
        return outcome(self.run, function, case)

    def start(self, seconds: float) -> None:
        """Give the next look so much of the processor's time; a busy machine does not count, but waiting does."""
        self.until = perf_counter() + 5 * seconds, thread_time() + seconds

    @property
    def tired(self) -> bool:
        """Whether a look has computed for so long that a student would wait."""
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
                with few_lines():
                    return self.run(made, *copy(self.cases[i]))
            if i not in self.finished:
                self.finished[i] = self.ready(self.reference, self.cases[i][0]).eval()
            self.finished[i].__class__ = made
            with few_lines():
                return self.finished[i](*copy(tuple(self.cases[i][1:])))
        except Exception as error:
            return error
        except OutOfTime:
            return TimeoutError()


@contextmanager
def few_lines() -> Iterator[None]:
    """Stop code with a slip that runs too many lines, by an `OutOfTime`."""
    left = LINES

    def line(frame: FrameType, event: str, argument: object) -> Callable:
        nonlocal left
        left -= 1
        if left < 0:
            raise OutOfTime
        return line

    def call(frame: FrameType, event: str, argument: object) -> Callable | None:
        return line if frame.f_code.co_filename == SLIPPED_FILE else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)
