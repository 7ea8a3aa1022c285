"""Progress: a student's own, and the table of a class in which some are wrong, hostile, or never end."""

import ast
import csv
import io
import json
import os
import stat
import time
import zipfile
from collections import Counter
from functools import cache

import nbformat
import pytest

from course import read_course
from editions import make_notebook
from vit_course.classroom.checks import EXERCISES
from vit_course.classroom.checks.source import CannotKeep, standalone_source
from vit_course.classroom.progress import classes, command, judge, student
from vit_course.classroom.progress.extract import NoNotebook, answers_in
from vit_course.classroom.progress.handed_in import LARGEST, read_class
from vit_course.classroom.progress.judge import Found, Limits
from vit_course.classroom.progress.tasks import read_lessons, read_starters
from vit_course.machinery.paths import ROOT

QUICK = Limits(seconds=1, student=60)
LESSONS = read_lessons()
COUNT = """
def count_patches(img_size, patch_size):
    sides = [(side, side) if isinstance(side, int) else side for side in (img_size, patch_size)]
    (height, width), (p, q) = sides
    if height % p or width % q:
        raise ValueError("does not fit")
    return (height // p) * (width // q)
"""
WITH_CLS = COUNT.replace("(width // q)", "(width // q) + 1")
NEVER_ENDS = "import itertools\ndef patchify(images, patch_size):\n    return sum(itertools.count())\n"


@cache
def course():
    """The lessons as their authors wrote them."""
    return read_course(ROOT)


@cache
def notebook(number, folder):
    """A notebook of a lesson as students get it, or solved, as bytes."""
    (lesson,) = course().select([number])
    return nbformat.writes(make_notebook(course(), lesson, folder)).encode()


def cells(*sources):
    """A notebook of such cells; one that defines an exercise asks for it."""
    book = nbformat.v4.new_notebook()
    for source in sources:
        cell = nbformat.v4.new_code_cell(source)
        names = [name for name in EXERCISES if f"def {name}(" in source or f"class {name}(" in source]
        if names:
            cell.metadata["exercise"] = ", ".join(f"vit_course.any:{name}" for name in names)
        book.cells.append(cell)
    return nbformat.writes(book).encode()


@cache
def planted(name):
    """Known mistakes of an exercise that can be written down without the finished version: words and source."""
    found = []
    for words, wrong in EXERCISES[name].mistakes():
        try:
            text = f"{standalone_source(wrong, name)}\n{name} = {wrong.__name__}\n"
            space = {}
            exec(text, space)
            if not judge.use_of_finished(ast.parse(text), space, name):
                found.append((words, text))
        except (CannotKeep, SyntaxError, NameError, AttributeError, OSError):
            continue
    return found


def says(mistake, words):
    """Tell whether a mistake is named with these words, or the first sentence of them."""
    return words in mistake or mistake == judge.first_sentence(words)


def zipped(path, files, **options):
    """Write a zip of some files."""
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, text in files.items():
            archive.writestr(name, text)


# --- what there is to do


def test_the_tasks_are_the_exercises_of_the_lessons_with_their_minutes():
    assert {name for lesson in LESSONS for name in lesson.names} == set(EXERCISES)
    assert all(task.minutes > 0 for lesson in LESSONS for task in lesson.tasks)
    assert [lesson.title for lesson in LESSONS] == [lesson.title for lesson in course().lessons]


def test_the_code_that_is_to_be_mended_is_known():
    references = [
        reference
        for lesson in course().lessons
        for cell in lesson.cells
        for reference in cell.references
        if reference.starter
    ]
    assert len(read_starters()) == len(references) > 0


# --- a notebook is read, and not run


def test_only_what_an_answer_uses_is_taken_from_a_notebook():
    book = cells(
        "import math, torch\nfrom vit_course.classroom import check, plots",
        "SIDE = 4\nFLOOR = math.floor\ndef halves(x):\n    return FLOOR(x / SIDE)",
        "raise SystemExit('this would train for hours')",
        "%matplotlib inline\ndef count_patches(a, b):\n    return halves(a)\n\ncount_patches = check(count_patches)\n"
        "print(count_patches(images, 4))",
    )
    text = answers_in(book)["count_patches"]
    space = {}
    exec(text, space)
    assert space["count_patches"](9, None) == 2
    assert "torch" not in text and "SystemExit" not in text and "images" not in text


def test_another_exercise_that_an_answer_uses_is_the_finished_version():
    book = cells(
        "def count_patches(a, b):\n    raise NotImplementedError",
        "def patchify(images, patch_size):\n    return count_patches(images, 4)",
    )
    assert "from vit_course.patches import count_patches" in answers_in(book)["patchify"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"cells": 3}', b"\xff\xfe", b"[" * 100_000])
def test_a_broken_notebook_is_said_to_be_none(content):
    with pytest.raises(NoNotebook, match="it is no notebook"):
        answers_in(content)


# --- one student, in a process of its own


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (COUNT, "right", ""),
        (WITH_CLS, "wrong", "one too many: the CLS token is no patch"),
        ("def count_patches(img_size, patch_size):\n    raise NotImplementedError", "unfinished", ""),
        ("def count_patches(:", "wrong", "SyntaxError"),
        ("1 / 0", "wrong", "ZeroDivisionError"),
        ("x = 1", "wrong", "nothing of this name is defined"),
        ("while True:\n    pass", "wrong", "your code was still running after 1 seconds"),
        ("from vit_course.patches import count_patches", "wrong", "it uses the finished version"),
        ("from vit_course.patches import *", "wrong", "it uses the finished version"),
        (
            "import vit_course.patches as v\ncount_patches = v.count_patches",
            "wrong",
            "it uses the finished version",
        ),
        ("import vit_course.patches as v\ndef count_patches(a, b):\n    return v.count_patches(a, b)",)
        + ("wrong", "`v.count_patches`"),
        (
            "def count_patches(a, b):\n    from vit_course.patches import count_patches as f\n    return f(a, b)",
        )
        + ("wrong", "it uses the finished version"),
    ],
)
def test_an_answer_is_judged_by_what_its_source_does(text, kind, said):
    os.environ["VIT_COURSE_CHECK_SECONDS"], before = "1", os.environ.get("VIT_COURSE_CHECK_SECONDS", "")
    try:
        found = judge.judge_text("count_patches", text)
    finally:
        os.environ["VIT_COURSE_CHECK_SECONDS"] = before
    assert found.kind == kind and said in found.mistake


REACHES = {
    "writes": "open({outside!r}, 'w')",
    "removes": "os.remove({outside!r})",
    "moves away": "os.rename({outside!r}, 'here')",
    "links": "os.link({outside!r}, 'here')",
    "opens the folder": "os.open(os.path.dirname({outside!r}), 0)",
    "starts a program": "os.system('touch {outside}.new')",
    "forks": "os.fork()",
    "connects": "__import__('socket').create_connection(('127.0.0.1', 9))",
    "raises its limits": "__import__('resource').setrlimit(4, (1, 1))",
    "kills": "os.kill(os.getppid(), 0)",
}


def test_what_an_answer_does_reaches_nothing_outside_its_process(tmp_path):
    outside = tmp_path / "precious.txt"
    outside.write_text("precious", encoding="utf-8")
    lines = [
        f"try:\n    {code.format(outside=str(outside))}\n    done.append({name!r})\nexcept PermissionError:\n    pass"
        for name, code in REACHES.items()
    ]
    text = "import os\ndone = []\n" + "\n".join(lines) + "\nopen('mine', 'w').write('may be')\n"
    text += "assert not done, done\nos.environ['HOME'] = 'changed'\n" + COUNT
    found = judge.judge({"count_patches.py": text.encode()}, QUICK)
    assert found.found == {"count_patches": Found("right")} and found.notes == []
    assert os.listdir(tmp_path) == ["precious.txt"] and outside.read_text(encoding="utf-8") == "precious"
    assert os.environ.get("HOME") != "changed"


ENDS = {
    "count_patches": COUNT,
    "patchify": NEVER_ENDS,
    "unpatchify": "import os\ndef unpatchify(a, b, c):\n    os._exit(0)\n",
    "pool": "def pool(a, b):\n    return bytearray(10**11)\n",
}


def test_who_never_ends_or_ends_the_process_loses_that_answer_alone():
    found = judge.judge({f"answers/{name}.py": text.encode() for name, text in ENDS.items()}, QUICK).found
    assert {name: one.kind for name, one in found.items()} == {
        "count_patches": "right",
        "patchify": "stopped",
        "unpatchify": "stopped",
        "pool": "wrong",
    }
    assert "still running after 4 seconds" in found["patchify"].mistake
    assert found["unpatchify"].mistake == "it ended its process"


def test_what_a_process_sends_is_read_as_data_alone():
    judged = judge.Judged()
    with pytest.raises(ValueError, match="shout"):
        judge.note_down("shout", "patchify", "", judged)
    with pytest.raises(ValueError, match="right"):
        judge.note_down("right", "no exercise", "", judged)
    assert judged == judge.Judged()


# --- what is handed in


def refused(folder):
    """Why each student of a folder was refused."""
    return {one.student: one.refused for one in read_class(folder)}


def test_hostile_zips_are_refused_by_name(tmp_path):
    zipped(tmp_path / "up.zip", {"../../count_patches.py": COUNT})
    zipped(tmp_path / "root.zip", {"/etc/count_patches.py": COUNT})
    zipped(tmp_path / "drive.zip", {"C:\\count_patches.py": COUNT})
    link = zipfile.ZipInfo("patchify.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    zipped(tmp_path / "link.zip", {link: "/etc/passwd"})
    zipped(tmp_path / "bomb.zip", {"pool.py": bytes(LARGEST + 1)}, compression=zipfile.ZIP_DEFLATED)
    zipped(tmp_path / "many.zip", {f"{n}.txt": "" for n in range(5001)})
    (tmp_path / "torn.zip").write_bytes(b"PK\x03\x04 and no more")
    said = {
        "up": "its path ../../count_patches.py leads out of it",
        "root": "its path /etc/count_patches.py leads out of it",
        "link": "patchify.py is a link",
        "bomb": "pool.py has more than 20 MB",
        "many": "it holds more than 5000 files",
    }
    found = refused(tmp_path)
    assert found | said == found
    assert "leads out of it" in found["drive"] and "cannot be read" in found["torn"]


def test_a_zip_that_lies_about_its_sizes_is_found_out(tmp_path):
    zipped(tmp_path / "liar.zip", {"pool.py": bytes(LARGEST + 1)}, compression=zipfile.ZIP_DEFLATED)
    content = (tmp_path / "liar.zip").read_bytes()
    size = (LARGEST + 1).to_bytes(4, "little")
    assert content.count(size) == 2
    (tmp_path / "liar.zip").write_bytes(content.replace(size, (9).to_bytes(4, "little")))
    assert refused(tmp_path)["liar"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no such files")
def test_links_and_other_files_that_are_none_are_refused(tmp_path):
    secret = tmp_path / "secret.py"
    secret.write_text("x", encoding="utf-8")
    for name in ("link", "pipe"):
        (tmp_path / "class" / name).mkdir(parents=True)
    (tmp_path / "class/link/pool.py").symlink_to(secret)
    os.mkfifo(tmp_path / "class/pipe/pool.py")
    assert refused(tmp_path / "class") == {"link": "pool.py is a link", "pipe": "pool.py is no plain file"}


def test_the_courses_own_files_are_no_answers_of_a_student(tmp_path):
    zipped(tmp_path / "all.zip", {"course/solutions/01.ipynb": "{}", "course/notebooks/01.ipynb": "{}"})
    (one,) = read_class(tmp_path)
    assert list(one.files) == ["course/notebooks/01.ipynb"]


# --- the table of a class


def write_class(folder):
    """Write a class of six: right, wrong, unfinished, hostile, endless, and a broken notebook."""
    folder.mkdir()
    (folder / "ada.ipynb").write_bytes(notebook("01", "solutions"))
    (folder / "bo.ipynb").write_bytes(notebook("01", "notebooks"))
    (folder / "cy").mkdir()
    (folder / "cy/count_patches.py").write_text(WITH_CLS, encoding="utf-8")
    zipped(folder / "di.zip", {"answers/count_patches.py": WITH_CLS, "answers/patchify.py": NEVER_ENDS})
    zipped(folder / "ed.zip", {"../patchify.py": "x"})
    (folder / "flo.ipynb").write_text("{", encoding="utf-8")


def test_the_table_of_a_class_says_who_is_stuck_where(tmp_path, capsys):
    write_class(tmp_path / "class")
    table = tmp_path / "table.csv"
    assert command.main(["--class", str(tmp_path / "class"), "--csv", str(table), "--seconds", "1"]) == 0
    printed = capsys.readouterr().out
    rows = {row["student"]: row for row in csv.DictReader(io.StringIO(table.read_text(encoding="utf-8")))}
    assert {name: row["lesson 01"] for name, row in rows.items()} == {
        **{"ada": "4", "bo": "0", "cy": "0"},
        **{"di": "0", "ed": "0", "flo": "0"},
    }
    assert rows["di"]["patchify"] == "stopped" and rows["bo"]["patchify"] == "unfinished"
    assert "ed: refused: its path ../patchify.py leads out of it" in printed
    assert "flo: flo.ipynb: it is no notebook" in printed
    assert "01  count_patches: 1 of 3 right, 2 wrong, 0 not written\n     2  one too many: the CLS" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_names_and_verdicts_of_students_are_no_commands():
    bad = classes.Student("=cmd()\x1b[2J", {}, ["\x1b]0;title\x07 x"])
    assert "\x1b" not in classes.class_text([bad], LESSONS)
    assert "\n'=cmd()" in classes.class_csv([bad], LESSONS)


def test_the_finished_course_is_right_and_the_students_course_is_not_written_yet():
    for folder, kind in (("solutions", "right"), ("notebooks", "unfinished")):
        books = {f"{lesson.slug}.ipynb": notebook(lesson.number, folder) for lesson in course().lessons}
        judged = judge.judge(books)
        assert {name: one.kind for name, one in judged.found.items()} == dict.fromkeys(EXERCISES, kind)
        assert judged.notes == []


def write_thirty(folder):
    """Write a class of thirty, and return the known words that were planted, by exercise, for each of ten students."""
    folder.mkdir()
    for n in range(8):
        files = {
            f"{m:02}.ipynb": notebook(f"{m:02}", "solutions") for m in range(len(LESSONS) if n < 2 else n)
        }
        zipped(folder / f"right{n}.zip", files)
    words = []
    for n in range(10):
        (folder / f"wrong{n}").mkdir()
        chosen = {}
        for name in (name for lesson in LESSONS[:6] for name in lesson.names):
            if mistakes := planted(name):
                chosen[name], text = mistakes[n % 3 % len(mistakes)]
                (folder / f"wrong{n}/{name}.py").write_text(text, encoding="utf-8")
        words.append(chosen)
    for n in range(6):
        (folder / f"unfinished{n}.ipynb").write_bytes(notebook(f"{n:02}", "notebooks"))
    for n, path in enumerate(("../x.py", "/x.py", "a/../../x.py")):
        zipped(folder / f"hostile{n}.zip", {path: "x"})
    (folder / "endless0.ipynb").write_bytes(cells("def pool(a, b):\n    while True:\n        pass"))
    (folder / "endless1.ipynb").write_bytes(cells(NEVER_ENDS))
    (folder / "endless2").mkdir()
    (folder / "endless2/pool.py").write_text("import time\ntime.sleep(10**6)\n", encoding="utf-8")
    return words


@pytest.mark.weekly
def test_a_class_of_thirty_is_checked_in_a_minute_and_its_mistakes_are_those_that_were_planted(tmp_path):
    words = write_thirty(tmp_path / "class")
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0
    start = time.perf_counter()
    students = classes.judge_class(read_class(tmp_path / "class"), Limits())
    seconds = time.perf_counter() - start
    print(classes.class_text(students, LESSONS), f"\n{seconds:.1f} s, load {busy:.1f}")
    assert len(students) == 30
    by_name = {student.name: student for student in students}
    assert sum(bool(words) for words in words[0].values()) > 10
    for n, chosen in enumerate(words):
        found = by_name[f"wrong{n}"].found
        assert {name: one.kind for name, one in found.items()} == dict.fromkeys(chosen, "wrong")
        unlike = [(name, chosen[name], one.mistake) for name, one in found.items()]
        assert [row for row in unlike if not says(row[2], row[1])] == []
    for one in classes.talk_about(students, LESSONS):
        mine = Counter(chosen[one.exercise] for chosen in words if one.exercise in chosen)
        told = [(mistake, count) for mistake, count in one.mistakes if "running" not in mistake]
        assert sorted(mine.values()) == sorted(
            count for mistake, count in told if "stops with" not in mistake
        )
    assert all("leads out of it" in by_name[f"hostile{n}"].notes[0] for n in range(3))
    assert all(by_name[f"endless{n}"].count(EXERCISES, "stopped", "wrong") == 1 for n in range(3))
    assert by_name["right0"].count(EXERCISES, "right") == len(EXERCISES)
    if busy < classes.CORES:
        assert seconds < 60


# --- one's own progress


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """A folder of kept answers: one right, one that a hand has changed."""
    monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path / "answers"))
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers/count_patches.py").write_text(COUNT, encoding="utf-8")
    (tmp_path / "answers/patchify.py").write_text("from vit_course.patches import patchify", encoding="utf-8")
    return tmp_path / "answers"


def test_kept_answers_are_right_until_they_are_verified(answers, capsys):
    assert command.main(["--json"]) == 0
    quick = json.loads(capsys.readouterr().out)
    assert quick["lessons"][1]["right"] == ["count_patches", "patchify"]
    assert command.main(["--json", "--verify"]) == 0
    verified = json.loads(capsys.readouterr().out)
    assert verified["lessons"][1]["right"] == ["count_patches"]
    assert "it uses the finished version" in verified["not_right"]["patchify"]


def test_the_minutes_left_are_those_of_the_tasks_that_are_not_right_and_the_first_of_them_is_next(answers):
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
    assert command.main(["--export", str(tmp_path / "class/me.zip")]) == 0
    assert "holds 2 answers" in capsys.readouterr().out
    (one,) = read_class(tmp_path / "class")
    assert one.student == "me" and set(one.files) == {"answers/count_patches.py", "answers/patchify.py"}


def test_without_answers_it_says_where_they_are_looked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path / "none"))
    assert command.main([]) == 0
    assert str(tmp_path / "none") in capsys.readouterr().out


def test_a_class_that_is_not_there_is_an_error_in_words(tmp_path, capsys):
    assert command.main(["--class", str(tmp_path / "none")]) == 1
    assert "there is no folder" in capsys.readouterr().err


def test_to_watch_a_class_checks_anew_only_what_has_changed(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "class"
    (folder / "cy").mkdir(parents=True)
    (folder / "cy/count_patches.py").write_text(WITH_CLS, encoding="utf-8")
    asked, rounds = [], iter([lambda: None, lambda: (folder / "di.ipynb").write_bytes(cells(COUNT))])

    def fake_judge(files, limits):
        asked.append(sorted(files))
        return judge.Judged()

    def sleep(seconds):
        if (step := next(rounds, None)) is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(classes, "judge", fake_judge)
    monkeypatch.setattr(command.time, "sleep", sleep)
    assert command.main(["--class", str(folder), "--watch", "10"]) == 0
    assert asked == [["count_patches.py"], ["di.ipynb"]]
    assert capsys.readouterr().out.count("\nthere are ") == 2
