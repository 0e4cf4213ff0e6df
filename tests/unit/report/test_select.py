"""Results are read from folders and files, typed, selected and joined."""

import subprocess
import sys

import pytest

from bench.errors import BenchError, StorageError
from bench.record.journal import Journal
from bench.record.store import rebuild_tables, write_part
from bench.report.select import load_results, rows_of, select_table, select_updates
from tests.strategies import failed_row, ok_row, quickstart_rows, write_results


@pytest.fixture
def folder(tmp_path):
    write_results(tmp_path / "quick", quickstart_rows())
    return tmp_path / "quick"


def test_a_folder_and_its_file_give_the_same_rows(folder):
    """RESULTS may be either."""
    assert select_table([folder]).equals(select_table([folder / "results.parquet"]))


def test_several_results_follow_each_other(folder, tmp_path):
    """Two folders give the rows of both, in the order named, each with the name of its own."""
    write_results(tmp_path / "later", [{**row, "started_utc": "2026-11-30T12:00:00Z"} for row in quickstart_rows()])
    count = len(quickstart_rows())
    table = select_table([folder, tmp_path / "later"])
    assert table.column("folder").to_pylist() == ["quick"] * count + ["later"] * count
    assert len(select_table([folder, tmp_path / "later"], ["folder == later"])) == count


def test_all_conditions_must_hold(folder):
    """Conditions are joined by and."""
    rows = select_table([folder], ["amp_mode == bf16", "micro_batch_size < 16"]).to_pylist()
    assert [(row["amp_mode"], row["micro_batch_size"]) for row in rows] == [("bf16", 1), ("bf16", 4)]


def test_a_frame_keeps_integers_with_missing_values(folder):
    """No byte count passes through a float."""
    frame = load_results([folder], ["outcome != skipped"])
    assert str(frame["peak_allocated_bytes"].dtype) == "Int64"
    assert str(frame["activation_checkpointing"].dtype) == "boolean"
    assert frame["peak_allocated_bytes"].isna().sum() == 1


def test_rows_of_a_frame_and_of_a_table_are_the_same(folder):
    """Whatever a notebook did to get its frame, missing is None and numbers are plain."""
    table = select_table([folder]).drop_columns(["source"])
    assert rows_of(load_results([folder])) == rows_of(table)


def test_an_unfinished_sweep_is_read_from_its_journal(tmp_path):
    """Before the tables are built, the finished launches can be seen already."""
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append({"kind": "header"})
        for row in (ok_row(), failed_row(trial_id="b" * 12)):
            journal.append({"kind": "launch", **write_part(tmp_path, row, []).journal_fields()})
    assert [row["outcome"] for row in select_table([tmp_path]).to_pylist()] == ["ok", "oom"]


def record(journal, folder, row, kind="launch"):
    """Store a launch, and say so in the journal."""
    key = {name: row[name] for name in ("trial_id", "round", "attempt")}
    info = write_part(folder, row, [{"update": 0, "phase": "timed", "seconds": 0.5 + row["attempt"]}])
    journal.append({"kind": kind, **key, **info.journal_fields()})
    return info


def test_table_that_the_journal_has_outrun_is_not_read(tmp_path):
    """A sweep was extended and killed before it made its tables anew: what finished since is shown, not left out."""
    with Journal(tmp_path / "journal.jsonl") as journal:
        first = record(journal, tmp_path, ok_row(trial_id="a" * 12))
        rebuild_tables(tmp_path, [first])
        assert select_table([tmp_path]).column("trial_id").to_pylist() == ["a" * 12]
        assert select_updates(tmp_path).column("seconds").to_pylist() == [0.5]
        record(journal, tmp_path, ok_row(trial_id="b" * 12))
        record(journal, tmp_path, ok_row(trial_id="a" * 12, attempt=1))
    assert select_table([tmp_path]).column("attempt").to_pylist() == [1, 0]
    assert select_updates(tmp_path).column("seconds").to_pylist() == [1.5, 0.5]


def test_part_that_was_found_damaged_is_not_asked_for_again(tmp_path):
    """While its launch is run again, the others can be seen."""
    with Journal(tmp_path / "journal.jsonl") as journal:
        bad = record(journal, tmp_path, ok_row(trial_id="a" * 12))
        record(journal, tmp_path, ok_row(trial_id="b" * 12))
        (tmp_path / bad.part).write_bytes(b"")
        with pytest.raises(StorageError, match="damaged"):
            select_table([tmp_path])
        key = {"trial_id": "a" * 12, "round": 0, "attempt": 0}
        journal.append({"kind": "damaged", **key, "part": bad.part, "reason": "tested"})
    assert select_table([tmp_path]).column("trial_id").to_pylist() == ["b" * 12]


def test_what_holds_no_results_is_named(tmp_path):
    """A wrong path says what was expected there."""
    with pytest.raises(BenchError, match="nowhere: no such file or folder"):
        select_table([tmp_path / "nowhere"])
    with pytest.raises(BenchError, match=r"it has neither results\.parquet nor journal\.jsonl"):
        select_table([tmp_path])
    (tmp_path / "results.parquet").write_bytes(b"PAR1")
    with pytest.raises(StorageError, match=r"results\.parquet"):
        select_table([tmp_path])


def test_selecting_imports_neither_torch_nor_pandas(folder):
    """`bench show` starts fast and works where torch is not installed."""
    code = (
        "import sys; sys.modules['torch'] = None; from pathlib import Path;"
        "from bench.report.select import select_table; from bench.report.table import render;"
        f"print(render(select_table([Path({str(folder)!r})], ['micro_batch_size > 1'])));"
        "assert 'pandas' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
