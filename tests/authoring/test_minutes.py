"""What every lesson keeps to: a class period for its core, outputs that fit, a fair quiz."""

from collections import Counter
from dataclasses import replace

import nbformat
import pytest
from test_pages import COURSE, ROOT, lesson

from authoring.notebooks.course import Course, LessonCell
from authoring.notebooks.minutes import all_minutes, core_minutes, minutes_of, sections
from authoring.notebooks.outputs import code_cells
from authoring.notebooks.quiz import in_order, parse_question

CORE_MINUTES = 66
PRINTED_WIDTH = 95

each_lesson = pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.slug)


def text(source, **metadata):
    question = parse_question(source) if "quiz" in metadata else None
    return LessonCell("markdown", source, metadata, 1, (), question)


def code(source, **metadata):
    return LessonCell("code", source, metadata, 1, ("an exercise",) if "minutes" in metadata else ())


# -- every lesson


@each_lesson
def test_the_core_of_a_lesson_fits_into_a_class_period(lesson):
    assert core_minutes(COURSE, lesson) <= CORE_MINUTES


@each_lesson
def test_printed_lines_fit_on_the_screen(lesson):
    book = nbformat.read(ROOT / "solutions" / f"{lesson.slug}.ipynb", as_version=4)
    printed = [
        line
        for cell in code_cells(book)
        for output in cell.outputs
        if output.output_type == "stream"
        for line in output.text.splitlines()
    ]
    assert [line for line in printed if len(line) >= PRINTED_WIDTH] == []


@each_lesson
def test_a_quiz_has_three_to_five_questions_and_length_does_not_give_the_answer_away(lesson):
    assert 3 <= len(lesson.questions) <= 5
    assert sum(question.right_is_longest for question in lesson.questions) <= len(lesson.questions) / 3
    assert not any("<summary>Answer" in cell.source for cell in lesson.cells)


@each_lesson
def test_a_lesson_asks_three_older_questions_again_in_new_words_from_the_third_lesson_on(lesson):
    again = list(COURSE.recalled(lesson))
    assert len(again) == (3 if lesson not in COURSE.lessons[:2] else 0)
    for older, number, question in again:
        assert " ".join(question.text.split()) != " ".join(older.questions[number - 1].text.split())
    words = [question.text for stop in COURSE.lessons for _, _, question in COURSE.recalled(stop)]
    assert all(words.count(question.text) == 1 for _, _, question in again)


@each_lesson
def test_a_lesson_begins_with_the_map_of_the_model_and_the_first_with_the_picture_of_the_readme(lesson):
    picture = f"maps/{lesson.slug}" if lesson is not COURSE.lessons[0] else "hero"
    book = nbformat.read(ROOT / "notebooks" / f"{lesson.slug}.ipynb", as_version=4)
    assert f"](../docs/{picture}.png)" in book.cells[0].source


def test_no_letter_is_right_in_far_more_questions_of_the_course_than_another():
    places = Counter(
        [option.right for option in in_order(question, stop.number, number)].index(True)
        for stop in COURSE.lessons
        for number, question in enumerate(stop.questions, 1)
        if len(question.options) == 3
    )
    assert max(places.values(), default=0) - min((places[letter] for letter in range(3)), default=0) <= 8


# -- how minutes are counted

QUIZ = "one two three\n\n- [x] four :: not counted here\n- [ ] five :: nor this"


def write_solution(root, *cells):
    """Store a solution with these code cells, each as seconds and the data of its outputs."""
    book = nbformat.v4.new_notebook()
    for seconds, *shown in cells:
        outputs = [nbformat.v4.new_output("display_data", data) for data in shown]
        book.cells.append(nbformat.v4.new_code_cell(outputs=outputs, metadata={"seconds": seconds}))
    (root / "solutions").mkdir()
    nbformat.write(book, root / "solutions" / "01_patches.ipynb")


def test_the_core_counts_words_and_exercises_but_nothing_folded_curious_or_for_home(tmp_path):
    words = "word " * 598
    stop = lesson(
        text("## Core\n" + words),  # 600 words with the heading: 5 minutes
        code("", minutes=8),  # 12 with the second try
        text("<details><summary>Hint</summary>" + words + "</details>"),
        text(words, tags=["solution-only"]),
        text("## More\n" + words, curious=True),
        code("", minutes=10),
        text("## Further reading\n" + words),
    )
    assert core_minutes(Course(tmp_path, "", (stop,)), stop) == 17
    assert all_minutes(Course(tmp_path, "", (stop,)), stop) == 37
    assert [section.curious for section in sections(stop)] == [False, True, False]


def test_visible_lines_figures_and_seconds_count(tmp_path):
    picture, table = {"image/png": "", "text/plain": "Figure"}, {"text/html": "<table></table>"}
    write_solution(tmp_path, (30.0, table), (90.0, picture, {"text/html": "<img alt='a'>"}), (1.0, picture))
    cells = [replace(code("a\n\n# b\nc"), line=1), replace(code("d", fold=True), line=2)]
    stop = lesson(text("## A ![b](c.png)"), *cells, replace(code("e", minutes=2), line=3))
    course = Course(tmp_path, "", (stop,))
    (section,) = sections(stop)
    assert minutes_of(course, stop, section) == pytest.approx(3 / 120 + 3 / 12 + 1.5 + 121 / 60 + 3)


def test_of_a_quiz_question_and_options_count_and_reasons_do_not(tmp_path):
    stop = lesson(text(QUIZ, quiz=True))
    assert minutes_of(Course(tmp_path, "", (stop,)), stop, sections(stop)[0]) == pytest.approx(5 / 120)
