"""The race of lesson 16 has data that are not learned to the last image, and its figures name every trial."""

import torch

from vit_classroom.evidence.gains import gains
from vit_classroom.evidence.records import load_records
from vit_classroom.exhibits import learn_fast
from vit_course.data import Dataset, shapes10
from vit_course.extensions.speedups import drop_tokens, whitening_filters
from vit_course.optim import newton_schulz

SETTINGS = {"optimizer": "muon", "lr": 3e-3, "keep": 0.5, "keep_until": 0.7, "schedule": "linear"}
PARTS = learn_fast.Parts(newton_schulz, drop_tokens, whitening_filters)


def test_drawings_of_the_race_are_in_noise_and_say_so_and_the_same_noise_comes_again():
    clean = shapes10(train=40, test=20)
    noisy, again = learn_fast.race_data(clean), learn_fast.race_data(clean)
    change = noisy.train_images.float() - clean.train_images.float()
    assert change.abs().mean() > 20 and abs(change.mean()) < 20
    assert noisy.provenance.endswith("in strong noise") and torch.equal(noisy.test_labels, clean.test_labels)
    assert torch.equal(noisy.test_images, again.test_images)


def test_real_images_are_raced_on_as_they_are():
    images = torch.zeros(2, 3, 16, 16, dtype=torch.uint8)
    mine = Dataset(images, torch.arange(2), images, torch.arange(2), ("cat", "dog"), "a folder of mine")
    assert learn_fast.race_data(mine) is mine


def test_a_race_runs_the_functions_that_it_is_given_and_stops_with_the_clock():
    called = []

    def noted(part):
        return lambda *given, **named: called.append(part) or part(*given, **named)

    data = learn_fast.race_data(shapes10(train=200, test=20))
    mine = learn_fast.Parts(*map(noted, (newton_schulz, drop_tokens, whitening_filters)))
    model, spent = learn_fast.race(0.3, data, mine, SETTINGS | {"whitened": True})
    assert {newton_schulz, drop_tokens, whitening_filters} == set(called)
    assert spent > 0 and model(torch.zeros(1, 3, 32, 32)).shape == (1, 10)


def test_every_recorded_trial_has_its_words_and_adamw_is_shown_at_its_best_rate():
    brought = gains(load_records("trials"))
    shown = learn_fast.all_tricks(brought)
    labels = [learn_fast.label(one) for one in shown]
    assert len(set(labels)) == len(labels) == len(brought) - 2
    assert [one.arm for one in shown if one.arm.startswith("adamw")] == ["adamw-0.001"]
    assert "linear schedule (3 seeds)" in labels


def test_filters_are_parted_by_dark_lines_so_that_a_white_one_is_seen():
    sheet = learn_fast.filter_sheet(torch.ones(8, 3, 4, 4))
    assert sheet.shape == (3, 6, 48) and sheet[:, 0].max() == 0 and sheet[:, 1:5, 1:5].min() == 1
