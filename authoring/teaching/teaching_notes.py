"""The teaching notes: minutes, exercises, questions, what to skip and what goes wrong.

Minutes are computed from the lessons; what a teacher learns in class is written in `lessons/NN_slug/notes.yaml`.
`build` writes the page.
"""

from itertools import count
from pathlib import Path

from authoring.notebooks.course import Course, Lesson, LessonCell, LessonError
from authoring.notebooks.minutes import (
    AT_HOME,
    LINES_A_MINUTE,
    WORDS_A_MINUTE,
    all_minutes,
    core_minutes,
    minutes_of,
    sections,
)
from authoring.site.pages import lesson_link, read_yaml, table

SOURCE = Path("docs", "teaching.yaml")
NOTES = ("home", "questions", "skip", "trouble", "dissect")
PAGE = """\
# Teaching notes

For whoever gives the course to a class. The minutes of a lesson are those of its core, without the sections for the
curious, and they are **estimates**: {words} words a minute, {lines} visible lines of code a minute, half a minute a
figure, the seconds that the cells took on two cores of a CPU, and exercises at one and a half times what they state,
for the second try. A class whose machines train slowly needs more.

## The lessons at a glance

{overview}

*With all* counts the sections for the curious (☆), too. Plans of a term and of a workshop: [plans](plans.md).

{lessons}
"""


# -- the page


def teaching_notes_page(course: Course) -> str:
    """Return the page."""
    return PAGE.format(
        words=WORDS_A_MINUTE,
        lines=LINES_A_MINUTE,
        overview=overview(course),
        lessons="\n\n".join(
            lesson_notes(course, lesson, read_notes(course, lesson)) for lesson in course.lessons
        ),
    )


def read_notes(course: Course, lesson: Lesson) -> dict:
    """Read what a teacher should know about a lesson.

    Raises:
        LessonError: if it is missing or not complete.
    """
    notes = read_yaml(course.root / "lessons" / lesson.slug / "notes.yaml")
    if surplus := set(NOTES) ^ notes.keys():
        raise LessonError(f"lessons/{lesson.slug}/notes.yaml has, or lacks: {', '.join(sorted(surplus))}")
    return notes


def overview(course: Course) -> str:
    """Return a table of all lessons: minutes of the core and of all, exercises, and the sums."""
    rows = []
    for lesson in course.lessons:
        exercises = exercise_cells(lesson)
        minutes = sum(cell.metadata["minutes"] for cell in exercises)
        estimates = [core_minutes(course, lesson), all_minutes(course, lesson)]
        rows.append([lesson_link(lesson), lesson.title, *estimates, len(exercises), minutes])
    total = ["", "**all**", *(f"**{sum(row[column] for row in rows)}**" for column in range(2, 6))]
    header = ["", "lesson", "minutes", "with all", "exercises", "minutes of exercises"]
    return table(header, [*rows, total])


def lesson_notes(course: Course, lesson: Lesson, notes: dict) -> str:
    """Return the notes on one lesson."""
    questions = [f"- *{entry['ask']}* {entry['answer']}" for entry in notes["questions"]]
    parts = (
        f"## {lesson.number} · {lesson.title}",
        f"{core_minutes(course, lesson)} minutes. [Exercises](../notebooks/{lesson.slug}.ipynb), "
        f"[solved](../solutions/{lesson.slug}.ipynb).",
        section_table(course, lesson),
        exercise_table(lesson),
        "**Questions that students ask**",
        "\n".join(questions),
        "**In a short course, skip**",
        skip_list(course, lesson, notes["skip"]),
        "**What goes wrong in class**",
        "\n".join(f"- {entry}" for entry in notes["trouble"]),
    )
    return "\n\n".join(parts)


def section_minutes(course: Course, lesson: Lesson) -> dict[str, int]:
    """Return the minutes of each section by its title; those of the core add up to what the lesson says."""
    minutes, sums = {}, {False: 0.0, True: 0.0}
    for part in sections(lesson):
        before = round(sums[part.curious])
        sums[part.curious] += minutes_of(course, lesson, part)
        minutes[part.title] = round(sums[part.curious]) - before
    return minutes


def section_table(course: Course, lesson: Lesson) -> str:
    """Return a table of the sections: minutes, cells and exercises."""
    minutes, numbers, rows = section_minutes(course, lesson), count(1), []
    for part in sections(lesson):
        names = [f"{int(lesson.number)}.{next(numbers)}" for _ in part.exercises]
        code = sum(cell.kind == "code" for cell in part.cells)
        spent = "at home" if part.title in AT_HOME else minutes[part.title] or "< 1"
        rows.append([part.title + " ☆" * part.curious, spent, code or "", ", ".join(names)])
    return table(["section", "minutes", "code cells", "exercises"], rows)


def exercise_cells(lesson: Lesson) -> list[LessonCell]:
    """Return the exercise cells of a lesson."""
    return [cell for cell in lesson.cells if cell.references]


def exercise_table(lesson: Lesson) -> str:
    """Return a table of the exercises: number, names, difficulty and minutes."""
    rows = []
    for number, cell in enumerate(exercise_cells(lesson), 1):
        names = ", ".join(f"`{reference}`" for reference in cell.references)
        difficulty = "●" * cell.metadata["difficulty"] + "○" * (3 - cell.metadata["difficulty"])
        rows.append([f"{int(lesson.number)}.{number}", names, difficulty, cell.metadata["minutes"]])
    return table(["exercise", "what", "difficulty", "minutes"], rows) if rows else "No exercises."


def skip_list(course: Course, lesson: Lesson, skip: dict[int, str]) -> str:
    """Return what a short course may leave out, with the minutes that this saves.

    Raises:
        LessonError: if there is no section with such a number.
    """
    minutes, lines, saved = section_minutes(course, lesson), [], {False: 0, True: 0}
    numbered = {part.number: part for part in sections(lesson) if part.number}
    for number, reason in skip.items():
        if number not in numbered:
            raise LessonError(f"lessons/{lesson.slug}/notes.yaml: there is no section {number} to skip")
        title, curious = numbered[number].title, numbered[number].curious
        saved[curious] += minutes[title]
        star = " ☆" * curious
        lines.append(f"- Section {title.replace('. ', ', *', 1)}*{star} ({spent(minutes[title])}). {reason}")
    where = {False: "of the core", True: "of sections outside the core (☆)"}
    found = [f"{spent(saved[curious])} {words}" for curious, words in where.items() if saved[curious]]
    return "\n".join([*lines, f"\nThis saves about {', and '.join(found)}." if found else ""])


def spent(minutes: int) -> str:
    """Write minutes in words."""
    return f"{minutes} minute{'s' * (minutes != 1)}"


def hours(minutes: int) -> str:
    """Write minutes as hours and minutes."""
    return f"{minutes // 60} hours {minutes % 60} minutes" if minutes % 60 else f"{minutes // 60} hours"
