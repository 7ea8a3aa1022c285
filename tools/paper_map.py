"""The paper map: where in the course each section, equation, table and figure of the ViT paper is treated.

The references are found in the docstrings of `vit_course/*.py` and in the prose of the lessons. Sections that a lesson
numbers for itself have no point in their number, so "section 3.2" is the paper's and "section 3" is the lesson's own.
References to other papers are left out. `appendices` writes the page.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from build import Course, LessonError
from page_parts import lesson_link, prose, table

PLACES = {
    "section 1": "Introduction",
    "section 2": "Related work",
    "section 3": "The method",
    "section 3.1": "The Vision Transformer: patches, CLS token, positions, encoder, head; the hybrid",
    "figure 1": "The model as a picture",
    "equation 1": "Patch tokens, CLS token and positions make z_0",
    "equation 2": "Attention, with its norm and its residual",
    "equation 3": "MLP, with its norm and its residual",
    "equation 4": "The final norm; the CLS token speaks for the image",
    "section 3.2": "Fine-tuning: a new head, larger pictures, interpolated positions",
    "section 4": "Experiments",
    "section 4.1": "Setup: data, model sizes, training, what is measured",
    "table 1": "The sizes Base, Large and Huge",
    "section 4.2": "The largest models against the best ResNets",
    "table 2": "The main result: accuracy and cost of pre-training",
    "figure 2": "The 19 tasks of VTAB",
    "section 4.3": "How much data the pre-training needs",
    "figure 3": "Accuracy over the size of the pre-training data",
    "figure 4": "Few-shot accuracy over the size of the pre-training data",
    "section 4.4": "Accuracy over the compute of pre-training: ViT, hybrid, ResNet",
    "figure 5": "Accuracy over compute",
    "section 4.5": "What the model has learned inside",
    "figure 6": "What the CLS token attends to, by rollout",
    "figure 7": "Filters, similarity of positions, attention distance",
    "section 4.6": "First steps of self-supervision",
    "section 5": "Conclusion",
    "appendix A": "Multi-head self-attention",
    "equation 5": "Queries, keys and values",
    "equation 6": "The attention weights",
    "equation 7": "The weighted sum of the values",
    "equation 8": "Heads side by side, and the output projection",
    "appendix B": "Details of the experiments",
    "appendix B.1": "Training",
    "table 3": "Settings of the training",
    "appendix B.1.1": "Fine-tuning",
    "table 4": "Settings of the fine-tuning",
    "appendix B.1.2": "Self-supervision: masked patch prediction",
    "appendix C": "Additional results",
    "table 5": "Accuracy after pre-training on three data sets",
    "table 6": "The numbers behind Figure 5",
    "appendix D": "Additional analyses",
    "appendix D.1": "SGD against Adam for ResNets",
    "table 7": "SGD against Adam: the numbers",
    "appendix D.2": "The shape of the Transformer: depth, width, patch size",
    "figure 8": "Depth, width, patch size: accuracy over compute",
    "appendix D.3": "CLS token against average pooling",
    "figure 9": "CLS token against average pooling, over learning rates",
    "appendix D.4": "Kinds of positions",
    "table 8": "Kinds of positions: the numbers",
    "figure 10": "Similarity of positions after other trainings",
    "appendix D.5": "Cost in practice: speed and memory",
    "appendix D.6": "Axial attention",
    "appendix D.7": "Attention distance",
    "appendix D.8": "Attention maps by rollout",
    "appendix D.9": "ObjectNet",
    "appendix D.10": "VTAB task by task",
}
"""The paper's parts in its own order; the titles are ours."""

MODEL = ("patches", "embeddings", "attention", "encoder", "vit")
NUMBER = r"(?:[A-D](?:\.\d+)+|\d+(?:\.\d+)*)"
REFERENCE = re.compile(
    r"\b(?P<kind>[Ee]q(?:uations?|\.)|[Ss]ections?|Tables?|Figures?|[Aa]ppendi(?:x|ces))\s+"
    rf"(?P<numbers>{NUMBER}(?:(?:,? and |, | to |-){NUMBER})*)"
    r"|\b[Aa]ppendix\s+(?P<letter>[A-D])\b"
    r"|\b(?P<bare>[A-D](?:\.\d+)+)\b"
)
SENTENCE_END = re.compile(r"(?<=[.!?)])(?<!al\.)(?<!eq\.)\s+(?=[A-Z*])|\n\s*\n|\n\s*[-|] ")
CITATION = re.compile(
    r"(?P<ours>Dosovitskiy|(?<![Ii]ts )(?<!their )\bpaper)"
    r"|\b(?:[Ii]ts|their) paper|\b[A-Z]\w+(?: et al\.|,? and [A-Z]\w+)(?=[^.;]*\b(?:19|20)\d\d\b)"
)
"""Whose sections are meant: those of the paper cited last, in the same sentence."""

PAGE = """\
# Where the paper is in the course

The course follows Dosovitskiy et al., *An Image is Worth 16x16 Words* (ICLR 2021, arXiv 2010.11929). This page goes
through the paper in its order: which lesson speaks of a part, and which module, function or class of `vit_course` has
to do with it. The titles are ours.

{places}

Named nowhere in the course: {left_out}.
"""


@dataclass
class Uses:
    """Who names one part of the paper: lessons, as links, and code, as "module" or "module:definition"."""

    lessons: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)


def paper_map_page(course: Course) -> str:
    """Return the page: one row for each part of the paper that the course names."""
    uses = find_uses(course)
    rows = [
        [spelled(place), title, ", ".join(uses[place].lessons), code_links(uses[place].code)]
        for place, title in PLACES.items()
        if place in uses
    ]
    left_out = [place for place in PLACES if place not in uses and is_undivided_section(place)]
    return PAGE.format(
        places=table(["paper", "what", "lessons", "code"], rows), left_out=", ".join(left_out) or "nothing"
    )


def is_undivided_section(place: str) -> bool:
    """Tell whether a part of the paper is a section or appendix that has no smaller ones in it."""
    divided = any(other.startswith(f"{place}.") for other in PLACES)
    return place.startswith(("section", "appendix")) and not divided


def spelled(place: str) -> str:
    """Write a part of the paper as the paper does: "Table 8", "equation 1"."""
    return place.capitalize() if place.startswith(("table", "figure")) else place


def code_links(labels: list[str]) -> str:
    """Link the code that names a part of the paper. A module is left out where its definitions are named."""
    modules = {label.partition(":")[0] for label in labels if ":" in label}
    shown = [label for label in labels if label not in modules]
    return ", ".join(f"[`{label}`](../../vit_course/{label.partition(':')[0]}.py)" for label in shown)


def find_uses(course: Course) -> dict[str, Uses]:
    """Find who names which part of the paper.

    Raises:
        LessonError: if somebody names a part that the paper does not have.
    """
    uses: dict[str, Uses] = defaultdict(Uses)
    texts = [(lesson_link(lesson), prose(lesson), "lessons") for lesson in course.lessons]
    texts += [(label, text, "code") for label, text in docstrings(course)]
    for source, text, kind in texts:
        for place in find_places(text):
            if place not in PLACES:
                raise LessonError(
                    f"{source}: the paper has no {place}; mend the text, or PLACES in paper_map.py"
                )
            sources = getattr(uses[place], kind)
            if source not in sources:
                sources.append(source)
    return uses


def find_places(text: str) -> list[str]:
    """Return the parts of the paper that a text names, each as a key of `PLACES`, in the order of the text."""
    found = []
    for sentence in (" ".join(part.split()) for part in SENTENCE_END.split(text)):
        for match in REFERENCE.finditer(sentence):
            cited = list(CITATION.finditer(sentence, 0, match.start()))
            if cited and not cited[-1]["ours"]:
                continue
            by_name = bool(cited) and cited[-1][0] == "Dosovitskiy"
            numbers = match["numbers"] or match["letter"] or match["bare"]
            places = (place_of(match["kind"] or "appendix", number, by_name) for number in expand(numbers))
            found += filter(None, places)
    return found


def place_of(kind: str, number: str, by_name: bool) -> str | None:
    """Return the key of one reference, or None for a section that a lesson numbers for itself.

    The paper's sections have a point in their number, unless the sentence cites the paper by its author's name.
    """
    if number[0] in "ABCD":
        return f"appendix {number}"
    if kind.lower().startswith("section"):
        return f"section {number}" if "." in number or by_name else None
    return f"{'equation' if kind.lower().startswith('eq') else kind.lower().rstrip('s')} {number}"


def expand(numbers: str) -> Iterator[str]:
    """Write out a list of numbers: "1 to 4" is 1, 2, 3, 4, "4.2 to 4.4" is 4.2, 4.3, 4.4, "2 and 3" is 2, 3."""
    parts = re.split(r"(,? and |, | to |-)", numbers)
    yield parts[0]
    for before, joint, after in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
        if joint in (" to ", "-"):
            head, start, stop = before.rpartition(".")[0], last_number(before), last_number(after)
            yield from (f"{head}.{number}".lstrip(".") for number in range(start + 1, stop))
        yield after


def last_number(text: str) -> int:
    """Return the last number of "4.2": 2."""
    return int(text.rpartition(".")[2])


def docstrings(course: Course) -> Iterator[tuple[str, str]]:
    """Yield the docstrings of the package, each with its "module" or "module:definition", the model's parts first."""
    paths = {path.stem: path for path in sorted((course.root / "vit_course").glob("*.py"))}
    for module in [*filter(paths.get, MODEL), *(module for module in paths if module not in MODEL)]:
        tree = ast.parse(paths[module].read_text(encoding="utf-8"))
        yield module, ast.get_docstring(tree) or ""
        for label, text in definitions(tree.body):
            yield f"{module}:{label}", text


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and docstring of what is defined in a body, and of public methods."""
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if not node.name.startswith("_"):
                yield prefix + node.name, ast.get_docstring(node) or ""
            if isinstance(node, ast.ClassDef):
                yield from definitions(node.body, f"{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(following.value, ast.Constant) and isinstance(following.value.value, str):
                yield prefix + ast.unparse(target), following.value.value
