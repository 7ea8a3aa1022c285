"""What students handed in: archives, folders, notebooks, logs. Nothing is unpacked to disk and nothing is run.

A learning platform packs each student's files once more, so an archive may lie in a folder or in another archive.
"""

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from vit_classroom import PACKAGES

LARGEST = 100 * 2**20
"""So many bytes are read of one file: pictures in outputs are large."""
IN_ALL = 2 * LARGEST
"""So many bytes are read of one student."""
MEMBERS = 5000
DEEPEST = 4
"""So many archives may lie one in the other."""
NOT_THEIRS = {
    *("solutions", "lessons", "tests", "authoring", "experiments", "build", "site-packages", "__MACOSX"),
    *PACKAGES,
}
"""Folders of a whole course that somebody hands in: what lies there is no work of a student."""
UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile)
UNREADABLE += (tarfile.TarError, lzma.LZMAError, gzip.zlib.error)
"""What reading a damaged file raises."""

AGAIN = r"(?: ?\(\d+\)| - \w+)?(?:\.(?:txt|json|download))?$"
"""What browsers and mail programs add to a name: a number, "Copy", another ending."""
NOTEBOOK = re.compile(rf"\.ipynb{AGAIN}", re.IGNORECASE)
LOGS = re.compile(rf"verdicts[^/]*\.jsonl{AGAIN}", re.IGNORECASE)
ARCHIVE = re.compile(rf"\.(?:zip|tar|tgz|tbz2?|txz|gz|bz2|xz|rar|7z|zst){AGAIN}", re.IGNORECASE)
PACKED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
UNUSUAL = {b"Rar!": "rar", b"7z\xbc\xaf": "7z", b"\x28\xb5\x2f\xfd": "zst"}
"""How archives begin that are read, and those that are not."""
TEACHERS = {".csv", ".xlsx", ".ods", ".ini", ".db"}
"""Endings of tables and of what systems leave in a folder: no hand-in of a student."""
PLATFORM = re.compile(
    r"(?P<who>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)(?:_.*)?"  # Moodle
    r"|(?P<last>[a-z]+)(?:_LATE)?_(?P<number>\d+)_\d+_.+"  # Canvas
)
"""How platforms name what they hand over: a student's name and number, and what students need not read."""


class Refused(ValueError):
    """Why something that was handed in is not read."""


class TooMuch(Refused):
    """A student has handed in more than is read of one."""


class Left:
    """What may still be read of one student."""

    def __init__(self) -> None:
        self.size, self.members = IN_ALL, MEMBERS

    def take(self, data: bytes) -> bytes:
        """Return what was read, and count it."""
        self.size -= len(data)
        if self.size < 0:
            raise TooMuch(f"it has more than {IN_ALL // 2**20} MB")
        return data

    def count(self, files: int) -> None:
        """Count files."""
        self.members -= files
        if self.members < 0:
            raise TooMuch(f"it holds more than {MEMBERS} files")


Files = Iterator[tuple[str, "bytes | Exception"]]
"""Names of files, and what they hold, or why they are not read."""


def students_of(folder: Path) -> list[tuple[str, list[Path]]]:
    """List what lies in a folder: everything is of one student, who has its name, but for tables of the teacher's.

    What a platform named is sorted by its student: one may have several files there.

    Raises:
        NotADirectoryError: if there is no such folder.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder {folder}")
    found: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        if not path.name.startswith((".", "__")) and (path.is_dir() or path.suffix.lower() not in TEACHERS):
            found[whose(path)].append(path)
    short = [name for name, _ in found]
    return [(name if short.count(name) == 1 else whole, paths) for (name, whole), paths in found.items()]


def whose(path: Path) -> tuple[str, str]:
    """Return whose a hand-in is: a name, and a longer one where several have that."""
    if given := PLATFORM.fullmatch(path.name):
        who = given["who"] or given["last"]
        return who, f"{who} ({given['id'] or given['number']})"
    name = path.name
    if not path.is_dir():
        for ending in (ARCHIVE, ARCHIVE, NOTEBOOK, LOGS):  # .tar.gz has two
            name = ending.sub("", name) or name
    return name, path.name


def files_of(path: Path) -> Files:
    """Yield the notebooks and logs of one hand-in, one at a time, and why a part of it cannot be read.

    Raises:
        Refused: if it holds what no honest student hands in, or too much, or nothing that is read.
        OSError, zipfile.BadZipFile and others of `UNREADABLE`: if it is damaged.
    """
    left = Left()
    if path.is_symlink():
        raise Refused("it is a link")
    if path.is_dir():
        yield from in_folder(path, left)
        return
    check_plain(path)
    if ARCHIVE.search(path.name):
        with path.open("rb") as file:
            yield from in_archive(path.name, file, left, 1)
        return
    if not may_be_read(path.name):
        raise Refused("it is no notebook, no folder and no zip of them")
    yield from in_file(path.name, lambda: content(path), left)


def in_folder(folder: Path, left: Left) -> Files:
    """Yield what a folder holds.

    Raises:
        Refused: if one of its files is a link, which may lead anywhere, or there are too many.
    """
    for around, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in NOT_THEIRS)
        left.count(len(names))
        for path in (Path(around, name) for name in sorted(names)):
            name = path.relative_to(folder).as_posix()
            if not is_theirs(name):
                continue
            if ARCHIVE.search(name):
                check_plain(path)
                with path.open("rb") as file:
                    yield from in_inner(name, file, left, 1)
            elif may_be_read(name):
                yield from in_file(name, lambda path=path: content(path), left)


def in_file(name: str, read: Callable[[], bytes], left: Left) -> Files:
    """Yield a file, unless its name does not say that it is a notebook or a log, and neither does its text."""
    data = left.take(read())
    says = data.replace(b"\0", b"")
    if NOTEBOOK.search(name) or LOGS.search(name) or b'"nbformat"' in says or b'"what": "check"' in says:
        yield name, data


def in_inner(name: str, file: BinaryIO, left: Left, depth: int) -> Files:
    """Yield what an archive holds that is a part of a hand-in: if it cannot be read, the rest still is."""
    try:
        for inside, data in in_archive(name, file, left, depth):
            yield f"{name}/{inside}", data
    except TooMuch:
        raise
    except UNREADABLE as why:
        yield name, why


def in_archive(name: str, file: BinaryIO, left: Left, depth: int) -> Files:
    """Yield what an archive holds, by what it is and not by its name.

    Raises:
        Refused: if it holds too much, or what takes long to unpack, or is packed as something that is not read.
    """
    if depth > DEEPEST:
        raise Refused("it is an archive in an archive in an archive, and so on")
    head = file.read(8)
    file.seek(0)
    if kind := next((kind for start, kind in UNUSUAL.items() if head.startswith(start)), ""):
        raise Refused(f"it is packed as {kind}: hand in a zip")
    if head.startswith(b"PK"):
        yield from in_zip(file, left, depth)
        return
    packed = next((opened for start, opened in PACKED.items() if head.startswith(start)), None)
    with packed(file) if packed else io.BufferedReader(file) as stream:  # type: ignore[operator]
        data = io.BytesIO(left.take(stream.read(IN_ALL + 1)))
    if tarfile.is_tarfile(data):
        data.seek(0)
        yield from in_tar(data, left, depth)
    elif packed:
        inner = PurePosixPath(name.replace("\\", "/")).name
        yield from in_member(ARCHIVE.sub("", inner), data.getvalue, left, depth)
    else:
        raise Refused("it is no archive that is read: hand in a zip")


def in_zip(file: BinaryIO, left: Left, depth: int) -> Files:
    """Yield what a zip holds."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        left.count(len(members))
        for member in members:

            def read(member: zipfile.ZipInfo = member) -> bytes:
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise Refused(f"{member.filename} is packed in an unusual way")
                with archive.open(member) as inside:
                    data = inside.read(LARGEST + 1)  # what its head says of its size may be a lie
                if len(data) > LARGEST:
                    raise Refused(f"{member.filename} has more than {LARGEST // 2**20} MB")
                return data

            if not member.is_dir():
                yield from in_member(member.filename, read, left, depth)


def in_tar(file: BinaryIO, left: Left, depth: int) -> Files:
    """Yield what a tar holds."""
    with tarfile.open(fileobj=file) as archive:
        for member in archive:
            left.count(1)

            def read(member: tarfile.TarInfo = member) -> bytes:
                inside = archive.extractfile(member) if member.isreg() else None
                if inside is None:
                    raise Refused(f"{member.name} is a link, or no plain file")
                return inside.read()

            if not member.isdir():
                yield from in_member(member.name, read, left, depth)


def in_member(name: str, read: Callable[[], bytes], left: Left, depth: int) -> Files:
    """Yield what a member of an archive is or holds."""
    if not is_theirs(name):
        return
    if ARCHIVE.search(name):
        yield from in_inner(name, io.BytesIO(left.take(read())), left, depth + 1)
    elif may_be_read(name):
        yield from in_file(name, read, left)


def is_theirs(name: str) -> bool:
    """Tell whether a file is not hidden, and not one of the course."""
    path = PurePosixPath(name.replace("\\", "/"))  # a zip may have been packed by Windows
    return not (NOT_THEIRS & set(path.parts[:-1]) or any(part.startswith(".") for part in path.parts))


def may_be_read(name: str) -> bool:
    """Tell whether a file may be a student's notebook or log, by its name."""
    path = PurePosixPath(name.replace("\\", "/"))
    return bool(
        NOTEBOOK.search(path.name) or LOGS.search(path.name) or path.suffix.lower() in ("", ".json", ".txt")
    )


def check_plain(path: Path) -> None:
    """Look whether a file is a plain one.

    Raises:
        Refused: if it is not.
    """
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise Refused(f"{path.name} is {'a link' if stat.S_ISLNK(mode) else 'no plain file'}")


def content(path: Path) -> bytes:
    """Read a file, if it is a plain one and not too large.

    Raises:
        Refused: if it is not.
    """
    check_plain(path)
    if path.stat().st_size > LARGEST:
        raise Refused(f"{path.name} has more than {LARGEST // 2**20} MB")
    return path.read_bytes()
