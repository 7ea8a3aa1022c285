"""Keeping answers: the one that was checked is what is written, and what cannot be kept is said at once."""

import importlib
import importlib.util
import itertools
import os
import re
import sys
import textwrap
from pathlib import Path
from unittest.mock import Mock

import nbformat
import pytest
import torch

from vit_classroom import answer_folder
from vit_classroom.checks import (
    EXERCISES,
    check,
    diagnose,
    my_answer,
    parts_in_use,
    saved_answers,
    use_my_answers,
)
from vit_classroom.checks.saved_answers import keep, keep_and_tell
from vit_classroom.checks.source import CannotKeep, standing_alone
from vit_classroom.exhibits import mini_vit
from vit_classroom.tasks import read_lessons
from vit_course import attention, encoder, patches
from vit_course.training import paths

NUMBER = itertools.count()
RIGHT = """
from einops import rearrange

def patchify(images, patch_size):
    p, q = as_pair(patch_size)
    _, _, height, width = images.shape
    grid_size((height, width), patch_size)
    return rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=p, q=q)
"""
USED = "from vit_course.patches import as_pair, grid_size\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for answers, and the model's modules as they were when the test is over."""
    for name in saved_answers.PLACES:
        module = importlib.import_module(name)
        for known in filter(saved_answers.is_of_the_model, EXERCISES):
            if hasattr(module, known):
                monkeypatch.setattr(module, known, getattr(module, known))
    monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path / "answers"))
    monkeypatch.setattr(saved_answers, "TOLD", set())
    return tmp_path / "answers"


def cell(tmp_path, source, name="patchify"):
    """Run a text as a module of its own and return what it defines under a name."""
    path = tmp_path / f"cell{next(NUMBER)}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


STUB = "def patchify(images, patch_size):\n    raise NotImplementedError\n"
EMBED = """
import torch
from vit_course.patches import as_pair, check_images, grid_size

class PatchEmbed(torch.nn.Module):
    def __init__(self, img_size=32, patch_size=4, in_chans=3, embed_dim=192):
        super().__init__()
        self.img_size, self.patch_size = as_pair(img_size), as_pair(patch_size)
        self.grid_size = grid_size(img_size, patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.proj = torch.nn.Conv2d(in_chans, embed_dim, self.patch_size, self.patch_size)

    def forward(self, images):
        check_images(images, self.proj.in_channels, self.img_size)
        return self.proj(images).flatten(2).mT
"""


def written(before="", old="", new=""):
    """A cell with lines before a right answer, in which one part is replaced."""
    return f"import torch\nimport einops\n{USED}{before}\n{RIGHT.replace(old, new) if old else RIGHT}"


WRAPPED = (
    "def wrapped(f):\n    @functools.wraps(f)\n    def inner(*a):\n        return f(*a)\n    return inner"
)
HALF = "def half(f=1):\n    def inner(x):\n        return f\n    return inner\none = half()\nf = object"
SIZE = "from dataclasses import dataclass\n@dataclass\nclass Size:\n    p: int"
LAYERS = "import einops.layers\nimport einops.layers.torch"
MADE = textwrap.indent(RIGHT.partition("\n\n")[2].replace("return ", "return factor * "), "    ")
KEPT = {
    "list": written("AXES = [0, (1, None)]", "grid_size(", "AXES[1][1]; grid_size("),
    "None": written("NOTHING = None", "grid_size(", "assert NOTHING is None; grid_size("),
    "small tensor": written("ONE = torch.tensor(1, dtype=torch.uint8)", "return ", "return ONE * "),
    "decorated": written(f"import functools\n{WRAPPED}", "def patchify", "@wrapped\ndef patchify"),
    "checked": written("from vit_classroom import check", "def patchify", "@check\ndef patchify"),
    "closure": written() + f"def make(factor):\n{MADE}    return patchify\npatchify = make(1)\n",
    "helper class": written(SIZE, "grid_size(", "p = Size(p).p\n    grid_size("),
    "alias of a helper": written("def one(x):\n    return x\nsame = one", "return ", "return same(1) * "),
    "two things of one name": written(HALF, "return ", "f; return one(1) * "),
    "wrapped afterwards": written() + "patchify = torch.no_grad()(patchify)\n",
    "lambda": written("same = lambda x: x", "return ", "return same(1) * "),
    "function of torch": written("from torch import relu", "return ", "relu(images); return "),
    "package by dots": written(LAYERS, "grid_size(", "einops.layers.torch.Rearrange; grid_size("),
    "a copy on its way": written(
        "import torch",
        "e(images,",
        "e(torch.tensor(images.tolist(), dtype=images.dtype, device=images.device),",
    ),
    "a star": "from vit_course.patches import *\n" + RIGHT,
    "future": "from __future__ import annotations\n"
    + USED
    + RIGHT.replace("patch_size):", "patch_size: Unknown):"),
}


@pytest.mark.parametrize("source", KEPT.values(), ids=KEPT)
def test_a_right_answer_is_kept_and_used_in_lesson_06(source, tmp_path, folder, capsys):
    answer = cell(tmp_path, source)
    assert check(answer) is answer
    assert "Not kept" not in capsys.readouterr().out
    assert use_my_answers() == ["patchify"]
    assert patches.patchify.__module__ == "answers.patchify"


@pytest.mark.parametrize(
    "path", sorted((paths.ROOT / "solutions").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_every_finished_answer_stands_alone_when_it_is_taken_from_its_notebook(path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    found = [
        (number, part.partition(":")[2].partition(".")[0])
        for number, cell in enumerate(cells)
        for part in cell.metadata.get("exercise", "").split(", ")
        if part
    ]
    assert found
    for number, name in found:
        text = standing_alone(name, [cell.source for cell in cells[: number + 1]])
        space = {}
        exec(text, space)
        assert space[name].__name__ == name and "check(" not in text


def test_of_other_cells_only_what_the_answer_reads_is_kept_as_it_was_last():
    text = standing_alone(
        "patchify",
        [
            "from vit_classroom import check, plots\nimport torch, math",
            "SIDE = 3\ndef halves(x):\n    return math.floor(x / SIDE)",
            "model = plots.figure()\nraise SystemExit('this would train for hours')",
            "SIDE = 2  # once more",
            *("def patchify(:", "def twice(x, x):\n    return x"),  # the second is a mistake after parsing
            "print(1); A = 4\ndef patchify(a, b):\n    return halves(a) * A  # a remark\n"
            "patchify = check(patchify)\nSIDE = 9",
        ],
    )
    space = {}
    exec(text, space)
    assert space["patchify"](9, None) == 16
    assert "# a remark" in text
    assert not {"torch", "plots", "SystemExit", "print", "check"} & set(re.findall(r"\w+", text))


def test_another_exercise_that_an_answer_uses_is_imported_and_not_copied():
    cells = [
        "def count_patches(a, b):\n    raise NotImplementedError\ncount_patches = check(count_patches)",
        "def patchify(images, patch_size):\n    return count_patches(images, 4)\npatchify = check(patchify)",
    ]
    text = standing_alone("patchify", cells)
    assert "from vit_course.patches import count_patches" in text and "NotImplementedError" not in text


def test_a_subclass_of_the_same_name_is_kept(tmp_path, folder):
    source = f"{EMBED}\nclass PatchEmbed(PatchEmbed):\n    pass\n"
    assert keep("PatchEmbed", cell(tmp_path, source, "PatchEmbed"))
    assert use_my_answers() == use_my_answers() == ["PatchEmbed"]
    assert [one.__module__ for one in patches.PatchEmbed.__mro__[:2]] == 2 * ["answers.PatchEmbed"]


def test_models_are_made_of_kept_parts_and_a_model_of_them_is_kept_too(tmp_path, folder, capsys):
    keep("PatchEmbed", cell(tmp_path, EMBED, "PatchEmbed"))
    assert use_my_answers() == ["PatchEmbed"]
    assert type(mini_vit.MiniViT(patch_size=16).patch_embed).__module__ == "answers.PatchEmbed"
    whole = (
        "from torch import nn\nimport torch\nfrom vit_course.encoder import Encoder\n"
        + dict(solved())["MiniViT"]
    )
    answer = cell(tmp_path, whole.partition("\nMiniViT = ")[0], "MiniViT")
    assert check(answer) is answer
    assert "Not kept" not in capsys.readouterr().out
    assert "from vit_course.patches import PatchEmbed" in (folder / "MiniViT.py").read_text()
    assert use_my_answers() == ["PatchEmbed"]  # the model is no part of itself


SPLIT = "def split_heads(x, num_heads):\n    {}\n"
REACHES = {
    "through a partial": "import functools\nfrom vit_course import attention\n"
    "f = functools.partial(attention.split_heads)\n" + SPLIT.format("return f(x, num_heads=num_heads)"),
    "through getattr": "from vit_course import attention\n"
    + SPLIT.format('return getattr(attention, "split_" + "heads")(x, num_heads)'),
    "through importlib": SPLIT.format(
        "import importlib; return importlib.import_module('vit_course.attention').split_heads(x, num_heads)"
    ),
    "through the exercises": "from vit_classroom.checks import EXERCISES\n"
    + SPLIT.format('return EXERCISES["split_heads"].reference(x, num_heads)'),
    "through a class": "from vit_course import attention\nclass Helper:\n    f = staticmethod(attention.split_heads)\n"
    + SPLIT.format("return Helper.f(x, num_heads)"),
    "through a method": "from vit_course import attention\nclass Helper:\n    def f(self, x, h):\n"
    "        return attention.split_heads(x, h)\n" + SPLIT.format("return Helper().f(x, num_heads)"),
    "through a default": "from vit_course.attention import split_heads as done\n"
    "def split_heads(x, num_heads, f=done):\n    return f(x, num_heads)\n",
    "through a list": "from vit_course import attention\nFUNCTIONS = [attention.split_heads]\n"
    + SPLIT.format("return FUNCTIONS[0](x, num_heads)"),
    "through a decorator": "import functools\nfrom vit_course.attention import split_heads as done\n"
    "@functools.cache\ndef f():\n    return done\n" + SPLIT.format("return f()(x, num_heads)"),
    "bound to another name": "from vit_course import attention\nattention.ready = attention.split_heads\n"
    + SPLIT.format("return attention.ready(x, num_heads)"),
    "with its code copied": "import types\nfrom vit_course import attention\n"
    "f = types.FunctionType(attention.split_heads.__code__.replace(co_name='f'), vars(attention))\n"
    + SPLIT.format("return f(x, num_heads)"),
    "in some cases": "from vit_course import attention\n"
    + SPLIT.format("if num_heads == 1: return x[:, None]\n    return attention.split_heads(x, num_heads)"),
    "through the module": "from vit_course import attention\n"
    + SPLIT.format("return attention.split_heads(x, num_heads)"),
    "through the package": "import vit_course.attention\n"
    + SPLIT.format("return vit_course.attention.split_heads(x, num_heads)"),
    "by another name": "from vit_course.attention import split_heads as done\n"
    + SPLIT.format("return done(x, num_heads)"),
    "imported inside": SPLIT.format(
        "from vit_course.attention import split_heads as done; return done(x, num_heads)"
    ),
    "through a helper": "from vit_course import attention\ndef help(x, h):\n    return attention.split_heads(x, h)\n"
    + SPLIT.format("return help(x, num_heads)"),
}


@pytest.mark.parametrize("source", REACHES.values(), ids=REACHES)
def test_an_answer_that_calls_the_finished_version_is_not_written_yet_however_it_comes_to_it(
    source, tmp_path, folder, capsys, monkeypatch
):
    monkeypatch.setattr(attention, "ready", None, raising=False)
    assert check(cell(tmp_path, source, "split_heads")) is attention.split_heads
    assert "[not written yet] split_heads: this is the course's finished" in capsys.readouterr().out
    assert [made.verdict for made in answer_folder.marks_in(answer_folder.read_log())] == ["unfinished"]
    assert not list(folder.glob("*.py"))


CLASSES = {
    "a subclass that adds nothing": "class PatchEmbed(patches.PatchEmbed):\n    pass\n",
    "a subclass with its own __init__": "class PatchEmbed(patches.PatchEmbed):\n"
    "    def __init__(self, *args, **kwargs):\n        super().__init__(*args, **kwargs)\n",
    "a subclass whose forward calls the other": "class PatchEmbed(patches.PatchEmbed):\n"
    "    def forward(self, images):\n        return super().forward(images)\n",
    "its forward, called by its class": EMBED.partition("        check_images(")[0]
    + "        from vit_course.patches import PatchEmbed\n        return PatchEmbed.forward(self, images)\n",
    "a function that makes one": "def PatchEmbed(*args, **kwargs):\n    return patches.PatchEmbed(*args, **kwargs)\n",
}


@pytest.mark.parametrize("source", CLASSES.values(), ids=CLASSES)
def test_a_class_that_runs_the_finished_code_is_not_written_yet(source, tmp_path):
    answer = cell(tmp_path, f"from vit_course import patches\n{source}", "PatchEmbed")
    assert diagnose(answer, "PatchEmbed").kind == "unfinished"


def test_the_finished_version_is_not_written_yet_and_the_lesson_goes_on_with_it(folder, capsys):
    assert check(attention.split_heads) is attention.split_heads
    assert "[not written yet] split_heads: this is the course's finished" in capsys.readouterr().out
    assert [made.verdict for made in answer_folder.marks_in(answer_folder.read_log())] == ["unfinished"]


def test_an_answer_that_calls_another_exercise_is_an_answer_of_ones_own(tmp_path, folder):
    source = "from vit_course import attention\n" + SPLIT.format(
        "return attention.merge_heads(x[:, None]).unflatten(2, (num_heads, -1)).transpose(1, 2)"
    ).replace("    return", "    attention.check_heads(x.shape[-1], num_heads)\n    return")
    assert diagnose(cell(tmp_path, source, "split_heads")).kind == "right"


def solved():
    """The cells of somebody who solved lessons 01 to 06, in order: (names of its exercises, text)."""
    text = Path(__file__).with_name("solved_exercises.py").read_text(encoding="utf-8")
    return [(head.strip(), cell) for head, _, cell in (one.partition("\n") for one in text.split("# %%")[1:])]


def test_with_all_exercises_solved_by_somebody_else_every_module_of_the_model_is_the_students(folder, capsys):
    folder.mkdir()
    cells = solved()
    for number, (names, _) in enumerate(cells):
        for name in filter(None, names.split(", ")):
            text = standing_alone(name, [cell for _, cell in cells[: number + 1]])
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
    lessons = [lesson for lesson in read_lessons() if "01" <= lesson.number <= "06"]
    names = {name for lesson in lessons for name in lesson.names}
    assert {path.stem for path in folder.glob("*.py")} == names
    assert set(use_my_answers()) == set(filter(saved_answers.is_of_the_model, names))
    out = capsys.readouterr().out
    assert "The course's" not in out and "Left out" not in out
    model = my_answer("MiniViT")(patch_size=16, embed_dim=12, depth=2)
    made = {type(part) for part in model.modules() if not type(part).__module__.startswith("torch.")}
    assert {one.__name__: one.__module__ for one in made} == {
        **{
            name: f"answers.{name}"
            for name in ("MiniViT", "PatchEmbed", "Block", "MultiHeadAttention", "Mlp")
        },
        "Encoder": "vit_course.encoder",  # no exercise: a list of blocks
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = my_answer("train_one_epoch")
    rows = parts_in_use(lambda: step(model, torch.rand(2, 3, 32, 32), torch.tensor([0, 1]), optimizer))
    assert {name for name, _, _ in rows} >= {"drop_path", "split_heads", "pool", "prepend_cls_token"}
    assert {owner for _, owner, _ in rows} == {"yours"}


@pytest.mark.parametrize(
    "line",
    [
        "from vit_course.encoder import Mlp as Used",
        "from vit_course import encoder\nUsed = encoder.Mlp",
        "import vit_course.encoder\nUsed = vit_course.encoder.Mlp",
        "from vit_course.encoder import *\nUsed = Mlp",
    ],
)
def test_an_answer_is_loaded_after_those_that_it_names(line, folder):
    folder.mkdir()
    cells = dict(solved())
    head = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
    block = f"{head}{line}\n{cells['Block'].replace('= Mlp(', '= Used(')}"
    for name, text in (("Block", block), ("Mlp", head + cells["Mlp"])):
        (folder / f"{name}.py").write_text(text.partition(f"\n{name} = check")[0], encoding="utf-8")
    assert use_my_answers() == ["Mlp", "Block"]
    assert type(encoder.Block(4, 2).mlp).__module__ == "answers.Mlp"


def test_two_answers_that_name_each_other_are_both_loaded(folder):
    folder.mkdir()
    right = {
        "patchify": USED + RIGHT,
        "merge_heads": "def merge_heads(x):\n    split_heads = x\n    return split_heads.transpose(1, 2).flatten(2)\n",
        "split_heads": "from vit_course.attention import check_heads, merge_heads\n"
        + SPLIT.format(
            "check_heads(x.shape[-1], num_heads)\n    return x.unflatten(2, (num_heads, -1)).transpose(1, 2)"
        ),
    }
    for name, text in right.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    assert sorted(use_my_answers()) == sorted(right)


def test_a_kept_file_that_would_call_itself_for_ever_is_left_out_and_named(folder, capsys):
    folder.mkdir()
    (folder / "split_heads.py").write_text(REACHES["through the module"])
    assert use_my_answers() == []
    assert "Left out: split_heads: it calls the finished version itself" in capsys.readouterr().out


def test_one_kept_answer_is_handed_out_and_the_finished_version_where_none_is_right(folder, capsys):
    assert my_answer("accuracy") is EXERCISES["accuracy"].reference
    assert "no answer was kept" in capsys.readouterr().out
    folder.mkdir()
    (folder / "patchify.py").write_text(USED + RIGHT, encoding="utf-8")
    assert my_answer("patchify").__module__ == "answers.patchify"
    (folder / "patchify.py").write_text(STUB, encoding="utf-8")
    assert my_answer("patchify") is EXERCISES["patchify"].reference
    assert "patchify: the finished version (in a file of its own it is not right" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    [
        "layer = PatchEmbed(8, 4)",
        "for layer in range(3):\n    pass",
        "layer = train(model)",
        "layer = open('x')",
    ],
)
def test_what_another_cell_computes_is_not_run_again(line):
    with pytest.raises(CannotKeep, match="it uses `layer`, which another cell computes"):
        standing_alone("patchify", [line, "def patchify(a, b):\n    return layer(a)"])


@pytest.mark.parametrize(
    "line", ["layer = 3 * [float('inf')]", "import torch\nlayer = torch.nn.ReLU().eval()"]
)
def test_what_python_or_a_library_makes_in_another_cell_is_kept(line):
    assert "layer = " in standing_alone("patchify", [line, "def patchify(a, b):\n    return layer(a)"])


def test_an_answer_that_no_cell_defines_is_not_kept():
    with pytest.raises(CannotKeep, match="the source of `patchify` was not found"):
        standing_alone("patchify", ["patchify = check(patchify)"])


def test_what_was_kept_before_is_named_when_a_new_answer_cannot_be(tmp_path, folder):
    assert keep_and_tell("patchify", cell(tmp_path, USED + RIGHT)) == ""
    hidden = written(old="grid_size(", new="globals()['hidden']; grid_size(") + "hidden = 1\n"
    answer = cell(tmp_path, hidden)  # it reads what nobody sees it read
    assert keep_and_tell("patchify", answer).endswith("The one that was kept before stays.")


def test_a_chosen_folder_that_cannot_be_written_is_named_and_no_other_is_used(tmp_path, folder):
    folder.write_text("a file")
    told = keep_and_tell("patchify", cell(tmp_path, USED + RIGHT))
    assert f"no folder for it can be written: {folder} (" in told


def test_the_newest_of_two_kept_answers_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(answer_folder, "answer_folders", lambda: [tmp_path / "one", tmp_path / "two"])
    for number, name in enumerate(("two", "one")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "patchify.py").write_text(name)
        os.utime(tmp_path / name / "patchify.py", (number, number))
    assert answer_folder.kept_files()[0]["patchify"] == tmp_path / "one" / "patchify.py"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner here")
def test_answers_of_other_users_are_not_run(tmp_path, folder, monkeypatch, capsys):
    folder.mkdir()
    (folder / "patchify.py").write_text(f"open({str(tmp_path / 'was here')!r}, 'w')\n" + USED + RIGHT)
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    assert use_my_answers() == []
    assert not (tmp_path / "was here").exists()
    assert "Left out: patchify: the file belongs to another user" in capsys.readouterr().out


def test_an_answer_is_written_whole_or_not_at_all(tmp_path, folder, monkeypatch):
    path = keep("patchify", cell(tmp_path, USED + RIGHT))
    before = path.read_text()
    monkeypatch.setattr(os, "replace", Mock(side_effect=OSError("disk full")))
    with pytest.raises(CannotKeep):
        keep("patchify", cell(tmp_path, USED + RIGHT.replace("p, q =", "p = q = 0\n    p, q =")))
    assert path.read_text() == before
    assert list(folder.iterdir()) == [path]


BROKEN = {
    "patchify": ("import sys\nsys.exit()\n", "stops with SystemExit"),
    "PatchEmbed": ("raise KeyboardInterrupt\n", "stops with KeyboardInterrupt"),
    "unpatchify": ("def unpatchify(:\n", "SyntaxError"),
    "learned_positions": ("high = 'höher'\n", "SyntaxError"),
    "count_patches": ("", "there is no count_patches in the file"),
    "split_heads": ("def split_heads(x, h):\n    return x\n", "in a file of its own it is not right: "),
    "patchfy": ("", "did you mean patchify.py?"),
}


@pytest.mark.parametrize(("name", "text", "words"), [(name, *row) for name, row in BROKEN.items()])
def test_lesson_06_names_what_it_leaves_out_and_why(name, text, words, folder, capsys):
    folder.mkdir()
    (folder / f"{name}.py").write_text(text, encoding="latin-1")
    (folder / "merge_heads.py").write_text(
        "from einops import rearrange\ndef merge_heads(x):\n    return rearrange(x, 'b h t d -> b t (h d)')\n"
    )
    assert use_my_answers() == ["merge_heads"]
    out = capsys.readouterr().out
    assert f"Left out: {name}: " in out and words in out


def test_a_kept_file_with_a_byte_order_mark_is_used(folder):
    folder.mkdir()
    (folder / "patchify.py").write_bytes(b"\xef\xbb\xbf" + (USED + RIGHT).encode())
    assert use_my_answers() == ["patchify"]


def test_what_a_killed_write_of_an_answer_left_is_cleared_by_the_next_write_of_it(folder):
    left = {name: folder / f".{name}.4711" for name in ("patchify.py", "pool.py")}
    folder.mkdir(exist_ok=True)
    fresh = folder / ".patchify.py.4712"
    for path in (*left.values(), fresh):
        path.write_text("half")
    for path in left.values():
        os.utime(path, (0, 0))
    answer_folder.written("patchify.py", "whole")
    assert not left["patchify.py"].exists() and left["pool.py"].exists()
    assert fresh.exists(), "another process may write it now"
