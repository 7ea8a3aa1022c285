"""The box of a verdict: HTML that reads in light and dark pages, and without its styles, as on GitHub, too."""

import re
from html import escape

LABELS = {
    "right": "right",
    "unfinished": "not written yet",
    "wrong": "not right yet",
    "stopped": "not finished",
    "unknown": "not an exercise",
}
SIGNS = {"right": "✓", "unfinished": "✎", "wrong": "✗", "stopped": "↻", "unknown": "?"}
COLOURS = {
    "right": (0, 120, 85),
    "unfinished": (0, 98, 155),
    "wrong": (178, 68, 0),
    "stopped": (96, 96, 96),
    "unknown": (96, 96, 96),
}
"""White letters on them have a contrast of at least 5; at an eighth they tint the box."""
MONO = (
    "margin: .2em 0; padding: .3em .6em; white-space: pre; overflow-x: auto; font-family: monospace; color: inherit; "
    "background: rgba(128, 128, 128, .14); border-radius: 3px"
)
CELL = "text-align: left; vertical-align: top; padding: .2em 1.5em .2em 0; border: 0; background: none; font: inherit"
PAIR = re.compile(
    r"expected\n((?:  .*\n)+)you returned\n((?:  .*(?:\n|\Z))+)"
    r"|expected ([^\s,][^,\n]{0,60}|\([^\n]{0,60}\)), you returned ([^\n]{1,60})(?:\n|\Z)"
)
LINE = re.compile(r"\n?in your line: (.*)(?:\n|\Z)")
MARKED = re.compile(r"`([^`]+)`|(?<![\w*])\*(\w[\w ]*)\*(?![\w*])")


def box_html(kind: str, name: str, message: str, printed: str = "", after: str = "", done: str = "") -> str:
    """Return a verdict as HTML.

    Args:
        kind: one of `LABELS`.
        name: the exercise.
        message: what was found, with `code` and *weight*.
        printed: what the answer printed.
        after: how the lesson goes on.
        done: how many exercises of the lesson are right.
    """
    red, green, blue = COLOURS[kind]
    pill = (
        f"background: rgb({red}, {green}, {blue}); color: #fff; padding: .1em .7em .15em; border-radius: 1em; "
        "margin-right: .3em; white-space: nowrap"
    )
    quiet = f' <small style="float: right; opacity: .8">({done})</small>' if done else ""
    rows = [
        f'<div><b style="{pill}">{SIGNS[kind]} {LABELS[kind]}</b> <code>{escape(name)}</code>{quiet}</div>',
        f'<div style="margin-top: .4em">{verdict_html(message)}</div>',
    ]
    if printed:
        rows.append(f"<div>Your code printed:{mono(printed)}</div>")
    if after:
        rows.append(f'<div style="opacity: .8; margin-top: .3em">{after}</div>')
    box = (
        f"border-left: 5px solid rgb({red}, {green}, {blue}); background: rgba({red}, {green}, {blue}, .13); "
        "padding: .5em .9em; border-radius: 3px; line-height: 1.5; overflow: hidden"
    )
    return f'<div style="{box}">{"".join(rows)}</div>'


def mono(text: str) -> str:
    """Return lines as they are, in letters of one width."""
    return f'<pre style="{MONO}">{escape(text, quote=False)}</pre>'


def verdict_html(text: str) -> str:
    """Return a message as HTML: results side by side, code as code, and the rest as it is written."""
    html, end = "", 0
    blocks = sorted([*PAIR.finditer(text), *LINE.finditer(text)], key=lambda found: found.start())
    for found in blocks:
        if found.start() < end:
            continue
        html += words_html(text[end : found.start()])
        html += line_html(found[1]) if found.re is LINE else pair_html(found)
        end = found.end()
    return html + words_html(text[end:])


def line_html(line: str) -> str:
    """Return a line of the student's code."""
    return f"<div>in your line:{mono(line)}</div>"


def pair_html(found: re.Match) -> str:
    """Return what was expected and what came out, side by side where there is room."""
    expected, yours = (block.removesuffix("\n") for block in found.groups() if block)
    sides = (("expected", expected), ("you returned", yours))
    cells = (f'<td style="{CELL}"><b>{head}</b>{mono(dedent(block))}</td>' for head, block in sides)
    row = f'<tr style="background: none">{"".join(cells)}</tr>'
    return f'<table style="margin: 0; border: 0; color: inherit; font: inherit">{row}</table>'


def dedent(block: str) -> str:
    """Return a block without the two spaces before each line."""
    return "\n".join(line.removeprefix("  ") for line in block.split("\n"))


def words_html(text: str) -> str:
    """Return plain words: lines and spaces as they are, `code` as code, *words* with weight in italics."""

    def marked(found: re.Match) -> str:
        return f"<code>{found[1]}</code>" if found[1] else f"<em>{found[2]}</em>"

    lines = escape(text, quote=False).replace("\n", "<br>").replace("  ", "&nbsp; ")
    return MARKED.sub(marked, lines)
