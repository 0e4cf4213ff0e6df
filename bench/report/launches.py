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
        rows = LaunchRows.of_table(pa.concat_tables(tables), source=source)
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
    return _each_once(LaunchRows.of_table(table, source=[0] * len(table)))


def _each_once(rows: Sequence[Row]) -> Sequence[Row]:
    """Drop a launch that was read twice, as when a file is named twice or was copied into another."""
    keys = zip(*(column_of(rows, name) for name in _SAME_LAUNCH), strict=True)
    first: dict[tuple[object, ...], int] = {}
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    return rows if len(first) == len(rows) else rows_at(rows, list(first.values()))
