"""Write the notebooks of the course: the students' in `notebooks/`, the solved ones in `solutions/`.

    python lessons/build.py [NN ...]            write the notebooks, and the lesson table of the README
    python lessons/build.py --check [NN ...]    change nothing; say what is stale, and how to mend it
    python lessons/build.py --execute [NN ...]  write, then run the solutions named, or else the stale ones

A lesson names its exercises by reference, `exercise="vit_course.patches:patchify"`. The student's notebook shows
signature and docstring, the solution the source: both are `excerpts` of the package. `outputs` runs solutions.
With `starter="module:function"` students get, in place of an empty stub, the body of that function: code to be mended.
"""

import argparse
import ast
import difflib
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import jupytext
import nbformat
import yaml
from excerpts import FUNCTIONS, Reference, find_excerpt, import_lines, parse, parse_references
from nbformat import NotebookNode
from outputs import PACKAGE, SETUP_TAG, NotebookFailed, carry_outputs, is_current, run
from results import with_results

ROOT = Path(__file__).resolve().parent.parent
FRONT_MATTER = {"title": str, "promise": str, "part": str, "minutes": int, "goals": list}
LEFT_OUT = {"notebooks": "solution-only", "solutions": "student-only"}  # tags of cells, by folder
SOLUTION_MARK = re.compile(r"[ \t]*# SOLUTION[ \t]*$", re.MULTILINE)
README_TABLE = re.compile(r"(<!-- lessons:begin -->\n).*?(<!-- lessons:end -->)", re.DOTALL)
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
SETUP = """\
# @title Set up: run this cell first. On Colab it installs the course; elsewhere it does nothing.
import importlib.util
import os
import subprocess
import sys

if "google.colab" in sys.modules:
    course = "/content/{name}"
    if not os.path.isdir(course):
        subprocess.run(["git", "clone", "--quiet", "--depth=1", "{repository}", course], check=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--editable", course], check=True)
    sys.path.insert(0, course)
    os.chdir(f"{{course}}/notebooks")
elif not all(map(importlib.util.find_spec, ("vit_course", "torch", "einops"))):
    print(f"This kernel runs {{sys.executable}}, where the course is not installed.")
    print("Open the notebooks with `make lab`, or choose the kernel of the course's environment (Kernel menu),")
    print("or install the course into this one: python -m pip install --editable .  (in the course's folder)")
"""


class LessonError(Exception):
    """What an author has to mend, with the file and the line."""


# -- reading lessons


@dataclass(frozen=True)
class LessonCell:
    """One cell as the author wrote it; `line` is that of its `# %%` marker."""

    kind: str
    source: str
    metadata: dict
    line: int
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class Lesson:
    """One `lessons/NN_slug.py`: its front matter and its cells."""

    slug: str
    title: str
    promise: str
    part: str
    minutes: int
    goals: list[str]
    cells: tuple[LessonCell, ...] = ()

    @property
    def number(self) -> str:
        """The two digits that the file's name begins with."""
        return self.slug[:2]

    def error(self, line: int, message: object) -> LessonError:
        """Return an error that names the lesson's file and the line."""
        return LessonError(f"lessons/{self.slug}.py:{line}: {message}")


@dataclass(frozen=True)
class Course:
    """The lessons below one root folder, in order, and where the repository is published."""

    root: Path
    repository: str
    lessons: tuple[Lesson, ...]

    def select(self, numbers: Sequence[str]) -> list[Lesson]:
        """Return the lessons with these numbers ("3" and "03" are the same); without numbers, all."""
        wanted = {number.zfill(2) for number in numbers}
        if unknown := wanted - {lesson.number for lesson in self.lessons}:
            raise LessonError(f"there is no lesson {', '.join(sorted(unknown))}")
        return [lesson for lesson in self.lessons if not wanted or lesson.number in wanted]


def read_course(root: Path) -> Course:
    """Read every lesson, and the address of the repository."""
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    address = re.search(r'^Repository\s*=\s*"([^"]+)"', project, re.MULTILINE)
    if not address:
        raise LessonError("pyproject.toml: [project.urls] has no Repository")
    paths = sorted((root / "lessons").glob("[0-9][0-9]_*.py"))
    return Course(root, address[1].rstrip("/"), tuple(read_lesson(path) for path in paths))


def read_lesson(path: Path) -> Lesson:
    """Read one lesson, and verify all that can be verified without the package."""
    text = path.read_text(encoding="utf-8")
    front, start = read_front_matter(path.name, text)
    lesson = Lesson(path.stem, **front)
    lines = text.splitlines()
    markers = [n for n, line in enumerate(lines, 1) if n >= start and line.startswith("# %%")]
    body = "\n".join(lines[start - 1 :]).lstrip("\n")
    cells = jupytext.reads(
        body, fmt={"extension": ".py", "format_name": "percent", "comment_magics": False}
    ).cells
    if len(cells) != len(markers):
        raise lesson.error(start, "there is code before the first `# %%`, or a string with a line `# %%`")
    found = zip(cells, markers, strict=True)
    return replace(lesson, cells=tuple(read_cell(lesson, cell, n, lines[n - 1]) for cell, n in found))


def read_front_matter(name: str, text: str) -> tuple[dict, int]:
    """Return the front matter of a lesson and the number of the first line after it."""
    block = re.match(r"# ---\n(.*?)^# ---\n", text, re.DOTALL | re.MULTILINE)
    if not block:
        raise LessonError(f"lessons/{name}:1: front matter between two lines `# ---` is missing")
    try:
        front = yaml.safe_load(re.sub(r"^# ?", "", block[1], flags=re.MULTILINE)) or {}
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2
        raise LessonError(f"lessons/{name}:{line}: front matter: {error.problem}") from error
    for key, kind in FRONT_MATTER.items():
        if not isinstance(front.get(key), kind) or not front[key]:
            raise LessonError(f"lessons/{name}:1: the front matter needs {key!r} ({kind.__name__})")
    if surplus := sorted(front.keys() - FRONT_MATTER.keys()):
        raise LessonError(f"lessons/{name}:1: unknown in the front matter: {', '.join(surplus)}")
    return front, block[0].count("\n") + 1


def read_cell(lesson: Lesson, cell: NotebookNode, line: int, marker: str) -> LessonCell:
    """Turn a cell as jupytext reads it into ours. An exercise must state all that a student is told about it."""
    metadata = {key: value for key, value in cell.metadata.items() if key != "lines_to_next_cell"}
    try:
        references = parse_references(metadata["exercise"]) if "exercise" in metadata else []
        references = with_starters(references, metadata.get("starter", ""))
        if cell.cell_type == "code":
            parse(cell.source)
    except LookupError as error:
        raise lesson.error(line, error) from error
    except SyntaxError as error:
        raise lesson.error(line + error.lineno, error.msg) from error
    if "exercise=" in marker and not references:
        raise lesson.error(line, 'the options of this cell cannot be read; write key="value" key=3')
    if references and metadata.get("difficulty") not in (1, 2, 3):
        raise lesson.error(line, "this exercise needs difficulty=1, 2 or 3")
    if references and not (isinstance(metadata.get("minutes"), int) and metadata["minutes"] > 0):
        raise lesson.error(line, "this exercise needs minutes=N")
    for key in ("hint", "hint2") if references else ():
        if not str(metadata.get(key, "")).strip():
            raise lesson.error(line, f'this exercise needs {key}="..."')
    return LessonCell(cell.cell_type, cell.source, metadata, line, tuple(references))


def with_starters(references: list[Reference], text: str) -> list[Reference]:
    """Give the references of an exercise the starters named in its option `starter`, one each and in this order.

    Raises:
        LookupError: if there are more or fewer starters than references.
    """
    starters = parse_references(text)
    if starters and len(starters) != len(references):
        raise LookupError(
            f"{len(starters)} starters do not fit {len(references)} exercises: name one for each"
        )
    return (
        [replace(r, starter=s) for r, s in zip(references, starters, strict=True)] if starters else references
    )


# -- making notebooks


def make_notebook(course: Course, lesson: Lesson, folder: str) -> NotebookNode:
    """Build the notebook of a lesson that goes to `folder`, without outputs."""
    solved, cells, seen, known, exercises = folder == "solutions", [], Counter(), set(), 0

    def add(kind: str, role: str, origin: str, source: str, **metadata) -> None:
        """Append a cell; its id depends on its role and on the lesson's own text of it, and on nothing else."""
        seen[role, kind, origin] += 1
        key = json.dumps([lesson.slug, role, kind, origin, seen[role, kind, origin]])
        make = getattr(nbformat.v4, f"new_{kind}_cell")
        cells.append(make(source, id=hashlib.sha256(key.encode()).hexdigest()[:12], metadata=metadata))

    add("markdown", "title", "", title_text(course, lesson, solved))
    setup = SETUP.format(name=course.repository.rpartition("/")[2], repository=course.repository).strip()
    add("code", "setup", "", setup, cellView="form", jupyter={"source_hidden": True}, tags=[SETUP_TAG])
    for cell in lesson.cells:
        tags = cell.metadata.get("tags", [])
        if LEFT_OUT[folder] in tags:
            continue
        source = cell.source
        if cell.kind == "code":
            source = SOLUTION_MARK.sub("", source) if solved else without_solution(lesson, cell)
        if cell.references:
            exercises += 1
            known |= {reference.name for reference in cell.references}
            add("markdown", "exercise", cell.source, exercise_text(lesson, cell, exercises))
            source = with_excerpts(course, lesson, replace(cell, source=source), known, solved)
        metadata = {key: cell.metadata[key] for key in ("exercise",) if key in cell.metadata}
        if tags := [tag for tag in tags if tag not in LEFT_OUT.values()]:
            metadata["tags"] = tags
        add(cell.kind, "lesson", cell.source, source, **metadata)
    add("markdown", "next", "", next_text(course, lesson))
    metadata = {**NOTEBOOK_METADATA, PACKAGE: {"lesson": lesson.slug}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata, nbformat_minor=5)


def with_excerpts(course: Course, lesson: Lesson, cell: LessonCell, known: set[str], solved: bool) -> str:
    """Put the finished sources, or their stubs, in the place of an exercise cell's import lines.

    `known` are the names that exercises of this lesson define by now: those are not imported, so that later
    exercises use what the student wrote.
    """
    lines, imports, shown = cell.source.splitlines(), [], []
    wanted: dict[str, set[str]] = {}
    require_import_and_check(lesson, cell)
    for reference in cell.references:
        try:
            excerpt = find_excerpt(course.root, reference)
        except LookupError as error:
            raise lesson.error(cell.line, error) from error
        home, names = reference.module, excerpt.names
        if not solved:
            home, names = (reference.starter or reference).module, excerpt.stub_names
        wanted.setdefault(home, set()).update(names - known)
        shown.append(excerpt.finished if solved else excerpt.stub)
    for home, names in wanted.items():
        imports += import_lines(course.root, home, names)
    asked = {(reference.module, reference.name) for reference in cell.references}
    start = len(lines)
    for node in reversed(parse(cell.source).body):
        names = (
            {(node.module, alias.name) for alias in node.names} if isinstance(node, ast.ImportFrom) else set()
        )
        if names & asked:
            imports += [f"from {module} import {name}" for module, name in sorted(names - asked)]
            start = node.lineno - 1
            del lines[start : node.end_lineno]
    before = "\n".join([*lines[:start], *dict.fromkeys(imports)]).strip()
    return "\n\n\n".join(filter(None, [before, *shown, "\n".join(lines[start:]).strip("\n")]))


def require_import_and_check(lesson: Lesson, cell: LessonCell) -> None:
    """Insist that an exercise cell imports what it asks for, and checks it."""
    nodes = list(ast.walk(parse(cell.source)))
    imported = {
        (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "check"]
    checked = {ast.unparse(argument) for call in calls for argument in call.args}
    for module, name in ((reference.module, reference.name) for reference in cell.references):
        if (module, name) not in imported:
            raise lesson.error(cell.line, f"this exercise needs a line `from {module} import {name}`")
        if name not in checked:
            raise lesson.error(cell.line, f"this exercise needs a line `{name} = check({name})`")


def without_solution(lesson: Lesson, cell: LessonCell) -> str:
    """Replace each run of lines that end in `# SOLUTION` by one line that asks for the student's code."""
    lines = cell.source.splitlines()
    functions = [node for node in ast.walk(parse(cell.source)) if isinstance(node, FUNCTIONS)]
    for start, stop in reversed(solution_runs(lines)):
        indent = re.match(" *", lines[start])[0]
        in_function = any(node.body[0].lineno <= start + 1 <= node.end_lineno for node in functions)
        statement = "raise NotImplementedError  " if in_function else "pass  " if indent else ""
        lines[start:stop] = [f"{indent}{statement}# your code here"]
    try:
        ast.parse("\n".join(lines))
    except SyntaxError as error:
        raise lesson.error(
            cell.line, f"without its lines `# SOLUTION` this cell breaks: {error.msg}"
        ) from error
    return "\n".join(lines)


def solution_runs(lines: list[str]) -> list[tuple[int, int]]:
    """Return (start, stop) of each run of marked lines; it goes on over blank lines, but not out of a function."""
    runs: list[tuple[int, int]] = []
    for number in (number for number, line in enumerate(lines) if SOLUTION_MARK.search(line)):
        start, stop = runs[-1] if runs else (0, 0)
        leaves_block = lines[start].startswith(" ") and not lines[number].startswith(" ")
        if runs and not leaves_block and not any(map(str.strip, lines[stop:number])):
            runs[-1] = (start, number + 1)
        else:
            runs.append((number, number + 1))
    return runs


# -- the texts that every notebook has


def badge(course: Course, lesson: Lesson) -> str:
    """Return the badge that opens the student's notebook in Colab."""
    repository = course.repository.removeprefix("https://github.com/")
    page = f"https://colab.research.google.com/github/{repository}/blob/main/notebooks/{lesson.slug}.ipynb"
    return f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({page})"


def title_text(course: Course, lesson: Lesson, solved: bool) -> str:
    """Return the first cell: title, promise, badge, minutes, goals and the way through the course."""
    other = f"[the solved notebook](../solutions/{lesson.slug}.ipynb)"
    if solved:
        other = f"**solved**; [the exercises are here](../notebooks/{lesson.slug}.ipynb)"
    roadmap = []
    for part, lessons in groupby(course.lessons, key=lambda stop: stop.part):
        names = [(stop, f"{stop.number} {stop.title.partition(':')[0]}") for stop in lessons]
        stops = [
            f"**{name} (you are here)**" if stop is lesson else f"[{name}]({stop.slug}.ipynb)"
            for stop, name in names
        ]
        roadmap.append(f"- {part}: {' · '.join(stops)}")
    return "\n\n".join(
        (
            f"# {lesson.number} · {lesson.title}",
            lesson.promise,
            f"{badge(course, lesson)} · {lesson.minutes} minutes · {other}",
            "**After this lesson you can**",
            "\n".join(f"- {goal}" for goal in lesson.goals),
            "**Roadmap**",
            "\n".join(roadmap),
        )
    )


def exercise_text(lesson: Lesson, cell: LessonCell, number: int) -> str:
    """Return the cell before an exercise: number, names, difficulty, minutes, and hints and solution folded."""
    names = ", ".join(f"`{name}`" for reference in cell.references for name in str(reference).split(", "))
    difficulty = "●" * cell.metadata["difficulty"] + "○" * (3 - cell.metadata["difficulty"])
    solution = f"[The solved notebook](../solutions/{lesson.slug}.ipynb) has one."
    folds = {"Hint 1": cell.metadata["hint"], "Hint 2": cell.metadata["hint2"], "Solution": solution}
    return "\n\n".join(
        (
            f"**Exercise {int(lesson.number)}.{number} · {names}** · "
            f"difficulty {difficulty} · {cell.metadata['minutes']} minutes",
            *(f"<details><summary>{name}</summary>\n\n{text}\n\n</details>" for name, text in folds.items()),
        )
    )


def next_text(course: Course, lesson: Lesson) -> str:
    """Return the last cell: where to go from here."""
    for stop in course.lessons[course.lessons.index(lesson) + 1 :]:
        return f"**Next:** [{stop.number} · {stop.title}]({stop.slug}.ipynb)"
    return "This is the last lesson so far."


def readme_text(course: Course) -> str:
    """Return the README with the current lesson table and the current results."""
    text = (course.root / "README.md").read_text(encoding="utf-8")
    if not README_TABLE.search(text):
        raise LessonError("README.md: the lines <!-- lessons:begin --> and <!-- lessons:end --> are missing")
    table = "| | lesson | minutes | what you do | |\n|---|---|---|---|---|\n" if course.lessons else ""
    for lesson in course.lessons:
        link = f"[{lesson.title}](notebooks/{lesson.slug}.ipynb)"
        table += (
            f"| {lesson.number} | {link} | {lesson.minutes} | {lesson.promise} | {badge(course, lesson)} |\n"
        )
    return with_results(README_TABLE.sub(lambda match: match[1] + table + match[2], text), course.root)


# -- writing, checking, running


def solution_with_outputs(course: Course, lesson: Lesson) -> NotebookNode:
    """Build a lesson's solution, with the outputs of the stored one where they still belong."""
    path = course.root / "solutions" / f"{lesson.slug}.ipynb"
    book = make_notebook(course, lesson, "solutions")
    if path.is_file():
        try:
            carry_outputs(nbformat.read(path, as_version=4), book)
        except (ValueError, AttributeError, nbformat.ValidationError, SyntaxError):  # not a notebook of ours
            return make_notebook(course, lesson, "solutions")
    return book


def file_text(book: NotebookNode) -> str:
    """Return the text of a notebook's file: the same notebook, the same bytes."""
    nbformat.validate(book)
    return nbformat.writes(book, indent=1, sort_keys=True, ensure_ascii=False).rstrip("\n") + "\n"


def generate(course: Course, lessons: Sequence[Lesson]) -> Iterator[tuple[str, str, str]]:
    """Yield what these lessons make: the name of a file, what it should hold, and the command that writes it."""
    for lesson in lessons:
        command = f"python lessons/build.py {lesson.number}"
        yield f"notebooks/{lesson.slug}.ipynb", file_text(make_notebook(course, lesson, "notebooks")), command
        yield f"solutions/{lesson.slug}.ipynb", file_text(solution_with_outputs(course, lesson)), command
    if (course.root / "README.md").is_file():
        yield "README.md", readme_text(course), "python lessons/build.py"


def build(root: Path, numbers: Sequence[str] = ()) -> list[str]:
    """Write the notebooks of these lessons (without numbers, all) and the README; return what has changed."""
    course, changed = read_course(root), []
    for name, text, _ in generate(course, course.select(numbers)):
        path = root / name
        if not path.is_file() or path.read_bytes() != text.encode():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode())
            changed.append(name)
    return changed


def check(root: Path, numbers: Sequence[str] = ()) -> list[str]:
    """Return one message for every generated file that is not what it should be, and how to mend it."""
    course, messages = read_course(root), []
    lessons = course.select(numbers)
    for name, text, command in generate(course, lessons):
        stored = (root / name).read_bytes() if (root / name).is_file() else None
        if stored is None:
            messages.append(f"{name} is missing: run `{command}`")
        elif stored != text.encode():
            messages.append(f"{name} is stale: run `{command}`{short_diff(stored.decode(), text)}")
    for lesson in lessons:
        if not is_current(root, solution_with_outputs(course, lesson)):
            command = f"python lessons/build.py --execute {lesson.number}"
            messages.append(f"solutions/{lesson.slug}.ipynb: outputs are stale: run `{command}`")
    slugs = {lesson.slug for lesson in course.lessons}
    for path in sorted(path for folder in LEFT_OUT for path in (root / folder).glob("[0-9][0-9]_*.ipynb")):
        if path.stem not in slugs:
            messages.append(f"{path.relative_to(root).as_posix()} has no lesson: delete it")
    return messages


def short_diff(stored: str, generated: str, limit: int = 8) -> str:
    """Return the first lines of a unified diff, each cut to a readable length."""
    lines = list(difflib.unified_diff(stored.split("\n"), generated.split("\n"), n=0, lineterm=""))[2:]
    shown = [f"\n    {line[:140]}" for line in lines[:limit]]
    return "".join(shown) + "\n    ..." * (len(lines) > limit)


def execute(root: Path, numbers: Sequence[str] = ()) -> Iterator[str]:
    """Run the solutions of these lessons (without numbers, the stale ones), store and yield them one by one."""
    course = read_course(root)
    for lesson in course.select(numbers):
        if numbers or not is_current(root, solution_with_outputs(course, lesson)):
            name = f"solutions/{lesson.slug}.ipynb"
            book = make_notebook(course, lesson, "solutions")
            run(root, book, name)
            (root / name).write_bytes(file_text(book).encode())
            yield name


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("numbers", nargs="*", metavar="NN", help="lessons by number; without, all")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="change nothing; say what is stale")
    mode.add_argument("--execute", action="store_true", help="write, then run solutions")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            messages = check(root, options.numbers)
            print("\n".join(messages) or "every notebook is what its lesson says")
            return 1 if messages else 0
        for name in build(root, options.numbers):
            print(f"wrote {name}")
        if options.execute:
            for name in execute(root, options.numbers):
                print(f"ran {name}", flush=True)
    except (LessonError, NotebookFailed) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
