"""The glossary: every term of the course in English and Korean, and the lessons in which to read about it.

Terms, meanings and word forms are written in `docs/glossary.yaml`. Where a term first appears, and
where it appears most often, is counted in the prose of the lessons. `build` writes the page.
"""

import re
from dataclasses import dataclass, fields
from pathlib import Path

from authoring.notebooks.course import Course, LessonError
from authoring.site.pages import lesson_link, prose, read_yaml, table

SOURCE = Path("docs", "glossary.yaml")
PAGE = """\
# Glossary

This page defines every term of the course, and gives the word that Korean texts on deep learning use. The last column
links the lesson in which the term first appears. If another lesson uses the term most often, a second link leads to
that lesson. The list at the end has the same terms in the order of the Korean alphabet.

{terms}

## Korean to English

{korean}
"""


@dataclass(frozen=True)
class Term:
    """One entry: the forms are the words by which the term is found in the lessons, plurals in -s or -es included."""

    term: str
    korean: str
    meaning: str
    forms: list[str]
    start: str = "00"  # in the file "from": the lesson before which the term is left out

    def pattern(self) -> re.Pattern:
        """Return an expression that finds the term; a form with a capital letter is found in this spelling alone."""
        spelled = [form for form in self.forms if form != form.lower()]
        loose = [form for form in self.forms if form == form.lower()]
        groups = [(prefix, forms) for prefix, forms in (("?:", spelled), ("?i:", loose)) if forms]
        either = "|".join(f"({prefix}{'|'.join(map(re.escape, forms))})" for prefix, forms in groups)
        either = either.replace(r"\ ", r"\s+")  # the words of a form may stand on two lines
        return re.compile(rf"(?<!\w)(?:{either})(?:s|es)?(?!\w)")


def glossary_page(course: Course) -> str:
    """Return the page: the terms that belong to the lessons that are there."""
    numbers = {lesson.number for lesson in course.lessons}
    terms = [term for term in read_terms(course.root) if term.start == "00" or term.start in numbers]
    rows = [[f"**{term.term}**", term.korean, term.meaning, where(course, term)] for term in terms]
    korean = sorted((term.korean, term.term) for term in terms)
    return PAGE.format(
        terms=table(["term", "Korean", "meaning", "lessons"], rows),
        korean=" · ".join(f"{word}: {term}" for word, term in korean),
    )


def read_terms(root: Path) -> list[Term]:
    """Read the entries, and insist that they are complete, sorted, and different from each other."""
    names, terms = [field.name for field in fields(Term)], []
    for entry in read_yaml(root / SOURCE):
        name = entry.get("term", entry)
        entry = {"start" if key == "from" else key: value for key, value in entry.items()}
        missing = [key for key in names[:-1] if not entry.get(key)]
        if missing or entry.keys() - set(names) or not isinstance(entry["forms"], list):
            raise LessonError(
                f"{SOURCE}: {name!r} needs {', '.join(names[:-1])} (a list), and at most `from`"
            )
        terms.append(Term(**entry))
    keys = [term.term.casefold() for term in terms]
    for before, after in zip(keys, keys[1:], strict=False):
        if before >= after:
            raise LessonError(
                f"{SOURCE}: {after!r} is twice there or not in its place: it follows {before!r}"
            )
    return terms


def where(course: Course, term: Term) -> str:
    """Link the lesson where a term first appears and, if it is another, the one that uses it most often.

    Raises:
        LessonError: if it appears in no lesson.
    """
    uses = count_uses(course, term)
    if not uses:
        raise LessonError(f"{SOURCE}: {term.term!r} is in no lesson; looked for {', '.join(term.forms)}")
    links = {lesson.number: lesson_link(lesson) for lesson in course.lessons}
    return ", ".join(links[number] for number in dict.fromkeys([min(uses), max(uses, key=uses.get)]))


def count_uses(course: Course, term: Term) -> dict[str, int]:
    """Count how often each lesson, by its number, uses a term: prose alone, and only lessons that use it."""
    pattern = term.pattern()
    counts = {lesson.number: len(pattern.findall(prose(lesson))) for lesson in course.lessons}
    return {number: count for number, count in counts.items() if count}
