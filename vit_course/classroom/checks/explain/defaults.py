"""Defaults of arguments that are not those of the docstring."""

import inspect
import itertools
from collections.abc import Callable

from vit_course.classroom.checks.explain.terms import listed, named_arguments, signature
from vit_course.classroom.checks.explain.trial import Trial
from vit_course.classroom.checks.outcome import Mistake
from vit_course.classroom.checks.words import difference


def default_astray(answer: Callable, reference: Callable) -> tuple[list[str], str]:
    """Return the arguments without their default, or the first with another one, and words for it; else [] and ""."""
    mine = signature(answer)
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in mine.values()):
        return [], ""
    missing, other = {}, ([], "")
    for place, (name, parameter) in enumerate(signature(reference).items()):
        own = mine.get(name) or next(itertools.islice(mine.values(), place, None), None)
        if own is None or parameter.default is parameter.empty:
            continue
        both = [tuple(d) if isinstance(d, list) else d for d in (own.default, parameter.default)]
        if own.default is own.empty:
            missing[f"`{name}`"] = f"{parameter.default!r}"
        elif both[0] != both[1] and None not in both and not other[1]:
            other = (
                [name],
                f"the default of `{name}` should be {parameter.default!r}; yours is {own.default!r:.60}",
            )
    if not missing:
        return other
    have, those = ("have no defaults", "those") if len(missing) > 1 else ("has no default", "that")
    keep = f"keep {those} of the docstring's signature, {listed(missing.values())}"
    return [name.strip("`") for name in missing], f"{listed(missing)} {have}: {keep}"


def demand_defaults(answer: Callable, reference: Callable) -> None:
    """Demand the defaults of the finished version's signature, of an answer that is right otherwise."""
    if words := default_astray(answer, reference)[1]:
        raise Mistake(f"all results are right, but {words}")


def other_default(trial: Trial) -> str:
    """Explain answers that are wrong only where an argument is left to its default, and right once it is given."""
    names, words = default_astray(trial.answer, trial.reference)
    if not names:
        return ""
    for i in trial.wrong:
        if named_arguments(trial.reference, trial.cases[i]).keys() >= set(names):
            return ""
        given = with_defaults(trial, trial.cases[i])
        if isinstance(trial.got[i], TypeError) and "missing" in str(trial.got[i]):
            continue
        if given is None or difference(trial.call(trial.answer, given), trial.want[i], same_dtype=False):
            return ""
    return words


def with_defaults(trial: Trial, case: tuple) -> tuple | None:
    """Return a case with the finished version's defaults written out; None if that cannot be done."""
    known = signature(trial.reference).values()
    if trial.ready:
        return ({p.name: p.default for p in known if p.default is not p.empty} | case[0], *case[1:])
    rest = [parameter.default for parameter in known][len(case) :]
    return None if any(default is inspect.Parameter.empty for default in rest) else (*case, *rest)
