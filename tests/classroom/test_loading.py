"""What a notebook pays for `from vit_course.classroom import check, plots`, and what the doctor does not pay."""

import subprocess
import sys

import pytest


def loaded_by(code):
    """Run code in a fresh Python, and return the names of all modules that it loaded."""
    listing = code + "\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_the_first_cell_of_a_lesson_loads_neither_figures_nor_pictures_nor_a_lesson():
    loaded = loaded_by("from vit_course.classroom import check, plots")
    assert "vit_course.classroom.plots" in loaded
    assert not loaded & {"matplotlib", "torchvision", "PIL", "IPython", "vit_course.data", "vit_course.train"}
    assert not any(name.startswith("lessons.") for name in loaded)


def test_a_check_loads_the_lesson_it_belongs_to_and_no_other():
    loaded = loaded_by("""
from vit_course.classroom.checks import diagnose
from vit_course.patches import patchify
assert diagnose(patchify).kind == "right"
""")
    assert {name for name in loaded if name.startswith("lessons.")} == {"lessons.01_patches.checks"}


def test_the_doctor_loads_nothing_that_may_be_missing_or_broken():
    loaded = loaded_by("import vit_course.classroom.doctor")
    assert not {name.partition(".")[0] for name in loaded} & {"torch", "numpy", "matplotlib", "einops"}


def test_loading_changes_no_setting_of_torch():
    code = """
import torch
settings = torch.get_default_dtype, torch.get_num_threads, torch.is_grad_enabled, torch.initial_seed
before = [setting() for setting in settings]
state = torch.get_rng_state()
from vit_course.classroom import check, plots
assert before == [setting() for setting in settings]
assert torch.equal(state, torch.get_rng_state())
"""
    loaded_by(code)


def test_classroom_has_nothing_else():
    with pytest.raises(ImportError, match="nothing"):
        exec("from vit_course.classroom import nothing")
