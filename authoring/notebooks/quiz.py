"""Quiz questions: how an author writes them, in which order their options stand, and how a notebook shows them.

    # %% [markdown] quiz
    # Which axis does the softmax of attention run over?
    #
    # - [x] the keys :: Each query spreads a weight of 1 over the keys.
    # - [ ] the queries :: Then each key would hand out a weight of 1, and a query could get nothing at all.

One option is right, and every option has its reason after ` :: `.
"""

import hashlib
import re
from dataclasses import dataclass
from html import escape

OPTION = re.compile(r"- \[([x ])\] (.+?) :: (.+)")
CODE = re.compile(r"`([^`]+)`")
BOLD = re.compile(r"\*\*(.+?)\*\*")
ITALICS = re.compile(r"(?<![\w*])\*(?! )([^*]+)(?<! )\*(?![\w*])")


@dataclass(frozen=True)
class Option:
    """One option of a question, and why it is right or wrong."""

    text: str
    reason: str
    right: bool


@dataclass(frozen=True)
class Question:
    """A question with its options, in the order in which the author wrote them."""

    text: str
    options: tuple[Option, ...]

    @property
    def right_is_longest(self) -> bool:
        """Tell whether the right option is longer than every other: those who guess find it by its length."""
        right = [len(option.text) for option in self.options if option.right]
        return min(right) > max(len(option.text) for option in self.options if not option.right)


def parse_question(source: str) -> Question:
    """Read the cell of a question.

    Raises:
        ValueError: if it has no text, less than two options, not exactly one right one, or one without a reason.
    """
    text, *items = re.split(r"^(?=- )", source.strip(), flags=re.MULTILINE)
    options = []
    for line in (" ".join(item.split()) for item in items):
        match = OPTION.fullmatch(line)
        if not match:
            raise ValueError(f"write `- [x] option :: reason` or `- [ ] option :: reason`, not {line!r}")
        options.append(Option(match[2], match[3], match[1] == "x"))
    if not text.strip() or len(options) < 2:
        raise ValueError("a quiz question needs a text and at least two options")
    if (right := sum(option.right for option in options)) != 1:
        raise ValueError(f"a quiz question needs exactly one right option [x]; this one has {right}")
    return Question(text.strip(), tuple(options))


def in_order(question: Question, lesson: str, number: int) -> list[Option]:
    """Return the options of a question of a lesson, both by number, in the order in which they are shown.

    Of as many questions in a row as there are options, each letter is right once. Which comes first is drawn from the
    lesson's number alone, so no other lesson changes when one does.
    """
    count = len(question.options)
    block, position = divmod(number - 1, count)
    drawn = [hashlib.sha256(f"{lesson}.{block}.{letter}".encode()).digest() for letter in range(count)]
    place = sorted(range(count), key=drawn.__getitem__)[position]
    (right,) = (option for option in question.options if option.right)
    wrong = [option for option in question.options if not option.right]
    return [*wrong[:place], right, *wrong[place:]]


def question_text(question: Question, lesson: str, number: int, shown: str, again: bool = False) -> str:
    """Return the Markdown of a question with the number `shown`: each option opens on a click.

    A question that is asked `again` has its options in another order, so that nobody answers by the letter.
    """
    options = in_order(question, lesson, number)
    if again:
        options = [*options[1:], options[0]]
    first, *more = question.text.split("\n\n")
    blocks = [f"**{shown}. {' '.join(first.split())}**", *more]
    for letter, option in zip("abcdefgh", options, strict=False):
        verdict = "Right." if option.right else "No."
        summary = f"<details><summary>({letter}) {inline_html(option.text)}</summary>"
        blocks.append(f"{summary}\n\n**{verdict}** {option.reason}\n\n</details>")
    return "\n\n".join(blocks)


def inline_html(text: str) -> str:
    """Turn code, bold and italics of Markdown into HTML: inside a `summary` no Markdown is read."""
    parts = CODE.split(escape(text, quote=False))  # what is code has the odd places
    for index, part in enumerate(parts):
        words = ITALICS.sub(r"<em>\1</em>", BOLD.sub(r"<strong>\1</strong>", part))
        parts[index] = f"<code>{part}</code>" if index % 2 else words
    return "".join(parts)
