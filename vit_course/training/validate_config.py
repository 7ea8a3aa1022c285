"""The values that a field of a configuration may have, written where the field is: in its type.

    lr: Annotated[float, Range(0, low_open=True)] = 1e-3
    optimizer: Literal["adamw", "sgd", "muon"] = "adamw"

`require_ranges` refuses what lies outside, and the command line reads its help from here.
"""

import math
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; an open end is itself left out."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return math.isfinite(value) and above and below

    def __str__(self) -> str:
        low, high = (f"{end:,}" if isinstance(end, int) else f"{end:g}" for end in (self.low, self.high))
        low = f"{'above' if self.low_open else 'at least'} {low}"
        high = f"{'below' if self.high_open else 'at most'} {high}"
        return low if self.high == math.inf else f"{low} and {high}"


@dataclass(frozen=True)
class Allowed:
    """What one field may hold: its plain type, and a range or a list of values, if it has one."""

    kind: type
    range: Range | None = None
    values: tuple = ()

    def __str__(self) -> str:
        if self.values:
            return f"one of {', '.join(map(repr, self.values))}"
        number = {int: "a whole number", float: "a number"}.get(self.kind, self.kind.__name__)
        return f"{number} {self.range}" if self.range else number

    def __contains__(self, value: Any) -> bool:
        if self.values:
            return value in self.values
        if isinstance(value, bool) and self.kind is not bool:
            return False
        kinds = (int, float) if self.kind is float else self.kind
        if not isinstance(value, kinds) or self.range is None:
            return isinstance(value, kinds)
        try:
            return value in self.range
        except OverflowError:  # a whole number that no float can hold
            return False


def allowed_values(config: type) -> dict[str, Allowed]:
    """Read from the types of a dataclass what each of its fields may hold, by name."""
    found = {}
    hints = get_type_hints(config, include_extras=True)
    for field in fields(config):
        hint, limits = hints[field.name], None
        if get_origin(hint) is Annotated:
            hint, limits = get_args(hint)
        if get_origin(hint) is Literal:
            found[field.name] = Allowed(type(get_args(hint)[0]), values=get_args(hint))
        elif isinstance(hint, type):
            found[field.name] = Allowed(hint, limits)
    return found


def require_ranges(config: Any) -> None:
    """Refuse a configuration with a value outside its range.

    Raises:
        ValueError: with the field's name, its value and what it should be.
    """
    for name, allowed in allowed_values(type(config)).items():
        value = getattr(config, name)
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}: it should be {allowed}")
