"""What the witnessed updates told becomes columns and update rows of one rank; unknown where they failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.rank.columns import update_row
from bench.rank.memory_columns import divide_peak
from bench.rank.witnessed import WitnessedUpdates
from bench.rank.workbench import Workbench

NOT_WITNESSED = "not_witnessed"
"""The flag of a launch whose witnessed updates failed, or have not run yet."""


def witnessed_columns(bench: Workbench, witnessed: WitnessedUpdates, columns: Mapping[str, Any]) -> dict[str, Any]:
    """State what the witness told; all ranks call it together [one rank].

    Args:
        bench: What ran.
        witnessed: What was witnessed.
        columns: What this rank measured before.
    """
    flags = [flag for flag in columns["flags"] if flag != NOT_WITNESSED]
    if not witnessed.updates:
        return {"witnessed_updates": 0, **_sync_columns(bench, witnessed), "flags": flags}
    return {
        "witnessed_updates": len(witnessed.updates),
        "host_reads_per_update": sum(update.host_reads for update in witnessed.updates) / len(witnessed.updates),
        "attention_backends": sorted({name for update in witnessed.updates for name in update.attention_backends})
        or None,
        **divide_peak(columns, witnessed.updates[-1]),
        **_sync_columns(bench, witnessed),
        "flags": flags,
    }


def witnessed_rows(witnessed: WitnessedUpdates, unit: str = "token") -> list[dict[str, Any]]:
    """State the witnessed updates, one row each [one rank].

    Their losses are null: their numbers depend on the length of the launch, and one has rows of its own.
    """
    told = [update.live_peak_bytes for update in witnessed.updates] or [None] * len(witnessed.parts)
    return [
        update_row(part, sample, None, _peak(part.peaks.allocated_bytes, seen), unit)
        for part, seen in zip(witnessed.parts, told, strict=True)
        for sample in part.samples
    ]


def _peak(counted: int | None, witnessed: int | None) -> int | None:
    return witnessed if counted is None else counted


def _sync_columns(bench: Workbench, witnessed: WitnessedUpdates) -> dict[str, Any]:
    """State how often gradients were synchronised, from the reductions counted; all ranks call it together."""
    if bench.ranks.world_size == 1:
        return {"gradient_sync_rounds_per_update": 0.0, "gradient_sync_buckets": None}
    counted = witnessed.reductions
    buckets = int(bench.ranks.max([counted.most_per_micro_step])[0])
    rounds = sum(counted.per_update) / len(counted.per_update) / buckets if buckets else 0.0
    return {"gradient_sync_rounds_per_update": rounds, "gradient_sync_buckets": buckets}
