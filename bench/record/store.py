"""Store finished launches: one pair of parquet parts each, and the two tables rebuilt from the parts.

`folder` is always the results folder of one sweep. Parts are named by hash in the journal, so that a part is either
exactly what was written or is found to be damaged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.errors import StorageError
from bench.record.atomic import read_bytes, storage_error, write_atomically, write_together
from bench.record.column_types import Column, row_faults
from bench.record.columns import COLUMN_BY_NAME, SCHEMA_VERSION, UPDATE_COLUMN_BY_NAME
from bench.record.parquet_file import (
    decode_part,
    decode_table,
    encode_part,
    encode_table,
    table_of_rows,
    table_source,
)
from bench.record.schema import bare, schema, update_schema

RESULTS_NAME = "results.parquet"
UPDATES_NAME = "updates.parquet"


@dataclass(frozen=True)
class PartInfo:
    """Name the two parts of one launch and the bytes they must hold; its fields go into the journal as they are."""

    part: str
    """File of the row, relative to the results folder, with forward slashes."""
    sha256: str
    """SHA-256 of that file, hexadecimal."""
    updates_part: str
    """File of the update rows, relative to the results folder."""
    updates_sha256: str
    """SHA-256 of that file, hexadecimal."""

    def journal_fields(self) -> dict[str, str]:
        """Return the fields as the journal stores them."""
        return asdict(self)

    @classmethod
    def from_journal(cls, record: Mapping[str, Any]) -> PartInfo:
        """Build from a journal record of kind "launch"."""
        return cls(record["part"], record["sha256"], record["updates_part"], record["updates_sha256"])


def part_name(trial_id: str, round_number: int, attempt: int) -> str:
    """Name the file of a launch's row, relative to the results folder."""
    return f"parts/{trial_id}-r{round_number}-a{attempt}.parquet"


def write_part(folder: Path, row: Mapping[str, Any], updates: Sequence[Mapping[str, Any]]) -> PartInfo:
    """Write one launch's row and update rows, durable on return; a missing key is stored as null.

    Fills `schema_version`, and `trial_id`, `round` and `attempt` of the update rows, from what it knows.

    Raises:
        ValueError: A name is not declared, a value does not fit its column, or the key of the row is missing.
        StorageError: The system refused; names the path.
    """
    key = {name: row.get(name) for name in ("trial_id", "round", "attempt")}
    if None in key.values():
        raise ValueError(f"a part needs trial_id, round and attempt; got {key}")
    name = part_name(row["trial_id"], row["round"], row["attempt"])
    names = (name, name.removesuffix(".parquet") + ".updates.parquet")
    contents = (
        _encode([{**row, "schema_version": SCHEMA_VERSION}], COLUMN_BY_NAME, schema()),
        _encode([{**update, **key} for update in updates], UPDATE_COLUMN_BY_NAME, update_schema()),
    )
    _make_parts_folder(folder)
    write_together({folder / name: content for name, content in zip(names, contents, strict=True)})
    hashes = [hashlib.sha256(content).hexdigest() for content in contents]
    return PartInfo(names[0], hashes[0], names[1], hashes[1])


def _make_parts_folder(folder: Path) -> None:
    """Make the folder of the parts, but not the results folder: where that is gone, so is the journal."""
    try:
        (folder / "parts").mkdir(exist_ok=True)
    except OSError as error:
        raise storage_error(folder / "parts", "cannot be made", error) from error


def verify_part(folder: Path, info: PartInfo) -> None:
    """Check that both parts hold the bytes the journal names, without parsing them.

    Raises:
        StorageError: A part is missing, unreadable or differs; names it.
    """
    _verified(folder, info.part, info.sha256)
    _verified(folder, info.updates_part, info.updates_sha256)


def read_part(folder: Path, info: PartInfo) -> tuple[pa.Table, pa.Table]:
    """Read one launch back, its row and its update rows, as tables of the declared schemas, checked against the hashes.

    Raises:
        StorageError: A part is missing, damaged or of a newer version; names it.
    """
    results_content = _verified(folder, info.part, info.sha256)
    updates_content = _verified(folder, info.updates_part, info.updates_sha256)
    results = decode_part(results_content, schema(), folder / info.part)
    updates = decode_part(updates_content, update_schema(), folder / info.updates_part)
    if len(results) != 1:
        raise StorageError(f"{folder / info.part}: holds {len(results)} rows instead of one.")
    return results, updates


def rebuild_tables(
    folder: Path,
    parts: Iterable[PartInfo],
    extra_rows: Iterable[Mapping[str, Any]] = (),
    trial_order: Sequence[str] = (),
) -> None:
    """Write `results.parquet` and `updates.parquet` anew: the last attempt of every (trial_id, round).

    Tables that already were made from exactly these parts and rows, and are undamaged, are left as they are.

    Args:
        folder: Results folder.
        parts: Parts in any order; of several attempts the largest number wins.
        extra_rows: Rows of trials that have no part (skipped, pruned).
        trial_order: Trial ids in the order of the sweep file; rows are sorted by it, then by round. Trials that it
            does not name follow in the order given.

    Raises:
        StorageError: A part is damaged (names it; the tables on disk stay as they were), or the system refused.
        ValueError: An extra row does not fit the columns.
    """
    parts, extra_rows = list(parts), [{**row, "schema_version": SCHEMA_VERSION} for row in extra_rows]
    made_from = _source_hash(parts, extra_rows, trial_order)
    if _is_current(folder, made_from):
        return
    results, updates = collect_parts(folder, parts)
    results = pa.concat_tables([results, table_of_rows(_checked(extra_rows, COLUMN_BY_NAME), schema())])
    # results.parquet last: where it is current, the other one is.
    for name, table in ((UPDATES_NAME, updates), (RESULTS_NAME, results)):
        write_atomically(folder / name, encode_table(_sorted(table, trial_order), made_from))


def collect_parts(folder: Path, parts: Iterable[PartInfo]) -> tuple[pa.Table, pa.Table]:
    """Join parts in memory: results and updates of the last attempt of every (trial_id, round).

    Raises:
        StorageError: A part is missing or damaged; names it.
    """
    last = _last_attempts([read_part(folder, info) for info in parts])
    results = pa.concat_tables([schema().empty_table(), *(row for row, _ in last)])
    return results, pa.concat_tables([update_schema().empty_table(), *(table for _, table in last)])


def read_table(path: Path) -> pa.Table:
    """Read a results file written by this or an older version, every value checked.

    Raises:
        StorageError: The file is missing, damaged, foreign or of a newer version; names it.
    """
    return decode_table(read_bytes(path), schema(), path)


def read_update_table(path: Path) -> pa.Table:
    """Read an updates file written by this or an older version, every value checked; raises like `read_table`."""
    return decode_table(read_bytes(path), update_schema(), path)


def _encode(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Column], declared: pa.Schema) -> bytes:
    return encode_part(table_of_rows(_checked(rows, columns), bare(declared)))


def _checked(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Column]) -> Sequence[Mapping[str, Any]]:
    faults = [fault for row in rows for fault in row_faults(columns, row)]
    if faults:
        raise ValueError("cannot be stored: " + "; ".join(faults))
    return rows


def _verified(folder: Path, name: str, sha256: str) -> bytes:
    content = read_bytes(folder / name)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise StorageError(f"{folder / name}: damaged: its hash is not the one in the journal.")
    return content


def _source_hash(parts: Sequence[PartInfo], extra_rows: Sequence[Mapping[str, Any]], trial_order: Sequence[str]) -> str:
    source = [[asdict(part) for part in parts], extra_rows, list(trial_order), SCHEMA_VERSION]
    return hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()


def _is_current(folder: Path, made_from: str) -> bool:
    try:
        return all(
            table_source((folder / name).read_bytes(), declared, folder / name) == made_from
            for name, declared in ((UPDATES_NAME, update_schema()), (RESULTS_NAME, schema()))
        )
    except (OSError, StorageError):
        return False


def _last_attempts(launches: Sequence[tuple[pa.Table, pa.Table]]) -> list[tuple[pa.Table, pa.Table]]:
    last: dict[tuple[Any, Any], tuple[int, tuple[pa.Table, pa.Table]]] = {}
    for launch in launches:
        trial_id, round_, attempt = (launch[0].column(name)[0].as_py() for name in ("trial_id", "round", "attempt"))
        if (trial_id, round_) not in last or attempt >= last[trial_id, round_][0]:
            last[trial_id, round_] = (attempt, launch)
    return [launch for _, launch in last.values()]


def _sorted(table: pa.Table, trial_order: Sequence[str]) -> pa.Table:
    """Sort rows by place in `trial_order`, then by round; equal ones, and unnamed trials, keep their order."""
    place = {trial_id: index for index, trial_id in enumerate(trial_order)}
    trial_ids, rounds = table.column("trial_id").to_pylist(), table.column("round").to_pylist()
    keys = [
        (place[trial_id], -1 if round_ is None else round_) if trial_id in place else (len(place), 0)
        for trial_id, round_ in zip(trial_ids, rounds, strict=True)
    ]
    order = pa.array(sorted(range(len(table)), key=keys.__getitem__), type=pa.int64())
    return table.take(order).combine_chunks()
