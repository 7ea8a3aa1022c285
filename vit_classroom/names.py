"""Which names a piece of source takes from around it: what must stand beside an excerpt or a kept answer."""

import symtable
from collections.abc import Iterator


def free_names(source: str) -> set[str]:
    """Return the names that a source takes from around it, those of annotations and defaults included.

    Raises:
        SyntaxError: if the source is not Python.
    """

    def walk(table: symtable.SymbolTable) -> Iterator[str]:
        outermost = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (outermost or symbol.is_global()):
                yield symbol.get_name()
        for child in table.get_children():
            yield from walk(child)

    return set(walk(symtable.symtable(source, "source", "exec")))
