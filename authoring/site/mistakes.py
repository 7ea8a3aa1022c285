"""`docs/mistakes.md`: every mistake that a lesson's table knows by name, with the words that a student gets."""

import yaml

from authoring.notebooks.course import Course

INTRODUCTION = """# Mistakes that the checks know

Each line is what a student is told about one wrong answer; numbers and names of her own answer are added. A check also
explains many mistakes that no table lists, from the numbers that an answer returns.

"""


def mistakes_page(course: Course) -> str:
    """Write the page from the tables `mistakes.yaml` of the lessons."""
    parts = []
    for lesson in course.lessons:
        path = course.root / "lessons" / lesson.slug / "mistakes.yaml"
        if not path.is_file():
            continue
        exercises: dict[str, list[str]] = {}
        for heading, rows in yaml.safe_load(path.read_text(encoding="utf-8")).items():
            exercise = heading.split()[0].partition("/")[0]
            exercises.setdefault(exercise, []).extend(f"- {sentence(words)}" for words in rows)
        parts.append(f"## {lesson.number}. {lesson.title}\n")
        for exercise, lines in exercises.items():
            parts.append("\n".join([f"### `{exercise}`\n", *dict.fromkeys(lines), ""]))
    return INTRODUCTION + "\n".join(parts)


def sentence(words: str) -> str:
    """Begin with a capital letter, unless with code."""
    return words[:1].upper() + words[1:]
