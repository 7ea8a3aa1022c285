"""The verdict on an answer: `check`, the last line of every exercise, and what it leaves: a box, data, a file."""

import os
from dataclasses import replace
from typing import Any

from vit_classroom.answer_folder import KINDS, MIME, Mark, mark, marks_in, read_log, write_log
from vit_classroom.checks.diagnosis import FINISHED, Verdict, diagnose
from vit_classroom.checks.guard import TimeLimit
from vit_classroom.checks.saved_answers import keep_and_tell
from vit_classroom.checks.verdict_html import LABELS, box_html
from vit_classroom.notebook import cell_that_runs, in_notebook
from vit_classroom.tasks import read_lessons

GOES_ON = "The lesson goes on with the finished version; change your cell and run it again."
RIGHT: set[str] = set()
"""The exercises that were right in this process."""


class CheckFailed(AssertionError):
    """Raised for a wrong or missing answer when VIT_COURSE_STRICT=1."""


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
    if strict and verdict.kind != "right" and verdict.message != FINISHED:
        raise CheckFailed(verdict.message)
    if TimeLimit.running:  # an answer that is being checked calls the check
        return answer
    made = None if strict else note(verdict)
    if made and made.verdict == "right":
        verdict = replace(verdict, message=verdict.message + keep_and_tell(verdict.exercise.name, answer))
    say(verdict, made)
    return verdict.exercise.reference if verdict.kind in ("wrong", "unfinished", "stopped") else answer


def note(verdict: Verdict) -> Mark | None:
    """Write a verdict into the log, and return it as data; None if it says nothing about the answer."""
    if verdict.kind not in KINDS:
        return None
    said = verdict.mistake or verdict.message.partition("\n")[0] if verdict.kind == "wrong" else ""
    made = mark(verdict.exercise.name, verdict.kind, said, cell_that_runs())
    if in_notebook() or os.environ.get("VIT_COURSE_ANSWERS"):
        write_log(made.data)
    return made


def done_in_lesson(name: str) -> str:
    """Say how many exercises of this one's lesson have been right so far, by the log and in this process."""
    lesson = next(lesson for lesson in read_lessons() if name in lesson.names)
    right = RIGHT | {made.exercise for made in marks_in(read_log()) if made.verdict == "right"}
    return f"{lesson.solved(right)} of {len(lesson.tasks)} done in this lesson"


def say(verdict: Verdict, made: Mark | None) -> None:
    """Show a verdict: a box in a notebook, lines of text elsewhere; `made` is the verdict as data, if it is noted."""
    name = verdict.exercise.name if verdict.exercise else "check"
    if made and made.verdict == "right":
        RIGHT.add(name)
    done = done_in_lesson(name) if made else ""
    after = GOES_ON if verdict.kind == "wrong" else ""
    printed = f"Your code printed:\n{verdict.printed}" if verdict.printed else ""
    text = f"[{LABELS[verdict.kind]}] {name}: {verdict.message}"
    text = "\n".join(filter(None, [text, printed, after, f"({done})" if done else ""]))
    if not in_notebook():
        print(text)
        return
    from IPython.display import display

    html = box_html(verdict.kind, name, verdict.message, verdict.printed, after, done)
    data = {"text/plain": text, "text/html": html}
    display(data | ({MIME: made.data} if made else {}), raw=True)
