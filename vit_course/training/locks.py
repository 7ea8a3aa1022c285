"""Locks between processes: what a process holds, the system frees when it dies, however that happens."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock


@contextmanager
def locked(path: Path, timeout: float = -1) -> Iterator[None]:
    """Let one of several processes do what is inside; the others wait, at most `timeout` seconds unless it is -1."""
    lock = FileLock(path)
    with suppress(NotImplementedError):  # some file systems of servers know no locks
        lock.acquire(timeout=timeout)
    try:
        yield
    finally:
        lock.release()
