"""`bench run`: one trial from flags."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from bench.cli import main


def test_faults_of_flags_are_named_by_flag_all_at_once() -> None:
    """No file, so no lines: each fault names its flag and the way out."""
    result = CliRunner().invoke(main, ["run", "--model", "gpt2-nan", "--micro-batch-size", "0", "--device", "cpu"])
    assert result.exit_code == 2
    assert "--model = gpt2-nan is not one of" in result.stderr
    assert "Did you mean gpt2-nano?" in result.stderr
    assert "--micro-batch-size = 0" in result.stderr
    assert "Add --global-batch-size" in result.stderr


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
