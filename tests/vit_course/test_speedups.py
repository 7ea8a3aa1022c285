"""Fewer tokens, Muon, and what a record says of the processor."""

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from vit_course.data import normalize, shapes10
from vit_course.extensions.hybrid import create_hybrid
from vit_course.extensions.modern import modernize
from vit_course.extensions.speedups import drop_by_picture, drop_tokens, fewer_tokens
from vit_course.extensions.transfer import change_resolution
from vit_course.optim import Muon, make_optimizers
from vit_course.resnet import small_resnet
from vit_course.train import TrainConfig, train
from vit_course.training.processor import describe_processor
from vit_course.vit import VisionTransformer

DATA = shapes10(train=200, test=20)
IMAGES = normalize(DATA.train_images, *DATA.channel_stats())


def small_vit(**options):
    torch.manual_seed(0)
    return VisionTransformer(patch_size=8, **{"embed_dim": 32, "depth": 2, "num_heads": 2, **options})


@pytest.mark.parametrize("by_picture", [False, True])
@pytest.mark.parametrize("prefix", [0, 1, 2])
def test_dropped_tokens_are_patches_and_the_others_keep_their_order(by_picture, prefix):
    torch.manual_seed(0)
    tokens = torch.arange(prefix + 16.0).expand(40, -1)[:, :, None] * torch.ones(3)
    kept = (drop_by_picture if by_picture else drop_tokens)(tokens, 6, prefix)
    assert kept.shape == (40, prefix + 6, 3)
    assert torch.equal(kept[:, :prefix], tokens[:, :prefix])
    places = kept[:, prefix:, 0]
    assert bool((places.diff(dim=1) > 0).all()) and bool((places >= prefix).all())
    assert (len(places.unique(dim=0)) == 1) != by_picture
    assert set(places.flatten().int().tolist()) == set(range(prefix, prefix + 16)) if by_picture else True


def test_every_patch_is_kept_equally_often():
    torch.manual_seed(0)
    tokens = torch.arange(8.0)[None, :, None].expand(4000, -1, 1)
    share = torch.stack([(drop_by_picture(tokens, 2) == place).float().sum() / 4000 for place in range(8)])
    assert share.tolist() == pytest.approx([0.25] * 8, abs=0.04)


def test_a_vit_computes_fewer_tokens_in_training_alone_and_only_inside():
    model = small_vit(class_token=False, global_pool="avg")
    seen = []
    model.norm.register_forward_hook(lambda module, given, out: seen.append(out.shape[1]))
    with fewer_tokens(model, 0.25):
        model.train()(IMAGES[:2])
        model.eval()(IMAGES[:2])
    model.train()(IMAGES[:2])
    with fewer_tokens(model, 1.0):
        model.train()(IMAGES[:2])
    assert seen == [4, 16, 16, 16]


def test_only_a_vit_can_leave_tokens_out():
    resnet = small_resnet()
    with pytest.raises(ValueError, match="keep_tokens 0.5 is for a VisionT"), fewer_tokens(resnet, 0.5):
        pass


def test_a_resnet_reads_smaller_pictures_inside_and_a_hybrid_leaves_out_tokens_of_its_vit():
    resnet, sides = small_resnet(), []
    resnet[0].register_forward_hook(lambda module, given, out: sides.append(tuple(out.shape[-2:])))
    with fewer_tokens(resnet, 0.5, "size"):
        resnet(IMAGES[:2])
    resnet(IMAGES[:2])
    assert sides == [(24, 24), (32, 32)]
    hybrid, seen = create_hybrid("R-Nano/8", width=4, embed_dim=16, num_heads=2, depth=1).train(), []
    hybrid.vit.norm.register_forward_hook(lambda module, given, out: seen.append(out.shape[1]))
    with fewer_tokens(hybrid, 0.5):
        hybrid(IMAGES[:2])
    assert seen == [1 + 8]


@pytest.mark.parametrize(("by", "early"), [("batch", 9), ("picture", 9), ("size", 10)])
def test_train_leaves_tokens_out_for_the_first_part_of_the_steps(by, early):
    model = small_vit()
    seen = []
    model.norm.register_forward_hook(
        lambda module, given, out: seen.append(out.shape[1]) if model.training else None
    )
    config = TrainConfig(epochs=2, batch_size=40, keep_tokens=0.5, keep_until=0.6, device="cpu", quiet=True)
    train(model, DATA, replace(config, keep_by=by))
    assert seen == [early] * 6 + [17] * 4


def test_smaller_pictures_are_read_as_by_a_model_of_that_size_and_teach_the_same_positions():
    model = small_vit()
    small = change_resolution(copy.deepcopy(model), 24)
    expected = small.embed(F.interpolate(IMAGES[:2], (24, 24), mode="bilinear", antialias=True))
    names, table = list(model.state_dict()), model.pos_embed
    with fewer_tokens(model, 0.5625, "size"):
        tokens = model.embed(IMAGES[:2])
    assert torch.allclose(tokens, expected, atol=1e-6) and model.embed(IMAGES[:2]).shape[1] > tokens.shape[1]
    assert list(model.state_dict()) == names and model.pos_embed is table
    tokens.square().sum().backward()
    assert table.grad.abs().amax(dim=-1).min() > 0


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch before 2.9 has no Muon to compare with")
def test_muon_is_torchs_muon():
    torch.manual_seed(0)
    start = [torch.nn.Parameter(torch.randn(shape)) for shape in ((24, 8), (8, 24), (8, 8), (8, 8))]
    ours, theirs = copy.deepcopy(start), copy.deepcopy(start)
    options = {"lr": 0.02, "weight_decay": 0.1}
    steppers = Muon(ours, **options), torch.optim.Muon(theirs, **options, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        for stepper in steppers:
            stepper.step()
    for a, b, before in zip(ours, theirs, start, strict=True):
        assert (a - b).norm() < 0.03 * (b - before).norm()


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
def test_muon_changes_a_kernel_as_the_matrix_of_its_output_channels(last):
    torch.manual_seed(0)
    kernel, gradient = torch.randn(8, 6, 3, 3), torch.randn(8, 6, 3, 3)
    order = torch.channels_last if last else torch.contiguous_format
    ours = torch.nn.Parameter(kernel.clone(memory_format=order))
    matrix = torch.nn.Parameter(kernel.flatten(1).clone())
    ours.grad, matrix.grad = gradient, gradient.flatten(1)
    for parameter in (ours, matrix):
        Muon([parameter], lr=0.1, dtype=torch.float32).step()
    assert not torch.equal(ours, kernel)
    torch.testing.assert_close(ours.flatten(1), matrix)


def test_muon_has_the_convolutions_of_a_resnet_but_the_first_and_those_of_a_hybrid_beside_its_blocks():
    def names(model):
        muon, _ = make_optimizers(model, "muon")
        chosen = {id(p) for group in muon.param_groups for p in group["params"]}
        return {name for name, p in model.named_parameters() if id(p) in chosen}

    resnet = small_resnet()
    kernels = {name for name, p in resnet.named_parameters() if p.ndim == 4}
    assert len(kernels) == 9 and names(resnet) == kernels - {"0.weight"}
    hybrid = create_hybrid("R-Nano/8", width=4, embed_dim=16, num_heads=2, depth=2)
    found = names(hybrid)
    assert sum("vit.blocks." in name for name in found) == 2 * 4
    first = {"backbone.0.weight", "vit.patch_embed.proj.weight"}
    kernels = {name for name, p in hybrid.named_parameters() if p.ndim == 4}
    assert {name for name in found if "blocks" not in name} == kernels - first


@pytest.mark.parametrize("rope", [False, True])
def test_muon_takes_qkv_for_three_matrices_where_it_is_told_so(rope):
    model = modernize(small_vit(), rope=rope)
    for parts in (1, 3):
        copied = copy.deepcopy(model)
        muon, rest = make_optimizers(copied, "muon", 1e-2, 0.0, rest_lr=1e-3, qkv_matrices=parts)
        assert {group["lr"] for group in rest.param_groups} == {1e-3}
        torch.manual_seed(1)
        for parameter in copied.parameters():
            parameter.grad = torch.randn_like(parameter)
        muon.step()
        change = next(copied.blocks[0].attn.qkv.parameters()) - next(model.blocks[0].attn.qkv.parameters())
        pieces = change.chunk(parts)
        for piece in pieces:
            values = torch.linalg.svdvals(piece) / (1e-2 * 0.2 * max(piece.shape) ** 0.5)
            assert 0.5 < values.min() and values.max() < 1.3
    assert not torch.allclose(pieces[0] @ pieces[1].T, torch.zeros(32, 32), atol=1e-6)


def test_a_record_says_what_the_processor_is_and_how_fast():
    facts = describe_processor()
    assert set(facts) == {"name", "amx", "bfloat16_gflops", "float32_gflops"}
    assert isinstance(facts["amx"], bool) and facts["name"] and facts["float32_gflops"] > 0.1
