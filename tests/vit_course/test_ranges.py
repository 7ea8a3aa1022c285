"""Every field of every configuration has a range, and what lies outside is refused by name."""

import math
import random
from dataclasses import fields

import pytest

from vit_course.augment import AugmentConfig
from vit_course.machinery.ranges import Allowed, Range, allowed_values
from vit_course.recipes import main
from vit_course.train import TrainConfig

CONFIGS = (TrainConfig, AugmentConfig)
NUMBERS = [(c, n, a) for c in CONFIGS for n, a in allowed_values(c).items() if a.kind in (int, float)]
FREE = {"augment", "device", "compile", "quiet"}


def outside(allowed: Allowed, draw: random.Random) -> float:
    """Draw a number that a field may not hold."""
    limits, kind = allowed.range, allowed.kind
    below = limits.low if limits.low_open else limits.low - (1 if kind is int else 10 ** draw.uniform(-6, 6))
    above = (
        limits.high if limits.high_open else limits.high + (1 if kind is int else 10 ** draw.uniform(-6, 6))
    )
    return kind(draw.choice([value for value in (below, above) if math.isfinite(value)]))


@pytest.mark.parametrize("config", CONFIGS)
def test_every_field_that_is_a_number_or_a_choice_has_a_range(config):
    limited = {name for name, allowed in allowed_values(config).items() if allowed.range or allowed.values}
    assert {field.name for field in fields(config)} - FREE == limited


@pytest.mark.parametrize(("config", "name", "allowed"), NUMBERS, ids=str)
def test_numbers_outside_a_range_are_refused_by_name_and_range(config, name, allowed):
    draw = random.Random(name)
    values = [outside(allowed, draw) for _ in range(20)]
    for value in [*values, math.nan, math.inf, "3", None, True]:
        with pytest.raises(ValueError) as refused:
            config(**{name: value})
        assert f"{name} is {value!r}: it should be {allowed}" == str(refused.value)


@pytest.mark.parametrize(("config", "name", "allowed"), NUMBERS, ids=str)
def test_closed_ends_of_a_range_are_accepted(config, name, allowed):
    limits = allowed.range
    for end, is_open in ((limits.low, limits.low_open), (limits.high, limits.high_open)):
        if math.isfinite(end) and not is_open:
            assert getattr(config(**{name: allowed.kind(end)}), name) == end


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


FLAGS = [name for config, name, _ in NUMBERS if config is TrainConfig]


@pytest.mark.parametrize("dry", [True, False], ids=["dry run", "run"])
@pytest.mark.parametrize("name", FLAGS)
def test_the_command_line_refuses_the_same_with_one_line(name, dry, capsys):
    value = outside(allowed_values(TrainConfig)[name], random.Random(name))
    arguments = [
        f"--{name.replace('_', '-')}={value}",
        "--data=shapes10",
        "--train=40",
        "--test=10",
        "--model=linear",
    ]
    assert main([*arguments, *["--dry-run"] * dry]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith(f"error: {name} is ") and errors.count("\n") == 1


def test_a_device_that_is_not_here_is_refused_in_one_line(capsys):
    assert main(["--device=foo", "--data=shapes10", "--train=40", "--test=10", "--model=linear"]) == 1
    assert capsys.readouterr().err == "error: device 'foo' is unknown: use auto, cpu, cuda or mps\n"


@pytest.mark.parametrize("flag", ["--train=0", "--train=-3", "--test=0"])
def test_no_pictures_at_all_are_not_taken_for_all_pictures(flag, capsys):
    assert main([flag, "--data=shapes10", "--model=linear"]) == 1
    name, _, value = flag.lstrip("-").partition("=")
    assert capsys.readouterr().err == f"error: {name} is {value}: it should be a whole number at least 1\n"
