"""The recorded experiments, and what they measure: changed pictures, records, the command line."""

import json
import re
import subprocess
from dataclasses import asdict, replace
from unittest.mock import Mock

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from authoring.site.speedrun import CORE, LIMITS
from experiments import run as experiments
from experiments import trials
from experiments.first_values import build_started
from experiments.plans import plan
from experiments.run import main, run_experiment
from vit_classroom.evidence import gains, released
from vit_classroom.evidence import records as kept_records
from vit_classroom.evidence.experiment import (
    ALL_PICTURES,
    SIZES,
    Experiment,
    Pretraining,
    core_minutes,
    pictures_shown,
    seconds_a_picture,
    used_pictures,
)
from vit_classroom.evidence.probes import accuracy_at_resolutions, probe, shift, shuffle_patches
from vit_classroom.evidence.records import differences, load_records, read_record, record_path
from vit_classroom.exhibits import broken_runs, hidden_photos
from vit_course import __version__
from vit_course.augment import AugmentConfig
from vit_course.data import normalize, shapes10
from vit_course.extensions import trained
from vit_course.extensions.speedups import fewer_tokens
from vit_course.patches import patchify
from vit_course.recipes import RECIPES, build_model, forward_flops, training_flops
from vit_course.train import TrainConfig, evaluate, train
from vit_course.training.signals import Stopped
from vit_course.training.version import code_version


@pytest.fixture(scope="module")
def pictures():
    return shapes10(train=300, test=60)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_records, "RUNS", tmp_path / "runs")
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture(autouse=True)
def queue(tmp_path, monkeypatch):
    monkeypatch.setattr(released, "QUEUE", tmp_path / "queue")
    monkeypatch.setattr(experiments, "KEPT", tmp_path / "kept")
    monkeypatch.setattr("vit_course.recipes.describe_processor", dict)
    return tmp_path / "queue"


def write(folder, name, **content):
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


# -- changed pictures


def test_shift_moves_to_the_right_and_lets_black_in():
    original = torch.arange(1, 13).reshape(1, 1, 3, 4)
    assert shift(original, 1).tolist() == [[[[0, 1, 2, 3], [0, 5, 6, 7], [0, 9, 10, 11]]]]
    still = shift(original, 0)
    assert torch.equal(still, original) and still.data_ptr() != original.data_ptr()
    assert not shift(original, 4).any()
    with pytest.raises(ValueError, match="shift by -1 pixels: images move to the right"):
        shift(original, -1)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_shift_keeps_type_and_original(dtype):
    images = (200 * torch.rand(2, 3, 5, 7)).to(dtype)
    before = images.clone()
    assert shift(images, 3).dtype == dtype and torch.equal(images, before)


def test_shuffle_keeps_the_patches_and_changes_their_order():
    images = torch.rand(3, 3, 8, 12)
    before, after = patchify(images, 4), patchify(shuffle_patches(images, 4), 4)
    moved = 0
    for old, new in zip(before, after, strict=True):
        order = [int((old == patch).all(dim=1).nonzero()) for patch in new]
        assert sorted(order) == list(range(6))
        moved += order != sorted(order)
    assert moved


def test_shuffle_draws_another_order_for_each_picture_and_seed_and_leaves_the_random_state_alone():
    images, state = torch.rand(1, 3, 16, 16).expand(2, -1, -1, -1), torch.get_rng_state()
    first, second = shuffle_patches(images, 4)
    assert not torch.equal(first, second)
    assert torch.equal(shuffle_patches(images, 4), torch.stack([first, second]))
    assert not torch.equal(shuffle_patches(images, 4, seed=1), shuffle_patches(images, 4))
    assert torch.equal(torch.get_rng_state(), state)


# -- measurements


def score(model, pictures):
    """The accuracy and the loss on the test pictures."""
    return evaluate(model, pictures.test_images, pictures.test_labels, pictures.channel_stats())


def test_probe_measures_shifts_and_shuffled_patches(pictures):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
    found = probe(model, pictures)
    untouched, _ = score(model, pictures)
    assert list(found["shift"]) == ["0", "1", "2", "3", "4", "6", "8"]
    assert list(found["shuffle"]) == ["4", "8", "16", "32"]
    assert found["shift"]["0"] == found["shuffle"]["32"] == untouched
    json.dumps(found)


def test_a_model_is_scored_at_other_sizes_as_it_is(pictures):
    model = build_model("Nano/8", pictures, pos_embed="none", modern={"rope": True})
    scores = accuracy_at_resolutions(model, pictures, (24, 32))
    assert scores["32"] == score(model, pictures)[0]
    assert scores["32 stretched"] == scores["32"] and model.patch_embed.grid_size == (4, 4)
    assert set(scores) == {"24", "24 stretched", "32", "32 stretched"}


def test_a_model_that_sees_colours_alone_does_not_mind_shuffled_patches(pictures):
    torch.manual_seed(0)
    model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 10))
    assert len(set(probe(model, pictures)["shuffle"].values())) == 1


def test_the_linear_classifier_of_a_table_is_the_one_that_learned_from_as_many_pictures():
    def record(group="ladder", model="Nano/8", count="", accuracy=0.0):
        part = f"; subset of {count} train / 10,000 test pictures" if count else ""
        data = f"CIFAR-10, 50,000 train / 10,000 test pictures{part}"
        return {"model": model, "group": group, "data": data, "test_accuracy": accuracy}

    among = [
        record("comparison", "linear", accuracy=0.40),
        record("comparison", "linear", accuracy=0.41),
        record("fractions", "linear", accuracy=0.39),
        record("fractions", "linear", "5,000", 0.30),
        record("fractions", "Nano/8", "5,000", 0.50),
    ]
    few, everything = record(count="5,000"), record()
    classifier = kept_records.linear_classifier
    assert classifier([few, few], among) == [30.0]
    assert classifier([everything], among) == [40.0, 41.0]
    assert classifier([few, everything], among) == classifier([], among) == []


# -- the list


def test_every_experiment_has_a_file_of_its_own():
    both = [(size, record_path(experiment)) for size in SIZES for experiment in plan(size)]
    assert len({path for _, path in both}) == len(both)
    assert all(path.parent.parent.name == size for size, path in both)


@pytest.mark.parametrize("size", SIZES)
def test_every_group_is_listed_and_the_comparison_has_three_seeds_and_probes(size):
    listed = plan(size)
    groups = {"few", "engine", "comparison-first", "fractions-first", "hybrid"}
    groups |= {"positions", "pooling", "marks", "patches", "regularisers", "masked"}
    groups |= {"shapes", "qk-norm", "attention-pool", "rope"}
    cpu = {"trials", "trials-resnet", "trials-quick", "trials-long", "fractions", "ladder"}
    cpu |= {"search-vit", "search-resnet", "search-hybrid", "mark-tries"}
    groups |= cpu if size == "cpu" else {"search", "headline"}
    later = {"comparison-2", "comparison-8", "comparison-24", "fractions-8", "no-positions", "muon-size"}
    later |= {"transfer-8", "resolution-8"}
    assert {e.group for e in listed} - later == groups  # those follow from what the search has found
    assert {"cpu": (0, 26), "gpu": (0, 121)}[size] in {e.snapshots for e in listed if e.group == "marks"}
    compared = [e for e in listed if e.group == "comparison-first"]
    compared += [e for e in listed if (e.group, e.name) == ("comparison-8", "linear")]
    names = ("linear", "resnet", "vit") if size == "cpu" else ("resnet", "vit")
    assert sorted((e.name, e.config.seed) for e in compared) == [
        (name, seed) for name in names for seed in range(3)
    ]
    assert all(e.probes for e in compared)


@pytest.mark.parametrize("size", SIZES)
def test_every_experiment_has_pictures_for_a_batch_and_a_model_that_can_be_built(size, pictures):
    for experiment in plan(size):
        own = used_pictures(experiment) - experiment.config.validation
        assert own >= experiment.config.batch_size, experiment.stem
    for options, model in {(json.dumps(e.options), e.model) for e in plan(size)}:
        build_started(model, pictures, **json.loads(options))
    for name in ("linear", "R-Nano/8"):
        with pytest.raises(ValueError, match=f"{name} has no modern"):
            build_model(name, pictures, modern={"rope": True})
    with pytest.raises(ValueError, match="R-Nano/8 has no first_values"):
        build_started("R-Nano/8", pictures, first_values=["silent"])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("model", ["vit", "linear", "hybrid"])
def test_all_fractions_of_a_model_see_about_the_same_number_of_pictures(size, model):
    seen = [
        pictures_shown(e.config, used_pictures(e))
        for e in plan(size)
        if e.group in ("fractions-first", "hybrid") and e.name.rpartition("-")[0] == model
    ]
    assert len(seen) >= 9 and max(seen) <= 1.1 * min(seen)


@pytest.mark.parametrize("size", SIZES)
def test_what_starts_from_pretraining_sees_as_many_pictures_in_all_as_its_control(size):
    def shown(label, first=0):
        (one,) = (e for e in plan(size) if e.label == label and e.config.seed == 0)
        return pictures_shown(one.config, used_pictures(one)) + (
            pictures_shown(one.start.config, first) if one.start else 0
        )

    for percent in (1, 10):
        masked, nothing = shown(f"masked/colours-{percent}", ALL_PICTURES), shown(f"masked/nothing-{percent}")
        assert masked == pytest.approx(nothing, rel=0.02)


@pytest.mark.parametrize(
    ("model", "options", "a_second"),
    [
        ("Nano/8", {}, 1500),
        ("Nano/4", {}, 350),
        ("Nano/4", {"embed_dim": 128, "depth": 6, "num_heads": 4}, 190),
        ("resnet-small", {}, 600),
        ("R-Nano/8", {"width": 8}, 575),
        ("linear", {}, 10_000),
    ],
)
def test_the_estimate_of_a_cores_speed_is_near_what_was_measured(model, options, a_second):
    one = replace(tiny()[0], model=model, options=options)
    assert 1 / seconds_a_picture(one, 32) == pytest.approx(a_second, rel=0.12)


def test_a_pretraining_costs_its_minutes_once():
    start = ("one", "same", "labels")
    pair = [replace(beyond("transfer", name, start), options={}) for name in "ab"]
    first, second, alone = core_minutes([*pair, tiny()[0]])
    assert first == pytest.approx(2 * second)
    assert alone == pytest.approx(192 / 10_000 / 60)
    assert core_minutes([tiny("gpu")[0]]) == [pytest.approx(float("nan"), nan_ok=True)]


# -- records

PLANNED = {experiment.stem: experiment for size in SIZES for experiment in plan(size)}
OTHERS = {
    kept_records.RUNS / name
    for name in ("broken.json", "hidden-photos.json", "mini-vit/recorded.json", "step_times.json")
}
RECORDS = sorted(set(kept_records.RUNS.rglob("*.json")) - OTHERS)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_is_of_the_run_that_is_planned_today(path):
    stem = path.relative_to(kept_records.RUNS).with_suffix("").as_posix()
    assert stem in PLANNED, f"{path} is of no experiment: delete it"
    record = read_record(path)
    assert differences(record, PLANNED[stem]) == [], f"{path} is stale: delete it and run it again"
    assert record["code"]


def recorded(**changes):
    """A record of the tiny experiment, as far as it is compared, with another recipe."""
    experiment = tiny()[0]
    record = {"model": "linear", "options": {}, "fraction": 1.0, "size": "cpu", "group": "comparison"}
    config = kept_records.as_json(kept_records.asdict(experiment.config))
    return record | {"step": "linear", "config": config | changes}, experiment


def test_a_record_of_another_run_names_what_differs_and_one_that_lacks_a_default_does_not_differ():
    record, experiment = recorded()
    assert differences(record, experiment) == []
    assert differences(record | {"step": "other", "fraction": 0.5}, experiment) == ["fraction", "step"]
    assert differences(recorded(lr=7.0)[0], experiment) == ["lr"]
    deeper = {"augment": record["config"]["augment"] | {"flip": 0.1}}
    assert differences(recorded(**deeper)[0], experiment) == ["flip"]
    assert differences(record | {"pretraining": {"name": "one"}}, experiment) == ["pretraining"]
    started = replace(experiment, start=Pretraining("one", "same", "labels", experiment.config))
    assert differences(record, started) == ["pretraining"]
    about = {"pretraining": {"name": "one", "task": "pixels", "epochs": 1}}
    assert differences(record | about, started) == ["pretraining task"]
    del record["config"]["ema"], record["config"]["augment"]["mixup"]
    assert differences(record, experiment) == []  # a field that is not there had its default
    assert differences(record, replace(experiment, config=replace(experiment.config, ema=0.9))) == ["ema"]
    assert differences(*recorded(newer=None)) == ["newer"]


def test_records_of_the_gpu_come_before_those_of_the_cpu_and_stand_beside_their_like(runs):
    write(runs, "cpu/comparison/vit-seed0", size="cpu")
    assert [r["size"] for r in load_records("comparison")] == ["cpu"]
    write(runs, "gpu/comparison/vit-seed0", size="gpu")
    assert [r["size"] for r in load_records("comparison")] == ["gpu"]
    assert [r["size"] for r in load_records("comparison", "cpu")] == ["cpu"]
    for size in SIZES:  # and beside runs of one size stand those of the same
        write(runs, f"{size}/fractions/vit-1-seed0", size=size)
        assert [r["size"] for r in kept_records.load_beside([{"size": size}], "fractions")] == [size]
    assert kept_records.load_beside([], "fractions") == []
    assert kept_records.load_beside([{"size": "cpu"}], "ladder") == []


def test_records_of_other_groups_and_unfinished_files_are_left_out(runs):
    write(runs, "cpu/ladder/plain-seed0", step="plain")
    write(runs, "cpu/comparison/vit-seed1", step="vit")
    (runs / "cpu/comparison/vit-seed2.json.7.part").write_text("{")
    assert [r["step"] for r in load_records("comparison")] == ["vit"]
    assert load_records("fractions") == load_records("ladder", runs=runs / "nothing") == []


@pytest.mark.parametrize("content", ["{", "", "[1]"])
def test_a_damaged_record_is_named(runs, content):
    write(runs, "cpu/comparison/vit-seed0")
    (runs / "cpu/comparison/vit-seed1.json").write_text(content)
    with pytest.raises(ValueError, match=r"vit-seed1\.json .*: delete it"):
        load_records("comparison")


def test_a_record_that_cannot_be_written_leaves_the_older_one(runs):
    path = runs / "cpu" / "group" / "one.json"
    kept_records.write_record(path, {"step": "old"})
    with pytest.raises(TypeError):
        kept_records.write_record(path, {"step": object()})
    assert read_record(path) == {"step": "old"}
    assert [p.name for p in path.parent.iterdir()] == ["one.json"]


def git(folder, *commands):
    """Run some commands of git, and return what the last one says."""
    name = ["-c", "user.name=one", "-c", "user.email=one@example.org"]
    for command in commands:
        line = ["git", "-C", folder, *name, *command.split()]
        run = subprocess.run(line, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_a_record_names_the_commit_and_whether_files_have_changed_since(tmp_path):
    package = tmp_path / "vit_course"
    package.mkdir()
    (package / "one.py").write_text("x = 1\n")
    commit = git(tmp_path, "init -q", "add .", "commit -q -m one", "rev-parse HEAD")[:10]
    (tmp_path / "elsewhere").write_text("this changes no number")
    assert code_version(tmp_path) == commit
    (package / "one.py").write_text("x = 2\n")
    assert code_version(tmp_path) == commit + "+"
    (package / "one.py").write_text("x = 1\n")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "two.py").write_text("y = 1\n")
    assert code_version(tmp_path) == commit + "+"  # every folder that trains counts


def test_outside_git_and_inside_another_repository_a_record_names_the_version(tmp_path, monkeypatch):
    version = f"version {__version__}"
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert code_version(tmp_path) == version
    git(tmp_path, "init -q")
    assert code_version(tmp_path) == version  # nothing is committed
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "file").write_text("one")
    git(tmp_path, "add .", "commit -q -m one")
    assert re.fullmatch("[0-9a-f]{10}", code_version(tmp_path))
    assert code_version(tmp_path / "course") == version
    monkeypatch.setenv("PATH", "")
    assert code_version(tmp_path) == version


# -- running


ONE_EPOCH = replace(RECIPES["smoothing"], epochs=1, warmup_epochs=0.5, device="cpu", quiet=True)


def tiny(size="cpu"):
    config = replace(ONE_EPOCH, batch_size=32)
    linear = Experiment("comparison", "linear", size, "linear", config, 200, probes=True)
    return [linear, replace(linear, group="fractions", name="linear-50", fraction=0.5, probes=False)]


@pytest.fixture
def tiny_list(runs, monkeypatch):
    monkeypatch.setattr(experiments, "plan", tiny)
    monkeypatch.setattr(experiments, "load_dataset", lambda name: shapes10(train=200, test=50))
    return runs


def test_the_broken_runs_are_recorded_by_the_same_command_and_not_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(broken_runs, "FILE", tmp_path / "broken.json")
    monkeypatch.setattr(broken_runs, "run", lambda special: {"train": [1.0], "validation": [special]})
    for _ in range(2):
        assert main(["broken-runs"]) == 0
        monkeypatch.setattr(broken_runs, "run", None)
    assert [one["validation"] for one in broken_runs.load()["runs"].values()] == [
        [special] for special in broken_runs.PLOTS.values()
    ]


def test_hidden_photos_are_measured_once_and_on_cifar10_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(hidden_photos, "FILE", tmp_path / "hidden-photos.json")
    assert main(["hidden-photos", "--data", "shapes10"]) == 1
    assert "needs CIFAR-10" in capsys.readouterr().err
    shapes = shapes10(train=10, test=20)
    photos = replace(shapes, classes=tuple(trained.load_trained("cifar-vit").info["classes"]))
    monkeypatch.setattr(experiments, "load_dataset", lambda name: photos)
    monkeypatch.setattr(hidden_photos, "IMAGES", 20)
    monkeypatch.setattr(hidden_photos, "COUNTS", (64,))
    for _ in range(2):
        assert main(["hidden-photos"]) == 0
        monkeypatch.setattr(hidden_photos, "measure", None)
    found = hidden_photos.load()["accuracy"]
    assert len(found["random"]["64"]) == 3
    assert (
        len({line[count][0] for line in found.values() for count in ("64",)}) == 1
    )  # all is hidden, in any order


def test_command_line_runs_and_records_one_experiment(tiny_list, capsys):
    assert main(["comparison", "--size", "cpu", "--data", "shapes10"]) == 0
    files = [path.relative_to(tiny_list).as_posix() for path in tiny_list.rglob("*.json")]
    assert files == ["cpu/comparison/linear-seed0.json"]
    (record,) = load_records("comparison")
    wanted = {"name", "step", "model", "parameters", "forward_flops", "training_flops", "data", "machine"}
    wanted |= {"threads", "versions", "config", "test_accuracy", "seconds", "fraction"}
    assert wanted | {"probes", "group", "size", "code", "engine", "stored_accuracy"} <= record.keys()
    assert differences(record, tiny()[0]) == []
    assert record["step"] == "linear" and record["name"] == "comparison/linear"
    assert record["probes"]["shift"]["0"] == record["test_accuracy"]
    augment = AugmentConfig(**record["config"]["augment"])
    assert TrainConfig(**{**record["config"], "augment": augment}).epochs == 1
    assert "Shapes-10" in record["data"]
    assert record["code"] == code_version()
    assert "cpu/comparison/linear-seed0" in capsys.readouterr().out


def test_the_training_pictures_that_are_scored_as_stored_are_of_all_classes(tiny_list, monkeypatch):
    data, scored = shapes10(train=200, test=20), []
    order = data.train_labels.argsort()
    by_class = replace(data, train_images=data.train_images[order], train_labels=data.train_labels[order])
    monkeypatch.setattr(experiments, "SCORED", 50)
    monkeypatch.setattr(experiments, "evaluate", lambda *given: scored.append(given[2]) or (0.5, 0.0))
    run_experiment(replace(tiny()[0], probes=False), by_class)
    assert len(scored[0]) == 50 and len(scored[0].unique()) == 10


@pytest.fixture
def ran(monkeypatch):
    def fake(experiment, dataset):
        names.append(experiment.name)
        about = {"group": experiment.group, "step": experiment.name, "name": experiment.label}
        return about | {"test_accuracy": 0.5, "cpu_seconds": 1e-6}

    names = []
    monkeypatch.setattr(experiments, "run_experiment", fake)
    return names


def test_what_is_recorded_is_not_run_again_unless_it_is_asked_for(tiny_list, ran, capsys):
    write(tiny_list, "cpu/comparison/linear-seed0", step="old")
    assert main(["--size", "cpu"]) == 0
    assert ran == ["linear-50"]
    assert load_records("comparison") == [{"step": "old"}]
    assert not list(tiny_list.rglob("*.part"))
    assert "1 recorded already: --again runs them again" in capsys.readouterr().out
    assert main(["--size", "cpu", "--again"]) == 0
    assert ran == ["linear-50", "linear", "linear-50"], "no run ends the command, however short it was"
    assert load_records("comparison")[0]["test_accuracy"] == 0.5


def test_a_run_of_two_studies_is_trained_once(tiny_list, ran, monkeypatch):
    linear = tiny()[0]
    twin = replace(linear, group="ladder", name="last", probes=False)
    longer = replace(twin, name="longer", config=replace(linear.config, epochs=2))
    monkeypatch.setattr(experiments, "plan", lambda size: [linear, twin, longer])
    assert main(["--size", "cpu"]) == 0
    assert ran == ["linear", "longer"]
    same, _ = load_records("ladder")
    named = {"group": "ladder", "step": "last", "name": "ladder/last", "same_run_as": linear.stem}
    assert same == {"test_accuracy": 0.5, "cpu_seconds": 1e-6} | named


def test_a_run_that_studies_share_is_trained_once(runs):
    first = "cpu/ladder/minutes-seed1"
    write(runs, first, test_accuracy=0.5)
    (one,) = (e for e in plan("cpu") if e.label == "fractions/vit-100" and e.config.seed == 1)
    assert experiments.recorded_elsewhere(one)["same_run_as"] == first


def test_fraction_takes_that_share_of_the_pictures():
    record = run_experiment(tiny()[1], shapes10(train=200, test=50))
    assert record["fraction"] == 0.5
    assert record["training_flops"] == 3 * record["forward_flops"] * 96  # 3 batches of 32 out of 100 pictures


def test_tokens_that_a_run_leaves_out_are_no_operations_of_its_training(pictures):
    model = build_model("Nano/8", pictures, class_token=False, global_pool="avg")
    maths = sdpa_kernel(SDPBackend.MATH)  # the fused kernel counts otherwise in some versions of torch
    with fewer_tokens(model.train(), 0.5), maths, FlopCounterMode(display=False) as counter:
        model(torch.zeros(2, *pictures.train_images.shape[1:]))
    cost = training_flops(model, pictures, {"batch_size": 2, "keep_tokens": 0.5, "keep_until": 0.7}, steps=10)
    assert cost == 3 * (7 * counter.get_total_flops() + 3 * 2 * forward_flops(model, pictures))


def test_counting_operations_in_training_leaves_the_means_of_batch_norms(pictures):
    model = build_model("resnet-small", pictures)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    config = asdict(TrainConfig(keep_tokens=0.5, keep_by="size", keep_until=1.0, batch_size=10))
    fewer = training_flops(model, pictures, config, 7)
    assert fewer == pytest.approx(0.5625 * 3 * 10 * 7 * forward_flops(model, pictures), rel=0.01)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_time_that_is_up_starts_no_run(tiny_list, monkeypatch, capsys):
    monkeypatch.setattr(experiments.time, "perf_counter", Mock(side_effect=range(0, 10_000, 1000)))
    assert main(["--size", "cpu", "--minutes", "1"]) == 0
    assert "call again" in capsys.readouterr().out
    assert list(tiny_list.iterdir()) == []


def test_list_tells_what_is_recorded_and_runs_nothing(tiny_list, capsys):
    write(tiny_list, "cpu/fractions/linear-50-seed0", step="old")
    assert main(["--list", "--size", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["to", "recorded"]


# -- starts that are not random


def beyond(group, name, start, epochs=1, seed=0, **more):
    config = replace(ONE_EPOCH, batch_size=20, epochs=epochs, seed=seed)
    pretraining = start and Pretraining(*start, config)
    options = {"embed_dim": 24, "depth": 2}
    return Experiment(group, name, "cpu", "Nano/8", config, 100, start=pretraining, options=options, **more)


@pytest.mark.parametrize(
    ("data", "task", "counts"),
    [
        ("nine classes", "labels", "180 train"),
        ("same", "colours", "100 train"),
        ("same", "pixels", "100 train"),
    ],
)
def test_each_kind_of_pretraining_hands_its_body_to_a_head_of_zeros(pictures, data, task, counts):
    record = run_experiment(beyond("transfer", "any", ("one", data, task)), pictures)
    assert counts in record["pretraining"]["data"]
    assert record["pretraining"]["task"] == task
    assert record["start_accuracy"] == pytest.approx(0.1)  # equal scores name the first of ten classes
    json.dumps(record)


def test_weights_of_a_pretraining_are_made_once_and_shared_and_those_of_another_of_its_name_are_refused(
    pictures, monkeypatch
):
    one = beyond("transfer", "first", ("one", "same", "labels"))
    run_experiment(one, pictures)
    (path,) = (experiments.KEPT / "cpu").iterdir()
    made = path.stat().st_mtime_ns
    monkeypatch.setattr(experiments, "pretrain", None)
    run_experiment(replace(one, name="second", fraction=0.5), pictures)
    assert path.stat().st_mtime_ns == made
    longer = replace(one, start=replace(one.start, config=replace(one.start.config, epochs=2)), name="other")
    with pytest.raises(ValueError, match=r"one-seed0.safetensors is of another pre-training: epochs differs"):
        run_experiment(longer, pictures)
    with pytest.raises(ValueError, match="of another pre-training: data differs"):
        run_experiment(replace(one, name="other"), replace(pictures, provenance="CIFAR-10"))


def test_a_body_that_is_frozen_keeps_its_pretrained_weights(pictures, monkeypatch):
    trained = []
    monkeypatch.setattr(experiments, "train", lambda *a, **k: trained.append(a[0]) or train(*a, **k))
    run_experiment(beyond("transfer", "probe", ("one", "same", "labels"), trainable=("head",)), pictures)
    weights, _ = experiments.read_weights(next((experiments.KEPT / "cpu").iterdir()))
    state = trained[-1].state_dict()
    assert all(torch.equal(state[name], weights[name]) for name in weights if not name.startswith("head."))
    assert state["head.weight"].abs().sum() > 0


def test_a_larger_picture_starts_from_interpolated_or_from_new_positions(pictures):
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


def test_nine_classes_come_from_pictures_that_the_experiment_does_not_use(pictures):
    for seed in (0, 1):
        one = beyond("transfer", "any", ("one", "nine classes", "labels"), seed=seed)
        own, _ = one.pictures_of(pictures)
        others = experiments.pretraining_data(one, pictures, own).train_images.flatten(1).tolist()
        mine = own.train_images.flatten(1).tolist()
        assert len(others) == 180 and not {tuple(row) for row in others} & {tuple(row) for row in mine}


def test_every_seed_draws_other_pictures(pictures):
    one = beyond("transfer", "any", None, fraction=0.5)
    drawn = [replace(one, config=replace(one.config, seed=seed)).pictures_of(pictures) for seed in (0, 1)]
    for first, second in zip(*drawn, strict=True):
        assert len(first.train_images) == len(second.train_images)
        assert not torch.equal(first.train_images, second.train_images)
    assert [len(part.train_images) for part in drawn[0]] == [100, 50]


# -- runs that are cut off


def cut_off_in_epoch_two(model, dataset, config, folder, **more):
    """Train, but fail at the end of the second epoch, before its checkpoint is written."""

    def fail(history):
        if len(history.train_loss) == 2:
            raise RuntimeError("cut off")

    return train(model, dataset, config, folder, **{**more, "on_epoch": fail})


@pytest.mark.parametrize("start", [None, ("one", "same", "labels"), ("one", "same", "colours")])
def test_a_run_that_was_cut_off_goes_on_and_ends_as_if_it_had_not_been(
    pictures, queue, tmp_path, monkeypatch, start
):
    one = beyond("transfer", "any", start, epochs=3, snapshots=(0, 2))
    with monkeypatch.context() as patch:
        patch.setattr(experiments, "train", cut_off_in_epoch_two)
        with pytest.raises(RuntimeError, match="cut off"):
            run_experiment(one, pictures)
    resumed = run_experiment(one, pictures)
    (log,) = queue.glob("pretrained/cpu/*/log.jsonl" if start else "cpu/*/*/log.jsonl")
    assert [json.loads(line)["epoch"] for line in log.read_text().splitlines()] == [1, 2, 3]
    monkeypatch.setattr(released, "QUEUE", tmp_path / "other")
    monkeypatch.setattr(experiments, "KEPT", tmp_path / "other")
    old = tmp_path / "other" / one.stem / "epoch1.safetensors"  # of a run that ended before
    old.parent.mkdir(parents=True)
    old.touch()
    whole = run_experiment(one, pictures)
    for record in (resumed, whole):
        del record["seconds"], record["cpu_seconds"], record["processor"], record["starts"]
        if start:
            del record["pretraining"]["seconds"]
    assert resumed == whole
    names = {path.name for folder in (old.parent, queue / one.stem) for path in folder.glob("*.safetensors")}
    assert names == {"epoch0.safetensors", "epoch2.safetensors", "trained.safetensors"}


def test_a_run_that_goes_on_with_other_code_names_both(tmp_path, monkeypatch):
    for version in ("first", "second", "second"):
        monkeypatch.setattr(experiments, "code_version", lambda version=version: version)
        found = experiments.versions_used(tmp_path)
    assert found == "first, second"


@pytest.mark.parametrize("start", [None, ("one", "same", "labels")])
def test_ctrl_c_ends_the_command_without_a_record(runs, pictures, monkeypatch, capsys, start):
    monkeypatch.setattr(experiments, "train", Mock(side_effect=Stopped))
    monkeypatch.setattr(experiments, "plan", lambda size: [beyond("transfer", "any", start)])
    monkeypatch.setattr(experiments, "load_dataset", lambda name: pictures)
    assert main(["--size", "cpu"]) == 130
    assert "call again" in capsys.readouterr().out
    assert not list(runs.rglob("*")) and not list(experiments.KEPT.rglob("*.safetensors"))


def test_a_checkpoint_is_kept_until_its_record_is_written(tiny_list, queue, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(experiments, "write_record", Mock(side_effect=OSError("the disk is full")))
        assert main(["comparison", "--size", "cpu"]) == 1
    assert capsys.readouterr().err == "error: the disk is full\n"
    assert len(list(queue.rglob("checkpoint.pt"))) == 1
    main(["comparison", "--size", "cpu"])
    assert list(queue.rglob("checkpoint.pt")) == []


# -- trained models that come with the course


def test_a_released_model_and_its_snapshots_come_back_with_their_records_and_in_half_precision(
    runs, tmp_path, monkeypatch, pictures, capsys
):
    for module in (trained, released):
        monkeypatch.setattr(module, "CHECKPOINTS", tmp_path / "checkpoints")
    one = beyond("marks", "90", None, epochs=2, snapshots=(0, 1))
    monkeypatch.setattr(experiments, "plan", lambda size: [one, tiny()[0]])
    monkeypatch.setattr(experiments, "load_dataset", lambda name: pictures)
    model = []
    monkeypatch.setattr(experiments, "train", lambda *a, **k: model.append(a[0]) or train(*a, **k))
    assert main(["marks/90", "--size", "cpu"]) == 0
    record = read_record(record_path(one))
    assert main(["--size", "cpu", "--release"]) == 0
    names = ["cifar-vit", "cifar-vit-epoch0", "cifar-vit-epoch1"]
    assert trained.trained_names() == names
    assert [line for line in capsys.readouterr().out.splitlines() if "wrote" in line] == [
        f"wrote {name}.safetensors" for name in (*names[1:], names[0])
    ]
    path = tmp_path / "checkpoints" / "cifar-vit.safetensors"
    assert path.stat().st_size < 2.1 * sum(p.numel() for p in model[0].parameters()) + 10_000
    loaded, info = trained.load_trained("cifar-vit")
    used = one.pictures_of(pictures)[1]
    images = normalize(pictures.test_images[:9], *used.channel_stats())
    assert torch.allclose(loaded(images), model[0](images), atol=1e-2)
    assert not loaded.training
    assert info.items() >= record.items()
    assert torch.allclose(torch.tensor(info["mean"]), used.channel_stats()[0])
    torch.manual_seed(0)  # a snapshot is the model of its epoch, and tells its own accuracy
    untrained = build_model("Nano/8", used, **one.options).eval()
    first, info = trained.load_trained("cifar-vit-epoch0")
    assert torch.allclose(first(images), untrained(images), atol=1e-2)
    assert info["epoch"] == 0 and info["train_loss"] == []
    middle, info = trained.load_trained("cifar-vit-epoch1")
    assert (info["test_accuracy"], info["test_loss"]) == pytest.approx(score(middle, used), abs=1e-3)
    assert len(info["train_loss"]) == 1 and info["code"]


def test_a_model_that_is_not_recorded_unknown_or_damaged_is_named(runs, pictures, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"cpu/marks/90-seed0 is not recorded"):
        released.release(beyond("marks", "90", None), pictures)
    monkeypatch.setattr(trained, "CHECKPOINTS", tmp_path)
    with pytest.raises(FileNotFoundError, match="no trained model 'mine' is here; there are: none"):
        trained.load_trained("mine")
    (tmp_path / "mine.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="damaged"):
        trained.load_trained("mine")


def test_the_resnet_of_the_headline_costs_what_the_longest_mark_of_a_gpu_costs(pictures):
    one, other = (e for e in plan("gpu") if re.search(r"/(94|resnet-flops)-seed0", e.stem))
    cost, same = (
        training_flops(build_model(e.model, pictures), pictures, asdict(e.config), round(e.config.epochs))
        for e in (one, other)
    )
    assert cost == pytest.approx(same, rel=0.02)  # as if every epoch were one step


def test_a_caption_names_what_records_share_and_the_code_and_leaves_out_which_pictures_a_seed_drew():
    other = {"machine": "cpu", "threads": 1, "data": "pictures; subset of 50"}
    drawn = [{"machine": "cpu", "threads": 1, "data": f"pictures; subset of 9, seed {k}"} for k in (0, 1)]
    assert kept_records.caption(drawn) == "recorded on cpu, 1 thread(s); pictures; subset of 9"
    assert kept_records.caption([*drawn, other]) == "recorded on cpu, 1 thread(s); pictures"
    made = [{**record, "code": code} for record, code in zip(drawn, ("abc", "def"), strict=True)]
    assert kept_records.caption([*made, made[0]]).endswith("subset of 9; code abc, def")
    assert kept_records.caption(drawn[:1]).endswith("subset of 9, seed 0")
    assert max(len(line) for line in kept_records.caption(made * 9, 40).splitlines()) <= 40
    assert "`python -m experiments` makes them" in kept_records.caption([])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ladder --data nowhere", "no data in nowhere"),
        ("ladder --minutes -1", "--minutes"),
        ("ladder --minutes nan", "--minutes"),
        ("ladder nonsense", "no experiments in nonsense"),
        ("mini-vit --again", "mini-vit: give no other run, and no --list"),
    ],
)
def test_a_mistyped_command_line_is_refused_without_a_traceback(line, words, capsys):
    try:
        status = main(["--size", "cpu", *line.split()])
    except SystemExit as left:
        status = left.code
    assert status in (1, 2) and words in capsys.readouterr().err.splitlines()[-1]


def test_a_trial_is_scored_on_held_out_training_pictures_and_sees_no_test_picture():
    pictures = shapes10(train=200, test=50)
    spoiled = replace(pictures, test_images=pictures.test_images * 0, test_labels=pictures.test_labels * 0)
    one = replace(tiny()[1], fraction=1.0, pictures=None, held_out=40)
    own, used = one.pictures_of(pictures)
    assert own is used and len(used.train_labels) == 160
    rows = {tuple(image.flatten().tolist()) for image in pictures.train_images}
    kept = {tuple(image.flatten().tolist()) for image in used.train_images}
    held_out = {tuple(image.flatten().tolist()) for image in used.test_images}
    assert kept | held_out == rows and not kept & held_out
    first = run_experiment(replace(one, name="a"), pictures)
    second = run_experiment(replace(one, name="b"), spoiled)
    assert first["held_out_accuracy"] == second["held_out_accuracy"] > 0
    assert "test_accuracy" not in first and "160 train / 40 held-out train pictures" in first["data"]


def test_all_arms_of_the_search_cost_the_same_processor_time():
    base = trials.BASE.epochs * (0.7 * trials.MUON[1] + 0.3 * trials.MUON[0]) * (45_000 // 128)
    for name, changed, _, (all_tokens, fewer) in trials.arms():
        config = replace(trials.BASE, **changed)
        steps = trials.equal_epochs(config, (all_tokens, fewer)) * (45_000 // config.batch_size)
        cost = steps * (config.keep_until * fewer + (1 - config.keep_until) * all_tokens)
        assert cost == pytest.approx(base, rel=1e-3), name


def test_the_arms_of_the_resnet_cost_as_much_as_the_base_of_the_vit_and_so_does_it_with_all_pictures():
    all_tokens, fewer = trials.PAIRED
    base = trials.BASE.epochs * (0.7 * fewer + 0.3 * all_tokens) * (45_000 // 128)
    planned = {one.name: one for one in plan("cpu") if one.group == "trials-resnet"}
    for name, _, _, step in trials.resnet_arms():
        config = planned[name].config
        assert config.epochs * (45_000 // config.batch_size) * step == pytest.approx(base, rel=1e-3), name
    all_tokens, fewer = trials.MINUTES
    cost = {"vit": 0.7 * fewer + 0.3 * all_tokens, "resnet": trials.RESNET_STEP}
    vit, resnet = (
        one.config.epochs * cost[name]
        for name in cost
        for one in plan("cpu")
        if (one.group, one.name, one.config.seed) == ("fractions", f"{name}-100", 0)
    )
    assert vit == pytest.approx(resnet, rel=0.01)


def test_every_share_of_a_searched_model_has_as_many_steps_of_warm_up():
    for model in ("vit", "resnet"):
        runs = [e for e in plan("cpu") if e.group == "fractions" and e.name.rpartition("-")[0] == model]
        steps = [e.config.warmup_epochs * (used_pictures(e) // e.config.batch_size) for e in runs]
        assert len(runs) == 9 and max(steps) == pytest.approx(min(steps), abs=0.01)


def trial(step, accuracy):
    return {"step": step, "held_out_accuracy": accuracy, "config": {"seed": 0, "epochs": 4}}


def test_gains_of_one_seed_have_the_error_of_the_held_out_pictures_and_the_best_stands_first():
    runs = {"base": 0.7, "linear": 0.71, "ema": 0.66, "whitened": 0.74}
    found = gains.gains([trial(step, accuracy) for step, accuracy in runs.items()])
    verdicts = {"whitened": "better", "linear": "undecided", "ema": "worse"}
    assert [(name, one.verdict) for name, one in found.items()] == list(verdicts.items())
    assert found["linear"].points == pytest.approx(1)
    error = 2 * ((70 * 30 + 71 * 29) / 5000) ** 0.5
    assert found["linear"].high - found["linear"].points == pytest.approx(error)
    assert found["linear"].row("a line")[:4] == ["a line", 1, "71.0", "+1.0"]
    assert found["linear"].row("a line")[-1] == "4.0"


def test_gains_of_several_seeds_follow_the_rule_of_the_course_and_nothing_is_compared_without_a_base():
    runs = [
        trial(step, a + more) for step, a in (("base", 0.7), ("linear", 0.71)) for more in (0, 1e-3, 2e-3)
    ]
    (found,) = gains.gains(runs).values()
    assert (found.verdict, round(found.points, 3)) == ("better", 1.0)
    assert found.low > 0.5
    assert gains.gains(runs[3:]) == {}


def test_tries_at_a_mark_stay_within_its_operations_and_use_most_of_them(pictures):
    allowed = {mark: minutes * 60 * CORE * 1e9 for mark, minutes in LIMITS["cpu"].items() if minutes}
    tries = [one for one in plan("cpu") if one.group == "mark-tries"]
    assert {one.name[:2] for one in tries} == {"85", "88"}
    for one in tries:
        model = build_model(one.model, pictures, **one.options)
        steps = pictures_shown(one.config, ALL_PICTURES) // one.config.batch_size
        share = training_flops(model, pictures, asdict(one.config), steps) / allowed[one.name[:2]]
        assert 0.9 < share <= 1, (one.name, share)


def test_every_rung_of_the_ladder_costs_as_much_as_the_last_and_the_last_is_the_recipe():
    rungs = {one.name: one for one in plan("cpu") if one.group == "ladder" and not one.config.seed}
    steps = 2 * [(trials.SGD, trials.SGD)] + 2 * [trials.ADAMW] + 2 * [trials.MUON]
    costs = dict(zip(rungs, steps, strict=True))
    spent = [one.config.epochs * trials.mean_step(one.config, costs[name]) for name, one in rungs.items()]
    assert spent == pytest.approx([spent[-1]] * 6, rel=1e-3)
    assert rungs["minutes"].config == replace(RECIPES["minutes"], quiet=True)
    assert {used_pictures(one) for one in rungs.values()} == {50_000}
