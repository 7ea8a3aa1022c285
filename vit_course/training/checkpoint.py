"""Checkpoints that can be trusted: written whole or not at all, verified before they are read.

`train` writes one after every epoch. A file is a hash followed by what `torch.save` makes of tensors and plain
values; nothing else is ever unpickled.
"""

import errno
import hashlib
import io
import os
import pickle
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

MAGIC = b"vit_course checkpoint 1\n"


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint under another name, flush it to the disk, then rename it.

    Args:
        path: the file; an older one is replaced only by a complete new one.
        state: tensors, numbers, strings, lists and dicts of them.

    Raises:
        OSError: if it cannot be written; the message says how much room it needs, and the older one stays.
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(MAGIC + hashlib.sha256(content).digest() + content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        kept = "; the checkpoint before it is untouched" if path.exists() else ""
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
        message = f"{path} was not written ({len(content) / 1e6:.1f} MB): {reason}{kept}"
        raise OSError(error.errno, message) from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint that `save_checkpoint` wrote; its tensors come to the CPU.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if the file is damaged, or no checkpoint of this course.
    """
    data = path.read_bytes()
    start = len(MAGIC) + 32
    if not data.startswith(MAGIC) or hashlib.sha256(data[start:]).digest() != data[len(MAGIC) : start]:
        raise ValueError(f"{path} is damaged or no checkpoint of this course: delete it, start the run anew")
    with explain_foreign(path):
        return torch.load(io.BytesIO(data[start:]), map_location="cpu", weights_only=True)


@contextmanager
def explain_foreign(path: Path) -> Iterator[None]:
    """Turn what goes wrong with the content of a whole file into a `ValueError` that names the file."""
    foreign = ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError
    try:
        yield
    except (*foreign, pickle.UnpicklingError) as error:
        if str(path) in str(error):
            raise
        why = textwrap.shorten(f"{type(error).__name__}: {error}", 200)
        raise ValueError(f"{path} does not fit this run ({why}): use another folder, or delete it") from error
