"""What must not be in the finished web book: links to nothing, other hosts, pictures without a text, heavy pages."""

import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

MAX_BYTES = 2_000_000
SEARCHED = ("attention", "patch")
"""Words that a search must find."""
FOREIGN = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
FOREIGN_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^)'\"\s]+)", re.IGNORECASE)


class Page(HTMLParser):
    """What a page refers to: the targets of its links, the files that it loads, its anchors, its pictures."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = FOREIGN_STYLE.findall(text)
        self.without_alt: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Note what a tag refers to."""
        found = dict(attrs)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.loaded += [found["src"]] if found.get("src") else []
        if found.get("href"):
            is_file = tag == "link" and found.get("rel") in ("stylesheet", "preload", "icon")
            (self.loaded if is_file else self.links).append(found["href"])
        if tag == "img" and not (found.get("alt") or "").strip():
            self.without_alt.append(found.get("src", "")[:80])


def find_faults(folder: Path) -> Iterator[str]:
    """Yield each fault of a book, with the page that has it."""
    pages = {
        path.relative_to(folder).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
        if "_static" not in path.parts
    }
    for name, page in pages.items():
        if (size := (folder / name).stat().st_size) > MAX_BYTES:
            yield f"{name}: {size:,} bytes, over {MAX_BYTES:,}"
        yield from (f"{name}: a picture without a text: {src}" for src in page.without_alt)
        yield from (f"{name}: loads from another host: {src}" for src in page.loaded if FOREIGN.match(src))
        broken = (link for link in dict.fromkeys(page.links) if is_broken(folder, pages, name, link))
        yield from (f"{name}: leads nowhere: {link}" for link in broken)
    for path in sorted(folder.rglob("*.css")):
        for address in FOREIGN_STYLE.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(folder).as_posix()}: loads from another host: {address}"
    yield from (f"a search does not find {word!r}" for word in SEARCHED if not is_found(folder, word))


def is_broken(folder: Path, pages: dict[str, Page], home: str, link: str) -> bool:
    """Tell whether a link of a page names a file or an anchor that is not there; addresses of the web are not tried."""
    if re.match(r"[a-z]+:", link):
        return False
    path, _, anchor = unquote(link).partition("#")
    name = (
        posixpath.normpath(posixpath.join(posixpath.dirname(home), path.partition("?")[0])) if path else home
    )
    if name not in pages:
        return not (folder / name).is_file()
    return bool(anchor) and anchor not in pages[name].anchors


def is_found(folder: Path, word: str) -> bool:
    """Tell whether the index of the search has a page for a word, which stands there by its stem."""
    index = (folder / "searchindex.js").read_text(encoding="utf-8")
    terms = json.loads(index[index.index("(") + 1 : index.rindex(")")])["terms"]
    return any(terms[stem] != [] for stem in terms if len(stem) >= 5 and word.startswith(stem))
