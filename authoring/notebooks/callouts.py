"""What gives a page its places to stop: coloured boxes, sections for the curious, exercises with a heading.

A box is a quote that begins with its name, `> **Trap.** ...`. Its colour is a style that JupyterLab lets through, and
so thin that text of the light and of the dark theme can be read on it. GitHub drops the style, and the quote is left.
"""

import re
from collections.abc import Sequence

from authoring.notebooks.stubs import Reference

COLOURS = {"Key idea": (0, 114, 178), "Trap": (213, 94, 0), "Predict": (204, 121, 167), "task": (0, 158, 115)}
"""Red, green and blue of each box."""
SPACE = "padding: 4px 16px; margin: 12px 0px"
NAMES = "|".join(name for name in COLOURS if name != "task")
QUOTE = re.compile(rf"^> \*\*({NAMES})\.\*\*.*(?:\n>.*)*", re.MULTILINE)
TASK = re.compile(r"^\*\*Your task\.\*\*", re.MULTILINE)
CURIOUS = "*☆ For the curious: nothing later needs it.*"


def box(text: str, kind: str) -> str:
    """Put Markdown into a box: a quote in the colour of its kind."""
    colour = ", ".join(map(str, COLOURS[kind]))
    style = f"border-left: 5px solid rgb({colour}); background: rgba({colour}, 0.15); {SPACE}"
    return f'<blockquote style="{style}">\n\n{text}\n\n</blockquote>'


def with_boxes(text: str) -> str:
    """Put a box in the place of each quote that begins with the name of one."""
    return QUOTE.sub(lambda match: box(re.sub(r"^> ?", "", match[0], flags=re.MULTILINE), match[1]), text)


def for_the_curious(text: str) -> str:
    """Mark the heading that a section for the curious begins with, and say below it what the mark means."""
    heading, _, rest = text.partition("\n")
    return f"{heading} ☆\n\n{CURIOUS}\n\n{rest.strip()}".strip()


def split_task(text: str) -> tuple[str, str]:
    """Cut the text before an exercise where its task begins; without **Your task.** all of it comes before."""
    starts = [match.start() for match in TASK.finditer(text)]
    return (text[: starts[-1]].strip(), text[starts[-1] :].strip()) if starts else (text, "")


def exercise_title(lesson: str, number: int, references: Sequence[Reference]) -> str:
    """Return the heading of an exercise, which is also what links to it say: its number, and all that it asks for."""
    *first, last = (name for reference in references for name in str(reference).split(", "))
    return f"Exercise {int(lesson)}.{number}: " + " and ".join(filter(None, [", ".join(first), last]))
