"""The web book holds every lesson and every page, and a fault in it is found before anybody reads it."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from authoring.notebooks.course import LessonError, read_course
from authoring.notebooks.outputs import is_setup
from authoring.site import book, book_faults

ROOT = Path(__file__).resolve().parents[2]
COURSE = replace(read_course(ROOT), repository="https://github.com/some/course")
PAGES = {"docs/glossary.md", "docs/server.md", "notebooks/01_patches.ipynb"}


# -- pages


@pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.number)
def test_a_page_shows_what_students_get_with_every_output_and_each_solution_in_a_fold(lesson):
    student, solved = (
        nbformat.read(ROOT / home / f"{lesson.slug}.ipynb", as_version=4)
        for home in ("notebooks", "solutions")
    )
    page = book.lesson_page(student, solved)
    shown = [cell for cell in page.cells if "hide-cell" not in cell.metadata.get("tags", [])]
    folds = [cell for cell in page.cells if cell not in shown]
    wanted = [cell for cell in student.cells if not is_setup(cell)]
    assert [cell.source for cell in shown if cell.cell_type == "code"] == [
        cell.source for cell in wanted if cell.cell_type == "code"
    ]
    assert len(shown) == len(wanted)
    exercises = [cell for cell in solved.cells if "exercise" in cell.metadata]
    assert [cell.source for cell in folds] == [cell.source for cell in exercises] != []
    assert [page.cells[page.cells.index(fold) - 1].metadata.get("exercise") for fold in folds] == [
        cell.metadata["exercise"] for cell in exercises
    ]
    everywhere = {cell.id for cell in wanted}
    outputs = [cell.outputs for cell in solved.cells if cell.get("outputs") and cell.id in everywhere]
    assert [cell.outputs for cell in page.cells if cell.get("outputs")] == outputs
    assert not any("solved notebook]" in cell.source for cell in page.cells)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("[a term](glossary.md#patch)", "[a term](glossary.md#patch)"),
        ("[lesson](../notebooks/01_patches.ipynb)", "[lesson](../notebooks/01_patches.ipynb)"),
        ("[here](#windows), [there](https://example.org)", "[here](#windows), [there](https://example.org)"),
        ("[code](../vit_course/vit.py)", f"[code]({COURSE.repository}/blob/main/vit_course/vit.py)"),
        ("[runs](../data/runs)", f"[runs]({COURSE.repository}/tree/main/data/runs)"),
        ("[vit]: ../vit_course/vit.py", f"[vit]: {COURSE.repository}/blob/main/vit_course/vit.py"),
        ("[![Open](https://a.org/b.svg)](https://a.org)", "[Open](https://a.org)"),
    ],
)
def test_a_link_leads_to_a_page_of_the_book_or_to_the_repository(text, written):
    assert book.with_links(COURSE, text, "docs/shape_card.md", PAGES) == written


def test_while_the_course_has_no_address_a_link_to_the_repository_is_plain_text():
    text = "[`code`](../vit_course/vit.py) of [lesson](../notebooks/01_patches.ipynb), [runs](../data/runs)"
    text += ", [here][vit]\n\n[vit]: ../vit_course/vit.py\n"
    written = "`code` of [lesson](../notebooks/01_patches.ipynb), runs, here\n\n"
    assert book.with_links(replace(COURSE, repository=""), text, "docs/shape_card.md", PAGES) == written


def test_a_link_that_leads_nowhere_is_an_error_that_names_the_page():
    with pytest.raises(LessonError, match=r"docs/shape_card\.md: the link none\.md leads nowhere"):
        book.with_links(COURSE, "[this](none.md)", "docs/shape_card.md", PAGES)


def test_the_first_page_names_every_lesson_and_its_contents_hold_every_page():
    page = book.front_page(COURSE, PAGES | {"docs/run_sheet.md"})
    for lesson in COURSE.lessons:
        assert page.count(f"[{lesson.number} · {lesson.title}](notebooks/{lesson.slug}.ipynb)") == 1
        assert f"\nnotebooks/{lesson.slug}\n" in page
    assert "\ndocs/glossary.md\n" in page and "\ndocs/run_sheet.md\ndocs/server.md\n" in page


# -- faults

LOADS, STYLE_LOADS = (f"{name}: loads from another host: " for name in ("index.html", "book.css"))


def write_book(folder, body="", style=""):
    page = f'<h1 id="top">A page</h1><a href="other.html#end">on</a><img src="a.png" alt="A.">{body}'
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / "book.css").write_text(style, encoding="utf-8")
    return list(book_faults.find_faults(folder))


def test_a_book_without_a_fault_has_none(tmp_path):
    fine = '<a href="https://example.org">a site</a><a href="#top">up</a><a href="mailto:a@b.org">us</a>'
    assert write_book(tmp_path, fine, "a { background: url(a.png) }") == []


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ({"body": '<img src="b.png">'}, "index.html: a picture without a text: b.png"),
        ({"body": '<img src="b.png" alt=" ">'}, "index.html: a picture without a text: b.png"),
        ({"body": '<script src="https://a.org/b.js"></script>'}, f"{LOADS}https://a.org/b.js"),
        ({"body": '<img src="//a.org/b.png" alt="B.">'}, f"{LOADS}//a.org/b.png"),
        ({"body": '<link rel="stylesheet" href="http://a.org/b.css">'}, f"{LOADS}http://a.org/b.css"),
        ({"body": '<p style="background: url(https://a.org/b)">'}, f"{LOADS}https://a.org/b"),
        ({"style": "@import 'https://a.org/b.css'"}, f"{STYLE_LOADS}https://a.org/b.css"),
        ({"style": "a { src: url('https://a.org/b.css') }"}, f"{STYLE_LOADS}https://a.org/b.css"),
    ],
)
def test_a_picture_without_a_text_and_a_load_from_another_host_are_found_and_named(tmp_path, written, fault):
    assert write_book(tmp_path, **written) == [fault]


# -- the whole book

NO_NETWORK = """
import socket

def refuse(*arguments):
    raise OSError("a book is made without a network")

socket.socket.connect = socket.getaddrinfo = refuse
"""


def python_of_the_book():
    """Return a Python that has what the book needs, or None."""
    for name in ("bin/python", "Scripts/python.exe"):
        if (path := Path(os.environ.get("BOOKVENV", ROOT / ".venv-book")) / name).is_file():
            return path
    return sys.executable if all(map(importlib.util.find_spec, ("sphinx", "myst_nb"))) else None


@pytest.mark.weekly  # the workflow of the book makes it on every push
def test_the_book_is_made_without_a_network_a_warning_or_a_fault(tmp_path):
    python, package = python_of_the_book(), ROOT / "build" / "npm" / "mathjax-3.2.2.tgz"
    made = ROOT / "build" / "book"
    if not python or not package.is_file():
        pytest.skip(
            "requirements-book.txt is not installed, or MathJax is not there: `make book` brings both"
        )
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (tmp_path, ROOT))), "PATH": ""}
    command = [str(python), "-m", "authoring.site.book"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    pages = {path.relative_to(made).as_posix() for path in made.rglob("*.html")}
    assert {f"notebooks/{lesson.slug}.html" for lesson in COURSE.lessons} < pages
    assert {f"docs/{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} < pages
    index = (made / "searchindex.js").read_text(encoding="utf-8")
    found = json.loads(index[index.index("(") + 1 : index.rindex(")")])
    titled = {page for page, title in zip(found["docnames"], found["titles"], strict=True) if title}
    assert "docs/glossary" in titled and not {"docs/run_sheets", "docs/server"} & titled
    front = (made / "index.html").read_text(encoding="utf-8")
    assert '".bd-header-article"' in (made / "_static" / "searchtools.js").read_text(encoding="utf-8")
    assert "fontawesome.js" not in front and '<a class="reference internal image-reference"' in front
