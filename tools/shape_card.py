"""The shape card: every tensor on the way from an image to the logits, in letters and in numbers.

Shapes are read from hooks in a forward pass, parameters and operations are counted in the model. The letters beside
them are evaluated and compared with what was read, so a wrong letter is an error. `appendices` writes the page.
"""

import math
import re
from dataclasses import dataclass

import torch
from build import Course, LessonError
from page_parts import table
from torch import Tensor

from vit_course.attention import attention_flops, split_heads
from vit_course.patches import patchify
from vit_course.vit import VisionTransformer, create_vit, vit_flops

MODELS = {
    "Ti/4, 32x32": ("Ti/4", {}),
    "B/16, 224x224": ("B/16", {"img_size": 224, "num_classes": 1000}),
}
LETTERS = {
    "B": "images in the batch",
    "C": "channels of an image",
    "H": "height of an image in pixels",
    "W": "width of an image in pixels",
    "P": "side of a patch in pixels",
    "N": "patches of an image, N = H·W/P²",
    "D": "width of a token",
    "h": "heads in a block",
    "d": "width of a head, d = D/h",
    "L": "blocks",
    "K": "classes",
}
STAGES = [
    ("images", "", "`images`", "B, C, H, W"),
    ("flat patches", "x_p", "`patchify(images, P)`", "B, N, P·P·C"),
    ("output of the convolution", "", "`patch_embed.proj`", "B, D, H/P, W/P"),
    ("patch tokens", "x_p E", "`patch_embed`", "B, N, D"),
    ("CLS token, a parameter", "x_class", "`cls_token`", "1, 1, D"),
    ("positions, a parameter", "E_pos", "`pos_embed`", "1, N+1, D"),
    ("tokens that enter the first block", "z_0, equation 1", "`embed`", "B, N+1, D"),
    ("in a block: normed tokens", "LN(z)", "`norm1`", "B, N+1, D"),
    ("queries, keys and values in one", "[q, k, v]", "`attn.qkv`", "B, N+1, 3·D"),
    ("queries, in heads (keys and values too)", "q", "`split_heads`", "B, h, N+1, d"),
    ("attention weights", "A", "`return_attention=True`", "B, h, N+1, N+1"),
    ("what the heads found, side by side", "[SA_1; ... SA_h]", "`merge_heads`", "B, N+1, h·d"),
    ("after the output projection", "MSA", "`attn`", "B, N+1, D"),
    ("stream and attention, normed", "LN(z')", "`norm2`", "B, N+1, D"),
    ("hidden layer of the MLP", "", "`mlp.fc1`", "B, N+1, 4·D"),
    ("after the MLP", "MLP", "`mlp`", "B, N+1, D"),
    ("tokens that leave the block", "z_l, equations 2 and 3", "`blocks.0`", "B, N+1, D"),
    ("tokens after L blocks", "z_L", "`blocks`", "B, N+1, D"),
    ("normed at the end", "LN(z_L)", "`norm`", "B, N+1, D"),
    ("the CLS token, read", "y, equation 4", "`pool`", "B, D"),
    ("logits", "", "`head`", "B, K"),
]
"""What, in the paper, in the code, and its shape in letters."""

PARAMETERS = [
    ("patch projection E", r"patch_embed\.", "P·P·C·D + D"),
    ("CLS token", "cls_token", "D"),
    ("positions", "pos_embed", "(N+1)·D"),
    ("L blocks: two norms", r"blocks\.\d+\.norm", "L·4·D"),
    ("L blocks: queries, keys, values", r"blocks\.\d+\.attn\.qkv\.", "L·(3·D·D + 3·D)"),
    ("L blocks: output projection", r"blocks\.\d+\.attn\.proj\.", "L·(D·D + D)"),
    ("L blocks: MLP", r"blocks\.\d+\.mlp\.", "L·(8·D·D + 5·D)"),
    ("final norm", r"norm\.", "2·D"),
    ("head", r"head\.", "D·K + K"),
]
"""What, how the names of its parameters begin, and how many there are in letters."""

OPERATIONS = [
    ("patch projection", "2·N·P·P·C·D"),
    ("L blocks: the four projections of attention", "L·8·(N+1)·D·D"),
    ("L blocks: scores and weighted sums", "L·4·(N+1)·(N+1)·D"),
    ("L blocks: MLP", "L·16·(N+1)·D·D"),
    ("head", "2·D·K"),
]
PAGE = """\
# Shape card

One image on its way through a Vision Transformer: every tensor from the pixels to the logits. The numbers were read
from two models while they ran: `Ti/4` for pictures of 32x32 pixels, and `B/16`, the paper's Base, for 224x224.

## Letters

{letters}

## Tensors

{tensors}

The rows from `norm1` to `blocks.0` happen in every block, L times. N+1 is the number of tokens, T in the lessons.

## Parameters

{parameters}

## Operations

One multiplication and one addition count as 2. Only matrix products are counted, for one image, forward. A training
step costs about three times as much.

{operations}
"""


@dataclass(frozen=True)
class Reading:
    """What was read from one model: values of the letters, shapes of the stages, sums of parameters and operations."""

    letters: dict[str, int]
    shapes: list[tuple[int, ...]]
    parameters: list[int]
    operations: list[int]


def shape_card_page(course: Course) -> str:
    """Return the page. It is the same for every set of lessons."""
    readings = [read_model(name, options) for name, options in MODELS.values()]
    tensors = [
        [what, paper, code, f"({text})", *(shape_text(read.shapes[row], text) for read in readings)]
        for row, (what, paper, code, text) in enumerate(STAGES)
    ]
    return PAGE.format(
        letters=table(["letter", "meaning", *MODELS], [letter_row(letter, readings) for letter in LETTERS]),
        tensors=table(["tensor", "paper", "code", "shape", *MODELS], tensors),
        parameters=count_table(PARAMETERS, [read.parameters for read in readings]),
        operations=count_table(OPERATIONS, [read.operations for read in readings]),
    )


def letter_row(letter: str, readings: list[Reading]) -> list[str]:
    """Return a letter, its meaning, and its value in each model; a batch may have any size."""
    values = ["any" if letter == "B" else f"{read.letters[letter]:,}" for read in readings]
    return [f"**{letter}**", LETTERS[letter], *values]


def count_table(parts: list[tuple[str, ...]], counts: list[list[int]]) -> str:
    """Write a table of counts: a row for each part and one for the sum, a column for each model."""
    totals = [sum(column) for column in counts]
    rows = [
        [part[0], part[-1], *map(share, row, totals)]
        for part, row in zip(parts, zip(*counts, strict=True), strict=True)
    ]
    sums = ["**all**", "", *(f"**{total:,}** ({in_words(total)})" for total in totals)]
    return table(["part", "formula", *MODELS], [*rows, sums])


def read_model(name: str, options: dict) -> Reading:
    """Build a model, send two images through it, and read all that the card shows.

    Raises:
        LessonError: if the letters of a row do not give what was read.
    """
    model = create_vit(name, **options).eval()
    (height, width), channels = model.patch_embed.img_size, model.patch_embed.proj.in_channels
    images = torch.zeros(2, channels, height, width)
    letters = read_letters(model, images)
    shapes = [tuple(tensor.shape) for tensor in trace(model, images).values()]
    parameters = [count_parameters(model, part) for _, part, _ in PARAMETERS]
    for (what, _, _, text), shape in zip(STAGES, shapes, strict=True):
        require(what, text, tuple(evaluate(axis, letters) for axis in text.split(", ")), shape)
    for (what, _, text), count in zip(PARAMETERS, parameters, strict=True):
        require(what, text, evaluate(text, letters), count)
    require("all parameters", "the sum", sum(parameters), sum(p.numel() for p in model.parameters()))
    operations = [evaluate(text, letters) for _, text in OPERATIONS]
    require("all operations", "the sum", sum(operations), vit_flops(model))
    attention = letters["L"] * attention_flops(letters["N"] + 1, letters["D"])
    require("attention", "the sum", operations[1] + operations[2], attention)
    return Reading(letters, shapes, parameters, operations)


def read_letters(model: VisionTransformer, images: Tensor) -> dict[str, int]:
    """Read the value of each letter of the card from a model and its input."""
    heads, dim = model.blocks[0].attn.num_heads, model.norm.normalized_shape[0]
    values = (*images.shape, model.patch_embed.patch_size[0], model.patch_embed.num_patches, dim, heads)
    values += (dim // heads, len(model.blocks), model.head.out_features)
    return dict(zip(LETTERS, values, strict=True))


@torch.no_grad()
def trace(model: VisionTransformer, images: Tensor) -> dict[str, Tensor]:
    """Run a model with hooks and return the tensor of every row of `STAGES`, by its name in the code."""
    block, found = model.blocks[0], {}

    def keep(name: str):
        return lambda module, inputs, output: found.update({name: output})

    def keep_input(name: str):
        return lambda module, inputs: found.update({name: inputs[0]})

    modules = {
        "patch_embed.proj": model.patch_embed.proj,
        "patch_embed": model.patch_embed,
        "embed": model.pos_drop,
        "norm1": block.norm1,
        "attn.qkv": block.attn.qkv,
        "attn": block.attn,
        "norm2": block.norm2,
        "mlp.fc1": block.mlp.fc1,
        "mlp": block.mlp,
        "blocks.0": block,
        "norm": model.norm,
    }
    handles = [module.register_forward_hook(keep(name)) for name, module in modules.items()]
    handles.append(block.attn.proj.register_forward_pre_hook(keep_input("merge_heads")))
    handles.append(model.norm.register_forward_pre_hook(keep_input("blocks")))
    handles.append(model.pre_logits.register_forward_pre_hook(keep_input("pool")))
    logits, attentions = model(images, return_attention=True)
    for handle in handles:
        handle.remove()
    found |= {"images": images, "head": logits, "return_attention=True": attentions[0]}
    found |= {"cls_token": model.cls_token, "pos_embed": model.pos_embed}
    found["patchify(images, P)"] = patchify(images, model.patch_embed.patch_size)
    found["split_heads"] = split_heads(found["attn.qkv"].chunk(3, dim=-1)[0], block.attn.num_heads)
    return {code: found[code.strip("`")] for _, _, code, _ in STAGES}


def count_parameters(model: VisionTransformer, part: str) -> int:
    """Count the parameters whose names begin as a pattern says."""
    return sum(value.numel() for name, value in model.named_parameters() if re.match(part, name))


def evaluate(text: str, letters: dict[str, int]) -> int:
    """Compute a formula in letters, such as "P·P·C·D + D"."""
    value = eval(text.replace("·", "*"), {"__builtins__": {}}, letters)
    return int(value)


def require(what: str, formula: str, computed: object, read: object) -> None:
    """Insist that a formula gives what was read from the model."""
    if computed != read:
        raise LessonError(f"shape card: {what}: {formula} gives {computed}, the model has {read}")


def shape_text(shape: tuple[int, ...], letters: str) -> str:
    """Write a shape in numbers, but the batch as its letter."""
    axes = [str(axis) for axis in shape]
    if letters.startswith("B, "):
        axes[0] = "B"
    return f"({', '.join(axes)})"


def share(count: int, total: int) -> str:
    """Write a count and its share of the total."""
    percent = 100 * count / total
    return f"{count:,} ({percent:.1f} %)" if percent >= 0.05 else f"{count:,} (< 0.1 %)"


def in_words(count: int) -> str:
    """Round a large count to three digits: 5362762 is "5.36 million"."""
    thousands = int(math.log10(count) // 3)
    unit = ["", " thousand", " million", " billion"][thousands]
    return f"{count / 1000**thousands:.3g}{unit}"
