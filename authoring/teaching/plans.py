"""The plans of a term and of a workshop, with credit and marks: one page, `docs/plans.md`. `build` writes it.

`docs/teaching.yaml` says which lesson is taught when. Titles, minutes and points come from the lessons, and the points
of the projects from the tables that they are marked by.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from authoring.notebooks.course import Course, Lesson, LessonError
from authoring.notebooks.minutes import core_minutes
from authoring.site.pages import lesson_link, prose, read_yaml, table
from authoring.teaching.teaching_notes import SOURCE, exercise_cells, hours, read_notes

HOME = "home "
POINTS = re.compile(r"\| 0 to (\d+) \|$", re.MULTILINE)
PROJECT = re.compile(r"^## \d+\. (.+?) \((.+)\)$", re.MULTILINE)
PAGE = """\
# Plans, credit and marks

Plans of {weeks} weeks and a workshop of {days} days. A session in class has {session} minutes, and [run
sheets](run_sheets.md) plan each one. What may be left out of a lesson is in the [teaching
notes](teaching_notes.md).

## Workload and credit

{workload}

Sessions are counted in full. At home, students read and finish the notebooks of the week. This takes the minutes
that a lesson states, less {in_class} minutes of exercises done in class. Add {task} minutes a week for the task at
home, {project} hours for one project, and {exam} hours for the exam and its preparation. A credit is {low} to
{high} hours of work, as in ECTS. The points are those of all exercises in the plan: [Exercises for
credit](assignment.md).

## Marks

A suggestion: {shares}. The mark is {grades} of the points.

The [three projects](projects.md) are marked by the points that stand with them:

{projects}

Two people mark each project independently, and discuss differences of more than two points. Run the notebook from
top to bottom before you read it. Ask both members of a pair one question about their code.

Exam questions with answers are in `authoring/teaching/exam.yaml`. The ZIP of a release leaves this file out, and so
does an update of a student's copy. `python -m authoring.teaching.exam 01 02 --answers` prints those of some
lessons.

{plans}

## A workshop: {days} days

Lessons {workshop_lessons}, {workshop_hours} of lessons altogether.

{workshop}
"""


def plans_page(course: Course) -> str:
    """Return the page."""
    source = read_yaml(course.root / SOURCE)
    work, marks, workshop = source["workload"], source["marks"], source["workshop"]
    lessons = {lesson.number: lesson for lesson in course.lessons}
    taught = [lessons[entry] for day in workshop["days"] for entry in day if entry in lessons]
    low, high = work["hours_of_a_credit"]
    return PAGE.format(
        weeks=in_words([str(plan["weeks"]) for plan in source["plans"]]),
        days=len(workshop["days"]),
        session=work["session_minutes"],
        in_class=work["exercises_in_class_minutes"],
        task=work["task_minutes"],
        project=work["project_hours"],
        exam=work["exam_hours"],
        low=low,
        high=high,
        workload=workload_table(course, source["plans"], work),
        shares=in_words([f"{name} {share} %" for name, share in marks["shares"].items()]),
        grades=in_words([f"{name} from {share} %" for name, share in marks["grades"].items()]),
        projects=projects_table(course, marks["grades"]),
        plans="\n\n".join(plan_text(course, plan) for plan in source["plans"]),
        workshop_lessons=f"{taught[0].number} to {taught[-1].number}" if taught else "none",
        workshop_hours=hours(sum(core_minutes(course, lesson) for lesson in taught)),
        workshop="\n\n".join(
            f"**Day {number}**\n\n{day_plan(course, day, lessons, workshop['start'])}"
            for number, day in enumerate(workshop["days"], 1)
        ),
    )


def in_words(parts: Sequence[str]) -> str:
    """Join words by commas and an "and"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


# -- a term


def lessons_of(course: Course, session: Sequence[str]) -> tuple[list[Lesson], list[Lesson], list[str]]:
    """Return what a week has: lessons in class, lessons at home, and words; lessons that exist only."""
    lessons = {lesson.number: lesson for lesson in course.lessons}
    in_class = [lessons[entry] for entry in session if entry in lessons]
    home = [
        lessons[name] for entry in session if (name := entry.removeprefix(HOME)) in lessons and name != entry
    ]
    return in_class, home, [entry for entry in session if not entry.removeprefix(HOME).isdigit()]


def plan_text(course: Course, plan: Mapping[str, Any]) -> str:
    """Return a plan: what is taught in each week, and what students do at home.

    Raises:
        LessonError: if it has another number of weeks than it says, or a lesson twice.
    """
    sessions = plan["sessions"]
    named = [entry.removeprefix(HOME) for session in sessions for entry in session]
    if len(sessions) != plan["weeks"] or len(set(named)) < len(named):
        raise LessonError(
            f"{SOURCE}: the plan of {plan['weeks']} weeks has {len(sessions)}, or a lesson twice"
        )
    rows = []
    for week, session in enumerate(sessions, 1):
        in_class, home, words = lessons_of(course, session)
        title = [f"{lesson_link(lesson)} {lesson.title}" for lesson in in_class] + words
        before = [f"Before it: {lesson_link(lesson)} *{lesson.title}*." for lesson in home]
        tasks = [read_notes(course, lesson)["home"] for lesson in in_class]
        minutes = sum(core_minutes(course, lesson) for lesson in [*in_class, *home])
        rows.append([week, "; ".join(title) or "–", minutes or "–", " ".join([*before, *tasks])])
    head = ["week", "in class", "minutes of the notebooks", "at home"]
    return f"## {plan['weeks']} weeks\n\n{plan['for']}\n\n{table(head, rows)}"


def workload_table(course: Course, plans: Sequence[Mapping[str, Any]], work: Mapping[str, Any]) -> str:
    """Return a table of the plans: lessons, points, hours in class and at home, and credits."""
    rows = []
    low, high = work["hours_of_a_credit"]
    for plan in plans:
        found = [lessons_of(course, session) for session in plan["sessions"]]
        in_class = [lesson for lessons, _, _ in found for lesson in lessons]
        every = in_class + [lesson for _, lessons, _ in found for lesson in lessons]
        points = sum(cell.metadata["difficulty"] for lesson in every for cell in exercise_cells(lesson))
        sessions = plan["weeks"] * work["session_minutes"] / 60
        home = sum(core_minutes(course, lesson) for lesson in every)
        home += plan["weeks"] * work["task_minutes"] - len(in_class) * work["exercises_in_class_minutes"]
        total = sessions + home / 60 + work["project_hours"] + work["exam_hours"]
        credits = sorted({round(total / hours_of_one) for hours_of_one in (low, high)})
        hours_of = [f"{sessions:.0f}", f"{home / 60:.0f}", f"{total:.0f}"]
        rows.append([plan["weeks"], len(every), points, *hours_of, " to ".join(map(str, credits))])
    head = ["weeks", "lessons", "points", "hours in class", "hours of notebooks and tasks at home"]
    return table([*head, "hours with project and exam", "credits"], rows)


def projects_table(course: Course, grades: Mapping[str, int]) -> str:
    """Return a table of the projects: after which lesson, the points, and the points that a mark needs."""
    page = course.root / "docs" / "projects.md"
    if not page.is_file():
        return ""
    _, *parts = re.split(r"^(?=## \d+\. )", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    rows = []
    for number, part in enumerate(parts, 1):
        name, after = PROJECT.match(part).groups()
        points = sum(map(int, POINTS.findall(part)))
        for lesson in course.lessons if not points else ():
            if f"lesson {lesson.number}" in after:  # the task and its points are in the lesson
                points = sum(map(int, POINTS.findall(prose(lesson))))
        needed = [-(-points * share // 100) for share in grades.values()]
        rows.append([number, name, after, points, *needed])
    return table(["", "project", "when", "points", *grades], rows)


# -- a workshop


def day_plan(course: Course, entries: list[str], lessons: dict[str, Lesson], start: str) -> str:
    """Return the timetable of one day. An entry is the number of a lesson, or a name and minutes, as in "lunch 60"."""
    time, rows = datetime.strptime(start, "%H:%M"), []
    for entry in entries:
        if entry in lessons:
            lesson = lessons[entry]
            what, minutes = f"{lesson_link(lesson)} {lesson.title}", core_minutes(course, lesson)
        elif re.fullmatch(r"[\w ]+ \d+", entry):
            what, _, minutes = entry.rpartition(" ")
        else:
            continue
        end = time + timedelta(minutes=int(minutes))
        rows.append([f"{time:%H:%M} to {end:%H:%M}", what, minutes])
        time = end
    total = sum(core_minutes(course, lessons[entry]) for entry in entries if entry in lessons)
    return table(["time", "what", "minutes"], [*rows, ["", "**lessons alone**", f"**{total}**"]])
