"""Tell what is recorded as changed between two measurements of the same configurations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.record.columns import COLUMNS
from bench.report.launch_rows import Row
from bench.report.machines import FACTS
from bench.sweep.names import clean
from bench.units import listed

_MORE_FACTS = {
    "hostname": "host",
    "gpu_uuid_per_rank": "GPU UUIDs",
    "sweep": "sweep",
    "parameters_unique": "parameters",
    "corpus_hash": "corpus text",
    **{name: name.replace("_", " ") for name in ("autocast_dtype", "tf32_matmul", "tf32_cudnn", "grad_scaler")},
    "float32_matmul_precision": "float32 matmul precision",
    "time_method": "time method",
    "memory_method": "memory method",
    "target_half_width": "target half-width",
}
"""Further facts that a reader wants to know of, and what they are called."""
_MOST_VALUES = 3


@dataclass(frozen=True)
class Change:
    """Hold one fact that differs."""

    name: str
    """Column, environment variable, or key of the configuration."""
    word: str
    """What people call it."""
    values: tuple[tuple[Any, Any], ...]
    """Every pair of its values before and after, null for none."""
    none: str
    """What null means."""
    configurations: int
    """Configurations in which it differs."""
    of: int
    """Configurations that both measured."""

    @property
    def words(self) -> str:
        """Say it in a few words: torch 2.12.0 -> 2.13.0."""
        pairs = [tuple(self.none if value is None else _word(value) for value in pair) for pair in self.values]
        each = listed([f"{before} -> {after}" for before, after in pairs], _MOST_VALUES)
        share = f" (in {self.configurations} of {self.of} configurations)" if self.configurations < self.of else ""
        return f"{self.word} {each}{share}"


def changes_between(pairs: Sequence[tuple[Row, Row]]) -> list[Change]:
    """List what differs between the rows of each pair, hardware first, then software, environment and settings.

    Args:
        pairs: For each configuration a row from before and one from after.
    """
    found: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
    for one, other in pairs:
        for name, word, before, after in _differences(one, other):
            found.setdefault((name, word), []).append((before, after))
    order = [*FACTS, *_MORE_FACTS]
    changes = [
        Change(name, word, tuple(dict.fromkeys(values)), "unset" if name == word else "none", len(values), len(pairs))
        for (name, word), values in found.items()
    ]
    return sorted(changes, key=lambda one: order.index(one.name) if one.name in order else len(order))


def never_equal(
    some: Sequence[Row], others: Sequence[Row], leave_out: Sequence[str] = ()
) -> dict[str, tuple[str, str]]:
    """Give the settings whose values on one side never occur on the other, with what each side has."""
    apart = {}
    for column in COLUMNS:
        if column.rule != "config" or column.name in ("config_json", *leave_out):
            continue
        mine, its = ({row.get(column.name) for row in side} for side in (some, others))
        if not mine & its:
            apart[column.name] = (_values(mine), _values(its))
    return apart


def _differences(one: Row, other: Row) -> Iterator[tuple[str, str, Any, Any]]:
    for name, word in (FACTS | _MORE_FACTS).items():
        before, after = (_plain(row.get(name)) for row in (one, other))
        if before != after:
            yield name, word, before, after
    for column, prefix in (("environment_json", ""), ("config_json", "setting ")):
        before, after = (_flat(row.get(column)) for row in (one, other))
        # A setting that one version does not know is at the default of the other, which is what happened before.
        names = before.keys() & after.keys() if prefix else before.keys() | after.keys()
        for name in sorted(names):
            if before.get(name) != after.get(name):
                yield name, f"{prefix}{name}", before.get(name), after.get(name)


def _flat(text: Any) -> dict[str, Any]:
    """Read a JSON object, the keys of inner ones as outer.inner; empty where it is none."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return dict(_leaves(value, "")) if isinstance(value, dict) else {}


def _leaves(value: Mapping[str, Any], start: str) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _leaves(item, f"{start}{key}.")
        else:
            yield f"{start}{key}", _plain(item)


def _plain(value: Any) -> Any:
    """Make a value that can be a key."""
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return "/".join(map(_word, value))
    return "none" if value is None else clean(str(value)) or "empty"


def _values(values: set[Any]) -> str:
    texts = sorted("none" if value is None else str(value) for value in values)
    return ", ".join(texts[:4]) + (", ..." if len(texts) > 4 else "")
