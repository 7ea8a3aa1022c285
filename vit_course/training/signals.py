"""What ends a run early: a signal that asks for it, and a device without memory. `train` uses both."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Ctrl-C, the polite kill of a scheduler, a closed terminal; Windows has no SIGHUP."""


class Stopped(KeyboardInterrupt):
    """A training that somebody stopped: an error, so that no cell below takes what there is for a result."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows of it: what happened, and no lines of code."""
        return [f"\x1b[1;31mSTOPPED\x1b[0m {self}"]


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Turn the first signal into a question that the loop asks between two steps; the second one acts at once.

    Under `torchrun` it does not: a Ctrl-C arrives twice there, from the terminal and from `torchrun`, which itself ends
    a process that takes too long.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def note(signum: int, frame: object) -> None:
        asked.set()
        if "LOCAL_RANK" not in os.environ:
            signal.signal(signum, before[signum])

    ignored = signal.SIG_IGN, None  # by `nohup`, or by a handler that is not Python's
    before = {n: signal.signal(n, note) for n in SIGNALS if signal.getsignal(n) not in ignored}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def explain_out_of_memory(batch_size: int) -> Iterator[None]:
    """Turn the many out-of-memory errors of torch into one that says what to do."""
    try:
        yield
    except RuntimeError as error:
        if not any(sign in str(error) for sign in ("out of memory", "allocate memory", "not enough memory")):
            raise
        smaller = f"try {max(1, batch_size // 2)}, or a smaller model"
        first = "(after an interrupted run in a notebook, restart the kernel first)"
        raise MemoryError(f"out of memory at batch_size {batch_size}: {smaller} {first}") from error
