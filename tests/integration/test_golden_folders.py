"""Folders frozen as each version wrote them: still read, shown and gone on with; those of a newer version are not."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from bench.cli import main
from bench.drive import folder as run_folder
from bench.errors import StorageError
from bench.record import parquet_file
from bench.record.columns import COLUMNS, SCHEMA_VERSION
from bench.record.journal import read_journal
from bench.sweep.file import load_sweep
from bench.sweep.trial import Sweep
from tests.data.make_golden import FACTS, GOLDEN
from tests.integration import trivial

ARCHIVES = sorted(GOLDEN.glob("*.tar.xz"))


@pytest.fixture(params=ARCHIVES, ids=[path.name.removesuffix(".tar.xz") for path in ARCHIVES])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unpack a frozen folder, on a machine with the torch, and in a version with the measuring, that it was made by."""
    folder = tmp_path / "results"
    with tarfile.open(request.param) as tar:
        tar.extractall(folder, filter="data")
    header = read_journal(folder / "journal.jsonl")[0]
    monkeypatch.setattr(run_folder, "software_versions", lambda: {"torch": header["torch"]})
    monkeypatch.setattr(run_folder, "MEASUREMENT_VERSION", header["measurement_version"])
    return folder


def facts_of(folder: Path) -> list[dict[str, Any]]:
    """Read what was written down when the folder was frozen."""
    facts: list[dict[str, Any]] = json.loads((folder / FACTS).read_text())
    return facts


def sweep_of(folder: Path, **axes: Any) -> Sweep:
    """Load the sweep file as it was run, with some axes changed."""
    document = json.loads((folder / "sweep.yaml").read_text())
    document["axes"].update(axes)
    path = folder.with_name("sweep.yaml")
    path.write_text(json.dumps(document))
    return load_sweep(path)


def show(path: Path) -> Any:
    """Run `bench show` on it."""
    return CliRunner().invoke(main, ["show", str(path), "--format", "json"])


def shown(path: Path) -> list[dict[str, Any]]:
    """Give the rows that `bench show` prints, with the fields of `facts_of`, null where it leaves one out."""
    done = show(path)
    assert done.exit_code == 0, done.output
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return [{name: row.get(name) for name in facts_of(path)[0]} for row in rows]


def test_every_declared_column_was_frozen_before_the_schema_moved_on() -> None:
    """One archive at least is of this schema; a changed one has another version or more columns."""
    names = [path.name for path in ARCHIVES]
    assert any(name.startswith(f"schema-{SCHEMA_VERSION}-") for name in names), "run python -m tests.data.make_golden"
    assert all(int(name.split("-")[3].split(".")[0]) <= len(COLUMNS) for name in names)


def test_frozen_folder_is_shown_as_it_was_written(folder: Path) -> None:
    """By its tables, and by its parts when the tables are gone."""
    assert shown(folder) == facts_of(folder)
    for name in ("results.parquet", "updates.parquet"):
        (folder / name).unlink()
    launched = [fact for fact in facts_of(folder) if fact["round"] is not None]
    assert sorted(shown(folder), key=repr) == sorted(launched, key=repr)


def test_frozen_folder_is_gone_on_with(folder: Path) -> None:
    """Nothing of it runs again: the ids of its trials are what they were. A new value of an axis runs alone."""
    assert trivial.run(sweep_of(folder), folder).launched == 0
    assert shown(folder) == facts_of(folder)
    launcher = trivial.InstantLauncher()
    assert trivial.run(sweep_of(folder, micro_batch_size=[2, 3, 4]), folder, launcher=launcher).launched == 2
    rows = trivial.facts_of(folder)
    assert len(rows) == 6
    old = [fact for fact in facts_of(folder) if fact["round"] is not None]
    for fact in old:
        (row,) = rows[rows["trial_id"] == fact["trial_id"]].to_dict("records")
        assert {name: None if pd.isna(row[name]) else row[name] for name in fact} == fact


def test_failure_in_a_frozen_folder_is_tried_again_when_asked(folder: Path) -> None:
    """The attempts of the older version count."""
    failed = [fact["trial_id"] for fact in facts_of(folder) if fact["outcome"] == "failed"]
    launcher = trivial.InstantLauncher()
    trivial.run(sweep_of(folder), folder, launcher=launcher, retry_failed=True)
    assert launcher.launched == [f"{trial_id}-r0-a1" for trial_id in failed]


def test_frozen_folder_is_refused_by_a_version_that_is_older_than_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real folder, read by a tool that knows one version less: by name, for show and for sweep; nothing changes."""
    version = read_journal(folder / "journal.jsonl")[0]["schema_version"]
    monkeypatch.setattr(parquet_file, "SCHEMA_VERSION", version - 1)
    monkeypatch.setattr(run_folder, "SCHEMA_VERSION", version - 1)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}
    for path in (folder, folder / "results.parquet"):
        done = show(path)
        assert done.exit_code == 4
        assert f"schema_version {version} is newer than {version - 1}" in done.stderr
        assert "results.parquet" in done.stderr
    with pytest.raises(StorageError, match=rf"results: schema_version {version} is newer than {version - 1}"):
        trivial.run(sweep_of(folder), folder)
    assert {path: path.read_bytes() for path in before} == before
