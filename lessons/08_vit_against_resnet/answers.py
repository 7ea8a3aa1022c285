"""Answers to the exercises of lesson 08, written as students write them."""

from collections import Counter

import torch

from vit_classroom.evidence.probes import SHIFTS, shift
from vit_classroom.evidence.search_effort import changed_part
from vit_course.data import normalize
from vit_course.train import evaluate


def points_literal() -> set[str]:
    return {"h", "g", "f", "d", "b"}


def parts_question_by_question(first, second):
    found = {}
    trials = len({run["step"] for run in first}), len({run["step"] for run in second})
    if trials[0] != trials[1]:
        found["trials"] = trials
    used = {run["config"]["optimizer"] for run in first}, {run["config"]["optimizer"] for run in second}
    if used[0] != used[1]:
        found["optimisers"] = used
    sizes = len({run["parameters"] for run in first}), len({run["parameters"] for run in second})
    if sizes[0] != sizes[1]:
        found["sizes"] = sizes
    return found


def parts_with_a_helper(first, second):
    def about(search):
        steps, sizes, optimisers = set(), set(), set()
        for run in search:
            steps.add(run["step"])
            sizes.add(run["parameters"])
            optimisers.add(run["config"]["optimizer"])
        return {"trials": len(steps), "optimisers": optimisers, "sizes": len(sizes)}

    mine, theirs = about(first), about(second)
    return {name: (mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]}


def equal_by_counting(first, second):
    def count(search, part):
        return sum(changed_part(trial) == part for trial in search)

    def cut(search, other):
        kept = []
        for trial in search:
            part = changed_part(trial)
            if count(kept, part) < min(count(search, part), count(other, part)):
                kept.append(trial)
        return kept

    return cut(first, second), cut(second, first)


def equal_by_places(first, second):
    places = ([], [])
    for part in {changed_part(trial) for trial in first}:
        both = [[i for i, t in enumerate(search) if changed_part(t) == part] for search in (first, second)]
        number = min(map(len, both))
        for side, found in zip(places, both, strict=True):
            side.extend(found[:number])
    return [first[i] for i in sorted(places[0])], [second[i] for i in sorted(places[1])]


def equal_in_pairs(first, second):
    left, pairs = list(second), []
    for trial in first:
        partner = next((other for other in left if changed_part(other) == changed_part(trial)), None)
        if partner:
            left.remove(partner)
            pairs.append((trial, partner))
    return [a for a, _ in pairs], [b for _, b in pairs]


def under_shift_loop(model, images, labels, stats, shifts=(0, 1, 2, 3, 4, 6, 8)):
    found = {}
    for pixels in shifts:
        found[pixels], _ = evaluate(model, shift(images, pixels), labels, stats)
    return found


def under_shift_tensors(model, images, labels, stats, shifts=(0, 1, 2, 3, 4, 6, 8)):
    model.eval()
    right = [model(normalize(shift(images, s), *stats)).argmax(dim=-1) == labels for s in shifts]
    return dict(zip(shifts, (r.float().mean() for r in right), strict=True))


def moved_by_slices(model, images, labels, stats, shifts=SHIFTS):
    found = {}
    for pixels in shifts:
        moved = torch.zeros_like(images)
        moved[..., pixels:] = images[..., :-pixels]
        found[pixels] = evaluate(model, moved, labels, stats)[0]
    return found


def keeps_the_best(first, second):
    both = Counter(map(changed_part, first)) & Counter(map(changed_part, second))
    kept = ([], [])
    for search, chosen in zip((first, second), kept, strict=True):
        left = Counter(both)
        for trial in sorted(search, key=lambda trial: trial["held_out_accuracy"], reverse=True):
            if left[changed_part(trial)] > 0:
                left[changed_part(trial)] -= 1
                chosen.append(trial)
    return kept


DISSECTED = ("keeps the best trials of each side", keeps_the_best)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "unequal_parts": [("your code stopped with TypeError", lambda first, second: {"trials": first - second})],
    "equal_searches": [("expected", equal_in_pairs)],
    "accuracy_under_shift": [
        (
            "for shifts = (2,) these should be the keys. Yours are [0]",
            lambda *given: dict(zip(SHIFTS, under_shift_loop(*given).values(), strict=False)),
        ),
        ("something is empty there: with p = 0, `[:-p]`", moved_by_slices),
    ],
    "unfair_points": [("there is no point 'bdfgh'. The points are 'a' to 'i'", lambda: {"bdfgh"})],
}
RIGHT = {
    "unfair_points": [
        lambda: {"b", "d", "f", "g", "h"},
        lambda: {"H", "G", "F", "D", "B"},
        lambda: set("bdfgh"),
        points_literal,
    ],
    "unequal_parts": [parts_question_by_question, parts_with_a_helper],
    "equal_searches": [equal_by_counting, equal_by_places],
    "accuracy_under_shift": [under_shift_loop, under_shift_tensors],
}
