"""The door of the package: `python -m vit_course doctor | data | train | experiments`."""

import sys
from importlib import import_module

COMMANDS = {
    "doctor": ("vit_course.classroom.doctor", "is everything here that the course needs?"),
    "data": ("vit_course.data.cifar10", "download CIFAR-10 and verify it"),
    "train": ("vit_course.recipes", "train a model and record the run"),
    "experiments": ("vit_course.experiments.run", "run and record the experiments that lessons show"),
}


def main(arguments: list[str]) -> int:
    """Hand the rest of the command line on to a command; return its exit status."""
    name, *rest = arguments or ["--help"]
    if name in COMMANDS:
        return import_module(COMMANDS[name][0]).main(rest)
    print("usage: python -m vit_course COMMAND [options]\n")
    print("\n".join(f"  {command:12} {what}" for command, (_, what) in COMMANDS.items()))
    return 0 if name in ("--help", "-h") else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
