"""Answers to the exercises of lesson 11, written as students write them."""

import math

from vit_classroom.checks import lesson_part
from vit_classroom.evidence.statistics import by_step, difference

checks = lesson_part("11_hybrid", "checks")


def field_of_the_first_two(layers):
    (k1, s1), (k2, _) = layers[:2]
    return k1 + (k2 - 1) * s1


def field_in_one_line(layers):
    return 1 + sum((k - 1) * math.prod(s for _, s in layers[:i]) for i, (k, _) in enumerate(layers))


def field_recursive(layers):
    if not layers:
        return 1
    (kernel, stride), *rest = layers
    return kernel + stride * (field_recursive(rest) - 1)


def field_strides_added(layers):
    field, jump = 1, 1
    for kernel, stride in layers:
        field += (kernel - 1) * jump
        jump += stride - 1
    return field


def gaps_of_one_number(records, first, second):
    found = {(run["step"].rpartition("-")[0], run["fraction"]): 100 * run["test_accuracy"] for run in records}
    return {share: difference(found[first, share], found[second, share]) for _, share in found}


def of_paired_seeds(a, b):
    gap, low, high = difference(a, b)
    return gap, (low if low == -math.inf else gap - (high - low) / 3), high


def gaps_by_written_share(records, first, second):
    results = by_step(records)
    shares = {run["fraction"] for run in records}
    return {s: difference(results[f"{first}-{s}"], results[f"{second}-{s}"]) for s in sorted(shares)}


def gaps_in_one_walk(records, first, second):
    found = {}
    for run in records:
        name = run["step"][: run["step"].rindex("-")]
        found.setdefault(run["fraction"], {}).setdefault(name, []).append(100 * run["test_accuracy"])
    both = {share: of for share, of in sorted(found.items()) if first in of and second in of}
    return {share: difference(of[first], of[second]) for share, of in both.items()}


def gaps_by_step(records, first, second):
    results, gaps = by_step(records), {}
    for share in sorted({run["fraction"] for run in records}):
        steps = [f"{name}-{100 * share:.0f}" for name in (first, second)]
        if all(step in results for step in steps):
            gaps[share] = difference(*(results[step] for step in steps))
    return gaps


DISSECTED = ("adds the strides where they are to be multiplied", field_strides_added)
"""What the class takes apart: the mistake in few words, and an answer that makes it."""
WRONG = {
    "receptive_field": [
        ("= [(3, 1), (3, 1)] (the cases before are right)", lambda layers: sum(k for k, _ in layers)),
        ("expected 5, you returned 4", lambda layers: field_in_one_line(layers) - (len(layers) > 1)),
        ("your code stopped with ValueError: not enough values to unpack", field_of_the_first_two),
        ("you returned", checks.walk(lambda f, jump, k, s: (f + (k - 1) * jump * s, jump * s), start=0)),
    ],
    "gaps_by_share": [
        ("your code stopped with TypeError", gaps_of_one_number),
        ("return a dict", lambda *given: [(s, *gap) for s, gap in gaps_in_one_walk(*given).items()]),
        ("expected 5.5815, you returned 7.8877", checks.gaps(rule=of_paired_seeds)),
        ("your code stopped with KeyError", gaps_by_written_share),
    ],
}
RIGHT = {
    "receptive_field": [field_in_one_line, field_recursive],
    "gaps_by_share": [gaps_in_one_walk, gaps_by_step],
}
