"""`bench sweep` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from bench.cli import main

NANO = """\
# Does it run?
format: 1
name: nano
base:
  device: cpu
  model: {preset: gpt2-nano}
  data: {synthetic: {documents: 200, mean_tokens: 20}, rows: ragged}
  seq_len: 32
  global_batch_size: 4
axes:
  micro_batch_size: [1, 2, 3, 4]
measure: {warmup_updates: 1, updates: 2, quality_updates: 4}
"""


def test_faulty_file_starts_no_launch(tmp_path: Path) -> None:
    """Every fault with its line, exit 2, and no results folder."""
    path = tmp_path / "bad.yaml"
    path.write_text(NANO.replace("gpt2-nano", "gpt2-nan").replace("seq_len", "seqlen"))
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["sweep", str(path), "--out", str(out)])
    assert result.exit_code == 2
    assert f"{path}:6: base.model.preset = gpt2-nan" in result.stderr
    assert f"{path}:8: base.seqlen" in result.stderr
    assert not out.exists()


def test_folder_that_cannot_be_made_is_exit_4(tmp_path: Path) -> None:
    """Named before anything runs."""
    (tmp_path / "sweep.yaml").write_text(NANO)
    (tmp_path / "file").write_text("in the way")
    result = CliRunner().invoke(main, ["sweep", str(tmp_path / "sweep.yaml"), "--out", str(tmp_path / "file" / "out")])
    assert result.exit_code == 4
    assert "--out" in result.stderr


def test_only_about_what_is_known_after_a_launch_is_refused(tmp_path: Path) -> None:
    """`--only` selects by settings."""
    (tmp_path / "sweep.yaml").write_text(NANO)
    arguments = ["sweep", str(tmp_path / "sweep.yaml"), "--out", str(tmp_path / "out"), "--only", "timed_s > 3"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "not known before a launch" in result.stderr


def test_only_that_no_trial_meets_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    """A slip in a value is not a finished sweep."""
    (tmp_path / "sweep.yaml").write_text(NANO)
    out = tmp_path / "out"
    arguments = ["sweep", str(tmp_path / "sweep.yaml"), "--out", str(out), "--only", "micro_batch_size == 7"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "no trial matches --only 'micro_batch_size == 7'" in result.stderr
    assert "micro_batch_size: 1, 2, 4" in result.stderr
    assert not out.exists()


@pytest.mark.slow
def test_sweep_from_file_to_table_and_plot_in_two_parts(tmp_path: Path) -> None:
    """A part by --only, then the rest; then nothing is missing; progress stays off stdout."""
    (tmp_path / "sweep.yaml").write_text(NANO)
    arguments = ["sweep", str(tmp_path / "sweep.yaml"), "--out", str(tmp_path / "out")]
    part = CliRunner().invoke(main, [*arguments, "--only", "micro_batch_size <= 2"])
    assert part.exit_code == 0, part.stderr
    assert "1/2" in part.stderr
    whole = CliRunner().invoke(main, arguments)
    assert whole.exit_code == 0, whole.stderr
    assert "1/1" in whole.stderr
    assert "1/1" not in whole.stdout
    assert "results" in whole.stdout
    table = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert table["outcome"].tolist() == ["ok", "ok", "skipped", "ok"]
    assert (tmp_path / "out" / "plots" / "memory_throughput.png").stat().st_size > 10_000
    again = CliRunner().invoke(main, arguments)
    assert "nothing left to run" in again.stderr
    shown = CliRunner().invoke(main, ["show", str(tmp_path / "out"), "--format", "json"])
    assert len(json.loads(shown.stdout)["rows"]) == 4


def test_mistyped_command_gets_the_nearest_name() -> None:
    """As keys of sweep files do; something else entirely gets click's own words."""
    near = CliRunner().invoke(main, ["swep", "x.yaml"])
    assert near.exit_code == 2
    assert "Did you mean sweep?" in near.stderr
    assert CliRunner().invoke(main, ["frobnicate"]).exit_code == 2
