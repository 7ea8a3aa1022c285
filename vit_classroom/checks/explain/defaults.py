"""Defaults of arguments that are not those of the docstring."""

import inspect
from collections.abc import Callable

from vit_classroom.checks.explain.terms import listed, signature
from vit_classroom.checks.outcome import Mistake


def default_astray(answer: Callable, reference: Callable) -> str:
    """Name the arguments without their default, or the first with another one or another name; "" if there are none."""
    mine = signature(answer)
    loose = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in mine.values())
    missing, other = {}, ""
    for place, (name, parameter) in enumerate(signature(reference).items()):
        own = mine.get(name)
        if parameter.default is parameter.empty or (own is None and (loose or place >= len(mine))):
            continue
        if own is None:
            other = (
                other or f"no argument of yours is called `{name}`: keep the names, others give it by that"
            )
            continue
        both = [tuple(d) if isinstance(d, list) else d for d in (own.default, parameter.default)]
        if own.default is own.empty:
            if loose:
                continue
            missing[f"`{name}`"] = getattr(parameter.default, "__name__", repr(parameter.default))
        elif both[0] != both[1] and None not in both and not other:
            other = f"the default of `{name}` should be {parameter.default!r}; yours is {own.default!r:.60}"
    if not missing:
        return other
    have = "have no defaults: they" if len(missing) > 1 else "has no default: it"
    return f"{listed(missing)} {have} should be {listed(missing.values())}"


def demand_defaults(answer: Callable, reference: Callable) -> None:
    """Demand the defaults of the finished version's signature and, of a class, those of its `forward`."""
    pairs = [(answer, reference)]
    if inspect.isclass(reference) and hasattr(reference, "forward") and hasattr(answer, "forward"):
        pairs.append((answer.forward, reference.forward))
    for mine, theirs in pairs:
        if words := default_astray(mine, theirs):
            raise Mistake(words)
