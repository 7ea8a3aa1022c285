"""The exercise checks: `patchify = check(patchify)` is the last line of an exercise in a notebook.

`core` compares an answer with the finished version and words the verdict; `lessonNN` holds what the checks of
one lesson try and which mistakes they know by name; `answers` keeps right answers for the model of lesson 06.
"""

import importlib
import pkgutil

from vit_course.checks.answers import use_my_answers
from vit_course.checks.core import EXERCISES, CheckFailed, Verdict, check, diagnose

for _module in pkgutil.iter_modules(__path__):
    if _module.name.startswith("lesson"):
        importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["EXERCISES", "CheckFailed", "Verdict", "check", "diagnose", "use_my_answers"]
