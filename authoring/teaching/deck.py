"""The slides of a lesson, all taken from the lesson, the outputs of its solution and its notes.

A deck opens with the map of the model, follows the core sections of the lesson, and ends with its quiz. It has every
prediction, figure, equation, box, small table and exercise of the core, a wrong answer, and the slides of the lesson's
own `slides.md`, if there is one.
"""

import ast
import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html import escape, unescape
from itertools import takewhile
from pathlib import Path

from authoring.notebooks.callouts import QUOTE, exercise_title, split_task
from authoring.notebooks.claims import SENTENCE
from authoring.notebooks.course import Course, Lesson, LessonCell, LessonError
from authoring.notebooks.minutes import AT_HOME, Section, sections, stored_cells
from authoring.notebooks.quiz import in_order
from authoring.notebooks.stubs import find_definition, module_tree
from authoring.site.model_map import map_file, map_text
from authoring.teaching.teaching_notes import read_notes
from authoring.teaching.wrong_answer_slide import wrong_answer

FEWEST, WORDS = 12, 60
"""A deck has at least so many slides, each of fewer words."""
LABELS = {
    **dict.fromkeys(("title", "equation", "figure", "table", "own"), ""),
    "opening": "Today's question",
    "predict": "Predict",
    "look": "Look",
    "idea": "Key idea",
    "trap": "Trap",
    "exercise": "In pairs",
    "wrong": "What is wrong here?",
    "says": "The check says",
    "quiz": "Check yourself",
    "answer": "Right is",
    "exit": "Before you go",
    "home": "Until next time",
}
"""The kinds of slides, and what stands above the title of each."""
BOXES = {"Predict": "predict", "Key idea": "idea", "Trap": "trap"}
SHOWN = ("predict", "idea", "equation", "figure", "trap", "table")
"""The parts of a section that have a slide of their own."""
KINDS = ("figure", "table", "print", "prose")
"""What may answer a question, the best first."""
NO_CONTENT = ("Check yourself", "Recap", *AT_HOME)
IMAGE = re.compile(r'<img alt="([^"]*)"')
MATH = re.compile(r"\$\$.+?\$\$|\$[^$\n]+\$", re.DOTALL)
SHAPE = re.compile(r"^    (\w+: )?(?:\w+ )?(\((?:[^()]|\([^()]*\))*,(?:[^()]|\([^()]*\))*\))", re.MULTILINE)
PRONOUN = re.compile(r"^(?:\S+ ){0,2}(?:it|its|this|that|these|they|them)\b", re.IGNORECASE)
STYLE = re.compile(r' style="[^"]*"')
LINES, LINE, ROOM_FOR_TITLE = 9, 88, 12
"""Lines of a table or a print that fit on a slide, characters of a line of a print, and words for a title."""


@dataclass(frozen=True)
class Slide:
    """One slide: Markdown, with a picture, a table or a print below it, and notes for the speaker alone."""

    kind: str
    title: str
    text: str = ""
    html: str = ""
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> int:
        """How many words it shows; those of code and tables count too, an equation counts as one."""
        return count_words(f"{LABELS[self.kind]} {self.title} {self.text} {self.html}")


@dataclass
class Part:
    """A piece of a section in its order: prose, a box, an equation, an output, or an exercise."""

    kind: str
    text: str = ""
    html: str = ""
    cell: LessonCell | None = None
    used: bool = field(default=False, compare=False)


def count_words(text: str) -> int:
    """Count what is read as a word: not tags, numbers or single signs; an equation is one."""
    shown = unescape(re.sub(r"<[^>]+>", " ", MATH.sub(" equation ", text)))
    return len(re.findall(r"\S*[^\W\d_]\S*", shown))


def beginning(text: str, room: int) -> str:
    """Return as many whole sentences from the beginning of a text as have no more words than there is room for."""
    kept: list[str] = []
    for sentence in SENTENCE.split(" ".join(text.split())):
        if count_words(" ".join([*kept, sentence])) > room:
            break
        kept.append(sentence)
    return " ".join(kept).removesuffix(":")


# -- the deck


def make_deck(course: Course, lesson: Lesson) -> list[Slide]:
    """Return the slides of a lesson.

    Raises:
        LessonError: if there are too few, or one has too many words: then the lesson has to be fixed, not the deck.
    """
    notes = read_notes(course, lesson)
    first = [title_slide(course, lesson, notes), opening_slide(lesson)]
    last = [*quiz_slides(lesson), home_slide(course, lesson, notes)]
    deck = [*first, *content(course, lesson, notes), *last]
    for slide in deck:
        if slide.words >= WORDS:
            shown = f"{LABELS[slide.kind]}: {slide.title}".removeprefix(": ")
            raise lesson.error(
                1, f"its slide {shown!r} has {slide.words} words; fewer than {WORDS} can be read"
            )
    if len(deck) < FEWEST:
        raise lesson.error(1, f"its deck has {len(deck)} slides; a lecture needs {FEWEST} or more")
    return deck


def title_slide(course: Course, lesson: Lesson, notes: dict) -> Slide:
    """Return the first slide: title, promise and map; its notes are what holds for the whole lesson."""
    picture = ""
    if lesson.map is not None:
        data = base64.b64encode((course.root / map_file(lesson)).read_bytes()).decode()
        alt = re.match(r"!\[([^\]]*)\]", map_text(course, lesson))[1]
        picture = f'<img alt="{alt}" src="data:image/png;base64,{data}">'
    asked = [f"Students ask: {entry['ask']} {entry['answer']}" for entry in notes["questions"]]
    trouble = [f"What goes wrong: {entry}" for entry in notes["trouble"] if not place_of(lesson, entry)]
    return Slide("title", f"{lesson.number} · {lesson.title}", lesson.promise, picture, (*asked, *trouble))


def opening_slide(lesson: Lesson) -> Slide:
    """Return the question that the lesson opens with, and the first words on it."""
    first = sections(lesson)[0]
    said = next((part.text for part in parts(first, {}) if part.kind == "prose"), "")
    return Slide("opening", plain_title(first), beginning(said, 45))


def home_slide(course: Course, lesson: Lesson, notes: dict) -> Slide:
    """Return the last slide: what is left for home, and the next lesson."""
    later = [stop for stop in course.lessons if stop.number > lesson.number]
    following = f"Next: {later[0].number} · {later[0].title}" if later else "This was the last lesson."
    return Slide("home", following, notes["home"])


def quiz_slides(lesson: Lesson) -> Iterator[Slide]:
    """Yield two questions, each with its answer on the next slide, and the last question to take along."""
    asked = []
    for number, question in enumerate(lesson.questions, 1):
        options = list(zip("abcdefgh", in_order(question, lesson.number, number), strict=False))
        lines = [f"({letter}) {option.text}" for letter, option in options]
        shown = Slide("quiz", "", "\n\n".join([question.text, *lines]))
        right = next(
            (line, option.reason) for line, (_, option) in zip(lines, options, strict=True) if option.right
        )
        wrong = tuple(
            f"Not {option.text}: {option.reason}" for option in question.options if not option.right
        )
        if shown.words < WORDS:
            asked.append((shown, Slide("answer", *right, notes=wrong)))
    if not asked:
        raise lesson.error(1, f"no question of its quiz has fewer than {WORDS} words with its options")
    for pair in asked[:-1][:2]:
        yield from pair
    shown, answer = asked[-1]
    yield replace(shown, kind="exit", notes=(f"{answer.title.removesuffix('.')}. {answer.text}",))


# -- what the sections show


def content(course: Course, lesson: Lesson, notes: dict) -> Iterator[Slide]:
    """Yield the slides between the opening and the quiz, in the lesson's order."""
    shown, wrong, exercises = shown_outputs(course, lesson), wrong_answer(course, lesson, notes["dissect"]), 0
    own = own_slides(course, lesson)
    for section in sections(lesson):
        told = section_notes(lesson, section, notes)
        found = parts(section, shown)
        asked = {
            i: prediction(plain_title(section), found, i) for i, p in enumerate(found) if p.kind == "predict"
        }
        for index, part in enumerate(found):
            if part.kind == "exercise":
                exercises += 1
                yield exercise_slide(course, lesson, part.cell, exercises, notes)
                if wrong.exercise in {reference.name for reference in part.cell.references}:
                    yield from wrong_slides(wrong)
            elif in_class(section) and part.kind in SHOWN and not part.used:
                slides = asked.get(index) or show(section, found, index)
                if slides:
                    yield replace(slides[0], notes=(*told, *slides[0].notes))
                    yield from slides[1:]
                    told = ()
        yield from own.pop(section.number, ())
    if own:
        raise LessonError(f"lessons/{lesson.slug}/slides.md: the lesson has no section {min(own)}")


def in_class(section: Section) -> bool:
    """Tell whether a lecture shows what a section contains."""
    return not section.curious and section.title not in NO_CONTENT


def own_slides(course: Course, lesson: Lesson) -> dict[int, list[Slide]]:
    """Return the slides of `slides.md` in the lesson's folder by the section that they follow.

    Each begins with a line `## Title (after section 3)`. Markdown follows, and lines that begin with `Note:` are for
    the speaker. Without the file there are none.
    """
    path = course.root / "lessons" / lesson.slug / "slides.md"
    slides: dict[int, list[Slide]] = {}
    for text in re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.M)[1:] if path.is_file() else ():
        heading, _, body = text.partition("\n")
        place = re.fullmatch(r"(.+) \(after section (\d+)\)", heading.strip())
        if not place:
            raise LessonError(
                f"lessons/{lesson.slug}/slides.md: {heading!r} does not end in (after section N)"
            )
        told = tuple(note.strip() for note in re.findall(r"^Note:(.+)", body, flags=re.M))
        said = re.sub(r"^Note:.+\n?", "", body, flags=re.M).strip()
        slides.setdefault(int(place[2]), []).append(Slide("own", place[1], said, notes=told))
    return slides


def show(section: Section, found: list[Part], index: int) -> list[Slide]:
    """Return the slide of one part that is no question, or none if it does not fit."""
    part, title = found[index], plain_title(section)
    room = WORDS - 1 - count_words(f"{LABELS[part.kind]} {title}")
    after = next((later.text for later in found[index + 1 :] if later.kind == "prose"), "")
    if part.kind == "equation":
        lead = found[index - 1].text if index and found[index - 1].kind == "prose" else ""
        lead = SENTENCE.split(lead)[-1] if lead.endswith(":") else ""
        follow = found[index + 1].text if found[index + 1 :] and found[index + 1].kind == "prose" else ""
        lead = lead if count_words(lead) <= room // 2 else ""
        text = [lead, part.text, beginning(follow, room - count_words(f"{lead} {part.text}"))]
        return [Slide(part.kind, title, "\n\n".join(filter(None, text)))]
    if part.kind in ("idea", "trap"):
        return [Slide(part.kind, title, beginning(part.text, room))]
    if part.kind == "table" and not is_small(part, room):
        return []
    return [Slide(part.kind, title, part.text, part.html, tuple(filter(None, [alt_of(part.html), after])))]


def prediction(title: str, found: list[Part], index: int) -> list[Slide]:
    """Return a question to guess at, with what it asks about: what the lesson shows, or says, last before it.

    On the next slide stands the first figure after it, or else a table or a print.
    """
    room = WORDS - 1 - count_words(f"{LABELS['predict']} {title}")
    asked = Slide("predict", title, beginning(found[index].text, room))
    earlier = "predict" in {part.kind for part in found[:index]}
    before = next((part for part in reversed(found[:index]) if part.kind != "prose"), Part(""))
    if not earlier and before.kind in ("figure", "table") and is_small(before, room - asked.words):
        before.used = True
        asked = replace(asked, html=before.html or before.text)
    elif index and found[index - 1].kind == "prose" and count_words(asked.text) < WORDS // 3:
        lead = SENTENCE.split(found[index - 1].text)[-1]
        if not lead.endswith((":", ")", ").")) and not lead.startswith("(") and not PRONOUN.search(lead):
            asked = replace(asked, text=f"{lead}\n\n{asked.text}")
    # What is shown between the question and the next words on it; or those words, if nothing is shown.
    window = list(takewhile(lambda part: part.kind in ("figure", "table", "print"), found[index + 1 :]))
    window = window or list(takewhile(lambda part: part.kind == "prose", found[index + 1 :]))[:1]
    best = next(
        ([p for p in window if p.kind == kind] for kind in KINDS if kind in {p.kind for p in window}), []
    )
    seen = next((part for part in best if is_small(part, room)), None)
    if seen is None:
        return [asked]
    seen.used = True
    after = [later.text for later in found[found.index(seen) + 1 :] if later.kind == "prose"][:1]
    told = tuple(filter(None, [alt_of(seen.html), *after]))
    return [asked, Slide("look", title, seen.text, seen.html, told)]


def is_small(part: Part, room: int) -> bool:
    """Tell whether an output fits on a slide."""
    if part.kind == "figure":
        return True
    lines = part.html.split("<tr")[1:] or part.text.splitlines()
    fits = part.kind != "print" or max(map(len, lines)) <= LINE
    return fits and len(lines) <= LINES and count_words(part.text + part.html) <= room


def exercise_slide(course: Course, lesson: Lesson, cell: LessonCell, number: int, notes: dict) -> Slide:
    """Return an exercise: its names, task and shapes in the words of its docstrings, its difficulty and minutes."""
    names = [name for reference in cell.references for name in str(reference).split(", ")]
    title = exercise_title(lesson.number, number, cell.references)
    difficulty = "●" * cell.metadata["difficulty"] + "○" * (3 - cell.metadata["difficulty"])
    docs = [docstring_of(course.root, reference) for reference in cell.references]
    lines = [list(shape_lines(doc)) for doc in docs]
    shapes = "\n".join(lines[0] if len(docs) == 1 else (" ".join(map(str.strip, own)) for own in lines))
    room = WORDS - 4 - count_words(f"{LABELS['exercise']} {title} {shapes}")
    shapes = shapes if room > 12 * len(docs) else ""
    room = room if shapes else 44
    tasks = [beginning(doc.split("\n\n")[0], room // len(docs)) or first_sentence(doc) for doc in docs]
    hints = [f"Hint 1: {cell.metadata['hint']}", f"Hint 2: {cell.metadata['hint2']}"]
    trouble = [f"What goes wrong: {entry}" for entry in notes["trouble"] if place_of(lesson, entry) in names]
    text = "\n\n".join([*tasks, f"{difficulty} {cell.metadata['minutes']} minutes"])
    return Slide(
        "exercise", title, text, f"```text\n{shapes}\n```" if shapes else "", notes=(*trouble, *hints)
    )


def docstring_of(root: Path, reference) -> str:
    """Return the docstring of what an exercise asks for, a method's if it asks for one."""
    node = find_definition(module_tree(root, reference.module).body, reference.name, reference.module)
    if len(reference.methods) == 1:
        node = find_definition(node.body, reference.methods[0], reference.name)
    return ast.get_docstring(node) or ""


def first_sentence(doc: str) -> str:
    """Return the first sentence of a docstring."""
    return SENTENCE.split(" ".join(doc.split("\n\n")[0].split()))[0]


def shape_lines(doc: str) -> Iterator[str]:
    """Yield the shapes that a docstring gives, a line each: `q  (B, h, T, d)`, those of results after an arrow."""
    for block, arrow in (("Args", "  "), ("Returns", "→ ")):
        lines = re.search(rf"^{block}:\n((?:    .*\n?)+)", doc, flags=re.MULTILINE)
        for name, shape in SHAPE.findall(lines[1]) if lines else ():
            yield f"{arrow}{name.rstrip(': ')} {shape}".replace("→  ", "→ ")


def wrong_slides(wrong) -> list[Slide]:
    """Return a wrong answer, and what the check says of it."""
    code = f"```python\n{wrong.code}\n```"
    cause = (f"Its cause: {wrong.cause}.",) if wrong.cause else ()
    name = f"`{wrong.exercise}`"
    return [Slide("wrong", name, code, notes=cause), Slide("says", name, wrong.message)]


# -- the parts of a section


def parts(section: Section, shown: dict[int, list[dict]]) -> list[Part]:
    """Cut a section into its parts, in order."""
    found: list[Part] = []
    for cell in section.cells:
        if cell.references:
            found.append(Part("exercise", cell=cell))
        elif cell.kind == "code":
            found += map(output_part, shown.get(cell.line, []))
        elif not cell.question:
            found += text_parts(cell.source)
    return [part for part in found if part.kind]


def text_parts(source: str) -> Iterator[Part]:
    """Cut Markdown into prose, boxes, equations and tables; headings, lists and the text of a task are left out."""
    for block in re.split(r"\n\s*\n", split_task(source)[0]):
        block = block.strip()
        if box := QUOTE.match(block):
            text = re.sub(r"^> ?", "", block, flags=re.MULTILINE)
            yield Part(BOXES[box[1]], " ".join(re.sub(r"^\*\*[^*]+\*\*", "", text).split()))
        elif block.startswith("$$"):
            yield Part("equation", block)
        elif block.startswith("|"):
            yield Part("table", block)
        elif block and not re.match(r"#|[-*] |\d+\. |<|```|!\[|>", block):
            yield Part("prose", " ".join(block.split()))


def output_part(output: dict) -> Part:
    """Turn what a cell shows into a part; a kind that no slide shows is ""."""
    data = output.get("data", {})
    html = "".join(data.get("text/html", ""))
    if "image/png" in data:
        alt = escape("".join(data["text/plain"]))
        return Part("figure", html=f'<img alt="{alt}" src="data:image/png;base64,{data["image/png"]}">')
    if html.startswith("<table"):
        html = STYLE.sub("", html)
        if count_words(html) > WORDS - ROOM_FOR_TITLE:
            html = re.sub(r"<caption>.*?</caption>", "", html)
        return Part("table", html=html)
    text = "".join(output.get("text", "")).rstrip()
    return Part("print" if text else "", f"```text\n{text}\n```" if text else "")


def shown_outputs(course: Course, lesson: Lesson) -> dict[int, list[dict]]:
    """Return the stored outputs of a lesson's code cells by their lines.

    Raises:
        LessonError: if the stored solution has other cells than the lesson.
    """
    cells = stored_cells(course, lesson)
    if not cells:
        raise LessonError(
            f"solutions/{lesson.slug}.ipynb is stale: run `python -m authoring.notebooks.build {lesson.number}`"
        )
    return {line: cell["outputs"] for line, cell in cells.items()}


def alt_of(html: str) -> str:
    """Return the text of a picture for those who cannot see it."""
    image = IMAGE.search(html)
    return unescape(image[1]) if image else ""


def plain_title(section: Section) -> str:
    """Return the title of a section without its number."""
    return re.sub(r"^\d+\. ", "", section.title)


# -- the teacher's notes on a place


def place_of(lesson: Lesson, entry: str) -> str:
    """Return the exercise that a note speaks of, or the number of the section, or ""."""
    for reference in (reference for cell in lesson.cells for reference in cell.references):
        if any(f"`{name}" in entry for name in (reference.name, *reference.methods)):
            return str(reference)
    number = re.search(r"\bsection (\d+)", entry)
    return number[1] if number else ""


def section_notes(lesson: Lesson, section: Section, notes: dict) -> tuple[str, ...]:
    """Return what the notes say of a section."""
    told = [f"What goes wrong: {e}" for e in notes["trouble"] if place_of(lesson, e) == str(section.number)]
    if section.number in notes["skip"]:
        told.append(f"A short course skips this section. {notes['skip'][section.number]}")
    return tuple(told)
