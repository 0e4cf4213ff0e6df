"""Read launches for a decision: only the columns that decide, each launch once, and where it was read."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.record.columns import COLUMN_BY_NAME, COLUMNS
from bench.report.points import Row
from bench.report.select import rows_of, select_table

if TYPE_CHECKING:
    import pandas as pd

# A column that this version does not declare yet is missing in every row.
_DECIDING = (
    *(column.name for column in COLUMNS if column.rule == "config"),
    *("sweep", "trial_id", "round", "attempt", "outcome", "reason", "flags", "started_utc", "measurement_version"),
    *("corpus_hash", "parameters_unique", "proof", "proof_error"),
    *("valid_tokens_per_s", "valid_tokens_per_update", "updates_attempted", "updates_applied", "updates_skipped"),
    *("timed_s", "update_s_p05", "update_s_p95", "threads_per_rank", "final_train_loss", "joules_per_valid_token"),
    *("peak_allocated_bytes", "peak_reserved_bytes", "outside_torch_bytes", "host_peak_rss_bytes", "alloc_retries"),
    *("device_capacity_bytes", "memory_method", "hostname", "cpu_model", "cpu_count", "gpu_name", "driver_version"),
    *("cuda_version", "cudnn_version", "nccl_version", "torch_version"),
)
_NAMES = tuple(name for name in _DECIDING if name in COLUMN_BY_NAME)
_SAME_LAUNCH = ("sweep", "trial_id", "round", "attempt", "started_utc", "hostname", "timed_s")


def load_launches(paths: Sequence[Path], where: Sequence[str] = ()) -> list[Row]:
    """Load the rows of every path; `source` of a row is the position of its path, from 0.

    Raises:
        BenchError: A path holds no results, or a condition cannot be understood.
        StorageError: A file is damaged, foreign or of a newer version.
    """
    rows: list[Row] = []
    with paused_collector():
        for source, path in enumerate(paths):
            rows += launches_of(select_table([path], where), source)
    return _each_once(rows) if len(paths) > 1 else rows


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the search for garbage cycles: among 100,000 new rows it takes a third of the time and finds none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def launches_of(frame: pa.Table | pd.DataFrame, source: int = 0) -> list[Row]:
    """Give the rows of one table with the columns that decide, as plain values."""
    if isinstance(frame, pa.Table):
        # By columns: five times as fast as pyarrow's rows, which matters from 100,000 rows on.
        names = [name for name in _NAMES if name in frame.column_names]
        columns = [[source] * len(frame), *(frame.column(name).to_pylist() for name in names)]
        names = ["source", *names]
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    rows = rows_of(frame[[name for name in _NAMES if name in frame]])
    return _each_once([{**row, "source": source} for row in rows])


def _each_once(rows: Sequence[Row]) -> list[Row]:
    """Drop a launch that was read twice, as when a file is named twice or was copied into another."""
    return list({tuple(row.get(name) for name in _SAME_LAUNCH): row for row in reversed(rows)}.values())[::-1]
