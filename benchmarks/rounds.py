"""Measure rivals in interleaved rounds, and say how much faster one is, with the spread. Both benchmarks use it.

A machine is faster at one moment than at another. Rivals that take turns within a round share the moment, so
what counts is the ratio inside a round.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable

import torch


def use_cores(cores: int | None) -> int:
    """Let torch compute on so many cores, None for all that this process may use, and return their number."""
    if cores is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(cores)
    return cores


def describe_machine(device: torch.device, cores: int) -> str:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    return f"{device.type} ({name}), {cores} cores, torch {torch.__version__}{load}"


def wait_for(device: torch.device) -> None:
    """Wait until the device has done all that it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def rates(rivals: dict[str, Callable[[], int]], rounds: int, device: torch.device) -> dict[str, list[float]]:
    """Run all rivals once to warm up, then `rounds` times in turn, each round beginning with another one.

    Args:
        rivals: functions that do some work and return how many images they worked on.
        rounds: number of rounds.
        device: is waited for before the clock is read.

    Returns:
        images per second of every rival, one number a round.
    """
    for work in rivals.values():
        work()
    result = {name: [] for name in rivals}
    names = list(rivals)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            wait_for(device)
            start = time.perf_counter()
            images = rivals[name]()
            wait_for(device)
            result[name].append(images / (time.perf_counter() - start))
    return result


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Return the first quartile, the median and the third quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def print_table(title: str, result: dict[str, list[float]], ours: str = "ours") -> None:
    """Print images/s and how many times faster we are than each rival: median and middle half of the rounds."""
    print(f"\n{title}\n{'':46}{'images/s':>10}   ours / this one: median (middle half of the rounds)")
    for name, values in result.items():
        line = f"  {name:44}{statistics.median(values):10,.0f}"
        if name != ours:
            ratios = [a / b for a, b in zip(result[ours], values, strict=True)]
            low, middle, high = quartiles(ratios)
            line += f"   {middle:6.2f}  ({low:.2f} to {high:.2f})"
        print(line)
    peers = {name: statistics.median(values) for name, values in result.items() if name != ours}
    if peers:
        print(f"  the fastest of the others: {max(peers, key=peers.get)}")
