"""What students handed in: zips, folders, notebooks, one student each. Nothing is unpacked and nothing is run."""

import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from vit_classroom import PACKAGES
from vit_classroom.answer_folder import LOG

LARGEST = 100 * 2**20
"""So many bytes are read of one file: pictures in outputs are large."""
IN_ALL = 2 * LARGEST
"""So many bytes are read of one student."""
MEMBERS = 5000
NOT_THEIRS = {
    "solutions",
    "lessons",
    *PACKAGES,
    "experiments",
    "tests",
    "authoring",
    "build",
    "site-packages",
    "__MACOSX",
}
"""Folders of a whole course that somebody hands in: what lies there is no work of a student."""
UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile)
"""What reading a damaged file raises."""


class Refused(ValueError):
    """Why something that was handed in is not read."""


def students_of(folder: Path) -> list[tuple[str, Path]]:
    """List what lies in a folder: each zip, folder and notebook is one student, who has its name.

    Raises:
        NotADirectoryError: if there is no such folder.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder {folder}")
    entries = sorted(
        path
        for path in folder.iterdir()
        if not path.name.startswith((".", "__"))
        and (path.is_dir() or path.suffix.lower() in (".zip", ".ipynb"))
    )
    stems = [path.name if path.is_dir() else path.stem for path in entries]
    names = [path.name if stems.count(stem) > 1 else stem for path, stem in zip(entries, stems, strict=True)]
    return list(zip(names, entries, strict=True))


def files_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the notebooks and logs of one student, one at a time.

    Raises:
        Refused: if it holds what no honest student hands in, or too much.
        OSError, zipfile.BadZipFile and others of `UNREADABLE`: if it is damaged.
    """
    if path.is_symlink():
        raise Refused("it is a link")
    if path.is_dir():
        found = files_of_folder(path)
    elif path.suffix.lower() == ".zip":
        found = files_of_zip(path)
    else:
        found = iter([(path.name, content(path))])
    size = 0
    for name, data in found:
        size += len(data)
        if size > IN_ALL:
            raise Refused(f"it has more than {IN_ALL // 2**20} MB")
        yield name, data


def is_read(name: str) -> bool:
    """Tell whether a file is a student's notebook or log."""
    path = PurePosixPath(name.replace("\\", "/"))  # a zip may have been packed by Windows
    if NOT_THEIRS & set(path.parts[:-1]) or any(part.startswith(".") for part in path.parts):
        return False
    return path.suffix == ".ipynb" or path.name == LOG


def files_of_folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the notebooks and logs of a folder.

    Raises:
        Refused: if one of them is a link, which may lead anywhere, or there are too many files.
    """
    seen = 0
    for around, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in NOT_THEIRS)
        seen += len(names)
        if seen > MEMBERS:
            raise Refused(f"it holds more than {MEMBERS} files")
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
        raise Refused(f"{path.name} is {'a link' if stat.S_ISLNK(state.st_mode) else 'no plain file'}")
    if state.st_size > LARGEST:
        raise Refused(f"{path.name} has more than {LARGEST // 2**20} MB")
    return path.read_bytes()


def files_of_zip(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the notebooks and logs of a zip, from its memory: nothing is written to disk.

    Raises:
        Refused: if it holds too much, or what takes long to unpack.
    """
    if not stat.S_ISREG(path.lstat().st_mode):
        raise Refused(f"{path.name} is no plain file")
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > MEMBERS:
            raise Refused(f"it holds more than {MEMBERS} files")
        for member in (member for member in members if is_read(member.filename)):
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise Refused(f"{member.filename} is packed in an unusual way")
            with archive.open(member) as file:
                data = file.read(LARGEST + 1)  # what its head says of its size may be a lie
            if len(data) > LARGEST:
                raise Refused(f"{member.filename} has more than {LARGEST // 2**20} MB")
            yield member.filename, data
