"""The command `python -m vit_classroom update`: the newest release in a student's copy, and nothing lost."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vit_classroom.update.merge import is_edited, merge, read_book
from vit_classroom.update.release import NoRelease, move_head, release, version_of
from vit_course.training.paths import ROOT

NOTEBOOKS, DATA = "notebooks", "data"
CODE = ("vit_course", "vit_classroom", "lessons", "authoring", "experiments", "tests")
"""Folders whose files of an older version would do harm."""
CACHES = {"__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".ruff_cache"}
THEIRS = ("answers", "build", "my_notebooks", "nbgrader-course", ".venv")
"""How names begin that a release has no part in, whatever a folder holds."""


class Copy:
    """A student's copy: what is replaced or removed in it goes to a folder beside, which git ignores."""

    def __init__(self, root: Path, version: str):
        self.root, self.beside = root, root / f"my_notebooks-{version}"
        number = 1
        while self.beside.exists():
            number += 1
            self.beside = root / f"my_notebooks-{version}-{number}"

    def keep(self, path: Path) -> None:
        """Copy a file to the folder beside."""
        place = path.relative_to(self.root)
        place = self.beside / (place.name if place.parts[0] == NOTEBOOKS else Path("replaced", place))
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(data)
        if path.exists():
            shutil.copymode(path, part)
        os.replace(part, path)


def given_out(root: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the notebooks of a copy as they were given out, made anew from its lessons.

    Where that is not possible, none is: whatever differs then counts as the student's.
    """
    command = [sys.executable, "-m", "authoring.notebooks.students", str(folder)]
    subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True)
    return {path.name: read_book(path.read_bytes()) for path in sorted(folder.glob("*.ipynb"))}


def update_notebooks(copy: Copy, new: Path, base: dict[str, dict[str, Any]], version: str) -> Iterator[str]:
    """Bring the notebooks up to date; yield a line for each in which a student has written."""
    names = {path.name for path in (new / NOTEBOOKS).glob("*.ipynb")}
    for name in sorted(names | base.keys()):
        path = copy.root / NOTEBOOKS / name
        if name not in names:
            if path.is_file():
                copy.keep(path)
                path.unlink()
                yield f"{name}: this version has no such notebook; yours is in {copy.beside.name}"
            continue
        data = (new / NOTEBOOKS / name).read_bytes()
        if not path.is_file():
            copy.write(path, data)
            continue
        try:
            mine, newer = read_book(path.read_bytes()), read_book(data)
        except ValueError as error:
            copy.keep(path)
            copy.write(path, data)
            yield f"{name}: {error}; yours is in {copy.beside.name}, and the new one in its place"
            continue
        merged = merge(mine, base.get(name, {"cells": []}), newer, version)
        if merged.book == mine:
            continue
        if is_edited(mine, base.get(name, {"cells": []})):
            copy.keep(path)
            yield f"{name}: merged, {merged.mine} of its cells are yours"
            for line in merged.conflicts:
                yield f"    look at this cell, where both have changed: {line}"
        copy.write(path, data if merged.book == newer else as_file(merged.book))


def as_file(book: dict[str, Any]) -> bytes:
    """Return what the file of a notebook holds."""
    return (json.dumps(book, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


def update_files(copy: Copy, new: Path) -> tuple[int, int]:
    """Bring all other files up to date; return how many were written, and how many removed."""
    written, wanted = 0, set()
    for path in files_below(new):
        place = path.relative_to(new)
        wanted.add(place)
        top = place.parts[0]
        if top.startswith(THEIRS) or (top == NOTEBOOKS and path.suffix == ".ipynb"):
            continue
        old, data = copy.root / place, path.read_bytes()
        if old.is_file() and old.read_bytes() == data:
            continue
        if old.is_file() and top != DATA:
            copy.keep(old)
        copy.write(old, data)
        written += 1
    stale = [path for name in CODE if (new / name).is_dir() for path in files_below(copy.root / name)]
    stale = [path for path in stale if path.relative_to(copy.root) not in wanted]
    for path in stale:
        copy.keep(path)
        path.unlink()
        remove_empty(path.parent)
    return written, len(stale)


def files_below(folder: Path) -> list[Path]:
    """List the files below a folder, without caches and links."""
    found = []
    for around, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in CACHES and name not in (".git", ".venv"))
        found += [Path(around, name) for name in sorted(names)]
    return [path for path in found if path.is_file() and not path.is_symlink()]


def remove_empty(folder: Path) -> None:
    """Remove a folder in which nothing but caches is left."""
    if not files_below(folder):
        shutil.rmtree(folder)


def update(root: Path, source: str) -> Iterator[str]:
    """Bring a copy up to date; yield lines that say what was done.

    Raises:
        NoRelease: if there is no release to update to; nothing has changed then.
    """
    before = version_of(root)
    with tempfile.TemporaryDirectory() as work:
        new, commit = release(root, source, Path(work))
        version, copy = version_of(new), Copy(root, before)
        needed = (new / "requirements.txt").read_bytes() != (root / "requirements.txt").read_bytes()
        pristine = Path(work, "given-out")
        pristine.mkdir()
        base = given_out(root, pristine)
        if not base:
            yield "Your copy cannot say how its notebooks were given out, so every difference counts as yours."
        yield from update_notebooks(copy, new, base, version)
        written, removed = update_files(copy, new)
    kept = move_head(root, commit) if commit else ""
    yield f"From version {before} to {version}: {written} other files written, {removed} removed."
    if copy.beside.exists():
        yield f"What was replaced or merged is in {copy.beside.name}, as it was. Delete it when you do not need it."
    if kept:
        yield f"Your own commits are on the branch {kept}."
    if needed:
        yield "The packages that the course needs have changed: run `make lab`, or `pip install -r requirements.txt`."


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m vit_classroom update",
        description="Bring this copy of the course to the newest release. What you wrote stays.",
    )
    what = "folder, zip, tar.gz or https address of the release; without it the newest"
    parser.add_argument("source", nargs="?", default="", help=what)
    options = parser.parse_args(arguments)
    try:
        for line in update(root, options.source):
            print(line, flush=True)
    except (NoRelease, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
