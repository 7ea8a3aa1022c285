"""A wheel alone, with the library's dependencies and no other package, trains, loads weights and reads data."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_repository import groups

from vit_classroom.doctor import version_numbers
from vit_course.training.paths import ROOT

ALONE = """
import sys
sys.modules.update(dict.fromkeys({hidden}))
from importlib import import_module
from pkgutil import walk_packages
import torch
import vit_course
from vit_course import create_vit, evaluate, load_dataset
from vit_classroom import check
from vit_course.data import shapes10
from vit_course.extensions.trained import load_trained, trained_names
from vit_course.patches import patchify
from vit_course.train import TrainConfig, train
print(vit_course.__file__)
names = [module.name for module in walk_packages(vit_course.__path__, "vit_course.")]
print(len([import_module(name) for name in names if not name.endswith("__main__")]))
data = shapes10(train=64, test=32, image_size=16)
model = create_vit("Nano/8", img_size=16)
train(model, data, TrainConfig(epochs=1, batch_size=32, quiet=True))
print(torch.isfinite(model(torch.zeros(1, 3, 16, 16))).all().item())
print(*trained_names())
model, info = load_trained("shapes-vit")
shapes = load_dataset("shapes10")
share, _ = evaluate(model, shapes.test_images[:500], shapes.test_labels[:500], shapes.channel_stats())
print(round(100 * abs(share - info["test_accuracy"])))
check(patchify)
"""


def copy_of_what_is_built(folder: Path) -> Path:
    """Copy what a build reads, so that nothing of it is left in the repository."""
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("vit_course", "vit_classroom", "data/checkpoints", "data/runs", "data/photos"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def packages_of_the_library() -> set[str]:
    """The packages that `pip install .` brings: what the library names, and what these need in turn."""
    found, waiting = set(), [Requirement(line).name for line in groups()["library"]]
    while waiting:
        name = canonicalize_name(waiting.pop())
        try:
            needed = map(Requirement, requires(name) or []) if name not in found else ()
        except PackageNotFoundError:  # for another system
            continue
        found.add(name)
        waiting += [one.name for one in needed if not one.marker or one.marker.evaluate({"extra": ""})]
    return found


def modules_of_others() -> list[str]:
    """The modules that are installed here and that `pip install .` does not bring."""
    brought = packages_of_the_library()
    owners = packages_distributions().items()
    others = [name for name, own in owners if not brought & {canonicalize_name(one) for one in own}]
    assert {"yaml", "nbformat", "matplotlib", "IPython"} <= set(others) and "torch" not in others
    return sorted(set(others) - {"vit_course", "vit_classroom"})


@pytest.mark.weekly
def test_a_wheel_with_no_package_but_those_of_the_library_trains_loads_weights_and_reads_data(tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    new_enough = find_spec("setuptools") and version_numbers(version("setuptools")) >= [70, 1]
    pip += ["--no-build-isolation"] * bool(new_enough)
    subprocess.run([*pip, str(copy_of_what_is_built(source))], check=True)
    done = subprocess.run(
        [sys.executable, "-c", ALONE.format(hidden=modules_of_others())],
        cwd=site.parent,
        env={**os.environ, "PYTHONPATH": str(site), "VIT_COURSE_ANSWERS": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    home, modules, finite, names, points, verdict = done.stdout.splitlines()
    assert Path(home).is_relative_to(site) and int(modules) > 50
    assert finite == "True" and int(points) <= 5
    assert {"shapes-vit", "cifar-vit"} <= set(names.split())
    assert "the checks lie with the lessons, and these are not here" in verdict
