"""Make the web book: a page for each lesson and each page of `docs/`, in `build/book/`, by Sphinx.

    python -m authoring.site.book

A lesson's page is the student's notebook with the outputs of the solved one; after each exercise its solution is
folded. Nothing is run, so this needs `requirements-book.txt` alone. The book needs no host but its own: equations are
set by MathJax, which npm brings once into `build/`. From then on the book is made without a network.
"""

import copy
import json
import posixpath
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from itertools import groupby
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from authoring.notebooks.course import ROOT, Course, LessonError, read_course
from authoring.notebooks.minutes import core_minutes
from authoring.notebooks.outputs import is_setup
from authoring.site.book_faults import find_faults
from authoring.site.npm import lay_beside

RAW_HTML = re.compile(r"```{raw} html\n(.*?)```", re.DOTALL)
PLAY = "vit_classroom/exhibits/play"
PLAYED = {"drawing": "shapes-vit", "photo": "cifar-vit"}
"""The weights of the page "See it think", by the kind of image that they are for."""
LOOKED_UP = [f"docs/{name}.md" for name in ("glossary", "shape_card", "paper_map", "exercises", "setup")]
"""Pages of `docs/` for students; all others are for teachers, and no student's search finds them."""
ABOUT = ("README.md", "CONTRIBUTING.md")
README_TABLE = re.compile(r"<!-- lessons:begin -->.*?<!-- lessons:end -->", re.DOTALL)
LINKED_BADGE = re.compile(r"\[!\[([^]]*)\]\([^)]*\)\](?=\()")
SOLUTION_LINK = re.compile(
    r"\n*<details><summary>Solution</summary>.*?</details>| · \[the solved notebook\]\([^)]*\)", re.DOTALL
)
DEAD_LINK = re.compile(r"\[([^]]*)\]\(\)")
DEAD_NAME = re.compile(r"^\[([^]]+)\]: *$\n?", re.MULTILINE)
FONT_SCRIPT = re.compile(r" *<script [^>]*/fontawesome\.js[^>]*></script>\n")
"""The theme's second way to its signs, of 1.5 MB: they come from a font, too."""
PICTURE_NAME = re.compile(r'alt="[./]*/_images/([0-9a-f]{64}\.png)"')
"""The text that MyST-NB gives to a figure is the path of its file."""
LINK = re.compile(r"(?<=\]\()[^)\s]+(?=\))|(?<=\]: )\S+$", re.MULTILINE)


# -- pages


def lesson_page(student: NotebookNode, solved: NotebookNode) -> NotebookNode:
    """Merge the two editions of a lesson: what students get, what it shows when solved, and solutions in folds."""
    answers, page = {cell.id: cell for cell in solved.cells}, copy.deepcopy(student)
    page.cells = []
    for cell in copy.deepcopy(student.cells):
        if cell.cell_type == "markdown":
            cell.source = SOLUTION_LINK.sub("", cell.source)
        elif is_setup(cell):
            continue
        elif "exercise" in cell.metadata:
            page.cells.append(cell)
            cell = folded(answers[cell.id], "hide-cell", "Solution")
        elif cell.id in answers:  # one for students alone has no outputs
            cell.outputs = answers[cell.id].outputs
            if cell.metadata.get("jupyter", {}).get("source_hidden"):
                cell = folded(cell, "hide-input", "Code")
        page.cells.append(cell)
    return page


def folded(cell: NotebookNode, tag: str, title: str) -> NotebookNode:
    """Return a cell that MyST-NB folds, all of it or its input alone, under a title."""
    prompts = {"code_prompt_show": title, "code_prompt_hide": title}
    metadata = {"tags": [tag], "mystnb": prompts}
    return nbformat.v4.new_code_cell(
        cell.source, id=f"{cell.id}-{tag}", outputs=cell.outputs, metadata=metadata
    )


def with_links(course: Course, text: str, home: str, pages: set[str]) -> str:
    """Let a page's links to files that are no part of the book lead to the repository; a badge becomes a text.

    While the repository has no address, such a link is plain text.

    Raises:
        LessonError: if a link leads nowhere.
    """

    def target(match: re.Match) -> str:
        link = match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(home), link.partition("#")[0]))
        if link.startswith("#") or "://" in link or path in pages:
            return link
        if not (course.root / path).exists():
            raise LessonError(f"{home}: the link {link} leads nowhere")
        kind = "tree" if (course.root / path).is_dir() else "blob"
        return f"{course.repository}/{kind}/main/{path}" if course.repository else ""

    text = DEAD_LINK.sub(r"\1", LINK.sub(target, LINKED_BADGE.sub(r"[\1]", text)))
    names = "|".join(map(re.escape, DEAD_NAME.findall(text)))
    text = DEAD_NAME.sub("", text)
    return re.sub(rf"\[([^][]+)\]\[(?:{names})\]", r"\1", text) if names else text


def front_page(course: Course, pages: set[str]) -> str:
    """Return the first page: what the course is, its lessons by parts, and the contents of the book."""
    text = (course.root / "docs/book/index.md").read_text(encoding="utf-8")
    chapters = {"Begin here": ["see_it_think"]}
    for part, group in groupby(course.lessons, key=lambda lesson: lesson.part):
        lessons = list(group)
        chapters[part] = [f"notebooks/{lesson.slug}" for lesson in lessons]
        text += f"\n## {part}\n\n"
        for lesson in lessons:
            link = f"[{lesson.number} · {lesson.title}](notebooks/{lesson.slug}.ipynb)"
            text += f"- **{link}** {lesson.promise} *{core_minutes(course, lesson)} minutes.*\n"
    docs = sorted(page for page in pages if page.startswith("docs/") and page.endswith(".md"))
    chapters["To look things up"] = LOOKED_UP
    chapters["For teachers"] = [page for page in docs if page not in LOOKED_UP]
    chapters["The course"] = ["Get the course <README>", "CONTRIBUTING"]
    for title, entries in chapters.items():
        text += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(entries) + "\n```\n"
    return text


# -- building


def write_sources(course: Course, folder: Path) -> None:
    """Write what Sphinx reads: settings, MathJax, pages and pictures, each where it lies in the repository."""
    root = course.root
    pictures = {path.relative_to(root).as_posix() for path in (root / "docs").rglob("*.png")}
    texts = {path.relative_to(root).as_posix() for path in (root / "docs").glob("*.md")} | set(ABOUT)
    pages = {f"notebooks/{lesson.slug}.ipynb" for lesson in course.lessons} | texts | pictures
    for name in pages:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    for name in pictures:
        shutil.copy(root / name, folder / name)
    for name in texts:
        text = with_links(course, (root / name).read_text(encoding="utf-8"), name, pages)
        text = README_TABLE.sub("[The first page](index.md) lists them.", text)
        text = text if name in LOOKED_UP else f"---\nnosearch: true\n---\n\n{text}"
        (folder / name).write_text(text, encoding="utf-8")
    for name in (f"{lesson.slug}.ipynb" for lesson in course.lessons):
        editions = (nbformat.read(root / home / name, as_version=4) for home in ("notebooks", "solutions"))
        page = lesson_page(*editions)
        for cell in (cell for cell in page.cells if cell.cell_type == "markdown"):
            cell.source = with_links(course, cell.source, f"notebooks/{name}", pages)
        nbformat.write(page, folder / "notebooks" / name)
    (folder / "index.md").write_text(front_page(course, pages), encoding="utf-8")
    (folder / "_static").mkdir()
    write_play(course, folder)
    for name, place in (("conf.py", folder), ("book.css", folder / "_static")):
        shutil.copy(root / "docs/book" / name, place)
    lay_beside(folder / "_static", root / "build" / "npm", "mathjax-3.2.2")


def write_play(course: Course, folder: Path) -> None:
    """Write the page "See it think", and beside it what it loads: the view, the engine, samples and weights."""
    page = (course.root / "docs/book/see_it_think.md").read_text(encoding="utf-8")
    place = folder / "_static" / "play"
    place.mkdir()
    weights = {kind: course.root / f"data/checkpoints/{name}.safetensors" for kind, name in PLAYED.items()}
    for path in [*(course.root / PLAY).glob("*.mjs"), course.root / PLAY / "samples.json", *weights.values()]:
        shutil.copy(path, place)
    lessons = {lesson.number: f"notebooks/{lesson.slug}.html" for lesson in course.lessons}
    sizes = {kind: path.stat().st_size for kind, path in weights.items()}
    page = page.replace("{lessons}", json.dumps(lessons)).replace("{sizes}", json.dumps(sizes))
    (folder / "see_it_think.md").write_text(page, encoding="utf-8")


def write_play_alone(course: Course, folder: Path) -> None:
    """Write "See it think" without the book around it, for its tests and its portrait: `index.html`."""
    (folder / "_static").mkdir()
    write_play(course, folder)
    page = (folder / "see_it_think.md").read_text(encoding="utf-8")
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>See it think</title>'
    head += (
        '<meta name="color-scheme" content="light dark"><meta name="viewport" content="width=device-width">'
    )
    (folder / "index.html").write_text(head + RAW_HTML.search(page)[1], encoding="utf-8")


def picture_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name that MyST-NB gives to each figure of the notebooks in a folder, and the figure's text."""
    for path in folder.glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            for data in (output.get("data", {}) for output in cell.get("outputs", [])):
                if "image/png" in data:
                    yield f"{sha256(b64decode(data['image/png'])).hexdigest()}.png", data["text/plain"]


def finish(book: Path, texts: dict[str, str]) -> None:
    """Give figures their texts, for who cannot see them, and take out what no page needs.

    That is a script of signs, what debugs the theme, and its buttons in what a search shows.
    """
    search = book / "_static" / "searchtools.js"
    text = search.read_text(encoding="utf-8").replace(
        '[".headerlink",', '[".bd-header-article", ".headerlink",'
    )
    search.write_text(text, encoding="utf-8")
    for page in book.rglob("*.html"):
        text = FONT_SCRIPT.sub("", page.read_text(encoding="utf-8"))
        text = PICTURE_NAME.sub(lambda name: f'alt="{escape(texts.get(name[1], ""))}"', text)
        page.write_text(text, encoding="utf-8")
    for path in [*(book / "_static").rglob("fontawesome.js*"), *(book / "_static").rglob("*.map")]:
        path.unlink(missing_ok=True)


def build(root: Path = ROOT) -> Path:
    """Write the book, and return its folder.

    Raises:
        LessonError: if Sphinx warns of something, or a page has a fault.
    """
    source, book = root / "build" / "book-source", root / "build" / "book"
    for folder in (source, book):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    course = read_course(root)
    write_sources(course, source)
    options = ["-q", "-W", "--keep-going", "-j", "auto", "-d", str(source / ".doctrees")]
    for option in ("repository_url", "use_repository_button") if course.repository else ():
        options += ["-D", f"html_theme_options.{option}={course.repository}"]
    command = [sys.executable, "-m", "sphinx", *options, str(source), str(book)]
    if subprocess.run(command, check=False).returncode:
        raise LessonError("Sphinx has warned: see above")
    finish(book, dict(picture_texts(source / "notebooks")))
    if faults := list(find_faults(book)):
        raise LessonError("\n".join(faults))
    return book


if __name__ == "__main__":
    try:
        print(f"wrote {build().relative_to(ROOT)}")
    except LessonError as error:
        sys.exit(str(error))
