"""`bench run`: one trial from flags."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from bench.cli import main
from bench.measure.host import usable_cores


def test_faults_of_flags_are_named_by_flag_all_at_once() -> None:
    """No file, so no lines: each fault names its flag and the way out."""
    result = CliRunner().invoke(main, ["run", "--model", "gpt2-nan", "--micro-batch-size", "0", "--device", "cpu"])
    assert result.exit_code == 2
    assert "--model = gpt2-nan is not one of" in result.stderr
    assert "Did you mean gpt2-nano?" in result.stderr
    assert "--micro-batch-size = 0" in result.stderr
    assert "Add --global-batch-size" in result.stderr


def test_trial_that_would_be_skipped_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing to run: a wrong command, with the reason that the sweep would give."""
    monkeypatch.chdir(tmp_path)
    flags = "--model gpt2-nano --global-batch-size 4 --micro-batch-size 2 --device cpu --amp-mode tf32"
    result = CliRunner().invoke(main, ["run", *flags.split()])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: This trial cannot run here: ")
    assert "tf32" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_file_of_data_that_is_not_there_is_named_by_its_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a folder is made."""
    monkeypatch.chdir(tmp_path)
    flags = "--model gpt2-nano --global-batch-size 4 --micro-batch-size 2 --device cpu --tokens none.bin"
    result = CliRunner().invoke(main, ["run", *flags.split()])
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert result.stderr.startswith("Error: --tokens = none.bin: there is no file")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="this kernel does not tell who uses the cores")
def test_launch_on_cores_that_others_use_is_flagged(tmp_path: Path) -> None:
    """Two processes that never wait, on each core: real counters, a real launch."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * usable_cores())]
    try:
        flags = "--model gpt2-nano --global-batch-size 4 --micro-batch-size 2 --seq-len 32 --device cpu"
        length = "--warmup-updates 1 --updates 60 --quality-updates 0"
        result = CliRunner().invoke(main, ["run", *flags.split(), *length.split(), "--out", str(tmp_path / "one")])
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert result.exit_code == 0, result.stderr
    row = pd.read_parquet(tmp_path / "one" / "results.parquet").iloc[0]
    assert row["others_cpu_share"] > 0.05
    assert row["cpu_wait_share"] > 0.02
    assert "host_busy" in row["flags"]
    assert "host_busy" in result.stdout


@pytest.mark.slow
def test_one_trial_from_flags_leaves_the_layout_of_a_sweep(tmp_path: Path) -> None:
    """The same files as a sweep, the settings among them, and the row on stdout."""
    flags = "--model gpt2-nano --global-batch-size 4 --micro-batch-size 2 --seq-len 32 --device cpu"
    length = "--warmup-updates 1 --updates 2 --quality-updates 3"
    out = tmp_path / "one"
    result = CliRunner().invoke(main, ["run", *flags.split(), *length.split(), "--out", str(out)])
    assert result.exit_code == 0, result.stderr
    assert "2 x 2" in result.stdout
    row = pd.read_parquet(out / "results.parquet").iloc[0]
    assert (row["outcome"], row["micro_batch_size"], row["accumulation_steps"]) == ("ok", 2, 2)
    assert "gpt2-nano" in (out / "sweep.yaml").read_text()
