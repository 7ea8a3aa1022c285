"""Slides and run sheets fit on a screen and into 90 minutes; a lesson that they cannot be made of is named."""

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import pytest
from test_pages import COURSE, ROOT

from authoring.notebooks.course import LessonError
from authoring.notebooks.quiz import Option, Question
from authoring.site.npm import PACKAGES
from authoring.teaching import deck, run_sheets, slides
from authoring.teaching.deck import Slide, beginning, count_words, make_deck, text_parts
from authoring.teaching.teaching_notes import read_notes
from authoring.teaching.wrong_answer_slide import wrong_answer
from vit_classroom.checks import diagnose, lesson_part

LESSONS = {lesson.slug: lesson for lesson in COURSE.lessons}
ATTENTION = LESSONS["04_attention"]
deck_of = cache(lambda slug: make_deck(COURSE, LESSONS[slug]))
page_of = cache(lambda slug: slides.deck_html(LESSONS[slug], deck_of(slug)))
SHEETS = (ROOT / "docs" / "run_sheets.md").read_text(encoding="utf-8")
each_lesson = pytest.mark.parametrize("slug", LESSONS)


class Tags(HTMLParser):
    """All tags of a page, with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


# -- decks


@each_lesson
def test_the_slides_of_a_deck_have_fewer_than_60_words(slug):
    assert {f"{slide.kind}: {slide.title}": slide.words for slide in deck_of(slug) if slide.words >= 60} == {}


@each_lesson
def test_a_deck_has_what_a_lesson_needs_in_its_order(slug):
    kinds = [slide.kind for slide in deck_of(slug)]
    exercises = sum(bool(cell.references) for cell in LESSONS[slug].cells)
    assert kinds[:2] == ["title", "opening"] and kinds[-2:] == ["exit", "home"]
    assert kinds.count("exercise") == exercises and kinds.count("quiz") == kinds.count("answer") == 2
    assert kinds[kinds.index("wrong") + 1] == "says"
    assert all(kinds[place - 1] == "predict" for place, kind in enumerate(kinds) if kind == "look")


@each_lesson
def test_every_picture_has_a_text_and_nothing_comes_from_another_host(slug):
    tags = Tags(page_of(slug)).found
    pictures = [attributes for tag, attributes in tags if tag == "img"]
    assert pictures and all(len(picture["alt"].split()) >= 5 for picture in pictures)
    loaded = [a.get("src") or a.get("href") for tag, a in tags if tag in ("img", "script", "link")]
    beside = {name for package in slides.PACKAGES for name in PACKAGES[package][1].values()}
    outside = {address for address in loaded if address and not address.startswith("data:")}
    assert outside <= {*beside, slides.STYLE.name}
    text = page_of(slug) + slides.STYLE.read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href)=.?https?:|@import|url\(", text)


@each_lesson
def test_every_figure_and_every_prediction_of_the_core_has_a_slide(slug):
    lesson, shown = LESSONS[slug], deck.shown_outputs(COURSE, LESSONS[slug])
    core = [
        part
        for section in deck.sections(lesson)
        if deck.in_class(section)
        for part in deck.parts(section, shown)
    ]
    pictures = " ".join(slide.html for slide in deck_of(slug))
    assert [
        deck.alt_of(part.html) for part in core if part.kind == "figure" and part.html not in pictures
    ] == []
    asked = sum(slide.kind == "predict" for slide in deck_of(slug))
    assert asked == sum(part.kind == "predict" for part in core) > 0


@each_lesson
def test_every_equation_reaches_mathjax_whole(slug):
    shown = page_of(slug)
    assert "$$" not in re.sub(r"<pre>.*?</pre>", "", shown, flags=re.DOTALL)
    equations = sum(slide.kind == "equation" for slide in deck_of(slug))
    assert shown.count("\\[") - 1 >= equations and shown.count("\\[") == shown.count("\\]")


def test_the_notes_of_a_teacher_stand_where_they_belong():
    deck = deck_of("04_attention")
    notes = {
        slide.title: " ".join(slide.notes) for slide in deck if slide.kind in ("title", "exercise", "predict")
    }
    assert "Why three vectors?" in notes["04 · Self-attention, many heads"]
    assert "students look for dropout" in notes["Exercise 4.4: MultiHeadAttention.forward"]
    assert "A short course skips this section." in notes["What does it cost?"]


def test_what_a_prediction_is_about_is_on_its_slide_and_what_came_of_it_on_the_next():
    asked, look = (next(s for s in deck_of("03_position") if s.kind == kind) for kind in ("predict", "look"))
    assert "a portrait, on the right the same 49 square patches in random order" in asked.html
    assert look.title == asked.title
    first = next(s for s in deck_of("01_patches") if s.kind == "predict")
    assert first.text.startswith("Here are four pieces of it, from one pixel to the whole")


# -- what slides are made of


def test_words_are_counted_without_tags_and_an_equation_is_one():
    assert count_words("two words") == 2
    assert count_words("so $a + b$ is") == count_words("so $$a + b$$ is") == 3
    assert count_words("<td>one &amp; two</td>") == 2
    assert Slide("predict", "Why?", "Because it is.").words == 5  # with the label


def test_a_text_is_cut_at_a_sentence():
    assert beginning("One two. Three four. Five.", 4) == "One two. Three four."
    assert beginning("One two three.", 2) == ""


def test_a_lesson_is_cut_into_parts():
    source = (
        "## 1. Why?\n\nBecause.\n\n> **Trap.** Not\n> this.\n\n$$a$$\n\n- a list\n\n**Your task.** Write."
    )
    assert [(part.kind, part.text) for part in text_parts(source)] == [
        ("prose", "Because."),
        ("trap", "Not this."),
        ("equation", "$$a$$"),
    ]


def test_a_lesson_with_too_long_a_slide_is_named_with_the_slide_and_its_words():
    with pytest.raises(
        LessonError, match=r"04_attention/lesson\.py:1: its slide .* \d+ words; fewer than 60"
    ):
        make_deck(COURSE, replace(ATTENTION, promise="word " * 70))


def test_a_lesson_with_too_little_for_a_deck_is_named(monkeypatch):
    monkeypatch.setattr(deck, "FEWEST", 100)
    with pytest.raises(
        LessonError, match=r"04_attention/lesson\.py:1: its deck has \d+ slides; .* needs 100"
    ):
        make_deck(COURSE, ATTENTION)


def test_an_exercise_shows_its_shapes():
    shown = next(slide for slide in deck_of("04_attention") if slide.kind == "exercise").html
    assert "q (..., T, d)" in shown and "→ weights (..., T, S)" in shown


def test_slides_of_a_lesson_s_own_follow_the_section_that_they_name(tmp_path, monkeypatch):
    def own(text):
        (tmp_path / "lessons" / ATTENTION.slug).mkdir(parents=True, exist_ok=True)
        (tmp_path / "lessons" / ATTENTION.slug / "slides.md").write_text(text, encoding="utf-8")
        return deck.own_slides(replace(COURSE, root=tmp_path), ATTENTION)

    found = own(
        "## Hands up (after section 2)\n\nWho has a *guess*?\nNote: wait.\n\n## Two (after section 2)\nB.\n"
    )
    assert [(slide.title, slide.text, slide.notes) for slide in found[2]] == [
        ("Hands up", "Who has a *guess*?", ("wait.",)),
        ("Two", "B.", ()),
    ]
    with pytest.raises(LessonError, match=r"slides\.md: 'Hands up' does not end in \(after section N\)"):
        own("## Hands up\n\nText.")
    monkeypatch.setattr(deck, "own_slides", lambda course, lesson: dict(found))
    titles = [slide.title for slide in make_deck(COURSE, ATTENTION)]
    assert titles.index("Two") == titles.index("Hands up") + 1 > 5
    monkeypatch.setattr(deck, "own_slides", lambda course, lesson: {99: found[2]})
    with pytest.raises(LessonError, match=r"04_attention/slides\.md: the lesson has no section 99"):
        make_deck(COURSE, ATTENTION)


def test_labels_can_be_read_on_white():
    assert round(slides.contrast((0, 0, 0))) == 21
    for colour in slides.COLOURS.values():
        assert slides.contrast(slides.readable(colour)) >= 4.5


def test_a_quiz_of_long_questions_alone_is_an_error():
    question = Question("word " * 60, (Option("a", "b", True), Option("c", "d", False)))
    cells = tuple(replace(cell, question=question) if cell.question else cell for cell in ATTENTION.cells)
    with pytest.raises(LessonError, match="no question of its quiz has fewer than 60 words"):
        make_deck(COURSE, replace(ATTENTION, cells=cells))


def test_a_solution_with_other_cells_than_the_lesson_is_stale():
    cells = tuple(cell for cell in ATTENTION.cells if "plots" not in cell.source)
    message = r"solutions/04_attention\.ipynb is stale: run `python -m authoring\.notebooks\.build 04`"
    with pytest.raises(LessonError, match=message):
        make_deck(COURSE, replace(ATTENTION, cells=cells))


# -- the wrong answer


@each_lesson
def test_the_check_says_of_the_wrong_answer_what_the_slide_says(slug):
    named = read_notes(COURSE, LESSONS[slug])["dissect"]
    wrong = wrong_answer(COURSE, LESSONS[slug], named)
    names = {path.stem for path in (ROOT / "lessons" / slug).glob("*.py")} - {"lesson"}
    parts = [lesson_part(slug, name) for name in names]
    (answer, *_) = [getattr(part, named["answer"]) for part in parts if hasattr(part, named["answer"])]
    verdict = diagnose(answer, wrong.exercise)
    assert verdict.kind == "wrong" and wrong.message in verdict.message
    assert named["answer"] not in wrong.code and f" {wrong.exercise}" in wrong.code
    assert not re.search(r"\b_[a-z]", wrong.code)  # a helper of the tests


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("of", "no_such", "no exercise no_such"),
        ("answer", "no_such", "defines no_such"),
        ("says", "no such words", "0 messages say"),
        ("answer", "Fused", "Fused needs Plain, which a class does not see"),
    ],
)
def test_a_wrong_answer_that_is_not_there_is_an_error(field, value, message):
    named = read_notes(COURSE, ATTENTION)["dissect"]
    with pytest.raises(LessonError, match=rf"04_attention/notes\.yaml: dissect: .*{message}"):
        wrong_answer(COURSE, ATTENTION, {**named, field: value})


# -- run sheets


@each_lesson
def test_a_run_sheet_adds_up_to_90_minutes(slug):
    part = re.search(rf"^## {slug[:2]} .*?(?=^## |\Z)", SHEETS, re.MULTILINE | re.DOTALL)[0]
    minutes = [int(n) for n in re.findall(r"^\| (\d+) \|", part, re.MULTILINE)]
    assert sum(minutes) == 90 and "| **90** |" in part and min(minutes) >= 5
    assert len(minutes) == 7 and "Computes for long" in part and "```python" in part


def test_the_command_of_the_class_table_is_the_one_that_its_page_explains():
    page = (ROOT / "docs" / "progress.md").read_text(encoding="utf-8")
    command, watch = run_sheets.CLASS_TABLE.removeprefix(".venv/bin/").split(" --watch ")
    assert command in page and f"`--watch {watch}`" in page and run_sheets.CLASS_TABLE in SHEETS


def test_an_exercise_for_home_is_not_taken_apart_in_class(monkeypatch):
    monkeypatch.setattr(run_sheets, "FOR_EXERCISES", 20)  # the two of the core fit
    with pytest.raises(LessonError, match="read_curves is for home"):
        run_sheets.plan(LESSONS["07_train_cifar10"], "read_curves")


def test_a_lesson_without_a_prediction_has_no_run_sheet():
    cells = [replace(cell, source=cell.source.replace("**Predict.", "**Guess.")) for cell in ATTENTION.cells]
    with pytest.raises(LessonError, match="a run sheet needs a box"):
        run_sheets.prediction(replace(ATTENTION, cells=tuple(cells)))


def test_a_run_sheet_says_which_sections_of_the_core_compute_for_long():
    slow = run_sheets.long_sections(COURSE, LESSONS["07_train_cifar10"])
    assert re.search(r"[Ss]ection 6, (\d0 s|\d min)\. Times are those of the stored", slow)
    assert run_sheets.long_sections(COURSE, LESSONS["05_encoder"]).startswith("Nothing")
    assert [run_sheets.spoken(seconds) for seconds in (28, 57, 144)] == ["30 s", "1 min", "2 min"]
