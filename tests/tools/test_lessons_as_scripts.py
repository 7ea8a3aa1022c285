"""Every lesson is also a plain script that runs from top to bottom."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*/lesson.py"))
SETTINGS = {
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
    "VIT_COURSE_DATA": "shapes10",
    "VIT_COURSE_PROFILE": "smoke",
    "VIT_COURSE_STRICT": "1",
}


@pytest.mark.weekly  # the solutions run the same code on every push
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.parent.name)
def test_a_lesson_runs_as_a_plain_script(lesson, tmp_path):
    run = subprocess.run(
        [sys.executable, str(lesson)],
        cwd=tmp_path,  # a lesson finds what it needs from any folder
        env=os.environ | SETTINGS,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-3000:]
