"""Where things lie: the one place that knows how deep this package is."""

import errno
import os
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
IN_REPOSITORY = (PACKAGE.parent / "lessons").is_dir()
ROOT = PACKAGE.parent if IN_REPOSITORY else Path.cwd()
"""The repository, which holds `vit_course/`, `lessons/`, `data/` and what students keep; for a package that was
installed without it, the folder in which Python was started."""
DATA = ROOT / "data"
SHIPPED = DATA if IN_REPOSITORY else PACKAGE / "shipped"
"""Recorded runs, trained weights and photos that come with the course; a wheel has them inside the package."""
RUNS = SHIPPED / "runs"
CHECKPOINTS = SHIPPED / "checkpoints"
PHOTOS = SHIPPED / "photos"


def obstacle(folder: Path) -> str:
    """Say why a folder cannot be written, or made; "" if it can. Nothing is written."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        return f"{there} is a file"
    return "" if os.access(str(there), os.W_OK | os.X_OK) else f"{there} is read-only"


def require_writable(folder: Path) -> None:
    """Make a folder, and a file in it: where none can be made, as in /proc, a lock would be waited for without end.

    Raises:
        OSError: if that is not possible, with the folder's name.
    """
    if why := obstacle(folder):
        raise OSError(errno.EACCES, f"{folder} cannot be written: {why}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(error.errno, f"{folder} cannot be written: {error.strerror}") from error
