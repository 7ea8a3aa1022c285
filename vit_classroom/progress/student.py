"""A student's own progress: lesson by lesson what is right, the minutes left, and the next exercise."""

import contextlib
import os
import textwrap
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vit_classroom.answer_folder import LOG, kept_files, marks_in, read_log
from vit_classroom.numbers import minutes
from vit_classroom.progress.verdicts import Found, Work, exercises
from vit_classroom.tables import table
from vit_classroom.tasks import Lesson, Task, number_of_checks

WIDTH = 100


def own_verdicts() -> dict[str, Found]:
    """Return what the log says of each exercise."""
    work = Work()
    for mark in marks_in(read_log()):
        work.add(mark)
    return work.found()


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
                "exercises": len(lesson.tasks),
                "solved": lesson.solved(right),
                "minutes_left": sum(task.minutes for task in left),
            }
        )
        if left and following is None:
            names = [name for name in left[0].names if name not in right]
            following = {"lesson": lesson.slug, "exercises": names, "minutes": left[0].minutes}
    wrong = {name: one.mistakes[-1] for name, one in found.items() if one.kind == "wrong"}
    return {
        "lessons": rows,
        "next": following,
        "not_right": wrong,
        "checks": number_of_checks(lessons),
    }


def student_text(progress: Mapping[str, Any]) -> str:
    """Return the progress as text."""
    rows = progress["lessons"]
    solved, all_of_them = (sum(row[key] for row in rows) for key in ("solved", "exercises"))
    lines = []
    for row in rows:
        count = f"{row['solved']} of {row['exercises']}"
        todo = textwrap.shorten(", ".join(row["left"]), WIDTH - 52, placeholder=" ...")
        title = textwrap.shorten(row["title"].partition(":")[0], 22, placeholder=" ...")
        lines.append([row["lesson"][:2], title, count, row["minutes_left"] or "–", todo or "all right"])
    head = f"{solved} of {all_of_them} exercises are right."
    text = [" ".join(filter(None, [head, progress["checks"]])), ""]
    text += [str(table(lines, ["", "lesson", "right", "minutes left", "to do"])), ""]
    for name, said in progress["not_right"].items():
        text += textwrap.wrap(f"{name} is not right yet: {said}", WIDTH, subsequent_indent="  ")
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
    """Write the log of verdicts and all kept answers into a zip for the teacher, and return how many are right.

    Raises:
        OSError: if the file cannot be written.
    """
    files = {name: file for name, file in kept_files()[0].items() if name in exercises()}
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file, such as {path / 'me.zip'}")
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, file in sorted(files.items()):
                archive.write(file, f"answers/{name}.py")
            archive.writestr(f"answers/{LOG}", read_log())
        os.replace(part, path)
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    return sum(one.kind == "right" for one in own_verdicts().values())


def where() -> str:
    """Say where verdicts are looked for."""
    place = os.environ.get("VIT_COURSE_ANSWERS") or (
        "the folder answers, and where that cannot be written in vit-course-answers in your home folder"
    )
    return f"What the checks said is kept in {place}."
