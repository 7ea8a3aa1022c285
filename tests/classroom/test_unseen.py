"""What checks say of answers that nothing in them was written for."""

import pytest

from vit_course.classroom.checks import diagnose, lesson_part
from vit_course.machinery.paths import LESSONS

TABLES = [lesson_part(path.parent.name, "unseen") for path in sorted(LESSONS.glob("[0-9]*/unseen.py"))]
UNSEEN = {name: rows for table in TABLES for name, rows in table.UNSEEN.items()}
STYLES = {name: rows for table in TABLES for name, rows in table.STYLES.items()}
LEAST = 0.8
"""So large a share of them should be told its cause."""


@pytest.mark.parametrize("name", STYLES)
def test_right_answers_in_unseen_styles_are_accepted(name):
    messages = [diagnose(answer, name).message for answer in STYLES[name]]
    assert len(messages) >= 4
    assert set(messages) == {"your own version is used from here on"}


def test_unseen_wrong_answers_are_refused_and_most_are_told_their_cause(capsys):
    verdicts = {
        (name, cause): diagnose(answer, name) for name, rows in UNSEEN.items() for cause, answer in rows
    }
    assert all(len(rows) >= 6 for rows in UNSEEN.values())
    assert [key for key, verdict in verdicts.items() if verdict.kind != "wrong"] == []
    unnamed = [f"{name}: {cause}" for (name, cause), verdict in verdicts.items() if not verdict.named]
    share = 1 - len(unnamed) / len(verdicts)
    with capsys.disabled():
        print(f" {share:.0%} of {len(verdicts)} unseen answers are told their cause ", end="")
    assert share >= LEAST, "\n".join(unnamed)
