"""Faults of trials that are listed one by one: each names fields, and values that the fields take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from bench.sweep.check_axes import BATCH_KEYS, axis_value_fault, section
from bench.sweep.faults import Fault, Location
from bench.sweep.fields import TrialConfig
from bench.sweep.keys import unknown_key
from bench.sweep.paths import field_paths, with_settings


def listed_trials(document: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Take the trials of the document with their positions; what is no section of keys is reported elsewhere."""
    trials = document.get("trials")
    return [
        (position, {key: value for key, value in settings.items() if isinstance(key, str)})
        for position, settings in enumerate(trials if isinstance(trials, list) else [])
        if isinstance(settings, dict)
    ]


def trials_faults(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Check every trial of the list, and that nothing beside the list contradicts it."""
    if not document.get("trials"):
        return
    if section(document, "axes"):
        problem = "conflicts with axes: each defines the trials by itself"
        yield Fault(("trials",), problem, "Keep one of the two", shows_value=False)
    if document.get("skip"):
        way_out = "Remove it, and take unwanted trials out of the list"
        yield Fault(("skip",), "has no effect with trials", way_out, shows_value=False)
    for position, settings in listed_trials(document):
        for name, value in settings.items():
            yield from _setting_faults(("trials", position, name), name, value)
        yield from _batch_faults(section(document, "base"), settings, ("trials", position))


def _setting_faults(location: Location, name: str, value: Any) -> Iterator[Fault]:
    if name not in field_paths():
        yield unknown_key(location, tuple(field_paths()))
        return
    try:
        TrialConfig.model_validate(with_settings({}, {name: value}))
    except ValidationError as failure:
        yield from (axis_value_fault(name, location, error) for error in failure.errors(include_url=False))


def _batch_faults(base: Mapping[str, Any], settings: Mapping[str, Any], location: Location) -> Iterator[Fault]:
    """Exactly one of global_batch_size and accumulation_steps is given; the other follows."""
    given = [key for key in BATCH_KEYS if {**base, **settings}.get(key) is not None]
    if not given:
        way_out = "Add global_batch_size or accumulation_steps, here or in base"
        yield Fault(location, "sets no global batch size", way_out, shows_value=False)
    if len(given) == len(BATCH_KEYS):
        problem = "has both global_batch_size and accumulation_steps, but each determines the other"
        yield Fault(location, problem, "Keep one of the two, here or in base", shows_value=False)
