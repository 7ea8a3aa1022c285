"""The exercise checks: `patchify = check(patchify)` is the last line of an exercise in a notebook.

`registry` finds the check of an exercise in its lesson's folder. A check runs an answer (`outcome`, within a `guard`),
compares it with the finished version (`compare`) and says how they differ (`words`), and why where no known mistake
fits (`explain`, and the files that begin so); `diagnosis` is what was found, and `verdict` shows it. `kept` keeps right
answers as `source`, and `my_answers` builds the model of lesson 06 of them.
"""

from vit_classroom.checks.diagnosis import Verdict, diagnose
from vit_classroom.checks.my_answers import my_answer, parts_in_use, use_my_answers
from vit_classroom.checks.registry import EXERCISES, lesson_part
from vit_classroom.checks.verdict import CheckFailed, check

__all__ = [
    "EXERCISES",
    "CheckFailed",
    "Verdict",
    "check",
    "diagnose",
    "lesson_part",
    "my_answer",
    "parts_in_use",
    "use_my_answers",
]
