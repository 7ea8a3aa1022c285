"""Progress: a student's own, and the table of a class, which is read and never run, hostile students among them."""

import ast
import csv
import json
import os
import re
import stat
import subprocess
import sys
import time
import zipfile
from functools import cache

import nbformat
import pytest

from authoring.notebooks.course import read_course
from authoring.notebooks.notebooks import make_notebook
from vit_classroom import race
from vit_classroom.answer_folder import LOG, MIME, Mark, cell_hash, marks_in, read_mark
from vit_classroom.checks import EXERCISES
from vit_classroom.progress import classes, command, student
from vit_classroom.progress.handed_in import LARGEST, MEMBERS
from vit_classroom.progress.verdicts import Found, NoNotebook, Work, found_of
from vit_classroom.tasks import read_lessons
from vit_course.training.paths import ROOT

LESSONS = read_lessons()
RIGHT, WRONG = "def count_patches(a, b):\n    return 4\n", "def count_patches(a, b):\n    return 5\n"
CLS = "one too many: the CLS token is no patch"
HTML = "<script>alert(1)</script><img src=x onerror=alert(1)>"


@cache
def course():
    """The lessons as their authors wrote them."""
    return read_course(ROOT)


def line(exercise, verdict, mistake="", minute=0, source=""):
    """A verdict as `check` writes it down."""
    time = f"2026-01-31T09:{minute:02}:00.000000"
    return Mark(exercise, verdict, mistake, cell=cell_hash(source), time=time).data


def log(*lines):
    """A log of some verdicts."""
    return "".join(json.dumps(one) + "\n" for one in lines)


def book(*cells):
    """A notebook as bytes, of cells (source, exercise, verdicts in its output)."""
    made = nbformat.v4.new_notebook()
    for source, exercise, *verdicts in cells:
        outputs = [
            nbformat.v4.new_output("display_data", {MIME: one, "text/plain": HTML}) for one in verdicts
        ]
        cell = nbformat.v4.new_code_cell(source, outputs=outputs)
        cell.metadata["exercise"] = f"vit_course.any:{exercise}"
        made.cells.append(cell)
    return nbformat.writes(made).encode()


@cache
def lesson_book(number, verdict, mistake=""):
    """A whole solved lesson with its figures, as bytes, in which each exercise has a verdict."""
    (path,) = (ROOT / "solutions").glob(f"{number}_*.ipynb")
    made = nbformat.read(path, as_version=4)
    for cell in (cell for cell in made.cells if "exercise" in cell.metadata):
        for part in cell.metadata["exercise"].split(", "):
            name = part.partition(":")[2].partition(".")[0]
            data = {MIME: line(name, verdict, mistake, source=cell.source)}
            cell.outputs.append(nbformat.v4.new_output("display_data", data))
    return nbformat.writes(made).encode()


def zipped(path, files, **options):
    """Write a zip of some files."""
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def only(tmp_path, name, content):
    """What is found in a class of one student who hands in one file."""
    (tmp_path / name).write_bytes(content)
    (found,) = classes.read_class(tmp_path)
    return found


# --- what there is to do


def test_the_tasks_are_the_exercises_of_the_lessons_with_their_minutes():
    assert {name for lesson in LESSONS for name in lesson.names} == set(EXERCISES)
    assert all(task.minutes > 0 for lesson in LESSONS for task in lesson.tasks)
    assert [lesson.title for lesson in LESSONS] == [lesson.title for lesson in course().lessons]


# --- what a notebook and a log say


def test_a_notebook_brings_its_verdicts_and_says_which_cells_were_changed_since(tmp_path):
    content = book(
        (RIGHT, "count_patches", line("count_patches", "right", source=f"{RIGHT}  \n\n")),
        (RIGHT + "# more", "patchify", line("patchify", "right", source=RIGHT)),
        (WRONG, "unpatchify", line("unpatchify", "wrong", CLS, source=WRONG)),
    )
    found = only(tmp_path, "ada.ipynb", content)
    assert found.notes == []
    assert found.found == {
        "count_patches": Found("right", False, (), 1),
        "patchify": Found("right", True, (), 1),
        "unpatchify": Found("wrong", False, (CLS,), 1),
    }
    assert classes.cell(found, LESSONS[1]) == "2*~"


def test_answers_whose_outputs_are_cleared_are_named_and_cells_as_they_were_given_out_are_not(tmp_path):
    found = only(
        tmp_path, "bo.ipynb", book((RIGHT, "count_patches"), ("raise NotImplementedError", "patchify"))
    )
    assert found.found == {"count_patches": Found("unchecked")}
    assert found.notes == ["answers without a verdict, their outputs cleared or never run: count_patches"]
    assert "0?" in classes.class_text([found], LESSONS)


def test_a_notebook_of_the_course_that_nobody_has_touched_is_not_begun(tmp_path):
    for lesson in course().lessons:
        (tmp_path / "cy").mkdir(exist_ok=True)
        text = nbformat.writes(make_notebook(course(), lesson, "notebooks"))
        (tmp_path / "cy" / f"{lesson.slug}.ipynb").write_text(text, encoding="utf-8")
    (found,) = classes.read_class(tmp_path)
    assert (found.found, found.notes) == ({}, [])


def test_a_log_knows_every_mistake_on_the_way_and_a_right_answer_stays_right(tmp_path):
    text = log(
        line("pool", "unfinished", minute=1),
        line("pool", "wrong", "first", minute=2),
        line("pool", "wrong", "second", minute=3),
        line("pool", "wrong", "first", minute=4),
        line("pool", "right", minute=5),
        line("pool", "wrong", "third", minute=6),
        {"what": "race", "accuracy": 0.9, "core_seconds": 60},
    )
    zipped(tmp_path / "ada.zip", {f"answers/{LOG}": "not JSON\n" + text + text})
    (found,) = classes.read_class(tmp_path)
    assert found.found == {"pool": Found("right", False, ("second", "first", "third"), 6)}


def test_the_same_verdict_in_a_notebook_and_in_the_log_counts_once():
    work, one = Work(), line("pool", "wrong", CLS, source=WRONG)
    work.add_file("a.ipynb", book((WRONG, "pool", one)))
    work.add_file(LOG, log(one).encode())
    assert work.found() == {"pool": Found("wrong", False, (CLS,), 1)}


def test_what_is_wrong_counts_by_its_last_verdict():
    wrong, stub = (
        read_mark(line("pool", kind, kind, minute=n)) for n, kind in enumerate(("wrong", "unfinished"))
    )
    assert found_of([stub, wrong], set()).kind == "unfinished"


@pytest.mark.parametrize(
    "data",
    [None, [], "right", {}, {"what": "check"}, line("pool", "best")]
    + [line("pool", "right") | change for change in ({"time": 3}, {"mistake": "x" * 301}, {"what": "race"})],
)
def test_what_is_no_verdict_is_none(data):
    assert read_mark(data) is None


def test_a_verdict_reads_back_as_it_was():
    made = line("pool", "wrong", HTML)
    assert next(marks_in(json.dumps(made))).data == made


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"cells": 3}', b"\xff\xfe", b"[" * 100_000])
def test_a_broken_notebook_is_said_to_be_none(content):
    with pytest.raises(NoNotebook, match="it is no notebook"):
        Work().add_file("a.ipynb", content)


def test_a_notebook_of_too_many_parts_is_not_read():
    with pytest.raises(NoNotebook, match="more parts"):
        Work().add_file("a.ipynb", b"[" + b"{}," * (3 * 10**6 + 1))


def test_a_notebook_whose_outputs_are_large_is_read_all_the_same(tmp_path):
    large = json.loads(book((RIGHT, "pool", line("pool", "right", source=RIGHT))))
    large["cells"][0]["outputs"][0]["data"]["image/png"] = "A" * (30 * 2**20)
    assert only(tmp_path, "ada.ipynb", json.dumps(large).encode()).found["pool"].kind == "right"


# --- what is handed in


def said(folder):
    """What there is to say of each student of a folder."""
    return {one.name: " ".join(one.notes) for one in classes.read_class(folder)}


def write_hostile(folder):
    """Write zips that no honest student hands in, and return what is said of each."""
    zipped(folder / "up.zip", {"../../a.ipynb": RIGHT})
    zipped(folder / "root.zip", {"/etc/a.ipynb": RIGHT})
    zipped(folder / "drive.zip", {"C:\\a.ipynb": RIGHT})
    link = zipfile.ZipInfo("a.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    zipped(folder / "link.zip", {link: "/etc/passwd"})
    zipped(folder / "bomb.zip", {"a.ipynb": bytes(LARGEST + 1)}, compression=zipfile.ZIP_DEFLATED)
    zipped(folder / "slow.zip", {"a.ipynb": b"x"}, compression=zipfile.ZIP_BZIP2)
    zipped(folder / "many.zip", {f"{n}.txt": "" for n in range(MEMBERS + 1)})
    (folder / "torn.zip").write_bytes(b"PK\x03\x04 and no more")
    zipped(folder / "liar.zip", {"a.ipynb": bytes(LARGEST + 1)}, compression=zipfile.ZIP_DEFLATED)
    content, size = (folder / "liar.zip").read_bytes(), (LARGEST + 1).to_bytes(4, "little")
    assert content.count(size) == 2
    (folder / "liar.zip").write_bytes(content.replace(size, (9).to_bytes(4, "little")))
    return {
        "up": "no notebook and no log of verdicts is in it",
        "root": "/etc/a.ipynb: it is no notebook",
        "drive": zipfile.ZipInfo("C:\\a.ipynb").filename + ": it is no notebook",
        "link": "a.ipynb: it is no notebook",
        "bomb": "refused: a.ipynb has more than 100 MB",
        "slow": "refused: a.ipynb is packed in an unusual way",
        "many": f"refused: it holds more than {MEMBERS} files",
        "torn": "refused: it cannot be read",
        "liar": "refused: it cannot be read",
    }


def test_hostile_zips_are_refused_by_name_and_paths_in_them_lead_nowhere(tmp_path):
    expected, found = write_hostile(tmp_path), said(tmp_path)
    assert found.keys() == expected.keys()
    assert [name for name, words in expected.items() if not found[name].startswith(words)] == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no such files")
def test_links_and_other_files_that_are_none_are_refused(tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_text("x", encoding="utf-8")
    for name in ("link", "pipe"):
        (tmp_path / "class" / name).mkdir(parents=True)
    (tmp_path / "class/link/a.ipynb").symlink_to(secret)
    (tmp_path / "class/whole.ipynb").symlink_to(secret)
    os.mkfifo(tmp_path / "class/pipe/a.ipynb")
    os.mkfifo(tmp_path / "class/tube.zip")
    assert said(tmp_path / "class") == {
        "link": "refused: a.ipynb is a link",
        "pipe": "refused: a.ipynb is no plain file",
        "tube": "refused: tube.zip is no plain file",
        "whole": "refused: it is a link",
    }


def test_the_courses_own_files_are_no_work_of_a_student(tmp_path):
    own = book((RIGHT, "pool", line("pool", "right")))
    names = ("course/solutions/01.ipynb", "course/lessons/01.ipynb", "course\\solutions\\02.ipynb")
    zipped(tmp_path / "all.zip", dict.fromkeys(names, own))
    assert said(tmp_path) == {"all": "no notebook and no log of verdicts is in it"}


# --- the table of a class


FORGED = book((HTML, "pool", line("pool", "wrong", f"=HYPERLINK() {HTML}\x1b[2J\u202e")), ("", "no exercise"))
LONG = [f"hernandez_gonzalez_{first}_submission" for first in ("maria", "mario", "marie")]


def write_thirty(folder):
    """Write a class of thirty with whole notebooks: some right, some wrong, some hostile."""
    folder.mkdir()
    slugs = [lesson.number for lesson in LESSONS]
    for n, name in enumerate([*LONG, *(f"right{n}" for n in range(5))]):
        zipped(folder / f"{name}.zip", {f"{m}.ipynb": lesson_book(m, "right") for m in slugs[: n + 2]})
    for n in range(10):
        (folder / f"wrong{n}").mkdir()
        (folder / f"wrong{n}/01.ipynb").write_bytes(lesson_book("01", "wrong", CLS))
        (folder / f"wrong{n}/{LOG}").write_text(log(line("pool", "wrong", "of the log")))
    write_hostile(folder)
    harm = "import os\nos.system('touch harm')\nopen('harm', 'w')\n"
    files = {
        "answers/pool.py": harm,
        "a.ipynb": book((harm, "pool")),
        "a.pt": b"\x80\x04}.",
        "conftest.py": harm,
    }
    zipped(folder / "=cmd().zip", files)
    (folder / "forger.ipynb").write_bytes(FORGED)
    huge = json.loads(book((RIGHT, "pool", line("pool", "right", source=RIGHT))))
    huge["cells"][0]["outputs"].append({"output_type": "stream", "name": "stdout", "text": "x, [" * 2**20})
    huge["cells"][0]["outputs"].append({"output_type": "display_data", "data": {"text/html": HTML * 10**6}})
    (folder / "huge.ipynb").write_text(json.dumps(huge), encoding="utf-8")


WATCHED = """
import sys
sys.dont_write_bytecode = True
from vit_classroom.progress import command
def hook(event, arguments):
    if event == "open":
        bad = arguments[1] not in ("r", "rb", None) and arguments[0] != sys.argv[2]
    elif event in ("exec", "compile"):  # Python loads parts of its own library when they are needed
        name = str(arguments[0].co_filename if event == "exec" else arguments[1])
        bad = not name.startswith((sys.base_prefix, "<frozen"))
    else:
        reads = ("os.listdir", "os.scandir", "os.walk")
        bad = event.startswith(("pickle", "subprocess", "os.", "ctypes", "socket")) and event not in reads
    if bad:
        seen.append((event, arguments))
seen = []
sys.addaudithook(hook)
status = command.main(["--class", sys.argv[1], "--csv", sys.argv[2]])
assert not seen, seen
assert "torch" not in sys.modules
sys.exit(status)
"""


@pytest.mark.slow
def test_a_class_of_thirty_is_read_in_hardly_more_than_the_time_to_write_it_and_nothing_of_it_is_run(
    tmp_path,
):
    begun = time.process_time()
    write_thirty(tmp_path / "class")
    writing = time.process_time() - begun
    assert len(list((tmp_path / "class").iterdir())) == 30
    before = sorted(tmp_path.rglob("*"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    call = [sys.executable, "-c", WATCHED, str(tmp_path / "class"), str(tmp_path / "table.csv")]
    start, children = time.perf_counter(), os.times()
    done = subprocess.run(
        call, capture_output=True, text=True, cwd=tmp_path, env=environment, encoding="utf-8"
    )
    after = os.times()
    used = after.children_user + after.children_system - children.children_user - children.children_system
    seconds = min(used, time.perf_counter() - start)  # others may use this processor too
    assert done.returncode == 0, done.stderr
    assert sorted({*tmp_path.rglob("*")} - {tmp_path / "table.csv"}) == before
    text = done.stdout
    print(text, f"\n{seconds:.1f} s, written in {writing:.1f} s")
    assert not any(sign in text for sign in ("\x1b", "\u202e"))
    assert "    10  one too many: the CLS token is no patch" in text and "    10  of the log" in text
    assert max(map(len, text.splitlines())) <= 100
    names = [row.split("  ")[0] for row in text.splitlines()[2:32]]
    assert len(set(names)) == 30
    with open(tmp_path / "table.csv", encoding="utf-8", newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert set(LONG) < rows.keys() and "'=cmd()" in rows and rows["huge"]["pool"] == "right"
    assert rows["'=cmd()"]["pool"] == "unchecked" and rows["forger"]["pool"] == "wrong, edited since"
    assert seconds < 1.25 * writing


def test_the_sources_of_progress_run_and_unpickle_nothing():
    folder = ROOT / "vit_classroom"
    names = ("progress/*.py", "answer_folder.py", "tasks.py", "tables.py")
    paths = [path for name in names for path in folder.glob(name)]
    forbidden = {"pickle", "torch", "importlib", "runpy", "subprocess", "multiprocessing"}
    assert len(paths) > 6
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = {getattr(node, "module", "") or "", *(alias.name for alias in node.names)}
                assert not {module.partition(".")[0] for module in modules} & forbidden, path
                assert not any(".checks" in module for module in modules), path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("exec", "eval", "compile", "__import__"), path


def test_long_names_without_spaces_are_told_apart():
    names = [*LONG, "x" * 40, "x" * 41, "x" * 42, "Ada", "Ada\x1b", "Ada\x07"]
    shown = classes.told_apart(names)
    assert len(set(shown)) == len(names) and max(map(len, shown)) <= classes.NAME
    assert [name[4:9] for name in shown[:3]] == ["maria", "mario", "marie"]
    assert shown[6] == "Ada" and "\x1b" not in "".join(shown)


def test_names_and_verdicts_of_students_are_no_commands():
    bad = classes.Student("=cmd()\x1b[2J", {}, ["\x1b]0;title\x07 x"])
    assert "\x1b" not in classes.class_text([bad], LESSONS)
    assert "\n'=cmd()" in classes.class_csv([bad], LESSONS)


def test_what_many_stumbled_over_is_talked_about_though_they_have_solved_it_since():
    done, smooth = Found("right", False, (CLS,), 4), Found("right", False, (), 1)
    both = [classes.Student("ada", {"count_patches": done}), classes.Student("bo", {"count_patches": smooth})]
    (talk,) = classes.talk_about(both, LESSONS)
    assert (talk.exercise, talk.right, talk.begun, talk.mistakes) == ("count_patches", 2, 2, [(CLS, 1)])
    text = classes.class_text(both, LESSONS)
    assert "01  count_patches: 2 of 2 right, 0 wrong, 0 not written; 5 checks" in text
    assert classes.talk_about([*both, both[1]], LESSONS) == []


# --- the command


def handed_in(tmp_path):
    """A class of one, as a folder."""
    (tmp_path / "class" / "cy").mkdir(parents=True)
    (tmp_path / "class" / "cy" / LOG).write_text(log(line("count_patches", "wrong", CLS)), encoding="utf-8")
    return tmp_path / "class"


@pytest.mark.parametrize("place", ["missing/table.csv", "."])
def test_a_table_that_cannot_be_written_is_shown_all_the_same(place, tmp_path, capsys):
    folder = handed_in(tmp_path)
    assert command.main(["--class", str(folder), "--csv", str(tmp_path / place)]) == 1
    out, err = capsys.readouterr()
    assert "there are" in out and CLS in out
    assert "cannot be written" in err and "Traceback" not in err


@pytest.mark.parametrize("place", ["missing/me.zip", ".", "file/me.zip"])
def test_an_export_to_a_bad_place_is_an_error_in_words(place, answers, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("a file", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    assert command.main(["--export", place]) == 1
    err = capsys.readouterr().err
    assert "cannot be written" in err or "is a folder: give the name of a file" in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("wait", ["-1", "nan", "0", "inf", "soon"])
def test_a_time_to_wait_that_is_none_is_refused(wait, capsys):
    with pytest.raises(SystemExit) as left:
        command.main(["--class", "x", "--watch", wait])
    assert left.value.code == 2 and "is no number of seconds" in capsys.readouterr().err


def test_a_class_that_is_not_there_is_an_error_in_words(tmp_path, capsys):
    assert command.main(["--class", str(tmp_path / "none")]) == 1
    assert "there is no folder" in capsys.readouterr().err


def test_to_watch_a_class_shows_the_table_again_when_it_has_changed(tmp_path, monkeypatch, capsys):
    folder = handed_in(tmp_path)
    (folder / "ada.ipynb").write_bytes(book())
    rounds = iter([lambda: None, lambda: (folder / "ada.ipynb").write_bytes(FORGED)])

    def sleep(seconds):
        if (step := next(rounds, None)) is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(command.time, "sleep", sleep)
    assert command.main(["--class", str(folder), "--watch", "10"]) == 0
    assert capsys.readouterr().out.count("\nthere are ") == 2


# --- one's own progress


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """A folder of answers: one right, one that is not."""
    monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path / "answers"))
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers/count_patches.py").write_text(RIGHT, encoding="utf-8")
    lines = log(line("count_patches", "right"), line("patchify", "wrong", CLS))
    (tmp_path / "answers" / LOG).write_text(lines, encoding="utf-8")
    return tmp_path / "answers"


def test_the_log_says_what_is_right_and_what_is_not(answers, capsys):
    assert command.main(["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["lessons"][1]["right"] == ["count_patches"] and found["not_right"] == {"patchify": CLS}
    assert command.main([]) == 0
    assert f"patchify is not right yet: {CLS}" in capsys.readouterr().out


def test_the_minutes_left_are_those_of_the_tasks_that_are_not_right_and_the_first_of_them_is_next():
    found = {name: Found("right") for name in [*LESSONS[0].names, "count_patches"]}
    progress = student.summary(found, LESSONS)
    left = [task for lesson in LESSONS for task in lesson.tasks if not set(task.names) <= set(found)]
    assert sum(row["minutes_left"] for row in progress["lessons"]) == sum(task.minutes for task in left)
    assert progress["next"]["lesson"] == LESSONS[1].slug and progress["next"]["exercises"] == ["patchify"]
    lines = student.student_text(progress).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[-1].startswith("Next: patchify, in notebooks/01_patches.ipynb")


def test_an_export_is_what_a_class_is_made_of(answers, tmp_path, capsys):
    (tmp_path / "class").mkdir()
    race.hand_in("Ada\x1b[2J", 0.61, 312, {"lr": 0.003}, "Shapes-10")
    assert command.main(["--export", str(tmp_path / "class/me.zip")]) == 0
    assert "1 right answer" in capsys.readouterr().out
    with zipfile.ZipFile(tmp_path / "class/me.zip") as archive:
        assert archive.namelist() == ["answers/count_patches.py", f"answers/{LOG}"]
    (one,) = classes.read_class(tmp_path / "class")
    assert (one.name, one.count(EXERCISES, "right"), one.count(EXERCISES, "wrong")) == ("me", 1, 1)
    board = classes.class_text([one], LESSONS).partition("The race of lesson 16, Shapes-10")[2]
    assert re.search(r"1 +Ada \[2J +61.0 % +312 +lr 0.003$", board)


def test_without_a_log_it_says_where_one_is_looked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path / "none"))
    assert command.main([]) == 0
    assert str(tmp_path / "none") in capsys.readouterr().out
