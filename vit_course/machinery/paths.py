"""Where things lie: the one place that knows how deep this package is."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The repository: the folder that holds `vit_course/`, `lessons/`, `data/` and what students keep."""
LESSONS = ROOT / "lessons"
DATA = ROOT / "data"
RUNS = DATA / "runs"
CHECKPOINTS = DATA / "checkpoints"
