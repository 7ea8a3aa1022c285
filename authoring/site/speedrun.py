"""The table of `docs/speedrun.md`: what a plain ViT reaches at which cost, by the recorded runs. `build` writes it."""

import re
from pathlib import Path
from statistics import fmean

from vit_classroom.evidence.records import load_records

PAGE = Path("docs", "speedrun.md")
GROUP = "marks"
LIMITS = {"cpu": {"60": 2.5, "75": 9, "80": 18, "85": 60, "90": 480}, "gpu": {"90": 1, "94": 5}}
"""The marks, test accuracies in percent, each with the minutes in which it should be reached, of a core or of a GPU."""
COSTS = {"cpu": ("core-minutes", "cpu_seconds"), "gpu": ("minutes of a GPU", "seconds")}
COLUMNS = "mark | limit | test accuracy of each seed | mean | {} | parameters | commit | so it is"


def marks_text(root: Path) -> str:
    """Return a table in Markdown for each size, with what is needed to read it and to repeat the runs."""
    return "\n".join(size_text(root, size) for size in LIMITS)


def size_text(root: Path, size: str) -> str:
    """Return the table of one size and its notes."""
    runs = load_records(GROUP, size, root / "data" / "runs")
    unit, measured = COSTS[size]
    lines = [f"| {COLUMNS.format(unit)} |", "|---" * 8 + "|"]
    for mark, limit in LIMITS[size].items():
        lines.append(row(mark, limit, [run for run in runs if run["step"] == mark], measured))
    if not runs:
        return "\n".join([*lines, "", "No run is recorded yet."]) + "\n"
    data = sorted({re.sub(r", seed \d+$", "", run["data"]) for run in runs})
    command = f"`python -m experiments {GROUP} --size {size} --data cifar10 --again`"
    if size == "gpu":
        machine = "; ".join(sorted({f"{r['machine']}, torch {r['versions']['torch']}" for r in runs}))
        notes = [f"Data: {'; '.join(data)}.", f"Machine: {machine}.", f"Command: {command}."]
        notes.append("Limit and cost are the clock's minutes of the training.")
        return "\n".join([*lines, "", *notes]) + "\n"
    notes = [f"Data: {'; '.join(data)}.", f"Processor: {processors_text(runs)}."]
    for marks, group in (("60 to 80", "trials-quick"), ("85", "trials-long")):
        for r in load_records(group, runs=root / "data" / "runs"):
            new, known = (f"{100 * r[key]:.1f} %" for key in ("held_out_accuracy", "stored_accuracy"))
            text = f"For {marks} %, trial {r['step']}: {new} of held-out, {known} of stored training pictures"
            notes.append(f"{text}, {r['cpu_seconds'] / 60:.1f} core-minutes.")
    return "\n".join([*lines, "", *notes, f"Command: {command}. Limit and cost are core-minutes."]) + "\n"


def row(mark: str, limit: float, runs: list[dict], measured: str) -> str:
    """Return one row: a mark, its limit, and the runs that tried it; `measured` names the seconds that count."""
    cells = ["–"] * 5 + ["no run is recorded yet"]
    if runs:
        runs = sorted(runs, key=lambda run: run["config"]["seed"])
        scores = [100 * run["test_accuracy"] for run in runs]
        cost = fmean(run[measured] for run in runs) / 60
        high, cheap = fmean(scores) >= float(mark), cost <= limit
        cells = [
            ", ".join(f"{score:.1f}" for score in scores),
            f"{fmean(scores):.1f} %",
            f"{cost:.1f}",
            ", ".join(sorted({f"{run['parameters']:,}" for run in runs})),
            ", ".join(sorted({code for run in runs for code in run["code"].split(", ")})),
            "reached" if high and cheap else "reached, over the limit" if high else "missed",
        ]
    return f"| {' | '.join([f'{mark} %', f'{limit:g}', *cells])} |"


def processors_text(runs: list[dict]) -> str:
    """Say of each way in which marks were trained: processor, matrix units, precision with its rate, threads."""
    rates: dict[tuple[str, str, int], list[float]] = {}
    marks: dict[tuple[str, str, int], list[str]] = {}
    for run in runs:
        name = f"{run['processor']['name']}, {'with' if run['processor']['amx'] else 'without'} AMX"
        way = name, run["engine"]["precision"], run["threads"]
        rates.setdefault(way, []).append(run["processor"][f"{way[1]}_gflops"])
        marks.setdefault(way, []).append(run["step"])
    return "; ".join(
        f"{', '.join(sorted(set(marks[way])))} %: {way[0]}, {way[2]} thread(s) in {way[1]}, one of which does "
        f"{' to '.join(dict.fromkeys(f'{rate:.0f}' for rate in (min(found), max(found))))} GFLOP/s"
        for way, found in sorted(rates.items())
    )
