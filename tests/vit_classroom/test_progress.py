"""Progress: a student's own, and the table of a class, which is read and never run, hostile students among them."""

import ast
import csv
import gzip
import io
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
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
from vit_classroom.progress import classes, command, handed_in, student
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


def test_a_letter_is_not_cut_from_its_accents():
    name = "नीलम्" * 9 + "e\u0301"
    (shown,) = classes.told_apart([name])
    assert len(classes.letters(shown)) == classes.NAME and shown.endswith("é")
    assert all(one in classes.letters(name) for one in classes.letters(shown) if one not in "…é")


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
    assert "01  count_patches: 2 of 2 solved it, 0 wrong, 0 not written, 5 checks" in text
    assert classes.talk_about([*both, both[1]], LESSONS) == []


# --- the command


def class_of_one(tmp_path):
    """A class of one, as a folder."""
    (tmp_path / "class" / "cy").mkdir(parents=True)
    (tmp_path / "class" / "cy" / LOG).write_text(log(line("count_patches", "wrong", CLS)), encoding="utf-8")
    return tmp_path / "class"


@pytest.mark.parametrize("place", ["missing/table.csv", "."])
def test_a_table_that_cannot_be_written_is_shown_all_the_same(place, tmp_path, capsys):
    folder = class_of_one(tmp_path)
    assert command.main(["--class", str(folder), "--csv", str(tmp_path / place)]) == 1
    out, err = capsys.readouterr()
    assert "exercises  " in out and CLS in out
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
    assert left.value.code == 2 and "is not a number of seconds" in capsys.readouterr().err


def test_a_class_that_is_not_there_is_an_error_in_words(tmp_path, capsys):
    assert command.main(["--class", str(tmp_path / "none")]) == 1
    assert "there is no folder" in capsys.readouterr().err


def test_to_watch_a_class_shows_the_table_again_when_it_has_changed(tmp_path, monkeypatch, capsys):
    folder = class_of_one(tmp_path)
    (folder / "ada.ipynb").write_bytes(book())
    rounds = iter([lambda: None, lambda: (folder / "ada.ipynb").write_bytes(FORGED)])

    def sleep(seconds):
        if (step := next(rounds, None)) is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(command.time, "sleep", sleep)
    assert command.main(["--class", str(folder), "--watch", "10"]) == 0
    assert capsys.readouterr().out.count("\nexercises ") == 2


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


# --- one number for the exercises


def test_student_and_class_are_told_one_number_of_exercises_with_a_word_on_the_checks(answers, capsys):
    tasks = sum(len(lesson.tasks) for lesson in LESSONS)
    names = sum(len(lesson.names) for lesson in LESSONS)
    assert command.main([]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"1 of {tasks} exercises are right. ") and f"so there are {names} checks." in out
    text = classes.class_text([classes.Student("ada", {})], LESSONS)
    points = sum(lesson.points for lesson in LESSONS)
    assert (
        re.search(rf"exercises .* {tasks} +{points}$", text, re.MULTILINE)
        and f"there are {names} checks." in text
    )


def test_an_exercise_of_two_functions_is_right_when_both_are():
    both = ("split_heads", "merge_heads")
    lesson = next(lesson for lesson in LESSONS if "split_heads" in lesson.names)
    for right, solved in ((both[:1], "0"), (both, "1")):
        student = classes.Student("ada", {name: Found("right") for name in right})
        assert classes.cell(student, lesson) == solved
        assert next(csv.DictReader(classes.class_csv([student], LESSONS).splitlines()))["lesson 04"] == solved


# --- what was run and stopped


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SyntaxError", "invalid syntax (1234.py, line 3)", "SyntaxError: invalid syntax"),
        (
            "SyntaxError",
            "'(' was never closed (<ipython-input-3-1a>, line 7)",
            "SyntaxError: '(' was never closed",
        ),
        ("IndentationError", "unexpected indent (9.py, line 2)", "IndentationError: unexpected indent"),
        ("NameError", "name 'chek' is not defined", "NameError: name 'chek' is not defined"),
    ],
)
def test_a_cell_that_was_run_and_stopped_is_wrong_and_not_called_never_run(name, value, said, tmp_path):
    made = json.loads(book((f"{RIGHT}raise NotImplementedError", "count_patches"), (RIGHT, "patchify")))
    error = {"output_type": "error", "ename": name, "evalue": value, "traceback": ["..."]}
    made["cells"][0]["outputs"] = [error]
    found = only(tmp_path, "ada.ipynb", json.dumps(made).encode())
    assert found.found["count_patches"].mistakes == (f"the cell stops before its check: {said}",)
    assert found.found["count_patches"].kind == "wrong" and not found.found["count_patches"].edited
    assert found.notes == ["answers without a verdict, their outputs cleared or never run: patchify"]


def test_a_cell_with_a_verdict_that_stops_later_keeps_its_verdict(tmp_path):
    made = json.loads(book((RIGHT, "pool", line("pool", "right", source=RIGHT))))
    made["cells"][0]["outputs"].append({"output_type": "error", "ename": "E", "evalue": "", "traceback": []})
    assert only(tmp_path, "ada.ipynb", json.dumps(made).encode()).found["pool"].kind == "right"


# --- how hand-ins are packed and named

ONE = book((RIGHT, "pool", line("pool", "right", source=RIGHT)))


def as_zip(files):
    """The bytes of a zip."""
    file = io.BytesIO()
    zipped(file, files)
    return file.getvalue()


def as_tar(files, mode="w:gz"):
    """The bytes of a tar."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


INNER = as_zip({"deep/01.ipynb": ONE})
PACKED = {
    "a zip": ("x.zip", as_zip({"01.ipynb": ONE})),
    "upper case": ("x.ZIP", as_zip({"01.IPYNB": ONE})),
    "a zip in a zip": ("x.zip", as_zip({"me.zip": INNER})),
    "a zip in a zip in a zip": ("x.zip", as_zip({"a/b.zip": as_zip({"me.Zip": INNER})})),
    "a tar.gz": ("x.tar.gz", as_tar({"01.ipynb": ONE})),
    "a tgz": ("x.tgz", as_tar({"01.ipynb": ONE})),
    "a tar": ("x.tar", as_tar({"01.ipynb": ONE}, "w")),
    "a tar.bz2": ("x.tar.bz2", as_tar({"01.ipynb": ONE}, "w:bz2")),
    "a tar.xz": ("x.tar.xz", as_tar({"01.ipynb": ONE}, "w:xz")),
    "a zip in a tar": ("x.tar.gz", as_tar({"me.zip": INNER})),
    "a tar in a zip": ("x.zip", as_zip({"me.tar.gz": as_tar({"01.ipynb": ONE})})),
    "a notebook in gzip": ("x.ipynb.gz", gzip.compress(ONE)),
    "a zip that is called tar.gz": ("x.tar.gz", INNER),
    "a tar.gz that is called zip": ("x.zip", as_tar({"01.ipynb": ONE})),
    "a second download of a zip": ("x (1).zip", INNER),
    "a notebook": ("x.ipynb", ONE),
    "a notebook in upper case": ("x.IPYNB", ONE),
    "a notebook as text": ("x.ipynb.txt", ONE),
    "a notebook as JSON": ("x.json", ONE),
    "a notebook as a browser saves it": ("x.ipynb.json", ONE),
    "a second download": ("x (1).ipynb", ONE),
    "a notebook in UTF-16": ("x.ipynb", ONE.decode().encode("utf-16")),
    "a notebook with a byte order mark": ("x.ipynb", b"\xef\xbb\xbf" + ONE),
    "a notebook of an old editor": ("x.ipynb", ONE.replace(b"def", b"# f\xfcr\\ndef", 1)),
    "a log": ("verdicts.jsonl", log(line("pool", "right")).encode()),
    "a log as text": ("verdicts.jsonl.txt", log(line("pool", "right")).encode()),
    "a log in UTF-16": ("verdicts.jsonl", log(line("pool", "right")).encode("utf-16")),
    "a log with a byte order mark": ("verdicts.jsonl", b"\xef\xbb\xbf" + log(line("pool", "right")).encode()),
    "a log in UTF-16 without a mark": ("verdicts.jsonl", log(line("pool", "right")).encode("utf-16-le")),
    "a log in a zip": ("x.zip", as_zip({"answers/verdicts (1).jsonl": log(line("pool", "right")).encode()})),
}


@pytest.mark.parametrize(("name", "content"), PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("folder", ["", "Cy Young_123_assignsubmission_file"])
def test_a_hand_in_is_read_however_it_is_packed_and_named(name, content, folder, tmp_path):
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / name).write_bytes(content)
    (found,) = classes.read_class(tmp_path)
    assert found.found["pool"].kind == "right" and found.notes == []
    assert not folder or found.name == "Cy Young"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.rar", b"Rar!\x1a\x07", "refused: it is packed as rar: hand in a zip"),
        ("x.7z", b"7z\xbc\xaf\x27\x1c", "refused: it is packed as 7z: hand in a zip"),
        ("x.zip", b"Rar!\x1a\x07", "refused: it is packed as rar: hand in a zip"),
        ("x.zip", b"", "refused: it is no archive that is read"),
        ("x.docx", b"PK", "refused: it is no notebook, no folder and no zip of them"),
        ("x.html", b"<html>", "refused: it is no notebook, no folder and no zip of them"),
        ("x.py", b"print()", "refused: it is no notebook, no folder and no zip of them"),
        ("x.txt", b"hello", "no notebook and no log of verdicts is in it"),
        ("x.zip", as_zip({"a.rar": b"Rar!"}), "a.rar: it is packed as rar: hand in a zip"),
    ],
)
def test_nothing_that_is_handed_in_vanishes_without_a_line(name, content, words, tmp_path):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "table.csv").write_text("the teacher's own")
    assert [note[: len(words)] for note in only(tmp_path, name, content).notes] == [words]


def test_of_several_archives_in_a_folder_one_that_is_torn_does_not_hide_the_others(tmp_path):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada/a.zip").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "ada/b.zip").write_bytes(INNER)
    (found,) = classes.read_class(tmp_path)
    assert found.found["pool"].kind == "right"
    assert [note.partition(" (")[0] for note in found.notes] == ["a.zip: it cannot be read"]


def test_archives_that_unpack_to_too_much_or_never_end_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(handed_in, "IN_ALL", 2**20)
    deep = INNER
    for _ in range(handed_in.DEEPEST):
        deep = as_zip({"me.zip": deep})
    large = bytes(2**21)
    contents = {
        "deep.zip": deep,
        "gz.ipynb.gz": gzip.compress(large),
        "tar.tar.gz": as_tar({"a.bin": large}),
        "inner.zip": as_zip({"me.tar.xz": as_tar({"a.bin": large}, "w:xz")}),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    told = said(tmp_path)
    assert "it is an archive in an archive" in told.pop("deep")
    assert set(told.values()) == {"refused: it has more than 1 MB"}


def test_links_in_a_tar_lead_nowhere(tmp_path):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("a.ipynb")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    (tmp_path / "x.tar").write_bytes(file.getvalue())
    assert said(tmp_path) == {"x": "refused: a.ipynb is a link, or no plain file"}


def test_students_have_the_names_that_a_platform_gave_them(tmp_path):
    for name in (
        "Cy Young_123_assignsubmission_file",
        "Bo Li_7_assignsubmission_file",
        "Bo Li_8_assignsubmission_file",
        "Dé Ö_9_assignsubmission_onlinetext",
    ):
        (tmp_path / name).mkdir()
    for name in ("Eva M_11_assignsubmission_file_01.ipynb", "Eva M_11_assignsubmission_file_me.zip"):
        (tmp_path / name).write_bytes(INNER if name.endswith("zip") else ONE)
    (tmp_path / "youngcy_LATE_12_345_me.zip").write_bytes(INNER)
    (tmp_path / "doej_13_346_me.zip").write_bytes(INNER)
    names = [one.name for one in classes.read_class(tmp_path)]
    assert names == ["Bo Li (7)", "Bo Li (8)", "Cy Young", "Dé Ö", "Eva M", "doej", "youngcy"]


def test_without_the_lessons_the_command_says_so(monkeypatch, capsys):
    monkeypatch.setattr(command, "read_lessons", list)
    assert command.main([]) == 1
    assert capsys.readouterr().err.startswith("The lessons are not here")
