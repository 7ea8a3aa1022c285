"""How far everyone is: `python -m vit_classroom progress`, for a student and, with `--class FOLDER`, for a teacher.

Nothing that a student hands in is run or unpacked. `handed_in` reads zips, folders and notebooks, `verdicts` takes
from them what `check` wrote down, and `classes` makes the table; `student` shows one's own. `command` is what the door
opens.
"""
