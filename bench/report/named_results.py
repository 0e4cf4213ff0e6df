"""Tell the given results apart: the name of each, and a refusal of what would count twice.

A result is a results folder, or a parquet file. Rows of several stand side by side, each under the name of its own;
pooled, they are one set of rounds under one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.errors import BenchError
from bench.record.column_types import Column
from bench.record.columns import COLUMN_BY_NAME
from bench.record.store import RESULTS_NAME
from bench.report.launch_rows import Row
from bench.units import counted, listed

FOLDER = Column(
    "folder",
    "string",
    None,
    "identity",
    "launch",
    "Results folder or file that the row was read from, the end of its path that tells it apart; of all, where pooled.",
)
"""A column that commands add to what they read: no file holds it."""
SOURCE = "source"
"""Column of the position of the path that a row was read from, from 0; for the commands themselves, never shown."""
SHOWN_BY_NAME: dict[str, Column] = {**COLUMN_BY_NAME, FOLDER.name: FOLDER}
"""Every column that can be shown and selected by."""

_SAME_LAUNCH = ("sweep", "trial_id", "round", "attempt", "started_utc", "hostname", "timed_s")
_MOST_POOLED = 4
"""Results that the name of a pool tells."""


def names_of(paths: Sequence[Path]) -> list[str]:
    """Name each result by the end of its path, as long as it takes to tell all of them apart.

    Raises:
        BenchError: Two paths are one result: the same folder, a link to it, or its own table.
    """
    _refuse_same(paths)
    parts = [folder_of(path).absolute().parts for path in paths]
    longest = max(map(len, parts), default=1)
    for length in range(1, longest + 1):
        names = [Path(*part[-length:]).as_posix() for part in parts]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def placed(tables: Sequence[pa.Table], names: Sequence[str], pool: bool) -> pa.Table:
    """Join tables into one whose rows say where they are from; pooled, a launch that is in several counts once.

    Raises:
        BenchError: They are not to be pooled, and one launch is in two of them.
    """
    if not pool:
        _refuse_shared(tables, names)
    label = listed(names, _MOST_POOLED, " + ") if pool else None
    told = [
        table.append_column(SOURCE, _numbers(place, len(table))).append_column(
            FOLDER.name, _texts(label or name, len(table))
        )
        for place, (table, name) in enumerate(zip(tables, names, strict=True))
    ]
    joined = pa.concat_tables(told)
    return _each_once(joined) if pool and len(tables) > 1 else joined


def _numbers(value: int, count: int) -> pa.Array:
    """Repeat a number, without pa.repeat, which imports pandas."""
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(np.full(count, value, np.int64).tobytes())])


def _texts(value: str, count: int) -> pa.Array:
    """Repeat a text, without pa.repeat."""
    letters = value.encode()
    ends = np.arange(count + 1, dtype=np.int32) * len(letters)
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(ends.astype(np.int32).tobytes()), pa.py_buffer(letters * count)]
    )


def note_on_results(rows: Sequence[Row]) -> str | None:
    """Say of a figure that holds several results what lies between them; None for one."""
    names = list(dict.fromkeys(row["folder"] for row in rows if row.get("folder") is not None))
    if len(names) < 2:
        return None
    return (
        f"{len(names)} results in one figure, {listed(names, _MOST_POOLED)}: measured at different times, so what the "
        f"machine did in between is in their differences. bench compare tells which are real."
    )


def folder_of(path: Path) -> Path:
    """Give the folder whose table a path is; any other path stands for itself."""
    return path.parent if path.name == RESULTS_NAME and path.is_file() else path


def _refuse_same(paths: Sequence[Path]) -> None:
    seen: dict[tuple[int, int], Path] = {}
    for path in paths:
        if not path.exists():
            continue  # whoever reads it says so
        found = folder_of(path.resolve()).stat()
        first = seen.setdefault((found.st_dev, found.st_ino), path)
        if first is not path:
            one = f"{path} is named twice" if str(first) == str(path) else f"{first} and {path} are one result"
            raise BenchError(f"{one}: its launches would count twice. Name it once, or another result beside it.")


def _refuse_shared(tables: Sequence[pa.Table], names: Sequence[str]) -> None:
    """Refuse a launch that is in two results, as in a folder and a copy of it."""
    owners: dict[tuple[object, ...], str] = {}
    for table, name in zip(tables if len(tables) > 1 else (), names, strict=False):
        keys = [key for key in _keys(table) if key[_SAME_LAUNCH.index("started_utc")] is not None]
        both = [key for key in keys if owners.get(key, name) != name]
        if both:
            raise BenchError(
                f"{counted(len(both), 'launch')} of {name} {'is' if len(both) == 1 else 'are'} in {owners[both[0]]} as "
                f"well, as in a copy. Name one of the two, or count each launch once with --pool."
            )
        owners.update((key, name) for key in keys)


def _each_once(table: pa.Table) -> pa.Table:
    first: dict[tuple[object, ...], int] = {}
    for place, key in enumerate(_keys(table)):
        first.setdefault(key, place)
    return table if len(first) == len(table) else table.take(list(first.values()))


def _keys(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in _SAME_LAUNCH), strict=True))
