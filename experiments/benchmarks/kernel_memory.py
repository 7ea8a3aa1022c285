"""What a student costs a server: memory and seconds of the kernel that runs a lesson.

Every solved notebook runs in a kernel of its own, as JupyterLab would run it. The kernel itself tells, after it has
imported torch and at its end, how much memory is its own, what it took at most, and its seconds of processor time.
What kernels share, such as torch's libraries, is there once on a machine; every further student costs `own`. Other
systems than Linux do not tell a process what it shares, so this runs on Linux.

`--write` keeps the figures beside this script; docs/server.md shows them, and a test holds it to them.
"""

import argparse
import json
import os
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
FIGURES = Path(__file__).with_suffix(".json")
PROBE = """
import json, resource
_used = resource.getrusage(resource.RUSAGE_SELF)
_own = sum(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Private_"))
print(json.dumps([round(_own / 1e3), round(_used.ru_maxrss / 1e3), round(_used.ru_utime + _used.ru_stime, 1)]))
"""


def cost(path: Path) -> dict[str, float]:
    """Run a notebook; return megabytes and seconds of its kernel when torch is there, and at the end."""
    book = nbformat.read(path, as_version=4)
    codes = [i for i, cell in enumerate(book.cells) if cell.cell_type == "code"]
    first = next(i for i in codes if "import torch" in book.cells[i].source)
    for place in (len(book.cells), first + 1):
        book.cells.insert(place, nbformat.v4.new_code_cell(PROBE))
    NotebookClient(book, timeout=3600, resources={"metadata": {"path": str(path.parent)}}).execute()
    begun, ended = (json.loads(book.cells[i].outputs[-1].text.splitlines()[-1]) for i in (first + 1, -1))
    return {
        "begun own MB": begun[0],
        "begun seconds": begun[2],
        "own MB": ended[0],
        "peak MB": ended[1],
        "seconds": ended[2],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure memory and seconds of the lessons' kernels.")
    parser.add_argument("lessons", nargs="*", help="numbers, such as 07; by default all")
    parser.add_argument("--profile", default="cpu", choices=["smoke", "cpu"], help="size of the runs")
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {FIGURES.name}")
    options = parser.parse_args()
    os.environ |= {
        "VIT_COURSE_PROFILE": options.profile,
        "CUDA_VISIBLE_DEVICES": "-1",
        "PYTHONPATH": str(ROOT),
    }
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
    measured = figures.get("kernels", {}) if figures.get("profile") == options.profile else {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VIT_COURSE_ANSWERS"] = folder
        for path in sorted((ROOT / "solutions").glob("*.ipynb")):
            if not options.lessons or path.name[:2] in options.lessons:
                measured[path.stem] = cost(path)
                print(path.stem, measured[path.stem], flush=True)
    if options.write:
        machine = f"{platform.system()} {platform.machine()}, torch {version('torch')}"
        kept = {"profile": options.profile, "machine": machine, "kernels": dict(sorted(measured.items()))}
        FIGURES.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
