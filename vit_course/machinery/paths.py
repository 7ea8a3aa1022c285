"""Where things lie: the one place that knows how deep this package is."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The repository: the folder that holds `vit_course/`, `lessons/`, `data/` and what students keep."""
LESSONS = ROOT / "lessons"
DATA = ROOT / "data"
RUNS = DATA / "runs"
CHECKPOINTS = DATA / "checkpoints"
FALLBACK = "vit-course-answers"
"""Folder in the home folder, for answers where the folder of the course cannot be written."""


def answer_folders() -> "list[Path]":
    """Return the folders where students' answers are kept, the first choice first."""
    chosen = os.environ.get("VIT_COURSE_ANSWERS")
    if chosen:
        return [Path(chosen)]
    try:
        return [ROOT / "answers", Path.home() / FALLBACK]
    except RuntimeError:  # this user has no home
        return [ROOT / "answers"]


def obstacle(folder: Path) -> str:
    """Say why a folder cannot be written, or made; "" if it can. Nothing is written."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        return f"{there} is a file"
    return "" if os.access(str(there), os.W_OK | os.X_OK) else f"{there} is read-only"
