"""`python -m vit_classroom doctor | progress | update`: what a class does from a command line."""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  (pip asks; a folder that is only unpacked does not)
    sys.exit("FAIL  Python is too old: install Python 3.10 or newer")

from vit_course.training.commands import run_command

COMMANDS = {
    "doctor": ("vit_classroom.doctor", "check this machine, and show how to fix problems"),
    "progress": ("vit_classroom.progress.command", "which exercises are right: yours, or those of a class"),
    "update": ("vit_classroom.update.command", "the newest release in this copy: what you wrote stays"),
}


def main(arguments: list[str]) -> int:
    """Do what the command line asks for; return the exit status."""
    return run_command("vit_classroom", COMMANDS, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
