"""Read results for showing: folders or parquet files, and the rows that meet every condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench.errors import BenchError
from bench.record.journal import read_journal
from bench.record.store import RESULTS_NAME, UPDATES_NAME, PartInfo, collect_parts, read_table, read_update_table
from bench.report.named_results import SOURCE, names_of, placed
from bench.report.not_results import JOURNAL_NAME, why_no_results_file, why_no_results_folder
from bench.report.where import parse_condition

if TYPE_CHECKING:  # pandas takes half a second to import, which only those who ask for a frame should wait
    import pandas as pd

_KEY = ("trial_id", "round", "attempt")


def load_results(paths: Sequence[Path], where: Sequence[str] = (), pool: bool = False) -> pd.DataFrame:
    """Load results as a data frame in base units; integers and bools are nullable types, never floats.

    Args:
        paths: Results folders or parquet files; their rows follow each other, and `folder` names that of each.
        where: Conditions `COLUMN OP VALUE`, all of which a row must meet; == != < <= > >=, and null for missing.
        pool: Make one set of rounds of all results, under one name; a launch that is in several counts once.

    Raises:
        BenchError: A path holds no results, or is named twice; two that are not pooled hold the same launch; or a
            condition cannot be understood.
        StorageError: A file is damaged, foreign or of a newer version; names it.
    """
    frame: pd.DataFrame = select_table(paths, where, pool).drop_columns([SOURCE]).to_pandas()
    return frame


def select_table(paths: Sequence[Path], where: Sequence[str] = (), pool: bool = False) -> pa.Table:
    """Load results as an Arrow table of the declared schema; arguments and errors as `load_results`.

    Two columns are added: `source`, the position of the path that a row was read from, and `folder`, its name.
    """
    conditions = [parse_condition(text) for text in where]
    if not paths:
        raise BenchError("no results named: give a results folder or a parquet file.")
    paths = [Path(path) for path in paths]
    names = names_of(paths)
    table = placed([_read(path) for path in paths], names, pool)
    for condition in conditions:
        mask = condition.mask(table.column(condition.column).to_pylist())
        table = table.filter(_bool_array(mask))
    return table


def select_updates(path: Path) -> pa.Table | None:
    """Load the updates that belong to a results folder or file; None where there are none, as beside a copied file.

    Raises:
        StorageError: The file is damaged, foreign or of a newer version; names it.
    """
    folder = path if path.is_dir() else path.parent
    if path.is_file() and path.name != RESULTS_NAME:
        return None
    launches = None if path.is_file() else _finished(folder)
    if (folder / UPDATES_NAME).exists() and (launches is None or _current_table(folder, launches) is not None):
        return read_update_table(folder / UPDATES_NAME)
    return None if launches is None else collect_parts(folder, map(PartInfo.from_journal, launches))[1]


def rows_of(frame: pa.Table | pd.DataFrame) -> list[dict[str, Any]]:
    """Give the rows of a table or frame as plain Python values, None for missing."""
    if isinstance(frame, pa.Table):
        rows: list[dict[str, Any]] = frame.to_pylist()
        return rows
    return [{str(name): _plain(value) for name, value in row.items()} for row in frame.to_dict("records")]


def group_by_outcome(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Count the rows of each outcome, ok first, the others as they come."""
    counts = {"ok": 0}
    for row in rows:
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + 1
    return {outcome: count for outcome, count in counts.items() if count}


def _read(path: Path) -> pa.Table:
    if not path.exists():
        raise BenchError(f"{path}: no such file or folder. RESULTS is a results folder or a parquet file.")
    if path.is_file():
        if why := why_no_results_file(path):
            raise BenchError(f"{path}: {why}")
        return read_table(path)
    launches = _finished(path)
    table = _current_table(path, launches)
    if table is not None:
        return table
    if launches is not None:
        return collect_parts(path, map(PartInfo.from_journal, launches))[0]
    raise BenchError(f"{path}: {why_no_results_folder(path)}")


def _current_table(folder: Path, launches: Sequence[Mapping[str, Any]] | None) -> pa.Table | None:
    """Read a folder's table; None where there is none, or the journal knows of other launches.

    That is so while a sweep is extended, or after it was killed: the parts then say more than the table.
    """
    if not (folder / RESULTS_NAME).exists():
        return None
    table = read_table(folder / RESULTS_NAME)
    if launches is None:
        return table
    in_table = zip(*(table.column(name).to_pylist() for name in _KEY), strict=True)
    last = {tuple(record[name] for name in _KEY[:2]): tuple(record[name] for name in _KEY) for record in launches}
    return table if {key for key in in_table if None not in key} == set(last.values()) else None


def _finished(folder: Path) -> list[Mapping[str, Any]] | None:
    """List the launches that the journal vouches for; None without a journal."""
    if not (folder / JOURNAL_NAME).exists():
        return None
    records = read_journal(folder / JOURNAL_NAME)
    dropped = {record["part"] for record in records if record["kind"] == "damaged"}
    return [record for record in records if record["kind"] == "launch" and record["part"] not in dropped]


def _bool_array(mask: Sequence[bool]) -> pa.Array:
    """Make an Arrow array without pa.array, which imports pandas."""
    bits = np.packbits(np.array(mask, dtype=bool), bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits.tobytes())])


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    # pandas' NA, nan and NaT are the values that do not equal themselves, or refuse to say.
    try:
        return value if bool(value == value) else None
    except TypeError:
        return None
