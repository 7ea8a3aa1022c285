"""Write constraints.txt: the versions of everything that the course needs, as they were when its tests last passed.

    make constraints PYTHONS="python3.10 python3.13"

`make lab CONSTRAINTS=1` installs just these, for a class that must not break because a library changed overnight. The
versions are those of the environment that runs this. Where another Python has no such version, the newest before it
is taken, for that Python alone.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = """\
# What `make lab CONSTRAINTS=1` installs: versions with which all tests passed. `make constraints` writes this file.
"""
Versions = dict[str, str]
"""Package names, as pip compares them, and their versions."""


def common_name(name: str) -> str:
    """Write a package's name as all tools compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> Versions:
    """Read what this environment holds."""
    return {common_name(found.metadata["Name"]): found.version for found in metadata.distributions()}


def resolve(python: str, newest: Versions) -> tuple[str, Versions]:
    """Ask pip what it would install for a Python, nothing newer than given; return that Python's version, and this."""
    with tempfile.TemporaryDirectory() as folder:
        limits, report = Path(folder, "limits.txt"), Path(folder, "report.json")
        limits.write_text("".join(f"{name}<={version}\n" for name, version in newest.items()))
        command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--only-binary", ":all:", "--report", str(report)]
        subprocess.run([*command, "-r", ROOT / "requirements.txt", "-c", limits], check=True)
        told = json.loads(report.read_text(encoding="utf-8"))
    found = {common_name(one["metadata"]["name"]): one["metadata"]["version"] for one in told["install"]}
    return told["environment"]["python_version"], found


def lines(resolved: dict[str, Versions]) -> list[str]:
    """Merge what several Pythons got into lines for pip; a marker says which Python a line is for.

    Args:
        resolved: for each Python, as "3.10", oldest first, what it got. A version holds up to the next Python that got
            another one.
    """
    merged = []
    for name in sorted({name for versions in resolved.values() for name in versions}):
        pins = [(python, got[name]) for python, got in resolved.items() if name in got]
        changes = [pin for i, pin in enumerate(pins) if i == 0 or pin[1] != pins[i - 1][1]]
        for i, (python, version) in enumerate(changes):
            since = [f'python_version >= "{python}"'] if i else []
            until = [f'python_version < "{changes[i + 1][0]}"'] if i + 1 < len(changes) else []
            marker = " and ".join([*since, *until])
            merged.append(f"{name}=={version}" + (f" ; {marker}" if marker else ""))
    return merged


def main() -> None:
    """Resolve for this Python and the others, and write the file."""
    parser = argparse.ArgumentParser(description="Write constraints.txt from this environment.")
    parser.add_argument(
        "pythons", nargs="*", help="other Pythons that it should hold for, such as python3.10"
    )
    here = installed()
    found = dict(resolve(python, here) for python in (sys.executable, *parser.parse_args().pythons))
    ordered = dict(sorted(found.items(), key=lambda item: [int(part) for part in item[0].split(".")]))
    text = HEADER + "\n".join(lines(ordered)) + "\n"
    (ROOT / "constraints.txt").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
