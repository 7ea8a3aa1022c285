"""The tables of `docs/speedrun.md`: what a plain ViT reaches at which cost. `build` writes them from the records."""

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

from authoring.site.pages import data_in_words, table
from vit_classroom.evidence.records import load_records

PAGE = Path("docs", "speedrun.md")
GROUP = "marks"
LIMITS = {"cpu": {"60": 2.5, "75": 9, "80": 18, "85": 60, "88": 480, "90": None}, "gpu": {"90": 1, "94": 5}}
"""The marks, test accuracies in percent, each with the minutes in which it should be reached, of an undisturbed core or
of a GPU; an open challenge has none."""
TITLES = {"cpu": "On a processor core", "gpu": "On a GPU"}
COSTS = {"cpu": ("core-minutes", "cpu_seconds"), "gpu": ("minutes", "seconds")}
CORE = 120
"""GFLOP/s of training that an undisturbed core does: by it a limit in core-minutes is one in TFLOP."""
NOT_TRIED = "not tried yet"

LIMITS_TEXT = (
    f"A limit is the number of operations that an undisturbed core, at {CORE} GFLOP/s, does in the core-minutes in "
    "brackets. The speed of the core is the rate of a matrix product, measured at the start and at the end of a run."
)
CLOCK_TEXT = "Limits and minutes are those of the clock, for the whole training."
CHANGES = {
    "base": "no change",
    "cutmix": "CutMix on every image",
    "cutmix-0.2": "CutMix, with boxes that are mostly tiny or nearly the whole image",
    "mixup-0.2": "MixUp, mostly with a small share of the second image",
    "erasing-drop-path": "random erasing and drop path",
    "width-96": "a smaller model, with 96 numbers in a token",
}
"""What each trial for 85 % changes in the recipe of that mark."""


def marks_text(root: Path) -> str:
    """Return a table in Markdown for each size, with what is needed to read it and to repeat the runs."""
    return "\n".join(size_text(root, size) for size in LIMITS)


def size_text(root: Path, size: str) -> str:
    """Return the table of one size and its notes."""
    runs = load_records(GROUP, size, root / "data" / "runs")
    rows = [
        row(mark, limit, [run for run in runs if run["step"] == mark], size)
        for mark, limit in LIMITS[size].items()
    ]
    marks = f"### {TITLES[size]}\n\n{table(columns(size), rows)}\n"
    if not runs:
        return f"{marks}\nNo run is recorded yet.\n"
    data = sorted({data_in_words(run["data"]) for run in runs})
    command = f"`python -m experiments {GROUP} --size {size} --data cifar10 --again`"
    notes = [LIMITS_TEXT if size == "cpu" else CLOCK_TEXT, "", f"- Data: {'; '.join(data)}."]
    if size == "gpu":
        machines = sorted({f"{run['machine']}, torch {run['versions']['torch']}" for run in runs})
        notes.append(f"- Machine: {'; '.join(machines)}.")
    notes.append(f"- Command: {command}.")
    more = "" if size == "gpu" else f"\n{processors_table(runs)}\n"
    return marks + "\n" + "\n".join(notes) + "\n" + more


def columns(size: str) -> list[str]:
    """Return the header of the table of marks."""
    limit = "limit, TFLOP (core-minutes)" if size == "cpu" else "limit (minutes)"
    speed = ["speed of the core (GFLOP/s)"] if size == "cpu" else []
    scores = ["test accuracy of each seed (%)", "mean (%)"]
    return ["mark", limit, *scores, "TFLOP", COSTS[size][0], *speed, "parameters", "commit", "result"]


def row(mark: str, limit: float | None, runs: list[dict], size: str) -> list[str]:
    """Return one row: a mark, its limit, and the runs that tried it."""
    tera = (limit or 0) * 60 * CORE / 1000
    allowed = "none" if limit is None else f"{limit:g}" if size == "gpu" else f"{tera:,.0f} ({limit:g})"
    if not runs:
        return [f"{mark} %", allowed, *["–"] * (len(columns(size)) - 3), NOT_TRIED]
    runs = sorted(runs, key=lambda run: run["config"]["seed"])
    scores = [100 * run["test_accuracy"] for run in runs]
    cost = fmean(run[COSTS[size][1]] for run in runs) / 60
    work = fmean(run["training_flops"] for run in runs) / 1e12
    high = fmean(scores) >= float(mark)
    cheap = limit is None or (cost <= limit if size == "gpu" else work <= tera)
    return [
        f"{mark} %",
        allowed,
        ", ".join(f"{score:.1f}" for score in scores),
        f"{fmean(scores):.1f}",
        f"{work:,.0f}",
        f"{cost:.1f}",
        *([span(rate for run in runs for rate in core_rates(run))] if size == "cpu" else []),
        ", ".join(sorted({f"{run['parameters']:,}" for run in runs})),
        ", ".join(sorted({code for run in runs for code in run["code"].split(", ")})),
        "reached" if high and cheap else "reached, but over the limit" if high else "missed",
    ]


def core_rates(run: dict) -> list[float]:
    """Return the rates of the core in the precision of a run, at each of its starts that is recorded and at its end."""
    found = [one["processor"] for one in run.get("starts", [])] + [run["processor"]]
    return [one[f"{run['engine']['precision']}_gflops"] for one in found]


def span(rates: Iterable[float]) -> str:
    """Write the lowest and the highest of some rates, or the one that they are."""
    rates = list(rates)
    return " to ".join(dict.fromkeys(f"{rate:.0f}" for rate in (min(rates), max(rates))))


def processors_table(runs: list[dict]) -> str:
    """Return a row for each way in which marks were trained: processor, precision, threads, and the speed of one."""
    rates: dict[tuple[str, str, int], list[float]] = {}
    marks: dict[tuple[str, str, int], list[str]] = {}
    for run in runs:
        name = f"{run['processor']['name']}, {'with' if run['processor']['amx'] else 'without'} AMX"
        way = name, run["engine"]["precision"], run["threads"]
        rates.setdefault(way, []).append(run["processor"][f"{way[1]}_gflops"])
        marks.setdefault(way, []).append(run["step"])
    rows = [
        [f"{', '.join(sorted(set(marks[way])))} %", *way, span(found)] for way, found in sorted(rates.items())
    ]
    return table(["marks", "processor", "precision", "threads", "speed of one thread (GFLOP/s)"], rows)


def trials_text(root: Path) -> str:
    """Return a table in Markdown of the trials for the first marks, and one of the trials for 85 %."""
    quick, long = (
        load_records(group, runs=root / "data" / "runs") for group in ("trials-quick", "trials-long")
    )
    rows = sorted([*settings(run), *scores(run)] for run in quick)
    changes = [[CHANGES.get(run["step"], run["step"]), settings(run)[0], *scores(run)] for run in long]
    columns = ["held-out accuracy (%)", "gap to training accuracy (points)", "TFLOP"]
    return (
        f"Trials for the marks of 60 to 80 %:\n\n{table(['epochs', 'batch size', 'learning rate', *columns], rows)}\n\n"
        f"Trials for the mark of 85 %:\n\n{table(['change', 'epochs', *columns], changes)}\n"
    )


def settings(run: dict) -> tuple[float, int, float]:
    """Return epochs, batch size and learning rate of a trial."""
    return round(run["config"]["epochs"], 1), run["config"]["batch_size"], run["config"]["lr"]


def scores(run: dict) -> tuple[str, str, str]:
    """Return the accuracy of a trial on held-out images, its distance from that on training images, and the cost."""
    held_out, known = (100 * run[key] for key in ("held_out_accuracy", "stored_accuracy"))
    return f"{held_out:.1f}", f"{known - held_out:.1f}", f"{run['training_flops'] / 1e12:.0f}"
