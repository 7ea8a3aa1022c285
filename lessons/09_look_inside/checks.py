"""Checks of lesson 09: look inside."""

from collections.abc import Callable

import torch
from torch import Tensor

from vit_classroom.checks.edits import Mistakes
from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import demand, exercise, refuses, results
from vit_classroom.checks.words import difference, explain_error
from vit_course.interpret import attention_rollout, hide_patches, mean_attention_distance
from vit_course.patches import patchify

known = Mistakes(__file__, attention_rollout, mean_attention_distance, hide_patches)


def call(function: Callable, *case: object) -> object:
    return function(*case)


# -- attention_rollout


def attention_weights(*shape: int) -> Tensor:
    """Draw weights (..., T, T) whose rows sum to 1."""
    return (2 * torch.randn(*shape)).softmax(dim=-1)


def run_rollout(function: Callable, attentions: Tensor, *rest: int) -> object:
    return function(list(attentions), *rest)


@demand(known("attention_rollout axes"))
def axes_fit(answer):
    got = outcome(run_rollout, answer, (attention_weights(3, 2, 3, 5, 5), 1))
    if isinstance(got, RuntimeError) and "must match the size" in str(got):
        heads_left = "(3)" in str(got)  # 3 heads, 2 images, 5 tokens
        why = (
            "Is the axis of the heads still there? Weights are (B, h, T, T), so average over axis 1"
            if heads_left
            else "If you divide by the sums of the rows, keep their axis, `sum(dim=-1, keepdim=True)`"
        )
        if "dimension 2" in str(got):
            why = "Is your identity as large as the weights, (T, T)? `torch.eye(attentions[0].shape[-1])`"
        raise Mistake(f"on 2 images, 3 heads and 5 tokens your code stopped with {explain_error(got)}\n{why}")
    if isinstance(got, Tensor) and got.shape == (2, 3, 5, 5):
        raise Mistake(
            "the axis of the heads is still there. Weights are (B, h, T, T), and the heads are averaged in each layer, "
            "so average over axis 1"
        )


@demand(known("attention_rollout list"))
def leaves_the_list_alone(answer):
    outcome(call, answer, (list(attention_weights(3, 2, 2, 4, 4)), 1))


UNEVEN = "right where every row of weights sums to 1, but not where it does not, as after dropout. Here "
uneven_rows = known("attention_rollout uneven")


@demand(uneven_rows)
def divides_rows_by_their_sums(answer):
    for uneven in (torch.rand(3, 2, 3, 4, 4), 0.1 * torch.rand(3, 2, 3, 4, 4)):
        got = outcome(run_rollout, answer, (uneven, 1))
        if not difference(got, attention_rollout(list(uneven))):
            continue
        for words, mistaken in uneven_rows.items():
            if not difference(got, run_rollout(mistaken[0], uneven, 1)):
                raise Mistake(UNEVEN + words)
        raise Mistake(UNEVEN + list(uneven_rows)[-1])


exercise(
    attention_rollout,
    axes_fit,
    results(
        lambda: [
            (torch.tensor([[[[[1.0, 0.0], [1.0, 0.0]]]], [[[[0.0, 1.0], [0.0, 1.0]]]]]), 1),
            (attention_weights(3, 2, 3, 5, 5), 1),
            (attention_weights(4, 3, 2, 3, 3), 0),
            (attention_weights(1, 2, 4, 6, 6), 2),
            (attention_weights(6, 2, 1, 4, 4), 1),
        ],
        known("attention_rollout results"),
        run=run_rollout,
    ),
    leaves_the_list_alone,
    divides_rows_by_their_sums,
    refuses(([], 1), "a list without a layer cannot be followed"),
    refuses(
        ([torch.full((1, 1, 3, 3), 1 / 3)], 3),
        "3 prefix tokens of 3 make no sense, and 0, 1 or 2 do",
        *known("attention_rollout refuses")["no patches"],
    ),
)

# -- mean_attention_distance


@demand(known("mean_attention_distance prefix"))
def any_prefix_is_dropped(answer):
    usual = (attention_weights(2, 3, 7, 7), (2, 3), 4, 1)
    none = (attention_weights(3, 3, 6, 6), (3, 2), (5, 8), 0)
    error = outcome(call, answer, none)
    if isinstance(error, RuntimeError) and not isinstance(outcome(call, answer, usual), Exception):
        why = ""
        if "(0)" in str(error):
            why = "\nThe slice `[:-0]` is empty. And the prefix comes first, `[num_prefix_tokens:]`"
        elif "(5)" in str(error):
            why = "\nDo you drop one token whatever the prefix? Use `num_prefix_tokens`, which may be 0 or 2"
        raise Mistake(
            f"with 0 prefix tokens and a grid of 3x2 your code stopped with {explain_error(error)}{why}"
        )


@demand(known("mean_attention_distance heads"))
def gives_one_number_a_head(answer):
    got = outcome(call, answer, (attention_weights(2, 3, 7, 7), (2, 3), 4, 1))
    if isinstance(got, Tensor) and got.ndim == 0:
        raise Mistake("you return one number. Do you average over heads too? Each head gets its own, (h,)")


exercise(
    mean_attention_distance,
    any_prefix_is_dropped,
    gives_one_number_a_head,
    results(
        lambda: [
            (torch.tensor([[[[0.2, 0.4, 0.4], [0.2, 0.3, 0.5], [0.5, 0.25, 0.25]]]]), (1, 2), 10, 1),
            (attention_weights(2, 3, 7, 7), (2, 3), 4, 1),
            (attention_weights(3, 3, 6, 6), (3, 2), (5, 8), 0),
            (attention_weights(1, 2, 10, 10), (2, 4), (8, 2), 2),
            (attention_weights(1, 2, 6, 6), (3, 2), 3, 0),
            (attention_weights(2, 2, 17, 17), (4, 4), 16, 1),
        ],
        known("mean_attention_distance results"),
    ),
    refuses(
        (torch.full((2, 2, 7, 7), 1 / 7), (2, 3), 4, 0),
        "7 tokens are not 0 prefix + 2x3 patches = 6",
        *known("mean_attention_distance refuses")["tokens"],
    ),
)

# -- hide_patches


def draw_scores(batch: int, number: int) -> Tensor:
    """Draw scores without ties, many of them negative, that are higher in each next image."""
    rows = [torch.randperm(number) + 0.3 * torch.rand(number) + 3 * i for i in range(batch)]
    return torch.stack(rows) - 0.6 * number


@demand(known("hide_patches equal"))
def hides_as_many_where_scores_are_equal(answer):
    case = (torch.rand(2, 3, 4, 6) + 1, torch.ones(2, 6), 2, 2, 0.0)
    equal = outcome(call, answer, case)
    if isinstance(equal, Exception):
        raise stopped(equal, "where scores are equal ")
    if answer(given := case[0].clone(), case[1], 0, 2).data_ptr() == given.data_ptr():
        raise Mistake("with count = 0 you return the input itself. Return a new tensor, as always")
    hidden = patchify(equal, 2).eq(0).all(dim=-1).sum(dim=1).tolist()
    if hidden != [2, 2]:
        raise Mistake(
            f"where all scores are equal you hide {hidden[0]} patches instead of `count` = 2, so choose by place in "
            "the order, not by a threshold"
        )


tiny = torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]])
six = torch.ones(2, 3, 4, 6)

exercise(
    hide_patches,
    results(
        lambda: [
            (tiny, torch.tensor([[0.1, 0.6, 0.3, 0.2]]), 1, 1, 0.0),
            (tiny, torch.tensor([[0.1, 0.4, 0.3, 0.2]]), 2, 1, 9.0),
            (torch.rand(2, 3, 4, 6) + 1, draw_scores(2, 6), 2, 2, 0.0),
            ((torch.rand(3, 1, 8, 6) + 1).half(), draw_scores(3, 8), 3, (2, 3), -0.5),
            (torch.rand(2, 2, 4, 6) + 1, draw_scores(2, 6), 0, 2, 0.0),
            (torch.rand(2, 3, 4, 4), draw_scores(2, 4), 4, 2, 0.25),
            (torch.rand(1, 3, 4, 6) / 2, draw_scores(1, 6), 2, 2, 0.75),
            (torch.rand(1, 3, 4, 6) + 1, torch.tensor([[0.0, 50, 100, -200, -150, -300]]), 5, 2, 0.0),
        ],
        known("hide_patches results"),
    ),
    hides_as_many_where_scores_are_equal,
    refuses(
        (six, torch.zeros(2, 5), 1, 2, 0.0),
        "5 scores for 6 patches do not fit",
        *known("hide_patches refuses")["number"],
    ),
    refuses(
        (six, torch.zeros(6, 2), 1, 2, 0.0),
        "scores of shape (6, 2) are not (2, 6), a row for each image",
        *known("hide_patches refuses")["shape"],
    ),
    refuses((six, torch.zeros(2, 6), 7, 2, 0.0), "count 7 is not in 0..6"),
    refuses((six, torch.zeros(2, 6), -1, 2, 0.0), "count -1 is not in 0..6"),
)
