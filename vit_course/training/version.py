"""Which code runs: the commit, which goes with every result."""

import subprocess
from pathlib import Path

from vit_course import __version__
from vit_course.training.paths import PACKAGE

FOLDERS = ("vit_course", "vit_classroom", "experiments")
"""Folders with code that trains, in this version of the course or another."""


def code_version(root: Path = PACKAGE.parent) -> str:
    """Name the code that runs: the commit, and a "+" where files have changed since; else the course's version."""

    def git(*command: str) -> str:
        return subprocess.check_output(["git", "-C", root, *command], text=True, stderr=subprocess.DEVNULL)

    try:
        inside, commit = git("rev-parse", "--show-prefix", "--short=10", "HEAD").split("\n")[:2]
        changed = git("status", "--porcelain", *FOLDERS)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return f"version {__version__}"
    # The course may be in another repository, whose commit says nothing of it.
    return f"version {__version__}" if inside else commit + "+" * bool(changed)
