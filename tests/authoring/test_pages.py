"""Pages made from the lessons say what the course says, and their author is told where they cannot."""

import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml

from authoring.notebooks import build
from authoring.notebooks.course import Course, Lesson, LessonCell, LessonError, read_course
from authoring.notebooks.minutes import core_minutes, sections
from authoring.site import glossary
from authoring.site.pages import prose, read_yaml, table
from authoring.teaching import teaching_notes

ROOT = Path(__file__).resolve().parents[2]
COURSE = read_course(ROOT)


@pytest.fixture(scope="module")
def pages():
    """The text of each page, by the name of its file."""
    return {Path(name).name: page(COURSE) for name, (_, page) in build.PAGES.items()}


def cell(text, kind="markdown", **metadata):
    return LessonCell(kind, text, metadata, 1, ("an exercise",) if metadata else ())


def lesson(*cells, slug="01_patches"):
    return Lesson(slug, "Patches", "You cut.", "I", ["Cut."], cells)


# -- all pages


def test_a_stale_page_is_named_with_the_difference_and_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build, "PAGES", {"docs/a.md": ("a.yaml", lambda course: "one\ntwo\n")})
    monkeypatch.setattr(build, "read_course", lambda root: Course(root, "", ()))
    (tmp_path / "a.yaml").touch()
    assert build.main(["--check"], tmp_path) == 1
    assert "a.md is missing: run `python -m authoring.notebooks.build`" in capsys.readouterr().out
    assert build.main([], tmp_path) == 0
    assert capsys.readouterr().out == "wrote docs/a.md\n"
    assert build.main(["--check"], tmp_path) == 0
    text = (tmp_path / "docs/a.md").read_text(encoding="utf-8")
    (tmp_path / "docs/a.md").write_text(text.replace("two", "2"), encoding="utf-8")
    capsys.readouterr()
    assert build.main(["--check"], tmp_path) == 1
    message = capsys.readouterr().out
    assert "a.md is stale: run `python -m authoring.notebooks.build`" in message
    assert "-2" in message and "+two" in message


def test_what_an_author_has_to_mend_is_printed_without_a_traceback(tmp_path, monkeypatch, capsys):
    broken = Mock(side_effect=LessonError("glossary.yaml: 'patch' is in no lesson"))
    monkeypatch.setattr(build, "PAGES", {"docs/a.md": ("a.yaml", broken)})
    monkeypatch.setattr(build, "read_course", lambda root: Course(root, "", ()))
    (tmp_path / "a.yaml").touch()
    assert build.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err == "glossary.yaml: 'patch' is in no lesson\n"


def test_every_link_of_a_page_leads_to_a_file_or_to_the_notebook_of_a_lesson(pages):
    built = {
        f"../{folder}/{stop.slug}.ipynb" for folder in ("notebooks", "solutions") for stop in COURSE.lessons
    }
    links = {link for text in pages.values() for link in re.findall(r"\]\(([^)]+)\)", text)}
    missing = [link for link in links - built if not (ROOT / "docs" / link).is_file()]
    assert links & built and missing == []


def test_the_rows_of_every_table_have_as_many_cells_as_its_header(pages):
    for name, text in pages.items():
        for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(counts) == 1, (name, block[:200])


def test_a_bar_in_a_cell_does_not_end_the_cell():
    assert table(["a"], [["x | y"]]).splitlines()[-1] == r"| x \| y |"


def test_a_broken_yaml_file_is_named_with_its_line(tmp_path):
    (tmp_path / "terms.yaml").write_text("- term: patch\n  - wrong\n", encoding="utf-8")
    with pytest.raises(LessonError, match=r"terms\.yaml:2: "):
        read_yaml(tmp_path / "terms.yaml")
    with pytest.raises(LessonError, match=r"other\.yaml is missing"):
        read_yaml(tmp_path / "other.yaml")


@pytest.mark.parametrize("count", [1, 9])
def test_the_pages_that_read_lessons_work_with_fewer_of_them(count):
    fewer = replace(COURSE, lessons=COURSE.lessons[:count])
    assert f"## {count - 1:02d} · " in teaching_notes.teaching_notes_page(fewer)
    assert f"## {count:02d} · " not in teaching_notes.teaching_notes_page(fewer)


# -- glossary


def test_every_term_is_in_the_glossary_once_and_complete(pages):
    terms = glossary.read_terms(ROOT)
    assert len(terms) >= 90
    for term in terms:
        assert f"| **{term.term}** | {term.korean} | {term.meaning} | [" in pages["glossary.md"]
        assert re.search("[가-힣]", term.korean), term.term
        assert re.fullmatch(r"[A-Z0-9].*\.", term.meaning), term.term
        assert not re.search(r"[.!?] [A-Z]", term.meaning), f"{term.term}: one sentence"
    assert len({term.korean for term in terms}) == len(terms)


def write_terms(root, text):
    (root / glossary.SOURCE).parent.mkdir(parents=True, exist_ok=True)
    (root / glossary.SOURCE).write_text(text, encoding="utf-8")
    return root


PATCH = "- {term: patch, korean: 패치, meaning: A square., forms: [patch]}\n"
TOKEN = "- {term: token, korean: 토큰, meaning: A vector., forms: [token], from: '11'}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TOKEN + PATCH, "'patch' is twice there or not in its place"),
        (PATCH + PATCH, "'patch' is twice there"),
        (PATCH.replace("korean: 패치, ", ""), "'patch' needs term, korean, meaning, forms"),
        (PATCH.replace("[patch]", "patch"), "'patch' needs"),
        (PATCH.replace("forms", "words"), "'patch' needs"),
    ],
    ids=["not sorted", "twice", "field missing", "no list", "unknown field"],
)
def test_a_glossary_that_is_not_in_order_is_refused(tmp_path, text, message):
    with pytest.raises(LessonError, match=message):
        glossary.read_terms(write_terms(tmp_path, text))


def test_a_term_that_is_in_no_lesson_is_an_error_that_names_it(tmp_path):
    course = replace(COURSE, root=write_terms(tmp_path, PATCH), lessons=(lesson(cell("Nothing here.")),))
    with pytest.raises(LessonError, match="'patch' is in no lesson"):
        glossary.glossary_page(course)


def test_a_term_of_a_lesson_that_is_not_there_yet_is_left_out(tmp_path):
    lessons = (lesson(cell("Two patches.")),)
    course = replace(COURSE, root=write_terms(tmp_path, PATCH + TOKEN), lessons=lessons)
    assert "patch" in glossary.glossary_page(course)
    assert "token" not in glossary.glossary_page(course)


@pytest.mark.parametrize(
    ("forms", "text", "count"),
    [
        (["patch"], "A patch, two Patches, dispatch, patchify", 2),
        (["CLS"], "CLS and cls", 1),
        (["layer norm"], "a layer\nnorm, two layer norms", 2),
        (["**key**"], "a **key** and a key", 1),
    ],
)
def test_a_term_is_found_as_a_whole_word_in_its_forms(forms, text, count):
    term = glossary.Term("term", "용어", "A word.", forms)
    course = replace(COURSE, lessons=(lesson(cell(text), cell("patch = CLS", kind="code")),))
    assert glossary.count_uses(course, term) == {"01": count}


def test_the_lesson_of_the_first_use_comes_before_the_one_with_most():
    lessons = (lesson(cell("a head"), slug="01_a"), lesson(cell("a head, the head"), slug="02_b"))
    links = glossary.where(replace(COURSE, lessons=lessons), glossary.Term("head", "헤드", "A.", ["head"]))
    assert links == "[01](../notebooks/01_a.ipynb), [02](../notebooks/02_b.ipynb)"


# -- teaching notes


@pytest.mark.parametrize("stop", COURSE.lessons, ids=lambda stop: stop.number)
def test_every_lesson_has_questions_something_to_skip_and_troubles(stop):
    notes = teaching_notes.read_notes(COURSE, stop)
    assert 3 <= len(notes["questions"]) <= 5
    assert all(question["ask"] and question["answer"] for question in notes["questions"])
    assert notes["home"] and notes["skip"] and notes["trouble"]


@pytest.mark.parametrize("stop", COURSE.lessons, ids=lambda stop: stop.number)
def test_the_sections_of_a_lesson_hold_every_word_and_those_of_the_core_its_minutes(stop):
    parts = [part.source for section in sections(stop) for part in section.cells if part.kind == "markdown"]
    assert " ".join(parts).split() == prose(stop).split()
    minutes = teaching_notes.section_minutes(COURSE, stop)
    core = [minutes[section.title] for section in sections(stop) if not section.curious]
    assert sum(core) == core_minutes(COURSE, stop)
    assert min(minutes.values()) >= 0
    assert minutes["Further reading"] == 0


def test_a_section_to_skip_that_is_not_there_is_an_error():
    stop = lesson(cell("## 1. Why?\n" + 1197 * " word"))
    known = teaching_notes.skip_list(COURSE, stop, {1: "Known."})
    assert "Section 1, *Why?* (10 minutes). Known." in known and known.endswith(
        "about 10 minutes of the core."
    )
    stop = lesson(replace(cell("## 1. Why?\n" + 1197 * " word"), metadata={"curious": True}))
    starred = teaching_notes.skip_list(COURSE, stop, {1: "Known."})
    assert starred.endswith("about 10 minutes of sections outside the core (☆).")
    with pytest.raises(LessonError, match=r"01_patches/notes\.yaml: there is no section 7"):
        teaching_notes.skip_list(COURSE, stop, {7: "Too long."})


def test_a_lesson_without_notes_is_an_error_that_names_the_file(tmp_path):
    stop = lesson(cell("## 1. Why?\nBecause."), slug="77_more")
    course = replace(COURSE, root=tmp_path, lessons=(stop,))
    with pytest.raises(LessonError, match=r"^lessons/77_more/notes\.yaml is missing"):
        teaching_notes.read_notes(course, stop)
    folder = tmp_path / "lessons" / "77_more"
    folder.mkdir(parents=True)
    (folder / "notes.yaml").write_text(yaml.dump({"home": "Rest.", "questions": [], "skips": {}}))
    with pytest.raises(
        LessonError, match=r"77_more/notes\.yaml has, or lacks: dissect, skip, skips, trouble"
    ):
        teaching_notes.read_notes(course, stop)
