"""Training and evaluation on tiny generated data."""

import json
import math
from dataclasses import replace

import pytest
import torch
from test_speedups import small_vit
from torch import nn

from vit_course.data import Dataset, shapes10
from vit_course.extensions.positions import with_positions
from vit_course.extensions.train_command import main
from vit_course.optim import make_optimizers
from vit_course.recipes import MODELS, RECIPES, build_model
from vit_course.train import TrainConfig, evaluate, linear_classifier, train
from vit_course.training.device import get_device
from vit_course.training.run import Run
from vit_course.vit import VisionTransformer

QUICK = TrainConfig(epochs=3, batch_size=32, lr=2e-3, device="cpu", quiet=True)


@pytest.fixture(scope="module")
def dataset():
    return shapes10(train=320, test=100)


def two_colours():
    labels = torch.arange(64) % 2
    images = (labels[:, None, None, None] * 200).expand(64, 3, 8, 8).to(torch.uint8)
    return Dataset(images, labels, images[:10], labels[:10], ("dark", "bright"), "two colours")


def test_training_lowers_the_loss_records_every_step_and_leaves_the_model_in_evaluation_mode(dataset):
    model = small_vit()
    history = train(model, dataset, QUICK)
    assert history.train_loss[-1] < history.train_loss[0] < math.log(10) + 0.1
    assert len(history.step_loss) == len(history.step_lr) == 3 * 10
    assert history.provenance == dataset.provenance
    assert history.config["epochs"] == 3
    assert not model.training
    score = evaluate(model, dataset.test_images, dataset.test_labels, dataset.channel_stats())
    assert score == pytest.approx((history.test_accuracy, history.test_loss))


def test_what_a_line_can_separate_is_learned_completely_and_smoothing_asks_for_less():
    data = two_colours()
    sharp, smooth = (
        train(linear_classifier(data), data, replace(QUICK, label_smoothing=share)) for share in (0.0, 0.9)
    )
    assert sharp.test_accuracy == sharp.train_accuracy[-1] == 1.0
    assert sharp.train_loss[-1] < 0.6 < smooth.train_loss[-1]


def test_a_gradient_is_clipped_before_the_step():
    data, clip = two_colours(), {"grad_clip": 1e-3, "optimizer": "sgd", "weight_decay": 0.0, "lr": 0.1}
    model = linear_classifier(data)
    before = torch.cat([p.detach().flatten() for p in model.parameters()])
    train(model, data, replace(QUICK, epochs=1, warmup_epochs=1, batch_size=64, **clip))
    change = torch.cat([p.detach().flatten() for p in model.parameters()]) - before
    assert change.norm().item() == pytest.approx(1.9 * 0.1 * 1e-3, rel=1e-3)  # Nesterov's first step


def test_same_seed_gives_the_same_weights_and_another_seed_gives_others(dataset):
    def weights(seed):
        model = small_vit()
        train(model, dataset, TrainConfig(epochs=1, batch_size=32, device="cpu", quiet=True, seed=seed))
        return torch.cat([p.flatten() for p in model.parameters()])

    first = weights(0)
    assert torch.equal(first, weights(0))
    assert not torch.equal(first, weights(1))


def test_held_out_pictures_are_scored_after_every_epoch_and_never_trained_on(dataset):
    config = TrainConfig(epochs=2, batch_size=32, validation=100, device="cpu", quiet=True)
    run = Run(small_vit(), dataset, config)
    held_out, kept = ({p.numpy().tobytes() for p in part} for part in (run.held_out[0], run.images))
    assert not held_out & kept and len(held_out | kept) == len(dataset.train_images)
    history = train(small_vit(), dataset, config)
    assert len(history.val_accuracy) == 2
    assert len(history.step_loss) == 2 * (220 // 32)


def test_evaluation_counts_every_picture_once_whatever_the_batch(dataset):
    model, shown = small_vit(), (dataset.test_images, dataset.test_labels, dataset.channel_stats())
    nn.init.normal_(model.head.weight)
    scores = [evaluate(model, *shown, batch_size=count) for count in (1, 7, 500)]
    assert scores[1] == pytest.approx(scores[0])
    assert scores[2] == pytest.approx(scores[0])


def test_a_loss_that_is_no_number_ends_with_one_message(dataset):
    model = small_vit()
    model.head.bias.data.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="step 0: try a smaller learning rate"):
        train(model, dataset, QUICK)


def test_weights_that_the_last_step_spoiled_end_with_the_same_message(dataset, monkeypatch):
    monkeypatch.setattr(Run, "save", lambda run: run.model.head.bias.data.fill_(float("nan")))
    with pytest.raises(
        FloatingPointError, match="on the test images: try a smaller learning rate than 0.002"
    ):
        train(small_vit(), dataset, replace(QUICK, epochs=1))


@pytest.mark.parametrize("option", ["lr", "rest-lr", "weight-decay"])
@pytest.mark.parametrize("model", ["linear", "Nano/8"])
def test_a_rate_with_which_nothing_learns_is_refused_even_where_the_loss_would_stay_a_number(
    option, model, capsys
):
    assert main([f"--model={model}", "--data=shapes10", "--epochs=1", f"--{option}=1e30"]) == 1
    said = capsys.readouterr().err
    assert f"{option.replace('-', '_')} is 1e+30: it should be a number " in said and "at most 100" in said


def test_a_head_with_another_number_of_classes_is_refused_before_the_first_step(dataset):
    for model in (
        small_vit(num_classes=9),
        small_vit(num_classes=11),
        nn.Sequential(small_vit(), nn.Flatten(0)),
    ):
        with pytest.raises(
            ValueError, match=r"gives \((1, 9|1, 11|10,)\)? .* there are 10 classes: .* \(1, 10\)"
        ):
            train(model, dataset, QUICK)


FROZEN = {
    "muon": (("blocks",), "no matrix to train: the hidden ones are frozen; use 'adamw'"),
    "adamw": (("",), "every parameter of the model is frozen"),
    "sgd": (("",), "every parameter of the model is frozen"),
}


@pytest.mark.parametrize("optimizer", FROZEN)
@pytest.mark.parametrize("layer_decay", [1.0, 0.7])
def test_a_frozen_model_trains_what_is_left_or_is_refused_in_words(dataset, optimizer, layer_decay):
    prefixes, words = FROZEN[optimizer]
    config = replace(QUICK, epochs=1, optimizer=optimizer, layer_decay=layer_decay)
    model = small_vit()
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not name.startswith(prefixes)
    with pytest.raises(ValueError, match=words):
        train(model, dataset, config)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith("blocks.1.mlp.fc1.weight")
    before = {name: value.clone() for name, value in model.named_parameters()}
    train(model, dataset, config)
    changed = [name for name, value in model.named_parameters() if not torch.equal(value, before[name])]
    assert changed == ["blocks.1.mlp.fc1.weight"]


@pytest.mark.parametrize("name", ["Nano/8", "R-Nano/8"])
def test_images_that_were_not_normalised_are_refused_in_words(dataset, name):
    with pytest.raises(ValueError, match=r"images are torch.uint8, .*: normalize\(images, mean, std\)"):
        build_model(name, dataset)(dataset.test_images[:2])


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_recipe_trains_on_images_of_which_a_channel_never_changes(dataset, recipe, channels):
    def of(images):
        return torch.cat([images[:, :1] if channels == 3 else images[:, :0], images[:, 1:3] * 0 + 9], 1)[
            :, :channels
        ]

    part = dataset.subset(100, 40)
    still = replace(part, train_images=of(part.train_images), test_images=of(part.test_images))
    name, options = MODELS.get(recipe, ("Nano/8", {}))
    options = {**options, "depth": 1} if recipe in MODELS else options
    name = "resnet-small" if recipe == "resnet" else name
    config = replace(RECIPES[recipe], epochs=1, batch_size=50, warmup_epochs=0, device="cpu", quiet=True)
    config.compile = False
    history = train(build_model(name, still, **options), still, config)
    assert math.isfinite(history.train_loss[-1]) and math.isfinite(history.test_loss)


def test_too_few_pictures_for_a_batch_are_refused_by_numbers(dataset):
    for held_out, left in ((300, 20), (400, 0)):
        with pytest.raises(ValueError, match=f"{left} training pictures do not fill one batch of 32"):
            train(small_vit(), dataset, TrainConfig(validation=held_out, batch_size=32, quiet=True))


def test_training_says_what_it_does_and_on_which_data(dataset, monkeypatch, capsys):
    monkeypatch.setattr(Run, "time_a_pass", lambda *_: 0.1)
    train(small_vit(), dataset, TrainConfig(epochs=1, batch_size=32, device="cpu"))
    out = capsys.readouterr().out
    assert "320 pictures x 1 epochs on cpu, about 1 s" in out
    assert max(map(len, out.splitlines())) < 95
    assert f"on 100 pictures ({dataset.provenance})" in " ".join(out.split())


# -- layer-wise rates, frozen parts and other objectives


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_layer_decay_gives_each_parameter_the_rate_of_its_layer_and_keeps_who_decays(optimizer):
    model = small_vit()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    (made,) = make_optimizers(model, optimizer, lr=0.1, layer_decay=0.5, weight_decay=0.3)
    groups = {names[id(p)]: group for group in made.param_groups for p in group["params"]}
    rates, decays = (
        {name: group[key] for name, group in groups.items()} for key in ("peak_lr", "weight_decay")
    )
    assert rates.keys() == set(names.values())
    assert rates["head.weight"] == rates["norm.bias"] == 0.1
    assert rates["blocks.1.attn.qkv.weight"] == pytest.approx(0.05)
    assert rates["blocks.0.norm1.weight"] == pytest.approx(0.025)
    assert rates["cls_token"] == rates["patch_embed.proj.weight"] == pytest.approx(0.0125)
    assert decays["blocks.0.mlp.fc1.weight"] == decays["head.weight"] == 0.3
    assert decays["blocks.0.mlp.fc1.bias"] == decays["pos_embed"] == decays["blocks.0.norm1.weight"] == 0


def test_layer_decay_of_almost_nothing_leaves_the_lower_layers_where_they_were(dataset):
    model = small_vit()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    train(model, dataset, TrainConfig(epochs=1, batch_size=32, layer_decay=1e-9, device="cpu", quiet=True))
    after = model.state_dict()
    assert torch.allclose(after["blocks.0.attn.qkv.weight"], before["blocks.0.attn.qkv.weight"], atol=1e-6)
    assert not torch.allclose(after["head.weight"], before["head.weight"], atol=1e-3)


def test_muon_follows_layer_decay_and_leaves_out_no_parameter():
    model = with_positions(VisionTransformer(patch_size=8, embed_dim=32, depth=2, num_heads=2), "relative")
    made = make_optimizers(model, "muon", lr=0.1, layer_decay=0.5)
    muon = [p for group in made[0].param_groups for p in group["params"]]
    others = [p for group in made[1].param_groups for p in group["params"]]
    assert {id(p) for p in muon} | {id(p) for p in others} == {id(p) for p in model.parameters()}
    assert len(muon) + len(others) == len(list(model.parameters()))
    assert sorted({group["peak_lr"] for group in made[0].param_groups}) == pytest.approx([0.025, 0.05])


def test_another_objective_is_minimised_and_scored(dataset):
    class Mean(nn.Module):
        """Guesses the mean of the pixels."""

        def __init__(self):
            super().__init__()
            self.guess = nn.Parameter(torch.tensor(3.0))

    def distance(forward, images, targets):
        return (forward.guess - images.mean()).square(), torch.tensor(0.25)

    model = Mean()
    config = TrainConfig(epochs=3, batch_size=32, lr=0.3, device="cpu", quiet=True, validation=32)
    history = train(model, dataset, config, objective=distance)
    assert history.train_loss[-1] < 0.1 * history.step_loss[0]
    assert history.test_loss < 0.5 and history.test_accuracy == 0.25
    assert history.val_accuracy == [0.25] * 3


FLAGS = ["--pool=avg", "--pos-embed=2d --pos-embed-at=every", "--pos-embed=relative", "--model=R-Nano/4"]


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("flags", FLAGS)
def test_hybrid_gap_and_every_position_train_with_one_flag_each(flags, tmp_path):
    common = (
        "--model=Nano/8 --recipe=smoothing --data=shapes10 --train=100 --test=50 --epochs=1 --batch-size=50"
    )
    assert main([*common.split(), f"--out={tmp_path}", *flags.split()]) == 0
    record = json.loads((tmp_path / "record.json").read_text())
    assert 0 <= record["test_accuracy"] <= 1 and record["train_loss"][0] < 2.6


def test_a_part_of_an_epoch_counts_as_the_last_one_and_the_rate_ends_at_zero():
    config = replace(QUICK, epochs=2.5, batch_size=20, lr=1e-3, warmup_epochs=0.5, schedule="linear")
    history = train(small_vit(), shapes10(train=80, test=20), config)
    assert len(history.step_loss) == 10 and len(history.train_loss) == 3
    assert history.train_loss[-1] == pytest.approx(sum(history.step_loss[-2:]) / 2)
    assert history.step_lr[:2] == pytest.approx([0.5e-3, 1e-3]) and history.step_lr[-1] == 0
    falls = [before - after for before, after in zip(history.step_lr[1:], history.step_lr[2:], strict=False)]
    assert falls == pytest.approx([1e-3 / 8] * 8)


def test_scoring_costs_a_run_neither_seconds_nor_processor_seconds(monkeypatch):
    clock = [0.0]

    def score(*args, **options):
        clock[0] += 100
        return 0.5, 1.0

    def set_rates(run):
        clock[0] += 1
        run.history.step_lr.append(0.0)

    for name in ("perf_counter", "process_time"):
        monkeypatch.setattr(f"vit_course.training.run.time.{name}", lambda: clock[0])
    monkeypatch.setattr("vit_course.train.evaluate", score)
    monkeypatch.setattr(Run, "set_rates", set_rates)
    config = TrainConfig(epochs=3, batch_size=20, validation=20, device="cpu", quiet=True)
    history = train(small_vit(), shapes10(train=80, test=20), config)
    assert history.val_accuracy == [0.5] * 3 and clock[0] == 9 + 4 * 100
    assert history.seconds == history.cpu_seconds == 9


def test_an_apple_gpu_computes_only_when_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("VIT_COURSE_DEVICE", raising=False)
    assert get_device().type == "cpu" and get_device("mps").type == "mps"
    monkeypatch.setenv("VIT_COURSE_DEVICE", "mps")
    assert get_device().type == "mps" and get_device("cpu").type == "cpu"
