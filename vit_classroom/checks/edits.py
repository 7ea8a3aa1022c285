"""Mistakes as data: a lesson's `mistakes.yaml` has words for a student, and edits of right code that make the mistake.

    scaled_dot_product_attention results:
      "you divide by d; it should be the root of d": "** -0.5 => ** -1"

A heading names the exercise, then in a few words the demand of `checks.py` that reads it. Where another code than the
finished version is edited, such as a copy step by step, it is named after a slash: `MultiHeadAttention/Plain results`.
Several edits in one answer are set apart by ` ;; `, several answers with the same words are a list.
"""

import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

Row = tuple[str, Any]
"""Words, and an answer that no edit can say."""


def edited(right: Any, edits: str) -> Any:
    """Return a function or class with pieces of its source replaced.

    Args:
        right: is looked up in its own module, so a class that is edited keeps its bases.
        edits: `old => new`, several set apart by ` ;; `; an empty `new` leaves the piece out.

    Raises:
        ValueError: if a piece is not in the source, so that an edit cannot outlive the code that it changes.
    """
    text = textwrap.dedent(inspect.getsource(right))
    for edit in edits.split(" ;; "):
        old, arrow, new = f"{edit} ".partition(" => ")
        if not arrow or old not in text:
            raise ValueError(f"{right.__name__} has no {old.strip()!r}, which `{edit}` replaces")
        text = text.replace(old, new.removesuffix(" "))
    space = dict(vars(sys.modules[right.__module__]))
    exec(compile(text, f"<{right.__name__}, edited>", "exec"), space)
    return space[right.__name__]


class Known(Mapping):
    """One part of a table: words, each with the answers that its edits make. They are made when they are first read."""

    def __init__(self, right: Any, table: Mapping[str, str | list[str]], others: tuple[Row, ...] = ()):
        self.right, self.table, self.others = right, table, others

    @cached_property
    def answers(self) -> dict[str, list]:
        """The answers by their words, those of edits first."""
        found: dict[str, list] = {}
        for words, edits in self.table.items():
            several = [edits] if isinstance(edits, str) else edits
            found[words] = [edited(self.right, edit) for edit in several]
        for words, answer in self.others:
            found.setdefault(words, []).append(answer)
        return found

    def __getitem__(self, words: str) -> list:
        return self.answers[words]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.table, *(words for words, _ in self.others)]))

    def __len__(self) -> int:
        return len(list(iter(self)))


class Mistakes:
    """The mistakes of a lesson, read from `mistakes.yaml` beside its `checks.py`.

    Args:
        checks: path of the `checks.py`.
        right: the functions and classes that are edited.
    """

    def __init__(self, checks: str, *right: Any):
        text = Path(checks).with_name("mistakes.yaml").read_text(encoding="utf-8")
        self.table: dict[str, dict[str, str | list[str]]] = yaml.safe_load(text)
        self.right = {code.__name__: code for code in right}

    def __call__(self, heading: str, *others: Row) -> Known:
        """Return what stands below a heading, and further words with answers that no edit can say."""
        code = heading.split()[0].rpartition("/")[2]
        return Known(self.right[code], self.table[heading], others)
