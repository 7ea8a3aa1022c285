"""The trained models that come with the course do what their records say."""

import os

import pytest
import torch

from vit_course.data import load_dataset, shapes10
from vit_course.experiments.released import CHECKPOINTS, RELEASED, load_trained, trained_names
from vit_course.experiments.studies import CPU, plan
from vit_course.train import evaluate

PICTURES = 400


@pytest.mark.parametrize("name", trained_names())
def test_recorded_accuracy_is_reproduced_on_some_hundred_pictures(name):
    model, info = load_trained(name)
    if name.startswith("shapes"):
        dataset = shapes10(train=10, test=2000)
    elif "VIT_COURSE_REAL_DATA" in os.environ:
        dataset = load_dataset(os.environ["VIT_COURSE_REAL_DATA"])
    else:
        pytest.skip("VIT_COURSE_REAL_DATA is not set")
    part = dataset.subset(10, PICTURES)
    stats = (torch.tensor(info["mean"]), torch.tensor(info["std"]))
    accuracy, _ = evaluate(model, part.test_images, part.test_labels, stats)
    deviation = (info["test_accuracy"] * (1 - info["test_accuracy"]) / PICTURES) ** 0.5
    assert abs(accuracy - info["test_accuracy"]) < 4 * deviation


def test_trained_models_are_small_enough_to_come_with_the_course():
    assert sum(path.stat().st_size for path in CHECKPOINTS.glob("*.safetensors")) < 16e6


@pytest.mark.parametrize("size", ["cpu", "gpu"])
def test_what_is_released_is_planned_with_its_beginning_in_every_size(size):
    planned = {one.label: one for one in plan(size) if one.config.seed == 0}
    missing = RELEASED.keys() - planned.keys()
    assert missing == ({"headline/vit"} if size == "cpu" and CPU.headline_recipe is None else set())
    assert all(0 in planned[label].snapshots for label in RELEASED.keys() & planned.keys())
