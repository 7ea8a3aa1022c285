"""A student's own progress: lesson by lesson what is right, the minutes left, and the next exercise."""

import os
import textwrap
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vit_course.classroom.checks.kept import kept_files
from vit_course.classroom.numbers import minutes
from vit_course.classroom.progress.judge import Found, Limits, judge
from vit_course.classroom.progress.tasks import Lesson, Task
from vit_course.classroom.tables import table

WIDTH = 100


def kept_answers() -> dict[str, Found]:
    """Return the exercises of which an answer is kept: each was right when it was kept."""
    return {name: Found("right") for name in kept_files()[0]}


def verified_answers(limits: Limits) -> tuple[dict[str, Found], list[str]]:
    """Check all kept answers again, and return what is found of them, and what went wrong."""
    judged = judge({f"{name}.py": path.read_bytes() for name, path in kept_files()[0].items()}, limits)
    return judged.found, judged.notes


def is_right(task: Task, found: Mapping[str, Found]) -> bool:
    """Tell whether all that is written in an exercise's cell is right."""
    return all(name in found and found[name].kind == "right" for name in task.names)


def summary(found: Mapping[str, Found], lessons: Sequence[Lesson]) -> dict[str, Any]:
    """Return the progress as data: lesson by lesson, with the minutes left and the next exercise."""
    rows, following = [], None
    for lesson in lessons:
        left = [task for task in lesson.tasks if not is_right(task, found)]
        right = [name for name in lesson.names if name in found and found[name].kind == "right"]
        rows.append(
            {
                "lesson": lesson.slug,
                "title": lesson.title,
                "right": right,
                "left": [name for name in lesson.names if name not in right],
                "minutes_left": sum(task.minutes for task in left),
            }
        )
        if left and following is None:
            names = [name for name in left[0].names if name not in right]
            following = {"lesson": lesson.slug, "exercises": names, "minutes": left[0].minutes}
    wrong = {name: one.mistake for name, one in found.items() if one.kind not in ("right", "unfinished")}
    return {"lessons": rows, "next": following, "not_right": wrong}


def student_text(progress: Mapping[str, Any]) -> str:
    """Return the progress as text."""
    rows = progress["lessons"]
    right, left = (sum(len(row[key]) for row in rows) for key in ("right", "left"))
    lines = []
    for row in rows:
        count = f"{len(row['right'])} of {len(row['right']) + len(row['left'])}"
        todo = textwrap.shorten(", ".join(row["left"]), WIDTH - 52, placeholder=" ...")
        title = textwrap.shorten(row["title"].partition(":")[0], 22, placeholder=" ...")
        lines.append([row["lesson"][:2], title, count, row["minutes_left"] or "–", todo or "all right"])
    text = [f"{right} of {right + left} exercises are right.", ""]
    text += [str(table(lines, ["", "lesson", "right", "minutes left", "to do"])), ""]
    text += [f"{name} does not count: {why}" for name, why in progress["not_right"].items()]
    return "\n".join([*text, next_text(progress)])


def next_text(progress: Mapping[str, Any]) -> str:
    """Say which exercise comes next, and how long everything that is left takes."""
    following = progress["next"]
    if not following:
        return "All exercises are right."
    names = " and ".join(following["exercises"])
    took = minutes(60 * sum(row["minutes_left"] for row in progress["lessons"]))
    place = f"notebooks/{following['lesson']}.ipynb"
    return f"All that is left: {took}.\nNext: {names}, in {place} ({following['minutes']} minutes)."


def export(path: Path) -> int:
    """Write all kept answers into a zip for the teacher, and return how many."""
    files = kept_files()[0]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in sorted(files.items()):
            archive.write(file, f"answers/{name}.py")
    return len(files)


def where() -> str:
    """Say where kept answers are looked for."""
    chosen = os.environ.get("VIT_COURSE_ANSWERS")
    place = (
        chosen
        or "the folder answers, and where that cannot be written in vit-course-answers in your home folder"
    )
    return f"Right answers of notebooks are kept in {place}."
