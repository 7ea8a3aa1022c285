"""The two editions of a lesson: the students' notebook, with something to solve, and the solved one."""

import ast
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from itertools import groupby

import nbformat
from nbformat import NotebookNode

from authoring.notebooks.callouts import box, exercise_title, for_the_curious, split_task, with_boxes
from authoring.notebooks.claims import ALWAYS, OPTION
from authoring.notebooks.course import LEFT_OUT, Course, Lesson, LessonCell
from authoring.notebooks.dependencies import Place
from authoring.notebooks.minutes import core_minutes, sections
from authoring.notebooks.outputs import FACTS, SETUP_TAG
from authoring.notebooks.quiz import question_text
from authoring.notebooks.stubs import find_excerpt, import_lines, parse
from authoring.site.model_map import map_text

HERO = re.compile(r"!\[([^\]]*)\]\((docs/hero\.png)\)")
KEPT = ("exercise", "minutes", "difficulty")
FOLDED = "# @title The code of a figure, folded: run it like any other cell."
"""First line of a folded cell, the one that is shown: JupyterLab makes the page as wide as a longer one."""
FOLD = {"cellView": "form", "jupyter": {"source_hidden": True}}
"""What folds a cell: in Colab, with a line `# @title`, and in JupyterLab."""
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
        "version": "3.12.3",
    },
}
"""What JupyterLab writes into a notebook that it opens. The version of Python is one of many, that of Ubuntu
24.04: `authoring/jupyterlab/` keeps it where another one opens the notebook."""
SETUP = """\
# @title Set up: run this cell first.
import importlib.util
import sys
{colab}
if not all(map(importlib.util.find_spec, ("vit_classroom", "torch", "einops"))):
    print(f"This kernel runs {{sys.executable}}, where the course is not installed.")
    print("Open the notebooks with `make lab`, or choose the kernel of the course's environment (Kernel menu),")
    print('or install the course into this one, in its folder: python -m pip install --editable ".[classroom]"')
"""
STAND_IN = """\
else:
    from vit_classroom.stand_in import stand_in

    stand_in("{slug}")  # an exercise whose cell made no name: cells below use the course's version
"""
"""What the students' edition adds, in a lesson with exercises: whoever typed a syntax error can run the rest."""
COLAB = """
if "google.colab" in sys.modules:
    import os
    import shutil
    import subprocess

    course, drive = "/content/{name}", "/content/drive/MyDrive"
    try:
        if not os.path.isdir(course):
            subprocess.run(["git", "clone", "--quiet", "--depth=1", "{repository}", course], check=True)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--editable"]
            subprocess.run([*pip, course + "[classroom]"], check=True)
    except subprocess.CalledProcessError as error:
        shutil.rmtree(course, ignore_errors=True)  # so that the next try starts from nothing
        raise SystemExit("The course could not be installed. Is there a network? Run this cell again.") from error
    sys.path.insert(0, course)
    importlib.invalidate_caches()
    os.chdir(f"{{course}}/notebooks")
    if os.path.isdir(drive):
        os.environ["VIT_COURSE_ANSWERS"] = f"{{drive}}/vit-course-answers"
    else:
        print("Your answers are lost when this machine stops. To keep them for the next lesson: mount your Drive")
        print("(folder icon at the left, then the Drive icon), and run this cell again.")
    print("Links in the text lead nowhere on Colab. These do:")
{links}
"""


def make_notebook(course: Course, lesson: Lesson, folder: str) -> NotebookNode:
    """Build the notebook of a lesson that goes to `folder`, without outputs."""
    solved, cells, seen, known = folder == "solutions", [], Counter(), set()
    exercises, questions, task = 0, 0, ""

    def add(kind: str, role: str, origin: str, source: str, **metadata) -> None:
        """Append a cell; its id depends on its role and on the lesson's own text of it, and on nothing else."""
        seen[role, kind, origin] += 1
        name = cell_id(lesson, role, kind, origin, seen[role, kind, origin])
        cells.append(getattr(nbformat.v4, f"new_{kind}_cell")(source, id=name, metadata=metadata))

    add("markdown", "title", "", title_text(course, lesson, solved))
    add("code", "setup", "", setup_text(course, lesson, solved), **FOLD, tags=[SETUP_TAG])
    if recall := recall_text(course, lesson):
        add("markdown", "recall", "", recall)
    shown = [cell for cell in lesson.cells if LEFT_OUT[folder] not in cell.metadata.get("tags", [])]
    for cell, following in zip(shown, [*shown[1:], None], strict=True):
        source = cell.source
        if cell.question:
            questions += 1
            source = question_text(cell.question, lesson.number, questions, str(questions))
        elif cell.kind == "markdown":
            if following and following.references:
                source, task = split_task(source)
            source = with_boxes(for_the_curious(source) if "curious" in cell.metadata else source)
        if cell.references:
            exercises += 1
            known |= {reference.name for reference in cell.references}
            key = "exercise", "markdown", cell.source
            place = f"{lesson.slug}.ipynb#cell-id={cell_id(lesson, *key, seen[key] + 1)}"
            where = places_of_exercises(lesson)[exercises - 1]
            solution = "" if solved else f"[The solved notebook](../solutions/{place}) has one, in {where}."
            add("markdown", "exercise", cell.source, exercise_text(lesson, cell, exercises, task, solution))
            source, task = with_excerpts(course, lesson, replace(cell, source=source), known, solved), ""
        if "fold" in cell.metadata:
            source = f"{FOLDED}\n{source}"
        if source or cell.kind == "code":
            add(cell.kind, "lesson", cell.source, source, **kept_metadata(cell, solved))
    add("markdown", "next", "", next_text(course, lesson))
    metadata = {**NOTEBOOK_METADATA, FACTS: {"lesson": lesson.slug}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata, nbformat_minor=5)


def cell_id(lesson: Lesson, role: str, kind: str, origin: str, count: int) -> str:
    """Return the id of a cell, the same in both editions: JupyterLab and exports go to it by `#cell-id=...`."""
    key = json.dumps([lesson.slug, role, kind, origin, count])
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def kept_metadata(cell: LessonCell, solved: bool) -> dict:
    """Return what a notebook's cell keeps of its options: what an exercise is, tags, and whether it is folded.

    A solved one keeps what its sentences claim, too, for whoever runs it, and how far its numbers may differ.
    """
    kept = (*KEPT, OPTION, ALWAYS, "tolerance") if solved else KEPT
    metadata = {key: cell.metadata[key] for key in kept if key in cell.metadata}
    if tags := [tag for tag in cell.metadata.get("tags", []) if tag not in LEFT_OUT.values()]:
        metadata["tags"] = tags
    if "fold" in cell.metadata:
        metadata |= FOLD
    return metadata


def with_excerpts(course: Course, lesson: Lesson, cell: LessonCell, known: set[str], solved: bool) -> str:
    """Put the finished sources, or their stubs, in the place of an exercise cell's import lines.

    `known` are the names that exercises of this lesson define by now: those are not imported, so that later
    exercises use what the student wrote.
    """
    lines, imports, shown = cell.source.splitlines(), [], []
    wanted: dict[str, set[str]] = {}
    require_import_and_check(course, lesson, cell)
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
    asked = {reference.name for reference in cell.references}
    start = len(lines)
    for node in reversed(parse(cell.source).body):
        names = {place.name for place in imported_places(course, node)}
        if names & asked:
            imports += [
                f"from {node.module} import {name}" for name in sorted({a.name for a in node.names} - asked)
            ]
            start = node.lineno - 1
            del lines[start : node.end_lineno]
    before = "\n".join([*lines[:start], *dict.fromkeys(imports)]).strip()
    return "\n\n\n".join(filter(None, [before, *shown, "\n".join(lines[start:]).strip("\n")]))


def imported_places(course: Course, node: ast.AST) -> set[Place]:
    """Return what a `from` statement imports from the package: where it is defined, whatever passes it on."""
    if not isinstance(node, ast.ImportFrom):
        return set()
    return {place for a in node.names if (place := course.package.follow(node.module, a.name))}


def require_import_and_check(course: Course, lesson: Lesson, cell: LessonCell) -> None:
    """Insist that an exercise cell imports what it asks for, and checks it."""
    nodes = list(ast.walk(parse(cell.source)))
    imported = {place for node in nodes for place in imported_places(course, node)}
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "check"]
    checked = {ast.unparse(argument) for call in calls for argument in call.args}
    for module, name in ((reference.module, reference.name) for reference in cell.references):
        if Place(module, name) not in imported:
            raise lesson.error(cell.line, f"this exercise needs a line `from {module} import {name}`")
        if name not in checked:
            raise lesson.error(cell.line, f"this exercise needs a line `{name} = check({name})`")


# -- the texts that every notebook has


def colab_page(course: Course, lesson: Lesson, folder: str = "notebooks") -> str:
    """Return the address of a notebook in Colab; without an address of the repository there is none."""
    repository = course.repository.removeprefix("https://github.com/")
    return f"https://colab.research.google.com/github/{repository}/blob/main/{folder}/{lesson.slug}.ipynb"


def badge(course: Course, lesson: Lesson) -> str:
    """Return the badge that opens the student's notebook in Colab, or "" while the course has no address."""
    picture = "https://colab.research.google.com/assets/colab-badge.svg"
    return f"[![Open in Colab]({picture})]({colab_page(course, lesson)})" if course.repository else ""


def setup_text(course: Course, lesson: Lesson, solved: bool) -> str:
    """Return the code that every notebook begins with: it says what is missing, and installs the course on Colab."""
    if not course.repository:
        return with_stand_in(SETUP.format(colab=""), lesson, solved)
    here = course.lessons.index(lesson)
    near = [stop for stop in course.lessons[max(here - 1, 0) : here + 2] if stop is not lesson]
    links = {"This lesson, solved": colab_page(course, lesson, "solutions")}
    links |= {f"Lesson {short_name(stop)}": colab_page(course, stop) for stop in near}
    pages = {"Glossary": "docs/glossary.md", "Every shape and size": "docs/shape_card.md"}
    links |= {name: f"{course.repository}/blob/main/{page}" for name, page in pages.items()}
    lines = "\n".join(
        f"    print({json.dumps(f'{name}: {page}', ensure_ascii=False)})" for name, page in links.items()
    )
    name = course.repository.rpartition("/")[2]
    text = SETUP.format(colab=COLAB.format(name=name, repository=course.repository, links=lines))
    return with_stand_in(text, lesson, solved)


def with_stand_in(text: str, lesson: Lesson, solved: bool) -> str:
    """Add to the first cell what lets a student run the cells below an exercise that has made no name."""
    asks = not solved and any(cell.references for cell in lesson.cells)
    return (text + STAND_IN.format(slug=lesson.slug) * asks).strip()


def title_text(course: Course, lesson: Lesson, solved: bool) -> str:
    """Return the first cell: title, promise, minutes, goals and the way through the course."""
    ways = [
        f"{core_minutes(course, lesson)} minutes",
        f"[the solved notebook](../solutions/{lesson.slug}.ipynb)",
    ]
    if solved:
        ways[1] = f"**solved**; [the exercises are here](../notebooks/{lesson.slug}.ipynb)"
    if course.repository:  # no badge: in a room without a network it is a gap
        ways.append(f"[open in Colab]({colab_page(course, lesson)})")
    blocks = (
        f"# {lesson.number} · {lesson.title}",
        lesson.promise,
        " · ".join(ways),
        links_to_exercises(lesson) if solved else "",
        hero(course, lesson) if lesson.map is None else map_text(course, lesson),
        "**After this lesson you can**",
        "\n".join(f"- {goal}" for goal in lesson.goals),
        f"**Roadmap.** {roadmap(course, lesson)}",
    )
    return "\n\n".join(filter(None, blocks))


def hero(course: Course, lesson: Lesson) -> str:
    """Return the picture that the README opens with, and its text, for the first lesson; "" for every other."""
    readme = course.root / "README.md"
    if lesson is not course.lessons[0] or not readme.is_file():
        return ""
    found = HERO.search(readme.read_text(encoding="utf-8"))
    return f"![{found[1]}](../{found[2]})" if found else ""


def short_name(lesson: Lesson) -> str:
    """Return the number of a lesson and its title up to a colon."""
    return f"{lesson.number} {lesson.title.partition(':')[0]}"


def roadmap(course: Course, lesson: Lesson) -> str:
    """Return the way through the course in two lines: all lessons by number, this one and its neighbours by name."""
    here, parts = course.lessons.index(lesson), []
    near = course.lessons[max(here - 1, 0) : here + 2]
    for part, lessons in groupby(course.lessons, key=lambda stop: stop.part):
        stops = [
            f"**{short_name(stop)} (you are here)**"
            if stop is lesson
            else f"[{short_name(stop) if stop in near else stop.number}]({stop.slug}.ipynb)"
            for stop in lessons
        ]
        parts.append(f"*{part}:* {' · '.join(stops)}")
    return " ".join(parts)


def recall_text(course: Course, lesson: Lesson) -> str:
    """Return the section before the first: questions of older lessons, which are named; "" without any."""
    asked = list(course.recalled(lesson))
    if not asked:
        return ""
    blocks = ["## Before you start", "What do you still know? Decide on an answer, then click on it."]
    for shown, (older, number, question) in enumerate(asked, 1):
        text = question_text(question, older.number, number, str(shown), again=True)
        blocks += [f"*From lesson [{older.number} · {older.title}]({older.slug}.ipynb):*", text]
    return "\n\n".join(blocks)


def places_of_exercises(lesson: Lesson) -> list[str]:
    """Return in which section each exercise stands, in words: VS Code follows a link to a cell only to the top."""
    return [
        f"section {section.number}" if section.number else "the first section"
        for section in sections(lesson)
        for _ in section.exercises
    ]


def links_to_exercises(lesson: Lesson) -> str:
    """Return a line of links to the exercises of a solved notebook, by sections.

    They name its file: JupyterLab takes `#heading` alone for that of the student's edition, when both are open.
    """
    links, seen = [], Counter()
    exercises = [cell for cell in lesson.cells if cell.references]
    for number, (cell, place) in enumerate(zip(exercises, places_of_exercises(lesson), strict=True), 1):
        seen[cell.source] += 1
        target = cell_id(lesson, "exercise", "markdown", cell.source, seen[cell.source])
        title = exercise_title(lesson.number, number, cell.references).removeprefix("Exercise ")
        links.append((place, f"[{title}]({lesson.slug}.ipynb#cell-id={target})"))
    by_place = groupby(links, key=lambda link: link[0])
    lines = [f"{place}: {', '.join(link for _, link in some)}" for place, some in by_place]
    return f"Exercises in {' · '.join(lines)}" if links else ""


def exercise_text(lesson: Lesson, cell: LessonCell, number: int, task: str, solution: str) -> str:
    """Return the cell before an exercise: its heading, difficulty, minutes, task, and hints and solution folded.

    `solution` says where the solved edition has it, or is "" in that edition itself.
    """
    title = exercise_title(lesson.number, number, cell.references)
    difficulty = "●" * cell.metadata["difficulty"] + "○" * (3 - cell.metadata["difficulty"])
    folds = {"Hint 1": cell.metadata["hint"], "Hint 2": cell.metadata["hint2"]}
    if solution:
        folds["Solution"] = solution
    boxed = filter(None, (f"*Difficulty {difficulty} · {cell.metadata['minutes']} minutes*", task))
    return "\n\n".join(
        (
            f"### {title}",
            box("\n\n".join(boxed), "task"),
            *(f"<details><summary>{name}</summary>\n\n{text}\n\n</details>" for name, text in folds.items()),
        )
    )


def next_text(course: Course, lesson: Lesson) -> str:
    """Return the last cell: where to go from here."""
    for stop in course.lessons[course.lessons.index(lesson) + 1 :]:
        return f"**Next:** [{stop.number} · {stop.title}]({stop.slug}.ipynb)"
    return "This is the last lesson so far."
