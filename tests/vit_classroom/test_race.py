"""The race of lesson 16: what is handed in, and what the board makes of lines that anybody may have written."""

import json

from vit_classroom import race

LINE = {"what": "race", "name": "Ada", "accuracy": 0.5, "core_seconds": 300}
LINE |= {"settings": "lr 0.01", "data": "Shapes-10"}


def runs(*changes):
    return list(race.entries(json.dumps({**LINE, **change}) for change in changes))


def test_a_run_that_is_handed_in_stands_on_the_board(tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path))
    said = [
        race.hand_in("Ada", found, 312.4, {"lr": 0.003, "keep": 0.5}, "Shapes-10") for found in (0.6, 0.4)
    ]
    assert said == [f"handed in: {tmp_path / 'verdicts.jsonl'}"] * 2
    (board,) = race.boards()
    assert board.rows == (("1", "Ada", "60.0 %", "312", "lr 0.003, keep 0.5"),)
    assert board.caption == "Shapes-10"


def test_a_run_without_a_name_or_of_a_strict_run_is_not_handed_in(tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path))
    assert "write your name" in race.hand_in(" ", 0.6, 300, {}, "Shapes-10")
    monkeypatch.setenv("VIT_COURSE_STRICT", "1")
    assert "not a student's notebook" in race.hand_in("Ada", 0.6, 300, {}, "Shapes-10")
    assert list(tmp_path.iterdir()) == [] and race.boards() == []


def test_the_board_ranks_the_best_run_of_every_name_and_parts_the_kinds_of_pictures():
    given = runs({}, {"accuracy": 0.7}, {"name": "Bo", "accuracy": 0.6}, {"name": "Bo", "data": "CIFAR-10"})
    shapes, cifar = race.boards(given)
    assert [row[:3] for row in shapes.rows] == [("1", "Ada", "70.0 %"), ("2", "Bo", "60.0 %")]
    assert (cifar.caption, len(cifar.rows)) == ("CIFAR-10", 1)


def test_lines_that_are_damaged_or_cannot_be_true_are_passed_over():
    assert list(race.entries(["", "{", "[1]", "9" * 5000, "[" * 100_000])) == runs(
        {"accuracy": 1.2}, {"accuracy": "1"}, {"accuracy": True}, {"accuracy": float("nan")}, {"core_seconds": 0},
        {"core_seconds": float("inf")}, {"core_seconds": 10**400}, {"name": None}, {"settings": []}, {"what": "check"},
    ) == []  # fmt: skip


def test_what_was_handed_in_is_escaped_and_cut():
    (board,) = race.boards(runs({"name": "<script>" + "a" * 300, "settings": "<b>", "data": "<i>"}))
    html = board._repr_html_()
    assert "&lt;script&gt;" in html and not any(tag in html for tag in ("<script>", "<b>", "<i>"))
    assert len(board.rows[0][1]) == race.LONGEST
