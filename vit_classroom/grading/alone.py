"""Judge answers by the text of a notebook's cells, in a fresh process: nothing of the notebook's kernel counts.

What a cell does beside defining the answer is not run. What an answer replaces in PyTorch or in the checks while it is
judged makes it wrong. A process that ends early has accepted no more than what it had said before.
"""

import json
import linecache
import secrets
import subprocess
import sys
from collections.abc import Sequence

from IPython.core.inputtransformer2 import TransformerManager

from vit_classroom.notebook import as_python
from vit_course.training.paths import ROOT

SECONDS = 180
"""The time for each answer of a notebook; what is not judged when all of it is over is not right."""
ENDED = "the process that checked it ended early: the code may call exit(), or never end"
REPLACED = "while it runs, your code replaces {}: an answer is a function or class, and changes nothing else"


def judge_all(answers: Sequence[tuple[str, list[str]]], seconds: float = SECONDS) -> dict[str, str]:
    """Judge answers in a process of their own.

    Args:
        answers: for each exercise its name, and the text of the code cells up to its answer.
        seconds: the time for each of them.

    Returns:
        By exercise why it is not right, in words for the student; "" where it is right.
    """
    token = secrets.token_hex(16)  # so that no line that an answer prints is taken for a verdict
    job = json.dumps({"token": token, "answers": answers})
    command = [sys.executable, "-m", "vit_classroom.grading"]
    try:
        run = subprocess.run(
            command, cwd=ROOT, input=job.encode(), stdout=subprocess.PIPE, timeout=seconds * len(answers)
        )
        printed = run.stdout
    except subprocess.TimeoutExpired as late:
        printed = late.stdout or b""
    lines = printed.decode(errors="replace").splitlines()
    said = dict(json.loads(line.removeprefix(token)) for line in lines if line.startswith(token))
    return {name: said.get(name, ENDED) for name, _ in answers}


def judge(exercise: str, cells: Sequence[str]) -> str:
    """Judge one answer in this process; return why it is not right, or ""."""
    from vit_classroom.checks.saved_answers import tried
    from vit_classroom.checks.source import CannotKeep, standing_alone

    try:
        text = standing_alone(exercise, [python for cell in cells if (python := readable(cell))])
        file = f"<{exercise}.py>"
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        answer = tried(exercise, text, file)
    except CannotKeep as why:
        return str(why)
    replaced = replaced_by(exercise, answer)
    return REPLACED.format(", ".join(replaced[:3])) if replaced else ""


def readable(cell: str) -> str:
    """Return the text of a cell as Python, without magics; "" if it is none."""
    try:
        return as_python(TransformerManager(), cell)
    except SyntaxError:
        return ""


def replaced_by(exercise: str, answer: object) -> list[str]:
    """Check an answer that was right once more, and name what it replaces in the checks and libraries meanwhile."""
    from vit_classroom.checks import EXERCISES
    from vit_classroom.checks.guard import TimeLimit, patched, snapshot, untouched

    names: list[str] = []
    try:
        with untouched(), TimeLimit():
            before = snapshot()
            try:
                EXERCISES[exercise].verify(answer)
            finally:
                names += [f"`{owner.__name__}.{name}`" for owner, name, _ in patched(before)]
    except BaseException as error:
        return names or [f"its own behaviour (`{type(error).__name__}` the second time)"]
    return names
