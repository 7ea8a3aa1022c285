"""Two searches side by side, for lesson 08: what they do not share, and which of their trials may be compared."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Trial = Mapping[str, Any]
"""The record of one trial of a search."""


def changed_part(trial: Trial) -> str:
    """Return which part of the recipe a trial changes: the first word of its name, "lr" for "lr-0.4"."""
    return trial["step"].partition("-")[0]


def unequal_parts(first: Sequence[Trial], second: Sequence[Trial]) -> dict[str, tuple]:
    """Find what two searches do not share.

    Three questions are asked of each search:

    - "trials": how many settings did it try? A setting has one name, and may have several records, one for each seed.
    - "optimisers": which ones did it try? A set of names.
    - "sizes": how many different numbers of parameters did it try?

    Args:
        first: records of the first search. Of a record, "step" is the name of its setting, "parameters" the number of
            parameters of its model, and "config" its recipe, a dictionary in which "optimizer" is a name.
        second: records of the second search.

    Returns:
        The questions whose answers differ, in the order above: {question: (answer of first, answer of second)}.
    """
    answers = [
        {
            "trials": len({trial["step"] for trial in search}),
            "optimisers": {trial["config"]["optimizer"] for trial in search},
            "sizes": len({trial["parameters"] for trial in search}),
        }
        for search in (first, second)
    ]
    pairs = {question: (answers[0][question], answers[1][question]) for question in answers[0]}
    return {question: (a, b) for question, (a, b) in pairs.items() if a != b}


def equal_searches(first: Sequence[Trial], second: Sequence[Trial]) -> tuple[list[Trial], list[Trial]]:
    """Choose the trials of two searches that may be compared.

    `changed_part(trial)` is the part of the recipe that a trial changes. Of each part both searches keep the same
    number of trials, as many as the search with fewer of them has. They are the first ones in the order given, so no
    accuracy decides what is kept. A part that only one search has changed keeps none.

    Args:
        first: records of the first search, one for each setting.
        second: records of the second search.

    Returns:
        (first, second): the trials that are kept, each list in its old order.
    """
    both = Counter(map(changed_part, first)) & Counter(map(changed_part, second))
    kept = []
    for search in (first, second):
        left = Counter(both)
        kept.append([])
        for trial in search:
            if left[changed_part(trial)] > 0:
                left[changed_part(trial)] -= 1
                kept[-1].append(trial)
    return kept[0], kept[1]
