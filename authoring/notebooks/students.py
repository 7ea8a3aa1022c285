"""Write the students' notebooks as they are given out: `python -m authoring.notebooks.students FOLDER`.

`python -m vit_classroom update` compares a student's notebooks with these, to find what the student has written.
"""

import sys
from pathlib import Path

from authoring.notebooks.build import file_text
from authoring.notebooks.course import ROOT, read_course
from authoring.notebooks.notebooks import make_notebook


def main(folder: Path) -> int:
    """Write the notebooks of all lessons into a folder; return the exit status."""
    course = read_course(ROOT)
    for lesson in course.lessons:
        text = file_text(make_notebook(course, lesson, "notebooks"))
        (folder / f"{lesson.slug}.ipynb").write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
