"""The engine of a step: what is tried, what is chosen, and that a run keeps to it."""

import pytest
import torch
import torch.nn.functional as F
from test_speedups import small_vit

from vit_course.data import shapes10
from vit_course.extensions.step_wrappers import with_fewer_tokens
from vit_course.resnet import small_resnet
from vit_course.train import TrainConfig, train
from vit_course.training.checkpoint import load_checkpoint
from vit_course.training.engine import (
    FAST,
    REFERENCE,
    WORTH_MEASURING,
    Engine,
    WrittenOutAttention,
    choose_engine,
)
from vit_course.training.run import Run
from vit_course.training.signals import Stopped

CPU, GPU = torch.device("cpu"), torch.device("cuda")
ENGINES = (REFERENCE, FAST)


@pytest.fixture(autouse=True)
def no_switch_and_a_processor_that_multiplies_bfloat16(monkeypatch):
    monkeypatch.delenv("VIT_COURSE_PRECISION", raising=False)
    monkeypatch.setattr("vit_course.training.engine.product_rate", lambda *_: 1.0)


def never(*_):
    raise AssertionError("nothing should be measured here")


@pytest.mark.parametrize("fast", ENGINES, ids=str)
def test_the_faster_is_chosen_on_a_cpu_after_one_pass_each(fast):
    tried = []

    def time_a_pass(engine):
        tried.append(engine)
        return 1.0 if engine == fast else 2.0

    assert choose_engine("auto", CPU, WORTH_MEASURING, time_a_pass) == fast
    assert tried == list(ENGINES)


@pytest.mark.parametrize("imitates", [False, True])
def test_a_longer_run_of_feature_maps_has_channels_last_whatever_its_precision(imitates, monkeypatch):
    monkeypatch.setattr(
        "vit_course.training.engine.product_rate", lambda dtype, _: dtype.itemsize if imitates else 1.0
    )
    for precision in ("auto", "float32", "bfloat16"):
        engine = choose_engine(precision, CPU, WORTH_MEASURING, lambda _: 1.0, True)
        assert engine.channels_last
        assert not choose_engine(precision, CPU, WORTH_MEASURING - 1, lambda _: 1.0, True).channels_last


def test_channels_last_changes_where_weights_lie_and_not_what_a_resnet_computes():
    torch.manual_seed(0)
    resnet, pictures = small_resnet().eval(), torch.randn(3, 3, 32, 32)
    before = resnet(pictures)
    Engine(channels_last=True).arrange(resnet)
    assert resnet[3].conv1.weight.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(resnet(pictures), before, rtol=1e-4, atol=1e-5)


def test_on_a_processor_that_imitates_bfloat16_no_pass_is_timed(monkeypatch):
    monkeypatch.setattr("vit_course.training.engine.product_rate", lambda dtype, _: dtype.itemsize)
    assert choose_engine("auto", CPU, WORTH_MEASURING, never) == REFERENCE


@pytest.mark.parametrize(
    ("switch", "asked", "chosen"),
    [
        (None, ("bfloat16", CPU, 10**6), FAST),  # on demand
        (None, ("float32", CPU, 10**6), REFERENCE),
        (None, ("auto", CPU, WORTH_MEASURING - 1), REFERENCE),  # a short run
        (None, ("auto", GPU, 1), Engine("float32", "fused", True)),  # it has no units for bfloat16
        (None, ("bfloat16", GPU, 1), Engine("bfloat16", "fused", True)),
        ("float32", ("auto", CPU, 10**6), REFERENCE),  # the switch takes the place of auto alone
        ("float32", ("bfloat16", CPU, 10**6), FAST),
    ],
)
def test_where_the_engine_is_known_nothing_is_measured(switch, asked, chosen, monkeypatch):
    if switch:
        monkeypatch.setenv("VIT_COURSE_PRECISION", switch)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    assert choose_engine(*asked, never) == chosen
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    assert choose_engine("auto", GPU, 1, never).precision == (switch or "bfloat16")


def test_before_the_first_step_a_loud_run_does_two_passes_at_most(monkeypatch, capsys):
    passes = []

    def counted(run, engine, original=Run.time_a_pass):
        passes.append(engine)
        return original(run, engine)

    monkeypatch.setattr(Run, "time_a_pass", counted)
    for steps in (4, WORTH_MEASURING):
        config = TrainConfig(epochs=steps, batch_size=32, device="cpu")
        run = Run(small_vit(), shapes10(train=32, test=10), config)
        run.begin(resume=False)
        run.console.close()
    assert passes == [REFERENCE, REFERENCE, FAST]
    assert "about" in capsys.readouterr().out


@pytest.mark.parametrize(("until", "promised"), [(0.0, "22.0 minutes"), (0.8, "13.2 minutes")])
def test_a_run_that_leaves_out_tokens_promises_fewer_minutes(until, promised, monkeypatch, capsys):
    monkeypatch.setattr(Run, "time_a_pass", lambda *_: 300.0)
    config = TrainConfig(epochs=4, batch_size=32, device="cpu", keep_tokens=0.5, keep_until=until)
    run = Run(small_vit(), shapes10(train=32, test=10), config)
    with with_fewer_tokens(run):
        run.begin(resume=False)
    run.console.close()
    assert f"about {promised}" in capsys.readouterr().out


def test_an_unknown_precision_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'half' is unknown: use auto, float32, bfloat16"):
        choose_engine("half", CPU, 1, never)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_an_engine_computes_what_it_says_and_leaves_torch_as_it_was(engine):
    seen = []
    linear = torch.nn.Linear(4, 4)
    with engine.computing(CPU):
        seen.append(str(linear(torch.ones(1, 4)).dtype))
        q = torch.ones(1, 2, 3, 4, requires_grad=True)
        way_back = F.scaled_dot_product_attention(q, q, q).grad_fn
    assert seen == [f"torch.{engine.precision}"]
    assert ("Flash" in type(way_back).__name__) == (engine.attention == "fused")
    assert "Flash" in type(F.scaled_dot_product_attention(q, q, q).grad_fn).__name__
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": torch.eye(5).bool()}], ids=str
)
def test_attention_written_out_gives_what_torch_gives(options):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    want = F.scaled_dot_product_attention(q, k, v, **options)
    with WrittenOutAttention():
        got = F.scaled_dot_product_attention(q, k, v, **options)
        F.scaled_dot_product_attention(q, k, v, None, 0.1)  # without the names is right, too
    torch.testing.assert_close(got, want)


def test_attention_written_out_drops_weights_at_the_given_rate():
    torch.manual_seed(0)
    q, v = torch.zeros(1, 1, 400, 2), torch.eye(50).repeat(1, 1, 8, 1)
    with WrittenOutAttention():
        weights = F.scaled_dot_product_attention(q, q, v, dropout_p=0.25)
    kept = weights * 400
    assert kept.mean().item() == pytest.approx(8, rel=0.01)
    assert kept.std().item() == pytest.approx((8 * 0.25 / 0.75) ** 0.5, rel=0.05)


def test_all_engines_learn_the_same_up_to_the_digits_of_bfloat16(monkeypatch):
    data, losses = shapes10(train=320, test=20), []
    for engine in ENGINES:
        monkeypatch.setattr("vit_course.training.run.choose_engine", lambda *_, engine=engine: engine)
        config = TrainConfig(epochs=3, batch_size=32, lr=2e-3, device="cpu", quiet=True)
        losses.append(torch.tensor(train(small_vit(), data, config).step_loss))
    assert not torch.equal(losses[0], losses[1])
    for other in losses[1:]:
        torch.testing.assert_close(other, losses[0], rtol=0.03, atol=0)


def test_a_resumed_run_keeps_its_engine_whatever_would_be_chosen_now(monkeypatch, tmp_path):
    data = shapes10(train=64, test=20)
    config = TrainConfig(epochs=4, batch_size=32, device="cpu", quiet=True)

    def halt(history):
        history.interrupted = len(history.train_loss) == 2

    monkeypatch.setattr("vit_course.training.run.choose_engine", lambda *_: FAST)
    with pytest.raises(Stopped):
        train(small_vit(), data, config, tmp_path, on_epoch=halt)
    assert load_checkpoint(tmp_path / "checkpoint.pt")["history"]["engine"] == vars(FAST)
    monkeypatch.setattr("vit_course.training.run.choose_engine", never)
    monkeypatch.setenv("VIT_COURSE_PRECISION", "float32")
    history = train(small_vit(), data, config, tmp_path, resume=True)
    assert history.engine == vars(FAST) and len(history.train_loss) == 4


@pytest.mark.parametrize(
    ("other", "chosen"), [("name", REFERENCE), ("bfloat16_gflops", REFERENCE), ("", FAST)]
)
def test_a_run_that_goes_on_elsewhere_chooses_anew_and_names_every_start(
    other, chosen, monkeypatch, tmp_path
):
    data = shapes10(train=64, test=20)
    config = TrainConfig(epochs=4, batch_size=32, device="cpu", quiet=True)
    here = {"name": "first", "amx": False, "bfloat16_gflops": 90.0, "float32_gflops": 50.0}

    def halt(history):
        history.interrupted = len(history.train_loss) == 2

    monkeypatch.setattr("vit_course.training.run.describe_processor", lambda: here)
    monkeypatch.setattr("vit_course.training.run.choose_engine", lambda *_: FAST)
    with pytest.raises(Stopped):
        train(small_vit(), data, config, tmp_path, on_epoch=halt)
    there = here | {"name": {"name": "second"}, "bfloat16_gflops": {"bfloat16_gflops": 20.0}}.get(other, {})
    monkeypatch.setattr("vit_course.training.run.describe_processor", lambda: there)
    monkeypatch.setattr("vit_course.training.run.choose_engine", lambda *_: REFERENCE)
    history = train(small_vit(), data, config, tmp_path, resume=True)
    assert history.engine == vars(chosen)
    assert [(one["step"], one["processor"]) for one in history.starts] == [(0, here), (4, there)]
    assert 0 == history.starts[0]["cpu_seconds"] < history.starts[1]["cpu_seconds"] < history.cpu_seconds
