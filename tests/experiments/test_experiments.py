"""The recorded experiments, and what they measure: changed pictures, records, the command line."""

import json
from dataclasses import asdict, replace

import pytest
import torch
from torch import nn

from vit_course.data import normalize, shapes10
from vit_course.experiments import released as trained
from vit_course.experiments import run as experiments
from vit_course.experiments.first_studies import SIZES, Experiment, Pretraining, all_experiments
from vit_course.experiments.probes import (
    COST,
    PAPER_TABLE,
    accuracy_under_shift,
    gain_and_cost,
    probe,
    shift,
    shuffle_patches,
)
from vit_course.experiments.run import load_records, main, record_path, run_experiment
from vit_course.patches import patchify
from vit_course.recipes import RECIPES, build_model, forward_flops
from vit_course.train import TrainConfig, evaluate, train


@pytest.fixture(scope="module")
def dataset():
    return shapes10(train=100, test=60)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, "RUNS", tmp_path / "runs")
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def picture():
    return torch.arange(1, 13).reshape(1, 1, 3, 4)


def write(folder, name, **content):
    (folder / f"{name}.json").write_text(json.dumps(content))


# -- changed pictures


def test_shift_moves_to_the_right_and_lets_black_in():
    assert shift(picture(), 1).tolist() == [[[[0, 1, 2, 3], [0, 5, 6, 7], [0, 9, 10, 11]]]]


def test_shift_by_nothing_and_by_everything():
    original = picture()
    still = shift(original, 0)
    assert torch.equal(still, original) and still.data_ptr() != original.data_ptr()
    assert not shift(original, 4).any()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_shift_keeps_type_and_original(dtype):
    images = (200 * torch.rand(2, 3, 5, 7)).to(dtype)
    before = images.clone()
    assert shift(images, 3).dtype == dtype
    assert torch.equal(images, before)


def test_two_shifts_add_up():
    images = torch.rand(2, 3, 8, 12)
    assert torch.equal(shift(shift(images, 2), 3), shift(images, 5))


def test_shuffle_keeps_the_patches_and_changes_their_order():
    images = torch.rand(3, 3, 8, 12)
    before, after = patchify(images, 4), patchify(shuffle_patches(images, 4), 4)
    moved = 0
    for old, new in zip(before, after, strict=True):
        order = [int((old == patch).all(dim=1).nonzero()) for patch in new]
        assert sorted(order) == list(range(6))
        moved += order != sorted(order)
    assert moved


def test_shuffle_draws_another_order_for_each_picture_and_the_same_for_each_seed():
    images = torch.rand(1, 3, 16, 16).expand(2, -1, -1, -1)
    first, second = shuffle_patches(images, 4)
    assert not torch.equal(first, second)
    assert torch.equal(shuffle_patches(images, 4), torch.stack([first, second]))
    assert not torch.equal(shuffle_patches(images, 4, seed=1), shuffle_patches(images, 4))


def test_shuffle_with_one_patch_changes_nothing():
    images = torch.rand(2, 3, 8, 8)
    assert torch.equal(shuffle_patches(images, 8), images)


def test_shuffle_leaves_the_random_state_alone():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    shuffle_patches(torch.zeros(1, 3, 8, 8), 4)
    assert torch.equal(torch.rand(2), expected)


# -- measurements


class Brightest(nn.Module):
    """Names the class by the column of the picture whose pixels are the brightest: ten columns, ten classes."""

    def __init__(self):
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(1))

    def forward(self, images):
        return images.mean(dim=(1, 2))


def columns():
    labels = torch.arange(40) % 10
    images = torch.zeros(40, 3, 4, 10, dtype=torch.uint8)
    images[torch.arange(40), :, :, labels] = 200
    return images, labels, (torch.full((3,), 0.5), torch.full((3,), 0.5))


def test_accuracy_under_shift_scores_every_shift_from_the_untouched_pictures():
    found = accuracy_under_shift(Brightest(), *columns(), (2, 0, 1))
    assert list(found) == [2, 0, 1]
    assert found[0] == 1.0
    assert found[1] <= 0.1 and found[2] <= 0.1


def test_probe_measures_shifts_and_shuffled_patches(dataset):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
    found = probe(model, dataset)
    untouched, _ = evaluate(model, dataset.test_images, dataset.test_labels, dataset.channel_stats())
    assert list(found["shift"]) == ["0", "1", "2", "3", "4", "6", "8"]
    assert list(found["shuffle"]) == ["4", "8", "16", "32"]
    assert found["shift"]["0"] == found["shuffle"]["32"] == untouched
    json.dumps(found)


def test_a_model_that_sees_colours_alone_does_not_mind_shuffled_patches(dataset):
    torch.manual_seed(0)
    model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 10))
    assert len(set(probe(model, dataset)["shuffle"].values())) == 1


def test_the_papers_table_answers_the_lessons_question():
    gain, cost = gain_and_cost(PAPER_TABLE, "ViT-L/16, JFT", "BiT-L (ResNet152x4), JFT", "ImageNet")
    assert gain == pytest.approx(0.22) and cost == pytest.approx(680 / 9900)
    assert all(row[COST] > 0 for row in PAPER_TABLE.values())


# -- the list


@pytest.mark.parametrize("size", ["cpu", "gpu"])
def test_every_experiment_has_a_file_of_its_own(size):
    paths = [record_path(experiment) for experiment in all_experiments(size)]
    assert len(set(paths)) == len(paths)
    assert all(path.name.startswith(f"{size}-") for path in paths)


def test_the_two_sizes_share_no_file():
    both = [record_path(experiment) for size in ("cpu", "gpu") for experiment in all_experiments(size)]
    assert len(set(both)) == len(both)


@pytest.mark.parametrize("size", ["cpu", "gpu"])
def test_every_group_is_listed_and_the_comparison_has_three_seeds_and_probes(size):
    listed = all_experiments(size)
    groups = {"ladder", "comparison", "fractions", "hybrid", "positions", "pooling", "patches", "shape"}
    groups |= {"regularisers", "transfer", "resolution", "masked"} | (
        {"headline"} if size == "gpu" else set()
    )
    assert {e.group for e in listed} == groups
    compared = [e for e in listed if e.group == "comparison"]
    assert sorted((e.name, e.config.seed) for e in compared) == [
        (name, seed) for name in ("resnet", "vit") for seed in range(3)
    ]
    assert all(e.probes for e in compared)


@pytest.mark.parametrize("size", ["cpu", "gpu"])
def test_every_experiment_has_pictures_for_a_batch(size):
    for experiment in all_experiments(size):
        pictures = round((experiment.pictures or 50_000) * experiment.fraction)
        assert pictures >= experiment.config.batch_size, experiment.stem


@pytest.mark.parametrize("size", ["cpu", "gpu"])
def test_all_fractions_see_about_the_same_number_of_pictures(size):
    for model in ("vit", "resnet", "hybrid"):
        seen = []
        for e in all_experiments(size):
            if e.group in ("fractions", "hybrid") and e.name.startswith(model):
                pictures = round((e.pictures or 50_000) * e.fraction)
                seen.append(pictures // e.config.batch_size * e.config.batch_size * e.config.epochs)
        assert max(seen) <= 1.1 * min(seen)


# -- records


EXPERIMENTS = {experiment.stem: experiment for size in SIZES for experiment in all_experiments(size)}


@pytest.mark.parametrize("path", sorted(experiments.RUNS.glob("[cg]pu-*.json")), ids=lambda path: path.stem)
def test_a_record_is_of_the_run_that_the_code_describes_today(path):
    assert path.stem in EXPERIMENTS, f"{path} is of no experiment: delete it"
    experiment, record = EXPERIMENTS[path.stem], json.loads(path.read_text(encoding="utf-8"))
    described = {
        name: getattr(experiment, name) for name in ("model", "options", "fraction", "size", "group")
    }
    described |= {"config": asdict(experiment.config), "step": experiment.name}
    described = json.loads(json.dumps(described))
    assert {name: record[name] for name in described} == described, (
        f"{path} is stale: delete it and run it again"
    )
    about = record.get("pretraining") or {}
    start = experiment.start
    wanted = {"name": start.name, "task": start.task, "epochs": start.config.epochs} if start else {}
    assert {name: about[name] for name in wanted} == wanted and bool(about) == bool(start)


def test_records_of_the_gpu_come_before_those_of_the_cpu(runs):
    write(runs, "cpu-comparison-vit-seed0", size="cpu")
    assert [r["size"] for r in load_records("comparison")] == ["cpu"]
    write(runs, "gpu-comparison-vit-seed0", size="gpu")
    assert [r["size"] for r in load_records("comparison")] == ["gpu"]
    assert [r["size"] for r in load_records("comparison", "cpu")] == ["cpu"]


def test_records_of_other_groups_and_unfinished_files_are_left_out(runs):
    write(runs, "cpu-ladder-plain-seed0", step="plain")
    write(runs, "cpu-comparison-vit-seed1", step="vit")
    (runs / "cpu-comparison-vit-seed2.part").write_text("{")
    assert [r["step"] for r in load_records("comparison")] == ["vit"]
    assert load_records("fractions") == []


def test_no_folder_of_records_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, "RUNS", tmp_path / "nothing")
    assert load_records("comparison") == []


# -- running


def tiny(size="cpu"):
    config = replace(
        RECIPES["smoothing"], epochs=1, batch_size=32, warmup_epochs=0.5, device="cpu", quiet=True
    )
    linear = Experiment("comparison", "linear", size, "linear", config, 200, probes=True)
    return [linear, replace(linear, group="fractions", name="linear-50", fraction=0.5, probes=False)]


@pytest.fixture
def tiny_list(runs, monkeypatch):
    monkeypatch.setattr(experiments, "all_experiments", tiny)
    monkeypatch.setattr(experiments, "load_dataset", lambda name: shapes10(train=200, test=50))
    return runs


def test_command_line_runs_and_records_one_experiment(tiny_list, capsys):
    assert main(["comparison", "--size", "cpu", "--data", "shapes10"]) == 0
    assert [path.name for path in tiny_list.iterdir()] == ["cpu-comparison-linear-seed0.json"]
    (record,) = load_records("comparison")
    wanted = {"name", "step", "model", "parameters", "forward_flops", "training_flops", "data", "machine"}
    wanted |= {"threads", "versions", "config", "test_accuracy", "seconds", "wall_seconds", "fraction"}
    assert wanted | {"probes", "group", "size"} <= record.keys()
    assert record["step"] == "linear" and record["name"] == "comparison/linear"
    assert record["probes"]["shift"]["0"] == record["test_accuracy"]
    assert TrainConfig(**{**record["config"], "augment": None}).epochs == 1
    assert "Shapes-10" in record["data"]
    assert "cpu-comparison-linear-seed0" in capsys.readouterr().out


def test_what_is_recorded_is_not_run_again(tiny_list, monkeypatch):
    write(tiny_list, "cpu-comparison-linear-seed0", step="old")
    ran = []

    def fake(experiment, dataset):
        ran.append(experiment.name)
        return {"test_accuracy": 0.5, "seconds": 1.0}

    monkeypatch.setattr(experiments, "run_experiment", fake)
    assert main(["--size", "cpu"]) == 0
    assert ran == ["linear-50"]
    assert load_records("comparison") == [{"step": "old"}]
    assert not list(tiny_list.glob("*.part"))


def test_fraction_takes_that_share_of_the_pictures(dataset):
    record = run_experiment(tiny()[1], shapes10(train=200, test=50))
    assert record["fraction"] == 0.5
    assert record["training_flops"] == 3 * record["forward_flops"] * 96  # 3 batches of 32 out of 100 pictures


def test_time_that_is_up_starts_no_run(tiny_list, monkeypatch, capsys):
    clock = iter(range(0, 10_000, 1000))
    monkeypatch.setattr(experiments.time, "perf_counter", lambda: next(clock))
    assert main(["--size", "cpu", "--minutes", "1"]) == 0
    assert "call again" in capsys.readouterr().out
    assert list(tiny_list.iterdir()) == []


def test_list_tells_what_is_recorded_and_runs_nothing(tiny_list, capsys):
    write(tiny_list, "cpu-fractions-linear-50-seed0", step="old")
    assert main(["--list", "--size", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["to", "recorded"]


def test_unknown_group_is_refused(tiny_list, capsys):
    with pytest.raises(SystemExit):
        main(["nonsense", "--size", "cpu"])
    assert "no experiments in nonsense" in capsys.readouterr().err


# -- starts that are not random


def beyond(group, name, start, **more):
    config = replace(
        RECIPES["smoothing"], epochs=1, batch_size=20, warmup_epochs=0.5, device="cpu", quiet=True
    )
    pretraining = start and Pretraining(start[0], *start[1:], replace(config, epochs=1))
    options = {"embed_dim": 24, "depth": 2}
    return Experiment(group, name, "cpu", "Nano/8", config, 100, start=pretraining, options=options, **more)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, "KEPT", tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture(scope="module")
def pictures():
    return shapes10(train=300, test=60)


@pytest.mark.parametrize(
    ("data", "task", "counts"),
    [
        ("nine classes", "labels", "180 train"),
        ("shapes10", "labels", "200 train"),
        ("same", "colours", "100 train"),
        ("same", "pixels", "100 train"),
    ],
)
def test_each_kind_of_pretraining_hands_its_body_to_a_head_of_zeros(kept, pictures, data, task, counts):
    record = run_experiment(beyond("transfer", "any", ("one", data, task)), pictures)
    assert counts in record["pretraining"]["data"]
    assert record["pretraining"]["task"] == task
    assert record["start_accuracy"] == pytest.approx(
        0.1
    )  # equal scores name the first class: a tenth of the pictures
    json.dumps(record)


def test_weights_of_a_pretraining_are_made_once_and_shared(kept, pictures, monkeypatch):
    run_experiment(beyond("transfer", "first", ("one", "same", "labels")), pictures)
    (path,) = kept.iterdir()
    made = path.stat().st_mtime_ns
    monkeypatch.setattr(experiments, "pretrain", None)
    run_experiment(beyond("transfer", "second", ("one", "same", "labels"), fraction=0.5), pictures)
    assert path.stat().st_mtime_ns == made


def test_a_body_that_is_frozen_keeps_its_pretrained_weights(kept, pictures, monkeypatch):
    trained = []
    monkeypatch.setattr(experiments, "train", lambda *a, **k: trained.append(a[0]) or train(*a, **k))
    run_experiment(beyond("transfer", "probe", ("one", "same", "labels"), trainable=("head",)), pictures)
    weights, _ = experiments.read_weights(next(kept.iterdir()))
    state = trained[-1].state_dict()
    assert all(torch.equal(state[name], weights[name]) for name in weights if not name.startswith("head."))
    assert state["head.weight"].abs().sum() > 0


def test_a_larger_picture_starts_from_interpolated_or_from_new_positions(kept, pictures):
    start = ("one", "same", "labels")
    records = [
        run_experiment(beyond("resolution", name, start, keep_head=True, **more), pictures)
        for name, more in (
            ("same-size", {}),
            ("interpolated", {"img_size": 48}),
            ("random-positions", {"img_size": 48, "new_positions": True}),
        )
    ]
    assert ["resized to 48x48" in record["data"] for record in records] == [False, True, True]
    assert records[0]["start_accuracy"] == records[0]["pretraining"]["test_accuracy"]
    assert records[1]["forward_flops"] == records[2]["forward_flops"] > 2 * records[0]["forward_flops"]


def test_remainder_and_subset_share_no_picture_and_leave_none_out(pictures):
    part, rest = pictures.subset(100), pictures.remainder(100)
    both = torch.cat([part.train_images, rest.train_images]).flatten(1)
    assert len(rest.train_images) == 200
    assert len(both.unique(dim=0)) == len(pictures.train_images.flatten(1).unique(dim=0)) == 300


# -- trained models that come with the course


def test_a_kept_model_comes_back_with_its_record_and_in_half_precision(tmp_path, monkeypatch, pictures):
    monkeypatch.setattr(trained, "CHECKPOINTS", tmp_path)
    torch.manual_seed(0)
    model = build_model("Nano/8", pictures, depth=2)
    config = replace(beyond("any", "any", None).config, epochs=1)
    history = train(model, pictures, config)
    path = trained.keep_trained("mine", model, pictures, history, "Nano/8", {"depth": 2})
    assert trained.trained_names() == ["mine"]
    assert path.stat().st_size < 2.1 * sum(p.numel() for p in model.parameters()) + 10_000
    loaded, info = trained.load_trained("mine")
    images = normalize(pictures.test_images[:9], *pictures.channel_stats())
    assert torch.allclose(loaded(images), model(images), atol=1e-2)
    assert not loaded.training
    assert info["test_accuracy"] == history.test_accuracy and info["config"]["epochs"] == 1
    assert torch.allclose(torch.tensor(info["mean"]), pictures.channel_stats()[0])


def test_an_unknown_or_damaged_trained_model_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(trained, "CHECKPOINTS", tmp_path)
    with pytest.raises(FileNotFoundError, match="no trained model 'mine' is here; there are: none"):
        trained.load_trained("mine")
    (tmp_path / "mine.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="damaged"):
        trained.load_trained("mine")


def test_headline_resnet_costs_what_the_vit_costs(pictures):
    costs = {}
    for e in all_experiments("gpu"):
        if e.group == "headline" and e.config.seed == 0:
            model = build_model(e.model, pictures, **e.options)
            costs[e.name] = forward_flops(model, pictures) * e.config.epochs
    assert costs["resnet-flops"] == pytest.approx(costs["vit"], rel=0.02)


def test_description_of_records_names_what_they_share():
    machine = {"machine": "cpu", "threads": 1}
    records = [
        {**machine, "data": "pictures; subset of 100; seed 0"},
        {**machine, "data": "pictures; subset of 50"},
    ]
    assert experiments.describe_records(records) == "recorded on cpu, 1 thread(s); pictures"
    assert experiments.describe_records(records[:1]).endswith("pictures; subset of 100; seed 0")
