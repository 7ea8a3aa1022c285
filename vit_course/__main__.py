"""`python -m vit_course data | train | predict | evaluate | export`: what the library does from a command line."""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  (pip asks; a folder that is only unpacked does not)
    sys.exit("FAIL  Python is too old: install Python 3.10 or newer")

from vit_course.training.commands import run_command

COMMANDS = {
    "data": ("vit_course.data.cifar10", "download CIFAR-10 and verify it"),
    "train": ("vit_course.training.command", "train a model and record the run"),
    "predict": ("vit_course.extensions.use_commands:predict", "classify images with a trained model"),
    "evaluate": ("vit_course.extensions.use_commands:evaluate", "test a trained model on a data set"),
    "export": ("vit_course.extensions.use_commands:export", "write a trained model as ONNX"),
}


def main(arguments: list[str]) -> int:
    """Do what the command line asks for; return the exit status."""
    return run_command("vit_course", COMMANDS, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
