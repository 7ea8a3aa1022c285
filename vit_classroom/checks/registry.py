"""Which exercises there are, and where their checks lie: in the folder of a lesson, loaded when one is asked for."""

import difflib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from vit_classroom.paths import LESSONS
from vit_classroom.tasks import read_lessons


class Exercises(Mapping):
    """All exercises by name. To know the names costs a look at the lessons' text; a check is loaded when it is read."""

    def __init__(self, lessons: Path):
        self.lessons = lessons
        self.loaded: dict[str, Any] = {}

    @cached_property
    def homes(self) -> dict[str, str]:
        """Read from the lessons' text which folder has the check of which exercise.

        Raises:
            ValueError: if two lessons have an exercise of the same name.
        """
        homes: dict[str, str] = {}
        for lesson in read_lessons(self.lessons):
            for name in lesson.names:
                if name in homes:
                    raise ValueError(f"{lesson.slug} and {homes[name]} both have an exercise {name!r}")
                homes[name] = lesson.slug
        return homes

    def __getitem__(self, name: str) -> Any:
        if name not in self.loaded:
            lesson_part(self.homes[name], "checks")
        return self.loaded[name]

    def nearest(self, name: object) -> str:
        """Return the exercise whose name is most like this one, or an empty string."""
        plain = {known.replace("_", "").lower(): known for known in self}
        near = difflib.get_close_matches(str(name).replace("_", "").lower(), plain, n=1)
        return plain[near[0]] if near else ""

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)


EXERCISES = Exercises(LESSONS)


def home(name: str) -> str:
    """Return the module of the finished version of an exercise, or an empty string."""
    return getattr(EXERCISES[name].reference, "__module__", "") if name in EXERCISES else ""


def lesson_part(lesson: str, part: str) -> ModuleType:
    """Load a file of a lesson's folder as a module, once: its "checks" or its "answers".

    Args:
        lesson: name of the folder, or the two digits it begins with.
        part: name of the file, without its ending.

    Raises:
        FileNotFoundError: if there is no such lesson or file.
    """
    for path in sorted(LESSONS.glob(f"{lesson}*/{part}.py")):
        name = f"lessons.{path.parent.name}.{part}"
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, path)
            sys.modules[name] = importlib.util.module_from_spec(spec)
            try:
                spec.loader.exec_module(sys.modules[name])
            except BaseException:  # half a module would be taken for the whole one the next time
                del sys.modules[name]
                raise
        return sys.modules[name]
    raise FileNotFoundError(f"no lesson {lesson} with {part}.py in {LESSONS}")
