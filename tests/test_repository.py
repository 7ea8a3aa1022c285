"""The repository keeps its own rules: its files, its one list of dependencies, its documents, its tests."""

import ast
import json
import re
import shutil
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from test_house import python_files

from vit_classroom import doctor

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10, where pytest brings the same under its old name
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


def read(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


@cache
def files_in_git() -> list[Path]:
    """The files that git keeps, or would keep once added."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this copy of the course is not in git")
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def text_files() -> dict[str, str]:
    """The text of every file in git that is text."""
    contents = {path: path.read_bytes() for path in files_in_git()}
    return {
        str(path.relative_to(ROOT)): data.decode("utf-8")
        for path, data in contents.items()
        if b"\0" not in data
    }


# -- layout


@pytest.mark.parametrize("name", ["LICENSE", "setup.py", ".ci/run"])
def test_a_file_that_no_other_test_reads_is_there(name):
    assert (ROOT / name).exists()


def test_no_file_in_git_is_over_one_mebibyte_but_trained_weights():
    large = [path for path in files_in_git() if path.stat().st_size > 2**20]
    assert [path.name for path in large if path.suffix != ".safetensors"] == []


def test_every_text_file_ends_its_lines_with_lf_alone():
    assert [name for name, text in text_files().items() if "\r" in text] == []


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("[ns]o*/*.ipynb")), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_a_notebook_holds_no_number_that_jupyterlab_would_write_in_another_way(path):
    numbers = []
    json.loads(path.read_text(encoding="utf-8"), parse_float=numbers.append)
    assert [number for number in numbers if float(number).is_integer()] == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?<![\w.~$}>])/(?:root|work|home|Users)/\w",  # a folder of one machine
        r"[A-Z]:\\+Users",
        r"\b(?:pypi|pythonhosted|anaconda)\.org\b|\bdownload\.pytorch\b",  # pip knows where packages come from
    ],
)
def test_no_file_in_git_depends_on_one_machine(pattern):
    assert {name: found for name, text in text_files().items() if (found := re.findall(pattern, text))} == {}


# -- dependencies


def test_every_requirement_has_a_lower_bound_and_no_upper_one():
    lines = [line for line in read("requirements.txt").splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[a-z][a-z-]*>=\d+(\.\d+)+", line)] == []
    assert len(doctor.read_requirements("\n".join(lines))) == len(lines)


def groups() -> dict[str, list[str]]:
    """The lines of requirements.txt by the first word of the comment above them."""
    _, *parts = re.split(r"^# (\w+): .*\n", read("requirements.txt"), flags=re.MULTILINE)
    return {name: lines.split() for name, lines in zip(parts[::2], parts[1::2], strict=True)}


def test_the_groups_of_pyproject_are_the_sections_of_requirements_txt():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    classroom, author = (project["optional-dependencies"][name] for name in ("classroom", "author"))
    assert groups() == {"library": project["dependencies"], "classroom": classroom, "author": author[1:]}
    assert author[0] == f"{project['name']}[classroom]"


def oldest_python() -> str:
    """The oldest version of Python that the course is for."""
    return tomllib.loads(read("pyproject.toml"))["project"]["requires-python"].removeprefix(">=")


def test_python_versions_agree():
    oldest = oldest_python()
    assert f"sys.version_info < ({oldest.replace('.', ', ')})" in read("vit_course", "__main__.py")
    assert f"Python {oldest}" in read("README.md")
    assert f'python: "{oldest}"' in read(".github", "workflows", "tests.yml")
    assert f"sys.version_info < ({oldest.replace('.', ', ')})" in read("Makefile")
    assert f"--python-version {oldest}" in read("Makefile")


def test_every_table_of_a_lesson_is_shown():  # the last line of a cell is, others need `display`
    for path in (ROOT / "lessons").glob("*/lesson.py"):
        for cell in path.read_text(encoding="utf-8").split("\n# %%"):
            body = ast.parse(f"# %%{cell}").body
            for node in ast.walk(ast.Module(body, [])):
                called = getattr(getattr(getattr(node, "value", None), "func", None), "id", "")
                assert called != "table" or node is body[-1] or not isinstance(node, ast.Expr), cell


def packages_imported(files) -> set[str]:
    """The packages that files import, anywhere in them, Python's own and the course's left out."""
    package_of = {"PIL": "pillow", "yaml": "pyyaml"}
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    third_party = (
        {name.split(".")[0] for name in names}
        - set(sys.stdlib_module_names)
        - {"vit_course", "vit_classroom"}
    )
    return {package_of.get(name, name) for name in third_party}


OPTIONAL = {"onnxruntime"}
"""What a command asks for by its name where it is missing: `export` compares its file with it."""


def test_the_library_imports_its_own_group_alone():
    library = (ROOT / "vit_course").rglob("*.py")
    imported = packages_imported(library) - OPTIONAL
    assert imported == {line.partition(">=")[0] for line in groups()["library"]}


def test_what_the_package_and_the_lessons_import_is_required():
    folders = ("vit_course", "vit_classroom", "lessons")
    users = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    needed = packages_imported(users) - {"IPython"} - OPTIONAL
    assert needed <= doctor.read_requirements(read("requirements.txt")).keys()
    assert needed <= doctor.LESSONS_NEED


# -- what a class installs and what a workflow runs cannot change overnight


def pinned(python):
    """What constraints.txt pins for a Python: versions by name."""
    lines = [line for line in read("constraints.txt").splitlines() if not line.startswith("#")]
    requirements = map(Requirement, lines)
    held = [
        one
        for one in requirements
        if not one.marker or one.marker.evaluate({"python_full_version": f"{python}.0"})
    ]
    pins = {one.name: re.fullmatch(r"==([\w.+!-]+)", str(one.specifier)).group(1) for one in held}
    assert len(pins) == len(held), "a package is pinned twice"
    return pins


@pytest.mark.parametrize("place", ["oldest", "newest"])
def test_constraints_pin_every_requirement_for_the_oldest_and_the_newest_python(place):
    workflow = read(".github", "workflows", "tests.yml")
    (python,) = re.findall(rf'versions: {place}\n\s+python: "([\d.]+)"', workflow)
    pins = pinned(python)
    for name, needed in doctor.read_requirements(read("requirements.txt")).items():
        assert doctor.version_numbers(pins[name]) >= doctor.version_numbers(needed)


def test_a_class_that_asks_for_constraints_gets_them():
    command = ["make", "-n", "-C", str(ROOT), "lab", "VENV=build/none"]
    if not shutil.which("make"):
        pytest.skip("there is no make")
    plain, held = (
        subprocess.run([*command, "SKIP_INSTALL=", *more], capture_output=True, text=True, check=True).stdout
        for more in (["CONSTRAINTS="], ["CONSTRAINTS=1"])
    )
    assert "constraints.txt" not in plain
    assert "pip install -r requirements.txt -c constraints.txt" in held


def test_actions_of_the_workflows_are_pinned_by_hash():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        used = re.findall(r"uses: *(\S+)", path.read_text(encoding="utf-8"))
        assert used
        assert [action for action in used if not re.search(r"@[0-9a-f]{40}$", action)] == []


# -- README and Makefile


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/teachers.md", "docs/setup.md"])
def test_every_command_and_every_local_link_of_a_document_is_there(document):
    text, targets = read(document), set(re.findall(r"^([a-z-]+):", read("Makefile"), flags=re.MULTILINE))
    made = re.findall(r"`make ([a-z-]+)|^make ([a-z-]+)", text, flags=re.MULTILINE)
    assert made and {name for pair in made for name in pair if name} <= targets
    commands = re.findall(r"python -m (?:vit_course|vit_classroom|experiments)([.\w]*) ?([a-z]*)", text)
    assert commands and not any(dotted for dotted, _ in commands)
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    assert [link for link in links if not ((ROOT / document).parent / link).exists()] == []


def test_the_readme_is_short_and_everything_in_it_counts():
    assert len(read("README.md").split()) <= 900


@pytest.mark.parametrize("name", ["Makefile", "docs/setup.md"])
def test_jupyterlab_opens_on_the_first_notebook_with_the_whole_course_beside_it(name):
    (notebook,) = re.findall(r"default_url=/lab/tree/(\S+)", (ROOT / name).read_text(encoding="utf-8"))
    assert (ROOT / notebook).name == "00_start_here.ipynb"
    assert (ROOT / notebook).exists()


# -- code


def test_every_python_file_is_written_for_the_oldest_python():
    version = tuple(map(int, oldest_python().split(".")))
    for path in python_files("vit_course", "vit_classroom", "experiments", "authoring", "lessons", "tests"):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=version)


# -- the tests themselves


def test_no_test_can_reach_another_machine_but_every_test_can_reach_its_own():
    for attempt in (
        lambda: socket.create_connection(("192.0.2.1", 80), timeout=1),  # RFC 5737 keeps it for examples
        lambda: socket.getaddrinfo("example.org", 80),
    ):
        with pytest.raises(pytest.fail.Exception, match="may not use the network"):
            attempt()
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=1).close()


def test_the_version_is_the_same_in_the_package_the_citation_and_the_changes():
    (version,) = re.findall(
        r'^__version__ = "(\d{4}\.\d+)"$', read("vit_course", "__init__.py"), re.MULTILINE
    )
    assert f'version: "{version}"' in read("CITATION.cff")
    assert re.findall(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)[0] == version
