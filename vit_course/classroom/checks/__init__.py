"""The exercise checks: `patchify = check(patchify)` is the last line of an exercise in a notebook.

`registry` finds the check of an exercise in its lesson's folder; `compare` compares an answer with the finished version
and words the verdict; `kept` keeps right answers for the model of lesson 06.
"""

from vit_course.classroom.checks.compare import CheckFailed, Verdict, check, diagnose
from vit_course.classroom.checks.kept import use_my_answers
from vit_course.classroom.checks.registry import EXERCISES, lesson_part

__all__ = ["EXERCISES", "CheckFailed", "Verdict", "check", "diagnose", "lesson_part", "use_my_answers"]
