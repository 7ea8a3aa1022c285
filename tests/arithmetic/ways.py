"""Run the checks of `make test` as other machines would compute, one way after another: `make test-arithmetic`.

    python tests/arithmetic/ways.py [WAY ...] [--targets TARGET ...]

Sums are added in another order by other instructions, other libraries and other numbers of threads. Nothing that is
asserted or compared may depend on it.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WAYS = {
    "plain": {},
    "no-vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "mkl-compatible": {"MKL_CBWR": "COMPATIBLE"},
    "onednn-avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "two-threads": {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},
    "four-threads": {"OMP_NUM_THREADS": "4", "OMP_WAIT_POLICY": "PASSIVE"},
    "noise": {"PYTHONPATH": str(HERE)},
}
"""What each way sets: environment variables, and OMP_NUM_THREADS for make. Threads that outnumber the cores
must not spin while they wait: a cell would take minutes."""


def run(way: str, targets: list[str]) -> tuple[bool, str]:
    """Run targets of the Makefile in one way; return whether they pass, and what pytest counts."""
    settings = dict(WAYS[way])
    threads = settings.pop("OMP_NUM_THREADS", "1")
    if "PYTHONPATH" in settings:
        settings["PYTHONPATH"] = os.pathsep.join(
            filter(None, [settings["PYTHONPATH"], os.environ.get("PYTHONPATH")])
        )
    command = ["make", *targets, f"OMP_NUM_THREADS={threads}"]
    done = subprocess.run(
        command, cwd=HERE.parents[1], env={**os.environ, **settings}, capture_output=True, text=True
    )
    said = done.stdout + done.stderr
    if done.returncode:
        print(said, flush=True)
    return done.returncode == 0, "; ".join(re.findall(r"^=+ (.*\bin \d.*?) =+$", said, re.MULTILINE))


def main() -> int:
    """Run the command line; return 1 if a way fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"some of {', '.join(WAYS)}; without, all")
    parser.add_argument("--targets", nargs="+", default=["check-code", "check-notebooks"], metavar="TARGET")
    options = parser.parse_args()
    if unknown := set(options.ways) - set(WAYS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    failed = []
    for way in options.ways or WAYS:
        start = time.monotonic()
        passed, counts = run(way, options.targets)
        failed += [] if passed else [way]
        print(
            f"{way:15} {'passed' if passed else 'FAILED'}  {time.monotonic() - start:5.0f} s  {counts}",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
