"""The diagnosis of an answer: what its check finds, in words, whatever the answer does."""

import difflib
import dis
import inspect
import itertools
import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import nn

from vit_classroom.checks.explain.defaults import demand_defaults
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.guard import OutOfTime, TimeLimit, untouched
from vit_classroom.checks.outcome import GRADIENTS_OFF, Mistake, Unfinished
from vit_classroom.checks.registry import EXERCISES
from vit_classroom.checks.task import Exercise
from vit_classroom.checks.words import error_text, students_line

LONGEST = 4000
"""A message has at most about so many characters."""
FINISHED = "right, for it is the course's finished version or calls it: your own one takes its place when you write it"
SEEDED = (
    "right, but your code sets the seed of all random numbers, so whatever is drawn after it, here and in other cells, "
    "is the same each time: a seed is set once, by whoever runs the whole"
)
TOO_SLOW = {"computes": "a loop that never ends", "waits": "`sleep`, `input` or another call that waits"}
NOT_FINISHED = (
    "not finished: the check was not over after {:g} seconds, because the computer was busy with something else. That "
    "says nothing about your answer: run the cell again"
)


@dataclass(frozen=True)
class Verdict:
    """The outcome of a check.

    Attributes:
        kind: "right", "unfinished", "wrong", "stopped" (the machine was too busy to find out) or "unknown".
        message: what a student reads.
        exercise: the exercise, None if it is unknown.
        named: whether the message says a cause, and not numbers, a shape or the text of an error alone.
        mistake: the name of the cause, the same for all answers that have it; "" where none is known.
        printed: the last lines that a wrong answer printed, in the call that the message speaks of.
    """

    kind: str
    message: str
    exercise: Exercise | None = None
    named: bool = True
    mistake: str = ""
    printed: str = ""


def diagnose(answer: Any, exercise: str | None = None) -> Verdict:
    """Find out whether an answer is right, without printing, without raising, and leaving everything as it was.

    Raises:
        KeyboardInterrupt: only if the user interrupts.
    """
    name = str(exercise or getattr(answer, "__name__", type(answer).__name__))
    if not EXERCISES:
        where = "the checks lie with the lessons, and these are not here"
        return Verdict("unknown", f"{where}: get the folder of the course, and install it from there")
    if name not in EXERCISES:
        return Verdict("unknown", unknown(answer, name))
    task = EXERCISES[name]
    if words := no_answer(answer, task):
        return Verdict("wrong", words, task)
    # Optimisers and the device "meta" load it, in seconds that are no time of the student's.
    import_module("torch._dynamo")
    limit = TimeLimit()
    try:
        with untouched(limit.printed), limit:
            demand_defaults(answer, task.reference)  # another default could look like another mistake
            task.verify(answer)
            if limit.seeded or not torch.is_grad_enabled():
                raise Mistake(SEEDED if limit.seeded else GRADIENTS_OFF)
    except Unfinished:
        words = (
            "the lesson goes on with the finished version (your code comes to `raise NotImplementedError`)"
        )
        return Verdict("unfinished", words, task)
    except BaseException as error:  # whatever an answer does, a check never raises
        if isinstance(error, KeyboardInterrupt) and limit.stopped_by_user:
            raise
        if isinstance(error, Exception) and not isinstance(error, Mistake) and students_line(error):
            error = stopped(error)  # a demand called it in a way of its own
        if isinstance(error, OutOfTime) and error.reason == "laden":
            return Verdict("stopped", NOT_FINISHED.format(limit.seconds), task)
        named = getattr(error, "named", not isinstance(error, Exception))
        message = shortened(found(error, limit.seconds))
        mistake = (
            TOO_SLOW[error.reason]
            if isinstance(error, OutOfTime)
            else name_of(message, task)
            if named
            else ""
        )
        return Verdict("wrong", message, task, named, mistake, getattr(error, "printed", limit.printed.end()))
    own = "your own version is used from here on"
    return Verdict("right", FINISHED if uses_finished(answer, task.reference) else own, task)


def unknown(answer: Any, name: str) -> str:
    """Say what to do where nothing says which exercise is meant."""
    if name == "<lambda>":
        return (
            'a lambda has no name: write `def merge_heads(...)`, or say the name, `check(f, "merge_heads")`'
        )
    if not callable(answer):
        return f"give a function or class of an exercise, `check(patchify)`, and not {answer!r:.60}"
    near = EXERCISES.nearest(name)
    advice = f"did you mean {near!r}?" if near else 'say which one it answers, `check(f, "patchify")`'
    return f"{name!r} is no exercise of this course; {advice}"


def no_answer(answer: Any, task: Exercise) -> str:
    """Say why something cannot be an answer: no function or class, or one whose methods have misspelt names."""
    name = task.name
    if not callable(answer):
        return f"give the function or class itself, check({name}), not a {type(answer).__name__}"
    if not inspect.isclass(task.reference):
        return ""
    if isinstance(answer, nn.Module):
        return f"give the class itself, check({name}), not an instance of it, {name}(...)"
    wanted = [method for method in ("__init__", "forward") if method in vars(task.reference)]
    mine = vars(answer) if inspect.isclass(answer) else {}
    for method in wanted:
        if getattr(answer, method, None) not in (None, getattr(nn.Module, method), object.__init__):
            continue  # written here, or in a base of the student's own
        near = difflib.get_close_matches(
            method, [own for own in mine if callable(mine[own])], n=1, cutoff=0.7
        )
        if near:
            return f"a name is misspelt: `{near[0]}` should be `{method}`, as PyTorch and Python call it"
    return ""


def uses_finished(answer: Any, finished: Any) -> bool:
    """Tell whether an answer is the finished version, a subclass that adds nothing, a copy, or calls it by name."""
    answer = inspect.unwrap(getattr(answer, "func", answer))
    functions = [answer]
    if inspect.isclass(answer):
        functions = [value for value in vars(answer).values() if inspect.isfunction(value)]
        if answer is finished or (issubclass(answer, finished) and not functions):
            return True
    for function in filter(inspect.isfunction, functions):
        if function.__code__ == getattr(finished, "__code__", None):
            return True
        steps = [(step.opname, step.argval) for step in dis.get_instructions(function)]
        scope = function.__globals__
        for (loads, name), (_, attribute) in itertools.pairwise(steps):
            value = scope.get(name) if loads == "LOAD_GLOBAL" else None
            if value is finished or (inspect.ismodule(value) and vars(value).get(attribute) is finished):
                return True
    return False


def found(error: BaseException, seconds: float) -> str:
    """Say what is wrong with an answer whose check ended with this error."""
    if isinstance(error, Mistake):
        return str(error)
    if isinstance(error, SystemExit):
        return "your code calls exit() or quit(), which ends the whole program: return a value, or raise an error"
    if isinstance(error, OutOfTime):
        did = "was still running" if error.reason == "computes" else "was still waiting, without computing,"
        return (
            f"your code {did} after {seconds:g} seconds{error.where}, where the finished version takes a moment: look "
            f"for {TOO_SLOW[error.reason]}{students_line(error)}"
        )
    if not isinstance(error, Exception):
        return (
            f"your code raises {error_text(error)}: no `except Exception` can catch that, so it would end the whole "
            f"program; raise a ValueError that says what is wrong{students_line(error)}"
        )
    return f"your result is of another kind than the docstring promises, so it cannot be compared: {error_text(error)}"


def name_of(message: str, task: Exercise) -> str:
    """Return the known words that a message holds, the longest, or what stands before its first end of a sentence."""
    said = re.split(r"(?<=[.!?])\s|:?\n", message.strip(), maxsplit=1)[0].rstrip(".")
    return max((words for words, _ in task.mistakes() if words in message), key=len, default=said)


def shortened(text: str) -> str:
    """Leave out the middle of a text that nobody would read to its end."""
    half = LONGEST // 2
    return (
        text
        if len(text) <= LONGEST
        else f"{text[:half]}\n[... {len(text) - LONGEST} characters ...]\n{text[-half:]}"
    )
