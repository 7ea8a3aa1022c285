"""The doctor finds nothing wrong here, and names every illness it knows together with its cure."""

import io
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from PIL import Image

from vit_classroom import __main__ as door
from vit_classroom import doctor
from vit_course.data import load_dataset


def test_the_command_prints_the_table_and_succeeds(capsys):
    assert door.main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert sum(line.startswith(("ok ", "warn ")) for line in told.splitlines()) == len(doctor.CHECKS)
    assert "The course can run here." in told


def test_a_wrong_profile_fails_the_command(monkeypatch, capsys):
    monkeypatch.setenv("VIT_COURSE_PROFILE", "huge")
    assert doctor.main([]) == 1
    told = capsys.readouterr().out
    assert "'huge'" in told
    assert "unset VIT_COURSE_PROFILE" in told


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("2.6.0+cu124", [2, 6, 0]), ("2.10", [2, 10]), ("3.1.0rc1", [3, 1, 0]), ("4.0.0a2", [4, 0, 0])],
)
def test_versions_compare_as_numbers_not_as_text(version, numbers):
    assert doctor.version_numbers(version) == numbers


def test_the_packages_that_lessons_need_are_all_required():
    required = doctor.read_requirements(doctor.REQUIREMENTS.read_text(encoding="utf-8"))
    assert required.keys() > doctor.LESSONS_NEED


@pytest.mark.parametrize(("free", "status"), [(0, "fail"), (doctor.GIB // 2, "warn"), (doctor.GIB, "ok")])
def test_a_full_disk_fails_and_half_a_gigabyte_is_a_warning(free, status):
    assert doctor.check_disk(lambda path: (0, 0, free)).status == status


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    """An empty data folder that VIT_COURSE_DATA does not hide."""
    monkeypatch.delenv("VIT_COURSE_DATA", raising=False)
    return tmp_path


@pytest.mark.parametrize("folder", [".", "pets"])
def test_a_folder_of_pictures_is_found_where_load_dataset_finds_it(data_folder, folder):
    write_pets(data_folder / folder)
    finding = doctor.check_data(str(data_folder))
    name = (data_folder / folder).name
    assert (finding.status, finding.detail) == ("ok", f"folder {name}, 2 train / 2 test pictures")
    assert load_dataset(root=data_folder).provenance.startswith(f"folder {name}")


def test_data_named_by_the_variable_must_be_there(data_folder, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_DATA", "cifar10")
    get = doctor.command("vit_course", "data", "--root", str(data_folder))
    assert doctor.check_data(str(data_folder)).fix == get
    monkeypatch.setenv("VIT_COURSE_DATA", "shapes10")
    assert doctor.check_data(str(data_folder)).status == "ok"


def write_pets(folder):
    """Write a folder of own images, one of each class in each half."""
    for half in ("train", "test"):
        for pet in ("cat", "dog"):
            (folder / half / pet).mkdir(parents=True)
            Image.new("RGB", (8, 8)).save(folder / half / pet / "1.png")


@pytest.mark.parametrize(("images", "status"), [(False, "warn"), (True, "ok")])
def test_data_are_found_where_torch_is_missing(data_folder, images, status):
    if images:
        write_pets(data_folder)
    hidden = "import sys; sys.modules.update(dict.fromkeys(['torch', 'torchvision', 'numpy', 'PIL']))"
    look = f"from vit_classroom import doctor; print(doctor.check_data({str(data_folder)!r}).status)"
    result = subprocess.run(
        [sys.executable, "-c", f"{hidden}\n{look}"], cwd=doctor.ROOT, capture_output=True, text=True
    )
    assert result.stdout.strip() == status, result.stderr


def test_a_kernel_that_runs_need_not_look_for_jupyter(monkeypatch):
    monkeypatch.setattr(doctor, "in_notebook", lambda: True)
    load = Mock(side_effect=ImportError("No module named 'jupyterlab'"))
    assert doctor.check_jupyter(load).status == "ok"


def test_a_check_that_breaks_is_a_finding_and_the_others_still_run():
    def check_moon():
        raise OSError("eclipse")

    broken, fine = doctor.run((check_moon, doctor.check_python))
    assert (broken.name, broken.status, broken.detail) == ("Moon", "fail", "OSError: eclipse")
    assert broken.fix.startswith(doctor.command("pip"))
    assert fine.status == "ok"


def test_a_command_names_a_python_inside_the_course_from_there_and_quotes_a_path_with_a_space(monkeypatch):
    monkeypatch.setattr(sys, "executable", str(doctor.ROOT / "env" / "python"))
    assert doctor.command("vit_course", "data") == f"{Path('env', 'python')} -m vit_course data"
    monkeypatch.setattr(sys, "executable", str(Path("my course", "python")))
    assert doctor.command("pip", "install", "torch>=2.6") == (
        f'"{Path("my course", "python")}" -m pip install "torch>=2.6"'
    )


@pytest.mark.parametrize(("encoding", "dash"), [("utf-8", "–"), ("ascii", "?")])
def test_the_report_is_aligned_with_each_fix_below_its_problem_on_consoles_of_every_kind(
    encoding, dash, monkeypatch
):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
    disk = doctor.Finding("Disk", "fail", "0.1 GiB – full", "pip cache purge")
    monkeypatch.setattr(doctor, "run", lambda: [doctor.Finding("Python", "ok", "3.12.1"), disk])
    assert door.main(["doctor"]) == 1
    sys.stdout.seek(0)
    assert sys.stdout.read() == (
        "ok    Python  3.12.1\n"
        f"FAIL  Disk    0.1 GiB {dash} full\n"
        "              to fix it: pip cache purge\n"
        "\n"
        "1 of 2 checks failed. Run the commands in the folder of the course.\n"
    )
