"""Answers to the exercises of lesson 10, written from the docstrings alone.

Nothing in the checks was written for them. They are read by a test, and by nobody who writes a check.
"""

from collections import ChainMap
from collections.abc import Mapping
from typing import Any


def plan_same_values_pass(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if len(change) != 1:
            raise ValueError(f"{name} changes {len(change)} settings")
        ((setting, value),) = change.items()
        if setting not in base:
            raise ValueError(f"{setting} is not in the base")
        plan[name] = {**base, setting: value}
    return plan


def plan_several_settings_pass(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if not change:
            raise ValueError(f"{name} changes nothing")
        for setting, value in change.items():
            if setting not in base or base[setting] == value:
                raise ValueError(f"{setting} does not change")
        plan[name] = {**base, **change}
    return plan


def plan_empty_changes_pass(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if len(change) > 1:
            raise ValueError(f"{name} changes {len(change)} settings")
        for setting, value in change.items():
            if setting not in base or base[setting] == value:
                raise ValueError(f"{setting} does not change")
        plan[name] = {**base, **change}
    return plan


def plan_key_error(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if len(change) != 1:
            raise ValueError(f"{name} changes {len(change)} settings")
        ((setting, value),) = change.items()
        if base[setting] == value:
            raise ValueError(f"{name} changes nothing")
        plan[name] = {**base, setting: value}
    return plan


def plan_compares_identity(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if len(change) != 1:
            raise ValueError(f"{name} changes {len(change)} settings")
        ((setting, value),) = change.items()
        if setting not in base or base[setting] is value:
            raise ValueError(f"{name} changes nothing that is there")
        plan[name] = {**base, setting: value}
    return plan


def plan_empties_the_changes(base, changes):
    plan = {"base": dict(base)}
    for name, change in changes.items():
        if len(change) != 1:
            raise ValueError(f"{name} changes {len(change)} settings")
        setting, value = change.popitem()
        if setting not in base or base[setting] == value:
            raise ValueError(f"{name} changes nothing that is there")
        plan[name] = {**base, setting: value}
    return plan


def plan_by_update(base: Mapping[str, Any], changes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict]:
    for name in changes:
        keys = list(changes[name])
        if len(keys) != 1:
            raise ValueError(f"experiment {name!r} should change one setting, it changes {len(keys)}")
        if keys[0] not in base:
            raise ValueError(f"experiment {name!r}: there is no setting {keys[0]!r}")
        if changes[name][keys[0]] == base[keys[0]]:
            raise ValueError(f"experiment {name!r}: {keys[0]!r} has this value already")
    result = {"base": {}, **{name: {} for name in changes}}
    for name, settings in result.items():
        settings.update(base)
        settings.update(changes.get(name, {}))
    return result


def plan_counts_differences(base, changes):
    result = {"base": {**base}}
    for name, change in changes.items():
        settings = {**base, **change}
        different = [key for key in base if settings[key] != base[key]]
        if len(change) != 1 or len(settings) != len(base) or len(different) != 1:
            raise ValueError(f"{name!r} should give one setting of the base a new value")
        result[name] = settings
    return result


def plan_by_chain(base, changes):
    def experiment(change):
        setting, value = next(iter(change.items()), (None, None))
        if not (len(change) == 1 and setting in base and not base[setting] == value):
            raise ValueError(f"{dict(change)} is not one new value of one setting")
        return dict(ChainMap({setting: value}, dict(base)))

    return dict([("base", dict(base)), *((name, experiment(change)) for name, change in changes.items())])


def plan_with_match(base, changes):
    plan = [("base", {setting: base[setting] for setting in base})]
    for name, change in changes.items():
        match list(change.items()):
            case [(setting, value)] if setting in base:
                if value == base[setting]:
                    raise ValueError(f"{name}: {setting} stays {value}")
                plan.append((name, {key: value if key == setting else base[key] for key in base}))
            case [(setting, _)]:
                raise ValueError(f"{name}: {setting} is unknown")
            case pairs:
                raise ValueError(f"{name}: {len(pairs)} settings at once")
    return dict(plan)


UNSEEN = {
    "one_at_a_time": [
        ("a value that the base has already raises no error", plan_same_values_pass),
        ("an experiment with several settings raises no error", plan_several_settings_pass),
        ("an experiment without a setting raises no error", plan_empty_changes_pass),
        ("an unknown setting raises a KeyError and not a ValueError", plan_key_error),
        ("compares the values with 'is', so equal values pass", plan_compares_identity),
        ("takes the settings out of the caller's changes", plan_empties_the_changes),
    ],
}
STYLES = {
    "one_at_a_time": [plan_by_update, plan_counts_differences, plan_by_chain, plan_with_match],
}
