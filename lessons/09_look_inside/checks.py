"""Checks of lesson 09: look inside."""

from collections.abc import Callable

import torch
from einops import rearrange
from torch import Tensor

from vit_course import interpret
from vit_course.classroom.checks.compare import compare, demand_error
from vit_course.classroom.checks.outcome import Mistake, outcome
from vit_course.classroom.checks.registry import exercise
from vit_course.classroom.checks.words import difference, explain_error
from vit_course.patches import as_pair, patchify, unpatchify


def _filters(
    number: int, channels: int, height: int, width: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Make filters whose components are well apart, so that every way of computing finds the same ones."""
    length = channels * height * width
    left, _ = torch.linalg.qr(torch.randn(number, length, dtype=torch.float64))
    left = torch.linalg.qr(left - left.mean(dim=0))[0]
    right, _ = torch.linalg.qr(torch.randn(length, length, dtype=torch.float64))
    strength = 2 * 0.8 ** torch.arange(length, dtype=torch.float64)
    mean = 0.7 * torch.randn(length, dtype=torch.float64) + 0.3
    return ((left * strength) @ right + mean).reshape(number, channels, height, width).to(dtype)


def _one_sign(components: Tensor) -> Tensor:
    """Turn each component so that its largest number is positive: v and -v are the same component."""
    flat = components.reshape(len(components), -1)
    sign = flat.gather(1, flat.abs().argmax(dim=1, keepdim=True)).sign()
    return (flat * sign).reshape(components.shape)


def _components(
    centre: Callable = lambda flat: flat - flat.mean(dim=0),
    share: Callable = lambda s, count: s.square() / s.square().sum(),
    shape: Callable = lambda v, filters: v.reshape(-1, *filters.shape[1:]),
    pick: Callable = lambda v, s: v,
    first: Callable = lambda x, count: x[:count],
) -> Callable:
    """Build a PCA of filters with one step changed; the defaults give the right one."""

    def function(filters: Tensor, count: int = 28) -> tuple[Tensor, Tensor]:
        _, s, v = torch.linalg.svd(centre(filters.flatten(1)), full_matrices=False)
        return shape(first(pick(v, s), count), filters), first(share(s, count), count)

    return function


FILTER_MISTAKES = [
    (
        _components(centre=lambda flat: flat),
        "the mean filter is not subtracted: then the first component mostly *is* the mean",
    ),
    (
        _components(centre=lambda flat: flat - flat.mean(dim=1, keepdim=True)),
        "you subtract from each filter the mean of its own numbers; subtract the mean *filter*, the mean over the D "
        "rows: dim=0",
    ),
    (
        _components(centre=lambda flat: flat - flat.mean()),
        "you subtract one number, the mean of everything; subtract the mean *filter*: mean(dim=0)",
    ),
    (
        _components(centre=lambda flat: (flat - flat.mean(dim=0)) / flat.std(dim=0)),
        "you divide by the deviation; subtract the mean filter and leave the size of the differences as it is",
    ),
    (
        _components(share=lambda s, count: s / s.sum()),
        "your shares are those of the singular values; the variance is their *square*",
    ),
    (
        _components(share=lambda s, count: s.square() / s[:count].square().sum()),
        "your shares are divided by the variance of the chosen components alone, so they sum to 1 for every count; "
        "divide by the variance of all of them, and choose afterwards",
    ),
    (
        _components(share=lambda s, count: s.square()),
        "your shares are variances: divide by their sum, so that all together are 1",
    ),
    (
        _components(share=lambda s, count: s),
        "you return the singular values; shares of the variance were asked for",
    ),
    (
        _components(share=lambda s, count: (s.square() / s.square().sum()).cumsum(0)),
        "your shares add up along the list; each one should be that of its component alone",
    ),
    (
        _components(share=lambda s, count: 100 * s.square() / s.square().sum()),
        "your shares are percent: numbers in 0..1 were asked for",
    ),
    (
        _components(first=lambda x, count: x.flip(0)[:count]),
        "the weakest components come first: `eigh` sorts upwards. The strongest should be first",
    ),
    (
        _components(first=lambda x, count: x[-count:].flip(0)),
        "you take the weakest components: the strongest were asked for",
    ),
    (
        _components(pick=lambda v, s: v * s[:, None]),
        "your components are stretched by the singular values; each should have length 1",
    ),
    (
        _components(shape=lambda v, filters: v),
        "your components are still flat: give them the shape (count, C, P, P) of filters",
    ),
    (
        _components(
            shape=lambda v, filters: rearrange(
                v, "k (p q c) -> k c p q", c=filters.shape[1], p=filters.shape[2]
            )
        ),
        "the numbers of a component are in another order than those of a filter: filters are (C, P, P), and "
        "`flatten(1)` keeps that order, so the way back is a plain reshape",
    ),
    (
        _components(pick=lambda v, s: v / v.abs().amax(dim=1, keepdim=True)),
        "the largest number of your components is 1; their *length* should be 1",
    ),
    (lambda *case: interpret.filter_components(*case)[::-1], "first the components, then the shares"),
    (
        lambda *case: interpret.filter_components(*case)[0],
        "you return the components alone; their shares are wanted too: `return components, shares`",
    ),
]


def _variances(divisor: Callable) -> Callable:
    """Build a PCA that returns variances, the squares divided by a function of D, instead of shares."""

    def function(filters: Tensor, count: int = 28) -> tuple[Tensor, Tensor]:
        flat = filters.flatten(1)
        components, shares = interpret.filter_components(filters, count)
        return components, shares * (flat - flat.mean(dim=0)).square().sum() / divisor(len(filters))

    return function


def _left_vectors(filters: Tensor, count: int = 28) -> tuple[Tensor, Tensor]:
    """Take U, the first matrix of the decomposition, for the components."""
    flat = filters.flatten(1)
    u, _, _ = torch.linalg.svd(flat - flat.mean(dim=0), full_matrices=False)
    return u[:count].reshape(-1, *filters.shape[1:]), interpret.filter_components(filters, count)[1]


def _pixels_first(filters: Tensor, count: int = 28) -> tuple[Tensor, Tensor]:
    """Flatten filters as (P, P, C), and go back as (C, P, P)."""
    components, shares = interpret.filter_components(filters, count)
    return rearrange(components, "k c p q -> k (p q c)").reshape(components.shape), shares


def _refuse_wrong_direction(components: object, filters: Tensor, count: int) -> None:
    """Recognise components that were cut as rows where they are columns, or the other way round, whatever the signs."""
    right = interpret.filter_components(filters, filters[0].numel())[0].flatten(1)
    if not isinstance(components, Tensor) or components.shape != (count, *filters.shape[1:]):
        return
    mine, columns = components.abs().double(), right.T.abs().double()
    cuts = (columns[:, :count], columns.T[:, :count])
    for table in (columns, columns.flip(0), columns.flip(1), columns.flip(0, 1), *cuts):
        if torch.allclose(mine.flatten(), table.flatten()[: mine.numel()], atol=1e-4):
            raise Mistake(
                "your components are cut in the wrong direction: `torch.linalg.eigh` gives them as *columns* (turn "
                "them with `.T` before you reshape), while `torch.linalg.svd` returns V already transposed, so there "
                "they are *rows*"
            )


@exercise(interpret.filter_components)
def check_filter_components(answer):
    def run(function, filters, count):
        result = function(filters, count)
        if (
            isinstance(result, tuple | list)
            and result
            and isinstance(result[0], Tensor)
            and result[0].numel()
        ):
            return (_one_sign(result[0]), *result[1:])
        return _one_sign(result) if isinstance(result, Tensor) and result.ndim > 1 else result

    cases = [
        (_filters(6, 1, 1, 2), 1),
        (_filters(20, 3, 2, 2), 12),
        (_filters(30, 2, 2, 3), 5),
        (_filters(40, 3, 2, 1, torch.float64), 4),
    ]
    got = outcome(run, answer, cases[2])
    if isinstance(got, tuple | list) and got:
        _refuse_wrong_direction(got[0], *cases[2])
    mistakes = [
        *FILTER_MISTAKES,
        *(
            (_variances(d), "your shares are variances: divide by their sum, so that all together are 1")
            for d in (lambda number: number - 1, lambda number: number)
        ),
        (
            _left_vectors,
            "you take the first result of the decomposition, U, which has a row for each filter; the components are "
            "the rows of the third",
        ),
        (
            _pixels_first,
            "the numbers of a component are in another order than those of a filter: you flatten in one order and go "
            "back in another. Filters are (C, P, P): `flatten(1)`, and a plain reshape back",
        ),
        (
            lambda *case: tuple(x.flip(0) for x in interpret.filter_components(*case)),
            "your strongest component comes last: `eigh` sorts upwards. It should be the first",
        ),
    ]
    compare(answer, interpret.filter_components, cases, mistakes, run)
    usual = outcome(lambda f, filters: f(filters), answer, (_filters(64, 3, 4, 4),))
    if isinstance(usual, Exception) or len(usual[0]) != 28 or len(usual[1]) != 28:
        raise Mistake(
            "without `count` your function should return 28 components: keep the default of the signature"
        )


def _rollout(
    heads: Callable = lambda a: a.mean(dim=1),
    mix: Callable = lambda a, eye: 0.5 * a + 0.5 * eye,
    normalise: Callable = lambda layer: layer / layer.sum(dim=-1, keepdim=True),
    multiply: Callable = lambda layer, rollout: layer @ rollout,
    choose: Callable = lambda attentions: attentions,
    finish: Callable = lambda rollout, attentions, prefix: rollout,
) -> Callable:
    """Build a rollout with one step changed; the defaults give the right one."""

    def function(attentions: list[Tensor], num_prefix_tokens: int = 1) -> Tensor:
        eye = torch.eye(attentions[0].shape[-1]).to(attentions[0])
        rollout = eye
        for attention in choose(list(attentions)):
            rollout = multiply(normalise(mix(heads(attention), eye)), rollout)
        return finish(rollout, attentions, num_prefix_tokens)

    return function


def _same(layer: Tensor) -> Tensor:
    return layer


ROLLOUT_MISTAKES = [
    (
        _rollout(multiply=lambda layer, rollout: rollout @ layer),
        "the layers are multiplied in the wrong order: a new layer reads what the ones before have made, so it stands "
        "left, `layer @ rollout`",
    ),
    (
        _rollout(mix=lambda a, eye: a),
        "the residual connection is missing: mix each layer half and half with the identity",
    ),
    (
        _rollout(mix=lambda a, eye: a + eye, normalise=_same),
        "the rows sum to 2 in each layer, and to 2 to the power of L in the end: take half of each, or divide each row "
        "by its sum",
    ),
    (_rollout(heads=lambda a: a[:, 0]), "you follow head 0 alone: average over all heads, axis 1"),
    (_rollout(heads=lambda a: a[:, -1]), "you follow the last head alone: average over all heads, axis 1"),
    (
        lambda attentions, prefix=1: torch.stack(
            [_rollout()([a[:, [head]] for a in attentions]) for head in range(attentions[0].shape[1])]
        ).mean(dim=0),
        "you follow each head through all layers, and average at the end; average the heads of each layer first",
    ),
    (
        lambda attentions, prefix=1: torch.zeros_like(attentions[0][:, 0]),
        "all is 0: a product that begins with zeros stays 0. Begin with the identity, or with layer 1",
    ),
    (
        lambda attentions, prefix=1: (
            _rollout()(attentions[1:]) @ attentions[0].mean(dim=1)
            if len(attentions) > 1
            else attentions[0].mean(dim=1)
        ),
        "layer 1 is taken as it is: it has a residual connection too, so mix it with the identity like the others",
    ),
    (_rollout(heads=lambda a: a.amax(dim=1)), "you take the largest weight over the heads: take their mean"),
    (
        _rollout(heads=lambda a: a.sum(dim=1)),
        "the heads are summed, so the residual connection counts too little beside them: take the mean",
    ),
    (_rollout(heads=lambda a: a.sum(dim=1), normalise=_same), "the heads are summed: take their mean"),
    (_rollout(choose=lambda layers: layers[-1:]), "you use the last layer alone: multiply all layers"),
    (_rollout(choose=lambda layers: layers[:1]), "you use the first layer alone: multiply all layers"),
    (_rollout(choose=lambda layers: layers[1:]), "the first layer is left out"),
    (_rollout(choose=lambda layers: layers[:-1]), "the last layer is left out"),
    (
        _rollout(multiply=lambda layer, rollout: layer * rollout),
        "`*` multiplies number by number; paths through two layers need a matrix product, `@`",
    ),
    (
        _rollout(
            mix=lambda a, eye: a,
            finish=lambda r, attentions, prefix: 0.5 * r + 0.5 * torch.eye(r.shape[-1]).to(r),
        ),
        "the identity is mixed in once, at the end; every layer has its residual connection",
    ),
    (
        lambda attentions, prefix=1: sum(_rollout()([a], prefix) for a in attentions) / len(attentions),
        "you average the layers; what goes through one *and* the next is their matrix product",
    ),
    (
        _rollout(finish=lambda r, attentions, prefix: r.mT),
        "rows and columns are swapped: row i should say where output token i comes from, and sum to 1",
    ),
    (
        _rollout(finish=lambda r, attentions, prefix: r[:, prefix:, prefix:]),
        "you cut off the prefix; it takes part like all tokens, and the result is (B, T, T)",
    ),
    (
        _rollout(finish=lambda r, attentions, prefix: r[:, 0, prefix:]),
        "you return the row of CLS over the patches; all rows and columns are wanted, (B, T, T)",
    ),
    (
        _rollout(finish=lambda r, attentions, prefix: r[:, 0]),
        "you return the row of CLS; all rows are wanted, (B, T, T)",
    ),
    (
        _rollout(finish=lambda r, attentions, prefix: r[0]),
        "you return the first picture alone: the result is (B, T, T), one table for each picture of the batch",
    ),
    (
        _rollout(finish=lambda r, attentions, prefix: r[:1].expand_as(r)),
        "all pictures get the table of the first one",
    ),
    (
        _rollout(
            heads=lambda a: a.mean(dim=(0, 1)), finish=lambda r, a, prefix: r.expand(len(a[0]), *r.shape)
        ),
        "you average over the pictures too: average over the heads alone, axis 1",
    ),
    (
        _rollout(heads=lambda a: a.mean(dim=(0, 1))),
        "you average over the pictures too: average over the heads alone, axis 1",
    ),
    (_rollout(heads=lambda a: a.mean(dim=0)), "you average over the pictures, axis 0; the heads are axis 1"),
    (
        _rollout(mix=lambda a, eye: 0.5 * a + 0.5),
        "you add 0.5 to every number; the identity has 1 on its diagonal and 0 elsewhere: `torch.eye(T)`",
    ),
    (
        _rollout(normalise=lambda layer: layer.softmax(dim=-1)),
        "the weights come from a softmax already: divide each row by its sum, without another softmax",
    ),
    (
        _rollout(normalise=lambda layer: layer / layer.sum(dim=-2, keepdim=True)),
        "you make the *columns* sum to 1; it should be the rows: `sum(dim=-1, keepdim=True)`",
    ),
]


@exercise(interpret.attention_rollout)
def check_attention_rollout(answer):
    def weights(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return (2 * torch.randn(*shape, dtype=dtype)).softmax(dim=-1)

    def run(function, attentions, num_prefix_tokens):
        return function(list(attentions), num_prefix_tokens)

    small = torch.tensor([[[[[1.0, 0.0], [1.0, 0.0]]]], [[[[0.0, 1.0], [0.0, 1.0]]]]])
    cases = [
        (small, 1),
        (weights(3, 2, 3, 5, 5), 1),
        (weights(4, 3, 2, 3, 3), 0),
        (weights(1, 2, 4, 6, 6), 2),
        (weights(6, 2, 1, 4, 4, dtype=torch.float64), 1),
    ]
    got = outcome(run, answer, cases[1])
    if isinstance(got, RuntimeError) and "must match the size" in str(got):
        heads_left = "(3)" in str(got)  # 3 heads, 2 pictures, 5 tokens
        why = (
            "Is the axis of the heads still there? Weights are (B, h, T, T): average over axis 1"
            if heads_left
            else "If you divide by the sums of the rows, keep their axis: `sum(dim=-1, keepdim=True)`"
        )
        raise Mistake(
            f"on 2 pictures, 3 heads and 5 tokens your code stopped with {explain_error(got)}\n{why}"
        )
    compare(answer, interpret.attention_rollout, cases, ROLLOUT_MISTAKES, run)
    layers = list(weights(3, 2, 2, 4, 4))
    given = list(layers)
    got = outcome(lambda function: function(given), answer, ())
    if difference(got, interpret.attention_rollout(layers)):
        raise Mistake("without `num_prefix_tokens` there is one, CLS: keep the default of the signature")
    if len(given) != len(layers) or any(a is not b for a, b in zip(given, layers, strict=True)):
        raise Mistake(
            "your code changes the list of layers that it is given: whoever called it still needs it. Leave out "
            "`pop` and `reverse()`, and put nothing into it"
        )
    uneven = torch.rand(3, 2, 3, 4, 4)
    if difference(answer(list(uneven), 1), interpret.attention_rollout(list(uneven))):
        raise Mistake(
            "right where every row of weights sums to 1. Where it does not, as after dropout, your rows should be "
            "divided by their sums all the same: in each layer, after the mix with the identity"
        )
    demand_error(answer, ([], 1), "a list without a layer cannot be followed", ValueError)
    for prefix in (3, -1):
        case = ([torch.full((1, 1, 3, 3), 1 / 3)], prefix)
        demand_error(answer, case, f"{prefix} prefix tokens of 3 make no sense: 0, 1 or 2 do", ValueError)
    why = "without `num_prefix_tokens` there is one, CLS (keep the default), so a single token leaves no patches"
    demand_error(answer, ([torch.ones(1, 1, 1, 1)],), why, ValueError)


def _distance(
    select: Callable = lambda a, prefix: a[..., prefix:, prefix:],
    table: Callable | None = None,
    size: Callable = lambda rows, columns, patch: as_pair(patch),
    reduce: Callable = lambda x: x.sum(dim=-1).mean(dim=(0, 2)),
    order: int = 2,
    raised: float = 1,
    swap: bool = False,
    listed: str = "row by row",
    only: int | None = None,
) -> Callable:
    """Build a mean attention distance with one step changed; the defaults give the right one."""

    def function(
        attention: Tensor, grid: tuple[int, int], patch: int | tuple[int, int], prefix: int = 1
    ) -> Tensor:
        rows, columns = grid[::-1] if swap else grid
        height, width = size(rows, columns, patch)
        y, x = torch.meshgrid(torch.arange(rows) * height, torch.arange(columns) * width, indexing="ij")
        if listed == "column by column":
            y, x = y.T, x.T
        centres = torch.stack([y.flatten(), x.flatten()], dim=1).to(attention)
        centres = centres if only is None else centres[:, only : only + 1]
        distances = (
            torch.cdist(centres, centres, p=order, compute_mode="donot_use_mm_for_euclid_dist") ** raised
        )
        return reduce(select(attention, prefix) * distances)

    return function


def _scaled_up(a: Tensor, prefix: int) -> Tensor:
    patches = a[..., prefix:, prefix:]
    return patches / patches.sum(dim=-1, keepdim=True)


DISTANCE_MISTAKES = [
    (
        _distance(select=_scaled_up),
        "you make the rows sum to 1 again after the prefix is gone; the authors do not, and their numbers are only "
        "comparable without",
    ),
    (
        _distance(size=lambda *_: (1, 1)),
        "your distances are in patches: multiply by the patch size to get pixels",
    ),
    (
        _distance(size=lambda rows, columns, patch: as_pair(patch)[::-1]),
        "height and width of the patch are swapped: `patch_size` is (height, width), rows go down",
    ),
    (
        _distance(size=lambda rows, columns, patch: (as_pair(patch)[0],) * 2),
        "you use the height of a patch for both directions: a pair is (height, width)",
    ),
    (
        _distance(size=lambda rows, columns, patch: (as_pair(patch)[1],) * 2),
        "you use the width of a patch for both directions: a pair is (height, width)",
    ),
    (_distance(swap=True), "rows and columns of the grid are swapped: `grid_size` is (rows, columns)"),
    (
        _distance(listed="column by column"),
        "the centres are in another order than the patches, which come in reading order, row by row: "
        "`torch.meshgrid` needs indexing='ij', and i counts rows",
    ),
    (_distance(only=0), "you measure the steps down alone: a distance has a step across too"),
    (_distance(only=1), "you measure the steps across alone: a distance has a step down too"),
    (_distance(raised=2), "your distances are squared: the root is missing"),
    (
        _distance(order=1),
        "you add the steps down and across; the straight distance is the root of their squares",
    ),
    (
        _distance(order=torch.inf),
        "you take the larger of the steps down and across; the straight distance is the root of the sum of their "
        "squares",
    ),
    (
        _distance(select=lambda a, prefix: a[..., : a.shape[-1] - prefix, : a.shape[-1] - prefix]),
        "you drop the last tokens; the prefix comes first",
    ),
    (
        _distance(reduce=lambda x: x.mean(dim=(0, 2, 3))),
        "you average over the keys: their weights are shares already, so *sum* over them",
    ),
    (
        _distance(reduce=lambda x: x.sum(dim=(-1, -2)).mean(dim=0)),
        "you sum over the queries: average over them, so that the size of the grid does not matter",
    ),
    (
        _distance(reduce=lambda x: x.sum(dim=(0, 2, 3))),
        "you sum over the queries and the pictures: sum over the keys alone, and average over the others",
    ),
    (
        _distance(reduce=lambda x: x.sum(dim=-1).mean(dim=2).sum(dim=0)),
        "you sum over the pictures: average over them",
    ),
    (
        _distance(reduce=lambda x: x.sum(dim=-1).mean(dim=2)[0]),
        "you use the first picture alone: average over the batch",
    ),
    (
        _distance(reduce=lambda x: x.sum(dim=-1).mean(dim=2)),
        "one axis is left: average over the pictures too, so that (h,) remains",
    ),
    (
        _distance(reduce=lambda x: x.sum(dim=-1).mean(dim=0)),
        "one axis is left: average over the queries too, so that (h,) remains",
    ),
    (
        _distance(reduce=lambda x: x.sum(dim=-1).mean(dim=(1, 2))),
        "you average over the heads, and keep the pictures: axis 0 counts pictures, axis 1 heads",
    ),
    (
        _distance(reduce=lambda x: x.sum(dim=-1).amax(dim=2).mean(dim=0)),
        "you take the query that looks farthest: average over the queries",
    ),
]


def _counts_prefix_queries(
    attention: Tensor, grid: tuple[int, int], patch: int | tuple[int, int], prefix: int = 1
) -> Tensor:
    """Return the mean over all T queries: the mistake of giving the prefix a distance of 0."""
    patches = grid[0] * grid[1]
    return interpret.mean_attention_distance(attention, grid, patch, prefix) * patches / (patches + prefix)


@exercise(interpret.mean_attention_distance)
def check_mean_attention_distance(answer):
    def weights(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return (2 * torch.randn(*shape, dtype=dtype)).softmax(dim=-1)

    cases = [
        (torch.tensor([[[[0.2, 0.4, 0.4], [0.2, 0.3, 0.5], [0.5, 0.25, 0.25]]]]), (1, 2), 10, 1),
        (weights(2, 3, 7, 7), (2, 3), 4, 1),
        (weights(3, 3, 6, 6), (3, 2), (5, 8), 0),
        (weights(1, 2, 10, 10), (2, 4), (8, 2), 2),
        (weights(2, 2, 17, 17, dtype=torch.float64), (4, 4), 16, 1),
    ]
    got = [outcome(lambda f, *case: f(*case), answer, case) for case in cases]
    if isinstance(got[2], RuntimeError) and not isinstance(got[0], Exception):
        why = ""
        if "(0)" in str(got[2]):
            why = "\nThe slice `[:-0]` is empty. And the prefix comes first: `[num_prefix_tokens:]`"
        elif "(5)" in str(got[2]):
            why = "\nDo you drop one token whatever the prefix? Use `num_prefix_tokens`, which may be 0 or 2"
        raise Mistake(
            f"with 0 prefix tokens and a grid of 3x2 your code stopped with {explain_error(got[2])}{why}"
        )
    if isinstance(got[1], Tensor) and got[1].ndim == 0:
        raise Mistake(
            "you return one number: do you average over the heads too? Each head gets its own, (h,)"
        )
    mistakes = [
        *DISTANCE_MISTAKES,
        (
            _counts_prefix_queries,
            "the prefix is among the queries that you average over: drop its rows as well as its columns",
        ),
    ]
    compare(answer, interpret.mean_attention_distance, cases, mistakes)
    attention = weights(2, 2, 7, 7)
    usual = outcome(lambda f, *case: f(*case), answer, (attention, (2, 3), 4))
    if difference(usual, interpret.mean_attention_distance(attention, (2, 3), 4)):
        raise Mistake("without `num_prefix_tokens` there is one, CLS: keep the default of the signature")
    for grid, prefix in (((2, 3), 0), ((3, 3), 1)):
        total = prefix + grid[0] * grid[1]
        why = f"7 tokens are not {prefix} prefix + {grid[0]}x{grid[1]} patches = {total}"
        demand_error(answer, (attention, grid, 4, prefix), why, ValueError)


def _hide(
    order: Callable = lambda scores: scores.argsort(dim=1, descending=True),
    take: Callable = lambda order, count: order[:, :count],
    paint: Callable = lambda patches, value: value,
    swap: bool = False,
    transposed: bool = False,
) -> Callable:
    """Build a `hide_patches` with one step changed; the defaults give the right one."""

    def function(
        images: Tensor, scores: Tensor, count: int, patch: int | tuple[int, int], value: float = 0.0
    ) -> Tensor:
        height, width = as_pair(patch)
        grid = (images.shape[2] // height, images.shape[3] // width)
        if transposed:
            scores = rearrange(scores, "b (c r) -> b (r c)", r=grid[0])
        patches = patchify(images, patch).clone()
        chosen = take(order(scores), count)
        hidden = torch.zeros(scores.shape, dtype=torch.bool).scatter(1, chosen, True)
        painted = torch.where((~hidden if swap else hidden)[..., None], paint(patches, value), patches)
        return unpatchify(painted, patch, grid)

    return function


HIDE_MISTAKES = [
    (
        _hide(order=lambda scores: scores.argsort(dim=1)),
        "you hide the patches with the *lowest* scores: sort with descending=True",
    ),
    (_hide(swap=True), "you keep the highest patches and hide all others; it should be the other way round"),
    (
        _hide(order=lambda s: s.argsort(dim=1, descending=True)[:1].expand_as(s)),
        "every picture loses the patches of the first one: each has its own scores",
    ),
    (
        _hide(order=lambda s: s.mean(dim=0, keepdim=True).argsort(dim=1, descending=True).expand_as(s)),
        "you average the scores over the pictures: each picture has its own highest patches",
    ),
    (
        _hide(order=lambda s: s.argsort(dim=1, descending=True).argsort(dim=1)),
        "`argsort` says which patch comes first, second, ...; it is not the rank of each patch. Index with it, or "
        "take the argsort of the argsort",
    ),
    (
        _hide(transposed=True),
        "patches are counted column by column: the scores come in reading order, row by row",
    ),
    (
        _hide(take=lambda order, count: order[:, : count + 1]),
        "one patch too many is hidden: the slice `[:, :count]` has `count` of them",
    ),
    (
        _hide(take=lambda order, count: order[:, count - 1 : count]),
        "you hide one patch alone, the last of the chosen",
    ),
    (
        _hide(take=lambda order, count: order.flip(1)[:, -count:]),
        "with count = 0 your code hides everything: a slice that starts at -0 is the whole axis",
    ),
    (
        _hide(paint=lambda patches, value: 0.0 * patches),
        "the patches are painted with 0 whatever `value` says",
    ),
    (
        _hide(paint=lambda patches, value: patches.mean(dim=-1, keepdim=True)),
        "you paint a patch with its own mean: it should be `value`",
    ),
    (
        _hide(paint=lambda patches, value: patches + value),
        "you add `value` to the patch: it should replace it",
    ),
    (
        _hide(paint=lambda patches, value: patches * value),
        "you multiply the patch by `value`: it should replace it",
    ),
    (
        lambda images, scores, count, patch, value=0.0: patchify(
            interpret.hide_patches(images, scores, count, patch, value), patch
        ),
        "you return patches: put them together again with `unpatchify`, (B, C, H, W)",
    ),
]


def _first_channel(
    images: Tensor, scores: Tensor, count: int, patch: int | tuple[int, int], value: float = 0.0
) -> Tensor:
    """Paint the first channel alone: the mistake of indexing `[:, 0]` or of one number in a patch."""
    result = images.clone()
    result[:, :1] = interpret.hide_patches(images, scores, count, patch, value)[:, :1]
    return result


def _in_pairs(
    images: Tensor, scores: Tensor, count: int, patch: int | tuple[int, int], value: float = 0.0
) -> Tensor:
    """Index pictures and patches in pairs, where each picture should meet all its patches."""
    patches = patchify(images, patch).clone()
    patches[torch.arange(len(images)), scores.argsort(dim=1, descending=True)[:, :count]] = value
    height, width = as_pair(patch)
    return unpatchify(patches, patch, (images.shape[2] // height, images.shape[3] // width))


def _first_picture(
    images: Tensor, scores: Tensor, count: int, patch: int | tuple[int, int], value: float = 0.0
) -> Tensor:
    """Paint in the first picture alone."""
    return torch.cat([interpret.hide_patches(images[:1], scores[:1], count, patch, value), images[1:]])


def _for_all(
    images: Tensor, scores: Tensor, count: int, patch: int | tuple[int, int], value: float = 0.0
) -> Tensor:
    """Hide what is chosen for any picture in all of them."""
    for row in scores:
        images = interpret.hide_patches(images, row.expand_as(scores), count, patch, value)
    return images


def _highest_of_all(
    images: Tensor, scores: Tensor, count: int, patch: int | tuple[int, int], value: float = 0.0
) -> Tensor:
    """Hide the highest patches of the whole batch."""
    place = scores.flatten().argsort(descending=True).argsort().view(scores.shape)
    chosen = place < count * len(images)
    parts = [
        interpret.hide_patches(images[i : i + 1], scores[i : i + 1], int(chosen[i].sum()), patch, value)
        for i in range(len(images))
    ]
    return torch.cat(parts)


@exercise(interpret.hide_patches)
def check_hide_patches(answer):
    def scores(batch: int, number: int) -> Tensor:
        """Make scores without ties, many of them negative, that are higher in each next picture."""
        rows = [torch.randperm(number) + 0.3 * torch.rand(number) + 3 * i for i in range(batch)]
        return torch.stack(rows) - 0.6 * number

    tiny = torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]])
    cases = [
        (tiny, torch.tensor([[0.1, 0.6, 0.3, 0.2]]), 1, 1, 0.0),
        (tiny, torch.tensor([[0.1, 0.4, 0.3, 0.2]]), 2, 1, 9.0),
        (torch.rand(2, 3, 4, 6) + 1, scores(2, 6), 2, 2, 0.0),
        (torch.rand(3, 1, 8, 6) + 1, scores(3, 8), 3, (2, 3), -0.5),
        (torch.rand(2, 2, 4, 6) + 1, scores(2, 6), 0, 2, 0.0),
        (torch.rand(2, 3, 4, 4).double() + 1, scores(2, 4), 4, 2, 0.25),
    ]
    mistakes = [
        *HIDE_MISTAKES,
        (_first_channel, "you paint the first channel alone: every channel gets `value`"),
        (
            _first_picture,
            "you paint in the first picture alone: each picture of the batch has its own patches",
        ),
        (
            _in_pairs,
            "pictures and patches are taken in pairs: give the pictures an axis of their own, "
            "`patches[torch.arange(B)[:, None], highest]`, so that each one meets all its patches",
        ),
        (
            lambda images, scores, count, patch, value=0.0: interpret.hide_patches(
                images, scores.abs(), count, patch, value
            ),
            "you sort by the size of the scores without their sign: a score may be negative, and is low then",
        ),
        (
            _highest_of_all,
            "you take the highest scores of the whole batch: each picture loses `count` patches",
        ),
        (
            _for_all,
            "patches chosen for one picture are hidden in all: `patches[:, highest]` takes every choice for every "
            "picture. Index the pictures too: `patches[torch.arange(B)[:, None], highest]`",
        ),
    ]
    compare(answer, interpret.hide_patches, cases, mistakes)
    images, given = torch.rand(2, 3, 4, 6) + 1, scores(2, 6)
    usual = outcome(lambda f, *case: f(*case), answer, (images, given, 2, 2))
    if difference(usual, interpret.hide_patches(images, given, 2, 2)):
        raise Mistake("without `value` the patches become 0: keep the default of the signature")
    equal = outcome(lambda f, *case: f(*case), answer, (images, torch.ones(2, 6), 2, 2))
    if isinstance(equal, Exception):
        raise Mistake(f"where scores are equal your code stopped with {explain_error(equal)}")
    hidden = patchify(equal, 2).eq(0).all(dim=-1).sum(dim=1).tolist()
    if hidden != [2, 2]:
        raise Mistake(
            f"where all scores are equal you hide {hidden[0]} patches instead of `count` = 2: choose by place in the "
            "order, not by a threshold"
        )
    result = answer(images, given, 0, 2)
    if result.data_ptr() == images.data_ptr():
        raise Mistake(
            "for count = 0 you hand back the input itself: return a new tensor, as for other counts"
        )
    demand_error(answer, (images, given[:, :5], 1, 2), "5 scores for 6 patches do not fit", ValueError)
    demand_error(
        answer, (images, given[:1], 1, 2), "the scores of 1 picture do not fit 2 pictures", ValueError
    )
    for count in (7, -1):
        demand_error(answer, (images, given, count, 2), f"count {count} is not in 0..6", ValueError)
