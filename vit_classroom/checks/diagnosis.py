"""The diagnosis of an answer: what its check finds, in words, whatever the answer does."""

import difflib
import inspect
import re
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

from vit_classroom.checks.explain.defaults import demand_defaults
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.guard import OutOfTime, TimeLimit, untouched
from vit_classroom.checks.outcome import GRADIENTS_OFF, Mistake, Unfinished
from vit_classroom.checks.registry import EXERCISES
from vit_classroom.checks.repair import SECONDS, repair
from vit_classroom.checks.task import Exercise
from vit_classroom.checks.words import error_text, is_students, students_line
from vit_classroom.notebook import in_notebook
from vit_course.training.console import progress_bar
from vit_course.training.kernel import somebody_looks

LONGEST = 4000
"""A message has at most about so many characters."""
FINISHED = (
    "this is the course's finished version, or calls it: the lesson goes on with it until you write your own"
)
SEEDED = (
    "right, but your code sets the seed of all random numbers, so whatever is drawn after it, here and in other cells, "
    "is the same each time: a seed is set once, by whoever runs the whole"
)
READY_MADE = {"MultiheadAttention", "TransformerEncoderLayer", "TransformerEncoder"}
SLOW_PART = "torch._dynamo"
FIRST = "The first check of a notebook loads a part of PyTorch: this takes a few seconds, once."
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
    load_first()
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
        if words := ready_made(answer, task) or change_that_helps(answer, task, quick=named):
            message, named = f"{words}\n{message}", True
        mistake = (
            TOO_SLOW[error.reason]
            if isinstance(error, OutOfTime)
            else name_of(message, task)
            if named
            else ""
        )
        return Verdict("wrong", message, task, named, mistake, getattr(error, "printed", limit.printed.end()))
    if is_finished(answer, task.reference) or calls_finished(answer, task):
        return Verdict("unfinished", FINISHED, task)
    return Verdict("right", "your own version is used from here on", task)


def ready_made(answer: Any, task: Exercise) -> str:
    """Name the layer of PyTorch that a wrong answer has in the place of what is to be written; "" if it has none."""
    used = {name for code in codes_of(answer) for name in code.co_names} if inspect.isclass(answer) else set()
    if found := sorted(used & READY_MADE):
        return (
            f"`nn.{found[0]}` makes weights of its own, by other names: build `{task.name}` from your own functions, "
            "with the weights that the docstring names"
        )
    return ""


def change_that_helps(answer: Any, task: Exercise, quick: bool) -> str:
    """Say which one change of an answer's text the check would accept; "" if none is found soon."""
    limit = TimeLimit(4 * SECONDS)
    try:
        with untouched(limit.printed), limit:
            return repair(answer, task.verify, quick)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and limit.stopped_by_user:
            raise
        return ""


def load_first() -> None:
    """Load what optimisers and the device "meta" load: it takes seconds, which are no time of the student's.

    In a notebook a line says so until it is done.
    """
    if SLOW_PART in sys.modules:
        return
    with progress_bar(
        desc=FIRST, total=1, bar_format="{desc}", disable=not (in_notebook() and somebody_looks())
    ):
        import_module(SLOW_PART)


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


def is_finished(answer: Any, finished: Any) -> bool:
    """Tell whether an answer is the finished version itself: wrapped, copied, or a subclass that adds nothing."""
    while hasattr(answer, "func"):  # partial, however often
        answer = answer.func
    answer = inspect.unwrap(answer)
    if inspect.isclass(answer) and issubclass(answer, finished if inspect.isclass(finished) else ()):
        return answer is finished or not any(map(inspect.isfunction, vars(answer).values()))
    return getattr(answer, "__code__", answer) is getattr(inspect.unwrap(finished), "__code__", finished)


def calls_finished(answer: Any, task: Exercise) -> bool:
    """Tell whether an answer that is right runs code of the finished version, by whatever name it comes to it.

    The check is run once more, and every call is looked at: one of the finished code counts that a student's code
    has made, itself or through others. The checks call the finished version, too.
    """
    here, seen = sys._getframe(), []
    places = {(code.co_filename, code.co_firstlineno) for code in codes_of(task.reference)}
    limit = TimeLimit()

    def notice(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or (code.co_filename, code.co_firstlineno) not in places or seen:
            return
        caller = frame.f_back
        while caller not in (None, here):
            if is_students(Path(caller.f_code.co_filename)):
                seen.append(frame)
                return
            caller = caller.f_back

    before = sys.getprofile()
    try:
        with untouched(limit.printed), limit:
            sys.setprofile(notice)
            task.verify(answer)
    except BaseException as error:  # it was right a moment ago
        if isinstance(error, KeyboardInterrupt) and limit.stopped_by_user:
            raise
    finally:
        sys.setprofile(before)
    return bool(seen)


def codes_of(finished: Any) -> list[CodeType]:
    """Return the code of a function, or of all methods of a class."""
    made = vars(finished).values() if inspect.isclass(finished) else [finished]
    functions = [inspect.unwrap(getattr(one, "__func__", one)) for one in made if callable(one)]
    return [one.__code__ for one in functions if inspect.isfunction(one)]


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
