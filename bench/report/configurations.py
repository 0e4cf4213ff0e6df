"""Gather launches by configuration: what was asked, how fast it was in each round, how much memory it took."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from bench.report.machines import machine_differences, machine_key
from bench.report.points import Row, extra_axes, name_of
from bench.report.select import group_by_outcome

Block = tuple[Any, ...]
"""One round of one sweep on one host: launches in it were made side by side."""

_NOT_A_RESULT = ("interrupted",)
"""Outcomes that say nothing about the configuration."""


@dataclass(frozen=True)
class Configuration:
    """Hold one configuration on one kind of machine with all its launches."""

    row: Row
    """Its first launch, ok if there is one: settings and machine are those of all."""
    launches: tuple[Row, ...]
    """Every launch, and the row of a skipped or pruned trial."""
    extra_axes: tuple[str, ...]
    """Columns that tell configurations apart besides AMP mode, micro-batch and accumulation steps."""
    speeds: Mapping[Block, float]
    """valid_tokens_per_s by block, of launches that are ok [tokens/s, all ranks]."""
    peak_bytes: int | None
    """Largest peak_allocated_bytes of its launches, worst rank; null when none reported one [bytes]."""
    fault: str | None
    """Why it is not to be relied on: an outcome that is not ok, with its reason; null when every launch was ok."""

    @functools.cached_property
    def name(self) -> str:
        """Give AMP mode, micro-batch x accumulation steps, and whatever else tells it apart: bf16 8 x 4, 2 ranks."""
        return name_of(self.row, self.extra_axes)

    @functools.cached_property
    def speed(self) -> float | None:
        """Geometric mean of the speeds over rounds [tokens/s, all ranks]; null without any."""
        logs = [math.log(speed) for speed in self.speeds.values()]
        return math.exp(sum(logs) / len(logs)) if logs else None

    @property
    def was_run(self) -> bool:
        """Whether it was launched at all: not skipped, not pruned."""
        return any(launch["outcome"] not in ("skipped", "pruned") for launch in self.launches)


def configurations_of(rows: Sequence[Row]) -> list[Configuration]:
    """Group launches into configurations, in order of appearance.

    Launches of one trial id on one kind of machine are one configuration, whichever sweep or file they come from;
    on another kind of machine, or under other software, they are another one.
    """
    known: dict[Any, dict[Any, Row]] = {}
    machines = [machine_key(row) for row in rows]
    for row, machine in zip(rows, machines, strict=True):
        if row["outcome"] == "ok":
            known.setdefault(row["trial_id"], {}).setdefault(machine, row)
    groups: dict[tuple[Any, Any], list[Row]] = {}
    for row, machine in zip(rows, machines, strict=True):
        # A launch that failed early does not know its machine: it belongs where nothing it knows is different.
        like = machine if row["outcome"] == "ok" else _like_machine(row, machine, known.get(row["trial_id"], {}))
        groups.setdefault((row["trial_id"], like), []).append(row)
    extra = tuple(extra_axes([group[0] for group in groups.values()]))
    return [_configuration(group, extra) for group in groups.values()]


def _like_machine(row: Row, machine: Any, known: Mapping[Any, Row]) -> Any:
    return next((other for other, of in known.items() if not machine_differences(row, of)), machine)


def _configuration(launches: Sequence[Row], extra: tuple[str, ...]) -> Configuration:
    ok = [launch for launch in launches if launch["outcome"] == "ok"]
    peaks = [peak for launch in ok if (peak := launch.get("peak_allocated_bytes")) is not None and peak > 0]
    return Configuration(
        row=ok[0] if ok else launches[0],
        launches=tuple(launches),
        extra_axes=extra,
        speeds={_block(launch): float(speed) for launch in ok if _is_speed(speed := launch.get("valid_tokens_per_s"))},
        peak_bytes=max(peaks, default=None),
        fault=None if len(ok) == len(launches) else _fault(launches),
    )


def _is_speed(value: Any) -> TypeGuard[float]:
    return value is not None and math.isfinite(value) and value > 0


def _block(launch: Row) -> Block:
    return (launch.get("source"), launch.get("sweep"), launch.get("hostname"), launch.get("round"))


def _fault(launches: Sequence[Row]) -> str | None:
    """Give the first bad outcome; one launch out of memory in three means that a long run would meet it too."""
    counted = [launch for launch in launches if launch["outcome"] not in _NOT_A_RESULT]
    bad = [launch for launch in counted if launch["outcome"] != "ok"]
    if not bad:
        return None if counted else "interrupted before it was measured"
    outcomes = ", ".join(f"{outcome}" for outcome in group_by_outcome(bad))
    share = f" in {len(bad)} of {len(counted)} launches" if len(counted) > len(bad) else ""
    reason = bad[0].get("reason")
    return f"{outcomes}{share}" + (f": {reason}" if reason else "")
