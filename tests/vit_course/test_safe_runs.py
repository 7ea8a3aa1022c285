"""Runs that are killed, interrupted, starved or damaged."""

import errno
import hashlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch

from vit_course.augment import AugmentConfig
from vit_course.data import shapes10
from vit_course.extensions.train_command import main
from vit_course.optim import make_optimizers
from vit_course.recipes import RECIPES, build_model
from vit_course.train import TrainConfig, linear_classifier, train
from vit_course.training import checkpoint as checkpoint_module
from vit_course.training import console
from vit_course.training import run as run_module
from vit_course.training.checkpoint import load_checkpoint, save_checkpoint
from vit_course.training.run import Run
from vit_course.training.run_folder import CHECKPOINT, own_folder
from vit_course.training.signals import SIGNALS, Stopped, stop_on_signal
from vit_course.vit import VisionTransformer

MIXED = AugmentConfig(crop_padding=4, flip=0.5, rand_augment_ops=1, erasing=0.25, mixup=0.8, cutmix=1.0)
CONFIG = TrainConfig(
    epochs=4, batch_size=20, augment=MIXED, ema=0.9, augment_ahead=3, device="cpu", quiet=True
)
DATA = shapes10(train=140, test=20)
pytestmark = pytest.mark.usefixtures("drawn")


def small_vit(**options):
    torch.manual_seed(0)
    sizes = {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
    return VisionTransformer(**{**sizes, "drop_path_rate": 0.2, "drop_rate": 0.1, **options})


def trained(folder=None, resume=False, config=CONFIG, **options):
    model = small_vit()
    history = train(model, DATA, config, folder, resume, **options)
    return torch.cat([p.detach().flatten() for p in model.parameters()]), history


KILLS = """
import os, signal, sys, torch
import torch._dynamo  # what the first optimizer of a process imports
from itertools import count
from vit_course.data import shapes10
from vit_course.training.run import Run
from vit_course.extensions.train_command import main
folder, *line = sys.argv[1:]
threads = torch.get_num_threads()
torch.set_num_threads(1)  # no child can use the threads of its parent
drawn = shapes10()
torch.set_num_threads(threads)
die, count_step = lambda *args: os.kill(os.getpid(), signal.SIGKILL), Run.count_step
for steps in (0, 2, None, 4, 7, 0, None, 4, 6, 3):
    child = os.fork()
    if not child:
        if steps is None:
            os.replace = die  # as a checkpoint, already written, takes its place
        left = count(100 if steps is None else steps, -1)
        Run.count_step = lambda *args: count_step(*args) if next(left) else die()
        resume = ["--resume"] * os.path.exists(f"{folder}/checkpoint.pt")
        os._exit(main([*line, f"--out={folder}", *resume]))
    if os.waitpid(child, 0)[1] != signal.SIGKILL:
        sys.exit(f"not killed: {steps}")
"""
"""Begins a run ten times, and each time kills it in the midst: in forks, with torch imported and Shapes-10 drawn."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_command_killed_ten_times_ends_with_exactly_the_weights_of_the_unbroken_one(tmp_path):
    broken, unbroken = tmp_path / "broken", tmp_path / "unbroken"
    line = [*KILLED, "--device=cpu"]
    subprocess.run([sys.executable, "-c", KILLS, str(broken), *line], check=True, timeout=240)
    assert load_checkpoint(broken / CHECKPOINT)["step"] == 10
    assert main([*line, f"--out={broken}", "--resume"]) == main([*line, f"--out={unbroken}"]) == 0
    ends = [load_checkpoint(folder / CHECKPOINT) for folder in (broken, unbroken)]
    torch.testing.assert_close(
        ends[0]["wrapper_states"]["average"], ends[1]["wrapper_states"]["average"], rtol=0, atol=0
    )
    torch.testing.assert_close(ends[0]["model"], ends[1]["model"], rtol=0, atol=0)
    assert ends[0]["history"]["step_loss"] == ends[1]["history"]["step_loss"]
    lines = (broken / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4]


@pytest.fixture(scope="module")
def unbroken():
    """The weights and the history of the run that nothing interrupts."""
    return trained()


@pytest.fixture
def listens():
    """Listen to signals, as a process that was started in the background or by `nohup` does not."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_signal_stops_between_two_steps_and_the_rest_gives_the_same_weights(
    tmp_path, number, unbroken, listens, monkeypatch
):
    moments = iter([False] * 9 + [True])

    def interrupt_at_step_10(run, *args, original=run_module.Run.count_step):
        if next(moments, False):
            signal.raise_signal(number)
        original(run, *args)

    monkeypatch.setattr(run_module.Run, "count_step", interrupt_at_step_10)
    with pytest.raises(Stopped, match=r"after step 10 of 28: nothing is measured; go on with resume=True"):
        trained(tmp_path)
    weights, second = trained(tmp_path, resume=True)
    assert torch.equal(weights, unbroken[0])
    assert second.train_loss == unbroken[1].train_loss


def test_a_signal_that_nohup_ignores_stops_nothing(listens):
    signal.signal(SIGNALS[-1], signal.SIG_IGN)
    with stop_on_signal() as stop:
        signal.raise_signal(SIGNALS[-1])
        assert not stop()


def test_second_interrupt_acts_at_once(listens):
    with pytest.raises(KeyboardInterrupt), stop_on_signal() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop()
        signal.raise_signal(signal.SIGINT)


def test_training_works_outside_the_main_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(trained()[1]))
    thread.start()
    thread.join()
    assert len(results[0].train_loss) == 4


def test_full_disk_ends_with_one_message_and_keeps_the_checkpoint_before(tmp_path, monkeypatch):
    saved = []

    def fsync_on_a_full_disk(descriptor):
        if len(saved) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        saved.append(descriptor)

    monkeypatch.setattr(checkpoint_module.os, "fsync", fsync_on_a_full_disk)
    with pytest.raises(OSError, match="the disk is full; the checkpoint before it is untouched"):
        trained(tmp_path)
    assert len(load_checkpoint(tmp_path / "checkpoint.pt")["history"]["train_loss"]) == 2
    assert list(tmp_path.glob("*.part")) == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign"])
def test_damaged_checkpoint_is_noticed_and_named(tmp_path, damage):
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"weights": torch.randn(100)})
    data = path.read_bytes()
    half = len(data) // 2
    torch.save({"weights": torch.randn(3)}, path)
    damaged = {"cut": data[:half], "empty": b"", "foreign": path.read_bytes()}
    damaged["flipped"] = data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :]
    path.write_bytes(damaged[damage])
    with pytest.raises(ValueError, match="checkpoint.pt is damaged or no checkpoint of this course"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"drop_path_rate": 0.5}, "blocks.1.drop_path_rate was 0.2 and is 0.5 now"),
        ({"global_pool": "avg"}, "global_pool was 'token' and is 'avg' now"),
        ({"drop_rate": 0.3}, "drop.p was 0.1 and is 0.3 now"),
        ({"num_heads": 4}, "num_heads was 2 and is 4 now"),
    ],
)
def test_a_run_never_goes_on_with_another_model_of_the_same_shapes(tmp_path, options, words):
    trained(tmp_path)
    with pytest.raises(ValueError, match="holds another model") as refused:
        train(small_vit(**options), DATA, CONFIG, tmp_path, resume=True)
    assert words in str(refused.value)


def test_a_folder_with_a_run_is_not_overwritten(tmp_path):
    trained(tmp_path)
    before = (tmp_path / "checkpoint.pt").read_bytes()
    with pytest.raises(ValueError, match="holds a run: go on with it"):
        trained(tmp_path)
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


def test_two_runs_cannot_share_a_folder(tmp_path, monkeypatch):
    refused = []

    def second(history):
        with pytest.raises(ValueError, match="another run uses") as error:
            trained(tmp_path, resume=True)
        refused.append(error)

    # The second run is to find no checkpoint.
    monkeypatch.setattr(run_module.Run, "save", lambda run: None)
    trained(tmp_path, on_epoch=second)
    assert len(refused) == CONFIG.epochs
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_killed_writes_of_a_checkpoint_left_is_cleared_by_the_next_run_and_not_while_another_runs(
    tmp_path,
):
    killed = [tmp_path / f"checkpoint.{number}.part" for number in (1, 22, 333)]
    (tmp_path / "mine.part").touch()
    for path in killed:
        path.touch()
    with own_folder(tmp_path, resume=False):
        assert not any(path.exists() for path in killed) and (tmp_path / "mine.part").exists()
        killed[0].touch()
        with pytest.raises(ValueError, match="another run uses"), own_folder(tmp_path, resume=False):
            pass
        assert killed[0].exists()


CHANGED = {
    "epochs": ({"epochs": 5}, {}, "epochs was 4 and is 5 now"),
    "two": ({"lr": 0.5, "seed": 3}, {}, "lr was 0.001 and is 0.5 now; seed was 0 and is 3 now"),
    "inside": ({"augment": replace(MIXED, flip=0.25)}, {}, "augment.flip was 0.5 and is 0.25 now"),
    "data": ({}, {"provenance": "others"}, f"data set was {DATA.provenance!r} and is 'others' now"),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_run_that_goes_on_otherwise_is_refused_with_what_was_and_what_is(what, tmp_path):
    trained(tmp_path)
    config, data, words = CHANGED[what]
    with pytest.raises(ValueError, match="is of another run: ") as refused:
        train(small_vit(), replace(DATA, **data), replace(CONFIG, **config), tmp_path, resume=True)
    assert f"another run: {words}. Use another folder" in str(refused.value)


def test_a_folder_that_cannot_be_written_is_refused_before_the_first_step(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="cannot be written"):
        trained(tmp_path / "file" / "run")


def test_out_of_memory_ends_with_one_message_that_names_a_smaller_batch():
    starve = Mock(side_effect=RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB"))
    with pytest.raises(MemoryError, match="out of memory at batch_size 20: try 10"):
        trained(objective=starve)


def test_other_errors_of_torch_pass_unchanged():
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        trained(objective=Mock(side_effect=RuntimeError("shapes do not fit")))


def test_epochs_that_run_again_leave_one_line_each_in_the_log(tmp_path):
    config = replace(CONFIG, validation=20)
    trained(tmp_path, config=config)
    before = (tmp_path / "checkpoint.pt").read_bytes()
    trained(tmp_path, resume=True, config=config)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    with (tmp_path / "log.jsonl").open("a") as file:  # as if the run had been killed before its checkpoint
        file.write(lines[-1] + "\n")
    trained(tmp_path, resume=True, config=config)
    assert (tmp_path / "log.jsonl").read_text().splitlines() == lines
    assert (tmp_path / "checkpoint.pt").read_bytes() == before
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4]
    assert {"loss", "accuracy", "lr", "val_accuracy", "seconds", "images_per_s"} <= set(json.loads(lines[0]))


def test_averaged_weights_are_kept_and_differ_from_the_last_ones(unbroken):
    assert not torch.allclose(unbroken[0], trained(config=replace(CONFIG, ema=0.0))[0])


def test_muon_trains_the_matrices_of_the_blocks_and_adamw_the_rest():
    model = small_vit()
    muon, adamw = make_optimizers(model, "muon")
    assert sum(len(group["params"]) for group in muon.param_groups) == 4 * 2
    count = sum(len(group["params"]) for optimizer in (muon, adamw) for group in optimizer.param_groups)
    assert count == len(list(model.parameters()))
    _, history = trained(config=replace(CONFIG, optimizer="muon"))
    assert history.train_loss[-1] < history.train_loss[0]


def test_mixing_ends_after_its_share_of_the_steps_also_in_a_run_that_goes_on():
    config = replace(CONFIG, epochs=4, mix_until=0.5, augment=replace(MIXED, mixup=0.8))
    run = Run(small_vit(), DATA, config)
    run.begin(resume=False)
    for epoch in range(4):
        mixed = []
        for _, targets in run.batches(epoch):
            run.step += 1
            mixed.append(bool(((targets > 0) & (targets < 1)).any()))
        assert set(mixed) == {epoch < 2}
    run.console.close()


def test_unknown_optimizer_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'lion' is unknown: use 'adamw', 'sgd' or 'muon'"):
        make_optimizers(small_vit(), "lion")


LAUNCH = (
    "--data=shapes10 --train=160 --test=40 --epochs=2 --batch-size=40 --recipe=mixed --model=Nano/8".split()
)
KILLED = LAUNCH + "--train=40 --batch-size=8 --epochs=4 --ema=0.9 --augment-ahead=3 --drop-path=0.2".split()
SEVERAL = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
SEVERAL += ["-m", "vit_course", "train"]
TWO = """
import os, sys, torch
from vit_course.data import shapes10
from vit_course.extensions.train_command import main
torch.set_num_threads(1)  # no child can use the threads of its parent
drawn = shapes10()
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv.pop(1), "WORLD_SIZE": "2"}
children = []
for rank in ("0", "1"):
    children.append(os.fork())
    if not children[-1]:
        os.environ |= {"RANK": rank, "LOCAL_RANK": rank}
        os._exit(main(sys.argv[1:]))
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""
"""What torchrun does, in two forks of one process, so that torch is imported once."""


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_two_processes_give_the_losses_of_one(tmp_path):
    start = [sys.executable, "-c", TWO, str(free_port())]
    several = [*start, *LAUNCH, f"--out={tmp_path / 'two'}", "--device=cpu"]
    assert main([*LAUNCH, f"--out={tmp_path / 'one'}", "--device=cpu"]) == 0
    subprocess.run(several, check=True, timeout=240)
    one, two = (load_checkpoint(tmp_path / name / "checkpoint.pt") for name in ("one", "two"))
    assert two["history"]["step_loss"] == pytest.approx(one["history"]["step_loss"], rel=1e-4)
    assert len(one["history"]["step_loss"]) == 8
    for name, weights in one["model"].items():
        torch.testing.assert_close(two["model"][name], weights, rtol=1e-3, atol=1e-4)


def test_command_line_trains_records_and_resumes(tmp_path, capsys):
    arguments = [*LAUNCH, f"--out={tmp_path}", "--device=cpu"]
    assert main(arguments) == 0
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["data"].startswith("Shapes-10")
    assert record["config"]["augment"]["mixup"] == RECIPES["mixed"].augment.mixup
    assert record["parameters"] == 356_938
    assert 0 <= record["test_accuracy"] <= 1
    assert main([*arguments, "--resume"]) == 0
    assert main([*arguments, "--resume", "--lr=3"]) == 1
    assert "of another run: lr was 0.001 and is 3.0 now" in capsys.readouterr().err


def test_an_error_stands_on_a_line_of_its_own_below_no_bar(monkeypatch, capsys):
    bars = []

    def fail(run, *args):
        bars.append(run.console.bar)
        raise FloatingPointError("no number")

    monkeypatch.setenv("VIT_COURSE_WIDGETS", "1")
    monkeypatch.setattr(run_module.Run, "count_step", fail)
    with pytest.raises(FloatingPointError):
        trained(config=replace(CONFIG, quiet=False))
    assert [bar.disable for bar in bars] == [True]  # closed: its line has been wiped
    assert capsys.readouterr().err.endswith("\r")


@pytest.mark.parametrize("looks", ["0", "1"])
def test_a_quiet_training_in_a_notebook_shows_one_bar_with_its_estimate_to_who_looks(
    looks, monkeypatch, capsys
):
    monkeypatch.setenv("VIT_COURSE_WIDGETS", looks)
    monkeypatch.setattr(console, "kernel", object)
    monkeypatch.setattr(console, "SHORT", 0)
    trained()
    shown = capsys.readouterr()
    assert shown.out == "" and (" s:   0%" in shown.err) == (looks == "1")


FOREIGN = {
    "a list": lambda state: [1, 2, 3],
    "nothing": lambda state: {},
    "weights alone": lambda state: {"model": state["model"]},
    "no settings": lambda state: {key: value for key, value in state.items() if key != "settings"},
    "settings that are a number": lambda state: {**state, "settings": 3},
    "a history that is a number": lambda state: {**state, "history": 3},
    "a history with a field more": lambda state: {**state, "history": {**state["history"], "colour": "red"}},
    "another engine": lambda state: {**state, "history": {**state["history"], "engine": {"fuel": "coal"}}},
    "no weights": lambda state: {**state, "model": {}},
    "weights that are numbers": lambda state: {**state, "model": dict.fromkeys(state["model"], 1.0)},
    "weights of other shapes": lambda state: {
        **state,
        "model": {name: value[..., :1].clone() for name, value in state["model"].items()},
    },
    "no optimisers": lambda state: {**state, "optimizers": []},
    "an optimiser of no groups": lambda state: {**state, "optimizers": [{"state": {}, "param_groups": []}]},
    "no average": lambda state: {**state, "wrapper_states": {}},
    "a step that is a word": lambda state: {**state, "step": "seven"},
    "a step of another epoch": lambda state: {**state, "step": 1},
}


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    trained(folder)
    return load_checkpoint(folder / "checkpoint.pt")


@pytest.mark.parametrize("what", FOREIGN)
def test_a_checkpoint_with_a_valid_hash_and_foreign_content_is_refused_by_its_name(what, whole_run, tmp_path):
    save_checkpoint(tmp_path / "checkpoint.pt", FOREIGN[what](whole_run))
    with pytest.raises(ValueError) as refused:
        trained(tmp_path, resume=True)
    assert str(tmp_path / "checkpoint.pt") in str(refused.value)
    assert "\n" not in str(refused.value)


def test_objects_are_not_unpickled_from_a_checkpoint_with_a_valid_hash(tmp_path):
    path = tmp_path / "checkpoint.pt"
    content = pickle.dumps({"model": TrainConfig()}, protocol=2)
    path.write_bytes(checkpoint_module.MAGIC + hashlib.sha256(content).digest() + content)
    with pytest.raises(ValueError, match="checkpoint.pt does not fit this run"):
        load_checkpoint(path)


@pytest.mark.slow
@pytest.mark.weekly  # two processes that wait for each other, twice: a signal to one process is tested above
@pytest.mark.skipif(sys.platform == "win32", reason="a process on Windows cannot note that it should end")
def test_sigterm_to_torchrun_stops_both_processes_at_one_step_and_the_run_goes_on_from_there(tmp_path):
    options = [*LAUNCH, "--epochs=40", f"--out={tmp_path}", "--device=cpu"]
    first = subprocess.Popen([*SEVERAL, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 200
    while not (tmp_path / "checkpoint.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=120) != 0
    stopped = load_checkpoint(tmp_path / "checkpoint.pt")
    assert stopped["history"]["interrupted"] and 0 < stopped["step"] < 160
    subprocess.run([*SEVERAL, *options, "--resume"], check=True, timeout=240)
    history = load_checkpoint(tmp_path / "checkpoint.pt")["history"]
    assert len(history["step_loss"]) == 160 and not history["interrupted"]
    assert history["step_loss"][: stopped["step"]] == stopped["history"]["step_loss"]


def test_a_log_that_was_emptied_or_damaged_is_refused_by_name_and_one_that_was_deleted_goes_on(tmp_path):
    dataset, log = shapes10(40, 10), tmp_path / "log.jsonl"
    config = TrainConfig(epochs=2, batch_size=20, device="cpu", quiet=True)

    def resumed(epochs):
        torch.manual_seed(0)
        path = tmp_path / CHECKPOINT
        state = load_checkpoint(path)
        state["config"]["epochs"] = state["history"]["config"]["epochs"] = epochs
        save_checkpoint(path, state)
        return train(linear_classifier(dataset), dataset, replace(config, epochs=epochs), tmp_path, True)

    train(linear_classifier(dataset), dataset, config, tmp_path)
    whole = log.read_bytes()
    flipped = bytes([whole[0] ^ 0x80]) + whole[1:]
    words = r"log\.jsonl is damaged at line \d, and 2 epochs are done: delete it"
    wrong = whole.replace(b'"epoch": 2', b'"epoch": 3')
    for content in (b"", whole.splitlines(keepends=True)[0], flipped, wrong):
        log.write_bytes(content)
        with pytest.raises(ValueError, match=words):
            resumed(3)
    log.unlink()
    resumed(3)
    assert [json.loads(line)["epoch"] for line in log.read_text().splitlines()] == [3]
    resumed(4)
    assert [json.loads(line)["epoch"] for line in log.read_text().splitlines()] == [3, 4]


def test_the_papers_spelling_of_a_model_is_accepted():
    dataset = shapes10(20, 10)
    one, two = (build_model(name, dataset).state_dict() for name in ("ViT-Nano/8", "Nano/8"))
    assert {name: value.shape for name, value in one.items()} == {name: v.shape for name, v in two.items()}
