"""In a real kernel: what a student is told of answers of every kind, and what lesson 06 then does with them."""

import json
import os
import re

import nbformat
import pytest
from nbclient import NotebookClient

from vit_classroom.answer_folder import LOG, MIME, cell_hash, read_mark
from vit_classroom.progress.classes import read_class
from vit_classroom.progress.verdicts import Found
from vit_course.training.paths import ROOT

IMPORTS = """import torch
from torch import nn
from einops import rearrange
from vit_classroom import check
from vit_course import attention, patches, embeddings
from vit_course.patches import as_pair, grid_size, PatchEmbed
scale = patches.count_patches(4, 4)"""
SPLIT = """
def split_heads(x, num_heads):
    attention.check_heads(x.shape[-1], num_heads)
    return rearrange(x, "b t (h d) -> b h t d", h=num_heads)
"""
CELLS = {
    "count_patches: a stub above": """
def count_patches(img_size, patch_size):
    raise NotImplementedError

def count_patches(img_size, patch_size):
    rows, columns = grid_size(img_size, patch_size)
    return rows * columns
count_patches = check(count_patches)""",
    "patchify: decorated": """
def plain(function):
    return function

@plain
@torch.no_grad()
def patchify(images, patch_size):
    p, q = as_pair(patch_size)
    _, _, height, width = images.shape
    grid_size((height, width), patch_size)
    return rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=p, q=q)
patchify = check(patchify)""",
    "merge_heads: under %%time": """%%time
def merge_heads(x):
    return rearrange(x, "b h t d -> b t (h d)")
merge_heads = check(merge_heads)""",
    "scaled_dot_product_attention: an import and a constant of infinity": """
import torch
NEG = float("-inf")
def scaled_dot_product_attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    weights = scores.masked_fill(torch.zeros_like(scores, dtype=torch.bool), NEG).softmax(-1)
    return weights @ v, weights
scaled_dot_product_attention = check(scaled_dot_product_attention)""",
    "PatchEmbed: a subclass of the same name": """
class PatchEmbed(nn.Module):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__()
        self.img_size, self.patch_size = as_pair(img_size), as_pair(patch_size)
        self.grid_size = grid_size(img_size, patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.proj = nn.Conv2d(in_chans, embed_dim, self.patch_size, self.patch_size)

class PatchEmbed(PatchEmbed):
    def forward(self, images):
        patches.check_images(images, self.proj.in_channels, self.img_size)
        return self.proj(images).flatten(2).transpose(1, 2)
PatchEmbed = check(PatchEmbed)""",
    "split_heads: through the module": """
def split_heads(x, num_heads):
    return attention.split_heads(x, num_heads)
split_heads = check(split_heads)""",
    "prepend_cls_token: a number that another cell computes": """
def prepend_cls_token(tokens, cls_token):
    if cls_token.shape[-1] != tokens.shape[-1]:
        raise ValueError("another width")
    return torch.cat([scale * cls_token.expand(len(tokens), -1, -1), tokens], dim=1)
prepend_cls_token = check(prepend_cls_token)""",
    "resample_pos_embed: a loop that never ends": """
def resample_pos_embed(pos_embed, old_grid, new_grid, num_prefix_tokens=1, mode="bicubic", antialias=True):
    while True:
        pass
resample_pos_embed = check(resample_pos_embed)""",
}
READ_ONLY = """import os
from pathlib import Path
from vit_classroom import answer_folder
Path("answers of others").touch()  # where a file lies, nobody can write a folder, root neither
os.environ.pop("VIT_COURSE_ANSWERS")
os.environ["HOME"] = os.environ["USERPROFILE"] = str(Path("home").resolve())
answer_folder.ROOT = Path("answers of others").resolve()
"""
CELLS["split_heads, read-only: where the course cannot be written"] = (
    READ_ONLY + SPLIT + "split_heads = check(split_heads)"
)
LESSON_06 = """from vit_classroom.checks import use_my_answers
from vit_course import attention
import torch
use_my_answers()
print(attention.split_heads(torch.zeros(1, 2, 4), 2).shape)"""

LESSONS_06 = ["lesson 06", "lesson 06, read-only"]


def run_book(cells, folder, **environment):
    """Run cells in one kernel and return them with their outputs."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VIT_COURSE_CHECK_SECONDS": "2", **environment}
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(folder)}}).execute(env=environment)
    return book


def ran(cells, folder, **environment):
    """Run cells in one kernel and return the text that each shows."""
    return [
        "".join(out.get("text") or out.get("data", {}).get("text/plain", "") for out in cell.outputs)
        for cell in run_book(cells, folder, **environment).cells
    ]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What is shown of each answer in one kernel, and of lesson 06 in the next."""
    folder = tmp_path_factory.mktemp("course")
    answers = {"VIT_COURSE_ANSWERS": str(folder / "answers")}
    _, *shown = ran([IMPORTS, *CELLS.values()], folder, **answers)
    shown += ran([LESSON_06, READ_ONLY + LESSON_06], folder, **answers)
    return dict(zip([*CELLS, *LESSONS_06], shown, strict=True))


KEPT = r"^\[right\] \w+: your own version is used from here on(?!\nNot kept)"
EXPECTED = {
    "count_patches": KEPT,
    "patchify": KEPT,
    "merge_heads": KEPT,
    "scaled_dot_product_attention": KEPT,
    "PatchEmbed": KEPT,
    "split_heads": r"^\[not written yet\] split_heads: this is the course's finished version, or calls it: .*\n"
    r"\(\d of 4 done in this lesson\)",
    "prepend_cls_token": r"right.*\nNot kept for later lessons: it uses `scale`, which another cell computes",
    "resample_pos_embed": r"not right yet.* still running after 2 seconds.*\nin your line: (pass|while True:)",
    "split_heads, read-only": r"right.*\nKept in .*vit-course-answers, because the folder of the course cannot be wri",
    "lesson 06, read-only": r"Your own parts: split_heads\.\nThe course's: count_patches, .*\ntorch",
    "lesson 06": r"Your own parts: count_patches, patchify, PatchEmbed, scaled_dot_product_attention, merge_heads\.\n"
    r"The course's: unpatchify, .*, Mlp, Block, drop_path\.\ntorch.Size\(\[1, 2, 2, 2\]\)",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", [*CELLS, *LESSONS_06])
def test_in_a_kernel_a_student_is_told_at_once_what_lesson_06_will_do(what, told):
    assert re.search(EXPECTED[what.partition(":")[0]], told[what])


@pytest.mark.parametrize("strict", ["0", "1"])
def test_a_verdict_stands_in_the_output_and_in_the_log_with_the_hash_of_its_cell(strict, tmp_path):
    answers = {"VIT_COURSE_ANSWERS": str(tmp_path / "answers"), "VIT_COURSE_STRICT": strict}
    magic = "%%time\n" + SPLIT + "split_heads = check(split_heads)"
    book = run_book([IMPORTS, magic], tmp_path, **answers)
    found = [out.data[MIME] for out in book.cells[1].outputs if MIME in out.get("data", {})]
    if strict == "1":
        assert not found and not (tmp_path / "answers").exists()
        return
    (made,) = map(read_mark, found)
    assert (made.exercise, made.verdict, made.cell) == ("split_heads", "right", cell_hash(magic))
    assert (tmp_path / "answers" / LOG).read_text(encoding="utf-8") == json.dumps(made.data) + "\n"
    (tmp_path / "class").mkdir()
    nbformat.write(book, tmp_path / "class" / "ada.ipynb")
    (student,) = read_class(tmp_path / "class")
    assert student.found == {"split_heads": Found("right", False, (), 1)}


CONTROLS = """from vit_classroom import plots
plots.slider(lambda side: print(side), side=[4, 8])"""


@pytest.mark.parametrize("wanted", ["", "0"])
def test_a_program_that_runs_a_notebook_meets_no_control(tmp_path, wanted):
    (text,) = ran([CONTROLS], tmp_path, VIT_COURSE_WIDGETS=wanted)
    assert text == "[a control that works when you run the notebook]\n"
