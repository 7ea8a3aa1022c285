"""The search of lesson 08: one list for every family, budgets in steps, and choices that follow from records alone."""

import json
from dataclasses import replace

import pytest

from experiments import search
from experiments.after_search import in_order
from vit_classroom.evidence import records as kept_records
from vit_classroom.evidence.experiment import (
    ALL_PICTURES,
    pictures_shown,
    pretraining_pictures,
    used_pictures,
)
from vit_course.data import shapes10
from vit_course.recipes import build_model


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_records, "RUNS", tmp_path)
    return tmp_path


def record(runs, group, **scores):
    """Write one record of a trial for each score; in the names _ stands for -."""
    folder = runs / "cpu" / group
    folder.mkdir(parents=True, exist_ok=True)
    for name, score in scores.items():
        content = {"step": name, "held_out_accuracy": score}
        (folder / f"{name}-seed0.json").write_text(json.dumps(content))


def record_all(runs, family, best):
    """Record the trials of a family to the end: `best` scores highest, and no later one beats it."""
    while search.list_of_trials(family)[1] is None:
        names = search.list_of_trials(family)[0]
        record(runs, f"search-{family}", **{name: 0.9 if name == best else 0.5 for name in names})


def steps(one):
    return pictures_shown(one.config, used_pictures(one)) // one.config.batch_size


@pytest.mark.parametrize("family", search.FAMILIES)
def test_every_family_has_the_same_list_of_thirteen_trials(runs, family):
    record_all(runs, family, "muon-0.003")
    trials, found = search.list_of_trials(family)
    assert len(trials) == 13 and found == search.Setting("muon", 0.003)
    settings = list(trials.values())
    assert {one.width for one in settings} == {32, 64, 128}
    record_all(runs, "vit", "muon-0.003")
    assert settings == list(search.list_of_trials("vit")[0].values())


def test_a_trial_is_listed_once_all_before_its_coordinate_are_recorded_and_starts_from_the_best(runs):
    def listed():
        return search.list_of_trials("resnet")[0]

    first = list(listed())
    assert first[0] == "sgd-0.03" and len(first) == 9
    record(runs, "search-resnet", **{name: 0.1 for name in first[1:]})
    assert list(listed()) == first
    record(runs, "search-resnet", **{first[0]: 0.2})
    assert listed()["width-16"] == search.Setting("sgd", 0.03, 32)
    assert list(listed()) == [*first, "width-16", "width-64"]
    record(runs, "search-resnet", **{"width-16": 0.1, "width-64": 0.3})
    assert listed()["linear"] == search.Setting("sgd", 0.03, 128, "linear")
    record(runs, "search-resnet", linear=0.2)
    assert listed()["half"] == search.Setting("sgd", 0.03, 128, half=True)
    record(runs, "search-resnet", half=0.4)
    assert search.list_of_trials("resnet")[1] == listed()["half"]


def test_both_families_have_from_78_thousand_to_more_than_a_million_parameters_width_by_width():
    pictures = shapes10(train=10, test=10)
    for number, width in enumerate(search.WIDTHS):
        counts = {}
        for family in ("vit", "resnet"):
            name, options = search.FAMILIES[family]
            model = build_model(name, pictures, **options(width))
            counts[family] = sum(p.numel() for p in model.parameters())
        assert counts["vit"] == pytest.approx(counts["resnet"], rel=0.06)
        if number == 0:
            assert max(counts.values()) < 85_000
    assert min(counts.values()) > 1_200_000


@pytest.mark.parametrize("family", search.FAMILIES)
def test_a_run_of_a_budget_takes_as_many_steps_as_its_minutes_pay_for_whatever_its_share(family):
    setting = search.Setting("muon", 3e-3, 96, "linear", True)
    wanted = search.budget_steps(family, setting, 8)
    assert wanted * search.milliseconds(family, setting) == pytest.approx(480_000, rel=0.001)
    full = search.experiment("group", "name", family, setting, 8)
    for one in (
        full,
        search.experiment("group", "name", family, setting, 8, 0.01),
        search.experiment("group", "name", family, setting, 8, 0.1),
        search.experiment("group", "name", family, setting, 8, held_out=5_000),
        search.experiment("group", "name", family, setting, 8, validation=5_000),
    ):
        assert steps(one) == pytest.approx(wanted, abs=1)
        assert one.config.warmup_epochs == pytest.approx(one.config.epochs / 20, abs=1e-3)
    twice = search.experiment("group", "name", family, setting, 16)
    assert steps(twice) == pytest.approx(2 * wanted, abs=2)


def test_half_of_the_positions_costs_less_in_every_family_and_width():
    for family, widths in search.step_times().items():
        assert list(map(int, widths)) == list(search.WIDTHS)
        for parts in widths.values():
            assert parts["half"] < 0.8 * parts["all"], family


def test_the_middle_width_of_a_budget_follows_from_the_one_before_and_its_best_trial_is_chosen(runs):
    assert search.width_trials("vit", "8") == {} and search.chosen("vit") is None
    record_all(runs, "vit", "width-128")
    trials = search.width_trials("vit", "8")
    assert list(trials) == ["vit-width-96", "vit-width-128", "vit-width-192"]
    record(runs, "comparison-8", **{name: 0.7 + 0.01 * (name == "vit-width-96") for name in trials})
    assert search.chosen("vit") == trials["vit-width-96"]
    assert list(search.width_trials("vit", "2")) == ["vit-width-32", "vit-width-64", "vit-width-96"]
    assert list(search.width_trials("vit", "24")) == ["vit-width-96", "vit-width-128", "vit-width-192"]


def test_the_list_of_the_comparison_grows_with_the_records_to_seeds_fractions_and_muon(runs):
    listed = [one for one in in_order(None) if one.name != "linear"]
    assert {one.group for one in listed} == {
        "search-vit", "search-resnet", "search-hybrid",
    }  # fmt: skip
    for family in search.FAMILIES:
        record_all(runs, family, "muon-0.003")
        trials = search.width_trials(family, "8")
        record(runs, "comparison-8", **{name: 0.7 for name in trials})
    listed = list(in_order(None))
    assert len({one.stem for one in listed}) == len(listed)
    named = {one.label for one in listed}
    assert {
        "comparison-8/vit",
        "comparison-8/resnet-curve",
        "fractions-8/hybrid-1",
        "no-positions/none",
    } <= named
    assert {"muon-size/adamw-4", "fractions-8/vit-100-longer", "comparison-2/resnet-width-16"} <= named
    assert {"transfer-8/probe-10", "resolution-8/interpolated", "no-positions/drawn-learned"} <= named
    full = next(one for one in listed if one.label == "fractions-8/vit-100")
    twin = next(one for one in listed if one.label == "comparison-8/vit")
    assert replace(full, group=twin.group, name=twin.name, probes=True) == twin  # it is trained once
    assert all(used_pictures(one) <= ALL_PICTURES for one in listed)
    assert all(used_pictures(one) - one.config.validation >= one.config.batch_size for one in listed)


def test_pre_training_and_tuning_together_cost_what_their_control_costs(runs):
    record_all(runs, "vit", "muon-0.003")
    record(runs, "comparison-8", **{name: 0.7 for name in search.width_trials("vit", "8")})
    listed = {one.label: one for one in in_order(None)}
    setting = search.chosen("vit")
    wanted = search.budget_steps("vit", setting, 8)
    for percent in (1, 10):
        one = listed[f"transfer-8/classes-{percent}"]
        before = pictures_shown(one.start.config, pretraining_pictures(one)) // search.BATCH
        assert before == pytest.approx(wanted * 6 / 8, rel=0.002)
        assert steps(one) == pytest.approx(
            search.budget_steps("vit", replace(setting, optimizer="adamw"), 2), abs=1
        )
        assert steps(listed[f"fractions-8/vit-{percent}"]) == pytest.approx(wanted, abs=1)
    larger, same = listed["resolution-8/interpolated"], listed["resolution-8/same-size"]
    assert larger.start == same.start and larger.config == same.config and larger.img_size > 32
    first = pictures_shown(same.start.config, pretraining_pictures(same)) // search.BATCH
    assert first == pytest.approx(wanted * 6 / 8, rel=0.002)
