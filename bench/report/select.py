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
from bench.report.where import parse_condition

if TYPE_CHECKING:  # pandas takes half a second to import, which only those who ask for a frame should wait
    import pandas as pd


def load_results(paths: Sequence[Path], where: Sequence[str] = ()) -> pd.DataFrame:
    """Load results as a data frame in base units; integers and bools are nullable types, never floats.

    Args:
        paths: Results folders or parquet files; their rows follow each other.
        where: Conditions `COLUMN OP VALUE`, all of which a row must meet; == != < <= > >=, and null for missing.

    Raises:
        BenchError: A path holds no results, or a condition cannot be understood.
        StorageError: A file is damaged, foreign or of a newer version; names it.
    """
    frame: pd.DataFrame = select_table(paths, where).to_pandas()
    return frame


def select_table(paths: Sequence[Path], where: Sequence[str] = ()) -> pa.Table:
    """Load results as an Arrow table of the declared schema; arguments and errors as `load_results`."""
    conditions = [parse_condition(text) for text in where]
    if not paths:
        raise BenchError("no results named: give a results folder or a parquet file.")
    table = pa.concat_tables([_read(Path(path)) for path in paths])
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
    if (folder / UPDATES_NAME).exists():
        return read_update_table(folder / UPDATES_NAME)
    return collect_parts(folder, _finished(folder))[1] if (folder / "journal.jsonl").exists() else None


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
        return read_table(path)
    if (path / RESULTS_NAME).exists():
        return read_table(path / RESULTS_NAME)
    if (path / "journal.jsonl").exists():
        # A sweep that has not ended yet: the journal knows what is finished.
        return collect_parts(path, _finished(path))[0]
    raise BenchError(f"{path}: holds neither {RESULTS_NAME} nor journal.jsonl, so it is not a results folder.")


def _finished(folder: Path) -> list[PartInfo]:
    launches = [record for record in read_journal(folder / "journal.jsonl") if record.get("kind") == "launch"]
    return [PartInfo.from_journal(record) for record in launches if record.get("part")]


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
