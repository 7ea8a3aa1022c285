"""Where a newer release comes from: a folder, an archive, an address, or what a clone follows."""

import re
import shutil
import subprocess
import tarfile
import urllib.request
from pathlib import Path

VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)
ADDRESS = re.compile(r'^Repository\s*=\s*"(https://[^"]+)"', re.MULTILINE)
NO_ADDRESS = (
    "this copy does not say where the course is published: name the folder, the archive or the https address of the "
    "new release, as in `python -m vit_classroom update Downloads/course.zip`"
)


class NoRelease(Exception):
    """Why there is no release to update to, in words for the student."""


def version_of(folder: Path) -> str:
    """Read the version of a course in a folder.

    Raises:
        NoRelease: if the folder holds no course.
    """
    try:
        found = VERSION.search((folder / "vit_course" / "__init__.py").read_text(encoding="utf-8"))
    except OSError:
        found = None
    if not found or not (folder / "notebooks").is_dir():
        raise NoRelease(f"{folder} holds no copy of this course")
    return found[1]


def release(root: Path, source: str, work: Path) -> tuple[Path, str]:
    """Get a release.

    Args:
        root: the copy that is brought up to date.
        source: a folder, an archive or an https address; "" for what the copy itself names.
        work: an empty folder to unpack in.

    Returns:
        The folder with its files, and the commit that it is, "" if it does not come from git.

    Raises:
        NoRelease: if there is none.
    """
    commit = ""
    if not source and (root / ".git").exists():
        folder, commit = fetched(root, work)
    elif source and Path(source).is_dir():
        folder = Path(source).resolve()
    else:
        address = source or newest(root)
        archive = downloaded(address, work) if "://" in address else Path(address)
        folder = unpacked(archive, work / "release")
    version_of(folder)
    if folder == root.resolve():
        raise NoRelease("that is the folder of this copy itself: name that of the new release")
    return folder, commit


def newest(root: Path) -> str:
    """Return the address of the newest release, or of the newest state where nothing was released."""
    found = ADDRESS.search((root / "pyproject.toml").read_text(encoding="utf-8"))
    if not found:
        raise NoRelease(NO_ADDRESS)
    repository = found[1].rstrip("/").removesuffix(".git")
    try:
        with urllib.request.urlopen(f"{repository}/releases/latest", timeout=60) as page:
            tag = page.url.partition("/releases/tag/")[2]
    except OSError as error:
        raise NoRelease(f"{repository} cannot be reached: {error}") from error
    return f"{repository}/archive/refs/tags/{tag}.zip" if tag else f"{repository}/archive/HEAD.zip"


def downloaded(address: str, work: Path) -> Path:
    """Download an archive.

    Raises:
        NoRelease: if the address is not https, or cannot be reached.
    """
    if not address.startswith("https://"):
        raise NoRelease(f"{address} does not begin with https://")
    ending = ".tar.gz" if address.endswith((".tar.gz", ".tgz")) else ".zip"
    try:
        with (
            urllib.request.urlopen(address, timeout=60) as page,
            open(work / f"release{ending}", "wb") as file,
        ):
            shutil.copyfileobj(page, file)
    except OSError as error:
        raise NoRelease(f"{address} cannot be downloaded: {error}") from error
    return work / f"release{ending}"


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack an archive, and return the folder in it that holds the course.

    Raises:
        NoRelease: if it is none, or damaged.
    """
    safe = {"filter": "data"} if hasattr(tarfile, "data_filter") and ".tar" in archive.name else {}
    try:
        shutil.unpack_archive(archive, folder, **safe)
    except (OSError, ValueError, shutil.ReadError, EOFError, tarfile.TarError) as error:
        raise NoRelease(f"{archive} is no archive that can be unpacked: {error}") from error
    inside = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith((".", "__"))]
    return inside[0] if len(inside) == 1 and not (folder / "vit_course").is_dir() else folder


# -- git


def git(root: Path, *words: str) -> str:
    """Run git in a folder, and return what it prints.

    Raises:
        NoRelease: if it fails, in its own words.
    """
    try:
        run = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, encoding="utf-8")
    except OSError as error:
        raise NoRelease(
            f"git cannot be started: {error}. Name the archive of the new release instead"
        ) from error
    if run.returncode:
        raise NoRelease(f"`git {' '.join(words)}` says: {run.stderr.strip() or run.stdout.strip()}")
    return run.stdout.strip()


def fetched(root: Path, work: Path) -> tuple[Path, str]:
    """Fetch what a clone follows: its branch, or for a clone of a release the newest release."""
    git(root, "fetch", "--quiet", "--tags")
    try:
        commit = git(root, "rev-parse", "--verify", "@{upstream}")
    except NoRelease:
        tags = git(root, "tag", "--sort=-version:refname").splitlines()
        if not tags:
            raise NoRelease(NO_ADDRESS) from None
        commit = git(root, "rev-parse", "--verify", f"{tags[0]}^{{commit}}")
    archive = work / "release.tar"
    git(root, "archive", f"--output={archive}", commit)
    return unpacked(archive, work / "release"), commit


def move_head(root: Path, commit: str) -> str:
    """Let a clone stand at a commit, without touching a file.

    What the student changed then shows as changed, and the next update begins there.

    Returns:
        The branch that keeps the student's own commits; "" if there are none.
    """
    kept = ""
    if git(root, "rev-list", "--max-count=1", "HEAD", f"^{commit}"):
        kept = f"before-update-{git(root, 'rev-parse', '--short', 'HEAD')}"
        git(root, "branch", "--force", kept, "HEAD")
    git(root, "reset", "--quiet", commit)
    return kept
