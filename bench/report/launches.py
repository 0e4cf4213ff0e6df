"""Read launches for a decision: each launch once, and where it was read."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from bench.errors import BenchError
from bench.report.launch_rows import LaunchRows, Row, column_of, rows_at
from bench.report.select import select_table
from bench.report.where import nothing_meets

_SAME_LAUNCH = ("folder", "sweep", "trial_id", "round", "attempt", "started_utc", "hostname", "timed_s")


def load_launches(paths: Sequence[Path], where: Sequence[str] = (), pool: bool = False) -> Sequence[Row]:
    """Load the rows of every path; `source` of a row is the position of its path, from 0, and `folder` its name.

    Args:
        paths: Results folders or parquet files.
        where: Conditions `COLUMN OP VALUE`, all of which a row must meet.
        pool: Make one set of rounds of all results; a launch that is in several counts once.

    Raises:
        BenchError: A path holds no results or no rows, or is named twice; two that are not pooled hold the same launch;
            or a condition cannot be understood.
        StorageError: A file is damaged, foreign or of a newer version.
    """
    table = select_table(paths, where, pool)
    require_rows([table], paths, where)
    with paused_collector():
        return LaunchRows.of_table(table)


def require_rows(tables: Sequence[pa.Table], paths: Sequence[Path], where: Sequence[str] = ()) -> None:
    """Refuse results that hold no row at all, or none that meets the conditions by which the tables were selected.

    Raises:
        BenchError: There is no row; says which of the two it is, and which values there are.
    """
    if not any(map(len, tables)):
        every = select_table(paths, pool=True) if where else None
        if every is not None and len(every):
            raise nothing_meets(where, lambda column: every.column(column).to_pylist(), "row", "--where")
        raise BenchError(f"{', '.join(map(str, paths))}: no rows, as no launch has ended yet. Run the sweep first.")


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


def launches_of(table: pa.Table) -> Sequence[Row]:
    """Give the rows of one table as plain values, each launch once."""
    return _each_once(LaunchRows.of_table(table))


def _each_once(rows: Sequence[Row]) -> Sequence[Row]:
    """Drop a launch that is in one result twice, as where a file was copied into another."""
    keys = zip(*(column_of(rows, name) for name in _SAME_LAUNCH), strict=True)
    first: dict[tuple[object, ...], int] = {}
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    return rows if len(first) == len(rows) else rows_at(rows, list(first.values()))
