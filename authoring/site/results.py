"""The results in the README and in `docs/results.md`, from `data/runs/`, and the table of the shipped weights."""

import json
from math import inf
from pathlib import Path
from statistics import mean, stdev

from safetensors import safe_open

from authoring.site.pages import data_in_words
from vit_classroom.evidence.records import load_records
from vit_classroom.evidence.statistics import difference

CARD = Path("data", "checkpoints", "README.md")
PAGE = Path("docs", "results.md")
ROWS = {
    "linear classifier": ("comparison-8", "linear", "cpu"),
    "ViT, 2 minutes": ("comparison-2", "vit", "cpu"),
    "ResNet, 2 minutes": ("comparison-2", "resnet", "cpu"),
    "ViT, 8 minutes": ("comparison-8", "vit", "cpu"),
    "ResNet, 8 minutes": ("comparison-8", "resnet", "cpu"),
    "ViT, 28 epochs": ("marks", "85", "cpu"),
    "ViT, 52 epochs": ("marks", "90", "cpu"),
    "ViT, GPU": ("marks", "94", "gpu"),
}
"""What the page shows, where it is recorded: the group of each row, its name there, and the size."""
README_ROWS = {
    "linear classifier, CPU core": "linear classifier",
    "ResNet, CPU core": "ResNet, 8 minutes",
    "ViT, CPU core": "ViT, 8 minutes",
    "ViT, GPU": "ViT, GPU",
}
"""The rows of the README, by their names there."""
PAIRS = {
    ("ResNet, 2 minutes", "ViT, 2 minutes"): "",
    ("ResNet, 8 minutes", "ViT, 8 minutes"): "",
    ("ViT, 8 minutes", "ViT, 2 minutes"): "",
    ("ResNet, 8 minutes", "ResNet, 2 minutes"): "",
    ("ViT, 28 epochs", "ViT, 8 minutes"): "Many settings differ, too.",
    ("ViT, 52 epochs", "ViT, 28 epochs"): "The second model is larger, and other settings differ, too.",
    ("ViT, GPU", "ViT, 52 epochs"): "The recipe is another one, too.",
}
"""The pairs that the page compares, each with what else is to be known."""
OPTIMISERS = {"adamw": "AdamW", "sgd": "SGD", "muon": "Muon"}
NONE = "No comparison is recorded yet, so there is no number here.\n"


def recorded(root: Path) -> dict[str, list[dict]]:
    """Read the runs of each row; rows without any are left out."""
    found = {
        name: [run for run in load_records(group, size, root / "data" / "runs") if run["step"] == step]
        for name, (group, step, size) in ROWS.items()
    }
    return {name: runs for name, runs in found.items() if runs}


def results_text(root: Path) -> str:
    """Return the README's table in Markdown, and the conclusion below it."""
    runs = recorded(root)
    lines = ["| trained on CIFAR-10 | test accuracy | minutes |", "|---|---|---|"]
    for name, row in README_ROWS.items():
        if row in runs:
            alone = " (one run)" if len(runs[row]) == 1 else ""
            lines.append(f"| {name}{alone} | {mean(scores(runs[row])):.1f} % | {minutes(runs[row])} |")
    return "\n".join([*lines, "", *conclusion(runs)]) + "\n" if len(lines) > 2 else NONE


def conclusion(runs: dict[str, list[dict]]) -> list[str]:
    """Say in one sentence each what the rows of the README show; nothing where runs are missing."""
    found, vit, resnet = [], "ViT, 8 minutes", "ResNet, 8 minutes"
    if {vit, resnet} <= runs.keys():
        gap, low, high = difference(scores(runs[resnet]), scores(runs[vit]))
        first, second = ("ResNet", "ViT") if gap > 0 else ("ViT", "ResNet")
        shown = f"the {first} is {abs(gap):.0f} points better than the {second}"
        if low <= 0 <= high:
            shown = "the runs do not show a difference between ResNet and ViT"
        found.append(f"After equal searches, with equal budgets of one core, {shown}.")
    if {vit, "ViT, GPU"} <= runs.keys():
        (large, *_), (small, *_) = runs["ViT, GPU"], runs[vit]
        times = large["training_flops"] / small["training_flops"]
        reached = f"{mean(scores(runs['ViT, GPU'])):.1f} % on a GPU"
        found.append(f"With {times:.0f} times the computation, a larger ViT reaches {reached}.")
    return [" ".join(found)] * bool(found)


def results_long_text(root: Path) -> str:
    """Return the two tables of `docs/results.md` in Markdown: accuracy and cost, then models and recipes."""
    runs = recorded(root)
    if not runs:
        return NONE
    costs = ["| model | test accuracy (%) | runs | minutes | training TFLOP |", "|---" * 5 + "|"]
    models = ["| model | name in the code | parameters | epochs | optimiser |", "|---" * 5 + "|"]
    for name, some in runs.items():
        first, spread = some[0], f" ± {stdev(scores(some)):.1f}" if len(some) > 1 else ""
        tflop = f"{first['training_flops'] / 1e12:,.1f}"
        time = "GPU: " * (first["size"] == "gpu") + minutes(some)
        costs.append(f"| {name} | {mean(scores(some)):.1f}{spread} | {len(some)} | {time} | {tflop} |")
        model = ", ".join([f"`{first['model']}`", *(f"`{change}`" for change in changes(first))])
        recipe = f"{first['config']['epochs']:g} | {OPTIMISERS[first['config']['optimizer']]}"
        models.append(f"| {name} | {model} | {first['parameters']:,} | {recipe} |")
    held = [f"{name}{held_out(some[0])}." for name, some in runs.items() if held_out(some[0])]
    data = sorted({data_in_words(run["data"]) for some in runs.values() for run in some})
    return "\n".join([*costs, "", *models, "", " ".join([f"Data: {' / '.join(data)}.", *held])]) + "\n"


def conclusions_text(root: Path) -> str:
    """Return the table of `docs/results.md` that says of each pair how much better one model is, and at what cost."""
    runs = recorded(root)
    lines = ["| pair | conclusion |", "|---|---|"]
    for (first, second), note in PAIRS.items():
        if {first, second} <= runs.keys():
            words = f"{compared(runs, first, second)} {note}".strip()
            lines.append(f"| {first} / {second} | {words} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else NONE


def compared(runs: dict[str, list[dict]], first: str, second: str) -> str:
    """Say in a sentence how far one model is ahead of another over the seeds, and how many times the operations."""
    gap, low, high = difference(scores(runs[first]), scores(runs[second]))
    times = runs[first][0]["training_flops"] / runs[second][0]["training_flops"]
    if low == -inf:
        how = f"{first} is {gap:.1f} points higher, but one of them is a single run"
    elif low <= 0 <= high:
        how = "The runs do not show a difference"
    else:
        better, ends = (first, (low, high)) if gap > 0 else (second, (-high, -low))
        how = f"{better} is better by {ends[0]:.1f} to {ends[1]:.1f} points"
    return f"{how}. The first used {times:.1f} times the computation of the second."


def scores(runs: list[dict]) -> list[float]:
    """Return the test accuracies in percent, one for each seed."""
    return [100 * run["test_accuracy"] for run in runs]


def minutes(runs: list[dict]) -> str:
    """Return the budget in core-minutes that gave the runs their steps; without one the minutes of the quickest."""
    group, _, budget = runs[0]["group"].partition("-")
    if group == "comparison" and runs[0]["step"] != "linear":
        return f"{float(budget):.1f}"
    return f"{min(map(cost, runs)) / 60:.1f}"


def cost(run: dict) -> float:
    """Return the seconds of a run: the processor's where they are known, the clock's of a GPU and of older runs."""
    return run["seconds"] if run["size"] == "gpu" else run.get("cpu_seconds", run["seconds"])


def changes(run: dict) -> list[str]:
    """List the options that differ from the named model."""
    return [f"{name} {value}" for name, value in run["options"].items()]


def held_out(run: dict) -> str:
    """Say how many of its training images a run held out, or nothing."""
    count = run["config"]["validation"]
    return f": {count:,} of the training images were held out" if count else ""


def weights_text(root: Path) -> str:
    """Return the table of the shipped weights in Markdown: what their files say."""
    lines = ["| name | model | parameters | trained on | epochs | test accuracy |", "|---" * 6 + "|"]
    for path in sorted((root / CARD).parent.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            info = json.loads(file.metadata()["about"])
        epochs, data = info["config"]["epochs"], data_in_words(info["data"])
        cells = (
            f"`{path.stem}`",
            info["model"] + (f" ({', '.join(changes(info))})" if info["options"] else ""),
            f"{info['parameters']:,}",
            data + held_out(info),
            f"{info['epoch']} of {epochs:g}" if "epoch" in info else f"{epochs:g}",
            f"{info['test_accuracy']:.1%}".replace("%", " %"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
