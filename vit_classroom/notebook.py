"""Is this a notebook, and what was run in it? Verdicts, figures, sliders and source are shown in another way there."""

import ast
import contextlib
import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from vit_course.training.kernel import kernel


def in_notebook() -> bool:
    """Tell whether this is an IPython kernel."""
    return bool(kernel())


def cells_run() -> list[str]:
    """Return the text of the cells that were run, as Python, the one that runs now last; [] outside IPython."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    texts = []
    for cell in shell.history_manager.input_hist_raw if shell else []:
        with contextlib.suppress(SyntaxError):
            texts.append(as_python(shell, cell))
    return texts


def as_python(shell: Any, cell: str) -> str:
    """Return the text of a cell as Python, without magics.

    Raises:
        SyntaxError: if it is none.
    """
    while cell.lstrip().startswith("%%"):  # a cell magic, such as %%time
        cell = cell.lstrip().partition("\n")[2]
    return shell.transform_cell(cell)


def cell_that_runs() -> str:
    """Return the text of the cell that runs now, as it stands in the notebook; "" outside IPython."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return shell.history_manager.input_hist_raw[-1] if shell else ""


def show_source(*functions: Callable) -> None:
    """Show functions or classes as they are written, for reading: without their docstrings."""
    text = "\n\n".join(map(source_without_docstrings, functions))
    if not in_notebook():
        print(text)
        return
    from IPython.display import display

    display({"text/plain": text, "text/markdown": f"```python\n{text}\n```"}, raw=True)


def source_without_docstrings(function: Callable) -> str:
    """Return the source of a function or class, and leave out every docstring and every mark of what is given."""
    text = textwrap.dedent(inspect.getsource(function)).replace("  # given\n", "\n")
    lines: list = text.rstrip().split("\n")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            end = docstring.end_lineno
            while end < len(lines) and not lines[end]:
                end += 1
            lines[docstring.lineno - 1 : end] = [None] * (end - docstring.lineno + 1)
    return "\n".join(line for line in lines if line is not None)
