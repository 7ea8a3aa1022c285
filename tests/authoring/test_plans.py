"""Plans of a term, their workload and marks, and the questions of an exam with answers that are computed."""

import math
import re
import subprocess
from dataclasses import replace

import pytest
import torch
from torch import nn

from authoring.notebooks.course import LessonError, read_course
from authoring.site.pages import read_yaml
from authoring.teaching import exam, plans
from authoring.teaching.teaching_notes import SOURCE
from vit_course import attention, embeddings, encoder, interpret, optim, patches, vit
from vit_course.training.paths import ROOT

COURSE = read_course(ROOT)
PLANS = read_yaml(ROOT / SOURCE)["plans"]
PAGE = plans.plans_page(COURSE)
QUESTIONS = read_yaml(exam.SOURCE) if exam.SOURCE.is_file() else []
with_exam = pytest.mark.skipif(not QUESTIONS, reason="the ZIP of a release leaves the exam out")


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: str(plan["weeks"]))
def test_a_plan_has_its_weeks_and_no_lesson_before_those_that_it_builds_on(plan):
    text = plans.plan_text(COURSE, plan)
    assert re.findall(r"^\| (\d+) \|", text, re.MULTILINE) == [str(week + 1) for week in range(plan["weeks"])]
    named = [entry.removeprefix("home ") for session in plan["sessions"] for entry in session]
    taught = [name for name in named if name.isdigit()]
    assert taught == sorted(taught) and set(taught) >= {f"{number:02d}" for number in range(9)}
    titles = {lesson.number: lesson.title for lesson in COURSE.lessons}
    assert all(titles[number] in text for number in taught)


def test_there_are_plans_for_terms_of_four_lengths_and_the_longest_has_every_lesson():
    assert [plan["weeks"] for plan in PLANS] == [10, 12, 14, 18]
    assert sum(PLANS[-1]["sessions"], []) == [lesson.number for lesson in COURSE.lessons]
    assert all(f"## {plan['weeks']} weeks" in PAGE for plan in PLANS) and "## A workshop: 2 days" in PAGE


@pytest.mark.parametrize("sessions", [[["00"]], [["00"], ["home 00"]]])
def test_a_plan_that_is_too_short_or_has_a_lesson_twice_is_an_error(sessions):
    with pytest.raises(LessonError, match="plan of 2 weeks"):
        plans.plan_text(COURSE, {"weeks": 2, "for": "", "sessions": sessions})


def test_the_hours_of_a_plan_are_those_of_its_sessions_notebooks_tasks_project_and_exam():
    work = read_yaml(ROOT / SOURCE)["workload"]
    row = plans.workload_table(COURSE, [{"weeks": 2, "sessions": [["01"], ["home 02", "03"]]}], work)
    weeks, count, points, in_class, home, total, credits = row.splitlines()[-1].strip("| ").split(" | ")
    minutes = sum(plans.core_minutes(COURSE, lesson) for lesson in COURSE.select(["01", "02", "03"]))
    at_home = (minutes + 2 * work["task_minutes"] - 2 * work["exercises_in_class_minutes"]) / 60
    assert (weeks, count, in_class, home) == ("2", "3", "3", f"{at_home:.0f}")
    assert total == f"{3 + at_home + work['project_hours'] + work['exam_hours']:.0f}"
    assert int(points) > 11 and credits


def test_every_project_has_fifteen_points_and_the_shares_of_a_mark_add_up():
    rows = re.findall(r"^\| \d \| (.+?) \| .+? \| (\d+) \|", plans.projects_table(COURSE, {}), re.MULTILINE)
    assert len(rows) == 3 and {points for _, points in rows} == {"15"}
    assert sum(read_yaml(ROOT / SOURCE)["marks"]["shares"].values()) == 100


@pytest.mark.parametrize("count", [1, 9])
def test_the_page_works_with_fewer_lessons(count):
    fewer = replace(COURSE, lessons=COURSE.lessons[:count])
    assert "## 10 weeks" in plans.plans_page(fewer)


def test_a_day_is_timed_by_the_minutes_of_its_lessons():
    lessons = {lesson.number: lesson for lesson in COURSE.select(["01", "02"])}
    plan = plans.day_plan(COURSE, ["01", "lunch 60", "02", "77"], lessons, "09:30")
    first, second = (plans.core_minutes(COURSE, lesson) for lesson in lessons.values())
    ends = re.findall(r"to (\d\d):(\d\d)", plan)
    assert [60 * int(hour) + int(minute) - 570 for hour, minute in ends] == [
        first,
        first + 60,
        first + 60 + second,
    ]
    assert f"**{first + second}**" in plan


# --- the exam


def names():
    """What the expressions of the answers may use."""
    modules = (patches, embeddings, attention, encoder, vit, optim, interpret)
    return {name: value for module in modules for name, value in vars(module).items()} | {
        "torch": torch,
        "nn": nn,
        "math": math,
    }


@pytest.mark.parametrize("question", QUESTIONS, ids=range(1, len(QUESTIONS) + 1))
def test_an_exam_question_is_complete_and_its_answer_is_right(question):
    assert question.keys() - {"check"} == {"lesson", "points", "ask", "answer"}
    assert question["lesson"] in {lesson.number for lesson in COURSE.lessons} and 3 <= question["points"] <= 5
    torch.manual_seed(0)
    assert eval(question.get("check", "True"), names()), question["ask"]


@with_exam
def test_there_are_24_exam_questions_and_none_stands_in_a_quiz():
    quizzes = {" ".join(one.text.split()) for lesson in COURSE.lessons for one in lesson.questions}
    asked = [" ".join(question["ask"].split()) for question in QUESTIONS]
    assert len(asked) == len(set(asked)) == 24 and not quizzes & set(asked)
    assert sum("check" in question for question in QUESTIONS) >= 16


@with_exam
def test_questions_are_printed_for_students_without_answers(capsys):
    assert exam.main(["4"]) == 0
    students = capsys.readouterr().out
    assert "Compute the two weights" in students and "8.04" not in students and "9 points in all" in students
    assert exam.main(["04", "--answers"]) == 0
    assert "8.04" in capsys.readouterr().out
    assert exam.main(["16"]) == 1


@with_exam
def test_an_archive_of_the_course_leaves_the_exam_out():
    line = [
        "git",
        "check-attr",
        "export-ignore",
        "authoring/teaching/exam.yaml",
        "authoring/teaching/exam.py",
    ]
    run = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    if run.returncode:
        pytest.skip("this copy is no clone")
    assert [one.rpartition(" ")[2] for one in run.stdout.splitlines()] == ["set", "unspecified"]
