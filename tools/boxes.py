"""What gives a page its places to stop: coloured boxes, sections for the curious, exercises with a heading.

A box is a quote that begins with its name, `> **Trap.** ...`. JupyterLab gives a `div` with the class `alert` colours
that fit its light and its dark theme; GitHub drops the class, and the quote is left.
"""

import re
from collections.abc import Sequence

COLOURS = {"Key idea": "info", "Trap": "danger", "Predict": "success"}
TASK_COLOUR = "warning"
QUOTE = re.compile(rf"^> \*\*({'|'.join(COLOURS)})\.\*\*.*(?:\n>.*)*", re.MULTILINE)
TASK = re.compile(r"^\*\*Your task\.\*\*", re.MULTILINE)
CURIOUS = "*☆ For the curious: nothing later needs it.*"


def box(text: str, colour: str) -> str:
    """Put Markdown into a box."""
    return f'<div class="alert alert-{colour}">\n\n{text}\n\n</div>'


def with_boxes(text: str) -> str:
    """Put a box around each quote that begins with the name of one."""
    return QUOTE.sub(lambda match: box(match[0], COLOURS[match[1]]), text)


def for_the_curious(text: str) -> str:
    """Mark the heading that a section for the curious begins with, and say below it what the mark means."""
    heading, _, rest = text.partition("\n")
    return f"{heading} ☆\n\n{CURIOUS}\n\n{rest.strip()}".strip()


def split_task(text: str) -> tuple[str, str]:
    """Cut the text before an exercise where its task begins; without **Your task.** all of it comes before."""
    starts = [match.start() for match in TASK.finditer(text)]
    return (text[: starts[-1]].strip(), text[starts[-1] :].strip()) if starts else (text, "")


def exercise_title(lesson: str, number: int, names: Sequence[str]) -> str:
    """Return the heading of an exercise, which is also what links to it say."""
    *first, last = names
    return f"Exercise {int(lesson)}.{number}: " + " and ".join(filter(None, [", ".join(first), last]))


def anchor(title: str) -> str:
    """Return the anchor that JupyterLab, GitHub and nbconvert give to a heading of a notebook."""
    return title.replace(" ", "-")
