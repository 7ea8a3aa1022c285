"""What notebooks use beside the model: checks, figures, the explorer, the clinic, the doctor, profiles."""

from vit_course.classroom import plots
from vit_course.classroom.checks import check

__all__ = ["check", "plots"]
