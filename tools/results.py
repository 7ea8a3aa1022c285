"""The results table of the README, from the recorded runs in `data/runs/`. `build` writes it."""

import re
from pathlib import Path
from statistics import mean, stdev

from vit_course.experiments.records import load_records

TABLE = re.compile(r"(<!-- results:begin -->\n).*?(<!-- results:end -->)", re.DOTALL)
NAMES = {"vit": "ViT", "resnet": "ResNet"}


def results_text(root: Path) -> str:
    """Return the table of the comparison of lesson 08 in Markdown, with all that is needed to read it."""
    runs = load_records("comparison", runs=root / "data" / "runs")
    if not runs:
        return "No comparison is recorded yet, so there is no number here.\n"
    lines = ["| model | parameters | GFLOP a picture | TFLOP of training | minutes | test accuracy |"]
    lines.append("|---|---|---|---|---|---|")
    for step, name in NAMES.items():
        found = [run for run in runs if run["step"] == step]
        if found:
            lines.append(row(name, found))
    first = runs[0]
    machines = sorted({f"{run['machine']}, {run['threads']} thread(s)" for run in runs})
    notes = (
        f"Data: {first['data']}. {first['config']['epochs']} epochs, batches of {first['config']['batch_size']}, "
        f"the last epoch counts. Machine: {'; '.join(machines)}, torch {first['versions']['torch']}. Accuracy: mean of "
        "the seeds, and their sample standard deviation. How it was made, and what is not equal: "
        "[lesson 08](notebooks/08_vit_against_resnet.ipynb); every run in full: [data/runs](data/runs)."
    )
    if first["size"] == "cpu":
        notes += (
            " These runs are small on purpose, a fifth of the pictures and a few minutes on one core: they show how a "
            "comparison is made, and not which kind of model is better."
        )
    return "\n".join([*lines, "", notes]) + "\n"


def row(name: str, runs: list[dict]) -> str:
    """Return one row: the mean over the seeds of a model."""
    first, scores = runs[0], [100 * run["test_accuracy"] for run in runs]
    spread = f" ± {stdev(scores):.1f}" if len(scores) > 1 else ""
    minutes = mean(run["seconds"] for run in runs) / 60
    return (
        f"| {name} ({first['model']}) | {first['parameters']:,} | {first['forward_flops'] / 1e9:.4f} | "
        f"{first['training_flops'] / 1e12:,.1f} | {minutes:.1f} | {mean(scores):.1f} %{spread} ({len(scores)} seeds) |"
    )


def with_results(text: str, root: Path) -> str:
    """Return a README with the current results between its marks, or as it is if it has none."""
    return TABLE.sub(lambda match: match[1] + results_text(root) + match[2], text)
