"""A wrong answer, its results and the wanted ones, and what more calls need."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any

from vit_classroom.checks.outcome import outcome


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
