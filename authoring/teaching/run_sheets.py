"""The run sheets: 90 minutes of class for every lesson, one page, `docs/run_sheets.md`. `build` writes it.

Everything is taken from the lesson, its notes, and the times that its stored solution shows. Minutes add up to 90.
"""

import ast
from collections.abc import Iterator
from itertools import takewhile

from authoring.notebooks.course import Course, Lesson, LessonCell, LessonError
from authoring.notebooks.minutes import Section, core_minutes, sections, stored_cells
from authoring.notebooks.stubs import parse
from authoring.site.pages import lesson_link, table
from authoring.teaching.deck import beginning, parts, plain_title, quiz_slides
from authoring.teaching.teaching_notes import exercise_cells, read_notes
from authoring.teaching.wrong_answer_slide import wrong_answer

MINUTES = 90
FIXED = {"opening": 5, "idea": 5, "dissect": 10, "predict": 10, "exit": 5}
"""Minutes that every session has; exercises and reading share the rest."""
FOR_EXERCISES = 45
"""At most so many minutes are for exercises in class, the others are for home."""
CLASS_TABLE = ".venv/bin/python -m vit_classroom progress --class class --watch 10"
LONG = 20
"""A section that computes for fewer seconds is not worth a line."""
SHAPE_CARD = "The [shape card](shape_card.md) for everybody; the"
PAGE = """\
# Run sheets

For whoever stands before the class: {minutes} minutes for each lesson, with the slides that `make slides` writes into
`build/slides/`. Exercises have the minutes that they state, and what does not fit is for home. What students ask, what
goes wrong, and what may be left out is in the [teaching notes](teaching_notes.md).

While pairs work, leave the class table open, on your own screen or on the wall ([how it works](progress.md)):

```sh
{class_table}
```

{lessons}
"""


def run_sheets_page(course: Course) -> str:
    """Return the page."""
    return PAGE.format(
        minutes=MINUTES,
        class_table=CLASS_TABLE,
        lessons="\n\n".join(run_sheet(course, lesson) for lesson in course.lessons),
    )


def run_sheet(course: Course, lesson: Lesson) -> str:
    """Return the run sheet of one lesson."""
    wrong = wrong_answer(course, lesson, read_notes(course, lesson)["dissect"])
    rows = plan(lesson, wrong.exercise)
    cause = f" ({wrong.cause})" if wrong.cause else ""
    return "\n\n".join(
        (
            f"## {lesson.number} · {lesson.title}",
            f"{core_minutes(course, lesson)} minutes for one person alone. "
            f"Notebook {lesson_link(lesson)}, slides `build/slides/{lesson.slug}.html`.",
            f"**Computes for long.** {long_sections(course, lesson)}",
            f"**Print.** {SHAPE_CARD if lesson.map else 'The'} exit question, four to a sheet.",
            table(["minutes", "what", ""], [*rows, [f"**{sum(row[0] for row in rows)}**", "", ""]]),
            f"**The wrong answer** to `{wrong.exercise}`{cause}:",
            f"```python\n{wrong.code}\n```",
            f"The check says: {wrong.message}",
        )
    )


def plan(lesson: Lesson, dissected: str) -> list[list]:
    """Return the rows of a session: minutes, what happens, and with what."""
    solved, left = exercises_in_class(lesson)
    if not any(f"`{dissected}" in name for name, _ in solved):
        raise LessonError(
            f"lessons/{lesson.slug}/notes.yaml: dissect: {dissected} is for home, so nobody has met it"
        )
    working = sum(minutes for _, minutes in solved)
    names = ", ".join(f"{name} ({minutes} min)" for name, minutes in solved)
    home = f" For home: {', '.join(name for name, _ in left)}." if left else ""
    rows = {
        "opening": (
            "opening question",
            f"*{plain_title(sections(lesson)[0])}* Collect guesses before anybody reads.",
        ),
        "idea": ("the idea", idea(lesson)),
        "reading": ("reading in pairs", "From exercise to exercise, running the cells on the way."),
        "working": ("exercises in pairs, class table open", f"{names}.{home}"),
        "dissect": (
            "a wrong answer, taken apart",
            "Below: what does it give, and why? Then what the check says.",
        ),
        "predict": ("predict, then look", prediction(lesson)),
        "exit": ("exit question, on paper", exit_question(lesson)),
    }
    minutes = {**FIXED, "working": working, "reading": MINUTES - sum(FIXED.values()) - working}
    return [[minutes[key], *row] for key, row in rows.items()]


def exit_question(lesson: Lesson) -> str:
    """Return the last question of the quiz, which the slides keep for the end, and its answer."""
    final = list(quiz_slides(lesson))[-1]
    text, *options = final.text.split("\n\n")
    return f"*{' '.join(text.split())}* {' '.join(options)} **Answer:** {final.notes[0]}"


def exercises_in_class(lesson: Lesson) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return the exercises for class, the core first and as many as fit, and those for home; with minutes."""
    curious = {cell.line for section in sections(lesson) if section.curious for cell in section.cells}
    cells = list(enumerate(exercise_cells(lesson), 1))
    room, chosen = FOR_EXERCISES, set()
    for number, cell in sorted(cells, key=lambda pair: pair[1].line in curious):
        if cell.metadata["minutes"] <= room:
            room -= cell.metadata["minutes"]
            chosen.add(number)
    solved, left = [], []
    for number, cell in cells:
        names = " and ".join(f"`{reference}`" for reference in cell.references)
        entry = f"{int(lesson.number)}.{number} {names}", cell.metadata["minutes"]
        (solved if number in chosen else left).append(entry)
    return solved, left


def idea(lesson: Lesson) -> str:
    """Return the first key idea of the core, or else what the lesson promises."""
    core = [section for section in sections(lesson) if not section.curious]
    boxes = [part.text for section in core for part in parts(section, {}) if part.kind == "idea"]
    return beginning(boxes[0], 50) if boxes else lesson.promise


def prediction(lesson: Lesson) -> str:
    """Return a question to guess at, and where its answer is measured: one that a figure answers, if there is one."""
    found = [pair for section in sections(lesson) if not section.curious for pair in predictions(section)]
    if not found:
        raise lesson.error(1, "a run sheet needs a box `> **Predict.** ...` in a section of the core")
    section, question, alt = next((entry for entry in found if entry[2]), found[0])
    shows = f" What it shows: {alt}" if alt else ""
    return f"Section {section.number}: {question} Everybody writes a guess down; then run the cell.{shows}"


def predictions(section: Section) -> Iterator[tuple[Section, str, str]]:
    """Yield the predictions of a section: section, question, and the text of the figure that follows it, or ""."""
    for index, cell in enumerate(section.cells):
        asked = [part.text for part in parts(Section(section.title, (cell,)), {}) if part.kind == "predict"]
        following = takewhile(
            lambda later: later.kind == "code" and not later.references, section.cells[index + 1 :]
        )
        if asked:
            yield section, asked[-1], next(filter(None, map(figure_text, following)), "")


def figure_text(cell: LessonCell) -> str:
    """Return the text that stands for the first figure of a cell, where it is written there in full."""
    for node in ast.walk(parse(cell.source)) if cell.kind == "code" else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "plots.show" and len(node.args) == 2:
            if isinstance(node.args[1], ast.Constant):
                return node.args[1].value
    return ""


# -- what computes for long


def long_sections(course: Course, lesson: Lesson) -> str:
    """Return which sections of the core compute for long, with the time that the stored solution took."""
    stored, lines = stored_cells(course, lesson), []
    for section in sections(lesson):
        cells = [stored[cell.line] for cell in section.cells if cell.line in stored]
        seconds = sum(cell["metadata"].get("seconds", 0.0) for cell in cells)
        if seconds >= LONG and not section.curious:
            lines.append(f"section {section.number}, {spoken(seconds)}")
    if not lines:
        return "Nothing: no section computes for long."
    named = "; ".join(lines).replace("s", "S", 1)
    return f"{named}. Times are those of the stored solution, on a CPU: plan them, or run them before class."


def spoken(seconds: float) -> str:
    """Write a time roughly."""
    return f"{round(seconds / 60)} min" if seconds >= 55 else f"{round(seconds, -1):.0f} s"
