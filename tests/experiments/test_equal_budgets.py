"""Tables and curves of the comparison at equal budgets, on made-up records."""

import pytest

from experiments import search
from vit_classroom.evidence import equal_budgets
from vit_classroom.evidence import records as kept_records
from vit_classroom.evidence.records import write_record


def run(step, score, seed=0, fraction=1.0, **more):
    config = {
        "seed": seed,
        "epochs": 5.5,
        "batch_size": 100,
        "validation": 0,
        "optimizer": "muon",
        "lr": 3e-3,
    }
    record = {
        "step": step,
        "test_accuracy": score,
        "fraction": fraction,
        "config": config | more.pop("config", {}),
    }
    record |= {"parameters": 78_000, "training_flops": 79_400_000_000_000, "cpu_seconds": 600.0}
    return record | {"data": "CIFAR-10, 50,000 train / 10,000 test pictures"} | more


TWO = [run("vit", 0.5), run("vit", 0.52, 1), run("resnet", 0.6), run("resnet", 0.62, 1)]
EIGHT = [run("vit", 0.7, 1), run("vit", 0.71, 0), run("resnet", 0.7), run("vit-width-64", 0.9)]
SHARES = [
    run("vit-1", 0.3, fraction=0.01, train_accuracy=[0.5, 0.99]),
    run("vit-1", 0.32, 1, fraction=0.01, train_accuracy=[0.5, 0.97]),
    run("hybrid-1", 0.4, fraction=0.01, train_accuracy=[0.9]),
    run("hybrid-1", 0.44, 1, fraction=0.01, train_accuracy=[0.9]),
    run("vit-100", 0.8, train_accuracy=[0.7]),
    run("vit-100-longer", 0.85, train_accuracy=[0.7]),
]


def test_accuracy_over_cost_has_a_line_a_model_and_all_its_seeds_and_no_trial():
    found = equal_budgets.accuracy_over_cost({8: EIGHT, 2: TWO})
    assert list(found) == ["ViT", "ResNet"] and list(found["ViT"]) == [2, 8]
    assert found["ViT"][8] == pytest.approx([70, 71]) and found["ResNet"] == {
        2: pytest.approx([60, 62]), 8: pytest.approx([70]),
    }  # fmt: skip


def test_a_row_of_the_comparison_has_cost_throughput_and_each_seed_in_order():
    row = equal_budgets.budget_table({8: EIGHT})[0]
    shown = dict(zip(equal_budgets.BUDGET_COLUMNS, row, strict=True))
    assert shown["TFLOP"] == 79 and shown["core-minutes as run"] == "10.0"
    assert shown["images per second"] == round(5.5 * 50_000 / 480)
    assert shown["each seed, %"] == "71.0, 70.0" and shown["mean in %"] == "70.5"


def test_gaps_follow_the_rule_of_the_course_and_one_seed_decides_nothing():
    two, eight = equal_budgets.gap_table({8: EIGHT, 2: TWO}, "resnet", "vit")
    assert two[:2] == ["2 core-minutes", "+10.0"] and two[3] == "ahead"
    assert eight[2:] == ["unknown", "unknown, one seed"]
    assert equal_budgets.gap_table({2: TWO}, "vit", "resnet")[0][3] == "behind"
    assert equal_budgets.gap_table({2: TWO}, "vit", "hybrid") == []


def test_a_learning_curve_counts_core_minutes_and_its_last_epoch_ends_at_the_budget():
    records = [*EIGHT, run("vit-curve", 0.7, val_accuracy=[0.1, 0.4, 0.5], config={"epochs": 2.5})]
    ((minutes, scores),) = equal_budgets.learning_curves(records).values()
    assert minutes == pytest.approx([3.2, 6.4, 8]) and scores == pytest.approx([10, 40, 50])


def test_fractions_are_collected_by_model_and_share_and_what_ran_longer_stands_apart():
    found = equal_budgets.by_share(SHARES)
    assert found == {
        "ViT": {1: pytest.approx([30, 32]), 100: pytest.approx([80])},
        "hybrid": {1: pytest.approx([40, 44])},
    }
    assert equal_budgets.by_share(SHARES, "train_accuracy")["ViT"][1] == pytest.approx([99, 97])
    rows = equal_budgets.share_gaps(found, "hybrid", "ViT")
    assert [row[:2] for row in rows] == [["1 % of the images", "+11.0"]]
    assert equal_budgets.longer(SHARES) == [["ViT", "100", "80.0", "85.0", "+5.0"]]


def test_budgets_without_records_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_records, "RUNS", tmp_path)
    write_record(tmp_path / "cpu/comparison-8/vit-seed0.json", EIGHT[0])
    assert equal_budgets.load_budgets() == {8: [EIGHT[0]]}


def written(folder, group, runs):
    for run in runs:
        write_record(
            folder / f"cpu/{group}/{run['step']}-seed{run['config']['seed']}.json", run | {"group": group}
        )


def test_the_list_of_the_search_has_a_row_a_trial_and_a_star_at_the_best_of_each_model():
    vit = [run("sgd-0.03", 0, held_out_accuracy=0.5), run("width-128", 0, held_out_accuracy=0.61)]
    resnet = [run("width-64", 0, held_out_accuracy=0.7), run("half", 0, held_out_accuracy=0.65)]
    rows = {row[0]: row[1:] for row in equal_budgets.search_table({"ViT": vit, "ResNet": resnet})}
    assert len(rows) == 13 and rows["SGD, learning rate 0.03"] == ["50.0", "–"]
    assert rows[equal_budgets.TRIALS["wide"]] == ["61.0 *", "70.0 *"]
    assert rows[equal_budgets.TRIALS["half"]] == ["–", "65.0"]
    assert {name for row in rows.values() for name in row if "*" in name} == {"61.0 *", "70.0 *"}


@pytest.mark.parametrize("family", search.FAMILIES)
def test_the_rows_of_the_search_are_the_trials_of_its_list(family):
    widths = {search.width_name(family, width) for width in (search.WIDTHS[0], 2 * search.FIRST_WIDTH)}
    steps = {f"{name}-{rate:g}" for name, rates in search.RATES.items() for rate in rates} | widths
    assert {equal_budgets.WIDTHS.get(step, step) for step in (*steps, "linear", "half")} == set(
        equal_budgets.TRIALS
    )


def test_positions_are_compared_on_drawings_on_photos_and_on_shifted_photos(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_records, "RUNS", tmp_path)
    scores = {"drawn-none": 0.8, "drawn-learned": 0.5, "none": 0.6}
    probes = {"probes": {"shift": {"0": 0.6, "8": 0.55}}}
    none = [run(step, score, seed, **probes) for step, score in scores.items() for seed in range(3)]
    written(tmp_path, "no-positions", none)
    usual = [run("vit", 0.7, seed, probes={"shift": {"8": 0.5}}) for seed in range(3)]
    written(tmp_path, "comparison-8", usual)
    drawings, photos, shifted = equal_budgets.rows_of_positions()
    assert drawings[1:4] == ["50.0", "80.0", "-30.0"] and drawings[-1] == "behind"
    assert photos[1:4] == ["70.0", "60.0", "+10.0"] and shifted[1:4] == ["50.0", "55.0", "-5.0"]
