"""What the tests of exhibits share: a notebook that is not there."""

import pytest

from vit_classroom.exhibits import attention_table


@pytest.fixture
def shown(monkeypatch):
    """Pretend that a notebook is there, and collect what it would display."""
    displayed = []
    monkeypatch.setattr("IPython.display.display", lambda *what, **_: displayed.extend(what))
    monkeypatch.setattr(attention_table, "in_notebook", lambda: True)
    monkeypatch.delenv("VIT_COURSE_WIDGETS", raising=False)
    return displayed
