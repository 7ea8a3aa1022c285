"""What a notebook pays for `from vit_classroom import check, plots`, and what the doctor does not pay."""

import subprocess
import sys

import pytest


def loaded_by(code):
    """Run code in a fresh Python, and return the names of all modules that it loaded."""
    listing = code + "\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_the_first_cell_of_a_lesson_loads_neither_figures_nor_pictures_nor_a_lesson():
    loaded = loaded_by("from vit_classroom import check, plots")
    assert "vit_classroom.plots" in loaded
    assert not loaded & {"matplotlib", "torchvision", "PIL", "IPython", "vit_course.data", "vit_course.train"}
    assert not any(name.startswith("lessons.") for name in loaded)
    with pytest.raises(ImportError, match="nothing"):
        exec("from vit_classroom import nothing")


def test_the_doctor_loads_nothing_that_may_be_missing_or_broken():
    loaded = loaded_by("import vit_classroom.doctor")
    assert not {name.partition(".")[0] for name in loaded} & {"torch", "numpy", "matplotlib", "einops"}
