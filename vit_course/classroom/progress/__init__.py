"""Who is how far: `python -m vit_course progress`, for a student and, with `--class FOLDER`, for a teacher.

`tasks` reads from the lessons what there is to do. `student` shows one's own kept answers. `handed_in` reads what
students gave to a teacher, without running or unpacking any of it; `extract` finds the answers in a notebook; `judge`
checks them in a process of its own, which `confine` has limited; `classes` makes the table of a class. `command` is
what the door opens.
"""
