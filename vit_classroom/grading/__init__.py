"""Points for what a student hands in: answers are judged by their text, in a process of their own.

`alone` judges. `nbgrader_run` runs a hand-in as nbgrader does, and then takes the verdicts from `alone`, because a
notebook can change the checks in its own kernel. `require_right` is what a hidden test of nbgrader calls.
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
