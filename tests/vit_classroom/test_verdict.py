"""Whatever an answer does, its check ends, says what happened, and leaves everything as it was."""

import _thread
import builtins
import contextlib
import functools
import json
import math
import os
import random
import re
import signal
import sys
import threading
import time
import types

import einops
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vit_classroom import answer_folder
from vit_classroom.answer_folder import LOG, marks_in, read_log
from vit_classroom.checks import EXERCISES, check, diagnose, diagnosis, lesson_part
from vit_classroom.checks.guard import OutOfTime, Printed, TimeLimit, untouched
from vit_classroom.checks.verdict_html import box_html, verdict_html
from vit_classroom.checks.words import difference, error_text
from vit_course import attention, patches


def wrong(answer):
    """Return the message of a check of `patchify` that must call the answer wrong."""
    verdict = diagnose(answer, "patchify")
    assert verdict.kind == "wrong"
    return verdict.message


def test_a_loop_that_never_ends_is_stopped_and_named(monkeypatch):
    def patchify(images, patch_size):
        while True:
            try:
                images = images + 1
            except Exception:
                pass

    monkeypatch.setenv("VIT_COURSE_CHECK_SECONDS", "2")
    message = wrong(patchify)
    assert "still running after 2 seconds on images of shape (1, 1, 4, 4), patch_size = 2" in message
    assert "in your line: " in message


def swallows_everything(images, patch_size):
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass


def swallows_everything_in_two_loops(images, patch_size):
    while True:
        try:
            while True:
                try:
                    images = torch.relu(images)
                except:  # noqa: E722
                    pass
        except BaseException:
            continue


def begins_again_at_the_end(images, patch_size):
    try:
        time.sleep(60)
    finally:
        while True:
            try:
                torch.relu(images)
            except:  # noqa: E722
                continue


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="a sleep cannot be interrupted here")
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda images, patch_size: time.sleep(60), "still waiting, without computing"),
        (swallows_everything, "still waiting, without computing"),
        (swallows_everything_in_two_loops, "still running"),
        (begins_again_at_the_end, "still waiting, without computing"),
    ],
)
def test_a_sleep_and_loops_that_catch_everything_are_over_in_time(answer, words, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_CHECK_SECONDS", "1")
    before, start = sys.gettrace(), time.monotonic()
    assert words in wrong(answer)
    assert time.monotonic() - start < 8
    assert sys.gettrace() is before


def test_the_limit_is_for_the_whole_check(monkeypatch):
    calls = []

    def patchify(images, patch_size):
        calls.append(time.sleep(0.35))
        return patches.patchify(images, patch_size)

    monkeypatch.setenv("VIT_COURSE_CHECK_SECONDS", "1")
    assert "still waiting, without computing, after 1 seconds" in wrong(patchify)
    assert 0 < len(calls) < 3
    assert wrong(patchify).endswith("calls.append(time.sleep(0.35))")


def test_a_machine_that_is_busy_with_something_else_makes_no_answer_wrong(monkeypatch, capsys):
    monkeypatch.setattr("vit_classroom.checks.guard.TimeLimit.reason", lambda limit: "laden")
    monkeypatch.setenv("VIT_COURSE_CHECK_SECONDS", "0.0001")
    assert diagnose(patches.patchify).kind == "stopped"
    assert check(patches.patchify) is patches.patchify
    told = "[not finished] patchify: not finished: the check was not over after 0.0001"
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ([(0.0, 0.0), (7.0, 0.001), (8.0, 0.9)], "waits"),
        ([(0.0, 0.0), (7.0, 6.0), (8.0, 6.1)], "computes"),
        ([(0.0, 0.0), (7.0, 0.5), (8.0, 0.9)], "laden"),
    ],
)
def test_what_the_time_went_into_is_read_off_the_calls(calls, reason, monkeypatch):
    limit = TimeLimit(8)
    *limit.calls, (clock, own) = calls
    monkeypatch.setattr("vit_classroom.checks.guard.time.monotonic", lambda: clock)
    monkeypatch.setattr("vit_classroom.checks.guard.time.thread_time", lambda: own)
    assert limit.reason() == reason


def test_what_a_wrong_answer_prints_is_told_of_the_call_that_is_shown_and_nowhere_else(capsys):
    def patchify(images, patch_size):
        print(f"never {images.shape[0]}", *range(20), sep="\n")
        return patches.patchify(images, patch_size) + (images.shape[1] == 3)

    def right(images, patch_size):
        print("right")
        return patches.patchify(images, patch_size)

    verdict = diagnose(patchify)
    assert "on images of shape (1, 3, 4, 4)" in verdict.message
    assert verdict.printed == "\n".join(map(str, range(12, 20)))
    assert diagnose(right, "patchify").printed == ""
    assert capsys.readouterr() == ("", "")


def test_what_an_answer_prints_is_bounded():
    printed = Printed()
    for number in range(50_000):
        print(number, "x" * 300, file=printed)
    assert len(printed.getvalue()) < 200_000
    assert printed.end(lines=1) == f"49999 {'x' * 194} ..."


def test_the_limit_stops_no_code_but_a_students(monkeypatch):
    monkeypatch.setattr("vit_classroom.checks.guard.is_students", lambda file: False)
    with TimeLimit(0.05):
        time.sleep(0.3)


def test_a_limit_that_runs_out_at_the_end_does_not_stop_other_code():
    before = signal.getsignal(signal.SIGINT)
    for _ in range(40):
        try:
            with TimeLimit(0.05):
                end = time.monotonic() + 0.05
                while time.monotonic() < end:
                    pass
        except OutOfTime:
            pass
        for _ in range(100):
            math.sqrt(2)
    assert signal.getsignal(signal.SIGINT) is before
    assert not [thread for thread in threading.enumerate() if "look_at_the_clock" in thread.name]


def test_the_users_ctrl_c_stays_ctrl_c():
    def patchify(images, patch_size):
        _thread.interrupt_main()
        while True:
            pass

    # What starts the tests may ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            diagnose(patchify)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_checks_work_outside_the_main_thread():
    kinds = []
    thread = threading.Thread(target=lambda: kinds.append(diagnose(patches.patchify).kind))
    thread.start()
    thread.join()
    assert kinds == ["unfinished"]


class Stop(BaseException):
    """What an answer may raise that is no `Exception`."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, Stop("no more"), StopIteration])
def test_whatever_an_answer_raises_becomes_a_verdict(error):
    def patchify(images, patch_size):
        raise error

    name = getattr(error, "__name__", "Stop")
    message = wrong(patchify)
    assert name in message and "raise error" in message


def test_a_long_error_is_shortened_and_keeps_its_beginning_and_its_end():
    def patchify(images, patch_size):
        raise ValueError("first" + 100_000 * "x" + "last")

    message = wrong(patchify)
    assert "first" in message and "last" in message and len(message) < 2000
    rows = error_text(ValueError("\n".join(map(str, range(1000))))).splitlines()
    assert len(rows) < 12 and rows[0] == "ValueError: 0" and rows[-1] == "  999"


def test_a_huge_message_of_a_check_is_shortened():
    assert len(wrong(type("patchify", (), {"__call__": None, "__repr__": None}))) < 5000
    assert len(wrong(lambda images, patch_size: [images] * 100_000)) < 5000


def test_an_error_of_many_lines_keeps_its_reason():
    message = wrong(lambda images, _: einops.rearrange(images, "b c (h p) w -> b (h w) (p c)", p=17))
    assert "can't divide axis" in message or "Could not infer sizes" in message


def test_an_error_that_cannot_be_printed_is_named():
    class Mute(Exception):
        def __str__(self):
            raise TypeError

    def patchify(images, patch_size):
        raise Mute

    assert "Mute: no message" in wrong(patchify)


@pytest.mark.parametrize(("typed", "meant"), [("pachify", "patchify"), ("patch_embed", "PatchEmbed")])
def test_a_name_that_is_almost_an_exercise_gets_a_proposal(typed, meant, capsys):
    check(lambda x: x, typed)
    assert f"did you mean '{meant}'?" in capsys.readouterr().out


def test_a_default_device_does_not_make_right_answers_wrong():
    def patchify(images, patch_size):
        assert torch.zeros(1).device.type == "cpu"
        return patchify_loops(images, patch_size)

    patchify_loops = lesson_part("01", "answers").patchify_loops
    torch.set_default_device("meta")
    try:
        assert diagnose(patchify).kind == "right"
        assert torch.get_default_device().type == "meta"
    finally:
        torch.set_default_device(None)
    with torch.device("meta"):
        assert diagnose(patchify).kind == "right"
        assert torch.zeros(1).device.type == "meta"
    assert torch.zeros(1).device.type == "cpu"


def test_random_numbers_of_an_answer_are_the_same_in_every_check_and_none_are_taken():
    drawn = []

    def patchify(images, patch_size):
        drawn.append((random.random(), np.random.rand(), torch.rand(1).item()))
        return images

    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    wrong(patchify)
    number = len(drawn)
    wrong(patchify)
    assert drawn[:number] == drawn[number:]
    assert states == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())


CHANGES = {
    "working directory": (os.getcwd, lambda: os.chdir("/")),
    "default dtype": (torch.get_default_dtype, lambda: torch.set_default_dtype(torch.float64)),
    "default device": (torch.get_default_device, lambda: torch.set_default_device("meta")),
    "deterministic mode": (
        torch.are_deterministic_algorithms_enabled,
        lambda: torch.use_deterministic_algorithms(True),
    ),
    "anomaly mode": (torch.is_anomaly_enabled, lambda: torch.autograd.set_detect_anomaly(True)),
    "grad mode": (torch.is_grad_enabled, lambda: torch.set_grad_enabled(False)),
    "threads": (torch.get_num_threads, lambda: torch.set_num_threads(torch.get_num_threads() + 1)),
    "function of torch": (lambda: F.softmax, lambda: setattr(F, "softmax", None)),
    "deleted function": (lambda: getattr(torch, "relu", None), lambda: delattr(torch, "relu")),
    "method of a tensor": (lambda: torch.Tensor.view, lambda: setattr(torch.Tensor, "view", None)),
    "method of a layer": (
        lambda: torch.nn.Linear.forward,
        lambda: setattr(torch.nn.Linear, "forward", lambda self, x: x),
    ),
    "function of the course": (lambda: patches.as_pair, lambda: setattr(patches, "as_pair", None)),
    "method of the course": (
        lambda: attention.MultiHeadAttention.forward,
        lambda: setattr(attention.MultiHeadAttention, "forward", None),
    ),
    "built-in function": (lambda: builtins.sum, lambda: setattr(builtins, "sum", max)),
}


@pytest.mark.parametrize(("read", "change"), CHANGES.values(), ids=CHANGES)
def test_what_an_answer_changes_is_put_back(read, change):
    def patchify(images, patch_size):
        change()
        return images

    before = read()
    wrong(patchify)
    assert read() == before


def test_to_put_everything_back_takes_less_than_a_tenth_of_a_second():
    def seconds():
        start = time.perf_counter()
        with untouched():
            pass
        return time.perf_counter() - start

    assert min(seconds() for _ in range(10)) < 0.1


def test_a_seed_for_a_gpu_that_nobody_used_yet_stays(monkeypatch):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    torch.manual_seed(1234)
    diagnose(patches.patchify)
    assert seeds[-1] == 1234


def test_words_in_stars_are_italics_code_is_shown_as_code_and_everything_else_as_it_is_written():
    html = verdict_html("rows *and* columns, the *last axis*")
    assert html == "rows <em>and</em> columns, the <em>last axis</em>"
    for code in ("x*y*z", "a * b * c", "f(*args, **options)", "x ** 2 ** 3"):
        assert verdict_html(code) == code
        assert verdict_html(f"`{code}`") == f"<code>{code}</code>"
    assert verdict_html("`x < y`, then `z`\n  it's <b>") == (
        "<code>x &lt; y</code>, then <code>z</code><br>&nbsp; it's &lt;b&gt;"
    )


def test_the_expected_result_and_the_students_stand_side_by_side_in_letters_of_one_width():
    html = verdict_html("on x = 2: expected\n  1 2\n  3 4\nyou returned\n  1 < 2\nand more")
    assert re.findall(r"<b>([\w ]+)</b><pre [^>]*>([^<]*)</pre>", html) == [
        ("expected", "1 2\n3 4"),
        ("you returned", "1 &lt; 2"),
    ]
    assert html.startswith("on x = 2: ") and html.endswith("and more")
    one = verdict_html("your result is 7 in all cases\non n = 4: expected 4, you returned 7")
    assert re.findall(r"<pre [^>]*>([^<]*)</pre>", one) == ["4", "7"]
    shape = "the shape should be (1, 2), yours is (2, 1)"
    assert verdict_html(shape) == shape
    stopped = verdict_html("ValueError: no\nin your line: x < y")
    assert re.search(r"in your line:<pre [^>]*>x &lt; y</pre>", stopped)


def test_a_box_escapes_what_an_answer_says_and_prints():
    bad = "<script>x</script>"
    assert "<script" not in box_html("wrong", bad, f"{bad} `{bad}`\nin your line: {bad}", bad)


def test_all_that_the_box_shows_is_in_the_text_too(capsys):
    def count_patches(img_size, patch_size):
        print("the sides are", img_size, patch_size)
        return 7

    assert check(count_patches) is patches.count_patches
    out = capsys.readouterr().out
    for part in ("[not right yet] count_patches: ", "expected", "Your code printed:\nthe sides are"):
        assert part in out
    assert "The lesson goes on with the finished version" in out
    assert re.search(r"\(\d of 4 done in this lesson\)", out)


def test_a_verdict_is_written_down_but_not_where_the_course_runs_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path))
    wrong_answer = EXERCISES["patchify"].mistakes()[0]
    check(wrong_answer[1], "patchify")
    (made,) = marks_in(read_log())
    assert (made.exercise, made.verdict, made.mistake) == ("patchify", "wrong", wrong_answer[0])
    monkeypatch.setenv("VIT_COURSE_STRICT", "1")
    check(patches.patchify)
    assert len((tmp_path / LOG).read_text().splitlines()) == 1


def test_nan_is_the_same_result_twice_and_no_number():
    assert difference(math.nan, math.nan) == ""
    assert difference(math.nan, 1.0) and difference(1.0, math.nan)


def mlp(*methods):
    return type("Mlp", (torch.nn.Module,), dict.fromkeys(methods, len))


@pytest.mark.parametrize(
    ("answer", "exercise", "words"),
    [
        (lambda x: x, None, "a lambda has no name"),
        (0.7, None, "give a function or class of an exercise"),
        (math.prod, None, "'prod' is no exercise of this course; "),
        (mlp("__int__", "forward"), None, "`__int__` should be `__init__`"),
        (mlp("__init__", "forwards"), None, "`forwards` should be `forward`"),
        ([], "patchify", "give the function or class itself"),
    ],
)
def test_what_can_be_no_answer_gets_a_short_advice(answer, exercise, words):
    verdict = diagnose(answer, exercise)
    assert words in verdict.message and len(verdict.message) < 200
    assert verdict.kind == ("unknown" if exercise is None and "misspelt" not in verdict.message else "wrong")


def calls_the_finished_one(images, patch_size):
    return patches.patchify(images, patch_size)


@pytest.mark.parametrize(
    ("answer", "exercise"),
    [
        (patches.patchify, None),
        (functools.partial(patches.patchify), "patchify"),
        (functools.partial(functools.partial(patches.patchify)), "patchify"),
        (torch.no_grad()(patches.patchify), "patchify"),
        (functools.cache(patches.patchify), "patchify"),
        (calls_the_finished_one, "patchify"),
        (type("PatchEmbed", (patches.PatchEmbed,), {}), None),
        (types.FunctionType(patches.patchify.__code__, vars(patches)), "patchify"),
    ],
)
def test_the_finished_version_is_no_answer_of_ones_own(answer, exercise):
    verdict = diagnose(answer, exercise)
    assert verdict.kind == "unfinished" and "the course's finished version" in verdict.message


def error_of(source):
    """An answer to `patchify` that stops where a line stops."""
    space = {"torch": torch, "einops": einops}
    exec(f"def patchify(images, patch_size):\n    {source}", space)
    return space["patchify"]


SYMPTOMS = {
    "nothing is called `patchs`": "return patchs",
    "there is no axis 9": "return images.sum(9)",
    "what is unpacked does not hold 2 values": "a, b = images.shape",
    "a `Tensor` has no `reshap`": "return images.reshap(1)",
    "they should be equal": "return images + torch.ones(7)",
}
NAMED = {
    "`/` makes fractions": "return images.reshape(1, images.shape[-1] / patch_size)",
    "`reshape` copies": "return images.transpose(2, 3).view(len(images), -1)",
    "what is joined stands in one list": "return torch.cat(images, images, 1)",
}


@pytest.mark.parametrize(("words", "source"), SYMPTOMS.items())
def test_a_translated_error_is_a_symptom_and_no_cause(words, source):
    verdict = diagnose(error_of(source), "patchify")
    assert words in verdict.message
    assert not verdict.named and verdict.mistake == ""


@pytest.mark.parametrize(("words", "source"), NAMED.items())
def test_an_error_with_one_usual_cause_is_told_that_cause(words, source):
    verdict = diagnose(error_of(source), "patchify")
    assert words in verdict.message and verdict.named


def test_what_a_killed_write_left_does_not_swallow_the_next_verdict(tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path))
    monkeypatch.delenv("VIT_COURSE_STRICT", raising=False)
    right = lesson_part("01", "answers").patchify_loops
    for torn in (b'{"what": "check", "exer', b'{"what": "check"}\n\0\0\0', b"\xef\xbb\xbf", b"\n\n"):
        (tmp_path / LOG).write_bytes(torn)
        check(right, "patchify")
        assert [made.verdict for made in marks_in(read_log())] == ["right"]
        assert json.loads((tmp_path / LOG).read_bytes().splitlines()[-1])["verdict"] == "right"


def test_a_torn_log_in_one_folder_does_not_swallow_the_first_line_of_another(tmp_path, monkeypatch):
    folders = [tmp_path / "one", tmp_path / "two"]
    monkeypatch.setattr(answer_folder, "answer_folders", lambda: folders)
    line = json.dumps(answer_folder.mark("patchify", "right", "", "").data)
    for folder, text in zip(folders, (line[:40], line + "\n"), strict=True):
        folder.mkdir()
        (folder / LOG).write_text(text)
    assert [made.exercise for made in marks_in(read_log())] == ["patchify"]


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"]
)
def test_a_log_is_read_in_every_encoding_that_an_editor_writes(encoding):
    line = json.dumps(answer_folder.mark("patchify", "wrong", "höher", "").data)
    text = answer_folder.log_text(f"{line}\r\n{line}\r\n".encode(encoding))
    assert [made.mistake for made in marks_in(text)] == ["höher", "höher"]


@pytest.mark.parametrize(("notebook", "looks"), [(True, True), (True, False), (False, True)])
def test_the_first_check_says_why_it_takes_seconds_to_whoever_looks_at_a_notebook(
    notebook, looks, monkeypatch
):
    shown, loaded = [], []
    monkeypatch.delitem(sys.modules, diagnosis.SLOW_PART, raising=False)
    monkeypatch.setattr(diagnosis, "import_module", loaded.append)
    monkeypatch.setattr(diagnosis, "in_notebook", lambda: notebook)
    monkeypatch.setattr(diagnosis, "somebody_looks", lambda: looks)
    monkeypatch.setattr(
        diagnosis, "progress_bar", lambda **options: shown.append(options) or contextlib.nullcontext()
    )
    diagnosis.load_first()
    assert loaded == ["torch._dynamo"]
    assert [one["disable"] for one in shown] == [not (notebook and looks)]
    assert "takes a few seconds, once" in shown[0]["desc"]
