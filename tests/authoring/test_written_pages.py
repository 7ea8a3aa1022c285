"""The pages of `docs/` that a person writes: their links lead somewhere, their names exist, their numbers are right."""

import ast
import re
from pathlib import Path

import pytest
import torch

from vit_classroom.checks import EXERCISES
from vit_course.attention import split_heads
from vit_course.patches import patchify
from vit_course.vit import VisionTransformer, create_vit, vit_flops

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(
    path for path in DOCS.glob("*.md") if not path.read_text("utf-8").startswith("<!-- Written by")
)
MODELS = {"Ti/4, 32x32": ("Ti/4", {}), "B/16, 224x224": ("B/16", {"img_size": 224, "num_classes": 1000})}
PARAMETERS = {
    "patch projection E": r"patch_embed\.",
    "CLS token": "cls_token",
    "positions": "pos_embed",
    "L blocks: two norms": r"blocks\.\d+\.norm",
    "L blocks: queries, keys, values": r"blocks\.\d+\.attn\.qkv\.",
    "L blocks: output projection": r"blocks\.\d+\.attn\.proj\.",
    "L blocks: MLP": r"blocks\.\d+\.mlp\.",
    "final norm": r"norm\.",
    "head": r"head\.",
}
"""How the names of the parameters begin that a row of the shape card counts."""


# -- links and names


def broken_links(folder: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere, and the references that it does not define."""
    paths = dict(re.findall(r"^\[([^]]+)\]: (\S+)$", text, re.MULTILINE))
    used = {*re.findall(r"\]\[([^]]+)\]", text), *re.findall(r"\[(\d\d)\](?!:)", text)}
    links = [*re.findall(r"\]\(([^)#]+)\)", text), *paths.values()]
    missing = [link for link in links if "://" not in link and not (folder / link).is_file()]
    return missing + sorted(used - paths.keys()) + sorted(paths.keys() - used)


def unknown_names(folder: Path, text: str) -> list[str]:
    """The names of code on a page, written as [`name`][file], that their file does not define."""
    paths = dict(re.findall(r"^\[([^]]+)\]: (\S+\.py)$", text, re.MULTILINE))
    return [
        f"{key}: {name}"
        for name, key in re.findall(r"\[`([\w.]+)`\]\[(\w+)\]", text)
        if name not in defined_names(folder / paths[key])
    ]


def defined_names(path: Path) -> set[str]:
    """What a file defines, as `name` or `Class.method`, and its own name."""
    found = {path.stem}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        found |= {target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)}
        if name := getattr(node, "name", None) or getattr(getattr(node, "target", None), "id", None):
            found |= {name, *(f"{name}.{getattr(inner, 'name', '')}" for inner in getattr(node, "body", []))}
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_and_every_name_of_code_on_a_written_page_leads_somewhere(path):
    text = path.read_text(encoding="utf-8")
    assert broken_links(path.parent, text) == []
    assert unknown_names(path.parent, text) == []


def test_paper_map_and_shape_card_are_written_by_a_person():
    assert {"paper_map.md", "shape_card.md"} <= {path.name for path in PAGES}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("05_encoder.ipynb", "05_decoder.ipynb", "../notebooks/05_decoder.ipynb"),
        ("[02], [03]", "[02], [33]", "33"),
        ("`patchify`", "`cut`", "patches: cut"),
        ("`VisionTransformer.forward`", "`VisionTransformer.backward`", "vit: VisionTransformer.backward"),
    ],
)
def test_a_link_or_a_name_that_is_gone_is_found(old, new, found):
    text = (DOCS / "paper_map.md").read_text(encoding="utf-8")
    assert old in text
    text = text.replace(old, new)
    assert found in [*broken_links(DOCS, text), *unknown_names(DOCS, text)]


@pytest.mark.parametrize("place", [*(f"equation {number}" for number in range(1, 9)), "Table 1", "Table 8"])
def test_the_paper_map_has_a_lesson_and_code_for(place):
    row = re.search(rf"^\| {place} \|.*$", (DOCS / "paper_map.md").read_text("utf-8"), re.MULTILINE)
    assert row and re.search(r"\[\d\d\]", row[0]) and re.search(r"\]\[\w+\]", row[0])


# -- numbers


def rows(text: str, section: str) -> list[list[str]]:
    """The rows of the table in a section of the card, without its header."""
    part = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def numbers_that_differ(text: str, column: int, model: VisionTransformer) -> list[str]:
    """The rows of the shape card whose number for one model, or whose formula, is not what the model has."""
    letters, shapes = read_letters(model), trace(model)
    found = []
    for letter, *_, value in (row[: column + 1] for row in rows(text, "Letters")):
        expected = "any" if letter == "**B**" else f"{letters[letter.strip('*')]:,}"
        found += [letter] * (value != expected)
    for what, _, code, formula, *values in rows(text, "Tensors"):
        shape = shapes[code.strip("`")]
        axes = [evaluate(axis, letters) for axis in formula.strip("()").split(", ")]
        shown = ", ".join(["B" if formula.startswith("(B") else str(shape[0]), *map(str, shape[1:])])
        found += [what] * (tuple(axes) != shape or values[column - 2] != f"({shown})")
    sizes = {name: value.numel() for name, value in model.named_parameters()}
    counted = {
        what: sum(size for name, size in sizes.items() if re.match(start, name))
        for what, start in PARAMETERS.items()
    }
    found += wrong_counts(rows(text, "Parameters"), column, letters, sum(sizes.values()), counted)
    return found + wrong_counts(rows(text, "Operations"), column, letters, vit_flops(model), {})


def wrong_counts(table: list[list[str]], column: int, letters: dict, total: int, counted: dict) -> list[str]:
    """The rows of a table of counts whose formula, number or share is wrong, and the total if it is."""
    *parts, last = table
    found = [] if last[column] == f"**{total:,}** ({in_words(total)})" else ["all"]
    found += [] if sum(evaluate(row[1], letters) for row in parts) == total else ["the sum"]
    for what, formula, *values in parts:
        count = evaluate(formula, letters)
        percent = 100 * count / total
        share = f"{percent:.1f} %" if percent >= 0.05 else "< 0.1 %"
        right = values[column - 2] == f"{count:,} ({share})" and counted.get(what, count) == count
        found += [] if right else [what]
    return found


def in_words(count: int) -> str:
    """Round a count of millions or billions to three digits: 5362762 is "5.36 million"."""
    return f"{count / 1e9:.3g} billion" if count >= 1e9 else f"{count / 1e6:.3g} million"


def evaluate(formula: str, letters: dict[str, int]) -> int:
    """Compute a formula of the card, such as "P·P·C·D + D"."""
    return int(eval(formula.replace("·", "*"), {"__builtins__": {}}, letters))


def read_letters(model: VisionTransformer) -> dict[str, int]:
    """What the letters of the card stand for in a model, with two images in the batch."""
    patches, dim, heads = model.patch_embed, model.norm.normalized_shape[0], model.blocks[0].attn.num_heads
    (height, width), (side, _) = patches.img_size, patches.patch_size
    sizes = {"B": 2, "C": patches.proj.in_channels, "H": height, "W": width, "P": side}
    sizes |= {"N": patches.num_patches, "D": dim, "h": heads, "d": dim // heads}
    return sizes | {"L": len(model.blocks), "K": model.head.out_features}


@torch.no_grad()
def trace(model: VisionTransformer) -> dict[str, tuple[int, ...]]:
    """Run a model with hooks and return the shape of every tensor of the card, by its name in the code."""
    block, found, letters = model.blocks[0], {}, read_letters(model)
    images = torch.zeros(*(letters[letter] for letter in "BCHW"), device=model.cls_token.device)

    def keep(name: str):
        return lambda module, inputs, output: found.update({name: output})

    def keep_input(name: str):
        return lambda module, inputs: found.update({name: inputs[0]})

    modules = {"patch_embed.proj": model.patch_embed.proj, "patch_embed": model.patch_embed}
    modules |= {"norm1": block.norm1, "attn.qkv": block.attn.qkv, "attn": block.attn, "norm2": block.norm2}
    modules |= {"mlp.fc1": block.mlp.fc1, "mlp": block.mlp, "blocks.0": block, "norm": model.norm}
    handles = [module.register_forward_hook(keep(name)) for name, module in modules.items()]
    inputs = {"embed": block, "merge_heads": block.attn.proj, "blocks": model.norm, "pool": model.head}
    handles += [module.register_forward_pre_hook(keep_input(name)) for name, module in inputs.items()]
    logits, attentions = model(images, return_attention=True)
    for handle in handles:
        handle.remove()
    found |= {"images": images, "head": logits, "return_attention=True": attentions[0]}
    found |= {"cls_token": model.cls_token, "pos_embed": model.pos_embed}
    found["patchify(images, P)"] = patchify(images, model.patch_embed.patch_size)
    found["split_heads"] = split_heads(found["attn.qkv"].chunk(3, dim=-1)[0], block.attn.num_heads)
    tensors = {name: value[0] if isinstance(value, tuple) else value for name, value in found.items()}
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


@pytest.fixture(scope="module", params=enumerate(MODELS.values(), 2), ids=list(MODELS))
def column_and_model(request):
    """The column of a model on the card, and the model without memory for its weights."""
    column, (name, options) = request.param
    with torch.device("meta"):
        return column, create_vit(name, **options).eval()


def test_the_numbers_on_the_shape_card_are_those_of_the_model(column_and_model):
    text = (DOCS / "shape_card.md").read_text(encoding="utf-8")
    assert numbers_that_differ(text, *column_and_model) == []


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("| **d** | width of a head, d = D/h | 64 | 64 |", "| **d** | width of a head | 65 | 65 |", "**d**"),
        ("(B, h, N+1, N+1)", "(B, h, N, N)", "attention weights"),
        ("(B, 64, 48) | (B, 196, 768)", "(B, 48, 64) | (B, 768, 196)", "flat patches"),
        ("(N+1)·D |", "N·D |", "positions"),
        ("384 (< 0.1 %) | 1,536 (", "385 (< 0.1 %) | 1,537 (", "final norm"),
        ("730,215,168** (730 million) | **35,127", "730,215,169** (730 million) | **36,127", "all"),
        ("2·D·K", "3·D·K", "the sum"),
    ],
)
def test_a_wrong_number_on_the_shape_card_is_found(column_and_model, old, new, what):
    text = (DOCS / "shape_card.md").read_text(encoding="utf-8")
    assert old in text
    assert what in numbers_that_differ(text.replace(old, new), *column_and_model)


# -- the list of exercises


def test_the_list_of_exercises_is_that_of_the_lessons_and_lesson_00_promises_nothing_else():
    rows = re.findall(r"^\| (\d\d) \| (.+) \|$", (DOCS / "exercises.md").read_text("utf-8"), re.MULTILINE)
    listed = {(name, lesson) for lesson, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert listed == {(name, folder[:2]) for name, folder in EXERCISES.homes.items()}
    exercises = {number: set(re.findall(r"`(\w+)`", names)) for number, names in rows}
    lesson = (DOCS.parent / "lessons" / "00_start_here" / "lesson.py").read_text("utf-8")
    promised = re.findall(r"^# \| .+ \| (\d\d) \| (.+) \|$", lesson, re.MULTILINE)
    assert {number for number, _ in promised} == {f"0{n}" for n in range(1, 7)}
    for number, names in promised:
        assert set(re.findall(r"`(\w+)`", names)) <= exercises[number]
