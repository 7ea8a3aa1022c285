"""The trained models that come with the course do what their records say."""

import functools
import os
import re
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from experiments.plans import plan
from vit_classroom.evidence.released import RELEASED
from vit_course.data import load_dataset, shapes10
from vit_course.extensions.trained import load_trained, read_weights, trained_names, write_weights
from vit_course.train import evaluate
from vit_course.training.paths import CHECKPOINTS

PICTURES = 200


@functools.cache
def photographs():
    return load_dataset(os.environ["VIT_COURSE_REAL_DATA"])


@pytest.mark.parametrize("name", trained_names())
def test_recorded_accuracy_is_reproduced_on_some_hundred_pictures(name):
    model, info = load_trained(name)
    if name.startswith("shapes"):
        dataset = shapes10(train=10, test=2000)
    elif "VIT_COURSE_REAL_DATA" in os.environ:
        dataset = photographs()
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
    planned = {one.stem: one for one in plan(size) if one.stem in RELEASED}
    assert {RELEASED[stem] for stem in planned} == set(RELEASED.values())
    assert all(0 in one.snapshots for one in planned.values())


@pytest.mark.parametrize("name", trained_names())
def test_a_trained_model_that_comes_with_the_course_has_a_sum(name):
    with safe_open(CHECKPOINTS / f"{name}.safetensors", framework="pt") as file:
        assert re.fullmatch("[0-9a-f]{64}", file.metadata()["sha256"])


@pytest.mark.parametrize("half", [False, True])
def test_a_flipped_byte_in_any_weight_is_noticed_and_the_file_named(half, tmp_path):
    path = tmp_path / "some.safetensors"
    weights = {"a": torch.randn(40), "b": torch.arange(6).reshape(2, 3), "c": torch.randn(())}
    write_weights(path, weights, {"name": "some"}, half)
    content = path.read_bytes()
    size = sum(
        value.numel() * (2 if half and value.is_floating_point() else value.element_size())
        for value in weights.values()
    )
    for place in range(len(content) - size, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :])
        with pytest.raises(ValueError, match="some.safetensors is damaged"):
            read_weights(path)
    path.write_bytes(content)
    loaded, about = read_weights(path)
    assert about == {"name": "some"} and torch.equal(loaded["b"], weights["b"])


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not tell what is mapped")
def test_weights_that_were_read_leave_their_file_free_to_be_replaced(tmp_path):
    path = tmp_path / "some.safetensors"
    write_weights(path, {"a": torch.randn(4000)}, {})
    weights, _ = read_weights(path)
    assert len(weights["a"]) == 4000 and path.name not in Path("/proc/self/maps").read_text()
