"""Does a notebook run this, and does somebody look? It imports nothing: the doctor asks where packages are missing."""

import os
import sys
from typing import Any


def kernel() -> Any:
    """Return the IPython kernel that runs this, or None."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return getattr(shell, "kernel", None)


def somebody_looks() -> bool:
    """Tell whether controls and bars are of use: a program that runs a notebook, such as nbclient, sees none.

    VIT_COURSE_WIDGETS=0 or 1 decides it.
    """
    wanted = os.environ.get("VIT_COURSE_WIDGETS")
    return wanted != "0" and (wanted == "1" or getattr(kernel(), "_allow_stdin", True))
