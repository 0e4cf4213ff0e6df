"""Where a sweep says what data it reads, so that files can be looked for before anything runs."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator

from bench.sweep.faults import Location
from bench.sweep.fields import FILE_SOURCES, DataSpec, SweepSpec, TrialConfig
from bench.sweep.paths import overlap, with_settings

_SETTING = re.compile(r"data\.\w+(?= = )")
_OF_USE = {"rows", "sequences_per_epoch", "tail"}
"""Keys of `data` that say how it is used: all that follows is the same whatever they are."""


def data_specs(spec: SweepSpec) -> Iterator[tuple[DataSpec, dict[str, Location]]]:
    """Yield each of the data that name files, once, with the place of every setting of `data` that was given.

    A setting that no trial uses is in none.
    """
    seen = set()
    base = spec.base.model_dump(exclude_unset=True)
    in_base = {f"data.{key}": ("base", "data", key) for key in base.get("data") or {}}
    for settings, places in _changes(spec):
        data = TrialConfig.model_validate(with_settings(base, settings)).data
        kept = {} if "data" in settings else in_base
        text = json.dumps(data.model_dump(mode="json", exclude=_OF_USE), sort_keys=True)
        if text not in seen and any(getattr(data, key) is not None for key in FILE_SOURCES):
            seen.add(text)
            yield data, {**kept, **places}


def setting_of(message: str) -> str | None:
    """Read which setting a message begins with, such as data.text; null where it begins with a row of a file."""
    found = _SETTING.match(message)
    return found[0] if found else None


def place_of(message: str, places: dict[str, Location]) -> Location:
    """Find the place of the setting that a message begins with; else of the source of the data."""
    names = [setting_of(message), *(f"data.{key}" for key in FILE_SOURCES)]
    return next(places[name] for name in names if name in places)


def _changes(spec: SweepSpec) -> Iterator[tuple[dict[str, object], dict[str, Location]]]:
    """Yield what each combination changes of the data, with the places."""
    if spec.trials:
        for number, settings in enumerate(spec.trials):
            changed = {name: value for name, value in settings.items() if overlap(name, "data")}
            yield changed, _places({name: ("trials", number, name) for name in changed}, changed)
        return
    axes = {name: values for name, values in spec.axes.items() if overlap(name, "data")}
    for chosen in itertools.product(*(enumerate(values) for values in axes.values())):
        changed = {name: value for name, (_, value) in zip(axes, chosen, strict=True)}
        places: dict[str, Location] = {
            name: ("axes", name, number) for name, (number, _) in zip(axes, chosen, strict=True)
        }
        yield changed, _places(places, changed)


def _places(places: dict[str, Location], changed: dict[str, object]) -> dict[str, Location]:
    """Look into a whole section `data`: its settings have places of their own."""
    section = changed.get("data")
    if not isinstance(section, dict):
        return places
    return {**{f"data.{key}": (*places["data"], key) for key in section}, **places}
