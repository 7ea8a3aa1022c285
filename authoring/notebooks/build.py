"""Write what is made from the lessons: `notebooks/`, `solutions/`, pages and maps of `docs/`, tables of the README.

    python -m authoring.notebooks.build [NN ...]            write them; with numbers, these lessons' notebooks alone
    python -m authoring.notebooks.build --check [NN ...]    change nothing; say what is stale, and how to mend it
    python -m authoring.notebooks.build --execute [NN ...]  write, then run the solutions named, or else the stale ones
    python -m authoring.notebooks.build --restamp COMMIT [NN ...]  keep that commit's outputs where a run proves them
    python -m authoring.notebooks.build --claims [NN ...] [--seeds 3]  run solutions with several seeds, store nothing

A lesson names its exercises by reference, `exercise="vit_course.patches:patchify"`. The student's notebook shows
signature and docstring, the solution the source: both are `excerpts` of the package. With `starter="module:function"`
students get, in place of an empty stub, the body of that function: code to be mended. `outputs` runs solutions.
"""

import argparse
import copy
import difflib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from authoring.notebooks.claims import claims_of
from authoring.notebooks.course import ROOT, Course, Lesson, LessonError, read_course
from authoring.notebooks.keep_outputs import Unproven, keep_outputs, tree_of
from authoring.notebooks.minutes import core_minutes
from authoring.notebooks.notebooks import LEFT_OUT, badge, make_notebook
from authoring.notebooks.outputs import FalseClaims, NotebookFailed, carry_outputs, is_current, run
from authoring.site.glossary import SOURCE as GLOSSARY
from authoring.site.glossary import glossary_page
from authoring.site.mistakes import mistakes_page
from authoring.site.model_map import is_current_map, map_file, write_map
from authoring.site.pages import fill, table
from authoring.site.results import CARD, conclusions_text, results_long_text, results_text, weights_text
from authoring.site.results import PAGE as RESULTS
from authoring.site.speedrun import PAGE as SPEEDRUN
from authoring.site.speedrun import marks_text, trials_text
from authoring.teaching.plans import plans_page
from authoring.teaching.run_sheets import run_sheets_page
from authoring.teaching.teaching_notes import SOURCE as TEACHING
from authoring.teaching.teaching_notes import teaching_notes_page

PAGES = {
    "docs/glossary.md": (GLOSSARY, glossary_page),
    "docs/teaching_notes.md": (TEACHING, teaching_notes_page),
    "docs/plans.md": (TEACHING, plans_page),
    "docs/run_sheets.md": (TEACHING, run_sheets_page),
    "docs/mistakes.md": ("lessons/*/mistakes.yaml", mistakes_page),
}
"""Pages of `docs/` that are written from the lessons, each with its source and its writer."""
FILLED = {
    SPEEDRUN: {"marks": marks_text, "trials": trials_text},
    CARD: {"weights": weights_text},
    RESULTS: {"results-long": results_long_text, "conclusions": conclusions_text},
}
"""Pages with parts that are written from records and weights, between two marks."""
NOTICE = "<!-- Written by `python -m authoring.notebooks.build`: edit what it reads, not this page. -->\n\n"


def readme_text(course: Course) -> str:
    """Return the README with the current lesson table and the current results."""
    text = (course.root / "README.md").read_text(encoding="utf-8")
    if not {"<!-- lessons:begin -->", "<!-- lessons:end -->"} <= set(text.splitlines()):
        raise LessonError("README.md: the lines <!-- lessons:begin --> and <!-- lessons:end --> are missing")
    tables = []
    for part, lessons in groupby(course.lessons, key=lambda lesson: lesson.part):
        rows = []
        for lesson in lessons:
            link = f"{lesson.number} [{lesson.title}](notebooks/{lesson.slug}.ipynb)"
            ways = f"[solved](solutions/{lesson.slug}.ipynb) {badge(course, lesson)}".strip()
            rows.append([link, lesson.promise, f"{core_minutes(course, lesson)}<br>{ways}"])
        tables.append(f"{table([part, 'what you do', 'minutes'], rows)}\n")
    return fill(fill(text, "lessons", "\n".join(tables)), "results", results_text(course.root))


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
        command = f"python -m authoring.notebooks.build {lesson.number}"
        yield f"notebooks/{lesson.slug}.ipynb", file_text(make_notebook(course, lesson, "notebooks")), command
        yield f"solutions/{lesson.slug}.ipynb", file_text(solution_with_outputs(course, lesson)), command
    if (course.root / "README.md").is_file():
        yield "README.md", readme_text(course), "python -m authoring.notebooks.build"
    for page, parts in FILLED.items():
        if (course.root / page).is_file():
            text = (course.root / page).read_text(encoding="utf-8")
            for name, content in parts.items():
                text = fill(text, name, content(course.root))
            yield page.as_posix(), text, "python -m authoring.notebooks.build"
    for name, (source, page) in PAGES.items():
        if any(course.root.glob(str(source))):
            yield name, NOTICE + page(course), "python -m authoring.notebooks.build"


def build(root: Path, numbers: Sequence[str] = ()) -> list[str]:
    """Write the notebooks of these lessons (without numbers, all), the pages and README; return what has changed.

    What they say of a lesson's minutes comes from its stored solution, so a second round follows where one was written.
    """
    course, changed = read_course(root), []
    for _ in range(2):
        for name, text, _ in generate(course, course.select(numbers)):
            path = root / name
            if not path.is_file() or path.read_bytes() != text.encode():
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(text.encode())
                changed.append(name)
        if not changed:
            break
    changed = list(dict.fromkeys(changed))
    for lesson in stale_maps(course, course.select(numbers)):
        write_map(course, lesson)
        changed.append(map_file(lesson).as_posix())
    return changed


def stale_maps(course: Course, lessons: Sequence[Lesson]) -> list[Lesson]:
    """Return the lessons whose map of the model is not there, or shows something else than it should."""
    return [lesson for lesson in lessons if lesson.map is not None and not is_current_map(course, lesson)]


def check(root: Path, numbers: Sequence[str] = ()) -> list[str]:
    """Return one message for every generated file that is not what it should be, and how to mend it."""
    course, messages, made = read_course(root), [], {}
    lessons = course.select(numbers)
    for name, text, command in generate(course, lessons):
        made[name] = text
        if not (root / name).is_file():
            messages.append(f"{name} is missing: run `{command}`")
        elif (stored := (root / name).read_bytes()) != text.encode():
            messages.append(f"{name} is stale: run `{command}`{short_diff(stored.decode(), text)}")
    for lesson in stale_maps(course, lessons):
        messages.append(
            f"{map_file(lesson).as_posix()} is stale: run `python -m authoring.notebooks.build {lesson.number}`"
        )
    for lesson in lessons:
        name = f"solutions/{lesson.slug}.ipynb"
        if not is_current(root, nbformat.reads(made[name], as_version=4)):
            messages.append(
                f"{name}: outputs are stale: run `python -m authoring.notebooks.build --execute {lesson.number}`"
            )
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


def restamp(root: Path, commit: str, numbers: Sequence[str] = ()) -> Iterator[tuple[bool, str]]:
    """Keep outputs that stale solutions had in a commit, where they still hold; yield whether, and what was proved."""
    course = read_course(root)
    stale = [s for s in course.select(numbers) if not is_current(root, solution_with_outputs(course, s))]
    with tree_of(root, commit) if stale else nullcontext() as tree:
        for lesson in stale:
            name = f"solutions/{lesson.slug}.ipynb"
            book = solution_with_outputs(course, lesson)
            try:
                proof = keep_outputs(root, book, tree, name)
            except (Unproven, NotebookFailed) as error:
                yield False, f"{name} stays stale: {error}"
            else:
                (root / name).write_bytes(file_text(book).encode())
                yield True, f"{name} keeps its outputs: {proof}"


def try_claims(root: Path, numbers: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[bool, str]]:
    """Run solutions that claim something, once for each seed; store nothing; yield whether all holds, and what."""
    course = read_course(root)
    for lesson in course.select(numbers):
        book = make_notebook(course, lesson, "solutions")
        count = sum(len(claims_of(cell.metadata)) for cell in book.cells)
        for seed in seeds if count else ():
            name = f"solutions/{lesson.slug}.ipynb, seed {seed}"
            try:
                run(root, copy.deepcopy(book), name, seed=seed)
            except FalseClaims as error:
                yield False, f"{name}: {count - len(error.wrong)} of {count} claims hold\n{error}"
            except NotebookFailed as error:
                yield False, str(error)
            else:
                yield True, f"{name}: all {count} claims hold"


def report(found: Iterator[tuple[bool, str]]) -> list[bool]:
    """Print messages as they come, and return what goes with them."""
    verdicts = []
    for verdict, message in found:
        print(message, flush=True)
        verdicts.append(verdict)
    return verdicts


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("numbers", nargs="*", metavar="NN", help="lessons by number; without, all")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="change nothing; say what is stale")
    mode.add_argument("--execute", action="store_true", help="write, then run solutions")
    mode.add_argument(
        "--restamp", metavar="COMMIT", help="keep outputs that a run proves unchanged since then"
    )
    mode.add_argument("--claims", action="store_true", help="try claims with several seeds; store nothing")
    seeds = "how many seeds to try claims with; VIT_COURSE_SEED is the first, or 0"
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help=seeds)
    options = parser.parse_args(arguments)
    try:
        if options.restamp:
            kept = report(restamp(root, options.restamp, options.numbers))
            print(f"{sum(kept)} of {len(kept)} stale solutions keep their outputs")
            return int(not all(kept))
        if options.claims:
            first = int(os.environ.get("VIT_COURSE_SEED", "0"))
            held = report(try_claims(root, options.numbers, range(first, first + options.seeds)))
            print(f"every claim holds in {sum(held)} of {len(held)} runs")
            return int(not all(held))
        if options.check:
            messages = check(root, options.numbers)
            print("\n".join(messages) or "every notebook and page is what the lessons say")
            return 1 if messages else 0
        for name in build(root, options.numbers):
            print(f"wrote {name}")
        if options.execute:
            for name in execute(root, options.numbers):
                print(f"ran {name}", flush=True)
            for name in build(root, options.numbers):  # a page may show what a run has measured
                print(f"wrote {name}")
    except (LessonError, NotebookFailed, Unproven) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
