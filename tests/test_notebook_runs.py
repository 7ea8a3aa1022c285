"""How the tests run notebooks: no comparison is left out without a word, whatever is printed, kernels are forked."""

import json
import subprocess
import sys

import pytest

from tests import compared_outputs, forked_kernels
from vit_course.training.paths import ROOT


@pytest.fixture
def solutions(tmp_path, monkeypatch):
    """Three solutions with outputs of this PyTorch, of another one, and of none that is known."""
    monkeypatch.delenv("VIT_COURSE_COMPARE", raising=False)
    made = {
        "01_one": compared_outputs.THIS_TORCH + ".1",
        "02_two": "1.13.0",
        "03_three": "",
        "07_seven": "1.13.0",
    }
    (tmp_path / "solutions").mkdir()
    for name, torch in made.items():
        text = json.dumps({"metadata": {"vit_course": {"torch": torch}}, "cells": []})
        (tmp_path / "solutions" / f"{name}.ipynb").write_text(text)
    return sorted((tmp_path / "solutions").iterdir())


def test_comparisons_that_another_pytorch_leaves_out_are_said_in_a_line(solutions):
    assert [compared_outputs.is_compared(path) for path in solutions] == [True, False, False, False]
    line = compared_outputs.skipped_comparisons(solutions)
    assert "solutions 02, 03, because PyTorch 1.13, an unknown one made them" in line
    assert compared_outputs.THIS_TORCH in line and "CONTRIBUTING.md" in line


def test_where_all_is_compared_nothing_is_said_and_where_none_is_wanted_that(solutions, monkeypatch):
    assert compared_outputs.skipped_comparisons(solutions[:1]) == ""
    monkeypatch.setenv("VIT_COURSE_COMPARE", "0")
    assert "solutions 01, because VIT_COURSE_COMPARE=0" in compared_outputs.skipped_comparisons(solutions[:1])


def test_the_line_stands_at_the_end_of_a_run_in_several_processes(solutions):
    options = "-p no:cacheprovider -p conftest --nbval --nbval-current-env -n 1".split()
    command = [
        sys.executable,
        "-m",
        "pytest",
        *options,
        "-c",
        str(ROOT / "pyproject.toml"),
        str(solutions[1]),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert "NOT COMPARED: the outputs of solutions 02" in done.stdout + done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux alone")
def test_a_kernel_is_forked_whatever_is_printed_before(monkeypatch):
    noise = "print('drawing Shapes-10:  12%|', flush=True)\nimport sys; print(7, file=sys.stderr)\n"
    monkeypatch.setattr(forked_kernels, "parents", [forked_kernels.start_parent(noise)])
    kernel = forked_kernels.fork_kernel([sys.executable, "-m", "ipykernel_launcher", "--version"])
    parent, answers = forked_kernels.parents[0]
    try:
        assert kernel.pid not in (7, 12, parent.pid)
        kernel.wait(60)
    finally:
        parent.stdin.close()
        parent.wait(60)
        answers.close()
