"""Quiz questions: what an author may write, in which order options stand, and how they are shown."""

import pytest

from authoring.notebooks.quiz import in_order, inline_html, parse_question, question_text

SOURCE = """\
Which axis does the softmax
run over?

- [ ] the queries :: Then a query could get nothing.
- [x] the keys :: Each query spreads
  a weight of 1.
- [ ] the `heads` :: Heads never share a *softmax*.
"""
QUESTION = parse_question(SOURCE)
ORDERS = [[1, 0, 2, 2, 1], [1, 0, 2, 0, 2]]


def places(lesson, count):
    """The places of the right options of the first questions of a lesson."""
    return [
        [option.right for option in in_order(QUESTION, lesson, number)].index(True)
        for number in range(1, count + 1)
    ]


def test_a_question_is_read_with_its_options_and_reasons_also_over_several_lines():
    assert QUESTION.text == "Which axis does the softmax\nrun over?"
    assert [option.text for option in QUESTION.options] == ["the queries", "the keys", "the `heads`"]
    assert [option.right for option in QUESTION.options] == [False, True, False]
    assert QUESTION.options[1].reason == "Each query spreads a weight of 1."


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[x]", "[ ]", "exactly one right option [x]; this one has 0"),
        ("[ ] the queries", "[x] the queries", "this one has 2"),
        (" :: Then a query could get nothing.", "", "not '- [ ] the queries'"),
        ("[ ] the queries", "[] the queries", "option :: reason"),
        ("Which axis does the softmax\nrun over?\n", "", "needs a text"),
        (SOURCE, "Why?\n\n- [x] because :: It is so.", "at least two options"),
    ],
)
def test_a_question_that_is_not_complete_is_refused(old, new, words):
    with pytest.raises(ValueError) as error:
        parse_question(SOURCE.replace(old, new))
    assert words in str(error.value)


def test_each_letter_is_right_once_in_three_questions_of_a_lesson():
    for lesson in range(20):
        assert sorted(places(f"{lesson:02d}", 3)) == sorted(places(f"{lesson:02d}", 6)[3:]) == [0, 1, 2]


def test_the_order_is_the_same_on_every_machine_and_wrong_options_keep_theirs():
    assert [places("04", 5), places("05", 5)] == ORDERS
    wrong = [option.text for option in in_order(QUESTION, "04", 1) if not option.right]
    assert wrong == ["the queries", "the `heads`"]


def test_the_right_option_is_the_longest_only_if_it_is_longer_than_all_others():
    longest = SOURCE.replace("the keys", "the keys of one head")
    assert parse_question(longest).right_is_longest and not QUESTION.right_is_longest


def test_every_option_opens_on_a_line_of_its_own_and_says_whether_it_is_right():
    text = question_text(QUESTION, "04", 1, "1")
    assert text.startswith("**1. Which axis does the softmax run over?**\n\n<details><summary>(a) ")
    assert "<summary>(" + "abc"[places("04", 1)[0]] + ") the keys</summary>\n\n**Right.** Each query" in text
    assert (
        ") the <code>heads</code></summary>\n\n**No.** Heads never share a *softmax*.\n\n</details>" in text
    )
    assert text.count("**No.**") == 2 and text.count("\n\n</details>") == 3


def test_more_paragraphs_of_a_question_follow_the_bold_one():
    text = question_text(parse_question(SOURCE.replace("run over?", "run over?\n\n    x = 1")), "04", 1, "2")
    assert "**2. Which axis does the softmax run over?**\n\n    x = 1\n\n<details>" in text


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("`a < b`, `a**b**c`", "<code>a &lt; b</code>, <code>a**b**c</code>"),
        ("**all** or *one*", "<strong>all</strong> or <em>one</em>"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("$N^2$ & D", "$N^2$ &amp; D"),
    ],
)
def test_an_option_is_html_because_a_summary_reads_no_markdown(markdown, html):
    assert inline_html(markdown) == html
