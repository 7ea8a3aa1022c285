"""Ways to break a machine: the doctor names each in one line, and the mend that it prints was tried here and works.

A mend that is a command of the course or of Jupyter is run as it is printed. One that is for `pip`, or for a person,
is done as the words say: tests have no network.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
from functools import partial
from importlib import import_module, metadata
from pathlib import Path

import pytest
from jupyter_client.launcher import launch_kernel
from jupyter_client.provisioning import local_provisioner
from PIL import Image

from vit_course.classroom import doctor
from vit_course.data import cifar10
from vit_course.machinery import paths

OFFICIAL = b"the official archive of this test"
PIP = doctor.command("pip", "install")


class Machine:
    """A machine to break: a course's folder of its own, and what pip, Jupyter and the system say."""

    def __init__(self, folder, monkeypatch):
        self.root, self.home, self.patch = folder / "course", folder / "home", monkeypatch
        self.hidden, self.versions = {}, {}
        for part in ("data", "checkpoints", "runs"):
            self.root.joinpath("data", part).mkdir(parents=True)
        self.home.mkdir()
        for module in (doctor, paths):
            monkeypatch.setattr(module, "ROOT", self.root)
        monkeypatch.setattr(Path, "home", lambda: self.home)
        for name in ("DATA", "ANSWERS", "PROFILE", "DEVICE"):
            monkeypatch.delenv(f"VIT_COURSE_{name}", raising=False)

    def load(self, name):
        """Import a module, unless it is broken here."""
        if name in self.hidden:
            raise self.hidden[name]
        return import_module(name)

    def version(self, name):
        """Tell the version of a package, unless it is missing here."""
        if self.versions.get(name, "") is None:
            raise metadata.PackageNotFoundError(name)
        return self.versions.get(name, "99.0")

    def pictures(self, half, name, count=1):
        """Put pictures of a class into the data folder."""
        folder = self.root / "data" / "pets" / half / name
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            Image.new("RGB", (8, 8)).save(folder / f"{number}.png")
        return folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def run_mend(machine, fix):
    """Run a mend that is a command, as it is printed, in the folder of the repository."""
    subprocess.run(
        shlex.split(fix), cwd=paths.LESSONS.parent, check=True, timeout=120, stdout=subprocess.DEVNULL
    )


def fetch(machine, fix):
    """Run the command that gets CIFAR-10, here from a file; what it names of folders is what counts."""
    source = machine.root / "mirror"
    source.write_bytes(OFFICIAL)
    machine.patch.setenv("VIT_COURSE_CIFAR10_URL", source.as_uri())
    words = shlex.split(fix)
    machine.patch.chdir(machine.root)
    assert words[1:4] == ["-m", "vit_course", "data"] and cifar10.main(words[4:]) == 0


def official(machine):
    """Take a few bytes for the official archive."""
    size, md5 = len(OFFICIAL), hashlib.md5(OFFICIAL).hexdigest()
    machine.patch.setattr(cifar10.verify_archive, "__defaults__", (size, md5))
    known = cifar10.download_cifar10.__kwdefaults__ | {"size": size, "md5": md5}
    machine.patch.setattr(cifar10.download_cifar10, "__kwdefaults__", known)


# -- ways to break it; each returns the check that should notice, and the mend


def packages(machine):
    return partial(doctor.check_packages, machine.version, machine.load)


def missing_package(machine):
    machine.versions["einops"] = None
    return packages(machine), lambda fix: machine.versions.clear()


def missing_tool(machine):
    machine.versions["ruff"] = None
    return packages(machine), lambda fix: machine.versions.clear()


def old_package(machine):
    machine.versions["numpy"] = "1.20"
    return packages(machine), lambda fix: machine.versions.clear()


def package_without_its_files(machine):
    machine.hidden["einops"] = ImportError("cannot import name 'rearrange' from 'einops'")
    return packages(machine), lambda fix: machine.hidden.clear()


def library_for_another_system(machine):
    machine.hidden["PIL"] = OSError("wrong ELF class")
    return packages(machine), lambda fix: machine.hidden.clear()


def torch_is_missing(machine):
    machine.hidden["torch"] = ModuleNotFoundError("No module named 'torch'")
    return partial(doctor.check_torch, machine.load), lambda fix: machine.hidden.clear()


def torchvision_of_another_torch(machine):
    machine.hidden["torchvision"] = RuntimeError("operator torchvision::nms does not exist\nmore")
    return partial(doctor.check_torch, machine.load), lambda fix: machine.hidden.clear()


def unknown_profile(machine):
    machine.patch.setenv("VIT_COURSE_PROFILE", "huge")
    return doctor.check_profile, lambda fix: machine.patch.delenv("VIT_COURSE_PROFILE")


def unknown_device(machine):
    machine.patch.setenv("VIT_COURSE_DEVICE", "cuda:99")
    return doctor.check_device, lambda fix: machine.patch.delenv("VIT_COURSE_DEVICE")


def full_disk(machine):
    free = [0]
    return lambda: doctor.check_disk(lambda path: (0, 0, free[0])), lambda fix: free.insert(0, 9 * doctor.GIB)


def file_where_answers_go(machine):
    (machine.root / "answers").touch()
    return doctor.check_folder, lambda fix: (machine.root / "answers").unlink()


def read_only_course(machine):
    """A hub's shared folder; the mend is to work in a copy."""
    shut = machine.root
    access = os.access
    machine.patch.setattr(os, "access", lambda path, mode: str(path) != str(shut) and access(path, mode))

    def copy(fix):
        assert f"copy {machine.root}" in fix
        shutil.copytree(machine.root, machine.home / "course")
        for module in (doctor, paths):
            machine.patch.setattr(module, "ROOT", machine.home / "course")

    return doctor.check_folder, copy


def no_folder_for_answers(machine):
    (machine.root / "file").touch()
    machine.patch.setenv("VIT_COURSE_ANSWERS", str(machine.root / "file" / "answers"))
    return doctor.check_folder, lambda fix: machine.patch.setenv(
        "VIT_COURSE_ANSWERS", str(machine.home / "mine")
    )


def data(machine):
    return partial(doctor.check_data, str(machine.root / "data"))


def no_data(machine):
    official(machine)
    return data(machine), partial(fetch, machine)


def cut_archive(machine):
    official(machine)
    (machine.root / "data" / "cifar-10-python.tar.gz").write_bytes(OFFICIAL[:7])
    return data(machine), partial(fetch, machine)


def cut_archive_in_a_folder_that_the_variable_names(machine):
    official(machine)
    (machine.root / "mine").mkdir()
    (machine.root / "mine" / "cifar-10-python.tar.gz").write_bytes(OFFICIAL[:7])
    machine.patch.setenv("VIT_COURSE_DATA", str(machine.root / "mine"))
    return data(machine), partial(fetch, machine)


def damaged_unpacked_files(machine):
    official(machine)
    (machine.root / "data" / "cifar-10-batches-py").mkdir()
    (machine.root / "data" / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"half")
    return data(machine), partial(fetch, machine)


def data_that_are_not_where_the_variable_says(machine):
    machine.patch.setenv("VIT_COURSE_DATA", str(machine.root / "nowhere"))

    def name_another(fix):
        machine.pictures("train", "cat"), machine.pictures("train", "dog")
        machine.pictures("test", "cat"), machine.pictures("test", "dog")
        machine.patch.setenv("VIT_COURSE_DATA", str(machine.root / "data" / "pets"))

    return data(machine), name_another


def jupyter_is_missing(machine):
    machine.hidden["jupyterlab"] = ImportError("No module named 'jupyterlab'")
    return partial(doctor.check_jupyter, machine.load), lambda fix: machine.hidden.clear()


def kernel_without_ipykernel(machine):
    machine.hidden["ipykernel"] = ImportError("No module named 'ipykernel'")
    return partial(doctor.check_jupyter, machine.load), lambda fix: machine.hidden.clear()


def kernel_that_dies(machine):
    (machine.root / "ipykernel_launcher.py").write_text("raise SystemExit(1)")
    machine.patch.setenv("PYTHONPATH", str(machine.root))
    machine.patch.setattr(local_provisioner, "launch_kernel", launch_kernel)  # no fork of another one
    return doctor.check_jupyter, lambda fix: machine.patch.delenv("PYTHONPATH")


BREAKS = [
    (missing_package, "einops is missing", f"{PIP} -r requirements.txt"),
    (missing_tool, "ruff is missing", f"{PIP} -r requirements.txt"),
    (old_package, "numpy 1.20 (needs", f"{PIP} -r requirements.txt"),
    (package_without_its_files, "einops cannot be imported", f"{PIP} --force-reinstall einops"),
    (library_for_another_system, "pillow cannot be imported (wrong ELF", f"{PIP} --force-reinstall pillow"),
    (torch_is_missing, "No module named 'torch'", "--force-reinstall torch torchvision"),
    (torchvision_of_another_torch, "nms does not exist", "--force-reinstall torch torchvision"),
    (unknown_profile, "'huge'", "unset VIT_COURSE_PROFILE"),
    (unknown_device, "'cuda:99' is not here", "unset VIT_COURSE_DEVICE"),
    (full_disk, "0.0 GiB free", "pip cache purge"),
    (file_where_answers_go, "answers is a file; right answers are kept in ~/vit-course-answers", "delete it"),
    (read_only_course, "the course is read-only; right answers are kept in ~/vit-course-answers", "copy "),
    (no_folder_for_answers, "file is a file", "set VIT_COURSE_ANSWERS to a folder"),
    (no_data, "lessons use Shapes-10", "-m vit_course data"),
    (cut_archive, "has 7 bytes", "-m vit_course data"),
    (cut_archive_in_a_folder_that_the_variable_names, "has 7 bytes", "-m vit_course data --root "),
    (damaged_unpacked_files, "data_batch_1 of ", "-m vit_course data"),
    (
        data_that_are_not_where_the_variable_says,
        "where there are no data",
        "set it to a folder with pictures",
    ),
    (jupyter_is_missing, "No module named 'jupyterlab'", f"{PIP} --force-reinstall jupyterlab"),
    (kernel_without_ipykernel, "No module named 'ipykernel'", f"{PIP} --force-reinstall ipykernel"),
    (kernel_that_dies, "Kernel died before replying", f"{PIP} --force-reinstall ipykernel"),
]


@pytest.mark.parametrize(("way", "words", "mend"), BREAKS, ids=[row[0].__name__ for row in BREAKS])
def test_the_doctor_names_what_is_broken_and_its_mend_works(way, words, mend, machine, capsys):
    check, do = way(machine)
    (finding,) = doctor.run((check,)) if hasattr(check, "__name__") else [check()]
    assert finding.status in ("warn", "fail") and words in finding.detail and mend in finding.fix, finding
    assert "\n" not in finding.detail + finding.fix
    do(finding.fix)
    assert check().status == "ok", check()


def test_a_user_without_a_home_is_told_where_answers_go(machine):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    machine.patch.setattr(Path, "home", no_home)
    assert doctor.check_folder() == doctor.Finding("Folder", "ok", "right answers are kept in answers")
    (machine.root / "answers").touch()
    assert doctor.check_folder().fix == "set VIT_COURSE_ANSWERS to a folder that you can write"


def test_what_needs_a_broken_torch_is_not_blamed_too(machine):
    machine.hidden["torch"] = ModuleNotFoundError("No module named 'torch'")
    machine.versions |= {"torch": None, "torchvision": None}

    def check_torch():
        return doctor.check_torch(machine.load)

    found = doctor.run((packages(machine).func, check_torch, doctor.check_device, doctor.check_profile))
    assert [one.status for one in found] == ["ok", "fail", "skip", "skip"]
    assert packages(machine)().status == "ok"
