"""The face of the package and its door: cheap to import, and with something to say on every machine."""

import os
import pkgutil
import re
import subprocess
import sys

import pytest

import vit_course
from vit_classroom import __main__ as classroom_door
from vit_classroom import doctor
from vit_course import __main__ as door
from vit_course.training.paths import ROOT

DOORS = {"vit_course": door, "vit_classroom": classroom_door}
COMMANDS = [(program, command) for program, one in DOORS.items() for command in one.COMMANDS]


def python(code):
    """Run code in a fresh process."""
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)


# --- the face


def test_every_name_of_the_face_arrives_none_is_also_a_modules_and_there_is_no_other():
    names = ", ".join(vit_course.__all__)
    done = python(f"from vit_course import {names}; print(*(name.__name__ for name in ({names})))")
    assert done.stdout.split() == list(vit_course.__all__), done.stderr
    assert set(vit_course.__all__) <= set(dir(vit_course))
    assert not set(vit_course.__all__) & {module.name for module in pkgutil.iter_modules(vit_course.__path__)}
    with pytest.raises(AttributeError, match="'vit_course' has no attribute 'create_vitt'"):
        vit_course.create_vitt  # noqa: B018


# --- the door


@pytest.mark.parametrize(("program", "command"), COMMANDS)
def test_every_command_calls_itself_as_it_was_called(program, command, capsys):
    with pytest.raises(SystemExit) as stopped:
        DOORS[program].main([command, "--help"])
    assert stopped.value.code == 0
    assert re.match(rf"usage: python -m {program} {command}[ \n]", capsys.readouterr().out)


@pytest.mark.parametrize("program", DOORS)
@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_without_a_command_all_of_them_are_listed(program, arguments, capsys):
    assert DOORS[program].main(arguments) == 0
    printed = capsys.readouterr().out
    assert all(f"\n  {command} " in printed for command in DOORS[program].COMMANDS)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("trainn", "there is no command 'trainn': did you mean train?\n"),
        ("xyz", "there is no command 'xyz'\n"),
    ],
)
def test_an_unknown_command_fails_with_the_one_that_was_meant(name, said, capsys):
    assert door.main([name, "--epochs=1"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith(said) and "usage:" in printed.err


def test_every_command_that_a_text_names_is_there():
    texts = [path for ending in ("py", "md", "yaml") for path in ROOT.glob(f"[vld]*/**/*.{ending}")]
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in [*texts, *ROOT.glob("*.md"), ROOT / "Makefile"]
        for name in re.findall(
            r"python -m (vit_course|vit_classroom) ([a-z][\w.]*)", path.read_text(encoding="utf-8")
        )
    }
    assert {name for _, name in named} >= {("vit_classroom", "doctor"), ("vit_course", "train")}
    assert {pair for pair in named if pair[1] not in COMMANDS} == set()


# --- machines on which the course cannot run


def open_door(program, command, hidden, before=""):
    """Call a command in a fresh process that cannot import some modules; show which of ours it imported."""
    return python(
        f"import json, runpy, sys\nsys.modules.update(dict.fromkeys({hidden}))\n{before}\n"
        f"sys.argv = [{program!r}, {command!r}]\n"
        f"try:\n    runpy.run_module({program!r}, run_name='__main__')\nfinally:\n"
        "    ours = [m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'vit_course']\n"
        "    print(json.dumps(ours))"
    )


PACKAGES = sorted(doctor.LESSONS_NEED - {"pillow"} | {"PIL", "jupyter_client", "yaml"})


def test_the_doctor_speaks_where_no_package_is_installed():
    done = open_door("vit_classroom", "doctor", PACKAGES)
    assert done.returncode == 1 and done.stderr == ""
    for name in ("Python", "PyTorch", "Data", "Jupyter"):
        assert re.search(rf"^(ok|FAIL|warn) +{name}", done.stdout, re.MULTILINE)


def test_a_command_that_misses_a_package_names_it_and_the_doctor():
    done = open_door("vit_course", "train", PACKAGES)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert re.search(r"torch.*: python -m vit_classroom doctor shows how to fix it", done.stderr)


@pytest.mark.parametrize(("program", "command"), [("vit_classroom", "doctor"), ("vit_course", "train")])
def test_an_old_python_is_told_which_one_is_needed(program, command):
    done = open_door(program, command, PACKAGES, "sys.version_info = (3, 9, 15)")
    assert done.returncode == 1 and "install Python 3.10 or newer" in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])  # "": what is printed is written at the end
@pytest.mark.parametrize("command", ["--help", "train --help"])
def test_a_reader_that_has_seen_enough_is_no_error(command, unbuffered):
    reading, writing = os.pipe()
    os.close(reading)  # as `head` does, once it has its lines
    line = [sys.executable, "-m", "vit_course", *command.split()]
    how = {"stdout": writing, "stderr": subprocess.PIPE, "text": True, "timeout": 120}
    done = subprocess.run(line, cwd=ROOT, env=os.environ | {"PYTHONUNBUFFERED": unbuffered}, **how)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
