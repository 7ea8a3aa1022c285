"""Checks of lesson NN."""

from vit_course.beyond import SLUG
from vit_course.classroom.checks.compare import compare
from vit_course.classroom.checks.registry import exercise


@exercise(SLUG.mean_square_of_SLUG)
def check_mean_square_of_SLUG(answer):
    compare(
        answer,
        SLUG.mean_square_of_SLUG,
        [([3.0],), ([1.0, 2.0, 3.0],), ([-0.5, 0.5, 4.0, 0.0],)],
        [
            (
                lambda values: sum(value**2 for value in values),
                "you add the squares: divide by how many there are",
            ),
            (
                lambda values: (sum(values) / len(values)) ** 2,
                "you square the mean: square each number first",
            ),
            (lambda values: sum(values) / len(values), "your numbers are not squared"),
            (
                lambda values: (sum(value**2 for value in values) / len(values)) ** 0.5,
                "you take the root in addition",
            ),
        ],
    )
