"""The outputs of solution notebooks: run one, keep what it shows, and know whether that is still true.

A solution says in its metadata what its outputs came from. Its `source_hash` covers the code of its cells and of
every module of the package that they import, without comments and docstrings: those make no output stale. Lessons
that show recorded runs become stale with those, too.
"""

import ast
import copy
import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import nbformat
from excerpts import DEFINITIONS, absolute_name, module_file, module_tree, parse, parse_references
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

PACKAGE = "vit_course"
READERS = {f"{PACKAGE}.experiments": "runs/*.json", f"{PACKAGE}.trained": "checkpoints/*.safetensors"}
"""Modules whose lessons show recorded runs or trained weights, and where below `data/` these are."""
SETUP_TAG = "setup"
ABSOLUTE_PATH = re.compile(
    r"(?<![\w.:/~])(?:/(?:home|root|tmp|Users|work|opt|usr|var|mnt|private)/\w|[A-Z]:\\\w)"
)
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PROGRESS_BAR = re.compile(r"\d%\|")
WIDGET_TEXT = "[a control that works when you run the notebook]"
SETTINGS = {"VIT_COURSE_STRICT": "1", "VIT_COURSE_DATA": "shapes10", "VIT_COURSE_WIDGETS": "0"}
DEFAULT_PROFILE = "cpu"
PROBE = f"""
import importlib.metadata, json, sys
from {PACKAGE}.profiles import get_device, get_profile
data = sys.modules.get("{PACKAGE}.data")
print()
print(json.dumps({{
    "torch": importlib.metadata.version("torch"),
    "device": str(get_device()),
    "profile": get_profile().name,
    "dataset": data.load_dataset("auto").provenance if data else None,
}}))
"""


class NotebookFailed(Exception):
    """A notebook did not run, or shows what it should not."""


def code_cells(book: NotebookNode) -> list[NotebookNode]:
    """Return the code cells of a notebook."""
    return [cell for cell in book.cells if cell.cell_type == "code"]


def is_setup(cell: NotebookNode) -> bool:
    """Tell whether a cell is the generated one that installs the course on Colab: it shows and changes nothing."""
    return SETUP_TAG in cell.metadata.get("tags", [])


# -- where outputs come from


def fingerprint(node: object) -> object:
    """Return a syntax tree as nested lists: without places, comments and docstrings; the same on every Python."""
    if isinstance(node, list):
        return [fingerprint(item) for item in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, DEFINITIONS) and ast.get_docstring(node) is not None:
        fields["body"] = node.body[1:]
    if isinstance(node, ast.JoinedStr):  # Python 3.12 splits f-strings into more parts, some of them empty
        fields["values"] = [part for part in node.values if getattr(part, "value", None) != ""]
    kept = [(key, value) for key, value in fields.items() if value not in (None, []) and key != "kind"]
    return [type(node).__name__, *([key, fingerprint(value)] for key, value in kept)]


def source_hash(root: Path, book: NotebookNode) -> str:
    """Hash all that the outputs of a solution come from: code, recorded runs and trained weights."""
    cells = [cell for cell in code_cells(book) if not is_setup(cell)]
    trees = [parse(cell.source) for cell in cells]
    exercises = ",".join(cell.metadata.exercise for cell in cells if "exercise" in cell.metadata)
    pending = {reference.module for reference in parse_references(exercises)}
    pending = pending.union(*(imported_modules(root, tree, "") for tree in trees))
    modules: dict[str, object] = {}
    while pending:
        name = pending.pop()
        tree = module_tree(root, name)
        modules[name] = fingerprint(tree.body[ast.get_docstring(tree) is not None :])
        is_package = module_file(root, name).name == "__init__.py"
        pending |= imported_modules(root, tree, f"{name}.__init__" if is_package else name) - modules.keys()
    facts = [[fingerprint(tree) for tree in trees], sorted(modules.items())]
    for reader, pattern in READERS.items():
        if reader in modules:
            paths = sorted(path for path in (root / "data").glob(pattern) if may_show(trees, path.stem))
            facts.append([[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in paths])
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def may_show(trees: list[ast.Module], record: str) -> bool:
    """Tell whether cells may show a record: they name its group, the second part of size-group-name-seed."""
    parts = record.split("-")
    nodes = (node for tree in trees for node in ast.walk(tree))
    return len(parts) < 4 or any(isinstance(node, ast.Constant) and node.value == parts[1] for node in nodes)


def imported_modules(root: Path, tree: ast.Module, module: str) -> set[str]:
    """Return the modules of the package that a tree imports, the package itself included, the checks left out."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = absolute_name(node, module)
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    parts = [name.split(".") for name in names]
    inside = [part for part in parts if part[0] == PACKAGE and part[1:2] != ["checks"]]
    around = {".".join(part[:length]) for part in inside for length in range(1, len(part) + 1)}
    return {name for name in around if module_file(root, name)}


def carry_outputs(old: NotebookNode, new: NotebookNode) -> None:
    """Copy outputs, and what they came from, to the cells whose code is, comments aside, what it was."""

    def key(cell: NotebookNode) -> str:
        return cell.id if is_setup(cell) else json.dumps(fingerprint(parse(cell.source)))

    stored = defaultdict(list)
    for cell in code_cells(old):
        stored[key(cell)].append(cell)
    for cell in code_cells(new):
        if stored[key(cell)]:
            earlier = stored[key(cell)].pop(0)
            cell.outputs, cell.execution_count = earlier.outputs, earlier.execution_count
    new.metadata[PACKAGE] = {**old.metadata.get(PACKAGE, {}), **new.metadata[PACKAGE]}


def is_current(root: Path, book: NotebookNode) -> bool:
    """Tell whether a solution has outputs, and they come from the code as it is now."""
    complete = all(cell.execution_count is not None for cell in code_cells(book))
    return complete and book.metadata[PACKAGE].get("source_hash") == source_hash(root, book)


# -- running


def run(root: Path, book: NotebookNode, name: str) -> None:
    """Run a solution in the folder `solutions/`, and store its outputs and what they came from in it.

    Raises:
        NotebookFailed: if a cell fails, or an output shows a path of this machine.
    """
    scratch = copy.deepcopy(book)
    scratch.cells.append(nbformat.v4.new_code_cell(PROBE))
    client = NotebookClient(
        scratch,
        kernel_name="python3",
        resources={"metadata": {"path": str(root / "solutions")}},
        extra_arguments=["--log-level=ERROR"],
        timeout=1800,
        record_timing=False,
        coalesce_streams=True,
    )
    # nbclient's stand-in for an output widget can lose the kernel's reply and wait for ever: nbclient issue 312.
    client.comm_open_handlers["jupyter.widget"] = lambda message: None
    try:
        client.execute(env=environment(root))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise NotebookFailed(f"{name} does not run: {error}") from error
    *ran, probe = code_cells(scratch)
    for cell, result in zip(code_cells(book), ran, strict=True):
        cell.outputs, cell.execution_count = clean_outputs(result.outputs), result.execution_count
        for text in filter(ABSOLUTE_PATH.search, output_texts(cell)):
            raise NotebookFailed(f"{name}: an output shows a path of this machine: {text[:500]!r}")
    facts = json.loads("".join(output_texts(probe)).splitlines()[-1])
    book.metadata[PACKAGE].update(facts, executed=True, source_hash=source_hash(root, book))


def environment(root: Path) -> dict[str, str]:
    """Return the environment to run solutions in: strict checks, generated data, this course's package."""
    env = {"VIT_COURSE_PROFILE": DEFAULT_PROFILE, **os.environ, **SETTINGS}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root.resolve()), env.get("PYTHONPATH")]))
    env.pop("MPLBACKEND", None)  # figures belong in the notebook
    return env


def clean_outputs(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Drop stderr (warnings) and progress bars, and put a line of text in the place of widgets, which are gone."""
    outputs = [o for o in outputs if not PROGRESS_BAR.search(o.get("data", {}).get("text/plain", ""))]
    for output in outputs:
        if output.get("data", {}).pop(WIDGET_VIEW, None):
            output.data["text/plain"] = WIDGET_TEXT
    return [output for output in outputs if output.get("name") != "stderr"]


def output_texts(cell: NotebookNode) -> Iterator[str]:
    """Yield every text among the outputs of a cell; pictures are none."""
    for output in cell.outputs:
        yield from filter(None, [output.get("text"), output.get("evalue"), *output.get("traceback", [])])
        yield from (text for kind, text in output.get("data", {}).items() if kind.startswith("text/"))
