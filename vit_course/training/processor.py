"""Processor seconds: one thread to count them in, and what a record says of its processor, so that two compare."""

import platform
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

SIDE = 1024
ROUNDS = 5
FINE = time.get_clock_info("process_time").resolution < 1e-6
CLOCK = time.process_time if FINE else time.perf_counter
"""Processor time, which other programs disturb less, where its clock is fine enough."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: threads that wait for one another cost processor seconds, too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def describe_processor() -> dict[str, str | bool | float]:
    """Name the processor, say whether it multiplies bfloat16 matrices in units of their own, and how fast it is.

    Returns:
        "name"; "amx", whether it has Intel's matrix units; "bfloat16_gflops" and "float32_gflops", billions of
        operations in a second of one thread in a product of two square matrices of side 1,024, the best of up to five.
    """
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.exists() else ""
    names = re.findall(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    rates = {f"{name}_gflops": product_rate(getattr(torch, name)) for name in ("bfloat16", "float32")}
    name = names[0] if names else platform.processor() or platform.machine()
    return {"name": name, "amx": " amx_bf16" in text, **rates}


def same_kind(first: dict, second: dict) -> bool:
    """Tell whether two descriptions are of one kind of processor: they agree in name and in the faster precision."""
    faster = [one["bfloat16_gflops"] > one["float32_gflops"] for one in (first, second)]
    return (first["name"], first["amx"], faster[0]) == (second["name"], second["amx"], faster[1])


def product_rate(dtype: torch.dtype, side: int = SIDE) -> float:
    """Measure a product of square matrices in one thread: billions of operations a second, the best of some rounds."""
    a = torch.ones(side, side, dtype=dtype)
    best = float("inf")
    with one_thread():
        for _ in range(ROUNDS):
            start = CLOCK()
            a @ a
            best = min(best, CLOCK() - start)
            if best > 0.5:  # this processor only imitates such products, and takes its time
                break
    return round(2 * side**3 / best / 1e9, 1)
