"""`python -m vit_classroom doctor` checks everything that the course needs, and prints how to fix each problem.

Each check returns one `Finding`. A check imports packages only when it runs, because they may be missing or broken.
Lesson 00 shows the same table.
"""

import argparse
import importlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from vit_classroom.answer_folder import FALLBACK, answer_folders
from vit_classroom.notebook import in_notebook
from vit_course.training.commands import first_line
from vit_course.training.paths import ROOT, obstacle

REQUIREMENTS = ROOT / "requirements.txt"
GIB = 2**30
LESSONS_NEED = {
    *("torch", "torchvision", "numpy", "pillow", "einops", "safetensors", "tqdm", "filelock"),
    *("matplotlib", "ipywidgets", "anywidget", "traitlets", "pyyaml"),
}
"""Packages without which lessons do not run. The others open, build or test them: a missing one is a warning."""
OWN_LINE = {"torch", "torchvision"}
"""Packages that a check of their own looks at: one cause, one line."""
MODULES = {"pillow": "PIL", "pyyaml": "yaml"}
"""Names of modules that are not those of their packages."""


class Finding(NamedTuple):
    """What one check found.

    Args:
        name: what was looked at.
        status: "ok", "warn" (the course works, with a limit), "fail" (it does not), or "skip" (something else that
            failed has to be fixed first).
        detail: what is there.
        fix: the one command, or the one thing to do, that fixes it; empty if all is well.
    """

    name: str
    status: str
    detail: str
    fix: str = ""


def command(*words: str) -> str:
    """Return the command `python -m ...` for the Python that runs this, to be typed in the course's folder."""
    python = Path(sys.executable)
    words = (str(python.relative_to(ROOT) if ROOT in python.parents else python), "-m", *words)
    return " ".join(f'"{word}"' if set(word) & set(" <>") else word for word in words)


def check_python() -> Finding:
    """Which Python this is; the door lets no older one in than the course needs."""
    return Finding("Python", "ok", platform.python_version())


def version_numbers(version: str) -> list[int]:
    """Turn "2.6.0+cu124" into [2, 6, 0]."""
    return [int(number) for number in re.findall(r"\d+", re.split(r"[+a-z]", version)[0])]


def read_requirements(text: str) -> dict[str, str]:
    """Turn the lines `name>=version` of requirements.txt into {name: version}."""
    return dict(re.findall(r"^([\w.-]+)>=([\w.]+)", text, flags=re.MULTILINE))


def check_packages(
    installed: Callable[[str], str] | None = None, load: Callable[[str], ModuleType] = importlib.import_module
) -> Finding:
    """Every package of requirements.txt is installed, new enough, and can be imported where lessons do."""
    installed = installed or metadata.version
    if not REQUIREMENTS.exists():
        return Finding("Packages", "warn", "requirements.txt is missing, so versions were not compared")
    problems, broken = {}, []
    for name, needed in read_requirements(REQUIREMENTS.read_text(encoding="utf-8")).items():
        try:
            found = installed(name)
            if version_numbers(found) < version_numbers(needed):
                problems[name] = f"{name} {found} (needs {needed})"
            elif name in LESSONS_NEED - OWN_LINE:
                load(MODULES.get(name, name))
        except metadata.PackageNotFoundError:
            if name not in OWN_LINE:
                problems[name] = f"{name} is missing"
        except Exception as error:
            broken.append(name)
            problems[name] = f"{name} cannot be imported ({first_line(error)})"
    if not problems:
        return Finding("Packages", "ok", "all of requirements.txt")
    status = "fail" if LESSONS_NEED & problems.keys() else "warn"
    # What is there in the right version but broken, pip leaves as it is unless it is forced.
    fix = ("--force-reinstall", *broken) if broken else ("-r", REQUIREMENTS.name)
    return Finding("Packages", status, ", ".join(problems.values()), command("pip", "install", *fix))


def check_torch(load: Callable[[str], ModuleType] = importlib.import_module) -> Finding:
    """Torch and torchvision fit together: an operator compiled for the pair runs."""
    try:
        torch, torchvision = load("torch"), load("torchvision")
        torchvision.ops.nms(torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([1.0]), 0.5)
    except Exception as error:
        detail = f"torch and torchvision do not work together: {first_line(error)}"
        fix = "install", "--upgrade", "--force-reinstall", "torch", "torchvision"
        return Finding("PyTorch", "fail", detail, command("pip", *fix))
    return Finding("PyTorch", "ok", f"torch {torch.__version__}, torchvision {torchvision.__version__}")


def check_device() -> Finding:
    """What models will run on."""
    import torch

    from vit_course.training.device import get_device

    try:
        device = get_device()
    except ValueError as error:
        return Finding(
            "Device", "fail", str(error), "unset VIT_COURSE_DEVICE, or set it to a device of this machine"
        )
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info()
        detail = f"{torch.cuda.get_device_name()}, {free / GIB:.1f} of {total / GIB:.1f} GiB free"
        if free < 2 * GIB:
            return Finding("Device", "warn", detail, "close other notebooks and programs that use the GPU")
        return Finding("Device", "ok", detail)
    name = "Apple GPU (MPS)" if device.type == "mps" else f"CPU, {os.cpu_count()} processor cores"
    if device.type == "cpu" and torch.backends.mps.is_available():
        name += " (VIT_COURSE_DEVICE=mps uses the Apple GPU, whose results can differ)"
    return Finding("Device", "ok", name)


def check_profile() -> Finding:
    """How large the runs in the lessons will be."""
    from vit_classroom.profiles import get_profile

    try:
        return Finding("Profile", "ok", get_profile().name)
    except ValueError as error:
        return Finding("Profile", "fail", str(error), "unset VIT_COURSE_PROFILE, or set it to one of these")


def check_disk(usage: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage) -> Finding:
    """There is room for CIFAR-10 (half a GiB while it is unpacked) and for checkpoints."""
    free = usage(ROOT)[2]
    if free >= GIB:
        return Finding("Disk", "ok", f"{free / GIB:.1f} GiB free")
    # What pip keeps of old downloads is often several GiB.
    status = "fail" if free < GIB / 4 else "warn"
    return Finding(
        "Disk",
        status,
        f"{free / GIB:.1f} GiB free, which is little for data",
        command("pip", "cache", "purge"),
    )


def called(folder: Path) -> str:
    """Name a folder as a student may know it: from the course's folder or the home folder, where it lies in one."""
    if ROOT in folder.parents:
        return str(folder.relative_to(ROOT))
    if folder.name == FALLBACK:
        return f"~/{FALLBACK}"
    return "the folder that VIT_COURSE_ANSWERS names"


def check_folder() -> Finding:
    """The course's folder can be written, and right answers can be kept."""
    folders = answer_folders()
    writable = [folder for folder in folders if not obstacle(folder)]
    if not writable:
        detail = f"right answers cannot be kept: {obstacle(folders[0])}"
        return Finding("Folder", "fail", detail, "set VIT_COURSE_ANSWERS to a folder that you can write")
    detail = f"right answers are kept in {called(writable[0])}"
    if obstacle(ROOT):
        fix = f"to change and save notebooks, copy {ROOT} into your home folder, and open the copy"
        return Finding("Folder", "warn", f"the course is read-only, but {detail}", fix)
    if writable[0] != folders[0]:
        fix = f"delete {folders[0]}, unless you need it"
        return Finding("Folder", "warn", f"{obstacle(folders[0])}; {detail}", fix)
    return Finding("Folder", "ok", detail)


def check_data(root: str = "data") -> Finding:
    """Which pictures `load_dataset()` will give: a folder of them is read as lessons read it, the archive verified."""
    from vit_course.data.locate import ARCHIVE, locate, near_miss

    place = locate(root=root)
    here = () if place.folder.resolve() == (ROOT / "data").resolve() else ("--root", str(place.folder))
    get_cifar10 = command("vit_course", "data", *here)
    if place.kind == "shapes10":
        return Finding("Data", "ok", "Shapes-10, which VIT_COURSE_DATA asks for")
    if place.kind in ("archive", "unpacked"):
        from vit_course.data.cifar10 import verify_archive, verify_unpacked

        try:
            if place.kind == "archive":
                verify_archive(place.folder / ARCHIVE)
            else:
                verify_unpacked(place.folder)
        except (OSError, ValueError) as error:
            return Finding("Data", "fail", first_line(error), get_cifar10)
        return Finding(
            "Data", "ok", f"CIFAR-10, {'the official archive' if place.kind == 'archive' else place.kind}"
        )
    if place.kind == "pictures":
        try:
            from vit_course.data import load_dataset
        except (ImportError, OSError):  # PyTorch has a line of its own
            return Finding("Data", "ok", f"images in the folder {place.folder.name}")
        try:
            return Finding("Data", "ok", load_dataset(place.folder).provenance)
        except (OSError, ValueError) as error:
            return Finding("Data", "fail", str(error), "correct or remove the files that this line names")
    miss = near_miss(place.folder)
    if place.name == "auto":
        detail = "no CIFAR-10, so lessons use Shapes-10, which the course draws"
        return Finding("Data", "warn", detail, miss or get_cifar10)
    fix = miss or "unset VIT_COURSE_DATA, or set it to a folder with images"
    fix = get_cifar10 if place.name == "cifar10" and not miss else fix
    return Finding("Data", "fail", f"VIT_COURSE_DATA is {place.name!r}, where there are no data", fix)


def check_jupyter(load: Callable[[str], ModuleType] = importlib.import_module) -> Finding:
    """JupyterLab is there, and a Python kernel starts and answers; if this is a kernel, all that is so."""
    name = "jupyterlab"
    try:
        if not in_notebook():
            load(name)
            name = "ipykernel"
            load(name)
            manager, client = load("jupyter_client.manager").start_new_kernel(startup_timeout=60)
            client.stop_channels()
            manager.shutdown_kernel(now=True)
    except (ImportError, RuntimeError) as error:  # a kernel that dies says why on this screen itself
        return Finding(
            "Jupyter", "fail", first_line(error), command("pip", "install", "--force-reinstall", name)
        )
    return Finding("Jupyter", "ok", "there is a Python kernel")


CHECKS = (
    check_python,
    check_packages,
    check_torch,
    check_device,
    check_profile,
    check_disk,
    check_folder,
    check_data,
    check_jupyter,
)
NEED_TORCH = (check_device, check_profile)


def run(checks: tuple[Callable[[], Finding], ...] = CHECKS) -> list[Finding]:
    """Make all checks. A check that itself breaks is a finding too, so this never raises."""
    findings = []
    for check in checks:
        name = check.__name__.replace("check_", "").capitalize()
        if check in NEED_TORCH and any(one.name == "PyTorch" and one.status == "fail" for one in findings):
            findings.append(Finding(name, "skip", "not checked, because PyTorch does not work yet"))
            continue
        try:
            findings.append(check())
        except Exception as error:
            detail = f"{type(error).__name__}: {first_line(error)}"
            findings.append(Finding(name, "fail", detail, command("pip", "install", "-r", REQUIREMENTS.name)))
    return findings


def report(findings: list[Finding]) -> None:
    """Print findings as a table, each fix below its problem."""
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        status = "FAIL" if finding.status == "fail" else finding.status
        lines.append(f"{status:<4}  {finding.name:<{width}}  {finding.detail}")
        if finding.fix:
            lines.append(f"{'':<{width + 8}}to fix it: {finding.fix}")
    broken = sum(finding.status == "fail" for finding in findings)
    verdict = "The course can run here."
    if broken:
        verdict = f"{broken} of {len(findings)} checks failed. Run the commands in the folder of the course."
    print("\n".join([*lines, "", verdict]))


def main(arguments: list[str]) -> int:
    """Look at everything and report; return the exit status: 1 if something must be fixed."""
    description = "Check everything that the course needs, and print how to fix each problem."
    argparse.ArgumentParser(prog="python -m vit_classroom doctor", description=description).parse_args(
        arguments
    )
    results = run()
    report(results)
    return int(any(finding.status == "fail" for finding in results))
