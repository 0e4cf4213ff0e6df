"""Every fault of a sweep, found in one go.

Works on plain values from a file or from flags; the caller adds the line or the flag.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from bench.sweep.check_axes import BATCH_KEYS, axes_faults, section
from bench.sweep.check_product import product_faults
from bench.sweep.check_trials import listed_trials, trials_faults
from bench.sweep.expand import listed, same_value
from bench.sweep.faults import Fault, Location
from bench.sweep.fields import FIXED_LENGTH, FORMAT, SweepSpec, TrialConfig
from bench.sweep.keys import keys_at, unknown_key
from bench.sweep.paths import field_paths, overlap
from bench.sweep.rules import contradictions
from bench.sweep.trial import show_value
from bench.sweep.words import from_pydantic, plain_location

_DERIVED_KEYS = ("device", *BATCH_KEYS)
"""Settings that a skip rule may name without their being an axis: each trial gets them from elsewhere."""


def check_document(document: Any) -> tuple[SweepSpec | None, list[Fault]]:
    """Check plain values as a sweep with axes. The spec is null when there are faults."""
    if document is None:
        return None, [
            Fault((), "The file is empty", "`bench init quickstart` writes one to start from", shows_value=False)
        ]
    if not isinstance(document, dict):
        problem = "The file must hold keys with values, not " + (
            "a list" if isinstance(document, list) else "one value"
        )
        return None, [Fault((), problem, "Start with: format: 1", shows_value=False)]
    faults = list(_format_faults(document))
    if faults and _is_newer(document.get("format")):
        return None, faults  # only a newer reader can judge the rest
    if "axes" not in document and "trials" not in document:
        way_out = "Add axes: {micro_batch_size: [1, 2, 4]}, or list the trials one by one under trials"
        faults.append(Fault(("axes",), "is missing", way_out, shows_value=False))
    elif not document.get("trials") and document.get("axes", {}) == {}:
        way_out = "Add an axis, such as micro_batch_size: [1, 2, 4]; for a single trial use bench run"
        faults.append(Fault(("axes",), "is empty", way_out, shows_value=False))
    spec, found = check_one_trial({**document, "format": FORMAT} if faults else document)
    faults += found
    return (None, faults) if faults else (spec, [])


def check_one_trial(document: dict[str, Any]) -> tuple[SweepSpec | None, list[Fault]]:
    """Check plain values as a sweep that may have no axis, so that it is a single trial."""
    spec, faults = _structure(document)
    broken = {fault.location for fault in faults}
    faults += [fault for fault in axes_faults(document) if fault.location not in broken]
    faults += [fault for fault in trials_faults(document) if fault.location not in broken]
    faults += [] if listed_trials(document) else _batch_faults(document)
    faults += _base_faults(document, broken)
    faults += _measure_faults(document)
    expands = spec is not None and not faults
    in_axes = [fault.location for fault in faults if fault.location[:1] == ("axes",)]
    faults += _skip_faults(document, {str(location[1]) for location in in_axes if len(location) > 1})
    if spec is not None and expands:
        known = {fault.location[:2] for fault in faults}
        faults += [fault for fault in product_faults(spec) if fault.location[:2] not in known]
    return (None, faults) if faults else (spec, [])


def _is_newer(version: Any) -> bool:
    return isinstance(version, int) and not isinstance(version, bool) and version > FORMAT


def _format_faults(document: Mapping[str, Any]) -> Iterator[Fault]:
    version = document.get("format", FORMAT)
    if _is_newer(version):
        problem = f"is newer than this bench, which reads format {FORMAT}"
        yield Fault(("format",), problem, "Update bench: pip install --upgrade accumbench", version)
    elif version != FORMAT or not isinstance(version, int) or isinstance(version, bool):
        yield Fault(("format",), "is not a known format", f"Write format: {FORMAT}", version)


def _structure(document: dict[str, Any]) -> tuple[SweepSpec | None, list[Fault]]:
    """Check every single field against its type and range."""
    try:
        return SweepSpec.model_validate(document), []
    except ValidationError as failure:
        errors = failure.errors(include_url=False)
        return None, [from_pydantic(error, keys_at(plain_location(error["loc"]))) for error in errors]


def _batch_faults(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Exactly one of global_batch_size and accumulation_steps is given; the other follows."""
    given = [
        (part, key, section(document, part)[key])
        for key in BATCH_KEYS
        for part in ("base", "axes")
        if section(document, part).get(key) is not None
    ]
    if not given and isinstance(document.get("base", {}), dict):
        way_out = (
            "Add global_batch_size (sequences per update) or accumulation_steps (micro-batches per update on each rank)"
        )
        yield Fault(("base",), "sets no global batch size", way_out, shows_value=False)
    if len({key for _, key, _ in given}) == len(BATCH_KEYS):
        part, key, value = given[-1]
        problem = "conflicts with global_batch_size: each determines the other"
        yield Fault((part, key), problem, "Keep one of the two", value)


def _measure_faults(document: Mapping[str, Any]) -> Iterator[Fault]:
    """A launch lasts as long as its preset needs, or a fixed number of updates: never both."""
    measure = section(document, "measure")
    if measure.get("preset") is None:
        return
    for key in FIXED_LENGTH:
        if measure.get(key) is not None:
            problem = "conflicts with preset, which sets the number of updates itself"
            way_out = "Use either a preset or a fixed length (warmup_updates and updates)"
            yield Fault(("measure", key), problem, way_out, measure[key])


def _skip_faults(document: Mapping[str, Any], doubtful: set[str]) -> Iterator[Fault]:
    """A skip rule names axes and values that they have. `doubtful` axes have faults of their own."""
    rules = document.get("skip")
    axes = section(document, "axes")
    for number, rule in enumerate(rules if isinstance(rules, list) else []):
        when = rule.get("when") if isinstance(rule, dict) else None
        for name, wanted in (when if isinstance(when, dict) else {}).items():
            location: Location = ("skip", number, "when", name)
            if name not in field_paths():
                yield unknown_key(location, (*axes, *_DERIVED_KEYS))
            elif name in axes:
                if name not in doubtful:
                    yield from _skip_value_faults(location, name, wanted, axes[name])
            elif (
                doubtful <= {*field_paths()}
                and name not in _DERIVED_KEYS
                and not any(name.startswith(f"{axis}.") for axis in axes)
            ):
                problem = "is the same in every trial: it is not an axis of this sweep"
                yield Fault(location, problem, f"Name an axis: {', '.join(axes)}", wanted)


def _skip_value_faults(location: Location, name: str, wanted: Any, values: Any) -> Iterator[Fault]:
    if isinstance(wanted, list) and not wanted:
        yield Fault(location, "is empty, so it selects nothing", "List at least one value", wanted)
    for position, value in enumerate(listed(wanted)):
        if isinstance(values, list) and not any(same_value(value, other) for other in values):
            place = (*location, position) if isinstance(wanted, list) else location
            way_out = f"Use values of that axis: {', '.join(show_value(other) for other in values)}"
            yield Fault(place, f"is not a value of axes.{name}", way_out, value)


def _base_faults(document: Mapping[str, Any], broken: set[Location]) -> Iterator[Fault]:
    """Find settings of base that rule each other out in every trial; settings already found faulty are left out."""
    base = copy.deepcopy(section(document, "base"))
    named = [*section(document, "axes"), *(name for _, settings in listed_trials(document) for name in settings)]
    axes = [name for name in named if name in field_paths()]
    for location in broken:
        if location[:1] == ("base",) and len(location) > 1:
            _remove(base, location[1:])
    config = _usable_part(base)
    wrong = {".".join(str(part) for part in location[1:]) for location in broken if location[:1] == ("base",)}
    for found in contradictions(config):
        if not any(overlap(key, other) for key in found.keys for other in (*axes, *wrong)):
            yield Fault(("base", *found.keys[0].split(".")), found.problem, found.way_out, found.value)
    if config.gradient_sync == "every" and config.world_size == 1 and not {"gradient_sync", "world_size"} & {*axes}:
        problem = "has no effect with one rank"
        yield Fault(("base", "gradient_sync"), problem, "Remove it, or use world_size 2 or more", config.gradient_sync)


def _usable_part(base: dict[str, Any]) -> TrialConfig:
    """Read base without the settings that cannot be read: those are already reported."""
    try:
        return TrialConfig.model_validate(base)
    except ValidationError as failure:
        unusable = {error["loc"][0] for error in failure.errors()}
        return TrialConfig.model_validate({key: value for key, value in base.items() if key not in unusable})


def _remove(section: Any, location: Location) -> None:
    *parents, last = location
    for part in parents:
        section = section.get(part) if isinstance(section, dict) else None
    if isinstance(section, dict):
        section.pop(last, None)
