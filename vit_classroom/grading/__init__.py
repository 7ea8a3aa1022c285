"""Points for what a student hands in: answers are judged by their text, in a process of their own.

A notebook can change the checks in its own kernel, so `alone` decides. `require_right` is what a hidden test calls in
that kernel.
"""

from typing import Any


def require_right(answer: Any, exercise: str) -> None:
    """Insist that the check accepts an answer; the finished version is none.

    Raises:
        AssertionError: if it does not, in the words of the check.
    """
    from vit_classroom.checks import diagnose

    verdict = diagnose(answer, exercise)
    if verdict.kind != "right":
        raise AssertionError(f"{exercise}: {verdict.message}")
