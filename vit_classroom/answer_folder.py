"""What lies in the folder of answers: right answers as files of Python, and the log of verdicts, a line of JSON each.

Nothing here loads torch or runs an answer: `check` writes the verdicts, and `progress` reads them.
"""

import codecs
import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from vit_course import __version__
from vit_course.training.paths import ROOT

FALLBACK = "vit-course-answers"
"""Folder in the home folder, for answers where the folder of the course cannot be written."""
MIME = "application/vnd.vit-course.verdict+json"
"""In the output of a cell, a verdict stands under this type beside its picture."""
LOG = "verdicts.jsonl"
KINDS = ("right", "wrong", "unfinished")
LONGEST = 300
"""A text of a verdict has at most so many characters."""


def answer_folders() -> list[Path]:
    """Return the folders where students' answers are kept, the first choice first."""
    try:
        if chosen := os.environ.get("VIT_COURSE_ANSWERS"):
            return [ROOT / Path(chosen).expanduser()]
        return [ROOT / "answers", Path.home() / FALLBACK]
    except RuntimeError:  # this user has no home
        return [ROOT / "answers"]


@dataclass(frozen=True)
class Mark:
    """A verdict as data.

    Attributes:
        exercise: its name.
        verdict: "right", "wrong" or "unfinished".
        mistake: what is wrong: the words that name it, the same for all who made it, or what was said first.
        course: the version of the course.
        cell: hash of the cell that was run; "" outside a notebook.
        time: when, by UTC, as in 2026-01-31T09:30:00.
    """

    exercise: str
    verdict: str
    mistake: str = ""
    course: str = __version__
    cell: str = ""
    time: str = ""

    @property
    def data(self) -> dict[str, str]:
        """The verdict for JSON: `what` tells it from other lines that a log may hold."""
        return {"what": "check", **asdict(self)}


def mark(exercise: str, verdict: str, mistake: str, cell: str) -> Mark:
    """Make the mark of a verdict that was given just now."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return Mark(exercise, verdict, mistake[:LONGEST], cell=cell_hash(cell), time=now)


def read_mark(data: Any) -> Mark | None:
    """Read a verdict from JSON that anybody may have written; None if it is none."""
    if not isinstance(data, dict) or data.get("what") != "check" or data.get("verdict") not in KINDS:
        return None
    texts = {field.name: data.get(field.name, "") for field in fields(Mark)}
    if not all(isinstance(text, str) and len(text) <= LONGEST for text in texts.values()):
        return None
    return Mark(**texts)


def cell_hash(source: str) -> str:
    """Return a hash of a cell's text; spaces and lines at its ends do not count. No cell has none."""
    text = "\n".join(line.rstrip() for line in source.strip().splitlines())
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16] if text else ""


# -- the folder


def write_log(line: dict[str, Any]) -> Path | None:
    """Add a line to the log, in the first folder that lets us, and return the file; None where no folder does.

    What stands in the file before may end within a line, when a write was killed: the new line begins on its own.
    """
    text = json.dumps(line) + "\n"
    for folder in answer_folders():
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with open(folder / LOG, "ab+") as file:
                file.seek(max(0, file.tell() - 1))
                torn = file.read(1) not in (b"", b"\n")
                file.write(("\n" * torn + text).encode())
            return folder / LOG
    return None


def read_log() -> str:
    """Return the lines of this user's logs."""
    texts = []
    for path in (folder / LOG for folder in answer_folders()):
        with contextlib.suppress(OSError):
            if path.is_file() and is_mine(path):
                texts.append(log_text(path.read_bytes()))
    return "\n".join(texts)


def log_text(data: bytes) -> str:
    """Read a log, however an editor or a shell has encoded it since.

    `write_log` writes ASCII alone. In UTF-16 and UTF-32 the same letters have zeros between them, and a crash of the
    machine can leave zeros at the end; byte order marks stand at the start, or in the middle of logs that were joined.
    A line that a killed write left unfinished ends where the next one begins.
    """
    for mark in (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"\0"):
        data = data.replace(mark, b"")
    return re.sub(r'([^\n])({"what")', r"\1\n\2", data.decode(errors="replace"))


def marks_in(log: str) -> Iterator[Mark]:
    """Yield the verdicts of a log; a line that is damaged, or says something else, is passed over."""
    for line in log.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            if found := read_mark(json.loads(line)):
                yield found


def written(name: str, text: str) -> Path:
    """Write a file in the first folder that lets us, whole or not at all.

    Raises:
        OSError: if no folder can be written; says why.
    """
    reasons = []
    for folder in answer_folders():
        part = folder / f".{name}.{os.getpid()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            part.write_text(text, encoding="utf-8", newline="\n")
            os.replace(part, folder / name)
            with contextlib.suppress(OSError):
                for killed in folder.glob(f".{name}.*"):
                    if time.time() - killed.stat().st_mtime > 60:  # no write takes a minute
                        killed.unlink()
            return folder / name
        except OSError as error:
            reasons.append(f"{folder} ({error.strerror or type(error).__name__})")
            with contextlib.suppress(OSError):
                part.unlink()
    raise OSError(
        f"no folder for it can be written: {', '.join(reasons)}. The variable VIT_COURSE_ANSWERS names another"
    )


def kept_files() -> tuple[dict[str, Path], list[Path]]:
    """Return the files of kept answers by name, the newest of each name, and those of other users."""
    found, foreign = {}, []
    for folder in answer_folders():
        for path in sorted(folder.glob("[!.]*.py")):
            if not is_mine(path):
                foreign.append(path)
            elif path.stem not in found or path.stat().st_mtime >= found[path.stem].stat().st_mtime:
                found[path.stem] = path
    return found, foreign


def is_mine(path: Path) -> bool:
    """Tell whether a file belongs to this user: what others left in a shared folder is not run."""
    return not hasattr(os, "getuid") or path.stat().st_uid == os.getuid()
