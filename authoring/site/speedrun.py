"""The table of `docs/speedrun.md`: what a plain ViT reaches at which cost, by the recorded runs. `build` writes it."""

import re
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

from vit_classroom.evidence.records import load_records

PAGE = Path("docs", "speedrun.md")
GROUP = "marks"
LIMITS = {"cpu": {"60": 2.5, "75": 9, "80": 18, "85": 60, "88": 480, "90": None}, "gpu": {"90": 1, "94": 5}}
"""The marks, test accuracies in percent, each with the minutes in which it should be reached, of an undisturbed core or
of a GPU; an open challenge has none."""
COSTS = {"cpu": ("core-minutes", "cpu_seconds"), "gpu": ("minutes of a GPU", "seconds")}
COLUMNS = (
    "mark | limit, {} | test accuracy of each seed | mean | TFLOP | {} | GFLOP/s of the core | parameters | commit | "
    "result"
)
CORE = 120
"""GFLOP/s of training that an undisturbed core does: by it a limit in core-minutes is one in TFLOP."""


LIMITS_TEXT = (
    f"A limit is TFLOP of training: those that an undisturbed core does in the core-minutes, at {CORE} GFLOP/s. "
    "GFLOP/s of the core is the rate of a matrix product at the start and the end of a run."
)


def marks_text(root: Path) -> str:
    """Return a table in Markdown for each size, with what is needed to read it and to repeat the runs."""
    return "\n".join(size_text(root, size) for size in LIMITS)


def size_text(root: Path, size: str) -> str:
    """Return the table of one size and its notes."""
    runs = load_records(GROUP, size, root / "data" / "runs")
    unit, measured = COSTS[size]
    limits = "TFLOP (core-minutes)" if size == "cpu" else "minutes"
    lines = [f"| {COLUMNS.format(limits, unit)} |", "|---" * 10 + "|"]
    for mark, limit in LIMITS[size].items():
        lines.append(row(mark, limit, [run for run in runs if run["step"] == mark], size))
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
    return "\n".join([*lines, "", *notes, f"Command: {command}.", LIMITS_TEXT]) + "\n"


def row(mark: str, limit: float | None, runs: list[dict], size: str) -> str:
    """Return one row: a mark, its limit, and the runs that tried it."""
    cells = ["–"] * 7 + ["no run is recorded yet"]
    tera = (limit or 0) * 60 * CORE / 1000
    allowed = "open" if limit is None else f"{limit:g}" if size == "gpu" else f"{tera:.0f} ({limit:g})"
    if runs:
        runs = sorted(runs, key=lambda run: run["config"]["seed"])
        scores = [100 * run["test_accuracy"] for run in runs]
        cost = fmean(run[COSTS[size][1]] for run in runs) / 60
        work = fmean(run["training_flops"] for run in runs) / 1e12
        high, cheap = (
            fmean(scores) >= float(mark),
            limit is None or (cost <= limit if size == "gpu" else work <= tera),
        )
        cells = [
            ", ".join(f"{score:.1f}" for score in scores),
            f"{fmean(scores):.1f} %",
            f"{work:,.0f}",
            f"{cost:.1f}",
            "–" if size == "gpu" else span(rate for run in runs for rate in core_rates(run)),
            ", ".join(sorted({f"{run['parameters']:,}" for run in runs})),
            ", ".join(sorted({code for run in runs for code in run["code"].split(", ")})),
            "reached" if high and cheap else "reached, over the limit" if high else "missed",
        ]
    return f"| {' | '.join([f'{mark} %', allowed, *cells])} |"


def core_rates(run: dict) -> list[float]:
    """Return the rates of the core in the precision of a run, at each of its starts that is recorded and at its end."""
    found = [one["processor"] for one in run.get("starts", [])] + [run["processor"]]
    return [one[f"{run['engine']['precision']}_gflops"] for one in found]


def span(rates: Iterable[float]) -> str:
    """Write the lowest and the highest of some rates, or the one that they are."""
    rates = list(rates)
    return " to ".join(dict.fromkeys(f"{rate:.0f}" for rate in (min(rates), max(rates))))


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
        f"{span(found)} GFLOP/s"
        for way, found in sorted(rates.items())
    )
