"""Where the classroom finds what comes with the course: lessons, recorded runs, photos."""

from vit_course.training.paths import ROOT, SHIPPED

LESSONS = ROOT / "lessons"
RUNS = SHIPPED / "runs"
PHOTOS = SHIPPED / "photos"
