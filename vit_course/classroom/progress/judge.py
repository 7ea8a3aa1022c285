"""Check what one student handed in, in a process of its own: nothing that it does reaches the one that asks.

The process sends lines of JSON, never pickles: to read those would run code of a student here. What comes is judged as
anything from outside is.
"""

import ast
import contextlib
import importlib
import inspect
import json
import linecache
import multiprocessing
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import PurePosixPath
from typing import Any

import torch

from vit_course.classroom.checks.diagnosis import diagnose, found
from vit_course.classroom.checks.guard import TimeLimit, untouched
from vit_course.classroom.checks.registry import EXERCISES
from vit_course.classroom.checks.source import resolved
from vit_course.classroom.checks.words import explain_error
from vit_course.classroom.progress.confine import confine
from vit_course.classroom.progress.extract import NoNotebook, answers_in
from vit_course.classroom.progress.tasks import read_starters

METHODS = multiprocessing.get_all_start_methods()
START = multiprocessing.get_context("forkserver" if "forkserver" in METHODS else "spawn")
if "forkserver" in METHODS:
    START.set_forkserver_preload(["vit_course.classroom.progress.warm"])
STARTERS = read_starters()
KINDS = ("right", "wrong", "unfinished", "stopped")
LONGEST = 100_000
START_SECONDS = 60.0
"""So long a process may take to begin and to read files, on a slow machine."""
TRIES = 3
"""A process that had to be ended is started again after the answer that it died of, so many times in all."""


@dataclass(frozen=True)
class Limits:
    """What an answer may take: seconds a call, seconds of all that one student handed in, megabytes of memory."""

    seconds: float = 5.0
    student: float = 120.0
    megabytes: int = 2048


@dataclass(frozen=True)
class Found:
    """What was found of one exercise: "right", "wrong", "unfinished" or "stopped", and the mistake by its name."""

    kind: str
    mistake: str = ""


@dataclass
class Judged:
    """What was found of all that one student handed in, by exercise, and what could not be read."""

    found: dict[str, Found] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def judge(files: Mapping[str, bytes], limits: Limits = Limits()) -> Judged:
    """Check all answers in some files, by name of the file: kept answers and notebooks."""
    judged, deadline = Judged(), time.monotonic() + limits.student
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="vit-course-", ignore_cleanup_errors=True) as folder:
            if run_process(folder, dict(files), judged, limits, deadline):
                return judged
    judged.notes.append(f"its process had to be ended {TRIES} times: the rest was not looked at")
    return judged


def run_process(
    folder: str, files: dict[str, bytes], judged: Judged, limits: Limits, deadline: float
) -> bool:
    """Go through the answers that are not judged yet, in a new process; tell whether there is no more to do."""
    ours, theirs = START.Pipe(duplex=False)
    given = theirs, folder, files, list(judged.found), limits
    process = START.Process(target=send_all, args=given, daemon=True)
    process.start()
    theirs.close()
    patience, current = START_SECONDS, ""
    try:
        while ours.poll(max(0.0, min(patience, deadline - time.monotonic()))):
            message = json.loads(ours.recv_bytes(LONGEST))
            kind, current = str(message["kind"]), str(message["name"])
            if kind == "end":
                return True
            note_down(kind, current, str(message["text"]), judged)
            patience = 4 * limits.seconds
        if time.monotonic() >= deadline:
            judged.notes.append(f"more than {limits.student:g} seconds in all: the rest was not looked at")
            return True
        why = f"it was still running after {patience:g} seconds and would not stop"
    except EOFError:
        why = "it ended its process"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        why = "its process wrote nonsense"
    finally:
        end(process)
        ours.close()
    if current in EXERCISES and current not in judged.found:
        judged.found[current] = Found("stopped", why)
    else:
        judged.notes.append(why)
    return False


def note_down(kind: str, name: str, text: str, judged: Judged) -> None:
    """Note what the process says; what it says of no exercise is a note."""
    if kind == "note":
        judged.notes.append(text)
    elif name in EXERCISES and kind in KINDS:
        judged.found[name] = Found(kind, text)
    elif kind != "begin":
        raise ValueError(kind)


def end(process: Any) -> None:
    """End a process and all that it started."""
    with contextlib.suppress(OSError, AttributeError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


# -- in the process


def send_all(
    connection: Connection, folder: str, files: dict[str, bytes], known: list[str], limits: Limits
) -> None:
    """Check all answers but those that are known, and send what is found of each."""
    confine(folder, limits.student, limits.megabytes)
    os.environ["VIT_COURSE_CHECK_SECONDS"] = str(limits.seconds)

    def send(kind: str, name: str = "", text: str = "") -> None:
        connection.send_bytes(
            json.dumps({"kind": kind, "name": name, "text": text[: LONGEST // 20]}).encode()
        )

    answers: dict[str, list[str]] = {}
    for path, content in files.items():
        try:
            for name, text in read_answers(path, content):
                answers.setdefault(name, []).append(text)
        except NoNotebook as why:
            if not known:
                send("note", text=f"{path}: {why}")
    for name in (name for name in EXERCISES if name in answers and name not in known):
        send("begin", name)
        all_found = [judge_text(name, text) for text in dict.fromkeys(answers[name])]
        best = min(all_found, key=lambda one: KINDS.index(one.kind))
        send(best.kind, name, best.mistake)
    send("end")
    os._exit(0)  # a thread that an answer left behind is not waited for


def read_answers(path: str, content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the exercises of a file, each with the source of its answer."""
    name = PurePosixPath(path)
    if name.suffix == ".ipynb":
        yield from answers_in(content).items()
    elif name.stem in EXERCISES:
        yield name.stem, content.decode(errors="replace")


def judge_text(name: str, text: str) -> Found:
    """Run the source of an answer and check what it defines."""
    file, space, limit = f"<{name}>", {"__name__": f"answers.{name}"}, TimeLimit()
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    try:
        with untouched(), limit:
            exec(compile(text, file, "exec", dont_inherit=True), space)
    except BaseException as error:
        if isinstance(error, Exception):
            return Found("wrong", first_sentence(f"its cell or file stops with {explain_error(error)}"))
        return Found("wrong", first_sentence(found(error, limit.seconds)))
    if name not in space:
        return Found("wrong", "nothing of this name is defined")
    tree = ast.parse(text)
    if words := use_of_finished(tree, space, name):
        return Found("wrong", f"it uses the finished version: `{words}`")
    verdict = diagnose(space[name], name)
    if verdict.kind in ("right", "unfinished"):
        return Found(verdict.kind)
    if same_body(tree, name):
        return Found("unfinished")
    said = first_sentence(verdict.message)
    known = (
        words for words, _ in EXERCISES[name].mistakes() if words in verdict.message and words not in said
    )
    return Found("wrong", first_sentence(next(known, said)))


def same_body(tree: ast.Module, name: str) -> bool:
    """Tell whether an answer is still the code that was to be mended, where the exercise begins with some."""
    if not (starter := STARTERS.get(name)):
        return False
    module, _, function = starter.partition(":")
    given = ast.parse(inspect.getsource(getattr(importlib.import_module(module), function)))
    return statements(given, function) == statements(tree, name)


def statements(tree: ast.Module, name: str) -> list[str]:
    """Return the last function of this name in a file, statement by statement, without its docstring."""
    bodies = [node.body for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    body = bodies[-1] if bodies else []
    said = body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    return [ast.dump(node) for node in (body[1:] if said else body)]


def use_of_finished(tree: ast.AST, space: dict[str, Any], name: str) -> str:
    """Return the words with which an answer takes the finished version of its exercise; "" if it does not."""
    finished = EXERCISES[name].reference
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vit_course"):
            if finished.__module__ == node.module and {"*", name} & {alias.name for alias in node.names}:
                return ast.unparse(node)
        if isinstance(node, ast.Name | ast.Attribute) and resolved(node, space) is finished:
            return ast.unparse(node)
    return name if space[name] is finished else ""


def first_sentence(text: str) -> str:
    """Return what stands before the first end of a sentence or line."""
    return re.split(r"(?<=[.!?])\s|:?\n", text.strip(), maxsplit=1)[0].rstrip(".")


def get_ready() -> None:
    """Load all checks, on one thread: processes made of this one afterwards begin with them loaded."""
    torch.set_num_threads(1)
    for name in EXERCISES:
        with contextlib.suppress(Exception):  # to check that one says why
            EXERCISES[name]
