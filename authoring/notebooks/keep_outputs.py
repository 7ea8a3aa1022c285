"""Keep the outputs of a solution whose code changed, where a run proves that what it shows did not.

The code of a commit in which the outputs were current, and the code of today, run on this machine: profile smoke,
float32, one thread. All that the cells of both show is compared, verdicts and alt texts too; of figures not the bytes.
What only profile `cpu` takes is not run, so that all that a lesson picks by profile must say the same in both.
"""

import ast
import copy
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from authoring.notebooks.claims import of_training
from authoring.notebooks.outputs import FACTS, code_cells, copy_outputs, run, source_hash, stored_figures
from authoring.notebooks.stubs import parse

SETTINGS = {
    **{"VIT_COURSE_PROFILE": "smoke", "VIT_COURSE_PRECISION": "float32", "CUDA_VISIBLE_DEVICES": "-1"},
    **{"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
}
IGNORED = "nbval-ignore-output"
"""The tag of a cell of which nbval compares nothing: only such a one may differ from run to run."""
SAME = {
    re.compile(r'src="data:image/[^"]+"'): 'src="a picture"',
    re.compile(r"\bat 0x[0-9a-fA-F]+"): "at an address",
    re.compile(r"\d+(\.\d+)? (ms|s|min|seconds?|minutes?)\b"): "a time",
}
"""What differs from run to run, and what stands for it in a comparison."""
IS_CURRENT = "import sys; sys.modules['rfc3987_syntax'] = None; \
import nbformat, pathlib; from authoring.notebooks.outputs import is_current; \
sys.exit(3 * (not is_current(pathlib.Path('.'), nbformat.read(sys.argv[1], as_version=4))))"


class Unproven(Exception):
    """Why the outputs of a solution cannot be kept."""


@contextmanager
def tree_of(root: Path, commit: str) -> Iterator[Path]:
    """Check a commit out into a folder that is gone afterwards.

    Raises:
        Unproven: if there is no such commit.
    """
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        git = ["git", "-C", str(root), "worktree"]
        added = subprocess.run([*git, "add", "--detach", tree, commit], capture_output=True, text=True)
        if added.returncode:
            raise Unproven(added.stderr.strip().splitlines()[-1])
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True, capture_output=True)


def keep_outputs(root: Path, new: NotebookNode, old_root: Path, name: str) -> str:
    """Give a solution its own hash if it shows what it shows in another tree; cells without outputs get those there.

    Returns:
        What was compared.

    Raises:
        Unproven: if something differs, or cannot be compared.
        NotebookFailed: if one of them does not run.
    """
    if not (old_root / name).is_file():
        raise Unproven("it is not in that commit")
    old = nbformat.read(old_root / name, as_version=4)
    path = {**os.environ, "PYTHONPATH": "."}
    asked = [sys.executable, "-c", IS_CURRENT, name]
    done = subprocess.run(asked, cwd=old_root, env=path, capture_output=True, text=True)
    if done.returncode:
        crash = done.stderr.strip().splitlines()[-1:] if done.returncode != 3 else []
        raise Unproven(*crash or ["its outputs were stale in that commit already"])
    if len(code_cells(old)) != len(code_cells(new)):
        raise Unproven(f"it has {len(code_cells(new))} code cells and had {len(code_cells(old))}")
    if choices(old) != choices(new):
        raise Unproven(
            f"profiles choose otherwise: {' '.join(sorted(set(choices(old)) ^ set(choices(new))))}"
        )
    if of_training(old) != of_training(new):
        raise Unproven("its sentences claim something else, which only its execution can prove")
    before, after = shown(old_root, old, name), shown(root, new, name)
    different = [number for number, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    unsteady = []
    if different and all(IGNORED in code_cells(old)[number].metadata.get("tags", []) for number in different):
        again = shown(old_root, old, name)
        unsteady = [number for number in different if again[number] != before[number]]
    if wrong := sorted(set(different) - set(unsteady)):
        number = wrong[0]
        cell = code_cells(new)[number].source.strip().partition("\n")[0]
        raise Unproven(
            f"code cell {number + 1} ({cell[:60]}) differs:\n{first_difference(before[number], after[number])}"
        )
    for cell, stored in zip(code_cells(new), code_cells(old), strict=True):
        if cell.execution_count is None:
            copy_outputs(stored, cell)
            cell.outputs = stored_figures(cell.outputs)
    facts = {"source_hash": source_hash(root, new)}
    new.metadata[FACTS] = {**old.metadata[FACTS], **new.metadata[FACTS], **facts}
    equal = [texts for number, texts in enumerate(after) if number not in unsteady]
    return (
        f"{sum(map(len, equal))} outputs of {len(equal)} code cells are equal at profile smoke"
        + f"; {len(unsteady)} differ from run to run and say nothing" * bool(unsteady)
    )


def shown(root: Path, book: NotebookNode, name: str) -> list[list[str]]:
    """Run a solution and return what each code cell shows, one text an output."""
    ran = copy.deepcopy(book)
    with tempfile.TemporaryDirectory() as answers:
        run(root, ran, name, {**SETTINGS, "VIT_COURSE_ANSWERS": answers})
    return [[comparable(output) for output in cell.outputs] for cell in code_cells(ran)]


def comparable(output: NotebookNode) -> str:
    """Write an output as a text, without what differs from run to run, and without looks where words say the same."""
    kept = {key: value for key, value in output.items() if key not in ("execution_count", "metadata")}
    data = output.get("data", {})
    looks = ("image/", "text/html") if data.get("text/plain", "<")[0] != "<" else ("image/",)
    kept["data"] = {k: v for k, v in data.items() if not k.startswith(looks)}
    text = json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False).replace('\\"', '"')
    for pattern, replacement in SAME.items():
        text = pattern.sub(replacement, text)
    return text.replace("\\n", "\n")


def choices(book: NotebookNode) -> list[str]:
    """Return what the cells of a solution make depend on the profile."""
    nodes = [node for cell in code_cells(book) for node in ast.walk(parse(cell.source))]
    picks = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func).endswith(".pick")]
    asks = [n for n in nodes if isinstance(n, ast.Compare) and "profile" in ast.unparse(n)]
    return sorted(map(ast.unparse, picks + asks))


def first_difference(before: list[str], after: list[str]) -> str:
    """Return the first line in which two lists of outputs differ, as it was and as it is."""
    lines = [*map(str.splitlines, ("\n".join(before), "\n".join(after)))]
    length = max(map(len, lines))
    was, is_now = ([*found, *["(nothing)"] * (length + 1 - len(found))] for found in lines)
    return next((f"  was {a[:140]}\n  is  {b[:140]}" for a, b in zip(was, is_now, strict=True) if a != b), "")
