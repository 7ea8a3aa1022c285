"""What there is to do: the exercises of every lesson with their minutes, read from the lessons' text."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from vit_classroom.paths import LESSONS

CELL = re.compile(r"^# %% (.*exercise=.*)$", re.MULTILINE)
OPTION = re.compile(r'(\w+)=(?:"([^"]*)"|(\d+))')
TITLE = re.compile(r"^# title: *[\"']?(.*?)[\"']?$", re.MULTILINE)


@dataclass(frozen=True)
class Task:
    """One exercise cell: the names that are written in it, its minutes, and its points, as many as its difficulty."""

    names: tuple[str, ...]
    minutes: int
    points: int = 1


@dataclass(frozen=True)
class Lesson:
    """A lesson by the name of its folder, with what is to be written in it."""

    slug: str
    title: str
    tasks: tuple[Task, ...]

    @property
    def number(self) -> str:
        """The two digits that the lesson's files begin with."""
        return self.slug[:2]

    @property
    def names(self) -> list[str]:
        """The exercises of the lesson, in its order."""
        return [name for task in self.tasks for name in task.names]

    def done(self, right: Collection[str]) -> list[Task]:
        """Return the exercises of which everything is right, given the names of what is."""
        return [task for task in self.tasks if all(name in right for name in task.names)]

    def solved(self, right: Collection[str]) -> int:
        """Count the exercises of which everything is right, given the names of what is."""
        return len(self.done(right))

    @property
    def points(self) -> int:
        """The points of all its exercises."""
        return sum(task.points for task in self.tasks)


def number_of_checks(lessons: Sequence[Lesson]) -> str:
    """Say how many functions and classes the exercises ask for, if it is more than one each; "" if it is not."""
    tasks = [task for lesson in lessons for task in lesson.tasks]
    names = sum(len(task.names) for task in tasks)
    several = sum(len(task.names) > 1 for task in tasks)
    if not several:
        return ""
    return f"{several} exercises ask for two functions, so there are {names} checks."


def exercise_names(option: str) -> list[str]:
    """Return the exercises of a cell: of "vit_course.a:f, vit_course.b:Class.method", `f` and `Class`."""
    return [reference.partition(":")[2].strip().partition(".")[0] for reference in option.split(",")]


def read_lessons(folder: Path = LESSONS) -> list[Lesson]:
    """Read all lessons that have exercises, in their order."""
    lessons = []
    for path in sorted(folder.glob("[0-9][0-9]_*/lesson.py")):
        text = path.read_text(encoding="utf-8")
        tasks = tuple(
            Task(
                tuple(exercise_names(cell["exercise"])),
                int(cell.get("minutes", 0)),
                int(cell.get("difficulty", 1)),
            )
            for cell in exercise_cells(text)
        )
        title = TITLE.search(text)
        if tasks:
            lessons.append(Lesson(path.parent.name, title[1] if title else path.parent.name, tasks))
    return lessons


def exercise_cells(text: str) -> list[dict[str, str]]:
    """Return the options of all exercise cells in the text of a lesson."""
    return [
        {key: quoted or digits for key, quoted, digits in reversed(OPTION.findall(line))}
        for line in CELL.findall(text)
    ]
