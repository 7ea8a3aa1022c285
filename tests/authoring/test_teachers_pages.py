"""The pages for teachers: options that exist, links that stay good, and memory as it was measured."""

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest

from authoring.notebooks.course import read_course
from vit_classroom.progress import command
from vit_course.training.paths import ROOT

SERVER = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
PROGRESS = (ROOT / "docs" / "progress.md").read_text(encoding="utf-8")
FIGURES = json.loads((ROOT / "experiments" / "benchmarks" / "kernel_memory.json").read_text(encoding="utf-8"))
LINKED = {
    *("00_start_here", "01_patches", "02_cls_token", "03_position", "04_attention", "05_encoder"),
    *("06_vision_transformer", "07_train_cifar10", "08_vit_against_resnet", "09_look_inside"),
    *("10_design_choices", "11_hybrid", "12_transfer", "13_self_supervision", "14_bug_clinic"),
    *("15_since_2021", "16_learn_fast", "17_use_a_trained_one"),
}
"""Teachers have links to these notebooks in their plans: lessons come to this list, and none ever leaves it."""


def marked(text, name):
    """The part of a page between two marks."""
    return re.search(rf"<!-- {name} -->(.*?)<!-- end -->", text, re.DOTALL)[1]


def test_no_lesson_is_renamed():
    assert LINKED <= {path.name for path in (ROOT / "lessons").iterdir()}


def test_the_server_page_lists_the_links_of_all_lessons():
    listed = re.findall(r"`(\w+)`", marked(SERVER, "slugs"))
    assert listed == [lesson.slug for lesson in read_course(ROOT).lessons]


def test_the_link_names_what_nbgitpuller_asks_for():
    link = urlsplit(re.search(r"^https://HUB\S+$", SERVER, re.MULTILINE)[0])
    asked = {"repo": ["ADDRESS"], "branch": ["main"], "urlpath": ["lab/tree/NAME/notebooks/SLUG.ipynb"]}
    assert parse_qs(link.query) == asked


def test_the_memory_of_a_student_is_that_which_was_measured():
    kernels = FIGURES["kernels"].values()
    peak, own = (max(kernel[name] for kernel in kernels) for name in ("peak MB", "own MB"))
    assert marked(SERVER, "kernel memory") == f"{peak:,} MB"
    assert marked(SERVER, "own memory") == f"{own:,} MB"
    assert marked(SERVER, "a class") == f"{(peak + 29 * own) / 1000:.0f} GB"
    assert f"(profile `{FIGURES['profile']}`" in SERVER
    assert set(FIGURES["kernels"]) <= LINKED


@pytest.mark.parametrize("option", sorted(set(re.findall(r"`(--[a-z]+)", PROGRESS))))
def test_every_option_that_the_page_shows_is_there(option, capsys):
    with pytest.raises(SystemExit):
        command.main(["--help"])
    assert f"{option} " in capsys.readouterr().out.replace(",", " ").replace("]", " ")
