"""A sweep of configurations that were chosen one by one, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.errors import BenchError
from bench.sweep.check import check_document
from bench.sweep.fields import FORMAT, MeasureSpec, TrialConfig
from bench.sweep.flags import document_text
from bench.sweep.paths import overlap
from bench.sweep.trial import Sweep

_ALWAYS_WRITTEN = ("device", "model")
"""Settings that people look for first, also where they are at their default."""


def sweep_of_configs(configs: Sequence[TrialConfig], measure: MeasureSpec, name: str) -> Sweep:
    """Make a sweep whose trials are exactly these, in this order; its text is a sweep file that runs them again.

    Args:
        configs: Resolved settings, two or more, no two alike.
        measure: How to measure them all.
        name: Name of the sweep.

    Raises:
        BenchError: This version cannot run one of them; says why.
    """
    # The number of accumulation steps follows from the three sizes of the batch.
    settings = [config.model_dump(mode="json", exclude={"accumulation_steps"}) for config in configs]
    varied = _differing(settings)
    default = TrialConfig().model_dump(mode="json")
    shown = {key: settings[0][key] for key in _ALWAYS_WRITTEN if not _overlaps(key, varied)}
    document: dict[str, Any] = {
        "format": FORMAT,
        "name": name,
        "base": shown | _common(settings[0], default, varied),
        "trials": [{path: _at(one, path) for path in varied} for one in settings],
        "measure": measure.model_dump(mode="json", exclude_unset=True, exclude_none=True),
    }
    spec, faults = check_document(document)
    if spec is None:
        raise BenchError("\n".join(fault.sentence() for fault in faults))
    return Sweep(name, None, "", spec, spec.varied(), document_text(document))


def _differing(settings: Sequence[Mapping[str, Any]], prefix: str = "") -> list[str]:
    """List the dotted names of what is not equal in all, down to single values where all have the section."""
    names: list[str] = []
    for key in settings[0]:
        values = [one[key] for one in settings]
        if all(isinstance(value, dict) for value in values):
            names += _differing(values, f"{prefix}{key}.")
        elif any(value != values[0] for value in values):
            names.append(prefix + key)
    return names


def _at(settings: Mapping[str, Any], path: str) -> Any:
    value: Any = settings
    for key in path.split("."):
        value = value[key]
    return value


def _overlaps(key: str, varied: Sequence[str]) -> bool:
    return any(overlap(key, path) for path in varied)


def _common(section: Mapping[str, Any], default: Any, varied: Sequence[str], prefix: str = "") -> dict[str, Any]:
    """Take what is equal in all and not at its default."""
    common: dict[str, Any] = {}
    for key, value in section.items():
        usual = default.get(key) if isinstance(default, dict) else None
        if prefix + key in varied or value == usual:
            continue
        kept = _common(value, usual, varied, f"{prefix}{key}.") if isinstance(value, dict) else value
        if kept != {}:
            common[key] = kept
    return common
