"""Judge the answers that standard input names: `alone` calls it."""

import json
import sys

from vit_classroom.grading.alone import judge


def main() -> None:
    """Print a line for each answer, which begins with the token."""
    job = json.load(sys.stdin)
    for exercise, cells in job["answers"]:
        judged = [exercise, judge(exercise, cells)]
        print(f"\n{job['token']}{json.dumps(judged)}", flush=True)


if __name__ == "__main__":
    main()
