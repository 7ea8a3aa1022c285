"""The commands after a training: predict, evaluate, export, and going on with a run that was stopped."""

# ruff: noqa: F811
import csv
import io
import json
import re
import signal
import subprocess
import sys

import pytest
import torch
from test_trained import KINDS, draw, photos, run  # noqa: F401

from vit_course import __main__ as door
from vit_course.data import load_dataset
from vit_course.extensions import train_command
from vit_course.extensions.shipping import run_onnx
from vit_course.extensions.trained import load_trained
from vit_course.recipes import RECIPES
from vit_course.training.paths import ROOT
from vit_course.training.run_folder import own_folder


def call(capsys, *arguments):
    """Call a command; return its exit status, and what it printed and complained about."""
    capsys.readouterr()
    status = door.main([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


def test_predict_names_the_class_of_photos_and_folders_with_its_share_and_the_next_two(
    run, photos, tmp_path, capsys
):
    folder = tmp_path / "new photos" / "inside"
    folder.mkdir(parents=True)
    for kind in KINDS:
        draw(kind, 7, (30, 50)).save(folder / f"{kind}.jpg")
    (folder / "notes.txt").write_text("no photo")
    for name in ("a.heic", "b.HEIC"):
        (folder / name).touch()
    status, out, err = call(capsys, "predict", run, folder.parent, photos / "test" / "disc" / "0.jpg")
    lines = out.splitlines()
    assert (status, len(lines)) == (0, 4)
    assert err.startswith(f"Not read in {folder.parent}: 2 .heic files, 1 .txt file. Images are .jpg, ")
    shares = load_trained(run).predict(sorted(folder.glob("*.jpg")))
    for line, kind, share in zip(lines, KINDS, shares, strict=False):
        path, rest = line.split(".jpg")
        first, second, third = rest.strip().split("   ")
        assert path.endswith(f"inside/{kind}")
        assert first == f"{KINDS[share.argmax()]} {100 * share.max():.1f} %"
        assert {word.split()[0] for word in (first, second, third)} == set(KINDS)


def test_predict_writes_all_shares_as_csv(run, photos, capsys):
    status, out, _ = call(capsys, "predict", "--csv", run, photos / "test")
    rows = list(csv.reader(io.StringIO(out)))
    assert status == 0 and rows[0] == ["file", *KINDS] and len(rows) == 1 + 12
    assert all(abs(sum(map(float, row[1:])) - 1) < 1e-3 for row in rows[1:])


def test_a_photo_that_cannot_be_read_is_named_and_the_others_are_answered(run, photos, tmp_path, capsys):
    (tmp_path / "broken.jpg").write_bytes(b"nothing")
    good = photos / "test" / "disc" / "0.jpg"
    status, out, err = call(capsys, "predict", run, tmp_path / "broken.jpg", tmp_path / "missing.jpg", good)
    assert status == 1 and len(out.splitlines()) == 1
    broken, missing = err.splitlines()
    assert broken.startswith("error: cannot read the picture")
    assert missing == f"error: there is no file {tmp_path / 'missing.jpg'}"
    status, out, err = call(capsys, "predict", tmp_path, good)
    assert status == 1 and err.startswith(f"error: no trained model '{tmp_path}' is here")


def test_evaluate_repeats_the_accuracy_of_the_run_and_counts_each_class(run, photos, capsys):
    status, out, _ = call(capsys, "evaluate", run, "--data", photos)
    record = json.loads((run / "record.json").read_text())
    right = round(12 * record["test_accuracy"])
    first, *classes = out.splitlines()
    assert status == 0 and first.startswith(
        f"test accuracy {100 * right / 12:.1f} %: {right} of 12 images (95 %"
    )
    assert [line.split(":")[0].strip() for line in classes] == list(KINDS)
    assert sum(int(line.split()[1]) for line in classes) == right
    status, _, err = call(capsys, "evaluate", run, "--data", "shapes10")
    assert status == 1 and err.startswith(
        "error: the model knows disc, flat, stripes, but the data set has arrow"
    )


def test_export_gives_a_file_that_says_the_same_of_any_number_of_pictures(run, photos, tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    path = tmp_path / "out" / "model.onnx"
    status, out, _ = call(capsys, "export", run, path)
    assert status == 0 and "`pictures` uint8 (N, 3, 16, 16) to `shares` (N, K)" in out
    trained, pictures = load_trained(run), load_dataset(photos, image_size=16).test_images
    for count in (1, 2, 12):
        shares = torch.from_numpy(run_onnx(path)(pictures[:count].numpy()))
        assert (shares - trained.predict(pictures[:count])).abs().max() < 1e-5
    told = {prop.key: prop.value for prop in onnx.load(path).metadata_props}
    assert told["classes"].splitlines() == list(KINDS)
    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]


def test_a_model_without_the_packages_for_onnx_names_them(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("vit_course.extensions.shipping.find_spec", lambda name: None)
    status, _, err = call(capsys, "export", run, tmp_path / "model.onnx")
    assert status == 1 and "pip install onnx onnxscript onnxruntime" in err


def test_export_writes_under_no_other_ending_than_its_own(run, tmp_path, capsys):
    status, _, err = call(capsys, "export", run, tmp_path / "photos.pt")
    assert status == 1 and "photos.pt should end in .onnx" in err and not list(tmp_path.iterdir())


# -- tuning


@pytest.fixture
def tuned(photos, monkeypatch, capsys):
    """Run `train --from cifar-vit` with other options; return what `train` was to do, and what was printed."""

    def tune(*line):
        asked = []

        def train(model, dataset, config, *rest):
            asked.append(config)
            raise ValueError("far enough")

        monkeypatch.setattr(train_command, "train", train)
        status, out, err = call(capsys, "train", "--from", "cifar-vit", "--data", photos, *line)
        assert (status, err) == (1, "error: far enough\n")
        return asked[0], out

    return tune


def test_each_way_of_tuning_has_a_rate_of_its_own_which_the_command_line_overrides(tuned, capsys):
    rates = {way: tuned("--tune", way)[0].lr for way in ("all", "lora", "head")}
    assert rates == train_command.TUNING_RATES and tuned()[0].lr == rates["all"]
    assert rates["all"] < rates["lora"] < rates["head"]
    assert tuned("--tune", "lora", "--lr", "0.001")[0].lr == 0.001
    assert tuned("--tune", "lora", "--recipe", "adamw")[0].lr == RECIPES["adamw"].lr
    with pytest.raises(SystemExit):
        train_command.main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert all(f"{rate:g} for {way}" in said for way, rate in rates.items())


def test_a_tuning_by_few_images_has_enough_steps_and_says_nothing_of_few(tuned):
    for line, batch in ([], 16), (["--train", "9"], 9), (["--batch-size", "4"], 4):
        config, out = tuned(*line)
        images = 9 if line[:1] == ["--train"] else 36
        assert config.batch_size == batch and "few" not in out
        steps = config.epochs * (images // batch)
        assert train_command.ENOUGH_STEPS <= steps < train_command.ENOUGH_STEPS + images // batch
    assert tuned("--epochs", "2")[0].epochs == 2


def test_a_tuning_says_how_many_of_the_numbers_learn(tuned):
    model = load_trained("cifar-vit").model
    every = sum(p.numel() for p in model.parameters()) - 7 * 193  # ten classes become three
    assert f"{3 * 193:,} of {every:,} numbers learn." in tuned("--tune", "head")[1]
    low_rank = re.search(r"([\d,]+) of ([\d,]+) numbers learn\.", tuned("--tune", "lora")[1])
    learn, whole = (int(number.replace(",", "")) for number in low_rank.groups())
    assert whole - every == learn - 3 * 193 > 0
    assert "numbers learn" not in tuned()[1]


def test_weights_that_are_not_here_name_the_section_that_fetches_them(photos, tmp_path, capsys):
    for source in (tmp_path / "dinov2", tmp_path, "cifar-vitt"):
        status, _, err = call(capsys, "train", "--from", source, "--data", photos)
        assert (status, err) == (
            1,
            f"error: no {source} here: 'Public weights' in docs/use.md fetches some\n",
        )
    assert "\n## Public weights\n" in (ROOT / "docs" / "use.md").read_text(encoding="utf-8")


def test_a_folder_with_a_run_is_refused_at_once_and_a_run_that_ended_is_resumed_without_advice(
    photos, tmp_path, capsys
):
    line = ["train", "--data", photos, "--image-size", 16, "--model", "linear", "--recipe", "adamw"]
    line += ["--epochs", 1, "--batch-size", 36, "--device", "cpu", "--out", tmp_path]
    status, out, _ = call(capsys, *line)
    assert status == 0 and "This run has 1 step: few to learn from." in out
    status, out, err = call(capsys, *line)
    assert (status, out) == (1, "") and err.startswith(f"error: {tmp_path} holds a run: --resume it, ")
    status, out, _ = call(capsys, "train", "--out", tmp_path, "--resume")
    assert status == 0 and "few to learn" not in out


def test_a_run_that_is_refused_leaves_the_options_of_the_one_that_uses_the_folder(photos, tmp_path, capsys):
    line = [
        "train",
        "--data",
        photos,
        "--image-size",
        16,
        "--model",
        "linear",
        "--device",
        "cpu",
        "--out",
        tmp_path,
    ]
    kept = tmp_path / "command.json"
    with own_folder(tmp_path, resume=False):
        kept.write_text('["--lr", "0.5"]')
        status, _, err = call(capsys, *line)
        assert status == 1 and err.startswith(f"error: another run uses {tmp_path} now")
        assert kept.read_text() == '["--lr", "0.5"]'


# -- going on

STOP = """
import signal, sys
from vit_course.training import run
from vit_course.extensions.train_command import main
before = run.Run.count_step
def count_step(self, *a):
    before(self, *a)
    if self.step == 4:
        signal.raise_signal(signal.SIGINT)
run.Run.count_step = count_step
sys.exit(main(sys.argv[1:]))
"""


def test_after_ctrl_c_the_command_to_go_on_is_printed_and_is_all_that_is_needed(photos, tmp_path):
    def python(*line):
        return subprocess.run([sys.executable, *line], cwd=ROOT, capture_output=True, text=True, timeout=300)

    out = tmp_path / "a run"
    line = [
        "--data",
        str(photos),
        "--image-size",
        "16",
        "--model",
        "Nano/4",
        "--pool",
        "avg",
        "--epochs",
        "3",
    ]
    line += ["--batch-size", "12", "--device", "cpu", "--recipe", "adamw", "--seed", "5"]
    stopped = python("-c", STOP, *line, "--out", str(out))
    command = f"python -m vit_course train --out '{out}' --resume"
    assert stopped.returncode == 130
    said = rf"Stopped after step [45] of 9: nothing is measured\. Go on with: {re.escape(command)}"
    assert re.fullmatch(said, stopped.stderr.splitlines()[-1])
    assert not (out / "model.safetensors").exists()
    done = python("-m", "vit_course", "train", "--out", str(out), "--resume")
    assert done.returncode == 0, done.stderr
    whole = tmp_path / "whole"
    assert python("-m", "vit_course", "train", *line, "--out", str(whole)).returncode == 0
    weights = [load_trained(folder).model.state_dict() for folder in (out, whole)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    other = python("-m", "vit_course", "train", "--out", str(out), "--resume", "--lr", "0.5")
    assert other.returncode == 1 and "lr" in other.stderr


def test_options_that_contradict_each_other_are_refused_before_anything_is_loaded(capsys):
    from vit_course.extensions.train_command import main

    for line, message in (
        ("--tune lora", "--tune needs --from"),
        ("--from cifar-vit --model Ti/4", "--from brings its own model: leave --model out"),
        ("--from cifar-vit --pool avg --drop-path 0", "own model: leave --drop-path and --pool out"),
        ("--resume", "--resume needs --out"),
    ):
        with pytest.raises(SystemExit):
            main(line.split())
        assert message in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
