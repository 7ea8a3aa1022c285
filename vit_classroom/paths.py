"""Where the classroom finds the lessons."""

from vit_course.training.paths import ROOT

LESSONS = ROOT / "lessons"
