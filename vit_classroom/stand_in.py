"""Nobody is stuck: where a cell of an exercise made no name, the cells below take the finished version.

A cell with a syntax error makes no name, and neither does one that was not run; its check has not run either. The first
cell of a student's notebook calls `stand_in`.
"""

import contextlib
import symtable
import sys
from collections.abc import Callable
from typing import Any

from vit_classroom.checks import EXERCISES, check
from vit_classroom.names import free_names
from vit_classroom.notebook import as_python

WATCHING: list[Callable] = []
"""What looks at every cell of this kernel before it runs."""


def stand_in(lesson: str) -> None:
    """Before every cell from now on, make the names of a lesson's exercises that it reads and that are not there.

    What is made is the finished version, and the cell says so. A name that the cell makes itself is left to it.

    Args:
        lesson: the folder of the lesson, its number and its name.
    """
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if not shell:
        return
    names = [name for name, home in EXERCISES.homes.items() if home == lesson]

    def before_cell(info: Any) -> None:
        read = names_read(shell, info.raw_cell)
        missing = [name for name in names if name in read and name not in shell.user_ns]
        shell.user_ns.update({name: EXERCISES[name].reference for name in missing})
        if "check" in read:
            shell.user_ns.setdefault("check", check)
        if missing:
            print(
                f"{', '.join(missing)}: the course's finished version, until a cell of yours has made another."
            )

    for old in WATCHING:
        shell.events.unregister("pre_run_cell", old)
    WATCHING[:] = [before_cell]
    shell.events.register("pre_run_cell", before_cell)


def names_read(shell: Any, cell: str) -> set[str]:
    """Return the names that a cell takes from others; none if it is not Python."""
    with contextlib.suppress(SyntaxError, ValueError):
        source = as_python(shell, cell)
        symbols = symtable.symtable(source, "cell", "exec").get_symbols()
        own = {one.get_name() for one in symbols if one.is_assigned() or one.is_imported()}
        return free_names(source) - own
    return set()
