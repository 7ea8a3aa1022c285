"""How nbval runs the notebooks: which outputs are compared, and that solutions must be right.

One call runs both editions of all lessons. Solutions 01 to 06 must say what they said before, where the PyTorch that
made their outputs is installed: another one may draw other random numbers. What is computed has other last digits on
another kind of machine: `tests/compared_outputs.py` tells how far numbers may differ. VIT_COURSE_COMPARE=0 compares
none. The last line of a run says what was not compared. All other notebooks must run, and what their sentences claim
for every profile must hold.
"""

import os
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path

import nbformat
import pytest

from tests.compared_outputs import compare_outputs, is_compared, skipped_comparisons
from vit_classroom.answer_folder import MIME


def cells_and_claims(book, collect):
    """Yield the cells of a notebook, and after each sentence that claims what holds at every profile, its claims."""
    from nbval.plugin import IPyNbCell

    from authoring.notebooks.claims import ALWAYS, questions

    items = {item.cell.id: item for item in collect()}
    for number, cell in enumerate(book.nb.cells):
        if cell.id in items:
            yield items[cell.id]
        for code in questions(cell, "demand") if cell.metadata.get(ALWAYS) else ():
            claim = {
                "cell": nbformat.v4.new_code_cell(code),
                "cell_num": number,
                "options": defaultdict(bool),
            }
            yield IPyNbCell.from_parent(
                book, name=f"claim in cell {number}: {code.rpartition(')[')[2]}", **claim
            )


def pytest_configure(config):
    """Start kernels as forks where that works; VIT_COURSE_FORK=0 starts them as they always do."""
    if sys.platform == "linux" and os.environ.get("VIT_COURSE_FORK") != "0":
        from tests.forked_kernels import install

        install()


def pytest_terminal_summary(terminalreporter, config):
    """Say at the end what was not compared: else a new PyTorch would switch the comparison off without a word."""
    if config.getoption("nbval", False):
        given = [Path(argument.partition("::")[0]) for argument in config.args]
        paths = {
            path.resolve() for one in given for path in ([one] if one.is_file() else one.rglob("*.ipynb"))
        }
        if line := skipped_comparisons(paths):
            terminalreporter.write_line(line, yellow=True, bold=True)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    """Set up each notebook for its edition."""
    collected = yield
    for book in collected or []:
        if file_path.suffix == ".ipynb":
            book.compare_outputs = is_compared(file_path)
            start, strict = book.setup, str(int(file_path.parent.name == "solutions"))
            answers = parent.config.rootpath / "build/answers" / f"{file_path.parent.name}-{file_path.stem}"

            def setup(start=start, strict=strict, answers=answers):
                # a kernel takes its environment from here
                os.environ |= {"VIT_COURSE_STRICT": strict, "VIT_COURSE_ANSWERS": str(answers)}
                start()

            book.setup = setup
            book.collect = partial(cells_and_claims, book, book.collect)
    return collected


def pytest_itemcollected(item):
    """Compare by what is said; leave out what differs by machine, such as warnings on stderr."""
    if hasattr(item.parent, "skip_compare"):
        item.parent.skip_compare = {*item.parent.skip_compare, "stderr", MIME}
        item.compare_outputs = partial(compare_outputs, item)
