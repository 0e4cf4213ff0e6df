"""What more ranks buy, and what exchanging gradients costs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.decide.law import mean_update_s
from bench.record.columns import COLUMNS
from bench.report.configurations import Configuration, configurations_of
from bench.report.machines import machine_key
from bench.report.points import Row
from bench.sweep.names import clean, value_words

HIDDEN_SHARE = 0.05
"""Communication below this share of an update counts as hidden."""
_NOT_OF_A_CURVE = ("world_size", "accumulation_steps", "micro_batch_size", "gradient_sync", "config_json")


@dataclass(frozen=True)
class ScalingPoint:
    """Hold the fastest configuration of one world size."""

    configuration: Configuration
    """The configuration."""
    world_size: int
    """Ranks."""
    valid_tokens_per_s: float
    """All ranks."""
    efficiency: float
    """Speed per rank relative to the smallest world size of the curve; 1 is perfect."""


@dataclass(frozen=True)
class ScalingCurve:
    """Hold one curve: everything but ranks and the cut of the same global batch is equal."""

    name: str
    """What tells this curve apart."""
    points: tuple[ScalingPoint, ...]
    """By rising world size; at least two."""


@dataclass(frozen=True)
class Exposed:
    """Hold what one exchange of gradients adds to an update, from a pair that differs only in how often it happens."""

    row: Row
    """A row of the one that exchanges once per update."""
    sync_s: float
    """Seconds one exchange adds: (update with every - update with last) / (accumulation steps - 1)."""
    update_s: float
    """Update that exchanges once [seconds]."""
    share: float
    """sync_s / update_s: share of an update that communication is exposed for; below 0 it is lost in the noise."""
    steps_to_hide: int | None
    """Accumulation steps from which the share falls below 5 %, micro-steps being as long as here; null if unknown."""


def scaling_curves(rows: Sequence[Row]) -> list[ScalingCurve]:
    """Find, for each group that varies in world size at one global batch, the fastest way of every world size.

    A way is a cut and when gradients are exchanged. This is strong scaling: the same update on more ranks. Groups with
    one world size have no curve.
    """
    groups: dict[tuple[Any, ...], list[Configuration]] = {}
    for one in configurations_of([row for row in rows if row["outcome"] == "ok"]):
        if one.speed is not None and one.row.get("world_size"):
            groups.setdefault(_curve_key(one.row, _NOT_OF_A_CURVE), []).append(one)
    curves = []
    for group in groups.values():
        best: dict[int, Configuration] = {}
        for one in group:
            ranks = int(one.row["world_size"])
            if ranks not in best or (one.speed or 0) > (best[ranks].speed or 0):
                best[ranks] = one
        if len(best) > 1:
            curves.append(_curve(dict(sorted(best.items()))))
    return _told_apart(curves)


def _told_apart(curves: list[ScalingCurve]) -> list[ScalingCurve]:
    """Add the global batch to the names where it varies: a curve, unlike a configuration, has no cut that tells it."""
    sizes = [curve.points[0].configuration.row.get("global_batch_size") for curve in curves]
    if len(set(sizes)) < 2:
        return curves
    return [
        replace(curve, name=f"{curve.name}, global batch {size}") for curve, size in zip(curves, sizes, strict=True)
    ]


def _curve(best: dict[int, Configuration]) -> ScalingCurve:
    smallest = next(iter(best))
    base = (best[smallest].geometric_speed or 0.0) / smallest  # ratios of rates are those of geometric means
    points = tuple(
        ScalingPoint(one, ranks, one.speed or 0.0, (one.geometric_speed or 0.0) / ranks / base)
        for ranks, one in best.items()
    )
    row = points[0].configuration.row
    extra = [name for name in points[0].configuration.extra_axes if name not in _NOT_OF_A_CURVE]
    return ScalingCurve(", ".join([clean(str(row.get("amp_mode") or "?")), *value_words(row, extra)]), points)


def exposed_communication(rows: Sequence[Row]) -> list[Exposed]:
    """Find pairs of gradient_sync last and every that are equal otherwise, and divide what the exchanges add.

    An exchange that overlaps the backward pass adds only what cannot be hidden behind it.
    """
    pairs: dict[tuple[Any, ...], dict[str, list[Row]]] = {}
    for row in rows:
        if row["outcome"] == "ok" and (row.get("world_size") or 1) > 1 and (row.get("accumulation_steps") or 1) > 1:
            sides = pairs.setdefault(_curve_key(row, ("gradient_sync", "config_json")), {})
            sides.setdefault(str(row.get("gradient_sync")), []).append(row)
    found = []
    for sides in pairs.values():
        last, every = (_median_update_s(sides.get(side, [])) for side in ("last", "every"))
        if last is None or every is None:
            continue
        row = sides["last"][0]
        steps = int(row["accumulation_steps"])
        sync_s = (every - last) / (steps - 1)
        found.append(Exposed(row, sync_s, last, sync_s / last, _steps_to_hide(sync_s, last, steps)))
    return found


def _steps_to_hide(sync_s: float, update_s: float, steps: int) -> int | None:
    """Lengthen the update by micro-steps of (update - sync) / steps until one exchange is 5 % of it."""
    micro_s = (update_s - sync_s) / steps
    if sync_s <= 0 or micro_s <= 0:
        return None
    needed = (sync_s / HIDDEN_SHARE - sync_s) / micro_s
    return max(1, int(-(-needed // 1)))


def _median_update_s(rows: Sequence[Row]) -> float | None:
    seconds = [value for row in rows if (value := mean_update_s(row)) is not None]
    return statistics.median(seconds) if seconds else None


def _curve_key(row: Row, without: Sequence[str]) -> tuple[Any, ...]:
    names = [column.name for column in COLUMNS if column.rule == "config" and column.name not in without]
    return (*(row.get(name) for name in (*names, "folder")), machine_key(row))
