"""Every fault of a sweep, found in one go.

Works on plain values, whether they come from a file or from flags; who calls adds the line or the flag.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from bench.sweep.expand import MachineFacts, combinations, expand, listed, rule_matches, same_value
from bench.sweep.fields import FORMAT, LARGEST, SkipRule, SweepSpec, TrialConfig
from bench.sweep.paths import field_paths, overlap, value_at, with_settings
from bench.sweep.rules import contradictions
from bench.sweep.trial import Skipped, Sweep, Trial, resolve, show_value
from bench.sweep.words import Fault, Location, from_pydantic, keys_at, unknown_key

MOST_TRIALS = 10_000
"""Most combinations a sweep may have: more is a slip, and would take weeks."""

_ENDLESS = MachineFacts(device="cuda", cuda_device_count=LARGEST)
"""A machine that lacks nothing: what is skipped on it is skipped by the sweep itself."""
_BATCH_KEYS = ("global_batch_size", "accumulation_steps")
_DERIVED_KEYS = ("device", *_BATCH_KEYS)
"""Settings that a skip rule may name although they are no axis: each trial gets them from elsewhere."""


def check_document(document: Any) -> tuple[SweepSpec | None, list[Fault]]:
    """Check plain values as a sweep with axes. The spec is null when there are faults."""
    if document is None:
        return None, [Fault((), "The file is empty", "Start from sweeps/quickstart.yaml", shows_value=False)]
    if not isinstance(document, dict):
        problem = "The file must hold keys with values, not " + (
            "a list" if isinstance(document, list) else "one value"
        )
        return None, [Fault((), problem, "Start with: format: 1", shows_value=False)]
    faults = list(_format_faults(document))
    if faults and _is_newer(document.get("format")):
        return None, faults  # what else it holds is for a newer reader to judge
    if isinstance(document.get("axes"), dict) and not document["axes"]:
        way_out = "Add one, such as micro_batch_size: [1, 2, 4]; for a single trial use bench run"
        faults.append(Fault(("axes",), "has no axis", way_out, shows_value=False))
    spec, found = check_one_trial({**document, "format": FORMAT} if faults else document)
    faults += found
    return (None, faults) if faults else (spec, [])


def check_one_trial(document: dict[str, Any]) -> tuple[SweepSpec | None, list[Fault]]:
    """Check plain values as a sweep that may have no axis at all, so that it is one trial."""
    spec, faults = _structure(document)
    broken = {fault.location for fault in faults}
    faults += [fault for fault in _axes_faults(document) if fault.location not in broken]
    faults += _batch_faults(document)
    faults += _skip_faults(document)
    faults += _base_faults(document, broken)
    if spec is not None and not faults:
        faults += _whole_sweep_faults(spec)
    return (None, faults) if faults else (spec, [])


def _is_newer(version: Any) -> bool:
    return isinstance(version, int) and not isinstance(version, bool) and version > FORMAT


def _format_faults(document: Mapping[str, Any]) -> Iterator[Fault]:
    version = document.get("format", FORMAT)
    if _is_newer(version):
        problem = f"is newer than this bench, which reads format {FORMAT}"
        yield Fault(("format",), problem, "Update bench: pip install --upgrade accumbench", version)
    elif version != FORMAT or not isinstance(version, int) or isinstance(version, bool):
        yield Fault(("format",), "is not a format of sweep files", f"Write format: {FORMAT}", version)


def _structure(document: dict[str, Any]) -> tuple[SweepSpec | None, list[Fault]]:
    """Check every single field against its type and range."""
    try:
        return SweepSpec.model_validate(document), []
    except ValidationError as failure:
        errors = failure.errors(include_url=False)
        return None, [from_pydantic(error, keys_at(_plain_location(error["loc"]))) for error in errors]


def _plain_location(location: Location) -> Location:
    return tuple(part for part in location if part != "[key]")


def _section(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Take a section of the document; empty when it is missing or something else, which is reported elsewhere."""
    section = document.get(name)
    return {key: value for key, value in section.items() if isinstance(key, str)} if isinstance(section, dict) else {}


def _axes_faults(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Check that each axis names a field, and that each value is one the field takes, once."""
    axes, base = _section(document, "axes"), _section(document, "base")
    for name, values in axes.items():
        if name not in field_paths():
            yield unknown_key(("axes", name), tuple(field_paths()))
        elif isinstance(values, list):
            yield from _axis_values_faults(name, values)
        if _is_given(base, name):
            problem = f"has no effect: axes.{name} sets it for every trial"
            yield Fault(("base", *name.split(".")), problem, "Remove one of the two", _given(base, name))


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
    seen: list[Any] = []
    for position, value in enumerate(values):
        location: Location = ("axes", name, position)
        if isinstance(value, list):
            yield Fault(location, "is a list inside the list of values", "Write the values side by side", value)
            continue
        if value is None and name in _BATCH_KEYS:
            yield Fault(location, "is no size", "Remove it", value)
            continue
        if name == "device" and value == "auto" and len(values) > 1:
            way_out = "List cpu and cuda only"
            yield Fault(location, "becomes cpu or cuda, and so repeats another value of this axis", way_out, value)
        try:
            config = TrialConfig.model_validate(with_settings({}, {name: value}))
        except ValidationError as failure:
            yield from (_axis_value_fault(name, location, error) for error in failure.errors(include_url=False))
            continue
        checked = value_at(config, name)
        if any(same_value(checked, other) for other in seen):
            yield Fault(location, f"is listed twice in axes.{name}", "Remove one of the two", value)
        seen.append(checked)


def _axis_value_fault(name: str, location: Location, error: Any) -> Fault:
    """Move a fault found by way of a whole trial back to the value in the axis."""
    inside = _plain_location(error["loc"])
    fault = from_pydantic(error, keys_at(("base", *inside)))
    return Fault(
        (*location, *inside[len(name.split(".")) :]), fault.problem, fault.way_out, fault.value, fault.shows_value
    )


def _batch_faults(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Exactly one of global_batch_size and accumulation_steps is given; the other follows."""
    given = [
        (part, key, _section(document, part)[key])
        for key in _BATCH_KEYS
        for part in ("base", "axes")
        if _section(document, part).get(key) is not None
    ]
    if not given:
        way_out = (
            "Add global_batch_size, sequences per update, or accumulation_steps, micro-batches per update and rank"
        )
        yield Fault(("base",), "says nothing about the size of an update", way_out, shows_value=False)
    if len({key for _, key, _ in given}) == len(_BATCH_KEYS):
        part, key, value = given[-1]
        problem = "is given beside global_batch_size, and each follows from the other"
        yield Fault((part, key), problem, "Keep one of the two", value)


def _skip_faults(document: Mapping[str, Any]) -> Iterator[Fault]:
    """A skip rule speaks of axes and of values that they have."""
    rules = document.get("skip")
    axes = _section(document, "axes")
    for number, rule in enumerate(rules if isinstance(rules, list) else []):
        when = rule.get("when") if isinstance(rule, dict) else None
        for name, wanted in (when if isinstance(when, dict) else {}).items():
            location: Location = ("skip", number, "when", name)
            if name not in field_paths():
                yield unknown_key(location, (*axes, *_DERIVED_KEYS))
            elif name in axes:
                yield from _skip_value_faults(location, name, wanted, axes[name])
            elif name not in _DERIVED_KEYS and not any(name.startswith(f"{axis}.") for axis in axes):
                problem = "is the same in every trial: it is no axis of this sweep"
                yield Fault(location, problem, f"Name an axis: {', '.join(axes)}", wanted)


def _skip_value_faults(location: Location, name: str, wanted: Any, values: Any) -> Iterator[Fault]:
    if isinstance(wanted, list) and not wanted:
        yield Fault(location, "is empty, and so selects nothing", "List at least one value", wanted)
    for position, value in enumerate(listed(wanted)):
        if isinstance(values, list) and not any(same_value(value, other) for other in values):
            place = (*location, position) if isinstance(wanted, list) else location
            way_out = f"Use values of that axis: {', '.join(show_value(other) for other in values)}"
            yield Fault(place, f"is no value of axes.{name}", way_out, value)


def _base_faults(document: Mapping[str, Any], broken: set[Location]) -> Iterator[Fault]:
    """Find settings of base that rule each other out in every trial, leaving out what is faulty already."""
    base = copy.deepcopy(_section(document, "base"))
    axes = [name for name in _section(document, "axes") if name in field_paths()]
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
    """Read what can be read of base, leaving out whole settings that cannot: they are reported already."""
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


def _whole_sweep_faults(spec: SweepSpec) -> Iterator[Fault]:
    """Find what only the full product shows: too many trials, none left, rules and limits that nothing meets."""
    number = math.prod(len(values) for values in spec.axes.values())
    if number > MOST_TRIALS:
        problem = f"makes {number:,} combinations, and a sweep may have {MOST_TRIALS:,}"
        yield Fault(("axes",), problem, "Shorten an axis, or split the sweep", shows_value=False)
        return
    sweep = Sweep(spec.name, None, "", spec, tuple(spec.axes), "")
    entries = expand(sweep, _ENDLESS)
    trials = [entry for entry in entries if isinstance(entry, Trial)]
    yield from _unused_rules(sweep)
    if trials:
        yield from _epochs_that_never_end(spec, trials)
    else:
        yield _nothing_left(spec, [entry.reason for entry in entries if isinstance(entry, Skipped)])


def _unused_rules(sweep: Sweep) -> Iterator[Fault]:
    unused: dict[int, SkipRule] = dict(enumerate(sweep.spec.skip))
    if not unused:
        return
    for values, config in combinations(sweep):
        resolved = [resolve(config, "cpu"), resolve(config, "cuda")]
        for number, rule in list(unused.items()):
            if any(rule_matches(rule, dict(values), each) for each in resolved):
                del unused[number]
        if not unused:
            return
    for number, rule in unused.items():
        way_out = "Correct its values, or remove the rule"
        yield Fault(("skip", number, "when"), "selects no trial of this sweep", way_out, rule.when)


def _nothing_left(spec: SweepSpec, reasons: list[str]) -> Fault:
    """Say that no trial is left, and the most frequent reason."""
    most = max(reasons, key=reasons.count)
    same = reasons.count(most)
    count = "all" if same == len(reasons) else f"{same} of them"
    problem = f"leaves nothing to run: {len(reasons)} combinations, all skipped; {count} because {most}"
    return Fault(
        ("axes",), problem.rstrip("."), "Change the axes or base so that at least one trial is left", shows_value=False
    )


def _epochs_that_never_end(spec: SweepSpec, trials: list[Trial]) -> Iterator[Fault]:
    """An epoch longer than all a launch reads changes nothing."""
    measure = spec.measure
    # First update, three of the memory pass, warm-up, timed part, and what the loss at quality_updates may add.
    updates = 4 + measure.warmup_updates + measure.updates + measure.quality_updates
    largest = max(trial.config.global_batch_size or 0 for trial in trials) * updates
    key = "data.sequences_per_epoch"
    in_base = spec.base.data.sequences_per_epoch
    places: list[tuple[Location, Any]] = [(("base", *key.split(".")), in_base)]
    places += [(("axes", key, position), value) for position, value in enumerate(spec.axes.get(key, []))]
    for location, value in places:
        if isinstance(value, int) and value > largest:
            problem = f"has no effect: a launch of this sweep reads at most {largest:,} sequences, so no epoch ends"
            yield Fault(location, problem, "Use a smaller number, or remove it", value)
