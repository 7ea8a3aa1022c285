"""Points of a class for the gradebooks of Moodle and Canvas, for some lessons and up to a date."""

import csv
import json
import time
import zipfile
from pathlib import Path

import pytest

from vit_classroom.answer_folder import LOG, Mark
from vit_classroom.progress import command
from vit_classroom.progress.gradebook import CANVAS, MOODLE, POSSIBLE, known_by, read_roster
from vit_classroom.tasks import read_lessons

LESSONS = {lesson.number: lesson for lesson in read_lessons()}
NAMES = LESSONS["02"].names


def hand_in(path, *right, day="01"):
    """Write a zip as `--export` does, with exercises that were right at noon of a day."""
    path.parent.mkdir(parents=True, exist_ok=True)
    marks = [Mark(name, "right", time=f"2027-03-{day}T12:00:00.000000").data for name in right]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"answers/{LOG}", "".join(json.dumps(mark) + "\n" for mark in marks))


def rows_of(path):
    """The rows of a table as they are read by a program."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def shown(capsys, *arguments):
    """What the command prints for a class, its exit status being 0."""
    assert command.main(["--class", *map(str, arguments)]) == 0
    return capsys.readouterr()


def test_points_are_the_difficulty_of_what_is_right(tmp_path, capsys):
    hand_in(tmp_path / "class" / "ada.zip", *NAMES)
    hand_in(tmp_path / "class" / "bo.zip", NAMES[0])
    shown(capsys, tmp_path / "class", "--csv", tmp_path / "table.csv")
    ada, bo = rows_of(tmp_path / "table.csv")
    assert (int(ada["points"]), int(bo["points"])) == (LESSONS["02"].points, LESSONS["02"].tasks[0].points)
    assert LESSONS["02"].points > len(NAMES)


def test_a_lesson_is_shown_alone(tmp_path, capsys):
    hand_in(tmp_path / "class" / "ada.zip", *NAMES, "patchify")
    out = shown(capsys, tmp_path / "class", "--lesson", "2").out
    head, there, ada = (row.split() for row in out.splitlines()[:3])
    assert head == ["student", "02", "all", "points"]
    assert ada[1:] == there[1:] == [str(len(NAMES))] * 2 + [str(LESSONS["02"].points)]
    assert command.main(["--class", str(tmp_path / "class"), "--lesson", "77"]) == 1
    assert "has the number 77" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("until", "points"),
    [
        ("2027-02-28", 0),
        ("2027-03-01", 1),
        ("2027-03-01T11:59", 0),
        ("2027-03-01T12:01", 1),
        ("2027-03-02", 2),
    ],
)
def test_what_was_right_after_a_date_does_not_count(until, points, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    if hasattr(time, "tzset"):
        time.tzset()
    hand_in(tmp_path / "class" / "ada" / "a.zip", "prepend_cls_token", day="01")
    hand_in(tmp_path / "class" / "ada" / "b.zip", "pool", day="02")
    shown(capsys, tmp_path / "class", "--until", until, "--csv", tmp_path / "table.csv")
    (ada,) = rows_of(tmp_path / "table.csv")
    assert int(ada["points"]) == points and ada["notes"] == ""


def test_a_date_that_is_none_is_an_error_in_words(capsys):
    with pytest.raises(SystemExit):
        command.main(["--class", "x", "--until", "tomorrow"])
    assert "is no date" in capsys.readouterr().err


def test_canvas_gets_its_five_columns_and_a_row_of_what_is_possible(tmp_path, capsys):
    hand_in(tmp_path / "class" / "lovelaceada_4711_99_me.zip", *NAMES)
    hand_in(tmp_path / "class" / "bo@uni.edu.zip", NAMES[0])
    out = shown(capsys, tmp_path / "class", "--lesson", "02", "01", "--canvas", tmp_path / "canvas.csv")
    possible, bo, ada = rows_of(tmp_path / "canvas.csv")
    assert tuple(ada) == (*CANVAS, "Lesson 01", "Lesson 02")
    assert possible["Student"] == POSSIBLE and int(possible["Lesson 02"]) == LESSONS["02"].points
    assert (ada["ID"], ada["Lesson 02"], ada["Lesson 01"]) == ("4711", str(LESSONS["02"].points), "0")
    assert bo["SIS Login ID"] == "bo@uni.edu" and out.err == ""


def test_moodle_gets_an_address_or_a_number_and_whom_it_cannot_know_is_named(tmp_path, capsys):
    hand_in(tmp_path / "class" / "ada@uni.edu.zip", *NAMES)
    hand_in(tmp_path / "class" / "Bo Li (20271234).zip", NAMES[0])
    hand_in(tmp_path / "class" / "Cy Young_123_assignsubmission_file" / "me.zip", NAMES[0])
    err = shown(capsys, tmp_path / "class", "--lesson", "02", "--moodle", tmp_path / "moodle.csv").err
    bo, cy, ada = rows_of(tmp_path / "moodle.csv")
    assert tuple(ada) == (*MOODLE, "Lesson 02") and ada["Email address"] == "ada@uni.edu"
    assert bo["ID number"] == "20271234" and cy["ID number"] == cy["Email address"] == ""
    assert err.rstrip().endswith(": Cy Young")


MOODLES = (
    "\ufeffFirst name,Surname,Email address,Groups\r\nCy,Young,cy@uni.edu,A\r\nAda,Lovelace,ada@uni.edu,\r\n"
)
CANVASES = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Old (12)\n    Points Possible,,,,,5\n"
    '"Young, Cy",123,s123,cyy,X-1,3\n"Lovelace, Ada",4711,s4711,ada,X-1,\n'
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("roster", [MOODLES, CANVASES], ids=["Moodle", "Canvas"])
def test_a_list_of_the_class_says_whom_a_gradebook_knows(roster, encoding, tmp_path, capsys):
    (tmp_path / "list.csv").write_bytes(roster.encode(encoding))
    hand_in(tmp_path / "class" / "Cy Young_777_assignsubmission_file" / "me.zip", *NAMES)
    hand_in(tmp_path / "class" / "lovelaceada_4711_99_me.zip", *NAMES)
    name = "canvas" if roster is CANVASES else "moodle"
    options = [f"--{name}", tmp_path / "out.csv", "--roster", tmp_path / "list.csv", "--lesson", "02"]
    err = shown(capsys, tmp_path / "class", *options).err
    rows = rows_of(tmp_path / "out.csv")
    if name == "canvas":
        assert [row["SIS User ID"] for row in rows[1:]] == ["s123", "s4711"] and err == ""
        assert {row["Section"] for row in rows[1:]} == {"X-1"}
    else:
        assert rows[0]["Email address"] == "cy@uni.edu" and rows[0]["Last name"] == "Young"
        assert err.rstrip().endswith(": lovelaceada")


def test_a_list_without_a_way_to_know_students_is_an_error_in_words(tmp_path, capsys):
    (tmp_path / "list.csv").write_text("name\nada\n", encoding="utf-8")
    hand_in(tmp_path / "class" / "ada.zip", *NAMES)
    line = ["--class", str(tmp_path / "class"), "--canvas", "x.csv", "--roster", str(tmp_path / "list.csv")]
    assert command.main(line) == 1 and "has no column" in capsys.readouterr().err


def test_of_two_with_one_name_the_list_is_believed_only_for_their_numbers(tmp_path):
    text = "Student,ID,SIS User ID,SIS Login ID,Section\nBo Li,1,,a,\nBo Li,2,,b,\n"
    (tmp_path / "list.csv").write_text(text, encoding="utf-8")
    assert len(read_roster(tmp_path / "list.csv")) == 2
    hand_in(tmp_path / "class" / "Bo Li.zip")
    hand_in(tmp_path / "class" / "libo_2_99_x.zip")
    options = ["--canvas", str(tmp_path / "out.csv"), "--roster", str(tmp_path / "list.csv")]
    assert command.main(["--class", str(tmp_path / "class"), *options]) == 0
    assert [row["ID"] for row in rows_of(tmp_path / "out.csv")[1:]] == ["", "2"]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("ada.zip", {}),
        ("ada@uni.edu.zip", {"Email address": "ada@uni.edu", "SIS Login ID": "ada@uni.edu"}),
        ("ada_1234567.tar.gz", {"ID number": "1234567", "SIS User ID": "1234567"}),
        ("ada1234@uni.edu.ipynb", {"Email address": "ada1234@uni.edu", "SIS Login ID": "ada1234@uni.edu"}),
        ("doej_LATE_13_346_me.zip", {"ID": "13"}),
        ("Cy Young_123456_assignsubmission_file", {}),
    ],
)
def test_what_the_name_of_a_hand_in_says_of_its_student(name, known):
    assert known_by(Path(name)) == known


def test_formulas_in_names_are_none_in_a_gradebook(tmp_path):
    hand_in(tmp_path / "class" / "=cmd().zip", *NAMES)
    assert command.main(["--class", str(tmp_path / "class"), "--moodle", str(tmp_path / "m.csv")]) == 0
    assert rows_of(tmp_path / "m.csv")[0]["First name"] == "'=cmd()"
