"""What students handed in: zips, folders, notebooks, one student each. Nothing is unpacked and nothing is run."""

import os
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

from vit_course.classroom.checks.registry import EXERCISES

LARGEST = 20 * 2**20
"""So many bytes of answers and notebooks are read of one student, and no file that is larger."""
MEMBERS = 5000
NOT_THEIRS = {"solutions", "lessons", "vit_course", "tests", "tools", "build", "site-packages", "__MACOSX"}
"""Folders of a whole course that somebody hands in: what lies there is no work of a student."""


class Refused(ValueError):
    """Why something that was handed in is not read."""


@dataclass(frozen=True)
class HandedIn:
    """What one student handed in: files by name, or why it was refused."""

    student: str
    files: dict[str, bytes] = field(default_factory=dict)
    refused: str = ""


def read_class(folder: Path) -> list[HandedIn]:
    """Read what lies in a folder: each zip, folder and notebook is one student, who has its name.

    Raises:
        NotADirectoryError: if there is no such folder.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder {folder}")
    entries = sorted(path for path in folder.iterdir() if is_handed_in(path))
    stems = [path.name if path.is_dir() else path.stem for path in entries]
    names = [path.name if stems.count(stem) > 1 else stem for path, stem in zip(entries, stems, strict=True)]
    return [read_student(path, name) for path, name in zip(entries, names, strict=True)]


def is_handed_in(path: Path) -> bool:
    """Tell whether an entry of the class's folder is what a student handed in."""
    if path.name.startswith((".", "__")):
        return False
    return path.is_dir() or path.suffix.lower() in (".zip", ".ipynb")


def read_student(path: Path, student: str) -> HandedIn:
    """Read the answers and notebooks of one student."""
    try:
        if path.is_symlink():
            raise Refused("it is a link")
        if path.is_dir():
            found = files_of_folder(path)
        elif path.suffix.lower() == ".zip":
            found = files_of_zip(path)
        else:
            found = iter([(path.name, content(path))])
        files, size = {}, 0
        for name, data in found:
            files[name], size = data, size + len(data)
            if size > LARGEST:
                raise Refused(f"its answers have more than {LARGEST // 2**20} MB")
    except Refused as why:
        return HandedIn(student, refused=str(why))
    except (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        return HandedIn(student, refused=f"it cannot be read ({type(error).__name__}: {error})")
    return HandedIn(student, files, "" if files else "no answer and no notebook is in it")


def is_read(name: str) -> bool:
    """Tell whether a file is a student's answer or notebook."""
    path = PurePosixPath(name)
    if NOT_THEIRS & set(path.parts[:-1]) or any(part.startswith(".") for part in path.parts):
        return False
    return path.suffix == ".ipynb" or (path.suffix == ".py" and path.stem in EXERCISES)


def files_of_folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the answers and notebooks of a folder.

    Raises:
        Refused: if one of them is a link, which may lead anywhere.
    """
    for around, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(around, name) for name in sorted(names)):
            if is_read(path.relative_to(folder).as_posix()):
                yield path.relative_to(folder).as_posix(), content(path)


def content(path: Path) -> bytes:
    """Read a file, if it is a plain one and not too large.

    Raises:
        Refused: if it is not.
    """
    state = path.lstat()
    if not stat.S_ISREG(state.st_mode):
        kind = "a link" if stat.S_ISLNK(state.st_mode) else "no plain file"
        raise Refused(f"{path.name} is {kind}")
    if state.st_size > LARGEST:
        raise Refused(f"{path.name} has more than {LARGEST // 2**20} MB")
    return path.read_bytes()


def files_of_zip(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the answers and notebooks of a zip, from its memory: nothing is written to disk.

    Raises:
        Refused: if it holds a path that leads out of it, a link, or more than it says.
    """
    content(path)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > MEMBERS:
            raise Refused(f"it holds more than {MEMBERS} files")
        for member in members:
            refuse_member(member)
        for member in members:
            if not member.is_dir() and is_read(member.filename):
                with archive.open(member) as file:
                    data = file.read(LARGEST + 1)  # what its head says of its size may be a lie
                if len(data) > LARGEST:
                    raise Refused(f"{member.filename} has more than {LARGEST // 2**20} MB")
                yield member.filename, data


def refuse_member(member: zipfile.ZipInfo) -> None:
    """Refuse what no honest zip holds.

    Raises:
        Refused: says what it is.
    """
    name = member.filename
    windows = PureWindowsPath(name)
    if ".." in windows.parts or windows.drive or windows.root:
        raise Refused(f"its path {name} leads out of it")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise Refused(f"{name} is a link")
    if member.flag_bits & 1:
        raise Refused(f"{name} has a password")
    if is_read(name) and member.file_size > LARGEST:
        raise Refused(f"{name} has more than {LARGEST // 2**20} MB")
