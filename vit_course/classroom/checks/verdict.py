"""The verdict on an answer: `check`, the last line of every exercise, and what it shows."""

import inspect
import io
import os
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vit_course.classroom.checks.explain import demand_defaults
from vit_course.classroom.checks.kept import keep
from vit_course.classroom.checks.outcome import Mistake, Unfinished
from vit_course.classroom.checks.registry import EXERCISES, Exercise
from vit_course.classroom.notebook import in_notebook

KINDS = {
    "right": ("right", "#009E73"),
    "unfinished": ("not written yet", "#0072B2"),
    "wrong": ("not right yet", "#D55E00"),
    "unknown": ("not an exercise", "#767676"),
}


class CheckFailed(AssertionError):
    """Raised for a wrong or missing answer when VIT_COURSE_STRICT=1."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a check: kind is "right", "unfinished", "wrong" or "unknown"."""

    kind: str
    message: str
    exercise: Exercise | None = None


def check(answer: Any, exercise: str | None = None) -> Any:
    """Check the answer of an exercise, say what was found, and hand on what the lesson goes on with.

    Args:
        answer: the student's function or class.
        exercise: name of the exercise; by default the name of the function or class.

    Returns:
        The answer itself if it is right, else the finished version.

    Raises:
        CheckFailed: only when VIT_COURSE_STRICT=1, for any answer that is not right.
    """
    verdict = diagnose(answer, exercise)
    strict = os.environ.get("VIT_COURSE_STRICT") == "1"
    if strict and verdict.kind != "right":
        raise CheckFailed(verdict.message)
    say(verdict)
    if verdict.kind in ("wrong", "unfinished"):
        return verdict.exercise.reference
    if verdict.kind == "right" and not strict:
        keep(verdict.exercise.name, answer)
    return answer


def diagnose(answer: Any, exercise: str | None = None) -> Verdict:
    """Find out whether an answer is right, without printing, without raising, and leaving torch as it was."""
    name = exercise or getattr(answer, "__name__", type(answer).__name__)
    if name not in EXERCISES:
        return Verdict("unknown", f"{name!r} is no exercise of this course; known: {', '.join(EXERCISES)}")
    task = EXERCISES[name]
    if not callable(answer):
        kind = type(answer).__name__
        return Verdict("wrong", f"give the function or class itself, check({name}), not a {kind}", task)
    if inspect.isclass(task.reference) and isinstance(answer, nn.Module):
        return Verdict(
            "wrong", f"give the class itself, check({name}), not an instance of it, {name}(...)", task
        )
    default_dtype = torch.get_default_dtype()
    try:
        with (
            torch.random.fork_rng(devices=[]),
            torch.enable_grad(),
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            torch.set_default_dtype(torch.float32)
            torch.manual_seed(0)
            task.verify(answer)
            demand_defaults(answer, task.reference)
    except Unfinished:
        return Verdict("unfinished", "the lesson goes on with the finished version", task)
    except Mistake as mistake:
        return Verdict("wrong", str(mistake), task)
    except SystemExit:
        return Verdict(
            "wrong",
            "your code calls exit() or quit(), which ends the whole program: return a value, or raise an error",
            task,
        )
    except Exception as error:  # whatever an answer returns, a check never raises
        return Verdict(
            "wrong", f"the check could not read your result: {type(error).__name__}: {error}", task
        )
    finally:
        torch.set_default_dtype(default_dtype)
    return Verdict("right", "your own version is used from here on", task)


def say(verdict: Verdict) -> None:
    """Show a verdict: a box in a notebook, a line of text elsewhere."""
    label, colour = KINDS[verdict.kind]
    name = verdict.exercise.name if verdict.exercise else "check"
    text = f"[{label}] {name}: {verdict.message}"
    if verdict.kind == "wrong":
        text += "\nThe lesson goes on with the finished version; change your cell and run it again."
    if not in_notebook():
        print(text)
        return
    from html import escape

    from IPython.display import display

    body = escape(text).replace("\n", "<br>").replace("  ", "&nbsp; ")
    html = f'<div style="border-left: 5px solid {colour}; padding: 0.3em 0.8em">{body}</div>'
    display({"text/plain": text, "text/html": html}, raw=True)
