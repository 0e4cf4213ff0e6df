"""Faults of the axes: each must name a field, and hold values that the field takes, each once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from bench.sweep.faults import Fault, Location
from bench.sweep.fields import LARGEST_SEARCHED, SEARCHED_AXIS, TrialConfig
from bench.sweep.keys import keys_at, unknown_key
from bench.sweep.paths import field_paths, value_at, with_settings
from bench.sweep.words import from_pydantic, plain_location

BATCH_KEYS = ("global_batch_size", "accumulation_steps")
"""The two sizes of an update that follow from each other."""


def section(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Take a section of the document; empty when it is missing or something else, which is reported elsewhere."""
    section = document.get(name)
    return {key: value for key, value in section.items() if isinstance(key, str)} if isinstance(section, dict) else {}


def axes_faults(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Check that each axis names a field, and that each value is one the field takes, once."""
    axes, base = section(document, "axes"), section(document, "base")
    for name, values in axes.items():
        if name not in field_paths():
            yield unknown_key(("axes", name), tuple(field_paths()))
        elif isinstance(values, list):
            yield from _axis_values_faults(name, values)
        elif name == SEARCHED_AXIS and isinstance(values, dict) and set(values) == {"max"}:
            yield from _search_faults(values["max"])
        if _is_given(base, name):
            problem = f"has no effect: axes.{name} sets it for every trial"
            yield Fault(("base", *name.split(".")), problem, "Remove one of the two", _given(base, name))


def _search_faults(largest: Any) -> Iterator[Fault]:
    """Check the N of {max: N}."""
    location: Location = ("axes", SEARCHED_AXIS, "max")
    if isinstance(largest, bool) or not isinstance(largest, int):
        yield Fault(location, "is not a whole number", "Write a whole number, such as 256", largest)
    elif not 1 <= largest <= LARGEST_SEARCHED:
        problem = f"is out of range: it must be at least 1 and at most {LARGEST_SEARCHED:,}"
        yield Fault(location, problem, f"Use 1 to {LARGEST_SEARCHED:,}", largest)


def _given(base: Mapping[str, Any], name: str) -> Any:
    part: Any = base
    for key in name.split("."):
        if not isinstance(part, dict) or key not in part:
            return None
        part = part[key]
    return part


def _is_given(base: Mapping[str, Any], name: str) -> bool:
    *parents, last = name.split(".")
    section = _given(base, ".".join(parents)) if parents else base
    return isinstance(section, dict) and last in section


def _axis_values_faults(name: str, values: list[Any]) -> Iterator[Fault]:
    seen: set[str] = set()
    for position, value in enumerate(values):
        location: Location = ("axes", name, position)
        if isinstance(value, list):
            yield Fault(location, "is a list inside the list of values", "Write one flat list", value)
            continue
        if name == SEARCHED_AXIS and isinstance(value, dict):
            way_out = f"Write axes: {{{name}: {{max: N}}}} with N from 1 to {LARGEST_SEARCHED:,}, or list sizes"
            yield Fault(location, "is a search, which cannot be one value of a list", way_out, value)
            continue
        if value is None and name in BATCH_KEYS:
            yield Fault(location, "is not a size", "Remove it", value)
            continue
        if name == "device" and value == "auto" and len(values) > 1:
            way_out = "List cpu and cuda only"
            yield Fault(location, "becomes cpu or cuda, so it may repeat another value of this axis", way_out, value)
        try:
            config = TrialConfig.model_validate(with_settings({}, {name: value}))
        except ValidationError as failure:
            yield from (axis_value_fault(name, location, error) for error in failure.errors(include_url=False))
            continue
        checked = value_at(config, name)
        once = json.dumps(
            checked.model_dump(mode="json") if isinstance(checked, BaseModel) else checked, sort_keys=True
        )
        if once in seen:
            yield Fault(location, f"is listed twice in axes.{name}", "Remove one of the two", value)
        seen.add(once)


def axis_value_fault(name: str, location: Location, error: Any) -> Fault:
    """Move a fault found in a whole trial back to the axis value that caused it."""
    inside = plain_location(error["loc"])
    fault = from_pydantic(error, keys_at(("base", *inside)))
    way_out = fault.way_out.replace(f"Write {name}: ", "Write ")
    return Fault((*location, *inside[len(name.split(".")) :]), fault.problem, way_out, fault.value, fault.shows_value)
