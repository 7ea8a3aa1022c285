"""Mistakes as data: an edit makes the wrong answer, and fails where the text that it changes is gone."""

import inspect
from pathlib import Path

import pytest
import torch
import yaml

from vit_classroom.checks.edits import Mistakes, edited
from vit_classroom.paths import LESSONS
from vit_course.attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention

QKV = tuple(torch.randn(3, 3, 4, generator=torch.Generator().manual_seed(0)))
TABLES = sorted(LESSONS.glob("*/mistakes.yaml"))


def test_an_edit_changes_the_code_and_nothing_else():
    wrong = edited(merge_heads, "(h d) => (d h)")
    source = inspect.getsource(merge_heads)
    assert wrong.__name__ == "merge_heads" and wrong.__code__ != merge_heads.__code__
    assert inspect.getsource(merge_heads) == source


def test_a_class_that_is_edited_keeps_its_bases():
    wrong = edited(MultiHeadAttention, "check_heads(dim, num_heads) => pass")
    assert wrong.__mro__[1:] == MultiHeadAttention.__mro__[1:] and wrong(dim=6, num_heads=4)


def test_several_edits_are_made_one_after_the_other():
    wrong = edited(scaled_dot_product_attention, "dim=-1 => dim=-2 ;; , weights =>")
    output = wrong(*QKV)
    assert isinstance(output, torch.Tensor)  # alone: the weights are not returned
    assert not torch.equal(output, scaled_dot_product_attention(*QKV)[0])


@pytest.mark.parametrize("edit", ["nothing of this => x", "dim=-1", ""])
def test_an_edit_of_what_is_not_there_fails_with_its_text(edit):
    with pytest.raises(ValueError, match="has no"):
        edited(scaled_dot_product_attention, edit)


def test_a_table_is_read_at_once_and_its_answers_are_made_when_they_are_asked_for(tmp_path):
    (tmp_path / "mistakes.yaml").write_text(
        'merge_heads results:\n  "words": ["(h d) => (d h)", "gone => x"]\n'
    )
    known = Mistakes(str(tmp_path / "checks.py"), merge_heads)("merge_heads results", ("others", len))
    assert list(known) == ["words", "others"] and len(known) == 2
    with pytest.raises(ValueError, match="gone"):
        known["words"]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.parent.name)
def test_a_checks_file_reads_every_heading_of_its_table(path):
    text = Path(path).with_name("checks.py").read_text(encoding="utf-8")
    unread = [name for name in yaml.safe_load(path.read_text(encoding="utf-8")) if f'"{name}"' not in text]
    assert unread == []
