"""Parts and tables come back exactly as they were stored, or not at all."""

import contextlib
import random

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.errors import StorageError
from bench.record.columns import COLUMNS, SCHEMA_VERSION
from bench.record.columns.updates import UPDATE_COLUMNS
from bench.record.digest import table_digest
from bench.record.parquet_file import _DIGEST_KEY, _SOURCE_KEY
from bench.record.schema import VERSION_KEY
from bench.record.store import (
    PartInfo,
    read_part,
    read_table,
    read_update_table,
    rebuild_tables,
    verify_part,
    write_part,
)
from tests.strategies import failed_row, numbered, ok_row, quickstart_rows, rows, update_rows, write_results

BIG = 9007199254740993
"""The first integer that a float cannot hold, plus one."""
UPDATES = [{"update": n, "phase": "timed", "seconds": 0.5, "train_loss": 4.0, "result": "applied"} for n in range(3)]


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(row=rows(), updates=st.lists(update_rows(), max_size=3))
def test_a_part_comes_back_as_it_was(tmp_path, row, updates):
    """Writing and reading is the identity; what a row lacks is null."""
    info = write_part(tmp_path, row, updates)
    (read_row,), read_updates = (table.to_pylist() for table in read_part(tmp_path, info))
    expected = {column.name: None for column in COLUMNS} | row | {"schema_version": SCHEMA_VERSION}
    assert repr(read_row) == repr(expected) or repr(as_floats(read_row)) == repr(as_floats(expected))
    key = {name: row[name] for name in ("trial_id", "round", "attempt")}
    assert repr(read_updates) == repr([{c.name: None for c in UPDATE_COLUMNS} | update | key for update in updates])


def as_floats(row):
    """Write every value of a float column as a float: an integer stored there comes back as one."""
    floats = {column.name for column in COLUMNS if column.kind == "float64"}
    return {name: float(value) if name in floats and value is not None else value for name, value in row.items()}


def test_a_part_is_named_after_its_key(tmp_path):
    """File names and hashes are those the journal will hold."""
    info = write_part(tmp_path, ok_row(round=1, attempt=2), [])
    assert info.part == "parts/0123456789ab-r1-a2.parquet"
    assert info.updates_part == "parts/0123456789ab-r1-a2.updates.parquet"
    assert PartInfo.from_journal({"kind": "launch", **info.journal_fields()}) == info
    assert sorted(p.name for p in (tmp_path / "parts").iterdir()) == [
        "0123456789ab-r1-a2.parquet",
        "0123456789ab-r1-a2.updates.parquet",
    ]


@pytest.mark.parametrize("which", ["part", "updates_part"])
def test_every_truncation_and_any_flipped_bit_of_a_part_is_found(tmp_path, which):
    """The hash in the journal leaves no damage unnoticed."""
    info = write_part(tmp_path, ok_row(), UPDATES)
    path = tmp_path / getattr(info, which)
    content = path.read_bytes()
    seeded = random.Random(0)
    damaged = [content[:size] for size in range(0, len(content), max(1, len(content) // 200))]
    for position in seeded.sample(range(len(content) * 8), 200):
        flipped = bytearray(content)
        flipped[position // 8] ^= 1 << (position % 8)
        damaged.append(bytes(flipped))
    for bad in damaged:
        path.write_bytes(bad)
        with pytest.raises(StorageError, match="its hash is not the one in the journal"):
            verify_part(tmp_path, info)
    with pytest.raises(StorageError, match="its hash is not the one in the journal"):
        read_part(tmp_path, info)
    path.write_bytes(content)
    verify_part(tmp_path, info)


def flips(content, count, seed):
    for position in random.Random(seed).sample(range(len(content) * 8), count):
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << (position % 8)
        yield bytes(damaged)


def check_damage(path, damaged, good):
    """Read damaged bytes: either refused by name, or every value as it was."""
    for bad in damaged:
        path.write_bytes(bad)
        with contextlib.suppress(StorageError):
            assert read_table(path).equals(good)


def test_a_damaged_table_is_never_read_as_other_values(tmp_path):
    """Truncations and flipped bits of results.parquet, which no journal guards, give no wrong value."""
    write_results(tmp_path, quickstart_rows())
    path = tmp_path / "results.parquet"
    content, good = path.read_bytes(), read_table(path)
    sizes = range(0, len(content), len(content) // 20)
    check_damage(path, [*(content[:size] for size in sizes), *flips(content, 20, seed=1)], good)


def test_values_changed_behind_a_valid_file_are_found(tmp_path):
    """Page checksums that fit say nothing about a file whose rows were swapped or edited; the digest does."""
    write_results(tmp_path, quickstart_rows())
    path = tmp_path / "results.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    with pytest.raises(StorageError, match=r"results\.parquet: damaged: its content does not match its checksum"):
        read_table(path)


@pytest.mark.slow
def test_a_thousand_flips_of_a_table_are_never_silent(tmp_path):
    """The reliability goal, at its full size."""
    write_results(tmp_path, quickstart_rows())
    path = tmp_path / "results.parquet"
    check_damage(path, flips(path.read_bytes(), 1000, seed=2), read_table(path))


def test_large_integers_and_nulls_survive_in_one_column(tmp_path):
    """A failed row does not turn byte counts into floats, in Arrow, in pandas or in a second reader."""
    write_results(tmp_path, [ok_row(peak_allocated_bytes=BIG), failed_row()])
    path = tmp_path / "results.parquet"
    assert read_table(path).column("peak_allocated_bytes").to_pylist() == [BIG, None]
    frame = pd.read_parquet(path)
    assert str(frame["peak_allocated_bytes"].dtype) == "Int64"
    assert frame["peak_allocated_bytes"][0] == BIG
    assert frame["peak_allocated_bytes"].isna().tolist() == [False, True]
    assert pq.read_table(path).column("peak_allocated_bytes").to_pylist() == [BIG, None]


def test_no_column_is_lost_or_changes_type_when_all_its_values_are_null(tmp_path):
    """The declared schema holds whatever the rows lack."""
    write_results(tmp_path, [failed_row()])
    table = read_table(tmp_path / "results.parquet")
    assert table.column_names == [column.name for column in COLUMNS]
    assert str(table.schema.field("alloc_retries").type) == "int64"
    assert str(table.schema.field("flags").type) == "list<element: string>"


def test_the_last_attempt_of_each_round_is_kept(tmp_path):
    """A repeated launch replaces the earlier attempt in the tables; the earlier part stays on disk."""
    infos = [
        write_part(tmp_path, row, UPDATES)
        for row in (ok_row(attempt=2, timed_s=2.0), failed_row(attempt=1), ok_row(round=1, attempt=0, timed_s=4.0))
    ]
    rebuild_tables(tmp_path, infos)
    rebuilt = read_table(tmp_path / "results.parquet").to_pylist()
    assert [(row["round"], row["attempt"], row["outcome"]) for row in rebuilt] == [(0, 2, "ok"), (1, 0, "ok")]
    updates = read_update_table(tmp_path / "updates.parquet").to_pylist()
    assert [(u["round"], u["attempt"], u["update"]) for u in updates] == [
        (r, a, n) for r, a in ((0, 2), (1, 0)) for n in range(3)
    ]


def test_rows_follow_the_sweep_file_then_the_round(tmp_path):
    """Launches ran in shuffled order; readers find them as they were asked for, skips in their place."""
    shuffled = [ok_row(trial_id=trial, round=number) for trial, number in (("c", 1), ("a", 1), ("c", 0), ("a", 0))]
    skip = {"trial_id": "b", "outcome": "skipped", "reason": "why"}
    rebuild_tables(tmp_path, [write_part(tmp_path, row, []) for row in shuffled], [skip], ["a", "b", "c"])
    rebuilt = read_table(tmp_path / "results.parquet").to_pylist()
    assert [(row["trial_id"], row["round"]) for row in rebuilt] == [("a", 0), ("a", 1), ("b", None), ("c", 0), ("c", 1)]


def test_a_damaged_part_stops_the_rebuild_and_keeps_the_tables(tmp_path):
    """Tables are replaced by complete ones only."""
    infos = write_results(tmp_path, quickstart_rows())
    before = (tmp_path / "results.parquet").read_bytes()
    (tmp_path / infos[3].part).write_bytes(b"")
    with pytest.raises(StorageError, match=infos[3].part):
        rebuild_tables(tmp_path, infos[1:])
    assert (tmp_path / "results.parquet").read_bytes() == before


def test_current_tables_are_left_alone_and_damaged_ones_made_anew(tmp_path):
    """A finished sweep does not write again; a table that was damaged since is repaired from the parts."""
    infos = write_results(tmp_path, quickstart_rows())
    path = tmp_path / "results.parquet"
    before = path.stat().st_ino
    rebuild_tables(tmp_path, infos)
    assert path.stat().st_ino == before
    good = path.read_bytes()
    path.write_bytes(good[:-20])
    rebuild_tables(tmp_path, infos)
    assert path.read_bytes() == good


def test_no_launch_at_all_makes_empty_tables(tmp_path):
    """A sweep whose trials were all skipped still has tables of the right shape."""
    rebuild_tables(tmp_path, [])
    assert len(read_table(tmp_path / "results.parquet")) == 0
    assert read_update_table(tmp_path / "updates.parquet").column_names == [column.name for column in UPDATE_COLUMNS]


def rewrite(path, change=lambda table: table, more=None):
    """Store a table as another version of the tool would have."""
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata) | (more or {})
    table = change(table)
    version, source = int(metadata[VERSION_KEY]), metadata[_SOURCE_KEY].decode()
    metadata[_DIGEST_KEY] = table_digest(table, version, source).encode()
    pq.write_table(table.replace_schema_metadata(metadata), path)


def test_a_table_of_an_older_version_is_read_with_nulls(tmp_path):
    """Columns added since are null in what was written before them."""
    write_results(tmp_path, quickstart_rows())
    path = tmp_path / "results.parquet"
    rewrite(path, lambda table: table.drop_columns(["final_train_loss", "flags"]))
    rows_read = read_table(path).to_pylist()
    assert [row["final_train_loss"] for row in rows_read] == [None] * len(rows_read)
    assert rows_read[0]["valid_tokens"] == 163_840


def test_a_table_of_a_newer_version_is_refused_by_name(tmp_path):
    """What a newer tool meant is not guessed at."""
    write_results(tmp_path, quickstart_rows())
    path = tmp_path / "results.parquet"
    newer = {VERSION_KEY: str(SCHEMA_VERSION + 1).encode()}
    rewrite(path, more=newer)
    with pytest.raises(StorageError, match=rf"results\.parquet: schema_version {SCHEMA_VERSION + 1} is newer"):
        read_table(path)


def test_a_column_nobody_declared_is_refused_by_name(tmp_path):
    """A file with more columns than its version has is not ours."""
    write_results(tmp_path, quickstart_rows())
    path = tmp_path / "results.parquet"
    rewrite(path, lambda table: table.rename_columns({"seed": "sead"}))
    with pytest.raises(
        StorageError, match="another version of bench: it has columns that this version does not know: sead"
    ):
        read_table(path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"hello\n" * 9])
def test_a_file_that_is_no_parquet_is_refused_by_name(tmp_path, content):
    """Empty and foreign files are named, not tracebacks."""
    path = tmp_path / "results.parquet"
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"results\.parquet: damaged or not a results file"):
        read_table(path)


def test_a_parquet_file_of_someone_else_is_refused_by_name(tmp_path):
    """Valid parquet without our version is foreign."""
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(StorageError, match=r"other\.parquet: parquet, but not a results file"):
        read_table(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"micro_batch_size": "auto"}, "micro_batch_size = 'auto' is not int64"),
        ({"throughput": 1.0}, "throughput is not a declared column"),
        ({"round": None}, "needs trial_id, round and attempt"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_before_anything_is_written(tmp_path, change, message):
    """Mixed types and unknown names surface at the row that has them, not at the end of the sweep."""
    with pytest.raises(ValueError, match=message):
        write_part(tmp_path, {**ok_row(), **change}, [])
    assert list(tmp_path.iterdir()) == []


def test_text_that_is_not_unicode_does_not_lose_the_row(tmp_path):
    """An error text may quote any bytes; the rest of the row is worth more than a letter."""
    info = write_part(tmp_path, failed_row(error_text="bad \udcff byte", flags=["\udc80"]), [])
    (row,) = read_part(tmp_path, info)[0].to_pylist()
    assert (row["error_text"], row["flags"]) == ("bad ? byte", ["?"])


def test_units_and_sentences_travel_in_the_file(tmp_path):
    """Whoever opens the file with another tool finds what a column means."""
    write_results(tmp_path, numbered(quickstart_rows()))
    field = pq.read_schema(tmp_path / "results.parquet").field("peak_allocated_bytes")
    assert field.metadata[b"unit"] == b"byte"
    assert b"live tensors" in field.metadata[b"description"]
