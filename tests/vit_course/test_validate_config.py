"""Every field of every configuration has a range, and what lies outside is refused by name."""

import math
import random
import re
from dataclasses import fields

import pytest

from vit_course.augment import AugmentConfig
from vit_course.data import shapes10
from vit_course.extensions import train_command
from vit_course.extensions.train_command import main
from vit_course.train import TrainConfig
from vit_course.training.validate_config import Allowed, Range, allowed_values
from vit_course.vit import VisionTransformer

CONFIGS = (TrainConfig, AugmentConfig)
NUMBERS = [(c, n, a) for c in CONFIGS for n, a in allowed_values(c).items() if a.range]
FREE = {"augment", "device", "compile", "quiet"}


def outside(allowed: Allowed, draw: random.Random) -> float:
    """Draw a number that a field may not hold."""
    limits, kind = allowed.range, allowed.kind
    step = 1 if kind is int else 10 ** draw.uniform(-6, 6)
    below = limits.low if limits.low_open else limits.low - step
    above = limits.high if limits.high_open else limits.high + step
    return kind(draw.choice([value for value in (below, above) if math.isfinite(value)]))


@pytest.mark.parametrize("config", CONFIGS)
def test_every_field_that_is_a_number_or_a_choice_has_a_range(config):
    limited = {name for name, allowed in allowed_values(config).items() if allowed.range or allowed.values}
    assert {field.name for field in fields(config)} - FREE == limited


@pytest.mark.parametrize(("config", "name", "allowed"), NUMBERS, ids=str)
def test_closed_ends_of_a_range_are_accepted_and_numbers_outside_are_refused_by_name(config, name, allowed):
    limits = allowed.range
    for end, is_open in ((limits.low, limits.low_open), (limits.high, limits.high_open)):
        if math.isfinite(end) and not is_open:
            assert getattr(config(**{name: allowed.kind(end)}), name) == end
    draw = random.Random(name)
    values = [outside(allowed, draw) for _ in range(20)]
    for value in [*values, math.nan, math.inf, "3", None, True]:
        with pytest.raises(ValueError) as refused:
            config(**{name: value})
        assert f"{name} is {value!r}: it should be {allowed}" == str(refused.value)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Range(1), "at least 1"),
        (Range(0, low_open=True), "above 0"),
        (Range(0, 1, high_open=True), "at least 0 and below 1"),
        (Range(0, 30), "at least 0 and at most 30"),
    ],
)
def test_a_range_says_what_it_is(limits, words):
    assert str(limits) == words


# -- the command line: lines as they are mistyped, and random ones


SMALL = shapes10(train=100, test=20)
"""All pictures that the command lines below train on."""


@pytest.fixture
def pictures(monkeypatch):
    """Let the command line find small generated data at once, where it asks for what is there."""
    load = train_command.load_dataset

    def quick(name, image_size=None):
        return SMALL if name == "auto" and image_size is None else load(name, image_size=image_size)

    monkeypatch.setattr(train_command, "load_dataset", quick)


def refusal(arguments, capsys):
    """Run a command line that should be refused; return what it said, which is one line, without a traceback."""
    try:
        status = main(["--device=cpu", "--batch-size=20", "--epochs=1", "--model=Nano/8", *arguments])
    except SystemExit as left:  # argparse's own refusal
        status = left.code
    said = capsys.readouterr()
    *usage, error = said.err.splitlines() or ["nothing"]
    assert status in (1, 2), f"{arguments} was accepted: {said.out}"
    assert "error: " in error and (status == 2 or usage == []), said.err
    return error


MISTYPED = [
    *("--epochs=0 --epochs=-1 --epochs=ten --epochs=nan --epochs=").split(" "),
    *("--batch-size=0 --batch-size=-5 --batch-size=101 --batch-size=2.5 --batch-size=1e3").split(),
    *("--lr=0 --lr=-1 --lr=nan --lr=inf --lr=-inf --lr=fast --lr=1e999 --lr=0,1").split(),
    *("--warmup-epochs=1,5 --validation=-1 --validation=1e9").split(),
    *("--augment-ahead=0 --augment-ahead=-1 --seed=-1 --seed=18446744073709551616 --seed=1.5").split(),
    *("--drop-path=-0.1 --drop-path=1 --drop-path=2 --drop-path=nan --drop-path=inf").split(),
    *("--optimizer=foo --optimizer=AdamW --precision=half --device=foo --device=cuda:99 --device=").split(),
    *("--pos-embed=foo --pos-embed-at=nowhere --pool=max --recipe=best --model=foo --model=Nano/0").split(),
    *("--model=Nano/5 --model=Nano/33 --model=Nano --model=R-Nano/3 --model=/8 --model=resnet19").split(),
    *("--train=0 --train=-3 --train=1e9 --test=0 --test=-1 --data=nowhere").split(),
]
TOGETHER = [
    "--model=resnet-small --drop-path=0.1",
    "--model=linear --pos-embed=sincos",
    "--model=linear --optimizer=muon",
    "--model=resnet-small --layer-decay=0.5",
    "--pos-embed=relative --pos-embed-at=every",
    "--validation=90 --batch-size=20",
    "--validation=100 --batch-size=20",
    "--image-size=0 --data=shapes10",
    "--train=10 --batch-size=20",
    "--resume",
    "--epochs=100000000000000000000",
    "--epochs=2 --warmup-epochs=3",
    "--out=nowhere --resume",
]


@pytest.mark.parametrize("line", [*MISTYPED, *TOGETHER])
def test_a_mistyped_command_line_is_refused_in_one_line(line, pictures, capsys):
    error = refusal(line.split(" "), capsys)
    words = re.findall(r"[a-z]+(?:-[a-z]+)*|[0-9.]+", line.replace("Nano/", "patch_size "))
    error = error.replace(",", "")
    assert any(word in error or word.replace("-", "_") in error for word in words), error


def test_a_folder_that_the_run_refuses_stays_as_it_is(pictures, tmp_path, capsys):
    (tmp_path / "file").touch()
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "checkpoint.pt").touch()
    said = {"file": "cannot be written", "file/run": "cannot be written", "used": "holds a run"}
    for name, words in said.items():
        assert words in refusal([f"--out={tmp_path / name}"], capsys)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["checkpoint.pt", "file", "used"]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        *[
            (name, value, "at least 1")
            for name in ("embed_dim", "depth", "in_chans", "num_classes")
            for value in (0, -3)
        ],
        *[
            (f"{name}_rate", value, "at least 0 and below 1")
            for name in ("drop", "attn_drop", "drop_path")
            for value in (-0.1, 1, 2.0, math.nan)
        ],
        *[("representation_size", 0, "at least 1"), ("mlp_ratio", -1.0, "at least 1")],
        *[("global_pool", "max", "'max'"), ("class_token", False, "class_token=False")],
        *[("pos_embed", "3d", "'3d' is unknown"), ("pos_embed", "2d", "use 'learned', 'sincos' or 'none'")],
        *[("num_heads", value, "divisible by num_heads") for value in (0, -1, 5)],
        *[("patch_size", value, "patch_size") for value in (0, -4, 33)],
        ("patch_size", 5, "not divisible by patch_size 5x5"),
        *[("img_size", value, "img_size") for value in (0, -32, 33)],
    ],
)
def test_options_of_a_model_outside_their_ranges_are_refused_by_name(option, value, words):
    with pytest.raises(ValueError, match=words) as refused:
        VisionTransformer(**{"embed_dim": 24, "depth": 2, option: value})
    assert (option if option != "mlp_ratio" else "hidden_dim") in str(refused.value)


@pytest.mark.parametrize(
    "line", ["--epochs=0", "--lr=1e30", "--train=0", "--warmup-epochs=2", "--batch-size=0"]
)
def test_a_value_that_cannot_be_is_told_before_any_image_is_loaded(line, monkeypatch, capsys):
    monkeypatch.setattr(train_command, "load_dataset", lambda *_, **__: pytest.fail("images are loaded"))
    assert line[2:].split("=")[0].replace("-", "_") in refusal([line], capsys)
