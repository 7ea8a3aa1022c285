"""Checks of lesson NN."""

from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.task import exercise, results
from vit_course.extensions.SLUG import mean_square_of_SLUG

known = Mistakes(__file__, mean_square_of_SLUG)

exercise(
    mean_square_of_SLUG,
    results(
        lambda: [([3.0],), ([1.0, 2.0, 3.0],), ([-0.5, 0.5, 4.0, 0.0],)],
        known("mean_square_of_SLUG results"),
    ),
)
