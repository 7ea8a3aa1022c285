"""Write the folder of a new lesson, with one exercise to start from, and the module of its finished code.

    python -m authoring.notebooks.new_lesson 18 video

writes `lessons/18_video/` and `vit_course/extensions/video.py`, and lists both in the pages and the plan that
are kept by hand.
`make lessons` makes notebooks of it at once.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from authoring.notebooks.course import ROOT, LessonError, read_course

SKELETON = Path(__file__).parent / "skeleton"
PARTS = ("lesson.py", "checks.py", "mistakes.yaml", "answers.py", "notes.yaml")


def write_lesson(root: Path, number: str, slug: str) -> list[Path]:
    """Write the files of a new lesson; it belongs to the part of the lesson before it.

    Args:
        root: the folder that holds `lessons/`.
        number: two digits, free.
        slug: a name for folders, modules and notebooks: lower case, words joined by underscores.

    Raises:
        LessonError: if the number is taken, or a name cannot be used.
    """
    before = [lesson for lesson in read_course(root).lessons if lesson.number <= number]
    if len(number) != 2 or not number.isdigit() or not slug.isidentifier() or slug != slug.lower():
        raise LessonError(f"{number} {slug}: give two digits and a name in lower case, such as 18 video")
    if before and before[-1].number == number:
        raise LessonError(f"lesson {number} is there already: lessons/{before[-1].slug}")
    folder, module = root / "lessons" / f"{number}_{slug}", root / "vit_course" / "extensions" / f"{slug}.py"
    if module.exists():
        raise LessonError(f"vit_course/extensions/{slug}.py is there already: choose another name")
    folder.mkdir()
    written = {**{folder / name: name for name in PARTS}, module: "module.py"}
    for path, name in written.items():
        text = (SKELETON / name).read_text(encoding="utf-8")
        part = before[-1].part if before else "I. Build it"
        text = text.replace("SLUG", slug).replace("NN", number).replace("PART", part)
        path.write_bytes(text.encode())
    return [*written, *list_lesson(root, number, slug)]


def list_lesson(root: Path, number: str, slug: str) -> list[Path]:
    """Add a lesson behind the last one of the lists of exercises, links and weeks; return the files."""
    entries = {
        "exercises.md": (r"^\| \d\d \| .+ \|$", f"\n| {number} | `mean_square_of_{slug}` |"),
        "server.md": (r"`\d\d_\w+`(?= ·|$)", f" · `{number}_{slug}`"),
        "teaching.yaml": (r'^    sessions: .*"(?=\]\]$)', f', "{number}"'),  # the longest plan, its last week
    }
    pages = []
    for name, (pattern, entry) in entries.items():
        if (page := root / "docs" / name).is_file():
            text = page.read_text(encoding="utf-8")
            end = [found.end() for found in re.finditer(pattern, text, re.MULTILINE)][-1]
            page.write_bytes(f"{text[:end]}{entry}{text[end:]}".encode())
            pages.append(page)
    return pages


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("number", metavar="NN", help="two digits, such as 18")
    parser.add_argument("slug", help="a short name, such as video")
    options = parser.parse_args(arguments)
    try:
        for path in write_lesson(root, options.number, options.slug):
            print(f"wrote {path.relative_to(root).as_posix()}")
    except LessonError as error:
        print(error, file=sys.stderr)
        return 1
    print("Next: write, then `make lessons` and `make test`.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
