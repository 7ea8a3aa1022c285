"""Write the appendices of the course: glossary, shape card, paper map and teaching notes, in `lessons/appendices/`.

    python lessons/appendices.py            write the four pages
    python lessons/appendices.py --check    change nothing; say what is stale, and how to mend it

Each page has a module of its own. What a page says about the lessons is computed from them, so an appendix becomes
stale when a lesson changes. What is written by hand stands in `glossary.yaml` and `teaching.yaml`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from build import ROOT, Course, LessonError, read_course, short_diff
from glossary import glossary_page
from paper_map import paper_map_page
from shape_card import shape_card_page
from teaching_notes import teaching_notes_page

FOLDER = Path("lessons", "appendices")
PAGES = {
    "glossary.md": glossary_page,
    "shape_card.md": shape_card_page,
    "paper_map.md": paper_map_page,
    "teaching_notes.md": teaching_notes_page,
}
COMMAND = "python lessons/appendices.py"
NOTICE = f"<!-- Written by `{COMMAND}`: edit what it reads, not this page. -->\n\n"


def generate(course: Course) -> dict[str, str]:
    """Return what the appendices of a course should hold, by the names of their files."""
    return {(FOLDER / name).as_posix(): NOTICE + page(course) for name, page in PAGES.items()}


def write(root: Path) -> list[str]:
    """Write the appendices; return the names of those that have changed."""
    changed = []
    for name, text in generate(read_course(root)).items():
        path = root / name
        if not path.is_file() or path.read_bytes() != text.encode():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode())
            changed.append(name)
    return changed


def check(root: Path) -> list[str]:
    """Return one message for every appendix that is not what it should be, and how to mend it."""
    messages = []
    for name, text in generate(read_course(root)).items():
        stored = (root / name).read_bytes() if (root / name).is_file() else None
        if stored is None:
            messages.append(f"{name} is missing: run `{COMMAND}`")
        elif stored != text.encode():
            messages.append(f"{name} is stale: run `{COMMAND}`{short_diff(stored.decode(), text)}")
    return messages


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing; say what is stale")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            messages = check(root)
            print("\n".join(messages) or "every appendix is what the course says")
            return 1 if messages else 0
        for name in write(root):
            print(f"wrote {name}")
    except LessonError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
