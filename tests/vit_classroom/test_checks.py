"""The checks themselves: every wrong answer is rejected by name, every right one accepted."""

import ast
import functools
import inspect

import pytest
import torch

from vit_classroom.checks import EXERCISES, CheckFailed, check, diagnose, lesson_part, registry
from vit_classroom.checks.diagnosis import FINISHED
from vit_classroom.checks.source import kept_source
from vit_classroom.paths import LESSONS
from vit_course import patches

UNQUOTED = (ast.FunctionDef, ast.ClassDef, ast.Expr, ast.Raise)
TABLES = [lesson_part(path.parent.name, "answers") for path in sorted(LESSONS.glob("[0-9]*/answers.py"))]
WRONG = [
    (name, words, answer) for table in TABLES for name, rows in table.WRONG.items() for words, answer in rows
]
told = functools.cache(diagnose)
RIGHT = [(name, answer) for table in TABLES for name, answers in table.RIGHT.items() for answer in answers]


def test_every_lesson_with_an_exercise_has_answers():
    assert {table.__name__.split(".")[1] for table in TABLES} == set(EXERCISES.homes.values())


def quoted(name, message):
    """The lines of the finished version, but for what students are given, that a message holds beside their own."""
    finished = EXERCISES[name].reference
    module = ast.parse(inspect.getsource(finished))
    said = "\n".join(line for line in message.splitlines() if not line.startswith("in your line: "))
    statements = [node for node in ast.walk(module) if isinstance(node, ast.stmt)]
    shown = (node for node in statements if not isinstance(node, UNQUOTED))
    lines = (ast.unparse(node).partition("\n")[0] for node in shown)
    return [line for line in lines if len(line) > 24 and line in said]


def label(value):
    return getattr(value, "__name__", None)


@pytest.mark.parametrize(("name", "words", "answer"), WRONG, ids=label)
def test_wrong_answer_is_rejected_with_its_own_message_and_is_no_mistake_that_is_known_alone(
    name, words, answer
):
    verdict = told(answer, name)
    assert verdict.kind == "wrong"
    assert words and words in verdict.message and quoted(name, verdict.message) == []
    double = [known for known, _ in EXERCISES[name].mistakes() if verdict.message.startswith(known)]
    assert not double, f"{words!r} is written in checks.py already: {double}"


@pytest.mark.parametrize(("name", "answer"), RIGHT, ids=label)
def test_right_answer_of_another_kind_is_accepted(name, answer):
    verdict = diagnose(answer, name)
    assert verdict.kind == "right" or verdict.message == FINISHED, verdict.message


@pytest.mark.parametrize("name", EXERCISES)
def test_finished_version_is_right_and_handed_on(name, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_STRICT", "1")  # a verdict that is not right stops
    reference = EXERCISES[name].reference
    assert check(reference) is reference


@pytest.mark.parametrize("name", EXERCISES)
def test_every_exercise_has_four_wrong_and_two_right_answers(name):
    known = [words for words, _ in EXERCISES[name].mistakes()]
    wrong = [words for exercise, words, _ in WRONG if exercise == name]
    assert len({*known, *wrong}) >= 4
    assert sum(exercise == name for exercise, _ in RIGHT) >= 2


@pytest.mark.parametrize("name", EXERCISES)
def test_every_known_mistake_is_met_with_its_own_words(name):
    for words, answer in EXERCISES[name].mistakes():
        verdict = diagnose(answer, name)
        assert (verdict.kind, words in verdict.message) == ("wrong", True), f"{words}\n{verdict.message}"
        assert quoted(name, verdict.message) == []


def test_a_message_that_quotes_the_finished_version_is_found():
    line = "rows, columns = grid_size(img_size, patch_size)"
    assert quoted("count_patches", f"write `{line}`") == [line]
    assert quoted("count_patches", f"stopped\nin your line: {line}") == []


@pytest.mark.parametrize("name", EXERCISES)
def test_stub_is_unfinished_and_the_finished_version_goes_on(name, capsys):
    def stub(*args, **kwargs):
        raise NotImplementedError

    assert check(stub, name) is EXERCISES[name].reference
    assert f"[not written yet] {name}" in capsys.readouterr().out


CONSTANTS = [None, 0, "text", torch.zeros(1), torch.ones(2, 3, 4)]


@pytest.mark.parametrize(("number", "name"), list(enumerate(EXERCISES)))
def test_constant_is_never_right(number, name):
    value = CONSTANTS[number % len(CONSTANTS)]
    if inspect.isclass(EXERCISES[name].reference):
        answer = type(name, (torch.nn.Module,), {"forward": lambda self, *args, **kwargs: value})
    else:

        def answer(*args, **kwargs):
            return value

    assert diagnose(answer, name).kind == "wrong"


@pytest.mark.parametrize("name", EXERCISES)
def test_returning_the_first_argument_is_never_right(name):
    assert diagnose(lambda first=None, *args, **kwargs: first, name).kind == "wrong"


def test_an_error_is_shown_at_the_students_line_and_not_inside_the_course():
    def patchify(images, patch_size):
        return patches.patchify(images[0], patch_size)

    assert diagnose(patchify).message.endswith(
        "\nin your line: return patches.patchify(images[0], patch_size)"
    )


def test_a_lesson_whose_checks_stop_while_they_load_is_loaded_anew_the_next_time(tmp_path, monkeypatch):
    (tmp_path / "99_new").mkdir()
    (tmp_path / "99_new" / "checks.py").write_text("1 / 0")
    monkeypatch.setattr(registry, "LESSONS", tmp_path)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            lesson_part("99", "checks")


def test_two_exercises_of_one_name_are_refused(tmp_path):
    for folder in ("01_one", "02_two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lesson.py").write_text('# %% exercise="vit_course.patches:patchify"\n')
    with pytest.raises(ValueError, match="02_two and 01_one both have an exercise 'patchify'"):
        len(registry.Exercises(tmp_path))


def test_strict_mode_raises_for_wrong_and_for_missing_answers(monkeypatch):
    monkeypatch.setenv("VIT_COURSE_STRICT", "1")

    def patchify(images, patch_size):
        raise NotImplementedError

    with pytest.raises(CheckFailed):
        check(patchify)
    with pytest.raises(CheckFailed):
        check(lambda images, patch_size: images, "patchify")


def test_smallest_differing_input_is_shown_where_no_mistake_is_known():
    def patchify(images, patch_size):
        return patches.patchify(images, patch_size) * 2

    message = diagnose(patchify).message
    assert "images of shape (1, 1, 4, 4), patch_size = 2" in message
    assert "expected\n  0 1 4 5" in message
    assert "you returned\n  0 2 8 10" in message


def test_check_works_where_gradients_are_switched_off():
    with torch.no_grad():
        assert diagnose(patches.PatchEmbed).message == FINISHED
        assert not torch.is_grad_enabled()


LOOPS = lesson_part("01", "answers").patchify_loops


class CallablePatchify:
    def __call__(self, images, patch_size):
        return LOOPS(images, patch_size)


@pytest.mark.parametrize("answer", [functools.partial(LOOPS), CallablePatchify()])
def test_right_answer_without_source_is_handed_on(answer, tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path))
    assert check(answer, "patchify") is answer
    assert not list(tmp_path.glob("*.py"))


def test_answer_under_another_name_does_not_replace_a_kept_one(tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path))
    (tmp_path / "patchify.py").write_text("kept")
    answer = lesson_part("01", "answers").patchify_loops
    assert check(answer, "patchify") is answer
    assert (tmp_path / "patchify.py").read_text() == "kept"


def test_unknown_answer_is_handed_back(capsys):
    def something_else():
        return 1

    assert check(something_else) is something_else
    assert "[not an exercise]" in capsys.readouterr().out


def test_argument_names_do_not_matter():
    patchify = lesson_part("01", "answers").patchify_loops
    assert diagnose(lambda a, b: patchify(a, b), "patchify").kind == "right"


@pytest.mark.parametrize(
    ("number", "answer", "exercise"),
    [("01", "PatchEmbedUnfold", "PatchEmbed"), ("17", "probe_in_parts", "probe")],
)
def test_kept_source_takes_helpers_and_imports_along(number, answer, exercise):
    namespace: dict = {}
    exec(kept_source(getattr(lesson_part(number, "answers"), answer), answer), namespace)
    assert diagnose(namespace[answer], exercise).kind == "right"
