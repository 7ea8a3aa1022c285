"""The results table of the README, from `data/runs/`, and the table of the shipped weights. `build` writes both."""

import json
import re
from pathlib import Path
from statistics import mean, stdev

from safetensors import safe_open

from vit_classroom.evidence.records import load_records

CARD = Path("data", "checkpoints", "README.md")
ROWS = {
    "linear classifier": ("comparison", "linear", "cpu"),
    "ViT, first settings": ("comparison-first", "vit", "cpu"),
    "ResNet, first settings": ("comparison-first", "resnet", "cpu"),
    "ViT, searched": ("comparison", "vit", "cpu"),
    "ResNet, searched": ("comparison", "resnet", "cpu"),
    "ViT, longer": ("marks", "85", "cpu"),
    "ViT, longest": ("marks", "90", "cpu"),
    "ViT, on a GPU": ("marks", "94", "gpu"),
}
"""What the table shows, where it is recorded: the group of each row, its name there, and the size."""


def results_text(root: Path) -> str:
    """Return the table in Markdown, with all that is needed to read it."""
    found = {
        name: [run for run in load_records(group, size, root / "data" / "runs") if run["step"] == step]
        for name, (group, step, size) in ROWS.items()
    }
    shown = {name: some for name, some in found.items() if some}
    if not shown:
        return "No comparison is recorded yet, so there is no number here.\n"
    columns = "model | parameters | epochs | optimiser | TFLOP of training | core-minutes, quickest run | test accuracy"
    lines = [f"| {columns} |", "|---" * 7 + "|", *(row(name, some) for name, some in shown.items())]
    every = [run for some in shown.values() for run in some]
    machines = sorted({f"{run['machine']}, {run['threads']} thread(s)" for run in every})
    data = sorted({re.sub(r", seed \d+$", "", run["data"]) for run in every})
    held = "".join(f" {name}{held_out(some[0])}." for name, some in shown.items() if held_out(some[0]))
    notes = (
        f"Data: {' / '.join(data)}.{held} No model saw other pictures; each is scored after its last epoch. "
        f"Machine: {'; '.join(machines)}. Do not compare minutes of different processors: each record names its own. "
        "A GPU's are the clock's, as in early runs. Accuracy: mean of the seeds, and their sample standard deviation. "
        "What is not equal: [lesson 08](notebooks/08_vit_against_resnet.ipynb); every run with its recipe, curves and "
        "commit: [data/runs](data/runs)."
    )
    return "\n".join([*lines, "", notes]) + "\n"


def row(name: str, runs: list[dict]) -> str:
    """Return one row: what all seeds of a model share, the mean of their accuracies, and the quickest time."""
    first, scores = runs[0], [100 * run["test_accuracy"] for run in runs]
    spread = f" ± {stdev(scores):.1f} ({len(scores)} seeds)" if len(scores) > 1 else " (1 seed)"
    size = "" if first["model"] == "linear" else f" ({', '.join([first['model'], *changes(first)])})"
    cells = (
        f"{name}{size}",
        f"{first['parameters']:,}",
        f"{first['config']['epochs']:g}",
        {"adamw": "AdamW", "sgd": "SGD", "muon": "Muon"}[first["config"]["optimizer"]],
        f"{first['training_flops'] / 1e12:,.1f}",
        "GPU: " * (first["size"] == "gpu") + f"{min(map(cost, runs)) / 60:.1f}",
        f"{mean(scores):.1f} %{spread}",
    )
    return f"| {' | '.join(cells)} |"


def cost(run: dict) -> float:
    """Return the seconds of a run: the processor's where they are known, the clock's of a GPU and of older runs."""
    return run["seconds"] if run["size"] == "gpu" else run.get("cpu_seconds", run["seconds"])


def changes(run: dict) -> list[str]:
    """List what a run's model has otherwise than its name says."""
    return [f"{name} {value}" for name, value in run["options"].items()]


def held_out(run: dict) -> str:
    """Say how many of its training pictures a run held out, or nothing."""
    count = run["config"]["validation"]
    return f": {count:,} of the training pictures were held out" if count else ""


def weights_text(root: Path) -> str:
    """Return the table of the shipped weights in Markdown: what their files say."""
    lines = ["| name | model | parameters | trained on | epochs | test accuracy |", "|---" * 6 + "|"]
    for path in sorted((root / CARD).parent.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            info = json.loads(file.metadata()["about"])
        epochs, data = info["config"]["epochs"], re.sub(r"(, seed \d+|; subset .*)", "", info["data"])
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
