"""What must not be in the finished web book and Sphinx does not see: other hosts, and pictures without a text."""

import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

FOREIGN = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
FOREIGN_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^)'\"\s]+)", re.IGNORECASE)


class Page(HTMLParser):
    """The faults of a page, in words."""

    def __init__(self, text: str):
        super().__init__()
        self.faults = [f"loads from another host: {address}" for address in FOREIGN_STYLE.findall(text)]
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Note what is wrong with a tag."""
        found = dict(attrs)
        is_file = tag == "link" and found.get("rel") in ("stylesheet", "preload", "icon")
        loaded = (found.get("href") if is_file else found.get("src")) or ""
        if FOREIGN.match(loaded):
            self.faults.append(f"loads from another host: {loaded}")
        if tag == "img" and not (found.get("alt") or "").strip():
            self.faults.append(f"a picture without a text: {loaded[:80]}")


def find_faults(folder: Path) -> Iterator[str]:
    """Yield each fault of a book, with the file that has it."""
    for path in sorted(folder.rglob("*.html")):
        if "_static" not in path.parts:
            faults = Page(path.read_text(encoding="utf-8")).faults
            yield from (f"{path.relative_to(folder).as_posix()}: {fault}" for fault in faults)
    for path in sorted(folder.rglob("*.css")):
        for address in FOREIGN_STYLE.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(folder).as_posix()}: loads from another host: {address}"
