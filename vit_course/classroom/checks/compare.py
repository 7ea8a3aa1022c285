"""How a check works: run the answer on several inputs, compare with the finished version, word the verdict.

A mistake is known by name when a wrong implementation of it is at hand: if the answer gives what that
implementation gives on every input, its message is the verdict. Else the smallest input on which the answers
differ is shown.
"""

import inspect
import io
import linecache
import os
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vit_course.classroom.checks import kept
from vit_course.classroom.checks.registry import EXERCISES, Exercise
from vit_course.classroom.plots import in_notebook
from vit_course.machinery.paths import LESSONS, ROOT

Mistakes = Sequence[tuple[Callable, str]]
OURS = (ROOT / "vit_course", LESSONS)
"""Where the course's own code lies: a student is shown lines of hers."""


class CheckFailed(AssertionError):
    """Raised for a wrong or missing answer when VIT_COURSE_STRICT=1."""


class Mistake(Exception):
    """What is wrong with an answer, in words for the student. Raised inside checks alone."""


class Unfinished(Exception):
    """The answer is still the stub that raises `NotImplementedError`."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a check: kind is "right", "unfinished", "wrong" or "unknown"."""

    kind: str
    message: str
    exercise: Exercise | None = None


KINDS = {
    "right": ("right", "#009E73"),
    "unfinished": ("not written yet", "#0072B2"),
    "wrong": ("not right yet", "#D55E00"),
    "unknown": ("not an exercise", "#767676"),
}


def check(answer: Any, exercise: str | None = None) -> Any:
    """Check the answer of an exercise, say what was found, and hand on what the lesson goes on with.

    Args:
        answer: the student's function or class.
        exercise: name of the exercise; by default the name of the function or class.

    Returns:
        The answer itself if it is right, else the finished version.

    Raises:
        CheckFailed: only when VIT_COURSE_STRICT=1, for any answer that is not right.
    """
    verdict = diagnose(answer, exercise)
    strict = os.environ.get("VIT_COURSE_STRICT") == "1"
    if strict and verdict.kind != "right":
        raise CheckFailed(verdict.message)
    say(verdict)
    if verdict.kind in ("wrong", "unfinished"):
        return verdict.exercise.reference
    if verdict.kind == "right" and not strict:
        kept.keep(verdict.exercise.name, answer)
    return answer


def diagnose(answer: Any, exercise: str | None = None) -> Verdict:
    """Find out whether an answer is right, without printing, without raising, and leaving torch as it was."""
    name = exercise or getattr(answer, "__name__", type(answer).__name__)
    if name not in EXERCISES:
        return Verdict("unknown", f"{name!r} is no exercise of this course; known: {', '.join(EXERCISES)}")
    task = EXERCISES[name]
    if not callable(answer):
        kind = type(answer).__name__
        return Verdict("wrong", f"give the function or class itself, check({name}), not a {kind}", task)
    if inspect.isclass(task.reference) and isinstance(answer, nn.Module):
        return Verdict(
            "wrong", f"give the class itself, check({name}), not an instance of it, {name}(...)", task
        )
    default_dtype = torch.get_default_dtype()
    try:
        with (
            torch.random.fork_rng(devices=[]),
            torch.enable_grad(),
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            torch.set_default_dtype(torch.float32)
            torch.manual_seed(0)
            task.verify(answer)
    except Unfinished:
        return Verdict("unfinished", "the lesson goes on with the finished version", task)
    except Mistake as mistake:
        return Verdict("wrong", str(mistake), task)
    except SystemExit:
        return Verdict(
            "wrong",
            "your code calls exit() or quit(), which ends the whole program: return a value, or raise an error",
            task,
        )
    except Exception as error:  # whatever an answer returns, a check never raises
        return Verdict(
            "wrong", f"the check could not read your result: {type(error).__name__}: {error}", task
        )
    finally:
        torch.set_default_dtype(default_dtype)
    return Verdict("right", "your own version is used from here on", task)


def say(verdict: Verdict) -> None:
    """Show a verdict: a box in a notebook, a line of text elsewhere."""
    label, colour = KINDS[verdict.kind]
    name = verdict.exercise.name if verdict.exercise else "check"
    text = f"[{label}] {name}: {verdict.message}"
    if verdict.kind == "wrong":
        text += "\nThe lesson goes on with the finished version; change your cell and run it again."
    if not in_notebook():
        print(text)
        return
    from html import escape

    from IPython.display import display

    body = escape(text).replace("\n", "<br>").replace("  ", "&nbsp; ")
    html = f'<div style="border-left: 5px solid {colour}; padding: 0.3em 0.8em">{body}</div>'
    display({"text/plain": text, "text/html": html}, raw=True)


def compare(
    answer: Callable,
    reference: Callable,
    cases: Sequence[tuple],
    mistakes: Mistakes = (),
    run: Callable | None = None,
    same_dtype: bool = True,
) -> None:
    """Compare an answer with the finished version on every case, smallest first.

    Args:
        answer: the student's function or class.
        reference: the finished version.
        cases: tuples of arguments, the smallest and most readable first; several shapes, non-square included.
        mistakes: pairs (wrong implementation, message to the student), the likeliest first.
        run: turns (function or class, *case) into the value to compare; by default calls it.
        same_dtype: whether the type of the numbers must agree too.

    Raises:
        Mistake: at the first difference, worded as well as it is understood.
        Unfinished: if the answer is still the stub.
    """
    run = run or (lambda function, *case: function(*case))
    got = [outcome(run, answer, case) for case in cases]
    want = [run(reference, *copy(case)) for case in cases]
    wrong = [i for i in range(len(cases)) if difference(got[i], want[i], same_dtype)]
    if not wrong:
        return
    for mistaken, message in mistakes:
        if explains(mistaken, message, run, cases, got, want):
            raise Mistake(message)
    first = wrong[0]
    where = f"on {describe(reference, cases[first])}" + (" (smaller inputs are right)" if first else "")
    if isinstance(got[first], Exception):
        raise Mistake(f"{where}, your code stopped with {explain_error(got[first])}")
    raise Mistake(f"{where}: {difference(got[first], want[first], same_dtype)}")


def compare_modules(
    answer: type,
    reference: type,
    cases: Sequence[tuple],
    mistakes: Mistakes = (),
    prepare: Callable[[nn.Module, nn.Module], nn.Module] | None = None,
    gradients: bool = True,
) -> None:
    """Compare a student's module class with the finished one, both with equal weights.

    First the results in evaluation mode. Then, for options with which the finished module draws nothing, the
    results in training mode; at last the gradients of all weights and of all floating-point inputs.

    Args:
        answer: the student's class.
        reference: the finished class.
        cases: tuples (options of the class as a dict, *inputs), the smallest first.
        mistakes: pairs (wrong class, message to the student), the likeliest first.
        prepare: gives the first module the weights of the second; by default `same_weights`.
        gradients: whether to compare the gradients too.

    Raises:
        Mistake: at the first difference, worded as well as it is understood.
        Unfinished: if the answer is still the stub.
    """

    def ready(module_class: type, options: dict) -> nn.Module:
        torch.manual_seed(0)
        finished = spread_weights(reference(**options))
        if module_class is reference:
            return finished
        return (prepare or same_weights)(build(module_class, **options), finished)

    def run(module_class: type, options: dict, *inputs: Any) -> Any:
        return ready(module_class, options).eval()(*inputs)

    compare(answer, reference, cases, mistakes, run)
    for options, *inputs in cases:
        where = f"on {describe(reference, (options, *inputs))}"
        mine, finished = ready(answer, options).train(), ready(reference, options).train()
        result = first_of(finished(*copy(tuple(inputs))))
        if difference(
            result, first_of(finished.eval()(*copy(tuple(inputs))))
        ):  # dropout is on: compare without
            mine, finished, result = mine.eval(), finished.eval(), None
        compare_training(mine, finished, tuple(inputs), where, result, gradients)


def compare_training(
    module: nn.Module, finished: nn.Module, inputs: tuple, where: str, result: Any, gradients: bool
) -> None:
    """Demand the given result, if any, in training mode, and the gradients of the finished module."""
    got = outcome(lambda m, *case: first_of(m(*case)), module, inputs)
    if isinstance(got, Exception):
        raise Mistake(f"{where}, in training, your code stopped with {explain_error(got)}")
    if result is not None and difference(got, result):
        raise Mistake(
            f"{where}: right in evaluation, but in training mode the result is another, though every rate is 0 and "
            "nothing may be dropped: does your dropout or drop path use the rate it is given, and not a fixed "
            "number or 1 - rate?"
        )
    if gradients:
        compare_gradients(module, finished, inputs, where)


def compare_gradients(answer: Callable, reference: Callable, inputs: tuple, where: str = "") -> None:
    """Compare the gradients, as numbers, of all floating-point inputs and, in modules, of all weights.

    Args:
        answer: the student's function, or a module.
        reference: the finished function, or a module with the same weights.
        inputs: the arguments.
        where: names the inputs to the student; by default their shapes.
    """
    where = where or f"on {describe(reference, inputs)}"
    want = way_back(reference, inputs, reference)
    got = outcome(lambda function, *case: way_back(function, case, reference), answer, inputs)
    if isinstance(got, Exception):
        raise Mistake(
            f"{where}: the result is right, but with inputs or weights that learn your code stopped with "
            f"{explain_error(got)}"
        )
    scale = max((gradient.abs().max().item() for gradient in want.values()), default=0.0)
    for name, right in want.items():
        mine = got.get(name)
        if mine is None or (mine.eq(0).all() and right.abs().max() > 1e-4 * scale):
            raise Mistake(
                f"{where}: the result is right, but no gradient reaches {name}, so nothing there could learn: leave "
                "out `detach`, `.data`, `torch.no_grad` and copies made with `torch.tensor` or `nn.Parameter`"
            )
        if mine.shape != right.shape and mine.numel() == right.numel():  # the same weights in another layout
            mine, right = mine.flatten().sort().values, right.flatten().sort().values
        tolerance = 1e-3 * right.abs().max() + 1e-5 * scale
        if mine.shape != right.shape or not (mine - right).abs().max() <= tolerance:
            raise Mistake(
                f"{where}: the result is right, but the gradient of {name} is not: a part of the computation is "
                "cut off from learning. Look for `detach`, `.data`, `torch.no_grad` or `.item()`"
            )


def first_of(result: Any) -> Any:
    """Return the first of several results, or the only one."""
    return result[0] if isinstance(result, tuple | list) else result


def way_back(function: Callable, inputs: tuple, reference: Callable) -> dict[str, Tensor]:
    """Return the gradients of all float inputs and of the weights of a module, by name.

    They are those of the sum of the numbers of the (first) result, each with a weight of its own.
    """
    leaves = [x.detach().requires_grad_() if is_float(x) else x for x in inputs]
    result = first_of(function(*copy(tuple(leaves))))
    names = argument_names(getattr(reference, "forward", reference), len(leaves))
    weights = function.named_parameters() if isinstance(function, nn.Module) else ()
    asked = {f"the weights {name}": x for name, x in weights if x.requires_grad}
    asked |= {f"`{name}`": x for name, x in zip(names, leaves, strict=False) if is_float(x)}
    if not asked or not result.requires_grad:
        return {}
    weight = torch.randn(result.shape, generator=torch.Generator().manual_seed(0)).to(result)
    found = torch.autograd.grad((result * weight).sum(), list(asked.values()), allow_unused=True)
    return {
        name: torch.zeros_like(x) if gradient is None else gradient
        for (name, x), gradient in zip(asked.items(), found, strict=True)
    }


def demand_error(answer: Callable, case: tuple, why: str, kind: type[Exception] = Exception) -> None:
    """Demand that an answer refuses a case, with an error of this kind; `why` says what is wrong with the case."""
    result = outcome(lambda function, *arguments: function(*arguments), answer, case)
    if isinstance(result, kind):
        return
    stopped = isinstance(result, Exception)
    got = f"stopped with {explain_error(result)}" if stopped else "went on without a word"
    raise Mistake(f"{why}: raise a ValueError that says so (your code {got})")


def is_float(value: Any) -> bool:
    """Tell whether a value is a tensor of floating-point numbers: one that can have a gradient."""
    return isinstance(value, Tensor) and value.is_floating_point()


def spread_weights(module: nn.Module) -> nn.Module:
    """Draw every weight anew, so that a part whose start is 0 or 1 cannot be left out unnoticed."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return module


def outcome(run: Callable, answer: Callable, case: tuple) -> Any:
    """Run an answer on a copy of the case; an error is an outcome too. Notices changed inputs."""
    arguments = copy(case)
    try:
        value = run(answer, *arguments)
    except (Mistake, Unfinished):
        raise
    except NotImplementedError as error:
        if not error.args:
            raise Unfinished from error
        return error
    except Exception as error:
        return error
    if isinstance(value, Exception):
        raise Mistake(
            f"your code returns a {type(value).__name__}: `raise` it, so that nobody goes on with it"
        )
    for number, (before, after) in enumerate(zip(case, arguments, strict=True)):
        if isinstance(before, Tensor) and not torch.equal(before, after):
            raise Mistake(
                f"your code changes its input in place (argument {number + 1}): whoever called it still needs "
                "the old values; work on a copy or build a new tensor"
            )
    return value


def explains(mistaken: Callable, message: str, run: Callable, cases: Sequence, got: list, want: list) -> bool:
    """Tell whether a known mistake gives what the answer gave wherever the answer gave anything."""
    seen = False
    for case, mine, right in zip(cases, got, want, strict=True):
        if isinstance(mine, Exception):
            continue
        try:
            theirs = run(mistaken, *copy(case))
        except Exception:
            return False
        if difference(mine, theirs):
            return False
        seen = seen or bool(difference(mine, right))
    return seen


def copy(value: Any) -> Any:
    """Copy a case so that an answer cannot touch the original: tensors cloned, the rest as it is."""
    if isinstance(value, tuple) and not hasattr(value, "_fields") and not isinstance(value, torch.Size):
        return tuple(copy(item) for item in value)
    return value.clone() if isinstance(value, Tensor) else value


def difference(got: Any, want: Any, same_dtype: bool = True) -> str:
    """Say in words how a result differs from the wanted one; an empty string if it does not."""
    if isinstance(got, Exception):
        return f"{type(got).__name__}: {got}"
    if got is None and want is not None:
        return "your function returned nothing; is the `return` missing?"
    if isinstance(want, Tensor):
        return tensor_difference(got, want, same_dtype)
    if isinstance(want, tuple | list):
        if not isinstance(got, tuple | list) or len(got) != len(want):
            return f"{len(want)} values were expected, {want!r:.300}; you returned {got!r:.300}"
        parts = [
            "it is None" if g is None and w is not None else difference(g, w, same_dtype)
            for g, w in zip(got, want, strict=True)
        ]
        return next((f"value {i + 1} of {len(want)}: {part}" for i, part in enumerate(parts) if part), "")
    if isinstance(got, np.generic) or (isinstance(got, Tensor) and got.ndim == 0):
        got = got.item()
    if isinstance(want, int) and not isinstance(want, bool) and isinstance(got, float) and got == want:
        return f"you returned the fraction {got}, but a count is a whole number, {want}: divide with // or use int"
    if isinstance(want, float) and isinstance(got, int | float):
        close = got == want or abs(got - want) <= 1e-5 + 1e-4 * abs(want) < float("inf")
        return "" if close else f"expected {want:.5g}, you returned {got:.5g}"
    return "" if type(got) is type(want) and got == want else f"expected {want!r}, you returned {got!r:.300}"


def tensor_difference(got: Any, want: Tensor, same_dtype: bool) -> str:
    """Say how a tensor differs: kind, shape, type of its numbers, then the first value that is off."""
    if not isinstance(got, Tensor):
        return f"a tensor was expected, you returned {type(got).__name__}"
    if got.shape != want.shape:
        return f"the shape should be {tuple(want.shape)}, yours is {tuple(got.shape)}"
    if same_dtype and got.dtype != want.dtype:
        return f"the numbers should stay {want.dtype}, yours are {got.dtype}"
    mine, right = got.detach().double(), want.detach().double()
    close = torch.isclose(mine, right, rtol=1e-4, atol=1e-5, equal_nan=True)
    if bool(close.all()):
        return ""
    if want.numel() <= 16:
        return f"expected\n{numbers(right)}\nyou returned\n{numbers(mine)}"
    index = tuple((~close).nonzero()[0].tolist())
    place = ", ".join(map(str, index))
    share = 1 - close.double().mean().item()
    return (
        f"the shape is right, {share:.0%} of the values differ; the first is [{place}]: "
        f"expected {right[index].item():.5g}, you returned {mine[index].item():.5g}"
    )


def numbers(tensor: Tensor) -> str:
    """Print a small tensor as rows of rounded numbers."""
    rows = torch.atleast_1d(tensor)
    return "\n".join(
        "  " + " ".join(f"{x:.4g}" for x in row) for row in rows.reshape(-1, rows.shape[-1] or 1)
    )


def describe(reference: Callable, case: tuple) -> str:
    """Name the arguments of a case as the docstring does: tensors by shape, other values as they are."""
    if inspect.isclass(reference):
        options = ", ".join(f"{name}={value!r}" for name, value in case[0].items())
        return f"{reference.__name__}({options}) and {describe(reference.forward, case[1:])}"
    names = argument_names(getattr(reference, "forward", reference), len(case))
    shown = (f"of shape {tuple(v.shape)}" if isinstance(v, Tensor) else f"= {v!r}" for v in case)
    return ", ".join(f"{name} {value}" for name, value in zip(names, shown, strict=False))


def argument_names(function: Callable, number: int) -> list[str]:
    """Return the names of a function's arguments, at least so many."""
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    return names + [f"argument {i + 1}" for i in range(len(names), number)]


def explain_error(error: Exception) -> str:
    """Name an error and the line of the student's code where it arose."""
    text = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename
        and not any(own in Path(frame.filename).parents for own in OURS)
    ]
    line = linecache.getline(frames[-1].filename, frames[-1].lineno or 0).strip() if frames else ""
    return text + (f"\nin your line: {line}" if line else "")


def same_weights(answer: nn.Module, reference: nn.Module) -> nn.Module:
    """Give a student's module the weights of the finished one, by the names that the docstring fixes."""
    mine, theirs = answer.state_dict(), reference.state_dict()
    if missing := [name for name in theirs if name not in mine]:
        raise Mistake(
            f"your module has no weights named {', '.join(missing)} (it has {', '.join(mine) or 'none'}): "
            "the docstring fixes the names so that trained weights can be loaded"
        )
    if extra := [name for name in mine if name not in theirs]:
        raise Mistake(f"your module has weights that should not be there: {', '.join(extra)}")
    for name, value in theirs.items():
        if mine[name].shape != value.shape:
            raise Mistake(f"{name} should be {tuple(value.shape)}, yours is {tuple(mine[name].shape)}")
    answer.load_state_dict(theirs)
    return answer


def build(answer: type, **options) -> nn.Module:
    """Build a student's module; an error in `__init__` becomes a verdict."""
    try:
        module = answer(**options)
    except NotImplementedError as error:
        if not error.args:
            raise Unfinished from error
        raise Mistake(f"building it stopped with {explain_error(error)}") from error
    except Exception as error:
        shown = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise Mistake(f"building it with {shown} stopped with {explain_error(error)}") from error
    if not isinstance(module, nn.Module):
        raise Mistake("it should be a subclass of nn.Module that calls super().__init__()")
    return module
