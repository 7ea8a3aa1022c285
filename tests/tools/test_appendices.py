"""The appendices say what the course says, and their author is told where they cannot."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lessons"))

import appendices  # noqa: E402
import paper_map  # noqa: E402
import shape_card  # noqa: E402
from page_parts import prose, read_yaml, table  # noqa: E402

import glossary  # noqa: E402
import teaching_notes  # noqa: E402
from build import Lesson, LessonCell, LessonError, read_course  # noqa: E402
from vit_course.vit import VIT_SIZES, create_vit, vit_flops, vit_num_parameters  # noqa: E402

COURSE = read_course(ROOT)


@pytest.fixture(scope="module")
def pages():
    """The text of each page, by the name of its file."""
    return {Path(name).name: text for name, text in appendices.generate(COURSE).items()}


def cell(text, kind="markdown", **metadata):
    return LessonCell(kind, text, metadata, 1, ("an exercise",) if metadata else ())


def lesson(*cells, minutes=10, slug="01_patches"):
    return Lesson(slug, "Patches", "You cut.", "I", minutes, ["Cut."], cells)


# -- all pages


def test_the_appendices_are_current(pages):
    stale = [
        name for name, text in pages.items() if (ROOT / appendices.FOLDER / name).read_text("utf-8") != text
    ]
    assert stale == [], f"run `{appendices.COMMAND}`"


def test_a_stale_page_is_named_with_the_difference_and_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(appendices, "generate", lambda course: {"lessons/appendices/a.md": "one\ntwo\n"})
    monkeypatch.setattr(appendices, "read_course", lambda root: None)
    (tmp_path / "lessons").mkdir()
    assert appendices.main(["--check"], tmp_path) == 1
    assert "a.md is missing: run `python lessons/appendices.py`" in capsys.readouterr().out
    assert appendices.main([], tmp_path) == 0
    assert capsys.readouterr().out == "wrote lessons/appendices/a.md\n"
    assert appendices.main(["--check"], tmp_path) == 0
    (tmp_path / "lessons/appendices/a.md").write_text("one\n2\n", encoding="utf-8")
    capsys.readouterr()
    assert appendices.main(["--check"], tmp_path) == 1
    message = capsys.readouterr().out
    assert "a.md is stale: run `python lessons/appendices.py`" in message
    assert "-2" in message and "+two" in message


def test_what_an_author_has_to_mend_is_printed_without_a_traceback(tmp_path, monkeypatch, capsys):
    def broken(course):
        raise LessonError("glossary.yaml: 'patch' is in no lesson")

    monkeypatch.setattr(appendices, "generate", broken)
    monkeypatch.setattr(appendices, "read_course", lambda root: None)
    assert appendices.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err == "glossary.yaml: 'patch' is in no lesson\n"


def test_every_link_of_an_appendix_leads_to_a_file_or_to_the_notebook_of_a_lesson(pages):
    built = {
        f"../../{folder}/{stop.slug}.ipynb"
        for folder in ("notebooks", "solutions")
        for stop in COURSE.lessons
    }
    links = {link for text in pages.values() for link in re.findall(r"\]\(([^)]+)\)", text)}
    missing = [link for link in links - built if not (ROOT / appendices.FOLDER / link).is_file()]
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
    assert "equation 2" in paper_map.paper_map_page(fewer)


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
    course = replace(
        COURSE, root=write_terms(tmp_path, PATCH + TOKEN), lessons=(lesson(cell("Two patches.")),)
    )
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
    assert links == "[01](../../notebooks/01_a.ipynb), [02](../../notebooks/02_b.ipynb)"


# -- shape card


@pytest.mark.parametrize(
    ("size", "img_size", "patch_size", "num_classes"), [("Ti", 32, 4, 10), ("B", 224, 16, 1000)]
)
def test_the_shape_card_has_the_parameters_of_the_formula(pages, size, img_size, patch_size, num_classes):
    options = {key: VIT_SIZES[size][key] for key in ("embed_dim", "depth")}
    count = vit_num_parameters(img_size, patch_size, num_classes=num_classes, **options)
    assert f"**{count:,}**" in pages["shape_card.md"]


@pytest.mark.parametrize(("name", "options"), shape_card.MODELS.values())
def test_the_shape_card_has_the_operations_of_the_model(pages, name, options):
    with torch.device("meta"):
        model = create_vit(name, **options)
    assert f"**{vit_flops(model):,}**" in pages["shape_card.md"]


def test_the_shape_card_has_shapes_that_are_known_from_the_lessons(pages):
    for row in (
        "| (B, N, P·P·C) | (B, 64, 48) | (B, 196, 768) |",
        "| (B, h, N+1, N+1) | (B, 3, 65, 65) | (B, 12, 197, 197) |",
        "| (B, K) | (B, 10) | (B, 1000) |",
    ):
        assert row in pages["shape_card.md"]


def test_a_wrong_letter_on_the_shape_card_is_an_error(monkeypatch):
    wrong = [(what, paper, code, text.replace("N+1", "N")) for what, paper, code, text in shape_card.STAGES]
    monkeypatch.setattr(shape_card, "STAGES", wrong)
    with pytest.raises(
        LessonError, match=r"shape card: positions, a parameter: 1, N, D gives \(1, 64, 192\)"
    ):
        shape_card.read_model("Ti/4", {})


def test_a_part_that_is_counted_nowhere_is_an_error(monkeypatch):
    monkeypatch.setattr(shape_card, "PARAMETERS", shape_card.PARAMETERS[:-1])
    with pytest.raises(LessonError, match="all parameters"):
        shape_card.read_model("Nano/8", {})


def test_large_counts_are_also_given_in_words():
    assert shape_card.in_words(5_362_762) == "5.36 million"
    assert shape_card.in_words(35_127_656_448) == "35.1 billion"


# -- paper map


@pytest.mark.parametrize(
    "place",
    [
        *(f"equation {number}" for number in range(1, 9)),
        *("Table 1", "Table 2", "Table 8", "Figure 7"),
        *("section 3.1", "section 3.2", "section 4.5", "appendix B.1.2", "appendix D.3"),
    ],
)
def test_the_paper_map_has_a_row_for(pages, place):
    row = re.search(rf"^\| {re.escape(place)} \|.*$", pages["paper_map.md"], re.MULTILINE)
    assert row and "notebooks/" in row[0]


def test_the_paper_map_follows_the_paper(pages):
    found = re.findall(
        r"^\| ((?:section|equation|appendix|Table|Figure) \S+) \|", pages["paper_map.md"], re.M
    )
    order = [paper_map.spelled(place) for place in paper_map.PLACES]
    assert found == sorted(found, key=order.index)


def test_the_paper_map_links_the_code_by_module_and_name(pages):
    row = re.search(r"^\| equation 2 \|.*$", pages["paper_map.md"], re.MULTILINE)[0]
    assert "[`encoder:Block.forward`](../../vit_course/encoder.py)" in row
    assert "[05](../../notebooks/05_encoder.ipynb)" in row


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("(paper, equations 1 to 4)", [f"equation {number}" for number in (1, 2, 3, 4)]),
        ("(pre-norm, paper eq. 2, 3)", ["equation 2", "equation 3"]),
        ("(paper, eq. 5-8)", [f"equation {number}" for number in (5, 6, 7, 8)]),
        ("appendix A, equation 5", ["appendix A", "equation 5"]),
        ("sections 4.2 to 4.4, Table 2", ["section 4.2", "section 4.3", "section 4.4", "table 2"]),
        ("sections 3.1, 4.1,\n4.4 and 4.5", ["section 3.1", "section 4.1", "section 4.4", "section 4.5"]),
        ("section 4.6 and B.1.2", ["section 4.6", "appendix B.1.2"]),
        ("appendices D.3 and D.4, Tables 4 and 5", ["appendix D.3", "appendix D.4", "table 4", "table 5"]),
        ("(Figure 7 right, and D.7)", ["figure 7", "appendix D.7"]),
        ("(its appendix D.4)", ["appendix D.4"]),
        ("(Abnar and Zuidema, 2020; ViT paper, D.8)", ["appendix D.8"]),
        ("Dosovitskiy et al., *An Image* (ICLR 2021), section 3 and B.1", ["section 3", "appendix B.1"]),
        ("The study of Xiong et al. (2020) is deep. Equation 4 is not.", ["equation 4"]),
    ],
)
def test_the_paper_map_finds(text, places):
    assert paper_map.find_places(text) == places


@pytest.mark.parametrize(
    "text",
    [
        "Remember this in section 6.",
        "(Vaswani et al., 2017, equation 1)",
        "- Vaswani et al., *Attention Is All You Need* (2017), section 3.5: sines and cosines.",
        "the ResNet that its paper used on CIFAR-10 (section 4.2)",
        "the table in the equation above, figure 3x",
    ],
)
def test_the_paper_map_leaves_out_what_is_not_the_papers(text):
    assert paper_map.find_places(text) == []


def test_a_part_that_the_paper_does_not_have_is_an_error_that_names_the_lesson():
    course = replace(COURSE, lessons=(lesson(cell("See Table 88.")),))
    with pytest.raises(LessonError, match=r"01_patches\.ipynb\): the paper has no table 88"):
        paper_map.find_uses(course)


# -- teaching notes


def test_every_lesson_has_questions_something_to_skip_and_troubles():
    notes = read_yaml(ROOT / teaching_notes.SOURCE)["lessons"]
    for stop in COURSE.lessons:
        entry = notes[stop.number]
        assert 3 <= len(entry["questions"]) <= 5
        assert all(question["ask"] and question["answer"] for question in entry["questions"])
        assert entry["skip"] and entry["trouble"]


def test_the_plans_hold_every_lesson():
    notes = read_yaml(ROOT / teaching_notes.SOURCE)
    assert [week["lesson"] for week in notes["semester"]] == [f"{number:02d}" for number in range(15)]
    taught = [entry for day in notes["workshop"]["days"] for entry in day if entry.isdigit()]
    assert taught == [f"{number:02d}" for number in range(9)]


@pytest.mark.parametrize("stop", COURSE.lessons, ids=lambda stop: stop.number)
def test_the_minutes_of_the_sections_add_up_to_the_stated_minutes(stop):
    minutes = teaching_notes.section_minutes(stop)
    assert sum(minutes.values()) == stop.minutes
    assert min(minutes.values()) >= 0
    assert minutes["Further reading"] == 0


@pytest.mark.parametrize("stop", COURSE.lessons, ids=lambda stop: stop.number)
def test_cutting_a_lesson_into_sections_loses_no_word(stop):
    parts = [
        part.source
        for section in teaching_notes.sections(stop)
        for part in section.cells
        if part.kind == "markdown"
    ]
    assert " ".join(parts).split() == prose(stop).split()


def test_a_section_is_estimated_by_its_words_its_cells_and_its_exercises():
    stop = lesson(
        cell("## 1. Why?\n" + "word " * 147),
        cell("1 + 1", kind="code"),
        cell("", kind="code", minutes=8),
        cell("## Recap\nDone.\n\n## Further reading\n" + "word " * 500),
        minutes=20,
    )
    estimates = {section.title: section.estimate for section in teaching_notes.sections(stop)}
    assert estimates == {
        "1. Why?": pytest.approx(1 + 1 + 8),
        "Recap": pytest.approx(3 / 150),
        "Further reading": 0,
    }
    assert teaching_notes.section_minutes(stop) == {"1. Why?": 20, "Recap": 0, "Further reading": 0}


def test_a_section_to_skip_that_is_not_there_is_an_error():
    stop = lesson(cell("## 1. Why?\nBecause."))
    assert "Section 1, *Why?* (10 minutes). Known." in teaching_notes.skip_list(stop, {1: "Known."})
    with pytest.raises(LessonError, match="lesson 01 has no section 7"):
        teaching_notes.skip_list(stop, {7: "Too long."})


def test_a_lesson_without_notes_is_an_error_that_names_it():
    strange = replace(COURSE, lessons=(lesson(cell("## 1. Why?\nBecause."), slug="77_more"),))
    with pytest.raises(LessonError, match="lesson 77 has no notes"):
        teaching_notes.teaching_notes_page(strange)


def test_a_day_is_timed_by_the_minutes_of_its_lessons():
    lessons = {"01": lesson(minutes=50), "02": lesson(minutes=45, slug="02_cls_token")}
    plan = teaching_notes.day_plan(["01", "lunch 60", "02", "03"], lessons, "09:30")
    assert re.findall(r"\d\d:\d\d to \d\d:\d\d", plan) == [
        "09:30 to 10:20",
        "10:20 to 11:20",
        "11:20 to 12:05",
    ]
    assert "**95**" in plan
