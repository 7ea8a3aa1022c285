"""What a student costs a server: memory and seconds of the kernel that runs a lesson.

    python benchmarks/kernel_cost.py 00 06 07 --profile cpu

Each lesson's solution runs in a kernel of its own, as JupyterLab would run it. The kernel itself tells, after it has
imported torch and at its end, how much memory it holds and what it took at most. Memory that kernels share, such as
torch's libraries, is there once on a machine: what every further student costs is `own`.
"""

import argparse
import json
import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
PROBE = """
import json, resource, time
_used = resource.getrusage(resource.RUSAGE_SELF)
_own = sum(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Private_"))
print(json.dumps({"own": _own / 1e3, "most": _used.ru_maxrss / 1e3, "seconds": _used.ru_utime + _used.ru_stime}))
"""


def cost(number: str, profile: str, data: str) -> tuple[dict[str, float], dict[str, float]]:
    """Run a lesson's solution; return what its kernel told after it has imported torch and at its end."""
    (path,) = (ROOT / "solutions").glob(f"{number}_*.ipynb")
    book = nbformat.read(path, as_version=4)
    ready = (
        i for i, cell in enumerate(book.cells) if cell.cell_type == "code" and "import torch" in cell.source
    )
    first = next(ready)
    for place in (len(book.cells), first + 1):
        book.cells.insert(place, nbformat.v4.new_code_cell(PROBE))
    settings = {"VIT_COURSE_PROFILE": profile, "VIT_COURSE_DATA": data, "PYTHONPATH": str(ROOT)}
    client = NotebookClient(book, timeout=3600, resources={"metadata": {"path": str(path.parent)}})
    client.comm_open_handlers["jupyter.widget"] = lambda message: None
    client.execute(env={**os.environ, **settings})
    begun, ended = (book.cells[i].outputs[-1]["text"] for i in (first + 1, -1))
    return json.loads(begun.splitlines()[-1]), json.loads(ended.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("lessons", nargs="+", help="numbers of lessons, such as 00 06 07")
    parser.add_argument("--profile", default="cpu", choices=("smoke", "cpu", "gpu"))
    parser.add_argument("--data", default="shapes10", help="auto, cifar10, shapes10 or a folder")
    parser.add_argument("--students", type=int, default=30)
    options = parser.parse_args()
    print("lesson      begun: own    CPU s   end: own   at most    CPU s   students  together")
    for number in options.lessons:
        begun, ended = cost(number, options.profile, options.data)
        together = ended["most"] + (options.students - 1) * max(begun["own"], ended["own"])
        print(
            f"{number:6} {begun['own']:13,.0f} MB {begun['seconds']:8.1f} {ended['own']:7,.0f} MB "
            f"{ended['most']:6,.0f} MB {ended['seconds']:8.1f} {options.students:10} {together / 1e3:6.1f} GB",
            flush=True,
        )


if __name__ == "__main__":
    main()
