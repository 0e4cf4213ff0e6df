"""Read launches for a decision: only the columns that decide, each launch once, and where it was read."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.errors import BenchError
from bench.record.columns import COLUMN_BY_NAME, COLUMNS
from bench.report.launch_rows import LaunchRows, Row, column_of, rows_at
from bench.report.select import rows_of, select_table
from bench.report.where import nothing_meets

if TYPE_CHECKING:
    import pandas as pd

# A column that this version does not declare yet is missing in every row.
_DECIDING = (
    *(column.name for column in COLUMNS if column.rule == "config"),
    *("sweep", "trial_id", "round", "attempt", "outcome", "reason", "flags", "started_utc", "measurement_version"),
    *("corpus_hash", "parameters_unique", "proof", "proof_error"),
    *("valid_tokens_per_s", "valid_tokens_per_update", "updates_attempted", "updates_applied", "updates_skipped"),
    *(
        "timed_s",
        "time_method",
        "micro_step_s",
        "update_step_s",
        "update_s_p05",
        "update_s_p95",
        "threads_per_rank",
        "final_train_loss",
        "joules_per_valid_token",
    ),
    *("peak_allocated_bytes", "peak_reserved_bytes", "outside_torch_bytes", "outside_torch_at_most_bytes"),
    *("host_peak_rss_bytes", "alloc_retries", "allocator_settings"),
    *("sw_power_cap_share", "launch_s"),
    *("device_capacity_bytes", "memory_method", "hostname", "cpu_model", "cpu_count", "gpu_name", "driver_version"),
    *("cuda_version", "cudnn_version", "nccl_version", "torch_version", "python_version", "bench_version"),
)
_NAMES = tuple(name for name in _DECIDING if name in COLUMN_BY_NAME)
_SAME_LAUNCH = ("sweep", "trial_id", "round", "attempt", "started_utc", "hostname", "timed_s")


def load_launches(paths: Sequence[Path], where: Sequence[str] = ()) -> Sequence[Row]:
    """Load the rows of every path; `source` of a row is the position of its path, from 0.

    A launch that is in several of them, as in a file that was copied, counts once.

    Raises:
        BenchError: A path holds no results or no rows, or a condition cannot be understood.
        StorageError: A file is damaged, foreign or of a newer version.
    """
    tables = [select_table([path], where) for path in paths]
    require_rows(tables, paths, where)
    source = [place for place, table in enumerate(tables) for _ in range(len(table))]
    with paused_collector():
        rows = _rows(pa.concat_tables(tables), source)
        return _each_once(rows) if len(paths) > 1 else rows


def require_rows(tables: Sequence[pa.Table], paths: Sequence[Path], where: Sequence[str] = ()) -> None:
    """Refuse results that hold no row at all, or none that meets the conditions by which the tables were selected.

    Raises:
        BenchError: There is no row; says which of the two it is, and which values there are.
    """
    if not any(map(len, tables)):
        every = select_table(paths) if where else None
        if every is not None and len(every):
            raise nothing_meets(where, lambda column: every.column(column).to_pylist(), "row", "--where")
        held = "holds" if len(paths) == 1 else "hold"
        raise BenchError(f"{', '.join(map(str, paths))} {held} no row: no launch has ended yet. Run the sweep first.")


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


def launches_of(frame: pa.Table | pd.DataFrame, source: int = 0) -> Sequence[Row]:
    """Give the rows of one table with the columns that decide, as plain values, each launch once."""
    if isinstance(frame, pa.Table):
        return _each_once(_rows(frame, [source] * len(frame)))
    rows = rows_of(frame[[name for name in _NAMES if name in frame]])
    return _each_once([{**row, "source": source} for row in rows])


def _rows(table: pa.Table, source: list[int]) -> LaunchRows:
    return LaunchRows.of_table(table, [name for name in _NAMES if name in table.column_names], {"source": source})


def _each_once(rows: Sequence[Row]) -> Sequence[Row]:
    """Drop a launch that was read twice, as when a file is named twice or was copied into another."""
    keys = zip(*(column_of(rows, name) for name in _SAME_LAUNCH), strict=True)
    first: dict[tuple[object, ...], int] = {}
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    return rows if len(first) == len(rows) else rows_at(rows, list(first.values()))
