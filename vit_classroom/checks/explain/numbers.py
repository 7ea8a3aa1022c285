"""Slips that the numbers tell: a factor, an offset, one operation too much or too few, an argument in the result."""

import itertools
from collections.abc import Callable, Iterator
from math import isclose, prod, sqrt

import torch
from torch import Tensor

from vit_classroom.checks.explain.terms import AXES, axis_names, sizes_of, times
from vit_classroom.checks.explain.values import Result, Slip, argument, first_fit, same, tensors_of


def undefined(given: list[Result]) -> str:
    """Notice nan and infinity."""
    if any(r.got.shape != r.want.shape for r in given):
        return ""
    if all(r.right or (not r.got.isfinite().all() and r.want.isfinite().all()) for r in given):
        return (
            "some of your numbers are nan or infinite: look for a division by 0, an overflow, a negative root"
        )
    return ""


def few_digits(given: list[Result]) -> str:
    """Notice numbers that were computed in half precision: they hold no more digits, and the wanted ones do."""
    wrong = [r for r in given if not r.right]
    if any(r.got.shape != r.want.shape for r in wrong):
        return ""
    slack = 3 if sum(r.got.numel() for r in wrong) < 8 else 30  # a few numbers may be round by chance
    for dtype in (torch.bfloat16, torch.float16):
        if all(
            same(r.got.to(dtype).double(), r.got)
            and not same(r.want.to(dtype).double(), r.want)
            and (r.got - r.want).abs().max() < slack * torch.finfo(dtype).eps * r.want.abs().max()
            for r in wrong
        ):
            return f"your numbers have the few digits of {dtype}: compute with float32"
    return ""


def constant(given: list[Result]) -> str:
    """Notice results that are one number, or two, in all cases."""
    if any(r.got.shape != r.want.shape for r in given):
        return ""
    mine, wanted = (
        torch.cat([getattr(r, side).flatten() for r in given]).unique() for side in ("got", "want")
    )
    if len(mine) > 2 or len(wanted) < 4 or sum(r.got.numel() for r in given) < 4:
        return ""
    return f"every number is {' or '.join(f'{x:.4g}' for x in mine.tolist())} in all cases"


def left_as_they_were(given: list[Result]) -> str:
    """Notice that what is wrong was never written: it is 0, or what an argument holds at these places."""
    wrong = [r for r in given if not r.right]
    if any(r.got.shape != r.want.shape for r in wrong):
        return ""
    astray = [~torch.isclose(r.got, r.want, 1e-4, 1e-5) for r in wrong]
    if all(bool(places.all()) for places in astray) or sum(int(places.sum()) for places in astray) < 4:
        return ""
    if all(bool((r.got[places] == 0).all()) for r, places in zip(wrong, astray, strict=True)):
        return (
            "wherever your result is wrong it is 0: nothing is written there, or a 0 where it does not belong"
        )
    for name in tensors_of(wrong):
        old = [argument(r, name) for r in wrong]
        if any(x.shape != r.got.shape for x, r in zip(old, wrong, strict=True)):
            continue
        if all(bool((r.got[p] == x[p]).all()) for r, p, x in zip(wrong, astray, old, strict=True)):
            return f"wherever your result is wrong it is still `{name}`: nothing is written there"
    return ""


def factor(given: list[Result]) -> str:
    """Explain results that are right up to a factor: the same everywhere, or one that a size of the case gives."""
    ratios = fitted(given, lambda r: (r.got * r.want).sum() / (r.want * r.want).sum(), torch.mul)
    if not ratios or 0 in ratios or all(isclose(ratio, 1, rel_tol=1e-3) for ratio in ratios):
        return ""
    if all(isclose(ratio, ratios[0], rel_tol=1e-4) for ratio in ratios):
        sign = isclose(ratios[0], -1, rel_tol=1e-4)
        return (
            "every number has the wrong sign"
            if sign
            else f"every number is {times(ratios[0])} what it should be"
        )
    here = next(ratio for ratio, r in zip(ratios, given, strict=True) if not r.right)
    if words := by_sizes(given, ratios):
        return (
            f"every number is {words} times what it should be ({here:.4g} times in the smallest wrong case)"
        )
    return ""


def offset(given: list[Result]) -> str:
    """Explain results that are right up to something added: the same everywhere, or a size of the case."""
    added = fitted(given, lambda r: (r.got - r.want).mean(), torch.add)
    if not added:
        return ""
    here = next(value for value, r in zip(added, given, strict=True) if not r.right)
    direction = "large" if here > 0 else "small"
    if all(isclose(value, added[0], rel_tol=1e-4, abs_tol=1e-6) for value in added):
        return f"every number is too {direction} by {abs(here):.4g}"
    if words := by_sizes(given, [value if here > 0 else -value for value in added]):
        return f"every number is too {direction} by {words} (by {abs(here):.4g} in the smallest wrong case)"
    return ""


def fitted(given: list[Result], fit: Callable, join: Callable) -> list[float]:
    """Fit one number a case, which joined to the wanted ones gives what was got; [] if no such number does."""
    if any(r.got.shape != r.want.shape or not r.want.numel() or not r.want.isfinite().all() for r in given):
        return []
    values = [float(fit(r)) for r in given]
    return values if all(same(r.got, join(r.want, v)) for r, v in zip(given, values, strict=True)) else []


def by_sizes(given: list[Result], values: list[float]) -> str:
    """Name the values, one a case, by the sizes of the cases: D, sqrt(d), 1/(H·W); "" if none or not one fits."""
    sizes = [sizes_of(r) for r in given]
    names = [name for name in sizes[0] if all(s.get(name, 0) > 0 for s in sizes)]
    forms: list[tuple[str, Callable[[float], float]]] = [
        ("{}", lambda n: n),
        ("1/{}", lambda n: 1 / n),
        ("sqrt({})", sqrt),
        ("1/sqrt({})", lambda n: 1 / sqrt(n)),
        ("({0} - 1)/{0}", lambda n: (n - 1) / n),
        ("{0}/({0} - 1)", lambda n: n / (n - 1) if n != 1 else 0.0),
        ("(1 - {})", lambda n: 1 - n),
        ("1/(1 - {})", lambda n: 1 / (1 - n) if n != 1 else 0.0),
    ]
    products = list(itertools.combinations_with_replacement(names, 2))
    candidates = [(form.format(a), [f(s[a]) for s in sizes]) for a in names for form, f in forms]
    candidates += [(f"{a}·{b}", [s[a] * s[b] for s in sizes]) for a, b in products]
    candidates += [(f"1/({a}·{b})", [1 / (s[a] * s[b]) for s in sizes]) for a, b in products]
    candidates += [
        (f"({a} - {b})/{a}", [(s[a] - s[b]) / s[a] for s in sizes])
        for a, b in itertools.product(names, [n for n in sizes[0] if all(n in s for s in sizes)])
        if a != b
    ]
    candidates += [(f"{a}/{b}", [s[a] / s[b] for s in sizes]) for a, b in itertools.permutations(names, 2)]
    fits = [
        w
        for w, made in candidates
        if all(isclose(v, m, rel_tol=1e-4) for v, m in zip(values, made, strict=True))
    ]
    return " or ".join(fits[:2]) if len(fits) < 3 else ""


def term(given: list[Result]) -> str:
    """Explain counts in which a product of the arguments is missing or too much."""
    sizes, missing = [sizes_of(r) for r in given], [float(r.want - r.got) for r in given]
    names = [name for name in sizes[0] if all(s.get(name, 0) > 0 for s in sizes)]
    if len(given) < 3 or any(r.right for r in given) or len({f"{m:.6g}" for m in missing}) < 3:
        return ""
    for degree in (1, 2, 3):
        for chosen in itertools.combinations_with_replacement(names, degree):
            much = [m / prod(s[name] for name in chosen) for m, s in zip(missing, sizes, strict=True)]
            plain = isclose(4 * much[0], round(4 * much[0]), rel_tol=1e-6)
            if plain and all(isclose(m, much[0], rel_tol=1e-6) for m in much):
                powers = [
                    name + "²³"[n - 2] * (n > 1)
                    for name in dict.fromkeys(chosen)
                    for n in [chosen.count(name)]
                ]
                product = " · ".join([f"{abs(much[0]):.4g}"] * (abs(much[0]) != 1) + powers)
                want, got = (f"{float(x):.6g}" for x in (given[0].want, given[0].got))
                how = "missing" if much[0] > 0 else "too much"
                return f"{product} is {how}: {want} is wanted in the smallest case, yours is {got}"
    return ""


def other_function(given: list[Result]) -> str:
    """Explain results that are a function of the wanted ones, number by number or along an axis."""
    done: list[Slip] = [
        ("each number is 1 minus what it should be", lambda x: 1 - x),
        ("each number is 1 divided by what it should be", lambda x: 1 / x),
        ("each number is the square of what it should be", torch.square),
        ("each number is the root of what it should be", torch.sqrt),
        ("each number is the logarithm of what it should be", torch.log),
        ("each number is `exp` of what it should be", torch.exp),
        ("the signs are lost: each number is the absolute value of what it should be", torch.abs),
        ("each number is the sigmoid of what it should be", torch.sigmoid),
        ("each number is `tanh` of what it should be", torch.tanh),
        ("numbers below 0 have become 0", torch.relu),
        ("all numbers are divided by the largest one", lambda x: x / x.amax()),
        ("the numbers are cut off to 0...1", lambda x: x.clamp(0, 1)),
        ("the numbers are rounded to whole ones", torch.round),
        ("what stands after the point is cut off", torch.trunc),
    ]
    left_out: list[Slip] = [
        ("numbers below 0 should become 0", torch.relu),
        ("the absolute value is missing", torch.abs),
        ("the numbers should be cut off to 0...1", lambda x: x.clamp(0, 1)),
        ("the numbers should be rounded to whole ones", torch.round),
    ]
    wrong = [r for r in given if not r.right]
    if all(same(-r.want, r.got) for r in wrong):
        return "where they are wrong, your numbers have the other sign"
    names = axis_names(given)
    return (
        first_fit(given, done)
        or first_fit(given, left_out, back=True)
        or first_fit(given, along(names, "{} is done once too often, over the {}"))
        or first_fit(given, along(names, "{} is missing, over the {}"), back=True)
        or sums_elsewhere(given, names)
    )


def rounded(given: list[Result]) -> str:
    """Notice the wanted numbers, rounded: of single ones two digits must tell, one may agree by chance."""
    few = all(r.want.numel() == 1 for r in given) and sum(not r.right for r in given) < 3
    slips: list[Slip] = [
        (f"the numbers are rounded to {k} digits after the point", lambda x, k=k: x.round(decimals=k))
        for k in range(2, 5)
    ]
    if not few:
        slips += [
            ("the numbers are rounded to one digit after the point", lambda x: x.round(decimals=1)),
            ("the numbers are rounded up to whole ones", torch.ceil),
            ("the numbers are rounded down to whole ones", torch.floor),
        ]
    words = first_fit(given, slips)
    return f"{words}: return them as they are" if words and any(bool(r.got.any()) for r in given) else ""


def scores(given: list[Result]) -> str:
    """Explain weights that sum to 1 over the last axis by their scores, those before the softmax."""
    if any(r.got.shape != r.want.shape or not r.want.ndim or bool((r.want <= 0).any()) for r in given):
        return ""
    if not all(same(x.sum(-1), torch.ones_like(x.sum(-1))) for r in given for x in (r.got, r.want)):
        return ""
    wrong = [r for r in given if not r.right]
    if all(bool((r.got == 0).any()) for r in wrong):
        return left_out(wrong)
    if any(bool((r.got <= 0).any()) for r in given):
        return ""
    logs = [Result(*(centred(x.log()) for x in (r.got, r.want)), r.arguments, r.axes) for r in given]
    logs = [r for r in logs if r.want.abs().amax() > 1e-6]  # weights that are all alike tell nothing
    ratios = fitted(logs, lambda r: (r.got * r.want).sum() / r.want.square().sum(), torch.mul)
    if not ratios or 0 in ratios:
        return ""
    alike = all(isclose(ratio, ratios[0], rel_tol=1e-3) for ratio in ratios)
    much = times(ratios[0]) if alike else f"{by_sizes(logs, ratios)} times"
    return f"before the softmax your scores are {much} what they should be" if much != " times" else ""


def centred(x: Tensor) -> Tensor:
    """Subtract the mean over the last axis."""
    return x - x.mean(-1, keepdim=True)


def left_out(wrong: list[Result]) -> str:
    """Explain weights that are 0 where none should be, while the others are right but for their sum."""
    hidden = [r.got == 0 for r in wrong]
    rest = [r.want.masked_fill(zero, 0) for r, zero in zip(wrong, hidden, strict=True)]
    if not all(same(r.got, x / x.sum(-1, keepdim=True)) for r, x in zip(wrong, rest, strict=True)):
        return ""
    later = [
        torch.ones(zero.shape[-2:], dtype=torch.bool).triu(1) if zero.ndim > 1 else ~zero for zero in hidden
    ]
    if all(torch.equal(zero, mask.expand_as(zero)) for zero, mask in zip(hidden, later, strict=True)):
        return "each query sees the keys up to its own place alone, as in a language model: here it sees all of them"
    return "some of your weights are 0, and the others are right but for their sum: nothing is to be left out"


def along(names: list[tuple[str, str]], words: str) -> Iterator[Slip]:
    """Yield what may be done along each axis."""
    for i, (_, many) in enumerate(names):
        a = i - len(names)
        yield words.format("a softmax", many), lambda x, a=a: x.softmax(a)
        yield words.format("a logarithm of the softmax", many), lambda x, a=a: x.log_softmax(a)
        yield words.format("a division by exactly the sum", many), lambda x, a=a: x / x.sum(a, True)
        yield words.format("a division by the largest", many), lambda x, a=a: x / x.amax(a, True)
        yield words.format("a division by the length", many), lambda x, a=a: x / x.norm(dim=a, keepdim=True)
        yield words.format("the subtraction of the mean", many), lambda x, a=a: x - x.mean(a, True)
        yield words.format("a running sum (`cumsum`)", many), lambda x, a=a: x.cumsum(a)


def sums_elsewhere(given: list[Result], names: list[tuple[str, str]]) -> str:
    """Notice numbers that sum to 1 over one axis alone, and another one than wanted."""
    if any(r.got.shape != r.want.shape for r in given):
        return ""

    def ones(which: str) -> list[int]:
        tensors = [getattr(r, which) for r in given]
        axes = range(-len(names), 0)
        return [a for a in axes if all(same(t.sum(a), torch.ones_like(t.sum(a))) for t in tensors)]

    mine, wanted = ones("got"), ones("want")
    if len(mine) == len(wanted) == 1 and mine != wanted:
        return f"your numbers sum to 1 over the {names[mine[0]][1]}; they should do so over the {names[wanted[0]][1]}"
    return ""


def of_arguments(given: list[Result]) -> str:
    """Recognise an argument in the result: as it is, added or multiplied once too often or not at all."""
    claims: list[tuple[str, Callable[[Tensor, Tensor], Tensor]]] = [
        ("you return `{}` as it is", lambda x, y: y),
        ("your result is the wanted one plus `{}`", lambda x, y: x + y),
        ("your result is the wanted one minus `{}`", lambda x, y: x - y),
        (
            "the sign of `{}` is wrong: your result is the wanted one minus 2 times `{}`",
            lambda x, y: x - 2 * y,
        ),
        (
            "the sign of `{}` is wrong: your result is the wanted one plus 2 times `{}`",
            lambda x, y: x + 2 * y,
        ),
        ("your result is the wanted one multiplied by `{}`", lambda x, y: x * y),
        ("your result is the wanted one divided by `{}`", lambda x, y: x / y),
    ]
    for name in tensors_of(given):
        for words, slip in claims:
            try:
                if all(same(slip(r.want, argument(r, name)), r.got) for r in given):
                    return words.replace("{}", name)
            except RuntimeError:
                continue
    return ""


def made_of_arguments(given: list[Result]) -> str:
    """Recognise the mean, sum, largest, first ... of an argument along an axis, and two arguments joined."""
    wrong = [r for r in given if not r.right]
    if sum(r.got.numel() for r in wrong) < 6:
        return ""
    reductions: list[tuple[str, Callable[[Tensor, int], Tensor]]] = [
        ("the mean", torch.mean),
        ("the sum", torch.sum),
        ("the largest number", torch.amax),
        ("the smallest number", torch.amin),
        ("the first entry", lambda x, a: x.select(a, 0)),
        ("the last entry", lambda x, a: x.select(a, -1)),
    ]
    joins = [("{} + {}", torch.add), ("{} - {}", torch.sub), ("{} * {}", torch.mul), ("{} / {}", torch.div)]
    letters = wrong[0].arguments.get("axes", {})
    for name in tensors_of(given):
        for a in range(min(argument(r, name).ndim for r in wrong)):
            for words, reduce in reductions:
                if all(same(reduce(argument(r, name), a), r.got) for r in wrong):
                    many = AXES.get(next(iter(letters.get(name, ())[a : a + 1]), ""), ("", ""))[1]
                    return f"your result is {words} of `{name}` along axis {a}" + f", the {many}" * bool(many)
    for one, other in itertools.permutations(tensors_of(given), 2):
        for words, join in joins:
            try:
                if all(same(join(argument(r, one), argument(r, other)), r.got) for r in wrong):
                    return f"your result is `{words.format(one, other)}`"
            except RuntimeError:
                continue
    return ""


def off_by_lines(given: list[Result]) -> str:
    """Notice results that are right up to a factor or an offset of each case, or of each line along an axis."""
    wrong = [r for r in given if not r.right]
    if any(r.got.shape != r.want.shape for r in given) or any(len(r.want.unique()) < 4 for r in wrong):
        return ""
    if any(len(r.got.unique()) < 4 for r in wrong):
        return ""
    if ratios := fitted(given, lambda r: (r.got * r.want).sum() / (r.want * r.want).sum(), torch.mul):
        here = next(ratio for ratio, r in zip(ratios, given, strict=True) if not r.right)
        if isclose(here, 1, rel_tol=1e-3):
            return ""
        return f"here every number is {here:.4g} times the wanted one; in other cases the factor is another"
    if fitted(given, lambda r: (r.got - r.want).mean(), torch.add):
        return "all numbers are too large or too small by the same amount, in every case by another"
    for i, (_, many) in enumerate(names := axis_names(given)):
        a = i - len(names)
        if len(names) < 2 or any(r.want.shape[a] < 4 for r in wrong):
            continue
        shares = [
            (r.got * r.want).sum(a, True) / (r.want * r.want).sum(a, True).clamp(min=1e-30) for r in given
        ]
        if all(same(r.got, r.want * share) for r, share in zip(given, shares, strict=True)):
            return f"the {many} have the right proportions, but each such line is off by a factor of its own"
        if all(same(r.got, r.want + (r.got - r.want).mean(a, True)) for r in given):
            return f"the {many} of one line are all off by the same amount, those of another line by another"
    return ""
