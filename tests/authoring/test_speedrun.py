"""The table of the speed run is made from records, and says where there are none."""

import json
from pathlib import Path

from authoring.site import speedrun
from authoring.site.pages import fill

PAGE = (Path(__file__).resolve().parents[2] / speedrun.PAGE).read_text(encoding="utf-8")
RUN = {
    "step": "60",
    "size": "cpu",
    "config": {"seed": 0},
    "data": "CIFAR-10, 50,000 train / 10,000 test pictures, seed 0",
}
RUN |= {"test_accuracy": 0.61, "cpu_seconds": 144.0, "parameters": 1_200_000, "code": "abc"}
RUN["processor"] = {"name": "a core", "amx": True, "bfloat16_gflops": 805.4, "float32_gflops": 90.2}
RUN |= {"engine": {"precision": "bfloat16"}, "threads": 1, "training_flops": 17_400_000_000_000}


def write(root, *changes, group=speedrun.GROUP, size="cpu"):
    folder = root / "data" / "runs" / size / group
    folder.mkdir(parents=True)
    for number, change in enumerate(changes):
        (folder / f"{number}.json").write_text(json.dumps(RUN | change), encoding="utf-8")


def test_a_mark_shows_every_seed_their_mean_and_whether_it_was_reached(tmp_path):
    scores = ((1, 0.62), (0, 0.6), (2, 0.595))
    seeds = [{"config": {"seed": seed}, "test_accuracy": score} for seed, score in scores]
    seeds[0]["starts"] = [{"processor": RUN["processor"] | {"bfloat16_gflops": 411.0}}]
    missed = {"step": "75", "test_accuracy": 0.749, "engine": {"precision": "float32"}, "threads": 2}
    slow = {"step": "80", "test_accuracy": 0.9, "training_flops": 131e12}
    slow["processor"] = RUN["processor"] | {"bfloat16_gflops": 790}
    write(tmp_path, *seeds, missed, slow)
    text = speedrun.marks_text(tmp_path)
    row = "| 60 % | 18 (2.5) | 60.0, 62.0, 59.5 | 60.5 | 17 | 2.4 | 411 to 805 | 1,200,000 | abc | reached |"
    assert row in text
    assert "| 75 % | 65 (9) | 74.9 | 74.9 | 17 | 2.4 | 90 |" in text and text.count("missed |") == 1
    assert "| 80 % | 130 (18) | 90.0 | 90.0 | 131 | 2.4 | 790 | 1,200,000 | abc | reached, but over" in text
    assert "| 88 % | 3,456 (480) | – | – | – | – | – | – | – | not tried yet |" in text
    assert "| 90 % | none | – |" in text
    assert "| 60, 80 % | a core, with AMX | bfloat16 | 1 | 790 to 805 |" in text
    assert "| 75 % | a core, with AMX | float32 | 2 | 90 |" in text
    assert "Data: CIFAR-10, 50,000 training images and 10,000 test images." in text and "--size cpu" in text
    assert "No run is recorded yet." in text  # of a GPU
    there = {"machine": "a GPU", "versions": {"torch": "2.11"}, "size": "gpu", "seconds": 240}
    write(tmp_path, there | {"step": "94", "test_accuracy": 0.945}, size="gpu")
    text = speedrun.marks_text(tmp_path)
    assert "| 94 % | 5 | 94.5 | 94.5 | 17 | 4.0 | 1,200,000 | abc | reached |" in text
    assert "| 90 % | 1 | – |" in text and "Machine: a GPU, torch 2.11." in text and "--size gpu" in text


def test_a_trial_shows_its_change_its_score_on_held_out_images_and_the_gap_to_training_images(tmp_path):
    tried = {"held_out_accuracy": 0.8385, "stored_accuracy": 0.9}
    tried["config"] = {"epochs": 28.0, "batch_size": 128, "lr": 0.003}
    shorter = {"config": tried["config"] | {"epochs": 2.222}}
    write(tmp_path, tried | {"step": "cutmix"}, tried | {"step": "new"}, group="trials-long")
    write(tmp_path, tried, tried | shorter, group="trials-quick")
    text = speedrun.trials_text(tmp_path)
    assert "| CutMix on every image | 28.0 | 83.9 | 6.1 | 17 |\n| new | 28.0 | 83.9 | 6.1 | 17 |" in text
    assert "| 2.2 | 128 | 0.003 | 83.9 | 6.1 | 17 |\n| 28.0 | 128 | 0.003 |" in text


def test_without_records_the_page_says_so(tmp_path):
    page = "a\n<!-- marks:begin -->\nold\n<!-- marks:end -->\nb\n"
    text = fill(page, "marks", speedrun.marks_text(tmp_path))
    assert text.startswith("a\n<!-- marks:begin -->\n### On a processor core\n\n| mark |") and text.endswith(
        "<!-- marks:end -->\nb\n"
    )
    assert "No run is recorded yet." in text and "old" not in text
    assert (
        fill(PAGE, "marks", "") != PAGE and fill(PAGE, "trials", "") != PAGE
    )  # it has places for the tables
