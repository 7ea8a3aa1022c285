"""Checks of lesson 09: look inside."""

from collections.abc import Callable

import torch
from einops import rearrange
from torch import Tensor

from vit_classroom.checks.explain.errors import stopped
from vit_classroom.checks.outcome import Mistake, outcome
from vit_classroom.checks.task import demand, exercise, refuses, results
from vit_classroom.checks.words import difference, explain_error
from vit_course import interpret
from vit_course.patches import as_pair, patchify, unpatchify


def call(function: Callable, *case: object) -> object:
    return function(*case)


# -- filter_components


def filters_of(number: int, channels: int, height: int, width: int) -> Tensor:
    """Make filters whose components are well apart, so that every way of computing finds the same ones."""
    length = channels * height * width
    left, _ = torch.linalg.qr(torch.randn(number, length, dtype=torch.float64))
    left = torch.linalg.qr(left - left.mean(dim=0))[0]
    right, _ = torch.linalg.qr(torch.randn(length, length, dtype=torch.float64))
    strength = 2 * 0.8 ** torch.arange(length, dtype=torch.float64)
    mean = 0.7 * torch.randn(length, dtype=torch.float64) + 0.3
    return ((left * strength) @ right + mean).reshape(number, channels, height, width).float()


def one_sign(components: Tensor) -> Tensor:
    """Turn each component so that its largest number is positive: v and -v are the same component."""
    flat = components.reshape(len(components), -1)
    sign = flat.gather(1, flat.abs().argmax(dim=1, keepdim=True)).sign()
    return (flat * sign).reshape(components.shape)


def run_pca(function: Callable, filters: Tensor, count: int) -> object:
    """Find components without their signs, which are arbitrary."""
    result = function(filters, count)
    if isinstance(result, tuple | list) and result and isinstance(result[0], Tensor) and result[0].numel():
        return (one_sign(result[0]) if result[0].is_floating_point() else result[0], *result[1:])
    return one_sign(result) if isinstance(result, Tensor) and result.ndim > 1 else result


def pca(
    centre: Callable = lambda flat: flat - flat.mean(dim=0),
    share: Callable = lambda s, count: s.square() / s.square().sum(),
    shape: Callable = lambda v, filters: v.reshape(-1, *filters.shape[1:]),
    pick: Callable = lambda u, s, v: v,
    first: Callable = lambda x, count: x[:count],
) -> Callable:
    """Return a PCA of filters with one step changed; the defaults give the right one."""

    def answer(filters: Tensor, count: int = 28) -> tuple[Tensor, Tensor]:
        u, s, v = torch.linalg.svd(centre(filters.flatten(1)), full_matrices=False)
        return shape(first(pick(u, s, v), count), filters), first(share(s, count), count)

    return answer


def stretched(u, s, v):
    low, high = v.aminmax(dim=1, keepdim=True)
    return (v - low) / (high - low)


def variances(divisor: Callable) -> Callable:
    """Return a PCA that gives variances, the squares divided by a function of D."""

    def answer(filters: Tensor, count: int = 28) -> tuple[Tensor, Tensor]:
        flat = filters.flatten(1)
        components, shares = interpret.filter_components(filters, count)
        return components, shares * (flat - flat.mean(dim=0)).square().sum() / divisor(len(filters))

    return answer


def eigen(take: Callable) -> Callable:
    """Return a PCA by eigenvectors of the covariance, which takes the components in this way."""

    def answer(filters: Tensor, count: int = 28) -> tuple[Tensor, Tensor]:
        values, vectors = torch.linalg.eigh(torch.cov(filters.flatten(1).T))
        order = values.argsort(descending=True)[:count]
        return take(vectors, order).reshape(-1, *filters.shape[1:]), (values / values.sum())[order]

    return answer


@demand(
    {
        "your components are cut in the wrong direction": [
            eigen(lambda vectors, order: vectors[order]),
            eigen(lambda vectors, order: vectors[:, order].contiguous()),
            pca(first=lambda x, count: x.T[:count] if x.ndim == 2 else x[:count]),
            pca(first=lambda x, count: x[:, :count].contiguous() if x.ndim == 2 else x[:count]),
        ]
    }
)
def cuts_components_as_rows(answer):
    """Recognise components cut as rows where they are columns, or the other way round, whatever the signs."""
    count, filters = 5, filters_of(30, 2, 2, 3)
    got = outcome(run_pca, answer, (filters, count))
    components = got[0] if isinstance(got, tuple | list) and got else None
    if not isinstance(components, Tensor) or components.shape != (count, *filters.shape[1:]):
        return
    mine = components.abs().double().flatten()
    columns = interpret.filter_components(filters, filters[0].numel())[0].flatten(1).T.abs().double()
    cuts = (columns[:, :count], columns.T[:, :count])
    for table in (columns, columns.flip(0), columns.flip(1), columns.flip(0, 1), *cuts):
        if torch.allclose(mine, table.flatten()[: mine.numel()], atol=1e-4):
            raise Mistake(
                "your components are cut in the wrong direction: `torch.linalg.eigh`, `torch.svd` and "
                "`torch.pca_lowrank` give them as *columns* (turn them with `.T` before you reshape), "
                "`torch.linalg.svd` alone as *rows*"
            )


exercise(
    interpret.filter_components,
    cuts_components_as_rows,
    results(
        lambda: [
            (filters_of(6, 1, 1, 2), 1),
            (filters_of(20, 3, 2, 2), 12),
            (filters_of(30, 2, 2, 3), 5),
            (filters_of(40, 3, 2, 1), 4),
            (filters_of(60, 3, 4, 4), 3),
            (filters_of(20, 3, 2, 2)[:8], 3),  # fewer filters than numbers in one
        ],
        {
            "a component has length 1: yours are multiplied by their deviations": pca(
                pick=lambda u, s, v: v * s[:, None] / (len(u) - 1) ** 0.5
            ),
            "a component has length 1: yours are stretched to 0...1, as if to be shown": pca(pick=stretched),
            "the mean filter is not subtracted: then the first component mostly *is* the mean": pca(
                lambda flat: flat
            ),
            "you subtract from each filter the mean of its own numbers; subtract the mean *filter*, the mean over the "
            "D rows: dim=0": pca(lambda flat: flat - flat.mean(dim=1, keepdim=True)),
            "you subtract one number, the mean of everything; subtract the mean *filter*: mean(dim=0)": pca(
                lambda flat: flat - flat.mean()
            ),
            "you divide by the deviation; subtract the mean filter and leave the size of the differences as it is": pca(
                lambda flat: (flat - flat.mean(dim=0)) / flat.std(dim=0)
            ),
            "your shares are those of the singular values; the variance is their *square*": pca(
                share=lambda s, count: s / s.sum()
            ),
            "your shares are divided by the variance of the chosen components alone, so they sum to 1 for every "
            "count; divide by the variance of all of them, and choose afterwards": pca(
                share=lambda s, count: s.square() / s[:count].square().sum()
            ),
            "your shares are variances: divide by their sum, so that all together are 1": [
                pca(share=lambda s, count: s.square()),
                variances(lambda number: number - 1),
                variances(lambda number: number),
            ],
            "you return the singular values; shares of the variance were asked for": pca(
                share=lambda s, count: s
            ),
            "the weakest components come first: `eigh` sorts upwards. The strongest should be first": pca(
                first=lambda x, count: x.flip(0)[:count]
            ),
            "you take the weakest components: the strongest were asked for": pca(
                first=lambda x, count: x[-count:]
            ),
            "your components are stretched by the singular values; each should have length 1": pca(
                pick=lambda u, s, v: v * s[:, None]
            ),
            "you take the first result of the decomposition, U, which has a row for each filter; the components are "
            "the rows of the third": pca(pick=lambda u, s, v: u),
            "your components are still flat: give them the shape (count, C, P, P) of filters": pca(
                shape=lambda v, filters: v
            ),
            "the numbers of a component are in another order than those of a filter: filters are (C, P, P), and "
            "`flatten(1)` keeps that order, so the way back is a plain reshape": pca(
                shape=lambda v, filters: rearrange(
                    v, "k (p q c) -> k c p q", c=filters.shape[1], p=filters.shape[2]
                )
            ),
            "you return the components alone; their shares are wanted too: `return components, shares`": (
                lambda *case: interpret.filter_components(*case)[0]
            ),
        },
        run=run_pca,
        float64=False,
    ),
)

# -- attention_rollout


def attention_weights(*shape: int) -> Tensor:
    """Draw weights (..., T, T) whose rows sum to 1."""
    return (2 * torch.randn(*shape)).softmax(dim=-1)


def run_rollout(function: Callable, attentions: Tensor, *rest: int) -> object:
    return function(list(attentions), *rest)


def half_each(a: Tensor, eye: Tensor) -> Tensor:
    return 0.5 * a + 0.5 * eye


def rows_sum_to_one(layer: Tensor) -> Tensor:
    return layer / layer.sum(dim=-1, keepdim=True)


def rollout(
    heads: Callable = lambda a: a.mean(dim=1),
    mix: Callable = half_each,
    normalise: Callable = rows_sum_to_one,
    multiply: Callable = lambda layer, before: layer @ before,
    choose: Callable = lambda attentions: attentions,
    finish: Callable = lambda r, prefix: r,
    from_identity: bool = True,
) -> Callable:
    """Return a rollout with one step changed; the defaults give the right one."""

    def answer(attentions: list[Tensor], num_prefix_tokens: int = 1) -> Tensor:
        eye = torch.eye(attentions[0].shape[-1]).to(attentions[0])
        layers = [normalise(mix(heads(a), eye)) for a in choose(list(attentions))]
        result = eye if from_identity or not layers else layers.pop(0)
        for layer in layers:
            result = multiply(layer, result)
        return finish(result, num_prefix_tokens)

    return answer


right_rollout = rollout()


def each_head_alone(attentions, num_prefix_tokens=1):
    heads = range(attentions[0].shape[1])
    return torch.stack([right_rollout([a[:, [head]] for a in attentions]) for head in heads]).mean(dim=0)


def stronger_half(attention):
    fused = attention.mean(dim=1)
    return fused * (fused >= fused.flatten(1).quantile(0.5, dim=1)[:, None, None])


def first_layer_as_it_is(attentions, num_prefix_tokens=1):
    first = attentions[0].mean(dim=1)
    return right_rollout(attentions[1:]) @ first if len(attentions) > 1 else first


def sums_without_their_axis(attentions, num_prefix_tokens=1):
    return rollout(normalise=lambda layer: layer / layer.sum(-1))(attentions)


@demand(
    {
        "keep their axis: `sum(dim=-1, keepdim=True)`": sums_without_their_axis,
        "average over axis 1": [rollout(heads=lambda a: a), rollout(heads=lambda a: a.mean(dim=2))],
        "Is your identity as large as the weights": rollout(
            mix=lambda layer, eye: layer + torch.eye(len(layer)), from_identity=False
        ),
    }
)
def axes_fit(answer):
    got = outcome(run_rollout, answer, (attention_weights(3, 2, 3, 5, 5), 1))
    if isinstance(got, RuntimeError) and "must match the size" in str(got):
        heads_left = "(3)" in str(got)  # 3 heads, 2 pictures, 5 tokens
        why = (
            "Is the axis of the heads still there? Weights are (B, h, T, T): average over axis 1"
            if heads_left
            else "If you divide by the sums of the rows, keep their axis: `sum(dim=-1, keepdim=True)`"
        )
        if "dimension 2" in str(got):
            why = "Is your identity as large as the weights, (T, T)? `torch.eye(attentions[0].shape[-1])`"
        raise Mistake(
            f"on 2 pictures, 3 heads and 5 tokens your code stopped with {explain_error(got)}\n{why}"
        )
    if isinstance(got, Tensor) and got.shape == (2, 3, 5, 5):
        raise Mistake(
            "the axis of the heads is still there: weights are (B, h, T, T), and the heads are averaged in each layer, "
            "so average over axis 1"
        )


def pops_layers(attentions, num_prefix_tokens=1):
    result = right_rollout(attentions)
    while attentions:
        attentions.pop(0)
    return result


def reverses_layers(attentions, num_prefix_tokens=1):
    attentions.reverse()
    return right_rollout(attentions[::-1])


@demand({"your code changes its input in place (argument 1)": [pops_layers, reverses_layers]})
def leaves_the_list_alone(answer):
    outcome(call, answer, (list(attention_weights(3, 2, 2, 4, 4)), 1))


UNEVEN = "right where every row of weights sums to 1, but not where it does not, as after dropout: "
UNEVEN_ROWS = {
    UNEVEN
    + "you divide the rows of each head by their sums; average the heads first, mix with the identity, and then "
    "divide": rollout(lambda a: a, normalise=lambda heads: rows_sum_to_one(heads).mean(dim=1)),
    UNEVEN + "you divide the rows by their sums once, after the product: divide them in each layer": rollout(
        normalise=lambda layer: layer, finish=lambda r, prefix: rows_sum_to_one(r)
    ),
}


@demand(UNEVEN_ROWS | {UNEVEN + "in each layer the heads": rollout(normalise=lambda layer: layer)})
def divides_rows_by_their_sums(answer):
    for uneven in (torch.rand(3, 2, 3, 4, 4), 0.1 * torch.rand(3, 2, 3, 4, 4)):
        got = outcome(run_rollout, answer, (uneven, 1))
        for words, wrong in UNEVEN_ROWS.items():
            if not difference(got, run_rollout(wrong, uneven, 1)):
                raise Mistake(words)
        if difference(got, interpret.attention_rollout(list(uneven))):
            raise Mistake(
                f"{UNEVEN}in each layer the heads are averaged, then mixed with the identity, and at last each row is "
                "divided by its sum"
            )


def refuses_no_prefix(attentions, num_prefix_tokens=1):
    if not attentions:
        raise ValueError("no layers")
    return right_rollout(attentions)


exercise(
    interpret.attention_rollout,
    axes_fit,
    results(
        lambda: [
            (torch.tensor([[[[[1.0, 0.0], [1.0, 0.0]]]], [[[[0.0, 1.0], [0.0, 1.0]]]]]), 1),
            (attention_weights(3, 2, 3, 5, 5), 1),
            (attention_weights(4, 3, 2, 3, 3), 0),
            (attention_weights(1, 2, 4, 6, 6), 2),
            (attention_weights(6, 2, 1, 4, 4), 1),
        ],
        {
            "the layers are multiplied in the wrong order: a new layer reads what the ones before have made, so it "
            "stands left, `layer @ rollout`, and the loop begins with the first layer": rollout(
                multiply=lambda layer, before: before @ layer
            ),
            "the residual connection is missing: mix each layer half and half with the identity": rollout(
                mix=lambda a, eye: a
            ),
            "the rows sum to 2 in each layer, and to 2 to the power of L in the end: take half of each, or divide "
            "each row by its sum": rollout(mix=lambda a, eye: a + eye, normalise=lambda layer: layer),
            "two things at once: the residual connection is missing, and a new layer stands left of those before, "
            "`layer @ rollout`": rollout(mix=lambda a, eye: a, multiply=lambda layer, before: before @ layer),
            "you follow head 0 alone: average over all heads, axis 1": rollout(lambda a: a[:, 0]),
            "you follow each head through all layers, and average at the end; average the heads of each layer first": (
                each_head_alone
            ),
            "you throw away the lowest weights: all of them count": rollout(stronger_half),
            "layer 1 is taken as it is: it has a residual connection too: mix it with the identity like the others": (
                first_layer_as_it_is
            ),
            "you take the largest weight over the heads: take their mean": rollout(lambda a: a.amax(dim=1)),
            "the heads are summed, so the residual connection counts too little beside them: take the mean": rollout(
                lambda a: a.sum(dim=1)
            ),
            "the heads are summed: take their mean": rollout(
                lambda a: a.sum(dim=1), normalise=lambda layer: layer
            ),
            "you use the last layer alone: multiply all layers": rollout(choose=lambda layers: layers[-1:]),
            "you use the first layer alone: is the `return` inside the loop?": rollout(
                choose=lambda layers: layers[:1]
            ),
            "the first layer is left out": rollout(choose=lambda layers: layers[1:]),
            "the last layer is left out": rollout(choose=lambda layers: layers[:-1]),
            "`*` multiplies number by number; paths through two layers need a matrix product, `@`": [
                rollout(multiply=torch.mul),
                rollout(multiply=torch.mul, from_identity=False),
            ],
            "the identity is mixed in once, at the end; every layer has its residual connection": rollout(
                mix=lambda a, eye: a, finish=lambda r, prefix: half_each(r, torch.eye(r.shape[-1]).to(r))
            ),
            "you average the layers; what goes through one *and* the next is their matrix product": (
                lambda attentions, num_prefix_tokens=1: (
                    sum(map(right_rollout, zip(attentions))) / len(attentions)
                )
            ),
            "rows and columns are swapped: row i should say where output token i comes from, and sum to 1": rollout(
                finish=lambda r, prefix: r.mT
            ),
            "you cut off the prefix; it takes part like all tokens, and the result is (B, T, T)": rollout(
                finish=lambda r, prefix: r[:, prefix:, prefix:]
            ),
            "you return the row of CLS over the patches; all rows and columns are wanted, (B, T, T)": rollout(
                finish=lambda r, prefix: r[:, 0, prefix:]
            ),
            "all pictures get the table of the first one": rollout(
                finish=lambda r, prefix: r[:1].expand_as(r)
            ),
            "you average over the pictures too: average over the heads alone, axis 1": [
                rollout(lambda a: a.mean(dim=(0, 1))),
                rollout(lambda a: a.mean(dim=(0, 1)).expand(len(a), *a.shape[2:])),
            ],
            "you add 0.5 to every number; the identity has 1 on its diagonal and 0 elsewhere: `torch.eye(T)`": rollout(
                mix=lambda a, eye: 0.5 * a + 0.5
            ),
            "the weights come from a softmax already: divide each row by its sum, without another softmax": rollout(
                normalise=lambda layer: layer.softmax(dim=-1)
            ),
        },
        run=run_rollout,
    ),
    leaves_the_list_alone,
    divides_rows_by_their_sums,
    refuses(([], 1), "a list without a layer cannot be followed"),
    refuses(
        ([torch.full((1, 1, 3, 3), 1 / 3)], 3),
        "3 prefix tokens of 3 make no sense: 0, 1 or 2 do",
        refuses_no_prefix,
    ),
)

# -- mean_attention_distance


def sums_over_keys(x: Tensor) -> Tensor:
    return x.sum(dim=-1).mean(dim=(0, 2))


def distance(
    select: Callable = lambda a, prefix: a[..., prefix:, prefix:],
    size: Callable = lambda patch: as_pair(patch),
    reduce: Callable = sums_over_keys,
    measure: Callable = lambda step: step.square().sum(dim=-1).sqrt(),
    listed: Callable = lambda rows, columns: [(r, c) for r in range(rows) for c in range(columns)],
) -> Callable:
    """Return a mean attention distance with one step changed; the defaults give the right one."""

    def answer(attention, grid_size, patch_size, num_prefix_tokens=1):
        centres = torch.tensor(listed(*grid_size)) * torch.tensor(size(patch_size))
        table = measure((centres[:, None] - centres).to(attention))
        return reduce(select(attention, num_prefix_tokens) * table)

    return answer


def steps_between_indices(size: Callable) -> Callable:
    """Return a distance of places in the list of patches, times a size."""

    def answer(attention, grid_size, patch_size, num_prefix_tokens=1):
        index = torch.arange(grid_size[0] * grid_size[1])
        table = (index[:, None] - index).abs().to(attention) * size(patch_size)
        return sums_over_keys(attention[..., num_prefix_tokens:, num_prefix_tokens:] * table)

    return answer


def counts_prefix_queries(attention, grid_size, patch_size, num_prefix_tokens=1):
    patches = grid_size[0] * grid_size[1]
    right = interpret.mean_attention_distance(attention, grid_size, patch_size, num_prefix_tokens)
    return right * patches / (patches + num_prefix_tokens)


def shares_of_all(patches):
    total = patches.sum(dim=(0, 2, 3), keepdim=True)
    return patches / total * len(patches) * patches.shape[-1]


def favourites(attention, prefix):
    rest = attention[..., prefix:, prefix:]
    return torch.zeros_like(rest).scatter(-1, rest.argmax(dim=-1, keepdim=True), 1)


def to_the_mean_place(attention, grid_size, patch_size, num_prefix_tokens=1):
    indices = [(r, c) for r in range(grid_size[0]) for c in range(grid_size[1])]
    centres = (torch.tensor(indices) * torch.tensor(as_pair(patch_size))).to(attention)
    steps = centres - centres[:, None]
    rest = attention[..., num_prefix_tokens:, num_prefix_tokens:, None]
    return (rest * steps).sum(dim=-2).norm(dim=-1).mean(dim=(0, 2))


def drops_one_token(attention, grid_size, patch_size, num_prefix_tokens=1):
    return distance()(attention, grid_size, patch_size, 1)


def takes_what_is_there(attention, grid_size, patch_size, num_prefix_tokens=1):
    patches = grid_size[0] * grid_size[1]
    fitting = attention[..., -patches:, -patches:]
    grid = grid_size if fitting.shape[-1] == patches else (1, fitting.shape[-1])
    return distance()(fitting, grid, patch_size, 0)


@demand(
    {
        "The slice `[:-0]` is empty": distance(lambda a, prefix: a[..., :-prefix, :-prefix]),
        "drop one token whatever the prefix": drops_one_token,
    }
)
def any_prefix_is_dropped(answer):
    usual = (attention_weights(2, 3, 7, 7), (2, 3), 4, 1)
    none = (attention_weights(3, 3, 6, 6), (3, 2), (5, 8), 0)
    error = outcome(call, answer, none)
    if isinstance(error, RuntimeError) and not isinstance(outcome(call, answer, usual), Exception):
        why = ""
        if "(0)" in str(error):
            why = "\nThe slice `[:-0]` is empty. And the prefix comes first: `[num_prefix_tokens:]`"
        elif "(5)" in str(error):
            why = "\nDo you drop one token whatever the prefix? Use `num_prefix_tokens`, which may be 0 or 2"
        raise Mistake(
            f"with 0 prefix tokens and a grid of 3x2 your code stopped with {explain_error(error)}{why}"
        )


@demand({"you return one number": distance(reduce=lambda x: x.mean())})
def gives_one_number_a_head(answer):
    got = outcome(call, answer, (attention_weights(2, 3, 7, 7), (2, 3), 4, 1))
    if isinstance(got, Tensor) and got.ndim == 0:
        raise Mistake("you return one number: do you average over heads too? Each head gets its own, (h,)")


exercise(
    interpret.mean_attention_distance,
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
        {
            "you make the rows sum to 1 again after the prefix is gone; the authors do not, and their numbers are "
            "only comparable without": distance(lambda a, prefix: rows_sum_to_one(a[..., prefix:, prefix:])),
            "your distances are in patches: multiply by the patch size to get pixels": distance(
                size=lambda patch: (1, 1)
            ),
            "height and width of the patch are swapped: `patch_size` is (height, width), rows go down": distance(
                size=lambda patch: as_pair(patch)[::-1]
            ),
            "you use the height of a patch for both directions: a pair is (height, width)": distance(
                size=lambda patch: (as_pair(patch)[0],) * 2
            ),
            "you use the width of a patch for both directions: a pair is (height, width)": distance(
                size=lambda patch: (as_pair(patch)[1],) * 2
            ),
            "you divide by all the weight that patches give to patches: what they give to the prefix is not made up "
            "for, average over the queries": distance(
                lambda a, prefix: shares_of_all(a[..., prefix:, prefix:])
            ),
            "rows and columns of the grid are swapped: `grid_size` is (rows, columns)": distance(
                listed=lambda columns, rows: [(r, c) for r in range(rows) for c in range(columns)]
            ),
            "the centres are in another order than the patches, which come in reading order, row by row: "
            "`torch.meshgrid` needs indexing='ij', and i counts rows": distance(
                listed=lambda rows, columns: [(r, c) for c in range(columns) for r in range(rows)]
            ),
            "you take the distance of two *numbers* of patches: 8 and 7 may be neighbours, or the end of one row and "
            "the start of the next. Give each patch a row and a column, `divmod(i, columns)`": [
                steps_between_indices(lambda patch: 1),
                steps_between_indices(lambda patch: as_pair(patch)[0]),
                steps_between_indices(lambda patch: as_pair(patch)[1]),
            ],
            "you measure the steps down alone: a distance has a step across too": distance(
                measure=lambda step: step[..., 0].abs()
            ),
            "you measure the steps across alone: a distance has a step down too": distance(
                measure=lambda step: step[..., 1].abs()
            ),
            "your distances are squared: the root is missing": distance(
                measure=lambda step: step.square().sum(dim=-1)
            ),
            "you add the steps down and across; the straight distance is the root of their squares": distance(
                measure=lambda step: step.abs().sum(dim=-1)
            ),
            "you drop the last tokens; the prefix comes first": distance(
                lambda a, prefix: a[..., : a.shape[-1] - prefix, : a.shape[-1] - prefix]
            ),
            "you average over the keys: their weights are shares already, so *sum* over them": distance(
                reduce=lambda x: x.mean(dim=(0, 2, 3))
            ),
            "you sum over the queries: average over them, so that the size of the grid does not matter": distance(
                reduce=lambda x: x.sum(dim=(-1, -2)).mean(dim=0)
            ),
            "you average over the heads, and keep the pictures: axis 0 counts pictures, axis 1 heads": distance(
                reduce=lambda x: x.sum(dim=-1).mean(dim=(1, 2))
            ),
            "you count the most attended patch alone: every key counts, with its weight": distance(
                favourites
            ),
            "this is the distance to the mean of the places that are attended to: take the mean of the *distances*": (
                to_the_mean_place
            ),
            "the prefix is among the queries that you average over: drop its rows as well as its columns": (
                counts_prefix_queries
            ),
        },
    ),
    refuses(
        (torch.full((2, 2, 7, 7), 1 / 7), (2, 3), 4, 0),
        "7 tokens are not 0 prefix + 2x3 patches = 6",
        takes_what_is_there,
    ),
)

# -- hide_patches


def falling(scores: Tensor) -> Tensor:
    return scores.argsort(dim=1, descending=True)


def hide(
    order: Callable = falling,
    take: Callable = lambda order, count: order[:, :count],
    paint: Callable = lambda patches, value: value,
    swap: bool = False,
) -> Callable:
    """Return a `hide_patches` with one step changed; the defaults give the right one."""

    def answer(images, scores, count, patch_size, value=0.0):
        height, width = as_pair(patch_size)
        grid = (images.shape[2] // height, images.shape[3] // width)
        patches = patchify(images, patch_size).clone()
        chosen = take(order(scores), count)
        hidden = torch.zeros(scores.shape, dtype=torch.bool).scatter(1, chosen, True)
        painted = torch.where((~hidden if swap else hidden)[..., None], paint(patches, value), patches)
        return unpatchify(painted, patch_size, grid)

    return answer


def hide_given(change: Callable) -> Callable:
    """Return a `hide_patches` that does the right thing with changed scores; `change` knows the rows of the grid."""

    def answer(images, scores, count, patch_size, value=0.0):
        changed = change(scores, images.shape[2] // as_pair(patch_size)[0])
        return interpret.hide_patches(images, changed, count, patch_size, value)

    return answer


def in_pairs(images, scores, count, patch_size, value=0.0):
    patches = patchify(images, patch_size).clone()
    patches[torch.arange(len(images)), falling(scores)[:, :count]] = value
    height, width = as_pair(patch_size)
    return unpatchify(patches, patch_size, (images.shape[2] // height, images.shape[3] // width))


def hides_for_all(images, scores, count, patch_size, value=0.0):
    for row in scores:
        images = interpret.hide_patches(images, row.expand_as(scores), count, patch_size, value)
    return images


def counts_by_rows(images, scores, count, patch_size, value=0.0):
    result, (height, width) = images.clone(), as_pair(patch_size)
    for picture, order in zip(result, falling(scores), strict=True):
        for n in order[:count].tolist():
            r, c = divmod(n, images.shape[2] // height)
            picture[:, r * height : (r + 1) * height, c * width : (c + 1) * width] = value
    return result


def highest_of_all(images, scores, count, patch_size, value=0.0):
    place = scores.flatten().argsort(descending=True).argsort().view(scores.shape)
    chosen = (place < count * len(images)).sum(dim=1).tolist()
    parts = zip(images.split(1), scores.split(1), chosen, strict=True)
    return torch.cat([interpret.hide_patches(*part, patch_size, value) for part in parts])


def by_threshold(images, scores, count, patch_size, value=0.0):
    lowest = scores.sort(dim=1, descending=True).values[:, max(0, count - 1)]
    parts = zip(images.split(1), scores.split(1), lowest, strict=True)
    hidden = [(x, s, int((s >= least).sum()) if count else 0) for x, s, least in parts]
    return torch.cat([interpret.hide_patches(*part, patch_size, value) for part in hidden])


def draw_scores(batch: int, number: int) -> Tensor:
    """Draw scores without ties, many of them negative, that are higher in each next picture."""
    rows = [torch.randperm(number) + 0.3 * torch.rand(number) + 3 * i for i in range(batch)]
    return torch.stack(rows) - 0.6 * number


@demand(
    {
        "choose by place in the order, not by a threshold": by_threshold,
        "with count = 0 you hand back the input itself": lambda images, scores, count, patch_size, value=0.0: (
            interpret.hide_patches(images, scores, count, patch_size, value) if count else images
        ),
    }
)
def hides_as_many_where_scores_are_equal(answer):
    case = (torch.rand(2, 3, 4, 6) + 1, torch.ones(2, 6), 2, 2, 0.0)
    equal = outcome(call, answer, case)
    if isinstance(equal, Exception):
        raise stopped(equal, "where scores are equal ")
    if answer(given := case[0].clone(), case[1], 0, 2).data_ptr() == given.data_ptr():
        raise Mistake("with count = 0 you hand back the input itself: return a new tensor, as always")
    hidden = patchify(equal, 2).eq(0).all(dim=-1).sum(dim=1).tolist()
    if hidden != [2, 2]:
        raise Mistake(
            f"where all scores are equal you hide {hidden[0]} patches instead of `count` = 2: choose by place in the "
            "order, not by a threshold"
        )


tiny = torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]])
six = torch.ones(2, 3, 4, 6)

exercise(
    interpret.hide_patches,
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
        {
            "you hide the patches with the *lowest* scores: sort with descending=True": hide(
                lambda scores: scores.argsort(dim=1)
            ),
            "you keep the highest patches and hide all others; it should be the other way round": hide(
                swap=True
            ),
            "every patch is hidden, whatever `count` is: take the first `count` of each row, `[:, :count]`": hide(
                take=lambda order, count: order
            ),
            "every picture loses the patches of the first one: each has its own scores": hide_given(
                lambda scores, rows: scores[:1].expand_as(scores)
            ),
            "you average the scores over the pictures: each picture has its own highest patches": hide_given(
                lambda scores, rows: scores.mean(dim=0, keepdim=True).expand_as(scores)
            ),
            "`argsort` says which patch comes first, second, ...; it is not the rank of each patch. Index with it, or "
            "take the argsort of the argsort": hide(lambda scores: falling(scores).argsort(dim=1)),
            "patches are counted column by column: the scores come in reading order, row by row": hide_given(
                lambda scores, rows: rearrange(scores, "b (c r) -> b (r c)", r=rows)
            ),
            "a row of the grid has as many patches as the grid has columns: `divmod(n, columns)`": counts_by_rows,
            "one patch too many is hidden: the slice `[:, :count]` has `count` of them": hide(
                take=lambda order, count: order[:, : count + 1]
            ),
            "with count = 0 your code hides everything: a slice that starts at -0 is the whole axis": hide(
                take=lambda order, count: order.flip(1)[:, -count:]
            ),
            "you paint a patch with its own mean: it should be `value`": hide(
                paint=lambda patches, value: patches.mean(dim=-1, keepdim=True)
            ),
            "you add `value` to the patch: it should replace it": hide(
                paint=lambda patches, value: patches + value
            ),
            "you return patches: put them together again with `unpatchify`, (B, C, H, W)": (
                lambda images, scores, count, patch, value=0.0: patchify(
                    hide()(images, scores, count, patch, value), patch
                )
            ),
            "pictures and patches are taken in pairs: give the pictures an axis of their own, "
            "`patches[torch.arange(B)[:, None], highest]`, so that each one meets all its patches": in_pairs,
            "you take the highest scores of the whole batch: each picture loses `count` patches": highest_of_all,
            "patches chosen for one picture are hidden in all: `patches[:, highest]` takes every choice for every "
            "picture. Index the pictures too: `patches[torch.arange(B)[:, None], highest]`": hides_for_all,
        },
    ),
    hides_as_many_where_scores_are_equal,
    refuses((six, torch.zeros(2, 5), 1, 2, 0.0), "5 scores for 6 patches do not fit", hide()),
    refuses(
        (six, torch.zeros(6, 2), 1, 2, 0.0),
        "scores of shape (6, 2) are not (2, 6), a row for each picture",
        lambda images, scores, *rest: interpret.hide_patches(images, scores.reshape(len(images), -1), *rest),
    ),
    refuses((six, torch.zeros(2, 6), 7, 2, 0.0), "count 7 is not in 0..6"),
    refuses((six, torch.zeros(2, 6), -1, 2, 0.0), "count -1 is not in 0..6"),
)
