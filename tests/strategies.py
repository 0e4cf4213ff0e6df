"""Hypothesis strategies and builders for records: rows and updates as the driver stores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from bench.record.column_types import Column
from bench.record.columns import COLUMNS
from bench.record.columns.updates import UPDATE_COLUMNS
from bench.record.derive import derive
from bench.record.store import PartInfo, rebuild_tables, write_part

INT64 = st.integers(-(2**63), 2**63 - 1)
# Surrogates cannot be written as UTF-8, which parquet and JSON both are.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "int64": INT64,
    "float64": st.floats(),
    "bool": st.booleans(),
}


def values_of(column: Column) -> st.SearchStrategy[Any]:
    """Draw null or any value that fits the column."""
    if column.kind.startswith("list<"):
        inner = _SCALARS[column.kind.removeprefix("list<").removesuffix(">")]
        return st.none() | st.lists(st.none() | inner, max_size=4)
    return st.none() | _SCALARS[column.kind]


def rows(columns: Sequence[Column] = COLUMNS) -> st.SearchStrategy[dict[str, Any]]:
    """Draw a row with some of the columns, keyed so that it can be a part."""
    optional = {column.name: values_of(column) for column in columns if column.name != "schema_version"}
    key = {
        "trial_id": st.from_regex(r"[0-9a-f]{12}", fullmatch=True),
        "round": st.integers(0, 9),
        "attempt": st.integers(0, 3),
    }
    return st.fixed_dictionaries(key, optional={name: of for name, of in optional.items() if name not in key})


def update_rows() -> st.SearchStrategy[dict[str, Any]]:
    """Draw an update row with some of the columns."""
    keyed = ("trial_id", "round", "attempt")
    return st.fixed_dictionaries(
        {}, optional={column.name: values_of(column) for column in UPDATE_COLUMNS if column.name not in keyed}
    )


def ok_row(**changes: Any) -> dict[str, Any]:
    """Build a plausible row of a finished launch, derived columns filled, with some values changed."""
    row: dict[str, Any] = {
        "sweep": "quickstart",
        "trial_id": "0123456789ab",
        "round": 0,
        "attempt": 0,
        "order": 0,
        "outcome": "ok",
        "flags": [],
        "started_utc": "2026-11-29T12:00:00Z",
        "device": "cpu",
        "model": "gpt2-mini",
        "model_kind": "gpt2",
        "param_dtype": "fp32",
        "amp_mode": "fp32",
        "world_size": 1,
        "micro_batch_size": 8,
        "accumulation_steps": 8,
        "global_batch_size": 64,
        "seq_len": 128,
        "data_source": "corpus stdlib",
        "rows": "packed",
        "optimizer": "adamw",
        "lr": 3e-4,
        "activation_checkpointing": False,
        "valid_tokens": 163_840,
        "token_slots": 163_840,
        "updates_attempted": 20,
        "updates_applied": 20,
        "timed_s": 40.0,
        "time_method": "host_clock",
        "peak_allocated_bytes": 300 * 1024**2,
        "memory_method": "live_storages",
        "final_train_loss": 4.18734,
        "hostname": "laptop",
        "cpu_model": "Example CPU @ 2.0 GHz",
        "cpu_count": 2,
        "torch_version": "2.13.0",
    }
    row.update(changes)
    return derive(row, [])


def failed_row(outcome: str = "oom", reason: str | None = "out of memory", **changes: Any) -> dict[str, Any]:
    """Build a plausible row of a launch that was not ok."""
    measured = ("valid_tokens", "token_slots", "updates_attempted", "updates_applied", "timed_s", "final_train_loss")
    absent: dict[str, Any] = dict.fromkeys(measured)
    return ok_row(outcome=outcome, reason=reason, **{**absent, "peak_allocated_bytes": None, **changes})


def numbered(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Give each row a trial id of its own."""
    return [{**row, "trial_id": f"{index:012x}"} for index, row in enumerate(rows)]


def write_results(folder: Path, rows: Sequence[Mapping[str, Any]]) -> list[PartInfo]:
    """Store rows as a sweep would, each with an id of its own, and rebuild the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    infos = [write_part(folder, row, []) for row in numbered(rows)]
    rebuild_tables(folder, infos)
    return infos


def quickstart_rows() -> list[dict[str, Any]]:
    """Build a small sweep: two modes, four cuts, one that ran out of memory and one skipped."""
    cuts = [(1, 64), (4, 16), (16, 4), (64, 1)]
    rows = []
    for mode, speed in (("fp32", 1.0), ("bf16", 1.75)):
        for micro, steps in cuts:
            seconds = 163_840 / (4_100 * speed * (1 + 0.12 * micro**0.5))
            peak = int((70 + 7.4 * micro / speed) * 1024**2)
            cut = {"amp_mode": mode, "micro_batch_size": micro, "accumulation_steps": steps}
            rows.append(ok_row(timed_s=seconds, peak_allocated_bytes=peak, **cut))
    oom = "Tried to allocate 512.00 MiB in the forward pass of micro-batch 0, update 1"
    rows[3] = failed_row("oom", oom, amp_mode="fp32", micro_batch_size=64, accumulation_steps=1)
    skip = "tf32 on a CPU is the same as fp32"
    rows.append(failed_row("skipped", skip, amp_mode="tf32", micro_batch_size=16, accumulation_steps=4))
    return rows
