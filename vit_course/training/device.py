"""The device of a run."""

import os

import torch


def get_device(name: str = "auto") -> torch.device:
    """Return a device by name, "cpu", "cuda", "cuda:1" or "mps".

    "auto" is what VIT_COURSE_DEVICE names, else CUDA where it is, else the CPU. An Apple GPU computes only when it is
    asked for: its results can differ from a CPU's by far more than the last digit.

    Raises:
        ValueError: if torch knows no such device, or it is not here.
    """
    here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    best = "cuda" if here["cuda"] else "cpu"
    if name == "auto":
        name = os.environ.get("VIT_COURSE_DEVICE") or best
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device {name!r} is unknown: use auto, cpu, cuda or mps") from error
    is_missing = device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    if is_missing or not here.get(device.type):
        raise ValueError(f"device {name!r} is not here; the best one here is {best!r}")
    return device


def seed_random_numbers(seed: int, device: torch.device) -> None:
    """Seed what torch draws at random on the CPU and on the device of a run.

    This takes microseconds. `torch.manual_seed` takes some tenths of a millisecond, and more the deeper the call: it
    writes down its whole call stack for every kind of accelerator that has not been started.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(seed)
    elif device.type != "cpu":
        torch.manual_seed(seed)
