"""Ways to break a machine: the doctor names each in one line, and the mend that it prints was tried here and works.

A mend that is a command of the course or of Jupyter is run as it is printed. One that is for `pip`, or for a person,
is done as the words say: tests have no network.
"""

import hashlib
import os
import shlex
import shutil
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from unittest.mock import Mock

import pytest
from jupyter_client.launcher import launch_kernel
from jupyter_client.provisioning import local_provisioner
from PIL import Image

from vit_classroom import answer_folder, doctor
from vit_course.data import cifar10
from vit_course.training import paths

OFFICIAL = b"the official archive of this test"
PIP, GET = "-m pip install", "-m vit_course data"  # the Python before them depends on where the course lies


class Machine:
    """A machine to break: a course's folder of its own, and what pip, Jupyter and the system say."""

    def __init__(self, folder, monkeypatch):
        self.root, self.home, self.patch = folder / "course", folder / "home", monkeypatch
        self.hidden, self.versions = {}, {}
        for part in ("data", "checkpoints", "runs"):
            self.root.joinpath("data", part).mkdir(parents=True)
        self.home.mkdir()
        for module in (doctor, paths, answer_folder):
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

    def pictures(self, *places):
        """Put a picture of each class into the data folder."""
        for place in places:
            folder = self.root / "data" / "pets" / place
            folder.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8)).save(folder / "1.png")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def fetch(machine, fix):
    """Run the command that gets CIFAR-10, here from a file; what it names of folders is what counts."""
    source = machine.root / "mirror"
    source.write_bytes(OFFICIAL)
    machine.patch.setenv("VIT_COURSE_CIFAR10_URL", source.as_uri())
    words = [word.strip('"') for word in shlex.split(fix, posix=os.name == "posix")]
    machine.patch.chdir(machine.root)
    assert words[1:4] == ["-m", "vit_course", "data"] and cifar10.main(words[4:]) == 0


def official(machine):
    """Take a few bytes for the official archive."""
    size, md5 = len(OFFICIAL), hashlib.md5(OFFICIAL).hexdigest()
    machine.patch.setattr(cifar10.verify_archive, "__defaults__", (size, md5))
    known = cifar10.download_cifar10.__kwdefaults__ | {"size": size, "md5": md5}
    machine.patch.setattr(cifar10.download_cifar10, "__kwdefaults__", known)


# -- ways to break it; each returns the check that should notice, and the mend. Where several breaks are alike, a
# function makes the whole row: the way, words of what is found, words of the mend.


def packages(machine):
    return partial(doctor.check_packages, machine.version, machine.load)


def version(name, number, words):
    """Let a package have another version; None: it is missing."""

    def way(machine):
        machine.versions[name] = number
        return packages(machine), lambda fix: machine.versions.clear()

    return way, words, f"{PIP} -r requirements.txt"


def imported(name, error, check=None, install=""):
    """Let the import of a package stop with an error."""
    install = install or name

    def way(machine):
        machine.hidden[name] = error
        found = partial(check, machine.load) if check else packages(machine)
        return found, lambda fix: machine.hidden.clear()

    words = str(error).partition("\n")[0] if check else f"{install} cannot be imported ({error}"
    return way, words, f"--force-reinstall {install}"


def setting(name, value, check, words):
    """Set a variable to what cannot be."""

    def way(machine):
        machine.patch.setenv(name, value)
        return check, lambda fix: machine.patch.delenv(name)

    return way, words, f"unset {name}"


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
        for module in (doctor, paths, answer_folder):
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


def cifar(file, words, mend=GET, chosen=""):
    """Let a file of CIFAR-10 be cut, in the folder for data or in a chosen one; "": there is none."""

    def way(machine):
        official(machine)
        if file:
            path = machine.root / (chosen or "data") / file
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(OFFICIAL[:7])
        if chosen:
            machine.patch.setenv("VIT_COURSE_DATA", str(machine.root / chosen))
        return data(machine), partial(fetch, machine)

    return way, words, mend


def no_data_in_a_chosen_folder(machine):
    machine.patch.setenv("VIT_COURSE_DATA", str(machine.root / "nowhere"))

    def name_another(fix):
        machine.pictures("train/cat", "train/dog", "test/cat", "test/dog")
        machine.patch.setenv("VIT_COURSE_DATA", str(machine.root / "data" / "pets"))

    return data(machine), name_another


def kernel_that_dies(machine):
    (machine.root / "ipykernel_launcher.py").write_text("raise SystemExit(1)")
    machine.patch.setenv("PYTHONPATH", str(machine.root))
    machine.patch.setattr(local_provisioner, "launch_kernel", launch_kernel)  # no fork of another one
    return doctor.check_jupyter, lambda fix: machine.patch.delenv("PYTHONPATH")


HOME = "right answers are kept in ~/vit-course-"
NO_MODULE = "No module named "
TORCH, JUPYTER = doctor.check_torch, doctor.check_jupyter
BREAKS = {
    "no package": version("einops", None, "einops is missing"),
    "no tool": version("ruff", None, "ruff is missing"),
    "old package": version("numpy", "1.20", "numpy 1.20 (needs"),
    "package without its files": imported(
        "einops", ImportError("cannot import name 'rearrange' from 'einops'")
    ),
    "library for another system": imported("PIL", OSError("wrong ELF class"), None, "pillow"),
    "no torch": imported("torch", ModuleNotFoundError(f"{NO_MODULE}'torch'"), TORCH, "torch torchvision"),
    "other torch": imported("torchvision", RuntimeError("no nms\nmore"), TORCH, "torch torchvision"),
    "no jupyter": imported("jupyterlab", ImportError(f"{NO_MODULE}'jupyterlab'"), JUPYTER),
    "no ipykernel": imported("ipykernel", ImportError(f"{NO_MODULE}'ipykernel'"), JUPYTER),
    "kernel that dies": (kernel_that_dies, "Kernel died before", f"{PIP} --force-reinstall ipykernel"),
    "unknown profile": setting(
        "VIT_COURSE_PROFILE", "huge", doctor.check_profile, "'huge': use smoke, cpu, gpu"
    ),
    "unknown device": setting("VIT_COURSE_DEVICE", "cuda:99", doctor.check_device, "'cuda:99' is not here"),
    "full disk": (full_disk, "0.0 GiB free", "pip cache purge"),
    "file where answers go": (file_where_answers_go, f"answers is a file; {HOME}answers", "delete "),
    "read-only course": (read_only_course, f"the course is read-only, but {HOME}answers", "copy "),
    "no folder for answers": (no_folder_for_answers, "file is a file", "set VIT_COURSE_ANSWERS to a folder"),
    "no data": cifar("", "lessons use Shapes-10"),
    "cut archive": cifar("cifar-10-python.tar.gz", "has 7 bytes"),
    "cut archive elsewhere": cifar("cifar-10-python.tar.gz", "has 7 bytes", f"{GET} --root ", "mine"),
    "damaged unpacked files": cifar("cifar-10-batches-py/data_batch_1", "data_batch_1 of "),
    "no data elsewhere": (
        no_data_in_a_chosen_folder,
        "where there are no data",
        "set it to a folder with im",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_the_doctor_names_what_is_broken_and_its_mend_works(name, machine):
    way, words, mend = BREAKS[name]
    check, do = way(machine)
    (finding,) = doctor.run((check,)) if hasattr(check, "__name__") else [check()]
    assert finding.status in ("warn", "fail") and words in finding.detail and mend in finding.fix, finding
    assert "\n" not in finding.detail + finding.fix
    do(finding.fix)
    assert check().status == "ok", check()


def test_a_user_without_a_home_is_told_where_answers_go(machine):
    no_home = Mock(side_effect=RuntimeError("Could not determine home directory."))
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
