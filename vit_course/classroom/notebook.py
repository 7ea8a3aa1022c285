"""Is this a notebook, and does somebody look? Verdicts, figures and sliders are shown in another way there."""

import os
import sys
from typing import Any


def kernel() -> Any:
    """Return the IPython kernel that runs this, or None."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return getattr(shell, "kernel", None)


def in_notebook() -> bool:
    """Tell whether this is an IPython kernel."""
    return bool(kernel())


def somebody_looks() -> bool:
    """Tell whether controls are of use: a program that runs a notebook, such as nbclient, can answer no question.

    VIT_COURSE_WIDGETS=0 or 1 decides it.
    """
    wanted = os.environ.get("VIT_COURSE_WIDGETS")
    return wanted != "0" and (wanted == "1" or getattr(kernel(), "_allow_stdin", True))
