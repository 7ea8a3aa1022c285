"""Checks of lesson NN."""

from vit_course.extensions.SLUG import mean_square_of_SLUG
from vit_classroom.checks.task import exercise, results

exercise(
    mean_square_of_SLUG,
    results(
        lambda: [([3.0],), ([1.0, 2.0, 3.0],), ([-0.5, 0.5, 4.0, 0.0],)],
        {
            "you add the squares: divide by how many there are": lambda values: sum(x**2 for x in values),
            "you square the mean: square each number first": lambda values: (sum(values) / len(values)) ** 2,
            "your numbers are not squared": lambda values: sum(values) / len(values),
            "you take the root in addition": lambda values: (sum(x**2 for x in values) / len(values)) ** 0.5,
        },
    ),
)
