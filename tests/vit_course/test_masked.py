"""Masked patch prediction: the corruption and its shares, colour classes, the loss, and the model around a ViT."""

import copy
import itertools

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from vit_course.data import normalize, shapes10
from vit_course.extensions.masked import (
    MaskedPatches,
    class_colours,
    colour_classes,
    corrupt,
    corrupt_repeatably,
    masked_objective,
)
from vit_course.extensions.positions import with_positions
from vit_course.train import TrainConfig, evaluate, train
from vit_course.vit import VisionTransformer

STATS = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.3, 0.25])
POSITIONS = [
    {"positions": (kind, where)}
    for kind, where in itertools.product(("learned", "2d", "sincos"), ("stem", "every", "shared"))
] + [{"pos_embed": "none"}, {"positions": ("relative", "stem")}]


def numbered(batch, count, dim=3):
    """Tokens that say whose they are: the first number is the place, the second the picture."""
    tokens = torch.zeros(batch, count, dim)
    tokens[..., 0] = torch.arange(1, count + 1)
    tokens[..., 1] = torch.arange(1, batch + 1)[:, None]
    return tokens


def tiny(positions=None, **options):
    torch.manual_seed(0)
    sizes = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 2}
    model = VisionTransformer(**{**sizes, **options})
    return with_positions(model, *positions) if positions else model


def pictures(batch=3, channels=3, size=(16, 16)):
    return torch.randint(0, 256, (batch, channels, *size), generator=torch.Generator().manual_seed(1)).byte()


def fates(batch=400, count=64, share=0.5):
    """Where tokens went: chosen, became the mask, became another, the other's place and picture."""
    torch.manual_seed(3)
    tokens = numbered(batch, count)
    corrupted, chosen = corrupt(tokens, torch.full((1, 1, 3), -1.0), share)
    masked = (corrupted == -1).all(dim=-1)
    swapped = ~masked & (corrupted != tokens).any(dim=-1)
    return tokens, corrupted, chosen, masked, swapped


@pytest.mark.parametrize(
    ("count", "share", "number"), [(64, 0.5, 32), (16, 0.15, 2), (10, 0.75, 8), (6, 0, 0)]
)
def test_every_picture_has_exactly_the_rounded_share_of_corrupted_patches(count, share, number):
    _, chosen = corrupt(torch.randn(50, count, 4), torch.zeros(1, 1, 4), share)
    assert chosen.sum(dim=1).tolist() == [number] * 50


def test_of_the_corrupted_patches_80_percent_are_masked_10_are_others_10_are_kept_and_no_other_changes():
    tokens, corrupted, chosen, masked, swapped = fates()
    assert torch.equal(corrupted[~chosen], tokens[~chosen])
    total = chosen.sum()
    assert masked[chosen].sum() / total == pytest.approx(0.8, abs=0.015)
    assert swapped[chosen].sum() / total == pytest.approx(0.1, abs=0.012)
    assert (~masked & ~swapped)[chosen].sum() / total == pytest.approx(0.1, abs=0.012)


def test_another_patch_comes_from_the_same_picture_and_from_every_place_in_it():
    tokens, corrupted, _, _, swapped = fates()
    assert torch.equal(corrupted[swapped][:, 1], tokens[swapped][:, 1])
    assert (corrupted[swapped][:, 0] != tokens[swapped][:, 0]).all()
    places = torch.bincount(corrupted[swapped][:, 0].long(), minlength=65)[1:]
    assert places.min() > 0
    assert places.max() < 3 * places.float().mean()


def test_every_place_is_chosen_alike_and_every_picture_differently():
    _, _, chosen, _, _ = fates()
    assert chosen.float().mean(dim=0).sub(0.5).abs().max() < 0.12
    assert len({tuple(row) for row in chosen.tolist()}) == len(chosen)


def test_repeatable_corruption_repeats_and_leaves_the_random_state_alone():
    tokens, mask_token = torch.randn(2, 16, 5), torch.zeros(1, 1, 5)
    state = torch.get_rng_state()
    first, second = (corrupt_repeatably(tokens, mask_token) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert torch.equal(state, torch.get_rng_state())
    assert not torch.equal(first[1], corrupt_repeatably(tokens, mask_token, seed=5)[1])


@pytest.mark.parametrize(("size", "patch_size"), [((16, 16), 4), ((12, 20), (3, 5)), ((9, 6), 3)])
def test_colour_classes_equal_a_loop_over_patches(size, patch_size):
    images = pictures(2, 3, size)
    p1, p2 = (patch_size, patch_size) if isinstance(patch_size, int) else patch_size
    for b in range(2):
        expected = []
        for y in range(0, size[0], p1):
            for x in range(0, size[1], p2):
                patch = images[b, :, y : y + p1, x : x + p2].double()
                red, green, blue = (int(patch[c].mean() // 32) for c in range(3))
                expected.append(64 * red + 8 * green + blue)
        assert colour_classes(images, patch_size)[b].tolist() == expected


def test_levels_change_at_multiples_of_32_grey_values():
    values = torch.tensor([0, 31, 32, 63, 64, 223, 224, 255], dtype=torch.uint8)
    images = values[:, None, None, None].expand(-1, 1, 4, 4)
    assert colour_classes(images, 4).flatten().tolist() == [0, 0, 1, 1, 2, 6, 7, 7]


def test_decoding_and_encoding_every_class_gives_the_class():
    classes = torch.arange(512).reshape(1, 512)
    images = class_colours(classes).permute(0, 2, 1)[..., None]
    assert torch.equal(colour_classes(images, 1), classes)


def test_class_colours_take_any_axes_and_channels():
    assert class_colours(torch.tensor(511)).tolist() == [240, 240, 240]
    assert class_colours(torch.tensor([[5]]), num_channels=1).tolist() == [[[176]]]
    assert class_colours(torch.tensor([64])).dtype == torch.uint8


@pytest.mark.parametrize("task", ["colours", "pixels"])
@pytest.mark.parametrize("options", POSITIONS, ids=str)
def test_gradients_reach_every_parameter_that_learns(options, task):
    model = MaskedPatches(tiny(**options), *STATS, task=task)
    loss, hits = model(normalize(pictures(8), *STATS))
    loss.backward()
    learning = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert [name for name, p in learning.items() if p.grad is None] == []
    assert not [name for name in learning if name.startswith(("vit.head", "vit.pre_logits"))]
    assert 0 <= hits.item() <= 1
    assert not hits.requires_grad


@pytest.mark.parametrize("options", POSITIONS, ids=str)
def test_without_corruption_the_encoder_sees_what_the_classifier_sees(options):
    vit = tiny(**options).eval()
    images = normalize(pictures(), *STATS)
    model = MaskedPatches(vit, *STATS, share=0.5).eval()
    model.share, model.predict = 0.0, torch.nn.Identity()
    seen = []
    vit.norm.register_forward_hook(lambda module, inputs, output: seen.append(output))
    vit(images)
    assert torch.allclose(model.guess(images)[0], seen[0][:, 1:], atol=1e-6)


def test_mask_token_is_placed_before_positions_so_that_masked_patches_differ():
    model = MaskedPatches(tiny(), *STATS, share=1.0).eval()
    model.vit.blocks = torch.nn.Identity()
    outputs, _ = model.guess(normalize(pictures(1), *STATS))
    assert len(outputs[0].round(decimals=5).unique(dim=0)) > 10


@pytest.mark.parametrize(
    "options", [{"class_token": False, "global_pool": "avg"}, {"representation_size": 8}]
)
def test_models_with_other_heads_and_without_cls_token_work(options):
    loss, _ = MaskedPatches(tiny(**options), *STATS)(normalize(pictures(), *STATS))
    assert loss.isfinite()


def test_untrained_loss_is_near_the_logarithm_of_the_number_of_classes():
    loss, _ = MaskedPatches(tiny(), *STATS)(normalize(pictures(8), *STATS))
    assert loss.item() == pytest.approx(torch.tensor(512.0).log().item(), abs=0.3)


def test_grey_pictures_have_eight_classes():
    model = MaskedPatches(tiny(in_chans=1), [0.5], [0.2])
    loss, _ = model(normalize(pictures(4, 1), [0.5], [0.2]))
    assert model.predict.out_features == 8
    assert loss.isfinite()


def test_targets_come_from_raw_pixels_whatever_the_normalisation():
    images = pictures()
    model = MaskedPatches(tiny(), *STATS)
    assert torch.equal(model.target(normalize(images, *STATS)), colour_classes(images, 4))


def test_pixels_have_mean_0_and_deviation_1_in_every_patch_and_perfect_ones_explain_all_of_the_variance():
    images = normalize(pictures(), *STATS)
    model = MaskedPatches(tiny(), *STATS, task="pixels")
    target = model.target(images)
    assert target.shape == (3, 16, 48)
    assert target.mean(dim=-1).abs().max() < 1e-5
    assert target.std(dim=-1, unbiased=False).sub(1).abs().max() < 1e-3
    model.guess = lambda images: (model.target(images), torch.ones(3, 16, dtype=torch.bool))
    loss, hits = model(images)
    assert (loss.item(), hits.item()) == (0, 1)


def test_evaluation_repeats_and_training_does_not():
    model, images = MaskedPatches(tiny(), *STATS), normalize(pictures(), *STATS)
    model.train()
    assert model(images)[0] != model(images)[0]
    model.eval()
    assert model(images)[0] == model(images)[0]


def test_an_unknown_task_patches_that_do_not_fit_and_a_share_without_patches_are_refused():
    with pytest.raises(ValueError, match="not divisible"):
        colour_classes(pictures(1, 3, (16, 18)), 4)
    with pytest.raises(ValueError, match="colours"):
        MaskedPatches(tiny(), *STATS, task="sounds")
    with pytest.raises(ValueError, match="share 0.01 of 16 patches"):
        MaskedPatches(tiny(), *STATS, share=0.01)


def test_training_with_the_engine_lowers_the_loss_and_labels_do_not_matter():
    data = shapes10(train=256, test=64)
    config = TrainConfig(epochs=4, batch_size=32, lr=2e-3, device="cpu", quiet=True)
    ends = []
    for permutation in (torch.arange(256), torch.randperm(256)):
        data.train_labels[:] = data.train_labels[permutation]
        torch.manual_seed(0)
        model = MaskedPatches(tiny(img_size=32, patch_size=8), *data.channel_stats())
        history = train(model, data, config, objective=masked_objective)
        ends.append(history.train_loss)
        assert not model.training
    assert ends[0] == ends[1]
    assert ends[0][-1] < ends[0][0] - 0.3
    shown = data.test_images, data.test_labels, data.channel_stats()
    again = evaluate(model, *shown, objective=masked_objective)
    assert again == (history.test_accuracy, history.test_loss)


def test_compiled_model_has_no_graph_break_and_equals_the_model():
    model, images = MaskedPatches(tiny(), *STATS).train(), normalize(pictures(), *STATS)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.manual_seed(2)
    want = model(images)
    torch.manual_seed(2)
    got = compiled(images)
    assert torch.allclose(got[0], want[0], atol=1e-5)
    assert torch.allclose(got[1], want[1])


def test_distributed_data_parallel_gets_a_gradient_for_every_parameter(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model, images = MaskedPatches(tiny(), *STATS), normalize(pictures(), *STATS)
        plain = copy.deepcopy(model)
        wrapped = DistributedDataParallel(model)
        for _ in range(2):  # a parameter without gradient would stop the second step
            torch.manual_seed(2)
            loss, _ = masked_objective(wrapped, images, torch.zeros(3))
            loss.backward()
        torch.manual_seed(2)
        assert plain(images)[0].item() == pytest.approx(loss.item(), rel=1e-5)
    finally:
        dist.destroy_process_group()
