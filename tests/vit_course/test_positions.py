"""Positions that are put into a finished model: the same sums as by hand, whole in every kind of copy."""

import copy
import itertools

import pytest
import torch
from torch.optim.swa_utils import AveragedModel
from torch.utils.flop_counter import FlopCounterMode

from vit_course.attention import MultiHeadAttention
from vit_course.data import shapes10
from vit_course.extensions.positions import (
    LearnedPosition2d,
    RelativeAttention,
    RelativePosition,
    WithPosition,
    with_positions,
)
from vit_course.recipes import build_model
from vit_course.vit import VisionTransformer, vit_flops

SMALL = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "num_heads": 3}
TABLES = list(itertools.product(("learned", "2d", "sincos"), ("stem", "every", "shared")))
ALL = [*TABLES, ("relative", "stem")]
IMAGES = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def placed(kind, at, depth=3, **options):
    """A model with these positions, whose weights are drawn anew so that no head of zeros hides a difference."""
    torch.manual_seed(0)
    model = with_positions(VisionTransformer(**SMALL, depth=depth, **options), kind, at)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def shifted(model):
    """The same model after a change of what it knows of positions, and of nothing else."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "pos_embed" in name or "rel_pos" in name:
                parameter.add_(torch.randn_like(parameter))
    return model


def test_learned_2d_positions_share_rows_and_columns_and_refuse_an_odd_width():
    table = LearnedPosition2d((3, 4), 10)()
    grid = table[0, 1:].reshape(3, 4, 10)
    assert table.shape == (1, 13, 10)
    assert torch.equal(grid[1, 0, :5], grid[1, 3, :5])
    assert torch.equal(grid[0, 2, 5:], grid[2, 2, 5:])
    with pytest.raises(ValueError, match="dim 7 is not divisible by 2"):
        LearnedPosition2d((2, 2), 7)


def test_relative_position_scores_the_offset_of_query_and_key():
    relative = RelativePosition(num_tokens=5, head_dim=8)
    q = torch.randn(2, 3, 5, 8)
    bias = relative(q)
    for query in range(5):
        for key in range(5):
            expected = q[:, :, query] @ relative.offsets[query - key + 4] / 8**0.5
            torch.testing.assert_close(bias[:, :, query, key], expected)
    with pytest.raises(ValueError, match="3 tokens, but relative positions of 5: use keep_tokens 1"):
        relative(q[:, :, :3])


# -- in a model


@pytest.mark.parametrize(("kind", "at"), TABLES)
def test_positions_of_every_layer_equal_adding_them_by_hand(kind, at):
    model = placed(kind, at)
    holders = [model if model.pos_embed is not None else model.pos_drop, *list(model.blocks)[1:]]
    tables = [getattr(holder, "pos_embed", torch.zeros(1, 17, 24)) for holder in holders]
    tables = [table() if isinstance(table, LearnedPosition2d) else table for table in tables]
    z = torch.cat([model.cls_token.expand(4, -1, -1), model.patch_embed(IMAGES)], dim=1)
    for block, table in zip(model.blocks, tables, strict=True):
        z = (block.part if isinstance(block, WithPosition) else block)(z + table)
    torch.testing.assert_close(model(IMAGES), model.head(model.norm(z)[:, 0]), rtol=0, atol=1e-5)
    assert sum(table.abs().sum() > 0 for table in tables) == (1 if at == "stem" else 3)


def test_relative_attention_adds_its_bias_to_the_scores_and_keeps_the_layers():
    plain, x = MultiHeadAttention(24, 3), torch.randn(2, 10, 24)
    relative = RelativeAttention(plain, 10)
    assert relative.qkv is plain.qkv and relative.proj is plain.proj
    fused, (explicit, weights) = relative(x), relative(x, return_attention=True)
    torch.testing.assert_close(fused, explicit, rtol=0, atol=1e-5)
    q, k, _ = plain.qkv(x).reshape(2, 10, 3, 3, 8).permute(2, 0, 3, 1, 4)
    expected = (q @ k.mT / 8**0.5 + relative.rel_pos(q)).softmax(dim=-1)
    torch.testing.assert_close(weights, expected)
    with torch.no_grad():
        relative.rel_pos.offsets.zero_()
    torch.testing.assert_close(relative(x), plain(x), rtol=0, atol=1e-5)


def test_relative_attention_drops_weights_in_training_and_gives_them_whole():
    relative = RelativeAttention(MultiHeadAttention(24, 3, attn_drop=0.5), 10).train()
    x = torch.randn(2, 10, 24)
    assert not torch.allclose(relative(x), relative(x))
    first, weights = relative(x, return_attention=True)
    assert not torch.allclose(first, relative(x, return_attention=True)[0])
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3, 10))


def test_layers_share_one_table_or_have_one_each():
    def count(kind, at):
        return sum(parameter.numel() for parameter in placed(kind, at).parameters())

    assert count("learned", "shared") == count("learned", "stem")
    assert count("learned", "every") == count("learned", "stem") + 2 * 17 * 24  # 16 patches and the CLS token
    assert count("2d", "stem") == count("learned", "stem") - 16 * 24 + 2 * 4 * 12
    assert count("relative", "stem") == count("learned", "stem") - 17 * 24 + 3 * (2 * 17 - 1) * 8


@pytest.mark.parametrize(("kind", "at"), ALL)
def test_a_copied_model_has_positions_of_its_own(kind, at):
    model = placed(kind, at)
    before, twin = model(IMAGES), copy.deepcopy(model)
    torch.testing.assert_close(twin(IMAGES), before)
    shifted(twin)
    torch.testing.assert_close(model(IMAGES), before)
    assert not torch.allclose(twin(IMAGES), before, atol=1e-3)
    assert sum(p.numel() for p in twin.parameters()) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("kind", "at"), ALL)
def test_an_average_of_models_has_the_average_of_their_positions(kind, at):
    model = placed(kind, at)
    average = AveragedModel(model, avg_fn=lambda mean, new, count: (mean + new) / 2)
    average.update_parameters(model)
    old = {name: value.clone() for name, value in model.named_parameters()}
    average.update_parameters(shifted(model))
    expected = copy.deepcopy(model)
    with torch.no_grad():
        for name, parameter in expected.named_parameters():
            parameter.copy_((parameter + old[name]) / 2)
    torch.testing.assert_close(average(IMAGES), expected(IMAGES), rtol=0, atol=1e-5)
    assert not torch.allclose(average(IMAGES), model(IMAGES), atol=1e-3)


@pytest.mark.parametrize(("kind", "at"), ALL)
def test_saved_weights_make_another_model_the_same(kind, at, tmp_path):
    model, other = placed(kind, at), shifted(placed(kind, at))
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    other.load_state_dict(torch.load(tmp_path / "weights.pth", weights_only=True), strict=True)
    torch.testing.assert_close(other(IMAGES), model(IMAGES))


@pytest.mark.parametrize(("kind", "at"), ALL)
def test_attention_and_logits_agree_and_cost_no_second_attention(kind, at):
    model = placed(kind, at)
    logits, attentions = model(IMAGES, return_attention=True)
    torch.testing.assert_close(logits, model(IMAGES), rtol=0, atol=1e-5)
    assert [tuple(weights.shape) for weights in attentions] == [(4, 3, 17, 17)] * 3
    with FlopCounterMode(display=False) as counter:
        model(IMAGES[:1], return_attention=True)
    offsets = 3 * 2 * 17 * 24 * (2 * 17 - 1) if kind == "relative" else 0
    assert counter.get_total_flops() == vit_flops(model) + offsets


@pytest.mark.parametrize(("kind", "at"), ALL)
@pytest.mark.parametrize(("pool", "cls"), [("token", True), ("avg", True), ("avg", False)])
def test_gradients_reach_every_parameter_that_learns(kind, at, pool, cls):
    model = placed(kind, at, global_pool=pool, class_token=cls)
    model(IMAGES).square().sum().backward()
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad and p.numel()]
    assert [name for name, p in trained if p.grad is None or not bool(p.grad.any())] == []


def test_positions_come_in_the_type_of_the_model():
    model = with_positions(VisionTransformer(**SMALL, depth=2).double(), "2d", "every")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.double}


@pytest.mark.parametrize(
    ("kind", "at", "words"),
    [
        ("3d", "stem", "'3d' at 'stem' are unknown"),
        ("2d", "all", "'2d' at 'all' are unknown"),
        ("none", "every", "'none' at 'every' are unknown"),
        ("relative", "every", "no table to add"),
    ],
)
def test_positions_that_do_not_exist_are_refused_and_nothing_changes(kind, at, words):
    model = VisionTransformer(**SMALL, depth=2)
    names = list(model.state_dict())
    with pytest.raises(ValueError, match=words):
        with_positions(model, kind, at)
    assert list(model.state_dict()) == names


@pytest.mark.parametrize("first", [("2d", "stem"), ("learned", "every"), ("relative", "stem")])
def test_a_model_is_given_other_positions_once(first):
    with pytest.raises(ValueError, match="parts for other positions already"):
        with_positions(placed(*first), "2d")


@pytest.mark.parametrize(("kind", "at"), [*ALL, ("none", "stem")])
@pytest.mark.parametrize("name", ["Nano/8", "R-Nano/8"])
def test_models_by_name_get_the_positions_asked_for(name, kind, at):
    model = build_model(name, shapes10(train=20, test=10), pos_embed=kind, pos_embed_at=at)
    vit = getattr(model, "vit", model)
    found = {
        "2d": any(isinstance(part, LearnedPosition2d) for part in vit.modules()),
        "relative": isinstance(vit.blocks[0].attn, RelativeAttention),
        "learned": vit.pos_embed is not None and vit.pos_embed.requires_grad,
        "sincos": vit.pos_embed is not None and not vit.pos_embed.requires_grad,
    }
    assert [name for name, there in found.items() if there] == [kind] * (kind != "none")
    wrapped = sum(isinstance(block, WithPosition) for block in vit.blocks)
    assert wrapped == (0 if at == "stem" else len(vit.blocks) - 1)
