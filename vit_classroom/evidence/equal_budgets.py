"""How lessons 08 and 11 read the comparison at equal budgets: search, accuracy over cost, learning curves, fractions.

The records are those of `experiments.search` and `experiments.after_search`. A budget is a number of core-minutes that
was turned into steps once, by the times of one core. What a run cost the core that it had is shown beside it.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from vit_classroom.evidence.records import load_records, training_pictures
from vit_classroom.evidence.statistics import difference, from_to, signed, undecided

Record = Mapping[str, Any]
FAMILIES = {"vit": "ViT", "resnet": "ResNet", "hybrid": "hybrid"}
BUDGETS = (2, 8, 24)
"""Core-minutes of the groups "comparison-2", "comparison-8" and "comparison-24"."""
SEARCHES = {"vit": "search-vit", "resnet": "search-resnet", "hybrid": "search-hybrid"}
"""Group of the trials of each family."""
TRIALS = {
    **{f"sgd-{rate:g}": f"SGD, learning rate {rate:g}" for rate in (0.03, 0.1, 0.3)},
    **{f"adamw-{rate:g}": f"AdamW, learning rate {rate:g}" for rate in (1e-3, 3e-3, 9e-3)},
    **{f"muon-{rate:g}": f"Muon, learning rate {rate:g}" for rate in (1e-3, 3e-3, 9e-3)},
    "narrow": "the best of these, half the width",
    "wide": "the best of these, twice the width",
    "linear": "the best so far, learning rate in a straight line",
    "half": "the best so far, half of the positions in the first part",
}
"""The thirteen trials of each side, in the order of the list."""
WIDTHS = {"width-16": "narrow", "width-32": "narrow", "width-64": "wide", "width-128": "wide"}
"""Trials of the width by their names: the ViT's and the hybrid's base is 64, the ResNet's 32."""
NO_POSITIONS = "no-positions"
BUDGET_COLUMNS = [
    "core-minutes", "model", "parameters", "epochs", "TFLOP", "images per second", "core-minutes as run",
    "each seed, %", "mean in %",
]  # fmt: skip
GAP_COLUMNS = ["", "difference (points)", "95 % interval", "result"]
LONGER_COLUMNS = ["model", "images (%)", "usual steps (%)", "twice as many (%)", "difference (points)"]
POSITION_COLUMNS = ["test images", "with positions (%)", "without (%)", *GAP_COLUMNS[1:]]


def load_searches(families: Sequence[str] = ("vit", "resnet")) -> dict[str, list[Record]]:
    """Read the trials of the equal search as far as they are recorded, by the name of the model."""
    return {FAMILIES[family]: load_records(SEARCHES[family], "cpu") for family in families}


def search_table(searches: Mapping[str, Sequence[Record]]) -> list[list[str]]:
    """Write the list of the search as rows: the trial, and for each model its held-out accuracy in percent.

    The best of each model has a star; a trial that is not recorded has a dash.
    """
    columns = []
    for trials in searches.values():
        found = {WIDTHS.get(run["step"], run["step"]): 100 * run["held_out_accuracy"] for run in trials}
        best = max(found, key=found.__getitem__, default=None)
        columns.append({name: f"{score:.1f}{' *' * (name == best)}" for name, score in found.items()})
    return [[words, *(column.get(name, "–") for column in columns)] for name, words in TRIALS.items()]


def load_budgets() -> dict[int, list[Record]]:
    """Read the runs of the comparison by their budget in core-minutes; budgets without any are left out."""
    found = {minutes: load_records(f"comparison-{minutes}", "cpu") for minutes in BUDGETS}
    return {minutes: records for minutes, records in found.items() if records}


def seeds(records: Sequence[Record], step: str) -> list[float]:
    """Return the test accuracies of a step in percent, one for each seed."""
    return [100 * run["test_accuracy"] for run in records if run["step"] == step]


def accuracy_over_cost(budgets: Mapping[int, Sequence[Record]]) -> dict[str, dict[float, list[float]]]:
    """Collect the test accuracies in percent: model, then core-minutes, then one for each seed."""
    found: dict[str, dict[float, list[float]]] = {}
    for minutes, records in sorted(budgets.items()):
        for family, name in FAMILIES.items():
            if scores := seeds(records, family):
                found.setdefault(name, {})[minutes] = scores
    return found


def pictures_shown(run: Record) -> int:
    """Count the pictures that a run saw in training, repeats included."""
    config, count = run["config"], int(training_pictures(run).replace(",", ""))
    return (
        round(config["epochs"] * ((count - config["validation"]) // config["batch_size"]))
        * config["batch_size"]
    )


def budget_table(budgets: Mapping[int, Sequence[Record]]) -> list[list]:
    """Write accuracy and cost of every model at every budget as rows of `BUDGET_COLUMNS`.

    Images per second are those of the core that the budget was timed on: pictures shown in the core-minutes.
    """
    rows = []
    for minutes, records in sorted(budgets.items()):
        for family, name in FAMILIES.items():
            runs = [run for run in records if run["step"] == family]
            if not runs:
                continue
            runs.sort(key=lambda run: run["config"]["seed"])
            scores, run = seeds(runs, family), runs[0]
            rows.append(
                [
                    minutes,
                    name,
                    run["parameters"],
                    f"{run['config']['epochs']:.1f}",
                    round(run["training_flops"] / 1e12),
                    round(pictures_shown(run) / (60 * minutes)),
                    f"{fmean(one['cpu_seconds'] for one in runs) / 60:.1f}",
                    ", ".join(f"{score:.1f}" for score in scores),
                    f"{fmean(scores):.1f}",
                ]  # fmt: skip
            )
    return rows


def gap_row(name: str, a: Sequence[float], b: Sequence[float]) -> list[str]:
    """Compare two settings by the course's rule, as a row of `GAP_COLUMNS`."""
    gap, low, high = difference(a, b)
    if min(len(a), len(b)) == 1:
        return [name, signed(gap), "unknown", "unknown, one seed"]
    verdict = "no difference shown" if undecided(low, high) else "ahead" if gap > 0 else "behind"
    return [name, signed(gap), from_to(low, high), verdict]


def gap_table(
    budgets: Mapping[int, Sequence[Record]], first: str = "vit", second: str = "resnet"
) -> list[list]:
    """Say for every budget that both models have how far the first is ahead, as rows of `GAP_COLUMNS`."""
    found = {minutes: (seeds(runs, first), seeds(runs, second)) for minutes, runs in sorted(budgets.items())}
    return [gap_row(f"{minutes} core-minutes", *pair) for minutes, pair in found.items() if all(pair)]


def learning_curves(
    records: Sequence[Record], minutes: float = 8
) -> dict[str, tuple[list[float], list[float]]]:
    """Return core-minutes and held-out accuracies in percent after every epoch, for each model with a "-curve" run."""
    found = {}
    for run in records:
        family = run["step"].removesuffix("-curve")
        if family == run["step"]:
            continue
        epochs, scores = run["config"]["epochs"], [100 * score for score in run["val_accuracy"]]
        cost = [minutes * min(number, epochs) / epochs for number in range(1, len(scores) + 1)]
        found[FAMILIES[family]] = (cost, scores)
    return found


def by_share(records: Sequence[Record], key: str = "test_accuracy") -> dict[str, dict[float, list[float]]]:
    """Collect accuracies of the fractions in percent: model, then share of the pictures in percent, then seeds.

    Args:
        records: of "fractions-8"; runs for twice the budget are left out.
        key: "test_accuracy", or "train_accuracy" for the one of the last epoch on the pictures as they were shown.
    """
    found: dict[str, dict[float, list[float]]] = {}
    for run in sorted(records, key=lambda run: run["fraction"]):
        family, _, rest = run["step"].partition("-")
        if rest.isdigit():
            value = run[key][-1] if isinstance(run[key], list) else run[key]
            found.setdefault(FAMILIES[family], {}).setdefault(100 * run["fraction"], []).append(100 * value)
    return {name: found[name] for name in FAMILIES.values() if name in found}


def linear_by_share() -> dict[float, list[float]]:
    """Return the test accuracies of the linear classifier in percent, by the share of the images in percent."""
    found: dict[float, list[float]] = {}
    for run in load_records("fractions-first", "cpu"):
        if run["model"] == "linear":
            found.setdefault(100 * run["fraction"], []).append(100 * run["test_accuracy"])
    return found


def share_gaps(curves: Mapping[str, Mapping[float, list[float]]], first: str, second: str) -> list[list]:
    """Say for every share that both models have how far the first is ahead, as rows of `GAP_COLUMNS`."""
    shares = [share for share in curves.get(first, {}) if share in curves.get(second, {})]
    return [
        gap_row(f"{share:g} % of the images", curves[first][share], curves[second][share]) for share in shares
    ]


def rows_of_positions() -> list[list]:
    """Compare the ViT with positions and without, on drawings, on the photos of CIFAR-10, and on these when shifted.

    Returns:
        Rows of `POSITION_COLUMNS`: the test images, mean accuracies in percent with and without positions, and what
        `gap_row` says of the difference.
    """
    runs = [*load_records(NO_POSITIONS, "cpu"), *load_budgets().get(8, [])]
    shifted = [run | {"test_accuracy": run["probes"]["shift"]["8"]} for run in runs if "probes" in run]
    pairs = {
        "drawings (Shapes-10)": (seeds(runs, "drawn-learned"), seeds(runs, "drawn-none")),
        "photos (CIFAR-10)": (seeds(runs, "vit"), seeds(runs, "none")),
        "the same photos, shifted by 8 pixels": (seeds(shifted, "vit"), seeds(shifted, "none")),
    }
    return [
        [name, f"{fmean(usual):.1f}", f"{fmean(none):.1f}", *gap_row(name, usual, none)[1:]]
        for name, (usual, none) in pairs.items()
    ]


def longer(records: Sequence[Record]) -> list[list]:
    """Say what twice the steps bring where they were tried, with one seed: rows of `LONGER_COLUMNS`.

    The usual number of steps has several seeds, and the row shows their mean.
    """
    rows = []
    for run in records:
        step, twice, _ = run["step"].partition("-longer")
        if twice:
            family, share = step.split("-")
            usual, score = fmean(seeds(records, step)), 100 * run["test_accuracy"]
            rows.append([FAMILIES[family], share, f"{usual:.1f}", f"{score:.1f}", signed(score - usual)])
    return rows
