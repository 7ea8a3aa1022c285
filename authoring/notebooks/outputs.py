"""The outputs of solution notebooks: run one, keep what it shows, and know whether that is still true.

A solution says in its metadata what its outputs came from. Its `source_hash` covers the code of its cells and of every
definition of the package that they `reach`, wherever it lies, without comments and docstrings. Lessons that show
recorded runs become stale with those, too.
"""

import ast
import copy
import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from html import unescape
from pathlib import Path
from types import MappingProxyType

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from authoring.notebooks.claims import ALWAYS, of_training, questions, with_seed
from authoring.notebooks.dependencies import Place, fingerprint, reach
from authoring.notebooks.stubs import parse

READERS = {"load_records": "runs", "load_trained": "checkpoints"}
"""Functions that read recorded runs or trained weights, and the folder below `data/` where these lie."""
SILENT = (
    "vit_classroom.checks",
    "vit_classroom.doctor",
    "vit_classroom.paths",
    "vit_course.training.console",
    "vit_course.training.paths",
)
"""Modules and folders that cannot change the numbers of a lesson."""
FACTS = "vit_course"
"""What the metadata of a notebook call the course's own facts."""
SETUP_TAG = "setup"
CLAIM_TAG = "claim"
KEPT_WITH_OUTPUTS = frozenset({"seconds"})
"""What a run writes into the metadata of a cell, beside its outputs: how many seconds it took."""
ABSOLUTE_PATH = re.compile(
    r"(?<![\w.:/~])(?:/(?:home|root|tmp|Users|work|opt|usr|var|mnt|private)/\w|[A-Z]:\\\w)"
)
FIGURE = re.compile(
    r'\s*(?:<div[^>]*>)?<img alt="(?P<alt>[^"]*)"[^>]* src="data:image/png;base64,(?P<png>[^"]+)">(?:</div>)?\s*'
)
"""A figure as a notebook shows it while it runs: JupyterLab gives the text `alt` to HTML alone, not to a PNG."""
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PROGRESS_BAR = re.compile(r"\d%\|")
WIDGET_TEXT = "[a control that works when you run the notebook]"
SETTINGS = {"VIT_COURSE_STRICT": "1", "VIT_COURSE_DATA": "shapes10", "VIT_COURSE_WIDGETS": "0"}
DEFAULT_PROFILE = "cpu"
PROBE = """
import importlib.metadata, json, sys
from vit_classroom.profiles import get_profile
from vit_course.training.device import get_device
data = sys.modules.get("vit_course.data")
print()
print(json.dumps({
    "torch": importlib.metadata.version("torch"),
    "device": str(get_device()),
    "profile": get_profile().name,
    "dataset": data.load_dataset("auto").provenance if data else None,
}))
"""


class NotebookFailed(Exception):
    """A notebook did not run, or shows what it should not."""


class FalseClaims(NotebookFailed):
    """What a solution showed does not bear out its sentences; `wrong` has a message for each claim."""

    def __init__(self, name: str, wrong: list[str]):
        super().__init__("\n".join([f"{name} does not show what it says:", *wrong]))
        self.wrong = wrong


def code_cells(book: NotebookNode) -> list[NotebookNode]:
    """Return the code cells of a notebook."""
    return [cell for cell in book.cells if cell.cell_type == "code"]


def is_setup(cell: NotebookNode) -> bool:
    """Tell whether a cell is the generated one that installs the course on Colab: it shows and changes nothing."""
    return SETUP_TAG in cell.metadata.get("tags", [])


# -- where outputs come from


def source_hash(root: Path, book: NotebookNode) -> str:
    """Hash all that the outputs of a solution come from: what its code says and reaches, records and weights.

    What its sentences claim of these outputs counts, too.
    """
    trees = [parse(cell.source) for cell in code_cells(book) if not is_setup(cell)]
    found = reach(root, trees, is_silent)
    said = [json.loads(found.pop(Place("", str(number))).says) for number in range(len(trees))]
    facts = [said, sorted({reached.says for reached in found.values()})]
    for reader, folder in READERS.items():
        if any(place.name == reader for place in found):
            paths = shown_files(root / "data" / folder, trees)
            facts.append(sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in paths))
    if claims := of_training(book):
        facts.append(claims)
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def is_silent(place: Place) -> bool:
    """Tell whether what a place holds cannot change the numbers that a lesson shows."""
    return any(f"{place.module}.{place.name}".startswith(f"{name}.") for name in SILENT)


def shown_files(folder: Path, trees: list[ast.Module]) -> Iterator[Path]:
    """Yield the records or weights in a folder that cells may show: those of groups that they name, and of no group."""
    named = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    for path in (path for path in folder.rglob("*") if path.suffix in (".json", ".safetensors")):
        if path.parent == folder or path.parent.name in named:
            yield path


def carry_outputs(old: NotebookNode, new: NotebookNode) -> None:
    """Copy outputs, and what they came from, to the cells whose code is, comments and imports aside, what it was."""

    def key(cell: NotebookNode) -> str:
        return cell.id if is_setup(cell) else said_by(cell.source)

    stored = defaultdict(list)
    for cell in code_cells(old):
        stored[key(cell)].append(cell)
    for cell in code_cells(new):
        if stored[key(cell)]:
            copy_outputs(stored[key(cell)].pop(0), cell)
    new.metadata[FACTS] = {**old.metadata.get(FACTS, {}), **new.metadata[FACTS]}


@lru_cache(maxsize=2048)
def said_by(source: str) -> str:
    """Return what a cell's code says, comments and imports aside."""
    return json.dumps(fingerprint(parse(source)))


def copy_outputs(old: NotebookNode, new: NotebookNode) -> None:
    """Give a cell what a run of another has left: outputs, count, and what was measured."""
    new.outputs, new.execution_count = old.outputs, old.execution_count
    new.metadata.update({key: old.metadata[key] for key in KEPT_WITH_OUTPUTS & old.metadata.keys()})


def is_current(root: Path, book: NotebookNode) -> bool:
    """Tell whether a solution has outputs, and they come from the code as it is now."""
    complete = all(cell.execution_count is not None for cell in code_cells(book))
    return complete and book.metadata[FACTS].get("source_hash") == source_hash(root, book)


# -- running


def run(
    root: Path,
    book: NotebookNode,
    name: str,
    settings: Mapping[str, str] = MappingProxyType({}),
    seed: int = 0,
) -> None:
    """Run a solution in the folder `solutions/`, and store in it outputs, seconds, and what they came from.

    Args:
        root: the folder that holds the package.
        book: the solution.
        name: what messages call it.
        settings: environment variables that go before all others.
        seed: shifts the seeds of the lesson; what another than 0 shows is not stored.

    Raises:
        NotebookFailed: if a cell fails, or an output shows a path of this machine.
        FalseClaims: if it runs, and shows something else than its sentences claim.
    """
    env = {**environment(root), **settings}
    scratch = with_claims(book, always=env["VIT_COURSE_PROFILE"] == "smoke")
    scratch.cells.append(nbformat.v4.new_code_cell(PROBE))
    with_seed(scratch, seed)
    client = NotebookClient(
        scratch,
        kernel_name="python3",
        resources={"metadata": {"path": str(root / "solutions")}},
        extra_arguments=["--log-level=ERROR"],
        timeout=1800,
        coalesce_streams=True,
    )
    # nbclient's stand-in for an output widget can lose the kernel's reply and wait for ever: nbclient issue 312.
    client.comm_open_handlers["jupyter.widget"] = lambda message: None
    try:
        client.execute(env=env)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise NotebookFailed(f"{name} does not run: {error}") from error
    *ran, probe = (cell for cell in code_cells(scratch) if not is_claim(cell))
    examined = ("".join(output_texts(cell)) for cell in code_cells(scratch) if is_claim(cell))
    if wrong := list(filter(None, examined)):
        raise FalseClaims(name, wrong)
    if seed:
        return
    for number, (cell, result) in enumerate(zip(code_cells(book), ran, strict=True), 1):
        cell.outputs, cell.execution_count = stored_figures(clean_outputs(result.outputs)), number
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
        cell.metadata["seconds"] = seconds(result)
        for text in filter(ABSOLUTE_PATH.search, output_texts(cell)):
            raise NotebookFailed(f"{name}: an output shows a path of this machine: {text[:500]!r}")
    said = "".join(output.text for output in probe.outputs if output.get("name") == "stdout")
    facts = json.loads(next(line for line in reversed(said.splitlines()) if line.startswith("{")))
    book.metadata[FACTS].update(facts, executed=True, source_hash=source_hash(root, book))


def with_claims(book: NotebookNode, always: bool) -> NotebookNode:
    """Copy a solution, with a cell after each sentence that examines its claim: all, or those that hold always."""
    copied = copy.deepcopy(book)
    copied.cells = []
    for cell in copy.deepcopy(book.cells):
        copied.cells.append(cell)
        for code in questions(cell) if cell.metadata.get(ALWAYS) or not always else ():
            copied.cells.append(nbformat.v4.new_code_cell(code, metadata={"tags": [CLAIM_TAG]}))
    return copied


def is_claim(cell: NotebookNode) -> bool:
    """Tell whether a cell is one that `with_claims` has added."""
    return CLAIM_TAG in cell.metadata.get("tags", [])


def seconds(cell: NotebookNode) -> int | float:
    """Return how long a cell ran, by the clock of its kernel's messages, in tenths of a second."""
    times = cell.metadata["execution"]
    begin, end = (  # Python 3.10 does not read the Z of UTC
        datetime.fromisoformat(times[f"iopub.status.{state}"].removesuffix("Z")) for state in ("busy", "idle")
    )
    spent = round((end - begin).total_seconds(), 1)
    return int(spent) if spent.is_integer() else spent  # as JupyterLab writes it: 3, and not 3.0


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


def stored_figures(outputs: Sequence[dict]) -> list[NotebookNode]:
    """Turn each figure into what is stored of it: GitHub shows a PNG, and no picture in HTML.

    Its text stands where exports look for it, and is its `text/plain`, by which figures are compared.
    """
    stored = []
    for output in map(nbformat.from_dict, outputs):
        if figure := FIGURE.fullmatch("".join(output.get("data", {}).get("text/html", ""))):
            alt = unescape(figure["alt"])
            data = {"image/png": figure["png"], "text/plain": alt}
            look = {"image/png": {"alt": alt, "needs_background": "light"}}
            output = nbformat.v4.new_output("display_data", data, metadata=look)
        stored.append(output)
    return stored


def output_texts(cell: NotebookNode) -> Iterator[str]:
    """Yield every text among the outputs of a cell; pictures are none."""
    for output in cell.outputs:
        yield from filter(None, [output.get("text"), output.get("evalue"), *output.get("traceback", [])])
        yield from (text for kind, text in output.get("data", {}).items() if kind.startswith("text/"))
