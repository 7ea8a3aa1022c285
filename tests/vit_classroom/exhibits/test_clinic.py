"""The clinic of lesson 14: the healthy patient is the course's own model, and every bug shows its own symptom."""

import inspect
import itertools
import math
import re
import textwrap
from dataclasses import fields, replace
from unittest.mock import Mock

import pytest
import torch
from einops import rearrange

from vit_classroom.checks import diagnose
from vit_classroom.exhibits.clinic import bugs, chart, healthy
from vit_classroom.exhibits.clinic.measurements import PROTOCOL, examine, shown, spread_of_scores
from vit_classroom.exhibits.clinic.patient import Parts, Patient, train_patient
from vit_course.data import shapes10
from vit_course.vit import VisionTransformer

FUNCTIONS = [part.name for part in fields(Parts)]
SUBSETS = [
    (name, some)
    for name in FUNCTIONS
    for all_of_it in [[bug for bug in bugs.BUGS if bug.function == name]]
    for number in range(len(all_of_it) + 1)
    for some in itertools.combinations(all_of_it, number)
]
each_bug = pytest.mark.parametrize("bug", bugs.BUGS, ids=lambda bug: bug.name.replace(" ", "-"))


def patient(parts=None, **options):
    torch.manual_seed(0)
    sizes = {"img_size": 16, "patch_size": 4, "dim": 48, "depth": 2} | options
    return Patient(parts or Parts(), **sizes)


def with_bugs(name, some):
    return replace(Parts(), **{name: bugs.planted(name, some)})


def measurements_that_fail(examined, name=None):
    measures = [measure.__name__ for measure, concerned in PROTOCOL if name is None or name in concerned]
    findings = examine(examined, name)
    return {measure for measure, finding in zip(measures, findings, strict=True) if not finding.ok}


def body(source):
    """The lines of a function behind its docstring."""
    return textwrap.dedent(source).split('"""', 2)[2]


# -- the healthy patient


@pytest.mark.parametrize(
    ("img_size", "channels", "depth", "heads"), [(16, 3, 2, 3), ((8, 12), 1, 1, 2), (32, 3, 3, 4)]
)
def test_the_healthy_patient_with_the_weights_of_the_finished_model_gives_its_logits(
    img_size, channels, depth, heads
):
    twin = VisionTransformer(img_size, 4, channels, 7, embed_dim=24, depth=depth, num_heads=heads).eval()
    for parameter in twin.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    ours = patient(img_size=img_size, in_chans=channels, num_classes=7, dim=24, depth=depth, num_heads=heads)
    weights = {
        re.sub(r"(blocks\.\d+\.)attn\.", r"\1", name).replace("patch_embed.proj", "project"): value
        for name, value in twin.state_dict().items()
    }
    weights["project.weight"] = rearrange(weights["project.weight"], "d c p1 p2 -> d (p1 p2 c)")
    ours.load_state_dict(weights)
    images = torch.randn(5, channels, *ours.image_shape[1:])
    assert torch.allclose(ours.eval()(images), twin(images), atol=1e-5)


def test_a_healthy_patient_has_no_symptom():
    small, large = {"img_size": (8, 12), "num_classes": 3}, {"img_size": 32, "patch_size": 8, "dim": 96}
    for options in ({}, small, large):
        assert measurements_that_fail(patient(**options)) == set()


def test_a_measurement_that_is_not_healthy_never_looks_as_if_it_were():
    assert shown(0.9997, 1, 1e-6) == "0.9997"
    assert shown(2.3046, 2.3026, 1e-3, 3) == "2.305"
    assert shown(1 + 1e-9, 1, 1e-6) == "1.00"


def test_scores_that_are_not_those_of_queries_and_keys_are_not_called_scaled():
    def attend(tokens, block):
        return None, torch.randn(2, 3, 5, 5).softmax(dim=-1)

    found = spread_of_scores(patient(replace(Parts(), attend=attend), img_size=8))
    assert found.measured.startswith("not that of q·k")


def test_an_examination_leaves_patient_and_random_state_as_they_were():
    examined = patient()
    before = {name: value.clone() for name, value in examined.state_dict().items()}
    state = torch.get_rng_state()
    examine(examined)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in examined.state_dict().items())
    assert all(parameter.grad is None for parameter in examined.parameters()) and examined.training


def test_a_measurement_that_stops_is_a_finding():
    found = examine(patient(Parts(attend=Mock(side_effect=RuntimeError("no idea")))), "attend")
    assert [finding.ok for finding in found] == [False] * 3
    assert "RuntimeError: no idea" in str(found[0])


# -- the bugs


def test_there_are_fifteen_bugs_and_three_conventions_and_every_function_has_one():
    assert sum(not bug.convention for bug in bugs.BUGS) == 15 and len({bug.name for bug in bugs.BUGS}) == 18
    assert {bug.function for bug in bugs.BUGS} == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_sick_function_is_the_healthy_one_with_all_its_bugs(name):
    assert body(inspect.getsource(getattr(bugs, name))) == body(bugs.planted_source(name, bugs.BUGS))


@pytest.mark.parametrize(
    ("name", "some"), SUBSETS, ids=lambda value: value if isinstance(value, str) else str(len(value))
)
def test_the_measurements_of_a_function_find_exactly_the_bugs_that_are_planted(name, some):
    assert measurements_that_fail(patient(with_bugs(name, some)), name) == {bug.measurement for bug in some}


@each_bug
def test_one_bug_alone_fails_its_check_with_its_own_symptom(bug):
    (symptom,) = [f for f in examine(patient(with_bugs(bug.function, [bug])), bug.function) if not f.ok]
    verdict = diagnose(bugs.planted(bug.function, [bug]), bug.function)
    assert verdict.kind == "wrong"
    assert verdict.message.startswith(f"one symptom is left:\n- {symptom.question}: ")
    assert "Not a bug that was planted" not in verdict.message
    assert bug.healthy.strip() not in verdict.message


@each_bug
def test_fixing_the_last_bug_passes(bug):
    source = bugs.planted_source(bug.function, [bug])
    fixed = source.replace(bug.sick, bug.healthy) if bug.sick else bugs.planted_source(bug.function, [])
    namespace = dict(vars(healthy))
    exec(fixed, namespace)
    assert diagnose(namespace[bug.function], bug.function).kind == "right"


@each_bug
def test_a_bug_raises_no_error_in_training(bug):
    data = shapes10(train=64, test=20, image_size=16)
    course = train_patient(patient(with_bugs(bug.function, [bug])), data, 1, batch_size=32)
    assert len(course.losses) == 2 and torch.tensor(course.losses).isfinite().all()


def test_every_measurement_finds_something_in_the_sick_patient():
    assert all(not finding.ok for finding in examine(patient(bugs.PARTS)))


def test_a_softmax_hides_the_opinion_of_the_head():
    loud, hidden = (
        float(examine(patient(parts))[0].measured.split()[0])
        for parts in (Parts(draw_weights=bugs.draw_weights), bugs.PARTS)
    )
    assert loud > 2.6 and abs(hidden - math.log(10)) < 0.2


@pytest.mark.slow
def test_the_sick_patient_trains_a_little_and_the_healthy_one_more():
    data = shapes10(train=1000, test=500, image_size=16)
    ends = []
    for parts in (bugs.PARTS, Parts()):
        course = train_patient(patient(parts), data, 8, peak=3e-3)
        ends.append(sum(course.losses[-15:]) / 15)
        assert ends[-1] < sum(course.losses[:15]) / 15
    assert ends[1] < ends[0] - 0.03


def test_training_is_the_same_for_the_same_seed():
    data = shapes10(train=64, test=20, image_size=16)
    first, second = (train_patient(patient(), data, 1, batch_size=32) for _ in range(2))
    assert first == second


# -- scoreboard


def test_the_scoreboard_counts_what_the_last_checks_left(monkeypatch, capsys):
    monkeypatch.setattr(chart, "CHART", {})
    assert chart.scoreboard() == (0, len(bugs.BUGS))
    assert chart.my_parts() == bugs.PARTS
    diagnose(healthy.schedule)
    scale, *_ = [bug for bug in bugs.BUGS if bug.function == "attend"]
    half = bugs.planted("attend", [scale])
    diagnose(half, "attend")
    assert chart.scoreboard()[0] == 3
    assert "attend         ●●○" in capsys.readouterr().out
    assert chart.my_parts() == replace(bugs.PARTS, schedule=healthy.schedule, attend=half)
    assert chart.my_parts(others=Parts()) == Parts(attend=half)


def test_another_mistake_takes_no_fixed_bug_from_the_scoreboard(monkeypatch):
    def no_schedule_without_warmup(step, total_steps, warmup_steps, peak):
        return healthy.schedule(step, total_steps, warmup_steps, peak) if warmup_steps else peak

    monkeypatch.setattr(chart, "CHART", {})
    assert diagnose(no_schedule_without_warmup, "schedule").kind == "wrong"
    assert chart.scoreboard()[0] == sum(bug.function == "schedule" for bug in bugs.BUGS)


def test_the_ward_book_shows_the_bugs_of_fixed_functions_alone(monkeypatch):
    monkeypatch.setattr(chart, "CHART", {})
    diagnose(healthy.score)
    diagnose(bugs.attend, "attend")
    closed = [row for row in chart.ward_book() if row[1] == "?"]
    (shown,) = [row for row in chart.ward_book() if row not in closed]
    assert shown == ["score", "dropout in the test", "bug", "(missing)", "model.eval()"]
    assert len(closed) == len(bugs.BUGS) - 1


def test_an_answer_that_stops_is_no_part_of_the_students_patient(monkeypatch):
    monkeypatch.setattr(chart, "CHART", {})
    diagnose(lambda tokens, block: tokens.nonsense, "attend")
    assert chart.my_parts() == bugs.PARTS and chart.scoreboard()[0] == 0
