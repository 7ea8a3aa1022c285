"""One knob for the size of every run: VIT_COURSE_PROFILE = smoke, cpu or gpu. Lessons read it."""

import os
from dataclasses import dataclass
from typing import TypeVar

import torch

T = TypeVar("T")
PROFILES = ("smoke", "cpu", "gpu")


@dataclass(frozen=True)
class Profile:
    """How much this machine should do: smoke (seconds, for tests), cpu (minutes) or gpu."""

    name: str

    def pick(self, *, smoke: T, cpu: T, gpu: T) -> T:
        """Return the value meant for this profile."""
        return {"smoke": smoke, "cpu": cpu, "gpu": gpu}[self.name]


def get_profile() -> Profile:
    """Read VIT_COURSE_PROFILE; without it, gpu where CUDA is there and cpu elsewhere.

    Raises:
        ValueError: if the variable names no profile.
    """
    name = os.environ.get("VIT_COURSE_PROFILE") or ("gpu" if torch.cuda.is_available() else "cpu")
    if name not in PROFILES:
        raise ValueError(f"VIT_COURSE_PROFILE is {name!r}: use {', '.join(PROFILES)}")
    return Profile(name)
