"""What a student trained is kept, whatever her parts look like, and a run that was stopped goes on."""

import pytest
import torch
from torch import nn

from experiments.run import main as experiments
from vit_classroom import student_model
from vit_classroom.checks import lesson_part, parts_in_use
from vit_classroom.evidence import recorded_mini_vit as recorded
from vit_classroom.exhibits import mini_vit
from vit_classroom.exhibits.mini_vit import MiniViT, accuracy, train_one_epoch
from vit_classroom.notebook import source_without_docstrings
from vit_course import attention, patches
from vit_course.attention import MultiHeadAttention
from vit_course.data import shapes10
from vit_course.training.signals import Stopped
from vit_course.vit import VisionTransformer


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of one's own for what is kept."""
    monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def shapes():
    return shapes10(train=60, test=20)


class OwnAttention(nn.Module):
    """Attention that keeps its number of heads under a name of its own."""

    def __init__(self, dim, num_heads, **_):
        super().__init__()
        inner = MultiHeadAttention(dim, num_heads)
        self.qkv, self.proj = inner.qkv, inner.proj
        self.compute = [inner]

    def forward(self, x, return_attention=False):
        return self.compute[0](x, return_attention)


def trained(**sizes):
    """A model whose weights are all other than those that it starts with."""
    torch.manual_seed(0)
    model = MiniViT(patch_size=8, **sizes)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def with_linear_patches(model):
    with pytest.MonkeyPatch.context() as patch:
        for module in (patches, mini_vit):
            patch.setattr(module, "PatchEmbed", lesson_part("06", "answers").LinearPatches)
        linear = MiniViT(patch_size=8)
    linear.load_state_dict(student_model.fitted(model.state_dict(), linear))
    return linear.eval()


def with_own_attention(model):
    for block in model.blocks:
        weights = block.attn.state_dict()
        block.attn = OwnAttention(96, 3)
        block.attn.load_state_dict(weights)
    return model


@pytest.mark.parametrize("change", [lambda model: model, with_linear_patches, with_own_attention])
def test_a_kept_model_computes_the_same_as_the_courses_class(change, folder, shapes):
    model = change(trained())
    assert student_model.keep_model(model, shapes, 0.5, 100).startswith("kept as my_vit.pt")
    loaded, info = student_model.load_my_model()
    x = torch.randn(4, 3, 32, 32)
    assert type(loaded) is VisionTransformer and not loaded.training
    assert torch.allclose(loaded(x), model(x), atol=1e-5)
    assert (info["model"], info["options"], info["test_accuracy"]) == ("Nano/8", {}, 0.5)
    assert info["classes"] == list(shapes.classes)
    assert student_model.load_my_model((3, 32, 32)) and student_model.load_my_model((1, 32, 32)) is None


def test_sizes_that_have_no_name_are_kept_too(folder, shapes):
    model = trained(embed_dim=24, depth=2, num_heads=2)
    student_model.keep_model(model, shapes, 0.5, 100)
    loaded, info = student_model.load_my_model()
    assert info["options"] == {"embed_dim": 24, "depth": 2, "num_heads": 2}
    assert torch.allclose(loaded(torch.ones(1, 3, 32, 32)), model(torch.ones(1, 3, 32, 32)), atol=1e-5)


def test_what_was_trained_on_more_pictures_stays_and_what_another_user_left_in_a_shared_folder_is_not_mine(
    folder, shapes, monkeypatch
):
    student_model.keep_model(trained(), shapes, 0.5, 100)
    assert "trained on more pictures" in student_model.keep_model(trained(), shapes, 0.9, 99)
    assert student_model.load_my_model()[1]["test_accuracy"] == 0.5
    student_model.keep_model(trained(), shapes, 0.6, 100)
    assert student_model.load_my_model()[1]["test_accuracy"] == 0.6
    monkeypatch.setattr(student_model, "is_mine", lambda path: False)
    assert student_model.load_my_model() is None


@pytest.mark.parametrize("variable", [("VIT_COURSE_STRICT", "1"), ("VIT_COURSE_ANSWERS", "")])
def test_where_no_student_is_nothing_is_kept(variable, folder, shapes, monkeypatch):
    monkeypatch.setenv(*variable)
    assert student_model.keep_model(trained(), shapes, 0.5, 100).startswith("not kept")
    assert not list(folder.iterdir()) and student_model.load_my_model() is None


def by_recipe(shapes, stop_in=None, epochs=3):
    """Train by the recipe for a while, with Ctrl-C in one epoch; return the log and the model."""
    calls = []

    def loop(*args):
        calls.append(1)
        if len(calls) == stop_in:
            raise KeyboardInterrupt
        args[3].zero_grad(set_to_none=True)
        return train_one_epoch(*args)

    torch.manual_seed(0)
    model = MiniViT(patch_size=16, embed_dim=12, depth=1, num_heads=1)
    return student_model.train_by_recipe(model, loop, accuracy, shapes, epochs), model


def test_a_run_by_the_recipe_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch, shapes):
    results = []
    for name, stops in (("whole", [None]), ("stopped", [2, 2, None])):
        monkeypatch.setenv("VIT_COURSE_ANSWERS", str(tmp_path / name))
        for stop in stops[:-1]:
            with pytest.raises(Stopped, match="after [12] of 3 epochs"):
                by_recipe(shapes, stop)
        results.append(by_recipe(shapes))
    (whole, model), (stopped, same) = results
    assert [row["epoch"] for row in stopped] == [1, 2, 3]
    assert [row["loss"] for row in stopped] == [row["loss"] for row in whole]
    assert all(map(torch.equal, model.parameters(), same.parameters()))
    assert student_model.load_my_model()[1]["pictures_seen"] == 3 * len(shapes.train_images)


def test_a_run_by_the_recipe_is_not_mixed_with_another(folder, shapes):
    with pytest.raises(KeyboardInterrupt):
        by_recipe(shapes, stop_in=2)
    with pytest.raises(ValueError, match="of another run: epochs differs"):
        by_recipe(shapes, epochs=4)


def test_the_lesson_finds_the_record_of_a_run_once_there_is_one(folder, shapes, tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "FILE", tmp_path / "mini_vit.json")
    monkeypatch.setattr("experiments.run.load_dataset", lambda name: shapes)
    monkeypatch.setattr(recorded.record, "__defaults__", (1,))
    assert recorded.recorded_run() is None
    assert experiments(["mini-vit"]) == 0
    assert [row["epoch"] for row in recorded.recorded_run()["log"]] == [1]


def test_parts_in_use_are_those_that_are_called_with_the_right_owner(monkeypatch):
    def split_heads(x, num_heads):
        return original(x, num_heads)

    original = attention.split_heads
    monkeypatch.setattr(attention, "split_heads", split_heads)
    model = MiniViT(patch_size=8, depth=2)
    rows = parts_in_use(lambda: model(torch.zeros(1, 3, 32, 32)), MiniViT, accuracy)
    assert ["split_heads", "yours", 6] in rows and ["split_heads", "the course's", 6] in rows
    assert ["Block", "the course's", 2] in rows and ["MiniViT", "the course's", 1] in rows
    assert not {"patchify", "layer_norm", "accuracy", "scaled_dot_product_attention"} & {
        row[0] for row in rows
    }


def test_source_is_shown_without_docstrings():
    class Two:
        """Two methods.

        And more words.
        """

        def one(self):
            """Return one."""
            return 1

        def words(self):
            return """no docstring"""

    shown = source_without_docstrings(Two)
    assert shown == (
        'class Two:\n    def one(self):\n        return 1\n\n    def words(self):\n        return """no docstring"""'
    )
    assert "super().__init__()\n" in source_without_docstrings(MiniViT)  # the mark of what is given is gone


def test_an_early_epoch_of_the_recipe_computes_fewer_tokens_and_a_measurement_all():
    model = MiniViT(patch_size=8, embed_dim=12, depth=2, num_heads=1)
    seen = []
    model.blocks[1].register_forward_hook(lambda block, given, tokens: seen.append(tokens.shape[1]))
    images = torch.zeros(2, 3, 32, 32)
    with student_model.fewer_tokens(model, 0.5):
        model(images)
        model.eval()(images)
    model.train()(images)
    assert seen == [9, 17, 17]
