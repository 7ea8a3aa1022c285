"""Checks of lesson 11: the hybrid."""

import math
from collections.abc import Callable

from vit_classroom.checks.outcome import Mistake
from vit_classroom.checks.task import exercise, results
from vit_classroom.evidence.statistics import difference, gaps_by_share
from vit_course.extensions.hybrid import receptive_field

# -- receptive_field


def walk(step: Callable, start: int = 1, order: Callable = list) -> Callable:
    """Build an answer from one step: (field, jump, kernel, stride) -> the next field and jump."""

    def answer(layers):
        field, jump = start, 1
        for kernel, stride in order(layers):
            field, jump = step(field, jump, kernel, stride)
        return field

    return answer


def right_step(field, jump, kernel, stride):
    return field + (kernel - 1) * jump, jump * stride


def stride_alone(layers):
    return math.prod(stride for _, stride in layers)


def one_stride_short(layers):
    strides = [1, *(stride for _, stride in layers)]
    return 1 + sum((kernel - 1) * math.prod(strides[:i]) for i, (kernel, _) in enumerate(layers))


def popping(layers):
    field = 1
    while layers:
        kernel, stride = layers.pop()
        field = (field - 1) * stride + kernel
    return field


exercise(
    receptive_field,
    results(
        lambda: [
            ([(3, 1)],),
            ([(3, 1), (3, 1)],),
            ([(4, 4)],),
            ([(3, 2), (3, 1)],),
            ([(2, 2), (2, 2), (3, 1)],),
            ([(7, 2), (3, 2), (3, 1), (3, 2), (1, 1), (5, 3), (3, 1)],),
            ([(1, 2), (3, 1)],),
            ([],),
            (((2, 3), (3, 1)),),
            ([(3, 2)] * 8,),
        ],
        {
            "the strides are left out: after a stride of 2, neighbouring positions lie 2 pixels apart, so a layer "
            "adds (k - 1) times the product of the strides before it": walk(
                lambda field, jump, kernel, stride: (field + kernel - 1, 1)
            ),
            "a layer's own stride counts too early: it moves the layer's *results* apart, so it matters for the "
            "layers after it": walk(
                lambda field, jump, kernel, stride: (field + (kernel - 1) * jump * stride, jump * stride)
            ),
            "only the stride of the layer before counts in yours; all strides before it multiply": walk(
                lambda field, jump, kernel, stride: (field + (kernel - 1) * jump, stride)
            ),
            "each layer is multiplied by its own stride: it should be the product of all strides *before* it": walk(
                lambda field, jump, kernel, stride: (field + (kernel - 1) * stride, jump)
            ),
            "you multiply by all strides: the product runs over the layers *before* a layer": lambda layers: (
                1 + sum((kernel - 1) * stride_alone(layers) for kernel, _ in layers)
            ),
            "a layer is (kernel size, stride), and you read it the other way round": lambda layers: (
                receptive_field([pair[::-1] for pair in layers])
            ),
            "you return after the first layer: `return` stands inside the loop": lambda layers: (
                layers[0][0] if layers else None
            ),
            "the first layer is missing": lambda layers: receptive_field(layers[1:]),
            "the last layer is missing": lambda layers: receptive_field(layers[:-1]),
            "the strides are added up; two halvings make 4 pixels, three make 8: they multiply": [
                walk(lambda field, jump, kernel, stride: (field + (kernel - 1) * jump, jump + stride - 1)),
                walk(lambda field, jump, kernel, stride: (field + (kernel - 1) * jump, jump + stride)),
            ],
            "a kernel of size k adds k - 1: its middle was seen already": walk(
                lambda field, jump, kernel, stride: (field + kernel * jump, jump * stride)
            ),
            "a kernel of size k adds k - 1, and the first position is 1 pixel wide before any layer": walk(
                lambda field, jump, kernel, stride: (field + kernel * jump, jump * stride), start=0
            ),
            "one pixel is missing: without any layer a position is one pixel, so start with 1": walk(
                right_step, start=0
            ),
            "a kernel of an even size k adds k - 1 as well, and yours k: do not count by its half": walk(
                lambda field, jump, kernel, stride: (field + 2 * (kernel // 2) * jump, jump * stride)
            ),
            "the strides of layers with kernel 1 are left out: such a layer sees no more, but those after it do": walk(
                lambda field, jump, kernel, stride: (
                    field + (kernel - 1) * jump,
                    jump * (stride if kernel > 1 else 1),
                )
            ),
            "the stride of the layer just before is left out: *all* strides before a layer multiply": one_stride_short,
            "without any layer a position sees 1 pixel, itself": lambda layers: (
                layers and receptive_field(layers) or 0
            ),
            "the field grows on both sides: you count one side of the kernel": walk(
                lambda field, jump, kernel, stride: (field + kernel // 2 * jump, jump * stride)
            ),
            "the kernel sizes are multiplied; each layer *adds* (k - 1) steps": walk(
                lambda field, jump, kernel, stride: (field * kernel, jump)
            ),
            "your rule is right, but it walks from the wrong end: a rule with a jump begins with the first "
            "layer, `field = (field - 1) * stride + kernel` with the last": [
                walk(right_step, order=reversed),
                walk(lambda field, jump, kernel, stride: ((field - 1) * stride + kernel, jump)),
            ],
            "you return the product of the strides: that is how far neighbours lie apart, not how much one sees": (
                stride_alone
            ),
            "your code changes its input in place (argument 1)": popping,
        },
    ),
)

# -- gaps_by_share


def gaps(belongs=None, scale=100, order=sorted, rule=difference, key=lambda share: share) -> Callable:
    """Build an answer from its parts: which runs are of a model, the unit, the order, the rule, the key."""
    belongs = belongs or (lambda step, name: step.rpartition("-")[0] == name)

    def answer(records, first, second):
        found = {}
        for share in order({run["fraction"]: None for run in records}):
            a, b = (
                [
                    scale * run["test_accuracy"]
                    for run in records
                    if run["fraction"] == share and belongs(run["step"], name)
                ]
                for name in (first, second)
            )
            if a and b:
                found[key(share)] = rule(a, b)
        return found

    return answer


def all_shares_together(records, first, second):
    return gaps()([run | {"fraction": 1.0} for run in records], first, second)


def last_seed(records, first, second):
    kept = {(run["step"], run["fraction"]): run for run in records}
    return gaps()(list(kept.values()), first, second)


def read_in_order(function: Callable, records: list, first: str, second: str):
    """Run an answer; the shares become a list, so that their order counts."""
    found = function(records, first, second)
    if isinstance(found, list | tuple):
        raise Mistake("return a dict, {fraction: (difference, low, high)}: yours is a list")
    return list(found.items()) if isinstance(found, dict) else found


def recorded(**accuracies) -> list[dict]:
    """Make records of models, by the share in percent: `hybrid={10: [0.5, 0.6]}`."""
    return [
        {
            "step": f"{name.replace('_', '-')}-{percents}",
            "fraction": percents / 100,
            "test_accuracy": accuracy,
        }
        for name, shares in accuracies.items()
        for percents, scores in shares.items()
        for accuracy in scores
    ]


FINE = {25: [0.401234, 0.4123], 5: [0.35, 0.35], 29: [0.51, 0.5177]}
HYBRID = {100: [0.72, 0.70, 0.71], 10: [0.64, 0.63, 0.66]}
VIT = {10: [0.50, 0.49, 0.52], 100: [0.57, 0.575, 0.56]}
SMALL = {10: [0.30, 0.31, 0.36], 100: [0.40, 0.43, 0.41]}

exercise(
    gaps_by_share,
    results(
        lambda: [
            (recorded(hybrid={10: [0.64, 0.63]}, vit={10: [0.50, 0.52]}), "hybrid", "vit"),
            (recorded(hybrid=HYBRID | {1: [0.4, 0.42]}, vit=VIT | {1: [0.3, 0.33]}), "hybrid", "vit"),
            (recorded(hybrid=HYBRID, vit=VIT, small_vit=SMALL, vit_large=SMALL), "hybrid", "vit"),
            (recorded(small_vit=SMALL, hybrid=HYBRID, vit=VIT), "small-vit", "hybrid"),
            (recorded(hybrid=HYBRID, vit=VIT | {30: [0.55, 0.56, 0.54]}), "hybrid", "vit"),
            (recorded(hybrid=HYBRID | {1: [0.39, 0.41, 0.42]}, vit=VIT), "hybrid", "vit"),
            (recorded(hybrid={1: [0.4]}, resnet={1: [0.41, 0.42]}), "hybrid", "resnet"),
            (
                recorded(hybrid=FINE, **{"vit-8": {5: [0.3, 0.3], 25: [0.4, 0.41], 29: [0.5, 0.5]}}),
                "hybrid",
                "vit-8",
            ),
        ],
        {
            "`small-vit` and `vit-large` are other models than `vit`: compare all that stands before the last hyphen": [
                gaps(lambda step, name: name in step),
                gaps(lambda step, name: step.rpartition("-")[0].endswith(name)),
                gaps(lambda step, name: step.startswith(name)),
            ],
            "a name may hold a hyphen itself: cut the step at its *last* one, `rpartition`": [
                gaps(lambda step, name: step.split("-")[0] == name),
                gaps(lambda step, name: step.rstrip("0123456789-") == name),
            ],
            "two seeds may have the same accuracy: a set keeps one of them, a list both": gaps(
                rule=lambda a, b: difference(sorted(set(a)), sorted(set(b)))
            ),
            "accuracies in 0..1; in percent they are a hundred times as large": gaps(scale=1),
            "yours is second minus first: it should be first minus second": gaps(
                rule=lambda a, b: difference(b, a)
            ),
            "all shares are thrown together: compare share by share": all_shares_together,
            "only the last seed of each setting is left: collect all of them in a list": last_seed,
            "the gap alone does not say how sure we are: keep all three numbers of `difference`": gaps(
                rule=lambda a, b: difference(a, b)[0]
            ),
            "the key is the fraction as it is recorded, in 0..1, not in percent": gaps(
                key=lambda share: 100 * share
            ),
        },
        run=read_in_order,
    ),
)
