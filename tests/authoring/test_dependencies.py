"""What cells reach in the package: which change makes a solution stale, and which does not."""

import ast
import shutil
from pathlib import Path

import nbformat
import pytest
from test_build import TinyCourse

from authoring.notebooks.dependencies import PACKAGES, WHOLE, Place, reach, read_package
from authoring.notebooks.outputs import READERS, SILENT, code_cells, is_setup, is_silent, source_hash

ROOT = Path(__file__).resolve().parents[2]


def solution(root: Path, number: str) -> nbformat.NotebookNode:
    (path,) = (root / "solutions").glob(f"{number}_*.ipynb")
    return nbformat.read(path, as_version=4)


def reached(root: Path, book: nbformat.NotebookNode) -> list[Place]:
    """What the cells of a notebook reach, in a fixed order."""
    trees = [ast.parse(cell.source) for cell in code_cells(book) if not is_setup(cell)]
    return sorted(place for place in reach(root, trees, is_silent) if place.module)


def change(root: Path, module: str, name: str) -> None:
    """Write one more line into a function."""
    base = root.joinpath(*module.split("."))
    path = base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__init__.py"
    text = path.read_text(encoding="utf-8")
    (node,) = (n for n in ast.parse(text).body if getattr(n, "name", None) == name)
    last = node.body[-1]
    lines = text.splitlines()
    lines.insert(last.lineno - 1, " " * last.col_offset + "unused = 0")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# -- in the course


@pytest.fixture
def copy(tmp_path):
    """The packages and their records in a folder of their own."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "data" / "runs", tmp_path / "data" / "runs")
    return tmp_path


@pytest.mark.parametrize(
    "where",
    [
        *("vit_course.attention", "vit_course.vit", "vit_course.train", "vit_course.data"),
        *("vit_course.extensions", "vit_course.training", "vit_classroom.plots", "vit_classroom.evidence"),
    ],
)
def test_one_changed_line_makes_a_solution_stale_that_reaches_it_wherever_it_lies(copy, where):
    book = solution(ROOT, "13")
    before = source_hash(copy, book)
    scope = read_package(copy).scope
    place = next(
        place
        for place in reached(copy, book)
        if f"{place.module}.".startswith(f"{where}.")
        and isinstance(scope(place.module).bound.get(place.name, [None])[0], ast.FunctionDef)
    )
    change(copy, place.module, place.name)
    assert source_hash(copy, book) != before


def test_a_changed_record_makes_the_solutions_stale_that_name_its_group(copy):
    books = {number: solution(ROOT, number) for number in ("05", "08", "13")}
    before = {number: source_hash(copy, book) for number, book in books.items()}
    record = sorted((copy / "data" / "runs").rglob("masked/*.json"))[0]
    record.write_text(record.read_text(encoding="utf-8") + " ", encoding="utf-8")
    stale = [number for number, book in books.items() if source_hash(copy, book) != before[number]]
    assert stale == ["13"]


@pytest.mark.parametrize("name", ["check", "diagnose", "download_cifar10", "check_python", "check_data"])
def test_checks_the_doctor_and_the_download_make_nothing_stale(copy, name):
    book = solution(ROOT, "07")
    before = source_hash(copy, book)
    package = read_package(copy)
    homes = [module for module in package.modules if name in package.scope(module).bound]
    assert homes
    for module in homes:
        change(copy, module, name)
    assert source_hash(copy, book) == before


def test_every_reader_of_records_is_a_function_that_some_lesson_reaches():
    found = {place.name for number in ("08", "09") for place in reached(ROOT, solution(ROOT, number))}
    assert READERS.keys() <= found


@pytest.mark.parametrize("name", SILENT)
def test_everything_that_is_left_out_is_a_module_of_the_package(name):
    assert name in read_package(ROOT).modules


# -- in a tiny package

MATHS = '''\
"""Numbers."""

import math
from vit_course.words import say

LIMIT = 10


def root(value):
    """Return the root."""
    return math.sqrt(bound(value))


def bound(value):
    # never more than the limit
    return min(value, LIMIT)


def other(value):
    return say(value)
'''


class TinyPackage(TinyCourse):
    """A tiny course, and what one cell of code reaches of its package."""

    def hash(self, cell: str) -> str:
        return source_hash(self.root, nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)]))

    def assert_it_counts(self, cell: str, before: str, module: str = "vit_course/maths.py") -> None:
        """Expect that a cell is as it was before, and stale once a function that it reaches has changed."""
        assert self.hash(cell) == before
        self.replace(module, "min(value", "max(value")
        assert self.hash(cell) != before


@pytest.fixture
def tiny(tmp_path):
    tiny = TinyPackage(tmp_path)
    tiny.write("vit_course/words.py", "def say(value):\n    return str(value)\n")
    tiny.write("vit_course/maths.py", MATHS)
    return tiny


CELL = "from vit_course.maths import root\nprint(root(4))"


@pytest.mark.parametrize(
    ("old", "new", "is_stale"),
    [
        ("math.sqrt(", "1 + math.sqrt(", True),
        ("min(value", "max(value", True),
        ("LIMIT = 10", "LIMIT = 11", True),
        ("import math\n", "import cmath as math\n", True),
        ("import math\n", "import math\n\nmath.pi = 3\n", True),
        ("import math\n", "import math\n\nprint(math.pi)\n", True),
        ('"""Return the root."""', '"""Return a root."""', False),
        ("# never more", "# not more", False),
        ("return say(value)", "return say(value + 1)", False),
        ("def other", "TWELVE = 12\n\n\ndef other", False),
        ("def other", 'if __name__ == "__main__":\n    print(root(4))\n\n\ndef other', False),
    ],
)
def test_what_a_cell_reaches_by_name_makes_it_stale_and_nothing_else(tiny, old, new, is_stale):
    before = tiny.hash(CELL)
    tiny.replace("vit_course/maths.py", old, new)
    assert (tiny.hash(CELL) != before) is is_stale


def test_a_definition_may_move_to_another_module_and_be_imported_from_there(tiny):
    before = tiny.hash(CELL)
    tiny.write("vit_course/extensions/__init__.py", "")
    tiny.write(
        "vit_course/extensions/limits.py", "LIMIT = 10\n\n\ndef bound(value):\n    return min(value, LIMIT)\n"
    )
    text = MATHS.replace("LIMIT = 10", "from vit_course.extensions import limits as edges").replace(
        "bound(value))", "edges.bound(value))"
    )
    tiny.write("vit_course/maths.py", text[: text.index("def bound")])
    assert tiny.hash(CELL) == before
    tiny.replace("vit_course/extensions/limits.py", "LIMIT = 10", "LIMIT = 9")
    assert tiny.hash(CELL) != before


@pytest.mark.parametrize(
    "cell",
    [
        "from vit_course.numbers import root\nprint(root(4))",
        "from vit_course.numbers import root as square_root\nprint(square_root(4))",
        "import vit_course.numbers\nprint(vit_course.numbers.root(4))",
        "from vit_course import numbers as n\nprint(n.root(4))",
        "def late(value):\n    from vit_course.numbers import root\n    return root(value)\n\n\nprint(late(4))",
    ],
)
def test_a_module_may_be_renamed_and_imported_in_any_way(tiny, cell):
    before = tiny.hash(cell.replace("numbers", "maths"))
    (tiny.root / "vit_course/maths.py").rename(tiny.root / "vit_course/numbers.py")
    tiny.assert_it_counts(cell, before, "vit_course/numbers.py")


def test_imports_inside_a_function_are_followed_and_their_paths_left_out(tiny):
    inside = "def late(value):\n    from vit_course.maths import root\n\n    return root(value)\n"
    tiny.write("vit_course/late.py", inside)
    cell = "from vit_course.late import late\nlate(4)"
    before = tiny.hash(cell)
    above = "from vit_course.maths import root\n\n\ndef late(value):\n    return root(value)\n"
    tiny.write("vit_course/late.py", above)
    tiny.assert_it_counts(cell, before)


@pytest.mark.parametrize(
    "use", ["getattr(maths, 'ro' + 'ot')(4)", "print(maths)", "maths.nowhere", "f(*[maths])"]
)
def test_a_module_that_is_used_in_another_way_counts_as_a_whole(tiny, use):
    cell = f"from vit_course import maths\n{use}"
    before = tiny.hash(cell)
    tiny.replace("vit_course/words.py", "str(value)", "repr(value)")
    assert tiny.hash(cell) != before


@pytest.mark.parametrize(
    "face",
    [
        'HOMES = {"root": "maths"}\n\n\ndef __getattr__(name):\n    return load(HOMES[name], name)\n',
        'HOMES = {"root": "vit_course.maths"}\n\n\ndef __getattr__(name):\n    return load(HOMES[name], name)\n',
        "def __getattr__(name):\n    from vit_course.maths import root\n\n    return root\n",
        "from vit_course.maths import root\n",
    ],
)
def test_a_package_may_pass_names_on_at_once_or_when_they_are_asked_for(tiny, face):
    before = tiny.hash(CELL)
    tiny.write("vit_course/__init__.py", face)
    tiny.assert_it_counts(CELL.replace("vit_course.maths", "vit_course"), before)


def test_modules_that_import_each_other_whole_are_read_once(tiny):
    tiny.write("vit_course/one.py", "from vit_course import two\n\nuse = [two]\n")
    tiny.write("vit_course/two.py", "from vit_course import one\n\nuse = [one]\n")
    assert tiny.hash("from vit_course import one\nprint(one)")
    assert Place("vit_course.two", WHOLE) != Place("vit_course.two", "use")
