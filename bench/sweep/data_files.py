"""Where a sweep names files of data, so that they can be looked for before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.sweep.faults import Location
from bench.sweep.fields import SweepSpec
from bench.sweep.paths import overlap

KEYS = ("text", "tokens")
"""Keys of `data` whose value names files."""


def named_files(spec: SweepSpec) -> Iterator[tuple[Location, str, str]]:
    """Yield each place that names files of data: where it is, its key of `data`, and its value.

    What base names is left out where every trial names something else.
    """
    for key in KEYS:
        setting = f"data.{key}"
        in_base = getattr(spec.base.data, key)
        replaced = any(overlap(name, setting) for name in spec.axes) or (
            bool(spec.trials) and all(any(overlap(name, setting) for name in trial) for trial in spec.trials)
        )
        if in_base is not None and not replaced:
            yield ("base", "data", key), key, in_base
        for name, values in spec.axes.items():
            if isinstance(values, list):
                for position, value in enumerate(values):
                    yield from _named(("axes", name, position), name, value, key)
        for position, trial in enumerate(spec.trials):
            for name, value in trial.items():
                yield from _named(("trials", position, name), name, value, key)


def _named(location: Location, name: str, value: Any, key: str) -> Iterator[tuple[Location, str, str]]:
    """Yield what one setting names: the file itself, or a whole section `data` that names one."""
    if name == f"data.{key}" and isinstance(value, str):
        yield location, key, value
    elif name == "data" and isinstance(value, Mapping) and isinstance(value.get(key), str):
        yield (*location, key), key, value[key]
