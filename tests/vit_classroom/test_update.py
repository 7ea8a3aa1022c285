"""An update of a student's copy, with git and without: edited notebooks, new, deleted, conflicts; nothing is lost."""

import copy as copying
import io
import json
import shutil
import subprocess
import sys
import zipfile

import pytest

from vit_classroom.update import command, release
from vit_classroom.update.merge import NOTE, is_edited, merge, read_book
from vit_course.training.paths import ROOT

STUB = "def patchify(x):\n    raise NotImplementedError\n\n\npatchify = check(patchify)"
ANSWER = "def patchify(x):\n    return x  # mine\n\n\npatchify = check(patchify)"
OLD, NEW = "2027.1", "2027.2"


def code(name, source, outputs=(), **metadata):
    """A cell of code."""
    return {
        "cell_type": "code",
        "id": name,
        "metadata": metadata,
        "source": source,
        "outputs": list(outputs),
        "execution_count": None,
    }


def text(name, source):
    """A cell of text."""
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def book(*cells):
    """A notebook."""
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


BASE = book(
    text("title", "# Patches, old"),
    code("setup", "import torch"),
    code("ex", STUB, exercise="vit_course.patches:patchify"),
    code("look", "patchify(1)"),
    text("end", "old end"),
)
NEWER = book(
    text("title", "# Patches, new"),
    code("setup", "import torch"),
    text("more", "a new paragraph"),
    code("ex2", STUB.replace("(x)", "(images)"), exercise="vit_course.patches:patchify"),
    code("look", "patchify(1)"),
)


def edited(**sources):
    """The notebook as a student has it, with other texts in some cells."""
    made = copying.deepcopy(BASE)
    for cell in made["cells"]:
        cell["source"] = sources.get(cell["id"], cell["source"])
    return made


def sources(made):
    """The texts of a notebook."""
    return [cell["source"] for cell in made["cells"]]


# --- one notebook


def test_a_notebook_in_which_nobody_wrote_becomes_the_newer_one():
    merged = merge(BASE, BASE, NEWER, NEW)
    assert sources(merged.book) == sources(NEWER) and (merged.mine, merged.conflicts) == (0, [])
    assert not is_edited(BASE, BASE)


def test_outputs_stay_where_the_text_of_a_cell_stays():
    mine = edited()
    mine["cells"][3]["outputs"] = ["4"]
    kept = {cell["id"]: cell for cell in merge(mine, BASE, NEWER, NEW).book["cells"]}
    assert kept["look"]["outputs"] == ["4"] and not is_edited(mine, BASE)


def test_what_a_student_wrote_stays_where_the_lesson_has_not_changed_there():
    merged = merge(edited(look="patchify(2)  # mine"), BASE, NEWER, NEW)
    assert "patchify(2)  # mine" in sources(merged.book) and "patchify(1)" not in sources(merged.book)
    assert "# Patches, new" in sources(merged.book) and merged.conflicts == []


def test_a_conflict_in_one_cell_is_shown_with_both_texts_and_the_answer_still_runs():
    merged = merge(edited(ex=ANSWER), BASE, NEWER, NEW)
    place = sources(merged.book).index(ANSWER)
    answer, shown = merged.book["cells"][place : place + 2]
    assert answer["cell_type"] == "code" and answer["id"] == "ex2"
    assert (
        shown["cell_type"] == "markdown"
        and "def patchify(images):" in shown["source"]
        and NEW in shown["source"]
    )
    assert merged.conflicts == ["def patchify(x):"]
    assert STUB.replace("(x)", "(images)") not in sources(merged.book)


def test_an_update_after_a_conflict_keeps_the_answer_and_takes_the_note_away():
    once = merge(edited(ex=ANSWER), BASE, NEWER, NEW).book
    twice = merge(once, NEWER, NEWER, NEW)
    assert ANSWER in sources(twice.book) and twice.conflicts == []
    assert not any(NOTE in cell["metadata"] for cell in twice.book["cells"])


def test_cells_of_the_students_own_follow_the_cell_that_they_followed():
    mine = edited()
    mine["cells"].insert(0, text("own0", "first of all"))
    mine["cells"].insert(4, code("own1", "my_try = 1"))
    mine["cells"].append(text("own2", "notes"))
    found = sources(merge(mine, BASE, NEWER, NEW).book)
    assert found[0] == "first of all" and found[-1] == "notes"
    assert found[found.index("my_try = 1") - 1] == NEWER["cells"][3]["source"]


def test_a_cell_that_the_lesson_has_no_longer_goes_unless_somebody_wrote_in_it():
    assert "old end" not in sources(merge(BASE, BASE, NEWER, NEW).book)
    merged = merge(edited(end="my thoughts"), BASE, NEWER, NEW)
    place = sources(merged.book).index("my thoughts")
    assert "no such cell" in merged.book["cells"][place - 1]["source"] and merged.conflicts == ["my thoughts"]


def test_two_answers_to_one_exercise_and_a_changed_kind_of_cell_both_stay():
    mine = edited(ex=ANSWER)
    mine["cells"].insert(3, code("again", ANSWER + "  # second", exercise="vit_course.patches:patchify"))
    mine["cells"][4] = text("look", "I turned this into text")
    found = sources(merge(mine, BASE, NEWER, NEW).book)
    assert ANSWER in found and ANSWER + "  # second" in found and "I turned this into text" in found


def test_where_nobody_knows_what_was_given_out_every_difference_stays():
    found = sources(merge(edited(ex=ANSWER, look="x = 1"), book(), NEWER, NEW).book)
    assert ANSWER in found and "x = 1" in found and "old end" in found


@pytest.mark.parametrize(
    "data",
    [
        b"no",
        b"[]",
        b'{"cells": [{"source": "x"}]}',
        json.dumps(book(text("a", "1"), text("a", "2"))).encode(),
    ],
)
def test_what_is_no_notebook_with_ids_is_said_to_be_none(data):
    with pytest.raises(ValueError):
        read_book(data)


# --- a whole copy


def course(root, version, books, **files):
    """Write a small course: notebooks, a package, and what writes its notebooks as they are given out."""
    folder = {
        "vit_course/__init__.py": f'__version__ = "{version}"\n',
        "requirements.txt": "torch\n",
        "pyproject.toml": '# Repository = "https://github.com/OWNER/NAME"\n',
        "authoring/notebooks/students.py": (
            f"import pathlib, sys\nfor name, text in { ({n: json.dumps(b) for n, b in books.items()})!r}.items():\n"
            "    (pathlib.Path(sys.argv[1]) / name).write_text(text)\n"
        ),
        ".gitignore": "/answers/\n/my_notebooks*/\n__pycache__/\n",
        **{f"notebooks/{name}": json.dumps(made) for name, made in books.items()},
        **files,
    }
    for name, content in folder.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    return root


def old_course(root):
    """The course as a student got it."""
    books = {
        "01_patches.ipynb": BASE,
        "02_gone.ipynb": BASE,
        "03_deleted.ipynb": BASE,
        "05_quiet.ipynb": BASE,
    }
    return course(root, OLD, books, **{"lessons/18_old/checks.py": "x = 1\n", "vit_course/model.py": "old\n"})


def new_course(root):
    """The newer course: a new notebook, one that is gone, and a lesson's folder that is gone."""
    books = {
        name: NEWER for name in ("01_patches.ipynb", "03_deleted.ipynb", "04_new.ipynb", "05_quiet.ipynb")
    }
    files = {
        "lessons/01_patches/checks.py": "y = 2\n",
        "vit_course/model.py": "new\n",
        "data/README.md": "data\n",
    }
    return course(root, NEW, books, **files)


def work_in(root):
    """What a student does with a copy; return what must not be lost."""
    (root / "notebooks/01_patches.ipynb").write_text(json.dumps(edited(ex=ANSWER)), encoding="utf-8")
    (root / "notebooks/02_gone.ipynb").write_text(json.dumps(edited(ex=ANSWER)), encoding="utf-8")
    (root / "notebooks/03_deleted.ipynb").unlink()
    (root / "notebooks/my own.ipynb").write_text("mine", encoding="utf-8")
    (root / "vit_course/model.py").write_text("I tried something\n", encoding="utf-8")
    for name in ("answers/patchify.py", "data/mine/cat.jpg"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("mine", encoding="utf-8")


def require_nothing_lost(root):
    """Insist that a copy is new, and that all the student's work is in it."""
    beside = root / f"my_notebooks-{OLD}"
    read = {
        path.name: json.loads(path.read_text(encoding="utf-8")) for path in root.glob("notebooks/0*.ipynb")
    }
    assert set(read) == {"01_patches.ipynb", "03_deleted.ipynb", "04_new.ipynb", "05_quiet.ipynb"}
    assert ANSWER in sources(read["01_patches.ipynb"]) and "a new paragraph" in sources(
        read["01_patches.ipynb"]
    )
    assert sources(read["05_quiet.ipynb"]) == sources(NEWER)
    for name in ("01_patches.ipynb", "02_gone.ipynb"):
        assert json.loads((beside / name).read_text(encoding="utf-8")) == edited(ex=ANSWER)
    assert (beside / "replaced/vit_course/model.py").read_text(encoding="utf-8") == "I tried something\n"
    assert (beside / "replaced/lessons/18_old/checks.py").is_file() and not (root / "lessons/18_old").exists()
    assert (root / "vit_course/model.py").read_text(encoding="utf-8") == "new\n"
    for name in ("answers/patchify.py", "data/mine/cat.jpg", "notebooks/my own.ipynb"):
        assert (root / name).read_text(encoding="utf-8") == "mine"
    assert release.version_of(root) == NEW


def zipped(folder):
    """The bytes of a zip of a folder, as a site for code makes it: with a folder around."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(path, f"course-2027.2/{path.relative_to(folder).as_posix()}")
    return file.getvalue()


@pytest.mark.parametrize("source", ["folder", "zip", "tar.gz", "https"])
def test_a_copy_without_git_is_brought_up_to_date_and_nothing_is_lost(source, tmp_path, monkeypatch, capsys):
    root, new = old_course(tmp_path / "mine"), new_course(tmp_path / "new")
    work_in(root)
    given = {"folder": str(new), "https": "https://uni.edu/course.zip"}.get(
        source, f"{tmp_path / 'c'}.{source}"
    )
    if source == "zip":
        (tmp_path / "c.zip").write_bytes(zipped(new))
    if source == "tar.gz":
        shutil.make_archive(str(tmp_path / "c"), "gztar", tmp_path, "new")
    monkeypatch.setattr(release.urllib.request, "urlopen", lambda *_, **__: io.BytesIO(zipped(new)))
    assert command.main([given], root) == 0
    out = capsys.readouterr().out
    assert "01_patches.ipynb: merged, 1 of its cells are yours" in out
    assert "look at this cell, where both have changed: def patchify(x):" in out
    assert "05_quiet" not in out and "From version 2027.1 to 2027.2" in out and "removed" in out
    require_nothing_lost(root)
    assert command.main([given], root) == 0
    assert "0 other files written, 0 removed" in capsys.readouterr().out


def git(folder, *words):
    """Run git as somebody."""
    who = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def clone(tmp_path):
    """A clone of the old course, whose origin has the new one by now."""
    if not shutil.which("git"):
        pytest.skip("git is missing")
    origin = old_course(tmp_path / "origin")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "old"], ["tag", OLD]):
        git(origin, *words)
    git(tmp_path, "clone", "-q", "origin", "mine")
    for path in sorted(path for path in origin.iterdir() if path.name != ".git"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    new_course(origin)
    for words in (["add", "-A"], ["commit", "-qm", "new"], ["tag", NEW]):
        git(origin, *words)
    return tmp_path / "mine"


def test_a_clone_with_edited_notebooks_is_brought_up_to_date_and_nothing_is_lost(clone, capsys):
    work_in(clone)
    assert command.main([], clone) == 0
    require_nothing_lost(clone)
    assert git(clone, "rev-parse", "HEAD") == git(clone, "rev-parse", "origin/main")
    assert git(clone, "status", "--porcelain", "--untracked-files=no").split() == [
        "M",
        "notebooks/01_patches.ipynb",
    ]
    assert "are on the branch" not in capsys.readouterr().out


def test_commits_of_a_students_own_are_kept_on_a_branch(clone, capsys):
    work_in(clone)
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "my answers")
    mine = git(clone, "rev-parse", "HEAD")
    assert command.main([], clone) == 0
    require_nothing_lost(clone)
    (branch,) = git(clone, "branch", "--list", "before-update-*").split()
    assert git(clone, "rev-parse", branch) == mine and branch in capsys.readouterr().out


def test_a_clone_of_a_release_goes_to_the_newest_release(clone, tmp_path):
    git(tmp_path, "clone", "-q", "--branch", OLD, "origin", "tagged")
    assert command.main([], tmp_path / "tagged") == 0
    assert release.version_of(tmp_path / "tagged") == NEW


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("missing.zip", "is no archive that can be unpacked"),
        ("broken.zip", "is no archive that can be unpacked"),
        (".", "holds no copy of this course"),
        ("http://uni.edu/x.zip", "does not begin with https://"),
        ("mine", "the folder of this copy itself"),
        ("", "does not say where the course is published"),
    ],
)
def test_without_a_release_nothing_changes_and_the_reason_is_said(
    source, said, tmp_path, monkeypatch, capsys
):
    root = old_course(tmp_path / "mine")
    (tmp_path / "broken.zip").write_bytes(b"PK")
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert command.main([source], root) == 1
    assert said in capsys.readouterr().err
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_the_newest_release_is_found_by_the_address_of_the_course(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('Repository = "https://github.com/uni/vit/"\n', encoding="utf-8")
    page = io.BytesIO()
    monkeypatch.setattr(release.urllib.request, "urlopen", lambda *_, **__: page)
    page.url = "https://github.com/uni/vit/releases/tag/2027.2"
    assert release.newest(tmp_path) == "https://github.com/uni/vit/archive/refs/tags/2027.2.zip"
    page = io.BytesIO()
    page.url = "https://github.com/uni/vit/releases"
    assert release.newest(tmp_path) == "https://github.com/uni/vit/archive/HEAD.zip"


@pytest.mark.slow
def test_the_course_itself_says_how_its_notebooks_were_given_out(tmp_path):
    line = [sys.executable, "-m", "authoring.notebooks.students", str(tmp_path)]
    subprocess.run(line, cwd=ROOT, check=True)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        assert read_book((tmp_path / path.name).read_bytes())["cells"]
    assert {path.name for path in tmp_path.iterdir()} == {
        path.name for path in (ROOT / "notebooks").glob("*.ipynb")
    }
