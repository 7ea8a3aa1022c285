"""What notebooks use beside the model: checks, figures, tables, the doctor; what one lesson alone shows is an exhibit.

`from vit_classroom import check, plots, table` is what a lesson writes. Nothing is loaded before it is asked
for: the doctor has to start where torch or matplotlib is missing or broken.
"""

from importlib import import_module
from typing import Any

__all__ = ["check", "plots", "table"]
PACKAGES = ("vit_course", "vit_classroom")
"""The course's own packages: what is defined in them is the finished version, and no student's."""
HOMES = {"check": "checks", "table": "tables"}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
