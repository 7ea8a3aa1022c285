"""How much memory the kernel of a lesson takes at its peak: what a server must give each student.

Every solved notebook is run in a kernel of its own. `--write` keeps the figures beside this script; docs/server.md
shows the largest, and a test holds it to them.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
FIGURES = Path(__file__).with_suffix(".json")
ASK = "import resource as _r; print('peak', _r.getrusage(_r.RUSAGE_SELF).ru_maxrss)"


def peak_megabytes(path: Path) -> int:
    """Run a notebook and return the largest amount of memory that its kernel held; shared libraries count in full."""
    book = nbformat.read(path, as_version=4)
    book.cells.append(nbformat.v4.new_code_cell(ASK))
    NotebookClient(book, timeout=3600, resources={"metadata": {"path": str(path.parent)}}).execute()
    unit = 1 if sys.platform == "darwin" else 1024
    return round(int(book.cells[-1].outputs[0].text.split()[-1]) * unit / 2**20)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the memory of the lessons' kernels.")
    parser.add_argument("lessons", nargs="*", help="numbers, such as 07; by default all")
    parser.add_argument("--profile", default="cpu", choices=["smoke", "cpu"], help="size of the runs")
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {FIGURES.name}")
    options = parser.parse_args()
    os.environ["VIT_COURSE_PROFILE"] = options.profile
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    os.environ["PYTHONPATH"] = str(ROOT)
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
    measured = figures.get("megabytes", {}) if figures.get("profile") == options.profile else {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VIT_COURSE_ANSWERS"] = folder
        for path in sorted((ROOT / "solutions").glob("*.ipynb")):
            if not options.lessons or path.name[:2] in options.lessons:
                measured[path.stem] = peak_megabytes(path)
                print(f"{path.stem:24} {measured[path.stem]:6} MB", flush=True)
    if options.write:
        machine = f"{platform.system()} {platform.machine()}, torch {version('torch')}"
        kept = {"profile": options.profile, "machine": machine, "megabytes": dict(sorted(measured.items()))}
        FIGURES.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
