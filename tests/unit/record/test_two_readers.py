"""Goal M10: what we read from a store is what any other reader of parquet reads, value for value."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.record.store import RESULTS_NAME, UPDATES_NAME, read_table, read_update_table, rebuild_tables, write_part
from bench.report.select import load_results
from tests.strategies import numbered, rows, update_rows

BIG = 2**53 + 1
"""The first integer that a float cannot hold."""


def write(folder: Path, stored: Sequence[Mapping[str, Any]], updates: Sequence[Mapping[str, Any]]) -> None:
    """Store rows as a sweep does, the updates with the first of them."""
    parts = [write_part(folder, row, updates if place == 0 else []) for place, row in enumerate(numbered(stored))]
    rebuild_tables(folder, parts)


def by_pandas(path: Path) -> list[dict[str, Any]]:
    """Read a file as a notebook would, without turning integers with gaps into floats."""
    frame = pd.read_parquet(path, dtype_backend="pyarrow")
    return [
        {name: _plain(frame[name].iloc[place]) for name in frame.columns}  # item by item, so that no row has one type
        for place in range(len(frame))
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple) or hasattr(value, "tolist"):
        return [None if item is pd.NA else item for item in (value.tolist() if hasattr(value, "tolist") else value)]
    return None if value is pd.NA else value


@settings(max_examples=10)
@given(stored=st.lists(rows(), min_size=1, max_size=3), updates=st.lists(update_rows(), max_size=3))
def test_readers_agree_on_every_value(stored: list[dict[str, Any]], updates: list[dict[str, Any]]) -> None:
    """Ours, pyarrow alone and pandas: nulls, not-a-numbers, large integers, lists and any text."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, stored, updates)
        for file, ours in ((RESULTS_NAME, read_table), (UPDATES_NAME, read_update_table)):
            mine = ours(folder / file).to_pylist()
            assert repr(mine) == repr(pq.read_table(folder / file).to_pylist())
            assert repr(mine) == repr(by_pandas(folder / file))


def test_an_integer_beyond_floats_survives_a_gap_in_its_column(tmp_path: Path) -> None:
    """In every reader, and in the frame that tables and plots are made from."""
    write(tmp_path, [ok(peak_allocated_bytes=BIG), ok(peak_allocated_bytes=None)], [])
    file = tmp_path / RESULTS_NAME
    expected = [BIG, None]
    assert read_table(file).column("peak_allocated_bytes").to_pylist() == expected
    assert pq.read_table(file).column("peak_allocated_bytes").to_pylist() == expected
    assert [row["peak_allocated_bytes"] for row in by_pandas(file)] == expected
    loaded = load_results([tmp_path])["peak_allocated_bytes"]
    assert (loaded[0], bool(loaded.isna()[1])) == (BIG, True)


def ok(**changes: Any) -> dict[str, Any]:
    """Build a row with a key."""
    return {"trial_id": "0" * 12, "round": 0, "attempt": 0, "outcome": "ok", "flags": [], **changes}
