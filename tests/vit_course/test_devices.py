"""Every step of training keeps to its GPU: shown without one, on tensors that know all about them but numbers."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

from vit_course import augment
from vit_course.data import shapes10
from vit_course.extensions.masked import MaskedPatches, masked_objective
from vit_course.extensions.step_wrappers import records_kernels
from vit_course.recipes import RECIPES, build_model
from vit_course.training.config import Objective
from vit_course.training.run import Run

PICTURES = shapes10(train=80, test=40)
MODELS = {
    "none": ("Nano/8", {"pos_embed": "none"}),
    "learned": ("Nano/8", {}),
    "sincos": ("Nano/8", {"pos_embed": "sincos"}),
    "2d": ("Nano/8", {"pos_embed": "2d"}),
    "2d in every layer": ("Nano/8", {"pos_embed": "2d", "pos_embed_at": "every"}),
    "relative": ("Nano/8", {"pos_embed": "relative"}),
    "dropout": ("Nano/8", {"drop_rate": 0.1, "drop_path_rate": 0.1}),
    "average": ("Nano/8", {"global_pool": "avg"}),
    "hybrid": ("R-Nano/8", {"width": 8}),
    "resnet": ("resnet-small", {}),
}


@pytest.fixture(autouse=True)
def without_numbers(monkeypatch):
    """Pretend that a GPU is there; the shares of MixUp, which cannot be drawn in pretence, are all the same."""
    monkeypatch.setattr("vit_course.training.run.get_device", torch.device)
    monkeypatch.setattr(augment, "draw_beta", lambda alpha, count, device: torch.ones(count, device=device))
    with FakeTensorMode():
        try:
            torch.empty(1).to("cuda")
        except RuntimeError:
            pytest.skip(f"torch {torch.__version__} asks for a driver even to pretend")
        yield


def moved(model: nn.Module, device: str) -> nn.Module:
    """Move what `model.to` moves, parameters and buffers; a tensor that is neither is left behind, and is found out."""
    for module in model.modules():
        for name, value in module._parameters.items():
            if value is not None:
                empty = torch.empty(value.shape, dtype=value.dtype, device=device)
                module._parameters[name] = nn.Parameter(empty, requires_grad=value.requires_grad)
        for name, value in module._buffers.items():
            if value is not None:
                module._buffers[name] = torch.empty(value.shape, dtype=value.dtype, device=device)
    model.to = lambda device: model
    return model


def pictures() -> SimpleNamespace:
    """Return pictures of the same shapes as those of the models, without numbers."""
    halves = {name: value for name, value in vars(PICTURES).items() if isinstance(value, torch.Tensor)}
    empty = {name: torch.empty(half.shape, dtype=half.dtype) for name, half in halves.items()}
    empty |= {"classes": PICTURES.classes, "provenance": PICTURES.provenance}
    return SimpleNamespace(**empty, channel_stats=lambda: (torch.empty(3), torch.empty(3)))


def built(name: str, options: dict) -> nn.Module:
    """Build a model of true tensors."""
    with unset_fake_temporarily():
        return build_model(name, PICTURES, **options)


def devices_of_a_batch(
    model: nn.Module, recipe: str = "smoothing", objective: Objective | None = None
) -> set:
    """Draw, augment and score one batch; fails where tensors of two devices meet."""
    config = replace(RECIPES[recipe], batch_size=40, device="cuda", quiet=True)
    run = Run(moved(model, "cuda"), pictures(), config, None, objective)
    images, targets = next(run.batches(0))
    results = objective(run.model, images, targets) if objective else (run.model(images) * targets,)
    return {tensor.device.type for tensor in (images, targets, *results)}


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_batches_of_every_recipe_stay_on_the_gpu(recipe):
    assert devices_of_a_batch(built("Nano/8", {}), recipe) == {"cuda"}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_stays_on_the_gpu(name):
    assert devices_of_a_batch(built(*MODELS[name])) == {"cuda"}


@pytest.mark.parametrize("task", ["colours", "pixels"])
def test_masked_prediction_stays_on_the_gpu(task):
    with unset_fake_temporarily():
        model = MaskedPatches(build_model("Nano/8", PICTURES), torch.zeros(3), torch.ones(3), task=task)
    assert devices_of_a_batch(model, objective=masked_objective) == {"cuda"}


@pytest.mark.parametrize(
    ("name", "changed", "expected"),
    [
        ("learned", {}, True),
        ("learned", {"keep_by": "size"}, False),
        ("resnet", {}, False),
    ],
)
def test_the_kernels_of_a_compiled_vit_alone_are_recorded(name, changed, expected):
    config = replace(RECIPES["gpu"], batch_size=40, device="cuda", quiet=True, compile=True, **changed)
    assert records_kernels(Run(moved(built(*MODELS[name]), "cuda"), pictures(), config)) is expected


def test_a_tensor_that_is_left_behind_is_found_out():
    class Careless(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.layer = torch.ones(10), nn.Linear(3 * 32 * 32, 10)

        def forward(self, images):
            return self.layer(images.flatten(1)) * self.scale

    with pytest.raises(RuntimeError, match="two d.*cuda:0.*cpu"):
        devices_of_a_batch(Careless())
