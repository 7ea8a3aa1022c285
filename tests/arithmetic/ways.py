"""Run the checks of `make test` as other machines would compute, one way after another: `make test-arithmetic`.

    python tests/arithmetic/ways.py [WAY ...]

Sums are added in another order by other instructions, other libraries and other numbers of threads. Nothing that is
asserted or compared may depend on it.
"""

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
    "noise": {"PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)},
}
"""What each way sets: environment variables, and OMP_NUM_THREADS for make. Threads that outnumber the cores
must not spin while they wait: a cell would take minutes."""


def run(way: str) -> tuple[bool, str]:
    """Run the checks in one way; return whether they pass, and what pytest counts."""
    settings = {"OMP_NUM_THREADS": "1", **WAYS[way]}
    # make sets the number of threads itself, so it is told as a variable of its own
    command = ["make", "check-code", "check-notebooks", f"OMP_NUM_THREADS={settings['OMP_NUM_THREADS']}"]
    done = subprocess.run(
        command, cwd=HERE.parents[1], env={**os.environ, **settings}, capture_output=True, text=True
    )
    said = done.stdout + done.stderr
    if done.returncode:
        print(said, flush=True)
    return done.returncode == 0, "; ".join(re.findall(r"^=+ (.*\bin \d.*?) =+$", said, re.MULTILINE))


def main(ways: list[str]) -> int:
    """Run some ways, or all; return 1 if one fails."""
    if unknown := set(ways) - set(WAYS):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(WAYS)}")
    failed = False
    for way in ways or WAYS:
        start = time.monotonic()
        passed, counts = run(way)
        failed |= not passed
        said = "passed" if passed else "FAILED"
        print(f"{way:15} {said}  {time.monotonic() - start:5.0f} s  {counts}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
