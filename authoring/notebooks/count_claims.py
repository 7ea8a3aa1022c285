"""Which sentences about a result have a claim, and which have none.

python -m authoring.notebooks.count_claims           count the claims of each lesson
python -m authoring.notebooks.count_claims --list    list also the sentences about a result that may need one
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence

from authoring.notebooks.claims import ALWAYS, SENTENCE, claims_of
from authoring.notebooks.course import ROOT, read_course
from authoring.site.pages import table

STRONG = re.compile(
    r"\b(more|less|best|most|smallest|only|all|none|never|stands? out|pulls? apart|pulled apart)\b",
    re.IGNORECASE,
)


def unclaimed(lesson) -> Iterator[tuple[int, str]]:
    """Yield line and text of the sentences of a lesson that say much about what the cell before them shows."""
    for before, cell in zip(lesson.cells, lesson.cells[1:], strict=False):
        about_a_result = before.kind == "code" and not before.references and cell.kind == "markdown"
        if about_a_result and not cell.question and not claims_of(cell.metadata):
            for sentence in SENTENCE.split(" ".join(cell.source.partition("\n## ")[0].split())):
                if STRONG.search(sentence) and not sentence.endswith("?"):
                    yield cell.line, sentence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("numbers", nargs="*", metavar="NN", help="lessons by number; without, all")
    parser.add_argument("--list", action="store_true", help="list sentences about a result without a claim")
    options = parser.parse_args(arguments)
    rows = []
    for lesson in read_course(ROOT).select(options.numbers):
        claims = [cell for cell in lesson.cells for _ in claims_of(cell.metadata)]
        sentences = list(unclaimed(lesson))
        rows.append([lesson.number, len(claims), sum(ALWAYS in c.metadata for c in claims), len(sentences)])
        for line, sentence in sentences if options.list else ():
            print(f"lessons/{lesson.slug}/lesson.py:{line}: {sentence}")
    rows.append(["all", *(sum(row[column] for row in rows) for column in (1, 2, 3))])
    print(table(["lesson", "claims", "of them always", "sentences without"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
