"""The exercise checks: `patchify = check(patchify)` is the last line of an exercise in a notebook.

`registry` finds the check of an exercise in its lesson's folder. A check runs an answer (`outcome`), compares it with
the finished version (`compare`) and says how they differ (`words`); `verdict` shows what was found. `kept` keeps right
answers, and `my_answers` builds the model of lesson 06 of them.
"""

from vit_course.classroom.checks.my_answers import use_my_answers
from vit_course.classroom.checks.registry import EXERCISES, lesson_part
from vit_course.classroom.checks.verdict import CheckFailed, Verdict, check, diagnose

__all__ = ["EXERCISES", "CheckFailed", "Verdict", "check", "diagnose", "lesson_part", "use_my_answers"]
