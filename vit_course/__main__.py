"""The door of the package: `python -m vit_course doctor | data | train | predict | evaluate | export | experiments...`.

It opens with no package installed, so that it can say what is missing.
"""

import os
import sys

if sys.version_info < (3, 10):  # noqa: UP036  (pip asks; a folder that is only unpacked does not)
    sys.exit("FAIL  Python is too old: install Python 3.10 or newer")

from difflib import get_close_matches
from importlib import import_module

from vit_course.classroom.doctor import first_line

COMMANDS = {
    "doctor": ("vit_course.classroom.doctor", "main", "is everything here that the course needs?"),
    "data": ("vit_course.data.cifar10", "main", "download CIFAR-10 and verify it"),
    "train": ("vit_course.machinery.command", "main", "train a model and record the run"),
    "predict": ("vit_course.beyond.use_commands", "predict", "say what a trained model sees in pictures"),
    "evaluate": ("vit_course.beyond.use_commands", "evaluate", "score a trained model on a data set"),
    "export": ("vit_course.beyond.use_commands", "export", "write a trained model as ONNX"),
    "experiments": ("vit_course.experiments.run", "main", "run and record the experiments that lessons show"),
    "progress": (
        "vit_course.classroom.progress.command",
        "main",
        "which exercises are right: yours, or those of a class",
    ),
}


def usage() -> str:
    """List the commands."""
    lines = [f"  {command:12} {what}" for command, (_, _, what) in COMMANDS.items()]
    return "\n".join(["usage: python -m vit_course COMMAND [options]", "", *lines])


def main(arguments: list[str]) -> int:
    """Do what the command line asks for; return the exit status."""
    sys.stdout.reconfigure(errors="replace")  # what the console cannot show is a question mark
    try:
        status = handed_on(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def handed_on(arguments: list[str]) -> int:
    """Hand the rest of the command line on to a command; return its exit status."""
    name, *rest = arguments or ["--help"]
    if name in ("--help", "-h"):
        print(usage())
        return 0
    if name not in COMMANDS:
        meant = "".join(f": did you mean {command}?" for command in get_close_matches(name, COMMANDS, 1))
        print(f"there is no command {name!r}{meant}\n\n{usage()}", file=sys.stderr)
        return 2
    module, function, _ = COMMANDS[name]
    try:
        command = getattr(import_module(module), function)
    except (ImportError, OSError) as error:  # OSError: a library that does not fit this system
        print(f"{first_line(error)}: python -m vit_course doctor says how to mend it", file=sys.stderr)
        return 1
    return command(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
