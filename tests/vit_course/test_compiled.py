"""A ViT learns the same compiled, and recorded and replayed; without a GPU, something else stands in for both."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from vit_course.data import shapes10
from vit_course.encoder import Block
from vit_course.extensions import step_wrappers
from vit_course.recipes import RECIPES, build_model
from vit_course.train import train
from vit_course.training.compiled import alike_blocks

PICTURES = shapes10(train=80, test=20)


@pytest.fixture
def compilations(monkeypatch):
    """Compile without a compiler of C, and count what is compiled: blocks in place, or whole models."""
    found = []

    def in_place(block, **options):
        found.append(block)
        nn.Module.compile(block, backend="eager", **options)

    def whole(model, compile_it=torch.compile, **options):
        if not options:  # a whole model: `compile` of a block comes here, too
            found.append(model)
        return compile_it(model, **{"backend": "eager", **options})

    monkeypatch.setattr(Block, "compile", in_place)
    monkeypatch.setattr(torch, "compile", whole)
    return found


def learned(compiled, drop_path=0.0):
    torch.manual_seed(0)
    model = build_model("Nano/8", PICTURES, drop_path_rate=drop_path)
    config = replace(
        RECIPES["gpu"], epochs=4, batch_size=40, warmup_epochs=1, lr=1e-3, device="cpu", quiet=True
    )
    history = train(model, PICTURES, replace(config, precision="float32", compile=compiled))
    return model, history.step_loss


@pytest.mark.parametrize(("drop_path", "compiled"), [(0.0, 3), (0.1, 1)])
def test_a_compiled_run_drops_tokens_learns_as_another_and_leaves_nothing_behind(
    drop_path, compiled, compilations
):
    _, plain = learned(False, drop_path)
    assert not compilations
    model, losses = learned(True, drop_path)
    assert losses == pytest.approx(plain, rel=1e-5)
    assert len(compilations) == compiled
    assert not any(block._compiled_call_impl for block in model.blocks)


def test_what_is_recorded_is_so_for_each_kind_of_step_and_draws_no_number_of_the_run(
    monkeypatch, compilations
):
    recorded = []

    def record(function, given, allow_unused_input):
        torch.rand(3)
        recorded.append(tuple(given[0].shape))
        return function

    _, plain = learned(False)
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", record)
    monkeypatch.setattr(step_wrappers, "records_kernels", lambda run: True)
    assert learned(True)[1] == pytest.approx(plain, rel=1e-5)
    with_half, q_k_v, mlps, others, with_all = recorded
    assert with_half == with_all == (40, 3, 32, 32)
    assert {q_k_v, mlps, others} == {(9, 96, 96), (6, 96, 384), (3, 96, 96)}


def test_blocks_with_a_hook_or_other_drop_paths_are_not_alike():
    model = build_model("Nano/8", PICTURES)
    assert alike_blocks(model) == list(model.blocks)
    model.blocks[1].attn.register_forward_hook(lambda *given: None)
    assert alike_blocks(model) == alike_blocks(build_model("Nano/8", PICTURES, drop_path_rate=0.1)) == []
