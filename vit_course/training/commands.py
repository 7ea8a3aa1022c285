"""Command lines with commands: `python -m vit_course`, `python -m vit_classroom`; each is imported when it is called.

Both open with no package installed, so that they can say what is missing.
"""

import os
import sys
from difflib import get_close_matches
from importlib import import_module

Commands = dict[str, tuple[str, str]]
"""By the name of a command the module whose `main` does it, or "module:function", and what it is for."""


def usage(program: str, commands: Commands) -> str:
    """List the commands."""
    lines = [f"  {command:12} {what}" for command, (_, what) in commands.items()]
    return "\n".join([f"usage: python -m {program} COMMAND [options]", "", *lines])


def first_line(error: Exception) -> str:
    """Return what an error says, in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def run_command(program: str, commands: Commands, arguments: list[str]) -> int:
    """Do what the command line asks for; return the exit status."""
    sys.stdout.reconfigure(errors="replace")  # what the console cannot show is a question mark
    try:
        try:
            return hand_on(program, commands, arguments)
        finally:  # also after a command's --help, which leaves by SystemExit
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def hand_on(program: str, commands: Commands, arguments: list[str]) -> int:
    """Hand the rest of the command line on to a command; return its exit status."""
    name, *rest = arguments or ["--help"]
    if name in ("--help", "-h"):
        print(usage(program, commands))
        return 0
    if name not in commands:
        meant = "".join(f": did you mean {command}?" for command in get_close_matches(name, commands, 1))
        print(f"there is no command {name!r}{meant}\n\n{usage(program, commands)}", file=sys.stderr)
        return 2
    module, _, function = commands[name][0].partition(":")
    try:
        command = getattr(import_module(module), function or "main")
    except (ImportError, OSError) as error:  # OSError: a library that does not fit this system
        print(f"{first_line(error)}: python -m vit_classroom doctor shows how to fix it", file=sys.stderr)
        return 1
    return command(rest)
