"""Write slides for every lesson into `build/slides/`: `make slides`, or `python -m authoring.teaching.slides [NN ...]`.

What a deck shows, `deck` takes from the lesson. This file makes pages of it that need nothing but their own folder:
reveal.js and MathJax are laid beside them, from their npm packages, so a room without a network can present them.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from authoring.notebooks.callouts import COLOURS
from authoring.notebooks.course import ROOT, Course, Lesson, LessonError, read_course
from authoring.site.npm import lay_beside
from authoring.teaching.deck import LABELS, Slide, make_deck

STYLE = Path(__file__).with_name("slides.css")
PACKAGES = "reveal.js-5.2.1", "mathjax-3.2.2"
BOX_OF = {"idea": "Key idea", "trap": "Trap", "predict": "Predict", "look": "Predict", "exercise": "task"}
PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="reset.css">
<link rel="stylesheet" href="reveal.css">
<link rel="stylesheet" href="slides.css">
</head>
<body>
<div class="reveal"><div class="slides">
{slides}
</div></div>
<script>
window.MathJax = {{tex: {{inlineMath: [["\\\\(", "\\\\)"]], displayMath: [["\\\\[", "\\\\]"]]}},
  svg: {{fontCache: "local"}}}};
</script>
<script src="reveal.js"></script>
<script src="notes.js"></script>
<script src="tex-svg.js"></script>
<script>
Reveal.initialize({{width: 1280, height: 720, margin: 0, center: false, hash: true, controls: false, slideNumber: "c/t",
  transition: "none", plugins: [RevealNotes]}});
</script>
</body>
</html>
"""
INDEX = """\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Slides</title><link rel="stylesheet" href="slides.css"></head>
<body class="index"><h1>Slides</h1>
<ul>
{links}
</ul>
<p>Arrows move on, S opens the notes for the speaker, ? lists the other keys. With ?print-pdf after the address of a
deck, the browser prints it.</p></body>
</html>
"""


# -- pages


def colour_code(code: str, language: str, _: str) -> str:
    """Return code in colours that are part of it, so that it needs no stylesheet."""
    return highlight(
        code, get_lexer_by_name(language or "text"), HtmlFormatter(noclasses=True, nowrap=True, style="xcode")
    )


MARKDOWN = MarkdownIt("commonmark", {"highlight": colour_code}).enable("table")
MARKDOWN.use(
    dollarmath_plugin,  # an equation stands between the signs that MathJax looks for
    renderer=lambda tex, options: (r"\[{}\]" if options["display_mode"] else r"\({}\)").format(escape(tex)),
    double_inline=True,
)


def contrast(colour: tuple[int, int, int]) -> float:
    """Return the contrast of letters of a colour on white, as WCAG 2 computes it: at least 4.5 can be read by all."""
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 1.05 / (sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) + 0.05)


def readable(colour: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return a colour, darkened until letters of it can be read on white."""
    while contrast(colour) < 4.5:
        colour = tuple(int(0.95 * c) for c in colour)
    return colour


def slide_html(slide: Slide) -> str:
    """Return a slide as a section of reveal.js."""
    heading = "h1" if slide.kind == "title" else "h2"
    label, title = LABELS[slide.kind], MARKDOWN.renderInline(slide.title)
    colour = COLOURS.get(BOX_OF.get(slide.kind), COLOURS["Key idea"])
    style = f"--colour: rgb{colour}; --letters: rgb{readable(colour)}"
    for code in (code for code in (slide.text, slide.html) if code.startswith("```")):
        style += f"; --code: {min(30, max(22, 1780 // max(map(len, code.splitlines()))))}px"
    if rows := slide.html.count("<tr") or slide.html.count("\n|") or slide.text.count("\n|"):
        style += f"; --cells: {min(30, 240 // rows)}px"
    lines = [
        f'<section class="{slide.kind}" style="{style}">',
        f'<p class="label">{escape(label)}</p>' * bool(label),
        f"<{heading}>{title}</{heading}>" * bool(title),
        f'<div class="text">{MARKDOWN.render(slide.text)}</div>' * bool(slide.text),
        f'<div class="shown">{MARKDOWN.render(slide.html)}</div>' * bool(slide.html),
    ]
    if slide.notes:
        lines.append(f'<aside class="notes">{"".join(map(MARKDOWN.render, slide.notes))}</aside>')
    return "\n".join([*filter(None, lines), "</section>"])


def deck_html(lesson: Lesson, slides: Sequence[Slide]) -> str:
    """Return the page of a deck."""
    return PAGE.format(
        title=escape(f"{lesson.number} · {lesson.title}"), slides="\n".join(map(slide_html, slides))
    )


# -- files


def write_slides(course: Course, numbers: Sequence[str] = ()) -> list[str]:
    """Write the decks of these lessons (without numbers, all) and the page that lists them; say what was written."""
    folder, lines = course.root / "build" / "slides", []
    folder.mkdir(parents=True, exist_ok=True)
    lay_beside(folder, course.root / "build" / "npm", *PACKAGES)
    shutil.copy(STYLE, folder)
    for lesson in course.select(numbers):
        slides = make_deck(course, lesson)
        (folder / f"{lesson.slug}.html").write_text(deck_html(lesson, slides), encoding="utf-8")
        most = max(slide.words for slide in slides)
        lines.append(f"build/slides/{lesson.slug}.html: {len(slides)} slides, at most {most} words")
    links = [
        f'<li><a href="{lesson.slug}.html">{lesson.number} · {escape(lesson.title)}</a></li>'
        for lesson in course.lessons
    ]
    (folder / "index.html").write_text(INDEX.format(links="\n".join(links)), encoding="utf-8")
    return lines


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description="Write slides for the lessons into build/slides/.")
    parser.add_argument("numbers", nargs="*", metavar="NN", help="lessons by number; without, all")
    options = parser.parse_args(arguments)
    try:
        print("\n".join(write_slides(read_course(root), options.numbers)))
    except LessonError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
