"""Is this a notebook? Verdicts, figures and sliders are shown in another way there than in a plain script."""

import sys


def in_notebook() -> bool:
    """Tell whether this is an IPython kernel."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return bool(shell and getattr(shell, "kernel", None))
