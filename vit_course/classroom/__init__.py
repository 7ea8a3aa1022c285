"""What notebooks use beside the model: checks, figures, the explorer, the clinic, the doctor, profiles."""

from importlib import import_module

__all__ = ["check", "plots"]


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for: the doctor must speak where torch or matplotlib is broken."""
    if name == "check":
        return import_module("vit_course.classroom.checks").check
    if name == "plots":
        return import_module("vit_course.classroom.plots")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
