"""How an answer is run: on copies of the inputs, with every error an outcome, and modules with equal weights."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from inspect import isclass
from typing import Any

import torch
from torch import Tensor, nn

from vit_classroom.checks.error_patterns import Symptom, cause
from vit_classroom.checks.guard import begin_call, printed
from vit_classroom.checks.words import explain_error, named_options

GRADIENTS_OFF = "afterwards gradients are switched off for everybody: use the block `with torch.no_grad():`"


class Mistake(Exception):
    """What is wrong with an answer, in words for the student. Raised inside checks alone.

    Attributes:
        named: whether the words say a cause, and not numbers, a shape or the text of an error alone.
        printed: what the answer printed in the call that is meant, the last lines.
    """

    def __init__(self, words: str, named: bool = True, shown: str | None = None):
        super().__init__(words)
        self.named = named
        self.printed = printed() if shown is None else shown


class WrongWeight(Mistake):
    """A weight has another shape than the docstring asks for, or should not be there, with these options.

    Attributes:
        weight: its name.
    """

    def __init__(self, words: str, weight: str):
        super().__init__(words)
        self.weight = weight


class Unfinished(Exception):
    """The answer is still the stub that raises `NotImplementedError`."""


def outcome(run: Callable, answer: Callable, case: tuple) -> Any:
    """Run an answer on a copy of the case; an error is an outcome too. Notices changed inputs."""
    arguments = copy(case)
    begin_call()
    learning = torch.is_grad_enabled()
    try:
        value = run(answer, *arguments)
    except (Mistake, Unfinished):
        raise
    except Exception as error:
        if isinstance(error, NotImplementedError) and not error.args:
            raise Unfinished from error
        return error
    if learning and not torch.is_grad_enabled():
        raise Mistake(GRADIENTS_OFF)
    if isinstance(value, Exception):
        raise Mistake(
            f"your code returns a {type(value).__name__}: `raise` it, so that nobody goes on with it"
        )
    for number, (before, after) in enumerate(zip(case, arguments, strict=True), 0 if isclass(answer) else 1):
        if changed(before, after):
            raise Mistake(
                f"your code changes its input in place (argument {number}): whoever called it still needs the old "
                "values; work on a copy or build a new one"
            )
    return value


def changed(before: Any, after: Any) -> bool:
    """Tell whether a value, or one in a list, tuple or dict, is not what it was; the order of a dict counts."""
    if isinstance(before, dict):
        before, after = list(before.items()), list(after.items())
    if isinstance(before, list | tuple):
        return len(before) != len(after) or any(map(changed, before, after))
    if isinstance(before, Tensor):
        return not torch.equal(before, after)
    return isinstance(before, int | float | str | None) and repr(before) != repr(after)


def build(answer: type, **options) -> nn.Module:
    """Build a student's module; an error in `__init__` becomes a verdict."""
    begin_call()
    try:
        module = answer(**options)
    except Exception as error:
        if isinstance(error, NotImplementedError) and not error.args:
            raise Unfinished from error
        if "before Module.__init__() call" not in str(error):
            raise stopped_with(f"building it with {named_options(options)}", error) from error
        module = answer.__new__(answer)  # as it is before any `__init__`
    if not isinstance(module, nn.Module):
        raise Mistake("it should be a subclass of nn.Module that calls super().__init__()")
    if "_parameters" not in vars(module):
        raise Mistake(
            "`super().__init__()` is missing, or comes too late: it is the first line of `__init__`, and without it a "
            "module cannot keep its layers"
        )
    return module


def stopped_with(what: str, error: Exception, reason: str = "") -> Mistake:
    """Say what stopped with an error, the student's line, and the cause: a given one, or that of such errors."""
    reason = reason or cause(error)
    words = f"{what} stopped with {explain_error(error)}"
    return Mistake(
        words + f"\n{reason}" * bool(reason), named=bool(reason) and not isinstance(reason, Symptom)
    )


def same_weights(answer: nn.Module, reference: nn.Module) -> nn.Module:
    """Give a student's module the weights of the finished one, by the names that the docstring fixes."""
    mine, theirs = answer.state_dict(), reference.state_dict()
    if missing := [name for name in theirs if name not in mine]:
        if lists := [f"`self.{name}`" for name, value in vars(answer).items() if hides_layers(name, value)]:
            raise Mistake(
                f"your layers lie in a plain list or dict, {', '.join(lists)}, where PyTorch finds no weights: give "
                "each an attribute of its own, by the names of the docstring"
            )
        raise Mistake(f"your module has no weights named {lacking(missing, mine, theirs)}")
    if extra := [name for name in mine if name not in theirs]:
        raise WrongWeight(f"your module has weights that should not be there: {', '.join(extra)}", extra[0])
    for name, value in theirs.items():
        if mine[name].shape != value.shape:
            wanted, yours = tuple(value.shape), tuple(mine[name].shape)
            turned = len(wanted) > 1 and yours == (wanted[1], wanted[0], *wanted[2:])
            hint = " (in and out are exchanged: a layer is given what comes in first, then what goes out)"
            raise WrongWeight(f"{name} should be {wanted}, yours is {yours}{hint if turned else ''}", name)
    answer.load_state_dict(theirs)
    return answer


def lacking(missing: list[str], mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> str:
    """Name the weights that a module lacks, and those that it has in their place."""
    shown = ", ".join(missing[:4])
    if all(name.endswith("bias") and name.replace("bias", "weight") in mine for name in missing):
        return f"{shown}: leave out `bias=False`, because trained weights have a bias"
    others = ", ".join([name for name in mine if name not in theirs][:4])
    has = f", and has {others}" if others else ", and has none" if not mine else ""
    why = "the docstring fixes the names so that trained weights can be loaded"
    return f"{shown} (it lacks {len(missing)}{has}): {why}"


def hides_layers(name: str, value: Any) -> bool:
    """Tell whether an attribute that a student made is a list, a tuple or a dict with layers in it."""
    parts = value.values() if isinstance(value, dict) else value
    own = isinstance(value, list | tuple | dict) and not name.startswith("_")  # `_modules` is PyTorch's
    return own and any(isinstance(part, nn.Module) for part in parts)


def spread_weights(module: nn.Module) -> nn.Module:
    """Draw every weight anew, so that a part whose start is 0 or 1 cannot be left out unnoticed."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return module


def copy(value: Any) -> Any:
    """Copy a case so that an answer cannot touch the original: tensors, lists, dicts; the rest as it is."""
    if isinstance(value, tuple) and not hasattr(value, "_fields") and not isinstance(value, torch.Size):
        return tuple(copy(item) for item in value)
    if isinstance(value, list | dict):
        return deepcopy(value)
    return value.clone() if isinstance(value, Tensor) else value


def first_of(result: Any) -> Any:
    """Return the first of several results, or the only one; of none the empty list."""
    return result[0] if isinstance(result, tuple | list) and len(result) else result


def is_float(value: Any) -> bool:
    """Tell whether a value is a tensor of floating-point numbers: one that can have a gradient."""
    return isinstance(value, Tensor) and value.is_floating_point()
