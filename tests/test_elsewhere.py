"""The package works in odd places: a folder that cannot be written, strange letters, no home, other languages."""

import os
import shutil
import subprocess
import sys

import pytest

from vit_course.training.paths import ROOT

LINE = "train --data=shapes10 --train=40 --test=10 --model=linear --recipe=plain --epochs=1 --batch-size=20"
SETTINGS = [
    {"LANG": "C", "LC_ALL": "C", "TZ": "Asia/Kathmandu"},
    pytest.param({"LC_ALL": "ko_KR.UTF-8", "HOME": "/nonexistent"}, marks=pytest.mark.weekly),
]
AS_ANYBODY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""What takes from root the right to write where nobody may."""


@pytest.fixture(scope="module")
def run_read_only(tmp_path_factory):
    """Run the door of a copy that may not be written, in a folder with blanks and letters of other languages."""
    folder = tmp_path_factory.mktemp("elsewhere") / "Übung 1, 비전 '변환기'"
    shutil.copytree(ROOT / "vit_course", folder / "vit_course", ignore=shutil.ignore_patterns("__pycache__"))
    places = (folder, *folder.rglob("*"))
    for path in places:
        path.chmod(0o555 if path.is_dir() else 0o444)
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    command = [*(AS_ANYBODY if root and shutil.which("setpriv") else []), sys.executable, "-m", "vit_course"]

    def run(line, *more, **settings):
        environment = {**os.environ, "PYTHONPATH": str(folder), **settings}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return subprocess.run(
            [*command, *line.split(), *more], cwd=folder, env=environment, capture_output=True, timeout=300
        )

    yield run
    assert sys.platform == "win32" or set(places) == {folder, *folder.rglob("*")}
    for path in places:
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_read_only_copy_trains_and_records_whatever_the_language_and_the_letters_around_it(
    settings, run_read_only, tmp_path
):
    out = tmp_path / "läuft 실행"
    done = run_read_only(LINE, f"--out={out}", **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (out / "record.json").exists() and (out / "log.jsonl").read_text(encoding="utf-8").count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="folders are read-only in another way there")
@pytest.mark.parametrize(
    ("line", "why"),
    [(f"{LINE} --out=runs/x", "runs/x cannot be written"), ("data", "data cannot be written")],
    ids=["train", "data"],
)
def test_what_would_write_into_a_read_only_copy_is_refused_in_one_line(line, why, run_read_only):
    done = run_read_only(line, VIT_COURSE_CIFAR10_URL="file:///nowhere", PYTHONIOENCODING="utf-8")
    said = (done.stdout + done.stderr).decode().strip()
    assert done.returncode == 1 and why in said and said.endswith("변환기' is read-only"), said
    assert said.count("\n") == 0
