"""Is this a notebook? Verdicts, figures, sliders and source are shown in another way there than in a plain script."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable


def in_notebook() -> bool:
    """Tell whether this is an IPython kernel."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return bool(shell and getattr(shell, "kernel", None))


def show_source(*functions: Callable) -> None:
    """Show functions or classes as they are written, for reading: without their docstrings."""
    text = "\n\n".join(map(source_without_docstrings, functions))
    if not in_notebook():
        print(text)
        return
    from IPython.display import display

    display({"text/plain": text, "text/markdown": f"```python\n{text}\n```"}, raw=True)


def source_without_docstrings(function: Callable) -> str:
    """Return the source of a function or class, and leave out every docstring in it."""
    text = textwrap.dedent(inspect.getsource(function))
    lines: list[str | None] = list(text.rstrip().split("\n"))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            end = docstring.end_lineno
            while end < len(lines) and not lines[end]:
                end += 1
            lines[docstring.lineno - 1 : end] = [None] * (end - docstring.lineno + 1)
    return "\n".join(line for line in lines if line is not None)
