"""The last look at a wrong answer: which one change of its own text would make it right, by the whole check."""

import itertools
import linecache
import re
import time

import pytest

from vit_classroom.checks import EXERCISES, diagnose, diagnosis, repair

NUMBER = itertools.count()
IMPORTS = """
import math
import torch
import torch.nn.functional as F
from torch import nn
from einops import rearrange
from vit_course.attention import check_heads, merge_heads, scaled_dot_product_attention, split_heads
from vit_course.encoder import Encoder, Mlp, MultiHeadAttention, drop_path
from vit_course.embeddings import prepend_cls_token
from vit_course.patches import PatchEmbed, as_pair, check_images, grid_size
"""
ATTEND = """
def scaled_dot_product_attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    return weights @ v, weights
"""
HEADS = """
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        check_heads(dim, num_heads)
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.attn_drop = attn_drop
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x, return_attention=False):
        parts = self.qkv(x).chunk(3, dim=-1)
        q, k, v = [split_heads(part, self.num_heads) for part in parts]
        heads, weights = scaled_dot_product_attention(q, k, v)
        if self.training and self.attn_drop > 0:
            heads = F.dropout(weights, self.attn_drop) @ v
        out = self.proj_drop(self.proj(merge_heads(heads)))
        return (out, weights) if return_attention else out
"""
NORM = """
def layer_norm(x, weight, bias, eps=1e-6):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, unbiased=False, keepdim=True)
    return weight * (x - mean) / torch.sqrt(variance + eps) + bias
"""
POOL = """
def pool(tokens, mode="token", num_prefix_tokens=1):
    if mode not in ("token", "avg") or mode == "token" and num_prefix_tokens < 1:
        raise ValueError(mode)
    return tokens[:, 0] if mode == "token" else tokens[:, num_prefix_tokens:].mean(dim=1)
"""
GRID = """
def image_grid(images, columns):
    x = images.unflatten(0, (-1, columns)).permute(2, 0, 3, 1, 4)
    return x.flatten(3).flatten(1, 2)
"""
PATCHES = """
def patchify(images, patch_size):
    check_images(images)
    p, q = as_pair(patch_size)
    grid_size(tuple(images.shape[-2:]), patch_size)
    return rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=p, q=q)
"""
ACCURACY = """
def accuracy(model, images, labels, batch_size=500):
    model.eval()
    hits = 0
    with torch.no_grad():
        for x, y in zip(images.split(batch_size), labels.split(batch_size)):
            hits += (model(x).argmax(dim=1) == y).sum().item()
    return hits / len(images)
"""
EPOCH = """
def train_one_epoch(model, images, labels, optimizer, batch_size=64):
    model.train()
    total = 0.0
    for rows in torch.randperm(len(images)).split(batch_size):
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(rows)
    return total / len(images)
"""
MERGED = """
def attend_in_heads(q, k, v, num_heads):
    q, k, v = [split_heads(part, num_heads) for part in (q, k, v)]
    heads, weights = scaled_dot_product_attention(q, k, v)
    return merge_heads(heads), weights
"""
TOGETHER = """
def unpatchify(patches, patch_size, grid_size):
    (p, q), (rows, columns) = as_pair(patch_size), grid_size
    if patches.shape[1] != rows * columns or patches.shape[2] % (p * q):
        raise ValueError(patches.shape)
    return rearrange(patches, "b (h w) (p q c) -> b c (h p) (w q)", h=rows, w=columns, p=p, q=q)
"""
CASES = {
    # a right answer, what is written in its place, and what is said of it
    "k.T": (ATTEND, "k.transpose(-2, -1)", "k.T", "`k.T` reverses *all* axes of k"),
    "scores @ v": (ATTEND, "weights @ v", "scores @ v", "it is the *weights* that are multiplied with v"),
    "q * k": (ATTEND, "q @ k.transpose(-2, -1)", "q * k", "multiplies number by number"),
    "tril": (ATTEND, "scores.soft", "torch.tril(scores).soft", "the call of `torch.tril` is too much"),
    "split(3)": (HEADS, "chunk(3, dim=-1)", "split(3, dim=-1)", "`split(n)` makes parts of *length* n"),
    "split": (HEADS, "chunk(3, dim=-1)", "split(3)", "`split(n)` makes parts of *length* n"),
    "chunk": (HEADS, "chunk(3, dim=-1)", "chunk(3)", "`self.qkv(x).chunk(3)` needs an axis"),
    "chunk(1)": (HEADS, "dim=-1", "dim=1", "another number belongs in the place of 1"),
    "no merge": (
        HEADS,
        "merge_heads(heads)",
        "heads",
        "`merge_heads` is not called: `heads` should go through it",
    ),
    "brackets": (NORM, "(x - mean)", "x - mean", "brackets are missing"),
    "[:, :-n]": (POOL, "num_prefix_tokens:]", ":-num_prefix_tokens]", "takes the wrong part"),
    "permute": (GRID, "2, 0, 3, 1, 4", "2, 0, 1, 3, 4", "brings the axes into the wrong order"),
    "transpose": (ATTEND, "transpose(-2, -1)", "transpose(1, 2)", "the last two axes should swap"),
    "max": (ACCURACY, "argmax(dim=1)", "max(dim=1)", "`max` along an axis returns a pair"),
    "six axes": (PATCHES, "b (h w) (p q c)", "b h w p q c", "6 axes are left where 3 are wanted"),
    "argmax(0)": (ACCURACY, "argmax(dim=1)", "argmax(dim=0)", "another number belongs in the place of 0"),
    "a number": (MERGED, "part, num_heads)", "part, 3)", "the argument `num_heads` is not used"),
    "a keyword": (TOGETHER, "q=q)", "q=q, c=3)", "`c=3` is too much in `rearrange("),
    "return in the loop": (EPOCH, "    return", "        return", "`return` stands inside the loop"),
    "nn.MultiheadAttention": (
        HEADS,
        "scaled_dot_product_attention(q, k, v)",
        "nn.MultiheadAttention(x.shape[-1], self.num_heads)(q, k, v)",
        "`nn.MultiheadAttention` makes weights of its own",
    ),
}


def written(text):
    """What a student wrote, as a cell of a notebook makes it, and its name."""
    file, name = f"/cell{next(NUMBER)}.py", re.search(r"(?:def|class) (\w+)", text)[1]
    source = IMPORTS + text
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    space = {"__name__": "__main__"}
    exec(compile(source, file, "exec"), space)
    return space[name], name


@pytest.mark.parametrize("text", {right for right, *_ in CASES.values()})
def test_what_is_right_needs_no_change(text):
    answer, name = written(text)
    assert diagnose(answer, name).kind == "right"


@pytest.mark.parametrize(("right", "old", "new", "words"), CASES.values(), ids=CASES)
def test_a_slip_is_named_by_the_change_that_the_check_accepts(right, old, new, words, monkeypatch):
    for module in (repair, diagnosis):  # a busy machine finds it later, and finds the same
        monkeypatch.setattr(module, "SECONDS", 20)
    assert right.count(old) == 1
    answer, name = written(right.replace(old, new))
    verdict = diagnose(answer, name)
    assert (verdict.kind, verdict.named) == ("wrong", True)
    assert words in verdict.message.partition("\n")[0], verdict.message
    assert verdict.mistake


def test_an_answer_that_no_change_helps_gets_its_numbers_and_keeps_nobody_waiting():
    answer, name = written(
        "def scaled_dot_product_attention(q, k, v):\n    return v.cos(), q.sin() @ k.mT.exp()\n"
    )
    start = time.thread_time()
    verdict = diagnose(answer, name)
    assert time.thread_time() - start < 8 * repair.SECONDS
    assert verdict.kind == "wrong" and not verdict.named


def test_to_try_changes_runs_no_decorator_but_those_of_torch_and_python():
    calls = []
    text = ATTEND.replace("weights @ v,", "scores @ v,")
    answer, name = written(text)
    answer.__globals__["noted"] = lambda function: calls.append(function) or function
    lines = linecache.cache[answer.__code__.co_filename][2]
    lines.insert(answer.__code__.co_firstlineno - 1, "@noted\n")
    assert "another variable" in repair.repair(answer, EXERCISES[name].verify)
    assert calls == []


def test_a_text_that_is_not_there_is_no_reason_to_fail():
    space = {}
    exec("def merge_heads(x):\n    return x", space)
    assert repair.repair(space["merge_heads"], EXERCISES["merge_heads"].verify) == ""
    assert repair.repair(len, EXERCISES["merge_heads"].verify) == ""
