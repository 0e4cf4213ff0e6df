"""What a stand-in GPU cannot know is null in its rows: only bytes, counts and errors are those of a real GPU.

One place, on the way of every launch into its row; `docs/standin.md` says what the stand-in shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.record.columns import COLUMNS

STANDIN = "standin"
"""What `memory_method` says of such a row."""

_DURATIONS = ("second", "token/second", "unit/second", "FLOP/second")
_SHARES_OF_TIME = (
    *("half_width", "lag1", "spread", "data_wait_share", "time_method", "stop_reason"),
    *("mfu", "hfu", "mode_peak_share", "matmul_ceiling_share", "micro_step_rank_spread"),
    *("others_cpu_share", "steal_share", "cpu_wait_share", "cpu_throttled_share"),
)
_OF_THE_HOST = ("launch_s",)
_NO_SENSOR = ("foreign_processes", "telemetry_problem")
SPEED_AND_SENSORS = frozenset(
    column.name
    for column in COLUMNS
    if column.name in _SHARES_OF_TIME
    or (column.unit in _DURATIONS and column.name not in _OF_THE_HOST)
    or (column.group == "energy and health" and column.name not in _NO_SENSOR)
)
"""Columns of the timed part's times, of what is divided by them, and of the GPU's sensors."""
VALUES = frozenset(column.name for column in COLUMNS if column.group == "quality")
"""Columns of what kernels compute."""
FLAGS = frozenset(
    {
        *("not_steady", "precision_not_met", "few_updates", "drift", "spiky", "clock_mismatch", "straggler"),
        *("data_bound", "law_not_met", "throttled_hw", "throttled_thermal", "clock_drop", "clock_low", "hot_start"),
        *("ecc_error", "nvml_missing", "whole_window_unseen", "host_busy", "above_peak"),
    }
)
"""Doubts about time and sensors."""


def is_bytes_only(row: Mapping[str, Any]) -> bool:
    """Tell whether a row was measured on a stand-in GPU."""
    return row.get("memory_method") == STANDIN


def bytes_only(row: Mapping[str, Any], has_values: bool) -> dict[str, Any]:
    """Leave of a row, derived columns included, what is true of a real GPU too.

    Args:
        row: Of a launch on a stand-in GPU.
        has_values: Whether a test computed what kernels would have: then losses stay.
    """
    unknown = SPEED_AND_SENSORS if has_values else SPEED_AND_SENSORS | VALUES
    return {
        **{name: None if name in unknown else value for name, value in row.items()},
        "memory_method": STANDIN,
        "flags": [flag for flag in row.get("flags") or [] if flag not in FLAGS],
    }


def updates_of_bytes_only(updates: Sequence[Mapping[str, Any]], has_values: bool) -> list[dict[str, Any]]:
    """Leave the same of the rows of updates."""
    unknown = ("seconds",) if has_values else ("seconds", "train_loss", "grad_norm")
    return [{name: None if name in unknown else value for name, value in update.items()} for update in updates]
