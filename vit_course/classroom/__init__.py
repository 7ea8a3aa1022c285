"""What notebooks use beside the model: checks, figures, the explorer, the clinic, the doctor, profiles.

`from vit_course.classroom import check, plots` is what a lesson writes. Nothing is loaded before it is asked for: the
doctor has to start where torch or matplotlib is missing or broken.
"""

from typing import Any

__all__ = ["check", "plots"]


def __getattr__(name: str) -> Any:
    if name != "check":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vit_course.classroom.checks import check

    return check
