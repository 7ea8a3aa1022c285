"""Checks of lesson 08: ViT against ResNet."""

import copy
from collections.abc import Callable

import torch
from torch import nn

from vit_classroom.checks.edits import Known, Mistakes
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, changed, outcome
from vit_classroom.checks.task import Demand, demand, exercise, results
from vit_classroom.evidence.probes import accuracy_under_shift, unfair_points
from vit_classroom.evidence.search_effort import equal_searches, unequal_parts
from vit_course.data import normalize

known = Mistakes(__file__, unequal_parts, equal_searches, accuracy_under_shift)

# -- unfair_points

UNFAIR = {
    "b": "part of the ViT's lead may come from its stronger augmentation, and nobody knows how much",
    "d": "one side trains nine times as long as the other, and no table says so",
    "f": "the test images chose the epoch, so they do not test any more. The best of many noisy numbers is too high",
    "g": "the best of five seeds is higher than one seed, even for two equal models",
    "h": "one side has seen more than a million more images. The title gives the architecture credit for the data",
}
FAIR = {
    "a": "both learn from the same images, and choices are made on held-out images. This is how it should be",
    "c": "models need different optimisers and learning rates. The effort of the search must be equal, and here it is "
    "six trials each",
    "e": "no two architectures agree in everything. A report that shows parameters and FLOPs lets the reader judge",
    "i": "same machine, same batch, nothing else running. This is a clean measurement",
}


@demand(
    {
        "return the letters as a set": [lambda: [1, 3, 5], lambda: sorted(UNFAIR), lambda: "bdfgh"],
        "there is no point 'z'. The points are 'a' to 'i'": lambda: {"b", "z"},
        "there is no point 'b,d,f,g,h'": lambda: {"b,d,f,g,h"},
        "4 of 9 points are judged right": set,
        **{words: lambda letter=letter: set(UNFAIR) - {letter} for letter, words in UNFAIR.items()},
        **{words: lambda letter=letter: {*UNFAIR, letter} for letter, words in FAIR.items()},
    }
)
def accuses_the_unfair_alone(answer):
    got = outcome(lambda f: f(), answer, ())
    if isinstance(got, Exception):
        raise stopped(got)
    if not isinstance(got, set | frozenset) or not all(isinstance(letter, str) for letter in got):
        raise Mistake(f'return the letters as a set, for example {{"a", "z"}}. You returned {got!r:.200}')
    letters = {letter.strip().lower() for letter in got}
    if unknown := letters - UNFAIR.keys() - FAIR.keys():
        raise Mistake(f"there is no point {', '.join(map(repr, sorted(unknown)))}. The points are 'a' to 'i'")
    accused, missed = sorted(letters & FAIR.keys()), sorted(UNFAIR.keys() - letters)
    right = f"{9 - len(accused) - len(missed)} of 9 points are judged right"
    if accused:
        raise Mistake(f"{right}. Point {accused[0]} is fair: {FAIR[accused[0]]}")
    if missed:
        raise Mistake(f"{right}. Point {missed[0]} is unfair too: {UNFAIR[missed[0]]}")


exercise(unfair_points, accuses_the_unfair_alone)

# -- unequal_parts and equal_searches


class Search(list):
    """Records of a search, which a message shows by names, optimisers and sizes."""

    def __repr__(self) -> str:
        return (
            "[" + ", ".join("{step} ({config[optimizer]}, {parameters})".format(**one) for one in self) + "]"
        )


def search(*trials: str) -> Search:
    """Make records from lines such as "lr-0.1 sgd 78 0.61", the last number an accuracy; seeds count up."""
    made = Search()
    for trial in trials:
        step, optimizer, size, score = trial.split()
        seed = sum(one["step"] == step for one in made)
        made.append(
            {
                "step": step,
                "parameters": int(size),
                "held_out_accuracy": float(score),
                "config": {"optimizer": optimizer, "lr": 0.1, "seed": seed},
            }
        )
    return made


def effort_cases() -> list[tuple]:
    """Return pairs of searches that differ in one thing, then in several, then in none."""
    small = search("base sgd 78 .6", "lr-0.1 sgd 78 .5")
    return [
        (search("base adamw 30 .5", "lr-0.2 adamw 30 .7"), small),
        (search("base sgd 30 .5"), small),
        (search("base sgd 30 .5", "width-9 sgd 60 .4"), small),
        (small, search("base sgd 30 .5", "base sgd 30 .6", "base sgd 30 .5", "lr-0.3 sgd 30 .5")),
        (search("base sgd 30 .5", "adamw adamw 30 .4"), search("base adamw 40 .3", "muon muon 40 .6")),
        (search("a muon 2 .5", "b adamw 3 .5", "c muon 2 .5"), search("a adamw 7 .6", "b muon 9 .6", "c muon 7 .1")),
        (search("base sgd 30 .5", "lr-1 sgd 30 .4", "width-9 sgd 60 .3", "muon muon 30 .7"), small),
        (small, copy.deepcopy(small)),
    ]  # fmt: skip


exercise(unequal_parts, results(effort_cases, known("unequal_parts results")))


def choice_cases() -> list[tuple]:
    """Return pairs of searches, the smallest first."""
    rates = search("lr-0.1 sgd 78 .6", "lr-0.2 sgd 78 .7", "lr-0.4 sgd 78 .8")
    other = search("lr-0.002 adamw 30 .5", "lr-0.004 adamw 30 .6")
    mixed = search(
        "width-9 sgd 70 .5", "base sgd 30 .4", "lr-0.3 sgd 30 .2", "lr-0.1 sgd 30 .3", "cutmix sgd 30 .9",
        "width-8 sgd 60 .6", "lr-0.2 sgd 30 .7",
    )  # fmt: skip
    second = search(
        "lr-2 sgd 5 .1", "width-32 sgd 7 .4", "lr-1 sgd 5 .6", "base sgd 5 .5", "width-16 sgd 6 .3",
        "depth-9 sgd 9 .7", "width-64 sgd 8 .8", "linear sgd 5 .2",
    )  # fmt: skip
    return [
        (rates, other),
        (other, rates),
        (search("base sgd 30 .4", "cutmix sgd 30 .9"), search("base sgd 5 .5", "depth-9 sgd 9 .7")),
        (mixed, second),
        (search("cutmix sgd 30 .9"), second),
    ]


def kept_names(function: Callable, first: Search, second: Search) -> object:
    """Return the names of the trials that an answer keeps, or what it returned in their place."""
    found = function(first, second)
    if not isinstance(found, tuple | list) or len(found) != 2:
        return found
    if not all(isinstance(side, tuple | list) for side in found):
        raise Mistake("return a pair of lists, the trials kept of the first search and those of the second")
    if not all(isinstance(trial, dict) for side in found for trial in side):
        raise Mistake("the lists should hold the records themselves, as they were given")
    return tuple([trial["step"] for trial in side] for side in found)


exercise(equal_searches, results(choice_cases, known("equal_searches results"), run=kept_names))

# -- accuracy_under_shift


def position_reader() -> nn.Module:
    """Return a model that reacts to every pixel and to the mode it is in, left in training mode."""
    torch.default_generator.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(48), nn.Linear(48, 4)).train()


def measure(function: Callable, shifts: tuple | list) -> list | None:
    """Call a function with a model and images; return the accuracies in the order of the shifts."""
    torch.default_generator.manual_seed(4)
    images = (100 + 155 * torch.rand(620, 2, 3, 8)).to(torch.uint8)
    stats = (torch.tensor([0.6, 0.7]), torch.tensor([0.2, 0.3]))
    with torch.no_grad():
        labels = position_reader().eval()(normalize(images, *stats)).argmax(1)
    labels[::5] = (labels[::5] + 1) % 4  # what the model says is not always right
    given = images, labels, stats
    mine = copy.deepcopy(given)
    model = position_reader()
    found = function(model, *mine, shifts)
    if not model[2].weight.requires_grad or model[2].weight.dtype != torch.float32:
        raise Mistake("afterwards the model is another. It cannot learn any more, or has another precision")
    if changed(given, mine):
        raise Mistake(
            "your code changes the images, labels or stats in place, and the next shift starts from them"
        )
    if found is None:
        return None
    if not isinstance(found, dict):
        raise Mistake(f"return a dict, shift -> accuracy. You returned {type(found).__name__}")
    if set(found) != set(shifts):
        text = ", as numbers, 2 and not '2'" if any(isinstance(key, str) for key in found) else ""
        raise Mistake(f"for shifts = {shifts} these should be the keys{text}. Yours are {list(found)!r:.100}")
    return [found[pixels] for pixels in shifts]


def for_shifts(function: Callable) -> Callable:
    """Return a function of the shifts alone: model and images are the same in every case."""

    def accuracy(shifts):
        return measure(function, shifts)

    return accuracy


def measures(cases: Callable, known: Known) -> Demand:
    """Demand the accuracies of the finished version for these shifts."""
    by_shifts = {words: [for_shifts(wrong) for wrong in known[words]] for words in known}
    measured = results(cases, by_shifts)
    return Demand(lambda answer, reference: measured.verify(for_shifts(answer), for_shifts(reference)), known)


exercise(
    accuracy_under_shift,
    measures(
        lambda: [((0,),), ((2,),), ((0, 1, 3),), ([4, 1, 2],), ((6, 5),)],
        known("accuracy_under_shift results"),
    ),
)
