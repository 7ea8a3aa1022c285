"""The folder of a run: writable, its own, and never overwritten unasked. `train` uses it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from torch import nn

from vit_course.training.paths import require_writable

CHECKPOINT = "checkpoint.pt"


@contextmanager
def own_folder(folder: Path | None, resume: bool) -> Iterator[None]:
    """Keep a folder for one run while it runs; None keeps nothing.

    Raises:
        ValueError: if the folder holds a run that nobody wants to resume, or another run uses it now.
        OSError: if it cannot be written.
    """
    if folder is None:
        yield
        return
    if not resume and (folder / CHECKPOINT).exists():
        raise ValueError(f"{folder} holds a run: go on with it (resume), use another folder, or delete it")
    require_writable(folder)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
        for killed in folder.glob("checkpoint.*.part"):  # nobody else writes here now
            killed.unlink()
    except Timeout as error:
        raise ValueError(f"another run uses {folder} now: use another folder, or wait for it") from error
    except (OSError, NotImplementedError):
        pass  # some file systems of servers know no locks
    try:
        yield
    finally:
        lock.release()
        (folder / ".lock").unlink(missing_ok=True)


def model_settings(model: nn.Module) -> dict[str, Any]:
    """List what a model is made of beside its weights: class and plain settings of every module, by their names.

    Two models with equal weights' shapes can differ here, in rates of dropout or in how they pool.
    """
    plain = (bool, int, float, str, tuple, type(None))
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        found[name or "model"] = type(module).__name__
        for key, value in vars(module).items():
            if key[0] != "_" and key != "training" and isinstance(value, plain):
                found[f"{name}.{key}".lstrip(".")] = value
    return found


def differences(then: dict, now: dict, ignored: Sequence[str] = ()) -> list[str]:
    """List what differs between two dictionaries, with both values; of a dictionary inside them, what differs there."""
    found = []
    for key in sorted(then.keys() | now.keys()):
        old, new = then.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += [f"{key}.{inner}" for inner in differences(old, new)]
        elif key not in ignored and old != new:
            found.append(f"{key} was {old!r} and is {new!r} now")
    return found
