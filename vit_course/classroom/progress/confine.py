"""Limits for a process that runs what students handed in: memory, time, files, programs, network.

The system holds the first ones (on Linux all; macOS has no limit of memory, Windows none of these). The rest is held by
a hook that Python calls before it opens a file, starts a program or connects: no code in Python can take it off. This
guards a teacher's machine against accidents and pranks. It is no prison: reading files is allowed, and compiled code
does not ask the hook. Whoever must run the code of strangers does it in a container or as a user without rights.
"""

import os
import sys
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None

MIB = 2**20
REFUSED = (
    "socket.",
    "subprocess.",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
)
REFUSED += (
    "os.system",
    "pty.spawn",
    "ctypes.dlopen",
    "resource.setrlimit",
    "resource.prlimit",
    "webbrowser.",
)
FROM_FOLDER = {name: 1 for name in ("os.chmod", "os.chown", "os.mkdir", "os.remove", "os.rmdir", "os.utime")}
FROM_FOLDER |= {name: 2 for name in ("os.link", "os.rename", "os.symlink")} | {"shutil.rmtree": 1}
"""What changes files, with the number of its paths; the last argument is an open folder to count from, or -1."""
CHANGES = FROM_FOLDER | {
    name: 1 for name in ("os.chflags", "os.removexattr", "os.setxattr", "os.truncate", "shutil.chown")
}
TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FILES = 200
"""So many files may be opened to write."""


def confine(folder: str, seconds: float, megabytes: int) -> None:
    """Limit this process, for good: to a working folder, a time of computing, and so much memory more than it has."""
    if hasattr(os, "setsid"):
        os.setsid()  # so that all of it can be ended at once
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    here = {"HOME": folder, "TMPDIR": folder, "TEMP": folder, "TMP": folder, "VIT_COURSE_ANSWERS": folder}
    os.environ.update(here)
    sys.dont_write_bytecode = True
    if resource:
        set_limit("RLIMIT_CPU", int(seconds) + 1)
        set_limit("RLIMIT_FSIZE", 10 * MIB)
        set_limit("RLIMIT_CORE", 0)
        set_limit("RLIMIT_AS", address_space() + megabytes * MIB)
    sys.addaudithook(Hook(folder))


def set_limit(name: str, value: int) -> None:
    """Set a limit of the system for good, if it knows this one and none lower holds already."""
    if not hasattr(resource, name):
        return
    kind = getattr(resource, name)
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (value, value))
    except (OSError, ValueError):  # macOS refuses some
        return


def address_space() -> int:
    """Return how many bytes of addresses this process has by now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 4096 * MIB


class Hook:
    """What Python asks before it does something that reaches outside."""

    def __init__(self, folder: str):
        self.folder = os.path.join(os.path.realpath(folder), "")
        self.opened = 0

    def __call__(self, event: str, arguments: tuple) -> None:
        """Refuse what leaves the working folder.

        Raises:
            PermissionError: says what was refused.
        """
        if event.startswith(REFUSED):
            raise PermissionError(f"{event} is not allowed while answers are checked")
        if event == "open" and not isinstance(arguments[0], int):
            self.look_at_file(*arguments)
        elif event in CHANGES:
            for path in arguments[: CHANGES[event]]:
                self.demand_inside(path)
            if event in FROM_FOLDER and arguments[-1] not in (-1, None):
                raise PermissionError(f"{event} with an open folder is not allowed while answers are checked")

    def look_at_file(self, path: Any, mode: Any, flags: Any) -> None:
        """Let any file be read, but only those of the working folder be written; a folder leads to its files."""
        to_write = flags & TO_WRITE if isinstance(flags, int) else set(mode or "") & set("wax+")
        if to_write:
            self.opened += 1
            if self.opened > FILES:
                raise PermissionError(f"no more than {FILES} files may be written while answers are checked")
        if to_write or os.path.isdir(path):
            self.demand_inside(path)

    def demand_inside(self, path: Any) -> None:
        """Insist that a path lies in the working folder, wherever links lead."""
        if isinstance(path, int):
            raise PermissionError(
                "changing an open file in this way is not allowed while answers are checked"
            )
        real = os.path.realpath(os.fsdecode(path))
        if real != os.devnull and not os.path.join(real, "").startswith(self.folder):
            raise PermissionError(f"writing outside the working folder is not allowed: {os.fsdecode(path)}")
