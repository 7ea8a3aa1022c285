"""What runs a student's code without letting it out: a time limit, and everything it changed put back afterwards."""

import _thread
import builtins
import contextlib
import inspect
import io
import itertools
import math
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

import einops
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_classroom import PACKAGES
from vit_classroom.checks.words import is_students

SECONDS = 8.0
"""How long the check of an answer may take; $VIT_COURSE_CHECK_SECONDS says another number, 0 for no limit."""
SHOWN = 10_000
"""So many characters that an answer prints in one call are remembered, the last ones."""

ALWAYS_RESTORED = ((random.getstate, random.setstate), (np.random.get_state, np.random.set_state))
RESTORED_IF_CHANGED = (
    (os.getcwd, os.chdir),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        lambda mode: torch.use_deterministic_algorithms(mode[0], warn_only=mode[1]),
    ),
)
INHERITED = object()
"""Stands for what a class had from its base."""
PATCHABLE = (builtins, math, random, einops, torch, torch.linalg, nn, F, nn.init, Tensor)


class OutOfTime(BaseException):
    """A check took longer than the limit. No `Exception`, so that no `except Exception` hides it.

    Attributes:
        reason: "computes" or "waits" if the answer is slow, "laden" if the machine may have had no time for it.
        where: names the call that did not come back, or "".
    """

    def __init__(self, limit: "TimeLimit", reason: str):
        super().__init__()
        self.limit, self.reason, self.where = limit, reason, ""

    def __del__(self) -> None:
        """An answer that swallowed it, by `except BaseException`, is stopped at its next line."""
        self.limit.insist(sys._getframe(1))


class TimeLimit:
    """A limit for the check of an answer within a `with` block, and the memory of a Ctrl-C that came from the user.

    A thread looks at the clock and sends the main thread the signal of Ctrl-C; the handler of this class raises
    `OutOfTime` if a student's code is running just then. A real Ctrl-C goes where it would go without the limit. There
    is no limit outside the main thread, nor while one call into compiled code lasts.
    """

    running: "TimeLimit | None" = None

    def __init__(self, seconds: float | None = None):
        self.seconds = seconds_allowed() if seconds is None else seconds
        self.stopped_by_user = False
        self.asked = self.insisting = False
        self.over = threading.Event()
        self.printed = Printed()
        self.calls: list[tuple[float, float]] = []
        self.seeded = False

    def __enter__(self) -> "TimeLimit":
        self.outer, TimeLimit.running = TimeLimit.running, self
        self.frame = sys._getframe(1)
        self.installed = threading.current_thread() is threading.main_thread()
        self.end, self.tracing = time.monotonic() + self.seconds, sys.gettrace()
        self.begin_call()
        if self.installed:
            self.before = signal.signal(signal.SIGINT, self.on_interrupt)
            self.watch = threading.Thread(target=self.look_at_the_clock, daemon=True)
            self.watch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        TimeLimit.running = self.outer
        if not self.installed:
            return
        if sys.gettrace() is not self.tracing:
            sys.settrace(self.tracing)
        self.watch.join()
        patience = time.monotonic() + 1
        while self.asked and time.monotonic() < patience:  # a signal on its way must not arrive in other code
            time.sleep(0.001)
        signal.signal(signal.SIGINT, signal.default_int_handler if self.before is None else self.before)

    @property
    def is_up(self) -> bool:
        """Whether the time is over."""
        return 0 < self.seconds and time.monotonic() > self.end

    def begin_call(self) -> None:
        """Another call of the answer begins, and prints from now on.

        Raises:
            OutOfTime: if the time is over.
        """
        if self.calls and self.installed and self.is_up:
            raise OutOfTime(self, self.reason())
        self.printed.forget()
        self.calls.append((time.monotonic(), time.thread_time()))

    def reason(self) -> str:
        """Say what the slowest call did with the time: "computes", "waits", or "laden", where others computed."""
        points = [*self.calls, (time.monotonic(), time.thread_time())]
        calls = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(points)]
        if max(own for _, own in calls) > self.seconds / 8:
            return "computes"
        return (
            "waits" if any(own < clock / 50 and clock > self.seconds / 4 for clock, own in calls) else "laden"
        )

    def look_at_the_clock(self) -> None:
        """Ask the main thread to stop once the time is up, and again while it does not."""
        while self.seconds > 0 and not self.over.wait(max(0.05, self.end - time.monotonic())):
            if self.is_up and not self.asked:
                self.asked = True
                if hasattr(signal, "pthread_kill"):  # wakes `sleep` too
                    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                else:
                    _thread.interrupt_main()

    def on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Tell the clock from the user, and stop a student's code alone."""
        if self.asked:
            self.asked = False
            if not (self.over.is_set() or self.insisting) and self.students_frames(frame):
                self.insist(frame)
                raise OutOfTime(self, self.reason())
            return
        self.stopped_by_user = True
        if callable(self.before):
            self.before(number, frame)
        elif self.before != signal.SIG_IGN:
            raise KeyboardInterrupt

    def students_frames(self, frame: FrameType | None) -> list[FrameType]:
        """List the calls from within this block that run code of a student."""
        found = []
        while frame is not None and frame is not self.frame:
            found += [frame] if is_students(Path(frame.f_code.co_filename)) else []
            frame = frame.f_back
        return found

    def insist(self, frame: FrameType | None) -> None:
        """Stop a student's code at every line that it goes on to: `except BaseException` hides one error, not all."""
        if self.over.is_set() or self.insisting:
            return
        self.insisting = True
        sys.settrace(None)
        for one in self.students_frames(frame):
            one.f_trace = self.stop_at_a_line
        sys.settrace(self.stop_at_a_line)
        self.insisting = False

    def stop_at_a_line(self, frame: FrameType, event: str, _: Any) -> Any:
        """Raise `OutOfTime` at a student's line; Python forgets this function when it does."""
        if event == "line" and not self.over.is_set() and is_students(Path(frame.f_code.co_filename)):
            raise OutOfTime(self, self.reason())
        return self.stop_at_a_line


class Printed(io.StringIO):
    """What an answer prints in one call, as much as one reads."""

    def write(self, text: str) -> int:
        """Take a text; of much the last characters stay."""
        if self.tell() > 10 * SHOWN:
            end = self.getvalue()[-SHOWN:]
            self.forget()
            super().write(end)
        return super().write(text)

    def forget(self) -> None:
        """Begin anew."""
        self.seek(0)
        self.truncate()

    def end(self, lines: int = 8, characters: int = 200) -> str:
        """Return the last lines, long ones shortened."""
        rows = self.getvalue()[-SHOWN:].rstrip().splitlines()[-lines:]
        return "\n".join(row if len(row) <= characters else f"{row[:characters]} ..." for row in rows)


def seconds_allowed() -> float:
    """Return the time limit for the check of an answer in seconds."""
    try:
        return float(os.environ.get("VIT_COURSE_CHECK_SECONDS") or SECONDS)
    except ValueError:
        return SECONDS


def begin_call() -> None:
    """Tell the time limit, if there is one, that another call of the answer begins."""
    if TimeLimit.running:
        TimeLimit.running.begin_call()


def printed() -> str:
    """Return the last lines that the last call of the answer printed."""
    return TimeLimit.running.printed.end() if TimeLimit.running else ""


@contextlib.contextmanager
def untouched(printed: io.StringIO | None = None) -> Iterator[None]:
    """Run the block as in a fresh process, and put back what it changed; what is printed goes into `printed` alone.

    Put back are: the random states of Python, numpy and torch (CPU and CUDA); torch's default dtype and device, grad
    mode, deterministic mode, anomaly mode and number of threads; the recursion limit; the working directory; warning
    filters, stdout and stderr; functions and classes replaced in torch, einops, math, builtins and this package, and
    methods replaced in their classes. Not put back: environment variables, files, and objects changed in place.
    """
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    printed = printed or io.StringIO()
    with (
        contextlib.ExitStack() as stack,
        torch.random.fork_rng(devices=list(gpus)),
        torch.enable_grad(),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        if not gpus and torch.cuda.is_available():  # a seed of an answer waits for the first use of the GPU
            stack.callback(lambda: torch.cuda.manual_seed_all(torch.initial_seed()))
        for get, put in (*ALWAYS_RESTORED, *RESTORED_IF_CHANGED):
            with contextlib.suppress(OSError):  # a working directory that somebody deleted
                stack.callback(put_back, get, put, get(), (get, put) in ALWAYS_RESTORED)
        stack.callback(put_patched_back, snapshot())
        torch.manual_seed, torch.seed = map(watched, (torch.manual_seed, torch.seed))
        stack.enter_context(cpu_as_default())
        warnings.simplefilter("ignore")
        torch.set_default_dtype(torch.float32)
        torch.default_generator.manual_seed(0)  # answers run on the CPU
        random.seed(0)
        np.random.seed(0)
        yield


def watched(seed: Any) -> Any:
    """Return a function that sets a seed, and tells the time limit if a student's code sets it for good."""

    def call(*number: int) -> Any:
        code = sys._getframe(1).f_code
        if TimeLimit.running and is_students(Path(code.co_filename)):
            TimeLimit.running.seeded |= not {"fork_rng", "set_rng_state"} & {*code.co_names}
        return seed(*number)

    return call


def put_back(get: Any, put: Any, value: Any, always: bool) -> None:
    """Give a setting its old value; one that refuses must not keep the others from theirs."""
    with contextlib.suppress(Exception):
        if always or get() != value:
            put(value)


@contextlib.contextmanager
def cpu_as_default() -> Iterator[None]:
    """Make new tensors on the CPU, and afterwards where they were made before."""
    before = torch.get_default_device()
    if before.type != "cpu":
        torch.set_default_device(None)
    try:
        with contextlib.ExitStack() as stack:
            # The check may stand in a block `with torch.device(...)`.
            if torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
            yield
    finally:
        if torch.get_default_device() != before:
            torch.set_default_device(None if before.type == "cpu" else before)


@lru_cache(maxsize=1)
def owners(loaded: int) -> list[Any]:
    """Return the modules and classes whose functions an answer might replace; they change when modules are loaded."""
    modules = [m for name, m in list(sys.modules.items()) if m and name.partition(".")[0] in PACKAGES]
    found = {id(owner): owner for owner in (*PATCHABLE, *modules)}
    for module in (nn, *modules):
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__.startswith(("torch.nn", *PACKAGES)):
                found[id(value)] = value
    return list(found.values())


Snapshot = list[tuple[Any, dict[str, Any]]]
"""What modules and classes held, to be compared with what they hold later."""


def snapshot() -> Snapshot:
    """Note what an answer might replace."""
    return [(owner, dict(vars(owner))) for owner in owners(len(sys.modules))]


def patched(before: Snapshot) -> Iterator[tuple[Any, str, Any]]:
    """Yield every function that was replaced, hidden or deleted, as (owner, name, what it was)."""
    for owner, names in before:
        now = vars(owner)
        with contextlib.suppress(Exception):  # of a value that cannot be compared
            if now == names:
                continue
        for name in [name for name, old in names.items() if now.get(name) is not old]:
            old, new = names[name], now.get(name)
            function = callable(old) or isinstance(old, staticmethod | classmethod | property)
            if function and not (is_torchs(new) and inspect.unwrap(new) is old):
                yield owner, name, old
        for name in now.keys() - names.keys() if isinstance(owner, type) else ():
            inherited = any(name in vars(base) for base in owner.__mro__[1:])
            if inherited and (callable(now[name]) or now[name] is None):
                yield owner, name, INHERITED


def put_patched_back(before: Snapshot) -> None:
    """Put back what was replaced, hidden or deleted; torch's own wrappers, made on first use, stay."""
    for owner, name, old in list(patched(before)):
        if old is INHERITED:
            delattr(owner, name)
            continue
        with contextlib.suppress(AttributeError, TypeError):
            setattr(owner, name, old)


def is_torchs(function: Any) -> bool:
    """Tell whether a function was written in torch."""
    code = getattr(function, "__code__", None)
    return code is not None and Path(torch.__file__).parent in Path(code.co_filename).parents
